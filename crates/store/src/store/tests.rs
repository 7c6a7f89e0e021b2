use std::sync::Barrier;

use base::{DirId, ManualClock, Name, Uuid};
use catalogue::{Attributes, Counter, Entry, Table};

use super::*;

fn options(map_size: ByteCount) -> StoreOptions {
    StoreOptions::new(map_size, Arc::new(ManualClock::new(Timestamp(5))))
}

/// Tests beside this one begin programs, which for a moment have the locks of all stores that are open.
fn open(dir: &Path) -> CatalogueStore {
    for _ in 0..OPENS_MAX {
        match CatalogueStore::open(dir, options(ByteCount::mib(64))) {
            Err(OpenError::InUse(_)) => {}
            opened => return opened.unwrap(),
        }
    }
    panic!("the store stays in use");
}

/// Each one waits for the lock half a second.
const OPENS_MAX: usize = 20;

fn initialised(dir: &Path) -> CatalogueStore {
    let store = open(dir);
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    store
}

fn directory(name: &str) -> Command {
    let name = Name::new(name).unwrap();
    Command::MakeDirectory { parent: DirId::ROOT, name, attributes: Attributes::default(), class: None }
}

#[test]
fn a_second_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    assert!(matches!(CatalogueStore::open(dir.path(), options(ByteCount::mib(1))), Err(OpenError::InUse(_))));
    drop(first);
    open(dir.path());
}

#[test]
fn everything_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    for number in 0..100 {
        store.execute(directory(&format!("d{number}"))).unwrap();
    }
    drop(store);
    let store = open(dir.path());
    store
        .read(|view| {
            assert_eq!(view.instance()?, Some(Uuid([1; 16])));
            assert_eq!(view.list(DirId::ROOT, None, 1000)?.len(), 100);
            assert_eq!((view.first_change()?, view.last_change()?), (1, 101));
            assert_eq!(view.check()?, []);
            Ok(())
        })
        .unwrap();
}

#[test]
fn waiting_commands_share_a_commit() {
    const THREADS: usize = 32;
    const EACH: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    let before = store.commits();
    let barrier = Barrier::new(THREADS);
    threads::scope(|scope| {
        for thread in 0..THREADS {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for number in 0..EACH {
                    store.execute(directory(&format!("t{thread}n{number}"))).unwrap();
                }
            });
        }
    });
    let commits = store.commits() - before;
    assert!(commits < (THREADS * EACH) as u64, "{commits} commits");
    let known = store.read(|view| Ok(view.size(Table::Directory)?.0)).unwrap();
    assert_eq!(known, (THREADS * EACH) as u64 + 1);
}

/// A command that is wrong about its answer: a directory's is another one.
struct Mistaken(Command);

impl TypedCommand for Mistaken {
    type Answer = ();

    fn into_command(self) -> Command {
        self.0
    }

    fn answer(outcome: Outcome) -> Result<(), Outcome> {
        Err(outcome)
    }
}

#[test]
fn a_wrong_outcome_is_an_error_of_its_own_and_what_was_done_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    let is_wrong = |error: &ExecuteError| match error {
        ExecuteError::WrongOutcome(outcome) => matches!(**outcome, Outcome::Directory(_)),
        _ => false,
    };
    assert!(is_wrong(&store.ask(Mistaken(directory("a"))).unwrap_err()));
    let answers = store.ask_all(vec![Mistaken(directory("a")), Mistaken(directory("b"))]).unwrap();
    assert!(matches!(answers[0], Err(ExecuteError::Rejected(Rejection::NameTaken { .. }))));
    assert!(is_wrong(answers[1].as_ref().unwrap_err()));
    assert!(store.is_writing(), "the tables are as the commands left them");
    let made = store.read(|view| Ok(view.list(DirId::ROOT, None, 9)?.len())).unwrap();
    assert_eq!(made, 2);
    let make = catalogue::typed::MakeDirectory {
        parent: DirId::ROOT,
        name: Name::new("c").unwrap(),
        attributes: Attributes::default(),
        class: None,
    };
    let made = store.ask(make).unwrap();
    let found = store.read(|view| view.entry(DirId::ROOT, &Name::new("c").unwrap())).unwrap();
    assert_eq!(found, Some(Entry::Directory(made)));
}

