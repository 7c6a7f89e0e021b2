//! What no client should send.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base::Duration;
use bytes::Bytes;
use http::Request;
use hyper::body::{Body, Frame};
use tape_rest::{ROOT, TapeRestLimits, TapeRestSettings};
use transfer::RequestBody;

use crate::world::{World, files};

fn small() -> TapeRestSettings {
    let limits = TapeRestLimits {
        body_bytes: 4_096,
        body_small_bytes: 64,
        body_deadline: Duration::from_millis(50),
        uri_bytes: 200,
        ..TapeRestLimits::default()
    };
    TapeRestSettings { limits, ..TapeRestSettings::default() }
}

/// A body that says nothing of its length.
struct Pieces(Vec<Result<Bytes, io::Error>>, bool);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match (self.0.pop(), self.1) {
            (Some(piece), _) => Poll::Ready(Some(piece.map(Frame::data))),
            (None, true) => Poll::Pending,
            (None, false) => Poll::Ready(None),
        }
    }
}

fn post(world: &World, pieces: Vec<Result<Bytes, io::Error>>, hangs: bool) -> crate::world::Reply {
    let request = Request::post(format!("{ROOT}/v1/stage"))
        .header("host", "a")
        .header("authorization", format!("Bearer {}", world.anna));
    world.send_body(request.body(RequestBody::new(Pieces(pieces, hangs))).unwrap())
}

