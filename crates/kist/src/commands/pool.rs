//! `kist pool`.

use std::path::{Path, PathBuf};

use base::StripeCode;
use client::Client;
use config::Size;
use terminal::{Failure, Outcome, Table, output, text};
use wire::{
    AddDriveBody, AddDriveReply, DriveLostBody, EvictorReply, PoolHealthReply, PoolReply, RebalanceBody,
    RebalanceEndReply, RebalanceReply, RebuildBody, ReplaceBody, ReplaceReply,
};
use wire::{QuarantineEndReply, QuarantineReply};

use super::burn_in::{self, Wanted};
use super::pool_add_disk;
use super::{pool_drive, pool_groups, pool_import, pool_recode, scrub};
use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist pool show
  kist pool drive lost 3       what it held is rebuilt on the others
  kist pool drive lost 3 --accept-loss
  kist pool drive replace 3    its directory is empty, or holds it again
  kist pool drive replace 3 --new
  kist pool drive replace 3 --accept-loss
  kist pool drive drain 3      what it holds moves to the others
  kist pool drive drain 3 --end
  kist pool drive remove 3     when it is empty
  kist pool drive add /mnt/d8  one more: kist.toml names it from then on
  kist pool drive add /mnt/d8 --burn-in
  kist pool drive burn-in /mnt/d8
  kist pool drive show 3
  kist pool rebalance          what is stored moves from fuller drives to emptier ones
  kist pool recode             what is stored gets the code that kist.toml has by now
  kist pool rebuild")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show the drives of the pool and what they hold
    Show,
    /// Rebuild on the others what missing and lost drives held, now
    Rebuild {
        /// Only what this drive held
        drive: Option<u16>,
        /// Go on although files are LOST by it
        #[arg(long)]
        accept_loss: bool,
    },
    /// Move what is stored from the fuller drives to the emptier ones, until they are about equally full
    #[command(after_help = "\
Files stay readable and as redundant as they are all the time, and clients, tapes,
rebuilds and drives that are emptied come first. It ends by itself when the fullest
drive and the emptiest are no further apart, or no shard can move with gain, and goes
on after a restart. kist pool show tells how far it is, and why it waits.

Examples:
  kist pool rebalance
  kist pool rebalance --to 2
  kist pool rebalance --end")]
    Rebalance {
        /// Percentage points of their sizes that the fullest and the emptiest drive may be apart [default: 5]
        #[arg(long, value_name = "POINTS", value_parser = points)]
        to: Option<u8>,
        /// End it: what has moved stays where it is
        #[arg(long, conflicts_with = "to")]
        end: bool,
    },
    /// Write what is stored in another code anew in the one that kist.toml has
    #[command(after_help = "\
Change data, parity or local_parity in [pool] of kist.toml and start the server
again: what is put from then on has the new code, and what was there keeps its own until this writes it
anew. Files stay readable and as redundant as they are all the time, and clients,
tapes, rebuilds and drives that are emptied come first. Each file (or batch of
recalled ones) needs room beside itself while it is written. Small files, of at
most 256 KiB, keep their copies until they leave the pool. It ends by itself, and
goes on after a restart. kist pool show tells how far it is, and why it waits.

Examples:
  kist pool recode
  kist pool recode --end")]
    Recode {
        /// End it: what was written anew stays so
        #[arg(long)]
        end: bool,
    },
    /// Show what is kept although the catalogue does not name it, or remove it
    Quarantine {
        /// Remove it: nothing of the time between a restored point and its restore is wanted any more, nor
        /// what a crash has left
        #[arg(long)]
        end: bool,
    },
    /// List the files of a cluster that libkineticio (EOS) has left on Kinetic drives, or put them here
    ImportKinetic(pool_import::Args),
    /// Take a drive out, or put one in
    Drive {
        #[command(subcommand)]
        action: DriveAction,
    },
}

