//! `kist disk health`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use terminal::{Exit, Failure, Outcome, Table, output, text};
use topology::counters::Since;
use topology::health::{DiskHealth, Health, Reason, Verdict};
use topology::{Disk, Machine};

use super::disk::{self, Source};
use super::{disk_json, disk_tree};
use crate::cli::Common;
use crate::watch::Watch;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Verdicts:
  good      nothing is known against it
  watch     something is to be looked at: errors at some time, a warm disk, a slow or
            lost link, a path less than the others of the enclosure
  replace   the disk or the enclosure expects a failure, data were lost since the other
            look, a SMART attribute has fallen to its threshold, its life is used up
  unknown   it was not asked, or does not answer
Errors at some time say little; errors that grow say much: record the machine now,
and compare with --since in a week, or stay with --watch.

Exit code 1 if a disk is to be replaced.

Examples:
  sudo kist disk health
  sudo kist disk health --since last-week.machine
  kist disk health --from jbod.machine --all
  sudo kist disk health sdaq --json")]
pub struct Args {
    /// Only this disk, with its counters: a block device, serial number or name in the world
    disk: Option<String>,
    /// Compare with an earlier look: a file of 'kist disk record', or a directory
    #[arg(long, value_name = "PATH")]
    since: Option<PathBuf>,
    /// Show disks that are good, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    watch: Watch,
}

/// What is shown: a machine, what has grown, and the verdicts.
struct Shown {
    machine: Machine,
    since: Option<Since>,
    health: Health,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let before = args.since.as_deref().map(disk::open).transpose()?.map(|recorded| recorded.machine);
    let is_watched = args.watch.is_asked_for();
    if is_watched && args.source.from.is_some() {
        return Err(Failure::usage("--watch looks at this machine: leave --from out"));
    }
    // What a watch shows grows from its own beginning, if there is nothing else.
    let before = match before {
        None if is_watched => Some(args.source.look()?),
        before => before,
    };
    let look = || -> Outcome<Shown> {
        let machine = args.source.look()?;
        let since = before.as_ref().map(|before| Since::of(before, &machine));
        let health = Health::of(&machine, since.as_ref());
        Ok(Shown { machine, since, health })
    };
    if is_watched {
        return args.watch.show(common, || shown_text(args, &look()?));
    }
    let shown = look()?;
    disk::tell(&shown.machine);
    match common.json {
        true => output::json(&shown_json(args, &shown)?)?,
        false => output::write(&shown_text(args, &shown)?)?,
    }
    let chosen = chosen(args, &shown)?;
    let bad = chosen.iter().filter(|one| one.verdict == Verdict::Replace).count() as u64;
    match bad {
        0 => Ok(()),
        bad => Err(Failure::new(Exit::SomeFailed, format!("{} to be replaced", text::plural(bad, "disk")))),
    }
}

/// The disks that are asked for.
fn chosen<'a>(args: &Args, shown: &'a Shown) -> Outcome<Vec<&'a DiskHealth>> {
    let Some(word) = &args.disk else { return Ok(shown.health.disks.iter().collect()) };
    let found = shown.machine.find(word);
    if found.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("there is no disk {word}: kist disk ls lists them"),
        ));
    }
    Ok(shown.health.disks.iter().filter(|one| found.contains(&one.disk)).collect())
}

fn grown<'a>(
    shown: &'a Shown,
    disk: &Disk,
) -> impl Iterator<Item = (&'a topology::Counter, &'a topology::counters::Growth)> {
    shown.since.as_ref().and_then(|since| since.disks.get(&disk.key)).into_iter().flatten()
}

