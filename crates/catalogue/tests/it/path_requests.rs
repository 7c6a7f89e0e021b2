//! Requests that name paths one by one: their limits, and what a repeated submission finds.

use crate::common::*;
use base::*;
use catalogue::*;

const PIN: Duration = Duration::from_secs(100);

fn open(bench: &mut Bench, owner: &str) -> Result<RequestId, Rejection> {
    match bench.run(Command::OpenPathRequest { owner: owner.into(), pin: PIN })? {
        Outcome::Request(request) => Ok(request),
        other => panic!("{other:?}"),
    }
}

fn refused(number: u32) -> AskedPath {
    AskedPath { path: format!("/none/{number}"), file: AskedFor::Refused(PathRefusal::NotFound), pin: None }
}

fn close(bench: &mut Bench, request: RequestId, submission: u8) -> RequestId {
    let submission = Blake3([submission; 32]);
    let Outcome::Request(found) = bench.ok(Command::ClosePathRequest { request, submission }) else {
        panic!()
    };
    found
}

fn is_limit(rejection: &Rejection, most: u32) -> bool {
    matches!(rejection, Rejection::LimitExceeded { limit, .. } if *limit == u64::from(most))
}

#[test]
fn as_many_open_requests_as_a_caller_may_have_and_one_more() {
    let mut bench = Bench::new();
    let first = open(&mut bench, "anna").unwrap();
    for _ in 1..OPEN_REQUESTS_MAX {
        open(&mut bench, "anna").unwrap();
    }
    let one_more = open(&mut bench, "anna").unwrap_err();
    assert!(is_limit(&one_more, OPEN_REQUESTS_MAX), "{one_more}");
    open(&mut bench, "bert").expect("another caller has their own");
    assert_eq!(bench.view().open_requests("anna").unwrap(), OPEN_REQUESTS_MAX);
    assert_eq!(close(&mut bench, first, 1), first, "with nothing to wait for it has ended");
    open(&mut bench, "anna").expect("one has ended");
    open(&mut bench, "anna").unwrap_err();
    assert_eq!(bench.view().check().unwrap(), []);
}

#[test]
fn as_many_paths_as_a_request_takes_and_one_more() {
    let mut bench = Bench::new();
    let request = open(&mut bench, "anna").unwrap();
    let all = (0..REQUEST_PATHS_MAX).map(refused).collect();
    bench.ok(Command::AddPaths { request, paths: all });
    let one_more = bench.run(Command::AddPaths { request, paths: vec![refused(0)] }).unwrap_err();
    assert!(is_limit(&one_more, REQUEST_PATHS_MAX), "{one_more}");
    let path = |length| AskedPath { path: "/".repeat(length), ..refused(0) };
    let request = open(&mut bench, "anna").unwrap();
    bench.ok(Command::AddPaths { request, paths: vec![path(PATH_BYTES_MAX)] });
    let longer = vec![path(PATH_BYTES_MAX + 1)];
    let longer = bench.run(Command::AddPaths { request, paths: longer }).unwrap_err();
    assert!(matches!(longer, Rejection::LimitExceeded { .. }), "{longer}");
    assert_eq!(bench.view().check().unwrap(), []);
}

/// A request that names files only takes no paths, and is not closed as one that names them.
#[test]
fn a_request_that_names_files_takes_no_paths() {
    let mut bench = Bench::new();
    let Outcome::Request(request) = bench.ok(Command::OpenRequest { owner: "anna".into(), pin: PIN }) else {
        panic!()
    };
    let added = bench.run(Command::AddPaths { request, paths: vec![refused(0)] }).unwrap_err();
    assert!(matches!(added, Rejection::WrongState { .. }), "{added}");
    let submission = Blake3([1; 32]);
    let closed = bench.run(Command::ClosePathRequest { request, submission }).unwrap_err();
    assert!(matches!(closed, Rejection::NotFound(Object::Request(_))), "{closed}");
}

