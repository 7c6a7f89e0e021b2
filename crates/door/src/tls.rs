//! TLS of a listener.

use std::path::PathBuf;

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    None,
    /// They may; one that is shown has to be good.
    Optional,
    /// They have to.
    Required,
}

/// The certificate of a listener and whom it trusts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsSettings {
    /// PEM: the certificate of the server, then those between it and an authority that clients trust.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
    /// PEM: the authorities whose certificates clients may show.
    pub client_ca: Option<PathBuf>,
    /// Whether they have to.
    pub client_auth: ClientAuth,
    /// Whether clients are offered HTTP/2.
    pub http2: bool,
}

/// Why the certificate of a listener cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}: the server has to be able to read it", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no good certificates.
    #[error("{}: {why}: it has to hold certificates in PEM, '-----BEGIN CERTIFICATE-----'", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// A file holds no good private key.
    #[error("{}: {why}: it has to hold a private key in PEM, without a pass phrase", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// Certificate and key cannot be used together.
    #[error(
        "{} and {}: {why}: the key has to be that of the first certificate",
        certificate.display(),
        key.display()
    )]
    Rejected {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        why: String,
    },
    /// The certificate has expired.
    #[error("{}: the certificate has expired: get a new one from its authority", file.display())]
    Expired {
        /// The file.
        file: PathBuf,
    },
    /// No authority of clients is in its time.
    #[error("{}: none of the authorities of clients is good now: add one that is", file.display())]
    NoAuthorityInTime {
        /// The file.
        file: PathBuf,
    },
    /// Clients are asked for certificates of nobody.
    #[error("client_auth asks clients for certificates: name the file of their authorities as client_ca")]
    NoClientCa,
    /// Authorities are named for certificates that nobody is asked for.
    #[error("client_ca {} has no effect: set client_auth to \"optional\" or \"required\"", file.display())]
    UnusedClientCa {
        /// The file.
        file: PathBuf,
    },
}
