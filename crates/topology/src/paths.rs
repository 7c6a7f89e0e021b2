//! Which paths of a disk are used: decided from what each of them shows, look by look.
//!
//! A path that does not answer, or takes much longer than another one of the same disk, is left as long as
//! another one is well. It is taken back when it was well for a while, and later each time that it fails
//! again soon. The last path is never left: what it does not give, nobody gives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Looks in a row in which a path has to be slow before it is left, so that no single command decides.
pub const SLOW_LOOKS: u32 = 5;
/// A path is slow if it takes this many times as long as the fastest that answers ...
pub const SLOW_FACTOR: u32 = 8;
/// ... and this long at least: below, it is nobody's loss.
pub const SLOW_LEAST: Duration = Duration::from_millis(20);
/// A slow path is well again if it takes no more than this many times as long.
pub const WELL_FACTOR: u32 = 3;
/// How long a path has to be well before it is taken back ...
pub const WELL_FOR: Duration = Duration::from_secs(10);
/// ... which doubles with each failure that comes within `STABLE_AFTER` of its return, up to this.
pub const WELL_FOR_MAX: Duration = Duration::from_secs(600);
/// A path that was used for this long is one that holds.
pub const STABLE_AFTER: Duration = Duration::from_secs(600);

/// What a path showed in one look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is ready, and said so after this time.
    Ready(Duration),
    /// It is not, or an operation on it failed: why.
    Failed(String),
}

/// Whether a path is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PathState {
    /// It is.
    Well,
    /// It answers, but much later than another one: it is left.
    Slow,
    /// It does not work: it is left.
    Failed,
}

impl PathState {
    /// One word for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PathState::Well => "well",
            PathState::Slow => "slow",
            PathState::Failed => "failed",
        }
    }

    /// Whether it is used.
    #[must_use]
    pub fn is_used(self) -> bool {
        self == PathState::Well
    }
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathWatch {
    /// Whether it is used.
    pub state: PathState,
    /// Since when, by the clock of the looks.
    pub since: Duration,
    /// Why it is left, or was taken back.
    pub why: String,
    /// Looks in a row in which it was slow.
    slow_looks: u32,
    /// Since when it has been well although it is left.
    well_since: Option<Duration>,
    /// How long it has to be well before it is taken back.
    well_for: Duration,
}

/// What has changed for a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The path.
    pub path: String,
    /// What it is now.
    pub state: PathState,
    /// Why.
    pub why: String,
}

/// The paths of one disk, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskPaths {
    paths: BTreeMap<String, PathWatch>,
}

impl DiskPaths {
    /// The paths as they are.
    #[must_use]
    pub fn paths(&self) -> &BTreeMap<String, PathWatch> {
        &self.paths
    }

    /// One look: what each path that is there showed, at this time of a steady clock. Gives what has changed;
    /// paths that are there no more are forgotten.
    pub fn look(&mut self, now: Duration, answers: &BTreeMap<String, Answer>) -> Vec<Change> {
        self.paths.retain(|path, _| answers.contains_key(path));
        let fastest = answers
            .values()
            .filter_map(|answer| match answer {
                Answer::Ready(span) => Some(*span),
                Answer::Failed(_) => None,
            })
            .min();
        let mut changes = Vec::new();
        // Those that come back first: one that is left then may be left for them.
        for (path, answer) in answers {
            let watch = self.paths.entry(path.clone()).or_insert_with(|| PathWatch::new(now));
            changes.extend(watch.come_back(now, answer, fastest).map(|why| change(path, watch, why)));
        }
        for (path, answer) in answers {
            let others = self.paths.iter().filter(|(other, watch)| *other != path && watch.state.is_used());
            // One that is used and does not answer is nobody to go to.
            let answers_too =
                |(other, _): &(&String, &PathWatch)| matches!(answers.get(*other), Some(Answer::Ready(_)));
            let has_another = others.filter(answers_too).count() > 0;
            let Some(watch) = self.paths.get_mut(path) else { continue };
            let left = watch.leave(now, answer, fastest, has_another);
            changes.extend(left.map(|why| change(path, watch, why)));
        }
        assert!(changes.len() <= 2 * answers.len(), "a path changes at most to and fro");
        changes
    }
}

fn change(path: &str, watch: &PathWatch, why: String) -> Change {
    Change { path: path.to_owned(), state: watch.state, why }
}

