//! Bugs planted in the world are found by its invariants.

use crate::support::{TB, campaign, fault, hold, hours, ingest, model, secs, users};
use scenario::model::{FaultKind, Model};
use twin::world::{Planted, run_planted};

/// Reads, writes, evictions, drives that fail and servers that restart.
fn busy(faults: &[FaultKind]) -> Model {
    let mut model = model(3, 2, TB);
    hold(&mut model, 3_000);
    campaign(&mut model, Some(1_000));
    users(&mut model, 2_000.0, hours(24));
    ingest(&mut model, 2_000.0, hours(24));
    model.site.pool.capacity = base::ByteCount(TB);
    for kind in faults {
        fault(&mut model, *kind, hours(1), secs(600));
    }
    model.span = hours(24 * 20);
    model
}

fn found(planted: Planted, faults: &[FaultKind]) -> String {
    found_in(&busy(faults), planted)
}

fn found_in(model: &Model, planted: Planted) -> String {
    let outcome = twin::run(model, 5);
    assert_eq!(outcome.violation, None, "without the bug");
    let outcome = run_planted(model, 5, Some(planted));
    outcome.violation.unwrap_or_else(|| panic!("{planted:?} was not found: {:?}", outcome.totals))
}

#[test]
fn a_request_forgotten_at_a_restart_is_found() {
    let what = found(Planted::ForgetAtRestart, &[FaultKind::Restart]);
    assert!(what.contains("forgotten"), "{what}");
}

#[test]
fn an_eviction_before_the_copies_are_there_is_found() {
    let what = found(Planted::EvictUnsafe, &[]);
    assert!(what.contains("without its copies"), "{what}");
}

#[test]
fn a_copy_that_is_written_twice_is_found() {
    let what = found(Planted::WriteTwice, &[]);
    assert!(what.contains("twice"), "{what}");
}

#[test]
fn a_file_that_the_scheduler_still_wants_is_found() {
    let what = found(Planted::LoseNotWanted, &[]);
    assert!(what.contains("wants"), "{what}");
}

#[test]
fn a_request_that_ends_twice_is_found() {
    let what = found(Planted::ServeTwice, &[]);
    assert!(what.contains("ends twice"), "{what}");
}

#[test]
fn a_file_forgotten_with_a_broken_drive_is_found() {
    let what = found(Planted::ForgetAtDriveLoss, &[FaultKind::DriveLoss]);
    assert!(what.contains("forgotten"), "{what}");
}

#[test]
fn a_drive_whose_wish_to_be_cleaned_is_forgotten_is_found() {
    let mut model = busy(&[FaultKind::DirtyDrive, FaultKind::CleanerUsedUp]);
    // It is a matter of days.
    users(&mut model, 100.0, hours(24 * 4));
    let what = found_in(&model, Planted::ForgetDirtyDrives);
    assert!(what.contains("asks to be cleaned since"), "{what}");
}
