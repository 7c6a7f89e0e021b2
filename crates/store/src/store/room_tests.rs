//! Full maps: what makes room goes on to its end, in parts where the whole does not fit.
//!
//! Story: a directory of thousands of files was removed on a full catalogue. The 400 files of a part did not
//! fit into what was kept for removals, and were tried again and again, for ever.

use base::{
    Blake3, BlobDescription, BlobId, BlobPiece, Checksums, ClassId, DirId, DriveId, FileId, Layout,
    ManualClock, Name, StreamChecksums, StripeCode, StripeSet, StripeSetId, TapePoolId, Uuid,
};
use catalogue::{
    Attributes, FileKind, Garbage, PoolCopy, PoolData, PutFile, ReadError, RemovedFile, Replace, View, Work,
};

use super::*;

/// Files that are removed one by one from each map.
const SINGLES: usize = 250;
/// More of these calls than any removal here needs.
const CALLS_MAX: usize = 20_000;

/// A catalogue, and files in two directories whose order by name is not that by age: a removal by name
/// touches other pages with each file.
struct Filled {
    store: CatalogueStore,
    clock: Arc<ManualClock>,
    gone: DirId,
    kept: DirId,
    /// Files that were put.
    next: u64,
}

fn directory(name: &str) -> Command {
    let name = Name::new(name).unwrap();
    Command::MakeDirectory { parent: DirId::ROOT, name, attributes: Attributes::default(), class: None }
}

fn name_of(number: u64) -> Name {
    Name::new(&format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))).unwrap()
}

fn put(parent: DirId, number: u64) -> Command {
    let size = ByteCount(300_000);
    let set = StripeSet { id: StripeSetId(1), drives: (0..6).map(DriveId).collect() };
    let layout = Layout::Striped { code: StripeCode::reed_solomon(4, 2) };
    // As ids of blobs are drawn: their order says nothing of age.
    let id = BlobId((number + 1).wrapping_mul(0xD1B5_4A32_D192_ED03) | 1);
    let blob = BlobDescription { id, stands_as: None, layout, length: size, stripes: vec![set] };
    let mut hash = [0u8; 32];
    hash[..8].copy_from_slice(&number.to_le_bytes());
    Command::PutFile(Box::new(PutFile {
        parent,
        name: name_of(number),
        kind: FileKind::Regular,
        size,
        attributes: Attributes { mode: 0o644, ..Default::default() },
        checksums: Checksums { stream: StreamChecksums::default(), blake3: Blake3(hash) },
        class: ClassId(1),
        dataset: parent.0,
        data: Some(PoolData {
            blobs: vec![blob],
            pieces: vec![BlobPiece { blob: id, offset: ByteCount(0), length: size }],
        }),
        replace: Replace::Allowed,
        idempotency: None,
    }))
}

impl Filled {
    /// All of a map is used that puts may use, the last of it by single ones.
    fn new(dir: &Path, map: ByteCount, log: Box<dyn ChangeLog>) -> Filled {
        let mut filled = Filled::begin(dir, map, log);
        filled.fill();
        filled
    }

    fn begin(dir: &Path, map: ByteCount, log: Box<dyn ChangeLog>) -> Filled {
        let clock = Arc::new(ManualClock::new(Timestamp(5)));
        let options = StoreOptions::new(map, clock.clone());
        let store = CatalogueStore::open_with_log(dir, options, log).unwrap();
        for command in [
            Command::Initialise { instance: Uuid([1; 16]) },
            Command::OpenEpoch,
            Command::DefineTapePool { name: "first".into() },
            Command::DefineClass { name: "one".into(), copies: vec![TapePoolId(1)] },
        ] {
            store.execute(command).unwrap();
        }
        let made = |name| match store.execute(directory(name)).unwrap() {
            Outcome::Directory(id) => id,
            other => panic!("{other:?}"),
        };
        let (gone, kept) = (made("gone"), made("kept"));
        Filled { store, clock, gone, kept, next: 0 }
    }

    fn fill(&mut self) {
        for group in [500, 50, 1] {
            while self.put(group).is_ok() {}
        }
        let refused = self.put(1).unwrap_err();
        assert!(matches!(refused, ExecuteError::MapFull), "{refused}");
    }

    /// Work of the server takes all that it may of what puts leave.
    fn fill_by_work(&self) {
        for group in [500, 20, 1] {
            while self.store.execute_all(vec![Command::ReserveContainer; group]).is_ok() {
                self.pass_time();
            }
        }
        assert!(self.store.engine.has_last_part());
    }

    /// Puts files, every fourth of them where it stays.
    fn put(&mut self, files: u64) -> Result<(), ExecuteError> {
        self.pass_time();
        let of = |number: u64| if number.is_multiple_of(4) { self.kept } else { self.gone };
        let commands = (self.next..self.next + files).map(|number| put(of(number), number)).collect();
        self.store.execute_all(commands)?.into_iter().for_each(|result| drop(result.unwrap()));
        self.next += files;
        Ok(())
    }

