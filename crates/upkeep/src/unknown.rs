//! Extents of earlier epochs that no record of the catalogue names. A crashed writer leaves such; a catalogue
//! that does not know what it should would see the same. So each is noted with the time at which it was
//! found, and removed when it has been unknown for as long as the pool is told to keep such extents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use base::{BlobDescription, BlobId, ByteCount, Duration, Epoch, Layout, Timestamp};
use catalogue::{Command, ReadError, UNKNOWN_BATCH_MAX, UnknownExtent, View};
use drive::ExtentId;
use pool::{BadShard, OrphanCandidate};

use crate::Upkeep;
use crate::left_behind::LeftBehind;
use crate::scrub::pace;
use ground::ArchiveError;

/// Extents looked at between two reads of the catalogue.
const EXTENTS_PAGE: usize = 4_096;
/// Most extents that are noted; what is found beyond is kept as well, and noted when there is room.
const NOTED_MAX: usize = 1_000_000;
/// What is in quarantine is measured anew after this, and not before this many times as long as it took: all
/// drives are listed for it.
const MEASURE_AGAIN_AFTER: Duration = Duration::from_secs(600);
const MEASURE_TIMES: u32 = 50;
/// What is kept although its time is over is looked at again after this.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3_600);

pub(crate) type Noted = BTreeMap<UnknownExtent, Timestamp>;

/// Extents that are kept although nobody reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptExtents {
    /// How many: shards of striped blobs, and copies of segments of small files.
    pub extents: u64,
    /// Of how many blobs, counted up to a million: a large file, many files that were recalled together, or a
    /// segment of small files. What they were the catalogue does not know any more.
    pub blobs: u64,
    /// What they take of the drives.
    pub bytes: ByteCount,
}

/// What the pool keeps although nothing names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnknownKept {
    /// How many extents.
    pub extents: u64,
    /// Of how many blobs.
    pub blobs: u64,
    /// What they take of the drives.
    pub bytes: ByteCount,
    /// When the first of them is removed.
    pub until: Option<Timestamp>,
}

/// What came of the end of a quarantine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuarantineEnded {
    /// Whether there was one of a restore.
    pub was_on: bool,
    /// What was removed.
    pub removed: KeptExtents,
    /// What is not removed yet, by the reason.
    pub left: Vec<(WhyLeft, KeptExtents)>,
}

/// Why an extent is not removed at once when a quarantine ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WhyLeft {
    /// It was given up while the quarantine kept it: the sweeper removes it as all garbage.
    Garbage,
    /// A record names its blob, and another drive for this shard: the scrubber, which alone moves shards,
    /// reads the stripe and removes it if the stripe is whole without it.
    Beside,
    /// Its drive did not remove it.
    Failed,
    /// Its drive does not answer.
    Away,
}

impl WhyLeft {
    /// For interfaces.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WhyLeft::Garbage => "garbage",
            WhyLeft::Beside => "beside",
            WhyLeft::Failed => "failed",
            WhyLeft::Away => "away",
        }
    }
}

/// Counts extents.
#[derive(Default)]
struct Count {
    kept: KeptExtents,
    blobs: BTreeSet<BlobId>,
}

impl Count {
    fn add(&mut self, upkeep: &Upkeep, candidate: &OrphanCandidate) -> Result<(), ArchiveError> {
        self.add_of(candidate, upkeep.pool.orphan_bytes(candidate)?);
        Ok(())
    }

    /// One that takes `bytes`, which were measured while it was there.
    fn add_of(&mut self, candidate: &OrphanCandidate, bytes: ByteCount) {
        self.kept.extents += 1;
        self.kept.bytes.0 = self.kept.bytes.0.saturating_add(bytes.0);
        if self.blobs.len() < NOTED_MAX {
            self.blobs.insert(candidate.extent.blob);
        }
    }

    fn end(self) -> KeptExtents {
        KeptExtents { blobs: self.blobs.len() as u64, ..self.kept }
    }
}

/// What a look at the drives has done.
#[derive(Default)]
struct Looked {
    found: Vec<UnknownExtent>,
    gone: Vec<UnknownExtent>,
    removed: u64,
    kept: u64,
    /// Of these, those whose time is over, since their stripe is not whole without them.
    needed: u64,
}

