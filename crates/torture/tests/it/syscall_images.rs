//! Crash images of recorded histories. `KIST_SYSCALL_IMAGES` says how many in all, a hundred of each history.

use std::time::Instant;

use torture::images::{Report, Settings, run};
use torture::strace;

fn torture(histories: u64, images: u64, full_every: u64, planted: Option<&str>) -> Option<Report> {
    if !strace::is_wanted() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        recorded: env!("CARGO_BIN_EXE_recorded").into(),
        dir: directory.path().to_owned(),
        histories,
        images,
        full_every,
        seed: 1,
        planted: planted.map(ToOwned::to_owned),
        // Threads of an engine wait for each other more than they work.
        workers: 6,
    };
    let begin = Instant::now();
    let report = run(&settings).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    println!("{report}{:<36} {seconds:>12.1}", "seconds");
    println!("{:<36} {:>12.1}", "images in a second", report.images as f64 / seconds);
    Some(report)
}

#[test]
fn acknowledged_files_survive_every_crash_image() {
    let wanted: Option<u64> = std::env::var("KIST_SYSCALL_IMAGES").ok().and_then(|text| text.parse().ok());
    let (histories, images) = wanted.map_or((4, 25), |wanted| (wanted.div_ceil(100), 100));
    let Some(report) = torture(histories, images, 20, None) else { return };
    assert_eq!(report.violations, [""; 0]);
    assert_eq!(report.images, histories * images);
    assert_eq!(report.distinct, histories, "histories repeat each other");
    assert!(report.lossy > 0 && report.full > 0 && report.read > 0 && report.acknowledged > 0);
}

/// One that ends by itself where it was to stop is told as that, with its last words; a planted bug is found
/// by it.
#[test]
fn a_program_that_ends_by_itself_is_told() {
    use std::os::unix::fs::PermissionsExt;
    if !strace::is_wanted() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("recorded");
    std::fs::write(&program, "#!/bin/sh\necho an assertion failed >&2\necho $$\nexit 7\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let dir = directory.path().join("histories");
    let mut settings = Settings {
        recorded: program,
        dir,
        histories: 1,
        images: 1,
        full_every: 1,
        seed: 1,
        planted: None,
        workers: 1,
    };
    let error = run(&settings).unwrap_err().to_string();
    assert!(error.contains("exit status: 7") && error.contains("an assertion failed"), "{error}");
    settings.planted = Some("MissingTapeFlush".to_owned());
    let report = run(&settings).unwrap();
    assert_eq!(report.violations.len(), 1, "{report}");
}

/// Each missing sync is found, so that the images are known to lose what was not synced.
fn is_found(bug: &str, full_every: u64) {
    for _ in 0..10 {
        let Some(report) = torture(2, 30, full_every, Some(bug)) else { return };
        if !report.violations.is_empty() {
            return;
        }
    }
    panic!("{bug} was not found");
}

#[test]
fn a_missing_sync_of_the_pool_is_found() {
    is_found("MissingPoolSync", 1000);
}

#[test]
fn a_missing_sync_of_a_segment_is_found() {
    is_found("MissingSegmentSync", 1000);
}

#[test]
fn a_missing_flush_of_a_tape_is_found() {
    is_found("MissingTapeFlush", 3);
}
