//! The listeners of a door.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use authority::{AllowanceSettings, Allowances, Rate};
use base::Duration;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::certificates::{Certificate, Certificates};
use crate::connection::{Serving, Stop, Terms, connection};
use crate::limits::Limits;
use crate::metrics::watch;
use crate::router::router;
use crate::service::{HTTP, Services};
use crate::shared::Shared;
use crate::tls::{TlsError, TlsSettings};

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

/// An address and what is served there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Takes a free port if that of the address is another's.
    pub another_port: bool,
    /// The name of what is served: [`HTTP`], or of a service that is registered ([`Services::register`]).
    pub service: &'static str,
    /// The server's certificate; `None`: without TLS.
    pub tls: Option<TlsSettings>,
}

/// How the door is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoorSettings {
    /// Where to listen; at least one.
    pub listeners: Vec<Listener>,
    /// Keys of admins, beside all that the authority knows.
    pub keys: Vec<KeyEntry>,
    /// All limits. Connections and calls are counted over all listeners.
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
    /// The certificate of a listener cannot be used.
    #[error("TLS at {address}: {source}")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: TlsError,
    },
}

/// Why the door cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The runtime or the listener cannot be set up.
    #[error("the door cannot be set up: {0}: check the limits of threads and descriptors")]
    Runtime(#[from] std::io::Error),
    /// There is a listener for a service that is not registered.
    #[error("there is no service '{service}' for {address}: there are {known}")]
    NoService {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        service: &'static str,
        /// The names of the services that there are.
        known: String,
    },
}

/// A door that listens but does not answer yet; clients that come now wait.
#[derive(Debug)]
pub struct Door {
    bound: Vec<Bound>,
    settings: DoorSettings,
}

#[derive(Debug)]
struct Bound {
    listener: StdListener,
    address: SocketAddr,
    service: &'static str,
    certificate: Option<Arc<Certificate>>,
}

impl Door {
    /// The addresses with the ports taken, in the order of the settings.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|bound| bound.address).collect()
    }

    /// The address of the first listener of a service.
    #[must_use]
    pub fn address_of(&self, service: &str) -> Option<SocketAddr> {
        self.bound.iter().find(|bound| bound.service == service).map(|bound| bound.address)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The certificates of all listeners, to have them read again. The door itself looks at their files every
    /// [`Limits::certificate_watch`].
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates(self.bound.iter().filter_map(|bound| bound.certificate.clone()).collect())
    }
}

/// Takes the addresses.
///
/// # Errors
/// If one cannot be listened at, or a certificate cannot be used.
pub fn bind(settings: DoorSettings) -> Result<Door, BindError> {
    let bind_one = |asked: &Listener| {
        let failed = |source| BindError::Listen { address: asked.address, source };
        let unusable = |source| BindError::Tls { address: asked.address, source };
        let certificate = asked.tls.as_ref().map(Certificate::open).transpose().map_err(unusable)?;
        let listener = match StdListener::bind(asked.address) {
            Err(error) if asked.another_port && error.kind() == ErrorKind::AddrInUse => {
                StdListener::bind((asked.address.ip(), 0)).map_err(failed)?
            }
            bound => bound.map_err(failed)?,
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Bound { listener, address, service: asked.service, certificate: certificate.map(Arc::new) })
    };
    let bound = settings.listeners.iter().map(bind_one).collect::<Result<_, _>>()?;
    Ok(Door { bound, settings })
}

/// Serves on a runtime of its own, with as many threads as the limits name, until `shutdown` is ready.
///
/// # Errors
/// If the runtime cannot be set up, or a listener's service is not registered.
pub fn run(
    door: Door,
    services: Services,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(door.limits().blocking_threads().saturating_add(services.threads()))
        .thread_name("door")
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(door, services, shutdown));
    runtime.shutdown_timeout(THREADS_WAIT);
    outcome
}

