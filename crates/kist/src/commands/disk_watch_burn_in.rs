//! Burn-ins of disks that are to take the place of lost ones, beside the looks of `kist disk watch`.
//!
//! What came of one stands in its record, in the directory that is to become the drive. One that was ended
//! with this process has left nothing, neither files nor a record: the next look begins it anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use config::Size;
use disk_load::{Far, Stage};
use drive::{BurnInDemand, BurnInRecord, BurnInState, BurnInVerdict, QUICK_BURN_IN};
use terminal::{Failure, Outcome, text};

use super::burn_in::{self, Wanted};

/// How often it is looked whether one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many looks in a row that do not ask for a disk end its burn-in: an enclosure that does not answer once
/// is no reason to lose the hours that it took.
const UNASKED_LOOKS: u32 = 10;
/// Why a disk that has passed does not pass.
const TOO_LITTLE: &str = "less of it was looked at than `replace_burn_in` wants";

/// Burns a disk in at a directory; an error is what it says of a disk that did not pass.
pub type Burner = dyn Fn(&Path, BurnInDemand, &AtomicBool, &dyn Fn(Far)) -> Outcome + Send + Sync;

/// A disk that is to take the place of a lost one.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer<'a> {
    /// Its name in the world.
    pub disk: &'a str,
    /// Serial number and slot, for people.
    pub words: &'a str,
    /// Where it is mounted.
    pub directory: &'a Path,
}

/// Why a disk is not used yet, or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotBurntIn {
    /// For programs: `burn-in` while it is under way, `burn-in-bad`, `burn-in-failed`.
    pub word: &'static str,
    /// For people.
    pub text: String,
}

impl NotBurntIn {
    fn under_way(words: &str, far: &str) -> NotBurntIn {
        NotBurntIn { word: "burn-in", text: format!("{words} is burnt in before it is used: {far}") }
    }

    /// Its burn-in said that it is bad.
    fn bad(words: &str, record: &BurnInRecord) -> NotBurntIn {
        let why = match record.verdict {
            BurnInVerdict::Faulty => format!("faulty, {} failed", text::plural(record.faults, "operation")),
            _ => format!("slow in {}", text::plural(u64::from(record.slow_places), "place")),
        };
        let text = format!("{words}: its burn-in says {why}: put another blank disk there");
        NotBurntIn { word: "burn-in-bad", text }
    }

    fn failed(words: &str, why: &str) -> NotBurntIn {
        NotBurntIn { word: "burn-in-failed", text: format!("{words} cannot be burnt in: {why}") }
    }
}

/// One under way.
struct Run {
    thread: JoinHandle<Outcome>,
    stop: Arc<AtomicBool>,
    far: Arc<Mutex<Option<Far>>>,
    /// Looks in a row that have not asked for it, the one that goes on among them.
    unasked: u32,
}

/// All of them, by the names of their disks.
pub struct BurnIns {
    burner: Arc<Burner>,
    runs: BTreeMap<String, Run>,
    /// What ended without having passed. Forgotten when nobody asks for the disk any more.
    failed: BTreeMap<String, (String, u32)>,
}

impl Default for BurnIns {
    fn default() -> BurnIns {
        BurnIns::by(Arc::new(burn))
    }
}

