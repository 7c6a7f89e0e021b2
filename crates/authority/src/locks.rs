//! Locks that clients take on files and directories, as WebDAV has them (RFC 4918, 6 and 7). Whatever door a
//! change comes through, it asks here, so that a lock holds against all of them.
//!
//! A lock ends by itself after the time that was asked for, bounded by [`LOCK_SECONDS_MAX`], and is forgotten
//! when the server ends: whoever sends its token then is told that there is none.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use archive::{ArchiveError, WhyNoLock};
use base::{ArchivePath, Duration};
use identity::Caller;
use threads::{Mutex, MutexGuard};

/// Locks of all callers at most.
pub const LOCKS_MAX: usize = 10_000;
/// Locks of one caller at most.
pub const LOCKS_OF_CALLER_MAX: usize = 1_000;
/// The most shared locks on one path: each is asked about with every change below.
pub const LOCKS_OF_PATH_MAX: usize = 16;
/// The longest time that a lock lasts without being refreshed, in seconds.
pub const LOCK_SECONDS_MAX: u64 = 24 * 3600;
/// The longest text with which a client says who it is.
pub const LOCK_NOTE_BYTES_MAX: usize = 4 << 10;

/// A lock that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// What its holder sends with a change: a URI.
    pub token: String,
    /// What it was taken on.
    pub root: ArchivePath,
    /// Whether nobody else may have one beside it.
    pub is_exclusive: bool,
    /// Whether it holds for all below a directory.
    pub is_deep: bool,
    /// Whose it is.
    pub owner: String,
    /// The same with their groups and bounds: a deep lock reaches what they may change, and nothing else.
    pub holder: Arc<Caller>,
    /// What the client says of who it is; XML of WebDAV.
    pub note: String,
    /// How long it was asked for.
    pub span: Duration,
    /// When it ends, by a clock that never goes back.
    pub ends: Duration,
}

/// A lock that somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRequest {
    /// On what.
    pub path: ArchivePath,
    /// See [`Lock::is_exclusive`].
    pub is_exclusive: bool,
    /// See [`Lock::is_deep`].
    pub is_deep: bool,
    /// See [`Lock::note`].
    pub note: String,
    /// How long; no more than [`LOCK_SECONDS_MAX`].
    pub span: Duration,
}

/// What of a path a change touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// It itself: bytes or properties.
    Itself,
    /// It itself, and that its directory has it: a name that is new.
    New,
    /// It and all below it, and that its directory has it.
    Tree,
}

/// All locks of a server, in the order of their paths.
#[derive(Default)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    /// How many there are, so that nothing is looked up where there are none.
    count: AtomicUsize,
}

type ByRoot = BTreeMap<ArchivePath, Vec<Lock>>;

#[derive(Default)]
struct Held {
    by_root: ByRoot,
    /// No lock ends before; `None` if there are none. So that not each look goes through all of them.
    next_end: Option<Duration>,
}

