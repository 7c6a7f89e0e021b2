//! `kist serve`: the server of an instance.

use std::fs;
use std::future::Future;
use std::io::{IsTerminal, Read, stdin};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Clock, Duration, SteadyClock, Timestamp};
use door::{DoorSettings, KeyEntry, Limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Common;
use crate::config::{self, Config};
use crate::connection::ServerFile;
use crate::failure::{Exit, Failure, Outcome};
use crate::instance::{self, CONFIG_FILE, Instance, SERVER_FILE};
use crate::{output, text};

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
    /// Stop when standard input ends, so that the server never outlives the program that started it
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
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
    if args.check_config {
        return output::line(&format!("{}: good", file.display()));
    }
    base::keep_freed_memory(std::thread::available_parallelism().map_or(1, usize::from));
    start_log(args.log);
    raise_descriptor_limit();
    plant()?;
    let _lock = instance.lock()?;
    serve(&instance, &config, &keys, args.stop_with_stdin)
}

fn serve(instance: &Instance, config: &Config, keys: &[instance::Key], stop_with_stdin: bool) -> Outcome {
    let listen: SocketAddr = config.server.listen.get_ref().parse().map_err(|_| Failure::usage("listen"))?;
    let entry = |key: &instance::Key| {
        base::Blake3::parse(&key.blake3).map(|hash| KeyEntry { name: key.name.clone(), hash: hash.0 })
    };
    let settings =
        DoorSettings { listen, keys: keys.iter().filter_map(entry).collect(), limits: Limits::default() };
    let door = door::bind(settings).map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let address = door.address();
    tracing::info!(%address, "opening the instance: the server answers when it is open");
    let clock = Arc::new(SteadyClock::new(Arc::new(SystemClock)));
    let archive = open_archive(instance, config, clock)?;
    archive.set_upkeep(config.upkeep());
    if let Some(backup) = config.backup_settings(&instance.directory) {
        archive.start_backup(backup).map_err(|error| Failure::internal(error.to_string()))?;
    }
    let url = format!("http://{address}");
    let ready = announce(instance, &url);
    let served = ready.and_then(|()| {
        let engine = Arc::new(archive.clone());
        door::run(door, engine, shutdown(stop_with_stdin))
            .map_err(|error| Failure::internal(error.to_string()))
    });
    tracing::info!("stopping: sessions end, tapes are unmounted");
    archive.close();
    let _ = fs::remove_file(instance.path(SERVER_FILE));
    served
}

/// Opens the engine, which writes down mounts and accesses in the instance.
fn open_archive(instance: &Instance, config: &Config, clock: Arc<dyn Clock>) -> Outcome<archive::Archive> {
    let settings = config.settings(&instance.directory);
    let failed = |error: archive::OpenError| Failure::internal(error.to_string());
    let mut machines = archive::Machines::open(&settings, Arc::clone(&clock)).map_err(failed)?;
    let logs = instance.path(instance::LOG_DIRECTORY);
    machines.mount_log = Some(Arc::new(archive::MountLogFiles::new(&logs)));
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

/// Says that the server is ready: in a file for programs, in a line for people.
fn announce(instance: &Instance, url: &str) -> Outcome {
    let server = ServerFile { url: url.to_owned(), pid: std::process::id() };
    let json = serde_json::to_vec(&server).map_err(|error| Failure::internal(error.to_string()))?;
    let run = instance.path("run");
    fs::create_dir_all(&run).map_err(|error| Failure::io("making the directory", &run, &error))?;
    instance::write_durable(&instance.path(SERVER_FILE), &json, 0o644)?;
    output::line(&format!("kist serves {} at {url}", instance.directory.display()))?;
    output::flush()
}

/// Ready when the server shall stop.
async fn shutdown(with_stdin: bool) {
    let (sender, input_ended) = tokio::sync::oneshot::channel::<()>();
    if with_stdin {
        std::thread::spawn(move || {
            let mut buffer = [0u8; 256];
            while stdin().lock().read(&mut buffer).is_ok_and(|count| count > 0) {}
            // The server may have stopped for another reason by now.
            let _ = sender.send(());
        });
    } else {
        // A sender that stays keeps the receiver waiting for ever.
        std::mem::forget(sender);
    }
    tokio::select! {
        () = on(SignalKind::interrupt()) => {}
        () = on(SignalKind::terminate()) => {}
        _ = input_ended => {}
    }
}

/// Ready at the first signal of a kind.
fn on(kind: SignalKind) -> impl Future<Output = ()> {
    let signal = signal(kind);
    async move {
        match signal {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(error) => {
                tracing::error!(%error, "a signal cannot be waited for: stop the server with SIGKILL");
                std::future::pending::<()>().await;
            }
        }
    }
}

fn start_log(level: tracing::Level) {
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(ansi)
        .with_writer(std::io::stderr)
        // A log that nobody reads must not stop the server: the notice of it would panic.
        .log_internal_errors(false)
        .init();
}

/// Many shells allow 1,024 open files only, and each connection and each extent needs one.
fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, "the limit of open files cannot be raised");
    }
}
