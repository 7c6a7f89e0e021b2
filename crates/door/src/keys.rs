//! `/api/v1/keys`: keys that admins give out, and the end of macaroons.

use std::sync::Arc;
use std::time::Duration;

use authority::{KeyInfo, KeyRequest};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::admin::no_such_part;
use crate::json::JsonBody;
use crate::shared::Asked;
use entrance::Call;
use entrance::Refusal;
use entrance::headers::precise;

type Caller = Extension<Arc<Call>>;
type PathPart = Result<Path<String>, PathRejection>;

pub(crate) async fn list(
    shared: Asked,
    Extension(call): Caller,
) -> Result<Json<Vec<wire::KeyReply>>, Refusal> {
    let authority = shared.authority.clone();
    let keys = shared.block(move || Ok(authority.keys(&call.principal, call.peer)?)).await?;
    Ok(Json(keys.iter().map(reply).collect()))
}

pub(crate) async fn create(
    shared: Asked,
    Extension(call): Caller,
    body: Body,
) -> Result<(StatusCode, Json<wire::NewKeyReply>), Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::KeyBody>()?;
    call.about(body.name.clone());
    let authority = shared.authority.clone();
    let request = KeyRequest {
        name: body.name,
        groups: body.groups,
        is_admin: body.admin,
        is_operator: body.operator,
        expires_after: body.expires_seconds.map(Duration::from_secs),
        signs: body.s3,
    };
    let made = shared.block(move || Ok(authority.create_key(&call.principal, call.peer, &request)?)).await?;
    Ok((StatusCode::CREATED, Json(wire::NewKeyReply { key: reply(&made.info), secret: made.secret })))
}

pub(crate) async fn disable(shared: Asked, call: Caller, id: PathPart) -> Result<StatusCode, Refusal> {
    set_disabled(shared, call, id, true).await
}

pub(crate) async fn enable(shared: Asked, call: Caller, id: PathPart) -> Result<StatusCode, Refusal> {
    set_disabled(shared, call, id, false).await
}

async fn set_disabled(
    shared: Asked,
    Extension(call): Caller,
    id: PathPart,
    disabled: bool,
) -> Result<StatusCode, Refusal> {
    let Path(id) = id.map_err(|_| no_such_part())?;
    call.about(id.clone());
    let authority = shared.authority.clone();
    let work = move || Ok(authority.set_key_disabled(&call.principal, call.peer, &id, disabled)?);
    shared.block(work).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn remove(
    shared: Asked,
    Extension(call): Caller,
    id: PathPart,
) -> Result<StatusCode, Refusal> {
    let Path(id) = id.map_err(|_| no_such_part())?;
    call.about(id.clone());
    let authority = shared.authority.clone();
    shared.block(move || Ok(authority.remove_key(&call.principal, call.peer, &id)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn revoke_macaroons(shared: Asked, Extension(call): Caller) -> Result<StatusCode, Refusal> {
    let authority = shared.authority.clone();
    shared.block(move || Ok(authority.revoke_macaroons(&call.principal, call.peer)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn reply(key: &KeyInfo) -> wire::KeyReply {
    wire::KeyReply {
        id: key.id.clone(),
        name: key.request.name.clone(),
        groups: key.request.groups.clone(),
        admin: key.request.is_admin,
        operator: key.request.is_operator,
        s3: key.request.signs,
        created: precise(key.created),
        expires: key.expires.map(precise),
        disabled: key.is_disabled,
    }
}
