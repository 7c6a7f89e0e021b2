//! Who may do what.

use serde_json::json;

use crate::world::{World, entry, files, paths};

/// All calls but the discovery need a credential.
#[test]
fn without_a_credential_there_is_only_the_discovery() {
    let world = World::new();
    let id = world.stage(&world.anna, &["/d/here"]);
    for key in ["", "no key of ours", "a.b.c"] {
        for (method, path) in [
            ("POST", "/v1/stage".to_owned()),
            ("GET", format!("/v1/stage/{id}")),
            ("DELETE", format!("/v1/stage/{id}")),
            ("POST", format!("/v1/stage/{id}/cancel")),
            ("POST", format!("/v1/release/{id}")),
            ("POST", "/v1/archiveinfo".to_owned()),
            ("GET", "/v1/nothing".to_owned()),
        ] {
            let reply =
                world.call(key, method, &path, r#"{"paths":["/d/here"],"files":[{"path":"/d/here"}]}"#);
            reply.is_problem(401);
            assert!(reply.header("www-authenticate").starts_with("Bearer"), "{method} {path}");
        }
        assert_eq!(world.get(key, "").status, 200);
    }
    world.end();
}

/// A path that the caller may not stage fails alone, and says nothing of whether it is there; if all are so,
/// the request is refused at once.
#[test]
fn a_path_without_the_right_fails_alone_and_all_of_them_together() {
    let world = World::new();
    let id = world.stage(&world.anna, &["/d/a", "/closed/x", "/closed/none"]);
    let polled = world.completed(&world.anna, &id);
    assert_eq!(entry(&polled, "/d/a")["state"], "COMPLETED");
    let [there, missing] = ["/closed/x", "/closed/none"].map(|path| entry(&polled, path));
    assert_eq!(there["state"], "FAILED");
    assert_eq!(there["error"], missing["error"], "nothing is told of what is there");
    world.post(&world.anna, "/v1/stage", &files(&["/closed/x", "/closed/none"])).is_problem(403);
    world.post(&world.anna, "/v1/stage", &files(&["/closed/x", "no path"])).is_problem(403);
    world.post(&world.carl, "/v1/stage", &files(&["/d/a"])).is_problem(403);
    assert!(world.archive.requests(None, 10).unwrap().len() == 1, "no other request was made");
    let everything = world.stage(&world.admin, &["/d/a", "/closed/x"]);
    assert_eq!(entry(&world.completed(&world.admin, &everything), "/closed/x")["state"], "COMPLETED");
    world.end();
}

/// To others than its owner a request does not exist; an admin may do all with it.
#[test]
fn a_request_is_its_owners_alone() {
    let world = World::new();
    world.set_drives(false);
    let id = world.stage(&world.anna, &["/d/a", "/d/here"]);
    let named = paths(&["/d/a"]);
    for key in [&world.bert, &world.carl] {
        world.get(key, &format!("/v1/stage/{id}")).is_problem(404);
        world.post(key, &format!("/v1/stage/{id}/cancel"), &named).is_problem(404);
        world.call(key, "DELETE", &format!("/v1/stage/{id}"), "").is_problem(404);
        assert_eq!(world.post(key, &format!("/v1/release/{id}"), &paths(&["/d/here"])).status, 200);
    }
    let unchanged = world.poll(&world.anna, &id);
    assert_eq!(entry(&unchanged, "/d/a")["state"], "SUBMITTED");
    let pins =
        world.archive.object(&crate::common::path("/d/here"), archive::Which::Current).unwrap().file.pins;
    assert_eq!(pins.len(), 1, "nobody else gives back what anna holds");
    assert_eq!(world.poll(&world.admin, &id), unchanged);
    assert_eq!(world.post(&world.admin, &format!("/v1/stage/{id}/cancel"), &named).status, 200);
    assert_eq!(entry(&world.poll(&world.anna, &id), "/d/a")["onDisk"], false);
    assert_eq!(world.call(&world.admin, "DELETE", &format!("/v1/stage/{id}"), "").status, 200);
    world.end();
}

/// Where a file is may be asked path by path.
#[test]
fn a_locality_without_the_right_is_an_error_of_that_path() {
    let world = World::new();
    let looked = world.post(&world.carl, "/v1/archiveinfo", &paths(&["/closed/x", "/d/a", "/closed/none"]));
    let error = "the caller may not ask where it is";
    assert_eq!(
        looked.json(),
        json!([
            { "path": "/closed/x", "error": error },
            { "path": "/d/a", "locality": "TAPE" },
            { "path": "/closed/none", "error": error },
        ])
    );
    world.end();
}
