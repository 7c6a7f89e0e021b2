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
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 2] = [Rule::ReadableIfEvicted, Rule::KeyAtHand];
}
