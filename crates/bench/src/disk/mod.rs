//! `kist bench disk`: how fast disks, files and whole JBODs are read and written.

mod args;
mod bed;
mod ceiling;
mod figures;
mod fio;
mod page;
mod place;
mod preset;
mod show;
mod streaming;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use disk_load::Stamp;
use terminal::{Exit, Failure, Outcome, Progress, Style, output, text};

pub use self::args::Args;
use self::bed::Bed;
pub use self::bed::engine;
pub use self::figures::{FaultShown, faults};
use self::figures::{Report, Row, Scaling};
pub use self::place::{failed, names, warning};
pub use self::show::{brief, mb};

/// Measures, prints, and writes the page if one is named.
pub fn run(args: &Args, style: Style) -> Outcome {
    let plan = args.plan()?;
    if args.fio && plan.stream.is_some() {
        return Err(Failure::usage(
            "--fio and --stream do not go together: beside a stream, the two would not have the same disk",
        ));
    }
    check_page(args.page.as_deref(), &args.paths)?;
    let fio = if args.fio { Some(fio::version()?) } else { None };
    let (engine, reason) = bed::engine(plan.engine)?;
    let places = place::open(&args.paths, &args.destroy, &plan)?;
    let notes: Vec<String> =
        reason.into_iter().chain(places.iter().flat_map(place::Place::warnings)).collect();
    if !style.quiet {
        notes.iter().for_each(|note| output::note(&format!("bench disk: {note}")));
    }
    let mut bed = Bed::new(places, engine, &plan, args.fio, Stamp(u64::from_le_bytes(text::random()?)));
    let bottleneck = ceiling::of(&bed.targets());
    let progress = Progress::start_of("bench disk", "row", plan.rows() as u64, 0, style.quiet);
    let mut rows = Vec::new();
    for case in &plan.cases {
        rows.push(bed.measure(*case, &progress)?);
        progress.add_files(1);
    }
    let mut scaling = Vec::new();
    for count in &plan.counts {
        let bottleneck = ceiling::of(bed.targets().get(..*count).unwrap_or_default());
        for case in plan.scaling_cases() {
            let row = bed.measure_first(*count, case, &progress)?;
            scaling.push(Scaling { count: *count, row, bottleneck: bottleneck.clone() });
            progress.add_files(1);
        }
    }
    drop(progress);
    let places = bed.places().iter().map(place::Place::shown).collect();
    let report = Report { places, engine: engine.to_string(), fio, bottleneck, notes, rows, scaling };
    if let Some(page) = &args.page {
        fs::write(page, page::page(&report))
            .map_err(|error| Failure::io("writing the page", page, &error))?;
    }
    match style.json {
        true => output::json(&report)?,
        false => output::write(&show::text(&report))?,
    }
    verdict(report.rows.iter().chain(report.scaling.iter().map(|one| &one.row)))
}

/// A page that cannot be written is told before an hour of measuring, not after it. It is a file of its own:
/// neither a device nor what is measured.
fn check_page(page: Option<&Path>, measured: &[PathBuf]) -> Outcome {
    let Some(page) = page else { return Ok(()) };
    if let Ok(there) = fs::metadata(page) {
        let is_it = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (there.dev(), there.ino()))
        };
        if !there.is_file() || measured.iter().any(is_it) {
            let what = format!("{}: the page would be written over it: name another file", page.display());
            return Err(Failure::usage(what));
        }
    }
    let opened = fs::OpenOptions::new().append(true).create(true).open(page);
    opened.map(drop).map_err(|error| Failure::io("opening the page", page, &error))
}

/// Operations that failed make the command fail: wrong bytes above all.
fn verdict<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Outcome {
    let faults = || rows.clone().flat_map(|row| &row.faults);
    let all: u64 = faults().map(|fault| fault.count).sum();
    let Some(worst) = faults().max_by_key(|fault| (fault.is_of_data, fault.count)) else { return Ok(()) };
    let exit = if worst.is_of_data { Exit::Differs } else { Exit::SomeFailed };
    Err(Failure::new(
        exit,
        format!(
            "{} failed, of these {} on {}: {}, first at byte {}: look at 'kist disk health'",
            text::plural(all, "operation"),
            text::count(worst.count),
            worst.path.display(),
            worst.what,
            worst.first_byte
        ),
    ))
}
