//! A line of the audit log: what it says, and the hash that chains it to the one before.

use std::fmt::Write;

use base::{Blake3, Timestamp};

use crate::form::{LogForm, Naming, Record, Reserve, TornEnd};
use crate::line::{self, Fields, Sum as _, SumFault, TextForm, Values};

/// A file of this length is closed and a new one begun.
pub const AUDIT_BYTES_MAX: u64 = 16 << 20;
/// Files kept, the one that grows included; the oldest go.
pub const AUDIT_FILES_MAX: u32 = 256;

/// The longest line that is read, its end included. None that is written comes near it.
const LINE_BYTES_MAX: usize = 32 << 10;
/// All texts. Commas stand as they are: no value has parts.
const TEXTS: TextForm = TextForm { escapes_comma: false, bytes_max: 4096 };
/// The fields of a call.
const CALL: [&str; 8] = ["at", "who", "how", "peer", "verb", "what", "outcome", "note"];

/// What decoding says of a version or kind that it does not know. True of a line whose hash follows.
pub const AUDIT_OTHER_VERSION: &str = "its version is not known: read it with a newer kist";
/// See above.
pub const AUDIT_OTHER_KIND: &str = "its kind is not known: read it with a newer kist";

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

/// What chains a line to the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainLink {
    /// The number of the line, from 1 on, through all files.
    pub number: u64,
    /// Its hash, over the hash of the line before and its own body.
    pub hash: Blake3,
}

/// Before the first line of all.
impl Default for ChainLink {
    fn default() -> Self {
        ChainLink { number: 0, hash: Blake3([0; 32]) }
    }
}

impl ChainLink {
    /// Whether a line, which need not be known, says the hash that it must have behind one with this hash.
    #[must_use]
    pub fn follows(previous: Blake3, line: &[u8]) -> bool {
        line::split_sum(line).is_ok_and(|(said, _)| Self::hash_of_next(previous, line) == said)
    }

    /// The hash that a line, which [`Record::decode`] read, must have behind one with this hash.
    #[must_use]
    pub fn hash_of_next(previous: Blake3, line: &[u8]) -> Blake3 {
        Blake3::over(previous, line.get(Blake3::DIGITS + 1..).unwrap_or_default())
    }
}

impl Record for AuditLine {
    type Link = ChainLink;
    /// For people.
    type Fault = &'static str;
    const FORM: LogForm = LogForm {
        stem: "audit",
        naming: Naming::ByNumber,
        bytes_max: AUDIT_BYTES_MAX,
        files_max: AUDIT_FILES_MAX,
        line_bytes_max: LINE_BYTES_MAX,
        torn: TornEnd::CutOff,
        is_durable: true,
        mode: 0o640,
        // What makes room can be written down when the file system has none, and so can the calls under way.
        reserve: Some(Reserve { bytes: 1 << 20, least: 256 << 10 }),
    };

    fn encode(&self, after: ChainLink, out: &mut String) -> ChainLink {
        let number = after.number.saturating_add(1);
        let hash = line::seal(after.hash, out, |body| {
            let _ = write!(body, " {number} ");
            match self {
                AuditLine::Begin { file, previous } => {
                    let _ = write!(body, "begin file={file} previous={previous}");
                }
                AuditLine::Entry(entry) => encode_call(entry, body),
            }
        });
        ChainLink { number, hash }
    }

    fn decode(line: &[u8]) -> Result<(Self, ChainLink), &'static str> {
        let (hash, body) = line::split_sum::<Blake3>(line).map_err(|fault| match fault {
            SumFault::NotText => "it is not text",
            SumFault::Missing => "it has no hash",
            SumFault::Malformed => "its hash is malformed",
            SumFault::NoBody => "it is malformed",
        })?;
        let rest = line::behind_version(body).ok_or(AUDIT_OTHER_VERSION)?;
        let (number, rest) = first_word(rest);
        let number = number.parse().map_err(|_| "its number is malformed")?;
        let (kind, rest) = first_word(rest.unwrap_or_default());
        let values = rest.map_or(Some(Values::none(TEXTS)), |rest| Values::read(rest, LINE_BYTES_MAX, TEXTS));
        let values = values.ok_or("it is malformed")?;
        let read = match kind {
            "begin" => begin(&values),
            "call" => call(&values).map(|entry| AuditLine::Entry(Box::new(entry))),
            _ => return Err(AUDIT_OTHER_KIND),
        };
        Ok((read.ok_or("it is malformed")?, ChainLink { number, hash }))
    }

    fn first_of_file(number: u64, after: ChainLink) -> Option<Self> {
        Some(AuditLine::Begin { file: number, previous: after.hash })
    }
}

