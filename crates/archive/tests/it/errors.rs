//! What every error of the engine means to those who call it: `tests/errors/table.txt`. Its other columns are
//! checked where they are said, by the doors.

use crate::samples;
use std::collections::BTreeSet;

/// The variants of an enum of errors, as its source has them.
fn variants<'s>(source: &'s str, name: &str) -> BTreeSet<&'s str> {
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum");
    let (body, _) = body.split_once("\n}\n").expect("its end");
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    lines.filter_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next()).collect()
}

fn names<E: std::fmt::Debug>(errors: &[E]) -> BTreeSet<String> {
    errors.iter().map(samples::variant_of).collect()
}

#[test]
fn every_error_has_a_row() {
    let check = |source: &str, name: &str, mut found: BTreeSet<String>, elsewhere: &[&str]| {
        found.extend(elsewhere.iter().map(ToString::to_string));
        let wanted: BTreeSet<String> = variants(source, name).into_iter().map(str::to_owned).collect();
        assert!(wanted.len() >= 3, "{name}");
        assert_eq!(found, wanted, "{name}");
    };
    let engine = include_str!("../../../ground/src/error.rs");
    let below = ["Rejected", "Store", "Pool", "Blob"];
    check(engine, "ArchiveError", names(&samples::of_the_engine()), &below);
    let uploads = samples::of_the_engine().into_iter().filter_map(|error| match error {
        archive::ArchiveError::Upload(error) => Some(error),
        _ => None,
    });
    let upload = include_str!("../../../ground/src/error/upload.rs");
    check(upload, "UploadError", names(&uploads.collect::<Vec<_>>()), &[]);
    let catalogue = include_str!("../../../catalogue/src/error.rs");
    check(catalogue, "Rejection", names(&samples::rejections()), &[]);
    let objects = samples::rejections().into_iter().filter_map(|rejection| match rejection {
        catalogue::Rejection::NotFound(object) => Some(object),
        _ => None,
    });
    check(catalogue, "Object", names(&objects.collect::<Vec<_>>()), &[]);
    let store = include_str!("../../../store/src/error.rs");
    check(store, "ExecuteError", names(&samples::execute_errors()), &[]);
    let pool = include_str!("../../../pool/src/error.rs");
    check(pool, "PoolError", names(&samples::pool_errors()), &[]);
    let blob = include_str!("../../../blob/src/error.rs");
    let faults: Vec<_> = samples::blob_errors().iter().map(|error| error.fault).collect();
    check(blob, "BlobFault", names(&faults), &[]);
}

#[test]
fn every_error_has_the_kind_of_the_table() {
    samples::check_column(1, |error| format!("{:?}", error.kind()));
}

/// Bytes that a put stored are given up only if it is certain that nothing refers to them.
#[test]
fn after_a_wrong_outcome_the_bytes_are_kept() {
    let wrong = store::ExecuteError::WrongOutcome(Box::new(catalogue::Outcome::Done));
    assert!(!archive::ArchiveError::Store(wrong).is_certain_refusal());
    assert!(archive::ArchiveError::Store(store::ExecuteError::MapFull).is_certain_refusal());
}
