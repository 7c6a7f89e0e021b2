//! Texts that commands share: times, counts, rates, percent-encoding, random ids.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{ByteCount, Count, Timestamp, Uuid};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::failure::{Failure, Outcome};

/// What stays as it is in a component of a URL and in a text header: the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As [`ENCODED`], for a whole path.
const ENCODED_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// The shortest span of which a rate is told; of a shorter one it says nothing about the rate of more bytes.
pub const RATED_FROM: Duration = Duration::from_millis(50);

/// Percent-encodes a query value, a component or a header.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Percent-encodes a path, slashes kept.
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, ENCODED_PATH).to_string()
}

/// The present.
pub fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

/// A time of the system as a timestamp; saturates.
pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(span) => Timestamp(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)),
        Err(error) => Timestamp(0i64.checked_sub_unsigned(nanos(error.duration())).unwrap_or(i64::MIN)),
    }
}

/// The nanoseconds of a span; saturates.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A timestamp as a time of the system.
pub fn system_time(time: Timestamp) -> SystemTime {
    let span = Duration::from_nanos(time.0.unsigned_abs());
    let result = if time.0 < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    result.unwrap_or(UNIX_EPOCH)
}

/// RFC 3339 with nanoseconds, as `2026-11-21T20:29:00.000000001Z`.
pub fn rfc3339(time: Timestamp) -> String {
    let (year, month, day, hour, minute, second, nanos) = time.civil();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Reads RFC 3339 in UTC with up to nine digits of fraction, as the server writes it. `None` if malformed, if
/// there is no such day, or if 64 bits of nanoseconds do not reach it.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u32>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(|part| part.parse::<u32>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    // A leap second is taken as the last second before it, as the server does.
    let second = if second == 60 { 59 } else { second };
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    Timestamp::from_civil(i64::from(year), month, day, hour, minute, second, nanos)
}

/// A count with separators: `12,345`.
pub fn count(number: u64) -> String {
    Count(number).to_string()
}

/// `1 file`, `12,345 files`.
pub fn files(number: u64) -> String {
    plural(number, "file")
}

/// `1 tape`, `2 tapes`, `2 copies`, `2 keys`, `2 indexes`.
pub fn plural(number: u64, noun: &str) -> String {
    let (stem, ending) = match (number, noun.strip_suffix('y')) {
        (1, _) => (noun, ""),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => (stem, "ies"),
        _ => (noun, if noun.ends_with('x') { "es" } else { "s" }),
    };
    format!("{} {stem}{ending}", count(number))
}

/// The beginning of a text, with `...` if it is longer than `limit` characters.
pub fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(3)).collect();
    short.truncate(short.trim_end().len());
    short + "..."
}

/// A word, or `-` if there is none: a line of columns keeps them.
pub fn or_dash(word: &str) -> String {
    if word.is_empty() { "-".to_owned() } else { word.to_owned() }
}

/// Bytes with their unit.
pub fn size(bytes: u64) -> String {
    ByteCount(bytes).to_string()
}

/// Bytes a second; `-` below [`RATED_FROM`].
pub fn rate(bytes: u64, span: Duration) -> String {
    if span < RATED_FROM {
        return "-".to_owned();
    }
    format!("{}/s", ByteCount((bytes as f64 / span.as_secs_f64()) as u64))
}

/// `1.21 GB in 12 s (101 MB/s)`, without the rate below [`RATED_FROM`].
pub fn speed(bytes: u64, elapsed: Duration) -> String {
    let rate = if elapsed < RATED_FROM { String::new() } else { format!(" ({})", rate(bytes, elapsed)) };
    format!("{} in {}{rate}", size(bytes), span(elapsed))
}

/// A time as the server writes it, without the fraction of the second.
pub fn whole_seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => time.to_owned(),
    }
}

/// A span for people: `0.42 s`, `12 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..=9 => format!("{:.2} s", span.as_secs_f64()),
        10..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        7200..=172_799 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Reads `500ms`, `30s`, `5min`, `2h`, `1d`: a whole number and a unit. `None` if malformed or above 100
/// years.
pub fn parse_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text.get(..end)?.parse().ok()?;
    let millis = match text.get(end..)?.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    let limit = 100 * 366 * 86_400_000;
    number.checked_mul(millis).filter(|millis| *millis <= limit).map(Duration::from_millis)
}

/// The shortest text that [`parse_span`] reads as `span`, of at least a millisecond.
pub fn write_span(span: Duration) -> String {
    let millis = span.as_millis();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)] {
        if millis > 0 && millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") }
}

/// Random bytes of the system.
pub fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| Failure::internal(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// A random UUID.
pub fn random_uuid() -> Outcome<Uuid> {
    Ok(Uuid::from_random(random()?))
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for nanos in
            [0, 1, -1, 1_795_292_940_123_456_789, -62_000_000_000_000_001, i64::MIN, i64::MAX - 1, i64::MAX]
        {
            let time = Timestamp(nanos);
            assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time), "{nanos}");
            assert_eq!(timestamp(system_time(time)), time);
        }
        assert_eq!(parse_rfc3339("2026-11-21T20:29:00Z"), Some(Timestamp(1_795_292_940_000_000_000)));
        for bad in [
            "",
            "2026-11-21",
            "2026-13-21T00:00:00Z",
            "2026-11-21T20:29:00",
            "2026-11-21T20:29:00.x Z",
            // It was the first of May.
            "2026-04-31T00:00:00Z",
            // They were the end of what can be represented.
            "2262-04-11T23:47:16.854775808Z",
            "4000000000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn spans_read_and_print() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("5min", 300_000), ("2h", 7_200_000), ("0s", 0)]
        {
            let span = Duration::from_millis(millis);
            assert_eq!(parse_span(text), Some(span), "{text}");
            assert_eq!(write_span(span), text);
        }
        for bad in ["", "5", "s", "-1s", "1.5h", "1y", "99999999999999999999s", "40000d"] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
        assert_eq!(span(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(span(Duration::from_millis(420)), "0.42 s");
    }

    #[test]
    fn what_was_too_fast_has_no_rate() {
        assert_eq!(rate(1000, Duration::from_millis(49)), "-");
        assert_eq!(speed(1000, Duration::from_millis(10)), "1.00 kB in 0.01 s");
        assert_eq!(speed(1000, Duration::from_secs(1)), "1.00 kB in 1.00 s (1.00 kB/s)");
        assert_eq!(whole_seconds("2026-11-21T20:29:00.123456789Z"), "2026-11-21T20:29:00Z");
        assert_eq!(whole_seconds("2026-11-21T20:29:00Z"), "2026-11-21T20:29:00Z");
    }

    #[test]
    fn counts_and_paths() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(files(1), "1 file");
        assert_eq!(plural(2, "index"), "2 indexes");
        assert_eq!((plural(1, "key"), plural(4, "key")), ("1 key".to_owned(), "4 keys".to_owned()));
        assert_eq!(shortened("reading füße", 12), "reading füße");
        assert_eq!(shortened("reading füße fails", 12), "reading f...");
        assert_eq!(encode_path("/a b/ü\0?"), "/a%20b/%C3%BC%00%3F");
        assert_eq!(encode("a/b"), "a%2Fb");
    }
}
