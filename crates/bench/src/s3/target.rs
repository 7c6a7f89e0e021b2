//! The servers that are measured: Kist, and others on drives of the same kind.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terminal::{Failure, Outcome};

use super::link::{Answer, Link};
use super::ours::{self, Ours};
use super::sign::Signer;
use crate::subject::Subject;

/// Data and parity shards, and drives, of all that code.
pub const DATA: u8 = 4;
pub const PARITY: u8 = 2;
pub const DRIVES: u16 = 6;
/// Where all objects go.
pub const BUCKET: &str = "bench";
/// The keys of the others, which live for one measurement on the loopback interface.
const ACCESS: &str = "benchbench";
const SECRET: &str = "benchbenchbench";
/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Lines of its log that a failure shows.
const LOG_LINES_SHOWN: usize = 8;
/// How long it may take to end before it is killed.
const END_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked at.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// What kind of server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Kist itself.
    Kist,
    /// MinIO: a program.
    Minio(PathBuf),
    /// versitygw over its POSIX backend: a program.
    Versitygw(PathBuf),
}

impl Kind {
    /// The peer of this name.
    pub fn peer(name: &str, program: &Path) -> Outcome<Self> {
        match name {
            "minio" => Ok(Kind::Minio(program.to_owned())),
            "versitygw" => Ok(Kind::Versitygw(program.to_owned())),
            _ => Err(Failure::usage(format!("no peer of S3 is named {name}: there are minio and versitygw"))),
        }
    }

    /// Its name in rows.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Kist => "kist",
            Kind::Minio(_) => "minio",
            Kind::Versitygw(_) => "versitygw",
        }
    }
}

/// A running server with a bucket; it ends with this value.
pub struct Target {
    process: Process,
    host: String,
    signer: Signer,
}

enum Process {
    Ours(Box<Ours>),
    Other(Other),
}

/// Another program; it ends with this value.
pub struct Other(Child);