/// Goes through the drives: what nothing names is noted, and removed when it was kept long enough. Gives when
/// the next one is due. `is_over`: an operator has ended the time of all that was noted before.
pub(crate) fn look(
    upkeep: &Upkeep,
    left_behind: &LeftBehind,
    is_over: bool,
) -> Result<Option<Timestamp>, ArchiveError> {
    let keep = upkeep.settings.pool.unknown_kept;
    let now = upkeep.now();
    let mut noted = all_noted(upkeep)?;
    let room = NOTED_MAX.saturating_sub(noted.len());
    let mut looked = Looked::default();
    // Blobs that were read whole in this look, and whether they are.
    let mut read = BTreeMap::new();
    let mut first: Option<Timestamp> = None;
    // Pages of the catalogue that were lost since the start would make known extents unknown.
    let mut checked = None;
    let listed = for_each_candidate(upkeep, is_unnamed, |candidate, ()| {
        let extent = named(candidate);
        // They go when nobody reads them any more.
        let UnknownExtent { drive, blob, stripe, shard } = extent;
        if left_behind.has(blob, &BadShard { stripe, shard, drive }) {
            return;
        }
        let since = noted.remove(&extent);
        if since.map_or(keep.is_zero(), |since| is_over || now.since(since) >= keep) {
            if checked.get_or_insert_with(|| upkeep.catalogue.check_pages()).is_err() {
                return;
            }
            let Ok(blob) = upkeep.read(|view| view.blob_named(extent.blob)) else { return };
            // A tape session may know a stripe as it was before it moved.
            let is_held = upkeep.gate.is_held(blob);
            if !is_held && is_not_needed(upkeep, candidate, &mut read) {
                if remove(upkeep, candidate) {
                    looked.removed += 1;
                    looked.gone.extend(since.map(|_| extent));
                }
                return;
            }
            if !is_held {
                upkeep.note_kept_beside(blob);
            }
            looked.needed += 1;
        }
        looked.kept += 1;
        let over = since.unwrap_or(now).plus(keep);
        let due = if over > now { over } else { now.plus(LOOK_AGAIN_AFTER) };
        first = Some(first.map_or(due, |first| first.min(due)));
        if since.is_none() {
            // It is kept as it was written; what was reserved for more is of no use to anybody.
            if let Err(error) = upkeep.pool.trim_orphan(candidate) {
                tracing::warn!(%error, "an extent that nothing names keeps what was reserved for it");
            }
            if looked.found.len() < room {
                looked.found.push(extent);
            }
        }
    });
    checked.unwrap_or(Ok(()))?;
    if matches!(listed, Err(ArchiveError::Stopping)) {
        // What was found counts from now on; of what was not met nothing is known.
        write(upkeep, &looked)?;
        return Ok(first);
    }
    listed?;
    // What was noted and not met is removed or named after all; a drive that is away may still have it.
    let silent = upkeep.pool.silent_drives();
    looked.gone.extend(noted.into_keys().filter(|extent| !silent.contains(&extent.drive)));
    write(upkeep, &looked)?;
    tell(&looked, first);
    Ok(first)
}

