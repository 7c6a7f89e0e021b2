//! Records made by hand.

use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};
use mechanics::{Geometry, RobotTiming};
use scheduler::{ClassPolicy, Policy, SharePolicy, TapePoolPolicy};
use usage::{Access, Begins, CopyPlace, DriveState, FileSize, Put, Recalled, Stage, Start, TapeState, What};

use super::*;
use scenario::model::{ClassModel, SizeLaw, TapePoolModel, TapeWork};
use twin::world::MountKind;

pub(super) const MB: u64 = 1_000_000;
const BLOCK: u64 = 512 << 10;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp((1_800_000_000 + seconds) * 1_000_000_000)
}

pub(super) fn line(seconds: i64, what: What) -> Access {
    Access { at: at(seconds), class: Some("small".to_owned()), who: Some("ann".to_owned()), what }
}

pub(super) fn vid(number: u64) -> Vid {
    Vid::new(&format!("KS{number:04}")).unwrap()
}

pub(super) fn server(drives: u32) -> Server {
    let drive = mechanics::drive("LTO-8").unwrap();
    let policy = Policy {
        classes: [(
            base::ClassId(1),
            ClassPolicy {
                name: "small".to_owned(),
                pack_bytes: ByteCount(100 * MB),
                pack_age: Duration::from_secs(30),
            },
        )]
        .into(),
        tape_pools: [(
            base::TapePoolId(1),
            TapePoolPolicy { name: "vault".to_owned(), ..TapePoolPolicy::default() },
        )]
        .into(),
        shares: [(base::ShareId(1), SharePolicy::default())].into(),
        recall_age: Duration::from_secs(60),
        dismount_delay: Duration::from_secs(30),
        ..Policy::default()
    };
    Server {
        libraries: vec![ServerLibrary {
            name: "library".to_owned(),
            drives,
            timing: mechanics::timing("LTO-8").unwrap(),
            robots: RobotTiming { robots: 1, move_us: 10_000_000 },
            geometry: Geometry::of(drive.own_medium().unwrap()),
            machines: Machines::Timed,
        }],
        tape_pools: vec![TapePoolModel {
            name: "vault".to_owned(),
            library: scenario::model::LibraryIndex(0),
        }],
        classes: vec![ClassModel {
            name: "small".to_owned(),
            copies: vec![0],
            sizes: SizeLaw::Fixed(1),
            large: ByteCount(1 << 40),
            pack: ByteCount(100 * MB),
            recall_packs: false,
            residency: Duration::ZERO,
            pool_max: None,
            data_set_files: 1,
            gather: scenario::model::GatherBy::Class,
        }],
        policy,
        work: TapeWork {
            flush_bytes: ByteCount(1 << 30),
            flush_age: Duration::from_secs(300),
            index_bytes: ByteCount(1 << 40),
            index_bytes_a_file: 700,
            flush_each_file: false,
            recall_batch: ByteCount(256 << 20),
            replan: Duration::from_secs(5),
        },
    }
}

pub(super) fn state(recorder: &mut Recorder, tapes: u64) {
    let start = Start {
        begins: Begins::Server,
        tapes: tapes as u32,
        drives: 2,
        pool: ByteCount(1_000_000 * MB),
        block_size: ByteCount(BLOCK),
    };
    recorder.push(line(-10, What::Start(start)));
    for drive in 0..2 {
        let (drive, library) = (format!("vdrive{drive}"), "library".to_owned());
        recorder.push(line(-10, What::Drive(DriveState { drive, library, up: true })));
    }
    for tape in 0..tapes {
        let is_scratch = tape + 1 == tapes;
        let written = if is_scratch { 0 } else { 1000 * BLOCK };
        recorder.push(line(
            -10,
            What::Tape(TapeState {
                vid: vid(tape),
                pool: (!is_scratch).then(|| "vault".to_owned()),
                library: "library".to_owned(),
                state: if is_scratch { "scratch" } else { "active" }.to_owned(),
                capacity: ByteCount(2000 * BLOCK),
                written: ByteCount(written),
                free: ByteCount(2000 * BLOCK - written),
                end_of_data: BlockAddress(written / BLOCK),
            }),
        ));
    }
}

