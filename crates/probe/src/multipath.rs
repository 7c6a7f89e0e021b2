//! Multipath maps of this machine: seen, made and told through `dmsetup`; paths tried one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use scsi::command::Primary;
use scsi::{Command, Data, Sense, SenseKey, Status, Transport};
use sgio::SgDevice;
use topology::maps::{Maps, Member, Step, table};
use topology::paths::Answer;
use topology::{Machine, Reader};

use crate::Files;
use crate::same_disk::{are_one_disk, is_of_map};

/// The longest that a path may take to say that it is ready.
const READY_MAX: Duration = Duration::from_secs(5);

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
    /// What is to be compared cannot be read.
    #[error("/dev/{0} cannot be read: {1}")]
    Unread(String, io::Error),
    /// What two paths lead to is not the same.
    #[error("/dev/{0} and /dev/{1} have other bytes: they are not one disk, whatever their names say")]
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

/// What came of a step.
#[derive(Debug, Default)]
pub struct Done {
    /// What was done, if anything was.
    pub done: Option<Step>,
    /// Paths that were found not to belong into a map.
    pub left_out: Vec<Step>,
}

/// Does what was planned.
///
/// # Errors
/// [`MapError`]; then nothing has changed.
pub fn carry_out(step: &Step) -> Result<Done, MapError> {
    match step {
        Step::Make { name, table, over } => {
            are_one_disk(over)?;
            dmsetup(&["create", name, "--uuid", name, "--table", table])?;
        }
        Step::Reload { name, device, sectors, kept, new, loses } => {
            return reload(
                name,
                kept,
                new,
                *loses,
                *sectors,
                &Machinery {
                    device,
                    compare: &|path| is_of_map(path, device, *sectors),
                    dmsetup: &|arguments| dmsetup(arguments).map(drop),
                },
            );
        }
        Step::Resume { name } => resume(name, &|arguments| dmsetup(arguments).map(drop))?,
        Step::Remove { name } => dmsetup(&["remove", name]).map(drop)?,
        Step::Leave { .. } | Step::LeaveOut { .. } => return Ok(Done::default()),
    }
    Ok(Done { done: Some(step.clone()), left_out: Vec::new() })
}

type Dmsetup<'a> = dyn Fn(&[&str]) -> Result<(), MapError> + 'a;

/// What a map is changed with.
struct Machinery<'a> {
    /// Its block device.
    device: &'a str,
    /// Whether a path leads to what the map has.
    compare: &'a dyn Fn(&str) -> Result<(), MapError>,
    dmsetup: &'a Dmsetup<'a>,
}

/// Gives a map that stands the paths that it keeps, and those of the new ones that lead to the same disk.
fn reload(
    name: &str,
    kept: &[Member],
    new: &[Member],
    loses: bool,
    sectors: u64,
    with: &Machinery<'_>,
) -> Result<Done, MapError> {
    let mut done = Done::default();
    let mut taken = Vec::new();
    for member in new {
        match (with.compare)(&member.block) {
            Ok(()) => taken.push(member.clone()),
            Err(error) => done.left_out.push(Step::LeaveOut {
                map: name.to_owned(),
                path: member.block.clone(),
                why: error.to_string(),
            }),
        }
    }
    if taken.is_empty() && !loses {
        return Ok(done);
    }
    let table = table(sectors, kept.iter().chain(&taken).map(|member| member.number.as_str()));
    // What is under way goes to the new table: it must not have to end on a path that is gone.
    let changed = (with.dmsetup)(&["load", name, "--table", &table])
        .and_then(|()| (with.dmsetup)(&["suspend", "--noflush", "--nolockfs", name]))
        .and_then(|()| (with.dmsetup)(&["resume", name]));
    if let Err(error) = changed {
        // It goes on with the table that it had. If even that fails, the next look tries again.
        let _ = resume(name, with.dmsetup);
        return Err(error);
    }
    done.done = Some(Step::Reload {
        name: name.to_owned(),
        device: with.device.to_owned(),
        sectors,
        kept: kept.to_vec(),
        new: taken,
        loses,
    });
    Ok(done)
}

/// Has a map go on with the table that it has, and forget another one that was loaded.
fn resume(name: &str, dmsetup: &Dmsetup<'_>) -> Result<(), MapError> {
    let cleared = dmsetup(&["clear", name]);
    // A map that waits is worse than one with another table.
    dmsetup(&["resume", name]).and(cleared)
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn member(block: &str, number: &str) -> Member {
        Member { block: block.to_owned(), number: number.to_owned() }
    }

    /// What comes of a reload that is to take in sdb and sdc, of which sdc leads to another disk, and which
    /// words dmsetup hears; the one of that name fails.
    fn reloaded(new: &[Member], loses: bool, fails: &str) -> (Result<Done, MapError>, Vec<String>) {
        let heard = RefCell::new(Vec::new());
        let dmsetup = |arguments: &[&str]| {
            heard.borrow_mut().push(arguments.join(" "));
            match arguments.first() {
                // The second time it does what it is told.
                Some(word) if *word == fails && heard.borrow().len() <= 3 => {
                    Err(MapError::Refused(fails.to_owned(), "no".to_owned()))
                }
                _ => Ok(()),
            }
        };
        let compare = |path: &str| match path {
            "sdc" => Err(MapError::Differ("dm-0".to_owned(), path.to_owned())),
            _ => Ok(()),
        };
        let with = Machinery { device: "dm-0", compare: &compare, dmsetup: &dmsetup };
        let done = reload("kist-1", &[member("sda", "8:0")], new, loses, 2_048, &with);
        (done, heard.into_inner())
    }

    #[test]
    fn a_path_to_another_disk_does_not_come_into_a_map_that_stands() {
        let (done, heard) = reloaded(&[member("sdb", "8:16"), member("sdc", "8:32")], false, "");
        let done = done.unwrap();
        let table = "0 2048 multipath 0 0 1 1 service-time 0 2 1 8:0 1 8:16 1";
        let words = ["suspend --noflush --nolockfs kist-1", "resume kist-1"];
        assert_eq!(heard, [&format!("load kist-1 --table {table}"), words[0], words[1]]);
        assert_eq!(done.done.unwrap().to_string(), "kist-1: stands over sda, sdb now");
        assert!(matches!(&done.left_out[..], [Step::LeaveOut { path, .. }] if path == "sdc"));
        // Nothing is left to be changed.
        let (done, heard) = reloaded(&[member("sdc", "8:32")], false, "");
        assert!(done.unwrap().done.is_none() && heard.is_empty());
        let (done, _) = reloaded(&[member("sdc", "8:32")], true, "");
        assert_eq!(done.unwrap().done.unwrap().to_string(), "kist-1: stands over sda now");
    }

    #[test]
    fn a_map_goes_on_whatever_fails_of_its_change() {
        for fails in ["load", "suspend", "resume"] {
            let (done, heard) = reloaded(&[], true, fails);
            assert!(done.is_err(), "{fails}");
            assert_eq!(heard[heard.len() - 2..], ["clear kist-1", "resume kist-1"], "{fails}");
        }
    }
}
