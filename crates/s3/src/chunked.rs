//! `aws-chunked`: a body in chunks of their own, each perhaps signed, with header fields behind the last.
//! Pure: bytes in, bytes out. Nothing is buffered but lines; what a chunk carries is given on before its
//! signature is known, so that whoever takes it must keep nothing before the end.

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::sigv4::ChunkSigner;

/// Longest line before a chunk.
const LINE_BYTES_MAX: usize = 256;
/// Longest header fields behind the last chunk.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Why a body is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("the body is not aws-chunked as announced")]
    Malformed,
    #[error("the body ended early")]
    Incomplete,
    #[error("the body has another length than x-amz-decoded-content-length says")]
    Length,
    #[error("a chunk's signature is wrong")]
    Signature,
    #[error("the header fields behind the body are not those that x-amz-trailer announced")]
    Trailer,
}

enum State {
    /// In the line before a chunk.
    Line(Vec<u8>),
    /// In a chunk of which this much is to come.
    Data { left: u64 },
    /// Behind a chunk: this many of CR and LF are to come.
    Gap { left: usize },
    /// Behind the last chunk.
    Trailer(Vec<u8>),
}

/// Takes a body apart.
pub(crate) struct Decoder {
    state: State,
    /// Bytes of the object that are to come.
    left: u64,
    signer: Option<ChunkSigner>,
    /// The signature that the present chunk claims.
    claimed: String,
    hash: Sha256,
    /// The header fields that were announced, in lower case.
    announced: Vec<String>,
}

impl Decoder {
    /// For a body whose object has `length` bytes. Without a signer chunks carry no signatures.
    pub(crate) fn new(length: u64, signer: Option<ChunkSigner>, announced: Vec<String>) -> Self {
        let (claimed, hash) = (String::new(), Sha256::new());
        Decoder { state: State::Line(Vec::new()), left: length, signer, claimed, hash, announced }
    }

    /// Takes bytes off the front of `input`; gives the object's among them. `None`: more input is needed.
    pub(crate) fn take(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkError> {
        while !input.is_empty() {
            match &mut self.state {
                State::Line(line) => {
                    if take_line(line, input)? {
                        let line = std::mem::take(line);
                        self.begin_chunk(&line)?;
                    }
                }
                State::Data { left } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    let data = input.split_to(count);
                    *left -= count as u64;
                    if self.signer.is_some() {
                        self.hash.update(&data);
                    }
                    if *left == 0 {
                        self.state = State::Gap { left: 2 };
                        self.end_chunk()?;
                    }
                    return Ok(Some(data));
                }
                State::Gap { left } => {
                    let expected = if *left == 2 { b'\r' } else { b'\n' };
                    if input.get_u8() != expected {
                        return Err(ChunkError::Malformed);
                    }
                    *left -= 1;
                    if *left == 0 {
                        self.state = State::Line(Vec::new());
                    }
                }
                State::Trailer(bytes) => {
                    if bytes.len() + input.len() > TRAILER_BYTES_MAX {
                        return Err(ChunkError::Malformed);
                    }
                    bytes.extend_from_slice(input);
                    input.clear();
                }
            }
        }
        Ok(None)
    }

    fn begin_chunk(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        let line = std::str::from_utf8(line).map_err(|_| ChunkError::Malformed)?;
        let (size, signature) = match (line.split_once(";chunk-signature="), &self.signer) {
            (Some((size, signature)), Some(_)) => (size, signature),
            (None, None) => (line, ""),
            _ => return Err(ChunkError::Malformed),
        };
        if size.is_empty() || size.len() > 16 || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ChunkError::Malformed);
        }
        let size = u64::from_str_radix(size, 16).map_err(|_| ChunkError::Malformed)?;
        self.left = self.left.checked_sub(size).ok_or(ChunkError::Length)?;
        signature.clone_into(&mut self.claimed);
        if size > 0 {
            self.state = State::Data { left: size };
            return Ok(());
        }
        if self.left > 0 {
            return Err(ChunkError::Length);
        }
        self.end_chunk()?;
        self.state = State::Trailer(Vec::new());
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), ChunkError> {
        let Some(signer) = &mut self.signer else { return Ok(()) };
        let hash = std::mem::take(&mut self.hash).finalize();
        if signer.chunk(&hash, &self.claimed) { Ok(()) } else { Err(ChunkError::Signature) }
    }

    /// The input has ended: gives the header fields behind the object.
    pub(crate) fn finish(&mut self) -> Result<HeaderMap, ChunkError> {
        let State::Trailer(bytes) = &mut self.state else { return Err(ChunkError::Incomplete) };
        let bytes = std::mem::take(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| ChunkError::Trailer)?;
        let mut fields = Vec::new();
        let mut signature = None;
        for line in text.split('\n').map(|line| line.trim_ascii()).filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(ChunkError::Trailer)?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim_ascii());
            if name == "x-amz-trailer-signature" {
                if signature.replace(value).is_some() {
                    return Err(ChunkError::Trailer);
                }
            } else if !self.announced.contains(&name) || fields.iter().any(|(known, _)| *known == name) {
                return Err(ChunkError::Trailer);
            } else {
                fields.push((name, value));
            }
        }
        if fields.len() != self.announced.len() {
            return Err(ChunkError::Trailer);
        }
        fields.sort();
        self.check_trailer(&fields, signature)?;
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| ChunkError::Trailer)?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|_| ChunkError::Trailer)?);
        }
        Ok(headers)
    }

    fn check_trailer(
        &mut self,
        fields: &[(String, &str)],
        signature: Option<&str>,
    ) -> Result<(), ChunkError> {
        match (&mut self.signer, signature) {
            (Some(signer), Some(signature)) => {
                let text: String = fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
                if signer.trailer(&text, signature) { Ok(()) } else { Err(ChunkError::Signature) }
            }
            (Some(_), None) if fields.is_empty() => Ok(()),
            (None, None) => Ok(()),
            _ => Err(ChunkError::Trailer),
        }
    }
}

