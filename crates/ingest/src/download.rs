//! A get: verified bytes of the pool, the whole file's checksum agreed before its last byte.

use std::collections::VecDeque;

use base::{ArchivePath, BlobDescription, BlobPiece, ByteCount, Layout, StreamChecksums, Timestamp};
use catalogue::{Followed, PoolCopy, View};
use pool::{PieceReader, PoolBuffer, Use};

use crate::Ingest;
use crate::Shared;
use ground::Reading;
use ground::access::Notice;
use ground::{ArchiveError, FileStat, Locality, Which};
use namespace::{FoundFile, file_of, file_stat};

/// A get in progress.
pub struct Download {
    ingest: Ingest,
    stat: FileStat,
    /// What the file had in the pool when it was opened.
    pieces: Vec<BlobPiece>,
    /// What is still to be read: a range of each piece.
    rest: VecDeque<(BlobDescription, BlobPiece, u64, u64)>,
    reader: Option<Current>,
    /// Of a read of the whole file: the checksums and the length of what came so far.
    whole: Option<(StreamChecksums, u64)>,
    /// What is written down of it.
    account: Account,
    _reading: Reading,
}

/// What is written down of a get once it is over.
struct Account {
    began: Timestamp,
    who: Option<String>,
    offset: u64,
    asked: u64,
    sent: u64,
    /// Whether somebody has asked for bytes.
    is_read: bool,
    /// Whether it is a user's, and is written down at all.
    is_users: bool,
}

/// The piece that is being read.
struct Current {
    reader: PieceReader,
    blob: BlobDescription,
    piece: BlobPiece,
    /// What the reader has not given out yet.
    offset: u64,
    length: u64,
}

impl Ingest {
    /// Opens a file for reading, whole unless [`Download::select`] is called.
    ///
    /// # Errors [`ArchiveError::Nearline`] if it has to be staged first, [`ArchiveError::Lost`],
    /// [`ArchiveError::NotFound`], [`ArchiveError::IsADirectory`].
    pub fn open_read(&self, path: &ArchivePath) -> Result<Download, ArchiveError> {
        self.open_read_for(path, None)
    }

    /// As [`Ingest::open_read`], on behalf of somebody whose name goes into the access log.
    ///
    /// # Errors
    /// As [`Ingest::open_read`].
    pub fn open_read_for(&self, path: &ArchivePath, who: Option<&str>) -> Result<Download, ArchiveError> {
        self.open_found(path, who, |view| current(view, path))
    }

    /// Opens a version for reading.
    ///
    /// # Errors
    /// As [`Ingest::open_read`], and [`ArchiveError::DeleteMarker`].
    pub fn open_object(&self, path: &ArchivePath, which: Which, who: &str) -> Result<Download, ArchiveError> {
        self.open_found(path, Some(who), |view| file_of(view, path, which))
    }

    /// As [`Ingest::open_read`], for the server itself: nobody's access.
    ///
    /// # Errors
    /// As [`Ingest::open_read`].
    pub(crate) fn open_check(&self, path: &ArchivePath) -> Result<Download, ArchiveError> {
        let opened = self.open_file(path, None);
        let mut download = opened.map_err(|refused| refused.told(&self.0))?;
        download.account.is_users = false;
        Ok(download)
    }

