//! `kist serve`: the server of an instance.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use authority::Guard;
use base::{ByteCount, Clock, Duration, Timestamp, TrustedClock};
use client::{SERVER_FILE, ServerFile};
use config::{CONFIG_FILE, Config, DriveFile};
use door::{DoorSettings, Limits, Listener, Services};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use sd_notify::NotifyState;
use terminal::{Exit, Failure, Outcome, output, text};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Common;
use crate::instance::{self, Instance};
use crate::issuer_keys::IssuerKeys;
use crate::people::{self, People};
use crate::run_files::RunFiles;
use crate::{grid, library_lock, stop, warnings, xrootd_door};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Prints one line with the URL when it is ready, logs to standard error, and
stops cleanly on SIGINT or SIGTERM: running requests end, tapes get their
index and are unmounted.

Examples:
  kist serve /srv/kist
  kist serve --check-config /srv/kist")]
pub struct Args {
    /// The instance [default: --instance, KIST_INSTANCE or ./kist-data]
    dir: Option<PathBuf>,
    /// Check kist.toml and end
    #[arg(long)]
    check_config: bool,
    /// Print the settings as they are understood and end
    #[arg(long)]
    print_effective_config: bool,
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    log: tracing::Level,
    /// How to log: text for people, json for programs, one object a line
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    log_format: LogFormat,
    /// Stop when standard input ends, so that the server never outlives the program that started it
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
    /// Take free ports in the place of those of kist.toml that others have
    #[arg(long, hide = true)]
    another_port: bool,
}

/// How the log looks.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

/// The clock of the system.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        text::now()
    }

    fn steady(&self) -> Duration {
        let since_boot = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since_boot.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(since_boot.tv_nsec).unwrap_or(0))
    }

    fn synchronised(&self) -> bool {
        base::kernel_clock_is_synchronised()
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let directory = args.dir.clone().unwrap_or_else(|| common.connection.instance_directory());
    let instance = Instance::open(&directory)?;
    let file = instance.path(CONFIG_FILE);
    let config = config::load(&file).map_err(|error| Failure::usage(error.to_string()))?;
    if args.print_effective_config {
        let text = toml::to_string(&config).map_err(|error| Failure::internal(error.to_string()))?;
        return output::write(&text);
    }
    let keys = instance.keys()?;
    let mut listeners = config.server.listeners(&instance.directory);
    listeners.iter_mut().for_each(|listener| listener.another_port = args.another_port);
    if args.check_config {
        config::load_strictly(&file).map_err(|error| Failure::usage(error.to_string()))?;
        config.identity.load(&instance.directory).map_err(Failure::usage)?;
        for tls in listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
            let wrong = |error| Failure::usage(format!("{}: server.tls: {error}", file.display()));
            door::check_tls(tls).map_err(wrong)?;
        }
        xrootd_settings(&config, &instance)?;
        grid::copies(&config, &instance.directory)?;
        check_backup_directory(&config, &instance)?;
        check_tape_keys(&config, &instance)?;
        check_floors(&config, &instance)?;
        return output::line(&format!("{}: good", file.display()));
    }
    base::keep_freed_memory(std::thread::available_parallelism().map_or(1, usize::from));
    start_log(args.log, args.log_format);
    if let Err(error) = config::load_strictly(&file) {
        tracing::warn!("{error}");
    }
    raise_descriptor_limit();
    if !config.settings(&instance.directory).tape_keys().is_empty() {
        keep_memory_to_itself();
    }
    plant()?;
    let _lock = instance.lock(|wait| tracing::warn!("{wait}"))?;
    serve(&instance, &config, listeners, &keys, args.stop_with_stdin)
}

