//! The S3 door: the protocol over s3s, who comes in decided here, everything else asked of the engine.

mod absent;
mod access;
mod answers;
mod attributes;
mod base64;
mod body;
mod buckets;
mod checksums;
mod chunked;
mod conditions;
mod context;
mod copy;
mod errors;
mod etag;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod get;
mod glacier;
mod keys;
mod lifecycle;
mod list;
mod lock;
mod markers;
mod md5_lanes;
mod metadata;
mod multipart;
mod multipart_complete;
mod multipart_copy;
mod objects;
mod operations;
mod parts;
mod percent;
mod put;
mod restore;
mod service;
mod settings;
mod sigv4;
mod tagging;
mod versions;

pub use context::S3Clocks;
pub use service::{S3OpenError, S3Service, service};
pub use settings::{S3Limits, S3Settings};