    fn pass_time(&self) {
        self.clock.advance(base::Duration::from_secs(2));
    }

    fn condemn(&self) {
        let command = Command::CondemnTree {
            parent: DirId::ROOT,
            name: Name::new("gone").unwrap(),
            directory: self.gone,
            owner: "alice".to_owned(),
            with_lists: false,
        };
        self.store.execute(command).unwrap();
    }

    /// Some of the tree, as the engine has it removed.
    fn remove_some(&self) -> Result<(Vec<RemovedFile>, bool), ExecuteError> {
        self.pass_time();
        match self.store.execute(Work::RemoveTree(self.gone).some())? {
            Outcome::TreeRemoved { files, more } => Ok((files, more)),
            other => panic!("{other:?}"),
        }
    }

    /// Removes the tree to its end; gives how many files that were, and how many at a time at least and most.
    fn remove_tree(&self) -> (u64, usize, usize) {
        let (mut all, mut least, mut most) = (0, usize::MAX, 0);
        for _ in 0..CALLS_MAX {
            let (files, more) = self.remove_some().unwrap();
            all += files.len() as u64;
            most = most.max(files.len());
            if !more {
                return (all, least, most);
            }
            least = least.min(files.len());
        }
        panic!("the removal has no end: {all} files of {}", self.next);
    }

    /// Forgets the bytes of removed files, as the sweeper does.
    fn sweep(&self) {
        for _ in 0..CALLS_MAX {
            let garbage = self.store.read(|view| view.garbage(500)).unwrap();
            if garbage.is_empty() {
                return;
            }
            let blob = |garbage: &Garbage| match garbage {
                Garbage::Blob(blob) => blob.id,
                Garbage::Value(..) => panic!("a value"),
            };
            let blobs = garbage.iter().map(blob).collect();
            self.pass_time();
            self.store.execute(Command::GarbageRemoved { blobs, values: Vec::new() }).unwrap();
        }
        panic!("there is always garbage");
    }

    fn check(&self) {
        assert_eq!(self.store.read(|view| view.check()).unwrap(), []);
    }

    fn removed_one(&self, number: u64) -> Result<Outcome, ExecuteError> {
        self.pass_time();
        self.store.execute(Command::RemoveFile { parent: self.kept, name: name_of(number) })
    }
}

fn goes_to_the_end(map: ByteCount) {
    let dir = tempfile::tempdir().unwrap();
    let mut filled = Filled::new(dir.path(), map, Box::new(Embedded));
    let before = filled.next;
    filled.fill_by_work();
    filled.condemn();
    let (removed, least, most) = filled.remove_tree();
    assert!(1 <= least && least < most, "{map}: {least} to {most} files at a time");
    assert_eq!(removed, before - before.div_ceil(4));
    filled.sweep();
    filled.check();
    filled.pass_time();
    assert_eq!(filled.store.lack(), None);
    // What was given back is used again; the log of changes has a part of it.
    filled.gone = match filled.store.execute(directory("gone")).unwrap() {
        Outcome::Directory(id) => id,
        other => panic!("{other:?}"),
    };
    while filled.next - before < removed / 5 {
        filled.put(50).unwrap();
    }
    filled.check();
}

#[test]
fn a_large_directory_is_removed_to_its_end_on_a_full_map_of_2_mib() {
    goes_to_the_end(ByteCount::mib(2));
}

#[test]
fn a_large_directory_is_removed_to_its_end_on_a_full_map_of_8_mib() {
    goes_to_the_end(ByteCount::mib(8));
}

#[test]
fn a_large_directory_is_removed_to_its_end_on_a_full_map_of_64_mib() {
    goes_to_the_end(ByteCount::mib(64));
}

/// Nothing but single removals, which need the pages that they change and get them back two commits later.
#[test]
fn single_removals_are_never_refused_on_a_full_map() {
    for map in [1, 2, 3, 8] {
        let dir = tempfile::tempdir().unwrap();
        let filled = Filled::new(dir.path(), ByteCount::mib(map), Box::new(Embedded));
        filled.fill_by_work();
        for number in (0..filled.next).filter(|number| number.is_multiple_of(4)).take(SINGLES) {
            filled.removed_one(number).unwrap_or_else(|error| panic!("{map} MiB, file {number}: {error}"));
        }
        filled.sweep();
        filled.check();
    }
}

