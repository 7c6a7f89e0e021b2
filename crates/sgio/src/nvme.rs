//! Log pages of NVMe drives through Linux's admin command ioctl on `/dev/nvme*` (linux:
//! include/uapi/linux/nvme_ioctl.h). Only Get Log Page is sent: it changes nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct nvme_admin_cmd` (`nvme_passthru_cmd`), in the order and widths of C:
///
/// ```text
///  0 opcode     1 flags       2 rsvd1        4 nsid       8 cdw2        12 cdw3
/// 16 metadata  24 addr       32 metadata_len 36 data_len 40 cdw10 to cdw15
/// 64 timeout_ms 68 result    72
/// ```
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// `NVME_IOCTL_ADMIN_CMD`: _IOWR('N', 0x41, struct nvme_admin_cmd).
const ADMIN_COMMAND: Opcode = opcode::read_write::<AdminCommand>(b'N', 0x41);
/// Get Log Page (NVM Express Base Specification 2.0, 5.16).
const GET_LOG_PAGE: u8 = 0x02;
/// All namespaces: the log is of the controller.
const ALL: u32 = 0xffff_ffff;

/// Why a log page of a drive could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvmeError {
    /// The device cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The command was not carried out.
    #[error("{} did not take Get Log Page: {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The drive ended the command with a status that is not zero.
    #[error("{} answered Get Log Page {page:02X}h with status {status:#06x}", path.display())]
    Status {
        /// The file.
        path: PathBuf,
        /// The page.
        page: u8,
        /// What it said.
        status: u32,
    },
}

/// A controller.
#[derive(Debug)]
pub struct NvmeDevice {
    path: PathBuf,
    file: OwnedFd,
}

impl NvmeDevice {
    /// Opens `/dev/nvme*`.
    ///
    /// # Errors
    /// If it is not there or not ours to use.
    pub fn open(path: &Path) -> Result<NvmeDevice, NvmeError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|source| NvmeError::Open { path: path.to_owned(), source: source.into() })?;
        Ok(NvmeDevice { path: path.to_owned(), file })
    }

    /// Reads the first 512 bytes of a log page.
    ///
    /// # Errors
    /// If the driver or the drive refuses.
    pub fn log_page(&self, page: u8, limit: Duration) -> Result<[u8; 512], NvmeError> {
        let mut data = [0_u8; 512];
        // The number of words, less one, stands above the page (NUMDL).
        let words = u32::try_from(data.len() / 4 - 1).unwrap_or(0);
        let mut command = AdminCommand {
            opcode: GET_LOG_PAGE,
            namespace: ALL,
            address: data.as_mut_ptr().expose_provenance() as u64,
            data_length: u32::try_from(data.len()).unwrap_or(0),
            words_10_15: [words << 16 | u32::from(page), 0, 0, 0, 0, 0],
            timeout_ms: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
            ..AdminCommand::default()
        };
        // SAFETY: the ioctl reads and writes a structure of this layout, and writes `data_length` bytes to
        // `address`, which is `data`: that is borrowed mutably until the call returns, and read only after.
        let status = unsafe { status(&self.file, &mut command) };
        match status {
            Ok(0) => Ok(data),
            Ok(status) => Err(NvmeError::Status { path: self.path.clone(), page, status }),
            Err(errno) => Err(NvmeError::Refused { path: self.path.clone(), source: errno.into() }),
        }
    }
}

/// Sends a command. The value of the ioctl is the status of the drive, zero if it succeeded.
///
/// # Safety
/// The address in the command is one of as many bytes as it says, which nobody else looks at.
unsafe fn status(file: &OwnedFd, command: &mut AdminCommand) -> Result<u32, Errno> {
    // SAFETY: as the caller says; the structure is that of the ioctl.
    unsafe { ioctl(file, Sent(Updater::<ADMIN_COMMAND, AdminCommand>::new(command))) }
}

/// As the updater, but with the value that the ioctl returns.
struct Sent<'a>(Updater<'a, ADMIN_COMMAND, AdminCommand>);

// SAFETY: opcode and pointer are those of the updater.
unsafe impl rustix::ioctl::Ioctl for Sent<'_> {
    type Output = u32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ADMIN_COMMAND
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_ptr()
    }

    unsafe fn output_from_ptr(
        output: rustix::ioctl::IoctlOutput,
        _pointer: *mut std::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        Ok(output.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_and_the_code_are_those_of_linux() {
        assert_eq!(size_of::<AdminCommand>(), 72);
        assert_eq!(std::mem::offset_of!(AdminCommand, address), 24);
        assert_eq!(std::mem::offset_of!(AdminCommand, words_10_15), 40);
        assert_eq!(std::mem::offset_of!(AdminCommand, timeout_ms), 64);
        // linux, x86-64 and arm64: 0xC0484E41.
        assert_eq!(ADMIN_COMMAND, 0xc048_4e41);
    }

    #[test]
    fn what_is_no_nvme_drive_is_told() {
        let missing = NvmeDevice::open(Path::new("/nowhere/nvme0")).unwrap_err();
        assert!(matches!(missing, NvmeError::Open { .. }), "{missing}");
        let null = NvmeDevice::open(Path::new("/dev/null")).unwrap();
        let refused = null.log_page(2, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(refused, NvmeError::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("/dev/null"), "{refused}");
    }
}
