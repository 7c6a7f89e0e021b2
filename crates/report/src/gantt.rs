//! What each drive does: spans of a part of the run, and activities over all of it.

use std::fmt::Write;

use super::chart::{Frame, WHOLE, figure, legend};
use super::curve::{Join, side_by_side, steps};
use super::scale::Axis;
use super::text::{escape, shorten, time, whole};
use crate::outcome::{DriveActivity, DriveUse, Outcome};

/// Spans of the busiest drive that are drawn: below it each would be thinner than two pixels.
const SPANS_SHOWN: usize = 400;
/// Spans of a chart that have a tooltip each; with more, each drive has one.
const TIPS_MAX: usize = 3_000;
/// Most drives that are drawn, one row each.
const DRIVES_MAX: usize = 64;
/// Columns into which a drive's time is divided where spans are thinner than that.
const COLUMNS: usize = 1_000;

/// The legend of activities.
pub fn activities_legend() -> String {
    let entry = |activity: DriveActivity| (format!("b-{}", activity.word()), activity.word().to_owned());
    legend(&DriveActivity::ALL.map(entry))
}

/// The part of the run that is drawn: from the first time that any drive does something, for as long as the
/// busiest drive has no more than so many spans, and as all drives' spans were kept.
fn window(shown: &[&Outcome]) -> (f64, f64) {
    let drives = || shown.iter().flat_map(|outcome| &outcome.drives);
    let first = |drive: &DriveUse| {
        drive.spans.iter().find(|(.., activity)| *activity != DriveActivity::Idle).map(|(from, ..)| *from)
    };
    let from = drives().filter_map(first).fold(f64::INFINITY, f64::min);
    let from = if from.is_finite() { from } else { 0.0 };
    let mut to = shown.iter().map(|outcome| outcome.end).fold(0.0, f64::max);
    for drive in drives() {
        let before = drive.spans.partition_point(|(begin, ..)| *begin < from);
        if let Some((begin, ..)) = drive.spans.get(before + SPANS_SHOWN) {
            to = to.min(*begin);
        } else if drive.spans.len() >= DriveUse::SPANS_MAX {
            to = to.min(drive.spans.last().map_or(to, |(_, end, _)| *end));
        }
    }
    (from, if to > from { to } else { from + 1.0 })
}

/// A row for each drive of each variant.
pub fn gantt(shown: &[&Outcome]) -> String {
    let (from, to) = window(shown);
    let is_all = shown.iter().all(|outcome| from <= 0.0 && to >= outcome.end);
    let part = if is_all {
        "the whole run".to_owned()
    } else if from <= 0.0 {
        format!("the first {} of the run", time(to))
    } else {
        format!("from {} to {} of the run", time(from), time(to))
    };
    let mut html = activities_legend();
    for outcome in shown.iter().filter(|outcome| !outcome.drives.is_empty()) {
        let drives = outcome.drives.len();
        let note = if drives > DRIVES_MAX {
            format!("{part}, the first {DRIVES_MAX} of {} drives", whole(drives as f64))
        } else {
            part.clone()
        };
        html.push_str(&figure(&outcome.variant, &note, &rows(outcome, from, to)));
    }
    html
}

fn rows(outcome: &Outcome, from: f64, to: f64) -> String {
    let drives = &outcome.drives[..outcome.drives.len().min(DRIVES_MAX)];
    let height = (420.0 / drives.len() as f64).clamp(8.0, 22.0);
    let mut frame = Frame::new(
        WHOLE,
        0.0,
        Axis::time(from, to, 12),
        Axis { from: 0.0, to: 1.0, ticks: Vec::new(), unit: String::new() },
    );
    let longest = drives.iter().map(|drive| drive.name.chars().count()).max().unwrap_or(0).min(18);
    frame.left = 18.0 + 7.0 * longest as f64;
    frame.top = 4.0;
    frame.height = frame.top + frame.bottom + 4.0 + height * drives.len() as f64;
    let seen: usize = drives.iter().map(|drive| visible(drive, from, to).len()).sum();
    let every = if height < 12.0 { 2 } else { 1 };
    let mut inside = String::new();
    for (index, drive) in drives.iter().enumerate() {
        let y = frame.top + index as f64 * height;
        let bar = Bar { y: y + 0.5, height: height - if height > 12.0 { 3.0 } else { 1.5 } };
        if index % every == 0 {
            let _ = write!(
                inside,
                "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                frame.left - 7.0,
                y + height / 2.0 + 3.5,
                escape(&shorten(&drive.name, 18))
            );
        }
        inside += &if seen <= TIPS_MAX {
            single(&frame, drive, bar, from, to)
        } else {
            joined(&frame, drive, bar, from, to)
        };
    }
    frame.svg(&format!("what the drives of {} do", outcome.variant), &inside)
}

/// Where a drive's row is.
#[derive(Clone, Copy)]
struct Bar {
    y: f64,
    height: f64,
}

/// The spans of a drive that are in the window at least in part.
fn visible(drive: &DriveUse, from: f64, to: f64) -> &[(f64, f64, DriveActivity)] {
    let first = drive.spans.partition_point(|(_, end, _)| *end <= from);
    let last = drive.spans.partition_point(|(begin, ..)| *begin < to);
    &drive.spans[first.min(last)..last]
}

/// A rectangle and a tooltip for each span.
fn single(frame: &Frame, drive: &DriveUse, bar: Bar, from: f64, to: f64) -> String {
    let mut svg = String::new();
    for (begin, end, activity) in visible(drive, from, to) {
        let (x, until) = (frame.x_at(*begin), frame.x_at(*end));
        let _ = write!(
            svg,
            "<rect class=\"b-{word}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}: {word} for {}, from {}</title></rect>",
            bar.y,
            (until - x).max(0.3),
            bar.height,
            escape(&drive.name),
            time(end - begin),
            time(*begin),
            word = activity.word()
        );
    }
    svg
}

