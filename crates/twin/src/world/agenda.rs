//! What happens when: a heap, in the order of times and, at one time, in the order in which it was entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::moment::Moment;
use scenario::model::FileNumber;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum What {
    /// Users have something to do.
    Users,
    /// The scheduler asked to be woken.
    Tick,
    /// A drive has done what it was doing, if it still is in that life.
    Drive { drive: u16, life: u32 },
    /// A client has written a file.
    Wrote { file: FileNumber, from: Moment, wanted: u64 },
    /// A client has read a file.
    Read { file: FileNumber, from: Moment, wanted: u64 },
    /// A seal is carried out.
    Seal { class: u16, partial: bool },
    /// The pool is to be looked at: files have stayed in it for long enough.
    Evict,
    /// A file leaves the pool as it was recorded.
    EvictRecorded,
    /// An operator has everything written now, as it was recorded.
    MigrateNow,
    /// The scheduler is to be told of the pool's room.
    Room,
    /// Pins of campaigns end.
    Pins,
    /// Clients that read and write at random have moved what they could.
    Saturate,
    /// A fault comes.
    Fault(u16),
    /// A fault that lasts is over.
    FaultEnds(u16),
    /// A drive is repaired.
    Repaired { drive: u16 },
    /// An operator puts a cleaning cartridge into a library.
    NewCleaner { library: u16 },
    /// The server starts again.
    Start,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: Moment,
    number: u64,
    what: What,
}

/// The agenda.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    number: u64,
}

impl Agenda {
    pub(super) fn enter(&mut self, at: Moment, what: What) {
        self.number += 1;
        self.heap.push(Reverse(Entry { at, number: self.number, what }));
    }

    pub(super) fn pop(&mut self) -> Option<(Moment, What)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }
}
