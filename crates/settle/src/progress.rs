//! How far the settling of a restored catalogue is, shared by the threads that take part in it.
//!
//! Tapes that may be written come first: until each of them was looked at nothing is written to any. The
//! others are looked at when drives have nothing better to do, in the order of what they decide.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::PoisonError;
use threads::{Condvar, Mutex, MutexGuard};

use backup::{TapeLook, TapeQueue};
use base::{ContainerId, Duration, FileId, Timestamp, Vid};
use catalogue::AdoptContainer;

use crate::found::VolumeFound;
use crate::pool::Missing;
use ground::{Settled, time_left};
use ground::{SettlingInfo, SettlingStage};

/// So many tapes that a drive cannot look at one after the other are its own fault.
const FAILURES_MAX: usize = 2;
/// Tapes of one library that the scheduler is told of at once: more than it has drives, and few enough that
/// the order stays what it was made to be.
const ASKED_FOR_MAX: usize = 32;

/// What is to be found out about a tape that is not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// Whether it still is the volume that the catalogue knows.
    Label,
    /// What it holds of files that nothing else has.
    Content,
}

/// The settling of a restore; at rest if there is none.
#[derive(Default)]
pub struct Settling {
    /// Tapes that may be written.
    pub(crate) written: TapeQueue,
    /// Held while what a tape holds is taken over: parts of files that were found before those that stand in
    /// front of them, which are taken over first.
    adopting: Mutex<EarlyParts>,
    state: Mutex<State>,
    changed: Condvar,
}

/// See [`Settling::adopting`].
pub(crate) type EarlyParts = BTreeMap<ContainerId, AdoptContainer>;

#[derive(Default)]
struct State {
    /// `None`: nothing is settled in this run of the server.
    stage: Option<SettlingStage>,
    began: Timestamp,
    /// When the present stage began, and how many tapes were done then.
    stage_began: (Timestamp, u64),
    /// When a tape or files were done last, or the stage began.
    progressed: Timestamp,
    stopped: bool,
    /// What tapes that may be written hold.
    volumes: Vec<VolumeFound>,
    others: Others,
    tapes: u64,
    tapes_done: u64,
    /// Of the tapes, those that may be written.
    written_tapes: u64,
    files: u64,
    files_done: u64,
    /// Tapes that could not be looked at and decide on files.
    unseen: BTreeSet<Vid>,
    /// Disabled tapes that could not be searched for files that nothing else has.
    unsearched: BTreeSet<Vid>,
    /// Tapes with a session that was open at the point, and that cannot be mounted.
    absent: BTreeSet<Vid>,
    /// Of those, such that no library had when it was asked.
    away: BTreeSet<Vid>,
    /// Files that neither the pool nor a tape that was looked at has, as far as they are remembered.
    missing_files: BTreeSet<FileId>,
    /// Whether there are more of them than are remembered.
    has_more_missing: bool,
    /// How many there are, as it was found at the end.
    missing: u64,
    /// Tapes of which all is known that they hold and files need that have no other place.
    known: BTreeSet<Vid>,
    /// Whether places on tape turned out to be none: files may be lost that nothing else is missing of.
    has_lost_places: bool,
    /// Why it cannot go on now.
    failing: Option<String>,
}

/// Tapes that are not written.
#[derive(Default)]
struct Others {
    waiting: VecDeque<(u16, Vid)>,
    /// Those that the scheduler was told of, with their libraries.
    asked_for: BTreeMap<Vid, u16>,
    question: Option<Question>,
}

impl Others {
    /// Takes the next tapes that may be asked for now, the first ones first.
    fn take_next(&mut self) -> Vec<Vid> {
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        self.asked_for.values().for_each(|library| *counts.entry(*library).or_default() += 1);
        let mut next = Vec::new();
        for (library, vid) in std::mem::take(&mut self.waiting) {
            let count = counts.entry(library).or_default();
            if *count < ASKED_FOR_MAX {
                *count += 1;
                self.asked_for.insert(vid, library);
                next.push(vid);
            } else {
                self.waiting.push_back((library, vid));
            }
        }
        next
    }
}

impl Settled for Settling {
    fn holds_pool(&self) -> bool {
        Settling::holds_pool(self)
    }

