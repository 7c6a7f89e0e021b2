//! Files on their way: put, get, compare.

mod attributes;
mod compare;
mod get;
mod hashing;
mod local;
mod put;
mod remote;
mod tally;

pub use compare::{ComparePair, compare_all};
pub use get::{GetItem, Getter, download_to};
pub use local::{LocalItem, LocalKind, LocalTree, walk};
pub use put::{PutItem, PutSettings, Putter, put_input, put_stream};
pub use remote::{RemoteItem, RemoteKind, walk_remote};
pub use tally::Tally;

/// Files up to this size are read into memory, so that their checksums can go before them.
pub const IN_MEMORY_BYTES_MAX: u64 = 1 << 20;
/// Bytes read or written at once.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Threads if `--jobs` does not say.
pub const JOBS_DEFAULT: usize = 8;
