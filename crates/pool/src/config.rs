//! The settings of a pool.

use std::time::Duration;

use base::{ByteCount, DriveGroup, StripeCode, Uuid};
use drive::PAGE;

use crate::cell::{BLOCK_BYTES, BLOCKS_MAX};

/// Groups of drives beside those that are in none.
pub const GROUPS_MAX: usize = 8;
/// Rows of a striped blob that may be on their way to drives while the next is filled.
pub(crate) const WRITE_ROWS_IN_FLIGHT: usize = 2;
/// As many as a tape stream's if there is memory: the cells of an extent.
pub(crate) const STREAM_ROWS_BEHIND_MAX: usize = 63;
/// Memory for rows that clients have not filled yet, as a multiple of the pool's arena.
pub(crate) const GATHERING_ARENAS: usize = 2;
/// A client that fills a row within this time is quick: its next row is filled in the arena. Others fill
/// theirs in ordinary memory, so that the arena is held by none of them.
pub(crate) const ROW_QUICK: Duration = Duration::from_millis(250);
/// Rows that a reader fetches ahead of the one it hands out.
pub(crate) const READ_ROWS_AHEAD: usize = 2;
/// As many as a reader of a tape stream fetches ahead if there is memory: the cells of an extent.
pub(crate) const STREAM_ROWS_AHEAD_MAX: usize = 63;
/// Jobs that may wait for one drive, each for reading and for writing.
pub(crate) const DRIVE_QUEUE_MAX: usize = 64;
/// Bytes of small values that one commit writes.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;
/// Segments tried for one commit of small values before its callers are refused.
pub(crate) const SEGMENT_ATTEMPTS_MAX: usize = 4;

/// Blobs that wait to be repaired after a read found them damaged.
pub(crate) const REPAIRS_MAX: usize = 10_000;
/// Reads in a row that fail before a drive is set aside.
pub(crate) const READ_FAILURES_MAX: u32 = 16;
/// The rest of a failed drive before its first probe; it doubles with each that fails ...
pub(crate) const PROBE_REST_FIRST: Duration = Duration::from_secs(2);
/// ... up to this.
pub(crate) const PROBE_REST_MAX: Duration = Duration::from_secs(600);
/// The rest of a full drive before it is tried again, by writing a page and reserving what it lacked; it does
/// not grow, so that work goes on soon after somebody has made room.
pub(crate) const PROBE_REST_FULL: Duration = Duration::from_secs(5);
/// For how long the free space of a drive counts as known.
pub(crate) const SPACE_KEPT: Duration = Duration::from_secs(1);
/// How long the answer of a drive is waited for that is asked for its room, or of a full one whether it has
/// some again: usually it takes microseconds. Of a drive that hangs, or is busy for longer, what was known
/// before counts; nobody who comes later waits for the same answer.
pub(crate) const SPACE_PATIENCE: Duration = Duration::from_secs(2);
/// Questions for its room that a drive answers in a row while what was answered before ceases to count.
pub(crate) const SPACE_ANSWERS_MAX: usize = 8;
/// A drive that has been at one read for this long is asked for nothing that others can give.
pub(crate) const STUCK_READS_AFTER: Duration = Duration::from_millis(500);
/// A drive that has been at one read or write for this long is set aside.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(30);
/// How often a waiter looks whether the drive it waits for was set aside.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often a reader that can do without some of what is late looks what of it has come.
pub(crate) const LATE_LOOK_EVERY: Duration = Duration::from_millis(10);
/// A cell is late after this many times the usual time ...
pub(crate) const HEDGE_FACTOR: u64 = 8;
/// ... but not before this ...
pub(crate) const HEDGE_MIN: Duration = Duration::from_millis(20);
/// ... and after this in any case.
pub(crate) const HEDGE_MAX: Duration = Duration::from_secs(2);
/// When the usual time is not known.
pub(crate) const HEDGE_DEFAULT: Duration = Duration::from_millis(500);
/// Cell buffers for scrubbing and repair, at least, used only as far as layouts are wide.
pub(crate) const SCRUB_CELLS_MIN: usize = 512;
/// Cells that repairs take at least, if there is as much for them to do: with half of it a rebuild of 24
/// disks reads a third less ...
pub(crate) const REPAIR_CELLS_MIN: usize = 512;
/// ... and with a larger arena so many times what it has: a rebuild goes as fast as it has memory for cells
/// that wait for the slowest disk of their row, and a second loss is likelier the longer it takes.
pub(crate) const REPAIR_ARENAS: usize = 2;
/// Stripes that are repaired at once at most, if there is memory: of fewer some disks of a large pool are
/// asked for nothing.
pub(crate) const REPAIRS_AT_ONCE_MAX: usize = 16;
/// Cells of a shard that a repair appends together.
pub(crate) const REPAIR_APPEND_CELLS: usize = 16;
const _: () = assert!(REPAIR_CELLS_MIN >= SCRUB_CELLS_MIN, "both are of one arena, made for repairs");
const _: () = assert!(SCRUB_CELLS_MIN >= 2 * u8::MAX as usize, "a row of the widest code can be scrubbed");
const _: () = assert!(BATCH_BYTES_MAX.is_multiple_of(PAGE), "a batch ends at a page");
const _: () = assert!(PROBE_REST_FIRST.as_nanos() <= PROBE_REST_MAX.as_nanos());
const _: () = assert!(SPACE_PATIENCE.as_nanos() < HUNG_AFTER.as_nanos());
const _: () = assert!(HEDGE_MIN.as_nanos() <= HEDGE_DEFAULT.as_nanos());
const _: () = assert!(HEDGE_DEFAULT.as_nanos() <= HEDGE_MAX.as_nanos());

