//! Some of the tests of the pool a third time, over directories that the kernel's queues drive.

/// What the tests are built with.
mod common {
    pub use crate::common::*;

    pub type Bench = AnyBench<URING>;
}

#[path = "../full.rs"]
mod full;
#[path = "../places.rs"]
mod places;
#[path = "../repair.rs"]
mod repair;
#[path = "../small.rs"]
mod small;
#[path = "../striped.rs"]
mod striped;
#[path = "../uploads.rs"]
mod uploads;
