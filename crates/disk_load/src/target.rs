//! What is read and written: a file that lasts as long as the load, one that is there, or a device.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::ByteCount;
use drive::AlignedBuffer;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl, fstatfs, openat};

use crate::stamp::PAGE;
use crate::standing::{LOOKED_AT, Standing, standing};

/// What a file system keeps free beside the file of a load, so that whoever else writes there can go on.
pub const RESERVE: ByteCount = drive::BURN_IN_LEAVES;
/// The largest file that a load makes.
pub const FILE_MAX: ByteCount = ByteCount(1 << 40);

/// Kinds of what is read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetKind {
    /// A file without a name, made for the load: it is gone when the process ends, however it ends.
    Temporary,
    /// A file that was there.
    File,
    /// A block device.
    Device,
}

impl TargetKind {
    /// The kind in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Temporary => "temporary file",
            TargetKind::File => "file",
            TargetKind::Device => "block device",
        }
    }
}

/// A smaller file helps only where more is free than is to stay so.
fn or_smaller(free: ByteCount) -> &'static str {
    if free > RESERVE { ", or a smaller file" } else { "" }
}

/// Why something cannot be read or written by a load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The system refused.
    #[error("{}: {doing} failed: {source}", path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The file system would be nearly full.
    #[error(
        "{}: {free} are free, and a file of {wanted} is to leave {RESERVE} free: name a directory with more \
         room{}", path.display(), or_smaller(*free)
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Bytes of the file.
        wanted: ByteCount,
        /// Bytes that are free.
        free: ByteCount,
    },
    /// Neither a directory, nor a file, nor a block device.
    #[error("{}: this is no directory, file or block device: name one of these", .0.display())]
    Kind(PathBuf),
    /// It was not said that it may be written over.
    #[error(
        "{}: this {} is only read: to write over all of it, name it once more with --destroy", path.display(),
        kind.name()
    )]
    ReadOnly {
        /// Which.
        path: PathBuf,
        /// What it is.
        kind: TargetKind,
    },
    /// Something stands on it.
    #[error(
        "{}: {standing} stands on it, and is not destroyed: if nothing of it is needed, clear the first and \
         the last MiB, then again", path.display()
    )]
    Standing {
        /// Which.
        path: PathBuf,
        /// What.
        standing: Standing,
    },
    /// It is mounted, or part of something.
    #[error(
        "{}: it is in use, mounted or part of another device: take it out of use, then again", .0.display()
    )]
    InUse(PathBuf),
    /// A directory that is to be filled has no file system of its own: its disk may not be mounted.
    #[error(
        "{}: it is on the file system of the directory above it: mount its disk there; or say how much may \
         be written with --size, or --shared if all that is free there is meant", .0.display()
    )]
    NotMounted(PathBuf),
    /// A directory that is to be filled holds something.
    #[error(
        "{}: it holds something: empty it; or say how much may be written with --size, or --shared if all \
         that is free beside it is meant", .0.display()
    )]
    Holds(PathBuf),
    /// Nothing is in it.
    #[error("{}: it holds {found}, and a load needs {least} or more: name a larger one", path.display())]
    Small {
        /// Which.
        path: PathBuf,
        /// Bytes that it holds.
        found: ByteCount,
        /// Bytes that are needed.
        least: ByteCount,
    },
}

/// Something that is open and can be read, and perhaps written.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    kind: TargetKind,
    length: ByteCount,
    is_direct: bool,
    file_system: String,
}

