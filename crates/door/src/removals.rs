//! `/api/v1/removals`: directories that are removed at once with all that is in them.

use std::sync::Arc;

use archive::{RemoveTree, TreeRemoval};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};
use base::{ArchivePath, DirId};

use crate::admin::no_such_part;
use crate::json::JsonBody;
use crate::shared::Asked;
use entrance::Call;
use entrance::Refusal;
use entrance::percent::bad_path;
use wire::{RemovalBody, RemovalReply};

pub(crate) async fn remove(
    shared: Asked,
    Extension(call): Extension<Arc<Call>>,
    body: Body,
) -> Result<(StatusCode, Json<RemovalReply>), Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<RemovalBody>()?;
    call.about(body.path.clone());
    let path = ArchivePath::new(&body.path).map_err(bad_path)?;
    let owner = call.principal.name.clone();
    let how = RemoveTree { owner, directory: None, with_lists: false };
    let removal = shared.call(move |engine| Ok(engine.remove_tree(&path, how)?)).await?;
    Ok((StatusCode::ACCEPTED, Json(reply(&removal))))
}

pub(crate) async fn removals(shared: Asked) -> Result<Json<Vec<RemovalReply>>, Refusal> {
    shared.call(|engine| Ok(Json(engine.tree_removals()?.iter().map(reply).collect()))).await
}

pub(crate) async fn removal(
    shared: Asked,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<RemovalReply>, Refusal> {
    let Path(text) = id.map_err(|_| no_such_part())?;
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten().map(DirId);
    let id = id.ok_or_else(|| Refusal::bad(format!("'{text}' is not the number of a removal")))?;
    shared.call(move |engine| Ok(Json(reply(&engine.tree_removal(id)?)))).await
}

fn reply(TreeRemoval { id, record, waits }: &TreeRemoval) -> RemovalReply {
    RemovalReply {
        id: id.0,
        owner: record.owner.clone(),
        path: record.path.clone(),
        state: if record.ended.is_some() { "done" } else { "removing" }.to_owned(),
        since: record.condemned.to_string(),
        waits: waits.as_ref().map(ToString::to_string),
        ended: record.ended.map(|at| at.to_string()),
        files: record.files,
        bytes: record.bytes.0,
        directories: record.directories,
    }
}
