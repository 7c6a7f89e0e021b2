//! What each unit of a run did.

use super::draw::{Draw, named};
use report::outcome::{Campaign, ClassUse, DriveActivity, DriveUse, Outcome};
use report::stats::Figure;
use scenario::model::Model;

/// What one unit did, of one figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Amount {
    /// The unit's weight.
    pub weight: f64,
    /// How much: the figure itself if it is a total, else its numerator.
    pub much: f64,
    /// Of how much: the denominator; 0 where the figure is a total.
    pub of: f64,
}

/// One figure, unit by unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// Which.
    pub figure: Figure,
    /// Whether it is a total, which grows with the number of units; else it is a ratio of two.
    pub is_total: bool,
    /// One for each unit.
    pub amounts: Vec<Amount>,
}

/// One run of several units.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    /// Units that were run.
    pub run: u32,
    /// Units that there are.
    pub units: u32,
    /// Its seed.
    pub seed: u64,
    /// All figures, in the order in which they are shown.
    pub figures: Vec<Observed>,
}

/// What a unit's parts did.
struct Unit<'o> {
    weight: f64,
    seconds: f64,
    drives: &'o [DriveUse],
    classes: &'o [ClassUse],
    /// By the unit's workloads; nothing for those that ask for nothing.
    campaigns: Vec<Option<&'o Campaign>>,
}

/// Takes an outcome of a drawn model apart. Everything counts from the beginning of the run.
///
/// Totals: read and written rates, files, mounts, bytes in the pool. Ratios of sums over all units: mounts
/// per TB, drives in use, efficiency, hit rates, mean waits. Means over units: other figures of waits, and
/// when a campaign was complete.
#[must_use]
pub fn observe(unit: &Model, draw: &Draw, outcome: &Outcome) -> Observation {
    let units = taken_apart(unit, draw, outcome);
    let mut figures = totals(&units);
    figures.extend(ratios(&units));
    for (at, workload) in unit.workloads.iter().enumerate() {
        figures.extend(of_workload(&workload.name, at, &units));
    }
    for (at, class) in unit.site.classes.iter().enumerate() {
        figures.extend(of_class(&class.name, at, &units));
    }
    let run = u32::try_from(draw.chosen.len()).unwrap_or(u32::MAX);
    Observation { run, units: draw.units, seed: draw.seed, figures }
}

fn taken_apart<'o>(unit: &Model, draw: &Draw, outcome: &'o Outcome) -> Vec<Unit<'o>> {
    let groups = unit.site.libraries.iter().flat_map(|library| &library.drives);
    let drives: usize = groups.map(|group| group.count as usize).sum();
    let classes = unit.site.classes.len();
    let campaigns = |number: usize| {
        let find = |name: String| outcome.campaigns.iter().find(move |campaign| campaign.name == name);
        unit.workloads.iter().map(|workload| find(named(&workload.name, number))).collect()
    };
    let each = draw.chosen.iter().zip(&draw.weights).enumerate();
    each.map(|(at, (number, weight))| Unit {
        weight: *weight,
        seconds: outcome.end,
        drives: outcome.drives.get(at * drives..(at + 1) * drives).unwrap_or_default(),
        classes: outcome.classes.get(at * classes..(at + 1) * classes).unwrap_or_default(),
        campaigns: campaigns(*number),
    })
    .collect()
}

impl Unit<'_> {
    fn drives(&self, of: impl Fn(&DriveUse) -> f64) -> f64 {
        self.drives.iter().map(of).sum()
    }

    fn classes(&self, of: impl Fn(&ClassUse) -> f64) -> f64 {
        self.classes.iter().map(of).sum()
    }

    fn campaigns(&self, of: impl Fn(&Campaign) -> f64) -> f64 {
        self.campaigns.iter().flatten().map(|campaign| of(campaign)).sum()
    }

    fn bytes(&self) -> f64 {
        self.drives(|drive| drive.read as f64 + drive.written as f64)
    }

    fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }
}

fn busy(drive: &DriveUse) -> f64 {
    let idle = [DriveActivity::Idle as usize, DriveActivity::Down as usize];
    all(drive) - idle.iter().map(|at| drive.seconds[*at]).sum::<f64>()
}

fn moving(drive: &DriveUse) -> f64 {
    drive.seconds[DriveActivity::Read as usize] + drive.seconds[DriveActivity::Write as usize]
}

fn all(drive: &DriveUse) -> f64 {
    drive.seconds.iter().sum()
}

fn figure(of: &str, name: &'static str, unit: &'static str) -> Figure {
    Figure { of: of.to_owned(), name, unit, is_main: true }
}

