//! The drive's own order (RAO) beside Kist's: what the drive is asked, and which of the two is taken.
//!
//! A drive takes a list of limited length. Of a longer one it is asked for a *piece*: the first stretches of
//! Kist's order, from where the head stands. When that piece is read, the next one is asked for, from where
//! the head stands then: a drive orders from its present place only.

use base::BlockAddress;
use mechanics::Track;

use super::plan::Plan;
use super::stretch::Layers;
use super::trace::{Trace, trace};
use super::{Aim, Candidate, OrderLimits, Segment};

/// Of fewer stretches the drive is not asked: Kist compares all orders of them.
const STRETCHES_MIN: usize = 3;
/// Into more pieces an order is not cut: each costs a plan of all that is left.
const PIECES_MAX: usize = 16;

/// Whose order is taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OrderFrom {
    /// Kist's: the drive is not asked.
    Own,
    /// The drive's wherever it has one.
    Drive,
    /// The drive's, unless Kist's is cheaper by more than the model may be wrong.
    #[default]
    Cheaper,
}

/// What a drive is asked: stretches of blocks that are read in one go, in Kist's order.
#[derive(Debug)]
pub struct DriveQuestion {
    layers: Layers,
    /// All stretches, in Kist's order.
    own: Vec<usize>,
    /// So many of the first are asked for.
    asked: usize,
}

/// What a drive answers that is no order of what it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnOrder;

/// What the two orders cost by the model, and which was taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OrderComparison {
    /// Locates and gaps read through in Kist's order, of a piece up to the first stretch behind it, in
    /// microseconds.
    pub own_us: u64,
    /// The same in the drive's order.
    pub drive_us: u64,
    /// Whether the drive's order was taken.
    pub is_drives: bool,
    /// Stretches that the drive put in order.
    pub asked: usize,
    /// Stretches in all.
    pub stretches: usize,
    /// By which part the model may be wrong; `None`: nobody knows.
    pub error: Option<f64>,
}

/// An order, and how it was come by.
#[derive(Clone, PartialEq, Debug)]
pub struct ChosenOrder {
    /// What is read.
    pub plan: Plan,
    /// Both costs.
    pub comparison: OrderComparison,
}

impl DriveQuestion {
    /// What a drive that takes at most `limit` stretches is asked about `segments`, of which `own` is Kist's
    /// order. `None`: it is not worth asking, or the order would come in too many pieces.
    #[must_use]
    pub fn new(
        track: &Track,
        head: BlockAddress,
        segments: &[Segment],
        own: &Plan,
        limits: &OrderLimits,
        limit: usize,
    ) -> Option<Self> {
        let layers = Layers::of(track, head, segments, limits.stretches);
        let visits: Vec<usize> = own.visits.iter().map(|visit| visit.segment).collect();
        let own = layers.runs_of(&visits, segments);
        let asked = own.len().min(limit);
        let is_worth_it = asked >= STRETCHES_MIN && own.len() <= asked.saturating_mul(PIECES_MAX);
        is_worth_it.then_some(DriveQuestion { layers, own, asked })
    }

    /// The stretches that the drive is asked for.
    #[must_use]
    pub fn stretches(&self) -> Vec<Segment> {
        let stretch = |run: &usize| {
            let run = self.layers.runs.get(*run)?;
            let (begin, end) = (BlockAddress(run.entry.block), BlockAddress(run.exit.block));
            Some(Segment { begin, end })
        };
        self.own.iter().take(self.asked).filter_map(stretch).collect()
    }

    /// How many segments are in the piece that was asked for; `None` if that is all.
    #[must_use]
    pub fn piece(&self) -> Option<usize> {
        let (piece, rest) = self.own.split_at(self.asked);
        (!rest.is_empty()).then(|| self.layers.of_runs(piece).len())
    }

    /// Takes the drive's order, or Kist's. `answer`: positions in [`DriveQuestion::stretches`].
    ///
    /// By `aim` one of the two is cheaper by the model. A model may be wrong, and the drive knows its tape:
    /// so its order is taken unless Kist's is cheaper by more than that ([`Track::error`]); where nobody
    /// knows how wrong it is, always. Of a piece that is compared in which the two differ: with all that is
    /// behind it, by which both cost the same, a bad order of a short piece would be within the error.
    ///
    /// # Errors
    /// [`NotAnOrder`] if the answer does not name each stretch once.
    pub fn choose(
        &self,
        at: (&Track, BlockAddress),
        segments: &[Segment],
        own: &Plan,
        (aim, from): (Aim, OrderFrom),
        answer: &[usize],
    ) -> Result<ChosenOrder, NotAnOrder> {
        let (track, head) = at;
        let (piece, rest) = self.own.split_at(self.asked);
        let order: Vec<usize> = permuted(piece, answer)?.into_iter().chain(rest.iter().copied()).collect();
        let drives = trace(track, head, segments, self.layers.of_runs(&order));
        assert_eq!(drives.visits.len(), segments.len(), "the drive's order has every segment once");
        let behind = self.behind(track, segments);
        let own_us = own.cost_us.saturating_sub(behind.cost_us);
        let drive_us = drives.cost_us.saturating_sub(behind.cost_us);
        let (own_measure, drive_measure) = match aim {
            Aim::LastFile => (own_us, drive_us),
            Aim::MeanWait => {
                let before = |waits_us: u64| waits_us.saturating_sub(behind.waits_us);
                (before(own.waits_us), before(drives.waits_us))
            }
        };
        let is_drives = match (from, track.error) {
            (OrderFrom::Own, _) => false,
            (OrderFrom::Drive, _) | (OrderFrom::Cheaper, None) => true,
            // The sum is exact where the error is none.
            (OrderFrom::Cheaper, Some(error)) => {
                own_measure as f64 >= drive_measure as f64 * (1.0 - error.clamp(0.0, 1.0))
            }
        };
        let comparison = OrderComparison {
            own_us,
            drive_us,
            is_drives,
            asked: self.asked,
            stretches: self.own.len(),
            error: track.error,
        };
        let mut plan = own.clone();
        let considered = if aim == Aim::LastFile { drives.cost_us } else { drives.waits_us };
        plan.considered.push((Candidate::DriveOrder, considered));
        if is_drives {
            (plan.visits, plan.cost_us, plan.waits_us) = (drives.visits, drives.cost_us, drives.waits_us);
            plan.chosen = Candidate::DriveOrder;
        }
        Ok(ChosenOrder { plan, comparison })
    }

    /// What is behind the piece, once the head is there.
    fn behind(&self, track: &Track, segments: &[Segment]) -> Trace {
        let (_, rest) = self.own.split_at(self.asked);
        let first = rest.first().and_then(|run| self.layers.runs.get(*run));
        let Some(first) = first else { return Trace::default() };
        trace(track, BlockAddress(first.entry.block), segments, self.layers.of_runs(rest))
    }
}

/// `of` in this order, which must name each position once.
fn permuted(of: &[usize], order: &[usize]) -> Result<Vec<usize>, NotAnOrder> {
    let mut left: Vec<Option<usize>> = of.iter().copied().map(Some).collect();
    let mut take = |at: &usize| left.get_mut(*at).and_then(Option::take).ok_or(NotAnOrder);
    let taken: Vec<usize> = order.iter().map(&mut take).collect::<Result<_, _>>()?;
    if taken.len() == of.len() { Ok(taken) } else { Err(NotAnOrder) }
}
