#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::indexing_slicing
    )
)]
//! What disks a machine has, how they are connected, and how they are.
//!
//! Pure: it reads a [`Tree`] of files as Linux's `/sys` shows them, and beside them what disks and
//! enclosures have answered. The tree of the running machine, a recorded one ([`Record`]) and a test's are
//! read by the same lines ([`Machine::read`]). What a tree holds may be anything: what cannot be read is
//! told, and never ends the reading.

pub mod bottleneck;
pub mod constants;
pub mod counters;
pub mod drive_place;
pub mod health;
pub mod layout;
mod machine;
pub mod maps;
pub mod mounts;
pub mod nvme;
mod order;
pub mod paths;
mod read;
mod reader;
mod record;
pub mod takeover;
mod tree;

pub use machine::{
    About, Answered, Counter, Counters, Disk, DiskKey, DiskKind, Element, Enclosure, Expander, Hop, Host,
    HostKind, Machine, Network, NvmeAnswer, Path, PciFunction, PciLink, Phy, PhyRate, Place, Port, Problem,
    ScsiAnswers, Services, Slot, SlotAt, SlotState,
};
pub use order::{by_number, in_order};
pub use read::{LOG_PAGES, askable};
pub use reader::{PROBLEMS_MAX, Reader};
pub use record::{ENTRIES_MAX, RECORD_MAX, Record, RecordError, Recorder};
pub use tree::{NAMES_MAX, Overlay, PATH_MAX, READ_MAX, Tree, Unread};
