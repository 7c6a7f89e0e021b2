//! The least client of HTTP/1.1 that can measure a server: it neither copies nor hashes what it sends, and
//! throws away what it gets. Not for anything else: it knows only answers with a `Content-Length`.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::Client;

/// Room for the head of an answer and for what is thrown away at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// One connection that is kept.
pub struct RawConnection {
    stream: TcpStream,
    host: String,
    authorization: String,
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Bytes of the body, all thrown away.
    pub bytes: u64,
}

impl RawConnection {
    /// Connects to the server of a client, with its key.
    pub fn connect(client: &Client) -> Result<Self> {
        let host = client.url().trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let authorization = client.authorization();
        Ok(RawConnection { stream, host, authorization, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends a request without a body.
    pub fn get(&mut self, target: &str) -> Result<Reply> {
        let head = self.head("GET", target, "");
        self.stream.write_all(head.as_bytes())?;
        self.reply()
    }

    /// Sends a body of `length` bytes that `parts` repeats for ever, one behind the other, after `first`.
    pub fn put(&mut self, target: &str, key: &str, length: u64, first: &[u8], parts: &[u8]) -> Result<Reply> {
        let more = format!("idempotency-key: {key}\r\ncontent-length: {length}\r\n");
        let head = self.head("PUT", target, &more);
        let first = first.get(..first.len().min(length as usize)).unwrap_or_default();
        let mut left = length - first.len() as u64;
        let next = parts.get(..parts.len().min(left as usize)).unwrap_or_default();
        // One call for a small request, as a good client does it.
        let slices = [IoSlice::new(head.as_bytes()), IoSlice::new(first), IoSlice::new(next)];
        let mut sent = self.stream.write_vectored(&slices)?;
        for part in [head.as_bytes(), first] {
            let now = sent.min(part.len());
            self.stream.write_all(part.get(now..).unwrap_or_default())?;
            sent -= now;
        }
        left -= sent as u64;
        let mut at = sent;
        while left > 0 {
            let rest = parts.get(at % parts.len()..).unwrap_or_default();
            let now = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.stream.write_all(rest.get(..now).unwrap_or_default())?;
            left -= now as u64;
            at += now;
        }
        self.reply()
    }

    fn head(&self, method: &str, target: &str, more: &str) -> String {
        let (host, authorization) = (&self.host, &self.authorization);
        format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nauthorization: {authorization}\r\n{more}\r\n")
    }

    fn reply(&mut self) -> Result<Reply> {
        let mut filled = 0;
        let end = loop {
            let room = self.buffer.get_mut(filled..).unwrap_or_default();
            let count = self.stream.read(room)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            filled += count;
            let head = self.buffer.get(..filled.min(HEAD_BYTES_MAX)).unwrap_or_default();
            match head.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None if filled >= HEAD_BYTES_MAX => {
                    return Err(Error::other("the answer's head is too long"));
                }
                None => {}
            }
        };
        let head = String::from_utf8_lossy(self.buffer.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let (status, bytes) = parse(&head).ok_or_else(|| Error::other("the answer is not understood"))?;
        let mut left = bytes.saturating_sub((filled - end) as u64);
        while left > 0 {
            let most = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = self.stream.read(self.buffer.get_mut(..most).unwrap_or_default())?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= count as u64;
        }
        Ok(Reply { status, bytes })
    }
}

/// Status and length of the body, from a head in lower case.
fn parse(head: &str) -> Option<(u16, u64)> {
    let mut lines = head.lines();
    let status = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let length = lines.find_map(|line| line.strip_prefix("content-length:"));
    Some((status, length?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed() {
        let head = "http/1.1 201 created\r\netag: \"5\"\r\ncontent-length: 17\r\n\r\n";
        assert_eq!(parse(head), Some((201, 17)));
        assert_eq!(parse("http/1.1 200 ok\r\ntransfer-encoding: chunked\r\n\r\n"), None);
    }
}
