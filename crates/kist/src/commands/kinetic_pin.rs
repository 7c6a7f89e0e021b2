//! `kist kinetic set-pin`, `lock`, `unlock`, `erase`: what PINs are for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kinetic::{PinOperation, Request, Secret, SecurityChange};
use kinetic_client::{PIN_WITHIN, pin};
use serde_json::json;
use terminal::{Failure, Outcome, output};

use crate::cli::Common;
use crate::commands::kinetic_at::{Access, Reached, refused, secret, unanswered};

/// How long locking may take.
const LOCK_WITHIN: Duration = Duration::from_secs(60);

/// Arguments of `set-pin`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  kist kinetic --tls --ca d1.pem set-pin d1 erase --new-file erase.pin")]
pub struct SetArgs {
    /// The drive
    drive: String,
    /// Which PIN
    #[arg(value_parser = ["lock", "erase"])]
    which: String,
    /// The file with the PIN that it has [default: it has none]
    #[arg(long, value_name = "FILE")]
    old_file: Option<PathBuf>,
    /// The file with the PIN that it gets
    #[arg(long, value_name = "FILE", required_unless_present = "none")]
    new_file: Option<PathBuf>,
    /// None: nothing can be locked or erased
    #[arg(long, conflicts_with = "new_file")]
    none: bool,
}

/// Arguments of `lock` and `unlock`.
#[derive(clap::Args, Debug)]
pub struct PinArgs {
    /// The drive
    drive: String,
    /// The file with its PIN for locking
    #[arg(long, value_name = "FILE")]
    pin_file: PathBuf,
}

/// Arguments of `erase`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  kist kinetic --tls --ca d1.pem erase d1 --pin-file erase.pin --yes")]
pub struct EraseArgs {
    /// The drive
    drive: String,
    /// The file with its PIN for erasing
    #[arg(long, value_name = "FILE")]
    pin_file: PathBuf,
    /// So that nothing is left on the medium, which may take hours
    #[arg(long)]
    secure: bool,
    /// All data of the drive goes: without this nothing is done
    #[arg(long)]
    yes: bool,
}

impl SetArgs {
    /// The drive that is asked.
    pub fn drive(&self) -> &str {
        &self.drive
    }
}

/// Sets a PIN.
pub fn set(drive: &Reached, args: &SetArgs, common: &Common) -> Outcome {
    let pin = |file: &Option<PathBuf>| match file {
        None => Ok(Secret::default()),
        Some(file) => secret(file),
    };
    let (old, new) = (pin(&args.old_file)?, pin(&args.new_file)?);
    let change = match args.which.as_str() {
        "erase" => SecurityChange::ErasePin { old, new },
        _ => SecurityChange::LockPin { old, new },
    };
    drive.ask("PIN", Request::Security(change))?;
    let has = if args.none { "has no" } else { "has another" };
    let said = format!("{} {has} PIN to {} it", drive.name, args.which);
    output::done(common, &json!({ "drive": drive.name, "pin": args.which, "set": !args.none }), &said)
}

/// Locks a drive.
pub fn lock(access: &Access, args: &PinArgs, common: &Common) -> Outcome {
    done(access, &args.drive, PinOperation::Lock, &args.pin_file, common, "is locked")
}

/// Unlocks a drive.
pub fn unlock(access: &Access, args: &PinArgs, common: &Common) -> Outcome {
    done(access, &args.drive, PinOperation::Unlock, &args.pin_file, common, "is unlocked")
}

/// Erases a drive.
pub fn erase(access: &Access, args: &EraseArgs, common: &Common) -> Outcome {
    if !args.yes {
        let message = format!("all data of {} would be gone: say --yes if that is meant", args.drive);
        return Err(Failure::usage(message));
    }
    let how = if args.secure { PinOperation::SecureErase } else { PinOperation::Erase };
    done(access, &args.drive, how, &args.pin_file, common, "is erased, and as new: identity 1, no PINs")
}

fn done(
    access: &Access,
    drive: &str,
    operation: PinOperation,
    file: &Path,
    common: &Common,
    said: &str,
) -> Outcome {
    let settings = access.settings(drive, common)?;
    if settings.trust.is_none() {
        return Err(Failure::usage("a PIN is sent over TLS only: give --tls, and --ca FILE"));
    }
    let within = match operation {
        PinOperation::Erase | PinOperation::SecureErase => PIN_WITHIN,
        PinOperation::Lock | PinOperation::Unlock => LOCK_WITHIN,
    };
    let answer = pin(&settings, operation, secret(file)?, within);
    let response = answer.map_err(|error| unanswered(drive, &error))?;
    if !response.status.is_success() {
        return Err(refused(drive, "PIN operation", &response.status));
    }
    let operation = format!("{operation:?}").to_lowercase();
    output::done(common, &json!({ "drive": drive, "done": operation }), &format!("{drive} {said}"))
}
