//! A file by several connections: ranges that are fetched beside each other and given on in order.
//!
//! The file is cut into ranges of equal length. As many are under way as there are connections; a range that
//! came too early waits in memory, and the next one begins once the first of those under way is given on:
//! together they never hold more than the window.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use base::ByteCount;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_RANGE, IF_MATCH, RANGE};
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::body::Rated;
use crate::client::Session;
use crate::connect::AbortOnDrop;
use crate::connections::IfFull;
use crate::error::Error;
use crate::exchange::Answer;
use crate::pull::{check_coding, strong_etag};
use crate::settings::Limits;
use crate::target::Target;

/// Shorter pieces of a range wait for more of it: each takes memory of its own beside its bytes, which a
/// source that sends one byte at a time would have us multiply.
const PIECE_BYTES_MIN: usize = 64 << 10;
/// Shorter ranges are not worth a connection.
const RANGE_BYTES_MIN: u64 = 1 << 20;

/// How long a range is, so that all that are under way fit into the window.
pub(crate) fn first_range(limits: &Limits, streams: usize) -> u64 {
    (limits.window.0 / streams.max(1) as u64).max(RANGE_BYTES_MIN)
}

/// The ranges of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RangeOf {
    /// Of the file.
    pub length: u64,
    /// Which all of them have.
    etag: String,
    /// Of a range; the last one may be shorter.
    bytes: u64,
    streams: usize,
}

impl RangeOf {
    /// Asks for a range.
    pub(crate) fn ask(headers: &mut HeaderMap, start: u64, bytes: u64) {
        let last = start.saturating_add(bytes).saturating_sub(1);
        if let Ok(value) = HeaderValue::try_from(format!("bytes={start}-{last}")) {
            headers.insert(RANGE, value);
        }
    }

    /// What the answer to the first range says of all.
    pub(crate) fn read(headers: &HeaderMap, etag: String, bytes: u64, streams: usize) -> Result<Self, Error> {
        let (first, last, length) = content_range(headers).ok_or(Error::Range)?;
        let fits = first == 0 && length > 0 && last == bytes.min(length) - 1;
        if fits { Ok(RangeOf { length, etag, bytes, streams }) } else { Err(Error::Range) }
    }

    /// How many bytes the range has that begins here.
    fn at(&self, start: u64) -> u64 {
        self.bytes.min(self.length.saturating_sub(start))
    }

    /// That the answer is this range of the same file.
    fn check(&self, answer: &Answer, start: u64) -> Result<(), Error> {
        let headers = answer.response.headers();
        match answer.response.status().as_u16() {
            206 => {}
            // The condition, or the whole file: it is another one, or no longer answers to ranges.
            200 | 412 | 416 => return Err(Error::Changed),
            other => return Err(Error::Status(other)),
        }
        check_coding(headers)?;
        if strong_etag(headers).as_ref() != Some(&self.etag) {
            return Err(Error::Changed);
        }
        let wanted = (start, start + self.at(start) - 1, self.length);
        if content_range(headers) == Some(wanted) { Ok(()) } else { Err(Error::Range) }
    }
}

/// First byte, last byte and length of the file: `bytes 0-1048575/4194304`.
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let mut values = headers.get_all(CONTENT_RANGE).iter();
    let value = values.next()?.to_str().ok()?.trim();
    if values.next().is_some() {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (range, length) = value.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, length) = (number(first)?, number(last)?, number(length)?);
    (first <= last && last < length).then_some((first, last, length))
}

/// All ranges, in order.
pub(crate) struct Ordered {
    fetch: Fetch,
    /// The ranges under way, the next to be given on first.
    lanes: VecDeque<Lane>,
    /// Where the next range begins that is not under way.
    next: u64,
    given: u64,
}

/// A range under way.
struct Lane {
    pieces: UnboundedReceiver<Result<Bytes, Error>>,
    left: u64,
    _task: AbortOnDrop<()>,
}

#[derive(Clone)]
struct Fetch {
    session: Session,
    target: Target,
    headers: HeaderMap,
    of: RangeOf,
}

impl Ordered {
    /// Begins with the answer to the first range.
    pub(crate) fn start(
        session: Session,
        target: Target,
        mut headers: HeaderMap,
        of: RangeOf,
        first: Answer,
    ) -> Self {
        if let Ok(etag) = HeaderValue::from_str(&of.etag) {
            headers.insert(IF_MATCH, etag);
        }
        let streams = of.streams;
        let fetch = Fetch { session, target, headers, of };
        let mut ordered = Ordered { fetch, lanes: VecDeque::new(), next: 0, given: 0 };
        ordered.begin(Some(first));
        while ordered.lanes.len() < streams && ordered.begin(None) {}
        ordered
    }

