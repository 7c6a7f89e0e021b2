//! A file that is open for reading: one download that is read on, verified, as long as its bytes are asked
//! for in order; what jumps opens another one.

use std::sync::Arc;

use archive::FileStat;
use authority::{Bytes as _, Download, Guarded};
use base::{ArchivePath, FileId};
use bytes::Bytes;
use rustix::io::Errno;

use crate::engine::Engine;
use crate::errors::Refused;
use crate::frame::Segment;

/// Pieces of a vector read with no more than this between them are read as one, in bytes: another opening
/// takes about as long as reading so much.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// What is read as one for a vector read has at most this many bytes.
const RUN_BYTES_MAX: u64 = 2 << 20;

/// A file that is open for reading.
pub struct Reading {
    engine: Arc<Guarded<dyn Engine>>,
    path: ArchivePath,
    file: FileId,
    size: u64,
    cursor: Option<Cursor>,
    /// Where the last read ended that was a jump: who reads on from there reads in order.
    jumped_to: Option<u64>,
}

/// A download, and what came of it and was not asked for yet.
struct Cursor {
    download: Box<dyn Download>,
    /// Where `ahead` begins.
    at: u64,
    ahead: Bytes,
    end: u64,
}

impl Cursor {
    /// The next bytes, at most so many. `None`: the download has ended.
    fn next(&mut self, most: usize) -> Result<Option<Bytes>, Refused> {
        while self.ahead.is_empty() {
            match self.download.next()? {
                Some(bytes) => self.ahead = bytes,
                None => return Ok(None),
            }
        }
        let taken = self.ahead.split_to(most.min(self.ahead.len()));
        self.at += taken.len() as u64;
        Ok(Some(taken))
    }
}

impl Reading {
    /// Opens a file that is there.
    pub fn open(engine: Arc<Guarded<dyn Engine>>, path: ArchivePath) -> Result<(Self, FileStat), Refused> {
        let download = engine.open_read_for(&path, "")?;
        download.check_drives()?;
        let stat = download.stat().clone();
        let cursor = Cursor { download, at: 0, ahead: Bytes::new(), end: stat.size.0 };
        let (file, size) = (stat.file, stat.size.0);
        Ok((Reading { engine, path, file, size, cursor: Some(cursor), jumped_to: None }, stat))
    }

    /// The bytes of a piece, in order, fewer at the end of the file.
    pub fn read(&mut self, piece: Segment) -> Result<Vec<Bytes>, Refused> {
        let length = u64::from(piece.length).min(self.size.saturating_sub(piece.offset));
        if length == 0 {
            return Ok(Vec::new());
        }
        let end = piece.offset + length;
        if self.cursor.as_ref().is_none_or(|cursor| cursor.at != piece.offset || cursor.end < end) {
            let reads_on = piece.offset == 0 || self.jumped_to == Some(piece.offset);
            self.cursor = None;
            self.cursor = Some(self.jump(piece.offset, if reads_on { self.size } else { end })?);
            self.jumped_to = Some(end);
        }
        let read = self.cursor.as_mut().map(|cursor| gather(cursor, length));
        let read = read.unwrap_or_else(|| Err(ended()));
        // What failed once is not read on: the next read opens the file anew.
        if read.is_err() || self.cursor.as_ref().is_some_and(|cursor| cursor.at == cursor.end) {
            self.cursor = None;
        }
        read
    }

    /// All pieces, one behind the other. Each has to lie within the file.
    pub fn read_vector(&mut self, pieces: &[Segment]) -> Result<Vec<u8>, Refused> {
        let within = |piece: &Segment| piece.offset.saturating_add(piece.length.into()) <= self.size;
        if !pieces.iter().all(within) {
            return Err(Refused::new(Errno::INVAL, format!("a piece is behind the end of {}", self.path)));
        }
        let mut out = vec![0; pieces.iter().map(|piece| piece.length as usize).sum()];
        let mut places = Vec::with_capacity(pieces.len());
        let mut at = 0;
        for piece in pieces {
            places.push((*piece, at));
            at += piece.length as usize;
        }
        places.sort_by_key(|(piece, _)| piece.offset);
        for run in runs(&places) {
            let (Some((first, _)), Some(end)) =
                (run.first(), run.iter().map(|(piece, _)| end_of(piece)).max())
            else {
                continue;
            };
            let mut cursor = self.jump(first.offset, end)?;
            let bytes: Vec<u8> = gather(&mut cursor, end - first.offset)?.concat();
            for (piece, at) in run {
                let from = usize::try_from(piece.offset - first.offset).map_err(|_| ended())?;
                let length = piece.length as usize;
                let (Some(to), Some(from)) = (out.get_mut(*at..at + length), bytes.get(from..from + length))
                else {
                    return Err(ended());
                };
                to.copy_from_slice(from);
            }
        }
        Ok(out)
    }

    /// The client asks for nothing now: others get what the engine holds ready for it.
    pub fn pause(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.ahead = Bytes::copy_from_slice(&cursor.ahead);
            cursor.download.pause();
        }
    }

    /// The client has not asked for anything for long: the file is opened anew when it does.
    pub fn let_go(&mut self) {
        self.cursor = None;
    }

    /// Whether something of the engine is held for it.
    pub fn holds(&self) -> bool {
        self.cursor.is_some()
    }

    /// Opens it again, if it is the same file still.
    fn jump(&self, offset: u64, end: u64) -> Result<Cursor, Refused> {
        let mut download = self.engine.open_read_for(&self.path, "")?;
        if download.stat().file != self.file {
            let why = format!("{} was replaced since it was opened: open it again", self.path);
            return Err(Refused::new(Errno::STALE, why));
        }
        download.select(offset, end - offset)?;
        Ok(Cursor { download, at: offset, ahead: Bytes::new(), end })
    }
}

/// So many bytes, or an error.
fn gather(cursor: &mut Cursor, mut length: u64) -> Result<Vec<Bytes>, Refused> {
    let mut all = Vec::new();
    while length > 0 {
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = cursor.next(most)?.ok_or_else(ended)?;
        length -= bytes.len() as u64;
        all.push(bytes);
    }
    Ok(all)
}

fn ended() -> Refused {
    Refused::new(Errno::IO, "the engine gave another number of bytes")
}

fn end_of(piece: &Segment) -> u64 {
    piece.offset + u64::from(piece.length)
}

/// Sorted pieces that are read as one.
fn runs(pieces: &[(Segment, usize)]) -> impl Iterator<Item = &[(Segment, usize)]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let (begin, mut end) = (first.0.offset, end_of(&first.0));
        let mut count = 1;
        for (piece, _) in others {
            let behind = end.max(end_of(piece));
            if piece.offset > end.saturating_add(GAP_BYTES_MAX) || behind - begin > RUN_BYTES_MAX {
                break;
            }
            (end, count) = (behind, count + 1);
        }
        let (run, left) = rest.split_at_checked(count)?;
        rest = left;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_are_near_each_other_are_read_as_one() {
        let piece = |offset, length| (Segment { offset, length }, 0);
        let counts = |pieces: &[(Segment, usize)]| runs(pieces).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(counts(&[]), [0; 0]);
        let near = GAP_BYTES_MAX + 10;
        assert_eq!(counts(&[piece(0, 10), piece(near, 5), piece(2 * near + 6, 1)]), [2, 1]);
        assert_eq!(counts(&[piece(0, 10), piece(0, 4), piece(2, 100)]), [3], "they may overlap");
        let large = 2 << 20;
        assert_eq!(counts(&[piece(0, large), piece(u64::from(large), 1)]), [1, 1]);
    }
}
