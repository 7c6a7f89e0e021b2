//! Encrypted records: AES-256-GCM, each with a nonce of its own (NIST SP 800-38D).
//!
//! What stands in the frame in place of a record of `n` bytes:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | algorithm, 1: AES-256-GCM |
//! | 1 | 1 | bytes of unauthenticated key-associated data, at most 32 |
//! | 2 | 1 | bytes of authenticated key-associated data, at most 12 |
//! | 3 | 1 | 0 |
//! | 4 | 12 | nonce |
//! | 16 | 32 | unauthenticated key-associated data, then 0 |
//! | 48 | 12 | authenticated key-associated data, then 0 |
//! | 60 | 4 | 0 |
//! | 64 | n | ciphertext |
//! | 64 + n | 16 | tag, over these 64 bytes and the ciphertext |
//!
//! Nonces are random: one key is good for 2^32 records and more, some 2 PB in blocks of 512 KiB, before two
//! of the same become likelier than 2^-32 (SP 800-38D, 8.3).

use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use crate::encryption::{KeyIdentity, TapeEncryption};

/// Bytes in front of the ciphertext.
const HEAD_BYTES: usize = 64;
/// Bytes behind it.
const TAG_BYTES: usize = 16;
/// Bytes that an encrypted record takes more than the record.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + TAG_BYTES;

const ALGORITHM: u8 = 1;
const NONCE_AT: usize = 4;
const UNAUTHENTICATED_AT: usize = 16;
const AUTHENTICATED_AT: usize = 48;
const ZERO_AT: usize = 60;

/// Encrypts and decrypts as a drive is set. `ring` keeps the expanded key in it, and does not wipe it: it is
/// gone with the memory of the drive when the cartridge is unloaded.
pub struct Cipher {
    pub setting: TapeEncryption,
    key: LessSafeKey,
    random: SystemRandom,
}

impl Cipher {
    pub fn new(setting: TapeEncryption) -> io::Result<Cipher> {
        let key = UnboundKey::new(&AES_256_GCM, setting.key.secret())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Cipher { setting, key: LessSafeKey::new(key), random: SystemRandom::new() })
    }

    /// Puts an encrypted record into `out`.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn seal(&self, record: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| io::Error::other("the system gives no random numbers"))?;
        self.seal_with(nonce, record, out)
    }

    fn seal_with(&self, nonce: [u8; NONCE_LEN], record: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        out.extend(head(&self.setting.identity, nonce));
        out.extend(record);
        let (head, body) = out.split_at_mut(HEAD_BYTES);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&*head), body)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        out.extend(tag.as_ref());
        assert_eq!(out.len(), record.len() + OVERHEAD_BYTES);
        Ok(())
    }

    /// Decrypts a record in place. `None`: it was encrypted with another key, or is not what was encrypted.
    pub fn open<'a>(&self, stored: &'a mut [u8]) -> Option<&'a [u8]> {
        let (head, body) = stored.split_at_mut_checked(HEAD_BYTES)?;
        identity_of(head)?;
        let nonce = head.get(NONCE_AT..NONCE_AT + NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        self.key.open_in_place(nonce, Aad::from(&*head), body).ok().map(|record| &*record)
    }
}

fn head(identity: &KeyIdentity, nonce: [u8; NONCE_LEN]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (unauthenticated, authenticated) = (identity.unauthenticated(), identity.authenticated());
    head[0] = ALGORITHM;
    head[1] = unauthenticated.len() as u8;
    head[2] = authenticated.len() as u8;
    head[NONCE_AT..NONCE_AT + NONCE_LEN].copy_from_slice(&nonce);
    head[UNAUTHENTICATED_AT..UNAUTHENTICATED_AT + unauthenticated.len()].copy_from_slice(unauthenticated);
    head[AUTHENTICATED_AT..AUTHENTICATED_AT + authenticated.len()].copy_from_slice(authenticated);
    head
}

