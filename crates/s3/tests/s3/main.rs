//! The S3 door over an engine in memory.

mod answers;
mod buckets;
mod client;
mod clocks;
#[path = "../../../archive/tests/it/common/mod.rs"]
mod common;
mod fake;
mod forged;
mod glacier;
mod known;
mod listing;
mod moves;
mod multipart;
mod objects;
mod offered;
mod real;
mod strangers;
