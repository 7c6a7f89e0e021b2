//! The table of what each operation takes, walked over the door.
//!
//! Found by clients: checksums of kinds that nobody computed, `<Tags>` of a bucket to be made and conditions
//! of a listing were all answered with 200 and dropped, so that somebody relied on what was never done.

use std::sync::Arc;

use base::ByteCount;
use s3::{Content, Level, Operation, S3Settings, operations};

use crate::client::{Draft, Reply, World};
use crate::common::Instance;
use crate::fake::Fake;

/// A request of this operation, with all that chooses it.
fn request(row: &Operation) -> Draft {
    let path = match row.level {
        Level::Root => "/",
        Level::Bucket => "/b-1",
        Level::Object => "/b-1/k",
    };
    let mut draft = Draft::new(row.method, path);
    for name in row.chosen_by {
        let value = match *name {
            "list-type" => "2",
            "partNumber" => "1",
            "uploadId" => "0000000000000001",
            _ => "",
        };
        draft.query.push(((*name).to_owned(), value.to_owned()));
    }
    if row.copies {
        draft = draft.header("x-amz-copy-source", "b-1/k");
    }
    draft
}

fn with_query(mut draft: Draft, name: &str, value: &str) -> Draft {
    draft.query.push((name.to_owned(), value.to_owned()));
    draft
}

/// A document of nested elements: `A/B` is `<A><B></B></A>`, with one more element in it.
fn document(path: &str, inner: &str) -> String {
    let names: Vec<&str> = path.split('/').collect();
    let open: String = names.iter().map(|name| format!("<{name}>")).collect();
    let close: String = names.iter().rev().map(|name| format!("</{name}>")).collect();
    format!("{open}{inner}{close}")
}

/// Whether a reply is a refusal of what is not known. HEAD has no words.
fn refuses(row: &Operation, reply: &Reply, word: &str) {
    let wanted = if row.method == "HEAD" { "" } else { word };
    assert!(reply.text().contains(wanted), "{}: {}", row.name, reply.text());
    let codes = ["NotImplemented", "MalformedXML", "InvalidArgument", "InvalidRequest"];
    assert!(row.method == "HEAD" || codes.contains(&reply.code().as_str()), "{}", reply.text());
    assert!(matches!(reply.status, 400 | 501), "{}: {}", row.name, reply.status);
}

