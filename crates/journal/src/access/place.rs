//! Up to where the log was read, and which days were written: what stands beside a tracker.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt as _;

use base::Crc32c;
use usage::DayNumber;

use crate::files::LogFile;

/// By so many of its first bytes a file is known, and so many before the place are compared.
const HEAD_BYTES: u64 = 256;
const TAIL_BYTES: u64 = 4_096;
/// Numbers of one file.
const FILE_NUMBERS: usize = 5;

/// What was seen of a file of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    head_bytes: u64,
    head: Crc32c,
    length: u64,
    modified: i128,
}

/// Up to where the log was read: files whose names change, the oldest first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Place {
    seen: Vec<Seen>,
    /// Whole lines of the last one were read up to there, behind bytes with this checksum.
    end: u64,
    tail: Crc32c,
}

impl Place {
    /// Behind `end` bytes of the last one of these files.
    pub(super) fn of(files: &[LogFile], end: u64) -> io::Result<Self> {
        let mut seen = Vec::new();
        for file in files {
            let head_bytes = HEAD_BYTES.min(file.length);
            let head = checksum(file, 0, head_bytes)?;
            seen.push(Seen { head_bytes, head, length: file.length, modified: file.modified });
        }
        let tail = match files.last() {
            Some(last) => tail(last, end)?,
            None => Crc32c::of(&[]),
        };
        Ok(Place { seen, end, tail })
    }

    /// Where it is in the files as they are now: which of them, and the offset. `None` if one of them was
    /// changed, but for lines that came to the last one, or it is not there.
    pub(super) fn find(&self, files: &[LogFile]) -> io::Result<Option<(usize, u64)>> {
        let (Some(oldest), Some(last)) = (files.first(), self.seen.len().checked_sub(1)) else {
            return Ok(None);
        };
        // The oldest ones may be gone.
        let mut gone = 0;
        for seen in &self.seen {
            if seen.begins(oldest)? {
                break;
            }
            gone += 1;
        }
        let known = self.seen.get(gone..).unwrap_or_default();
        if known.is_empty() || known.len() > files.len() {
            return Ok(None);
        }
        for (at, (seen, file)) in known.iter().zip(files.iter()).enumerate() {
            let is_last = gone + at == last;
            let has_grown = is_last && file.length > seen.length;
            let is_same = file.length == seen.length && file.modified == seen.modified;
            if !seen.begins(file)? || !(has_grown || is_same) {
                return Ok(None);
            }
        }
        let at = known.len() - 1;
        let Some(file) = files.get(at) else { return Ok(None) };
        Ok((self.end <= file.length && tail(file, self.end)? == self.tail).then_some((at, self.end)))
    }

    /// As numbers, with the days that were written.
    pub(super) fn encode(&self, kept: &DaysKept) -> Vec<u64> {
        let mut numbers = vec![self.seen.len() as u64];
        for seen in &self.seen {
            let modified = seen.modified.to_le_bytes();
            let (low, high) = modified.split_at(8);
            let half = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            numbers.extend([seen.head_bytes, u64::from(seen.head.0), seen.length, half(low), half(high)]);
        }
        numbers.extend([self.end, u64::from(self.tail.0), kept.closed.cast_unsigned()]);
        for (number, crc) in &kept.days {
            numbers.extend([number.0.cast_unsigned(), u64::from(crc.0)]);
        }
        numbers
    }

    /// What [`Place::encode`] gave.
    pub(super) fn decode(numbers: &[u64]) -> Option<(Self, DaysKept)> {
        let (count, rest) = numbers.split_first()?;
        let (files, rest) =
            rest.split_at_checked(usize::try_from(*count).ok()?.checked_mul(FILE_NUMBERS)?)?;
        let crc = |number: u64| u32::try_from(number).ok().map(Crc32c);
        let mut place = Place::default();
        for file in files.chunks_exact(FILE_NUMBERS) {
            let [head_bytes, head, length, low, high] = *file else { return None };
            let modified = (i128::from(high.cast_signed()) << 64) | i128::from(low);
            place.seen.push(Seen { head_bytes, head: crc(head)?, length, modified });
        }
        let [end, tail, closed, days @ ..] = rest else { return None };
        (place.end, place.tail) = (*end, crc(*tail)?);
        let mut kept = DaysKept { closed: closed.cast_signed(), ..DaysKept::default() };
        for day in days.chunks(2) {
            let [number, day_crc] = *day else { return None };
            kept.days.insert(DayNumber(number.cast_signed()), crc(day_crc)?);
        }
        Some((place, kept))
    }
}

impl Seen {
    /// Whether a file begins as the one that was seen.
    fn begins(&self, file: &LogFile) -> io::Result<bool> {
        Ok(file.length >= self.head_bytes && checksum(file, 0, self.head_bytes)? == self.head)
    }
}

fn tail(file: &LogFile, end: u64) -> io::Result<Crc32c> {
    let begin = end.saturating_sub(TAIL_BYTES);
    checksum(file, begin, end - begin)
}

fn checksum(file: &LogFile, offset: u64, length: u64) -> io::Result<Crc32c> {
    // Never by seeking: the same file is being read elsewhere.
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.file.read_exact_at(&mut bytes, offset)?;
    Ok(Crc32c::of(&bytes))
}

/// The days that were written, with the checksums of their files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DaysKept {
    days: BTreeMap<DayNumber, Crc32c>,
    /// The newest day that was closed, by its number.
    closed: i64,
}

impl Default for DaysKept {
    fn default() -> Self {
        DaysKept { days: BTreeMap::new(), closed: i64::MIN }
    }
}

impl DaysKept {
    pub(super) fn add(&mut self, number: DayNumber, crc: Crc32c) {
        self.days.insert(number, crc);
        self.close(number);
    }

    /// The figures of a day are taken up again: until it is added once more it is not a written one.
    pub(super) fn reopen(&mut self, number: DayNumber) {
        self.days.remove(&number);
    }

    /// Lines of this day, and of those before it, are late.
    pub(super) fn close(&mut self, number: DayNumber) {
        self.closed = self.closed.max(number.0);
    }

    pub(super) fn is_closed(&self, number: DayNumber) -> bool {
        number.0 <= self.closed
    }

    pub(super) fn crc(&self, number: DayNumber) -> Option<Crc32c> {
        self.days.get(&number).copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = DayNumber> {
        self.days.keys().copied()
    }

    /// Forgets the oldest ones beyond so many.
    pub(super) fn forget_beyond(&mut self, most: usize) -> BTreeSet<DayNumber> {
        let mut forgotten = BTreeSet::new();
        while self.days.len() > most
            && let Some((number, _)) = self.days.pop_first()
        {
            forgotten.insert(number);
        }
        forgotten
    }
}
