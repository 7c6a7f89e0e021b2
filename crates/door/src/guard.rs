//! What every request passes first: the length of its address, its key, its principal's allowance, the audit
//! line.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::RETRY_AFTER;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::audit::{AuditLine, Call, denied};
use crate::auth::{NotIn, come_in};
use crate::problem::{Kind, Refusal};
use crate::shared::Shared;
use authority::{Allowances, Peer};
use transfer::Pace;

/// The only address that needs no key.
pub(crate) const HEALTH: &str = "/healthz";

/// Runs before any route and before the body is read.
pub(crate) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let uri_bytes = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    if uri_bytes > shared.limits.uri_bytes {
        let detail = format!("the address has {uri_bytes} bytes; the limit is {}", shared.limits.uri_bytes);
        return Refusal::new(Kind::UriTooLong, detail).into_response();
    }
    let path = request.uri().path().to_owned();
    if path == HEALTH {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let refused = |refusal: Refusal, request: &Request| {
        let response = refusal.into_response();
        denied(request.method(), request.uri().path(), peer, response.status());
        response
    };
    let caller = match come_in(&shared.authority, &request) {
        Ok(caller) => caller,
        Err(not_in) => {
            let written = write_down(&shared, not_in, peer, &request);
            let detail = "no valid key: send 'Authorization: Bearer KEY'";
            let response = refused(Refusal::new(Kind::Unauthorized, detail), &request);
            written.await;
            return response;
        }
    };
    let Some(allowances) = request.extensions().get::<Allowances>().cloned() else {
        return refused(Refusal::new(Kind::Internal, "the listener gave no allowances"), &request);
    };
    let allowance = match allowances.begin(&caller.name) {
        Ok(allowance) => allowance,
        Err(exceeded) => {
            let refusal = Refusal::new(Kind::TooMany, exceeded.to_string());
            let refusal = refusal.with(RETRY_AFTER, HeaderValue::from(exceeded.retry_after()));
            return refused(refusal, &request);
        }
    };
    let pace = request.extensions().get::<Pace>().cloned().unwrap_or_default();
    let engine = shared.authority.enter_from(&caller, peer);
    let call = Arc::new(Call::new(caller, engine, peer, allowance, pace));
    let line = AuditLine::begin(call.clone(), request.method().clone(), path, peer);
    request.extensions_mut().insert(call);
    let response = next.run(request).await;
    line.end(response.status());
    response
}

/// Writes down that somebody was not let in. The audit log may make its callers wait, so it is written on a
/// thread that may.
fn write_down(
    shared: &Shared,
    not_in: NotIn,
    peer: Option<SocketAddr>,
    request: &Request,
) -> impl Future<Output = ()> + Send + use<> {
    let (authority, method) = (shared.authority.clone(), request.method().to_string());
    let path = request.uri().path().to_owned();
    let write = move || authority.refused(not_in.how, peer, &method, &path, &not_in.why);
    async move {
        if tokio::task::spawn_blocking(write).await.is_err() {
            tracing::error!("a refusal could not be written into the audit log");
        }
    }
}
