//! The pump up: a body from a connection through a bounded channel to a thread that may block and feeds the
//! engine.

use std::io::{Error, ErrorKind};

use archive::ArchiveError;
use authority::{PartUpload, UPLOAD_SLOW_AFTER, Upload};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::fault::Fault;
use crate::places::{Holder, Place};
use crate::transfers::Transfers;

/// Smaller pieces of a gathered body are joined.
const OWN_BYTES_MIN: usize = 16 << 10;

/// Any error of a connection.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A body on its way in, as a protocol frames it.
pub trait Source: Send {
    /// What comes behind the bytes, such as trailers.
    type End: Send + 'static;
    /// Why it does not come, or is refused.
    type Error: From<Fault> + Send + 'static;

    /// The next bytes, at least one; `None` once all have come that were announced. Waits for the client, as
    /// long as the lowest rate lets it.
    ///
    /// # Errors
    /// If they do not come, or are not as announced.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;

    /// What came behind the bytes; asked once [`Source::next`] gave `None`.
    fn end(self) -> Self::End;
}

/// Where the bytes of a body go, on a thread that may block. Dropping it keeps nothing.
pub trait Sink<E> {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the upload is over then.
    fn write(&mut self, bytes: &Bytes) -> Result<(), E>;

    /// The client has sent nothing for [`UPLOAD_SLOW_AFTER`]: memory of the engine that others need is given
    /// back meanwhile.
    fn pause(&mut self);
}

impl<E: From<ArchiveError>> Sink<E> for Box<dyn Upload> {
    fn write(&mut self, bytes: &Bytes) -> Result<(), E> {
        Ok(Upload::write(&mut **self, bytes)?)
    }

    fn pause(&mut self) {
        Upload::pause(&mut **self);
    }
}

impl<E: From<ArchiveError>> Sink<E> for Box<dyn PartUpload> {
    fn write(&mut self, bytes: &Bytes) -> Result<(), E> {
        Ok(PartUpload::write(&mut **self, bytes)?)
    }

    fn pause(&mut self) {
        PartUpload::pause(&mut **self);
    }
}

/// Is told how an upload ended, at once or later, on whatever thread; the place of the upload is free then.
pub type Reply<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// What goes from the connection to the thread that stores.
enum Piece<T> {
    Bytes(Bytes),
    /// The body is complete, with what came behind it. Without it the body is not: a channel that closes
    /// early drops the upload.
    End(T),
}

/// The next bytes of an HTTP body; `None` at its end. Trailers are passed over.
///
/// # Errors
/// [`Fault::TooSlow`] if a [`Paced`](crate::Paced) body says so, else [`Fault::EndedEarly`].
pub async fn next_bytes<B>(body: &mut B) -> Result<Option<Bytes>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<AnyError>,
{
    while let Some(frame) = body.frame().await {
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(bytes)) if !bytes.is_empty() => return Ok(Some(bytes)),
            Ok(_) => {}
            Err(error) => {
                let error: AnyError = error.into();
                if error.downcast_ref::<Error>().map(Error::kind) == Some(ErrorKind::TimedOut) {
                    return Err(Fault::TooSlow);
                }
                tracing::debug!(%error, "a body was broken off");
                return Err(Fault::EndedEarly);
            }
        }
    }
    Ok(None)
}

/// All of a body that is known to have at most [`WHOLE_BYTES_MAX`](crate::WHOLE_BYTES_MAX), and what came
/// behind it. Small pieces are joined: each keeps all of the buffer that it came in.
///
/// # Errors
/// Those of [`Source::next`].
pub async fn gather<S: Source>(mut source: S) -> Result<(Vec<Bytes>, S::End), S::Error> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut small = BytesMut::new();
    while let Some(bytes) = source.next().await? {
        if bytes.len() >= OWN_BYTES_MIN {
            pieces.extend((!small.is_empty()).then(|| small.split().freeze()));
            pieces.push(bytes);
        } else {
            small.extend_from_slice(&bytes);
        }
    }
    pieces.extend((!small.is_empty()).then(|| small.freeze()));
    Ok((pieces, source.end()))
}

/// Does something on a thread that may block, and waits until it, or what it began, has told the outcome. The
/// place is given back with that, also if nobody waits any more: what is stored is stored.
///
/// # Errors
/// What it tells; [`Fault::Lost`] if it panicked.
pub async fn on_thread<T, E, W>(place: Place, work: W) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Fault> + Send + 'static,
    W: FnOnce(Reply<T, E>) + Send + 'static,
{
    let (reply, outcome) = reply_to(place);
    spawn_blocking(move || work(reply));
    outcome.await.map_err(|_| Fault::Lost)?
}

