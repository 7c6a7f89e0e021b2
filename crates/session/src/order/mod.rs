//! The order in which the wanted blocks of one mounted tape are read.
//!
//! Pure and deterministic: the same inputs give the same plan. Several orders are made and improved, all are
//! costed by the same function ([`trace()`]), and the cheapest wins. So a plan never costs more than block
//! order or nearest first from where the head stands.

mod candidate;
mod drive;
mod improve;
mod latency;
mod limits;
mod linear;
mod nearest;
mod neighbours;
mod plan;
mod replan;
mod simple;
mod small;
mod starts;
mod stretch;
mod tour;
mod trace;

use base::BlockAddress;

pub use candidate::Candidate;
pub use drive::{ChosenOrder, DriveQuestion, NotAnOrder, OrderComparison, OrderFrom};
pub use limits::OrderLimits;
pub use linear::{LinearFile, LinearPlan, LinearTrack, exact_dp, linear_cost, simple_dp};
pub use plan::{Plan, plan};
pub use replan::{Replan, replan};
pub use simple::{block_order, nearest_first};
pub use trace::{Trace, approach, trace};

/// What one wanted thing needs: the blocks from `begin` up to `end`, which is not one of them.
///
/// One that ends in front of its beginning has no blocks, and is only visited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Segment {
    /// First block.
    pub begin: BlockAddress,
    /// The block behind the last one.
    pub end: BlockAddress,
}

/// Who waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Aim {
    /// A campaign waits for its last file: the way of the head is to be short.
    LastFile,
    /// Users wait for each file: the sum of the times at which files are there is to be small.
    MeanWait,
}

/// How the head comes to a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Approach {
    /// It stands there. Also where the segment shares blocks with the one visited before it, and does not
    /// begin in front of that one: its blocks pass by in the same reading.
    Stream,
    /// It reads the blocks in between, which is cheaper than a locate.
    ReadThrough,
    /// It locates.
    Locate,
}

/// A segment's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// Its index in what was given.
    pub segment: usize,
    /// How the head comes to it.
    pub approach: Approach,
}
