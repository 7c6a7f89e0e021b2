//! Text of logins and text requests: `key=value`, each ended by a zero byte (RFC 7143, section 6). Pure.

use std::fmt;

/// The most bytes of text in one exchange, over all PDUs that it is spread over.
pub const TEXT_MAX: usize = 64 * 1024;
/// The longest name of a key.
pub const KEY_MAX: usize = 63;
/// The longest value: a challenge of 1,024 bytes in hexadecimal digits, with room.
pub const VALUE_MAX: usize = 4096;
/// The most pairs: an answer to SendTargets has two a target.
pub const PAIRS_MAX: usize = 4096;

/// Why bytes are no text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextError {
    /// More than [`TEXT_MAX`].
    #[error("{0} bytes of text, at most {TEXT_MAX}")]
    TooLong(usize),
    /// More than [`PAIRS_MAX`].
    #[error("more than {PAIRS_MAX} keys")]
    TooMany,
    /// A pair without `=`, a name or value that is too long or has characters which it may not have.
    #[error("no key=value: '{0}'")]
    Malformed(String),
    /// The last pair is not ended.
    #[error("the last value does not end")]
    Open,
    /// A key that may come once came again.
    #[error("the key {0} came twice")]
    Twice(String),
}

/// Pairs of keys and values in the order in which they came.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Keys(Vec<(String, String)>);

impl fmt::Debug for Keys {
    /// Without what only the other side is meant to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(key, value): &(String, String)| match key.as_str() {
            "CHAP_R" | "CHAP_C" => format!("{key}=…"),
            _ => format!("{key}={value}"),
        };
        f.debug_list().entries(self.0.iter().map(shown)).finish()
    }
}

impl Keys {
    /// No pairs.
    #[must_use]
    pub fn new() -> Keys {
        Keys::default()
    }

    /// The pairs in a text. Keys may repeat, as they do in lists of targets.
    pub fn parse(text: &[u8]) -> Result<Keys, TextError> {
        if text.len() > TEXT_MAX {
            return Err(TextError::TooLong(text.len()));
        }
        let Some((last, _)) = text.split_last() else { return Ok(Keys::new()) };
        if *last != 0 {
            return Err(TextError::Open);
        }
        let mut pairs = Vec::new();
        // Some write padding zeros into the data itself: empty pairs say nothing.
        for pair in text.split(|byte| *byte == 0).filter(|pair| !pair.is_empty()) {
            if pairs.len() == PAIRS_MAX {
                return Err(TextError::TooMany);
            }
            pairs.push(parse_pair(pair).ok_or_else(|| TextError::Malformed(excerpt(pair)))?);
        }
        Ok(Keys(pairs))
    }

    /// The same, and no key comes twice, as a negotiation has it.
    pub fn parse_once(text: &[u8]) -> Result<Keys, TextError> {
        let keys = Keys::parse(text)?;
        let mut names: Vec<&str> = keys.iter().map(|(key, _)| key).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(TextError::Twice(pair[0].to_owned())),
            None => Ok(keys),
        }
    }

    /// Adds a pair.
    ///
    /// # Panics
    /// If it is none that [`Keys::parse`] takes.
    pub fn push(&mut self, key: &str, value: impl fmt::Display) {
        let value = value.to_string();
        assert!(is_key(key) && is_value(&value), "{key} is no pair of a negotiation");
        self.0.push((key.to_owned(), value));
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// All pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in self.iter() {
            bytes.extend([key, "=", value, "\0"].concat().bytes());
        }
        bytes
    }
}

