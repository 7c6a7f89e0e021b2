//! Pages from made-up outcomes, also from strange ones. To look at them: set `KIST_TWIN_PAGES` to a
//! directory.

use base::Duration;
use durability::SplitMix;
use report::outcome::{DriveActivity, Outcome};
use report::{Described, Parameter, html, leading, sentences};
use scenario::model::{ClassIndex, FaultKind};

use super::super::{End, Level, Meter};
use super::model;
use crate::moment::Moment;

/// A made-up run: drives that mount, locate and read in turn, some of them writing, and a cache.
#[derive(Clone)]
struct Made {
    variant: &'static str,
    seed: u64,
    drives: usize,
    writers: usize,
    files: u64,
    per_mount: u64,
    locate: f64,
    hits: f64,
    step: u64,
    /// Where the run ends at the latest, seconds.
    span: f64,
    is_steady: bool,
    names: &'static str,
}

const MADE: Made = Made {
    variant: "2,000 in the queue",
    seed: 1,
    drives: 6,
    writers: 0,
    files: 6_000,
    per_mount: 12,
    locate: 6.0,
    hits: 0.0,
    step: 120,
    span: 1e9,
    is_steady: false,
    names: "campaign",
};

fn moment(seconds: f64) -> Moment {
    Moment((seconds * 1e6) as u64)
}

struct Drive {
    free: f64,
    left: u64,
    stage: u8,
}

impl Made {
    fn run(&self) -> Outcome {
        let mut model = model(self.step);
        model.name = self.variant.into();
        model.until_done = !self.is_steady;
        model.workloads[0].name = self.names.into();
        model.site.classes[0].name = self.names.into();
        let names = (0..self.drives).map(|drive| format!("drive-{drive:02}")).collect();
        let mut meter = Meter::new(&model, self.seed, names);
        let mut random = SplitMix::new(self.seed);
        let mut drives: Vec<Drive> =
            (0..self.drives).map(|at| Drive { free: at as f64, left: 0, stage: 0 }).collect();
        let mut asked = if self.is_steady { 0 } else { self.files };
        (0..asked).for_each(|_| meter.wanted(Moment(0), 0, 2_000_000_000, false));
        let (mut served, mut now) = (0, 0.0f64);
        while served < self.files && now < self.span && self.drives > 0 {
            let at = (0..self.drives).min_by(|a, b| drives[*a].free.total_cmp(&drives[*b].free)).unwrap();
            now = drives[at].free;
            let hours = now / 3_600.0;
            if self.is_steady {
                let is_hit = random.unit() < self.hits;
                meter.wanted(moment(now), 0, 2_000_000_000, is_hit);
                asked += 1;
            }
            let waiting =
                if self.is_steady { (200.0 + 150.0 * (hours / 4.0).sin()) as u64 } else { asked - served };
            let oldest = if self.is_steady { now - 600.0 - waiting as f64 } else { 0.0 };
            meter.level(
                moment(now),
                Level {
                    queue: waiting,
                    oldest: (waiting > 0).then(|| moment(oldest.max(0.0))),
                    backlog: if self.writers > 0 { waiting * 2_000_000_000 } else { 0 },
                    pool_used: ((1.0 - (-hours / 30.0).exp()) * 4e14) as u64,
                },
            );
            served += self.step_drive(&mut meter, &mut random, &mut drives[at], (at, now));
        }
        let end = if self.drives == 0 { 600.0 } else { now + 60.0 };
        meter.level(moment(now), Level { pool_used: 100_000_000_000_000, ..Level::default() });
        (0..7).for_each(|_| meter.fault(FaultKind::DriveLoss));
        (0..self.files).for_each(|_| meter.check("nothing evicted without its copies"));
        meter.evicted(moment(now), ClassIndex(0), 5, Some(Duration::from_secs(86_400 * 3)));
        let end_of_run = End { is_drained: served >= self.files, events: 3 * self.files, ..End::default() };
        let mut outcome = meter.finish(moment(end), end_of_run);
        outcome.drives.iter_mut().for_each(|drive| drive.native_rate = 360_000_000);
        outcome
    }

