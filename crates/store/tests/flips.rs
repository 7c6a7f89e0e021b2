//! Damage of every kind to the file of the catalogue: the start refuses it and changes nothing, or every
//! record is what it was. So nothing is removed, nothing answered as absent and nothing acknowledged on the
//! word of a damaged one. In child processes, since a walk that trusted a page might crash.

#[path = "../../catalogue/tests/it/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use base::{ByteCount, DirId, Duration, FileId, ManualClock, Timestamp, Vid};
use catalogue::{Command, Envelope, Replace, TapeState};
use common::{Bench, name};
use store::{CatalogueStore, Digests, SNAPSHOT_DATA, SnapshotReader, StoreOptions};

/// Rounds unless `KIST_FLIPS` says otherwise; a hunt has 10,000 and more.
const ROUNDS: u64 = 600;
/// Rounds of one child process.
const BATCH: u64 = 250;
/// Older states of the file that stale pages come from.
const OLDER: usize = 24;
const PAGE: usize = 4096;
/// A round that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);
const HANGS: i32 = 99;
/// Tells a child where the catalogues lie, its rounds and the planted bug: `DIRECTORY FIRST COUNT BUG`.
const CHILD: &str = "KIST_FLIPS_CHILD";

/// A small generator: one seed is one run.
struct Numbers(u64);

impl Numbers {
    fn of_round(round: u64) -> Self {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (round + 1).wrapping_mul(0xd134_2543_de82_ef95));
        (0..8).for_each(|_| _ = numbers.next());
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 8) as usize % limit.max(1)
    }
}

/// A bit of everything: files in all states, containers on two tapes, an open session, requests, pins.
fn commands() -> Vec<Command> {
    let mut bench = Bench::new();
    let mut files: Vec<(FileId, String)> = Vec::new();
    for n in 0..240 {
        let path = format!("file{n:04}");
        let file = bench.put(&path, &format!("the content of file {n}"));
        files.push((file, path));
        if n % 40 == 0 {
            let below = bench.mkdir(DirId::ROOT, &format!("directory{n}"));
            bench.mkdir(below, "below");
        }
    }
    let ids: Vec<FileId> = files.iter().map(|(file, _)| *file).collect();
    for (at, files) in ids.chunks(20).take(9).enumerate() {
        let pack = bench.pack(files);
        for tape in (0..2).take(if at == 8 { 1 } else { 2 }) {
            bench.write_to(tape, pack);
        }
    }
    for file in &ids[..120] {
        bench.evict(*file).unwrap();
    }
    let request = bench.request(&ids[..50]);
    bench.request(&ids[40..60]);
    for file in &ids[..30] {
        bench.recall(*file);
    }
    bench.ok(Command::Release { request, files: Some(ids[5..8].to_vec()) });
    for (_, path) in &files[100..106] {
        bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name(path) });
    }
    let (_, path) = &files[130];
    bench.ok(Command::Rename {
        from_parent: DirId::ROOT,
        from_name: name(path),
        to_parent: DirId::ROOT,
        to_name: name("renamed"),
        replace: Replace::Refused,
    });
    let pack = bench.pack(&ids[180..200]);
    let run = bench.begin(1);
    bench.append(run, pack, 3);
    let vid = Vid::new("CCC001").unwrap();
    bench.ok(Command::RegisterTape { vid, capacity: ByteCount(1 << 40) });
    bench.ok(Command::SetTapeState { vid, state: TapeState::Disabled, reason: "it is new".into() });
    bench.log.iter().map(|bytes| Envelope::decode(bytes).unwrap().command).collect()
}

fn open(directory: &Path) -> Result<CatalogueStore, store::OpenError> {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000_000_000)));
    CatalogueStore::open(directory, StoreOptions::new(ByteCount::mib(64), clock))
}

