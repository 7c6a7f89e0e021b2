//! Objects: put, get, head, delete, tags, conditions, checksums.

use archive::Locality;

use crate::client::{Draft, Sealed, World};

const MD5: &str = "\"e4d7f1b4ed2e42d15898f4b27b019da4\"";

fn put() -> Draft {
    Draft::new("PUT", "/b-1/x").body(b"hello, world")
}

#[test]
fn an_object_comes_back_with_all_that_was_put_with_it() {
    let world = World::with_bucket();
    let draft = put()
        .header("content-type", "text/plain")
        .header("cache-control", "no-cache")
        .header("content-disposition", "inline")
        .header("content-language", "de")
        .header("expires", "Sat, 21 Nov 2026 20:29:00 GMT")
        .header("x-amz-meta-colour", "blue")
        .header("x-amz-tagging", "a=1&b=x%20y")
        .header("x-amz-acl", "private");
    let reply = world.send(&draft);
    assert_eq!((reply.status, reply.header("etag")), (200, MD5), "{}", reply.text());
    let got = world.get("/b-1/x");
    assert_eq!((got.status, got.body.as_slice()), (200, b"hello, world".as_slice()));
    for reply in [got, world.send(&Draft::new("HEAD", "/b-1/x"))] {
        for (name, value) in [
            ("etag", MD5),
            ("content-length", "12"),
            ("content-type", "text/plain"),
            ("cache-control", "no-cache"),
            ("content-disposition", "inline"),
            ("content-language", "de"),
            ("expires", "Sat, 21 Nov 2026 20:29:00 GMT"),
            ("x-amz-meta-colour", "blue"),
            ("last-modified", "Sat, 21 Nov 2026 20:29:00 GMT"),
            ("accept-ranges", "bytes"),
            ("x-amz-storage-class", ""),
            ("x-amz-version-id", ""),
        ] {
            assert_eq!(reply.header(name), value, "{name}");
        }
        assert!(!reply.header("x-amz-request-id").is_empty());
    }
    assert_eq!(world.get("/b-1/x").header("x-amz-tagging-count"), "2");
    let changed = world.get("/b-1/x?response-content-type=a/b&response-cache-control=c");
    assert_eq!((changed.header("content-type"), changed.header("cache-control")), ("a/b", "c"));
    world.put("/b-1/plain", b"");
    let plain = world.get("/b-1/plain");
    assert_eq!((plain.header("content-type"), plain.header("content-length")), ("binary/octet-stream", "0"));
    assert_eq!(world.get("/b-1/none").code(), "NoSuchKey");
    assert_eq!(world.get("/b-9/x").code(), "NoSuchBucket");
    assert_eq!(world.send(&Draft::new("PUT", "/b-9/x").body(b"a")).code(), "NoSuchBucket");
    assert_eq!(world.send(&Draft::new("HEAD", "/b-1/none")).status, 404);
}

#[test]
fn ranges_are_cut() {
    let world = World::with_bucket();
    world.send(&put());
    let big: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    world.put("/b-1/big", &big);
    for (range, status, body, header) in [
        ("bytes=0-4", 206, "hello", "bytes 0-4/12"),
        ("bytes=7-", 206, "world", "bytes 7-11/12"),
        ("bytes=-5", 206, "world", "bytes 7-11/12"),
        ("bytes=-50", 206, "hello, world", "bytes 0-11/12"),
        ("bytes=7-99", 206, "world", "bytes 7-11/12"),
        ("bytes=0-1,4-5", 200, "hello, world", ""),
        ("bytes=5-1", 200, "hello, world", ""),
        ("lines=1-2", 200, "hello, world", ""),
    ] {
        let reply = world.send(&Draft::new("GET", "/b-1/x").header("range", range));
        assert_eq!(
            (reply.status, reply.text().as_str(), reply.header("content-range")),
            (status, body, header),
            "{range}"
        );
    }
    for range in ["bytes=12-", "bytes=-0", "bytes=99-100"] {
        let reply = world.send(&Draft::new("GET", "/b-1/x").header("range", range));
        assert_eq!((reply.status, reply.code().as_str()), (416, "InvalidRange"), "{range}");
        assert_eq!(reply.header("content-range"), "bytes */12");
    }
    let reply = world.send(&Draft::new("GET", "/b-1/big").header("range", "bytes=100000-3000001"));
    assert_eq!(reply.status, 206);
    assert!(reply.body == big[100_000..=3_000_001]);
    assert!(world.get("/b-1/big").body == big);
    let head = world.send(&Draft::new("HEAD", "/b-1/x").header("range", "bytes=0-4"));
    assert_eq!((head.header("content-length"), head.header("content-range")), ("5", "bytes 0-4/12"));
}

