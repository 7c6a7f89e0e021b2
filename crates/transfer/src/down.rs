//! The pump down: a thread draws verified bytes from the engine, a bounded channel leads them to the
//! connection. The first few downloads at a time hand on the pool's own memory, the others a copy.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use archive::ArchiveError;
use authority::Download;
use base::Duration;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::fault::Fault;
use crate::places::{Holder, Place};
use crate::transfers::{Transfers, WHOLE_BYTES_MAX};

/// A client that takes no piece for this long is slow.
const SLOW_AFTER: Duration = Duration::from_millis(250);

/// A file that was opened to be sent.
pub struct Opened<H> {
    /// What the door says before the first byte.
    pub head: H,
    /// Bytes that are to be sent: those of the file, or of the range that was selected.
    pub length: u64,
    /// Where they come from; `None` where there are none to send.
    pub download: Option<Box<dyn Download>>,
}

/// What is to be sent.
pub enum Content {
    /// All bytes, read to their end: of a whole file they are verified. What was `kept` lives as long.
    Whole(Bytes),
    /// More than [`WHOLE_BYTES_MAX`]; of a whole file the last bytes come only after its checksum agreed.
    Stream(Sending),
}

/// The rest of a file cannot be sent: the connection is to be closed before its last byte.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the file could not be read to its end")]
pub struct Broken;

type Pieces = mpsc::Sender<Result<Bytes, Broken>>;

impl Transfers {
    /// Sends a file, or a range of it: takes a place, then `open` opens it on a thread of its own, which may
    /// block. `kept` stays alive until the last byte is handed on: allowances of the caller.
    ///
    /// The first piece is read before this returns: what cannot be read at all is refused in words.
    ///
    /// # Errors
    /// [`Fault::Busy`]; those of `open` and of the first read; for short ones those of all reads.
    pub async fn send<H, E, K, O>(&self, holder: &Holder, kept: K, open: O) -> Result<(H, Content), E>
    where
        H: Send + 'static,
        E: From<ArchiveError> + From<Fault> + Send + 'static,
        K: Send + 'static,
        O: FnOnce(&K) -> Result<Opened<H>, E> + Send + 'static,
    {
        let place = self.admit(holder).await?;
        let (pieces, receiver) = mpsc::channel(self.pieces());
        let (told, answer) = oneshot::channel();
        let job = Job { transfers: self.clone(), told, pieces, _place: place };
        spawn_blocking(move || job.run(kept, open));
        let (head, whole, length) = answer.await.map_err(|_| Fault::Lost)??;
        let content = match whole {
            Some(bytes) => Content::Whole(bytes),
            None => Content::Stream(Sending { pieces: receiver, remaining: length }),
        };
        Ok((head, content))
    }
}

/// What is told before the first byte: the head, all of the bytes if they are few, and how many there are.
type Answer<H> = (H, Option<Bytes>, u64);

struct Job<H, E> {
    transfers: Transfers,
    told: oneshot::Sender<Result<Answer<H>, E>>,
    pieces: Pieces,
    _place: Place,
}

impl<H, E: From<ArchiveError> + From<Fault>> Job<H, E> {
    /// Runs on a thread of its own.
    fn run<K: Send + 'static>(self, kept: K, open: impl FnOnce(&K) -> Result<Opened<H>, E>) {
        let Job { transfers, told, pieces, _place } = self;
        let Opened { head, length, download } = match open(&kept) {
            Ok(opened) => opened,
            Err(error) => return drop(told.send(Err(error))),
        };
        let Some(mut download) = download.filter(|_| length > 0) else {
            return drop(told.send(Ok((head, Some(Bytes::new()), 0))));
        };
        if length <= WHOLE_BYTES_MAX {
            // A client that takes nothing holds them until it is cut off: at most as many as its caller may.
            let bytes = |whole| Bytes::from_owner(Whole { bytes: whole, _kept: kept });
            let whole = gather(&mut *download, length).map(bytes);
            return drop(told.send(whole.map(|whole| (head, Some(whole), length))));
        }
        let first = match download.next() {
            Ok(first) => first,
            Err(error) => return drop(told.send(Err(error.into()))),
        };
        if told.send(Ok((head, None, length))).is_err() {
            return;
        }
        let loan = transfers.loan();
        stream(&pieces, loan.is_some(), &mut *download, first, length);
    }
}

