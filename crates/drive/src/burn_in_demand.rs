//! How far a disk is to be burnt in before it is used by itself, and whether its record says that it was.

use base::ByteCount;

use crate::{BurnInRecord, BurnInVerdict};

/// What a burn-in leaves free beside its files, so that whoever else writes there can go on.
pub const BURN_IN_LEAVES: ByteCount = ByteCount(1 << 30);
/// Bytes of a quick burn-in: some minutes of a disk, and enough zones (64 MiB each) to compare places.
pub const QUICK_BURN_IN: ByteCount = ByteCount(8 << 30);

/// How much of a disk is written, read and compared before it takes the place of a lost one by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum BurnInDemand {
    /// Nothing.
    Off,
    /// [`QUICK_BURN_IN`], or all of a smaller disk.
    #[default]
    Quick,
    /// All that is free.
    Full,
}

/// What the record of a burn-in means to who demands one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurnInState {
    /// The disk may be used.
    Enough,
    /// It is to be burnt in.
    Needed,
    /// It has not passed: it is not used.
    Failed(BurnInRecord),
}

impl BurnInDemand {
    /// As `kist.toml` has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            BurnInDemand::Off => "off",
            BurnInDemand::Quick => "quick",
            BurnInDemand::Full => "full",
        }
    }

    /// The demand of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<BurnInDemand> {
        [BurnInDemand::Off, BurnInDemand::Quick, BurnInDemand::Full]
            .into_iter()
            .find(|one| one.word() == word)
    }

    /// What a record means. One that says that the disk is bad counts whatever is demanded.
    #[must_use]
    pub fn judge(self, record: Option<&BurnInRecord>) -> BurnInState {
        let is_bad = |record: &&BurnInRecord| record.verdict != BurnInVerdict::Passed;
        if let Some(bad) = record.filter(is_bad) {
            return BurnInState::Failed(*bad);
        }
        let is_enough =
            |record: &BurnInRecord| record.doubts().is_empty() && record.bytes >= self.least(record.capacity);
        match self == BurnInDemand::Off || record.is_some_and(is_enough) {
            true => BurnInState::Enough,
            false => BurnInState::Needed,
        }
    }

    /// Bytes that must have been written of a file system of this size. All that is free is less than it:
    /// what file systems keep for themselves is given an eighth.
    fn least(self, capacity: ByteCount) -> ByteCount {
        let all = (capacity.0 - capacity.0 / 8).saturating_sub(BURN_IN_LEAVES.0);
        ByteCount(match self {
            BurnInDemand::Off => 0,
            BurnInDemand::Quick => all.min(QUICK_BURN_IN.0),
            BurnInDemand::Full => all,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Timestamp;

    use super::*;
    use crate::BurnInId;

    const GIB: u64 = 1 << 30;

    fn record(bytes: u64, capacity: u64) -> BurnInRecord {
        BurnInRecord {
            id: BurnInId(1),
            verdict: BurnInVerdict::Passed,
            is_direct: true,
            is_judged_by_place: true,
            ended: Timestamp(0),
            bytes: ByteCount(bytes),
            capacity: ByteCount(capacity),
            write_rate: ByteCount(1),
            read_rate: ByteCount(1),
            median_max: Duration::ZERO,
            p99_max: Duration::ZERO,
            faults: 0,
            slow_places: 0,
        }
    }

    #[test]
    fn what_was_written_must_be_what_is_demanded() {
        use BurnInDemand::{Full, Off, Quick};
        use BurnInState::{Enough, Needed};
        for (demand, bytes, capacity, state) in [
            (Off, 0, 4000 * GIB, Enough),
            (Quick, 8 * GIB, 4000 * GIB, Enough),
            (Quick, 8 * GIB - 1, 4000 * GIB, Needed),
            (Full, 8 * GIB, 4000 * GIB, Needed),
            // XFS and ext4 leave these of all.
            (Full, 3950 * GIB, 4000 * GIB, Enough),
            (Full, 3790 * GIB, 4000 * GIB, Enough),
            (Full, 2000 * GIB, 4000 * GIB, Needed),
            // All of a small one.
            (Quick, 3 * GIB - GIB / 4, 4 * GIB, Enough),
            (Quick, 2 * GIB, 4 * GIB, Needed),
        ] {
            assert_eq!(demand.judge(Some(&record(bytes, capacity))), state, "{demand:?} {bytes} {capacity}");
        }
        assert_eq!((Off.judge(None), Quick.judge(None), Full.judge(None)), (Enough, Needed, Needed));
    }

    #[test]
    fn a_disk_that_has_not_passed_is_never_used_and_one_that_is_not_proven_is_burnt_in_again() {
        for verdict in [BurnInVerdict::Slow, BurnInVerdict::Faulty] {
            let bad = BurnInRecord { verdict, ..record(4000 * GIB, 4000 * GIB) };
            for demand in [BurnInDemand::Off, BurnInDemand::Quick, BurnInDemand::Full] {
                assert_eq!(demand.judge(Some(&bad)), BurnInState::Failed(bad));
            }
        }
        let unproven = BurnInRecord { is_direct: false, ..record(4000 * GIB, 4000 * GIB) };
        assert_eq!(BurnInDemand::Full.judge(Some(&unproven)), BurnInState::Needed);
        assert_eq!(BurnInDemand::Off.judge(Some(&unproven)), BurnInState::Enough);
    }

    #[test]
    fn words_are_read_back() {
        for demand in [BurnInDemand::Off, BurnInDemand::Quick, BurnInDemand::Full] {
            assert_eq!(BurnInDemand::parse(demand.word()), Some(demand));
        }
        assert_eq!(BurnInDemand::parse("some"), None);
    }
}
