//! `GET` and `HEAD /data/...`: a thread draws verified bytes from the engine, a bounded channel leads them
//! to the connection. The first few downloads at a time hand on the pool's own memory, the others a copy.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use archive::{ArchiveError, FileStat, Stat};
use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base::{ArchivePath, Duration};
use bytes::Bytes;
use catalogue::FileKind;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::audit::Call;
use crate::convert::locality_word;
use crate::data::DataRequest;
use crate::headers::{Range, http_date, names_tag, precise, range};
use crate::percent;
use crate::problem::{Kind, Refusal, unsatisfied};
use crate::shared::Asked;
use authority::{Download, Engine, Place};

/// A client that takes no piece for this long is slow.
const SLOW_AFTER: Duration = Duration::from_millis(250);

/// Says what `GET` would say, also of a file that is on tape only.
pub(crate) async fn head(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, .. } = asked;
    let stat = shared.call(move |engine| Ok(engine.stat(&path)?)).await?;
    let stat = match stat {
        Stat::File(stat) => stat,
        Stat::Directory(stat) => return Err(ArchiveError::IsADirectory(stat.path).into()),
    };
    let plan = Plan::new(&stat, &headers, false)?;
    Ok(plan.response(&stat, Body::empty()))
}

/// Sends a file or one range of it.
pub(crate) async fn get(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    let DataRequest { path, headers, call, .. } = asked;
    let permit = shared.admit(&shared.transfers, &shared.holder).await?;
    let (pieces, receiver) = mpsc::channel(shared.limits.pieces.max(1));
    let (head, answer) = oneshot::channel();
    let job = Job {
        engine: shared.engine.clone(),
        path,
        headers,
        head,
        pieces,
        loans: shared.loans.clone(),
        _permit: permit,
        call,
    };
    let job = spawn_blocking(move || job.run());
    let (plan, stat) = match answer.await {
        Ok(answer) => answer?,
        // Without an answer the thread has panicked.
        Err(_) => {
            job.abort();
            return Err(Refusal::new(
                Kind::Internal,
                "the operation ended unexpectedly: see the server's log",
            ));
        }
    };
    let body = if plan.length == 0 {
        Body::empty()
    } else {
        Body::new(FileBody { pieces: receiver, remaining: plan.length })
    };
    Ok(plan.response(&stat, body))
}

type Answer = Result<(Plan, FileStat), Refusal>;

struct Job {
    engine: Arc<dyn Engine>,
    path: ArchivePath,
    headers: HeaderMap,
    head: oneshot::Sender<Answer>,
    pieces: mpsc::Sender<Result<Bytes, Broken>>,
    /// Downloads that hand on the engine's own memory; the others copy.
    loans: Arc<Semaphore>,
    _permit: Place,
    /// Counts against the principal until the last byte.
    call: Arc<Call>,
}

impl Job {
    /// Runs on a thread of its own.
    fn run(self) {
        let Job { engine, path, headers, head, pieces, loans, _permit, call } = self;
        let opened = open(&*engine, &path, &headers, &call.principal.name);
        let (plan, mut download) = match opened {
            Ok(opened) => opened,
            Err(refusal) => return drop(head.send(Err(refusal))),
        };
        // The first piece is read before the status is sent: what cannot be read at all is refused in words.
        let mut first = match (plan.length > 0).then(|| download.next()).transpose() {
            Ok(first) => first,
            Err(error) => return drop(head.send(Err(error.into()))),
        };
        if head.send(Ok((plan, download.stat().clone()))).is_err() {
            return;
        }
        let loan = loans.try_acquire_owned().ok();
        let mut remaining = plan.length;
        while remaining > 0 {
            let next = first.take().map_or_else(|| download.next(), Ok);
            let piece = match next {
                Ok(Some(bytes)) if bytes.len() as u64 <= remaining => bytes,
                Ok(other) => {
                    let got = other.map(|bytes| bytes.len());
                    tracing::error!(%path, remaining, ?got, "the engine gave another number of bytes");
                    return drop(pieces.blocking_send(Err(Broken)));
                }
                Err(error) => {
                    tracing::error!(%path, remaining, %error, "a download was broken off");
                    return drop(pieces.blocking_send(Err(Broken)));
                }
            };
            remaining -= piece.len() as u64;
            // Nobody listens any more once the client has gone away.
            if !send(&pieces, loan.is_some(), &mut *download, piece) {
                return;
            }
        }
    }
}

/// Hands a piece to the connection. A client that does not take it for a while must not keep memory that
/// tapes and other clients read through: then the engine gets back what it holds ready. `false` if the client
/// has gone.
fn send(
    pieces: &mpsc::Sender<Result<Bytes, Broken>>,
    lends: bool,
    download: &mut dyn Download,
    piece: Bytes,
) -> bool {
    let piece = if lends {
        piece
    } else {
        // The engine gets its memory back now, not when the client has taken the copy.
        let own = Bytes::copy_from_slice(&piece);
        drop(piece);
        own
    };
    let sent = Handle::current().block_on(pieces.send_timeout(Ok(piece), SLOW_AFTER));
    match sent {
        Ok(()) => true,
        Err(SendTimeoutError::Closed(_)) => false,
        Err(SendTimeoutError::Timeout(piece)) => {
            download.pause();
            let own = piece.map(|piece| Bytes::copy_from_slice(&piece));
            pieces.blocking_send(own).is_ok()
        }
    }
}