/// A server makes the backup's directory, but not the one above it, which may be a mount that is missing.
fn check_backup_directory(config: &Config, instance: &Instance) -> Outcome {
    let Some(backup) = config.backup_settings(&instance.directory) else { return Ok(()) };
    let above = backup.directory.parent().filter(|above| !above.as_os_str().is_empty());
    match above.filter(|above| !above.is_dir()) {
        None => Ok(()),
        Some(above) => Err(Failure::usage(format!(
            "{}: backup.directory: {} is not there: mount or make it",
            instance.path(CONFIG_FILE).display(),
            above.display()
        ))),
    }
}

/// A server whose keys are away starts, and says so of each tape: here it is told before.
fn check_tape_keys(config: &Config, instance: &Instance) -> Outcome {
    let wrong = |pool: &str, error: &dyn std::fmt::Display| {
        let file = instance.path(CONFIG_FILE);
        Failure::usage(format!("{}: tape pool '{pool}': encryption: {error}", file.display()))
    };
    let owner =
        std::fs::metadata(&instance.directory).map(|known| std::os::unix::fs::MetadataExt::uid(&known));
    let owner = owner.map_err(|error| Failure::internal(error.to_string()))?;
    for pool in config.settings(&instance.directory).tape_pools {
        if let Some(encryption) = &pool.encryption {
            encryption
                .keys
                .check(encryption.key.as_ref(), owner)
                .map_err(|error| wrong(&pool.name, &error))?;
        }
    }
    Ok(())
}

/// A class whose floor is more than the pool's drives hold keeps all its files there, whatever waits for
/// room. Drives that are away say nothing.
fn check_floors(config: &Config, instance: &Instance) -> Outcome {
    let settings = config.settings(&instance.directory);
    let size = |drive: &archive::PoolDriveSettings| {
        let space = rustix::fs::statvfs(drive.at.directory()).ok()?;
        let group = settings.pool.groups.iter().find(|group| group.name == drive.group);
        let code = group.map_or(settings.pool.code, |group| group.code);
        Some(code.of_raw(ByteCount(space.f_blocks.saturating_mul(space.f_frsize))).0)
    };
    let Some(sizes) = settings.pool.drives.iter().map(size).collect::<Option<Vec<u64>>>() else {
        return Ok(());
    };
    let most = ByteCount(sizes.into_iter().fold(0, u64::saturating_add));
    match settings.classes.iter().find(|class| class.leaving.pool_min > most) {
        None => Ok(()),
        Some(class) => Err(Failure::usage(format!(
            "{}: classes.pool_min: that of class '{}', {}, is more than the pool's drives hold ({most}): \
             none of its files would leave the pool, whatever waits for room; write less, or add drives",
            instance.path(CONFIG_FILE).display(),
            class.name,
            class.leaving.pool_min
        ))),
    }
}

/// `[xrootd]` with names of users as numbers.
fn xrootd_settings(config: &Config, instance: &Instance) -> Outcome<Option<config::XrootdSettings>> {
    let settings = config.xrootd.as_ref().map(|xrootd| xrootd.settings(&instance.directory));
    let file = instance.path(CONFIG_FILE);
    let wrong = |why| Failure::usage(format!("{}: {why}", file.display()));
    let settings = settings.transpose().map_err(wrong)?;
    let group = settings.as_ref().and_then(|settings| settings.gid);
    if let Some(group) = group.filter(|group| !may_give_to(*group)) {
        let why = format!(
            "[xrootd] group: this user is no member of group {group}, which is to get the socket: \
                           make it one (usermod -aG), or leave the line out"
        );
        return Err(wrong(why));
    }
    let above = settings.as_ref().and_then(|settings| settings.socket.parent());
    match above.filter(|above| !above.is_dir()) {
        None => Ok(settings),
        Some(above) => {
            let why = format!("[xrootd] socket: the directory {} is not there: make it", above.display());
            Err(wrong(why))
        }
    }
}

/// Whether a file of ours can be given to this group.
fn may_give_to(group: u32) -> bool {
    let group = rustix::process::Gid::from_raw(group);
    rustix::process::geteuid().is_root()
        || rustix::process::getegid() == group
        || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&group))
}