#[test]
fn one_call_is_one_commit_and_refusals_are_single() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    let before = store.commits();
    let answers = store.execute_all(vec![directory("a"), directory("a"), directory("b")]).unwrap();
    assert!(matches!(answers[..], [Ok(_), Err(Rejection::NameTaken { .. }), Ok(_)]));
    assert_eq!(store.commits(), before + 1);
    assert!(matches!(store.execute(directory("a")), Err(ExecuteError::Rejected(_))));
    assert_eq!(store.commits(), before + 1, "what changes nothing needs no commit");
    let limit = crate::EXECUTE_ALL_MAX;
    let many = vec![Command::OpenEpoch; limit + 1];
    assert!(
        matches!(store.execute_all(many), Err(ExecuteError::TooMany { found, .. }) if found == limit + 1)
    );
}

#[test]
fn after_a_failed_commit_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    store.commit_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.execute(directory("a")), Err(ExecuteError::Engine(_))));
    store.commit_fails.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(matches!(store.execute(directory("b")), Err(ExecuteError::Stopped)));
    }
    assert!(!store.is_writing());
    assert_eq!(store.read(|view| view.list(DirId::ROOT, None, 10)).unwrap(), [], "reads go on");
    drop(store);
    let store = open(dir.path());
    store.execute(directory("b")).unwrap();
}

#[test]
fn a_full_map_refuses_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = CatalogueStore::open(dir.path(), options(ByteCount::mib(1))).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let mut made = 0u64;
    let full = loop {
        let batch: Vec<_> = (0..100).map(|number| directory(&format!("d{made}n{number}"))).collect();
        match store.execute_all(batch) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 1000, "the map never fills");
    };
    assert!(matches!(full, ExecuteError::MapFull), "{full}");
    store
        .read(|view| {
            assert_eq!(view.size(Table::Directory)?.0, made * 100 + 1, "the refused batch left nothing");
            assert_eq!(view.check()?, []);
            Ok(())
        })
        .unwrap();
    assert!(store.is_writing());
    let removed = Command::RemoveDirectory { parent: DirId::ROOT, name: Name::new("d0n0").unwrap() };
    store.execute(removed).unwrap();
}

#[test]
fn readers_see_whole_groups() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    let done = AtomicBool::new(false);
    threads::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !done.load(Ordering::Relaxed) {
                        let count = store.read(|view| {
                            let listed = view.list(DirId::ROOT, None, 10_000)?;
                            let changes = view.last_change()?;
                            assert_eq!(listed.len() as u64 + 1, changes, "entries and changes of one moment");
                            Ok(listed.len())
                        });
                        let count = count.unwrap();
                        assert!(count >= seen && count.is_multiple_of(7), "half a group is visible: {count}");
                        seen = count;
                    }
                })
            })
            .collect();
        for group in 0..100 {
            let commands = (0..7).map(|number| directory(&format!("g{group}n{number}"))).collect();
            store.execute_all(commands).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let tally = store.read(|view| view.tally(Counter::Flushes)).unwrap();
    assert_eq!(tally.files, 0);
    assert!(matches!(
        store.read(|view| view.entry(DirId::ROOT, &Name::new("g99n6").unwrap())).unwrap(),
        Some(Entry::Directory(_))
    ));
}

/// What an older Kist has written, which knew neither sums nor `HEAD`, is taken over once it agrees with
/// itself.
#[test]
fn a_catalogue_of_format_2_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    for number in 0..100 {
        store.execute(directory(&format!("d{number}"))).unwrap();
    }
    drop(store);
    as_format_2(dir.path(), |_, _| {});
    let store = open(dir.path());
    assert_eq!(store.read(|view| view.list(DirId::ROOT, None, 1000)).unwrap().len(), 100);
    assert_eq!(format::check(dir.path()).unwrap(), format::FORMAT_VERSION);
    store.execute(directory("later")).unwrap();
    drop(store);
    assert_eq!(open(dir.path()).read(|view| view.check()).unwrap(), []);
    // The rows are sound and one is missing.
    as_format_2(dir.path(), |txn, tables| {
        let rows = &tables[Table::Directory.index()];
        let (key, _) = rows.last(txn).unwrap().unwrap();
        let key = key.to_vec();
        assert!(rows.delete(txn, &key).unwrap());
    });
    let refused = CatalogueStore::open(dir.path(), options(ByteCount::mib(64)));
    assert!(matches!(refused, Err(OpenError::Unreadable { .. })));
    assert_eq!(format::check(dir.path()).unwrap(), 2);
}

