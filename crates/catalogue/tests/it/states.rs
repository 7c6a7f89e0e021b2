//! Put, overwrite, rename and delete of a file in each state of its migration. The table stands in
//! `docs/format/catalogue.md`.

use crate::common::*;
use base::*;
use catalogue::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InPool,
    Planned,
    OnOneTape,
    OnTape,
    Recalled,
    Evicted,
    Repacked,
    Lost,
}

const STATES: [State; 8] = [
    State::InPool,
    State::Planned,
    State::OnOneTape,
    State::OnTape,
    State::Recalled,
    State::Evicted,
    State::Repacked,
    State::Lost,
];

struct Case {
    bench: Bench,
    file: FileId,
    container: Option<ContainerId>,
    run: Option<RunId>,
    request: Option<RequestId>,
    /// The blobs of the file and of its pack's skeleton.
    blob: u64,
    skeleton: Option<u64>,
}

fn case(state: State) -> Case {
    let mut bench = Bench::new();
    let file = bench.put("f", "content");
    let blob = bench.file(file).pieces[0].blob.0;
    let mut case = Case { bench, file, container: None, run: None, request: None, blob, skeleton: None };
    if state == State::InPool {
        return case;
    }
    if state == State::Lost {
        let copies = vec![case.bench.pool_copy(file)];
        let lost = case.bench.ok(Command::PoolCopiesLost { copies });
        assert_eq!(lost, Outcome::PoolCopyLost(vec![PoolLoss::Lost]));
        return case;
    }
    let container = case.bench.pack(&[file]);
    case.container = Some(container);
    case.skeleton =
        case.bench.view().container(container).unwrap().unwrap().skeleton.map(|piece| piece.blob.0);
    if state == State::Planned {
        let run = case.bench.begin(0);
        case.bench.append(run, container, 3);
        case.run = Some(run);
        return case;
    }
    case.bench.write_to(0, container);
    if state == State::OnOneTape {
        return case;
    }
    case.bench.write_to(1, container);
    if state == State::OnTape {
        return case;
    }
    if state == State::Repacked {
        let vid = case.bench.tapes[0];
        case.bench.ok(Command::SetTapeState { vid, state: TapeState::Repacking, reason: String::new() });
        let requeued = case.bench.ok(Command::RequeueCopy { container, vid });
        assert_eq!(requeued, Outcome::Requeued(Requeue::Queued));
        return case;
    }
    assert_eq!(case.bench.evict(file), Ok(()));
    if state == State::Recalled {
        case.request = Some(case.bench.request(&[file]));
    }
    case
}

impl Case {
    /// The garbage that is there before the operation under test.
    fn garbage_before(state: State, case: &Case) -> Vec<u64> {
        let mut garbage = Vec::new();
        if matches!(state, State::Recalled | State::Evicted) {
            garbage.push(case.blob);
        }
        if matches!(state, State::OnTape | State::Recalled | State::Evicted | State::Repacked) {
            garbage.extend(case.skeleton);
        }
        garbage
    }

    /// Writes what is still missing of the container's copies.
    fn finish_tapes(&mut self, state: State) {
        let container = self.container.unwrap();
        if let Some(run) = self.run {
            self.bench.commit(run);
            self.bench.index(run);
            self.bench.end(run, TapeState::Active);
        }
        if matches!(state, State::Planned | State::OnOneTape) {
            self.bench.write_to(1, container);
        }
    }

    /// What must hold once the version has lost its name.
    fn check_lost(&mut self, state: State) {
        let before = Case::garbage_before(state, self);
        let file = self.bench.view().file(self.file).unwrap();
        match state {
            State::InPool | State::Lost => {
                assert_eq!(file, None);
                assert_eq!(self.bench.garbage_blobs(), [self.blob]);
                let todo = self.bench.view().todo(self.bench.class, None, 10).unwrap();
                assert!(todo.iter().all(|((_, id), _)| *id != self.file));
            }
            State::Planned | State::OnOneTape => {
                let file = file.expect("a container still needs its bytes");
                assert!(matches!(file.state, FileState::Condemned(_)) && !file.pieces.is_empty());
                assert_eq!(self.bench.garbage_blobs(), before);
                let record = self.bench.view().container(self.container.unwrap()).unwrap().unwrap();
                assert_eq!((record.live_members, record.condemned_members), (0, 1));
                self.finish_tapes(state);
                assert_eq!(self.bench.view().file(self.file).unwrap(), None);
                let mut gone = self.bench.garbage_blobs();
                gone.sort_unstable();
                assert_eq!(gone, [self.blob, self.skeleton.unwrap()]);
            }
            State::OnTape | State::Recalled | State::Evicted | State::Repacked => {
                assert_eq!(file, None);
                assert_eq!(self.bench.garbage_blobs(), [self.blob, self.skeleton.unwrap()]);
                assert_eq!(self.bench.view().parts(self.file).unwrap(), []);
            }
        }
        if let Some(container) = self.container {
            let record = self.bench.view().container(container).unwrap().unwrap();
            assert!(record.is_safe(), "the tape copies stay on tape");
            assert_eq!((record.live_members, record.live_bytes.0, record.condemned_members), (0, 0, 0));
        }
        if let Some(request) = self.request {
            let items = self.bench.view().request_items(request, 0, 10).unwrap();
            assert!(matches!(items[0].1.state, ItemState::Failed(_)));
            assert_eq!(self.bench.view().request(request).unwrap().unwrap().state, RequestState::Completed);
            for vid in self.bench.tapes {
                assert_eq!(self.bench.view().recall_set(vid, None, 10).unwrap(), []);
                assert_eq!(self.bench.view().tally(Counter::Wanted(vid)).unwrap(), Tally::default());
            }
        }
    }
}

