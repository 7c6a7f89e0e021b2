//! Files whose bytes the pool cannot give: they fall back on their tape copies, or are lost, and are found
//! again when their drives come back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use base::{
    BlobDescription, BlobId, BlobPiece, BlockAddress, ByteCount, ClassId, ContainerId, DriveId, Duration,
    FileId, StreamChecksums, TapeKey, Timestamp, Vid,
};
use catalogue::{
    BULK_FILES, Command, ContainerKind, FileRecord, FileState, PoolCopy, PoolLoss, ReadError, View, typed,
};
use pool::PoolError;

use crate::Upkeep;
use ground::{ArchiveError, FileStat, Ground, Locality, LossForeseen};

/// Files looked at together.
pub(crate) const PAGE: usize = 1_000;
/// Files named in the log for one reason; all of them are counted.
pub const NAMED_MAX: usize = 100;
/// Files kept to be named to people.
const FILES_KEPT: usize = 1_000;
/// Pieces that are named in one command, about: some hundred kilobytes of the change log. A file of many
/// parts may have more by itself.
const PIECES_AT_ONCE: usize = 10_000;
/// Who asks for files back that the pool has lost.
const OWNER: &str = "kist";
/// For how long such files are pinned once they are back.
const PIN: Duration = Duration::from_secs(3600);

/// Files named to whom is about to lose them.
const FORESEEN_NAMED_MAX: usize = 5;

/// What became of files that the pool cannot give: how many, and the first [`FILES_KEPT`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Declared {
    /// NEARLINE from now on, and asked for.
    pub(crate) nearline: Vec<FileId>,
    pub(crate) nearline_count: u64,
    /// Without any readable copy.
    pub(crate) lost: Vec<FileId>,
    pub(crate) lost_count: u64,
}

impl Declared {
    fn note(&mut self, losses: Vec<(FileId, PoolLoss)>) {
        for (file, loss) in losses {
            match loss {
                PoolLoss::Nearline => self.nearline.push(file),
                PoolLoss::Lost => self.lost.push(file),
                PoolLoss::NotConcerned => {}
            }
        }
    }

    pub(crate) fn add(&mut self, more: Declared) {
        self.nearline_count += more.nearline_count;
        self.lost_count += more.lost_count;
        self.nearline.extend(more.nearline);
        self.lost.extend(more.lost);
        self.nearline.truncate(FILES_KEPT);
        self.lost.truncate(FILES_KEPT);
    }
}

/// The keys of tapes on which it depends whether these files can be read if the pool has nothing of them.
///
/// # Errors
/// If the catalogue cannot be read.
pub fn keys_counted_on(
    ground: &Ground,
    files: impl IntoIterator<Item = FileId>,
) -> Result<BTreeSet<TapeKey>, ArchiveError> {
    ground.read(|view| {
        let mut keys = BTreeSet::new();
        for file in files {
            keys.append(&mut view.keys_counted_on(file)?);
        }
        Ok(keys)
    })
}

