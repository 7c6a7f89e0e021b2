//! A change log beside the tables, as several machines have it.

use std::sync::{Mutex, PoisonError};

use base::{DirId, ManualClock, Name, Uuid};
use catalogue::Attributes;

use super::*;
use crate::change_log::{AppendError, Changes, Durable, FollowError, Term};
use crate::memory::{CommitControl, CommitFate, MemoryChange};

/// A log that outlives its writers. Clones are one.
#[derive(Clone, Default)]
struct SharedLog(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    changes: Vec<Vec<u8>>,
    term: u64,
    next: Option<Answer>,
    appends: usize,
}

/// What the next append comes to.
#[derive(Clone, Copy)]
enum Answer {
    NotNow,
    /// It is in the log, and nobody hears of it.
    LostAfter,
    /// It is not in the log, and nobody hears of it.
    LostBefore,
}

impl SharedLog {
    fn with<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answers(&self, next: Answer) {
        self.with(|log| log.next = Some(next));
    }
}

impl ChangeLog for SharedLog {
    fn take_over(&mut self) -> Result<Term, FollowError> {
        self.with(|log| {
            log.term += 1;
            Ok(Term(log.term))
        })
    }

    fn follow(&mut self, after: u64) -> Result<Vec<Vec<u8>>, FollowError> {
        // Three at a time: a log answers in pieces.
        self.with(|log| Ok(log.changes.iter().skip(after as usize).take(3).cloned().collect()))
    }

    fn append(&mut self, term: Term, changes: &Changes<'_>) -> Result<Durable, AppendError> {
        let encoded = changes.encoded().map_err(|error| AppendError::NotNow(error.to_string()))?;
        assert_eq!(encoded.len() as u64, changes.last() + 1 - changes.first());
        self.with(|log| {
            if term.0 != log.term {
                return Err(AppendError::Fenced(Term(log.term)));
            }
            assert_eq!(changes.first(), log.changes.len() as u64 + 1, "the log has no gaps");
            let lost = || AppendError::Unknown("no answer".to_owned());
            log.appends += 1;
            match log.next.take() {
                None => log.changes.extend(encoded),
                Some(Answer::NotNow) => return Err(AppendError::NotNow("it has no quorum".to_owned())),
                Some(Answer::LostBefore) => return Err(lost()),
                Some(Answer::LostAfter) => {
                    log.changes.extend(encoded);
                    return Err(lost());
                }
            }
            Ok(Durable::Already)
        })
    }
}

fn options() -> StoreOptions {
    StoreOptions::new(ByteCount::mib(64), Arc::new(ManualClock::new(Timestamp(5))))
}

fn open(tables: &MemoryCatalogue, log: &SharedLog) -> CatalogueStore {
    CatalogueStore::open_memory_with_log(tables, options(), Box::new(log.clone())).unwrap()
}

fn begin(tables: &MemoryCatalogue, log: &SharedLog) -> CatalogueStore {
    let store = open(tables, log);
    store.execute(Command::Initialise { instance: Uuid([1; 16]) }).unwrap();
    store
}

fn directory(name: &str) -> Command {
    let name = Name::new(name).unwrap();
    Command::MakeDirectory { parent: DirId::ROOT, name, attributes: Attributes::default(), class: None }
}

fn names(store: &CatalogueStore) -> Vec<String> {
    let list = store.read(|view| {
        assert_eq!(view.check()?, []);
        view.list(DirId::ROOT, None, 1000)
    });
    list.unwrap().into_iter().map(|(name, _)| name.as_str().to_owned()).collect()
}

#[test]
fn a_replica_that_follows_the_log_has_the_same_tables() {
    let (log, first) = (SharedLog::default(), MemoryCatalogue::new());
    let store = begin(&first, &log);
    for number in 0..10 {
        store.execute(directory(&format!("d{number}"))).unwrap();
    }
    // Refused commands are in no log.
    let before = log.with(|log| (log.changes.len(), log.appends));
    store.execute(directory("d3")).unwrap_err();
    assert_eq!(log.with(|log| (log.changes.len(), log.appends)), before);
    let refused_among = vec![directory("x"), directory("d3"), directory("y")];
    let answers = store.execute_all(refused_among).unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(log.with(|log| log.changes.len()), before.0 + 2);
    let names_there = names(&store);
    drop(store);
    let second = MemoryCatalogue::new();
    let replica = open(&second, &log);
    assert_eq!(names(&replica), names_there);
    let digests = |store: &CatalogueStore| store.engine.read(|view| Ok(crate::snapshot::digests(view)?));
    drop(replica);
    let (one, other) = (open(&first, &log), open(&second, &log));
    assert_eq!(digests(&one).unwrap(), digests(&other).unwrap());
}

