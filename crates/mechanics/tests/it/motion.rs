//! A drive in virtual time: rates, back-hitches, locates, and where things stand.

use base::{BlockAddress, ByteCount, Partition};
use mechanics::{DriveTiming, Geometry, Motion, TapeByte, Track};

const SECOND: u64 = 1_000_000;
const BLOCK: u64 = 1 << 19;
/// More than any test reads.
const END: u64 = 1 << 40;

fn lto8() -> (DriveTiming, Geometry) {
    let (drive, medium) = (mechanics::drive("LTO-8").unwrap(), mechanics::medium("LTO-8").unwrap());
    let timing = drive.timing(medium);
    // The figures that the sums below are made with.
    assert_eq!((timing.native_rate, timing.least_rate), (360_000_000, 112_000_000));
    assert_eq!((timing.load_us, timing.unload_us), (15 * SECOND, 24 * SECOND));
    assert_eq!((timing.backhitch_us, timing.flush_us), (3 * SECOND, 3 * SECOND));
    let timing = DriveTiming { buffer: ByteCount(1_000_000_000), ..timing };
    let geometry = Geometry { wrap_bytes: ByteCount(57_700_000_000), ..Geometry::of(medium) };
    assert_eq!(geometry, Geometry::ltfs(208, ByteCount(57_700_000_000), 2_696..171_097));
    (timing, geometry)
}

fn data(byte: u64) -> TapeByte {
    TapeByte { partition: Partition::Data, byte }
}

/// Loaded, with the head at a byte of the data partition, and the time.
fn at(byte: u64) -> (Motion, u64) {
    let (timing, geometry) = lto8();
    let mut motion = Motion::new(timing, &geometry);
    let now = motion.load(0);
    assert_eq!(now, 15 * SECOND);
    let now = motion.locate(now, data(byte));
    let report = motion.report(now);
    assert!(report.locates <= 1 && report.load_seconds == 15.0);
    (motion, now)
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
}

/// Blocks that a host reads or writes, which takes `host_us` for each besides what the drive takes; the time.
fn transfer(motion: &mut Motion, mut now: u64, blocks: u64, host_us: u64, write: bool) -> u64 {
    for _ in 0..blocks {
        now = if write { motion.write(now, BLOCK) } else { motion.read(now, BLOCK, END) };
        now += host_us;
    }
    now
}

#[test]
fn a_host_that_keeps_up_gets_the_native_rate() {
    for (host_us, rate) in [(0, 360e6), (1_000, 360e6), (1_400, 360e6), (2_621, 200e6), (4_000, 131e6)] {
        for write in [false, true] {
            let (mut motion, begin) = at(0);
            let end = transfer(&mut motion, begin, 40_000, host_us, write);
            let end = if write { motion.flush(end) - 3 * SECOND } else { end };
            let report = motion.report(end);
            near((40_000 * BLOCK) as f64 / ((end - begin) as f64 / 1e6), rate);
            assert_eq!(report.backhitches, 0, "host {host_us} us a block, writes: {write}");
            assert_eq!(report.bytes_read + report.bytes_written, 40_000 * BLOCK);
            assert!(report.bytes_streamed >= 40_000 * BLOCK - 1);
            assert!(report.bytes_streamed <= 40_000 * BLOCK + 1_000_000_000);
        }
    }
}

#[test]
fn a_reader_below_the_least_rate_pays_a_back_hitch_a_buffer() {
    let (mut motion, begin) = at(0);
    // 50 MB/s: the buffer fills to 15/16 at 360 MB/s in 3.02 s, to the end at 112 MB/s in 1.01 s, and is
    // empty after another 20 s; then 3 s of back-hitch.
    let (blocks, host_us) = (60_000, BLOCK / 50);
    let end = transfer(&mut motion, begin, blocks, host_us, false);
    let report = motion.report(end);
    let seconds = (end - begin) as f64 / 1e6;
    let cycle = 3.02 + 1.01 + 20.0 + 3.0;
    let bytes = 24.03 * 50e6;
    near((blocks * BLOCK) as f64 / seconds, bytes / cycle);
    assert_eq!(report.backhitches, ((blocks * BLOCK) as f64 / bytes) as u64);
    near(report.backhitch_seconds, 3.0 * report.backhitches as f64);
    near(report.streaming_seconds + report.backhitch_seconds + report.waiting_seconds, seconds);
    assert_eq!(report.first_us, Some(begin));
    near(report.transfer_seconds(), seconds);
    near(report.rate_of(blocks * BLOCK), bytes / cycle);
}

#[test]
fn a_writer_below_the_least_rate_makes_the_drive_stop_and_start_but_does_not_wait() {
    let (mut motion, begin) = at(0);
    let (blocks, host_us) = (60_000, BLOCK / 50);
    let end = transfer(&mut motion, begin, blocks, host_us, true);
    near((end - begin) as f64, (blocks * host_us) as f64);
    // 500 MB until it starts again, 150 MB during the back-hitch; drained to 62.5 MB at 310 MB/s, then at
    // 62 MB/s: 14.9 + 1.9 + 1.0 s.
    let report = motion.report(end);
    let cycles = (end - begin) as f64 / 1e6 / (10.0 + 3.0 + 587.5 / 310.0 + 62.5 / 62.0);
    assert!(report.backhitches.abs_diff(cycles as u64) <= 1, "{} of {cycles}", report.backhitches);
    // What is on tape and what is in the buffer is all that was written.
    let done = motion.flush(end);
    let rest = motion.report(done);
    assert_eq!((rest.bytes_streamed, rest.flushes), (blocks * BLOCK, 1));
    assert_eq!(rest.since(&report).bytes_streamed, blocks * BLOCK - report.bytes_streamed);
    assert_eq!((rest.first_us, motion.head()), (None, data(blocks * BLOCK)));
}