/// Records that the pool cannot give these copies, and asks for those back that tapes hold. A file that has
/// got other bytes since they were looked at is not concerned.
/// Nothing is decided while a restored catalogue is not settled: their shards may have moved to drives that
/// are away, and the tapes that it names may hold something else by now.
pub(crate) fn declare(upkeep: &Upkeep, copies: &[PoolCopy]) -> Result<Declared, ArchiveError> {
    let mut declared = Declared::default();
    if copies.is_empty() {
        return Ok(declared);
    }
    if upkeep.read(|view| view.is_restored())? {
        tracing::warn!(
            files = copies.len(),
            "files cannot be read from the pool: nothing is decided about them before the restore is settled"
        );
        return Ok(declared);
    }
    let copies = &*without_waiting(upkeep, copies)?;
    // What was recorded before something failed is told and asked for as well: nobody comes to it again.
    let mut failed = None;
    for copies in parts(copies) {
        // What the pool has of a file that tapes can give is given up for good.
        let keys = keys_counted_on(upkeep, copies.iter().map(|copy| copy.file));
        if let Err(error) = keys.and_then(|keys| upkeep.rely_on_keys(&keys)) {
            failed = Some(error);
            break;
        }
        // Said before: an index that is committed right behind the command looks for lost files.
        upkeep.some_lost.store(true, Ordering::SeqCst);
        let losses = record_lost(upkeep, copies).or_else(|error| {
            let losses = match &error {
                ArchiveError::Store(store) if store.is_in_part() => in_part(upkeep, copies),
                _ => Ok(Vec::new()),
            };
            failed = Some(error);
            losses
        });
        match losses {
            Ok(losses) => declared.note(losses),
            Err(error) => tracing::error!(%error, "which of the files were recorded cannot be read"),
        }
        if failed.is_some() {
            break;
        }
    }
    name(upkeep, "it is NEARLINE and is recalled", &declared.nearline);
    name(upkeep, "it is LOST", &declared.lost);
    upkeep.lost_files.add(&declared.lost);
    declared.lost.iter().for_each(|file| upkeep.notifier.wants_changed(*file));
    for files in declared.nearline.chunks(BULK_FILES) {
        if let Err(error) = recall(upkeep, files) {
            tracing::error!(%error, files = files.len(), "files are NEARLINE and not recalled: stage them");
            failed.get_or_insert(error);
            break;
        }
    }
    // They wait for no tape any more: what reasons and forecasts count must not have them.
    upkeep.notifier.backlog_changed();
    upkeep.sweep.ring();
    if let Some(error) = failed {
        return Err(error);
    }
    declared.nearline_count = declared.nearline.len() as u64;
    declared.lost_count = declared.lost.len() as u64;
    Ok(declared)
}

/// Those of the copies about which something can be decided. Right after a start no key of tapes is at hand:
/// what such tapes have would be LOST for the moment until somebody is asked for the keys.
fn without_waiting<'c>(
    upkeep: &Upkeep,
    copies: &'c [PoolCopy],
) -> Result<std::borrow::Cow<'c, [PoolCopy]>, ArchiveError> {
    if upkeep.has_asked_for_keys() {
        return Ok(copies.into());
    }
    let (kept, waiting) = upkeep.read(|view| {
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        for copy in copies {
            let mut waits = false;
            for vid in view.not_given(copy.file)?.map(|(_, vids)| vids).unwrap_or_default() {
                waits |= view.tape(vid)?.map_or(Ok(false), |tape| view.lacks_key(&tape))?;
            }
            if waits {
                waiting.push(copy.file);
            } else {
                kept.push(copy.clone());
            }
        }
        Ok((kept, waiting))
    })?;
    if !waiting.is_empty() {
        let files = waiting.len();
        upkeep.decide_later(waiting);
        tracing::warn!(files, "files cannot be read: the keys of their tapes are asked for first");
    }
    Ok(kept.into())
}

/// Records that the pool cannot give these copies, and what that leaves of each file.
pub fn record_lost(ground: &Ground, copies: &[PoolCopy]) -> Result<Vec<(FileId, PoolLoss)>, ArchiveError> {
    let losses = ground.ask(typed::PoolCopiesLost { copies: copies.to_vec() })?;
    Ok(copies.iter().map(|copy| copy.file).zip(losses).collect())
}

/// Which of these files were recorded by a command that was done in part. One that was evicted meanwhile
/// cannot be told from them, and comes back once.
fn in_part(upkeep: &Upkeep, copies: &[PoolCopy]) -> Result<Vec<(FileId, PoolLoss)>, ArchiveError> {
    upkeep.read(|view| {
        let loss = |copy: &PoolCopy| {
            let loss = match view.file(copy.file)? {
                Some(file) if file.is_lost() => PoolLoss::Lost,
                Some(file) if file.state == FileState::Live && !file.is_online() => PoolLoss::Nearline,
                _ => PoolLoss::NotConcerned,
            };
            Ok((copy.file, loss))
        };
        copies.iter().map(loss).collect()
    })
}

