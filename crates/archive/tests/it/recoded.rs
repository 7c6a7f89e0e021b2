//! What is stored in another code than the pool's is written anew, with all that refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::{Archive, CloneOptions, Machines, PoolWork, RecodingInfo, Which};
use base::{BlobDescription, Layout, StripeCode};

use crate::common::{
    Instance, SystemClock, bytes, extents, get, migrate_all, path, put, stop, wait_for_pool,
};
use crate::drained::{check_files, load, name, put_files, small_packs};
use crate::history::evict_all;
use crate::rebalanced::{assert_placed, assert_whole, growing};
use crate::restoring::{back_to, open, shipped};

const FILES: u64 = 40;

fn info(archive: &Archive) -> Option<RecodingInfo> {
    archive.pool_info().unwrap().recoding
}

fn ended(archive: &Archive) -> Option<String> {
    match info(archive)?.state {
        PoolWork::Ended(why) => Some(why),
        _ => None,
    }
}

fn waits(archive: &Archive) -> Option<String> {
    match info(archive)?.state {
        PoolWork::Waiting(why) => Some(why),
        _ => None,
    }
}

fn wait_ended(archive: &Archive) -> RecodingInfo {
    wait_for_pool(archive, "the change of code has ended", || ended(archive).is_some());
    info(archive).unwrap()
}

/// All striped blobs, of a stopped instance.
fn blobs(instance: &Instance) -> Vec<BlobDescription> {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let all = machines.catalogue.read(|view| {
        let blobs = view.blobs(None, usize::MAX)?.into_iter();
        blobs.map(|(id, _)| view.blob(id)).collect::<Result<Vec<_>, _>>()
    });
    all.unwrap().into_iter().flatten().filter(|blob| matches!(blob.layout, Layout::Striped { .. })).collect()
}

fn codes(instance: &Instance) -> BTreeSet<StripeCode> {
    let code = |blob: &BlobDescription| match blob.layout {
        Layout::Striped { code } => code,
        Layout::Segment { .. } => unreachable!("striped blobs alone"),
    };
    blobs(instance).iter().map(code).collect()
}

/// No extent stands on the drives but those that the catalogue names.
pub fn assert_nothing_else(instance: &Instance) {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let named: usize = machines
        .catalogue
        .read(|view| {
            let blobs = view.blobs(None, usize::MAX)?;
            blobs.iter().map(|(id, _)| Ok(view.blob(*id)?.unwrap())).collect::<Result<Vec<_>, _>>()
        })
        .unwrap()
        .iter()
        .flat_map(|blob| &blob.stripes)
        .map(|set| set.drives.len())
        .sum();
    let drives = instance.settings.pool.drives.iter();
    let there: usize = drives.map(|drive| extents(drive.at.directory()).len()).sum();
    assert_eq!(there, named);
}

fn with_code(instance: &mut Instance, code: StripeCode) {
    instance.settings.pool.code = code;
}

/// The fewest copies of a segment of small files, of a stopped instance.
fn copies(instance: &Instance) -> usize {
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let all = machines.catalogue.read(|view| {
        let blobs = view.blobs(None, usize::MAX)?.into_iter();
        let segments = blobs.filter(|(_, record)| matches!(record.layout, Layout::Segment { .. }));
        segments.map(|(id, _)| Ok(view.blob(id)?.unwrap().drives().len())).collect::<Result<Vec<_>, _>>()
    });
    all.unwrap().into_iter().min().unwrap()
}

const LOCAL: StripeCode = StripeCode { data: 8, local: 2, global: 2 };

/// From 4+2 to 8+2, from there to 8+2+2 and back, under puts, reads, sessions and removals, and over
/// restarts.
#[test]
fn what_is_stored_gets_the_code_of_today_under_load() {
    let mut instance = growing(14, |_| None);
    small_packs(&mut instance.settings);
    let archive = instance.open();
    put_files(&archive, 0..FILES);
    let large = bytes(7, 9_000_001);
    put(&archive, "/t/large", &large);
    archive
        .clone_object(&path("/t/large"), Which::Current, &path("/t/clone"), CloneOptions::default())
        .unwrap();
    assert_eq!((info(&archive), archive.pool_recode_end().unwrap()), (None, false));
    stop(archive);
    let mut files = FILES;
    for code in [StripeCode::reed_solomon(8, 2), LOCAL, StripeCode::reed_solomon(4, 2)] {
        with_code(&mut instance, code);
        let archive = instance.open();
        check_files(&archive, 0..files);
        assert_eq!(archive.pool_recode().unwrap(), code);
        let is_over = AtomicBool::new(false);
        files = std::thread::scope(|scope| {
            let load = scope.spawn(|| load(&archive, files, &is_over));
            wait_for_pool(&archive, "blobs are written anew", || {
                info(&archive).is_some_and(|info| info.blobs > 5)
            });
            is_over.store(true, Ordering::SeqCst);
            load.join().unwrap()
        });
        stop(archive);
        let archive = instance.open();
        let told = wait_ended(&archive);
        assert_eq!((told.to, told.blobs), (code, told.blobs_total), "{told:?}");
        assert!(ended(&archive).unwrap().contains(&code.to_string()));
        assert_whole(&archive, files);
        assert!(get(&archive, "/t/large").unwrap() == large && get(&archive, "/t/clone").unwrap() == large);
        wait_for_pool(&archive, "what was before is removed", || archive.pool_info().unwrap().garbage == 0);
        // Once more it has nothing to do.
        archive.pool_recode().unwrap();
        assert_eq!(wait_ended(&archive).blobs, 0);
        stop(archive);
        assert_eq!(codes(&instance), [code].into());
        assert!(copies(&instance) > code.bears(), "{} copies", copies(&instance));
        assert_placed(&instance, code.width());
    }
    let archive = instance.open();
    assert_eq!(info(&archive), None, "the word is over");
    // What was written anew goes as all else does.
    migrate_all(&archive);
    evict_all(&archive);
    (0..files).for_each(|n| archive.remove(&path(&name(n))).unwrap());
    wait_for_pool(&archive, "garbage is removed", || archive.pool_info().unwrap().garbage == 0);
    stop(archive);
    stop(instance.open());
    assert_nothing_else(&instance);
}

