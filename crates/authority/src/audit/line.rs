//! A line of the audit log: what it says, and the hash that chains it to the one before.

use std::fmt::Write;

use base::{Blake3, Timestamp};

/// The version that begins the body of each line.
const VERSION: &str = "1";
/// The longest line that is read, its end included. None that is written comes near it.
pub(super) const LINE_BYTES_MAX: usize = 32 << 10;
/// Longer values are cut at the end of a character.
const VALUE_BYTES_MAX: usize = 4096;
/// Hexadecimal digits of a hash.
pub(super) const HASH_DIGITS: usize = 64;

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not allowed, or the credential was no good.
    Refused,
    /// It was allowed, but not done.
    Failed,
}

/// What somebody did, or was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// When it ended.
    pub at: Timestamp,
    /// Who; `-` for somebody without a valid credential.
    pub who: String,
    /// With what they came in: a word.
    pub how: String,
    /// Their address; empty if it is not known.
    pub peer: String,
    /// What they did: a word.
    pub verb: String,
    /// With what: a path, or the name of a machine.
    pub what: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was refused or failed, or details; may be empty.
    pub note: String,
}

/// A line that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuditLine {
    /// The first one of a file.
    Begin {
        /// The number of the file, from 1 on.
        file: u64,
        /// The hash of the last line of the file before; zeros before the first one.
        previous: Blake3,
    },
    /// Something that happened.
    Entry(Box<AuditEntry>),
}

/// Why a line is none of the log. For people.
pub(super) type Wrong = &'static str;

/// Appends a line with its end to `out` and gives its hash.
pub(super) fn encode(line: &AuditLine, number: u64, previous: Blake3, out: &mut String) -> Blake3 {
    let mut body = format!("{VERSION} {number} ");
    match line {
        AuditLine::Begin { file, previous } => {
            let _ = write!(body, "begin file={file} previous={previous}");
        }
        AuditLine::Entry(entry) => {
            let _ = write!(body, "call at={}", entry.at.0);
            let fields = [
                ("who", &entry.who),
                ("how", &entry.how),
                ("peer", &entry.peer),
                ("verb", &entry.verb),
                ("what", &entry.what),
            ];
            fields.iter().for_each(|(name, value)| field(&mut body, name, value));
            let _ = write!(body, " outcome={}", entry.outcome.word());
            field(&mut body, "note", &entry.note);
        }
    }
    let hash = chained(previous, body.as_bytes());
    let _ = writeln!(out, "{hash} {body}");
    hash
}

/// What [`decode`] says of a version or kind that it does not know. True of a line whose hash follows.
pub(super) const OTHER_VERSION: Wrong = "its version is not known: read it with a newer kist";
pub(super) const OTHER_KIND: Wrong = "its kind is not known: read it with a newer kist";

/// Reads a line without its end: its hash, its number, what it says.
pub(super) fn decode(line: &[u8]) -> Result<(Blake3, u64, AuditLine), Wrong> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not text")?;
    let (hash, body) = line.split_at_checked(HASH_DIGITS).ok_or("it has no hash")?;
    let hash = Blake3::parse(hash).ok_or("its hash is malformed")?;
    let body = body.strip_prefix(' ').ok_or("it is malformed")?;
    let mut words = body.split(' ');
    if words.next() != Some(VERSION) {
        return Err(OTHER_VERSION);
    }
    let number = words.next().and_then(|number| number.parse().ok()).ok_or("its number is malformed")?;
    let kind = words.next();
    let values: Vec<(&str, &str)> =
        words.map(|word| word.split_once('=')).collect::<Option<_>>().ok_or("it is malformed")?;
    let read = match kind {
        Some("begin") => begin(&values),
        Some("call") => call(&values).map(|entry| AuditLine::Entry(Box::new(entry))),
        _ => return Err(OTHER_KIND),
    };
    Ok((hash, number, read.ok_or("it is malformed")?))
}

/// For the fuzz targets: what is read is written as it reads.
///
/// # Panics
/// If it is not.
pub(crate) fn check_line(line: &[u8]) {
    if let Ok((_, number, read)) = decode(line) {
        let mut written = String::new();
        let hash = encode(&read, number, Blake3([0; 32]), &mut written);
        let again = decode(written.trim_end_matches('\n').as_bytes());
        assert_eq!(again, Ok((hash, number, read)), "{written}");
    }
}

/// The hash of a line: over the hash of the one before and the line's own body.
pub(super) fn chained(previous: Blake3, body: &[u8]) -> Blake3 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&previous.0);
    hasher.update(body);
    Blake3(*hasher.finalize().as_bytes())
}

/// The part of a line that its hash is over.
pub(super) fn body(line: &[u8]) -> &[u8] {
    line.get(HASH_DIGITS + 1..).unwrap_or_default()
}