fn shown_json(args: &Args, shown: &Shown) -> Outcome<serde_json::Value> {
    let one = |one: &&DiskHealth| {
        let disk = &shown.machine.disks[one.disk];
        let mut value = disk_json::disk(&shown.machine, disk);
        value["verdict"] = json!(one.verdict.to_string());
        value["reasons"] = one
            .reasons
            .iter()
            .map(|reason| {
                json!({
                    "reason": reason.word(),
                    "text": reason.to_string(),
                    "advice": reason.advice(),
                    "verdict": reason.verdict().to_string(),
                })
            })
            .collect();
        if shown.since.is_some() {
            value["grown"] = disk_json::grown(grown(shown, disk));
        }
        value
    };
    let findings = shown.health.findings.iter();
    let findings = findings.map(|finding| json!({ "finding": finding.word(), "text": finding.to_string() }));
    let counts = shown.health.counts();
    let count = |verdict| counts.get(&verdict).copied().unwrap_or(0);
    Ok(json!({
        "host": shown.machine.about.host,
        "seconds": shown.machine.about.seconds,
        "since_seconds": shown.since.as_ref().and_then(|since| since.seconds),
        "counts": {
            "good": count(Verdict::Good),
            "watch": count(Verdict::Watch),
            "replace": count(Verdict::Replace),
            "unknown": count(Verdict::Unknown),
        },
        "disks": chosen(args, shown)?.iter().map(one).collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "not_read": shown.machine.problems.len() + shown.machine.problems_left_out,
    }))
}

fn shown_text(args: &Args, shown: &Shown) -> Outcome<String> {
    let Shown { machine, since, health } = shown;
    let chosen = chosen(args, shown)?;
    let mut out = format!("{}\n", disk_tree::heading(machine));
    if let Some(since) = since {
        let span = since.seconds.map(|seconds| text::span(Duration::from_secs(seconds)));
        let span = span.unwrap_or_else(|| "a time that is not told".to_owned());
        // Writing into a String cannot fail.
        let _ = writeln!(out, "compared with a look {span} before");
    }
    if machine.disks.is_empty() {
        let _ = writeln!(out, "\n{}", disk_tree::nothing_of(machine));
        return Ok(out);
    }
    let is_shown = |one: &&&DiskHealth| args.all || args.disk.is_some() || one.verdict != Verdict::Good;
    let mut table = Table::new(&["disk", "slot", "verdict", ">°C", ">hours", "model", "serial", "why"]);
    for one in chosen.iter().filter(is_shown) {
        let disk = &machine.disks[one.disk];
        let dash = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
        let mut words: Vec<String> = one.reasons.iter().map(ToString::to_string).collect();
        // The next step, once for all reasons that have the same.
        for advice in one.reasons.iter().filter_map(Reason::advice) {
            if !words.iter().any(|word| word == advice) {
                words.push(advice.to_owned());
            }
        }
        table.row(vec![
            disk.name().to_owned(),
            dash(disk_tree::slot_words(machine, disk)),
            one.verdict.to_string(),
            dash(disk.celsius.map(|celsius| celsius.to_string())),
            dash(disk.power_on_hours.map(text::count)),
            dash(disk.model.clone()),
            dash(disk.serial.clone()),
            text::or_dash(&words.join("; ")),
        ]);
    }
    if !table.is_empty() {
        let _ = write!(out, "\n{}", table.render());
    }
    if args.disk.is_some() {
        let mut table = Table::new(&["disk", "counter", ">value", ">grown"]);
        for one in &chosen {
            let disk = &machine.disks[one.disk];
            for (counter, value) in &disk.counters.0 {
                let by = grown(shown, disk).find(|(own, _)| *own == counter).map(|(_, growth)| growth.by());
                let by = match by {
                    Some(Some(by)) => text::count(by),
                    Some(None) => "reset".to_owned(),
                    None if since.is_some() => "0".to_owned(),
                    None => "-".to_owned(),
                };
                table.row(vec![disk.name().to_owned(), counter.to_string(), text::count(*value), by]);
            }
        }
        let _ = write!(out, "\n{}", table.render());
        return Ok(out);
    }
    if !health.findings.is_empty() {
        out.push_str("\nBeside disks:\n");
        for finding in &health.findings {
            let _ = writeln!(out, "  {}", terminal::one_line(&finding.to_string()));
        }
    }
    let counts = health.counts();
    let words = [Verdict::Replace, Verdict::Watch, Verdict::Unknown, Verdict::Good];
    let words = words.into_iter().filter_map(|verdict| Some(format!("{} {verdict}", counts.get(&verdict)?)));
    let words: Vec<String> = words.collect();
    let _ = writeln!(out, "\n{}: {}", text::plural(machine.disks.len() as u64, "disk"), words.join(", "));
    Ok(out)
}
