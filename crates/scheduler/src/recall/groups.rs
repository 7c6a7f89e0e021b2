//! Wanted files gathered by what they wait for: there are as many groups as combinations of tapes, not as
//! files, so a forecast over ten million files looks at thousands of groups.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, FileId, LibraryId, ShareId, Timestamp, Vid};

use super::{Copies, Place, RecallQueue, Wanted};
use crate::Policy;
use crate::worth::TapePlace;

/// Copies that rest and are looked at for when they may be tried again; others are taken to rest the longest.
const RESTING_LOOKED_AT_MAX: usize = 10_000;

/// What a set of wanted files has in common: the tapes with a copy, and which tape has taken them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WantedGroup {
    copies: Copies,
    share: ShareId,
    priority: u8,
    failed: u8,
    place: Place,
}

impl WantedGroup {
    fn of(wanted: &Wanted) -> Self {
        let Wanted { share, priority, failed, place, .. } = *wanted;
        WantedGroup { copies: wanted.copies.clone(), share, priority, failed, place }
    }

    /// The tapes with a copy, by VID.
    #[must_use]
    pub fn copies(&self) -> &[Vid] {
        self.copies.as_slice()
    }

    /// Those of them that did not fail.
    pub(crate) fn usable(&self) -> impl Iterator<Item = Vid> {
        let failed = self.failed;
        let all = self.copies().iter().enumerate();
        all.filter(move |(at, _)| failed & (1 << at) == 0).map(|(_, vid)| *vid)
    }

    /// The tape that has taken the files, if one has.
    #[must_use]
    pub fn taken_by(&self) -> Option<Vid> {
        match self.place {
            Place::Waiting => None,
            Place::Assigned(at) | Place::Claimed(at) => self.copies().get(usize::from(at)).copied(),
        }
    }
}

/// The files of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathered {
    pub(crate) files: u64,
    pub(crate) bytes: ByteCount,
    /// None of them waits for longer; it may be older than the oldest that is left.
    pub(crate) oldest: Timestamp,
}

/// Wanted files of a share that wait for the same tapes.
#[derive(Clone, Debug)]
pub struct WantedOfShare {
    /// What they have in common.
    pub group: WantedGroup,
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// One of them; none: it was not found among those looked at.
    pub example: Option<FileId>,
}

/// All groups; kept up to date with each file that comes or goes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Groups(BTreeMap<WantedGroup, Gathered>);

impl Groups {
    pub(crate) fn put_in(&mut self, wanted: &Wanted) {
        let new = Gathered { files: 0, bytes: ByteCount(0), oldest: wanted.since };
        let group = self.0.entry(WantedGroup::of(wanted)).or_insert(new);
        group.files += 1;
        group.bytes = ByteCount(group.bytes.0.saturating_add(wanted.bytes.0));
        group.oldest = group.oldest.min(wanted.since);
    }

    pub(crate) fn take_out(&mut self, wanted: &Wanted) {
        let key = WantedGroup::of(wanted);
        let Some(group) = self.0.get_mut(&key) else { panic!("a wanted file is in no group") };
        group.files -= 1;
        group.bytes = ByteCount(group.bytes.0.saturating_sub(wanted.bytes.0));
        if group.files == 0 {
            assert_eq!(group.bytes, ByteCount(0), "a group has bytes and no files");
            self.0.remove(&key);
        }
    }

    /// Checks the groups against every file; linear.
    pub(crate) fn check(&self, wanted: &BTreeMap<FileId, Wanted>) {
        let mut groups = Groups::default();
        wanted.values().for_each(|wanted| groups.put_in(wanted));
        let figures = |groups: &Groups| -> Vec<_> {
            groups.0.iter().map(|(key, group)| (key.clone(), group.files, group.bytes)).collect()
        };
        assert_eq!(figures(self), figures(&groups), "the groups are those of the files");
    }
}

impl RecallQueue {
    /// How many files are wanted, and their bytes.
    pub(crate) fn all(&self) -> (u64, ByteCount) {
        self.groups.0.values().fold((0, ByteCount(0)), |(files, bytes), group| {
            (files + group.files, ByteCount(bytes.0.saturating_add(group.bytes.0)))
        })
    }

    /// The groups that wait for a tape, among others.
    pub(crate) fn waiting_with(&self, vid: Vid) -> impl Iterator<Item = &WantedGroup> {
        let waiting = self.groups.0.keys().filter(|group| group.taken_by().is_none());
        waiting.filter(move |group| group.usable().any(|copy| copy == vid))
    }

    /// The tapes that give files, or are to give them, which stand on this one too, by VID.
    pub(crate) fn read_in_place_of(&self, vid: Vid) -> BTreeSet<Vid> {
        let mut tapes = BTreeSet::new();
        for group in self.groups.0.keys().filter(|group| group.copies().contains(&vid)) {
            match group.taken_by() {
                Some(by) => drop(tapes.insert(by)),
                None => tapes.extend(group.usable()),
            }
        }
        tapes.remove(&vid);
        tapes
    }

    /// When a copy on a tape that failed is tried again, the first of them.
    pub(crate) fn rests_until(&self, vid: Vid) -> Option<Timestamp> {
        let mut resting = self.resting.iter().take(RESTING_LOOKED_AT_MAX);
        resting.find(|(_, _, of)| *of == vid).map(|(until, ..)| *until)
    }

    /// The group of a wanted file.
    pub(crate) fn group_of(&self, file: FileId) -> Option<WantedGroup> {
        self.wanted.get(&file).map(WantedGroup::of)
    }

