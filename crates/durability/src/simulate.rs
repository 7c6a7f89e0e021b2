//! A simulation, event by event, over the groups that the placement makes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::inputs::{HOURS_PER_YEAR, InputError, Inputs};
use crate::latent::Latent;
use crate::placement::Placement;
use crate::random::SplitMix;
use crate::rebuild::rebuild;

/// Parts of the simulated time whose means give the spread of a result.
pub const BATCHES: usize = 50;

/// Student's t for 99 % on both sides and [`BATCHES`] - 1 degrees of freedom.
const STUDENT_99: f64 = 2.680;

/// Expected events beyond which a simulation is refused: minutes of computing.
const EVENTS_MAX: f64 = 2e9;

/// How long drives stay lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowShape {
    /// Always as long as detection and rebuild take.
    Fixed,
    /// Exponential with that mean, as the Markov chain has it.
    Exponential,
}

/// A rate per year with its spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Events seen.
    pub events: u64,
    /// Events per year, or per group and year.
    pub mean: f64,
    /// Half of the 99 % interval by the means of [`BATCHES`] parts of the time. Without events the upper end
    /// is that of Poisson: 4.6 events.
    pub half: f64,
}

impl Spread {
    /// Whether a rate lies in the interval.
    #[must_use]
    pub fn contains(&self, rate: f64) -> bool {
        (self.mean - rate).abs() <= self.half
    }
}

/// What a simulation saw.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// Years simulated.
    pub years: f64,
    /// Groups of the placement.
    pub groups: usize,
    /// Drives that failed.
    pub failures: u64,
    /// Mean hours from a failure to the end of its rebuild.
    pub window_hours: f64,
    /// Losses of groups, per group and year.
    pub group_losses: Spread,
    /// Failures that cost the pool at least one group, per year.
    pub pool_losses: Spread,
    /// Last rebuilds that met an unreadable place, per group and year.
    pub latent_losses: Spread,
    /// User bytes lost a year, lost groups counted whole.
    pub bytes_lost: f64,
}

/// Simulates `years` of a pool whose stripes lie as `placement` says. Drives fail independently after an
/// exponential time, are rebuilt by the drives that share groups with them and are still up, and are back
/// in their groups when their window ends. Unreadable places arise on drives at random and are gone at the
/// drive's next scrub. The same seed gives the same result.
///
/// # Errors
/// Those of [`Inputs::check`], [`InputError::TooLong`], [`InputError::OutOfRange`] for the years.
pub fn simulate(
    inputs: &Inputs,
    placement: &Placement,
    years: f64,
    shape: WindowShape,
    random: &mut SplitMix,
) -> Result<Simulation, InputError> {
    inputs.check()?;
    if !(years > 0.0 && years.is_finite()) {
        return Err(InputError::OutOfRange {
            name: "the simulated time",
            value: years,
            range: "above 0 years",
        });
    }
    let places: usize = placement.places.iter().map(Vec::len).sum();
    let per_failure = places as f64 / placement.drives as f64;
    let rate = placement.drives as f64 * (inputs.afr * (2.0 + per_failure) + inputs.latent_per_year);
    if rate * years > EVENTS_MAX {
        let (drives, events) = (inputs.drives, rate * years);
        return Err(InputError::TooLong { years, drives, events, limit: EVENTS_MAX });
    }
    let mut world = World::new(inputs, placement, shape, years, random);
    world.run();
    Ok(world.result())
}

/// A time in years, ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Back(usize),
    Fail(usize),
    Bad,
}

#[derive(Clone, Default, Debug)]
struct Tally {
    batches: Vec<u64>,
}

struct World<'a> {
    inputs: &'a Inputs,
    placement: &'a Placement,
    shape: WindowShape,
    years: f64,
    random: &'a mut SplitMix,
    queue: BinaryHeap<Reverse<(Moment, Event)>>,
    lost: Vec<Vec<bool>>,
    gone: Vec<bool>,
    up: Vec<bool>,
    /// For each drive when it is first scrubbed, and its unreadable places: group and until when.
    phase: Vec<f64>,
    bad: Vec<Vec<(usize, f64)>>,
    place_bytes: f64,
    latent: Latent,
    failures: u64,
    windows: f64,
    group_losses: Tally,
    pool_losses: Tally,
    latent_losses: Tally,
}

