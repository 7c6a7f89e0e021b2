//! `/api/v1/tapes/{vid}/verify`, `repack` and `reclaim`, and drives out of use.

use archive::{
    ArchiveError, CallProgress, CheckState, DamagedPart, TapeCheck, TapeDamage, TapeExport, TapeImport,
    TapeRepack,
};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use base::Vid;
use std::sync::Arc;

use crate::admin::no_such_part;
use crate::engine::Engine;
use crate::foresee::reason_reply;
use crate::json::JsonBody;
use crate::shared::Asked;
use crate::works::Answer;
use entrance::Call;
use entrance::Refusal;

type Door = Asked;
type Caller = Extension<Arc<Call>>;
type Reply<T> = Result<Json<T>, Refusal>;
type PathPart = Result<Path<String>, PathRejection>;

fn vid_of(part: PathPart) -> Result<Vid, Refusal> {
    let Path(vid) = part.map_err(|_| no_such_part())?;
    Vid::new(&vid).map_err(|error| Refusal::bad(error.to_string()))
}

/// Does something with a tape of which nothing more is said.
async fn about_tape(
    shared: &Asked,
    call: &Call,
    vid: PathPart,
    act: impl FnOnce(&dyn Engine, Vid) -> Result<(), ArchiveError> + Send + 'static,
) -> Result<(), Refusal> {
    let vid = vid_of(vid)?;
    call.about(vid.to_string());
    shared.call(move |engine| Ok(act(engine, vid)?)).await
}

/// Does something with a tape for a reason.
async fn with_reason(
    shared: &Asked,
    call: &Call,
    vid: PathPart,
    body: Body,
    act: impl FnOnce(&dyn Engine, Vid, &str) -> Result<(), ArchiveError> + Send + 'static,
) -> Result<(), Refusal> {
    let vid = vid_of(vid)?;
    let body = JsonBody::read(shared, call, body).await?.parse::<wire::ReasonBody>()?;
    call.about(format!("{vid} {}", body.reason));
    shared.call(move |engine| Ok(act(engine, vid, &body.reason)?)).await
}

pub(crate) async fn verify(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
) -> Result<StatusCode, Refusal> {
    about_tape(&shared, &call, vid, |engine, vid| engine.check_tapes(&[vid])).await?;
    Ok(StatusCode::ACCEPTED)
}

