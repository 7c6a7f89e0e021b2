//! What the operator decides.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, Duration, LibraryId, ShareId, TapePoolId};

/// The highest priority of a request; the lowest is 0.
pub const PRIORITY_MAX: u8 = 9;

/// A tape whose oldest wanted file waits longer than this goes before all others, oldest first, however
/// little is wanted from it: what [`Policy::default`] says.
pub const STARVATION: Duration = Duration::from_secs(6 * 3600);

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
    /// Drives that are kept for this pool while it has enough to write.
    pub drives_min: usize,
    /// Most drives that write to this pool at once.
    pub drives_max: usize,
    /// Most tapes of the pool that are begun and not full: no scratch tape is taken beyond them.
    pub open_tapes_max: usize,
    /// The share that its writing is charged to.
    pub share: ShareId,
    /// The library that it writes in: it gets scratch tapes of that one only, and of its own tapes none
    /// elsewhere is written.
    pub library: Option<LibraryId>,
}

impl Default for TapePoolPolicy {
    /// 500 GB or six hours, one drive, any number of begun tapes, share 0.
    fn default() -> Self {
        TapePoolPolicy {
            name: String::new(),
            mount_bytes: ByteCount(500_000_000_000),
            mount_age: Duration::from_secs(6 * 3600),
            drives_min: 0,
            drives_max: 1,
            open_tapes_max: usize::MAX,
            share: ShareId(0),
            library: None,
        }
    }
}

/// What a share may have of the tape drives. One that the policy does not name has what
/// [`SharePolicy::default`] says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharePolicy {
    /// Its name, for people.
    pub name: String,
    /// Its part of the drive time, against the weights of the others that have work. 0 counts as 1.
    pub weight: u32,
    /// Drives that are kept for it while it has work that is worth a mount: below this number it gets the
    /// next drive that can serve it.
    pub drives_min: usize,
    /// Most drives that mount, read or write on its behalf at once.
    pub drives_max: usize,
    /// Whether what it may have of the pool is limited (`pool_max`): for reasons in words only, the limit
    /// itself is told by events.
    pub has_pool_max: bool,
}

impl Default for SharePolicy {
    /// Weight 1, no drive of its own, any number at most, all of the pool.
    fn default() -> Self {
        SharePolicy {
            name: String::new(),
            weight: 1,
            drives_min: 0,
            drives_max: usize::MAX,
            has_pool_max: false,
        }
    }
}

/// What reading or writing may have of the tape drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidePolicy {
    /// Drives that are kept for this side while it has work that is worth a mount.
    pub drives_min: usize,
    /// Most drives that mount tapes for it or have a session of it at once.
    pub drives_max: usize,
}

impl Default for SidePolicy {
    /// No drive of its own, any number at most.
    fn default() -> Self {
        SidePolicy { drives_min: 0, drives_max: usize::MAX }
    }
}

/// What is to be known of a tape library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryPolicy {
    /// Its name, for people.
    pub name: String,
    /// What a mount there costs against one elsewhere, in percent: of two tapes with a copy, one that costs
    /// twice as much is taken if twice as much is wanted from it. More than 100 for another site.
    pub mount_cost_percent: u32,
}

/// All policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// By class.
    pub classes: BTreeMap<ClassId, ClassPolicy>,
    /// By tape pool.
    pub tape_pools: BTreeMap<TapePoolId, TapePoolPolicy>,
    /// By share.
    pub shares: BTreeMap<ShareId, SharePolicy>,
    /// By library; a mount in one that is not named costs 100 percent.
    pub libraries: BTreeMap<LibraryId, LibraryPolicy>,
    /// Drive time that a share used so long ago counts half.
    pub share_half_life: Duration,
    /// Recall: mount a tape when its oldest wanted file waits longer than this ...
    pub recall_age: Duration,
    /// ... or when this much is wanted from it ...
    pub recall_bytes: ByteCount,
    /// ... or so many files ...
    pub recall_files: u64,
    /// ... or one of at least this priority; above [`PRIORITY_MAX`]: never for that.
    pub recall_at_once: u8,
    /// A tape, or a tape pool, that waits longer than this goes first, oldest first.
    pub starvation: Duration,
    /// Drives for recall.
    pub recall: SidePolicy,
    /// Drives for migration.
    pub migration: SidePolicy,
    /// Most mounts and unmounts under way at once in each library: what its robots can do.
    pub mounts_at_once_max: usize,
    /// Keep an idle tape in its drive for this long, unless something else needs the drive.
    pub dismount_delay: Duration,
    /// A tape that was just unmounted is not mounted again before this has passed, unless it starves ...
    pub remount_delay: Duration,
    /// ... or this much waits for it.
    pub remount_bytes: ByteCount,
    /// A drive or tape that failed is left alone for this long before it is tried again.
    pub retry_delay: Duration,
}

impl Default for Policy {
    /// No class, pool or share; recall after five minutes or for 100 GB; nothing else limited.
    fn default() -> Self {
        Policy {
            classes: BTreeMap::new(),
            tape_pools: BTreeMap::new(),
            shares: BTreeMap::new(),
            libraries: BTreeMap::new(),
            share_half_life: Duration::from_secs(6 * 3600),
            recall_age: Duration::from_secs(300),
            recall_bytes: ByteCount(100_000_000_000),
            recall_files: u64::MAX,
            recall_at_once: PRIORITY_MAX + 1,
            starvation: STARVATION,
            recall: SidePolicy::default(),
            migration: SidePolicy::default(),
            mounts_at_once_max: usize::MAX,
            dismount_delay: Duration::from_secs(120),
            remount_delay: Duration::ZERO,
            remount_bytes: ByteCount(u64::MAX),
            retry_delay: Duration::from_secs(900),
        }
    }
}

impl Policy {
    pub(crate) fn share(&self, share: ShareId) -> SharePolicy {
        self.shares.get(&share).cloned().unwrap_or_default()
    }

    pub(crate) fn share_drives_max(&self, share: ShareId) -> usize {
        self.shares.get(&share).map_or(usize::MAX, |policy| policy.drives_max)
    }

    pub(crate) fn share_drives_min(&self, share: ShareId) -> usize {
        self.shares.get(&share).map_or(0, |policy| policy.drives_min)
    }

    pub(crate) fn share_weight(&self, share: ShareId) -> u32 {
        self.shares.get(&share).map_or(1, |policy| policy.weight.max(1))
    }

    pub(crate) fn mount_cost_percent(&self, library: LibraryId) -> u64 {
        self.libraries.get(&library).map_or(100, |policy| u64::from(policy.mount_cost_percent.max(1)))
    }
}
