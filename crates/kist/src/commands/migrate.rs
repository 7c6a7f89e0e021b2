//! `kist migrate`.

use terminal::{Failure, Outcome, output};
use wire::MigrateBody;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Seals packs and mounts tapes without waiting for the amounts and ages of
kist.toml. Follow with kist wait.

Example:
  kist migrate --now && kist wait")]
pub struct Args {
    /// Do it; without it nothing happens, for it costs mounts
    #[arg(long)]
    now: bool,
    /// Only this storage class
    #[arg(long)]
    class: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if !args.now {
        return Err(Failure::usage("migration goes on by itself; to hurry it, say so: kist migrate --now"));
    }
    let body = MigrateBody { class: args.class.clone() };
    common.connection.client()?.post("/api/v1/migrate", &body)?;
    let what = args.class.as_ref().map_or("all that waits".to_owned(), |class| format!("class {class}"));
    let said = serde_json::json!({ "class": args.class });
    output::done(common, &said, &format!("{what} goes to tape now: kist wait tells when it is there"))
}
