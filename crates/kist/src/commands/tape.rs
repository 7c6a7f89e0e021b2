//! `kist tape`.

use std::path::PathBuf;

use client::Client;
use terminal::{Failure, Outcome, Table, output, text};
use wire::{ContainerReply, TAPE_STATES, TapeBody, TapeContentReply, TapeReply};

use crate::cli::Common;
use crate::watch::{self, Watch, is_asked};

/// Containers asked for in one page.
const PAGE: usize = 1000;

/// Characters of a tape's reason in a list; `kist tape show` tells all of it.
const REASON_MAX: usize = 60;

/// Where a list shows what of a tape is live: behind what is written.
const LIVE_AT: usize = 5;
/// Where the column of keys stands: behind the pool, whose key a tape may not have any more.
const KEY_AT: usize = 3;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist tape ls
  kist tape ls --pool vault-a --state suspect
  kist tape ls --wanted --watch 5
  kist tape ls --state full --live
  kist tape show KS0001
  kist tape report --since 7d
  kist tape dump KS0001")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the tapes
    Ls {
        /// Only tapes in this state, as the list shows it
        #[arg(long, value_parser = TAPE_STATES)]
        state: Option<String>,
        /// Only tapes of this tape pool
        #[arg(long, value_name = "TAPEPOOL")]
        pool: Option<String>,
        /// Only tapes of this library
        #[arg(long)]
        library: Option<String>,
        /// Only tapes from which files are wanted
        #[arg(long)]
        wanted: bool,
        /// Also how much of each is of files that have a name: the rest a repack gives back.
        /// Every container is asked for: seconds a million
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a tape and what is on it
    Show {
        /// The tape
        vid: String,
    },
    /// Change what may be done with a tape
    #[command(after_help = "\
A suspect tape was set aside after an error and is tried again by itself, five
times at most; kist tape ls tells why and when. Back in use as active, a tape
that was never labelled is scratch.

Examples:
A tape that is off-site is not in any library by your word: its copies count as
copies, nobody is warned that it is missing, and files that only it can give wait
for it. In a library again it is used as before.

Examples:
  kist tape set KS0001 active --reason \"drive replaced\"
  kist tape set KS0002 read-only
  kist tape set KS0003 off-site --where \"vault 3, shelf 12\"")]
    Set {
        /// The tape
        vid: String,
        /// active, read-only, disabled or off-site
        #[arg(value_parser = ["active", "read-only", "disabled", "off-site"])]
        state: String,
        /// Why, for other operators
        #[arg(long, default_value = "", conflicts_with = "place")]
        reason: String,
        /// Of one that is off-site: where it is kept
        #[arg(long = "where", value_name = "PLACE", default_value = "")]
        place: String,
    },
    /// Bring a tape to an import/export element, where it is taken out of the library
    #[command(after_help = "\
Nothing new is begun on the tape; if a drive has it, the command waits until the
drive has given it back. The tape is exported from then on: its copies count as
copies, and files that only it can give wait for it. Put into a library again it
is used as before. A library without import/export elements is opened by hand:
say kist tape set VID off-site of what was taken out.

Examples:
  kist tape export KS0001
  kist tape export KS0001 --no-wait")]
    Export {
        /// The tape
        vid: String,
        /// Do not wait for the drive that has it: it goes out by itself
        #[arg(long)]
        no_wait: bool,
    },
    /// Bring cartridges from import/export elements into slots
    #[command(after_help = "\
A tape that Kist knows is what it was before it went; its labels are checked when
it is mounted. A cartridge that Kist does not know is scratch, as any that is put
into the library.

Examples:
  kist tape import-slot
  kist tape import-slot 16")]
    ImportSlot {
        /// The import/export element, or all
        #[arg(default_value = "all", value_parser = super::tape_export::element)]
        element: super::tape_export::Elements,
    },
    /// Take a tape of the library into use that was retired: it is scratch again
    Add {
        /// The tape
        vid: String,
    },
    /// Take a tape without containers out of use for ever: it is never taken for a scratch tape
    #[command(after_help = "\
The tape must be scratch, or one that kist tape reclaim would make scratch: without
containers (kist tape repack moves them), and what it has of the catalogue's history
must stand on other tapes. It is then neither read nor written, whatever library
shows it. Nothing is moved and nothing erased: kist tape export brings it out, and
what was written stands on the medium until that is destroyed. kist tape add takes
it back as a scratch tape.

