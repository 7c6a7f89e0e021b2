//! Why a transfer comes to nothing, beside what the engine says.

/// Why a transfer comes to nothing, where neither the engine nor the protocol of a door says so. Nothing is
/// stored then. Each door has an answer of its own to each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// No place came free within [`TransferLimits::admission_wait`](crate::TransferLimits).
    #[error("the server is busy, or with other requests of this caller: try again later")]
    Busy,
    /// The client sends its body slower than the [`LowestRate`](crate::LowestRate).
    #[error("the body comes too slowly")]
    TooSlow,
    /// The client has gone before the end of its body.
    #[error("the body ended early")]
    EndedEarly,
    /// The engine gave another number of bytes than it said; or the digests of a body could not be computed.
    #[error("the bytes are not those that were announced")]
    Differs,
    /// A thread panicked.
    #[error("the operation ended unexpectedly: see the server's log")]
    Lost,
    /// No thread can be had: the system's limit is reached.
    #[error("no thread can be had")]
    NoThread,
}