    /// The next thing that a drive does; how many files are there afterwards.
    fn step_drive(
        &self,
        meter: &mut Meter,
        random: &mut SplitMix,
        drive: &mut Drive,
        at: (usize, f64),
    ) -> u64 {
        let (index, now) = at;
        let mut spend = |meter: &mut Meter, activity, seconds: f64| {
            meter.drive(moment(now), index, activity);
            drive.free = now + seconds.max(0.001);
        };
        if drive.left == 0 && drive.stage == 0 {
            spend(meter, DriveActivity::Mount, 95.0 + 30.0 * random.unit());
            meter.mount(moment(now), index, (random.bits() % 500) as u32);
            drive.left = 1 + random.below(2 * self.per_mount as usize) as u64;
            return 0;
        }
        drive.stage = (drive.stage + 1) % 3;
        let seconds = 5.0 + 7.0 * random.unit();
        let is_writer = index < self.writers;
        if is_writer && drive.stage == 1 {
            drive.stage = 2;
        }
        match drive.stage {
            1 => spend(meter, DriveActivity::Locate, random.exponential(self.locate)),
            2 => {
                let what = if is_writer { DriveActivity::Write } else { DriveActivity::Read };
                spend(meter, what, seconds);
                let (from, to, bytes) = (moment(now), moment(now + seconds), (seconds * 3e8) as u64);
                if is_writer {
                    meter.tape_written(from, to, index, bytes, 1);
                    meter.client_written(from, to, bytes);
                } else {
                    meter.tape_read(from, to, index, bytes, 1);
                    meter.client_read(from, to, bytes);
                }
            }
            _ => {
                let activity = match random.below(40) {
                    0 => DriveActivity::Down,
                    1..=3 => DriveActivity::Idle,
                    _ => DriveActivity::Wait,
                };
                spend(meter, activity, if activity == DriveActivity::Wait { 0.3 } else { 120.0 });
                drive.left -= 1;
                if !is_writer {
                    meter.served(
                        moment(now),
                        0,
                        Duration::from_secs_f64(if self.is_steady { 900.0 } else { now }),
                    );
                }
                return 1;
            }
        }
        0
    }
}

fn described(title: &str) -> Described {
    let parameter = |group: &str, name: &str, values: &[&str]| Parameter {
        group: group.into(),
        name: name.into(),
        values: values.iter().map(ToString::to_string).collect(),
    };
    Described {
        title: title.into(),
        text: "The same file list, drives and tapes; only the number of requests that the tape system sees \
               at a time differs.\n\nMade-up numbers, to look at the page."
            .into(),
        parameters: vec![
            parameter("Hardware", "drives", &["6 × T10000C"]),
            parameter("Hardware", "native rate", &["240 MB/s"]),
            parameter("Policy", "requests in the queue", &["2,000", "30,000"]),
        ],
        source: "title = \"GridKa <queue>\"\n[[variant]]\nqueue_limit = 2000\n".into(),
        left_out: vec!["Drives do not clean themselves.".into(), "Tapes do not wear.".into()],
    }
}

/// A page that holds what any page must.
fn page(name: &str, described: &Described, variants: &[Vec<Outcome>]) -> String {
    let html = html(described, variants);
    if let Some(directory) = std::env::var_os("KIST_TWIN_PAGES") {
        std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), &html).unwrap();
    }
    for forbidden in ["NaN", "inf\"", "<script", "http:", "https:", "url(", "@import", "<link"] {
        assert!(!html.contains(forbidden), "{name} holds {forbidden}");
    }
    for tag in ["svg", "figure", "section", "table", "div", "text", "path", "g", "title", "td", "tr"] {
        let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        let closed = html.matches(&format!("</{tag}>")).count();
        let start = format!("<{tag} ");
        let is_empty = |rest: &&str| rest.find('>').is_some_and(|end| rest[..end].ends_with('/'));
        let empty = html.split(&start).skip(1).filter(is_empty);
        assert_eq!(opened, closed + empty.count(), "{name}: every {tag} is closed");
    }
    html
}

