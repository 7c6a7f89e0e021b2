//! Tapes that operators have taken out of the library.

use std::fmt;

use base::Timestamp;

/// How a tape came to be in no library, by an operator's word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AwayKind {
    /// Kist brought it to the library's import/export element, to be taken out.
    Exported,
    /// It is kept elsewhere.
    OffSite,
}

impl AwayKind {
    /// The word for it in all answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AwayKind::Exported => "exported",
            AwayKind::OffSite => "off-site",
        }
    }
}

/// Where a tape is that no library holds, by an operator's word. Once a library shows it in a slot or a drive
/// it is here again, whatever was said before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeAway {
    /// How it came to be away.
    pub kind: AwayKind,
    /// Where it is, in the operator's words: at most [`TapeAway::PLACE_MAX`] bytes; empty if nobody said.
    pub place: String,
    /// Since when.
    pub since: Timestamp,
}

impl TapeAway {
    /// The longest text of a place, in bytes.
    pub const PLACE_MAX: usize = 256;
}

impl fmt::Display for TapeAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        if !self.place.is_empty() {
            write!(f, " ({})", self.place)?;
        }
        Ok(())
    }
}
