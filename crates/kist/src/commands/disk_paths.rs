//! `kist disk paths`.

use std::collections::BTreeMap;
use std::fs;

use probe::multipath;
use serde::{Deserialize, Serialize};
use serde_json::json;
use terminal::{Outcome, Table, output, text};
use topology::maps::{Maps, kernel_states};
use topology::{Disk, by_number};

use super::disk::{self, Source};
use super::disk_paths_keep;
use crate::cli::Common;

/// Where `keep` writes what it knows, for the list.
pub const STATE_FILE: &str = "/run/kist-disk-paths.json";

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A disk on several paths is one disk. Something has to choose the path: multipathd
where it runs, else 'kist disk paths keep'. The states of a map are those of the
kernel; since when and why is known of the maps that 'keep' looks after.

Examples:
  sudo kist disk paths
  sudo kist disk paths --json
  kist disk paths --from jbod.machine"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    source: Source,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Make the maps that are missing, and leave and take back paths as they fail and recover
    Keep(disk_paths_keep::Args),
}

/// What `keep` says of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPath {
    /// The block device.
    pub block: String,
    /// `well`, `slow` or `failed`.
    pub state: String,
    /// Since when.
    pub since: String,
    /// Why; empty: it was so from the beginning.
    pub why: String,
}

/// What `keep` knows: the paths of each map, by its name.
pub type Kept = BTreeMap<String, Vec<KeptPath>>;

/// A line of the list.
#[derive(Debug, Serialize)]
struct Row {
    disk: String,
    serial: Option<String>,
    map: Option<String>,
    /// `kist`, `multipathd` or `other`.
    made_by: Option<&'static str>,
    path: String,
    host: Option<String>,
    state: String,
    since: Option<String>,
    why: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Some(Action::Keep(keep)) => disk_paths_keep::run(keep, common),
        None => list(&args.source, common),
    }
}

fn list(source: &Source, common: &Common) -> Outcome {
    let machine = source.look()?;
    disk::tell(&machine);
    let is_here = source.from.is_none();
    // Of a recorded machine it is known what it had, and not what its kernel said of each path.
    let (maps, states, kept) = match is_here {
        true => (multipath::maps(&machine), states(), kept()),
        false => (Maps::default(), BTreeMap::new(), Kept::default()),
    };
    let disks = machine.disks.iter().filter(|disk| disk.paths.len() > 1 || disk.multipath.is_some());
    let rows: Vec<Row> = disks.flat_map(|disk| rows(disk, &maps, &states, &kept)).collect();
    if common.json {
        return output::json(&json!({ "paths": rows }));
    }
    if rows.is_empty() {
        return output::line("no disk here has several paths, or a map over its paths");
    }
    output::write(&table(&rows))
}

/// What the kernel says of each multipath map; nothing if it cannot be asked, which is told.
fn states() -> BTreeMap<String, String> {
    multipath::status().unwrap_or_else(|error| {
        output::note(&format!("the kernel is not asked for the states of maps: {error}"));
        BTreeMap::new()
    })
}

fn kept() -> Kept {
    let text = fs::read_to_string(STATE_FILE).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn rows(disk: &Disk, maps: &Maps, states: &BTreeMap<String, String>, kept: &Kept) -> Vec<Row> {
    let map = maps.over(disk);
    let name = map.map(|map| map.name.clone()).or_else(|| disk.multipath.clone());
    let used = name.as_ref().and_then(|name| states.get(name)).map(|line| kernel_states(line));
    let known = name.as_ref().and_then(|name| kept.get(name));
    let row = |path: &topology::Path| {
        let block = path.block.clone().unwrap_or_else(|| path.device.clone());
        let is_used = used.as_ref().and_then(|used| used.get(maps.number(&block)?)).copied();
        let known = known.and_then(|paths| paths.iter().find(|one| one.block == block));
        // What the kernel does counts; why is known to who told it.
        let agrees = known.filter(|one| is_used.is_none_or(|used| used == (one.state == "well")));
        let state = match (agrees, is_used) {
            (Some(one), _) => one.state.clone(),
            (None, Some(true)) => "well".to_owned(),
            (None, Some(false)) => "failed".to_owned(),
            (None, None) if name.is_some() && !maps.maps.is_empty() => "not in the map".to_owned(),
            (None, None) => path.state.clone().unwrap_or_else(|| "unknown".to_owned()),
        };
        Row {
            disk: disk.key.to_string(),
            serial: disk.serial.clone(),
            map: name.clone(),
            made_by: map.map(topology::maps::Map::maker),
            path: block,
            host: path.host.clone(),
            state,
            since: agrees.map(|one| one.since.clone()),
            why: agrees.map(|one| one.why.clone()).filter(|why| !why.is_empty()),
        }
    };
    let mut rows: Vec<Row> = disk.paths.iter().map(row).collect();
    rows.sort_by(|a, b| by_number(&a.path, &b.path));
    rows
}

fn table(rows: &[Row]) -> String {
    let mut table =
        Table::new(&["disk", "serial", "map", "made by", "path", "host", "state", "since", "why"]);
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
    for row in rows {
        table.row(vec![
            row.disk.clone(),
            word(&row.serial),
            word(&row.map),
            row.made_by.unwrap_or("-").to_owned(),
            row.path.clone(),
            word(&row.host),
            row.state.clone(),
            row.since.as_deref().map_or_else(|| "-".to_owned(), text::whole_seconds),
            row.why.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}
