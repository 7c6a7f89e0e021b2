//! `kist disk paths keep`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use probe::multipath::{self, Done, Tester};
use serde_json::json;
use terminal::{Exit, Failure, Outcome, output, text};
use topology::Machine;
use topology::maps::{Maps, Step, kernel_states};
use topology::paths::{Answer, Change, DiskPaths, PathState};

use super::disk_paths::{Kept, KeptPath, STATE_FILE};
use crate::cli::Common;

/// The machine is looked at anew after so many looks, even if no disk has come or gone: a disk may have
/// become free.
const LOOKS_MAX: u32 = 30;

/// The same while a map has lost its disk: it goes as soon as nobody uses it any more, and whoever waits for
/// that puts another disk in.
const LOOKS_MAX_FORSAKEN: u32 = 2;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Runs until it is ended; the maps stay. Over each disk that has several paths, a name
in the world, and nothing of it in use, it makes a multipath map, kist-NAME in
/dev/mapper, as long as multipathd does not run. Put the file system on the map.

Each path is asked TEST UNIT READY. One that fails, does not answer, or takes 8 times
as long as another one and 20 ms is left as long as another path is well; it is taken
back after 10 s in which it was well, later if it fails again and again. Each change
is a line. Maps that it did not make are never touched, nor disks that are mounted or
claimed otherwise. A path that comes to a map that stands is taken in if it tells the
same serial number, nobody uses it, and it has the bytes that the map has.

Examples:
  sudo kist disk paths keep
  sudo kist disk paths keep --every 5 --json")]
pub struct Args {
    /// Seconds between two looks at the paths
    #[arg(long, value_name = "SECONDS", default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
}

/// A map that is looked after.
struct KeptMap {
    /// The paths: block devices and their numbers.
    numbers: BTreeMap<String, String>,
    paths: DiskPaths,
}

struct Keeper {
    json: bool,
    begin: Instant,
    tester: Tester,
    maps: BTreeMap<String, KeptMap>,
    /// When each path became what it is, as text: a steady clock tells nobody anything.
    since: BTreeMap<(String, String), String>,
    /// What was told already of disks without a map.
    told: BTreeSet<String>,
    /// A map of Kist stands that leads to no disk.
    has_forsaken: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            Exit::NotAuthorised,
            "maps are made by root alone: sudo kist disk paths keep",
        ));
    }
    multipath::status().map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let mut keeper = Keeper {
        json: common.json,
        begin: Instant::now(),
        tester: Tester::default(),
        maps: BTreeMap::new(),
        since: BTreeMap::new(),
        told: BTreeSet::new(),
        has_forsaken: false,
    };
    let every = Duration::from_secs(args.every);
    let (mut known, mut looks) = (None, 0);
    let mut ready = std::env::var_os("NOTIFY_SOCKET");
    loop {
        let begin = Instant::now();
        let names = names();
        let looks_max = if keeper.has_forsaken { LOOKS_MAX_FORSAKEN } else { LOOKS_MAX };
        if known.as_ref() != Some(&names) || looks >= looks_max {
            keeper.see()?;
            (known, looks) = (Some(names), 0);
        }
        looks += 1;
        keeper.look(every / 2)?;
        keeper.write();
        if let Some(socket) = ready.take() {
            tell_ready(&socket).map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
        }
        thread::sleep(every.saturating_sub(begin.elapsed()));
    }
}

/// Tells who started this that the maps are there (sd_notify(3): one datagram; a name that begins with `@` is
/// an abstract one).
fn tell_ready(socket: &OsStr) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

/// The paths to disks that the kernel has.
fn names() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/scsi_disk").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

impl Keeper {
    /// Says what has happened, on a line.
    fn say(&self, map: &str, what: &str, line: &str) -> Outcome {
        let at = text::rfc3339(text::now());
        match self.json {
            true => output::line(&json!({ "at": at, "map": map, "what": what, "text": line }).to_string())?,
            false => output::line(&format!("{} {line}", text::whole_seconds(&at)))?,
        }
        output::flush()
    }