/// Makes `whole`, `before` (the same before its last commit) and the older files.
fn make(root: &Path) {
    let commands = commands();
    let whole = root.join("whole");
    let groups: Vec<&[Command]> = commands.chunks(6).collect();
    let every = (groups.len() / OLDER).max(1);
    for (at, group) in groups.iter().enumerate() {
        let last = at + 1 == groups.len();
        if at > 0 && (last || at % every == 0) {
            let target = if last { root.join("before") } else { root.join(format!("older{}", at / every)) };
            fs::create_dir_all(&target).unwrap();
            for file in [SNAPSHOT_DATA, "FORMAT"] {
                fs::copy(whole.join(file), target.join(file)).unwrap();
            }
        }
        // Opened anew for each group, so that copies of its files are of one moment.
        let store = open(&whole).unwrap();
        for answer in store.execute_all(group.to_vec()).unwrap() {
            answer.unwrap();
        }
    }
    assert_eq!(open(&whole).unwrap().verify(&root.join("scratch")).unwrap(), []);
}

fn digests(directory: &Path) -> Digests {
    SnapshotReader::open(directory).unwrap().digests().unwrap()
}

/// What the rounds of a child start from.
struct Originals {
    whole: Vec<u8>,
    older: Vec<Vec<u8>>,
    digests: Digests,
}

impl Originals {
    fn read(root: &Path) -> Self {
        let mut older = vec![fs::read(root.join("before").join(SNAPSHOT_DATA)).unwrap()];
        let images = (0..=OLDER).map(|n| root.join(format!("older{n}")).join(SNAPSHOT_DATA));
        older.extend(images.filter_map(|path| fs::read(path).ok()));
        assert!(older.len() > OLDER / 2, "{} older files", older.len());
        Originals {
            whole: fs::read(root.join("whole").join(SNAPSHOT_DATA)).unwrap(),
            older,
            digests: digests(&root.join("whole")),
        }
    }

    /// The damaged file of a round: its kind, and where; `None`: the damage changes no byte.
    fn damage(&self, round: u64) -> (&'static str, String, Option<Vec<u8>>) {
        let mut numbers = Numbers::of_round(round);
        let mut bytes = self.whole.clone();
        let pages = bytes.len() / PAGE;
        let page = numbers.below(pages);
        let at = page * PAGE;
        let (kind, what) = match round % 13 {
            0..=5 => {
                let (byte, bit) = (numbers.below(bytes.len()), numbers.below(8));
                bytes[byte] ^= 1 << bit;
                ("bit", format!("bit {bit} of byte {} of page {}", byte % PAGE, byte / PAGE))
            }
            6 => {
                // Only the first bytes of a meta page mean anything.
                let (meta, byte, bit) = (numbers.below(2), numbers.below(160), numbers.below(8));
                bytes[meta * PAGE + byte] ^= 1 << bit;
                ("meta bit", format!("bit {bit} of byte {byte} of page {meta}"))
            }
            7 => {
                let byte = numbers.below(96);
                bytes[at + byte] = numbers.next() as u8;
                ("header byte", format!("byte {byte} of page {page}"))
            }
            8 | 9 => {
                let older = &self.older[numbers.below(self.older.len())];
                let from = at + if round % 13 == 8 { 0 } else { 512 * (1 + numbers.below(7)) };
                if let Some(stale) = older.get(from..at + PAGE) {
                    bytes[from..at + PAGE].copy_from_slice(stale);
                }
                let kind = if from == at { "stale page" } else { "torn page" };
                (kind, format!("from byte {} of page {page}", from - at))
            }
            10 => {
                let other = numbers.below(pages);
                let copy = bytes[at..at + PAGE].to_vec();
                bytes.copy_within(other * PAGE..(other + 1) * PAGE, at);
                bytes[other * PAGE..(other + 1) * PAGE].copy_from_slice(&copy);
                ("swapped pages", format!("with {other} of page {page}"))
            }
            11 => {
                let other = numbers.below(pages);
                bytes.copy_within(other * PAGE..(other + 1) * PAGE, at);
                ("duplicated page", format!("{other} over page {page}"))
            }
            _ => {
                bytes[at..at + PAGE].fill(0);
                ("zeroed page", format!("all of page {page}"))
            }
        };
        let changed = bytes != self.whole;
        (kind, what, changed.then_some(bytes))
    }
}