#[derive(clap::Subcommand, Debug)]
enum DriveAction {
    /// Give a drive up for good: what it held is rebuilt on the others
    #[command(after_help = "\
If files are LOST by it, since the pool has their only copy and the drives that
are left are too few for it, it names some and does nothing without
--accept-loss.")]
    Lost {
        /// Its number
        #[arg(value_parser = drive_number)]
        id: u16,
        /// Go on although files are LOST by it
        #[arg(long)]
        accept_loss: bool,
    },
    /// Have a drive emptied: it gets nothing new, and what it holds moves to the others
    #[command(after_help = "\
Files stay readable and as redundant as they are all the time. kist pool show
tells how far it is; when the drive is empty, kist pool drive remove takes it
out. A drive that does not answer cannot be read: give it up with kist pool
drive lost.")]
    Drain {
        /// Its number
        #[arg(value_parser = drive_number)]
        id: u16,
        /// Stop emptying it: it is in use again, and what has moved stays where it is
        #[arg(long)]
        end: bool,
    },
    /// Take a drive out of the pool that is empty, or was given up and is rebuilt on the others
    #[command(after_help = "\
Nothing is removed if a shard stands on it still. Afterwards its directory is
not used any more: delete its [[pool.drives]] from kist.toml before the next
start, and what is in the directory when you like.")]
    Remove {
        /// Its number
        #[arg(value_parser = drive_number)]
        id: u16,
    },
    /// Show all that is known of one drive
    Show {
        /// Its number
        #[arg(value_parser = drive_number)]
        id: u16,
    },
    /// Write all of a disk, read and compare it, and measure it place by place, before its first use
    BurnIn(burn_in::Args),
    /// Add a drive to the pool of the running server, and name it in kist.toml
    #[command(after_help = "\
The directory is one of the server's machine, empty or with a drive of this
instance. An empty one becomes a drive with the next free number, or the number
that kist.toml has for it. The drive takes new data at once; what is stored stays
where it is, until kist pool rebalance moves it. A directory that is not there is
refused, since its disk may not be mounted: --new makes it. So is one on the file
system of another drive, where each has one of its own, unless --new says that it is
meant. Said again, it goes on where it was broken off.

--burn-in first burns the disk in, as kist pool drive burn-in: on the server's machine,
since it is this command that reads and writes. A disk that has not passed is not added,
and a burn-in that would not prove its disk (too few bytes, or a file system that reads
from memory) is not begun, unless --accept-burn-in says so. Without --burn-in a disk whose
burn-in called it slow or faulty is refused, too, unless --accept-burn-in says so.

Examples:
  kist pool drive add /mnt/d8
  kist pool drive add /mnt/d9 --enclosure jbod-2
  kist pool drive add /mnt/d8 --burn-in
  kist pool drive add /dev/sdd   what is mounted of it, by the disk and not by its name
  kist pool drive add 9        where kist.toml has it")]
    Add(AddArgs),
    /// Put a new or the same drive in the place of a missing or lost one
    #[command(after_help = "\
The drive's directory is the one in kist.toml. If it is empty it becomes a new
drive, which gets its shards back; if it holds the drive, that is in use again.
A directory that is not there is refused, since its disk may not be mounted:
--new makes it. If files are LOST by a new drive, since the pool has their only
copy and the drives that are left are too few for it, it names some and does
nothing without --accept-loss.")]
    Replace {
        /// Its number
        #[arg(value_parser = drive_number)]
        id: u16,
        /// Make the directory if it is not there
        #[arg(long)]
        new: bool,
        /// Go on although files are LOST by it
        #[arg(long)]
        accept_loss: bool,
    },
}

/// A drive that is to be added.
#[derive(clap::Args, Debug)]
struct AddArgs {
    /// Its directory; the disk that is mounted there (device, serial number, name in the world or
    /// ENCLOSURE/SLOT, as kist disk ls has them); or its number if kist.toml names it
    place: PathBuf,
    /// The machine that it stands in, if it is not the server's [default: as kist.toml has it]
    #[arg(long)]
    host: Option<String>,
    /// What it shares with drives that fail together [default: as kist.toml has it]
    #[arg(long)]
    enclosure: Option<String>,
    /// The group of drives that it is in [default: as kist.toml has it, else none]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// It is no disk to be mounted: make the directory if it is not there
    #[arg(long)]
    new: bool,
    /// Of a number: go on although files are LOST by it
    #[arg(long)]
    accept_loss: bool,
    /// Burn it in before: only a disk that has passed is added
    #[arg(long)]
    burn_in: bool,
    /// Bytes that the burn-in writes [default: all that is free but for 1 GiB]
    #[arg(long, requires = "burn_in", value_parser = Size::parse, value_name = "SIZE")]
    size: Option<Size>,
    /// As for kist pool drive burn-in
    #[arg(long, requires = "burn_in", conflicts_with = "size")]
    shared: bool,
    /// Add it although its burn-in does not prove the disk or, without --burn-in, has not passed
    #[arg(long)]
    accept_burn_in: bool,
}

