//! Errors as RFC 7807 has them, of which `status` and `title` are required.

use bytes::Bytes;
use entrance::Refusal;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use transfer::ReplyBody;

#[derive(Serialize)]
struct Problem<'a> {
    status: u16,
    title: &'a str,
    detail: &'a str,
}

/// The reply that a refusal is.
pub(crate) fn reply(refusal: &Refusal) -> Response<ReplyBody> {
    let status = refusal.status();
    let title = status.canonical_reason().unwrap_or("Error");
    let problem = Problem { status: status.as_u16(), title, detail: refusal.detail() };
    // A struct of two texts and a number can always be written.
    let body = Bytes::from(serde_json::to_vec(&problem).unwrap_or_default());
    let mut reply = Response::new(ReplyBody::new(Full::new(body).map_err(|never| match never {})));
    *reply.status_mut() = status;
    reply.headers_mut().extend(refusal.headers().clone());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    reply
}