pub(super) fn stage(file: u64, request: u64, tape: u64) -> What {
    let place = CopyPlace {
        pool: "vault".to_owned(),
        vid: vid(tape),
        container: ContainerId(file),
        block: BlockAddress(file % 900),
        container_length: ByteCount(MB),
        offset: ByteCount(0),
        length: ByteCount(MB),
    };
    What::Stage(Stage {
        file: FileId(file),
        bytes: ByteCount(MB),
        request: RequestId(request),
        priority: 4,
        online: false,
        copies: vec![place],
    })
}

/// Four requests of ten files each over eight tapes, three puts, and an eviction.
fn record() -> Record {
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 9);
    for request in 0..4 {
        for file in request * 10..request * 10 + 10 {
            recorder.push(line(request as i64 * 20, stage(file, request, file % 8)));
        }
    }
    for file in 100..103 {
        let put = Put { file: FileId(file), bytes: ByteCount(40 * MB), set: 1, took: Duration::ZERO };
        recorder.push(line(90, What::Put(put)));
    }
    for file in 0..39 {
        let wait = Some(Duration::from_secs(500));
        let recalled = Recalled { file: FileId(file), bytes: ByteCount(MB), vid: vid(file % 8), wait };
        recorder.push(line(500, What::Recalled(recalled)));
    }
    recorder.push(line(900, What::Evicted(FileSize { file: FileId(5), bytes: None })));
    recorder.push(line(950, stage(5, 9, 5)));
    recorder.push(line(960, stage(777, 9, 400)));
    recorder.push(line(970, What::Dropped { count: 7 }));
    recorder.finish()
}

#[test]
fn a_record_is_run_again_and_what_it_lacks_is_counted() {
    let replay = super::replay(&server(2), &record(), &[]).unwrap();
    assert_eq!(replay.outcome.violation, None);
    assert!(replay.outcome.is_drained);
    let (was, says) = (&replay.recorded, &replay.predicted);
    assert_eq!((was.requests, says.requests), (5, 5));
    assert_eq!((was.requests_done, says.requests_done), (3, 3), "one file of the fourth never came");
    assert_eq!((was.files, says.files), (39, 39));
    // Each tape once, one of them again for the evicted file; what was put goes to a tape that is in a drive.
    assert_eq!((says.recall_mounts, says.migrate_mounts, says.tapes), (9, 0, 8));
    assert_eq!(says.written, 120 * MB);
    let left = Left { dropped: 7, unfinished: 3, unknown: 1, ..Left::default() };
    assert_eq!(replay.left, left);
    assert!((was.completion - 500.0).abs() < 1e-6, "{}", was.completion);
    let text = super::text(&replay);
    assert!(text.contains("7 lines of the access log were left out by the server"), "{text}");
}

#[test]
fn fewer_drives_take_longer() {
    let record = record();
    let with = |drives| super::replay(&server(drives), &record, &[]).unwrap().predicted;
    let (one, two) = (with(1), with(2));
    assert!(one.wait_90 > two.wait_90 * 1.3, "{} {}", one.wait_90, two.wait_90);
    assert_eq!(with(2), two, "the same record gives the same figures");
}

#[test]
fn a_record_that_does_not_tell_enough_is_refused() {
    let mut recorder = Recorder::new(at(0), at(100));
    recorder.push(line(1, stage(1, 1, 1)));
    assert_eq!(super::replay(&server(1), &recorder.finish(), &[]), Err(ReplayError::NoState));
    let mut recorder = Recorder::new(at(0), at(100));
    state(&mut recorder, 2);
    assert_eq!(super::replay(&server(1), &recorder.finish(), &[]), Err(ReplayError::Nothing));
    let mut other = server(1);
    other.libraries[0].name = "far".to_owned();
    let known = super::replay(&other, &record(), &[]);
    assert_eq!(known, Err(ReplayError::NoLibrary("library".to_owned())));
}