/// Of two that were filled with the same the one that was closed first stands; it is found until it ends.
#[test]
fn the_same_submission_stands_for_one_request_until_it_ends() {
    let mut bench = Bench::new();
    let file = bench.put("one", "1");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    bench.evict(file).unwrap();
    let asked = AskedPath { path: "/one".into(), file: AskedFor::File(file), pin: None };
    let both: Vec<_> = (0..2).map(|_| open(&mut bench, "anna").unwrap()).collect();
    for request in both.iter().copied() {
        bench.ok(Command::AddPaths { request, paths: vec![asked.clone()] });
    }
    assert_eq!(close(&mut bench, both[1], 7), both[1]);
    assert_eq!(close(&mut bench, both[0], 7), both[1], "it was submitted already");
    assert_eq!(bench.view().request(both[0]).unwrap().unwrap().state, RequestState::Filling);
    bench.ok(Command::CancelRequest { request: both[0] });
    assert_eq!(bench.view().submitted(&Blake3([7; 32])).unwrap(), Some(both[1]), "another one was cancelled");
    bench.recall(file);
    assert_eq!(bench.view().submitted(&Blake3([7; 32])).unwrap(), None, "it has ended");
    assert_eq!(bench.view().check().unwrap(), []);
}

/// Found by a reader: what was cancelled, given back, failed or is held no more never came to whoever
/// submitted the same again while another file of the request was still waited for.
#[test]
fn a_request_that_will_not_give_all_is_not_what_the_same_submission_finds() {
    type Change = fn(&mut Bench, RequestId, [FileId; 2]);
    let changes: [(&str, bool, Change); 6] = [
        ("cancelled", true, |bench, request, [file, _]| {
            bench.ok(Command::CancelFiles { request, files: vec![file] });
        }),
        ("not to be held", true, |bench, request, [file, _]| {
            bench.ok(Command::Unpin { request, files: vec![file] });
        }),
        ("removed", true, |bench, _, _| {
            bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: Name::new("one").unwrap() });
        }),
        ("given back", true, |bench, request, [file, _]| {
            bench.recall(file);
            assert!(bench.view().submitted(&Blake3([7; 32])).unwrap().is_some(), "it came");
            bench.ok(Command::Release { request, files: Some(vec![file]) });
        }),
        ("held no more", true, |bench, _, [file, _]| {
            bench.recall(file);
            bench.at = bench.at.plus(PIN * 2);
            bench.ok(Command::ExpirePins);
        }),
        ("given back by another", false, |bench, _, [file, _]| {
            let other = bench.request(&[file]);
            bench.ok(Command::Unpin { request: other, files: vec![file] });
            bench.ok(Command::CancelFiles { request: other, files: vec![file] });
        }),
    ];
    for (what, is_left, change) in changes {
        let mut bench = Bench::new();
        let files = ["/one", "/two"].map(|path| bench.put(&path[1..], "1"));
        let pack = bench.pack(&files);
        bench.write_to(0, pack);
        bench.write_to(1, pack);
        files.iter().for_each(|file| bench.evict(*file).unwrap());
        let request = open(&mut bench, "anna").unwrap();
        let asked = |file| AskedPath { path: "/of the client".into(), file: AskedFor::File(file), pin: None };
        bench.ok(Command::AddPaths { request, paths: files.map(asked).to_vec() });
        assert_eq!(close(&mut bench, request, 7), request);
        change(&mut bench, request, files);
        let state = bench.view().request(request).unwrap().unwrap().state;
        assert_eq!(state, RequestState::Active, "{what}: the other file is waited for");
        let found = bench.view().submitted(&Blake3([7; 32])).unwrap();
        assert_eq!(found, (!is_left).then_some(request), "{what}");
        assert_eq!(bench.view().check().unwrap(), []);
    }
}

/// Records of a Kist of before have no times and no paths, and are read as they are.
#[test]
fn records_that_say_nothing_newer_have_the_bytes_of_before() {
    let mut bench = Bench::new();
    let file = bench.put("one", "1");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    bench.evict(file).unwrap();
    bench.request(&[file]);
    let value = |table| bench.store.rows(table).next().map(|(_, value)| value.to_vec()).unwrap();
    // Version, file, state; and the checksum.
    assert_eq!(value(Table::RequestItem).len(), 1 + 1 + 1 + 8);
    let request = value(Table::Request);
    assert_eq!(request.len(), 1 + (1 + 3) + 8 + 1 + 1 + 2 + 7 + 8, "{request:02x?}");
}

