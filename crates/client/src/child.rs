//! A server as a child process: for the demonstration and for measurements.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terminal::{Failure, Outcome};

use crate::connection::Connection;
use crate::place::{SERVER_FILE, ServerFile};
use crate::request::Client;

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to stop, unmounting tapes.
const STOP_WITHIN: Duration = Duration::from_secs(120);
/// How often it is looked at.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Lines of its log that a failure shows.
const LOG_LINES_SHOWN: usize = 12;

/// A running server. It ends with this program, whatever happens: its standard input does.
pub struct Server {
    child: Child,
    directory: PathBuf,
    /// A client with the instance's own key.
    pub client: Client,
}

impl Server {
    /// Starts the server of `directory` and waits until it is ready. It logs to `run/server.log`. Whoever has
    /// its ports already goes on: clients find other ones by `run/server.json`.
    pub fn start(directory: &Path) -> Outcome<Self> {
        let failed = |doing: &str, path: &Path, error: std::io::Error| Failure::io(doing, path, &error);
        let program =
            std::env::current_exe().map_err(|error| failed("finding this program", directory, error))?;
        let run = directory.join("run");
        fs::create_dir_all(&run).map_err(|error| failed("making the directory", &run, error))?;
        let log = run.join("server.log");
        let errors = File::create(&log).map_err(|error| failed("making the log", &log, error))?;
        let mut child = Command::new(&program)
            .args(["serve", "--stop-with-stdin", "--another-port"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| failed("starting the server", &program, error))?;
        match wait_until_ready(&mut child, directory) {
            Ok(client) => Ok(Server { child, directory: directory.to_owned(), client }),
            Err(failure) => {
                // The child's log has the reason; the process itself is of no more use.
                let _ = child.kill();
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// The process, for its figures in /proc.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A failure, with the end of its log: what a client is told of it does not name causes.
    pub fn with_log(&self, failure: Failure) -> Failure {
        let log = end_of_log(&self.directory);
        Failure { message: format!("{}; {log}", failure.message), ..failure }
    }

    /// Waits until somebody stops it.
    pub fn join(mut self) -> Outcome {
        let ended = self.child.wait().map_err(|error| Failure::internal(error.to_string()))?;
        if ended.success() { Ok(()) } else { Err(with_log("the server failed", &self.directory)) }
    }

    /// Stops it cleanly.
    pub fn stop(mut self) -> Outcome {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // A server that has gone already needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.child.stdin.take());
        let started = Instant::now();
        loop {
            match self.child.try_wait().map_err(|error| Failure::internal(error.to_string()))? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(with_log("the server did not stop cleanly", &self.directory)),
                None if started.elapsed() > STOP_WITHIN => {
                    return Err(with_log("the server does not stop", &self.directory));
                }
                None => std::thread::sleep(POLL_EVERY),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > STOP_WITHIN {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(POLL_EVERY);
        }
    }
}

fn wait_until_ready(child: &mut Child, directory: &Path) -> Outcome<Client> {
    let file = directory.join(SERVER_FILE);
    let started = Instant::now();
    loop {
        let server = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<ServerFile>(&bytes).ok());
        if server.is_some_and(|server| server.pid == child.id()) {
            let connection = Connection { instance: Some(directory.to_owned()), ..Connection::default() };
            return connection.own_client();
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return Err(with_log("the server did not start", directory));
        }
        if started.elapsed() > READY_WITHIN {
            return Err(with_log("the server is not ready", directory));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn with_log(what: &str, directory: &Path) -> Failure {
    Failure::internal(format!("{what}; {}", end_of_log(directory)))
}

fn end_of_log(directory: &Path) -> String {
    let log = directory.join("run/server.log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LOG_LINES_SHOWN)..).unwrap_or_default().join("\n");
    format!("the end of {}:\n{last}", log.display())
}
