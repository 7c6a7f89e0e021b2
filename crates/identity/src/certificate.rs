//! Certificates: whom the subject of one stands for. That it is signed by a trusted authority and in its time
//! is checked by TLS before.

use std::fmt::Write;

use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::caller::{Caller, How};

/// The longest certificate that is read.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// Whom a subject stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateMapping {
    /// The subject, as `CN=anna,O=Lab,C=CH` (RFC 2253: the last attribute first) or `/C=CH/O=Lab/CN=anna`.
    pub subject: String,
    /// Who has to have signed it, in one of these forms; `None`: any authority that TLS trusts.
    pub issuer: Option<String>,
    /// The name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Whether it is an admin's.
    pub is_admin: bool,
}

/// Why a certificate stands for nobody. For the log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Malformed,
    /// Nobody has this subject.
    #[error("no [[identity.certificates]] names the subject '{0}' signed by '{1}'")]
    Unknown(String, String),
}

/// Whom a certificate (DER) stands for.
///
/// # Errors
/// If it cannot be read, or no mapping names its subject.
pub fn certificate_caller(der: &[u8], mappings: &[CertificateMapping]) -> Result<Caller, CertificateError> {
    if der.len() > CERTIFICATE_BYTES_MAX {
        return Err(CertificateError::Malformed);
    }
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
    let subject = Forms::of(certificate.subject()).ok_or(CertificateError::Malformed)?;
    let issuer = Forms::of(certificate.issuer()).ok_or(CertificateError::Malformed)?;
    if !rest.is_empty() || subject.rfc2253.is_empty() {
        return Err(CertificateError::Malformed);
    }
    let fits = |mapping: &&CertificateMapping| {
        subject.are(&mapping.subject) && mapping.issuer.as_ref().is_none_or(|named| issuer.are(named))
    };
    let Some(found) = mappings.iter().find(fits) else {
        return Err(CertificateError::Unknown(subject.rfc2253, issuer.rfc2253));
    };
    Ok(Caller {
        name: found.name.clone(),
        groups: found.groups.clone(),
        is_admin: found.is_admin,
        how: How::Certificate,
        origin: found.subject.clone(),
        ..Caller::default()
    })
}

/// A name in both forms.
struct Forms {
    rfc2253: String,
    /// `None` if the form with slashes would be ambiguous.
    slashes: Option<String>,
}

impl Forms {
    fn of(name: &X509Name<'_>) -> Option<Self> {
        let mut parts: Vec<Vec<(String, String)>> = Vec::new();
        for rdn in name.iter_rdn() {
            let mut attributes = Vec::new();
            for attribute in rdn.iter() {
                let oid = attribute.attr_type();
                let word = match oid2abbrev(oid, oid_registry()) {
                    Ok(word) => word.to_owned(),
                    Err(_) => oid.to_id_string(),
                };
                attributes.push((word, attribute.as_str().ok()?.to_owned()));
            }
            parts.push(attributes);
        }
        let joined = |attributes: &Vec<(String, String)>| {
            let words = attributes.iter().map(|(word, value)| format!("{word}={}", escaped(value)));
            words.collect::<Vec<_>>().join("+")
        };
        let rfc2253 = parts.iter().rev().map(joined).collect::<Vec<_>>().join(",");
        Some(Forms { rfc2253, slashes: slashes(&parts) })
    }

    fn are(&self, named: &str) -> bool {
        self.rfc2253 == named || self.slashes.as_deref() == Some(named)
    }
}

/// The form with slashes. A value with a slash and an equals sign behind it could pass for several
/// attributes, so it has none.
fn slashes(parts: &[Vec<(String, String)>]) -> Option<String> {
    let mut text = String::new();
    for attributes in parts {
        let [(word, value)] = attributes.as_slice() else { return None };
        if value.split('/').skip(1).any(|piece| piece.contains('=')) {
            return None;
        }
        let _ = write!(text, "/{word}={value}");
    }
    Some(text)
}

/// A value as RFC 2253 has it: what would end it, and spaces at its ends, behind a backslash.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (n, c) in value.chars().enumerate() {
        let special = matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=');
        if special || (c == '#' && n == 0) || (c == ' ' && (n == 0 || n == last)) {
            text.push('\\');
        }
        if c.is_control() {
            let mut bytes = [0u8; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "\\{byte:02X}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn der(parts: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        parts.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn mapping(subject: &str, issuer: Option<&str>) -> CertificateMapping {
        CertificateMapping {
            subject: subject.to_owned(),
            issuer: issuer.map(str::to_owned),
            name: "anna".to_owned(),
            groups: vec!["cms".to_owned()],
            is_admin: false,
        }
    }

    #[test]
    fn both_forms_name_a_subject() {
        let cert = der(&[
            (DnType::CountryName, "CH"),
            (DnType::OrganizationName, "Lab, Inc"),
            (DnType::CommonName, "anna"),
        ]);
        let who =
            |subject: &str, issuer: Option<&str>| certificate_caller(&cert, &[mapping(subject, issuer)]);
        let caller = who("CN=anna,O=Lab\\, Inc,C=CH", None).unwrap();
        assert_eq!((caller.name.as_str(), caller.how), ("anna", How::Certificate));
        assert!(who("/C=CH/O=Lab, Inc/CN=anna", Some("/C=CH/O=Lab, Inc/CN=anna")).is_ok());
        let wrong = [
            "CN=anna",
            "/CN=anna",
            "C=CH,O=Lab\\, Inc,CN=anna",
            "cn=anna,o=Lab\\, Inc,c=CH",
            "CN=anna,O=Lab, Inc,C=CH",
            "",
        ];
        for subject in wrong {
            assert!(matches!(who(subject, None), Err(CertificateError::Unknown(..))), "{subject}");
        }
        assert!(who("CN=anna,O=Lab\\, Inc,C=CH", Some("CN=Another CA")).is_err());
    }

    /// A value may hold what looks like another attribute.
    #[test]
    fn a_value_does_not_pass_for_an_attribute() {
        let forged = der(&[(DnType::OrganizationName, "Lab/CN=anna")]);
        assert!(certificate_caller(&forged, &[mapping("/O=Lab/CN=anna", None)]).is_err());
        let forged = der(&[(DnType::CommonName, "anna,O=Lab")]);
        assert!(certificate_caller(&forged, &[mapping("CN=anna,O=Lab", None)]).is_err());
        assert!(certificate_caller(&forged, &[mapping("CN=anna\\,O\\=Lab", None)]).is_ok());
        let host = der(&[(DnType::CommonName, "host/node.example.org")]);
        assert!(certificate_caller(&host, &[mapping("/CN=host/node.example.org", None)]).is_ok());
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let good = der(&[(DnType::CommonName, "anna")]);
        let all = [mapping("CN=anna", None)];
        assert!(certificate_caller(&good, &all).is_ok());
        let long = [good.clone(), vec![0]].concat();
        for bad in [&[][..], &good[..good.len() - 1], &good[1..], &long, &[0x30; 100]] {
            assert_eq!(certificate_caller(bad, &all), Err(CertificateError::Malformed));
        }
        let nameless = der(&[]);
        assert_eq!(certificate_caller(&nameless, &[mapping("", None)]), Err(CertificateError::Malformed));
    }
}
