//! Curves over time: throughput, queue, pool, hits, completion.

use super::chart::{Frame, HALF, Line, THIRD, WHOLE, figure, legend};
use super::scale::Axis;
use super::text::{shorten, time, whole, with_unit};
use crate::outcome::{Campaign, Outcome};
use crate::stats::{completion, is_completed};

/// Most steps of a curve; more bins are joined.
const STEPS_MAX: usize = 240;
/// Columns with tooltips of a chart.
const TIPS_MAX: usize = 80;

/// How bins are joined.
#[derive(Clone, Copy, PartialEq)]
pub enum Join {
    /// The sum, divided by the seconds: a rate.
    Rate,
    /// The mean.
    Mean,
    /// The largest.
    Most,
}

/// Values over time as (begin, value), in at most so many steps.
pub fn steps(outcome: &Outcome, values: &[f64], join: Join, most: usize) -> Vec<(f64, f64)> {
    let each = values.len().div_ceil(most.max(1)).max(1);
    let step = outcome.series.step;
    let joined = |(index, chunk): (usize, &[f64])| {
        let begin = (index * each) as f64 * step;
        let width = (chunk.len() as f64 * step).min(outcome.end - begin);
        let sum: f64 = chunk.iter().sum();
        let value = match join {
            Join::Rate if width > 0.0 => sum / width,
            Join::Rate => 0.0,
            Join::Mean => sum / chunk.len() as f64,
            Join::Most => chunk.iter().copied().fold(0.0, f64::max),
        };
        (begin, value)
    };
    values.chunks(each).enumerate().map(joined).collect()
}

/// The colour of a variant.
pub fn colour(variant: usize) -> usize {
    variant % 8
}

/// Entries of a legend for all variants.
pub fn variants_legend(shown: &[&Outcome]) -> String {
    if shown.len() < 2 {
        return String::new();
    }
    let entry =
        |(at, outcome): (usize, &&Outcome)| (format!("b-v{}", colour(at)), shorten(&outcome.variant, 60));
    legend(&shown.iter().enumerate().map(entry).collect::<Vec<_>>())
}

fn longest(shown: &[&Outcome]) -> f64 {
    shown.iter().map(|outcome| outcome.end).fold(0.0, f64::max)
}

fn floats(values: &[u64]) -> Vec<f64> {
    values.iter().map(|value| *value as f64).collect()
}

/// Charts that stand side by side, one for each variant: their width, ticks on their time axis, and the
/// class of
/// the grid that holds them.
pub fn side_by_side(variants: usize) -> (f64, usize, &'static str) {
    match variants {
        1 => (WHOLE, 12, "grid one"),
        2 | 4 => (HALF, 7, "grid"),
        _ => (THIRD, 5, "grid three"),
    }
}

