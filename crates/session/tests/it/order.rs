//! Orders of reading against a checker and a nearest-first search that share no code with them.

use base::BlockAddress;
use mechanics::{LocateCost, Place, TapeMap, Track};
use proptest::prelude::*;
use session::order::{
    Aim, Approach, OrderLimits, Plan, Replan, Segment, Visit, block_order, nearest_first, plan, replan, trace,
};

/// What CTA fitted on LTO-7 type M, and no locate below its fixed part.
const COST: LocateCost = LocateCost {
    base_us: 4.29e6,
    wrap_change_us: 6.69e6,
    band_change_us: 3.20e6,
    landing_zone_change_us: -6.04e6,
    direction_change_us: 5.22e6,
    step_back_us: 11.32e6,
    lpos_us: 619.2,
    least_us: 4.29e6,
};

/// A tape of so many wraps of so many blocks; a wrap takes 160 s.
fn tape(wraps: u16, blocks: u64) -> Track {
    let map = TapeMap::even(blocks, wraps, 0, wraps, 2_696..171_097);
    Track { map, locate: COST, block_us: 160e6 / blocks as f64, error: Some(0.0), fitted: None }
}

fn segment(begin: u64, end: u64) -> Segment {
    Segment { begin: BlockAddress(begin), end: BlockAddress(end) }
}

/// A fixed sequence of numbers, so that each run is the same.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Disjoint segments of 1 to `longest` blocks in random order, with gaps, some of which are 0.
fn disjoint(next: &mut impl FnMut(u64) -> u64, count: u64, longest: u64, all: u64) -> Vec<Segment> {
    let slot = all / count;
    let mut segments: Vec<Segment> = (0..count)
        .map(|at| {
            let length = 1 + next(longest.min(slot));
            let begin = at * slot + if next(4) == 0 { 0 } else { next(slot - length + 1) };
            segment(begin, begin + if next(4) == 0 { slot - (begin - at * slot) } else { length })
        })
        .collect();
    for at in (1..segments.len()).rev() {
        segments.swap(at, next(at as u64 + 1) as usize);
    }
    segments
}

/// The cost from block to block, written down again.
fn step(track: &Track, from: u64, to: u64) -> (Approach, u64) {
    if from == to {
        return (Approach::Stream, 0);
    }
    let (a, b) = (track.place(BlockAddress(from)), track.place(BlockAddress(to)));
    let quarter = |place: Place| place.wrap as usize * 4 / track.map.wraps() as usize;
    let mut us = COST.base_us + COST.lpos_us * (f64::from(a.lpos) - f64::from(b.lpos)).abs();
    if a.wrap == b.wrap {
        us += if to < from { COST.step_back_us } else { 0.0 };
    } else {
        us += COST.wrap_change_us;
    }
    us += if quarter(a) == quarter(b) { 0.0 } else { COST.band_change_us };
    us += if a.wrap % 2 == b.wrap % 2 { 0.0 } else { COST.direction_change_us };
    let middle = (171_097 - 2_696) / 2;
    us += if (a.lpos < middle) == (b.lpos < middle) { 0.0 } else { COST.landing_zone_change_us };
    let locate = us.max(COST.least_us).round() as u64;
    let read = if to > from { ((to - from) as f64 * track.block_us).round() as u64 } else { u64::MAX };
    if read <= locate { (Approach::ReadThrough, read) } else { (Approach::Locate, locate) }
}

/// Walks through a plan; says what is wrong with it. Costs may differ by what rounding of sums explains.
fn check(track: &Track, head: u64, segments: &[Segment], plan: &Plan) -> Result<(), String> {
    let mut left = vec![true; segments.len()];
    let (mut at, mut cost, mut read, mut waits) = (head, 0u64, 0.0, 0.0);
    let mut before: Option<u64> = None;
    for visit in &plan.visits {
        let found = left.get_mut(visit.segment).ok_or("no such segment")?;
        if !std::mem::replace(found, false) {
            return Err(format!("segment {} twice", visit.segment));
        }
        let Segment { begin: BlockAddress(begin), end: BlockAddress(end) } = segments[visit.segment];
        let passes = before.is_some_and(|before| before <= begin && begin <= at);
        let (how, way) = if passes { (Approach::Stream, 0) } else { step(track, at, begin) };
        if how != visit.approach {
            return Err(format!("segment {}: {:?}, not {how:?}", visit.segment, visit.approach));
        }
        cost += way;
        let from = if passes { at } else { begin };
        read += (end.max(from) - from) as f64 * track.block_us;
        at = end.max(from);
        before = Some(begin);
        waits += cost as f64 + read;
    }
    if left.contains(&true) {
        return Err("a segment is left out".to_owned());
    }
    let count = segments.len() as f64;
    let differs = |one: u64, other: f64, by: f64| (one as f64 - other).abs() > by;
    match () {
        () if differs(plan.cost_us, cost as f64, 2.0 * count) => {
            Err(format!("{} us, not {cost}", plan.cost_us))
        }
        () if differs(plan.waits_us, waits, 2.0 * count * count) => {
            Err(format!("waits {}, not {waits}", plan.waits_us))
        }
        () => Ok(()),
    }
}

