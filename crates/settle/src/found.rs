//! What tapes hold that a restored catalogue does not know: what was migrated after the point of the restore.
//! Its files are told by id, length and checksum, as the containers themselves say.

use std::collections::BTreeMap;

use backup::tape::{TapeSeen, read_bytes};
use base::{
    Adler32, Blake3, BlockAddress, ByteCount, ClassId, ContainerId, Crc32c, FileId, Generation,
    StreamChecksums, TapePoolId, Timestamp, Uuid, Vid,
};
use catalogue::{
    AdoptContainer, Command, ContainerKind, MemberRecord, ReadError, TapeFound, TapePlace, View,
};
use library::{TapeDrive, TapeError};
use ltfs::naming::{
    XATTR_ADLER32, XATTR_BLAKE3, XATTR_CRC32C, XATTR_FILE_BLAKE3, XATTR_FILE_ID, XATTR_FILE_SIZE,
    XATTR_MTIME, XATTR_SEGMENT_OFFSET, container_of,
};
use ltfs::pack::{Manifest, PACK_HEADER_BYTES_MAX, PackLayout, PackPlan, read_pack_header};

use crate::progress::EarlyParts;
use crate::room::Settler;
use ground::ArchiveError;
use ground::truncated;

/// A volume, and the containers on it that the catalogue lacks and has files for.
pub(crate) struct VolumeFound {
    vid: Vid,
    uuid: Uuid,
    generation: Generation,
    index_block: BlockAddress,
    end_of_data: BlockAddress,
    containers: Vec<ContainerFound>,
    /// Whether a part of it could not be read now, and may be later.
    is_unread: bool,
}

impl VolumeFound {
    /// Its cartridge.
    pub(crate) fn vid(&self) -> Vid {
        self.vid
    }

    /// Whether a part of it could not be read now: another look may find more.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Whether it holds anything that the catalogue needs.
    pub(crate) fn is_needed(&self) -> bool {
        !self.containers.is_empty()
    }

    /// The volume.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }
}

/// A container at one place.
struct ContainerFound {
    block: BlockAddress,
    what: AdoptContainer,
}

/// What an index says of a container.
struct Entry {
    container: ContainerId,
    block: BlockAddress,
    length: ByteCount,
    checksums: StreamChecksums,
    tape_path: String,
    /// A file of its own, or a part of one.
    file: Option<OwnFile>,
}

/// What an index says of a file that is no member of a pack.
#[derive(Clone, Copy)]
struct OwnFile {
    file: FileId,
    size: ByteCount,
    /// Of all its bytes.
    blake3: Blake3,
    modified: Timestamp,
    /// Where the container's bytes begin in it, if they are a part of it.
    part: Option<ByteCount>,
}

/// A file of a container, or a part of one.
struct Member {
    /// Size and checksum of the whole file.
    size: ByteCount,
    blake3: Blake3,
    record: MemberRecord,
}

