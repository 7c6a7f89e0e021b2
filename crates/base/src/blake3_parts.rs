//! The BLAKE3 of a file whose parts come in any order: each part is hashed by itself, at the offset that it
//! will have, and what is kept of each merges into the hash of the whole.
//!
//! BLAKE3 is a tree over chunks of 1,024 bytes. A subtree of 2^n chunks that begins at a multiple of 2^n
//! chunks has a chaining value of its own, whatever stands around it, so that of a part only the largest such
//! subtrees are kept, and its bytes before the first and behind the last whole chunk. The root differs from
//! all other nodes: the last chunk of a part at offset 0 stays bytes, so that no kept node can be the root.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{CHUNK_LEN, Hasher};

use crate::{Blake3, ByteCount};

/// Chunks hashed together: enough for all lanes of the processor, little enough to stay in its cache.
const BLOCK_CHUNKS: u64 = (BLOCK_BYTES / CHUNK_LEN) as u64;
/// The same in bytes.
const BLOCK_BYTES: usize = 128 * CHUNK_LEN;
/// No subtree has more than 2^54 chunks: offsets are below 2^64.
const LEVEL_MAX: u8 = 54;

/// What is kept of a part's bytes until its file is whole. At most 2 KiB of bytes and, for each doubling of
/// the part's length, two nodes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PartHash {
    /// Where in the file the part was thought to begin.
    pub offset: ByteCount,
    /// Its bytes before the first chunk that begins in it, less than a chunk.
    pub head: Vec<u8>,
    /// The largest whole subtrees, in order: the binary logarithm of their chunks, and their chaining values.
    pub nodes: Vec<(u8, [u8; 32])>,
    /// Its bytes behind them, at most a chunk.
    pub tail: Vec<u8>,
}

impl PartHash {
    /// What is kept of `bytes` at this offset.
    #[must_use]
    pub fn of(offset: ByteCount, bytes: &[u8]) -> PartHash {
        let mut hasher = PartHasher::new(offset);
        hasher.update(bytes);
        hasher.finish()
    }

    /// How many bytes it stands for; `None` if it is none that a [`PartHasher`] makes.
    #[must_use]
    pub fn length(&self) -> Option<ByteCount> {
        let before = (CHUNK_LEN as u64 - self.offset.0 % CHUNK_LEN as u64) % CHUNK_LEN as u64;
        let head = self.head.len() as u64;
        let has_rest = !self.nodes.is_empty() || !self.tail.is_empty();
        if head > before || (has_rest && head < before) || self.tail.len() > CHUNK_LEN {
            return None;
        }
        let mut chunk = self.offset.0.div_ceil(CHUNK_LEN as u64);
        for (level, _) in &self.nodes {
            let chunks = (*level <= LEVEL_MAX).then(|| 1u64 << level)?;
            if !chunk.is_multiple_of(chunks) {
                return None;
            }
            chunk = chunk.checked_add(chunks)?;
        }
        if !has_rest {
            return Some(ByteCount(head));
        }
        let end = chunk.checked_mul(CHUNK_LEN as u64)?.checked_add(self.tail.len() as u64)?;
        Some(ByteCount(end - self.offset.0))
    }
}

/// Hashes a part whose bytes come one after another.
#[derive(Clone, Debug)]
pub struct PartHasher {
    offset: u64,
    head: Vec<u8>,
    /// How many bytes of the head have not come yet.
    head_missing: usize,
    nodes: Vec<(u8, ChainingValue)>,
    /// The chunk at which `pending` begins.
    chunk: u64,
    /// Bytes that are not hashed yet, at most a block: the last ones stay until more come.
    pending: Vec<u8>,
}

