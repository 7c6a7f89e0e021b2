//! Makes orders, improves the best, and takes the cheapest.

use base::BlockAddress;
use mechanics::Track;

use super::linear::{LinearFile, LinearTrack, exact_dp, simple_dp};
use super::neighbours::Nodes;
use super::stretch::{Layers, Stretch};
use super::trace::{Spot, Trace, way};
use super::{Aim, Candidate, OrderLimits, Segment, Visit};
use super::{block_order, improve, latency, nearest, small, starts, trace};

/// An order of reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Every segment once.
    pub visits: Vec<Visit>,
    /// Locates and gaps that are read through, in microseconds.
    pub cost_us: u64,
    /// The sum over all segments of the times at which each is read, in microseconds.
    pub waits_us: u64,
    /// How the order was made.
    pub chosen: Candidate,
    /// All that were compared, with what is to be small: the cost for [`Aim::LastFile`], the sum of waits for
    /// [`Aim::MeanWait`].
    pub considered: Vec<(Candidate, u64)>,
}

/// The order in which to read `segments` with the head at `head`.
///
/// Every segment is visited exactly once, those that share blocks one behind the other. The plan never costs
/// more than [`block_order`] or [`nearest_first`](super::nearest_first), costed by [`trace()`].
/// The work is bounded by `limits` and grows with n log n beside it: 100,000 segments take less than a
/// second. Whether the drive's own order is taken instead: [`DriveQuestion`](super::DriveQuestion).
#[must_use]
pub fn plan(track: &Track, head: BlockAddress, segments: &[Segment], aim: Aim, limits: &OrderLimits) -> Plan {
    Planner::new(track, head, segments, aim, limits).plan()
}

pub(super) struct Planner<'p> {
    track: &'p Track,
    head: Spot,
    segments: &'p [Segment],
    aim: Aim,
    limits: &'p OrderLimits,
    layers: Layers,
    offers: Vec<Offer>,
}

struct Offer {
    candidate: Candidate,
    trace: Trace,
}

impl<'p> Planner<'p> {
    pub fn new(
        track: &'p Track,
        head: BlockAddress,
        segments: &'p [Segment],
        aim: Aim,
        limits: &'p OrderLimits,
    ) -> Self {
        let layers = Layers::of(track, head, segments, limits.stretches);
        let head = Spot::of(track, head.0);
        Planner { track, head, segments, aim, limits, layers, offers: Vec::new() }
    }

    /// An order from elsewhere: segments that share blocks come together, what is missing comes last.
    pub fn offer_loose(&mut self, candidate: Candidate, order: &[usize]) {
        let atoms = self.layers.atoms_of(order, self.segments);
        self.offer(candidate, &self.layers.of_atoms(atoms));
    }

    pub fn plan(mut self) -> Plan {
        self.offer(Candidate::BlockOrder, &block_order(self.segments));
        self.offer_nearest();
        let runs = &self.layers.runs;
        let sweep = starts::sweep(self.head, runs);
        let elevator = starts::elevator(self.track, self.head, runs);
        self.offer_runs(Candidate::Sweep, &sweep);
        self.offer_runs(Candidate::Elevator, &elevator);
        if self.aim == Aim::MeanWait {
            self.offer_detours(Candidate::SimpleDp, self.limits.simple_steps, simple_on_wrap);
            self.offer_detours(Candidate::ExactDp, self.limits.exact_steps, exact_on_wrap);
        }
        self.refine();
        self.cheapest()
    }

    fn measure(&self, trace: &Trace) -> u64 {
        match self.aim {
            Aim::LastFile => trace.cost_us,
            Aim::MeanWait => trace.waits_us,
        }
    }

    fn offer(&mut self, candidate: Candidate, order: &[usize]) {
        let trace = trace(self.track, BlockAddress(self.head.block), self.segments, order.iter().copied());
        assert_eq!(trace.visits.len(), self.segments.len(), "{candidate} visits every segment once");
        let same = self.offers.iter().position(|offer| offer.candidate == candidate);
        match same {
            Some(at) if self.measure(&self.offers[at].trace) <= self.measure(&trace) => {}
            Some(at) => self.offers[at].trace = trace,
            None => self.offers.push(Offer { candidate, trace }),
        }
    }

