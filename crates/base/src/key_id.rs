//! Names of the keys that tapes are encrypted with.

use std::fmt;

/// The name of a key of tapes: 1 to 32 characters of `A-Z a-z 0-9 . _ -`. It is no secret, stands in clear on
/// the tape, and means one key in the whole instance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// Why a text is no name of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no key: use 1 to 32 characters of A-Z, a-z, 0-9, '.', '_' and '-'")]
pub struct KeyIdError(pub String);

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
            Err(KeyIdError(text.to_owned()))
        }
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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
}
