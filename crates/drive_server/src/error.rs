//! Why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::ByteCount;
use valuelog::LogError;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It has no address.
    #[error("there is no address to listen on: give one")]
    NoAddress,
    /// TLS without a certificate.
    #[error("an address with TLS needs a certificate and its key")]
    NoCertificate,
    /// An address is taken, or is not of this host.
    #[error("listening on {address} failed: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Too little memory for its limits.
    #[error(
        "{given} of memory for values are too little, {least} are the least: give more, or lower the limits"
    )]
    Memory {
        /// What it was given.
        given: ByteCount,
        /// The least.
        least: ByteCount,
    },
    /// The store gives or takes no state.
    #[error("the state of the device cannot be read or kept: {0}")]
    State(#[from] LogError),
    /// The state is one of a later program.
    #[error("the state of the device is none that this program knows: use the program that wrote it")]
    UnknownState,
    /// There are no random numbers.
    #[error("the operating system gives no random numbers")]
    NoEntropy,
    /// The operating system gives no thread or no descriptor.
    #[error("the operating system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Why files are no certificate and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{file} cannot be read: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It has no certificate or no key.
    #[error("{file} is not what it should be: {why}")]
    Form {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// They do not belong together.
    #[error("certificate and key are refused: {0}")]
    Rejected(#[from] rustls::Error),
}
