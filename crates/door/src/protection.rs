//! `/api/v1/backup` and `/api/v1/pool/quarantine`: what protects against the loss of the catalogue.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Extension, Json};
use base::Timestamp;
use serde::{Deserialize, Serialize};

use crate::audit::Call;
use crate::headers::precise;
use crate::problem::Refusal;
use crate::shared::Asked;

type Door = Asked;
type Caller = Extension<Arc<Call>>;

/// `GET /api/v1/backup`: how the backup of the catalogue stands.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackupReply {
    /// Whether `[backup]` is configured; if not, the rest means nothing.
    pub on: bool,
    /// Its directory.
    pub directory: String,
    /// The line that is written, from 1.
    pub line: u32,
    /// The newest change of the catalogue.
    pub change: u64,
    /// The newest change in the directory.
    pub shipped: u64,
    /// When the directory last had everything.
    pub shipped_at: Option<String>,
    /// The change of the newest snapshot.
    pub snapshot: Option<u64>,
    /// When it was taken.
    pub snapshot_at: Option<String>,
    /// Snapshots asked for.
    pub asked: u64,
    /// Those of them that were tried; `failing` says how it went.
    pub answered: u64,
    /// Why the last attempt failed.
    pub failing: Option<String>,
    /// How long the catalogue's log of changes is.
    #[serde(default)]
    pub log: Option<ChangeLogReply>,
}

/// How long the catalogue's log of changes is, and why.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeLogReply {
    /// Changes in it.
    pub changes: u64,
    /// What it takes of the catalogue.
    pub bytes: u64,
    /// The oldest of them.
    pub first: u64,
    /// The newest change that tapes of all pools have in a base; 0: there is none.
    pub base: u64,
    /// Why its oldest change is kept.
    pub kept: String,
    /// Why no base of the catalogue can be made, if the last try failed.
    pub failing: Option<String>,
}

/// `POST /api/v1/backup/snapshot`: a snapshot is taken; that is over when `answered` has reached `asked`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SnapshotReply {
    /// What `answered` of [`BackupReply`] reaches; `None` if no backup is configured.
    pub asked: Option<u64>,
}

/// `GET /api/v1/pool/quarantine`: pool bytes that are kept although the catalogue does not name them.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuarantineReply {
    /// Whether there is a quarantine: since a restore until an operator ends it.
    pub on: bool,
    /// Extents (shards on drives) in it.
    pub extents: u64,
    /// Extents that nothing names, such as a crash leaves: each is kept for `[pool] unknown_kept`.
    pub unknown: u64,
    /// When the first of these is removed.
    pub unknown_until: Option<String>,
}

pub(crate) async fn backup(shared: Door) -> Result<Json<BackupReply>, Refusal> {
    let (reply, log) = shared
        .call(|engine| {
            engine.may_look()?;
            Ok((engine.backup_status(), engine.change_log()?))
        })
        .await?;
    let on = reply.is_some();
    let status = reply.unwrap_or_default();
    let time = |time: Option<Timestamp>| time.map(precise);
    Ok(Json(BackupReply {
        on,
        directory: status.directory.display().to_string(),
        line: status.line,
        change: status.change,
        shipped: status.shipped,
        shipped_at: time(status.shipped_at),
        snapshot: status.snapshot,
        snapshot_at: time(status.snapshot_at),
        asked: status.asked,
        answered: status.answered,
        failing: status.failing,
        log: log.map(|log| ChangeLogReply {
            changes: log.changes,
            bytes: log.bytes,
            first: log.first,
            base: log.base,
            kept: log.kept.to_string(),
            failing: log.failing,
        }),
    }))
}

pub(crate) async fn snapshot(
    shared: Door,
    Extension(call): Caller,
) -> Result<(StatusCode, Json<SnapshotReply>), Refusal> {
    call.about("snapshot".to_owned());
    let asked = shared
        .call(|engine| engine.may_administrate().map(|()| engine.backup_now()).map_err(Into::into))
        .await?;
    Ok((StatusCode::ACCEPTED, Json(SnapshotReply { asked })))
}

pub(crate) async fn quarantine(shared: Door) -> Result<Json<QuarantineReply>, Refusal> {
    let (extents, kept) = shared.call(|engine| Ok((engine.quarantined()?, engine.unknown_kept()?))).await?;
    Ok(Json(QuarantineReply {
        on: extents.is_some(),
        extents: extents.unwrap_or(0),
        unknown: kept.extents,
        unknown_until: kept.until.map(precise),
    }))
}

pub(crate) async fn end_quarantine(shared: Door, Extension(call): Caller) -> Result<StatusCode, Refusal> {
    call.about("end of quarantine".to_owned());
    shared.call(|engine| Ok(engine.end_quarantine()?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
