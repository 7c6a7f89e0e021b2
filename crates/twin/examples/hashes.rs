//! temp
#[path = "../tests/support/mod.rs"]
mod support;
use base::ByteCount;
use durability::SplitMix;
use support::{GB, TB, campaign, fault, hold, hours, ingest, model, secs, users};
use twin::model::{CopyRule, FaultKind, Model, ReadOrder, SizeLaw};
/// A small site that is unlike the others, with every kind of fault.
fn random(seed: u64) -> Model {
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
    for kind in FaultKind::ALL {
        let every = match kind {
            FaultKind::UnreadableTape => hours(24 + below(48)),
            FaultKind::Restart => secs(3_600 + 3_600 * below(12)),
            _ => secs(300 + 600 * below(20)),
        };
        fault(&mut model, kind, every, secs(30 + 300 * below(6)));
    }
    model.span = hours(24 * 10);
    model
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf29ce484222325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100000001b3))
}
fn many(seed: u64) -> Model {
    let mut m = random(seed);
    m.site.libraries[0].drives[0].count = 6 + (seed % 19) as u32;
    m.policy.remount_delay = secs([0, 300][(seed % 2) as usize]);
    m.policy.mounts_at_once_max = 1 + (seed % 5) as usize;
    if seed % 3 == 0 {
        m.faults.clear();
        m.span = hours(72);
    }
    m
}
fn main() {
    let mut words = std::env::args().skip(1);
    let (from, to): (u64, u64) =
        (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
    for seed in from..to {
        for (kind, m) in [("faults", random(seed)), ("many", many(seed))] {
            let o = twin::run(&m, seed);
            println!(
                "{kind} {seed} {:016x} events {} steps {} mounts {} read {} {:?}",
                hash(&format!("{o:?}")),
                o.events,
                o.steps,
                o.totals.mounts,
                o.totals.files_read,
                o.violation
            );
        }
    }
}
