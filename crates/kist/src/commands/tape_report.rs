//! `kist tape report`.

use std::time::Duration;

use terminal::{Failure, Outcome, Table, output, text};
use wire::{QueueAgeReply, ReportRowReply, SpreadReply, TapeReportReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A mount counts, whole, if it ended in the window or goes on. Columns:
  mounts      cartridges that came into a drive (N now: still in one)
  failed      mounts, unmounts and sessions that failed
  mount       mean, median and 95 % time from the order until labels and index
              were read
  unmount     the same from the end of the last index to the empty drive
  waited      how long the oldest that a mount was for had waited (median, most)
  read        bytes of files and containers that came from tape
  written     bytes of containers that went to tape
  files       files recalled, containers written or checked
  per mount   bytes of files and containers a mount
  mounts/TB   mounts for 10^12 bytes of them
  mounted     how long tapes stood ready in drives
  moving      how long data flowed, as the drive counts if it does
  efficiency  moving in % of mounted, or of the time that the drive counts
  rate        bytes of blocks, gaps and indexes included, a second of moving
  native      that rate in % of the drive's native one, if it is known
If drives were asked for their orders of reading (RAO), a third table has
  plans       for which the drive gave an order
  drive's     of those, such as were read in the drive's order; the others were
              read in Kist's
  Kist's cost, drive's cost   locates and gaps of both orders by the model
  failed      plans for which the drive failed or gave what is no order
Below stands how long what waits now has waited: its oldest, and the median.

Examples:
  kist tape report
  kist tape report --since 7d --by tape
  kist tape report --by pool --json")]
pub struct Args {
    /// How far to look back: 30min, 24h, 7d
    #[arg(long, default_value = "24h", value_name = "SPAN")]
    since: String,
    /// What a line is: drive, tape or pool (tape pool)
    #[arg(long, default_value = "drive", value_parser = ["drive", "tape", "pool"])]
    by: String,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let window = text::parse_span(&args.since)
        .ok_or_else(|| Failure::usage(format!("--since {}: write it as 30min, 24h or 7d", args.since)))?;
    // Up: a window of half a second is not one of none.
    let seconds = window.as_millis().div_ceil(1000);
    let target = format!("/api/v1/report/tape?seconds={seconds}&by={}", args.by);
    let report: TapeReportReply = common.connection.client()?.get(&target)?;
    if common.json {
        return output::json(&report);
    }
    if let Some(trouble) = &report.trouble {
        output::note(trouble);
    }
    output::line(&format!("mounts that ended from {} to {} or go on", report.since, report.until))?;
    if report.rows.is_empty() {
        let nothing = if report.logged { "none" } else { "none: this server does not write mounts down" };
        output::line(nothing)?;
    } else {
        output::line("")?;
        output::write(&mounts_table(&report))?;
        output::line("")?;
        output::write(&bytes_table(&report))?;
        if report.total.order.is_some() {
            output::line("")?;
            output::write(&orders_table(&report))?;
        }
    }
    output::line("")?;
    if report.queue_ages.is_empty() {
        return output::line("nothing waits for tape");
    }
    output::write(&ages_table(&report.queue_ages))
}

/// The rows, and the total if there are several.
fn rows(report: &TapeReportReply) -> impl Iterator<Item = &ReportRowReply> {
    report.rows.iter().chain((report.rows.len() > 1).then_some(&report.total))
}

fn mounts_table(report: &TapeReportReply) -> String {
    let headings = [
        by_word(report),
        ">mounts",
        ">failed",
        ">mount: mean",
        ">median",
        ">95 %",
        ">unmount: mean",
        ">median",
        ">95 %",
        ">waited: median",
        ">most",
        ">mounts/TB",
    ];
    let mut table = Table::new(&headings);
    for row in rows(report) {
        let mount = spread(row.mount_seconds.as_ref());
        let unmount = spread(row.unmount_seconds.as_ref());
        let wait = row.wait_seconds.as_ref();
        let still = if row.mounted_now > 0 { format!(" ({} now)", row.mounted_now) } else { String::new() };
        table.row(vec![
            row.name.clone(),
            format!("{}{still}", text::count(row.mounts)),
            text::count(row.mount_failures + row.session_failures),
            mount.0,
            mount.1,
            mount.2,
            unmount.0,
            unmount.1,
            unmount.2,
            or_dash(wait.map(|wait| span(wait.median))),
            or_dash(wait.map(|wait| span(wait.max))),
            or_dash(row.mounts_per_tb.map(short)),
        ]);
    }
    table.render()
}

fn bytes_table(report: &TapeReportReply) -> String {
    let headings = [
        by_word(report),
        ">read",
        ">written",
        ">files",
        ">per mount",
        ">mounted",
        ">moving",
        ">efficiency",
        ">rate",
        ">native",
    ];
    let mut table = Table::new(&headings);
    for row in rows(report) {
        let rate = row.rate.filter(|_| row.moving_seconds >= text::RATED_FROM.as_secs_f64());
        table.row(vec![
            row.name.clone(),
            text::size(row.read),
            text::size(row.written),
            text::count(row.files),
            or_dash(row.bytes_per_mount.map(text::size)),
            span(row.mounted_seconds),
            span(row.moving_seconds),
            or_dash(row.efficiency.map(percent)),
            or_dash(rate.map(|rate| format!("{}/s", text::size(rate as u64)))),
            or_dash(row.of_native.map(percent)),
        ]);
    }
    table.render()
}

fn orders_table(report: &TapeReportReply) -> String {
    let headings = [by_word(report), ">plans", ">drive's", ">Kist's cost", ">drive's cost", ">failed"];
    let mut table = Table::new(&headings);
    for row in rows(report) {
        let Some(order) = &row.order else { continue };
        table.row(vec![
            row.name.clone(),
            text::count(order.compared),
            text::count(order.drives),
            span(order.own_seconds),
            span(order.drive_seconds),
            text::count(order.failed),
        ]);
    }
    table.render()
}

fn ages_table(ages: &[QueueAgeReply]) -> String {
    let mut table = Table::new(&["what waits", ">items", ">bytes", ">oldest", ">median"]);
    for age in ages {
        let what = match age.queue.as_str() {
            "recall-class" => format!("recall of class {}", age.name),
            "recall-pool" => format!("recall from tape pool {}", age.name),
            "recall-tape" => format!("recall from tape {}", age.name),
            other => format!("{other} {}", age.name),
        };
        // What was looked at only in part is at least so old.
        let least = if age.partial { ">= " } else { "" };
        table.row(vec![
            what,
            text::count(age.items),
            text::size(age.bytes),
            format!("{least}{}", span(age.oldest_seconds)),
            span(age.median_seconds),
        ]);
    }
    table.render()
}

fn by_word(report: &TapeReportReply) -> &'static str {
    match report.by.as_str() {
        "tape" => "tape",
        "pool" => "tape pool",
        _ => "drive",
    }
}

/// Mean, median and 95 %.
fn spread(spread: Option<&SpreadReply>) -> (String, String, String) {
    let one = |pick: fn(&SpreadReply) -> f64| or_dash(spread.map(|spread| span(pick(spread))));
    (one(|spread| spread.mean), one(|spread| spread.median), one(|spread| spread.p95))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn span(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "-".to_owned(), text::span)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Three digits.
fn short(number: f64) -> String {
    match number {
        number if number >= 100.0 => text::count(number.round() as u64),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_units() {
        assert_eq!(
            (short(0.456), short(45.67), short(12345.6)),
            ("0.46".into(), "45.7".into(), "12,346".into())
        );
        assert_eq!((percent(0.923), span(185.4)), ("92 %".to_owned(), "3 min 05 s".to_owned()));
        assert_eq!(span(f64::NAN), "-");
    }
}
