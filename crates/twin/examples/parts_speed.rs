//! How fast the twin's parts are without a scheduler: files laid out, places told, users' acts, the cache.

use std::time::Instant;

use base::{ByteCount, Duration};
use mechanics::{Geometry, RobotTiming};
use scenario::laws::Law;
use scenario::model::{
    Arrivals, ClassIndex, ClassModel, DataPath, Disks, FileNumber, Foreign, GatherBy, Holding, LibraryIndex,
    LibraryModel, Model, Network, OneWay, PoolModel, Site, TapeModel, TapePoolModel, TapeWork, Workload,
    WorkloadKind,
};
use scheduler::Policy;
use twin::cache::Cache;
use twin::disks::{Feed, Stream};
use twin::holdings::Holdings;
use twin::moment::Moment;
use twin::users::{Act, Users};

const TAPE: u64 = 18_000_000_000_000;

fn main() {
    let site = site();
    let mut holdings = laid_out(&site);
    places(&mut holdings);
    users(&site, &mut holdings);
    cache(&site, &mut holdings);
    feed(&site);
}

fn told(what: &str, count: u64, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.2} M/s", count as f64 / seconds / 1e6);
}

/// Resident memory in MB, where the system tells it.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096 / 1_000_000
}

fn laid_out(site: &Site) -> Holdings {
    let (began, before) = (Instant::now(), memory());
    let holdings = Holdings::new(site, 1);
    told("files laid out, two copies each", holdings.files(ClassIndex(0)), began);
    println!("  on {} tapes, {} MB", holdings.tapes().len(), memory().saturating_sub(before));
    holdings
}

fn places(holdings: &mut Holdings) {
    let began = Instant::now();
    let class = ClassIndex(0);
    let mut sum = 0;
    for sequence in 0..10_000_000 {
        sum ^= holdings.copies(FileNumber { class, sequence })[0].byte;
    }
    told("places in order", 10_000_000, began);
    let began = Instant::now();
    for at in 0..300_000u64 {
        let sequence = at * 7_919_993 % 100_000_000;
        sum ^= holdings.copies(FileNumber { class, sequence })[0].byte;
    }
    told("places at random", 300_000, began);
    assert!(sum != 1);
}

fn users(site: &Site, holdings: &mut Holdings) {
    let arrivals = |per_day| Arrivals {
        per_day,
        day_swing_percent: 50,
        weekend_percent: 60,
        storms_per_year: 12.0,
        storm_factor: 5.0,
        storm_length: Duration::from_secs(86_400),
    };
    let kinds = [
        WorkloadKind::Users {
            arrivals: arrivals(20_000.0),
            files: 1,
            popularity: 1.0,
            repeat_per_mille: 200,
        },
        WorkloadKind::Ingest { arrivals: arrivals(20_000.0), burst: 1 },
    ];
    let workload = |kind| Workload {
        name: "users".to_owned(),
        class: ClassIndex(0),
        kind,
        begin: Duration::ZERO,
        end: None,
        priority: 5,
    };
    let model = Model {
        name: "speed".to_owned(),
        site: site.clone(),
        policy: Policy::default(),
        foreign: Foreign::default(),
        workloads: kinds.into_iter().map(workload).collect(),
        faults: Vec::new(),
        span: Duration::from_secs(365 * 86_400),
        until_done: false,
        warm_up: None,
        step: Duration::from_secs(3600),
        seeds: vec![1],
    };
    let began = Instant::now();
    let mut users = Users::new(&model, 1);
    let mut acts: Vec<Act> = Vec::new();
    let mut count = 0;
    while let Some(now) = users.next().filter(|now| now.0 < 365 * 86_400_000_000) {
        users.act(now, holdings, &mut acts);
        count += acts.len() as u64;
        acts.clear();
    }
    told("wants and puts, one by one", count, began);
}

