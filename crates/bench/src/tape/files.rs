//! The virtual library as a target: blocks to and from the files of a cartridge.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{ByteCount, Vid};
use iscsi::login::{DigestWish, Name};
use library::{DriveName, Library, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use scsi::command::Stream;
use scsi::{Cdb, Command, Data, Status, Transport};
use vtl::{Options, Target};

use super::driver::Place;
use super::slices::{Work, repeat};
use super::way::{TARGET, Way, name};

/// What is written before the tape is rewound; a drive for each subject, so that none reads what another
/// writes.
const BYTES: u64 = 256 << 20;
/// Nothing takes as long.
const LIMIT: Duration = Duration::from_secs(60);
const DRIVES: u16 = 4;

/// A library of files with a cartridge in each drive.
pub struct Files {
    target: Arc<Target>,
    way: Arc<Way>,
    used: std::cell::Cell<u16>,
}

impl Files {
    pub fn new(directory: &Path) -> Result<Files, String> {
        let failed = |error: &dyn std::fmt::Display| format!("a virtual library: {error}");
        let drive = |number: u16| DriveName::new(&format!("vdrive{number}")).map_err(|error| failed(&error));
        let vid = |number: u16| Vid::new(&format!("KB{number:04}")).map_err(|error| failed(&error));
        let room = ByteCount(2 * BYTES);
        let config = VirtualLibraryConfig {
            drives: (0..DRIVES).map(drive).collect::<Result<_, _>>()?,
            robots: 1,
            cartridges: (0..DRIVES).map(|number| Ok((vid(number)?, room))).collect::<Result<_, String>>()?,
            options: VirtualCartridgeOptions { index_capacity: Some(room), early_warning: None },
            drop_cache: false,
        };
        let library = VirtualLibrary::create(directory, &config).map_err(|error| failed(&error))?;
        for number in 0..DRIVES {
            library.mount(vid(number)?, &drive(number)?).map_err(|error| failed(&error))?;
        }
        let target =
            Target::new(Arc::new(library), Options::new(name(TARGET)?)).map_err(|error| failed(&error))?;
        let way = Arc::new(Way::to(target.clone(), DigestWish::Never)?);
        Ok(Files { target, way, used: std::cell::Cell::new(0) })
    }

    /// Blocks in one direction, by bare commands.
    pub fn commands(&self, length: usize, is_read: bool, place: Place) -> Result<Work, String> {
        let lun = self.used.get() + 1;
        assert!(lun <= DRIVES, "a drive for each subject");
        self.used.set(lun);
        let local: Name = name("iqn.2026-01.org.kist:local")?;
        let mut unit: Box<dyn Transport> = match place {
            Place::Process => {
                let session = self.target.transport(lun, local.as_str());
                Box::new(session.map_err(|error| format!("a session: {error}"))?)
            }
            Place::Socket => Box::new(self.way.initiator_of(lun)?),
        };
        let mut block = vec![0x5a; length];
        let bytes = u32::try_from(length).map_err(|error| error.to_string())?;
        let encoded = |command: Stream| Command::from(command).encode().map_err(|error| error.to_string());
        let rewind = encoded(Stream::Rewind { immediate: false })?;
        let write = encoded(Stream::Write6 { fixed: false, length: bytes })?;
        let read = encoded(Stream::Read6 { suppress: false, fixed: false, length: bytes })?;
        // What is there to be read; and what is new to a session is told first.
        while send(unit.as_mut(), &rewind, Data::None).is_err() {}
        for _ in 0..BYTES / length as u64 {
            send(unit.as_mut(), &write, Data::Out(&block))?;
        }
        let mut left = 0;
        let way = Arc::clone(&self.way);
        Ok(Box::new(move |time| {
            let _target = &way;
            repeat(time, length, || {
                if left == 0 {
                    send(unit.as_mut(), &rewind, Data::None)?;
                    left = BYTES / length as u64;
                }
                left -= 1;
                match is_read {
                    true => send(unit.as_mut(), &read, Data::In(&mut block)),
                    false => send(unit.as_mut(), &write, Data::Out(&block)),
                }
            })
        }))
    }
}

fn send(unit: &mut dyn Transport, cdb: &Cdb, data: Data<'_>) -> Result<(), String> {
    let done = unit.execute(cdb, data, LIMIT).map_err(|error| error.to_string())?;
    match done.status {
        Status::Good => Ok(()),
        other => Err(format!("the virtual library ends a command with {other:?}")),
    }
}
