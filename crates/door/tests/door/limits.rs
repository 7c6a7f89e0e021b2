//! Who may come in, how much, how fast.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use archive::Locality;
use door::{DoorSettings, Limits, Listener};
use transfer::TransferLimits;
use wire::CreatedReply;

use crate::client::{KEY, Reply, Server, at, at_rate, impatient, refused, transfers};
use crate::fake::Event;

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn without_the_right_key_nothing_is_said() {
    let server = Server::start();
    server.engine.add("/f", b"x", Locality::Online);
    let mut bodies = HashSet::new();
    for key in [
        "",
        "Authorization: Bearer secret-of-ann\r\n",
        "Authorization: Basic x\r\n",
        "Authorization: Bearer \r\n",
    ] {
        // The body is announced but never sent: the answer does not wait for it.
        for target in
            ["GET /data/f", "PUT /data/g", "GET /nowhere", "POST /api/v1/requests", "GET /api/v1/stat"]
        {
            let reply =
                server.raw(format!("{target} HTTP/1.1\r\nHost: h\r\n{key}Content-Length: 1000\r\n\r\n"));
            refused(&reply, 401, "unauthorized");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"kist\""));
            assert_eq!(reply.header("connection"), Some("close"), "{target}");
            bodies.insert(reply.body);
        }
    }
    assert_eq!(bodies.len(), 1);
    let health = server.raw("GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!((health.status, health.body.as_slice()), (200, b"ok\n".as_slice()));
}

