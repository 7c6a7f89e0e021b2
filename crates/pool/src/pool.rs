//! The pool: the one interface that the engine uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use threads::{Mutex, MutexGuard};

use base::{BlobDescription, BlobId, ByteCount, DriveGroup, DriveId, Epoch, Layout, StripeCode, StripeSet};
use blob::Use;
use cluster::{DriveMap, PlacementError, SetKind, StripeSets};
use drive::{DriveError, DriveStatus, ExtentId, ObjectDrive, PAGE, Stamp};

use crate::arena::Arena;
use crate::cell::HEADER_BYTES;
use crate::code::Code;
use crate::config::{GATHERING_ARENAS, PoolConfig, REPAIR_ARENAS, REPAIR_CELLS_MIN};
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::gather::{Gather, lock};
use crate::gathering::{Gathering, GatheringReport};
use crate::geometry::Geometry;
use crate::groups::GroupClaims;
use crate::orphan::{ANEW_FROM, is_written_anew};
use crate::places::Places;
use crate::read::BlobReader;
use crate::repair_room::RepairRoom;
use crate::segment::Segment;
use crate::small::SmallWriter;
use crate::status::{DriveHealth, DriveReport, DriveSpace, FileSystemShares, PoolStatus, above_floor};
use crate::stripe::BlobNames;
use crate::traffic::Traffic;
use crate::watch::Watch;
use crate::write::BlobWriter;

/// Blobs over object drives. All methods may be called from many threads; they block, so not from an async
/// task.
pub struct Pool {
    config: PoolConfig,
    epoch: Epoch,
    sequence: AtomicU64,
    /// The same of blobs that are written anew.
    anew: AtomicU64,
    placements: AtomicU64,
    drives: Places,
    sets: Mutex<StripeSets>,
    codes: Mutex<BTreeMap<StripeCode, Arc<Code>>>,
    write_arena: Arc<Arena>,
    read_arena: Arc<Arena>,
    mend_arena: Arc<Arena>,
    scrub_arena: Arc<Arena>,
    repair_room: RepairRoom,
    gathering: Arc<Gathering>,
    watch: Arc<Watch>,
    small: SmallWriter,
    traffic: Traffic,
    group_claims: Mutex<GroupClaims>,
}

