//! `kist usage`.

use std::path::PathBuf;
use std::time::Duration;

use base::Timestamp;
use client::Watched;
use terminal::{Failure, Outcome, Table, output, text};
use wire::{ClassUsageReply, DailyReply, HitRateReply, ResidencyReply, SizesReply, UsageReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Days are those of UTC; means a day are over the time of which there are lines, at
least a day. Columns:
  reads       gets that the pool served (hits), and files that had to come from
              tape (misses): a refused get, its stage, its recall and the read
              that follows are one miss; ranges of a file that follow each other
              within a minute are one read, of at most the file's size
  hit rate    hits in % of reads, by files and by bytes
  on tape     gets that were refused, since the file was on tape only
  waited      from the request to the file (median, 90 %)
  half of the bytes  stands in files up to this size
  to tape     bytes of containers, each copy by itself
  traffic     all bytes that moved over those that clients wrote and read
  space       what the pool takes of the class: its pool_max, or all
  fill        what comes into the pool a day: (1 - hit rate by bytes) x reads + writes
  lifetime    space / fill: how long a file stays, at least; with the day that
              filled most, the shortest
  read again  how long after its last put or read a file is read (median, 90 %)
  kept        if each file left the pool so long after its last put or read: the
              reads that the pool would serve, and what would stand in it on the
              mean (at most: what is deleted before is counted). A read of a file
              that the log does not know before is none that it serves

Examples:
  kist usage
  kist usage --since 7d --class raw
  kist usage --json
  kist usage --log /srv/old-instance/log --since 365d")]
pub struct Args {
    /// How far to look back: 24h, 7d, 30d
    #[arg(long, default_value = "30d", value_name = "SPAN")]
    since: String,
    /// Only this class
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Read the access log in this directory, without a server: INSTANCE/log, which has access.log and the
    /// files before it
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let window = text::parse_span(&args.since)
        .ok_or_else(|| Failure::usage(format!("--since {}: write it as 24h, 7d or 30d", args.since)))?;
    let reply = match &args.log {
        Some(directory) => read_log(args, directory, window)?,
        None => {
            // Up: a window of half a second is not one of none.
            let seconds = window.as_millis().div_ceil(1000);
            let class = args.class.as_deref().map(|class| format!("&class={}", text::encode(class)));
            let class = class.unwrap_or_default();
            let target = format!("/api/v1/report/usage?seconds={seconds}{class}");
            {
                let mut watched = Watched::new("usage", common.quiet);
                common.connection.client()?.get_long(&target, &mut |work| watched.show(work))?
            }
        }
    };
    if common.json {
        return output::json(&reply);
    }
    show(&reply)
}

/// The analysis of a log whose server does not run, or is another one.
fn read_log(args: &Args, directory: &std::path::Path, window: Duration) -> Outcome<UsageReply> {
    use archive::AccessLog;
    if !directory.join("access.log").is_file() {
        return Err(Failure::usage(format!("{} has no file access.log", directory.display())));
    }
    let until = text::now();
    let since = Timestamp(until.0.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX)));
    let mut analysis = usage::Analysis::new(usage::Window { since, until }, args.class.as_deref());
    let log = archive::AccessLogFiles::new(directory);
    let met = log.read(since, until, &mut |access| analysis.add(&access));
    let met = met.map_err(|error| Failure::io("reading", directory, &error))?;
    Ok(door::usage_reply(&archive::UsageReport::of(Ok(met), analysis.end())))
}

fn show(reply: &UsageReply) -> Outcome {
    if let Some(trouble) = &reply.trouble {
        output::note(trouble);
    }
    let from = reply.from.as_deref().unwrap_or(&reply.since);
    let (from, until) = (text::whole_seconds(from), text::whole_seconds(&reply.until));
    output::line(&format!("what users did from {from} to {until}"))?;
    if reply.lines == 0 {
        let nothing = if reply.logged { "nothing" } else { "unknown: this server writes no accesses down" };
        return output::line(nothing);
    }
    for table in [accesses, sizes, movement, cache] {
        output::line("")?;
        output::write(&table(reply))?;
    }
    for table in [kept(reply), taken(reply)].into_iter().flatten() {
        output::line("")?;
        output::write(&table)?;
    }
    output::line("")?;
    output::line(&sentence(reply))?;
    missing(reply).iter().try_for_each(|line| output::line(line))
}

