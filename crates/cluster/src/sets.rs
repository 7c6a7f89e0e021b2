//! Stripe sets: a bounded list of ordered drive lists per group of drives and width, so that few sets of
//! drives share the loss of a few.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, DriveGroup, DriveId, StripeSet, StripeSetId};

use crate::map::{DriveEntry, DriveMap};
use crate::owed::{self, Owed};
use crate::rank;

/// Sets of one width per writable drive. Bounds how many combinations of drives can lose data, and is wide
/// enough that all drives help in a rebuild.
pub const SETS_PER_DRIVE: usize = 4;
/// Sets of a width for each drive up to which a choice that only avoids drives may form new ones.
const AVOIDING_SETS_PER_DRIVE: usize = 2 * SETS_PER_DRIVE;

/// Of the sets of a width at least one in this many must be whole; else substitutes are formed.
const WHOLE_SHARE_MIN: usize = 4;

/// What sets are chosen of: the drives of a group, so many at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetKind {
    /// The group.
    pub group: DriveGroup,
    /// Drives in a set.
    pub width: usize,
}

impl From<usize> for SetKind {
    /// Sets of the drives that are in no group.
    fn from(width: usize) -> Self {
        SetKind { group: DriveGroup::MAIN, width }
    }
}

/// All stripe sets of a pool. Known sets keep their id and drives for good; new ones get ids above them.
#[derive(Clone, Debug)]
pub struct StripeSets {
    map: DriveMap,
    seed: u64,
    by_width: BTreeMap<usize, Vec<StripeSet>>,
    generated: BTreeSet<SetKind>,
    owed: BTreeMap<SetKind, Owed>,
    next_id: u32,
    first_new: u32,
}

/// Why no set could be given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// Fewer drives take data than the layout needs.
    #[error(
        "{writable} drives take new data, {width} distinct ones are needed; bring drives back or add some"
    )]
    TooFewDrives {
        /// Drives in the layout.
        width: usize,
        /// Drives that take data.
        writable: usize,
    },
    /// One id stands for two lists of drives.
    #[error("stripe set {0} is recorded with two different lists of drives; the catalogue is damaged")]
    Contradiction(StripeSetId),
    /// A set names a drive twice or none at all.
    #[error("stripe set {0} is empty or names a drive twice; the catalogue is damaged")]
    NotDistinct(StripeSetId),
    /// The ids are used up.
    #[error("all stripe set ids are used up")]
    IdsExhausted,
}

impl StripeSets {
    /// Takes over the sets that the catalogue knows. The same map, seed and known sets always give the same
    /// sets.
    ///
    /// # Errors
    /// [`PlacementError::Contradiction`], [`PlacementError::NotDistinct`], [`PlacementError::IdsExhausted`].
    pub fn open(map: DriveMap, seed: u64, known: Vec<StripeSet>) -> Result<Self, PlacementError> {
        let mut by_id: BTreeMap<StripeSetId, StripeSet> = BTreeMap::new();
        for set in known {
            if set.drives.is_empty() || set.drives.iter().collect::<BTreeSet<_>>().len() != set.drives.len() {
                return Err(PlacementError::NotDistinct(set.id));
            }
            match by_id.get(&set.id) {
                Some(same) if *same != set => return Err(PlacementError::Contradiction(set.id)),
                _ => by_id.insert(set.id, set),
            };
        }
        let next_id = match by_id.keys().next_back() {
            Some(last) => last.0.checked_add(1).ok_or(PlacementError::IdsExhausted)?,
            None => 1,
        };
        let mut by_width: BTreeMap<usize, Vec<StripeSet>> = BTreeMap::new();
        for set in by_id.into_values() {
            by_width.entry(set.drives.len()).or_default().push(set);
        }
        let (generated, owed) = (BTreeSet::new(), BTreeMap::new());
        Ok(StripeSets { map, seed, by_width, generated, owed, next_id, first_new: next_id })
    }

