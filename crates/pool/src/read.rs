//! Reading a range of a striped blob, verified, with reconstruction of what is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use base::{BlobDescription, ByteCount};

use crate::arena::{CellBuffer, PoolBuffer};
use crate::cell::HEADER_BYTES;
use crate::code::Code;
use crate::config::READ_ROWS_AHEAD;
use crate::error::PoolError;
use crate::fetch::{CellFault, Fetched, RowPlace};
use crate::gather::Gather;
use crate::geometry::{Geometry, RowPart};
use crate::pool::Pool;

/// Hands out a range of a blob in order, in verified pieces of at most a cell.
///
/// Rows are read ahead. A piece holds pool memory until it is dropped: whoever keeps many pieces holds up
/// others.
pub struct BlobReader {
    pool: Arc<Pool>,
    blob: BlobDescription,
    geometry: Geometry,
    code: Arc<Code>,
    /// What is still to be asked of the drives.
    next: u64,
    end: u64,
    ahead: VecDeque<RowFetch>,
    ready: VecDeque<PoolBuffer>,
    /// Shards (stripe, shard) whose drive refused once; they are asked last, since other rows may be whole.
    lost: BTreeSet<(u64, usize)>,
    failed: bool,
}

/// Cells that may still come, and their shards.
type Late = (Arc<Gather<Fetched>>, BTreeSet<usize>);

/// A row on its way.
struct RowFetch {
    place: RowPlace,
    gather: Arc<Gather<Fetched>>,
    /// The shards asked for.
    asked: Vec<usize>,
    /// Room for the wanted cells that are known to be lost.
    spare: Vec<CellBuffer>,
}

impl BlobReader {
    pub(crate) fn new(
        pool: Arc<Pool>,
        blob: BlobDescription,
        geometry: Geometry,
        code: Arc<Code>,
        (offset, length): (ByteCount, ByteCount),
    ) -> Self {
        BlobReader {
            pool,
            blob,
            geometry,
            code,
            next: offset.0,
            end: offset.0 + length.0,
            ahead: VecDeque::new(),
            ready: VecDeque::new(),
            lost: BTreeSet::new(),
            failed: false,
        }
    }

