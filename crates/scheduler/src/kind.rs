//! Reasons for programs: a word for each kind, and what each one names.

use base::{Timestamp, Vid};

use crate::{CleaningBar, DriveName, Reason};

impl Reason {
    /// The kind in one word, for programs; it never changes its meaning.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::NothingWaits => "nothing-waits",
            Reason::NoPolicy => "no-policy",
            Reason::WaitingForBytes { .. } => "waiting-for-bytes",
            Reason::Sealing => "sealing",
            Reason::Mounting { .. } => "mounting",
            Reason::Writing { .. } => "writing",
            Reason::Reading { .. } => "reading",
            Reason::Checking { .. } => "checking",
            Reason::Unmounting { .. } => "unmounting",
            Reason::Cleaning { .. } => "cleaning",
            Reason::ToBeCleaned { .. } => "to-be-cleaned",
            Reason::TapeInUse { .. } => "tape-in-use",
            Reason::NoScratchTape | Reason::OnlyEmptyTapes { .. } | Reason::NoTapeAtHand { .. } => {
                "no-scratch-tape"
            }
            Reason::LargerThanTapes { .. } => "larger-than-tapes",
            Reason::PoolFull => "pool-full",
            Reason::TooFewPoolDrives { .. } => "too-few-pool-drives",
            Reason::Lost => "lost",
            Reason::CatalogueFull => "catalogue-full",
            Reason::NoDriveKnown => "no-drive-known",
            Reason::AllDrivesDown { .. } => "all-drives-down",
            Reason::NoDrive { .. } => "waiting-for-drive",
            Reason::DrivesMax { .. } => "drives-max",
            Reason::TapeNotReadable { .. } => "tape-not-readable",
            Reason::NoReadableCopy { .. } => "no-readable-copy",
            Reason::Resting { .. } => "resting",
            Reason::HostCannotWrite { .. } => "host-cannot-write",
            Reason::ReadElsewhere { .. } => "read-elsewhere",
            Reason::NotHeardYet { .. } => "not-heard-yet",
            Reason::TapeAway { .. } => "tape-away",
            Reason::KeyMissing { .. } => "key-missing",
            Reason::InSlot => "in-slot",
            Reason::KeptMounted { .. } => "kept-mounted",
            Reason::DriveDown { .. } => "drive-down",
            Reason::DriveRetiring { .. } => "drive-retiring",
            Reason::WaitingForSpace { .. } => "waiting-for-space",
            Reason::RoomIsBeingMade { .. } => "room-is-being-made",
            Reason::WaitingForIndex { .. } => "waiting-for-index",
            Reason::OwnPinsHoldPool { .. } => "own-pins-hold-pool",
            Reason::NoRoomForReads { .. } => "no-room-for-reads",
            Reason::BeingMended { .. } => "being-mended",
            Reason::TapeSetAside { .. } => "tape-set-aside",
            Reason::WaitingForStream { .. } => "waiting-for-stream",
            Reason::WaitingForRobot { .. } => "waiting-for-robot",
            Reason::ShareDrivesMax { .. } => "share-drives-max",
            Reason::SideDrivesMax { .. } => "side-drives-max",
            Reason::OpenTapesMax { .. } => "open-tapes-max",
            Reason::JustUnmounted { .. } => "just-unmounted",
            Reason::NoDriveInLibrary { .. } => "no-drive-in-library",
            Reason::PoolsLibraryDown { .. } => "pools-library-down",
            Reason::DrivesLook { .. } => "drives-look",
            Reason::DriveLooks { .. } => "drive-looks",
        }
    }

    /// Whether it lasts until somebody does something about it.
    #[must_use]
    pub fn needs_an_operator(&self) -> bool {
        match self {
            Reason::NoPolicy
            | Reason::NoScratchTape
            | Reason::OnlyEmptyTapes { .. }
            | Reason::NoTapeAtHand { .. }
            | Reason::LargerThanTapes { .. }
            | Reason::PoolFull
            | Reason::TooFewPoolDrives { .. }
            | Reason::Lost
            | Reason::CatalogueFull
            | Reason::NoDriveKnown
            | Reason::AllDrivesDown { .. }
            | Reason::TapeNotReadable { .. }
            | Reason::NoDriveInLibrary { .. }
            | Reason::PoolsLibraryDown { .. }
            | Reason::WaitingForSpace { .. }
            | Reason::OwnPinsHoldPool { .. }
            | Reason::NoRoomForReads { goes_on: false, .. }
            | Reason::TapeSetAside { .. }
            | Reason::TapeAway { .. }
            | Reason::KeyMissing { .. }
            | Reason::HostCannotWrite { .. }
            | Reason::NoReadableCopy { .. } => true,
            Reason::DrivesMax { limit }
            | Reason::ShareDrivesMax { limit, .. }
            | Reason::SideDrivesMax { limit, .. } => *limit == 0,
            Reason::DriveDown { retry, .. } => retry.is_none(),
            Reason::ToBeCleaned { bar, .. } => {
                matches!(bar, CleaningBar::NoCartridge | CleaningBar::Lately { .. })
            }
            Reason::BeingMended { cause, .. } => cause.needs_an_operator(),
            _ => false,
        }
    }

    /// The tapes that it names, in its order.
    #[must_use]
    pub fn vids(&self) -> Vec<Vid> {
        match self {
            Reason::Mounting { vid, .. }
            | Reason::Writing { vid, .. }
            | Reason::Reading { vid, .. }
            | Reason::Checking { vid, .. }
            | Reason::Unmounting { vid, .. }
            | Reason::Cleaning { vid, .. }
            | Reason::TapeInUse { vid, .. }
            | Reason::KeptMounted { vid, .. }
            | Reason::JustUnmounted { vid, .. }
            | Reason::NoDriveInLibrary { vid }
            | Reason::NotHeardYet { vid }
            | Reason::TapeAway { vid, .. }
            | Reason::WaitingForIndex { vid, .. }
            | Reason::TapeSetAside { vid, .. }
            | Reason::TapeNotReadable { vid, .. } => vec![*vid],
            Reason::NoReadableCopy { tapes } => tapes.iter().map(|(vid, _)| *vid).collect(),
            Reason::ReadElsewhere { tapes, .. } | Reason::OnlyEmptyTapes { tapes } => tapes.clone(),
            Reason::NoTapeAtHand { away, unidentified, .. } => {
                away.iter().chain(unidentified).copied().collect()
            }
            Reason::DriveLooks { vid, .. } => vid.iter().copied().collect(),
            Reason::KeyMissing { vid, others, .. } => {
                vid.iter().copied().chain(others.iter().map(|(other, _)| *other)).collect()
            }
            Reason::BeingMended { cause, .. } => cause.vids(),
            _ => Vec::new(),
        }
    }

    /// The drives that it names, in its order.
    #[must_use]
    pub fn drives(&self) -> Vec<&DriveName> {
        match self {
            Reason::Mounting { drive, .. }
            | Reason::Writing { drive, .. }
            | Reason::Reading { drive, .. }
            | Reason::Checking { drive, .. }
            | Reason::Unmounting { drive, .. }
            | Reason::Cleaning { drive, .. }
            | Reason::ToBeCleaned { drive, .. }
            | Reason::KeptMounted { drive, .. }
            | Reason::DriveDown { drive, .. }
            | Reason::DriveRetiring { drive, .. }
            | Reason::DriveLooks { drive, .. }
            | Reason::TapeInUse { drive, .. } => vec![drive],
            Reason::AllDrivesDown { down } => down.iter().map(|(drive, _)| drive).collect(),
            Reason::BeingMended { cause, .. } => cause.drives(),
            Reason::NoDrive { busy } => busy.iter().map(|(drive, _)| drive).collect(),
            _ => Vec::new(),
        }
    }

    /// When it ends by itself at the latest, where that is known.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Reason::WaitingForBytes { due, .. } => *due,
            Reason::Resting { until, .. }
            | Reason::HostCannotWrite { until, .. }
            | Reason::NoRoomForReads { until, .. }
            | Reason::JustUnmounted { until, .. }
            | Reason::KeptMounted { until, .. } => Some(*until),
            Reason::DriveDown { retry, .. } => *retry,
            Reason::ToBeCleaned { rests_until, .. } => *rests_until,
            Reason::BeingMended { cause, .. } => cause.until(),
            _ => None,
        }
    }
}