#[test]
fn a_flush_costs_what_is_buffered_and_its_own_time_and_no_back_hitch() {
    let (mut motion, begin) = at(0);
    let written = transfer(&mut motion, begin, 100, 0, true);
    assert_eq!(written, begin, "all of it fits the buffer");
    let flushed = motion.flush(written);
    near((flushed - written) as f64, 1e6 * 100.0 * BLOCK as f64 / 360e6 + 3e6);
    assert_eq!(motion.flush(flushed), flushed, "nothing is left to flush");
    let end = transfer(&mut motion, flushed, 10_000, 0, true);
    near((motion.flush(end) - flushed) as f64, 1e6 * 10_000.0 * BLOCK as f64 / 360e6 + 3e6);
    assert_eq!(motion.report(end).backhitches, 0);
}

#[test]
fn a_host_that_is_early_owes_the_time() {
    let (mut motion, begin) = at(0);
    let mut done = begin;
    for block in 0..10_000 {
        // It comes back as if nothing had to be waited for, up to 10 ms early.
        done = motion.read(done.saturating_sub(block % 10 * 1_000), BLOCK, END);
    }
    near((done - begin) as f64, 1e6 * 10_000.0 * BLOCK as f64 / 360e6);
}

#[test]
fn locates_cost_what_the_track_says() {
    let (timing, geometry) = lto8();
    let size = 1_000_000;
    let track = Track {
        map: geometry.block_map(size),
        locate: timing.locate,
        block_us: f64::from(size) / timing.native_rate as f64 * 1e6,
        error: Some(0.0),
        fitted: None,
    };
    let (mut motion, mut now) = at(0);
    // Spread over the whole tape by a step that is prime to their number.
    let blocks: Vec<u64> = (0..500).map(|n| n * 277 % 500 * 23_000).collect();
    let mut host = BlockAddress(0);
    for block in blocks.into_iter().map(BlockAddress) {
        let done = motion.locate(now, data(block.0 * u64::from(size)));
        let (from, to) = (track.place(host), track.place(block));
        assert_eq!(done - now, track.locate_us(from, to), "to {block}");
        assert_eq!(motion.place(motion.head()), to);
        (now, host) = (done, block);
    }
    assert_eq!(motion.report(now).locates, 500, "499, and one to the data partition");
}

#[test]
fn what_was_read_ahead_is_served_without_a_locate() {
    let (mut motion, now) = at(0);
    let now = motion.read(now, BLOCK, END) + SECOND;
    assert_eq!(motion.locate(now, data(500 * BLOCK)), now, "a second read 360 MB ahead");
    let now = motion.read(now, BLOCK, END);
    let far = motion.locate(now, data(5_000 * BLOCK));
    assert!(far > now + 4 * SECOND);
    assert_eq!(motion.locate(far, data(5_000 * BLOCK)), far, "it stands there");
    let report = motion.report(far);
    assert_eq!((report.locates, report.bytes_read), (2, 2 * BLOCK));
}

#[test]
fn partitions_and_wraps_stand_where_ltfs_puts_them() {
    let (timing, geometry) = lto8();
    let motion = Motion::new(timing, &geometry);
    let index = TapeByte { partition: Partition::Index, byte: 0 };
    assert_eq!((motion.place(index).wrap, motion.place(index).lpos), (0, 2_696));
    assert_eq!((motion.place(data(0)).wrap, motion.place(data(0)).lpos), (4, 2_696));
    let (last, next) = (motion.place(data(57_699_999_999)), motion.place(data(57_700_000_000)));
    assert_eq!((last.wrap, next.wrap, next.lpos), (4, 5, 171_097));
    // The wraps end where the drive says.
    let ends = [BlockAddress(100_000), BlockAddress(220_000)];
    let map = geometry.map_of_ends(&ends, 1 << 19);
    assert_eq!((map.place(BlockAddress(99_999)).wrap, map.place(BlockAddress(100_000)).wrap), (4, 5));
    assert_eq!((map.place(BlockAddress(219_999)).wrap, map.place(BlockAddress(220_000)).wrap), (5, 6));
    let behind = 220_000 + 57_700_000_000 / (1 << 19);
    assert_eq!((map.place(BlockAddress(behind - 1)).wrap, map.place(BlockAddress(behind)).wrap), (6, 7));
    assert_eq!(geometry.map_of_ends(&[], 1 << 19).ends(), &geometry.block_map(1 << 19).ends()[..1]);
}

#[test]
fn unloading_takes_the_way_back() {
    let (timing, geometry) = lto8();
    let (mut motion, now) = at(57_700_000_000);
    let done = motion.unload(now);
    let end = geometry.place(data(57_700_000_000));
    assert_eq!(end.lpos, 171_097);
    let way = timing.rewind_from_us(&geometry.block_map(1 << 19), end);
    assert!(way > 60 * SECOND);
    assert_eq!(done - now, way + 24 * SECOND);
    let report = motion.report(done + 1_000 * SECOND);
    assert_eq!(report.waiting_seconds, 0.0, "an empty drive waits for nobody");
    let loaded = motion.load(done + 1_000 * SECOND);
    assert_eq!(loaded, done + 1_015 * SECOND);
    assert_eq!(motion.rewind(loaded), loaded);
}