/// Takes a line off the front of the input. Whether it is complete; it has no CR and LF then.
fn take_line(line: &mut Vec<u8>, input: &mut Bytes) -> Result<bool, ChunkError> {
    let end = input.iter().take(LINE_BYTES_MAX + 1).position(|byte| *byte == b'\n');
    let part = input.split_to(end.map_or(input.len().min(LINE_BYTES_MAX + 1), |end| end + 1));
    line.extend_from_slice(&part);
    if line.len() > LINE_BYTES_MAX {
        return Err(ChunkError::Malformed);
    }
    if end.is_none() {
        return Ok(false);
    }
    let content = line.strip_suffix(b"\r\n").map(<[u8]>::len).ok_or(ChunkError::Malformed)?;
    line.truncate(content);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a body in pieces of a size.
    fn decode(
        body: &[u8],
        length: u64,
        announced: &[&str],
        piece: usize,
    ) -> Result<(Vec<u8>, HeaderMap), ChunkError> {
        let announced = announced.iter().map(|name| (*name).to_owned()).collect();
        let mut decoder = Decoder::new(length, None, announced);
        let mut out = Vec::new();
        for part in body.chunks(piece) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(data) = decoder.take(&mut input)? {
                out.extend_from_slice(&data);
            }
        }
        Ok((out, decoder.finish()?))
    }

    #[test]
    fn chunks_are_joined_however_they_come() {
        let body = b"5\r\nhello\r\n00B\r\n, big world\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
        for piece in [1, 2, 3, 7, 1000] {
            let (out, trailers) = decode(body, 16, &["x-amz-checksum-crc32"], piece).unwrap();
            assert_eq!(out, b"hello, big world");
            assert_eq!(trailers["x-amz-checksum-crc32"], "AAAAAA==");
        }
        assert_eq!(decode(b"0\r\n\r\n", 0, &[], 4).unwrap().0, b"");
        assert_eq!(decode(b"0\r\n", 0, &[], 4).unwrap().0, b"");
    }

    #[test]
    fn bodies_that_are_not_as_announced_are_refused() {
        let table: &[(&[u8], u64, &[&str], ChunkError)] = &[
            (b"", 0, &[], ChunkError::Incomplete),
            (b"5\r\nhel", 5, &[], ChunkError::Incomplete),
            (b"5\r\nhello\r\n", 5, &[], ChunkError::Incomplete),
            (b"5\r\nhello\r\n0\r\n\r\n", 6, &[], ChunkError::Length),
            (b"5\r\nhello\r\n0\r\n\r\n", 4, &[], ChunkError::Length),
            (b"FFFFFFFFFFFFFFFF\r\nhello", 5, &[], ChunkError::Length),
            (b"11111111111111111\r\nhello", 5, &[], ChunkError::Malformed),
            (b"-5\r\nhello\r\n0\r\n\r\n", 5, &[], ChunkError::Malformed),
            (b"5\nhello\r\n0\r\n\r\n", 5, &[], ChunkError::Malformed),
            (b"5\r\nhelloXX0\r\n\r\n", 5, &[], ChunkError::Malformed),
            (b"5;chunk-signature=ab\r\nhello\r\n0\r\n\r\n", 5, &[], ChunkError::Malformed),
            (b"\r\n", 0, &[], ChunkError::Malformed),
            (&[b'1'; 300], 5, &[], ChunkError::Malformed),
            (b"0\r\nx-a:1\r\n\r\n", 0, &[], ChunkError::Trailer),
            (b"0\r\n\r\n", 0, &["x-a"], ChunkError::Trailer),
            (b"0\r\nx-a:1\r\nx-a:1\r\n\r\n", 0, &["x-a"], ChunkError::Trailer),
            (b"0\r\nx-a:1\r\nx-b:1\r\n\r\n", 0, &["x-a"], ChunkError::Trailer),
            (b"0\r\nx-a\r\n\r\n", 0, &["x-a"], ChunkError::Trailer),
            (b"0\r\nx-a:\xFF\r\n\r\n", 0, &["x-a"], ChunkError::Trailer),
            (b"0\r\nx-amz-trailer-signature:1\r\n\r\n", 0, &[], ChunkError::Trailer),
            (&[b"0\r\n".as_slice(), &[b'a'; 9000]].concat(), 0, &[], ChunkError::Malformed),
        ];
        for (body, length, announced, error) in table {
            for piece in [1, 3, 10_000] {
                let outcome = decode(body, *length, announced, piece);
                assert_eq!(outcome.unwrap_err(), *error, "{:?}", String::from_utf8_lossy(body));
            }
        }
    }
}