impl<'a> World<'a> {
    fn new(
        inputs: &'a Inputs,
        placement: &'a Placement,
        shape: WindowShape,
        years: f64,
        random: &'a mut SplitMix,
    ) -> Self {
        let drives = placement.drives;
        let places: usize = placement.places.iter().map(Vec::len).sum();
        let place_bytes = inputs.drive_bytes * drives as f64 / places as f64;
        let scrub = inputs.scrub_hours / HOURS_PER_YEAR;
        let mut queue = BinaryHeap::new();
        for drive in 0..drives {
            queue.push(Reverse((Moment(random.exponential(1.0 / inputs.afr)), Event::Fail(drive))));
        }
        let bad_rate = inputs.latent_per_year * drives as f64;
        if bad_rate > 0.0 {
            queue.push(Reverse((Moment(random.exponential(1.0 / bad_rate)), Event::Bad)));
        }
        let tally = Tally { batches: vec![0; BATCHES] };
        World {
            inputs,
            placement,
            shape,
            years,
            queue,
            lost: placement.groups.iter().map(|group| vec![false; group.len()]).collect(),
            gone: vec![false; placement.groups.len()],
            up: vec![true; drives],
            phase: (0..drives).map(|_| random.unit() * scrub).collect(),
            bad: vec![Vec::new(); drives],
            place_bytes,
            latent: Latent::new(inputs, place_bytes),
            failures: 0,
            windows: 0.0,
            group_losses: tally.clone(),
            pool_losses: tally.clone(),
            latent_losses: tally,
            random,
        }
    }

    fn run(&mut self) {
        while let Some(Reverse((Moment(now), event))) = self.queue.pop() {
            if now >= self.years {
                return;
            }
            match event {
                Event::Fail(drive) => self.fail(drive, now),
                Event::Back(drive) => self.back(drive, now),
                Event::Bad => self.go_bad(now),
            }
        }
    }

    fn fail(&mut self, drive: usize, now: f64) {
        let placement = self.placement;
        self.up[drive] = false;
        self.bad[drive].clear();
        self.failures += 1;
        let mut lost_here = 0;
        for (group, place) in &placement.places[drive] {
            self.lost[*group][*place] = true;
            if self.gone[*group] {
                continue;
            }
            if self.inputs.code.survives(&self.lost[*group]) {
                self.look_for_bad_places(*group, now);
            } else {
                self.gone[*group] = true;
                lost_here += 1;
            }
        }
        let batch = self.batch(now);
        self.group_losses.batches[batch] += lost_here;
        self.pool_losses.batches[batch] += u64::from(lost_here > 0);
        let mean = self.window(drive);
        let window = match self.shape {
            WindowShape::Fixed => mean,
            WindowShape::Exponential => self.random.exponential(mean),
        };
        self.windows += window;
        self.queue.push(Reverse((Moment(now + window), Event::Back(drive))));
    }

    fn back(&mut self, drive: usize, now: f64) {
        let placement = self.placement;
        self.up[drive] = true;
        for (group, place) in &placement.places[drive] {
            self.lost[*group][*place] = false;
            // What was lost came back from elsewhere; the group holds data again.
            if self.gone[*group] && self.inputs.code.survives(&self.lost[*group]) {
                self.gone[*group] = false;
            }
        }
        let life = self.random.exponential(1.0 / self.inputs.afr);
        self.queue.push(Reverse((Moment(now + life), Event::Fail(drive))));
    }

    fn go_bad(&mut self, now: f64) {
        let drive = self.random.below(self.up.len());
        let places = &self.placement.places[drive];
        if self.up[drive] && !places.is_empty() {
            let (group, _) = places[self.random.below(places.len())];
            let scrub = self.inputs.scrub_hours / HOURS_PER_YEAR;
            let phase = self.phase[drive];
            let found = phase + ((now - phase) / scrub).floor() * scrub + scrub;
            self.bad[drive].retain(|(_, until)| *until > now);
            self.bad[drive].push((group, found));
        }
        let rate = self.inputs.latent_per_year * self.up.len() as f64;
        let next = now + self.random.exponential(1.0 / rate);
        self.queue.push(Reverse((Moment(next), Event::Bad)));
    }

