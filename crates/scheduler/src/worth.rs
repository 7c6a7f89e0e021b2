//! What is wanted from each tape, and which tape is worth a mount before which.
//!
//! A tape that is in its slot and can be read stands in an index by age; if it is worth a mount now, then
//! also once for each share that wants something from it, in an index by worth; else among those that become
//! worth one at a known time. So the next tape is found without looking at all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, Duration, FileId, LibraryId, ShareId, Timestamp, Vid};

use crate::policy::{PRIORITY_MAX, Policy};
use crate::service::service_time;

/// What a tape is worth to a share: tapes that are not suspect first, then the best priority of a waiting
/// file, then when its turn comes: see [`Rules::turn`].
type Worth = (bool, u8, Reverse<Timestamp>);

/// Tapes, the one that is worth most last.
type ByWorth = BTreeSet<(Worth, Reverse<Vid>)>;

/// A file ages by so many times what it takes of its library: with one drive, one behind a mount of its own
/// is overtaken by those of whole tapes that were wanted two hours later, and by no younger ones. Weights
/// without age would let the longest wait until they starve. How it was chosen: `docs/reference/ordering.md`.
const AGEING: u128 = 32;

const NEVER: Timestamp = Timestamp(i64::MAX);
const LONG_AGO: Timestamp = Timestamp(i64::MIN);
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;

/// What the queues must know of a wanted file to count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    pub(crate) file: FileId,
    pub(crate) since: Timestamp,
    pub(crate) bytes: ByteCount,
    pub(crate) share: ShareId,
    pub(crate) priority: u8,
    /// How many it counts for: 1, but in a summary.
    pub(crate) files: u32,
}

/// The part of one share in a set of files.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    by_priority: [u32; PRIORITIES],
    indexed: Option<Worth>,
    /// The oldest file of its tape, as the index by age has it.
    aged: Option<Timestamp>,
}

impl Part {
    fn best(&self) -> Option<u8> {
        self.by_priority.iter().rposition(|files| *files > 0).and_then(|best| u8::try_from(best).ok())
    }

    fn files(&self) -> u64 {
        self.by_priority.iter().map(|files| u64::from(*files)).sum()
    }

    fn count(&mut self, priority: u8) -> Option<&mut u32> {
        self.by_priority.get_mut(usize::from(priority.min(PRIORITY_MAX)))
    }
}

/// Files by age, and what they are of.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct FileSet {
    pub(crate) bytes: u64,
    pub(crate) files: BTreeSet<(Timestamp, FileId)>,
    pub(crate) parts: BTreeMap<ShareId, Part>,
}

impl FileSet {
    pub(crate) fn insert(&mut self, item: &Item) {
        let new = self.files.insert((item.since, item.file));
        assert!(new, "file {} stands in one queue twice", item.file);
        self.count(item);
    }

    /// Counts a file that is put into `files` by the caller.
    pub(crate) fn count(&mut self, item: &Item) {
        self.bytes = self.bytes.saturating_add(item.bytes.0);
        let part = self.parts.entry(item.share).or_default();
        part.bytes = part.bytes.saturating_add(item.bytes.0);
        if let Some(files) = part.count(item.priority) {
            *files += item.files;
        }
    }

    pub(crate) fn remove(&mut self, item: &Item) {
        let was = self.files.remove(&(item.since, item.file));
        assert!(was, "file {} is not in the queue it should be in", item.file);
        self.bytes = self.bytes.saturating_sub(item.bytes.0);
        assert!(!self.files.is_empty() || self.bytes == 0, "bytes without files");
        if let Some(part) = self.parts.get_mut(&item.share) {
            part.bytes = part.bytes.saturating_sub(item.bytes.0);
            if let Some(files) = part.count(item.priority) {
                *files -= item.files;
            }
            if part.best().is_none() && part.indexed.is_none() && part.aged.is_none() {
                self.parts.remove(&item.share);
            }
        }
    }

    /// Takes in all of another set, of which it has nothing.
    pub(crate) fn absorb(&mut self, mut other: FileSet) {
        self.files.append(&mut other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (share, part) in other.parts {
            let own = self.parts.entry(share).or_default();
            own.bytes = own.bytes.saturating_add(part.bytes);
            own.by_priority.iter_mut().zip(part.by_priority).for_each(|(own, more)| *own += more);
        }
    }

    fn oldest(&self) -> Option<Timestamp> {
        self.files.first().map(|(since, _)| *since)
    }

    fn best(&self) -> Option<u8> {
        self.parts.values().filter_map(Part::best).max()
    }
}

/// Where a tape is and what it is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TapePlace {
    pub(crate) library: LibraryId,
    /// Its copies are read only if no other copy can be had.
    pub(crate) suspect: bool,
    /// It may be read, and a drive that is up could take it.
    pub(crate) available: bool,
    /// It is available and in no drive.
    pub(crate) mountable: bool,
    /// It is not mounted again before then without need.
    pub(crate) cool_until: Timestamp,
}

