//! What a server would do, known from its settings alone: for a replay of its record.

use base::{ByteCount, Duration};
use mechanics::{DriveTiming, Geometry, RobotTiming};
use scheduler::Policy;

use crate::Classes;
use crate::policy::ROBOT_MODEL;
use crate::{OpenError, Settings, TimingSettings};
use session::{RECALL_BATCH_BYTES, REPLAN_EVERY};

/// How the machines of a library take time, by the clock of the server: those that are so many times as fast
/// as real ones are so here.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineTimes {
    /// All drives.
    pub drive: DriveTiming,
    /// The robots.
    pub robot: RobotTiming,
    /// Where bytes stand on the tapes.
    pub geometry: Geometry,
}

impl MachineTimes {
    /// The times that a library of these settings takes.
    ///
    /// # Errors
    /// If no drive or medium of that name is known.
    pub fn of(settings: &TimingSettings) -> Result<MachineTimes, OpenError> {
        let drive = mechanics::drive(&settings.drive)?;
        let medium = drive.own_medium()?;
        let robot = RobotTiming { robots: settings.robots, ..mechanics::robot(ROBOT_MODEL)?.timing() };
        Ok(MachineTimes {
            drive: drive.timing(medium).faster(settings.scale),
            robot: robot.faster(settings.scale),
            geometry: Geometry::of(medium),
        })
    }
}

impl Settings {
    /// What the scheduler of a server with these settings is given. Classes, tape pools and their shares have
    /// their place in the settings as id, from 1: those that a catalogue gives may be others.
    ///
    /// # Errors
    /// If a class or tape pool names what is not there.
    pub fn policy(&self) -> Result<Policy, OpenError> {
        Ok(Classes::numbered(self)?.policy(self))
    }

    /// Bytes that a recall session commits together, and how often at most it plans anew.
    #[must_use]
    pub fn recall_rhythm(&self) -> (ByteCount, Duration) {
        (RECALL_BATCH_BYTES, REPLAN_EVERY)
    }
}