Examples:
  kist tape retire KS0001 --reason \"dropped\"")]
    Retire {
        /// The tape
        vid: String,
        /// Why, for other operators
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Read whole tapes and compare every container with the catalogue
    #[command(after_help = "\
Labels, indexes, change-log segments and all containers are read in the order of
their blocks. Recalls and migration go first. Damaged copies are written again,
from the pool or from the other copy. Waits for the end and fails if there is
damage; with --no-wait the check goes on in the server, and the same command
with --show tells how far it is. --stop calls it off. The check of a tape that is
taken out of the library, disabled or set aside ends as failed.

Examples:
  kist tape verify KS0001 KS0002
  kist tape verify KS0001 --stop
  kist tape verify KS0001 --show --json")]
    Verify {
        /// The tapes
        #[arg(required = true)]
        vids: Vec<String>,
        /// Do not wait for the end
        #[arg(long)]
        no_wait: bool,
        /// Begin nothing: tell of the last check
        #[arg(long)]
        show: bool,
        /// Call off the checks of these tapes
        #[arg(long, conflicts_with_all = ["no_wait", "show"])]
        stop: bool,
    },
    /// Bring all that is needed of a tape to other tapes of its pool
    #[command(after_help = "\
Each container is written to another tape of the pool, read back there, and only
then given up here. Goes on after a restart; kist tape set VID active (or
read-only) ends it. An empty tape can be reclaimed.

Examples:
  kist tape repack KS0001 --reason \"old medium\"
  kist tape repack KS0001 --show")]
    Repack {
        /// The tape
        vid: String,
        /// Why, for other operators
        #[arg(long, default_value = "")]
        reason: String,
        /// Begin nothing: tell how far it is
        #[arg(long)]
        show: bool,
    },
    /// Make a tape without containers scratch again: its volume will be written over
    Reclaim {
        /// The tape
        vid: String,
    },
    /// How well tapes and drives ran: mounts, times, efficiency, and how long what waits has waited
    Report(super::tape_report::Args),
    /// Whether tapes and drives get worse, and whose fault it is, by their mounts of the last 90 days
    #[command(after_help = super::health::HELP)]
    Health {
        /// This tape only, in each drive
        vid: Option<String>,
    },
    /// List the records of a virtual cartridge, without a server; DIR gets each record as a file
    #[command(after_help = "\
Reads the cartridge itself, not the catalogue; it must not be in a drive: wait for
the dismount delay, or stop the server. With
DIR each record becomes the file DIR/PARTITION-BLOCK.record, so that a volume
can be examined with nothing but these files: an LTFS label is the text in
a-000000000000.record.

Examples:
  kist tape dump KS0001
  kist tape dump KS0001 /tmp/records")]
    Dump {
        /// The tape
        vid: String,
        /// Where the records go
        directory: Option<PathBuf>,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Ls { state, pool, library, wanted, live, watch } => {
            let client = common.connection.client()?;
            let get = || {
                let mut tapes: Vec<TapeReply> = client.get("/api/v1/tapes")?;
                check_filters(&client, &tapes, pool.as_deref(), library.as_deref())?;
                tapes.retain(|tape| is_asked(state.as_deref(), &tape.state));
                tapes.retain(|tape| is_asked(pool.as_deref(), tape.tape_pool.as_deref().unwrap_or("-")));
                tapes.retain(|tape| is_asked(library.as_deref(), &tape.library));
                tapes.retain(|tape| !wanted || tape.wanted_files > 0);
                tapes.into_iter().map(|tape| Listed::new(&client, tape, *live)).collect()
            };
            watch::list(*watch, common, get, |tapes| tapes_table(tapes) + &tapes_total(tapes))
        }
        Action::Show { vid } => show(vid, common),
        Action::Set { vid, state, place, .. } if state == "off-site" => {
            super::tape_export::off_site(vid, place, common)
        }
        Action::Set { place, .. } if !place.is_empty() => {
            Err(Failure::usage("--where is of a tape that is off-site"))
        }
        Action::Export { vid, no_wait } => super::tape_export::export(vid, *no_wait, common),
        Action::ImportSlot { element } => super::tape_export::import(*element, common),
        Action::Add { vid } => super::tape_export::add(vid, common),
        Action::Retire { vid, reason } => super::tape_export::retire(vid, reason, common),
        Action::Set { vid, state, reason, .. } => {
            let body = TapeBody { state: state.clone(), reason: reason.clone(), place: String::new() };
            let target = format!("/api/v1/tapes/{}", text::encode(vid));
            let client = common.connection.client()?;
            client.post(&target, &body)?;
            // Given back to use, a tape that was never written is scratch.
            let page: TapeContentReply = client.get(&format!("{target}?limit=1"))?;
            let state = page.tape.state;
            let said = serde_json::json!({ "vid": vid, "state": state, "reason": reason });
            output::done(common, &said, &format!("tape {vid} is {state} from now on"))
        }
        Action::Verify { vids, stop: true, .. } => super::tape_work::stop_checks(vids, common),
        Action::Verify { vids, no_wait, show, .. } => super::tape_work::verify(vids, *no_wait, *show, common),
        Action::Repack { vid, reason, show } => super::tape_work::repack(vid, reason, *show, common),
        Action::Reclaim { vid } => super::tape_work::reclaim(vid, common),
        Action::Health { vid } => super::health::tapes(vid.as_deref(), common),
        Action::Report(args) => super::tape_report::run(args, common),
        Action::Dump { vid, directory } => super::tape_dump::run(vid, directory.as_deref(), common),
    }
}

