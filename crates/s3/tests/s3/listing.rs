//! Listings.

use crate::client::{Draft, World};

fn world() -> World {
    let world = World::with_bucket();
    for key in ["a", "b/1", "b/2", "b/c/3", "d e", "z"] {
        world.put(&format!("/b-1/{key}"), key.as_bytes());
    }
    world
}

#[test]
fn keys_are_listed_in_pages() {
    let world = world();
    let list = |query: &str| world.get(&format!("/b-1?list-type=2{query}"));
    let all = list("");
    assert_eq!(all.elements("Key"), ["a", "b/1", "b/2", "b/c/3", "d e", "z"]);
    assert_eq!((all.element("KeyCount").as_str(), all.element("IsTruncated").as_str()), ("6", "false"));
    assert_eq!(all.elements("ETag")[0], "\"0cc175b9c0f1b6a831c399e269772661\"");
    assert_eq!(all.elements("StorageClass")[0], "STANDARD");
    assert_eq!(all.elements("Owner").len(), 0);
    assert_eq!(list("&fetch-owner=true").elements("DisplayName")[0], "anna");
    let rolled = list("&delimiter=/");
    assert_eq!(rolled.elements("Key"), ["a", "d e", "z"]);
    assert_eq!(rolled.elements("CommonPrefixes"), ["<Prefix>b/</Prefix>"]);
    assert_eq!(rolled.element("KeyCount"), "4");
    assert_eq!(list("&prefix=b/&delimiter=/").elements("Key"), ["b/1", "b/2"]);
    assert_eq!(list("&start-after=b/2").elements("Key"), ["b/c/3", "d e", "z"]);
    assert_eq!(list("&encoding-type=url").elements("Key")[4], "d%20e");
    let none = list("&max-keys=0");
    assert_eq!((none.elements("Key").len(), none.element("IsTruncated").as_str()), (0, "false"));
    assert_eq!(list("&max-keys=-1").code(), "InvalidArgument");
    assert_eq!(list("&continuation-token=%3F").code(), "InvalidArgument");
    assert_eq!(list("&encoding-type=x").code(), "InvalidArgument");
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let mut draft = Draft::new("GET", "/b-1?list-type=2&max-keys=2&delimiter=/");
        if !token.is_empty() {
            draft.query.push(("continuation-token".into(), token.clone()));
        }
        let page = world.send(&draft);
        seen.push((page.elements("Key"), page.elements("CommonPrefixes").len()));
        token = page.element("NextContinuationToken");
        if page.element("IsTruncated") == "false" {
            break;
        }
    }
    assert_eq!(seen, [(vec!["a".to_owned()], 1), (vec!["d e".into(), "z".into()], 0)]);
    assert_eq!(world.get("/b-9?list-type=2").code(), "NoSuchBucket");
}

#[test]
fn the_old_listing_goes_on_behind_a_marker() {
    let world = world();
    let page = world.get("/b-1?max-keys=3");
    assert_eq!(page.elements("Key"), ["a", "b/1", "b/2"]);
    assert_eq!((page.element("NextMarker").as_str(), page.element("IsTruncated").as_str()), ("b/2", "true"));
    let rest = world.get("/b-1?marker=b/2");
    assert_eq!(rest.elements("Key"), ["b/c/3", "d e", "z"]);
    assert_eq!(rest.elements("DisplayName").len(), 3);
}

#[test]
fn restores_are_shown_if_asked_for() {
    let world = world();
    world.fake.tree().files.get_mut("/b-1/a").unwrap().restore = archive::RestoreState::Ongoing;
    world.fake.tree().files.get_mut("/b-1/z").unwrap().restore =
        archive::RestoreState::Until(crate::fake::CREATED);
    let plain = world.get("/b-1?list-type=2");
    assert_eq!(plain.elements("RestoreStatus").len(), 0);
    let draft =
        Draft::new("GET", "/b-1?list-type=2").header("x-amz-optional-object-attributes", "RestoreStatus");
    let told = world.send(&draft);
    assert_eq!(told.elements("IsRestoreInProgress"), ["true", "false"]);
    assert_eq!(told.element("RestoreExpiryDate"), "2026-11-21T20:29:00.000Z");
    let header = |path| world.send(&Draft::new("HEAD", path)).header("x-amz-restore").to_owned();
    assert_eq!(header("/b-1/a"), "ongoing-request=\"true\"");
    let until = "ongoing-request=\"false\", expiry-date=\"Sat, 21 Nov 2026 20:29:00 GMT\"";
    assert_eq!(header("/b-1/z"), until);
    assert_eq!(header("/b-1/b/1"), "");
}
