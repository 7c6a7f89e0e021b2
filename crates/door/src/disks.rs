//! `/api/v1/pool/disks`: for who watches the disks under the drives of the pool.

use std::sync::Arc;

use archive::{
    DiskReason, DiskReport, DiskWatch, DriveDiskInfo, FoundDisk, PredictedFailure, ReplacedDrive, TakeOver,
    Waits, WatchedDrive,
};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};
use catalogue::DriveSlot;

use crate::json::JsonBody;
use crate::shared::Asked;
use crate::upkeep::drive_id;
use entrance::Call;
use entrance::Refusal;
use entrance::headers::precise;

type Caller = Extension<Arc<Call>>;
type PathPart = Result<Path<String>, PathRejection>;

/// Most drives of one report.
const REPORTS_MAX: usize = 65_536;

pub(crate) async fn watch(shared: Asked) -> Result<Json<wire::DiskWatchReply>, Refusal> {
    shared.call(|engine| Ok(Json(watch_reply(&engine.disk_watch()?)))).await
}

pub(crate) async fn found(
    shared: Asked,
    Extension(call): Caller,
    body: Body,
) -> Result<Json<wire::DisksFoundReply>, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::DisksFoundBody>()?;
    if body.drives.len() > REPORTS_MAX {
        return Err(Refusal::bad(format!("a report has at most {REPORTS_MAX} drives")));
    }
    let reports = body.drives.into_iter().map(report).collect::<Result<Vec<_>, _>>()?;
    let drained = shared.call(move |engine| Ok(engine.disks_found(reports)?)).await?;
    Ok(Json(wire::DisksFoundReply { drained }))
}

pub(crate) async fn light(
    shared: Asked,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let id = drive_id(id)?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::DriveLightBody>()?;
    call.about(format!("drive {id}"));
    let slot = body.slot.as_ref().map(slot).transpose()?;
    shared.call(move |engine| Ok(engine.drive_light(id, slot)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn take_over(
    shared: Asked,
    Extension(call): Caller,
    id: PathPart,
    body: Body,
) -> Result<Json<wire::ReplaceReply>, Refusal> {
    let id = drive_id(id)?;
    let body = JsonBody::read(&shared, &call, body).await?.parse::<wire::TakeOverBody>()?;
    call.about(format!("drive {id}"));
    let device = (body.major, body.minor);
    let by = TakeOver { slot: slot(&body.slot)?, disk: body.disk, device };
    let replaced = shared.call(move |engine| Ok(engine.drive_taken_over(id, &by)?)).await?;
    let what = match replaced {
        ReplacedDrive::New => "new",
        ReplacedDrive::Returned => "returned",
    };
    Ok(Json(wire::ReplaceReply { what: what.to_owned() }))
}

fn report(body: wire::DiskReportBody) -> Result<DiskReport, Refusal> {
    let wire::DiskReportBody { drive, found, waits } = body;
    Ok(DiskReport {
        drive,
        found: found.map(found_disk).transpose()?,
        waits: waits.map(|waits| Waits { word: waits.reason, text: waits.text }),
    })
}

fn found_disk(body: wire::FoundDiskBody) -> Result<FoundDisk, Refusal> {
    let wire::FoundDiskBody { disk, slot: at, verdict, reasons } = body;
    if !["good", "unknown", "watch", "replace"].contains(&verdict.as_str()) {
        return Err(Refusal::bad(format!("'{verdict}' is no verdict: good, unknown, watch or replace")));
    }
    let reason = |one: wire::DiskReasonWire| {
        let wire::DiskReasonWire { reason, text, predicts } = one;
        DiskReason { word: reason, text, predicts }
    };
    let slot = at.as_ref().map(slot).transpose()?;
    Ok(FoundDisk { disk, slot, verdict, reasons: reasons.into_iter().map(reason).collect() })
}

fn slot(body: &wire::DriveSlotWire) -> Result<DriveSlot, Refusal> {
    let digits = &body.enclosure;
    let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let enclosure = is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    let enclosure = enclosure
        .ok_or_else(|| Refusal::bad(format!("'{digits}' names no enclosure: that has 16 digits")))?;
    Ok(DriveSlot { enclosure, number: body.number })
}

fn slot_reply(slot: DriveSlot) -> wire::DriveSlotWire {
    wire::DriveSlotWire { enclosure: format!("{:016x}", slot.enclosure), number: slot.number }
}

fn waits_reply(waits: &Waits) -> wire::DiskWaitsWire {
    wire::DiskWaitsWire { reason: waits.word.clone(), text: waits.text.clone() }
}

pub(crate) fn disk_reply(info: &DriveDiskInfo) -> wire::DriveDiskReply {
    let reason = |one: &DiskReason| wire::DiskReasonWire {
        reason: one.word.clone(),
        text: one.text.clone(),
        predicts: one.predicts,
    };
    wire::DriveDiskReply {
        disk: info.known.disk.clone(),
        slot: info.known.slot.map(slot_reply),
        since: precise(info.since),
        seen: info.seen.map(precise),
        verdict: info.verdict.clone(),
        reasons: info.reasons.iter().map(reason).collect(),
        light: info.known.light.map(slot_reply),
        wants_light: info.wants_light,
        drained: info.known.drained.clone(),
        kept: info.known.kept,
        waits: info.waits.as_ref().map(waits_reply),
    }
}

fn watch_reply(watch: &DiskWatch) -> wire::DiskWatchReply {
    let drive = |drive: &WatchedDrive| wire::WatchedDriveReply {
        id: drive.id,
        path: drive.path.clone(),
        up: drive.is_up,
        lost: drive.is_lost,
        disk: drive.disk.as_ref().map(disk_reply),
    };
    let predicted_failure = match watch.policy.predicted_failure {
        PredictedFailure::Tell => "tell",
        PredictedFailure::Drain => "drain",
    };
    wire::DiskWatchReply {
        boot: watch.boot.clone(),
        instance: watch.instance.clone(),
        uid: watch.owner.0,
        gid: watch.owner.1,
        predicted_failure: predicted_failure.to_owned(),
        replace: watch.policy.replace.word().to_owned(),
        replace_burn_in: watch.policy.replace_burn_in.word().to_owned(),
        lights: watch.policy.lights,
        holds: watch.holds.as_ref().map(waits_reply),
        drives: watch.drives.iter().map(drive).collect(),
    }
}