/// The record of how much one who asks keeps, as docs/format/catalogue.md says it is written.
fn kept_row(owner: &str, mut bytes: u64) -> (Vec<u8>, Vec<u8>) {
    let key = [&[0], owner.as_bytes()].concat();
    let mut record = vec![1];
    while bytes >= 0x80 {
        record.push(bytes as u8 | 0x80);
        bytes >>= 7;
    }
    record.push(bytes as u8);
    let sum = Crc64::of_parts(&[&[82], &key, &record]);
    record.extend_from_slice(&sum.0.to_le_bytes());
    (key, record)
}

/// A catalogue whose record of what `owner` keeps says `bytes`, as if there were paths for it: four billion
/// bytes of them are too many for a test.
fn keeping(bench: &Bench, owner: &str, bytes: u64) -> MemoryStore {
    let mut store = bench.store.clone();
    let (key, record) = kept_row(owner, bytes);
    store.put(Table::PathBytes, &key, &record).unwrap();
    assert_eq!(View::new(&store).path_bytes(owner).unwrap(), bytes);
    store
}

fn run_in(store: &mut MemoryStore, bench: &Bench, command: Command) -> Result<Outcome, Rejection> {
    apply(store, &Envelope { at: bench.at, command })
}

/// Found by an attacker: a request of one file that is held and of thousands of long paths that are not there
/// has ended at once, so that nothing limited how many of them the catalogue kept.
#[test]
fn as_many_bytes_of_paths_as_a_caller_may_keep_and_one_more() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    let request = open(&mut bench, "anna").unwrap();
    let path = |length| AskedPath { path: "/".repeat(length), ..refused(0) };
    let mut at_limit = keeping(&bench, "anna", KEPT_PATH_BYTES_MAX - 10);
    let add = |paths: &[AskedPath]| Command::AddPaths { request, paths: paths.to_vec() };
    for too_long in [vec![path(11)], vec![path(4), path(7)]] {
        let one_more = run_in(&mut at_limit, &bench, add(&too_long)).unwrap_err();
        let Rejection::LimitExceeded { limit, .. } = one_more else { panic!("{one_more}") };
        assert_eq!(limit, KEPT_PATH_BYTES_MAX);
    }
    run_in(&mut at_limit, &bench, add(&[path(4), path(6)])).expect("as many as there may be");
    assert_eq!(View::new(&at_limit).path_bytes("anna").unwrap(), KEPT_PATH_BYTES_MAX);
    run_in(&mut at_limit, &bench, add(&[path(1)])).unwrap_err();
    let bert = open(&mut bench, "bert").unwrap();
    let mut at_limit = keeping(&bench, "anna", KEPT_PATH_BYTES_MAX);
    let others = Command::AddPaths { request: bert, paths: vec![path(50)] };
    run_in(&mut at_limit, &bench, others).expect("another caller keeps nothing yet");
    // What is older than the count may be more than anybody may have: it stays, and goes as all else.
    let mut above = keeping(&bench, "anna", KEPT_PATH_BYTES_MAX + 100);
    run_in(&mut above, &bench, add(&[path(1)])).unwrap_err();
    bench.ok(add(&[path(30)]));
    bench.ok(Command::CancelRequest { request });
    let mut above = keeping(&bench, "anna", KEPT_PATH_BYTES_MAX + 100);
    run_in(&mut above, &bench, Command::ForgetRequest { request }).unwrap();
    assert_eq!(View::new(&above).path_bytes("anna").unwrap(), KEPT_PATH_BYTES_MAX + 70);
    let mut less = keeping(&bench, "anna", 29);
    let miscounted = run_in(&mut less, &bench, Command::ForgetRequest { request }).unwrap_err();
    assert!(matches!(miscounted, Rejection::Read(_)), "{miscounted:?}");
}