/// The number of a drive.
fn drive_number(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is no number of a drive: kist pool show has them"))
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    // A burn-in needs no server.
    let client = || common.connection.client();
    match &args.action {
        Action::Drive { action: DriveAction::BurnIn(args) } => burn_in::run(args, common.into()),
        Action::ImportKinetic(args) => pool_import::run(args, common),
        Action::Show => show(&client()?, common.json),
        Action::Rebuild { drive, accept_loss } => {
            let body = RebuildBody { drive: *drive, accept_loss: *accept_loss };
            client()?.post("/api/v1/pool/rebuild", &body)?;
            said(common.json, "rebuilding: kist scrub shows how far it is")
        }
        Action::Rebalance { to, end } => rebalance(&client()?, *to, *end, common.json),
        Action::Recode { end } => pool_recode::run(&client()?, *end, common.json),
        Action::Quarantine { end } => quarantine(&client()?, *end, common.json),
        Action::Drive { action: DriveAction::Lost { id, accept_loss } } => {
            let body = DriveLostBody { accept_loss: *accept_loss };
            client()?.post(&format!("/api/v1/pool/drives/{id}/lost"), &body)?;
            said(common.json, "given up: kist scrub shows how far the rebuild is")
        }
        Action::Drive { action: DriveAction::Drain { id, end } } => {
            let what = if *end { "keep" } else { "drain" };
            client()?.post(&format!("/api/v1/pool/drives/{id}/{what}"), &serde_json::json!({}))?;
            said(
                common.json,
                match *end {
                    true => "in use again: what has moved stays where it is",
                    false => {
                        "it gets nothing new, and what it holds moves: kist pool show tells how far that is"
                    }
                },
            )
        }
        Action::Drive { action: DriveAction::Remove { id } } => {
            client()?.post(&format!("/api/v1/pool/drives/{id}/remove"), &serde_json::json!({}))?;
            said(common.json, "taken out: delete its [[pool.drives]] from kist.toml")
        }
        Action::Drive { action: DriveAction::Show { id } } => pool_drive::show(&client()?, *id, common.json),
        Action::Drive { action: DriveAction::Add(args) } => add_named(args, common),
        Action::Drive { action: DriveAction::Replace { id, new, accept_loss } } => {
            replace(&client()?, *id, ReplaceBody { new: *new, accept_loss: *accept_loss }, common.json)
        }
    }
}

/// Adds what a path or a number names.
fn add_named(args: &AddArgs, common: &Common) -> Outcome {
    let client = || common.connection.client();
    let AddArgs { place, host, enclosure, group, .. } = args;
    let AddArgs { new, accept_loss, burn_in, size, shared, accept_burn_in, .. } = args;
    let (new, accept_burn_in) = (*new, *accept_burn_in);
    let Some(id) = place.to_str().and_then(|text| text.parse().ok()) else {
        let place = &pool_add_disk::directory(place, client, common.quiet)?;
        let (path, host, enclosure, group) =
            (absolute(place)?, host.clone(), enclosure.clone(), group.clone());
        let (burn_in_id, check) = (None, false);
        let body =
            AddDriveBody { path, host, enclosure, group, new, burn_in: burn_in_id, accept_burn_in, check };
        if !burn_in {
            return add(&client()?, &body, common.json);
        }
        let (path, size, id) = (place.as_path(), *size, burn_in::new_id()?);
        let (destroy, is_shared) = (None, *shared);
        let unless_proof = (!accept_burn_in).then_some("--accept-burn-in adds it all the same");
        return add_burnt_in(
            &client()?,
            body,
            &Wanted { path, size, destroy, is_shared, unless_proof, id },
            common,
        );
    };
    let refused = |what: &str| Err(Failure::usage(format!("drive {id}: {what}")));
    if *burn_in || accept_burn_in {
        return refused("name its directory instead, with --burn-in and --accept-burn-in");
    }
    if host.is_some() || enclosure.is_some() || group.is_some() {
        return refused(
            "kist.toml says of a drive with a number where it stands: leave --host, --enclosure and \
             --group out",
        );
    }
    replace(&client()?, id, ReplaceBody { new, accept_loss: *accept_loss }, common.json)
}

