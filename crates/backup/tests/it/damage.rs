//! Damage of a backup is found and named, and no more is given up than is damaged.

use std::fs;

use backup::{BackupError, RestoreError, RestoreTo, rehearse};
use base::{Clock, Duration};

use crate::server::{Instance, MAP, files_of, flip};

#[test]
fn damage_is_found_and_named() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("one");
    server.ship();
    server.make("two");
    server.ship();
    server.snapshot();
    for n in 0..5 {
        server.make(&format!("later{n}"));
        server.ship();
    }
    server.close();
    let scratch = instance.directory.path().join("scratch");
    let from = instance.from();
    let good = rehearse(&from, &scratch, MAP, &mut |_| {}).unwrap();
    assert!(good.is_good() && good.compared_at.is_some(), "{good:?}");
    let segments = files_of(from.root(), ".kcl");
    assert!(segments.len() >= 4, "{segments:?}");
    let mut found = 0;
    for file in segments.iter().chain(&files_of(from.root(), "data.mdb")) {
        let content = fs::read(file).unwrap();
        for truncate in [false, true] {
            if truncate {
                fs::write(file, &content[..content.len() / 2]).unwrap();
            } else {
                flip(file);
            }
            fs::remove_dir_all(&scratch).unwrap();
            // A damaged segment before the older snapshot's end is needed by nobody.
            match rehearse(&from, &scratch, MAP, &mut |_| {}) {
                Err(error) => {
                    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
                    found += 1;
                }
                Ok(rehearsed) => {
                    let told = rehearsed.restored.passed_over.concat();
                    assert!(!rehearsed.is_good() && told.contains(file.to_str().unwrap()), "{rehearsed:?}");
                    found += 1;
                }
            }
        }
        fs::write(file, content).unwrap();
    }
    assert_eq!(found, 2 * (segments.len() + 2));
    // A missing one is a gap.
    fs::remove_file(&segments[1]).unwrap();
    fs::remove_dir_all(&scratch).unwrap();
    let gap = rehearse(&from, &scratch, MAP, &mut |_| {});
    assert!(matches!(gap, Err(RestoreError::Backup(BackupError::Gap { .. }))), "{gap:?}");
}

/// Story: a gap in one line made the restore from every other line fail, since the newest change of all lines
/// was looked for with the check for gaps.
#[test]
fn a_gap_in_an_old_line_stops_no_restore() {
    let instance = Instance::new();
    let server = instance.start();
    for n in 0..5 {
        server.make(&format!("file{n}"));
        server.ship();
    }
    server.close();
    let from = instance.from();
    let segments = from.lines().unwrap().remove(0).segments().unwrap();
    fs::remove_file(&segments[2].path).unwrap();
    // The line has a gap, so another one begins.
    let server = instance.start();
    server.make("later");
    server.ship();
    assert_eq!(server.worker.status().line, 2);
    let before = server.close();
    assert_eq!(instance.restored(RestoreTo::Newest).unwrap().line, 2);
    assert_eq!(instance.tables(), before);
    let before_gap = segments[1].last;
    assert_eq!(instance.restored(RestoreTo::Change(before_gap)).unwrap().change, before_gap);
    let behind = instance.restored(RestoreTo::Change(segments[3].first));
    assert!(matches!(behind, Err(RestoreError::Backup(BackupError::Gap { .. }))), "{behind:?}");
    // Without a whole snapshot of its own line, the newest point is not one of a line that was given up.
    for snapshot in files_of(&from.root().join("line-0002"), "data.mdb") {
        flip(&snapshot);
    }
    let newest = instance.restored(RestoreTo::Newest);
    assert!(matches!(newest, Err(RestoreError::NothingFor { .. })), "{newest:?}");
}

/// Story: the manifest of the newest snapshot was gone, and the backup failed from then on, for ever: as on a
/// disk that does not answer, nothing more was shipped.
#[test]
fn a_missing_manifest_does_not_end_the_backup() {
    let instance = Instance::new();
    let server = instance.start();
    server.make("a");
    server.ship();
    server.close();
    let line = instance.backup().join("line-0001");
    let snapshot = fs::read_dir(line.join("snapshots")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(snapshot.join("MANIFEST")).unwrap();
    let server = instance.start();
    server.make("b");
    server.ship();
    assert_eq!(server.worker.status().line, 2);
    server.close();
    let in_an_hour = instance.clock.now().plus(Duration::from_secs(3_600));
    let whole = instance.restored(RestoreTo::Time(in_an_hour)).unwrap();
    assert!(whole.line == 2 && whole.missing_to(0).is_none(), "{whole:?}");
    // What lost all snapshots is no line to go on with.
    fs::remove_dir_all(instance.backup().join("line-0002/snapshots")).unwrap();
    let newest = instance.restored(RestoreTo::Newest);
    assert!(matches!(newest, Err(RestoreError::NothingFor { .. })), "{newest:?}");
}