impl Pool {
    /// Opens a pool over drives; `None` stands for a drive that is missing. Stamps the present ones with the
    /// epoch, durably, before anything is written.
    ///
    /// `epoch` is above every epoch used before, by the catalogue and by the drives' stamps. `known_sets`
    /// are all sets that the catalogue has recorded.
    ///
    /// # Errors
    /// [`PoolError::Config`], [`PoolError::DriveList`], [`PoolError::EpochUsed`],
    /// [`PoolError::IdsExhausted`], [`PoolError::Placement`] if the known sets contradict each other,
    /// [`PoolError::Drive`] if a stamp fails.
    pub fn open(
        config: PoolConfig,
        epoch: Epoch,
        map: DriveMap,
        drives: Vec<(DriveId, Option<Arc<dyn ObjectDrive>>)>,
        known_sets: Vec<StripeSet>,
    ) -> Result<Arc<Pool>, PoolError> {
        config.check()?;
        BlobId::new(epoch, 0).ok_or(PoolError::IdsExhausted(epoch))?;
        let mut list: BTreeMap<DriveId, Option<Arc<dyn ObjectDrive>>> = BTreeMap::new();
        for (id, drive) in drives {
            let other = drive.as_ref().is_some_and(|drive| drive.id() != id);
            if other || map.get(id).is_none() || list.contains_key(&id) {
                return Err(PoolError::DriveList(id));
            }
            if let Some(found) =
                drive.as_ref().map(|drive| drive.stamp().epoch).filter(|found| *found >= epoch)
            {
                return Err(PoolError::EpochUsed { drive: id, found, given: epoch });
            }
            list.insert(id, drive);
        }
        // What the last start told all drives that were there, or a later word that one of them has.
        let told = list.values().flatten().map(|drive| drive.stamp().age()).max();
        let newest = told.max(Some((Epoch(epoch.0.saturating_sub(1)), 0)));
        let commit = list.values().flatten().map(|drive| drive.stamp().commit).max().unwrap_or(0);
        // A drive that cannot even be stamped is of no more use than a missing one.
        for (id, drive) in &mut list {
            if let Some(present) = drive
                && let Err(error) = take_up(present.as_ref(), newest, epoch, commit)
            {
                tracing::error!(drive = id.0, %error, "a drive cannot be written: it counts as missing");
                *drive = None;
            }
        }
        // Drives of the map that were not given at all are missing too.
        for entry in map.drives() {
            list.entry(entry.id).or_insert(None);
        }
        let sets = StripeSets::open(map, config.placement_seed, known_sets)?;
        let unit = usize::try_from(config.cell_size.0).unwrap_or(usize::MAX) + HEADER_BYTES;
        let total = usize::try_from(config.arena.0).unwrap_or(usize::MAX) / unit;
        let mend = config.widest_row();
        assert!(total >= 5 * mend, "the settings were checked: two rows to write, two to read, one to mend");
        let write = (total - mend) / 2;
        let repairs = total.saturating_mul(REPAIR_ARENAS).max(REPAIR_CELLS_MIN);
        let scrub_arena = Arena::new(unit, repairs);
        let watch = Arc::new(Watch::default());
        let place = |(id, drive)| PoolDrive::new((id, sets.map().group_of(id)), drive, &watch);
        let pool = Pool {
            epoch,
            sequence: AtomicU64::new(0),
            anew: AtomicU64::new(0),
            placements: AtomicU64::new(0),
            drives: Places::new(list.into_iter().map(place)),
            codes: Mutex::default(),
            write_arena: Arena::new(unit, write),
            read_arena: Arena::new(unit, total - mend - write),
            mend_arena: Arena::new(unit, mend + 1),
            repair_room: RepairRoom::new(Arc::clone(&scrub_arena), repairs, mend),
            scrub_arena,
            gathering: Gathering::new(total.saturating_mul(unit).saturating_mul(GATHERING_ARENAS)),
            watch,
            small: SmallWriter::new(),
            traffic: Traffic::default(),
            group_claims: Mutex::default(),
            sets: Mutex::new(sets),
            config,
        };
        for code in pool.config.codes() {
            pool.code(code)?;
        }
        pool.keep_for_streams(0);
        Ok(Arc::new(pool))
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// The epoch of this writer.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Begins a striped blob of unknown length. Nothing is asked of drives before the first row is full.
    ///
    /// # Errors
    /// [`PoolError::IdsExhausted`], [`PoolError::Code`].
    pub fn create(self: &Arc<Self>) -> Result<BlobWriter, PoolError> {
        BlobWriter::new(Arc::clone(self), BlobNames::of_new(self.next_id()?), None)
    }

    /// Begins a striped blob whose length is known: exactly that much space is reserved on each drive.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_sized(self: &Arc<Self>, length: ByteCount) -> Result<BlobWriter, PoolError> {
        BlobWriter::new(Arc::clone(self), BlobNames::of_new(self.next_id()?), Some(length))
    }

