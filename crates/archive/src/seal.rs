//! Sealing: files that wait become containers with a fixed membership, queued for each tape pool of their
//! class.

use std::sync::Arc;

use base::{ArchivePath, ByteCount, ClassId, ContainerId, FileId};
use catalogue::{
    Command, ContainerKind, FileKind, FileRecord, FileState, MemberRecord, Outcome, PoolData, Rejection,
    SealContainer, TodoFile,
};
use ltfs::pack::{MemberKind, MemberLayout, PackLayout, PackMember, PackPlan};

use crate::ArchiveError;
use crate::classes::Class;
use crate::engine::Engine;
use crate::gather::{Gather, PackSize, Rest, Waiting};

/// Most members of one pack. Its headers are held in memory while it is sealed and while it is written: about
/// 3 kB each.
pub const PACK_MEMBERS_MAX: usize = 20_000;
/// Files of the migration queue looked at together.
const TODO_PAGE: usize = 4_096;
/// How often a pack is gathered anew while its files change.
const SEAL_RETRIES_MAX: usize = 4;
/// Containers sealed with one commit.
const SEAL_BATCH: usize = 256;

/// What small data sets leave behind together is put into packs once it is so many packs' worth.
const PACKS_LEFT_MAX: u64 = 16;

/// A file that is to go into a container.
struct Candidate {
    file: FileId,
    record: FileRecord,
}

/// Seals every large file, and packs of data sets that fill them and half a one more; with `partial` all that
/// waits. The rest stays until then, unless much of it has come together.
pub(crate) fn seal_class(engine: &Arc<Engine>, class: ClassId, partial: bool) -> Result<(), ArchiveError> {
    let Some(class) = engine.classes.get(class).cloned() else { return Ok(()) };
    if partial {
        seal_waiting(engine, &class, Rest::Goes)?;
    } else {
        let (files, bytes) = seal_waiting(engine, &class, Rest::Stays)?;
        let size = pack_size(&class);
        if bytes / PACKS_LEFT_MAX >= size.bytes || files / PACKS_LEFT_MAX >= size.members as u64 {
            seal_waiting(engine, &class, Rest::Mixed)?;
        }
    }
    engine.bell.backlog_changed();
    Ok(())
}

fn pack_size(class: &Class) -> PackSize {
    PackSize { bytes: class.settings.pack_bytes.0.max(1), members: PACK_MEMBERS_MAX }
}

/// Goes once through what waits; gives the files and bytes of what is left for packs. At any time no more
/// is in
/// memory than the files of two packs and the window of small data sets, a few words each.
fn seal_waiting(engine: &Arc<Engine>, class: &Class, rest: Rest) -> Result<(u64, u64), ArchiveError> {
    let mut gather = Gather::new(pack_size(class), rest);
    let mut large = Vec::new();
    let mut after = None;
    // What stands for a file's place in the tree: its directory comes first in its path.
    let place = |file| engine.read(|view| Ok(view.path_of_file(file)?.unwrap_or_default()));
    loop {
        let page = engine.read(|view| view.todo(class.id, after, TODO_PAGE))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for ((data_set, file), TodoFile { size, .. }) in page {
            if size >= class.settings.large_bytes {
                large.push(file);
                if large.len() >= SEAL_BATCH {
                    seal_files(engine, class, load(engine, &std::mem::take(&mut large))?)?;
                }
                continue;
            }
            for pack in gather.push(Waiting { data_set, file, size: size.0 }) {
                seal_gathered(engine, class, &pack)?;
            }
            if gather.window_is_full() {
                for pack in gather.mix(false, place)? {
                    seal_gathered(engine, class, &pack)?;
                }
            }
        }
    }
    seal_files(engine, class, load(engine, &large)?)?;
    let mut packs = gather.end();
    packs.extend(gather.mix(true, place)?);
    for pack in packs {
        seal_gathered(engine, class, &pack)?;
    }
    Ok(gather.left())
}

fn seal_gathered(engine: &Engine, class: &Class, pack: &[Waiting]) -> Result<(), ArchiveError> {
    let ids: Vec<FileId> = pack.iter().map(|waiting| waiting.file).collect();
    let files = load(engine, &ids)?;
    if files.is_empty() { Ok(()) } else { seal_pack(engine, class, files) }
}

/// The records of those files that are still live.
fn load(engine: &Engine, files: &[FileId]) -> Result<Vec<Candidate>, ArchiveError> {
    engine.read(|view| {
        let mut candidates = Vec::with_capacity(files.len());
        for file in files {
            if let Some(record) = view.file(*file)?.filter(|record| record.state == FileState::Live) {
                candidates.push(Candidate { file: *file, record });
            }
        }
        Ok(candidates)
    })
}

