//! What is said of files that can never reach tape, and of seals that cannot go on.

use std::fs;

use archive::{About, Archive, Expected, ItemFailure, QueueLine, Reason};
use base::Duration;
use catalogue::ItemState;

use crate::common::{bytes, path, put, scrub, stage, wait_until};
use crate::faulty::Trouble;
use crate::unreadable::put_bad;

fn seal_line(archive: &Archive) -> QueueLine {
    let queue = archive.queue().unwrap();
    let line = queue.iter().find(|line| line.what.starts_with("seal "));
    line.unwrap_or_else(|| panic!("{queue:?}")).clone()
}

/// Story: the only copy of a file was lost with drives of the pool. `kist why` foretold when its pack would
/// be written, `kist queue` counted its bytes in the reason and not in the line, and `kist why REQUEST` said
/// that it had failed and not of what.
#[test]
fn a_lost_file_gets_no_promise() {
    let trouble = Trouble::new(1);
    let (archive, _) = trouble.open();
    let shards = put_bad(&trouble, &archive, "/t/bad", 300_000);
    put(&archive, "/t/good", &bytes(2, 200_000));
    put(&archive, "/t/empty", &[]);
    shards.iter().for_each(|shard| fs::remove_file(shard).unwrap());
    scrub(&archive);
    wait_until("the reason counts what the queue counts", || match seal_line(&archive).cause {
        Some(Reason::WaitingForBytes { have, .. }) => have.0 == 200_000,
        _ => false,
    });
    assert_eq!(seal_line(&archive).bytes.0, 200_000);
    let causes = archive.explain(&About::Path(path("/t/bad"))).unwrap();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].reason, Some(Reason::Lost));
    assert_eq!(causes[0].expected, Some(Expected::Never(Reason::Lost)));
    assert!(Reason::Lost.needs_an_operator());
    let empty = archive.explain(&About::Path(path("/t/empty"))).unwrap();
    assert!(empty[0].reason.is_none() && empty[0].expected.is_none(), "never sealed: {empty:?}");

    let request = stage(&archive, &["/t/bad", "/t/good"]);
    let record = archive.request(request).unwrap().record;
    assert_eq!((record.done, record.failed), (1, 1));
    let (files, _) = archive.request_files(request, 0, 10).unwrap();
    let bad = files.iter().find(|file| file.path == "/t/bad").unwrap();
    assert!(matches!(bad.state, ItemState::Failed(_)));
    assert_eq!(bad.failure, Some(ItemFailure::Lost));
    assert!(files.iter().all(|file| file.path == "/t/bad" || file.failure.is_none()), "{files:?}");
    let causes = archive.explain(&About::Request(request)).unwrap();
    let failed = causes.iter().find(|cause| cause.reason == Some(Reason::Lost));
    assert!(failed.is_some_and(|cause| cause.text.starts_with("/t/bad failed: LOST")), "{causes:?}");
    archive.close();
}

/// Story: too few drives of the pool took data, so that no pack could be sealed. It was said to have failed
/// and to be tried again, which went on for ever; nobody was told what to do.
#[test]
fn a_seal_that_finds_too_few_drives_says_so_until_they_are_back() {
    let trouble = Trouble::with_retry(1, Duration::from_millis(200));
    let (archive, _) = trouble.open();
    put(&archive, "/t/a", &bytes(1, 200_000));
    archive.close();
    drop(archive);
    let drives = &trouble.instance.settings.pool.drives;
    for drive in &drives[..3] {
        fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    }
    let (archive, _) = trouble.open();
    archive.migrate_now(None).unwrap();
    wait_until("the seal has failed", || {
        seal_line(&archive).cause.is_some_and(|cause| cause.kind() == "too-few-pool-drives")
    });
    let line = seal_line(&archive);
    let cause = line.cause.clone().unwrap();
    assert!(cause.needs_an_operator());
    let text = cause.to_string();
    let said = text.contains("5 drives of the pool take new data and 6 are needed");
    assert!(said && text.contains("drive 0 (missing)") && text.contains("kist pool show"), "{text}");
    assert_eq!(line.expected, Some(Expected::Never(cause.clone())));
    let stuck = archive.totals().unwrap().stuck;
    assert!(stuck.iter().any(|stuck| stuck.cause.as_ref() == Some(&cause)), "{stuck:?}");
    let why = archive.explain(&About::Path(path("/t/a"))).unwrap();
    assert!(why.iter().any(|why| why.reason.as_ref() == Some(&cause)), "{why:?}");
    for (id, drive) in (0..3).zip(drives) {
        fs::rename(drive.at.directory().with_extension("away"), drive.at.directory()).unwrap();
        archive.pool_drive_replace(id, false, false).unwrap();
    }
    wait_until("it is sealed", || archive.totals().unwrap().todo.files == 0);
    archive.close();
}
