//! The first start on a catalogue that was restored or rebuilt: what pool and tapes hold is compared with it
//! while the server answers. [`Settling`] knows how far that is, and is asked by whoever must wait for it;
//! [`Settler`] does it, on its own thread and on those of the tape drives.

mod anew;
mod found;
mod pool;
mod progress;
mod room;
mod shards;
mod stages;
mod tapes;
mod torn;

pub use progress::Settling;
pub use room::{Settler, TapeRoom};
pub use tapes::{DRIVES_LOOK, SILENT_MAX};