/// What is kept counts until it is gone, whether the request waits, has ended, holds files or is half gone.
#[test]
fn paths_count_until_they_are_gone() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    assert!(!bench.view().has_uncounted_paths().unwrap(), "there is nothing older");
    let file = bench.put("one", "1");
    let kept = |bench: &Bench| bench.view().path_bytes("anna").unwrap();
    let held = open(&mut bench, "anna").unwrap();
    let asked = AskedPath { path: "/one".into(), file: AskedFor::File(file), pin: None };
    bench.ok(Command::AddPaths { request: held, paths: vec![asked.clone(), refused(1), refused(23)] });
    assert_eq!(kept(&bench), 4 + 7 + 8);
    let doubled = vec![asked; 2];
    bench.ok(Command::AddPaths { request: held, paths: doubled });
    assert_eq!(kept(&bench), 27, "two paths to one file are two");
    close(&mut bench, held, 1);
    assert_eq!(bench.view().request(held).unwrap().unwrap().state, RequestState::Completed);
    let undone = open(&mut bench, "anna").unwrap();
    bench.ok(Command::AddPaths { request: undone, paths: vec![refused(7); 100] });
    bench.ok(Command::CancelRequest { request: undone });
    assert_eq!(kept(&bench), 727, "what has ended is kept");
    let some = |most| Command::DoSome { work: Work::ForgetRequest(undone), most };
    assert_eq!(bench.ok(some(60)), Outcome::More(true));
    assert_eq!(kept(&bench), 307);
    assert_eq!(bench.ok(some(60)), Outcome::More(false));
    assert_eq!(kept(&bench), 27);
    // The rows of items go first, and leave room for two paths.
    assert_eq!(bench.ok(Command::DoSome { work: Work::ForgetRequest(held), most: 3 }), Outcome::More(true));
    assert_eq!(kept(&bench), 19);
    bench.ok(Command::ForgetRequest { request: held });
    assert_eq!(bench.store.rows(Table::PathBytes).count(), 0);
}

/// A log of before the count gives what it gave; the paths that it left are counted bit by bit, while others
/// come and go.
#[test]
fn paths_that_are_older_than_their_count_come_to_be_counted() {
    let mut bench = Bench::new();
    let old: Vec<_> = ["anna", "bert", "anna"].map(|owner| open(&mut bench, owner).unwrap()).to_vec();
    for (at, request) in old.iter().enumerate() {
        let paths = (0..5).map(|number| refused(10u32.pow(at as u32) + number)).collect();
        bench.ok(Command::AddPaths { request: *request, paths });
    }
    assert_eq!(bench.store.rows(Table::PathBytes).count(), 0, "nothing is counted yet");
    let kept = |bench: &Bench| ["anna", "bert"].map(|owner| bench.view().path_bytes(owner).unwrap());
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    assert_eq!(kept(&bench), [0, 0]);
    let some = Command::DoSome { work: Work::CountPaths, most: 3 };
    assert_eq!(bench.ok(some.clone()), Outcome::More(true));
    assert_eq!(kept(&bench), [21, 0]);
    // The last two are not counted yet, and nothing is taken for them.
    bench.ok(Command::CancelRequest { request: old[0] });
    bench.ok(Command::DoSome { work: Work::ForgetRequest(old[0]), most: 3 });
    assert_eq!(kept(&bench), [14, 0]);
    // The count comes to what is added now.
    let new = open(&mut bench, "bert").unwrap();
    bench.ok(Command::AddPaths { request: new, paths: vec![refused(7)] });
    assert_eq!(kept(&bench), [14, 0]);
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    assert_eq!(bench.ok(some.clone()), Outcome::More(true), "it goes on, and does not begin anew");
    assert_eq!(kept(&bench), [14, 24]);
    bench.ok(Command::AddPaths { request: old[1], paths: vec![refused(7)] });
    bench.ok(Command::ForgetRequest { request: old[0] });
    assert_eq!(kept(&bench), [0, 24]);
    while bench.ok(some.clone()) == Outcome::More(true) {}
    assert_eq!(kept(&bench), [5 * 9, 5 * 8 + 2 * 7]);
    assert!(!bench.view().has_uncounted_paths().unwrap());
    let last = bench.view().last_change().unwrap();
    assert_eq!(bench.ok(some), Outcome::More(false));
    assert_eq!(bench.view().last_change().unwrap(), last, "nothing is left to do");
    bench.ok(Command::AddPaths { request: old[2], paths: vec![refused(7)] });
    assert_eq!(kept(&bench), [5 * 9 + 7, 5 * 8 + 2 * 7]);
}

