//! `/api/v1/report/usage`: what users did.

use std::sync::Arc;

use archive::{CallProgress, UsageReport};
use authority::UsageSteps;
use axum::Extension;
use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base::{ByteCount, Duration, Timestamp};
use usage::{
    CacheLife, ClassUsage, Count, Daily, Moved, Movement, Peak, QUANTILES, Residency, Sizes, Spans, Usage,
};

use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::shared::Asked;
use crate::works::{Answer, Steps};
use entrance::Call;
use entrance::Refusal;

/// The window if the client names none.
const SINCE_DEFAULT: Duration = Duration::from_secs(30 * 86_400);

pub(crate) async fn usage(
    shared: Asked,
    Extension(call): Extension<Arc<Call>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let parameters = Parameters::read(query.as_deref(), &["seconds", "class"])?;
    let window = parameters.number("seconds")?.map_or(SINCE_DEFAULT, Duration::from_secs);
    let class = parameters.text("class")?.map(str::to_owned);
    call.about(format!("the last {window:?}"));
    let begin = move |engine: &dyn Engine| Ok(engine.begin_usage(window, class.as_deref())?);
    let next = |reading: &mut Box<dyn UsageSteps>, progress: &CallProgress| {
        let report = reading.step();
        progress.reads(reading.progress());
        report.map(|report| Answer::json(StatusCode::OK, &usage_reply(&report))).transpose()
    };
    shared.report("usage", call, &headers, Steps { begin, next }).await
}

/// An analysis as JSON says it.
#[must_use]
pub fn usage_reply(report: &UsageReport) -> wire::UsageReply {
    let usage = &report.usage;
    let total = class_reply(usage, &usage.all);
    wire::UsageReply {
        since: usage.window.since.to_string(),
        until: usage.window.until.to_string(),
        from: usage.from.map(|from| from.to_string()),
        days: usage.days,
        logged: report.is_logged,
        trouble: report.trouble.clone(),
        lines: usage.lines,
        dropped: usage.dropped,
        pool: number(usage.pool),
        sampled: usage.sampled,
        quantiles: QUANTILES.to_vec(),
        classes: usage.classes.iter().map(|class| class_reply(usage, class)).collect(),
        total: wire::ClassUsageReply { name: "total".to_owned(), ..total },
    }
}

fn class_reply(usage: &Usage, class: &ClassUsage) -> wire::ClassUsageReply {
    let for_hit_rate = |(wanted, takes): &(f64, Option<Residency>)| wire::HitRateReply {
        wanted: *wanted,
        takes: takes.as_ref().map(residency),
    };
    wire::ClassUsageReply {
        name: class.name.clone(),
        copies: class.copies,
        puts: count(class.puts),
        gets: count(class.gets),
        refused: class.refused,
        accesses: count(class.accesses()),
        hits: count(class.hits),
        misses: count(class.misses),
        hit_rate: class.hit_rate(),
        hit_rate_bytes: class.hit_rate_bytes(),
        staged: count(class.staged),
        staged_online: class.staged_online,
        recalled: count(class.recalled),
        evicted: count(class.evicted),
        deleted: class.deleted,
        migrated: count(class.migrated),
        repacked: count(class.repacked),
        files_read: class.files_read,
        sizes_written: class.sizes_written.as_ref().map(sizes),
        sizes_read: class.sizes_read.as_ref().map(sizes),
        wait_seconds: class.waits.as_ref().map(spans),
        reread_seconds: class.rereads.as_ref().map(spans),
        residencies: class.residencies.iter().map(residency).collect(),
        for_hit_rates: class.for_hit_rates.iter().map(for_hit_rate).collect(),
        movement: movement(&class.movement),
        cache: cache(&class.cache),
        workload: workload(usage, class),
    }
}

fn residency(residency: &Residency) -> wire::ResidencyReply {
    wire::ResidencyReply {
        seconds: residency.kept.as_secs_f64(),
        share: residency.within,
        hit_rate: residency.hit_rate,
        space: residency.space.0,
    }
}

fn workload(usage: &Usage, class: &ClassUsage) -> wire::WorkloadReply {
    let workload = usage.workload(class);
    wire::WorkloadReply {
        files_written: workload.files_written,
        bytes_written: workload.bytes_written,
        files_read: workload.files_read,
        bytes_read: workload.bytes_read,
        files_recalled: workload.files_recalled,
        bytes_recalled: workload.bytes_recalled,
        bytes_migrated: workload.bytes_migrated,
        mean_written: number(workload.mean_written),
        mean_read: number(workload.mean_read),
        peak_written: workload.peak_written.0,
        peak_read: workload.peak_read.0,
        peak_recalled: workload.peak_recalled.0,
        space: number(workload.space),
    }
}

fn count(count: Count) -> wire::UsageCountReply {
    wire::UsageCountReply { files: count.files, bytes: count.bytes.0 }
}

fn number(bytes: Option<ByteCount>) -> Option<u64> {
    bytes.map(|bytes| bytes.0)
}

fn sizes(sizes: &Sizes) -> wire::SizesReply {
    let numbers = |sizes: &[ByteCount]| sizes.iter().map(|size| size.0).collect();
    let bucket = |bucket: &usage::SizeBucket| wire::SizeBucketReply {
        from: bucket.from.0,
        files: bucket.count.files,
        bytes: bucket.count.bytes.0,
    };
    wire::SizesReply {
        files: sizes.count.files,
        bytes: sizes.count.bytes.0,
        mean: sizes.mean.0,
        least: sizes.least.0,
        most: sizes.most.0,
        by_count: numbers(&sizes.by_count),
        by_bytes: numbers(&sizes.by_bytes),
        buckets: sizes.buckets.iter().map(bucket).collect(),
    }
}

fn spans(spans: &Spans) -> wire::UsageSpansReply {
    wire::UsageSpansReply {
        count: spans.count,
        mean: spans.mean.as_secs_f64(),
        most: spans.most.as_secs_f64(),
        by_count: spans.quantiles.iter().map(Duration::as_secs_f64).collect(),
    }
}

fn movement(movement: &Movement) -> wire::MovementReply {
    let daily = |daily: Daily| wire::DailyReply {
        mean: daily.mean,
        peak_day: daily.peak_day.0,
        peak_hour: daily.peak_hour.0,
    };
    wire::MovementReply {
        written: daily(movement.written),
        read: daily(movement.read),
        recalled: daily(movement.recalled),
        migrated: daily(movement.migrated),
        peak_day: movement.peak_day.map(peak),
        peak_hour: movement.peak_hour.map(peak),
        internal_factor: movement.internal_factor,
        days: movement.days.iter().map(day).collect(),
    }
}

fn day((begin, moved): &(Timestamp, Moved)) -> wire::DayReply {
    wire::DayReply {
        begin: begin.to_string(),
        written: moved.written.0,
        read: moved.read.0,
        recalled: moved.recalled.0,
        migrated: moved.migrated.0,
        missed: moved.missed.0,
    }
}

fn peak(peak: Peak) -> wire::PeakReply {
    wire::PeakReply { begin: peak.begin.to_string(), bytes: peak.bytes.0 }
}

fn cache(cache: &CacheLife) -> wire::CacheLifeReply {
    wire::CacheLifeReply {
        space: number(cache.space),
        fill: cache.fill,
        fill_peak: cache.fill_peak,
        peak_day: cache.peak_day.map(peak),
        mean_days: cache.mean_days,
        least_days: cache.least_days,
    }
}
