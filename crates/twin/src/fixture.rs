//! A small site for tests.

use base::{ByteCount, Duration};
use mechanics::{Geometry, RobotTiming};
use scheduler::Policy;

use scenario::model::{
    Arrivals, Choice, ClassIndex, ClassModel, DataPath, Foreign, GatherBy, Holding, LibraryIndex,
    LibraryModel, Model, Network, OneWay, PoolModel, Site, SizeLaw, TapeModel, TapePoolModel, TapeWork,
    Workload, WorkloadKind,
};

pub(crate) const TAPE: u64 = 5_500_000_000_000;

/// One library without drives, as many tape pools as copies, one class of files of 2 GB in data sets of 100.
pub(crate) fn site(copies: u16) -> Site {
    let tape = TapeModel {
        geometry: Geometry::ltfs(80, ByteCount(TAPE / 76), 0..170_000),
        capacity: ByteCount(TAPE),
    };
    let class = ClassModel {
        name: "raw".to_owned(),
        copies: (0..copies).collect(),
        sizes: SizeLaw::Fixed(2_000_000_000),
        large: ByteCount(10_000_000_000),
        pack: ByteCount(20_000_000_000),
        recall_packs: false,
        residency: Duration::from_secs(86_400),
        pool_max: None,
        data_set_files: 100,
        gather: GatherBy::DataSet,
    };
    Site {
        libraries: vec![LibraryModel {
            name: "library".to_owned(),
            robots: RobotTiming { robots: 1, move_us: 10_000_000 },
            drives: Vec::new(),
            tape,
            scratch: 3,
            mount_extra: Duration::ZERO,
        }],
        tape_pools: (0..copies)
            .map(|index| TapePoolModel { name: format!("pool{index}"), library: LibraryIndex(0) })
            .collect(),
        classes: vec![class],
        holdings: Vec::new(),
        pool: pool(),
        path: path(),
        work: TapeWork {
            flush_bytes: ByteCount(1 << 30),
            flush_age: Duration::from_secs(60),
            index_bytes: ByteCount(1 << 40),
            index_bytes_a_file: 100,
            flush_each_file: false,
            recall_batch: ByteCount(1 << 30),
            replan: Duration::from_secs(60),
        },
    }
}

pub(crate) fn pool() -> PoolModel {
    PoolModel {
        capacity: ByteCount(1_000_000_000_000),
        high_water_percent: 90,
        low_water_percent: 80,
        disks: None,
        write_factor: 1.25,
        tape_first: false,
        network: Network { total: u64::MAX, stream: u64::MAX },
    }
}

pub(crate) fn path() -> DataPath {
    DataPath {
        read_file: Duration::ZERO,
        write_file: Duration::ZERO,
        stream: u64::MAX,
        total: u64::MAX,
        read: OneWay::FREE,
        write: OneWay::FREE,
    }
}

pub(crate) fn holding(files: u64) -> Holding {
    Holding {
        class: ClassIndex(0),
        files,
        run_files: 100,
        spread: 1,
        fill: ByteCount(TAPE),
        duplicates_per_mille: 0,
        duplicate_tapes: 0,
        resident_per_mille: 0,
    }
}

pub(crate) fn model(site: Site, kinds: Vec<WorkloadKind>) -> Model {
    let workload = |kind| Workload {
        name: "work".to_owned(),
        class: ClassIndex(0),
        kind,
        begin: Duration::ZERO,
        end: None,
        priority: 5,
    };
    Model {
        name: "test".to_owned(),
        site,
        policy: Policy::default(),
        foreign: Foreign::default(),
        workloads: kinds.into_iter().map(workload).collect(),
        faults: Vec::new(),
        span: Duration::from_secs(365 * 86_400),
        until_done: false,
        warm_up: None,
        step: Duration::from_secs(3600),
        seeds: vec![1],
    }
}

pub(crate) fn choice() -> Choice {
    Choice { files: None, data_sets: false, share_per_mille: 1000, shuffled: false, tapes: 0 }
}

pub(crate) fn arrivals(per_day: f64) -> Arrivals {
    Arrivals {
        per_day,
        day_swing_percent: 0,
        weekend_percent: 100,
        storms_per_year: 0.0,
        storm_factor: 1.0,
        storm_length: Duration::ZERO,
    }
}
