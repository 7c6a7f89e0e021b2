//! `kist library`: finding libraries, and a virtual one for other programs.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archive::{LibrarySettings, VirtualLibrarySettings};
use base::{ByteCount, Vid};
use clap::Subcommand;
use config::Size;
use iscsi::login::{Access, Account, Name};
use iscsi::target::{Server, TargetConfig};
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use scsi::Text;
use terminal::{Exit, Failure, Outcome, output, text};
use vtl::{Blank, Options, Target};

use super::{library_scan, library_test};
use crate::cli::Common;
use crate::{library_lock, serve, stop};

/// The most cartridges that are made at once: their names have four digits.
const CARTRIDGES_MAX: u32 = 9_999;
/// The most cleaning cartridges that are made at once.
const CLEANERS_MAX: u32 = 99;
/// How often a new one cleans: what makers say of the LTO universal cleaning cartridge.
const CLEANER_USES: u32 = 50;
/// The longest file of accounts in bytes.
const CHAP_FILE_MAX: u64 = 64 * 1024;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist library scan --portal tape1.example.org:3260
  kist library test --portal tape1.example.org:3260 --tape KV0007 --destroy KV0007
  kist library serve --new-cartridges 12 /srv/tapes")]
pub struct Args {
    #[command(subcommand)]
    command: LibraryCommand,
}

#[derive(Subcommand, Debug)]
enum LibraryCommand {
    /// Find changers and drives, show what they hold and can do, and give the configuration for them
    Scan(library_scan::Args),
    /// Have a server's libraries say now what they hold
    #[command(after_help = "\
The server asks by itself every few seconds, and after each unit attention.

Examples:
  kist library inventory
  kist library inventory --scan")]
    Inventory {
        /// Robots look at every slot with their own eyes: minutes, during which nothing is mounted
        #[arg(long)]
        scan: bool,
    },
    /// Test drives and robot on a scratch tape, with a report. Destroys what is on it
    Test(library_test::Args),
    /// Make a virtual library reachable as an iSCSI target: a changer and tape drives
    Serve(ServeArgs),
}

/// Arguments of `serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Unit 0 is the medium changer, units 1 and up are the drives: for LTFS, Bareos,
Amanda and others, through an iSCSI initiator. Prints one line when it is
ready, and stops cleanly on SIGINT or SIGTERM: commands end, tapes are
unloaded. A library that a server uses cannot be served.

Each line of --chap-file is a name, a blank and a secret of 12 to 256 bytes.
Without it everybody who reaches the port is let in.

Examples:
  kist library serve --new-cartridges 12 --cartridge-size 100GB /srv/tapes
  kist library serve --listen 0.0.0.0:3260 --chap-file accounts /srv/tapes
  iscsi-ls -s iscsi://127.0.0.1:3260")]
