//! What the sessions of a server do within an order of the scheduler: which files make a pack, what is read
//! or written together. Pure: the engine calls it over the catalogue, the twin over its model, the forecast
//! over sums.

mod gather;
mod reading;
mod room;
mod sealing;
mod writing;

pub use gather::{PackLimit, PackSize, Waiting};
pub use reading::{
    PLAN_FILES_MAX, RECALL_BATCH_BYTES, RECALL_BATCH_FILES, REPLAN_EVERY, plan_stands, take_batch,
};
pub use room::{BACK_OFF_MAX, back_off, left_for_puts};
pub use sealing::{PACK_MEMBERS_MAX, SEAL_BATCH_MAX, Sealed, Sealing, seal, seal_in_bulk};
pub use writing::{WRITE_BATCH_CONTAINERS, WRITE_BATCH_MEMBERS, WriteBatch};
