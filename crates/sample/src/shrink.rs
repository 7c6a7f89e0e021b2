//! A unit that is small enough for all units to be run.

use serde::Serialize;

use super::draw::oftener;
use super::error::SampleError;
use super::weigh::{self, times, times_u32};
use base::ByteCount;
use scenario::model::{FaultKind, LibraryModel, Model};

/// A unit, made smaller.
#[derive(Clone, PartialEq, Debug)]
pub struct Shrunk {
    /// The smaller unit.
    pub model: Model,
    /// How much smaller.
    pub by: Shrinking,
}

/// How much smaller a unit was made.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shrinking {
    /// Files on tape are divided by this.
    pub scale: u32,
    /// Drives that the unit had.
    pub drives_before: u32,
    /// Drives that it has now.
    pub drives: u32,
    /// What there is of requests, pool, network and scratch tapes: in proportion to the drives that are left,
    /// so that each has as much to do as before.
    pub load: f64,
}

/// A unit with as many times fewer files on tape, of the same sizes.
///
/// Drives become as many times fewer too, but each library keeps one at least; requests, pool, network and
/// scratch tapes go with the drives. What does not scale: sizes of files and tapes, robots, spans and
/// thresholds of the policy; numbers of drives in the policy become as many times fewer, at least 1 (drives
/// that are kept: rounded down).
///
/// # Errors
/// If `scale` is 0, or a workload was recorded.
pub fn shrunk(unit: &Model, scale: u32) -> Result<Shrunk, SampleError> {
    if scale == 0 {
        return Err(SampleError::Scale);
    }
    let mut model = unit.clone();
    let count = |library: &LibraryModel| library.drives.iter().map(|group| group.count).sum::<u32>();
    let mut load = 1.0_f64;
    for library in &mut model.site.libraries {
        let before = count(library);
        fewer_drives(library, scale);
        load = load.min(f64::from(count(library)) / f64::from(before.max(1)));
    }
    let drives = |model: &Model| model.site.libraries.iter().map(count).sum();
    let by = Shrinking { scale, drives_before: drives(unit), drives: drives(&model), load };
    model.site.libraries.iter_mut().for_each(|library| library.scratch = times_u32(library.scratch, load));
    for held in &mut model.site.holdings {
        held.files = times(held.files, 1.0 / f64::from(scale));
        held.duplicate_tapes = times_u32(held.duplicate_tapes, 1.0 / f64::from(scale));
        // The pool shrinks less than what is on tape: as many of its files are there as fit into it.
        let resident = f64::from(held.resident_per_mille) * load * f64::from(scale);
        held.resident_per_mille = resident.round().min(1000.0) as u16;
    }
    for class in &mut model.site.classes {
        class.pool_max = class.pool_max.map(|most| ByteCount(times(most.0, load)));
    }
    model.site.pool = weigh::pool(&unit.site.pool, load);
    model.site.path = weigh::path(&unit.site.path, load);
    model.workloads =
        unit.workloads.iter().map(|workload| weigh::workload(workload, load)).collect::<Result<_, _>>()?;
    fewer_in_policy(&mut model, load);
    for fault in &mut model.faults {
        // These are of whole libraries, and all libraries are still there.
        if !matches!(fault.kind, FaultKind::RobotJam | FaultKind::LibraryAway) {
            *fault = oftener(fault, load);
        }
    }
    Ok(Shrunk { model, by })
}

/// Takes drives from a library's groups, from the last one first.
fn fewer_drives(library: &mut LibraryModel, scale: u32) {
    let all: u32 = library.drives.iter().map(|group| group.count).sum();
    let mut left = times_u32(all, 1.0 / f64::from(scale));
    for group in &mut library.drives {
        group.count = group.count.min(left);
        left -= group.count;
    }
    library.drives.retain(|group| group.count > 0);
}

fn fewer_in_policy(model: &mut Model, load: f64) {
    let most = |most: &mut usize| {
        *most = usize::try_from(times(*most as u64, load)).unwrap_or(usize::MAX);
    };
    let least = |least: &mut usize| *least = (*least as f64 * load).floor() as usize;
    let policy = &mut model.policy;
    for side in [&mut policy.recall, &mut policy.migration] {
        most(&mut side.drives_max);
        least(&mut side.drives_min);
    }
    for pool in policy.tape_pools.values_mut() {
        most(&mut pool.drives_max);
        least(&mut pool.drives_min);
    }
    for share in policy.shares.values_mut() {
        most(&mut share.drives_max);
        least(&mut share.drives_min);
    }
}
