//! CHAP (RFC 1994, RFC 7143 section 12.1.3): proof of a secret without telling it. Pure.

/// Bytes of a challenge of ours.
pub const CHALLENGE: usize = 16;
/// The longest challenge that RFC 7143 allows.
pub const CHALLENGE_MAX: usize = 1024;
/// The shortest secret: RFC 7143 asks for 96 bits where nothing else protects the connection.
pub const SECRET_MIN: usize = 12;
/// The longest secret.
pub const SECRET_MAX: usize = 256;

/// A name and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    name: String,
    secret: String,
}

/// Why a name and a secret are no account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccountError {
    /// The secret is too short or too long.
    #[error("a CHAP secret has {SECRET_MIN} to {SECRET_MAX} bytes")]
    Secret,
    /// The name is empty, too long, or has control characters.
    #[error("a CHAP name has 1 to 255 bytes and no control characters")]
    Name,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Account {
    /// An account with this name and secret.
    pub fn new(name: &str, secret: &str) -> Result<Account, AccountError> {
        if !(SECRET_MIN..=SECRET_MAX).contains(&secret.len()) {
            return Err(AccountError::Secret);
        }
        if !(1..=255).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(AccountError::Name);
        }
        Ok(Account { name: name.to_owned(), secret: secret.to_owned() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both have the same secret, so that one could answer with what it got from the other.
    #[must_use]
    pub fn shares_secret(&self, other: &Account) -> bool {
        self.secret == other.secret
    }

    /// The answer to a challenge.
    #[must_use]
    pub fn response(&self, hash: Hash, challenge: &Challenge) -> Vec<u8> {
        let Challenge { id, bytes } = challenge;
        match hash {
            Hash::Md5 => digest::<md5::Md5>(*id, &self.secret, bytes),
            Hash::Sha256 => digest::<sha2::Sha256>(*id, &self.secret, bytes),
        }
    }

    /// Whether this is the answer to a challenge. Takes as long for a wrong one as for the right one.
    #[must_use]
    pub fn accepts(&self, hash: Hash, challenge: &Challenge, response: &[u8]) -> bool {
        let right = self.response(hash, challenge);
        let differences = right.iter().zip(response).fold(0, |all, (one, other)| all | (one ^ other));
        right.len() == response.len() && differences == 0
    }
}

fn digest<D: md5::Digest>(id: u8, secret: &str, challenge: &[u8]) -> Vec<u8> {
    let mut digest = D::new();
    digest.update([id]);
    digest.update(secret);
    digest.update(challenge);
    digest.finalize().to_vec()
}

/// The hash of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// Number 5, which every implementation has.
    Md5,
    /// Number 7.
    Sha256,
}

impl Hash {
    /// All. MD5 comes first, as targets choose the first one that they know, and some (tgt 1.0.85) take
    /// number 7 for SHA-1, as a draft had it: then no proof is the right one.
    pub const ALL: [Hash; 2] = [Hash::Md5, Hash::Sha256];

    /// The number of CHAP_A.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Hash::Md5 => 5,
            Hash::Sha256 => 7,
        }
    }

    /// The hash with this number.
    #[must_use]
    pub fn of(number: &str) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.number().to_string() == number)
    }
}

/// What is to be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// CHAP_I.
    pub id: u8,
    /// CHAP_C.
    pub bytes: Vec<u8>,
}

impl Challenge {
    /// A challenge from random bits.
    #[must_use]
    pub fn random(bits: [u8; CHALLENGE + 1]) -> Challenge {
        let [id, bytes @ ..] = bits;
        Challenge { id, bytes: bytes.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_hashes_of_id_secret_and_challenge() {
        let account = Account::new("kist", "a secret of kist").unwrap();
        let challenge = Challenge { id: 7, bytes: vec![1, 2, 3, 4] };
        // printf '\x07a secret of kist\x01\x02\x03\x04' | md5sum
        let md5 = account.response(Hash::Md5, &challenge);
        assert_eq!(md5, crate::text::binary(MD5).unwrap());
        let sha = account.response(Hash::Sha256, &challenge);
        assert_eq!(sha, crate::text::binary(SHA).unwrap());
        assert!(account.accepts(Hash::Md5, &challenge, &md5));
        assert!(!account.accepts(Hash::Sha256, &challenge, &md5));
        assert!(!account.accepts(Hash::Md5, &challenge, &md5[..15]));
        assert!(!account.accepts(Hash::Md5, &challenge, &[]));
        assert!(!account.accepts(Hash::Md5, &Challenge { id: 8, bytes: vec![1, 2, 3, 4] }, &md5));
    }

    const MD5: &str = "0x56fe76cf71bb2848bb4b872c8aabbd52";
    const SHA: &str = "0x36795ac50bb9bb62e8f60a24d63333a36bab4135ef473ea0bd5d60c345a6dca1";

    #[test]
    fn secrets_have_limits_and_are_not_shown() {
        for (length, fits) in [(11, false), (12, true), (256, true), (257, false)] {
            assert_eq!(Account::new("kist", &"s".repeat(length)).is_ok(), fits, "{length}");
        }
        assert!(Account::new("", &"s".repeat(12)).is_err());
        assert!(!format!("{:?}", Account::new("kist", "secret secret").unwrap()).contains("secret"));
    }
}
