//! `kist plan site`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use archive::{AccessLog as _, AccessLogFiles};
use base::{ByteCount, Timestamp};
use config::Span;
use planner::{ASSUMPTIONS, ClassWorkload, Input, Line, Plan, Section, Site, Unit, Verdict};
use serde_json::{Value, json};
use terminal::{Exit, Failure, Outcome, Table, output, text};
use usage::{Analysis, Usage, Window};
use wire::{ClassUsageReply, ResidencyReply, UsageReply};

use crate::cli::Common;

/// No site file is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Columns of the text.
const WIDTH: usize = 108;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every figure is printed with its formula in symbols, the same with the numbers put
in, what the symbols stand for, and the source. docs/reference/planner.md lists the
keys of SITE.toml and all formulas; examples/sites has sites to begin with.

Examples:
  kist plan site examples/sites/tier1.toml
  kist plan site examples/sites/tier1.toml --brief
  kist plan site examples/sites/tier1.toml --only drives --only bottleneck
  kist plan site examples/sites/tier1.toml --html plan.html
  kist plan site ours.toml --from-server --since 90d
  kist plan site ours.toml --from-log /srv/kist/log --since 90d --json")]
pub struct Args {
    /// The site: its workload, machines and prices
    #[arg(value_name = "SITE.toml")]
    site: PathBuf,
    /// Figures alone, without formulas
    #[arg(long)]
    brief: bool,
    /// Only this section: workload, drives, robots, cache, bandwidth, pool, media, power, durability, cost,
    /// bottleneck
    #[arg(long, value_name = "SECTION", value_parser = section)]
    only: Vec<Section>,
    /// Take the workload from the access log in this directory: INSTANCE/log, which has access.log and the
    /// files before it, as the server writes them (docs/format/access-log.md); no server is asked
    #[arg(long, value_name = "DIR")]
    from_log: Option<PathBuf>,
    /// Take the workload from what the running server has written down of its users
    #[arg(long, conflicts_with = "from_log")]
    from_server: bool,
    /// How far to look back in the log
    #[arg(long, value_name = "SPAN", default_value = "90d", value_parser = Span::parse)]
    since: Span,
    /// Write the plan as a page with pictures, besides
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let mut site = read(&args.site)?;
    let workloads = match &args.from_log {
        Some(log) => logged(log, args.since, text::now())?.workloads(),
        None if args.from_server => served(args.since, common)?,
        None => Vec::new(),
    };
    if !workloads.is_empty() {
        let measured: Vec<ClassWorkload> = workloads.iter().map(ClassWorkload::measured).collect();
        if let Some(note) = from_file(&site, &measured, &args.site) {
            output::note(&note);
        }
        site.take_measured(&measured);
    }
    let plan = planner::plan(&site).map_err(|error| refused(&args.site, &error))?;
    if let Some(path) = &args.html {
        let failed = |error: io::Error| Failure::io("writing", path, &error);
        std::fs::write(path, planner::html(&plan)).map_err(failed)?;
        output::note(&format!("{} has the plan as a page", path.display()));
    }
    if common.json {
        return output::json(&as_json(&plan, &args.only));
    }
    output::write(&in_words(&plan, args))
}

/// What is said of classes that the file has and of which nothing was measured: they stay in the plan.
fn from_file(site: &Site, measured: &[ClassWorkload], file: &Path) -> Option<String> {
    let is_measured = |name: &str| measured.iter().any(|class| class.name == name);
    let kept: Vec<&str> =
        site.classes.iter().map(|class| class.name.as_str()).filter(|name| !is_measured(name)).collect();
    let measured: Vec<&str> = measured.iter().map(|class| class.name.as_str()).collect();
    (!kept.is_empty()).then(|| {
        format!(
            "measured: {}; nothing was measured of {}, which the plan has as {} says: take them out of it if \
             the site does not have them",
            measured.join(", "),
            kept.join(", "),
            file.display()
        )
    })
}

/// What the server's own analysis of its access log says.
fn served(since: Span, common: &Common) -> Outcome<Vec<usage::ClassWorkload>> {
    let seconds = since.0.as_millis().div_ceil(1000);
    let target = format!("/api/v1/report/usage?seconds={seconds}");
    let reply: UsageReply = common.connection.client()?.get_long(&target, &mut |_| {})?;
    if reply.lines == 0 {
        let message = "the server has written no access down in that time: ask for a longer one with --since";
        return Err(Failure::new(Exit::NotFound, message.to_owned()));
    }
    Ok(reply.classes.into_iter().map(workload).collect())
}