/// Makes of a catalogue one as an older Kist has left it, with a change of its rows.
fn as_format_2(dir: &Path, change: impl FnOnce(&mut heed::RwTxn<'_>, &[crate::engine::Rows])) {
    use heed::types::Bytes;
    let mut options = heed::EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(64 << 20).max_dbs(Table::COUNT as u32 + 1);
    // SAFETY: nobody else has it open.
    let env = unsafe { options.open(dir).unwrap() };
    let txn = env.write_txn().unwrap();
    let opened = env.create_databases_and_commit(txn, |opener, txn| -> Result<_, heed::Error> {
        let tables =
            Table::ALL.map(|table| opener.create_database::<Bytes, Bytes>(txn, Some(table.name())).unwrap());
        let sums = opener.create_database::<Bytes, Bytes>(txn, Some(crate::integrity::SUMS_TABLE))?;
        Ok(heed::CommitOrAbort::<_, std::convert::Infallible>::Commit((tables, sums)))
    });
    let heed::CommitOrAbort::Commit((tables, sums)) = opened.unwrap();
    let mut txn = env.write_txn().unwrap();
    sums.clear(&mut txn).unwrap();
    change(&mut txn, &tables);
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
    fs::remove_file(dir.join(crate::head::NAME)).unwrap();
    fs::write(dir.join("FORMAT"), format::encode(2)).unwrap();
}

/// Pages are split, merged, freed and used again, values lie on pages of their own, the list of free pages
/// grows and shrinks: what LMDB has made of it is found whole at every start.
#[test]
fn a_sound_catalogue_is_never_taken_for_a_damaged_one() {
    let dir = tempfile::tempdir().unwrap();
    drop(initialised(dir.path()));
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut names = std::collections::BTreeSet::new();
    let mut long_values = 0;
    for round in 0..60 {
        let store = open(dir.path());
        // Grows and shrinks in turn.
        let share = if round % 12 < 7 { 7 } else { 2 };
        for _ in 0..1 + below(12) {
            let mut commands = Vec::new();
            for _ in 0..1 + below(120) {
                let name = format!("{:0width$}", below(3_000), width = 4 + below(90) as usize);
                if below(10) < share && !names.contains(&name) {
                    let length = if below(9) == 0 { below(30_000) } else { below(300) } as usize;
                    long_values += usize::from(length > 4_096);
                    let attributes = Attributes {
                        xattrs: vec![("user.a".to_owned(), vec![7; length])],
                        ..Attributes::default()
                    };
                    let Command::MakeDirectory { parent, name: at, class, .. } = directory(&name) else {
                        unreachable!()
                    };
                    commands.push(Command::MakeDirectory { parent, name: at, attributes, class });
                    names.insert(name);
                } else if let Some(gone) = names.range(name.clone()..).next().cloned() {
                    let name = Name::new(&gone).unwrap();
                    commands.push(Command::RemoveDirectory { parent: DirId::ROOT, name });
                    names.remove(&gone);
                }
            }
            // The log too is given back, so that its pages are free.
            let last = store.read(|view| view.last_change()).unwrap();
            commands.push(Command::TrimChanges { through: last.saturating_sub(below(400)) });
            for answer in store.execute_all(commands).unwrap() {
                answer.unwrap();
            }
        }
        let listed = store.read(|view| view.list(DirId::ROOT, None, usize::MAX)).unwrap();
        assert_eq!(listed.len(), names.len(), "round {round}");
    }
    assert!(long_values > 100, "{long_values}");
    assert_eq!(open(dir.path()).read(|view| view.check()).unwrap(), []);
}

/// Pages of `data.mdb`, as LMDB makes them here.
const PAGE: usize = 4096;

/// Story: a page was overwritten with another one while the server ran. Each start walks all pages, and here
/// there was none: rows were answered as absent, and what they named was removed.
#[test]
fn a_page_that_is_replaced_under_an_open_store_is_found() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    for group in 0..40 {
        let commands = (0..50).map(|number| directory(&format!("group{group}number{number}")));
        store.execute_all(commands.collect()).unwrap();
    }
    store.check_pages().unwrap();
    drop(store);
    let data = dir.path().join(crate::SNAPSHOT_DATA);
    let pages = fs::metadata(&data).unwrap().len() / PAGE as u64;
    let (mut found, mut free) = (0, 0);
    for page in (2..pages - 1).step_by(3) {
        let store = open(dir.path());
        let file = File::options().read(true).write(true).open(&data).unwrap();
        let at = |page: u64| {
            let mut bytes = [0; PAGE];
            file.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
            bytes
        };
        let (sound, mut other) = (at(page), at(page + 1));
        // As if it were the right one.
        other[..8].copy_from_slice(&page.to_le_bytes());
        file.write_all_at(&other, page * PAGE as u64).unwrap();
        match store.check_pages() {
            Err(error) => {
                found += 1;
                assert!(error.to_string().contains("damaged while the server runs"), "{error}");
                assert!(store.read(|view| view.last_change()).is_err());
                assert!(store.execute(directory("later")).is_err());
            }
            Ok(()) => free += 1,
        }
        drop(store);
        file.write_all_at(&sound, page * PAGE as u64).unwrap();
    }
    assert!(found > 20, "{found} found, {free} were free");
    let store = open(dir.path());
    store.check_pages().unwrap();
    fs::rename(&data, dir.path().join("other")).unwrap();
    fs::copy(dir.path().join("other"), &data).unwrap();
    assert!(store.check_pages().unwrap_err().to_string().contains("another file"));
}