fn total(
    units: &[Unit<'_>],
    name: &'static str,
    unit: &'static str,
    much: impl Fn(&Unit<'_>) -> f64,
) -> Observed {
    let amounts = units.iter().map(|of| Amount { weight: of.weight, much: much(of), of: 0.0 });
    Observed { figure: figure("", name, unit), is_total: true, amounts: amounts.collect() }
}

fn ratio(units: &[Unit<'_>], figure: Figure, of: impl Fn(&Unit<'_>) -> (f64, f64)) -> Observed {
    let amount = |unit: &Unit<'_>| {
        let (much, of) = of(unit);
        Amount { weight: unit.weight, much, of }
    };
    Observed { figure, is_total: false, amounts: units.iter().map(amount).collect() }
}

fn totals(units: &[Unit<'_>]) -> Vec<Observed> {
    vec![
        total(units, "read from tape", "MB/s", |of| of.per_second(of.drives(|it| it.read as f64)) / 1e6),
        total(units, "written to tape", "MB/s", |of| of.per_second(of.drives(|it| it.written as f64)) / 1e6),
        total(units, "files served", "files", |of| of.campaigns(|it| it.served as f64)),
        total(units, "files put", "files", |of| of.classes(|it| it.put as f64)),
        total(units, "mounts", "", |of| of.drives(|it| it.mounts as f64)),
        total(units, "in the pool, mean", "bytes", |of| of.classes(|it| it.pool_mean)),
    ]
}

fn ratios(units: &[Unit<'_>]) -> Vec<Observed> {
    let native = |drive: &DriveUse| drive.native_rate as f64 * busy(drive);
    let after = |class: &ClassUse| class.migration_wait[0] * class.migrated as f64;
    vec![
        ratio(units, figure("", "mounts per TB", "/TB"), |of| {
            (of.drives(|it| it.mounts as f64), of.bytes() / 1e12)
        }),
        ratio(units, figure("", "drives in use", "%"), |of| (100.0 * of.drives(busy), of.drives(all))),
        ratio(units, figure("", "of that, moving data", "%"), |of| {
            (100.0 * of.drives(moving), of.drives(busy))
        }),
        ratio(units, figure("", "efficiency", "%"), |of| (100.0 * of.bytes(), of.drives(native))),
        ratio(units, figure("", "hit rate", "%"), |of| {
            (100.0 * of.classes(|it| it.hits as f64), of.classes(|it| it.wanted as f64))
        }),
        ratio(units, figure("", "on tape after, mean", "s"), |of| {
            (of.classes(after), of.classes(|it| it.migrated as f64))
        }),
    ]
}

fn of_workload(name: &str, at: usize, units: &[Unit<'_>]) -> Vec<Observed> {
    let campaign = |of: &Unit<'_>| of.campaigns.get(at).copied().flatten().map(Waits::of);
    let found: Vec<Option<Waits>> = units.iter().map(campaign).collect();
    let Some(ends) = found.iter().flatten().map(|waits| waits.ends).next() else { return Vec::new() };
    let subject = format!("{} {name}", if ends { "campaign" } else { "users" });
    let over_units = |name: &'static str, of: &dyn Fn(&Waits) -> Option<f64>| {
        let values = units.iter().zip(&found).map(|(unit, waits)| {
            let much = waits.as_ref().filter(|waits| waits.served > 0.0).and_then(of);
            Amount { weight: unit.weight, much: much.unwrap_or(0.0), of: f64::from(u8::from(much.is_some())) }
        });
        Observed { figure: figure(&subject, name, "s"), is_total: false, amounts: values.collect() }
    };
    let mean = units.iter().zip(&found).map(|(unit, waits)| {
        let (much, of) = waits.as_ref().map_or((0.0, 0.0), |waits| (waits.mean * waits.served, waits.served));
        Amount { weight: unit.weight, much, of }
    });
    let mean =
        Observed { figure: figure(&subject, "wait, mean", "s"), is_total: false, amounts: mean.collect() };
    let mut figures = vec![
        mean,
        over_units("a unit's median wait", &|waits| Some(waits.median)),
        over_units("a unit's wait, 99 %", &|waits| Some(waits.late)),
    ];
    if ends {
        figures.insert(0, over_units("a unit's completed after", &|waits| waits.complete));
    }
    figures
}

/// What is asked of a campaign.
struct Waits {
    ends: bool,
    served: f64,
    mean: f64,
    median: f64,
    late: f64,
    complete: Option<f64>,
}

impl Waits {
    fn of(campaign: &Campaign) -> Waits {
        Waits {
            ends: campaign.ends,
            served: campaign.served as f64,
            mean: campaign.wait_mean,
            median: campaign.waits[0],
            late: campaign.waits[2],
            complete: report::stats::completion(campaign).map(|(whole, _)| whole),
        }
    }
}

fn of_class(name: &str, at: usize, units: &[Unit<'_>]) -> Vec<Observed> {
    let class =
        |of: &Unit<'_>| of.classes.get(at).map_or((0.0, 0.0), |it| (it.hits as f64, it.wanted as f64));
    if units.iter().all(|unit| class(unit).1 == 0.0) {
        return Vec::new();
    }
    let subject = format!("class {name}");
    vec![ratio(units, figure(&subject, "hit rate", "%"), |of| (100.0 * class(of).0, class(of).1))]
}
