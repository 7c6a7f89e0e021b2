//! One connection: TLS, protocol, service, end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use authority::{Allowances, ClientCertificate, Encrypted, Peer};
use axum::body::Body;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use transfer::{Pace, Paced, Take};

use crate::certificates::Certificate;
use crate::http2::{self, Streams, Verdict};
use crate::limits::Limits;
use crate::sniff::sniff;
use crate::stream::GuardedStream;
use crate::unread;

/// What connections are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Running,
    /// End the request that runs, take no other.
    Draining,
    /// Break off.
    Now,
}

/// What answers.
#[derive(Clone)]
pub(crate) enum Serving {
    Native(TowerToHyperService<axum::Router>),
    Registered(Take),
}

/// What all connections of a listener get.
pub(crate) struct Terms {
    pub serving: Serving,
    pub limits: Limits,
    pub certificate: Option<Arc<Certificate>>,
    pub allowances: Allowances,
}

/// Who is at the other end.
#[derive(Clone)]
struct Client {
    peer: SocketAddr,
    encrypted: Option<Encrypted>,
    certificate: Option<ClientCertificate>,
    /// How fast it has to be; with HTTP/2 each request has its own.
    pace: Pace,
}

/// A connection to be served.
struct Connection {
    terms: Arc<Terms>,
    client: Client,
    stopped: watch::Receiver<Stop>,
}

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("TLS: {0}")]
    Handshake(std::io::Error),
    #[error("the handshake of TLS or the first line did not come in time")]
    Late,
    #[error("{0}")]
    Stream(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the client took back too many requests")]
    Resets,
    #[error("the client takes a reply too slowly")]
    Slow,
    #[error("nothing was asked for too long")]
    Idle,
}

/// Serves a connection to its end.
pub(crate) async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    terms: Arc<Terms>,
    stopped: watch::Receiver<Stop>,
) {
    // Replies are written whole; nothing is gained by holding small ones back.
    let _ = stream.set_nodelay(true);
    let pace = Pace::default();
    let stream = GuardedStream::new(stream, &terms.limits, pace.clone());
    let client = Client { peer, encrypted: None, certificate: None, pace };
    let certificate = terms.certificate.clone();
    let connection = Connection { terms, client, stopped };
    let ended = match certificate {
        None => connection.begin(stream).await,
        Some(certificate) => connection.handshake(stream, &certificate).await,
    };
    match ended {
        Err(error @ Ended::Resets) => tracing::warn!(%peer, %error, "a connection was broken off"),
        Err(error) => tracing::debug!(%peer, %error, "a connection was broken off"),
        Ok(()) => {}
    }
}

impl Connection {
    async fn handshake(
        mut self,
        stream: GuardedStream<TcpStream>,
        certificate: &Certificate,
    ) -> Result<(), Ended> {
        let acceptor = TlsAcceptor::from(certificate.config());
        let accepted = tokio::select! {
            accepted = timeout(self.terms.limits.handshake_deadline, acceptor.accept(stream)) => accepted,
            () = told(&mut self.stopped, Stop::Draining) => return Ok(()),
        };
        let stream = accepted.map_err(|_| Ended::Late)?.map_err(Ended::Handshake)?;
        let (_, session) = stream.get_ref();
        let tls13 = session.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
        self.client.encrypted = Some(Encrypted { tls13 });
        let shown = session.peer_certificates().and_then(<[_]>::first);
        self.client.certificate = shown.map(|shown| ClientCertificate(Arc::from(shown.as_ref())));
        self.begin(stream).await
    }

