//! Which authorities may have signed another server's certificate.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most files of a directory that are looked at. The grid's has about 500: certificates, their hashed
/// names, namespaces and revocation lists.
const DIRECTORY_FILES_MAX: usize = 10_000;

/// Why the authorities cannot be read. Those so far stay in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file or directory cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no authority in it.
    #[error("{path}: {what}", path = .path.display())]
    None {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The library of TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// How TLS is spoken to other servers: their certificate is checked against these authorities and their
/// name, and no certificate of ours is shown.
pub(crate) fn configuration(authorities: &[PathBuf]) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    if authorities.is_empty() {
        match SYSTEM_FILES.iter().map(Path::new).find(|file| file.exists()) {
            Some(file) => add_file(file, &mut roots)?,
            None => tracing::warn!("this system names no authorities: no copy with https succeeds"),
        }
    }
    for path in authorities {
        let is_directory = fs::metadata(path).map_err(|source| io_error(path, source))?.is_dir();
        if is_directory { add_directory(path, &mut roots)? } else { add_file(path, &mut roots)? }
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn io_error(path: &Path, source: io::Error) -> TrustError {
    TrustError::Io { path: path.to_owned(), source }
}

fn add_file(path: &Path, roots: &mut RootCertStore) -> Result<(), TrustError> {
    let none = |what| TrustError::None { path: path.to_owned(), what };
    let found = certificates(path).map_err(|source| io_error(path, source))?;
    let (good, _) = roots.add_parsable_certificates(found);
    if good == 0 { Err(none("it holds no certificate of an authority in PEM")) } else { Ok(()) }
}

/// All certificates in it: `*.pem`, `*.crt`, `*.cer`, and names made of a hash (`0a1b2c3d.0`), which are
/// mostly links to the others: a certificate counts once.
fn add_directory(path: &Path, roots: &mut RootCertStore) -> Result<(), TrustError> {
    let entries = fs::read_dir(path).map_err(|source| io_error(path, source))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries.take(DIRECTORY_FILES_MAX) {
        let file = entry.map_err(|source| io_error(path, source))?.path();
        if holds_certificate(&file) {
            files.push(file);
        }
    }
    let mut all: Vec<CertificateDer<'static>> = Vec::new();
    for file in files {
        match certificates(&file) {
            Ok(found) => all.extend(found),
            // One file of another's making must not end all copies; those of its authority will say so.
            Err(error) => tracing::warn!(file = %file.display(), %error, "an authority cannot be read"),
        }
    }
    all.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    all.dedup();
    let (good, _) = roots.add_parsable_certificates(all);
    let what = "it holds no certificate of an authority: *.pem, *.crt, *.cer or hashed names";
    if good == 0 { Err(TrustError::None { path: path.to_owned(), what }) } else { Ok(()) }
}

fn holds_certificate(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_hash = stem.len() == 8 && stem.bytes().all(|b| b.is_ascii_hexdigit());
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("pem" | "crt" | "cer") => true,
        Some(number) => is_hash && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()),
        None => false,
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long for certificates"));
    }
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    all.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}