fn is_slow(span: Duration, fastest: Duration, factor: u32) -> bool {
    span >= SLOW_LEAST && span > fastest.saturating_mul(factor)
}

impl PathWatch {
    fn new(now: Duration) -> PathWatch {
        PathWatch {
            state: PathState::Well,
            since: now,
            why: String::new(),
            slow_looks: 0,
            well_since: None,
            well_for: WELL_FOR,
        }
    }

    fn become_state(&mut self, state: PathState, now: Duration, why: String) -> String {
        let was_stable = self.state.is_used() && now.saturating_sub(self.since) >= STABLE_AFTER;
        if was_stable {
            self.well_for = WELL_FOR;
        } else if self.state.is_used() && !self.why.is_empty() {
            // It was taken back, and did not hold.
            self.well_for = self.well_for.saturating_mul(2).min(WELL_FOR_MAX);
        }
        (self.state, self.since, self.slow_looks, self.well_since) = (state, now, 0, None);
        self.why.clone_from(&why);
        why
    }

    /// Takes it back if it has been well for long enough; gives why.
    fn come_back(&mut self, now: Duration, answer: &Answer, fastest: Option<Duration>) -> Option<String> {
        if self.state.is_used() {
            return None;
        }
        let is_well = match answer {
            Answer::Ready(span) => !is_slow(*span, fastest.unwrap_or(*span), WELL_FACTOR),
            Answer::Failed(_) => false,
        };
        if !is_well {
            self.well_since = None;
            return None;
        }
        let since = *self.well_since.get_or_insert(now);
        let well_for = now.saturating_sub(since);
        if well_for < self.well_for {
            return None;
        }
        let why = format!("it has been well for {} s", well_for.as_secs());
        Some(self.become_state(PathState::Well, now, why))
    }