/// Reads what a mounted volume holds beyond what the catalogue knows. A container that cannot be read or does
/// not fit is told and left out. `run_ends`: a session that was open at the point is not gone on with, so
/// that what it had planned is not known to stand here.
pub(crate) fn gather(
    settler: &Settler<'_>,
    drive: &mut dyn TapeDrive,
    seen: &TapeSeen,
    run_ends: bool,
) -> Result<Option<VolumeFound>, ArchiveError> {
    let (mut containers, mut is_unread) = (Vec::new(), seen.is_doubtful);
    for entry in entries(seen) {
        if settler.stopping() {
            is_unread = true;
            break;
        }
        settler.settling.written.is_alive(seen.vid);
        let is_known = |view: &View<'_>| {
            if run_ends {
                let standing = view.content(seen.vid, entry.block, 1)?;
                return Ok(standing.first() == Some(&(entry.block, entry.container)));
            }
            view.is_known_there(seen.vid, entry.container, entry.block)
        };
        if settler.read(is_known)? {
            continue;
        }
        if let Some(what) = of_known(settler, &entry)? {
            containers.push(ContainerFound { block: entry.block, what });
            continue;
        }
        match describe(settler, drive, seen, &entry) {
            Ok(what) => {
                // Its files may be wanted no more since another drive has just taken it over.
                let what = what.map_or_else(|| of_known(settler, &entry), |what| Ok(Some(what)))?;
                containers.extend(what.map(|what| ContainerFound { block: entry.block, what }));
            }
            Err(Undescribed::Archive(error)) => return Err(error),
            Err(Undescribed::Tape(error)) => {
                is_unread = true;
                let (vid, container) = (seen.vid, entry.container);
                tracing::warn!(%vid, %container, %error, "a container cannot be read now");
            }
            Err(Undescribed::Container(reason)) => {
                let (vid, container, block) = (seen.vid, entry.container, entry.block);
                tracing::warn!(%vid, %container, %block, reason, "a container is not taken over");
            }
        }
    }
    let tape = settler.read(|view| view.tape(seen.vid))?;
    // A newer index was there at the point: what it named may be there still.
    is_unread |=
        tape.as_ref().is_some_and(|tape| tape.uuid == Some(seen.uuid) && tape.generation > seen.generation());
    // Where it ends is worth knowing even if nothing on it is needed.
    let is_longer = tape.is_some_and(|tape| {
        tape.uuid == Some(seen.uuid) && tape.generation.0 > 0 && tape.generation < seen.generation()
    });
    Ok((is_longer || is_unread || !containers.is_empty()).then(|| VolumeFound {
        is_unread,
        vid: seen.vid,
        uuid: seen.uuid,
        generation: seen.generation(),
        index_block: seen.index_block,
        end_of_data: seen.end_of_data,
        containers,
    }))
}

fn entries(seen: &TapeSeen) -> Vec<Entry> {
    let entry = |(path, file): (Vec<&str>, &ltfs::File)| {
        let text = |key: &str| {
            let (_, value) = file.xattrs.iter().find(|(found, _)| found == key)?;
            std::str::from_utf8(value).ok()
        };
        // One piece, from the start of a block: so Kist writes.
        let [extent] = file.extents.as_slice() else { return None };
        let (adler32, crc32c) = (Adler32::parse(text(XATTR_ADLER32)?)?, Crc32c::parse(text(XATTR_CRC32C)?)?);
        let own_file = || {
            let file = FileId(text(XATTR_FILE_ID)?.parse().ok()?);
            let modified = Timestamp(text(XATTR_MTIME)?.parse().ok()?);
            let Some(offset) = text(XATTR_SEGMENT_OFFSET) else {
                let blake3 = Blake3::parse(text(XATTR_BLAKE3)?)?;
                return Some(OwnFile { file, size: extent.byte_count, blake3, modified, part: None });
            };
            let size = ByteCount(text(XATTR_FILE_SIZE)?.parse().ok()?);
            let blake3 = Blake3::parse(text(XATTR_FILE_BLAKE3)?)?;
            let part = Some(ByteCount(offset.parse().ok()?));
            Some(OwnFile { file, size, blake3, modified, part })
        };
        Some(Entry {
            container: container_of(file)?,
            block: extent.start_block,
            length: file.length,
            checksums: StreamChecksums { adler32, crc32c },
            tape_path: path.iter().map(|name| format!("/{name}")).collect(),
            file: own_file(),
        })
    };
    seen.index.tree.iter().filter_map(|(path, file)| entry((path, file))).collect()
}

/// One more place of a container that the catalogue knows: written again, or moved, since.
fn of_known(settler: &Settler<'_>, entry: &Entry) -> Result<Option<AdoptContainer>, ArchiveError> {
    let record = settler.read(|view| view.container(entry.container))?;
    Ok(record.map(|record| adoption(entry, record.kind, record.class, record.sealed)))
}

