//! Bugs that are planted, and what catches them: bytes of the pool that are wrong although no cell says so,
//! for which there are checksums of whole files; and starts after a restore that believe names.

#[path = "it/common/bases.rs"]
mod bases;
#[path = "it/common/mod.rs"]
mod common;
#[path = "it/common/faulty.rs"]
mod faulty;
#[path = "it/common/history.rs"]
mod history;
#[path = "it/common/restoring.rs"]
mod restoring;
#[path = "it/common/small_files.rs"]
mod small_files;

use std::os::unix::fs::FileExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use archive::{Archive, ArchiveError};
use base::ByteCount;
use base::planted::{Bug, plant};
use common::{Instance, bytes, path, put};

/// Behind the header of the first cell.
const AT: u64 = 4096 + 77;

/// One after the other: a planted bug is there for all of a process.
#[test]
fn what_is_planted_is_caught() {
    a_whole_file_that_is_not_what_was_put_is_never_given_to_its_end();
    let caught: [(Bug, fn()); 5] = [
        (Bug::SettledByOldSets, restoring::go_back_before_drives_were_replaced),
        (Bug::BelievedExtent, restoring::go_back_before_values_were_punched),
        (Bug::PunchNeighbours, small_files::delete_nearly_all),
        (Bug::TrimWithoutBase, bases::the_log_stays_without_a_base),
        (Bug::UnreadBase, bases::the_log_stays_if_no_base_can_be_read_back),
    ];
    for (bug, catch) in caught {
        plant(Some(bug));
        let ran = catch_unwind(catch);
        plant(None);
        assert!(ran.is_err(), "{bug:?} is not caught");
    }
}

fn a_whole_file_that_is_not_what_was_put_is_never_given_to_its_end() {
    // Nothing goes to tape: whoever reads a file for that finds it lost, perhaps before this test reads it.
    let instance = Instance::with(ByteCount::mib(64), restoring::at_rest);
    let archive = instance.open();
    // One cell, some of a row, several rows.
    let sizes = [300_000, 3_000_000, 9_000_000];
    for size in sizes {
        put(&archive, &format!("/f{size}"), &bytes(3, size));
    }
    archive.close();
    drop(archive);
    for drive in &instance.settings.pool.drives {
        for extent in files_below(&drive.at.directory().join("extents")) {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(extent).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, AT).unwrap();
            file.write_all_at(&[byte[0] ^ 1], AT).unwrap();
        }
    }
    plant(Some(Bug::UncheckedCell));
    let archive = instance.open();
    for size in sizes {
        for pauses in [false, true] {
            let (given, end) = read(&archive, &format!("/f{size}"), pauses);
            assert!(matches!(end, Err(ArchiveError::Corrupt { .. })), "{size}: {end:?}");
            assert!(given < size, "{given} of {size}");
        }
    }
    plant(None);
    archive.close();
}

/// How many bytes were given out, and how it ended.
fn read(archive: &Archive, name: &str, pauses: bool) -> (usize, Result<(), ArchiveError>) {
    let mut download = archive.open_read(&path(name)).unwrap();
    let mut given = 0;
    loop {
        match download.next() {
            Ok(Some(chunk)) => given += chunk.len(),
            Ok(None) => return (given, Ok(())),
            Err(error) => return (given, Err(error)),
        }
        if pauses {
            download.pause();
        }
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}
