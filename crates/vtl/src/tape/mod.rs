//! A tape drive as a logical unit (SSC-5).

mod cleaning;
mod encryption;
mod format;
mod log;
mod medium;
mod memory;
mod mode;
mod motion;
mod order;
mod transfer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use base::{BlockAddress, Partition, TapePosition};
use iscsi::target::Nexus;
use library::{DriveName, LibraryError, ReadBlock, TapeDrive, TapeError};
use scsi::command::Stream;
use scsi::sense::SenseFormat;
use scsi::vpd::VpdPage;
use scsi::{Command, CommandSet, DeviceType, ElementAddress, Sense, SenseKey};

use self::cleaning::Cleaning;
use self::encryption::Encryption;
use self::medium::{Medium, Object};
use self::mode::Settings;
use crate::answer::{Outcome, Refusal};
use crate::gate::{Gate, MEDIUM_CHANGED};
use crate::options::{Blank, Options};
use crate::primary::{Common, ISCSI, Identity, MISSING, SAM, SPC, SSC};
use crate::target::Shared;

/// The attribute in which this target keeps how many partitions initiators see, in the vendor's range of the
/// host: it is not listed.
const PARTITIONS_ATTRIBUTE: u16 = 0x17fe;

/// A drive.
pub struct Drive {
    pub name: DriveName,
    pub address: ElementAddress,
    pub gate: Gate,
    pub identity: Identity,
    pub encryption: Encryption,
    pub cleaning: Cleaning,
    tape: Mutex<Tape>,
    /// A cartridge is being loaded or unloaded: who holds the tape does that.
    is_moving: AtomicBool,
    /// The session whose command runs.
    running: AtomicU64,
    /// Nobody waits for the command that runs.
    aborted: AtomicBool,
    /// Sense data is in descriptor format: as the settings say, for those that do not hold the tape.
    descriptor_sense: AtomicBool,
    missing: Vec<(u8, Option<u16>)>,
}

/// What commands change, one after the other.
pub struct Tape {
    drive: Box<dyn TapeDrive>,
    /// What is loaded.
    medium: Option<Medium>,
    /// It was unloaded and stays threaded: LOAD UNLOAD with HOLD.
    is_held: bool,
    settings: Settings,
    moved: log::Moved,
    /// The order that was recommended last.
    order: Option<order::Recommended>,
    /// The key instance counter of what the drive below encrypts with; `None`: nothing was set since the
    /// cartridge was loaded.
    encryption_applied: Option<u32>,
    /// For blocks that do not fit the initiator's buffer, at most [`transfer::BLOCK_MAX`] bytes with the
    /// checksum.
    scratch: Vec<u8>,
}