impl Other {
    /// Starts it; what it says goes to `log`.
    pub fn start(mut command: Command, log: &Path) -> Outcome<Self> {
        let program = PathBuf::from(command.get_program());
        let failed = |error: std::io::Error| Failure::io("starting the peer", &program, &error);
        let file = File::create(log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
        Ok(Other(command.spawn().map_err(failed)?))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it listens at `host`; a failure, with the end of its log, if it does not in time.
    pub fn wait_until_it_listens(&mut self, host: &str, log: &Path) -> Outcome {
        let started = Instant::now();
        while TcpStream::connect(host).is_err() {
            if self.has_ended() || started.elapsed() > READY_WITHIN {
                return Err(self.not_ready(host, log));
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    fn not_ready(&mut self, host: &str, log: &Path) -> Failure {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LOG_LINES_SHOWN)..).unwrap_or_default().join("\n");
        let what = if self.has_ended() { "has ended" } else { "does not answer" };
        Failure::internal(format!("the server at {host} {what}:\n{last}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Asked first: one with processes of its own has to end these. One that has ended needs no ending.
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while !self.has_ended() && asked.elapsed() < END_WITHIN {
            std::thread::sleep(POLL_EVERY);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Target {
    /// Starts one in an empty directory. `drives`: of those that code, 1 is without parity.
    pub fn start(kind: &Kind, directory: &Path, drives: u16, subject: &dyn Subject) -> Outcome<Self> {
        let (process, host, signer) = match kind {
            Kind::Kist => {
                let ours = Ours::start(directory, subject)?;
                let (host, signer) = (ours.host().to_owned(), ours.signer());
                (Process::Ours(Box::new(ours)), host, signer)
            }
            Kind::Minio(program) => {
                other(program, directory, |command, host| minio(command, directory, host, drives))?
            }
            Kind::Versitygw(program) => {
                other(program, directory, |command, host| versitygw(command, directory, host))?
            }
        };
        let mut target = Target { process, host, signer };
        target.wait_until_ready(directory)?;
        let made = target.connect()?.ask("PUT", &format!("/{BUCKET}"), "", true);
        expect("making the bucket", made, 200)?;
        Ok(target)
    }

    /// A connection of its own.
    pub fn connect(&self) -> Outcome<Link> {
        Link::connect(&self.host, self.signer.clone())
            .map_err(|error| Failure::internal(format!("{}: {error}", self.host)))
    }

    /// A failure of what was asked of it, with why as far as it tells.
    pub fn with_reason(&self, failure: Failure) -> Failure {
        match &self.process {
            Process::Ours(ours) => ours.with_log(failure),
            Process::Other(_) => failure,
        }
    }

    /// The process, for its figures in /proc.
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Ours(ours) => ours.pid(),
            Process::Other(other) => other.pid(),
        }
    }

    fn wait_until_ready(&mut self, directory: &Path) -> Outcome {
        let started = Instant::now();
        loop {
            let ready = TcpStream::connect(&self.host).is_ok()
                && self.connect()?.ask("GET", "/", "", true).is_ok_and(|answer| answer.status == 200);
            if ready {
                return Ok(());
            }
            let is_late = started.elapsed() > READY_WITHIN;
            match &mut self.process {
                Process::Ours(ours) => {
                    if is_late {
                        let what = format!("the server at {} does not answer", self.host);
                        return Err(ours.with_log(Failure::internal(what)));
                    }
                }
                Process::Other(other) => {
                    if is_late || other.has_ended() {
                        return Err(other.not_ready(&self.host, &directory.join(LOG)));
                    }
                }
            }
            std::thread::sleep(POLL_EVERY);
        }
    }
}

/// The log of another server.
const LOG: &str = "peer.log";

/// Demands a status.
pub fn expect(doing: &str, answer: std::io::Result<Answer>, status: u16) -> Outcome<Answer> {
    match answer {
        Ok(answer) if answer.status == status => Ok(answer),
        Ok(answer) => {
            let body = String::from_utf8_lossy(&answer.kept).into_owned();
            Err(Failure::internal(format!("{doing}: status {}: {}", answer.status, body.trim())))
        }
        Err(error) => Err(Failure::internal(format!("{doing}: {error}"))),
    }
}

/// Starts another program with what `set` gives it for its address.
fn other(
    program: &Path,
    directory: &Path,
    set: impl FnOnce(&mut Command, &str) -> Outcome,
) -> Outcome<(Process, String, Signer)> {
    let host = free_address()?;
    let failed = |error: std::io::Error| Failure::io("starting the peer", program, &error);
    let mut command = Command::new(fs::canonicalize(program).map_err(failed)?);
    set(&mut command, &host)?;
    let other = Other::start(command, &directory.join(LOG))?;
    let signer = Signer::new(&host, ACCESS, SECRET);
    Ok((Process::Other(other), host, signer))
}

/// An address that nobody listens at now.
pub fn free_address() -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.to_string()).map_err(|error| Failure::internal(error.to_string()))
}

/// MinIO over its drives, or over one for what does not fit otherwise.
fn minio(command: &mut Command, directory: &Path, host: &str, drives: u16) -> Outcome {
    command.args(["server", "--quiet", "--address", host]);
    for number in 0..drives {
        command.arg(make(&directory.join(format!("d{number}")))?);
    }
    command.env("MINIO_ROOT_USER", ACCESS).env("MINIO_ROOT_PASSWORD", SECRET);
    if drives > 1 {
        command.env("MINIO_STORAGE_CLASS_STANDARD", format!("EC:{PARITY}"));
    }
    // Without it drives have to be file systems of their own. What it does beside that concerns no object.
    command.env("MINIO_CI_CD", "1").env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
    Ok(())
}

/// versitygw over a directory: it codes nothing and keeps each object as a file.
fn versitygw(command: &mut Command, directory: &Path, host: &str) -> Outcome {
    command.args(["--port", host, "--access", ACCESS, "--secret", SECRET, "--quiet", "--keep-alive"]);
    command.args(["--iam-dir".into(), make(&directory.join("iam"))?]);
    command.arg("posix").arg(make(&directory.join("files"))?);
    Ok(())
}

pub fn make(directory: &Path) -> Outcome<PathBuf> {
    fs::create_dir_all(directory).map_err(|error| Failure::io("making the directory", directory, &error))?;
    Ok(directory.to_owned())
}

/// What the configuration of Kist has beyond that of `kist init`, for the page.
pub fn note() -> String {
    format!(
        "{DRIVES} drives: Kist codes {DATA}+{PARITY}, MinIO {DATA}+{PARITY} (`EC:{PARITY}`), versitygw \
         nothing. {}",
        ours::NOTE
    )
}