    /// Leaves it if it does not answer, or is slow, and another one is well; gives why.
    fn leave(
        &mut self,
        now: Duration,
        answer: &Answer,
        fastest: Option<Duration>,
        has_another: bool,
    ) -> Option<String> {
        match answer {
            Answer::Failed(why)
                if self.state != PathState::Failed && (has_another || !self.state.is_used()) =>
            {
                let why = why.clone();
                Some(self.become_state(PathState::Failed, now, why))
            }
            Answer::Ready(span) if self.state.is_used() => {
                let is_slow = fastest.is_some_and(|fastest| is_slow(*span, fastest, SLOW_FACTOR));
                self.slow_looks = if is_slow { self.slow_looks.saturating_add(1) } else { 0 };
                if self.slow_looks < SLOW_LOOKS || !has_another {
                    return None;
                }
                let (own, best) = (span.as_millis(), fastest.unwrap_or_default().as_secs_f64() * 1_000.0);
                let why = format!("it takes {own} ms, another one {best:.1} ms, in {SLOW_LOOKS} looks");
                Some(self.become_state(PathState::Slow, now, why))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Looks every two seconds, from this second on; each gives the answers of `a` and `b`. What changed,
    /// with the second.
    struct Bench(DiskPaths, u64);

    impl Bench {
        fn looks(&mut self, count: u32, a: &Answer, b: &Answer) -> Vec<(u64, String, PathState)> {
            let mut all = Vec::new();
            for _ in 0..count {
                let answers = [("a".to_owned(), a.clone()), ("b".to_owned(), b.clone())].into();
                let changes = self.0.look(Duration::from_secs(self.1), &answers);
                all.extend(changes.into_iter().map(|one| (self.1, one.path, one.state)));
                self.1 += 2;
            }
            all
        }
    }

    fn ready(ms: u32) -> Answer {
        Answer::Ready(MS * ms)
    }

    fn failed() -> Answer {
        Answer::Failed("no answer".into())
    }

    fn bench() -> Bench {
        let mut bench = Bench(DiskPaths::default(), 0);
        assert_eq!(bench.looks(3, &ready(1), &ready(1)), []);
        bench
    }

    #[test]
    fn a_path_that_fails_is_left_at_once_and_taken_back_after_it_was_well_for_a_while() {
        let mut bench = bench();
        assert_eq!(bench.looks(3, &failed(), &ready(1)), [(6, "a".into(), PathState::Failed)]);
        assert_eq!(bench.looks(5, &ready(1), &ready(1)), []);
        assert_eq!(bench.looks(3, &ready(1), &ready(1)), [(22, "a".into(), PathState::Well)]);
    }

    #[test]
    fn a_path_that_fails_while_it_is_to_be_well_begins_anew() {
        let mut bench = bench();
        bench.looks(1, &failed(), &ready(1));
        assert_eq!(bench.looks(5, &ready(1), &ready(1)), []);
        assert_eq!(bench.looks(1, &failed(), &ready(1)), []);
        assert_eq!(bench.looks(5, &ready(1), &ready(1)), []);
        assert_eq!(bench.looks(1, &ready(1), &ready(1)).len(), 1);
    }

    #[test]
    fn the_last_path_is_never_left() {
        let mut bench = bench();
        bench.looks(1, &failed(), &ready(1));
        assert_eq!(bench.looks(20, &failed(), &failed()), []);
        assert_eq!(bench.0.paths()["b"].state, PathState::Well);
        assert_eq!(bench.looks(20, &failed(), &ready(5_000)), []);
        // Both at once: none of them can stand in for the other.
        let mut other = self::bench();
        assert_eq!(other.looks(5, &failed(), &failed()), []);
        assert_eq!(other.looks(1, &ready(1), &failed()), [(16, "b".into(), PathState::Failed)]);
    }

    #[test]
    fn the_other_one_is_taken_back_before_the_one_that_fails_now_is_left() {
        let mut bench = bench();
        bench.looks(1, &failed(), &ready(1));
        bench.looks(5, &ready(1), &ready(1));
        let changed = bench.looks(1, &ready(1), &failed());
        assert_eq!(changed, [(18, "a".into(), PathState::Well), (18, "b".into(), PathState::Failed)]);
    }

    #[test]
    fn a_path_that_fails_again_and_again_has_to_be_well_for_longer() {
        let mut bench = bench();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let left = bench.looks(1, &failed(), &ready(1));
            assert_eq!(left.len(), 1);
            let begin = bench.1;
            while bench.looks(1, &ready(1), &ready(1)).is_empty() {}
            waits.push(bench.1 - 2 - begin);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        // It holds: the next failure is one like the first.
        assert_eq!(bench.looks(301, &ready(1), &ready(1)), []);
        bench.looks(1, &failed(), &ready(1));
        assert_eq!(bench.looks(6, &ready(1), &ready(1)).len(), 1);
    }

    #[test]
    fn a_slow_path_is_left_after_some_looks_and_only_much_better_ones_bring_it_back() {
        let mut bench = bench();
        assert_eq!(bench.looks(4, &ready(100), &ready(2)), []);
        assert_eq!(bench.looks(1, &ready(1), &ready(2)), []);
        assert_eq!(bench.looks(5, &ready(100), &ready(2)), [(24, "a".into(), PathState::Slow)]);
        assert!(bench.0.paths()["a"].why.contains("100 ms, another one 2.0 ms"), "{:?}", bench.0);
        // It answers, and is not as bad any more: nothing changes.
        assert_eq!(bench.looks(30, &ready(25), &ready(5)), []);
        assert_eq!(bench.looks(6, &ready(2), &ready(2)).len(), 1);
        // A slow one may fail as well.
        bench.looks(5, &ready(100), &ready(2));
        assert_eq!(bench.looks(1, &failed(), &ready(2))[0].2, PathState::Failed);
    }

    #[test]
    fn a_disk_that_is_slow_on_all_paths_leaves_none() {
        let mut bench = bench();
        assert_eq!(bench.looks(30, &ready(900), &ready(800)), []);
        // Nor does one that is quick, however quick the other one is.
        let mut quick = self::bench();
        assert_eq!(quick.looks(30, &ready(19), &ready(0)), []);
    }

    #[test]
    fn paths_that_go_and_come_are_new() {
        let mut bench = bench();
        bench.looks(1, &failed(), &ready(1));
        let answers = [("b".to_owned(), ready(1))].into();
        assert_eq!(bench.0.look(Duration::from_secs(8), &answers), []);
        assert_eq!(bench.0.paths().len(), 1);
        assert_eq!(bench.looks(1, &ready(1), &ready(1)), []);
        assert_eq!(bench.0.paths()["a"].state, PathState::Well);
    }
}
