//! What the settings say to the scheduler and to its forecasts.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, ClassId, Duration, LibraryId, ShareId, TapePoolId};
use journal::DriveFitRecord;
use mechanics::RobotTiming;
use scheduler::{ClassPolicy, PRIORITY_MAX, Pace, Policy, SharePolicy, SidePolicy, TapePoolPolicy};

use crate::classes::{Class, Classes};
use crate::libraries;
use crate::{
    DriveLimits, LibraryKind, LibrarySettings, MachineTimes, OpenError, Settings, ShareSettings,
    TapePoolSettings, TimingSettings,
};

/// The robots of a virtual library that takes time.
pub const ROBOT_MODEL: &str = "generic";

/// No step takes longer than this, in seconds: a hundred years.
const LONGEST: f64 = 3.2e9;

impl Classes {
    /// How long things take, as far as is known before anything was done: by the first library whose drives
    /// told what their locates take, or that names a model; else by a usual one, if any library has real
    /// drives, or drives that pass for such. What they take corrects it from the first mount on.
    pub fn pace(&self, settings: &Settings, fits: &[DriveFitRecord]) -> Result<Pace, OpenError> {
        let pools = |class: &Class| (class.id, class.copies.clone());
        let tape_pools = self.all().iter().map(pools).collect();
        let of = |library| match MachineTimes::measured(library, fits) {
            Some(MachineTimes { drive, robot, .. }) => Some(Ok(Pace::of_drive(&drive, &robot))),
            None => library.timing().map(timed),
        };
        let known = libraries::all(settings).find_map(of).transpose()?;
        let pace = known.unwrap_or_else(|| unmeasured(libraries::all(settings)));
        Ok(Pace { tape_pools, ..pace })
    }

    /// What the scheduler goes by.
    pub fn policy(&self, settings: &Settings) -> Policy {
        let mounts = &settings.tape.mounts;
        let pool =
            |(id, pool): (&TapePoolId, &TapePoolSettings)| (*id, self.pool_policy(*id, pool, settings));
        Policy {
            shares: self.all().iter().map(|class| (self.share(class.id), share_policy(class))).collect(),
            classes: self.all().iter().map(class_policy).collect(),
            tape_pools: self.tape_pools().iter().map(pool).collect(),
            libraries: libraries::policies(settings),
            share_half_life: mounts.share_half_life,
            recall_age: settings.tape.recall_age,
            recall_bytes: settings.tape.recall_bytes,
            recall_files: mounts.recall_files.unwrap_or(u64::MAX),
            recall_at_once: mounts.recall_at_once.unwrap_or(PRIORITY_MAX + 1),
            starvation: mounts.starvation,
            recall: side_policy(&mounts.recall),
            migration: side_policy(&mounts.migration),
            mounts_at_once_max: mounts.mounts_at_once.unwrap_or(usize::MAX),
            dismount_delay: settings.tape.dismount_delay,
            remount_delay: mounts.remount_delay,
            remount_bytes: mounts.remount_bytes.unwrap_or(ByteCount(u64::MAX)),
            retry_delay: settings.tape.retry_delay,
        }
    }

    fn pool_policy(&self, id: TapePoolId, pool: &TapePoolSettings, settings: &Settings) -> TapePoolPolicy {
        let library = pool.library.as_ref().and_then(|name| libraries::number(settings, name));
        TapePoolPolicy {
            name: pool.name.clone(),
            mount_bytes: pool.mount_bytes,
            mount_age: pool.mount_age,
            drives_min: pool.drives_min,
            drives_max: pool.drives_max,
            open_tapes_max: pool.open_tapes_max.unwrap_or(usize::MAX),
            share: self.payer(id),
            library: library.map(LibraryId),
        }
    }

    /// Whose share writing to a tape pool is charged to: that of its only class, if that class was given one,
    /// else one that is nobody's. So what a class that says nothing writes does not slow its recalls.
    fn payer(&self, pool: TapePoolId) -> ShareId {
        let writers: BTreeSet<ClassId> =
            self.all().iter().filter(|class| class.copies.contains(&pool)).map(|class| class.id).collect();
        let only = writers.first().filter(|_| writers.len() == 1).and_then(|id| self.get(*id));
        let only = only.filter(|class| class.settings.share != ShareSettings::default());
        // Ids of classes begin with 1.
        only.map_or(ShareId(0), |class| self.share(class.id))
    }
}

fn class_policy(class: &Class) -> (ClassId, ClassPolicy) {
    let policy = ClassPolicy {
        name: class.settings.name.clone(),
        pack_bytes: class.settings.pack_bytes,
        pack_age: class.settings.pack_age,
    };
    (class.id, policy)
}

fn share_policy(class: &Class) -> SharePolicy {
    let ShareSettings { weight, drives } = &class.settings.share;
    SharePolicy {
        name: format!("of class {}", class.settings.name),
        weight: *weight,
        drives_min: drives.min,
        drives_max: drives.most(),
        has_pool_max: class.settings.pool_max.is_some(),
    }
}