/// A tape in a list.
#[derive(serde::Serialize)]
struct Listed {
    #[serde(flatten)]
    tape: TapeReply,
    /// Bytes of its containers that belong to files with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_bytes: Option<u64>,
}

impl Listed {
    fn new(client: &Client, tape: TapeReply, with_live: bool) -> Outcome<Self> {
        let live_bytes = match with_live {
            true => Some(live_bytes(client, &tape)?),
            false => None,
        };
        Ok(Listed { tape, live_bytes })
    }
}

/// Bytes of files with a name, summed over all containers of a tape.
fn live_bytes(client: &Client, tape: &TapeReply) -> Outcome<u64> {
    let (mut sum, mut from) = (0_u64, Some(0));
    while let Some(block) = from.filter(|_| tape.containers > 0) {
        let page: TapeContentReply = client.get(&page_of(&tape.vid, block))?;
        sum = page.containers.iter().fold(sum, |sum, container| sum.saturating_add(container.live_bytes));
        from = page.next.filter(|next| *next > block);
    }
    Ok(sum)
}

fn page_of(vid: &str, from: u64) -> String {
    format!("/api/v1/tapes/{}?from={from}&limit={PAGE}", text::encode(vid))
}

fn check_filters(client: &Client, tapes: &[TapeReply], pool: Option<&str>, library: Option<&str>) -> Outcome {
    let libraries = tapes.iter().map(|tape| tape.library.clone()).collect();
    watch::check("--library", library, &libraries)?;
    if pool.is_some() {
        // Of those without a pool the list shows a dash; a pool may have no tape yet.
        let (_, mut pools) = watch::classes_and_pools(client)?;
        pools.extend(tapes.iter().map(|tape| tape.tape_pool.clone().unwrap_or_else(|| "-".to_owned())));
        watch::check("--pool", pool, &pools)?;
    }
    Ok(())
}

fn show(vid: &str, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let mut page: TapeContentReply = client.get(&page_of(vid, 0))?;
    if common.json {
        while let Some(next) = page.next {
            let mut more: TapeContentReply = client.get(&page_of(vid, next))?;
            page.containers.append(&mut more.containers);
            page.next = more.next.filter(|after| *after > next);
        }
        return output::json(&page);
    }
    let listed = Listed { tape: page.tape.clone(), live_bytes: None };
    output::write(&tapes_table(std::slice::from_ref(&listed)))?;
    if let Some(uuid) = &page.tape.uuid {
        output::line(&format!("volume {uuid}, index generation {}", page.tape.generation))?;
    }
    if let Some(line) = key_line(&page.tape) {
        output::line(&line)?;
    }
    if let Some(kind) = &page.tape.away_as {
        let place = page.tape.place.as_ref().map_or_else(String::new, |place| format!(": {place}"));
        let since = page.tape.away_since.clone().unwrap_or_default();
        output::line(&format!("{kind} since {since}{place}"))?;
    }
    if !page.tape.reason.is_empty() {
        output::line(&format!("{}: {}", page.tape.state, page.tape.reason))?;
    }
    output::line("")?;
    let written = page.tape.written;
    let mut live = 0_u64;
    loop {
        output::write(&containers_table(&page.containers))?;
        live = page.containers.iter().fold(live, |live, container| live.saturating_add(container.live_bytes));
        let Some(next) = page.next else { break };
        let more: TapeContentReply = client.get(&page_of(vid, next))?;
        if more.next.is_some_and(|after| after <= next) {
            break;
        }
        page = more;
    }
    let rest = text::size(written.saturating_sub(live));
    output::line(&format!(
        "\n{} of {} written are of files that have a name; kist tape repack {vid} gives back {rest}",
        text::size(live),
        text::size(written)
    ))
}