impl Drive {
    pub fn new(
        handle: Box<dyn TapeDrive>,
        number: usize,
        address: ElementAddress,
        options: &Options,
    ) -> Drive {
        let serial = format!("{}D{number:02}", options.serial);
        let identity = Identity {
            device_type: DeviceType::Tape,
            vendor: options.vendor,
            product: options.drive_product,
            revision: options.revision,
            serial: serial.clone(),
            more: vec![
                VpdPage::SequentialAccess { worm: false, mirroring: false },
                VpdPage::ManufacturerSerial(serial.into_bytes()),
                VpdPage::TapeAlertSupported([0xff; 8]),
                VpdPage::AutomationSerial(options.serial.clone().into_bytes()),
                VpdPage::DataTransferElement(address),
            ],
            standards: [SAM, SPC, ISCSI, SSC, 0, 0, 0, 0],
        };
        let mut missing = MISSING.to_vec();
        // SET CAPACITY and ERASE: the library's cartridges end where they were made to end, and what stands
        // on them goes only by a write or a format.
        missing.extend([(0x0b, None), (0x19, None), (0x80, None), (0x82, None)]);
        if !options.geometry {
            missing.extend([(0xa3, Some(0x1d)), (0xa3, Some(0x1f)), (0xa4, None)]);
        }
        let tape = Tape {
            drive: handle,
            medium: None,
            is_held: false,
            settings: Settings::default(),
            moved: log::Moved::new(options.cleaning_after),
            order: None,
            encryption_applied: None,
            scratch: Vec::new(),
        };
        let name = tape.drive.id().clone();
        Drive {
            name,
            address,
            gate: Gate::default(),
            identity,
            encryption: Encryption::default(),
            cleaning: Cleaning::default(),
            tape: Mutex::new(tape),
            is_moving: AtomicBool::new(false),
            running: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
            descriptor_sense: AtomicBool::new(false),
            missing,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tape, if no command has it.
    pub fn lock_if_free(&self) -> Option<MutexGuard<'_, Tape>> {
        match self.tape.try_lock() {
            Ok(tape) => Some(tape),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// How sense data is laid out.
    pub fn format(&self) -> SenseFormat {
        match self.descriptor_sense.load(Ordering::Relaxed) {
            true => SenseFormat::Descriptor,
            false => SenseFormat::Fixed,
        }
    }

    /// Nobody waits for the command of a session: if it runs, and takes long, it ends.
    pub fn abort(&self, nexus: &Nexus) {
        if self.running.load(Ordering::Relaxed) == nexus.id.0 {
            self.aborted.store(true, Ordering::Relaxed);
        }
    }

    /// Does something that takes as long as a cartridge takes to be loaded: meanwhile the unit says that it
    /// becomes ready.
    fn moving<T>(&self, run: impl FnOnce() -> T) -> T {
        self.is_moving.store(true, Ordering::Relaxed);
        let result = run();
        self.is_moving.store(false, Ordering::Relaxed);
        result
    }

    /// Logical unit reset: settings are the defaults again, the tape stands at its begin.
    pub fn reset(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        let mut tape = self.lock();
        tape.settings = Settings::default();
        self.encryption.reset();
        self.descriptor_sense.store(false, Ordering::Relaxed);
        tape.order = None;
        if tape.medium.is_some() {
            // If it cannot, the next command says why.
            let begin = TapePosition { partition: tape.first_partition(), block: BlockAddress(0) };
            let _ = tape.drive.locate(begin);
        }
        self.gate.reset();
    }

    /// The library brings a cartridge, for the changer or for LOAD UNLOAD. `nexus`: who asked for it by LOAD
    /// UNLOAD, who needs not to be told.
    pub fn load(&self, shared: &Shared, vid: base::Vid, nexus: Option<&Nexus>) -> Result<(), LibraryError> {
        let mut tape = self.lock();
        self.moving(|| shared.library.mount(vid, &self.name))?;
        tape.loaded(shared, vid);
        self.gate.tell_others(nexus, MEDIUM_CHANGED);
        Ok(())
    }

    /// The unit for the commands that are alike.
    pub fn common<'a>(&'a self, shared: &'a Shared) -> Common<'a> {
        Common {
            identity: &self.identity,
            gate: &self.gate,
            set: CommandSet::Stream,
            luns: &shared.luns,
            missing: &self.missing,
        }
    }

    /// Moves the tape so many objects, unless it cannot.
    #[cfg(feature = "faults")]
    pub fn shift(&self, by: i64) {
        let mut tape = self.lock();
        if let Ok(at) = tape.position() {
            let block = BlockAddress(at.block.0.saturating_add_signed(by));
            let _ = tape.drive.locate(TapePosition { block, ..at });
        }
    }

    /// Takes over what is in the drive already.
    pub fn take_over(&self, shared: &Shared, vid: base::Vid) {
        self.lock().loaded(shared, vid);
    }

    /// Unloads, for the end of the program.
    pub fn close(&self, shared: &Shared) -> Result<(), LibraryError> {
        self.lock().unmount(self, shared, false)
    }

    /// Unloads, for the changer.
    pub fn unload(&self, shared: &Shared) -> Result<(), Refusal> {
        let mut tape = self.lock();
        tape.unload(self, shared, false)
    }

    /// Carries a command out.
    pub fn execute(
        &self,
        shared: &Shared,
        held: Option<MutexGuard<'_, Tape>>,
        nexus: &Nexus,
        command: &Command,
        out: &[u8],
        into: &mut [u8],
    ) -> Outcome {
        if let Command::Primary(primary) = command
            && let Some(outcome) = self.common(shared).execute(nexus, primary, out, into)
        {
            return outcome;
        }
        if self.is_moving.load(Ordering::Relaxed) {
            return Err(Refusal::new(SenseKey::NotReady, 0x04, 0x01));
        }
        if let Some(refusal) = self.cleaning.refusal(command) {
            return Err(refusal);
        }
        let mut tape = held.unwrap_or_else(|| self.lock());
        self.aborted.store(false, Ordering::Relaxed);
        self.running.store(nexus.id.0, Ordering::Relaxed);
        let mut run = Run { drive: self, shared, nexus, out, into };
        match command {
            Command::Primary(primary) => tape.primary(&mut run, primary),
            Command::Stream(stream) => tape.stream(&mut run, stream),
            Command::Changer(_) => Err(Refusal::illegal(0x20, 0)),
        }
    }
}

/// A command under way.
pub struct Run<'a> {
    drive: &'a Drive,
    shared: &'a Shared,
    nexus: &'a Nexus,
    out: &'a [u8],
    into: &'a mut [u8],
}

impl Run<'_> {
    /// Ends a command that takes long if nobody waits for it (B/00/06, I/O process terminated).
    fn goes_on(&self) -> Result<(), Refusal> {
        if self.drive.aborted.load(Ordering::Relaxed) {
            return Err(Refusal::new(SenseKey::AbortedCommand, 0x00, 0x06));
        }
        Ok(())
    }
}

impl Tape {
    fn primary(&mut self, run: &mut Run<'_>, command: &scsi::command::Primary) -> Outcome {
        use scsi::command::Primary as P;
        match command {
            P::TestUnitReady => self.medium().map(|_| 0),
            P::ModeSense6 { .. } | P::ModeSense10 { .. } => self.mode_sense(run, command),
            P::ModeSelect6 { .. } | P::ModeSelect10 { .. } => self.mode_select(run, command),
            P::LogSense { .. } => self.log_sense(run, command),
            &P::LogSelect { reset, save, page, subpage, length, .. } => {
                self.log_select(run, (reset, save), (page, subpage), length)
            }
            P::ReadAttribute { .. } => self.read_attribute(run, command),
            P::WriteAttribute { .. } => self.write_attribute(run, command),
            P::SecurityProtocolIn { .. } => self.security_in(run, command),
            P::SecurityProtocolOut { .. } => self.security_out(run, command),
            _ => Err(Refusal::illegal(0x20, 0)),
        }
    }

