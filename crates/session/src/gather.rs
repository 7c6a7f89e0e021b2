//! Which waiting files go into one pack: those of one data set, as long as it has enough of them. Pure.
//!
//! Files come data set by data set. One of at least half a pack gets packs of its own, at no time shared
//! with another. What is smaller is put together with its neighbours in the tree and not cut, so that there
//! are never more than about twice as many packs as bytes need, however many data sets there are.

use base::{ByteCount, FileId};

/// Files of small data sets that are held together, at most, before packs are made of them.
const WINDOW_FILES_MAX: usize = 100_000;
/// As much, at most, in packs.
const WINDOW_PACKS_MAX: u64 = 64;

/// A file that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waiting {
    /// Its data set.
    pub data_set: u64,
    /// The file.
    pub file: FileId,
    /// Bytes.
    pub size: u64,
}

/// The size of packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackSize {
    /// A pack is full with so many bytes, more than 0 ...
    pub bytes: u64,
    /// ... or so many members, which no pack has more of.
    pub members: usize,
    /// No pack is larger than this on tape: it ends before the file that would make it so.
    pub limit: PackLimit,
}

/// How large a pack may be on tape. What is larger than an empty tape takes would never be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackLimit {
    /// The largest container that an empty tape takes, in each of the tape pools that get a copy.
    pub largest: ByteCount,
    /// What a pack has on tape beside its members, at most.
    pub pack_overhead: ByteCount,
    /// What a member has on tape beside the bytes of its file, at most.
    pub member_overhead: ByteCount,
}

impl PackLimit {
    /// For packs of which only the bytes of their files count, on tapes of which nothing is known.
    pub const NONE: PackLimit = PackLimit {
        largest: ByteCount(u64::MAX),
        pack_overhead: ByteCount(0),
        member_overhead: ByteCount(0),
    };

    /// What files of so many bytes in all take on tape as a pack, at most.
    fn on_tape(&self, bytes: u64, files: usize) -> u128 {
        let overhead = u128::from(self.member_overhead.0) * files as u128;
        u128::from(self.pack_overhead.0) + overhead + u128::from(bytes)
    }

    /// Whether a tape takes a pack of so many files with so many bytes in all.
    pub(super) fn allows(&self, bytes: u64, files: usize) -> bool {
        self.on_tape(bytes, files) <= u128::from(self.largest.0)
    }
}

impl PackSize {
    /// Whether this is at least `parts` of `of` parts of a full pack, or more than those of the largest one.
    pub(super) fn is_filled(&self, bytes: u64, files: usize, parts: u64, of: u64) -> bool {
        let has = |what: u128| what * u128::from(of);
        let full = |full: u64| u128::from(full) * u128::from(parts);
        has(u128::from(bytes)) >= full(self.bytes)
            || has(files as u128) >= full(self.members as u64)
            || has(self.limit.on_tape(bytes, files)) > full(self.limit.largest.0)
    }
}

/// What becomes of that which does not fill a pack of its data set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// It goes on waiting.
    Stays,
    /// It goes into packs; only what would be the last one, and is not full, goes on waiting.
    Mixed,
    /// All goes.
    Goes,
}

/// Files for packs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Group {
    files: Vec<Waiting>,
    bytes: u64,
}

/// Takes files in the order of their data sets and gives packs.
#[derive(Debug)]
pub(super) struct Gather {
    size: PackSize,
    rest: Rest,
    /// Of the data set that is coming in.
    own: Group,
    /// The last data set that has filled a pack.
    packed: Option<u64>,
    /// Small data sets, whole or their ends, that have all come in.
    small: Vec<Group>,
    small_files: usize,
    small_bytes: u64,
    /// What stays, so far.
    left_files: u64,
    left_bytes: u64,
}

impl Gather {
    pub(super) fn new(size: PackSize, rest: Rest) -> Self {
        assert!(size.bytes > 0 && size.members > 1, "a pack holds something");
        Gather {
            size,
            rest,
            own: Group::default(),
            packed: None,
            small: Vec::new(),
            small_files: 0,
            small_bytes: 0,
            left_files: 0,
            left_bytes: 0,
        }
    }

    /// Takes the next file, which a pack can have; gives the packs that are complete with it.
    pub(super) fn push(&mut self, file: Waiting) -> Vec<Vec<Waiting>> {
        assert!(self.size.limit.allows(file.size, 1), "a file that fills a tape is no member of a pack");
        let mut packs = Vec::new();
        if self.own.files.last().is_some_and(|last| last.data_set != file.data_set) {
            self.end_data_set(&mut packs);
        }
        self.own.push(file);
        // Half a pack is held back, so that the rest of the data set is at least so much.
        while self.size.is_filled(self.own.bytes, self.own.files.len(), 3, 2) {
            packs.push(self.own.take_first(self.size, 1));
            self.packed = Some(file.data_set);
        }
        packs
    }

