//! A catalogue without room, and the tapes that its files wait for.

use std::time::Duration;

use archive::ArchiveError;
use base::ByteCount;
use catalogue::TapeState;
use scheduler::Reason;
use store::ExecuteError;

use crate::common::{Instance, path, put, settled, stop, wait_until};
use crate::faulty::check_all;

/// Tapes and drives have nothing to do with it: none is labelled in vain, set aside or suspected, and with a
/// larger map all goes on.
#[test]
fn a_full_catalogue_is_no_fault_of_tapes_or_drives() {
    let mut instance = Instance::with(ByteCount::mib(64), |settings| {
        settings.catalogue_map_size = ByteCount::mib(8);
        settings.tape.retry_delay = Duration::from_secs(3600);
        for class in &mut settings.classes {
            class.pack_age = Duration::from_secs(3600);
            class.pack_bytes = ByteCount::mib(4);
        }
    });
    let archive = settled(instance.open());
    let mut files = Vec::new();
    let full = loop {
        let (name, content) = (format!("/t/{:05}", files.len()), vec![7; 64]);
        let upload =
            archive.begin_put(&path(&name), archive::PutOptions { make_parents: true, ..Default::default() });
        let done = upload.and_then(|mut upload| {
            upload.write(&content)?;
            upload.finish()
        });
        match done {
            Ok(_) => files.push((name, content)),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, ArchiveError::Store(ExecuteError::MapFull)), "{full}");
    let tapes = archive.tapes().unwrap().len();
    let drives = archive.tape_drives().len();
    archive.migrate_now(None).unwrap();
    wait_until("the catalogue is told as the reason", || {
        let waits = archive.queue().unwrap();
        waits.iter().any(|line| matches!(line.cause, Some(Reason::CatalogueFull)))
    });
    let scratch = archive.tapes().unwrap().iter().filter(|tape| tape.state == TapeState::Scratch).count();
    assert!(scratch + drives >= tapes, "{scratch} of {tapes} are left");
    for tape in archive.tapes().unwrap() {
        assert!(
            !matches!(tape.state, TapeState::Suspect | TapeState::ReadOnly),
            "{} {}",
            tape.vid,
            tape.reason
        );
    }
    assert!(archive.tape_drives().iter().all(|drive| drive.state != "down"));
    stop(archive);
    instance.settings.catalogue_map_size = ByteCount::mib(64);
    let archive = settled(instance.open());
    wait_until("all is on tape", || {
        archive.migrate_now(None).unwrap();
        let totals = archive.totals().unwrap();
        totals.todo.files == 0 && totals.queued.files == 0 && totals.unindexed == 0
    });
    let every_hundredth: Vec<_> = files.into_iter().step_by(100).collect();
    check_all(&archive, &every_hundredth);
    put(&archive, "/t/new", &[1; 100]);
    stop(archive);
}