#[test]
fn reads_have_conditions() {
    let world = World::with_bucket();
    world.send(&put());
    for (name, value, status) in [
        ("if-match", MD5, 200),
        ("if-match", "\"00\"", 412),
        ("if-none-match", MD5, 304),
        ("if-none-match", "\"00\"", 200),
        ("if-modified-since", "Sat, 21 Nov 2026 20:29:00 GMT", 304),
        ("if-modified-since", "Sat, 21 Nov 2026 20:28:59 GMT", 200),
        ("if-unmodified-since", "Sat, 21 Nov 2026 20:28:59 GMT", 412),
        ("if-unmodified-since", "Sat, 21 Nov 2026 20:29:00 GMT", 200),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = world.send(&Draft::new(method, "/b-1/x").header(name, value));
            assert_eq!(reply.status, status, "{method} {name}: {value}");
            if status == 304 {
                assert_eq!((reply.header("etag"), reply.body.len()), (MD5, 0));
            }
        }
    }
}

#[test]
fn writes_have_conditions() {
    let world = World::with_bucket();
    let new = || put().header("if-none-match", "*");
    assert_eq!(world.send(&put().header("if-match", MD5)).code(), "NoSuchKey");
    assert_eq!(world.send(&new()).status, 200);
    let taken = world.send(&new());
    assert_eq!((taken.status, taken.code().as_str()), (412, "PreconditionFailed"));
    assert_eq!(world.send(&put().header("if-match", "\"00\"")).status, 412);
    assert_eq!(world.send(&put().header("if-match", MD5)).status, 200);
    assert_eq!(world.send(&put().header("if-none-match", MD5)).code(), "NotImplemented");
}

#[test]
fn checksums_are_verified_and_kept() {
    let world = World::with_bucket();
    for kind in ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"] {
        let short = world.send(&put().header(&format!("x-amz-checksum-{kind}"), "AAAA"));
        assert_eq!(short.code(), "InvalidRequest", "{kind}");
    }
    for draft in [
        put().header("x-amz-checksum-sha256", &base64(&sha256_of(b"hello, world"))),
        put().chunks(7, false, &[("x-amz-checksum-sha256", &base64(&sha256_of(b"hello, world")))]),
        put().chunks(7, true, &[("x-amz-checksum-sha256", &base64(&sha256_of(b"hello, world")))]),
    ] {
        let reply = world.send(&draft);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let value = base64(&sha256_of(b"hello, world"));
        assert_eq!(reply.header("x-amz-checksum-sha256"), value);
        assert_eq!(world.get("/b-1/x").header("x-amz-checksum-sha256"), "");
        let told = world.send(&Draft::new("HEAD", "/b-1/x").header("x-amz-checksum-mode", "ENABLED"));
        assert_eq!(told.header("x-amz-checksum-sha256"), value);
        assert_eq!(told.header("x-amz-checksum-type"), "FULL_OBJECT");
        assert_eq!(world.get("/b-1/x").header("content-encoding"), "");
        let draft = Draft::new("GET", "/b-1/x?attributes")
            .header("x-amz-object-attributes", "ETag,Checksum,ObjectSize,StorageClass");
        let attributes = world.send(&draft);
        assert_eq!(attributes.element("ChecksumSHA256"), value, "{}", attributes.text());
        assert_eq!(
            (attributes.element("ObjectSize").as_str(), attributes.element("StorageClass").as_str()),
            ("12", "STANDARD")
        );
    }
    let md5 = put().header("content-md5", "5NfxtO0uQtFYmPSyewGdpA==");
    assert_eq!(world.send(&md5).status, 200);
    assert_eq!(world.send(&md5.header("x-amz-checksum-crc32", "AAAAAA==")).code(), "BadDigest");
}

