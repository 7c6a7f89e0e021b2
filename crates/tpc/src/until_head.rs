//! A stream of which only so much is read before the head of the answer is there.
//!
//! hyper passes over answers of 1xx, however many there are. A server that sends them without end, as fast
//! as they are read, kept the threads of all connections of this server busy until the wait was over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What may come before it: many times a head, and what is read ahead of it.
const BYTES_MAX: usize = 2 << 20;

/// Whether the head is there.
#[derive(Clone, Default)]
pub(crate) struct HasHead(Arc<AtomicBool>);

impl HasHead {
    /// It is: what follows is bounded by who reads it.
    pub(crate) fn tell(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The stream.
pub(crate) struct UntilHead<S> {
    stream: S,
    left: usize,
    has_head: HasHead,
}

impl<S> UntilHead<S> {
    pub(crate) fn new(stream: S, has_head: HasHead) -> Self {
        UntilHead { stream, left: BYTES_MAX, has_head }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilHead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if !self.has_head.0.load(Ordering::Acquire) {
            let read = buf.filled().len() - before;
            let Some(left) = self.left.checked_sub(read) else {
                return Poll::Ready(Err(io::Error::other("no answer comes of very many bytes")));
            };
            self.left = left;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UntilHead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
