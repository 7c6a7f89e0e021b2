//! `kist plan durability`.

use config::Size;
use durability::{
    ASSUMPTIONS, Assessment, Code, Inputs, Line, Method, Placement, Simulation, SplitMix, Spread, WindowShape,
};
use serde_json::{Value, json};
use terminal::{Failure, Outcome, Table, output, text};

use crate::cli::Common;

/// Below so many losses a simulation is not compared with the closed form.
const EVENTS_COMPARED_MIN: u64 = 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every figure is printed with its formula, the numbers put in, and what it takes
for granted; docs/reference/durability.md explains the model. With --simulate a
pool with Kist's own placement loses drives and data for so many years, beside
the closed form. Good layouts lose nothing in any time that can be simulated:
compare with a high --afr and a small layout.

Examples:
  kist plan durability --layout 12+4 --drives 84 --afr 1.36% --scatter 60
  kist plan durability --layout 12+2+2 --drives 1512 --bandwidth 28.8GB --json
  kist plan durability --layout 4+2 --drives 40 --afr 50% --window 200h --simulate 10000")]
pub struct Args {
    /// Shards of a stripe: data+parity, or data+local+global parities
    #[arg(long, default_value = "12+4", value_parser = layout)]
    layout: Code,
    /// Drives in the pool
    #[arg(long, default_value_t = 84)]
    drives: u32,
    /// Failures per drive and year, as 1.36% or 0.0136
    #[arg(long, default_value = "1.36%", value_parser = share, value_name = "RATE")]
    afr: f64,
    /// Bytes on a drive
    #[arg(long, default_value = "20TB", value_parser = Size::parse, value_name = "SIZE")]
    drive_size: Size,
    /// Sequential bytes per second of a drive
    #[arg(long, default_value = "200MB", value_parser = Size::parse, value_name = "SIZE")]
    drive_speed: Size,
    /// The share of each drive's speed that a rebuild gets
    #[arg(long, default_value = "50%", value_parser = share, value_name = "SHARE")]
    rebuild_share: f64,
    /// Scatter width: drives that take part in a rebuild [default: as Kist's placement gives]
    #[arg(long, value_name = "DRIVES")]
    scatter: Option<u32>,
    /// Distinct groups of drives that hold stripes [default: what goes with the scatter width]
    #[arg(long)]
    groups: Option<u64>,
    /// Bytes per second that links allow all rebuild traffic together
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    bandwidth: Option<f64>,
    /// Shards read for one rebuilt [default: the layout's own number]
    #[arg(long, value_name = "NUMBER")]
    repair_reads: Option<f64>,
    /// One spare takes all that is rebuilt, in place of many drives
    #[arg(long)]
    hot_spare: bool,
    /// From the failure to the start of the rebuild
    #[arg(long, default_value = "1h", value_parser = hours, value_name = "SPAN")]
    detect: f64,
    /// From the failure to the end of the rebuild, in place of detection and rebuild time
    #[arg(long, value_parser = hours, value_name = "SPAN")]
    window: Option<f64>,
    /// Between two scrubs of a drive
    #[arg(long, default_value = "14d", value_parser = hours, value_name = "SPAN")]
    scrub: f64,
    /// Errors per bit read
    #[arg(long, default_value_t = 1e-15, value_name = "RATE")]
    bit_errors: f64,
    /// Sectors that go bad unnoticed, per drive and year
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER")]
    latent: f64,
    /// Simulate so many years
    #[arg(long, value_name = "YEARS")]
    simulate: Option<f64>,
    /// Seed of placement and simulation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Enclosures over which the simulated drives are spread
    #[arg(long, default_value_t = 1)]
    enclosures: u32,
    /// Simulated rebuilds take an exponential time, as in a Markov chain
    #[arg(long)]
    exponential: bool,
}

/// What was simulated.
struct Simulated {
    placement: Placement,
    seen: Simulation,
    /// Losses per group and year by the closed form, at the mean window that the simulation saw.
    expected: f64,
    expected_latent: f64,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let inputs = args.inputs();
    let found = durability::assess(&inputs).map_err(usage)?;
    let simulated = args.simulate.map(|years| simulate(args, &inputs, years)).transpose()?;
    if common.json {
        return output::json(&as_json(args, &inputs, &found, simulated.as_ref()));
    }
    let mut text = headline(&found);
    text.push_str("\nModel\n");
    for line in durability::explain(&inputs, &found) {
        text.push_str(&format!("\n  {}\n    {}\n    {}\n", line.name, line.formula, line.figures));
    }
    text.push_str("\nAssumptions\n\n");
    ASSUMPTIONS.iter().for_each(|assumption| text.push_str(&wrapped(assumption)));
    if let Some(simulated) = &simulated {
        text.push_str(&simulation_text(args, &inputs, simulated));
    }
    output::write(&text)
}

