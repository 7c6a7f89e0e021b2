//! Uploads in parts over the engine itself.

use std::fmt::Write;
use std::sync::Arc;

use archive::Archive;
use base::ByteCount;
use s3::S3Settings;

use crate::client::{Draft, Reply, World};
use crate::common::Instance;
use crate::fake::Fake;

/// The smallest part but the last.
const PART: usize = 5 << 20;

fn world(archive: &Archive) -> World {
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    world
}

fn begin(world: &World, draft: Draft) -> String {
    let reply = world.send(&draft);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.element("UploadId")
}

fn part(world: &World, at: &str, number: u32, upload: &str, body: &[u8]) -> String {
    let path = format!("{at}?partNumber={number}&uploadId={upload}");
    let reply = world.send(&Draft::new("PUT", &path).body(body));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("etag").to_owned()
}

fn complete(world: &World, at: &str, upload: &str, parts: &[(u32, &str)]) -> Reply {
    let mut body = "<CompleteMultipartUpload>".to_owned();
    for (number, etag) in parts {
        write!(body, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>").unwrap();
    }
    body += "</CompleteMultipartUpload>";
    world.send(&Draft::new("POST", &format!("{at}?uploadId={upload}")).body(body.as_bytes()))
}

fn content() -> Vec<u8> {
    (0..(2 * PART as u32 + 1000) / 4).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).collect()
}

#[test]
fn parts_in_any_order_become_an_object() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = world(&archive);
    let whole = content();
    let upload = begin(&world, Draft::new("POST", "/b-1/d/o?uploads").header("x-amz-meta-a", "1"));
    let third = part(&world, "/b-1/d/o", 3, &upload, &whole[2 * PART..]);
    let early = part(&world, "/b-1/d/o", 1, &upload, b"put again below");
    let first = part(&world, "/b-1/d/o", 1, &upload, &whole[..PART]);
    let second = part(&world, "/b-1/d/o", 2, &upload, &whole[PART..2 * PART]);
    assert_ne!(early, first);

    let listed = world.get(&format!("/b-1/d/o?uploadId={upload}&max-parts=2"));
    assert_eq!(listed.elements("PartNumber"), ["1", "2"], "{}", listed.text());
    assert_eq!(
        (listed.element("IsTruncated"), listed.element("NextPartNumberMarker")),
        ("true".into(), "2".into())
    );
    let listed = world.get("/b-1?uploads&delimiter=/");
    assert_eq!(listed.elements("Prefix"), ["d/"], "{}", listed.text());
    assert_eq!(world.get("/b-1?uploads").elements("UploadId"), std::slice::from_ref(&upload));

    let all = [(1, first.as_str()), (2, &second), (3, &third)];
    let swapped = [all[1], all[0]];
    for (parts, code) in [
        (&swapped[..], "InvalidPartOrder"),
        (&[(1, early.as_str())][..], "InvalidPart"),
        (&[(4, first.as_str())][..], "InvalidPart"),
    ] {
        assert_eq!(complete(&world, "/b-1/d/o", &upload, parts).code(), code);
    }
    assert_eq!(complete(&world, "/b-1/d/other", &upload, &all).code(), "NoSuchUpload");
    let made = complete(&world, "/b-1/d/o", &upload, &all);
    assert_eq!(made.status, 200, "{}", made.text());
    let got = world.get("/b-1/d/o");
    assert!(got.body == whole);
    assert!(got.header("etag").ends_with("-3\""), "{}", got.header("etag"));
    assert_eq!(got.header("x-amz-meta-a"), "1");
    // Its answer was lost.
    let again = complete(&world, "/b-1/d/o", &upload, &all);
    assert_eq!((again.status, again.element("ETag")), (200, made.element("ETag")), "{}", again.text());
    assert_eq!(complete(&world, "/b-1/d/other", &upload, &all).code(), "NoSuchUpload");

    let one = world.get("/b-1/d/o?partNumber=2");
    assert!(one.status == 206 && one.body == whole[PART..2 * PART], "{}", one.status);
    assert_eq!(one.header("x-amz-mp-parts-count"), "3");
    assert_eq!(world.get("/b-1/d/o?partNumber=4").status, 416);
    archive.close();
}

#[test]
fn what_is_no_upload_or_too_small_is_refused() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = world(&archive);
    let upload = begin(&world, Draft::new("POST", "/b-1/o?uploads"));
    let (first, second) =
        (part(&world, "/b-1/o", 1, &upload, b"1"), part(&world, "/b-1/o", 2, &upload, b"2"));
    assert_eq!(complete(&world, "/b-1/o", &upload, &[(1, &first), (2, &second)]).code(), "EntityTooSmall");
    for path in ["/b-1/o?partNumber=0&uploadId=", "/b-1/o?partNumber=10001&uploadId="] {
        let reply = world.send(&Draft::new("PUT", &format!("{path}{upload}")).body(b"x"));
        assert_eq!(reply.code(), "InvalidArgument");
    }
    let reply = world.send(&Draft::new("PUT", "/b-1/o?partNumber=1&uploadId=0000000000000000").body(b"x"));
    assert_eq!(reply.code(), "NoSuchUpload");
    let crc = Draft::new("POST", "/b-1/crc?uploads").header("x-amz-checksum-algorithm", "CRC32");
    let crc = begin(&world, crc);
    let without = Draft::new("PUT", &format!("/b-1/crc?partNumber=1&uploadId={crc}")).body(b"x");
    assert_eq!(world.send(&without).code(), "InvalidRequest", "a part without the checksum");
    world.put("/b-1/source", b"0123456789");
    let copy = Draft::new("PUT", &format!("/b-1/crc?partNumber=1&uploadId={crc}"));
    let copy = copy.header("x-amz-copy-source", "/b-1/source").header("x-amz-copy-source-range", "bytes=2-4");
    let copied = world.send(&copy);
    assert_eq!(copied.status, 200, "{}", copied.text());
    let made = complete(&world, "/b-1/crc", &crc, &[(1, &copied.element("ETag"))]);
    assert_eq!(made.status, 200, "{}", made.text());
    assert!(made.element("ChecksumCRC32").ends_with("-1"), "{}", made.text());
    assert_eq!(world.get("/b-1/crc").body, b"234");
    assert_eq!(world.send(&Draft::new("DELETE", &format!("/b-1/o?uploadId={upload}"))).status, 204);
    assert_eq!(
        world.send(&Draft::new("DELETE", &format!("/b-1/o?uploadId={upload}"))).code(),
        "NoSuchUpload"
    );
    assert_eq!(world.get("/b-1/o").code(), "NoSuchKey");
    assert_eq!(world.get("/b-1?uploads").elements("UploadId").len(), 0);
    archive.close();
}