/// Nearest first by looking at all pairs, for disjoint segments.
fn nearest_by_force(track: &Track, head: u64, segments: &[Segment]) -> u64 {
    let mut left: Vec<Segment> = segments.to_vec();
    let (mut at, mut cost) = (head, 0);
    while !left.is_empty() {
        let key = |segment: &Segment| {
            let lpos = |block| track.place(BlockAddress(block)).lpos;
            (step(track, at, segment.begin.0).1, lpos(at).abs_diff(lpos(segment.begin.0)), *segment)
        };
        let best = (0..left.len()).min_by_key(|index| key(&left[*index])).unwrap();
        cost += step(track, at, left[best].begin.0).1;
        at = left.swap_remove(best).end.0;
    }
    cost
}

fn cost_of(track: &Track, head: u64, segments: &[Segment], order: &[usize]) -> u64 {
    trace(track, BlockAddress(head), segments, order.iter().copied()).cost_us
}

fn last_file(track: &Track, head: u64, segments: &[Segment]) -> Plan {
    plan(track, BlockAddress(head), segments, Aim::LastFile, &OrderLimits::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn disjoint_segments_cost_no_more_than_block_order_and_nearest_first(
        seed: u64, wraps in 1u16..=24, blocks in 40u64..=2_000, count in 1u64..=120, stretches in 1usize..=80
    ) {
        let track = tape(wraps, blocks);
        let all = blocks * u64::from(wraps);
        let mut next = numbers(seed);
        let segments = disjoint(&mut next, count.min(all), 1 + all / count / 2, all);
        let head = next(all + 1);
        let limits = OrderLimits { stretches, evaluations_each: 200, ..OrderLimits::default() };
        let made = plan(&track, BlockAddress(head), &segments, Aim::LastFile, &limits);
        prop_assert_eq!(check(&track, head, &segments, &made), Ok(()));
        let blockwise = cost_of(&track, head, &segments, &block_order(&segments));
        let nearest = cost_of(&track, head, &segments, &nearest_first(&track, BlockAddress(head), &segments));
        prop_assert_eq!(nearest, nearest_by_force(&track, head, &segments));
        prop_assert!(made.cost_us <= blockwise.min(nearest), "{} {blockwise} {nearest}", made.cost_us);
        let again = plan(&track, BlockAddress(head), &segments, Aim::LastFile, &limits);
        prop_assert_eq!(made, again);
    }

    #[test]
    fn overlapping_segments_are_each_visited_once_and_read_together(
        wraps in 1u16..=8, pairs in prop::collection::vec((0u64..900, 0u64..30), 0..60), head in 0u64..1_000,
        waits: bool
    ) {
        let (track, all) = (tape(wraps, 100), u64::from(wraps) * 100);
        let (head, room) = (head % all, all - 30);
        let some = |(begin, length): &(u64, u64)| segment(begin % room, begin % room + length);
        let segments: Vec<Segment> = pairs.iter().map(some).collect();
        let aim = if waits { Aim::MeanWait } else { Aim::LastFile };
        let limits = OrderLimits::default();
        let made = plan(&track, BlockAddress(head), &segments, aim, &limits);
        prop_assert_eq!(check(&track, head, &segments, &made), Ok(()));
        let of = |order: &[usize]| trace(&track, BlockAddress(head), &segments, order.iter().copied());
        for order in [block_order(&segments), nearest_first(&track, BlockAddress(head), &segments)] {
            match aim {
                Aim::LastFile => prop_assert!(made.cost_us <= of(&order).cost_us),
                Aim::MeanWait => prop_assert!(made.waits_us <= of(&order).waits_us),
            }
        }
    }

    #[test]
    fn nothing_panics(
        pairs in prop::collection::vec((0u64..1 << 62, 0u64..1 << 62), 0..40), head in 0u64..1 << 62,
        block_us in prop::num::f64::ANY, base_us in prop::num::f64::ANY, lpos_us in prop::num::f64::ANY,
        waits: bool, stretches in 0usize..20, optimum in 0usize..20
    ) {
        let locate = LocateCost { base_us, lpos_us, ..COST };
        let track = Track { locate, block_us, ..tape(6, 1 << 20) };
        let segments: Vec<Segment> = pairs.iter().map(|(begin, end)| segment(*begin, *end)).collect();
        let aim = if waits { Aim::MeanWait } else { Aim::LastFile };
        let limits = OrderLimits { stretches, optimum, ..OrderLimits::default() };
        let (made, _) = replan(&track, BlockAddress(head), &segments, &[3, 3, 99, 1], aim, &limits);
        prop_assert_eq!(made.visits.len(), segments.len());
    }

    #[test]
    fn new_segments_are_taken_in(seed: u64, old in 1u64..40, new in 0usize..20, whole: bool) {
        let track = tape(12, 500);
        let mut next = numbers(seed);
        let segments = disjoint(&mut next, old + new as u64, 30, 6_000);
        let head = next(6_000);
        let known = &segments[..old as usize];
        let before: Vec<usize> =
            last_file(&track, head, known).visits.iter().map(|visit| visit.segment).collect();
        let replan_segments = if whole { 1_000 } else { 0 };
        let limits = OrderLimits { replan_segments, ..OrderLimits::default() };
        let (made, how) = replan(&track, BlockAddress(head), &segments, &before, Aim::LastFile, &limits);
        prop_assert_eq!(check(&track, head, &segments, &made), Ok(()));
        if whole {
            let only = OrderLimits { replan_segments: 0, ..limits };
            let (kept, _) = replan(&track, BlockAddress(head), &segments, &before, Aim::LastFile, &only);
            let nearest = nearest_by_force(&track, head, &segments);
            prop_assert!(made.cost_us <= kept.cost_us.min(nearest));
        } else {
            prop_assert_eq!(how, Replan::Inserted);
            let kept: Vec<usize> =
                made.visits.iter().map(|visit| visit.segment).filter(|at| *at < old as usize).collect();
            prop_assert_eq!(kept, before);
        }
    }
}

/// The checker of this file must be able to fail.
#[test]
fn a_wrong_plan_is_found() {
    let track = tape(16, 1_000);
    let mut next = numbers(7);
    let segments = disjoint(&mut next, 40, 60, 16_000);
    let good = last_file(&track, 5_000, &segments);
    assert_eq!(check(&track, 5_000, &segments, &good), Ok(()));
    let complains = |change: &dyn Fn(&mut Plan), about: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = check(&track, 5_000, &segments, &bad).unwrap_err();
        assert!(found.contains(about), "{found}");
    };
    complains(&|plan| plan.visits.swap(3, 30), "");
    complains(&|plan| plan.cost_us -= 1_000_000, "us, not");
    complains(&|plan| plan.waits_us += 1_000_000, "waits");
    complains(&|plan| plan.visits.truncate(39), "left out");
    complains(&|plan| plan.visits[1] = plan.visits[0], "twice");
    complains(&|plan| plan.visits.push(Visit { segment: 40, approach: Approach::Locate }), "no such");
    let located = good.visits.iter().position(|visit| visit.approach == Approach::Locate).unwrap();
    complains(&|plan| plan.visits[located].approach = Approach::ReadThrough, "not Locate");
}

