//! What is written next, where it will stand, and where its bytes come from.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::{
    ArchivePath, BlobDescription, BlobId, BlobPiece, BlockAddress, BlockCount, ByteCount, ContainerId,
    FileId, TapePoolId, Vid,
};
use catalogue::{
    Command, ContainerCopy, ContainerKind, ContainerRecord, FileRecord, PlannedContainer, QueuedContainer,
    ReadError, View,
};
use ltfs::naming;
use ltfs::pack::{PackLayout, Piece};
use mover::{ContainerPlan, FileOnTape, MoverError, Part, Volume, VolumeError};
use session::{Accepted, CHOOSE_WINDOW, MigrationQueue, Queued};

use super::SessionError;
use crate::mends::FromTape;
use crate::room::{Tape, largest_container};
use ground::ArchiveError;

/// The largest container that is read once to see whether it can be written, before a blank tape is labelled
/// for it. A larger one is only read if it failed before: that takes longer than a blank tape is worth.
const PROBE_BYTES_MAX: ByteCount = ByteCount::gib(16);

/// What is queued for a tape pool, as the catalogue has it.
pub(super) struct PoolQueue<'a> {
    room: &'a Tape,
    /// The tape that is to be written.
    vid: Vid,
    tape_pool: TapePoolId,
    /// What some tape of the pool takes when it is empty.
    largest: ByteCount,
}

impl<'a> PoolQueue<'a> {
    pub(super) fn of(room: &'a Tape, vid: Vid, tape_pool: TapePoolId) -> Result<Self, ArchiveError> {
        let largest = room.read(|view| largest_of(room, view, tape_pool))?;
        Ok(PoolQueue { room, vid, tape_pool, largest })
    }
}

impl PoolQueue<'_> {
    /// A copy that was to leave this very tape when it was repacked: the tape was given back before it came
    /// to that, so the copy stays where it stands. Few are left to be found here: see
    /// [`Tape::keep_what_was_to_leave`].
    fn stays_here(&self, container: ContainerId, record: &ContainerRecord) -> Result<bool, ArchiveError> {
        let vid = self.vid;
        let is_one = |copy: &ContainerCopy| copy.tape_pool == self.tape_pool && copy.is_leaving(vid);
        let stands_here = record.copies.iter().any(is_one);
        if stands_here {
            tracing::info!(%container, %vid, "a copy that was to leave its tape stays, as the tape does");
            self.room.execute_on_container(Command::KeepCopy { container, vid })?;
        }
        Ok(stands_here)
    }
}

impl MigrationQueue for PoolQueue<'_> {
    type Error = ArchiveError;
    type Cursor = ContainerId;

    fn window(
        &mut self,
        after: Option<ContainerId>,
    ) -> Result<Option<(Vec<Queued>, ContainerId)>, ArchiveError> {
        let page = self.room.read(|view| view.queue(self.tape_pool, after, CHOOSE_WINDOW))?;
        let Some((last, _)) = page.last() else { return Ok(None) };
        let last = *last;
        Ok(Some((with_data_sets(self.room, page)?, last)))
    }

    fn accept(&mut self, queued: &Queued) -> Result<Accepted, ArchiveError> {
        let record = self.room.read(|view| view.container(queued.container))?;
        if let Some(record) = &record
            && (self.room.drop_if_unneeded(queued.container, record)?
                || self.stays_here(queued.container, record)?
                || must_come_from_tape(self.room, queued.container, record)?)
        {
            return Ok(Accepted::NotNow);
        }
        Ok(Accepted::Yes { members: record.map_or(1, |record| record.live_members.into()) })
    }

    fn is_too_large(&mut self, queued: &Queued) {
        rest_if_too_large(self.room, queued.container, queued.length, self.largest);
    }
}

/// Where chosen containers stand on tape, one behind the other from the end of its data on.
pub(super) fn places(chosen: &[Queued], end_of_data: BlockAddress, block_size: u32) -> Vec<PlannedContainer> {
    let mut next = end_of_data;
    let place = |queued: &Queued| {
        let blocks = BlockCount(queued.length.0.div_ceil(u64::from(block_size)));
        let block = next;
        next = BlockAddress(block.0 + blocks.0);
        PlannedContainer { container: queued.container, block, blocks }
    };
    chosen.iter().map(place).collect()
}

/// The largest container that some tape of a pool takes when it is empty.
fn largest_of(room: &Tape, view: &View<'_>, tape_pool: TapePoolId) -> Result<ByteCount, ReadError> {
    Ok(room.largest_of(view, tape_pool)?.unwrap_or(ByteCount(u64::MAX)))
}