impl Args {
    fn inputs(&self) -> Inputs {
        Inputs {
            code: self.layout,
            drives: self.drives,
            afr: self.afr,
            drive_bytes: self.drive_size.0.0 as f64,
            drive_speed: self.drive_speed.0.0 as f64,
            rebuild_share: self.rebuild_share,
            method: if self.hot_spare { Method::HotSpare } else { Method::Declustered },
            scatter: self.scatter,
            groups: self.groups,
            bandwidth: self.bandwidth,
            repair_reads: self.repair_reads,
            detection_hours: self.detect,
            window_hours: self.window,
            scrub_hours: self.scrub,
            bit_error_rate: self.bit_errors,
            latent_per_year: self.latent,
        }
    }
}

fn simulate(args: &Args, inputs: &Inputs, years: f64) -> Outcome<Simulated> {
    let placement = Placement::new(inputs.code, inputs.drives, args.enclosures, args.seed).map_err(usage)?;
    let shape = if args.exponential { WindowShape::Exponential } else { WindowShape::Fixed };
    let mut random = SplitMix::new(args.seed);
    let seen = durability::simulate(inputs, &placement, years, shape, &mut random).map_err(usage)?;
    let alike = Inputs {
        window_hours: Some(seen.window_hours.max(f64::MIN_POSITIVE)),
        groups: Some(placement.groups.len() as u64),
        ..inputs.clone()
    };
    let closed = durability::assess(&alike).map_err(usage)?;
    Ok(Simulated { placement, seen, expected: closed.stationary, expected_latent: closed.latent_yearly })
}

fn headline(found: &Assessment) -> String {
    let mut table = Table::new(&["", "of a group", "of the pool"]);
    let mut row = |name: &str, group: String, pool: String| table.row(vec![name.to_owned(), group, pool]);
    let groups = found.groups;
    row("distinct groups of drives", "1".to_owned(), text::count(groups.round() as u64));
    row("loss a year, drives alone", sci(found.windowed), sci(found.pool_drives));
    row(
        "loss a year, with unreadable places",
        sci(found.windowed + found.latent_yearly),
        sci(found.pool_all),
    );
    row("nines, drives alone", nines(-found.windowed.log10()), nines(-found.pool_drives.log10()));
    row("nines, with unreadable places", String::new(), nines(found.nines_pool()));
    row("expected loss a year", String::new(), amount(found.bytes_drives + found.bytes_latent));
    row("nines of a byte", String::new(), nines(found.nines_byte()));
    let rebuild = &found.rebuild;
    let bound = if rebuild.is_bounded { ", bounded by links" } else { "" };
    format!(
        "rebuild of a drive: {:.2} h, reads {}, writes {}{bound}; {:.2} h from failure to end\n\n{}",
        rebuild.hours,
        text::size(rebuild.read_bytes as u64),
        text::size(rebuild.written_bytes as u64),
        rebuild.window_hours,
        table.render()
    )
}

fn simulation_text(args: &Args, inputs: &Inputs, simulated: &Simulated) -> String {
    let (seen, placement) = (&simulated.seen, &simulated.placement);
    let mut table = Table::new(&["", "events", "a year, 99 % interval", "closed form", "verdict"]);
    let mut row = |name: &str, spread: &Spread, expected: Option<f64>| {
        table.row(vec![
            name.to_owned(),
            text::count(spread.events),
            format!("{:.3e} ± {:.1e}", spread.mean, spread.half),
            expected.map_or_else(String::new, |rate| format!("{rate:.3e}")),
            expected.map_or("", |rate| verdict(spread, rate)).to_owned(),
        ]);
    };
    row("losses of a group", &seen.group_losses, Some(simulated.expected));
    row("last rebuilds with an unreadable place", &seen.latent_losses, Some(simulated.expected_latent));
    row("losses in the pool, any group", &seen.pool_losses, None);
    let partners = placement.partners.iter().sum::<usize>() as f64 / placement.partners.len() as f64;
    format!(
        "\nSimulation of {} years, seed {}\n\n  \
         {} failures, {:.2} h from failure to end on average; {} groups, \
         {partners:.1} drives take part, \
         at most {} of {} in one enclosure\n\n{}",
        seen.years,
        args.seed,
        text::count(seen.failures),
        seen.window_hours,
        text::count(seen.groups as u64),
        placement.together_max,
        inputs.code.width(),
        table.render()
    )
}