#[test]
fn a_small_gap_is_read_through_also_where_a_wrap_ends() {
    let track = tape(8, 1_000);
    let within = [segment(100, 110), segment(115, 120)];
    let across = [segment(980, 995), segment(1_003, 1_010)];
    for (head, segments) in [(100, within), (980, across)] {
        let made = last_file(&track, head, &segments);
        let hows: Vec<Approach> = made.visits.iter().map(|visit| visit.approach).collect();
        assert_eq!(hows, [Approach::Stream, Approach::ReadThrough], "{made:?}");
        let gap = segments[1].begin.0 - segments[0].end.0;
        assert_eq!(made.cost_us, track.read_us(gap));
    }
    let far = last_file(&track, 100, &[segment(100, 110), segment(400, 410)]);
    assert_eq!(far.visits[1].approach, Approach::Locate);
}

#[test]
fn many_files_in_one_block_are_one_visit_of_the_tape() {
    let track = tape(8, 1_000);
    let segments = vec![segment(500, 501); 1_000];
    let made = last_file(&track, 500, &segments);
    assert_eq!((made.cost_us, made.visits.len()), (0, 1_000));
    assert!(made.visits.iter().all(|visit| visit.approach == Approach::Stream));
    let one_block = track.read_us(1);
    assert_eq!(made.waits_us, 1_000 * one_block);
}

