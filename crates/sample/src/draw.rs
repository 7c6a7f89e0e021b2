//! One model of several units.

use base::{ClassId, LibraryId, ShareId, TapePoolId};
use scheduler::{Policy, SidePolicy};

use super::error::SampleError;
use super::population::Population;
use super::weigh;
use scenario::model::{ClassIndex, Fault, FaultKind, LibraryIndex, Model, Site};
use scenario::{
    CLASSES_MAX, DRIVES_MAX, FILES_MAX, HOLDINGS_MAX, LIBRARIES_MAX, RUNS_MAX, TAPE_POOLS_MAX, WORKLOADS_MAX,
};

/// Units that are run together.
#[derive(Clone, PartialEq, Debug)]
pub struct Draw {
    /// All of them in one model.
    pub model: Model,
    /// Indices of the units, in the order in which they stand in the model.
    pub chosen: Vec<usize>,
    /// The weight of each.
    pub weights: Vec<f64>,
    /// Units that there are.
    pub units: u32,
    /// The seed that they were chosen with, and that they are to be run with.
    pub seed: u64,
}

/// Chooses `run` units with a seed and makes one model of them.
///
/// Each unit has its own libraries, tape pools, classes, holdings and workloads, named with its number
/// (`main-17`); its workloads are as many times the unit's as its weight says. Scheduler, pool, network and
/// the way to tape are common; pool and bandwidth are those of one unit times the weights of all, so that a
/// file stays in the pool as long as with all units. Faults of hardware come as much oftener.
///
/// # Errors
/// If so many cannot be chosen, a workload cannot be weighed, or it is too much for one world.
pub fn draw(unit: &Model, population: &Population, run: u32, seed: u64) -> Result<Draw, SampleError> {
    let chosen = population.choose(run, seed)?;
    let units = population.units();
    let weights: Vec<f64> =
        chosen.iter().filter_map(|unit| population.weights().get(*unit).copied()).collect();
    check(unit, u64::from(run))?;
    let mut model = unit.clone();
    model.site = site(&unit.site, &chosen, weights.iter().sum());
    model.policy = policy(unit, &chosen);
    model.faults = unit.faults.iter().map(|fault| oftener(fault, f64::from(run))).collect();
    model.workloads.clear();
    for (at, (number, weight)) in chosen.iter().zip(&weights).enumerate() {
        for workload in &unit.workloads {
            let mut weighed = weigh::workload(workload, *weight)?;
            weighed.name = named(&workload.name, *number);
            weighed.class = ClassIndex(shift(weighed.class.0, at, unit.site.classes.len()));
            model.workloads.push(weighed);
        }
    }
    Ok(Draw { model, chosen, weights, units, seed })
}

/// The name of a unit's part: units count from 1.
pub fn named(name: &str, unit: usize) -> String {
    format!("{name}-{}", unit + 1)
}

/// An index of a unit as one of the whole, where `each` unit has so many; [`check`] saw to it that it fits.
fn shift(index: u16, at: usize, each: usize) -> u16 {
    index.saturating_add(u16::try_from(at * each).unwrap_or(u16::MAX))
}

fn check(unit: &Model, run: u64) -> Result<(), SampleError> {
    let site = &unit.site;
    let drives = site.libraries.iter().flat_map(|library| &library.drives);
    let drives: u64 = drives.map(|group| u64::from(group.count)).sum();
    let files: u64 = site.holdings.iter().fold(0, |sum, held| sum.saturating_add(held.files));
    let runs = site.holdings.iter().map(|held| held.files.div_ceil(u64::from(held.run_files.max(1))));
    let limits = [
        ("libraries", site.libraries.len() as u64, LIBRARIES_MAX as u64, "LIBRARIES_MAX"),
        ("drives", drives, DRIVES_MAX, "DRIVES_MAX"),
        ("tape pools", site.tape_pools.len() as u64, TAPE_POOLS_MAX as u64, "TAPE_POOLS_MAX"),
        ("classes", site.classes.len() as u64, CLASSES_MAX as u64, "CLASSES_MAX"),
        ("holdings", site.holdings.len() as u64, HOLDINGS_MAX as u64, "HOLDINGS_MAX"),
        ("workloads", unit.workloads.len() as u64, WORKLOADS_MAX as u64, "WORKLOADS_MAX"),
        ("files", files, FILES_MAX, "FILES_MAX"),
        ("runs of files", runs.fold(0, u64::saturating_add), RUNS_MAX, "RUNS_MAX"),
    ];
    for (what, each, most, limit) in limits {
        let found = each.saturating_mul(run);
        if found > most {
            return Err(SampleError::Limit { what, found, most, limit });
        }
    }
    Ok(())
}

