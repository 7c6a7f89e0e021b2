//! Which files are wanted, and which tape is to deliver each of them.
//!
//! A waiting file stands in the queue of every tape with a copy of it. When a tape is chosen, it takes all
//! its files out of the other tapes' queues. The tape is chosen whose turn it is (`worth.rs`), or another one
//! with a copy of its oldest file from which more bytes are to be read for the cost of a mount: so a copy
//! hardly costs a mount that another one saves, and what is chosen is chosen at the last moment, when most is
//! known. A suspect tape holds its files back while another copy can be had.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, Duration, FileId, ShareId, Timestamp, Vid};

use crate::policy::PRIORITY_MAX;
use crate::worth::{FileSet, Item, TapePlace, TapeQueue, TapeQueues};

mod groups;

pub(crate) use groups::Gathered;
use groups::Groups;
pub use groups::{WantedGroup, WantedOfShare};

/// Most copies of a file that are looked at; further ones are ignored.
pub const COPIES_MAX: usize = 8;

/// Files that are wanted join a session that reads their tape during its first hour. Then it reads what it
/// has and ends, so that a tape that is wanted again and again gives its drive to others.
pub const JOIN_MAX: Duration = Duration::from_secs(3600);

/// A file that somebody waits for. `C`: its tapes, by VID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedFile<C = Vec<Vid>> {
    /// The file.
    pub file: FileId,
    /// Its bytes.
    pub bytes: ByteCount,
    /// Since when.
    pub since: Timestamp,
    /// From 0 to [`PRIORITY_MAX`]; what is higher counts as that.
    pub priority: u8,
    /// On whose behalf.
    pub share: ShareId,
    /// Every tape with a copy; the first [`COPIES_MAX`] by VID count.
    pub copies: C,
}

/// The tapes with a copy, by VID. Two copies, the usual number, need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Copies {
    None,
    One([Vid; 1]),
    Two([Vid; 2]),
    Many(Box<[Vid]>),
}

impl Copies {
    fn new(tapes: &[Vid]) -> Self {
        match *tapes {
            [a] => return Copies::One([a]),
            [a, b] if a < b => return Copies::Two([a, b]),
            _ => {}
        }
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
pub(crate) enum Place {
    /// In the queue of every tape with a copy that did not fail.
    Waiting,
    /// Taken by one tape.
    Assigned(u8),
    /// Taken by one tape, whose session is reading it.
    Claimed(u8),
}

/// A wanted file. There may be ten million, so this is kept small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    bytes: ByteCount,
    since: Timestamp,
    copies: Copies,
    share: ShareId,
    priority: u8,
    /// One bit a copy: it could not be read and rests.
    failed: u8,
    pub(crate) place: Place,
    /// It waits and suspect tapes hold it back, because another copy can be had.
    pub(crate) held: bool,
}

const _: () = assert!(size_of::<Wanted>() <= 48, "ten million wanted files must fit");
const _: () = assert!(COPIES_MAX <= u8::BITS as usize, "one bit a copy");

impl Wanted {
    pub(crate) fn new<C: AsRef<[Vid]>>(wanted: &WantedFile<C>) -> Self {
        Wanted {
            bytes: wanted.bytes,
            since: wanted.since,
            copies: Copies::new(wanted.copies.as_ref()),
            share: wanted.share,
            priority: wanted.priority.min(PRIORITY_MAX),
            failed: 0,
            place: Place::Waiting,
            held: false,
        }
    }

    pub(crate) fn item(&self, file: FileId, files: u32) -> Item {
        let Wanted { since, bytes, share, priority, .. } = *self;
        Item { file, since, bytes, share, priority, files }
    }

    fn position(&self, vid: Vid) -> Option<u8> {
        self.copies.as_slice().iter().position(|copy| *copy == vid).and_then(|at| u8::try_from(at).ok())
    }

    fn is_failed(&self, position: u8) -> bool {
        self.failed & (1 << position) != 0
    }

