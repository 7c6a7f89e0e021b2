//! The listener and what all connections share.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::registry::Registry;
use super::{LogicalUnits, TargetConfig, TargetError, connection};

/// What all connections share.
pub(super) struct Shared {
    pub(super) units: Arc<dyn LogicalUnits>,
    pub(super) config: TargetConfig,
    pub(super) registry: Registry,
}

/// A target that serves until it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Serves `units` to who connects to `listener`.
    ///
    /// # Errors
    /// If the settings cannot be used, or there is no thread.
    pub fn start(
        listener: TcpListener,
        units: Arc<dyn LogicalUnits>,
        config: TargetConfig,
    ) -> Result<Server, TargetError> {
        config.checked()?;
        let address = listener.local_addr()?;
        let registry = Registry::new(&config.limits);
        let shared = Arc::new(Shared { units, config, registry });
        let theirs = Arc::clone(&shared);
        let listening =
            thread::Builder::new().name("iscsi-listen".into()).spawn(move || listen(&listener, &theirs))?;
        Ok(Server { address, shared, listening: Some(listening) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sessions that have passed their login, discoveries not included.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.registry.sessions()
    }

    /// Connections, those in their login included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Bytes of memory that data of commands takes now.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.shared.registry.memory().taken()
    }

    /// Takes no more commands, lets those that are carried out end and answer, and closes all connections.
    /// False if a unit has not given a command back in time; its session ends when it does.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let Some(listening) = self.listening.take() else { return true };
        let registry = &self.shared.registry;
        registry.stop(Shutdown::Read);
        // Wakes the listener, which then sees that it should end.
        let _ = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1));
        let _ = listening.join();
        let until = Instant::now() + self.shared.config.limits.stop;
        if !registry.wait_for_none(until) {
            registry.stop(Shutdown::Both);
            return registry.wait_for_none(Instant::now() + Duration::from_secs(1));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// An address at which this process reaches its own listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    // Without descriptors an accept fails at once, and again.
    const AFTER_FAILURE: Duration = Duration::from_millis(100);
    loop {
        let accepted = listener.accept();
        if shared.registry.is_stopping() {
            return;
        }
        match accepted {
            // Who comes when all places are taken, or no thread is to be had, finds the connection closed.
            Ok((stream, _)) => {
                let _ = serve(stream, shared);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => thread::sleep(AFTER_FAILURE),
        }
    }
}

fn serve(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let kept = stream.try_clone()?;
    let Some(place) = shared.registry.connect(kept) else { return Ok(()) };
    let shared = Arc::clone(shared);
    let run = move || {
        connection::run(&stream, &shared, &place);
        // Closed for the other side too, whatever copies of the descriptor there are.
        let _ = stream.shutdown(Shutdown::Both);
        drop(place);
    };
    thread::Builder::new().name("iscsi-session".into()).spawn(run)?;
    Ok(())
}
