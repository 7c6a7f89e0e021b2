//! What other systems do differently.

/// Rules of other systems, in the place of ours; [`Foreign::default`] is Kist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// A flush after so many files (CTA: 200), beside `flush_bytes` and `flush_age`. 0: by the server's own
    /// limits of containers and members, [`session::WriteBatch`].
    pub flush_files: u64,
    /// Labels around each file on tape.
    pub labels: Labels,
    /// What the file marks of labels cost.
    pub marks: Marks,
    /// A file for which a tape has no room goes on on the next one (HPSS, IBM Spectrum Protect); a recall of
    /// it mounts both. What stands on tape at the beginning stands whole, and packs are not cut.
    pub spans: bool,
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
        Foreign {
            queue_limit: 0,
            copies: CopyRule::Any,
            order: ReadOrder::Planned,
            flush_files: 0,
            labels: Labels::None,
            marks: Marks::Immediate,
            spans: false,
        }
    }
}

/// Three labels of 80 bytes each, in front of a file or behind it.
pub const LABEL_GROUP_BYTES: u64 = 3 * 80;

/// Labels around each file on tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Labels {
    /// None: files stand one behind the other.
    None,
    /// As ANSI X3.27 has them and CTA writes them (AUL): three labels, a file mark, the file, a file mark,
    /// three labels, a file mark.
    Aul,
}

impl Labels {
    /// Bytes of labels on tape beside a file.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Labels::None => 0,
            Labels::Aul => 2 * LABEL_GROUP_BYTES,
        }
    }
}

/// What a file mark of a label costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// It goes into the drive's buffer and costs no time of its own.
    Immediate,
    /// It is waited for: the buffer is written out, and the drive takes its time for a flush.
    Synchronous,
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
