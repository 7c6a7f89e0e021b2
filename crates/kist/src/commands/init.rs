//! `kist init`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DriveId, StripeCode, Vid};
use config::{CONFIG_FILE, Size, Template};
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use terminal::{Exit, Failure, Outcome, output, text};

use crate::cli::Common;
use crate::instance;
use crate::serve::SystemClock;

/// The most cartridges: their names have four digits.
const CARTRIDGES_MAX: u32 = 9999;

/// Arguments.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Makes DIR/kist.toml (read it: each key is explained), a pool of directory
drives, a virtual tape library, the catalogue's directory, and the first key.
The key is shown once and kept nowhere, only its BLAKE3: save it.

Example:
  kist init /srv/kist --drives 8 --data 4 --parity 2 --save-key ~/kist.key")]
pub struct Args {
    /// The directory of the instance; it must be empty or not exist, but for the empty mount points of the
    /// pool's drives, DIR/pool/d0 and so on
    pub dir: PathBuf,
    /// Drives of the pool
    #[arg(long, default_value_t = 8)]
    pub drives: u16,
    /// Data shards
    #[arg(long, default_value_t = 4)]
    pub data: u8,
    /// Parity shards of all data
    #[arg(long, default_value_t = 2)]
    pub parity: u8,
    /// Local parity shards, one for each of as many groups of the data shards
    #[arg(long, default_value_t = 0)]
    pub local_parity: u8,
    /// Cartridges of the virtual library
    #[arg(long, default_value_t = 12)]
    pub cartridges: u32,
    /// What a cartridge holds
    #[arg(long, default_value = "100GB", value_parser = Size::parse, value_name = "SIZE")]
    pub cartridge_size: Size,
    /// Tape drives of the virtual library
    #[arg(long, default_value_t = 2)]
    pub tape_drives: u16,
    /// Address and port of the server
    #[arg(long, default_value = "127.0.0.1:7420", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Serve S3 too, at this address and port, with GLACIER as a class that lives on tape
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub s3_listen: Option<SocketAddr>,
    /// Serve WebDAV too, with third-party copy and the Tape REST API, at this address and port
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webdav_listen: Option<SocketAddr>,
    /// The size of packs
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    pub pack_size: Option<Size>,
    /// Let the virtual library take the time of real drives of this model, such as LTO-8
    #[arg(long, value_name = "DRIVE")]
    pub timing: Option<String>,
    /// So many times as fast as real ones
    #[arg(long, default_value_t = 1.0, requires = "timing", value_name = "X")]
    pub time_scale: f64,
    /// Small packs and short ages, to see everything happen soon
    #[arg(long)]
    pub demo: bool,
    /// Write the key to FILE too, a new file, readable for the owner only
    #[arg(long, value_name = "FILE")]
    pub save_key: Option<PathBuf>,
}

impl Args {
    /// The code of stripes.
    pub fn code(&self) -> StripeCode {
        StripeCode { data: self.data, local: self.local_parity, global: self.parity }
    }