/// Percentage points, as `--to` takes them.
fn points(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|points| *points <= 100);
    number.ok_or_else(|| {
        "how many percentage points the fullest and the emptiest drive may be apart: a whole number from 0 \
         to 100, such as 5"
            .to_owned()
    })
}

fn rebalance(client: &Client, to: Option<u8>, end: bool, json: bool) -> Outcome {
    if end {
        let empty = serde_json::json!({});
        let ended: RebalanceEndReply = client.post_for("/api/v1/pool/rebalance/end", &empty)?;
        if json {
            return output::json(&ended);
        }
        return output::line(match ended.was_on {
            true => "ended: what has moved stays where it is",
            false => "none is under way",
        });
    }
    client.post("/api/v1/pool/rebalance", &RebalanceBody { to })?;
    said(json, "what is stored moves to the emptier drives: kist pool show tells how far that is")
}

/// The server runs in another directory.
fn absolute(place: &Path) -> Outcome<String> {
    let not_text = || Failure::usage(format!("{} is no UTF-8", place.display()));
    if place.to_str().is_some_and(|text| text.contains("://")) {
        return place.to_str().map(str::to_owned).ok_or_else(not_text);
    }
    let path = std::path::absolute(place).map_err(|error| Failure::io("looking for", place, &error))?;
    path.to_str().map(str::to_owned).ok_or_else(not_text)
}

fn add(client: &Client, body: &AddDriveBody, json: bool) -> Outcome {
    let reply: AddDriveReply = client.post_for("/api/v1/pool/drives", body)?;
    if json {
        return output::json(&reply);
    }
    output::line(&added(&reply))
}

/// Burns a disk in and adds it if it has passed.
fn add_burnt_in(client: &Client, mut body: AddDriveBody, wanted: &Wanted<'_>, common: &Common) -> Outcome {
    // What is refused is refused before days of work, not after. A server that knows no check finds no record
    // of this burn-in, and adds nothing either.
    body.burn_in = Some(wanted.id.to_string());
    body.check = true;
    let _: AddDriveReply = client.post_for("/api/v1/pool/drives", &body)?;
    body.check = false;
    let made = if body.new { Some(MadeDirectories::make(wanted.path)?) } else { None };
    let report = burn_in::burn_in(wanted, common.into())?;
    let judged = report
        .judge()
        .map_err(|failure| Failure { message: format!("not added: {}", failure.message), ..failure });
    if judged.is_err() {
        match common.json {
            true => output::json(&serde_json::json!({ "burn_in": report }))?,
            false => output::write(&report.text())?,
        }
        return judged;
    }
    let reply: AddDriveReply = client.post_for("/api/v1/pool/drives", &body)?;
    if let Some(made) = made {
        made.keep();
    }
    if common.json {
        return output::json(&serde_json::json!({ "burn_in": report, "drive": reply }));
    }
    output::line(&report.summary())?;
    output::line(&added(&reply))
}

/// Directories that were not there before; gone again, as far as they are empty, if no drive comes of them.
/// One that holds the record of a burn-in stays.
struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    fn make(path: &Path) -> Outcome<Self> {
        let missing = path.ancestors().take_while(|at| !at.as_os_str().is_empty() && !at.exists());
        let made = MadeDirectories(missing.map(Path::to_owned).collect());
        std::fs::create_dir_all(path).map_err(|error| Failure::io("making", path, &error))?;
        Ok(made)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        // The deepest comes first; what is not empty is somebody's.
        for path in &self.0 {
            if std::fs::remove_dir(path).is_err() {
                return;
            }
        }
    }
}

fn added(reply: &AddDriveReply) -> String {
    let what = match reply.what.as_str() {
        "new" => {
            "a new drive, in use and named in kist.toml: new data comes to it, and kist pool rebalance moves \
             what is stored"
        }
        "returned" => "a drive of this instance, in use and named in kist.toml",
        _ => {
            "in use already, and nothing was changed: kist pool show tells how full it is; kist pool drive \
             replace puts another one in its place"
        }
    };
    format!("drive {}: {what}", reply.id)
}

