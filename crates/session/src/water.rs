//! When files leave the pool by themselves, and how much of them.

use base::ByteCount;

/// How full the pool, or what a class may have of it, becomes before files leave it by themselves, and how
/// full it is then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Water {
    /// Files leave when it is fuller than this, in percent.
    pub high_percent: u8,
    /// They leave down to this; no more than the other one.
    pub low_percent: u8,
}

/// The same in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All that there is.
    pub most: ByteCount,
    /// Files leave when more is used.
    pub high: ByteCount,
    /// They leave down to this.
    pub low: ByteCount,
}

impl Limits {
    /// The marks of what holds `most`.
    #[must_use]
    pub fn new(most: ByteCount, water: Water) -> Self {
        let part = |percent: u8| {
            let part = u128::from(most.0) * u128::from(percent.min(100)) / 100;
            ByteCount(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let high = part(water.high_percent);
        Limits { most, high, low: part(water.low_percent).min(high) }
    }

    /// Whether files are to leave.
    #[must_use]
    pub fn is_above(self, used: ByteCount) -> bool {
        used > self.high
    }

    /// Bytes that are to leave, of so many that are used, if so many more wait for room: none unless they are
    /// above high water or what waits does not fit.
    #[must_use]
    pub fn to_leave(self, used: ByteCount, waiting: ByteCount) -> ByteCount {
        let fits = used.0.saturating_add(waiting.0) <= self.most.0;
        if fits && !self.is_above(used) {
            return ByteCount(0);
        }
        let left = self.low.0.min(self.most.0.saturating_sub(waiting.0));
        ByteCount(used.0.saturating_sub(left))
    }

    /// Bytes that are to leave for a put of this size that was refused, if so many are used and puts have so
    /// much room: down to low water, and no further. Nothing leaves for what would not fit then either: who
    /// only announces a file of any size must not empty the pool.
    #[must_use]
    pub fn to_leave_for_put(self, used: ByteCount, room: ByteCount, size: ByteCount) -> ByteCount {
        let leaves = used.0.saturating_sub(self.low.0);
        match size > room && size.0 <= room.0.saturating_add(leaves) {
            true => ByteCount(leaves),
            false => ByteCount(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATER: Water = Water { high_percent: 90, low_percent: 80 };

    #[test]
    fn files_leave_above_high_water_down_to_low_water() {
        let limits = Limits::new(ByteCount(1_000), WATER);
        assert_eq!(limits, Limits { most: ByteCount(1_000), high: ByteCount(900), low: ByteCount(800) });
        let leave = |used, waiting| limits.to_leave(ByteCount(used), ByteCount(waiting)).0;
        assert_eq!([leave(0, 0), leave(900, 0), leave(901, 0), leave(2_000, 0)], [0, 0, 101, 1_200]);
        // What waits fits up to the brim; else files leave for it, down to low water at least.
        assert_eq!([leave(850, 150), leave(850, 151), leave(850, 400), leave(850, 5_000)], [0, 50, 250, 850]);
        assert_eq!(leave(100, 1_000), 100, "all of it");
    }

    #[test]
    fn for_a_put_files_leave_down_to_low_water_and_no_further() {
        let limits = Limits::new(ByteCount(1_000), WATER);
        let leave =
            |used, room, size| limits.to_leave_for_put(ByteCount(used), ByteCount(room), ByteCount(size)).0;
        assert_eq!([leave(850, 100, 101), leave(850, 100, 150), leave(990, 5, 195)], [50, 50, 190]);
        assert_eq!([leave(850, 100, 100), leave(700, 10, 11)], [0, 0], "it fits, or nothing is above");
        assert_eq!([leave(850, 100, 151), leave(990, 5, u64::MAX)], [0, 0], "it would not fit then either");
    }

    #[test]
    fn marks_that_make_no_sense_do_no_harm() {
        let water = Water { high_percent: 50, low_percent: 200 };
        let limits = Limits::new(ByteCount(u64::MAX), water);
        assert!(limits.low == limits.high && limits.high.0 <= u64::MAX / 2 + 1);
        assert_eq!(Limits::new(ByteCount(0), WATER).to_leave(ByteCount(7), ByteCount(0)), ByteCount(7));
    }
}
