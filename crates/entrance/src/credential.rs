//! Who comes in: by a key or token in the header `Authorization`, or by the certificate of the connection.

use std::sync::Arc;

use authority::{Authority, ClientCertificate, Peer};
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::{Caller, How, is_like_macaroon};

use crate::headers::single;

/// Why a request has nobody behind it, for the log only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotIn {
    /// With what somebody tried.
    pub how: How,
    /// What is wrong with it.
    pub why: String,
}

/// Whose request it is. A header that is no good is not made good by a certificate.
///
/// # Errors
/// Says what is wrong with the credential, or that there is none.
pub fn come_in(authority: &Authority, request: &Parts) -> Result<Arc<Caller>, NotIn> {
    let not_in = |how, why: &str| NotIn { how, why: why.to_owned() };
    let header = single(&request.headers, &AUTHORIZATION)
        .map_err(|_| not_in(How::Nothing, "the header Authorization comes twice"))?;
    let Some(value) = header else {
        let Some(ClientCertificate(der)) = request.extensions.get::<ClientCertificate>() else {
            return Err(not_in(How::Nothing, "no credential"));
        };
        let caller = authority.certificate(der);
        return caller.map_err(|denied| not_in(How::Certificate, &denied.to_string()));
    };
    let key = value.to_str().ok().and_then(|value| {
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case("bearer ").then(|| key.trim_matches([' ', '\t']))
    });
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return Err(not_in(How::Nothing, "the header Authorization is not of the form Bearer KEY"));
    };
    let how = match key {
        _ if key.contains('.') => How::Token,
        _ if is_like_macaroon(key) => How::Macaroon,
        _ => How::Key,
    };
    let peer = request.extensions.get::<Peer>().map(|peer| peer.0);
    authority.bearer(key, peer).map_err(|denied| not_in(how, &denied.to_string()))
}
