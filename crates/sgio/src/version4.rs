//! What the ioctl of `/dev/bsg/*` is given and gives back (linux: include/uapi/linux/bsg.h,
//! `struct sg_io_v4`).

use std::time::Duration;

use rustix::io::Errno;
use scsi::{Cdb, Completion, Data, TransportError};

use crate::header::{Ended, milliseconds};

/// The interface that the header is of.
const INTERFACE: i32 = b'Q' as i32;

/// `struct sg_io_v4`, in the order and widths of C. Addresses have 64 bits on every machine:
///
/// ```text
///   0 guard             4 protocol          8 subprotocol     12 request_len
///  16 request          24 request_tag      32 request_attr    36 request_priority
///  40 request_extra    44 max_response_len 48 response        56 dout_iovec_count
///  60 dout_xfer_len    64 din_iovec_count  68 din_xfer_len    72 dout_xferp
///  80 din_xferp        88 timeout          92 flags           96 usr_ptr
/// 104 spare_in        108 driver_status   112 transport_status 116 device_status
/// 120 retry_delay     124 info            128 duration       132 response_len
/// 136 din_resid       140 dout_resid      144 generated_tag  152 spare_out, padding   160
/// ```
#[repr(C)]
#[derive(Debug, Default)]
pub struct HeaderV4 {
    pub guard: i32,
    /// 0: SCSI, and below it 0: a command.
    pub protocol: u32,
    pub subprotocol: u32,
    pub command_length: u32,
    pub command: u64,
    pub tag: u64,
    pub attribute: u32,
    pub priority: u32,
    pub extra: u32,
    pub sense_max: u32,
    pub sense: u64,
    pub out_vector_count: u32,
    pub out_length: u32,
    pub in_vector_count: u32,
    pub in_length: u32,
    pub out_data: u64,
    pub in_data: u64,
    pub timeout_ms: u32,
    pub flags: u32,
    pub user: u64,
    pub spare_in: u32,
    pub driver_status: u32,
    pub transport_status: u32,
    pub device_status: u32,
    pub retry_delay: u32,
    pub info: u32,
    pub duration_ms: u32,
    pub sense_length: u32,
    pub in_residual: i32,
    pub out_residual: i32,
    pub generated_tag: u64,
    pub spare_out: u32,
    pub padding: u32,
}

/// The address of a buffer, which the kernel uses it by.
fn address_of(exposed: usize) -> u64 {
    u64::try_from(exposed).unwrap_or(0)
}