/// Copies in parts for a command each: [`BULK_FILES`] at most, and no further one behind `PIECES_AT_ONCE`.
pub fn parts(copies: &[PoolCopy]) -> impl Iterator<Item = &[PoolCopy]> {
    let mut pieces = 0;
    let mut count = 0;
    copies.chunk_by(move |copy, next| {
        (count, pieces) = (count + 1, pieces + copy.pieces.len());
        let goes_on = count < BULK_FILES && pieces + next.pieces.len() <= PIECES_AT_ONCE;
        if !goes_on {
            (count, pieces) = (0, 0);
        }
        goes_on
    })
}

fn name(upkeep: &Upkeep, what: &str, files: &[FileId]) {
    for file in files.iter().take(NAMED_MAX) {
        tracing::error!(%file, path = path_of(upkeep, *file), "the pool cannot give this file: {what}");
    }
    if files.len() > NAMED_MAX {
        tracing::error!(files = files.len(), "the pool cannot give that many files in all: {what}");
    }
}

/// The file's path, for people.
pub fn path_of(ground: &Ground, file: FileId) -> String {
    match ground.read(|view| view.path_of_file(file)) {
        Ok(Some(path)) => path,
        _ => format!("file {file}"),
    }
}

/// Asks for files back from tape, in the name of Kist itself.
fn recall(upkeep: &Upkeep, files: &[FileId]) -> Result<(), ArchiveError> {
    let request = upkeep.ask(typed::OpenRequest { owner: OWNER.to_owned(), pin: PIN })?;
    let added = upkeep.execute(Command::AddToRequest { request, files: files.to_vec() });
    upkeep.execute(Command::CloseRequest { request })?;
    if let Err(error) = added {
        // One of them was deleted meanwhile. The others are NEARLINE like any file, and can be staged.
        tracing::warn!(%error, "files that the pool has lost are not recalled by themselves: stage them");
        return Ok(());
    }
    files.iter().for_each(|file| upkeep.notifier.wants_changed(*file));
    Ok(())
}

/// Reads files that were found unreadable, and declares those that the pool cannot give, nor drives that are
/// away and not given up. What was repaired since, or deleted, is none.
pub(crate) fn declare_unreadable(
    upkeep: &Upkeep,
    files: &[(FileId, FileRecord)],
) -> Result<Declared, ArchiveError> {
    let mut concerned = Vec::new();
    for (id, file) in files {
        match is_whole(upkeep, file) {
            Ok(true) => {}
            Ok(false) if waits_for_drives(upkeep, file)? => {}
            Ok(false) => concerned.push(PoolCopy::of(*id, file)),
            Err(error) => tracing::warn!(file = %id, %error, "whether it can be read is not known"),
        }
    }
    declare(upkeep, &concerned)
}

/// A file was found unreadable: it is looked at now, not when the scrubber comes to it.
///
/// # Errors
/// If the catalogue cannot be read or written.
pub fn declare_file(upkeep: &Upkeep, file: FileId, record: &FileRecord) -> Result<(), ArchiveError> {
    declare_unreadable(upkeep, &[(file, record.clone())]).map(drop)
}

/// Members of a container whose bytes in this blob cannot be read, or of which nothing is known but that one
/// of them is wrong: they are looked at now, not when the scrubber comes to them. A pack is then sealed anew
/// without the lost ones.
pub fn declare_members(
    upkeep: &Upkeep,
    container: ContainerId,
    blob: Option<BlobId>,
) -> Result<Declared, ArchiveError> {
    let mut all = Declared::default();
    let mut after = None;
    loop {
        let (files, last) = upkeep.read(|view| {
            let members = view.members(container, after, PAGE)?;
            let mut files = Vec::new();
            for member in &members {
                let concerned = |file: &FileRecord| {
                    let touches = blob.is_none_or(|blob| file.pieces.iter().any(|piece| piece.blob == blob));
                    touches && file.state == FileState::Live && file.is_online()
                };
                let file = view.file(member.file)?.filter(concerned);
                files.extend(file.map(|file| (member.file, file)));
            }
            Ok((files, members.last().map(|last| (last.data_offset, last.file))))
        })?;
        all.add(declare_unreadable(upkeep, &files)?);
        let Some(last) = last else { return Ok(all) };
        after = Some(last);
    }
}