#[test]
fn where_there_are_more_stretches_than_are_ordered_all_are_read_nevertheless() {
    let track = tape(208, 100_000);
    let mut next = numbers(11);
    let segments = disjoint(&mut next, 20_000, 900, 20_800_000);
    let made = last_file(&track, 12_345_678, &segments);
    assert_eq!(check(&track, 12_345_678, &segments, &made), Ok(()));
}

/// The cheapest of all orders by trying them.
fn best_by_force(
    track: &Track,
    at: u64,
    left: &mut Vec<Segment>,
    spent: u64,
    waits: Option<u64>,
    best: &mut u64,
) {
    let measure = waits.unwrap_or(spent);
    if measure >= *best {
        return;
    }
    if left.is_empty() {
        *best = measure;
        return;
    }
    for _ in 0..left.len() {
        let segment = left.remove(0);
        let reading = match waits {
            Some(_) => track.read_us(segment.end.0 - segment.begin.0),
            None => 0,
        };
        let then = spent + step(track, at, segment.begin.0).1 + reading;
        best_by_force(track, segment.end.0, left, then, waits.map(|sum| sum + then), best);
        left.push(segment);
    }
}

fn apart(next: &mut impl FnMut(u64) -> u64, count: u64, all: u64) -> Vec<Segment> {
    let slot = all / count;
    (0..count)
        .map(|at| {
            let begin = at * slot + next(slot / 2);
            segment(begin, begin + 1 + next(slot / 4))
        })
        .collect()
}

#[test]
fn few_files_have_the_best_of_all_orders() {
    let mut next = numbers(3);
    for _ in 0..120 {
        let wraps = 1 + next(12) as u16;
        let (track, all) = (tape(wraps, 1_000), u64::from(wraps) * 1_000);
        let segments = {
            let count = 2 + next(6);
            apart(&mut next, count, all)
        };
        let head = next(all);
        for (aim, waits) in [(Aim::LastFile, None), (Aim::MeanWait, Some(0))] {
            let made = plan(&track, BlockAddress(head), &segments, aim, &OrderLimits::default());
            let mut best = u64::MAX;
            best_by_force(&track, head, &mut segments.clone(), 0, waits, &mut best);
            let found = if waits.is_some() { made.waits_us } else { made.cost_us };
            assert_eq!(found, best, "{aim:?} {segments:?} from {head}");
        }
    }
}

/// Without the search through all orders, what is left is how good the others are.
#[test]
fn the_improved_orders_are_near_the_best_of_all() {
    let mut next = numbers(5);
    for (aim, waits, bound) in [(Aim::LastFile, None, 1.01), (Aim::MeanWait, Some(0), 1.02)] {
        let (mut sum, mut worst, mut cases) = (0.0, 1.0f64, 0.0);
        for _ in 0..150 {
            let wraps = 4 + next(20) as u16;
            let (track, all) = (tape(wraps, 1_000), u64::from(wraps) * 1_000);
            let segments = {
                let count = 6 + next(3);
                apart(&mut next, count, all)
            };
            let head = next(all);
            let limits = OrderLimits { optimum: 0, ..OrderLimits::default() };
            let made = plan(&track, BlockAddress(head), &segments, aim, &limits);
            let mut best = u64::MAX;
            best_by_force(&track, head, &mut segments.clone(), 0, waits, &mut best);
            let found = if waits.is_some() { made.waits_us } else { made.cost_us };
            assert!(found >= best, "nothing is better than the best: {found} {best}");
            let ratio = found as f64 / best as f64;
            (sum, worst, cases) = (sum + ratio, worst.max(ratio), cases + 1.0);
        }
        let mean = sum / cases;
        println!("{aim:?}: mean {mean:.4}, worst {worst:.4} of the best order, {cases} cases");
        assert!(mean <= bound, "{aim:?}: {mean}");
    }
}
