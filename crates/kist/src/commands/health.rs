//! `kist tape health` and `kist drive show`.

use terminal::{Outcome, Table, output, text};
use wire::{
    AlertReply, DriveContentReply, DriveFitReply, DriveMountReply, HealthPairReply, HealthReply,
    HealthRowReply, ReadOrderReply,
};

use crate::cli::Common;

/// What the verdicts are.
pub const HELP: &str = "\
At the end of each mount the drive is asked for its error counters and TapeAlert
flags. Of each tape in each drive the newest 8 mounts count. Conspicuous are
errors that could not be corrected; TapeAlert flags 1 to 6; ten times as many
corrected errors a GB as usual; and less than half of the usual write rate. Usual
is the median of all tapes in drives of the same model.
  bad             a drive that does badly with 3 tapes or more that do well in
                  other drives, and with at least half of its tapes; a tape that
                  does badly in 2 drives or more that do well with other tapes;
                  or one that says itself that it is (TapeAlert 30, 31, 38, 39
                  of a drive, 7 and 15 of a tape, in the last 5 mounts)
  doubtful        something is conspicuous with a quarter of its partners or
                  more, and it cannot be said whose fault it is. Errors that
                  could not be corrected and flags count from the first mount on,
                  corrected errors from 1 GB on
  well            nothing speaks against it
  too-few-mounts  nothing is conspicuous, and less than 1 GB was moved with each of 3 tapes (a drive) or in
                  one drive (a tape), or the drives tell no error counters

Examples:
  kist tape health
  kist tape health KS0001 --json
  kist drive show vdrive0";

/// Runs `kist tape health`.
pub fn tapes(vid: Option<&str>, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let asked = vid.map_or_else(String::new, |vid| format!("?vid={}", text::encode(vid)));
    let health: HealthReply = client.get(&format!("/api/v1/report/health{asked}"))?;
    if common.json {
        return output::json(&health);
    }
    if health.tapes.is_empty() {
        return output::line("no mount has ended in the last 90 days: nothing is known");
    }
    output::write(&rows_table("tape", ">drives", &health.tapes))?;
    if vid.is_some() {
        output::line("")?;
        return output::write(&pairs_table("drive", &health.pairs, |pair| &pair.drive));
    }
    output::line("")?;
    output::write(&rows_table("drive", ">tapes", &health.drives))
}

/// Runs `kist drive show`.
pub fn drive(name: &str, common: &Common) -> Outcome {
    let target = format!("/api/v1/drives/{}", text::encode(name));
    let content: DriveContentReply = common.connection.client()?.get(&target)?;
    if common.json {
        return output::json(&content);
    }
    output::write(&summary(&content))?;
    if content.mounts.is_empty() {
        return output::line("no mount has ended in the last 90 days");
    }
    output::line("")?;
    output::write(&pairs_table("tape", &content.tapes, |pair| &pair.vid))?;
    output::line("")?;
    output::line("last mounts:")?;
    output::write(&mounts_table(&content.mounts))
}

