//! A connection that breaks off a client that takes its reply too slowly, and that listens a little longer
//! once closed.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::Limits;
use transfer::{Pace, RateWindow};

/// Bytes that are read away at once from a closed connection.
const LINGER_BUFFER: usize = 16 << 10;

/// A guarded connection. A client that sends its header too slowly is hyper's business, one that sends its
/// body too slowly that of `put` and `json`.
pub(crate) struct GuardedStream<S> {
    inner: S,
    rate: RateWindow,
    /// Since when, and until when at most, the door waits for the client to take bytes.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    linger: Linger,
    linger_for: std::time::Duration,
    linger_bytes: u64,
}

/// Closing a socket with unread bytes resets the connection, and the client may lose the reply, such as the
/// 401 to a large upload. So the writing side is closed first, and what still comes is thrown away for a
/// short while.
enum Linger {
    Open,
    Closing { until: Pin<Box<Sleep>> },
    Closed,
}

impl<S> GuardedStream<S> {
    /// `pace`: of the request that is answered, where there is one at a time.
    pub(crate) fn new(inner: S, limits: &Limits, pace: Pace) -> Self {
        GuardedStream {
            inner,
            rate: RateWindow::new(limits.transfer.rate, pace),
            waiting: None,
            linger: Linger::Open,
            linger_for: limits.linger,
            linger_bytes: limits.linger_bytes,
        }
    }

    /// Looks at the outcome of a write: notes how long the client kept the door waiting.
    fn judge(&mut self, outcome: Poll<Result<usize>>, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        match outcome {
            Poll::Ready(outcome) => {
                let bytes = *outcome.as_ref().unwrap_or(&0) as u64;
                let waited = self.waiting.take().map(|(since, _)| since.elapsed()).unwrap_or_default();
                if !self.rate.note(waited, bytes) {
                    return Poll::Ready(Err(too_slow()));
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                let remaining = self.rate.remaining();
                let (since, until) =
                    self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(remaining))));
                ready!(until.as_mut().poll(cx));
                let waited = since.elapsed().max(remaining);
                self.waiting = None;
                if !self.rate.note(waited, 0) {
                    return Poll::Ready(Err(too_slow()));
                }
                // The client took enough; the next window begins with the next poll.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the client takes the reply too slowly")
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.judge(outcome, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.judge(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.linger {
                Linger::Open => {
                    ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
                    this.linger = Linger::Closing { until: Box::pin(sleep(this.linger_for)) };
                }
                Linger::Closing { until } => {
                    if until.as_mut().poll(cx).is_ready() {
                        this.linger = Linger::Closed;
                        continue;
                    }
                    let mut bytes = [0u8; LINGER_BUFFER];
                    let mut buffer = ReadBuf::new(&mut bytes);
                    let read = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer));
                    let count = buffer.filled().len() as u64;
                    this.linger_bytes = this.linger_bytes.saturating_sub(count);
                    if read.is_err() || count == 0 || this.linger_bytes == 0 {
                        this.linger = Linger::Closed;
                    }
                }
                Linger::Closed => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ByteCount, Duration};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use transfer::{LowestRate, TransferLimits};

    fn limits() -> Limits {
        let rate = LowestRate { bytes: ByteCount(1000), window: Duration::from_secs(10) };
        let transfer = TransferLimits { rate, ..TransferLimits::default() };
        Limits { transfer, linger: Duration::from_secs(2), ..Limits::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_broken_off() {
        let (near, _far) = duplex(64);
        let mut guarded = GuardedStream::new(near, &limits(), Pace::default());
        let begun = Instant::now();
        let error = guarded.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_enough_is_served_however_long_it_takes() {
        let (near, mut far) = duplex(100);
        let mut guarded = GuardedStream::new(near, &limits(), Pace::default());
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 110];
            for _ in 0..100 {
                sleep(Duration::from_millis(900)).await;
                far.read_exact(&mut bytes[..100]).await.unwrap();
            }
            far
        });
        let begun = Instant::now();
        guarded.write_all(&[0; 10_000]).await.unwrap();
        assert!(begun.elapsed().as_secs() > 80, "so the rate was judged eight times");
        drop(reader.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_anything_to_write_does_not_count() {
        let (near, mut far) = duplex(64);
        let mut guarded = GuardedStream::new(near, &limits(), Pace::default());
        for _ in 0..5 {
            sleep(Duration::from_secs(100)).await;
            guarded.write_all(&[7; 64]).await.unwrap();
            far.read_exact(&mut [0; 64]).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_connection_listens_until_the_client_closes() {
        let (near, mut far) = duplex(64);
        let mut guarded = GuardedStream::new(near, &limits(), Pace::default());
        let client = tokio::spawn(async move {
            far.write_all(&[1; 1000]).await.unwrap();
            sleep(Duration::from_secs(1)).await;
        });
        let begun = Instant::now();
        guarded.shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 1);
        client.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn but_not_for_ever() {
        let (near, _far) = duplex(64);
        let mut guarded = GuardedStream::new(near, &limits(), Pace::default());
        let begun = Instant::now();
        guarded.shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 2);
    }
}
