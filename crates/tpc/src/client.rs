//! What copies are made with.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Method};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::connections::{Connections, IfFull};
use crate::error::Error;
use crate::pull::Head;
use crate::settings::Settings;
use crate::target::Target;
use crate::trust::{TrustError, configuration};

/// What comes of it later.
type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// The way to other machines: the system's, or that of a test.
pub trait Net: Send + Sync {
    /// All addresses of a host.
    fn resolve<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>>;

    /// A connection to an address.
    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Wire>>;
}

/// Bytes in both directions.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// As the system has it.
struct OfSystem;

impl Net for OfSystem {
    fn resolve<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>> {
        Box::pin(async move { Ok(lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }

    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Wire>> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            // Without it a request could wait for an acknowledgement.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Wire>)
        })
    }
}

/// Fetches files from other servers and sends files to them. Wants tokio's clock and network.
pub struct Client {
    config: Mutex<Arc<Config>>,
    connections: Arc<Connections>,
    net: Arc<dyn Net>,
    /// Who makes copies with it.
    caller: Arc<str>,
}

/// What holds for a copy from its beginning to its end.
pub(crate) struct Config {
    pub settings: Settings,
    pub tls: Arc<ClientConfig>,
}

/// What one copy works with.
#[derive(Clone)]
pub(crate) struct Session {
    pub config: Arc<Config>,
    pub connections: Arc<Connections>,
    pub net: Arc<dyn Net>,
    /// Whose share of the connections it has.
    pub caller: Arc<str>,
}

impl Config {
    fn new(settings: Settings) -> Result<Arc<Self>, TrustError> {
        let tls = configuration(&settings.authorities)?;
        Ok(Arc::new(Config { settings, tls }))
    }
}

impl Client {
    /// With these settings.
    ///
    /// # Errors
    /// If the authorities cannot be read.
    pub fn new(settings: Settings) -> Result<Self, TrustError> {
        Client::with_net(settings, Arc::new(OfSystem))
    }

    /// With another way to other machines.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_net(settings: Settings, net: Arc<dyn Net>) -> Result<Self, TrustError> {
        let config = Mutex::new(Config::new(settings)?);
        Ok(Client { config, connections: Arc::default(), net, caller: Arc::default() })
    }

    /// The client as one caller uses it, who gets as many of the connections as stay free for others. It
    /// keeps the settings of this moment.
    #[must_use]
    pub fn of(&self, caller: &str) -> Self {
        let Session { config, connections, net, .. } = self.session();
        Client { config: Mutex::new(config), connections, net, caller: caller.into() }
    }

    /// Takes other settings and reads the authorities again. Copies that run keep those they began with; the
    /// limits of connections count both.
    ///
    /// # Errors
    /// If the authorities cannot be read: all stays as it was.
    pub fn reload(&self, settings: Settings) -> Result<(), TrustError> {
        let config = Config::new(settings)?;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// The connections that are open now, for metrics.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// What another server says of a file, above all its checksums.
    ///
    /// # Errors
    /// [`Error`]; of another status than 200, [`Error::Status`].
    pub async fn head(&self, url: &str, headers: &HeaderMap) -> Result<Head, Error> {
        self.session().head(&Target::parse(url)?, headers, IfFull::Refuse).await
    }

    pub(crate) fn session(&self) -> Session {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (connections, net) = (self.connections.clone(), self.net.clone());
        Session { config, connections, net, caller: self.caller.clone() }
    }
}

impl Session {
    pub(crate) async fn head(
        &self,
        target: &Target,
        headers: &HeaderMap,
        if_full: IfFull,
    ) -> Result<Head, Error> {
        let answer = self.exchange(&Method::HEAD, target, headers, if_full, None).await?;
        match answer.response.status().as_u16() {
            200 => Head::of(answer.response.headers()),
            other => Err(Error::Status(other)),
        }
    }
}
