//! Room in the pool for what is recalled: who has claimed it, what did not fit, and what the scheduler is
//! told.
//!
//! A recall begins nothing that has no room, so that no write of it fails for want of space and no tape or
//! drive gets a bad name for a full pool.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, Duration, Timestamp};

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

/// What is free for recalls, what is claimed not taken off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreeSpace {
    /// Bytes of files that the pool takes from tapes.
    pub pool: ByteCount,
    /// The largest blob that it takes: one lies on as many drives as its code is wide, and so finds no room
    /// where each has a little.
    pub blob: ByteCount,
    /// The same for each class with a ceiling.
    pub classes: BTreeMap<ClassId, ByteCount>,
}

/// Nothing is free, and no blob is too large.
impl Default for FreeSpace {
    fn default() -> Self {
        FreeSpace { pool: ByteCount(0), blob: ByteCount(u64::MAX), classes: BTreeMap::new() }
    }
}

impl FreeSpace {
    fn of_class(&self, class: ClassId) -> u64 {
        self.classes.get(&class).map_or(u64::MAX, |bytes| bytes.0)
    }
}

/// The smallest file of a class that did not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Short {
    bytes: u64,
    since: Timestamp,
    /// How often it was tried in vain: each time its class is left alone for twice as long.
    times: u32,
    /// That time has passed and it is being tried again.
    tried: bool,
}

/// What running sessions have claimed, and what did not fit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Room {
    claimed: BTreeMap<ClassId, u64>,
    claimed_all: u64,
    short: BTreeMap<ClassId, Short>,
    /// Something that was short fits now, and nobody was told yet.
    fits_now: bool,
}

/// What is claimed for a batch, by class; to be given back once it stands in the catalogue or will not come.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[must_use]
pub struct RoomClaim(BTreeMap<ClassId, u64>);

/// Of each class, the smallest file that did not fit in this look: what is as large needs no other look.
pub(crate) type TooLarge = BTreeMap<ClassId, u64>;

impl Room {
    /// Claims room for so many bytes of a class; `false` if there is none.
    #[must_use]
    pub fn claim(&mut self, free: &FreeSpace, class: ClassId, bytes: ByteCount) -> bool {
        let fits = self.fits(free, class, bytes);
        if fits {
            *self.claimed.entry(class).or_default() += bytes.0;
            self.claimed_all += bytes.0;
        }
        fits
    }

    /// Whether so many bytes of a class fit beside what is claimed.
    #[must_use]
    pub fn fits(&self, free: &FreeSpace, class: ClassId, bytes: ByteCount) -> bool {
        // What is claimed may go to any drives: where these have little each, it counts against one blob.
        let of_blob = if free.blob < free.pool { self.claimed_all } else { 0 };
        of_blob.saturating_add(bytes.0) <= free.blob.0
            && self.claimed_all.saturating_add(bytes.0) <= free.pool.0
            && self.claimed_of(class).0.saturating_add(bytes.0) <= free.of_class(class)
    }

    /// What is claimed for a class.
    #[must_use]
    pub fn claimed_of(&self, class: ClassId) -> ByteCount {
        ByteCount(self.claimed.get(&class).copied().unwrap_or(0))
    }

    /// What is claimed in all.
    #[must_use]
    pub fn claimed(&self) -> ByteCount {
        ByteCount(self.claimed_all)
    }

    /// The smallest file of each class that found no room when it was tried last.
    pub fn short(&self) -> impl Iterator<Item = (ClassId, ByteCount)> {
        self.short.iter().map(|(class, short)| (*class, ByteCount(short.bytes)))
    }

    /// Whether room has come for something that was short, as [`Room::to_tell`] has seen since the last call.
    pub fn take_fits_now(&mut self) -> bool {
        std::mem::take(&mut self.fits_now)
    }

