//! The disks under the drives of the pool, as who watches the machine tells of them, and what follows.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::{Instance, wait_for_pool};
use crate::drained::put_files;
use crate::replaced::instance;
use archive::{
    Archive, DiskPolicy, DiskReason, DiskReport, DriveDiskInfo, FoundDisk, PredictedFailure, ReplaceLost,
    TakeOver, UpkeepSettings, Waits,
};
use base::{ByteCount, Timestamp};
use catalogue::DriveSlot;
use drive::{BurnInDemand, BurnInId, BurnInRecord, BurnInVerdict};

const ENCLOSURE: u64 = 0x5000_ccab_0400_1000;

fn slot(number: u32) -> DriveSlot {
    DriveSlot { enclosure: ENCLOSURE, number }
}

fn name(drive: u16) -> String {
    format!("naa.5000c500a1b2c3{drive:02x}")
}

/// What a look shows of a drive that is on the disk of this name in the slot of its number.
fn on(drive: u16, disk: &str, predicts: bool) -> DiskReport {
    let reason = DiskReason {
        word: "failure-expected".into(),
        text: "the disk expects to fail (5Dh/10h)".into(),
        predicts: true,
    };
    let found = FoundDisk {
        disk: disk.to_owned(),
        slot: Some(slot(u32::from(drive))),
        verdict: if predicts { "replace" } else { "good" }.into(),
        reasons: if predicts { vec![reason] } else { Vec::new() },
    };
    DiskReport { drive, found: Some(found), waits: None }
}

/// A look at all eight drives, of which these foretell their failure.
fn look(archive: &Archive, predicted: &[u16]) -> Option<u16> {
    let reports = (0..8).map(|drive| on(drive, &name(drive), predicted.contains(&drive)));
    archive.disks_found(reports.collect()).unwrap()
}

/// Without burn-ins.
fn policy(archive: &Archive, predicted_failure: PredictedFailure, replace: ReplaceLost) {
    let replace_burn_in = BurnInDemand::Off;
    let disks = DiskPolicy { predicted_failure, replace, replace_burn_in, lights: true };
    archive.set_upkeep(UpkeepSettings { disks, ..Default::default() });
}

fn disk(archive: &Archive, drive: usize) -> DriveDiskInfo {
    archive.pool_info().unwrap().drives[drive].disk.clone().unwrap()
}

fn state(archive: &Archive, drive: usize) -> &'static str {
    archive.pool_info().unwrap().drives[drive].state
}

fn open() -> (Instance, Archive) {
    let instance = instance();
    let archive = instance.open();
    (instance, archive)
}

#[test]
fn where_a_drive_was_is_known_after_its_disk_is_dead_and_after_a_restart() {
    let (instance, archive) = open();
    assert!(archive.pool_info().unwrap().drives[3].disk.is_none());
    look(&archive, &[]);
    let since = disk(&archive, 3).since;
    look(&archive, &[]);
    let known = disk(&archive, 3);
    assert_eq!((known.known.disk.clone(), known.known.slot, known.since), (name(3), Some(slot(3)), since));
    assert!(known.seen.is_some() && known.verdict == "good");
    archive.close();
    drop(archive);
    let path = instance.settings.pool.drives[3].at.directory().to_owned();
    fs::rename(&path, path.with_extension("away")).unwrap();
    fs::create_dir(&path).unwrap();
    let archive = instance.open();
    let known = disk(&archive, 3);
    assert_eq!((known.known.disk.clone(), known.known.slot, known.seen), (name(3), Some(slot(3)), None));
    // What is under its directory now is the disk of somebody else, such as the system's.
    archive.disks_found(vec![on(3, "naa.system", false)]).unwrap();
    assert_eq!(disk(&archive, 3).known, known.known);
    let unknown = archive.disks_found(vec![on(40, "naa.1", false)]).unwrap_err().to_string();
    assert!(unknown.contains("40"), "{unknown}");
    archive.close();
}