/// What the log is too short for, so that nobody takes a dash, or a table that is not there, for a figure.
fn missing(reply: &UsageReply) -> Vec<String> {
    let mut lines = Vec::new();
    if reply.days < 1.0 {
        lines.push(format!(
            "There are lines of {} only: what is told a day is what was done in all of that time.",
            days(reply.days)
        ));
    }
    if rows(reply).all(|row| row.residencies.is_empty()) {
        lines.push(
            "No file was read again after its put or a read within that time: how long files should stay in \
             the pool, and what a hit rate takes, is not told. --since looks further back, if the log does."
                .to_owned(),
        );
    }
    lines
}

/// The classes, and the total if there are several.
fn rows(reply: &UsageReply) -> impl Iterator<Item = &ClassUsageReply> {
    reply.classes.iter().chain((reply.classes.len() > 1).then_some(&reply.total))
}

fn accesses(reply: &UsageReply) -> String {
    let headings = [
        "class",
        ">files put",
        ">bytes",
        ">reads",
        ">bytes",
        ">hit rate",
        ">by bytes",
        ">on tape",
        ">recalled",
        ">bytes",
        ">waited: median",
        ">90 %",
        ">evicted",
    ];
    let mut table = Table::new(&headings);
    for row in rows(reply) {
        let wait =
            |at: usize| or_dash(row.wait_seconds.as_ref().and_then(|w| w.by_count.get(at)).map(seconds));
        table.row(vec![
            row.name.clone(),
            text::count(row.puts.files),
            text::size(row.puts.bytes),
            text::count(row.accesses.files),
            text::size(row.accesses.bytes),
            or_dash(row.hit_rate.map(percent)),
            or_dash(row.hit_rate_bytes.map(percent)),
            text::count(row.refused),
            text::count(row.recalled.files),
            text::size(row.recalled.bytes),
            wait(MEDIAN),
            wait(NINETY),
            text::size(row.evicted.bytes),
        ]);
    }
    table.render()
}

/// Where the median and 90 % stand among the quantiles.
const MEDIAN: usize = 2;
const NINETY: usize = 3;

fn sizes(reply: &UsageReply) -> String {
    let headings = [
        "sizes of files",
        ">files",
        ">mean",
        ">10 %",
        ">25 %",
        ">median",
        ">90 %",
        ">99 %",
        ">largest",
        ">half of the bytes",
    ];
    let mut table = Table::new(&headings);
    for row in rows(reply) {
        let kinds = [("put", &row.sizes_written), ("read", &row.sizes_read)];
        for (kind, sizes) in kinds {
            if let Some(sizes) = sizes {
                table.row(sizes_row(format!("{}, {kind}", row.name), sizes));
            }
        }
    }
    table.render()
}

fn sizes_row(name: String, sizes: &SizesReply) -> Vec<String> {
    let quantile = |at: usize| or_dash(sizes.by_count.get(at).copied().map(text::size));
    vec![
        name,
        text::count(sizes.files),
        text::size(sizes.mean),
        quantile(0),
        quantile(1),
        quantile(MEDIAN),
        quantile(NINETY),
        quantile(4),
        text::size(sizes.most),
        or_dash(sizes.by_bytes.get(MEDIAN).copied().map(text::size)),
    ]
}

fn movement(reply: &UsageReply) -> String {
    let headings = [
        "bytes a day",
        ">written",
        ">peak day",
        ">read",
        ">peak day",
        ">recalled",
        ">peak day",
        ">to tape",
        ">peak day",
        ">traffic",
    ];
    let mut table = Table::new(&headings);
    for row in rows(reply) {
        let moved = &row.movement;
        let mut cells = vec![row.name.clone()];
        for daily in [&moved.written, &moved.read, &moved.recalled, &moved.migrated] {
            let DailyReply { mean, peak_day, .. } = *daily;
            cells.extend([text::size(mean as u64), text::size(peak_day)]);
        }
        cells.push(or_dash(moved.internal_factor.map(|factor| format!("{factor:.2}"))));
        table.row(cells);
    }
    table.render()
}