fn replace(client: &Client, id: u16, body: ReplaceBody, json: bool) -> Outcome {
    let reply: ReplaceReply = client.post_for(&format!("/api/v1/pool/drives/{id}/replace"), &body)?;
    if json {
        return output::json(&reply);
    }
    output::line(match reply.what.as_str() {
        "new" => {
            "a new drive, in use: shards that should be on it are written anew, kist scrub shows how \
             far that is"
        }
        _ => "the drive itself: what it holds is in use again",
    })
}

/// What waits for its repair, and how much of it was tried in vain.
fn repairs(health: &PoolHealthReply) -> String {
    let waiting = text::count(health.repairs_waiting);
    match health.repairs_failed {
        0 => format!("{waiting} found damaged, to be repaired"),
        failed => format!(
            "{waiting} found damaged, to be repaired; {} of these failed, and wait to be tried again",
            text::count(failed)
        ),
    }
}

/// How far a rebalance is.
fn rebalanced(rebalance: &RebalanceReply) -> String {
    let moved =
        format!("{} moved, {}", text::plural(rebalance.moved, "shard"), text::size(rebalance.moved_bytes));
    let apart = rebalance.spread.map_or_else(String::new, |spread| {
        let to = rebalance.to;
        format!("; the fullest drive and the emptiest are {spread:.1} percentage points apart, to be {to}")
    });
    let reason = rebalance.reason.clone().unwrap_or_default();
    match (rebalance.state.as_str(), rebalance.remaining_seconds) {
        ("ended", _) => format!("rebalance: ended: {reason}; {moved}"),
        ("waiting", _) => format!("rebalance: waits: {reason}; {moved}{apart}"),
        ("counting", _) => format!("rebalance: counts what stands on the drives; {moved}{apart}"),
        (_, Some(left)) => format!(
            "rebalance: {moved}, {}/s, about {} left{apart}",
            text::size(rebalance.rate),
            text::span(std::time::Duration::from_secs_f64(left.clamp(0.0, 1e9)))
        ),
        (_, None) => format!("rebalance: {moved}{apart}"),
    }
}

/// How many drives do not answer.
fn silent(drives: u64) -> String {
    let verb = if drives == 1 { "does" } else { "do" };
    format!("{} {verb} not answer", text::plural(drives, "drive"))
}

fn said(json: bool, what: &str) -> Outcome {
    if json { output::json(&serde_json::json!({ "done": what })) } else { output::line(what) }
}

/// What leaves the pool by itself, and when.
fn leaving(evictor: &EvictorReply) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(high), Some(low)) = (evictor.high_water_percent, evictor.low_water_percent) {
        let full = match evictor.room_bytes {
            0 => String::new(),
            room => format!(
                "; files take {} of {} ({:.0}%)",
                text::size(evictor.online_bytes),
                text::size(room),
                evictor.online_bytes as f64 * 100.0 / room as f64
            ),
        };
        lines.push(format!("above {high}% files on tape leave by themselves, down to {low}%{full}"));
        if evictor.held_up {
            lines.push(
                "nothing that is to leave may: it is pinned, held, or not on all its tapes yet (kist status)"
                    .to_owned(),
            );
        }
        if evictor.makes_room {
            lines.push("room is being made: files leave, or are being removed from the drives".to_owned());
        }
    }
    if let Some(last) = &evictor.last {
        lines.push(format!(
            "{} ({}) left by themselves since the start, the last one at {last}",
            text::files(evictor.evicted_files),
            text::size(evictor.evicted_bytes)
        ));
    }
    lines
}