fn workload(class: ClassUsageReply) -> usage::ClassWorkload {
    let of = class.workload;
    usage::ClassWorkload {
        name: class.name,
        copies: class.copies,
        files_written: of.files_written,
        bytes_written: of.bytes_written,
        files_read: of.files_read,
        bytes_read: of.bytes_read,
        hit_rate: class.hit_rate,
        hit_rate_bytes: class.hit_rate_bytes,
        files_recalled: of.files_recalled,
        bytes_recalled: of.bytes_recalled,
        bytes_migrated: of.bytes_migrated,
        mean_written: of.mean_written.map(ByteCount),
        mean_read: of.mean_read.map(ByteCount),
        peak_written: ByteCount(of.peak_written),
        peak_read: ByteCount(of.peak_read),
        peak_recalled: ByteCount(of.peak_recalled),
        space: of.space.map(ByteCount),
        for_hit_rates: class
            .for_hit_rates
            .into_iter()
            .map(|rate| (rate.wanted, rate.takes.map(residency)))
            .collect(),
    }
}

fn residency(reply: ResidencyReply) -> usage::Residency {
    usage::Residency {
        // What is out of all bounds is for ever.
        kept: base::Duration::try_from_secs_f64(reply.seconds).unwrap_or(base::Duration::MAX),
        within: reply.share,
        hit_rate: reply.hit_rate,
        space: ByteCount(reply.space),
    }
}

fn read(path: &PathBuf) -> Outcome<Site> {
    let failed = |error: io::Error| Failure::io("reading", path, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} is too large for a site file", path.display())));
    }
    Site::parse(&text).map_err(|error| refused(path, &error))
}

/// What the log says of the time from so long ago until now.
fn logged(directory: &Path, since: Span, now: Timestamp) -> Outcome<Usage> {
    let failed = |error: io::Error| Failure::io("reading the access log in", directory, &error);
    // A log that is not there reads as an empty one, and would pass for a site without users.
    std::fs::read_dir(directory).map_err(failed)?;
    let back = i64::try_from(since.0.as_nanos()).unwrap_or(i64::MAX);
    let window = Window { since: Timestamp(now.0.saturating_sub(back)), until: now };
    let mut analysis = Analysis::new(window, None);
    let log = AccessLogFiles::new(directory);
    let read = log.read(window.since, window.until, &mut |access| analysis.add(&access)).map_err(failed)?;
    if read.damaged + read.newer > 0 {
        output::note(&format!(
            "{} damaged lines of the log and {} of a newer kist are left out",
            read.damaged, read.newer
        ));
    }
    let usage = analysis.end();
    if usage.lines == 0 {
        return Err(Failure::usage(format!(
            "{} has no line of an access log since then: give the directory log of an instance, or a longer \
             --since",
            directory.display()
        )));
    }
    Ok(usage)
}

fn refused(path: &Path, error: &planner::SiteError) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

fn section(text: &str) -> Result<Section, String> {
    let named = |section: &&Section| section.to_string() == text;
    Section::ALL.iter().find(named).copied().ok_or_else(|| {
        let names: Vec<String> = Section::ALL.iter().map(ToString::to_string).collect();
        format!("'{text}' is no section: one of {}", names.join(", "))
    })
}

fn shown<'a>(plan: &'a Plan, only: &'a [Section]) -> impl Iterator<Item = &'a Line> {
    plan.lines.iter().filter(move |line| only.is_empty() || only.contains(&line.section))
}

fn in_words(plan: &Plan, args: &Args) -> String {
    let mut text = format!("{}\n", plan.site);
    if let Some(bottleneck) = &plan.bottleneck {
        text.push_str(&wrapped("", "used up first, ", bottleneck));
    }
    for section in Section::ALL {
        let lines: Vec<&Line> = shown(plan, &args.only).filter(|line| line.section == section).collect();
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}\n\n", capital(&section.to_string())));
        text.push_str(&if args.brief { brief(plan, &lines) } else { in_full(plan, &lines) });
    }
    if !args.brief && args.only.is_empty() {
        text.push_str("\nAssumptions\n\n");
        ASSUMPTIONS.iter().for_each(|sentence| text.push_str(&wrapped("  ", "- ", sentence)));
    }
    text
}

