//! A file system behind the library that is full: nobody's fault but this host's.

use std::time::Duration;

use archive::{About, Archive, HealthProblem, Reason};
use base::Vid;
use catalogue::TapeState;

use crate::common::{migrate_all, path, put, stop, wait_until};
use crate::faulty::{Trouble, check_all, fill};

fn scratch_tapes(archive: &Archive) -> Vec<Vid> {
    let tapes = archive.tapes().unwrap().into_iter();
    tapes.filter(|tape| tape.state == TapeState::Scratch).map(|tape| tape.vid).collect()
}

fn mounts(archive: &Archive) -> u64 {
    archive.tapes().unwrap().iter().map(|tape| tape.mounts).sum()
}

/// Story: with the library on a full file system, nine of twelve tapes were labelled in two minutes and 70
/// mounts made in one, `queue` said that nothing waits, `why` that the file was being written, and `/healthz`
/// that all was well.
#[test]
fn a_host_that_cannot_write_to_tapes_takes_no_scratch_tape_and_says_so() {
    let trouble = Trouble::with_retry(2, Duration::from_millis(100));
    let (archive, faults) = trouble.open();
    let first = fill(&archive);
    migrate_all(&archive);
    let before = (scratch_tapes(&archive), mounts(&archive));
    assert!(!before.0.is_empty(), "there are scratch tapes to be taken");
    assert_eq!(archive.health(), []);
    faults.plan_no_space(true);
    put(&archive, "/t/more", &[3; 700_000]);
    archive.migrate_now(None).unwrap();
    wait_until("the host is blamed", || !archive.health().is_empty());
    std::thread::sleep(Duration::from_secs(6));

    // 0.1 s, 0.2 s, ... 3.2 s: six tries of each pool at most, besides what takes over a torn end.
    let made = mounts(&archive) - before.1;
    assert!(made <= 30, "{made} mounts");
    assert_eq!(scratch_tapes(&archive), before.0, "no scratch tape is taken");
    let told = |text: &str| text.contains("this host cannot write to tapes: ");
    assert!(
        matches!(&archive.health()[..], [HealthProblem::TapesNotWritten { .. }]),
        "{:?}",
        archive.health()
    );
    assert!(archive.totals().unwrap().warnings.iter().any(|text| told(text)), "kist status");
    let file = path("/t/more");
    let place = archive.tapes().unwrap().into_iter().find(|tape| tape.state == TapeState::Active).unwrap();
    // While a try is under way, it is being mounted or written.
    let says = |about: &About| {
        wait_until(&format!("{about:?} says so"), || {
            let causes = archive.explain(about).unwrap();
            causes.iter().any(|cause| {
                told(&cause.text) && matches!(cause.reason, Some(Reason::HostCannotWrite { .. }))
            })
        });
    };
    says(&About::Path(file));
    says(&About::TapePool("vault-a".to_owned()));
    says(&About::Tape(place.vid));
    wait_until("the queue says so", || {
        let queue = archive.queue().unwrap();
        queue.iter().any(|line| matches!(line.cause, Some(Reason::HostCannotWrite { .. })))
    });

    faults.plan_no_space(false);
    wait_until("it goes on by itself", || archive.health().is_empty());
    migrate_all(&archive);
    assert_eq!(scratch_tapes(&archive), before.0);
    check_all(&archive, &first);
    stop(archive);
}
