//! One step after the other.

use std::time::{Duration, Instant};

use base::{ByteCount, TapePosition, Vid};
use library::scsi::{DriveIdentity, ScsiDrive, Transport};
use library::{DeviceError, DriveName, Library, LibraryError, Sense, TapeDrive, TapeError};

use crate::report::{AcceptanceReport, Figure, Step, Unit, Verdict};
use crate::steps;

/// A second way to the drive, as another host would have; why there is none.
pub type SecondPath<'a> = dyn Fn(&DriveIdentity) -> Result<Box<dyn Transport>, String> + 'a;

/// What is tested. Nobody else uses any of it meanwhile.
pub struct Subject<'a> {
    /// The library.
    pub library: &'a dyn Library,
    /// The drive.
    pub drive: DriveName,
    /// The driver of that drive, once the library has reached it.
    pub scsi: &'a dyn Fn() -> Option<ScsiDrive>,
    /// A second way to it.
    pub second: &'a SecondPath<'a>,
}

/// What is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The tape. Everything on it is destroyed.
    pub vid: Vid,
    /// Also if there is something on it.
    pub overwrite: bool,
    /// What is written for the rates, all block sizes together.
    pub bytes: ByteCount,
    /// Whether the data partition is written to its end.
    pub to_end: bool,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The step.
    pub step: &'static str,
    /// Bytes that were moved in it.
    pub bytes: u64,
    /// Bytes that it will move, if that is known.
    pub of: Option<u64>,
}

/// Why a step did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The drive did it, but wrongly.
    #[error("{0}")]
    Wrong(String),
    /// It need not be able to.
    #[error("{0}")]
    NotOffered(String),
    /// It was not asked for.
    #[error("{0}")]
    NotAsked(String),
}

impl Trouble {
    fn sense(&self) -> Option<Sense> {
        match self {
            Trouble::Tape(error) => sense_of(error),
            Trouble::Library(
                LibraryError::LoadFailed { source, .. }
                | LibraryError::UnloadFailed { source, .. }
                | LibraryError::UnmountFlush { source, .. },
            ) => sense_of(source),
            _ => None,
        }
    }
}

/// What the drive said.
fn sense_of(error: &TapeError) -> Option<Sense> {
    match error {
        TapeError::Medium { source, .. }
        | TapeError::DriveFailed { source, .. }
        | TapeError::Path { source, .. }
        | TapeError::Host { source, .. } => match source {
            DeviceError::Sense(sense) => Some(*sense),
            _ => None,
        },
        TapeError::CleaningNeeded { sense, .. }
        | TapeError::NotReady { sense, .. }
        | TapeError::Interrupted { sense, .. } => Some(*sense),
        _ => None,
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Trouble>;

/// Blocks of one size that were written one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub begin: TapePosition,
    pub blocks: u64,
    pub size: usize,
}

/// What was measured in a step.
#[derive(Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: Unit) {
        self.0.push(Figure { name: name.into(), value, unit });
    }

    pub fn add_sense(&mut self, name: impl Into<String>, sense: Sense) {
        self.0.push(Figure::of_sense(name, sense));
    }
}

/// A test that runs.
pub(crate) struct Run<'a> {
    pub subject: &'a Subject<'a>,
    pub plan: &'a Plan,
    pub tape: Box<dyn TapeDrive>,
    /// What was written for the rates, in the data partition.
    pub regions: Vec<Region>,
    /// What was found on the tape.
    pub belonging: Option<String>,
    told: &'a dyn Fn(Progress),
    step: &'static str,
}

impl Run<'_> {
    pub fn scsi(&self) -> Outcome<ScsiDrive> {
        (self.subject.scsi)().ok_or_else(|| Trouble::Wrong("the drive was not reached".to_owned()))
    }

    pub fn tell(&self, bytes: u64, of: Option<u64>) {
        (self.told)(Progress { step: self.step, bytes, of });
    }
}

