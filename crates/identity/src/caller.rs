//! Who calls.

use base::{ArchivePath, Timestamp};

use crate::rights::Rights;

/// The longest name of a caller or group: what an owner's name may have.
pub const NAME_BYTES_MAX: usize = 64;
/// The name in the audit log of whoever has no credential.
pub const ANONYMOUS: &str = "-";

/// Somebody who has come in, and how.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Caller {
    /// The name: owner of what is made, name in the audit log. Empty: nobody in particular.
    pub name: String,
    /// Groups, and so virtual organisations; the first one is the group of what is made.
    pub groups: Vec<String>,
    /// Whether everything is allowed but what is held.
    pub is_admin: bool,
    /// Whether everything may be looked at, though not changed.
    pub is_operator: bool,
    /// What a token names. If there are any, they are all that is allowed: owners and lists give nothing
    /// more.
    pub capabilities: Vec<Capability>,
    /// What a macaroon's caveats leave: at most these, of what the caller may otherwise. `None`: no macaroon.
    pub bounds: Option<Vec<Capability>>,
    /// With what they came in.
    pub how: How,
    /// What has to be in force still for their credential to be: the id of a key, the issuer of a token, the
    /// subject of a certificate. Empty: nothing that could be taken back.
    pub origin: String,
    /// When their credential ends.
    pub until: Option<Timestamp>,
}

/// With what somebody came in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum How {
    /// With nothing.
    #[default]
    Nothing,
    /// With a bearer key of ours.
    Key,
    /// With a signature of an access key.
    Signature,
    /// With a token of an issuer.
    Token,
    /// With a certificate.
    Certificate,
    /// By the word of an XRootD server in front of us, which authenticated them.
    Xrootd,
    /// From within the program.
    Local,
    /// With a macaroon of ours.
    Macaroon,
}

/// Rights on a path and all below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capability {
    /// The rights, with what they bring along.
    pub rights: Rights,
    /// The path.
    pub path: ArchivePath,
    /// Whether only a directory is meant at the path itself (it was written with a slash at its end).
    pub is_directory: bool,
}

impl How {
    /// The word in the audit log.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            How::Nothing => "nothing",
            How::Key => "key",
            How::Signature => "signature",
            How::Token => "token",
            How::Certificate => "certificate",
            How::Xrootd => "xrootd",
            How::Local => "local",
            How::Macaroon => "macaroon",
        }
    }
}

impl Caller {
    /// Somebody of this name and these groups who is no admin.
    pub fn named<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let groups = groups.into_iter().map(str::to_owned).collect();
        Caller { name: name.to_owned(), groups, how: How::Key, ..Caller::default() }
    }

    /// An admin of this name.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        Caller { is_admin: true, ..Caller::named(name, []) }
    }

    /// Nobody in particular: what lists give to anyone is theirs.
    #[must_use]
    pub fn anonymous() -> Self {
        Caller::default()
    }

    /// Whether nobody in particular calls.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether only the capabilities of a token count.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        !self.capabilities.is_empty()
    }

    /// Whether a macaroon bounds what is allowed.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bounds.is_some()
    }

    /// Whether everything may be looked at.
    #[must_use]
    pub fn looks(&self) -> bool {
        self.is_admin || (self.is_operator && !self.is_confined() && !self.is_bounded())
    }

    /// Whether one of the capabilities gives all of `rights` somewhere, if there are any, and so does one of
    /// the bounds.
    #[must_use]
    pub fn may_somewhere(&self, rights: Rights) -> bool {
        let gives = |all: &[Capability]| all.iter().any(|one| one.rights.contains(rights));
        let is_bound = self.bounds.as_deref().is_none_or(gives);
        is_bound && (!self.is_confined() || gives(&self.capabilities))
    }

    /// The same caller without the bounds of a macaroon.
    #[must_use]
    pub fn unbounded(&self) -> Caller {
        Caller { bounds: None, ..self.clone() }
    }

    /// The name for logs.
    #[must_use]
    pub fn label(&self) -> &str {
        if self.is_anonymous() { ANONYMOUS } else { &self.name }
    }
}