fn reserve_container(engine: &Engine) -> Result<ContainerId, ArchiveError> {
    match engine.execute(Command::ReserveContainer)? {
        Outcome::Container(id) => Ok(id),
        other => unreachable!("reserving a container gives a container, not {other:?}"),
    }
}

/// Each file becomes a container of its own.
fn seal_files(engine: &Engine, class: &Class, files: Vec<Candidate>) -> Result<(), ArchiveError> {
    let reserve = vec![Command::ReserveContainer; files.len()];
    let ids = engine.catalogue.execute_all(reserve).map_err(ArchiveError::Store)?;
    let mut commands = Vec::with_capacity(files.len());
    for (candidate, id) in files.into_iter().zip(ids) {
        let Outcome::Container(container) = id.map_err(ArchiveError::Rejected)? else { continue };
        let Candidate { file, record } = candidate;
        let Some(path) = path_of(engine, file)? else { continue };
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
    for result in engine.catalogue.execute_all(commands).map_err(ArchiveError::Store)? {
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
fn seal_pack(engine: &Engine, class: &Class, files: Vec<Candidate>) -> Result<(), ArchiveError> {
    let ids: Vec<FileId> = files.iter().map(|candidate| candidate.file).collect();
    let mut files = files;
    for _ in 0..SEAL_RETRIES_MAX {
        match try_seal_pack(engine, class, files)? {
            None => return Ok(()),
            Some(rejection) if rejection.is_engine_failure() => {
                return Err(ArchiveError::Rejected(rejection));
            }
            Some(rejection) => {
                tracing::info!(%rejection, "a pack is gathered anew: its files changed meanwhile");
                files = still_waiting(engine, class, &ids)?;
            }
        }
    }
    Ok(())
}

fn still_waiting(engine: &Engine, class: &Class, ids: &[FileId]) -> Result<Vec<Candidate>, ArchiveError> {
    engine.read(|view| {
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
    engine: &Engine,
    class: &Class,
    files: Vec<Candidate>,
) -> Result<Option<Rejection>, ArchiveError> {
    let container = reserve_container(engine)?;
    let mut members = Vec::with_capacity(files.len());
    for Candidate { file, record } in files {
        if let Some(path) = path_of(engine, file)? {
            members.push(member(file, path, record));
        }
    }
    if members.is_empty() {
        return Ok(None);
    }
    let plan = PackPlan { container, created: engine.now(), members };
    let layout = PackLayout::seal(&plan).map_err(|source| ArchiveError::Pack { container, source })?;
    // Always a striped blob of its own, however small, so that it never shares a segment's fate.
    let length = ByteCount(layout.stored_skeleton().len() as u64);
    let mut writer = engine.pool.create_sized(length)?;
    writer.write(layout.stored_skeleton())?;
    let blob = writer.finish()?;
    let piece = base::BlobPiece { blob: blob.id, offset: ByteCount(0), length };
    let seal = SealContainer {
        container,
        kind: ContainerKind::Pack,
        class: class.id,
        members: layout.members().map(member_record).collect(),
        length: layout.total_length(),
        checksums: layout.checksums(),
        tape_path: joined(&ltfs::naming::pack_path(container)),
        skeleton: Some(PoolData { blobs: vec![blob.clone()], pieces: vec![piece] }),
    };
    match engine.execute(Command::SealContainer(Box::new(seal))) {
        Ok(_) => Ok(None),
        Err(error) if !error.is_certain_refusal() => Err(error),
        Err(error) => {
            if let Err(error) = engine.pool.remove(&blob) {
                tracing::warn!(%error, "an unused skeleton stays until the next start");
            }
            match error {
                ArchiveError::Rejected(rejection) => Ok(Some(rejection)),
                other => Err(other),
            }
        }
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
fn path_of(engine: &Engine, file: FileId) -> Result<Option<ArchivePath>, ArchiveError> {
    let Some(path) = engine.read(|view| view.path_of_file(file))? else { return Ok(None) };
    match ArchivePath::new(&path) {
        Ok(path) => Ok(Some(path)),
        Err(reason) => {
            tracing::warn!(%file, %reason, "a path cannot stand on tape; the file goes there under its id");
            Ok(Some(ArchivePath::new(&format!("/lost+found/file-{file}"))?))
        }
    }
}

pub(crate) fn joined(path: &[String]) -> String {
    path.iter().map(|name| format!("/{name}")).collect()
}
