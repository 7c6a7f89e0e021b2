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