    pub(crate) fn usable(&self) -> impl Iterator<Item = Vid> {
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

/// All wanted files and the tapes they wait for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecallQueue {
    pub(crate) wanted: BTreeMap<FileId, Wanted>,
    pub(crate) tapes: TapeQueues,
    /// Bytes that are assigned to tapes, by share: they need room in the pool.
    pub(crate) assigned: BTreeMap<ShareId, u64>,
    /// Copies that failed and when they may be tried again.
    resting: BTreeSet<(Timestamp, FileId, Vid)>,
    /// The same files, by what they wait for: what a forecast looks at.
    pub(crate) groups: Groups,
    /// In a summary: how many files one file stands for. Else nothing.
    pub(crate) stands_for: BTreeMap<FileId, u32>,
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
    pub(crate) fn want(&mut self, new: &WantedFile) {
        let (file, mut wanted) = (new.file, Wanted::new(new));
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

    /// Time has passed: tapes become due, and copies that have rested long enough may be tried again.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.tapes.expire(now);
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
            Place::Claimed(by) => return by == position,
            // It stays in the tape's queue as it is.
            Place::Assigned(by) if by == position => {
                if let Some(wanted) = self.wanted.get_mut(&file) {
                    self.groups.take_out(wanted);
                    (wanted.place, wanted.held) = (Place::Claimed(position), false);
                    self.groups.put_in(wanted);
                }
                return true;
            }
            // Another tape's, or nobody's: as for files that are wanted only now.
            _ if wanted.is_failed(position) || !self.takes(wanted, vid) => return false,
            _ => {}
        }
        if let Some(wanted) = self.take_out(file) {
            self.put_in(file, Wanted { place: Place::Claimed(position), held: false, ..wanted });
        }
        true
    }

    /// Whether a tape is being read and takes a file that is not its own yet.
    fn takes(&self, wanted: &Wanted, vid: Vid) -> bool {
        self.tapes.queues.get(&vid).is_some_and(|queue| {
            let held = queue.place.suspect && self.is_held(wanted);
            queue.open_until.is_some_and(|until| until > self.tapes.now) && !held
        })
    }