/// A get met bytes that cannot be read. If it waits for drives that are not given up, it stays as it is:
/// they bring it back. Else it is NEARLINE at once if tapes have the file. `read`: what it had in the pool
/// when the get was opened.
pub fn met(upkeep: &Upkeep, stat: &FileStat, read: PoolCopy, error: PoolError) -> ArchiveError {
    if let Some(refusal) = crate::away::refusal(upkeep, stat) {
        return refusal;
    }
    if matches!(upkeep.read(|view| view.is_restored()), Ok(true)) {
        tracing::warn!(path = %stat.path, %error, "a file cannot be read before the restore is settled");
        return ArchiveError::NotSettled { path: stat.path.clone() };
    }
    if stat.locality != Locality::OnlineAndNearline {
        let on_tape = upkeep.read(|view| is_on_tape(view, stat.file, stat.size));
        if !matches!(on_tape, Ok(true)) {
            // It stays as it is: drives that come back bring it back.
            return ArchiveError::Pool(error);
        }
    }
    match declare(upkeep, &[read]) {
        Ok(declared) if !declared.nearline.is_empty() => crate::away::nearline(upkeep, stat),
        Ok(declared) if !declared.lost.is_empty() => ArchiveError::Lost(stat.path.clone()),
        Ok(_) => ArchiveError::Pool(error),
        Err(error) => error,
    }
}

/// Whether a file can be read again once drives answer that are not given up.
pub(crate) fn waits_for_drives(upkeep: &Upkeep, file: &FileRecord) -> Result<bool, ArchiveError> {
    if upkeep.no_drive_may_come_back() {
        return Ok(false);
    }
    let (silent, given_up) = (upkeep.pool.silent_drives(), upkeep.given_up());
    let (mut now, mut later) = (BTreeMap::new(), BTreeMap::new());
    upkeep.read(|view| {
        Ok(is_unreadable(upkeep, view, file, &silent, &mut now)?
            && !is_unreadable(upkeep, view, file, &given_up, &mut later)?)
    })
}

/// Whether every byte stands in a container with a copy that an index covers, on a tape that can give it
/// ([`View::can_give`]): what the command asks for before it gives up what the pool has.
fn is_on_tape(view: &View<'_>, file: FileId, size: ByteCount) -> Result<bool, ReadError> {
    let sealed = view.parts(file)?.iter().fold(0u64, |sum, (_, part)| sum.saturating_add(part.length.0));
    Ok(sealed == size.0 && view.not_given(file)?.is_none())
}

/// Goes through all files and declares those that cannot be read without the drives in `gone`, exactly
/// those. Gives how many are NEARLINE and lost.
pub(crate) fn find(upkeep: &Upkeep, gone: &BTreeSet<DriveId>) -> Result<Declared, ArchiveError> {
    let mut all = Declared::default();
    let mut after = None;
    loop {
        let (page, last) = upkeep.read(|view| {
            let mut blobs: BTreeMap<BlobId, BlobDescription> = BTreeMap::new();
            let mut concerned = Vec::new();
            let files = view.files(after, PAGE)?;
            let last = files.last().map(|(id, _)| *id);
            for (id, file) in files {
                if is_unreadable(upkeep, view, &file, gone, &mut blobs)? {
                    concerned.push(PoolCopy::of(id, &file));
                }
            }
            Ok((concerned, last))
        })?;
        all.add(declare(upkeep, &page)?);
        match last {
            Some(last) if !upkeep.stopping() => after = Some(last),
            _ => break,
        }
    }
    find_parts(upkeep, gone)?;
    Ok(all)
}

