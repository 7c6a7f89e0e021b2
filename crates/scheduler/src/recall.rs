//! Which files are wanted, and which tape is to deliver each of them.
//!
//! A waiting file stands in the queue of every tape with a copy of it. When a tape is chosen, it takes all
//! its files out of the other tapes' queues. Choosing the tape with the most waiting bytes each time is
//! therefore the greedy set cover, at the last moment, when most is known: a copy never costs a mount that
//! another one saves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, Duration, FileId, Timestamp, Vid};

use crate::Policy;

mod groups;

pub(crate) use groups::Gathered;
use groups::Groups;
pub use groups::WantedGroup;

/// Most copies of a file that are looked at; further ones are ignored.
pub const COPIES_MAX: usize = 8;

/// A tape whose oldest wanted file waits longer than this goes before all others, oldest first, however
/// little is wanted from it.
pub const STARVATION: Duration = Duration::from_secs(6 * 3600);

/// The tapes with a copy, by VID. Two copies, the usual number, need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Copies {
    None,
    One([Vid; 1]),
    Two([Vid; 2]),
    Many(Box<[Vid]>),
}

impl Copies {
    fn new(tapes: &[Vid]) -> Self {
        let sorted: BTreeSet<Vid> = tapes.iter().copied().collect();
        let sorted: Vec<Vid> = sorted.into_iter().take(COPIES_MAX).collect();
        match sorted[..] {
            [] => Copies::None,
            [a] => Copies::One([a]),
            [a, b] => Copies::Two([a, b]),
            _ => Copies::Many(sorted.into_boxed_slice()),
        }
    }

    fn as_slice(&self) -> &[Vid] {
        match self {
            Copies::None => &[],
            Copies::One(one) => one,
            Copies::Two(two) => two,
            Copies::Many(many) => many,
        }
    }
}

/// Where a wanted file stands. The numbers are positions in its list of copies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    /// In the queue of every tape with a copy that did not fail.
    Waiting,
    /// Taken by one tape.
    Assigned(u8),
    /// Taken by one tape, whose session is reading it.
    Claimed(u8),
}

/// A wanted file. There may be ten million, so this is kept small.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    bytes: ByteCount,
    since: Timestamp,
    copies: Copies,
    /// One bit a copy: it could not be read and rests.
    failed: u8,
    place: Place,
}

const _: () = assert!(size_of::<Wanted>() <= 48, "ten million wanted files must fit");
const _: () = assert!(COPIES_MAX <= u8::BITS as usize, "one bit a copy");

impl Wanted {
    fn position(&self, vid: Vid) -> Option<u8> {
        self.copies.as_slice().iter().position(|copy| *copy == vid).and_then(|at| u8::try_from(at).ok())
    }

    fn is_failed(&self, position: u8) -> bool {
        self.failed & (1 << position) != 0
    }

    fn usable(&self) -> impl Iterator<Item = Vid> {
        let failed = self.failed;
        let all = self.copies.as_slice().iter().enumerate();
        all.filter(move |(at, _)| failed & (1 << at) == 0).map(|(_, vid)| *vid)
    }

    fn taken_by(&self) -> Option<Vid> {
        match self.place {
            Place::Waiting => None,
            Place::Assigned(at) | Place::Claimed(at) => self.copies.as_slice().get(usize::from(at)).copied(),
        }
    }
}

/// Files by age, and their bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct FileSet {
    bytes: u64,
    files: BTreeSet<(Timestamp, FileId)>,
}

impl FileSet {
    fn insert(&mut self, file: FileId, wanted: &Wanted) {
        let new = self.files.insert((wanted.since, file));
        assert!(new, "file {file} stands in one queue twice");
        self.bytes = self.bytes.saturating_add(wanted.bytes.0);
    }

    fn remove(&mut self, file: FileId, wanted: &Wanted) {
        let was = self.files.remove(&(wanted.since, file));
        assert!(was, "file {file} is not in the queue it should be in");
        self.bytes = self.bytes.saturating_sub(wanted.bytes.0);
        assert!(!self.files.is_empty() || self.bytes == 0, "bytes without files");
    }

    fn oldest(&self) -> Option<Timestamp> {
        self.files.first().map(|(since, _)| *since)
    }
}

/// What is wanted from one tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct TapeQueue {
    waiting: FileSet,
    assigned: FileSet,
    /// The tape is about to be read or being read: files that are wanted from now on are assigned to it at
    /// once.
    open: bool,
    /// It is readable and in no drive.
    mountable: bool,
    indexed: Option<(Timestamp, u64)>,
}

