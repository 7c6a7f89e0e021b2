//! Instances and their server, a process that is killed at will.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The program as it is released, which `make build` makes: `KIST`, or `release/kist` in the target directory
/// from which this program runs.
///
/// # Errors
/// If there is none, or if it is older than what it is made of.
pub fn released() -> io::Result<PathBuf> {
    let path = find("KIST", "release/kist", "make build")?;
    if std::env::var_os("KIST").is_none() {
        is_of_these_sources(&path)?;
    }
    Ok(path)
}

/// Refuses a program that is older than one of the files of which Cargo made it.
fn is_of_these_sources(program: &Path) -> io::Result<()> {
    let made = fs::metadata(program)?.modified()?;
    let listed = fs::read_to_string(program.with_extension("d"))?;
    for source in listed.split_whitespace().skip(1) {
        if fs::metadata(source).and_then(|found| found.modified()).is_ok_and(|changed| changed > made) {
            let program = program.display();
            return Err(io::Error::other(format!("{program} is older than {source}: make build, or KIST")));
        }
    }
    Ok(())
}

/// The program with bugs that can be planted in it (`KIST_PLANTED`): `KIST_WITH_KNOBS`, or the one of the
/// profile of this program.
///
/// # Errors
/// If there is none.
pub fn with_knobs() -> io::Result<PathBuf> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    find("KIST_WITH_KNOBS", &format!("{profile}/kist_with_knobs"), "cargo build --package torture")
}

/// `target/debug/deps/PROGRAM`: so many directories above a program is the target directory.
const PARENTS_MAX: usize = 3;

/// The program that the variable names, or the one at this place in the target directory.
fn find(variable: &str, place: &str, how: &str) -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let built = own
        .ancestors()
        .skip(1)
        .take(PARENTS_MAX)
        .map(|directory| directory.join(place))
        .find(|path| path.is_file());
    built.ok_or_else(|| {
        io::Error::other(format!("there is no {place} in the target directory: {how}, or {variable}"))
    })
}

/// An instance on disk.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The program.
    pub kist: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
    /// The key.
    pub key: String,
}

/// How an instance is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// More options of `kist init`.
    pub options: Vec<String>,
    /// Changes of `kist.toml`: what is there, what shall be there.
    pub settings: Vec<(&'static str, &'static str)>,
}

impl Instance {
    /// Makes an instance in `dir`, which does not exist; its key goes beside it.
    ///
    /// # Errors
    /// If `kist init` fails or a setting is not in its file.
    pub fn init(kist: &Path, dir: &Path, plan: &Plan) -> io::Result<Self> {
        let key_file = dir.with_extension("key");
        let _ = fs::remove_file(&key_file);
        let mut command = Command::new(kist);
        command.arg("init").arg(dir).args(["--listen", "127.0.0.1:0", "--demo", "--save-key"]).arg(&key_file);
        let output = command.args(&plan.options).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let file = dir.join("kist.toml");
        let mut text = fs::read_to_string(&file)?;
        for (from, to) in &plan.settings {
            if !text.contains(from) {
                return Err(io::Error::other(format!("'{from}' is not in kist.toml")));
            }
            text = text.replace(from, to);
        }
        fs::write(&file, text)?;
        let key = fs::read_to_string(&key_file)?.trim().to_owned();
        Ok(Instance { kist: kist.to_owned(), dir: dir.to_owned(), key })
    }

    /// The command that serves it, its log appended to `log`.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn serve_command(&self, log: &Path) -> io::Result<Command> {
        let mut command = Command::new(&self.kist);
        command.args(["serve", "--stop-with-stdin", "--log", "warn"]).arg(&self.dir);
        prepare(&mut command, log)?;
        Ok(command)
    }

    /// Starts its server.
    ///
    /// # Errors
    /// If it does not say that it is ready.
    pub fn serve(&self, log: &Path) -> io::Result<Server> {
        Server::start(self.serve_command(log)?)
    }
}

/// Gives a command that serves pipes, and a log.
///
/// # Errors
/// If the log cannot be opened.
pub fn prepare(command: &mut Command, log: &Path) -> io::Result<()> {
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    Ok(())
}

/// A server that runs. Dropping it kills it.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub url: String,
}

impl Server {
    /// Starts a command that serves, and waits until it says that it is ready.
    ///
    /// # Errors
    /// If it ends before.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let Some(stdout) = child.stdout.take() else { return Err(io::Error::other("no pipe")) };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim_end().rsplit(' ').next().unwrap_or_default().to_owned();
        if url.starts_with("http://") {
            return Ok(Server { child, url });
        }
        let _ = child.kill();
        Err(io::Error::other(format!("the server did not start ({}): '{line}'", child.wait()?)))
    }

    /// Its process, or that of what runs it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills it as a crash would and waits until it is gone.
    ///
    /// # Errors
    /// Of the system.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Stops it cleanly.
    ///
    /// # Errors
    /// If it ends with a failure.
    pub fn stop(mut self) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        self.child.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Anonymous memory of a process in bytes.
#[must_use]
pub fn anonymous_memory(pid: u32) -> Option<u64> {
    let mut text = String::new();
    fs::File::open(format!("/proc/{pid}/status")).ok()?.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Bytes that a tree takes on disk.
#[must_use]
pub fn disk_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(path) else {
        return fs::symlink_metadata(path).map_or(0, |data| data.blocks() * 512);
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => disk_use(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