#[test]
fn a_writer_that_was_overtaken_appends_and_commits_nothing() {
    let (log, mine, theirs) = (SharedLog::default(), MemoryCatalogue::new(), MemoryCatalogue::new());
    let old = begin(&mine, &log);
    let new = open(&theirs, &log);
    let error = old.execute(directory("late")).unwrap_err();
    assert!(matches!(&error, ExecuteError::Engine(why) if why.contains("term 2")), "{error}");
    assert!(!old.is_writing());
    assert!(matches!(old.execute(directory("later")), Err(ExecuteError::Stopped)));
    assert!(names(&old).is_empty(), "nothing of it is in the tables");
    new.execute(directory("new")).unwrap();
    assert_eq!(names(&new), ["new"]);
}

#[test]
fn what_is_refused_for_now_changes_nothing() {
    let (log, tables) = (SharedLog::default(), MemoryCatalogue::new());
    let store = begin(&tables, &log);
    log.answers(Answer::NotNow);
    let error = store.execute(directory("a")).unwrap_err();
    assert!(matches!(error, ExecuteError::NotNow(_)), "{error}");
    assert!(names(&store).is_empty() && store.is_writing());
    store.execute(directory("a")).unwrap();
    assert_eq!(names(&store), ["a"]);
}

/// An answer that was lost stops the writer; whoever opens the tables next finds out what the log has.
#[test]
fn a_lost_answer_is_resolved_by_the_log() {
    for (answer, expected) in [(Answer::LostAfter, vec!["a", "b"]), (Answer::LostBefore, vec!["a"])] {
        let (log, tables) = (SharedLog::default(), MemoryCatalogue::new());
        let store = begin(&tables, &log);
        store.execute(directory("a")).unwrap();
        log.answers(answer);
        let error = store.execute(directory("b")).unwrap_err();
        assert!(matches!(error, ExecuteError::Engine(_)), "{error}");
        assert!(!store.is_writing());
        assert_eq!(names(&store), ["a"]);
        drop(store);
        assert_eq!(names(&open(&tables, &log)), expected);
    }
}

/// Every commit finds the map full from the second one on.
struct FullLater(Mutex<usize>);

impl CommitControl for FullLater {
    fn fate(&self, _changes: &[MemoryChange]) -> CommitFate {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *commits += 1;
        if *commits == 1 { CommitFate::Durable } else { CommitFate::MapFull }
    }

    fn committed(&self, _changes: &[MemoryChange]) {}
}

/// What the log has cannot be taken back: a commit of the tables that fails afterwards stops the writer.
#[test]
fn a_commit_that_fails_behind_the_log_is_no_refusal() {
    let log = SharedLog::default();
    let tables = MemoryCatalogue::with_control(Arc::new(FullLater(Mutex::new(0))));
    let store = begin(&tables, &log);
    let error = store.execute(directory("a")).unwrap_err();
    assert!(matches!(error, ExecuteError::Engine(_)), "{error}");
    assert!(!store.is_writing());
    drop(store);
    assert_eq!(names(&open(&tables.fork(None), &log)), ["a"]);
}

/// A log of another history is refused.
#[test]
fn a_log_that_does_not_fit_is_refused() {
    let (log, tables) = (SharedLog::default(), MemoryCatalogue::new());
    drop(begin(&tables, &log));
    log.with(|log| log.changes.push(b"no change".to_vec()));
    let options = options();
    let error = CatalogueStore::open_memory_with_log(&tables, options, Box::new(log.clone())).err().unwrap();
    assert!(matches!(error, OpenError::ChangeLog(_)), "{error}");
}
