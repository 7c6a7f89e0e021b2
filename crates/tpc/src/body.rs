//! The bytes of a file on their way in.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use base::ByteCount;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::connect::Line;
use crate::error::Error;
use crate::ranges::Ordered;
use crate::rate::{LowestRate, RateWindow};

/// The bytes of a file that is fetched, in order. It ends well only after as many bytes as were announced.
/// Dropping it ends the copy and closes its connections.
pub struct PullBody {
    from: From,
    length: Option<ByteCount>,
    came: u64,
    is_over: bool,
}

enum From {
    One(Box<Rated>),
    Several(Box<Ordered>),
}

impl PullBody {
    pub(crate) fn one(rated: Rated) -> Self {
        let length = rated.announced.map(ByteCount);
        PullBody { from: From::One(Box::new(rated)), length, came: 0, is_over: false }
    }

    pub(crate) fn several(ordered: Ordered) -> Self {
        let length = Some(ByteCount(ordered.length()));
        PullBody { from: From::Several(Box::new(ordered)), length, came: 0, is_over: false }
    }

    /// The next bytes, at least one; `None` once all have come.
    ///
    /// # Errors
    /// [`Error`]; nothing comes after one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|cx| self.poll_bytes(cx)).await.transpose()
    }

    /// How many bytes have come so far.
    #[must_use]
    pub fn came(&self) -> ByteCount {
        ByteCount(self.came)
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = match &mut self.from {
            From::One(rated) => rated.poll_bytes(cx),
            From::Several(ordered) => ordered.poll_bytes(cx),
        };
        match &next {
            Poll::Ready(Some(Ok(bytes))) => self.came += bytes.len() as u64,
            Poll::Ready(_) => self.is_over = true,
            Poll::Pending => {}
        }
        next
    }
}

impl Body for PullBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.get_mut().poll_bytes(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            Some(length) => SizeHint::with_exact(length.0.saturating_sub(self.came)),
            None => SizeHint::new(),
        }
    }
}

/// One answer's body, at the lowest rate at least.
pub(crate) struct Rated {
    incoming: Incoming,
    _line: Line,
    window: RateWindow,
    /// Since when the server keeps us waiting.
    waits_since: Option<Instant>,
    wake: Pin<Box<Sleep>>,
    announced: Option<u64>,
    came: u64,
}

impl Rated {
    /// `announced` bytes are to come; `None`: as many as its framing says.
    pub(crate) fn new(incoming: Incoming, line: Line, rate: LowestRate, announced: Option<u64>) -> Self {
        let (window, wake) = (RateWindow::new(rate), Box::pin(sleep(rate.window)));
        Rated { incoming, _line: line, window, waits_since: None, wake, announced, came: 0 }
    }

    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let Poll::Ready(next) = pin!(&mut self.incoming).poll_frame(cx) else {
                return self.poll_rate(cx).map(|error| Some(Err(error)));
            };
            let bytes = match next {
                None => return Poll::Ready(self.end().err().map(Err)),
                Some(Err(error)) => {
                    tracing::info!(%error, after = self.came, "the body of a copy ended in the middle");
                    return Poll::Ready(Some(Err(Error::Broken { after: ByteCount(self.came) })));
                }
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if bytes.is_empty() {
                continue;
            }
            let waited = self.waits_since.take().map(|since| since.elapsed()).unwrap_or_default();
            self.came = self.came.saturating_add(bytes.len() as u64);
            let noted = self.window.note(waited, bytes.len() as u64);
            if self.announced.is_some_and(|announced| self.came > announced) {
                return Poll::Ready(Some(Err(self.wrong_length())));
            }
            return Poll::Ready(Some(noted.map(|()| bytes)));
        }
    }

    /// Waits for the server, as long as its rate lets it.
    fn poll_rate(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        loop {
            if self.waits_since.is_none() {
                let now = Instant::now();
                self.waits_since = Some(now);
                self.wake.as_mut().reset(now + self.window.remaining());
            }
            ready!(self.wake.as_mut().poll(cx));
            let waited = self.waits_since.take().map(|since| since.elapsed()).unwrap_or_default();
            if let Err(error) = self.window.note(waited, 0) {
                return Poll::Ready(error);
            }
        }
    }

    fn end(&self) -> Result<(), Error> {
        let is_all = self.announced.is_none_or(|announced| announced == self.came);
        if is_all { Ok(()) } else { Err(self.wrong_length()) }
    }

    fn wrong_length(&self) -> Error {
        Error::Length { announced: ByteCount(self.announced.unwrap_or_default()), came: ByteCount(self.came) }
    }
}