fn cache(site: &Site, holdings: &mut Holdings) {
    let (began, before) = (Instant::now(), memory());
    let mut cache = Cache::new(site, holdings);
    let files = holdings.files(ClassIndex(0));
    told("resident at the beginning", site.holdings[0].files / 10, began);
    println!("  {} MB, grown while it was filled", memory().saturating_sub(before));
    let began = Instant::now();
    let mut gone = Vec::new();
    let count = 3_000_000u64;
    for at in 0..count {
        let now = Moment(at * 1_000);
        let file = FileNumber { class: ClassIndex(0), sequence: at * 7_919_993 % files };
        if !cache.put_in(now, file, 1_000_000, false) {
            cache.evict(now, &mut gone);
        }
        cache.pin(file);
        cache.made_safe(file);
        cache.unpin(now, file);
        let used = FileNumber { class: ClassIndex(0), sequence: 90_000_000 + at * 7_919 % 10_000_000 };
        cache.touch(now, used);
    }
    cache.evict(Moment(365 * 86_400_000_000), &mut gone);
    told("cache operations, at random", count * 5 + gone.len() as u64, began);
}

fn feed(site: &Site) {
    let mut feed = Feed::new(&site.pool, &site.path);
    (0..16).for_each(|_| feed.begin(Stream::TapeWrite, 400_000_000));
    (0..500).for_each(|_| feed.begin(Stream::RandomRead, u64::MAX));
    let began = Instant::now();
    let mut sum = 0;
    for _ in 0..1_000_000 {
        feed.begin(Stream::TapeRead, 360_000_000);
        sum += feed.rate(Stream::TapeRead, 360_000_000);
        feed.end(Stream::TapeRead, 360_000_000);
    }
    told("shares worked out anew", 1_000_000, began);
    let began = Instant::now();
    for _ in 0..10_000_000 {
        sum = sum.wrapping_add(feed.rate(Stream::TapeWrite, 400_000_000));
    }
    told("shares asked for", 10_000_000, began);
    assert!(sum > 0);
}

fn site() -> Site {
    let law = Law::Lognormal { mean: 1e9, sigma: 1.5, least: 1_000, most: 100_000_000_000 };
    let class = ClassModel {
        name: "raw".to_owned(),
        copies: vec![0, 1],
        sizes: law.table().expect("a law with a mean between its bounds"),
        large: ByteCount(10_000_000_000),
        pack: ByteCount(20_000_000_000),
        recall_packs: false,
        residency: Duration::from_secs(30 * 86_400),
        pool_max: None,
        data_set_files: 1000,
        gather: GatherBy::Class,
    };
    let pool = |name: &str| TapePoolModel { name: name.to_owned(), library: LibraryIndex(0) };
    let fill = ByteCount(TAPE);
    Site {
        libraries: vec![LibraryModel {
            name: "library".to_owned(),
            robots: RobotTiming { robots: 2, move_us: 10_000_000 },
            drives: Vec::new(),
            tape: TapeModel {
                geometry: Geometry::ltfs(280, ByteCount(TAPE / 276), 0..170_000),
                capacity: fill,
            },
            scratch: 100,
            mount_extra: Duration::ZERO,
        }],
        tape_pools: vec![pool("first"), pool("second")],
        classes: vec![class],
        holdings: vec![Holding {
            class: ClassIndex(0),
            files: 100_000_000,
            run_files: 100,
            spread: 4,
            fill,
            duplicates_per_mille: 0,
            duplicate_tapes: 0,
            resident_per_mille: 100,
        }],
        pool: disks(),
        path: DataPath {
            read_file: Duration::ZERO,
            write_file: Duration::ZERO,
            stream: u64::MAX,
            total: u64::MAX,
            read: OneWay::FREE,
            write: OneWay::FREE,
        },
        work: TapeWork {
            flush_bytes: ByteCount(1 << 35),
            flush_age: Duration::from_secs(600),
            index_bytes: ByteCount(1 << 40),
            index_bytes_a_file: 100,
            flush_each_file: false,
            recall_batch: ByteCount(1 << 33),
            replan: Duration::from_secs(60),
        },
    }
}

fn disks() -> PoolModel {
    PoolModel {
        capacity: ByteCount(12_000_000_000_000_000),
        high_water_percent: 90,
        low_water_percent: 85,
        disks: Some(Disks {
            count: 240,
            rate: 180_000_000,
            seek: Duration::from_millis(10),
            stream_request: ByteCount::mib(1),
            client_request: ByteCount::kib(256),
            read_limit: u64::MAX,
            write_limit: u64::MAX,
            total_limit: u64::MAX,
            small_write_factor: 1.0,
        }),
        write_factor: 1.25,
        tape_first: true,
        network: Network { total: 50_000_000_000, stream: 10_000_000_000 },
    }
}