    /// The group has just lost a shard and lives: whether a shard that it now needs cannot be read.
    fn look_for_bad_places(&mut self, group: usize, now: f64) {
        if self.lost[group].iter().filter(|lost| **lost).count() < self.inputs.code.tolerance() as usize {
            return;
        }
        let (mut needed, mut is_bad) = (0, false);
        for (place, drive) in self.placement.groups[group].iter().enumerate() {
            if self.lost[group][place] {
                continue;
            }
            self.lost[group][place] = true;
            let is_needed = !self.inputs.code.survives(&self.lost[group]);
            self.lost[group][place] = false;
            if is_needed {
                needed += 1;
                is_bad |= self.bad[*drive].iter().any(|(at, until)| *at == group && *until > now);
            }
        }
        let chance = -(-self.latent.by_bits * f64::from(needed)).exp_m1();
        if is_bad || (chance > 0.0 && self.random.unit() <= chance) {
            let batch = self.batch(now);
            self.latent_losses.batches[batch] += 1;
        }
    }

    /// Years from the failure of a drive to the end of its rebuild.
    fn window(&self, drive: usize) -> f64 {
        let bytes = self.placement.places[drive].len() as f64 * self.place_bytes;
        let partners = match self.inputs.scatter {
            Some(scatter) => scatter as usize,
            None => self.placement.partners[drive],
        };
        let helpers = (partners as f64 * self.share_up()).max(1.0);
        rebuild(self.inputs, bytes, helpers).window_hours / HOURS_PER_YEAR
    }

    /// The share of the other drives that is up.
    fn share_up(&self) -> f64 {
        let up = self.up.iter().filter(|up| **up).count();
        up as f64 / (self.up.len() - 1).max(1) as f64
    }

    fn batch(&self, now: f64) -> usize {
        ((now / self.years * BATCHES as f64) as usize).min(BATCHES - 1)
    }

    fn result(self) -> Simulation {
        let groups = self.placement.groups.len();
        let per_group = self.years * groups as f64;
        let data = f64::from(self.inputs.code.data());
        let group_losses = spread(&self.group_losses, per_group);
        let latent_losses = spread(&self.latent_losses, per_group);
        let bytes = group_losses.events as f64 * self.place_bytes
            + latent_losses.events as f64 * crate::assess::CELL_BYTES.min(self.place_bytes);
        Simulation {
            years: self.years,
            groups,
            failures: self.failures,
            window_hours: self.windows / self.failures.max(1) as f64 * HOURS_PER_YEAR,
            group_losses,
            pool_losses: spread(&self.pool_losses, self.years),
            latent_losses,
            bytes_lost: bytes * data / self.years,
        }
    }
}