    /// As [`Ingest::open_read_for`], but the version that `find` gives.
    pub(crate) fn open_found(
        &self,
        path: &ArchivePath,
        who: Option<&str>,
        find: impl FnOnce(&View<'_>) -> FoundFile,
    ) -> Result<Download, ArchiveError> {
        let opened = self.open_by(path, who, find);
        if let Err(Refused::Nearline(stat)) = &opened {
            let (ingest, stat) = (&self.0, stat.as_ref());
            let (class, get) = (|| stat.class.clone(), || refused_get(stat));
            let who = who.map(str::to_owned);
            ingest.access.push(|| Notice::Get { at: ingest.now(), class: class(), who, get: get() });
        }
        opened.map_err(|refused| refused.told(&self.0))
    }

    fn open_file(&self, path: &ArchivePath, who: Option<&str>) -> Result<Download, Refused> {
        self.open_by(path, who, |view| current(view, path))
    }

    fn open_by(
        &self,
        path: &ArchivePath,
        who: Option<&str>,
        find: impl FnOnce(&View<'_>) -> FoundFile,
    ) -> Result<Download, Refused> {
        let ingest = &*self.0;
        let began = ingest.now();
        let reading = ingest.gate.enter();
        let found = ingest.read(|view| {
            let (id, record) = match find(view)? {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            let mut rest = VecDeque::new();
            for piece in &record.pieces {
                let Some(blob) = view.blob(piece.blob)? else {
                    return Ok(Err(ArchiveError::Lost(path.clone())));
                };
                rest.push_back((blob, *piece, 0, piece.length.0));
            }
            let pieces = record.pieces.clone();
            Ok(Ok((file_stat(ingest, view, path, id, record)?, pieces, rest)))
        })?;
        let (stat, pieces, rest) = found?;
        if stat.locality == Locality::Lost {
            return Err(ArchiveError::Lost(path.clone()).into());
        }
        if stat.size.0 > 0 && rest.is_empty() {
            return Err(Refused::Nearline(Box::new(stat)));
        }
        let whole = Some((StreamChecksums::default(), 0));
        let account = Account {
            began,
            who: who.map(str::to_owned),
            offset: 0,
            asked: stat.size.0,
            sent: 0,
            is_read: false,
            is_users: true,
        };
        let ingest = self.clone();
        Ok(Download { ingest, stat, pieces, rest, reader: None, whole, account, _reading: reading })
    }
}

/// The file that has a path now.
fn current(view: &View<'_>, path: &ArchivePath) -> FoundFile {
    Ok(match view.find(path)? {
        None => Err(ArchiveError::NotFound(path.clone())),
        Some(Followed::Directory(..)) => Err(ArchiveError::IsADirectory(path.clone())),
        Some(Followed::File(id, record)) => Ok((id, record)),
    })
}

/// Why a file cannot be read from the pool.
enum Refused {
    Nearline(Box<FileStat>),
    Other(ArchiveError),
}

impl From<ArchiveError> for Refused {
    fn from(error: ArchiveError) -> Self {
        Refused::Other(error)
    }
}

impl Refused {
    fn told(self, ingest: &Shared) -> ArchiveError {
        match self {
            Refused::Nearline(stat) => upkeep::nearline(ingest, &stat),
            Refused::Other(error) => error,
        }
    }
}

impl Drop for Download {
    /// The end of a get, however it ended. One of which nobody took a byte was answered from what is known of
    /// the file, and is no access to its bytes.
    fn drop(&mut self) {
        let account = &mut self.account;
        if !account.is_users || !account.is_read {
            return;
        }
        let ingest = &*self.ingest.0;
        ingest.uses.note(self.stat.file);
        ingest.access.push(|| {
            let at = ingest.now();
            let get = usage::Get {
                file: self.stat.file,
                bytes: self.stat.size,
                offset: ByteCount(account.offset),
                asked: ByteCount(account.asked),
                sent: ByteCount(account.sent),
                online: true,
                took: at.since(account.began),
            };
            let class = std::mem::take(&mut self.stat.class);
            Notice::Get { at, class, who: account.who.take(), get }
        });
    }
}

impl Download {
    /// All about the file.
    #[must_use]
    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// Whether drives answer that hold what is to be read. Reads nothing: it is decided from the states of
    /// the drives. To be called behind [`Download::select`], before the first [`Download::next`].
    ///
    /// # Errors
    /// [`ArchiveError::NearlineAway`] if tapes have the file, else [`ArchiveError::DrivesAway`].
    pub fn check_drives(&self) -> Result<(), ArchiveError> {
        let ingest = &*self.ingest.0;
        let silent = ingest.pool.silent_drives();
        if silent.is_empty() {
            return Ok(());
        }
        let is_kept = self.rest.iter().any(|(blob, piece, offset, length)| {
            let part = match blob.layout {
                Layout::Striped { .. } => BlobPiece {
                    offset: ByteCount(piece.offset.0.saturating_add(*offset)),
                    length: ByteCount(*length),
                    ..*piece
                },
                // A record is found by its beginning.
                Layout::Segment { .. } => *piece,
            };
            matches!(ingest.pool.has_drives_without(blob, &part, &silent), Ok(false))
        });
        if !is_kept {
            return Ok(());
        }
        // What waits for drives that are given up is left to the first read, which declares it lost.
        upkeep::refusal(&ingest.upkeep, self.stat()).map_or(Ok(()), Err)
    }

    /// Reads only `length` bytes from `offset` on (fewer at the end of the file). Before the first
    /// [`Download::next`].
    ///
    /// # Errors
    /// [`ArchiveError::RangeBeyondEnd`] if `offset` is not within the file.
    pub fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        let size = self.stat.size.0;
        if offset >= size && !(offset == 0 && length == 0) {
            return Err(ArchiveError::RangeBeyondEnd { offset, size: self.stat.size });
        }
        let end = offset.saturating_add(length).min(size);
        if offset == 0 && end == size {
            return Ok(());
        }
        self.whole = None;
        (self.account.offset, self.account.asked) = (offset, end - offset);
        let mut at = 0;
        let mut selected = VecDeque::new();
        for (blob, piece, _, _) in self.rest.drain(..) {
            let (first, behind) = (at, at + piece.length.0);
            at = behind;
            let (from, to) = (offset.max(first), end.min(behind));
            if from < to {
                selected.push_back((blob, piece, from - first, to - from));
            }
        }
        self.rest = selected;
        Ok(())
    }

    /// The next bytes, verified; at most 1 MiB; `None` at the end. Of a whole file the last chunk is given
    /// only when the file's checksums agree.
    ///
    /// # Errors [`ArchiveError::Pool`] if bytes cannot be read or repaired, [`ArchiveError::Corrupt`] at the
    /// end of a file that is not what was put. No more bytes may be sent then.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<PoolBuffer>, ArchiveError> {
        let next = self.advance();
        self.account.is_read |= self.stat.size.0 > 0;
        if let Ok(Some(chunk)) = &next {
            self.account.sent += chunk.as_ref().len() as u64;
        }
        match next {
            Err(ArchiveError::Pool(error @ pool::PoolError::Unrecoverable { .. })) => {
                let read = PoolCopy { file: self.stat.file, pieces: self.pieces.clone() };
                Err(upkeep::met(&self.ingest.0.upkeep, &self.stat, read, error))
            }
            other => other,
        }
    }

    fn advance(&mut self) -> Result<Option<PoolBuffer>, ArchiveError> {
        let chunk = self.next_chunk()?;
        let Some((sums, length)) = &mut self.whole else { return Ok(chunk) };
        if let Some(chunk) = &chunk {
            let bytes = chunk.as_ref();
            *sums = match chunk.checksums() {
                Some(next) => sums.combine(next, bytes.len() as u64),
                None => sums.extend(bytes),
            };
            *length += bytes.len() as u64;
        }
        // With the last byte everything is known of it.
        if chunk.is_none() || *length >= self.stat.size.0 {
            self.check_whole()?;
        }
        Ok(chunk)
    }

    fn check_whole(&self) -> Result<(), ArchiveError> {
        match &self.whole {
            Some((sums, length)) if *sums != self.stat.checksums.stream || *length != self.stat.size.0 => {
                tracing::error!(path = %self.stat.path, "bytes of the pool do not have the file's checksums");
                Err(ArchiveError::Corrupt { path: self.stat.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Gives back all memory of the pool until the next call of [`Download::next`]: for a client that takes
    /// its bytes slowly, so that it cannot keep others, tapes among them, from reading.
    pub fn pause(&mut self) {
        if let Some(Current { blob, piece, offset, length, .. }) = self.reader.take()
            && length > 0
        {
            self.rest.push_front((blob, piece, offset, length));
        }
    }

    fn next_chunk(&mut self) -> Result<Option<PoolBuffer>, ArchiveError> {
        loop {
            if let Some(current) = &mut self.reader {
                if let Some(chunk) = current.reader.next()? {
                    let given = chunk.as_ref().len() as u64;
                    assert!(given <= current.length, "a reader gives no more than it was asked for");
                    current.offset += given;
                    current.length -= given;
                    return Ok(Some(chunk));
                }
                self.reader = None;
            }
            let Some((blob, piece, offset, length)) = self.rest.pop_front() else { return Ok(None) };
            let pool = &self.ingest.0.pool;
            if matches!(blob.layout, Layout::Segment { .. }) {
                // It is read by the call that gives the reader.
                pool.pace(length);
            }
            let reader = pool.read_piece_range(&blob, &piece, ByteCount(offset), ByteCount(length))?;
            let reader = reader.used_by(Use::Client);
            let reader = if self.whole.is_some() { reader.with_checksums() } else { reader };
            self.reader = Some(Current { reader, blob, piece, offset, length });
        }
    }
}

/// A get that was refused since the file is on tape only.
fn refused_get(stat: &FileStat) -> usage::Get {
    usage::Get {
        file: stat.file,
        bytes: stat.size,
        offset: ByteCount(0),
        asked: stat.size,
        sent: ByteCount(0),
        online: false,
        took: base::Duration::ZERO,
    }
}