fn sha256_of(bytes: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).to_vec()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let mut text: String = bits
        .chunks(6)
        .map(|six| {
            let value = six.iter().fold(0, |sum, bit| sum << 1 | usize::from(*bit)) << (6 - six.len());
            char::from(DIGITS[value])
        })
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Larger than what is gathered, so that the thread that stores and the one that computes digests are used.
#[test]
fn large_bodies_stream_through() {
    let world = World::with_bucket();
    let big: Vec<u8> = (0..900_000u32).flat_map(u32::to_be_bytes).collect();
    let sum = base64(&sha256_of(&big));
    let sum = [("x-amz-checksum-sha256", sum.as_str())];
    let draft = || Draft::new("PUT", "/b-1/big").body(&big);
    for (draft, is_md5) in [
        (draft(), true),
        (Draft { sealed: Sealed::Unsigned, ..draft() }, true),
        (draft().chunks(65_536, true, &[]), true),
        (draft().chunks(1 << 20, true, &sum), false),
        (draft().chunks(100_000, false, &sum), false),
        (draft().chunks(usize::MAX, false, &sum), false),
    ] {
        let reply = world.send(&draft);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("etag").contains("-1"), !is_md5, "{}", reply.header("etag"));
        let got = world.get("/b-1/big");
        assert!(got.body == big);
        assert_eq!(got.header("etag"), reply.header("etag"));
        world.send(&Draft::new("DELETE", "/b-1/big"));
    }
    let mut raw = draft().chunks(65_536, true, &sum).sign(&world.key, &world.secret);
    raw.body[2_000_000] ^= 1;
    assert_eq!(world.send_raw(raw).code(), "SignatureDoesNotMatch");
    let mut raw = draft().sign(&world.key, &world.secret);
    raw.body[2_000_000] ^= 1;
    assert_eq!(world.send_raw(raw).code(), "XAmzContentSHA256Mismatch");
    let mut raw = draft().chunks(65_536, false, &sum).sign(&world.key, &world.secret);
    raw.body.truncate(3_000_000);
    assert_eq!(world.send_raw(raw).code(), "IncompleteBody");
    assert_eq!(world.get("/b-1/big").status, 404);
    let draft = Draft::new("PUT", "/b-9/big").body(&big);
    assert_eq!(world.send(&draft).code(), "NoSuchBucket");
}

#[test]
fn keys_are_paths() {
    let world = World::with_bucket();
    world.put("/b-1/a", b"file");
    let below = world.send(&Draft::new("PUT", "/b-1/a/b").body(b"x"));
    assert_eq!((below.status, below.code().as_str()), (409, "InvalidRequest"));
    world.put("/b-1/d/e", b"x");
    assert_eq!(world.send(&Draft::new("PUT", "/b-1/d").body(b"x")).status, 409);
    assert_eq!(world.get("/b-1/d").code(), "NoSuchKey");
    for bad in ["/b-1//a", "/b-1/a//b", "/b-1/../x"] {
        assert_eq!(world.send(&Draft::new("PUT", bad).body(b"x")).code(), "InvalidArgument", "{bad}");
    }
    let long = format!("/b-1/{}b", "a/".repeat(512));
    assert_eq!(world.send(&Draft::new("PUT", &long).body(b"x")).code(), "KeyTooLongError");
    world.put("/b-1/ü +&=%41/ß", b"odd");
    assert_eq!(world.get("/b-1?list-type=2&prefix=ü").element("Key"), "ü +&amp;=%41/ß");
    let mut draft = Draft::new("GET", "/b-1/x");
    draft.path = "/b-1/%C3%BC%20%2B%26%3D%2541/%C3%9F".to_owned();
    assert_eq!(world.send(&draft).body, b"odd");
}

#[test]
fn directories_can_be_objects() {
    let world = World::with_bucket();
    let marker = Draft::new("PUT", "/b-1/dir/");
    assert_eq!(world.get("/b-1/dir/").code(), "NoSuchKey");
    assert_eq!(world.send(&marker).header("etag"), "\"d41d8cd98f00b204e9800998ecf8427e\"");
    assert_eq!(world.send(&marker).status, 200);
    assert_eq!(world.send(&marker.clone().body(b"x")).code(), "InvalidArgument");
    let got = world.get("/b-1/dir/");
    assert_eq!((got.status, got.body.len()), (200, 0));
    assert_eq!(world.send(&Draft::new("HEAD", "/b-1/dir/")).status, 200);
    assert_eq!(world.get("/b-1/dir").code(), "NoSuchKey");
    world.put("/b-1/dir/a", b"a");
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/dir/")).status, 204);
    assert_eq!(world.get("/b-1/dir/").code(), "NoSuchKey");
    assert_eq!(world.get("/b-1/dir/a").body, b"a");
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/dir/")).status, 204);
}

