//! Names of the keys that tapes are encrypted with.

use std::fmt;

/// The name of a key of tapes: 1 to 32 characters of `A-Z a-z 0-9 . _ -`. It is no secret, stands in clear on
/// the tape, and means one key in the whole instance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// Why a text is no name of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {0} bytes names no key: use 1 to 32 characters of A-Z, a-z, 0-9, '.', '_' and '-'")]
pub struct KeyIdError(
    /// How long it is. It is not told itself: it may be the key, where its name belongs.
    pub usize,
);

impl KeyId {
    /// The most characters: what drives keep beside each block in clear (the unauthenticated key-associated
    /// data of SSC-5).
    pub const BYTES_MAX: usize = 32;

    /// Reads a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Result<Self, KeyIdError> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=KeyId::BYTES_MAX).contains(&text.len()) && text.bytes().all(is_fit) {
            Ok(KeyId(text.to_owned()))
        } else {
            Err(KeyIdError(text.len()))
        }
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What tells two keys of one id apart: the first bytes of a hash of the key. It stands beside the id on the
/// tape, and tells nothing of a key that was drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyCheck(pub [u8; KeyCheck::BYTES]);

impl KeyCheck {
    /// Its bytes: its hex digits are as many as drives keep beside each block as authenticated key-associated
    /// data, and two keys of one id are mistaken for one another once in 2^48.
    pub const BYTES: usize = 6;

    /// What it is hashed for: no other hash of the key is like it.
    const CONTEXT: &str = "Kist 2026 check value of a key of tapes";

    /// That of a key: BLAKE3 in its mode for the derivation of keys.
    #[must_use]
    pub fn of(secret: &[u8; 32]) -> Self {
        let [a, b, c, d, e, f, ..] = blake3::derive_key(KeyCheck::CONTEXT, secret);
        KeyCheck([a, b, c, d, e, f])
    }

    /// Reads its 12 hex digits, in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; KeyCheck::BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        let check = KeyCheck(bytes);
        (check.to_string() == text).then_some(check)
    }
}

impl fmt::Display for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCheck({self})")
    }
}

/// Which key a tape is encrypted with. It is no secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TapeKey {
    /// Its name.
    pub id: KeyId,
    /// What tells it from another key that somebody may have under this name.
    pub check: KeyCheck,
}

impl fmt::Display for TapeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (check value {})", self.id, self.check)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_characters_and_its_length() {
        for good in ["a", "vault-a.2026_01", &"x".repeat(32)] {
            assert_eq!(KeyId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(33)] {
            assert!(KeyId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_check_value_is_twelve_digits() {
        assert_eq!(KeyCheck::of(&[0; 32]), KeyCheck::of(&[0; 32]));
        assert_ne!(KeyCheck::of(&[0; 32]), KeyCheck::of(&[1; 32]));
        let check = KeyCheck([0, 1, 0xab, 0xcd, 0xef, 0xff]);
        assert_eq!(check.to_string(), "0001abcdefff");
        assert_eq!(KeyCheck::parse("0001abcdefff"), Some(check));
        for bad in ["", "0001abcdeff", "0001abcdefff0", "0001ABCDEFFF", "+001abcdefff", "0001abcdefä"] {
            assert_eq!(KeyCheck::parse(bad), None, "{bad:?}");
        }
    }
}
