//! `/api/v1/report/health` and `/api/v1/drives/NAME`: how well tape drives and tapes are.

use archive::{DriveFitRecord, HealthReport, Judgement, MountKind, MountSample, PairHealth, Symptom};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use base::Vid;

use crate::admin::no_such_part;
use crate::convert::drive_reply;
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::report::order_reply;
use crate::shared::Asked;
use entrance::Refusal;

pub(crate) async fn report(
    shared: Asked,
    RawQuery(query): RawQuery,
) -> Result<Json<wire::HealthReply>, Refusal> {
    let parameters = Parameters::read(query.as_deref(), &["vid"])?;
    let asked = parameters.text("vid")?.map(Vid::new).transpose();
    let asked = asked.map_err(|error| Refusal::bad(error.to_string()))?;
    let read = move |engine: &dyn Engine| {
        if let Some(vid) = asked {
            engine.tape(vid)?;
        }
        let health = engine.machine_health()?;
        let pairs: Vec<&PairHealth> =
            health.pairs.iter().filter(|pair| asked.is_none_or(|vid| vid == pair.vid)).collect();
        let drives = health.drives.iter().filter(|(name, _)| pairs.iter().any(|pair| pair.drive == **name));
        let drives = drives.map(|(name, judgement)| of_drive(name, judgement, &health));
        let tapes = health.tapes.iter().filter(|(vid, _)| asked.is_none_or(|asked| asked == **vid));
        let tapes = tapes.map(|(vid, judgement)| {
            row(vid.to_string(), judgement, health.pairs.iter().filter(|pair| pair.vid == *vid))
        });
        Ok(Json(wire::HealthReply {
            drives: drives.collect(),
            tapes: tapes.collect(),
            pairs: pairs.iter().map(|pair| pair_reply(pair)).collect(),
        }))
    };
    shared.call_long(read).await
}

fn product_reply(told: [&String; 4]) -> wire::DriveProductReply {
    let [vendor, product, firmware, serial] = told.map(Clone::clone);
    wire::DriveProductReply { vendor, product, firmware, serial }
}

pub(crate) async fn drive(
    shared: Asked,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::DriveContentReply>, Refusal> {
    let Path(name) = name.map_err(|_| no_such_part())?;
    let read = move |engine: &dyn Engine| {
        let mounts = engine.drive_mounts(&name)?;
        let fits = engine.drive_fits(&name)?;
        let health = engine.machine_health()?;
        let cleaning = engine.cleaning()?.drives.into_iter().find(|(drive, _)| *drive == name);
        let cleaning = cleaning.map(|(_, cleaning)| cleaning).unwrap_or_default();
        let drives = engine.tape_drives();
        let drive = drives.iter().find(|drive| drive.name == name).ok_or_else(no_such_part)?;
        // What it says now; before it was reached what it said at its last mount.
        let at_mount = mounts.iter().find_map(|mount| mount.product.as_ref());
        let at_mount = at_mount.map(|it| [&it.vendor, &it.product, &it.firmware, &it.serial]);
        let now = drive.place.product.as_ref();
        let now = now.map(|it| [&it.vendor, &it.product, &it.firmware, &it.serial]);
        let product = now.or(at_mount).map(product_reply);
        Ok(Json(wire::DriveContentReply {
            drive: drive_reply(drive),
            product,
            element: drive.place.element,
            abilities: drive.place.abilities.iter().map(|can| (*can).to_owned()).collect(),
            health: health.drives.get(&name).map(|judgement| of_drive(&name, judgement, &health)),
            fits: fits.iter().map(fit_reply).collect(),
            cleaning: health.cleaning.get(&name).map(|it| alert_reply(it.0, it.meaning())),
            asks_cleaning: cleaning.asks.map(|it| if it.urgent { "now" } else { "idle" }.to_owned()),
            cleaned: cleaning.cleaned.map(|at| at.to_string()),
            tapes: health.pairs.iter().filter(|pair| pair.drive == name).map(pair_reply).collect(),
            mounts: mounts.iter().map(mount_reply).collect(),
        }))
    };
    shared.call_long(read).await
}

fn of_drive(name: &str, judgement: &Judgement, health: &HealthReport) -> wire::HealthRowReply {
    row(name.to_owned(), judgement, health.pairs.iter().filter(|pair| pair.drive == name))
}

fn row<'a>(
    name: String,
    judgement: &Judgement,
    pairs: impl Iterator<Item = &'a PairHealth>,
) -> wire::HealthRowReply {
    let mut row = wire::HealthRowReply {
        name,
        verdict: judgement.verdict.word().to_owned(),
        reason: judgement.reason.to_string(),
        mounts: 0,
        partners: 0,
        bytes: 0,
        corrected: None,
        uncorrected: None,
    };
    let add = |sum: &mut Option<u64>, more: Option<u64>| {
        *sum = [*sum, more].into_iter().flatten().reduce(u64::saturating_add);
    };
    for pair in pairs {
        row.partners += 1;
        row.mounts += pair.mounts;
        row.bytes = row.bytes.saturating_add(pair.bytes.0);
        add(&mut row.corrected, pair.corrected);
        add(&mut row.uncorrected, pair.uncorrected);
    }
    row
}

