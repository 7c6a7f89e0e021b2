//! A connection to a server that is kept: it sends what was made ready and throws away what it gets, but
//! for listings.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::body::Body;
use super::caller::Caller;
use super::sign::Asked;

/// Room for the head of an answer and for what is thrown away at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest line before a chunk.
const LINE_BYTES_MAX: usize = 1 << 10;
/// The longest body that is kept.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// A request without a body.
const NO_BODY: &str = "UNSIGNED-PAYLOAD";

/// One connection.
pub struct Link {
    stream: TcpStream,
    host: String,
    // The server said that it closes the connection behind its answer.
    closes: bool,
    caller: Caller,
    buffer: Vec<u8>,
    // What is in the buffer and was not looked at yet.
    begin: usize,
    end: usize,
}

/// What came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Bytes of the body.
    pub bytes: u64,
    /// The body, if it was to be kept or the status is an error's.
    pub kept: Vec<u8>,
}

/// How long a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    Bytes(u64),
    Chunked,
}

impl Link {
    /// Connects to `ADDRESS:PORT`.
    pub fn connect(host: &str, caller: impl Into<Caller>) -> Result<Self> {
        let (stream, host, caller) = (open(host)?, host.to_owned(), caller.into());
        Ok(Link { stream, host, closes: false, caller, buffer: vec![0; BUFFER_BYTES], begin: 0, end: 0 })
    }

    /// The connection for the next request: another one if the server closes this.
    fn ready(&mut self) -> Result<&mut TcpStream> {
        if self.closes {
            self.stream = open(&self.host)?;
            (self.closes, self.begin, self.end) = (false, 0, 0);
        }
        Ok(&mut self.stream)
    }

    /// Sends a request without a body; `keep`: the answer's body is wanted.
    pub fn ask(&mut self, method: &'static str, path: &str, query: &str, keep: bool) -> Result<Answer> {
        let zero = [("content-length", "0".to_owned())];
        let headers = if method == "PUT" { &zero[..] } else { &[] };
        self.send(Asked { method, path, query, headers, payload: NO_BODY }, &[], keep)
    }

    /// Puts an object.
    pub fn put(&mut self, path: &str, body: &Body<'_>) -> Result<Answer> {
        let (headers, lines) = (body.headers(), body.chunks());
        let asked = Asked { method: "PUT", path, query: "", headers: &headers, payload: body.payload() };
        self.send(asked, &body.pieces(&lines), false)
    }

    /// Sends a request with a body, whose length `asked` tells.
    pub fn send(&mut self, asked: Asked<'_>, body: &[&[u8]], keep: bool) -> Result<Answer> {
        let head = self.caller.head(asked);
        let pieces = [&[head.as_bytes()], body].concat();
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        self.ready()?;
        while !left.is_empty() {
            match self.stream.write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A server that refuses may answer and close before it has read all.
                Err(error) => return self.answer(true).map_err(|_| error),
            }
        }
        self.answer(keep)
    }

    fn answer(&mut self, keep: bool) -> Result<Answer> {
        loop {
            let head = self.line(b"\r\n\r\n", HEAD_BYTES_MAX)?.to_ascii_lowercase();
            let (status, length) =
                parse(&head).ok_or_else(|| Error::other(format!("the answer is not understood: {head}")))?;
            if status == 100 {
                continue;
            }
            self.closes = head.contains("\r\nconnection: close\r\n");
            let mut answer = Answer { status, bytes: 0, kept: Vec::new() };
            let keep = keep || status >= 300;
            match length {
                Length::Bytes(bytes) => self.body(bytes, keep, &mut answer)?,
                Length::Chunked => self.chunks(keep, &mut answer)?,
            }
            return Ok(answer);
        }
    }

    fn chunks(&mut self, keep: bool, answer: &mut Answer) -> Result<()> {
        loop {
            let line = self.line(b"\r\n", LINE_BYTES_MAX)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| Error::other("a chunk without a size"))?;
            self.body(size, keep, answer)?;
            // A chunk ends with an empty line; behind the last one trailers may stand.
            while !self.line(b"\r\n", LINE_BYTES_MAX)?.trim_end().is_empty() {}
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn body(&mut self, bytes: u64, keep: bool, answer: &mut Answer) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            if self.begin == self.end {
                self.fill()?;
            }
            let count = (self.end - self.begin).min(usize::try_from(left).unwrap_or(usize::MAX));
            if keep && answer.kept.len() + count <= KEPT_BYTES_MAX {
                let part = self.buffer.get(self.begin..self.begin + count).unwrap_or_default();
                answer.kept.extend_from_slice(part);
            }
            self.begin += count;
            left -= count as u64;
        }
        answer.bytes += bytes;
        Ok(())
    }

    /// What comes up to and with `mark`.
    fn line(&mut self, mark: &[u8], most: usize) -> Result<String> {
        loop {
            let ready = self.buffer.get(self.begin..self.end).unwrap_or_default();
            if let Some(at) = ready.windows(mark.len()).position(|part| part == mark) {
                let line =
                    String::from_utf8_lossy(ready.get(..at + mark.len()).unwrap_or_default()).into_owned();
                self.begin += at + mark.len();
                return Ok(line);
            }
            if ready.len() >= most {
                return Err(Error::other("a line of the answer is too long"));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let count = self.stream.read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.end += count;
        Ok(())
    }
}

fn open(host: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Status and length of the body, from a head in lower case.
fn parse(head: &str) -> Option<(u16, Length)> {
    let mut lines = head.lines();
    let status: u16 = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    if status == 100 || status == 204 || status == 304 {
        return Some((status, Length::Bytes(0)));
    }
    for line in lines {
        if let Some(length) = line.strip_prefix("content-length:") {
            return Some((status, Length::Bytes(length.trim().parse().ok()?)));
        }
        if line.strip_prefix("transfer-encoding:").is_some_and(|value| value.trim() == "chunked") {
            return Some((status, Length::Chunked));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::sign::Signer;
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn heads_are_parsed() {
        assert_eq!(parse("http/1.1 200 ok\r\ncontent-length: 17\r\n\r\n"), Some((200, Length::Bytes(17))));
        assert_eq!(
            parse("http/1.1 200 ok\r\ntransfer-encoding: chunked\r\n\r\n"),
            Some((200, Length::Chunked))
        );
        assert_eq!(parse("http/1.1 204 no content\r\n\r\n"), Some((204, Length::Bytes(0))));
        assert_eq!(parse("http/1.1 200 ok\r\n\r\n"), None);
    }

    #[test]
    fn answers_are_read_to_their_ends_whatever_their_form() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let answers = [
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
            ];
            for answer in answers {
                let mut seen = Vec::new();
                while !seen.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    seen.extend(byte);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut link = Link::connect(&host, Signer::new(&host, "a", "b")).unwrap();
        let found = link.ask("GET", "/b/k", "", true).unwrap();
        assert_eq!((found.status, found.bytes, found.kept.as_slice()), (200, 5, &b"abcde"[..]));
        let found = link.ask("GET", "/b/k", "", false).unwrap();
        assert_eq!((found.status, found.kept.as_slice()), (404, &b"none"[..]));
        server.join().unwrap();
    }
}
