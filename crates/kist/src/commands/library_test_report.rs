//! What `kist library test` prints: for people, for programs, and for a vendor.

use std::fmt::Write as _;
use std::time::Duration;

use acceptance::{AcceptanceReport, DriveFacts, Figure, Step, Unit, Verdict};
use base::Vid;
use library::DriveName;
use library::scsi::changer::ChangerReport;
use serde_json::{Value, json};
use terminal::{Table, text};

/// What was tested, and where.
pub struct Tested {
    begun: String,
    host: String,
    kernel: String,
    processor: String,
    tape: Vid,
    /// Each drive.
    pub drives: Vec<(DriveName, AcceptanceReport)>,
}

impl Tested {
    /// A test that begins now.
    pub fn new(tape: Vid) -> Tested {
        let of_kernel = |name: &str| {
            let read = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            read.unwrap_or_default().trim().to_owned()
        };
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Tested {
            begun: text::rfc3339(text::now()),
            host: of_kernel("hostname"),
            kernel: format!("{} {}", of_kernel("ostype"), of_kernel("osrelease")),
            processor: model.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
            tape,
            drives: Vec::new(),
        }
    }

    fn is_passed(&self) -> bool {
        self.drives.iter().all(|(_, report)| report.is_passed())
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "pass",
        Verdict::Failed { .. } => "FAIL",
        Verdict::NotOffered { .. } => "not offered",
        Verdict::NotRun { .. } => "not run",
    }
}

fn why(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Passed => None,
        Verdict::Failed { why, .. } | Verdict::NotOffered { why } | Verdict::NotRun { why } => Some(why),
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes/s",
        Unit::Seconds => "s",
        Unit::Times => "times",
        Unit::Sense => "sense key, code, qualifier",
    }
}

fn value(figure: &Figure) -> String {
    let Figure { value, unit, .. } = figure;
    match unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Bytes => text::size(*value as u64),
        Unit::BytesPerSecond => format!("{}/s", text::size(*value as u64)),
        Unit::Seconds => seconds(*value),
        Unit::Times => format!("× {value:.2}"),
        Unit::Sense => figure.sense().map_or_else(String::new, |sense| sense.to_string()),
    }
}

/// A span of a step or of a command of it: a flush takes microseconds, a tape hours.
fn seconds(value: f64) -> String {
    match value {
        below if below < 0.001 => format!("{:.0} µs", below * 1e6),
        below if below < 1.0 => format!("{:.1} ms", below * 1e3),
        short if short < 120.0 => format!("{short:.2} s"),
        long => text::span(Duration::try_from_secs_f64(long).unwrap_or(Duration::MAX)),
    }
}

/// What a step measured, a line each, and why it did not pass, first.
fn results(step: &Step) -> Vec<String> {
    let why = why(&step.verdict).map(str::to_owned);
    let figures = step.figures.iter().map(|figure| format!("{}: {}", figure.name, value(figure)));
    let all: Vec<String> = why.into_iter().chain(figures).collect();
    if all.is_empty() { vec!["-".to_owned()] } else { all }
}