fn adoption(entry: &Entry, kind: ContainerKind, class: ClassId, sealed: Timestamp) -> AdoptContainer {
    AdoptContainer {
        container: entry.container,
        kind,
        class,
        members: Vec::new(),
        length: entry.length,
        checksums: entry.checksums,
        sealed,
        tape_path: entry.tape_path.clone(),
        places: Vec::new(),
    }
}

/// Why a container is not taken over.
enum Undescribed {
    Archive(ArchiveError),
    /// The tape or its drive.
    Tape(TapeError),
    /// What stands there.
    Container(String),
}

impl From<ArchiveError> for Undescribed {
    fn from(error: ArchiveError) -> Self {
        Undescribed::Archive(error)
    }
}

impl From<TapeError> for Undescribed {
    fn from(error: TapeError) -> Self {
        Undescribed::Tape(error)
    }
}

/// The container with its members that the catalogue wants; `None` if it wants none.
fn describe(
    settler: &Settler<'_>,
    drive: &mut dyn TapeDrive,
    seen: &TapeSeen,
    entry: &Entry,
) -> Result<Option<AdoptContainer>, Undescribed> {
    let (kind, sealed, members) = match entry.file {
        Some(OwnFile { file, size, blake3, modified, part }) => {
            let record = MemberRecord {
                file,
                header_offset: ByteCount(0),
                data_offset: ByteCount(0),
                length: entry.length,
                file_offset: part.unwrap_or(ByteCount(0)),
            };
            let kind = match part {
                Some(file_offset) => ContainerKind::Segment { file, file_offset },
                None => ContainerKind::File(file),
            };
            (kind, modified, vec![Member { size, blake3, record }])
        }
        None => {
            let (sealed, members) = members_of_pack(drive, seen, entry)?;
            (ContainerKind::Pack, sealed, members)
        }
    };
    let (class, members) = settler.read(|view| wanted(view, members))?;
    let Some(class) = class else { return Ok(None) };
    Ok(Some(AdoptContainer { members, ..adoption(entry, kind, class, sealed) }))
}

/// What the manifest at the beginning of a pack says, if the pack that it describes is this one.
fn members_of_pack(
    drive: &mut dyn TapeDrive,
    seen: &TapeSeen,
    entry: &Entry,
) -> Result<(Timestamp, Vec<Member>), Undescribed> {
    let wrong = |reason: String| Undescribed::Container(reason);
    let head = read_bytes(drive, entry.block, PACK_HEADER_BYTES_MAX as u64, seen.block_size)?;
    let header = read_pack_header(&head).map_err(|error| wrong(error.to_string()))?;
    let length = header.header_length.0.saturating_add(header.size.0);
    let bytes = read_bytes(drive, entry.block, length, seen.block_size)?;
    let text = usize::try_from(header.header_length.0).ok().and_then(|from| bytes.get(from..));
    let manifest = Manifest::parse(text.unwrap_or_default()).map_err(|error| wrong(error.to_string()))?;
    let created = manifest.created;
    let blake3: Vec<Blake3> = manifest.entries.iter().map(|entry| entry.member.checksums.blake3).collect();
    let offsets: Vec<ByteCount> = manifest.entries.iter().map(|entry| entry.data_offset).collect();
    let members = manifest.entries.into_iter().map(|entry| entry.member).collect();
    let plan = PackPlan { container: manifest.container, created, members };
    let layout = PackLayout::seal(&plan).map_err(|error| wrong(error.to_string()))?;
    let is_this = layout.container() == entry.container
        && (layout.total_length(), layout.checksums()) == (entry.length, entry.checksums)
        && layout.members().map(|member| member.data_offset).eq(offsets);
    if !is_this {
        return Err(wrong("its manifest is not that of the pack that the index names".to_owned()));
    }
    let record = |member: &ltfs::pack::MemberLayout| MemberRecord {
        file: member.file,
        header_offset: member.header_offset,
        data_offset: member.data_offset,
        length: member.data_length,
        file_offset: ByteCount(0),
    };
    let members = layout.members().zip(blake3).map(|(member, blake3)| Member {
        size: member.data_length,
        blake3,
        record: record(member),
    });
    Ok((created, members.collect()))
}

