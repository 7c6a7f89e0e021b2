//! The codec that all lines share: a checksum, a version, fields, texts.
//!
//! `SUM VERSION NAME=VALUE NAME=VALUE …`, where `SUM` is over all that is behind it and the space. What a log
//! has besides (a kind, a number) stands between the version and the fields.

use std::fmt::{Display, Write};

use base::{Blake3, ByteCount, Crc32c, Duration, Vid};

use crate::form::Record;

/// The version of the content of a line, in all three logs.
const VERSION: &str = "1";

/// Why a line is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// Its checksum does not agree, or it is malformed.
    #[error("the line is damaged: pass it over, the others stand by themselves")]
    Damaged,
    /// A newer Kist has written it.
    #[error("a newer kist has written the line: read it with that one")]
    Newer,
}

/// Appends the line of a record, with the line feed at its end, to `out`.
pub fn encode<R: Record<Link = ()>>(record: &R, out: &mut String) {
    record.encode((), out);
}

/// The record of a line, with or without its line feed.
///
/// # Errors
/// As [`Record::decode`].
pub fn decode<R: Record<Link = ()>>(line: &[u8]) -> Result<R, R::Fault> {
    R::decode(line.strip_suffix(b"\n").unwrap_or(line)).map(|(record, ())| record)
}

/// For the fuzz targets: what is read is written as it reads.
///
/// # Panics
/// If it is not.
pub fn check_line<R: Record + PartialEq + std::fmt::Debug>(line: &[u8]) {
    if let Ok((record, _)) = R::decode(line) {
        let mut written = String::new();
        let link = record.encode(R::Link::default(), &mut written);
        let again = R::decode(written.trim_end_matches('\n').as_bytes());
        assert_eq!(again.ok(), Some((record, link)), "{written}");
    }
}

/// What a line begins with.
pub(crate) trait Sum: Copy + PartialEq + Display {
    /// Its hexadecimal digits, in lower case.
    const DIGITS: usize;

    /// Of a body, behind a line with the sum `before`.
    fn over(before: Self, body: &[u8]) -> Self;

    /// Reads what it is displayed as.
    fn read(digits: &str) -> Option<Self>;
}

/// Of each line by itself.
impl Sum for Crc32c {
    const DIGITS: usize = 8;

    fn over(_: Self, body: &[u8]) -> Self {
        Crc32c::of(body)
    }

    fn read(digits: &str) -> Option<Self> {
        Crc32c::parse(digits)
    }
}

/// Of each line and the hash of the one before it.
impl Sum for Blake3 {
    const DIGITS: usize = 64;

    fn over(before: Self, body: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before.0);
        hasher.update(body);
        Blake3(*hasher.finalize().as_bytes())
    }

    fn read(digits: &str) -> Option<Self> {
        Blake3::parse(digits)
    }
}

/// Appends a line with its end to `out`: the version, what `body` appends, and the sum of it before them.
pub(crate) fn seal<S: Sum>(before: S, out: &mut String, body: impl FnOnce(&mut String)) -> S {
    let begin = out.len();
    // The sum takes the place of the zeros once the body is known.
    out.extend(std::iter::repeat_n('0', S::DIGITS));
    out.push(' ');
    let end = out.len();
    out.push_str(VERSION);
    body(out);
    let sum = S::over(before, out.as_bytes().get(end..).unwrap_or_default());
    out.replace_range(begin..end - 1, &sum.to_string());
    out.push('\n');
    sum
}

/// Why a line has no sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SumFault {
    NotText,
    Missing,
    Malformed,
    NoBody,
}

/// The sum of a line without its end, and the body that it is over. Not whether it agrees.
pub(crate) fn split_sum<S: Sum>(line: &[u8]) -> Result<(S, &str), SumFault> {
    let line = std::str::from_utf8(line).map_err(|_| SumFault::NotText)?;
    let (digits, body) = line.split_at_checked(S::DIGITS).ok_or(SumFault::Missing)?;
    let is_form = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let sum = S::read(digits).filter(|_| is_form).ok_or(SumFault::Malformed)?;
    Ok((sum, body.strip_prefix(' ').ok_or(SumFault::NoBody)?))
}

/// What stands behind the version of a body; `None` of another version.
pub(crate) fn behind_version(body: &str) -> Option<&str> {
    let (version, rest) = body.split_once(' ').unwrap_or((body, ""));
    (version == VERSION).then_some(rest)
}

/// What stands behind the version of a line with a sum of its own, which agrees.
pub(crate) fn open(line: &[u8]) -> Result<&str, LineFault> {
    let (sum, body) = split_sum::<Crc32c>(line).map_err(|_| LineFault::Damaged)?;
    if sum != Crc32c::of(body.as_bytes()) {
        return Err(LineFault::Damaged);
    }
    behind_version(body).ok_or(LineFault::Newer)
}

