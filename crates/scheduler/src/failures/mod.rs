//! Whose failure it is, and how long what failed is left alone: the one policy, in the server and in the
//! twin.
//!
//! - A mount or a session failed ([`Failure`](crate::Failure)): it speaks against its cause, which the driver
//!   tells (cartridge, drive and path, robot), against both partners if nobody knows. The two part for
//!   `retry_delay`; who failed with so many partners is set aside.
//! - Maintenance failed, or got nothing done: no drive takes the tape for it until it has rested. Nobody
//!   waits for it, so the other drive is no reason to mount the tape at once.
//! - A drive failed as a whole (`Event::DriveFailed`): against it, and the tape in it. It is down, and tried
//!   again.
//! - Writing failed for this host ([`FailureCause::Host`]): against nobody. In that library writing and
//!   maintenance rest as a whole; then one session tries, on a tape that is in use already if there is one,
//!   and if it writes something all goes on. Reading goes on: only a tape that cannot be read for this host
//!   rests.
//! - A tape that was opened is gone from its drive ([`spares_what_dropped_out`]): the way to it, at first.
//! - A session failed by its tape ([`suspects_tape`]): the tape is suspect. Its copies are read last, it is
//!   not written, and it is tried again; after so many failures an operator decides.
//! - Tape after tape failed in one drive: the drive is taken out of use, the tapes are cleared
//!   (`Action::Clear`).
//!
//! All rests double with each failure that nothing good came after ([`session::back_off`]), up to a limit. A
//! container whose bytes cannot be had, and a class whose file found no room, rest by the same rule
//! ([`session::BACK_OFF_MAX`]).

mod blame;
mod drives;
mod host;

use base::{Duration, FailureCause, Timestamp};
use session::back_off;

pub(crate) use blame::Blame;
pub(crate) use drives::{DriveFailures, Retiring};
pub(crate) use host::HostRest;

/// A tape with which sessions or mounts failed in so many different drives, and none went well between, is
/// set aside.
pub const TAPE_FAILURES_MAX: usize = 3;
/// A drive in which sessions or mounts failed with so many different tapes, and none went well between, is
/// set aside.
pub const DRIVE_FAILURES_MAX: usize = 3;
/// A drive in which so many tapes became suspect one after the other is at fault: they are cleared of it,
/// once.
pub const DRIVE_SUSPECTS_MAX: usize = 2;
/// What is set aside rests for so many of the policy's `retry_delay` first, and twice as long each time it is
/// set aside again with nothing that went well between: a robot that jams looks like this too.
pub const ASIDE_RESTS: u32 = 4;
/// So many failures in a row, and a suspect tape is not tried again until an operator decides.
pub const SUSPECT_FAILURES_MAX: u32 = 5;
/// A tape may drop out of drives so many times in a row before it is suspect.
pub const DROPPED_OUT_MAX: u32 = 4;
/// The longest rest of what is set aside; an operator may end it.
pub const ASIDE_REST_MAX: Duration = Duration::from_secs(24 * 3600);

/// The longest rest of a drive that fails again and again.
pub const DRIVE_REST_MAX: Duration = Duration::from_secs(6 * 3600);

/// The longest rest of what this host cannot do: it costs one mount to find that it can again.
pub const HOST_REST_MAX: Duration = Duration::from_secs(3600);

/// Whether a tape is to be suspected because a session on it failed: a fault of the drive, of the robot, of
/// the way to them or of this host is no reason.
#[must_use]
pub fn suspects_tape(cause: Option<FailureCause>) -> bool {
    !matches!(
        cause,
        Some(FailureCause::Drive | FailureCause::Robot | FailureCause::Path | FailureCause::Host)
    )
}

/// Whether a tape is spared that was in a drive, opened, and then was not, so many times in a row with no
/// session on it that went well between: a drive that was reset and a library that began anew look like that.
/// What drops out more often than they do is suspected.
#[must_use]
pub fn spares_what_dropped_out(times: u32) -> bool {
    times <= DROPPED_OUT_MAX
}

/// When a tape that has failed so many times in a row is tried again: after a rest that doubles. `None`: not
/// by itself.
#[must_use]
pub fn tape_retry(failures: u32, retry_delay: Duration, now: Timestamp) -> Option<Timestamp> {
    let rest = back_off(retry_delay, failures.saturating_sub(1), DRIVE_REST_MAX);
    (failures < SUSPECT_FAILURES_MAX).then(|| now.plus(rest))
}
