//! HTTP/2: what one connection may keep busy. The limits of `h2` hold for frames; those here for requests
//! that are taken back, replies that are not taken, and connections that do nothing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use base::Duration;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::Limits;
use transfer::{Pace, RateWindow};

/// The largest piece of a reply that is handed on at once. `h2` takes a piece as soon as the client allows
/// one byte, so a larger one would lie in memory for a client that takes nothing.
const PIECE_BYTES: usize = 64 << 10;

/// The least time between two looks at the streams of a connection.
pub(crate) const TICK_MIN: Duration = Duration::from_millis(5);

/// A builder with all limits set.
pub(crate) fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(limits.streams as usize)
        .max_local_error_reset_streams(limits.resets as usize)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_frame_size(limits.frame_bytes.clamp(16 << 10, (16 << 20) - 1))
        .max_send_buf_size(limits.send_buffer_bytes)
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping_deadline);
    builder
}

/// What is known of the streams of one connection.
pub(crate) struct Streams {
    state: Mutex<State>,
    /// A limit was passed: the connection is to be closed at once.
    pub cut: Notify,
    limits: Limits,
}

struct State {
    active: usize,
    idle_since: Instant,
    /// Requests that may still be taken back, as of `counted`.
    resets: f64,
    counted: Instant,
    /// The replies on their way, by a running number.
    replies: Vec<(u64, Reply)>,
    next: u64,
}

/// A reply on its way.
struct Reply {
    rate: RateWindow,
    /// Since when the client is to take a piece, and its size.
    handed: Option<(Instant, u64)>,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Fine,
    /// Nothing has run for as long as was asked.
    Idle,
    /// A reply is not taken.
    Slow,
}

impl Streams {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            active: 0,
            idle_since: now,
            resets: f64::from(limits.resets),
            counted: now,
            replies: Vec::new(),
            next: 0,
        };
        Arc::new(Streams { state: Mutex::new(state), cut: Notify::new(), limits: limits.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins. What is given back has to be told how it ends.
    pub(crate) fn begin(self: &Arc<Self>) -> Stream {
        self.state().active += 1;
        Stream { streams: self.clone(), complete: false }
    }

    /// How often [`Streams::judge`] is to be asked.
    pub(crate) fn tick(&self) -> Duration {
        (self.limits.transfer.rate.window.min(self.limits.header_deadline) / 4).max(TICK_MIN)
    }

    /// Looks at replies that wait for the client, and at a connection without any.
    pub(crate) fn judge(&self, idle_max: Duration) -> Verdict {
        let mut state = self.state();
        for (_, reply) in &mut state.replies {
            let Some((since, _)) = &mut reply.handed else { continue };
            let waited = since.elapsed();
            // A wait that fills the window ends it: the piece that is still not taken does not count.
            if waited >= reply.rate.remaining() {
                if !reply.rate.note(waited, 0) {
                    return Verdict::Slow;
                }
                *since = Instant::now();
            }
        }
        if state.active == 0 && state.idle_since.elapsed() >= idle_max {
            Verdict::Idle
        } else {
            Verdict::Fine
        }
    }

    /// A request was taken back.
    fn reset(&self) {
        let mut state = self.state();
        let back = state.counted.elapsed().as_secs_f64() * f64::from(self.limits.resets_per_second);
        state.counted = Instant::now();
        state.resets = (state.resets + back).min(f64::from(self.limits.resets)) - 1.0;
        if state.resets < 0.0 {
            self.cut.notify_one();
        }
    }
}

/// One request and its reply. Dropped before it was complete, it was taken back by the client.
pub(crate) struct Stream {
    streams: Arc<Streams>,
    complete: bool,
}

impl Stream {
    /// The reply, watched until it is sent.
    pub(crate) fn reply(self, body: Body, pace: Pace) -> Body {
        let number = {
            let mut state = self.streams.state();
            let number = state.next;
            state.next += 1;
            let rate = RateWindow::new(self.streams.limits.transfer.rate, pace);
            state.replies.push((number, Reply { rate, handed: None }));
            number
        };
        let mut stream = self;
        // A body that has no bytes may never be asked for them.
        stream.complete = body.is_end_stream();
        Body::new(Taken { body, rest: Bytes::new(), number, stream })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.active -= 1;
        state.idle_since = Instant::now();
        drop(state);
        if !self.complete {
            self.streams.reset();
        }
    }
}

/// The body of a reply, in small pieces.
struct Taken {
    body: Body,
    rest: Bytes,
    number: u64,
    stream: Stream,
}

impl Taken {
    /// Hands on a piece, or notes that the last one was taken.
    fn hand(&self, bytes: Option<u64>) {
        let mut state = self.stream.streams.state();
        let Some((_, reply)) = state.replies.iter_mut().find(|(number, _)| *number == self.number) else {
            return;
        };
        if let Some((since, bytes)) = reply.handed.take() {
            // One that is too slow is found while it keeps the door waiting.
            let _ = reply.rate.note(since.elapsed(), bytes);
        }
        reply.handed = bytes.map(|bytes| (Instant::now(), bytes));
    }
}

impl HttpBody for Taken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        this.hand(None);
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)).transpose()? {
                None => {
                    this.stream.complete = true;
                    return Poll::Ready(None);
                }
                Some(frame) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        this.hand(Some(piece.len() as u64));
        this.stream.complete = this.is_end_stream();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let number = self.number;
        self.stream.streams.state().replies.retain(|(other, _)| *other != number);
    }
}
