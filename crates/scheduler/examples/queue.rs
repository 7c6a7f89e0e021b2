//! Loads a queue of ten million wanted files over ten thousand tapes and measures time, memory and events.
//!
//! `cargo run --release -p scheduler --example queue [files] [tapes] [drives]`

use std::time::{Duration, Instant};

use base::{ByteCount, FileId, ShareId, TapePoolId, Timestamp, Vid};
use scheduler::{Action, Event, Policy, Scheduler, SessionEnd, SharePolicy, TapeSummary, WantedFile};

fn vid(number: u64) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

/// A fixed sequence of numbers, so that each run is the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Resident memory now and at most, in MB.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 1000];
    println!(
        "{what}: {} events, median {:?}, 99 % {:?}, longest {:?}",
        times.len(),
        at(500),
        at(990),
        at(1000)
    );
}

struct Bench {
    scheduler: Scheduler,
    now: i64,
}

impl Bench {
    fn tell(&mut self, event: Event, times: &mut Vec<Duration>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.now += 1_000_000;
        let begun = Instant::now();
        self.scheduler.step(Timestamp(self.now), event, &mut actions);
        times.push(begun.elapsed());
        actions
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let mut next = |default| arguments.next().unwrap_or(default);
    let (files, tapes, drives) = (next(10_000_000), next(10_000), next(20));
    let share = |weight| SharePolicy { weight, ..SharePolicy::default() };
    let shares = (0..4).map(|number| (ShareId(number), share(1 + u32::from(number)))).collect();
    let scheduler = Scheduler::new(Policy { shares, ..Policy::default() });
    let mut bench = Bench { scheduler, now: 3_600_000_000_000 };
    let mut times = Vec::new();
    for tape in 0..tapes {
        let summary = TapeSummary {
            tape_pool: Some(TapePoolId(1)),
            readable: true,
            labelled: true,
            ..TapeSummary::default()
        };
        bench.tell(Event::Tape(vid(tape), summary), &mut times);
    }
    let vids: Vec<Vid> = (0..tapes).map(vid).collect();
    let mut numbers = Numbers(1);
    let now = bench.now;
    let mut wanted = |file: u64| {
        let (first, second) = (numbers.below(tapes), numbers.below(tapes));
        let since = now - (numbers.below(3_600_000) * 1_000_000) as i64;
        WantedFile {
            file: FileId(file),
            bytes: ByteCount(2_000_000_000),
            since: Timestamp(since),
            priority: numbers.below(10) as u8,
            share: ShareId(numbers.below(4) as u16),
            copies: [vids[first as usize], vids[second as usize]],
        }
    };
    println!("before: {}", resident());
    let begun = Instant::now();
    bench.scheduler.load(Timestamp(now), (0..files).map(&mut wanted));
    println!(
        "load of {files} files, two copies each on {tapes} tapes: {:?}; {}",
        begun.elapsed(),
        resident()
    );

    let mut single = Vec::new();
    for file in files..files + 100_000 {
        let WantedFile { file, bytes, since, priority, share, copies } = wanted(file);
        let copies = copies.to_vec();
        bench.tell(Event::Wanted { file, bytes, since, priority, share, copies }, &mut single);
    }
    report("wanted, no drive up", single);
    let mut choices = Vec::new();
    let mut mounted = Vec::new();
    for drive in 0..drives {
        let actions = bench.tell(Event::DriveUp(format!("drive{drive}")), &mut choices);
        mounted.extend(actions.into_iter().filter_map(|action| match action {
            Action::Mount { drive, vid, .. } => Some((drive, vid)),
            _ => None,
        }));
    }
    report("drive up and first choice of a tape", choices);
    assert_eq!(mounted.len() as u64, drives, "every drive gets a tape");
    let mut sessions = Vec::new();
    for (drive, vid) in &mounted {
        bench.tell(Event::Mounted(drive.clone(), *vid), &mut sessions);
    }
    report("mounted and session begun", sessions);
    let (mut single, mut not) = (Vec::new(), Vec::new());
    for file in files + 100_000..files + 200_000 {
        let WantedFile { file, bytes, since, priority, share, copies } = wanted(file);
        let copies = copies.to_vec();
        bench.tell(Event::Wanted { file, bytes, since, priority, share, copies }, &mut single);
        bench.tell(Event::NotWanted(FileId(file.0 / 3 * 2)), &mut not);
    }
    report("wanted, all drives busy", single);
    report("not wanted", not);
    let mut ends = Vec::new();
    for round in 0..10 {
        for (drive, vid) in mounted.clone() {
            bench.tell(Event::RecallEnded(drive.clone(), SessionEnd::Stopped), &mut ends);
            let actions = bench.tell(Event::Unmounted(drive.clone()), &mut ends);
            let next = actions.into_iter().find_map(|action| match action {
                Action::Mount { vid, .. } => Some(vid),
                _ => None,
            });
            let Some(next) = next else { panic!("round {round}: {drive} gets nothing after {vid}") };
            bench.tell(Event::Mounted(drive.clone(), next), &mut ends);
            mounted.iter_mut().filter(|(name, _)| *name == drive).for_each(|(_, vid)| *vid = next);
        }
    }
    report("session ended, unmounted, mounted", ends);
    println!("at the end: {}", resident());
}