/// One path for each activity, in columns that show what took most of their time; one tooltip for the drive.
fn joined(frame: &Frame, drive: &DriveUse, bar: Bar, from: f64, to: f64) -> String {
    let width = (to - from) / COLUMNS as f64;
    let mut columns = vec![[0.0; DriveActivity::COUNT]; COLUMNS];
    for (begin, end, activity) in visible(drive, from, to) {
        let (begin, end) = (begin.max(from) - from, end.min(to) - from);
        let last = ((end / width).ceil() as usize).clamp(1, COLUMNS);
        for (at, column) in columns.iter_mut().enumerate().take(last).skip((begin / width) as usize) {
            let inside = end.min((at + 1) as f64 * width) - begin.max(at as f64 * width);
            column[*activity as usize] += inside.max(0.0);
        }
    }
    let most = |column: &[f64; DriveActivity::COUNT]| {
        let (mut best, mut seconds) = (None, 0.0);
        for (at, value) in column.iter().enumerate() {
            if *value > seconds {
                (best, seconds) = (Some(at), *value);
            }
        }
        best
    };
    let shown: Vec<Option<usize>> = columns.iter().map(most).collect();
    let mut paths = [const { String::new() }; DriveActivity::COUNT];
    let mut at = 0;
    for run in shown.chunk_by(|left, right| left == right) {
        if let Some(activity) = run[0] {
            let x = frame.x_at(from + at as f64 * width);
            let wide = frame.x_at(from + (at + run.len()) as f64 * width) - x;
            let _ = write!(paths[activity], "M{x:.1} {:.1}h{wide:.1}v{:.1}h-{wide:.1}z", bar.y, bar.height);
        }
        at += run.len();
    }
    let mut svg = format!("<g><title>{}</title>", escape(&in_words(drive)));
    for (activity, path) in DriveActivity::ALL.iter().zip(paths).filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, "<path class=\"b-{}\" d=\"{path}\"/>", activity.word());
    }
    svg.push_str("</g>");
    svg
}

/// What a drive did, in words.
fn in_words(drive: &DriveUse) -> String {
    let all: f64 = drive.seconds.iter().sum();
    let mut words = format!("{}: {} mounts", drive.name, whole(drive.mounts as f64));
    for (activity, seconds) in
        DriveActivity::ALL.iter().zip(drive.seconds).filter(|(_, seconds)| *seconds > 0.0)
    {
        let _ = write!(words, "\n{} {:.1} %", activity.word(), 100.0 * seconds / all.max(f64::MIN_POSITIVE));
    }
    words
}

/// How many drives do what, over the whole run: one chart for each variant.
pub fn over_time(shown: &[&Outcome]) -> String {
    let longest = shown.iter().map(|outcome| outcome.end).fold(0.0, f64::max);
    let drives = shown.iter().map(|outcome| outcome.drives.len()).max().unwrap_or(0);
    let (width, count, grid) = side_by_side(shown.len());
    let mut html = String::new();
    for outcome in shown {
        let mut frame = Frame::new(
            width,
            220.0,
            Axis::time(0.0, longest, count),
            Axis::value(drives as f64, "drives", 5),
        );
        frame.y.to = drives.max(1) as f64;
        frame.y.ticks.retain(|(value, _)| *value <= drives.max(1) as f64);
        html.push_str(&figure(&outcome.variant, "", &frame.svg(&outcome.variant, &stacked(&frame, outcome))));
    }
    format!("<div class=\"{grid}\">{html}</div>")
}

fn stacked(frame: &Frame, outcome: &Outcome) -> String {
    /// From the bottom: what moves data, what it costs, what is not used.
    const ORDER: [DriveActivity; DriveActivity::COUNT] = [
        DriveActivity::Read,
        DriveActivity::Write,
        DriveActivity::Locate,
        DriveActivity::Mount,
        DriveActivity::Wait,
        DriveActivity::Idle,
        DriveActivity::Down,
    ];
    let mut below: Vec<(f64, f64)> = Vec::new();
    let mut svg = String::new();
    for activity in ORDER {
        let seconds: Vec<f64> = outcome.series.activity.iter().map(|bin| bin[activity as usize]).collect();
        let points = steps(outcome, &seconds, Join::Rate, 120);
        if below.is_empty() {
            below = points.iter().map(|(begin, _)| (*begin, 0.0)).collect();
        }
        let above: Vec<(f64, f64)> =
            below.iter().zip(&points).map(|((begin, low), (_, value))| (*begin, low + value)).collect();
        if points.iter().any(|(_, value)| *value > 0.0) {
            let mut path = String::new();
            let end = |at: usize| above.get(at + 1).map_or(outcome.end, |(next, _)| *next);
            for (at, (begin, high)) in above.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                let y = frame.y_at(*high);
                let _ = write!(path, "{command}{:.1} {y:.1}H{:.1}", frame.x_at(*begin), frame.x_at(end(at)));
            }
            for (at, (begin, low)) in below.iter().enumerate().rev() {
                let _ = write!(
                    path,
                    "L{:.1} {:.1}H{:.1}",
                    frame.x_at(end(at)),
                    frame.y_at(*low),
                    frame.x_at(*begin)
                );
            }
            let word = activity.word();
            let _ = write!(svg, "<path class=\"b-{word}\" d=\"{path}z\"><title>{word}</title></path>");
        }
        below = above;
    }
    svg
}
