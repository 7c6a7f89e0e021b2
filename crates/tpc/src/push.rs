//! Sends a file.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use base::{ByteCount, Duration};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::ext::on_informational;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::connect::OutBody;
use crate::connections::IfFull;
use crate::digests::Digests;
use crate::error::Error;
use crate::exchange::sent_on;
use crate::rate::RateWindow;
use crate::settings::Timeouts;
use crate::target::Target;

/// How often the progress of a file that is sent is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Whether something may be replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Whatever is there.
    Replace,
    /// Nothing (`If-None-Match: *`). Not every server heeds it.
    OnlyNew,
}

/// A file that another server has taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// Its answer: 200, 201 or 204.
    pub status: u16,
    /// What it said of checksums; mostly nothing, so that [`Client::head`] has to ask for them.
    pub digests: Digests,
}

impl Client {
    /// Sends a file of exactly `length` bytes and waits until the other server has answered that it has it.
    /// Nothing is sent before it is known who takes it: dCache and XRootD redirect first. Dropping the
    /// future ends the copy; a server must not keep what did not come to its end, and whether it did is for
    /// [`Client::head`] to ask.
    ///
    /// # Errors
    /// [`Error`]; of another status than 200, 201 and 204, [`Error::Status`].
    pub async fn push<B>(
        &self,
        url: &str,
        headers: HeaderMap,
        length: ByteCount,
        how: How,
        body: B,
    ) -> Result<Push, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let (session, target) = (self.session(), Target::parse(url)?);
        let mut headers = sent_on(headers);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length.0));
        if how == How::OnlyNew {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if length.0 > 0 {
            headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        let outgoing = Outgoing::new(length.0, body);
        let put = Method::PUT;
        let answer = session.exchange(&put, &target, &headers, IfFull::Refuse, Some(&outgoing)).await?;
        let status = answer.response.status().as_u16();
        match status {
            200 | 201 | 204 if outgoing.is_sent() => {}
            200 | 201 | 204 => return Err(Error::Early),
            other => return Err(Error::Status(other)),
        }
        Ok(Push { status, digests: Digests::read(answer.response.headers())? })
    }
}

/// A file that is to be sent, over redirects that come before it begins.
pub(crate) struct Outgoing {
    /// Until a server takes it.
    file: Arc<Mutex<Option<UnsyncBoxBody<Bytes, Error>>>>,
    progress: Arc<Mutex<Progress>>,
    length: u64,
}

/// How far it is.
#[derive(Default)]
struct Progress {
    sent: u64,
    is_complete: bool,
    has_failed: bool,
    /// How long the file has kept the connection waiting, and since when it does now.
    kept_waiting: Duration,
    keeps_waiting: Option<Instant>,
}

impl Outgoing {
    fn new<B>(length: u64, body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let body = body.map_err(|error| {
            tracing::warn!(%error, "a file cannot be sent to its end");
            Error::Source
        });
        let file = Arc::new(Mutex::new(Some(body.boxed_unsync())));
        Outgoing { file, progress: Arc::new(Mutex::new(Progress::default())), length }
    }

    /// Whether a server has taken it.
    pub(crate) fn has_begun(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether all of it was given to the connection.
    fn is_sent(&self) -> bool {
        self.length == 0 || self.progress.lock().unwrap_or_else(PoisonError::into_inner).is_complete
    }

    /// Sends the request with the file behind it, as soon as the server wants it.
    pub(crate) async fn send(
        &self,
        sender: &mut SendRequest<OutBody>,
        request: Request<OutBody>,
        timeouts: &Timeouts,
    ) -> Result<hyper::Result<Response<Incoming>>, Error> {
        let mut request = request;
        let wanted = Arc::new(Notify::new());
        if self.length > 0 {
            *request.body_mut() = OutBody::new(self.gated(&wanted, timeouts.continue_wait));
            on_informational(&mut request, move |answer| {
                if answer.status().as_u16() == 100 {
                    wanted.notify_one();
                }
            });
        }
        let mut answer = pin!(sender.send_request(request));
        let mut window = RateWindow::new(timeouts.lowest);
        let (mut sent, mut kept, mut begun, mut complete) = (0, Duration::ZERO, None, None);
        let asked = Instant::now();
        loop {
            if let Ok(answered) = timeout(LOOK, answer.as_mut()).await {
                let has_failed = self.progress.lock().unwrap_or_else(PoisonError::into_inner).has_failed;
                return if has_failed && answered.is_err() { Err(Error::Source) } else { Ok(answered) };
            }
            let now = Instant::now();
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            if progress.is_complete || self.length == 0 {
                if now - *complete.get_or_insert(now) >= timeouts.put_answer {
                    return Err(Error::NoAnswer);
                }
            } else if self.has_begun() {
                // Before that nothing could be sent.
                let since = begun.replace(now).unwrap_or(now);
                let keeps = progress.keeps_waiting.map(|since| now - since).unwrap_or_default();
                let kept_now = progress.kept_waiting + keeps;
                let waited = (now - since).saturating_sub(kept_now.saturating_sub(kept));
                kept = kept_now;
                window.note(waited, progress.sent - sent)?;
                sent = progress.sent;
            } else if now - asked >= timeouts.first_byte.saturating_add(timeouts.continue_wait) {
                return Err(Error::NoAnswer);
            }
        }
    }

    fn gated(&self, wanted: &Arc<Notify>, wait: Duration) -> Gated {
        let wanted = wanted.clone();
        let opens = Box::pin(async move {
            tokio::select! {
                () = wanted.notified() => {}
                () = sleep(wait) => {}
            }
        });
        let (file, progress) = (self.file.clone(), self.progress.clone());
        Gated { opens: Some(opens), file, taken: None, progress, left: self.length }
    }
}

/// The file as the connection takes it: nothing before the server wants it, then exactly as many bytes as
/// announced.
struct Gated {
    opens: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    file: Arc<Mutex<Option<UnsyncBoxBody<Bytes, Error>>>>,
    taken: Option<UnsyncBoxBody<Bytes, Error>>,
    progress: Arc<Mutex<Progress>>,
    left: u64,
}

impl Gated {
    /// The next bytes of the file, which has begun.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.taken.is_none() {
            self.taken = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        let Some(file) = &mut self.taken else { return Poll::Ready(Some(Err(Error::Source))) };
        loop {
            let next = match ready!(pin!(&mut *file).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.left == 0 => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(Error::Source))),
            };
            if next.len() as u64 > self.left {
                return Poll::Ready(Some(Err(Error::Source)));
            }
            if !next.is_empty() {
                return Poll::Ready(Some(Ok(next)));
            }
        }
    }
}

impl Body for Gated {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(opens) = &mut self.opens {
            ready!(opens.as_mut().poll(cx));
            self.opens = None;
        }
        let next = self.poll_file(cx);
        let shared = self.progress.clone();
        let mut progress = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_pending() {
            progress.keeps_waiting.get_or_insert_with(Instant::now);
            return Poll::Pending;
        }
        if let Some(since) = progress.keeps_waiting.take() {
            progress.kept_waiting += since.elapsed();
        }
        match ready!(next) {
            Some(Ok(bytes)) => {
                self.left -= bytes.len() as u64;
                progress.sent += bytes.len() as u64;
                // hyper asks no more once it has as many bytes as were announced.
                progress.is_complete = self.left == 0;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(error)) => {
                progress.has_failed = true;
                Poll::Ready(Some(Err(error)))
            }
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
