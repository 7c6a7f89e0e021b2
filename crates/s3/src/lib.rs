//! The S3 door: the protocol over s3s, who comes in decided here, everything else asked of the engine.

mod absent;
mod access;
mod answers;
mod attributes;
mod body;
mod buckets;
mod checksums;
mod chunked;
mod conditions;
mod context;
mod copy;
mod copy_source;
mod documents;
mod elements;
mod engine;
mod errors;
mod etag;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod get;
mod glacier;
mod keys;
mod known;
mod lifecycle;
mod list;
mod lock;
mod markers;
mod metadata;
mod multipart;
mod multipart_complete;
mod multipart_copy;
mod objects;
mod operation_table;
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
pub use engine::Engine;
#[doc(hidden)]
pub use known::{Content, Level, Operation, operations};
pub use service::{NAME, S3OpenError, S3Service, service};
pub use settings::{S3Limits, S3Settings};
