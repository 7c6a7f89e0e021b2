//! `kist drive format` and `kist drive serve`: a disk as an Open Kinetic drive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base::ByteCount;
use config::Size;
use drive_server::{Clients, MakeError, Server, Settings, StartError, TlsFiles, place_of};
use kinetic::server::DeviceState;
use kinetic::{Acl, ClusterVersion};
use kinetic_client::Trust;
use terminal::{Exit, Failure, Outcome, output};
use valuelog::{FormatError, OpenError, ValueLog};

use crate::cli::Common;
use crate::commands::kinetic_at::secret;
use crate::{serve, stop};

/// Arguments of `format`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What stands on the disk is kept as one log of values, which needs no file system: give
a block device, or a file of fixed size, or a directory. What is there is not
overwritten without --replace.

A new drive knows one identity, 1, with the key of --key-file; without it with the key
that all new drives of this protocol have, asdfasdf: everybody knows it.

Examples:
  kist drive format --path /dev/disk/by-id/wwn-0x5000c500a1b2c3d4 --key-file key
  kist drive format --path /mnt/d8 --size 4TB")]
pub struct FormatArgs {
    /// A directory, block device or file
    #[arg(long, value_name = "PATH")]
    path: PathBuf,
    /// How large the drive becomes; else all that is free, or the whole device
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    size: Option<Size>,
    /// The cluster version that the drive belongs to at first
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    cluster_version: i64,
    /// The key of identity 1: all bytes of this file but a last line feed
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// What stands there may be lost
    #[arg(long)]
    replace: bool,
}

/// Arguments of `serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The drive speaks Open Kinetic 3.0.6 and understands 4: any client of that protocol can
use it, and a pool of Kist. It ends on SIGINT or SIGTERM, and when a client shuts it
down: what is under way is done and answered, all is made durable. Keys and PINs are
set over TLS only.

Examples:
  kist drive serve --path /mnt/d8
  kist drive serve --path /mnt/d8 --listen 10.0.0.8:8123 --announce
  kist drive serve --path /dev/sdb --tls-listen 10.0.0.8:8443 --certificate c.pem --key k.pem")]