fn summary(content: &DriveContentReply) -> String {
    let DriveContentReply { drive, product, health, mounts, .. } = content;
    let tape = match (&drive.vid, &drive.tape_pool) {
        (Some(vid), Some(pool)) => format!("{vid} (tape pool {pool})"),
        (Some(vid), None) => vid.clone(),
        (None, _) => "-".to_owned(),
    };
    let state = match drive.reason.as_str() {
        "" => drive.state.clone(),
        reason => format!("{} ({reason})", drive.state),
    };
    let not_told = || "not known before a mount has ended".to_owned();
    let of = |pick: fn(&wire::DriveProductReply) -> String| product.as_ref().map_or_else(not_told, pick);
    let verdict = health.as_ref().map_or_else(
        || "not known: no mount has ended in the last 90 days".to_owned(),
        |health| format!("{}: {}", health.verdict, health.reason),
    );
    let alerts = mounts.iter().find(|mount| !mount.alerts.is_empty());
    let alerts = alerts.map_or_else(
        || "none".to_owned(),
        |mount| {
            let ended = text::whole_seconds(&mount.ended);
            format!("{} (with tape {}, {ended})", alerts_text(&mount.alerts), mount.vid)
        },
    );
    let can = match &content.abilities[..] {
        [] => "not known before the first mount since the start".to_owned(),
        abilities => abilities.join(", "),
    };
    let celsius = mounts.iter().find_map(|mount| mount.celsius);
    let lines = [
        ("drive", drive.name.clone()),
        ("library", drive.library.clone()),
        ("product", of(|it| format!("{} {}", it.vendor, it.product))),
        ("serial number", of(|it| it.serial.clone())),
        ("firmware", of(|it| it.firmware.clone())),
        ("element", or_dash(content.element.map(|element| element.to_string()))),
        ("abilities", can),
        ("state", state),
        ("tape", tape),
        ("health", verdict),
        ("last alerts", alerts),
        ("cleaning", cleaning_text(content)),
        ("last cleaned", or_dash(content.cleaned.as_deref().map(text::whole_seconds))),
        ("temperature", or_dash(celsius.map(|it| format!("{it} °C")))),
    ];
    let fits = content.fits.iter().map(|fit| ("locates", fit_text(fit)));
    lines.into_iter().chain(fits).map(|(name, value)| format!("{name:<14} {value}\n")).collect()
}

/// Whether it is to be cleaned, and when.
fn cleaning_text(content: &DriveContentReply) -> String {
    let alert = content.cleaning.as_ref().map(|alert| alerts_text(std::slice::from_ref(alert)));
    let when = match content.asks_cleaning.as_deref() {
        None => return alert.unwrap_or_else(|| "not asked for".to_owned()),
        Some("idle") => "asked for: when nothing waits",
        Some(_) => "asked for: before its next mount",
    };
    alert.map_or_else(|| when.to_owned(), |alert| format!("{when} ({alert})"))
}

/// What the locates say of the drive.
fn fit_text(fit: &DriveFitReply) -> String {
    let DriveFitReply { model, medium, fixed, way, samples, error, at } = fit;
    let with = if medium == model { model.clone() } else { format!("{model} with {medium}") };
    format!(
        "as {with}: fixed part × {fixed:.2}, way × {way:.2}; off by {:.0} % (median of {} locates, {})",
        error * 100.0,
        text::count(*samples),
        text::whole_seconds(at),
    )
}

/// The headings of errors: those that the drive corrected itself, and those that it could not.
const ERRORS: [&str; 2] = [">corrected errors", ">uncorrected errors"];

fn rows_table(name: &str, partners: &str, rows: &[HealthRowReply]) -> String {
    let [corrected, uncorrected] = ERRORS;
    let headings = [name, "health", ">mounts", partners, ">moved", corrected, uncorrected, "why"];
    let mut table = Table::new(&headings);
    for row in rows {
        table.row(vec![
            row.name.clone(),
            row.verdict.clone(),
            text::count(row.mounts),
            text::count(row.partners),
            text::size(row.bytes),
            count(row.corrected),
            count(row.uncorrected),
            row.reason.clone(),
        ]);
    }
    table.render()
}

fn pairs_table(
    heading: &str,
    pairs: &[HealthPairReply],
    name: impl Fn(&HealthPairReply) -> &String,
) -> String {
    let [corrected, uncorrected] = ERRORS;
    let headings = [
        heading,
        ">mounts",
        "last mount ended",
        ">moved",
        corrected,
        ">corrected per GB",
        uncorrected,
        ">write rate",
        "conspicuous",
    ];
    let mut table = Table::new(&headings);
    for pair in pairs {
        let symptoms: Vec<&str> = pair.symptoms.iter().map(|symptom| symptom.text.as_str()).collect();
        table.row(vec![
            name(pair).clone(),
            text::count(pair.mounts),
            text::whole_seconds(&pair.last),
            text::size(pair.bytes),
            count(pair.corrected),
            or_dash(pair.corrected_per_gb.map(|rate| format!("{rate:.2}"))),
            count(pair.uncorrected),
            rate(pair.write_rate),
            if symptoms.is_empty() { "-".to_owned() } else { symptoms.join("; ") },
        ]);
    }
    table.render()
}