fn seeds(made: &Made, count: u64) -> Vec<Outcome> {
    (1..=count).map(|seed| Made { seed, ..made.clone() }.run()).collect()
}

#[test]
fn two_variants_side_by_side() {
    let second = Made { variant: "30,000 in the queue", per_mount: 87, locate: 2.0, ..MADE };
    let variants = [seeds(&MADE, 3), seeds(&second, 3)];
    let html =
        page("two", &described("What would 30,000 requests in the queue have done for us?"), &variants);
    let said = sentences(&report::stats::summary(&variants), &[&variants[0][0], &variants[1][0]]);
    assert!(said[0].starts_with("30,000 in the queue: "), "{said:?}");
    assert!(said[0].contains(" times, because each mount reads "), "{said:?}");
    assert!(said[1].starts_with("Campaign “campaign” took "), "{said:?}");
    assert!(html.contains("± "), "three seeds give an interval");
    assert_eq!(
        html,
        report::html(&described("What would 30,000 requests in the queue have done for us?"), &variants)
    );
}

#[test]
fn a_year_of_sixty_drives_is_a_page_of_some_megabytes_at_most() {
    let year = Made {
        variant: "A Tier-1 site",
        drives: 60,
        writers: 20,
        files: 400_000,
        hits: 0.4,
        step: 3_600,
        is_steady: true,
        ..MADE
    };
    let html = page("sixty", &described("A site in steady state"), &[vec![year.run()]]);
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
    let long = Made { drives: 3, writers: 1, per_mount: 3, span: 400.0 * 86_400.0, files: 2_000_000, ..year };
    let more = Made { variant: "half the drives", drives: 2, hits: 0.6, ..long.clone() };
    page("long", &described("400 days"), &[vec![long.run()], vec![more.run()]]);
}

#[test]
fn six_variants_fit() {
    let names = [
        "as it is",
        "newest copy",
        "any copy",
        "more drives",
        "a larger cache",
        "everything together, at last",
    ];
    let variant = |(at, variant): (usize, &&'static str)| {
        let files = 1_500 + 100 * at as u64;
        vec![
            Made { variant, files, drives: 4 + at, per_mount: 10 + 15 * at as u64, writers: 1, ..MADE }.run(),
        ]
    };
    let variants: Vec<Vec<Outcome>> = names.iter().enumerate().map(variant).collect();
    page("six", &described("Six ways"), &variants);
}

#[test]
fn runs_in_which_nothing_happens_have_a_page_too() {
    let none = Made { files: 0, ..MADE };
    let no_drives = Made { drives: 0, variant: "no drives", ..MADE };
    let short = Made { files: 1, step: 100_000, variant: "one bin", ..MADE };
    page("nothing", &described("Nothing"), &[vec![none.run()]]);
    page("none", &described("No drives"), &[vec![no_drives.run()], vec![short.run()]]);
    page("empty", &Described::default(), &[]);
    page("empties", &Described::default(), &[vec![], vec![Outcome::default()]]);
}

#[test]
fn a_queue_that_grows_to_the_end_is_said_so() {
    let mut outcome = Made { is_steady: true, span: 86_400.0, ..MADE }.run();
    outcome.variant = "growing".into();
    outcome.series.backlog = (0..outcome.series.queue.len() as u64).map(|bin| bin * bin).collect();
    outcome.series.queue.fill(7);
    let said = sentences(&report::stats::summary(&[vec![outcome.clone()]]), &[&outcome]);
    assert!(
        said.contains(
            &"growing: not in a steady state: what waits for tape grew to the end, so its means say \
        little."
                .to_owned()
        ),
        "{said:?}"
    );
    outcome.series.backlog.fill(7);
    let said = sentences(&report::stats::summary(&[vec![outcome.clone()]]), &[&outcome]);
    assert!(!said.iter().any(|sentence| sentence.contains("not in a steady state")), "{said:?}");
}

