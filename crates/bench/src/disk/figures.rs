//! Rows.

use std::path::PathBuf;

use base::ByteCount;
use disk_load::{Direction, Faults, Measured, StreamMeasured};
use report::stats;
use serde::Serialize;

use super::args::Case;
use super::ceiling::Ceiling;
use super::place::PlaceShown;

/// How long operations took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of them not longer.
    pub p50: f64,
    /// 99 of 100 not longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Reads, or writes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DirectionShown {
    /// Operations that succeeded.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they took.
    pub seconds: Latency,
}

impl DirectionShown {
    fn of(direction: &Direction) -> DirectionShown {
        let took = &direction.took;
        let seconds = Latency {
            p50: took.quantile(0.5).as_secs_f64(),
            p99: took.quantile(0.99).as_secs_f64(),
            max: took.max().as_secs_f64(),
        };
        DirectionShown { operations: took.count(), bytes: direction.bytes, seconds }
    }
}

/// Operations that failed alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultShown {
    /// On which path.
    pub path: PathBuf,
    /// What.
    pub what: String,
    /// How often.
    pub count: u64,
    /// At which byte first.
    pub first_byte: u64,
    /// Whether wrong bytes were given and nobody said so.
    pub is_of_data: bool,
}

/// All of a path, for reports.
pub fn faults(path: &std::path::Path, faults: &Faults) -> Vec<FaultShown> {
    let one = |(fault, seen): (&disk_load::Fault, &disk_load::Seen)| FaultShown {
        path: path.to_owned(),
        what: fault.to_string(),
        count: seen.count,
        first_byte: seen.first.0,
        is_of_data: fault.is_of_data(),
    };
    faults.0.iter().map(one).collect()
}

/// A path's part of a row.
#[derive(Clone, Debug, Serialize)]
pub struct PathShown {
    /// Which.
    pub path: PathBuf,
    /// Bytes a second.
    pub bytes_per_second: f64,
}

/// The simulated tape drive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StreamShown {
    /// Bytes a second that it asked for.
    pub asked_bytes_per_second: u64,
    /// And that it had.
    pub bytes_per_second: f64,
    /// Bytes that it took.
    pub bytes: u64,
    /// How often it had to stop.
    pub fell_behind: u64,
    /// How long it stood still, in seconds.
    pub stopped_seconds: f64,
}

impl StreamShown {
    /// How it went.
    pub fn of(asked: u64, measured: &StreamMeasured) -> StreamShown {
        StreamShown {
            asked_bytes_per_second: asked,
            bytes_per_second: measured.rate(),
            bytes: measured.bytes,
            fell_behind: measured.fell_behind,
            stopped_seconds: measured.stopped.as_secs_f64(),
        }
    }
}

/// fio on the same file, in turn.
#[derive(Clone, Debug, Serialize)]
pub struct FioShown {
    /// Bytes a second of fio, the mean of its slices.
    pub bytes_per_second: f64,
    /// Kist's rate divided by fio's: the mean of all pairs of slices.
    pub ratio: f64,
    /// The 95 % interval of the ratio; nothing from a single pair.
    pub ratio_interval: Option<(f64, f64)>,
    /// Bytes a second of each pair of slices: Kist, fio.
    pub pairs: Vec<(f64, f64)>,
}

impl FioShown {
    /// Of rates in the same order; `None` if nothing was moved in a slice. Ratios are averaged by their
    /// logarithms, so that it does not matter which of the two stands above.
    pub fn of(own: &[f64], fio: &[f64]) -> Option<FioShown> {
        if own.iter().chain(fio).any(|rate| *rate <= 0.0) {
            return None;
        }
        let logs: Vec<f64> = own.iter().zip(fio).map(|(own, fio)| (own / fio).ln()).collect();
        let found = stats::estimate(&logs);
        let interval = |half: f64| ((found.mean - half).exp(), (found.mean + half).exp());
        Some(FioShown {
            bytes_per_second: stats::estimate(fio).mean,
            ratio: found.mean.exp(),
            ratio_interval: found.half_width.map(interval),
            pairs: own.iter().copied().zip(fio.iter().copied()).collect(),
        })
    }
}

