//! Certificates of listeners: read, checked, and read again when their files change. A connection keeps what
//! it began with.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;

use crate::client_ca::ClientAuthorities;
use crate::tls::{ClientAuth, TlsError, TlsSettings};

/// The longest file of certificates or keys that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// A certificate that ends earlier than this is warned of.
const SHORT_SECONDS: i64 = 14 * 86_400;

/// The certificate of one listener as it is now.
#[derive(Debug)]
pub(crate) struct Certificate {
    settings: TlsSettings,
    current: RwLock<Arc<ServerConfig>>,
    /// How long what is in use is good.
    terms: Mutex<CertificateTerms>,
    /// What was said of it last: it is said once.
    told: Mutex<Vec<String>>,
    /// The files as they were when they were read last, whether they were good or not.
    seen: Mutex<Vec<Stamp>>,
}

/// How long a certificate is good, and those of the authorities of clients.
#[derive(Clone, Debug)]
struct CertificateTerms {
    /// Seconds since 1970 at which the certificate ends.
    until: i64,
    authorities: Option<Arc<ClientAuthorities>>,
}

/// What changes when a file is replaced or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    modified: (i64, i64),
    length: u64,
    inode: u64,
}

impl Certificate {
    /// Reads it.
    pub(crate) fn open(settings: &TlsSettings) -> Result<Self, TlsError> {
        let seen = stamps(settings);
        let loaded = load(settings)?;
        loaded.tell(settings);
        let current = RwLock::new(Arc::new(loaded.config));
        let (terms, told) = (Mutex::new(loaded.terms), Mutex::default());
        let certificate =
            Certificate { settings: settings.clone(), current, terms, told, seen: Mutex::new(seen) };
        certificate.tell_faults();
        Ok(certificate)
    }

    /// What is wrong with it at a time, or will soon be: for operators.
    fn faults_at(&self, now: i64) -> Vec<String> {
        let CertificateTerms { until, authorities } =
            self.terms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let TlsSettings { certificate: file, client_ca, .. } = &self.settings;
        let (file, days) = (file.display(), (until - now) / 86_400);
        let mut faults = Vec::new();
        if until < now {
            faults.push(format!("the certificate {file} has expired: clients refuse it; replace the file"));
        } else if until - now < SHORT_SECONDS {
            faults
                .push(format!("the certificate {file} ends in {days} days: replace the file, it is noticed"));
        }
        if let (Some(authorities), Some(file)) = (authorities, client_ca) {
            faults.extend(authorities.faults(file, now));
        }
        faults
    }

    /// What is wrong with it now, or will soon be.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults_at(now())
    }

    /// Writes into the log what is wrong since the last look.
    fn tell_faults(&self) {
        let faults = self.faults();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in faults.iter().filter(|fault| !told.contains(fault)) {
            tracing::warn!("{fault}");
        }
        *told = faults;
    }

    /// What new connections get.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again if they have changed, or in any case. What is not good is not taken.
    pub(crate) fn look(&self, in_any_case: bool) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.settings);
        if *seen == stamps && !in_any_case {
            // One that was good when it was read may have ended since.
            self.tell_faults();
            return Ok(false);
        }
        *seen = stamps;
        let loaded = load(&self.settings).and_then(|loaded| {
            let file = || self.settings.certificate.clone();
            if loaded.terms.until < now() { Err(TlsError::Expired { file: file() }) } else { Ok(loaded) }
        });
        match loaded {
            Ok(loaded) => {
                loaded.tell(&self.settings);
                *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = loaded.terms;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded.config);
                self.tell_faults();
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate is not taken: the old one stays in use");
                Err(error)
            }
        }
    }
}

/// The certificates of all listeners of a door, to read them again on demand.
#[derive(Clone, Debug, Default)]
pub struct Certificates(pub(crate) Vec<Arc<Certificate>>);

impl Certificates {
    /// Reads all files again, whether they have changed or not. Connections that are open keep what they
    /// have.
    ///
    /// # Errors
    /// The first reason why one was not taken; the old one stays in use then, and the others are read all the
    /// same. Each reason is logged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let outcomes: Vec<_> = self.0.iter().map(|certificate| certificate.look(true).map(drop)).collect();
        outcomes.into_iter().collect()
    }

    /// Reads the files that have changed; what is not good was logged.
    pub(crate) fn look(&self) {
        for certificate in &self.0 {
            let _ = certificate.look(false);
        }
    }
}

