//! Who comes in: by a key or token in the header `Authorization`, or by the certificate of the connection.

use std::sync::Arc;

use authority::{Authority, ClientCertificate, Peer};
use base::base64;
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::{Caller, How, is_like_macaroon};

use crate::headers::single;
use crate::percent;

/// Why a request has nobody behind it, for the log only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotIn {
    /// With what somebody tried.
    pub how: How,
    /// What is wrong with it.
    pub why: String,
}

/// In which ways somebody may come in at a door, beside a bearer's key or token and a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ways {
    /// With a name and a key of that name, as browsers and file managers send them (`Basic`).
    pub basic: bool,
    /// With a key or token in the address: `?authz=`.
    pub query: bool,
    /// With nothing, as nobody in particular.
    pub anonymous: bool,
}

impl Ways {
    /// No others.
    pub const BEARER: Ways = Ways { basic: false, query: false, anonymous: false };
    /// All in which somebody has a name.
    pub const NAMED: Ways = Ways { anonymous: false, ..Ways::ALL };
    /// All.
    pub const ALL: Ways = Ways { basic: true, query: true, anonymous: true };
}

/// A credential as it was sent.
enum Shown {
    Nothing,
    Bearer(String),
    /// A name and a key.
    Basic(String, String),
}

/// Whose request it is. A credential that is no good is not made good by a certificate.
///
/// # Errors
/// Says what is wrong with the credential, or that there is none.
pub fn come_in(authority: &Authority, request: &Parts, ways: Ways) -> Result<Arc<Caller>, NotIn> {
    let not_in = |how, why: &str| NotIn { how, why: why.to_owned() };
    let peer = request.extensions.get::<Peer>().map(|peer| peer.0);
    let bearer = |key: &str| {
        let how = match key {
            _ if key.contains('.') => How::Token,
            _ if is_like_macaroon(key) => How::Macaroon,
            _ => How::Key,
        };
        authority.bearer(key, peer).map_err(|denied| not_in(how, &denied.to_string()))
    };
    match shown(request, ways)? {
        Shown::Bearer(key) => bearer(&key),
        Shown::Basic(name, key) => {
            let caller = bearer(&key)?;
            if caller.name == name {
                Ok(caller)
            } else {
                Err(not_in(caller.how, "the key is of another name"))
            }
        }
        Shown::Nothing => match request.extensions.get::<ClientCertificate>() {
            Some(ClientCertificate(der)) => {
                authority.certificate(der).map_err(|denied| not_in(How::Certificate, &denied.to_string()))
            }
            None if ways.anonymous => Ok(Arc::new(Caller::anonymous())),
            None => Err(not_in(How::Nothing, "no credential")),
        },
    }
}

/// The one credential of a request.
fn shown(request: &Parts, ways: Ways) -> Result<Shown, NotIn> {
    let not_in = |why: &str| NotIn { how: How::Nothing, why: why.to_owned() };
    let header = single(&request.headers, &AUTHORIZATION)
        .map_err(|_| not_in("the header Authorization comes twice"))?;
    let query = request.uri.query().filter(|_| ways.query).unwrap_or_default();
    let mut queried = query.split('&').filter_map(|field| field.strip_prefix("authz="));
    let (in_address, twice) = (queried.next(), queried.next().is_some());
    let value = match (header, in_address) {
        (None, None) => return Ok(Shown::Nothing),
        (Some(_), Some(_)) => {
            return Err(not_in("the header Authorization and authz in the address come together"));
        }
        (None, Some(_)) if twice => return Err(not_in("authz comes twice in the address")),
        (None, Some(text)) => {
            let text = percent::decode(text.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| not_in("authz in the address is malformed"))?;
            let key = after_scheme(&text, "bearer ").unwrap_or(&text).to_owned();
            return if key.is_empty() {
                Err(not_in("authz in the address is empty"))
            } else {
                Ok(Shown::Bearer(key))
            };
        }
        (Some(value), None) => value.to_str().unwrap_or_default(),
    };
    if let Some(key) = after_scheme(value, "bearer ").filter(|key| !key.is_empty()) {
        return Ok(Shown::Bearer(key.to_owned()));
    }
    let pair = after_scheme(value, "basic ").filter(|_| ways.basic).and_then(base64::decode);
    let pair = pair.and_then(|bytes| String::from_utf8(bytes).ok());
    match pair.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((name, key)) if !key.is_empty() => Ok(Shown::Basic(name.to_owned(), key.to_owned())),
        _ => Err(not_in("the header Authorization is not of the form Bearer KEY")),
    }
}

/// What stands behind the name of a scheme, whatever its case.
fn after_scheme<'a>(value: &'a str, scheme: &str) -> Option<&'a str> {
    let (before, key) = value.split_at_checked(scheme.len())?;
    before.eq_ignore_ascii_case(scheme).then(|| key.trim_matches([' ', '\t']))
}