    /// A tape is chosen: every file that waits for it is assigned to it and waits for no other tape any more.
    /// Files that are wanted before `until` join them.
    pub(crate) fn open(&mut self, vid: Vid, until: Timestamp) {
        let mut files = FileSet::default();
        self.tapes.change(vid, |queue| {
            queue.open_until = Some(until);
            files.files.clone_from(&queue.waiting.files);
        });
        for &(_, file) in &files.files {
            let files = self.files_of(file);
            let Some(wanted) = self.wanted.get_mut(&file) else { continue };
            assert_eq!(wanted.place, Place::Waiting, "file {file} waits and is taken");
            self.groups.take_out(wanted);
            let item = wanted.item(file, files);
            for other in wanted.usable() {
                self.tapes.change(other, |queue| match wanted.held && queue.place.suspect {
                    true => queue.held.remove(&item),
                    false if other == vid => {}
                    false => queue.waiting.remove(&item),
                });
            }
            (wanted.held, wanted.place) =
                (false, wanted.position(vid).map_or(Place::Waiting, Place::Assigned));
            self.groups.put_in(wanted);
            let assigned = self.assigned.entry(item.share).or_default();
            *assigned = assigned.saturating_add(item.bytes.0);
        }
        self.tapes.take_waiting(vid);
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
        self.tapes.change(vid, |queue| queue.open_until = None);
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

    /// How many files one stands for.
    fn files_of(&self, file: FileId) -> u32 {
        self.stands_for.get(&file).copied().unwrap_or(1)
    }

    fn take_out(&mut self, file: FileId) -> Option<Wanted> {
        let wanted = self.wanted.remove(&file)?;
        self.groups.take_out(&wanted);
        let item = wanted.item(file, self.files_of(file));
        match wanted.taken_by() {
            Some(vid) => {
                let assigned = self.assigned.entry(item.share).or_default();
                *assigned = assigned.saturating_sub(item.bytes.0);
                self.tapes.change(vid, |queue| queue.assigned.remove(&item));
            }
            None => wanted.usable().for_each(|vid| {
                self.tapes.change(vid, |queue| match wanted.held && queue.place.suspect {
                    true => queue.held.remove(&item),
                    false => queue.waiting.remove(&item),
                });
            }),
        }
        Some(wanted)
    }

    /// Like `put_in`, but a waiting file joins a tape that is open.
    fn put_back(&mut self, file: FileId, mut wanted: Wanted) {
        if wanted.place == Place::Waiting {
            let joins = wanted.usable().find(|vid| self.takes(&wanted, *vid));
            let joins = joins.and_then(|vid| wanted.position(vid));
            wanted.place = joins.map_or(Place::Waiting, Place::Assigned);
        }
        self.put_in(file, wanted);
    }

    fn put_in(&mut self, file: FileId, mut wanted: Wanted) {
        self.groups.put_in(&wanted);
        let item = wanted.item(file, self.files_of(file));
        wanted.held = wanted.place == Place::Waiting && self.is_held(&wanted);
        match wanted.taken_by() {
            Some(vid) => {
                let assigned = self.assigned.entry(item.share).or_default();
                *assigned = assigned.saturating_add(item.bytes.0);
                self.tapes.change(vid, |queue| queue.assigned.insert(&item));
            }
            None => wanted.usable().for_each(|vid| {
                self.tapes.change(vid, |queue| match wanted.held && queue.place.suspect {
                    true => queue.held.insert(&item),
                    false => queue.waiting.insert(&item),
                });
            }),
        }
        let old = self.wanted.insert(file, wanted);
        assert!(old.is_none(), "file {file} is wanted twice");
    }

    /// Whether a waiting file is held back from suspect tapes: it has a copy on one that is not and can be
    /// had.
    pub(crate) fn is_held(&self, wanted: &Wanted) -> bool {
        let good = |vid: Vid| {
            let place = self.tapes.queues.get(&vid).map(|queue| queue.place);
            place.is_some_and(|place| place.available && !place.suspect)
        };
        !self.tapes.suspects.is_empty()
            && wanted.usable().any(|vid| self.tapes.suspects.contains(&vid))
            && wanted.usable().any(good)
    }

    /// Where a tape is and what it is good for. Files that stand elsewhere for that change their queues.
    pub(crate) fn place_tape(&mut self, vid: Vid, place: TapePlace) {
        let old = self.tapes.queues.get(&vid).map(|queue| queue.place).unwrap_or_default();
        if old == place {
            return;
        }
        let mut moved = Vec::new();
        if old.suspect != place.suspect {
            moved = self.files(vid, |queue| &queue.waiting);
            moved.extend(self.files(vid, |queue| &queue.held));
        } else if old.available != place.available && !self.tapes.suspects.is_empty() {
            moved = self.files(vid, |queue| &queue.waiting);
            let suspects = &self.tapes.suspects;
            let has_suspect = |file: &FileId| {
                let wanted = self.wanted.get(file);
                wanted.is_some_and(|wanted| wanted.usable().any(|copy| suspects.contains(&copy)))
            };
            moved.retain(has_suspect);
        }
        let moved: Vec<_> = moved.into_iter().filter_map(|file| Some((file, self.take_out(file)?))).collect();
        self.tapes.place(vid, place);
        moved.into_iter().for_each(|(file, wanted)| self.put_back(file, wanted));
    }

    /// What waits for a tape and is assigned to none: since when, and how much.
    pub(crate) fn waiting(&self, vid: Vid) -> Option<(Timestamp, ByteCount)> {
        self.tapes.waiting(vid)
    }

    /// The tape that is worth most among those that fit and have a copy of the oldest file that waits for
    /// this one.
    pub(crate) fn best_for_oldest(&self, vid: Vid, fits: &dyn Fn(Vid) -> bool) -> Option<Vid> {
        let (_, file) = self.tapes.queues.get(&vid)?.waiting.files.first()?;
        let wanted = self.wanted.get(file)?;
        let held = |vid: &Vid| wanted.held && self.tapes.suspects.contains(vid);
        let copies = wanted.usable().filter(|vid| !held(vid) && fits(*vid));
        copies.max_by_key(|vid| (self.tapes.worth(*vid), Reverse(*vid)))
    }

    /// A tape whose turn it is for a share, or another one with a copy of its oldest file from which more is
    /// to be read for a mount: that saves the mount of this one, or makes its files fewer. Not one that is
    /// not worth a mount by itself, or whose files have a lower priority.
    pub(crate) fn with_more(&self, vid: Vid, share: ShareId, fits: &dyn Fn(Vid) -> bool) -> Vid {
        let rank = self.tapes.rank(vid, share);
        let reach = |other: Vid| other == vid || (fits(other) && self.tapes.rank(other, share) >= rank);
        self.best_for_oldest(vid, &reach).unwrap_or(vid)
    }

    /// Whether files are assigned to a tape.
    pub(crate) fn has_assigned(&self, vid: Vid) -> bool {
        self.tapes.queues.get(&vid).is_some_and(|queue| !queue.assigned.files.is_empty())
    }

    /// Whether nothing waits for a tape and nothing is assigned to it.
    pub(crate) fn is_unwanted(&self, vid: Vid) -> bool {
        let queue = self.tapes.queues.get(&vid);
        queue.is_none_or(|queue| queue.waiting.parts.is_empty() && queue.assigned.parts.is_empty())
    }

    /// What each share wants from a tape, in bytes: what is assigned to it and what waits for it.
    pub(crate) fn parts(&self, vid: Vid) -> BTreeMap<ShareId, u64> {
        let mut parts: BTreeMap<ShareId, u64> = BTreeMap::new();
        let queue = self.tapes.queues.get(&vid);
        for (share, part) in
            queue.iter().flat_map(|queue| queue.waiting.parts.iter().chain(&queue.assigned.parts))
        {
            // A part of files without bytes is a part.
            *parts.entry(*share).or_default() += part.bytes.max(1);
        }
        parts
    }

    /// On whose behalf a file is wanted.
    pub(crate) fn share(&self, file: FileId) -> Option<ShareId> {
        self.wanted.get(&file).map(|wanted| wanted.share)
    }

    /// The next time at which a tape becomes worth a mount or a copy has rested enough.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        let rested = self.resting.first().map(|(until, ..)| *until);
        self.tapes.next_due().into_iter().chain(rested).min()
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
        let held = |vid: &Vid| wanted.held && self.tapes.suspects.contains(vid);
        tapes.sort_by_key(|vid| (held(vid), Reverse(self.waiting(*vid).map(|(_, bytes)| bytes)), *vid));
        Some(FilePlace::Waiting(tapes))
    }