    fn stream(&mut self, run: &mut Run<'_>, command: &Stream) -> Outcome {
        match *command {
            Stream::Read6 { suppress, fixed, length } => self.read(run, suppress, fixed, length),
            Stream::Write6 { fixed, length } => self.write(run, fixed, length),
            Stream::WriteFilemarks6 { count, .. } => self.write_filemarks(count),
            Stream::Rewind { .. } => self.rewind(),
            Stream::Space6 { code, count } | Stream::Space16 { code, count, length: 0 } => {
                self.space(run, code, count)
            }
            Stream::Space16 { .. } => Err(Refusal::field(12)),
            // An address in the vendor's form is what READ POSITION gave in it: an object as well.
            Stream::Locate10 { change_partition, object, partition, .. } => {
                let to = change_partition.then_some((partition, 8));
                self.locate_object(to, u64::from(object))
            }
            Stream::Locate16 { destination, change_partition, partition, object, .. } => {
                let to = change_partition.then_some((partition, 3));
                self.locate(run, destination, to, object)
            }
            Stream::ReadPosition { form, allocation_length } => {
                self.read_position(run, form, allocation_length)
            }
            Stream::ReadBlockLimits { maximum_object } => transfer::block_limits(run, maximum_object),
            Stream::LoadUnload { hold, end_of_tape, load, .. } => {
                self.load_unload(run, load, hold, end_of_tape)
            }
            Stream::FormatMedium { format, length, .. } => self.format_medium(run, format, length),
            Stream::ReportDensitySupport { medium_type, medium, allocation_length } => {
                self.report_density(run, medium_type, medium, allocation_length)
            }
            Stream::GenerateRao { process, length, .. } => self.generate_order(run, process, length),
            Stream::ReceiveRao { limits, offset, allocation_length, .. } => {
                self.receive_order(run, limits, offset, allocation_length)
            }
            Stream::ReadEndOfWrapPosition { wrap_valid, all, wrap, allocation_length } => {
                self.end_of_wraps(run, (wrap_valid, wrap), all, allocation_length)
            }
            // The table of what is missing has them.
            Stream::WriteFilemarks16 { .. }
            | Stream::AllowOverwrite { .. }
            | Stream::Erase6 { .. }
            | Stream::SetCapacity { .. } => Err(Refusal::illegal(0x20, 0)),
        }
    }

    /// What is loaded.
    ///
    /// # Errors
    /// 2/3A/00; 2/04/02 if the cartridge is held and waits for LOAD UNLOAD.
    fn medium(&mut self) -> Result<&mut Medium, Refusal> {
        match &mut self.medium {
            Some(medium) => Ok(medium),
            None if self.is_held => Err(Refusal::new(SenseKey::NotReady, 0x04, 0x02)),
            None => Err(Refusal::no_medium()),
        }
    }

    fn position(&mut self) -> Result<TapePosition, Refusal> {
        self.medium()?;
        Ok(self.drive.position()?)
    }