fn show(client: &Client, json: bool) -> Outcome {
    let pool: PoolReply = client.get("/api/v1/pool")?;
    let health: PoolHealthReply = client.get("/api/v1/pool/health")?;
    if json {
        let mut value = serde_json::to_value(&pool).map_err(|error| Failure::internal(error.to_string()))?;
        value["health"] =
            serde_json::to_value(&health).map_err(|error| Failure::internal(error.to_string()))?;
        return output::json(&value);
    }
    output::line(&format!(
        "{} shards, small files {} times; {}, {} online; {} rebuilt on read{}, {} to remove",
        StripeCode { data: pool.data, local: pool.local_parity, global: pool.parity },
        pool.segment_copies,
        text::files(pool.online_files),
        text::size(pool.online_bytes),
        text::plural(pool.reconstructed, "cell"),
        // As when drives are slow: nothing is wrong with what they hold.
        match health.late_cells {
            0 => String::new(),
            late => format!(" ({} came late from their drives)", text::count(late)),
        },
        text::plural(pool.garbage, "blob")
    ))?;
    if let Some(refuses) = &pool.refuses_text {
        output::line(refuses)?;
    }
    if let Some(small) = pool.small.as_ref().filter(|small| small.values > 0) {
        output::line(&format!(
            "small files: {} in {}, {} in all copies; they take {}, {:.1} times as much",
            text::count(small.values),
            text::plural(small.segments, "segment"),
            text::size(small.copied),
            text::size(small.taken),
            small.amplification.unwrap_or(0.0)
        ))?;
    }
    leaving(&pool.evictor).iter().try_for_each(|line| output::line(line))?;
    if health.silent_drives > 0 || health.degraded > 0 {
        output::line(&format!(
            "{}; of {} {} degraded, of these {} bear no further loss; {} unreadable",
            silent(health.silent_drives),
            text::plural(health.stripes, "stripe"),
            text::count(health.degraded),
            text::count(health.critical),
            text::count(health.unreadable)
        ))?;
    }
    if health.lost > 0 {
        let lost = text::plural(health.lost, "stripe");
        output::line(&format!("{lost} lost: no drive holds enough of them (kist scrub names files)"))?;
    }
    if health.repairs_waiting > 0 {
        output::line(&repairs(&health))?;
    }
    let has_groups = !pool.groups.is_empty();
    let mut heads = vec![
        ">drive",
        "state",
        ">fs size",
        ">fs used",
        ">read",
        ">written",
        ">errors",
        "io",
        ">depth",
        "host",
        "directory",
    ];
    if has_groups {
        heads.push("group");
    }
    let mut table = Table::new(&heads);
    for drive in &pool.drives {
        let mut row = vec![
            drive.id.to_string(),
            drive.state.clone(),
            text::size(drive.capacity),
            text::size(drive.used),
            text::size(drive.read),
            text::size(drive.written),
            text::count(drive.errors),
            drive.io.clone(),
            drive.depth.to_string(),
            drive.host.clone(),
            drive.path.clone(),
        ];
        if has_groups {
            row.push(drive.group.clone());
        }
        table.row(row);
    }
    output::write(&table.render())?;
    pool.drives.iter().flat_map(pool_drive::remarks).try_for_each(|remark| output::line(&remark))?;
    output::write(&pool_groups::table(&pool.groups))?;
    if let Some(rebuild) = &pool.rebuild {
        output::line(&scrub::rebuilt(rebuild))?;
    }
    if let Some(rebalance) = &pool.rebalance {
        output::line(&rebalanced(rebalance))?;
    }
    if let Some(recoding) = &pool.recoding {
        output::line(&pool_recode::progress(recoding))?;
    }
    let kept: QuarantineReply = client.get("/api/v1/pool/quarantine")?;
    if kept.on || kept.unknown > 0 {
        output::line(&quarantine_text(&kept))?;
    }
    output::line("fs size and fs used are of the file systems; drives that share one have even parts of it")
}

fn quarantine(client: &Client, end: bool, json: bool) -> Outcome {
    if end {
        let empty = serde_json::json!({});
        let ended: QuarantineEndReply = client.post_for("/api/v1/pool/quarantine/end", &empty)?;
        return if json { output::json(&ended) } else { output::line(&ended_text(&ended)) };
    }
    let kept: QuarantineReply = client.get("/api/v1/pool/quarantine")?;
    if json { output::json(&kept) } else { output::line(&quarantine_text(&kept)) }
}

/// What came of ending a quarantine.
fn ended_text(ended: &QuarantineEndReply) -> String {
    if !ended.was_on && ended.removed == 0 && ended.left.is_empty() {
        return "there was no quarantine, and nothing to remove".to_owned();
    }
    let what = if ended.was_on { "the quarantine has ended" } else { "there was no quarantine of a restore" };
    let mut lines = vec![format!("{what}: {} removed", amount(ended.removed, ended.removed_bytes))];
    lines.extend(ended.left.iter().map(|left| {
        let why = match left.why.as_str() {
            "garbage" => "given up meanwhile: the sweeper removes them now",
            "beside" => {
                "beside the places that the catalogue has for them: the scrubber reads the rest of their \
                 stripes now, and removes them if these are whole (else the server's log tells)"
            }
            "failed" => "their drive did not remove them: the server's log has its error",
            "away" => "their drive does not answer: they are looked at again when it is back",
            other => other,
        };
        format!("{} left: {why}", amount(left.extents, left.bytes))
    }));
    lines.join("\n")
}

