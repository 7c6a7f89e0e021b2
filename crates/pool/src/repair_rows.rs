//! The rows of a stripe that is repaired: read ahead of what is computed, and written behind it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use base::BlobDescription;
use blob::Use;
use drive::AlignedBuffer;

use crate::arena::CellBuffer;
use crate::code::Code;
use crate::config::WITNESSES_MIN;
use crate::drives::{PoolDrive, Present};
use crate::error::PoolError;
use crate::fetch::RowPlace;
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::repair::{Target, Why};
use crate::scrub::{AskedCells, BadShard, RowCells, whole_row};
use crate::shard::{Outgoing, Step};

/// Which cells of a row a repair is tried from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Basis {
    /// The shards themselves, which are copied.
    AsTheyAre,
    /// The group of a loss.
    Group,
    /// All.
    Row,
}

/// A stripe that is repaired.
#[derive(Clone, Copy)]
pub(crate) struct Repairing<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) blob: &'a BlobDescription,
    pub(crate) geometry: &'a Geometry,
    pub(crate) code: &'a Code,
    pub(crate) bad: &'a [BadShard],
    pub(crate) why: Why<'a>,
}

impl Repairing<'_> {
    fn bad_shards(&self) -> BTreeSet<usize> {
        self.bad.iter().map(|bad| usize::from(bad.shard)).collect()
    }

    /// What is tried first. Of shards that are copied one read of each is enough, if all are whole.
    fn first_basis(&self, place: &RowPlace) -> (Basis, BTreeSet<usize>) {
        if self.why == Why::Damage {
            return self.basis_of_repair(place);
        }
        let shards = self.bad_shards();
        assert_eq!(shards.len(), self.bad.len(), "each shard of a stripe is named once");
        (Basis::AsTheyAre, shards)
    }

    /// The cells of a row that a repair of the bad shards is made from. A locally repairable code reads the
    /// group of a loss and no more, as long as the group is whole and the loss is a loss; a cell of the group
    /// that does not belong to its row is then found by the next scrub, from the global parity. Else every
    /// cell of the row is read, and those that are not needed bear witness.
    fn basis_of_repair(&self, place: &RowPlace) -> (Basis, BTreeSet<usize>) {
        let Repairing { pool, geometry, code, .. } = self;
        let lost: Vec<usize> = self.bad_shards().into_iter().collect();
        let away = place.missing(pool);
        let may_be_read = |shard: &usize| !lost.contains(shard) && !away.contains(shard);
        let others: Vec<usize> = (0..geometry.width()).filter(may_be_read).collect();
        if geometry.code.local > 0
            && usize::from(geometry.code.global) >= WITNESSES_MIN
            && let Some(sources) = code.sources(&others, &lost)
            && sources.len() < geometry.data
        {
            return (Basis::Group, sources.into_iter().chain(lost).collect());
        }
        (Basis::Row, (0..geometry.width()).collect())
    }

    /// What is tried when that was not enough; `None` if it is all there is.
    fn next_basis(
        &self,
        basis: Basis,
        place: &RowPlace,
        cells: &RowCells,
    ) -> Option<(Basis, BTreeSet<usize>)> {
        match basis {
            Basis::AsTheyAre => (!cells.bad.is_empty()).then(|| self.basis_of_repair(place)),
            Basis::Group => {
                let lost = self.bad_shards();
                let is_as_expected = |shard: &usize| cells.good.contains_key(shard) != lost.contains(shard);
                let mut read = cells.good.keys().chain(cells.bad.keys());
                let all = (0..self.geometry.width()).collect();
                (!read.all(is_as_expected)).then_some((Basis::Row, all))
            }
            Basis::Row => None,
        }
    }
}

/// Rows that are asked for, in order.
pub(crate) struct RowsAhead<'a> {
    of: Repairing<'a>,
    /// The row that is asked for next, and the one behind the last.
    next: u64,
    end: u64,
    /// Cells that may be read ahead.
    most: usize,
    asked: VecDeque<(u64, Basis, AskedCells)>,
}

impl<'a> RowsAhead<'a> {
    pub(crate) fn new(of: Repairing<'a>, rows: std::ops::Range<u64>, most: usize) -> Self {
        RowsAhead { of, next: rows.start, end: rows.end, most, asked: VecDeque::new() }
    }

