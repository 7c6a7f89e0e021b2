//! `PUT /data/...`: a body from the connection through a bounded channel to a thread that feeds the engine. A
//! small body is gathered first, so that the thread is needed only for a moment.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use archive::{ArchiveError, PutDone, PutOptions};
use axum::Json;
use axum::body::Body;
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_RANGE, ETAG, EXPECT, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base::{ArchivePath, Blake3, ByteCount, Timestamp};
use bytes::Bytes;
use catalogue::Attributes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::Call;
use crate::convert::put_reply;
use crate::data::{DataRequest, refuse_unsupported};
use crate::headers::{digest, flag, mode, single, text, time};
use crate::limits::Limits;
use crate::problem::{Kind, Refusal};
use crate::rate::RateWindow;
use crate::shared::{Asked, lost_thread};
use authority::{Engine, Place, UPLOAD_SLOW_AFTER};

/// Longest name of an owner or group.
const OWNER_BYTES_MAX: usize = 64;
/// Longest name of a class.
const CLASS_BYTES_MAX: usize = 32;
/// Longest hint for collocation.
const DATASET_BYTES_MAX: usize = 255;
/// Longest idempotency key.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest target of a link.
const LINK_TARGET_BYTES_MAX: usize = 4095;
/// Permission bits of a file whose client names none.
const MODE_DEFAULT: u32 = 0o644;

/// What goes from the connection to the engine's thread.
enum Piece {
    Bytes(Bytes),
    /// The body is complete. Without it the file is not: a channel that closes early drops the upload.
    End,
}

/// Bodies of a known length up to this are gathered before the engine is called.
const WHOLE_BYTES_MAX: u64 = archive::SMALL_BYTES_MAX as u64;

/// Stores a file.
pub(crate) async fn put(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, body, call } = asked;
    let length = body.size_hint().exact();
    let options = put_options(&headers, length, &call.principal.name)?;
    let permit = shared.admit(&shared.transfers, &shared.holder).await?;
    let is_link = options.link_target.is_some();
    let rate = RateWindow::new(shared.limits.rate_bytes, shared.limits.rate_window, call.pace.clone());
    let incoming = Incoming { limits: &shared.limits, call: &call, body, rate, is_link };
    // Who asks first gets an answer first, so that it saves the sending.
    if length.is_some_and(|length| length <= WHOLE_BYTES_MAX) && !headers.contains_key(EXPECT) {
        let job = Whole { engine: shared.engine.clone(), path, options, permit };
        return put_whole(job, incoming).await;
    }
    let (pieces, receiver) = mpsc::channel(shared.limits.pieces.max(1));
    let (ready, begun) = oneshot::channel();
    let job = Job { engine: shared.engine.clone(), path, options, ready, pieces: receiver, _permit: permit };
    let storing = spawn_blocking(move || job.store());
    // The body is asked for only once the engine agreed, so that `Expect: 100-continue` saves the sending.
    // If it did not agree, `storing` says why.
    if begun.await.is_ok() {
        incoming.pump(pieces).await?;
    } else {
        drop(pieces);
    }
    match storing.await.map_err(lost_thread)?? {
        Some(done) => Ok(answer(&done)),
        None => Err(ended_early()),
    }
}

fn ended_early() -> Refusal {
    Refusal::new(Kind::LengthMismatch, "the body ended early: nothing was stored")
}

/// What a small put needs of the engine.
struct Whole {
    engine: Arc<dyn Engine>,
    path: ArchivePath,
    options: PutOptions,
    permit: Place,
}

/// Stores a file whose body is small: gathers it, then hands it to the engine, which tells when it is
/// durable.
async fn put_whole(job: Whole, mut incoming: Incoming<'_>) -> Result<Response, Refusal> {
    let mut parts = Vec::new();
    while let Some(bytes) = incoming.next().await? {
        parts.push(bytes);
    }
    let (sender, outcome) = oneshot::channel();
    spawn_blocking(move || {
        let Whole { engine, path, options, permit } = job;
        let received = engine
            .begin_put(&path, options)
            .and_then(|mut upload| parts.iter().try_for_each(|bytes| upload.write(bytes)).map(|()| upload));
        let done = move |done| {
            drop(permit);
            // The connection may be gone; the file is stored all the same.
            let _ = sender.send(done);
        };
        match received {
            Ok(upload) => upload.finish_then(Box::new(done)),
            Err(error) => done(Err(error)),
        }
    });
    Ok(answer(&outcome.await.map_err(lost_thread)??))
}

struct Job {
    engine: Arc<dyn Engine>,
    path: ArchivePath,
    options: PutOptions,
    ready: oneshot::Sender<()>,
    pieces: mpsc::Receiver<Piece>,
    _permit: Place,
}