fn amount(extents: u64, bytes: u64) -> String {
    format!("{}, {}", text::plural(extents, "extent"), text::size(bytes))
}

fn quarantine_text(kept: &QuarantineReply) -> String {
    let mut lines = Vec::new();
    if kept.on {
        lines.push(format!(
            "quarantine: {} of {} on the drives that the restored catalogue does not name, or has given up \
             since; they are kept, and their room with them, until kist pool quarantine --end",
            amount(kept.extents, kept.bytes),
            text::plural(kept.blobs, "blob")
        ));
    }
    if let Some(until) = kept.unknown_until.as_deref().filter(|_| kept.unknown > 0) {
        lines.push(format!(
            "{} of {} on the drives that nothing names, such as a crash leaves: kept until {} or later, or \
             until kist pool quarantine --end",
            amount(kept.unknown, kept.unknown_bytes),
            text::plural(kept.unknown_blobs, "blob"),
            text::whole_seconds(until)
        ));
    }
    if lines.is_empty() { "there is no quarantine".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::QuarantineLeftReply;

    /// Story: a burn-in that was refused left the directory that it had made for the drive.
    #[test]
    fn directories_made_for_a_drive_that_does_not_come_are_gone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("mnt/d8");
        drop(MadeDirectories::make(&path).unwrap());
        assert!(!above.path().join("mnt").exists() && above.path().exists());
        // What the burn-in has left there stays, and so do directories of before.
        let made = MadeDirectories::make(&path).unwrap();
        std::fs::write(path.join("burn-in.kist"), "x").unwrap();
        drop(made);
        assert!(path.join("burn-in.kist").exists());
        std::fs::remove_file(path.join("burn-in.kist")).unwrap();
        drop(MadeDirectories::make(&path).unwrap());
        assert!(path.exists(), "it was there before");
        std::fs::remove_dir(&path).unwrap();
        MadeDirectories::make(&path).unwrap().keep();
        assert!(path.exists());
    }

    #[test]
    fn drives_that_do_not_answer_are_counted() {
        assert_eq!(
            (silent(1), silent(0)),
            ("1 drive does not answer".into(), "0 drives do not answer".into())
        );
    }

    /// Ending a quarantine said that there was none.
    #[test]
    fn the_end_of_a_quarantine_tells_what_it_removed() {
        let kept = |on, extents, unknown| QuarantineReply {
            on,
            extents,
            blobs: extents / 3,
            bytes: extents * 1_000_000,
            unknown,
            unknown_blobs: unknown,
            unknown_bytes: unknown * 1_000_000,
            unknown_until: None,
        };
        let ended = |was_on, removed, left: &[(&str, u64)]| {
            let left = left.iter().map(|(why, extents)| QuarantineLeftReply {
                why: (*why).to_owned(),
                extents: *extents,
                bytes: extents * 1_000_000,
            });
            ended_text(&QuarantineEndReply {
                was_on,
                removed,
                removed_bytes: removed * 1_000_000,
                left: left.collect(),
            })
        };
        assert_eq!(ended(true, 15, &[]), "the quarantine has ended: 15 extents, 15.0 MB removed");
        assert!(ended(false, 1, &[]).ends_with("of a restore: 1 extent, 1.00 MB removed"));
        assert_eq!(ended(false, 0, &[]), "there was no quarantine, and nothing to remove");
        // Story: 2 extents stayed, and neither answer nor log said why.
        let left = ended(false, 0, &[("beside", 2)]);
        let told = quarantine_text(&kept(true, 12, 0));
        assert!(told.starts_with("quarantine: 12 extents, 12.0 MB of 4 blobs on the drives"), "{told}");
        assert!(
            left.starts_with(
                "there was no quarantine of a restore: 0 extents, 0 B removed\n2 extents, 2.00 MB left: "
            ),
            "{left}"
        );
    }
}
