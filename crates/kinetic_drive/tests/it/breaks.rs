//! Connections that break, and drives that break down.

use base::ByteCount;
use drive::{DriveError, ObjectDrive, PAGE};

use crate::queue::{Bench, Step, filled};
use crate::serving::Served;
use crate::{extent, fresh, open, settings};

/// Runs a story with the connection cut after so many bytes, until one is not cut. Each must end as if
/// nothing had been, or say that it failed; the drive is looked at by another process then.
fn cut_at_each_byte(step: usize, story: impl Fn(&dyn ObjectDrive), check: impl Fn(&Served)) -> usize {
    let mut cuts = 0;
    for is_in in [true, false] {
        for at in (0..).step_by(step) {
            let (served, drive) = fresh();
            served.cut(is_in, i64::from(at));
            // A thread, as whoever mends would.
            let done = std::sync::atomic::AtomicBool::new(false);
            let was_cut = std::thread::scope(|scope| {
                let mender = scope.spawn(|| {
                    loop {
                        if served.was_cut() {
                            served.mend();
                            served.cut_now();
                            return true;
                        }
                        if done.load(std::sync::atomic::Ordering::SeqCst) {
                            return false;
                        }
                        std::thread::yield_now();
                    }
                });
                story(&drive);
                done.store(true, std::sync::atomic::Ordering::SeqCst);
                mender.join().unwrap()
            });
            served.mend();
            check(&served);
            if !was_cut {
                break;
            }
            cuts += 1;
        }
    }
    cuts
}

fn pages(count: usize, fill: u8) -> Vec<u8> {
    vec![fill; count * PAGE]
}

fn is_all(drive: &dyn ObjectDrive, blob: u64, fills: &[(usize, u8)]) {
    let id = extent(blob, 1);
    let expected: Vec<u8> = fills.iter().flat_map(|(count, fill)| pages(*count, *fill)).collect();
    assert_eq!(drive.length(id).unwrap(), ByteCount(expected.len() as u64));
    let mut read = vec![0; expected.len()];
    drive.read_at(id, ByteCount(0), &mut read).unwrap();
    assert!(read == expected);
}

#[test]
fn an_extent_is_written_whole_over_a_connection_that_is_cut_at_each_place() {
    let cuts = cut_at_each_byte(
        61,
        |drive| {
            let mut writer = drive.create(extent(1, 1), ByteCount(0)).unwrap();
            writer.append(&pages(1, 1)).unwrap();
            writer.append(&pages(2, 2)).unwrap();
            writer.sync().unwrap();
            writer.append(&pages(1, 3)).unwrap();
            writer.seal().unwrap();
        },
        |served| {
            // What was acknowledged is there after the power failed.
            served.crash(|_| false);
            is_all(&open(served), 1, &[(1, 1), (2, 2), (1, 3)]);
        },
    );
    assert!(cuts > 150, "{cuts}");
}

#[test]
fn a_replacement_over_a_connection_that_is_cut_at_each_place() {
    let cuts = cut_at_each_byte(
        67,
        |drive| {
            for fill in [1, 2] {
                let mut writer = drive.replace(extent(1, 1), ByteCount(0)).unwrap();
                writer.append(&pages(2, fill)).unwrap();
                writer.seal().unwrap();
            }
        },
        |served| {
            served.crash(|_| false);
            is_all(&open(served), 1, &[(2, 2)]);
        },
    );
    assert!(cuts > 150, "{cuts}");
}

#[test]
fn a_removal_over_a_connection_that_is_cut_at_each_place() {
    let cuts = cut_at_each_byte(
        61,
        |drive| {
            let mut writer = drive.create(extent(1, 1), ByteCount(0)).unwrap();
            writer.append(&pages(3, 1)).unwrap();
            writer.seal().unwrap();
            drive.delete(extent(1, 1)).unwrap();
            let missing = drive.length(extent(1, 1));
            assert!(matches!(missing, Err(DriveError::NotFound { .. })), "{missing:?}");
        },
        |served| assert_eq!(open(served).list(None, 9).unwrap(), []),
    );
    assert!(cuts > 120, "{cuts}");
}

/// The drive answered with WRITEBACK and lost it: no flush afterwards makes that good.
#[test]
fn what_a_drive_lost_that_broke_down_is_not_acknowledged() {
    let (served, drive) = fresh();
    for is_lost in [false, true] {
        let id = extent(1 + u64::from(is_lost), 1);
        let mut writer = drive.create(id, ByteCount(0)).unwrap();
        writer.append(&pages(1, 1)).unwrap();
        writer.append(&pages(1, 2)).unwrap();
        // The line broke, or the power failed: both look the same from here.
        if is_lost {
            served.crash(|_| false);
        } else {
            served.cut_now();
        }
        let synced = writer.sync();
        assert_eq!(synced.is_err(), is_lost, "{synced:?}");
        assert!(!is_lost || matches!(writer.append(&pages(1, 1)), Err(DriveError::Poisoned { .. })));
        if !is_lost {
            writer.seal().unwrap();
        }
    }
    assert!(drive.status().unwrap().suspect);
    drive.probe().unwrap();
    assert!(!drive.status().unwrap().suspect);
}