fn migrated(tape: u64, container: u64, block: u64, bytes: u64) -> What {
    What::Migrated(usage::Migrated {
        container: ContainerId(container),
        pool: "vault".to_owned(),
        vid: vid(tape),
        block: BlockAddress(block),
        length: ByteCount(bytes),
        members: 1,
        repack: false,
    })
}

/// Files are put and go to a scratch tape; later ones follow them there, and all are wanted.
fn long_record(since: i64) -> Record {
    let mut recorder = Recorder::new(at(since), at(100_000));
    state(&mut recorder, 3);
    for tape in 0..2 {
        let full = TapeState { state: "full".to_owned(), ..recorder.record.tapes[&vid(tape)].clone() };
        recorder.push(line(-10, What::Tape(full)));
    }
    let scratch = 2;
    let place = |file: u64| {
        let What::Stage(mut stage) = stage(file, 0, scratch) else { unreachable!() };
        stage.bytes = ByteCount(40 * MB);
        let copy = &mut stage.copies[0];
        (copy.block, copy.length) = (BlockAddress(7 + (file - 100) * 77), ByteCount(40 * MB));
        copy.container_length = copy.length;
        stage
    };
    let put = |recorder: &mut Recorder, seconds: i64, file: u64| {
        let put = Put { file: FileId(file), bytes: ByteCount(40 * MB), set: file, took: Duration::ZERO };
        recorder.push(line(seconds, What::Put(put)));
    };
    for (file, tape) in [(1, 0), (2, 1), (3, 0)] {
        recorder.push(line(0, stage(file, 1, tape)));
        recorder.push(line(300, What::Recalled(recalled(file, tape, 300))));
    }
    (100..104).for_each(|file| put(&mut recorder, 10, file));
    (100..104).for_each(|file| {
        recorder.push(line(900, migrated(scratch, file, 7 + (file - 100) * 77, 40 * MB)));
    });
    for file in 100..104 {
        recorder.push(line(1_000, What::Evicted(FileSize { file: FileId(file), bytes: None })));
    }
    // Under way when the shorter record begins.
    put(&mut recorder, 3_990, 110);
    for file in 100..104 {
        let wanted = Stage { request: RequestId(2 + file % 2), ..place(file) };
        recorder.push(line(4_010 + file as i64 % 2, What::Stage(wanted)));
    }
    recorder.push(line(4_020, stage(4, 5, 1)));
    for file in 100..104 {
        recorder.push(line(4_300, What::Recalled(recalled(file, scratch, 290))));
    }
    recorder.push(line(4_300, What::Recalled(recalled(4, 1, 280))));
    recorder.push(line(5_000, migrated(scratch, 110, 320, 40 * MB)));
    recorder.finish()
}

pub(super) fn recalled(file: u64, tape: u64, wait: u64) -> Recalled {
    let wait = Some(Duration::from_secs(wait));
    Recalled { file: FileId(file), bytes: ByteCount(40 * MB), vid: vid(tape), wait }
}

