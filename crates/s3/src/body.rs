//! Bodies of objects on their way in: from the connection to a thread that may block, with the digests
//! computed beside it. A small body is gathered first, so that the thread is needed only for a moment.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use archive::ArchiveError;
use authority::UPLOAD_SLOW_AFTER;
use bytes::{Bytes, BytesMut};
use http::{Extensions, HeaderMap};
use http_body_util::BodyExt;
use hyper::body::Body;
use s3s::{S3Result, s3_error};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::checksums::{Beside, Expected, Verified};
use crate::chunked::{ChunkError, Decoder};
use crate::context::{Context, Failure, Guest, lost_thread};
use crate::md5_lanes::Md5Lanes;

/// Any error of a connection.
pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;
/// What a connection gives.
pub(crate) type Frames = Pin<Box<dyn Body<Data = Bytes, Error = AnyError> + Send>>;

/// Bodies up to this are gathered before the engine is called.
const WHOLE_BYTES_MAX: u64 = archive::SMALL_BYTES_MAX as u64;
/// Smaller pieces of a gathered body are joined.
const OWN_BYTES_MIN: usize = 16 << 10;

/// The body of an object as it comes in. s3s does not see it.
pub(crate) struct ObjectBody {
    frames: Frames,
    decoder: Option<Decoder>,
    pending: Bytes,
    received: u64,
    open_ended: bool,
    /// Bytes that the object is to have.
    pub length: u64,
    /// The SHA-256 that was signed.
    pub sha256: Option<[u8; 32]>,
    /// Header fields announced to come behind the body.
    pub announced: Vec<String>,
    trailers: HeaderMap,
}

/// A body in the extensions of a request.
#[derive(Clone)]
struct Parcel(Arc<Mutex<Option<ObjectBody>>>);

impl ObjectBody {
    /// Of a connection. `decoder`: if it is `aws-chunked`.
    pub(crate) fn new(frames: Frames, length: u64, decoder: Option<Decoder>) -> ObjectBody {
        ObjectBody {
            frames,
            decoder,
            pending: Bytes::new(),
            received: 0,
            open_ended: false,
            length,
            sha256: None,
            announced: Vec::new(),
            trailers: HeaderMap::new(),
        }
    }

    /// Whether its length is not known: it ends where it ends.
    pub(crate) fn is_open_ended(&mut self, open: bool) {
        self.open_ended = open;
    }

    /// Puts it where [`ObjectBody::take`] finds it.
    pub(crate) fn put(self, extensions: &mut Extensions) {
        extensions.insert(Parcel(Arc::new(Mutex::new(Some(self)))));
    }

    /// The body of this request.
    ///
    /// # Errors
    /// `InvalidRequest` if it has none.
    pub(crate) fn take(extensions: &Extensions) -> S3Result<ObjectBody> {
        let parcel = extensions.get::<Parcel>().and_then(|parcel| parcel.0.lock().ok()?.take());
        parcel.ok_or_else(|| s3_error!(InvalidRequest, "the request has no body of an object"))
    }

    /// The next bytes; `None` once all have come that were announced.
    ///
    /// # Errors
    /// If they do not come, or are not as announced.
    pub(crate) async fn next(&mut self) -> S3Result<Option<Bytes>> {
        loop {
            if !self.pending.is_empty() {
                let Some(decoder) = &mut self.decoder else { return self.count().map(Some) };
                match decoder.take(&mut self.pending).map_err(refused)? {
                    Some(bytes) => return Ok(Some(bytes)),
                    None => continue,
                }
            }
            let Some(bytes) = next_bytes(&mut self.frames).await? else { break };
            self.pending = bytes;
        }
        match &mut self.decoder {
            Some(decoder) => self.trailers = decoder.finish().map_err(refused)?,
            None if self.received != self.length && !self.open_ended => {
                return Err(refused(ChunkError::Incomplete));
            }
            None => {}
        }
        Ok(None)
    }

    /// The header fields that came behind the body.
    pub(crate) fn trailers(&self) -> &HeaderMap {
        &self.trailers
    }

