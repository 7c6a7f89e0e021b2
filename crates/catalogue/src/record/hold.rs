//! Versions of a bucket, and what keeps them.

use base::Timestamp;

/// Whether a bucket keeps what is replaced or deleted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Versioning {
    /// Never was on: a name has one version.
    #[default]
    Off,
    /// Every put makes a version, a delete makes a marker.
    Enabled,
    /// Versions that are there stay; new ones replace the one without a number.
    Suspended,
}

/// Who may end a retention before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetentionMode {
    /// Whoever has the right to, and says so.
    Governance,
    /// Nobody.
    Compliance,
}

/// Until when a version must stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Who may end it.
    pub mode: RetentionMode,
    /// Its end.
    pub until: Timestamp,
}

/// What keeps a version from being deleted, by anybody.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hold {
    /// Until a time.
    pub retention: Option<Retention>,
    /// Until it is taken off.
    pub legal: bool,
}

impl Hold {
    /// What of it is in force at a time: the record of a retention outlives it.
    #[must_use]
    pub fn in_force(self, at: Timestamp) -> Hold {
        Hold { retention: self.retention.filter(|retention| retention.until > at), legal: self.legal }
    }
}