struct ServeArgs {
    /// The library's directory
    dir: PathBuf,
    /// Where initiators connect
    #[arg(long, default_value = "127.0.0.1:3260", value_name = "ADDR")]
    listen: SocketAddr,
    /// The target's iSCSI name
    #[arg(long, default_value = "iqn.2026-01.org.kist:library", value_name = "IQN", value_parser = name)]
    name: Name,
    /// Tape drives
    #[arg(long, default_value_t = 2)]
    drives: u16,
    /// Names and secrets of those who are let in (CHAP)
    #[arg(long, value_name = "FILE")]
    chap_file: Option<PathBuf>,
    /// Make so many blank cartridges first; makes the library if it does not exist
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    new_cartridges: u32,
    /// Make so many cleaning cartridges first, CLN001 and so on, for 50 uses each
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    new_cleaning_cartridges: u32,
    /// Drives ask to be cleaned when so much has passed through them, and must be after twice as much
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    cleaning_after: Option<Size>,
    /// What a new cartridge holds
    #[arg(long, default_value = "100GB", value_parser = Size::parse, value_name = "SIZE")]
    cartridge_size: Size,
    /// Storage slots [default: one for each cartridge and 16 more]
    #[arg(long)]
    slots: Option<u16>,
    /// Import and export slots
    #[arg(long, default_value_t = 4)]
    import_export: u16,
    /// What barcodes have behind the VID, such as L8
    #[arg(long, default_value = "", value_name = "TEXT")]
    barcode_suffix: String,
    /// The vendor that changer and drives name, for programs that know only some
    #[arg(long, default_value = "KIST", value_name = "TEXT", value_parser = padded::<8>)]
    vendor: Text<8>,
    /// The product that the drives name
    #[arg(long, default_value = "VIRTUAL DRIVE", value_name = "TEXT", value_parser = padded::<16>)]
    drive_product: Text<16>,
    /// The product that the changer names
    #[arg(long, default_value = "VIRTUAL LIBRARY", value_name = "TEXT", value_parser = padded::<16>)]
    changer_product: Text<16>,
    /// The library's serial number
    #[arg(long, default_value = "KISTVTL0", value_name = "TEXT")]
    serial: String,
    /// Blank cartridges have two partitions already, instead of one until they are formatted
    #[arg(long)]
    two_partitions: bool,
    /// The changer takes tapes out of drives that were not told to unload them
    #[arg(long)]
    unload_on_move: bool,
    /// Take the time of real drives of this model, such as LTO-8
    #[arg(long, value_name = "MODEL")]
    timing: Option<String>,
    /// How many times faster than real ones, with --timing
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", requires = "timing")]
    time_scale: f64,
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    log: tracing::Level,
    /// Stop when standard input ends, so that it never outlives the program that started it
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

fn padded<const N: usize>(text: &str) -> Result<Text<N>, String> {
    Text::new(text).ok_or_else(|| format!("at most {N} printable characters of ASCII are expected"))
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.command {
        LibraryCommand::Inventory { scan } => super::tape_export::inventory(*scan, common),
        LibraryCommand::Scan(args) => library_scan::run(args, common),
        LibraryCommand::Test(args) => library_test::run(args, common),
        LibraryCommand::Serve(args) => serve(args, common),
    }
}

fn serve(args: &ServeArgs, common: &Common) -> Outcome {
    check(args)?;
    serve::start_log(args.log, serve::LogFormat::Text);
    let access = access(args.chap_file.as_deref())?;
    serve::raise_descriptor_limit();
    if access == Access::Open && !args.listen.ip().is_loopback() {
        tracing::warn!(address = %args.listen, "everybody who reaches this address may write to the tapes: \
            see --chap-file");
    }
    stop::watch(Vec::new())?;
    let listener = prepare(args)?;
    make(args)?;
    let _lock = library_lock::take(&args.dir, Duration::ZERO)?;
    let library = open(args)?;
    let cartridges = library.inventory().map_err(|error| refused(&error))?.len();
    let target = Target::new(library, options(args)).map_err(|error| refused(&error))?;
    let config = TargetConfig { access, ..TargetConfig::default() };
    let server = Server::start(listener, target.clone(), config).map_err(|error| refused(&error))?;
    let address = server.address();
    if common.json {
        let (name, dir) = (args.name.as_str(), &args.dir);
        output::json(&serde_json::json!({
            "address": address,
            "target": name,
            "directory": dir,
            "drives": args.drives,
            "cartridges": cartridges,
        }))?;
    } else {
        output::line(&format!(
            "serving {} with {} and {} at iscsi://{address}/{}",
            args.dir.display(),
            text::plural(cartridges as u64, "cartridge"),
            text::plural(u64::from(args.drives), "drive"),
            args.name
        ))?;
    }
    // Whoever asked for it is gone: it is stopped as well.
    let _ = stop::serving(args.stop_with_stdin).blocking_recv();
    tracing::info!("stopping: commands end, tapes are unloaded");
    if !server.stop() {
        tracing::warn!("a drive did not end its command in time");
    }
    match &target.close()[..] {
        [] => Ok(()),
        errors => {
            errors.iter().for_each(|error| tracing::error!("{error}"));
            Err(Failure::new(Exit::Differs, "some tapes were not unloaded in good order: see the log"))
        }
    }
}

fn check(args: &ServeArgs) -> Outcome {
    let drives_max = Options::DRIVES_MAX;
    if !(1..=drives_max).contains(&usize::from(args.drives)) {
        return Err(Failure::usage(format!("--drives is 1 to {drives_max}")));
    }
    if args.new_cartridges > CARTRIDGES_MAX {
        return Err(Failure::usage(format!("--new-cartridges is at most {CARTRIDGES_MAX}")));
    }
    if args.new_cleaning_cartridges > CLEANERS_MAX {
        return Err(Failure::usage(format!("--new-cleaning-cartridges is at most {CLEANERS_MAX}")));
    }
    if args.cartridge_size.0 < ByteCount::mib(64) {
        return Err(Failure::usage(
            "--cartridge-size is at least 64MiB: on less, hardly anything fits beside labels and indexes",
        ));
    }
    if args.cleaning_after.is_some_and(|size| size.0.0 == 0) {
        return Err(Failure::usage(
            "--cleaning-after is more than 0B: leave it out for drives that never ask",
        ));
    }
    let parent = args.dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        // A slip in its name would make another library elsewhere.
        let what =
            format!("{}: there is no directory {}: make it first", args.dir.display(), parent.display());
        return Err(Failure::new(Exit::NotFound, what));
    }
    let cartridges = args.dir.join("cartridges");
    if args.new_cartridges == 0 && !cartridges.is_dir() {
        let what = format!(
            "{}: there is no virtual library: --new-cartridges makes one, or name another directory",
            args.dir.display()
        );
        return Err(Failure::new(Exit::NotFound, what));
    }
    Ok(())
}

