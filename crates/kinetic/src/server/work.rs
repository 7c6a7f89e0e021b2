//! What a connection hands out, and what comes back.

use base::Timestamp;
use bytes::Bytes;

use super::device::DeviceState;
use crate::access::KeyFilter;
use crate::code::{LogType, PowerLevel, StatusCode};
use crate::entry::Change;
use crate::frame::OutFrame;
use crate::ids::Identity;
use crate::log::Log;
use crate::push::Push;
use crate::request::{KeyRange, Treatment, Which};
use crate::response::Entry;
use crate::status::Status;

/// Most bytes of the keys of one answer, so that it fits into a message. A range that has more is answered in
/// part: who wants the rest asks from the last key on.
pub const RANGE_ANSWER_BYTES_MAX: usize = 900 << 10;

/// A piece of work of one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub(super) i64);

/// What whoever owns the socket does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Sends this.
    Send(OutFrame),
    /// Has this done, and tells [`super::Connection::done`].
    Execute(Work),
    /// Closes the connection, once all before it is sent.
    Close,
}

/// Something to be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Work {
    /// Which.
    pub job: JobId,
    /// Who asked; nobody, if a PIN did.
    pub identity: Option<Identity>,
    /// What.
    pub operation: Operation,
    /// How.
    pub treatment: Treatment,
    /// When the one who asked waits no longer: not begun by then, it is [`StatusCode::ServiceBusy`], stopped
    /// midway [`StatusCode::Expired`], in error recovery [`StatusCode::DataError`].
    pub deadline: Option<Timestamp>,
}

/// What a store does. Writes are decided by [`crate::check_put`], [`crate::check_delete`] and
/// [`crate::check_batch`] over what stands there.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// Reads an entry: [`Outcome::Entry`], or [`StatusCode::NotFound`].
    Get {
        /// Which.
        which: Which,
        /// From where.
        key: Bytes,
        /// Without its value.
        metadata_only: bool,
        /// Keys that are not seen are passed over.
        filter: KeyFilter,
    },
    /// Reads a part of a value, with all the rest of its entry: [`Outcome::Entry`], [`StatusCode::NotFound`],
    /// or [`StatusCode::InvalidRequest`] if the value has no such part.
    GetPart {
        /// Of which entry.
        key: Bytes,
        /// Where it begins.
        offset: u64,
        /// How many bytes it has.
        length: u64,
    },
    /// Reads a version: [`Outcome::Version`], or [`StatusCode::NotFound`].
    GetVersion {
        /// Of which entry.
        key: Bytes,
    },
    /// Puts or deletes: [`Outcome::Done`], as durable as its synchronization says.
    Change(Change),
    /// All of it or nothing, durable before it is answered: [`Outcome::Done`] or [`Outcome::BatchFailed`].
    Batch(Vec<Change>),
    /// Lists keys: [`Outcome::Keys`].
    KeyRange {
        /// Which.
        range: KeyRange,
        /// Keys that are not seen are passed over.
        filter: KeyFilter,
    },
    /// Makes durable what was answered before: [`Outcome::Done`].
    Flush,
    /// Reads values and checks them: [`Outcome::Scanned`] with those that are damaged, as many as were asked
    /// for.
    MediaScan {
        /// Which.
        range: KeyRange,
        /// Keys that are not seen are passed over.
        filter: KeyFilter,
    },
    /// Tidies: [`Outcome::Done`].
    MediaOptimize {
        /// Where.
        range: KeyRange,
    },
    /// What the device itself cannot say of these logs: [`Outcome::Log`].
    Log(Vec<LogType>),
    /// A log of the maker: [`Outcome::DeviceLog`], or [`StatusCode::NotFound`].
    DeviceLog(Bytes),
    /// Puts entries to another device: [`Outcome::Push`] with the status of each.
    Push(Push),
    /// Takes another program: [`Outcome::Done`] or a refusal.
    Firmware(Bytes),
    /// Makes this state durable: [`Outcome::Done`].
    Save(DeviceState),
    /// Removes all data and makes this state durable: [`Outcome::Done`].
    Erase {
        /// So that nothing is left on the medium.
        is_secure: bool,
        /// The state of a new device.
        state: DeviceState,
    },
    /// Changes the power level: [`Outcome::Done`]. At [`PowerLevel::Shutdown`] the device stops afterwards.
    Power(PowerLevel),
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Done.
    Done,
    /// An entry.
    Entry(Entry),
    /// A version.
    Version(Bytes),
    /// Keys.
    Keys(Vec<Bytes>),
    /// Values were read.
    Scanned {
        /// Keys of those that are damaged.
        damaged: Vec<Bytes>,
        /// If there is more to be looked at: the last key that was. The answer is [`StatusCode::Expired`].
        last: Option<Bytes>,
    },
    /// Logs.
    Log(Box<Log>),
    /// A log of the maker.
    DeviceLog(Bytes),
    /// A push with the status of each operation.
    Push(Push),
    /// Nothing of a batch was done.
    BatchFailed {
        /// The place of the first change that may not be made.
        place: usize,
        /// Why.
        code: StatusCode,
    },
    /// It was not done.
    Refused(Status),
}

impl Outcome {
    /// It was not done, for this reason.
    #[must_use]
    pub fn refused(code: StatusCode, text: &str) -> Self {
        Outcome::Refused(Status::new(code, text))
    }
}