fn serve(
    instance: &Instance,
    config: &Config,
    listeners: Vec<Listener>,
    keys: &[instance::Key],
    stop_with_stdin: bool,
) -> Outcome {
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let s3_settings = config.s3.settings();
    let xrootd = xrootd_settings(config, instance)?;
    let copies = grid::copies(config, &instance.directory)?;
    let notices = authority::Notices::default();
    warnings::warn_of_permissions(instance, config, &listeners, &notices);
    let requests_per_second = config.server.requests_per_second.as_ref().map(|rate| *rate.get_ref());
    let limits = Limits { requests_per_second, ..Limits::default() };
    let settings = DoorSettings { listeners, keys: Vec::new(), limits };
    let door = door::bind(settings).map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let address = door.addresses()[0];
    let at = |service| door.address_of(service).map(|address| format!("{scheme}://{address}"));
    let served_at = [("S3", at(::s3::NAME)), ("WebDAV", at(webdav::NAME))];
    let files = [SERVER_FILE, client::RUN_KEY_FILE].map(|file| instance.path(file)).to_vec();
    stop::watch(files)?;
    tracing::info!(%address, "opening the instance: the server answers when it is open");
    // Signatures, tokens and the audit log go by the system's clock; what frees or deletes, by the trusted
    // time over it.
    let clock = Arc::new(SystemClock);
    let xrootd_clock = clock.clone();
    let trusted = Arc::new(TrustedClock::new(clock.clone()));
    let run_files = RunFiles::open(instance)?;
    let people = People::open(instance, config, keys, &run_files, clock.clone(), notices)?;
    let _libraries = library_lock::take_all(&config.settings(&instance.directory))?;
    let archive = open_archive(instance, config, trusted.clone())?;
    archive.set_upkeep(config.upkeep());
    let drive_file = DriveFile::new(instance.path(CONFIG_FILE), instance.directory.clone());
    archive.set_pool_drive_file(Arc::new(drive_file));
    if let Some(backup) = config.backup_settings(&instance.directory) {
        archive.start_backup(backup).map_err(|error| Failure::internal(error.to_string()))?;
    }
    let url = format!("{scheme}://{address}");
    let stopped = stop::serving(stop_with_stdin);
    let served = people.authority(&archive).and_then(|(authority, audit)| {
        let engine = Arc::new(archive.clone());
        let mut services = Services::new(&door, Guard::new(authority.clone(), engine.clone()));
        let clocks = ::s3::S3Clocks { system: clock, trusted };
        let s3 = ::s3::service(
            Guard::new(authority.clone(), engine.clone()),
            services.transfers().clone(),
            s3_settings,
            clocks,
        );
        let s3 = s3.map_err(|error| Failure::usage(error.to_string()))?;
        services.register(s3.registered());
        let webdav = grid::webdav(config, &authority, &engine, services.transfers(), copies.clone());
        services.register(webdav.registered());
        let xrootd = xrootd.map(|settings| {
            xrootd_door::open(&archive, &authority, services.transfers(), settings, xrootd_clock)
        });
        let mut xrootd = xrootd.transpose()?;
        announce(instance, &run_files, &url, &served_at)?;
        let certificates = door.certificates();
        let (directory, people) = (instance.directory.clone(), authority.clone());
        let issuer_keys = IssuerKeys::start(directory.clone(), config.identity.clone(), people.clone())?;
        let again = move || {
            // It has logged what is wrong.
            let _ = certificates.reload();
            if let Some(config) = people::reload(&directory, &people, &issuer_keys) {
                grid::reload(copies.as_ref(), &config, &directory);
            }
        };
        let until = async {
            tokio::select! {
                _ = stopped => {}
                () = on_hangup(again) => {}
                () = run_files.write_when_there_is_room() => {}
            }
        };
        let served = door::run(door, services, until);
        if let Some(xrootd) = &mut xrootd {
            xrootd.close();
        }
        audit.close();
        served.map_err(|error| Failure::internal(error.to_string()))
    });
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping: sessions end, tapes are unmounted");
    archive.close();
    let _ = fs::remove_file(instance.path(SERVER_FILE));
    let _ = fs::remove_file(instance.path(client::RUN_KEY_FILE));
    served
}