/// Sends piece after piece until all is sent, the client goes away, or the engine fails.
fn stream(
    pieces: &Pieces,
    lends: bool,
    download: &mut dyn Download,
    first: Option<Bytes>,
    mut remaining: u64,
) {
    let mut next = Ok(first);
    while remaining > 0 {
        let piece = match next {
            Ok(Some(bytes)) if bytes.len() as u64 <= remaining => bytes,
            Ok(other) => {
                let (got, path) = (other.map(|bytes| bytes.len()), &download.stat().path);
                tracing::error!(%path, remaining, ?got, "the engine gave another number of bytes");
                return drop(pieces.blocking_send(Err(Broken)));
            }
            Err(error) => {
                let path = &download.stat().path;
                tracing::error!(%path, remaining, %error, "a download was broken off");
                return drop(pieces.blocking_send(Err(Broken)));
            }
        };
        remaining -= piece.len() as u64;
        // Nobody listens any more once the client has gone away.
        if !send(pieces, lends, download, piece) {
            return;
        }
        next = if remaining > 0 { download.next() } else { Ok(None) };
    }
}

/// Hands a piece to the connection. A client that does not take it for a while must not keep memory that
/// tapes and other clients read through: then the engine gets back what it holds ready. `false` if the client
/// has gone.
fn send(pieces: &Pieces, lends: bool, download: &mut dyn Download, piece: Bytes) -> bool {
    let piece = if lends {
        piece
    } else {
        // The engine gets its memory back now, not when the client has taken the copy.
        let own = Bytes::copy_from_slice(&piece);
        drop(piece);
        own
    };
    match Handle::current().block_on(pieces.send_timeout(Ok(piece), SLOW_AFTER)) {
        Ok(()) => true,
        Err(SendTimeoutError::Closed(_)) => false,
        Err(SendTimeoutError::Timeout(piece)) => {
            download.pause();
            let own = piece.map(|piece| Bytes::copy_from_slice(&piece));
            pieces.blocking_send(own).is_ok()
        }
    }
}

/// All bytes of a short download, up to its end, so that a whole file is verified before any is sent.
fn gather<E>(download: &mut dyn Download, length: u64) -> Result<Vec<u8>, E>
where
    E: From<ArchiveError> + From<Fault>,
{
    let length = usize::try_from(length).map_err(|_| Fault::Differs)?;
    let mut all = Vec::with_capacity(length);
    while all.len() < length {
        let bytes = download.next()?.ok_or(Fault::Differs)?;
        if all.len() + bytes.len() > length {
            return Err(Fault::Differs.into());
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// The bytes of a short file that are on their way to a client, and what is kept until the last is handed on.
struct Whole<K> {
    bytes: Vec<u8>,
    _kept: K,
}

impl<K> AsRef<[u8]> for Whole<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of an answer that carries a file: exactly the bytes that were announced, or an error
/// ([`Broken`]) before the last of them.
pub struct Sending {
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
    remaining: u64,
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.pieces.poll_recv(cx)) {
            Some(Ok(bytes)) => {
                self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
                Ok(Frame::data(bytes))
            }
            // A closed channel: the thread has panicked.
            Some(Err(_)) | None => Err(Broken),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archive::FileStat;
    use authority::Notices;

    use super::*;
    use crate::places::tests::holder;
    use crate::transfers::TransferLimits;

    /// A file of three bytes.
    struct Three(Option<Bytes>);

    impl Download for Three {
        fn stat(&self) -> &FileStat {
            unreachable!("nothing goes wrong")
        }

        fn select(&mut self, _: u64, _: u64) -> Result<(), ArchiveError> {
            Ok(())
        }

        fn check_drives(&self) -> Result<(), ArchiveError> {
            Ok(())
        }

        fn next(&mut self) -> Result<Option<Bytes>, ArchiveError> {
            Ok(self.0.take())
        }

        fn pause(&mut self) {}
    }

    #[derive(Debug)]
    struct Failed;

    impl From<ArchiveError> for Failed {
        fn from(_: ArchiveError) -> Self {
            Failed
        }
    }

    impl From<Fault> for Failed {
        fn from(_: Fault) -> Self {
            Failed
        }
    }

    /// A client that took nothing held the bytes of as many short files as it had streams: its calls were
    /// over before a byte was sent.
    #[test]
    fn a_short_file_counts_until_its_last_byte_is_handed_on() {
        let transfers = Transfers::new(TransferLimits::default(), &Notices::default(), |_| 1);
        let kept = Arc::new(());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let open = |_: &Arc<()>| {
            let download: Box<dyn Download> = Box::new(Three(Some(Bytes::from_static(b"abc"))));
            Ok::<_, Failed>(Opened { head: (), length: 3, download: Some(download) })
        };
        let sent = runtime.block_on(transfers.send(&holder("anna", 1), Arc::clone(&kept), open));
        let Ok(((), Content::Whole(bytes))) = sent else { panic!("three bytes are sent whole") };
        let rest = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&rest[..], Arc::strong_count(&kept)), (&b"bc"[..], 2));
        drop(rest);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