    /// The groups of a share: how many files, their bytes, and one of the files if any is among the first
    /// `looked_at` wanted ones.
    pub(crate) fn of_share(&self, share: ShareId, looked_at: usize) -> Vec<WantedOfShare> {
        let of_share = self.groups.0.iter().filter(|(group, _)| group.share == share);
        let mut all: Vec<WantedOfShare> = of_share
            .map(|(group, gathered)| {
                let Gathered { files, bytes, .. } = *gathered;
                WantedOfShare { group: group.clone(), files, bytes, example: None }
            })
            .collect();
        let mut missing = all.len();
        let wanted = self.wanted.iter().take(looked_at).filter(|(_, wanted)| wanted.share == share);
        for (file, wanted) in wanted {
            if missing == 0 {
                break;
            }
            let group = WantedGroup::of(wanted);
            // They stand in the order of their groups.
            let Ok(at) = all.binary_search_by(|known| known.group.cmp(&group)) else { continue };
            let Some(known) = all.get_mut(at).filter(|known| known.example.is_none()) else { continue };
            known.example = Some(*file);
            missing -= 1;
        }
        all
    }

    /// The first `limit` wanted files behind `after`, from the beginning again at the end.
    pub(crate) fn files_after(&self, after: FileId, limit: usize) -> Vec<(FileId, WantedGroup)> {
        let behind = self.wanted.range(FileId(after.0.saturating_add(1))..);
        let all = behind.chain(self.wanted.range(..=after)).take(limit);
        all.map(|(file, wanted)| (*file, WantedGroup::of(wanted))).collect()
    }

    /// The bytes of a wanted file and the tape that has taken it.
    pub(crate) fn taken(&self, file: FileId) -> Option<(ByteCount, Vid)> {
        let wanted = self.wanted.get(&file)?;
        Some((wanted.bytes, wanted.taken_by()?))
    }

    /// What a tape has taken.
    pub(crate) fn assigned(&self, vid: Vid) -> Vec<FileId> {
        self.files(vid, |queue| &queue.assigned)
    }

    /// Tapes from which something is wanted.
    pub(crate) fn tapes_wanted(&self) -> impl Iterator<Item = Vid> {
        let queues = self.tapes.queues.iter();
        queues
            .filter(|(_, queue)| !queue.waiting.files.is_empty() || !queue.assigned.files.is_empty())
            .map(|(vid, _)| *vid)
    }

    /// This queue with one file in place of each group, and what each of these stands for.
    pub(crate) fn summary(
        &self,
        now: Timestamp,
        policy: &Policy,
        drives: &BTreeMap<LibraryId, usize>,
    ) -> (RecallQueue, BTreeMap<FileId, (WantedGroup, Gathered)>) {
        let mut until: BTreeMap<Vid, Timestamp> = BTreeMap::new();
        for (at, _, vid) in self.resting.iter().take(RESTING_LOOKED_AT_MAX) {
            until.entry(*vid).or_insert(*at);
        }
        let mut queue = RecallQueue::default();
        queue.tapes.set_policy(policy);
        queue.tapes.set_drives(drives);
        queue.expire(now);
        // Suspect tapes hold files back, so tapes are known before files are.
        for (vid, old) in &self.tapes.queues {
            queue.tapes.place(*vid, TapePlace { mountable: false, ..old.place });
        }
        let mut stands_for = BTreeMap::new();
        for (number, (group, gathered)) in (1..).zip(&self.groups.0) {
            let file = FileId(number);
            let mut oldest = self.oldest_possible(group, gathered);
            if self.has_enough_files(group, policy) {
                // One file stands for all, so their number cannot make the tape due: their age does.
                oldest = oldest.min(Timestamp(now.0.saturating_sub(nanos(policy.recall_age))));
            }
            let gathered = Gathered { oldest, ..*gathered };
            let wanted = Wanted {
                bytes: gathered.bytes,
                since: gathered.oldest,
                copies: group.copies.clone(),
                share: group.share,
                priority: group.priority,
                failed: group.failed,
                place: group.place,
                held: false,
            };
            for (at, vid) in group.copies().iter().enumerate() {
                if group.failed & (1 << at) != 0 {
                    let until = until.get(vid).copied().unwrap_or_else(|| now.plus(policy.retry_delay));
                    queue.resting.insert((until, file, *vid));
                }
            }
            queue.stands_for.insert(file, u32::try_from(gathered.files).unwrap_or(u32::MAX));
            queue.put_in(file, wanted);
            stands_for.insert(file, (group.clone(), gathered));
        }
        for (vid, old) in &self.tapes.queues {
            queue.tapes.change(*vid, |new| {
                new.open_until = old.open_until;
                new.place = old.place;
            });
        }
        (queue, stands_for)
    }

    /// Whether a tape of the group is worth a mount for the number of files alone.
    fn has_enough_files(&self, group: &WantedGroup, policy: &Policy) -> bool {
        let files = |vid: &Vid| self.tapes.queues.get(vid).map_or(0, |queue| queue.waiting.files.len());
        group.copies().iter().any(|vid| files(vid) as u64 >= policy.recall_files)
    }

    /// The oldest file of a group may be gone; none is older than the oldest of each tape it waits for.
    fn oldest_possible(&self, group: &WantedGroup, gathered: &Gathered) -> Timestamp {
        if group.taken_by().is_some() {
            return gathered.oldest;
        }
        let usable = group.copies().iter().enumerate().filter(|(at, _)| group.failed & (1 << at) == 0);
        let oldest = usable.filter_map(|(_, vid)| self.waiting(*vid).map(|(oldest, _)| oldest)).max();
        oldest.map_or(gathered.oldest, |oldest| oldest.max(gathered.oldest))
    }
}

fn nanos(span: base::Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
