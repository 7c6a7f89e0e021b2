//! Room in the pool for what is recalled, and how long what failed is left alone.

use base::{ByteCount, Duration};

/// This part of each drive of the pool is left to puts: recalls end before they make the pool refuse clients
/// ...
const PUTS_PART: u64 = 20;
/// ... but no more than this of a drive.
const PUTS_BYTES_MAX: ByteCount = ByteCount::gib(16);
/// A container is left alone for no longer than this because it could not be written, and a class because a
/// file of it did not fit.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(6 * 3600);
/// Doublings that are counted; more would be beyond any limit.
const DOUBLINGS_MAX: u32 = 20;

/// What recalls leave to puts of so many drives of the pool, all alike, with this capacity in all.
#[must_use]
pub fn left_for_puts(capacity: ByteCount, drives: u64) -> ByteCount {
    ByteCount((capacity.0 / PUTS_PART).min(PUTS_BYTES_MAX.0.saturating_mul(drives)))
}

/// How long that is left alone which failed before `failures` times: `retry_delay` after the first failure,
/// then each time twice as long, up to `most`.
#[must_use]
pub fn back_off(retry_delay: Duration, failures: u32, most: Duration) -> Duration {
    retry_delay.saturating_mul(1 << failures.min(DOUBLINGS_MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_each_drive_is_left_to_puts_up_to_a_limit() {
        assert_eq!(left_for_puts(ByteCount(199), 1), ByteCount(9));
        assert_eq!(left_for_puts(ByteCount::gib(320), 1), ByteCount::gib(16));
        assert_eq!(left_for_puts(ByteCount::gib(321), 1), ByteCount::gib(16));
        assert_eq!(left_for_puts(ByteCount::gib(640), 2), ByteCount::gib(32));
        assert_eq!(left_for_puts(ByteCount(u64::MAX), u64::MAX), ByteCount(u64::MAX / PUTS_PART));
        assert_eq!(left_for_puts(ByteCount::gib(640), 0), ByteCount(0), "without drives nothing is left");
    }

    #[test]
    fn each_failure_doubles_the_back_off_up_to_its_limit() {
        let second = Duration::from_secs(1);
        let rests: Vec<u64> = (0..5).map(|n| back_off(second, n, BACK_OFF_MAX).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16]);
        assert_eq!(back_off(second, 14, BACK_OFF_MAX).as_secs(), 1 << 14);
        for failures in [15, 20, 21, 32, u32::MAX] {
            assert_eq!(back_off(second, failures, BACK_OFF_MAX), BACK_OFF_MAX);
        }
        assert_eq!(back_off(Duration::MAX, 3, Duration::MAX), Duration::MAX);
        assert_eq!(back_off(BACK_OFF_MAX * 2, 0, BACK_OFF_MAX), BACK_OFF_MAX);
    }
}
