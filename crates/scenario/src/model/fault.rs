//! What goes wrong.

use base::Duration;

/// Something that goes wrong again and again, at random.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Mean time between two, over the whole site.
    pub every: Duration,
    /// How long each lasts (mean), where it lasts.
    pub lasts: Duration,
    /// None before this.
    pub begin: Duration,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// A drive fails, whatever it does; it is back after a while.
    DriveLoss,
    /// A library's robots stand still.
    RobotJam,
    /// A mount fails.
    MountFailure,
    /// A tape cannot be read any more, for good.
    UnreadableTape,
    /// A copy of a file cannot be read.
    UnreadableCopy,
    /// A tape is full long before its capacity.
    EarlyEnd,
    /// A write fails; the tape is read-only from then on.
    WriteError,
    /// The server restarts: sessions end where they are, tapes stay in the drives, everything is told anew.
    Restart,
    /// The network is a tenth as fast.
    SlowNetwork,
    /// The pool's disks are half as fast.
    SlowPool,
    /// Users ask for ten times as much.
    UserStorm,
    /// A request is cancelled.
    Cancel,
    /// The way to a drive breaks at a command: its session fails, and says nothing against the tape.
    PathLoss,
    /// A library is not reached: each mount in it fails.
    LibraryAway,
    /// A drive asks to be cleaned: in idle time, or before its next mount.
    DirtyDrive,
    /// The cleaning cartridge of the next cleaning is used up.
    CleanerUsedUp,
}

impl FaultKind {
    /// All, in order.
    pub const ALL: [FaultKind; 16] = [
        FaultKind::DriveLoss,
        FaultKind::RobotJam,
        FaultKind::MountFailure,
        FaultKind::UnreadableTape,
        FaultKind::UnreadableCopy,
        FaultKind::EarlyEnd,
        FaultKind::WriteError,
        FaultKind::Restart,
        FaultKind::SlowNetwork,
        FaultKind::SlowPool,
        FaultKind::UserStorm,
        FaultKind::Cancel,
        FaultKind::PathLoss,
        FaultKind::LibraryAway,
        FaultKind::DirtyDrive,
        FaultKind::CleanerUsedUp,
    ];

    /// Its name in scenario files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::DriveLoss => "drive-loss",
            FaultKind::RobotJam => "robot-jam",
            FaultKind::MountFailure => "mount-failure",
            FaultKind::UnreadableTape => "unreadable-tape",
            FaultKind::UnreadableCopy => "unreadable-copy",
            FaultKind::EarlyEnd => "early-end",
            FaultKind::WriteError => "write-error",
            FaultKind::Restart => "restart",
            FaultKind::SlowNetwork => "slow-network",
            FaultKind::SlowPool => "slow-pool",
            FaultKind::UserStorm => "user-storm",
            FaultKind::Cancel => "cancel",
            FaultKind::PathLoss => "path-loss",
            FaultKind::LibraryAway => "library-away",
            FaultKind::DirtyDrive => "dirty-drive",
            FaultKind::CleanerUsedUp => "cleaner-used-up",
        }
    }
}
