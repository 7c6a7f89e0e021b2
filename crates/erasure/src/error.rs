//! What a codec refuses.

use crate::Kernel;
use std::error::Error;
use std::fmt;

/// Why a codec refused a request. Every refusal but [`CodecError::BadCell`] comes before the first output
/// byte is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// The code needs at least one data shard and at most [`crate::MAX_SHARDS`] shards in all.
    UnsupportedShape {
        /// Data shards asked for.
        data_shards: usize,
        /// Parity shards asked for.
        parity_shards: usize,
    },
    /// This processor lacks the instructions of the kernel; use [`Kernel::best`].
    KernelUnavailable {
        /// The kernel asked for.
        kernel: Kernel,
    },
    /// The number of data shards passed is not the codec's; pass exactly `expected`.
    DataShardCount {
        /// Data shards of the codec.
        expected: usize,
        /// Data shards passed.
        given: usize,
    },
    /// The number of parity shards passed is not the codec's; pass exactly `expected`.
    ParityShardCount {
        /// Parity shards of the codec.
        expected: usize,
        /// Parity shards passed.
        given: usize,
    },
    /// One shard differs in length from the first one passed; all must be equally long, in bytes.
    LengthsDiffer {
        /// Index of the shard in the stripe: data from 0, parity from `k`.
        shard: usize,
        /// Length of the first shard passed.
        expected: usize,
        /// Length of this shard.
        given: usize,
    },
    /// The shard index does not exist in this stripe.
    UnknownShard {
        /// The index passed.
        shard: usize,
        /// Shards of the stripe; indexes run from 0 to one less.
        shards: usize,
    },
    /// The shard index was passed twice; pass each shard once.
    RepeatedShard {
        /// The index passed twice.
        shard: usize,
    },
    /// A wanted shard is also among the present ones; ask only for what is lost.
    WantedIsPresent {
        /// The index passed on both sides.
        shard: usize,
    },
    /// The present shards do not determine all wanted ones; find more shards or another copy.
    NotRepairable {
        /// Shards asked for.
        wanted: usize,
    },
    /// Cells of no bytes have no checksums; pass the cell's size in bytes.
    EmptyCell,
    /// The checksums, or places for them, are not as many as the cells; pass exactly `expected`.
    ChecksumCount {
        /// Cells.
        expected: usize,
        /// Checksums or places passed.
        given: usize,
    },
    /// More bytes are said to be of the stream than the data shards have; pass `at_most` or fewer.
    StreamTooLong {
        /// Bytes passed.
        given: usize,
        /// Bytes of all data shards.
        at_most: usize,
    },
    /// A cell of a present shard does not have its checksum; leave the shard out and use another in its
    /// place.
    BadCell {
        /// Index of the shard in the stripe.
        shard: usize,
        /// Index of the cell in the shard, from 0.
        cell: usize,
    },
    /// Fewer shards are present than the code needs; find more shards or another copy.
    TooFewPresent {
        /// Distinct shards passed.
        present: usize,
        /// Shards needed, the data shards of the codec.
        needed: usize,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnsupportedShape { data_shards, parity_shards } => write!(
                f,
                "a {data_shards}+{parity_shards} code is not supported: choose at least 1 data shard and \
                 at most {} shards in all",
                crate::MAX_SHARDS
            ),
            Self::KernelUnavailable { kernel } => {
                write!(f, "this processor cannot run the {kernel} kernel: choose one that is available")
            }
            Self::DataShardCount { expected, given } => {
                write!(f, "{given} data shards were passed: pass {expected}")
            }
            Self::ParityShardCount { expected, given } => {
                write!(f, "{given} parity shards were passed: pass {expected}")
            }
            Self::LengthsDiffer { shard, expected, given } => {
                write!(f, "shard {shard} has {given} bytes and the first has {expected}: pass equal lengths")
            }
            Self::UnknownShard { shard, shards } => {
                write!(f, "there is no shard {shard} in a stripe of {shards}: count from 0")
            }
            Self::RepeatedShard { shard } => write!(f, "shard {shard} was passed twice: pass it once"),
            Self::WantedIsPresent { shard } => {
                write!(f, "shard {shard} is both present and wanted: ask only for lost shards")
            }
            Self::NotRepairable { wanted } => {
                write!(
                    f,
                    "the present shards do not determine all {wanted} wanted: find more or use another copy"
                )
            }
            Self::EmptyCell => f.write_str("a cell cannot have 0 bytes: pass its size"),
            Self::ChecksumCount { expected, given } => {
                write!(f, "{given} checksums or places for them were passed: pass {expected}")
            }
            Self::StreamTooLong { given, at_most } => {
                write!(f, "{given} bytes of stream were announced and the data has {at_most}: pass no more")
            }
            Self::BadCell { shard, cell } => {
                write!(f, "cell {cell} of shard {shard} is damaged: use another shard in its place")
            }
            Self::TooFewPresent { present, needed } => {
                write!(
                    f,
                    "{present} shards are present and {needed} are needed: find more or use another copy"
                )
            }
        }
    }
}

impl Error for CodecError {}