    pub(crate) fn length(&self) -> u64 {
        self.fetch.of.length
    }

    /// Begins the next range; `false` if there is none.
    fn begin(&mut self, answered: Option<Answer>) -> bool {
        let (start, left) = (self.next, self.fetch.of.at(self.next));
        if left == 0 {
            return false;
        }
        let (sender, pieces) = unbounded_channel();
        let fetch = self.fetch.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = fetch.range(start, answered, &sender).await {
                // Nobody may listen any more.
                let _ = sender.send(Err(error));
            }
        });
        self.lanes.push_back(Lane { pieces, left, _task: AbortOnDrop(task) });
        self.next += left;
        true
    }

    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let Some(lane) = self.lanes.front_mut() else { return Poll::Ready(None) };
            match ready!(lane.pieces.poll_recv(cx)) {
                Some(Ok(bytes)) => {
                    let length = bytes.len() as u64;
                    (lane.left, self.given) = (lane.left.saturating_sub(length), self.given + length);
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if lane.left == 0 => {
                    self.lanes.pop_front();
                    self.begin(None);
                }
                None => {
                    let after = ByteCount(self.given);
                    return Poll::Ready(Some(Err(Error::Broken { after })));
                }
            }
        }
    }
}

impl Fetch {
    /// Brings a range. It is bounded by its own length, so that the channel needs no bound.
    async fn range(
        &self,
        start: u64,
        answered: Option<Answer>,
        to: &UnboundedSender<Result<Bytes, Error>>,
    ) -> Result<(), Error> {
        let bytes = self.of.at(start);
        let timeouts = &self.session.config.settings.timeouts;
        let answer = match answered {
            Some(answer) => answer,
            None => {
                let mut headers = self.headers.clone();
                RangeOf::ask(&mut headers, start, bytes);
                // Others of this copy are open and come to an end.
                let wait = IfFull::Wait(timeouts.first_byte);
                self.session.exchange(&Method::GET, &self.target, &headers, wait, None).await?
            }
        };
        self.of.check(&answer, start)?;
        let Answer { response, line, .. } = answer;
        let mut body = Rated::new(response.into_body(), line, timeouts.lowest, Some(bytes));
        let mut gathered = Gathered::default();
        while let Some(piece) = std::future::poll_fn(|cx| body.poll_bytes(cx)).await {
            if let Some(piece) = gathered.add(piece?)
                && to.send(Ok(piece)).is_err()
            {
                return Ok(());
            }
        }
        if let Some(rest) = gathered.take() {
            // Nobody may listen any more.
            let _ = to.send(Ok(rest));
        }
        Ok(())
    }
}

/// Short pieces, put together.
#[derive(Default)]
struct Gathered(BytesMut);

impl Gathered {
    /// Takes a piece; gives one that is long enough to be handed on.
    fn add(&mut self, piece: Bytes) -> Option<Bytes> {
        if self.0.is_empty() && piece.len() >= PIECE_BYTES_MIN {
            return Some(piece);
        }
        self.0.extend_from_slice(&piece);
        if self.0.len() >= PIECE_BYTES_MIN { self.take() } else { None }
    }

    fn take(&mut self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| std::mem::take(&mut self.0).freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: &str) -> Option<(u64, u64, u64)> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_RANGE, HeaderValue::from_str(value).unwrap());
        content_range(&headers)
    }

    #[test]
    fn short_pieces_are_put_together_and_long_ones_handed_on() {
        let mut gathered = Gathered::default();
        let long = Bytes::from(vec![7; PIECE_BYTES_MIN]);
        assert_eq!(gathered.add(long.clone()), Some(long.clone()));
        let mut handed = Vec::new();
        for byte in 0..PIECE_BYTES_MIN + 3 {
            handed.extend(gathered.add(Bytes::from(vec![u8::try_from(byte & 0xff).unwrap()])));
        }
        assert_eq!(handed.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE_BYTES_MIN]);
        // In order, also with a long one behind short ones.
        let rest = gathered.add(long).unwrap();
        assert_eq!((rest.len(), rest.get(..4)), (PIECE_BYTES_MIN + 3, Some(&[0, 1, 2, 7][..])));
        assert_eq!(gathered.take(), None);
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(range("bytes 0-9/10"), Some((0, 9, 10)));
        assert_eq!(range("bytes 5-5/18446744073709551615"), Some((5, 5, u64::MAX)));
        for wrong in [
            "",
            "bytes",
            "bytes 0-9",
            "bytes 0-9/*",
            "bytes */10",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "bytes +0-9/10",
            "bytes 0-9/18446744073709551616",
            "items 0-9/10",
            "bytes -9/10",
            "bytes 0--9/10",
        ] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