/// Whether the bytes of an extent stand elsewhere too, or no record names its blob. What stands beside its
/// place may be the only whole shard: all of its stripe is read before it goes; of a segment the lengths of
/// all copies are compared, since its values are known with their files only.
fn is_not_needed(upkeep: &Upkeep, candidate: &OrphanCandidate, whole: &mut BTreeMap<BlobId, bool>) -> bool {
    let extent = candidate.extent;
    let mut read = || -> Result<bool, ArchiveError> {
        let _reading = upkeep.gate.enter();
        let named = upkeep.read(|view| view.blob(view.blob_named(extent.blob)?))?;
        // What was between two times of being written anew leads nowhere by its id.
        let owner = || match upkeep.pool.orphan_of(candidate) {
            Some((blob, _)) => upkeep.read(|view| view.blob(blob)),
            None => Ok(None),
        };
        let Some(blob) = named.map_or_else(owner, |blob| Ok(Some(blob)))? else { return Ok(true) };
        if matches!(blob.layout, Layout::Segment { .. }) {
            let lacking = upkeep.pool.lacking(&blob, &blob.drives())?;
            return Ok(lacking.bad.is_empty() && lacking.unknown == 0);
        }
        if blob.extents() == extent.blob {
            return is_whole(upkeep, &blob, extent.stripe..extent.stripe + 1);
        }
        // The stripes were others before it was written anew: all of it is read, once in a look.
        if let Some(is_whole) = whole.get(&blob.id) {
            return Ok(*is_whole);
        }
        let is_whole = is_whole(upkeep, &blob, 0..stripes_of(&blob))?;
        if whole.len() < NOTED_MAX {
            whole.insert(blob.id, is_whole);
        }
        Ok(is_whole)
    };
    read().unwrap_or_else(|error| {
        tracing::warn!(blob = %extent.blob, %error, "an extent is kept: the one in its place is not read");
        false
    })
}

fn is_whole(
    upkeep: &Upkeep,
    blob: &BlobDescription,
    stripes: std::ops::Range<u32>,
) -> Result<bool, ArchiveError> {
    for stripe in stripes {
        let report = upkeep.pool.scrub_stripe(blob, stripe, &mut |bytes| pace(upkeep, bytes))?;
        if !report.complete || !report.is_clean() {
            upkeep.pool.needs_repair(blob.id);
            upkeep.note_kept_beside(blob.id);
            return Ok(false);
        }
    }
    Ok(true)
}

fn stripes_of(blob: &BlobDescription) -> u32 {
    u32::try_from(blob.stripes.len()).unwrap_or(u32::MAX)
}

/// When the first extent is to be removed that is noted.
pub(crate) fn kept(upkeep: &Upkeep) -> Result<UnknownKept, ArchiveError> {
    let noted = all_noted(upkeep)?;
    let first = noted.values().min().map(|since| since.plus(upkeep.settings.pool.unknown_kept));
    let mut count = Count::default();
    noted.keys().try_for_each(|extent| count.add(upkeep, &candidate(extent)))?;
    let KeptExtents { extents, blobs, bytes } = count.end();
    Ok(UnknownKept { extents, blobs, bytes, until: first })
}

pub(crate) fn all_noted(upkeep: &Upkeep) -> Result<Noted, ArchiveError> {
    let mut noted = Noted::new();
    loop {
        let after = noted.last_key_value().map(|(last, _)| *last);
        let page = upkeep.read(|view| view.unknown_extents(after, EXTENTS_PAGE))?;
        if page.is_empty() {
            return Ok(noted);
        }
        noted.extend(page);
    }
}

pub(crate) fn named(candidate: &OrphanCandidate) -> UnknownExtent {
    let OrphanCandidate { drive, extent } = *candidate;
    UnknownExtent { drive, blob: extent.blob, stripe: extent.stripe, shard: extent.shard }
}

fn candidate(extent: &UnknownExtent) -> OrphanCandidate {
    let UnknownExtent { drive, blob, stripe, shard } = *extent;
    OrphanCandidate { drive, extent: ExtentId { blob, stripe, shard } }
}

/// Whether the pool need not keep an extent: its blob is not known, or this shard of it stands elsewhere.
fn is_unnamed(view: &View<'_>, candidate: &OrphanCandidate) -> Result<Option<()>, ReadError> {
    let extent = candidate.extent;
    Ok((!view.is_known_extent(extent.blob, (extent.stripe, extent.shard), candidate.drive)?).then_some(()))
}

/// What an extent is that no record gives a use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unused {
    /// Nothing names its blob.
    Unknown,
    /// Its blob is garbage.
    Garbage,
    /// Its blob is in use, with this shard elsewhere.
    Beside,
}