/// Another tape of the pool may be larger; if none is, it is not looked at again so soon.
fn rest_if_too_large(room: &Tape, container: ContainerId, length: ByteCount, largest: ByteCount) {
    if length > largest {
        let why = format!("it has {length}, more than an empty tape of this pool takes");
        rest(room, container, &why);
    }
}

/// Whether something is queued for a pool that can be written now to an empty tape of this capacity, so that
/// one is worth labelling. What is found that cannot be written rests, as if it had failed on tape.
pub(super) fn has_work(
    room: &Tape,
    tape_pool: TapePoolId,
    capacity: ByteCount,
) -> Result<bool, ArchiveError> {
    let empty_tape = largest_container(capacity);
    let largest = room.read(|view| largest_of(room, view, tape_pool))?;
    let mut after = None;
    loop {
        let page = room.read(|view| view.queue(tape_pool, after, CHOOSE_WINDOW))?;
        let Some((last, _)) = page.last() else { return Ok(false) };
        after = Some(*last);
        for (container, QueuedContainer { length, .. }) in page {
            if is_resting(room, container) {
                continue;
            }
            if length > empty_tape {
                rest_if_too_large(room, container, length, largest);
            } else if can_be_written(room, container, length)? {
                return Ok(true);
            }
        }
    }
}

fn can_be_written(room: &Tape, container: ContainerId, length: ByteCount) -> Result<bool, ArchiveError> {
    {
        let _planning = room.planning();
        let record = room.read(|view| view.container(container))?;
        if let Some(record) = &record
            && (room.drop_if_unneeded(container, record)? || must_come_from_tape(room, container, record)?)
        {
            return Ok(false);
        }
    }
    if length > PROBE_BYTES_MAX && !room.own.resting.has_failed(container) {
        return Ok(true);
    }
    let planned = PlannedContainer { container, block: BlockAddress(0), blocks: BlockCount(0) };
    let checked = {
        let _reading = room.gate.enter();
        match build(room, &planned) {
            Ok(plan) => {
                let (buffer, piece) = (room.settings.tape.buffer, only_piece(&plan));
                mover::check_source(room.blobs.as_ref(), buffer, room.block_size(), plan)
                    .map_err(|error| Some((error, piece)))
            }
            Err(error) => {
                rest(room, container, &error.to_string());
                Err(None)
            }
        }
    };
    if let Err(Some((error, piece))) = &checked {
        rest_unreadable(room, container, *piece, error)?;
    }
    if let Err(error) = &checked {
        give_up_lost(room, container, error.as_ref().map(|(error, _)| error))?;
    }
    Ok(checked.is_ok())
}

/// A container's bytes could not be read: it rests, and an image that cannot be read is not kept if a tape
/// has another. `piece`: what was read, if that was one piece of the pool.
pub(super) fn rest_unreadable(
    room: &Tape,
    container: ContainerId,
    piece: Option<BlobPiece>,
    error: &MoverError,
) -> Result<(), ArchiveError> {
    if let Some(piece) = piece
        && !error.is_shortage()
    {
        room.drop_bad_image(container, piece)?;
    }
    rest(room, container, &error.to_string());
    Ok(())
}

/// A container failed and is in its queue again. Members that the pool has lost for good are declared so, and
/// a pack that no tape has is dissolved, so that its other files go to tape in another one. `error`: of
/// reading, if it came to that.
pub(super) fn give_up_lost(
    room: &Tape,
    container: ContainerId,
    error: Option<&MoverError>,
) -> Result<(), ArchiveError> {
    let unreadable = error.filter(|error| !error.is_shortage());
    let has_image = room.read(|view| view.container(container))?.is_some_and(|record| record.image.is_some());
    if let Some(error) = unreadable
        && !has_image
    {
        upkeep::declare_members(&room.upkeep, container, error.blob())?;
    }
    // Not while another drive plans: what it has just chosen must not go.
    let _planning = room.planning();
    room.dissolve_if_stuck(container, unreadable.is_some())?;
    Ok(())
}

/// Those that do not rest, with their data sets.
fn with_data_sets(
    room: &Tape,
    page: Vec<(ContainerId, QueuedContainer)>,
) -> Result<Vec<Queued>, ArchiveError> {
    let mut window = Vec::with_capacity(page.len());
    for (container, QueuedContainer { length, .. }) in page {
        if !is_resting(room, container) {
            window.push(Queued { container, data_set: 0, length, can_span: false });
        }
    }
    room.read(|view| {
        for queued in &mut window {
            queued.data_set = data_set(view, queued.container)?;
        }
        Ok(())
    })?;
    Ok(window)
}

