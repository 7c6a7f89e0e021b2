//! Tapes that are not full, and have room for nothing of what waits for their pool: they stay open for
//! smaller containers, and none is mounted before one of these is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use threads::MutexGuard;

use base::{ByteCount, ContainerId, Duration, TapePoolId, Timestamp, Vid};
use catalogue::{ReadError, TapeRecord, TapeState, View};
use scheduler::Event;
use session::CHOOSE_WINDOW;

use crate::room::Tape;
use crate::sessions::REST_USELESS;

/// Tapes of one pool that are left open like this; a further one is closed. Each costs a mount after a start,
/// which knows nothing of them.
const OPEN_MAX: usize = 3;

/// The tapes, and how far the queues were looked through for what fits.
#[derive(Default)]
pub(crate) struct TooSmall {
    tapes: BTreeMap<Vid, (TapePoolId, ByteCount)>,
    /// How often in a row a tape was mounted for what seemed to fit, and got nothing, and until when it rests
    /// since then.
    vain: BTreeMap<Vid, (u32, Timestamp)>,
    looked_at: BTreeMap<TapePoolId, ContainerId>,
}

impl TooSmall {
    fn of_pool(&self, pool: TapePoolId) -> impl Iterator<Item = (Vid, ByteCount)> {
        self.tapes.iter().filter(move |(_, (of, _))| *of == pool).map(|(vid, (_, room))| (*vid, *room))
    }

    /// Adds a tape. Gives the one with the least room if there are too many, which is forgotten.
    fn add(&mut self, pool: TapePoolId, vid: Vid, room: ByteCount) -> Option<Vid> {
        self.tapes.insert(vid, (pool, room));
        let is_one_too_many = self.of_pool(pool).count() > OPEN_MAX;
        let smallest = self.of_pool(pool).min_by_key(|(_, room)| *room).filter(|_| is_one_too_many);
        let (smallest, _) = smallest?;
        self.tapes.remove(&smallest);
        Some(smallest)
    }

    /// A mount in vain: the first one costs no rest, since something may have taken its place.
    fn rest(&mut self, vid: Vid, now: Timestamp, delay: Duration) {
        let (times, until) = self.vain.entry(vid).or_insert((0, now));
        *until = match *times {
            0 => now,
            times => now.plus(session::back_off(delay, times - 1, session::BACK_OFF_MAX)),
        };
        *times = times.saturating_add(1);
    }

    fn rests(&self, vid: Vid, now: Timestamp) -> bool {
        self.vain.get(&vid).is_some_and(|(_, until)| *until > now)
    }

    /// Forgets those that a container of this length fits on, but those that rest; gives them.
    fn forget_those_that_take(&mut self, pool: TapePoolId, least: ByteCount, now: Timestamp) -> Vec<Vid> {
        let taking: Vec<Vid> = self
            .of_pool(pool)
            .filter(|(vid, room)| least <= *room && !self.rests(*vid, now))
            .map(|(vid, _)| vid)
            .collect();
        self.tapes.retain(|vid, _| !taking.contains(vid));
        taking
    }
}

impl Tape {
    fn too_small(&self) -> MutexGuard<'_, TooSmall> {
        self.own.too_small.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tape with this room is full as soon as nothing fits on it, if it has less than what is given: any
    /// room where enough others of the pool that are left open have more.
    pub(crate) fn useful_room(&self, pool: TapePoolId, room: ByteCount, capacity: ByteCount) -> ByteCount {
        let larger = self.too_small().of_pool(pool).filter(|(_, other)| *other > room).count();
        if larger < OPEN_MAX { ground::useful_room(capacity) } else { ByteCount(u64::MAX) }
    }

    /// A session has found that nothing of what waits fits on a tape.
    pub(crate) fn nothing_fits(&self, pool: TapePoolId, vid: Vid, room: ByteCount) {
        tracing::info!(%vid, %room, "nothing that waits fits on the tape: it waits for something smaller");
        let smallest = {
            let mut too_small = self.too_small();
            too_small.rest(vid, self.now(), self.settings.tape.retry_delay);
            too_small.add(pool, vid, room)
        };
        let is_written = |vid: &Vid| self.tape(*vid).is_ok_and(|tape| tape.state == TapeState::Active);
        if let Some(smallest) = smallest.filter(|smallest| *smallest != vid).filter(is_written) {
            self.set_tape_aside(smallest, TapeState::Full, REST_USELESS);
        }
    }

    /// A session has found something that fits on a tape.
    pub(crate) fn something_fits(&self, vid: Vid) {
        self.too_small().vain.remove(&vid);
    }

