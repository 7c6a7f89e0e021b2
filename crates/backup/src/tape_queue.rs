//! Tapes that all drives look at together, each once, before the drives have their ordinary work.
//!
//! What one drive cannot look at another one tries; a drive that fails with tape after tape leaves the rest
//! to others. So a broken drive sets no tape aside, and a broken tape stops no drive. A drive that gives no
//! sign of life can be given up with its tape: the others do not wait for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::PoisonError;
use threads::{Condvar, Mutex, MutexGuard};

use base::{Duration, Vid, stood_still};

/// A tape that a drive looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeLook {
    /// The tape.
    pub vid: Vid,
    /// The drive.
    pub drive: String,
    /// For how long the drive has given no sign of life.
    pub silent: Duration,
    /// It waits for the library to bring or take away the tape, which has done nothing for another drive
    /// since: the robot may be stuck, and the drive is not to blame.
    pub waits_for_library: bool,
}

/// The tapes, by library, and who looks at them.
#[derive(Default)]
pub struct TapeQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u16, VecDeque<Vid>>,
    /// After so many tapes in a row that it could not look at, a drive leaves.
    failures_max: usize,
    /// In which drives a tape could not be looked at, and why at last.
    failed: BTreeMap<Vid, (BTreeSet<String>, String)>,
    /// By drive, what it looks at now.
    looking: BTreeMap<String, Look>,
    /// Drives that still take part.
    drives: usize,
    /// Of those, the ones that have begun.
    begun: BTreeSet<String>,
    stopped: bool,
    /// When [`TapeQueue::silent`] was last asked.
    asked: Option<Duration>,
}

/// A drive's look at a tape.
struct Look {
    library: u16,
    vid: Vid,
    at: LookAt,
    /// When [`TapeQueue::silent`] first found no sign of life since the last one.
    silent_since: Option<Duration>,
    /// Whether the library has served another drive since this one waits for it.
    library_works: bool,
}

impl Look {
    /// Whether the drive, or the library for it, is at something that may take for ever.
    fn is_waited_for(&self) -> bool {
        matches!(self.at, LookAt::Way | LookAt::Tape)
    }
}

impl State {
    /// Whether a drive may be waiting for a robot that is stuck: the library has done nothing since, and
    /// another drive shows, or is going to show, whether it still does. A drive that is alone is to blame,
    /// since nothing will ever tell.
    fn may_wait_for_library(&self, drive: &str, look: &Look) -> bool {
        let others = self.looking.iter().filter(|(name, _)| *name != drive).map(|(_, look)| look);
        let shows = |other: &Look| other.library == look.library && other.at != LookAt::GivenUp;
        look.at == LookAt::Way && !look.library_works && others.into_iter().any(shows)
    }
}

/// How far a look is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookAt {
    /// The library brings the tape or takes it away: drive or robot may hang.
    Way,
    /// The drive works on the tape, and may hang.
    Tape,
    /// What was found is being recorded: the drive is not waited for.
    Recording,
    /// Nobody waits for it any more.
    GivenUp,
}

/// Tapes that no drive could look at, and why; without a reason no drive of its library has tried.
pub type NotLookedAt = Vec<(Vid, Option<String>)>;

