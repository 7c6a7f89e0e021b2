//! Third-party copy: `COPY` with `Source` has this server fetch a file from another one, with a `Destination`
//! elsewhere it sends one. The answer begins at once and tells how far it is; its last line says how it ended.

mod pull;
mod push;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration as Wait, SystemTime, UNIX_EPOCH};

use archive::ArchiveError;
use base::Adler32;
use bytes::Bytes;
use entrance::{Call, Kind, Refusal};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::interval;
use tpc::Digests;
use tpc::markers::{Ending, Marker};
use transfer::{AnyError, ReplyBody};

use crate::address::here;
use crate::answer::Answer;
use crate::context::Asked;

/// A marker comes at least this often; clients give up after 30 s without one, some earlier.
const MARKER_EVERY: Wait = Wait::from_secs(4);
/// Before the name of a header that goes to the other server.
const TRANSFER_HEADER: &str = "transferheader";
/// Headers that go to the other server at most.
const TRANSFER_HEADERS_MAX: usize = 64;
/// The labels of flows that there can be (SciTags).
const SCITAG_MAX: u32 = 65_535;

/// Which way a copy goes, and the other server's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Fetched from there.
    Pull(String),
    /// Sent there.
    Push(String),
}

/// Whether a `COPY` is one with another server; `None`: both ends are here.
///
/// # Errors
/// If it names both a source and a destination.
pub(crate) fn way(asked: &Asked) -> Result<Option<Way>, Refusal> {
    let headers = &asked.parts.headers;
    let text = |name: &'static str| -> Result<Option<String>, Refusal> {
        let value = entrance::headers::single(headers, &HeaderName::from_static(name))?;
        let wrong = || Refusal::bad(format!("the header {name} is no address"));
        value.map(|value| value.to_str().map(|text| text.trim().to_owned()).map_err(|_| wrong())).transpose()
    };
    match (text("source")?, text("destination")?) {
        (Some(_), Some(_)) => {
            Err(Refusal::bad("a COPY has a Source (it is fetched) or a Destination (it is sent)"))
        }
        (Some(source), None) => Ok(Some(Way::Pull(source))),
        (None, Some(to)) if here(&to, &asked.parts)?.is_none() => Ok(Some(Way::Push(to))),
        (None, _) => Ok(None),
    }
}

pub(crate) async fn copy(asked: &Asked, way: Way) -> Answer {
    let Some(client) = asked.context.copies.clone() else {
        let detail = "this server makes no third-party copies: see [third_party_copy] in its kist.toml";
        return Err(Refusal::new(Kind::Forbidden, detail).into());
    };
    if asked.call.principal.is_anonymous() {
        let detail = "third-party copies are made for those who come in with a key, token or certificate";
        return Err(Refusal::new(Kind::Forbidden, detail).into());
    }
    let wishes = Wishes::of(&asked.parts.headers)?;
    let client = Arc::new(client.of(&asked.call.principal.name));
    match way {
        Way::Pull(source) => pull::pull(asked, client, source, wishes).await,
        Way::Push(to) => push::push(asked, client, to, wishes).await,
    }
}

/// What a client wishes of a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wishes {
    /// For the other server.
    pub headers: HeaderMap,
    pub overwrite: bool,
    /// Whether a copy fails of which no checksum could be compared.
    pub must_verify: bool,
    pub streams: usize,
}

impl Wishes {
    /// # Errors
    /// If a header has a value that is not understood.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Wishes, Refusal> {
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            if let Some(name) = name.as_str().strip_prefix(TRANSFER_HEADER).filter(|name| !name.is_empty()) {
                let name: HeaderName =
                    name.parse().map_err(|_| Refusal::bad("a TransferHeader has a name that is none"))?;
                sent.append(name, value.clone());
            }
        }
        if sent.len() > TRANSFER_HEADERS_MAX {
            return Err(Refusal::bad(format!("more than {TRANSFER_HEADERS_MAX} headers are to be sent on")));
        }
        let word = |name: &'static str| -> Result<Option<&str>, Refusal> {
            let value = entrance::headers::single(headers, &HeaderName::from_static(name))?;
            Ok(value.map(|value| value.to_str().unwrap_or_default().trim()))
        };
        let flag = |name: &'static str, yes: &str, no: &str| match word(name)? {
            None => Ok(true),
            Some(word) if word.eq_ignore_ascii_case(yes) => Ok(true),
            Some(word) if word.eq_ignore_ascii_case(no) => Ok(false),
            Some(_) => Err(Refusal::bad(format!("the header {name} is neither {yes} nor {no}"))),
        };
        // Credentials are not delegated: the client sends what the other server wants in a TransferHeader.
        // gfal2 says so twice of a copy without delegation.
        if headers.get_all("credential").iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"none")) {
            return Err(Refusal::bad(
                "no credential is delegated to this server: send Credential: none, and what the other server wants \
                 in TransferHeaderAuthorization",
            ));
        }
        if let Some(tag) = word("scitag")?
            && !tag.parse::<u32>().is_ok_and(|tag| (1..=SCITAG_MAX).contains(&tag))
        {
            return Err(Refusal::bad(format!("the SciTag is no number from 1 to {SCITAG_MAX}")));
        }
        // gfal2, and so FTS, says 0 of each copy for which nobody chose a number.
        let streams = match word("x-number-of-streams")?.map(str::parse::<usize>) {
            None => 1,
            Some(Ok(count)) => count.max(1),
            Some(Err(_)) => return Err(Refusal::bad("the header X-Number-Of-Streams is no number")),
        };
        Ok(Wishes {
            headers: sent,
            overwrite: flag("overwrite", "T", "F")?,
            must_verify: flag("requirechecksumverification", "true", "false")?,
            streams,
        })
    }
}

