//! Reading one key: which entries to ask which drives for, and what to make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use erasure::{Codec, CodecError};

use crate::checksum::{TagVerdict, check_tag};
use crate::key::{handoff_chunk, handoff_range};
use crate::shape::{DriveIndex, Placement, Redundancy, Shape};
use crate::version::Version;

/// An entry of a drive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Entry {
    /// Its version.
    pub version: Bytes,
    /// Its tag.
    pub tag: Bytes,
    /// Its value; empty if only the rest was asked for.
    pub value: Bytes,
}

/// What is to be known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// The version, with the size in it: no values are asked for.
    Version,
    /// The value.
    Value,
}

/// What to ask a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// For an entry.
    Get {
        /// Whom.
        drive: DriveIndex,
        /// Which one.
        key: Bytes,
        /// Of which chunk it is, if it is there.
        chunk: usize,
    },
    /// For the keys from one, inclusive, to another, exclusive.
    Keys {
        /// Whom.
        drive: DriveIndex,
        /// From.
        start: Bytes,
        /// To.
        end: Bytes,
    },
}

/// What a drive answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The entry.
    Entry(Entry),
    /// There is none.
    Nothing,
    /// The keys.
    Keys(Vec<Bytes>),
    /// It cannot be reached, or cannot read it, and why.
    Failed(String),
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask all of this, and tell what was found.
    Ask(Vec<Ask>),
    /// This is the end.
    Done(Result<Outcome, Damage>),
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value.
    Value(Block),
    /// It was never written: so many drives say that they have nothing that no stripe can have been there.
    Absent,
}

/// A value, or what is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its version.
    pub version: Version,
    /// Its bytes; empty if only the version was asked for.
    pub bytes: Vec<u8>,
    /// What its chunks were checked with.
    pub checked: Checked,
    /// Data chunks that were computed from others.
    pub rebuilt: usize,
    /// Chunks that were read from stand-ins.
    pub handoffs: usize,
    /// Chunks that were found and are damaged.
    pub damaged: usize,
}

/// How many of the chunks that made a value were checked, and how.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Checked {
    /// With CRC-32C.
    pub crc32c: u64,
    /// With CRC-32, by clusters of the first versions.
    pub crc32: u64,
    /// Not at all: they have no tag that is known.
    pub unchecked: u64,
}

impl Checked {
    /// Adds others.
    pub fn add(&mut self, other: Checked) {
        self.crc32c += other.crc32c;
        self.crc32 += other.crc32;
        self.unchecked += other.unchecked;
    }
}

/// Of how many chunks a version has something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionCount {
    /// Which one.
    pub version: Version,
    /// How many chunks.
    pub chunks: usize,
}

impl fmt::Display for VersionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of version {} ({} bytes)", self.chunks, self.version, self.version.size())
    }
}