    /// No more files come.
    pub(super) fn end(&mut self) -> Vec<Vec<Waiting>> {
        let mut packs = Vec::new();
        self.end_data_set(&mut packs);
        packs
    }

    /// Whether so much of small data sets came together that [`Gather::mix`] must be called.
    pub(super) fn window_is_full(&self) -> bool {
        self.small_files >= WINDOW_FILES_MAX
            || self.small_bytes >= self.size.bytes.saturating_mul(WINDOW_PACKS_MAX)
    }

    /// Makes packs of the small data sets that have come in, those that stand beside each other by `place` of
    /// a file together. Unless it is the `last` time, what would be the last pack waits for more.
    pub(super) fn mix<E>(
        &mut self,
        last: bool,
        mut place: impl FnMut(FileId) -> Result<String, E>,
    ) -> Result<Vec<Vec<Waiting>>, E> {
        let mut placed = Vec::with_capacity(self.small.len());
        for group in std::mem::take(&mut self.small) {
            let Some(first) = group.files.first() else { continue };
            placed.push((place(first.file)?, first.data_set, group));
        }
        placed.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        (self.small_files, self.small_bytes) = (0, 0);
        let mut packs = Vec::new();
        let mut open: Vec<Group> = Vec::new();
        let (mut bytes, mut files) = (0u64, 0usize);
        for (_, _, group) in placed {
            let (with, members) = (bytes + group.bytes, files + group.files.len());
            let fits = with <= self.size.bytes
                && members <= self.size.members
                && self.size.limit.allows(with, members);
            if !fits && files > 0 {
                packs.push(open.drain(..).flat_map(|group| group.files).collect());
                (bytes, files) = (0, 0);
            }
            bytes += group.bytes;
            files += group.files.len();
            open.push(group);
        }
        match (last, self.rest) {
            (true, Rest::Goes) if files > 0 => packs.push(open.into_iter().flat_map(|g| g.files).collect()),
            (true, _) => self.leave(files, bytes),
            (false, _) => open.into_iter().for_each(|group| self.keep(group)),
        }
        Ok(packs)
    }

    /// Files and bytes that go on waiting.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.left_files, self.left_bytes)
    }

    fn end_data_set(&mut self, packs: &mut Vec<Vec<Waiting>>) {
        let mut own = std::mem::take(&mut self.own);
        let Some(last) = own.files.last() else { return };
        if self.rest == Rest::Stays {
            self.leave(own.files.len(), own.bytes);
            return;
        }
        // A file that goes over the end of a full pack may have left a little less than the half held back.
        let parts = if self.packed == Some(last.data_set) { 1 } else { 2 };
        if !self.size.is_filled(own.bytes, own.files.len(), parts, 4) {
            self.keep(own);
            return;
        }
        // Between one pack and one and a half: two of equal size, not a full one and a small one.
        if self.size.is_filled(own.bytes, own.files.len(), 1, 1) {
            let (bytes, members) = (own.bytes.div_ceil(2).max(1), own.files.len().div_ceil(2));
            let half = PackSize { bytes, members, ..self.size };
            // Bytes may all lie in front: what remains must still be a pack.
            let least = own.files.len().saturating_sub(self.size.members).max(1);
            let first = own.take_first(half, least);
            if self.size.limit.allows(own.bytes, own.files.len()) {
                packs.push(first);
            } else {
                // Files of unequal size leave more than a tape takes: as few packs as they need.
                own.put_back(first);
            }
        }
        while !own.files.is_empty() {
            packs.push(own.take_first(self.size, 1));
        }
    }

    fn keep(&mut self, group: Group) {
        self.small_files += group.files.len();
        self.small_bytes += group.bytes;
        self.small.push(group);
    }

    fn leave(&mut self, files: usize, bytes: u64) {
        self.left_files += files as u64;
        self.left_bytes += bytes;
    }
}

impl Group {
    fn push(&mut self, file: Waiting) {
        self.files.push(file);
        self.bytes += file.size;
    }

    /// The first files come back.
    fn put_back(&mut self, mut first: Vec<Waiting>) {
        self.bytes += first.iter().map(|file| file.size).sum::<u64>();
        first.append(&mut self.files);
        self.files = first;
    }

    /// Takes the first files out, until they have so many bytes or members, but at least `least` of them; in
    /// any case no more than a tape takes.
    fn take_first(&mut self, size: PackSize, least: usize) -> Vec<Waiting> {
        let (mut bytes, mut count) = (0u64, 0usize);
        for file in &self.files {
            let is_full = count >= least && (bytes >= size.bytes || count >= size.members);
            if is_full || !size.limit.allows(bytes + file.size, count + 1) {
                break;
            }
            bytes += file.size;
            count += 1;
        }
        self.bytes -= bytes;
        let rest = self.files.split_off(count);
        std::mem::replace(&mut self.files, rest)
    }
}

#[cfg(test)]
mod tests;