/// A step's work.
type Work = fn(&mut Run<'_>, &mut Figures) -> Outcome;

/// What needs no tape that was formatted. The first that fails ends the test: nothing more can be done, or
/// may.
const FIRST: [(&str, Work); 3] =
    [("load", steps::load), ("what is on the tape", steps::belongings), ("format", steps::format)];

/// The others, each for itself.
const OTHERS: [(&str, Work); 14] = [
    ("positions", steps::positions),
    ("read back", steps::read_back),
    ("locate", steps::locate),
    ("rates by block size", steps::rates),
    ("flush", steps::flush),
    ("block protection", steps::protection),
    ("ends of wraps", steps::wrap_ends),
    ("locate times", steps::locate_times),
    ("recommended access order", steps::access_order),
    ("cartridge memory", steps::memory),
    ("reservations", steps::reservations),
    ("programmable early warning", steps::early_warning),
    ("load again", steps::load_again),
    ("to the end", steps::to_end),
];

/// The last: the tape is blank afterwards, and in its slot.
const LAST: [(&str, Work); 2] = [("format again", steps::format), ("unload", steps::unload)];

/// Tests. Whatever fails is in the report, also that the drive cannot be had: what others before it have
/// shown in hours is not lost for it. The tape is in its slot afterwards, if drive and robot let it go.
pub fn run(subject: &Subject<'_>, plan: &Plan, told: &dyn Fn(Progress)) -> AcceptanceReport {
    let tape = match subject.library.take_drive(&subject.drive) {
        Ok(tape) => tape,
        Err(error) => return not_begun(&error.into()),
    };
    let mut run = Run { subject, plan, tape, regions: Vec::new(), belonging: None, told, step: "" };
    let (mut steps, mut drive) = (Vec::new(), None);
    let mut stopped: Option<&'static str> = None;
    let total = all().count();
    for (index, (name, work)) in all().enumerate() {
        if let Some(by) = stopped {
            steps.push(not_run(name, by));
            continue;
        }
        let step = one(&mut run, name, *work);
        if index == 0 {
            // While the cartridge is in it.
            drive = (subject.scsi)().map(|scsi| steps::facts(&scsi));
        }
        let failed = matches!(step.verdict, Verdict::Failed { .. });
        steps.push(step);
        // What failed may have closed the cartridge for writes: it is loaded anew for the next step.
        if failed && index + 1 < total && (index < FIRST.len() || !reloaded(&mut run)) {
            stopped = Some(name);
        }
    }
    if stopped.is_some() {
        // As well as can be: what failed is in the report.
        let _ = subject.library.unmount(&subject.drive);
    }
    AcceptanceReport { drive, belonging: run.belonging, steps }
}

/// All steps, in their order.
fn all() -> impl Iterator<Item = &'static (&'static str, Work)> {
    FIRST.iter().chain(&OTHERS).chain(&LAST)
}

/// The report of a drive that could not be had: the first step has failed, and no other was tried.
fn not_begun(trouble: &Trouble) -> AcceptanceReport {
    let mut steps: Vec<Step> = all().map(|(name, _)| not_run(name, FIRST[0].0)).collect();
    if let Some(first) = steps.first_mut() {
        first.verdict = failed(trouble);
    }
    AcceptanceReport { steps, ..AcceptanceReport::default() }
}

fn not_run(name: &'static str, for_step: &str) -> Step {
    let why = format!("'{for_step}' failed");
    Step { name, verdict: Verdict::NotRun { why }, figures: Vec::new(), took: Duration::ZERO }
}

fn failed(trouble: &Trouble) -> Verdict {
    Verdict::Failed { why: trouble.to_string(), sense: trouble.sense() }
}

fn one(run: &mut Run<'_>, name: &'static str, work: Work) -> Step {
    run.step = name;
    run.tell(0, None);
    let mut figures = Figures::default();
    let begun = Instant::now();
    let ended = work(run, &mut figures);
    let took = begun.elapsed();
    let verdict = match ended {
        Ok(()) => Verdict::Passed,
        Err(Trouble::NotOffered(why)) => Verdict::NotOffered { why },
        Err(Trouble::NotAsked(why)) => Verdict::NotRun { why },
        Err(trouble) => failed(&trouble),
    };
    Step { name, verdict, figures: figures.0, took }
}

/// Whether the tape is in the drive again.
fn reloaded(run: &mut Run<'_>) -> bool {
    let Subject { library, drive, .. } = run.subject;
    // An unmount whose flush failed has unmounted.
    let _ = library.unmount(drive);
    library.mount(run.plan.vid, drive).is_ok()
}
