//! A cartridge comes and goes, and its partitions are made.

use std::time::Duration;

use ::scsi::command::{FormatKind, Prevention, Stream};
use ::scsi::mode::{ControlDataProtection, MediumPartition, ModeContent, ModePage, ModeParameters};
use ::scsi::position::BlockLimits;
use ::scsi::{Command, Data, Packed, SenseKey, Transport};
use base::{BlockAddress, Partition, TapePosition, Vid};

use super::super::unit::{Failure, Unit};
use super::ability::Abilities;
use super::condition::{READY_WAIT_MAX, Stop};
use super::motion::Measured;
use super::position::PositionSource;
use super::reservation::Hold;
use super::transfer::LENGTH_MAX;
use super::{
    AttentionsSeen, Drive, DriveIdentity, EarlyWarning, Ended, Medium, ScsiDriveOptions, Session, identity,
};
use crate::{DeviceError, DriveName, Sense, TapeError};

/// How long a cartridge may take to be ready: a new LTO-9 cartridge is characterised first, for up to two
/// hours (IBM, "LTO 9 media initialization").
pub const LOAD_WAIT_MAX: Duration = Duration::from_secs(150 * 60);
/// Times that a cartridge is prepared anew because the drive was disturbed meanwhile.
const PREPARATIONS_MAX: u32 = 4;
/// Times that LOAD is sent to a drive that says it has no cartridge, or waits for a command.
const LOADS_MAX: u32 = 2;
/// The index partition in units of 10^9 bytes: the least, which drives round up to what they can (two wraps
/// of LTO). LTFS asks for the same.
const INDEX_PARTITION_SIZE: u16 = 1;
/// What is left.
const ALL_THE_REST: u16 = 0xffff;

impl Drive {
    /// Finds out what is behind a transport, and that it is the drive that was expected.
    pub fn open(
        name: DriveName,
        transport: Box<dyn Transport>,
        expected: Option<&DriveIdentity>,
        options: ScsiDriveOptions,
    ) -> Result<Drive, TapeError> {
        let unit = Unit::new(transport, options.waiter.clone());
        let block_max = unit.transfer_max().min(LENGTH_MAX);
        let mut drive = Drive {
            name,
            unit,
            options,
            identity: expected.cloned().unwrap_or_default(),
            inquiry: ::scsi::Inquiry::default(),
            abilities: Abilities::default(),
            doubt: None,
            disturbed: false,
            handling: false,
            session: None,
            source: PositionSource::Counted,
            protection: None,
            protection_found: None,
            warning_found: None,
            left_by_us: false,
            hold: Hold::None,
            block_limit: LENGTH_MAX,
            block_max,
            seen: AttentionsSeen::default(),
            measured: Measured::default(),
        };
        let (inquiry, found) =
            identity::read(&mut drive.unit).map_err(|failure| drive.failure("inquiry", &failure))?;
        let is_expected = expected.is_none_or(|expected| expected.is(&found));
        let is_someone = !found.serial.is_empty() || !found.designators.is_empty();
        if !identity::is_tape(&inquiry) || !is_expected || !is_someone {
            let source = DeviceError::Sense(Sense::OTHER_DEVICE);
            return Err(TapeError::Path { drive: drive.name, operation: "inquiry", source });
        }
        (drive.inquiry, drive.identity) = (inquiry, found);
        // Conditions from before.
        drive.await_ready(READY_WAIT_MAX)?;
        drive.doubt = None;
        drive.abilities =
            Abilities::probe(&mut drive.unit).map_err(|failure| drive.failure("list commands", &failure))?;
        Ok(drive)
    }

    fn failure(&self, operation: &'static str, failure: &Failure) -> TapeError {
        let (drive, source) = (self.name.clone(), failure.device_error());
        match failure {
            Failure::Conflict => TapeError::Reserved { drive },
            Failure::Busy => TapeError::NotReady { drive, sense: Sense::NOT_READY },
            Failure::Sense(_) | Failure::Strange(_) => TapeError::DriveFailed { drive, operation, source },
            Failure::Lost(..) => TapeError::Path { drive, operation, source },
        }
    }

    /// Takes the cartridge that the robot has put in. It stands at the begin of the index partition then.
    pub fn load(&mut self, vid: Vid) -> Result<Medium, TapeError> {
        let begun = self.begin();
        self.session = Some(Session::new(vid));
        self.handling = true;
        let prepared = self.prepare();
        if prepared.is_ok() {
            self.measure_load(&begun);
        } else {
            // As well as can be: what matters is the error that is there already.
            let _ = self.prevent_removal(Prevention::Allow);
            self.put_back();
            let _ = self.release();
            self.session = None;
        }
        self.handling = false;
        prepared
    }