/// What the damage of a round comes to; the error is the start's, which tells of it.
fn examine(directory: &Path, originals: &Originals) -> Result<String, String> {
    let before = fs::read(directory.join(SNAPSHOT_DATA)).unwrap();
    if let Err(error) = open(directory) {
        assert!(matches!(error, store::OpenError::Damaged { .. }), "{error}");
        let is_same = fs::read(directory.join(SNAPSHOT_DATA)).unwrap() == before;
        return if is_same { Err(error.to_string()) } else { Ok("silent\tit was changed".to_owned()) };
    }
    let reader = SnapshotReader::open(directory).map_err(|error| format!("reopen: {error}"))?;
    let digests = reader.digests().map_err(|error| format!("read: {error}"))?;
    if digests == originals.digests {
        return Ok("harmless".to_owned());
    }
    let tables = digests.iter().zip(&originals.digests).filter(|(now, then)| now.1 != then.1);
    let names: Vec<&str> = tables.map(|((table, _), _)| table.name()).collect();
    Ok(format!("silent\t{}", names.join(" ")))
}

/// The rounds of one child process, two lines of its report each.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut words = task.split(' ');
    let (Some(root), Some(first), Some(count)) = (words.next(), words.next(), words.next()) else { panic!() };
    let bug = words.next().filter(|bug| !bug.is_empty());
    assert!(bug.is_none_or(base::planted::plant_named), "{bug:?}");
    let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
    let root = PathBuf::from(root);
    let originals = Originals::read(&root);
    let mut report = File::options().append(true).create(true).open(root.join("report")).unwrap();
    let (alive, heard) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        while heard.recv_timeout(PATIENCE).is_ok() {}
        std::process::exit(HANGS);
    });
    let directory = root.join("damaged");
    for round in first..first + count {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for file in ["FORMAT", "HEAD"] {
            fs::copy(root.join("whole").join(file), directory.join(file)).unwrap();
        }
        let (kind, what, bytes) = originals.damage(round);
        writeln!(report, "begin\t{round}\t{kind}\t{what}").unwrap();
        let result = match bytes {
            None => "unchanged".to_owned(),
            Some(bytes) => {
                fs::write(directory.join(SNAPSHOT_DATA), bytes).unwrap();
                examine(&directory, &originals)
                    .unwrap_or_else(|why| format!("told\t{}", why.replace(['\n', '\t'], " ")))
            }
        };
        writeln!(report, "end\t{round}\t{result}").unwrap();
        alive.send(()).unwrap();
    }
    // Here, since the thread that watches would take what follows for a hang.
    std::process::exit(0);
}

fn run_child(root: &Path, first: u64, count: u64, bug: &str) -> ExitStatus {
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    process.env(CHILD, format!("{} {first} {count} {bug}", root.display()));
    process.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}

/// All rounds so far.
#[derive(Default)]
struct Tally {
    next: u64,
    counts: BTreeMap<(String, String), u64>,
    bad: Vec<String>,
}

impl Tally {
    fn count(&mut self, kind: &str, result: &str) {
        *self.counts.entry((kind.to_owned(), result.to_owned())).or_insert(0) += 1;
    }

    fn of(&self, result: &str) -> u64 {
        self.counts.iter().filter(|((_, found), _)| found == result).map(|(_, count)| count).sum()
    }

    /// Takes in what a child has reported. The round in which it ended too early crashed or hung.
    fn take(&mut self, report: &str, status: ExitStatus) {
        let mut under_way = None;
        for line in report.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            match (&words[..], &under_way) {
                (["begin", round, kind, place], None) => {
                    self.next = round.parse::<u64>().unwrap() + 1;
                    under_way = Some((kind.to_string(), format!("round {round}, {kind}: {place}")));
                }
                (["end", _, result, rest @ ..], Some((kind, place))) => {
                    self.count(&kind.clone(), result);
                    if *result == "silent" {
                        self.bad.push(format!("{place}: {result} {}", rest.join(" ")));
                    }
                    under_way = None;
                }
                _ => panic!("{line}"),
            }
        }
        match under_way {
            Some((_, place)) if status.code() == Some(HANGS) => self.bad.push(format!("{place}: it hangs")),
            Some((_, place)) => self.bad.push(format!("{place}: it crashes")),
            None => assert!(status.success() && !report.is_empty(), "{status}: {report}"),
        }
    }
}

