//! Certificate and key of a server.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::TlsError;

/// Files with what a server shows and proves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate with those that vouch for it, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads them.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|source| TlsError::Read { file: file.clone(), source })
        };
        let form = |file: &PathBuf, why: String| TlsError::Form { file: file.clone(), why };
        let chain = CertificateDer::pem_slice_iter(&read(&self.certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| form(&self.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(form(&self.certificate, "it has no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|error| form(&self.key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Arc::new(config))
    }
}