    fn prepare(&mut self) -> Result<Medium, TapeError> {
        self.doubt = None;
        (self.protection_found, self.warning_found) = (None, None);
        self.check_identity()?;
        // First: a drive that an earlier process of this host has reserved answers nothing else.
        self.reserve()?;
        self.await_loaded()?;
        for _ in 0..PREPARATIONS_MAX {
            self.disturbed = false;
            self.read_block_limits()?;
            self.session()?.partitions = self.count_partitions()?;
            self.choose_early_warning()?;
            self.set_up()?;
            self.move_to_begin()?;
            self.find_position_source()?;
            if self.source == PositionSource::Counted && self.session()?.partitions > 1 {
                // Nobody would know in which of them the tape stands.
                return Err(self.unfit("read position"));
            }
            let medium = self.describe()?;
            if self.disturbed || self.doubt.is_some() {
                self.look()?;
                continue;
            }
            let can_write = medium.access.is_none_or(|access| access.write);
            let session = self.session()?;
            session.write_protected = medium.write_protected || !can_write || medium.is_worm_by_itself;
            session.stands(TapePosition { partition: Partition::Index, block: BlockAddress(0) });
            session.medium = medium.clone();
            return Ok(medium);
        }
        let source = DeviceError::Sense(Sense::INTERNAL_FAILURE);
        Err(TapeError::DriveFailed { drive: self.name.clone(), operation: "load", source })
    }

    /// Waits for the cartridge, and has the drive load it if the robot's hand was not enough.
    fn await_loaded(&mut self) -> Result<(), TapeError> {
        let mut loads = 0;
        loop {
            let error = match self.await_ready(LOAD_WAIT_MAX) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // 04/02: a command is needed.
            let wants_load = match &error {
                TapeError::NotLoaded { .. } => true,
                TapeError::NotReady { sense, .. } => (sense.code, sense.qualifier) == (0x04, 0x02),
                _ => false,
            };
            if !wants_load || loads == LOADS_MAX {
                return Err(error);
            }
            loads += 1;
            match self.quiet("load", &load_unload(true), Data::None) {
                Ok(_) => {}
                Err(Stop::Heard(heard)) if heard.sense.is_medium_missing() => return Err(error),
                Err(stop) => return Err(self.error_of("load", stop)),
            }
        }
    }

    fn read_block_limits(&mut self) -> Result<(), TapeError> {
        let command = Command::from(Stream::ReadBlockLimits { maximum_object: false });
        match self.quiet_answer("read block limits", &command, BlockLimits::LENGTH) {
            Ok(answer) => {
                let limits =
                    BlockLimits::decode(&answer).map_err(|error| self.strange("read block limits", error))?;
                let longest = usize::try_from(limits.longest).unwrap_or(LENGTH_MAX);
                self.block_limit = if longest == 0 { LENGTH_MAX } else { longest };
                Ok(())
            }
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => Ok(()),
            Err(stop) => Err(self.error_of("read block limits", stop)),
        }
    }

    fn partition_page(&mut self) -> Result<Option<(MediumPartition, ModeParameters)>, TapeError> {
        let Some(parameters) = self.mode_page(0x11, 0)? else { return Ok(None) };
        let page = parameters.pages.iter().find_map(|page| match &page.content {
            ModeContent::MediumPartition(page) => Some(page.clone()),
            _ => None,
        });
        Ok(page.map(|page| (page, parameters)))
    }

    /// Partitions that the cartridge has.
    pub fn count_partitions(&mut self) -> Result<u8, TapeError> {
        Ok(self.partition_page()?.map_or(1, |(page, _)| page.additional.saturating_add(1)))
    }

    /// Lets the cartridge go: what was written is flushed, and the robot may take it out.
    pub fn unload(&mut self) -> Result<(Vid, Result<(), TapeError>), TapeError> {
        let Some(session) = &self.session else {
            return Err(TapeError::NotLoaded { drive: self.name.clone() });
        };
        let (vid, owes) = (session.vid, session.unflushed > 0 || session.poisoned);
        let flushed = if owes { self.mark(0).map(|_| ()) } else { Ok(()) };
        self.forget_key();
        self.handling = true;
        let begun = self.begin();
        let gone = self.let_go();
        self.handling = false;
        gone?;
        self.measure_unload(&begun);
        self.session = None;
        Ok((vid, flushed))
    }

