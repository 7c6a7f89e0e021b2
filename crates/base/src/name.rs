//! Names and paths. One canonicaliser for all doors: it refuses, it never mends.

use std::fmt;

/// The longest path in bytes, slashes included.
pub const PATH_BYTES_MAX: usize = 4096;
/// The longest component in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Why a name or path is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Not UTF-8.
    #[error("the path is not UTF-8: rename the file to a UTF-8 name")]
    NotUtf8,
    /// No leading slash.
    #[error("the path '{0}' is not absolute: start it with '/'")]
    NotAbsolute(String),
    /// An empty component: `//`, or a trailing slash.
    #[error("the path '{0}' has an empty component ('//' or a trailing '/')")]
    EmptyComponent(String),
    /// `.` or `..`.
    #[error("the path contains the component '{0}': give the path without '.' and '..'")]
    DotComponent(String),
    /// A NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// A slash within a single name.
    #[error("the name '{0}' contains '/'")]
    Slash(String),
    /// A component over 255 bytes.
    #[error("a component of the path has {0} bytes; the limit is 255")]
    ComponentTooLong(usize),
    /// A path over 4,096 bytes.
    #[error("the path has {0} bytes; the limit is 4096")]
    PathTooLong(usize),
    /// The name that Kist keeps for its own files on tape.
    #[error("'/.kist' is reserved for Kist's own files on tape")]
    Reserved,
}

/// One component of a path: 1 to 255 bytes of UTF-8 without NUL and `/`, neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks a component.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_component(text)?;
        Ok(Name(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// An absolute path in the archive: `/` or `/name/name`, at most 4,096 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchivePath(String);

impl ArchivePath {
    /// Checks a path.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(NameError::PathTooLong(text.len()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(NameError::NotAbsolute(text.to_owned()));
        };
        if rest.is_empty() {
            return Ok(ArchivePath::root());
        }
        for component in rest.split('/') {
            if component.is_empty() {
                return Err(NameError::EmptyComponent(text.to_owned()));
            }
            check_component(component)?;
        }
        if rest == ".kist" || rest.starts_with(".kist/") {
            return Err(NameError::Reserved);
        }
        Ok(ArchivePath(text.to_owned()))
    }

    /// Checks a path in which slashes may stand several times in a row and at the end, as clients of the grid
    /// write them: they count as one, and as none at the end.
    ///
    /// # Errors
    /// As [`ArchivePath::new`].
    pub fn collapsed(text: &str) -> Result<Self, NameError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(NameError::PathTooLong(text.len()));
        }
        if !text.starts_with('/') {
            return Err(NameError::NotAbsolute(text.to_owned()));
        }
        let mut path = String::with_capacity(text.len());
        for component in text.split('/').filter(|component| !component.is_empty()) {
            path.push('/');
            path.push_str(component);
        }
        if path.is_empty() { Ok(ArchivePath::root()) } else { ArchivePath::new(&path) }
    }

    /// Checks a path given as bytes.
    ///
    /// # Errors
    /// As [`ArchivePath::new`], and if the bytes are not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        ArchivePath::new(std::str::from_utf8(bytes).map_err(|_| NameError::NotUtf8)?)
    }

    /// The root, `/`.
    #[must_use]
    pub fn root() -> Self {
        ArchivePath("/".to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The components from the root on.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// The directory and the last component; `None` for the root.
    #[must_use]
    pub fn split(&self) -> Option<(ArchivePath, Name)> {
        let (parent, name) = self.0.rsplit_once('/')?;
        if name.is_empty() {
            return None;
        }
        let parent = if parent.is_empty() { "/" } else { parent };
        Some((ArchivePath(parent.to_owned()), Name(name.to_owned())))
    }

    /// The path of `name` within this directory.
    ///
    /// # Errors
    /// If it would be too long or reserved.
    pub fn join(&self, name: &Name) -> Result<ArchivePath, NameError> {
        let base = if self.is_root() { "" } else { &self.0 };
        ArchivePath::new(&format!("{base}/{name}"))
    }
}

impl fmt::Display for ArchivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ArchivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn check_component(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::EmptyComponent(String::new()));
    }
    if text == "." || text == ".." {
        return Err(NameError::DotComponent(text.to_owned()));
    }
    if text.contains('\0') {
        return Err(NameError::Nul);
    }
    if text.contains('/') {
        return Err(NameError::Slash(text.to_owned()));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::ComponentTooLong(text.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_refused_with_the_reason() {
        let long = format!("/{}", "a".repeat(256));
        let deep = "/a".repeat(2049);
        let check = |text: &str, expect: &str| {
            assert_eq!(
                ArchivePath::new(text).unwrap_err().to_string().split(' ').next(),
                Some(expect),
                "{text}"
            );
        };
        assert!(matches!(ArchivePath::new("a/b"), Err(NameError::NotAbsolute(_))));
        assert!(matches!(ArchivePath::new(""), Err(NameError::NotAbsolute(_))));
        assert!(matches!(ArchivePath::new("/a//b"), Err(NameError::EmptyComponent(_))));
        assert!(matches!(ArchivePath::new("/a/"), Err(NameError::EmptyComponent(_))));
        assert!(matches!(ArchivePath::new("/a/../b"), Err(NameError::DotComponent(_))));
        assert!(matches!(ArchivePath::new("/a/./b"), Err(NameError::DotComponent(_))));
        assert!(matches!(ArchivePath::new("/a\0b"), Err(NameError::Nul)));
        assert!(matches!(ArchivePath::new(&long), Err(NameError::ComponentTooLong(256))));
        assert!(matches!(ArchivePath::new(&deep), Err(NameError::PathTooLong(4098))));
        assert!(matches!(ArchivePath::from_bytes(b"/\xff"), Err(NameError::NotUtf8)));
        assert!(matches!(ArchivePath::new("/.kist/x"), Err(NameError::Reserved)));
        check("/.kist", "'/.kist'");
    }

    #[test]
    fn limits_are_allowed() {
        let long = format!("/{}", "a".repeat(255));
        assert!(ArchivePath::new(&long).is_ok());
        let deep = "/a".repeat(2048);
        assert_eq!(ArchivePath::new(&deep).unwrap().components().count(), 2048);
        assert!(ArchivePath::new("/.kistx").is_ok());
        assert!(ArchivePath::new("/...").is_ok());
    }

    proptest! {
        #[test]
        fn split_and_join_are_inverse(parts in proptest::collection::vec("[a-z.é]{1,8}", 1..6)) {
            let text = format!("/{}", parts.join("/"));
            if let Ok(path) = ArchivePath::new(&text) {
                let (parent, name) = path.split().unwrap();
                prop_assert_eq!(parent.join(&name).unwrap(), path);
            }
        }

        #[test]
        fn accepted_paths_hold_no_escape(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(path) = ArchivePath::from_bytes(&bytes) {
                prop_assert!(path.components().all(|c| c != ".." && c != "." && !c.contains('\0')));
            }
        }
    }
}