    /// Whether the claims of classes add up to what is claimed in all, for who checks it.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.claimed.values().sum::<u64>() == self.claimed_all
    }

    /// Gives back bytes of a class that were claimed.
    ///
    /// # Panics
    /// If more is given back than was claimed.
    pub fn give_back(&mut self, class: ClassId, bytes: ByteCount) {
        let Some(claimed) = self.claimed.get_mut(&class) else {
            assert_eq!(bytes.0, 0, "what is given back was claimed");
            return;
        };
        assert!(*claimed >= bytes.0, "no more is given back than was claimed");
        *claimed -= bytes.0;
        self.claimed_all -= bytes.0;
        if *claimed == 0 {
            self.claimed.remove(&class);
        }
    }

    /// Gives back what was claimed for a batch.
    pub fn give_back_all(&mut self, claim: RoomClaim) {
        claim.0.into_iter().for_each(|(class, bytes)| self.give_back(class, ByteCount(bytes)));
    }

    /// A file of so many bytes waits for room.
    fn is_short(&mut self, class: ClassId, bytes: u64, now: Timestamp) {
        let new = Short { bytes, since: now, times: 0, tried: false };
        let short = self.short.entry(class).or_insert(new);
        short.bytes = short.bytes.min(bytes);
        if std::mem::take(&mut short.tried) {
            (short.since, short.times) = (now, short.times.saturating_add(1));
        }
    }

    /// Claims room for the files of a batch that have it; which of them have. A class without room for all of
    /// its files is tried file by file.
    pub(crate) fn admit(
        &mut self,
        free: &FreeSpace,
        now: Timestamp,
        batch: &[(ClassId, ByteCount)],
        too_large: &mut TooLarge,
    ) -> (Vec<bool>, RoomClaim) {
        let mut claim = RoomClaim::default();
        for (class, bytes) in batch {
            *claim.0.entry(*class).or_default() += bytes.0;
        }
        claim.0.retain(|class, bytes| {
            !too_large.contains_key(class) && self.claim(free, *class, ByteCount(*bytes))
        });
        let whole: Vec<ClassId> = claim.0.keys().copied().collect();
        let mut admitted = Vec::with_capacity(batch.len());
        for (class, bytes) in batch {
            let may_fit = too_large.get(class).is_none_or(|least| bytes.0 < *least);
            let fits = whole.contains(class) || may_fit && self.claim(free, *class, *bytes);
            admitted.push(fits);
            if fits && !whole.contains(class) {
                *claim.0.entry(*class).or_default() += bytes.0;
            }
            if !fits {
                let least = too_large.entry(*class).or_insert(bytes.0);
                *least = bytes.0.min(*least);
                self.is_short(*class, bytes.0, now);
            }
        }
        (admitted, claim)
    }

    /// What the scheduler is told of what is free: nothing for a class of which a file is known to wait for
    /// more, until it has rested. Nothing is said of the pool as a whole: a large file of one class must not
    /// stop all others. Gives when the next class has rested.
    pub fn to_tell(
        &mut self,
        free: &mut FreeSpace,
        now: Timestamp,
        retry_delay: Duration,
    ) -> Option<Timestamp> {
        let before = self.short.len();
        // Beside what sessions have claimed, as they are asked: else its tape is mounted in vain at once.
        let short = std::mem::take(&mut self.short);
        let still = |(class, short): &(ClassId, Short)| !self.fits(free, *class, ByteCount(short.bytes));
        self.short = short.into_iter().filter(still).collect();
        self.fits_now |= self.short.len() < before;
        let mut next = None::<Timestamp>;
        // After a rest it is tried again: who wanted that file may have given up.
        for (class, short) in &mut self.short {
            let until = short.since.plus(back_off(retry_delay, short.times, BACK_OFF_MAX));
            short.tried |= until <= now;
            if !short.tried {
                free.classes.insert(*class, ByteCount(0));
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
        next
    }
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
    fn that_room_came_for_what_was_short_is_told_once() {
        let (mut room, class, second) = (Room::default(), ClassId(1), Duration::from_secs(1));
        let look = |room: &mut Room, bytes| {
            let mut free = FreeSpace { pool: ByteCount(bytes), ..FreeSpace::default() };
            room.to_tell(&mut free, Timestamp(0), second);
            room.take_fits_now()
        };
        room.is_short(class, 100, Timestamp(0));
        assert!(!look(&mut room, 99) && look(&mut room, 100) && !look(&mut room, 100));
        // What another session has claimed is not there for it.
        room.is_short(class, 100, Timestamp(0));
        let free = FreeSpace { pool: ByteCount(150), ..FreeSpace::default() };
        assert!(room.claim(&free, ClassId(2), ByteCount(100)) && !look(&mut room, 150));
        room.give_back(ClassId(2), ByteCount(100));
        assert!(look(&mut room, 150));
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