/// What may be refused before anything is made: a library that is made in part is in the way of the next try.
fn prepare(args: &ServeArgs) -> Outcome<TcpListener> {
    options(args).checked().map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(model) = &args.timing {
        let drive = mechanics::drive(model).map_err(|error| Failure::usage(error.to_string()))?;
        drive.own_medium().map_err(|error| Failure::usage(error.to_string()))?;
    }
    let there = |name: &str| fs::read_dir(args.dir.join(name)).map_or(0, Iterator::count);
    let new = u64::from(args.new_cartridges) + u64::from(args.new_cleaning_cartridges);
    let cartridges = there("cartridges") as u64 + there("cleaning") as u64 + new;
    if let Some(slots) = args.slots.filter(|slots| u64::from(*slots) < cartridges) {
        let message = format!("--slots: {cartridges} cartridges do not fit {slots} slots");
        return Err(Failure::usage(message));
    }
    TcpListener::bind(args.listen).map_err(|error| {
        Failure::new(Exit::Refused, format!("{} cannot be listened to: {error}", args.listen))
    })
}

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, error.to_string())
}

/// The accounts of a file: a name and a secret a line.
fn access(file: Option<&Path>) -> Outcome<Access> {
    let Some(path) = file else { return Ok(Access::Open) };
    let failed = |error: std::io::Error| Failure::io("reading", path, &error);
    if fs::metadata(path).map_err(failed)?.len() > CHAP_FILE_MAX {
        return Err(Failure::usage(format!("{}: a file of accounts has 64 KiB at most", path.display())));
    }
    if let Some(why) = crate::warnings::secret_is_shown(path) {
        tracing::warn!(file = %path.display(), "{why}");
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let mut accounts = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| Failure::usage(format!("{}, line {number}: {what}", path.display()));
        let (name, secret) =
            line.trim().split_once(' ').ok_or_else(|| wrong("a name, a blank and a secret are expected"))?;
        let account = Account::new(name, secret.trim()).map_err(|error| wrong(&error.to_string()))?;
        accounts.push(account);
    }
    if accounts.is_empty() {
        return Err(Failure::usage(format!("{} names nobody: nobody would be let in", path.display())));
    }
    Ok(Access::Chap { accounts, own: None })
}

/// Makes new cartridges, and the library if there is none.
fn make(args: &ServeArgs) -> Outcome {
    if args.new_cartridges == 0 && args.new_cleaning_cartridges == 0 {
        return Ok(());
    }
    match fs::create_dir(&args.dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Failure::io("making the directory", &args.dir, &error));
        }
        Ok(()) | Err(_) => {}
    }
    let _lock = library_lock::take(&args.dir, Duration::ZERO)?;
    let config = VirtualLibraryConfig {
        drives: vec![DriveName::new("vdrive0").map_err(|error| Failure::internal(error.to_string()))?],
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let library = VirtualLibrary::create(&args.dir, &config).map_err(|error| refused(&error))?;
    let tapes = (1..=CARTRIDGES_MAX).map(|number| format!("KV{number:04}"));
    name_new(args.new_cartridges, tapes, |vid| {
        library.add_cartridge(vid, args.cartridge_size.0, &config.options)
    })?;
    let cleaners = (1..=CLEANERS_MAX).map(|number| format!("CLN{number:03}"));
    name_new(args.new_cleaning_cartridges, cleaners, |vid| library.add_cleaning_cartridge(vid, CLEANER_USES))
}

