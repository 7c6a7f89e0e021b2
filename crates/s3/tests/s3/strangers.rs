//! What somebody with a key and few rights must not get, over the engine itself.

use std::sync::Arc;

use archive::{AclEntry, Archive, CallProgress, Selection, StageOptions};
use authority::{Guard, KeyRequest, Staging};
use base::{ArchivePath, ByteCount, Duration};
use identity::{Caller, Rights};
use s3::S3Settings;

use crate::client::{Draft, Reply, World, key_request};
use crate::common::Instance;
use crate::fake::Fake;

/// A world of which `anna` is the admin, and the key of `bert`, who is none.
fn world(archive: &Archive) -> (World, (String, String)) {
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    let request = KeyRequest { is_admin: false, ..key_request("bert", true) };
    let key = world.authority.create_key(&Arc::new(Caller::admin("root")), None, &request).unwrap();
    (world, (key.info.id, key.secret))
}

fn grant(archive: &Archive, path: &str, rights: Rights) {
    let entry = AclEntry { subject: "user:bert".to_owned(), rights: rights.bits() };
    archive.set_acl(&ArchivePath::new(path).unwrap(), Some(vec![entry])).unwrap();
}

fn versions_on(world: &World) {
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let reply = world.send(&Draft::new("PUT", "/b-1?versioning").body(on.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn whoever_puts_a_version_gets_no_right_to_the_older_ones() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (world, (key, secret)) = world(&archive);
    let bert = |draft: Draft| -> Reply { world.send_raw(draft.sign(&key, &secret)) };
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    versions_on(&world);
    grant(&archive, "/b-1", Rights::CREATE);
    let put = world.put("/b-1/k", b"secret");
    let old = format!("/b-1/k?versionId={}", put.header("x-amz-version-id"));
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/k")).status, 204);
    let own = bert(Draft::new("PUT", "/b-1/k").body(b"mine"));
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(bert(Draft::new("GET", "/b-1/k")).body, b"mine");
    let own = format!("/b-1/k?versionId={}", own.header("x-amz-version-id"));
    assert_eq!(bert(Draft::new("GET", &own)).body, b"mine", "a version is its owner's");
    assert_eq!(bert(Draft::new("GET", &old)).code(), "AccessDenied");
    assert_eq!(bert(Draft::new("DELETE", &old)).code(), "AccessDenied");
    let copied = old.trim_start_matches('/');
    let copy = bert(Draft::new("PUT", "/b-1/k").header("x-amz-copy-source", copied));
    assert_eq!(copy.code(), "AccessDenied", "{}", copy.text());
    assert_eq!(world.get(&old).body, b"secret");
    archive.close();
}

#[test]
fn a_copy_is_held_only_by_those_who_may_hold() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (world, (key, secret)) = world(&archive);
    let bert = |draft: Draft| -> Reply { world.send_raw(draft.sign(&key, &secret)) };
    let locked = Draft::new("PUT", "/b-1").header("x-amz-bucket-object-lock-enabled", "true");
    assert_eq!(world.send(&locked).status, 200);
    world.put("/b-1/k", b"x");
    grant(&archive, "/b-1", Rights::READ | Rights::MODIFY);
    let held = |draft: Draft| {
        draft
            .header("x-amz-object-lock-mode", "COMPLIANCE")
            .header("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z")
    };
    let copy = || Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/k");
    assert_eq!(bert(held(copy())).code(), "AccessDenied");
    assert_eq!(bert(held(Draft::new("PUT", "/b-1/put").body(b"x"))).code(), "AccessDenied");
    let plain = bert(copy());
    assert_eq!(plain.status, 200, "{}", plain.text());
    let marker = world.send(&held(Draft::new("PUT", "/b-1/d/")));
    assert_eq!(marker.code(), "NotImplemented", "it would not be held");
    archive.close();
}

#[test]
fn uploads_are_listed_to_their_end_and_only_where_one_may_list() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (world, (key, secret)) = world(&archive);
    let bert = |draft: Draft| -> Reply { world.send_raw(draft.sign(&key, &secret)) };
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    assert_eq!(world.send(&Draft::new("PUT", "/b-1/s/")).status, 200);
    for name in ["a/x", "a/\u{10FFFF}x", "b", "s/secret"] {
        let path = format!("/b-1/{name}?uploads");
        let begun = world.send(&Draft::new("POST", &path));
        assert_eq!(begun.status, 200, "{}", begun.text());
    }
    let listed = world.get("/b-1?uploads&delimiter=/");
    assert_eq!(listed.elements("CommonPrefixes").len(), 2, "{}", listed.text());
    assert_eq!(listed.elements("Upload").len(), 1, "{}", listed.text());
    grant(&archive, "/b-1", Rights::LIST);
    archive.set_acl(&ArchivePath::new("/b-1/s").unwrap(), Some(vec![])).unwrap();
    let seen = bert(Draft::new("GET", "/b-1?uploads"));
    assert_eq!(seen.elements("Upload").len(), 3, "{}", seen.text());
    assert!(!seen.text().contains("secret"));
    let paged = bert(Draft::new("GET", "/b-1?uploads&max-uploads=1&key-marker=b"));
    assert_eq!((paged.elements("Upload").len(), paged.element("IsTruncated").as_str()), (0, "false"));
    archive.close();
}

#[test]
fn whoever_stages_a_directory_does_not_learn_what_they_may_not_see() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (world, _) = world(&archive);
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    world.put("/b-1/k", b"x");
    world.put("/b-1/s/secret", b"x");
    grant(&archive, "/b-1", Rights::STAGE);
    archive.set_acl(&ArchivePath::new("/b-1/s").unwrap(), Some(vec![])).unwrap();
    let bert = Guard::new(world.authority.clone(), Arc::new(archive.clone()))
        .enter(&Arc::new(Caller::named("bert", [])));
    let all = Selection { paths: vec![ArchivePath::new("/b-1").unwrap()], recursive: true };
    let options = StageOptions { owner: String::new(), pin: Duration::from_secs(60), priority: 5 };
    let request = bert.stage_told(&all, options, &CallProgress::default()).unwrap();
    let seen = |engine: &dyn Staging| {
        let (files, _) = engine.request_files(request, 0, 10).unwrap();
        files.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    assert_eq!(seen(&*bert), ["/b-1/k"]);
    assert_eq!(seen(&archive).len(), 2, "both were asked for");
    archive.close();
}
