//! The authorities whose certificates clients may show, each in its time only. TLS looks at how long the
//! certificates of a client and of those between are good, never at an authority that it is told to trust.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

/// A certificate that ends earlier than this is warned of.
const SHORT_SECONDS: i64 = 14 * 86_400;

/// An authority and its time, in seconds since 1970, both ends included.
#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    name: String,
    from: i64,
    until: i64,
}

impl Authority {
    fn is_good(&self, now: i64) -> bool {
        (self.from..=self.until).contains(&now)
    }
}

/// Lets clients in whose certificate comes from one of these authorities.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    authorities: Vec<Authority>,
    is_mandatory: bool,
    provider: Arc<CryptoProvider>,
    /// Of all authorities, whatever the time: checks signatures, which do not depend on them.
    all: Arc<dyn ClientCertVerifier>,
    /// Which authorities were good at the last handshake, and what trusts those.
    good: Mutex<Good>,
}

#[derive(Debug)]
struct Good {
    which: Vec<bool>,
    /// `None`: none of them is good.
    trusting: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientAuthorities {
    /// Takes the certificates of a file.
    ///
    /// # Errors
    /// Says which of them is no certificate of an authority.
    pub(crate) fn new(
        certificates: Vec<CertificateDer<'static>>,
        is_mandatory: bool,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let authorities = certificates.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let which = vec![true; authorities.len()];
        let all = trusting(&authorities, &which, is_mandatory, &provider)?;
        let good = Mutex::new(Good { which, trusting: Some(all.clone()) });
        Ok(ClientAuthorities { authorities, is_mandatory, provider, all, good })
    }

    /// Whether one of them is good at a time.
    pub(crate) fn any_good(&self, now: i64) -> bool {
        self.authorities.iter().any(|authority| authority.is_good(now))
    }

    /// Which of them are not good at a time, or not for long: for operators, with what to do.
    pub(crate) fn faults(&self, file: &Path, now: i64) -> Vec<String> {
        let file = file.display();
        let mut faults = Vec::new();
        for Authority { name, from, until, .. } in &self.authorities {
            if *until < now {
                faults.push(format!(
                    "the authority of clients '{name}' in {file} has expired: nobody it signed comes in; \
                     replace it"
                ));
            } else if *from > now {
                faults.push(format!("the authority of clients '{name}' in {file} is not good yet"));
            } else if until - now < SHORT_SECONDS {
                let days = (until - now) / 86_400;
                faults.push(format!(
                    "the authority of clients '{name}' in {file} ends in {days} days: add the one to come"
                ));
            }
        }
        if !self.any_good(now) {
            faults.push(format!("no authority of clients in {file} is good now: no certificate is taken"));
        }
        faults
    }

    fn at(&self, now: UnixTime) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let which: Vec<bool> = self.authorities.iter().map(|authority| authority.is_good(now)).collect();
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.which != which {
            let trusting = match which.contains(&true) {
                true => trusting(&self.authorities, &which, self.is_mandatory, &self.provider).map(Some),
                false => Ok(None),
            };
            *good = Good { which, trusting: trusting.map_err(Error::General)? };
        }
        good.trusting.clone().ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }
}

fn read(certificate: CertificateDer<'static>) -> Result<Authority, String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(&certificate).map_err(|error| error.to_string())?;
    let (name, validity) = (parsed.subject().to_string(), parsed.validity());
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    Ok(Authority { certificate, name, from, until })
}

fn trusting(
    authorities: &[Authority],
    which: &[bool],
    is_mandatory: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for (authority, _) in authorities.iter().zip(which).filter(|(_, is_good)| **is_good) {
        roots.add(authority.certificate.clone()).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = if is_mandatory { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| error.to_string())
}

impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.all.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.at(now)?.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.all.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.all.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.all.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

    use super::*;

    const YEAR: u64 = 365 * 86_400;

    /// An authority from the beginning of one year to that of another, and a client's certificate of it that
    /// is good for very long.
    fn authority(from: i32, until: i32) -> (CertificateDer<'static>, CertificateDer<'static>) {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let client = CertificateParams::new(vec!["anna".to_owned()]).unwrap();
        let client = client.signed_by(&key, &issuer).unwrap();
        (issuer.der().clone(), client.der().clone())
    }

    /// An authority that had ended still let in whom it had signed, since TLS does not look at its time; also
    /// one that ended while the server ran.
    #[test]
    fn an_authority_lets_in_only_in_its_time() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (short, of_short) = authority(2020, 2030);
        let (late, of_late) = authority(2025, 2035);
        let all = ClientAuthorities::new(vec![short, late], true, provider).unwrap();
        let at =
            |years_since_1970: u64| UnixTime::since_unix_epoch(Duration::from_secs(years_since_1970 * YEAR));
        let is_in = |client: &CertificateDer<'_>, year| all.verify_client_cert(client, &[], at(year)).is_ok();
        // Half a month is the most that leap days make of a difference.
        for (year, short, late) in [(52, true, false), (58, true, true), (62, false, true), (58, true, true)]
        {
            assert_eq!((is_in(&of_short, year), is_in(&of_late, year)), (short, late), "1970 + {year}");
        }
        for year in [45, 70] {
            assert!(!is_in(&of_short, year) && !is_in(&of_late, year), "1970 + {year}");
            assert!(!all.any_good(i64::try_from(year * YEAR).unwrap()));
        }
        let faults = |year: u64, days: i64| {
            let now = i64::try_from(year * YEAR).unwrap() + days * 86_400;
            all.faults(Path::new("ca.pem"), now)
        };
        assert_eq!(faults(58, 0), [""; 0]);
        assert!(faults(62, 0).len() == 1 && faults(62, 0)[0].contains("has expired"), "{:?}", faults(62, 0));
        assert!(faults(52, 0)[0].contains("is not good yet"));
        // 2030-01-01 less ten days, with fifteen leap days since 1970.
        assert!(faults(60, 15 - 10)[0].contains("ends in 10 days"), "{:?}", faults(60, 5));
        assert!(faults(70, 0)[2].starts_with("no authority of clients in ca.pem is good now"));
        assert!(all.client_auth_mandatory());
    }
}
