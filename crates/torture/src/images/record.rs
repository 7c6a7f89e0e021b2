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

impl Drop for Recording {
    fn drop(&mut self) {
        match self.program {
            Some(pid) => drop(kill_process(pid, Signal::KILL)),
            None => drop(self.strace.kill()),
        }
        let _ = self.strace.wait();
    }
}

/// What strace has written of a workload from its first call to the stop of its last thread.
///
/// # Errors
/// If the workload fails or does not stop.
pub fn log(settings: &Settings, dir: &Path, root: &Path, seed: u64) -> io::Result<String> {
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
    let strace = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut recording = Recording { strace, program: None };
    let mut line = String::new();
    if let Some(stdout) = recording.strace.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    recording.program = line.trim().parse().ok().and_then(Pid::from_raw);
    let Some(pid) = recording.program else {
        let status = recording.strace.wait()?;
        let mut text = String::new();
        if let Some(mut stderr) = recording.strace.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        return Err(io::Error::other(format!("recording failed: {status}: {text}")));
    };
    await_stop(pid, &output)
}

/// Waits until all threads of the process have stopped; gives what strace has written by then.
fn await_stop(pid: Pid, output: &Path) -> io::Result<String> {
    let begin = Instant::now();
    let (mut file, mut bytes) = (File::open(output)?, Vec::new());
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
        let threads = crate::strace::threads(pid.as_raw_nonzero().get().unsigned_abs())?;
        if threads.keys().all(|thread| stopped.contains(thread)) {
            return String::from_utf8(bytes).map_err(io::Error::other);
        }
        if begin.elapsed() > PATIENCE {
            let running: Vec<_> = threads.iter().filter(|(thread, _)| !stopped.contains(thread)).collect();
            return Err(io::Error::other(format!("threads do not stop: {running:?}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