    /// Finds out the protocol. That counts as a part of the first header.
    async fn begin<S>(mut self, stream: S) -> Result<(), Ended>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let sniffed = tokio::select! {
            sniffed = timeout(self.terms.limits.header_deadline, sniff(stream)) => sniffed,
            () = told(&mut self.stopped, Stop::Draining) => return Ok(()),
        };
        let (stream, is_http2) = sniffed.map_err(|_| Ended::Late)??;
        let stream = TokioIo::new(stream);
        if is_http2 { self.http2(stream).await } else { self.http1(stream).await }
    }

    async fn http1<S>(mut self, stream: TokioIo<S>) -> Result<(), Ended>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (terms, client) = (self.terms.clone(), self.client.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (terms, client) = (terms.clone(), client.clone());
            async move { Ok::<_, Infallible>(answer(request, &terms, client).await) }
        });
        let connection = builder(&self.terms.limits).serve_connection(stream, service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = told(&mut self.stopped, Stop::Draining) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = told(&mut self.stopped, Stop::Now) => Ok(()),
                }
            }
        };
        Ok(ended?)
    }

    async fn http2<S>(mut self, stream: TokioIo<S>) -> Result<(), Ended>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.terms.limits.clone();
        let streams = Streams::new(&limits);
        let (terms, client, begun) = (self.terms.clone(), self.client.clone(), streams.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (terms, pace, stream) = (terms.clone(), Pace::default(), begun.begin());
            let client = Client { pace: pace.clone(), ..client.clone() };
            async move {
                let response = answer(request, &terms, client).await;
                Ok::<_, Infallible>(response.map(|body| stream.reply(body, pace)))
            }
        });
        let connection = http2::builder(&limits).serve_connection(stream, service);
        let mut connection = std::pin::pin!(connection);
        let mut tick = tokio::time::interval(streams.tick());
        let (mut idle_max, mut next) = (limits.header_deadline, Stop::Draining);
        // Once it was asked to end, an idle connection gets a moment to say goodbye, and not longer.
        let mut ending = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => return Ok(ended?),
                () = streams.cut.notified() => return Err(Ended::Resets),
                () = told(&mut self.stopped, next) => {
                    if *self.stopped.borrow() != Stop::Draining || next == Stop::Now {
                        return Ok(());
                    }
                    (idle_max, next, ending) = (limits.linger, Stop::Now, true);
                    tick = tokio::time::interval((limits.linger / 4).max(http2::TICK_MIN));
                    connection.as_mut().graceful_shutdown();
                }
                _ = tick.tick() => match streams.judge(idle_max) {
                    Verdict::Fine => {}
                    Verdict::Slow => return Err(Ended::Slow),
                    Verdict::Idle if ending => return Err(Ended::Idle),
                    Verdict::Idle => {
                        (idle_max, ending) = (idle_max + limits.linger, true);
                        connection.as_mut().graceful_shutdown();
                    }
                },
            }
        }
    }
}

/// Answers a request.
async fn answer(mut request: Request<Incoming>, terms: &Terms, client: Client) -> Response<Body> {
    let is_http2 = request.version() == Version::HTTP_2;
    // Signatures cover `Host`, which HTTP/2 sends as a part of the address.
    if let Some(host) = request.uri().authority().filter(|_| is_http2)
        && !request.headers().contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(host.as_str())
    {
        request.headers_mut().insert(HOST, host);
    }
    let extensions = request.extensions_mut();
    extensions.insert(Peer(client.peer));
    extensions.insert(terms.allowances.clone());
    extensions.insert(client.pace.clone());
    if let Some(encrypted) = client.encrypted {
        extensions.insert(encrypted);
    }
    if let Some(certificate) = client.certificate {
        extensions.insert(certificate);
    }
    if is_coded(request.headers()) {
        return not_undone();
    }
    let (request, unread) = unread::watch(request);
    let mut response = match &terms.serving {
        Serving::Native(routes) => match routes.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Serving::Registered(take) => {
            let request =
                request.map(|body| Paced::new(body, terms.limits.transfer.rate, client.pace).boxed_unsync());
            take(request).await.map(Body::new)
        }
    };
    // With HTTP/2 only the stream ends with a body that is not read.
    if !is_http2 {
        unread.tell(&mut response);
    }
    response
}

/// Whether a body comes in another coding than chunks. hyper undoes those alone, and would hand on the rest
/// as if it were the body itself: a compressed file would be stored in place of the file.
fn is_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(coding), None) => !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    }
}

/// The answer to such a body (RFC 9112, 6.1). It is not read.
fn not_undone() -> Response<Body> {
    let mut response = Response::new(Body::from("the only Transfer-Encoding is chunked, once\n"));
    *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Waits until connections are told this, or to break off. A door that is gone says the latter.
async fn told(stopped: &mut watch::Receiver<Stop>, stop: Stop) {
    let _ = stopped.wait_for(|now| *now == stop || *now == Stop::Now).await;
}

fn builder(limits: &Limits) -> http1::Builder {
    /// The least that hyper allows.
    const BUFFER_BYTES_MIN: usize = 8 << 10;
    let mut builder = http1::Builder::new();
    builder
        // Without a timer the deadline would silently not count.
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_deadline)
        .max_headers(limits.header_count)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.buffer_bytes.max(BUFFER_BYTES_MIN));
    builder
}
