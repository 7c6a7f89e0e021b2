//! Rows and bars.

use std::collections::BTreeMap;

use ::erasure::bench::Operation;
use serde::Serialize;

use super::core::Shape;

/// Who gives a rate, beside the peers.
pub const KIST: &str = "kist";
pub const MEMORY: &str = "memory";
/// The peer that the bars are set against.
pub const ISA_L: &str = "isa-l";
/// The two sources.
pub const CACHE: &str = "cache";

/// The best round of a coder.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Of what.
    pub operation: Operation,
    /// Its index among the peers, if it is one.
    pub peer: Option<usize>,
    /// Its name in rows.
    pub name: String,
    /// 10^9 bytes of data a second, all cores together.
    pub gbps: f64,
}

/// Whether peers offer it.
pub fn is_offered(operation: Operation) -> bool {
    matches!(operation, Operation::Encode | Operation::DecodeOne | Operation::DecodeAll)
}

/// Whether it measures the memory and not a coder.
pub fn is_of_memory(operation: Operation) -> bool {
    use Operation::{Copy, Read, ReadAndWrite, Write};
    matches!(operation, Read | Write | Copy | ReadAndWrite)
}

/// One operation on one shape.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Data and parity shards, as `8+2`.
    pub code: String,
    /// Bytes of a shard.
    pub shard: usize,
    /// `cache` or `memory`.
    pub source: &'static str,
    /// Cores that worked at once, each on its own buffer.
    pub cores: usize,
    /// Its name.
    pub operation: &'static str,
    /// 10^9 bytes of data a second of each coder, all cores together.
    pub gbps: BTreeMap<String, f64>,
    /// Kist's rate divided by that of `against`.
    pub ratio: Option<f64>,
    /// The best peer, or an operation on the same shape.
    pub against: Option<String>,
}

impl Row {
    /// Kist's rate, or the memory's.
    pub fn own(&self) -> f64 {
        self.gbps.get(KIST).or_else(|| self.gbps.get(MEMORY)).copied().unwrap_or(0.0)
    }

    /// Whether another row is of the same shape on as many cores.
    pub fn is_beside(&self, other: &Row) -> bool {
        (&self.code, self.shard, self.source, self.cores)
            == (&other.code, other.shard, other.source, other.cores)
    }

    /// The shape in words.
    pub fn shape(&self) -> String {
        let cores = if self.cores == 1 { "1 core" } else { "2 cores" };
        format!("{} {} {} {cores}", self.code, bytes(self.shard), self.source)
    }
}

/// A bar of the design, and how many shapes reach it.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// In words.
    pub bar: &'static str,
    /// The least ratio.
    pub wanted: f64,
    /// `reached`, `missed` or `not measured`.
    pub verdict: &'static str,
    /// Shapes that were compared.
    pub shapes: usize,
    /// The lowest and the highest ratio.
    pub lowest: Option<Ratio>,
    /// The highest ratio.
    pub highest: Option<Ratio>,
    /// All that are below.
    pub missed: Vec<Ratio>,
}

/// The ratio at one shape.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// In words.
    pub shape: String,
    /// Divided.
    pub ratio: f64,
}