fn mounts_table(mounts: &[DriveMountReply]) -> String {
    let [corrected, uncorrected] = ERRORS;
    let headings = [
        "ended",
        "tape",
        "purpose",
        ">moved",
        ">write rate",
        corrected,
        uncorrected,
        "read in order of",
        "alerts",
        "failure",
    ];
    let mut table = Table::new(&headings);
    for mount in mounts {
        table.row(vec![
            text::whole_seconds(&mount.ended),
            mount.vid.clone(),
            mount.purpose.clone(),
            text::size(mount.bytes),
            rate(mount.write_rate),
            count(mount.corrected),
            count(mount.uncorrected),
            or_dash(mount.order.as_ref().map(order_text)),
            if mount.alerts.is_empty() { "-".to_owned() } else { alerts_text(&mount.alerts) },
            or_dash(mount.failed.clone()),
        ]);
    }
    table.render()
}

/// Whose orders were read, and what both cost by the model.
fn order_text(order: &ReadOrderReply) -> String {
    let ReadOrderReply { compared, drives, own_seconds, drive_seconds, failed } = order;
    let whose = match (*drives, *compared) {
        (0, _) => "Kist".to_owned(),
        (drives, compared) if drives == compared => "the drive".to_owned(),
        (drives, compared) => format!("the drive {} of {}", text::count(drives), text::count(compared)),
    };
    let costs = format!("drive's {drive_seconds:.0} s, Kist's {own_seconds:.0} s");
    match (*compared, *failed) {
        (0, _) => format!("{whose} (the drive gave none)"),
        (_, 0) => format!("{whose} ({costs})"),
        (_, failed) => format!("{whose} ({costs}; {} failed)", text::count(failed)),
    }
}

fn alerts_text(alerts: &[AlertReply]) -> String {
    let texts: Vec<String> =
        alerts.iter().map(|it| format!("TapeAlert {}: {}", it.flag, it.meaning)).collect();
    texts.join("; ")
}

fn count(number: Option<u64>) -> String {
    or_dash(number.map(text::count))
}

fn rate(rate: Option<f64>) -> String {
    or_dash(rate.map(|rate| format!("{}/s", text::size(rate as u64))))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(asks: Option<&str>, flag: Option<u8>) -> DriveContentReply {
        let cleaning = flag.map(|flag| serde_json::json!({ "flag": flag, "meaning": "clean the drive now" }));
        let drive = serde_json::json!({
            "name": "drive0", "library": "tape library", "state": "empty", "reason": "", "vid": null,
            "tape_pool": null, "since": null, "files": 0, "bytes": 0, "rate": 0.0,
        });
        let content = serde_json::json!({
            "drive": drive, "product": null, "health": null, "cleaning": cleaning, "asks_cleaning": asks,
            "cleaned": "2026-11-21T20:29:00.123456789Z", "tapes": [], "mounts": [],
        });
        serde_json::from_value(content).unwrap()
    }

    /// Story: of a drive that asked to be cleaned three lines spoke, of which one said `now` alone, and one a
    /// time to the nanosecond.
    #[test]
    fn a_drive_says_in_one_line_whether_it_is_to_be_cleaned_and_when() {
        let line = |asks, flag| {
            let summary = summary(&content(asks, flag));
            assert!(summary.contains("last cleaned   2026-11-21T20:29:00Z\n"), "{summary}");
            let line = summary.lines().find_map(|line| line.strip_prefix("cleaning ")).unwrap().trim();
            line.to_owned()
        };
        assert_eq!(line(None, None), "not asked for");
        assert_eq!(line(Some("idle"), None), "asked for: when nothing waits");
        let now = line(Some("now"), Some(20));
        assert_eq!(now, "asked for: before its next mount (TapeAlert 20: clean the drive now)");
    }

    #[test]
    fn the_lines_of_a_drive_are_aligned() {
        let summary = summary(&content(None, None));
        assert!(summary.lines().all(|line| line.chars().nth(14) == Some(' ')), "{summary}");
        assert!(!summary.lines().any(|line| line.chars().nth(15) == Some(' ')), "{summary}");
    }
}