/// LMDB does not write again what somebody still reads: a copy of the catalogue reads for minutes.
#[test]
fn a_removal_that_a_reader_keeps_from_going_on_says_so_and_goes_on_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let filled = Filled::new(dir.path(), ByteCount::mib(8), Box::new(Embedded));
    filled.fill_by_work();
    filled.condemn();
    let store = &filled.store;
    let (reads, is_read) = std::sync::mpsc::channel();
    let (ends, is_ended) = std::sync::mpsc::channel::<()>();
    threads::scope(|scope| {
        scope.spawn(move || {
            let read = store.read(|view| {
                let first = view.last_change()?;
                reads.send(()).unwrap();
                let _ = is_ended.recv();
                assert_eq!(view.last_change()?, first);
                Ok(())
            });
            read.unwrap();
        });
        is_read.recv().unwrap();
        let mut removed = 0;
        let refused = loop {
            match filled.remove_some() {
                Ok((files, more)) => removed += files.len() + usize::from(!more) * CALLS_MAX,
                Err(error) => break error,
            }
            assert!(removed < CALLS_MAX, "the reader keeps nothing");
        };
        assert!(removed > 0 && matches!(refused, ExecuteError::MapRead), "{removed}: {refused}");
        // However often it is asked for, and whatever else, it stays so.
        for _ in 0..200 {
            assert!(matches!(filled.remove_some(), Err(ExecuteError::MapRead)));
            assert_eq!(store.lack(), Some((Shortage::Readers, Refused::All)));
            assert!(filled.store.execute(directory("more")).is_err());
        }
        drop(ends);
    });
    let (removed, ..) = filled.remove_tree();
    assert!(removed > 0);
    filled.sweep();
    filled.check();
    filled.pass_time();
    assert_eq!(filled.store.lack(), None);
    filled.store.execute(directory("more")).unwrap();
}

/// The arithmetic beside the least reserve (`room.rs`).
#[test]
fn a_single_removal_takes_no_more_than_is_reckoned() {
    let dir = tempfile::tempdir().unwrap();
    let mut filled = Filled::begin(dir.path(), ByteCount::gib(1), Box::new(Embedded));
    while filled.next < 60_000 {
        filled.put(500).unwrap();
    }
    // A reader keeps all pages that are given up from being written again: the file grows by what is written.
    let most = filled.store.read(|_| {
        let mut most = 0;
        for number in (0..filled.next).step_by(4 * 101) {
            let before = filled.store.engine.used();
            filled.removed_one(number).unwrap();
            most = most.max(filled.store.engine.used() - before);
        }
        Ok(most)
    });
    let most = most.unwrap();
    assert!(most > 0 && most <= crate::room::SINGLE_REMOVAL, "{most} bytes");
}

/// How much one commit adds is not known before. Names in their order fill page behind page, so that a group
/// which finds room for all that it writes leaves little of it.
#[test]
fn no_group_comes_into_the_last_part_of_the_map() {
    for group in (2_000..4_000).step_by(250) {
        let dir = tempfile::tempdir().unwrap();
        let mut filled = Filled::begin(dir.path(), ByteCount::mib(16), Box::new(Embedded));
        let mut make = || {
            filled.pass_time();
            let names = (filled.next..filled.next + group).map(|number| directory(&format!("{number:0200}")));
            filled.next += group;
            filled.store.execute_all(names.collect())
        };
        while make().is_ok() {}
        assert!(filled.store.engine.has_last_part(), "{group} at a time");
        // What fits is taken, and what is too much is not for ever refused.
        filled.fill_by_work();
    }
}

/// The changes of the log behind number `after`.
fn changes(store: &CatalogueStore, after: u64) -> Vec<Vec<u8>> {
    let rows = store.read(|view| view.changes(after + 1, usize::MAX, usize::MAX)).unwrap();
    rows.into_iter().map(|(_, bytes)| bytes).collect()
}

