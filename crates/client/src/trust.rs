//! Whom the client trusts, and what it shows of itself, with https.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, RootCertStore};
use terminal::{Exit, Failure, Outcome};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Options for a server with https.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Trust {
    /// With https: the authorities that may have signed the server's certificate, PEM [env: KIST_CA]
    /// [default: those of the system]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub ca: Option<PathBuf>,
    /// With https: the certificate to show to the server, PEM [env: KIST_CLIENT_CERTIFICATE]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub client_certificate: Option<PathBuf>,
    /// The private key of --client-certificate, PEM [env: KIST_CLIENT_KEY] [default: in the same file]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub client_key: Option<PathBuf>,
}

impl Trust {
    /// The configuration of the HTTP client for https.
    pub fn tls(&self) -> Outcome<TlsConfig> {
        let named = |option: &Option<PathBuf>, variable: &str| {
            let variable = || env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
            option.clone().or_else(variable)
        };
        let Some(ca) = named(&self.ca, "KIST_CA").or_else(of_the_system) else {
            let message = "this system names no authorities for https: name them with --ca FILE or KIST_CA";
            return Err(Failure::usage(message));
        };
        let shown = match named(&self.client_certificate, "KIST_CLIENT_CERTIFICATE") {
            Some(certificate) => {
                let key = named(&self.client_key, "KIST_CLIENT_KEY").unwrap_or_else(|| certificate.clone());
                Some(client_certificate(&certificate, &key)?)
            }
            None => None,
        };
        configuration(&ca, shown)
    }
}

/// The same for a server that asks others: it trusts those in `ca`, or the system's, and shows nothing of
/// itself. The environment is for clients.
pub fn tls_of_a_server(ca: Option<PathBuf>) -> Outcome<TlsConfig> {
    match ca.or_else(of_the_system) {
        Some(ca) => configuration(&ca, None),
        None => Err(Failure::usage("this system names no authorities for https: name them as identity.ca")),
    }
}

fn of_the_system() -> Option<PathBuf> {
    SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.exists())
}

fn configuration(ca: &Path, shown: Option<ClientCert>) -> Outcome<TlsConfig> {
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(roots(ca)?)
        .client_cert(shown)
        .build())
}

fn roots(file: &Path) -> Outcome<RootCerts> {
    let found = certificates(file)?;
    let mut store = RootCertStore::empty();
    let (good, _) = store.add_parsable_certificates(found.iter().cloned());
    if good == 0 {
        return Err(Failure::usage(format!("{}: it holds no certificate of an authority", file.display())));
    }
    Ok(RootCerts::from(found.iter().map(|der| Certificate::from_der(der).to_owned())))
}

/// The certificate and its key, which have to belong together.
fn client_certificate(certificate: &Path, key: &Path) -> Outcome<ClientCert> {
    let chain = certificates(certificate)?;
    let wrong = |what: String| Failure::usage(format!("{}: {what}", key.display()));
    let text = read(key)?;
    let parsed = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| wrong(format!("{error}: it has to hold a private key in PEM: --client-key FILE")))?;
    CertifiedKey::from_der(chain.clone(), parsed, &ring::default_provider())
        .map_err(|error| wrong(format!("{error}: it is not the key of {}", certificate.display())))?;
    let chain: Vec<_> = chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let parsed = PrivateKey::from_pem(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(ClientCert::new_with_certs(&chain, parsed))
}

fn certificates(file: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let wrong = |what: String| {
        Failure::usage(format!("{}: {what}: it has to hold certificates in PEM", file.display()))
    };
    let text = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("no certificate".to_owned())) } else { Ok(all) }
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    let failed = |error: std::io::Error| Failure::io("reading", file, &error);
    let length = fs::metadata(file).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{}: {length} bytes are no certificate", file.display())));
    }
    fs::read(file).map_err(failed)
}

/// What to do about an error of TLS, if it is one.
pub fn explain(base: &str, error: &ureq::Error) -> Option<Failure> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    let (exit, what) = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => (
            Exit::Unreachable,
            "no authority that this command trusts has signed the server's certificate: name the right one \
             with --ca FILE or KIST_CA"
                .to_owned(),
        ),
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            let what = "the server shows a certificate of an authority as its own: one is made with \
                        basicConstraints=CA:FALSE, see TLS in docs/operations.md";
            (Exit::Unreachable, what.to_owned())
        }
        rustls::Error::InvalidCertificate(CertificateError::BadSignature) => (
            Exit::Unreachable,
            "the server's certificate was signed by another authority of the same name: name the right one \
             with --ca FILE or KIST_CA"
                .to_owned(),
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => (Exit::Unreachable, format!("{error}: use a name that is in it, as --server https://NAME:PORT")),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => (
            Exit::Unreachable,
            "the server's certificate has expired: its operator has to renew it".to_owned(),
        ),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => (
            Exit::NotAuthorised,
            "the server asks for a certificate: name yours with --client-certificate FILE and --client-key \
             FILE"
                .to_owned(),
        ),
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown,
        ) => (
            Exit::NotAuthorised,
            format!("{error}: the server does not accept the certificate of --client-certificate"),
        ),
        rustls::Error::InvalidMessage(_) => {
            (Exit::Unreachable, format!("{error}: if the server has no TLS, its URL begins with http://"))
        }
        other => (Exit::Unreachable, format!("TLS: {other}")),
    };
    Some(Failure::new(exit, format!("{base}: {what}")))
}