pub struct ServeArgs {
    /// The drive: what kist drive format was given
    #[arg(long, value_name = "PATH")]
    path: PathBuf,
    /// Where to listen without TLS; may be said several times. Without any: 127.0.0.1:8123
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Where to listen with TLS; may be said several times
    #[arg(long, value_name = "ADDR:PORT", requires = "certificate", requires = "key")]
    tls_listen: Vec<SocketAddr>,
    /// The certificate that is shown, with those that vouch for it, as PEM
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Certificates that other drives may show to which this one pushes over TLS, as PEM
    #[arg(long, value_name = "FILE")]
    peer_certificates: Option<PathBuf>,
    /// Memory for values that come and go
    #[arg(long, default_value = "512MiB", value_parser = Size::parse, value_name = "SIZE")]
    memory: Size,
    /// Memory for the index of all keys; when it is used up, no more keys are taken
    #[arg(long, default_value = "4GiB", value_parser = Size::parse, value_name = "SIZE")]
    index_memory: Size,
    /// Requests that are worked on at the disk at a time
    #[arg(long, default_value_t = 8, value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Say every 5 seconds by multicast to 239.1.2.3 that the drive is there
    #[arg(long)]
    announce: bool,
    /// End when standard input ends
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

/// Makes a drive.
pub fn format(args: &FormatArgs, common: &Common) -> Outcome {
    let mut first = DeviceState::factory();
    first.cluster_version = ClusterVersion(args.cluster_version);
    if let Some(file) = &args.key_file {
        first.acls = vec![Acl { key: secret(file)?, ..Acl::factory() }];
    }
    let room = args.size.map(|size| ByteCount(size.0.0));
    let made = drive_server::format(&place_of(&args.path), room, args.replace, &first);
    let id = made.map_err(|error| {
        let exit = match &error {
            MakeError::Format(FormatError::NotEmpty(_) | FormatError::Locked(_)) => Exit::Refused,
            MakeError::Format(FormatError::Room { .. }) => Exit::Usage,
            _ => Exit::Internal,
        };
        let more = match &error {
            MakeError::Format(FormatError::NotEmpty(_)) => " (--replace)",
            _ => "",
        };
        Failure::new(exit, format!("{error}{more}"))
    })?;
    let said = serde_json::json!({ "path": args.path, "name": id.to_string() });
    let path = args.path.display();
    output::done(common, &said, &format!("{path} is drive {id}: kist drive serve --path {path}"))
}

/// Serves a drive until it is told to end.
pub fn serve(args: &ServeArgs, common: &Common) -> Outcome {
    serve::start_log(tracing::Level::INFO, serve::LogFormat::Text);
    serve::raise_descriptor_limit();
    let refused = |error: StartError| {
        let exit = match error {
            StartError::Listen { .. } => Exit::Refused,
            StartError::Memory { .. } => Exit::Usage,
            _ => Exit::Internal,
        };
        Failure::new(exit, error.to_string())
    };
    let mut plain = args.listen.clone();
    if plain.is_empty() && args.tls_listen.is_empty() {
        plain.push(SocketAddr::from(([127, 0, 0, 1], kinetic::PORT)));
    }
    let tls_config = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
            Some(files.load().map_err(|error| Failure::new(Exit::Usage, error.to_string()))?)
        }
        _ => None,
    };
    let trust = args.peer_certificates.as_deref().map(Trust::read).transpose();
    let trust = trust.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    stop::watch(Vec::new())?;
    let place = place_of(&args.path);
    let of_store = valuelog::Settings {
        index_bytes_max: ByteCount(args.index_memory.0.0),
        ..valuelog::Settings::default()
    };
    let log = ValueLog::open(&place, None, of_store).map_err(|error| {
        let exit = match &error {
            OpenError::NotAStore(_) => Exit::NotFound,
            OpenError::Locked(_) => Exit::Refused,
            OpenError::Damaged(_) => Exit::Differs,
            _ => Exit::Internal,
        };
        let more = match &error {
            OpenError::NotAStore(path) => format!(": kist drive format --path {}", path.display()),
            _ => String::new(),
        };
        Failure::new(exit, format!("{error}{more}"))
    })?;
    for damage in &log.recovery().damage {
        tracing::error!("{damage}");
    }
    let settings = Settings {
        plain,
        tls: args.tls_listen.clone(),
        tls_config,
        memory: ByteCount(args.memory.0.0),
        workers: usize::from(args.workers),
        peers: Arc::new(Clients { trust }),
        disk: Some(args.path.clone()),
        is_announced: args.announce,
        ..Settings::default()
    };
    let server = Server::start(log, settings).map_err(refused)?;
    if server.has_well_known_key()
        && server.plain().iter().chain(server.tls()).any(|one| !one.ip().is_loopback())
    {
        tracing::warn!(
            "everybody who reaches the drive may do everything with it: its key is the one of all \
            new drives; set another over TLS, or format it with --key-file"
        );
    }
    if common.json {
        let (plain, tls) = (server.plain(), server.tls());
        let name = server.name().to_string();
        output::json(&serde_json::json!({ "path": args.path, "name": name, "plain": plain, "tls": tls }))?;
    } else {
        let addresses: Vec<String> = server
            .plain()
            .iter()
            .map(|address| format!("kinetic://{address}"))
            .chain(server.tls().iter().map(|address| format!("kinetics://{address}")))
            .collect();
        let path = args.path.display();
        output::line(&format!("serving {path} as drive {} at {}", server.name(), addresses.join(" ")))?;
    }
    let (stopped, handle) = (stop::serving(args.stop_with_stdin), server.stop_handle());
    std::thread::spawn(move || {
        // Whoever asked for it is gone: it is stopped as well.
        let _ = stopped.blocking_recv();
        handle.ask_to_stop();
    });
    server.wait().map_err(|error| Failure::internal(error.to_string()))
}
