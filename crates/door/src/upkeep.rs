//! `/api/v1`: verifying, scrubbing, and the pool's drives.

use std::path::Path as FilePath;
use std::sync::Arc;

use archive::{
    AddedWhat, ArchiveError, BurnInId, CallProgress, DriveLocation, NewDrive, PoolHealth, ReplacedDrive,
    ScrubInfo, VERIFY_BYTES_MAX, VerifyDone,
};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use base::PercentPoints;

use crate::engine::Engine;
use crate::json::JsonBody;
use crate::parameters::Parameters;
use crate::shared::Asked;
use crate::works::Answer;
use entrance::Call;
use entrance::Refusal;
use entrance::headers::precise;

/// How far apart drives may be at the end of a rebalance if nothing is said.
const REBALANCE_TO: u8 = 5;

type Door = Asked;
type Caller = Extension<Arc<Call>>;
type Reply<T> = Result<Json<T>, Refusal>;
type PathPart = Result<Path<String>, PathRejection>;

pub(crate) async fn pool_health(shared: Door) -> Reply<wire::PoolHealthReply> {
    shared.call(|engine| Ok(Json(health_reply(&engine.pool_health()?)))).await
}

pub(crate) async fn scrub(shared: Door) -> Reply<wire::ScrubReply> {
    let read = |engine: &dyn Engine| {
        engine.may_look()?;
        Ok(Json(scrub_reply(&engine.scrub_info())))
    };
    shared.call(read).await
}