/// The last line of a list of tapes.
fn tapes_total(tapes: &[Listed]) -> String {
    let sum = |of: fn(&TapeReply) -> u64| tapes.iter().map(|it| of(&it.tape)).fold(0, u64::saturating_add);
    let live = tapes.iter().filter_map(|listed| listed.live_bytes).reduce(u64::saturating_add);
    let live = live.map_or_else(String::new, |live| format!(", {} live", text::size(live)));
    format!(
        "{}: {} of {} written{live}; {} wanted, {}\n",
        text::plural(tapes.len() as u64, "tape"),
        text::size(sum(|tape| tape.written)),
        text::size(sum(|tape| tape.capacity)),
        text::files(sum(|tape| tape.wanted_files)),
        text::size(sum(|tape| tape.wanted_bytes))
    )
}

fn tapes_table(tapes: &[Listed]) -> String {
    let with_live = tapes.iter().any(|listed| listed.live_bytes.is_some());
    let mut headings = vec![
        "tape",
        "state",
        "tape pool",
        ">capacity",
        ">written",
        ">committed",
        ">torn",
        ">containers",
        ">next block",
        ">mounts",
        "drive",
        ">wanted",
        ">bytes",
        "reason",
    ];
    if with_live {
        headings.splice(LIVE_AT..LIVE_AT, [">live", ">of written"]);
    }
    // Most sites have none.
    let with_key = tapes.iter().any(|listed| listed.tape.key.is_some() || listed.tape.key_outdated);
    if with_key {
        headings.insert(KEY_AT, "key");
    }
    let mut table = Table::new(&headings);
    for Listed { tape, live_bytes } in tapes {
        let mut row = vec![
            tape.vid.clone(),
            state_cell(tape),
            tape.tape_pool.clone().unwrap_or_else(|| "-".to_owned()),
            text::size(tape.capacity),
            text::size(tape.written),
            text::size(tape.committed),
            text::size(tape.torn),
            text::count(tape.containers),
            tape.end_of_data.to_string(),
            text::count(tape.mounts),
            standing(tape),
            text::count(tape.wanted_files),
            text::size(tape.wanted_bytes),
            if tape.reason.is_empty() { "-".to_owned() } else { text::shortened(&tape.reason, REASON_MAX) },
        ];
        if let Some(live) = *live_bytes {
            let share = match tape.written {
                0 => "-".to_owned(),
                written => format!("{:.0} %", 100.0 * live as f64 / written as f64),
            };
            row.splice(LIVE_AT..LIVE_AT, [text::size(live), share]);
        }
        if with_key {
            row.insert(KEY_AT, key_cell(tape));
        }
        table.row(row);
    }
    table.render()
}

/// What is said of the key of one tape; `None` if it has none and needs none.
fn key_line(tape: &TapeReply) -> Option<String> {
    let outdated = if tape.key_outdated { "; its pool writes with another one now" } else { "" };
    let Some(key) = &tape.key else {
        return tape.key_outdated.then(|| "in clear, and its pool writes with a key now".to_owned());
    };
    let check = tape.key_check.as_deref().unwrap_or_default();
    let at_hand = match tape.key_at_hand {
        Some(true) => "which is at hand",
        Some(false) => "which is MISSING: nothing on it can be read",
        None => "of which the server does not say whether it is at hand",
    };
    Some(format!("encrypted with key {key} (check value {check}), {at_hand}{outdated}"))
}

/// The same in a cell of a list.
fn key_cell(tape: &TapeReply) -> String {
    let missing = (tape.key_at_hand == Some(false)).then_some("MISSING");
    let outdated = tape.key_outdated.then_some("old");
    let notes: Vec<&str> = missing.into_iter().chain(outdated).collect();
    let key = tape.key.as_deref().unwrap_or("-");
    if notes.is_empty() { key.to_owned() } else { format!("{key} ({})", notes.join(", ")) }
}