/// Story: `data.mdb` was removed, or a copy was put in its place, while the server ran. Puts were
/// acknowledged for hours into a file that no start would find.
#[test]
fn nothing_is_acknowledged_into_a_file_that_is_not_in_its_place() {
    for is_replaced in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = initialised(dir.path());
        store.execute(directory("before")).unwrap();
        let data = dir.path().join(crate::SNAPSHOT_DATA);
        fs::rename(&data, dir.path().join("elsewhere")).unwrap();
        if is_replaced {
            fs::copy(dir.path().join("elsewhere"), &data).unwrap();
        }
        let refused = store.execute(directory("after")).unwrap_err().to_string();
        assert!(refused.contains("not in its place"), "{refused}");
        assert!(store.execute(directory("later")).is_err());
        assert!(!store.is_writing());
    }
}

/// Commits write pages and metas while the pages are walked.
#[test]
fn a_walk_beside_commits_finds_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let store = initialised(dir.path());
    let done = AtomicBool::new(false);
    threads::scope(|scope| {
        let walker = scope.spawn(|| {
            let mut walks = 0;
            while !done.load(Ordering::Relaxed) {
                store.check_pages().unwrap();
                walks += 1;
            }
            walks
        });
        for group in 0..300 {
            let commands = (0..7).map(|number| directory(&format!("g{group}n{number}"))).collect();
            store.execute_all(commands).unwrap();
            if group % 3 == 0 {
                let last = store.read(|view| view.last_change()).unwrap();
                store.execute(Command::TrimChanges { through: last - 1 }).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(walker.join().unwrap() > 3);
    });
}

/// Found by filling the disk of a server: the first commit without room stopped the writer for good.
#[test]
fn a_full_file_system_refuses_what_grows_and_all_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(dir.path().join("disk"), "40m") else { return };
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let options = StoreOptions::new(ByteCount::gib(1), clock.clone());
    let store = CatalogueStore::open(&small.0, options.clone()).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let fill = || {
        let mut other = File::create(small.0.join("other")).unwrap();
        let written = std::io::copy(&mut std::io::repeat(7), &mut other);
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    };
    fill();
    let mut made = 0u64;
    let full = loop {
        let batch: Vec<_> = (0..500).map(|number| directory(&format!("d{made}n{number}"))).collect();
        match store.execute_all(batch) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        clock.advance(base::Duration::from_secs(2));
        assert!(made < 1000, "the disk never fills");
    };
    assert!(matches!(full, ExecuteError::DiskFull), "{full}");
    assert!(made > 0, "there are blocks ahead");
    assert_eq!(store.lack(), Some((Shortage::Disk, Refused::Growth)));
    assert!(store.is_writing());
    assert_eq!(store.read(|view| Ok(view.size(Table::Directory)?.0)).unwrap(), made * 500 + 1);
    // What makes room goes on, all of it, and a restart needs no room.
    for batch in 0..made {
        let removed = (0..500).map(|number| Command::RemoveDirectory {
            parent: DirId::ROOT,
            name: Name::new(&format!("d{batch}n{number}")).unwrap(),
        });
        assert!(store.execute_all(removed.collect()).unwrap().iter().all(Result::is_ok));
    }
    drop(store);
    let store = CatalogueStore::open(&small.0, options).unwrap();
    fs::remove_file(small.0.join("other")).unwrap();
    clock.advance(base::Duration::from_secs(2));
    assert_eq!(store.lack(), None);
    store.execute(directory("again")).unwrap();
    assert_eq!(store.read(|view| view.check()).unwrap(), []);
}

