//! The listener and its connections.

use std::future::Future;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use base::Duration;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::auth::Keys;
use crate::guard::Peer;
use crate::limits::Limits;
use crate::router::router;
use crate::seam::Engine;
use crate::shared::Shared;
use crate::stream::GuardedStream;
use crate::unread;

/// A pause after a connection could not be accepted, which happens when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// For how long `run` waits for threads of aborted requests.
const THREADS_WAIT: Duration = Duration::from_secs(5);
/// The reply to a connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\
    Kist-Problem: unavailable\r\nConnection: close\r\n\r\n";

/// Who may come in with which key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyEntry {
    /// The principal: owner of requests, name in the audit log. Several keys may have one name.
    pub name: String,
    /// The BLAKE3 hash of the key.
    pub hash: [u8; 32],
}

/// How the door is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoorSettings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// All keys. Without any nobody gets in.
    pub keys: Vec<KeyEntry>,
    /// All limits.
    pub limits: Limits,
}

/// Why the door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}: choose another address or end what uses it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

/// Why the door cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The runtime or the listener cannot be set up.
    #[error("the door cannot be set up: {0}: check the limits of threads and descriptors")]
    Runtime(#[from] std::io::Error),
}

/// A door that listens but does not answer yet; clients that come now wait.
#[derive(Debug)]
pub struct Door {
    listener: StdListener,
    address: SocketAddr,
    settings: DoorSettings,
}

impl Door {
    /// The address with the port taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Takes the address.
///
/// # Errors
/// If it cannot be listened at.
pub fn bind(settings: DoorSettings) -> Result<Door, BindError> {
    let address = settings.listen;
    let failed = |source| BindError::Listen { address, source };
    let listener = StdListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Door { listener, address, settings })
}

/// Serves on a runtime of its own, with as many threads as the limits name, until `shutdown` is ready.
///
/// # Errors
/// If the runtime cannot be set up.
pub fn run(
    door: Door,
    engine: Arc<dyn Engine>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(door.settings.limits.blocking_threads())
        .thread_name("door")
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(door, engine, shutdown));
    runtime.shutdown_timeout(THREADS_WAIT);
    outcome
}

/// Serves on the present runtime until `shutdown` is ready; then takes no more connections, lets running
/// requests end for [`Limits::drain`], and breaks off the rest. The runtime needs
/// [`Limits::blocking_threads`].
///
/// # Errors
/// If the listener cannot be handed to the runtime.
pub async fn serve(
    door: Door,
    engine: Arc<dyn Engine>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let Door { listener, address, settings } = door;
    let DoorSettings { listen: _, keys, limits } = settings;
    let listener = TcpListener::from_std(listener)?;
    let keys = Keys::new(keys, limits.principal_requests);
    let shared = Arc::new(Shared::new(engine, limits, keys));
    let service = TowerToHyperService::new(router(shared.clone()));
    let connections_max = u32::try_from(shared.limits.connections.clamp(1, 1 << 20)).unwrap_or(1 << 20);
    let places = Arc::new(Semaphore::new(connections_max as usize));
    let (stop, stopped) = watch::channel(Stop::Running);
    tracing::info!(%address, "the door is open");
    let listening = Listening { listener, service, shared: shared.clone(), places: places.clone(), stopped };
    listening.accept(shutdown).await;
    let _ = stop.send(Stop::Draining);
    let drained = tokio::time::timeout(shared.limits.drain, places.acquire_many(connections_max)).await;
    if drained.is_err() {
        tracing::warn!("requests still running are broken off");
        let _ = stop.send(Stop::Now);
        let _ = tokio::time::timeout(THREADS_WAIT, places.acquire_many(connections_max)).await;
    }
    tracing::info!(%address, "the door is closed");
    Ok(())
}

/// A listener and what each of its connections gets.
struct Listening {
    listener: TcpListener,
    service: Routes,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    stopped: watch::Receiver<Stop>,
}

impl Listening {
    /// Takes connections until `shutdown`; then the address is free.
    async fn accept(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = self.places.clone().try_acquire_owned() else {
                tracing::warn!(%peer, limit = self.shared.limits.connections, "a connection too many");
                // Best effort: the client is told if its socket takes the few bytes at once.
                let _ = stream.try_write(FULL);
                continue;
            };
            let (service, limits, stopped) =
                (self.service.clone(), self.shared.limits.clone(), self.stopped.clone());
            tokio::spawn(async move {
                let _place = place;
                connection(stream, peer, service, limits, stopped).await;
            });
        }
    }
}

/// What connections are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    Running,
    /// End the request that runs, take no other.
    Draining,
    /// Break off.
    Now,
}

type Routes = TowerToHyperService<axum::Router>;

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Routes,
    limits: Limits,
    mut stopped: watch::Receiver<Stop>,
) {
    // Replies are written whole; nothing is gained by holding small ones back.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let (request, unread) = unread::watch(request);
        let reply = routes.call(request);
        async move {
            let mut response = reply.await?;
            unread.tell(&mut response);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let stream = TokioIo::new(GuardedStream::new(stream, &limits));
    let connection = builder(&limits).serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopped, Stop::Draining) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = told(&mut stopped, Stop::Now) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection was broken off");
    }
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