/// A peer that took part.
#[derive(Clone, Debug, Serialize)]
pub struct PeerNamed {
    /// Its name.
    pub name: String,
    /// As it says itself.
    pub version: String,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel that Kist chose.
    pub kernel: String,
    /// Rounds of each coder from the cache, at the shape that had the least.
    pub rounds_cache: usize,
    /// And from memory.
    pub rounds_memory: usize,
    /// Bytes of the buffer of each core.
    pub working_set: usize,
    /// The peers.
    pub peers: Vec<PeerNamed>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The rows of a shape.
pub fn rows(shape: &Shape, cores: usize, measured: &[Measured]) -> Vec<Row> {
    let own = |operation: Operation| {
        measured.iter().find(|one| one.operation == operation && one.peer.is_none()).map(|one| one.gbps)
    };
    let of_operation = |operation: Operation| {
        let all = measured.iter().filter(move |one| one.operation == operation);
        let peers = all.clone().filter(|one| one.peer.is_some());
        let against = match operation {
            Operation::EncodeChecked => Some(Operation::EncodeThenCheck),
            Operation::Verify => Some(Operation::Read),
            _ => None,
        };
        let against = match against {
            Some(other) => own(other).map(|gbps| (other.name().to_owned(), gbps)),
            None => peers
                .max_by(|one, other| one.gbps.total_cmp(&other.gbps))
                .map(|best| (best.name.clone(), best.gbps)),
        };
        let ratio = against.as_ref().zip(own(operation)).map(|((_, other), own)| rounded(own / other, 1e3));
        Row {
            code: format!("{}+{}", shape.data, shape.parity),
            shard: shape.shard,
            source: if shape.cached { CACHE } else { MEMORY },
            cores,
            operation: operation.name(),
            gbps: all.map(|one| (one.name.clone(), rounded(one.gbps, 1e2))).collect(),
            ratio,
            against: against.map(|(name, _)| name),
        }
    };
    Operation::ALL.into_iter().filter(|operation| own(*operation).is_some()).map(of_operation).collect()
}

/// How the rows stand beside the bars of the design.
pub fn bars(rows: &[Row]) -> Vec<Bar> {
    let encodes = || rows.iter().filter(|row| row.operation == Operation::Encode.name());
    let to_isa_l = |row: &Row| row.gbps.get(ISA_L).map(|other| divided(row, row.own() / other));
    let to_mix = |row: &Row| {
        let mix = Operation::ReadAndWrite.name();
        let mix = rows.iter().find(|other| other.operation == mix && other.is_beside(row));
        mix.map(|mix| divided(row, row.own() / mix.own()))
    };
    let wide = |row: &&Row| row.code == "32+4" && row.shard == 1 << 20 && row.source == MEMORY;
    let narrow = |row: &&Row| row.code.ends_with("+2") && row.source == MEMORY;
    let fused = rows.iter().filter(|row| row.operation == Operation::EncodeChecked.name());
    vec![
        bar(
            "encode, in cache, every shape: ≥ 1.0 × ISA-L",
            1.0,
            encodes().filter(|row| row.source == CACHE).filter_map(to_isa_l).collect(),
        ),
        bar(
            "encode, 32+4, 1 MiB, from memory: ≥ 1.6 × ISA-L",
            1.6,
            encodes().filter(wide).filter_map(to_isa_l).collect(),
        ),
        bar(
            "encode, m = 2, from memory: ≥ 0.8 of the memory's rate for the same reads and writes",
            0.8,
            encodes().filter(narrow).filter_map(to_mix).collect(),
        ),
        bar(
            "encode fused with CRC-32C, every shape: ≥ 1.5 × two passes",
            1.5,
            fused.filter_map(|row| row.ratio.map(|ratio| divided(row, ratio))).collect(),
        ),
    ]
}

fn divided(row: &Row, ratio: f64) -> Ratio {
    Ratio { shape: row.shape(), ratio: rounded(ratio, 1e3) }
}

fn bar(bar: &'static str, wanted: f64, mut ratios: Vec<Ratio>) -> Bar {
    ratios.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    let (shapes, lowest, highest) = (ratios.len(), ratios.first().cloned(), ratios.last().cloned());
    ratios.retain(|one| one.ratio < wanted);
    let verdict = match (shapes, ratios.len()) {
        (0, _) => "not measured",
        (_, 0) => "reached",
        _ => "missed",
    };
    Bar { bar, wanted, verdict, shapes, lowest, highest, missed: ratios }
}

/// To so many parts of one.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// `8 KiB`, `1 MiB`.
pub fn bytes(count: usize) -> String {
    if count > 0 && count.is_multiple_of(1 << 30) {
        format!("{} GiB", count >> 30)
    } else if count.is_multiple_of(1 << 20) {
        format!("{} MiB", count >> 20)
    } else {
        format!("{} KiB", count >> 10)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Every operation of 4+2, 8 KiB at made-up rates: Kist at 10 and ISA-L at 8 but where `others` says
    /// otherwise.
    pub fn measured(cached: bool, others: &[(Operation, &str, f64)]) -> Vec<Row> {
        let shape = Shape { data: 4, parity: 2, shard: 8 << 10, cached };
        let mut all = Vec::new();
        for operation in Operation::ALL.into_iter().filter(|one| !(cached && is_of_memory(*one))) {
            let name = if is_of_memory(operation) { MEMORY } else { KIST };
            all.push(Measured { operation, peer: None, name: name.to_owned(), gbps: 10.0 });
            if is_offered(operation) {
                all.push(Measured { operation, peer: Some(0), name: ISA_L.to_owned(), gbps: 8.0 });
            }
        }
        for (operation, name, gbps) in others {
            let one = all.iter_mut().find(|one| one.operation == *operation && one.name == *name);
            one.unwrap().gbps = *gbps;
        }
        rows(&shape, 1, &all)
    }

    #[test]
    fn rows_compare_with_the_best_peer_or_with_another_operation() {
        let rows = measured(false, &[(Operation::EncodeThenCheck, KIST, 5.0)]);
        assert_eq!(rows.len(), Operation::ALL.len());
        let row = |operation: Operation| rows.iter().find(|row| row.operation == operation.name()).unwrap();
        let encode = row(Operation::Encode);
        assert_eq!((encode.ratio, encode.against.as_deref()), (Some(1.25), Some(ISA_L)));
        let fused = row(Operation::EncodeChecked);
        assert_eq!((fused.ratio, fused.against.as_deref()), (Some(2.0), Some("encode,crc32c")));
        assert_eq!(row(Operation::Verify).against.as_deref(), Some("memory-read"));
        assert_eq!(row(Operation::Copy).ratio, None);
        assert_eq!(row(Operation::Copy).own(), 10.0);
    }

    #[test]
    fn bars_are_missed_by_one_shape_and_not_measured_without_any() {
        let mut rows = measured(true, &[(Operation::EncodeThenCheck, KIST, 5.0)]);
        let verdicts = |rows: &[Row]| bars(rows).iter().map(|bar| bar.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&rows), ["reached", "not measured", "not measured", "reached"]);
        rows.extend(measured(false, &[(Operation::ReadAndWrite, MEMORY, 13.0)]));
        assert_eq!(verdicts(&rows), ["reached", "not measured", "missed", "missed"]);
        let found = bars(&rows);
        assert_eq!((found[3].shapes, found[3].missed.len()), (2, 1));
        assert_eq!(found[3].missed[0].shape, "4+2 8 KiB memory 1 core");
        assert_eq!(found[2].lowest.as_ref().unwrap().ratio, 0.769);
    }
}