    fn count(&mut self) -> S3Result<Bytes> {
        let bytes = std::mem::take(&mut self.pending);
        self.received += bytes.len() as u64;
        if self.received > self.length { Err(refused(ChunkError::Length)) } else { Ok(bytes) }
    }

    /// All of a body that is known to be small.
    async fn gather(mut self) -> S3Result<(Vec<Bytes>, HeaderMap)> {
        let mut pieces: Vec<Bytes> = Vec::new();
        // A piece keeps all of the buffer that it came in, and chunks may have one byte each.
        let mut small = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if bytes.len() >= OWN_BYTES_MIN {
                pieces.extend((!small.is_empty()).then(|| small.split().freeze()));
                pieces.push(bytes);
            } else {
                small.extend_from_slice(&bytes);
            }
        }
        pieces.extend((!small.is_empty()).then(|| small.freeze()));
        Ok((pieces, self.trailers))
    }
}

fn refused(error: ChunkError) -> s3s::S3Error {
    match error {
        ChunkError::Signature => s3_error!(SignatureDoesNotMatch, "{error}: nothing was stored"),
        ChunkError::Incomplete | ChunkError::Length => {
            s3_error!(IncompleteBody, "{error}: nothing was stored")
        }
        ChunkError::Malformed => s3_error!(InvalidRequest, "{error}: nothing was stored"),
        ChunkError::Trailer => {
            let status = http::StatusCode::BAD_REQUEST;
            crate::errors::custom("MalformedTrailerError", status, format!("{error}: nothing was stored"))
        }
    }
}

/// The next bytes of a body; `None` at its end. The listener breaks off clients that send too slowly.
async fn next_bytes(frames: &mut Frames) -> S3Result<Option<Bytes>> {
    loop {
        let error = match frames.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                // Trailers of HTTP carry nothing that S3 knows.
                _ => continue,
            },
            Some(Err(error)) => error,
        };
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if io == Some(std::io::ErrorKind::TimedOut) {
            return Err(s3_error!(RequestTimeout, "the body came too slowly: nothing was stored"));
        }
        tracing::debug!(%error, "a body was broken off");
        return Err(refused(ChunkError::Incomplete));
    }
}

/// Where the bytes of a body go. Dropping it keeps nothing.
pub(crate) trait Sink: Send + 'static {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// The client has sent nothing for a while.
    fn pause(&mut self);
}

impl Sink for Box<dyn authority::PartUpload> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        authority::PartUpload::write(&mut **self, bytes)
    }

    fn pause(&mut self) {
        authority::PartUpload::pause(&mut **self);
    }
}

/// Is told how it ended, at once or later, on whatever thread.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// What goes from the connection to the thread that stores.
enum Piece {
    Bytes(Bytes),
    /// The body is complete, with what came behind it. Without it the body is not: a channel that closes
    /// early drops the upload.
    End(HeaderMap),
}

/// Receives a body: `begin` opens what it goes to, `finish` gets it once all bytes are in it and agree with
/// all that was `expected`. Both are called on threads that may block.
pub(crate) async fn receive<U, T, B, F>(
    cx: &Context,
    guest: Guest,
    body: ObjectBody,
    expected: Expected,
    begin: B,
    finish: F,
) -> S3Result<T>
where
    U: Sink,
    T: Send + 'static,
    B: FnOnce(&Guest) -> Result<U, Failure> + Send + 'static,
    F: FnOnce(U, Verified, Reply<T>) + Send + 'static,
{
    let (sender, outcome) = oneshot::channel();
    if body.length <= WHOLE_BYTES_MAX {
        // It is gathered without a place, or clients that send slowly would keep all of them.
        let memory = cx.admit_bytes(&guest.holder, body.length).await?;
        let (pieces, trailers) = body.gather().await?;
        let reply = reply_to(sender, cx.admit(&cx.transfers, &guest.holder).await?);
        spawn_blocking(move || {
            let received = store_whole(&guest, &pieces, &trailers, &expected, begin);
            drop((pieces, memory));
            match received {
                Ok((sink, verified)) => finish(sink, verified, reply),
                Err(failure) => reply(Err(failure)),
            }
        });
        return Ok(outcome.await.map_err(lost_thread)??);
    }
    let reply = reply_to(sender, cx.admit(&cx.transfers, &guest.holder).await?);
    let (pieces, receiver) = mpsc::channel(cx.settings.limits.pieces.max(1));
    let (ready, begun) = oneshot::channel();
    let job = Job { guest, expected, md5: cx.md5.clone(), ready, pieces: receiver };
    spawn_blocking(move || job.run(begin, finish, reply));
    // The body is asked for only once the engine agreed, so that `Expect: 100-continue` saves the sending.
    if begun.await.is_ok() {
        pump(body, pieces).await?;
    }
    Ok(outcome.await.map_err(lost_thread)??)
}