/// The queues of all tapes, and those that could be mounted in the order in which that is worth while.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct TapeQueues {
    queues: BTreeMap<Vid, TapeQueue>,
    by_age: BTreeSet<(Timestamp, Reverse<u64>, Vid)>,
    by_bytes: BTreeSet<(u64, Reverse<Vid>)>,
}

impl TapeQueues {
    fn change(&mut self, vid: Vid, change: impl FnOnce(&mut TapeQueue)) {
        let queue = self.queues.entry(vid).or_default();
        change(queue);
        let key = match queue.waiting.oldest() {
            Some(oldest) if queue.mountable => Some((oldest, queue.waiting.bytes)),
            _ => None,
        };
        if queue.indexed == key {
            return;
        }
        if let Some((oldest, bytes)) = std::mem::replace(&mut queue.indexed, key) {
            let was = self.by_age.remove(&(oldest, Reverse(bytes), vid));
            assert!(was && self.by_bytes.remove(&(bytes, Reverse(vid))), "the index of tape {vid} is stale");
        }
        if let Some((oldest, bytes)) = key {
            self.by_age.insert((oldest, Reverse(bytes), vid));
            self.by_bytes.insert((bytes, Reverse(vid)));
        }
    }
}

/// All wanted files and the tapes they wait for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecallQueue {
    wanted: BTreeMap<FileId, Wanted>,
    tapes: TapeQueues,
    /// Copies that failed and when they may be tried again.
    resting: BTreeSet<(Timestamp, FileId, Vid)>,
    /// The same files, by what they wait for: what a forecast looks at.
    groups: Groups,
}

/// What a wanted file waits for.
pub(crate) enum FilePlace {
    /// One of these tapes, the most wanted first.
    Waiting(Vec<Vid>),
    /// Every copy failed; the first is tried again at this time.
    AllFailed(Option<Timestamp>),
    /// It is this tape's, behind so many older files.
    Taken(Vid, usize),
}

impl RecallQueue {
    /// A file is wanted, or what is known of a wanted file changed. Copies that failed go on resting.
    pub(crate) fn want(&mut self, file: FileId, bytes: ByteCount, since: Timestamp, copies: &[Vid]) {
        let mut wanted =
            Wanted { bytes, since, copies: Copies::new(copies), failed: 0, place: Place::Waiting };
        if let Some(old) = self.take_out(file) {
            for (at, vid) in wanted.copies.as_slice().iter().enumerate() {
                let failed = old.position(*vid).is_some_and(|position| old.is_failed(position));
                wanted.failed |= u8::from(failed) << at;
            }
            if let (Place::Claimed(_), Some(vid)) = (old.place, old.taken_by()) {
                wanted.place = wanted.position(vid).map_or(Place::Waiting, Place::Claimed);
            }
        }
        self.put_back(file, wanted);
    }

    /// A file is not wanted any more. Returns the tape it was assigned to.
    pub(crate) fn unwant(&mut self, file: FileId) -> Option<Vid> {
        self.take_out(file).and_then(|wanted| wanted.taken_by())
    }

    /// One copy could not be read and rests until then. Returns whether that was known of the file's tape.
    pub(crate) fn copy_failed(&mut self, file: FileId, vid: Vid, until: Timestamp) -> bool {
        let Some(mut wanted) = self.take_out(file) else { return false };
        let position = wanted.position(vid);
        if let Some(position) = position {
            wanted.failed |= 1 << position;
            self.resting.insert((until, file, vid));
            if wanted.taken_by() == Some(vid) {
                wanted.place = Place::Waiting;
            }
        }
        self.put_back(file, wanted);
        position.is_some()
    }