impl Default for TapePlace {
    fn default() -> Self {
        let (library, cool_until) = (LibraryId(0), LONG_AGO);
        TapePlace { library, suspect: false, available: false, mountable: false, cool_until }
    }
}

/// What is wanted from one tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TapeQueue {
    pub(crate) waiting: FileSet,
    /// Files with a copy on this suspect tape that wait for a better copy.
    pub(crate) held: FileSet,
    pub(crate) assigned: FileSet,
    /// The tape is about to be read or being read: files that are wanted before then are assigned to it at
    /// once.
    pub(crate) open_until: Option<Timestamp>,
    pub(crate) place: TapePlace,
    undue: Option<Timestamp>,
}

/// What a tape's worth depends on beside what is wanted from it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Rules {
    policy: Policy,
    /// Drives that are up.
    drives: BTreeMap<LibraryId, usize>,
}

impl Rules {
    /// When the files that wait for a tape are worth a mount: at once, or by their age.
    fn due_at(&self, waiting: &FileSet) -> Timestamp {
        let policy = &self.policy;
        let files = u64::try_from(waiting.files.len()).unwrap_or(u64::MAX);
        let urgent = waiting.best().is_some_and(|best| best >= policy.recall_at_once);
        match waiting.oldest() {
            None => NEVER,
            Some(_) if urgent || waiting.bytes >= policy.recall_bytes.0 || files >= policy.recall_files => {
                LONG_AGO
            }
            Some(oldest) => oldest.plus(policy.recall_age),
        }
    }

    /// The same for a tape in its slot, which rests a while there.
    fn mount_at(&self, queue: &TapeQueue) -> Timestamp {
        let cools = queue.waiting.bytes < self.policy.remount_bytes.0;
        self.due_at(&queue.waiting).max(if cools { queue.place.cool_until } else { LONG_AGO })
    }

    fn worth(&self, place: &TapePlace, part: &Part, oldest: Timestamp) -> Option<Worth> {
        Some((!place.suspect, part.best()?, Reverse(self.turn(place, part, oldest))))
    }

    /// When a tape's turn comes: what each of its files takes of the library, [`AGEING`] times, after its
    /// oldest file was wanted.
    fn turn(&self, place: &TapePlace, part: &Part, oldest: Timestamp) -> Timestamp {
        let files = part.files();
        let nanos = self.held_up(place, files, part.bytes) * AGEING / u128::from(files.max(1));
        Timestamp(oldest.0.saturating_add(i64::try_from(nanos).unwrap_or(i64::MAX)))
    }

    /// For how long a tape holds up all others, nanoseconds: its part of the drives' time or of the robots',
    /// whichever is more. So where mounts are what is scarce all short reads cost the same.
    fn held_up(&self, place: &TapePlace, files: u64, bytes: u64) -> u128 {
        let percent = self.policy.mount_cost_percent(place.library);
        let drives = self.drives.get(&place.library).copied().unwrap_or(1);
        let part = |time: Duration, of: usize, most: usize| time.as_nanos() / of.min(most).max(1) as u128;
        let of_drives = part(service_time(files, bytes, percent), drives, self.policy.recall.drives_max);
        let of_robots = part(service_time(0, 0, percent), drives, self.policy.mounts_at_once_max);
        of_drives.max(of_robots)
    }

    fn per_cost(&self, place: &TapePlace, bytes: u64) -> u64 {
        let cost = self.policy.mount_cost_percent(place.library);
        u64::try_from(u128::from(bytes) * 100 / u128::from(cost)).unwrap_or(u64::MAX)
    }
}

/// The queues of all tapes, and those that could be mounted in the order in which that is worth while.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TapeQueues {
    pub(crate) queues: BTreeMap<Vid, TapeQueue>,
    /// Suspect tapes.
    pub(crate) suspects: BTreeSet<Vid>,
    /// The time of the last event.
    pub(crate) now: Timestamp,
    rules: Rules,
    /// By library and share: those of shares that may have no drive now are not even looked at.
    by_age: BTreeMap<(LibraryId, ShareId), BTreeSet<(Timestamp, Vid)>>,
    by_worth: BTreeMap<(LibraryId, ShareId), ByWorth>,
    undue: BTreeSet<(Timestamp, Vid)>,
}

