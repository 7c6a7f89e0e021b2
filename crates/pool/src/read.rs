//! Reading a range of a striped blob, verified, with reconstruction of what is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::{BlobDescription, ByteCount, Crc32c};
use blob::Use;
use erasure::{CodecError, find_bad_cell};

use crate::arena::{CellBuffer, PoolBuffer};
use crate::cell::{BLOCK_BYTES, HEADER_BYTES, stored_checksums};
use crate::code::Code;
use crate::config::{HEDGE_MAX, LATE_LOOK_EVERY, READ_ROWS_AHEAD, STREAM_ROWS_AHEAD_MAX};
use crate::error::PoolError;
use crate::fetch::{CellFault, Check, Fetched, RowPlace};
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
    whose: Use,
    /// How cells are checked that are given out as they come.
    check: Check,
}

/// Cells that may still come, and their shards.
type Late = (Arc<Gather<Fetched>>, BTreeSet<usize>);

/// What is at hand of a row that is being completed.
#[derive(Default)]
struct Hand {
    /// Cells that came, or were rebuilt.
    good: BTreeMap<usize, CellBuffer>,
    /// Of the good cells, those of which only the header was checked. None of them is given out.
    unchecked: BTreeSet<usize>,
    /// Of the good cells, those that were rebuilt; they have no header.
    rebuilt: BTreeSet<usize>,
    /// Shards that are of no use for this row.
    bad: BTreeSet<usize>,
    /// Cells that did not come in time, and may still come.
    late: Vec<Late>,
    /// What this machine lacked for reading.
    shortage: Option<String>,
    /// Room for further cells.
    spare: Vec<CellBuffer>,
}

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
        assert!(offset.0 + length.0 <= blob.length.0, "what is read is part of the blob");
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
            whose: Use::Engine,
            check: Check::Whole,
        }
    }

    /// Says for whom it reads, before the first piece.
    #[must_use]
    pub fn used_by(mut self, whose: Use) -> Self {
        self.whose = whose;
        self
    }

    /// Has the checksums of pieces computed where they are verified, for [`PoolBuffer::checksums`]. Pieces
    /// that had to be rebuilt come without.
    #[must_use]
    pub fn with_checksums(mut self) -> Self {
        self.check = Check::WholeAndSum;
        self
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

    fn advance(&mut self) -> Result<Option<PoolBuffer>, PoolError> {
        if self.ready.is_empty() {
            if self.ahead.is_empty() && self.next < self.end {
                self.start_row(true)?;
            }
            let Some(fetch) = self.ahead.pop_front() else { return Ok(None) };
            let rows = self.rows_ahead();
            while self.ahead.len() < rows && self.next < self.end && self.start_row(false)? {}
            self.complete(fetch)?;
        }
        Ok(self.ready.pop_front())
    }

    /// How many rows are asked for ahead. Of a tape stream many, so that each drive is read in long runs: its
    /// part of half of the memory, of which all have at least what others have.
    fn rows_ahead(&self) -> usize {
        if self.whose != Use::Stream {
            return READ_ROWS_AHEAD;
        }
        let streams = self.pool.traffic().streams().max(1);
        let rows = self.pool.read_arena().capacity() / 2 / self.geometry.data / streams;
        rows.clamp(READ_ROWS_AHEAD, STREAM_ROWS_AHEAD_MAX)
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
        if !self.may_read(place.part.wanted.end - place.part.wanted.start, wait) {
            return Ok(false);
        }
        let arena = self.pool.read_arena();
        let count = shards.len() + known.len();
        let buffers =
            if wait { Some(arena.acquire(count, self.whose)) } else { arena.try_acquire(count, self.whose) };
        let Some(mut buffers) = buffers else { return Ok(false) };
        let gather = Gather::new();
        assert_eq!(buffers.len(), count, "each cell that is read or computed has its memory");
        let spare = buffers.split_off(shards.len());
        // What is computed from is checked in the same pass.
        let check = if known.is_empty() { self.check } else { Check::Header };
        for cell in shards.iter().copied().zip(buffers) {
            place.fetch(&self.pool, &self.geometry, &self.blob, cell, check, &gather);
        }
        let before = self.next;
        self.next = start + place.part.wanted.end;
        assert!(before < self.next && self.next <= self.end, "each row gets on, up to the end");
        self.ahead.push_back(RowFetch { place, gather, asked: shards, spare });
        Ok(true)
    }

    /// Whether so many bytes may be asked of the drives now. A client that has nothing in hand waits until it
    /// may; one that holds rows is told no, so that it gives them out first.
    fn may_read(&self, bytes: u64, wait: bool) -> bool {
        match self.whose {
            Use::Client if wait => self.pool.pace(bytes),
            Use::Client => return self.pool.traffic().try_pass(self.pool.watch(), bytes),
            _ => {}
        }
        true
    }

    fn is_lost(&self, place: &RowPlace, shard: usize) -> bool {
        self.lost.contains(&(place.stripe, shard))
    }

    /// Waits for a row, makes good what is missing, and lays its pieces ready.
    fn complete(&mut self, fetch: RowFetch) -> Result<(), PoolError> {
        let RowFetch { place, gather, asked, spare } = fetch;
        let wanted = place.part.cells(&self.geometry);
        let mut hand = Hand { spare, ..Hand::default() };
        self.take(&place, gather, asked, &mut hand);
        loop {
            let missing: Vec<usize> = wanted.clone().filter(|cell| !hand.good.contains_key(cell)).collect();
            if missing.is_empty() {
                if self.check_unchecked(&place, &wanted, &mut hand) {
                    break;
                }
                continue;
            }
            let untried = self.untried(&place, &wanted, &hand);
            let Some(sources) = self.sources(&hand, &untried, &missing) else {
                if !hand.late.is_empty() {
                    self.take_late(&place, &mut hand);
                    continue;
                }
                if let Some(reason) = hand.shortage {
                    return Err(PoolError::Shortage { blob: self.blob.id, reason });
                }
                return Err(self.unrecoverable(&place, missing[0], hand.good.len() + untried.len()));
            };
            let targets = missing.iter().filter(|cell| !sources.contains(cell)).count();
            if !self.has_room(&place, &wanted, sources.len() + targets, &mut hand) {
                continue;
            }
            if sources.is_empty() {
                self.reconstruct(&place, &missing, &mut hand)?;
                continue;
            }
            let gather = Gather::new();
            let buffers = hand.spare.split_off(hand.spare.len() - sources.len());
            for cell in sources.iter().copied().zip(buffers) {
                place.fetch(&self.pool, &self.geometry, &self.blob, cell, Check::Whole, &gather);
            }
            self.take(&place, gather, sources, &mut hand);
        }
        self.lay_ready(&place, hand.good);
        Ok(())
    }

    /// What to read besides the good cells so as to have all that is missing; `None` if it cannot be had.
    fn sources(&self, hand: &Hand, untried: &[usize], missing: &[usize]) -> Option<Vec<usize>> {
        let candidates: Vec<usize> = hand.good.keys().chain(untried).copied().collect();
        let mut sources = self.code.sources(&candidates, missing)?;
        sources.retain(|shard| !hand.good.contains_key(shard));
        Some(sources)
    }

    /// The shards that may still be read for a row, wanted cells first, those lost in other rows last.
    fn untried(&self, place: &RowPlace, wanted: &Range<usize>, hand: &Hand) -> Vec<usize> {
        let others = (0..self.geometry.width()).filter(|shard| !wanted.contains(shard));
        let is_untried = |shard: &usize| !hand.good.contains_key(shard) && !hand.bad.contains(shard);
        let mut untried: Vec<usize> = wanted.clone().chain(others).filter(is_untried).collect();
        untried.sort_by_key(|shard| self.is_lost(place, *shard));
        untried
    }

    /// Sees to it that there is room for so many cells. If that means to wait for memory, all that is at hand
    /// is given back first, and `false` tells that it is to be read again.
    fn has_room(&mut self, place: &RowPlace, wanted: &Range<usize>, cells: usize, hand: &mut Hand) -> bool {
        let short = cells.saturating_sub(hand.spare.len());
        if short == 0 {
            return true;
        }
        if let Some(buffers) = self.pool.read_arena().try_acquire(short, self.whose) {
            hand.spare.extend(buffers);
            return true;
        }
        // Nothing may be held while waiting for more. A late cell that comes is held by whoever waits for it,
        // so it is not waited for any more.
        hand.good.clear();
        hand.unchecked.clear();
        hand.rebuilt.clear();
        hand.spare.clear();
        for (_, shards) in hand.late.drain(..) {
            hand.bad.retain(|shard| !shards.contains(shard));
        }
        self.drop_ahead();
        // The same choice as the next round makes, so that what is taken here suffices there.
        let untried = self.untried(place, wanted, hand);
        let all: Vec<usize> = wanted.clone().collect();
        let sources = self.sources(hand, &untried, &all).unwrap_or_default();
        let targets = all.iter().filter(|cell| !sources.contains(cell)).count();
        hand.spare = self.pool.read_arena().acquire(sources.len() + targets, self.whose);
        false
    }

    /// Waits for cells that were asked for. If some do not come within a multiple of the usual time and
    /// others can stand in for them, they count as bad for this row and are put on the list of the late.
    fn take(&mut self, place: &RowPlace, gather: Arc<Gather<Fetched>>, asked: Vec<usize>, hand: &mut Hand) {
        self.pool.watch().hedges.asked(asked.len());
        let late_after = self.pool.hedge(self.pool.group_of_drives(&place.set.drives));
        let (mut fetched, mut all) = gather.wait_for(late_after);
        let mut missing: BTreeSet<usize> = asked.into_iter().collect();
        missing.retain(|shard| !fetched.iter().any(|fetched| fetched.shard == *shard));
        let mut waited = Duration::ZERO;
        while !all
            && self.geometry.parity > 0
            && !missing.is_empty()
            && waited < HEDGE_MAX
            && !self.may_hedge(place, &missing)
        {
            waited += LATE_LOOK_EVERY;
            let more;
            (more, all) = gather.wait_for(LATE_LOOK_EVERY);
            missing.retain(|shard| !more.iter().any(|fetched| fetched.shard == *shard));
            fetched.extend(more);
        }
        if all {
            // What a drive that was set aside has dropped.
            self.lost.extend(missing.iter().map(|shard| (place.stripe, *shard)));
            hand.bad.extend(missing);
        } else if self.geometry.parity == 0 {
            let more = self.pool.wait_for_cells(&gather, place, &missing);
            missing.retain(|shard| !more.iter().any(|fetched| fetched.shard == *shard));
            hand.bad.extend(missing);
            fetched.extend(more);
        } else if !missing.is_empty() {
            for shard in &missing {
                place.late(&self.pool, *shard);
                self.lost.insert((place.stripe, *shard));
            }
            hand.bad.extend(&missing);
            hand.late.push((gather, missing));
        }
        self.sort(place, fetched, hand);
    }

    /// Whether others may be read in the place of cells that are late: where their drives are slower than the
    /// others, or seem to hang, or if that is little beside what is read. Not for longer than [`HEDGE_MAX`]:
    /// then it is done whatever it costs.
    fn may_hedge(&self, place: &RowPlace, late: &BTreeSet<usize>) -> bool {
        let is_odd = |shard: &usize| {
            let device = place.set.drives.get(*shard).and_then(|drive| self.pool.device(*drive));
            device.is_none_or(|device| device.slow().is_some() || device.is_stuck())
        };
        // Of a whole row as many more are read as are late, of one cell all that it is computed from.
        let is_whole_row = place.part.cells(&self.geometry).len() == self.geometry.data;
        let more = if is_whole_row { late.len() } else { self.geometry.data };
        late.iter().all(is_odd) || self.pool.watch().hedges.take(more)
    }

    /// Waits until some of the late cells are in, or will not come any more: without them the row cannot be
    /// had. A drive that hangs does not hold up those that are only slow.
    fn take_late(&mut self, place: &RowPlace, hand: &mut Hand) {
        let mut is_news = false;
        while !is_news && !hand.late.is_empty() {
            for (gather, mut shards) in std::mem::take(&mut hand.late) {
                let awaited = shards.len();
                let (fetched, all) = gather.wait_for(LATE_LOOK_EVERY);
                for came in &fetched {
                    hand.bad.remove(&came.shard);
                    shards.remove(&came.shard);
                }
                self.sort(place, fetched, hand);
                shards.retain(|shard| !all && !self.pool.is_silent(place, *shard));
                is_news |= shards.len() < awaited;
                if !shards.is_empty() {
                    hand.late.push((gather, shards));
                }
            }
        }
    }

    fn sort(&mut self, place: &RowPlace, fetched: Vec<Fetched>, hand: &mut Hand) {
        for Fetched { shard, cell, check } in fetched {
            match cell {
                Ok(buffer) => {
                    hand.good.insert(shard, buffer);
                    if check == Check::Header {
                        hand.unchecked.insert(shard);
                    }
                }
                Err(fault) => {
                    hand.bad.insert(shard);
                    if fault.is_lost() {
                        self.lost.insert((place.stripe, shard));
                    }
                    if let CellFault::Shortage(reason) = fault {
                        hand.shortage = Some(reason);
                    }
                }
            }
        }
    }

    /// Checks the wanted cells that no computation has checked on its way; `false` if one was wrong.
    fn check_unchecked(&self, place: &RowPlace, wanted: &Range<usize>, hand: &mut Hand) -> bool {
        let unchecked: Vec<usize> = hand.unchecked.range(wanted.clone()).copied().collect();
        let mut all_right = true;
        for shard in unchecked {
            hand.unchecked.remove(&shard);
            let Some(cell) = hand.good.get(&shard) else { continue };
            let bytes = &cell.as_slice()[HEADER_BYTES..][place.blocks.clone()];
            let expected = stored_checksums(cell.as_slice(), &place.blocks);
            if find_bad_cell(bytes, BLOCK_BYTES, &expected).is_some() {
                self.is_wrong(place, shard, hand);
                all_right = false;
            }
        }
        all_right
    }

    /// A cell is taken from the good ones to the bad ones. What was rebuilt is rebuilt again, so that
    /// whatever is computed from has a header to be checked by.
    fn is_wrong(&self, place: &RowPlace, shard: usize, hand: &mut Hand) {
        place.blocks_are_damaged(&self.pool, &self.geometry, &self.blob, shard);
        hand.bad.insert(shard);
        hand.rebuilt.insert(shard);
        for gone in std::mem::take(&mut hand.rebuilt) {
            hand.unchecked.remove(&gone);
            hand.spare.extend(hand.good.remove(&gone));
        }
    }

    /// Computes the missing cells from the good ones, in the blocks that were read, and checks those that it
    /// reads if that has not been done; one that is wrong is taken out, and nothing was computed.
    fn reconstruct(&self, place: &RowPlace, missing: &[usize], hand: &mut Hand) -> Result<(), PoolError> {
        let range = HEADER_BYTES + place.blocks.start..HEADER_BYTES + place.blocks.end;
        assert!(hand.spare.len() >= missing.len(), "each cell that is computed has its memory");
        let mut targets = hand.spare.split_off(hand.spare.len() - missing.len());
        let mut outputs: Vec<(usize, &mut [u8])> = missing
            .iter()
            .zip(&mut targets)
            .map(|(shard, cell)| (*shard, &mut cell.as_mut_slice()[range.clone()]))
            .collect();
        let good = hand.good.iter().map(|(shard, cell)| (*shard, cell.as_slice()));
        let result = if hand.unchecked.is_empty() {
            let present: Vec<(usize, &[u8])> =
                good.map(|(shard, cell)| (shard, &cell[range.clone()])).collect();
            self.code.reconstruct(&present, &mut outputs).map(|()| Vec::new())
        } else {
            let cells: Vec<(usize, &[u8], Vec<Crc32c>)> = good
                .map(|(shard, cell)| (shard, &cell[range.clone()], stored_checksums(cell, &place.blocks)))
                .collect();
            let present: Vec<(usize, &[u8], &[Crc32c])> =
                cells.iter().map(|(shard, bytes, sums)| (*shard, *bytes, sums.as_slice())).collect();
            self.code.reconstruct_verified(&present, &mut outputs)
        };
        match result {
            Ok(checked) => hand.unchecked.retain(|shard| !checked.contains(shard)),
            Err(CodecError::BadCell { shard, .. }) => {
                hand.spare.append(&mut targets);
                self.is_wrong(place, shard, hand);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        for (shard, cell) in missing.iter().zip(targets) {
            if let Some(drive) = place.set.drives.get(*shard).and_then(|drive| self.pool.drive(*drive)) {
                crate::drives::count(&drive.reconstructions, 1);
            }
            hand.good.insert(*shard, cell);
            hand.rebuilt.insert(*shard);
        }
        Ok(())
    }

    fn lay_ready(&mut self, place: &RowPlace, mut good: BTreeMap<usize, CellBuffer>) {
        let mut laid = 0;
        for cell in place.part.cells(&self.geometry) {
            let within = place.part.within(&self.geometry, cell);
            if let Some(buffer) = good.remove(&cell) {
                let range = HEADER_BYTES + within.start..HEADER_BYTES + within.end;
                laid += range.len() as u64;
                self.ready.push_back(PoolBuffer::of_cell(buffer, range));
            }
        }
        let wanted = place.part.wanted.end - place.part.wanted.start;
        assert_eq!(laid, wanted, "all of a row that was asked for is handed out");
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