    /// The defaults for `dir`.
    pub fn defaults(dir: &Path) -> Self {
        Args {
            dir: dir.to_owned(),
            drives: 8,
            data: 4,
            parity: 2,
            local_parity: 0,
            cartridges: 12,
            cartridge_size: Size(base::ByteCount(100_000_000_000)),
            tape_drives: 2,
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            s3_listen: None,
            webdav_listen: None,
            pack_size: None,
            timing: None,
            time_scale: 1.0,
            demo: false,
            save_key: None,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let key = make(args)?;
    if common.json {
        let dir = args.dir.display().to_string();
        return output::json(&serde_json::json!({ "instance": dir, "principal": "admin", "key": key }));
    }
    let dir = args.dir.display();
    output::line(&format!("instance   {dir}"))?;
    let drives = text::plural(u64::from(args.drives), "drive");
    output::line(&format!("pool       {drives}, {} shards", args.code()))?;
    output::line(&format!(
        "library    {} of {}, {}",
        text::plural(u64::from(args.cartridges), "cartridge"),
        args.cartridge_size.0,
        text::plural(u64::from(args.tape_drives), "drive")
    ))?;
    output::line(&format!("settings   {dir}/{CONFIG_FILE}"))?;
    output::line(&format!("key        {key}"))?;
    match &args.save_key {
        Some(file) => output::line(&format!("           saved in {}", file.display()))?,
        None => output::line("           shown this once only: save it in a file for KIST_KEY_FILE")?,
    }
    output::line(&format!("next       kist serve {dir}"))
}

/// Makes the instance and gives the key.
pub fn make(args: &Args) -> Outcome<String> {
    check(args)?;
    let dir = &args.dir;
    let failed = |error: std::io::Error| Failure::io("making the instance", dir, &error);
    let made = !dir.exists();
    fs::create_dir_all(dir).map_err(failed)?;
    refuse_content(dir, args.drives)?;
    let key = instance::new_key()?;
    let saved = args.save_key.as_deref().map(|file| KeyFile::create(file, &key)).transpose();
    let filled = saved.and_then(|saved| {
        // What is archived is for whom the server lets have it, not for everybody on this machine.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        fill(args, &key)?;
        Ok(saved)
    });
    let saved = filled.inspect_err(|_| {
        if made {
            // Only if nothing is in it, as when the settings are refused.
            let _ = fs::remove_dir(dir);
        }
    })?;
    if let Some(saved) = saved {
        saved.keep();
    }
    Ok(key)
}

/// Refuses a directory with anything in it but empty mount points of the pool's drives: `pool/d0`, ... with
/// nothing but the `lost+found` that a file system comes with.
fn refuse_content(dir: &Path, drives: u16) -> Outcome {
    let refused = |path: &Path, what: &str| {
        let message = format!("{} {what}: nothing was done", path.display());
        Err(Failure::new(Exit::Refused, message))
    };
    if instance::Instance::exists(dir) {
        return refused(dir, "is an instance already");
    }
    let pool = dir.join("pool");
    if let Some(other) = entries(dir)?.into_iter().find(|entry| *entry != pool) {
        return refused(dir, &format!("is not empty: it has {}", other.display()));
    }
    if !pool.exists() {
        return Ok(());
    }
    let mounts: Vec<PathBuf> = (0..drives).map(|drive| pool.join(format!("d{drive}"))).collect();
    for mount in entries(&pool)? {
        if !mounts.contains(&mount) {
            return refused(&mount, &format!("is no directory of the {drives} drives of the pool"));
        }
        if let Some(other) = entries(&mount)?.first() {
            return refused(&mount, &format!("is not empty: it has {}", other.display()));
        }
    }
    Ok(())
}

/// What is in a directory, but what each new file system has.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Failure::io("making the instance", directory, &error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() != "lost+found" {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Makes all that is in an instance.
fn fill(args: &Args, key: &str) -> Outcome {
    let dir = &args.dir;
    let failed = |error: std::io::Error| Failure::io("making the instance", dir, &error);
    let template = Template {
        listen: args.listen.to_string(),
        s3_listen: args.s3_listen.map(|address| address.to_string()),
        webdav_listen: args.webdav_listen.map(|address| address.to_string()),
        drives: args.drives,
        data: args.data,
        parity: args.parity,
        local_parity: args.local_parity,
        tape_drives: args.tape_drives,
        pack_size: args.pack_size,
        timing: args.timing.clone().map(|drive| (drive, args.time_scale)),
        demo: args.demo,
    };
    let file = dir.join(CONFIG_FILE);
    instance::write_durable(&file, config::write(&template).as_bytes(), 0o644)?;
    // What was written is read back, so that no instance is made with settings that no server takes.
    let config = config::load_strictly(&file).map_err(|error| {
        let _ = fs::remove_file(&file);
        Failure::usage(error.to_string())
    })?;
    let settings = config.settings(dir);
    fs::create_dir_all(&settings.catalogue_directory).map_err(failed)?;
    fs::create_dir_all(dir.join("run")).map_err(failed)?;
    let id = text::random_uuid()?;
    let wrong = |error: String| Failure::internal(format!("making the instance: {error}"));
    let (catalogue, map_size) = (&settings.catalogue_directory, settings.catalogue_map_size);
    archive::create_catalogue(catalogue, map_size, id, Arc::new(SystemClock))
        .map_err(|error| wrong(error.to_string()))?;
    for drive in &settings.pool.drives {
        drive.at.format(id, DriveId(drive.id)).map_err(|error| wrong(error.to_string()))?;
    }
    if let Some(files) = settings.library.files() {
        make_library(args, &files.directory)?;
    }
    instance::write_keys(dir, "admin", key)?;
    // This file makes the directory an instance, so it comes last.
    instance::write_instance_file(dir)
}

/// A file with a key, gone again unless the instance was made. It never replaces a file: that could hold the
/// only copy of another key.
struct KeyFile {
    path: PathBuf,
    keep: bool,
}

impl KeyFile {
    fn create(path: &Path, key: &str) -> Outcome<Self> {
        let failed = |error: std::io::Error| Failure::io("saving the key", path, &error);
        let created = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
        let mut file = created.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::new(
                Exit::Refused,
                format!("{}: it is there already and may hold another key: nothing was done", path.display()),
            ),
            _ => failed(error),
        })?;
        let guard = KeyFile { path: path.to_owned(), keep: false };
        file.write_all(format!("{key}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = File::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_all()).map_err(failed)?;
        Ok(guard)
    }

    fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        if !self.keep {
            // The key opens nothing: its instance was not made.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check(args: &Args) -> Outcome {
    if !(1..=CARTRIDGES_MAX).contains(&args.cartridges) {
        return Err(Failure::usage(format!("--cartridges is 1 to {CARTRIDGES_MAX}")));
    }
    if args.cartridge_size.0 < base::ByteCount::mib(64) {
        return Err(Failure::usage(
            "--cartridge-size is at least 64MiB: on less, hardly anything fits beside labels and indexes",
        ));
    }
    let (width, drives) = (args.code().width(), usize::from(args.drives));
    if drives < width {
        let (code, parity) = (args.code(), width - usize::from(args.data));
        let fewer = match drives.checked_sub(parity).filter(|data| *data >= 1) {
            Some(data) if args.local_parity == 0 => format!(", or --data {data}"),
            _ => ", or fewer of --data, --local-parity and --parity".to_owned(),
        };
        return Err(Failure::usage(format!(
            "--drives {drives}: each of the {code} shards of a stripe needs a drive of its own: give \
             --drives {width} or more{fewer}; nothing was made"
        )));
    }
    Ok(())
}

fn make_library(args: &Args, directory: &Path) -> Outcome {
    let wrong = |error: String| Failure::internal(format!("making the library: {error}"));
    let drives = (0..args.tape_drives).map(|n| DriveName::new(&format!("vdrive{n}")));
    let vids = (1..=args.cartridges).map(|n| Vid::new(&format!("KS{n:04}")));
    let config = VirtualLibraryConfig {
        drives: drives.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?,
        robots: 1,
        cartridges: vids
            .map(|vid| vid.map(|vid| (vid, args.cartridge_size.0)))
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(error.to_string()))?,
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(directory, &config).map(drop).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: the refusal named a line of a kist.toml that was not there any more, and to add drives to it.
    #[test]
    fn too_few_drives_are_refused_with_the_options_to_give() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("instance");
        let made = |drives, local_parity| {
            let refused = make(&Args { drives, local_parity, ..Args::defaults(&dir) }).unwrap_err();
            assert!(!dir.exists(), "nothing was made");
            refused.message
        };
        let told = made(4, 0);
        assert!(told.contains("--drives 4:"), "{told}");
        assert!(told.contains("give --drives 6 or more, or --data 2"), "{told}");
        let told = made(2, 0);
        assert!(told.contains("--drives 6 or more, or fewer of --data"), "{told}");
        assert!(made(6, 2).contains("--drives 8 or more, or fewer of"));
    }
}