#[test]
fn deletes_of_one_and_of_many() {
    let world = World::with_bucket();
    for at in 0..200 {
        world.put(&format!("/b-1/k{at:03}"), b"x");
    }
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/k000")).status, 204);
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/k000")).status, 204);
    assert_eq!(world.send(&Draft::new("DELETE", "/b-9/k000")).code(), "NoSuchBucket");
    let keys = |range: std::ops::Range<u32>, more: &str| {
        let objects: String = range.map(|at| format!("<Object><Key>k{at:03}</Key></Object>")).collect();
        Draft::new("POST", "/b-1?delete").body(format!("<Delete>{objects}{more}</Delete>").as_bytes())
    };
    let reply = world.send(&keys(0..150, "<Object><Key>a//b</Key></Object>"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.elements("Deleted").len(), 150);
    assert_eq!(reply.elements("Deleted")[149], "<Key>k149</Key>");
    assert_eq!(reply.elements("Error").len(), 1);
    assert!(
        reply.element("Error").starts_with("<Code>InvalidArgument</Code><Key>a//b</Key>"),
        "{}",
        reply.text()
    );
    let quiet = world.send(&keys(150..200, "<Quiet>true</Quiet>"));
    assert_eq!((quiet.status, quiet.elements("Deleted").len()), (200, 0));
    assert_eq!(world.fake.everything(), Vec::<String>::new());
    assert_eq!(world.send(&keys(0..0, "")).code(), "MalformedXML");
    assert_eq!(world.send(&keys(0..1001, "")).code(), "MalformedXML");
    assert_eq!(
        world.send(&keys(0..1, "").header("content-md5", "5NfxtO0uQtFYmPSyewGdpA==")).code(),
        "BadDigest"
    );
}

#[test]
fn objects_have_tags() {
    let world = World::with_bucket();
    world.send(&put().header("x-amz-tagging", "old=1&kept=2"));
    let tag = |key: &str, value: &str| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
    let set = |tags: &str| {
        let body = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
        Draft::new("PUT", "/b-1/x?tagging").body(body.as_bytes())
    };
    assert_eq!(world.get("/b-1/x?tagging").elements("Key"), ["kept", "old"]);
    assert_eq!(world.send(&set(&(tag("kept", "3") + &tag("new", "4")))).status, 200);
    let reply = world.get("/b-1/x?tagging");
    assert_eq!(
        (reply.elements("Key"), reply.elements("Value")),
        (vec!["kept".into(), "new".into()], vec!["3".into(), "4".into()])
    );
    assert_eq!(world.send(&set(&(tag("a", "1") + &tag("a", "2")))).code(), "InvalidTag");
    assert_eq!(world.send(&Draft::new("DELETE", "/b-1/x?tagging")).status, 204);
    assert_eq!(world.get("/b-1/x?tagging").elements("Key").len(), 0);
    assert_eq!(world.get("/b-1/none?tagging").code(), "NoSuchKey");
}

#[test]
fn what_is_on_tape_only_has_to_be_restored() {
    let world = World::with_bucket();
    world.send(&put());
    world.fake.tree().files.get_mut("/b-1/x").unwrap().stat.locality = Locality::Nearline;
    let got = world.get("/b-1/x");
    assert_eq!((got.status, got.code().as_str()), (403, "InvalidObjectState"));
    let head = world.send(&Draft::new("HEAD", "/b-1/x"));
    assert_eq!((head.status, head.header("x-amz-storage-class")), (200, "GLACIER"));
    assert_eq!(world.send(&Draft::new("GET", "/b-1/x").header("if-none-match", MD5)).status, 304);
    assert_eq!(world.send(&put().header("x-amz-storage-class", "NONE")).code(), "InvalidStorageClass");
}