fn open(
    engine: &dyn Engine,
    path: &ArchivePath,
    headers: &HeaderMap,
    who: &str,
) -> Result<(Plan, Box<dyn Download>), Refusal> {
    let mut download = engine.open_read_for(path, who)?;
    let plan = Plan::new(download.stat(), headers, true)?;
    if let (Some(offset), true) = (plan.part, plan.length > 0) {
        download.select(offset, plan.length)?;
    }
    if plan.length > 0 {
        download.check_drives()?;
    }
    Ok((plan, download))
}

/// What is sent: decided from the file and the request's conditions.
#[derive(Clone, Copy, Debug)]
struct Plan {
    status: StatusCode,
    /// Where the part begins, if it is one.
    part: Option<u64>,
    /// Bytes of the body.
    length: u64,
}

impl Plan {
    /// RFC 9110, 13.2.2: `If-Match`, `If-None-Match`, `If-Range`, `Range`. `Range` counts only for `GET`.
    fn new(stat: &FileStat, headers: &HeaderMap, ranged: bool) -> Result<Plan, Refusal> {
        let size = stat.size.0;
        let tag = format!("\"{}\"", stat.file);
        let named = |name: &HeaderName, weak| {
            let mut values = headers.get_all(name).iter().peekable();
            values.peek().is_some().then(|| values.any(|value| names_tag(value.as_bytes(), &tag, weak)))
        };
        if named(&IF_MATCH, false) == Some(false) {
            let detail = format!("{} is another version now: its entity tag is {tag}", stat.path);
            return Err(Refusal::new(Kind::Precondition, detail));
        }
        if named(&IF_NONE_MATCH, true) == Some(true) {
            return Ok(Plan { status: StatusCode::NOT_MODIFIED, part: None, length: 0 });
        }
        let whole = Plan { status: StatusCode::OK, part: None, length: size };
        let current =
            headers.get(IF_RANGE).is_none_or(|value| value.as_bytes().trim_ascii() == tag.as_bytes());
        let mut ranges = headers.get_all(RANGE).iter();
        let asked = match (ranges.next(), ranges.next()) {
            (Some(value), None) if ranged && current => range(value.as_bytes(), size),
            _ => Range::Whole,
        };
        match asked {
            Range::Whole => Ok(whole),
            Range::Part { offset, length } => {
                Ok(Plan { status: StatusCode::PARTIAL_CONTENT, part: Some(offset), length })
            }
            Range::Unsatisfiable => {
                let detail = format!("the range touches no byte of {}, which has {size} bytes", stat.path);
                Err(Refusal::new(Kind::Range, detail).with(CONTENT_RANGE, unsatisfied(size)))
            }
        }
    }

    fn response(&self, stat: &FileStat, body: Body) -> Response {
        let mut headers = HeaderMap::new();
        let mut insert = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        let kist = HeaderName::from_static;
        insert(ETAG, format!("\"{}\"", stat.file));
        insert(ACCEPT_RANGES, "bytes".to_owned());
        insert(kist("digest"), format!("adler32={}", stat.checksums.stream.adler32));
        insert(kist("kist-blake3"), stat.checksums.blake3.to_string());
        insert(kist("kist-file-id"), stat.file.to_string());
        insert(kist("kist-locality"), locality_word(stat.locality).to_owned());
        insert(kist("kist-class"), percent::encode(&stat.class));
        insert(kist("kist-mtime"), precise(stat.attributes.mtime));
        insert(kist("kist-mode"), format!("{:04o}", stat.attributes.mode));
        insert(kist("kist-owner"), percent::encode(&stat.attributes.owner));
        insert(kist("kist-group"), percent::encode(&stat.attributes.group));
        if let FileKind::Symlink(target) = &stat.kind {
            insert(kist("kist-link-target"), percent::encode(target));
        }
        if self.status != StatusCode::NOT_MODIFIED {
            insert(CONTENT_LENGTH, self.length.to_string());
            insert(CONTENT_TYPE, "application/octet-stream".to_owned());
            insert(kist("x-content-type-options"), "nosniff".to_owned());
        }
        if let Some(offset) = self.part {
            let last = offset + self.length - 1;
            insert(CONTENT_RANGE, format!("bytes {offset}-{last}/{}", stat.size.0));
        }
        if let Some(date) = http_date(stat.attributes.mtime) {
            headers.insert(LAST_MODIFIED, date);
        }
        (self.status, headers, body).into_response()
    }
}

/// The rest of a file cannot be sent: the connection is closed before its last byte.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the file could not be read to its end")]
struct Broken;

/// The body of a reply that carries a file.
struct FileBody {
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
    remaining: u64,
}

impl HttpBody for FileBody {
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
