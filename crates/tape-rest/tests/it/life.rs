//! The life of a request: repeated, over a restart, deleted.

use std::sync::Arc;

use authority::{Authority, AuthoritySettings, Guard};
use serde_json::json;
use tape_rest::{Engine, TapeRestSettings, service};
use transfer::{TransferLimits, Transfers};

use crate::common::path;
use crate::world::{World, entry, files, paths};

/// A client that lost the answer sends the same again, also to a server that was started anew: one request
/// comes of it, as long as that has not ended. Times are the same before and after.
#[test]
fn the_same_submission_is_the_same_request_over_a_restart() {
    let mut world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d/a", "/d/b", "/d/none"]);
    assert_eq!(world.stage(&world.anna, &["/d/b", "/d//none", "/d/a"]), id);
    assert_ne!(world.stage(&world.bert, &["/d/a", "/d/b", "/d/none"]), id);
    let before = world.poll(&world.anna, &id);
    assert_eq!(before["startedAt"], before["createdAt"], "without a start it is when it was made");
    world.archive.close();
    drop(std::mem::replace(&mut world.service, nothing()));
    let anew = World::new();
    drop(std::mem::replace(&mut world.archive, anew.archive.clone()));
    world.archive = world.instance.open();
    let caller = Authority::with(AuthoritySettings::default()).unwrap();
    let root = Arc::new(identity::Caller::admin("root"));
    let request = authority::KeyRequest {
        name: "anna".into(),
        groups: vec![],
        is_admin: false,
        is_operator: false,
        expires_after: None,
        signs: false,
    };
    world.anna = caller.create_key(&root, None, &request).unwrap().secret;
    let caller = Arc::new(caller);
    let transfers = Transfers::new(TransferLimits::default(), caller.notices(), |_| 1);
    let guard: Guard<dyn Engine> = Guard::new(caller, Arc::new(world.archive.clone()));
    world.service = service(guard, transfers, TapeRestSettings::default());
    assert_eq!(world.poll(&world.anna, &id), before);
    assert_eq!(world.stage(&world.anna, &["/d/a", "/d/b", "/d/none"]), id);
    world.set_drives(true);
    let polled = world.completed(&world.anna, &id);
    for path in ["/d/a", "/d/b"] {
        let file = entry(&polled, path);
        assert_eq!(file["state"], "COMPLETED");
        let (started, finished) = (file["startedAt"].as_u64(), file["finishedAt"].as_u64());
        assert!(polled["createdAt"].as_u64() <= started && started <= finished, "{polled}");
    }
    assert_ne!(world.stage(&world.anna, &["/d/a", "/d/b", "/d/none"]), id, "it has ended");
    anew.end();
    world.end();
}

fn nothing() -> transfer::Service {
    let take = |_| -> transfer::Replying { unreachable!("nobody asks") };
    transfer::Service { name: "none", threads: 0, take: Arc::new(take) }
}

#[test]
fn a_deleted_request_is_gone_and_holds_nothing() {
    let world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d/a", "/d/here"]);
    let pins = |at: &str| world.archive.object(&path(at), archive::Which::Current).unwrap().file.pins.len();
    assert_eq!(pins("/d/here"), 1);
    assert_eq!(world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}"), "").status, 200);
    world.get(&world.anna, &format!("/v1/stage/{id}")).is_problem(404);
    world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}"), "").is_problem(404);
    world.post(&world.anna, &format!("/v1/stage/{id}/cancel"), &paths(&["/d/a"])).is_problem(404);
    assert_eq!(world.post(&world.anna, &format!("/v1/release/{id}"), &paths(&["/d/a"])).status, 200);
    assert_eq!(pins("/d/here"), 0);
    assert_ne!(world.stage(&world.anna, &["/d/a", "/d/here"]), id);
    world.end();
}

/// What is given back before it has come is brought all the same, and not held.
#[test]
fn a_release_gives_back_what_is_named() {
    let world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d/a", "/d/b", "/d/here"]);
    let release = |named: &[&str]| world.post(&world.anna, &format!("/v1/release/{id}"), &paths(named));
    assert_eq!(release(&["//d/a", "/d/here", "/d/elsewhere"]).status, 200);
    world.set_drives(true);
    let polled = world.completed(&world.anna, &id);
    for path in ["/d/a", "/d/b", "/d/here"] {
        assert_eq!(entry(&polled, path)["state"], "COMPLETED", "{polled}");
    }
    let held = |at: &str| world.archive.object(&path(at), archive::Which::Current).unwrap().file.pins.len();
    assert_eq!((held("/d/a"), held("/d/b"), held("/d/here")), (0, 1, 0));
    world.end();
}

/// A file that is deleted while it is waited for fails alone.
#[test]
fn a_file_that_goes_away_fails_alone() {
    let world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d/a", "/d/b"]);
    world.archive.remove(&path("/d/a")).unwrap();
    let polled = world.poll(&world.anna, &id);
    let file = entry(&polled, "/d/a");
    assert_eq!(file["state"], "FAILED", "{polled}");
    assert!(
        file["finishedAt"].as_u64() >= polled["createdAt"].as_u64() && file["error"].is_string(),
        "{file}"
    );
    world.set_drives(true);
    assert_eq!(entry(&world.completed(&world.anna, &id), "/d/b")["state"], "COMPLETED");
    world.end();
}

/// As many files as a request takes, over the door.
#[test]
fn ten_thousand_files_are_one_request_and_one_more_is_refused() {
    let world = World::new();
    let names: Vec<String> = (0..10_001).map(|n| format!("/d/none/{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.post(&world.anna, "/v1/stage", &files(&names)).is_problem(413);
    let id = world.stage(&world.anna, &names[..10_000]);
    let polled = world.poll(&world.anna, &id);
    assert_eq!(polled["files"].as_array().unwrap().len(), 10_000);
    let cancel = format!("/v1/stage/{id}/cancel");
    assert_eq!(world.post(&world.anna, &cancel, &paths(&names[..10_000])).status, 200);
    world.post(&world.anna, &cancel, &json!({ "paths": names })).is_problem(413);
    assert_eq!(world.call(&world.anna, "DELETE", &format!("/v1/stage/{id}"), "").status, 200);
    world.end();
}
