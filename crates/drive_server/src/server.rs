//! The server: listeners, connections, and the end of all that.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use base::{Duration, Uuid};
use bytes::Bytes;
use kinetic::server::{Device, DeviceSettings, Outcome};
use kinetic::{Acl, Configuration, Identity, Limits, Log, LogType, Push, StatusCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use threads::{JoinHandle, Mutex, MutexGuard, spawn_guarded};
use valuelog::{LogError, ValueLog};

use crate::announce;
use crate::budget::Budget;
use crate::error::StartError;
use crate::figures::{self, Figures};
use crate::limits::{
    MEMORY_MIN, PUSH_WITHIN, PUSHES_MAX, Patience, REFUSED_CONNECTIONS_MAX, STOP_WITHIN, Settings,
};
use crate::peers::{self, Pusher};
use crate::pool::Pool;
use crate::session::{Session, busy, left};
use crate::state;
use crate::store::{Done, Store};
use crate::wake::Wake;

/// What all of a server share.
pub(crate) struct Shared {
    device: Mutex<Device>,
    pub(crate) store: Store,
    pub(crate) pool: Pool,
    pub(crate) budget: Arc<Budget>,
    pub(crate) started: Instant,
    settings: Settings,
    sessions: Mutex<Vec<(Arc<Session>, JoinHandle<()>)>>,
    open: AtomicUsize,
    pushes: AtomicUsize,
    figures: Figures,
    /// What is said by multicast, and by what.
    announced: Option<(UdpSocket, String)>,
    is_stopping: AtomicBool,
    wake: Wake,
}

impl Shared {
    pub(crate) fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody wants it to end; the listening thread sees to it.
    pub(crate) fn ask_to_stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.wake.ring();
    }

    /// Puts entries to another device.
    pub(crate) fn push(&self, identity: Option<Identity>, mut push: Push, until: Option<Instant>) -> Done {
        let pusher = identity.and_then(|identity| {
            let device = self.device();
            let acl = device.state().acls.iter().find(|acl| acl.identity == identity)?;
            let (key, cluster_version) = (acl.key.clone(), device.state().cluster_version);
            Some(Pusher { identity, key, cluster_version })
        });
        let Some(pusher) = pusher else {
            let text = "the identity that asks is not known any more";
            return Done::Now(Outcome::refused(StatusCode::NotAuthorized, text));
        };
        if self.pushes.fetch_add(1, Ordering::SeqCst) >= PUSHES_MAX {
            self.pushes.fetch_sub(1, Ordering::SeqCst);
            return busy("as many pushes are under way as there may be");
        }
        let within = left(until, PUSH_WITHIN);
        peers::push(&self.store.log, &*self.settings.peers, &pusher, &mut push, within);
        self.pushes.fetch_sub(1, Ordering::SeqCst);
        Done::Now(Outcome::Push(push))
    }

    pub(crate) fn log(&self, types: Vec<LogType>) -> Log {
        self.figures.log(&self.store, types)
    }

    pub(crate) fn patience(&self) -> Patience {
        self.settings.patience
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<(Arc<Session>, JoinHandle<()>)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a server end.
#[derive(Clone)]
pub struct StopHandle(Arc<Shared>);

impl StopHandle {
    /// Has it end, without waiting for that.
    pub fn ask_to_stop(&self) {
        self.0.ask_to_stop();
    }
}

/// A device that is served. Dropped without [`Server::stop`] it is stopped all the same.
pub struct Server {
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
    plain: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
}

impl Server {
    /// Serves a store.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(log: ValueLog, settings: Settings) -> Result<Server, StartError> {
        if settings.plain.is_empty() && settings.tls.is_empty() {
            return Err(StartError::NoAddress);
        }
        if !settings.tls.is_empty() && settings.tls_config.is_none() {
            return Err(StartError::NoCertificate);
        }
        if settings.memory.0 < MEMORY_MIN.0 {
            return Err(StartError::Memory { given: settings.memory, least: MEMORY_MIN });
        }
        let listen = |addresses: &[SocketAddr], is_tls: bool| {
            let one = |address: &SocketAddr| {
                let made = TcpListener::bind(address).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    Ok((listener.local_addr()?, listener))
                });
                made.map(|(address, listener)| (address, is_tls, listener))
                    .map_err(|source| StartError::Listen { address: *address, source })
            };
            addresses.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let mut listeners = listen(&settings.plain, false)?;
        listeners.extend(listen(&settings.tls, true)?);
        let addresses = |is_tls: bool| -> Vec<SocketAddr> {
            listeners.iter().filter(|(_, tls, _)| *tls == is_tls).map(|(address, ..)| *address).collect()
        };
        let (plain, tls) = (addresses(false), addresses(true));
        let limits = limits_of(settings.limits, &log);
        let kept = state::load(&log)?;
        let configuration = Configuration {
            vendor: "Kist".to_owned(),
            model: "kist drive".to_owned(),
            serial_number: Bytes::from(kept.identity.to_string()),
            world_wide_name: Bytes::from(kept.identity.to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: kinetic::PROTOCOL_VERSION.to_owned(),
            port: plain.first().map(SocketAddr::port),
            tls_port: tls.first().map(SocketAddr::port),
            interfaces: figures::interfaces(),
            ..Configuration::default()
        };
        let figures = Figures::of(settings.disk.as_deref().unwrap_or(Path::new("/")));
        let announced = match settings.is_announced {
            false => None,
            true => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
                    .map_err(|source| StartError::System { what: "a socket for multicast", source })?;
                Some((socket, announce::words(&configuration, &plain)))
            }
        };
        let device_settings = DeviceSettings {
            configuration,
            limits,
            is_security_over_tls: settings.is_security_over_tls,
            connection_first: kept.connection_first,
        };
        let wake = Wake::new().map_err(|source| StartError::System { what: "an eventfd", source })?;
        let shared = Arc::new(Shared {
            device: Mutex::new(Device::new(device_settings, kept.state)),
            store: Store::new(log, limits, kept.identity, kept.starts),
            pool: Pool::start(settings.workers)?,
            budget: Budget::new(settings.memory.0),
            started: Instant::now(),
            settings,
            sessions: Mutex::default(),
            open: AtomicUsize::new(0),
            pushes: AtomicUsize::new(0),
            figures,
            announced,
            is_stopping: AtomicBool::new(false),
            wake,
        });
        let of_thread = Arc::clone(&shared);
        let listening = spawn_guarded("kinetic-listen", move || accept_all(&of_thread, listeners), || {})
            .map_err(|source| StartError::System { what: "a thread", source })?;
        Ok(Server { shared, listening: Some(listening), plain, tls })
    }

    /// Where it listens without TLS.
    #[must_use]
    pub fn plain(&self) -> &[SocketAddr] {
        &self.plain
    }

    /// Where it listens with TLS.
    #[must_use]
    pub fn tls(&self) -> &[SocketAddr] {
        &self.tls
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.shared.device().connections()
    }

    /// By which the drive is known again: its serial number and world wide name.
    #[must_use]
    pub fn name(&self) -> Uuid {
        self.shared.store.identity
    }

    /// Whether anybody can do anything with it, by the key that all new drives have.
    #[must_use]
    pub fn has_well_known_key(&self) -> bool {
        let factory = Acl::factory();
        self.shared.device().state().acls.iter().any(|acl| acl.key == factory.key)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &ValueLog {
        &self.shared.store.log
    }

    /// Bytes that values have in memory.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.shared.budget.taken()
    }

    /// By which anybody has it end.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(Arc::clone(&self.shared))
    }

    /// Waits until somebody has it end, through the protocol or a [`StopHandle`], and ends it.
    ///
    /// # Errors
    /// As [`Server::stop`].
    pub fn wait(mut self) -> Result<(), LogError> {
        self.end()
    }

    /// Ends it: nothing more is taken, what is under way is done and answered, all is made durable.
    ///
    /// # Errors
    /// If the last sync fails.
    pub fn stop(mut self) -> Result<(), LogError> {
        self.shared.ask_to_stop();
        self.end()
    }

    fn end(&mut self) -> Result<(), LogError> {
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        let sessions = std::mem::take(&mut *self.shared.sessions());
        for (session, _) in &sessions {
            session.stop();
        }
        let until = Instant::now() + STOP_WITHIN;
        while sessions.iter().any(|(_, thread)| !thread.is_finished()) && Instant::now() < until {
            rest(Duration::from_millis(2));
        }
        for (session, thread) in sessions {
            session.link.cut();
            let _ = thread.join();
        }
        self.shared.pool.stop();
        self.shared.store.log.shut()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.listening.is_some() {
            self.shared.ask_to_stop();
            // Nobody is there to be told.
            let _ = self.end();
        }
    }
}

