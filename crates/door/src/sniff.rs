//! Which protocol a client speaks: HTTP/2 begins with a preface that no request of HTTP/1 begins with.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// RFC 9113, 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream of which the first bytes were read already; it gives them again.
pub(crate) struct Sniffed<S> {
    first: [u8; PREFACE.len()],
    /// Of the first bytes: how many there are, how many were given again.
    length: usize,
    given: usize,
    inner: S,
}

/// Reads as much as it takes to know the protocol. `true`: HTTP/2. What is neither is left to HTTP/1 to
/// refuse.
pub(crate) async fn sniff<S: AsyncRead + Unpin>(mut inner: S) -> Result<(Sniffed<S>, bool)> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    while length < PREFACE.len() && first[..length] == PREFACE[..length] {
        let count = inner.read(&mut first[length..]).await?;
        if count == 0 {
            break;
        }
        length += count;
    }
    let is_http2 = first == *PREFACE;
    Ok((Sniffed { first, length, given: 0, inner }, is_http2))
}

impl<S: AsyncRead + Unpin> AsyncRead for Sniffed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.given < this.length && buf.remaining() > 0 {
            let count = buf.remaining().min(this.length - this.given);
            buf.put_slice(&this.first[this.given..this.given + count]);
            this.given += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sniffed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    async fn check(pieces: &[&[u8]], expected: bool) {
        let (near, mut far) = duplex(1 << 10);
        let sent = pieces.concat();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        tokio::spawn(async move {
            for piece in pieces {
                far.write_all(&piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let (mut stream, is_http2) = sniff(near).await.unwrap();
        assert_eq!(is_http2, expected, "{sent:?}");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, sent);
    }

    #[tokio::test]
    async fn nothing_of_what_was_read_is_lost() {
        check(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrest"], true).await;
        check(&[b"P", b"RI * HTTP/2.0\r\n", b"\r\nSM\r\n\r", b"\nrest"], true).await;
        check(&[b"P", b"UT /data/f HTTP/1.1\r\n"], false).await;
        check(&[b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\nrest"], false).await;
        check(&[b"PRI * HTTP/2.0"], false).await;
        check(&[b"GET / HTTP/1.1\r\n\r\n"], false).await;
        check(&[], false).await;
    }
}
