//! Bodies of files between connections and the engine, the same for all doors: who gets a place for one, how
//! fast its client has to be, digests beside the way, the pump up ([`Transfers::receive`]) and the pump down
//! ([`Transfers::send`]). A door reads what its protocol says of a body, and answers.

mod digests;
mod down;
mod fault;
mod md5_lanes;
mod paced;
mod places;
mod rate;
mod service;
mod transfers;
mod up;

pub use digests::{Beside, Hasher, KINDS, Kind, Sums, digest};
pub use down::{Broken, Content, Opened, Sending};
pub use fault::Fault;
pub use md5_lanes::Md5Lanes;
pub use paced::Paced;
pub use places::{Admission, Holder, Pace, Place, Places};
pub use rate::{LowestRate, RateWindow};
pub use service::{ReplyBody, Replying, RequestBody, Service, Take};
pub use transfers::{TransferLimits, Transfers, WHOLE_BYTES_MAX};
pub use up::{AnyError, Reply, Sink, Source, gather, next_bytes, on_thread};
