//! Keys in their order.

use std::ops::Bound;

use crate::change::{OWN, USER, check_key, spaced};
use crate::error::LogError;
use crate::index::{Entry, Key};
use crate::log::{Inner, ValueLog};
use crate::read::Metadata;

/// A key and what stands at it.
pub type Found = (Box<[u8]>, Metadata);

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRange<'a> {
    /// The lower bound.
    pub start: Bound<&'a [u8]>,
    /// The upper bound.
    pub end: Bound<&'a [u8]>,
    /// The most keys.
    pub most: usize,
    /// The highest first.
    pub reverse: bool,
}

impl KeyRange<'_> {
    /// All keys, so many at most.
    #[must_use]
    pub fn all(most: usize) -> KeyRange<'static> {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded, most, reverse: false }
    }
}

impl ValueLog {
    /// The first key behind this one, which need not be there itself.
    ///
    /// # Errors
    /// Of a key that is too long.
    pub fn next(&self, key: &[u8]) -> Result<Option<Found>, LogError> {
        check_key(key)?;
        let range = KeyRange { start: Bound::Excluded(key), ..KeyRange::all(1) };
        Ok(self.inner.walk(&range).pop())
    }

    /// The last key before this one, which need not be there itself.
    ///
    /// # Errors
    /// Of a key that is too long.
    pub fn previous(&self, key: &[u8]) -> Result<Option<Found>, LogError> {
        check_key(key)?;
        let range = KeyRange { end: Bound::Excluded(key), reverse: true, ..KeyRange::all(1) };
        Ok(self.inner.walk(&range).pop())
    }

    /// Keys of a range. With reversed bounds there are none.
    #[must_use]
    pub fn keys(&self, range: &KeyRange<'_>) -> Vec<Box<[u8]>> {
        self.inner.walk(range).into_iter().map(|(key, _)| key).collect()
    }
}

impl Inner {
    pub(crate) fn walk(&self, range: &KeyRange<'_>) -> Vec<Found> {
        let bound = |bound: Bound<&[u8]>, open: Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(spaced(USER, key)),
            Bound::Excluded(key) => Bound::Excluded(spaced(USER, key)),
            Bound::Unbounded => open,
        };
        let start = bound(range.start, Bound::Included(vec![USER]));
        let end = bound(range.end, Bound::Excluded(vec![OWN]));
        let is_empty = match (&start, &end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            _ => false,
        };
        if is_empty {
            return Vec::new();
        }
        let state = self.lock();
        let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
        let found = state.index.present().range::<[u8], _>(bounds);
        let of_user = |(key, entry): (&Key, &Entry)| (Box::from(&key[1..]), Metadata::of(entry));
        match range.reverse {
            false => found.take(range.most).map(of_user).collect(),
            true => found.rev().take(range.most).map(of_user).collect(),
        }
    }
}
