//! What is known of a tape that failed.

use base::{FailureCause, Timestamp, Vid};

use super::TapeState;

/// The failures of a tape since the last session on it that went well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapeHistory {
    /// What it was before it failed.
    pub before: TapeState,
    /// Whether a write failed on it: it is read-only then when it is found well, if it was to be written.
    pub wrote: bool,
    /// How often it failed. 0: it is kept for reading after failures, and was read well since.
    pub failures: u32,
    /// When a suspect tape is tried again; `None`: not until an operator decides, or it is not suspect.
    pub retry: Option<Timestamp>,
    /// What the last failure speaks against.
    pub cause: FailureCause,
}

impl TapeHistory {
    /// What the tape becomes when it is found well.
    pub(super) fn after(&self) -> TapeState {
        match self.before {
            TapeState::Active | TapeState::Full if self.wrote => TapeState::ReadOnly,
            before => before,
        }
    }

    pub(super) fn told(&self, vid: Vid) -> String {
        let was = match self.after() {
            TapeState::Scratch => "scratch",
            TapeState::Labelling => "being labelled",
            TapeState::Active => "active",
            TapeState::Full => "full",
            TapeState::ReadOnly | TapeState::Suspect | TapeState::Disabled => "to be read only",
            TapeState::Repacking => "being repacked",
            TapeState::Retired => "retired",
        };
        let next = match self.retry {
            Some(at) => format!("tried again after {at}"),
            None => format!(
                "not tried again by itself: look at it, then kist tape set {vid} active, or read-only"
            ),
        };
        format!("it was {was}; failure {} in a row; {next}", self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_it_was_and_what_comes_next() {
        let vid = Vid::new("KT0001").unwrap();
        let (before, cause) = (TapeState::Active, FailureCause::Cartridge);
        let resting = TapeHistory { before, wrote: false, failures: 2, retry: Some(Timestamp(0)), cause };
        let told = resting.told(vid);
        assert!(told.starts_with("it was active; failure 2 in a row; tried again after 1970-"), "{told}");
        let wrote = TapeHistory { wrote: true, ..resting };
        assert!(wrote.told(vid).starts_with("it was to be read only;"), "{}", wrote.told(vid));
        let before = TapeState::Repacking;
        let left = TapeHistory { before, wrote: true, failures: 5, retry: None, cause };
        let told = left.told(vid);
        assert!(told.starts_with("it was being repacked; failure 5 in a row; not tried again"), "{told}");
        assert!(told.contains("kist tape set KT0001 active"), "{told}");
    }
}
