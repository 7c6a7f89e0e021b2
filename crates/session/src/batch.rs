//! What a writing session writes together, up to a flush and its commit.

use base::ByteCount;

/// Most containers of a batch: they are planned and committed together, some 10 ms of the catalogue's writer.
pub const WRITE_BATCH_CONTAINERS: u64 = 1_024;
/// Most members of them, but for what the last container has more: the places of their bytes are in memory
/// while the batch is written.
pub const WRITE_BATCH_MEMBERS: u64 = 40_000;

/// When a flush is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushRules {
    /// After so many bytes, ...
    pub bytes: ByteCount,
    /// ... or so many files; `u64::MAX`: whatever their number.
    pub files: u64,
}

impl FlushRules {
    /// By bytes, whatever the number of files.
    #[must_use]
    pub fn by_bytes(bytes: ByteCount) -> FlushRules {
        FlushRules { bytes, files: u64::MAX }
    }
}

/// Containers that are written together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteBatch {
    /// Their bytes.
    pub bytes: ByteCount,
    /// How many.
    pub containers: u64,
    /// Files in them; at least one in each container.
    pub members: u64,
}

impl WriteBatch {
    /// Takes a container of so many bytes and members.
    pub fn add(&mut self, bytes: ByteCount, members: u64) {
        self.bytes.0 = self.bytes.0.saturating_add(bytes.0);
        self.containers += 1;
        self.members = self.members.saturating_add(members.max(1));
    }

    /// Whether a flush is due before more is written: by the rules, or with so many containers or members
    /// that committing them takes its time.
    #[must_use]
    pub fn is_full(&self, rules: &FlushRules) -> bool {
        self.bytes.0 >= rules.bytes.0.max(1)
            || self.members >= rules.files
            || self.containers >= WRITE_BATCH_CONTAINERS
            || self.members >= WRITE_BATCH_MEMBERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: FlushRules = FlushRules { bytes: ByteCount(1_000), files: u64::MAX };

    fn batch(containers: u64, bytes: u64, members: u64) -> WriteBatch {
        let mut batch = WriteBatch::default();
        (0..containers).for_each(|_| batch.add(ByteCount(bytes), members));
        batch
    }

    #[test]
    fn a_batch_is_full_at_each_limit_and_not_before() {
        let by_files = FlushRules { files: 7, ..FLUSH };
        assert!(!batch(2, 0, 3).is_full(&by_files) && batch(1, 0, 7).is_full(&by_files));
        assert!(
            !WriteBatch::default().is_full(&FlushRules::by_bytes(ByteCount(0))),
            "of nothing no flush is due"
        );
        assert!(!batch(9, 111, 1).is_full(&FLUSH));
        assert!(batch(10, 100, 1).is_full(&FLUSH));
        assert!(!batch(WRITE_BATCH_CONTAINERS - 1, 0, 1).is_full(&FLUSH));
        assert!(batch(WRITE_BATCH_CONTAINERS, 0, 0).is_full(&FLUSH));
        assert!(!batch(1, 0, WRITE_BATCH_MEMBERS - 1).is_full(&FLUSH));
        assert!(batch(1, 0, WRITE_BATCH_MEMBERS).is_full(&FLUSH));
        // Two of the largest packs.
        let pack = super::super::PACK_MEMBERS_MAX as u64;
        assert!(!batch(1, 0, pack).is_full(&FLUSH) && batch(2, 0, pack).is_full(&FLUSH));
    }

    #[test]
    fn a_container_without_members_counts_as_one() {
        assert_eq!(batch(3, 0, 0).members, 3);
    }
}