/// The image of a container cannot be read: if it is a part of a file that somebody waits for, and tapes have
/// all copies of it, it is read from them again. Gives whether it was.
pub(crate) fn declare_part(upkeep: &Upkeep, container: ContainerId) -> Result<bool, ArchiveError> {
    let record = upkeep.read(|view| {
        let is_restored = view.is_restored()?;
        Ok(view.container(container)?.filter(|record| record.is_settled() && !is_restored))
    })?;
    let Some((ContainerKind::Segment { file, .. }, Some(image))) =
        record.map(|record| (record.kind, record.image))
    else {
        return Ok(false);
    };
    upkeep.execute_on_container(Command::ImageLost { container, image })?;
    upkeep.notifier.wants_changed(file);
    upkeep.sweep.ring();
    Ok(true)
}

/// The same of all parts that cannot be read without the drives in `gone`.
fn find_parts(upkeep: &Upkeep, gone: &BTreeSet<DriveId>) -> Result<(), ArchiveError> {
    let mut after = None;
    loop {
        let (concerned, last) = upkeep.read(|view| {
            let (pieces, last) = view.container_pieces(after, PAGE)?;
            let mut blobs = BTreeMap::new();
            let mut concerned = Vec::new();
            for (container, piece) in pieces {
                if has_unreadable(upkeep, view, &[piece], gone, &mut blobs)? {
                    concerned.push(container);
                }
            }
            Ok((concerned, last))
        })?;
        for container in concerned {
            declare_part(upkeep, container)?;
        }
        match last {
            Some(last) if !upkeep.stopping() => after = Some(last),
            _ => return Ok(()),
        }
    }
}

/// Goes through all files, reads those with bytes in these blobs, and declares what the pool cannot give of
/// them.
pub(crate) fn find_in(upkeep: &Upkeep, blobs: &BTreeSet<BlobId>) -> Result<Declared, ArchiveError> {
    let mut all = Declared::default();
    let mut after = None;
    loop {
        let mut files = upkeep.read(|view| view.files(after, PAGE))?;
        let last = files.last().map(|(id, _)| *id);
        files.retain(|(_, file)| {
            let touches = || file.pieces.iter().any(|piece| blobs.contains(&piece.blob));
            file.state == FileState::Live && file.is_online() && touches()
        });
        all.add(declare_unreadable(upkeep, &files)?);
        match last {
            Some(last) if !upkeep.stopping() => after = Some(last),
            _ => return Ok(all),
        }
    }
}

