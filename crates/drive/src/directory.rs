//! A drive that keeps each extent as a file below a directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteCount, DriveId, Epoch, Uuid};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::burn_in;
use crate::device::DriveIo;
use crate::error::{is_full, is_shortage};
use crate::files::{EXTENTS, Files, REPLACEMENTS, Shared, direct_flag};
use crate::lock::identity;
use crate::object::{DriveStatus, ExtentWriter, ObjectDrive, PAGE, SharedPage, Stamp};
use crate::superblock::{self, Pages, Refusal};
use crate::uring::UringQueue;
use crate::{BurnInRecord, DirectoryLock, DriveError, DriveOpenError, DriveQueue, ExtentId, holes};

const PROBE: &str = "probe.kist";
/// Says that the drive took the place of another one and lacks what that one held.
const UNFILLED: &str = "unfilled.kist";

/// Whether file data bypasses the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectIo {
    /// Where the file system can do it.
    #[default]
    Auto,
    /// Always; a file system without it is refused.
    On,
    /// Never.
    Off,
}

/// A drive made of one directory: `drive.kist`, its copy `drive.copy`, and
/// `extents/<low byte of the blob>/<blob>.<stripe>.<shard>`.
///
/// The directory is locked as long as this value or one of its writers lives, and its file system stands
/// where it was opened and works. Else nothing of it is held: it can be unmounted, and the same disk mounted
/// again, which XFS refuses as long as anything of the former mount is open.
pub struct DirectoryDrive {
    files: Arc<Files>,
    /// `None`: it is driven by the threads of who uses it.
    queue: Option<Arc<UringQueue>>,
    /// Why it has no queue although it was to have one.
    refused: Option<io::Error>,
    stamp: Mutex<Stamp>,
    /// Held while the superblock is compared or written. Apart from the stamp, which can be asked for while
    /// the disk hangs.
    superblock: Mutex<()>,
    /// By which the directory of the extents is known again.
    extents: Mutex<Option<(u64, u64)>>,
    /// What was found when it was opened: none comes later.
    burn_in: Option<BurnInRecord>,
}

impl DirectoryDrive {
    /// Makes a directory (created if absent) a drive of `instance`; durable on return.
    ///
    /// # Errors
    /// [`DriveOpenError::NotEmpty`] if anything is in the directory but what a call that was killed has left,
    /// [`DriveOpenError::Locked`], [`DriveOpenError::Io`].
    pub fn format(path: &Path, instance: Uuid, id: DriveId) -> Result<(), DriveOpenError> {
        Self::make(path, instance, id, false)
    }

    /// As [`DirectoryDrive::format`], for a drive in the place of one that is gone: from the moment that it
    /// is a drive, [`DirectoryDrive::is_unfilled`] says that it lacks what the other one held.
    ///
    /// # Errors
    /// As [`DirectoryDrive::format`].
    pub fn format_unfilled(path: &Path, instance: Uuid, id: DriveId) -> Result<(), DriveOpenError> {
        Self::make(path, instance, id, true)
    }

    /// Whether the drive in this directory took the place of another one and [`DirectoryDrive::set_filled`]
    /// has not been said since; `false` of what is no drive. One that cannot be asked counts as unfilled.
    #[must_use]
    pub fn is_unfilled(path: &Path) -> bool {
        path.join(UNFILLED).try_exists().unwrap_or(true)
    }

