//! Contents of files, a function of a number, so that nothing has to be kept to check them.

use std::io::{self, Read};

/// A version of a file: its number, which no other version has, and its length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// The number from which its bytes follow.
    pub id: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Bytes of the number at the beginning of each version that is long enough.
const ID_BYTES: u64 = 8;

impl Version {
    /// Its bytes, as a stream.
    #[must_use]
    pub fn reader(self) -> Content {
        let state = self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Content { version: self, at: 0, state, word: self.id.to_le_bytes() }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader().read_to_end(&mut bytes).unwrap_or_default();
        bytes
    }
}

/// The bytes of a version: its number, little endian, then words of a generator seeded with it.
pub struct Content {
    version: Version,
    at: u64,
    state: u64,
    word: [u8; 8],
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.version.length - self.at).unwrap_or(usize::MAX).min(into.len());
        for byte in &mut into[..count] {
            *byte = self.word[(self.at % 8) as usize];
            self.at += 1;
            if self.at.is_multiple_of(8) {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                self.word = self.state.to_le_bytes();
            }
        }
        Ok(count)
    }
}

/// What a body turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Exactly this version.
    Whole(Version),
    /// No version that anybody has written.
    Foreign(String),
}

/// Reads a body to its end and says which version it is. Bodies shorter than a number are looked for in
/// `candidates`.
///
/// # Errors
/// If the stream breaks; then nothing is known.
pub fn identify(body: &mut dyn Read, candidates: &[Version]) -> io::Result<Found> {
    let mut head = Vec::new();
    body.take(ID_BYTES).read_to_end(&mut head)?;
    let Ok(id) = <[u8; 8]>::try_from(head.as_slice()) else {
        let found = candidates.iter().find(|version| version.length < ID_BYTES && version.bytes() == head);
        return Ok(
            found.map_or_else(|| Found::Foreign(format!("{} bytes", head.len())), |v| Found::Whole(*v))
        );
    };
    let id = u64::from_le_bytes(id);
    let mut expected = Version { id, length: u64::MAX }.reader();
    expected.read_exact(&mut [0; ID_BYTES as usize])?;
    let (mut length, mut good) = (ID_BYTES, true);
    let (mut piece, mut other) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = body.read(&mut piece)?;
        if count == 0 {
            break;
        }
        expected.read_exact(&mut other[..count])?;
        if good && piece[..count] != other[..count] {
            good = false;
        }
        length += count as u64;
    }
    let version = Version { id, length };
    Ok(if good { Found::Whole(version) } else { Found::Foreign(format!("not the bytes of {version:?}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_recognised() {
        for length in [0, 5, 8, 9, 100_000] {
            let version = Version { id: 77, length };
            let bytes = version.bytes();
            assert_eq!(bytes.len() as u64, length);
            assert_eq!(identify(&mut &bytes[..], &[version]).unwrap(), Found::Whole(version));
        }
        let mut wrong = Version { id: 78, length: 100 }.bytes();
        wrong[50] ^= 1;
        assert!(matches!(identify(&mut &wrong[..], &[]).unwrap(), Found::Foreign(_)));
    }
}
