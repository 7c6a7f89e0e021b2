//! For the fuzz targets: claims of tokens, and what macaroons say, behind a signature that agrees.

use base::{ArchivePath, Timestamp};

use crate::caller::NAME_BYTES_MAX;
use crate::issuer::{Issuer, TokenLimits};
use crate::macaroon::{RootSecret, behind_signature as behind_macaroon, encode, verify_macaroon};
use crate::token::{GROUPS_MAX, behind_signature, verify_token};

fn issuer() -> Option<Issuer> {
    Some(Issuer {
        issuer: "https://issuer".to_owned(),
        prefix: "vo".to_owned(),
        keys: Vec::new(),
        audiences: vec!["https://kist".to_owned()],
        base: ArchivePath::new("/vo").ok()?,
        users: vec![("sub".to_owned(), "anna".to_owned())],
        groups: vec![("/vo/prod".to_owned(), "prod".to_owned())],
    })
}

/// The claims of a token in JSON, at the time 1,000 s.
///
/// # Panics
/// If they make somebody an admin, or give more than the issuer may.
pub fn claims(data: &[u8]) {
    let Some(issuer) = issuer() else { return };
    let now = Timestamp(1_000_000_000_000);
    let Ok(caller) = behind_signature(data, &issuer, &TokenLimits::default(), now) else { return };
    assert!(!caller.is_admin && !caller.is_operator, "{caller:?}");
    assert!(caller.name.len() <= NAME_BYTES_MAX && caller.groups.len() <= GROUPS_MAX, "{caller:?}");
    for capability in &caller.capabilities {
        let path = capability.path.as_str();
        assert!(path == "/vo" || path.starts_with("/vo/"), "{caller:?}");
    }
}

/// A token as it comes: nobody is let in, since the issuer has no key.
///
/// # Panics
/// If somebody is let in.
pub fn token(text: &str) {
    let Some(issuer) = issuer() else { return };
    let found = verify_token(text, &[issuer], &TokenLimits::default(), Timestamp(1_000_000_000_000));
    assert!(found.is_err(), "{found:?}");
}

/// A macaroon as it comes: nobody is let in, since it is made with another secret.
///
/// # Panics
/// If somebody is let in.
pub fn macaroon(text: &str) {
    let found = verify_macaroon(text, &RootSecret([7; 32]), Timestamp(1_000_000_000_000), None);
    assert!(found.is_err(), "{found:?}");
}

/// An identifier in JSON in the first line and a caveat in each other, at the time 1,000 s, from 10.0.0.1.
///
/// # Panics
/// If they make somebody an admin or an operator, or bound nothing.
pub fn caveats(text: &str) {
    let mut lines = text.split('\n');
    let identifier = encode(lines.next().unwrap_or_default().as_bytes());
    let caveats: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
    let (now, peer) = (Timestamp(1_000_000_000_000), "10.0.0.1".parse().ok());
    let Ok(found) = behind_macaroon(identifier.as_bytes(), &caveats, now, peer) else { return };
    let caller = found.caller;
    assert!(!caller.is_admin && !caller.looks() && !caller.is_anonymous(), "{caller:?}");
    assert!(caller.bounds.is_some_and(|bounds| bounds.len() == 1));
    assert!(caller.until.is_some_and(|until| now < until));
}