    /// Has the drive let go of a cartridge that is in use by nobody here: one that an earlier process left in
    /// it, or that could not be loaded.
    pub fn eject(&mut self) -> Result<(), TapeError> {
        assert!(self.session.is_none(), "a cartridge in use is unloaded");
        self.handling = true;
        // What another host has reserved is in use there. What an earlier process of ours has is taken back.
        let gone = self.reserve().and_then(|()| {
            self.protection_found = self.left_by_us.then(ControlDataProtection::default);
            let sets_warning = self.options.early_warning != EarlyWarning::Own;
            self.warning_found = (self.left_by_us && sets_warning).then_some(0);
            self.let_go()
        });
        if gone.is_err() {
            let _ = self.release();
        }
        self.handling = false;
        gone
    }

    fn let_go(&mut self) -> Result<(), TapeError> {
        match self.open_door() {
            // Somebody was quicker, or the answer of an earlier UNLOAD was lost.
            Ok(()) | Err(TapeError::NotLoaded { .. }) => {}
            // A cleaning cartridge is threaded by nobody: some drives say so to UNLOAD, and let it be taken.
            Err(TapeError::NotReady { sense, .. }) if (sense.code, sense.qualifier) == (0x30, 0x03) => {}
            Err(error) => return Err(error),
        }
        // Not before: should the cartridge stay, blocks still go with their checksums.
        self.put_back();
        // The cartridge is out; a reservation that stays is made anew by the next load.
        let _ = self.release();
        Ok(())
    }

    fn open_door(&mut self) -> Result<(), TapeError> {
        self.look()?;
        self.prevent_removal(Prevention::Allow)?;
        match self.anywhere("unload", &load_unload(false), Data::None) {
            Ok(_) => Ok(()),
            Err(stop) => Err(self.error_of("unload", stop)),
        }
    }

    /// Makes two empty partitions.
    pub fn format(&mut self) -> Result<(), TapeError> {
        self.check_writable()?;
        let session = self.session()?;
        let vid = session.vid;
        if session.medium.worm {
            return Err(TapeError::Worm { vid });
        }
        if session.medium.access.is_some_and(|access| !access.format) {
            return Err(TapeError::WriteProtected { vid });
        }
        self.look()?;
        self.move_to_begin()?;
        self.plan_partitions()?;
        let formatted = self.make_partitions();
        let session = self.session()?;
        (session.unflushed, session.buffer_doubted, session.sure) = (0, false, false);
        session.ends = [None; 2];
        session.warned = [None; 2];
        session.at = TapePosition { partition: Partition::Index, block: BlockAddress(0) };
        formatted?;
        let partitions = self.count_partitions()?;
        if partitions < 2 {
            return Err(self.unfit("format"));
        }
        let session = self.session()?;
        (session.partitions, session.medium.partitions) = (partitions, partitions);
        session.ends = [Some(BlockAddress(0)); 2];
        // A blank cartridge had no data partition whose length could be asked for.
        self.choose_early_warning()?;
        self.set_early_warning()?;
        self.move_to_begin()?;
        self.settle()
    }

    /// Says which partitions are to be made.
    fn plan_partitions(&mut self) -> Result<(), TapeError> {
        let Some((page, parameters)) = self.partition_page()? else { return Err(self.unfit("format")) };
        if page.additional_max == 0 {
            return Err(self.unfit("format"));
        }
        let page = MediumPartition {
            additional: 1,
            fixed: false,
            by_device: false,
            by_initiator: true,
            size_unit: 3,
            unit_exponent: 9,
            clear: false,
            add: false,
            sizes: vec![INDEX_PARTITION_SIZE, ALL_THE_REST],
            ..page
        };
        let pages = vec![ModePage::from(ModeContent::MediumPartition(page))];
        let list = ModeParameters { buffered: parameters.buffered, pages, ..ModeParameters::default() };
        if self.mode_select(&list)? { Ok(()) } else { Err(self.unfit("format")) }
    }

    fn make_partitions(&mut self) -> Result<(), TapeError> {
        let mut refused = None;
        for format in [FormatKind::DefaultThenPartition, FormatKind::Partition] {
            let command =
                Command::from(Stream::FormatMedium { verify: false, immediate: false, format, length: 0 });
            // Not again by itself after a lost answer: it would begin anew what may be under way.
            match self.once("format", &command, Data::None) {
                Ok(_) => return Ok(()),
                Err(Stop::Heard(heard))
                    if heard.sense.key == SenseKey::IllegalRequest && heard.sense.additional.asc == 0x24 =>
                {
                    refused = Some(self.typed("format", &heard.sense));
                }
                Err(stop) => return Err(self.error_of("format", stop)),
            }
        }
        Err(refused.unwrap_or_else(|| self.unfit("format")))
    }

    /// Whether a cartridge is in use.
    pub fn is_loaded(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !matches!(session.ended, Some(Ended::Empty)))
    }
}

fn load_unload(load: bool) -> Command {
    Command::from(Stream::LoadUnload {
        immediate: false,
        hold: false,
        end_of_tape: false,
        retension: false,
        load,
    })
}