impl BurnIns {
    /// Carried out by this one.
    fn by(burner: Arc<Burner>) -> BurnIns {
        BurnIns { burner, runs: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// A look begins.
    pub fn begin_look(&mut self) {
        self.runs.values_mut().for_each(|run| run.unasked += 1);
        self.failed.values_mut().for_each(|(_, unasked)| *unasked += 1);
    }

    /// A look has ended: what was not asked for in some looks is stopped.
    pub fn end_look(&mut self) {
        self.failed.retain(|_, (_, unasked)| *unasked < UNASKED_LOOKS);
        for run in self.runs.values().filter(|run| run.unasked >= UNASKED_LOOKS) {
            run.stop.store(true, Ordering::Relaxed);
        }
        self.runs.retain(|_, run| run.unasked < UNASKED_LOOKS || !run.thread.is_finished());
    }

    /// Waits until all have ended; whether there were any.
    pub fn wait(&self) -> bool {
        while self.runs.values().any(|run| !run.thread.is_finished()) {
            thread::sleep(LOOK_EVERY);
        }
        !self.runs.is_empty()
    }

    /// Whether a disk has passed what is demanded of it; begins its burn-in if there is none.
    ///
    /// # Errors
    /// [`NotBurntIn`] while it is not to be used.
    pub fn passed(&mut self, newcomer: Newcomer<'_>, demand: BurnInDemand) -> Result<(), NotBurntIn> {
        let words = newcomer.words;
        if let Some(far) = self.under_way(newcomer.disk) {
            return Err(NotBurntIn::under_way(words, &far));
        }
        let record = BurnInRecord::read(newcomer.directory);
        let record = record.map_err(|error| NotBurntIn::failed(words, &error.to_string()))?;
        let failed = self.failed.get_mut(newcomer.disk);
        let failed = failed.map(|(why, unasked)| {
            *unasked = 0;
            why.as_str()
        });
        match (demand.judge(record.as_ref()), failed) {
            // Somebody may have burnt it in meanwhile.
            (BurnInState::Enough, _) => Ok(()),
            (BurnInState::Failed(bad), _) => Err(NotBurntIn::bad(words, &bad)),
            (BurnInState::Needed, Some(why)) => Err(NotBurntIn::failed(words, why)),
            (BurnInState::Needed, None) => {
                self.begin(newcomer, demand);
                Err(NotBurntIn::under_way(words, "it begins"))
            }
        }
    }

    /// How far the burn-in of a disk is, if one is under way. One that has ended is taken note of.
    fn under_way(&mut self, disk: &str) -> Option<String> {
        let run = self.runs.get_mut(disk)?;
        run.unasked = 0;
        if !run.thread.is_finished() {
            return Some(words_of(*run.far.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let run = self.runs.remove(disk)?;
        let ended = run.thread.join();
        // One that was stopped is begun anew.
        if run.stop.load(Ordering::Relaxed) {
            return None;
        }
        let ended = ended.unwrap_or_else(|_| Err(Failure::internal("the burn-in has panicked")));
        // If it passed and yet is not enough, another one would be none either.
        let why = ended.err().map_or_else(|| TOO_LITTLE.to_owned(), |failure| failure.message);
        self.failed.insert(disk.to_owned(), (why, 0));
        None
    }

    /// The whole of what a failed burn-in said.
    pub fn said(&self, disk: &str) -> Option<&str> {
        self.failed.get(disk).map(|(said, _)| said.as_str())
    }

    fn begin(&mut self, newcomer: Newcomer<'_>, demand: BurnInDemand) {
        let (stop, far) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (burner, directory) = (Arc::clone(&self.burner), newcomer.directory.to_owned());
        let (is_stopped, tells) = (Arc::clone(&stop), Arc::clone(&far));
        let thread = thread::spawn(move || {
            let tell = |far| *tells.lock().unwrap_or_else(PoisonError::into_inner) = Some(far);
            burner(&directory, demand, &is_stopped, &tell)
        });
        self.runs.insert(newcomer.disk.to_owned(), Run { thread, stop, far, unasked: 0 });
    }
}

fn words_of(far: Option<Far>) -> String {
    let Some(far) = far else { return "it begins".to_owned() };
    let doing = match far.stage {
        Stage::Writes => "writes",
        Stage::Reads => "reads and compares",
        Stage::Random => "reads at random",
        Stage::LooksAgain => "looks again at what seems slow",
    };
    format!("{doing}, {} of {}", text::size(far.done.0), text::size(far.of.0))
}

/// Burns the disk under a directory in, whose file system is mounted there.
fn burn(directory: &Path, demand: BurnInDemand, stop: &AtomicBool, tell: &dyn Fn(Far)) -> Outcome {
    // Else the file system of the directory above would be filled.
    disk_load::check_mounted(directory).map_err(bench::disks::failed)?;
    let room = disk_load::room(directory).map_err(bench::disks::failed)?;
    let is_part = demand == BurnInDemand::Quick && room > QUICK_BURN_IN;
    let wanted = Wanted {
        path: directory,
        size: is_part.then_some(Size(QUICK_BURN_IN)),
        destroy: None,
        is_shared: false,
        unless_proof: Some("replace_burn_in = \"off\" in kist.toml takes it all the same"),
        id: burn_in::new_id()?,
    };
    match burn_in::burn_in_beside(&wanted, stop, tell)? {
        Some(report) => report.judge(),
        None => Err(Failure::internal("it was stopped")),
    }
}

#[cfg(test)]
#[path = "disk_watch_burn_in_tests.rs"]
mod tests;
