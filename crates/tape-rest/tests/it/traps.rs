//! What real clients do, each as a test; the numbers are those of `docs/reference/tape-rest.md`.

use http::Request;
use serde_json::{Value, json};
use tape_rest::{ROOT, TapeRestSettings};

use crate::world::{HOST, World, entry, files, members, paths};

/// The discovery needs no credential, and tells the address as the client came to it: on TLS and in clear.
#[test]
fn the_discovery_is_for_everybody() {
    let world = World::new();
    let reply = world.get("", "");
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    let uri = format!("https://{HOST}{ROOT}/v1");
    assert_eq!(reply.json(), json!({ "sitename": "KIST", "endpoints": [{ "uri": uri, "version": "v1" }] }));
    for (host, status) in [("127.0.0.1:80", 200), ("[::1]:8080", 200), ("a/b", 400), ("a b", 400), ("", 400)]
    {
        let request = Request::builder().uri(ROOT).header("host", host).body("".into()).unwrap();
        let reply = world.send(request);
        assert_eq!(reply.status, status, "{host}");
        match status {
            200 => {
                assert_eq!(reply.json()["endpoints"][0]["uri"], format!("http://{host}{ROOT}/v1"));
            }
            _ => drop(reply.is_problem(400)),
        }
    }
    let twice = Request::builder().uri(ROOT).header("host", "a").header("host", "b").body("".into()).unwrap();
    world.send(twice).is_problem(400);
    let none = Request::builder().uri(ROOT).body("".into()).unwrap();
    world.send(none).is_problem(400);
    let by_authority = Request::builder().uri(format!("http://h.example:1{ROOT}")).body("".into()).unwrap();
    assert_eq!(
        world.send(by_authority).json()["endpoints"][0]["uri"],
        format!("http://h.example:1{ROOT}/v1")
    );
    world.end();
}

#[test]
fn a_public_address_stands_before_all_others() {
    let world = World::with(TapeRestSettings {
        public_url: Some("https://grid.example.org/".into()),
        description: Some("a tape archive".into()),
        ..TapeRestSettings::default()
    });
    let told = world.get("", "/").json();
    assert_eq!(told["description"], "a tape archive");
    assert_eq!(told["endpoints"][0]["uri"], format!("https://grid.example.org{ROOT}/v1"));
    let reply = world.post(&world.anna, "/v1/stage", &files(&["/d/here"]));
    assert!(reply.header("location").starts_with(&format!("https://grid.example.org{ROOT}/v1/stage/")));
    world.end();
}

/// Trap 1: gfal2 posts to `/stage/` and `/archiveinfo/`.
#[test]
fn slashes_at_the_end_are_taken() {
    let world = World::new();
    for end in ["", "/"] {
        let reply = world.post(&world.anna, &format!("/v1/stage{end}"), &files(&["/d/here"]));
        let id = reply.json()["requestId"].as_str().unwrap().to_owned();
        assert_eq!((reply.status, members(&reply.json())), (201, vec!["requestId"]));
        assert_eq!(reply.header("location"), format!("https://{HOST}{ROOT}/v1/stage/{id}"));
        let reply = world.post(&world.anna, &format!("/v1/archiveinfo{end}"), &paths(&["/d/here"]));
        assert_eq!((reply.status, reply.json()), (200, json!([{ "path": "/d/here", "locality": "DISK" }])));
        assert_eq!(world.get(&world.anna, &format!("/v1/stage/{id}{end}")).status, 200);
        let body = paths(&["/d/here"]);
        assert_eq!(world.post(&world.anna, &format!("/v1/release/{id}{end}"), &body).status, 200);
        assert_eq!(world.post(&world.anna, &format!("/v1/stage/{id}/cancel{end}"), &body).status, 200);
        let reply = world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}{end}"), "");
        assert_eq!((reply.status, reply.body.len()), (200, 0));
        world.get(&world.anna, &format!("/v1/stage/{id}{end}")).is_problem(404);
    }
    world.end();
}

/// Trap 2: `gfal-evict` without a request calls `/release/gfal2-placeholder-id`. Only a release of what is
/// not there is answered so.
#[test]
fn a_release_of_an_unknown_request_is_no_error() {
    let world = World::new();
    let theirs = world.stage(&world.bert, &["/d/here"]);
    for id in ["gfal2-placeholder-id", "999999", "0", "-1", theirs.as_str()] {
        let reply = world.post(&world.anna, &format!("/v1/release/{id}"), &paths(&["/d/here"]));
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{id}: {}", reply.text());
        world.get(&world.anna, &format!("/v1/stage/{id}")).is_problem(404);
        world.post(&world.anna, &format!("/v1/stage/{id}/cancel"), &paths(&["/d/here"])).is_problem(404);
        world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}"), "").is_problem(404);
    }
    world.post("", "/v1/release/gfal2-placeholder-id", &paths(&["/d/here"])).is_problem(401);
    assert_eq!(
        world
            .archive
            .object(&crate::common::path("/d/here"), archive::Which::Current)
            .unwrap()
            .file
            .pins
            .len(),
        1,
        "what bert holds stays held"
    );
    world.end();
}

