//! Figures that were computed by hand.

use base::Vid;

use super::super::record::{MotionRecord, QueueAtMount};
use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000_000_000)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A mount ordered at `begin`: ready after `mount` seconds, on its way home `mounted` seconds later, out of
/// the drive after 20 more. Data flowed for half of the mounted time.
fn mount(drive: &str, vid: &str, begin: i64, mount: i64, mounted: i64) -> MountRecord {
    let vid = Vid::new(vid).unwrap();
    let mut record = MountRecord::ordered(drive, vid, MountKind::Recall, at(begin));
    record.tape_pool = Some("archive1".to_owned());
    record.loaded = Some(at(begin + mount - 1));
    record.ready = Some(at(begin + mount));
    record.unmounting = Some(at(begin + mount + mounted));
    record.unmounted = Some(at(begin + mount + mounted + 20));
    record.moving = secs(mounted as u64) / 2;
    record
}

fn session(kind: MountKind, bytes: u64, files: u64, end: MountSessionEnd) -> SessionRecord {
    SessionRecord {
        kind,
        began: at(1),
        ended: at(2),
        first_byte: None,
        last_byte: None,
        bytes: ByteCount(bytes),
        files,
        read: ByteCount(bytes),
        written: ByteCount(0),
        locates: 1,
        moving: secs(3),
        end,
    }
}

fn report(by: ReportBy, records: &[MountRecord]) -> (Vec<ReportRow>, ReportRow) {
    let mut report = MountReport::new(by, at(0), at(100_000));
    records.iter().for_each(|record| report.add(record));
    report.end()
}

#[test]
fn three_mounts_add_up() {
    let mut first = mount("vdrive0", "KS0001", 1000, 40, 100);
    first.queue = QueueAtMount { items: 2, bytes: ByteCount(5), oldest: Some(at(400)) };
    first.sessions.push(session(MountKind::Recall, 30_000_000_000, 3, MountSessionEnd::Drained));
    first.sessions.push(session(MountKind::Maintain, 10_000_000_000, 1, MountSessionEnd::Stopped));
    (first.read, first.locates) = (ByteCount(42_000_000_000), 7);
    let mut second = mount("vdrive0", "KS0002", 2000, 60, 300);
    second.kind = MountKind::Migrate;
    second.tape_pool = Some("archive2".to_owned());
    second.sessions.push(session(MountKind::Migrate, 60_000_000_000, 5, MountSessionEnd::Full));
    (second.read, second.written) = (ByteCount(1_000_000_000), ByteCount(61_000_000_000));
    let mut third = mount("vdrive1", "KS0001", 3000, 50, 0);
    third.sessions.push(session(MountKind::Recall, 0, 0, MountSessionEnd::Failed("medium".to_owned())));
    let records = [first, second, third];

    let (rows, total) = report(ReportBy::Drive, &records);
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["vdrive0", "vdrive1"]);
    let zero = &rows[0];
    assert_eq!((zero.mounts, zero.sessions, zero.files, zero.locates), (2, 3, 9, 7));
    assert_eq!(zero.mounts_for, [1, 1, 0, 0]);
    // 40 s and 60 s: mean and median 50 s, 95 % within 60 s.
    let time = zero.mount_time.unwrap();
    assert_eq!((time.mean, time.median, time.p95, time.max), (secs(50), secs(50), secs(60), secs(60)));
    assert_eq!(zero.unmount_time.unwrap().mean, secs(20));
    // 1000 - 400; the second one's queue had nothing.
    assert_eq!((zero.wait.unwrap().count, zero.wait.unwrap().max), (1, secs(600)));
    assert_eq!((zero.read.0, zero.written.0), (40_000_000_000, 60_000_000_000));
    assert_eq!((zero.tape_read.0, zero.tape_written.0), (43_000_000_000, 61_000_000_000));
    // 100 s and 300 s mounted, half of it moving; 104 GB in 200 s.
    assert_eq!((zero.mounted, zero.moving), (secs(400), secs(200)));
    assert_eq!(zero.efficiency(), Some(0.5));
    assert_eq!(zero.rate(), Some(520_000_000.0));
    // 100 GB in 2 mounts: 50 GB a mount, 20 mounts a terabyte.
    assert_eq!(zero.bytes_per_mount(), Some(ByteCount(50_000_000_000)));
    assert_eq!(zero.mounts_per_terabyte(), Some(20.0));
    assert_eq!((zero.of_native, zero.starved, zero.back_hitches), (None, None, None));

    let one = &rows[1];
    assert_eq!((one.mounts, one.sessions, one.session_failures, one.mount_failures), (1, 1, 1, 0));
    assert_eq!((one.efficiency(), one.rate(), one.mounts_per_terabyte()), (None, None, None));
    assert_eq!(one.bytes_per_mount(), Some(ByteCount(0)));

    assert_eq!((total.mounts, total.sessions, total.session_failures), (3, 4, 1));
    // 40, 50, 60: the middle one is 50.
    assert_eq!(total.mount_time.unwrap().median, secs(50));
    let (rows, again) = report(ReportBy::Tape, &records);
    assert_eq!(
        rows.iter().map(|row| (row.name.as_str(), row.mounts)).collect::<Vec<_>>(),
        [("KS0001", 2), ("KS0002", 1)]
    );
    assert_eq!(again, total, "the total is the same however it is cut");
    let (rows, again) = report(ReportBy::Pool, &[&records[2..], &records[..2]].concat());
    assert_eq!(
        rows.iter().map(|row| (row.name.as_str(), row.mounts)).collect::<Vec<_>>(),
        [("archive1", 2), ("archive2", 1)]
    );
    assert_eq!(again, total, "nor in what order they come");
}