#[test]
fn every_name_is_escaped() {
    let evil = "<script>alert(\"x\")</script> & 'more' <b>, with a name that goes on for much longer \
                than any \
                column of a table or a legend or a bar can hold, on and on";
    let mut outcome = Made { variant: evil, names: evil, files: 500, ..MADE }.run();
    outcome.drives[0].name = evil.into();
    outcome.faults.insert(evil.into(), 3);
    outcome.checks.insert(evil.into(), 3);
    outcome.violation = Some(evil.into());
    let other = Made { names: evil, files: 500, per_mount: 40, ..MADE }.run();
    let mut described = described(evil);
    (described.text, described.source) = (evil.into(), evil.into());
    described.left_out = vec![evil.into()];
    let all = [evil.to_owned()];
    described.parameters = vec![Parameter { group: evil.into(), name: evil.into(), values: all.to_vec() }];
    let html = page("evil", &described, &[vec![outcome], vec![other]]);
    assert!(!html.contains("<b>") && !html.contains("alert(\""), "no markup from names");
    assert!(html.contains("an invariant did not hold"));
}

/// The page of a cache whose recalls went from 369 to 1,740 MB/s began with 1.06 times as much to tape, since
/// the first variant had written more than it read.
#[test]
fn the_headline_tells_of_the_way_that_differs_most() {
    let with_rates = |variant: &str, seed: u64, read: u64, written: u64| {
        let mut outcome = Made { is_steady: true, span: 7_200.0, ..MADE }.run();
        (outcome.variant, outcome.seed, outcome.warm_up) = (variant.to_owned(), seed, 0.0);
        let per_bin = |rate: u64| (rate as f64 * 1e6 * outcome.series.step) as u64;
        let (read_bin, written_bin) = (per_bin(read), per_bin(written));
        outcome.series.tape_read.iter_mut().for_each(|bytes| *bytes = read_bin + seed);
        outcome.series.tape_written.iter_mut().for_each(|bytes| *bytes = written_bin + seed);
        (outcome.totals.tape_read, outcome.totals.tape_written) =
            (outcome.series.tape_read.iter().sum(), outcome.series.tape_written.iter().sum());
        outcome
    };
    let said = |read: [u64; 2], written: [u64; 2]| {
        let runs = |at: usize, name: &str| -> Vec<Outcome> {
            (1..=3).map(|seed| with_rates(name, seed, read[at], written[at])).collect()
        };
        let variants = [runs(0, "all alike"), runs(1, "tape first")];
        let shown = [&variants[0][0], &variants[1][0]];
        let summary = report::stats::summary(&variants);
        // The table beside it began with what is read, whatever the sentence was about.
        let led = summary.rows(true, leading(&summary, &shown))[1][0].clone();
        let sentence = sentences(&summary, &shown)[0].clone();
        let of = if led == "read from tape" { " MB/s from tape against" } else { " MB/s to tape against" };
        assert!(sentence.find(" MB/s ") == sentence.find(of), "{led} leads the table, beside: {sentence}");
        sentence
    };
    let kit = said([369, 1_740], [2_180, 2_315]);
    assert!(kit.starts_with("tape first: 1,7"), "{kit}");
    assert!(kit.contains(" MB/s from tape against 37"), "{kit}");
    assert!(kit.contains("with “all alike”, 4.72 times. Besides: "), "{kit}");
    assert!(kit.ends_with("(1.06 times)."), "{kit}");
    let writes = said([500, 510], [1_000, 3_000]);
    assert!(writes.contains("to tape against") && writes.contains("3.00 times"), "{writes}");
    // A trickle that has doubled is no story, and of what is alike the larger one is told.
    let trickle = said([1, 2], [1_000, 1_300]);
    assert!(trickle.contains("to tape against") && trickle.contains("1.30 times"), "{trickle}");
    let alike = said([900, 903], [100, 100]);
    assert!(alike.contains(" MB/s from tape against 9"), "{alike}");
}