impl Job {
    /// Runs on a thread of its own. `None`: the body did not come to its end.
    fn store(mut self) -> Result<Option<PutDone>, ArchiveError> {
        let mut upload = self.engine.begin_put(&self.path, self.options)?;
        // The other side waits for this, unless the client has gone away; the closed channel tells that too.
        let _ = self.ready.send(());
        while let Some(piece) = next_piece(&mut self.pieces, || upload.pause()) {
            match piece {
                Piece::Bytes(bytes) => upload.write(&bytes)?,
                Piece::End => return upload.finish().map(Some),
            }
        }
        Ok(None)
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

/// A body as it comes from the connection.
struct Incoming<'a> {
    limits: &'a Limits,
    call: &'a Call,
    body: Body,
    rate: RateWindow,
    is_link: bool,
}

impl Incoming<'_> {
    /// The next bytes; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let from = Instant::now();
            let frame = tokio::time::timeout(self.rate.remaining(), self.body.frame()).await;
            let waited = from.elapsed();
            let Ok(frame) = frame else {
                if self.rate.note(waited.max(self.rate.remaining()), 0) {
                    continue;
                }
                return Err(self.too_slow());
            };
            let Some(frame) = frame else { return Ok(None) };
            // Trailers carry nothing that Kist knows.
            let Ok(bytes) = frame.map_err(|_| ended_early())?.into_data() else { continue };
            if bytes.is_empty() {
                continue;
            }
            if self.is_link {
                return Err(Refusal::bad("a link has no body: send Kist-Link-Target with an empty body"));
            }
            self.call.received(bytes.len());
            // A client that is too slow is found at its next wait.
            if !self.rate.note(waited, bytes.len() as u64) {
                tracing::debug!("a body comes slowly");
            }
            return Ok(Some(bytes));
        }
    }

    fn too_slow(&self) -> Refusal {
        let (bytes, seconds) = (self.limits.rate_bytes.0, self.limits.rate_window.as_secs_f64());
        let detail =
            format!("the body came at less than {bytes} bytes in {seconds} s of waiting: nothing was stored");
        Refusal::new(Kind::Timeout, detail)
    }

    /// Moves the body into the channel. An error of the engine is left to the caller: the channel is closed
    /// then.
    async fn pump(mut self, pieces: mpsc::Sender<Piece>) -> Result<(), Refusal> {
        loop {
            let piece = self.next().await?.map_or(Piece::End, Piece::Bytes);
            let last = matches!(piece, Piece::End);
            if pieces.send(piece).await.is_err() || last {
                return Ok(());
            }
        }
    }
}

fn answer(done: &PutDone) -> Response {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut headers = HeaderMap::new();
    let mut insert = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    insert(ETAG, format!("\"{}\"", done.file));
    insert(HeaderName::from_static("digest"), format!("adler32={}", done.checksums.stream.adler32));
    (status, headers, Json(put_reply(done))).into_response()
}

fn put_options(headers: &HeaderMap, length: Option<u64>, principal: &str) -> Result<PutOptions, Refusal> {
    refuse_unsupported(headers, "PUT")?;
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Refusal::bad(
            "a part of a file cannot be put: send the whole file without Content-Range",
        ));
    }
    if single(headers, &CONTENT_ENCODING)?
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::bad("Content-Encoding is not supported: send the file's own bytes"));
    }
    let keep_existing = match single(headers, &IF_NONE_MATCH)? {
        None => false,
        Some(value) if value.as_bytes().trim_ascii() == b"*" => true,
        Some(_) => return Err(Refusal::bad("If-None-Match with PUT has to be '*'")),
    };
    let blake3 = text(headers, "kist-blake3", 64)?
        .map(|digits| {
            Blake3::parse(&digits).ok_or_else(|| Refusal::bad("Kist-Blake3 is not 64 hexadecimal digits"))
        })
        .transpose()?;
    let key = text(headers, "idempotency-key", IDEMPOTENCY_KEY_BYTES_MAX)?;
    if key.as_deref() == Some("") {
        return Err(Refusal::bad("the header idempotency-key is empty"));
    }
    let link_target = text(headers, "kist-link-target", LINK_TARGET_BYTES_MAX)?;
    if link_target.as_deref() == Some("") {
        return Err(Refusal::bad("the header kist-link-target is empty"));
    }
    Ok(PutOptions {
        length: length.map(ByteCount),
        adler32: digest(headers)?,
        blake3,
        attributes: attributes(headers)?,
        class: text(headers, "kist-class", CLASS_BYTES_MAX)?,
        link_target,
        keep_existing,
        make_parents: flag(headers, "kist-parents")?.unwrap_or(true),
        idempotency: key.map(|key| (key, principal.to_owned())),
        dataset: text(headers, "kist-dataset", DATASET_BYTES_MAX)?,
        who: Some(principal.to_owned()),
        ..PutOptions::default()
    })
}

fn attributes(headers: &HeaderMap) -> Result<Attributes, Refusal> {
    let mtime = text(headers, "kist-mtime", 64)?;
    let bits = text(headers, "kist-mode", 8)?;
    Ok(Attributes {
        mtime: parse_mtime(mtime.as_deref(), "Kist-Mtime")?,
        mode: parse_mode(bits.as_deref(), "Kist-Mode", MODE_DEFAULT)?,
        owner: text(headers, "kist-owner", OWNER_BYTES_MAX)?.unwrap_or_default(),
        group: text(headers, "kist-group", OWNER_BYTES_MAX)?.unwrap_or_default(),
        xattrs: Vec::new(),
    })
}

/// The modification time that a client names; the present, if none.
pub(crate) fn parse_mtime(value: Option<&str>, name: &str) -> Result<Timestamp, Refusal> {
    match value {
        None => Ok(present()),
        Some(value) => time(value).ok_or_else(|| {
            Refusal::bad(format!(
                "{name} '{value}' is neither RFC 3339 nor seconds[.nanoseconds], or out of range: {}",
                Timestamp::RANGE
            ))
        }),
    }
}

/// The permission bits that a client names.
pub(crate) fn parse_mode(value: Option<&str>, name: &str, default: u32) -> Result<u32, Refusal> {
    match value {
        None => Ok(default),
        Some(value) => mode(value)
            .ok_or_else(|| Refusal::bad(format!("{name} '{value}' is not octal, as 0644, up to 7777"))),
    }
}

fn present() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