fn side_policy(drives: &DriveLimits) -> SidePolicy {
    SidePolicy { drives_min: drives.min, drives_max: drives.most() }
}

/// The pace of libraries of which nothing is known yet: directories take milliseconds, drives behind SCSI
/// what usual ones take.
fn unmeasured<'a>(mut libraries: impl Iterator<Item = &'a LibrarySettings>) -> Pace {
    let has_drives = libraries.any(|library| matches!(library.kind, LibraryKind::Scsi(_)));
    if has_drives { Pace::default() } else { Pace::untimed() }
}

/// The pace of these drives, so many times as fast as real ones. What the disks do stays as it is.
fn timed(timing: &TimingSettings) -> Result<Pace, OpenError> {
    let drive = mechanics::timing(&timing.drive)?;
    let robot = RobotTiming { robots: timing.robots, ..mechanics::robot(ROBOT_MODEL)?.timing() };
    let real = Pace::of_drive(&drive, &robot);
    // A scale as small as may be given would be more than a span can hold.
    let faster =
        |span: Duration| Duration::from_secs_f64((span.as_secs_f64() / timing.scale).clamp(0.0, LONGEST));
    let rate = |rate: u64| ((rate as f64 * timing.scale) as u64).max(1);
    Ok(Pace {
        mount: faster(real.mount),
        unmount: faster(real.unmount),
        begin: faster(real.begin),
        locate: real.locate / timing.scale,
        read_rate: rate(real.read_rate),
        write_rate: rate(real.write_rate),
        seal_rate: real.seal_rate,
        maintenance: faster(real.maintenance),
        tape_pools: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassSettings;

    fn class(id: u16, copies: &[u16], share: ShareSettings) -> Class {
        let settings = ClassSettings {
            name: format!("class{id}"),
            up_to: None,
            copies: Vec::new(),
            large_bytes: ByteCount::mib(1),
            pack_bytes: ByteCount::mib(1),
            pack_age: Duration::ZERO,
            data_set_depth: None,
            recall_packs: false,
            cold: false,
            pool_max: None,
            placing: crate::PlacingSettings::default(),
            leaving: crate::LeavingSettings::default(),
            share,
        };
        Class { id: ClassId(id), settings, copies: copies.iter().map(|id| TapePoolId(*id)).collect() }
    }

    #[test]
    fn a_class_with_a_share_pays_for_the_pools_that_are_its_own() {
        let heavy = ShareSettings { weight: 3, drives: DriveLimits { min: 1, max: Some(2) } };
        let classes = Classes::of(vec![
            class(1, &[1, 2], heavy.clone()),
            class(2, &[2], heavy),
            class(3, &[3], ShareSettings::default()),
        ]);
        let payers: Vec<u16> = (1..=3).map(|id| classes.payer(TapePoolId(id)).0).collect();
        assert_eq!(payers, [1, 0, 0], "its own, one of two classes, one of a class that says nothing");
        let share = share_policy(&classes.all()[0]);
        assert_eq!((share.weight, share.drives_min, share.drives_max), (3, 1, 2));
        let share = share_policy(&classes.all()[2]);
        let usual = SharePolicy { name: share.name.clone(), ..SharePolicy::default() };
        assert_eq!(share, usual);
    }

    /// Story: of a library behind SCSI whose drives had told nothing yet a mount was foretold to take 20 ms.
    #[test]
    fn drives_behind_scsi_are_foretold_as_usual_ones_and_directories_as_disks() {
        let files = LibrarySettings::only(std::path::PathBuf::new(), 2);
        let real = crate::offline::tests::library(None);
        assert_eq!(unmeasured([&files].into_iter()), Pace::untimed());
        assert_eq!(unmeasured([&files, &real].into_iter()), Pace::default());
    }

    #[test]
    fn a_library_that_is_faster_than_real_ones_is_foretold_so() {
        let timing = |scale| TimingSettings { drive: "LTO-8".to_owned(), scale, robots: 1 };
        let (real, fast) = (timed(&timing(1.0)).unwrap(), timed(&timing(10.0)).unwrap());
        assert!(real.read_rate > 300_000_000 && real.mount > Duration::from_secs(15), "{real:?}");
        assert_eq!((fast.read_rate, fast.seal_rate), (real.read_rate * 10, real.seal_rate));
        let ratio = real.mount.as_secs_f64() / fast.mount.as_secs_f64();
        assert!((ratio - 10.0).abs() < 1e-6, "{ratio}");
        // What the settings allow can be computed with.
        assert!(timed(&timing(1e-300)).is_ok() && timed(&timing(1e300)).is_ok());
        assert!(timed(&TimingSettings { drive: "LTO-80".to_owned(), ..timing(1.0) }).is_err());
    }
}