fn verdict(spread: &Spread, rate: f64) -> &'static str {
    match () {
        () if spread.events < EVENTS_COMPARED_MIN => "too few to tell",
        () if spread.contains(rate) => "agrees",
        () => "differs",
    }
}

fn as_json(args: &Args, inputs: &Inputs, found: &Assessment, simulated: Option<&Simulated>) -> Value {
    let model = durability::explain(inputs, found);
    let line = |line: &Line| json!({"name": line.name, "formula": line.formula, "figures": line.figures});
    let rebuild = &found.rebuild;
    json!({
        "layout": inputs.code.to_string(),
        "drives": inputs.drives,
        "afr": inputs.afr,
        "drive_bytes": inputs.drive_bytes,
        "drive_bytes_per_second": inputs.drive_speed,
        "rebuild_share": inputs.rebuild_share,
        "scrub_hours": inputs.scrub_hours,
        "bit_error_rate": inputs.bit_error_rate,
        "latent_per_drive_year": inputs.latent_per_year,
        "detection_hours": inputs.detection_hours,
        "rebuild": {
            "participants": rebuild.participants,
            "reads_per_shard": rebuild.reads,
            "read_bytes": rebuild.read_bytes,
            "written_bytes": rebuild.written_bytes,
            "bytes_per_second": rebuild.bandwidth,
            "bounded_by_links": rebuild.is_bounded,
            "hours": rebuild.hours,
            "window_hours": rebuild.window_hours,
        },
        "group": {
            "loss_windowed": found.windowed,
            "loss_leading_term": found.leading,
            "loss_stationary": found.stationary,
            "loss_no_repair": found.no_repair,
            "mttdl_years": found.mttdl_parallel,
            "mttdl_years_approximate": found.mttdl_leading,
            "mttdl_years_serial": found.mttdl_serial,
            "loss_first_year": found.first_year_parallel,
            "loss_first_year_serial": found.first_year_serial,
            "latent_per_shard": found.latent.expected(),
            "last_rebuild_meets_latent": found.latent_yearly,
        },
        "pool": {
            "groups": found.groups,
            "stored_bytes": found.stored_bytes,
            "loss_drives": found.pool_drives,
            "loss": found.pool_all,
            "nines": found.nines_pool(),
            "nines_byte": found.nines_byte(),
            "bytes_lost_drives": found.bytes_drives,
            "bytes_lost_latent": found.bytes_latent,
        },
        "simulation": simulated.map(|simulated| simulation_json(args, simulated)),
        "model": model.iter().map(line).collect::<Vec<_>>(),
        "assumptions": ASSUMPTIONS,
    })
}

fn simulation_json(args: &Args, simulated: &Simulated) -> Value {
    let seen = &simulated.seen;
    let spread = |spread: &Spread, expected: Option<f64>| {
        json!({
            "events": spread.events,
            "mean": spread.mean,
            "half_interval_99": spread.half,
            "closed_form": expected,
            "verdict": expected.map(|rate| verdict(spread, rate)),
        })
    };
    json!({
        "years": seen.years,
        "seed": args.seed,
        "failures": seen.failures,
        "groups": seen.groups,
        "window_hours": seen.window_hours,
        "group_losses": spread(&seen.group_losses, Some(simulated.expected)),
        "latent_losses": spread(&seen.latent_losses, Some(simulated.expected_latent)),
        "pool_losses": spread(&seen.pool_losses, None),
        "bytes_lost": seen.bytes_lost,
        "together_max": simulated.placement.together_max,
    })
}

/// A sentence as an item of a list, in lines that fit.
fn wrapped(sentence: &str) -> String {
    const WIDTH: usize = 100;
    let mut text = String::from("  -");
    let mut column = 3;
    for word in sentence.split_whitespace() {
        if column + 1 + word.len() > WIDTH {
            text.push_str("\n   ");
            column = 3;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.len();
    }
    text.push('\n');
    text
}

/// An amount that may be a part of a byte.
fn amount(value: f64) -> String {
    match value {
        value if value >= 1.0 => text::size(value as u64),
        value if value >= 1e-3 => format!("{value:.3} B"),
        _ => "< 0.001 B".to_owned(),
    }
}

fn sci(value: f64) -> String {
    format!("{value:.1e}")
}

/// Not below 0, and no minus before it.
fn nines(value: f64) -> String {
    format!("{:.1}", value.max(0.0) + 0.0)
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::usage(error.to_string())
}

fn layout(text: &str) -> Result<Code, String> {
    Code::parse(text).ok_or_else(|| {
        format!("'{text}' is no layout: 12+4, or 12+2+2 with local and global parities, at most 255 shards")
    })
}

/// `1.36%` or `0.0136`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number / scale),
        _ => Err(format!("'{text}' is no share: write 1.36% or 0.0136")),
    }
}