    /// The drive map in use.
    #[must_use]
    pub fn map(&self) -> &DriveMap {
        &self.map
    }

    /// Takes another map; sets stay, and those with drives that no longer take data are not chosen any more.
    pub fn set_map(&mut self, map: DriveMap) {
        self.map = map;
        self.generated.clear();
    }

    /// A set of a kind whose drives all take data and are not in `down`; `sequence` spreads over the sets.
    ///
    /// # Errors
    /// [`PlacementError::TooFewDrives`], [`PlacementError::IdsExhausted`].
    pub fn choose(
        &mut self,
        kind: impl Into<SetKind>,
        sequence: u64,
        down: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PlacementError> {
        self.choose_by_room(kind, sequence, down, &BTreeMap::new())
    }

    /// As [`StripeSets::choose`], and those with more room get more, up to twice as much as usual. All
    /// drives get their part, also those that are in few sets since they are new.
    ///
    /// # Errors
    /// As [`StripeSets::choose`].
    pub fn choose_by_room(
        &mut self,
        kind: impl Into<SetKind>,
        sequence: u64,
        down: &BTreeSet<DriveId>,
        rooms: &BTreeMap<DriveId, ByteCount>,
    ) -> Result<StripeSet, PlacementError> {
        let kind = kind.into();
        let parts = owed::parts(self.map.writable_in(kind.group, down), rooms);
        let set = self.choose_in_turn(kind, sequence, down, &parts)?;
        let owed = self.owed.entry(kind).or_default();
        owed.stripe(kind.width, &parts);
        owed.paid(&set.drives);
        Ok(set)
    }

    /// Whether a choice without these drives makes no new set, or sets are few enough for one: who avoids
    /// drives that have little room for a moment must not leave ever more sets behind.
    #[must_use]
    pub fn may_avoid(&self, kind: impl Into<SetKind>, down: &BTreeSet<DriveId>) -> bool {
        let kind = kind.into();
        let sets = self.of_kind(kind);
        let in_group = self.map.drives().iter().filter(|drive| drive.group == kind.group);
        if sets.len() < AVOIDING_SETS_PER_DRIVE * in_group.count() {
            return true;
        }
        are_enough(sets.iter().filter(|set| is_whole(&self.map, set, down)).count(), sets.len())
    }

    /// The sets of a kind, known or formed since. Those over drives of several groups are of none: a drive
    /// had to stand in, or was given to another group.
    fn of_kind(&self, kind: SetKind) -> Vec<&StripeSet> {
        let is_in = |id: &DriveId| self.map.group_of(*id) == kind.group;
        self.of_width(kind.width).filter(|set| set.drives.iter().all(is_in)).collect()
    }

    /// The set whose turn it is, unless a drive is behind with its part.
    fn choose_in_turn(
        &mut self,
        kind: SetKind,
        sequence: u64,
        down: &BTreeSet<DriveId>,
        parts: &[(DriveId, u64)],
    ) -> Result<StripeSet, PlacementError> {
        let (writable, width) = (self.map.writable_in(kind.group, down).count(), kind.width);
        if width == 0 || writable < width {
            return Err(PlacementError::TooFewDrives { width, writable });
        }
        if self.generated.insert(kind) {
            self.generate(kind)?;
        }
        let none = Owed::default();
        let owed = self.owed.get(&kind).unwrap_or(&none);
        let sets = self.of_kind(kind);
        let whole: Vec<&StripeSet> =
            sets.iter().copied().filter(|set| is_whole(&self.map, set, down)).collect();
        let turn = |count: usize| usize::try_from(sequence % count as u64).unwrap_or(0);
        if are_enough(whole.len(), sets.len()) {
            let first = turn(whole.len());
            if !owed.is_behind(parts) {
                return Ok(whole[first].clone());
            }
            // Of those that are owed as much, the one whose turn comes next.
            let mut in_turn = whole.iter().cycle().skip(first).take(whole.len());
            let most = whole.iter().map(|set| owed.together(&set.drives)).max();
            let chosen = in_turn.find(|set| Some(owed.together(&set.drives)) == most);
            return Ok(chosen.map_or_else(|| whole[first].clone(), |set| (*set).clone()));
        }
        if sets.is_empty() {
            // Generation ran when no drive took data; this map has since recovered by the argument `down`.
            return self.form(kind, sequence, down);
        }
        let model = sets[turn(sets.len())].clone();
        let takes =
            |id: &DriveId| !down.contains(id) && self.map.get(*id).is_some_and(DriveEntry::is_writable);
        let lost = model.drives.iter().copied().filter(|id| !takes(id)).collect();
        self.substitute(&model, &lost, down)
    }

    /// The set with every drive of `lost` replaced by a spare, the others in their places. A spare takes data
    /// and is neither `lost` nor in `down`; it is of the group of the drive that it stands in for, or, where
    /// that has none left, of no group. The same substitution always gives the same set.
    ///
    /// # Errors
    /// [`PlacementError::TooFewDrives`], [`PlacementError::IdsExhausted`].
    pub fn substitute(
        &mut self,
        model: &StripeSet,
        lost: &BTreeSet<DriveId>,
        down: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PlacementError> {
        let used = BTreeMap::new();
        let kept = |drive: &&DriveEntry| model.drives.contains(&drive.id) && !lost.contains(&drive.id);
        let mut chosen: Vec<&DriveEntry> = self.map.drives().iter().filter(kept).collect();
        let mut drives = model.drives.clone();
        for place in drives.iter_mut().filter(|id| lost.contains(id)) {
            let salt = u64::from(model.id.0) << 16 | u64::from(place.0);
            let spares = |group| {
                self.map.writable_in(group, down).filter(|drive: &&DriveEntry| !lost.contains(&drive.id))
            };
            let best = |group| {
                rank::best(spares(group), &chosen, &used, |drive| rank::score(self.seed, salt, drive))
            };
            let group = self.map.group_of(*place);
            let Some(spare) = best(group).or_else(|| best(DriveGroup::MAIN)) else {
                let main = spares(DriveGroup::MAIN).count();
                let own = if group == DriveGroup::MAIN { 0 } else { spares(group).count() };
                let writable = main + own;
                return Err(PlacementError::TooFewDrives { width: model.drives.len(), writable });
            };
            chosen.push(spare);
            *place = spare.id;
        }
        self.intern(drives)
    }

    /// A set of `width` drives: those of the model in their places, and further ones of no group behind them,
    /// which take data and are not in `down`. The same widening always gives the same set.
    ///
    /// # Errors
    /// [`PlacementError::TooFewDrives`], [`PlacementError::IdsExhausted`].
    pub fn widen(
        &mut self,
        model: &StripeSet,
        width: usize,
        down: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PlacementError> {
        let used = BTreeMap::new();
        let of_model = |drive: &&DriveEntry| model.drives.contains(&drive.id);
        let mut chosen: Vec<&DriveEntry> = self.map.drives().iter().filter(of_model).collect();
        let mut drives = model.drives.clone();
        while drives.len() < width {
            let salt = u64::from(model.id.0) << 16 | drives.len() as u64;
            let others =
                self.map.writable_in(DriveGroup::MAIN, down).filter(|drive| !drives.contains(&drive.id));
            let best = rank::best(others, &chosen, &used, |drive| rank::score(self.seed, salt, drive));
            let Some(next) = best else {
                let writable = self.map.writable_in(DriveGroup::MAIN, down).count();
                return Err(PlacementError::TooFewDrives { width, writable });
            };
            chosen.push(next);
            drives.push(next.id);
        }
        self.intern(drives)
    }

    /// Whether one of the sets, known or formed since, has this drive.
    #[must_use]
    pub fn names(&self, drive: DriveId) -> bool {
        self.by_width.values().flatten().any(|set| set.drives.contains(&drive))
    }

    /// The sets of a width, known or formed since.
    pub(crate) fn of_width(&self, width: usize) -> impl Iterator<Item = &StripeSet> {
        self.by_width.get(&width).into_iter().flatten()
    }

    /// The sets that were not known at opening, in order of their ids.
    #[must_use]
    pub fn new_sets(&self) -> Vec<StripeSet> {
        let all = self.by_width.values().flatten();
        let mut new: Vec<StripeSet> = all.filter(|set| set.id.0 >= self.first_new).cloned().collect();
        new.sort_by_key(|set| set.id);
        new
    }

    /// Fills the list of a width up to its bound with sets of drives that take data by the map.
    fn generate(&mut self, kind: SetKind) -> Result<(), PlacementError> {
        let none = BTreeSet::new();
        let writable = self.map.writable_in(kind.group, &none).count();
        let target = SETS_PER_DRIVE * writable;
        let whole = |sets: &StripeSets| {
            sets.of_kind(kind).iter().filter(|set| is_whole(&sets.map, set, &none)).count()
        };
        // Few drives have few distinct orders that the rank would choose; then the list stays shorter.
        for round in 0..2 * target as u64 {
            if writable < kind.width || whole(self) >= target {
                break;
            }
            self.form(kind, round, &none)?;
        }
        Ok(())
    }

    /// Forms one set of the drives least used so far.
    fn form(
        &mut self,
        kind: SetKind,
        round: u64,
        down: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PlacementError> {
        let SetKind { group, width } = kind;
        let mut used: BTreeMap<DriveId, u64> = BTreeMap::new();
        for set in self.of_width(width) {
            set.drives.iter().for_each(|drive| *used.entry(*drive).or_default() += 1);
        }
        let salt = (width as u64) << 32 | round;
        let mut chosen: Vec<&DriveEntry> = Vec::with_capacity(width);
        while chosen.len() < width {
            let next = rank::best(self.map.writable_in(group, down), &chosen, &used, |drive| {
                rank::score(self.seed, salt, drive)
            });
            let Some(next) = next else {
                let writable = self.map.writable_in(group, down).count();
                return Err(PlacementError::TooFewDrives { width, writable });
            };
            chosen.push(next);
        }
        // The order decides who holds parity; by score, so that it does not follow usage.
        chosen.sort_by_key(|drive| (rank::score(self.seed, salt ^ 1 << 63, drive.id), drive.id));
        let drives = chosen.iter().map(|drive| drive.id).collect();
        self.intern(drives)
    }

    /// The set of exactly these drives, in this order, each once: where the shards of a stripe were found.
    ///
    /// # Errors
    /// [`PlacementError::IdsExhausted`].
    ///
    /// # Panics
    /// If a drive is named twice.
    pub fn of_drives(&mut self, drives: Vec<DriveId>) -> Result<StripeSet, PlacementError> {
        self.intern(drives)
    }

    /// The set of exactly these drives: the one that exists, else a new one.
    fn intern(&mut self, drives: Vec<DriveId>) -> Result<StripeSet, PlacementError> {
        let sets = self.by_width.entry(drives.len()).or_default();
        if let Some(set) = sets.iter().find(|set| set.drives == drives) {
            return Ok(set.clone());
        }
        let set = StripeSet { id: StripeSetId(self.next_id), drives };
        self.next_id = self.next_id.checked_add(1).ok_or(PlacementError::IdsExhausted)?;
        assert!(set.drives.iter().collect::<BTreeSet<_>>().len() == set.drives.len(), "drives are distinct");
        sets.push(set.clone());
        Ok(set)
    }
}

/// Whether so many whole sets do for all, so that no substitute is formed.
fn are_enough(whole: usize, sets: usize) -> bool {
    whole > 0 && whole * WHOLE_SHARE_MIN >= sets
}

fn is_whole(map: &DriveMap, set: &StripeSet, down: &BTreeSet<DriveId>) -> bool {
    let takes = |id: &DriveId| !down.contains(id) && map.get(*id).is_some_and(DriveEntry::is_writable);
    set.drives.iter().all(takes)
}
