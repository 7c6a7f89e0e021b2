//! Who somebody is and what that allows: tokens, certificates, access control lists. Pure.

mod acl;
mod caller;
mod certificate;
mod constant_time;
mod decision;
#[doc(hidden)]
pub mod fuzz;
mod issuer;
mod macaroon;
mod rights;
mod scope;
mod strict;
mod token;
mod xrootd;

pub use acl::{ACL_ENTRIES_MAX, Acl, AclEntry, AclError, SUBJECT_BYTES_MAX, Subject};
pub use caller::{ANONYMOUS, Caller, Capability, How, NAME_BYTES_MAX};
pub use certificate::{CERTIFICATE_BYTES_MAX, CertificateError, CertificateMapping, certificate_caller};
pub use constant_time::same;
pub use decision::{Node, Refused, Target, decide, rights_at};
pub use issuer::{ISSUER_KEYS_MAX, Issuer, IssuerError, IssuerKey, TokenLimits, check_names, read_keys};
pub use macaroon::{
    CAVEATS_ASKED_MAX, CAVEATS_MAX, MACAROON_BYTES_MAX, MACAROON_VALIDITY, MACAROON_VALIDITY_MAX, Macaroon,
    MacaroonError, MacaroonRequest, RootSecret, is_like_macaroon, make_macaroon, verify_macaroon,
};
pub use rights::{Rights, RightsError};
pub use scope::{Profile, SCOPES_MAX, ScopeError, capabilities};
pub use token::{GROUPS_MAX, TokenError, verify_token};
pub use xrootd::{XrootdEntity, XrootdRefusal, XrootdTrust, xrootd_caller};
