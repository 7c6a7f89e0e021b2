//! Room in the pool for containers that repacks and repairs read from tape: they wait for it, so that no tape
//! is mounted for what would find none.

use std::sync::TryLockError;

use base::{ByteCount, Duration, Timestamp, Vid};
use blob::BlobFault;
use scheduler::{Event, Reason};
use session::{BACK_OFF_MAX, back_off};

use crate::maintenance::Maintenance;
use crate::room::Tape;
use ground::ArchiveError;

/// Whether the pool had room when a container was last read into it.
#[derive(Default, Debug)]
pub(crate) struct RoomForReads(Option<Short>);

/// The smallest container that found no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Short {
    /// Its length.
    pub(crate) need: ByteCount,
    /// What is free when it is tried again before its time.
    enough: ByteCount,
    /// When it was found.
    since: Timestamp,
    /// When it is tried again in any case: room that is free need not be room for it, and what is free below
    /// the share of puts is not counted.
    pub(crate) until: Timestamp,
    /// How often it was tried in vain: each time it rests twice as long.
    times: u32,
    /// It is being tried again.
    tried: bool,
}

impl RoomForReads {
    /// A container of `need` bytes found no room, and `free` bytes are free for files.
    pub(crate) fn found_none(
        &mut self,
        need: ByteCount,
        free: ByteCount,
        now: Timestamp,
        retry_delay: Duration,
    ) {
        let (times, seen) = match self.0 {
            // Another drive, or the next container in the same session: no other attempt.
            Some(short) if !short.tried && need >= short.need => return,
            Some(short) if !short.tried => (short.times, ByteCount(0)),
            Some(short) => (short.times.saturating_add(1), short.enough),
            None => (0, ByteCount(0)),
        };
        let enough = if free < need { need } else { more(free, need) };
        let until = now.plus(back_off(retry_delay, times, BACK_OFF_MAX));
        self.0 = Some(Short { need, enough: enough.max(seen), since: now, until, times, tried: false });
    }

    /// A container of so many bytes was read into the pool. Whether others waited for that.
    pub(crate) fn found(&mut self, length: ByteCount) -> bool {
        self.0.take_if(|short| length >= short.need).is_some()
    }

    /// What is tried now is tried as if nothing had failed. Whether anything had.
    pub(crate) fn forget(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Begins another attempt if it is time for it, or if so many bytes are free for files, as seen at `at`.
    pub(crate) fn look(&mut self, now: Timestamp, (at, free): (Timestamp, ByteCount)) {
        let Some(short) = self.0.as_mut().filter(|short| !short.tried) else { return };
        if at > short.since && free >= short.enough {
            // If it is not enough after all, only more than that is worth a mount before its time.
            (short.tried, short.enough) = (true, more(free, short.need));
        }
        short.tried |= short.until <= now;
    }

    /// Whether a container of so many bytes is not to be read now.
    pub(crate) fn keeps(&self, length: ByteCount) -> bool {
        self.0.is_some_and(|short| !short.tried && length >= short.need)
    }

    /// What found no room, until it has.
    pub(crate) fn short(&self) -> Option<Short> {
        self.0
    }

    /// Whether it was tried again in vain: what was written meanwhile did not make room enough.
    pub(crate) fn is_lasting(&self) -> bool {
        self.0.is_some_and(|short| short.times > 0)
    }

    /// Whether another attempt is under way.
    pub(crate) fn is_tried(&self) -> bool {
        self.0.is_some_and(|short| short.tried)
    }
}

fn more(free: ByteCount, need: ByteCount) -> ByteCount {
    ByteCount(free.0.saturating_add(need.0))
}

/// Whether what was to be read into the pool found no place there.
pub(crate) fn is_without_room(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::PoolFull => true,
        // Too few drives that take the bytes, full or away: they come back, or are emptied.
        ArchiveError::Blob(error) => error.fault == BlobFault::NoPlace,
        _ => false,
    }
}

impl Tape {
    /// The pool had no room for a container of `need` bytes that was to be read into it.
    pub(crate) fn reads_wait_for_room(&self, need: ByteCount) {
        let free = self.room_for_files();
        let mut maintenance = self.maintenance();
        maintenance.room.found_none(need, free, self.now(), self.settings.tape.retry_delay);
        tracing::warn!(%need, %free, "what repacks and repairs read from tape waits for room in the pool");
        self.tell_of_reads(&maintenance);
    }

    /// A container of so many bytes was read into the pool.
    pub(crate) fn reads_found_room(&self, length: ByteCount) {
        let mut maintenance = self.maintenance();
        if maintenance.room.found(length) {
            self.tell_of_reads(&maintenance);
        }
    }

    /// An operator wants something done: what waits for room is tried at once.
    pub(crate) fn try_reads_now(&self) {
        let mut maintenance = self.maintenance();
        if maintenance.room.forget() {
            self.tell_of_reads(&maintenance);
        }
    }

