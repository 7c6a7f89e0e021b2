//! Streams that hash what passes.

use std::io::{self, Read};

use base::{Adler32, Blake3};
use terminal::{Exit, Failure, Outcome, Progress};

/// The checksums of a stream as it passes.
#[derive(Clone)]
pub struct Hasher {
    blake3: blake3::Hasher,
    adler32: Adler32,
    bytes: u64,
}

impl Hasher {
    /// Of nothing yet.
    pub fn new() -> Self {
        Hasher { blake3: blake3::Hasher::new(), adler32: Adler32::default(), bytes: 0 }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        self.adler32 = self.adler32.combine(Adler32::of(bytes), bytes.len() as u64);
        self.bytes += bytes.len() as u64;
    }

    /// BLAKE3 so far.
    pub fn blake3(&self) -> Blake3 {
        Blake3(*self.blake3.finalize().as_bytes())
    }

    /// Adler-32 so far.
    pub fn adler32(&self) -> Adler32 {
        self.adler32
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compares with what the server says of the same bytes.
    pub fn agrees(&self, what: &str, size: u64, blake3: &str, adler32: Option<&str>) -> Outcome {
        let differ = |kind: &str, ours: String, theirs: &str| {
            let message = format!(
                "{what}: the {kind} here is {ours}, the server says {theirs}: \
                 the bytes changed on the way or on disk"
            );
            Err(Failure::new(Exit::Differs, message))
        };
        if size != self.bytes {
            return differ("length", self.bytes.to_string(), &size.to_string());
        }
        if Blake3::parse(blake3) != Some(self.blake3()) {
            return differ("BLAKE3", self.blake3().to_string(), blake3);
        }
        match adler32 {
            Some(adler32) if Adler32::parse(adler32) != Some(self.adler32) => {
                differ("Adler-32", self.adler32.to_string(), adler32)
            }
            _ => Ok(()),
        }
    }
}

/// Reads through, hashes, and counts for the progress.
pub struct HashingReader<'a, R> {
    inner: R,
    hasher: &'a mut Hasher,
    progress: &'a Progress,
}

impl<'a, R: Read> HashingReader<'a, R> {
    /// Over `inner`.
    pub fn new(inner: R, hasher: &'a mut Hasher, progress: &'a Progress) -> Self {
        HashingReader { inner, hasher, progress }
    }
}

impl<R: Read> Read for HashingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.progress.add_bytes(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hash_as_the_whole() {
        let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let mut hasher = Hasher::new();
        bytes.chunks(7919).for_each(|chunk| hasher.update(chunk));
        let (blake3, adler32) = (Blake3::of(&bytes).to_string(), Adler32::of(&bytes).to_string());
        hasher.agrees("x", 300_000, &blake3, Some(&adler32)).unwrap();
        assert_eq!(hasher.agrees("x", 299_999, &blake3, None).unwrap_err().exit, Exit::Differs);
        assert_eq!(hasher.agrees("x", 300_000, &"0".repeat(64), None).unwrap_err().exit, Exit::Differs);
        assert_eq!(hasher.agrees("x", 300_000, &blake3, Some("00000001")).unwrap_err().exit, Exit::Differs);
    }
}
