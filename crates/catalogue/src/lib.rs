//! The one truth about names, files, copies, tapes and requests.
//!
//! Commands change it ([`apply()`]), a [`View`] reads it, both over a narrow ordered key-value seam
//! ([`Snapshot`], [`Transaction`]). `docs/format/catalogue.md` gives every byte.

mod apply;
mod check;
mod codec;
mod command;
mod draft;
mod encoding;
mod error;
mod frame;
mod key;
mod kv;
mod memory;
mod overlay;
mod record;
mod table;
mod view;

pub use apply::{Batch, apply};
pub use check::Inconsistency;
pub use command::{
    BATCH_FILES_MAX, CONTAINER_MEMBERS_MAX, Command, Envelope, EvictRefusal, IDEMPOTENCY_KEPT, Outcome,
    PRIORITY_MAX, PRIORITY_USUAL, PlannedContainer, PoolData, PoolLoss, PutFile, PutOutcome,
    REQUEST_FILES_MAX, RecallDone, Replace, Requeue, SEGMENTS_MAX, SealContainer,
};
pub use encoding::{DecodeError, ENVELOPE_BYTES_MAX, ENVELOPE_VERSION};
pub use error::{Object, ReadError, Rejection};
pub use frame::RECORD_VERSION;
pub use kv::{KvError, Snapshot, Transaction, Visit};
pub use memory::MemoryStore;
pub use overlay::{Overlay, Rows, scan_overlaid, scan_rows};
pub use record::{
    Attributes, BlobRecord, ClassRecord, ContainerCopy, ContainerKind, ContainerRecord, CopyState, Counter,
    DirectoryRecord, Entry, FileKind, FileRecord, FileState, Garbage, IdempotencyRecord, ItemState,
    MemberRecord, QueuedContainer, RecallItem, RecallKey, RequestItem, RequestRecord, RequestState, RunEnd,
    RunItem, RunRecord, Tally, TapePlace, TapeRecord, TapeState, TodoFile, Want,
};
pub use table::Table;
pub use view::{TodoRow, View, merged_ranges};