fn listed(versions: &[VersionCount]) -> String {
    match versions {
        [] => "none of a known version".to_owned(),
        versions => versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Why a key cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// No version has enough chunks.
    #[error(
        "of {of} chunks {needed} are needed, and there are {}; {damaged} are damaged, of {nothing} the \
         drives have nothing, of {unreachable} the drive gives no answer{}",
        listed(versions),
        reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
    )]
    TooFewChunks {
        /// Chunks of a stripe.
        of: usize,
        /// How many make the value.
        needed: usize,
        /// What there is, the most frequent first.
        versions: Vec<VersionCount>,
        /// Chunks whose checksum or length is wrong.
        damaged: usize,
        /// Chunks of which a drive says that it does not have them.
        nothing: usize,
        /// Chunks whose drives do not answer.
        unreachable: usize,
        /// What the first of these said.
        reason: Option<String>,
    },
    /// Nothing tells which of these is the last one that was written.
    #[error("several versions could be the last one written: {}", listed(versions))]
    Ambiguous {
        /// They.
        versions: Vec<VersionCount>,
    },
    /// The chunks do not have the size that their version says.
    #[error("version {version} says {size} bytes, and a chunk has {chunk}")]
    Size {
        /// The version.
        version: Version,
        /// What it says.
        size: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// The code refuses: the shape or the lengths are wrong.
    #[error("it cannot be decoded: {0}")]
    Code(#[from] CodecError),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Chunk {
    index: usize,
    version: Version,
    value: Bytes,
    verdict: TagVerdict,
    is_handoff: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Begin,
    Data,
    All,
    HandoffKeys,
    Handoffs,
}

/// One key that is being read: data chunks first, then the others, then stand-ins. [`BlockRead::step`] says
/// what to ask; for every `Ask` one [`BlockRead::found`] is told before the next step.
#[derive(Debug)]
pub struct BlockRead {
    key: Bytes,
    shape: Shape,
    redundancy: Redundancy,
    placement: Placement,
    detail: Detail,
    stage: Stage,
    chunks: Vec<Chunk>,
    nothing: BTreeSet<usize>,
    unreachable: BTreeMap<usize, String>,
    damaged: BTreeSet<usize>,
    handoffs: Vec<Ask>,
}

impl BlockRead {
    /// A key that is to be read.
    #[must_use]
    pub fn new(
        key: Bytes,
        shape: Shape,
        redundancy: Redundancy,
        placement: Placement,
        detail: Detail,
    ) -> Self {
        BlockRead {
            key,
            shape,
            redundancy,
            placement,
            detail,
            stage: Stage::Begin,
            chunks: Vec::new(),
            nothing: BTreeSet::new(),
            unreachable: BTreeMap::new(),
            damaged: BTreeSet::new(),
            handoffs: Vec::new(),
        }
    }

    /// What to do next.
    pub fn step(&mut self) -> Step {
        loop {
            let (data, all) = (self.shape.data(self.redundancy), self.shape.chunks(self.redundancy));
            match self.stage {
                // Of copies the most frequent version counts, which only all of them tell.
                Stage::Begin if data == 1 => {
                    self.stage = Stage::All;
                    return Step::Ask(self.gets(0..all));
                }
                Stage::Begin => {
                    self.stage = Stage::Data;
                    return Step::Ask(self.gets(0..data));
                }
                Stage::Data if self.is_whole(data) => return Step::Done(self.decide()),
                Stage::Data => {
                    self.stage = Stage::All;
                    if all > data {
                        return Step::Ask(self.gets(data..all));
                    }
                }
                Stage::All if self.is_whole(all) || self.nothing.len() == all => {
                    return Step::Done(self.decide());
                }
                Stage::All if self.has_decided(data) => return Step::Done(self.decide()),
                Stage::All => {
                    self.stage = Stage::HandoffKeys;
                    let (start, end) = handoff_range(&self.key);
                    let ask = |drive| Ask::Keys {
                        drive: DriveIndex(drive),
                        start: start.clone(),
                        end: end.clone(),
                    };
                    return Step::Ask((0..self.placement.drives).map(ask).collect());
                }
                Stage::HandoffKeys => {
                    self.stage = Stage::Handoffs;
                    let handoffs = std::mem::take(&mut self.handoffs);
                    if !handoffs.is_empty() {
                        return Step::Ask(handoffs);
                    }
                }
                Stage::Handoffs => return Step::Done(self.decide()),
            }
        }
    }

    /// Tells what was found for an `Ask`.
    pub fn found(&mut self, ask: &Ask, found: Found) {
        match (ask, found) {
            (Ask::Get { chunk, key, .. }, found) => {
                let is_handoff = *key != self.key;
                match found {
                    Found::Entry(entry) => self.take(*chunk, &entry, is_handoff),
                    Found::Failed(reason) if !is_handoff => {
                        self.unreachable.insert(*chunk, reason);
                    }
                    Found::Nothing if !is_handoff => {
                        self.nothing.insert(*chunk);
                    }
                    Found::Failed(_) | Found::Nothing | Found::Keys(_) => {}
                }
            }
            (Ask::Keys { drive, .. }, Found::Keys(keys)) => {
                let chunks = self.shape.chunks(self.redundancy);
                for key in keys {
                    if let Some(chunk) = handoff_chunk(&key).filter(|chunk| *chunk < chunks) {
                        self.handoffs.push(Ask::Get { drive: *drive, key, chunk });
                    }
                }
            }
            // Without its keys, the stand-ins of a drive are not known; the others may do.
            (Ask::Keys { .. }, _) => {}
        }
    }

    fn gets(&self, chunks: std::ops::Range<usize>) -> Vec<Ask> {
        let key = &self.key;
        let get = |chunk| Ask::Get { drive: self.placement.drive(key, chunk), key: key.clone(), chunk };
        chunks.map(get).collect()
    }

    /// Takes a chunk in, if it is sound in itself.
    fn take(&mut self, index: usize, entry: &Entry, is_handoff: bool) {
        let Ok(version) = Version::read(&entry.version) else {
            self.damaged.insert(index);
            return;
        };
        let verdict = match self.detail {
            Detail::Version => TagVerdict::Unchecked,
            Detail::Value => check_tag(&entry.tag, &entry.value),
        };
        if verdict == TagVerdict::Wrong {
            self.damaged.insert(index);
            return;
        }
        self.chunks.push(Chunk { index, version, value: entry.value.clone(), verdict, is_handoff });
    }

    /// Whether the first chunks are all there, of one version.
    fn is_whole(&self, chunks: usize) -> bool {
        let Some(first) = self.chunks.first() else { return false };
        self.chunks.len() == chunks && self.chunks.iter().all(|chunk| chunk.version == first.version)
    }

    /// Whether one version has enough chunks and no other could get as many from stand-ins.
    fn has_decided(&self, data: usize) -> bool {
        let all = self.shape.chunks(self.redundancy);
        self.versions().first().is_some_and(|most| most.chunks >= data && 2 * most.chunks > all)
    }

    /// The versions there are, the most frequent first.
    fn versions(&self) -> Vec<VersionCount> {
        let mut counts: BTreeMap<&Version, BTreeSet<usize>> = BTreeMap::new();
        for chunk in &self.chunks {
            counts.entry(&chunk.version).or_default().insert(chunk.index);
        }
        let count = |(version, chunks): (&Version, BTreeSet<usize>)| VersionCount {
            version: version.clone(),
            chunks: chunks.len(),
        };
        let mut versions: Vec<VersionCount> = counts.into_iter().map(count).collect();
        versions.sort_by_key(|count| std::cmp::Reverse(count.chunks));
        versions
    }

    fn decide(&self) -> Result<Outcome, Damage> {
        let (data, all) = (self.shape.data(self.redundancy), self.shape.chunks(self.redundancy));
        let versions = self.versions();
        let is_silent = versions.is_empty() && self.damaged.is_empty();
        if is_silent && self.nothing.len() >= data && self.unreachable.len() <= self.shape.parity() {
            return Ok(Outcome::Absent);
        }
        let enough: Vec<&VersionCount> = versions.iter().filter(|count| count.chunks >= data).collect();
        let Some(most) = enough.first() else {
            return Err(Damage::TooFewChunks {
                of: all,
                needed: data,
                versions,
                damaged: self.damaged.len(),
                nothing: self.nothing.len(),
                unreachable: self.unreachable.len(),
                reason: self.unreachable.values().next().cloned(),
            });
        };
        if enough.get(1).is_some_and(|next| next.chunks == most.chunks) {
            let versions = versions.iter().filter(|count| count.chunks == most.chunks).cloned().collect();
            return Err(Damage::Ambiguous { versions });
        }
        let mut chosen: BTreeMap<usize, &Chunk> = BTreeMap::new();
        for chunk in self.chunks.iter().filter(|chunk| chunk.version == most.version) {
            chosen.entry(chunk.index).or_insert(chunk);
        }
        let mut block = Block {
            version: most.version.clone(),
            bytes: Vec::new(),
            checked: Checked::default(),
            rebuilt: 0,
            handoffs: chosen.values().filter(|chunk| chunk.is_handoff).count(),
            damaged: self.damaged.len(),
        };
        if self.detail == Detail::Value {
            self.decode(&mut block, &chosen)?;
        }
        Ok(Outcome::Value(block))
    }

    /// Makes the bytes of a version from its chunks, of which there are enough.
    fn decode(&self, block: &mut Block, chosen: &BTreeMap<usize, &Chunk>) -> Result<(), Damage> {
        let (data, size) = (self.shape.data(self.redundancy), block.version.size());
        let version = block.version.clone();
        let wrong = |chunk: u64| Damage::Size { version: version.clone(), size, chunk };
        let chunk_bytes = chosen.values().map(|chunk| chunk.value.len()).max().unwrap_or_default();
        let length = chunk_bytes as u64;
        if size == 0 || length == 0 {
            return if size == length { Ok(()) } else { Err(wrong(length)) };
        }
        // Bytes of the value before and in a data chunk; what is beyond them is padding.
        let bytes_in = |index: usize| size.saturating_sub(index as u64 * length).min(length);
        if size > length * data as u64 || (data == 1 && size != length) || length > self.shape.chunk_bytes() {
            return Err(wrong(length));
        }
        let mut padded: BTreeMap<usize, Bytes> = BTreeMap::new();
        for (index, chunk) in chosen {
            let has = chunk.value.len() as u64;
            let is_padding_left_out = *index < data && has == bytes_in(*index);
            if has == length {
                padded.insert(*index, chunk.value.clone());
            } else if is_padding_left_out {
                let mut value = vec![0; chunk_bytes];
                if let Some(to) = value.get_mut(..chunk.value.len()) {
                    to.copy_from_slice(&chunk.value);
                }
                padded.insert(*index, Bytes::from(value));
            } else {
                return Err(wrong(has));
            }
            match chunk.verdict {
                TagVerdict::Crc32c => block.checked.crc32c += 1,
                TagVerdict::Crc32 => block.checked.crc32 += 1,
                TagVerdict::Unchecked | TagVerdict::Wrong => block.checked.unchecked += 1,
            }
        }
        // Copies are the same for all drives; ISA-L's matrix would only give the first parity as such.
        if data == 1 {
            block.bytes = padded.into_values().next().unwrap_or_default().into();
            return Ok(());
        }
        let missing: Vec<usize> =
            (0..data).filter(|index| !padded.contains_key(index) && bytes_in(*index) > 0).collect();
        let mut rebuilt: Vec<Vec<u8>> = missing.iter().map(|_| vec![0; chunk_bytes]).collect();
        if !missing.is_empty() {
            let present: Vec<(usize, &[u8])> =
                padded.iter().map(|(index, value)| (*index, value.as_ref())).collect();
            let mut wanted: Vec<(usize, &mut [u8])> =
                missing.iter().copied().zip(rebuilt.iter_mut().map(Vec::as_mut_slice)).collect();
            Codec::new(data, self.shape.parity())?.reconstruct(&present, &mut wanted)?;
        }
        block.rebuilt = missing.len();
        let mut computed = rebuilt.iter();
        block.bytes.reserve_exact(usize::try_from(size).unwrap_or_default());
        for index in 0..data {
            let is_needed = bytes_in(index);
            if is_needed == 0 {
                break;
            }
            let bytes = match padded.get(&index) {
                Some(bytes) => bytes.as_ref(),
                None => computed.next().map(Vec::as_slice).unwrap_or_default(),
            };
            let take = usize::try_from(is_needed).unwrap_or(usize::MAX);
            block.bytes.extend_from_slice(bytes.get(..take).unwrap_or(bytes));
        }
        assert_eq!(block.bytes.len() as u64, size, "a value has the bytes that its version says");
        Ok(())
    }
}
