//! Bodies of requests for mounted services: a client that sends too slowly ends them with an error.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use authority::Pace;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::Limits;
use crate::rate::RateWindow;

/// A body that has to come at the rate that [`Limits`] name. Time in which nobody asks for it does not count.
pub(crate) struct Paced<B> {
    body: B,
    rate: RateWindow,
    /// Since when, and until when at most, somebody waits for the client.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B, limits: &Limits, pace: Pace) -> Self {
        Paced { body, rate: RateWindow::new(limits.rate_bytes, limits.rate_window, pace), waiting: None }
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for Paced<B> {
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
                return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
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
                return Poll::Ready(Some(Err(Error::new(ErrorKind::TimedOut, "the body comes too slowly"))));
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

fn broken(error: hyper::Error) -> Error {
    Error::new(ErrorKind::UnexpectedEof, error)
}
