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

/// Processor time of this program, which other programs do not lengthen.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.split_whitespace().skip(13).take(2);
    // In hundredths of a second on every Linux there is.
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
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
    let mut wanted = wanted_files(&vids, bench.now);
    let now = bench.now;
    println!("before: {}", resident());
    let (begun, cpu) = (Instant::now(), processor());
    bench.scheduler.load(Timestamp(now), (0..files).map(&mut wanted));
    let (wall, cpu) = (begun.elapsed(), processor() - cpu);
    println!("load of {files} files, two copies each on {tapes} tapes: {wall:?}, {cpu} s of a processor");
    println!("after: {}", resident());
    bench.events(files, drives, wanted);
    println!("at the end: {}", resident());
}

/// Wanted files on two tapes each, in the order of their ids.
fn wanted_files(vids: &[Vid], now: i64) -> impl FnMut(u64) -> WantedFile<[Vid; 2]> {
    let mut numbers = Numbers(1);
    move |file| {
        let tapes = vids.len() as u64;
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
    }
}

fn event(wanted: WantedFile<[Vid; 2]>) -> Event {
    let WantedFile { file, bytes, since, priority, share, copies } = wanted;
    Event::Wanted { file, bytes, since, priority, share, copies: copies.to_vec() }
}

impl Bench {
    /// Single events on a full queue.
    fn events(&mut self, files: u64, drives: u64, mut wanted: impl FnMut(u64) -> WantedFile<[Vid; 2]>) {
        let mut single = Vec::new();
        for file in files..files + 100_000 {
            self.tell(event(wanted(file)), &mut single);
        }
        report("wanted, no drive up", single);
        let (mut choices, mut mounted) = (Vec::new(), Vec::new());
        for drive in 0..drives {
            let actions = self.tell(Event::DriveUp(format!("drive{drive}")), &mut choices);
            mounted.extend(mount(&actions));
        }
        report("drive up and first choice of a tape", choices);
        assert_eq!(mounted.len() as u64, drives, "every drive gets a tape");
        let mut sessions = Vec::new();
        for (drive, vid) in &mounted {
            self.tell(Event::Mounted(drive.clone(), *vid), &mut sessions);
        }
        report("mounted and session begun", sessions);
        let (mut single, mut not) = (Vec::new(), Vec::new());
        for file in files + 100_000..files + 200_000 {
            self.tell(event(wanted(file)), &mut single);
            self.tell(Event::NotWanted(FileId(file / 3 * 2)), &mut not);
        }
        report("wanted, all drives busy", single);
        report("not wanted", not);
        let (mut ends, mut choices) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            for (drive, vid) in &mut mounted {
                self.tell(Event::RecallEnded(drive.clone(), SessionEnd::Stopped), &mut ends);
                let actions = self.tell(Event::Unmounted(drive.clone()), &mut choices);
                *vid = mount(&actions).map(|(_, vid)| vid).expect("enough waits for every drive");
                self.tell(Event::Mounted(drive.clone(), *vid), &mut ends);
            }
        }
        report("session ended, its files given back; mounted", ends);
        report("unmounted and next choice of a tape", choices);
    }
}

fn mount(actions: &[Action]) -> Option<(String, Vid)> {
    actions.iter().find_map(|action| match action {
        Action::Mount { drive, vid, .. } => Some((drive.clone(), *vid)),
        _ => None,
    })
}
