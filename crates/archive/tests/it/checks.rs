//! Checks of tapes that cannot be mounted: they end, cost few mounts, and can be called off.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use archive::{
    About, Archive, ArchiveError, CheckState, MountLog, MountLogFiles, SUSPECT_FAILURES_MAX, TapeCheck,
    TapeUse,
};
use base::{Clock, Vid};
use catalogue::TapeState;

use crate::common::{SystemClock, migrate_all, stop, wait_until};
use crate::emptied::dismounted;
use crate::faulty::{Trouble, fill, place, set_drives};

fn written(trouble: &Trouble) -> (Archive, Vid) {
    written_logged(trouble, None)
}

fn written_logged(trouble: &Trouble, log: Option<Arc<dyn MountLog>>) -> (Archive, Vid) {
    let (archive, _) = trouble.open_logged(log);
    fill(&archive);
    migrate_all(&archive);
    dismounted(&archive);
    let vid = place(&archive, "/t/small3")[0].0;
    (archive, vid)
}

fn check_of(archive: &Archive, vid: Vid) -> TapeCheck {
    archive.tape_check(vid).unwrap().expect("a check was asked for")
}

fn failures(archive: &Archive, vid: Vid) -> u32 {
    archive.tape(vid).unwrap().history.map_or(0, |history| history.failures)
}

fn refused(archive: &Archive, vid: Vid) -> String {
    match archive.check_tapes(&[vid]) {
        Err(error @ ArchiveError::Rejected(_)) => error.to_string(),
        other => panic!("the check is refused, not {other:?}"),
    }
}

/// Story: work on a tape that had failed once rested on after an operator had looked at the tape and set it
/// read-only: only `active` ended the rest, and made a tape writable that was to be read.
#[test]
fn a_tape_that_is_given_back_for_reading_rests_no_more() {
    // Longer than a test lasts: nothing is tried again by itself.
    let trouble = Trouble::with_retry(2, Duration::from_secs(3_600));
    let (archive, faults) = trouble.open();
    fill(&archive);
    migrate_all(&archive);
    dismounted(&archive);
    let vid = place(&archive, "/t/small3")[0].0;
    faults.plan_jam(vid);
    archive.check_tapes(&[vid]).unwrap();
    wait_until("its check rests", || {
        let causes = archive.explain(&About::Tape(vid)).unwrap();
        causes.iter().any(|cause| cause.reason.as_ref().is_some_and(|it| it.kind() == "resting"))
    });
    assert_eq!((faults.fired(), check_of(&archive, vid).state), (1, CheckState::Waiting));
    archive.set_tape(vid, TapeUse::ReadOnly, "the robot works again").unwrap();
    wait_until("it is checked", || check_of(&archive, vid).state == CheckState::Done);
    stop(archive);
}

/// Story: one byte of a cartridge was flipped. Both drives mounted it every few seconds for its check, for
/// ever, though it was said not to be tried again by itself; nothing but a restart ended that.
#[test]
fn the_check_of_a_cartridge_that_cannot_be_mounted_fails_after_few_attempts() {
    let trouble = Trouble::with_retry(2, Duration::from_millis(50));
    let (archive, vid) = written(&trouble);
    let data = trouble.instance.cartridge(vid).join("partition-b.rec");
    let mut bytes = fs::read(&data).unwrap();
    bytes[20] ^= 1;
    fs::write(&data, bytes).unwrap();
    archive.check_tapes(&[vid]).unwrap();
    wait_until("the check has ended, or goes on for ever", || {
        !check_of(&archive, vid).goes_on() || failures(&archive, vid) > SUSPECT_FAILURES_MAX
    });
    let check = check_of(&archive, vid);
    assert_eq!(check.state, CheckState::Failed, "{check:?}");
    assert!(check.ended.is_some() && check.reason.contains("not tried again by itself"), "{check:?}");
    // Several of the longest rests between two attempts.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(failures(&archive, vid), SUSPECT_FAILURES_MAX, "nobody mounts it any more");
    let why: Vec<String> =
        archive.explain(&About::Tape(vid)).unwrap().into_iter().map(|cause| cause.text).collect();
    assert!(!format!("{why:?}").contains("tried again at"), "one answer, one word: {why:?}");
    let said = refused(&archive, vid);
    assert!(said.contains("set aside") && said.contains("kist tape set"), "{said}");
    stop(archive);
}

/// Story: the check of a tape went on after `kist tape set VID disabled`.
#[test]
fn the_check_of_a_tape_that_is_disabled_fails() {
    let trouble = Trouble::new(2);
    let (archive, vid) = written(&trouble);
    set_drives(&archive, false);
    archive.check_tapes(&[vid]).unwrap();
    assert_eq!(check_of(&archive, vid).state, CheckState::Waiting);
    archive.set_tape(vid, TapeUse::Disabled, "it squeaks").unwrap();
    let check = check_of(&archive, vid);
    assert_eq!(check.state, CheckState::Failed, "{check:?}");
    assert!(check.reason.contains("it squeaks"), "{check:?}");
    let said = refused(&archive, vid);
    assert!(said.contains("disabled"), "{said}");
    let mounts = archive.tape(vid).unwrap().mounts;
    set_drives(&archive, true);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(archive.tape(vid).unwrap().mounts, mounts, "it is not mounted");
    archive.set_tape(vid, TapeUse::Active, "").unwrap();
    archive.check_tapes(&[vid]).unwrap();
    wait_until("the check is done", || check_of(&archive, vid).state == CheckState::Done);
    stop(archive);
}

