//! The server, its record, and the run over it.

use base::{ByteCount, Timestamp, Vid};
use mechanics::{DriveTiming, Geometry, RobotTiming};
use report::outcome::Outcome;
use scenario::model::{ClassModel, TapePoolModel, TapeWork};
use scheduler::Policy;
use serde::Serialize;
use twin::moment::Moment;
use twin::world::MountKind;

use super::figures::{Figures, MountLine, RequestLine, Row};
use super::record::{Left, Record};
use super::{build, compare, hurry};

/// The server whose record it is, as its configuration says; changed, where one asks what would have been.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// Its libraries, in the order of the configuration.
    pub libraries: Vec<ServerLibrary>,
    /// Its tape pools, in that order; index + 1 is the id in `policy`.
    pub tape_pools: Vec<TapePoolModel>,
    /// Its classes, in that order; index + 1 is the id in `policy`. Their sizes and residency do not matter.
    pub classes: Vec<ClassModel>,
    /// What its scheduler is given.
    pub policy: Policy,
    /// How its sessions write and read.
    pub work: TapeWork,
}

/// Whose time the machines of a library take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machines {
    /// The record's and the twin's take the same.
    Timed,
    /// The record's took none. The twin's are so fast that they hardly take any: their times say nothing.
    Untimed,
    /// The record's took none; the twin's are those that somebody asks about.
    Supposed,
}

/// A library of the server.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerLibrary {
    /// Its name.
    pub name: String,
    /// Drives.
    pub drives: u32,
    /// What they take for each thing, by the server's clock.
    pub timing: DriveTiming,
    /// Its robots, by the server's clock.
    pub robots: RobotTiming,
    /// Where bytes stand on its tapes.
    pub geometry: Geometry,
    /// Whose time that is.
    pub machines: Machines,
}

impl Server {
    fn libraries_that_are(&self, machines: Machines) -> Vec<String> {
        let of = self.libraries.iter().filter(|library| library.machines == machines);
        of.map(|library| library.name.clone()).collect()
    }
}

/// A mount that was written down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedMount {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: Vid,
    /// What it was ordered for; `None`: for neither reading nor writing.
    pub kind: Option<MountKind>,
    /// When it was ordered.
    pub ordered: Timestamp,
    /// When sessions could begin.
    pub ready: Option<Timestamp>,
    /// When its way home began.
    pub unmounting: Option<Timestamp>,
    /// When the drive was empty again.
    pub unmounted: Option<Timestamp>,
    /// Whether it failed.
    pub is_failed: bool,
    /// The tape's pool; `None` while it had none.
    pub tape_pool: Option<String>,
    /// Bytes that waited for it when it was ordered.
    pub queued: ByteCount,
    /// Since when the oldest of them waited.
    pub oldest: Option<Timestamp>,
    /// Whether somebody must have asked for it: see [`find_forced()`](crate::find_forced).
    pub is_forced: bool,
}

/// Why a record cannot be replayed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Without it nobody knows which tapes there were.
    #[error(
        "the access log says nothing of the server's tapes: it begins with such lines; look further back"
    )]
    NoState,
    /// Nothing was put and nothing wanted from tape.
    #[error("nothing was put and nothing was wanted from tape in this time: choose another --since")]
    Nothing,
    /// The state names a library that the configuration does not have.
    #[error("the record knows library '{0}' and the configuration does not: use the one of that time")]
    NoLibrary(String),
}

/// What was, and what the twin says.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replay {
    /// When the record's first put or request was that was not over when it began.
    #[serde(skip)]
    pub begin: Timestamp,
    /// What was recorded.
    pub recorded: Figures,
    /// What the twin foretells.
    pub predicted: Figures,
    /// One beside the other.
    pub rows: Vec<Row>,
    /// Each request.
    pub requests: Vec<RequestLine>,
    /// Mounts as they were, by the time of their order.
    pub recorded_mounts: Vec<MountLine>,
    /// Mounts as the twin has them.
    pub predicted_mounts: Vec<MountLine>,
    /// How much of the order of mounts is the same: the longest common subsequence of tapes, as a part of the
    /// longer one of both.
    pub same_order: f64,
    /// Libraries whose machines took no time, in the record and here: no times are compared.
    pub untimed: Vec<String>,
    /// Libraries whose machines took no time in the record and do here: times are shown and not compared.
    pub supposed: Vec<String>,
    /// What of the record was missing or could not be taken in.
    pub left: Left,
    /// The twin's run.
    pub outcome: Outcome,
}

/// Runs a record again.
///
/// # Errors
/// [`ReplayError`]: the record does not tell enough.
pub fn replay(server: &Server, record: &Record, mounts: &[RecordedMount]) -> Result<Replay, ReplayError> {
    let built = build::build(server, record)?;
    let hurries = hurry::times(server, record, mounts);
    let now: Vec<Moment> =
        hurries.iter().filter(|at| **at >= built.begin).map(|at| build::moment(built.begin, *at)).collect();
    let (outcome, trace) = twin::world::run_recorded(
        &built.model,
        built.holdings(),
        &built.tape_states,
        built.evictions(),
        &now,
    );
    let mut replay = compare::compare(record, mounts, &built, outcome, &trace, now.len() as u64);
    (replay.untimed, replay.supposed) =
        (server.libraries_that_are(Machines::Untimed), server.libraries_that_are(Machines::Supposed));
    if !replay.untimed.is_empty() {
        replay.rows.retain(|row| row.unit != "s");
    }
    if !replay.supposed.is_empty() {
        replay.rows.iter_mut().filter(|row| row.unit == "s").for_each(|row| row.deviation = None);
    }
    Ok(replay)
}
