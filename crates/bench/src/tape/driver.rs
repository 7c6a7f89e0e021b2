//! The driver of a tape drive: what it costs beside the bare commands, and what checksums of blocks cost.

use std::sync::Arc;
use std::time::Duration;

use base::Vid;
use iscsi::login::DigestWish;
use library::scsi::{ProtectionWish, ScsiDrive, ScsiDriveOptions};
use library::{DriveName, ReadBlock, TapeDrive};
use scsi::{Cdb, Completion, Data, Transport, TransportError};

use super::null::NullDrive;
use super::slices::{Work, repeat};
use super::way::Way;

/// Where the drive is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Behind iSCSI over loopback.
    Socket,
    /// In this process: what is left is the driver.
    Process,
}

/// A drive without a way.
struct Local(NullDrive);

impl Transport for Local {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _: Duration) -> Result<Completion, TransportError> {
        Ok(self.0.answer(cdb, data))
    }

    fn transfer_max(&self) -> usize {
        16 << 20
    }

    fn address(&self) -> &'static str {
        "this process"
    }
}

/// A driver with a tape loaded, and what keeps its drive there.
fn loaded(length: usize, place: Place, protected: bool) -> Result<(Box<dyn TapeDrive>, Option<Way>), String> {
    let drive = NullDrive::new(length)?;
    let (way, transport): (Option<Way>, Box<dyn Transport>) = match place {
        Place::Process => (None, Box::new(Local(drive))),
        Place::Socket => {
            let way = Way::to(Arc::new(drive), DigestWish::Never)?;
            let initiator = way.initiator()?;
            (Some(way), Box::new(initiator))
        }
    };
    let protection = if protected { ProtectionWish::Required } else { ProtectionWish::Off };
    let options = ScsiDriveOptions { protection, ..ScsiDriveOptions::default() };
    let failed = |error: &dyn std::fmt::Display| format!("a drive without a tape: {error}");
    let name = DriveName::new("bench").map_err(|error| failed(&error))?;
    let drive = ScsiDrive::open(name, transport, None, options).map_err(|error| failed(&error))?;
    drive.load(Vid::new("NOTAPE").map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    let handle = drive.take().ok_or_else(|| failed(&"it is taken"))?;
    Ok((handle, way))
}

pub fn writes(length: usize, place: Place, protected: bool) -> Result<Work, String> {
    let (mut drive, way) = loaded(length, place, protected)?;
    let block = vec![7; length];
    Ok(Box::new(move |time| {
        let _target = &way;
        repeat(time, length, || drive.write_block(&block).map(|_| ()).map_err(|error| error.to_string()))
    }))
}

pub fn reads(length: usize, place: Place, protected: bool) -> Result<Work, String> {
    let (mut drive, way) = loaded(length, place, protected)?;
    let mut block = vec![0; length];
    Ok(Box::new(move |time| {
        let _target = &way;
        repeat(time, length, || match drive.read_block(&mut block).map_err(|error| error.to_string())? {
            ReadBlock::Data(read) if read == length => Ok(()),
            other => Err(format!("a block of {length} bytes is {other:?}")),
        })
    }))
}