/// Story: the check of a tape that was not in the library waited for ten minutes, and sent for it all
/// the time.
#[test]
fn a_tape_that_is_not_there_is_not_checked() {
    let trouble = Trouble::new(2);
    let (archive, vid) = written(&trouble);
    let aside = tempfile::tempdir().unwrap();
    let away = aside.path().join(vid.as_str());
    set_drives(&archive, false);
    archive.check_tapes(&[vid]).unwrap();
    fs::rename(trouble.instance.cartridge(vid), &away).unwrap();
    archive.take_inventory().unwrap();
    wait_until("the check has ended", || !check_of(&archive, vid).goes_on());
    let check = check_of(&archive, vid);
    assert_eq!(check.state, CheckState::Failed, "{check:?}");
    assert!(check.reason.contains("put it in"), "{check:?}");
    let said = refused(&archive, vid);
    assert!(said.contains("put it in"), "{said}");
    set_drives(&archive, true);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((failures(&archive, vid), archive.tape(vid).unwrap().state), (0, TapeState::Active));
    fs::rename(&away, trouble.instance.cartridge(vid)).unwrap();
    archive.take_inventory().unwrap();
    archive.check_tapes(&[vid]).unwrap();
    wait_until("the check is done", || check_of(&archive, vid).state == CheckState::Done);
    stop(archive);
}

/// A tape that failed and was then taken out is not tried again before it is back.
#[test]
fn a_suspect_tape_that_is_away_is_not_mounted() {
    let trouble = Trouble::with_retry(2, Duration::from_millis(50));
    let log = Arc::new(MountLogFiles::new(&trouble.instance.directory.path().join("mounts")));
    let (archive, vid) = written_logged(&trouble, Some(log.clone()));
    let data = trouble.instance.cartridge(vid).join("partition-b.rec");
    let whole = fs::read(&data).unwrap();
    let mut bytes = whole.clone();
    bytes[20] ^= 1;
    fs::write(&data, bytes).unwrap();
    archive.check_tapes(&[vid]).unwrap();
    wait_until("it has failed", || failures(&archive, vid) > 0);
    set_drives(&archive, false);
    let before = failures(&archive, vid);
    assert!(before < SUSPECT_FAILURES_MAX, "it is still to be tried");
    let aside = tempfile::tempdir().unwrap();
    let away = aside.path().join(vid.as_str());
    fs::rename(trouble.instance.cartridge(vid), &away).unwrap();
    archive.take_inventory().unwrap();
    let since = SystemClock.now();
    set_drives(&archive, true);
    std::thread::sleep(Duration::from_secs(2));
    let mut sent_for = 0;
    log.read(since, &mut |record| sent_for += u64::from(record.vid == vid)).unwrap();
    assert_eq!((sent_for, failures(&archive, vid)), (0, before), "it is not tried while it is away");
    fs::write(away.join("partition-b.rec"), whole).unwrap();
    fs::rename(&away, trouble.instance.cartridge(vid)).unwrap();
    archive.take_inventory().unwrap();
    wait_until("it is found well", || archive.tape(vid).unwrap().state == TapeState::Active);
    stop(archive);
}

/// There was no way to call off a check.
#[test]
fn a_check_can_be_called_off_and_asked_for_again() {
    let trouble = Trouble::new(2);
    let (archive, vid) = written(&trouble);
    archive.stop_checks(&[vid]).unwrap();
    assert!(archive.tape_check(vid).unwrap().is_none(), "what is not checked is not touched");
    set_drives(&archive, false);
    archive.check_tapes(&[vid]).unwrap();
    archive.stop_checks(&[vid]).unwrap();
    let check = check_of(&archive, vid);
    assert_eq!((check.state, check.ended.is_some()), (CheckState::Stopped, true), "{check:?}");
    let mounts = archive.tape(vid).unwrap().mounts;
    set_drives(&archive, true);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(archive.tape(vid).unwrap().mounts, mounts, "it is not mounted for it");
    archive.check_tapes(&[vid]).unwrap();
    wait_until("the check is done", || check_of(&archive, vid).state == CheckState::Done);
    let check = check_of(&archive, vid);
    assert_eq!((check.containers_checked, check.damage_count), (check.containers, 0), "{check:?}");
    archive.stop_checks(&[vid]).unwrap();
    assert_eq!(check_of(&archive, vid).state, CheckState::Done, "what is done stays done");
    stop(archive);
}
