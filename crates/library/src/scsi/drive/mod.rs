//! A tape drive behind SCSI.
//!
//! [`Drive`] is the drive itself, used by one thread at a time: `condition` says what answers mean and what
//! is done about doubts, `position` where the tape stands, `transfer` moves records, `load` and `setting`
//! prepare a cartridge, `encryption` sets its key, `memory`, `order` and `health` ask for the rest, `motion`
//! measures what it all takes. `handle` is what the library and the mover share of it.

mod ability;
mod cleaning;
mod compatibility;
mod condition;
mod encryption;
mod handle;
mod health;
mod identity;
mod load;
mod medium;
mod memory;
mod motion;
mod order;
mod plant;
mod position;
mod reservation;
mod setting;
mod transfer;

use std::fmt;
use std::sync::Arc;

use ::scsi::Inquiry;
use ::scsi::lbp::BlockProtection;
use ::scsi::mode::ControlDataProtection;
use ::scsi::reservation::ReservationKey;
use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};

use super::unit::Unit;
use crate::{DriveName, Sense, SleepingWaiter, TapeError, Waiter};
use ability::Abilities;
use encryption::InUse;
use motion::Measured;
use position::PositionSource;
use reservation::Hold;

pub(in crate::scsi) use ability::words as ability_words;
pub use compatibility::{Cartridge, CartridgeAccess, DriveGeneration};
pub use handle::{ScsiDrive, Unloaded};
pub use health::PartitionSpace;
pub use identity::DriveIdentity;
pub use medium::Medium;
pub use motion::TimedLocate;
pub use plant::Planted;

/// Whether blocks carry a checksum between host and tape (logical block protection).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProtectionWish {
    /// They do not.
    Off,
    /// They do if the drive can.
    #[default]
    IfOffered,
    /// A drive that cannot is not used.
    Required,
}

/// When writes begin to warn of the end of a partition, where a drive can be told (programmable early
/// warning, SSC-5): so long before the drive's own early warning, which each drive has where its maker has
/// put it. Drives take 65,535 MB at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EarlyWarning {
    /// With the drive's own early warning.
    #[default]
    Own,
    /// So many bytes before it.
    Bytes(ByteCount),
    /// By so large a part of what the data partition of the cartridge holds, the whole divided by this
    /// number. A cartridge of which the drive does not tell that, or of which the part is less than `least`,
    /// is as with [`EarlyWarning::Own`]: on a small one the drive's own warning takes more than the part, and
    /// two of them would leave no room for what was chosen by what is left.
    Part {
        /// What the whole is divided by.
        part: u64,
        /// The least of which it is worth it.
        least: ByteCount,
    },
}

/// How a drive is used.
#[derive(Clone, Debug)]
pub struct ScsiDriveOptions {
    /// The key by which this host reserves the drive while a cartridge is loaded: another one for each host.
    /// `None`: the drive is not reserved.
    pub reservation_key: Option<ReservationKey>,
    /// While the drive is reserved, only the first write after another command is preceded by the question
    /// where the tape stands, and each flush followed by it. Otherwise each write is: it costs a short
    /// command, and finds a tape that was moved before a block is written over.
    pub trusts_reservation: bool,
    /// Checksums of blocks.
    pub protection: ProtectionWish,
    /// When writes begin to warn of the end of a partition.
    pub early_warning: EarlyWarning,
    /// Whether the drive compresses. `None`: as it does by itself.
    pub compression: Option<bool>,
    /// Lets time go by.
    pub waiter: Arc<dyn Waiter>,
}

impl Default for ScsiDriveOptions {
    fn default() -> Self {
        ScsiDriveOptions {
            reservation_key: None,
            trusts_reservation: false,
            protection: ProtectionWish::default(),
            early_warning: EarlyWarning::Own,
            compression: None,
            waiter: Arc::new(SleepingWaiter::new()),
        }
    }
}