/// Those members whose very bytes a file of the catalogue has and no tape that it knows. Their classes may
/// differ, as a class may be changed after the pack was sealed: the one with the most copies is the
/// container's.
fn wanted(view: &View<'_>, members: Vec<Member>) -> Result<(Option<ClassId>, Vec<MemberRecord>), ReadError> {
    let copies: BTreeMap<ClassId, usize> =
        view.classes()?.into_iter().map(|(id, class)| (id, class.copies.len())).collect();
    let (mut class, mut records) = (None, Vec::new());
    for Member { size, blake3, record } in members {
        let file = view.file(record.file)?.filter(|file| {
            let is_same = (file.size, file.checksums.blake3) == (size, blake3);
            file.is_named() && file.has_data() && is_same
        });
        let Some(file) = file else { continue };
        if !stands_on_tape(view, &record)? {
            class = class.into_iter().chain([file.class]).max_by_key(|class| copies.get(class).copied());
            records.push(record);
        }
    }
    Ok((class, records))
}

/// Whether all bytes of a member stand in parts of its file that have a place on a tape.
fn stands_on_tape(view: &View<'_>, member: &MemberRecord) -> Result<bool, ReadError> {
    let (begin, end) = (member.file_offset.0, member.file_offset.0.saturating_add(member.length.0));
    let mut standing = 0;
    for (container, part) in view.parts(member.file)? {
        let (from, to) = (part.file_offset.0.max(begin), (part.file_offset.0 + part.length.0).min(end));
        if from < to && view.container(container)?.is_some_and(|record| record.places().next().is_some()) {
            standing += to - from;
        }
    }
    Ok(standing == member.length.0)
}

/// Takes over what the tapes hold. Gives how many containers that were.
pub(crate) fn take_over(settler: &Settler<'_>, volumes: Vec<VolumeFound>) -> Result<u64, ArchiveError> {
    // Which pool a tape goes to depends on what the tapes before it have got.
    let mut early = settler.settling.adopting();
    let vids: Vec<Vid> = volumes.iter().map(|volume| volume.vid).collect();
    let mut containers: BTreeMap<ContainerId, AdoptContainer> = BTreeMap::new();
    let mut taken = pools_of(settler, &early)?;
    for volume in volumes {
        // The mount that closes its session looks at what stands behind, and finds its end.
        if settler.read(|view| view.tape(volume.vid))?.is_some_and(|tape| tape.run.is_some()) {
            tracing::info!(vid = %volume.vid, "a session is open on this tape: it is closed first");
            continue;
        }
        let Some(tape_pool) = tape_pool_of(settler, &volume, &taken)? else {
            tracing::warn!(vid = %volume.vid, "no tape pool is free for what a tape holds: it is left alone");
            continue;
        };
        let reason = "it was written after the point of the restore: it is only read from now on";
        let found = TapeFound {
            vid: volume.vid,
            uuid: volume.uuid,
            tape_pool,
            generation: volume.generation,
            index_block: volume.index_block,
            end_of_data: volume.end_of_data,
            reason: truncated(reason, 512),
        };
        match settler.execute(Command::TapeFound(found)) {
            Ok(()) => {}
            Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => {
                tracing::error!(vid = %volume.vid, %rejection, "what a tape holds cannot be taken over");
                continue;
            }
            Err(error) => return Err(error),
        }
        for ContainerFound { block, what } in volume.containers {
            taken.entry(what.container).or_default().push(tape_pool);
            let place = TapePlace { vid: volume.vid, block };
            containers.entry(what.container).or_insert(what).places.push(place);
        }
    }
    // With another tape the part in front of them may have come.
    for (container, what) in std::mem::take(&mut *early) {
        let known = containers.entry(container).or_insert_with(|| {
            let places = Vec::new();
            AdoptContainer { places, ..what.clone() }
        });
        known.places.extend(what.places);
    }
    let mut adopted = 0;
    // A file is cut from its beginning on, so that its parts are in the order of their containers' ids.
    for (container, what) in containers {
        let (files, places) = (what.members.len(), what.places.len());
        if is_early(settler, &what)? {
            early.insert(container, what);
            continue;
        }
        match settler.execute(Command::AdoptContainer(Box::new(what))) {
            Ok(()) => {
                adopted += 1;
                settler.room.members_moved(container)?;
                tracing::info!(%container, files, places, "a container that tapes hold is taken over");
            }
            Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => {
                tracing::warn!(%container, %rejection, "a container that tapes hold is not taken over");
            }
            Err(error) => return Err(error),
        }
    }
    vids.into_iter().for_each(|vid| settler.room.post_tape(vid));
    if adopted > 0 {
        settler.notifier.backlog_changed();
    }
    Ok(adopted)
}

