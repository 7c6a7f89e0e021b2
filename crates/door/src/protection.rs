//! `/api/v1/backup` and `/api/v1/pool/quarantine`: what protects against the loss of the catalogue.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Extension, Json};
use base::Timestamp;
use wire::{
    BackupReply, ChangeLogReply, QuarantineEndReply, QuarantineLeftReply, QuarantineReply, SnapshotReply,
};

use crate::shared::Asked;
use entrance::Call;
use entrance::Refusal;
use entrance::headers::precise;

type Door = Asked;
type Caller = Extension<Arc<Call>>;

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
    let (found, kept) = shared.call(|engine| Ok((engine.quarantined()?, engine.unknown_kept()?))).await?;
    let restored = found.unwrap_or_default();
    Ok(Json(QuarantineReply {
        on: found.is_some(),
        extents: restored.extents,
        blobs: restored.blobs,
        bytes: restored.bytes.0,
        unknown: kept.extents,
        unknown_blobs: kept.blobs,
        unknown_bytes: kept.bytes.0,
        unknown_until: kept.until.map(precise),
    }))
}

pub(crate) async fn end_quarantine(
    shared: Door,
    Extension(call): Caller,
) -> Result<Json<QuarantineEndReply>, Refusal> {
    call.about("end of quarantine".to_owned());
    let ended = shared.call(|engine| Ok(engine.end_quarantine()?)).await?;
    let left = ended.left.iter().map(|(why, kept)| QuarantineLeftReply {
        why: why.word().to_owned(),
        extents: kept.extents,
        bytes: kept.bytes.0,
    });
    Ok(Json(QuarantineEndReply {
        was_on: ended.was_on,
        removed: ended.removed.extents,
        removed_bytes: ended.removed.bytes.0,
        left: left.collect(),
    }))
}
