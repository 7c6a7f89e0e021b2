//! The file that grows, and the ones that follow it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::files::LogFiles;
use crate::form::{Naming, Record, Reserve, TornEnd};
use crate::lines::{LineReader, Piece};

/// The room that a log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Enough.
    Enough,
    /// The file system is full; lines fit as long as the reserve lasts.
    Reserve,
    /// None.
    None,
}

/// Appends lines to a log. Who makes one is the only one who writes there.
#[derive(Debug)]
pub struct Appender<R: Record> {
    files: LogFiles<R>,
    /// The file that grows.
    file: File,
    /// Its number, or its age, which is 0.
    number: u64,
    /// Its length up to the last whole line.
    length: u64,
    /// Blocks are allocated up to here.
    allocated: u64,
    /// What the next line needs to know of the last one.
    link: R::Link,
}

impl<R: Record> Appender<R> {
    /// Goes on behind the last whole line. Directory and file are made if they are missing.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn open(files: LogFiles<R>) -> io::Result<Self> {
        fs::create_dir_all(&files.directory)?;
        let newest = match R::FORM.naming {
            Naming::ByAge => files.path(0).try_exists()?.then_some(0),
            Naming::ByNumber => files.list()?.last().map(|(number, _)| *number),
        };
        match (newest, R::FORM.torn) {
            (None, _) => {
                let number = u64::from(R::FORM.naming == Naming::ByNumber);
                Appender::begin(files, number, R::Link::default())
            }
            (Some(number), TornEnd::Ended) => Appender::go_on_ending(files, number),
            (Some(number), TornEnd::CutOff) => Appender::go_on_cutting(files, number),
        }
    }

    /// A line feed ends what a crash left of a last line, unless no further line comes to this file.
    fn go_on_ending(files: LogFiles<R>, number: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).open(files.path(number))?;
        let length = file.metadata()?.len();
        let mut made = Appender { files, file, number, length, allocated: 0, link: R::Link::default() };
        if length > 0 && !made.is_full() {
            let mut last = [0u8];
            made.file.seek(SeekFrom::End(-1))?;
            made.file.read_exact(&mut last)?;
            if last != *b"\n" {
                made.write("\n", made.link)?;
            }
        }
        Ok(made)
    }

    /// What a crash left of a last line was acknowledged to nobody, and is cut off.
    fn go_on_cutting(files: LogFiles<R>, number: u64) -> io::Result<Self> {
        let path = files.path(number);
        let tail = Tail::<R>::read(&path)?;
        if tail.lines == 0 && R::first_of_file(number, tail.link).is_some() {
            // Its making was broken off: the file before has what its first line says.
            let list = files.list()?;
            let before = list.iter().rev().find(|(known, _)| *known < number);
            let link = match before {
                Some((_, path)) => Tail::<R>::read(path)?.link,
                None => R::Link::default(),
            };
            fs::remove_file(path)?;
            return Appender::begin(files, number, link);
        }
        let file = OpenOptions::new().append(true).open(path)?;
        if file.metadata()?.len() > tail.length {
            file.set_len(tail.length)?;
        }
        let allocated = file.metadata()?.blocks().saturating_mul(512);
        Ok(Appender { files, file, number, length: tail.length, allocated, link: tail.link })
    }

    fn begin(files: LogFiles<R>, number: u64, before: R::Link) -> io::Result<Self> {
        let path = files.path(number);
        let file = OpenOptions::new().create_new(true).append(true).mode(R::FORM.mode).open(&path)?;
        let mut made = Appender { files, file, number, length: 0, allocated: 0, link: before };
        made.write_first(before).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        Ok(made)
    }

    fn write_first(&mut self, before: R::Link) -> io::Result<()> {
        if let Some(first) = R::first_of_file(self.number, before) {
            let mut text = String::new();
            let link = first.encode(before, &mut text);
            self.write(&text, link)?;
        }
        if R::FORM.is_durable {
            self.sync()?;
            File::open(&self.files.directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Whether the file has reached its length: the next line goes to another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.length >= self.files.bytes_max
    }

    /// Appends lines, which the operating system then has.
    ///
    /// # Errors
    /// If that fails. Where torn lines are cut off nothing of these stays; otherwise half a line may stand
    /// there, and the log is to be opened anew.
    pub fn append(&mut self, records: &[R]) -> io::Result<()> {
        self.make_room()?;
        let (mut text, mut link) = (String::new(), self.link);
        for record in records {
            link = record.encode(link, &mut text);
        }
        self.write(&text, link)
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.is_full()
            && let Err(error) = self.rotate()
        {
            if R::FORM.naming == Naming::ByAge {
                return Err(error);
            }
            let log = R::FORM.stem;
            tracing::warn!(%error, "the {log} log cannot begin a new file: it goes on in the old one");
        }
        Ok(())
    }

    /// Makes all lines durable.
    ///
    /// # Errors
    /// If that fails. Nobody knows then which lines are durable: another file is to be begun.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Begins the next file, and lets the oldest go.
    ///
    /// # Errors
    /// If that fails. Where files have numbers it can go on in the old file.
    pub fn rotate(&mut self) -> io::Result<()> {
        if R::FORM.is_durable {
            self.file.sync_data()?;
        }
        let number = self.files.make_way(self.number)?;
        let next = Appender::begin(self.files.clone(), number, self.link)?;
        if R::FORM.reserve.is_some() {
            // It grows no more. Not before there is another: it may have to go on in its reserve.
            self.cut();
        }
        *self = next;
        self.files.trim()
    }

    /// Gets blocks for lines to come, where the log has a reserve, and tells what room there is.
    pub fn look_ahead(&mut self) -> Room {
        let Some(Reserve { bytes, least }) = R::FORM.reserve else { return Room::Enough };
        if self.allocated < self.length + bytes {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, 2 * bytes) {
                Ok(()) => self.allocated = self.length + 2 * bytes,
                // Another failure, such as that of a file system that cannot, says nothing of its room.
                Err(error) if error != Errno::NOSPC && error != Errno::DQUOT => return Room::Enough,
                Err(_) => {}
            }
        }
        match self.allocated.saturating_sub(self.length) {
            left if left >= bytes => Room::Enough,
            left if left >= least => Room::Reserve,
            _ => Room::None,
        }
    }

    /// Ends the file behind its last line; the blocks that it had for others are given back.
    fn cut(&mut self) {
        let _ = self.file.set_len(self.length);
        self.allocated = self.length;
    }

    fn write(&mut self, text: &str, link: R::Link) -> io::Result<()> {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            if R::FORM.torn == TornEnd::CutOff {
                // Half a line would be in the way of the next one for good.
                self.cut();
            }
            return Err(error);
        }
        self.length += text.len() as u64;
        self.link = link;
        Ok(())
    }
}

impl<R: Record<Link = ()>> Appender<R> {
    /// As [`Appender::append`], of lines that are encoded already.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub fn append_lines(&mut self, lines: &str) -> io::Result<()> {
        self.make_room()?;
        self.write(lines, ())
    }
}

/// Where a file's last whole line ends.
struct Tail<R: Record> {
    /// Whole lines that can be read.
    lines: u64,
    /// Bytes up to the end of the last line that is whole, whether or not it can be read.
    length: u64,
    /// What the last one that can be read says to the next.
    link: R::Link,
}

impl<R: Record> Tail<R> {
    /// Lines that cannot be read are passed over: they stay where they are, for those who verify.
    fn read(path: &Path) -> io::Result<Self> {
        let mut tail = Tail { lines: 0, length: 0, link: R::Link::default() };
        let mut file = LineReader::<_, R>::new(File::open(path)?);
        while let Some(piece) = file.next_piece()? {
            let Piece::Whole(line) = piece else { continue };
            if let Ok((_, link)) = R::decode(line) {
                (tail.lines, tail.link) = (tail.lines + 1, link);
            }
            tail.length = file.read();
        }
        Ok(tail)
    }
}

#[cfg(test)]
mod tests;
