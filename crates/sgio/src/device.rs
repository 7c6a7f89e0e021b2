//! A device file of a generic driver.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Updater, ioctl};
use scsi::{Cdb, Completion, Data, Transport, TransportError, TransportFault};

use crate::header::{FROM_DEVICE, Header, NONE, Piece, TO_DEVICE};
use crate::signals::Blocked;
use crate::version4::{HeaderV4, exchange};

/// linux: include/scsi/sg.h and include/uapi/linux/fs.h.
const SG_IO: Opcode = 0x2285;
const SG_GET_VERSION_NUM: Opcode = 0x2282;
const BLKSECTGET: Opcode = 0x1267;
const SG_GET_RESERVED_SIZE: Opcode = 0x2272;

/// The oldest interface that has the header used here.
const VERSION_LEAST: c_int = 30_000;
/// The longest transfer that is made, whatever the adapter says: what three bytes of READ and WRITE can
/// say, in whole KiB.
pub const TRANSFER_MAX: usize = 16 * 1024 * 1024 - 1024;
/// The longest transfer through an adapter that does not tell: all that are known take it.
pub const TRANSFER_ASSUMED: usize = 512 * 1024;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It takes no SCSI commands.
    #[error("{} is no SCSI device: use one of /dev/sg* or /dev/bsg/* ({source})", path.display())]
    NotScsi {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The driver is older than the interface that is used here.
    #[error("{} has version {version} of the generic SCSI interface: {least} is needed",
        path.display(), least = VERSION_LEAST)]
    Version {
        /// The file.
        path: PathBuf,
        /// What the driver has.
        version: i32,
    },
}

/// Which header a device takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interface {
    /// `/dev/sg*`.
    Version3,
    /// `/dev/bsg/*`.
    Version4,
}

impl Interface {
    /// By the directory that the file is in, wherever a link to it stands.
    fn of(path: &Path) -> Interface {
        let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match file.parent().is_some_and(|parent| parent.ends_with("bsg")) {
            true => Interface::Version4,
            false => Interface::Version3,
        }
    }
}

/// The way to a logical unit through a device file.
#[derive(Debug)]
pub struct SgDevice {
    path: PathBuf,
    address: String,
    /// `None` after the device was lost: the next command opens it anew.
    file: Option<OwnedFd>,
    transfer_max: usize,
    interface: Interface,
    /// Where data in parts is put together for version 4.
    bounce: Vec<u8>,
}

fn open(path: &Path, interface: Interface) -> Result<(OwnedFd, usize), OpenError> {
    // Without NONBLOCK the open waits for whoever has it to himself.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|source| OpenError::Open { path: path.to_owned(), source: source.into() })?;
    // SAFETY: this ioctl writes an int, and touches nothing else.
    let version = unsafe { ioctl(&file, Getter::<SG_GET_VERSION_NUM, c_int>::new()) }
        .map_err(|source| OpenError::NotScsi { path: path.to_owned(), source: source.into() })?;
    if version < VERSION_LEAST {
        return Err(OpenError::Version { path: path.to_owned(), version });
    }
    // SAFETY: of a generic device both ioctls write an int, bytes; of others they write no more than that.
    let bytes = unsafe {
        match interface {
            Interface::Version3 => ioctl(&file, Getter::<BLKSECTGET, c_int>::new()),
            // It has no other; it keeps no buffer, and what it says is what the adapter takes.
            Interface::Version4 => ioctl(&file, Getter::<SG_GET_RESERVED_SIZE, c_int>::new()),
        }
    };
    Ok((file, transfer_of(bytes.ok())))
}

/// The longest transfer by what the adapter says.
fn transfer_of(said: Option<c_int>) -> usize {
    match said.and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes > 0 => bytes.min(TRANSFER_MAX),
        _ => TRANSFER_ASSUMED,
    }
}

