//! A virtual library that takes the time of a real one, in virtual time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{VID, config, data, drive_name, pattern, vid};
use base::{BlockAddress, ByteCount, Partition};
use library::{
    Library, LibraryError, ORDER_SEGMENTS_MAX, TapeDrive, TapeError, VirtualLibrary, VirtualTiming, Waiter,
};
use mechanics::{DriveTiming, Geometry, RobotTiming};

const BLOCK: usize = 1 << 19;
const SECOND: u64 = 1_000_000;

/// A clock that goes on when somebody waits, unless it is held.
#[derive(Debug, Default)]
struct Virtual {
    now: AtomicU64,
    held: AtomicBool,
    asked: Mutex<Vec<u64>>,
}

impl Waiter for Virtual {
    fn now_us(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn wait_until(&self, until_us: u64) {
        self.asked.lock().unwrap().push(until_us);
        if !self.held.load(Ordering::SeqCst) {
            self.now.fetch_max(until_us, Ordering::SeqCst);
        }
    }
}

fn timing(waiter: &Arc<Virtual>) -> VirtualTiming {
    let timing = mechanics::timing("LTO-8").unwrap();
    let drive = DriveTiming { recommends_order: true, ..timing };
    VirtualTiming {
        drive,
        // Wraps of ten blocks, so that small cartridges have many.
        geometry: Geometry::ltfs(208, ByteCount(10 * BLOCK as u64), 2_696..171_097),
        robot: RobotTiming { robots: 1, move_us: 12 * SECOND },
        scale: 1.0,
        waiter: Arc::clone(waiter) as Arc<dyn Waiter>,
    }
}

struct Timed {
    _directory: tempfile::TempDir,
    library: VirtualLibrary,
    waiter: Arc<Virtual>,
}

impl Timed {
    fn new(change: impl FnOnce(&mut VirtualTiming)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        drop(VirtualLibrary::create(directory.path(), &config()).unwrap());
        let waiter = Arc::new(Virtual::default());
        let mut timing = timing(&waiter);
        change(&mut timing);
        let library = VirtualLibrary::open_timed(directory.path(), &config(), timing).unwrap();
        Timed { _directory: directory, library, waiter }
    }

    /// Loaded, with so many blocks on the data partition, and the head in front of them.
    fn written(&self, blocks: u64) -> Box<dyn TapeDrive> {
        let name = drive_name("vdrive0");
        self.library.mount(vid(VID), &name).unwrap();
        let mut drive = self.library.take_drive(&name).unwrap();
        drive.locate(data(0)).unwrap();
        for number in 0..blocks {
            drive.write_block(&pattern(number, BLOCK)).unwrap();
        }
        drive.write_filemarks(0).unwrap();
        drive.locate(data(0)).unwrap();
        assert!(drive.motion_report().unwrap().locates <= 2);
        drive
    }

    fn now(&self) -> u64 {
        self.waiter.now_us()
    }
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
}

#[test]
fn reading_and_writing_run_at_the_native_rate() {
    let timed = Timed::new(|_| ());
    let mut drive = timed.written(100);
    let before = drive.motion_report().unwrap();
    let (begin, mut buffer) = (timed.now(), vec![0; BLOCK]);
    for _ in 0..100 {
        drive.read_block(&mut buffer).unwrap();
    }
    let (first, native) = (begin, 100.0 * BLOCK as f64 / 360.0);
    near((timed.now() - begin) as f64, native);
    let begin = timed.now();
    for number in 0..20 {
        drive.write_block(&pattern(number, BLOCK)).unwrap();
    }
    // From reading to writing the tape has to stop and back up.
    drive.write_filemarks(1).unwrap();
    near((timed.now() - begin) as f64, native / 5.0 + 3e6 + 3e6);
    let report = drive.motion_report().unwrap().since(&before);
    assert_eq!(report.first_us, Some(first));
    assert_eq!(report.bytes_read, 100 * BLOCK as u64);
    assert_eq!(report.bytes_written, 20 * BLOCK as u64);
    assert_eq!((report.flushes, report.locates, report.backhitches), (1, 0, 1));
    assert_eq!(drive.motion_report().unwrap().first_us, None, "nothing was transferred since the last one");
}

#[test]
fn a_mount_takes_robot_and_load_and_an_unmount_the_way_back() {
    let timed = Timed::new(|_| ());
    let name = drive_name("vdrive0");
    timed.library.mount(vid(VID), &name).unwrap();
    assert_eq!(timed.now(), 27 * SECOND);
    timed.library.unmount(&name).unwrap();
    // The tape stood at its beginning.
    assert_eq!(timed.now(), (27 + 24 + 12) * SECOND);
    let report = timed.library.take_drive(&name).unwrap().motion_report().unwrap();
    assert_eq!((report.load_seconds, report.unload_seconds, report.first_us), (15.0, 24.0, None));
}

#[test]
fn moves_of_one_robot_wait_for_each_other_and_loads_do_not() {
    for (robots, second) in [(1, 24 * SECOND), (2, 12 * SECOND)] {
        let timed = Timed::new(|timing| timing.robot.robots = robots);
        // Both mounts begin at the same time.
        timed.waiter.held.store(true, Ordering::SeqCst);
        timed.library.mount(vid(VID), &drive_name("vdrive0")).unwrap();
        timed.library.mount(vid("KT0002"), &drive_name("vdrive1")).unwrap();
        let asked = timed.waiter.asked.lock().unwrap().clone();
        assert_eq!(asked, [12 * SECOND, 15 * SECOND, second, 15 * SECOND]);
    }
}

#[test]
fn time_runs_as_fast_as_the_scale_says() {
    for scale in [0.5, 10.0, 1000.0] {
        let timed = Timed::new(|timing| timing.scale = scale);
        timed.library.mount(vid(VID), &drive_name("vdrive0")).unwrap();
        near(timed.now() as f64, 27e6 / scale);
    }
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let directory = tempfile::tempdir().unwrap();
        drop(VirtualLibrary::create(directory.path(), &config()).unwrap());
        let timing = VirtualTiming { scale, ..timing(&Arc::default()) };
        let error = VirtualLibrary::open_timed(directory.path(), &config(), timing).err().unwrap();
        assert!(matches!(error, LibraryError::Scale { .. }), "{error}");
    }
}

