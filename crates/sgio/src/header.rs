//! What the ioctl is given and gives back (linux: include/scsi/sg.h, `struct sg_io_hdr`).

use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};
use std::time::Duration;

use scsi::{Completion, Status, TransportError, TransportFault};

/// SG_DXFER_NONE, _TO_DEV and _FROM_DEV.
pub const NONE: c_int = -1;
pub const TO_DEVICE: c_int = -2;
pub const FROM_DEVICE: c_int = -3;

/// The interface that the header is of.
const INTERFACE: c_int = b'S' as c_int;
/// The longest time that fits, less than what the kernel takes for "for ever".
const MILLISECONDS_MAX: u32 = i32::MAX.unsigned_abs() - 1;

/// `struct sg_io_hdr`, in the order and widths of C:
///
/// ```text
///  0 interface_id     4 dxfer_direction   8 cmd_len, mx_sb_len, iovec_count (2)   12 dxfer_len
/// 16 dxferp          24 cmdp             32 sbp        40 timeout   44 flags      48 pack_id
/// 56 usr_ptr         64 status, masked_status, msg_status, sb_len_wr
/// 68 host_status, driver_status          72 resid      76 duration  80 info       88 (64-bit)
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    pub interface_id: c_int,
    pub direction: c_int,
    pub command_length: c_uchar,
    pub sense_max: c_uchar,
    pub vector_count: c_ushort,
    pub length: c_uint,
    pub data: *mut c_void,
    pub command: *const c_uchar,
    pub sense: *mut c_uchar,
    pub timeout_ms: c_uint,
    pub flags: c_uint,
    pub pack_id: c_int,
    pub user: *mut c_void,
    pub status: c_uchar,
    pub masked_status: c_uchar,
    pub message_status: c_uchar,
    pub sense_length: c_uchar,
    pub host_status: c_ushort,
    pub driver_status: c_ushort,
    pub residual: c_int,
    pub duration_ms: c_uint,
    pub info: c_uint,
}

/// `struct sg_iovec`: one of several pieces that make up the data, in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub data: *mut c_void,
    pub length: usize,
}

impl Piece {
    /// Bytes that the kernel only reads.
    pub fn of(bytes: &[u8]) -> Piece {
        Piece { data: bytes.as_ptr().cast_mut().cast(), length: bytes.len() }
    }

    /// Bytes that it writes.
    pub fn of_mut(bytes: &mut [u8]) -> Piece {
        Piece { data: bytes.as_mut_ptr().cast(), length: bytes.len() }
    }
}

impl Header {
    /// A header without pointers.
    pub fn new(direction: c_int, length: u32, limit: Duration) -> Header {
        Header {
            interface_id: INTERFACE,
            direction,
            command_length: 0,
            sense_max: 0,
            vector_count: 0,
            length,
            data: std::ptr::null_mut(),
            command: std::ptr::null(),
            sense: std::ptr::null_mut(),
            timeout_ms: milliseconds(limit),
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_length: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration_ms: 0,
            info: 0,
        }
    }

    /// How the command ended. `sense` is the buffer that the header pointed to.
    ///
    /// # Errors
    /// If adapter or driver say that there is no answer.
    pub fn ended(&self, address: &str, sense: &[u8]) -> Result<Completion, TransportError> {
        let ended = Ended {
            status: self.status,
            host_status: self.host_status,
            driver_status: self.driver_status,
            length: self.length,
            residual: self.residual,
            sense_length: usize::from(self.sense_length),
        };
        ended.completion(address, sense)
    }
}

/// A time limit as both interfaces count it.
pub fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, MILLISECONDS_MAX)
}

/// How a command ended, by either interface.
pub struct Ended {
    pub status: u8,
    pub host_status: u16,
    pub driver_status: u16,
    /// Bytes that were to be transferred.
    pub length: u32,
    /// Bytes of them that were not.
    pub residual: c_int,
    pub sense_length: usize,
}

