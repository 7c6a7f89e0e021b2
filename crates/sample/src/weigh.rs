//! More or less of a model's parts.

use base::ByteCount;

use super::error::SampleError;
use scenario::model::{Arrivals, Choice, DataPath, OneWay, PoolModel, Workload, WorkloadKind};

/// So many times a number, at least 1. What has no limit keeps none, and 0 stays 0.
pub fn times(number: u64, factor: f64) -> u64 {
    match number {
        0 | u64::MAX => number,
        _ => ((number as f64 * factor).round() as u64).max(1),
    }
}

/// The same of a small number.
pub fn times_u32(number: u32, factor: f64) -> u32 {
    u32::try_from(times(u64::from(number), factor)).unwrap_or(u32::MAX)
}

/// A pool of so many times the capacity and bandwidth. Disks are whole ones; what they lack or have too much
/// is made up by their rate.
pub fn pool(pool: &PoolModel, factor: f64) -> PoolModel {
    let mut more = pool.clone();
    more.capacity = ByteCount(times(pool.capacity.0, factor));
    more.network.total = times(pool.network.total, factor);
    if let Some(disks) = &mut more.disks {
        let exact = f64::from(disks.count) * factor;
        disks.count = times_u32(disks.count, factor);
        disks.rate = times(disks.rate, exact / f64::from(disks.count.max(1)));
        disks.read_limit = times(disks.read_limit, factor);
        disks.write_limit = times(disks.write_limit, factor);
        disks.total_limit = times(disks.total_limit, factor);
    }
    more
}

/// A way between pool and tape of so many times the bandwidth in all.
pub fn path(path: &DataPath, factor: f64) -> DataPath {
    let way = |way: OneWay| OneWay { total: times(way.total, factor), ..way };
    DataPath { total: times(path.total, factor), read: way(path.read), write: way(path.write), ..*path }
}

/// A workload of so many times as many files.
///
/// # Errors
/// If it was recorded: its times cannot be made more.
pub fn workload(of: &Workload, factor: f64) -> Result<Workload, SampleError> {
    let arrivals = |arrivals: &Arrivals| Arrivals { per_day: arrivals.per_day * factor, ..arrivals.clone() };
    let choice =
        |choice: &Choice| Choice { files: choice.files.map(|files| times(files, factor)), ..choice.clone() };
    let mut more = of.clone();
    match &mut more.kind {
        WorkloadKind::Campaign { choice: of, .. } => *of = choice(of),
        WorkloadKind::Carousel { choice: of, part_files, .. } => {
            *of = choice(of);
            *part_files = times(*part_files, factor);
        }
        WorkloadKind::Users { arrivals: of, .. } | WorkloadKind::Ingest { arrivals: of, .. } => {
            *of = arrivals(of);
        }
        WorkloadKind::Backup { files, restore_files, .. } => {
            *files = times(*files, factor);
            *restore_files = times(*restore_files, factor);
        }
        WorkloadKind::Saturate { readers, writers } => {
            *readers = times_u32(*readers, factor);
            *writers = times_u32(*writers, factor);
        }
        WorkloadKind::Recorded { .. } if (factor - 1.0).abs() < 1e-9 => {}
        WorkloadKind::Recorded { .. } => {
            let (workload, times) = (of.name.clone(), format!("{factor:.3}"));
            return Err(SampleError::Recorded { workload, times });
        }
    }
    Ok(more)
}