/// The log has the parts as they were applied: a replica that never lacked room ends at the same tables.
#[test]
fn a_replica_applies_the_parts_and_has_the_same_tables() {
    let dir = tempfile::tempdir().unwrap();
    let filled = Filled::new(dir.path(), ByteCount::mib(2), Box::new(Embedded));
    filled.fill_by_work();
    let before = filled.store.read(|view| view.last_change()).unwrap();
    let of_kept: Vec<_> = filled
        .store
        .read(|view| {
            let names = view.list(filled.kept, None, 400)?;
            let file = |(_, entry)| match entry {
                catalogue::Entry::File(file) => Some(file),
                catalogue::Entry::Directory(_) => None,
            };
            Ok(names.into_iter().filter_map(file).collect())
        })
        .unwrap();
    assert_eq!(of_kept.len(), 400);
    let of_files = |view: &View<'_>| {
        let copy = |id: &FileId| Ok(view.file(*id)?.map(|file| PoolCopy::of(*id, &file)));
        of_kept.iter().map(copy).collect::<Result<Vec<_>, ReadError>>()
    };
    let copies: Vec<_> = filled.store.read(of_files).unwrap().into_iter().flatten().collect();
    match filled.store.execute(Command::PoolCopiesLost { copies }).unwrap() {
        Outcome::PoolCopyLost(found) => assert_eq!(found, vec![catalogue::PoolLoss::Lost; 400]),
        other => panic!("{other:?}"),
    }
    filled.condemn();
    let (removed, ..) = filled.remove_tree();
    filled.sweep();
    let (mut lost, mut list_parts, mut tree, mut tree_parts) = (Vec::new(), 0, 0, 0);
    for change in changes(&filled.store, before) {
        match Envelope::decode(&change).unwrap().command {
            Command::PoolCopiesLost { copies } => {
                list_parts += 1;
                lost.extend(copies.into_iter().map(|copy| copy.file));
            }
            Command::DoSome { work: Work::RemoveTree(_), most } => {
                tree_parts += 1;
                tree += u64::from(most);
            }
            _ => {}
        }
    }
    assert_eq!(lost, of_kept, "each once, in order");
    assert!(list_parts > 1 && tree_parts as u64 > removed.div_ceil(400), "{list_parts} {tree_parts}");
    assert!((removed..removed + 400).contains(&tree), "{tree} of {removed}");
    let other = tempfile::tempdir().unwrap();
    let mut replica = crate::Replay::open(other.path(), ByteCount::gib(1)).unwrap();
    let all = changes(&filled.store, 0);
    let encoded: Vec<_> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(replica.apply(1, &encoded, |_, _| true).unwrap(), all.len() as u64);
    let digests = filled.store.engine.read(|view| Ok(crate::snapshot::digests(view)?)).unwrap();
    assert_eq!(replica.digests().unwrap(), digests);
}

/// A log that takes so many groups more, and nothing then.
struct Pausing(Arc<std::sync::atomic::AtomicUsize>);

impl ChangeLog for Pausing {
    fn take_over(&mut self) -> Result<crate::Term, crate::FollowError> {
        Embedded.take_over()
    }

    fn follow(&mut self, after: u64) -> Result<Vec<Vec<u8>>, crate::FollowError> {
        Embedded.follow(after)
    }

    fn append(
        &mut self,
        term: crate::Term,
        changes: &crate::Changes<'_>,
    ) -> Result<crate::Durable, crate::AppendError> {
        let take = |left: usize| left.checked_sub(1);
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Embedded.append(term, changes),
            Err(_) => Err(crate::AppendError::NotNow("it has no quorum".to_owned())),
        }
    }
}

/// Story: the log took the first parts of a list and not the others, and the answer was that nothing was
/// changed.
#[test]
fn a_list_that_the_log_takes_in_part_does_not_say_that_nothing_was_changed() {
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(usize::MAX));
    let dir = tempfile::tempdir().unwrap();
    let filled = Filled::new(dir.path(), ByteCount::mib(2), Box::new(Pausing(Arc::clone(&left))));
    filled.fill_by_work();
    let read = |view: &View<'_>| {
        let mut copies = Vec::new();
        for (_, entry) in view.list(filled.kept, None, 400)? {
            if let catalogue::Entry::File(id) = entry {
                copies.extend(view.file(id)?.map(|file| PoolCopy::of(id, &file)));
            }
        }
        Ok(copies)
    };
    let copies = filled.store.read(read).unwrap();
    let last_change = || filled.store.read(|view| view.last_change()).unwrap();
    let before = last_change();
    let mut errors = Vec::new();
    for groups in 0..8 {
        left.store(groups, Ordering::SeqCst);
        let given = filled.store.execute(Command::PoolCopiesLost { copies: copies.clone() });
        let error = given.expect_err("the log takes so few of it");
        let is_in_part = last_change() > before;
        assert_eq!(error.is_in_part(), is_in_part, "{error}");
        assert_eq!(error.is_certain_refusal(), !is_in_part, "{error}");
        errors.push(error);
        if is_in_part {
            break;
        }
    }
    assert!(matches!(errors.first(), Some(ExecuteError::NotNow(_))), "{errors:?}");
    assert!(matches!(errors.last(), Some(ExecuteError::InPartNotNow(_))), "{errors:?}");
    assert!(filled.store.is_writing());
    filled.check();
}

/// Story: a removal on a full disk was told as a map that somebody still reads, however large the map, also
/// when there was room again.
#[test]
fn only_a_full_map_can_be_kept_by_readers() {
    let dir = tempfile::tempdir().unwrap();
    let filled = Filled::begin(dir.path(), ByteCount::mib(64), Box::new(Embedded));
    filled.store.engine.is_exhausted(Shortage::Disk);
    assert_eq!(filled.store.lack(), None, "there is room");
    filled.store.engine.is_exhausted(Shortage::Map);
    assert_eq!(filled.store.lack(), Some((Shortage::Readers, Refused::All)));
    filled.store.execute(directory("more")).unwrap();
    assert_eq!(filled.store.lack(), None);
}
