//! The version of a stripe, which has its size in it.

use std::fmt;

use bytes::Bytes;

/// Digits of the size.
const SIZE_DIGITS: usize = 10;
/// Bytes of a UUID as the first versions of libkineticio wrote it.
const UUID_BYTES: usize = 16;
/// Characters of a UUID as the later ones did.
const UUID_CHARACTERS: usize = 36;

/// What stands there as a version is none of libkineticio's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is no version of libkineticio: it should have 46 or 26 bytes, the first ten of them digits")]
pub struct VersionError;

/// Ten digits with the bytes of the whole value, then a UUID that no other write has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    bytes: Bytes,
    size: u64,
}

impl Version {
    /// From the bytes at the drive.
    ///
    /// # Errors
    /// If they have another form.
    pub fn read(bytes: &Bytes) -> Result<Self, VersionError> {
        let is_known_length =
            [SIZE_DIGITS + UUID_BYTES, SIZE_DIGITS + UUID_CHARACTERS].contains(&bytes.len());
        let digits = bytes.get(..SIZE_DIGITS).filter(|_| is_known_length).ok_or(VersionError)?;
        let mut size = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return Err(VersionError);
            }
            size = size * 10 + u64::from(digit - b'0');
        }
        // A copy: the slice would keep the whole frame.
        Ok(Version { bytes: Bytes::copy_from_slice(bytes), size })
    }

    /// Bytes of the whole value.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// As it stands at the drive.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl fmt::Display for Version {
    /// The first eight characters of the UUID, which tell versions apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = self.bytes.get(SIZE_DIGITS..).unwrap_or_default();
        if uuid.len() == UUID_BYTES {
            uuid.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
        } else {
            uuid.iter().take(8).try_for_each(|byte| write!(f, "{}", byte.escape_ascii()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let text = Bytes::from_static(b"00000000429f1c2d3e-0000-4000-8000-000000000000");
        let version = Version::read(&text).unwrap();
        assert_eq!((version.size(), version.to_string().as_str()), (42, "9f1c2d3e"));
        let binary = Bytes::from_static(b"0000000007\x9f\x1c\x2d\x3e............");
        let version = Version::read(&binary).unwrap();
        assert_eq!((version.size(), version.to_string().as_str()), (7, "9f1c2d3e"));
        for wrong in
            [&b""[..], b"indicator", b"000000004x9f1c2d3e-0000-4000-8000-000000000000", b"0000000042"]
        {
            assert_eq!(Version::read(&Bytes::from_static(wrong)), Err(VersionError));
        }
    }
}
