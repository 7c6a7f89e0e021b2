//! Faults at system calls, by strace.
//!
//! Traps: an injected call that is not traced is not injected, silently; `when=` counts for each thread by
//! itself. So the traced set is always the injected call, and what fired is counted, not what was asked for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that strace may take to let a process go.
const DETACHED_MAX: Duration = Duration::from_secs(20);

/// What happens at the call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// SIGKILL before the call does anything.
    Kill,
    /// The call fails with this error and does nothing.
    Error(&'static str),
}

/// The n-th call of a kind in one thread.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    /// The thread's name; threads of the program's own name are those that have none.
    pub thread: String,
    /// The system call.
    pub call: String,
    /// From 1.
    pub number: u64,
    /// What happens there.
    pub fault: Fault,
}

impl Point {
    fn injection(&self) -> [String; 4] {
        let what = match self.fault {
            Fault::Kill => "signal=KILL".to_owned(),
            Fault::Error(error) => format!("error={error}"),
        };
        let inject = format!("inject={}:{what}:when={}", self.call, self.number);
        ["-e".to_owned(), format!("trace={}", self.call), "-e".to_owned(), inject]
    }
}

/// Calls that change the state of files.
pub const CALLS: [&str; 14] = [
    "openat",
    "write",
    "pwrite64",
    "pwritev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat",
    "unlink",
    "unlinkat",
    "mkdir",
    "msync",
];

/// Whether strace is here and may trace.
///
/// # Errors
/// Says what is missing.
pub fn check() -> Result<(), String> {
    let ran = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "strace may not trace here ({}): allow ptrace, or leave these tests out with KIST_NO_PTRACE=1",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => {
            Err(format!("strace: {error}: install it, or leave these tests out with KIST_NO_PTRACE=1"))
        }
    }
}

/// Whether tests that need strace shall run. Panics if they cannot and nobody has said that they need not.
#[must_use]
pub fn is_wanted() -> bool {
    if std::env::var_os("KIST_NO_PTRACE").is_some_and(|value| value == "1") {
        eprintln!("left out: KIST_NO_PTRACE=1");
        return false;
    }
    check().unwrap_or_else(|why| panic!("{why}"));
    true
}

/// A strace that is attached to a process. Dropping it detaches.
pub struct Tracer {
    child: Child,
    output: PathBuf,
}

impl Tracer {
    /// Attaches with a fault: to all threads of a name alone, which count each for itself, or with all that
    /// come later if the name is the program's own.
    ///
    /// # Errors
    /// If there is no such thread or strace does not attach.
    pub fn inject(pid: u32, point: &Point, output: &Path) -> io::Result<Self> {
        let mut command = Command::new("strace");
        command.arg("-qq").args(point.injection());
        let threads = threads(pid)?;
        let own: Vec<u32> =
            threads.iter().filter(|(_, name)| **name == point.thread).map(|(id, _)| *id).collect();
        let awaited = match own.first() {
            Some(first) if is_lasting(&point.thread) => {
                for id in &own {
                    command.arg("-p").arg(id.to_string());
                }
                *first
            }
            _ => {
                command.args(["-f", "-p"]).arg(pid.to_string());
                pid
            }
        };
        Tracer::start(command, pid, awaited, output)
    }

    /// Attaches to all threads and writes down all calls that change files.
    ///
    /// # Errors
    /// If strace does not attach.
    pub fn record(pid: u32, output: &Path) -> io::Result<Self> {
        let mut command = Command::new("strace");
        command.args(["-qq", "-f", "-s", "0", "-e", &format!("trace={}", CALLS.join(",")), "-p"]);
        command.arg(pid.to_string());
        Tracer::start(command, pid, pid, output)
    }

    fn start(mut command: Command, pid: u32, thread: u32, output: &Path) -> io::Result<Self> {
        command.arg("-o").arg(output).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let mut tracer = Tracer { child, output: output.to_owned() };
        let until = Instant::now() + Duration::from_secs(20);
        let status = format!("/proc/{pid}/task/{thread}/status");
        while Instant::now() < until {
            let text = match fs::read_to_string(&status) {
                // The thread has ended meanwhile: the fault does not happen, or has happened.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(tracer),
                text => text?,
            };
            let traced = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
            if traced.is_some_and(|tracer| tracer.trim() != "0") {
                return Ok(tracer);
            }
            if let Ok(Some(status)) = tracer.child.try_wait() {
                return Err(io::Error::other(format!("strace ended: {status}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(io::Error::other("strace does not attach"))
    }

    /// Detaches and gives what was written.
    ///
    /// # Errors
    /// If its output cannot be read.
    pub fn finish(mut self) -> io::Result<String> {
        self.detach();
        Ok(String::from_utf8_lossy(&fs::read(&self.output)?).into_owned())
    }

    fn detach(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        // strace may wait for ever for a thread of a process that is being killed: it is then killed itself,
        // and the kernel lets the thread go.
        let until = Instant::now() + DETACHED_MAX;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.detach();
    }
}

/// The command that runs another one under strace with a fault, counting in every thread from its start. The
/// process is the command's own child, strace stands beside it.
#[must_use]
pub fn wrapped(command: &Command, point: &Point, output: &Path) -> Command {
    let mut outer = Command::new("strace");
    outer.args(["-D", "-f", "-qq"]).args(point.injection()).arg("-o").arg(output);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}

/// Threads that live as long as the server.
fn is_lasting(name: &str) -> bool {
    ["catalogue", "tape-", "sweeper", "sealer", "conductor"].iter().any(|prefix| name.starts_with(prefix))
}

/// The threads of a process and their names.
///
/// # Errors
/// If the process is gone.
pub fn threads(pid: u32) -> io::Result<BTreeMap<u32, String>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let id = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        // A thread may end between the two.
        if let Ok(name) = fs::read_to_string(entry.path().join("comm")) {
            threads.insert(id, name.trim().to_owned());
        }
    }
    Ok(threads)
}

/// How often each thread made each call, from what [`Tracer::record`] wrote; of threads of one name the most.
#[must_use]
pub fn count(record: &str, threads: &BTreeMap<u32, String>) -> BTreeMap<(String, String), u64> {
    let mut by_thread: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for line in record.lines() {
        let Some((id, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if let (Ok(id), true) = (id.parse(), CALLS.contains(&call)) {
            *by_thread.entry((id, call)).or_default() += 1;
        }
    }
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for ((id, call), count) in by_thread {
        let name = threads.get(&id).cloned().unwrap_or_else(|| "others".to_owned());
        let most = counts.entry((name, call.to_owned())).or_default();
        *most = count.max(*most);
    }
    counts
}
