//! Who somebody is and what that allows: tokens, scopes, keys of issuers, certificates, access control lists.

use base::ArchivePath;
use identity::{
    AclEntry, CertificateMapping, Profile, Rights, Subject, capabilities, certificate_caller, read_keys,
};

use crate::split;

/// Claims, whole tokens, scopes, keys of issuers.
pub(crate) fn token(data: &[u8]) {
    let (which, rest) = split(data);
    if which % 4 == 0 {
        return identity::fuzz::claims(rest);
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which % 4 {
        1 => identity::fuzz::token(text),
        2 => scopes(text),
        _ => drop(read_keys(text, None, None)),
    }
}

/// Macaroons as they come, and what they say behind a signature.
pub(crate) fn macaroon(data: &[u8]) {
    let (which, rest) = split(data);
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which % 2 {
        0 => identity::fuzz::macaroon(text),
        _ => identity::fuzz::caveats(text),
    }
}

fn scopes(text: &str) {
    let Ok(base) = ArchivePath::new("/vo") else { return };
    for profile in [Profile::Wlcg, Profile::SciTokens] {
        for capability in capabilities(text, profile, &base).unwrap_or_default() {
            let path = capability.path.as_str();
            assert!(path == "/vo" || path.starts_with("/vo/"), "{capability:?}");
        }
    }
}

/// Certificates, with one that is known to the mapping.
pub(crate) fn certificate(data: &[u8]) {
    let mapping = |subject: &str| CertificateMapping {
        subject: subject.to_owned(),
        issuer: None,
        name: "anna".to_owned(),
        groups: Vec::new(),
        is_admin: false,
    };
    let mappings = [mapping("CN=anna,O=Lab,C=CH"), mapping("/C=CH/O=Lab/CN=anna")];
    if let Ok(caller) = certificate_caller(data, &mappings) {
        assert!(caller.name == "anna" && !caller.is_admin, "{caller:?}");
    }
}

/// Entries, subjects, rights: what is read is written as something that reads the same.
pub(crate) fn acl(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for line in text.lines() {
        if let Ok(entry) = line.parse::<AclEntry>() {
            assert_eq!(entry.to_string().parse::<AclEntry>().as_ref(), Ok(&entry), "{line}");
        }
        if let Ok(subject) = line.parse::<Subject>() {
            assert_eq!(subject.to_string(), line);
        }
        if let Ok(rights) = Rights::parse(line) {
            assert_eq!(Rights::parse(&rights.to_string()), Ok(rights));
            assert!(rights.implied().contains(rights));
        }
    }
}
