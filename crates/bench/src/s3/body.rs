//! Bodies of objects, with their checksums, made before the clock runs: the server is what is measured.

use crc_fast::{CrcAlgorithm, Digest as CrcDigest};
use md5::{Digest, Md5};

/// Bytes of a chunk of a body with a trailer, as the clients of Amazon send them.
const CHUNK_BYTES: usize = 1 << 20;
/// The first bytes of an object are its own, so that no two objects are the same.
const OWN_BYTES: usize = 64 << 10;

/// How a body is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// In chunks without signatures, a CRC-64/NVME in the trailer: the default of today's clients over TLS.
    Trailer,
    /// As it is, with `Content-MD5`.
    Md5,
    /// As it is, with nothing that says what it has to be.
    Unsaid,
}

/// Bytes that all objects share behind their own.
#[derive(Debug)]
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For objects of up to so many bytes.
    pub fn new(size: usize) -> Self {
        let mut bytes = vec![0u8; size];
        for (at, chunk) in bytes.chunks_mut(8).enumerate() {
            let word = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
        }
        Pattern(bytes)
    }
}

/// One object, ready to be sent.
#[derive(Debug)]
pub struct Body<'a> {
    own: Vec<u8>,
    rest: &'a [u8],
    checked: Checked,
    trailer: String,
    md5: String,
}

impl<'a> Body<'a> {
    /// The object of this number.
    pub fn new(pattern: &'a Pattern, size: usize, number: u64, checked: Checked) -> Self {
        let mut own = pattern.0.get(..size.min(OWN_BYTES)).unwrap_or_default().to_vec();
        for (to, from) in own.iter_mut().zip((number + 1).wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()) {
            *to ^= from;
        }
        let rest = pattern.0.get(own.len()..size).unwrap_or_default();
        let (mut trailer, mut md5) = (String::new(), String::new());
        match checked {
            Checked::Trailer => {
                let mut crc = CrcDigest::new(CrcAlgorithm::Crc64Nvme);
                crc.update(&own);
                crc.update(rest);
                trailer = format!(
                    "0\r\nx-amz-checksum-crc64nvme:{}\r\n\r\n",
                    base64(&crc.finalize().to_be_bytes())
                );
            }
            Checked::Unsaid => {}
            Checked::Md5 => {
                md5 = base64(&Md5::new().chain_update(&own).chain_update(rest).finalize());
            }
        }
        Body { own, rest, checked, trailer, md5 }
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        (self.own.len() + self.rest.len()) as u64
    }

    /// What `x-amz-content-sha256` says of it.
    pub fn payload(&self) -> &'static str {
        match self.checked {
            Checked::Trailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            Checked::Md5 | Checked::Unsaid => "UNSIGNED-PAYLOAD",
        }
    }

    /// The header fields that belong to it.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let length: usize = self.pieces(&self.chunks()).iter().map(|piece| piece.len()).sum();
        let length = ("content-length", length.to_string());
        match self.checked {
            Checked::Unsaid => vec![length],
            Checked::Md5 => vec![("content-md5", self.md5.clone()), length],
            Checked::Trailer => vec![
                ("content-encoding", "aws-chunked".to_owned()),
                length,
                ("x-amz-decoded-content-length", self.size().to_string()),
                ("x-amz-sdk-checksum-algorithm", "CRC64NVME".to_owned()),
                ("x-amz-trailer", "x-amz-checksum-crc64nvme".to_owned()),
            ],
        }
    }

    /// The lines before the chunks.
    pub fn chunks(&self) -> Vec<String> {
        let sizes = [self.own.len()].into_iter().chain(self.rest.chunks(CHUNK_BYTES).map(<[u8]>::len));
        sizes.filter(|size| *size > 0).map(|size| format!("{size:x}\r\n")).collect()
    }

    /// What goes over the connection, one behind the other; `lines` are those of `chunks`.
    pub fn pieces<'b>(&'b self, lines: &'b [String]) -> Vec<&'b [u8]> {
        if self.checked != Checked::Trailer {
            return vec![&self.own, self.rest];
        }
        let data = [self.own.as_slice()].into_iter().chain(self.rest.chunks(CHUNK_BYTES));
        let mut pieces = Vec::new();
        for (line, data) in lines.iter().zip(data.filter(|data| !data.is_empty())) {
            pieces.extend([line.as_bytes(), data, b"\r\n"]);
        }
        pieces.push(self.trailer.as_bytes());
        pieces
    }
}

/// Base64 of RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            let letter = ALPHABET.get(index as usize).copied().unwrap_or(b'=');
            text.push(if digit > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, text) in cases {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn a_body_is_sent_whole_with_its_sum() {
        let pattern = Pattern::new(3 << 20);
        let size = (2 << 20) + 77;
        let plain = Body::new(&pattern, size, 3, Checked::Md5);
        assert_eq!(plain.pieces(&[]).concat().len(), size);
        let body = Body::new(&pattern, size, 3, Checked::Trailer);
        let lines = body.chunks();
        let sent = body.pieces(&lines).concat();
        let length = format!("{}", sent.len());
        assert!(body.headers().contains(&("content-length", length)));
        assert!(sent.starts_with(b"10000\r\n") && sent.ends_with(b"=\r\n\r\n"));
        let other = Body::new(&pattern, size, 4, Checked::Trailer);
        assert_ne!(other.trailer, body.trailer);
    }

    #[test]
    fn a_small_body_is_one_chunk() {
        let pattern = Pattern::new(1 << 20);
        let body = Body::new(&pattern, 5, 0, Checked::Trailer);
        assert_eq!(body.chunks(), ["5\r\n"]);
    }
}