/// One at a time: a child that is just being made holds the lock of a catalogue that is open here.
static HUNTING: Mutex<()> = Mutex::new(());

fn hunt(rounds: u64, bug: &str) -> Tally {
    let _one = HUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let root = tempfile::tempdir().unwrap();
    make(root.path());
    let report = root.path().join("report");
    let mut tally = Tally::default();
    while tally.next < rounds {
        let _ = fs::remove_file(&report);
        let status = run_child(root.path(), tally.next, BATCH.min(rounds - tally.next), bug);
        tally.take(&fs::read_to_string(&report).unwrap_or_default(), status);
    }
    tally
}

#[test]
fn no_damage_is_silent() {
    let rounds = std::env::var("KIST_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let tally = hunt(rounds, "");
    for ((kind, result), count) in &tally.counts {
        println!("{kind:>15} {result:>10} {count:>6}");
    }
    let told = tally.of("told");
    println!(
        "{rounds} damages flips: {told} refused, {} harmless, {} believed",
        tally.of("harmless"),
        tally.bad.len()
    );
    assert!(tally.bad.is_empty(), "{} believed:\n{}", tally.bad.len(), tally.bad.join("\n"));
    assert!(told > rounds / 4, "{told} of {rounds}: the damage must hit something");
}

/// Story: with a flag that says that its keys have several values each LMDB went through the main tree for
/// ever, and the server did not start.
#[test]
fn trees_of_another_kind_are_refused() {
    const FLAGS_OF_FREE_AND_MAIN: [usize; 2] = [44, 92];
    let _one = HUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let root = tempfile::tempdir().unwrap();
    make(root.path());
    let originals = Originals::read(root.path());
    let places = (0..2).flat_map(|meta| FLAGS_OF_FREE_AND_MAIN.map(|byte| meta * PAGE + byte));
    for (at, bit) in places.flat_map(|at| (0..7).map(move |bit| (at, bit))) {
        let directory = root.path().join(format!("flag-{at}-{bit}"));
        fs::create_dir(&directory).unwrap();
        for file in ["FORMAT", "HEAD"] {
            fs::copy(root.path().join("whole").join(file), directory.join(file)).unwrap();
        }
        let mut bytes = originals.whole.clone();
        bytes[at] ^= 1 << bit;
        fs::write(directory.join(SNAPSHOT_DATA), bytes).unwrap();
        let (done, waits) = mpsc::channel();
        std::thread::spawn(move || drop(done.send(open(&directory).map(drop))));
        let opened = waits.recv_timeout(PATIENCE);
        let is_told = matches!(&opened, Ok(Err(store::OpenError::Damaged { .. })));
        assert!(is_told, "bit {bit} of byte {at}: {opened:?}");
    }
}

/// A start that believes what it finds is caught.
#[test]
fn a_start_that_walks_no_page_is_caught() {
    let tally = hunt(100, "UnwalkedCatalogue");
    assert!(tally.bad.len() > 10, "{} of 100", tally.bad.len());
}

/// Story: an older copy of the file was written over that of a running server; its names were served, and
/// changes acknowledged on top of it.
#[test]
fn an_older_file_under_a_running_writer_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.execute(Command::Initialise { instance: base::Uuid::from_random([7; 16]) }).unwrap();
    let old = fs::read(dir.path().join("data.mdb")).unwrap();
    for _ in 0..3 {
        store.execute(Command::OpenEpoch).unwrap();
    }
    let file = File::options().write(true).open(dir.path().join("data.mdb")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &old, 0).unwrap();
    let read = store.read(|view| view.last_change()).unwrap_err().to_string();
    assert!(read.contains("an older file was written over it"), "{read}");
    assert!(store.execute(Command::OpenEpoch).is_err());
}
