//! Pieces of a new file that come out of order: a bounded number of bytes waits for the one that is missing.
//! Pure.

use std::collections::BTreeMap;

use thiserror::Error;

/// Why a piece is not taken. The file is over then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WindowError {
    /// It would change what was written before.
    #[error("bytes {offset}.. were written already: a file is written once, from its beginning to its end")]
    Again {
        /// Where it begins.
        offset: u64,
    },
    /// It is too far ahead.
    #[error("bytes {offset}.. come before bytes {next}..: at most {limit} bytes wait for those before")]
    Ahead {
        /// Where it begins.
        offset: u64,
        /// What is missing.
        next: u64,
        /// The limit.
        limit: u64,
    },
}

/// The pieces of one file that wait.
#[derive(Debug)]
pub struct Window {
    /// All before this was handed on.
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    kept: u64,
    limit: u64,
}

impl Window {
    /// At most `limit` bytes wait.
    pub fn new(limit: u64) -> Self {
        Window { next: 0, waiting: BTreeMap::new(), kept: 0, limit }
    }

    /// Where the next byte belongs that can be handed on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that wait.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Takes a piece: `true` if it is the next one, which the caller hands on itself.
    ///
    /// # Errors
    /// If it is none that can be kept.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, WindowError> {
        let length = bytes.len() as u64;
        let (next, limit) = (self.next, self.limit);
        let end = offset.checked_add(length).ok_or(WindowError::Ahead { offset, next, limit })?;
        if length == 0 {
            return Ok(false);
        }
        let before = self.waiting.range(..end).next_back();
        if offset < next || before.is_some_and(|(at, piece)| at + piece.len() as u64 > offset) {
            return Err(WindowError::Again { offset });
        }
        if offset == next {
            self.next = end;
            return Ok(true);
        }
        if self.kept + length > limit {
            return Err(WindowError::Ahead { offset, next, limit });
        }
        self.kept += length;
        self.waiting.insert(offset, bytes.to_vec());
        Ok(false)
    }

    /// A piece that waited and is the next one now.
    pub fn ready(&mut self) -> Option<Vec<u8>> {
        let piece = self.waiting.remove(&self.next)?;
        self.next += piece.len() as u64;
        self.kept -= piece.len() as u64;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_within_the_window() {
        let mut window = Window::new(4);
        assert_eq!(window.take(2, b"cd"), Ok(false));
        assert_eq!(window.take(4, b"ef"), Ok(false));
        assert_eq!((window.kept(), window.ready()), (4, None));
        assert_eq!(window.take(6, b"g"), Err(WindowError::Ahead { offset: 6, next: 0, limit: 4 }));
        assert_eq!(window.take(0, b"ab"), Ok(true));
        assert_eq!((window.ready(), window.ready()), (Some(b"cd".to_vec()), Some(b"ef".to_vec())));
        assert_eq!((window.ready(), window.next(), window.kept()), (None, 6, 0));
        assert_eq!(window.take(6, b"g"), Ok(true));
    }

    #[test]
    fn nothing_is_written_twice() {
        let mut window = Window::new(100);
        assert_eq!(window.take(0, b"abcd"), Ok(true));
        assert_eq!(window.take(10, b"klm"), Ok(false));
        for (offset, bytes) in
            [(0, &b"a"[..]), (3, b"d"), (10, b"k"), (12, b"mn"), (9, b"jk"), (8, b"ijklmno")]
        {
            assert_eq!(window.take(offset, bytes), Err(WindowError::Again { offset }), "{offset}");
        }
        assert_eq!(window.take(13, b"n"), Ok(false));
        assert_eq!(window.take(5, b"fghij"), Ok(false));
        assert_eq!(window.take(4, b"e"), Ok(true));
        assert_eq!(std::iter::from_fn(|| window.ready()).flatten().collect::<Vec<_>>(), b"fghijklmn");
        assert_eq!(window.take(4, b""), Ok(false));
        assert!(window.take(u64::MAX, b"ab").is_err());
    }
}
