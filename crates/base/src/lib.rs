//! The words of Kist: ids, units, checksums, names, times. No I/O, no clock, no threads.

// Casts that lose something are no way to take what comes from outside; tests may.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod base64;
mod blake3_parts;
mod blob;
mod checksum;
mod failure;
mod id;
mod kernel_clock;
mod md5_lanes;
mod memory;
mod name;
pub mod planted;
mod share;
mod tape_key;
mod time;
mod trusted;
mod unit;

pub use blake3_parts::{PartHash, PartHasher, PartsMerger};
pub use blob::{BlobDescription, BlobPiece, Layout, StripeCode, StripeSet, pieces_within};
pub use checksum::{Adler32, Blake3, Checksums, Crc32c, Crc64, StreamChecksums};
pub use failure::FailureCause;
pub use id::{
    BlobId, ClassId, ContainerId, DirId, DriveGroup, DriveId, Epoch, FileId, LibraryId, RequestId, RunId,
    ShareId, StripeSetId, TapePoolId, UploadId, Uuid, Vid, VidError,
};
pub use kernel_clock::kernel_clock_is_synchronised;
pub use md5_lanes::{MD5_LANES, Md5Stream};
pub use memory::keep_freed_memory;
pub use name::{ArchivePath, NAME_BYTES_MAX, Name, NameError, PATH_BYTES_MAX};
pub use share::{Fit, is_scarce};
pub use tape_key::{KeyCheck, KeyId, KeyIdError, TapeKey};
pub use time::{Clock, Duration, LOOK_LATE_MAX, ManualClock, Timestamp, stood_still};
pub use trusted::{
    ClockReading, RESTART_BELIEVED_MAX, SYNCHRONISED_BELIEVED_MAX, TIME_DOUBTED_AHEAD, TIME_DOUBTED_BEHIND,
    TimeStanding, TrustedClock, TrustedTime,
};
pub use unit::{
    BlockAddress, BlockCount, ByteCount, Count, Generation, Partition, PercentPoints, TapePosition, percent,
};