/// What is to be LOST without these drives: files that cannot be read without them and have no copy under an
/// index on a tape that can be read, and acknowledged parts of open uploads, which no tape has. They are
/// looked at only if some blob does not bear that loss.
pub(crate) fn foresee(upkeep: &Upkeep, gone: &BTreeSet<DriveId>) -> Result<LossForeseen, ArchiveError> {
    let mut loss = LossForeseen::default();
    if !is_any_blob_unreadable(upkeep, gone)? {
        return Ok(loss);
    }
    let mut after = None;
    loop {
        let last = upkeep.read(|view| {
            let mut blobs: BTreeMap<BlobId, BlobDescription> = BTreeMap::new();
            let files = view.files(after, PAGE)?;
            let last = files.last().map(|(id, _)| *id);
            for (id, file) in files.into_iter().filter(|(_, file)| file.is_online()) {
                if is_unreadable(upkeep, view, &file, gone, &mut blobs)? && !is_on_tape(view, id, file.size)?
                {
                    loss.files += 1;
                    loss.add_bytes(file.size);
                    if loss.named.len() < FORESEEN_NAMED_MAX {
                        loss.named.extend(view.path_of_file(id)?);
                    }
                }
            }
            Ok(last)
        })?;
        match last {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    foresee_uploads(upkeep, gone, &mut loss)?;
    Ok(loss)
}

/// Adds what open uploads lose without these drives. Those that are being given up lose nothing.
fn foresee_uploads(
    upkeep: &Upkeep,
    gone: &BTreeSet<DriveId>,
    loss: &mut LossForeseen,
) -> Result<(), ArchiveError> {
    ground::each_upload(upkeep, |id, record| {
        let (mut is_hit, mut after) = (false, Some(0));
        while let Some(from) = after.filter(|_| !record.ending) {
            after = upkeep.read(|view| {
                let mut blobs = BTreeMap::new();
                let parts = view.upload_parts(id, from, PAGE)?;
                for (_, part) in &parts {
                    if has_unreadable(upkeep, view, &part.pieces, gone, &mut blobs)? {
                        is_hit = true;
                        loss.add_bytes(part.size);
                    }
                }
                Ok(parts.last().map(|(number, _)| *number))
            })?;
        }
        if is_hit {
            loss.uploads += 1;
            if loss.named.len() < FORESEEN_NAMED_MAX {
                let path = upkeep.read(|view| ground::path_of_upload(view, record))?;
                loss.named.extend(path.map(|path| format!("upload {id} of {path}")));
            }
        }
        Ok(())
    })
}

/// Whether some stripe or segment cannot be read without these drives.
fn is_any_blob_unreadable(upkeep: &Upkeep, gone: &BTreeSet<DriveId>) -> Result<bool, ArchiveError> {
    let mut after = None;
    loop {
        let page = upkeep.blob_page(after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(false) };
        after = Some(*last);
        let is_hit = |blob: &BlobDescription| {
            blob.stripes.iter().any(|set| {
                let on = |shard: &usize| set.drives.get(*shard).is_some_and(|drive| gone.contains(drive));
                let lacking: Vec<usize> = (0..set.drives.len()).filter(on).collect();
                !lacking.is_empty() && !pool::survives(blob.layout, &lacking)
            })
        };
        if page.iter().filter_map(|(_, blob)| blob.as_ref()).any(is_hit) {
            return Ok(true);
        }
    }
}

fn is_unreadable(
    upkeep: &Upkeep,
    view: &View<'_>,
    file: &FileRecord,
    gone: &BTreeSet<DriveId>,
    blobs: &mut BTreeMap<BlobId, BlobDescription>,
) -> Result<bool, ReadError> {
    Ok(file.state == FileState::Live && has_unreadable(upkeep, view, &file.pieces, gone, blobs)?)
}

/// Whether some of these pieces cannot be read without these drives.
fn has_unreadable(
    upkeep: &Upkeep,
    view: &View<'_>,
    pieces: &[BlobPiece],
    gone: &BTreeSet<DriveId>,
    blobs: &mut BTreeMap<BlobId, BlobDescription>,
) -> Result<bool, ReadError> {
    for piece in pieces {
        if let Entry::Vacant(place) = blobs.entry(piece.blob)
            && let Some(blob) = view.blob(piece.blob)?
        {
            place.insert(blob);
        }
        let Some(blob) = blobs.get(&piece.blob) else { continue };
        // A description that contradicts itself is the catalogue's check's to report.
        if matches!(upkeep.pool.has_drives_without(blob, piece, gone), Ok(false)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the lost files of a page and takes those back that are whole. Gives how many.
pub(crate) fn find_again(upkeep: &Upkeep, files: &[(FileId, FileRecord)]) -> Result<u64, ArchiveError> {
    let (mut found, mut on_tape) = (Vec::new(), Vec::new());
    let mut waiting = BTreeMap::<ClassId, Timestamp>::new();
    for (id, file) in files.iter().filter(|(_, file)| file.is_lost() && !file.pieces.is_empty()) {
        if upkeep.stopping() {
            break;
        }
        match is_whole(upkeep, file) {
            Ok(true) => {
                tracing::debug!(file = %id, path = path_of(upkeep, *id), "a lost file can be read again");
                found.push(PoolCopy::of(*id, file));
                let since = waiting.entry(file.class).or_insert(file.created);
                *since = file.created.min(*since);
            }
            Ok(false) => {
                // Told before it is looked at: an index written meanwhile looks at it or is seen here.
                upkeep.some_lost.store(true, Ordering::SeqCst);
                if upkeep.read(|view| is_on_tape(view, *id, file.size))? {
                    on_tape.push(PoolCopy::of(*id, file));
                }
            }
            Err(error) => {
                tracing::warn!(file = %id, %error, "it is not known whether a lost file can be read again");
                upkeep.some_lost.store(true, Ordering::SeqCst);
            }
        }
    }
    declare(upkeep, &on_tape)?;
    let count = found.len() as u64;
    for copies in parts(&found) {
        upkeep.execute(Command::PoolCopiesFound { copies: copies.to_vec() })?;
        copies.iter().for_each(|copy| upkeep.notifier.wants_changed(copy.file));
        upkeep.notifier.backlog_changed();
    }
    // Those that are not sealed wait again: when all was to be migrated they were LOST, and nothing waited.
    for (class, since) in waiting {
        if let Some(above) = upkeep.above() {
            above.wait_again(class, since)?;
        }
    }
    Ok(count)
}

/// An index was written on a tape. Lost files that it covers, behind block `from`, are NEARLINE now: what was
/// only flushed when the pool lost them did not count.
pub fn index_written(upkeep: &Upkeep, vid: Vid, from: BlockAddress) -> Result<(), ArchiveError> {
    if !upkeep.some_lost.load(Ordering::SeqCst) {
        return Ok(());
    }
    let mut from = from;
    loop {
        let content = upkeep.read(|view| view.content(vid, from, PAGE))?;
        let Some((last, _)) = content.last() else { return Ok(()) };
        from = BlockAddress(last.0 + 1);
        for (_, container) in content {
            let mut after = None;
            loop {
                let (covered, last) = upkeep.read(|view| lost_and_on_tape(view, container, after))?;
                if !covered.is_empty() {
                    declare(upkeep, &covered)?;
                }
                let Some(last) = last else { break };
                after = Some(last);
            }
        }
    }
}

type Member = (ByteCount, FileId);

/// The next page of a container's members: those that are lost in the pool and whole on tape, and the last.
fn lost_and_on_tape(
    view: &View<'_>,
    container: ContainerId,
    after: Option<Member>,
) -> Result<(Vec<PoolCopy>, Option<Member>), ReadError> {
    let members = view.members(container, after, PAGE)?;
    let mut covered = Vec::new();
    for member in &members {
        if let Some(file) = view.file(member.file)?.filter(FileRecord::is_lost)
            && is_on_tape(view, member.file, file.size)?
        {
            covered.push(PoolCopy::of(member.file, &file));
        }
    }
    Ok((covered, members.last().map(|last| (last.data_offset, last.file))))
}

/// Whether the pool gives all bytes of a file, and they are those that were put.
///
/// # Errors
/// [`PoolError::Shortage`] too: nothing is known then.
pub(crate) fn is_whole(upkeep: &Upkeep, file: &FileRecord) -> Result<bool, ArchiveError> {
    let _reading = upkeep.gate.enter();
    let mut sums = StreamChecksums::default();
    let mut length = 0;
    for piece in &file.pieces {
        let Some(blob) = upkeep.read(|view| view.blob(piece.blob))? else { return Ok(false) };
        let mut reader = match upkeep.pool.read_piece(&blob, piece) {
            Ok(reader) => reader,
            Err(error @ PoolError::Shortage { .. }) => return Err(error.into()),
            Err(_) => return Ok(false),
        };
        loop {
            match reader.next() {
                Ok(Some(chunk)) => {
                    sums = sums.extend(chunk.as_ref());
                    length += chunk.as_ref().len() as u64;
                }
                Ok(None) => break,
                Err(error @ PoolError::Shortage { .. }) => return Err(error.into()),
                Err(_) => return Ok(false),
            }
        }
    }
    Ok(sums == file.checksums.stream && length == file.size.0)
}