/// The reply that gives a place back, and who waits for it.
fn reply_to<T: Send + 'static, E: Send + 'static>(
    place: Place,
) -> (Reply<T, E>, oneshot::Receiver<Result<T, E>>) {
    let (sender, outcome) = oneshot::channel();
    let reply = move |told| {
        drop(place);
        // The connection may be gone.
        let _ = sender.send(told);
    };
    (Box::new(reply), outcome)
}

impl Transfers {
    /// Receives a body of any length: takes a place for it, then `begin` opens what it goes to, and `finish`
    /// gets that once all bytes are in it. Both are called on the body's own thread, which may block. At most
    /// [`TransferLimits::pieces`](crate::TransferLimits) wait between the connection and the thread.
    ///
    /// The body is asked for only once `begin` agreed, so that `Expect: 100-continue` saves the sending.
    ///
    /// # Errors
    /// [`Fault::Busy`]; those of the body, of `begin` and `finish`. Nothing is stored then.
    pub async fn receive<S, K, T, B, F>(
        &self,
        holder: &Holder,
        source: S,
        begin: B,
        finish: F,
    ) -> Result<T, S::Error>
    where
        S: Source,
        K: Sink<S::Error>,
        T: Send + 'static,
        B: FnOnce() -> Result<K, S::Error> + Send + 'static,
        F: FnOnce(K, S::End, Reply<T, S::Error>) + Send + 'static,
    {
        let place = self.admit(holder).await?;
        self.receive_in(place, source, begin, finish).await
    }

    /// The same with a place that was taken before.
    ///
    /// # Errors
    /// Those of the body, of `begin` and `finish`. Nothing is stored then.
    pub async fn receive_in<S, K, T, B, F>(
        &self,
        place: Place,
        source: S,
        begin: B,
        finish: F,
    ) -> Result<T, S::Error>
    where
        S: Source,
        K: Sink<S::Error>,
        T: Send + 'static,
        B: FnOnce() -> Result<K, S::Error> + Send + 'static,
        F: FnOnce(K, S::End, Reply<T, S::Error>) + Send + 'static,
    {
        let (reply, outcome) = reply_to(place);
        let (pieces, receiver) = mpsc::channel(self.pieces());
        let (ready, begun) = oneshot::channel();
        spawn_blocking(move || {
            let sink = match begin() {
                Ok(sink) => sink,
                Err(error) => return reply(Err(error)),
            };
            // The other side waits for this, unless the client has gone away; the closed channel tells that.
            let _ = ready.send(());
            match take_all(receiver, sink) {
                Ok(Some((sink, end))) => finish(sink, end, reply),
                // The one who would be told has told the client already.
                Ok(None) => {}
                Err(error) => reply(Err(error)),
            }
        });
        // If `begin` did not agree, the outcome says why.
        if begun.await.is_ok() {
            pump(source, pieces).await?;
        }
        outcome.await.map_err(|_| Fault::Lost)?
    }
}

/// Moves the body into the channel. An error of the engine is left to the caller: the channel is closed then.
async fn pump<S: Source>(mut source: S, pieces: mpsc::Sender<Piece<S::End>>) -> Result<(), S::Error> {
    while let Some(bytes) = source.next().await? {
        if pieces.send(Piece::Bytes(bytes)).await.is_err() {
            return Ok(());
        }
    }
    let _ = pieces.send(Piece::End(source.end())).await;
    Ok(())
}

/// `None`: the body did not come to its end.
fn take_all<T, K: Sink<E>, E>(
    mut pieces: mpsc::Receiver<Piece<T>>,
    mut sink: K,
) -> Result<Option<(K, T)>, E> {
    while let Some(piece) = next_piece(&mut pieces, || sink.pause()) {
        match piece {
            Piece::Bytes(bytes) => sink.write(&bytes)?,
            Piece::End(end) => return Ok(Some((sink, end))),
        }
    }
    Ok(None)
}

/// The next piece of a body; `None` once there will be none. A client that sends nothing for a while must not
/// keep memory that tapes and other clients write through: then the engine gets it back.
fn next_piece<T>(pieces: &mut mpsc::Receiver<T>, pause: impl FnOnce()) -> Option<T> {
    if let Ok(piece) = pieces.try_recv() {
        return Some(piece);
    }
    let soon = async { tokio::time::timeout(UPLOAD_SLOW_AFTER, pieces.recv()).await };
    match Handle::current().block_on(soon) {
        Ok(piece) => piece,
        Err(_) => {
            pause();
            pieces.blocking_recv()
        }
    }
}