/// The limits that the store can keep: a batch stands in half a segment of it, with its headers.
fn limits_of(limits: Limits, log: &ValueLog) -> Limits {
    const HEADER_BYTES_MAX: u64 = 16 << 10;
    let (layout, bounds) = (log.layout(), limits.bounds());
    let of_batch = layout.segment.0 / 2;
    let headers = HEADER_BYTES_MAX * (u64::from(bounds.batch_operations) + 1);
    let batch_bytes = bounds.batch_bytes.min(of_batch.saturating_sub(headers));
    let value_bytes = u64::from(bounds.value_bytes).min(layout.value_max.0);
    Limits {
        batch_bytes: u32::try_from(batch_bytes).ok(),
        value_bytes: u32::try_from(value_bytes).ok(),
        ..limits
    }
}

/// Waits a little, where nothing rings.
fn rest(span: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: span.subsec_nanos().into() };
    let _ = poll(&mut [], Some(&timeout));
}

fn accept_all(shared: &Arc<Shared>, listeners: Vec<(SocketAddr, bool, TcpListener)>) {
    let mut said: Option<Instant> = None;
    while !shared.is_stopping.load(Ordering::SeqCst) {
        let mut polled: Vec<PollFd<'_>> =
            listeners.iter().map(|(_, _, listener)| PollFd::new(listener, PollFlags::IN)).collect();
        let wake = shared.wake.as_fd();
        polled.push(PollFd::from_borrowed_fd(wake, PollFlags::IN));
        let patience = shared.announced.as_ref().map(|(socket, words)| {
            if said.is_none_or(|said| said.elapsed() >= announce::EVERY) {
                announce::say(socket, words);
                said = Some(Instant::now());
            }
            Timespec { tv_sec: 1, tv_nsec: 0 }
        });
        let _ = poll(&mut polled, patience.as_ref());
        shared.sessions().retain(|(_, thread)| !thread.is_finished());
        for (_, is_tls, listener) in &listeners {
            match listener.accept() {
                Ok((socket, _)) => begin(shared, socket, *is_tls),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Too many descriptors, or the client is gone: others go on meanwhile.
                Err(_) => rest(Duration::from_millis(10)),
            }
        }
    }
}

fn begin(shared: &Arc<Shared>, socket: TcpStream, is_tls: bool) {
    let most = shared.device().bounds().connections as usize + REFUSED_CONNECTIONS_MAX;
    if shared.open.load(Ordering::SeqCst) >= most {
        return;
    }
    let tls = match (is_tls, &shared.settings.tls_config) {
        (true, Some(config)) => match rustls::ServerConnection::new(Arc::clone(config)) {
            Ok(connection) => Some(connection),
            Err(_) => return,
        },
        (true, None) => return,
        (false, _) => None,
    };
    let Ok(session) = Session::new(shared, socket, tls).map(Arc::new) else { return };
    shared.open.fetch_add(1, Ordering::SeqCst);
    let (of_thread, counted) = (Arc::clone(&session), Arc::clone(shared));
    let run = move || {
        of_thread.run();
        counted.open.fetch_sub(1, Ordering::SeqCst);
    };
    match spawn_guarded("kinetic-link", run, || {}) {
        Ok(thread) => shared.sessions().push((session, thread)),
        Err(_) => {
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
