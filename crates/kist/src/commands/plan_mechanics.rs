//! `kist plan mechanics`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use mechanics::{DriveModel, LocateFigures, MediumModel, Models, NamedFigure, NamedStatement, RobotModel};
use serde_json::{Value, json};
use terminal::{Failure, Outcome, Table, output};

use crate::cli::Common;

/// No data file is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without MODEL: all names. With one: every figure of it, its source, and whether it
was read there (verified) or is derived, assumed or remembered. A drive and a
medium of one name are both shown. docs/reference/mechanics.md has the formulas
and the form of data files.

Examples:
  kist plan mechanics
  kist plan mechanics LTO-9
  kist plan mechanics --file ours.toml --json")]
pub struct Args {
    /// A drive, medium or library: LTO-9, lto9, L9, SL8500
    model: Option<String>,
    /// A data file of the site's own, in place of the built-in ones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// One model, whatever its kind.
struct Sheet<'a> {
    kind: &'static str,
    name: &'a str,
    title: &'a str,
    aliases: &'a [String],
    figures: Vec<NamedFigure<'a>>,
    statements: Vec<NamedStatement<'a>>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let own = args.file.as_ref().map(read).transpose()?;
    let sheets = match (&own, &args.model) {
        (Some(own), None) => all(&own.drives, &own.media, &own.robots, &own.locates),
        (Some(own), Some(name)) => only(all(&own.drives, &own.media, &own.robots, &own.locates), name)?,
        (None, None) => built_in(),
        (None, Some(name)) => named(name)?,
    };
    if common.json {
        return output::json(&json!({ "models": sheets.iter().map(Sheet::as_json).collect::<Vec<_>>() }));
    }
    let in_full = args.file.is_some() || args.model.is_some();
    output::write(&if in_full { in_detail(&sheets) } else { overview(&sheets) })
}

fn read(path: &PathBuf) -> Outcome<Models> {
    let failed = |error: io::Error| Failure::io("reading", path, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} is too large for a data file of models", path.display())));
    }
    Models::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn all<'a>(
    drives: &'a [DriveModel],
    media: &'a [MediumModel],
    robots: &'a [RobotModel],
    locates: &'a [LocateFigures],
) -> Vec<Sheet<'a>> {
    let drives = drives.iter().map(Sheet::drive);
    let media = media.iter().map(Sheet::medium);
    let robots = robots.iter().map(Sheet::robot);
    drives.chain(media).chain(robots).chain(locates.iter().map(Sheet::locate)).collect()
}

fn built_in() -> Vec<Sheet<'static>> {
    all(mechanics::drives(), mechanics::media(), mechanics::robots(), mechanics::locates())
}

/// The drive, with its locates, the medium and the library of that name.
fn named(name: &str) -> Outcome<Vec<Sheet<'static>>> {
    let mut sheets = Vec::new();
    if let Ok(drive) = mechanics::drive(name) {
        sheets.extend([Sheet::drive(drive), Sheet::locate(&drive.locate)]);
    }
    sheets.extend(mechanics::medium(name).ok().map(Sheet::medium));
    sheets.extend(mechanics::robot(name).ok().map(Sheet::robot));
    match sheets.is_empty() {
        true => {
            let message =
                format!("no drive, medium or library {name:?} is known: kist plan mechanics lists all");
            Err(Failure::usage(message))
        }
        false => Ok(sheets),
    }
}

/// Those of a file that have that name.
fn only<'a>(mut sheets: Vec<Sheet<'a>>, name: &str) -> Outcome<Vec<Sheet<'a>>> {
    sheets.retain(|sheet| mechanics::same_name(sheet.name, name));
    match sheets.is_empty() {
        true => Err(Failure::usage(format!("the data file has no model {name:?}"))),
        false => Ok(sheets),
    }
}

impl<'a> Sheet<'a> {
    fn drive(model: &'a DriveModel) -> Self {
        Sheet {
            kind: "drive",
            name: &model.name,
            title: &model.title,
            aliases: &model.aliases,
            figures: model.figures(),
            statements: model.statements(),
        }
    }

    fn medium(model: &'a MediumModel) -> Self {
        let (figures, statements) = (model.figures(), Vec::new());
        let (title, aliases) = (model.title.as_str(), model.aliases.as_slice());
        Sheet { kind: "medium", name: &model.name, title, aliases, figures, statements }
    }

    fn robot(model: &'a RobotModel) -> Self {
        let (figures, statements) = (model.figures(), Vec::new());
        let (title, aliases) = (model.title.as_str(), model.aliases.as_slice());
        Sheet { kind: "library", name: &model.name, title, aliases, figures, statements }
    }

    fn locate(model: &'a LocateFigures) -> Self {
        let (figures, statements) = (model.figures(), Vec::new());
        Sheet { kind: "locates", name: &model.name, title: "", aliases: &[], figures, statements }
    }

    /// Figures, and how many of them are verified.
    fn counts(&self) -> (usize, usize) {
        let figures = self.figures.iter().map(|named| named.figure.verified);
        let all: Vec<bool> =
            figures.chain(self.statements.iter().map(|named| named.statement.verified)).collect();
        (all.len(), all.iter().filter(|verified| **verified).count())
    }

    fn as_json(&self) -> Value {
        let figure = |named: &NamedFigure<'_>| {
            let figure = named.figure;
            json!({
                "name": named.name, "value": figure.value, "unit": figure.unit.name(),
                "source": figure.source, "verified": figure.verified,
            })
        };
        let statement = |named: &NamedStatement<'_>| {
            let statement = named.statement;
            json!({
                "name": named.name, "value": statement.value, "unit": null,
                "source": statement.source, "verified": statement.verified,
            })
        };
        let figures = self.figures.iter().map(figure);
        json!({
            "kind": self.kind, "name": self.name, "title": self.title, "aliases": self.aliases,
            "figures": figures.chain(self.statements.iter().map(statement)).collect::<Vec<_>>(),
        })
    }
}

fn overview(sheets: &[Sheet<'_>]) -> String {
    let mut table = Table::new(&["kind", "name", ">figures", ">verified", "title"]);
    for sheet in sheets {
        let (figures, verified) = sheet.counts();
        let title = if sheet.title.is_empty() { "terms of a locate" } else { sheet.title };
        table.row(vec![
            sheet.kind.to_owned(),
            sheet.name.to_owned(),
            figures.to_string(),
            verified.to_string(),
            title.to_owned(),
        ]);
    }
    table.render()
}

fn in_detail(sheets: &[Sheet<'_>]) -> String {
    let sheets = sheets.iter().map(|sheet| {
        let mut table = Table::new(&["figure", ">value", "unit", "verified", "source"]);
        let yes = |verified: bool| if verified { "yes" } else { "no" }.to_owned();
        for named in &sheet.figures {
            let (figure, value) = (named.figure, named.figure.value.to_string());
            let (unit, source) = (figure.unit.name().to_owned(), figure.source.clone());
            table.row(vec![named.name.clone(), value, unit, yes(figure.verified), source]);
        }
        for NamedStatement { name, statement } in &sheet.statements {
            let source = statement.source.clone();
            let value = yes(statement.value);
            table.row(vec![(*name).to_owned(), value, String::new(), yes(statement.verified), source]);
        }
        let title = if sheet.title.is_empty() { "" } else { ": " };
        format!("{} {}{title}{}\n\n{}", sheet.kind, sheet.name, sheet.title, table.render())
    });
    sheets.collect::<Vec<_>>().join("\n")
}
