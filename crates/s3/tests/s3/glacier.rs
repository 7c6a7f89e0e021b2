//! Archived classes: put, refused, restored, listed; lifecycle rules.

use archive::{Locality, RestoreState};
use base::Duration;
use s3::S3Settings;

use crate::client::{Draft, Reply, World};

const DAYS: &str = "<RestoreRequest><Days>2</Days></RestoreRequest>";

fn world() -> World {
    let classes = [("GLACIER", "tape"), ("DEEP_ARCHIVE", "vault")];
    let classes = classes.map(|(s3, ours)| (s3.to_owned(), ours.to_owned())).to_vec();
    let world = World::with(S3Settings { classes, ..S3Settings::default() });
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    world
}

fn put(world: &World, path: &str, class: &str) -> Reply {
    world.send(&Draft::new("PUT", path).body(b"hello").header("x-amz-storage-class", class))
}

fn restore(world: &World, path: &str, body: &str) -> Reply {
    world.send(&Draft::new("POST", &format!("{path}?restore")).body(body.as_bytes()))
}

fn state(world: &World, path: &str, locality: Locality, restore: RestoreState) {
    let mut tree = world.fake.tree();
    let stored = tree.files.get_mut(path).unwrap();
    (stored.stat.locality, stored.restore) = (locality, restore);
}

/// Story: restic's library took 202 for an error without a code, so that restic gave up although the object
/// was on its way.
#[test]
fn a_library_that_takes_202_for_an_error_is_told_what_it_is() {
    let world = world();
    let asks = |path: &str, agent: &str| {
        put(&world, path, "GLACIER");
        state(&world, path, Locality::Nearline, RestoreState::No);
        let draft = Draft::new("POST", &format!("{path}?restore")).header("user-agent", agent);
        let reply = world.send(&draft.body(DAYS.as_bytes()));
        assert_eq!(reply.status, 202);
        reply.header("x-minio-error-code").to_owned()
    };
    let restic = "MinIO (linux; amd64) minio-go/v7.0.95 restic/0.18.1";
    assert_eq!(asks("/b-1/x", restic), "RestoreAlreadyInProgress");
    assert_eq!(asks("/b-1/y", "Boto3/1.40"), "");
}

#[test]
fn an_archived_object_is_read_only_while_it_is_restored() {
    let world = world();
    assert_eq!(put(&world, "/b-1/x", "GLACIER").status, 200);
    let refused = world.get("/b-1/x");
    assert_eq!((refused.status, refused.code().as_str()), (403, "InvalidObjectState"), "still in the pool");
    assert_eq!(refused.element("StorageClass"), "GLACIER");
    let copy = world.send(&Draft::new("PUT", "/b-1/y").header("x-amz-copy-source", "b-1/x"));
    assert_eq!((copy.code(), copy.element("StorageClass")), ("InvalidObjectState".into(), "GLACIER".into()));
    state(&world, "/b-1/x", Locality::Nearline, RestoreState::No);
    let refused = world.get("/b-1/x");
    assert_eq!((refused.status, refused.code().as_str()), (403, "InvalidObjectState"));
    assert_eq!(refused.element("StorageClass"), "GLACIER");
    let head = world.send(&Draft::new("HEAD", "/b-1/x"));
    assert_eq!((head.status, head.header("x-amz-storage-class")), (200, "GLACIER"));
    assert_eq!(head.header("x-amz-restore"), "");

    assert_eq!(restore(&world, "/b-1/x", DAYS).status, 202);
    let head = world.send(&Draft::new("HEAD", "/b-1/x"));
    assert_eq!(head.header("x-amz-restore"), "ongoing-request=\"true\"");
    let again = restore(&world, "/b-1/x", DAYS);
    assert_eq!((again.status, again.code().as_str()), (409, "RestoreAlreadyInProgress"));
    assert_eq!(world.get("/b-1/x").code(), "InvalidObjectState");

    let until = crate::fake::CREATED.plus(Duration::from_secs(86_400));
    state(&world, "/b-1/x", Locality::OnlineAndNearline, RestoreState::Until(until));
    let got = world.get("/b-1/x");
    assert_eq!((got.status, got.body.as_slice()), (200, b"hello".as_slice()));
    let expiry = "ongoing-request=\"false\", expiry-date=\"Sun, 22 Nov 2026 20:29:00 GMT\"";
    assert_eq!((got.header("x-amz-restore"), got.header("x-amz-storage-class")), (expiry, "GLACIER"));
    assert_eq!(restore(&world, "/b-1/x", DAYS).status, 200, "kept longer");
    let longer = world.send(&Draft::new("HEAD", "/b-1/x"));
    assert!(longer.header("x-amz-restore").contains("Mon, 23 Nov 2026 20:29:00 GMT"));
}