/// A client reads on from extents that are nobody's any more.
#[test]
fn a_reader_keeps_what_it_reads_while_it_is_written_anew() {
    let mut instance = growing(12, |_| None);
    let archive = instance.open();
    let content = bytes(3, 30_000_000);
    put(&archive, "/t/file", &content);
    stop(archive);
    with_code(&mut instance, StripeCode::reed_solomon(8, 2));
    let archive = instance.open();
    let mut reading = archive.open_read(&path("/t/file")).unwrap();
    let mut got = reading.next().unwrap().unwrap().to_vec();
    archive.pool_recode().unwrap();
    wait_ended(&archive);
    while let Some(piece) = reading.next().unwrap() {
        got.extend_from_slice(&piece);
    }
    assert!(got == content);
    drop(reading);
    wait_for_pool(&archive, "the old extents are removed", || {
        let drives = instance.settings.pool.drives.iter();
        drives.map(|drive| extents(drive.at.directory()).len()).sum::<usize>() == 10
    });
    stop(archive);
}

/// kist.toml may be changed once more before it has ended; and a drive that is emptied comes first.
#[test]
fn it_waits_and_says_why() {
    let mut instance = growing(12, |_| None);
    let archive = instance.open();
    put_files(&archive, 0..FILES);
    stop(archive);
    with_code(&mut instance, StripeCode::reed_solomon(8, 2));
    let archive = instance.open();
    archive.pool_drive_drain(11).unwrap();
    archive.pool_recode().unwrap();
    stop(archive);
    with_code(&mut instance, StripeCode::reed_solomon(6, 3));
    let archive = instance.open();
    wait_for_pool(&archive, "it waits for the operator", || {
        waits(&archive).is_some_and(|why| why.contains("6+3") && why.contains("8+2"))
    });
    assert!(archive.pool_recode_end().unwrap());
    assert!(ended(&archive).unwrap().contains("operator"));
    archive.pool_recode().unwrap();
    wait_ended(&archive);
    assert_whole(&archive, FILES);
    stop(archive);
    assert_eq!(codes(&instance), [StripeCode::reed_solomon(6, 3)].into());
}

/// The catalogue of before knows extents that were removed since, of files that no tape has: they are found
/// again by what their cells say.
#[test]
fn a_restore_to_before_finds_what_was_written_anew_since() {
    let mut instance = growing(12, |_| None);
    instance.settings.pool.unknown_kept = std::time::Duration::from_secs(3_600);
    let archive = open(&instance);
    put_files(&archive, 0..FILES);
    let (point, striped) = (shipped(&archive), FILES as usize / 2);
    stop(archive);
    for code in [StripeCode::reed_solomon(8, 2), StripeCode::reed_solomon(5, 2)] {
        with_code(&mut instance, code);
        let archive = open(&instance);
        archive.pool_recode().unwrap();
        wait_ended(&archive);
        let drives = || instance.settings.pool.drives.iter().map(|drive| extents(drive.at.directory()).len());
        wait_for_pool(&archive, "the old extents are removed", || {
            // Beside them the copies of segments.
            drives().sum::<usize>() < striped * code.width() + striped
        });
        shipped(&archive);
        stop(archive);
    }
    let archive = open(&instance);
    put(&archive, "/later", &bytes(9, 400_000));
    let archive = back_to(&instance, archive, point);
    let archive = crate::common::settled(archive);
    check_files(&archive, 0..FILES);
    assert!(get(&archive, "/later").is_err(), "it is of after the point");
    let scrubbed = archive.scrub_info();
    assert_eq!((scrubbed.lost, scrubbed.nearline), (0, 0), "{scrubbed:?}");
    stop(archive);
    let anew = blobs(&instance).iter().filter(|blob| blob.stands_as.is_some()).count();
    assert_eq!(anew, striped, "each file was found as it stands");
}