#[test]
fn a_put_of_the_same_bytes_changes_nothing() {
    for state in STATES {
        let mut case = case(state);
        let before = case.bench.file(case.file);
        let garbage = case.bench.garbage_blobs();
        let put = case.bench.new_put(DirId::ROOT, "f", "content");
        let outcome = case.bench.ok(Command::PutFile(Box::new(put)));
        if state == State::Lost {
            // Who has the bytes that Kist has lost is not told that nothing changes.
            let Outcome::Put(outcome) = outcome else { panic!() };
            assert_eq!((outcome.created, outcome.replaced), (true, Some(case.file)));
            continue;
        }
        assert_eq!(
            outcome,
            Outcome::Put(PutOutcome { file: case.file, created: false, replaced: None }),
            "{state:?}"
        );
        assert_eq!(case.bench.file(case.file), before, "{state:?}");
        assert_eq!(case.bench.garbage_blobs(), garbage, "{state:?}");
    }
}

#[test]
fn an_overwrite_makes_a_new_version_and_condemns_the_old() {
    for state in STATES {
        let mut case = case(state);
        let put = case.bench.new_put(DirId::ROOT, "f", "other");
        let Outcome::Put(outcome) = case.bench.ok(Command::PutFile(Box::new(put))) else { panic!() };
        assert_eq!((outcome.created, outcome.replaced), (true, Some(case.file)), "{state:?}");
        let path = ArchivePath::new("/f").unwrap();
        assert_eq!(case.bench.view().resolve(&path).unwrap(), Some(Entry::File(outcome.file)));
        let class = case.bench.class;
        let tally = Tally { files: 1, bytes: ByteCount(5) };
        for counter in [Counter::Class(class), Counter::Online(class), Counter::Todo(class)] {
            assert_eq!(case.bench.view().tally(counter).unwrap(), tally, "{state:?} {counter:?}");
        }
        case.check_lost(state);
        let newer = case.bench.file(outcome.file);
        assert_eq!((newer.state, newer.pieces.len()), (FileState::Live, 1), "{state:?}");
    }
}

#[test]
fn a_delete_takes_the_name_at_once_and_the_bytes_when_no_container_needs_them() {
    for state in STATES {
        let mut case = case(state);
        case.bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("f") });
        assert_eq!(case.bench.view().entry(DirId::ROOT, &name("f")).unwrap(), None);
        for counter in [Counter::Class(case.bench.class), Counter::Online(case.bench.class)] {
            assert_eq!(case.bench.view().tally(counter).unwrap(), Tally::default(), "{state:?}");
        }
        case.check_lost(state);
    }
}

#[test]
fn a_rename_touches_names_only() {
    for state in STATES {
        let mut case = case(state);
        let below = case.bench.mkdir(DirId::ROOT, "d");
        let before = case.bench.file(case.file);
        let garbage = case.bench.garbage_blobs();
        let container = case.container.map(|id| case.bench.view().container(id).unwrap());
        case.bench.ok(Command::Rename {
            from_parent: DirId::ROOT,
            from_name: name("f"),
            to_parent: below,
            to_name: name("g"),
            replace: Replace::Refused,
        });
        let after = case.bench.file(case.file);
        assert_eq!(after, FileRecord { parent: below, name: name("g"), ..before }, "{state:?}");
        assert_eq!(case.bench.view().path_of_file(case.file).unwrap().as_deref(), Some("/d/g"));
        assert_eq!(case.bench.view().entry(DirId::ROOT, &name("f")).unwrap(), None);
        assert_eq!(case.bench.garbage_blobs(), garbage, "{state:?}");
        assert_eq!(case.container.map(|id| case.bench.view().container(id).unwrap()), container, "{state:?}");
        let todo = case.bench.view().todo(case.bench.class, None, 10).unwrap();
        assert_eq!(todo.len(), usize::from(state == State::InPool));
        if let Some(request) = case.request {
            case.bench.recall(case.file);
            let items = case.bench.view().request_items(request, 0, 10).unwrap();
            assert!(matches!(items[0].1.state, ItemState::Done(_)));
        }
    }
}