impl Ended {
    /// The answer. `sense` is the buffer that the header pointed to.
    ///
    /// # Errors
    /// If adapter or driver say that there is none.
    pub fn completion(&self, address: &str, sense: &[u8]) -> Result<Completion, TransportError> {
        let status = Status::of(self.status);
        let failed = |fault, may_be_done, what: &str| {
            let codes = format!("host {:#04x}, driver {:#04x}", self.host_status, self.driver_status);
            Err(TransportError { fault, may_be_done, what: format!("{address}: {what} ({codes})") })
        };
        match self.host_status {
            0x00 => {}
            0x03 => return failed(TransportFault::TimeOut, true, "no answer in time"),
            // DID_BUS_BUSY, DID_BAD_TARGET, DID_IMM_RETRY, DID_REQUEUE: it never left the host.
            0x02 | 0x04 | 0x0c | 0x0d => {
                return failed(TransportFault::Path, false, "the adapter did not send the command");
            }
            0x08 => return failed(TransportFault::Path, true, "the adapter was reset"),
            _ => return failed(TransportFault::Path, true, "the adapter reports an error"),
        }
        // The upper bits suggest what could be done.
        match self.driver_status & 0x0f {
            // DRIVER_SENSE: there is sense data.
            0x00 | 0x08 => {}
            0x06 => return failed(TransportFault::TimeOut, true, "no answer in time"),
            _ if status != Status::Good => {}
            _ => return failed(TransportFault::Path, true, "the driver reports an error"),
        }
        let given = self.sense_length.min(Completion::SENSE_MAX);
        let left = usize::try_from(self.residual).unwrap_or(0);
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        Ok(Completion {
            status,
            sense: sense.get(..given).unwrap_or(sense).to_vec(),
            transferred: length.saturating_sub(left),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The offsets that a C program prints for `struct sg_io_hdr` on a machine of 64 bits.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_header_is_laid_out_as_in_c() {
        assert_eq!(size_of::<Header>(), 88);
        let offsets = [
            offset_of!(Header, direction),
            offset_of!(Header, command_length),
            offset_of!(Header, sense_max),
            offset_of!(Header, vector_count),
            offset_of!(Header, length),
            offset_of!(Header, data),
            offset_of!(Header, command),
            offset_of!(Header, sense),
            offset_of!(Header, timeout_ms),
            offset_of!(Header, flags),
            offset_of!(Header, pack_id),
            offset_of!(Header, user),
            offset_of!(Header, status),
            offset_of!(Header, sense_length),
            offset_of!(Header, host_status),
            offset_of!(Header, driver_status),
            offset_of!(Header, residual),
            offset_of!(Header, duration_ms),
            offset_of!(Header, info),
        ];
        assert_eq!(offsets, [4, 8, 9, 10, 12, 16, 24, 32, 40, 44, 48, 56, 64, 67, 68, 70, 72, 76, 80]);
        assert_eq!((size_of::<Piece>(), offset_of!(Piece, data), offset_of!(Piece, length)), (16, 0, 8));
    }

    fn ended(change: impl FnOnce(&mut Header)) -> Result<Completion, TransportError> {
        let mut header = Header::new(FROM_DEVICE, 100, Duration::from_secs(1));
        change(&mut header);
        header.ended("/dev/sg0", &[7; Completion::SENSE_MAX])
    }

    #[test]
    fn an_answer_is_status_sense_and_what_came_over() {
        let good = ended(|header| header.residual = 30).unwrap();
        assert_eq!((good.status, good.sense.len(), good.transferred), (Status::Good, 0, 70));
        let check = ended(|header| {
            (header.status, header.driver_status, header.sense_length) = (0x02, 0x08, 18);
        });
        let check = check.unwrap();
        assert_eq!((check.status, check.sense.len()), (Status::CheckCondition, 18));
        // Adapters that reckon wrongly.
        assert_eq!(ended(|header| header.residual = -5).unwrap().transferred, 100);
        assert_eq!(ended(|header| header.residual = 500).unwrap().transferred, 0);
        assert_eq!(ended(|header| header.status = 0x18).unwrap().status, Status::ReservationConflict);
    }

    #[test]
    fn what_has_no_answer_is_an_error_that_says_whether_it_was_sent() {
        let of = |host: u16, driver: u16| {
            let error = ended(|header| (header.host_status, header.driver_status) = (host, driver));
            let error = error.unwrap_err();
            (error.fault, error.may_be_done)
        };
        use TransportFault::{Path, TimeOut};
        assert_eq!(of(0x03, 0), (TimeOut, true));
        assert_eq!(of(0, 0x06), (TimeOut, true));
        assert_eq!(of(0, 0x46), (TimeOut, true), "with a suggestion");
        assert_eq!(of(0x02, 0), (Path, false));
        assert_eq!(of(0x0d, 0), (Path, false));
        for host in [0x01, 0x05, 0x06, 0x07, 0x08, 0x0e, 0x0f, 0x77] {
            assert_eq!(of(host, 0), (Path, true), "{host:#x}");
        }
        assert_eq!(of(0, 0x07), (Path, true));
    }

    #[test]
    fn times_fit_the_header() {
        let of = |limit| Header::new(NONE, 0, limit).timeout_ms;
        assert_eq!((of(Duration::ZERO), of(Duration::from_secs(60))), (1, 60_000));
        assert_eq!(of(Duration::MAX), MILLISECONDS_MAX);
    }
}
