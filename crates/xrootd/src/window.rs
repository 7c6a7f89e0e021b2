//! Pieces of a new file that come out of order: a bounded number of bytes waits for the one that is missing.
//! Pure.

use std::collections::BTreeMap;

use thiserror::Error;

/// What a piece counts for at least: one of a few bytes costs more memory around it than it has bytes.
pub const PIECE_BYTES_MIN: u64 = 256;

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
    #[error(
        "bytes {offset}.. come before bytes {next}..: at most {limit} bytes wait for those before, \
             where a piece counts for {PIECE_BYTES_MIN} bytes at least"
    )]
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
    /// At most `limit` bytes wait, as [`Window::kept`] counts them.
    pub fn new(limit: u64) -> Self {
        Window { next: 0, waiting: BTreeMap::new(), kept: 0, limit }
    }

    /// Where the next byte belongs that can be handed on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that wait; a piece counts for [`PIECE_BYTES_MIN`] at least.
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
        if self.kept + cost(length) > limit {
            return Err(WindowError::Ahead { offset, next, limit });
        }
        self.kept += cost(length);
        self.waiting.insert(offset, bytes.to_vec());
        Ok(false)
    }

    /// A piece that waited and is the next one now.
    pub fn ready(&mut self) -> Option<Vec<u8>> {
        let piece = self.waiting.remove(&self.next)?;
        self.next += piece.len() as u64;
        self.kept -= cost(piece.len() as u64);
        Some(piece)
    }
}

/// What a piece of so many bytes counts for.
fn cost(length: u64) -> u64 {
    length.max(PIECE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_within_the_window() {
        let limit = 2 * PIECE_BYTES_MIN;
        let mut window = Window::new(limit);
        assert_eq!(window.take(2, b"cd"), Ok(false));
        assert_eq!(window.take(4, b"ef"), Ok(false));
        assert_eq!((window.kept(), window.ready()), (limit, None));
        assert_eq!(window.take(6, b"g"), Err(WindowError::Ahead { offset: 6, next: 0, limit }));
        assert_eq!(window.take(0, b"ab"), Ok(true));
        assert_eq!((window.ready(), window.ready()), (Some(b"cd".to_vec()), Some(b"ef".to_vec())));
        assert_eq!((window.ready(), window.next(), window.kept()), (None, 6, 0));
        assert_eq!(window.take(6, b"g"), Ok(true));
    }

    #[test]
    fn many_small_pieces_fill_the_window_before_they_fill_the_memory() {
        let limit = 32 << 20;
        let mut window = Window::new(limit);
        let taken = (0..200_000).take_while(|n| window.take(1 + 2 * n, b"x").is_ok()).count();
        assert_eq!(taken as u64, limit / PIECE_BYTES_MIN);
        let mut window = Window::new(limit);
        let large = vec![0; 2 << 20];
        let taken = (0..).take_while(|n| window.take(1 + n * (2 << 20), &large).is_ok()).count();
        assert_eq!(taken, 16, "large ones count for their bytes");
    }

    #[test]
    fn nothing_is_written_twice() {
        let mut window = Window::new(100 * PIECE_BYTES_MIN);
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