    /// Looks at the machine, and makes, changes and takes away maps.
    fn see(&mut self) -> Outcome {
        let (mut machine, mut maps) = look();
        if self.carry_out(&maps.suspended())? {
            (machine, maps) = look();
        }
        if self.carry_out(&maps.plan(&machine, multipath::multipathd_runs()))? {
            (machine, maps) = look();
        }
        self.has_forsaken = maps.has_forsaken(&machine);
        self.follow(&machine, &maps);
        Ok(())
    }

    /// Does what was planned, and says so. Whether anything has changed.
    fn carry_out(&mut self, steps: &[Step]) -> Outcome<bool> {
        let mut has_changed = false;
        for step in steps {
            if matches!(step, Step::Leave { .. } | Step::LeaveOut { .. }) {
                self.say_once(step, "left", step.to_string())?;
                continue;
            }
            match multipath::carry_out(step) {
                Ok(Done { done, left_out }) => {
                    for left in left_out {
                        self.say_once(&left, "left", left.to_string())?;
                    }
                    if let Some(done) = done {
                        has_changed = true;
                        self.say(name_of(&done), "map", &done.to_string())?;
                    }
                }
                Err(error) => {
                    self.say_once(step, "refused", format!("{}: not done: {error}", name_of(step)))?;
                }
            }
        }
        Ok(has_changed)
    }

    fn say_once(&mut self, step: &Step, what: &str, line: String) -> Outcome {
        match self.told.contains(&line) {
            true => Ok(()),
            false => {
                self.say(name_of(step), what, &line)?;
                self.told.insert(line);
                Ok(())
            }
        }
    }

    /// Takes note of the maps of Kist and their paths.
    fn follow(&mut self, machine: &Machine, maps: &Maps) {
        let mut generic: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut before = std::mem::take(&mut self.maps);
        for disk in &machine.disks {
            let Some(map) = maps.over(disk).filter(|map| map.is_own()) else { continue };
            let mut numbers = BTreeMap::new();
            for path in &disk.paths {
                let Some(block) = path.block.as_ref().filter(|block| map.below.contains(*block)) else {
                    continue;
                };
                let Some(number) = maps.number(block) else { continue };
                numbers.insert(block.clone(), number.to_owned());
                let device = match &path.generic {
                    Some(generic) => format!("/dev/{generic}"),
                    None => format!("/dev/bsg/{}", path.device),
                };
                generic.insert(block.clone(), PathBuf::from(device));
            }
            let paths = before.remove(&map.name).map(|kept| kept.paths).unwrap_or_default();
            self.maps.insert(map.name.clone(), KeptMap { numbers, paths });
        }
        self.tester.follow(&generic);
    }

    /// Tries each path once, and tells the kernel what comes of it.
    fn look(&mut self, patience: Duration) -> Outcome {
        let answers = self.tester.look(patience);
        // Without its word the paths are judged by their answers alone.
        let states = multipath::status().unwrap_or_default();
        let now = self.begin.elapsed();
        let mut said = Vec::new();
        for (name, map) in &mut self.maps {
            let used = states.get(name).map(|line| kernel_states(line)).unwrap_or_default();
            let of_map: BTreeMap<String, Answer> = map
                .numbers
                .iter()
                .filter_map(|(block, number)| {
                    let answer = answers.get(block)?.clone();
                    let is_left = used.get(number) == Some(&false);
                    Some((
                        block.clone(),
                        seen(answer, is_left, map.paths.paths().get(block).map(|p| p.state)),
                    ))
                })
                .collect();
            let changes = map.paths.look(now, &of_map);
            let changed: BTreeSet<String> = changes.iter().map(|change| change.path.clone()).collect();
            for change in changes {
                let told = map
                    .numbers
                    .get(&change.path)
                    .map_or(Ok(()), |number| multipath::use_path(name, number, change.state.is_used()));
                let stamp = text::rfc3339(text::now());
                self.since.insert((name.clone(), change.path.clone()), stamp);
                said.push((name.clone(), line(name, &change, told.err().map(|error| error.to_string()))));
            }
            // The kernel has left what is the last path, and what it answers is good: it is worth a try.
            let those_used = map.paths.paths().iter().filter(|(_, watch)| watch.state.is_used());
            for block in those_used.map(|(block, _)| block) {
                let is_ready =
                    !changed.contains(block) && matches!(answers.get(block), Some(Answer::Ready(_)));
                let number = map.numbers.get(block).filter(|number| used.get(*number) == Some(&false));
                if let Some(number) = number.filter(|_| is_ready)
                    && multipath::use_path(name, number, true).is_ok()
                {
                    said.push((
                        name.clone(),
                        format!("{name}: {block} is tried again: no other path is well"),
                    ));
                }
            }
        }
        said.into_iter().try_for_each(|(name, line)| self.say(&name, "path", &line))
    }

