//! What it takes of a drive to read what is wanted from a tape, as far as the order of tapes needs it.
//!
//! The scheduler knows how many files are wanted and how many bytes, not where they stand: the figures are
//! those of an LTO-8 drive and library, and only their proportion to each other decides. Drives that are
//! twice as fast in everything give the same order.

use base::Duration;

/// Seconds of a drive for a mount and an unmount: robot, load, labels, rewind, unload (LTO-8, see
/// `docs/reference/mechanics.md`).
const MOUNT_SECONDS: u64 = 180;

/// Bytes a second that a drive reads (LTO-8).
const BYTES_A_SECOND: u64 = 360_000_000;

/// Seconds of all locates for so many files at random places of one tape, in the order that is planned for
/// them: the files times the plan's seconds a file in `docs/reference/ordering.md` (LTO-8, files of 0.2 GB).
/// Between them it grows evenly; more files than the last are no farther apart than the tape is long.
const LOCATES: [(u64, u64); 8] =
    [(0, 0), (1, 50), (8, 218), (32, 578), (128, 1_770), (512, 5_709), (2_000, 16_520), (10_000, 27_300)];

/// Drive time for a mount of a tape, the way to its wanted files, and reading them.
/// `mount_percent`: what a mount costs there against one elsewhere.
pub(crate) fn service_time(files: u64, bytes: u64, mount_percent: u64) -> Duration {
    let micros = |amount: u64, a_second: u64| u128::from(amount) * 1_000_000 / u128::from(a_second);
    let mount = micros(MOUNT_SECONDS, 1) * u128::from(mount_percent) / 100;
    let all = mount + locates_micros(files) + micros(bytes, BYTES_A_SECOND);
    Duration::from_micros(u64::try_from(all).unwrap_or(u64::MAX))
}

fn locates_micros(files: u64) -> u128 {
    let after = LOCATES.partition_point(|(upto, _)| *upto < files);
    let last = LOCATES[LOCATES.len() - 1];
    let (Some((upto, more)), Some((from, less))) =
        (LOCATES.get(after), after.checked_sub(1).map(|before| LOCATES[before]))
    else {
        return if files == 0 { 0 } else { u128::from(last.1) * 1_000_000 };
    };
    let part = u128::from(more - less) * 1_000_000 * u128::from(files - from) / u128::from(upto - from);
    u128::from(less) * 1_000_000 + part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_more_takes_longer_and_each_one_less() {
        let mut before = (service_time(0, 0, 100), Duration::MAX);
        assert_eq!(before.0, Duration::from_secs(180));
        for files in 1..20_000u32 {
            let all = service_time(u64::from(files), u64::from(files) * 1_000_000_000, 100);
            let each = all / files;
            assert!(
                all > before.0 && each <= before.1,
                "{files} files take {all:?}, each {each:?}: {before:?}"
            );
            before = (all, each);
        }
    }

    #[test]
    fn a_mount_elsewhere_costs_as_much_more_as_said_and_nothing_overflows() {
        assert_eq!(service_time(1, 360_000_000, 100), Duration::from_secs(180 + 50 + 1));
        assert_eq!(service_time(1, 360_000_000, 300), Duration::from_secs(540 + 50 + 1));
        assert!(service_time(u64::MAX, u64::MAX, 10_000) > Duration::from_secs(51_000_000_000));
    }
}
