//! Which drives are believed over TLS.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The longest file of certificates that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a file of certificates is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is none in it.
    #[error(
        "{0}: it holds no certificate in PEM: give that of the drive, or of the authority that signed it"
    )]
    None(PathBuf),
    /// The library of TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// What a drive has to show over TLS: one of these certificates itself, whatever name it has, as drives sign
/// their own; or one that was signed by one of them, for the host's name.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads certificates in PEM.
    ///
    /// # Errors
    /// [`TrustError`].
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let failed = |source| TrustError::Io { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
        let all: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let pinned = all.ok().filter(|all| !all.is_empty()).ok_or(TrustError::None(path.to_owned()))?;
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        let (authorities, _) = roots.add_parsable_certificates(pinned.iter().cloned());
        let by_authority = if authorities == 0 {
            None
        } else {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            builder.build().ok()
        };
        let verifier = Arc::new(Verifier { pinned, by_authority, provider: Arc::clone(&provider) });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Trust(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

#[derive(Debug)]
struct Verifier {
    pinned: Vec<CertificateDer<'static>>,
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.iter().any(|pinned| pinned.as_ref() == shown.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let by_authority = self.by_authority.as_ref().ok_or_else(unknown)?;
        by_authority.verify_server_cert(shown, between, name, stapled, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
