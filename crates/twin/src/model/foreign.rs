//! What other systems do differently.

/// Rules of other systems, in the place of ours; [`Foreign::default`] is Kist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// Most files that the tape system knows of at a time; the others wait outside, in the order in which
    /// they were asked for (dCache's pools in front of TSS: 2,000). 0: no limit.
    pub queue_limit: u64,
    /// Which copy is read.
    pub copies: CopyRule,
    /// In which order a tape is read.
    pub order: ReadOrder,
}

impl Default for Foreign {
    fn default() -> Self {
        Foreign { queue_limit: 0, copies: CopyRule::Any, order: ReadOrder::Planned }
    }
}

/// Which copy of a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyRule {
    /// Whichever saves mounts: the scheduler sees all.
    Any,
    /// The one that was written last.
    Newest,
    /// The one of the first tape pool.
    First,
}

/// In which order a tape is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOrder {
    /// As Kist does: the whole set, planned.
    Planned,
    /// By position on tape (TSS).
    Block,
    /// In the order of the requests.
    Arrival,
    /// Windows of so many requests in the order of arrival, each nearest first (CTA: 4,000).
    Window(u32),
}
