//! Keys of tapes: what a drive encrypts blocks with, and how the key is found again.

use std::fmt;

use zeroize::Zeroize;

/// A key of 256 bits. It is not shown, and is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey([u8; EncryptionKey::BYTES]);

impl Drop for EncryptionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl EncryptionKey {
    /// Its bytes.
    pub const BYTES: usize = 32;

    /// Takes a key over.
    #[must_use]
    pub fn new(secret: [u8; EncryptionKey::BYTES]) -> EncryptionKey {
        EncryptionKey(secret)
    }

    /// The secret, for whoever gives it to a drive.
    #[must_use]
    pub fn secret(&self) -> &[u8; EncryptionKey::BYTES] {
        &self.0
    }

    /// What tells it from another key of the same id.
    #[must_use]
    pub fn check(&self) -> base::KeyCheck {
        base::KeyCheck::of(&self.0)
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(not shown)")
    }
}

/// Which key it is: key-associated data, which the drive writes in clear beside each block that it encrypts
/// (SSC-5, 8.7.4). It is no secret.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyIdentity {
    unauthenticated: Vec<u8>,
    authenticated: Vec<u8>,
}

impl KeyIdentity {
    /// The most bytes of the unauthenticated part, as LTO drives have it.
    pub const UNAUTHENTICATED_MAX: usize = 32;
    /// The most bytes of the authenticated part, as LTO drives have it.
    pub const AUTHENTICATED_MAX: usize = 12;

    /// An identity of both parts; `None` if one is too long.
    #[must_use]
    pub fn new(unauthenticated: &[u8], authenticated: &[u8]) -> Option<KeyIdentity> {
        let fits = unauthenticated.len() <= KeyIdentity::UNAUTHENTICATED_MAX
            && authenticated.len() <= KeyIdentity::AUTHENTICATED_MAX;
        fits.then(|| KeyIdentity {
            unauthenticated: unauthenticated.to_vec(),
            authenticated: authenticated.to_vec(),
        })
    }

    /// The unauthenticated part.
    #[must_use]
    pub fn unauthenticated(&self) -> &[u8] {
        &self.unauthenticated
    }

    /// The authenticated part: the drive finds out if it was changed.
    #[must_use]
    pub fn authenticated(&self) -> &[u8] {
        &self.authenticated
    }
}

impl fmt::Display for KeyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
            _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        match (&*self.unauthenticated, &*self.authenticated) {
            (one, []) | ([], one) => f.write_str(&part(one)),
            (one, other) => write!(f, "{} / {}", part(one), part(other)),
        }
    }
}

/// What becomes of encrypted blocks that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decryption {
    /// They are an error.
    Off,
    /// They are decrypted; plain blocks are an error.
    Required,
    /// They are decrypted; plain blocks are given as they are.
    IfEncrypted,
}

/// How a drive encrypts and decrypts: with AES-256-GCM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeEncryption {
    /// The key.
    pub key: EncryptionKey,
    /// What is written beside the blocks to find it again.
    pub identity: KeyIdentity,
    /// Blocks that are written are encrypted.
    pub encrypts: bool,
    /// What becomes of blocks that are read.
    pub decryption: Decryption,
}

impl TapeEncryption {
    /// All that is written is encrypted, and what is read is decrypted where it is encrypted.
    #[must_use]
    pub fn of(key: EncryptionKey, identity: KeyIdentity) -> TapeEncryption {
        TapeEncryption { key, identity, encrypts: true, decryption: Decryption::IfEncrypted }
    }
}

/// What is known of the block under the head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockEncryption {
    /// The drive cannot tell.
    Unknown,
    /// It is a file mark, or the end of data.
    NoBlock,
    /// It is not encrypted.
    Plain,
    /// It is encrypted.
    Encrypted {
        /// With which key.
        identity: KeyIdentity,
        /// The drive has that key and decrypts with it.
        is_readable: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let key = EncryptionKey::new([0xab; 32]);
        let all = TapeEncryption::of(key, KeyIdentity::new(b"pool-7", b"").unwrap());
        let shown = format!("{all:?}");
        assert!(!shown.contains("171") && !shown.to_lowercase().contains("ab, ab"), "{shown}");
    }

    #[test]
    fn an_identity_is_told_as_text_if_it_is_one_and_has_the_limits_of_drives() {
        let of = |one: &[u8], other: &[u8]| KeyIdentity::new(one, other).map(|all| all.to_string());
        assert_eq!(of(b"pool-7", b"").as_deref(), Some("pool-7"));
        assert_eq!(of(b"", &[0, 0xff]).as_deref(), Some("00ff"));
        assert_eq!(of(b"a", b"b").as_deref(), Some("a / b"));
        assert!(of(&[b'x'; 32], &[b'y'; 12]).is_some());
        assert_eq!((of(&[b'x'; 33], b""), of(b"", &[b'y'; 13])), (None, None));
    }
}
