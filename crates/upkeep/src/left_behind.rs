//! What moved stripes have left behind, until nobody reads it any more.

use std::collections::{BTreeSet, VecDeque};

use base::{BlobId, ByteCount, DriveId};
use ground::ReadGate;
use pool::BadShard;

/// Shards of a blob that the catalogue does not name any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OldShards {
    /// The blob, as whoever reads it holds it.
    pub(crate) blob: BlobId,
    /// The id that the extents have.
    pub(crate) extents: BlobId,
    pub(crate) shards: Vec<BadShard>,
    /// Bytes of the blob, if all of it is left.
    pub(crate) bytes: ByteCount,
}

/// The old shards of stripes that have moved, and of blobs that were written anew, in the order in which they
/// were left.
#[derive(Default)]
pub(crate) struct LeftBehind(VecDeque<Left>);

struct Left {
    /// [`ReadGate::turn`] when the catalogue named the new ones.
    mark: u64,
    old: OldShards,
}

impl LeftBehind {
    /// Takes over what the catalogue does not name any more.
    pub(crate) fn leave(&mut self, gate: &ReadGate, moved: Vec<OldShards>) {
        if !moved.is_empty() {
            let mark = gate.turn();
            self.0.extend(moved.into_iter().map(|old| Left { mark, old }));
        }
    }

    /// Whether this shard of extents of this id is left.
    pub(crate) fn has(&self, extents: BlobId, shard: &BadShard) -> bool {
        self.0.iter().any(|left| left.old.extents == extents && left.old.shards.contains(shard))
    }

    /// Bytes of blobs of which all that they were is left.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, left| sum.saturating_add(left.old.bytes.0))
    }

    /// The drives on which something is left.
    pub(crate) fn drives(&self) -> BTreeSet<DriveId> {
        self.0.iter().flat_map(|left| left.old.shards.iter().map(|bad| bad.drive)).collect()
    }

    /// Takes out what no reader is in, and nobody holds who knows the stripes as they were: a tape session
    /// does so for as long as it writes. What is behind that does not wait for it.
    pub(crate) fn take_unread(&mut self, gate: &ReadGate) -> Vec<OldShards> {
        let left = self.0.iter().take_while(|left| gate.has_left(left.mark)).count();
        let (held, unread): (Vec<Left>, Vec<Left>) =
            self.0.drain(..left).partition(|left| gate.is_held(left.old.blob));
        // In their order: the marks ascend.
        held.into_iter().rev().for_each(|left| self.0.push_front(left));
        unread.into_iter().map(|left| left.old).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn left(blob: u64) -> OldShards {
        let shards = vec![BadShard { stripe: 0, shard: 1, drive: DriveId(2) }];
        OldShards { blob: BlobId(blob), extents: BlobId(blob), shards, bytes: ByteCount(0) }
    }

    /// Story: a tape session is not inside the gate while it writes, and holds what it reads. What a stripe
    /// of it had left behind was removed all the same, and the session read shards that were not there.
    #[test]
    fn what_a_session_holds_stays_until_it_lets_go() {
        let gate = Arc::new(ReadGate::default());
        let mut behind = LeftBehind::default();
        let reading = gate.enter();
        let held = gate.hold([BlobId(1)].into());
        behind.leave(&gate, vec![left(1), left(2)]);
        assert!(behind.take_unread(&gate).is_empty(), "a reader is inside");
        drop(reading);
        assert_eq!(behind.take_unread(&gate), [left(2)], "the session still writes");
        let late = gate.enter();
        behind.leave(&gate, vec![left(3)]);
        assert!(behind.take_unread(&gate).is_empty());
        drop(held);
        assert_eq!(behind.take_unread(&gate), [left(1)], "a reader is in the third");
        drop(late);
        assert_eq!(behind.take_unread(&gate), [left(3)]);
        assert!(behind.take_unread(&gate).is_empty(), "each is removed once");
    }
}
