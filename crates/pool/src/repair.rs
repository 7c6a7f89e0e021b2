//! Repair: damaged or lost shards are written anew, whole, from the others of their stripe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout, StripeSet, StripeSetId};
use blob::Use;
use drive::{DriveError, ExtentId, PAGE};

use crate::arena::CellBuffer;
use crate::cell::{HEADER_BYTES, checksums_of};
use crate::code::Code;
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::fetch::{CellFault, RowPlace};
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::repair_rows::{Appends, Repairing, RowsAhead};
use crate::scrub::{BadShard, FINDINGS_MAX, RowCells, bad_shard};
use crate::shard::{ShardStream, Step};
use crate::status::DriveSpace;
use crate::stripe;

/// A stripe of which shards stand on other drives now. Until the catalogue says so the old set is read; the
/// old extents are removed after that, when no reader can be in them any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedStripe {
    /// The stripe.
    pub stripe: u32,
    /// The set it stood on.
    pub from: StripeSetId,
    /// The set it stands on now; all of it is synced.
    pub to: StripeSet,
    /// What is to be removed afterwards; most of it is on drives that are not there.
    pub old: Vec<BadShard>,
}

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Shards written anew in their place.
    pub in_place: Vec<BadShard>,
    /// Stripes with shards on other drives, to be told to the catalogue.
    pub moved: Vec<MovedStripe>,
    /// Bytes written.
    pub bytes: ByteCount,
    /// Shards that are not whole after it either, and why: as bad as before, or better, but with rows that
    /// could not be computed.
    pub failed: Vec<(BadShard, String)>,
    /// Rows of which the whole cells do not determine the data.
    pub lost_rows: u64,
    /// Which these are, the first thousand.
    pub lost: Vec<LostRow>,
}

/// A row of a stripe that could not be computed: it stays as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRow {
    /// The blob.
    pub blob: BlobId,
    /// The stripe.
    pub stripe: u32,
    /// The row within the stripe.
    pub row: u64,
    /// The shards whose cell is missing or damaged.
    pub missing: Vec<BadShard>,
}

impl LostRow {
    /// Which row of the blob it is.
    #[must_use]
    pub fn place(&self) -> String {
        format!("stripe {}, row {}", self.stripe, self.row)
    }

    /// What is wrong with it, the same for rows that lack the same cells.
    #[must_use]
    pub fn what(&self) -> String {
        let missing =
            self.missing.iter().map(|BadShard { shard, drive, .. }| format!("drive {drive} (shard {shard})"));
        format!("cannot be computed: no whole cell on {}", missing.collect::<Vec<_>>().join(", "))
    }
}

impl Repaired {
    fn lose(&mut self, blob: BlobId, place: &RowPlace, cells: &RowCells) {
        self.lost_rows += 1;
        assert!((self.lost.len() as u64) < self.lost_rows, "each row that is told was counted");
        if self.lost.len() < FINDINGS_MAX {
            let missing = cells.bad.keys().map(|shard| bad_shard(place, *shard)).collect();
            let stripe = u32::try_from(place.stripe).unwrap_or(u32::MAX);
            self.lost.push(LostRow { blob, stripe, row: place.row_in_stripe, missing });
        }
    }
}

/// Why shards are written anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why<'a> {
    /// They are damaged, or lost.
    Damage,
    /// Their drives are to be emptied: they are copied as they are where they are whole.
    Drain,
    /// They are to stand on the drives of this set, and are copied likewise.
    MoveTo(&'a StripeSet),
}

/// A shard being written anew.
pub(crate) struct Target {
    pub(crate) bad: BadShard,
    pub(crate) stream: Arc<ShardStream>,
    /// Why it is not written after all.
    refusal: OnceLock<&'static str>,
    /// Rows that were missing or wrong and were computed.
    computed: AtomicU64,
    /// Rows that could not be computed.
    left: AtomicU64,
}

