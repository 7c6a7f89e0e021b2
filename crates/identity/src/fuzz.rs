//! For the fuzz targets: claims of tokens behind a signature that agrees.

use base::{ArchivePath, Timestamp};

use crate::caller::NAME_BYTES_MAX;
use crate::issuer::{Issuer, TokenLimits};
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
