//! An index that is written before its time, since something waits for room in the pool: what a tape has may
//! leave the pool only under an index, and the next one may be hours away.

use base::{Duration, Timestamp};

/// From one such index of a tape to the next: an index costs tape, and the drive cannot write data meanwhile.
pub const INDEX_FOR_ROOM_EVERY: Duration = Duration::from_secs(20);
/// Such indexes in one mount of a tape; further ones come by bytes and at the unmount, as always.
pub const INDEXES_FOR_ROOM_MAX: u32 = 64;

/// The indexes that were written for want of room in one mount of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IndexesForRoom {
    last: Option<Timestamp>,
    count: u32,
}

impl IndexesForRoom {
    /// Asks for one now. Whether it is to be written: it counts then.
    pub fn ask(&mut self, now: Timestamp) -> bool {
        let has_rested = self.last.is_none_or(|last| last.plus(INDEX_FOR_ROOM_EVERY) <= now);
        let may = has_rested && self.count < INDEXES_FOR_ROOM_MAX;
        if may {
            (self.last, self.count) = (Some(now), self.count + 1);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_written_at_once_and_the_others_not_too_often_nor_without_end() {
        let (mut indexes, every) = (IndexesForRoom::default(), INDEX_FOR_ROOM_EVERY);
        let mut now = Timestamp(7);
        assert!(indexes.ask(now) && !indexes.ask(now));
        assert!(!indexes.ask(Timestamp(now.plus(every).0 - 1)));
        for count in 1..INDEXES_FOR_ROOM_MAX {
            now = now.plus(every);
            assert!(indexes.ask(now) && !indexes.ask(now), "{count}");
        }
        assert!(!indexes.ask(now.plus(every)) && !indexes.ask(now.plus(Duration::from_secs(86_400))));
    }
}
