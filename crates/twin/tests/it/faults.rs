//! Random worlds in which everything goes wrong: nobody is forgotten, nothing is lost, nothing is done twice.
//!
//! `KIST_TWIN_FAULTS` is how many faults are to fire (`make hunt-twin`: a million); `KIST_TWIN_SEED` the
//! first seed.

use std::collections::BTreeMap;

use crate::support::{GB, TB, campaign, fault, hold, hours, ingest, model, secs, users};
use base::ByteCount;
use durability::SplitMix;
use scenario::model::{CopyRule, FaultKind, Labels, Marks, Model, ReadOrder, SizeLaw};

const FAULTS: u64 = 20_000;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The kinds that came later: worlds of before are as they were.
const CLEANING: [FaultKind; 2] = [FaultKind::DirtyDrive, FaultKind::CleanerUsedUp];

/// A small site that is unlike the others, with every kind of fault.
fn random(seed: u64) -> Model {
    let mut model = random_without_cleaning(seed);
    let mut random = SplitMix::new(seed ^ 0xc1ea);
    for kind in CLEANING {
        let (every, lasts) = (hours(2 + random.below(24) as u64), secs(60));
        fault(&mut model, kind, every, lasts);
    }
    model
}

/// The same with every other kind of fault.
fn random_without_cleaning(seed: u64) -> Model {
    let mut random = SplitMix::new(seed);
    let mut below = |bound: usize| random.below(bound) as u64;
    let (drives, copies) = (1 + below(4) as u32, 1 + below(2) as u16);
    let mut model = model(drives, copies, TB / (1 + below(4)));
    model.site.libraries[0].scratch = 400;
    model.site.pool.capacity = ByteCount((300 + 700 * below(4)) * GB);
    let class = &mut model.site.classes[0];
    class.sizes = match below(3) {
        0 => SizeLaw::Fixed(GB),
        1 => SizeLaw::Table(vec![GB / 100, GB / 10, GB, 2 * GB, 5 * GB]),
        _ => SizeLaw::Fixed(GB / 4),
    };
    class.large = ByteCount([0, GB, 3 * GB][below(3) as usize]);
    class.recall_packs = below(2) == 0;
    class.pool_max = (below(4) == 0).then_some(ByteCount(200 * GB));
    model.site.work.flush_each_file = below(4) == 0;
    model.site.path.read_file = secs(below(2));
    model.site.path.stream = [100 * GB, GB / 5][below(2) as usize];
    model.foreign.queue_limit = [0, 0, 50][below(3) as usize];
    model.foreign.copies =
        [CopyRule::Any, CopyRule::Any, CopyRule::Newest, CopyRule::First][below(4) as usize];
    model.foreign.order =
        [ReadOrder::Planned, ReadOrder::Block, ReadOrder::Arrival, ReadOrder::Window(20)][below(4) as usize];
    model.policy.mounts_at_once_max = 1 + below(4) as usize;
    model.policy.retry_delay = secs(60 + 300 * below(4));
    hold(&mut model, 1_000 + below(2_000));
    if below(2) == 0 {
        campaign(&mut model, Some(200 + below(500)));
    }
    let until = hours(12 + below(36));
    users(&mut model, 500.0 + below(2_000) as f64, until);
    ingest(&mut model, 200.0 + below(1_000) as f64, until);
    for kind in FaultKind::ALL.into_iter().filter(|kind| !CLEANING.contains(kind)) {
        let every = match kind {
            FaultKind::UnreadableTape => hours(24 + below(48)),
            FaultKind::Restart => secs(3_600 + 3_600 * below(12)),
            _ => secs(300 + 600 * below(20)),
        };
        fault(&mut model, kind, every, secs(30 + 300 * below(6)));
    }
    model.span = hours(24 * 10);
    model.foreign.spans = below(2) == 0;
    model.foreign.flush_files = [0, 0, 30][below(3) as usize];
    model.foreign.labels = [Labels::None, Labels::Aul][below(2) as usize];
    model.foreign.marks = [Marks::Immediate, Marks::Synchronous][below(2) as usize];
    model.site.path.write.stream = [100 * GB, GB / 5][below(2) as usize];
    model
}

/// Story: the tape on which a file went on from another one was lost. The file was written once more, and
/// counted twice in its pool.
#[test]
fn a_file_on_two_tapes_that_loses_the_second_is_not_written_again() {
    assert_eq!(twin::run(&random_without_cleaning(2_318), 2_318).violation, None);
}

#[test]
fn whatever_goes_wrong_nothing_is_forgotten() {
    let (wanted, first) = (number("KIST_TWIN_FAULTS", FAULTS), number("KIST_TWIN_SEED", 1));
    let mut fired: BTreeMap<String, u64> = BTreeMap::new();
    let (mut worlds, mut drained, mut requests, mut all) = (0, 0, 0, 0);
    while all < wanted {
        let seed = first + worlds;
        let outcome = twin::run(&random(seed), seed);
        assert_eq!(outcome.violation, None, "KIST_TWIN_SEED={seed} finds it again");
        worlds += 1;
        drained += u64::from(outcome.is_drained);
        requests += outcome.totals.files_wanted;
        for (kind, times) in &outcome.faults {
            *fired.entry(kind.clone()).or_default() += times;
            all += times;
        }
        assert!(worlds < 1_000 || all > worlds, "faults fire");
    }
    println!("{worlds} worlds, {drained} drained, {requests} requests, {all} faults: {fired:?}");
    for kind in FaultKind::ALL {
        assert!(fired.get(kind.name()).is_some_and(|times| *times > 0), "{kind:?} never fired");
    }
    assert!(2 * drained > worlds, "{drained} of {worlds} worlds came to an end");
}
