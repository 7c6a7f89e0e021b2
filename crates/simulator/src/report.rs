//! Many worlds, and what they went through.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::faults::Profile;
use crate::run::{Plan, Report, simulate};

/// Each kind of fault, what it is, and what Kist owes its users then.
pub const KINDS: [(&str, &str, &str); 36] = [
    ("CatalogueCommit", "a commit fails", "the engine stops writing; a start goes on from the last commit"),
    (
        "CatalogueFull",
        "the map is full",
        "that command alone is refused; what makes room is tried in smaller parts",
    ),
    (
        "CatalogueInDoubt",
        "a commit is durable and reported as failed",
        "no answer; a repeat gets the first one",
    ),
    ("CatalogueSlow", "a commit takes seconds", "everybody waits"),
    (
        "ClockJump",
        "the clock jumps by an hour or ten years",
        "nothing waits longer than it may, nothing expires",
    ),
    ("DiskBitFlip", "a bit of a stored page is wrong", "found by its checksum, served from other drives"),
    ("DiskFull", "a drive is full", "another drive, or the put is refused"),
    ("DiskGone", "a drive vanishes and comes back", "served from other drives"),
    (
        "DiskHung",
        "a drive hangs for minutes",
        "its callers wait, others do not, but 2 s at most for its room; after 30 s it is set aside",
    ),
    ("DiskLostWrite", "a write is acknowledged and not stored", "found, served from other drives"),
    ("DiskMisdirectedWrite", "a write lands elsewhere", "found by the place in its header"),
    ("DiskRead", "a read fails", "served from other drives"),
    ("DiskSlow", "a call takes seconds", "its callers wait"),
    ("DiskStalePage", "a page keeps what was there before", "found, served from other drives"),
    ("DiskSync", "fsync fails, pages are dropped", "the shard is lost: no second sync, no acknowledgement"),
    ("DiskWrite", "a write fails", "the shard goes to another drive"),
    (
        "DriveCleaning",
        "a tape drive wants to be cleaned",
        "its work goes elsewhere, and it is cleaned; what a server left in it is brought home",
    ),
    ("DriveNotReady", "a tape drive is not ready", "tried again"),
    (
        "DrivePath",
        "a tape command's answer is lost, carried out or not",
        "the position is checked: nothing is written over, or twice",
    ),
    ("DriveReserved", "another host reserves a tape drive", "the drive rests, its work goes elsewhere"),
    (
        "LibraryAway",
        "the library is not reached",
        "work waits and says so; it starts, reads and writes disks",
    ),
    ("LostAnswer", "an answer is lost, the client repeats", "one file, the first answer"),
    ("MountFails", "a cartridge cannot be loaded", "set aside, tried later"),
    ("NoScratchTape", "there is no scratch tape", "migration waits and says so"),
    (
        "PositionLost",
        "a reset: the tape stands at its beginning",
        "the position is checked: nothing is written over",
    ),
    ("PowerLoss", "power fails: what was not synced is lost or torn", "whatever was acknowledged is there"),
    ("ProcessCrash", "the process dies", "whatever was acknowledged is there"),
    ("RobotJam", "the robot jams", "the drive rests, others go on"),
    ("TapeBitFlip", "a bit of a tape block is wrong", "found, recalled from the other copy"),
    ("TapeDriveDead", "a tape drive dies at work", "the drive goes down, its work goes elsewhere"),
    ("TapeEarlyEnd", "a tape ends early", "it is full; what did not fit goes to the next one"),
    ("TapeFlush", "a flush fails, unflushed blocks are lost", "what was not committed is written again"),
    ("TapeSlow", "a command takes a minute", "its users wait"),
    ("TapeUnreadable", "a tape block is unreadable", "recalled from the other copy"),
    ("TapeWrite", "writing a block fails", "the container is written again elsewhere"),
    (
        "WrongCartridge",
        "the robot brings another cartridge",
        "its label is checked: neither read nor written",
    ),
];

/// What many worlds went through.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// How many.
    pub worlds: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// What else was counted.
    pub counters: BTreeMap<&'static str, u64>,
    /// The worlds that failed.
    pub failures: Vec<Report>,
}

impl Campaign {
    fn add(&mut self, report: Report) {
        self.worlds += 1;
        for (name, count) in &report.faults {
            *self.faults.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &report.counters {
            *self.counters.entry(name).or_default() += count;
        }
        if report.failure.is_some() {
            self.failures.push(report);
        }
    }

    /// Faults of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Kinds that never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let names = KINDS.iter().map(|(name, _, _)| *name);
        names.filter(|name| self.faults.get(*name).copied().unwrap_or(0) == 0).collect()
    }

    /// Faults by kind as a Markdown table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text =
            String::from("| fault | what happens | what Kist owes | times |\n|---|---|---|---:|\n");
        for (name, what, owes) in KINDS {
            let times = self.faults.get(name).copied().unwrap_or(0);
            let _ = writeln!(text, "| {name} | {what} | {owes} | {times} |");
        }
        for (name, times) in &self.faults {
            if !KINDS.iter().any(|(known, _, _)| known == name) {
                let _ = writeln!(text, "| {name} | | | {times} |");
            }
        }
        let _ = writeln!(text, "\n{} worlds, {} faults", self.worlds, self.total());
        for (name, times) in &self.counters {
            let _ = writeln!(text, "- {name}: {times}");
        }
        text
    }
}

/// How long a campaign goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Until {
    /// So many faults.
    pub faults: u64,
    /// So many worlds.
    pub worlds: u64,
    /// So long.
    pub time: Duration,
    /// All worlds alike; `None`: by their seeds.
    pub profile: Option<Profile>,
}

/// Worlds from a seed on, on all cores, until enough happened or one fails. `told` hears after each world
/// what happened so far, and in what time.
#[must_use]
pub fn campaign(first: u64, until: Until, told: &(impl Fn(&Campaign, Duration) + Sync)) -> Campaign {
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Campaign::default()));
    let begun = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = {
                        let sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                        sum.total() >= until.faults || !sum.failures.is_empty()
                    };
                    if is_over || number >= until.worlds || begun.elapsed() >= until.time {
                        return;
                    }
                    let report = simulate(Plan { profile: until.profile, ..Plan::new(first + number) });
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.add(report);
                    told(&sum, begun.elapsed());
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