/// As [`is_unnamed`], and garbage; there is no quarantine any more.
fn unused(view: &View<'_>, candidate: &OrphanCandidate) -> Result<Option<Unused>, ReadError> {
    let blob = view.blob_named(candidate.extent.blob)?;
    if view.blob_record(blob)?.is_some() {
        return Ok(is_unnamed(view, candidate)?.map(|()| Unused::Beside));
    }
    // What a blob was before it was written anew does not go with its garbage.
    let is_garbage = view.blob_of_extents(candidate.extent.blob)?.is_some();
    Ok(Some(if is_garbage { Unused::Garbage } else { Unused::Unknown }))
}

/// Counts the extents of epochs up to `until` whose blob is not in use: not known, or garbage.
pub(crate) fn count_unused(upkeep: &Upkeep, until: Epoch) -> Result<KeptExtents, ArchiveError> {
    let (mut count, mut counted) = (Count::default(), Ok(()));
    let is_wanted =
        |view: &View<'_>, candidate: &OrphanCandidate| Ok(is_unused(view, candidate, until)?.then_some(()));
    for_each_candidate(upkeep, is_wanted, |candidate, ()| {
        if counted.is_ok() {
            counted = count.add(upkeep, candidate);
        }
    })?;
    counted.map(|()| count.end())
}

fn is_unused(view: &View<'_>, candidate: &OrphanCandidate, until: Epoch) -> Result<bool, ReadError> {
    let extents = candidate.extent.blob;
    Ok(extents.epoch() <= until && view.blob_record(view.blob_named(extents)?)?.is_none())
}