/// What was miscounted is found.
#[test]
fn a_check_counts_the_bytes_of_paths_anew() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    let request = open(&mut bench, "anna").unwrap();
    bench.ok(Command::AddPaths { request, paths: vec![refused(1)] });
    let wrong = |store: &MemoryStore| View::new(store).check().unwrap();
    assert_eq!(wrong(&keeping(&bench, "anna", 7)), []);
    for (owner, bytes, found) in [("anna", 6, 1), ("anna", 8, 1), ("bert", 7, 1), ("bert", 0, 1)] {
        let found_now = wrong(&keeping(&bench, owner, bytes));
        assert_eq!(found_now.len(), found, "{found_now:?}");
        assert_eq!(found_now[0].table, Table::PathBytes);
    }
    let mut uncounted = bench.store.clone();
    uncounted.delete(Table::PathBytes, &kept_row("anna", 7).0).unwrap();
    assert_eq!(wrong(&uncounted).len(), 1);
    let mut without_rule = bench.store.clone();
    without_rule.delete(Table::Rule, &[8]).unwrap();
    assert_eq!(wrong(&without_rule).len(), 1, "what is not to be counted is");
}

/// Paths that a history of changes left: request, number, owner and bytes of each.
type Kept = Vec<(RequestId, u32, &'static str, u64)>;

/// Random histories of what adds, counts and removes paths, beside a list of all paths.
#[test]
fn bytes_of_paths_agree_with_a_list_of_them() {
    const OWNERS: [&str; 2] = ["anna", "bert"];
    let (mut counted_late, mut most_kept) = (0, 0);
    for seed in 1..=20_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most
        };
        let mut bench = Bench::new();
        let (mut open_ones, mut ended) = (Vec::new(), Vec::new());
        let (mut kept, mut holds, mut behind) = (Kept::new(), false, None);
        for _ in 0..150 {
            let open_at = (!open_ones.is_empty()).then(|| below(open_ones.len() as u64) as usize);
            match (below(12), open_at) {
                (0..2, _) => {
                    let owner = OWNERS[below(2) as usize];
                    open_ones.push((open(&mut bench, owner).unwrap(), owner, 0));
                }
                (2..6, Some(at)) => {
                    let (request, owner, next) = &mut open_ones[at];
                    let paths: Vec<_> = (0..below(5)).map(|_| "/".repeat(below(300) as usize)).collect();
                    for path in &paths {
                        kept.push((*request, *next, *owner, path.len() as u64));
                        *next += 1;
                    }
                    let paths = paths.into_iter().map(|path| AskedPath { path, ..refused(0) }).collect();
                    bench.ok(Command::AddPaths { request: *request, paths });
                }
                (6, Some(at)) => {
                    let (request, _, paths) = open_ones.swap_remove(at);
                    bench.ok(Command::CancelRequest { request });
                    ended.push((request, paths));
                }
                (7..9, _) if !ended.is_empty() => {
                    let at = below(ended.len() as u64) as usize;
                    let ((request, left), most) = (&mut ended[at], 1 + below(6) as u32);
                    let some = Command::DoSome { work: Work::ForgetRequest(*request), most };
                    *left = left.saturating_sub(most);
                    kept.retain(|(of, number, _, _)| of != request || number < left);
                    if bench.ok(some) == Outcome::More(false) {
                        assert_eq!(ended.swap_remove(at).1, 0);
                    }
                }
                (9, _) if below(4) == 0 => {
                    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
                    if !holds && !kept.is_empty() {
                        behind = Some((RequestId(0), 0));
                    }
                    holds = true;
                }
                (10, _) => {
                    let most = 1 + below(4) as u32;
                    bench.ok(Command::DoSome { work: Work::CountPaths, most });
                    if let Some(from) = behind {
                        kept.sort_unstable();
                        let places = kept.iter().map(|(request, number, _, _)| (*request, *number));
                        let last = places.filter(|place| *place >= from).nth(most as usize - 1);
                        behind = last.map(|(request, number)| (request, number + 1));
                        counted_late += 1;
                    }
                }
                _ => continue,
            }
            for owner in OWNERS {
                let is_counted =
                    |request, number| holds && behind.is_none_or(|from| (request, number) < from);
                let of_owner =
                    kept.iter().filter(|(id, number, of, _)| *of == owner && is_counted(*id, *number));
                let bytes: u64 = of_owner.map(|(_, _, _, bytes)| bytes).sum();
                assert_eq!(bench.view().path_bytes(owner).unwrap(), bytes, "seed {seed}, {owner}");
                most_kept = most_kept.max(bytes);
            }
            assert_eq!(bench.view().has_uncounted_paths().unwrap(), behind.is_some(), "seed {seed}");
        }
    }
    assert!(counted_late > 40 && most_kept > 2_000, "{counted_late} {most_kept}: the histories do little");
}
