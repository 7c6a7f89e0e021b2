//! The narrow way to files.

/// The most bytes that are taken of a file. The longest that are asked for are answers of enclosures, which
/// have a length of two bytes.
pub const READ_MAX: usize = 64 * 1024 + 4;
/// The most names that are taken of a directory: more than there are block devices on any machine.
pub const NAMES_MAX: usize = 65_536;
/// The longest path in bytes, as in Linux (`PATH_MAX`).
pub const PATH_MAX: usize = 4_096;

/// Why something of a tree could not be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// It is not there.
    #[error("it is not there")]
    Missing,
    /// The system does not allow it.
    #[error("permission denied: run as root")]
    Denied,
    /// The driver behind the file refuses (EINVAL and the like), which drivers do of counters that they do
    /// not have.
    #[error("the driver refuses to tell")]
    Refused,
    /// It is longer than is taken of any.
    #[error("it is too large")]
    TooLarge,
    /// Something else stands there: a directory, a device, a pipe.
    #[error("it is no file")]
    NotFile,
    /// Its links do not end, or lead out of the tree.
    #[error("its links lead nowhere")]
    Loop,
    /// It is no text, or none of the kind that stands there on a machine.
    #[error("its contents have no meaning")]
    Garbage,
    /// The system failed.
    #[error("the system could not read it")]
    Failed,
}

impl Unread {
    /// All, each with its word in a recorded tree.
    pub(crate) const WORDS: [(Unread, &'static str); 8] = [
        (Unread::Missing, "missing"),
        (Unread::Denied, "denied"),
        (Unread::Refused, "refused"),
        (Unread::TooLarge, "large"),
        (Unread::NotFile, "no-file"),
        (Unread::Loop, "loop"),
        (Unread::Garbage, "garbage"),
        (Unread::Failed, "failed"),
    ];
}

/// Files by absolute paths of plain components: no `.`, no `..`, and no component is a link, for links are
/// followed by the [`crate::Reader`] alone.
pub trait Tree {
    /// The contents of a file of at most [`READ_MAX`] bytes.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread>;

    /// The names in a directory, at most [`NAMES_MAX`], in order.
    ///
    /// # Errors
    /// If there is no such directory, or it cannot be read.
    fn list(&self, path: &str) -> Result<Vec<String>, Unread>;

    /// Where a link leads to, as it is written; `None` of what is no link.
    ///
    /// # Errors
    /// If nothing is there.
    fn link(&self, path: &str) -> Result<Option<String>, Unread>;
}

impl<T: Tree + ?Sized> Tree for &T {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        (**self).read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        (**self).list(path)
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        (**self).link(path)
    }
}

/// One tree beside another: what is below a prefix comes from the second.
#[derive(Debug)]
pub struct Overlay<A, B> {
    /// Everything else.
    pub base: A,
    /// What is below the prefixes.
    pub above: B,
    /// The prefixes, without a slash at their ends.
    pub prefixes: &'static [&'static str],
}

impl<A: Tree, B: Tree> Overlay<A, B> {
    fn of(&self, path: &str) -> &dyn Tree {
        let within = |prefix: &&str| {
            path.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.prefixes.iter().any(within) { &self.above } else { &self.base }
    }
}

impl<A: Tree, B: Tree> Tree for Overlay<A, B> {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        self.of(path).read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        self.of(path).list(path)
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        self.of(path).link(path)
    }
}