    /// Whether a tape that had rested since a mount in vain may be sent for again, which is said once.
    pub(crate) fn too_small_has_rested(&self) -> bool {
        let (now, mut too_small) = (self.now(), self.too_small());
        let TooSmall { tapes, vain, .. } = &mut *too_small;
        let mut rested = false;
        for (vid, (_, until)) in vain.iter_mut().filter(|(vid, _)| tapes.contains_key(vid)) {
            if *until != Timestamp(0) && *until <= now {
                tracing::debug!(%vid, "what may fit on the tape is looked for again");
                *until = Timestamp(0);
                rested = true;
            }
        }
        rested
    }

    /// Whether a tape waits for something smaller than what is there. One that is not written any more does
    /// not.
    pub(crate) fn is_too_small(&self, vid: Vid, record: &TapeRecord) -> bool {
        let mut too_small = self.too_small();
        if record.state != TapeState::Active {
            too_small.tapes.remove(&vid);
            too_small.vain.remove(&vid);
        }
        too_small.tapes.contains_key(&vid)
    }

    /// Tapes of a pool, for the scheduler, on which something fits that waits now: each call looks through a
    /// part of the queue.
    pub(crate) fn with_room_again(
        &self,
        view: &View<'_>,
        pool: TapePoolId,
        left_alone: &BTreeSet<ContainerId>,
    ) -> Result<Vec<Event>, ReadError> {
        let mut too_small = self.too_small();
        if too_small.of_pool(pool).next().is_none() {
            return Ok(Vec::new());
        }
        let after = too_small.looked_at.get(&pool).copied();
        let page = view.queue(pool, after, CHOOSE_WINDOW)?;
        match page.last() {
            Some((last, _)) if page.len() == CHOOSE_WINDOW => drop(too_small.looked_at.insert(pool, *last)),
            _ => drop(too_small.looked_at.remove(&pool)),
        }
        let waits = page.iter().filter(|(container, _)| !left_alone.contains(container));
        let Some(least) = waits.map(|(_, queued)| queued.length).min() else { return Ok(Vec::new()) };
        let taking = too_small.forget_those_that_take(pool, least, self.now());
        drop(too_small);
        let mut events = Vec::new();
        for vid in taking {
            let Some(record) = view.tape(vid)? else { continue };
            tracing::info!(%vid, bytes = least.0, "something waits that fits on the tape");
            events.push(Event::Tape(vid, self.summary_of(vid, &record)));
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_waits_until_something_is_there_that_it_takes() {
        let (a, b) = (Vid::new("KT0001").unwrap(), Vid::new("KT0002").unwrap());
        let mut too_small = TooSmall::default();
        too_small.tapes.insert(a, (TapePoolId(1), ByteCount(100)));
        too_small.tapes.insert(b, (TapePoolId(2), ByteCount(500)));
        assert_eq!(too_small.forget_those_that_take(TapePoolId(1), ByteCount(101), Timestamp(0)), []);
        assert_eq!(too_small.forget_those_that_take(TapePoolId(1), ByteCount(100), Timestamp(0)), [a]);
        assert_eq!(too_small.forget_those_that_take(TapePoolId(1), ByteCount(1), Timestamp(0)), []);
        assert_eq!(too_small.of_pool(TapePoolId(2)).count(), 1);
    }

    /// Story: a tape was mounted again and again for containers that another tape was to get.
    #[test]
    fn a_tape_that_is_mounted_in_vain_rests_ever_longer() {
        let (vid, pool, delay) = (Vid::new("KT0001").unwrap(), TapePoolId(1), Duration::from_secs(10));
        let mut too_small = TooSmall::default();
        let mut now = Timestamp(1);
        for rest in [0, 10, 20, 40] {
            too_small.add(pool, vid, ByteCount(100));
            too_small.rest(vid, now, delay);
            if rest > 0 {
                let early = now.plus(Duration::from_secs(rest - 1));
                assert_eq!(too_small.forget_those_that_take(pool, ByteCount(1), early), []);
            }
            now = now.plus(Duration::from_secs(rest));
            assert_eq!(too_small.forget_those_that_take(pool, ByteCount(1), now), [vid]);
        }
    }

    #[test]
    fn of_too_many_the_fullest_is_closed() {
        let vid = |n: u64| Vid::new(&format!("KT000{n}")).unwrap();
        let (mut too_small, pool) = (TooSmall::default(), TapePoolId(1));
        for (n, room) in [(1, 50), (2, 30), (3, 90)] {
            assert_eq!(too_small.add(pool, vid(n), ByteCount(room)), None);
        }
        assert_eq!(too_small.add(pool, vid(1), ByteCount(40)), None, "it is one of them");
        assert_eq!(too_small.add(TapePoolId(2), vid(8), ByteCount(1)), None);
        assert_eq!(too_small.add(pool, vid(4), ByteCount(70)), Some(vid(2)));
        let left: Vec<Vid> = too_small.of_pool(pool).map(|(vid, _)| vid).collect();
        assert_eq!(left, [vid(1), vid(3), vid(4)]);
    }
}