impl Locks {
    /// That nothing which a change touches is locked, but by locks of `caller` whose tokens come with it. Of
    /// several shared locks one is enough. `reaches` says whether a deep lock above counts at a path.
    pub(crate) fn admit(
        &self,
        path: &ArchivePath,
        touch: Touch,
        (caller, tokens): (&str, &[String]),
        reaches: &dyn Fn(&Lock, &ArchivePath) -> bool,
        now: Duration,
    ) -> Result<(), ArchiveError> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let is_ours = |lock: &Lock| lock.owner == caller && tokens.contains(&lock.token);
        let free = |locks: &[&Lock]| match locks.first() {
            Some(first) if !locks.iter().any(|lock| is_ours(lock)) => {
                Err(ArchiveError::Locked { root: first.root.clone(), by: first.owner.clone() })
            }
            _ => Ok(()),
        };
        let directory = path.split().map(|(directory, _)| directory).filter(|_| touch != Touch::Itself);
        let looked_at: Vec<(&ArchivePath, Vec<Lock>)> = {
            let held = self.current(now);
            if touch == Touch::Tree {
                below(&held.by_root, path)
                    .try_for_each(|(_, locks)| free(&locks.iter().collect::<Vec<_>>()))?;
            }
            let of = |at| (at, covering(&held.by_root, at).into_iter().cloned().collect());
            [Some(path), directory.as_ref()].into_iter().flatten().map(of).collect()
        };
        // Nobody waits for the catalogue because of somebody else's locks.
        looked_at.into_iter().try_for_each(|(at, locks)| {
            let counts = |lock: &&Lock| lock.root == *at || reaches(lock, at);
            free(&locks.iter().filter(counts).collect::<Vec<_>>())
        })
    }

    /// Takes a lock.
    pub(crate) fn take(
        &self,
        request: LockRequest,
        holder: &Arc<Caller>,
        token: String,
        now: Duration,
    ) -> Result<Lock, ArchiveError> {
        let owner = holder.name.as_str();
        let mut held = self.current(now);
        let LockRequest { path, is_exclusive, is_deep, note, span } = request;
        let refused = |why| Err(ArchiveError::NoLock { path: path.clone(), why });
        let under =
            is_deep.then(|| below(&held.by_root, &path)).into_iter().flatten().flat_map(|(_, locks)| locks);
        let others = covering(&held.by_root, &path).into_iter().chain(under);
        if let Some(other) = others.into_iter().find(|other| is_exclusive || other.is_exclusive) {
            let (root, by) = (other.root.clone(), other.owner.clone());
            return refused(WhyNoLock::Other { root, by });
        }
        if held.by_root.get(&path).map_or(0, Vec::len) >= LOCKS_OF_PATH_MAX {
            return refused(WhyNoLock::OfPath(LOCKS_OF_PATH_MAX));
        }
        let all = || held.by_root.values().flatten();
        if all().count() >= LOCKS_MAX {
            return refused(WhyNoLock::OfAll(LOCKS_MAX));
        }
        if all().filter(|lock| lock.owner == owner).count() >= LOCKS_OF_CALLER_MAX {
            return refused(WhyNoLock::OfCaller(LOCKS_OF_CALLER_MAX));
        }
        let span = span.min(Duration::from_secs(LOCK_SECONDS_MAX));
        let (owner, root, ends) = (owner.to_owned(), path.clone(), now + span);
        let holder = holder.clone();
        let lock = Lock { token, root, is_exclusive, is_deep, owner, holder, note, span, ends };
        held.by_root.entry(path).or_default().push(lock.clone());
        held.next_end = Some(held.next_end.map_or(ends, |end| end.min(ends)));
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(lock)
    }

    /// Has a lock on `path`, or on a directory above it, last for `span` from now on.
    pub(crate) fn refresh(
        &self,
        path: &ArchivePath,
        (caller, tokens): (&str, &[String]),
        span: Duration,
        now: Duration,
    ) -> Result<Lock, ArchiveError> {
        let mut held = self.current(now);
        let root = covering(&held.by_root, path)
            .into_iter()
            .find(|lock| lock.owner == caller && tokens.contains(&lock.token))
            .map(|lock| (lock.root.clone(), lock.token.clone()));
        let found =
            root.and_then(|(root, token)| held.by_root.get_mut(&root)?.iter_mut().find(|l| l.token == token));
        let lock = found.ok_or_else(|| ArchiveError::NoSuchLock(path.clone()))?;
        lock.span = span.min(Duration::from_secs(LOCK_SECONDS_MAX));
        lock.ends = now + lock.span;
        let lock = lock.clone();
        held.next_end = held.next_end.map(|end| end.min(lock.ends));
        Ok(lock)
    }

    /// Gives a lock back. `caller`: whose it must be; `None` for an admin.
    pub(crate) fn give_back(
        &self,
        path: &ArchivePath,
        token: &str,
        caller: Option<&str>,
        now: Duration,
    ) -> Result<(), ArchiveError> {
        let mut held = self.current(now);
        let is_it = |lock: &Lock| lock.token == token && caller.is_none_or(|caller| lock.owner == caller);
        let found =
            covering(&held.by_root, path).into_iter().find(|lock| is_it(lock)).map(|lock| lock.root.clone());
        let root = found.ok_or_else(|| ArchiveError::NoSuchLock(path.clone()))?;
        if let Some(locks) = held.by_root.get_mut(&root) {
            locks.retain(|lock| lock.token != token);
        }
        self.tidy(&mut held);
        Ok(())
    }

    /// Ends those that were taken on a path.
    pub(crate) fn end_on(&self, path: &ArchivePath, now: Duration) -> Result<(), ArchiveError> {
        let mut held = self.current(now);
        let ended = held.by_root.remove(path).ok_or_else(|| ArchiveError::NoSuchLock(path.clone()));
        self.tidy(&mut held);
        ended.map(drop)
    }

    /// What had this path has gone, with all below it: so have its locks.
    pub(crate) fn forget_tree(&self, path: &ArchivePath) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut held = self.lock();
        let gone: Vec<ArchivePath> = below(&held.by_root, path).map(|(root, _)| root.clone()).collect();
        held.by_root.remove(path);
        gone.iter().for_each(|root| drop(held.by_root.remove(root)));
        self.tidy(&mut held);
    }

    /// Those that hold for a path.
    pub(crate) fn on(&self, path: &ArchivePath, now: Duration) -> Vec<Lock> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        covering(&self.current(now).by_root, path).into_iter().cloned().collect()
    }

    /// Whether there are none, not even such as have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// All of them.
    pub(crate) fn all(&self, now: Duration) -> Vec<Lock> {
        self.current(now).by_root.values().flatten().cloned().collect()
    }

    /// The locks without those that have ended.
    fn current(&self, now: Duration) -> MutexGuard<'_, Held> {
        let mut held = self.lock();
        if held.next_end.is_some_and(|end| end <= now) {
            held.by_root.values_mut().for_each(|locks| locks.retain(|lock| lock.ends > now));
            self.tidy(&mut held);
        }
        held
    }

    fn tidy(&self, held: &mut Held) {
        held.by_root.retain(|_, locks| !locks.is_empty());
        held.next_end = held.by_root.values().flatten().map(|lock| lock.ends).min();
        self.count.store(held.by_root.values().map(Vec::len).sum(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks on a path, and the deep ones above it.
fn covering<'a>(held: &'a ByRoot, path: &ArchivePath) -> Vec<&'a Lock> {
    let mut found: Vec<&Lock> = held.get(path).into_iter().flatten().collect();
    let mut at = path.clone();
    while let Some((above, _)) = at.split() {
        found.extend(held.get(&above).into_iter().flatten().filter(|lock| lock.is_deep));
        at = above;
    }
    found
}

/// The locks on what stands below a path.
fn below<'a>(held: &'a ByRoot, path: &ArchivePath) -> impl Iterator<Item = (&'a ArchivePath, &'a Vec<Lock>)> {
    let prefix = if path.is_root() { "/".to_owned() } else { format!("{path}/") };
    let behind = (Bound::Excluded(path.clone()), Bound::Unbounded);
    // Between a directory and what stands in it come others, such as 'a b' between 'a' and 'a/b'.
    held.range(behind).filter(move |(root, _)| root.as_str().starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ArchivePath {
        ArchivePath::new(text).unwrap()
    }

    fn who(name: &str) -> Arc<Caller> {
        Arc::new(Caller::named(name, []))
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn ask(at: &str, is_exclusive: bool, is_deep: bool) -> LockRequest {
        LockRequest { path: path(at), is_exclusive, is_deep, note: String::new(), span: seconds(10) }
    }

    fn locked(locks: &Locks, at: &str, touch: Touch, tokens: &[&str]) -> bool {
        let tokens: Vec<String> = tokens.iter().map(|token| (*token).to_owned()).collect();
        locks.admit(&path(at), touch, ("anna", &tokens), &|_, _| true, seconds(1)).is_err()
    }

    #[test]
    fn a_lock_holds_for_what_it_says() {
        let locks = Locks::default();
        let nothing = seconds(0);
        locks.take(ask("/a", true, false), &who("anna"), "flat".into(), nothing).unwrap();
        locks.take(ask("/d", true, true), &who("anna"), "deep".into(), nothing).unwrap();
        locks.take(ask("/x/y/f", true, false), &who("anna"), "file".into(), nothing).unwrap();
        for (at, touch, holds) in [
            ("/a", Touch::Itself, true),
            ("/a/b", Touch::Itself, false),
            ("/a/b", Touch::New, true),
            ("/a/b/c", Touch::New, false),
            ("/d/e/f", Touch::Itself, true),
            ("/d e", Touch::Tree, false),
            ("/x", Touch::Itself, false),
            ("/x", Touch::Tree, true),
            ("/x/y", Touch::New, false),
            ("/", Touch::Tree, true),
        ] {
            assert_eq!(locked(&locks, at, touch, &[]), holds, "{at} {touch:?}");
            assert!(!locked(&locks, at, touch, &["flat", "deep", "file"]), "{at} {touch:?} with all tokens");
        }
        assert!(locked(&locks, "/d/e/f", Touch::Itself, &["flat"]), "another lock's token is no help");
        let stranger =
            locks.admit(&path("/a"), Touch::Itself, ("bert", &["flat".to_owned()]), &|_, _| true, seconds(1));
        assert!(stranger.is_err(), "a token is its owner's alone");
    }

    #[test]
    fn a_deep_lock_reaches_what_its_holder_may_change() {
        let locks = Locks::default();
        locks.take(ask("/d", true, true), &who("anna"), "deep".into(), seconds(0)).unwrap();
        let reaches = |lock: &Lock, at: &ArchivePath| {
            lock.holder.name == "anna" && !at.as_str().starts_with("/d/private")
        };
        let admit = |at: &str| locks.admit(&path(at), Touch::Itself, ("bert", &[]), &reaches, seconds(1));
        assert!(admit("/d/f").is_err() && admit("/d").is_err());
        assert!(admit("/d/private/f").is_ok());
    }

    #[test]
    fn exclusive_locks_stand_alone_and_shared_ones_beside_each_other() {
        let locks = Locks::default();
        let now = seconds(0);
        let take = |at: &str, exclusive, deep, token: &str| {
            locks.take(ask(at, exclusive, deep), &who("anna"), token.to_owned(), now).is_ok()
        };
        assert!(take("/s/f", false, false, "1"));
        assert!(take("/s/f", false, false, "2"));
        assert!(!take("/s/f", true, false, "3"));
        assert!(!take("/s", true, true, "4"), "a deep one would cover it");
        assert!(take("/s", true, false, "5"), "a flat one does not");
        assert!(take("/t", true, true, "6"));
        assert!(!take("/t/u/v", false, false, "7"));
        assert!(!locked(&locks, "/s/f", Touch::Itself, &["2"]), "one of the shared ones is enough");
    }

    #[test]
    fn locks_end_and_are_refreshed_and_given_back() {
        let locks = Locks::default();
        locks.take(ask("/f", true, false), &who("anna"), "1".into(), seconds(0)).unwrap();
        let ours = ["1".to_owned()];
        let refreshed = locks.refresh(&path("/f"), ("anna", &ours), seconds(100), seconds(9)).unwrap();
        assert_eq!(refreshed.ends, seconds(109));
        assert!(locks.refresh(&path("/f"), ("bert", &ours), seconds(1), seconds(9)).is_err());
        assert!(locks.admit(&path("/f"), Touch::Itself, ("anna", &[]), &|_, _| true, seconds(108)).is_err());
        assert!(locks.admit(&path("/f"), Touch::Itself, ("anna", &[]), &|_, _| true, seconds(109)).is_ok());
        assert!(
            locks.refresh(&path("/f"), ("anna", &ours), seconds(1), seconds(109)).is_err(),
            "it has ended"
        );
        locks.take(ask("/f", true, false), &who("anna"), "2".into(), seconds(200)).unwrap();
        assert!(locks.give_back(&path("/f"), "2", Some("bert"), seconds(201)).is_err());
        locks.give_back(&path("/f"), "2", Some("anna"), seconds(201)).unwrap();
        assert_eq!(locks.all(seconds(201)), []);
        let long = LockRequest { span: seconds(u64::MAX), ..ask("/f", true, false) };
        let lock = locks.take(long, &who("anna"), "3".into(), seconds(0)).unwrap();
        assert_eq!(lock.span, seconds(LOCK_SECONDS_MAX));
    }

    #[test]
    fn what_has_gone_has_no_locks() {
        let locks = Locks::default();
        for (at, token) in [("/a", "1"), ("/a/b/c", "2"), ("/ab", "3")] {
            locks.take(ask(at, true, false), &who("anna"), token.to_owned(), seconds(0)).unwrap();
        }
        locks.forget_tree(&path("/a"));
        let left: Vec<_> = locks.all(seconds(0)).into_iter().map(|lock| lock.token).collect();
        assert_eq!(left, ["3"]);
    }

    #[test]
    fn no_more_are_given_than_there_may_be() {
        let locks = Locks::default();
        let take = |owner: &str, n: usize| {
            locks.take(
                ask(&format!("/{owner}/{n}"), true, false),
                &who(owner),
                format!("{owner}{n}"),
                seconds(0),
            )
        };
        for n in 0..LOCKS_OF_CALLER_MAX {
            take("anna", n).unwrap();
        }
        let refused = take("anna", LOCKS_OF_CALLER_MAX).unwrap_err();
        let of_caller = WhyNoLock::OfCaller(LOCKS_OF_CALLER_MAX);
        assert!(matches!(refused, ArchiveError::NoLock { why, .. } if why == of_caller));
        for caller in 1..LOCKS_MAX / LOCKS_OF_CALLER_MAX {
            (0..LOCKS_OF_CALLER_MAX).for_each(|n| drop(take(&format!("c{caller}"), n).unwrap()));
        }
        let refused = take("bert", 0).unwrap_err();
        assert!(matches!(refused, ArchiveError::NoLock { why: WhyNoLock::OfAll(LOCKS_MAX), .. }));
        locks.give_back(&path("/anna/0"), "anna0", Some("anna"), seconds(0)).unwrap();
        assert!(take("bert", 0).is_ok());
    }

    #[test]
    fn no_more_shared_ones_are_on_a_path_than_there_may_be() {
        let locks = Locks::default();
        let take = |n: usize| locks.take(ask("/a", false, true), &who("anna"), format!("{n}"), seconds(0));
        (0..LOCKS_OF_PATH_MAX).for_each(|n| drop(take(n).unwrap()));
        let refused = take(LOCKS_OF_PATH_MAX).unwrap_err();
        assert!(matches!(refused, ArchiveError::NoLock { why: WhyNoLock::OfPath(LOCKS_OF_PATH_MAX), .. }));
        locks.give_back(&path("/a"), "0", Some("anna"), seconds(0)).unwrap();
        assert!(take(LOCKS_OF_PATH_MAX).is_ok());
    }
}