/// The data set of a container: that of its first member; 0 if it is not known.
fn data_set(view: &View<'_>, container: ContainerId) -> Result<u64, ReadError> {
    let Some(record) = view.container(container)? else { return Ok(0) };
    let file = match record.kind {
        ContainerKind::File(file) | ContainerKind::Segment { file, .. } => Some(file),
        ContainerKind::Pack => view.members(container, None, 1)?.first().map(|member| member.file),
    };
    let Some(file) = file else { return Ok(0) };
    Ok(view.file(file)?.map_or(0, |file| file.dataset))
}

/// Whether a queued container's bytes are on tape only: then they are asked for, and it waits.
fn must_come_from_tape(
    room: &Tape,
    container: ContainerId,
    record: &ContainerRecord,
) -> Result<bool, ArchiveError> {
    let may_lack = record.image.is_none()
        && match record.kind {
            // Members leave the pool only when every copy was safe once: then there are places.
            ContainerKind::Pack => record.skeleton.is_none() || record.places().next().is_some(),
            ContainerKind::File(_) | ContainerKind::Segment { .. } => true,
        };
    if !may_lack || room.has_bytes(container, record)? {
        return Ok(false);
    }
    // Before it is asked for: who brings the bytes ends the rest.
    rest(room, container, "its bytes are being read from another tape");
    match room.want_bytes(container, |_| {})? {
        FromTape::Asked => {}
        FromTape::Later => {
            room.own.resting.explain(container, "too many others are to be read from tapes before it");
        }
        FromTape::Nowhere => {
            if !room.dissolve_if_stuck(container, false)? {
                let why = "its bytes are not in the pool and no tape can give them now";
                room.own.resting.explain(container, why);
            }
        }
    }
    Ok(true)
}

/// Leaves a container alone for a while, twice as long after each failure: what was written of it is lost to
/// the tape.
pub(super) fn rest(room: &Tape, container: ContainerId, why: &str) {
    tracing::warn!(%container, why, "a container is not written now; it is tried again later");
    room.own.resting.begin(container, room.now(), room.settings.tape.retry_delay, why);
}

/// Forgets the failures of containers that are on tape.
pub(super) fn recovered(room: &Tape, containers: &[PlannedContainer]) {
    room.own.resting.forget(containers.iter().map(|planned| &planned.container));
}

fn is_resting(room: &Tape, container: ContainerId) -> bool {
    room.own.resting.rests(container, room.now())
}

/// Where the bytes of a planned container come from.
pub(super) fn build(room: &Tape, planned: &PlannedContainer) -> Result<ContainerPlan, ArchiveError> {
    let container = planned.container;
    let record = room.read(|view| view.container(container))?;
    let record = record.ok_or_else(|| ArchiveError::ContainerBytes {
        container,
        reason: "the catalogue does not know it".to_owned(),
    })?;
    if let Some(image) = &record.image {
        return image_plan(room, planned, &record, image);
    }
    let parts = match (&record.kind, &record.skeleton) {
        (ContainerKind::Pack, Some(skeleton)) => pack_parts(room, container, skeleton)?,
        (ContainerKind::Pack, None) => {
            return Err(ArchiveError::ContainerBytes {
                container,
                reason: "its skeleton is gone although copies are missing".to_owned(),
            });
        }
        (ContainerKind::File(file) | ContainerKind::Segment { file, .. }, _) => {
            let mut parts = VecDeque::new();
            let mut blobs = HashMap::new();
            let range = match record.kind {
                ContainerKind::Segment { file_offset, .. } => Some((file_offset, record.length)),
                _ => None,
            };
            room.read(|view| file_parts(view, &mut blobs, *file, range, &mut parts))?
                .then_some(parts)
                .ok_or_else(|| ArchiveError::ContainerBytes {
                    container,
                    reason: format!("file {file} is not in the pool"),
                })?
        }
    };
    Ok(ContainerPlan {
        container,
        block: planned.block,
        length: record.length,
        checksums: record.checksums,
        parts,
    })
}

/// The piece that a plan reads, if it reads one piece of the pool: of a container with an image, that.
pub(super) fn only_piece(plan: &ContainerPlan) -> Option<BlobPiece> {
    // Where files end is no bytes.
    let mut parts = plan.parts.iter().filter(|part| !matches!(part, Part::FilesEnd(_)));
    match (parts.next(), parts.next()) {
        (Some(Part::Blob(_, piece)), None) => Some(*piece),
        _ => None,
    }
}