/// Throughput of each variant side by side, all with the same axes: two figures, tape and clients.
pub fn throughput(shown: &[&Outcome], is_tape: bool) -> String {
    type Pick = fn(&Outcome) -> &Vec<u64>;
    let kinds: [(&str, &str, Pick); 2] = if is_tape {
        [
            ("read", "read from tape", |o| &o.series.tape_read),
            ("write", "written to tape", |o| &o.series.tape_written),
        ]
    } else {
        [
            ("client-read", "read by clients", |o| &o.series.client_read),
            ("client-write", "written by clients", |o| &o.series.client_written),
        ]
    };
    let kinds: Vec<_> = kinds
        .into_iter()
        .filter(|(.., pick)| shown.iter().any(|outcome| pick(outcome).iter().any(|bytes| *bytes > 0)))
        .collect();
    if kinds.is_empty() {
        return String::new();
    }
    let (width, count, grid) = side_by_side(shown.len());
    let most_steps = if width == WHOLE { STEPS_MAX } else { STEPS_MAX / 2 };
    let rates = |outcome: &Outcome, pick: Pick| -> Vec<(f64, f64)> {
        let bytes: Vec<f64> = pick(outcome).iter().map(|bytes| *bytes as f64 / 1e6).collect();
        steps(outcome, &bytes, Join::Rate, most_steps)
    };
    let curves: Vec<Vec<Vec<(f64, f64)>>> =
        shown.iter().map(|outcome| kinds.iter().map(|(.., pick)| rates(outcome, *pick)).collect()).collect();
    let most = curves.iter().flatten().flatten().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let mut html = String::new();
    for (outcome, curves) in shown.iter().zip(&curves) {
        let frame =
            Frame::new(width, 220.0, Axis::time(0.0, longest(shown), count), Axis::value(most, "MB/s", 4));
        let mut inside = String::new();
        if outcome.warm_up > 0.0 {
            inside.push_str(&frame.shade(0.0, outcome.warm_up));
        }
        for ((class, name, _), points) in kinds.iter().zip(curves) {
            inside.push_str(&frame.area(&format!("b-{class}"), points, outcome.end));
            let line =
                Line { stroke: format!("s-{class}"), title: (*name).to_owned(), points: points.clone() };
            inside.push_str(&frame.steps(&line, outcome.end));
        }
        // With one curve its mean can be shown without hiding another.
        let mut note = warm_up(outcome);
        if let [(_, _, pick)] = kinds.as_slice() {
            let mean = mean_rate(outcome, pick(outcome));
            inside.push_str(&frame.level(mean, outcome.end));
            let comma = if note.is_empty() { "" } else { ", " };
            note = format!("mean {}{comma}{note}", with_unit(mean, "MB/s"));
        }
        let named: Vec<(&str, &Vec<(f64, f64)>)> =
            kinds.iter().map(|(_, name, _)| *name).zip(curves).collect();
        inside.push_str(&tips(&frame, outcome.end, &named, "MB/s"));
        html.push_str(&figure(&outcome.variant, &note, &frame.svg(&outcome.variant, &inside)));
    }
    let entries: Vec<(String, String)> =
        kinds.iter().map(|(class, name, _)| (format!("b-{class}"), (*name).to_owned())).collect();
    format!("{}<div class=\"{grid}\">{html}</div>", legend(&entries))
}

/// MB/s after the warm-up.
fn mean_rate(outcome: &Outcome, bytes: &[u64]) -> f64 {
    let skipped = (outcome.warm_up / outcome.series.step.max(f64::MIN_POSITIVE)).ceil() as usize;
    let skipped = if skipped < bytes.len() { skipped } else { 0 };
    let seconds = outcome.end - skipped as f64 * outcome.series.step;
    let sum: f64 = bytes[skipped..].iter().map(|bytes| *bytes as f64).sum();
    if seconds > 0.0 { sum / seconds / 1e6 } else { 0.0 }
}

fn warm_up(outcome: &Outcome) -> String {
    if outcome.warm_up > 0.0 {
        format!("means leave out the first {}", time(outcome.warm_up))
    } else {
        String::new()
    }
}

/// Tooltips for curves in steps that share their times.
fn tips(frame: &Frame, end: f64, curves: &[(&str, &Vec<(f64, f64)>)], unit: &str) -> String {
    let Some((_, first)) = curves.iter().max_by_key(|(_, points)| points.len()) else {
        return String::new();
    };
    let each = first.len().div_ceil(TIPS_MAX).max(1);
    let mut html = String::new();
    for index in (0..first.len()).step_by(each) {
        let from = first[index].0;
        let to = first.get(index + each).map_or(end, |(next, _)| *next);
        let mut text = format!("at {}", time(from));
        for (name, points) in curves {
            if let Some((_, value)) = points.get(index).filter(|(_, value)| value.is_finite()) {
                text.push_str(&format!("\n{name}: {}", with_unit(*value, unit)));
            }
        }
        html.push_str(&frame.tip(from, to, &text));
    }
    html
}

