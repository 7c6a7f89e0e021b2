//! Sealing: files that wait become containers with a fixed membership, queued for each tape pool of their
//! class.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use base::{ArchivePath, ByteCount, ClassId, ContainerId, DriveGroup, FileId};
use blob::{NewBlob, Use};
use catalogue::{
    BULK_FILES, Command, ContainerKind, FileKind, FileRecord, FileState, MemberRecord, OpenPack, PoolData,
    Rejection, SealContainer, TodoFile, typed,
};
use ltfs::pack::{
    MEMBER_OVERHEAD_MAX, MemberKind, MemberLayout, PACK_OVERHEAD_MAX, PackLayout, PackMember, PackPlan,
};
use session::{self, PackLimit, PackSize, Sealing, Waiting};

use crate::room::Tape;
use ground::ArchiveError;
use ground::Class;

mod parts;

pub(crate) use parts::RestingFiles;

/// Files of the migration queue looked at together.
const TODO_PAGE: usize = 4_096;
/// How often a pack is gathered anew while its files change.
const SEAL_RETRIES_MAX: usize = 4;
/// Packs whose sealing did not end that are looked up together; there is one at most.
const UNFINISHED_PAGE: usize = 16;

/// Classes whose last seal failed, and of what.
#[derive(Default)]
pub(crate) struct SealFailures(Mutex<BTreeMap<ClassId, String>>);

impl SealFailures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClassId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last seal of a class failed, if it did.
    pub(crate) fn of(&self, class: ClassId) -> Option<String> {
        self.lock().get(&class).cloned()
    }

    /// How a seal ended.
    pub(crate) fn ended(&self, class: ClassId, error: Option<&ArchiveError>) {
        match error {
            Some(error) => drop(self.lock().insert(class, error.to_string())),
            None => drop(self.lock().remove(&class)),
        }
    }
}

/// A file that is to go into a container.
struct Candidate {
    file: FileId,
    record: FileRecord,
}

/// Seals what of a class is to be sealed now: see [`session::seal`].
pub(crate) fn seal_class(room: &Arc<Tape>, class: ClassId, partial: bool) -> Result<(), ArchiveError> {
    let Some(class) = room.classes.get(class).cloned() else { return Ok(()) };
    give_up_unfinished(room)?;
    let (pack, large) = (class.settings.pack_bytes, class.settings.large_bytes);
    let limit = pack_limit(room, &class)?;
    let size = PackSize::of(pack, limit);
    let largest = limit.largest;
    let mut queue = ClassQueue { room, class: &class, largest, larger: BTreeSet::new(), failed: None };
    session::seal(&mut queue, size, large, partial)?;
    room.notifier.backlog_changed();
    // To cut a file means to read it: the others go first.
    for file in std::mem::take(&mut queue.larger) {
        if queue.is_stopped() {
            break;
        }
        for candidate in load(room, &[file])? {
            queue.seal_parts(&candidate)?;
        }
        room.notifier.backlog_changed();
    }
    queue.failed.map_or(Ok(()), Err)
}

/// How large a pack may be so that an empty tape of each pool of the class takes it.
fn pack_limit(room: &Tape, class: &Class) -> Result<PackLimit, ArchiveError> {
    let largest = room.read(|view| {
        let none = PackLimit::NONE.largest;
        Ok(room.largest_for(view, class)?.map_or(none, |largest| largest.min(none)))
    })?;
    Ok(PackLimit {
        largest,
        pack_overhead: ByteCount(PACK_OVERHEAD_MAX as u64),
        member_overhead: ByteCount(MEMBER_OVERHEAD_MAX as u64),
    })
}

/// The migration queue of a class, as the catalogue has it.
struct ClassQueue<'a> {
    room: &'a Tape,
    class: &'a Class,
    /// The largest container that an empty tape of each pool of the class takes.
    largest: ByteCount,
    /// Files that are larger, or were begun when they were.
    larger: BTreeSet<FileId>,
    /// Why a file that is larger was not sealed: it does not keep the others waiting.
    failed: Option<ArchiveError>,
}

