//! Sums, bins and drives add up, however long a run is.

use base::{ByteCount, Duration};
use mechanics::RobotTiming;
use scheduler::Policy;

use super::bins::{BINS_MAX, Bins};
use super::progress::{Progress, TIMES_MAX};
use super::*;
use crate::model::{DataPath, Foreign, Network, PoolModel, Site, TapeWork};
use crate::outcome::{Outcome, Series};

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000)
}

/// A site without anything but a class and a workload.
fn model(step: u64) -> Model {
    let class = crate::model::ClassModel {
        name: "raw".into(),
        copies: vec![],
        sizes: crate::model::SizeLaw::Fixed(1),
        large: ByteCount::new(1),
        pack: ByteCount::new(1),
        recall_packs: false,
        residency: Duration::ZERO,
        pool_max: None,
        data_set_files: 1,
    };
    let choice = crate::model::Choice {
        files: None,
        data_sets: false,
        share_per_mille: 1000,
        shuffled: false,
        tapes: 0,
    };
    let workload = Workload {
        name: "campaign".into(),
        class: ClassIndex(0),
        kind: WorkloadKind::Campaign { choice, window: 0 },
        begin: Duration::ZERO,
        end: None,
        priority: 5,
    };
    Model {
        name: "variant".into(),
        site: site(class),
        policy: Policy::default(),
        foreign: Foreign::default(),
        workloads: vec![workload],
        faults: vec![],
        span: Duration::from_secs(1_000_000),
        until_done: true,
        warm_up: None,
        step: Duration::from_secs(step),
        seeds: vec![1],
    }
}