    /// The next piece, `None` at the end of the range.
    ///
    /// # Errors
    /// [`PoolError::Unrecoverable`] if fewer than k shards of a row can be read, naming the first byte
    /// affected; the reader is of no use then.
    // Not an iterator: an error ends it, and callers shall use `?`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<PoolBuffer>, PoolError> {
        if self.failed {
            return Err(PoolError::ReaderFailed(self.blob.id));
        }
        let result = self.advance();
        self.failed = result.is_err();
        result
    }

    /// Whether the next piece is at hand, so that [`BlobReader::next`] will not wait for memory.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn advance(&mut self) -> Result<Option<PoolBuffer>, PoolError> {
        if self.ready.is_empty() {
            if self.ahead.is_empty() && self.next < self.end {
                self.start_row(true)?;
            }
            let Some(fetch) = self.ahead.pop_front() else { return Ok(None) };
            while self.ahead.len() < READ_ROWS_AHEAD && self.next < self.end && self.start_row(false)? {}
            self.complete(fetch)?;
        }
        Ok(self.ready.pop_front())
    }

    /// Asks the drives for the next row. `false` if memory is short and `wait` is not set.
    fn start_row(&mut self, wait: bool) -> Result<bool, PoolError> {
        let row_bytes = self.geometry.row_bytes();
        let row = self.next / row_bytes;
        let start = row * row_bytes;
        let bytes = self.geometry.bytes_of_row(self.blob.length.0, row);
        let wanted = self.next - start..(self.end - start).min(bytes);
        let part = RowPart { row, bytes, wanted };
        let place =
            RowPlace::new(&self.blob, &self.geometry, part).ok_or(PoolError::Description(self.blob.id))?;
        for shard in place.missing(&self.pool) {
            self.lost.insert((place.stripe, shard));
        }
        let cells = place.part.cells(&self.geometry);
        let known: BTreeSet<usize> = cells.clone().filter(|cell| self.is_lost(&place, *cell)).collect();
        let mut shards: Vec<usize> = cells.clone().filter(|cell| !known.contains(cell)).collect();
        if !known.is_empty() {
            let others = (0..self.geometry.width()).filter(|s| !cells.contains(s));
            let firm = others.filter(|shard| !self.is_lost(&place, *shard));
            let candidates: Vec<usize> = shards.iter().copied().chain(firm).collect();
            let missing: Vec<usize> = known.iter().copied().collect();
            let sources = self.code.sources(&candidates, &missing).unwrap_or_default();
            shards.extend(sources.into_iter().filter(|shard| !cells.contains(shard)));
        }
        let arena = self.pool.read_arena();
        let count = shards.len() + known.len();
        let buffers = if wait { Some(arena.acquire(count)) } else { arena.try_acquire(count) };
        let Some(mut buffers) = buffers else { return Ok(false) };
        let gather = Gather::new();
        let spare = buffers.split_off(shards.len());
        for (shard, buffer) in shards.iter().zip(buffers) {
            place.fetch(&self.pool, &self.geometry, &self.blob, *shard, buffer, &gather);
        }
        self.next = start + place.part.wanted.end;
        self.ahead.push_back(RowFetch { place, gather, asked: shards, spare });
        Ok(true)
    }

    fn is_lost(&self, place: &RowPlace, shard: usize) -> bool {
        self.lost.contains(&(place.stripe, shard))
    }

    /// Waits for a row, makes good what is missing, and lays its pieces ready.
    fn complete(&mut self, fetch: RowFetch) -> Result<(), PoolError> {
        let RowFetch { place, gather, asked, mut spare } = fetch;
        let wanted = place.part.cells(&self.geometry);
        let mut bad = BTreeSet::new();
        let mut good: BTreeMap<usize, CellBuffer> = BTreeMap::new();
        let mut shortage = None;
        // Cells that did not come in time, and may still come.
        let mut late = Vec::new();
        let fetched = self.gathered(&place, gather, asked, &mut bad, &mut late);
        self.sort(&place, fetched, &mut good, &mut bad, &mut shortage);
        loop {
            let missing: Vec<usize> = wanted.clone().filter(|cell| !good.contains_key(cell)).collect();
            if missing.is_empty() {
                break;
            }
            let untried = self.untried(&place, &wanted, &good, &bad);
            let sources = self.sources(&good, &untried, &missing);
            if sources.is_none() && !late.is_empty() {
                for (gather, shards) in late.drain(..) {
                    bad.retain(|shard| !shards.contains(shard));
                    let fetched = self.pool.wait_for_cells(&gather, &place, &shards);
                    let came: BTreeSet<usize> = fetched.iter().map(|fetched| fetched.shard).collect();
                    bad.extend(shards.into_iter().filter(|shard| !came.contains(shard)));
                    self.sort(&place, fetched, &mut good, &mut bad, &mut shortage);
                }
                continue;
            }
            let Some(sources) = sources else {
                if let Some(reason) = shortage {
                    return Err(PoolError::Shortage { blob: self.blob.id, reason });
                }
                return Err(self.unrecoverable(&place, missing[0], good.len() + untried.len()));
            };
            let more = sources.len();
            let targets = missing.iter().filter(|cell| !sources.contains(cell)).count();
            let short = (more + targets).saturating_sub(spare.len());
            if short > 0 {
                let Some(buffers) = self.pool.read_arena().try_acquire(short) else {
                    // Nothing may be held while waiting for more; what was read is read again. A late cell
                    // that comes is held by whoever waits for it, so it is not waited for any more.
                    good.clear();
                    spare.clear();
                    for (_, shards) in late.drain(..) {
                        bad.retain(|shard| !shards.contains(shard));
                    }
                    self.drop_ahead();
                    let untried = self.untried(&place, &wanted, &good, &bad);
                    // The same choice as the next round makes, so that what is taken here suffices there.
                    let all: Vec<usize> = wanted.clone().collect();
                    let sources = self.sources(&good, &untried, &all).unwrap_or_default();
                    let targets = wanted.clone().filter(|cell| !sources.contains(cell)).count();
                    spare = self.pool.read_arena().acquire(sources.len() + targets);
                    continue;
                };
                spare.extend(buffers);
            }
            if more == 0 {
                self.reconstruct(&place, &missing, &mut good, &mut spare)?;
                continue;
            }
            let gather = Gather::new();
            let buffers = spare.split_off(spare.len() - more);
            for (shard, buffer) in sources.iter().zip(buffers) {
                place.fetch(&self.pool, &self.geometry, &self.blob, *shard, buffer, &gather);
            }
            let fetched = self.gathered(&place, gather, sources, &mut bad, &mut late);
            self.sort(&place, fetched, &mut good, &mut bad, &mut shortage);
        }
        self.lay_ready(&place, good);
        Ok(())
    }

    /// What to read besides the good cells so as to have all that is missing; `None` if it cannot be had.
    fn sources(
        &self,
        good: &BTreeMap<usize, CellBuffer>,
        untried: &[usize],
        missing: &[usize],
    ) -> Option<Vec<usize>> {
        let candidates: Vec<usize> = good.keys().chain(untried).copied().collect();
        let mut sources = self.code.sources(&candidates, missing)?;
        sources.retain(|shard| !good.contains_key(shard));
        Some(sources)
    }

    /// The shards that may still be read for a row, wanted cells first, those lost in other rows last.
    fn untried(
        &self,
        place: &RowPlace,
        wanted: &Range<usize>,
        good: &BTreeMap<usize, CellBuffer>,
        bad: &BTreeSet<usize>,
    ) -> Vec<usize> {
        let others = (0..self.geometry.width()).filter(|shard| !wanted.contains(shard));
        let untried =
            wanted.clone().chain(others).filter(|shard| !good.contains_key(shard) && !bad.contains(shard));
        let mut untried: Vec<usize> = untried.collect();
        untried.sort_by_key(|shard| self.is_lost(place, *shard));
        untried
    }

    /// Waits for cells that were asked for. If some do not come within a multiple of the usual time and
    /// others can stand in for them, they count as bad for this row and are put on the list of the late.
    fn gathered(
        &mut self,
        place: &RowPlace,
        gather: Arc<Gather<Fetched>>,
        asked: Vec<usize>,
        bad: &mut BTreeSet<usize>,
        late: &mut Vec<Late>,
    ) -> Vec<Fetched> {
        let (mut fetched, all) = gather.wait_for(self.pool.hedge());
        let mut missing: BTreeSet<usize> = asked.into_iter().collect();
        missing.retain(|shard| !fetched.iter().any(|fetched| fetched.shard == *shard));
        if all {
            // What a drive that was set aside has dropped.
            self.lost.extend(missing.iter().map(|shard| (place.stripe, *shard)));
            bad.extend(missing);
        } else if self.geometry.parity == 0 {
            let more = self.pool.wait_for_cells(&gather, place, &missing);
            missing.retain(|shard| !more.iter().any(|fetched| fetched.shard == *shard));
            bad.extend(missing);
            fetched.extend(more);
        } else {
            for shard in &missing {
                place.late(&self.pool, *shard);
                self.lost.insert((place.stripe, *shard));
            }
            bad.extend(&missing);
            late.push((gather, missing));
        }
        fetched
    }

    fn sort(
        &mut self,
        place: &RowPlace,
        fetched: Vec<Fetched>,
        good: &mut BTreeMap<usize, CellBuffer>,
        bad: &mut BTreeSet<usize>,
        shortage: &mut Option<String>,
    ) {
        for Fetched { shard, cell } in fetched {
            match cell {
                Ok(buffer) => drop(good.insert(shard, buffer)),
                Err(fault) => {
                    bad.insert(shard);
                    if fault.is_lost() {
                        self.lost.insert((place.stripe, shard));
                    }
                    if let CellFault::Shortage(reason) = fault {
                        *shortage = Some(reason);
                    }
                }
            }
        }
    }

    /// Computes the missing cells from the good ones, in the blocks that were read.
    fn reconstruct(
        &self,
        place: &RowPlace,
        missing: &[usize],
        good: &mut BTreeMap<usize, CellBuffer>,
        spare: &mut Vec<CellBuffer>,
    ) -> Result<(), PoolError> {
        let range = HEADER_BYTES + place.blocks.start..HEADER_BYTES + place.blocks.end;
        let mut targets = spare.split_off(spare.len() - missing.len());
        let present: Vec<(usize, &[u8])> =
            good.iter().map(|(shard, cell)| (*shard, &cell.as_slice()[range.clone()])).collect();
        let mut outputs: Vec<(usize, &mut [u8])> = missing
            .iter()
            .zip(&mut targets)
            .map(|(shard, cell)| (*shard, &mut cell.as_mut_slice()[range.clone()]))
            .collect();
        self.code.reconstruct(&present, &mut outputs)?;
        for (shard, cell) in missing.iter().zip(targets) {
            if let Some(drive) = place.set.drives.get(*shard).and_then(|drive| self.pool.drive(*drive)) {
                crate::drives::count(&drive.reconstructions, 1);
            }
            good.insert(*shard, cell);
        }
        Ok(())
    }

    fn lay_ready(&mut self, place: &RowPlace, mut good: BTreeMap<usize, CellBuffer>) {
        for cell in place.part.cells(&self.geometry) {
            let within = place.part.within(&self.geometry, cell);
            if let Some(buffer) = good.remove(&cell) {
                let range = HEADER_BYTES + within.start..HEADER_BYTES + within.end;
                self.ready.push_back(PoolBuffer::of_cell(buffer, range));
            }
        }
    }

    /// Gives up the rows ahead; they are asked for again later.
    fn drop_ahead(&mut self) {
        if let Some(first) = self.ahead.front() {
            let part = &first.place.part;
            self.next = part.row * self.geometry.row_bytes() + part.wanted.start;
        }
        // Their memory comes back when the drives have given it up.
        self.ahead.clear();
    }

    fn unrecoverable(&self, place: &RowPlace, cell: usize, found: usize) -> PoolError {
        let within = place.part.within(&self.geometry, cell);
        let payload = self.geometry.payload(place.part.bytes) as u64;
        let row = place.part.row * self.geometry.row_bytes();
        PoolError::Unrecoverable {
            blob: self.blob.id,
            offset: ByteCount(row + cell as u64 * payload + within.start as u64),
            length: ByteCount(within.len() as u64),
            found,
            needed: self.geometry.data,
        }
    }
}