/// What a drive has been through since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AttentionsSeen {
    /// Unit attentions that meant nothing for the tape.
    pub swallowed: u64,
    /// Unit attentions after which identity, reservation, settings and position were looked at.
    pub looked_into: u64,
    /// Unit attentions that ended the use of a cartridge.
    pub obeyed: u64,
    /// Commands without an answer.
    pub answers_lost: u64,
    /// Times that a lost answer was made good by asking where the tape stands.
    pub answers_proven: u64,
    /// Times that a cartridge was closed for writes because something could not be proven.
    pub poisoned: u64,
}

/// What happened that leaves something to be looked at before the next command, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Doubt {
    /// Settings, reservations or what the drive is may have changed.
    Settings,
    /// A command may have been carried out, or the way to the drive was another for a while.
    Way,
    /// The drive was reset: what it had buffered may be gone.
    Reset,
}

/// A cartridge in the drive.
struct Session {
    vid: Vid,
    /// Where the tape is to stand by what was asked for.
    at: TapePosition,
    /// Whether it is known to stand there.
    sure: bool,
    /// The last movement was a write or a flush whose end is known: without it the drive is asked where the
    /// tape stands before something is written.
    writing: bool,
    /// Objects written since the last flush.
    unflushed: u64,
    /// Where the data of each partition end, if that is known: behind what was written last, or where it was
    /// found.
    ends: [Option<BlockAddress>; 2],
    /// The drive was reset, or ran into the end: that it still has what it had buffered must be proven.
    buffer_doubted: bool,
    /// Nothing more is written.
    poisoned: bool,
    /// The cartridge may be another one, or its use was taken over: nothing more is done with it.
    ended: Option<Ended>,
    write_protected: bool,
    /// Partitions that the cartridge has.
    partitions: u8,
    /// Where each partition began to warn of its end.
    warned: [Option<BlockAddress>; 2],
    /// The programmable early warning that is to be set, in megabytes; `None`: none is.
    warning_wish: Option<u16>,
    /// The drive has it.
    is_warning_set: bool,
    medium: Medium,
    /// How blocks are encrypted.
    encryption: Option<InUse>,
    /// Blocks were to be encrypted before.
    had_key: bool,
    /// How they are to be encrypted could not be set: nothing is written.
    is_unsettled: bool,
}

/// Why a session takes no more commands.
#[derive(Clone, Copy, Debug)]
enum Ended {
    /// The cartridge may have changed, or what the drive is.
    Changed(Sense),
    /// Another host has taken the drive.
    Taken,
    /// Somebody took the cartridge out.
    Empty,
}

/// A drive, and what is in it.
struct Drive {
    name: DriveName,
    unit: Unit,
    options: ScsiDriveOptions,
    identity: DriveIdentity,
    inquiry: Inquiry,
    abilities: Abilities,
    /// What must be looked at before the next command.
    doubt: Option<Doubt>,
    /// Something was in doubt since this was last cleared.
    disturbed: bool,
    /// A load or unload is under way: that the cartridge changed is no surprise.
    handling: bool,
    session: Option<Session>,
    source: PositionSource,
    /// The checksum that blocks carry now.
    protection: Option<BlockProtection>,
    /// How checksums of blocks were set at the load: set again when the cartridge has gone.
    protection_found: Option<ControlDataProtection>,
    /// The programmable early warning that was set at the load, in megabytes: as with the checksums.
    warning_found: Option<u16>,
    /// At the load an earlier process of this host still had the drive: what is set in it is of that one.
    left_by_us: bool,
    /// How the drive is kept from other hosts.
    hold: Hold,
    /// The longest block in bytes that the drive takes, with its checksum.
    block_limit: usize,
    /// The longest block in bytes, without its checksum.
    block_max: usize,
    seen: AttentionsSeen,
    measured: Measured,
}

/// The index of a partition in arrays of two.
fn index_of(partition: Partition) -> usize {
    usize::from(partition.scsi_number())
}

/// The partition of a number.
fn partition_of(number: u32) -> Option<Partition> {
    [Partition::Index, Partition::Data].into_iter().find(|one| u32::from(one.scsi_number()) == number)
}

