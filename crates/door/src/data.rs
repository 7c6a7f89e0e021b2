//! `/data/...`: files by their path.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base::ArchivePath;

use crate::get::{get, head};
use crate::put::put;
use crate::shared::Asked;
use entrance::Call;
use entrance::percent::archive_path;
use entrance::{Refusal, refuse_endless};

const METHODS: &str = "GET, HEAD, PUT, DELETE";

/// One request for a file.
pub(crate) struct DataRequest {
    pub path: ArchivePath,
    pub headers: HeaderMap,
    pub body: Body,
    pub call: Arc<Call>,
}

/// All methods of `/data/...`.
pub(crate) async fn data(
    shared: Asked,
    Extension(call): Extension<Arc<Call>>,
    request: Request,
) -> Result<Response, Refusal> {
    let path = archive_path(below(request.uri().path()))?;
    let (parts, body) = request.into_parts();
    let asked = DataRequest { path, headers: parts.headers, body, call };
    match parts.method {
        Method::GET => get(&shared, asked).await,
        Method::HEAD => head(&shared, asked).await,
        Method::PUT => {
            if !asked.headers.contains_key("kist-link-target") {
                refuse_endless(parts.version, &asked.headers)?;
            }
            put(&shared, asked).await
        }
        Method::DELETE => delete(&shared, asked).await,
        _ => Err(Refusal::method(METHODS)),
    }
}

/// The part of an address behind `/data`.
pub(crate) fn below(path: &str) -> &str {
    path.strip_prefix("/data").unwrap_or(path)
}

async fn delete(shared: &Asked, asked: DataRequest) -> Result<Response, Refusal> {
    refuse_unsupported(&asked.headers, "DELETE")?;
    shared.call(move |engine| Ok(engine.remove(&asked.path)?)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Conditions that a change would have to obey are refused rather than passed over.
pub(crate) fn refuse_unsupported(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    for name in [IF_MATCH, axum::http::header::IF_UNMODIFIED_SINCE] {
        if headers.contains_key(&name) {
            return Err(Refusal::bad(format!("{name} is not supported with {method}")));
        }
    }
    Ok(())
}
