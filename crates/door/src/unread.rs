//! Bodies of requests that nobody reads to their end: the connection cannot be used again, and the reply says
//! so, or the client would learn it from its next request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response};

/// A body that tells whether it was read to its end.
pub(crate) struct Watched {
    incoming: Incoming,
    unread: Arc<AtomicBool>,
}

/// What is known of a body while, and after, it is read.
pub(crate) struct Unread(Arc<AtomicBool>);

/// Has the body of a request watched.
pub(crate) fn watch(request: Request<Incoming>) -> (Request<Watched>, Unread) {
    let unread = Arc::new(AtomicBool::new(!request.body().is_end_stream()));
    let watched = request.map(|incoming| Watched { incoming, unread: Arc::clone(&unread) });
    (watched, Unread(unread))
}

impl Unread {
    /// Tells the client that this is the last reply on its connection, if it is.
    pub(crate) fn tell<B>(&self, response: &mut Response<B>) {
        if self.0.load(Ordering::Acquire) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.incoming.is_end_stream() {
            self.unread.store(false, Ordering::Release);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