    /// Checks every queue against every file; linear.
    pub(crate) fn check(&self) {
        self.groups.check(&self.wanted);
        assert_eq!(self.all().0, self.wanted.len() as u64, "each wanted file counts once");
        self.tapes.check();
        let queues = self.tapes.queues.values();
        let taken: usize = queues.clone().map(|queue| queue.assigned.files.len()).sum();
        let waiting: usize = queues.map(|queue| queue.waiting.files.len() + queue.held.files.len()).sum();
        let expected = self.wanted.values().filter(|wanted| wanted.place != Place::Waiting).count();
        assert_eq!(taken, expected, "every taken file has one tape");
        let expected = self.wanted.values().filter(|wanted| wanted.place == Place::Waiting);
        assert_eq!(
            waiting,
            expected.map(|wanted| wanted.usable().count()).sum::<usize>(),
            "queued once a copy"
        );
        let mut assigned: BTreeMap<ShareId, u64> = BTreeMap::new();
        for (_, wanted) in self.wanted.iter().filter(|(_, wanted)| wanted.taken_by().is_some()) {
            *assigned.entry(wanted.share).or_default() += wanted.bytes.0;
        }
        let of = |share: &ShareId| assigned.get(share).copied().unwrap_or(0);
        assert!(self.assigned.iter().all(|(share, bytes)| *bytes == of(share)), "bytes assigned");
        for (file, wanted) in &self.wanted {
            let held = wanted.place == Place::Waiting && self.is_held(wanted);
            assert_eq!(wanted.held, held, "file {file} is held back or not");
        }
    }
}
