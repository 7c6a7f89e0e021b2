//! Who calls.

use base::ArchivePath;

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
    /// With what they came in.
    pub how: How,
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

    /// The name for logs.
    #[must_use]
    pub fn label(&self) -> &str {
        if self.is_anonymous() { ANONYMOUS } else { &self.name }
    }
}
