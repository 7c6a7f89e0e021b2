//! The workload that is recorded, and what of it must be there after a cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use archive::{Archive, ArchiveError, PutOptions, Selection, StageOptions, has_ended};
use base::{ArchivePath, RequestId};

use super::engine;
use crate::content::Version;
use crate::random::Random;

/// Threads of a workload, each with paths of its own.
pub const THREADS: u64 = 3;
/// Paths of each.
const SLOTS: u64 = 6;
/// Changes of each.
const OPERATIONS: u64 = 14;
/// How long a workload waits for tapes.
const PATIENCE: Duration = Duration::from_secs(30);

/// One change.
#[derive(Clone, Debug)]
pub enum Operation {
    Put(String, Version),
    Delete(String),
    Rename(String, String),
    Migrate,
    Evict,
    Stage,
}

/// What a thread does, a function of the seed.
#[must_use]
pub fn operations(seed: u64, thread: u64) -> Vec<Operation> {
    let mut random = Random::nth(seed, thread);
    let path = |random: &mut Random| format!("/t{thread}/f{}", random.below(SLOTS));
    (0..OPERATIONS)
        .map(|number| match random.below(20) {
            0..11 => {
                let length = match random.below(10) {
                    0 => (257 << 10) + random.below(500 << 10),
                    1 => random.below(10),
                    _ => random.below(24 << 10),
                };
                let id = (seed << 16) | (thread << 12) | number;
                Operation::Put(path(&mut random), Version { id, length })
            }
            11..13 => Operation::Delete(path(&mut random)),
            13..15 => Operation::Rename(path(&mut random), path(&mut random)),
            15..17 => Operation::Migrate,
            17..19 => Operation::Evict,
            _ => Operation::Stage,
        })
        .collect()
}

/// Opens the instance in `directory` and carries out the workload; before and after each change a line is
/// written to `marks`, with one system call. In the end the process says its id and stops, in every second
/// history with the engine running; who has recorded it kills it then.
///
/// # Errors
/// If the engine does not open.
pub fn record_here(directory: &Path, marks: &Path, seed: u64) -> io::Result<()> {
    let archive = engine::open(directory, false)?;
    let marks = File::options().append(true).create(true).open(marks)?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (archive, marks) = (&archive, &marks);
            scope.spawn(move || {
                for (number, operation) in operations(seed, thread).iter().enumerate() {
                    let mut marks = marks;
                    // A mark that cannot be written only makes the check weaker.
                    let _ = marks.write_all(format!("B {thread} {number} .\n").as_bytes());
                    let done = perform(archive, operation).is_ok();
                    let word = if done { "ok" } else { "no" };
                    let _ = marks.write_all(format!("A {thread} {number} {word}\n").as_bytes());
                }
            });
        }
    });
    let _ = perform(&archive, &Operation::Migrate);
    if seed.is_multiple_of(2) {
        archive.close();
    }
    let own = rustix::process::getpid();
    println!("{own}");
    rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
    Ok(())
}

/// A path that is known to be good.
///
/// # Panics
/// If it is not.
#[must_use]
pub fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn everything() -> Selection {
    Selection { paths: vec![path("/")], recursive: true }
}

fn perform(archive: &Archive, operation: &Operation) -> Result<(), ArchiveError> {
    match operation {
        Operation::Put(at, version) => {
            let options = PutOptions { make_parents: true, ..PutOptions::default() };
            let mut upload = archive.begin_put(&path(at), options)?;
            upload.write(&version.bytes())?;
            upload.finish().map(drop)
        }
        Operation::Delete(at) => archive.remove(&path(at)),
        Operation::Rename(from, to) if from == to => archive.stat(&path(from)).map(drop),
        Operation::Rename(from, to) => archive.rename(&path(from), &path(to), true),
        Operation::Migrate => migrate(archive, PATIENCE).map(drop),
        Operation::Evict => archive.evict(&everything()).map(drop),
        Operation::Stage => stage(archive, everything()).map(drop),
    }
}

/// Brings everything to tape and under indexes; gives whether it came to an end.
pub fn migrate(archive: &Archive, patience: Duration) -> Result<bool, ArchiveError> {
    let begin = Instant::now();
    loop {
        archive.migrate_now(None)?;
        let totals = archive.totals()?;
        if totals.todo.files == 0 && totals.queued.files == 0 && totals.unindexed == 0 {
            return Ok(true);
        }
        if begin.elapsed() > patience {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Stages; gives whether it came to an end.
pub fn stage(archive: &Archive, selection: Selection) -> Result<bool, ArchiveError> {
    let options = StageOptions {
        owner: "torture".to_owned(),
        pin: Duration::ZERO,
        priority: catalogue::PRIORITY_USUAL,
    };
    let request: RequestId = archive.stage(&selection, options)?;
    let begin = Instant::now();
    while !has_ended(archive.request(request)?.record.state) {
        if begin.elapsed() > PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

/// How far a workload has come, from its marks.
#[derive(Clone, Default, Debug)]
pub struct Marks {
    /// For each thread and number: begun, or how it ended.
    ends: BTreeMap<(u64, u64), Option<bool>>,
}

impl Marks {
    /// Takes note of a mark.
    pub fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[kind, thread, number, word] = words.as_slice() else { return };
        if let (Ok(thread), Ok(number)) = (thread.parse(), number.parse()) {
            self.ends.insert((thread, number), (kind == "A").then_some(word == "ok"));
        }
    }

    /// Acknowledged changes.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.ends.values().filter(|end| **end == Some(true)).count() as u64
    }
}

/// What each path may hold.
pub type Expected = BTreeMap<String, BTreeSet<Option<Version>>>;

/// What each path may hold at the moment of these marks.
#[must_use]
pub fn expected(seed: u64, marks: &Marks) -> Expected {
    let mut expected = Expected::new();
    for thread in 0..THREADS {
        for slot in 0..SLOTS {
            expected.insert(format!("/t{thread}/f{slot}"), BTreeSet::from([None]));
        }
        for (number, operation) in operations(seed, thread).iter().enumerate() {
            let Some(end) = marks.ends.get(&(thread, number as u64)) else { break };
            if *end == Some(false) {
                continue;
            }
            let certain = *end == Some(true);
            let mut set = |path: &String, value: BTreeSet<Option<Version>>| {
                let entry = expected.entry(path.clone()).or_default();
                if certain { *entry = value } else { entry.extend(value) }
            };
            match operation {
                Operation::Put(path, version) => set(path, BTreeSet::from([Some(*version)])),
                Operation::Delete(path) => set(path, BTreeSet::from([None])),
                Operation::Rename(from, to) if from != to => {
                    let moved = expected.get(from).cloned().unwrap_or_default();
                    let mut set = |path: &String, value: BTreeSet<Option<Version>>| {
                        let entry = expected.entry(path.clone()).or_default();
                        if certain { *entry = value } else { entry.extend(value) }
                    };
                    // What is not there cannot be renamed.
                    set(to, moved.into_iter().filter(Option::is_some).collect());
                    set(from, BTreeSet::from([None]));
                }
                _ => {}
            }
        }
    }
    expected
}