/// For people.
pub fn text(tested: &Tested, report: &ChangerReport) -> String {
    let mut out = String::new();
    let Tested { begun, host, kernel, processor, tape, .. } = tested;
    let identity = &report.identity;
    // Writing into a String cannot fail.
    let _ = writeln!(out, "Test of a tape library by kist {}, begun {begun}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "  host {host}, {kernel}, {processor}");
    let _ = writeln!(
        out,
        "  library {} {}, revision {}, serial number {}, at {}",
        identity.vendor, identity.product, identity.revision, identity.serial, report.address
    );
    let _ = writeln!(out, "  tape {tape}");
    for (name, report) in &tested.drives {
        let _ = writeln!(out, "\n{name}: {}", if report.is_passed() { "pass" } else { "FAIL" });
        if let Some(drive) = &report.drive {
            drive_text(&mut out, drive);
        }
        let mut table = Table::new(&["step", "result", ">took", "figures, or why not"]);
        for step in &report.steps {
            let took = match &step.verdict {
                Verdict::NotRun { .. } => "-".to_owned(),
                _ => seconds(step.took.as_secs_f64()),
            };
            let mut lines = results(step).into_iter();
            let first = lines.next().unwrap_or_default();
            table.row(vec![step.name.to_owned(), word(&step.verdict).to_owned(), took, first]);
            lines.for_each(|line| table.row(vec![String::new(), String::new(), String::new(), line]));
        }
        let _ = write!(out, "\n{}", table.render());
    }
    out
}

fn drive_text(out: &mut String, drive: &DriveFacts) {
    let DriveFacts { vendor, product, revision, serial, generation, cartridge, cartridge_serial, abilities } =
        drive;
    let generation = generation.as_deref().unwrap_or("of no generation that is known");
    let _ = writeln!(out, "  {vendor} {product}, revision {revision}, serial number {serial}, {generation}");
    if let Some(cartridge) = cartridge {
        let serial = cartridge_serial.as_deref().unwrap_or("not told");
        let _ = writeln!(out, "  cartridge {cartridge}, serial number {serial}");
    }
    let _ = writeln!(out, "  can: {}", abilities.join(", "));
}

/// For programs.
pub fn json(tested: &Tested, report: &ChangerReport) -> Value {
    let drive = |(name, report): &(DriveName, AcceptanceReport)| {
        json!({
            "name": name.as_str(),
            "passed": report.is_passed(),
            "drive": report.drive.as_ref().map(drive_json),
            "steps": report.steps.iter().map(step_json).collect::<Vec<_>>(),
        })
    };
    let identity = &report.identity;
    json!({
        "kist": env!("CARGO_PKG_VERSION"),
        "begun": tested.begun,
        "host": tested.host,
        "kernel": tested.kernel,
        "processor": tested.processor,
        "library": {
            "vendor": identity.vendor,
            "product": identity.product,
            "revision": identity.revision,
            "serial": identity.serial,
            "address": report.address,
        },
        "tape": tested.tape.as_str(),
        "passed": tested.is_passed(),
        "drives": tested.drives.iter().map(drive).collect::<Vec<_>>(),
    })
}

fn drive_json(drive: &DriveFacts) -> Value {
    json!({
        "vendor": drive.vendor,
        "product": drive.product,
        "revision": drive.revision,
        "serial": drive.serial,
        "generation": drive.generation,
        "cartridge": drive.cartridge,
        "cartridge_serial": drive.cartridge_serial,
        "can": drive.abilities,
    })
}

fn step_json(step: &Step) -> Value {
    let sense = match &step.verdict {
        Verdict::Failed { sense: Some(sense), .. } => {
            json!({ "code": sense.digits(), "key": sense.key_name(), "meaning": sense.code_name() })
        }
        _ => Value::Null,
    };
    let verdict = match &step.verdict {
        Verdict::Passed => "pass",
        Verdict::Failed { .. } => "fail",
        Verdict::NotOffered { .. } => "not-offered",
        Verdict::NotRun { .. } => "not-run",
    };
    let figure = |figure: &Figure| {
        let unit = unit_word(figure.unit);
        json!({ "name": figure.name, "value": figure.value, "unit": unit })
    };
    json!({
        "name": step.name,
        "verdict": verdict,
        "why": why(&step.verdict),
        "sense": sense,
        "seconds": step.took.as_secs_f64(),
        "figures": step.figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use library::Sense;

    use super::*;

    fn step(verdict: Verdict, figures: Vec<Figure>) -> Step {
        Step { name: "locate", verdict, figures, took: Duration::from_millis(1_500) }
    }

    /// Story: sense codes came in decimal, flushes in `us`, and why a step was not run was far from its row.
    #[test]
    fn rows_say_what_was_measured_with_its_unit_and_why_a_step_did_not_pass() {
        let figure = |name: &str, value, unit| Figure { name: name.to_owned(), value, unit };
        let figures = vec![
            figure("flush of a block", 0.000_042, Unit::Seconds),
            figure("load", 0.25, Unit::Seconds),
            figure("longest", 95.0, Unit::Seconds),
            figure("way beside the model", 0.3, Unit::Times),
            figure("locates", 32.0, Unit::Count),
        ];
        let told = results(&step(Verdict::Passed, figures));
        let wanted = [
            "flush of a block: 42 µs",
            "load: 250.0 ms",
            "longest: 95.00 s",
            "way beside the model: × 0.30",
            "locates: 32",
        ];
        assert_eq!(told, wanted);
        assert_eq!(seconds(7_260.0), "2 h 01 min");
        let why = "'load' failed".to_owned();
        assert_eq!(results(&step(Verdict::NotRun { why }, Vec::new())), ["'load' failed"]);
        assert_eq!(results(&step(Verdict::Passed, Vec::new())), ["-"]);
    }

    #[test]
    fn sense_codes_are_those_of_the_standard() {
        let sense = Sense { key: 4, code: 0x53, qualifier: 0 };
        let why = sense.to_string();
        assert_eq!(why, "sense 4/53/00, hardware error: medium load or eject failed");
        let json = step_json(&step(Verdict::Failed { why, sense: Some(sense) }, Vec::new()));
        let (key, meaning) = ("hardware error", "medium load or eject failed");
        assert_eq!(json["sense"], json!({ "code": "4/53/00", "key": key, "meaning": meaning }));
        let vendors = Sense { key: 9, code: 0x80, qualifier: 0xa1 };
        assert_eq!(vendors.to_string(), "sense 9/80/A1, vendor specific");
    }

    /// Story: a refusal was told as "sense code of the refusal: 16".
    #[test]
    fn what_a_device_said_is_told_in_digits_and_words() {
        let sense = library::Sense { key: 0x5, code: 0x24, qualifier: 0x00 };
        let told = value(&Figure::of_sense("refused with", sense));
        assert_eq!(told, "sense 5/24/00, illegal request: invalid field in the command");
    }
}
