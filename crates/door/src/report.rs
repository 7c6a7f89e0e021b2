//! `/api/v1/report`: how well tapes and drives run.

use archive::{OrderRecord, QueueAge, ReportBy, ReportRow, Spread, TapeReport, WaitingFor};
use axum::Json;
use axum::extract::RawQuery;
use base::Duration;

use crate::parameters::Parameters;
use crate::shared::Asked;
use entrance::Refusal;

/// The window if the client names none.
const SINCE_DEFAULT: Duration = Duration::from_secs(86_400);

pub(crate) async fn tape(
    shared: Asked,
    RawQuery(query): RawQuery,
) -> Result<Json<wire::TapeReportReply>, Refusal> {
    let parameters = Parameters::read(query.as_deref(), &["seconds", "by"])?;
    let window = parameters.number("seconds")?.map_or(SINCE_DEFAULT, Duration::from_secs);
    let by = match parameters.text("by")? {
        None | Some("drive") => ReportBy::Drive,
        Some("tape") => ReportBy::Tape,
        Some("pool") => ReportBy::Pool,
        Some(other) => {
            return Err(Refusal::bad(format!("by={other}: a report is by drive, tape or pool")));
        }
    };
    shared.call_long(move |engine| Ok(Json(report_reply(&engine.tape_report(window, by)?)))).await
}

fn report_reply(report: &TapeReport) -> wire::TapeReportReply {
    let by = match report.by {
        ReportBy::Drive => "drive",
        ReportBy::Tape => "tape",
        ReportBy::Pool => "pool",
    };
    wire::TapeReportReply {
        since: report.since.to_string(),
        until: report.until.to_string(),
        by: by.to_owned(),
        logged: report.is_logged,
        trouble: report.trouble.clone(),
        rows: report.rows.iter().map(row_reply).collect(),
        total: row_reply(&report.total),
        queue_ages: report.ages.iter().map(age_reply).collect(),
    }
}

fn row_reply(row: &ReportRow) -> wire::ReportRowReply {
    let [migrate, recall, maintain, recover] = row.mounts_for;
    let seconds = |span: Duration| span.as_secs_f64();
    wire::ReportRowReply {
        name: row.name.clone(),
        mounts: row.mounts,
        mounted_now: row.mounted_now,
        mounts_for: wire::MountsForReply { migrate, recall, maintain, recover },
        mount_failures: row.mount_failures,
        sessions: row.sessions,
        session_failures: row.session_failures,
        mount_seconds: row.mount_time.map(spread_reply),
        unmount_seconds: row.unmount_time.map(spread_reply),
        wait_seconds: row.wait.map(spread_reply),
        read: row.read.0,
        written: row.written.0,
        files: row.files,
        bytes_per_mount: row.bytes_per_mount().map(|bytes| bytes.0),
        mounts_per_tb: row.mounts_per_terabyte(),
        tape_read: row.tape_read.0,
        tape_written: row.tape_written.0,
        locates: row.locates,
        mounted_seconds: seconds(row.mounted),
        moving_seconds: seconds(row.moving),
        efficiency: row.efficiency(),
        rate: row.rate(),
        of_native: row.of_native,
        locating_seconds: row.locating.map(seconds),
        starved_seconds: row.starved.map(seconds),
        back_hitches: row.back_hitches,
        order: row.order.as_ref().map(order_reply),
    }
}

pub(crate) fn order_reply(order: &OrderRecord) -> wire::ReadOrderReply {
    let OrderRecord { compared, drives, own, drive, failed } = *order;
    let (own_seconds, drive_seconds) = (own.as_secs_f64(), drive.as_secs_f64());
    wire::ReadOrderReply { compared, drives, own_seconds, drive_seconds, failed }
}

fn spread_reply(spread: Spread) -> wire::SpreadReply {
    wire::SpreadReply {
        count: spread.count,
        mean: spread.mean.as_secs_f64(),
        median: spread.median.as_secs_f64(),
        p95: spread.p95.as_secs_f64(),
        max: spread.max.as_secs_f64(),
    }
}

fn age_reply(age: &QueueAge) -> wire::QueueAgeReply {
    let (queue, name) = match &age.waiting {
        WaitingFor::Seal(class) => ("seal", class.clone()),
        WaitingFor::Migrate(pool) => ("migrate", pool.clone()),
        WaitingFor::RecallOfClass(class) => ("recall-class", class.clone()),
        WaitingFor::RecallFromPool(pool) => ("recall-pool", pool.clone()),
        WaitingFor::RecallFromTape(vid) => ("recall-tape", vid.to_string()),
    };
    wire::QueueAgeReply {
        queue: queue.to_owned(),
        name,
        items: age.items,
        bytes: age.bytes.0,
        oldest_seconds: age.oldest.as_secs_f64(),
        median_seconds: age.median.as_secs_f64(),
        partial: age.partial,
    }
}