pub(crate) async fn scrub_now(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    JsonBody::read(&shared, &call, body).await?;
    let begin = |engine: &dyn Engine| {
        engine.may_administrate()?;
        engine.scrub_now();
        Ok(())
    };
    shared.call(begin).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn verify(shared: Door, RawQuery(query): RawQuery) -> Reply<wire::VerifyReply> {
    let parameters = Parameters::read(query.as_deref(), &["path", "offset", "length"])?;
    let path = parameters.needed_path("path")?;
    let offset = parameters.number("offset")?.unwrap_or(0);
    let length = parameters.number("length")?.unwrap_or(VERIFY_BYTES_MAX);
    shared.call(move |engine| Ok(Json(verify_reply(&engine.verify(&path, offset, length)?)))).await
}

pub(crate) async fn verify_catalogue(
    shared: Door,
    Extension(call): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    JsonBody::read(&shared, &call, body).await?;
    call.about("the catalogue".to_owned());
    let check = |engine: &dyn Engine, _: &CallProgress| {
        let findings = engine.verify_catalogue()?.into_iter().map(|found| found.what).collect();
        Answer::json(StatusCode::OK, &wire::VerifyCatalogueReply { findings })
    };
    shared.work("verify", call, &headers, check).await
}

pub(crate) async fn rebuild(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::RebuildBody>()?;
    call.about(body.drive.map_or_else(String::new, |drive| format!("drive {drive}")));
    shared.call(move |engine| Ok(engine.pool_rebuild(body.drive, body.accept_loss)?)).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn rebalance(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::RebalanceBody>()?;
    let to = PercentPoints(body.to.unwrap_or(REBALANCE_TO));
    if to.0 > 100 {
        return Err(Refusal::bad(format!("drives cannot be {to} apart: give 0 to 100")));
    }
    call.about(format!("until {to}"));
    shared.call(move |engine| Ok(engine.pool_rebalance(to)?)).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn rebalance_end(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<Json<wire::RebalanceEndReply>, Refusal> {
    JsonBody::read(&shared, &call, body).await?;
    let was_on = shared.call(|engine| Ok(engine.pool_rebalance_end()?)).await?;
    Ok(Json(wire::RebalanceEndReply { was_on }))
}

pub(crate) async fn recode(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<(StatusCode, Json<wire::RecodeBegunReply>), Refusal> {
    JsonBody::read(&shared, &call, body).await?;
    let to = shared.call(|engine| Ok(engine.pool_recode()?)).await?;
    Ok((StatusCode::ACCEPTED, Json(wire::RecodeBegunReply { to: to.to_string() })))
}

pub(crate) async fn recode_end(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Result<Json<wire::RecodeEndReply>, Refusal> {
    JsonBody::read(&shared, &call, body).await?;
    let was_on = shared.call(|engine| Ok(engine.pool_recode_end()?)).await?;
    Ok(Json(wire::RecodeEndReply { was_on }))
}

pub(crate) async fn drive_lost(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let id = drive_id(id)?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::DriveLostBody>()?;
    call.about(format!("drive {id}"));
    shared.call(move |engine| Ok(engine.pool_drive_lost(id, body.accept_loss)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A change of a drive that needs no more than its number.
async fn drive_changed(
    shared: Door,
    call: Arc<Call>,
    id: PathPart,
    body: Body,
    change: fn(&dyn Engine, u16) -> Result<(), ArchiveError>,
) -> Result<StatusCode, Refusal> {
    let id = drive_id(id)?;
    JsonBody::read(&shared, &call, body).await?;
    call.about(format!("drive {id}"));
    shared.call(move |engine| Ok(change(engine, id)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn drive_drain(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    drive_changed(shared, call, id, body, |engine, id| engine.pool_drive_drain(id)).await
}

pub(crate) async fn drive_keep(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    drive_changed(shared, call, id, body, |engine, id| engine.pool_drive_keep(id)).await
}

pub(crate) async fn drive_remove(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    drive_changed(shared, call, id, body, |engine, id| engine.pool_drive_remove(id)).await
}

pub(crate) async fn drive_add(
    shared: Door,
    Extension(call): Caller,
    body: Body,
) -> Reply<wire::AddDriveReply> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::AddDriveBody>()?;
    call.about(format!("drive at {}", body.path));
    let wanted = new_drive(body)?;
    let add = move |engine: &dyn Engine| {
        let added = engine.pool_drive_add(&wanted)?;
        let what = match added.what {
            AddedWhat::New => "new",
            AddedWhat::Returned => "returned",
            AddedWhat::InUse => "in-use",
            AddedWhat::Possible => "possible",
        };
        Ok(Json(wire::AddDriveReply { id: added.id, what: what.to_owned() }))
    };
    shared.call(add).await
}

/// The directory of the server's process means nothing to who asks.
fn new_drive(body: wire::AddDriveBody) -> Result<NewDrive, Refusal> {
    let wire::AddDriveBody { path, host, enclosure, group, new, burn_in, accept_burn_in, check } = body;
    let at = DriveLocation::parse(FilePath::new(&path), FilePath::new(""));
    let at = at.map_err(|error| Refusal::bad(error.to_string()))?;
    if at.is_directory() && !at.directory().is_absolute() {
        return Err(Refusal::bad(format!("'{path}' is no absolute path on the server's machine")));
    }
    let burn_in = burn_in.map(|id| {
        BurnInId::parse(&id)
            .ok_or_else(|| Refusal::bad(format!("'{id}' names no burn-in: that has 16 digits")))
    });
    let burn_in = burn_in.transpose()?;
    Ok(NewDrive { at, host, enclosure, group, make: new, burn_in, accept_burn_in, check })
}

pub(crate) async fn drive_replace(
    shared: Door,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Reply<wire::ReplaceReply> {
    let id = drive_id(id)?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::ReplaceBody>()?;
    call.about(format!("drive {id}"));
    let replace = move |engine: &dyn Engine| {
        let what = match engine.pool_drive_replace(id, body.new, body.accept_loss)? {
            ReplacedDrive::New => "new",
            ReplacedDrive::Returned => "returned",
        };
        Ok(Json(wire::ReplaceReply { what: what.to_owned() }))
    };
    shared.call(replace).await
}

pub(crate) fn drive_id(part: PathPart) -> Result<u16, Refusal> {
    let text = part.map(|Path(text)| text).unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Refusal::bad(format!("'{text}' is not the number of a drive of the pool")))
}

fn health_reply(health: &PoolHealth) -> wire::PoolHealthReply {
    wire::PoolHealthReply {
        stripes: health.stripes,
        degraded: health.degraded,
        critical: health.critical,
        unreadable: health.unreadable,
        lost: health.lost,
        silent_drives: health.silent_drives,
        repairs_waiting: health.repairs_waiting,
        repairs_failed: health.repairs_failed,
        late_cells: health.late_cells,
    }
}

fn scrub_reply(info: &ScrubInfo) -> wire::ScrubReply {
    wire::ScrubReply {
        phase: info.phase.clone(),
        running: info.running,
        hurried: info.hurried,
        passes: info.passes,
        began: info.began.map(precise),
        ended: info.ended.map(precise),
        blobs: info.blobs,
        blobs_total: info.blobs_total,
        values: info.values,
        bytes: info.bytes.0,
        bytes_total: info.bytes_total.0,
        rate: info.rate,
        remaining: info.remaining.map(|span| span.as_secs()),
        rebuild: info.rebuild.as_ref().map(crate::convert::rebuild_reply),
        found: info.found,
        repaired: info.repaired,
        moved: info.moved,
        failed: info.failed,
        nearline: info.nearline,
        lost: info.lost,
        found_again: info.found_again,
        waiting: info.waiting,
        waiting_failed: info.waiting_failed,
        findings: info.findings.clone(),
        files: info.files.clone(),
    }
}

fn verify_reply(done: &VerifyDone) -> wire::VerifyReply {
    wire::VerifyReply {
        file_id: done.file.0,
        size: done.size.0,
        offset: done.offset.0,
        length: done.length.0,
        adler32: done.sums.adler32.to_string(),
        crc32c: done.sums.crc32c.to_string(),
        file_adler32: done.expected.adler32.to_string(),
        file_crc32c: done.expected.crc32c.to_string(),
    }
}
