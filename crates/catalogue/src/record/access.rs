//! Who may do what in a directory. What the rights mean is decided above the catalogue.

use base::DirId;

use super::Entry;

/// Most entries of one access control list.
pub const ACL_ENTRIES_MAX: usize = 256;

/// A line of an access control list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// Whom it is about, such as `user:anna`; 1 to 256 bytes.
    pub subject: String,
    /// What they may: a set of bits whose meaning the catalogue does not know.
    pub rights: u32,
}

/// Whose a directory is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryOwner {
    /// Its owner; may be empty.
    pub owner: String,
    /// Its group; may be empty.
    pub group: String,
    /// Its permission bits.
    pub mode: u32,
}

/// All that decides who may do what with a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessChain {
    /// Whether the path stands for something.
    pub exists: bool,
    /// Whether that is a directory.
    pub is_directory: bool,
    /// What that is.
    pub entry: Option<Entry>,
    /// The directory in which the path has its name, if that directory is there; the root stands in none.
    pub directory: Option<DirId>,
    /// Its owner; empty if there is nothing, or nobody owns it.
    pub owner: String,
    /// Its group, likewise.
    pub group: String,
    /// Its permission bits; 0 if there is nothing.
    pub mode: u32,
    /// The access control list of the nearest directory that has one: of the path itself if it is one, else
    /// of one above it. `None` if none has.
    pub acl: Option<Vec<AclEntry>>,
    /// How many names the path of that directory has; 0 for the root and without a list.
    pub acl_depth: usize,
    /// Whose the directories above the path are that exist, from the nearest up to the root.
    pub above: Vec<DirectoryOwner>,
}