impl Target {
    /// A file in a directory, of which nothing is left when this value is dropped or the process ends. Its
    /// bytes are not written yet.
    ///
    /// # Errors
    /// [`TargetError::NoRoom`] if less than [`RESERVE`] would stay free, [`TargetError::Io`].
    pub fn temporary(directory: &Path, length: ByteCount) -> Result<Target, TargetError> {
        assert!(length.0 > 0 && length <= FILE_MAX, "the length of a load's file is within its limits");
        let failed = |doing| at(directory, doing);
        check_room(directory, length)?;
        let file = nameless(directory).map_err(failed("making a file"))?;
        match fallocate(&file, FallocateFlags::empty(), 0, length.0).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                return Err(failed("reserving room")(error));
            }
            _ => {}
        }
        let file_system = file_system(&file).map_err(failed("asking for the file system"))?;
        let is_direct = make_direct(&file, true).map_err(failed("trying direct I/O"))?;
        let (path, kind) = (directory.to_owned(), TargetKind::Temporary);
        Ok(Target { path, file, kind, length, is_direct, file_system })
    }

    /// What is there already, to be read.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn open(path: &Path, least: ByteCount) -> Result<Target, TargetError> {
        Target::of(path, least, OFlags::empty(), false)
    }

    /// What is there already, to be written over. Only what holds nothing but zeros, and what loads have
    /// written, at both of its ends is given; of a device nobody else has a hold then.
    ///
    /// # Errors
    /// [`TargetError::Standing`], [`TargetError::InUse`], [`TargetError::NoRoom`] of a file with holes that
    /// would take what is to stay free, and all others.
    pub fn open_to_destroy(path: &Path, least: ByteCount) -> Result<Target, TargetError> {
        let target = Target::of(path, least, OFlags::EXCL, true)?;
        if target.kind == TargetKind::File {
            let holes = target.holes()?;
            let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
            if holes.0 > 0 {
                check_room(directory.unwrap_or(Path::new(".")), holes)?;
            }
        }
        let (head, tail) = ends(&target.file, target.length).map_err(at(path, "reading both ends"))?;
        match standing(&head, &tail, target.length.0) {
            Some(standing) => Err(TargetError::Standing { path: path.to_owned(), standing }),
            None => Ok(target),
        }
    }

    /// Bytes of a file that its file system has no blocks for: holes, or what compression saves.
    ///
    /// # Errors
    /// [`TargetError::Io`].
    pub fn holes(&self) -> Result<ByteCount, TargetError> {
        if self.kind != TargetKind::File {
            return Ok(ByteCount(0));
        }
        let about = self.file.metadata().map_err(at(&self.path, "looking at it"))?;
        Ok(ByteCount(self.length.0.saturating_sub(about.blocks().saturating_mul(512))))
    }

    fn of(path: &Path, least: ByteCount, exclusive: OFlags, writes: bool) -> Result<Target, TargetError> {
        let failed = |doing| at(path, doing);
        let about = fs::metadata(path).map_err(failed("looking at it"))?.file_type();
        let kind = match () {
            () if about.is_file() => TargetKind::File,
            () if about.is_block_device() => TargetKind::Device,
            () => return Err(TargetError::Kind(path.to_owned())),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(writes);
        // Without O_CREAT it means: a device that nobody else has a hold of. It is undefined for files.
        if kind == TargetKind::Device {
            options.custom_flags(exclusive.bits() as i32);
        }
        let mut file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => TargetError::InUse(path.to_owned()),
            _ => failed("opening")(error),
        })?;
        let length = ByteCount(file.seek(SeekFrom::End(0)).map_err(failed("asking for its size"))?);
        if length < least {
            return Err(TargetError::Small { path: path.to_owned(), found: length, least });
        }
        let file_system = file_system(&file).map_err(failed("asking for the file system"))?;
        let is_direct = make_direct(&file, false).map_err(failed("trying direct I/O"))?;
        Ok(Target { path: path.to_owned(), file, kind, length, is_direct, file_system })
    }

    /// What people named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which another program of the same user can open it, as long as this value lives.
    #[must_use]
    pub fn path_for_others(&self) -> PathBuf {
        // Not what was named: that may be another one by now.
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        self.length
    }

    /// Whether the disk is asked for what is read: the kernel's cache is passed by, and the file system has
    /// none of its own.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct && (self.kind == TargetKind::Device || !keeps_in_memory(&self.file_system))
    }

    /// The file system that it is in: `ext4`; of a device, `-`.
    #[must_use]
    pub fn file_system(&self) -> &str {
        if self.kind == TargetKind::Device { "-" } else { &self.file_system }
    }

    /// Whether it is in memory, and no disk is measured.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.kind != TargetKind::Device && ["tmpfs", "ramfs"].contains(&self.file_system.as_str())
    }

    /// The number of the device that it is, or is on: major and minor.
    ///
    /// # Errors
    /// [`TargetError::Io`].
    pub fn device(&self) -> Result<(u32, u32), TargetError> {
        let about = self.file.metadata().map_err(at(&self.path, "looking at it"))?;
        let number = if self.kind == TargetKind::Device { about.rdev() } else { about.dev() };
        Ok((rustix::fs::major(number), rustix::fs::minor(number)))
    }

    /// Waits until all that was written is on the disk. What the kernel has cached of it is given up, so that
    /// the disk is asked for it.
    ///
    /// # Errors
    /// [`TargetError::Io`].
    pub fn sync_and_forget(&self) -> Result<(), TargetError> {
        self.sync()?;
        // With direct I/O, too: some file systems take it and cache all the same.
        let forgotten = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        forgotten.map_err(|error| at(&self.path, "giving the cache up")(error.into()))
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// [`TargetError::Io`].
    pub fn sync(&self) -> Result<(), TargetError> {
        self.file.sync_data().map_err(at(&self.path, "syncing"))
    }
}