/// Visits the extents of earlier epochs that are something by the catalogue, with what they are. When the
/// server stops it ends with [`ArchiveError::Stopping`], within a page of the list and a visit.
fn for_each_candidate<T>(
    upkeep: &Upkeep,
    what: impl Fn(&View<'_>, &OrphanCandidate) -> Result<Option<T>, ReadError>,
    mut visit: impl FnMut(&OrphanCandidate, T),
) -> Result<(), ArchiveError> {
    let mut cursor = None;
    loop {
        if upkeep.stopping() {
            return Err(ArchiveError::Stopping);
        }
        let page = upkeep.pool.list_orphan_candidates(cursor, EXTENTS_PAGE)?;
        let wanted = upkeep.read(|view| {
            let mut wanted = Vec::new();
            for candidate in page.candidates {
                if let Some(what) = what(view, &candidate)? {
                    wanted.push((candidate, what));
                }
            }
            Ok(wanted)
        })?;
        for (candidate, what) in wanted {
            if upkeep.stopping() {
                return Err(ArchiveError::Stopping);
            }
            visit(&candidate, what);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}

/// Removes an extent; `false` if its drive does not.
pub(crate) fn remove(upkeep: &Upkeep, candidate: &OrphanCandidate) -> bool {
    let removed = upkeep.pool.remove_orphan(candidate);
    if let Err(error) = &removed {
        tracing::warn!(%error, "an extent that nothing names stays until the next look");
    }
    removed.is_ok()
}

fn write(upkeep: &Upkeep, looked: &Looked) -> Result<(), ArchiveError> {
    for found in looked.found.chunks(UNKNOWN_BATCH_MAX) {
        upkeep.execute(Command::NoteUnknown { found: found.to_vec(), gone: Vec::new() })?;
    }
    for gone in looked.gone.chunks(UNKNOWN_BATCH_MAX) {
        upkeep.execute(Command::NoteUnknown { found: Vec::new(), gone: gone.to_vec() })?;
    }
    Ok(())
}

fn tell(looked: &Looked, first: Option<Timestamp>) {
    let Looked { removed, kept, needed, .. } = looked;
    if *removed > 0 {
        tracing::info!(removed, "removed extents that nothing names");
    }
    if *needed > 0 {
        tracing::warn!(
            extents = needed,
            "extents stay beside the place that the catalogue has for them: the rest of their stripe was not \
             found whole. They go when it is"
        );
    }
    if let Some(until) = first {
        tracing::warn!(
            extents = kept, %until,
            "the pool's drives hold extents that nothing names: they are kept for a while (kist pool \
             quarantine)"
        );
    }
}

/// Measures what is in quarantine, if there is one, for who asks how the pool stands. Gives when it is due
/// again, by the steady clock.
pub(crate) fn measure_quarantine(upkeep: &Upkeep) -> Duration {
    let began = upkeep.steady();
    let measured = upkeep
        .read(|view| view.quarantine())
        .and_then(|until| until.map(|until| count_unused(upkeep, until)).transpose());
    match measured {
        Ok(measured) => upkeep.set_quarantine_use(measured),
        Err(error) => tracing::debug!(%error, "what is in quarantine is not measured"),
    }
    let ended = upkeep.steady();
    let took = ended.saturating_sub(began).saturating_mul(MEASURE_TIMES);
    ended.saturating_add(took.max(MEASURE_AGAIN_AFTER))
}

impl Upkeep {
    fn set_quarantine_use(&self, kept: Option<KeptExtents>) {
        *self.quarantine_use.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// What is in quarantine: the extents of epochs up to `until` whose blob the catalogue does not know, or
    /// nobody refers to any more. Lists all drives.
    ///
    /// # Errors
    /// If catalogue or drives cannot be read.
    pub fn quarantined(&self, until: Epoch) -> Result<KeptExtents, ArchiveError> {
        count_unused(self, until)
    }

    /// What is kept although nothing names it, since a crashed writer may have left it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        kept(self)
    }

    /// Ends the quarantine of a restore, if there is one and `may_end` has nothing against it, and removes
    /// what was in it, and the extents that are kept for a while. What is removed is forgotten before this
    /// returns.
    ///
    /// # Errors
    /// If the catalogue cannot be written or a drive cannot be listed.
    pub fn end_quarantine(
        &self,
        may_end: impl FnOnce() -> Result<(), ArchiveError>,
    ) -> Result<QuarantineEnded, ArchiveError> {
        let restored = self.read(|view| view.quarantine())?;
        // Beyond what a restore has left only what was found before and told: not what a catalogue does not
        // know just now.
        let mut noted = all_noted(self)?;
        self.catalogue.check_pages()?;
        if restored.is_some() {
            may_end()?;
            self.execute(Command::EndQuarantine)?;
            self.sweep.ring();
        }
        let mut removed = Count::default();
        let mut left: BTreeMap<WhyLeft, Count> = BTreeMap::new();
        let mut forgotten = Looked::default();
        let listed = for_each_candidate(self, unused, |candidate, unused| {
            let is_of_restore = restored.is_some_and(|until| candidate.extent.blob.epoch() <= until);
            let since = noted.remove(&named(candidate));
            // What stands beside its place was in quarantine if it was noted: else it has its time before it.
            if since.is_none() && (!is_of_restore || unused == Unused::Beside) {
                return;
            }
            // As long as it is there. A drive that does not tell it does not keep it from being removed.
            let bytes = self.pool.orphan_bytes(candidate).unwrap_or_default();
            let why = match unused {
                Unused::Unknown if remove(self, candidate) => {
                    forgotten.gone.extend(since.map(|_| named(candidate)));
                    return removed.add_of(candidate, bytes);
                }
                Unused::Unknown => WhyLeft::Failed,
                Unused::Garbage => WhyLeft::Garbage,
                Unused::Beside => WhyLeft::Beside,
            };
            left.entry(why).or_default().add_of(candidate, bytes);
        });
        // What was removed so far is forgotten, whatever became of the rest.
        write(self, &forgotten)?;
        listed?;
        let silent = self.pool.silent_drives();
        for extent in noted.keys().filter(|extent| silent.contains(&extent.drive)) {
            left.entry(WhyLeft::Away).or_default().add_of(&candidate(extent), ByteCount(0));
        }
        self.set_quarantine_use(None);
        self.order(|orders| {
            orders.orphans = true;
            orders.orphans_over = true;
        });
        let left: Vec<_> = left.into_iter().map(|(why, count)| (why, count.end())).collect();
        let ended = QuarantineEnded { was_on: restored.is_some(), removed: removed.end(), left };
        tracing::warn!(removed = ended.removed.extents, "the quarantine has ended");
        for (why, kept) in &ended.left {
            tracing::warn!(extents = kept.extents, why = why.word(), "extents are not removed yet");
        }
        Ok(ended)
    }
}
