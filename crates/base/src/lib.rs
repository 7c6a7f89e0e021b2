//! The words of Kist: ids, units, checksums, names, times. No I/O, no clock, no threads.

mod blob;
mod checksum;
mod id;
mod memory;
mod name;
pub mod planted;
mod steady;
mod time;
mod unit;

pub use blob::{BlobDescription, BlobPiece, Layout, StripeCode, StripeSet};
pub use checksum::{Adler32, Blake3, Checksums, Crc32c, Crc64, StreamChecksums};
pub use id::{
    BlobId, ClassId, ContainerId, DirId, DriveId, Epoch, FileId, LibraryId, RequestId, RunId, ShareId,
    StripeSetId, TapePoolId, Uuid, Vid, VidError,
};
pub use memory::keep_freed_memory;
pub use name::{ArchivePath, Name, NameError, PATH_BYTES_MAX};
pub use steady::SteadyClock;
pub use time::{Clock, Duration, ManualClock, Timestamp};
pub use unit::{BlockAddress, BlockCount, ByteCount, Generation, Partition, TapePosition};