/// A reply to a request whose body was not read closed its connection without a word, if the body came after
/// the head; the client sent its next request into nothing and could not know whether it was carried out.
#[test]
fn a_reply_says_that_it_is_the_last_on_its_connection() {
    let server = Server::start();
    let post = |target: &str| format!("POST {target} HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: 2\r\n\r\n");
    // Nothing that could stand in a body matters here, so it is not read, whether it comes or not.
    for body in ["{}", ""] {
        let reply = server.raw(post("/api/v1/drives/d0/up") + body);
        assert_eq!(reply.header("connection"), Some("close"), "{}", reply.head);
    }
    // A body that was read leaves the connection open for the next request.
    let mut stream = server.connect();
    stream.write_all((post("/api/v1/migrate") + "{}").as_bytes()).unwrap();
    let last = format!("GET /api/v1/status HTTP/1.1\r\nHost: h\r\n{KEY}Connection: close\r\n\r\n");
    stream.write_all(last.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    let (first, second) = replies.split_at(replies.rfind("HTTP/1.1").unwrap());
    assert!(
        first.starts_with("HTTP/1.1 2") && !first.to_lowercase().contains("connection: close"),
        "{first}"
    );
    assert!(second.starts_with("HTTP/1.1 200") && second.to_lowercase().contains("connection: close"));
}

#[test]
fn headers_and_addresses_have_limits() {
    let limits = Limits { header_bytes: 20_000, uri_bytes: 1000, header_count: 20, ..Limits::default() };
    let server = Server::with(limits);
    let get = |target: &str, headers: &str| server.request("GET", target, headers, b"").status;
    assert_eq!(get("/api/v1/status", &format!("X: {}\r\n", "x".repeat(19_000))), 200);
    assert_eq!(get("/api/v1/status", &format!("X: {}\r\n", "x".repeat(20_000))), 431);
    assert_eq!(get("/api/v1/status", &"X: x\r\n".repeat(16)), 200);
    assert_eq!(get("/api/v1/status", &"X: x\r\n".repeat(17)), 431);
    let path = "x/".repeat(496);
    assert_eq!(get(&format!("/data/{path}yy"), ""), 404);
    refused(&server.get(&format!("/data/{path}yyy")), 414, "uri-too-long");
    assert_eq!(get(&format!("/data/{}", "x/".repeat(8000)), ""), 414);
    assert_eq!(server.raw("nonsense\r\n\r\n").status, 400);
    assert_eq!(server.raw([0xff; 100]).status, 400);
}

#[test]
fn a_header_that_never_ends_is_not_waited_for() {
    let server = Server::with(Limits { header_deadline: SHORT, ..Limits::default() });
    for text in ["", "GET /data/f HT", "GET /data/f HTTP/1.1\r\nHost: h\r\nX"] {
        let mut stream = server.connect();
        stream.write_all(text.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert!(bytes.is_empty(), "{bytes:?}");
    }
    // The same for a connection that is idle after a reply.
    let mut stream = server.connect();
    stream.write_all(format!("GET /data/f HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    assert_eq!(Reply::read(&mut stream).status, 404);
}

#[test]
fn a_slow_body_is_answered_408() {
    let limits = at_rate(1000, SHORT);
    let server = Server::with(limits);
    // The engine hears of a small body only once it is there.
    for length in [100_000, 1_000_000] {
        let mut stream = server.connect();
        let head = format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: {length}\r\n\r\nabc");
        stream.write_all(head.as_bytes()).unwrap();
        refused(&Reply::read(&mut stream), 408, "timeout");
    }
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
    assert!(server.engine.files.lock().unwrap().is_empty());
}

#[test]
fn a_slow_reader_is_broken_off() {
    let limits = at_rate(1000, SHORT);
    let server = Server::with(limits);
    server.engine.add("/endless", &[7; 1 << 16], Locality::Online);
    let mut stream = server.connect();
    stream.write_all(format!("GET /data/endless HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    // Nothing is read until the engine's side has been closed.
    assert_eq!(server.engine.event(), Event::Closed("/endless".into()));
    let reply = Reply::read(&mut stream);
    assert_eq!(reply.status, 200);
    assert!(reply.body.len() < 1 << 30);
}

/// Found in review: a client that got copies kept the piece that was copied as well, for as long as it liked.
#[test]
fn a_slow_reader_that_borrows_nothing_keeps_no_memory_of_the_engine() {
    const LOOKS: usize = 20;
    let server = Server::with(transfers(TransferLimits { loans: 0, ..TransferLimits::default() }));
    server.engine.add("/endless", &[7; 1 << 16], Locality::Online);
    let mut stream = server.connect();
    stream.write_all(format!("GET /data/endless HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    // The connection takes some pieces before it is full.
    let (mut free, mut looks) = (0, 0);
    while free < LOOKS {
        let has_begun = server.engine.most.load(SeqCst) > 0;
        let held = server.engine.outstanding.load(SeqCst);
        free = if has_begun && held == 0 { free + 1 } else { 0 };
        looks += 1;
        assert!(looks < 100 * LOOKS, "{held} pieces are held");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_connection_too_many_is_told() {
    let server = Server::with(Limits { connections: 1, ..Limits::default() });
    let mut first = server.connect();
    first.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n").unwrap();
    let second = server.raw("");
    assert_eq!((second.status, second.header("kist-problem")), (503, Some("unavailable")));
    first.write_all(b"Connection: close\r\n\r\n").unwrap();
    assert_eq!(Reply::read(&mut first).status, 200);
}

/// A put that has begun and waits for the rest of its body, whose length nobody knows.
fn begun(server: &Server) -> std::net::TcpStream {
    let mut stream = server.connect();
    let head = "PUT /data/f HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    stream.write_all(format!("{head}{KEY}\r\n3\r\nabc\r\n").as_bytes()).unwrap();
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    stream
}

/// The rest of a body that [`begun`] began.
const REST: &[u8] = b"3\r\ndef\r\n0\r\n\r\n";

#[test]
fn one_principal_cannot_take_all_places() {
    let server = Server::with(Limits { principal_requests: 1, ..Limits::default() });
    let mut first = begun(&server);
    let second = server.get("/api/v1/status");
    refused(&second, 429, "too-many-requests");
    assert!(second.header("retry-after").is_some());
    let bert = "GET /api/v1/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                Authorization: Bearer secret-of-bert\r\n\r\n";
    assert_eq!(server.raw(bert).status, 200);
    first.write_all(REST).unwrap();
    assert_eq!(Reply::read(&mut first).status, 201);
}

#[test]
fn one_principal_has_a_rate() {
    let server = Server::with(Limits { requests_per_second: Some(1), ..Limits::default() });
    // A second may pass between two of them, but not between all.
    let replies: Vec<Reply> = (0..20).map(|_| server.get("/api/v1/status")).collect();
    assert_eq!(replies[0].status, 200);
    let late = replies.iter().find(|reply| reply.status != 200).expect("one too many");
    refused(late, 429, "too-many-requests");
    assert_eq!(late.header("retry-after"), Some("1"));
    let bert = "GET /api/v1/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                Authorization: Bearer secret-of-bert\r\n\r\n";
    assert_eq!(server.raw(bert).status, 200);
}

#[test]
fn transfers_do_not_hold_up_other_calls() {
    let server = Server::with(Limits {
        calls: 1,
        ..transfers(TransferLimits { at_once: 1, admission_wait: SHORT, ..TransferLimits::default() })
    });
    let mut first = begun(&server);
    let second = server.get("/data/g");
    refused(&second, 503, "unavailable");
    assert!(second.header("retry-after").is_some());
    assert_eq!(server.get("/api/v1/status").status, 200);
    first.write_all(REST).unwrap();
    assert_eq!(Reply::read(&mut first).status, 201);
    refused(&server.get("/data/g"), 404, "not-found");
}

fn paths(count: usize) -> String {
    let list: Vec<String> = (0..count).map(|i| format!("\"/experiment/run/{i:06}.root\"")).collect();
    format!("{{\"paths\":[{}],\"recursive\":false}}", list.join(","))
}

#[test]
fn a_hundred_thousand_paths_are_one_request_and_no_more() {
    let server = Server::start();
    let reply = server.post("/api/v1/requests", &paths(100_000));
    assert_eq!((reply.status, reply.json::<CreatedReply>().id), (201, 42));
    assert_eq!(server.engine.selections.lock().unwrap()[0].0, 100_000);
    refused(&server.post("/api/v1/requests", &paths(100_001)), 413, "limit");
    refused(&server.post("/api/v1/evict", &paths(100_001)), 413, "limit");
    refused(&server.post("/api/v1/requests/42/release", &paths(100_001)), 413, "limit");
    refused(
        &server.post("/api/v1/requests", &format!("{{\"paths\":[{}\"\"]}}", "\"\",".repeat(4_000_000))),
        413,
        "limit",
    );
    assert_eq!(server.engine.selections.lock().unwrap().len(), 1);
}

#[test]
fn a_json_body_has_a_limit_and_a_deadline() {
    let limits =
        Limits { json_bytes: 1000, json_list_bytes: 1000, json_deadline: SHORT, ..Limits::default() };
    let server = Server::with(limits);
    let body = |bytes: usize| format!("{{\"paths\":[\"/a\"],\"x\":\"{}\"}}", "x".repeat(bytes - 23));
    assert_eq!(server.post("/api/v1/requests", &body(1000)).status, 201);
    refused(&server.post("/api/v1/requests", &body(1001)), 413, "limit");
    let head = format!("POST /api/v1/requests HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{KEY}");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n", body(1001));
    refused(&server.raw(chunked), 413, "limit");
    // A chunk that claims 4 GiB takes no memory.
    let claim = format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffff\r\n{}", body(1001));
    refused(&server.raw(claim), 413, "limit");
    refused(&server.raw(format!("{head}Content-Length: 1000\r\n\r\n{{")), 408, "timeout");
    let deep = format!("{{\"paths\":{}", "[".repeat(900));
    refused(&server.post("/api/v1/requests", &deep), 400, "bad-request");
}

/// 100,000 paths are the limit, and those of a grid site, 165 bytes and more each, were refused as a body
/// that is too long.
#[test]
fn a_list_of_paths_may_be_longer_than_another_body() {
    let server = Server::start();
    let directory = format!("/{}", vec!["d".repeat(126); 8].join("/"));
    let paths: Vec<String> = (0..100_000).map(|number| format!("\"{directory}/{number:06}\"")).collect();
    let body = format!("{{\"paths\":[{}]}}", paths.join(","));
    assert!(body.len() > 100_000 * 1024, "{}", body.len());
    assert_eq!(server.post("/api/v1/requests", &body).status, 201);
    let selections = std::mem::take(&mut *server.engine.selections.lock().unwrap());
    assert_eq!(selections.iter().map(|(count, _)| count).sum::<usize>(), 100_000);
    // Bodies without a list are not, nor those that do not say how long they are.
    refused(&server.post("/api/v1/requests/42/priority", &" ".repeat((16 << 20) + 1)), 413, "limit");
    let limits = Limits { json_bytes: 1000, json_list_bytes: 2000, ..Limits::default() };
    let server = Server::with(limits);
    let body = |bytes: usize| format!("{{\"paths\":[\"/a\"],\"x\":\"{}\"}}", "x".repeat(bytes - 23));
    assert_eq!(server.post("/api/v1/requests", &body(2000)).status, 201);
    refused(&server.post("/api/v1/requests", &body(2001)), 413, "limit");
    let head = format!("POST /api/v1/requests HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{KEY}");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n", body(1001));
    refused(&server.raw(chunked), 413, "limit");
}

#[test]
fn requests_that_run_may_end_when_the_door_closes() {
    let mut server = Server::start();
    let mut running = begun(&server);
    server.begin_stop();
    // Nobody gets in any more: either refused, or closed without an answer.
    loop {
        match std::net::TcpStream::connect(server.address) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            _ => std::thread::yield_now(),
        }
    }
    running.write_all(REST).unwrap();
    assert_eq!(Reply::read(&mut running).status, 201);
    server.join();
    assert_eq!(server.engine.bytes.lock().unwrap()["/f"], "abcdef");
}

#[test]
fn a_request_that_does_not_end_is_broken_off() {
    let mut server = Server::with(Limits { drain: SHORT, ..Limits::default() });
    let mut running = begun(&server);
    server.begin_stop();
    assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
    assert_eq!(Reply::read(&mut running).status, 0);
    server.join();
    assert!(server.engine.files.lock().unwrap().is_empty());
}

const BERT: &str = "Host: h\r\nConnection: close\r\nAuthorization: Bearer secret-of-bert\r\n\r\n";

/// A hundred slow bodies of one user had all places for transfers, and nobody else got one.
#[test]
fn slow_bodies_of_one_user_leave_places_to_others() {
    let limits = transfers(TransferLimits {
        at_once: 8,
        admission_wait: Duration::from_secs(2),
        ..TransferLimits::default()
    });
    let server = Server::with(limits);
    server.engine.add("/g", b"x", Locality::Online);
    let head = "PUT /data/f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n";
    let slow: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(format!("{head}{KEY}\r\n3\r\nabc\r\n").as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..4 {
        assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    }
    let get = server.raw(format!("GET /data/g HTTP/1.1\r\n{BERT}"));
    assert_eq!((get.status, get.body.as_slice()), (200, b"x".as_slice()));
    drop(slow);
}

/// Nine slow bodies held all memory through which the pool is written, and every larger put of everybody
/// waited.
#[test]
fn a_body_that_stands_still_is_told_to_the_engine() {
    let server = Server::with(Limits::default());
    let mut stream = server.connect();
    let head = format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: 1000000\r\n\r\nabc");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    // Not told: the test would wait for ever.
    assert_eq!(server.engine.pauses.lock().unwrap().recv(), Ok("/f".to_owned()));
    stream.write_all(&vec![7; 1_000_000 - 3]).unwrap();
    assert_eq!(Reply::read(&mut stream).status, 201);
}

/// Stage, cancel, release and evict of a million files had the places of short calls for a minute.
#[test]
fn long_calls_do_not_hold_up_short_ones() {
    let server = Server::with(Limits { calls: 1, long_calls: 4, ..impatient(SHORT) });
    let held = server.engine.held.lock().unwrap();
    let body = "{\"paths\":[\"/held\"]}";
    let length = body.len();
    let head = format!("POST /api/v1/requests HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: {length}\r\n");
    let running: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
            assert_eq!(server.engine.event(), Event::Begun("/held".into()));
            stream
        })
        .collect();
    assert_eq!(server.get("/api/v1/status").status, 200);
    refused(&server.post("/api/v1/requests", "{\"paths\":[\"/a\"]}"), 503, "unavailable");
    let other = "{\"paths\":[\"/a\"]}";
    let head = BERT.trim_end();
    let post =
        format!("POST /api/v1/requests HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{other}", other.len());
    assert_eq!(server.raw(post).status, 201, "another caller has places of their own");
    drop(held);
    for mut stream in running {
        assert_eq!(Reply::read(&mut stream).status, 201);
    }
}

/// Story: of two demonstrations that began together, each found the usual port free, and one could not start.
#[test]
fn a_port_that_another_has_is_refused_or_passed_by() {
    let bind = |listener| {
        door::bind(DoorSettings { listeners: vec![listener], keys: Vec::new(), limits: Limits::default() })
    };
    let first = bind(at("127.0.0.1:0")).unwrap().addresses()[0];
    let holder = std::net::TcpListener::bind(first).unwrap();
    let refused = bind(at(first)).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("cannot listen at {first}: ")), "{refused}");
    let door = bind(Listener { another_port: true, ..at(first) }).unwrap();
    let second = door.addresses()[0];
    assert_eq!(second.ip(), first.ip());
    assert_ne!(second.port(), first.port());
    drop(holder);
}
