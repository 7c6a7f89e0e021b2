//! The files of the audit log: `audit.000001.log` and so on. The chain goes on from one to the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::Blake3;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::line::{AuditLine, encode};
use super::read::{Tail, read_tail};

/// A file of this length is closed and a new one begun.
pub const AUDIT_BYTES_MAX: u64 = 16 << 20;
/// Files kept, the one that grows included; the oldest go.
pub const AUDIT_FILES_MAX: usize = 256;

/// Blocks that are allocated behind the last line are at least so many bytes while the file system has
/// room: what makes room can be written down when it has none.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
/// With fewer left nothing at all is taken: the lines of calls under way still fit.
pub(super) const LEAST_BYTES: u64 = 256 << 10;

/// The room that the log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AuditRoom {
    /// Enough.
    Enough,
    /// The file system is full; lines fit as long as the reserve lasts.
    Reserve,
    /// None.
    None,
}

/// The numbers and paths of the files in `directory`, the oldest first.
pub(super) fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".log"));
        if let Some(number) = number.and_then(|digits| digits.parse().ok())
            && name == file_name(number)
        {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn file_name(number: u64) -> String {
    format!("audit.{number:06}.log")
}

/// Appends lines, each with the hash of the one before.
#[derive(Debug)]
pub(super) struct Appender {
    directory: PathBuf,
    bytes_max: u64,
    files_max: usize,
    /// The file that grows.
    file: File,
    /// Its number.
    number: u64,
    /// Its length up to the last whole line.
    length: u64,
    /// Blocks are allocated up to here.
    allocated: u64,
    /// The number of the last line.
    line: u64,
    /// Its hash.
    hash: Blake3,
}

impl Appender {
    /// Goes on behind the last whole line in `directory`, which is made if it is missing.
    pub(super) fn open(directory: &Path, bytes_max: u64, files_max: usize) -> io::Result<Self> {
        assert!(files_max > 0, "a log has a file");
        fs::create_dir_all(directory)?;
        let files = list(directory)?;
        let Some((number, path)) = files.last() else {
            return Appender::begin(directory, bytes_max, files_max, 1, &Tail::NONE);
        };
        let tail = read_tail(path)?;
        if tail.lines == 0 {
            // Its making was broken off: the file before has the chain.
            let before = match files.len().checked_sub(2).and_then(|n| files.get(n)) {
                Some((_, path)) => read_tail(path)?,
                None => Tail::NONE,
            };
            fs::remove_file(path)?;
            return Appender::begin(directory, bytes_max, files_max, *number, &before);
        }
        let file = OpenOptions::new().append(true).open(path)?;
        // What a crash left of a last line was acknowledged to nobody.
        if file.metadata()?.len() > tail.length {
            file.set_len(tail.length)?;
        }
        let allocated = file.metadata()?.blocks().saturating_mul(512);
        let (length, line, hash) = (tail.length, tail.line, tail.hash);
        let directory = directory.to_owned();
        Ok(Appender { directory, bytes_max, files_max, file, number: *number, length, allocated, line, hash })
    }

    fn begin(
        directory: &Path,
        bytes_max: u64,
        files_max: usize,
        number: u64,
        before: &Tail,
    ) -> io::Result<Self> {
        let path = directory.join(file_name(number));
        let file = OpenOptions::new().create_new(true).append(true).mode(0o640).open(&path)?;
        let directory = directory.to_owned();
        let (line, hash) = (before.line, before.hash);
        let mut made =
            Appender { directory, bytes_max, files_max, file, number, length: 0, allocated: 0, line, hash };
        let mut text = String::new();
        let begin = AuditLine::Begin { file: number, previous: hash };
        let after = encode(&begin, line + 1, hash, &mut text);
        let written = made.write(&text, 1, after).and_then(|()| made.sync());
        written.and_then(|()| File::open(&made.directory)?.sync_all()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        Ok(made)
    }

    /// Appends these lines, which the operating system then has. Nothing of them stays if that fails.
    pub(super) fn append(&mut self, lines: &[AuditLine]) -> io::Result<()> {
        if self.length >= self.bytes_max
            && let Err(error) = self.rotate()
        {
            tracing::warn!(%error, "the audit log cannot begin a new file: it goes on in the old one");
        }
        let (mut text, mut hash, mut count) = (String::new(), self.hash, 0);
        for line in lines {
            count += 1;
            hash = encode(line, self.line + count, hash, &mut text);
        }
        self.write(&text, count, hash)
    }

    /// Makes all lines durable. After a failure nobody knows which are: a new file is begun.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Begins the next file, and lets the oldest go.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let before = Tail { lines: 1, length: 0, line: self.line, hash: self.hash };
        let next =
            Appender::begin(&self.directory, self.bytes_max, self.files_max, self.number + 1, &before)?;
        // It grows no more. Not before there is another: it may have to go on in its reserve.
        self.cut();
        *self = next;
        let files = list(&self.directory)?;
        for (_, path) in files.iter().take(files.len().saturating_sub(self.files_max)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Gets blocks for lines to come, and tells what room there is.
    pub(super) fn look_ahead(&mut self) -> AuditRoom {
        if self.allocated < self.length + RESERVE_BYTES {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, 2 * RESERVE_BYTES) {
                Ok(()) => self.allocated = self.length + 2 * RESERVE_BYTES,
                // Another failure, such as that of a file system that cannot, says nothing of its room.
                Err(error) if error != Errno::NOSPC && error != Errno::DQUOT => return AuditRoom::Enough,
                Err(_) => {}
            }
        }
        match self.allocated.saturating_sub(self.length) {
            RESERVE_BYTES.. => AuditRoom::Enough,
            LEAST_BYTES.. => AuditRoom::Reserve,
            _ => AuditRoom::None,
        }
    }

    /// Ends the file behind its last line; the blocks that it had for others are given back.
    fn cut(&mut self) {
        let _ = self.file.set_len(self.length);
        self.allocated = self.length;
    }

    fn write(&mut self, text: &str, lines: u64, hash: Blake3) -> io::Result<()> {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Half a line would break the chain for good.
            self.cut();
            return Err(error);
        }
        self.length += text.len() as u64;
        self.line += lines;
        self.hash = hash;
        Ok(())
    }
}