#[test]
fn a_drive_whose_disk_foretells_its_failure_is_emptied_if_that_is_wanted() {
    let (_instance, archive) = open();
    put_files(&archive, 0..20);
    for _ in 0..3 {
        assert_eq!(look(&archive, &[3]), None, "it is only told");
    }
    policy(&archive, PredictedFailure::Drain, ReplaceLost::No);
    // One answer may be garbled: what says so once only is not believed.
    look(&archive, &[]);
    assert_eq!(look(&archive, &[3]), None);
    assert_eq!(look(&archive, &[3]), Some(3));
    assert_eq!((look(&archive, &[3]), state(&archive, 3)), (None, "draining"));
    // A verdict that goes away ends nothing.
    look(&archive, &[]);
    look(&archive, &[]);
    assert_eq!(state(&archive, 3), "draining");
    wait_for_pool(&archive, "it is empty", || {
        archive.pool_info().unwrap().drives[3].drain.as_ref().is_some_and(|drain| drain.is_empty)
    });
    let emptied = disk(&archive, 3);
    assert!(emptied.wants_light && emptied.known.drained.unwrap().contains("expects to fail"));
    assert!(!disk(&archive, 4).wants_light);
    // No other is before this one was replaced.
    for _ in 0..3 {
        assert_eq!(look(&archive, &[5]), None);
    }
    assert_eq!(disk(&archive, 5).waits.unwrap().word, "one-at-a-time");
    // An operator's word lasts, over a restart too.
    archive.pool_drive_keep(3).unwrap();
    for _ in 0..3 {
        assert_eq!(look(&archive, &[3]), None);
    }
    let kept = disk(&archive, 3);
    assert_eq!(
        (state(&archive, 3), kept.waits.unwrap().word.as_str(), kept.known.kept),
        ("up", "kept", true)
    );
    assert!(!kept.wants_light);
    // It is of the disk: another one may be emptied again.
    archive.disks_found(vec![on(3, "naa.other", true)]).unwrap();
    assert_eq!(archive.disks_found(vec![on(3, "naa.other", true)]).unwrap(), Some(3));
    archive.close();
}

#[test]
fn what_began_by_itself_goes_on_after_a_restart_and_still_counts_as_that() {
    let (instance, archive) = open();
    policy(&archive, PredictedFailure::Drain, ReplaceLost::No);
    look(&archive, &[3]);
    assert_eq!(look(&archive, &[3]), Some(3));
    archive.close();
    drop(archive);
    let archive = instance.open();
    policy(&archive, PredictedFailure::Drain, ReplaceLost::No);
    assert_eq!((state(&archive, 3), disk(&archive, 3).known.drained.is_some()), ("draining", true));
    look(&archive, &[5]);
    assert_eq!(look(&archive, &[5]), None);
    assert_eq!(state(&archive, 5), "up");
    archive.close();
}

/// Half of the pool must not go because a firmware, or this program, judges wrong.
#[test]
fn nothing_is_emptied_if_many_foretell_their_failure_or_another_drive_is_unwell() {
    let (instance, archive) = open();
    policy(&archive, PredictedFailure::Drain, ReplaceLost::No);
    for _ in 0..3 {
        assert_eq!(look(&archive, &[1, 2, 3]), None);
    }
    assert_eq!(disk(&archive, 2).waits.unwrap().word, "too-many");
    look(&archive, &[]);
    archive.pool_drive_lost(6, false).unwrap();
    for _ in 0..3 {
        assert_eq!(look(&archive, &[3]), None);
    }
    assert_eq!(disk(&archive, 3).waits.unwrap().word, "pool-unwell");
    assert!((0..8).all(|drive| state(&archive, drive) != "draining"));
    archive.close();
    drop(instance);
}

#[test]
fn a_light_that_was_switched_on_for_a_drive_is_known_and_no_other() {
    let (instance, archive) = open();
    policy(&archive, PredictedFailure::Tell, ReplaceLost::No);
    let unknown = archive.drive_light(3, Some(slot(3))).unwrap_err().to_string();
    assert!(unknown.contains("kist disk watch"), "{unknown}");
    look(&archive, &[]);
    assert!(archive.drive_light(3, Some(slot(4))).unwrap_err().to_string().contains("another slot"));
    archive.pool_drive_lost(3, false).unwrap();
    assert!(disk(&archive, 3).wants_light);
    archive.drive_light(3, Some(slot(3))).unwrap();
    archive.close();
    drop(archive);
    let archive = instance.open();
    assert_eq!(disk(&archive, 3).known.light, Some(slot(3)));
    // Whatever the policy is by now: this one is Kist's to switch off.
    assert!(!disk(&archive, 3).wants_light);
    archive.drive_light(3, None).unwrap();
    assert_eq!(disk(&archive, 3).known.light, None);
    archive.close();
}

/// What is said of a disk that is to take the place of drive 3's, and what the refusal says.
fn refusal(archive: &Archive, by: &TakeOver) -> String {
    archive.drive_taken_over(3, by).unwrap_err().to_string()
}