impl PartHasher {
    /// A part that begins at this offset of its file, as far as is known.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "less than a chunk")]
    pub fn new(offset: ByteCount) -> Self {
        let chunk_bytes = CHUNK_LEN as u64;
        PartHasher {
            offset: offset.0,
            head: Vec::new(),
            head_missing: ((chunk_bytes - offset.0 % chunk_bytes) % chunk_bytes) as usize,
            nodes: Vec::new(),
            chunk: offset.0.div_ceil(chunk_bytes),
            pending: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (head, mut rest) = bytes.split_at(self.head_missing.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.head_missing -= head.len();
        while !rest.is_empty() {
            let block = self.block_bytes();
            if self.pending.len() == block {
                let full = std::mem::take(&mut self.pending);
                self.absorb(&full);
                self.pending = full;
                self.pending.clear();
            } else if self.pending.is_empty() && rest.len() > block {
                let (full, behind) = rest.split_at(block);
                self.absorb(full);
                rest = behind;
            } else {
                let (more, behind) = rest.split_at((block - self.pending.len()).min(rest.len()));
                self.pending.extend_from_slice(more);
                rest = behind;
            }
        }
    }

    /// How many bytes the subtree may have that is gathered: a power of two of chunks that divides its place.
    fn block_bytes(&self) -> usize {
        match self.chunk {
            0 => BLOCK_BYTES,
            chunk => CHUNK_LEN << chunk.trailing_zeros().min(BLOCK_CHUNKS.trailing_zeros()),
        }
    }

    /// Takes whole chunks at `self.chunk`, as few subtrees as they make.
    #[expect(clippy::cast_possible_truncation, reason = "a level is below 64")]
    fn absorb(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let chunks = (bytes.len() / CHUNK_LEN) as u64;
            let most = chunks.ilog2();
            let level = if self.chunk == 0 { most } else { most.min(self.chunk.trailing_zeros()) };
            let (subtree, behind) = bytes.split_at(CHUNK_LEN << level);
            self.push(level as u8, subtree_hash(self.chunk, subtree));
            bytes = behind;
        }
    }

    /// Takes a subtree, and joins it with those before it as far as they make larger ones.
    fn push(&mut self, mut level: u8, mut value: ChainingValue) {
        let mut start = self.chunk;
        self.chunk += 1 << level;
        while let Some((before, left)) = self.nodes.last()
            && *before == level
            && (start - (1 << level)).is_multiple_of(2 << level)
        {
            start -= 1 << level;
            value = merge_subtrees_non_root(left, &value, Mode::Hash);
            level += 1;
            self.nodes.pop();
        }
        self.nodes.push((level, value));
    }

    /// What is to be kept of the part.
    #[must_use]
    pub fn finish(mut self) -> PartHash {
        let pending = std::mem::take(&mut self.pending);
        let kept_back = usize::from(self.offset == 0);
        let whole = pending.len().saturating_sub(kept_back) / CHUNK_LEN * CHUNK_LEN;
        let (whole, tail) = pending.split_at(whole);
        self.absorb(whole);
        PartHash { offset: ByteCount(self.offset), head: self.head, nodes: self.nodes, tail: tail.to_vec() }
    }
}

fn subtree_hash(chunk: u64, bytes: &[u8]) -> ChainingValue {
    Hasher::new().set_input_offset(chunk * CHUNK_LEN as u64).update(bytes).finalize_non_root()
}

/// Merges parts, in order, into the hash of the whole file.
#[derive(Clone, Default, Debug)]
pub struct PartsMerger {
    /// Where the next part has to begin.
    at: u64,
    /// The subtrees so far, each larger than the next; only the last two may be equal, since the last
    /// joining may be the root's.
    nodes: Vec<(u8, ChainingValue)>,
    /// The chunk of the first byte of `chunk`.
    next: u64,
    /// The bytes of the last chunk, which may be whole.
    chunk: Vec<u8>,
}

impl PartsMerger {
    /// No parts yet.
    #[must_use]
    pub fn new() -> Self {
        PartsMerger::default()
    }

    /// Where the next part has to begin.
    #[must_use]
    pub fn offset(&self) -> ByteCount {
        ByteCount(self.at)
    }

    /// Takes the next part of this length. `false` if it was hashed at another offset than it has, or for
    /// another length: nothing was changed then, and it has to be hashed again at [`PartsMerger::offset`].
    #[must_use]
    pub fn push(&mut self, part: &PartHash, length: ByteCount) -> bool {
        // A file does not begin with a whole node: it might be all of it.
        let begins_whole = self.at == 0 && part.tail.is_empty() && !part.nodes.is_empty();
        if part.offset.0 != self.at || part.length() != Some(length) || begins_whole {
            return false;
        }
        self.at += length.0;
        self.chunk.extend_from_slice(&part.head);
        if part.nodes.is_empty() && part.tail.is_empty() {
            return true;
        }
        self.end_chunk();
        for (level, value) in &part.nodes {
            self.add(*level, *value);
        }
        self.chunk.extend_from_slice(&part.tail);
        true
    }

    fn end_chunk(&mut self) {
        if !self.chunk.is_empty() {
            let value = subtree_hash(self.next, &self.chunk);
            self.chunk.clear();
            self.add(0, value);
        }
    }

