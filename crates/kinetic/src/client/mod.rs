//! The client's end of a connection: `submit` requests, `transmit` frames, tell what was `received` and that
//! time passes (`tick`), and take `events`.
//!
//! One [`Client`] is one connection. It numbers what it sends, keeps within what the device accepts, matches
//! answers in whatever order they come, and gives every request exactly one outcome: an answer, or what is
//! known without one ([`Fate`]). After [`Event::Ended`] nothing more comes; another connection is another
//! client. Between reads and writes that are under way at the same time no order is kept: who wants one waits
//! for the answer.

mod batches;
mod connection;
mod fate;
mod receive;

use std::time::Duration;

use bytes::Bytes;

pub use connection::Client;
pub use fate::{Fate, Question, Verdict};

use crate::auth::HmacKey;
use crate::frame::FrameError;
use crate::ids::{ClusterVersion, ConnectionId, Identity};
use crate::limits::{Bounds, Limits};
use crate::log::Configuration;
use crate::request::{Excess, Treatment};
use crate::response::Response;
use crate::status::Status;

/// Requests that wait at the client, unless told otherwise. Their values are in memory.
pub const QUEUE_MAX: usize = 64;
/// Requests past their deadlines whose answers are still owed, at which the connection counts as dead.
pub const OVERDUE_MAX: u32 = 8;
/// How long a device may take to speak first.
pub const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// How long a request may take. A disk may try to read a sector for some seconds.
pub const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// The window where the device states a larger one, or none.
pub const WINDOW_MAX: u32 = 256;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Who it is.
    pub identity: Identity,
    /// By what it proves that.
    pub key: HmacKey,
    /// The cluster it belongs to: a device of another generation refuses.
    pub cluster_version: ClusterVersion,
    /// Whether the connection is inside TLS.
    pub is_tls: bool,
    /// See [`GREETING_WITHIN`].
    pub greeting_within: Duration,
    /// See [`REQUEST_WITHIN`].
    pub request_within: Duration,
    /// See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// See [`OVERDUE_MAX`].
    pub overdue_max: u32,
    /// See [`WINDOW_MAX`].
    pub window_max: u32,
}

impl ClientSettings {
    /// The usual ones, without TLS.
    #[must_use]
    pub fn new(identity: Identity, key: &[u8]) -> Self {
        ClientSettings {
            identity,
            key: HmacKey::new(key),
            cluster_version: ClusterVersion(0),
            is_tls: false,
            greeting_within: GREETING_WITHIN,
            request_within: REQUEST_WITHIN,
            queue_max: QUEUE_MAX,
            overdue_max: OVERDUE_MAX,
            window_max: WINDOW_MAX,
        }
    }
}

/// A request of one client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub(crate) u64);

/// A batch of one client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchTicket(pub(crate) u32);

/// How one request shall be treated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// By the device.
    pub treatment: Treatment,
    /// How long to wait for the answer; `None`: as the settings say.
    pub within: Option<Duration>,
}

/// Why a request was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The device has not spoken yet.
    #[error("the device has not greeted yet: wait for it")]
    NotGreeted,
    /// The connection has ended.
    #[error("the connection has ended: make another")]
    Ended,
    /// The queue is full.
    #[error("{0} requests wait already: submit again when one is answered")]
    Full(usize),
    /// It is larger than the device accepts.
    #[error(transparent)]
    TooLarge(#[from] Excess),
    /// PINs go over TLS only.
    #[error("a PIN is sent over TLS only: connect to the TLS port of the device")]
    NeedsTls,
    /// Batches and PINs have calls of their own.
    #[error("this request has a call of its own: begin_batch, commit, abort, submit_pin")]
    OwnCall,
    /// As many batches as the device holds are open.
    #[error("{0} batches are open, and the device holds no more: commit or abort one")]
    TooManyBatches(u32),
    /// There is no such batch, or it has been ended.
    #[error("there is no such batch, or it has been ended")]
    NoBatch,
}

/// What the device said first.
#[derive(Clone, PartialEq, Debug)]
pub struct Greeting {
    /// The number of the connection.
    pub connection: ConnectionId,
    /// The generation of the cluster to which the device belongs, where it says so.
    pub cluster_version: Option<ClusterVersion>,
    /// How it is: not a success while it is locked or hibernates.
    pub status: Status,
    /// Who it is.
    pub configuration: Configuration,
    /// What it accepts, as it states it.
    pub limits: Limits,
}

impl Greeting {
    /// The numbers to go by.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.limits.bounds()
    }
}

/// Why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Its time is over.
    Deadline,
    /// The connection ended.
    Ended,
    /// No frame can be made of it: it was not sent.
    TooLong,
}

/// How a batch stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchOutcome {
    /// The device has opened it. Changes may be added before that, too.
    Open,
    /// All of it is done. The places of the operations that the device lists: all, with a device that keeps
    /// to the protocol.
    Committed(Vec<usize>),
    /// Nothing of it is done.
    Failed {
        /// The place of the operation that the device names.
        operation: Option<usize>,
        /// Why.
        status: Status,
    },
    /// The device does not say whether it was done, with a status such as EXPIRED.
    Doubtful {
        /// What it says.
        status: Status,
        /// Finds out, where one can.
        question: Option<Question>,
    },
    /// The device did not open it. Nothing is done.
    Refused(Status),
    /// It was given up. Nothing is done.
    Aborted,
    /// The connection ended, or time did.
    Unanswered(Fate),
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndReason {
    /// It broke, or the peer closed it without a word.
    #[error("the connection broke")]
    Lost,
    /// This side closed it.
    #[error("the connection was closed from this side")]
    Closed,
    /// The device did not speak.
    #[error("the device did not greet in time: is this a Kinetic port, and TLS on the right one?")]
    GreetingOverdue,
    /// What the device said first is no greeting.
    #[error("the device did not greet, but said: {0:?}")]
    NotGreeted(Status),
    /// Too many answers are overdue.
    #[error("{0} answers are overdue")]
    Unresponsive(u32),
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no message.
    #[error("what came is no message of the protocol")]
    Malformed,
    /// An answer is not vouched for by the key.
    #[error("an answer was not signed with the key of this identity: somebody else speaks here")]
    Unauthentic,
    /// The device does not know this identity or its key.
    #[error("the device does not accept this identity or its key: {0:?}")]
    KeyRefused(Status),
    /// The answer has the type of another request.
    #[error("an answer has the type of another request")]
    WrongType,
    /// A batch was wrong.
    #[error("the device ended the connection over a batch: {0:?}")]
    InvalidBatch(Status),
    /// The device ended it, and said why before.
    #[error("the device ended the connection: {0:?}")]
    Terminated(Status),
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The device spoke: requests are taken.
    Greeted(Box<Greeting>),
    /// A request has its answer.
    Answered {
        /// Which.
        ticket: Ticket,
        /// The answer.
        response: Response,
    },
    /// A request will have no answer.
    Unanswered {
        /// Which.
        ticket: Ticket,
        /// What is known of it.
        fate: Fate,
        /// Why.
        why: Why,
    },
    /// The answer to a request that was already given up at its deadline.
    Late {
        /// Which.
        ticket: Ticket,
        /// The answer.
        response: Response,
    },
    /// How a batch stands.
    Batch {
        /// Which.
        batch: BatchTicket,
        /// How.
        outcome: BatchOutcome,
    },
    /// The device said something by itself.
    Notice(Status),
    /// The connection has ended: close it. Nothing comes after this.
    Ended(EndReason),
}

/// A PIN, or nothing: what is sent beside a command.
type Pin = Option<crate::auth::Secret>;
/// The value of a frame.
type Value = Bytes;
