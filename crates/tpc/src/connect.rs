//! A connection to a server that may be reached: resolved once, every address checked, and only a checked
//! address connected to.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::Forbidden;
use crate::client::{Session, Wire};
use crate::connections::{IfFull, Permit};
use crate::error::Error;
use crate::target::{Scheme, Target};
use crate::until_head::{HasHead, UntilHead};

/// The most addresses of a name that are tried; of one with more, none is.
const ADDRESSES_MAX: usize = 16;

/// What is sent.
pub(crate) type OutBody = UnsyncBoxBody<Bytes, Error>;

/// A connection that is open. Dropping it closes it.
pub(crate) struct Line {
    pub sender: SendRequest<OutBody>,
    /// Who is at the other end.
    pub remote: SocketAddr,
    /// To be told when the head of the answer is there.
    pub has_head: HasHead,
    _driver: AbortOnDrop<()>,
    _permit: Permit,
}

/// A task that ends with its owner.
pub(crate) struct AbortOnDrop<T>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// That it is not allowed: the reason is for the log.
fn refused(target: &Target, why: Forbidden, address: Option<IpAddr>) -> Error {
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    tracing::warn!(%target, %address, %why, "a third-party copy is refused");
    Error::Refused
}

/// That nothing came of it: the reason is for the log.
pub(crate) fn no_answer(target: &Target, why: impl Display) -> Error {
    tracing::info!(%target, %why, "the other server of a third-party copy did not answer");
    Error::NoAnswer
}

impl Session {
    pub(crate) async fn connect(&self, target: &Target, if_full: IfFull) -> Result<Line, Error> {
        let (settings, wait) = (&self.config.settings, self.config.settings.timeouts.connect);
        let rules = &settings.addresses;
        if target.scheme == Scheme::Http && !rules.http {
            return Err(refused(target, Forbidden::Http, None));
        }
        rules.check_port(target.port).map_err(|why| refused(target, why, None))?;
        let addresses = self.addresses(target).await?;
        for address in &addresses {
            rules.check(&target.host, *address).map_err(|why| refused(target, why, Some(*address)))?;
        }
        let permit = self.connections.take((&self.caller, &target.host), &settings.limits, if_full).await?;
        // All addresses together may take as long as two connections: the first that is dead costs half of
        // it.
        let share = wait.min(wait.saturating_mul(2) / u32::try_from(addresses.len()).unwrap_or(1).max(1));
        let mut last = Error::NoAnswer;
        for address in addresses {
            let remote = SocketAddr::new(address, target.port);
            match timeout(share, self.net.connect(remote)).await {
                Ok(Ok(stream)) => return self.speak(target, stream, remote, permit).await,
                Ok(Err(error)) => last = no_answer(target, format_args!("{remote}: {error}")),
                Err(_) => last = no_answer(target, format_args!("{remote}: no connection in time")),
            }
        }
        Err(last)
    }

    /// The addresses of a host, at least one. No second look is taken: what is checked is what is connected
    /// to.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Error> {
        if let Some(address) = target.address() {
            return Ok(vec![address]);
        }
        let resolved = timeout(self.config.settings.timeouts.connect, self.net.resolve(&target.host)).await;
        let mut addresses = match resolved {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(no_answer(target, error)),
            Err(_) => return Err(no_answer(target, "its name was not resolved in time")),
        };
        addresses.dedup();
        match addresses.len() {
            0 => Err(no_answer(target, "its name has no address")),
            1..=ADDRESSES_MAX => Ok(addresses),
            _ => Err(no_answer(target, "its name has too many addresses")),
        }
    }

    async fn speak(
        &self,
        target: &Target,
        stream: Box<dyn Wire>,
        remote: SocketAddr,
        permit: Permit,
    ) -> Result<Line, Error> {
        if target.scheme == Scheme::Http {
            return self.shake_hands(target, stream, remote, permit).await;
        }
        let name = match target.address() {
            Some(address) => ServerName::from(address),
            None => ServerName::try_from(target.host.clone()).map_err(|error| no_answer(target, error))?,
        };
        let connector = TlsConnector::from(self.config.tls.clone());
        let wait = self.config.settings.timeouts.connect;
        match timeout(wait, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => self.shake_hands(target, stream, remote, permit).await,
            Ok(Err(error)) => Err(no_answer(target, format_args!("{remote}: TLS: {error}"))),
            Err(_) => Err(no_answer(target, format_args!("{remote}: no TLS in time"))),
        }
    }

    async fn shake_hands<S>(
        &self,
        target: &Target,
        stream: S,
        remote: SocketAddr,
        permit: Permit,
    ) -> Result<Line, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let limits = &self.config.settings.limits;
        let mut builder = Builder::new();
        // XRootD 5.5.3 knows `Want-Digest` and `Range` only as they are written here (measured).
        builder.title_case_headers(true).max_headers(limits.headers).max_header_size(limits.header_bytes);
        let has_head = HasHead::default();
        let (sender, connection) = builder
            .handshake(TokioIo::new(UntilHead::new(stream, has_head.clone())))
            .await
            .map_err(|error| no_answer(target, format_args!("{remote}: {error}")))?;
        let driver = tokio::spawn(async move {
            // What goes wrong is told to who waits for the answer or the body.
            let _ = connection.await;
        });
        Ok(Line { sender, remote, has_head, _driver: AbortOnDrop(driver), _permit: permit })
    }
}