    fn offer_runs(&mut self, candidate: Candidate, order: &[usize]) {
        self.offer(candidate, &self.layers.of_runs(order));
    }

    /// On the finest layer, and where it differs also on that of the runs: the better of both counts.
    fn offer_nearest(&mut self) {
        let Layers { atoms, runs, .. } = &self.layers;
        let fine = nearest::order(self.track, self.head, atoms);
        let coarse = (atoms.len() != runs.len()).then(|| nearest::order(self.track, self.head, runs));
        self.offer(Candidate::NearestFirst, &self.layers.of_atoms(fine));
        if let Some(coarse) = coarse {
            self.offer_runs(Candidate::NearestFirst, &coarse);
        }
    }

    /// Wrap by wrap; on the head's wrap once all at once, and once what lies ahead first.
    fn offer_detours(&mut self, candidate: Candidate, steps: u64, on_wrap: OnWrap) {
        let runs = &self.layers.runs;
        let ahead = runs.partition_point(|run| run.entry.block < self.head.block);
        let split = self.order_of_detours(Some(ahead), steps, on_wrap);
        let whole = self.order_of_detours(None, steps, on_wrap);
        self.offer_runs(candidate.clone(), &split);
        self.offer_runs(candidate, &whole);
    }

    /// From the head on to the end, then from the beginning; with `cut`, the head's wrap is cut there.
    fn order_of_detours(&self, cut: Option<usize>, steps: u64, on_wrap: OnWrap) -> Vec<usize> {
        let runs = &self.layers.runs;
        let part = |at: &usize| (runs[*at].entry.place.wrap, cut.is_some_and(|cut| *at < cut));
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for at in starts::sweep(self.head, runs) {
            match parts.last_mut() {
                Some(last) if part(&last[0]) == part(&at) => last.push(at),
                _ => parts.push(vec![at]),
            }
        }
        if let (None, [first, .., last]) = (cut, &mut parts[..])
            && part(&first[0]) == part(&last[0])
        {
            last.append(first);
            parts.rotate_right(1);
            parts.retain(|part| !part.is_empty());
        }
        let steps = steps / (2 * parts.len() as u64).max(1);
        let mut order = Vec::with_capacity(runs.len());
        for mut part in parts {
            part.sort_unstable();
            let (begin, end) = (part[0], part[part.len() - 1] + 1);
            let straight =
                cut.is_some_and(|cut| begin >= cut) && runs[begin].entry.place.wrap == self.head.place.wrap;
            match on_wrap(self.track, &runs[begin..end], steps).filter(|_| !straight) {
                Some(detours) => order.extend(detours.iter().map(|at| begin + at)),
                None => order.extend(part),
            }
        }
        order
    }

    fn refine(&mut self) {
        let runs = &self.layers.runs;
        if runs.len() < 2 {
            return;
        }
        let nodes = Nodes::new(self.track, self.head, runs);
        let few = self.limits.optimum.min(OrderLimits::OPTIMUM_MAX);
        if runs.len() <= few {
            let order = small::optimum(&nodes, runs, self.aim);
            self.offer_runs(Candidate::Optimum, &order);
            return;
        }
        let all = self.limits.evaluations_each.saturating_mul(runs.len() as u64).min(self.limits.evaluations);
        let mut shorter: Vec<(Candidate, Vec<usize>)> = Vec::new();
        for (candidate, order) in self.best_so_far() {
            shorter.push((candidate, improve::settle(&nodes, &order, all)));
        }
        let shortest = |(_, order): &&mut (Candidate, Vec<usize>)| improve::length(&nodes, order);
        if let Some((_, order)) = shorter.iter_mut().min_by_key(shortest) {
            *order = improve::shake(&nodes, order, all);
        }
        self.offer_improved(shorter);
        if self.aim == Aim::MeanWait {
            let mut sooner: Vec<(Candidate, Vec<usize>)> = Vec::new();
            for (candidate, order) in self.best_so_far() {
                sooner.push((candidate, latency::improve(&nodes, &self.layers.runs, &order, all)));
            }
            self.offer_improved(sooner);
        }
    }

