//! `/api/v1/locks`: locks that clients hold.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::{Extension, Json};
use base::ArchivePath;
use entrance::percent::bad_path;
use entrance::{Call, Refusal};

use crate::json::JsonBody;
use crate::shared::Asked;

type Caller = Extension<Arc<Call>>;

pub(crate) async fn list(
    shared: Asked,
    Extension(call): Caller,
) -> Result<Json<Vec<wire::LockReply>>, Refusal> {
    let guarded = shared.authority.enter_from(&call.principal, call.peer);
    let locks = shared.block(move || Ok(guarded.locks()?)).await?;
    let reply = locks.into_iter().map(|(lock, left)| wire::LockReply {
        path: lock.root.to_string(),
        owner: lock.owner,
        exclusive: lock.is_exclusive,
        deep: lock.is_deep,
        ends_seconds: left.as_secs(),
    });
    Ok(Json(reply.collect()))
}

pub(crate) async fn remove(
    shared: Asked,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::LockBody>()?;
    let path = ArchivePath::new(&body.path).map_err(bad_path)?;
    call.about(body.path);
    let guarded = shared.authority.enter_from(&call.principal, call.peer);
    shared.block(move || Ok(guarded.end_locks(&path)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