fn encode_call(entry: &AuditEntry, body: &mut String) {
    body.push_str("call");
    let mut fields = Fields { out: body, texts: TEXTS };
    fields.number("at", entry.at.0);
    fields.text("who", &entry.who);
    fields.text("how", &entry.how);
    fields.text("peer", &entry.peer);
    fields.text("verb", &entry.verb);
    fields.text("what", &entry.what);
    fields.number("outcome", entry.outcome.word());
    fields.text("note", &entry.note);
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

/// Up to the first space, and what stands behind it.
fn first_word(text: &str) -> (&str, Option<&str>) {
    text.split_once(' ').map_or((text, None), |(word, rest)| (word, Some(rest)))
}

fn begin(values: &Values<'_>) -> Option<AuditLine> {
    if !values.are(&["file", "previous"]) {
        return None;
    }
    let previous = Blake3::read(values.get("previous")?)?;
    Some(AuditLine::Begin { file: values.number("file")?, previous })
}

fn call(values: &Values<'_>) -> Option<AuditEntry> {
    if !values.are(&CALL) {
        return None;
    }
    Some(AuditEntry {
        at: Timestamp(values.number("at")?),
        who: values.text("who")?,
        how: values.text("how")?,
        peer: values.text("peer")?,
        verb: values.text("verb")?,
        what: values.text("what")?,
        outcome: Outcome::parse(values.get("outcome")?)?,
        note: values.text("note")?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(what: &str) -> AuditEntry {
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

    fn behind(number: u64, hash: [u8; 32]) -> ChainLink {
        ChainLink { number: number - 1, hash: Blake3(hash) }
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        for what in ["/a/b", "", "/a b=c%d\nforged line", "/ä/✓"] {
            let (line, mut out) = (AuditLine::Entry(Box::new(entry(what))), String::new());
            let link = line.encode(behind(7, [3; 32]), &mut out);
            assert_eq!((out.lines().count(), link.number), (1, 7), "nothing that is written begins a line");
            let read = out.trim_end_matches('\n').as_bytes();
            assert_eq!(AuditLine::decode(read), Ok((line, link)));
            assert_eq!(ChainLink::hash_of_next(Blake3([3; 32]), read), link.hash);
            assert_ne!(ChainLink::hash_of_next(Blake3([4; 32]), read), link.hash);
        }
        let (line, mut out) = (AuditLine::Begin { file: 2, previous: Blake3([9; 32]) }, String::new());
        let link = line.encode(behind(1, [9; 32]), &mut out);
        assert_eq!(AuditLine::decode(out.trim_end().as_bytes()), Ok((line, link)));
    }

    /// A server wrote this file before the three logs had one codec: it never changes.
    #[test]
    fn the_golden_file_is_read_and_written() {
        let golden = include_str!("golden/audit-1.log");
        let (mut written, mut before, mut outcomes) = (String::new(), ChainLink::default(), Vec::new());
        for line in golden.lines() {
            let (read, link) = AuditLine::decode(line.as_bytes()).unwrap();
            assert_eq!(ChainLink::hash_of_next(before.hash, line.as_bytes()), link.hash, "{line}");
            before = read.encode(before, &mut written);
            assert_eq!(before, link);
            if let AuditLine::Entry(entry) = read {
                outcomes.push((entry.verb, entry.what, entry.outcome));
            }
        }
        assert_eq!(written, golden);
        assert_eq!((before.number, outcomes.len()), (8, 7));
        assert_eq!(outcomes[1], ("put".to_owned(), "/try/docs/a, b %c".to_owned(), Outcome::Done));
        assert_eq!(outcomes[5], ("GET".to_owned(), "/api/v1/stat".to_owned(), Outcome::Refused));
    }

    #[test]
    fn the_longest_entry_fits_a_line() {
        let long = "\u{1}".repeat(10_000);
        let entry = AuditEntry { who: "\u{1}".repeat(64), note: "\u{1}".repeat(1024), ..entry(&long) };
        let mut out = String::new();
        AuditLine::Entry(Box::new(entry)).encode(behind(u64::MAX, [0; 32]), &mut out);
        assert!(out.len() < LINE_BYTES_MAX, "{}", out.len());
    }

    /// Fuzzing found in a log beside this one that a longer text than any that is written was read as it
    /// stood, and cut when it was written again.
    #[test]
    fn texts_are_read_up_to_the_length_that_is_written() {
        let line = |what: &str| {
            let hash = Blake3([0; 32]);
            let rest = "who=a how=key peer=p verb=put";
            let line = format!("{hash} 1 7 call at=5 {rest} what={what} outcome=done note=");
            AuditLine::decode(line.as_bytes())
        };
        let longest = "x".repeat(TEXTS.bytes_max);
        let Ok((AuditLine::Entry(read), ChainLink { number: 7, .. })) = line(&longest) else { panic!() };
        assert_eq!(read.what, longest);
        assert!(line(&"%C3%A9".repeat(TEXTS.bytes_max / 2)).is_ok());
        assert!(line(&(longest + "x")).is_err());
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let mut out = String::new();
        AuditLine::Entry(Box::new(entry("/a"))).encode(behind(7, [3; 32]), &mut out);
        let good = out.trim_end();
        let wrong = [
            String::new(),
            good[1..].to_owned(),
            good.replace(" 1 7 ", " 2 7 "),
            good.replace("call", "fall"),
            good.replace("who=", "why="),
            good.replace("done", "fine"),
            format!("{good} more=1"),
            good.replace("/a", "%4"),
            // A hash has one form only: a line that was changed in it is a changed line.
            good.replacen(&good[..64], &good[..64].to_uppercase(), 1),
        ];
        for line in wrong {
            assert!(AuditLine::decode(line.as_bytes()).is_err(), "{line}");
        }
    }
}
