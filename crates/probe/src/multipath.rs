//! Multipath maps of this machine: seen, made and told through `dmsetup`; paths tried one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use scsi::command::Primary;
use scsi::{Command, Data, Sense, SenseKey, Status, Transport};
use sgio::SgDevice;
use topology::maps::{Maps, Step};
use topology::paths::Answer;
use topology::{Machine, Reader};

use crate::Files;

/// The longest that a path may take to say that it is ready.
const READY_MAX: Duration = Duration::from_secs(5);
/// Bytes at the beginning of a disk that must be the same by all its paths: there file systems and
/// superblocks stand.
const COMPARED: usize = 64 * 1024;

/// Why something could not be done with a map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The program is not there.
    #[error("dmsetup cannot be run: install dmsetup, and run this as root ({0})")]
    NoProgram(io::Error),
    /// It refused.
    #[error("dmsetup {0}: {1}")]
    Refused(String, String),
    /// A path is in somebody's use, or cannot be read.
    #[error("/dev/{0} cannot be had alone: {1}")]
    InUse(String, io::Error),
    /// What two paths lead to is not the same.
    #[error("/dev/{0} and /dev/{1} begin with other bytes: they are not one disk, whatever their names say")]
    Differ(String, String),
}

/// The maps of this machine.
#[must_use]
pub fn maps(machine: &Machine) -> Maps {
    let files = Files::of_machine();
    Maps::read(&Reader::new(&files), machine)
}

/// Whether multipathd runs here.
#[must_use]
pub fn multipathd_runs() -> bool {
    let pid = ["/run/multipathd.pid", "/run/multipathd/multipathd.pid"]
        .iter()
        .find_map(|file| fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u32>().ok()));
    let name = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    name.is_some_and(|name| name.trim() == "multipathd")
}