impl Target {
    /// Leaves the shard as it is; the first reason is told.
    pub(crate) fn refuse(&self, why: &'static str) {
        if !self.stream.has_failed() {
            let _ = self.refusal.set(why);
        }
        self.stream.fail();
    }

    /// A shard of which nothing became better is not written anew: the old one may still be mended.
    fn refuse_if_useless(&self) {
        if self.left.load(Ordering::Relaxed) > 0 && self.computed.load(Ordering::Relaxed) == 0 {
            self.refuse("no row of it that is missing or damaged can be computed: too few others are whole");
        }
    }

    fn why(&self, otherwise: &str) -> String {
        (*self.refusal.get().unwrap_or(&otherwise)).to_owned()
    }
}

/// The shards that are written to another drive.
fn moving(targets: &[Target]) -> Vec<usize> {
    let moving = targets.iter().filter(|target| target.stream.drive != target.bad.drive);
    moving.map(|target| usize::from(target.bad.shard)).collect()
}

/// None of the shards was repaired.
pub(crate) fn break_off(bad: &[BadShard], why: &str, repaired: &mut Repaired) {
    repaired.failed.extend(bad.iter().map(|bad| (*bad, why.to_owned())));
}

/// What this machine lacked for reading a row: nothing is known of its cells then.
fn shortage(cells: &RowCells) -> Option<String> {
    cells.bad.values().find_map(|fault| match fault {
        CellFault::Shortage(why) => Some(why.clone()),
        _ => None,
    })
}