/// Losses of neighbouring groups come together, so the spread is not that of Poisson: it is taken from the
/// parts of the time, which are long against a rebuild.
fn spread(tally: &Tally, exposure: f64) -> Spread {
    let events: u64 = tally.batches.iter().sum();
    let count = BATCHES as f64;
    let mean = events as f64 / count;
    let squares: f64 = tally.batches.iter().map(|batch| (*batch as f64 - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let half = if events == 0 { 4.6 / exposure } else { STUDENT_99 * error * count / exposure };
    Spread { events, mean: events as f64 / exposure, half }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::{latent_yearly, stationary};
    use crate::code::Code;

    /// A pool that loses data all the time: half of its drives fail every year.
    fn poor(layout: &str, drives: u32) -> Inputs {
        Inputs {
            afr: 0.5,
            window_hours: Some(200.0),
            bit_error_rate: 0.0,
            ..Inputs::typical(Code::parse(layout).unwrap(), drives)
        }
    }

    fn run(inputs: &Inputs, years: f64, shape: WindowShape) -> Simulation {
        let placement = Placement::new(inputs.code, inputs.drives, 1, 11).unwrap();
        simulate(inputs, &placement, years, shape, &mut SplitMix::new(5)).unwrap()
    }

    fn exact(inputs: &Inputs, window_hours: f64) -> f64 {
        stationary(&inputs.code.survived_shares(), inputs.afr, window_hours / HOURS_PER_YEAR)
    }

    /// The simulation agrees with the closed form within its own 99 % interval, which is narrow enough that a
    /// rebuild time that is wrong by a tenth falls outside.
    #[test]
    fn losses_are_those_of_the_closed_form() {
        for (layout, drives, years) in [("4+2", 20, 20_000.0), ("4+1", 24, 2_000.0), ("4+2+1", 20, 40_000.0)]
        {
            for shape in [WindowShape::Fixed, WindowShape::Exponential] {
                let inputs = poor(layout, drives);
                let seen = run(&inputs, years, shape);
                let rate = exact(&inputs, 200.0);
                assert!(seen.group_losses.events > 1000, "{seen:?}");
                assert!(seen.group_losses.contains(rate), "{layout} {shape:?}: {rate} not in {seen:?}");
                assert!(seen.group_losses.half < 0.08 * rate, "{layout} {shape:?}: {seen:?}");
                for wrong in [180.0, 220.0] {
                    assert!(!seen.group_losses.contains(exact(&inputs, wrong)), "{layout}: {wrong} h fits");
                }
            }
        }
    }

    /// A planted wrong rebuild time in the simulated pool: the closed form of the right one is outside.
    #[test]
    fn a_wrong_rebuild_time_is_noticed() {
        let right = poor("4+2", 20);
        let wrong = Inputs { window_hours: Some(230.0), ..right.clone() };
        let seen = run(&wrong, 20_000.0, WindowShape::Fixed);
        assert!(!seen.group_losses.contains(exact(&right, 200.0)), "{seen:?}");
        assert!(seen.group_losses.contains(exact(&right, 230.0)), "{seen:?}");
    }

    #[test]
    fn rebuild_times_follow_the_placement() {
        let inputs = Inputs { window_hours: None, afr: 0.1, ..poor("4+2", 40) };
        let seen = run(&inputs, 5_000.0, WindowShape::Fixed);
        let assessed = crate::assess::assess(&inputs).unwrap();
        let ratio = seen.window_hours / assessed.rebuild.window_hours;
        assert!((ratio - 1.0).abs() < 0.05, "{} h simulated, {ratio} of the closed form", seen.window_hours);
    }

    #[test]
    fn unreadable_places_are_met_as_often_as_expected() {
        let timed = Inputs { latent_per_year: 40.0, scrub_hours: 700.0, ..poor("4+2", 20) };
        let by_bits = Inputs { bit_error_rate: 1e-15, ..poor("4+2", 20) };
        for inputs in [timed, by_bits] {
            let seen = run(&inputs, 4_000.0, WindowShape::Fixed);
            let placement = Placement::new(inputs.code, inputs.drives, 1, 11).unwrap();
            let places = placement.groups.len() as f64 * 6.0;
            let latent = Latent::new(&inputs, inputs.drive_bytes * f64::from(inputs.drives) / places);
            let survived = inputs.code.survived_shares();
            let rate = latent_yearly(&survived, inputs.afr, 200.0 / HOURS_PER_YEAR, latent.expected());
            assert!(seen.latent_losses.events > 500, "{seen:?}");
            assert!(seen.latent_losses.contains(rate), "{rate} not in {:?}", seen.latent_losses);
            assert!(!seen.latent_losses.contains(rate * 1.3), "{:?}", seen.latent_losses);
        }
    }

    #[test]
    fn one_seed_is_one_run() {
        let inputs = Inputs { latent_per_year: 5.0, ..poor("4+2", 12) };
        let one = run(&inputs, 200.0, WindowShape::Exponential);
        assert_eq!(one, run(&inputs, 200.0, WindowShape::Exponential));
        assert!(one.failures > 1000);
    }

    #[test]
    fn endless_simulations_are_refused() {
        let inputs = poor("4+2", 12);
        let placement = Placement::new(inputs.code, 12, 1, 1).unwrap();
        for years in [1e12, 0.0, f64::NAN] {
            let refused = simulate(&inputs, &placement, years, WindowShape::Fixed, &mut SplitMix::new(1));
            assert!(refused.is_err(), "{years}");
        }
    }
}