/// Opens the engine, which writes down mounts and accesses in the instance.
fn open_archive(instance: &Instance, config: &Config, clock: Arc<dyn Clock>) -> Outcome<archive::Archive> {
    let settings = config.settings(&instance.directory);
    let failed = |error: archive::OpenError| {
        Failure::new(if error.is_damage() { Exit::Differs } else { Exit::Internal }, error.to_string())
    };
    let mut machines = archive::Machines::open(&settings, Arc::clone(&clock)).map_err(failed)?;
    let logs = instance.path(instance::LOG_DIRECTORY);
    machines.mount_log = Some(Arc::new(archive::MountLogFiles::new(&logs)));
    machines.drive_fits = Some(archive::DriveFitFile::new(&logs));
    machines.backup = config.backup_settings(&instance.directory).map(|backup| backup.directory);
    machines.access_log = Some(Arc::new(archive::AccessLogFiles::new(&logs)));
    archive::Archive::open_on(machines, settings, clock).map_err(failed)
}

/// Plants the bug that `KIST_PLANTED` names, in builds for tests only.
fn plant() -> Outcome {
    if base::planted::CAN_PLANT
        && let Ok(name) = std::env::var("KIST_PLANTED")
        && !base::planted::plant_named(&name)
    {
        return Err(Failure::usage(format!("KIST_PLANTED: there is no bug '{name}'")));
    }
    Ok(())
}

/// Tells the service manager, if one started the server.
fn notify(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Says that the server is ready: in a file for programs, in a line for people, to the service manager.
fn announce(
    instance: &Instance,
    run_files: &RunFiles,
    url: &str,
    served_at: &[(&str, Option<String>); 2],
) -> Outcome {
    let [(_, s3), (_, webdav)] = served_at.clone();
    let server = ServerFile { url: url.to_owned(), s3, webdav, pid: std::process::id() };
    let json = serde_json::to_vec(&server).map_err(|error| Failure::internal(error.to_string()))?;
    run_files.write(instance.path(SERVER_FILE), json, 0o644)?;
    output::line(&format!("kist serves {} at {url}", instance.directory.display()))?;
    for (what, url) in served_at {
        if let Some(url) = url {
            output::line(&format!("{what} at {url}"))?;
        }
    }
    output::flush()?;
    let status = format!("serves {} at {url}", instance.directory.display());
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
    Ok(())
}

/// Reads again at each SIGHUP, for ever, what may change while the server runs. What is wrong with it is
/// logged.
async fn on_hangup(again: impl Fn() + Clone + Send + 'static) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else {
        tracing::error!("SIGHUP cannot be waited for: changed certificates are noticed all the same");
        return std::future::pending().await;
    };
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP: certificates, access keys and issuers are read again");
        let _ = tokio::task::spawn_blocking(again.clone()).await;
    }
    std::future::pending::<()>().await;
}

pub fn start_log(level: tracing::Level, format: LogFormat) {
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // A log that nobody reads must not stop the server: the notice of it would panic.
        .log_internal_errors(false);
    // The S3 library tells of every request that it answers NotImplemented as an error: those are the
    // client's.
    let quiet = Targets::new().with_default(level).with_target("s3s", LevelFilter::OFF);
    match format {
        LogFormat::Text => log.with_ansi(ansi).finish().with(quiet).init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(quiet).init(),
    }
}

/// No core dump, and no debugger of the same user, gets what is in the memory of a process that handles keys
/// of tapes.
fn keep_memory_to_itself() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core dump of the server may hold keys of tapes");
    }
}

/// Many shells allow 1,024 open files only, and each connection and each extent needs one.
pub fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, "the limit of open files cannot be raised");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_server_with_keys_of_tapes_leaves_no_core_dump() {
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        keep_memory_to_itself();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}