    /// Records that the drive has what it should hold; durable on return.
    ///
    /// # Errors
    /// [`DriveOpenError::Io`].
    pub fn set_filled(path: &Path) -> Result<(), DriveOpenError> {
        let mark = path.join(UNFILLED);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&mark, "removal")(error)),
            _ => sync_directory(path),
        }
    }

    fn make(path: &Path, instance: Uuid, id: DriveId, unfilled: bool) -> Result<(), DriveOpenError> {
        fs::create_dir_all(path).map_err(at(path, "creation"))?;
        // Whoever burns its disk in has it, or another server that makes a drive of it.
        let _lock = DirectoryLock::take(path)?;
        if !is_free_of_others(path, unfilled).map_err(at(path, "listing"))? {
            return Err(DriveOpenError::NotEmpty(path.to_owned()));
        }
        let extents = path.join(EXTENTS);
        make_directory(&extents)?;
        for bucket in 0..=u8::MAX {
            make_directory(&extents.join(format!("{bucket:02x}")))?;
        }
        sync_directory(&extents)?;
        if unfilled {
            let mark = path.join(UNFILLED);
            File::create(&mark).and_then(|mark| mark.sync_all()).map_err(at(&mark, "creation"))?;
            sync_directory(path)?;
        }
        // The superblock comes last: what has one is complete.
        let stamp = Stamp { instance, drive: id, epoch: Epoch(0), commit: 0, gaps_after: None };
        let written = File::open(path).and_then(|directory| superblock::write(&directory, &stamp));
        written.map_err(at(path, "writing the superblock"))?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
        Ok(())
    }

    /// Opens a drive and locks it against other processes.
    ///
    /// # Errors
    /// If it is no drive, is damaged, locked, of an unknown version, another instance or another id, or
    /// lacks the direct I/O that was demanded.
    pub fn open(path: &Path, instance: Uuid, id: DriveId, direct: DirectIo) -> Result<Self, DriveOpenError> {
        let directory = DirectoryLock::take(path)?.into_directory();
        let stamp = match Pages::read(path).newest_of(instance, id) {
            Some(stamp) => stamp,
            None => Self::read_stamp(path)?,
        };
        if stamp.instance != instance {
            let (found, expected) = (stamp.instance, instance);
            return Err(DriveOpenError::OtherInstance { path: path.to_owned(), found, expected });
        }
        if stamp.drive != id {
            return Err(DriveOpenError::OtherDrive {
                path: path.to_owned(),
                found: stamp.drive,
                expected: id,
            });
        }
        let direct = match direct {
            DirectIo::Off => false,
            DirectIo::Auto => has_direct_io(path),
            DirectIo::On if has_direct_io(path) => true,
            DirectIo::On => return Err(DriveOpenError::NoDirectIo(path.to_owned())),
        };
        clear_replacements(path)?;
        let stamp = if make_missing_buckets(path)? > 0 && stamp.gaps_after.is_none() {
            // What stood there is gone: all that the drive should hold is looked at. Durable before the drive
            // takes part again.
            let stamp = Stamp { gaps_after: Some(0), ..stamp };
            superblock::write(&directory, &stamp).map_err(at(path, "writing the superblock"))?;
            stamp
        } else {
            stamp
        };
        let shared = Shared::new(id, directory);
        let (stamp, superblock) = (Mutex::new(stamp), Mutex::default());
        let extents = Mutex::new(identity(fs::metadata(path.join(EXTENTS))));
        // A record that cannot be read costs nothing but what it says.
        let burn_in = BurnInRecord::read(path).unwrap_or_default();
        let files = Arc::new(Files { shared, path: path.to_owned(), direct });
        Ok(DirectoryDrive { files, queue: None, refused: None, stamp, superblock, extents, burn_in })
    }

    /// Has its extents read and written in this way from now on; at first, threads do it.
    ///
    /// # Errors
    /// [`DriveOpenError::NoUring`] if the kernel refuses the way that is asked for.
    pub fn driven_by(mut self, io: DriveIo) -> Result<Self, DriveOpenError> {
        (self.queue, self.refused) = (None, None);
        if let Some(depth) = io.depth(&self.files.path) {
            match UringQueue::open(Arc::clone(&self.files), depth) {
                Ok(queue) => self.queue = Some(Arc::new(queue)),
                // Whoever leaves the choice to us gets threads.
                Err(error) if io == DriveIo::Auto => self.refused = Some(error),
                Err(source) => {
                    return Err(DriveOpenError::NoUring { path: self.files.path.clone(), source });
                }
            }
        }
        Ok(self)
    }

    /// Reads the superblock of a directory without opening the drive.
    ///
    /// # Errors
    /// [`DriveOpenError::NotADrive`], [`DriveOpenError::Damaged`], [`DriveOpenError::Version`].
    pub fn read_stamp(path: &Path) -> Result<Stamp, DriveOpenError> {
        let pages = Pages::read(path);
        if let Some(stamp) = pages.newest() {
            return Ok(stamp);
        }
        match pages.first {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match pages.copy {
                Ok(_) => Err(DriveOpenError::Damaged(path.to_owned())),
                Err(_) => Err(DriveOpenError::NotADrive(path.to_owned())),
            },
            Err(source) => Err(at(&path.join(superblock::FILE_NAME), "reading")(source)),
            Ok(Err(Refusal::Version(version))) => {
                Err(DriveOpenError::Version { path: path.to_owned(), version })
            }
            Ok(_) => Err(DriveOpenError::Damaged(path.to_owned())),
        }
    }

    /// Whether a directory can become a drive: nobody else has anything in it.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn can_be_made(path: &Path) -> io::Result<bool> {
        is_free_of_others(path, false)
    }

    /// Whether file data bypasses the page cache.
    #[must_use]
    pub fn uses_direct_io(&self) -> bool {
        self.files.direct
    }

    /// Whether the directory is still this drive; after it was away it may be another mount of it, which is
    /// locked anew, and may be older than what was last written to it, or lack directories of extents.
    fn identify(&self) -> io::Result<()> {
        let stamp = self.stamp();
        let Some(found) = Pages::read(&self.files.path).newest_of(stamp.instance, stamp.drive) else {
            // Whoever unmounts what was shut down, or mounts its disk anew, is not held up.
            self.is_there();
            return Err(io::Error::other("its superblock cannot be read or is another drive's"));
        };
        let is_emptied = self.lacks_buckets()?;
        let present = File::open(&self.files.path)?;
        {
            let mut held = self.files.shared.directory();
            let known = held.as_ref().and_then(|held| identity(held.metadata()));
            // A mount that has gone may have left its numbers to the next one.
            if known.is_none() || known != identity(present.metadata()) {
                present.try_lock().map_err(io::Error::from)?;
                *held = Some(present);
                *self.extents() = identity(fs::metadata(self.files.path.join(EXTENTS)));
            }
        }
        // Whether it was for want of room must not be lost.
        let failed = |error| match error {
            DriveError::Stamp { source, .. } => source,
            other => io::Error::other(other),
        };
        if is_emptied {
            // As at a start: what stood there is gone, and all that the drive should hold is looked at. Noted
            // before a directory is made, which would hide it.
            self.renew(|stamp| Stamp { gaps_after: Some(0), ..stamp }).map_err(failed)?;
            make_missing_buckets(&self.files.path).map_err(io::Error::other)?;
        } else if found.age() < stamp.age() {
            self.renew(|stamp| stamp).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether directories are missing in that of the extents, which is there.
    fn lacks_buckets(&self) -> io::Result<bool> {
        fs::metadata(self.files.path.join(EXTENTS))?;
        for bucket in 0..=u8::MAX {
            match fs::metadata(self.files.bucket(bucket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The superblock as it stands on the drive now.
    fn look(&self, held: &Stamp) -> Result<Stamp, DriveError> {
        let (drive, path) = (self.files.shared.id, self.files.path.clone());
        if !self.is_there() {
            return Err(DriveError::NotThere { drive, path });
        }
        let extents = identity(fs::metadata(self.files.path.join(EXTENTS)));
        let pages = Pages::read(&self.files.path);
        match pages.newest_of(held.instance, held.drive) {
            Some(_) if extents.is_none() => {
                Err(DriveError::Wiped { drive, path, found: "its extents are gone" })
            }
            Some(found) => Ok(found),
            None if pages.newest().is_some() => {
                Err(DriveError::Wiped { drive, path, found: "it has the superblock of another drive" })
            }
            None if pages.are_gone() => {
                Err(DriveError::Wiped { drive, path, found: "its superblock is gone" })
            }
            // Damage of both pages costs no drive whose extents are those that were opened.
            None if pages.are_damaged() && extents.is_some() && extents == *self.extents() => Ok(*held),
            None => {
                let failed = [pages.first, pages.copy].into_iter().find_map(Result::err);
                let source = failed.unwrap_or_else(|| io::Error::other("both copies of it are damaged"));
                Err(DriveError::Stamp { drive, path, source })
            }
        }
    }

    /// Whether the directory that was opened stands here still. If another file system stands here, or the
    /// one that it is on was shut down, nothing of it is held any more. One that was only moved or removed
    /// is: it may be put back, and what is at its place then is compared with it.
    fn is_there(&self) -> bool {
        let mut held = self.files.shared.directory();
        let Some(own) = held.as_ref().map(File::metadata) else { return false };
        let found = fs::metadata(&self.files.path);
        let is_gone = match (&own, &found) {
            (Err(_), _) => true,
            (Ok(own), Ok(found)) => own.dev() != found.dev(),
            (Ok(_), Err(_)) => false,
        };
        if is_gone {
            *held = None;
        }
        let own = identity(own);
        !is_gone && own.is_some() && identity(found) == own
    }

    fn extents(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the superblock, where it is: never in a place that is not this drive, or not any more.
    fn renew(&self, change: impl FnOnce(Stamp) -> Stamp) -> Result<(), DriveError> {
        let _alone = self.superblock();
        let stamp = self.stamp();
        let found = self.look(&stamp)?;
        let mut next = change(stamp);
        if found.age() < stamp.age() {
            next.gaps_after = Some(next.gaps_after.map_or(found.commit, |known| known.min(found.commit)));
        }
        let directory = self.files.shared.directory().as_ref().map(File::try_clone);
        let directory = directory.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
        directory.and_then(|directory| superblock::write(&directory, &next)).map_err(|source| {
            if !is_full(&source) && !is_shortage(&source) {
                self.files.shared.mark_suspect();
            }
            DriveError::Stamp { drive: self.files.shared.id, path: self.files.path.clone(), source }
        })?;
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    fn superblock(&self) -> MutexGuard<'_, ()> {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a page, syncs it with its name, and reads it back.
    fn try_page(&self) -> io::Result<()> {
        let name = self.files.path.join(PROBE);
        let mut page = AlignedBuffer::new(PAGE);
        page.as_mut_slice().fill(0xa5);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(direct_flag(self.files.direct));
        let file = options.open(&name)?;
        file.write_all_at(page.as_slice(), 0)?;
        file.sync_all()?;
        File::open(&self.files.path)?.sync_all()?;
        page.as_mut_slice().fill(0);
        file.read_exact_at(page.as_mut_slice(), 0)?;
        let _ = fs::remove_file(&name);
        if page.as_slice().iter().all(|byte| *byte == 0xa5) {
            return Ok(());
        }
        Err(io::Error::other("a page reads back otherwise than it was written"))
    }

    /// Reserves so much and gives it back.
    fn try_room(&self, bytes: ByteCount) -> io::Result<()> {
        if bytes.0 == 0 {
            return Ok(());
        }
        let name = self.files.path.join(PROBE);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&name)?;
        let reserved = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.0).map_err(io::Error::from);
        let _ = fs::remove_file(&name);
        match reserved {
            // As for extents: then the first write tells.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            reserved => reserved,
        }
    }
}

impl ObjectDrive for DirectoryDrive {
    fn id(&self) -> DriveId {
        self.files.shared.id
    }

    fn name(&self) -> String {
        self.files.path.display().to_string()
    }

    fn burn_in(&self) -> Option<BurnInRecord> {
        self.burn_in
    }

    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        self.queue.clone().map(|queue| queue as Arc<dyn DriveQueue>)
    }

    fn queue_refused(&self) -> Option<String> {
        self.refused.as_ref().map(io::Error::to_string)
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        Ok(Box::new(self.files.create(id, preallocate)?))
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        Ok(Box::new(self.files.replace(id, preallocate)?))
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(direct_flag(self.files.can_be_direct(offset, into)));
        let file = options.open(self.files.file(id)).map_err(|source| self.files.not_opened(id, source))?;
        file.read_exact_at(into, offset.0)
            .map_err(|source| self.files.not_read(id, offset, into.len(), source))
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        if length.0 == 0 {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(self.files.file(id));
        let file = file.map_err(|source| self.files.failed(id, "opening", source))?;
        holes::punch(&file, offset, length).map_err(|source| self.files.failed(id, "punching a hole", source))
    }

    /// Reads and gives back through one open file: what takes its place meanwhile is left alone.
    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(direct_flag(self.files.direct));
        let file =
            options.open(self.files.file(id)).map_err(|source| self.files.failed(id, "opening", source))?;
        holes::punch_unneeded(&file, pages).map_err(|source| self.files.failed(id, "punching a hole", source))
    }

    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        let file = OpenOptions::new().write(true).open(self.files.file(id));
        let file = file.map_err(|source| self.files.failed(id, "opening", source))?;
        let trimmed = file.metadata().and_then(|found| file.set_len(found.len()));
        trimmed.map_err(|source| self.files.failed(id, "truncation", source))
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        let found =
            fs::metadata(self.files.file(id)).map_err(|source| self.files.failed(id, "looking", source))?;
        Ok(ByteCount(found.blocks().saturating_mul(512)))
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        let found =
            fs::metadata(self.files.file(id)).map_err(|source| self.files.failed(id, "looking", source))?;
        Ok(ByteCount(found.len()))
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        match fs::remove_file(self.files.file(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.files.failed(id, "deletion", error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        let mut found = Vec::new();
        for bucket in after.map_or(0, ExtentId::bucket)..=u8::MAX {
            if found.len() >= limit {
                break;
            }
            let path = self.files.bucket(bucket);
            let list = || -> io::Result<Vec<ExtentId>> {
                let mut ids = Vec::new();
                for entry in fs::read_dir(&path)? {
                    let id = entry?.file_name().to_str().and_then(ExtentId::parse);
                    ids.extend(
                        id.filter(|id| id.bucket() == bucket && after.is_none_or(|after| *id > after)),
                    );
                }
                Ok(ids)
            };
            let failed =
                |source| DriveError::List { drive: self.files.shared.id, path: path.clone(), source };
            let mut ids = list().map_err(failed)?;
            ids.sort_unstable();
            found.extend(ids);
        }
        found.truncate(limit);
        Ok(found)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        // What is open still has its room when it stands here no more: that is none of the drive's.
        if !self.is_there() {
            return Err(DriveError::NotThere { drive: self.files.shared.id, path: self.files.path.clone() });
        }
        let space = self.files.shared.directory().as_ref().map_or(Err(Errno::NOENT), fstatvfs);
        let space = space.map_err(|error| DriveError::Status {
            drive: self.files.shared.id,
            path: self.files.path.clone(),
            source: error.into(),
        })?;
        let bytes = |blocks: u64| ByteCount(blocks.saturating_mul(space.f_frsize));
        let file_system = self.files.shared.held().map(|(device, _)| device);
        let used = bytes(space.f_blocks.saturating_sub(space.f_bfree));
        let free = bytes(space.f_bavail);
        Ok(DriveStatus {
            // As df has it: blocks that are free and not for us, since they are kept for root or the disk
            // below is shared, are no room. Else a pool that takes nothing more would count as half full.
            capacity: ByteCount(used.0.saturating_add(free.0)),
            used,
            free,
            suspect: self.files.shared.is_suspect(),
            file_system,
        })
    }

    fn stamp(&self) -> Stamp {
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.renew(|stamp| Stamp { epoch, commit, ..stamp })
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.renew(|stamp| Stamp { gaps_after, ..stamp })
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        // Held meanwhile, so that no stamp is between its two pages.
        let _alone = self.superblock();
        if Pages::read(&self.files.path).both_say(&self.stamp()) {
            return Ok(());
        }
        Err(DriveError::StampDamaged { drive: self.files.shared.id, path: self.files.path.clone() })
    }

    fn check_place(&self) -> Result<(), DriveError> {
        let is_older = {
            let _alone = self.superblock();
            let stamp = self.stamp();
            self.look(&stamp)?.age() < stamp.age()
        };
        if is_older { self.renew(|stamp| stamp) } else { Ok(()) }
    }

    fn probe(&self) -> Result<(), DriveError> {
        // What the probe does goes past the queue.
        let works = self.queue.as_ref().map_or(Ok(()), |queue| queue.check());
        works.and_then(|()| self.identify()).and_then(|()| self.try_page()).map_err(|source| {
            DriveError::Probe { drive: self.files.shared.id, path: self.files.path.clone(), source }
        })?;
        self.files.shared.clear_suspect();
        Ok(())
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        self.try_room(bytes).map_err(|source| DriveError::Probe {
            drive: self.files.shared.id,
            path: self.files.path.clone(),
            source,
        })
    }
}

fn at(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> DriveOpenError {
    let path = path.to_owned();
    move |source| DriveOpenError::Io { path, operation, source }
}

/// Makes directories of extents that are not there, and gives how many that were.
fn make_missing_buckets(path: &Path) -> Result<usize, DriveOpenError> {
    let extents = path.join(EXTENTS);
    let mut made = 0;
    for bucket in 0..=u8::MAX {
        let bucket = extents.join(format!("{bucket:02x}"));
        match fs::symlink_metadata(&bucket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&bucket).map_err(at(&bucket, "creation"))?;
                made += 1;
            }
            Err(source) => return Err(at(&bucket, "opening")(source)),
        }
    }
    if made > 0 {
        sync_directory(&extents)?;
        sync_directory(path)?;
    }
    Ok(made)
}

/// Makes the directory for replacements if it is not there, and empties it.
fn clear_replacements(path: &Path) -> Result<(), DriveOpenError> {
    let directory = path.join(REPLACEMENTS);
    match fs::create_dir(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(&directory, "creation")(error)),
        Ok(()) => Ok(()),
        Err(_) => {
            let entries = fs::read_dir(&directory).map_err(at(&directory, "listing"))?;
            for entry in entries {
                let file = entry.map_err(at(&directory, "listing"))?.path();
                fs::remove_file(&file).map_err(at(&file, "removal"))?;
            }
            Ok(())
        }
    }
}

/// Whether nothing is in a directory, but for the record of a burn-in.
///
/// # Errors
/// If it cannot be read.
pub fn holds_nothing(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if !burn_in::is_burn_in_file(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all that is in the directory of a new drive is nobody's.
fn is_free_of_others(path: &Path, unfilled: bool) -> io::Result<bool> {
    let is_none = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|it| is_none_of_others(&it, unfilled));
    Ok(fs::read_dir(path)?.all(is_none))
}

/// Whether what is in the directory of a new drive is nobody's: `lost+found`, which a fresh ext4 file system
/// brings along, the record of a burn-in, and what a process has left that was killed while it made the
/// drive, in which nothing is.
fn is_none_of_others(entry: &fs::DirEntry, unfilled: bool) -> bool {
    let name = entry.file_name();
    name == "lost+found"
        || superblock::is_temporary(&name)
        || burn_in::is_burn_in_file(&name)
        || name == UNFILLED && unfilled
        || name == EXTENTS && is_hollow(entry)
}

/// Whether a directory holds nothing but directories in which nothing is; one that cannot be looked at does.
fn is_hollow(directory: &fs::DirEntry) -> bool {
    let Ok(mut entries) = fs::read_dir(directory.path()) else { return false };
    entries.all(|entry| {
        let Ok(mut below) = entry.and_then(|entry| fs::read_dir(entry.path())) else { return false };
        below.next().is_none()
    })
}

fn make_directory(path: &Path) -> Result<(), DriveOpenError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(path, "creation")(error)),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<(), DriveOpenError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(at(path, "syncing"))
}

/// Tries one direct write and read; file systems refuse at either the opening or the first transfer.
fn has_direct_io(path: &Path) -> bool {
    let probe = path.join(PROBE);
    let attempt = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).custom_flags(direct_flag(true));
        let file = options.open(&probe)?;
        let mut page = AlignedBuffer::new(PAGE);
        file.write_all_at(page.as_slice(), 0)?;
        file.read_exact_at(page.as_mut_slice(), 0)
    };
    let works = attempt().is_ok();
    // A left-over probe is harmless: the next one truncates it.
    let _ = fs::remove_file(&probe);
    works
}