/// A repair reads the group of a loss alone only if the code has as many global parities: with fewer, a cell
/// that does not belong to its row could not be told afterwards from the parity that speaks against it.
pub(crate) const WITNESSES_MIN: usize = 2;

/// The settings of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// The instance, bound into every header.
    pub instance: Uuid,
    /// The code of new striped blobs, but for those that a group of drives gets.
    pub code: StripeCode,
    /// The codes of the groups of drives, from [`DriveGroup`] 1 on.
    pub groups: Vec<StripeCode>,
    /// Drives that hold each new segment of small values; usually one more than the losses the code bears.
    pub segment_copies: u8,
    /// The largest small value; at most 256 KiB.
    pub small_limit: ByteCount,
    /// Memory for all cell buffers: half for writers, the rest for readers and for mending.
    pub arena: ByteCount,
    /// The length at which a segment is sealed; at most 2 GiB.
    pub segment_size: ByteCount,
    /// Seeds the placement; the same for the life of the instance.
    pub placement_seed: u64,
    /// Payload of a cell. Part of the format: 1 MiB; only tests use less, in whole pages.
    pub cell_size: ByteCount,
    /// The largest extent of a striped blob. Part of the format: 64 MiB; only tests use less.
    pub extent_size: ByteCount,
}

/// Why settings are no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No data shards, more local parity than data, or more than 255 shards in all.
    #[error(
        "a layout of {0} is impossible; give at least 1 data shard, no more local parity than data, and at \
         most 255 shards in all"
    )]
    Layout(StripeCode),
    /// Segments without copies.
    #[error("segment_copies is 0; give at least 1, usually one more than the losses that the code bears")]
    Copies,
    /// More groups of drives than are told apart.
    #[error("a pool has at most {GROUPS_MAX} groups of drives")]
    Groups,
    /// A cell size that the format cannot express.
    #[error("cell_size must be a multiple of 4 KiB between 4 KiB and 1 MiB")]
    CellSize,
    /// An extent that holds no cell.
    #[error("extent_size must hold at least one cell and its header")]
    ExtentSize,
    /// A small limit above what a record can describe.
    #[error("small_limit must be at most 256 KiB")]
    SmallLimit,
    /// A segment too small for one commit or too large for its footer.
    #[error("segment_size must be between {minimum} and 2 GiB")]
    SegmentSize {
        /// The least size with these settings.
        minimum: ByteCount,
    },
    /// Too little memory.
    #[error("the arena is too small for this layout; give at least {minimum}")]
    Arena {
        /// The least size with these settings.
        minimum: ByteCount,
    },
}

impl PoolConfig {
    /// Drives in no group that the widest of the layouts which only they take needs.
    #[must_use]
    pub fn widest(&self) -> usize {
        self.code.width().max(self.segment_copies.into())
    }

    /// The code of what a group of drives gets.
    #[must_use]
    pub fn code_of(&self, group: DriveGroup) -> StripeCode {
        let at = usize::from(group.0).checked_sub(1);
        at.and_then(|at| self.groups.get(at)).copied().unwrap_or(self.code)
    }

    /// How many drives may fail whatever they hold of new striped blobs.
    #[must_use]
    pub fn bears(&self) -> usize {
        self.codes().map(StripeCode::bears).min().unwrap_or(0)
    }

    /// The fewest shards that one of the codes needs.
    #[must_use]
    pub fn data_min(&self) -> usize {
        self.codes().map(|code| usize::from(code.data)).min().unwrap_or(0)
    }

    /// All codes of new blobs.
    pub(crate) fn codes(&self) -> impl Iterator<Item = StripeCode> {
        self.groups.iter().copied().chain([self.code])
    }

    /// Cells of a row in the widest of the codes.
    pub(crate) fn widest_row(&self) -> usize {
        self.codes().map(StripeCode::width).max().unwrap_or(0)
    }

    /// The usual settings for a layout.
    #[must_use]
    pub fn new(instance: Uuid, code: StripeCode) -> Self {
        PoolConfig {
            instance,
            code,
            groups: Vec::new(),
            segment_copies: u8::try_from(code.bears() + 1).unwrap_or(u8::MAX),
            small_limit: ByteCount::kib(256),
            arena: ByteCount::mib(192),
            segment_size: ByteCount::mib(64),
            placement_seed: 0,
            cell_size: ByteCount::mib(1),
            extent_size: ByteCount::mib(64),
        }
    }

    /// Checks all settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let page = PAGE as u64;
        if let Some(impossible) = self.codes().find(|code| !code.exists()) {
            return Err(ConfigError::Layout(impossible));
        }
        if self.groups.len() > GROUPS_MAX {
            return Err(ConfigError::Groups);
        }
        if self.segment_copies == 0 {
            return Err(ConfigError::Copies);
        }
        let cell_max = (BLOCK_BYTES * BLOCKS_MAX) as u64;
        if !self.cell_size.0.is_multiple_of(page) || !(page..=cell_max).contains(&self.cell_size.0) {
            return Err(ConfigError::CellSize);
        }
        if self.extent_size.0 < self.cell_size.0 + page || self.extent_size > ByteCount::gib(2) {
            return Err(ConfigError::ExtentSize);
        }
        if self.small_limit > ByteCount::kib(256) {
            return Err(ConfigError::SmallLimit);
        }
        let minimum = ByteCount(3 * (self.small_limit.0 + 2 * page));
        if self.segment_size < minimum || self.segment_size > ByteCount::gib(2) {
            return Err(ConfigError::SegmentSize { minimum });
        }
        let row = self.widest_row() as u64 * (self.cell_size.0 + page);
        // Two rows for writers, two for readers, one for mending.
        let minimum = ByteCount(row * 5);
        if self.arena < minimum {
            return Err(ConfigError::Arena { minimum });
        }
        Ok(())
    }
}
