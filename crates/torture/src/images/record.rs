//! Runs the program `recorded` under strace until it stands still.
//!
//! A process that ends while its threads are within calls may have done more than strace has seen. So the
//! program stops itself at the end, running engine and all; each thread comes to a stop between two calls,
//! strace says so, and only then is the process killed: every call has returned and is in the log.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Settings;
use super::run::named;
use super::trace::CALLS;

/// How long threads may take to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// What strace writes of a thread that has stopped.
const STOPPED: &str = "--- stopped by SIGSTOP ---";

/// The strace and the program below it; dropping ends both.
struct Recording {
    strace: Child,
    program: Option<Pid>,
}

impl Recording {
    /// How strace ended, which ends as its program did, and what was written to standard error.
    fn last_words(&mut self) -> io::Result<String> {
        self.program = None;
        let mut text = String::new();
        if let Some(mut stderr) = self.strace.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        Ok(format!("{}: {text}", self.strace.wait()?))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        match self.program {
            Some(pid) => drop(kill_process(pid, Signal::KILL)),
            None => drop(self.strace.kill()),
        }
        let _ = self.strace.wait();
    }
}

/// What came of a recording.
pub enum Recorded {
    /// What strace has written of a workload from its first call to the stop of its last thread.
    Log(String),
    /// The program ended by itself before all its threads had stopped: how, and its last words.
    Ended(String),
}

/// Records a workload.
///
/// # Errors
/// If the workload fails or does not stop.
pub fn log(settings: &Settings, dir: &Path, root: &Path, seed: u64) -> io::Result<Recorded> {
    let (marks, output) = (dir.join("marks"), dir.join("strace"));
    for left in [&marks, &output] {
        let _ = std::fs::remove_file(left);
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "--seccomp-bpf", "-y", "-xx", "-s", "16777216", "-e", "abbrev=none", "-e"]);
    command.arg(format!("trace={CALLS}")).arg("-e").arg("signal=STOP").arg("-o").arg(&output);
    command.arg(&settings.recorded).arg(root).arg(&marks).arg(seed.to_string());
    if let Some(bug) = &settings.planted {
        command.env("KIST_PLANTED", bug);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let strace = named(Path::new("strace"), command.spawn())?;
    let mut recording = Recording { strace, program: None };
    let mut line = String::new();
    if let Some(stdout) = recording.strace.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    recording.program = line.trim().parse().ok().and_then(Pid::from_raw);
    let Some(pid) = recording.program else {
        return Err(io::Error::other(format!("recording failed: {}", recording.last_words()?)));
    };
    match await_stop(pid, &output)? {
        Some(log) => Ok(Recorded::Log(log)),
        None => Ok(Recorded::Ended(recording.last_words()?)),
    }
}

/// Waits until all threads of the process have stopped; gives what strace has written by then. `None`: the
/// process has ended.
fn await_stop(pid: Pid, output: &Path) -> io::Result<Option<String>> {
    let begin = Instant::now();
    let (mut file, mut bytes) = (named(output, File::open(output))?, Vec::new());
    let (mut stopped, mut read) = (BTreeSet::new(), 0);
    loop {
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes[read..whole].split(|byte| *byte == b'\n').filter(|line| line.len() < 64) {
            let line = String::from_utf8_lossy(line);
            if let Some((thread, what)) = line.split_once(' ')
                && what.trim() == STOPPED
            {
                stopped.extend(thread.parse::<u32>());
            }
        }
        read = whole;
        // Listed after the log was read: who has stopped by then has started no others since.
        let threads = match crate::strace::threads(pid.as_raw_nonzero().get().unsigned_abs()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // It ended between the list and the names: no thread is left that could have stopped.
            Ok(threads) if threads.is_empty() => return Ok(None),
            threads => threads?,
        };
        if threads.keys().all(|thread| stopped.contains(thread)) {
            return String::from_utf8(bytes).map(Some).map_err(io::Error::other);
        }
        if begin.elapsed() > PATIENCE {
            let running: Vec<_> = threads.iter().filter(|(thread, _)| !stopped.contains(thread)).collect();
            return Err(io::Error::other(format!("threads do not stop: {running:?}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