#[test]
fn bodies_are_as_long_as_they_may_be_and_no_longer() {
    let world = World::with(small());
    let padded = |length: usize| {
        let body = files(&["/d/here"]).to_string();
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    assert_eq!(world.call(&world.anna, "POST", "/v1/stage", padded(4_096)).status, 201);
    world.call(&world.anna, "POST", "/v1/stage", padded(4_097)).is_problem(413);
    let piece = |length: usize| Ok(Bytes::from(padded(length)));
    assert_eq!(post(&world, vec![piece(4_096)], false).status, 201);
    post(&world, vec![piece(4_096), Ok(Bytes::from_static(b" "))], false).is_problem(413);
    world.end();
}

#[test]
fn bodies_that_stop_end_as_errors() {
    let world = World::with(small());
    let begun = || Ok(Bytes::from_static(b"{\"files\":["));
    post(&world, vec![begun()], true).is_problem(408);
    post(&world, vec![Err(io::ErrorKind::UnexpectedEof.into()), begun()], false).is_problem(400);
    post(&world, vec![Err(io::ErrorKind::TimedOut.into()), begun()], false).is_problem(408);
    post(&world, vec![begun()], false).is_problem(400);
    assert_eq!(world.archive.requests(None, 10).unwrap(), []);
    world.end();
}

#[test]
fn bodies_of_other_kinds_are_refused() {
    let world = World::new();
    for (kind, status) in [
        ("application/json", 201),
        ("Application/JSON; charset=utf-8", 201),
        ("application/x-www-form-urlencoded", 201),
        ("text/xml", 400),
        ("multipart/form-data; boundary=x", 400),
        ("", 400),
    ] {
        let request = Request::post(format!("{ROOT}/v1/stage"))
            .header("host", "a")
            .header("content-type", kind)
            .header("authorization", format!("Bearer {}", world.anna));
        let reply = world.send(request.body(files(&["/d/here"]).to_string().into()).unwrap());
        assert_eq!(reply.status, status, "{kind}: {}", reply.text());
    }
    world.end();
}

/// Wrong types, members that stand twice, values in each other without end: 400, and nothing is done.
#[test]
fn malformed_bodies_do_nothing() {
    let world = World::new();
    let deep = format!("{{\"files\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let unclosed = "[".repeat(1_000_000);
    let bodies = [
        "",
        "null",
        "[]",
        "{",
        r#"{"files":[]}"#,
        r#"{"files":{}}"#,
        r#"{"files":[{"path":1}]}"#,
        r#"{"files":[{"path":"/d/a","path":"/d/b"}]}"#,
        r#"{"files":[{"path":"/d/a"}],"files":[]}"#,
        r#"{"paths":["/d/a"]}"#,
        r#"{"files":[{"path":"/d/a","diskLifetime":"forever"}]}"#,
        r#"{"files":[{"path":"\ud800"}]}"#,
        deep.as_str(),
        unclosed.as_str(),
    ];
    for body in bodies {
        world.call(&world.anna, "POST", "/v1/stage", body.to_owned()).is_problem(400);
    }
    assert_eq!(world.archive.requests(None, 10).unwrap(), []);
    let id = world.stage(&world.anna, &["/d/here"]);
    for body in [
        "",
        "[]",
        r#"{"paths":"/d/here"}"#,
        r#"{"paths":[1]}"#,
        r#"{"paths":[],"paths":[]}"#,
        r#"{"paths":[null]}"#,
    ] {
        for call in [format!("/v1/stage/{id}/cancel"), format!("/v1/release/{id}"), "/v1/archiveinfo".into()]
        {
            world.call(&world.anna, "POST", &call, body.to_owned()).is_problem(400);
        }
    }
    world.end();
}

/// Addresses with tricks name nothing; other methods are told which there are.
#[test]
fn other_addresses_and_methods_are_refused() {
    let world = World::with(small());
    for path in [
        "/v1",
        "/v2/stage",
        "/v1//stage",
        "/v1/stage/1/cancel/2",
        "/v1/stage/../stage",
        "/v1/stage%2f1",
        "/v1/release",
        "x/v1/stage",
    ] {
        world.get(&world.anna, path).is_problem(404);
        world.post(&world.anna, path, &files(&["/d/here"])).is_problem(404);
    }
    world.get(&world.anna, &format!("/v1/stage/{}", "1".repeat(300))).is_problem(414);
    for (method, path, allowed) in [
        ("POST", "", "GET, HEAD"),
        ("GET", "/v1/stage", "POST"),
        ("PUT", "/v1/stage/1", "GET, HEAD, DELETE"),
        ("GET", "/v1/stage/1/cancel", "POST"),
        ("DELETE", "/v1/release/1", "POST"),
        ("PATCH", "/v1/archiveinfo", "POST"),
    ] {
        let reply = world.call(&world.anna, method, path, "");
        reply.is_problem(405);
        assert_eq!(reply.header("allow"), allowed, "{method} {path}");
    }
    world.end();
}

/// Ids that were never given out, however they are written.
#[test]
fn forged_ids_name_nothing() {
    let world = World::new();
    let id = world.stage(&world.anna, &["/d/here"]);
    let forged = [
        format!("0{id}"),
        format!("+{id}"),
        format!("%3{id}"),
        format!("{id}%00"),
        format!("{id}.json"),
        format!("{id};x"),
        "18446744073709551615".to_owned(),
        "18446744073709551616".to_owned(),
        "1e0".to_owned(),
        "*".to_owned(),
    ];
    for forged in forged {
        world.get(&world.anna, &format!("/v1/stage/{forged}")).is_problem(404);
        world.call(&world.anna, "DELETE", &format!("/v1/stage/{forged}"), "").is_problem(404);
    }
    assert_eq!(world.poll(&world.anna, &id)["id"], id);
    world.end();
}

/// Found by a reader: a reply that its client does not take counted for nothing, so that any number of them
/// could be in memory.
#[test]
fn a_reply_that_is_not_taken_counts_against_its_caller() {
    let world = World::new();
    let long = std::time::Duration::from_secs(60);
    let address = format!("/v1/stage/{}", world.stage(&world.anna, &["/d/here"]));
    let held: Vec<_> = (0..64).map(|_| world.untaken(&world.anna, &address, long).unwrap()).collect();
    assert!(held.iter().all(|reply| reply.status() == 200));
    world.get(&world.anna, &address).is_problem(429);
    drop(held);
    assert_eq!(world.get(&world.anna, &address).status, 200);
}

#[test]
fn large_replies_wait_for_one_another() {
    let limits = TapeRestLimits {
        reply_small_bytes: 300,
        replies_large_at_once: 1,
        calls: 2,
        ..TapeRestLimits::default()
    };
    let world = World::with(TapeRestSettings { limits, ..TapeRestSettings::default() });
    let long = std::time::Duration::from_secs(60);
    let texts: Vec<String> = (0..100).map(|n| format!("/d/none/{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let large = format!("/v1/stage/{}", world.stage(&world.anna, &texts));
    let small = format!("/v1/stage/{}", world.stage(&world.anna, &["/d/here"]));
    let held = world.untaken(&world.anna, &large, long).unwrap();
    let second = world.untaken(&world.anna, &large, std::time::Duration::from_millis(100));
    assert!(second.is_none(), "the first one is not taken yet");
    assert_eq!(world.get(&world.anna, &small).status, 200, "a small one goes whatever the others do");
    drop(held);
    let reply = world.get(&world.anna, &large);
    assert_eq!((reply.status, reply.json()["files"].as_array().unwrap().len()), (200, 100));
}
