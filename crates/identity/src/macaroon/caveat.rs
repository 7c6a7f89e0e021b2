//! Caveats: what narrows a macaroon.

use std::net::IpAddr;

use base::{ArchivePath, Timestamp};

use super::MacaroonError;
use crate::rights::Rights;

/// The most addresses of a caveat `ip:`.
const ADDRESSES_MAX: usize = 32;

/// What an activity gives, at most. Kist has one right for deleting, overwriting, renaming and changing
/// attributes (`w`), and `c` to write what is not there; so `DELETE` gives `w` without `c`, by which nothing
/// can be written or renamed, and `UPDATE_METADATA` nothing that its right would not also delete. Lists of
/// access, holds and making buckets outlast a macaroon: no activity gives them.
const ACTIVITIES: [(&str, Rights); 8] = [
    ("READ_METADATA", Rights::from_two(Rights::STAT, Rights::POLL)),
    ("UPDATE_METADATA", Rights::STAT),
    ("LIST", Rights::from_two(Rights::LIST, Rights::STAT)),
    ("DOWNLOAD", Rights::from_two(Rights::READ, Rights::STAT)),
    ("UPLOAD", Rights::from_two(Rights::CREATE, Rights::STAT)),
    ("MANAGE", Rights::from_two(Rights::from_two(Rights::MODIFY, Rights::CREATE), Rights::STAT)),
    ("DELETE", Rights::from_two(Rights::MODIFY, Rights::STAT)),
    ("STAGE", Rights::from_two(Rights::from_two(Rights::STAGE, Rights::POLL), Rights::STAT)),
];

/// One caveat that is understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Caveat {
    /// Only there and below.
    Path(ArchivePath),
    /// Only these rights.
    Activity(Rights),
    /// Only until then.
    Before(Timestamp),
    /// Only from there.
    Ip(Vec<(IpAddr, u8)>),
    /// Whom it is said to be about (XRootD); nobody believes it.
    Name,
}

impl Caveat {
    /// Reads `KEY:VALUE`.
    pub(crate) fn read(text: &str) -> Result<Self, MacaroonError> {
        let unknown = || MacaroonError::Caveat(shown(text));
        let (key, value) = text.split_once(':').ok_or_else(unknown)?;
        let read = match key {
            "path" => path(value).map(Caveat::Path),
            "activity" => activities(value).map(Caveat::Activity),
            "before" => time(value).map(Caveat::Before),
            "ip" => addresses(value).map(Caveat::Ip),
            "name" => (!value.is_empty()).then_some(Caveat::Name),
            _ => None,
        };
        read.ok_or_else(unknown)
    }
}

/// The beginning of a text, for a log: what somebody wrote may be anything.
fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// An absolute path to the letter: percent signs are no escapes, several slashes are one.
fn path(text: &str) -> Option<ArchivePath> {
    if !text.starts_with('/') || text.contains(char::is_control) {
        return None;
    }
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| matches!(*name, "." | "..")) {
        return None;
    }
    ArchivePath::new(&format!("/{}", names.join("/"))).ok()
}

fn activities(text: &str) -> Option<Rights> {
    text.split(',').try_fold(Rights::NONE, |sum, word| {
        let known = ACTIVITIES.iter().find(|(name, _)| *name == word.trim_matches(' '));
        known.map(|(_, rights)| sum | *rights)
    })
}

fn addresses(text: &str) -> Option<Vec<(IpAddr, u8)>> {
    let one = |word: &str| {
        let word = word.trim_matches(' ');
        let (address, prefix) = word.split_once('/').map_or((word, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |text: &&str| text.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            None => bits,
            Some(prefix) => Some(prefix).filter(is_number)?.parse().ok().filter(|prefix| *prefix <= bits)?,
        };
        Some((address, prefix))
    };
    let all: Option<Vec<_>> = text.split(',').map(one).collect();
    all.filter(|all| all.len() <= ADDRESSES_MAX)
}

/// Whether an address is in one of the networks. One that comes as an IPv6 address and is an IPv4 one counts
/// as that.
pub(crate) fn is_within(address: IpAddr, networks: &[(IpAddr, u8)]) -> bool {
    networks.iter().any(|(network, prefix)| match (address.to_canonical(), network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(32 - u32::from(*prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(128 - u32::from(*prefix)).unwrap_or(0) == 0
        }
        _ => false,
    })
}

/// A time of RFC 3339: `2026-11-27T20:00:00Z`, with a fraction and an offset if need be.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let (clock, offset) = match rest.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => {
            let at = rest.rfind(['+', '-'])?;
            let (clock, offset) = rest.split_at_checked(at)?;
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let minutes = 60 * digits(hours, 2, 23)? + digits(minutes, 2, 59)?;
            (clock, if offset.starts_with('-') { -60 * minutes } else { 60 * minutes })
        }
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(c, f)| (c, Some(f)));
    let nanos = match fraction {
        None => 0,
        Some(fraction) if (1..=9).contains(&fraction.len()) => {
            digits(fraction, fraction.len(), 999_999_999)?
                * 10i64.pow(u32::try_from(9 - fraction.len()).ok()?)
        }
        Some(_) => return None,
    };
    let [year, month, day] = three(date, '-', [(4, 9999), (2, 12), (2, 31)])?;
    let [hour, minute, second] = three(clock, ':', [(2, 23), (2, 59), (2, 59)])?;
    let small = |value: i64| u32::try_from(value).ok();
    let at = Timestamp::from_civil(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        small(nanos)?,
    )?;
    at.0.checked_sub(offset * 1_000_000_000).map(Timestamp)
}

