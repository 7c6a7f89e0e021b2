//! Bodies of requests that end with an error if their client sends too slowly.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::fault::Fault;
use crate::places::Pace;
use crate::rate::{LowestRate, RateWindow};
use crate::up::AnyError;

/// A body that has to come at the lowest rate; else it ends with an error of the kind
/// [`ErrorKind::TimedOut`], as one whose client goes away with [`ErrorKind::UnexpectedEof`]. Time in which
/// nobody asks for it does not count.
pub struct Paced<B> {
    body: B,
    rate: RateWindow,
    /// Since when, and until when at most, somebody waits for the client.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Paced<B> {
    /// The body, of a client that has to be as fast as `pace` says.
    pub fn new(body: B, rate: LowestRate, pace: Pace) -> Self {
        Paced { body, rate: RateWindow::new(rate, pace), waiting: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B>
where
    B::Error: Into<AnyError>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
                let waited = this.waiting.take().map(|(since, _)| since.elapsed()).unwrap_or_default();
                let bytes = match &frame {
                    Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len) as u64,
                    Some(Err(_)) | None => 0,
                };
                // A client that is too slow is found at its next wait, so that the end of a body always
                // counts.
                let _ = this.rate.note(waited, bytes);
                return Poll::Ready(
                    frame.map(|frame| frame.map_err(|error| Error::new(ErrorKind::UnexpectedEof, error))),
                );
            }
            let remaining = this.rate.remaining();
            let (since, until) =
                this.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(remaining))));
            if until.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let waited = since.elapsed().max(remaining);
            this.waiting = None;
            if !this.rate.note(waited, 0) {
                return Poll::Ready(Some(Err(Error::new(ErrorKind::TimedOut, Fault::TooSlow))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