impl TapeQueues {
    /// Takes over what a policy says of recall.
    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        let none = (BTreeMap::new(), BTreeMap::new());
        let policy = Policy { classes: none.0, tape_pools: none.1, ..policy.clone() };
        if self.rules.policy != policy {
            self.rules.policy = policy;
            self.reindex_all();
        }
    }

    /// Takes over how many drives of each library are up. Linear in the tapes if that is new.
    pub(crate) fn set_drives(&mut self, drives: &BTreeMap<LibraryId, usize>) {
        if self.rules.drives != *drives {
            self.rules.drives.clone_from(drives);
            self.reindex_all();
        }
    }

    pub(crate) fn reindex_all(&mut self) {
        let all: Vec<Vid> = self.queues.keys().copied().collect();
        all.into_iter().for_each(|vid| self.reindex(vid));
    }

    /// Time has passed: tapes become worth a mount.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.now = now;
        while let Some(&(due, vid)) = self.undue.first() {
            if due > now {
                break;
            }
            self.reindex(vid);
            assert_ne!(self.undue.first(), Some(&(due, vid)), "tape {vid} is due and is not");
        }
    }

    /// When the next tape becomes worth a mount by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.undue.first().map(|(due, _)| *due)
    }

    pub(crate) fn change(&mut self, vid: Vid, change: impl FnOnce(&mut TapeQueue)) {
        change(self.queues.entry(vid).or_default());
        self.reindex(vid);
    }

    pub(crate) fn place(&mut self, vid: Vid, place: TapePlace) {
        let away = TapePlace { mountable: false, ..place };
        self.change(vid, |queue| queue.place.mountable = false);
        self.change(vid, |queue| queue.place = away);
        self.change(vid, |queue| queue.place = place);
        match place.suspect {
            true => self.suspects.insert(vid),
            false => self.suspects.remove(&vid),
        };
    }

    fn reindex(&mut self, vid: Vid) {
        let Some(queue) = self.queues.get_mut(&vid) else { return };
        let library = queue.place.library;
        let oldest = queue.waiting.oldest().filter(|_| queue.place.mountable);
        let mount_at = oldest.map(|_| self.rules.mount_at(queue));
        let undue = mount_at.filter(|at| *at > self.now);
        if queue.undue != undue {
            if let Some(old) = std::mem::replace(&mut queue.undue, undue) {
                assert!(self.undue.remove(&(old, vid)), "the time of tape {vid} is stale");
            }
            undue.into_iter().for_each(|at| assert!(self.undue.insert((at, vid)), "{vid} twice"));
        }
        let due = mount_at.is_some() && undue.is_none();
        let TapeQueue { waiting, place, .. } = queue;
        waiting.parts.retain(|share, part| {
            let aged = oldest.filter(|_| part.best().is_some());
            if part.aged != aged {
                let index = self.by_age.entry((library, *share)).or_default();
                if let Some(old) = std::mem::replace(&mut part.aged, aged) {
                    assert!(index.remove(&(old, vid)), "the index of tape {vid} by age is stale");
                }
                aged.into_iter().for_each(|oldest| assert!(index.insert((oldest, vid)), "{vid} twice"));
                if index.is_empty() {
                    self.by_age.remove(&(library, *share));
                }
            }
            let new = aged.filter(|_| due).and_then(|oldest| self.rules.worth(place, part, oldest));
            if part.indexed != new {
                let key = (library, *share);
                let index = self.by_worth.entry(key).or_default();
                if let Some(old) = std::mem::replace(&mut part.indexed, new) {
                    assert!(index.remove(&(old, Reverse(vid))), "the index of tape {vid} by worth is stale");
                }
                new.into_iter().for_each(|new| assert!(index.insert((new, Reverse(vid))), "{vid} twice"));
                if index.is_empty() {
                    self.by_worth.remove(&key);
                }
            }
            part.best().is_some()
        });
    }

    /// All that waits for a tape is assigned to it.
    pub(crate) fn take_waiting(&mut self, vid: Vid) {
        // The parts are taken out of the index first, as those of a tape that cannot be mounted.
        let mountable = self.queues.get(&vid).is_some_and(|queue| queue.place.mountable);
        self.change(vid, |queue| queue.place.mountable = false);
        self.change(vid, |queue| {
            let waiting = std::mem::take(&mut queue.waiting);
            queue.assigned.absorb(waiting);
            queue.place.mountable = mountable;
        });
    }

    /// What waits for a tape and is assigned to none: since when, and how much.
    pub(crate) fn waiting(&self, vid: Vid) -> Option<(Timestamp, ByteCount)> {
        let waiting = &self.queues.get(&vid)?.waiting;
        Some((waiting.oldest()?, ByteCount(waiting.bytes)))
    }

    /// Whether enough waits for a tape, or for long enough.
    pub(crate) fn is_due(&self, vid: Vid, now: Timestamp) -> bool {
        self.queues.get(&vid).is_some_and(|queue| self.rules.due_at(&queue.waiting) <= now)
    }

    /// Whether nothing at all is worth a mount or starves.
    pub(crate) fn nothing_due(&self, starved: Timestamp) -> bool {
        let starves =
            |tapes: &BTreeSet<(Timestamp, Vid)>| tapes.first().is_some_and(|(oldest, _)| *oldest <= starved);
        self.by_worth.is_empty() && !self.by_age.values().any(starves)
    }

    /// Shares with tapes in one of these libraries that are worth a mount.
    pub(crate) fn shares_due(&self, libraries: &BTreeSet<LibraryId>) -> BTreeSet<ShareId> {
        let keys = self.by_worth.keys().filter(|(library, _)| libraries.contains(library));
        keys.map(|(_, share)| *share).collect()
    }

    /// The tape that is worth most to a share among those that fit.
    pub(crate) fn best(
        &self,
        libraries: &BTreeSet<LibraryId>,
        share: ShareId,
        fits: &dyn Fn(Vid) -> bool,
    ) -> Option<Vid> {
        let best = |library: &LibraryId| {
            let tapes = self.by_worth.get(&(*library, share))?;
            tapes.iter().rev().find(|(_, Reverse(vid))| fits(*vid))
        };
        libraries.iter().filter_map(best).max().map(|(_, Reverse(vid))| *vid)
    }

    /// The tape that has waited longest among those that fit, that these shares want something from, and that
    /// have waited since `starved` or longer.
    pub(crate) fn starving(
        &self,
        libraries: &BTreeSet<LibraryId>,
        starved: Timestamp,
        may: &dyn Fn(ShareId) -> bool,
        fits: &dyn Fn(Vid) -> bool,
    ) -> Option<Vid> {
        let of =
            self.by_age.iter().filter(|((library, share), _)| libraries.contains(library) && may(*share));
        let first = |tapes: &BTreeSet<(Timestamp, Vid)>| {
            let mut tapes = tapes.iter().take_while(|(oldest, _)| *oldest <= starved);
            tapes.find(|(_, vid)| fits(*vid)).copied()
        };
        of.filter_map(|(_, tapes)| first(tapes)).min().map(|(_, vid)| vid)
    }

    /// Whether a tape is in its slot in one of these libraries and can be read.
    pub(crate) fn is_mountable(&self, vid: Vid, libraries: &BTreeSet<LibraryId>) -> bool {
        let place = self.queues.get(&vid).map(|queue| queue.place);
        place.is_some_and(|place| place.mountable && libraries.contains(&place.library))
    }

    /// Of a tape that is worth a mount to a share: whether it is not suspect, and the best priority.
    pub(crate) fn rank(&self, vid: Vid, share: ShareId) -> Option<(bool, u8)> {
        let part = self.queues.get(&vid)?.waiting.parts.get(&share)?;
        part.indexed.map(|(good, priority, _)| (good, priority))
    }

    /// What all that waits for a tape is worth: bytes against the cost of its mount, suspect tapes last.
    pub(crate) fn worth(&self, vid: Vid) -> (bool, u64) {
        self.queues.get(&vid).map_or((false, 0), |queue| {
            (!queue.place.suspect, self.rules.per_cost(&queue.place, queue.waiting.bytes))
        })
    }

    /// Checks the indexes against each other; linear.
    pub(crate) fn check(&self) {
        let aged: usize = self.by_age.values().map(BTreeSet::len).sum();
        let parts = self.queues.values().flat_map(|queue| queue.waiting.parts.values());
        let expected = parts.filter(|part| part.aged.is_some()).count();
        assert_eq!(aged, expected, "each tape that could be mounted is listed by age, once a share");
        let worth: usize = self.by_worth.values().map(ByWorth::len).sum();
        let parts = self.queues.values().flat_map(|queue| queue.waiting.parts.values());
        assert_eq!(worth, parts.filter(|part| part.indexed.is_some()).count(), "listed once a share");
        for (vid, queue) in &self.queues {
            assert_eq!(queue.place.suspect, self.suspects.contains(vid), "{vid} is suspect or not");
            assert!(queue.held.files.is_empty() || queue.place.suspect, "{vid} holds files back");
            for set in [&queue.waiting, &queue.assigned, &queue.held] {
                let bytes: u64 = set.parts.values().map(|part| part.bytes).sum();
                assert_eq!(set.bytes, bytes, "the shares of {vid} have its bytes between them");
            }
        }
    }
}
