//! A drive cleans itself when a cleaning cartridge is put in; nobody but TEST UNIT READY tells how far that
//! is, and flags tell what came of it.

use std::time::Duration;

use library::scsi::ScsiDrive;
use library::{TapeAlert, TapeError};
use scsi::log::TapeAlerts;
use scsi::{Sense, SenseKey};

use crate::scsi_drive::{READY, opened, options};
use crate::scsi_model::{Fault, Quirks, Shared};

const UNLOAD: u8 = 0x1b;

fn says(asc: u8, ascq: u8) -> Fault {
    Fault::Says(Sense::new(SenseKey::NotReady, asc, ascq))
}

fn flags(flags: &[u8]) -> TapeAlerts {
    flags.iter().fold(TapeAlerts::default(), |all, flag| all.with(*flag))
}

/// A drive without a tape that gives these answers to TEST UNIT READY first, and these flags: when the
/// cartridge is put in, and when that was told.
fn drive(answers: Vec<Fault>, at_first: &[u8], then: &[u8]) -> (Shared, ScsiDrive) {
    let model = Shared::new(Quirks::default());
    let scsi = opened(&model, options());
    {
        let mut model = model.lock();
        model.loaded = false;
        (model.alerts, model.alerts_after) = (flags(at_first), flags(then));
        answers.into_iter().for_each(|answer| model.plan(READY, answer));
    }
    (model, scsi)
}

fn cleans(answers: Vec<Fault>, most: u64, then: &[u8]) -> (Result<Vec<TapeAlert>, TapeError>, usize) {
    let (model, scsi) = drive(answers, &[], then);
    let before = model.lock().count(READY);
    let done = scsi.clean(Duration::from_secs(most));
    let asked = model.lock().count(READY) - before;
    (done, asked)
}

#[test]
fn a_drive_is_waited_for_until_it_has_done_with_a_cleaning_cartridge() {
    // It has not noticed it yet, cleans, and pushes it out: which it says of itself.
    let (done, asked) = cleans(vec![says(0x3a, 0x00), says(0x30, 0x03), says(0x04, 0x01)], 600, &[]);
    assert_eq!((done.unwrap(), asked), (vec![], 4));
    // A reset meanwhile, and a lost answer, end nothing.
    let attention = Fault::Says(Sense::new(SenseKey::UnitAttention, 0x29, 0x00));
    let (done, _) = cleans(vec![says(0x30, 0x03), attention, Fault::Lost, says(0x30, 0x03)], 600, &[]);
    assert!(done.is_ok(), "{done:?}");
    // It was not cleaned, and says so.
    let (done, _) = cleans(vec![says(0x30, 0x03), says(0x30, 0x07)], 600, &[]);
    assert!(matches!(done, Err(TapeError::CleaningNeeded { .. })), "{done:?}");
    // It never comes to an end; or says until the robot comes that the cartridge is in it.
    let (done, asked) = cleans((0..200).map(|_| says(0x04, 0x01)).collect(), 60, &[]);
    assert!(matches!(done, Err(TapeError::NotReady { .. })) && asked < 20, "{done:?} {asked}");
    let (done, asked) = cleans((0..200).map(|_| says(0x30, 0x03)).collect(), 60, &[]);
    assert!(done.is_ok() && asked < 20, "{done:?} {asked}");
}

/// A drive that never said that it cleaned counted as clean: one that had pushed the cartridge out again, or
/// had refused it without a word in its flags.
#[test]
fn a_drive_that_does_not_say_that_it_cleans_has_not() {
    // Nothing is in it: that is not believed at once.
    let (done, asked) = cleans(Vec::new(), 600, &[]);
    assert!(matches!(done, Err(TapeError::NotLoaded { .. })) && asked > 10, "{done:?} {asked}");
    let (done, asked) = cleans(vec![says(0x30, 0x00)], 600, &[]);
    assert!(matches!(done, Err(TapeError::NotReady { .. })) && asked == 1, "{done:?} {asked}");
    // Flags say it: it was one for cleaning; it is used up.
    assert_eq!(cleans(Vec::new(), 600, &[11]).0.unwrap(), [TapeAlert::CLEANING_MEDIUM]);
    assert_eq!(cleans(vec![says(0x30, 0x00)], 600, &[22]).0.unwrap(), [TapeAlert::CLEANER_USED_UP]);
}

/// A tape with the label of a cleaning cartridge was used again and again to clean drives.
#[test]
fn what_makes_the_drive_ready_is_no_cleaning_cartridge() {
    let (model, scsi) = drive(vec![says(0x04, 0x01)], &[], &[]);
    model.lock().loaded = true;
    assert_eq!(scsi.clean(Duration::from_secs(600)).unwrap(), [TapeAlert::CLEANER_INVALID]);
}

/// A drive that is as dirty as before was not cleaned. What it had said before, and nobody had heard, says
/// nothing.
#[test]
fn a_drive_that_still_asks_for_it_was_not_cleaned() {
    let answers = || vec![says(0x30, 0x03)];
    let (done, _) = cleans(answers(), 600, &[20]);
    assert!(matches!(done, Err(TapeError::CleaningNeeded { .. })), "{done:?}");
    let (_, scsi) = drive(answers(), &[20, 11], &[]);
    assert_eq!(scsi.clean(Duration::from_secs(600)).unwrap(), [TapeAlert::CLEANING_MEDIUM]);
    // For want of a cartridge that cleans: that goes first.
    let (done, _) = cleans(answers(), 600, &[20, 22]);
    assert_eq!(done.unwrap(), [TapeAlert::CLEAN_NOW, TapeAlert::CLEANER_USED_UP]);
}

/// UNLOAD of a drive that says 30/03 until the cartridge is taken failed, and the cartridge stayed in it.
#[test]
fn a_cleaning_cartridge_that_needs_no_unload_is_taken() {
    let (model, scsi) = drive(Vec::new(), &[], &[]);
    model.lock().plan(UNLOAD, says(0x30, 0x03));
    assert!(scsi.let_out().unwrap().is_none());
    assert_eq!(model.lock().fired, 1);
}