fn brief(plan: &Plan, lines: &[&Line]) -> String {
    let mut table = Table::new(&["of", "figure", ">value", ""]);
    for line in lines {
        let verdict = verdict(line).unwrap_or("").to_owned();
        table.row(vec![line.subject.clone(), line.name.clone(), value(plan, line), verdict]);
    }
    table.render()
}

fn in_full(plan: &Plan, lines: &[&Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let of = if line.subject.is_empty() { String::new() } else { format!("{}: ", line.subject) };
        let verdict = verdict(line).map_or_else(String::new, |verdict| format!(" ({verdict})"));
        text.push_str(&format!("  {of}{}: {}{verdict}\n", line.name, value(plan, line)));
        if !line.reason.is_empty() {
            text.push_str(&wrapped("      ", "", &line.reason));
        }
        if !line.formula.is_empty() {
            text.push_str(&wrapped("      ", "", &line.formula));
        }
        let equals = if line.inputs.is_empty() { "" } else { "= " };
        text.push_str(&wrapped("      ", equals, &line.figures));
        let symbols: Vec<String> =
            line.inputs.iter().map(|input| format!("{} {}", input.symbol, input.meaning)).collect();
        let symbols = if symbols.is_empty() { String::new() } else { format!("{}. ", symbols.join(", ")) };
        text.push_str(&wrapped("      ", "", &format!("{symbols}[{}]", line.source)));
    }
    text
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn value(plan: &Plan, line: &Line) -> String {
    match (line.unit, &plan.currency) {
        (Unit::Money, Some(currency)) => format!("{} {currency}", line.text),
        _ => line.text.clone(),
    }
}

fn verdict(line: &Line) -> Option<&'static str> {
    match line.verdict? {
        Verdict::Meets => Some("enough"),
        Verdict::Busy => Some("busy: waits grow"),
        Verdict::Misses => Some("TOO LITTLE"),
        _ => None,
    }
}

fn verdict_name(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Meets => Some("meets"),
        Verdict::Busy => Some("busy"),
        Verdict::Misses => Some("misses"),
        _ => None,
    }
}