impl ClassQueue<'_> {
    /// A stop waits for one pack: what is not sealed goes on waiting.
    fn is_stopped(&self) -> bool {
        self.room.stopping()
    }
}

impl Sealing for ClassQueue<'_> {
    type Error = ArchiveError;

    fn waiting(&mut self, after: Option<(u64, FileId)>) -> Result<Vec<Waiting>, ArchiveError> {
        if self.is_stopped() {
            return Ok(Vec::new());
        }
        let page = self.room.read(|view| view.todo(self.class.id, after, TODO_PAGE))?;
        let waiting = |((data_set, file), TodoFile { size, .. })| Waiting { data_set, file, size: size.0 };
        Ok(page.into_iter().map(waiting).collect())
    }

    /// Its directory comes first in its path.
    fn place(&mut self, file: FileId) -> Result<String, ArchiveError> {
        self.room.read(|view| Ok(view.path_of_file(file)?.unwrap_or_default()))
    }

    fn seal_files(&mut self, files: &[FileId]) -> Result<(), ArchiveError> {
        if self.is_stopped() {
            return Ok(());
        }
        let mut whole = Vec::new();
        for candidate in load(self.room, files)? {
            let is_begun = || -> Result<bool, ArchiveError> {
                Ok(!self.room.read(|view| view.parts(candidate.file))?.is_empty())
            };
            // One that was begun goes on in parts, also if tapes have become larger.
            if candidate.record.size <= self.largest && !is_begun()? {
                whole.push(candidate);
            } else {
                self.larger.insert(candidate.file);
            }
        }
        seal_files(self.room, self.class, whole)
    }

    fn seal_pack(&mut self, files: &[Waiting]) -> Result<(), ArchiveError> {
        if self.is_stopped() {
            return Ok(());
        }
        let ids: Vec<FileId> = files.iter().map(|waiting| waiting.file).collect();
        let files = load(self.room, &ids)?;
        if files.is_empty() { Ok(()) } else { seal_pack(self.room, self.class, files) }
    }
}

impl ClassQueue<'_> {
    /// A file that is larger than a tape. If it cannot be sealed the others are; it rests, since trying means
    /// to read it.
    fn seal_parts(&mut self, candidate: &Candidate) -> Result<(), ArchiveError> {
        let (room, file) = (self.room, candidate.file);
        let resting = &room.own.files_resting;
        let reason = match resting.why(file, room.now()) {
            Some(reason) => reason,
            None => match parts::seal_in_parts(room, self.class, file, &candidate.record, self.largest)? {
                Ok(()) => {
                    resting.forget(file);
                    return Ok(());
                }
                Err(reason) => {
                    tracing::error!(%file, reason, "a file that is larger than a tape is not sealed now");
                    resting.begin(file, room.now(), room.settings.tape.retry_delay, &reason);
                    reason
                }
            },
        };
        self.failed.get_or_insert(ArchiveError::FileNotSealed { file, reason });
        Ok(())
    }
}

/// The records of those files that are still live.
fn load(room: &Tape, files: &[FileId]) -> Result<Vec<Candidate>, ArchiveError> {
    room.read(|view| {
        let mut candidates = Vec::with_capacity(files.len());
        for file in files {
            if let Some(record) = view.file(*file)?.filter(|record| record.state == FileState::Live) {
                candidates.push(Candidate { file: *file, record });
            }
        }
        Ok(candidates)
    })
}

fn reserve_container(room: &Tape) -> Result<ContainerId, ArchiveError> {
    room.ask(typed::ReserveContainer {})
}

