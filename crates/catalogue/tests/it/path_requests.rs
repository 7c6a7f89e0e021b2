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