/// A container whose whole bytes came back from a tape.
fn image_plan(
    room: &Tape,
    planned: &PlannedContainer,
    record: &ContainerRecord,
    image: &BlobPiece,
) -> Result<ContainerPlan, ArchiveError> {
    let container = planned.container;
    let blob = room.read(|view| view.blob(image.blob))?.ok_or_else(|| ArchiveError::ContainerBytes {
        container,
        reason: "its image's blob is unknown".to_owned(),
    })?;
    Ok(ContainerPlan {
        container,
        block: planned.block,
        length: record.length,
        checksums: record.checksums,
        parts: VecDeque::from([
            Part::Blob(Arc::new(blob), *image),
            Part::FilesEnd(record.live_members.max(1).into()),
        ]),
    })
}

type Blobs = HashMap<BlobId, Arc<BlobDescription>>;

/// Appends the places of a file's bytes, all of them or from an offset on so many; `false` if it is not in
/// the pool.
fn file_parts(
    view: &View<'_>,
    blobs: &mut Blobs,
    file: FileId,
    range: Option<(ByteCount, ByteCount)>,
    parts: &mut VecDeque<Part>,
) -> Result<bool, ReadError> {
    let Some(record) = view.file(file)? else { return Ok(false) };
    let (offset, length) = range.unwrap_or((ByteCount(0), record.size));
    for (piece, from, length) in base::pieces_within(&record.pieces, offset, length) {
        let blob = match blobs.get(&piece.blob) {
            Some(blob) => Arc::clone(blob),
            None => {
                let Some(blob) = view.blob(piece.blob)? else { return Ok(false) };
                let blob = Arc::new(blob);
                blobs.insert(piece.blob, Arc::clone(&blob));
                blob
            }
        };
        parts.push_back(match length == piece.length {
            true => Part::Blob(blob, piece),
            false => Part::Within(blob, piece, (from, length)),
        });
    }
    parts.push_back(Part::FilesEnd(1));
    Ok(record.is_online())
}

fn pack_parts(
    room: &Tape,
    container: ContainerId,
    skeleton: &base::BlobPiece,
) -> Result<VecDeque<Part>, ArchiveError> {
    let refuse = |reason: String| ArchiveError::ContainerBytes { container, reason };
    let blob = room.read(|view| view.blob(skeleton.blob))?;
    let blob = blob.ok_or_else(|| refuse("its skeleton's blob is unknown".to_owned()))?;
    let stored = room.read_whole(&blob, skeleton)?;
    let layout = PackLayout::from_skeleton(&stored).map_err(|error| refuse(error.to_string()))?;
    drop(stored);
    let bytes: Arc<[u8]> = Arc::from(layout.skeleton());
    let mut parts = VecDeque::new();
    let mut blobs = HashMap::new();
    let mut at = 0;
    room.read(|view| {
        for piece in layout.pieces() {
            match piece {
                Piece::Skeleton(part) => {
                    parts.push_back(Part::Bytes(Arc::clone(&bytes), at..at + part.len()));
                    at += part.len();
                }
                Piece::Zeros(count) => parts.push_back(Part::Zeros(u64::from(count))),
                Piece::Data { file, .. } => {
                    if !file_parts(view, &mut blobs, file, None, &mut parts)? {
                        return Ok(Some(file));
                    }
                }
            }
        }
        Ok(None)
    })?
    .map_or(Ok(()), |file| Err(refuse(format!("its member file {file} is not in the pool"))))?;
    assert_eq!(at, bytes.len(), "the pieces of a pack give its whole skeleton");
    Ok(parts)
}

