//! What a service is to a listener: a name, and how it takes requests. A listener knows nothing else of it,
//! so that services need nothing of the listener's crate, nor of each other.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{Request, Response};

use crate::up::AnyError;

/// The body of a request that goes to a service: a [`Paced`](crate::Paced) one.
pub type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The body of a service's reply; an error in it breaks the reply off.
pub type ReplyBody = UnsyncBoxBody<Bytes, AnyError>;

/// The reply of a service, to come.
pub type Replying = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send>>;

/// How a service takes requests. They carry the extensions [`authority::Peer`], [`authority::Allowances`],
/// [`Pace`](crate::Pace), and where they apply [`authority::Encrypted`] and
/// [`authority::ClientCertificate`]. The future is dropped when the client goes away: whatever must not be
/// broken off belongs on a thread of its own.
pub type Take = Arc<dyn Fn(Request<RequestBody>) -> Replying + Send + Sync>;

/// A service that listeners can serve, such as S3.
#[derive(Clone)]
pub struct Service {
    /// What listeners and metrics call it; lower case.
    pub name: &'static str,
    /// Threads for blocking calls that it needs of the runtime, beside those of transfers, so that admitted
    /// work never waits for a thread.
    pub threads: usize,
    /// How it takes requests.
    pub take: Take,
}
