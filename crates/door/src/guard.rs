//! What every request passes first: the length of its address, its key, its principal's allowance, the audit
//! line.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::audit::{AuditLine, Call, denied};
use crate::problem::{Kind, Refusal};
use crate::shared::Shared;

/// The only address that needs no key.
pub(crate) const HEALTH: &str = "/healthz";

/// The address of the client, put into each request by the listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

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
    let Some(principal) = shared.keys.principal(request.headers()) else {
        let detail = "no valid key: send 'Authorization: Bearer KEY'";
        return refused(Refusal::new(Kind::Unauthorized, detail), &request);
    };
    let Ok(permit) = principal.requests.clone().try_acquire_owned() else {
        let limit = shared.limits.principal_requests;
        let detail = format!("{limit} requests of this key are running: wait for one to end");
        return refused(Refusal::new(Kind::TooMany, detail), &request);
    };
    let call = Arc::new(Call::new(principal, permit));
    let line = AuditLine::begin(call.clone(), request.method().clone(), path, peer);
    request.extensions_mut().insert(call);
    let response = next.run(request).await;
    line.end(response.status());
    response
}
