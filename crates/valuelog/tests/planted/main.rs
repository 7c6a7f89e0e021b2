//! That the crash tests can catch a bug: each is planted, and must be seen. In a program of its own: what is
//! planted is so in the whole process.

#[path = "../it/disk.rs"]
mod disk;
#[path = "../history/mod.rs"]
mod history;

use std::panic::catch_unwind;

use base::planted::{Bug, plant};
use history::campaign::campaign;

const BUGS: [Bug; 6] = [
    Bug::MissingLogSync,
    Bug::UncheckedBatch,
    Bug::UncheckedFooter,
    Bug::DroppedTombstone,
    Bug::EarlySegmentReuse,
    Bug::UncheckedTail,
];

#[test]
fn each_planted_bug_is_seen() {
    let mut missed = Vec::new();
    for bug in BUGS {
        plant(Some(bug));
        // Some are caught by the store's own assertions first.
        let seen = (1..40).find_map(|seed| match catch_unwind(|| campaign(seed..seed + 1, 140)) {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(format!("seed {seed}: a panic")),
        });
        plant(None);
        match seen {
            Some(how) => println!("{bug:?}: {how}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not seen: {missed:?}");
    campaign(1..2, 140).unwrap();
}