/// Words in lines that fit, the first behind a mark, all behind an indent.
fn wrapped(indent: &str, mark: &str, words: &str) -> String {
    let mut text = format!("{indent}{mark}");
    let mut column = text.chars().count();
    let behind = column;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        if column > behind && column + 1 + width > WIDTH {
            text.push_str(&format!("\n{}", " ".repeat(behind)));
            column = behind;
        } else if column > behind {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
    text
}

fn as_json(plan: &Plan, only: &[Section]) -> Value {
    let unit = |unit: Unit| match (unit, &plan.currency) {
        (Unit::Money, Some(currency)) => currency.clone(),
        (unit, _) => unit.name().to_owned(),
    };
    let input = |input: &Input| {
        json!({
            "symbol": input.symbol, "meaning": input.meaning, "value": input.value, "unit": unit(input.unit),
        })
    };
    let line = |line: &Line| {
        json!({
            "section": line.section.to_string(),
            "subject": line.subject,
            "name": line.name,
            "value": line.value,
            "unit": unit(line.unit),
            "text": value(plan, line),
            "formula": line.formula,
            "figures": line.figures,
            "source": line.source,
            "inputs": line.inputs.iter().map(input).collect::<Vec<_>>(),
            "verdict": line.verdict.and_then(verdict_name),
            "reason": line.reason,
        })
    };
    json!({
        "site": plan.site,
        "currency": plan.currency,
        "bottleneck": plan.bottleneck,
        "lines": shown(plan, only).map(line).collect::<Vec<_>>(),
        "assumptions": ASSUMPTIONS,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use planner::ForHitRate;

    use super::*;

    const TIER1: &str = include_str!("../../../../examples/sites/tier1.toml");

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        CommandLine::try_parse_from(["site", "x.toml"].iter().chain(words)).unwrap().args
    }

    fn tier1() -> Plan {
        planner::plan(&Site::parse(TIER1).unwrap()).unwrap()
    }

    #[test]
    fn the_text_has_every_figure_with_its_formula() {
        let plan = tier1();
        let full = in_words(&plan, &args(&[]));
        assert!(full.lines().all(|line| line.chars().count() <= WIDTH + 12), "{full}");
        for line in &plan.lines {
            assert!(full.contains(&line.name) && full.contains(&line.text), "{}", line.name);
        }
        // 95.4 % of the drives were called enough, and 9.977e-13 s waited for one.
        let brief = in_words(&plan, &args(&["--brief"]));
        let busiest = brief.lines().find(|line| line.contains("use of the drives on the busiest day"));
        assert!(busiest.is_some_and(|line| line.ends_with("TOO LITTLE")), "{brief}");
        assert!(full.contains("too little from 90 % on; the mean wait is"), "{full}");
        assert!(!full.contains("e-1") && !brief.contains("e-1") && brief.contains("< 1 ns"), "{full}");
        assert!(full.contains("N = (W / v_w + R / v_eff) / 86400") && full.contains("[SDSC"));
        assert!(full.contains("EUR") && full.contains("used up first, mean day: "));
        let brief = in_words(&plan, &args(&["--brief"]));
        assert!(brief.lines().count() * 2 < full.lines().count());
        let only = in_words(&plan, &args(&["--only", "robots"]));
        assert!(only.contains("Robots") && !only.contains("Cache"));
        assert!(CommandLine::try_parse_from(["site", "x.toml", "--only", "ships"]).is_err());
    }

    #[test]
    fn json_has_every_line_with_its_inputs() {
        let plan = tier1();
        let found = as_json(&plan, &[]);
        let lines = found["lines"].as_array().unwrap();
        assert_eq!(lines.len(), plan.lines.len());
        let line = lines.iter().find(|line| line["name"] == "use of the drives").unwrap();
        assert_eq!(line["formula"], "U = N / c");
        assert_eq!(line["inputs"][1]["value"], 64.0);
        assert!(line["verdict"].is_string() && line["value"].is_number());
        let money = lines.iter().find(|line| line["name"] == "energy a year").unwrap();
        assert_eq!(money["unit"], "EUR");
        assert!(as_json(&plan, &[Section::Cost])["lines"].as_array().unwrap().len() < 10);
    }

    /// The log of the format's example, and what it makes of a site without classes.
    #[test]
    fn a_log_gives_the_workload() {
        let dir = tempfile::tempdir().unwrap();
        let nobody = logged(dir.path(), Span::parse("90d").unwrap(), Timestamp(0)).unwrap_err();
        assert!(nobody.message.contains("no line of an access log"), "{nobody}");
        assert!(logged(&dir.path().join("not"), Span::parse("90d").unwrap(), Timestamp(0)).is_err());
        let golden = include_str!("../../../journal/src/access/golden/access-1.log");
        std::fs::write(dir.path().join("access.log"), golden).unwrap();
        let lines = golden.lines().filter_map(|line| journal::decode::<usage::Access>(line.as_bytes()).ok());
        let last = lines.map(|access| access.at).max().unwrap();
        let usage = logged(dir.path(), Span::parse("90d").unwrap(), Timestamp(last.0 + 1)).unwrap();
        let mut measured: Vec<ClassWorkload> =
            usage.workloads().iter().map(ClassWorkload::measured).collect();
        measured[0].for_hit_rates = vec![ForHitRate { hit_rate: 0.9, days: 12.0, space: 3e12 }];
        assert!(!measured.is_empty() && measured.iter().any(|class| class.written_per_day > 0.0));
        let mut site = Site::parse("name = \"x\"\n[tape]\ndrive = \"LTO-9\"").unwrap();
        site.take_measured(&measured);
        let plan = planner::plan(&site).unwrap();
        assert!(plan.value(&measured[0].name, "written to tape").is_some());
        // Story: the classes of an example were planned beside the measured ones, and nobody said so.
        let example = Site::parse(TIER1).unwrap();
        let note = from_file(&example, &measured, Path::new("tier1.toml")).unwrap();
        assert!(note.starts_with(&format!("measured: {}", measured[0].name)), "{note}");
        assert!(example.classes.iter().all(|class| note.contains(&class.name)), "{note}");
        assert_eq!(from_file(&site, &measured, Path::new("x")), None, "all of it is measured");
        let said = in_words(&plan, &args(&["--only", "cache"]));
        assert!(said.contains("cache to serve 90 % of the reads: 3 TB"), "{said}");
        assert!(said.contains("each file stays 12 d after its last use"), "{said}");
    }

    #[test]
    fn a_missing_or_wrong_file_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.toml");
        let message = |path: &PathBuf| read(path).unwrap_err().message;
        assert!(message(&path).contains("site.toml"));
        std::fs::write(&path, "nane = \"x\"").unwrap();
        assert!(message(&path).contains("nane"), "{}", message(&path));
        std::fs::write(&path, " ".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert!(message(&path).contains("too large"));
    }
}