fn cache(reply: &UsageReply) -> String {
    let headings = [
        "in the pool",
        ">space",
        ">fill a day",
        ">lifetime",
        ">peak fill",
        ">shortest",
        ">read again: median",
        ">90 %",
    ];
    let mut table = Table::new(&headings);
    for row in rows(reply) {
        let cache = &row.cache;
        let again = row.reread_seconds.as_ref();
        let again = |at: usize| or_dash(again.and_then(|spans| spans.by_count.get(at)).map(seconds));
        table.row(vec![
            row.name.clone(),
            or_dash(cache.space.map(text::size)),
            text::size(cache.fill as u64),
            or_dash(cache.mean_days.map(days)),
            text::size(cache.fill_peak as u64),
            or_dash(cache.least_days.map(days)),
            again(MEDIAN),
            again(NINETY),
        ]);
    }
    table.render()
}

/// What residencies serve and take, if anything was read again.
fn kept(reply: &UsageReply) -> Option<String> {
    residencies(
        reply,
        ("kept", |row| row.residencies.iter().map(|kept| days(kept.seconds / DAY)).collect()),
        |row| row.residencies.iter().copied().map(Some).collect(),
        [("reads served", |kept| percent(kept.hit_rate)), ("space", |kept| text::size(kept.space))],
    )
}

/// What hit rates take, if anything was read again.
fn taken(reply: &UsageReply) -> Option<String> {
    let heading = |rate: &HitRateReply| format!("{:.0} %", rate.wanted * 100.0);
    residencies(
        reply,
        ("to serve", |row| row.for_hit_rates.iter().map(heading).collect()),
        |row| row.for_hit_rates.iter().map(|rate| rate.takes).collect(),
        [("keep for", |takes| days(takes.seconds / DAY)), ("space", |takes| text::size(takes.space))],
    )
}

/// What a residency gives, in words.
type Figure = fn(&ResidencyReply) -> String;

/// Two lines of residencies for each class of which anything was read again.
fn residencies(
    reply: &UsageReply,
    (corner, columns): (&str, impl Fn(&ClassUsageReply) -> Vec<String>),
    of: impl Fn(&ClassUsageReply) -> Vec<Option<ResidencyReply>>,
    lines: [(&str, Figure); 2],
) -> Option<String> {
    let read_again = |row: &&ClassUsageReply| !row.residencies.is_empty();
    let columns: Vec<String> =
        columns(rows(reply).find(read_again)?).iter().map(|column| format!(">{column}")).collect();
    let headings: Vec<&str> = [corner].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut table = Table::new(&headings);
    for row in rows(reply).filter(read_again) {
        for (what, cell) in lines {
            let cells = of(row).into_iter().map(|residency| or_dash(residency.as_ref().map(cell)));
            table.row([format!("{}, {what}", row.name)].into_iter().chain(cells).collect());
        }
    }
    Some(table.render())
}

/// Seconds.
const DAY: f64 = 86_400.0;

/// The peak day and how long files stay.
fn sentence(reply: &UsageReply) -> String {
    let total = &reply.total;
    let peak = match &total.movement.peak_day {
        Some(peak) => format!(
            "On the peak day, {}, clients moved {}, against {} on the mean of {:.1} days.",
            peak.begin.get(..10).unwrap_or(&peak.begin),
            text::size(peak.bytes),
            text::size((total.movement.written.mean + total.movement.read.mean) as u64),
            reply.days,
        ),
        None => "Clients moved no bytes.".to_owned(),
    };
    let life = match (total.cache.mean_days, total.cache.least_days) {
        (Some(mean), Some(least)) => {
            format!(
                " A file stays in the pool for {} at the mean fill, {} at the peak.",
                days(mean),
                days(least)
            )
        }
        _ => String::new(),
    };
    format!("{peak}{life}")
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn seconds(seconds: &f64) -> String {
    Duration::try_from_secs_f64(*seconds).map_or_else(|_| "-".to_owned(), text::span)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `3.2 h`, `12 d`, `340 d`, `2.1 years`.
fn days(days: f64) -> String {
    match days {
        days if days < 2.0 => format!("{:.1} h", days * 24.0),
        days if days < 10.0 => format!("{days:.1} d"),
        days if days < 730.0 => format!("{days:.0} d"),
        days if days < 36_525.0 => format!("{:.1} years", days / 365.25),
        days => format!("{} years", text::count((days / 365.25).round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!((days(0.5), days(3.21), days(33.3)), ("12.0 h".into(), "3.2 d".into(), "33 d".into()));
        assert_eq!((days(36_525_000.0), percent(0.456)), ("100,000 years".into(), "45.6 %".to_owned()));
        assert_eq!(seconds(&f64::NAN), "-");
    }
}