/// The pools of the tapes on which parts were found that wait for the one in front of them: the catalogue
/// does not know their containers yet, and another tape with the same one is of another pool.
fn pools_of(
    settler: &Settler<'_>,
    early: &EarlyParts,
) -> Result<BTreeMap<ContainerId, Vec<TapePoolId>>, ArchiveError> {
    settler.read(|view| {
        let mut pools: BTreeMap<ContainerId, Vec<TapePoolId>> = BTreeMap::new();
        for (container, what) in early {
            for place in &what.places {
                let pool = view.tape(place.vid)?.and_then(|tape| tape.tape_pool);
                pools.entry(*container).or_default().extend(pool);
            }
        }
        Ok(pools)
    })
}

/// Whether a container that the catalogue does not know is a part of a file that does not follow what the
/// catalogue has of it in containers.
fn is_early(settler: &Settler<'_>, what: &AdoptContainer) -> Result<bool, ArchiveError> {
    let (ContainerKind::Segment { file, file_offset }, false) = (&what.kind, what.members.is_empty()) else {
        return Ok(false);
    };
    let parts = settler.read(|view| view.parts(*file))?;
    let before = parts.iter().filter(|(_, part)| part.file_offset < *file_offset);
    Ok(before.map(|(_, part)| part.length.0).sum::<u64>() != file_offset.0)
}

/// The pool of a tape: its own, else one of those for which the class of its containers has no copy yet.
fn tape_pool_of(
    settler: &Settler<'_>,
    volume: &VolumeFound,
    taken: &BTreeMap<ContainerId, Vec<TapePoolId>>,
) -> Result<Option<TapePoolId>, ArchiveError> {
    let tape = settler.read(|view| view.tape(volume.vid))?;
    if let Some(tape) = tape.filter(|tape| tape.uuid == Some(volume.uuid)) {
        return Ok(tape.tape_pool);
    }
    settler.read(|view| {
        let pools: Vec<TapePoolId> = view.tape_pools()?.into_iter().map(|(id, _)| id).collect();
        let classes: BTreeMap<ClassId, Vec<TapePoolId>> =
            view.classes()?.into_iter().map(|(id, class)| (id, class.copies)).collect();
        for found in &volume.containers {
            let waiting: Vec<TapePoolId> = match view.container(found.what.container)? {
                Some(record) => {
                    let copies = record.copies.iter().filter(|copy| copy.places().next().is_none());
                    copies.map(|copy| copy.tape_pool).collect()
                }
                None => classes.get(&found.what.class).cloned().unwrap_or_default(),
            };
            let used = taken.get(&found.what.container).map(Vec::as_slice).unwrap_or_default();
            // A class without copies at that point may have had some since: any pool will do.
            let mut candidates = waiting.into_iter().chain(pools.iter().copied());
            if let Some(free) = candidates.find(|pool| !used.contains(pool)) {
                return Ok(Some(free));
            }
        }
        // Nothing on it is needed, or it has a copy too many.
        Ok(None)
    })
}