fn parse_pair(pair: &[u8]) -> Option<(String, String)> {
    let (key, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
    (is_key(key) && is_value(value)).then(|| (key.to_owned(), value.to_owned()))
}

fn is_key(key: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_".contains(&byte);
    (1..=KEY_MAX).contains(&key.len()) && key.bytes().all(known)
}

fn is_value(value: &str) -> bool {
    value.len() <= VALUE_MAX && !value.chars().any(char::is_control)
}

/// What a person sees of a pair that is none.
fn excerpt(pair: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = String::from_utf8_lossy(&pair[..pair.len().min(SHOWN)]);
    shown.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// A number as a value: decimal, or hexadecimal with `0x`.
#[must_use]
pub fn number(value: &str) -> Option<u32> {
    let (digits, radix) = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // from_str_radix takes a plus sign.
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
}

/// `Yes` or `No`.
#[must_use]
pub fn yes_no(is: bool) -> &'static str {
    if is { "Yes" } else { "No" }
}

/// The meaning of `Yes` or `No`.
#[must_use]
pub fn is_yes(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// Bytes as a value, in hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// The bytes of a value: hexadecimal with `0x`, base64 with `0b`.
#[must_use]
pub fn binary(value: &str) -> Option<Vec<u8>> {
    let (kind, digits) = value.split_at_checked(2)?;
    match kind {
        "0x" | "0X" => from_hexadecimal(digits),
        "0b" | "0B" => from_base64(digits),
        _ => None,
    }
}

fn from_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let values = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    // An odd number of digits has lost a zero at its beginning.
    let first = values.len() % 2;
    let (head, pairs) = values.split_at(first);
    let joined = pairs.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
    // Two digits make a byte.
    Some(head.iter().copied().chain(joined).map(|byte| byte as u8).collect())
}

fn from_base64(digits: &str) -> Option<Vec<u8>> {
    let plain = digits.trim_end_matches('=');
    let padded = digits.len() - plain.len();
    if !digits.len().is_multiple_of(4) || padded > 2 {
        return None;
    }
    let mut bytes = Vec::new();
    for group in plain.as_bytes().chunks(4) {
        let mut word = 0u32;
        for digit in group {
            word = word << 6 | base64_digit(*digit)?;
        }
        word <<= 6 * (4 - group.len());
        let [_, rest @ ..] = word.to_be_bytes();
        bytes.extend(rest.iter().take(group.len() - 1));
    }
    Some(bytes)
}

fn base64_digit(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_come_in_order_and_padding_says_nothing() {
        let keys = Keys::parse(b"TargetName=iqn.a:b\0TargetAddress=1.2.3.4:3260,1\0\0\0").unwrap();
        let pairs: Vec<_> = keys.iter().collect();
        assert_eq!(pairs, [("TargetName", "iqn.a:b"), ("TargetAddress", "1.2.3.4:3260,1")]);
        assert_eq!(Keys::parse(b"").map(|keys| keys.is_empty()), Ok(true));
        assert_eq!(Keys::parse_once(b"A=1\0B=\0A=2\0"), Err(TextError::Twice("A".into())));
        assert!(Keys::parse(b"A=1\0B=\0A=2\0").is_ok());
    }

    #[test]
    fn limits_hold_and_one_more_does_not() {
        let pair =
            |key: usize, value: usize| [&vec![b'k'; key][..], b"=", &vec![b'v'; value], b"\0"].concat();
        assert!(Keys::parse(&pair(KEY_MAX, VALUE_MAX)).is_ok());
        assert!(matches!(Keys::parse(&pair(KEY_MAX + 1, 1)), Err(TextError::Malformed(_))));
        assert!(matches!(Keys::parse(&pair(1, VALUE_MAX + 1)), Err(TextError::Malformed(_))));
        assert!(Keys::parse(&b"a=b\0".repeat(PAIRS_MAX)).is_ok());
        assert_eq!(Keys::parse(&b"a=b\0".repeat(PAIRS_MAX + 1)), Err(TextError::TooMany));
        assert!(Keys::parse(&vec![0; TEXT_MAX]).is_ok());
        assert_eq!(Keys::parse(&vec![0; TEXT_MAX + 1]), Err(TextError::TooLong(TEXT_MAX + 1)));
        for bad in [&b"a\0"[..], b"=a\0", b"a b=c\0", b"a=\n\0", b"a=\xff\0"] {
            assert!(matches!(Keys::parse(bad), Err(TextError::Malformed(_))), "{bad:?}");
        }
        assert_eq!(Keys::parse(b"a=b"), Err(TextError::Open));
    }

    #[test]
    fn numbers_and_bytes() {
        assert_eq!((number("262144"), number("0x40")), (Some(262144), Some(64)));
        for bad in ["", "+1", "-1", "1a", "0x", "4294967296", "0x+1", " 1"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(binary("0x0102ff"), Some(vec![1, 2, 255]));
        assert_eq!(binary("0xABC"), Some(vec![0x0a, 0xbc]));
        assert_eq!(binary("0bAQL/"), Some(vec![1, 2, 255]));
        assert_eq!(binary("0bAQ=="), Some(vec![1]));
        assert_eq!(binary("0bAQI="), Some(vec![1, 2]));
        for bad in ["", "0", "0xg", "0bA", "0bAQ=", "0b====", "12", "0bA==="] {
            assert_eq!(binary(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_comes_back(text in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(keys) = Keys::parse(&text) {
                prop_assert_eq!(Keys::parse(&keys.bytes()), Ok(keys));
            }
        }

        #[test]
        fn pairs_come_back(
            pairs in prop::collection::vec(("[A-Za-z][A-Za-z0-9._@+-]{0,62}", "[ -~é]{0,80}"), 0..9),
        ) {
            let mut keys = Keys::new();
            pairs.iter().for_each(|(key, value)| keys.push(key, value));
            prop_assert_eq!(Keys::parse(&keys.bytes()), Ok(keys));
        }

        #[test]
        fn bytes_come_back(bytes: Vec<u8>) {
            prop_assert_eq!(binary(&hexadecimal(&bytes)), Some(bytes));
        }

        #[test]
        fn any_value_is_harmless(value: String) {
            let _ = (number(&value), binary(&value), is_yes(&value));
        }
    }
}