/// Bytes that went by, for markers.
pub(crate) type Progress = Arc<AtomicU64>;

/// Why a copy failed, as its last line tells it.
#[derive(Debug)]
pub(crate) struct Failed(pub Ending);

impl Failed {
    pub(crate) fn because(why: impl Into<String>) -> Failed {
        Failed(Ending::Failure(why.into()))
    }
}

impl From<tpc::Error> for Failed {
    fn from(error: tpc::Error) -> Self {
        Failed::because(error.to_string())
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Failed::because(refusal.detail())
    }
}

impl From<ArchiveError> for Failed {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Stopping => Failed(Ending::Aborted(error.to_string())),
            error => Failed::because(Refusal::from(error).detail()),
        }
    }
}

/// The copy ends when nobody listens any more.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The answer of a copy that has begun: markers while `work` runs, then how it ended. If the client goes away,
/// `work` is dropped.
pub(crate) fn told<W>(asked: &Asked, about: String, progress: Progress, work: W) -> Response<ReplyBody>
where
    W: Future<Output = Result<(), Failed>> + Send + 'static,
{
    let (lines, receiver) = mpsc::channel::<String>(4);
    let path = asked.target.path.clone();
    let job = async move {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(MARKER_EVERY);
        let ending = loop {
            tokio::select! {
                ended = &mut work => break ended,
                _ = ticks.tick() => {
                    if lines.send(marker(&progress).to_string()).await.is_err() {
                        return;
                    }
                }
            }
        };
        let ending = match ending {
            Ok(()) => Ending::Success,
            Err(Failed(ending)) => ending,
        };
        tracing::debug!(%path, %about, %ending, "a third-party copy has ended");
        let _ = lines.send(format!("{}{ending}", marker(&progress))).await;
    };
    let task = AbortOnDrop(tokio::spawn(job).abort_handle());
    let body = Lines { lines: receiver, _task: task, _call: asked.call.clone() };
    let mut response = Response::new(ReplyBody::new(body));
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/perf-marker-stream"));
    response
}

/// The lines of the answer.
struct Lines {
    lines: mpsc::Receiver<String>,
    _task: AbortOnDrop,
    /// Counts against the caller until the last line.
    _call: Arc<Call>,
}

impl Body for Lines {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        self.lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line.into()))))
    }
}

fn marker(progress: &Progress) -> Marker {
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Marker { timestamp, stripe: 0, bytes: progress.load(Ordering::Relaxed), stripes: 1, remote: None }
}

/// That the bytes are those that the other server has, as far as it says.
///
/// # Errors
/// If they differ, or nothing could be compared and had to be.
pub(crate) fn compare(
    theirs: &Digests,
    adler32: Adler32,
    crc32c: base::Crc32c,
    must_verify: bool,
) -> Result<(), Failed> {
    let differs = |name: &str, theirs: String, ours: String| {
        Err(Failed::because(format!(
            "checksum mismatch: the other server has {name} {theirs}, this one {ours}"
        )))
    };
    if let Some(theirs) = theirs.adler32.filter(|theirs| *theirs != adler32) {
        return differs("adler32", theirs.to_string(), adler32.to_string());
    }
    if let Some(theirs) = theirs.crc32c.filter(|theirs| *theirs != crc32c) {
        return differs("crc32c", format!("{:08x}", theirs.0), format!("{:08x}", crc32c.0));
    }
    if must_verify && theirs.adler32.is_none() && theirs.crc32c.is_none() {
        return Err(Failed::because(
            "the other server tells neither adler32 nor crc32c of the file, and RequireChecksumVerification is not false",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(lines: &[(&'static str, &'static str)]) -> Result<Wishes, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Wishes::of(&headers)
    }

    /// As gfal2 2.21 sends it, and so FTS: each such copy was refused with 400.
    #[test]
    fn what_gfal2_says_is_understood() {
        let told = wishes(&[
            ("x-number-of-streams", "0"),
            ("secure-redirection", "1"),
            ("transferheaderauthorization", "Bearer x"),
            ("credential", "none"),
            ("credential", "none"),
            ("x-no-delegate", "true"),
            ("requirechecksumverification", "false"),
        ]);
        let told = told.unwrap();
        assert_eq!((told.streams, told.must_verify, told.overwrite), (1, false, true));
        assert_eq!(told.headers.get("authorization").unwrap(), "Bearer x");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for lines in [
            &[("credential", "none"), ("credential", "gridsite")][..],
            &[("x-number-of-streams", "-1")],
            &[("overwrite", "T"), ("overwrite", "F")],
            &[("scitag", "0")],
        ] {
            assert!(wishes(lines).is_err(), "{lines:?}");
        }
    }
}