impl Outcome {
    /// The word in the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Outcome::Done, Outcome::Refused, Outcome::Failed].into_iter().find(|known| known.word() == word)
    }
}

fn begin(values: &[(&str, &str)]) -> Option<AuditLine> {
    let [("file", file), ("previous", previous)] = values else { return None };
    Some(AuditLine::Begin { file: file.parse().ok()?, previous: Blake3::parse(previous)? })
}

fn call(values: &[(&str, &str)]) -> Option<AuditEntry> {
    let names = ["at", "who", "how", "peer", "verb", "what", "outcome", "note"];
    if values.len() != names.len() || values.iter().zip(names).any(|((name, _), known)| *name != known) {
        return None;
    }
    let text = |n: usize| plain(values.get(n)?.1);
    Some(AuditEntry {
        at: Timestamp(values.first()?.1.parse().ok()?),
        who: text(1)?,
        how: text(2)?,
        peer: text(3)?,
        verb: text(4)?,
        what: text(5)?,
        outcome: Outcome::parse(values.get(6)?.1)?,
        note: text(7)?,
    })
}

/// ` name=value`, with all but graphic ASCII, and the percent sign, as `%` and two hexadecimal digits.
fn field(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, " {name}=");
    let short = value.get(..value.floor_char_boundary(VALUE_BYTES_MAX.min(value.len()))).unwrap_or_default();
    for byte in short.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// What an escaped text says; `None` if it is not one, or longer than any that is written.
fn plain(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok().filter(|text| text.len() <= VALUE_BYTES_MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn entry(what: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp(1_790_000_000_000_000_000),
            who: "anna".to_owned(),
            how: "key".to_owned(),
            peer: "127.0.0.1:5000".to_owned(),
            verb: "put".to_owned(),
            what: what.to_owned(),
            outcome: Outcome::Done,
            note: String::new(),
        }
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        for what in ["/a/b", "", "/a b=c%d\nforged line", "/ä/✓"] {
            let (line, mut out) = (AuditLine::Entry(Box::new(entry(what))), String::new());
            let hash = encode(&line, 7, Blake3([3; 32]), &mut out);
            assert_eq!(out.lines().count(), 1, "nothing that is written begins a line");
            let read = out.trim_end_matches('\n').as_bytes();
            assert_eq!(decode(read), Ok((hash, 7, line)));
            assert_eq!(chained(Blake3([3; 32]), body(read)), hash);
            assert_ne!(chained(Blake3([4; 32]), body(read)), hash);
        }
        let (line, mut out) = (AuditLine::Begin { file: 2, previous: Blake3([9; 32]) }, String::new());
        let hash = encode(&line, 1, Blake3([9; 32]), &mut out);
        assert_eq!(decode(out.trim_end().as_bytes()), Ok((hash, 1, line)));
    }

    #[test]
    fn the_longest_entry_fits_a_line() {
        let long = "\u{1}".repeat(10_000);
        let entry = AuditEntry { who: "\u{1}".repeat(64), note: "\u{1}".repeat(1024), ..entry(&long) };
        let mut out = String::new();
        encode(&AuditLine::Entry(Box::new(entry)), u64::MAX, Blake3([0; 32]), &mut out);
        assert!(out.len() < LINE_BYTES_MAX, "{}", out.len());
    }

    /// Fuzzing found in a log beside this one that a longer text than any that is written was read as it
    /// stood, and cut when it was written again.
    #[test]
    fn texts_are_read_up_to_the_length_that_is_written() {
        let line = |what: &str| {
            let hash = Blake3([0; 32]);
            let rest = "who=a how=key peer=p verb=put";
            decode(format!("{hash} 1 7 call at=5 {rest} what={what} outcome=done note=").as_bytes())
        };
        let longest = "x".repeat(VALUE_BYTES_MAX);
        let Ok((_, 7, AuditLine::Entry(read))) = line(&longest) else { panic!() };
        assert_eq!(read.what, longest);
        assert!(line(&"%C3%A9".repeat(VALUE_BYTES_MAX / 2)).is_ok());
        assert!(line(&(longest + "x")).is_err());
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let mut out = String::new();
        encode(&AuditLine::Entry(Box::new(entry("/a"))), 7, Blake3([3; 32]), &mut out);
        let good = out.trim_end();
        let wrong = [
            "".to_owned(),
            good[1..].to_owned(),
            good.replace(" 1 7 ", " 2 7 "),
            good.replace("call", "fall"),
            good.replace("who=", "why="),
            good.replace("done", "fine"),
            format!("{good} more=1"),
            good.replace("/a", "%4"),
        ];
        for line in wrong {
            assert!(decode(line.as_bytes()).is_err(), "{line}");
        }
    }
}
