//! Rules that became stricter: a log of changes made before must still give what it gave then.

/// A rule that holds from a change on, and not for the changes before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rule {
    /// A file leaves the pool only if, of each part of it, a copy under an index is on a tape that is
    /// neither suspect nor disabled. Without it only the number of copies counts.
    ReadableIfEvicted = 0,
    /// A tape that is encrypted can give nothing unless its key is at hand. Without it keys count for
    /// nothing.
    KeyAtHand = 1,
    /// A tape that is being labelled gets no key that differs from another tape's under the same id: who
    /// knows but the id could never read one of the two. Without it only who gives the command looks.
    OneKeyOfAnId = 2,
    /// A place is given up only if another one is on a tape that can give it, or the pool has the whole
    /// container. Without it any other place is enough.
    AnotherGives = 3,
    /// A tape drive that asked to be cleaned at leisure, and must be cleaned now, asks since now. Without it
    /// since it first did.
    UrgentAnew = 4,
    /// What only encrypted tapes could give leaves the pool by an evict alone, before which their keys are
    /// asked for: whatever else lets a file of a cold class go only queues it. Without it the file leaves at
    /// once.
    KeysAskedFirst = 5,
    /// Files in the pool stand in the order in which they were used last. Without it nobody knows that order.
    OrderedByUse = 6,
    /// Requests and their files keep when work on them began, and when files ended that are not held. Without
    /// it these times are not known.
    RequestTimes = 7,
    /// The bytes of the paths that all requests of one owner keep are counted, and have a limit. Without it
    /// they are not counted.
    PathsCounted = 8,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 9] = [
        Rule::ReadableIfEvicted,
        Rule::KeyAtHand,
        Rule::OneKeyOfAnId,
        Rule::AnotherGives,
        Rule::UrgentAnew,
        Rule::KeysAskedFirst,
        Rule::OrderedByUse,
        Rule::RequestTimes,
        Rule::PathsCounted,
    ];
}
