//! The names of orders.

use std::fmt;

/// How an order was made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Candidate {
    /// By block, from the beginning of the tape.
    BlockOrder,
    /// By block from the head to the end, then from the beginning to the head.
    Sweep,
    /// Band after band: out on the wraps that run away from the beginning, back on the others.
    Elevator,
    /// Always to the cheapest next, from where the head stands.
    NearestFirst,
    /// As the drive recommends.
    DriveOrder,
    /// New segments put into an order that is under way, each where it costs least.
    Inserted,
    /// The dynamic programme without nested detours, wrap by wrap.
    SimpleDp,
    /// The exact dynamic programme for one linear track, wrap by wrap.
    ExactDp,
    /// The best of all orders of few stretches.
    Optimum,
    /// Another one, improved by moving stretches until no move helps.
    OrOpt(Box<Candidate>),
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Candidate::BlockOrder => "block order",
            Candidate::Sweep => "sweep from the head",
            Candidate::Elevator => "band by band, out and back",
            Candidate::NearestFirst => "nearest first",
            Candidate::DriveOrder => "the drive's order",
            Candidate::Inserted => "new ones inserted",
            Candidate::SimpleDp => "detours without nesting",
            Candidate::ExactDp => "exact detours",
            Candidate::Optimum => "the best of all orders",
            Candidate::OrOpt(of) => return write!(f, "{of}, improved"),
        })
    }
}
