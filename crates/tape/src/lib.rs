//! The room of tapes: the scheduler and its conductor, sealing, the sessions of drives, requests, checks and
//! repacks, bases of the catalogue on tapes; and why things wait.

mod awaited;
mod bases;
mod bases_on_tapes;
mod capacity;
mod change_log;
mod cleaning;
mod conductor;
mod damage;
mod dissolve;
mod evictable;
mod evictor;
mod exports;
mod fits;
mod flow;
mod foresight;
mod glacier;
mod haste;
mod held_back;
mod inventory;
mod keys;
mod maintenance;
mod mends;
mod mounts;
mod operate;
mod path_requests;
mod read_rests;
mod reasons;
mod reclaim;
mod repack;
mod requests;
mod resting;
mod resume;
mod room;
mod room_for_reads;
mod room_indexes;
mod running;
mod seal;
mod sessions;
mod settler;
mod space;
mod suspects;
mod tape_retries;
mod tapes;
mod too_small;
mod tracks;
mod unneeded;
mod warnings;
mod why;
mod why_repack;

pub use change_log::{BasesAsked, ChangeLogInfo, LogKept, turn as trim_change_log};
pub use flow::{FlowInfo, RecallRoom};
pub use operate::TAPE_PAGE_MAX;
pub use requests::{REFUSALS_SHOWN_MAX, REQUEST_PAGE_MAX};
pub use room::Tape;
pub use running::{Begun, TapeParts};
pub use tapes::{
    CHECK_TAPES_MAX, CheckState, DAMAGE_TOLD_MAX, DamagedPart, TapeCheck, TapeDamage, TapeRepack,
};
pub use unneeded::QueueWalk;
pub use warnings::of_what_has_no_vid;
pub use why::refusal_text;
pub use why_repack::{RepackStep, RepackWait};