#[test]
fn wraps_end_where_the_track_changes_wraps() {
    let timed = Timed::new(|_| ());
    let mut drive = timed.written(35);
    let ends = drive.end_of_wrap_positions().unwrap().unwrap();
    assert_eq!(ends, [10, 20, 30, 35].map(BlockAddress), "the last is the end of data");
    // A mark and a short block in the first wrap push the others back.
    drive.locate(data(5)).unwrap();
    drive.write_filemarks(1).unwrap();
    drive.write_block(&pattern(1, BLOCK / 2)).unwrap();
    for number in 0..29 {
        drive.write_block(&pattern(number, BLOCK)).unwrap();
    }
    let ends = drive.end_of_wrap_positions().unwrap().unwrap();
    assert_eq!(ends, [12, 22, 32, 36].map(BlockAddress));
    let track = drive.track(BLOCK as u32).unwrap().unwrap();
    for (wrap, end) in (5..).zip(&ends[..3]) {
        assert_eq!(track.place(*end).wrap, wrap);
        assert_eq!(track.place(BlockAddress(end.0 - 1)).wrap, wrap - 1);
    }
    assert_eq!(track.map.ends(), [12, 22, 32, 42]);
    near(track.block_us, BLOCK as f64 / 360.0);
}

#[test]
fn locates_take_what_the_track_says() {
    let timed = Timed::new(|_| ());
    let mut drive = timed.written(100);
    let track = drive.track(BLOCK as u32).unwrap().unwrap();
    let mut at = BlockAddress(0);
    for block in (1..100).map(|n| BlockAddress(n * 37 % 100)) {
        let begin = timed.now();
        drive.locate(data(block.0)).unwrap();
        assert_eq!(timed.now() - begin, track.locate_us(track.place(at), track.place(block)), "to {block}");
        at = block;
    }
}

#[test]
fn a_drive_recommends_an_order_if_its_model_does() {
    let timed = Timed::new(|_| ());
    let mut drive = timed.written(100);
    let segments: Vec<_> = [95, 3, 50, 4, 0].map(|n| (BlockAddress(n), BlockAddress(n + 1))).into();
    let order = drive.recommended_order(&segments).unwrap().unwrap();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3, 4], "each segment once");
    assert_eq!(&order[..3], [4, 1, 3], "the head stands at block 0");
    let most = vec![(BlockAddress(1), BlockAddress(2)); ORDER_SEGMENTS_MAX];
    assert_eq!(drive.recommended_order(&most).unwrap().unwrap().len(), ORDER_SEGMENTS_MAX);
    let more = vec![(BlockAddress(1), BlockAddress(2)); ORDER_SEGMENTS_MAX + 1];
    assert!(matches!(drive.recommended_order(&more), Err(TapeError::SegmentCount { .. })));
    let outside = [(BlockAddress(99), BlockAddress(101))];
    assert!(matches!(drive.recommended_order(&outside), Err(TapeError::BeyondEndOfData { .. })));

    let timed = Timed::new(|timing| timing.drive.recommends_order = false);
    assert_eq!(timed.written(1).recommended_order(&[]).unwrap(), None);
}

#[test]
fn without_timing_there_is_none() {
    let bench = crate::common::Bench::new();
    let mut drive = bench.load(VID);
    assert_eq!(drive.end_of_wrap_positions().unwrap(), None);
    assert_eq!(drive.recommended_order(&[]).unwrap(), None);
    assert_eq!(drive.track(1 << 19).unwrap(), None);
    assert_eq!(drive.motion_report(), None);
    assert_eq!(drive.space_to_end_of_data(Partition::Data).unwrap(), data(0));
}