    /// Writes what is known, for `kist disk paths`. It is of no use to this process, and a failure harms
    /// nobody.
    fn write(&self) {
        let kept: Kept = self.maps.iter().map(|(name, map)| (name.clone(), self.kept(name, map))).collect();
        let Ok(bytes) = serde_json::to_vec(&kept) else { return };
        if fs::read(STATE_FILE).is_ok_and(|before| before == bytes) {
            return;
        }
        let temporary = format!("{STATE_FILE}.new");
        let _ = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, STATE_FILE));
    }

    fn kept(&self, name: &str, map: &KeptMap) -> Vec<KeptPath> {
        let one = |(block, watch): (&String, &topology::paths::PathWatch)| KeptPath {
            block: block.clone(),
            state: watch.state.word().to_owned(),
            since: self.since.get(&(name.to_owned(), block.clone())).cloned().unwrap_or_default(),
            why: watch.why.clone(),
        };
        map.paths.paths().iter().map(one).collect()
    }
}

fn look() -> (Machine, Maps) {
    let machine = probe::live(false).machine;
    let maps = multipath::maps(&machine);
    (machine, maps)
}

fn name_of(step: &Step) -> &str {
    match step {
        Step::Make { name, .. }
        | Step::Reload { name, .. }
        | Step::Resume { name }
        | Step::Remove { name } => name,
        Step::Leave { disk, .. } => disk,
        Step::LeaveOut { map, .. } => map,
    }
}

/// What a path showed: the kernel leaves one by itself after an error of an operation, whatever it answers to
/// the simplest of all commands.
fn seen(answer: Answer, is_left: bool, state: Option<PathState>) -> Answer {
    match answer {
        Answer::Ready(_) if is_left && state.is_some_and(PathState::is_used) => {
            Answer::Failed("an operation on it failed, and the kernel has left it".to_owned())
        }
        answer => answer,
    }
}

fn line(map: &str, change: &Change, not_told: Option<String>) -> String {
    let Change { path, state, why } = change;
    let does = match state {
        PathState::Well => "is used again",
        PathState::Slow => "is slow and left",
        PathState::Failed => "has failed and is left",
    };
    let told = not_told.map(|error| format!("; the kernel was not told: {error}")).unwrap_or_default();
    format!("{map}: {path} {does}: {why}{told}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_started_it_is_told_that_the_maps_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("kist-disk-paths-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&by_name).unwrap(), format!("@{name}").into()),
        ];
        for (socket, address) in sockets {
            tell_ready(&address).unwrap();
            let mut bytes = [0; 16];
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"READY=1");
        }
    }

    #[test]
    fn a_path_that_the_kernel_left_has_failed_until_it_is_known_as_such() {
        let ready = || Answer::Ready(Duration::from_millis(1));
        assert!(matches!(seen(ready(), true, Some(PathState::Well)), Answer::Failed(_)));
        // From then on its answers count.
        assert_eq!(seen(ready(), true, Some(PathState::Failed)), ready());
        assert_eq!(seen(ready(), false, Some(PathState::Well)), ready());
    }
}
