//! `partition-*.idx`: the object map as of some flush, so that loading need not read every header. It holds
//! nothing that the record file does not: lost, short or damaged, it is made again.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `KISTTIDX` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | CRC-32C of the runs |
//! | 16 | 8 | `cuts` of the durable mark |
//! | 24 | 8 | objects |
//! | 32 | 8 | where the frame behind them starts |
//! | 40 | 8 | payload bytes of them |
//! | 48 | 6 | VID |
//! | 54 | 1 | partition |
//! | 55 | 1 | 0 |
//! | 56 | 4 | runs |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |
//!
//! then for each run 32 bytes: first object 8, offset 8, payload before 8, length 4, kind 1 (1 record, 2 file
//! mark, 3 damaged), 3 of 0.

use std::path::Path;

use base::Crc32c;

use super::atomic;
use super::block64::{Block64, SEALED_BYTES, partition_byte};
use super::durable::{DurableMark, FRAMES_START};
use super::frame::{FrameKind, Home};
use super::map::{End, ObjectMap, Run, RunKind};

const MAGIC: [u8; 8] = *b"KISTTIDX";
const VERSION: u32 = 1;
const RUN_BYTES: usize = 32;
const DAMAGED: u8 = 3;
/// More runs than this are not kept on disk: the index is then made anew at each load.
const RUNS_MAX: usize = 32 << 20;

/// The bytes of the index file; `None` if there are too many runs.
pub fn encode(map: &ObjectMap, cuts: u64, home: Home) -> Option<Vec<u8>> {
    if map.runs().len() > RUNS_MAX {
        return None;
    }
    let mut runs = Vec::with_capacity(map.runs().len() * RUN_BYTES);
    for run in map.runs() {
        runs.extend_from_slice(&run.first.to_le_bytes());
        runs.extend_from_slice(&run.offset.to_le_bytes());
        runs.extend_from_slice(&run.payload_before.to_le_bytes());
        runs.extend_from_slice(&run.length.to_le_bytes());
        let kind = match run.kind {
            RunKind::Frames(kind) => kind.to_byte(),
            RunKind::Damaged => DAMAGED,
        };
        runs.extend_from_slice(&[kind, 0, 0, 0]);
    }
    let end = map.end();
    let mut block = Block64::zeroed();
    block.put(0, &MAGIC);
    block.put(8, &VERSION.to_le_bytes());
    block.put(12, &Crc32c::of(&runs).0.to_le_bytes());
    block.put(16, &cuts.to_le_bytes());
    block.put(24, &end.objects.to_le_bytes());
    block.put(32, &end.offset.to_le_bytes());
    block.put(40, &end.payload.to_le_bytes());
    block.put(48, home.vid.as_bytes());
    block.put(54, &[partition_byte(home.partition)]);
    block.put(56, &(map.runs().len() as u32).to_le_bytes());
    let mut bytes = block.seal().to_vec();
    bytes.append(&mut runs);
    Some(bytes)
}

/// Reads the index; `None` if it is missing, damaged, of another version, or older than the last cut.
pub fn load(path: &Path, mark: &DurableMark, home: Home) -> Option<ObjectMap> {
    let bytes = atomic::read_bounded(path, (SEALED_BYTES + RUNS_MAX * RUN_BYTES) as u64).ok()?;
    decode(&bytes, mark, home)
}

/// For the fuzz targets: an index as it is, and with checksums and length that agree.
pub fn check(bytes: &[u8], mark: &DurableMark, home: Home) {
    let _ = decode(bytes, mark, home);
    let Some((head, runs)) = bytes.split_first_chunk::<SEALED_BYTES>() else { return };
    let mut head = Block64(*head);
    head.put(12, &Crc32c::of(runs).0.to_le_bytes());
    head.put(16, &mark.cuts.to_le_bytes());
    head.put(48, home.vid.as_bytes());
    head.put(54, &[partition_byte(home.partition)]);
    head.put(56, &((runs.len() / RUN_BYTES) as u32).to_le_bytes());
    let sealed = [&head.seal()[..], runs].concat();
    let _ = decode(&sealed, mark, home);
}

fn decode(bytes: &[u8], mark: &DurableMark, home: Home) -> Option<ObjectMap> {
    let (head, runs) = bytes.split_first_chunk::<SEALED_BYTES>()?;
    let head = Block64(*head);
    let end = End { objects: head.u64_at(24), offset: head.u64_at(32), payload: head.u64_at(40) };
    let valid = head.bytes_at(0) == MAGIC
        && head.is_sealed()
        && head.u32_at(8) == VERSION
        && head.u32_at(12) == Crc32c::of(runs).0
        && head.u64_at(16) == mark.cuts
        && end.objects <= mark.objects
        && end.offset <= mark.end
        && end.payload <= mark.payload
        && head.bytes_at::<6>(48) == *home.vid.as_bytes()
        && head.u8_at(54) == partition_byte(home.partition)
        && (head.u32_at(56) as usize).checked_mul(RUN_BYTES) == Some(runs.len());
    if !valid {
        return None;
    }
    let (runs, []) = runs.as_chunks::<RUN_BYTES>() else { return None };
    let runs: Option<Vec<Run>> = runs.iter().map(decode_run).collect();
    ObjectMap::from_parts(FRAMES_START, runs?, end)
}

fn decode_run(bytes: &[u8; RUN_BYTES]) -> Option<Run> {
    let mut block = Block64::zeroed();
    block.put(0, bytes);
    let kind = match block.u8_at(28) {
        DAMAGED => RunKind::Damaged,
        byte => RunKind::Frames(FrameKind::from_byte(byte)?),
    };
    Some(Run {
        first: block.u64_at(0),
        offset: block.u64_at(8),
        payload_before: block.u64_at(16),
        length: block.u32_at(24),
        kind,
    })
}