impl Session {
    fn new(vid: Vid) -> Session {
        Session {
            vid,
            at: TapePosition { partition: Partition::Index, block: BlockAddress(0) },
            sure: false,
            writing: false,
            unflushed: 0,
            ends: [None; 2],
            buffer_doubted: false,
            poisoned: false,
            ended: None,
            write_protected: false,
            partitions: 1,
            warned: [None; 2],
            warning_wish: None,
            is_warning_set: false,
            medium: Medium::default(),
            encryption: None,
            had_key: false,
            is_unsettled: false,
        }
    }

    /// Whether the cartridge lacks the partition that the tape is to stand in: one that was never formatted
    /// for LTFS has one partition. What is missing is empty, and full.
    fn is_missing(&self, partition: Partition) -> bool {
        partition.scsi_number() >= self.partitions
    }

    /// The tape stands here, which was asked for or proven.
    fn stands(&mut self, at: TapePosition) {
        (self.at, self.sure, self.writing) = (at, true, false);
    }

    /// Whether a tape that stands elsewhere shows that objects are gone, or more than there should be.
    fn shows_loss(&self) -> bool {
        self.unflushed > 0 && self.is_at_end()
    }

    /// Whether the tape is to stand at the end of data of its partition.
    fn is_at_end(&self) -> bool {
        self.ends.get(index_of(self.at.partition)).is_some_and(|end| *end == Some(self.at.block))
    }

    /// The data of the partition end where the tape is to stand.
    fn ends_here(&mut self) {
        if let Some(end) = self.ends.get_mut(index_of(self.at.partition)) {
            *end = Some(self.at.block);
        }
    }

    /// The tape moved over so many objects.
    fn passed(&mut self, objects: u64) {
        self.at.block.0 += objects;
    }

    /// Whether the tape stands where its partition has warned of the end.
    fn is_near_end(&self) -> bool {
        self.warned.get(index_of(self.at.partition)).copied().flatten().is_some_and(|at| self.at.block >= at)
    }

    /// The partition warns from here on.
    fn warn(&mut self, from: BlockAddress) {
        if let Some(warned) = self.warned.get_mut(index_of(self.at.partition)) {
            *warned = Some(warned.map_or(from, |known| known.min(from)));
        }
    }
}

impl Drive {
    /// The cartridge, if it may be used.
    fn session(&mut self) -> Result<&mut Session, TapeError> {
        let drive = || self.name.clone();
        match &mut self.session {
            None => Err(TapeError::NotLoaded { drive: drive() }),
            Some(Session { ended: Some(ended), .. }) => Err(match *ended {
                Ended::Changed(sense) => TapeError::Interrupted { drive: drive(), sense },
                Ended::Taken => TapeError::Reserved { drive: drive() },
                Ended::Empty => TapeError::NotLoaded { drive: drive() },
            }),
            Some(session) => Ok(session),
        }
    }

    /// Closes the cartridge for writes.
    fn poison(&mut self) {
        if let Some(session) = &mut self.session {
            self.seen.poisoned += u64::from(!session.poisoned);
            (session.poisoned, session.sure) = (true, false);
        }
    }

    /// Ends the use of the cartridge.
    fn end(&mut self, why: Ended) {
        self.poison();
        if let Some(session) = &mut self.session {
            self.seen.obeyed += u64::from(session.ended.is_none());
            session.ended = Some(why);
        }
    }

    /// Something is to be looked at before the next command.
    fn doubt(&mut self, doubt: Doubt) {
        self.doubt = self.doubt.max(Some(doubt));
        self.disturbed = true;
        if let Some(session) = &mut self.session {
            session.sure = false;
            session.buffer_doubted |= doubt == Doubt::Reset;
            if let Some(in_use) = &mut session.encryption {
                in_use.is_in_doubt();
            }
        }
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drive({} at {})", self.name, self.unit.address())
    }
}
