//! Calls over many files that are answered before they are over.

use std::io::Write;
use std::time::{Duration, Instant};

use base::ByteCount;
use door::Limits;
use wire::{CreatedReply, EvictReply, WorkReply};

use crate::client::{KEY, Reply, Server, impatient, refused};
use crate::fake::{Event, STEPS};

const SHORT: Duration = Duration::from_millis(20);
const ASYNC: &str = "Prefer: respond-async\r\n";
const HELD: &[u8] = b"{\"paths\":[\"/held\"]}";

fn look(server: &Server, id: u64) -> WorkReply {
    server.get(&format!("/api/v1/works/{id}")).json()
}

fn all(server: &Server) -> Vec<WorkReply> {
    server.get("/api/v1/works").json()
}

/// Asks until it has ended.
fn end(server: &Server, id: u64) -> WorkReply {
    let begun = Instant::now();
    loop {
        let work = look(server, id);
        if work.state != "running" {
            return work;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{work:?}");
    }
}

/// Story: a stage of a million files held its connection, and what it had done was lost with it.
#[test]
fn a_call_that_takes_long_is_answered_and_tells_how_it_ended() {
    let limits = Limits { calls: 1, long_calls: 4, answer_soon: SHORT, ..impatient(SHORT) };
    let server = Server::with(limits);
    let held = server.engine.held.lock().unwrap();
    let begin = |body: &[u8]| {
        let reply = server.request("POST", "/api/v1/requests", ASYNC, body);
        assert_eq!(reply.status, 202, "{reply:?}");
        assert_eq!(server.engine.event(), Event::Begun("/held".into()));
        let work: WorkReply = reply.json();
        assert!(reply.head.contains(&format!("location: /api/v1/works/{}\r\n", work.id)), "{}", reply.head);
        assert!(reply.head.contains("preference-applied: respond-async"), "{}", reply.head);
        work
    };
    let good = begin(HELD);
    let described = (good.what.as_str(), good.about.as_str(), good.state.as_str(), good.owner.as_str());
    assert_eq!(described, ("stage", "/held", "running", "anna"));
    let bad = begin(b"{\"paths\":[\"/held\",\"/lost\"]}");
    // One caller has half of the places; the next call finds none, and a short one does.
    refused(&server.request("POST", "/api/v1/requests", ASYNC, HELD), 503, "unavailable");
    assert_eq!(server.get("/api/v1/status").status, 200);
    assert_eq!(look(&server, good.id).state, "running");
    assert_eq!(all(&server).iter().map(|work| work.id).collect::<Vec<_>>(), [bad.id, good.id]);
    drop(held);
    let good = end(&server, good.id);
    assert_eq!((good.state.as_str(), good.status), ("done", Some(201)));
    let created: CreatedReply = serde_json::from_value(good.reply.unwrap()).unwrap();
    assert_eq!(created.id, 42);
    let bad = end(&server, bad.id);
    assert_eq!((bad.state.as_str(), bad.problem.unwrap().kind.as_str()), ("failed", "lost"));
    refused(&server.get("/api/v1/works/99"), 404, "not-found");
    refused(&server.get("/api/v1/works/x"), 400, "bad-request");
}

#[test]
fn what_is_over_soon_is_answered_as_always_and_forgotten() {
    let server = Server::start();
    let stage = server.request("POST", "/api/v1/requests", ASYNC, b"{\"paths\":[\"/a\"]}");
    assert_eq!((stage.status, stage.json::<CreatedReply>().id), (201, 42));
    let evict = server.request("POST", "/api/v1/evict", ASYNC, b"{\"paths\":[\"/a\"]}");
    assert_eq!((evict.status, evict.json::<EvictReply>().bytes), (200, ByteCount(5).0));
    assert_eq!(server.request("POST", "/api/v1/requests/42/cancel", ASYNC, b"").status, 204);
    assert_eq!(server.request("POST", "/api/v1/requests/42/release", ASYNC, b"").status, 204);
    refused(&server.request("POST", "/api/v1/requests/7/cancel", ASYNC, b""), 404, "not-found");
    assert!(all(&server).is_empty());
}

#[test]
fn a_client_that_goes_away_finds_its_answer_later() {
    let server = Server::with(Limits { connections: 1, ..Limits::default() });
    let held = server.engine.held.lock().unwrap();
    let mut stream = server.connect();
    let length = HELD.len();
    let head = format!("POST /api/v1/requests HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), HELD].concat()).unwrap();
    assert_eq!(server.engine.event(), Event::Begun("/held".into()));
    drop(stream);
    // Its connection is free once the server has noticed.
    let begun = Instant::now();
    let id = loop {
        let reply = server.get("/api/v1/works");
        let works = if reply.status == 200 { reply.json::<Vec<WorkReply>>() } else { Vec::new() };
        match works.first() {
            Some(work) => break work.id,
            None => assert!(begun.elapsed() < Duration::from_secs(20)),
        }
    };
    drop(held);
    let begun = Instant::now();
    loop {
        let reply = server.get(&format!("/api/v1/works/{id}"));
        let work = (reply.status == 200).then(|| reply.json::<WorkReply>());
        if let Some(work) = work.filter(|work| work.state != "running") {
            break assert_eq!((work.state.as_str(), work.status), ("done", Some(201)));
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

/// As many ended calls as are remembered, and one more.
#[test]
fn ended_calls_are_remembered_up_to_a_limit() {
    const KEPT: u64 = 100;
    let limits = Limits { long_calls: 4 * KEPT as usize, answer_soon: Duration::ZERO, ..Limits::default() };
    let server = Server::with(limits);
    let held = server.engine.held.lock().unwrap();
    for _ in 0..=KEPT {
        assert_eq!(server.request("POST", "/api/v1/requests", ASYNC, HELD).status, 202);
    }
    let ids: Vec<u64> = all(&server).iter().rev().map(|work| work.id).collect();
    assert_eq!(ids.len() as u64, KEPT + 1);
    drop(held);
    ids.iter().for_each(|id| assert_eq!(end(&server, *id).state, "done"));
    // The next call makes room.
    assert_eq!(server.post("/api/v1/requests", "{\"paths\":[\"/a\"]}").status, 201);
    let kept: Vec<u64> = all(&server).iter().map(|work| work.id).collect();
    assert_eq!(kept, ids.into_iter().skip(1).rev().collect::<Vec<_>>());
}

/// Story: ended calls that were remembered counted as requests of their caller, up to a hundred of 512.
#[test]
fn an_ended_call_is_no_request_of_its_caller_any_more() {
    const AT_ONCE: usize = 3;
    let limits =
        Limits { principal_requests: AT_ONCE, long_calls: 16, answer_soon: SHORT, ..Limits::default() };
    let server = Server::with(limits);
    for round in 0..4 {
        let held = server.engine.held.lock().unwrap();
        let begin = |_| server.request("POST", "/api/v1/requests", ASYNC, HELD);
        let begun: Vec<Reply> = (1..AT_ONCE).map(begin).collect();
        assert!(begun.iter().all(|reply| reply.status == 202), "round {round}: {begun:?}");
        let ids: Vec<u64> = begun.iter().map(|reply| reply.json::<WorkReply>().id).collect();
        assert_eq!(look(&server, ids[0]).state, "running");
        drop(held);
        for id in ids {
            let work = end(&server, id);
            assert_eq!((work.state.as_str(), work.about.as_str()), ("done", "/held"));
        }
    }
}

/// Story: a report over a year read 1 GB of log for 34 s, and held its connection and its place so long.
#[test]
fn a_report_is_made_in_steps_and_gives_its_place_back_between_them() {
    let server = Server::with(Limits { long_calls: 1, answer_soon: SHORT, ..Limits::default() });
    let (word, gate) = std::sync::mpsc::channel();
    *server.engine.usage_gate.lock().unwrap() = Some(gate);
    let reply = server.request("GET", "/api/v1/report/usage?seconds=60", ASYNC, b"");
    assert_eq!(reply.status, 202, "{reply:?}");
    let id = reply.json::<WorkReply>().id;
    assert_eq!(server.engine.event(), Event::Begun("step 0".into()));
    // Another long call waits for the one place, and gets it when the first step is over.
    let mut other = server.connect();
    let body = b"{\"paths\":[\"/a\"]}";
    let head = format!("POST /api/v1/requests HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{KEY}");
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    other.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let begun = Instant::now();
    let waits = |page: &[u8]| String::from_utf8_lossy(page).contains("_waiting{kind=\"long_calls\"} 1");
    while !waits(&server.get("/metrics").body) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", server.get("/metrics"));
    }
    word.send(()).unwrap();
    assert_eq!(Reply::read(&mut other).status, 201);
    assert_eq!(server.engine.event(), Event::Begun("step 1".into()));
    let work = look(&server, id);
    assert_eq!((work.state.as_str(), work.what.as_str()), ("running", "usage"));
    assert_eq!((work.bytes, work.bytes_total), (1, STEPS));
    (1..STEPS).for_each(|_| word.send(()).unwrap());
    let work = end(&server, id);
    assert_eq!((work.state.as_str(), work.status, work.bytes), ("done", Some(200), STEPS));
    let report: wire::UsageReply = serde_json::from_value(work.reply.unwrap()).unwrap();
    assert!(report.logged);
    // Without the preference it is answered when it is made.
    let (word, gate) = std::sync::mpsc::channel();
    (0..STEPS).for_each(|_| word.send(()).unwrap());
    *server.engine.usage_gate.lock().unwrap() = Some(gate);
    assert_eq!(server.get("/api/v1/report/usage").status, 200);
}