fn site(unit: &Site, chosen: &[usize], load: f64) -> Site {
    let mut site = unit.clone();
    site.pool = weigh::pool(&unit.pool, load);
    site.path = weigh::path(&unit.path, load);
    site.libraries.clear();
    site.tape_pools.clear();
    site.classes.clear();
    site.holdings.clear();
    for (at, number) in chosen.iter().enumerate() {
        let rename = |name: &mut String| *name = named(name, *number);
        site.libraries.extend(unit.libraries.iter().cloned().map(|mut library| {
            rename(&mut library.name);
            library
        }));
        site.tape_pools.extend(unit.tape_pools.iter().cloned().map(|mut pool| {
            rename(&mut pool.name);
            pool.library = LibraryIndex(shift(pool.library.0, at, unit.libraries.len()));
            pool
        }));
        site.classes.extend(unit.classes.iter().cloned().map(|mut class| {
            rename(&mut class.name);
            class.copies.iter_mut().for_each(|copy| *copy = shift(*copy, at, unit.tape_pools.len()));
            class
        }));
        site.holdings.extend(unit.holdings.iter().cloned().map(|mut held| {
            held.class = ClassIndex(shift(held.class.0, at, unit.classes.len()));
            held
        }));
    }
    site
}

fn policy(unit: &Model, chosen: &[usize]) -> Policy {
    let of = &unit.policy;
    let all = |side: &SidePolicy| {
        let most = side.drives_max.saturating_mul(chosen.len());
        SidePolicy { drives_min: side.drives_min.saturating_mul(chosen.len()), drives_max: most }
    };
    let mut policy = of.clone();
    policy.recall = all(&of.recall);
    policy.migration = all(&of.migration);
    policy.classes.clear();
    policy.tape_pools.clear();
    policy.shares.clear();
    policy.libraries.clear();
    let (classes, pools, libraries) =
        (unit.site.classes.len(), unit.site.tape_pools.len(), unit.site.libraries.len());
    for (at, number) in chosen.iter().enumerate() {
        // Nobody's share, 0, stays nobody's.
        let share = |share: ShareId| match share.0 {
            0 => share,
            of_class => ShareId(shift(of_class, at, classes)),
        };
        for (id, class) in &of.classes {
            let name = named(&class.name, *number);
            let class = scheduler::ClassPolicy { name, ..class.clone() };
            policy.classes.insert(ClassId(shift(id.0, at, classes)), class);
        }
        for (id, pool) in &of.tape_pools {
            let mut pool = pool.clone();
            pool.name = named(&pool.name, *number);
            pool.share = share(pool.share);
            pool.library = pool.library.map(|library| LibraryId(shift(library.0, at, libraries)));
            policy.tape_pools.insert(TapePoolId(shift(id.0, at, pools)), pool);
        }
        for (id, of) in &of.shares {
            let name = named(&of.name, *number);
            policy.shares.insert(share(*id), scheduler::SharePolicy { name, ..of.clone() });
        }
        for (id, library) in &of.libraries {
            let name = named(&library.name, *number);
            let library = scheduler::LibraryPolicy { name, ..library.clone() };
            policy.libraries.insert(LibraryId(shift(id.0, at, libraries)), library);
        }
    }
    policy
}

/// A fault that comes so many times as often, if it is one of a piece of hardware or a request. One of the
/// server, the network, the pool or all users hits the whole site at once, however large it is.
pub fn oftener(fault: &Fault, factor: f64) -> Fault {
    use FaultKind::{Restart, SlowNetwork, SlowPool, UserStorm};
    if matches!(fault.kind, Restart | SlowNetwork | SlowPool | UserStorm) {
        return fault.clone();
    }
    Fault { every: fault.every.div_f64(factor), ..fault.clone() }
}