    /// The next row, and what was read of it; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(RowPlace, RowCells)>, PoolError> {
        self.ask()?;
        let Some((_, mut basis, asked)) = self.asked.pop_front() else { return Ok(None) };
        let (place, mut cells) = asked.wait(self.of.pool);
        while let Some((next, shards)) = self.of.next_basis(basis, &place, &cells) {
            drop(cells);
            let buffers = self.memory(self.of.pool.there(&place, &shards));
            let asked =
                self.of.pool.ask_cells(self.of.blob, self.of.geometry, place.clone(), shards, buffers);
            (basis, cells) = (next, asked.wait(self.of.pool).1);
        }
        Ok(Some((place, cells)))
    }

    /// Asks for rows: for the first one in any case, for further ones as long as there is memory.
    fn ask(&mut self) -> Result<(), PoolError> {
        let Repairing { pool, blob, geometry, .. } = self.of;
        while self.next < self.end {
            let place = whole_row(blob, geometry, self.next).ok_or(PoolError::Description(blob.id))?;
            let (basis, shards) = self.of.first_basis(&place);
            let count = pool.there(&place, &shards);
            let buffers = match self.asked.is_empty() {
                true => pool.scrub_arena().acquire(count, Use::Upkeep),
                false if self.cells_asked() + count > self.most => return Ok(()),
                false => match pool.scrub_arena().try_acquire(count, Use::Upkeep) {
                    Some(buffers) => buffers,
                    None => return Ok(()),
                },
            };
            let asked = pool.ask_cells(blob, geometry, place, shards, buffers);
            self.asked.push_back((self.next, basis, asked));
            self.next += 1;
        }
        Ok(())
    }

    fn cells_asked(&self) -> usize {
        self.asked.iter().map(|(.., asked)| asked.cells()).sum()
    }

    /// Memory for the row in hand. Nobody waits for it with rows in hand that only he can give back: those
    /// ahead are forgotten, and asked for anew. A row and as much again is within the claim of each.
    pub(crate) fn memory(&mut self, count: usize) -> Vec<CellBuffer> {
        let arena = self.of.pool.scrub_arena();
        arena.try_acquire(count, Use::Upkeep).unwrap_or_else(|| {
            self.next = self.asked.front().map_or(self.next, |(row, ..)| *row);
            self.asked.clear();
            arena.acquire(count, Use::Upkeep)
        })
    }
}

/// Steps of shards that drives have.
pub(crate) struct UnderWay<'a> {
    gather: Arc<Gather<usize>>,
    asked: Vec<(usize, &'a Target, Arc<Present>)>,
}

impl UnderWay<'_> {
    /// Waits for them; what does not come back has failed.
    pub(crate) fn wait(self) {
        let UnderWay { gather, asked } = self;
        let done = gather.wait_unless(|done| {
            asked.iter().all(|(number, _, present)| done.contains(number) || present.device.is_away())
        });
        let lost = asked.iter().filter(|(number, ..)| !done.contains(number));
        lost.for_each(|(_, target, _)| target.stream.fail());
    }
}

impl Pool {
    /// Hands a step for each target to its drive.
    pub(crate) fn begin_on_targets<'a>(
        &self,
        steps: impl Iterator<Item = (&'a Target, Step)>,
    ) -> UnderWay<'a> {
        let gather = Gather::new();
        let mut asked = Vec::new();
        for (number, (target, step)) in steps.enumerate() {
            let Some(present) = self.drive(target.stream.drive).and_then(PoolDrive::present) else {
                target.stream.fail();
                continue;
            };
            let ticket = gather.ticket();
            target.stream.queue(&present, step, move || ticket.done(number));
            asked.push((number, target, present));
        }
        UnderWay { gather, asked }
    }
}

/// Cells of a shard that are appended together.
struct Gathered {
    pages: AlignedBuffer,
    length: usize,
}

/// What is written of a stripe: some cells of each shard in one append, which the arm of a disk comes for
/// once, while the next are computed. To be ended before the shards are sealed, or given up: nothing of them
/// is under way then.
pub(crate) struct Appends<'a> {
    pool: &'a Pool,
    targets: &'a [Target],
    /// Bytes of each shard that are gathered.
    most: usize,
    gathered: Vec<Option<Gathered>>,
    under_way: Option<UnderWay<'a>>,
}

impl<'a> Appends<'a> {
    /// Of appends of so many bytes a shard.
    pub(crate) fn new(pool: &'a Pool, targets: &'a [Target], most: usize) -> Self {
        assert!(most > 0, "something is appended");
        let gathered = targets.iter().map(|_| None).collect();
        Appends { pool, targets, most, gathered, under_way: None }
    }

    pub(crate) fn targets(&self) -> &'a [Target] {
        self.targets
    }

    /// Takes a cell of each shard of which there is one: its first so many bytes.
    pub(crate) fn add(&mut self, cells: Vec<(usize, CellBuffer)>, length: usize) {
        let is_full = |gathered: &Option<Gathered>| {
            gathered.as_ref().is_some_and(|gathered| gathered.length + length > self.most)
        };
        if self.gathered.iter().any(is_full) {
            self.hand_over();
        }
        for (number, cell) in cells {
            let room = self.most.max(length);
            let gathered = self.gathered[number]
                .get_or_insert_with(|| Gathered { pages: AlignedBuffer::new(room), length: 0 });
            let (from, to) = (gathered.length, gathered.length + length);
            gathered.pages.as_mut_slice()[from..to].copy_from_slice(&cell.as_slice()[..length]);
            gathered.length = to;
        }
    }

    /// Hands what is gathered to the drives, when they have done what they got before.
    fn hand_over(&mut self) {
        if let Some(before) = self.under_way.take() {
            before.wait();
        }
        let full = self.targets.iter().zip(&mut self.gathered).filter_map(|(target, gathered)| {
            let Gathered { pages, length } = gathered.take()?;
            Some((target, Step::Append(Outgoing::Shared(Arc::new(pages), length))))
        });
        self.under_way = Some(self.pool.begin_on_targets(full));
    }

    /// Writes the rest, and waits for all.
    pub(crate) fn end(&mut self) {
        self.hand_over();
        self.drop_rest();
    }

    /// Waits for what is under way; the rest is not written.
    pub(crate) fn drop_rest(&mut self) {
        self.gathered.iter_mut().for_each(|gathered| *gathered = None);
        if let Some(before) = self.under_way.take() {
            before.wait();
        }
    }
}