/// One chart with a curve for each variant.
fn overlaid(
    shown: &[&Outcome],
    heading: &str,
    unit: &str,
    curve: &dyn Fn(&Outcome) -> Vec<(f64, f64)>,
) -> String {
    let curves: Vec<Vec<(f64, f64)>> = shown.iter().map(|outcome| curve(outcome)).collect();
    let values = || curves.iter().flatten().map(|(_, value)| *value).filter(|value| value.is_finite());
    let most = values().fold(0.0, f64::max);
    let y = if unit == "%" { Axis::percent() } else { Axis::value(most, unit, 4) };
    let frame = Frame::new(HALF, 230.0, Axis::time(0.0, longest(shown), 7), y);
    let mut inside = String::new();
    for (at, (outcome, points)) in shown.iter().zip(&curves).enumerate() {
        let line = Line {
            stroke: format!("s-v{}", colour(at)),
            title: outcome.variant.clone(),
            points: points.clone(),
        };
        inside.push_str(&frame.steps(&line, outcome.end));
    }
    let named: Vec<(&str, &Vec<(f64, f64)>)> =
        shown.iter().map(|outcome| outcome.variant.as_str()).zip(&curves).collect();
    // Times of different bins are not the same: tooltips only where they are.
    if shown.windows(2).all(|pair| pair[0].series.step == pair[1].series.step) {
        let all_as_long = curves
            .windows(2)
            .all(|pair| pair[0].len().div_ceil(STEPS_MAX) == pair[1].len().div_ceil(STEPS_MAX));
        if all_as_long {
            inside.push_str(&tips(&frame, longest(shown), &named, unit));
        }
    }
    figure(heading, "", &frame.svg(heading, &inside))
}

/// Length of the queue and age of its oldest file; what waits for tape.
pub fn queue(shown: &[&Outcome]) -> String {
    let mut html = String::new();
    if shown
        .iter()
        .any(|outcome| outcome.queue_max > 0 || outcome.series.queue.iter().any(|files| *files > 0))
    {
        html += &overlaid(shown, "Files waiting for a recall", "files", &|outcome| {
            steps(outcome, &floats(&outcome.series.queue), Join::Most, STEPS_MAX)
        });
        html += &overlaid(shown, "How long the oldest of them has waited", "s", &|outcome| {
            steps(outcome, &outcome.series.queue_age, Join::Most, STEPS_MAX)
        });
    }
    if shown.iter().any(|outcome| outcome.series.backlog.iter().any(|bytes| *bytes > 0)) {
        html += &overlaid(shown, "Waiting to be written to tape", "bytes", &|outcome| {
            steps(outcome, &floats(&outcome.series.backlog), Join::Most, STEPS_MAX)
        });
    }
    html
}

/// What the pool holds, and how many of the wanted files it had.
pub fn pool(shown: &[&Outcome]) -> String {
    let mut html = String::new();
    if shown.iter().any(|outcome| outcome.series.pool_used.iter().any(|bytes| *bytes > 0)) {
        html += &overlaid(shown, "In the pool", "bytes", &|outcome| {
            steps(outcome, &floats(&outcome.series.pool_used), Join::Mean, STEPS_MAX)
        });
    }
    // Without a single hit there is nothing to see over time: the table says 0.
    if shown.iter().any(|outcome| outcome.totals.hits > 0) {
        html += &overlaid(shown, "Wanted files that were in the pool", "%", &hit_rate);
    }
    html
}

/// The share of hits in steps; a gap where nothing was wanted.
fn hit_rate(outcome: &Outcome) -> Vec<(f64, f64)> {
    const STEPS: usize = 60;
    let wanted = steps(outcome, &floats(&outcome.series.wanted), Join::Mean, STEPS);
    let hits = steps(outcome, &floats(&outcome.series.hits), Join::Mean, STEPS);
    let share = |((begin, wanted), (_, hits)): (&(f64, f64), &(f64, f64))| {
        (*begin, if *wanted > 0.0 { 100.0 * hits / wanted } else { f64::NAN })
    };
    wanted.iter().zip(&hits).map(share).collect()
}