#[test]
fn a_mount_that_failed_is_a_failure_and_has_no_mount_time() {
    // The robot never brought it.
    let mut missing = MountRecord::ordered("vdrive0", Vid::new("KS0001").unwrap(), MountKind::Recall, at(10));
    missing.unmounted = Some(at(30));
    missing.failed = Some("no such cartridge".to_owned());
    // It came, but its label was another's.
    let mut foreign = MountRecord { loaded: Some(at(20)), unmounting: Some(at(25)), ..missing.clone() };
    foreign.failed = Some("foreign".to_owned());
    let (rows, total) = report(ReportBy::Pool, &[missing, foreign]);
    assert_eq!((rows.len(), rows[0].name.as_str()), (1, "-"));
    assert_eq!((total.mounts, total.mount_failures), (1, 2));
    assert_eq!((total.mount_time, total.unmount_time, total.mounted), (None, None, secs(0)));
}

#[test]
fn a_mount_belongs_to_the_window_in_which_it_ended() {
    let records = [mount("vdrive0", "KS0001", 100, 10, 70), mount("vdrive0", "KS0002", 100, 10, 71)];
    // The first one ended at 200, the second one at 201.
    for (since, until, mounts) in [(0, 300, 2), (200, 300, 2), (201, 300, 1), (202, 300, 0), (0, 200, 1)] {
        let mut report = MountReport::new(ReportBy::Tape, at(since), at(until));
        records.iter().for_each(|record| report.add(record));
        let (rows, total) = report.end();
        assert_eq!((rows.len() as u64, total.mounts), (mounts, mounts), "{since} to {until}");
    }
}

#[test]
fn a_mount_that_goes_on_counts_with_what_its_sessions_did() {
    let mut record = mount("vdrive0", "KS0001", 1000, 50, 0);
    (record.unmounting, record.unmounted, record.moving) = (None, None, secs(0));
    record.sessions.push(session(MountKind::Recall, 6_000_000_000, 2, MountSessionEnd::Drained));
    let mut report = MountReport::new(ReportBy::Drive, at(5000), at(6050));
    report.add(&record);
    let (_, total) = report.end();
    assert_eq!((total.mounts, total.mounted_now, total.mounted), (1, 1, secs(5000)));
    assert_eq!((total.tape_read, total.moving, total.locates), (ByteCount(6_000_000_000), secs(3), 1));
    assert_eq!(total.rate(), Some(2_000_000_000.0));
    assert_eq!(total.unmount_time, None);
}

#[test]
fn what_the_drive_says_goes_before_what_its_host_sees() {
    let mut record = mount("vdrive0", "KS0001", 1000, 50, 100);
    record.read = ByteCount(24_000_000_000);
    record.native_rate = Some(300_000_000);
    record.motion = Some(MotionRecord {
        locating: secs(15),
        streaming: secs(80),
        starved: secs(2),
        hitching: secs(3),
        flushing: secs(10),
        back_hitches: 3,
        flushes: 1,
    });
    let silent = mount("vdrive1", "KS0002", 1000, 50, 100);
    let (_, total) = report(ReportBy::Drive, &[record.clone(), silent, record]);
    // Twice 80 s, and half of the other one's 100 s.
    assert_eq!((total.moving, total.mounted), (secs(210), secs(300)));
    // Twice 15 + 80 + 2 + 3 + 10 as the drive counts, and the other one's 100 s mounted.
    assert_eq!((total.observed, total.efficiency()), (secs(320), Some(210.0 / 320.0)));
    assert_eq!(
        (total.locating, total.starved, total.back_hitches),
        (Some(secs(30)), Some(secs(10)), Some(6))
    );
    // 48 GB in 160 s at 300 MB/s at most, which is 48 GB.
    assert_eq!(total.of_native, Some(1.0));
}

#[test]
fn what_came_of_the_drives_orders_is_added_up() {
    let orders = |compared, drives, failed| {
        let (own, drive) = (secs(100 * compared), secs(90 * compared));
        Some(OrderRecord { compared, drives, own, drive, failed })
    };
    let mut first = mount("vdrive0", "KS0001", 1000, 50, 100);
    first.order = orders(2, 1, 0);
    let mut second = mount("vdrive0", "KS0002", 2000, 50, 100);
    second.order = orders(1, 1, 3);
    let silent = mount("vdrive1", "KS0003", 1000, 50, 100);
    let (rows, total) = report(ReportBy::Drive, &[first, second, silent]);
    assert_eq!(total.order, orders(3, 2, 3));
    assert_eq!(rows.iter().map(|row| row.order).collect::<Vec<_>>(), [orders(3, 2, 3), None]);
}

#[test]
fn spans_are_spread_by_rank() {
    assert_eq!(Spread::of(&mut []), None);
    let one = Spread::of(&mut [secs(7)]).unwrap();
    assert_eq!((one.count, one.mean, one.median, one.p95, one.max), (1, secs(7), secs(7), secs(7), secs(7)));
    let mut hundred: Vec<Duration> = (1..=100).rev().map(secs).collect();
    let spread = Spread::of(&mut hundred).unwrap();
    assert_eq!((spread.median, spread.p95, spread.max), (Duration::from_millis(50_500), secs(95), secs(100)));
    let mut twenty: Vec<Duration> = (1..=20).map(secs).collect();
    assert_eq!(Spread::of(&mut twenty).unwrap().p95, secs(19));
    let mut twentyone: Vec<Duration> = (1..=21).map(secs).collect();
    assert_eq!(Spread::of(&mut twentyone).unwrap().p95, secs(20));
}