    /// Copies that have rested long enough may be tried again.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        while let Some(&(until, file, vid)) = self.resting.first() {
            if until > now {
                break;
            }
            self.resting.pop_first();
            let Some(mut wanted) = self.take_out(file) else { continue };
            if let Some(position) = wanted.position(vid) {
                wanted.failed &= !(1 << position);
            }
            self.put_back(file, wanted);
        }
    }

    /// See [`Scheduler::claim`](crate::Scheduler::claim).
    pub(crate) fn claim(&mut self, vid: Vid, file: FileId) -> bool {
        let Some(wanted) = self.wanted.get(&file) else { return false };
        let Some(position) = wanted.position(vid) else { return false };
        match wanted.place {
            Place::Claimed(by) => by == position,
            _ if wanted.is_failed(position) => false,
            _ => {
                let taken = self.take_out(file);
                if let Some(wanted) = taken {
                    self.put_in(file, Wanted { place: Place::Claimed(position), ..wanted });
                }
                true
            }
        }
    }

    /// A tape is chosen: every file that waits for it is assigned to it and waits for no other tape any more.
    pub(crate) fn open(&mut self, vid: Vid) {
        self.tapes.change(vid, |queue| queue.open = true);
        for file in self.files(vid, |queue| &queue.waiting) {
            let Some(wanted) = self.take_out(file) else { continue };
            assert_eq!(wanted.place, Place::Waiting, "file {file} waits and is taken");
            let place = wanted.position(vid).map_or(Place::Waiting, Place::Assigned);
            self.put_in(file, Wanted { place, ..wanted });
        }
        assert!(self.waiting(vid).is_none(), "tape {vid} is open and files wait for it");
    }

    /// A tape is not to be read any more: what its session has not claimed waits again.
    pub(crate) fn stop_joining(&mut self, vid: Vid) {
        self.give_back(vid, false);
    }

    /// A tape's session ended or will not begin: all its files wait again.
    pub(crate) fn close(&mut self, vid: Vid) {
        self.give_back(vid, true);
        assert!(!self.has_assigned(vid), "tape {vid} is closed and has files");
    }

    fn give_back(&mut self, vid: Vid, claimed_too: bool) {
        self.tapes.change(vid, |queue| queue.open = false);
        for file in self.files(vid, |queue| &queue.assigned) {
            let claimed =
                matches!(self.wanted.get(&file).map(|wanted| wanted.place), Some(Place::Claimed(_)));
            if claimed && !claimed_too {
                continue;
            }
            if let Some(wanted) = self.take_out(file) {
                self.put_back(file, Wanted { place: Place::Waiting, ..wanted });
            }
        }
    }

    fn files(&self, vid: Vid, set: impl Fn(&TapeQueue) -> &FileSet) -> Vec<FileId> {
        let queue = self.tapes.queues.get(&vid);
        queue.map_or_else(Vec::new, |queue| set(queue).files.iter().map(|(_, file)| *file).collect())
    }

    fn take_out(&mut self, file: FileId) -> Option<Wanted> {
        let wanted = self.wanted.remove(&file)?;
        self.groups.take_out(&wanted);
        match wanted.taken_by() {
            Some(vid) => self.tapes.change(vid, |queue| queue.assigned.remove(file, &wanted)),
            None => wanted.usable().for_each(|vid| {
                self.tapes.change(vid, |queue| queue.waiting.remove(file, &wanted));
            }),
        }
        Some(wanted)
    }

    /// Like `put_in`, but a waiting file joins a tape that is open.
    fn put_back(&mut self, file: FileId, mut wanted: Wanted) {
        if wanted.place == Place::Waiting {
            let open = |vid: &Vid| self.tapes.queues.get(vid).is_some_and(|queue| queue.open);
            let joins = wanted.usable().find(open).and_then(|vid| wanted.position(vid));
            wanted.place = joins.map_or(Place::Waiting, Place::Assigned);
        }
        self.put_in(file, wanted);
    }

    fn put_in(&mut self, file: FileId, wanted: Wanted) {
        self.groups.put_in(&wanted);
        match wanted.taken_by() {
            Some(vid) => self.tapes.change(vid, |queue| queue.assigned.insert(file, &wanted)),
            None => wanted.usable().for_each(|vid| {
                self.tapes.change(vid, |queue| queue.waiting.insert(file, &wanted));
            }),
        }
        let old = self.wanted.insert(file, wanted);
        assert!(old.is_none(), "file {file} is wanted twice");
    }

    /// Whether a tape is readable and in no drive.
    pub(crate) fn set_mountable(&mut self, vid: Vid, mountable: bool) {
        self.tapes.change(vid, |queue| queue.mountable = mountable);
    }

    /// What waits for a tape and is assigned to none: since when, and how much.
    pub(crate) fn waiting(&self, vid: Vid) -> Option<(Timestamp, ByteCount)> {
        let waiting = &self.tapes.queues.get(&vid)?.waiting;
        Some((waiting.oldest()?, ByteCount(waiting.bytes)))
    }

    /// Whether files are assigned to a tape.
    pub(crate) fn has_assigned(&self, vid: Vid) -> bool {
        self.tapes.queues.get(&vid).is_some_and(|queue| !queue.assigned.files.is_empty())
    }

    /// Whether enough waits for a tape, or for long enough.
    pub(crate) fn is_due(&self, vid: Vid, now: Timestamp, policy: &Policy) -> bool {
        self.waiting(vid).is_some_and(|(oldest, bytes)| {
            bytes >= policy.recall_bytes || oldest.plus(policy.recall_age) <= now
        })
    }

    /// At most `limit` tapes that are worth a mount and can be placed: the starving ones by age, then by
    /// bytes.
    pub(crate) fn due(
        &self,
        now: Timestamp,
        policy: &Policy,
        limit: usize,
        placeable: impl Fn(Vid) -> bool,
    ) -> Vec<Vid> {
        let age_due = |oldest: Timestamp| oldest.plus(policy.recall_age) <= now;
        let any_old = self.tapes.by_age.first().is_some_and(|(oldest, ..)| age_due(*oldest));
        let any_big = self.tapes.by_bytes.last().is_some_and(|(bytes, _)| *bytes >= policy.recall_bytes.0);
        if !any_old && !any_big {
            return Vec::new();
        }
        let starving = self.tapes.by_age.iter();
        let starving = starving.take_while(|(oldest, ..)| age_due(*oldest) && oldest.plus(STARVATION) <= now);
        let starving: Vec<Vid> =
            starving.map(|(.., vid)| *vid).filter(|vid| placeable(*vid)).take(limit).collect();
        let rest = self.tapes.by_bytes.iter().rev().map(|(_, Reverse(vid))| *vid);
        let rest = rest.filter(|vid| self.is_due(*vid, now, policy) && !starving.contains(vid));
        let rest: Vec<Vid> = rest.filter(|vid| placeable(*vid)).take(limit - starving.len()).collect();
        let mut due = starving;
        due.extend(rest);
        assert!(due.len() <= limit, "more tapes than were asked for");
        due
    }

    /// The next time after `now` at which a tape becomes worth a mount or a copy has rested enough.
    pub(crate) fn next_time(&self, now: Timestamp, policy: &Policy) -> Option<Timestamp> {
        let age = i64::try_from(policy.recall_age.as_nanos()).unwrap_or(i64::MAX);
        // An age of zero or more is due at `now` if it began at `now - age`; the next one is the first after
        // it.
        let young = Timestamp(now.0.saturating_sub(age).saturating_add(1));
        let lowest = Vid::new("000000").ok()?;
        let due =
            self.tapes.by_age.range((young, Reverse(u64::MAX), lowest)..).next().map(|(oldest, ..)| *oldest);
        let rested = self.resting.first().map(|(until, ..)| *until);
        due.map(|oldest| oldest.plus(policy.recall_age)).into_iter().chain(rested).min()
    }

    /// What a wanted file waits for; `None` if it is not wanted.
    pub(crate) fn place(&self, file: FileId) -> Option<FilePlace> {
        let wanted = self.wanted.get(&file)?;
        if let Some(vid) = wanted.taken_by() {
            let assigned = self.tapes.queues.get(&vid).map(|queue| &queue.assigned.files);
            let before = assigned.map_or(0, |files| files.range(..(wanted.since, file)).count());
            return Some(FilePlace::Taken(vid, before));
        }
        let mut tapes: Vec<Vid> = wanted.usable().collect();
        if tapes.is_empty() && wanted.copies != Copies::None {
            let until = self.resting.iter().find(|(_, of, _)| *of == file).map(|(until, ..)| *until);
            return Some(FilePlace::AllFailed(until));
        }
        tapes.sort_by_key(|vid| (Reverse(self.waiting(*vid).map(|(_, bytes)| bytes)), *vid));
        Some(FilePlace::Waiting(tapes))
    }

    /// Checks every queue against every file; linear.
    pub(crate) fn check(&self) {
        self.groups.check(&self.wanted);
        let queues = self.tapes.queues.values();
        let taken: usize = queues.clone().map(|queue| queue.assigned.files.len()).sum();
        let waiting: usize = queues.map(|queue| queue.waiting.files.len()).sum();
        let expected = self.wanted.values().filter(|wanted| wanted.place != Place::Waiting).count();
        assert_eq!(taken, expected, "every taken file has one tape");
        let expected = self.wanted.values().filter(|wanted| wanted.place == Place::Waiting);
        assert_eq!(
            waiting,
            expected.map(|wanted| wanted.usable().count()).sum::<usize>(),
            "queued once a copy"
        );
        assert_eq!(self.tapes.by_age.len(), self.tapes.by_bytes.len(), "two indexes of the same tapes");
    }
}
