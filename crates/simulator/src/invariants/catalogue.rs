//! The catalogue by itself: its own check, its change log, its copies, and the tree that clients know.

use std::collections::{BTreeMap, BTreeSet};

use ::catalogue::{
    CopyState, Entry, Envelope, FileState, MemoryStore, ReadError, Table, TapeState, View, apply,
};
use base::{ArchivePath, Blake3, ByteCount, ContainerId, FileId, Vid};
use store::MemorySnapshot;

use super::{Found, Quiet, Rule, Violation, id_of};

/// Changes read at a time.
const CHANGES_PAGE: usize = 4_096;
const CHANGES_BYTES: usize = 16 << 20;
/// Differing records named of each table.
const SHOWN_MAX: usize = 3;

/// What a file must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Descriptor {
    /// Its size.
    pub size: ByteCount,
    /// The hash of its bytes.
    pub blake3: Blake3,
}

impl Descriptor {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Descriptor { size: ByteCount(bytes.len() as u64), blake3: Blake3::of(bytes) }
    }
}

/// I1: each path stands for one of the things that it may stand for (`None`: nothing).
#[must_use]
pub fn check_tree(
    view: &View<'_>,
    expected: &BTreeMap<ArchivePath, BTreeSet<Option<Descriptor>>>,
) -> Vec<Violation> {
    let mut found = Found::default();
    for (path, possible) in expected {
        match descriptor(view, path) {
            Ok(Ok(holds)) => {
                let what = format!("holds {holds:?}, may hold {possible:?}");
                found.expect(possible.contains(&holds), Rule::Kept, path, what);
            }
            Ok(Err(what)) => found.add(Rule::Kept, path, what),
            Err(error) => found.add(Rule::Kept, path, error),
        }
    }
    found.0
}

fn descriptor(
    view: &View<'_>,
    path: &ArchivePath,
) -> Result<Result<Option<Descriptor>, &'static str>, ReadError> {
    let id = match view.resolve(path)? {
        None => return Ok(Ok(None)),
        Some(Entry::Directory(_)) => return Ok(Err("is a directory")),
        Some(Entry::File(id)) => id,
    };
    let Some(file) = view.file(id)? else { return Ok(Err("has no file record")) };
    Ok(Ok(Some(Descriptor { size: file.size, blake3: file.checksums.blake3 })))
}

/// Tables and counters against each other.
pub(super) fn check(view: &View<'_>, found: &mut Found) -> Result<(), ReadError> {
    for wrong in view.check()? {
        found.add(Rule::Catalogue, format!("{} {}", wrong.table.name(), wrong.key), wrong.what);
    }
    Ok(())
}

/// I6: the change log, applied to nothing, gives the same tables byte for byte.
pub(super) fn replay(snapshot: &MemorySnapshot, view: &View<'_>, found: &mut Found) -> Result<(), ReadError> {
    let mut next = view.first_change()?;
    if next != 1 {
        // The beginning was cut off; a snapshot of then would be needed.
        return Ok(());
    }
    let mut twin = MemoryStore::new();
    loop {
        let changes = view.changes(next, CHANGES_PAGE, CHANGES_BYTES)?;
        let Some((last, _)) = changes.last() else { break };
        next = last + 1;
        for (number, bytes) in changes {
            let object = format!("change {number}");
            match Envelope::decode(&bytes) {
                Ok(envelope) => {
                    if let Err(error) = apply(&mut twin, &envelope) {
                        found.add(Rule::Replay, object, format!("is refused: {error}"));
                    }
                }
                Err(error) => found.add(Rule::Replay, object, error),
            }
        }
    }
    for table in Table::ALL {
        let ours: BTreeSet<(&[u8], &[u8])> = snapshot.rows(table).collect();
        let theirs: BTreeSet<(&[u8], &[u8])> = twin.rows(table).collect();
        for (key, _) in ours.symmetric_difference(&theirs).take(SHOWN_MAX) {
            found.add(Rule::Replay, format!("{} {key:02x?}", table.name()), "differs after a replay");
        }
    }
    Ok(())
}

/// I4: each container has one copy for each tape pool of its class, on different tapes; when all is done
/// every live file is sealed and each copy is under an index.
pub(super) fn copies(
    snapshot: &MemorySnapshot,
    view: &View<'_>,
    quiet: &Quiet,
    found: &mut Found,
) -> Result<(), ReadError> {
    let classes: BTreeMap<_, _> = view.classes()?.into_iter().collect();
    for (key, _) in snapshot.rows(Table::Container) {
        let id = ContainerId(id_of(key));
        let Some(container) = view.container(id)? else { continue };
        let object = format!("container {id} ({})", container.tape_path);
        let mut wanted = classes.get(&container.class).map(|class| class.copies.clone()).unwrap_or_default();
        wanted.sort_unstable();
        // A copy that took the place of another one stands behind the rest.
        let mut pools: Vec<_> = container.copies.iter().map(|copy| copy.tape_pool).collect();
        pools.sort_unstable();
        // Of a container whose members are all deleted, repacks and damage drop one copy after the other, and
        // what is not on tape yet does not come there any more.
        let may_have_fewer = container.is_empty() || container.is_unneeded();
        let is_right = pools == wanted || may_have_fewer && pools.iter().all(|pool| wanted.contains(pool));
        found.expect(
            is_right,
            Rule::Copies,
            &object,
            format!("has copies in {pools:?}, its class wants {wanted:?}: {:?}", container.copies),
        );
        let mut tapes: BTreeSet<Vid> = BTreeSet::new();
        for copy in &container.copies {
            let is_indexed = matches!(copy.state, CopyState::Indexed { .. });
            // What a repack takes off its tape goes on its way when a recall has brought the bytes.
            let source = copy.source.map(|source| view.tape(source.vid)).transpose()?.flatten();
            let leaves = source.is_some_and(|tape| tape.state == TapeState::Repacking);
            let what = format!("its copy is {copy:?} though all is done");
            let is_done = is_indexed || leaves && copy.state == CopyState::Queued;
            found.expect(is_done || !quiet.is_migrated, Rule::Copies, &object, what);
            let Some((vid, _)) = copy.state.place() else { continue };
            found.expect(tapes.insert(vid), Rule::Copies, &object, format!("has two copies on {vid}"));
            let pool = view.tape(vid)?.and_then(|tape| tape.tape_pool);
            let what = format!("its copy is on {vid}, which is of another tape pool");
            found.expect(pool == Some(copy.tape_pool), Rule::Copies, &object, what);
        }
    }
    if !quiet.is_migrated {
        return Ok(());
    }
    for (key, _) in snapshot.rows(Table::File) {
        let id = FileId(id_of(key));
        let Some(file) = view.file(id)?.filter(|file| file.state == FileState::Live) else { continue };
        let has_copies = classes.get(&file.class).is_some_and(|class| !class.copies.is_empty());
        let sealed: u64 = view.parts(id)?.iter().map(|(_, member)| member.length.0).sum();
        let is_sealed = !view.parts(id)?.is_empty() && sealed == file.size.0;
        let object = format!("file {id} ({})", file.name);
        found.expect(!has_copies || is_sealed, Rule::Copies, object, "is in no container");
    }
    Ok(())
}
