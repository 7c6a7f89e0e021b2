//! How much one command may be about, and the catalogue may hold.

use base::Duration;

/// Most members that one container may have.
pub const CONTAINER_MEMBERS_MAX: usize = 100_000;
/// The priority of the most urgent requests.
pub const PRIORITY_MAX: u8 = 9;
/// The priority of requests of which nothing is said.
pub const PRIORITY_USUAL: u8 = 5;
const _: () = assert!(PRIORITY_USUAL <= PRIORITY_MAX, "what is usual is possible");
/// Most extents that one `NoteUnknown` finds, or says to be gone.
pub const UNKNOWN_BATCH_MAX: usize = 10_000;
/// Most files in one `AddToRequest`, `Evict`, `Release`, `RecallDone` or `PartsRecalled`.
pub const BATCH_FILES_MAX: usize = 10_000;
/// Files that whoever gives commands puts into one: a few milliseconds of work, so that others do not wait.
pub const BULK_FILES: usize = 400;
const _: () = assert!(0 < BULK_FILES && BULK_FILES <= BATCH_FILES_MAX, "a part is a batch that apply takes");
/// Most files in one request.
pub const REQUEST_FILES_MAX: u32 = 10_000_000;
/// Most paths in one request that names paths one by one: what one answer about it can say.
pub const REQUEST_PATHS_MAX: u32 = 10_000;
/// Most requests that name paths one by one and have not ended, of one who asks.
pub const OPEN_REQUESTS_MAX: u32 = 5_000;
/// Most bytes that the paths may have that all requests of one who asks keep: those that are open, those that
/// have ended, and those that hold files.
pub const KEPT_PATH_BYTES_MAX: u64 = 4 << 30;
/// So long is a path on average of whoever has all requests open that one may have, each with all its paths.
const USUAL_PATH_BYTES: u64 = 85;
const _: () = assert!(
    OPEN_REQUESTS_MAX as u64 * REQUEST_PATHS_MAX as u64 * USUAL_PATH_BYTES <= KEPT_PATH_BYTES_MAX,
    "whoever has as many requests and paths as allowed is not stopped by usual names"
);
/// Most ranges of changes in one `IndexWritten`.
pub const SEGMENTS_MAX: usize = 1_000;
/// Most condemned trees that are remembered, those that are gone included.
pub const TREES_MAX: usize = 1_000;
/// Most holds, and most access control lists, that are looked at to know that none is in a tree which is to
/// be condemned; with more of them, most names of the tree. Some milliseconds of work.
pub const TREE_ROWS_LOOKED_MAX: usize = 1_000;
/// Most quotas.
pub const QUOTAS_MAX: usize = 10_000;
/// For how long the answer to an idempotency key is kept.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(7 * 86_400);
