//! `kist stat`.

use client::archive_path;
use terminal::{Outcome, Table, one_line, output, text};
use wire::{CopyReply, FileReply, StatReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist stat /demo-1/share/doc/rust/README.md")]
pub struct Args {
    /// Files or directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    for (at, path) in args.paths.iter().enumerate() {
        let stat = client.stat(&archive_path(path)?)?;
        if common.json {
            output::json(&stat)?;
            continue;
        }
        if at > 0 {
            output::line("")?;
        }
        print(&stat)?;
    }
    Ok(())
}

/// Writes a stat for people.
pub fn print(stat: &StatReply) -> Outcome {
    let field = |name: &str, value: &str| output::line(&format!("{name:<10} {}", one_line(value)));
    field("path", &stat.path)?;
    field("kind", &stat.kind)?;
    if let Some(target) = &stat.target {
        field("target", target)?;
    }
    if stat.kind == "file" {
        field("size", &format!("{} ({} bytes)", text::size(stat.size), text::count(stat.size)))?;
    }
    field("mode", &format!("{} {}:{}", stat.mode, text::or_dash(&stat.owner), text::or_dash(&stat.group)))?;
    field("modified", &text::whole_seconds(&stat.mtime))?;
    field("archived", &text::whole_seconds(&stat.created))?;
    if let Some(class) = &stat.class {
        field("class", class)?;
    }
    let Some(file) = &stat.file else { return Ok(()) };
    field("locality", &file.locality)?;
    field("file id", &file.file_id.to_string())?;
    field("adler32", &file.adler32)?;
    field("crc32c", &file.crc32c)?;
    field("blake3", &file.blake3)?;
    for pin in &file.pins {
        let until = text::whole_seconds(&pin.until);
        field("pinned", &format!("by request {} until {until}", pin.request))?;
    }
    if file.copies.is_empty() {
        return field("copies", &no_copies(stat, file));
    }
    let away = if file.tapes_away { "; all tapes that have it are away: kist tape import-slot" } else { "" };
    field("copies", &format!("{} wanted{away}", file.copies_wanted))?;
    output::write(&copies(&file.copies))
}

/// Why a file has no copy on tape.
fn no_copies(stat: &StatReply, file: &FileReply) -> String {
    if file.locality == "LOST" {
        return "none, and none will come: no copy of it can be read (kist why)".to_owned();
    }
    match file.copies_wanted {
        0 => "none: its class has no tape copies".to_owned(),
        _ if stat.size == 0 => "none: it has no bytes and is always online".to_owned(),
        wanted => format!("none of {wanted} yet: it waits for its pack"),
    }
}

/// The tape of a copy, and how it is away if it is.
fn tape(copy: &CopyReply) -> String {
    match (&copy.vid, &copy.away_as) {
        (None, _) => "-".to_owned(),
        (Some(vid), _) if !copy.away => vid.clone(),
        (Some(vid), None) => format!("{vid}, in no library"),
        (Some(vid), Some(away)) => format!("{vid}, {away}"),
    }
}

fn copies(copies: &[CopyReply]) -> String {
    let mut table = Table::new(&[
        "  tape pool",
        "state",
        "tape",
        ">block",
        "kind",
        ">container",
        ">offset",
        "path on tape",
    ]);
    for copy in copies {
        table.row(vec![
            format!("  {}", copy.tape_pool),
            copy.state.clone(),
            tape(copy),
            copy.block.map_or_else(|| "-".to_owned(), |block| block.to_string()),
            match copy.file_offset {
                Some(offset) => format!("{} from {offset}", copy.container_kind),
                None => copy.container_kind.clone(),
            },
            copy.container.to_string(),
            copy.offset.to_string(),
            copy.tape_path.clone(),
        ]);
    }
    table.render()
}