    /// The cheapest, as orders of runs.
    fn best_so_far(&self) -> Vec<(Candidate, Vec<usize>)> {
        let mut best: Vec<&Offer> = self.offers.iter().collect();
        best.sort_by_key(|offer| self.measure(&offer.trace));
        best.truncate(self.limits.improved);
        let order = |offer: &Offer| {
            let order: Vec<usize> = offer.trace.visits.iter().map(|visit| visit.segment).collect();
            (offer.candidate.clone(), self.layers.runs_of(&order, self.segments))
        };
        best.into_iter().map(order).collect()
    }

    fn offer_improved(&mut self, found: Vec<(Candidate, Vec<usize>)>) {
        for (candidate, order) in found {
            self.offer_runs(Candidate::OrOpt(Box::new(candidate)), &order);
        }
    }

    /// The cheapest of what was offered so far.
    pub fn cheapest(self) -> Plan {
        let considered: Vec<(Candidate, u64)> =
            self.offers.iter().map(|offer| (offer.candidate.clone(), self.measure(&offer.trace))).collect();
        let Planner { aim, offers, .. } = self;
        let best = offers.into_iter().min_by_key(|offer| match aim {
            Aim::LastFile => (offer.trace.cost_us, offer.trace.waits_us),
            Aim::MeanWait => (offer.trace.waits_us, offer.trace.cost_us),
        });
        let Offer { candidate, trace } =
            best.unwrap_or(Offer { candidate: Candidate::BlockOrder, trace: Trace::default() });
        let Trace { visits, cost_us, waits_us, .. } = trace;
        Plan { visits, cost_us, waits_us, chosen: candidate, considered }
    }
}

/// An order for the stretches of one wrap, if it takes no more than so many steps.
type OnWrap = fn(&Track, &[Stretch], u64) -> Option<Vec<usize>>;

fn simple_on_wrap(track: &Track, runs: &[Stretch], steps: u64) -> Option<Vec<usize>> {
    let most = steps / (runs.len() as u64).saturating_pow(2).max(1);
    let (files, on) = linear(track, runs, most.saturating_sub(1))?;
    simple_dp(&files, on, steps).map(|plan| plan.order)
}

fn exact_on_wrap(track: &Track, runs: &[Stretch], steps: u64) -> Option<Vec<usize>> {
    let most = steps / (runs.len() as u64).saturating_pow(3).max(1);
    let (files, on) = linear(track, runs, most.saturating_sub(1))?;
    exact_dp(&files, on, steps).map(|plan| plan.order)
}

/// The stretches of one wrap as files on a linear track, in milliseconds of reading. A detour begins with a
/// locate backward, so a turn is half of what such a locate costs apart from the way. Weights are scaled down
/// to `most` in all; with less than one each there is no track.
fn linear(track: &Track, runs: &[Stretch], most: u64) -> Option<(Vec<LinearFile>, LinearTrack)> {
    let (first, last) = (runs.first()?, runs.last()?);
    if most < runs.len() as u64 {
        return None;
    }
    let ms = |block: u64| track.read_us(block - first.entry.block) / 1000;
    let weights: u64 = runs.iter().map(|run| run.weight).sum();
    let scale = weights.div_ceil(most - runs.len() as u64 + 1).max(1);
    let file = |run: &Stretch| LinearFile {
        begin: ms(run.entry.block),
        end: ms(run.exit.block),
        weight: run.weight.div_ceil(scale),
    };
    let behind = Spot { block: first.entry.block.saturating_add(1), place: first.entry.place };
    let turn = way(track, behind, first.entry).1 / 2000;
    let on = LinearTrack { head: ms(last.exit.block), turn };
    Some((runs.iter().map(file).collect(), on))
}
