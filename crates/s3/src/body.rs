//! Bodies of objects on their way in, as S3 frames them, with the digests that S3 asks for.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Extensions, HeaderMap};
use hyper::body::Body;
use s3s::{S3Error, S3Result, s3_error};
use transfer::{AnyError, Beside, Sink, Source, WHOLE_BYTES_MAX, gather, next_bytes, on_thread};

use crate::checksums::{Expected, Verified};
use crate::chunked::{ChunkError, Decoder};
use crate::context::{Context, Failure, Guest};

/// What a connection gives.
pub(crate) type Frames = Pin<Box<dyn Body<Data = Bytes, Error = AnyError> + Send>>;

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
            let Some(bytes) = next_bytes(&mut self.frames).await.map_err(Failure::from)? else { break };
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
}

/// What a body that is not as announced is refused with.
pub(crate) fn refused(error: ChunkError) -> S3Error {
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

impl Source for ObjectBody {
    type End = HeaderMap;
    type Error = Failure;

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        Ok(ObjectBody::next(self).await?)
    }

    fn end(self) -> HeaderMap {
        self.trailers
    }
}

/// Where the bytes of a body go while their digests are computed beside.
struct Digesting<U> {
    sink: U,
    beside: Beside,
    expected: Expected,
    /// Counts against the caller until the last byte.
    _guest: Guest,
}

impl<U: Sink<Failure>> Sink<Failure> for Digesting<U> {
    fn write(&mut self, bytes: &Bytes) -> Result<(), Failure> {
        self.beside.update(bytes)?;
        self.sink.write(bytes)
    }

    fn pause(&mut self) {
        self.sink.pause();
    }
}

/// Is told how it ended, at once or later, on whatever thread.
pub(crate) type Reply<T> = transfer::Reply<T, Failure>;

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
    U: Sink<Failure> + 'static,
    T: Send + 'static,
    B: FnOnce(&Guest) -> Result<U, Failure> + Send + 'static,
    F: FnOnce(U, Verified, Reply<T>) + Send + 'static,
{
    if body.length <= WHOLE_BYTES_MAX {
        // It is gathered without a place, or clients that send slowly would keep all of them.
        let memory = cx.admit_bytes(&guest.holder, body.length).await?;
        let (pieces, trailers) = gather(body).await?;
        let place = cx.transfers.admit(&guest.holder).await.map_err(Failure::from)?;
        let stored = on_thread(place, move |reply: Reply<T>| {
            let received = store_whole(&guest, &pieces, &trailers, &expected, begin);
            drop((pieces, memory));
            match received {
                Ok((sink, verified)) => finish(sink, verified, reply),
                Err(failure) => reply(Err(failure)),
            }
        });
        return Ok(stored.await?);
    }
    let (transfers, holder) = (cx.transfers.clone(), guest.holder.clone());
    let begin = move || {
        let sink = begin(&guest)?;
        let beside = Beside::start(expected.hasher(), transfers.md5())?;
        Ok(Digesting { sink, beside, expected, _guest: guest })
    };
    let finish = move |to: Digesting<U>, trailers: HeaderMap, reply: Reply<T>| {
        let Digesting { sink, beside, expected, _guest } = to;
        let sums = beside.finish().map_err(Failure::from);
        match sums.and_then(|sums| Ok(expected.verify(sums, &trailers)?)) {
            Ok(verified) => finish(sink, verified, reply),
            Err(failure) => reply(Err(failure)),
        }
    };
    Ok(cx.transfers.receive(&holder, body, begin, finish).await?)
}

fn store_whole<U: Sink<Failure>>(
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
