//! Why a copy does not come about.

use base::ByteCount;

/// Why a copy does not come about: what its client is told. Of a server that has not spoken HTTP to us it
/// says only that it is not allowed, or did not answer: whether a name resolves to nothing, a port is
/// closed, a packet is lost or something else than HTTP answers must not be seen from outside. The full
/// reason goes to the log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used.
    #[error("the URL of the other server {0}")]
    Url(&'static str),
    /// By address, port or scheme. Nothing was sent.
    #[error("the other server is refused by this site's rules for third-party copies")]
    Refused,
    /// No connection, no TLS, no HTTP, or nothing in time.
    #[error("the other server did not answer")]
    NoAnswer,
    /// As many connections as there may be are open.
    #[error("too many third-party copies run at the same time: try again later")]
    Busy,
    /// A status that ends the copy.
    #[error("the other server answered with status {0}")]
    Status(u16),
    /// More redirects than are followed.
    #[error("the other server redirects more than {0} times")]
    Redirects(usize),
    /// A redirect that is not followed.
    #[error("the other server redirects {0}")]
    Redirect(&'static str),
    /// The connection broke, or its framing is wrong, in the middle of the body.
    #[error("the other server ended in the middle, after {} bytes", .after.0)]
    Broken {
        /// Bytes before.
        after: ByteCount,
    },
    /// Less than the lowest rate.
    #[error("the other server is too slow: fewer than {} bytes in {} s", .bytes.0, .seconds)]
    Slow {
        /// That had to come or go ...
        bytes: ByteCount,
        /// ... in so many seconds.
        seconds: u64,
    },
    /// Another number of bytes than was announced.
    #[error("the other server announced {} bytes and sent {}", .announced.0, .came.0)]
    Length {
        /// Announced.
        announced: ByteCount,
        /// Came.
        came: ByteCount,
    },
    /// Nobody knows when the body is complete.
    #[error("the other server does not say how long the file is")]
    NoLength,
    /// The answer to a range is none of that range.
    #[error("the other server answered with another range than was asked for")]
    Range,
    /// A coding that is not undone.
    #[error("the other server sends the file in a coding that was not asked for")]
    Coding,
    /// Two values of one checksum.
    #[error("the other server says two different checksums of the file")]
    Digests,
    /// The file was replaced meanwhile.
    #[error("the file changed at the other server during the copy")]
    Changed,
    /// What is to be sent did not come.
    #[error("the file that is to be sent could not be read to its end")]
    Source,
    /// A final answer before all bytes were sent, as if it had them.
    #[error("the other server said that it has the file before it was sent to its end")]
    Early,
}