    /// Why a container of so many bytes is not read into the pool now, if that is for want of room.
    pub(crate) fn no_room_for_read(&self, length: ByteCount) -> Option<Reason> {
        let short = {
            let maintenance = self.maintenance();
            maintenance.room.short().filter(|_| maintenance.room.keeps(length))?
        };
        Some(self.no_room(short))
    }

    /// The same of all that is to be read from a tape.
    pub(crate) fn no_room_for_reads_of(&self, vid: Vid) -> Option<Reason> {
        let short = {
            let maintenance = self.maintenance();
            let waits = maintenance.with_reads().any(|of| of == vid) && maintenance.next_read(vid).is_none();
            maintenance.room.short().filter(|_| waits)?
        };
        Some(self.no_room(short))
    }

    /// The same of anything that is to be read, also while it is being tried again.
    pub(crate) fn no_room_for_reads(&self) -> Option<Reason> {
        let short = self.maintenance().room.short()?;
        Some(self.no_room(short))
    }

    /// Under the lock, so that the last word is the last change.
    pub(crate) fn tell_of_reads(&self, maintenance: &Maintenance) {
        for vid in maintenance.with_reads() {
            self.notifier.maintain(vid, self.is_due(maintenance, vid));
        }
    }

    /// Tapes whose containers are read into the pool now that it seems to have room; `seen`: what is free for
    /// files, and when that was seen. Told until something was read: what was posted when there was none may
    /// be heard after it.
    ///
    /// For the conductor, which waits for no lock under which others post: while one is held it looks again
    /// with its next turn.
    pub(crate) fn reads_due(&self, seen: (Timestamp, ByteCount)) -> Vec<Event> {
        let mut maintenance = match self.own.maintenance.try_lock() {
            Ok(maintenance) => maintenance,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        maintenance.room.look(self.now(), seen);
        if !maintenance.room.is_tried() {
            return Vec::new();
        }
        let due = maintenance.with_reads().filter(|vid| self.is_due(&maintenance, *vid));
        due.map(|vid| Event::Maintain(vid, true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(0).plus(Duration::from_secs(seconds))
    }

    fn mb(count: u64) -> ByteCount {
        ByteCount(count * 1_000_000)
    }

    /// One attempt that fails at `now`, with so much free then.
    fn fails(room: &mut RoomForReads, need: ByteCount, free: ByteCount, now: Timestamp) {
        assert!(!room.keeps(need), "it is tried");
        room.found_none(need, free, now, DELAY);
        assert!(room.keeps(need));
    }

    /// Seconds from each failure to the next attempt, while nothing changes.
    fn rests(attempts: usize) -> Vec<u64> {
        let (mut room, mut now, mut rests) = (RoomForReads::default(), 0, Vec::new());
        for _ in 0..attempts {
            fails(&mut room, mb(3), mb(0), at(now));
            let failed = now;
            while room.keeps(mb(3)) {
                now += 1;
                room.look(at(now), (at(now), mb(0)));
            }
            rests.push(now - failed);
        }
        rests
    }

    #[test]
    fn without_room_each_rest_is_twice_as_long() {
        assert_eq!(rests(6), [5, 10, 20, 40, 80, 160]);
    }

    #[test]
    fn room_that_came_ends_the_rest_and_room_that_was_there_does_not() {
        let mut room = RoomForReads::default();
        fails(&mut room, mb(3), mb(1), at(10));
        room.look(at(11), (at(9), mb(100)));
        assert!(room.keeps(mb(3)), "seen before the failure");
        room.look(at(11), (at(11), mb(2)));
        assert!(room.keeps(mb(3)), "too little");
        room.look(at(11), (at(11), mb(3)));
        // It seems to be enough, and is not: only more is worth another mount.
        fails(&mut room, mb(3), mb(0), at(12));
        room.look(at(13), (at(13), mb(5)));
        assert!(room.keeps(mb(3)), "drives that are full and not full in turn mount no tape each time");
        room.look(at(13), (at(13), mb(6)));
        assert!(!room.keeps(mb(3)));
    }

    #[test]
    fn what_is_smaller_than_all_that_failed_is_tried() {
        let mut room = RoomForReads::default();
        fails(&mut room, mb(30), mb(1), at(0));
        assert!(!room.keeps(mb(2)) && room.keeps(mb(40)));
        fails(&mut room, mb(2), mb(1), at(0));
        assert!(room.keeps(mb(30)));
        assert_eq!(room.short().map(|short| (short.need, short.until)), Some((mb(2), at(5))));
        assert!(!room.found(mb(1)) && room.keeps(mb(30)), "what is smaller says nothing");
        room.look(at(5), (at(5), mb(0)));
        assert!(room.is_tried());
        assert!(room.found(mb(2)) && !room.keeps(mb(30)));
        assert_eq!(room.short(), None);
    }

    #[test]
    fn an_operators_word_is_tried_at_once() {
        let mut room = RoomForReads::default();
        assert!(!room.forget());
        fails(&mut room, mb(3), mb(0), at(0));
        assert!(room.forget() && !room.keeps(mb(3)));
    }
}