#[test]
fn whatever_an_operation_does_not_know_is_refused() {
    let world = World::with_bucket();
    world.put("/b-1/k", b"x");
    let headers = [
        ("x-amz-unheard-of", "1"),
        ("x-amz-checksum-xxhash64", "AAAAAAAAAAA="),
        ("x-amz-checksum-xxhash3", "AAAAAAAAAAA="),
        ("x-amz-checksum-xxhash128", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-grant-read", "id=1"),
        ("x-amz-mfa", "1 2"),
        ("x-minio-source-mtime", "1"),
        ("x-http-method-override", "DELETE"),
        ("content-range", "bytes 0-1/2"),
    ];
    for row in operations() {
        for (name, value) in headers {
            refuses(row, &world.send(&request(row).header(name, value)), name);
        }
        refuses(row, &world.send(&with_query(request(row), "unheard-of", "1")), "unheard-of");
        refuses(row, &world.send(&with_query(request(row), "x-id", "Other")), "x-id");
        for name in row.query.iter().chain(row.chosen_by) {
            let twice = with_query(with_query(request(row), name, "1"), name, "1");
            refuses(row, &world.send(&twice), name);
        }
        match row.content {
            Content::Xml(known) => {
                for path in known {
                    let body = document(path, "<UnheardOf>1</UnheardOf>");
                    refuses(row, &world.send(&request(row).body(body.as_bytes())), "UnheardOf");
                    let body = document(path, "<![CDATA[1]]>");
                    refuses(row, &world.send(&request(row).body(body.as_bytes())), "CDATA");
                }
                refuses(row, &world.send(&request(row).body(b"<UnheardOf/>")), "UnheardOf");
            }
            Content::None => refuses(row, &world.send(&request(row).body(b"<a/>")), "no body"),
            Content::Bytes => {}
        }
    }
    assert_eq!(world.get("/b-1/k").body, b"x", "nothing was done");
}

/// What the table has is not refused by it; a row that nothing reaches would be dead.
#[test]
fn what_an_operation_knows_passes_the_table() {
    let world = World::with_bucket();
    for row in operations() {
        let told = |reply: &Reply| reply.text().contains("is not supported here, and nothing was done");
        for name in row.query {
            assert!(!told(&world.send(&with_query(request(row), name, "1"))), "{} {name}", row.name);
        }
        let named = with_query(request(row), "x-id", row.name);
        assert!(!told(&world.send(&named)), "{}", row.name);
        for (name, value) in [
            ("x-amz-request-payer", "requester"),
            ("x-amz-user-agent", "sdk/1"),
            ("amz-sdk-request", "attempt=1"),
            ("amz-sdk-invocation-id", "1"),
            ("x-amzn-trace-id", "1"),
            ("x-forwarded-for", "1"),
            ("traceparent", "1"),
            ("cache-control", "no-cache"),
        ] {
            assert!(!told(&world.send(&request(row).header(name, value))), "{} {name}", row.name);
        }
        let unknown = world.send(&request(row).header("x-amz-request-payer", "me"));
        assert_eq!(unknown.status, 400, "{}", row.name);
    }
}

/// s3s finds the operation once more: it has to be the one whose row was looked at.
#[test]
fn every_operation_of_the_code_has_a_row() {
    let code = include_str!("../../src/operations.rs");
    let mut offered: Vec<String> = code
        .lines()
        .filter_map(|line| line.trim().strip_prefix("async fn "))
        .map(|rest| rest.split('(').next().unwrap_or_default().replace('_', ""))
        .collect();
    offered.sort();
    let mut rows: Vec<String> = operations().iter().map(|row| row.name.to_lowercase()).collect();
    rows.sort();
    assert_eq!(rows, offered);
}

#[test]
fn documents_name_what_is_not_offered() {
    let world = World::with_bucket();
    let tags = "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>\
        </CreateBucketConfiguration>";
    let reply = world.send(&Draft::new("PUT", "/b-2").body(tags.as_bytes()));
    assert_eq!((reply.status, reply.code().as_str()), (501, "NotImplemented"), "{}", reply.text());
    for ownership in ["BucketOwnerEnforced", "BucketOwnerPreferred"] {
        let draft = Draft::new("PUT", "/b-2").header("x-amz-object-ownership", ownership);
        assert_eq!(world.send(&draft).status, 501, "{ownership}");
    }
    assert_eq!(world.get("/b-2").code(), "NoSuchBucket");
    let writer = Draft::new("PUT", "/b-2").header("x-amz-object-ownership", "ObjectWriter");
    assert_eq!(world.send(&writer).status, 200);
    world.put("/b-1/k", b"x");
    for (path, header) in [
        ("/b-1/k?attributes", "x-amz-object-attributes"),
        ("/b-1", "x-amz-optional-object-attributes"),
        ("/b-1?list-type=2", "x-amz-optional-object-attributes"),
        ("/b-1?versions", "x-amz-optional-object-attributes"),
    ] {
        let reply = world.send(&Draft::new("GET", path).header(header, "ETag,Color"));
        assert_eq!((reply.status, reply.code().as_str()), (400, "InvalidArgument"), "{path}");
    }
}

#[test]
fn a_bucket_is_of_the_expected_owner_or_nothing_is_done() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    let owner = "x-amz-expected-bucket-owner";
    let put = |by: &str| world.send(&Draft::new("PUT", "/b-1/k").body(b"x").header(owner, by));
    let refused = put("123456789012");
    assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"), "{}", refused.text());
    assert_eq!(world.get("/b-1/k").status, 404);
    assert_eq!(put("anna").status, 200);
    let copy = |by: &str| {
        let draft = Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "/b-1/k");
        world.send(&draft.header("x-amz-source-expected-bucket-owner", by)).status
    };
    assert_eq!((copy("bert"), copy("anna")), (403, 200));
    archive.close();
}