    fn add(&mut self, level: u8, value: ChainingValue) {
        while let [.., (left_level, left), (right_level, right)] = self.nodes.as_slice()
            && left_level == right_level
        {
            let joined = (left_level + 1, merge_subtrees_non_root(left, right, Mode::Hash));
            self.nodes.truncate(self.nodes.len() - 2);
            self.nodes.push(joined);
        }
        self.nodes.push((level, value));
        self.next += 1 << level;
    }

    /// The hash of all parts together.
    #[must_use]
    pub fn finish(mut self) -> Blake3 {
        if self.nodes.is_empty() {
            return Blake3::of(&self.chunk);
        }
        self.end_chunk();
        let Some((_, mut right)) = self.nodes.pop() else { return Blake3::of(&[]) };
        while let Some((_, left)) = self.nodes.pop() {
            if self.nodes.is_empty() {
                return Blake3(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes());
            }
            right = merge_subtrees_non_root(&left, &right, Mode::Hash);
        }
        // `push` takes no file that is one node.
        Blake3(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    /// Hashes `parts` one by one, each at the offset it has, with updates of `step` bytes.
    fn merged(parts: &[&[u8]], step: usize) -> Blake3 {
        let mut merger = PartsMerger::new();
        for part in parts {
            let mut hasher = PartHasher::new(merger.offset());
            part.chunks(step).for_each(|bytes| hasher.update(bytes));
            let kept = hasher.finish();
            assert!(kept.head.len() < CHUNK_LEN && kept.tail.len() <= CHUNK_LEN);
            assert!(merger.push(&kept, ByteCount(part.len() as u64)));
        }
        merger.finish()
    }

    #[test]
    fn equal_parts_of_every_kind() {
        for part in [1, 7, 1023, 1024, 1025, 2048, 4096, 5000, 65_536, 131_072, 200_000, 262_144] {
            for count in [1, 2, 3, 4, 5, 8] {
                for last in [0, 1, 1024, part / 2, part] {
                    let whole = content(part * (count - 1) + last);
                    let mut parts: Vec<&[u8]> = whole.chunks(part).collect();
                    if last == 0 {
                        parts.push(&[]);
                    }
                    assert_eq!(merged(&parts, 100_000), Blake3::of(&whole), "{count} of {part}, {last}");
                }
            }
        }
    }

    #[test]
    fn parts_of_many_blocks_keep_little() {
        let whole = content(5 << 20);
        let kept = PartHash::of(ByteCount(5 << 20), &whole);
        assert!(kept.nodes.len() <= 4, "{} nodes", kept.nodes.len());
        assert!(kept.head.is_empty() && kept.tail.is_empty());
        assert_eq!(PartHash::of(ByteCount(0), &whole).tail.len(), CHUNK_LEN);
    }

    #[test]
    fn a_part_at_another_offset_is_refused() {
        let mut merger = PartsMerger::new();
        let part = PartHash::of(ByteCount(4096), &content(4096));
        assert!(!merger.push(&part, ByteCount(4096)));
        let mut first = PartHash::of(ByteCount(0), &content(4096));
        assert!(!merger.push(&first, ByteCount(4095)));
        first.nodes.push((0, [0; 32]));
        assert!(!merger.push(&first, ByteCount(4096)), "it has more bytes than it says");
        assert_eq!(merger.finish(), Blake3::of(b""));
    }

    #[test]
    fn what_nobody_made_is_refused() {
        for (offset, head, nodes, tail) in [
            (0, 1, vec![], 0),
            (1, 1, vec![(0, [0; 32])], 0),
            (1024, 0, vec![(1, [0; 32])], 0),
            (0, 0, vec![(200, [0; 32])], 1),
            (0, 0, vec![(54, [0; 32])], 1),
            (0, 0, vec![], 1025),
        ] {
            let (head, tail) = (vec![0; head], vec![0; tail]);
            let part = PartHash { offset: ByteCount(offset), head, nodes, tail };
            let length = part.length().unwrap_or_default();
            assert!(!PartsMerger::new().push(&part, length), "{part:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn any_split_has_the_hash_of_the_whole(
            lengths in proptest::collection::vec(
                prop_oneof![0usize..3000, (0usize..160).prop_map(|n| n * 1024), 0usize..300_000], 1..9),
            step in 1usize..90_000,
        ) {
            let whole = content(lengths.iter().sum());
            let mut parts = Vec::new();
            let mut rest = whole.as_slice();
            for length in lengths {
                let (part, behind) = rest.split_at(length);
                parts.push(part);
                rest = behind;
            }
            prop_assert_eq!(merged(&parts, step), Blake3::of(&whole));
        }
    }
}