/// A size, with a fraction if need be: `28.8GB`.
fn bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let wrong = || format!("'{text}' is no size: write 6.4GB");
    let unit = UNITS.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)));
    let (number, scale) = unit.ok_or_else(wrong)?;
    let number: f64 = number.trim_end().parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 { Ok(number * scale) } else { Err(wrong()) }
}

/// A span in hours, with a fraction if need be: `88.6h`, `14d`, `90min`.
fn hours(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] = [("min", 1.0 / 60.0), ("h", 1.0), ("d", 24.0), ("w", 168.0)];
    let wrong = || format!("'{text}' is no span: write 90min, 88.6h, 14d or 2w");
    let unit = UNITS.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)));
    let (number, scale) = unit.ok_or_else(wrong)?;
    let number: f64 = number.trim_end().parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 { Ok(number * scale) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        CommandLine::try_parse_from(["plan"].iter().chain(words)).unwrap().args
    }

    fn near(found: &Result<f64, String>, value: f64) -> bool {
        found.as_ref().is_ok_and(|found| (found / value - 1.0).abs() < 1e-12)
    }

    /// `1.9e-2` bytes were expected to be lost.
    #[test]
    fn bytes_have_a_unit_and_no_exponent() {
        assert_eq!([1.9e-2, 3e-9, 0.0].map(amount), ["0.019 B", "< 0.001 B", "< 0.001 B"]);
        assert_eq!(amount(2e9), text::size(2_000_000_000));
    }

    #[test]
    fn figures_are_read_with_their_units() {
        assert!(near(&share("1.36%"), 0.0136) && near(&share("0.0136"), 0.0136));
        assert!(near(&bytes("28.8GB"), 28.8e9) && near(&bytes("6 TB"), 6e12));
        assert!(near(&hours("88.6h"), 88.6) && near(&hours("14d"), 336.0) && near(&hours("90min"), 1.5));
        assert!(["", "%", "-1%", "inf", "NaN"].iter().all(|bad| share(bad).is_err()));
        assert!(["", "6", "GB", "-1GB", "infGB"].iter().all(|bad| bytes(bad).is_err()));
        assert!(["", "1", "h", "-1h", "NaNd"].iter().all(|bad| hours(bad).is_err()));
        assert!(layout("12+4").is_ok() && layout("12").is_err());
    }

    /// The two figures of one archive: what docs/reference/durability.md shows.
    #[test]
    fn both_published_figures_come_out_of_one_command() {
        let args = args(&["--layout", "12+4", "--drives", "1512", "--afr", "1.17%", "--window", "88.6h"]);
        let inputs = args.inputs();
        let found = as_json(&args, &inputs, &durability::assess(&inputs).unwrap(), None);
        assert_eq!(format!("{:.1e}", found["group"]["loss_no_repair"].as_f64().unwrap()), "8.6e-7");
        assert_eq!(format!("{:.1e}", found["group"]["loss_windowed"].as_f64().unwrap()), "5.0e-14");
        assert!(found["assumptions"].as_array().unwrap().len() > 5);
        assert!(found["simulation"].is_null());
    }

    #[test]
    fn a_simulation_is_compared_and_repeats_itself() {
        let words = "--layout 4+2 --drives 12 --afr 50% --window 200h --simulate 3000 --seed 3";
        let args = args(&words.split(' ').collect::<Vec<_>>());
        let inputs = args.inputs();
        let once = simulate(&args, &inputs, 3000.0).unwrap();
        let text = simulation_text(&args, &inputs, &once);
        assert!(text.contains("agrees") && !text.contains("differs"), "{text}");
        let again = simulate(&args, &inputs, 3000.0).unwrap();
        assert_eq!(text, simulation_text(&args, &inputs, &again));
    }

    #[test]
    fn impossible_pools_are_wrong_usage() {
        let inputs = args(&["--drives", "15"]).inputs();
        let failure = durability::assess(&inputs).map_err(usage).unwrap_err();
        assert!(failure.message.contains("needs 16 drives"), "{failure}");
    }

    #[test]
    fn sentences_are_wrapped() {
        let text = wrapped(ASSUMPTIONS[0]);
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= 100), "{text}");
    }
}
