//! What every request passes first.

use std::sync::Arc;

use authority::Authority;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use entrance::{AuditLine, enter, uri_fits};

use crate::shared::Shared;

/// The only address that needs no key.
pub(crate) const HEALTH: &str = "/healthz";
/// Below this each request is about one file.
const FILES: &str = "/data/";

/// Runs before any route and before the body is read.
pub(crate) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if let Err(refusal) = uri_fits(request.uri(), shared.limits.uri_bytes) {
        return refusal.into_response();
    }
    if request.uri().path() == HEALTH {
        return next.run(request).await;
    }
    let authority: &Arc<Authority> = shared.authority.authority();
    let (mut parts, body) = request.into_parts();
    let call = match enter(authority, &parts).await {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    let path = parts.uri.path().to_owned();
    let is_of_one_file = path.starts_with(FILES);
    let line = AuditLine::begin(call.clone(), parts.method.clone(), path, is_of_one_file);
    parts.extensions.insert(call);
    let response = next.run(Request::from_parts(parts, body)).await;
    line.end(response.status());
    response
}