/// Checks all files of `settings` as [`crate::bind`] does.
///
/// # Errors
/// If one is missing or wrong, they do not belong together, or the certificate has expired.
pub fn check_tls(settings: &TlsSettings) -> Result<(), TlsError> {
    let loaded = load(settings)?;
    if loaded.terms.until < now() {
        return Err(TlsError::Expired { file: settings.certificate.clone() });
    }
    match (&loaded.terms.authorities, &settings.client_ca) {
        (Some(authorities), Some(file)) if !authorities.any_good(now()) => {
            Err(TlsError::NoAuthorityInTime { file: file.clone() })
        }
        _ => Ok(()),
    }
}

struct Loaded {
    config: ServerConfig,
    terms: CertificateTerms,
}

impl Loaded {
    fn tell(&self, settings: &TlsSettings) {
        let (file, days) = (settings.certificate.display(), (self.terms.until - now()) / 86_400);
        tracing::info!(%file, days, "certificate read: it is good for so many days");
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn load(settings: &TlsSettings) -> Result<Loaded, TlsError> {
    let TlsSettings { certificate, key, client_ca, client_auth, http2 } = settings;
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(certificate)?;
    let until = expiry(certificate, &chain)?;
    let parsed = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| TlsError::Key { file: key.clone(), why: error.to_string() })?;
    let rejected = |error: rustls::Error| TlsError::Rejected {
        certificate: certificate.clone(),
        key: key.clone(),
        why: error.to_string(),
    };
    // Whether the two belong together is checked in here.
    CertifiedKey::from_der(chain.clone(), parsed.clone_key(), &provider).map_err(rejected)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(rejected)?;
    let authorities = verifier(client_ca.as_deref(), *client_auth, provider)?;
    let builder = match authorities.clone() {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, parsed).map_err(rejected)?;
    config.alpn_protocols = if *http2 { vec![b"h2".to_vec()] } else { Vec::new() };
    config.alpn_protocols.push(b"http/1.1".to_vec());
    if authorities.is_some() {
        // Whoever goes on with an earlier session shows no certificate again: one that has ended meanwhile,
        // or whose authority has, would still let them in.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Loaded { config, terms: CertificateTerms { until, authorities } })
}

fn verifier(
    client_ca: Option<&Path>,
    client_auth: ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<ClientAuthorities>>, TlsError> {
    let file = match (client_auth, client_ca) {
        (ClientAuth::None, None) => return Ok(None),
        (ClientAuth::None, Some(file)) => return Err(TlsError::UnusedClientCa { file: file.to_owned() }),
        (ClientAuth::Optional | ClientAuth::Required, None) => return Err(TlsError::NoClientCa),
        (ClientAuth::Optional | ClientAuth::Required, Some(file)) => file,
    };
    let wrong = |why: String| TlsError::Certificate { file: file.to_owned(), why };
    let is_mandatory = client_auth == ClientAuth::Required;
    let authorities = ClientAuthorities::new(certificates(file)?, is_mandatory, provider).map_err(wrong)?;
    Ok(Some(Arc::new(authorities)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::Certificate { file: file.to_owned(), why };
    let text = read(file)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() { Err(wrong("it holds no certificate".to_owned())) } else { Ok(chain) }
}

/// When the first certificate ends, in seconds since 1970.
fn expiry(file: &Path, chain: &[CertificateDer<'_>]) -> Result<i64, TlsError> {
    let wrong = |why: String| TlsError::Certificate { file: file.to_owned(), why };
    let first = chain.first().ok_or_else(|| wrong("it holds no certificate".to_owned()))?;
    let (_, parsed) = x509_parser::parse_x509_certificate(first).map_err(|error| wrong(error.to_string()))?;
    Ok(parsed.validity().not_after.timestamp())
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::File { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(file).map_err(failed)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// How the files are now; one that is not there has no stamp.
fn stamps(settings: &TlsSettings) -> Vec<Stamp> {
    let TlsSettings { certificate, key, client_ca, client_auth: _, http2: _ } = settings;
    let stamp = |file: &PathBuf| {
        fs::metadata(file).map_or(Stamp { modified: (0, 0), length: 0, inode: 0 }, |found| Stamp {
            modified: (found.mtime(), found.mtime_nsec()),
            length: found.len(),
            inode: found.ino(),
        })
    };
    [certificate, key].into_iter().chain(client_ca).map(stamp).collect()
}
