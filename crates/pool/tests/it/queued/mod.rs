//! The tests of the pool once more, over drives that hold 32 operations each and do them in an order of their
//! own; and what holds for such drives alone.

/// What the tests are built with; the drives of the bench have a queue.
mod common {
    pub use crate::common::*;

    pub type Bench = AnyBench<QUEUED>;
}

#[path = "../blobs.rs"]
mod blobs;
#[path = "../codes.rs"]
mod codes;
#[path = "../full.rs"]
mod full;
#[path = "../holes.rs"]
mod holes;
#[path = "../local.rs"]
mod local;
mod own;
#[path = "../places.rs"]
mod places;
#[path = "../repair.rs"]
mod repair;
#[path = "../scrub.rs"]
mod scrub;
#[path = "../small.rs"]
mod small;
#[path = "../striped.rs"]
mod striped;
#[path = "../uploads.rs"]
mod uploads;