impl Pool {
    /// Writes the `bad` shards of a blob anew, each synced on return: in place where the drive is up (the old
    /// extent stays until the new one is durable), else on spare drives. What cannot be rebuilt in every row
    /// is not moved, since a drive that comes back may hold what is missing.
    ///
    /// # Errors
    /// [`PoolError::Description`], [`PoolError::Code`], [`PoolError::ArenaTooSmall`],
    /// [`PoolError::SegmentOpen`]. What cannot be repaired stands in [`Repaired::failed`].
    pub fn repair(
        self: &Arc<Self>,
        blob: &BlobDescription,
        bad: &BTreeSet<BadShard>,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Repaired, PoolError> {
        let repaired = self.try_repair(blob, bad, Why::Damage, pace);
        // Its own reads list nothing: what it has repaired waits for nobody.
        let is_whole = matches!(&repaired, Ok(done) if done.failed.is_empty() && done.lost_rows == 0);
        if !is_whole && matches!(blob.layout, Layout::Striped { .. }) {
            self.watch().needs_repair(blob.id, None);
        }
        repaired
    }

    /// Writes shards of drives that are to be emptied to others, each synced on return: copied where they are
    /// whole, else rebuilt from the rest of their stripe.
    ///
    /// # Errors
    /// As [`Pool::repair`].
    pub fn move_away(
        self: &Arc<Self>,
        blob: &BlobDescription,
        shards: &BTreeSet<BadShard>,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Repaired, PoolError> {
        self.try_repair(blob, shards, Why::Drain, pace)
    }

    /// As [`Pool::move_away`], of one shard, to the drive that it has in this set; all others of its stripe
    /// stay where they are.
    ///
    /// # Errors
    /// As [`Pool::repair`].
    ///
    /// # Panics
    /// If another shard stands on another drive in this set.
    pub fn move_to(
        self: &Arc<Self>,
        blob: &BlobDescription,
        shard: BadShard,
        to: &StripeSet,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Repaired, PoolError> {
        let moved = self.try_repair(blob, &BTreeSet::from([shard]), Why::MoveTo(to), pace);
        // What came to them is not free any more: who looks for room next is told.
        let drives = to.drives.iter().filter_map(|drive| self.device(*drive));
        drives.for_each(|device| device.forget_space());
        moved
    }

    fn try_repair(
        self: &Arc<Self>,
        blob: &BlobDescription,
        bad: &BTreeSet<BadShard>,
        why: Why<'_>,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Repaired, PoolError> {
        let mut repaired = Repaired::default();
        let mut by_stripe: BTreeMap<u32, Vec<BadShard>> = BTreeMap::new();
        bad.iter().for_each(|bad| by_stripe.entry(bad.stripe).or_default().push(*bad));
        for (number, bad) in by_stripe {
            let set = usize::try_from(number).ok().and_then(|number| blob.stripes.get(number));
            let set = set.ok_or(PoolError::Description(blob.id))?;
            let (bad, hopeless) = self.without_hopeless(blob.layout, set, bad)?;
            break_off(&hopeless, "too few of the shards that it follows from are there", &mut repaired);
            if bad.is_empty() {
                continue;
            }
            let to = match self.destination(blob, (number, set), &bad, why)? {
                Ok(to) => to,
                Err(error) => {
                    repaired.failed.extend(bad.iter().map(|bad| (*bad, error.to_string())));
                    continue;
                }
            };
            match blob.layout {
                Layout::Striped { code: shape } => {
                    let (geometry, code) = self.layout(blob, shape)?;
                    let coding = (&geometry, code.as_ref());
                    self.repair_stripe(blob, coding, (number, set, &to), (&bad, why), &mut repaired, pace)?;
                }
                Layout::Segment { .. } => {
                    self.repair_segment(blob, (set, &to), &bad, &mut repaired, pace)?;
                }
            }
        }
        let moved = repaired.moved.iter().map(|moved| moved.old.len()).sum::<usize>();
        let told = repaired.in_place.len() + moved + repaired.failed.len();
        assert_eq!(told, bad.len(), "each shard is mended, or it is said why not");
        Ok(repaired)
    }

    /// Sets apart the shards of a locally repairable stripe that cannot be rebuilt elsewhere whatever the
    /// drives that are there hold, so that they do not keep the others from being moved.
    fn without_hopeless(
        &self,
        layout: Layout,
        set: &StripeSet,
        bad: Vec<BadShard>,
    ) -> Result<(Vec<BadShard>, Vec<BadShard>), PoolError> {
        let Layout::Striped { code: shape } = layout else { return Ok((bad, Vec::new())) };
        if shape.local == 0 {
            return Ok((bad, Vec::new()));
        }
        let code = self.code(shape)?;
        let is_there = |drive: &DriveId| self.drive(*drive).and_then(PoolDrive::present).is_some();
        let there: Vec<usize> = (0..set.drives.len()).filter(|shard| is_there(&set.drives[*shard])).collect();
        Ok(bad.into_iter().partition(|bad| code.determines(&there, &[usize::from(bad.shard)])))
    }

    /// Where the bad shards of a stripe go: those whose drive takes data stay, the others get spares. What is
    /// damaged on a drive that is to be emptied is mended there if no other has room. What is only moved
    /// leaves to what empties the pool what is kept for that. The inner error: there is no place for them.
    fn destination(
        &self,
        blob: &BlobDescription,
        (stripe, set): (u32, &StripeSet),
        bad: &[BadShard],
        why: Why<'_>,
    ) -> Result<Result<StripeSet, PoolError>, PoolError> {
        let mut down = self.unwritable();
        match why {
            // What is damaged or lost goes wherever it can.
            Why::Damage => {}
            Why::Drain => {
                let room = self.room_of_shard(blob, stripe)?;
                down.extend(self.without_room_for(room));
            }
            Why::MoveTo(to) => {
                let is_asked = |shard: usize| bad.iter().any(|bad| usize::from(bad.shard) == shard);
                let moves = set.drives.iter().zip(&to.drives).map(|(from, to)| from != to);
                assert!(moves.enumerate().all(|(shard, moves)| moves == is_asked(shard)), "others stay");
                return Ok(Ok(to.clone()));
            }
        }
        let of_bad = bad.iter().map(|bad| bad.drive);
        let lost: BTreeSet<DriveId> =
            of_bad.filter(|drive| down.contains(drive) && !self.is_only_full(*drive)).collect();
        if lost.is_empty() {
            return Ok(Ok(set.clone()));
        }
        let spared = self.substitute_set(set, &lost, &down);
        let may_stay =
            |id: &DriveId| self.drive(*id).is_some_and(|drive| drive.drains() && drive.health().is_up());
        let gone: BTreeSet<DriveId> = lost.iter().copied().filter(|drive| !may_stay(drive)).collect();
        Ok(match spared {
            Err(_) if why == Why::Damage && gone.is_empty() => Ok(set.clone()),
            Err(_) if why == Why::Damage && gone.len() < lost.len() => self.substitute_set(set, &gone, &down),
            spared => spared,
        })
    }

    /// The drives that have no such room for new files.
    pub(crate) fn without_room_for(&self, room: ByteCount) -> impl Iterator<Item = DriveId> {
        let lacks = move |drive: &DriveSpace| drive.room_for_files() < room;
        self.spaces().into_iter().filter(lacks).map(|drive| drive.id)
    }

    /// The room that a drive must have for a shard of a stripe, or a copy of a segment, that is moved to it.
    pub(crate) fn room_of_shard(&self, blob: &BlobDescription, stripe: u32) -> Result<ByteCount, PoolError> {
        match blob.layout {
            Layout::Striped { code } => {
                Ok(ByteCount(self.layout(blob, code)?.0.extent_bytes(blob.length.0, stripe.into())))
            }
            Layout::Segment { .. } => Ok(self.config().segment_size),
        }
    }

    /// A full drive may have room for one extent in place of another.
    fn is_only_full(&self, drive: DriveId) -> bool {
        self.drive(drive).is_some_and(PoolDrive::is_full)
    }

    fn repair_stripe(
        self: &Arc<Self>,
        blob: &BlobDescription,
        (geometry, code): (&Geometry, &Code),
        (number, set, to): (u32, &StripeSet, &StripeSet),
        (bad, why): (&[BadShard], Why<'_>),
        repaired: &mut Repaired,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<(), PoolError> {
        let claim = self.repair_room().enter(geometry.width(), bad.len());
        let preallocate = ByteCount(geometry.extent_bytes(blob.length.0, number.into()));
        let targets = targets(blob.extents(), to, bad, preallocate);
        let first = u64::from(number) * geometry.rows_per_stripe;
        let rows = first..geometry.rows(blob.length.0).min(first + geometry.rows_per_stripe);
        let of = Repairing { pool: self, blob, geometry, code, bad, why };
        let mut ahead = RowsAhead::new(of, rows, claim.share.ahead);
        let cell = HEADER_BYTES + geometry.cell_bytes;
        let mut appends = Appends::new(self, &targets, claim.share.append * cell);
        let moves = to.id != set.id;
        let read = self.repair_rows(of, moves, (&mut ahead, &mut appends), repaired, pace);
        // Whatever came of it, nothing is under way of what is sealed or given up.
        match read {
            Ok(None) => appends.end(),
            _ => appends.drop_rest(),
        }
        match read? {
            None => self.finish(&targets, (set, to), repaired),
            Some(why) => break_off(bad, &why, repaired),
        }
        Ok(())
    }

    /// Reads, computes and writes the rows of a stripe; why it was broken off, if it was.
    fn repair_rows(
        self: &Arc<Self>,
        of: Repairing<'_>,
        moves: bool,
        (ahead, appends): (&mut RowsAhead<'_>, &mut Appends<'_>),
        repaired: &mut Repaired,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Option<String>, PoolError> {
        let Repairing { blob, geometry, code, bad, .. } = of;
        let targets = appends.targets();
        while let Some((place, mut cells)) = ahead.next()? {
            if let Some(why) = shortage(&cells) {
                return Ok(Some(why));
            }
            self.list_others(blob.id, &cells, bad);
            let good = cells.good_shards();
            let read = good.len() * (HEADER_BYTES + geometry.payload(place.part.bytes));
            let is_whole = good.len() + cells.bad.len() == geometry.width();
            if is_whole && !code.determines(&good, &(0..geometry.data).collect::<Vec<_>>()) {
                repaired.lose(blob.id, &place, &cells);
            }
            if moves && !code.determines(&good, &moving(targets)) {
                let why = "the stripe cannot be rebuilt: fewer shards than needed are whole";
                return Ok(Some(why.to_owned()));
            }
            if good.len() == geometry.width() {
                self.drop_wrong_parity((geometry, code), (&place, ahead), &mut cells, targets)?;
            }
            let Some(written) = self.write_row(of, &place, cells, (ahead, appends))? else {
                let why = "the whole shards of a row contradict one another: verify the file";
                return Ok(Some(why.to_owned()));
            };
            repaired.bytes.0 += written;
            if !pace(ByteCount(read as u64 + written)) {
                return Ok(Some("broken off".to_owned()));
            }
        }
        Ok(None)
    }

    /// Cells that are wrong although nobody asked for their shards to be repaired are to be repaired too.
    fn list_others(&self, blob: BlobId, cells: &RowCells, bad: &[BadShard]) {
        let is_asked = |shard: &usize| bad.iter().any(|bad| usize::from(bad.shard) == *shard);
        let mut others = cells.bad.iter().filter(|(shard, _)| !is_asked(shard));
        if others.any(|(_, fault)| !matches!(fault, CellFault::NoDrive)) {
            self.watch().needs_repair(blob, None);
        }
    }

    /// Takes parity that does not belong to the data out of the good cells of a whole row, so that it is
    /// computed anew. Where all of several parity cells are wrong the data is the suspect: they stay as they
    /// are, for the checksums of the file to decide.
    fn drop_wrong_parity(
        &self,
        (geometry, code): (&Geometry, &Code),
        (place, ahead): (&RowPlace, &mut RowsAhead<'_>),
        cells: &mut RowCells,
        targets: &[Target],
    ) -> Result<(), PoolError> {
        let memory = ahead.memory(geometry.parity);
        let wrong = self.wrong_parity((geometry, code), place, &cells.good, memory)?;
        if code.blames_data(&wrong) {
            for target in targets.iter().filter(|target| wrong.contains(&usize::from(target.bad.shard))) {
                target.refuse("no parity of a row belongs to its data: verify the file");
            }
            return Ok(());
        }
        wrong.iter().for_each(|shard| drop(cells.good.remove(shard)));
        Ok(())
    }

    /// Writes one row of all targets; gives the bytes. `None`, and nothing is written, if what is rebuilt of
    /// the row contradicts a whole cell of it.
    fn write_row(
        self: &Arc<Self>,
        Repairing { blob, geometry, code, .. }: Repairing<'_>,
        place: &RowPlace,
        mut cells: RowCells,
        (ahead, appends): (&mut RowsAhead<'_>, &mut Appends<'_>),
    ) -> Result<Option<u64>, PoolError> {
        let targets = appends.targets();
        let payload = geometry.payload(place.part.bytes);
        let range = HEADER_BYTES..HEADER_BYTES + payload;
        let missing: Vec<usize> = targets
            .iter()
            .filter(|target| !target.stream.has_failed())
            .map(|target| usize::from(target.bad.shard))
            .filter(|shard| !cells.good.contains_key(shard))
            .collect();
        let good = cells.good_shards();
        let (missing, unknown): (Vec<usize>, Vec<usize>) =
            missing.into_iter().partition(|shard| code.determines(&good, &[*shard]));
        let basis = code.basis(&good);
        // Whole cells that are not rebuilt from show whether those that are belong together.
        let witnesses: Vec<usize> = match missing.is_empty() {
            true => Vec::new(),
            false => good.into_iter().filter(|shard| !basis.contains(shard)).collect(),
        };
        let mut buffers = ahead.memory(missing.len() + witnesses.len() + unknown.len());
        let raw = buffers.split_off(missing.len() + witnesses.len());
        if !missing.is_empty() {
            let present: Vec<(usize, &[u8])> = cells
                .good
                .iter()
                .filter(|(shard, _)| basis.contains(shard))
                .map(|(shard, cell)| (*shard, &cell.as_slice()[range.clone()]))
                .collect();
            let mut outputs: Vec<(usize, &mut [u8])> = missing
                .iter()
                .chain(&witnesses)
                .zip(&mut buffers)
                .map(|(shard, cell)| (*shard, &mut cell.as_mut_slice()[range.clone()]))
                .collect();
            code.reconstruct(&present, &mut outputs)?;
        }
        let computed = buffers.split_off(missing.len());
        let agrees = |(shard, computed): (&usize, &CellBuffer)| {
            let stored = cells.good.get(shard).map(|cell| &cell.as_slice()[range.clone()]);
            stored == Some(&computed.as_slice()[range.clone()])
        };
        if !witnesses.iter().zip(&computed).all(agrees) {
            return Ok(None);
        }
        drop(computed);
        let count = |shard: usize, of: fn(&Target) -> &AtomicU64| {
            if let Some(target) = targets.iter().find(|target| usize::from(target.bad.shard) == shard) {
                of(target).fetch_add(1, Ordering::Relaxed);
            }
        };
        for (shard, mut cell) in missing.into_iter().zip(buffers) {
            count(shard, |target| &target.computed);
            let at = (place.stripe, place.row_in_stripe);
            let bytes = &mut cell.as_mut_slice()[..range.end];
            let checksums = checksums_of(&bytes[range.clone()]);
            stripe::identity(self, geometry, blob, at, place.part.bytes, shard).seal(bytes, &checksums);
            cells.good.insert(shard, cell);
        }
        for (shard, cell) in unknown.into_iter().zip(raw) {
            count(shard, |target| &target.left);
            if let Some(cell) = self.read_raw(blob, geometry, place, (shard, range.end), cell) {
                cells.good.insert(shard, cell);
            }
        }
        let mut written = 0;
        let mut rows = Vec::with_capacity(targets.len());
        for (number, target) in targets.iter().enumerate() {
            match cells.good.remove(&usize::from(target.bad.shard)) {
                Some(_) if target.stream.has_failed() => {}
                Some(cell) => {
                    written += range.end as u64;
                    rows.push((number, cell));
                }
                None => target.refuse("a row that cannot be rebuilt could not be read as it is, either"),
            }
        }
        appends.add(rows, range.end);
        Ok(Some(written))
    }

    /// A cell as it lies there, whatever it is worth: a row that cannot be rebuilt must not get worse. Where
    /// the extent has nothing a cell that says so; `None` if it may have something that could not be read.
    fn read_raw(
        &self,
        blob: &BlobDescription,
        geometry: &Geometry,
        place: &RowPlace,
        (shard, length): (usize, usize),
        mut cell: CellBuffer,
    ) -> Option<CellBuffer> {
        let at = (place.stripe, place.row_in_stripe);
        let identity = stripe::identity(self, geometry, blob, at, place.part.bytes, shard);
        let id = ExtentId { blob: blob.extents(), stripe: identity.stripe, shard: identity.shard };
        let offset = geometry.extent_offset(place.row_in_stripe);
        let present = self.drive(*place.set.drives.get(shard)?).and_then(PoolDrive::present)?;
        let gather = Gather::new();
        let ticket = gather.ticket();
        present.call_reader(Box::new(move |device| {
            let into = &mut cell.as_mut_slice()[..length];
            let pages = match pages_of(device, id, offset, into) {
                Ok(pages) => pages,
                Err(error) => {
                    device.read_failed(identity.owner(), &error);
                    return ticket.done(None);
                }
            };
            // On a drive that is not there, or was emptied, that there is nothing says nothing.
            if pages < length / PAGE && device.gone() {
                return ticket.done(None);
            }
            if pages == 0 {
                identity.seal_void(into);
            }
            ticket.done(Some(cell));
        }));
        gather.wait_unless(|_| present.device.is_away()).pop().flatten()
    }

    /// Has a step done for each target and waits; what does not come back has failed.
    pub(crate) fn on_targets<'a>(&self, steps: impl Iterator<Item = (&'a Target, Step)>) {
        self.begin_on_targets(steps).wait();
    }

    /// Seals all targets. A stripe counts as moved only if every one of its shards did.
    pub(crate) fn finish(
        &self,
        targets: &[Target],
        (from, to): (&StripeSet, &StripeSet),
        repaired: &mut Repaired,
    ) {
        let seal = |target| (target, Step::Seal);
        // What stays where it is counts whether or not the stripe moves.
        targets.iter().for_each(Target::refuse_if_useless);
        let (moving, staying): (Vec<&Target>, Vec<&Target>) =
            targets.iter().partition(|target| target.stream.drive != target.bad.drive);
        let healthy = moving.iter().all(|target| !target.stream.has_failed());
        if healthy {
            self.on_targets(moving.iter().map(|target| seal(*target)));
        }
        let moved = healthy && moving.iter().all(|target| target.stream.is_sealed());
        if moved && let Some(stripe) = moving.first().map(|target| target.bad.stripe) {
            let old = moving.iter().map(|target| target.bad).collect();
            repaired.moved.push(MovedStripe { stripe, from: from.id, to: to.clone(), old });
        }
        self.on_targets(staying.iter().filter(|t| !t.stream.has_failed()).map(|target| seal(*target)));
        for target in staying {
            let left = target.left.load(Ordering::Relaxed);
            if target.stream.is_sealed() && left == 0 {
                repaired.in_place.push(target.bad);
            } else if target.stream.is_sealed() {
                let why =
                    format!("{left} of its rows cannot be computed and are as they were; others were mended");
                repaired.failed.push((target.bad, why));
            } else {
                repaired.failed.push((target.bad, target.why("its drive failed while it was written")));
            }
        }
        if !moved {
            let why = "a spare drive failed while it was written";
            repaired.failed.extend(moving.iter().map(|target| (target.bad, target.why(why))));
        }
    }

    /// Removes the extents that a move has left behind, from drives that are there, by the id that they have
    /// there. What is not there is found when its drive comes back.
    ///
    /// # Errors
    /// [`PoolError::Drive`] with the first failure after all were tried.
    pub fn remove_moved(&self, extents: BlobId, old: &[BadShard]) -> Result<(), PoolError> {
        let extent =
            |bad: &BadShard| (bad.drive, ExtentId { blob: extents, stripe: bad.stripe, shard: bad.shard });
        self.delete_all(old.iter().map(extent))
    }
}

/// A stream for each bad shard, to the drive that it has in `to`.
pub(crate) fn targets(blob: BlobId, to: &StripeSet, bad: &[BadShard], preallocate: ByteCount) -> Vec<Target> {
    let target = |bad: &BadShard| {
        let drive = to.drives.get(usize::from(bad.shard)).copied().unwrap_or(bad.drive);
        let id = ExtentId { blob, stripe: bad.stripe, shard: bad.shard };
        let stream = Arc::new(ShardStream::replacing(id, drive, preallocate).used_by(Use::Upkeep));
        let (computed, left) = (AtomicU64::new(0), AtomicU64::new(0));
        Target { bad: *bad, stream, refusal: OnceLock::new(), computed, left }
    };
    bad.iter().map(target).collect()
}

/// Reads as many whole pages as an extent has from `offset` on; zeros behind them.
fn pages_of(device: &Device, id: ExtentId, offset: u64, into: &mut [u8]) -> Result<usize, DriveError> {
    match device.read(id, offset, into) {
        Ok(()) => return Ok(into.len() / PAGE),
        Err(DriveError::NotFound { .. } | DriveError::Truncated { .. }) => into.fill(0),
        Err(error) => return Err(error),
    }
    for (page, bytes) in into.chunks_exact_mut(PAGE).enumerate() {
        match device.read(id, offset + (page * PAGE) as u64, bytes) {
            Ok(()) => {}
            Err(DriveError::NotFound { .. } | DriveError::Truncated { .. }) => {
                bytes.fill(0);
                return Ok(page);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(into.len() / PAGE)
}
