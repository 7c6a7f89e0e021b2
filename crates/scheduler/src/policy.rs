//! What the operator decides.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, Duration, TapePoolId};

/// When the files of a class are gathered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassPolicy {
    /// Its name, for people.
    pub name: String,
    /// The size of a pack.
    pub pack_bytes: ByteCount,
    /// Seal what there is when the oldest file waits longer than this.
    pub pack_age: Duration,
}

/// When a tape pool gets a drive to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapePoolPolicy {
    /// Its name, for people.
    pub name: String,
    /// Mount when this much is queued per mounted tape of the pool, plus one.
    pub mount_bytes: ByteCount,
    /// Mount when the oldest container waits longer than this and no tape of the pool is mounted.
    pub mount_age: Duration,
    /// Most drives that write to this pool at once.
    pub drives_max: usize,
}

/// All policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// By class.
    pub classes: BTreeMap<ClassId, ClassPolicy>,
    /// By tape pool.
    pub tape_pools: BTreeMap<TapePoolId, TapePoolPolicy>,
    /// Recall: mount a tape when its oldest wanted file waits longer than this ...
    pub recall_age: Duration,
    /// ... or when this much is wanted from it.
    pub recall_bytes: ByteCount,
    /// Keep an idle tape in its drive for this long, unless something else needs the drive.
    pub dismount_delay: Duration,
    /// A drive or tape that failed is left alone for this long before it is tried again.
    pub retry_delay: Duration,
}