/// Serves on the present runtime until `shutdown` is ready; then takes no more connections, lets running
/// requests end for [`Limits::drain`], and breaks off the rest. The runtime needs
/// [`Limits::blocking_threads`], and those of the services.
///
/// # Errors
/// If a listener cannot be handed to the runtime, or its service is not registered.
pub async fn serve(
    door: Door,
    services: Services,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let certificates = door.certificates();
    let Door { bound, settings } = door;
    let DoorSettings { listeners: _, keys, limits } = settings;
    let known = services.names().join(", ");
    let Services { authority, transfers, registered } = services;
    authority.add_admin_keys(keys.into_iter().map(|key| (key.name, key.hash)));
    let allowances = allowances(&limits);
    let notices = authority.notices().clone();
    let shared = Arc::new(Shared::new(authority, transfers, limits.clone()));
    let calls = shared.calls.clone();
    notices.set("calls", move || calls.shortage("calls").into_iter().collect());
    let registered = registered.into_iter();
    let mut served: BTreeMap<&str, Serving> = registered
        .map(|(name, service)| (name, Serving::Registered(watch(&shared.counts, service))))
        .collect();
    served.insert(HTTP, Serving::Native(TowerToHyperService::new(router(shared))));
    let connections_max = u32::try_from(limits.connections.clamp(1, 1 << 20)).unwrap_or(1 << 20);
    let places = Arc::new(Semaphore::new(connections_max as usize));
    let (stop, stopped) = watch::channel(Stop::Running);
    let mut listening = JoinSet::new();
    for Bound { listener, address, service, certificate } in bound {
        let Some(serving) = served.get(service).cloned() else {
            return Err(ServeError::NoService { address, service, known });
        };
        let encrypted = certificate.is_some();
        if let Some(certificate) = certificate.clone() {
            notices.set(&format!("certificate at {address}"), move || certificate.faults());
        }
        let allowances = allowances.clone();
        let terms = Arc::new(Terms { serving, limits: limits.clone(), certificate, allowances });
        let listener = TcpListener::from_std(listener)?;
        let (places, stopped) = (places.clone(), stopped.clone());
        tracing::info!(%address, service, encrypted, "the door is open");
        listening.spawn(Listening { listener, terms, places, stopped }.accept());
    }
    let watching = watch_files(certificates, limits.certificate_watch);
    tokio::select! {
        () = shutdown => {}
        () = watching => {}
    }
    let _ = stop.send(Stop::Draining);
    while listening.join_next().await.is_some() {}
    let drained = tokio::time::timeout(limits.drain, places.acquire_many(connections_max)).await;
    if drained.is_err() {
        tracing::warn!("requests still running are broken off");
        let _ = stop.send(Stop::Now);
        let _ = tokio::time::timeout(THREADS_WAIT, places.acquire_many(connections_max)).await;
    }
    tracing::info!("the door is closed");
    Ok(())
}

fn allowances(limits: &Limits) -> Allowances {
    let rate = limits.requests_per_second.map(|per_second| Rate { per_second, burst: per_second });
    let begun = Instant::now();
    let settings = AllowanceSettings { at_once: limits.principal_requests, rate };
    Allowances::new(settings, Box::new(move || begun.elapsed()))
}

/// Looks at the files of certificates for ever.
async fn watch_files(certificates: Certificates, every: Duration) {
    if certificates.0.is_empty() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(every).await;
        let certificates = certificates.clone();
        // A panic in there is one look less.
        let _ = tokio::task::spawn_blocking(move || certificates.look()).await;
    }
}

/// A listener and what each of its connections gets.
struct Listening {
    listener: TcpListener,
    terms: Arc<Terms>,
    places: Arc<Semaphore>,
    stopped: watch::Receiver<Stop>,
}

impl Listening {
    /// Takes connections until the door stops; then the address is free.
    async fn accept(mut self) {
        loop {
            let accepted = tokio::select! {
                _ = self.stopped.wait_for(|now| *now != Stop::Running) => break,
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
                tracing::warn!(%peer, limit = self.terms.limits.connections, "a connection too many");
                // Best effort: the client is told if its socket takes the few bytes at once.
                if self.terms.certificate.is_none() {
                    let _ = stream.try_write(FULL);
                }
                continue;
            };
            let (terms, stopped) = (self.terms.clone(), self.stopped.clone());
            tokio::spawn(async move {
                let _place = place;
                connection(stream, peer, terms, stopped).await;
            });
        }
    }
}