/// All are begun, or none: which one cannot be is told before any drive is taken.
pub(crate) async fn verify_all(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::TapeCheckBody>()?;
    let vids = body.vids.iter().map(|vid| Vid::new(vid).map_err(|error| Refusal::bad(error.to_string())));
    let vids = vids.collect::<Result<Vec<_>, _>>()?;
    call.about(body.vids.join(" "));
    shared.call(move |engine| Ok(engine.check_tapes(&vids)?)).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn stop_check(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
) -> Result<StatusCode, Refusal> {
    about_tape(&shared, &call, vid, |engine, vid| engine.stop_checks(&[vid])).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn check(shared: Door, vid: PathPart) -> Reply<wire::TapeCheckReply> {
    let vid = vid_of(vid)?;
    shared.call(move |engine| Ok(Json(check_reply(vid, engine.tape_check(vid)?)))).await
}

pub(crate) async fn repack(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    with_reason(&shared, &call, vid, body, |engine, vid, reason| engine.repack_tape(vid, reason)).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn repack_progress(shared: Door, vid: PathPart) -> Reply<wire::TapeRepackReply> {
    let vid = vid_of(vid)?;
    shared.call(move |engine| Ok(Json(repack_reply(vid, engine.tape_repack(vid)?)))).await
}

pub(crate) async fn reclaim(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
) -> Result<StatusCode, Refusal> {
    about_tape(&shared, &call, vid, |engine, vid| engine.reclaim_tape(vid)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn export(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
) -> Reply<wire::TapeExportReply> {
    let vid = vid_of(vid)?;
    call.about(vid.to_string());
    shared.call(move |engine| Ok(Json(export_reply(vid, engine.export_tape(vid)?)))).await
}

pub(crate) async fn add(shared: Door, Extension(call): Caller, vid: PathPart) -> Result<StatusCode, Refusal> {
    about_tape(&shared, &call, vid, |engine, vid| engine.add_tape(vid)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn retire(
    shared: Door,
    Extension(call): Caller,
    vid: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    with_reason(&shared, &call, vid, body, |engine, vid, reason| engine.retire_tape(vid, reason)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn import(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Reply<Vec<wire::TapeImportReply>> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::TapeImportBody>()?;
    call.about(body.element.map_or_else(|| "all".to_owned(), |element| element.to_string()));
    let import = move |engine: &dyn Engine| {
        let imports = engine.import_tapes(body.element)?;
        Ok(Json(imports.into_iter().map(import_reply).collect()))
    };
    shared.call(import).await
}

pub(crate) async fn inventory(
    shared: Door,
    Extension(call): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::InventoryBody>()?;
    call.about(if body.scan { "scan" } else { "" }.to_owned());
    // Robots of large libraries look for longer than a client waits for an answer.
    let look = move |engine: &dyn Engine, _: &CallProgress| {
        let changed = engine.refresh_inventory(body.scan)?;
        let cleaning = engine.cleaning()?.cleaners.into_iter().map(cleaner_reply).collect();
        let changed = changed.iter().map(ToString::to_string).collect();
        Answer::json(StatusCode::OK, &wire::InventoryReply { changed, cleaning })
    };
    shared.work("inventory", call, &headers, look).await
}

fn export_reply(vid: Vid, export: TapeExport) -> wire::TapeExportReply {
    let (state, library, element, reason) = match export {
        TapeExport::Done { library, element } => ("done", Some(library), Some(element), None),
        TapeExport::Waiting { reason, .. } => ("waiting", None, None, Some(reason)),
    };
    wire::TapeExportReply { vid: vid.to_string(), state: state.to_owned(), library, element, reason }
}

fn import_reply(import: TapeImport) -> wire::TapeImportReply {
    let (slot, error) = match import.slot {
        Ok(slot) => (Some(slot), None),
        Err(error) => (None, Some(error)),
    };
    let TapeImport { vid, library, element, .. } = import;
    wire::TapeImportReply { vid: vid.to_string(), library, element, slot, error }
}

pub(crate) async fn drive_down(
    shared: Door,
    Extension(call): Caller,
    name: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let Path(name) = name.map_err(|_| no_such_part())?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::ReasonBody>()?;
    call.about(format!("{name} {}", body.reason));
    shared.call(move |engine| Ok(engine.drive_down(&name, &body.reason)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn clean_drive(
    shared: Door,
    Extension(call): Caller,
    name: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let Path(name) = name.map_err(|_| no_such_part())?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::CleanBody>()?;
    let with = body.with.as_deref().map(Vid::new).transpose();
    let with = with.map_err(|error| Refusal::bad(error.to_string()))?;
    call.about(with.map_or_else(|| name.clone(), |vid| format!("{name} {vid}")));
    shared.call(move |engine| Ok(engine.clean_drive(&name, with)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn cleaner_reply(cleaner: archive::CleaningCartridgeInfo) -> wire::CleaningCartridgeReply {
    let archive::CleaningCartridgeInfo { vid, library, drive, slot, uses, uses_max, unfit } = cleaner;
    wire::CleaningCartridgeReply { vid: vid.to_string(), library, drive, slot, uses, uses_max, unfit }
}

fn part_word(part: DamagedPart) -> &'static str {
    match part {
        DamagedPart::Label => "label",
        DamagedPart::Index => "index",
        DamagedPart::Segment => "segment",
        DamagedPart::Base => "base",
        DamagedPart::Memory => "memory",
        DamagedPart::Container => "container",
        DamagedPart::Block => "block",
    }
}

fn damage_reply(damage: TapeDamage) -> wire::TapeDamageReply {
    wire::TapeDamageReply {
        part: part_word(damage.part).to_owned(),
        block: damage.block.0,
        container: damage.container.map(|container| container.0),
        tape_path: damage.tape_path,
        files: damage.files,
        more_files: damage.more_files,
        reason: damage.reason,
    }
}

fn check_reply(vid: Vid, check: Option<TapeCheck>) -> wire::TapeCheckReply {
    let state = match check.as_ref().map(|check| check.state) {
        None => "none",
        Some(CheckState::Waiting) => "waiting",
        Some(CheckState::Running) => "running",
        Some(CheckState::Done) => "done",
        Some(CheckState::Failed) => "failed",
        Some(CheckState::Stopped) => "stopped",
    };
    let (rate, left) = check.as_ref().map_or((0.0, None), |check| (check.rate(), check.left()));
    let counts = check.as_ref().map_or((0, 0, 0), |check| (check.indexes, check.segments, check.torn_blocks));
    let amounts = check.as_ref().map_or((0, 0, 0, 0), |check| {
        (check.containers, check.containers_checked, check.bytes.0, check.bytes_checked.0)
    });
    wire::TapeCheckReply {
        vid: vid.to_string(),
        state: state.to_owned(),
        reason: check.as_ref().map_or_else(String::new, |check| check.reason.clone()),
        asked: check.as_ref().map(|check| check.asked.to_string()),
        began: check.as_ref().and_then(|check| check.began).map(|at| at.to_string()),
        ended: check.as_ref().and_then(|check| check.ended).map(|at| at.to_string()),
        containers: amounts.0,
        containers_checked: amounts.1,
        bytes: amounts.2,
        bytes_checked: amounts.3,
        rate,
        left: left.map(|left| left.as_secs()),
        indexes: counts.0,
        segments: counts.1,
        torn_blocks: counts.2,
        damage_count: check.as_ref().map_or(0, |check| check.damage_count),
        damage: check.map_or_else(Vec::new, |check| check.damage.into_iter().map(damage_reply).collect()),
    }
}

fn repack_reply(vid: Vid, repack: Option<TapeRepack>) -> wire::TapeRepackReply {
    let state = match &repack {
        None => "none",
        Some(repack) if repack.done => "done",
        Some(_) => "running",
    };
    let repack = repack.unwrap_or_default();
    wire::TapeRepackReply {
        vid: vid.to_string(),
        state: state.to_owned(),
        moved: repack.moved,
        bytes: repack.bytes.0,
        dropped: repack.dropped,
        stuck: repack.stuck,
        under_way: repack.under_way,
        left: repack.left,
        waiting: repack.waits.as_ref().map(ToString::to_string),
        cause: repack.waits.as_ref().map(|wait| reason_reply(&wait.reason)),
    }
}
