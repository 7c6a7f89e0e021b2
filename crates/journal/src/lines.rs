//! Lines as they are read: in the order of writing, in memory that the longest line bounds.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::marker::PhantomData;

use crate::files::LogFile;
use crate::form::{Record, TimedRecord};
use crate::line::LineFault;

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads a file of a log line by line.
pub struct LineReader<F, R> {
    file: F,
    line: Vec<u8>,
    read: u64,
    record: PhantomData<fn() -> R>,
}

/// What stands at one place of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// A line without its line feed.
    Whole(&'a [u8]),
    /// So many bytes without a line feed, the last of the file: a torn line, or one that is being written.
    Torn(u64),
    /// As many bytes as the longest line may have, without a line feed. More of the line may follow.
    TooLong,
}

impl<R: Record> LineReader<BufReader<File>, R> {
    /// Of a whole file.
    #[must_use]
    pub fn new(file: File) -> Self {
        LineReader::of(BufReader::with_capacity(BUFFER_BYTES, file))
    }
}

impl<R: Record> PartReader<R> {
    /// Of the bytes from `begin` to `end`. The file's own position is moved.
    pub(crate) fn at(file: &File, begin: u64, end: u64) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(begin))?;
        Ok(LineReader::of(BufReader::with_capacity(BUFFER_BYTES, file.take(end.saturating_sub(begin)))))
    }
}

impl<F: BufRead, R: Record> LineReader<F, R> {
    fn of(file: F) -> Self {
        LineReader { file, line: Vec::new(), read: 0, record: PhantomData }
    }

    /// What comes next; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        let most = R::FORM.line_bytes_max;
        self.line.clear();
        let length = self.file.by_ref().take(most as u64).read_until(b'\n', &mut self.line)?;
        self.read += length as u64;
        Ok(match self.line.strip_suffix(b"\n") {
            Some(line) => Some(Piece::Whole(line)),
            None if length == 0 => None,
            None if length < most => Some(Piece::Torn(length as u64)),
            None => Some(Piece::TooLong),
        })
    }

    /// Bytes that were read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read
    }
}

/// Reads a part of a file.
type PartReader<R> = LineReader<BufReader<Take<File>>, R>;

/// The lines of several files of statistics, the oldest first.
pub(crate) struct LogLines<R> {
    /// What is left of each file, and how many bytes that is.
    files: VecDeque<(PartReader<R>, u64)>,
    /// Of each file that was begun, up to where its whole lines were read.
    pub(crate) ends: Vec<u64>,
    read: u64,
    total: u64,
}

/// What stands at one place of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LogLine<R> {
    /// A record.
    Record(R),
    /// A line that is damaged.
    Damaged,
    /// A line that a newer Kist has written.
    Newer,
    /// Nothing: an empty line, or what is left of a torn one.
    Nothing,
}

impl<R: TimedRecord> LogLines<R> {
    /// Of the first file those from `offset` on.
    pub(crate) fn new(files: &[LogFile], offset: u64) -> io::Result<Self> {
        let mut lines = LogLines { files: VecDeque::new(), ends: vec![offset], read: 0, total: 0 };
        for (at, LogFile { file, length, .. }) in files.iter().enumerate() {
            let begin = if at == 0 { offset } else { 0 };
            let left = length.saturating_sub(begin);
            lines.files.push_back((LineReader::at(file, begin, *length)?, left));
            lines.total += left;
        }
        Ok(lines)
    }

    /// The next line; `None` at the end of the last file.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<LogLine<R>>> {
        let Some((file, length)) = self.files.front_mut() else { return Ok(None) };
        let before = file.read();
        let found = match file.next_piece()? {
            None => None,
            Some(Piece::Torn(_)) => None,
            Some(Piece::TooLong) => Some(LogLine::Damaged),
            // An empty line is what ended a torn one that was whole but for its end.
            Some(Piece::Whole([])) => Some(LogLine::Nothing),
            Some(Piece::Whole(line)) => Some(match R::decode(line) {
                Ok((record, ())) => LogLine::Record(record),
                Err(LineFault::Newer) => LogLine::Newer,
                Err(LineFault::Damaged) => LogLine::Damaged,
            }),
        };
        let Some(found) = found else {
            // The end of the file, or of its whole lines.
            self.read += *length - before.min(*length);
            self.files.pop_front();
            if !self.files.is_empty() {
                self.ends.push(0);
            }
            return Ok(Some(LogLine::Nothing));
        };
        let length = file.read() - before;
        self.read += length;
        if let Some(end) = self.ends.last_mut() {
            *end += length;
        }
        Ok(Some(found))
    }

    /// Bytes that were read, and that there are.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.read, self.total)
    }

    /// Whether there is no further line.
    pub(crate) fn is_over(&self) -> bool {
        self.files.is_empty()
    }
}