impl SgDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// If it is not there, not ours to use, or no SCSI device.
    pub fn open(path: &Path) -> Result<SgDevice, OpenError> {
        let interface = Interface::of(path);
        let (file, transfer_max) = open(path, interface)?;
        let address = path.display().to_string();
        let (path, file, bounce) = (path.to_owned(), Some(file), Vec::new());
        Ok(SgDevice { path, address, file, transfer_max, interface, bounce })
    }

    fn failed(
        &self,
        fault: TransportFault,
        may_be_done: bool,
        what: impl std::fmt::Display,
    ) -> TransportError {
        TransportError { fault, may_be_done, what: format!("{}: {what}", self.address) }
    }

    /// What an error of the ioctl itself is.
    fn refused(&mut self, errno: Errno) -> TransportError {
        match errno {
            // NXIO is said before the command is taken; the others also of one on its way (linux:
            // drivers/scsi/sg.c, `sg_ioctl_common`).
            Errno::NODEV | Errno::NXIO | Errno::IO | Errno::SHUTDOWN => {
                self.file = None;
                let may_be_done = errno != Errno::NXIO;
                self.failed(TransportFault::Path, may_be_done, format!("the device is gone ({errno})"))
            }
            // Version 4 says it of an answer that it could not hand over, too.
            Errno::FAULT if self.interface == Interface::Version4 => {
                self.failed(TransportFault::Host, true, errno)
            }
            // All signals are kept away. If one came through all the same, the command is on its way.
            Errno::INTR => self.failed(TransportFault::Host, true, "a signal came between"),
            errno => self.failed(TransportFault::Host, false, errno),
        }
    }
}

/// Sends what the header says.
fn send(file: &OwnedFd, header: &mut Header) -> Result<(), Errno> {
    // SAFETY: SG_IO reads and writes a header of this layout. Its pointers are to buffers of the lengths that
    // it gives, which live until the ioctl returns: the caller borrows them over this call. If it counts
    // pieces, its data is an array of so many of them, whose pointers are such buffers too. The kernel writes
    // to data only if the direction is from the device, in which case it was borrowed mutably.
    unsafe { ioctl(file.as_fd(), Updater::<SG_IO, Header>::new(header)) }
}

/// The same with a header of version 4.
fn send_version4(file: &OwnedFd, header: &mut HeaderV4) -> Result<(), Errno> {
    // SAFETY: as of version 3. Of the two buffers only the one of the command's direction has an address.
    unsafe { ioctl(file.as_fd(), Updater::<SG_IO, HeaderV4>::new(header)) }
}

impl SgDevice {
    fn execute_version3(
        &mut self,
        cdb: &Cdb,
        data: Data<'_>,
        limit: Duration,
    ) -> Result<Result<Completion, TransportError>, Errno> {
        let length = u32::try_from(data.length()).unwrap_or(u32::MAX);
        // The pieces have to live until the ioctl returns.
        let mut vector: [Piece; 2];
        let (direction, pointer, pieces): (c_int, *mut c_void, u16) = match data {
            Data::None => (NONE, std::ptr::null_mut(), 0),
            Data::In(buffer) => (FROM_DEVICE, buffer.as_mut_ptr().cast(), 0),
            // The kernel only reads from it.
            Data::Out(bytes) => (TO_DEVICE, bytes.as_ptr().cast_mut().cast(), 0),
            Data::InParts(parts) => {
                vector = parts.map(Piece::of_mut);
                (FROM_DEVICE, vector.as_mut_ptr().cast(), 2)
            }
            Data::OutParts(parts) => {
                vector = parts.map(Piece::of);
                (TO_DEVICE, vector.as_mut_ptr().cast(), 2)
            }
        };
        let mut sense = [0_u8; Completion::SENSE_MAX];
        let mut header = Header::new(if length == 0 { NONE } else { direction }, length, limit);
        header.command = cdb.bytes().as_ptr();
        header.command_length = u8::try_from(cdb.bytes().len()).unwrap_or(0);
        header.sense = sense.as_mut_ptr();
        header.sense_max = u8::try_from(sense.len()).unwrap_or(0);
        header.data = pointer;
        header.vector_count = pieces;
        send(self.file.as_ref().ok_or(Errno::NODEV)?, &mut header)?;
        Ok(header.ended(&self.address, &sense))
    }

    fn execute_version4(
        &mut self,
        cdb: &Cdb,
        data: Data<'_>,
        limit: Duration,
    ) -> Result<Result<Completion, TransportError>, Errno> {
        let file = self.file.as_ref().ok_or(Errno::NODEV)?;
        let bounce = &mut self.bounce;
        exchange(cdb, data, limit, &self.address, bounce, |header| send_version4(file, header))
    }
}

