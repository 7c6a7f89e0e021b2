//! What a lost catalogue is made from again, and how: its backup in a directory, and the tapes alone.
//!
//! - *Writing* the backup: [`Worker`] ships the change log as it grows and takes snapshots without stopping
//!   anything. [`BackupReach`] says how far the backup has the log, to those who would drop it elsewhere.
//! - *Reading* it: [`BackupDirectory`] with its [`Line`]s, each one history of the catalogue;
//!   `docs/format/backup.md` gives every byte.
//! - *Restoring* to any point of it ([`restore()`]), and rehearsing that ([`rehearse()`]).
//! - *Rebuilding* from cartridges alone ([`rebuild()`]): their change-log segments, behind a base if they
//!   have one. A base is the rows of the catalogue as they were after one change ([`make_base()`],
//!   [`BaseReader`]).
//! - *Looking at cartridges* without trusting a catalogue ([`tape`]), with many drives at once
//!   ([`TapeQueue`]): for the rebuild, and for the first start behind any restore.
//!
//! The crate knows no engine. What runs in a server, the worker, is given the catalogue, a clock and the
//! [`BackupReach`] to tell.

mod base_maker;
mod base_reader;
mod choose;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod layout;
mod line_start;
mod manifest;
mod pool_seen;
mod progress;
mod reach;
mod rebuild;
mod rehearse;
mod restore;
mod status;
pub mod tape;
mod tape_queue;
mod worker;

pub use base_maker::{MadeBase, MakeBaseError, make_base, remove_made_bases};
pub use base_reader::{BaseError, BaseReader};
pub use error::{BackupError, Candidate, RestoreError, ShipError};
pub use layout::{BackupDirectory, Line, SegmentFile};
pub use line_start::LineStart;
pub use manifest::SnapshotInfo;
pub use pool_seen::PoolSeen;
pub use progress::Progress;
pub use reach::BackupReach;
pub use rebuild::{RebuildError, Rebuilt, TapeFound, TapeUnread, rebuild};
pub use rehearse::{Rehearsed, TableCount, rehearse};
pub use restore::{Reached, RestoreTo, Restored, restore, restore_before};
pub use status::{BackupSettings, BackupStatus, not_shipped};
pub use tape_queue::{NotLookedAt, TapeLook, TapeQueue};
pub use worker::{OlderLines, Worker, WorkerParts, newest_shipped};
