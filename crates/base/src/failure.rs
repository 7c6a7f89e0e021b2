//! What a failure of a tape, a drive or a robot speaks against.

/// Which part is at fault, as far as whoever met the failure can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureCause {
    /// It may be the drive, the cartridge or the robot: what fails with several partners shows which.
    Unknown,
    /// The cartridge: it holds what it should not, lacks what it should have, or cannot be used.
    Cartridge,
    /// The tape drive.
    Drive,
    /// The robot, or the library as a whole.
    Robot,
    /// The way between the host and the drive: cable, switch, adapter.
    Path,
    /// This host, whatever drive it speaks to.
    Host,
}

impl FailureCause {
    /// The word for it in answers to programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FailureCause::Unknown => "unknown",
            FailureCause::Cartridge => "cartridge",
            FailureCause::Drive => "drive",
            FailureCause::Robot => "robot",
            FailureCause::Path => "path",
            FailureCause::Host => "host",
        }
    }
}