/// The same with a group that no blocks ahead are enough for: LMDB itself meets the full file system.
#[test]
fn a_commit_that_meets_a_full_file_system_changes_nothing_and_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(dir.path().join("disk"), "24m") else { return };
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store = CatalogueStore::open(&small.0, StoreOptions::new(ByteCount::gib(1), clock.clone())).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let many = (0..60_000).map(|number| directory(&format!("{number:0200}"))).collect();
    assert!(matches!(store.execute_all(many), Err(ExecuteError::DiskFull)));
    assert!(store.is_writing());
    assert_eq!(store.lack(), Some((Shortage::Disk, Refused::Growth)));
    assert_eq!(store.read(|view| Ok(view.size(Table::Directory)?.0)).unwrap(), 1);
    clock.advance(base::Duration::from_secs(2));
    store.execute(directory("small")).unwrap();
    assert_eq!(store.lack(), None);
    assert_eq!(store.read(|view| view.check()).unwrap(), []);
}

/// A full map could only be made larger by a restart with other settings: removals were refused too.
#[test]
fn a_full_map_takes_what_makes_room_and_then_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store =
        CatalogueStore::open(dir.path(), StoreOptions::new(ByteCount::mib(4), clock.clone())).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let mut made = 0u64;
    let name = |made: u64, number: u64| format!("{made:0100}n{number}");
    while store.execute_all((0..50).map(|number| directory(&name(made, number))).collect()).is_ok() {
        made += 1;
        clock.advance(base::Duration::from_secs(2));
    }
    assert_eq!(store.lack(), Some((Shortage::Map, Refused::Growth)));
    for batch in 0..made {
        let removed = (0..50).map(|number| Command::RemoveDirectory {
            parent: DirId::ROOT,
            name: Name::new(&name(batch, number)).unwrap(),
        });
        store.execute_all(removed.collect()).unwrap();
    }
    clock.advance(base::Duration::from_secs(2));
    assert_eq!(store.lack(), None);
    store.execute(directory("again")).unwrap();
}

/// Story: migration and evictions had one reserve. Once migration had used it up, the evictions that it was
/// kept for were refused as well, while the status said that what makes room goes on.
#[test]
fn a_last_part_of_the_map_is_kept_for_what_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(5)));
    let store =
        CatalogueStore::open(dir.path(), StoreOptions::new(ByteCount::mib(4), clock.clone())).unwrap();
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    let name = |made: u64, number: u64| format!("{made:0100}n{number}");
    let mut made = 0u64;
    while store.execute_all((0..50).map(|number| directory(&name(made, number))).collect()).is_ok() {
        made += 1;
    }
    assert_eq!(store.lack(), Some((Shortage::Map, Refused::Growth)));
    // The server's own work goes on in a part of the reserve. Time stands still: the room that is left is
    // looked at each time, and not once a second.
    let mut worked = 0;
    let refused = loop {
        match store.execute_all(vec![Command::ReserveContainer; 100]) {
            Ok(_) => worked += 1,
            Err(error) => break error,
        }
        assert!(worked < 10_000, "the reserve is never used up");
    };
    assert!(worked > 0 && matches!(refused, ExecuteError::MapFull), "{worked} {refused}");
    assert_eq!(store.lack(), Some((Shortage::Map, Refused::Work)));
    for batch in 0..made {
        let removed = (0..50).map(|number| Command::RemoveDirectory {
            parent: DirId::ROOT,
            name: Name::new(&name(batch, number)).unwrap(),
        });
        assert!(store.execute_all(removed.collect()).unwrap().iter().all(Result::is_ok));
    }
    clock.advance(base::Duration::from_secs(2));
    assert_eq!(store.lack(), None);
    store.execute(Command::ReserveContainer).unwrap();
    store.execute(directory("again")).unwrap();
    assert_eq!(store.read(|view| view.check()).unwrap(), []);
}

/// A file system of its own, gone when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None`, with a word about it, where mounting is not allowed.
    fn mount(at: std::path::PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let options = format!("size={size}");
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(at));
        }
        eprintln!("skipped: this machine does not let the test mount a file system");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
