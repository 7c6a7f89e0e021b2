//! The catalogue's embedded engine and its single writer.
//!
//! A [`CatalogueStore`] keeps the catalogue's tables in LMDB. One thread writes: it takes all commands that
//! wait, applies
//! them in one transaction, syncs, then answers. Readers never wait.

// Casts that lose something are no way to take what comes from outside; tests may.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod change_log;
mod engine;
mod error;
mod even_copy;
mod format;
mod head;
mod integrity;
mod lmdb_writing;
mod memory;
mod pages;
mod replay;
mod room;
mod rows;
mod snapshot;
mod store;
mod sums;
mod verify;
mod waiting;
mod writer;

pub use change_log::{AppendError, ChangeLog, Changes, Durable, Embedded, FollowError, Term};
pub use error::{Damage, ExecuteError, OpenError, ReplayError, SnapshotError};
pub use format::{FORMAT_VERSION, OLDEST_FORMAT_READ};
pub use memory::{CommitControl, CommitFate, MemoryCatalogue, MemoryChange, MemorySnapshot};
pub use replay::{Replay, time_of_change};
pub use room::{Lack, Refused, Shortage, free_bytes};
pub use rows::{BaseCheck, BaseRowVisit, LogSize};
pub use snapshot::{Digests, SNAPSHOT_DATA, SNAPSHOT_FORMAT, SnapshotReader, TableDigest, snapshot_files};
pub use store::{CatalogueStore, READERS_MAX, StoreOptions};
pub use verify::VerifyError;
pub use writer::{BATCH_MAX, EXECUTE_ALL_MAX, QUEUE_MAX};