#[test]
fn tiers_are_priorities_and_wrong_restores_are_refused() {
    let world = world();
    put(&world, "/b-1/deep", "DEEP_ARCHIVE");
    for (tier, priority) in [("Bulk", 1), ("Standard", 5), ("Expedited", 9)] {
        let job = format!("<GlacierJobParameters><Tier>{tier}</Tier></GlacierJobParameters>");
        let body = format!("<RestoreRequest><Days>1</Days>{job}</RestoreRequest>");
        state(&world, "/b-1/deep", Locality::Nearline, RestoreState::No);
        assert_eq!(restore(&world, "/b-1/deep", &body).status, 202, "{tier}");
        assert_eq!(world.fake.tree().restores.pop(), Some(priority), "{tier}");
    }
    world.put("/b-1/hot", b"x");
    assert_eq!(restore(&world, "/b-1/hot", DAYS).code(), "InvalidObjectState");
    assert_eq!(restore(&world, "/b-1/none", DAYS).code(), "NoSuchKey");
    assert_eq!(put(&world, "/b-1/x", "NOWHERE").code(), "InvalidStorageClass");
    let none = "<RestoreRequest><Days>0</Days></RestoreRequest>";
    assert_eq!(restore(&world, "/b-1/deep", none).code(), "InvalidArgument");
    assert!(world.fake.tree().restores.is_empty());
}

#[test]
fn what_was_evicted_is_shown_as_archived() {
    let world = world();
    world.put("/b-1/x", b"hello");
    state(&world, "/b-1/x", Locality::Nearline, RestoreState::No);
    let head = world.send(&Draft::new("HEAD", "/b-1/x"));
    assert_eq!(head.header("x-amz-storage-class"), "GLACIER");
    assert_eq!(world.get("/b-1/x").element("StorageClass"), "GLACIER");
    assert_eq!(restore(&world, "/b-1/x", DAYS).status, 202);
    let listing = "/b-1?list-type=2";
    let plain = world.get(listing);
    assert_eq!((plain.element("StorageClass"), plain.elements("RestoreStatus").len()), ("GLACIER".into(), 0));
    let asked = Draft::new("GET", listing).header("x-amz-optional-object-attributes", "RestoreStatus");
    assert_eq!(world.send(&asked).element("IsRestoreInProgress"), "true");
}

#[test]
fn lifecycle_rules_are_kept_given_back_and_removed() {
    let world = world();
    let at = "/b-1?lifecycle";
    assert_eq!(world.get(at).code(), "NoSuchLifecycleConfiguration");
    let configuration = |rest: &str| {
        format!(
            "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status>\
             <Filter><Prefix>data/</Prefix></Filter>{rest}</Rule></LifecycleConfiguration>"
        )
    };
    let moves = "<Transition><Days>30</Days><StorageClass>GLACIER</StorageClass></Transition>";
    let set = |body: String| world.send(&Draft::new("PUT", at).body(body.as_bytes()));
    let reply = set(configuration(moves));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let rule = world.fake.tree().buckets["b-1"].settings.lifecycle[0].clone();
    assert_eq!(rule.transition, Some((Duration::from_secs(30 * 86_400), "tape".to_owned())));
    let kept = world.get(at);
    for (name, value) in
        [("ID", "a"), ("Prefix", "data/"), ("Days", "30"), ("StorageClass", "GLACIER"), ("Status", "Enabled")]
    {
        assert_eq!(kept.element(name), value, "{}", kept.text());
    }
    let old = "<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>";
    assert_eq!(set(configuration(old)).code(), "NotImplemented");
    assert_eq!(world.get(at).element("Days"), "30", "what was refused changed nothing");
    assert_eq!(world.send(&Draft::new("DELETE", at)).status, 204);
    assert_eq!(world.get(at).code(), "NoSuchLifecycleConfiguration");
}