/// The state of a tape, and whether no library holds it or it waits to be exported.
fn state_cell(tape: &TapeReply) -> String {
    let away = || tape.away.then(|| tape.away_as.as_deref().unwrap_or("away"));
    let note = tape.leaving.then_some("export waits").or_else(away);
    note.map_or_else(|| tape.state.clone(), |note| format!("{} ({note})", tape.state))
}

/// In which drive a tape is, or how it is away.
fn standing(tape: &TapeReply) -> String {
    let away = || if tape.away { "away" } else { "-" }.to_owned();
    let in_element = || tape.element.map(|element| format!("element {element}"));
    tape.drive.clone().or_else(in_element).or_else(|| tape.away_as.clone()).unwrap_or_else(away)
}

fn containers_table(containers: &[ContainerReply]) -> String {
    let mut table =
        Table::new(&[">block", ">container", "kind", ">length", ">members", ">bytes", "path on tape"]);
    for container in containers {
        table.row(vec![
            container.block.to_string(),
            container.container.to_string(),
            container.kind.clone(),
            text::size(container.length),
            text::count(u64::from(container.live_members)),
            text::size(container.live_bytes),
            container.tape_path.clone(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(vid: &str, key: Option<&str>) -> Listed {
        let tape = serde_json::json!({
            "vid": vid, "state": "active", "reason": "", "tape_pool": "vault", "library": "", "uuid": null,
            "capacity": 12, "written": 4, "committed": 4, "torn": 0, "containers": 1, "generation": 2,
            "end_of_data": 9, "mounts": 1, "drive": null, "wanted_files": 0, "wanted_bytes": 0, "away": false,
            "changes_through": 0, "key": key,
        });
        Listed { tape: serde_json::from_value(tape).unwrap(), live_bytes: Some(2) }
    }

    /// Which tapes have an old key yet was shown by no list for people.
    #[test]
    fn keys_have_a_column_if_some_tape_has_one() {
        let clear = tapes_table(&[listed("KS0001", None)]);
        assert!(!clear.contains("key"), "{clear}");
        let both = tapes_table(&[listed("KS0001", None), listed("KS0002", Some("vault-2025"))]);
        let lines: Vec<Vec<&str>> = both.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..5], ["tape", "state", "tape", "pool", "key"]);
        assert_eq!((lines[1][3], lines[2][3]), ("-", "vault-2025"), "{both}");
    }

    /// Story: the list showed neither a tape that no library held nor an export that waited.
    #[test]
    fn the_state_tells_what_is_away_and_what_waits_to_go() {
        let tape = listed("KS0001", None).tape;
        let cell = |away, away_as: Option<&str>, leaving| {
            let away_as = away_as.map(str::to_owned);
            state_cell(&TapeReply { away, away_as, leaving, ..tape.clone() })
        };
        assert_eq!(cell(false, None, false), "active");
        assert_eq!(cell(true, None, false), "active (away)");
        assert_eq!(cell(true, Some("off-site"), false), "active (off-site)");
        assert_eq!(cell(false, None, true), "active (export waits)");
    }

    /// Story: a tape whose key was missing, or was not its pool's any more, looked like any other.
    #[test]
    fn a_key_that_is_missing_or_old_is_told() {
        let mut tape = listed("KS0001", Some("vault-2025")).tape;
        tape.key_check = Some("0123456789ab".to_owned());
        tape.key_at_hand = Some(true);
        let line = "encrypted with key vault-2025 (check value 0123456789ab), which is at hand";
        assert_eq!((key_cell(&tape).as_str(), key_line(&tape).as_deref()), ("vault-2025", Some(line)));
        (tape.key_at_hand, tape.key_outdated) = (Some(false), true);
        assert_eq!(key_cell(&tape), "vault-2025 (MISSING, old)");
        let line = key_line(&tape).unwrap();
        assert!(line.contains("MISSING") && line.ends_with("writes with another one now"), "{line}");
        let mut clear = listed("KS0002", None).tape;
        assert_eq!((key_cell(&clear).as_str(), key_line(&clear)), ("-", None));
        clear.key_outdated = true;
        assert_eq!(key_cell(&clear), "- (old)");
        assert!(key_line(&clear).unwrap().starts_with("in clear"));
    }
}