/// How texts of one kind are written: bytes outside of `!` to `~`, and some others, as `%` and two upper-case
/// hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextForm {
    /// Whether a comma is escaped, since it separates the parts of values.
    pub(crate) escapes_comma: bool,
    /// Longer ones are cut at the end of a character when they are written, and refused when they are read.
    pub(crate) bytes_max: usize,
}

impl TextForm {
    pub(crate) fn write(self, out: &mut String, text: &str) {
        let short = text.get(..text.floor_char_boundary(self.bytes_max.min(text.len())));
        for byte in short.unwrap_or_default().bytes() {
            if byte.is_ascii_graphic() && byte != b'%' && !(self.escapes_comma && byte == b',') {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }

    /// `-` for nothing; a text that is `-` itself is told from it by its percent sign.
    pub(crate) fn write_optional(self, out: &mut String, text: Option<&str>) {
        match text {
            None => out.push('-'),
            Some("-") => out.push_str("%2D"),
            Some(text) => self.write(out, text),
        }
    }

    /// What an escaped text says; `None` if it is not one, or longer than any that is written.
    pub(crate) fn read(self, text: &str) -> Option<String> {
        unescaped(text).filter(|text| text.len() <= self.bytes_max)
    }

    pub(crate) fn read_optional(self, text: &str) -> Option<Option<String>> {
        if text == "-" { Some(None) } else { self.read(text).map(Some) }
    }
}

fn unescaped(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (high, low) = (char::from(bytes.next()?).to_digit(16)?, char::from(bytes.next()?).to_digit(16)?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Writes ` name=value`.
pub(crate) struct Fields<'a> {
    pub(crate) out: &'a mut String,
    pub(crate) texts: TextForm,
}

impl Fields<'_> {
    pub(crate) fn number(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.out, " {name}={value}");
    }

    pub(crate) fn optional(&mut self, name: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.number(name, "-"),
        }
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.number(name, u8::from(value));
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        let _ = write!(self.out, " {name}=");
        self.texts.write(self.out, value);
    }

    pub(crate) fn optional_text(&mut self, name: &str, value: Option<&str>) {
        let _ = write!(self.out, " {name}=");
        self.texts.write_optional(self.out, value);
    }
}

/// The names and values of a line, in order; `None` for a word that is no field.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    text.split(' ').map(|word| word.split_once('='))
}

/// The names and values of a line.
pub(crate) struct Values<'a> {
    found: Vec<(&'a str, &'a str)>,
    texts: TextForm,
}

impl<'a> Values<'a> {
    /// `None` if a word is no field, or there are more than `fields_max`.
    pub(crate) fn read(text: &'a str, fields_max: usize, texts: TextForm) -> Option<Self> {
        let mut found = Vec::with_capacity(12);
        for field in fields(text) {
            if found.len() == fields_max {
                return None;
            }
            found.push(field?);
        }
        Some(Values { found, texts })
    }

    /// Of a line without any.
    pub(crate) fn none(texts: TextForm) -> Self {
        Values { found: Vec::new(), texts }
    }

    /// Whether these are the names, in this order, and no others.
    pub(crate) fn are(&self, names: &[&str]) -> bool {
        self.found.iter().map(|(name, _)| *name).eq(names.iter().copied())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.found.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<ByteCount> {
        self.number(name).map(ByteCount)
    }

    pub(crate) fn span(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_nanos)
    }

    pub(crate) fn vid(&self, name: &str) -> Option<Vid> {
        Vid::new(self.get(name)?).ok()
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    pub(crate) fn optional(&self, name: &str) -> Option<Option<u64>> {
        optional(self.get(name)?)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.texts.read(self.get(name)?)
    }

    pub(crate) fn optional_text(&self, name: &str) -> Option<Option<String>> {
        self.texts.read_optional(self.get(name)?)
    }

    /// A text that is not `-`.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        self.optional_text(name)?
    }

    pub(crate) fn several<T>(
        &self,
        name: &str,
        limit: usize,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let found = self.found.iter().filter(|(known, _)| *known == name).map(|(_, value)| read(value));
        let found: Vec<T> = found.collect::<Option<_>>()?;
        (found.len() <= limit).then_some(found)
    }
}

/// A number, or `-` for nothing.
pub(crate) fn optional<T: std::str::FromStr>(value: &str) -> Option<Option<T>> {
    if value == "-" { Some(None) } else { value.parse().ok().map(Some) }
}

/// Exactly `N` parts between commas.
pub(crate) fn parts<const N: usize>(value: &str) -> Option<[&str; N]> {
    let parts: Vec<&str> = value.split(',').collect();
    parts.try_into().ok()
}

/// A span as lines have it.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span as lines have it.
pub(crate) fn span(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}