/// What was measured of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Bytes of an operation.
    pub size_bytes: u64,
    /// Reads and writes: `read`, `95:5`.
    pub mix: String,
    /// `sequential` or `random`.
    pub access: String,
    /// Operations under way at once, on each path.
    pub depth: u32,
    /// How long it was.
    pub seconds: f64,
    /// Bytes a second, all paths together, reads and writes.
    pub bytes_per_second: f64,
    /// Operations a second.
    pub operations_per_second: f64,
    /// Reads.
    pub read: DirectionShown,
    /// Writes.
    pub write: DirectionShown,
    /// Whether what was read was checked.
    pub is_verified: bool,
    /// What failed.
    pub faults: Vec<FaultShown>,
    /// Each path on its own, of several.
    pub paths: Vec<PathShown>,
    /// The simulated tape drive.
    pub stream: Option<StreamShown>,
    /// Beside fio.
    pub fio: Option<FioShown>,
}

impl Row {
    /// Of a case, and what its paths did.
    pub fn of(case: Case, depth: u32, places: &[PathBuf], measured: &[Measured]) -> Row {
        let mut all = Measured::default();
        measured.iter().for_each(|one| all.merge(one));
        let seconds = all.span.as_secs_f64();
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let each = places.iter().zip(measured);
        let is_several = places.len() > 1;
        Row {
            size_bytes: case.size.0,
            mix: case.mix.to_string(),
            access: case.access.to_string(),
            depth,
            seconds,
            bytes_per_second: per_second(all.bytes()),
            operations_per_second: per_second(all.operations()),
            read: DirectionShown::of(&all.read),
            write: DirectionShown::of(&all.write),
            is_verified: false,
            faults: each.clone().flat_map(|(path, one)| faults(path, &one.faults)).collect(),
            paths: each
                .filter(|_| is_several)
                .map(|(path, one)| PathShown { path: path.clone(), bytes_per_second: one.rate() })
                .collect(),
            stream: None,
            fio: None,
        }
    }

    /// The size with its unit.
    pub fn size(&self) -> String {
        size(ByteCount(self.size_bytes))
    }
}

/// `4 KiB`, `16 MiB`.
pub fn size(bytes: ByteCount) -> String {
    match bytes.0 {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The files and devices.
    pub places: Vec<PlaceShown>,
    /// How operations were ordered.
    pub engine: String,
    /// fio's version, if it took part.
    pub fio: Option<String>,
    /// The bottleneck.
    pub bottleneck: Ceiling,
    /// What is to be known before figures are read.
    pub notes: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
    /// What the first paths alone do together, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
}

/// What some of the paths do together.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    /// So many of the paths, from the first on.
    pub count: usize,
    /// What was measured.
    pub row: Row,
    /// The bottleneck of these alone.
    pub bottleneck: Ceiling,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_to_fio_has_an_interval_and_no_favourite() {
        let (own, fio) = ([100.0, 110.0, 90.0, 100.0], [100.0, 100.0, 100.0, 100.0]);
        let ratio = FioShown::of(&own, &fio).unwrap();
        let inverse = FioShown::of(&fio, &own).unwrap();
        assert!((ratio.ratio * inverse.ratio - 1.0).abs() < 1e-12);
        let (low, high) = ratio.ratio_interval.unwrap();
        assert!(low < ratio.ratio && ratio.ratio < high && low > 0.8 && high < 1.2, "{ratio:?}");
        assert_eq!(FioShown::of(&[2.0], &[1.0]).unwrap().ratio_interval, None);
        assert!(FioShown::of(&[0.0, 1.0], &[1.0, 1.0]).is_none());
    }

    #[test]
    fn sizes_have_units() {
        let shown = |bytes| size(ByteCount(bytes));
        assert_eq!(
            (shown(4096), shown(1 << 20), shown((1 << 20) + 4096)),
            ("4 KiB".to_owned(), "1 MiB".to_owned(), "1028 KiB".to_owned())
        );
    }
}