    /// Begins a striped blob, of a length that is known or not, on a group of drives in the code of that. A
    /// group without room for it gets nothing of it; what comes to no room later goes to drives in no group.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_on(
        self: &Arc<Self>,
        group: DriveGroup,
        length: Option<ByteCount>,
    ) -> Result<BlobWriter, PoolError> {
        BlobWriter::new(Arc::clone(self), BlobNames::of_new(self.next_id()?), length)?.on(group)
    }

    /// Begins to write a striped blob anew, to a group of drives in its code of today, and under another id
    /// on drives; to the catalogue it stays the same blob. [`BlobWriter::finish`] gives how it stands then.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub(crate) fn create_anew(
        self: &Arc<Self>,
        blob: &BlobDescription,
        group: DriveGroup,
    ) -> Result<BlobWriter, PoolError> {
        let names = BlobNames { id: blob.id, stands_as: Some(self.next_id_anew()?) };
        BlobWriter::new(Arc::clone(self), names, Some(blob.length))?.on(group)
    }

    /// Reads a range of a striped blob.
    ///
    /// # Errors
    /// [`PoolError::OutOfRange`], [`PoolError::Description`] if the description is not of a striped blob or
    /// contradicts itself, [`PoolError::ArenaTooSmall`].
    pub fn read(
        self: &Arc<Self>,
        blob: &BlobDescription,
        offset: ByteCount,
        length: ByteCount,
    ) -> Result<BlobReader, PoolError> {
        let Layout::Striped { code: shape } = blob.layout else {
            return Err(PoolError::Description(blob.id));
        };
        let code = self.code(shape)?;
        let geometry = self.geometry(shape);
        if !geometry.fits(blob) {
            return Err(PoolError::Description(blob.id));
        }
        if offset.0.checked_add(length.0).is_none_or(|end| end > blob.length.0) {
            return Err(PoolError::OutOfRange { blob: blob.id, offset, length, blob_length: blob.length });
        }
        let (needed, available) = (geometry.width(), self.read_arena.capacity());
        if needed > available {
            return Err(PoolError::ArenaTooSmall { blob: blob.id, needed, available });
        }
        Ok(BlobReader::new(Arc::clone(self), blob.clone(), geometry, code, (offset, length)))
    }

    /// Removes a blob from all drives that are there. May be repeated. What missing drives hold is an orphan
    /// later.
    ///
    /// # Errors
    /// [`PoolError::SegmentOpen`]; [`PoolError::Drive`] with the first failure after all drives were tried.
    pub fn remove(&self, blob: &BlobDescription) -> Result<(), PoolError> {
        if self.small.is_open(blob.id) {
            return Err(PoolError::SegmentOpen(blob.id));
        }
        self.delete_extents(blob.extents(), &blob.stripes)
    }

    /// The stripe sets formed since the pool was opened, in order of their ids.
    #[must_use]
    pub fn new_sets(&self) -> Vec<StripeSet> {
        lock(&self.sets).new_sets()
    }

    /// Takes another drive map: drives that drain or are down by it get no new data.
    pub fn set_map(&self, map: DriveMap) {
        lock(&self.sets).set_map(map);
    }

    /// What the superblocks of the present drives say.
    #[must_use]
    pub fn stamps(&self) -> Vec<Stamp> {
        self.drives.iter().filter_map(PoolDrive::device).map(|device| device.drive.stamp()).collect()
    }

    /// Records the newest catalogue commit, durably, on all drives that take data; the others are told when
    /// they do again.
    ///
    /// # Errors
    /// [`PoolError::Drive`] with the first failure after all drives were tried.
    pub fn stamp(&self, commit: u64) -> Result<(), PoolError> {
        let epoch = self.epoch;
        let gather = Gather::new();
        let mut asked = Vec::new();
        for present in self.drives.iter().filter_map(PoolDrive::present) {
            if matches!(present.device.health(), DriveHealth::Suspect { .. }) {
                continue;
            }
            let (id, ticket) = (present.device.drive.id(), gather.ticket());
            present.call_writer(Box::new(move |device| {
                let stamped = device.drive.set_stamp(epoch, commit);
                ticket.done((id, stamped.inspect_err(|error| device.write_failed(error, ByteCount(0)))));
            }));
            asked.push((id, present));
        }
        let done = gather.wait_unless(|done| {
            let is_in = |id: &DriveId| done.iter().any(|(other, _)| other == id);
            asked.iter().all(|(id, present)| is_in(id) || present.device.is_away())
        });
        Ok(done.into_iter().try_for_each(|(_, stamped)| stamped)?)
    }

    /// Health, space and counters of all drives.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.ask_all_spaces();
        let shares = self.shares();
        PoolStatus::of(self.drives.iter().map(|drive| report(drive, &shares)).collect())
    }

    /// Which drives share a file system, as far as they have told.
    pub(crate) fn shares(&self) -> FileSystemShares {
        let attached = self.drives.iter().filter_map(PoolDrive::attached);
        FileSystemShares::count(attached.filter_map(|present| present.device.space()))
    }

    /// Seals the open segment of small values; the next value opens another.
    pub fn seal_segments(&self) {
        self.small.seal(self);
    }

    /// Ends the group commit under way and seals the open segment. Small values are refused from then on.
    pub fn close(&self) {
        self.small.close(self);
    }

    pub(crate) fn next_id(&self) -> Result<BlobId, PoolError> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let id = BlobId::new(self.epoch, sequence).filter(|id| !is_written_anew(*id));
        id.ok_or(PoolError::IdsExhausted(self.epoch))
    }

    /// The next id for the extents of a blob that is written anew.
    fn next_id_anew(&self) -> Result<BlobId, PoolError> {
        let sequence = ANEW_FROM.saturating_add(self.anew.fetch_add(1, Ordering::Relaxed));
        BlobId::new(self.epoch, sequence).ok_or(PoolError::IdsExhausted(self.epoch))
    }

    pub(crate) fn geometry(&self, code: StripeCode) -> Geometry {
        Geometry::new(code, self.config.cell_size, self.config.extent_size)
    }

    pub(crate) fn code(&self, shape: StripeCode) -> Result<Arc<Code>, PoolError> {
        let mut codes = lock(&self.codes);
        if let Some(code) = codes.get(&shape) {
            return Ok(Arc::clone(code));
        }
        let code = Arc::new(Code::new(shape)?);
        codes.insert(shape, Arc::clone(&code));
        Ok(code)
    }

    pub(crate) fn drives(&self) -> impl Iterator<Item = &PoolDrive> {
        self.drives.iter()
    }

    pub(crate) fn drive(&self, id: DriveId) -> Option<&PoolDrive> {
        self.drives.get(id)
    }

    /// A drive that is there and answers.
    pub(crate) fn device(&self, id: DriveId) -> Option<Arc<Device>> {
        self.drives.get(id).and_then(PoolDrive::device)
    }

    pub(crate) fn places(&self) -> &Places {
        &self.drives
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Keeps a share of the memory for tape streams, of which so many run.
    pub(crate) fn keep_for_streams(&self, running: usize) {
        let row = self.config.widest_row();
        self.write_arena.keep(row, running > 0);
        self.read_arena.keep(row, running > 0);
    }

    /// Who has the memory for rows of uploads that are not full yet.
    #[must_use]
    pub fn gathering_report(&self) -> GatheringReport {
        self.gathering.report()
    }

    /// How many times the lowest rate of a client is due of the uploads of this caller: as many times as it
    /// has rows that are not full while memory for them is scarce, else once.
    #[must_use]
    pub fn upload_haste(&self, caller: &str) -> u64 {
        self.gathering.haste(caller)
    }

    pub(crate) fn gathering(&self) -> &Arc<Gathering> {
        &self.gathering
    }

    /// The stripe set of exactly these drives, in this order, each once.
    ///
    /// # Errors
    /// If no id is left for a new one.
    ///
    /// # Panics
    /// If a drive is named twice.
    pub fn set_of_drives(&self, drives: Vec<DriveId>) -> Result<StripeSet, PoolError> {
        Ok(lock(&self.sets).of_drives(drives)?)
    }

    /// What is claimed in groups of drives; held while these are asked for their room, two seconds at most.
    pub(crate) fn group_claims(&self) -> MutexGuard<'_, GroupClaims> {
        lock(&self.group_claims)
    }

    pub(crate) fn sets(&self) -> &Mutex<StripeSets> {
        &self.sets
    }

    /// How long to wait for a cell of a group before others stand in for it.
    pub(crate) fn hedge(&self, group: DriveGroup) -> Duration {
        self.watch.hedge(group)
    }

    pub(crate) fn scrub_arena(&self) -> &Arc<Arena> {
        &self.scrub_arena
    }

    pub(crate) fn repair_room(&self) -> &RepairRoom {
        &self.repair_room
    }

    pub(crate) fn small(&self) -> &SmallWriter {
        &self.small
    }

    pub(crate) fn write_arena(&self) -> &Arc<Arena> {
        &self.write_arena
    }

    pub(crate) fn read_arena(&self) -> &Arc<Arena> {
        &self.read_arena
    }

    pub(crate) fn mend_arena(&self) -> &Arc<Arena> {
        &self.mend_arena
    }

    /// The drives that get no extent of so many bytes. A full drive gets one that is smaller than what it
    /// refused and that its free space covers: of clients the part above the floor, else all of it, since
    /// what empties the pool must go on. Without this a drive that had no room for much took nothing.
    pub(crate) fn unwritable_for(&self, bytes: ByteCount, whose: Use) -> BTreeSet<DriveId> {
        let mut drives = self.unwritable();
        let may_take = |id: &DriveId| {
            let drive = self.drive(*id).filter(|drive| !drive.drains())?;
            drive.device().filter(|device| device.may_take(bytes))
        };
        let candidates: Vec<_> = drives.iter().filter_map(|id| Some((*id, may_take(id)?))).collect();
        if !candidates.is_empty() {
            self.ask_all_spaces();
            let shares = self.shares();
            for (id, device) in candidates {
                let Some(space) = device.space().map(|space| shares.of(space)) else { continue };
                if bytes <= room_of(space, whose) {
                    drives.remove(&id);
                }
            }
        }
        drives
    }

    /// How much may be reserved ahead of what is written on each drive of a set: half of what is free above
    /// the floor, so that others still find room meanwhile. It is asked anew.
    pub(crate) fn room_ahead(&self, set: &StripeSet) -> ByteCount {
        let drives = set.drives.iter().filter_map(|id| self.drive(*id).and_then(PoolDrive::present));
        let drives: Vec<_> = drives.inspect(|present| present.device.forget_space()).collect();
        self.ask_spaces(drives.iter().cloned());
        let shares = self.shares();
        let spaces = drives.iter().filter_map(|present| present.device.space());
        let spaces = spaces.map(|space| shares.of(space));
        let room = spaces.map(|space| above_floor(space.capacity, space.free).0 / 2).min();
        ByteCount(room.map_or(u64::MAX, |room| room / PAGE as u64 * PAGE as u64))
    }

    /// The drives that get no new data, however little.
    pub(crate) fn unwritable(&self) -> BTreeSet<DriveId> {
        let drives = self.drives.iter().filter(|drive| !drive.takes_data());
        drives.map(|drive| drive.id).collect()
    }

    /// The drives that are much slower than the others: they get new data only without enough others.
    pub(crate) fn slow_drives(&self) -> BTreeSet<DriveId> {
        let is_slow = |drive: &&PoolDrive| drive.device().is_some_and(|device| device.slow().is_some());
        self.drives.iter().filter(is_slow).map(|drive| drive.id).collect()
    }

    /// Whether there are as many drives in no group that take data as a new striped blob needs, if it is a
    /// small one.
    ///
    /// # Errors
    /// [`PoolError::Placement`] if not, or [`PoolError::Full`].
    pub fn check_placement(&self) -> Result<(), PoolError> {
        let least = self.geometry(self.config.code).extent_bytes(1, 0);
        let down = self.unwritable_for(ByteCount(least), Use::Engine);
        let takes = |drive: &&PoolDrive| drive.is_main() && !down.contains(&drive.id);
        let (width, writable) = (self.config.code.width(), self.drives.iter().filter(takes).count());
        if writable < width {
            return Err(self.no_place(PlacementError::TooFewDrives { width, writable }, &down));
        }
        Ok(())
    }

    /// Whether new files are taken, of any size: as many drives as a striped blob needs have room for them
    /// and leave some to what empties the pool. Those in a group do not count, which may be full of what is
    /// used: what finds no room there goes to the others. The one place that tells, for the doors, the health
    /// and the screens; the drives are asked at most once a second.
    ///
    /// # Errors
    /// [`PoolError::Full`] if enough drives are up and too few have room; [`PoolError::Placement`] if too few
    /// are up.
    pub fn takes_files(&self) -> Result<(), PoolError> {
        let spaces = self.spaces_of(DriveGroup::MAIN);
        let width = self.config.code.width();
        let count = |of: fn(&DriveSpace) -> bool| spaces.iter().filter(|drive| of(drive)).count();
        let (up, writable) =
            (count(|drive| drive.health.is_up() && !drive.drains), count(DriveSpace::takes_files));
        if writable >= width {
            Ok(())
        } else if up >= width {
            Err(PoolError::Full { width, writable })
        } else {
            Err(PlacementError::TooFewDrives { width, writable }.into())
        }
    }

    /// Why there is no place for new data but on drives that are not `down`: one that is full lacks room and
    /// not a repair.
    fn no_place(&self, error: PlacementError, down: &BTreeSet<DriveId>) -> PoolError {
        let PlacementError::TooFewDrives { width, writable } = error else { return error.into() };
        let is_full = |drive: &&PoolDrive| drive.is_main() && down.contains(&drive.id) && drive.is_full();
        let full = self.drives.iter().filter(is_full).count();
        if writable + full >= width { PoolError::Full { width, writable } } else { error.into() }
    }

    /// Room for clients on the drives, as it was last told: no drive is asked.
    fn rooms(&self) -> BTreeMap<DriveId, ByteCount> {
        let shares = self.shares();
        let space = |drive: &PoolDrive| {
            let space = shares.of(drive.device()?.space()?);
            Some((drive.id, above_floor(space.capacity, space.free)))
        };
        self.drives().filter_map(space).collect()
    }

    /// The drives that have no room for an extent of so many bytes, as it was last told: no drive is asked.
    fn tight_for(&self, bytes: ByteCount, whose: Use) -> BTreeSet<DriveId> {
        let shares = self.shares();
        let is_tight = |drive: &&PoolDrive| {
            let Some(space) = drive.device().and_then(|device| device.space()) else { return false };
            room_of(shares.of(space), whose) < bytes
        };
        self.drives().filter(is_tight).map(|drive| drive.id).collect()
    }

    /// A set of drives for extents of at least so many bytes each: of the group that is asked for if that has
    /// room, else of none.
    pub(crate) fn choose_set(
        &self,
        kind: impl Into<SetKind>,
        bytes: ByteCount,
        whose: Use,
    ) -> Result<StripeSet, PoolError> {
        let kind = kind.into();
        let turn = self.placements.fetch_add(1, Ordering::Relaxed);
        let down = self.unwritable_for(bytes, whose);
        let rooms = self.rooms();
        let tight: BTreeSet<DriveId> = &down | &self.tight_for(bytes, whose);
        let slow = self.slow_drives();
        // What was told of their room may be old, and a slow drive keeps what it gets: without enough others
        // they are tried.
        let avoided = if slow.is_empty() { vec![tight] } else { vec![&tight | &slow, tight, &down | &slow] };
        let chosen = {
            let mut sets = lock(&self.sets);
            let find = |sets: &mut StripeSets, kind| {
                avoided.iter().find_map(|avoided| match sets.may_avoid(kind, avoided) {
                    true => sets.choose_by_room(kind, turn, avoided, &rooms).ok(),
                    false => None,
                })
            };
            // What a group has no room for goes to the drives that are in none.
            let main = SetKind { group: DriveGroup::MAIN, ..kind };
            let of_group = if kind == main { None } else { find(&mut sets, kind) };
            let found = of_group.or_else(|| find(&mut sets, main));
            found.map_or_else(|| sets.choose_by_room(main, turn, &down, &rooms), Ok)
        };
        let set = chosen.map_err(|error| self.no_place(error, &down))?;
        assert_eq!(set.drives.len(), kind.width, "each shard has a drive");
        let takes_it = |drive: &DriveId| !down.contains(drive);
        assert!(set.drives.iter().all(takes_it), "nothing new is put on a drive that takes nothing");
        Ok(set)
    }

    pub(crate) fn substitute_set(
        &self,
        model: &StripeSet,
        lost: &BTreeSet<DriveId>,
        avoid: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PoolError> {
        let substitute = lock(&self.sets).substitute(model, lost, avoid);
        let set = substitute.map_err(|error| self.no_place(error, avoid))?;
        assert_eq!(set.drives.len(), model.drives.len(), "each shard has a drive");
        assert!(set.drives.iter().all(|drive| !lost.contains(drive)), "none of them is one that was lost");
        Ok(set)
    }

    /// A set with further drives behind those of the model.
    pub(crate) fn widened_set(
        &self,
        model: &StripeSet,
        width: usize,
        avoid: &BTreeSet<DriveId>,
    ) -> Result<StripeSet, PoolError> {
        let wider = lock(&self.sets).widen(model, width, avoid);
        let set = wider.map_err(|error| self.no_place(error, avoid))?;
        assert!(set.drives.starts_with(&model.drives), "what stands on the others stays there");
        Ok(set)
    }

    /// A segment with room for so many bytes at least, and for more if drives have it and `is_roomy`.
    pub(crate) fn new_segment(&self, least: ByteCount, is_roomy: bool) -> Result<Segment, PoolError> {
        let set = self.choose_set(usize::from(self.config.segment_copies), least, Use::Engine)?;
        let room = if is_roomy { self.room_ahead(&set) } else { least };
        let size = room.min(self.config.segment_size).max(least);
        Ok(Segment::new(self.next_id()?, set, size, self.slow_drives()))
    }

    /// Deletes all extents of a blob; goes on after failures and gives the first.
    pub(crate) fn delete_extents(&self, blob: BlobId, stripes: &[StripeSet]) -> Result<(), PoolError> {
        let extents = stripes.iter().enumerate().flat_map(|(stripe, set)| {
            let stripe = u32::try_from(stripe).unwrap_or(u32::MAX);
            set.drives.iter().enumerate().map(move |(shard, drive)| {
                let shard = u8::try_from(shard).unwrap_or(u8::MAX);
                (*drive, ExtentId { blob, stripe, shard })
            })
        });
        let deleted = self.delete_all(extents);
        self.try_full_drives();
        deleted
    }

    /// Deletes extents, as [`Pool::delete_extents`] does.
    pub(crate) fn delete_all(
        &self,
        extents: impl Iterator<Item = (DriveId, ExtentId)>,
    ) -> Result<(), PoolError> {
        self.on_writers(extents.map(|(drive, id)| {
            let delete = move |device: &Device| device.drive.delete(id).map(|()| device.space_freed());
            (drive, delete)
        }))
    }

    /// Makes calls that change something on drives and waits, but not for drives that are not there or
    /// are set aside meanwhile. Gives the first failure.
    pub(crate) fn on_writers<J>(&self, jobs: impl Iterator<Item = (DriveId, J)>) -> Result<(), PoolError>
    where
        J: FnOnce(&Device) -> Result<(), DriveError> + Send + 'static,
    {
        let gather = Gather::new();
        let mut asked = Vec::new();
        for (number, (drive, job)) in jobs.enumerate() {
            let Some(present) = self.drive(drive).and_then(PoolDrive::present) else { continue };
            let ticket = gather.ticket();
            present.call_writer(Box::new(move |device| ticket.done((number, job(device)))));
            asked.push((number, present));
        }
        let mut done = gather.wait_unless(|done| {
            let is_in = |number: usize| done.iter().any(|(other, _)| *other == number);
            asked.iter().all(|(number, present)| is_in(*number) || present.device.is_away())
        });
        done.sort_by_key(|(number, _)| *number);
        let first = done.into_iter().find_map(|(_, result)| result.err());
        first.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Stamps a drive that is put in. If it does not know of the newest stamp it was away, or put back from an
/// old copy: that it may have gaps is durable before the new stamp is, which would hide it.
pub(crate) fn take_up(
    drive: &dyn ObjectDrive,
    newest: Option<(Epoch, u64)>,
    epoch: Epoch,
    commit: u64,
) -> Result<(), DriveError> {
    let stamp = drive.stamp();
    if stamp.gaps_after.is_none() && Some(stamp.age()) < newest {
        tracing::warn!(
            drive = %stamp.drive,
            of = ?stamp.age(),
            ?newest,
            "the superblock of a pool drive is old: it may lack what was written since, and is gone through"
        );
        drive.set_gaps(Some(stamp.commit))?;
    }
    drive.set_stamp(epoch, commit)
}

fn report(drive: &PoolDrive, shares: &FileSystemShares) -> DriveReport {
    let device = drive.attached().map(|present| Arc::clone(&present.device));
    let number = |of: fn(&Device) -> &AtomicU64| {
        device.as_ref().map_or(0, |device| of(device).load(Ordering::Relaxed))
    };
    let space = device.as_ref().and_then(|device| device.space()).map(|space| shares.of(space));
    DriveReport {
        id: drive.id,
        group: drive.group(),
        name: device.as_ref().map(|device| device.drive.name()).unwrap_or_default(),
        health: drive.health(),
        gaps_after: device.as_ref().and_then(|device| device.gaps_after()),
        burn_in: device.as_ref().and_then(|device| device.drive.burn_in()),
        queue: device.as_ref().map(|device| (device.queue.engine(), device.queue.depth())),
        drains: drive.drains(),
        filling: device.as_ref().is_some_and(|device| device.filling.load(Ordering::Relaxed)),
        capacity: space.map_or(ByteCount(0), |space| space.capacity),
        used: space.map_or(ByteCount(0), |space| space.used),
        free: space.map_or(ByteCount(0), |space| space.free),
        bytes_read: ByteCount(number(|device| &device.counters.bytes_read)),
        bytes_written: ByteCount(number(|device| &device.counters.bytes_written)),
        syncs: number(|device| &device.counters.syncs),
        errors: number(|device| &device.counters.errors),
        damaged: number(|device| &device.counters.damaged),
        reconstructions: drive.reconstructions.load(Ordering::Relaxed),
        late: number(|device| &device.counters.late),
        recoveries: number(|device| &device.counters.recoveries),
        slow: device.as_ref().filter(|_| drive.health().is_up()).and_then(|device| device.slow()),
        silence: device.as_ref().map_or(Duration::ZERO, |device| device.silence_now()),
    }
}
/// What a drive with this space takes: clients leave the floor to what empties the pool.
fn room_of(space: DriveStatus, whose: Use) -> ByteCount {
    match whose {
        Use::Client => above_floor(space.capacity, space.free),
        Use::Engine | Use::Stream | Use::Upkeep => space.free,
    }
}

#[cfg(test)]
#[path = "slow_tests.rs"]
mod slow_tests;