fn dmsetup(arguments: &[&str]) -> Result<String, MapError> {
    let done = Program::new("dmsetup").args(arguments).output().map_err(MapError::NoProgram)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(MapError::Refused(arguments.join(" "), said.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Does what was planned.
///
/// # Errors
/// [`MapError`]; then nothing, or of a reload the table alone, has changed.
pub fn carry_out(step: &Step) -> Result<(), MapError> {
    match step {
        Step::Make { name, table, over } => {
            are_one_disk(over)?;
            dmsetup(&["create", name, "--uuid", name, "--table", table]).map(drop)
        }
        Step::Reload { name, table, .. } => {
            dmsetup(&["load", name, "--table", table])?;
            // What is under way goes to the new table: it must not have to end on a path that is gone.
            dmsetup(&["suspend", "--noflush", "--nolockfs", name])?;
            dmsetup(&["resume", name]).map(drop)
        }
        Step::Remove { name } => dmsetup(&["remove", name]).map(drop),
        Step::Leave { .. } => Ok(()),
    }
}

/// Tells the kernel to leave a path of a map, by its number, or to use it again.
///
/// # Errors
/// [`MapError`].
pub fn use_path(map: &str, number: &str, used: bool) -> Result<(), MapError> {
    let word = if used { "reinstate_path" } else { "fail_path" };
    dmsetup(&["message", map, "0", &format!("{word} {number}")]).map(drop)
}

/// The lines in which the kernel tells of each multipath map, by name.
///
/// # Errors
/// [`MapError`].
pub fn status() -> Result<BTreeMap<String, String>, MapError> {
    let said = dmsetup(&["status", "--target", "multipath"])?;
    let named = |line: &str| {
        let (name, rest) = line.split_once(": ")?;
        Some((name.to_owned(), rest.to_owned()))
    };
    Ok(said.lines().filter_map(named).collect())
}

/// Whether all these paths are in nobody's use and begin with the same bytes. Names in the world are unique
/// by standard only, and to take two disks for one would destroy both.
fn are_one_disk(blocks: &[String]) -> Result<(), MapError> {
    let mut first: Option<(&String, Vec<u8>)> = None;
    // All at once: whoever wants one meanwhile is refused.
    let mut held: Vec<File> = Vec::new();
    for block in blocks {
        let failed = |source| MapError::InUse(block.clone(), source);
        let flags = i32::try_from((OFlags::EXCL | OFlags::CLOEXEC).bits()).unwrap_or(0);
        let path = Path::new("/dev").join(block);
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let mut bytes = Vec::with_capacity(COMPARED);
        (&mut file).take(COMPARED as u64).read_to_end(&mut bytes).map_err(failed)?;
        held.push(file);
        match &first {
            Some((other, known)) if *known != bytes => {
                return Err(MapError::Differ((*other).clone(), block.clone()));
            }
            Some(_) => {}
            None => first = Some((block, bytes)),
        }
    }
    Ok(())
}

/// A path that is tried by a thread of its own: one that hangs holds up no other.
struct Tried {
    ask: Sender<()>,
    answers: Receiver<Answer>,
    /// Since when it owes an answer.
    since: Option<Instant>,
}

/// Tries paths.
#[derive(Default)]
pub struct Tester(BTreeMap<String, (PathBuf, Tried)>);

impl Tester {
    /// From now on it tries these: for each block device the generic device of the same path.
    pub fn follow(&mut self, paths: &BTreeMap<String, PathBuf>) {
        self.0.retain(|block, (device, _)| paths.get(block) == Some(device));
        let known: BTreeSet<String> = self.0.keys().cloned().collect();
        for (block, device) in paths.iter().filter(|(block, _)| !known.contains(*block)) {
            self.0.insert(block.clone(), (device.clone(), Tried::begin(device.clone())));
        }
    }

    /// Tries each once, and gives what came of it after this time at most: one that has not answered yet has
    /// failed.
    pub fn look(&mut self, patience: Duration) -> BTreeMap<String, Answer> {
        let begin = Instant::now();
        for (_, tried) in self.0.values_mut().filter(|(_, tried)| tried.since.is_none()) {
            if tried.ask.send(()).is_ok() {
                tried.since = Some(begin);
            }
        }
        let one = |(block, (_, tried)): (&String, &mut (PathBuf, Tried))| {
            let left = patience.saturating_sub(begin.elapsed());
            (block.clone(), tried.answer(left))
        };
        self.0.iter_mut().map(one).collect()
    }
}

impl Tried {
    fn begin(device: PathBuf) -> Tried {
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answers) = mpsc::channel();
        // It ends when nobody asks any more, and after the last command that hangs.
        let _ = thread::Builder::new().name("path".to_owned()).spawn(move || {
            let mut open: Option<SgDevice> = None;
            while asked.recv().is_ok() {
                if answer.send(ready(&device, &mut open)).is_err() {
                    return;
                }
            }
        });
        Tried { ask, answers, since: None }
    }

    fn answer(&mut self, left: Duration) -> Answer {
        let came = match self.answers.try_recv() {
            Err(TryRecvError::Empty) => self.answers.recv_timeout(left).ok(),
            came => came.ok(),
        };
        if let Some(answer) = came {
            self.since = None;
            return answer;
        }
        let seconds = self.since.map_or(0, |since| since.elapsed().as_secs());
        Answer::Failed(format!("it has not answered TEST UNIT READY for {seconds} s"))
    }
}

/// TEST UNIT READY by one path, and how long it took.
fn ready(device: &Path, open: &mut Option<SgDevice>) -> Answer {
    let failed = |why: String| Answer::Failed(format!("TEST UNIT READY: {why}"));
    if open.is_none() {
        match SgDevice::open(device) {
            Ok(opened) => *open = Some(opened),
            Err(error) => return failed(error.to_string()),
        }
    }
    let Some(transport) = open.as_mut() else { return failed("it is not open".to_owned()) };
    let Ok(cdb) = Command::from(Primary::TestUnitReady).encode() else {
        return failed("it cannot be asked".to_owned());
    };
    // A unit attention is said once, and is of no concern here; several may wait.
    for _ in 0..4 {
        let begin = Instant::now();
        let done = match transport.execute(&cdb, Data::None, READY_MAX) {
            Ok(done) => done,
            Err(error) => {
                *open = None;
                return failed(error.to_string());
            }
        };
        let sense = Sense::decode(&done.sense).ok();
        match (done.status, sense.map(|sense| sense.key)) {
            (Status::Good, _) => return Answer::Ready(begin.elapsed()),
            (Status::CheckCondition, Some(SenseKey::UnitAttention)) => {}
            (Status::CheckCondition, Some(SenseKey::NotReady)) => {
                return failed("the disk is not ready".to_owned());
            }
            // It answered: that it has no time is not the path's fault.
            (Status::Busy | Status::TaskSetFull | Status::ReservationConflict, _) => {
                return Answer::Ready(begin.elapsed());
            }
            (status, key) => return failed(format!("{status:?}, {key:?}")),
        }
    }
    failed("nothing but unit attentions".to_owned())
}