    fn waits_for_tapes(&self) -> bool {
        Settling::waits_for_tapes(self)
    }

    fn doubted(&self, files: &[FileId]) -> Vec<FileId> {
        Settling::doubted(self, files)
    }
}

impl Settling {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn adopting(&self) -> MutexGuard<'_, EarlyParts> {
        self.adopting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the tapes that may be written, each with its library, and the drives that look at them.
    /// `files`: those of before the restore.
    pub(crate) fn begin(&self, now: Timestamp, files: u64, written: &[(u16, Vid)], drives: usize) {
        let mut state = self.state();
        (state.stage, state.began, state.files) = (Some(SettlingStage::WrittenTapes), now, files);
        (state.stage_began, state.progressed) = ((now, 0), now);
        state.written_tapes = written.len() as u64;
        state.tapes = state.written_tapes;
        self.written.begin(written.iter().copied(), drives, FAILURES_MAX);
    }

    /// Wakes whoever waits: the server stops.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.written.stop();
        self.changed.notify_all();
    }

    pub(crate) fn stage(&self) -> Option<SettlingStage> {
        self.state().stage
    }

    /// Whether what stands in the pool is not known yet: nothing is removed from it, nor mended.
    pub(crate) fn holds_pool(&self) -> bool {
        self.stage().is_some_and(|stage| stage <= SettlingStage::Pool)
    }

    pub(crate) fn enter(&self, now: Timestamp, stage: SettlingStage) {
        let mut state = self.state();
        state.stage = Some(stage);
        state.failing = None;
        (state.stage_began, state.progressed) = ((now, state.tapes_done), now);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until tapes may be written. `false`: the server stops.
    pub fn wait_for_tapes(&self) -> bool {
        self.wait_until_past(SettlingStage::WrittenTapes)
    }

    /// Waits until it is known what the pool holds. `false`: the server stops.
    pub fn wait_for_pool(&self) -> bool {
        self.wait_until_past(SettlingStage::Pool)
    }

    fn wait_until_past(&self, last: SettlingStage) -> bool {
        let mut state = self.state();
        while state.stage.is_some_and(|stage| stage <= last) && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stopped
    }

    /// Tapes that may be written were looked at, and what they hold was taken over.
    pub(crate) fn written_are_known(&self, now: Timestamp) {
        if self.stage() == Some(SettlingStage::WrittenTapes) {
            self.enter(now, SettlingStage::Pool);
        }
    }

    /// Waits a while, or until the server stops.
    pub(crate) fn pause(&self, time: Duration) {
        let state = self.state();
        if !state.stopped {
            drop(self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// It cannot go on now.
    pub(crate) fn failing(&self, why: String) {
        self.state().failing = Some(why);
    }

    /// A place on tape turned out to be none: what tapes hold beside the known places may be needed now.
    pub(crate) fn place_lost(&self) {
        let mut state = self.state();
        state.has_lost_places = true;
        state.known.clear();
    }

    pub(crate) fn has_lost_places(&self) -> bool {
        self.state().has_lost_places
    }

    /// Also this tape is to be looked at, whole, before anything else is done with it.
    pub(crate) fn ask_also(&self, library: u16, vid: Vid) {
        let mut state = self.state();
        state.known.remove(&vid);
        state.others.question = Some(Question::Label);
        state.others.waiting.push_front((library, vid));
    }

    /// A tape that was given up can be looked at after all, if the labels of others still are.
    pub(crate) fn look_again(&self, library: u16, vid: Vid) -> bool {
        let mut state = self.state();
        if state.others.question != Some(Question::Label) || state.stage > Some(SettlingStage::OtherTapes) {
            return false;
        }
        state.unseen.remove(&vid);
        state.tapes += 1;
        state.others.waiting.push_front((library, vid));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// What drives look at before any tape is written.
    pub fn looks(&self, steady: Duration) -> Vec<TapeLook> {
        self.written.silent(steady)
    }

    /// Whether a drive looks at tapes before it does anything else.
    pub fn takes_part(&self, drive: &str) -> bool {
        self.written.takes_part(drive)
    }

    /// The tape that such a drive looks at now.
    pub fn looked_at_by(&self, drive: &str) -> Option<Vid> {
        self.written.looked_at_by(drive)
    }

    /// How many tapes were looked at of those that drives look at before they do anything else; `None` if
    /// they do not.
    pub fn drives_look(&self) -> Option<(u64, u64)> {
        let is_looked_at = self.written.is_looked_at();
        let state = self.state();
        (is_looked_at && state.stage == Some(SettlingStage::WrittenTapes))
            .then_some((state.tapes_done, state.written_tapes))
    }

    /// For displays.
    pub fn info(&self, now: Timestamp, steady: Duration) -> Option<SettlingInfo> {
        let looking = self.looks(steady);
        let state = self.state();
        let stage = state.stage?;
        let (since, tapes_before) = state.stage_began;
        let (done, of) = match stage {
            SettlingStage::Pool => (state.files_done, state.files),
            stage if stage.is_over() => (0, 0),
            SettlingStage::WrittenTapes => (state.tapes_done, state.written_tapes),
            _ => (state.tapes_done - tapes_before, state.tapes.saturating_sub(tapes_before)),
        };
        Some(SettlingInfo {
            stage,
            began: state.began,
            tapes: state.tapes,
            tapes_done: state.tapes_done,
            files: state.files,
            files_done: state.files_done,
            left: time_left(state.progressed.since(since), done, of).and_then(|left| {
                // A tape that takes longer than those before says nothing of the rest.
                left.checked_sub(now.since(state.progressed)).filter(|left| !left.is_zero())
            }),
            looking,
            unseen: state.unseen.iter().copied().collect(),
            unsearched: state.unsearched.iter().copied().collect(),
            absent: state.absent.iter().copied().collect(),
            missing: state.missing,
            failing: state.failing.clone(),
        })
    }

    /// A tape that may be written was looked at.
    pub(crate) fn looked_at_written(&self, now: Timestamp, volume: Option<VolumeFound>) {
        let mut state = self.state();
        state.progressed = now;
        state.tapes_done += 1;
        state.volumes.extend(volume);
    }

    /// What tapes that may be written hold and is to be taken over.
    pub(crate) fn volumes(&self) -> Vec<VolumeFound> {
        std::mem::take(&mut self.state().volumes)
    }

    /// A tape could not be looked at, and decides on files.
    pub(crate) fn unseen(&self, vid: Vid) {
        self.state().unseen.insert(vid);
    }

    /// A disabled tape could not be searched.
    pub(crate) fn unsearched(&self, vid: Vid) {
        self.state().unsearched.insert(vid);
    }

    pub(crate) fn all_unsearched(&self) -> BTreeSet<Vid> {
        self.state().unsearched.clone()
    }

    /// Files that nothing has but, perhaps, tapes that were not looked at. `is_over`: no more tapes are
    /// looked at for now.
    pub(crate) fn missing(&self, files: &Missing, is_over: bool) {
        let mut state = self.state();
        state.missing_files = files.files().iter().copied().collect();
        state.has_more_missing = files.has_more();
        state.missing = if is_over { files.files().len() as u64 } else { 0 };
    }

    /// Those of the files that are in the pool by the catalogue's word alone: nobody has looked for them
    /// yet, or nobody has found them.
    pub(crate) fn doubted(&self, files: &[FileId]) -> Vec<FileId> {
        let state = self.state();
        let is_doubted = |file: &FileId| match state.stage {
            None | Some(SettlingStage::Settled) => false,
            Some(SettlingStage::WrittenTapes | SettlingStage::Pool) => true,
            Some(_) => state.has_more_missing || state.missing_files.contains(file),
        };
        files.iter().copied().filter(is_doubted).collect()
    }

    /// Tapes that decide on files and are not known.
    pub(crate) fn count_unseen(&self) -> usize {
        let state = self.state();
        state.unseen.union(&state.absent).count()
    }

    /// Whether tapes that could not be looked at may hold what the restored catalogue does not know.
    pub(crate) fn waits_for_tapes(&self) -> bool {
        self.stage().is_some_and(|stage| stage != SettlingStage::Settled) && self.count_unseen() > 0
    }

    /// These tapes with open sessions cannot be mounted. Whether there are any that could be before.
    pub(crate) fn set_absent(&self, absent: BTreeSet<Vid>) -> bool {
        let mut state = self.state();
        let is_more = !absent.is_subset(&state.absent);
        state.absent = absent;
        is_more
    }

    /// No library has the tape.
    pub(crate) fn went_away(&self, vid: Vid) {
        self.state().away.insert(vid);
    }

    /// A library has the tape. Whether none had it when it was last asked.
    pub(crate) fn came_back(&self, vid: Vid) -> bool {
        self.state().away.remove(&vid)
    }

    pub(crate) fn absent(&self) -> BTreeSet<Vid> {
        self.state().absent.clone()
    }

    /// All that a tape holds is known.
    pub(crate) fn content_known(&self, vid: Vid) {
        self.state().known.insert(vid);
    }

    pub(crate) fn contents_known(&self) -> BTreeSet<Vid> {
        self.state().known.clone()
    }

    pub(crate) fn files_looked_at(&self, now: Timestamp, files: u64) {
        let mut state = self.state();
        (state.progressed, state.files_done) = (now, files);
    }

    /// Has further tapes looked at, the first ones first.
    pub(crate) fn ask(&self, question: Question, tapes: impl IntoIterator<Item = (u16, Vid)>) {
        let mut state = self.state();
        state.others.question = Some(question);
        state.others.waiting = tapes.into_iter().collect();
        let before = if question == Question::Label { state.tapes } else { state.tapes_done };
        state.tapes = before + state.others.waiting.len() as u64;
    }

    /// Waits for tapes that the scheduler is to be told of; none: all were answered. `None`: the server
    /// stops.
    pub(crate) fn next_others(&self) -> Option<Vec<Vid>> {
        let mut state = self.state();
        while !state.stopped {
            let next = state.others.take_next();
            if !next.is_empty() {
                return Some(next);
            }
            if state.others.asked_for.is_empty() {
                state.others.question = None;
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Whether something is asked about a tape, so that its next mount looks at it first.
    pub fn asks(&self, vid: Vid) -> bool {
        self.question(vid).is_some()
    }

    /// What is to be found out about a tape that was mounted.
    pub(crate) fn question(&self, vid: Vid) -> Option<Question> {
        let state = self.state();
        let is_asked = state.others.asked_for.contains_key(&vid)
            || state.others.waiting.iter().any(|(_, waiting)| *waiting == vid);
        state.others.question.filter(|_| is_asked)
    }

    /// A tape that is not written was looked at, or could not be.
    pub(crate) fn answered(&self, now: Timestamp, vid: Vid) {
        let mut state = self.state();
        state.progressed = now;
        state.others.asked_for.remove(&vid);
        state.others.waiting.retain(|(_, waiting)| *waiting != vid);
        state.tapes_done += 1;
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vid(n: u16) -> Vid {
        Vid::new(&format!("KT{n:04}")).unwrap()
    }

    /// Story: until the first tapes were done the time left grew with every second, and it counted the tapes
    /// that are looked at later to the present stage.
    #[test]
    fn the_time_left_is_not_told_before_it_is_known_and_never_counts_up_meanwhile() {
        let settling = Settling::default();
        let at = |seconds: u64| Timestamp(0).plus(Duration::from_secs(seconds));
        let left =
            |seconds| settling.info(at(seconds), Duration::ZERO).unwrap().left.map(|left| left.as_secs());
        let written: Vec<(u16, Vid)> = (1..=3).map(|n| (0, vid(n))).collect();
        settling.begin(at(0), 0, &written, 1);
        settling.ask(Question::Label, (10..=14).map(|n| (0, vid(n))));
        assert_eq!([0, 30, 60].map(left), [None; 3]);
        settling.looked_at_written(at(60), None);
        assert_eq!([60, 90, 179].map(left), [Some(120), Some(90), Some(1)]);
        assert_eq!([180, 500].map(left), [None; 2], "it takes longer than the first: nobody can tell");
        settling.looked_at_written(at(200), None);
        assert_eq!([200, 250].map(left), [Some(100), Some(50)]);
        settling.looked_at_written(at(300), None);
        assert_eq!(left(300), None, "nothing is left");
        settling.enter(at(300), SettlingStage::OtherTapes);
        assert_eq!([300, 310].map(left), [None; 2]);
        settling.answered(at(310), vid(10));
        assert_eq!([310, 320].map(left), [Some(40), Some(30)]);
    }
}
