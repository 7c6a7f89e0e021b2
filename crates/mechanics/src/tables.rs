//! The tables of the reference: all built-in models, as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::figure::Figure;
use crate::known::{drives, locates, media, medium, robots};
use crate::listing::NamedFigure;
use crate::model::{DriveMedium, DriveModel};

/// The block size that means are computed with; they hardly depend on it.
const BLOCK_SIZE: u32 = 1 << 19;

/// Tables of all built-in models and a list of what nobody vouches for, as docs/reference/mechanics.md has
/// them. A star is behind each number that is not verified.
#[must_use]
pub fn reference_tables() -> String {
    let sections = [
        ("Drives", drive_table()),
        ("Means: published and modelled", mean_table()),
        ("Locates", locate_table()),
        ("Media", medium_table()),
        ("Libraries", robot_table()),
        ("Not verified", unverified()),
    ];
    let mut text = String::new();
    for (title, table) in sections {
        let _ = writeln!(text, "### {title}\n\n{table}");
    }
    text.trim_end().to_owned() + "\n"
}

/// The value without its unit, starred if nobody vouches for it.
fn cell(figure: &Figure) -> String {
    format!("{}{}", figure.value, star(figure.verified))
}

fn cell_or_dash(figure: Option<&Figure>) -> String {
    figure.map_or("-".to_owned(), cell)
}

fn star(verified: bool) -> &'static str {
    if verified { "" } else { "\\*" }
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let mut text = line(&head) + &format!("|{}\n", "---|".repeat(head.len()));
    rows.for_each(|row| text.push_str(&line(&row)));
    text
}

fn drive_table() -> String {
    let head = [
        "drive",
        "medium",
        "MB/s",
        "least MB/s",
        "buffer MB",
        "load s",
        "unload s",
        "back-hitch s",
        "flush s",
        "order",
    ];
    let row = |drive: &DriveModel, with: &DriveMedium| {
        let order = &drive.recommends_order;
        vec![
            drive.name.clone(),
            with.medium.clone(),
            cell(&with.rate),
            cell(&with.least_rate),
            cell(&drive.buffer),
            cell(&drive.load),
            cell(&drive.unload),
            cell(&drive.backhitch),
            cell(&drive.flush),
            format!("{}{}", if order.value { "yes" } else { "no" }, star(order.verified)),
        ]
    };
    table(&head, drives().iter().flat_map(|drive| drive.media.iter().map(move |with| row(drive, with))))
}

/// Seconds with one decimal.
fn seconds(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e6)
}

fn mean_table() -> String {
    let head = [
        "drive",
        "medium",
        "mean locate s",
        "modelled",
        "off",
        "mean rewind s",
        "modelled",
        "rewind in an unload s: < 5 GB / 5-50 GB / other",
    ];
    let row = |drive: &DriveModel, with: &DriveMedium| {
        let medium = medium(&with.medium).ok()?;
        let (timing, map) = (drive.timing(medium), medium.whole_map(BLOCK_SIZE));
        let locate = timing.locate.mean_us(&map, medium.load_point());
        let off = with
            .mean_locate
            .as_ref()
            .map(|published| format!("{:+.0} %", (locate as f64 / published.base() - 1.0) * 100.0));
        let unload = drive.unload_rewind.as_ref().filter(|_| with.medium == drive.media[0].medium);
        let unload =
            unload.map(|table| [&table.under_5_gb, &table.to_50_gb, &table.other].map(cell).join(" / "));
        Some(vec![
            drive.name.clone(),
            with.medium.clone(),
            cell_or_dash(with.mean_locate.as_ref()),
            seconds(locate),
            off.unwrap_or("-".to_owned()),
            cell_or_dash(with.mean_rewind.as_ref()),
            seconds(timing.mean_rewind_us(&map)),
            unload.unwrap_or("-".to_owned()),
        ])
    };
    table(
        &head,
        drives().iter().flat_map(|drive| drive.media.iter().filter_map(move |with| row(drive, with))),
    )
}

fn locate_table() -> String {
    let head = [
        "locates",
        "any s",
        "wrap s",
        "band s",
        "landing zone s",
        "direction s",
        "step back s",
        "us a LPOS",
        "least s",
        "drives",
    ];
    let rows = locates().iter().map(|locate| {
        let figures = locate.figures();
        let users = drives().iter().filter(|drive| drive.locate.name == locate.name);
        let users: Vec<&str> = users.map(|drive| drive.name.as_str()).collect();
        let name = std::iter::once(locate.name.clone());
        let cells = figures.iter().map(|named| cell(named.figure));
        name.chain(cells).chain(std::iter::once(users.join(", "))).collect()
    });
    table(&head, rows)
}

fn medium_table() -> String {
    let head = [
        "medium",
        "capacity",
        "wraps",
        "GB a wrap",
        "length m",
        "LPOS",
        "index + guard wraps",
        "data under LTFS GB",
        "first load min",
    ];
    let rows = media().iter().map(|medium| {
        let first = medium.first_load.as_ref();
        vec![
            medium.name.clone(),
            format!("{}{}", medium.capacity, star(medium.capacity.verified)),
            cell(&medium.wraps),
            cell(&medium.wrap_capacity),
            cell(&medium.length),
            format!("{} to {}", cell(&medium.lpos_min), cell(&medium.lpos_max)),
            format!("{} + {}", cell(&medium.index_wraps), cell(&medium.guard_wraps)),
            format!("{:.0}", medium.data_capacity().0 as f64 / 1e9),
            first.map_or("-".to_owned(), |(least, most)| format!("{} to {}", cell(least), cell(most))),
        ]
    });
    table(&head, rows)
}

fn robot_table() -> String {
    let rows = robots().iter();
    table(
        &["library", "robots", "move s"],
        rows.map(|robot| vec![robot.name.clone(), cell(&robot.robots), cell(&robot.move_one)]),
    )
}

/// What is not verified: by reason, figure and model.
#[derive(Default)]
struct Reasons(BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl Reasons {
    fn add(&mut self, source: &str, verified: bool, figure: &str, model: &str) {
        if !verified {
            let figures = self.0.entry(source.to_owned()).or_default();
            figures.entry(figure.to_owned()).or_default().push(model.to_owned());
        }
    }

    fn add_all(&mut self, model: &str, figures: Vec<NamedFigure<'_>>) {
        for named in figures {
            let (figure, model) = match named.name.split_once(": ") {
                Some((medium, figure)) => (figure, format!("{model} with {medium}")),
                None => (named.name.as_str(), model.to_owned()),
            };
            self.add(&named.figure.source, named.figure.verified, figure, &model);
        }
    }
}

fn unverified() -> String {
    let mut reasons = Reasons::default();
    for model in drives() {
        reasons.add_all(&model.name, model.figures());
        for named in model.statements() {
            let statement = named.statement;
            reasons.add(&statement.source, statement.verified, named.name, &model.name);
        }
    }
    locates().iter().for_each(|model| reasons.add_all(&model.name, model.figures()));
    media().iter().for_each(|model| reasons.add_all(&model.name, model.figures()));
    robots().iter().for_each(|model| reasons.add_all(&model.name, model.figures()));
    let row = |(why, figures): (String, BTreeMap<String, Vec<String>>)| {
        let figures =
            figures.into_iter().map(|(figure, models)| format!("`{figure}` of {}", models.join(", ")));
        vec![why, figures.collect::<Vec<_>>().join("; ")]
    };
    table(&["why", "figures"], reasons.0.into_iter().map(row))
}