fn pair_reply(pair: &PairHealth) -> wire::HealthPairReply {
    wire::HealthPairReply {
        drive: pair.drive.clone(),
        vid: pair.vid.to_string(),
        mounts: pair.mounts,
        last: pair.last.to_string(),
        bytes: pair.bytes.0,
        corrected: pair.corrected,
        uncorrected: pair.uncorrected,
        corrected_per_gb: pair.corrected_per_gb(),
        write_rate: pair.write_rate,
        measured: pair.is_measured,
        symptoms: pair.symptoms.iter().map(symptom_reply).collect(),
    }
}

fn symptom_reply(symptom: &Symptom) -> wire::SymptomReply {
    let (kind, value, usual) = match *symptom {
        Symptom::Uncorrected(count) => ("uncorrected", count as f64, None),
        Symptom::Alert(alert) => ("alert", f64::from(alert.0), None),
        Symptom::Corrected { per_gb, usual } => ("corrected", per_gb, Some(usual)),
        Symptom::Slow { rate, usual } => ("slow", rate, Some(usual)),
    };
    wire::SymptomReply { kind: kind.to_owned(), value, usual, text: symptom.to_string() }
}

fn alert_reply(flag: u8, meaning: &str) -> wire::AlertReply {
    wire::AlertReply { flag, meaning: meaning.to_owned() }
}

fn fit_reply(record: &DriveFitRecord) -> wire::DriveFitReply {
    let fit = record.fit();
    wire::DriveFitReply {
        model: record.drive.clone(),
        medium: record.medium.clone(),
        fixed: fit.locate.fixed,
        way: fit.locate.way,
        samples: record.samples,
        error: fit.error,
        at: record.at.to_string(),
    }
}

fn mount_reply(mount: &MountSample) -> wire::DriveMountReply {
    let purpose = match mount.kind {
        MountKind::Migrate => "migrate",
        MountKind::Recall => "recall",
        MountKind::Maintain => "maintain",
        MountKind::Recover => "recover",
    };
    let alerts = mount.alerts.iter();
    let alerts = alerts.map(|it| alert_reply(it.0, it.meaning()));
    wire::DriveMountReply {
        vid: mount.vid.to_string(),
        ended: mount.ended.to_string(),
        purpose: purpose.to_owned(),
        bytes: mount.bytes.0,
        write_rate: mount.write_rate,
        corrected: mount.corrected(),
        uncorrected: mount.uncorrected(),
        celsius: mount.counted.and_then(|counted| counted.celsius),
        order: mount.order.as_ref().map(order_reply),
        alerts: alerts.collect(),
        failed: mount.failed.clone(),
    }
}
