//! What a drive and a robot take for each thing they do, as plain numbers.

use base::ByteCount;

use crate::locate::LocateCost;

/// The timing of a drive with a medium of its own kind. Times are microseconds, rates bytes a second.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveTiming {
    /// The drive and medium, for people: `LTO-8`.
    pub name: String,
    /// Streaming, without compression.
    pub native_rate: u64,
    /// The slowest rate to which it matches its speed; a host below it makes it stop and start.
    pub least_rate: u64,
    /// The drive's own buffer.
    pub buffer: ByteCount,
    /// From the cartridge's insertion to the tape being ready at its load point (loading and threading).
    pub load_us: u64,
    /// Any locate.
    pub locate: LocateCost,
    /// Winding along the tape, a second and unit of longitudinal position: rewinds.
    pub lpos_per_second: f64,
    /// A rewind's fixed part.
    pub rewind_us: u64,
    /// From the load point to the cartridge being ejected.
    pub unload_us: u64,
    /// Stop, back up, and start again when the host starves the drive.
    pub backhitch_us: u64,
    /// A synchronous file mark or flush, apart from emptying the buffer.
    pub flush_us: u64,
    /// Whether the drive recommends an access order (RAO).
    pub recommends_order: bool,
}

/// The timing of a library's robots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RobotTiming {
    /// Robots that move cartridges at the same time.
    pub robots: u16,
    /// One move between a slot and a drive, in microseconds.
    pub move_us: u64,
}
