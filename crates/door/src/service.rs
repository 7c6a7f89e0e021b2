//! What answers the requests of a listener: the door's own addresses, or a service from outside of this
//! crate.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use authority::{Authority, Engine};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{Request, Response};
use transfer::Transfers;

use crate::server::Door;

/// The body of a request that goes to a mounted service: a [`transfer::Paced`] one.
pub type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The body of a reply of a mounted service; an error in it breaks the reply off.
pub type ReplyBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The reply of a mounted service, to come.
pub type Replying = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send>>;

/// A service that is mounted at a listener of its own, such as S3. All of it are types of `http`,
/// `http-body-util` and the standard library, so that a service needs nothing of this crate. Requests carry
/// the extensions [`authority::Peer`], and where they apply [`authority::Encrypted`] and
/// [`authority::ClientCertificate`]. The future is dropped when the client goes away: whatever must not be
/// broken off belongs on a thread of its own.
pub type Mounted = Arc<dyn Fn(Request<RequestBody>) -> Replying + Send + Sync>;

/// What a listener serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceKind {
    /// `/data`, `/api/v1` and `/healthz`.
    Native,
    /// S3: [`Services::s3`].
    S3,
}

/// Everything that the listeners of a door serve.
pub struct Services {
    /// Lets people in at the door's own addresses, each to the engine as they may use it.
    pub authority: Arc<Authority>,
    /// The one budget of all services for bodies of files.
    pub transfers: Transfers,
    /// S3, if it is offered.
    pub s3: Option<Mounted>,
}

impl Services {
    /// The door's own addresses alone, with a budget as the limits of this door say.
    #[must_use]
    pub fn new(door: &Door, authority: Arc<Authority>) -> Self {
        let transfers = Transfers::new(door.limits().transfer.clone(), &authority);
        Services { authority, transfers, s3: None }
    }

    /// The same over an engine with nobody but the admins of [`DoorSettings::keys`](crate::DoorSettings), for
    /// tests and tools.
    #[must_use]
    pub fn over<E: Engine>(door: &Door, engine: Arc<E>) -> Self {
        Services::new(door, Arc::new(Authority::new(engine)))
    }
}
