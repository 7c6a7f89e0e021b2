//! What a server would do, known from its settings alone: for a replay of its record.

use base::{ByteCount, Duration};
use journal::DriveFitRecord;
use mechanics::{DriveTiming, Geometry, RobotTiming};
use scheduler::{Pace, Policy};

use crate::Classes;
use crate::policy::ROBOT_MODEL;
use crate::{LibraryKind, LibrarySettings, OpenError, Settings, TimingSettings};
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

    /// The times of a library of real drives that told what their locates take: those of the drive in the
    /// middle, and the rest of its model. `None` of a library that takes the time it was told, and where no
    /// drive of the model that the settings name has told anything.
    #[must_use]
    pub fn measured(library: &LibrarySettings, fits: &[DriveFitRecord]) -> Option<MachineTimes> {
        let LibraryKind::Scsi(scsi) = &library.kind else { return None };
        let (model, robots) = match &scsi.timing {
            // Faster than real ones: what was measured is of their model, the scale of whoever made them.
            Some(timing) if timing.scale != 1.0 => return None,
            Some(timing) => (Some(mechanics::drive(&timing.drive).ok()?), timing.robots),
            None => (None, 1),
        };
        let robot = RobotTiming { robots, ..mechanics::robot(ROBOT_MODEL).ok()?.timing() };
        let of = |record: &DriveFitRecord| {
            let drive = mechanics::drive(&record.drive).ok()?;
            let medium = mechanics::medium(&record.medium).ok()?;
            let is_asked_for = model.is_none_or(|model| model.name == drive.name);
            let is_one = is_asked_for && drive.takes(medium).is_some();
            is_one.then(|| (drive.timing(medium).fitted(&record.fit().locate), Geometry::of(medium)))
        };
        let mut drives: Vec<(DriveTiming, Geometry)> = fits.iter().filter_map(of).collect();
        let slowness = |drive: &DriveTiming| Pace::of_drive(drive, &robot).locate;
        drives.sort_by(|(one, _), (other, _)| slowness(one).total_cmp(&slowness(other)));
        let middle = drives.len() / 2;
        let (drive, geometry) = drives.into_iter().nth(middle)?;
        Some(MachineTimes { drive, robot, geometry })
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

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use base::Timestamp;
    use library::scsi::DeviceChoice;
    use mechanics::{DriveFit, LocateFit};

    use super::*;
    use crate::ScsiLibrarySettings;

    pub(crate) fn library(timing: Option<TimingSettings>) -> LibrarySettings {
        let scsi = ScsiLibrarySettings {
            changer: DeviceChoice::Serial("1234".to_owned()),
            drives: Vec::new(),
            slots: None,
            portals: Vec::new(),
            initiator: None,
            chap: None,
            capacity: ByteCount(0),
            timing,
        };
        LibrarySettings { kind: LibraryKind::Scsi(scsi), ..LibrarySettings::only(PathBuf::new(), 0) }
    }

    fn fit(serial: &str, drive: &str, factor: f64) -> DriveFitRecord {
        let locate = LocateFit { fixed: factor, way: factor, samples: 100 };
        DriveFitRecord::new(serial, drive, drive, Timestamp(0), &DriveFit { locate, error: 0.1 })
    }

    fn timing(drive: &str, scale: f64) -> TimingSettings {
        TimingSettings { drive: drive.to_owned(), scale, robots: 2 }
    }

    #[test]
    fn real_drives_take_what_the_one_in_the_middle_told() {
        let fits =
            [fit("a", "LTO-9", 0.5), fit("b", "LTO-9", 2.0), fit("c", "LTO-9", 1.5), fit("d", "LTO-8", 3.0)];
        let lto9 = mechanics::timing("LTO-9").unwrap();
        let base = |times: Option<MachineTimes>| {
            times.map(|it| (it.drive.name, it.drive.locate.base_us, it.robot.robots))
        };
        let named = MachineTimes::measured(&library(Some(timing("LTO-9", 1.0))), &fits);
        assert_eq!(base(named), Some((lto9.name.clone(), lto9.locate.base_us * 1.5, 2)));
        // Without a model in the settings all drives count.
        let any = MachineTimes::measured(&library(None), &fits).unwrap();
        assert!((any.drive.locate.base_us / lto9.locate.base_us - 2.0).abs() < 1e-9, "{any:?}");
        for (library, fits) in [
            (library(None), &fits[..0]),
            // Of a model of which nobody told anything; faster than real ones; made of files.
            (library(Some(timing("LTO-7", 1.0))), &fits[..]),
            (library(Some(timing("LTO-9", 10.0))), &fits[..]),
            (LibrarySettings::only(PathBuf::new(), 2), &fits[..]),
            // Names that no Kist knows any more.
            (library(None), &[fit("e", "LTO-99", 1.0)][..]),
        ] {
            assert_eq!(MachineTimes::measured(&library, fits), None);
        }
    }
}
