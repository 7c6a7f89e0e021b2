//! Which queued containers a drive writes next, so that data sets stand together on tape.
//!
//! A data set has a home: the tape of a pool that its last container was planned for. While that tape is
//! being written, others leave the data set to it, within bounds; what failed there and waits to be written
//! again goes there too. In memory only: after a start each data set finds a new home with its next
//! container.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, TapePoolId, Timestamp, Vid};

use crate::choose::Queued;

/// Data sets whose homes are remembered; of more, those that were not written to for longest are forgotten.
const HOMES_MAX: usize = 65_536;
/// So many batches in a row may go before what has waited longest, because they belong to what the tape
/// holds.
const TURNS_MAX: u32 = 16;
/// What belongs to a tape is left to it only while its drive has planned something within this time.
const OWNER_SILENCE_MAX: Duration = Duration::from_secs(30 * 60);
/// The data set of a class that is one: it has no home.
const WHOLE_CLASS: u64 = 0;

/// A tape that is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The tape.
    pub vid: Vid,
    /// Its pool.
    pub tape_pool: TapePoolId,
    /// What still fits.
    pub room: ByteCount,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Session {
    tape_pool: TapePoolId,
    room: ByteCount,
    planned: Timestamp,
    /// The data set at the end of the tape.
    current: u64,
    /// Batches in a row that went before what has waited longest.
    turns: u32,
}

/// Where data sets are written.
#[derive(Clone, Default, Debug)]
pub struct Affinity {
    /// The tape, and when it was used last.
    homes: BTreeMap<(TapePoolId, u64), (Vid, u64)>,
    ages: BTreeMap<u64, (TapePoolId, u64)>,
    uses: u64,
    sessions: BTreeMap<Vid, Session>,
}

impl Affinity {
    /// What of a stretch of the queue (in its order) this writer may take, in the order in which it should:
    /// data sets one after the other, first the one at the tape's end, then those of the tape, then new ones.
    /// What belongs to other tapes that are being written is left to them, `left` bytes each and no more than
    /// fits there; what goes beyond that comes last. Positions in `queued`.
    #[must_use]
    pub fn order(&self, writer: &Writer, now: Timestamp, left: ByteCount, queued: &[Queued]) -> Vec<usize> {
        let own = self.sessions.get(&writer.vid);
        let in_turn = own.is_none_or(|own| own.turns < TURNS_MAX);
        let mut budgets: BTreeMap<Vid, u64> = BTreeMap::new();
        // By data set: its rank, and where it comes first.
        let mut groups: BTreeMap<u64, (u8, usize)> = BTreeMap::new();
        let mut taken: Vec<(u8, usize, usize)> = Vec::with_capacity(queued.len());
        for (at, container) in queued.iter().enumerate() {
            let data_set = container.data_set;
            let home = self.home(writer.tape_pool, data_set);
            let rank = match home.and_then(|home| self.other(home, writer, now)) {
                Some((owner, session)) => {
                    let budget = budgets.entry(owner).or_insert(left.0.min(session.room.0));
                    if container.length.0 <= *budget {
                        *budget -= container.length.0;
                        continue;
                    }
                    3
                }
                None if !in_turn || data_set == WHOLE_CLASS => 2,
                None if own.is_some_and(|own| own.current == data_set) => 0,
                None if home == Some(writer.vid) => 1,
                None => 2,
            };
            let (rank, first) = *groups.entry(data_set).or_insert((rank, at));
            // A class that is one data set is taken as it comes.
            taken.push((rank, if data_set == WHOLE_CLASS { at } else { first }, at));
        }
        taken.sort_unstable();
        taken.into_iter().map(|(_, _, at)| at).collect()
    }

    /// These are planned for the tape now, in this order. `first`: none that may be taken has waited longer
    /// than the first of them. The writer's room is what is left.
    pub fn took(&mut self, writer: &Writer, now: Timestamp, first: bool, data_sets: &[u64]) {
        for data_set in data_sets {
            let home = self.home(writer.tape_pool, *data_set);
            // What was shared stays the other's.
            let shared = home.is_some_and(|home| self.other(home, writer, now).is_some());
            if *data_set != WHOLE_CLASS && !shared {
                self.settle(writer, *data_set);
            }
        }
        let turns = self.sessions.get(&writer.vid).map_or(0, |session| session.turns);
        let session = Session {
            tape_pool: writer.tape_pool,
            room: writer.room,
            planned: now,
            current: data_sets.last().copied().unwrap_or(WHOLE_CLASS),
            turns: if first { 0 } else { turns.saturating_add(1) },
        };
        self.sessions.insert(writer.vid, session);
        assert!(self.homes.len() <= HOMES_MAX && self.homes.len() == self.ages.len(), "one age a home");
    }

    /// A tape is not written any more for now: nothing is left to it.
    pub fn leave(&mut self, vid: Vid) {
        self.sessions.remove(&vid);
    }

    fn home(&self, tape_pool: TapePoolId, data_set: u64) -> Option<Vid> {
        self.homes.get(&(tape_pool, data_set)).map(|(vid, _)| *vid)
    }

    /// The session at a home, if it is another's and alive.
    fn other(&self, home: Vid, writer: &Writer, now: Timestamp) -> Option<(Vid, &Session)> {
        let session = self.sessions.get(&home).filter(|_| home != writer.vid)?;
        let alive = session.tape_pool == writer.tape_pool && now.since(session.planned) < OWNER_SILENCE_MAX;
        alive.then_some((home, session))
    }

    fn settle(&mut self, writer: &Writer, data_set: u64) {
        let key = (writer.tape_pool, data_set);
        self.uses += 1;
        if let Some((_, age)) = self.homes.insert(key, (writer.vid, self.uses)) {
            self.ages.remove(&age);
        }
        self.ages.insert(self.uses, key);
        if self.homes.len() > HOMES_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.homes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