/// Which key an encrypted record needs, by its first bytes; `None` if they are none of an encrypted record.
pub fn identity_of(stored: &[u8]) -> Option<KeyIdentity> {
    let bytes = stored.first_chunk::<HEAD_BYTES>()?;
    let [ALGORITHM, unauthenticated, authenticated, 0, ..] = *bytes else { return None };
    let part = |from: usize, length: u8, end: usize| {
        let (data, rest) = bytes.get(from..end)?.split_at_checked(usize::from(length))?;
        rest.iter().all(|byte| *byte == 0).then_some(data)
    };
    let unauthenticated = part(UNAUTHENTICATED_AT, unauthenticated, AUTHENTICATED_AT)?;
    let authenticated = part(AUTHENTICATED_AT, authenticated, ZERO_AT)?;
    part(ZERO_AT, 0, HEAD_BYTES)?;
    KeyIdentity::new(unauthenticated, authenticated)
}

/// For the fuzz targets: what is read of an encrypted record is what is written.
pub fn check(stored: &[u8]) {
    let Some(identity) = identity_of(stored) else { return };
    let nonce = stored.get(NONCE_AT..NONCE_AT + NONCE_LEN).and_then(|bytes| bytes.try_into().ok());
    assert!(nonce.is_some_and(|nonce| stored.starts_with(&head(&identity, nonce))), "{identity:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::EncryptionKey;

    fn cipher(key: u8) -> Cipher {
        let identity = KeyIdentity::new(b"pool-7", b"abc").unwrap();
        Cipher::new(TapeEncryption::of(EncryptionKey::new([key; 32]), identity)).unwrap()
    }

    fn sealed(cipher: &Cipher, record: &[u8]) -> Vec<u8> {
        let mut out = vec![9; 3];
        cipher.seal(record, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_encrypted_comes_back_and_is_not_seen() {
        for length in [1, 15, 16, 17, 4096, 100_000] {
            let record: Vec<u8> = (0..length).map(|i: u32| (i * 7) as u8).collect();
            let mut stored = sealed(&cipher(1), &record);
            assert_eq!(identity_of(&stored), KeyIdentity::new(b"pool-7", b"abc"));
            assert_ne!(&stored[HEAD_BYTES..HEAD_BYTES + record.len()], &*record);
            assert_eq!(cipher(2).open(&mut stored.clone()), None, "another key");
            assert_eq!(cipher(1).open(&mut stored), Some(&*record));
        }
    }

    #[test]
    fn each_record_has_a_nonce_of_its_own() {
        let (one, other) = (sealed(&cipher(1), b"the same"), sealed(&cipher(1), b"the same"));
        assert_ne!(one[NONCE_AT..UNAUTHENTICATED_AT], other[NONCE_AT..UNAUTHENTICATED_AT]);
        assert_ne!(one[HEAD_BYTES..], other[HEAD_BYTES..]);
    }

    #[test]
    fn each_changed_bit_and_each_truncation_is_found() {
        let stored = sealed(&cipher(1), b"a record");
        for bit in 0..stored.len() * 8 {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cipher(1).open(&mut changed), None, "bit {bit}");
        }
        for length in 0..stored.len() {
            assert_eq!(cipher(1).open(&mut stored[..length].to_vec()), None, "{length} bytes");
        }
    }

    /// Made by another implementation (OpenSSL, by Python's `cryptography`) from the table above.
    #[test]
    fn the_bytes_are_those_of_other_implementations() {
        const HEAD: &[u8; 30] = b"\x01\x06\x03\x00defghijklmnopool-7\0\0\0\0\0\0\0\0";
        let mut stored = HEAD.to_vec();
        stored.resize(AUTHENTICATED_AT, 0);
        stored.extend(b"abc");
        stored.resize(HEAD_BYTES, 0);
        let ciphertext: u128 = 0x293b_ac03_1a86_24fa_1e0d_31c8_ae04_1a98;
        let tag: u128 = 0xc6fc_df73_821d_798b_bc18_4d96_fd59_dbd2;
        stored.extend(ciphertext.to_be_bytes());
        stored.extend(tag.to_be_bytes());
        let key = EncryptionKey::new(std::array::from_fn(|i| i as u8));
        let identity = KeyIdentity::new(b"pool-7", b"abc").unwrap();
        let cipher = Cipher::new(TapeEncryption::of(key, identity)).unwrap();
        let mut out = Vec::new();
        cipher.seal_with(*b"defghijklmno", b"a record on tape", &mut out).unwrap();
        assert_eq!(out, stored);
        assert_eq!(cipher.open(&mut stored), Some(&b"a record on tape"[..]));
    }
}
