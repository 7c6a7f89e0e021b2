//! Looks at this machine's disks for [`topology`]: reads its files, asks disks and enclosures how they are,
//! and switches the lights of slots. Recorded machines are opened here, too.
//!
//! Nothing but [`locate`] changes anything on a device, but [`blank`], which makes a file system on one that
//! holds nothing, and nothing but [`multipath`] what the kernel makes of several.

mod ask;
pub mod blank;
mod files;
mod locate;
mod look;
pub mod multipath;
mod same_disk;

pub use ask::{ASK_MAX, COMMAND_MAX, enclosure_pages, log_pages, smart_data};
pub use files::Files;
pub use locate::{LocateError, Switched, is_lit, locate};
pub use look::{Recorded, RecordedError, SaveError, live, open, save};