/// Enters a container that is on tape in the volume's index. Gives whether another place of the same copy is
/// given up when this one was read back.
pub(super) fn enter(
    room: &Tape,
    volume: &mut Volume,
    container: ContainerId,
    block: BlockAddress,
) -> Result<bool, SessionError> {
    let found = room.read(|view| {
        let Some(record) = view.container(container)? else { return Ok(None) };
        let file = match &record.kind {
            ContainerKind::File(file) | ContainerKind::Segment { file, .. } => {
                view.file(*file)?.map(|f| (*file, f)).zip(view.path_of_file(*file)?)
            }
            ContainerKind::Pack => None,
        };
        let part = match &record.kind {
            ContainerKind::Segment { file, file_offset } => {
                let parts = view.parts(*file)?;
                let before = parts.iter().filter(|(_, member)| member.file_offset < *file_offset);
                Some((*file_offset, before.count() + 1))
            }
            ContainerKind::Pack | ContainerKind::File(_) => None,
        };
        Ok(Some((record, file, part)))
    })?;
    let Some((record, file, part)) = found else { return Ok(false) };
    let now = room.now();
    let has_source = record.copies.iter().any(|copy| {
        copy.source.is_some_and(|source| source.vid != volume.vid())
            && copy.state.place().is_none_or(|place| place == (volume.vid(), block))
    });
    // A place on this tape that was given up is named no more, or two entries would claim to be the copy.
    let source = record.copies.iter().filter_map(|copy| copy.source).find(|it| it.vid == volume.vid());
    volume.leave_out(container, source.map(|source| source.block), now);
    let entry = match &file {
        Some(((id, file), path)) => {
            file_entry(room, volume, (container, &record), (*id, file, path), part, block)?
        }
        None => FileOnTape {
            path: record.tape_path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            length: record.length,
            block,
            modified: record.sealed,
            xattrs: container_xattrs(container, &record),
        },
    };
    let vid = volume.vid();
    let path_error = |source| VolumeError::Path { vid, container, source };
    let result = volume.add(entry.clone(), now);
    match result {
        // A deleted file's name may be taken by its successor: it stands under Kist's own directory then.
        Err(_) if file.is_none() => {
            let path = naming::fallback_path(FileId(container.0));
            volume.add(FileOnTape { path, ..entry }, now).map_err(path_error)?;
        }
        other => other.map_err(path_error)?,
    }
    Ok(has_source)
}

fn container_xattrs(container: ContainerId, record: &ContainerRecord) -> Vec<(String, Vec<u8>)> {
    [
        (naming::XATTR_CONTAINER, container.to_string()),
        (naming::XATTR_ADLER32, record.checksums.adler32.to_string()),
        (naming::XATTR_CRC32C, record.checksums.crc32c.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.into_bytes()))
    .collect()
}

/// The entry of a file of its own, or of the `part` of one that the container is: its offset and number.
fn file_entry(
    room: &Tape,
    volume: &Volume,
    (container, record): (ContainerId, &ContainerRecord),
    (id, file, path): (FileId, &FileRecord, &str),
    part: Option<(ByteCount, usize)>,
    block: BlockAddress,
) -> Result<FileOnTape, SessionError> {
    let nominal = || match part {
        Some(_) => crate::seal::path_by_id(id),
        None => Ok(ArchivePath::new(&record.tape_path)?),
    };
    let archive_path = ArchivePath::new(path).or_else(|_| nominal())?;
    let tape_path = match part {
        Some((offset, _)) => naming::free_segment_path(volume.tree(), &archive_path, id, offset),
        None => naming::free_path(volume.tree(), &archive_path, id),
    };
    let tape_path = tape_path.map_err(|source| VolumeError::Path { vid: volume.vid(), container, source })?;
    let mut xattrs = container_xattrs(container, record);
    let blake3 = file.checksums.blake3.to_string();
    let of_content = match part {
        // The checksums of a part say nothing of the file, nor the other way round.
        Some((offset, number)) => vec![
            (naming::XATTR_SEGMENT_OFFSET, offset.0.to_string()),
            (naming::XATTR_SEGMENT_NUMBER, number.to_string()),
            (naming::XATTR_FILE_SIZE, file.size.0.to_string()),
            (naming::XATTR_FILE_ADLER32, file.checksums.stream.adler32.to_string()),
            (naming::XATTR_FILE_CRC32C, file.checksums.stream.crc32c.to_string()),
            (naming::XATTR_FILE_BLAKE3, blake3),
        ],
        None => vec![(naming::XATTR_BLAKE3, blake3)],
    };
    let of_file = [
        (naming::XATTR_FILE_ID, id.to_string()),
        (naming::XATTR_PATH, path.to_owned()),
        (naming::XATTR_CLASS, room.classes.name(file.class)),
    ];
    let of_user = [
        (naming::XATTR_MTIME, file.attributes.mtime.0.to_string()),
        (naming::XATTR_MODE, format!("{:o}", file.attributes.mode)),
        (naming::XATTR_OWNER, file.attributes.owner.clone()),
        (naming::XATTR_GROUP, file.attributes.group.clone()),
    ];
    let more = of_file.into_iter().chain(of_content).chain(of_user);
    xattrs.extend(more.map(|(key, value)| (key.to_owned(), value.into_bytes())));
    Ok(FileOnTape { path: tape_path, length: record.length, block, modified: file.attributes.mtime, xattrs })
}
