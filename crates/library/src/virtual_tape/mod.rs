//! The virtual library: cartridges are directories of record files.

mod atomic;
mod block64;
mod cartridge;
mod cipher;
mod cleaning;
mod durable;
mod error;
#[cfg(feature = "faults")]
mod faults;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod index_file;
mod library;
mod map;
mod memory;
mod partition;
mod reader;
mod scan;
mod tape_drive;
mod timed;

pub use error::CartridgeError;
#[cfg(feature = "faults")]
pub use faults::{Condition, DriveCommand, Faults};
pub use frame::BLOCK_BYTES_MAX;
pub use identity::VirtualCartridgeOptions;
pub use library::{VirtualLibrary, VirtualLibraryConfig};
pub use memory::{MEMORY_ATTRIBUTES_MAX, MEMORY_VALUE_BYTES_MAX, VOLUME_CHANGE_REFERENCE};
pub use reader::{CartridgeReader, RecordCheck, RecordInfo, RecordKind};
pub use tape_drive::FILE_MARKS_MAX;
pub use timed::{ORDER_SEGMENTS_MAX, SleepingWaiter, VirtualTiming, Waiter};
