//! Keys with a delimiter: what has it behind the prefix is rolled up to one line.

use base::DirId;
use catalogue::ReadError;

use super::walk::{Found, KeySource, Walk};

/// Where a listing begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start<'a> {
    /// Behind this key or rolled-up prefix; empty: at the beginning.
    Behind(&'a str),
    /// At this key.
    At(&'a str),
}

/// A line of a listing.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line<L> {
    /// All keys that begin with this.
    Prefix(String),
    /// A key.
    Leaf(String, L),
    /// A directory that is a key; it ends in a slash.
    Directory(String, DirId),
    /// So many names were looked at that the rest, behind this, is better left to another call.
    Pause(String),
    /// There is no more.
    End,
}

/// The lines of a listing one after the other.
pub(crate) struct Lines<'s, S: KeySource> {
    walk: Walk<'s, S>,
    prefix: String,
    delimiter: Option<String>,
    rows_max: usize,
}

impl<'s, S: KeySource> Lines<'s, S> {
    /// The lines of keys below `root`; a call that has looked at `rows_max` names pauses.
    pub(crate) fn new(
        source: &'s S,
        root: DirId,
        (prefix, delimiter): (&str, Option<&str>),
        start: Start<'_>,
        rows_max: usize,
    ) -> Result<Self, ReadError> {
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty());
        let from = match start {
            Start::Behind("") => Vec::new(),
            Start::Behind(key) if rolled(key, prefix, delimiter) == Some(key) => end_of(key),
            // No key has a NUL, so this is the least key behind.
            Start::Behind(key) => [key.as_bytes(), &[0]].concat(),
            Start::At(key) => key.as_bytes().to_vec(),
        };
        let walk = Walk::new(source, root, prefix, &from)?;
        Ok(Lines { walk, prefix: prefix.to_owned(), delimiter: delimiter.map(str::to_owned), rows_max })
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Result<Line<S::Leaf>, ReadError> {
        loop {
            let line = match self.walk.next()? {
                Found::End => return Ok(Line::End),
                Found::Passed(key) => {
                    // What could be taken for a rolled-up prefix is no place to go on behind.
                    let is_prefix = self.rolled(&key) == Some(&key);
                    if self.walk.rows >= self.rows_max && !is_prefix {
                        return Ok(Line::Pause(key));
                    }
                    continue;
                }
                Found::Leaf(key, leaf) => Line::Leaf(key, leaf),
                Found::Directory(key, directory) => Line::Directory(key, directory),
            };
            let (Line::Leaf(key, _) | Line::Directory(key, _)) = &line else { return Ok(line) };
            let Some(prefix) = self.rolled(key).map(str::to_owned) else { return Ok(line) };
            self.walk.seek(&end_of(&prefix))?;
            return Ok(Line::Prefix(prefix));
        }
    }

    fn rolled<'k>(&self, key: &'k str) -> Option<&'k str> {
        rolled(key, &self.prefix, self.delimiter.as_deref())
    }
}

/// What a key is rolled up to.
fn rolled<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter?;
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    key.get(..prefix.len() + at + delimiter.len())
}

/// The least bytes behind all keys that begin with this. It is text, so its last byte is below 255.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
