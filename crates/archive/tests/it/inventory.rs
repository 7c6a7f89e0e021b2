//! Cartridges that come and go, and drives in states in which they carry out nothing.

use std::fs;
use std::time::Duration;

use archive::{About, Archive, TapeInfo};
use base::{ByteCount, Vid};
use catalogue::TapeState;
use library::{Condition, DriveCommand, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::common::{Instance, all, migrate_all, put, settled, stage, stop, wait_for, wait_until};
use crate::faulty::{Trouble, check_all, data, drive, fill, place, round, vid};

fn tape(archive: &Archive, vid: Vid) -> Option<TapeInfo> {
    archive.tapes().unwrap().into_iter().find(|tape| tape.vid == vid)
}

/// A new cartridge is used without a restart. One that is taken out is told and not mounted; when it is back,
/// what waits for it goes on.
#[test]
fn cartridges_come_and_go() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = settled(instance.open());
    assert!(archive.take_inventory().unwrap().is_empty());

    let config = VirtualLibraryConfig {
        drives: Vec::new(),
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let other = VirtualLibrary::open(&instance.settings.library.files().unwrap().directory, &config).unwrap();
    let new = Vid::new("NEW001").unwrap();
    other.add_cartridge(new, ByteCount::mib(64), &config.options).unwrap();
    assert!(tape(&archive, new).is_none());
    // It may have been found by the thread already.
    archive.take_inventory().unwrap();
    let found = tape(&archive, new).unwrap();
    assert_eq!((found.state, found.capacity), (TapeState::Scratch, ByteCount::mib(64)));

    put(&archive, "/t/file", &[7; 300_000]);
    migrate_all(&archive);
    archive.evict(&all(&["/t/file"])).unwrap();
    let vids: Vec<Vid> = place(&archive, "/t/file").into_iter().map(|(vid, _)| vid).collect();
    wait_until("the drives are empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
    let aside = tempfile::tempdir().unwrap();
    for vid in &vids {
        fs::rename(instance.cartridge(*vid), aside.path().join(vid.as_str())).unwrap();
    }
    archive.take_inventory().unwrap();
    // Story: only who needed a tape learned that it was gone: `kist why` had it in its slot.
    assert!(vids.iter().all(|vid| tape(&archive, *vid).unwrap().away));
    for vid in &vids {
        let why = format!("{:?}", archive.explain(&About::Tape(*vid)).unwrap());
        assert!(why.contains("no library holds tape"), "{why}");
    }
    let warnings = archive.totals().unwrap().warnings.join("\n");
    assert!(warnings.contains("no library holds 2 tapes"), "{warnings}");
    let request = stage(&archive, &["/t/file"]);
    wait_until("the reason is told", || {
        let why = archive.why_request(request).unwrap();
        format!("{why:?}").contains("no library holds it")
    });
    let mounts = |vid: &Vid| tape(&archive, *vid).unwrap().mounts;
    let before: Vec<u64> = vids.iter().map(mounts).collect();
    for vid in &vids {
        fs::rename(aside.path().join(vid.as_str()), instance.cartridge(*vid)).unwrap();
    }
    archive.take_inventory().unwrap();
    wait_for(&archive, request);
    assert_eq!(archive.request(request).unwrap().record.failed, 0);
    assert_eq!(vids.iter().map(mounts).sum::<u64>(), before.iter().sum::<u64>() + 1, "one is mounted, once");
    assert!(vids.iter().all(|vid| tape(&archive, *vid).unwrap().state != TapeState::Suspect));
    stop(archive);
}

/// None of what a drive can be, but ready, makes a tape suspect or loses what was written; a drive that only
/// says "not now" is to blame for nothing.
#[test]
fn what_a_drive_says_of_itself_is_no_fault_of_the_tape() {
    let conditions = [
        Condition::Reset,
        Condition::Busy,
        Condition::Reserved,
        Condition::Dirty,
        Condition::Unreached,
        Condition::HostFails,
        Condition::Emptied,
    ];
    for condition in conditions {
        // The library cleans its drives itself: with nothing to clean them a dirty one would rest for an
        // hour.
        let trouble = Trouble::with(2, Duration::from_millis(50), |settings| {
            settings.tape.mounts.cleaning.uses_max = 0;
        });
        let (archive, faults) = trouble.open();
        let files = fill(&archive);
        faults.plan_condition(&drive(0), DriveCommand::Write, condition, 1);
        faults.plan_condition(&drive(1), DriveCommand::Flush, condition, 1);
        migrate_all(&archive);
        assert!(faults.fired() >= 2, "{condition:?}: {}", faults.fired());
        archive.evict(&all(&["/t"])).unwrap();
        let before = faults.fired();
        faults.plan_condition(&drive(0), DriveCommand::Read, condition, 1);
        faults.plan_condition(&drive(1), DriveCommand::Read, condition, 1);
        let request = stage(&archive, &["/t"]);
        wait_for(&archive, request);
        assert!(faults.fired() > before, "{condition:?}");
        assert_eq!(archive.request(request).unwrap().record.failed, 0, "{condition:?}");
        check_all(&archive, &files);
        let states = [TapeState::Suspect, TapeState::ReadOnly, TapeState::Disabled];
        for tape in archive.tapes().unwrap() {
            assert!(!states.contains(&tape.state), "{condition:?}: {} is {:?}", tape.vid, tape.state);
        }
        stop(archive);
    }
}

/// Story: a cartridge that was gone from its drive while a session that was cut short was closed made its
/// tape suspect, and one that was gone each time was mounted for ever.
#[test]
fn a_tape_that_drops_out_of_its_drive_is_spared_at_first() {
    // One tape: no other takes its place, and its share of what fails.
    let instance =
        Instance::with_many_tapes(1, ByteCount::mib(64), VirtualCartridgeOptions::default(), |settings| {
            settings.library.files_mut().unwrap().drives = 1;
            settings.tape.retry_delay = Duration::from_millis(50);
            settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
        });
    let trouble = Trouble::of(instance, 1);
    let (archive, faults) = trouble.open();
    put(&archive, "/t/first", &[1; 300_000]);
    migrate_all(&archive);
    let vid = place(&archive, "/t/first")[0].0;
    faults.plan_condition(&drive(0), DriveCommand::Write, Condition::Emptied, 2);
    put(&archive, "/t/second", &[2; 300_000]);
    migrate_all(&archive);
    assert_eq!(faults.fired(), 2);
    let spared = tape(&archive, vid).unwrap();
    assert_eq!((spared.state, spared.reason.as_str()), (TapeState::Active, ""));
    faults.plan_condition(&drive(0), DriveCommand::Write, Condition::Emptied, 5);
    put(&archive, "/t/third", &[3; 300_000]);
    archive.migrate_now(None).unwrap();
    let reason = || tape(&archive, vid).unwrap().reason;
    wait_until("the tape is suspected", || reason().contains("holds no cartridge"));
    stop(archive);
}

/// The same in the midst of a session: the flush of what was whole before failed too, since the drive takes
/// no write after one that failed, and that error set the tape aside.
#[test]
fn a_write_without_room_in_the_midst_of_a_session_is_no_fault_of_the_tape() {
    let trouble = Trouble::with_retry(2, Duration::from_millis(50));
    let (archive, faults) = trouble.open();
    faults.plan_no_space_once(vid(1), data(80));
    let files = fill(&archive);
    round(&archive, &files);
    assert!(faults.fired() > 0);
    let tape = archive.tape(vid(1)).unwrap();
    assert_eq!(tape.state, TapeState::Active, "{}", tape.reason);
    assert!(tape.containers >= 1, "the whole prefix is adopted");
    assert!(tape.torn.0 > 0);
    stop(archive);
}

/// A full file system behind all cartridges is no fault of one of them: when it has room again, the same
/// tapes are written on.
#[test]
fn a_full_file_system_of_the_library_is_no_fault_of_a_tape() {
    let trouble = Trouble::with_retry(2, Duration::from_millis(50));
    let (archive, faults) = trouble.open();
    let first = fill(&archive);
    migrate_all(&archive);
    put(&archive, "/t/more", &[3; 700_000]);
    faults.plan_no_space(true);
    archive.migrate_now(None).unwrap();
    wait_until("writes have failed", || faults.fired() >= 4);
    faults.plan_no_space(false);
    migrate_all(&archive);
    for tape in archive.tapes().unwrap() {
        let is_well = matches!(tape.state, TapeState::Active | TapeState::Full | TapeState::Scratch);
        assert!(is_well, "{} is {:?}: {}", tape.vid, tape.state, tape.reason);
    }
    check_all(&archive, &first);
    stop(archive);
}