/// A crash keeps any of what was written back, in no order.
#[test]
fn a_crash_at_any_place_leaves_the_beginning_of_an_extent() {
    for luck in 0..64u32 {
        let (served, drive) = fresh();
        let id = extent(1, 1);
        let mut writer = drive.create(id, ByteCount(0)).unwrap();
        writer.append(&pages(2, 1)).unwrap();
        let synced = luck % 2 == 0;
        if synced {
            writer.sync().unwrap();
        }
        for fill in 2..6 {
            writer.append(&pages(1, fill)).unwrap();
        }
        drop(writer);
        // Heads and pieces, by the bits of `luck`.
        let of_piece = |key: &[u8]| key.get(30..34).map_or(0, |from| u32::from(from[3]));
        served.crash(|key| luck >> (of_piece(key) % 6) & 1 == 1);
        let drive = open(&served);
        let listed = drive.list(None, 9).unwrap();
        match drive.length(id) {
            Err(DriveError::NotFound { .. }) => {
                assert!(!synced);
                drive.delete(id).unwrap();
            }
            Err(error) => panic!("{error}"),
            Ok(length) => {
                assert_eq!(listed, [id]);
                assert!(length.0 >= if synced { 2 * PAGE as u64 } else { 0 } && length.0 <= 6 * PAGE as u64);
                let mut read = vec![0; length.0 as usize];
                drive.read_at(id, ByteCount(0), &mut read).unwrap();
                let fills: Vec<u8> = read.chunks(PAGE).map(|page| page[0]).collect();
                assert_eq!(fills, [1, 1, 2, 3, 4, 5][..fills.len()], "luck {luck}");
                drive.trim(id).unwrap();
                assert_eq!(drive.length(id).unwrap(), length);
                let left = served.drive(|drive| drive.count()) as u64;
                assert!(left <= 2 + 1 + length.0 / PAGE as u64, "what is behind the gap is gone: {left}");
                drive.delete(id).unwrap();
            }
        }
        assert_eq!(drive.list(None, 9).unwrap(), []);
    }
}

/// Old or new, whole, wherever the power fails.
#[test]
fn a_crash_in_a_replacement_leaves_the_old_bytes_or_the_new_ones() {
    for luck in 0..8u32 {
        for after in 0..8u64 {
            let (served, drive) = fresh();
            let id = extent(1, 1);
            let mut writer = drive.replace(id, ByteCount(0)).unwrap();
            writer.append(&pages(3, 1)).unwrap();
            writer.seal().unwrap();
            drive.status().unwrap();
            served.stop_after(after);
            let told = std::thread::scope(|scope| {
                let story = scope.spawn(|| -> Result<(), DriveError> {
                    let mut writer = drive.replace(id, ByteCount(0))?;
                    writer.append(&pages(3, 2))?;
                    writer.seal()
                });
                // It stops at a request, or all is done.
                while !served.has_stopped() && !story.is_finished() {
                    std::thread::yield_now();
                }
                served.crash(|key| {
                    let sum = key
                        .iter()
                        .fold(luck, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
                    sum >> 7 & 1 == 1
                });
                served.stop_after(u64::MAX);
                story.join().unwrap()
            });
            let other = open(&served);
            let mut read = vec![0; 3 * PAGE];
            other.read_at(id, ByteCount(0), &mut read).unwrap();
            let fill = if told.is_ok() { 2 } else { read[0] };
            assert!(read.iter().all(|byte| *byte == fill), "luck {luck} after {after}: {told:?}");
        }
    }
}

#[test]
fn a_drive_that_is_gone_is_away_and_comes_back() {
    let (served, _) = fresh();
    let mut short = settings(&served);
    short.down_patience = std::time::Duration::from_millis(50);
    let place = kinetic_drive::KineticPlace::with("kinetic://test".to_owned(), short);
    let drive = kinetic_drive::KineticDrive::open(&place, crate::INSTANCE, crate::ID).unwrap();
    let mut writer = drive.create(extent(1, 1), ByteCount(0)).unwrap();
    writer.append(&pages(1, 1)).unwrap();
    writer.seal().unwrap();
    served.refuse(true);
    assert!(matches!(drive.check_place(), Err(DriveError::NotThere { .. })));
    let read = drive.read_at(extent(1, 1), ByteCount(0), &mut [0]);
    assert!(matches!(read, Err(DriveError::Io { .. })), "not absent: {read:?}");
    let missing = drive.length(extent(2, 1));
    assert!(matches!(missing, Err(DriveError::Io { .. })), "not absent: {missing:?}");
    assert!(drive.list(None, 1).is_err() && drive.delete(extent(1, 1)).is_err());
    assert!(drive.probe().is_err());
    served.refuse(false);
    drive.probe().unwrap();
    is_all(&drive, 1, &[(1, 1)]);
}

#[test]
fn appends_under_way_when_the_line_breaks_are_sent_again() {
    let bench = Bench::new();
    let mut writer = bench.queue.extent(extent(1, 1), ByteCount(0), false);
    for number in 0..12 {
        writer.submit(bench.write(number, Step::Append(filled(257, number as u8))));
        if number % 3 == 0 {
            bench.served.cut_now();
        }
    }
    writer.submit(bench.write(12, Step::Seal));
    for number in 0..13 {
        let (told, result, _) = bench.next();
        assert_eq!(told, number);
        result.unwrap();
    }
    bench.served.crash(|_| false);
    let fills: Vec<(usize, u8)> = (0..12).map(|number| (257, number)).collect();
    is_all(&open(&bench.served), 1, &fills);
}