/// Sends a command by `send`, which lends the header to the driver: all that it points to lives until then.
///
/// # Errors
/// The outer one if the driver did not take the header, the inner one if there is no answer.
pub fn exchange(
    cdb: &Cdb,
    data: Data<'_>,
    limit: Duration,
    address: &str,
    bounce: &mut Vec<u8>,
    send: impl FnOnce(&mut HeaderV4) -> Result<(), Errno>,
) -> Result<Result<Completion, TransportError>, Errno> {
    let mut sense = [0_u8; Completion::SENSE_MAX];
    let mut header = HeaderV4 {
        guard: INTERFACE,
        command_length: u32::try_from(cdb.bytes().len()).unwrap_or(0),
        command: address_of(cdb.bytes().as_ptr().expose_provenance()),
        sense_max: u32::try_from(sense.len()).unwrap_or(0),
        sense: address_of(sense.as_mut_ptr().expose_provenance()),
        timeout_ms: milliseconds(limit),
        ..HeaderV4::default()
    };
    let of = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let is_in = data.is_in() && data.length() > 0;
    // The kernel takes no vectors here (linux: drivers/scsi/scsi_bsg.c): parts are put together.
    data.in_one_piece(bounce, |out, into| {
        if !into.is_empty() {
            header.in_length = of(into.len());
            header.in_data = address_of(into.as_mut_ptr().expose_provenance());
        }
        if !out.is_empty() {
            header.out_length = of(out.len());
            header.out_data = address_of(out.as_ptr().expose_provenance());
        }
        send(&mut header)
    })?;
    // Codes are bytes; what is wider is none that is known.
    let code = |code: u32| u16::try_from(code).unwrap_or(u16::MAX);
    let (length, residual) = match is_in {
        true => (header.in_length, header.in_residual),
        false => (header.out_length, header.out_residual),
    };
    let ended = Ended {
        status: u8::try_from(header.device_status).unwrap_or(u8::MAX),
        host_status: code(header.transport_status),
        driver_status: code(header.driver_status),
        length,
        residual,
        sense_length: usize::try_from(header.sense_length).unwrap_or(0),
    };
    Ok(ended.completion(address, &sense))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::{Status, TransportFault};
    use std::mem::{offset_of, size_of};

    /// What a C program says of the kernel's own header: the size of `struct sg_io_v4` and the places of its
    /// fields, in their order.
    fn as_in_c() -> Vec<usize> {
        const FIELDS: &str = "guard protocol subprotocol request_len request request_tag request_attr \
            request_priority request_extra max_response_len response dout_iovec_count dout_xfer_len \
            din_iovec_count din_xfer_len dout_xferp din_xferp timeout flags usr_ptr spare_in driver_status \
            transport_status device_status retry_delay info duration response_len din_resid dout_resid \
            generated_tag spare_out padding";
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
        let print = |what: String| format!("printf(\"%zu\\n\", {what});\n");
        let of = |field| print(format!("offsetof(struct sg_io_v4, {field})"));
        let prints: String = FIELDS.split_whitespace().map(of).collect();
        let size = print("sizeof(struct sg_io_v4)".to_owned());
        let includes =
            ["linux/types", "linux/bsg", "stddef", "stdio"].map(|name| format!("#include <{name}.h>\n"));
        let text = format!("{}int main(void) {{\n{size}{prints}return 0;\n}}\n", includes.concat());
        std::fs::write(&source, text).unwrap();
        let compiled = std::process::Command::new("cc").arg(&source).arg("-o").arg(&program).output();
        let compiled = compiled.expect("a C compiler: the catalogue's store is not built without one either");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let said = std::process::Command::new(&program).output().unwrap();
        String::from_utf8(said.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn the_header_is_laid_out_as_in_c() {
        let layout = [
            size_of::<HeaderV4>(),
            offset_of!(HeaderV4, guard),
            offset_of!(HeaderV4, protocol),
            offset_of!(HeaderV4, subprotocol),
            offset_of!(HeaderV4, command_length),
            offset_of!(HeaderV4, command),
            offset_of!(HeaderV4, tag),
            offset_of!(HeaderV4, attribute),
            offset_of!(HeaderV4, priority),
            offset_of!(HeaderV4, extra),
            offset_of!(HeaderV4, sense_max),
            offset_of!(HeaderV4, sense),
            offset_of!(HeaderV4, out_vector_count),
            offset_of!(HeaderV4, out_length),
            offset_of!(HeaderV4, in_vector_count),
            offset_of!(HeaderV4, in_length),
            offset_of!(HeaderV4, out_data),
            offset_of!(HeaderV4, in_data),
            offset_of!(HeaderV4, timeout_ms),
            offset_of!(HeaderV4, flags),
            offset_of!(HeaderV4, user),
            offset_of!(HeaderV4, spare_in),
            offset_of!(HeaderV4, driver_status),
            offset_of!(HeaderV4, transport_status),
            offset_of!(HeaderV4, device_status),
            offset_of!(HeaderV4, retry_delay),
            offset_of!(HeaderV4, info),
            offset_of!(HeaderV4, duration_ms),
            offset_of!(HeaderV4, sense_length),
            offset_of!(HeaderV4, in_residual),
            offset_of!(HeaderV4, out_residual),
            offset_of!(HeaderV4, generated_tag),
            offset_of!(HeaderV4, spare_out),
            offset_of!(HeaderV4, padding),
        ];
        assert_eq!(as_in_c(), layout);
    }

    /// The bytes that an address and a length of the header are of.
    fn bytes_at<'a>(address: u64, length: u32) -> &'a mut [u8] {
        let pointer = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address).unwrap());
        // SAFETY: the tests pass what the header points to while `exchange` lends it, and use it at once;
        // what is written to was borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(pointer, usize::try_from(length).unwrap()) }
    }

    fn run(
        data: Data<'_>,
        drive: impl FnOnce(&mut HeaderV4) -> Result<(), Errno>,
    ) -> Result<Result<Completion, TransportError>, Errno> {
        let cdb = Cdb::new(&[0x0a, 1, 2, 3, 4, 5]).unwrap();
        let mut bounce = Vec::new();
        exchange(&cdb, data, Duration::from_secs(3), "/dev/bsg/1:0:0:0", &mut bounce, |header| {
            let fixed = (header.guard, header.protocol, header.subprotocol, header.timeout_ms);
            assert_eq!(fixed, (i32::from(b'Q'), 0, 0, 3000));
            assert_eq!(bytes_at(header.command, header.command_length), [0x0a, 1, 2, 3, 4, 5]);
            assert_eq!(header.sense_max, 252);
            drive(header)
        })
    }

    #[test]
    fn data_goes_the_way_of_the_command() {
        let mut into = [0; 10];
        let end = run(Data::In(&mut into), |header| {
            assert_eq!((header.in_length, header.out_length, header.out_data), (10, 0, 0));
            bytes_at(header.in_data, 7).fill(9);
            (header.in_residual, header.out_residual) = (3, 10);
            Ok(())
        });
        let end = end.unwrap().unwrap();
        assert_eq!((end.status, end.transferred, into), (Status::Good, 7, [9, 9, 9, 9, 9, 9, 9, 0, 0, 0]));
        let end = run(Data::Out(&[1, 2, 3, 4]), |header| {
            assert_eq!((header.out_length, header.in_length, header.in_data), (4, 0, 0));
            assert_eq!(bytes_at(header.out_data, 4), [1, 2, 3, 4]);
            (header.in_residual, header.out_residual) = (4, 1);
            Ok(())
        });
        assert_eq!(end.unwrap().unwrap().transferred, 3);
        let (mut first, mut second) = ([0; 6], [0; 4]);
        let end = run(Data::InParts([&mut first, &mut second]), |header| {
            assert_eq!((header.in_length, header.out_length, header.out_data), (10, 0, 0));
            bytes_at(header.in_data, 10).copy_from_slice(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            Ok(())
        });
        assert_eq!(end.unwrap().unwrap().transferred, 10);
        assert_eq!((first, second), ([0, 1, 2, 3, 4, 5], [6, 7, 8, 9]));
        let end = run(Data::OutParts([&[1, 2, 3], &[4]]), |header| {
            assert_eq!((header.out_length, header.in_length, header.in_data), (4, 0, 0));
            assert_eq!(bytes_at(header.out_data, 4), [1, 2, 3, 4]);
            Ok(())
        });
        assert_eq!(end.unwrap().unwrap().transferred, 4);
        for none in [Data::None, Data::Out(&[]), Data::In(&mut [])] {
            let end = run(none, |header| {
                assert_eq!((header.out_length, header.in_length), (0, 0));
                assert_eq!((header.out_data, header.in_data), (0, 0));
                Ok(())
            });
            assert_eq!(end.unwrap().unwrap().transferred, 0);
        }
    }

    #[test]
    fn sense_data_and_errors_come_back() {
        let end = run(Data::None, |header| {
            bytes_at(header.sense, 18).fill(0x70);
            (header.device_status, header.driver_status, header.sense_length) = (2, 8, 18);
            Ok(())
        });
        let end = end.unwrap().unwrap();
        assert_eq!((end.status, end.sense), (Status::CheckCondition, vec![0x70; 18]));
        let error = |host: u32, status: u32| {
            let end = run(Data::None, |header| {
                (header.transport_status, header.device_status) = (host, status);
                Ok(())
            });
            end.unwrap().map_err(|error| (error.fault, error.may_be_done))
        };
        assert_eq!(error(3, 0), Err((TransportFault::TimeOut, true)));
        assert_eq!(error(2, 0), Err((TransportFault::Path, false)));
        assert_eq!(error(0x1_0000, 0), Err((TransportFault::Path, true)), "no code cut to a known one");
        assert_ne!(error(0, 0x100).unwrap().status, Status::Good);
        assert_eq!(run(Data::None, |_| Err(Errno::NODEV)), Err(Errno::NODEV));
    }
}
