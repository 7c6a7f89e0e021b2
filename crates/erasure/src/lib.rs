//! Reed-Solomon coding and locally repairable codes over GF(2^8).
//!
//! A [`Codec`] turns `k` data shards into `m` parity shards and computes lost shards from any `k` that
//! remain; an [`Lrc`] has local parities besides, so that one loss is repaired from a few shards. Checksums
//! of cells come with the parity, in one pass over the data. The field polynomial is 0x11D and the encoding
//! matrix of a `Codec` is the one ISA-L calls `gf_gen_cauchy1_matrix`; both are part of the stripe format and
//! never change. The crate does no I/O and starts no threads.

pub mod bench;
mod cells;
mod codec;
mod crc32c;
mod decode;
mod error;
mod field;
mod kernel;
mod lrc;
mod matrices;
mod product;
mod stream;
mod verified;

pub use cells::{cells_of, find_bad_cell};
pub use codec::{Codec, MAX_SHARDS};
pub use error::CodecError;
pub use kernel::Kernel;
pub use lrc::Lrc;
pub use stream::StreamSums;