/// Makes so many cartridges under the first of these names that are free.
fn name_new(
    mut left: u32,
    mut names: impl Iterator<Item = String>,
    add: impl Fn(Vid) -> Result<(), library::LibraryError>,
) -> Outcome {
    while left > 0 {
        let Some(name) = names.next() else {
            return Err(Failure::new(Exit::Refused, format!("{left} cartridges found no free name")));
        };
        let vid = Vid::new(&name).map_err(|error| Failure::internal(error.to_string()))?;
        match add(vid) {
            Ok(()) => left -= 1,
            Err(library::LibraryError::CartridgeExists { .. }) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Ok(())
}

fn open(args: &ServeArgs) -> Outcome<Arc<dyn library::Library>> {
    let timing =
        args.timing.clone().map(|drive| archive::TimingSettings { drive, scale: args.time_scale, robots: 1 });
    let (directory, drives) = (args.dir.clone(), args.drives);
    let kind = archive::LibraryKind::Virtual(VirtualLibrarySettings { directory, drives, timing });
    let settings = LibrarySettings { kind, ..LibrarySettings::only(args.dir.clone(), args.drives) };
    archive::open_library(&settings).map_err(|error| refused(&error))
}

/// Which cartridge stands in which element, beside the library's own files.
const PLACES_FILE: &str = "elements";

fn options(args: &ServeArgs) -> Options {
    Options {
        serial: args.serial.clone(),
        vendor: args.vendor,
        drive_product: args.drive_product,
        changer_product: args.changer_product,
        slots: args.slots,
        import_export: args.import_export,
        blank: if args.two_partitions { Blank::TwoPartitions } else { Blank::OnePartition },
        barcode_suffix: args.barcode_suffix.clone(),
        geometry: args.timing.is_some(),
        unload_on_move: args.unload_on_move,
        cleaning_after: args.cleaning_after.map(|size| size.0),
        places: Some(args.dir.join(PLACES_FILE)),
        ..Options::new(args.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_accounts_is_read_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("accounts");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            access(Some(&file)).map_err(|failure| failure.to_string())
        };
        let account = |name, secret| Account::new(name, secret).unwrap();
        let accounts = vec![account("bareos", "a secret of bareos"), account("ltfs", "123456789012")];
        assert_eq!(
            read("bareos a secret of bareos\n\n  ltfs  123456789012 \n"),
            Ok(Access::Chap { accounts, own: None })
        );
        let refused = |text| read(text).unwrap_err();
        assert!(
            refused("bareos a secret of bareos\nltfs\n").contains("line 2: a name, a blank and a secret")
        );
        assert!(refused("bareos short\n").contains("line 1: a CHAP secret has 12 to 256 bytes"));
        assert!(refused("\n").contains("names nobody"));
        assert_eq!(access(None).unwrap(), Access::Open);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    /// Story: what was refused had made a library all the same, which was in the way of the next try.
    #[test]
    fn what_cannot_be_served_is_refused_before_a_library_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().join("tapes");
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = holder.local_addr().unwrap().to_string();
        let free = ["--listen", "127.0.0.1:0"];
        let said = |more: &[&str]| {
            let all = [&["kist", dir.to_str().unwrap(), "--new-cartridges", "4"], more].concat();
            let args = <Line as clap::Parser>::try_parse_from(all).unwrap().args;
            let done = check(&args).and_then(|()| prepare(&args)).map(drop);
            assert!(!dir.exists(), "{more:?}");
            done.map_err(|failure| failure.to_string())
        };
        assert_eq!(said(&free), Ok(()));
        for (more, why) in [
            (["--slots", "3"], "do not fit 3 slots"),
            (["--timing", "LTO-99"], "LTO-99"),
            (["--barcode-suffix", "THIS-IS-MUCH-LONGER-THAN-IT-MAY-BE"], "behind a VID"),
            (["--cleaning-after", "0B"], "more than 0B"),
        ] {
            let error = said(&[more, free].concat()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(said(&["--listen", &taken]).unwrap_err().contains("cannot be listened to"));
    }
}
