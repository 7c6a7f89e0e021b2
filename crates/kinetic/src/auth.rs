//! Who vouches for a command: HMAC-SHA1 over its length and its bytes.

use std::fmt;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// Bytes of an HMAC.
pub const HMAC_BYTES: usize = 20;

/// Bytes that are not printed: a key or a PIN.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// These bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Secret(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether `given` is the same, found in a time that does not depend on where they differ.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        // The secrets are the messages, not the keys: keys of an HMAC are padded with zeros.
        let key = HmacKey::new(b"compare");
        key.verify(given, &key.sign(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// The key of an identity, ready for use.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha1>);

impl HmacKey {
    /// From the bytes of the key, of any length.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        // An HMAC takes keys of every length, so this cannot fail.
        HmacKey(Hmac::new_from_slice(key).expect("a key of any length"))
    }

    /// What vouches for these bytes of a command.
    #[must_use]
    pub fn sign(&self, command: &[u8]) -> [u8; HMAC_BYTES] {
        self.over(command).finalize().into_bytes().into()
    }

    /// Whether `hmac` vouches for these bytes of a command; the comparison takes the same time wherever they
    /// differ.
    #[must_use]
    pub fn verify(&self, command: &[u8], hmac: &[u8]) -> bool {
        self.over(command).verify_slice(hmac).is_ok()
    }

    fn over(&self, command: &[u8]) -> Hmac<Sha1> {
        let mut mac = self.0.clone();
        mac.update(&u32::try_from(command.len()).unwrap_or(u32::MAX).to_be_bytes());
        mac.update(command);
        mac
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_covered() {
        // python3: hmac.new(b"asdfasdf", b"\0\0\0\x03abc", "sha1").hexdigest()
        let key = HmacKey::new(b"asdfasdf");
        let hex: String = key.sign(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "4d4e8600b55b0242c1200df8edeeace8c4f976ae");
        assert!(key.verify(b"abc", &key.sign(b"abc")));
        for (command, hmac) in
            [(&b"abd"[..], &key.sign(b"abc")[..]), (b"abc", &key.sign(b"abc")[..19]), (b"abc", b"")]
        {
            assert!(!key.verify(command, hmac));
        }
        assert!(!HmacKey::new(b"asdfasdg").verify(b"abc", &key.sign(b"abc")));
    }

    #[test]
    fn secrets_are_compared_whole_and_not_printed() {
        let secret = Secret::new("1234");
        assert!(secret.is(b"1234") && Secret::default().is(b""));
        for other in [&b"1234\0"[..], b"123", b"1235", b""] {
            assert!(!secret.is(other));
        }
        assert_eq!(format!("{secret:?}{:?}", HmacKey::new(b"1234")), "Secret(4 bytes)HmacKey");
    }
}