impl TapeQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with tapes, each with its library, in their order. Each of `drives` has to call
    /// [`TapeQueue::leave`], and leaves after `failures_max` tapes in a row that it could not look at.
    pub fn begin(&self, tapes: impl IntoIterator<Item = (u16, Vid)>, drives: usize, failures_max: usize) {
        let mut state = self.state();
        (state.drives, state.failures_max) = (drives, failures_max);
        for (library, vid) in tapes {
            state.waiting.entry(library).or_default().push_back(vid);
        }
    }

    /// Ends it for all drives as soon as each is done with its tape.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Has a drive look at tapes until there is none for it. `look` gives the reason if it could not. Gives
    /// the tape if drive and tape were given up meanwhile: the drive takes part no more, and must not leave.
    pub fn each(
        &self,
        library: u16,
        drive: &str,
        mut look: impl FnMut(Vid) -> Result<(), String>,
    ) -> Option<Vid> {
        self.state().begun.insert(drive.to_owned());
        let (mut failures, failures_max) = (0, self.state().failures_max);
        while failures < failures_max
            && let Some(vid) = self.next(library, drive)
        {
            let result = look(vid);
            failures = if result.is_ok() { 0 } else { failures + 1 };
            if !self.looked(drive, result) {
                return Some(vid);
            }
        }
        self.state().begun.remove(drive);
        None
    }

    /// Whether a drive looks at these tapes, or waits for one.
    pub fn takes_part(&self, drive: &str) -> bool {
        self.state().begun.contains(drive)
    }

    /// Whether any drive does.
    pub fn is_looked_at(&self) -> bool {
        !self.state().begun.is_empty()
    }

    /// What a drive looks at now.
    pub fn looked_at_by(&self, drive: &str) -> Option<Vid> {
        self.state().looking.get(drive).map(|look| look.vid)
    }

    /// The next tape for a drive; waits while another drive may still give one back.
    fn next(&self, library: u16, drive: &str) -> Option<Vid> {
        let mut state = self.state();
        while !state.stopped {
            let State { waiting, failed, looking, .. } = &mut *state;
            let fresh = |vid: &Vid| failed.get(vid).is_none_or(|(drives, _)| !drives.contains(drive));
            let found = waiting.get_mut(&library).and_then(|tapes| {
                let at = tapes.iter().position(fresh)?;
                tapes.remove(at)
            });
            if let Some(vid) = found {
                let look = Look { library, vid, at: LookAt::Way, silent_since: None, library_works: false };
                looking.insert(drive.to_owned(), look);
                return found;
            }
            if !looking.values().any(|look| look.library == library) {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// `false`: the drive was given up with its tape.
    fn looked(&self, drive: &str, result: Result<(), String>) -> bool {
        let mut state = self.state();
        let is_ours = state.looking.get(drive).is_some_and(|look| look.at != LookAt::GivenUp);
        let Some(look) = is_ours.then(|| state.looking.remove(drive)).flatten() else { return false };
        match result {
            Ok(()) => drop(state.failed.remove(&look.vid)),
            Err(why) => {
                let failed = state.failed.entry(look.vid).or_default();
                failed.0.insert(drive.to_owned());
                failed.1 = why;
                state.waiting.entry(look.library).or_default().push_back(look.vid);
            }
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    /// The library has answered what the drive waited for: the tape is there, or taken away, or not to be
    /// had. So the robot works, whatever other drives of its library wait for.
    pub fn served(&self, drive: &str) {
        let mut state = self.state();
        let Some(look) = state.looking.get_mut(drive).filter(|look| look.at == LookAt::Way) else { return };
        (look.at, look.silent_since) = (LookAt::Tape, None);
        let library = look.library;
        let waiting = |look: &&mut Look| look.library == library && look.at == LookAt::Way;
        state.looking.values_mut().filter(waiting).for_each(|look| look.library_works = true);
    }

    /// The drive is done with the tape, which the library is to take away now.
    pub fn leaves(&self, drive: &str) {
        if let Some(look) = self.state().looking.get_mut(drive).filter(|look| look.at == LookAt::Tape) {
            (look.at, look.silent_since, look.library_works) = (LookAt::Way, None, false);
        }
    }

    /// The drive that looks at a tape, if any, gives a sign of life.
    pub fn is_alive(&self, vid: Vid) {
        let mut state = self.state();
        state.looking.values_mut().filter(|look| look.vid == vid).for_each(|look| look.silent_since = None);
    }

    /// The drive is done with its tape, and what it found is to be recorded. `false`: it was given up
    /// meanwhile, and nothing that it found counts.
    pub fn record(&self, drive: &str) -> bool {
        let mut state = self.state();
        let Some(look) = state.looking.get_mut(drive).filter(|look| look.is_waited_for()) else {
            return false;
        };
        look.at = LookAt::Recording;
        true
    }

    /// What drives look at, and for how long each was not heard of, as far as this was asked before. What
    /// passes while nobody asks for long does not count: the whole machine stood still.
    pub fn silent(&self, now: Duration) -> Vec<TapeLook> {
        let mut state = self.state();
        // Who has read the clock before others may come behind them.
        let now = state.asked.map_or(now, |asked| now.max(asked));
        let lost = state.asked.replace(now).and_then(|before| stood_still(before, now)).unwrap_or_default();
        for look in state.looking.values_mut().filter(|look| look.is_waited_for()) {
            look.silent_since = Some(look.silent_since.map_or(now, |since| since + lost));
        }
        let looking = state.looking.iter().filter(|(_, look)| look.is_waited_for());
        let silent = looking.map(|(drive, look)| TapeLook {
            vid: look.vid,
            drive: drive.clone(),
            silent: now.saturating_sub(look.silent_since.unwrap_or(now)),
            waits_for_library: state.may_wait_for_library(drive, look),
        });
        silent.collect()
    }

    /// Gives up a drive and its tape, if it still looks at it and is to blame. The others go on waiting for
    /// it until it is [released](Self::release).
    pub fn give_up(&self, look: &TapeLook) -> bool {
        let mut state = self.state();
        if state.looking.get(&look.drive).is_some_and(|found| state.may_wait_for_library(&look.drive, found))
        {
            return false;
        }
        let is_same = |found: &&mut Look| found.vid == look.vid && found.is_waited_for();
        let Some(found) = state.looking.get_mut(&look.drive).filter(is_same) else { return false };
        found.at = LookAt::GivenUp;
        state.begun.remove(&look.drive);
        true
    }

    /// A drive that was given up takes part no more. As [`TapeQueue::leave`].
    pub fn release(&self, drive: &str) -> Option<NotLookedAt> {
        self.state().looking.remove(drive);
        self.changed.notify_all();
        self.leave()
    }

    /// A drive takes part no more. The last one gets the tapes that none could look at; unless it was
    /// stopped.
    pub fn leave(&self) -> Option<NotLookedAt> {
        let mut state = self.state();
        state.drives = state.drives.saturating_sub(1);
        if state.drives > 0 || state.stopped {
            return None;
        }
        let left = std::mem::take(&mut state.waiting).into_values().flatten();
        let mut failed = std::mem::take(&mut state.failed);
        let mut why = |vid| failed.remove(&vid).map(|(_, why)| why);
        Some(left.map(|vid| (vid, why(vid))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many tapes that a drive cannot look at one after the other are its own fault.
    const FAILURES_MAX: usize = 2;

    fn vid(n: u16) -> Vid {
        Vid::new(&format!("KT{n:04}")).unwrap()
    }

    #[test]
    fn what_one_drive_cannot_read_another_one_tries() {
        let queue = TapeQueue::default();
        queue.begin((1..=6).map(|n| (0, vid(n))).chain([(1, vid(9))]), 2, FAILURES_MAX);
        let mut tried = Vec::new();
        queue.each(0, "broken", |vid| {
            tried.push(vid);
            Err("it does not load".to_owned())
        });
        assert_eq!(tried, [vid(1), vid(2)], "then it leaves the rest to others");
        assert_eq!(queue.leave(), None);
        let mut looked = Vec::new();
        queue.each(0, "good", |tape| {
            looked.push(tape);
            if tape == vid(4) { Err("unreadable".to_owned()) } else { Ok(()) }
        });
        assert_eq!(looked, [3, 4, 5, 6, 1, 2].map(vid));
        assert_eq!(queue.leave(), Some(vec![(vid(4), Some("unreadable".to_owned())), (vid(9), None)]));
    }

    #[test]
    fn a_drive_waits_for_what_another_may_give_back() {
        let queue = TapeQueue::default();
        queue.begin([(0, vid(1))], 2, FAILURES_MAX);
        let held = queue.next(0, "slow").unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut looked = Vec::new();
                queue.each(0, "fast", |vid| {
                    looked.push(vid);
                    Ok(())
                });
                looked
            });
            assert_eq!(held, vid(1));
            assert!(queue.looked("slow", Err("it is broken".to_owned())));
            assert_eq!(other.join().unwrap(), [vid(1)]);
        });
        // A stop ends the wait.
        queue.begin([(0, vid(2))], 1, FAILURES_MAX);
        queue.next(0, "slow").unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| queue.next(0, "fast"));
            queue.stop();
            assert_eq!(other.join().unwrap(), None);
        });
        assert_eq!(queue.leave(), None);
    }

    /// Story: a mount that never came back held up all others.
    #[test]
    fn a_drive_that_hangs_is_given_up_with_its_tape() {
        let seconds = Duration::from_secs;
        let queue = TapeQueue::default();
        queue.begin([(0, vid(1)), (0, vid(2))], 2, FAILURES_MAX);
        assert_eq!(queue.next(0, "hangs"), Some(vid(1)));
        let silent_for = |silent| {
            vec![TapeLook { vid: vid(1), drive: "hangs".to_owned(), silent, waits_for_library: false }]
        };
        assert_eq!(queue.silent(seconds(100)), silent_for(Duration::ZERO));
        assert_eq!(queue.silent(seconds(110)), silent_for(seconds(10)));
        queue.is_alive(vid(1));
        assert_eq!(queue.silent(seconds(120)), silent_for(Duration::ZERO));
        let look = queue.silent(seconds(130)).remove(0);
        // Story: a server that stood still for an hour gave up all its drives.
        assert_eq!(queue.silent(seconds(7_000)), silent_for(seconds(20)));
        // One that comes late with its reading takes no time away.
        assert_eq!(queue.silent(seconds(6_000)), silent_for(seconds(20)));
        assert_eq!(queue.silent(seconds(7_001)), silent_for(seconds(21)));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| queue.each(0, "good", |_| Ok(())));
            assert!(queue.give_up(&look) && !queue.give_up(&look));
            assert!(!queue.record("hangs"), "what it finds now does not count");
            assert!(!queue.looked("hangs", Ok(())));
            assert_eq!(queue.release("hangs"), None);
            assert_eq!(other.join().unwrap(), None);
        });
        assert_eq!(queue.leave(), Some(Vec::new()), "nobody waits for the one that hangs");
        assert!(!queue.looked("hangs", Ok(())));
        // Who is recording what it found does not hang.
        let _ = queue.silent(seconds(7_005));
        queue.begin([(0, vid(3))], 1, FAILURES_MAX);
        queue.next(0, "slow").unwrap();
        let look = queue.silent(seconds(7_006)).remove(0);
        assert!(queue.record("slow"));
        assert!(!queue.give_up(&look) && queue.silent(seconds(7_007)).is_empty());
        assert!(queue.looked("slow", Ok(())));
    }

    /// Story: a robot was stuck for an hour, and each drive that waited for it was given up with its tape.
    #[test]
    fn no_drive_is_to_blame_for_a_robot_that_serves_none() {
        let queue = TapeQueue::default();
        queue.begin((1..=4).map(|n| (0, vid(n))).chain([(1, vid(9))]), 4, FAILURES_MAX);
        let next = |library, drive| queue.next(library, drive).unwrap();
        let look = |drive: &str| {
            let looks = queue.silent(Duration::from_secs(1));
            looks.into_iter().find(|look| look.drive == drive).unwrap()
        };
        assert_eq!([next(0, "a"), next(0, "b"), next(1, "other")], [1, 2, 9].map(vid));
        for drive in ["a", "b"] {
            assert!(look(drive).waits_for_library && !queue.give_up(&look(drive)), "{drive}");
        }
        // One of another library says nothing about this robot; and it is alone there.
        queue.served("other");
        assert!(look("a").waits_for_library);
        queue.leaves("other");
        assert!(!look("other").waits_for_library && queue.give_up(&look("other")));
        // The robot has served one: it was the drive of the other.
        queue.served("b");
        assert!(!look("a").waits_for_library);
        // One that hangs with its tape is to blame at any time.
        assert!(!look("b").waits_for_library && queue.give_up(&look("b")));
        assert!(queue.give_up(&look("a")));
        // What it did before one began to wait says nothing.
        assert_eq!([next(0, "c"), next(0, "d")], [3, 4].map(vid));
        queue.served("c");
        queue.leaves("c");
        assert!(look("c").waits_for_library && !queue.give_up(&look("c")));
        assert!(queue.give_up(&look("d")) && queue.give_up(&look("c")), "then it is alone");
    }
}