/// Trap 3: `"error": null` crashes gfal2, and any `error` counts as a failure. No member is null, anywhere.
#[test]
fn no_member_is_null_and_only_failures_have_an_error() {
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(values) => values.iter().any(has_null),
            Value::Object(members) => members.values().any(has_null),
            _ => false,
        }
    }
    let world = World::new();
    let id = world.stage(&world.anna, &["/d/a", "/d/here", "/d/none", "/d", "/d/empty"]);
    let polled = world.completed(&world.anna, &id);
    let looked = world.post(&world.anna, "/v1/archiveinfo", &paths(&["/d/a", "/d/none", "x"])).json();
    assert!(!has_null(&polled) && !has_null(&looked) && !has_null(&world.get("", "").json()), "{polled}");
    for file in polled["files"].as_array().unwrap() {
        let has_failed = file["state"] == "FAILED";
        assert_eq!(file.get("error").is_some(), has_failed, "{file}");
    }
    assert_eq!(members(&polled), ["completedAt", "createdAt", "files", "id", "startedAt"]);
    assert_eq!(members(entry(&polled, "/d/a")), ["finishedAt", "path", "startedAt", "state"]);
    world.end();
}

/// Trap 4: gfal2 does not know the state `CANCELLED`.
#[test]
fn a_cancelled_file_is_not_on_disk_and_an_error() {
    let world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d//a", "/d/b"]);
    let reply = world.post(&world.anna, &format!("/v1/stage/{id}/cancel"), &paths(&["/d/a", "/d/c"]));
    assert!(reply.is_problem(400).contains("/d/c"), "{}", reply.text());
    assert_eq!(entry(&world.poll(&world.anna, &id), "/d//a")["state"], "SUBMITTED", "nothing was done");
    let reply = world.post(&world.anna, &format!("/v1/stage/{id}/cancel"), &paths(&["/d/a"]));
    assert_eq!((reply.status, reply.body.len()), (200, 0), "{}", reply.text());
    let polled = world.poll(&world.anna, &id);
    assert_eq!(entry(&polled, "/d//a"), &json!({ "path": "/d//a", "onDisk": false, "error": "cancelled" }));
    assert_eq!(entry(&polled, "/d/b"), &json!({ "path": "/d/b", "state": "SUBMITTED" }));
    assert!(polled.get("completedAt").is_none());
    world.set_drives(true);
    assert_eq!(entry(&world.completed(&world.anna, &id), "/d/b")["state"], "COMPLETED");
    world.end();
}

/// Trap 5: the lifetime of a pin that gfal2 is told never reaches the server, whose own counts then. A longer
/// one than it allows is made so long.
#[test]
fn the_server_says_how_long_files_are_pinned() {
    let settings = TapeRestSettings {
        lifetime: base::Duration::from_secs(7_200),
        lifetime_max: base::Duration::from_secs(100_000),
        ..TapeRestSettings::default()
    };
    let world = World::with(settings);
    for (lifetime, seconds) in [(None, 7_200), (Some("PT1H"), 3_600), (Some("P9Y"), 100_000)] {
        let mut file = json!({ "path": "/d/here" });
        if let Some(lifetime) = lifetime {
            file["diskLifetime"] = json!(lifetime);
        }
        let reply = world.post(&world.anna, "/v1/stage", &json!({ "files": [file] }));
        assert_eq!(reply.status, 201, "{}", reply.text());
        let id: u64 = reply.json()["requestId"].as_str().unwrap().parse().unwrap();
        let found = world.archive.path_request(base::RequestId(id)).unwrap();
        let pins =
            world.archive.object(&crate::common::path("/d/here"), archive::Which::Current).unwrap().file.pins;
        let until = pins.iter().find(|(request, _)| request.0 == id).unwrap().1;
        let archive::PathState::File(item, _) = &found.paths[0].1 else { panic!("{found:?}") };
        assert_eq!(until.0 - item.ended().unwrap().0, seconds * 1_000_000_000);
        world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}"), "");
    }
    world.end();
}