    /// The partition that initiators know as 0.
    fn first_partition(&self) -> Partition {
        self.medium.as_ref().and_then(|medium| medium.partition(0)).unwrap_or(Partition::Data)
    }

    /// A cartridge was loaded: what it is, and where the tape stands.
    fn loaded(&mut self, shared: &Shared, vid: base::Vid) {
        let inventory = shared.library.inventory().unwrap_or_default();
        let info = inventory.iter().find(|info| info.vid == vid);
        let capacity = info.map(|info| info.capacity).unwrap_or_default();
        let write_protected = info.is_some_and(|info| info.write_protected);
        let partitions = self.partitions_of(shared.options.blank);
        self.medium = Some(Medium::new(vid, partitions, capacity, write_protected));
        self.is_held = false;
        self.order = None;
        self.encryption_applied = None;
        self.moved.since_load();
        let begin = TapePosition { partition: self.first_partition(), block: BlockAddress(0) };
        if self.drive.position().ok() != Some(begin) {
            // If it cannot, the first command says why.
            let _ = self.drive.locate(begin);
        }
    }

    /// How many partitions initiators see on what was loaded: what this target has formatted keeps what it
    /// was given, what holds nothing is as the options say, and an index partition with something on it is
    /// one.
    fn partitions_of(&mut self, blank: Blank) -> u8 {
        let kept = self.drive.read_attribute(Partition::Index, PARTITIONS_ATTRIBUTE);
        if let Ok(Some(value)) = kept
            && let [number @ 1..=2] = value[..]
        {
            return number;
        }
        if blank == Blank::TwoPartitions {
            return 2;
        }
        let index = self.drive.space_to_end_of_data(Partition::Index);
        if index.is_ok_and(|end| end.block > BlockAddress(0)) { 2 } else { 1 }
    }

    /// Unloads: the cartridge is in the drive still, where the robot gets at it, or is held.
    fn unload(&mut self, drive: &Drive, shared: &Shared, hold: bool) -> Result<(), Refusal> {
        if drive.gate.is_prevented() {
            return Err(Refusal::illegal(0x53, 0x02));
        }
        self.unmount(drive, shared, hold).map_err(Refusal::from)
    }

    fn unmount(&mut self, drive: &Drive, shared: &Shared, hold: bool) -> Result<(), LibraryError> {
        if self.medium.is_none() {
            return Ok(());
        }
        let unmounted = drive.moving(|| shared.library.unmount(&drive.name));
        // A flush that failed is told, and the tape is unloaded nevertheless.
        if matches!(unmounted, Ok(_) | Err(LibraryError::UnmountFlush { .. })) {
            self.medium = None;
            self.order = None;
            drive.encryption.unloaded();
            self.encryption_applied = None;
            self.is_held = hold;
            shared.elements().unloaded(drive.address);
        }
        unmounted.map(drop)
    }

    /// What stands somewhere. The tape may have moved.
    fn object(&mut self, at: TapePosition) -> Result<Object, Refusal> {
        if let Some(known) = self.medium()?.marks(at.partition).object(at.block.0) {
            return Ok(known);
        }
        match self.drive.locate(at) {
            Err(TapeError::BeyondEndOfData { .. }) => return Ok(Object::EndOfData),
            located => located?,
        }
        let found = match self.drive.read_block(&mut []) {
            Ok(ReadBlock::FileMark) => Object::Filemark,
            Ok(ReadBlock::EndOfData) => Object::EndOfData,
            // What cannot be read is a block still.
            Ok(ReadBlock::Data(_)) | Err(TapeError::BufferTooSmall { .. } | TapeError::Unreadable { .. }) => {
                Object::Record
            }
            Err(error) if error.is_of_the_key() => Object::Record,
            Err(error) => return Err(error.into()),
        };
        if found != Object::EndOfData {
            self.medium()?.marks(at.partition).saw(at.block.0, found == Object::Filemark);
        }
        Ok(found)
    }
}

/// BLANK CHECK at the end of data (8/00/05).
fn end_of_data() -> Refusal {
    Sense::new(SenseKey::BlankCheck, 0x00, 0x05).into()
}

/// A filemark that was met (0/00/01, FILEMARK).
fn filemark() -> Refusal {
    Sense { filemark: true, ..Sense::new(SenseKey::NoSense, 0x00, 0x01) }.into()
}

/// The longest transfer of a command: a block with its checksum, or several.
pub const TRANSFER_MAX: usize = 16 << 20;
const _: () = assert!(TRANSFER_MAX > transfer::BLOCK_MAX);
