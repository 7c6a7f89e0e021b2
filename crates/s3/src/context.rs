//! What all operations share: the authority, the settings, places for threads; and who makes a request.

use std::net::SocketAddr;
use std::sync::Arc;

use archive::ArchiveError;
use authority::{Allowance, Guard};
use base::Clock;
use http::Extensions;
use identity::Caller;
use s3s::{S3Error, S3Result, s3_error};
use transfer::{Fault, Holder, Place, Places, Transfers};

use crate::chunked::ChunkError;
use crate::engine::Engine;
use crate::settings::S3Settings;

/// Small bodies of the largest size that are in memory at once; of smaller ones so many more.
const XML_BODIES: usize = 64;

/// The two clocks of a server.
#[derive(Clone)]
pub struct S3Clocks {
    /// The system's: decides whether signatures are of now.
    pub system: Arc<dyn Clock>,
    /// The trusted time: a retention ends after it.
    pub trusted: Arc<dyn Clock>,
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Context {
    pub authority: Guard<dyn Engine>,
    pub settings: Arc<S3Settings>,
    /// What signatures are checked by.
    pub clock: Arc<dyn Clock>,
    /// What retentions end by.
    pub trusted: Arc<dyn Clock>,
    /// Bodies of objects, with those of other doors.
    pub transfers: Transfers,
    /// Places for other calls.
    calls: Places,
    /// Memory for small bodies, in KiB.
    memory: Places,
}

/// The status of an answer, put into its extensions: s3s does not look at `S3Response::status`.
#[derive(Clone, Copy)]
pub(crate) struct Said(pub http::StatusCode);

/// Who makes a request, put into its extensions before s3s sees it.
#[derive(Clone)]
pub(crate) struct Entered {
    pub caller: Arc<Caller>,
    pub peer: Option<SocketAddr>,
    /// Who gets places for it.
    pub holder: Holder,
    pub allowance: Option<Arc<Allowance>>,
}

/// The engine as the one who makes a request may use it.
#[derive(Clone)]
pub(crate) struct Guest {
    pub engine: Arc<dyn Engine>,
    pub caller: Arc<Caller>,
    /// Who gets places for it.
    pub holder: Holder,
    /// Counts against the caller until the last byte.
    _allowance: Option<Arc<Allowance>>,
}

impl Context {
    pub(crate) fn new(
        authority: Guard<dyn Engine>,
        transfers: Transfers,
        settings: S3Settings,
        clocks: S3Clocks,
    ) -> Self {
        Context {
            authority,
            clock: clocks.system,
            trusted: clocks.trusted,
            transfers,
            calls: Places::new(settings.limits.calls),
            memory: Places::new(settings.limits.xml_bytes.div_ceil(1 << 10) * XML_BODIES),
            settings: Arc::new(settings),
        }
    }

    /// The engine for whoever made this request (`req.extensions`).
    pub(crate) fn guest(&self, extensions: &Extensions) -> S3Result<Guest> {
        let Some(entered) = extensions.get::<Entered>() else {
            return Err(s3_error!(AccessDenied, "the request is not signed"));
        };
        let Entered { caller, peer, holder, allowance } = entered.clone();
        let engine = self.authority.enter_from(&caller, peer);
        Ok(Guest { engine, caller, holder, _allowance: allowance })
    }

    /// Memory for so many bytes of a small body; to be kept as long as they are.
    pub(crate) async fn admit_bytes(&self, holder: &Holder, bytes: u64) -> S3Result<Place> {
        let kib = usize::try_from(bytes.div_ceil(1 << 10)).unwrap_or(usize::MAX);
        Ok(self.transfers.admit_to(&self.memory, &holder.unpaced(), kib).await.map_err(Failure::from)?)
    }

    /// Calls the engine on a thread that may block, as whoever made the request. Errors of the engine become
    /// S3's by `?`.
    pub(crate) async fn call<T, W>(&self, extensions: &Extensions, work: W) -> S3Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Guest) -> Result<T, Failure> + Send + 'static,
    {
        let guest = self.guest(extensions)?;
        let holder = guest.holder.clone();
        Ok(self.transfers.block(&self.calls, &holder, move || work(&guest)).await?)
    }
}

/// A thread that ended without an answer.
pub(crate) fn lost_thread<E>(_: E) -> S3Error {
    s3_error!(InternalError, "{}", Fault::Lost)
}

/// Why an operation failed: an error of S3 or of the engine, so that `?` takes both.
#[derive(Debug)]
pub(crate) struct Failure(pub S3Error);

impl From<S3Error> for Failure {
    fn from(error: S3Error) -> Self {
        Failure(error)
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Failure(crate::errors::s3_error_of(error))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure(match fault {
            Fault::Busy => s3_error!(SlowDown, "the server is busy, or with this caller: try again later"),
            Fault::TooSlow => s3_error!(RequestTimeout, "the body came too slowly: nothing was stored"),
            Fault::EndedEarly => crate::body::refused(ChunkError::Incomplete),
            Fault::Differs => s3_error!(InternalError, "the object could not be read to its end"),
            Fault::Lost => lost_thread(fault),
            Fault::NoThread => s3_error!(SlowDown, "the server is busy: try again later"),
        })
    }
}

impl From<Failure> for S3Error {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}
