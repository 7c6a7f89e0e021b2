//! What a reading session reads together, and how often it plans anew.

use std::collections::VecDeque;

use base::{ByteCount, Duration};

/// Bytes gathered into one blob and committed together; a larger file is a batch of its own.
pub const RECALL_BATCH_BYTES: ByteCount = ByteCount::mib(256);
/// Most files stored and committed together: some 10 ms of the catalogue's writer.
pub const RECALL_BATCH_FILES: usize = 1_000;
/// Most files of a tape that are put in order together, at some 60 bytes each; what is beyond comes with the
/// next plan.
pub const PLAN_FILES_MAX: usize = 1_000_000;
/// What is asked for while the tape is read is put into the order at most so often ...
pub const REPLAN_EVERY: Duration = Duration::from_secs(5);
/// ... and so seldom that planning takes no more than one part in so many of the time.
const REPLAN_SHARE: u32 = 50;

/// Takes the files that are read together out of the front of the order: up to `most` bytes of them, or one
/// that is larger. `length`: of a file, bytes.
pub fn take_batch<T>(order: &mut VecDeque<T>, most: ByteCount, length: impl Fn(&T) -> u64) -> Vec<T> {
    let mut batch = Vec::new();
    let mut bytes = 0u64;
    while batch.len() < RECALL_BATCH_FILES && bytes < most.0.max(1) {
        match order.front().map(&length) {
            Some(next) if batch.is_empty() || bytes.saturating_add(next) <= most.0 => {
                bytes = bytes.saturating_add(next);
                batch.extend(order.pop_front());
            }
            _ => break,
        }
    }
    assert!(batch.len() <= 1 || bytes <= most.0, "only a file by itself is larger than a batch");
    batch
}

/// How long after it was begun a plan stands, whatever is asked for meanwhile, if making it took so long.
#[must_use]
pub fn plan_stands(took: Duration, every: Duration) -> Duration {
    took.saturating_add(every.max(took.saturating_mul(REPLAN_SHARE)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: ByteCount = ByteCount(1_000);

    proptest! {
        /// By the letter: the first files that come to no more than a batch, or one.
        #[test]
        fn a_batch_is_what_fits(lengths in proptest::collection::vec(0u64..1_500, 1..60)) {
            let mut order: VecDeque<u64> = lengths.iter().copied().collect();
            let mut read = Vec::new();
            while !order.is_empty() {
                let before: Vec<u64> = order.iter().copied().collect();
                let batch = take_batch(&mut order, MOST, |length| *length);
                let sum = |files: usize| before[..files].iter().sum::<u64>();
                let fits = (1..=before.len()).take_while(|files| *files == 1 || sum(*files) <= MOST.0);
                let most = fits.last().unwrap_or(1);
                prop_assert!(batch.len() <= most && !batch.is_empty());
                // Less only where it is full to the byte: then files without bytes wait for the next.
                prop_assert!(batch.len() == most || sum(batch.len()) >= MOST.0);
                read.extend(batch);
            }
            prop_assert_eq!(read, lengths);
        }
    }

    #[test]
    fn a_batch_has_so_many_files_and_not_one_more() {
        let mut order: VecDeque<u64> = vec![0; RECALL_BATCH_FILES + 1].into();
        assert_eq!(take_batch(&mut order, MOST, |length| *length).len(), RECALL_BATCH_FILES);
        assert_eq!(take_batch(&mut order, MOST, |length| *length).len(), 1);
        assert!(take_batch(&mut order, MOST, |length| *length).is_empty());
    }

    #[test]
    fn planning_takes_a_fiftieth_of_the_time_at_most() {
        let (second, every) = (Duration::from_secs(1), Duration::from_secs(5));
        assert_eq!(plan_stands(Duration::ZERO, every), every);
        assert_eq!(plan_stands(second / 10, every), every + second / 10);
        assert_eq!(plan_stands(second, every), second * 51);
    }
}
