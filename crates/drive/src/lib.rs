//! Object drives: immutable extents on a directory of any file system.

mod buffer;
mod burn_in;
mod burn_in_demand;
mod device;
mod directory;
mod error;
mod extent;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod holes;
mod lock;
mod object;
mod queue;
mod shared;
mod superblock;
mod uring;
mod writer;

pub use buffer::AlignedBuffer;
pub use burn_in::{BurnInDoubt, BurnInId, BurnInRecord, BurnInRecordError, BurnInVerdict};
pub use burn_in_demand::{BURN_IN_LEAVES, BurnInDemand, BurnInState, QUICK_BURN_IN};
pub use device::{DriveIo, DriveIoError};
pub use directory::{DirectIo, DirectoryDrive, holds_nothing};
pub use error::{DriveError, DriveOpenError};
pub use extent::ExtentId;
pub use lock::DirectoryLock;
pub use object::{
    DriveStatus, ExtentWriter, ObjectDrive, PAGE, SECTOR, SharedPage, Stamp, punch_page_by_page,
};
pub use queue::{
    BlockingQueue, DriveQueue, QueueEngine, QueuedExtent, ReadOperation, WriteOperation, WriteStep,
};
pub use shared::SharedMemory;
pub use superblock::{Refusal as StampRefusal, decode as decode_stamp, encode as encode_stamp};
pub use uring::io_uring;