#[test]
fn no_disk_takes_the_place_of_a_lost_one_by_a_wrong_word() {
    let (instance, archive) = open();
    let by = TakeOver { disk: "naa.new".into(), slot: slot(3), device: (8, 16) };
    assert!(refusal(&archive, &by).contains("pool.replace"));
    policy(&archive, PredictedFailure::Tell, ReplaceLost::Blank);
    assert!(refusal(&archive, &by).contains("not lost"));
    archive.close();
    drop(archive);
    let path = instance.settings.pool.drives[3].at.directory().to_owned();
    let held = path.with_extension("away");
    fs::rename(&path, &held).unwrap();
    fs::create_dir(&path).unwrap();
    let archive = instance.open();
    policy(&archive, PredictedFailure::Tell, ReplaceLost::Blank);
    assert!(refusal(&archive, &by).contains("never known"), "{}", refusal(&archive, &by));
    archive.close();
    drop(archive);
    fs::remove_dir(&path).unwrap();
    fs::rename(&held, &path).unwrap();
    let archive = instance.open();
    look(&archive, &[]);
    archive.close();
    drop(archive);
    fs::rename(&path, &held).unwrap();
    fs::create_dir(&path).unwrap();
    let archive = instance.open();
    policy(&archive, PredictedFailure::Tell, ReplaceLost::Blank);
    for (change, why) in [
        (TakeOver { slot: slot(4), ..by.clone() }, "another slot"),
        (TakeOver { disk: name(3), ..by.clone() }, "the lost disk itself"),
        (TakeOver { disk: name(5), ..by.clone() }, "that of drive 5"),
        (TakeOver { disk: String::new(), ..by.clone() }, "the lost disk itself"),
        // The directory of a disk that is not mounted is an empty one of another file system.
        (by.clone(), "no file system of device 8:16 is mounted"),
    ] {
        let said = refusal(&archive, &change);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing was made");
    check_burn_ins(&archive, &by, &path);
    let waits = Waits { word: "not-blank".into(), text: "something stands at byte 0".into() };
    archive.disks_found(vec![DiskReport { drive: 3, found: None, waits: Some(waits.clone()) }]).unwrap();
    assert_eq!(disk(&archive, 3).waits, Some(waits));
    archive.close();
}

/// What no record says to have been burnt in as kist.toml wants it does not become the drive, nor what a
/// record calls bad.
fn check_burn_ins(archive: &Archive, by: &TakeOver, path: &Path) {
    let demand = |replace_burn_in| {
        let disks = DiskPolicy { replace: ReplaceLost::Blank, replace_burn_in, ..DiskPolicy::default() };
        archive.set_upkeep(UpkeepSettings { disks, ..Default::default() });
        refusal(archive, by)
    };
    let record = |verdict, bytes| BurnInRecord {
        id: BurnInId(1),
        verdict,
        is_direct: true,
        is_judged_by_place: true,
        ended: Timestamp(0),
        bytes: ByteCount(bytes),
        capacity: ByteCount(4 << 40),
        write_rate: ByteCount(1),
        read_rate: ByteCount(1),
        median_max: Duration::ZERO,
        p99_max: Duration::ZERO,
        faults: 1,
        slow_places: 0,
    };
    let (none, mounted) = ("says that its burn-in was", "no file system of device 8:16 is mounted");
    assert!(demand(BurnInDemand::Quick).contains(none));
    record(BurnInVerdict::Passed, 8 << 30).write(path).unwrap();
    assert!(demand(BurnInDemand::Quick).contains(mounted), "{}", demand(BurnInDemand::Quick));
    assert!(demand(BurnInDemand::Full).contains(none));
    record(BurnInVerdict::Faulty, 4 << 40).write(path).unwrap();
    for bad in [BurnInDemand::Off, BurnInDemand::Quick, BurnInDemand::Full] {
        assert!(demand(bad).contains("says faulty: put in another"), "{}", demand(bad));
    }
    BurnInRecord::remove(path).unwrap();
}

/// What an older catalogue knows of slots may be wrong, of all that was done since. The archive was restored.
pub fn nothing_is_done_by_itself(archive: &Archive) {
    policy(archive, PredictedFailure::Drain, ReplaceLost::Blank);
    let drives = archive.pool_info().unwrap().drives;
    for _ in 0..3 {
        assert_eq!(archive.disks_found(vec![on(drives[0].id, "naa.0", true)]).unwrap(), None);
    }
    assert_eq!(disk(archive, 0).waits.unwrap().word, "restored");
    assert_eq!(archive.disk_watch().unwrap().holds.unwrap().word, "restored");
    let by = TakeOver { disk: "naa.new".into(), slot: slot(0), device: (8, 16) };
    let refused = archive.drive_taken_over(drives[0].id, &by).unwrap_err().to_string();
    assert!(refused.contains("after a restore"), "{refused}");
}