/// Each file becomes a container of its own.
fn seal_files(room: &Tape, class: &Class, files: Vec<Candidate>) -> Result<(), ArchiveError> {
    let reserve = vec![typed::ReserveContainer {}; files.len()];
    let ids = room.catalogue.ask_all(reserve).map_err(ArchiveError::Store)?;
    let mut commands = Vec::with_capacity(files.len());
    for (candidate, id) in files.into_iter().zip(ids) {
        let container = id.map_err(|error| room.failed(error))?;
        let Candidate { file, record } = candidate;
        let Some(path) = path_of(room, file)? else { continue };
        let tape_path = ltfs::naming::tape_path(&path, file, false);
        let member = MemberRecord {
            file,
            header_offset: ByteCount(0),
            data_offset: ByteCount(0),
            length: record.size,
            file_offset: ByteCount(0),
        };
        commands.push(Command::SealContainer(Box::new(SealContainer {
            container,
            kind: ContainerKind::File(file),
            class: class.id,
            members: vec![member],
            length: record.size,
            checksums: record.checksums.stream,
            tape_path: joined(&tape_path),
            skeleton: None,
        })));
    }
    for result in room.catalogue.execute_all(commands).map_err(ArchiveError::Store)? {
        tolerate_change(result.map(|_| ()))?;
    }
    Ok(())
}

/// A file deleted or replaced between the look and the command is no error: it simply is not sealed.
fn tolerate_change(result: Result<(), Rejection>) -> Result<(), ArchiveError> {
    match result {
        Ok(()) => Ok(()),
        Err(rejection) if rejection.is_engine_failure() => Err(ArchiveError::Rejected(rejection)),
        Err(rejection) => {
            tracing::info!(%rejection, "a container was not sealed: its files changed meanwhile");
            Ok(())
        }
    }
}

/// Seals a pack of these files. Those that were deleted or replaced meanwhile are left out and it is tried
/// again.
fn seal_pack(room: &Tape, class: &Class, files: Vec<Candidate>) -> Result<(), ArchiveError> {
    let ids: Vec<FileId> = files.iter().map(|candidate| candidate.file).collect();
    let mut files = files;
    for _ in 0..SEAL_RETRIES_MAX {
        match try_seal_pack(room, class, files)? {
            None => return Ok(()),
            Some(rejection) if rejection.is_engine_failure() => {
                return Err(ArchiveError::Rejected(rejection));
            }
            Some(rejection) => {
                tracing::info!(%rejection, "a pack is gathered anew: its files changed meanwhile");
                files = still_waiting(room, class, &ids)?;
            }
        }
    }
    Ok(())
}

fn still_waiting(room: &Tape, class: &Class, ids: &[FileId]) -> Result<Vec<Candidate>, ArchiveError> {
    room.read(|view| {
        let mut waiting = Vec::with_capacity(ids.len());
        for file in ids {
            if let Some(record) = view.file(*file)?
                && record.state == FileState::Live
                && record.class == class.id
                && view.parts(*file)?.is_empty()
            {
                waiting.push(Candidate { file: *file, record });
            }
        }
        Ok(waiting)
    })
}

/// Stores the skeleton and commits; gives the catalogue's refusal if one of the files has changed.
fn try_seal_pack(
    room: &Tape,
    class: &Class,
    files: Vec<Candidate>,
) -> Result<Option<Rejection>, ArchiveError> {
    let container = reserve_container(room)?;
    let mut members = Vec::with_capacity(files.len());
    for Candidate { file, record } in files {
        if let Some(path) = path_of(room, file)? {
            members.push(member(file, path, record));
        }
    }
    if members.is_empty() {
        return Ok(None);
    }
    let plan = PackPlan { container, created: room.now(), members };
    let layout = PackLayout::seal(&plan).map_err(|source| ArchiveError::Pack { container, source })?;
    // Always a striped blob of its own, however small, so that it never shares a segment's fate.
    let length = ByteCount(layout.stored_skeleton().len() as u64);
    let mut writer =
        room.blobs.create(NewBlob { length: Some(length), whose: Use::Engine, group: DriveGroup::MAIN })?;
    writer.write(layout.stored_skeleton())?;
    let blob = writer.finish()?;
    let piece = base::BlobPiece { blob: blob.id, offset: ByteCount(0), length };
    let members: Vec<MemberRecord> = layout.members().map(member_record).collect();
    let open = OpenPack {
        container,
        class: class.id,
        members: u32::try_from(members.len()).unwrap_or(u32::MAX),
        length: layout.total_length(),
        checksums: layout.checksums(),
        tape_path: joined(&ltfs::naming::pack_path(container)),
        skeleton: PoolData { blobs: vec![blob.clone()], pieces: vec![piece] },
    };
    let sealed = if members.len() > BULK_FILES {
        seal_in_pieces(room, open, &members)
    } else {
        room.execute(seal_at_once(open, members))
    };
    match sealed {
        Ok(()) => Ok(None),
        Err(error) if !error.is_certain_refusal() => Err(error),
        Err(error) => {
            give_up_unfinished(room)?;
            let is_known =
                room.read(|view| Ok(view.blob(blob.id)?.is_some() || view.is_garbage(blob.id)?))?;
            if !is_known && let Err(error) = room.blobs.remove(&blob) {
                tracing::warn!(%error, "an unused skeleton stays until the next start");
            }
            match error {
                ArchiveError::Rejected(rejection) => Ok(Some(rejection)),
                other => Err(other),
            }
        }
    }
}