/// Campaigns whose curves are shown at most.
const CAMPAIGNS_MAX: usize = 8;

/// The completion of each campaign: a chart each, all variants in it.
pub fn campaigns(shown: &[&Outcome]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for campaign in shown.iter().flat_map(|outcome| &outcome.campaigns) {
        if campaign.ends && !campaign.progress.is_empty() && !names.contains(&campaign.name.as_str()) {
            names.push(&campaign.name);
        }
    }
    if names.is_empty() {
        return String::new();
    }
    let left_out = names.len().saturating_sub(CAMPAIGNS_MAX);
    let width = if names.len() == 1 { WHOLE } else { HALF };
    let mut html: String =
        names.iter().take(CAMPAIGNS_MAX).map(|name| campaign(shown, name, width)).collect();
    if width == HALF {
        html = format!("<div class=\"grid\">{html}</div>");
    }
    if left_out > 0 {
        html += &format!("<p class=\"note\">{left_out} more are in the table below only.</p>");
    }
    html
}

fn campaign(shown: &[&Outcome], name: &str, width: f64) -> String {
    let found: Vec<(usize, &Campaign)> = shown
        .iter()
        .enumerate()
        .filter_map(|(at, outcome)| {
            Some((at, outcome.campaigns.iter().find(|campaign| campaign.name == name)?))
        })
        .filter(|(_, campaign)| campaign.progress.len() == 101)
        .collect();
    let longest = found.iter().filter_map(|(_, campaign)| completion(campaign)).map(|(whole, _)| whole);
    let frame = Frame::new(
        width,
        260.0,
        Axis::time(0.0, longest.fold(0.0, f64::max), (width / 90.0) as usize),
        Axis::percent(),
    );
    let mut inside = format!(
        "<path class=\"mark\" d=\"M{:.1} {y:.1}H{:.1}\"/>\
         <text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\">95 %</text>",
        frame.left,
        frame.width - frame.right,
        frame.left + 5.0,
        frame.y_at(95.0) + 14.0,
        y = frame.y_at(95.0)
    );
    let mut entries = Vec::new();
    for (at, campaign) in found {
        let stroke = format!("s-v{}", colour(at));
        let of_all = 100.0 * campaign.served as f64 / campaign.files.max(1) as f64;
        let point = |hundredth: usize| {
            (campaign.progress[hundredth] - campaign.begin, hundredth as f64 / 100.0 * of_all)
        };
        let (all, tail) = completion(campaign).unwrap_or_default();
        let how_long = if is_completed(campaign) {
            format!("{}, last 5 %: {}", time(all), time(tail))
        } else {
            format!(
                "not completed, {} of {} files",
                whole(campaign.served as f64),
                whole(campaign.files as f64)
            )
        };
        let says = format!("{}: {how_long}", shown[at].variant);
        let begin = [(0.0, 0.0)].into_iter().chain((0..=100).map(point)).collect();
        let line = Line { stroke: stroke.clone(), title: says, points: begin };
        inside += &frame.line(&line);
        let line = Line { stroke: format!("{stroke} tail"), points: (95..=100).map(point).collect(), ..line };
        inside += &frame.line(&line);
        inside += &format!(
            "<circle class=\"b-v{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
            colour(at),
            frame.x_at(point(100).0),
            frame.y_at(point(100).1)
        );
        let name =
            if shown.len() > 1 { format!("{}: ", shorten(&shown[at].variant, 34)) } else { String::new() };
        entries.push((format!("b-v{}", colour(at)), format!("{name}{how_long}")));
    }
    let files = shown.iter().flat_map(|outcome| &outcome.campaigns).find(|campaign| campaign.name == name);
    let note = files.map(|campaign| format!("{} files", whole(campaign.files as f64))).unwrap_or_default();
    figure(name, &note, &format!("{}{}", legend(&entries), frame.svg(name, &inside)))
}
