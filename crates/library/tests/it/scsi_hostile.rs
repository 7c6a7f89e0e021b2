//! The SCSI drive on a device that now and then answers anything.

use std::sync::Arc;
use std::time::Duration;

use base::Partition;
use library::scsi::{ScsiDrive, ScsiDriveOptions};
use scsi::{Cdb, Completion, Data, Status, Transport, TransportError, TransportFault};

use crate::common::{data, drive_name, vid};
use crate::scsi_model::{Hurry, Quirks, Shared};

/// A drive that gives some of its commands any answer.
struct Hostile {
    model: Shared,
    state: u64,
    /// How many of 64 commands.
    of_64: u64,
}

impl Hostile {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl Transport for Hostile {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError> {
        if self.next() % 64 >= self.of_64 {
            return self.model.execute(cdb, data, limit);
        }
        let kind = self.next() % 8;
        let length = data.length();
        if data.is_in() {
            // The begin of answers is small numbers as a rule: lengths that lead further.
            let small = self.next().is_multiple_of(2);
            let mask = if small { 0x1f } else { 0xff };
            let mut data = data;
            let into = data.in_range(0..length).unwrap();
            into.into_iter().flatten().take(512).for_each(|byte| *byte = (self.next() & mask) as u8);
        }
        let transferred =
            if self.next().is_multiple_of(4) { self.next() as usize % (length + 1) } else { length };
        match kind {
            0..3 => Ok(Completion { status: Status::Good, sense: Vec::new(), transferred }),
            7 => {
                let what = "hostile".to_owned();
                let may_be_done = self.next().is_multiple_of(2);
                Err(TransportError { fault: TransportFault::Path, may_be_done, what })
            }
            _ => {
                let mut sense: Vec<u8> = (0..self.next() % 40).map(|_| self.next() as u8).collect();
                if let Some(first) = sense.first_mut() {
                    *first = 0x70 | (self.state as u8 & 0x83);
                }
                let status = Status::of([0x02, 0x02, 0x02, 0x08, 0x18, 0x40][self.next() as usize % 6]);
                Ok(Completion { status, sense, transferred })
            }
        }
    }

    fn transfer_max(&self) -> usize {
        1 << 17
    }

    fn address(&self) -> &'static str {
        "hostile"
    }
}

#[test]
fn a_hostile_drive_makes_errors_and_no_panics() {
    let (mut opened, mut done) = (0, 0);
    for seed in 1..400_u64 {
        let hostile = Hostile {
            model: Shared::new(Quirks::default()),
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            of_64: [1, 4, 12, 32, 64][seed as usize % 5],
        };
        let name = drive_name("drive1");
        let options = ScsiDriveOptions {
            reservation_key: Some(1.into()),
            waiter: Arc::new(Hurry::default()),
            ..ScsiDriveOptions::default()
        };
        let Ok(scsi) = ScsiDrive::open(name, Box::new(hostile), None, options) else { continue };
        opened += 1;
        for _ in 0..3 {
            let _ = scsi.load(vid("KT0001"));
            let mut drive = scsi.take().unwrap();
            let mut buffer = vec![0; 4096];
            let block = base::BlockAddress;
            done += usize::from(drive.write_block(&[1; 100]).is_ok());
            done += usize::from(drive.write_filemarks(1).is_ok());
            done += usize::from(drive.locate(data(0)).is_ok());
            done += usize::from(drive.read_block(&mut buffer).is_ok());
            done += usize::from(drive.position().is_ok());
            let encrypted = drive.set_encryption(Some(&crate::scsi_keys::key(7))).is_ok();
            done += usize::from(encrypted && drive.write_block(&[1; 100]).is_ok());
            let _ = (drive.block_encryption(), drive.set_encryption(None));
            let _ = drive.recommended_order(&[(block(0), block(1))]);
            let _ = (drive.end_of_wrap_positions(), drive.remaining(), drive.alerts());
            let _ = drive.read_attribute(Partition::Data, 0x080c);
            let _ = drive.write_attribute(Partition::Index, 0x0800, b"x");
            let _ = (drive.format_partitions(), scsi.take_over(), scsi.unload());
        }
    }
    assert!(opened > 100 && done > 500, "{opened} opened, {done} calls went through");
}