fn seal_at_once(open: OpenPack, members: Vec<MemberRecord>) -> Command {
    let OpenPack { container, class, length, checksums, tape_path, skeleton, .. } = open;
    Command::SealContainer(Box::new(SealContainer {
        container,
        kind: ContainerKind::Pack,
        class,
        members,
        length,
        checksums,
        tape_path,
        skeleton: Some(skeleton),
    }))
}

/// By commands of some milliseconds, so that puts do not wait for all of a large pack. What is not ended is
/// given up.
fn seal_in_pieces(room: &Tape, open: OpenPack, members: &[MemberRecord]) -> Result<(), ArchiveError> {
    let container = open.container;
    room.execute(Command::OpenPack(Box::new(open)))?;
    for members in members.chunks(BULK_FILES) {
        room.execute(Command::AddMembers { container, members: members.to_vec() })?;
    }
    room.execute(Command::ClosePack { container })?;
    Ok(())
}

/// Gives up packs whose sealing, or giving up, did not come to its end: their files wait to be sealed again.
/// For the sealer's thread, and for a start: nobody else is at a pack that is being sealed.
pub(crate) fn give_up_unfinished(room: &Tape) -> Result<(), ArchiveError> {
    loop {
        let unfinished = room.read(|view| view.sealing(UNFINISHED_PAGE))?;
        if unfinished.is_empty() {
            return Ok(());
        }
        for (container, _) in unfinished {
            tracing::info!(%container, "a pack whose sealing did not end is given up");
            while room.ask(typed::DissolveSome { container })? {}
        }
        room.sweep.ring();
    }
}

fn member(file: FileId, path: ArchivePath, record: FileRecord) -> PackMember {
    PackMember {
        file,
        path,
        size: record.size,
        mtime: record.attributes.mtime,
        mode: record.attributes.mode,
        owner: record.attributes.owner,
        group: record.attributes.group,
        checksums: record.checksums,
        kind: match record.kind {
            FileKind::Regular => MemberKind::Regular,
            FileKind::Symlink(target) => MemberKind::Symlink { target },
        },
    }
}

fn member_record(member: &MemberLayout) -> MemberRecord {
    MemberRecord {
        file: member.file,
        header_offset: member.header_offset,
        data_offset: member.data_offset,
        length: member.data_length,
        file_offset: ByteCount(0),
    }
}

/// The path under which a file goes to tape: its own. One that a rename of a directory has made longer than
/// any put would be allowed to stands under a name of its id, so that it never keeps others from tape.
fn path_of(room: &Tape, file: FileId) -> Result<Option<ArchivePath>, ArchiveError> {
    let Some(path) = room.read(|view| view.path_of_file(file))? else { return Ok(None) };
    match ArchivePath::new(&path) {
        Ok(path) => Ok(Some(path)),
        Err(reason) => {
            tracing::warn!(%file, %reason, "a path cannot stand on tape; the file goes there under its id");
            path_by_id(file).map(Some)
        }
    }
}

/// The path of a file whose own cannot stand on tape.
pub(crate) fn path_by_id(file: FileId) -> Result<ArchivePath, ArchiveError> {
    Ok(ArchivePath::new(&format!("/lost+found/file-{file}"))?)
}

pub(crate) fn joined(path: &[String]) -> String {
    path.iter().map(|name| format!("/{name}")).collect()
}
