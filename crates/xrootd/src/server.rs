//! The socket: who may connect, how many, and the stop.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use authority::Guard;
use base::Duration;
use rustix::fs::{Gid, chown};
use rustix::net::sockopt::socket_peercred;
use thiserror::Error;
use transfer::{Places, Transfers};

use crate::connection::Connection;
use crate::engine::Engine;
use crate::settings::{Settings, Space};
use crate::staged::Staged;

/// A stop waits for this long at most until the connections have ended.
const STOP_WAIT: Duration = Duration::from_secs(20);
/// After an accept that failed it is tried again after this time.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The stack of a connection's thread: what it reads lies on the heap.
const STACK_BYTES: usize = 512 << 10;
/// Mode of the socket.
const SOCKET_MODE: u32 = 0o660;

/// Why the door cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What stands at its path is no socket.
    #[error("{0} is there and is no socket: remove it, or name another path in [xrootd] socket")]
    NoSocket(PathBuf),
    /// The path is longer than an address can be.
    #[error("{0} is too long for a socket: name a path of at most 100 bytes in [xrootd] socket")]
    TooLong(PathBuf),
    /// It cannot be made.
    #[error("the socket {0} cannot be made: {1}")]
    Io(PathBuf, io::Error),
}

/// What all connections share.
pub struct Shared {
    pub guard: Guard<dyn Engine>,
    pub transfers: Transfers,
    pub settings: Settings,
    /// Files that are open at once.
    pub open_files: Places,
    /// Calls with long answers.
    pub long_calls: Places,
    /// Bytes that wait in windows.
    pub windows: Arc<AtomicU64>,
    space: Mutex<Option<(Instant, Option<Space>)>>,
    /// What opens of files on tape have asked for.
    pub staged: Staged,
    connections: Mutex<Connections>,
    /// Told when a connection ends.
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// To end them with.
    open: BTreeMap<u64, UnixStream>,
    stopping: bool,
}

/// The door while it is open. Dropping it closes it.
pub struct Server {
    shared: Arc<Shared>,
    listener: UnixListener,
    accepting: Option<thread::JoinHandle<()>>,
}

/// Opens the door.
///
/// # Errors
/// If its socket cannot be made.
pub fn open(guard: Guard<dyn Engine>, transfers: Transfers, settings: Settings) -> Result<Server, OpenError> {
    let failed = |error| OpenError::Io(settings.socket.clone(), error);
    let listener = listen(&settings)?;
    let accepted = listener.try_clone().map_err(failed)?;
    let open_files = Places::new(settings.limits.open_files);
    let told = open_files.clone();
    guard.notices().set("xrootd", move || told.shortage("files open by XRootD").into_iter().collect());
    let shared = Arc::new(Shared {
        guard,
        transfers,
        open_files,
        long_calls: Places::new(settings.limits.long_calls),
        windows: Arc::default(),
        space: Mutex::default(),
        staged: Staged::default(),
        connections: Mutex::default(),
        ended: Condvar::new(),
        settings,
    });
    let accepts = shared.clone();
    let accept = move || accept_all(&accepted, &accepts);
    let accepting = thread::Builder::new().name("xrootd-accept".to_owned()).spawn(accept);
    let accepting = accepting.map_err(|error| OpenError::Io(shared.settings.socket.clone(), error))?;
    tracing::info!(socket = %shared.settings.socket.display(), uid = shared.settings.uid, "XRootD is served");
    Ok(Server { shared, listener, accepting: Some(accepting) })
}

fn listen(settings: &Settings) -> Result<UnixListener, OpenError> {
    let path = &settings.socket;
    let failed = |error: io::Error| OpenError::Io(path.clone(), error);
    if path.as_os_str().len() > 100 {
        return Err(OpenError::TooLong(path.clone()));
    }
    match fs::symlink_metadata(path) {
        // The instance is locked: one that is there is left from a server that was killed.
        Ok(known) if known.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(OpenError::NoSocket(path.clone())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    restrict(path, settings.gid).map_err(failed)?;
    Ok(listener)
}

fn restrict(path: &Path, gid: Option<u32>) -> io::Result<()> {
    if let Some(gid) = gid {
        chown(path, None, Some(Gid::from_raw(gid)))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
}

impl Server {
    /// Closes the door: no connection is taken any more, and those that are open end. What is not finished is
    /// not kept.
    pub fn close(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        let open: Vec<UnixStream> = {
            let mut connections = self.shared.connections();
            connections.stopping = true;
            connections.open.values().filter_map(|stream| stream.try_clone().ok()).collect()
        };
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        // A call that is under way ends, and its answer finds nobody.
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        let _ = accepting.join();
        let connections = self.shared.connections();
        let ended = self.shared.ended.wait_timeout_while(connections, STOP_WAIT, |all| !all.open.is_empty());
        let (left, _) = ended.unwrap_or_else(PoisonError::into_inner);
        if !left.open.is_empty() {
            tracing::warn!(connections = left.open.len(), "calls of XRootD are still under way");
        }
        let _ = fs::remove_file(&self.shared.settings.socket);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

fn accept_all(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => admit(stream, shared),
            Err(_) if shared.connections().stopping => return,
            Err(error) => {
                tracing::warn!(%error, "a connection of XRootD cannot be taken");
                thread::park_timeout(ACCEPT_AGAIN);
            }
        }
        if shared.connections().stopping {
            return;
        }
    }
}

/// Takes a connection of the user that XRootD runs as; others are closed.
fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    let wanted = shared.settings.uid;
    match socket_peercred(&stream) {
        Ok(peer) if peer.uid.as_raw() == wanted => {}
        Ok(peer) => {
            let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero());
            tracing::warn!(
                uid,
                pid,
                wanted,
                "refused at the socket of XRootD: not the user of [xrootd] user"
            );
            return;
        }
        Err(error) => {
            return tracing::warn!(%error, "refused at the socket of XRootD: nobody knows who it is");
        }
    }
    let Ok(copy) = stream.try_clone() else {
        return tracing::warn!("a connection of XRootD is closed: no descriptor can be had");
    };
    let number = {
        let mut connections = shared.connections();
        if connections.stopping || connections.open.len() >= shared.settings.limits.connections {
            let open = connections.open.len();
            drop(connections);
            return tracing::warn!(open, "a connection of XRootD is closed: there are too many");
        }
        connections.next += 1;
        let number = connections.next;
        connections.open.insert(number, copy);
        number
    };
    let mine = shared.clone();
    let serve = move || {
        // Told also if the thread panics.
        let _end = End { shared: mine.clone(), number };
        if let Err(ended) = Connection::new(stream, mine).serve() {
            tracing::debug!(%ended, "a connection of XRootD");
        }
    };
    let spawned = thread::Builder::new().name("xrootd".to_owned()).stack_size(STACK_BYTES).spawn(serve);
    if let Err(error) = spawned {
        tracing::warn!(%error, "a connection of XRootD is closed: no thread can be had");
        shared.connections().open.remove(&number);
    }
}

/// A connection that ends.
struct End {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.connections().open.remove(&self.number);
        self.shared.ended.notify_all();
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The room of the pool, as it was a moment ago at most.
    pub fn space(&self) -> Option<Space> {
        let mut known = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, space)) = *known
            && at.elapsed() < self.settings.limits.space_kept
        {
            return space;
        }
        let space = (self.settings.space)();
        *known = Some((Instant::now(), space));
        space
    }
}