/// Trap 7: a path that was asked for is in the answer, as it was asked for; the client compares with slashes
/// collapsed.
#[test]
fn each_path_is_in_the_answer_once_as_it_was_written() {
    let world = World::new();
    let asked = ["//d///a", "/d/here", "/d/none", "relative", "", "/d/../d/b", "/d/a", "/d/a/", "/d/%61"];
    let id = world.stage(&world.anna, &asked);
    let polled = world.completed(&world.anna, &id);
    let mut told: Vec<_> =
        polled["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    told.sort_unstable();
    let mut expected = vec!["//d///a", "/d/here", "/d/none", "relative", "", "/d/../d/b", "/d/%61"];
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert_eq!(entry(&polled, "//d///a")["state"], "COMPLETED");
    for failed in ["/d/none", "relative", "", "/d/../d/b", "/d/%61"] {
        assert_eq!(entry(&polled, failed)["state"], "FAILED", "{failed}");
    }
    let looked =
        world.post(&world.anna, "/v1/archiveinfo", &paths(&["//d///a", "/d/../d/b", "/d/%61"])).json();
    assert_eq!(looked[0], json!({ "path": "//d///a", "locality": "DISK_AND_TAPE" }));
    assert!(looked[1].get("error").is_some() && looked[2].get("error").is_some(), "{looked}");
    world.end();
}

/// Files that would never go to tape fail one by one when they are polled, not with the request; a file that
/// is on disk is completed at once.
#[test]
fn what_never_goes_to_tape_fails_alone() {
    let world = World::new();
    let id = world.stage(&world.anna, &["/d", "/d/empty", "/d/here"]);
    let polled = world.poll(&world.anna, &id);
    assert_eq!(polled["id"], id);
    assert!(polled["completedAt"].as_u64() >= polled["createdAt"].as_u64(), "{polled}");
    for path in ["/d", "/d/empty"] {
        let file = entry(&polled, path);
        assert_eq!(file["state"], "FAILED", "{file}");
        assert_eq!(members(file), ["error", "finishedAt", "path", "startedAt", "state"]);
    }
    assert_eq!(entry(&polled, "/d/here")["state"], "COMPLETED");
    world.end();
}

/// Metadata for others is passed over; that for this site, or for any, says how urgent it is.
#[test]
fn metadata_for_this_site_counts_and_other_is_passed_over() {
    let settings = TapeRestSettings {
        sitename: "KIST".into(),
        activities: [("Production Input".to_owned(), 8)].into(),
        ..TapeRestSettings::default()
    };
    let world = World::with(settings);
    world.set_drives(false);
    for (n, (metadata, priority)) in [
        (json!({}), 5),
        (json!({ "default": { "priority": "100" } }), 9),
        (json!({ "KIST": { "priority": "0" }, "default": { "priority": "100" } }), 0),
        (json!({ "default": { "activity": "Production Input" } }), 8),
        (json!({ "elsewhere": { "priority": "100", "deep": [{ "a": [1] }] } }), 5),
        (json!({ "default": "nonsense" }), 5),
    ]
    .into_iter()
    .enumerate()
    {
        let file = json!({ "path": "/d/a", "targetedMetadata": metadata });
        let other = json!({ "path": format!("/d/other-{n}") });
        let reply = world.post(&world.anna, "/v1/stage", &json!({ "files": [file, other] }));
        assert_eq!(reply.status, 201, "{}", reply.text());
        let id: u64 = reply.json()["requestId"].as_str().unwrap().parse().unwrap();
        assert_eq!(world.archive.request(base::RequestId(id)).unwrap().priority, priority, "{metadata}");
    }
    world.end();
}

/// Localities in all their words; an empty file is DISK, never NONE (FTS does not clean up then).
#[test]
fn localities_are_told() {
    let world = World::new();
    let asked = ["/d/a", "/d/here", "/d/empty", "/d/none", "/d"];
    let look = || world.post(&world.carl, "/v1/archiveinfo", &paths(&asked)).json();
    let locality = |path: &str, locality: &str| json!({ "path": path, "locality": locality });
    let error = |path: &str, error: &str| json!({ "path": path, "error": error });
    let rest = [
        locality("/d/here", "DISK"),
        locality("/d/empty", "DISK"),
        error("/d/none", "no such file or directory"),
        error("/d", "it is a directory: name the files in it"),
    ];
    let of = |first: &str| {
        let mut all = vec![locality("/d/a", first)];
        all.extend(rest.clone());
        Value::from(all)
    };
    assert_eq!(look(), of("TAPE"));
    world.set_drives(false);
    assert_eq!(look(), of("UNAVAILABLE"));
    world.set_drives(true);
    let id = world.stage(&world.anna, &["/d/a"]);
    world.completed(&world.anna, &id);
    assert_eq!(look(), of("DISK_AND_TAPE"));
    assert_eq!(world.post(&world.carl, "/v1/archiveinfo", &paths(&[])).json(), json!([]));
    world.end();
}

/// Too many paths are no error of archiveinfo: the first ones are answered.
#[test]
fn of_too_many_paths_the_first_ones_are_answered() {
    let world = World::new();
    let asked: Vec<String> = (0..10_050).map(|n| format!("/d/{n}")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let reply = world.post(&world.anna, "/v1/archiveinfo", &paths(&asked));
    assert_eq!((reply.status, reply.json().as_array().unwrap().len()), (200, 10_000));
    assert_eq!(reply.json()[9_999]["path"], "/d/9999");
    world.end();
}
