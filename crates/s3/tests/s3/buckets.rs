//! Buckets and what is asked of them.

use s3::S3Settings;

use crate::client::{Draft, World};

#[test]
fn buckets_come_and_go() {
    let world = World::new();
    let bucket = |method, path: &str| world.send(&Draft::new(method, path));
    assert_eq!(bucket("HEAD", "/b-1").status, 404);
    assert_eq!(bucket("PUT", "/b-1").header("location"), "/b-1");
    assert_eq!(bucket("PUT", "/b-1").code(), "BucketAlreadyOwnedByYou");
    for bad in ["/B-1", "/b", "/b_1", "/1.2.3.4", "/.kist", "/-b1"] {
        assert_eq!(bucket("PUT", bad).code(), "InvalidBucketName", "{bad}");
    }
    let head = bucket("HEAD", "/b-1");
    assert_eq!((head.status, head.header("x-amz-bucket-region")), (200, "us-east-1"));
    let xml = |region: &str| {
        let name = "CreateBucketConfiguration";
        let body = format!("<{name}><LocationConstraint>{region}</LocationConstraint></{name}>");
        Draft::new("PUT", "/b-2").body(body.as_bytes())
    };
    assert_eq!(world.send(&xml("mars-1")).code(), "IllegalLocationConstraintException");
    assert_eq!(world.send(&xml("us-east-1")).status, 200);
    let list = bucket("GET", "/");
    assert_eq!(list.elements("Name"), ["b-1", "b-2"]);
    assert_eq!(list.elements("CreationDate")[0], "2026-11-21T20:29:00.000Z");
    let page = bucket("GET", "/?max-buckets=1");
    assert_eq!(page.elements("Name"), ["b-1"]);
    let token = page.element("ContinuationToken");
    let mut rest = Draft::new("GET", "/");
    rest.query.push(("continuation-token".into(), token));
    assert_eq!(world.send(&rest).elements("Name"), ["b-2"]);
    assert_eq!(bucket("GET", "/?prefix=b-2").elements("Name"), ["b-2"]);
    world.put("/b-2/a", b"a");
    let full = bucket("DELETE", "/b-2");
    assert_eq!((full.status, full.code().as_str()), (409, "BucketNotEmpty"));
    assert_eq!(bucket("DELETE", "/b-1").status, 204);
    assert_eq!(bucket("DELETE", "/b-1").code(), "NoSuchBucket");
    assert_eq!(bucket("GET", "/b-2?location").status, 200);
}

#[test]
fn what_a_bucket_never_has_is_said_in_s3s_words() {
    let world = World::with_bucket();
    for (query, status, code) in [
        ("policy", 404, "NoSuchBucketPolicy"),
        ("policyStatus", 404, "NoSuchBucketPolicy"),
        ("cors", 404, "NoSuchCORSConfiguration"),
        ("website", 404, "NoSuchWebsiteConfiguration"),
        ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
        ("replication", 404, "ReplicationConfigurationNotFoundError"),
        ("publicAccessBlock", 404, "NoSuchPublicAccessBlockConfiguration"),
        ("ownershipControls", 404, "OwnershipControlsNotFoundError"),
        ("tagging", 404, "NoSuchTagSet"),
        ("logging", 200, ""),
        ("notification", 200, ""),
        ("accelerate", 200, ""),
        ("requestPayment", 200, ""),
        ("acl", 200, ""),
        ("analytics&id=1", 501, "NotImplemented"),
        ("inventory&id=1", 501, "NotImplemented"),
    ] {
        let reply = world.get(&format!("/b-1?{query}"));
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{query}: {}", reply.text());
        if status < 500 {
            assert_eq!(world.get(&format!("/b-9?{query}")).code(), "NoSuchBucket", "{query}");
        }
    }
    for query in ["policy", "cors", "website", "encryption", "logging", "notification", "publicAccessBlock"] {
        let reply = world.send(&Draft::new("PUT", &format!("/b-1?{query}")).body(b"<A/>"));
        assert!(reply.status >= 400, "{query}: {}", reply.text());
    }
    let acl = |value| Draft::new("PUT", "/b-1?acl").header("x-amz-acl", value);
    assert_eq!(world.send(&acl("private")).status, 200);
    assert_eq!(world.send(&acl("public-read")).code(), "AccessControlListNotSupported");
}

#[test]
fn buckets_have_tags() {
    let world = World::with_bucket();
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
    assert_eq!(world.send(&Draft::new("PUT", "/b-1?tagging").body(tags.as_bytes())).status, 204);
    let reply = world.get("/b-1?tagging");
    assert_eq!((reply.element("Key").as_str(), reply.element("Value").as_str()), ("a", "1"));
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1?tagging")).status, 204);
    assert_eq!(world.get("/b-1?tagging").code(), "NoSuchTagSet");
}

#[test]
fn buckets_can_stand_in_the_host_name() {
    let settings = s3::S3Settings { domain: Some("s3.example".to_owned()), ..s3::S3Settings::default() };
    let world = World::with(settings);
    let at = |host: &str, draft: Draft| {
        let mut draft = draft;
        draft.headers[0].1 = host.to_owned();
        world.send(&draft)
    };
    assert_eq!(at("b-1.s3.example:9000", Draft::new("PUT", "/")).status, 200);
    assert_eq!(at("b-1.s3.example", Draft::new("PUT", "/x/y").body(b"abc")).status, 200);
    assert_eq!(at("b-1.s3.example", Draft::new("PUT", "/z").body(b"abc")).status, 200);
    for (host, path) in [
        ("b-1.s3.example", "/x/y"),
        ("b-1.s3.example:80", "/x/y"),
        ("s3.example", "/b-1/x/y"),
        ("localhost:9000", "/b-1/x/y"),
        ("127.0.0.1:9000", "/b-1/z"),
    ] {
        assert_eq!(at(host, Draft::new("GET", path)).body, b"abc", "{host}{path}");
    }
    assert_eq!(at("b-1.s3.example", Draft::new("GET", "/?list-type=2")).elements("Key"), ["x/y", "z"]);
    let wrong = s3::S3Settings { domain: Some("a..b".to_owned()), ..s3::S3Settings::default() };
    let clock = std::sync::Arc::new(base::ManualClock::default());
    let clocks = s3::S3Clocks { system: clock.clone(), trusted: clock };
    let transfers =
        transfer::Transfers::new(transfer::TransferLimits::default(), world.authority.notices(), |_| 1);
    assert!(s3::service(world.guard.clone(), transfers, wrong, clocks).is_err());
}

#[test]
fn a_host_that_stands_in_the_address_alone_means_its_bucket_too() {
    let world = World::with(S3Settings { domain: Some("kist.example".to_owned()), ..S3Settings::default() });
    for path in ["/b-1", "/b-2"] {
        assert_eq!(world.send(&Draft::new("PUT", path)).status, 200);
    }
    world.put("/b-2/k", b"secret");
    let mut draft = Draft::new("GET", "/b-2/k").presigned("60");
    draft.headers = vec![("host".to_owned(), "b-1.kist.example".to_owned())];
    let mut raw = draft.sign(&world.key, &world.secret);
    raw.headers.retain(|(name, _)| name != "host");
    raw.target = format!("http://b-1.kist.example{}", raw.target);
    let reply = world.send_raw(raw);
    assert_eq!(reply.code(), "NoSuchKey", "the signature is for the key b-2/k of b-1: {}", reply.text());
}