/// Whether a file system stays usable beside a file of a load.
#[must_use]
pub fn leaves_room(length: ByteCount, free: ByteCount) -> bool {
    length.0.checked_add(RESERVE.0).is_some_and(|needed| needed <= free.0)
}

/// What is free for whoever may write in a directory.
///
/// # Errors
/// [`TargetError::Io`].
pub fn free(directory: &Path) -> Result<ByteCount, TargetError> {
    let space =
        rustix::fs::statvfs(directory).map_err(|error| at(directory, "asking for room")(error.into()))?;
    Ok(ByteCount(space.f_bavail.saturating_mul(space.f_frsize)))
}

fn check_room(directory: &Path, wanted: ByteCount) -> Result<(), TargetError> {
    let free = free(directory)?;
    match leaves_room(wanted, free) {
        true => Ok(()),
        false => Err(TargetError::NoRoom { path: directory.to_owned(), wanted, free }),
    }
}

fn at(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> TargetError + use<> {
    let path = path.to_owned();
    move |source| TargetError::Io { path, doing, source }
}

/// Demands a directory that has a file system of its own, such as the mount point of a disk.
///
/// # Errors
/// [`TargetError::NotMounted`], [`TargetError::Io`].
pub fn check_mounted(directory: &Path) -> Result<(), TargetError> {
    let of = |path: &Path| fs::metadata(path).map_err(at(path, "looking at it"));
    match of(directory)?.dev() == of(&directory.join(".."))?.dev() {
        true => Err(TargetError::NotMounted(directory.to_owned())),
        false => Ok(()),
    }
}

/// What a file without a name is called for a moment where the file system has none of these.
const SHORT_LIVED: &str = ".kist-bench-";

/// Removes what a call has left that was killed between making such a file and taking its name: it is empty.
///
/// # Errors
/// [`TargetError::Io`] if the directory cannot be listed.
pub fn clear_leftovers(directory: &Path) -> Result<(), TargetError> {
    let uid = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(directory).map_err(at(directory, "listing"))?;
    for entry in entries {
        let entry = entry.map_err(at(directory, "listing"))?;
        let is_named = entry.file_name().as_encoded_bytes().starts_with(SHORT_LIVED.as_bytes());
        let is_left = |about: fs::Metadata| about.is_file() && about.len() == 0 && about.uid() == uid;
        if is_named && entry.metadata().is_ok_and(is_left) {
            // Another call may be quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// A new file without a name. Where the file system has none of these, it loses its name at once.
fn nameless(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    match openat(CWD, directory, flags | OFlags::TMPFILE | OFlags::EXCL, mode) {
        Ok(file) => return Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    soon_nameless(directory)
}

/// Process numbers come again, also in another container: a random name does not.
fn soon_nameless(directory: &Path) -> io::Result<File> {
    let random = RandomState::new().build_hasher().finish();
    let path = directory.join(format!("{SHORT_LIVED}{random:016x}"));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    match fs::remove_file(&path) {
        // Another call took it for what was left.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(file),
    }
}

/// Switches direct I/O on and tries it with a page; off again where it is not taken.
fn make_direct(file: &File, is_new: bool) -> io::Result<bool> {
    let before = fcntl_getfl(file)?;
    if fcntl_setfl(file, before | OFlags::DIRECT).is_err() {
        return Ok(false);
    }
    let mut page = AlignedBuffer::new(PAGE);
    let tried = match is_new {
        true => file.write_all_at(page.as_slice(), 0),
        false => file.read_at(page.as_mut_slice(), 0).map(drop),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            fcntl_setfl(file, before)?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The first and the last bytes.
fn ends(file: &File, length: ByteCount) -> io::Result<(Vec<u8>, Vec<u8>)> {
    // Direct I/O reads whole pages only; a last part of one is looked at through the cache.
    let before = fcntl_getfl(file)?;
    fcntl_setfl(file, before - OFlags::DIRECT)?;
    let size = length.0.min(LOOKED_AT as u64);
    let (mut head, mut tail) = (vec![0; size as usize], vec![0; size as usize]);
    file.read_exact_at(&mut head, 0)?;
    // On a page, so that pages which loads have written are known again.
    let tail_at = (length.0 - size).next_multiple_of(PAGE as u64).min(length.0);
    tail.truncate((length.0 - tail_at) as usize);
    file.read_exact_at(&mut tail, tail_at)?;
    fcntl_setfl(file, before)?;
    Ok((head, tail))
}

/// File systems that take direct I/O and may answer from memory all the same: of their own, or another
/// machine's.
fn keeps_in_memory(file_system: &str) -> bool {
    ["btrfs", "fuse", "nfs", "ramfs", "tmpfs", "zfs"].contains(&file_system)
}

/// The name of the file system of an open file, by its number (linux: include/uapi/linux/magic.h).
fn file_system(file: &File) -> io::Result<String> {
    let number = fstatfs(file)?.f_type as u64 & 0xffff_ffff;
    Ok(match number {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x6573_5546 => "fuse",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        other => return Ok(format!("{other:#x}")),
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_stays_free_and_no_byte_more() {
        let wanted = ByteCount(5 << 30);
        assert!(leaves_room(wanted, ByteCount((5 << 30) + RESERVE.0)));
        assert!(!leaves_room(wanted, ByteCount((5 << 30) + RESERVE.0 - 1)));
        assert!(!leaves_room(ByteCount(u64::MAX), ByteCount(u64::MAX)));
    }

    #[test]
    fn a_temporary_file_has_no_name_and_others_can_open_it() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::temporary(directory.path(), ByteCount(1 << 20)).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(fs::metadata(target.path_for_others()).unwrap().len(), 1 << 20);
        assert_eq!((target.kind(), target.length()), (TargetKind::Temporary, ByteCount(1 << 20)));
    }

    /// Story: the name had the number of the process, and what a killed one had left stood in the way of the
    /// next of that number.
    #[test]
    fn files_that_lose_their_names_at_once_do_so_beside_what_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(directory.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let own = format!(".kist-bench-{}", std::process::id());
        fs::write(directory.path().join(&own), "").unwrap();
        soon_nameless(directory.path()).unwrap().write_all_at(b"x", 0).unwrap();
        assert_eq!(names(), [own]);
        fs::write(directory.path().join("somebody's"), "").unwrap();
        fs::write(directory.path().join(".kist-bench-full"), "x").unwrap();
        clear_leftovers(directory.path()).unwrap();
        let mut left = names();
        left.sort_unstable();
        assert_eq!(left, [".kist-bench-full", "somebody's"], "only what is empty can have been left");
    }

    #[test]
    fn a_directory_below_another_has_no_file_system_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("d8");
        fs::create_dir(&below).unwrap();
        assert!(matches!(check_mounted(&below), Err(TargetError::NotMounted(path)) if path == below));
        assert!(check_mounted(Path::new("/proc")).is_ok(), "it is mounted");
        let gone = directory.path().join("gone");
        assert!(matches!(check_mounted(&gone), Err(TargetError::Io { .. })));
    }

    #[test]
    fn file_systems_that_answer_from_memory_are_not_direct() {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::temporary(directory.path(), ByteCount(1 << 20)).unwrap();
        target.is_direct = true;
        for (name, is_direct) in [("ext4", true), ("xfs", true), ("zfs", false), ("btrfs", false)] {
            target.file_system = name.to_owned();
            assert_eq!(target.is_direct(), is_direct, "{name}");
        }
        target.file_system = "nfs".to_owned();
        target.kind = TargetKind::Device;
        assert!(target.is_direct(), "a device is in none");
    }

    #[test]
    fn a_file_that_holds_something_is_read_and_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, vec![0; 3 << 20]).unwrap();
        assert!(Target::open_to_destroy(&path, ByteCount(1)).is_ok());
        for at in [0, 1024 + 56, (3 << 20) - 1] {
            let mut bytes = vec![0; 3 << 20];
            bytes[at] = 0x53;
            fs::write(&path, &bytes).unwrap();
            let refused = Target::open_to_destroy(&path, ByteCount(1)).unwrap_err();
            assert!(matches!(&refused, TargetError::Standing { .. }), "{refused}");
            assert!(Target::open(&path, ByteCount(1)).is_ok());
            assert!(fs::read(&path).unwrap() == bytes, "nothing was changed");
        }
    }

    /// Story: a file of holes was read at 38,984 MB/s, and nothing said that no disk was.
    #[test]
    fn what_has_no_blocks_of_a_file_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("half");
        fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        assert_eq!(Target::open(&path, ByteCount(4096)).unwrap().holes().unwrap(), ByteCount(0));
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(2 << 20).unwrap();
        let holes = Target::open(&path, ByteCount(4096)).unwrap().holes().unwrap();
        assert!(holes.0 > 900_000 && holes.0 <= 1 << 20, "{holes}");
    }

    /// Story: a sparse file was written over without a look at what its holes would take of the file system.
    #[test]
    fn holes_that_would_take_the_reserve_are_not_filled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        // More than any test machine has free, and less than the largest file of ext4.
        File::create(&path).unwrap().set_len(8 << 40).unwrap();
        let refused = Target::open_to_destroy(&path, ByteCount(1)).unwrap_err();
        assert!(matches!(&refused, TargetError::NoRoom { wanted, .. } if wanted.0 == 8 << 40), "{refused}");
        assert!(Target::open(&path, ByteCount(1)).is_ok(), "it may be read");
    }

    #[test]
    fn what_is_too_small_or_of_another_kind_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [0; 100]).unwrap();
        assert!(Target::open(&path, ByteCount(100)).is_ok());
        assert!(matches!(Target::open(&path, ByteCount(101)), Err(TargetError::Small { .. })));
        assert!(matches!(Target::open(Path::new("/dev/null"), ByteCount(0)), Err(TargetError::Kind(_))));
        assert!(matches!(Target::open(directory.path(), ByteCount(0)), Err(TargetError::Kind(_))));
    }
}