/// As RFC 3339, in whole seconds.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let (year, month, day, hour, minute, second, _) = at.civil();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn three(text: &str, between: char, limits: [(usize, i64); 3]) -> Option<[i64; 3]> {
    let words: Vec<&str> = text.split(between).collect();
    let [a, b, c] = words.as_slice() else { return None };
    let [(la, ma), (lb, mb), (lc, mc)] = limits;
    Some([digits(a, la, ma)?, digits(b, lb, mb)?, digits(c, lc, mc)?])
}

fn digits(text: &str, length: usize, most: i64) -> Option<i64> {
    let good = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten().filter(|value| *value <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Caveat> {
        Caveat::read(text).ok()
    }

    #[test]
    fn each_activity_has_its_rights() {
        let rights = |text: &str| match Caveat::read(&format!("activity:{text}")) {
            Ok(Caveat::Activity(rights)) => rights.to_string(),
            other => format!("{other:?}"),
        };
        for (name, expected) in [
            ("READ_METADATA", "tp"),
            ("UPDATE_METADATA", "t"),
            ("LIST", "tl"),
            ("DOWNLOAD", "tr"),
            ("UPLOAD", "tc"),
            ("MANAGE", "tcw"),
            ("DELETE", "tw"),
            ("STAGE", "tsp"),
            ("DOWNLOAD,LIST", "tlr"),
            ("MANAGE, UPLOAD, DELETE", "tcw"),
        ] {
            assert_eq!(rights(name), expected, "{name}");
        }
        for name in ["", ",", "download", "DOWNLOAD,", "DOWNLOAD,ADMIN", "DOWNLOAD;LIST", "ALL", "*"] {
            assert_eq!(read(&format!("activity:{name}")), None, "{name}");
        }
    }

    #[test]
    fn paths_are_absolute_and_to_the_letter() {
        for (text, expected) in
            [("/a/b", "/a/b"), ("//a///b/", "/a/b"), ("/", "/"), ("/a%2f..", "/a%2f.."), ("/a b", "/a b")]
        {
            assert_eq!(
                read(&format!("path:{text}")),
                Some(Caveat::Path(ArchivePath::new(expected).unwrap()))
            );
        }
        for text in ["", "a", "./a", "/a/../b", "/..", "/a/.", "/a\n", "/a\0", "/.kist/x", "~", "\\a"] {
            assert_eq!(read(&format!("path:{text}")), None, "{text:?}");
        }
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        let at = |text: &str| time(text).map(|at| at.0);
        let noon = 1_795_780_800_000_000_000;
        assert_eq!(at("2026-11-27T12:00:00Z"), Some(noon));
        assert_eq!(at("2026-11-27t12:00:00z"), Some(noon));
        assert_eq!(at("2026-11-27T13:30:00+01:30"), Some(noon));
        assert_eq!(at("2026-11-27T04:00:00.5-08:00"), Some(noon + 500_000_000));
        assert_eq!(at("2026-11-27T12:00:00.123456789Z"), Some(noon + 123_456_789));
        assert_eq!(rfc3339(Timestamp(noon)), "2026-11-27T12:00:00Z");
        for text in [
            "",
            "2026-11-27",
            "2026-11-27T12:00:00",
            "2026-11-27 12:00:00Z",
            "2026-13-27T12:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-11-27T12:60:00Z",
            "2026-11-27T12:00:60Z",
            "2026-11-27T12:00Z",
            "26-11-27T12:00:00Z",
            "+2026-11-27T12:00:00Z",
            "2026-11-27T12:00:00.Z",
            "2026-11-27T12:00:00.1234567890Z",
            "2026-11-27T12:00:00+0130",
            "2026-11-27T12:00:00+24:00",
            "9999-12-31T23:59:59Z",
            "2026-11-27T12:00:00Z ",
            "never",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_single_ones_or_networks() {
        let within = |text: &str, address: &str| match Caveat::read(&format!("ip:{text}")) {
            Ok(Caveat::Ip(networks)) => Some(is_within(address.parse().unwrap(), &networks)),
            _ => None,
        };
        for (text, address, expected) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.0/8, 2001:db8::/32", "10.9.9.9", true),
            ("10.0.0.0/8,2001:db8::/32", "2001:db8:9::1", true),
            ("10.0.0.0/8,2001:db8::/32", "2001:db9::1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("10.0.0.7/24", "10.0.0.9", true),
        ] {
            assert_eq!(within(text, address), Some(expected), "{text} {address}");
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.1/33",
            "10.0.0.1/",
            "10.0.0.1/+8",
            "::/129",
            "host",
            "1.1.1.1,",
            "1.1.1.1 2",
        ] {
            assert_eq!(within(text, "10.0.0.1"), None, "{text}");
        }
        assert_eq!(within(&vec!["1.1.1.1"; ADDRESSES_MAX + 1].join(","), "1.1.1.1"), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in
            ["", "path", "Path:/a", " path:/a", "id:1000;100", "home:/a", "root:/a", "max-upload:1", "name:"]
        {
            assert!(matches!(Caveat::read(text), Err(MacaroonError::Caveat(_))), "{text}");
        }
        assert_eq!(read("name:anna"), Some(Caveat::Name));
        let error = Caveat::read(&format!("x\n{}", "y".repeat(5000))).unwrap_err();
        assert!(error.to_string().len() < 200 && !error.to_string().contains('\n'), "{error}");
    }
}
