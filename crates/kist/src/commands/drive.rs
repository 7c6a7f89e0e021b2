//! `kist drive`.

use terminal::{Outcome, Table, output, text};
use wire::{CleanBody, DriveReply, ReasonBody, TAPE_DRIVE_STATES};

use crate::cli::Common;
use crate::expected;
use crate::watch::{self, Watch, is_asked};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist drive ls
  kist drive show vdrive0
  kist drive up vdrive0
  kist drive down vdrive0
  kist drive clean vdrive0 --with CLN001

And disks as drives of Open Kinetic:
  kist drive format --path /mnt/d8
  kist drive serve --path /mnt/d8 --listen 10.0.0.8:8123")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the tape drives and what they do
    Ls {
        /// Only drives in this state
        #[arg(long, value_parser = TAPE_DRIVE_STATES)]
        state: Option<String>,
        /// Only drives of this library
        #[arg(long)]
        library: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a drive: what it is, how well it is, its tapes and last mounts
    #[command(after_help = super::health::HELP)]
    Show {
        /// The drive
        name: String,
    },
    /// Give a drive back to use that was taken out of it
    Up {
        /// The drive
        name: String,
    },
    /// Clean a drive: at once if it is empty, else when its session has ended
    Clean {
        /// The drive
        name: String,
        /// The cleaning cartridge; also one that is used no more, whose uses are counted anew then
        #[arg(long, value_name = "VID")]
        with: Option<String>,
    },
    /// Take a drive out of use: at once if it is empty, else when its session has ended
    Down {
        /// The drive
        name: String,
        /// Why, for other operators
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Make a disk a drive of keys and values, which kist drive serve serves
    Format(super::drive_serve::FormatArgs),
    /// Serve a disk as an Open Kinetic drive: keys and values over the network
    Serve(super::drive_serve::ServeArgs),
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Format(args) => return super::drive_serve::format(args, common),
        Action::Serve(args) => return super::drive_serve::serve(args, common),
        _ => {}
    }
    let client = common.connection.client()?;
    match &args.action {
        // Done already.
        Action::Format(_) | Action::Serve(_) => Ok(()),
        Action::Show { name } => super::health::drive(name, common),
        Action::Up { name } => {
            let target = format!("/api/v1/drives/{}/up", text::encode(name));
            client.post(&target, &serde_json::json!({}))?;
            let said = serde_json::json!({ "name": name });
            output::done(common, &said, &format!("drive {name} is in use again"))
        }
        Action::Clean { name, with } => {
            let target = format!("/api/v1/drives/{}/clean", text::encode(name));
            client.post(&target, &CleanBody { with: with.clone() })?;
            let said = serde_json::json!({ "name": name, "with": with });
            let text = format!("drive {name} is cleaned as soon as its session has ended: kist drive ls");
            output::done(common, &said, &text)
        }
        Action::Down { name, reason } => {
            let target = format!("/api/v1/drives/{}/down", text::encode(name));
            // Only words depend on it.
            let before = client.get::<Vec<DriveReply>>("/api/v1/drives").unwrap_or_default();
            let is_empty = before.iter().any(|drive| drive.name == *name && drive.vid.is_none());
            client.post(&target, &ReasonBody { reason: reason.clone() })?;
            let said = serde_json::json!({ "name": name, "reason": reason });
            let text = match is_empty {
                true => format!("drive {name} is out of use: kist drive up {name} gives it back"),
                false => {
                    format!("drive {name} goes out of use as soon as its session has ended: kist drive ls")
                }
            };
            output::done(common, &said, &text)
        }
        Action::Ls { state, library, watch } => {
            let get = || {
                let mut drives: Vec<DriveReply> = client.get("/api/v1/drives")?;
                let libraries = drives.iter().map(|drive| drive.library.clone()).collect();
                watch::check("--library", library.as_deref(), &libraries)?;
                drives.retain(|drive| is_asked(state.as_deref(), &drive.state));
                drives.retain(|drive| is_asked(library.as_deref(), &drive.library));
                Ok(drives)
            };
            watch::list(*watch, common, get, table)
        }
    }
}

fn table(drives: &[DriveReply]) -> String {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let headings = [
        "drive",
        "library",
        "state",
        "tape",
        "tape pool",
        "since",
        ">files",
        ">bytes",
        ">rate",
        "done",
        "reason",
    ];
    let mut table = Table::new(&headings);
    for drive in drives {
        table.row(vec![
            drive.name.clone(),
            drive.library.clone(),
            drive.state.clone(),
            dash(&drive.vid),
            dash(&drive.tape_pool),
            drive.since.as_deref().map_or_else(|| "-".to_owned(), text::whole_seconds),
            text::count(drive.files),
            text::size(drive.bytes),
            format!("{}/s", text::size(drive.rate.max(0.0) as u64)),
            expected::words_or_dash(drive.expected.as_ref()),
            drive.reason.clone(),
        ]);
    }
    let rate = drives.iter().map(|drive| drive.rate.max(0.0)).sum::<f64>() as u64;
    let all = text::plural(drives.len() as u64, "drive");
    format!("{}{all}, {}/s\n", table.render(), text::size(rate))
}
