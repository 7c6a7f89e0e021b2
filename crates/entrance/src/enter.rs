//! What every request passes first: the length of its address, its credential, its caller's allowance.

use std::net::SocketAddr;
use std::sync::Arc;

use authority::{Allowances, Authority, Peer};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Uri};
use transfer::Pace;

use crate::call::{Call, denied};
use crate::credential::{NotIn, come_in};
use crate::problem::{Kind, Refusal};

/// That the address of a request is not longer than `limit` bytes.
///
/// # Errors
/// [`Kind::UriTooLong`].
pub fn uri_fits(uri: &Uri, limit: usize) -> Result<(), Refusal> {
    let bytes = uri.path_and_query().map_or(0, |uri| uri.as_str().len());
    if bytes <= limit {
        return Ok(());
    }
    Err(Refusal::new(Kind::UriTooLong, format!("the address has {bytes} bytes; the limit is {limit}")))
}

/// Lets in whoever makes this request; that somebody is not let in is written down.
///
/// # Errors
/// [`Kind::Unauthorized`] without a valid credential, [`Kind::TooMany`] above an allowance.
pub async fn enter(authority: &Arc<Authority>, request: &Parts) -> Result<Arc<Call>, Refusal> {
    let peer = request.extensions.get::<Peer>().map(|peer| peer.0);
    let refused = |refusal: Refusal| {
        denied(&request.method, request.uri.path(), peer, refusal.status());
        refusal
    };
    let caller = match come_in(authority, request) {
        Ok(caller) => caller,
        Err(not_in) => {
            let written = write_down(authority, not_in, peer, request);
            let refusal =
                refused(Refusal::new(Kind::Unauthorized, "no valid key: send 'Authorization: Bearer KEY'"));
            written.await;
            return Err(refusal);
        }
    };
    let Some(allowances) = request.extensions.get::<Allowances>() else {
        return Err(refused(Refusal::new(Kind::Internal, "the listener gave no allowances")));
    };
    let allowance = allowances.begin(&caller.name).map_err(|exceeded| {
        let refusal = Refusal::new(Kind::TooMany, exceeded.to_string());
        refused(refusal.with(RETRY_AFTER, HeaderValue::from(exceeded.retry_after())))
    })?;
    let pace = request.extensions.get::<Pace>().cloned().unwrap_or_default();
    Ok(Arc::new(Call::new(caller, peer, allowance, pace)))
}

/// Writes down that somebody was not let in. The audit log may make its callers wait, so it is written on a
/// thread that may.
fn write_down(
    authority: &Arc<Authority>,
    not_in: NotIn,
    peer: Option<SocketAddr>,
    request: &Parts,
) -> impl Future<Output = ()> + Send + use<> {
    let (authority, method) = (authority.clone(), request.method.to_string());
    let path = request.uri.path().to_owned();
    let write = move || authority.refused(not_in.how, peer, &method, &path, &not_in.why);
    async move {
        if tokio::task::spawn_blocking(write).await.is_err() {
            tracing::error!("a refusal could not be written into the audit log");
        }
    }
}
