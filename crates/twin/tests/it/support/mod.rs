//! Small sites, built in code.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod choice;

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, Duration, ShareId, TapePoolId};
use mechanics::{DriveTiming, Geometry, RobotTiming};
use scenario::model::{
    Arrivals, Choice, ClassIndex, ClassModel, DataPath, DriveGroup, Fault, FaultKind, Foreign, GatherBy,
    Holding, LibraryIndex, LibraryModel, Model, Network, OneWay, PoolModel, Site, SizeLaw, TapeModel,
    TapePoolModel, TapeWork, Workload, WorkloadKind,
};
use scheduler::{ClassPolicy, Policy, TapePoolPolicy};

pub const MB: u64 = 1_000_000;
pub const GB: u64 = 1_000_000_000;
pub const TB: u64 = 1_000_000_000_000;

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

pub fn timing() -> DriveTiming {
    mechanics::timing("LTO-8").expect("the data know LTO-8")
}

pub fn geometry() -> Geometry {
    let drive = mechanics::drive("LTO-8").expect("the data know LTO-8");
    Geometry::of(drive.own_medium().expect("the data know its medium"))
}

/// One library with these drives, one class of files of 1 GB with a copy in each of `copies` pools, and
/// nothing that happens. Tapes hold `tape` bytes.
pub fn model(drives: u32, copies: u16, tape: u64) -> Model {
    let library = LibraryModel {
        name: "lib".to_owned(),
        robots: RobotTiming { robots: 2, move_us: 12_000_000 },
        drives: vec![DriveGroup { count: drives, timing: timing() }],
        tape: TapeModel { geometry: geometry(), capacity: ByteCount(tape) },
        scratch: 200,
        mount_extra: secs(20),
    };
    let class = ClassModel {
        name: "raw".to_owned(),
        copies: (0..copies).collect(),
        sizes: SizeLaw::Fixed(GB),
        large: ByteCount(GB),
        pack: ByteCount(10 * GB),
        recall_packs: false,
        residency: hours(24),
        pool_max: None,
        data_set_files: 100,
        gather: GatherBy::DataSet,
    };
    let pool = |at: u16| TapePoolModel { name: format!("pool{at}"), library: LibraryIndex(0) };
    let pool_policy = |at: u16| TapePoolPolicy {
        name: format!("pool{at}"),
        mount_bytes: ByteCount(100 * GB),
        mount_age: hours(1),
        drives_max: 2,
        share: ShareId(1),
        ..TapePoolPolicy::default()
    };
    let class_policy =
        ClassPolicy { name: "raw".to_owned(), pack_bytes: ByteCount(10 * GB), pack_age: secs(600) };
    let policy = Policy {
        classes: BTreeMap::from([(ClassId(1), class_policy)]),
        tape_pools: (0..copies).map(|at| (TapePoolId(at + 1), pool_policy(at))).collect(),
        mounts_at_once_max: 4,
        ..Policy::default()
    };
    Model {
        name: "small".to_owned(),
        site: Site {
            libraries: vec![library],
            tape_pools: (0..copies).map(pool).collect(),
            classes: vec![class],
            holdings: Vec::new(),
            pool: PoolModel {
                capacity: ByteCount(20 * TB),
                high_water_percent: 90,
                low_water_percent: 80,
                disks: None,
                write_factor: 1.5,
                tape_first: true,
                network: Network { total: 12_500 * MB, stream: 1_000 * MB },
            },
            path: DataPath {
                read_file: Duration::ZERO,
                write_file: Duration::ZERO,
                stream: 10 * GB,
                total: 100 * GB,
                read: OneWay::FREE,
                write: OneWay::FREE,
            },
            work: TapeWork {
                flush_bytes: ByteCount(20 * GB),
                flush_age: secs(60),
                index_bytes: ByteCount(200 * GB),
                index_bytes_a_file: 1_000,
                flush_each_file: false,
                recall_batch: ByteCount(256 << 20),
                replan: secs(5),
            },
        },
        policy,
        foreign: Foreign::default(),
        workloads: Vec::new(),
        faults: Vec::new(),
        span: hours(24 * 30),
        until_done: true,
        warm_up: None,
        step: hours(1),
        seeds: vec![1],
    }
}

/// So many files lie on tapes, one behind the other.
pub fn hold(model: &mut Model, files: u64) {
    model.site.holdings.push(Holding {
        class: ClassIndex(0),
        files,
        run_files: 100,
        spread: 1,
        fill: ByteCount(0),
        duplicates_per_mille: 0,
        duplicate_tapes: 0,
        resident_per_mille: 0,
    });
}

fn workload(kind: WorkloadKind, name: &str) -> Workload {
    Workload { name: name.to_owned(), class: ClassIndex(0), kind, begin: secs(0), end: None, priority: 4 }
}

/// All files that are chosen are asked for together.
pub fn campaign(model: &mut Model, files: Option<u64>) {
    let choice = Choice { files, data_sets: false, share_per_mille: 1000, shuffled: false, tapes: 0 };
    model.workloads.push(workload(WorkloadKind::Campaign { choice, window: 0 }, "campaign"));
}

pub fn arrivals(per_day: f64) -> Arrivals {
    Arrivals {
        per_day,
        day_swing_percent: 0,
        weekend_percent: 100,
        storms_per_year: 0.0,
        storm_factor: 1.0,
        storm_length: secs(0),
    }
}

/// Files are put for a while.
pub fn ingest(model: &mut Model, per_day: f64, until: Duration) {
    let kind = WorkloadKind::Ingest { arrivals: arrivals(per_day), burst: 1 };
    model.workloads.push(Workload { end: Some(until), ..workload(kind, "ingest") });
}

/// Single files are wanted at random for a while.
pub fn users(model: &mut Model, per_day: f64, until: Duration) {
    let kind =
        WorkloadKind::Users { arrivals: arrivals(per_day), files: 1, popularity: 0.0, repeat_per_mille: 0 };
    model.workloads.push(Workload { end: Some(until), ..workload(kind, "users") });
}

pub fn fault(model: &mut Model, kind: FaultKind, every: Duration, lasts: Duration) {
    model.faults.push(Fault { kind, every, lasts, begin: secs(0) });
}
