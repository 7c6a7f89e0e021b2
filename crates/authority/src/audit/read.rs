//! Reading the audit log, and proving that no line of it was changed, removed or put elsewhere.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use base::Blake3;
use journal::{
    AUDIT_OTHER_KIND, AUDIT_OTHER_VERSION, AuditLine, ChainLink, LineReader, LogFiles, Piece, Record as _,
};

const NOT_FOLLOWING: &str = "its hash does not follow from the line before";

/// What a whole log is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditSummary {
    /// Files.
    pub files: u64,
    /// Lines in them.
    pub lines: u64,
    /// The number of the last line.
    pub last: u64,
    /// Its hash: whoever keeps it elsewhere can later prove that nothing up to it was changed.
    pub hash: Blake3,
    /// Whether the oldest file is the first one that was ever written.
    pub is_complete: bool,
    /// Whether the hash that was looked for is in it.
    pub has_expected: bool,
}

/// Why a log is not what was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditFault {
    /// A file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what was written, or not where it was.
    #[error(
        "{path}, line {line}: {what}: the audit log was changed or damaged there",
        path = .path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line in it, from 1 on.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file is missing.
    #[error("the file with number {number} of the audit log is missing, though older ones are there")]
    Missing {
        /// Its number.
        number: u64,
    },
}

/// Reads all of the log in `directory`, the oldest line first, and checks its chain. A last line that is not
/// whole yet is passed over: the server is writing it. `expected`: a hash to be looked for.
///
/// # Errors
/// At the first line that is not what was written; those before it were given to `each`.
pub fn read_audit(
    directory: &Path,
    expected: Option<Blake3>,
    each: &mut dyn FnMut(u64, &AuditLine),
) -> Result<AuditSummary, AuditFault> {
    let failed = |source| AuditFault::Io { path: directory.to_owned(), source };
    let files = LogFiles::<AuditLine>::new(directory).list().map_err(failed)?;
    let mut summary = AuditSummary {
        files: 0,
        lines: 0,
        last: 0,
        hash: Blake3([0; 32]),
        is_complete: files.first().is_none_or(|(number, _)| *number == 1),
        has_expected: false,
    };
    let (mut next, count) = (None, files.len());
    for (n, (number, path)) in files.into_iter().enumerate() {
        if let Some(next) = next
            && next != number
        {
            return Err(AuditFault::Missing { number: next });
        }
        next = Some(number + 1);
        let mut chain =
            Chain { path: &path, number, is_last: n + 1 == count, summary: &mut summary, expected };
        chain.read(each)?;
    }
    Ok(summary)
}

/// One file on the way through all.
struct Chain<'a> {
    path: &'a Path,
    number: u64,
    is_last: bool,
    summary: &'a mut AuditSummary,
    expected: Option<Blake3>,
}

impl Chain<'_> {
    fn read(&mut self, each: &mut dyn FnMut(u64, &AuditLine)) -> Result<(), AuditFault> {
        let failed = |source| AuditFault::Io { path: self.path.to_owned(), source };
        let mut file = LineReader::<_, AuditLine>::new(File::open(self.path).map_err(failed)?);
        let mut count = 0;
        while let Some(piece) = file.next_piece().map_err(failed)? {
            count += 1;
            let wrong = |what| AuditFault::Line { path: self.path.to_owned(), line: count, what };
            let whole = match piece {
                Piece::Whole(line) => line,
                Piece::Torn(_) if self.is_last => break,
                Piece::Torn(_) | Piece::TooLong => return Err(wrong("it has no end")),
            };
            let (number, read) = self.check(whole, count == 1).map_err(wrong)?;
            each(number, &read);
        }
        if count == 0 && !self.is_last {
            return Err(AuditFault::Line { path: self.path.to_owned(), line: 1, what: "it is missing" });
        }
        self.summary.files += 1;
        Ok(())
    }

    /// What is wrong with a line that cannot be read. What is damaged has any version and kind: they are
    /// believed only if the hash follows, which nothing tells of the first line of the oldest file.
    fn behind_hash(&self, wrong: &'static str, line: &[u8], is_first: bool) -> &'static str {
        if ![AUDIT_OTHER_VERSION, AUDIT_OTHER_KIND].contains(&wrong) {
            return wrong;
        }
        if is_first && self.summary.files == 0 {
            return "it is damaged, or of a newer kist: compare a copy, or read it with a newer kist";
        }
        if ChainLink::follows(self.summary.hash, line) { wrong } else { NOT_FOLLOWING }
    }

    fn check(&mut self, line: &[u8], is_first: bool) -> Result<(u64, AuditLine), &'static str> {
        let (read, ChainLink { number, hash }) =
            AuditLine::decode(line).map_err(|wrong| self.behind_hash(wrong, line, is_first))?;
        let mut previous = self.summary.hash;
        if let AuditLine::Begin { file, previous: told } = &read {
            if !is_first || *file != self.number {
                return Err("a file begins that is not this one");
            }
            if self.summary.files == 0 {
                // What was before the oldest file is gone; its hash is all that is left.
                (previous, self.summary.last) = (*told, number.saturating_sub(1));
                if self.number == 1 && (*told != Blake3([0; 32]) || number != 1) {
                    return Err("the first file does not begin the log");
                }
            } else if *told != previous {
                return Err("it does not go on from the file before");
            }
        } else if is_first {
            return Err("the file has no beginning");
        }
        if ChainLink::hash_of_next(previous, line) != hash {
            return Err(NOT_FOLLOWING);
        }
        if number != self.summary.last.saturating_add(1) {
            return Err("its number does not follow");
        }
        self.summary.lines += 1;
        self.summary.last = number;
        self.summary.hash = hash;
        self.summary.has_expected |= self.expected == Some(hash);
        Ok((number, read))
    }
}