/// Tells the one who waits, and gives the place back. The one may be gone; what is stored is stored.
fn reply_to<T: Send + 'static>(
    sender: oneshot::Sender<Result<T, Failure>>,
    permit: authority::Place,
) -> Reply<T> {
    Box::new(move |outcome| {
        drop(permit);
        let _ = sender.send(outcome);
    })
}

fn store_whole<U: Sink>(
    guest: &Guest,
    pieces: &[Bytes],
    trailers: &HeaderMap,
    expected: &Expected,
    begin: impl FnOnce(&Guest) -> Result<U, Failure>,
) -> Result<(U, Verified), Failure> {
    let mut hasher = expected.hasher();
    pieces.iter().for_each(|bytes| hasher.update(bytes));
    let verified = expected.verify(hasher.finish(), trailers)?;
    let mut sink = begin(guest)?;
    pieces.iter().try_for_each(|bytes| sink.write(bytes))?;
    Ok((sink, verified))
}

/// Moves the body into the channel. An error of the engine is left to the caller: the channel is closed then.
async fn pump(mut body: ObjectBody, pieces: mpsc::Sender<Piece>) -> S3Result<()> {
    while let Some(bytes) = body.next().await? {
        if pieces.send(Piece::Bytes(bytes)).await.is_err() {
            return Ok(());
        }
    }
    let _ = pieces.send(Piece::End(std::mem::take(&mut body.trailers))).await;
    Ok(())
}

struct Job {
    guest: Guest,
    expected: Expected,
    md5: Arc<Md5Lanes>,
    ready: oneshot::Sender<()>,
    pieces: mpsc::Receiver<Piece>,
}

impl Job {
    /// Runs on a thread of its own.
    fn run<U, T, B, F>(self, begin: B, finish: F, reply: Reply<T>)
    where
        U: Sink,
        B: FnOnce(&Guest) -> Result<U, Failure>,
        F: FnOnce(U, Verified, Reply<T>),
    {
        let sink = match begin(&self.guest) {
            Ok(sink) => sink,
            Err(failure) => return reply(Err(failure)),
        };
        let _ = self.ready.send(());
        match take_all(self.expected, &self.md5, self.pieces, sink) {
            Ok(Some((sink, verified))) => finish(sink, verified, reply),
            // The one who would be told has told the client already.
            Ok(None) => {}
            Err(failure) => reply(Err(failure)),
        }
    }
}

/// The next piece of a body; `None` once there will be none. A client that sends nothing for a while must not
/// keep memory that tapes and other clients write through: then the engine gets it back.
fn next_piece(pieces: &mut mpsc::Receiver<Piece>, pause: impl FnOnce()) -> Option<Piece> {
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

/// `None`: the body did not come to its end.
fn take_all<U: Sink>(
    expected: Expected,
    md5: &Md5Lanes,
    mut pieces: mpsc::Receiver<Piece>,
    mut sink: U,
) -> Result<Option<(U, Verified)>, Failure> {
    let mut beside = Beside::start(expected.hasher(), md5)?;
    while let Some(piece) = next_piece(&mut pieces, || sink.pause()) {
        match piece {
            Piece::Bytes(bytes) => {
                beside.update(&bytes)?;
                sink.write(&bytes)?;
            }
            Piece::End(trailers) => {
                let verified = expected.verify(beside.finish()?, &trailers)?;
                return Ok(Some((sink, verified)));
            }
        }
    }
    Ok(None)
}