impl Transport for SgDevice {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError> {
        let length = data.length();
        if length > self.transfer_max {
            let what = format!("{length} bytes are more than the adapter takes, {}", self.transfer_max);
            return Err(self.failed(TransportFault::Host, false, what));
        }
        if self.file.is_none() {
            match open(&self.path, self.interface) {
                // It may have come back behind another adapter: blocks must not get longer than was told.
                Ok((file, transfer)) if transfer >= self.transfer_max => self.file = Some(file),
                Ok((_, transfer)) => {
                    let what = format!("the adapter takes only {transfer} bytes now: open it anew");
                    return Err(self.failed(TransportFault::Host, false, what));
                }
                Err(error) => return Err(self.failed(TransportFault::Path, false, error)),
            }
        }
        let Some(signals) = Blocked::new() else {
            return Err(self.failed(TransportFault::Host, false, "signals cannot be blocked"));
        };
        let sent = match self.interface {
            Interface::Version3 => self.execute_version3(cdb, data, limit),
            Interface::Version4 => self.execute_version4(cdb, data, limit),
        };
        drop(signals);
        sent.map_err(|errno| self.refused(errno))?
    }

    fn transfer_max(&self) -> usize {
        self.transfer_max
    }

    fn address(&self) -> &str {
        &self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_adapter_says_is_kept_within_bounds() {
        assert_eq!(transfer_of(Some(1 << 20)), 1 << 20);
        assert_eq!(transfer_of(Some(i32::MAX)), TRANSFER_MAX);
        for said in [None, Some(0), Some(-1)] {
            assert_eq!(transfer_of(said), TRANSFER_ASSUMED);
        }
    }

    /// What is no SCSI device refuses at the open; a file that is not there says so.
    #[test]
    fn what_is_no_scsi_device_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, b"no device").unwrap();
        for path in [Path::new("/dev/null"), Path::new("/dev/zero"), &file] {
            let error = SgDevice::open(path).unwrap_err();
            assert!(matches!(&error, OpenError::NotScsi { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        let missing = SgDevice::open(&directory.path().join("sg99")).unwrap_err();
        assert!(matches!(&missing, OpenError::Open { .. }), "{missing}");
    }

    /// As if the driver had refused: on a file that takes no SCSI commands.
    fn refusing(file: OwnedFd, path: &str) -> SgDevice {
        SgDevice {
            path: PathBuf::from(path),
            address: path.to_owned(),
            file: Some(file),
            transfer_max: 1000,
            interface: Interface::of(Path::new(path)),
            bounce: Vec::new(),
        }
    }

    #[test]
    fn the_directory_of_a_device_says_which_interface_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let bsg = directory.path().join("bsg");
        std::fs::create_dir(&bsg).unwrap();
        std::fs::write(bsg.join("1:0:0:0"), b"").unwrap();
        let link = directory.path().join("changer");
        std::os::unix::fs::symlink(bsg.join("1:0:0:0"), &link).unwrap();
        for (path, interface) in [
            (bsg.join("1:0:0:0"), Interface::Version4),
            (link, Interface::Version4),
            (PathBuf::from("/dev/bsg/gone"), Interface::Version4),
            (PathBuf::from("/dev/sg0"), Interface::Version3),
            (directory.path().join("sg0"), Interface::Version3),
        ] {
            assert_eq!(Interface::of(&path), interface, "{}", path.display());
        }
    }

    #[test]
    fn a_command_that_the_driver_refuses_was_not_sent() {
        for path in ["/dev/null", "/dev/bsg/null"] {
            let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).unwrap();
            let mut device = refusing(null, path);
            let cdb = Cdb::new(&[0; 6]).unwrap();
            let error = device.execute(&cdb, Data::None, Duration::from_secs(1)).unwrap_err();
            assert_eq!((error.fault, error.may_be_done), (TransportFault::Host, false), "{error}");
            let error = device.execute(&cdb, Data::Out(&[0; 1001]), Duration::from_secs(1)).unwrap_err();
            assert_eq!((error.fault, error.may_be_done), (TransportFault::Host, false), "{error}");
            assert_eq!(device.refused(Errno::FAULT).may_be_done, path == "/dev/bsg/null");
        }
    }

    #[test]
    fn a_device_that_is_gone_is_opened_anew_and_says_so() {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).unwrap();
        let mut device = refusing(null, "/nowhere/sg0");
        let error = device.refused(Errno::NODEV);
        assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, true));
        assert!(!device.refused(Errno::NXIO).may_be_done, "said before the command is taken");
        assert!(!device.refused(Errno::INVAL).may_be_done);
        assert!(device.refused(Errno::INTR).may_be_done);
        let cdb = Cdb::new(&[0; 6]).unwrap();
        let error = device.execute(&cdb, Data::None, Duration::from_secs(1)).unwrap_err();
        assert_eq!((error.fault, error.may_be_done), (TransportFault::Path, false), "{error}");
    }
}
