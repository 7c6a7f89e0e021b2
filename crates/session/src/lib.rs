//! What a tape session does, once: which files become a pack, which containers a drive writes next, when a
//! flush and an index are due, in which order a tape is read, what is planned anew, and what finds room in
//! the pool.
//!
//! Pure: time comes in, actions go out. The engine carries the actions out on drives and catalogue, the twin
//! and the forecaster time them, tests drive them.

mod affinity;
mod batch;
mod choose;
mod gather;
mod haste;
mod index_for_room;
mod plan;
mod reading;
mod room;
mod sealing;
mod wanted;
mod water;
mod writing;

pub mod order;

pub use affinity::{Affinity, Writer};
pub use batch::{FlushRules, WRITE_BATCH_CONTAINERS, WRITE_BATCH_MEMBERS, WriteBatch};
pub use choose::{Accepted, CHOOSE_WINDOW, Choice, MigrationQueue, Queued, Target, Window, choose};
pub use gather::{PackLimit, PackSize, Waiting};
pub use haste::{Haste, HasteCall};
pub use index_for_room::{INDEX_FOR_ROOM_EVERY, INDEXES_FOR_ROOM_MAX, IndexesForRoom};
pub use plan::{
    PLAN_FILES_MAX, RECALL_BATCH_BYTES, RECALL_BATCH_FILES, REPLAN_EVERY, plan_stands, take_batch,
};
pub use reading::{
    DriveAnswer, DriveOrder, PlanReport, Planned, ReadOrder, ReadingAction, ReadingEvent, ReadingRules,
    ReadingSession,
};
pub use room::{BACK_OFF_MAX, FreeSpace, Room, RoomClaim, back_off, left_for_puts};
pub use sealing::{
    FILE_PARTS_MAX, PACK_MEMBERS_MAX, SEAL_BATCH_MAX, Sealed, Sealing, parts_of, seal, seal_in_bulk,
};
pub use wanted::{TapeSet, Wanted, WantedPage, gather_wanted};
pub use water::{Limits, Water};
pub use writing::{
    RunEnding, Situation, WriteEnded, WritingAction, WritingEvent, WritingRules, WritingSession, Written,
};

/// How a session ends that nothing failed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// Its queue or set is empty.
    Drained,
    /// The tape is full; the queue is not empty.
    TapeFull,
    /// It was asked to stop.
    Stopped,
    /// A recall whose other files find no room in the pool.
    NoRoom,
}