/// `--since` began with the tapes of the last lines of state: what was written to them since was not known.
/// A tape that had been a scratch tape then was one again, its files all stood at its beginning, and the twin
/// wrote on to other tapes.
#[test]
fn a_record_that_is_cut_foretells_what_the_whole_one_does() {
    let mut server = server(2);
    server.policy.tape_pools.values_mut().for_each(|pool| pool.mount_age = Duration::from_secs(60));
    let whole = super::replay(&server, &long_record(0), &[]).unwrap();
    let cut = super::replay(&server, &long_record(4_000), &[]).unwrap();
    assert_eq!((&whole.outcome.violation, &cut.outcome.violation), (&None, &None));
    let shift = cut.begin.since(whole.begin).as_secs_f64();
    assert!((shift - 3_990.0).abs() < 1e-6, "the put that was not over is taken in: {shift}");
    let mounts = |replay: &Replay, from: f64| -> Vec<(String, &'static str)> {
        let later = replay.predicted_mounts.iter().filter(|mount| mount.ordered >= from);
        later.map(|mount| (mount.vid.clone(), mount.kind)).collect()
    };
    assert_eq!(mounts(&cut, 0.0).len(), 2, "{:?}", cut.predicted_mounts);
    assert_eq!(mounts(&whole, 4_000.0), mounts(&cut, 0.0));
    let later: Vec<_> = whole.requests.iter().filter(|request| request.request > 1).collect();
    assert_eq!((later.len(), cut.requests.len()), (3, 3));
    for (one, other) in later.iter().zip(&cut.requests) {
        let (one, other) = (one.predicted.unwrap(), other.predicted.unwrap());
        assert!((one / other - 1.0).abs() < 0.03, "{one} {other}");
    }
    assert_eq!(cut.predicted.written, 40 * MB, "only the file that was not on tape yet");
}

fn written_mount(ordered: i64, oldest: i64, queued: u64) -> RecordedMount {
    RecordedMount {
        drive: "vdrive0".to_owned(),
        vid: vid(8),
        kind: Some(MountKind::Migrate),
        ordered: at(ordered),
        ready: None,
        unmounting: Some(at(ordered + 100)),
        unmounted: Some(at(ordered + 120)),
        is_failed: false,
        tape_pool: Some("vault".to_owned()),
        queued: ByteCount(queued),
        oldest: Some(at(oldest)),
        is_forced: false,
    }
}

#[test]
fn a_mount_to_write_that_was_not_due_is_a_migrate_now() {
    let mut server = server(2);
    for pool in server.policy.tape_pools.values_mut() {
        (pool.mount_age, pool.mount_bytes) = (Duration::from_secs(3_000), ByteCount(1_000 * MB));
    }
    let mut mounts = [
        written_mount(100, 99, 120 * MB),
        // Another tape, since that one was full; then one that is old enough, and one that is enough.
        written_mount(250, 150, 50 * MB),
        written_mount(9_000, 6_000, MB),
        written_mount(10_000, 9_999, 1_000 * MB),
    ];
    super::find_forced(&mut mounts, &server.policy);
    assert_eq!(mounts.each_ref().map(|mount| mount.is_forced), [true, false, false, false]);
    let without = super::replay(&server, &record(), &[]).unwrap();
    let with = super::replay(&server, &record(), &mounts[..1]).unwrap();
    assert_eq!((without.left.forced, with.left.forced), (0, 1));
    assert_eq!((with.predicted.written, without.predicted.written), (120 * MB, 120 * MB));
    assert!(with.predicted.migration <= without.predicted.migration);
}

/// Sixty files of a put that the twin had not written yet had no wait there, and the deviation was -100 %.
#[test]
fn a_request_that_the_twin_s_pool_has_is_not_compared() {
    let mut recorder = Recorder::new(at(0), at(100_000));
    state(&mut recorder, 3);
    let put = Put { file: FileId(100), bytes: ByteCount(MB), set: 1, took: Duration::ZERO };
    recorder.push(line(0, What::Put(put)));
    recorder.push(line(10, stage(100, 7, 2)));
    recorder.push(line(10, stage(1, 8, 1)));
    for (file, tape) in [(100, 2), (1, 1)] {
        recorder.push(line(200, What::Recalled(recalled(file, tape, 190))));
    }
    let replay = super::replay(&server(2), &recorder.finish(), &[]).unwrap();
    assert_eq!((replay.left.hits, replay.left.requests), (1, 1));
    assert_eq!((replay.recorded.requests, replay.predicted.requests_done), (1, 1));
    let text = super::text(&replay);
    assert!(text.starts_with("1 of 2 requests are not compared"), "{text}");
    let page = super::html(&replay);
    assert!(page.contains("<table>") && page.contains("<th>wait: median</th>"), "{page}");
}
