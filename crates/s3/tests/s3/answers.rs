//! Answers that were wrong: each is one that a client of S3 took at its word.

use std::fmt::Write as _;
use std::sync::Arc;

use archive::Archive;
use base::ByteCount;
use s3::S3Settings;

use crate::client::{Draft, Reply, World};
use crate::common::Instance;
use crate::fake::Fake;

/// The smallest part but the last.
const PART: usize = 5 << 20;

fn over(archive: &Archive) -> World {
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    world
}

fn ok(reply: Reply) -> Reply {
    assert!(reply.status < 300, "{} {}", reply.status, reply.text());
    reply
}

/// The checksum that the door computes for a body by default.
fn crc64(world: &World, body: &[u8]) -> String {
    let reply = ok(world.send(&Draft::new("PUT", "/b-1/of-this").body(body)));
    let sum = reply.header("x-amz-checksum-crc64nvme").to_owned();
    assert_eq!(sum.len(), 12, "{sum}");
    sum
}

fn put_in_parts(world: &World, at: &str, parts: &[&[u8]]) -> (String, String) {
    let upload = ok(world.send(&Draft::new("POST", &format!("{at}?uploads")))).element("UploadId");
    let mut document = "<CompleteMultipartUpload>".to_owned();
    for (number, body) in (1..).zip(parts) {
        let path = format!("{at}?partNumber={number}&uploadId={upload}");
        let etag = ok(world.send(&Draft::new("PUT", &path).body(body))).header("etag").to_owned();
        write!(document, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>").unwrap();
    }
    document += "</CompleteMultipartUpload>";
    (upload, document)
}

/// A boto3 client with its own defaults asks for a part with `x-amz-checksum-mode: ENABLED`, got the CRC of
/// the whole object with it, and raised on bytes that were right.
#[test]
fn a_part_comes_with_its_own_checksum() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    let (first, second) = (vec![7u8; PART], b"the last part".to_vec());
    let (upload, document) = put_in_parts(&world, "/b-1/o", &[&first, &second]);
    let path = format!("/b-1/o?uploadId={upload}");
    for (other, value) in
        [("sha512", format!("{}==", "A".repeat(86))), ("md5", format!("{}==", "A".repeat(22)))]
    {
        let draft = Draft::new("POST", &path).body(document.as_bytes());
        let refused = world.send(&draft.header(&format!("x-amz-checksum-{other}"), &value));
        assert_eq!(refused.code(), "InvalidRequest", "{other}");
    }
    let done = ok(world.send(&Draft::new("POST", &path).body(document.as_bytes())));
    let whole = crc64(&world, &[first.as_slice(), &second].concat());
    assert_eq!(done.element("ChecksumCRC64NVME"), whole, "computed by default");
    assert_eq!(done.element("ChecksumType"), "FULL_OBJECT");
    let name = "x-amz-checksum-crc64nvme";
    let read = |method, query: &str| {
        world.send(&Draft::new(method, &format!("/b-1/o{query}")).header("x-amz-checksum-mode", "ENABLED"))
    };
    for method in ["GET", "HEAD"] {
        assert_eq!(read(method, "").header(name), whole);
        for (number, body) in [(1, &first), (2, &second)] {
            let part = read(method, &format!("?partNumber={number}"));
            assert_eq!(part.status, 206);
            assert_eq!(part.header(name), crc64(&world, body), "{method} {number}");
            assert_eq!(part.header("x-amz-checksum-type"), "", "it is not of the whole object");
            assert_eq!(part.header("x-amz-mp-parts-count"), "2");
        }
    }
    let asked = Draft::new("GET", "/b-1/o?attributes");
    let told = ok(world.send(&asked.header("x-amz-object-attributes", "ETag,ObjectParts,Checksum")));
    let sums = told.elements("ChecksumCRC64NVME");
    let parts = [crc64(&world, &first), crc64(&world, &second)];
    assert!(parts.iter().all(|sum| sums.contains(sum)) && sums.contains(&whole), "{}", told.text());
    let etag = told.element("ETag");
    assert!(etag.ends_with("-2") && !etag.contains('"') && !etag.contains("quot"), "{etag}");
    ok(world.send(&Draft::new("PUT", "/b-1/one").body(b"in one request")));
    let one =
        world.send(&Draft::new("GET", "/b-1/one?partNumber=1").header("x-amz-checksum-mode", "ENABLED"));
    assert_eq!((one.status, one.header("content-range")), (206, "bytes 0-13/14"));
    assert_eq!(one.header(name), crc64(&world, b"in one request"));
    archive.close();
}

/// boto3 begins an upload without a checksum and sends CRC32 with each part: the object had no checksum at
/// all, and its parts neither.
#[test]
fn a_whole_has_the_default_checksum_whatever_came_with_its_parts() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    let (first, second) = (vec![7u8; PART], b"123456789".to_vec());
    let sha512 = "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==";
    let of_whole = crc64(&world, &[first.as_slice(), &second].concat());
    let of_parts = [crc64(&world, &first), crc64(&world, &second)];
    for (at, (name, value)) in
        [("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc64nvme", &of_parts[1])].iter().enumerate()
    {
        let at = format!("/b-1/o{at}");
        let upload = ok(world.send(&Draft::new("POST", &format!("{at}?uploads")))).element("UploadId");
        let put = |number: u32| Draft::new("PUT", &format!("{at}?partNumber={number}&uploadId={upload}"));
        let of_first = ok(world.send(&put(1).body(&first)));
        let refused = world
            .send(&put(2).body(&second).header("x-amz-checksum-sha512", &format!("{}==", "A".repeat(86))));
        assert_eq!(refused.code(), "BadDigest");
        ok(world.send(&put(2).body(&second).header("x-amz-checksum-sha512", sha512)));
        let of_second = ok(world.send(&put(2).body(&second).header(name, value)));
        assert_eq!(of_second.header(name), *value);
        let listed = ok(world.get(&format!("{at}?uploadId={upload}")));
        assert_eq!(listed.elements("ChecksumCRC64NVME"), of_parts, "{}", listed.text());
        let element = if name.ends_with("32") { "ChecksumCRC32" } else { "ChecksumCRC64NVME" };
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part><Part>\
             <PartNumber>2</PartNumber><ETag>{}</ETag><{element}>{value}</{element}></Part>\
             </CompleteMultipartUpload>",
            of_first.header("etag"),
            of_second.header("etag")
        );
        let end = Draft::new("POST", &format!("{at}?uploadId={upload}")).body(document.as_bytes());
        let done = ok(world.send(&end));
        assert_eq!(done.element("ChecksumCRC64NVME"), of_whole, "{}", done.text());
        assert_eq!(done.element("ChecksumType"), "FULL_OBJECT");
        for (query, sum) in
            [("", &of_whole), ("?partNumber=1", &of_parts[0]), ("?partNumber=2", &of_parts[1])]
        {
            let read = Draft::new("GET", &format!("{at}{query}")).header("x-amz-checksum-mode", "ENABLED");
            assert_eq!(world.send(&read).header("x-amz-checksum-crc64nvme"), sum, "{query}");
        }
    }
    archive.close();
}

/// s3s has no field for some kinds: answers told the type of a checksum, and neither its value nor its kind.
#[test]
fn no_type_of_a_checksum_is_told_without_its_value() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    let md5 = "JfnnlDI7RTiF9RgfG2JNCw==";
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"123456789").header("x-amz-checksum-md5", md5)));
    let attributes =
        Draft::new("GET", "/b-1/k?attributes").header("x-amz-object-attributes", "Checksum,ETag");
    let mode = "x-amz-checksum-mode";
    let copy = Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "/b-1/k");
    for draft in [attributes, Draft::new("GET", "/b-1?list-type=2"), Draft::new("GET", "/b-1?versions"), copy]
    {
        let told = ok(world.send(&draft));
        assert!(!told.text().contains("Checksum"), "{}", told.text());
    }
    for method in ["GET", "HEAD"] {
        let part = world.send(&Draft::new(method, "/b-1/k?partNumber=1").header(mode, "ENABLED"));
        assert_eq!(part.header("x-amz-checksum-type"), part.header("x-amz-checksum-md5"), "{method}");
        let whole = world.send(&Draft::new(method, "/b-1/k").header(mode, "ENABLED"));
        assert_eq!(whole.header("x-amz-checksum-md5"), md5, "{method}");
        assert_eq!(whole.header("x-amz-checksum-type"), "FULL_OBJECT", "{method}");
        assert_eq!(world.send(&Draft::new(method, "/b-1/k").header(mode, "FOO")).status, 400, "{method}");
    }
    archive.close();
}

/// What came with a copy whose directive was COPY was dropped with 200.
#[test]
fn a_copy_takes_nothing_that_it_drops() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"x").header("x-amz-meta-a", "1")));
    let copy = || Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/k");
    let (of_metadata, of_tags) = ("x-amz-metadata-directive", "x-amz-tagging-directive");
    for (name, value, directive) in [
        ("x-amz-meta-a", "2", of_metadata),
        ("content-disposition", "inline", of_metadata),
        ("content-encoding", "gzip", of_metadata),
        ("content-language", "de", of_metadata),
        ("expires", "Sat, 21 Nov 2026 20:29:00 GMT", of_metadata),
        ("x-amz-tagging", "a=b", of_tags),
    ] {
        let other = if directive == of_tags { of_metadata } else { of_tags };
        for draft in [copy(), copy().header(directive, "COPY"), copy().header(other, "REPLACE")] {
            let refused = world.send(&draft.header(name, value));
            assert_eq!((refused.status, refused.code().as_str()), (400, "InvalidRequest"), "{name}");
            assert!(refused.text().contains(directive), "{}", refused.text());
            assert_eq!(world.get("/b-1/copy").status, 404, "{name}");
        }
    }
    // Libraries of HTTP add these by themselves.
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("cache-control", "no-cache"),
        ("content-encoding", "identity"),
    ] {
        ok(world.send(&copy().header(name, value)));
        assert_eq!(world.get("/b-1/copy").header("x-amz-meta-a"), "1");
    }
    ok(world.send(&copy().header(of_metadata, "REPLACE").header("x-amz-meta-a", "2")));
    assert_eq!(world.get("/b-1/copy").header("x-amz-meta-a"), "2");
    ok(world.send(&copy().header(of_tags, "REPLACE").header("x-amz-tagging", "a=b")));
    let copied = world.get("/b-1/copy");
    assert_eq!((copied.header("x-amz-tagging-count"), copied.header("x-amz-meta-a")), ("1", "1"));
    archive.close();
}

/// A directory of the root with a name that S3 would not take is listed and read as a bucket, and could not
/// be the source of a copy.
#[test]
fn any_bucket_may_be_the_source_of_a_copy() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    for name in ["sh", "Run_7", "a b"] {
        let path = base::ArchivePath::new(&format!("/{name}")).unwrap();
        archive.make_directory(&path, catalogue::Attributes::default(), None, false).unwrap();
        let source = format!("/{}/d/a+b%20c", name.replace(' ', "%20"));
        ok(world.send(&Draft::new("PUT", &format!("/{name}/d/a+b c")).body(name.as_bytes())));
        ok(world.send(&Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", &source)));
        assert_eq!(world.get("/b-1/copy").text(), name);
        let upload = ok(world.send(&Draft::new("POST", "/b-1/parts?uploads"))).element("UploadId");
        let part = Draft::new("PUT", &format!("/b-1/parts?partNumber=1&uploadId={upload}"));
        ok(world.send(&part.header("x-amz-copy-source", &source)));
    }
    for (source, code) in
        [("b-1", "InvalidArgument"), ("/none_/k", "NoSuchBucket"), ("//k", "InvalidBucketName")]
    {
        let refused = world.send(&Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", source));
        assert_eq!(refused.code(), code, "{source}");
    }
    archive.close();
}

/// A client whose time ran out completes again while the first request is still at work: in 2 of 100 it was
/// told that there was no such upload, and gave up what was there.
#[test]
fn an_upload_that_is_completed_twice_at_once_is_completed_for_both() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    for round in 0..100 {
        let at = format!("/b-1/o{round}");
        let (upload, document) = put_in_parts(&world, &at, &[b"a part"]);
        let draft = Draft::new("POST", &format!("{at}?uploadId={upload}")).body(document.as_bytes());
        let replies: Vec<Reply> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| world.send(&draft))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for reply in &replies {
            assert_eq!(reply.status, 200, "round {round}: {}", reply.text());
            assert_eq!(reply.element("ETag"), replies[0].element("ETag"));
        }
    }
    let (upload, document) = put_in_parts(&world, "/b-1/given-up", &[b"a part"]);
    let path = format!("/b-1/given-up?uploadId={upload}");
    ok(world.send(&Draft::new("DELETE", &path)));
    let gone = world.send(&Draft::new("POST", &path).body(document.as_bytes()));
    assert_eq!(gone.code(), "NoSuchUpload");
    archive.close();
}

#[test]
fn checksums_of_all_offered_kinds_are_verified_and_told() {
    let world = World::with_bucket();
    for (name, right, wrong) in [
        (
            "x-amz-checksum-sha512",
            "2ecnYt3ByOr21htsYZL8QI1NbV8RdtDCkWm8JMcfJ0rSf81YEbMT1oH2flXsAtc9SZyVRVtrtQO+rPr1T7qP6IU=",
            "",
        ),
        ("x-amz-checksum-md5", "JfnnlDI7RTiF9RgfG2JNCw==", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ] {
        let put =
            |value: &str| world.send(&Draft::new("PUT", "/b-1/k").body(b"123456789").header(name, value));
        if wrong.is_empty() {
            // Of another length: 64 bytes are asked for.
            assert_eq!(put(right).code(), "InvalidRequest");
            let zero = format!("{}==", "A".repeat(86));
            assert_eq!(put(&zero).code(), "BadDigest");
            assert_eq!(world.get("/b-1/k").status, 404);
            continue;
        }
        assert_eq!(put(wrong).code(), "BadDigest");
        assert_eq!(world.get("/b-1/k").status, 404);
        assert_eq!(ok(put(right)).header(name), right);
        let read = world.send(&Draft::new("GET", "/b-1/k").header("x-amz-checksum-mode", "ENABLED"));
        assert_eq!((read.header(name), read.header("x-amz-checksum-type")), (right, "FULL_OBJECT"));
    }
    let begun =
        world.send(&Draft::new("POST", "/b-1/k?uploads").header("x-amz-checksum-algorithm", "SHA512"));
    assert_eq!(begun.code(), "NotImplemented", "{}", begun.text());
}

#[test]
fn a_copy_has_the_checksum_that_is_asked_for_or_is_not_made() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"x")));
    let copy = |algorithm: &str| {
        let draft = Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/k");
        world.send(&draft.header("x-amz-checksum-algorithm", algorithm))
    };
    assert_eq!(copy("SHA256").code(), "NotImplemented");
    assert_eq!(copy("SHA7").code(), "InvalidRequest");
    assert_eq!(world.get("/b-1/copy").status, 404);
    assert_eq!(ok(copy("CRC64NVME")).elements("ChecksumCRC64NVME").len(), 1);
    archive.close();
}

/// Compliance cannot be taken back by anybody: whoever may not end governance could still turn it into that.
#[test]
fn governance_becomes_compliance_only_with_the_right_to_end_it() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    ok(world.send(&Draft::new("PUT", "/b-1").header("x-amz-bucket-object-lock-enabled", "true")));
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"x")));
    let retain = |mode: &str, year: u32, bypass: bool| {
        let until = format!("{year}-01-01T00:00:00Z");
        let body =
            format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>");
        let draft = Draft::new("PUT", "/b-1/k?retention").body(body.as_bytes());
        let draft = if bypass { draft.header("x-amz-bypass-governance-retention", "true") } else { draft };
        world.send(&draft)
    };
    // Later than there are times: in words, and not shortened to 2262.
    let far = retain("GOVERNANCE", 2300, false);
    assert_eq!((far.status, far.code().as_str()), (400, "InvalidArgument"), "{}", far.text());
    assert!(far.text().contains("before 2262-04-11"), "{}", far.text());
    let far = Draft::new("PUT", "/b-1/far").body(b"x").header("x-amz-object-lock-mode", "GOVERNANCE");
    let far = world.send(&far.header("x-amz-object-lock-retain-until-date", "2300-01-01T00:00:00Z"));
    assert_eq!((far.status, far.code().as_str()), (400, "InvalidArgument"), "{}", far.text());
    ok(retain("GOVERNANCE", 2090, false));
    ok(retain("GOVERNANCE", 2091, false));
    let refused = retain("COMPLIANCE", 2092, false);
    assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"), "{}", refused.text());
    assert_eq!(world.get("/b-1/k?retention").element("Mode"), "GOVERNANCE");
    ok(retain("COMPLIANCE", 2092, true));
    assert_eq!(retain("GOVERNANCE", 2093, true).status, 403);
    archive.close();
}

/// PUT and DELETE of `e/f/` left a directory `e` that no listing showed, and `e` could not be put any more.
#[test]
fn a_directory_that_is_put_and_deleted_leaves_nothing() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    ok(world.send(&Draft::new("PUT", "/b-1/e/f/g/")));
    ok(world.send(&Draft::new("DELETE", "/b-1/e/f/g/")));
    ok(world.send(&Draft::new("PUT", "/b-1/e").body(b"x")));
    ok(world.send(&Draft::new("DELETE", "/b-1/e")));
    // A directory that is there for its objects becomes one that was put, and back.
    ok(world.send(&Draft::new("PUT", "/b-1/d/o").body(b"x")));
    assert_eq!(world.send(&Draft::new("HEAD", "/b-1/d/")).status, 404);
    let put = ok(world.send(&Draft::new("PUT", "/b-1/d/")));
    let head = ok(world.send(&Draft::new("HEAD", "/b-1/d/")));
    assert_eq!(put.header("etag"), head.header("etag"));
    let listed = world.get("/b-1?prefix=d/");
    assert_eq!(listed.elements("ETag")[0].replace("&quot;", "\""), head.header("etag"), "{}", listed.text());
    ok(world.send(&Draft::new("PUT", "/b-1/d/").header("x-amz-meta-a", "1")));
    ok(world.send(&Draft::new("PUT", "/b-1/d/").header("x-amz-meta-b", "2")));
    let again = ok(world.send(&Draft::new("HEAD", "/b-1/d/")));
    assert_eq!((again.header("x-amz-meta-a"), again.header("x-amz-meta-b")), ("", "2"));
    ok(world.send(&Draft::new("DELETE", "/b-1/d/o")));
    ok(world.send(&Draft::new("HEAD", "/b-1/d/")));
    ok(world.send(&Draft::new("DELETE", "/b-1/d/")));
    ok(world.send(&Draft::new("DELETE", "/b-1")));
    archive.close();
}

#[test]
fn errors_say_of_which_request_they_are() {
    let world = World::with_bucket();
    let reply = world.get("/b-1/a&b");
    assert_eq!(reply.code(), "NoSuchKey");
    assert_eq!(reply.element("Resource"), "/b-1/a&amp;b");
    assert_eq!(reply.element("RequestId"), reply.header("x-amz-request-id"));
    assert_eq!(reply.element("HostId"), reply.header("x-amz-id-2"));
    let refused = world.send(&Draft::new("GET", "/b-1?acl").header("x-amz-unheard-of", "1"));
    assert_eq!(refused.element("Resource"), "/b-1", "{}", refused.text());
    assert_eq!(refused.header("x-amz-request-id").len(), 16);
}

#[test]
fn names_with_control_characters_come_as_references() {
    let world = World::with_bucket();
    world.put("/b-1/a\u{1}b\rc", b"x");
    let plain = world.get("/b-1");
    assert_eq!(plain.element("Key"), "a&#x1;b&#xD;c", "{}", plain.text());
    assert_eq!(world.get("/b-1?encoding-type=url").element("Key"), "a%01b%0Dc");
    assert!(!plain.text().contains('\u{1}'));
    let object = "<Error>\u{1}</Error>";
    let typed =
        Draft::new("PUT", "/b-1/xml").body(object.as_bytes()).header("content-type", "application/xml");
    ok(world.send(&typed));
    assert_eq!(world.get("/b-1/xml").text(), object, "an object is its own");
}

/// botocore 1.43.11 waits for `100 Continue` also if the body has no bytes, and then stalled in the request
/// behind that one.
#[test]
fn whoever_waits_to_send_nothing_gets_another_connection() {
    let world = World::with_bucket();
    let put =
        |body: &[u8]| world.send(&Draft::new("PUT", "/b-1/k").body(body).header("expect", "100-continue"));
    assert_eq!(ok(put(b"")).header("connection"), "close");
    assert_eq!(ok(put(b"x")).header("connection"), "", "it is told to go on");
    assert_eq!(world.put("/b-1/k", b"").header("connection"), "");
}

#[test]
fn the_date_of_http_stands_for_that_of_the_signature() {
    let world = World::with_bucket();
    let send = |date: &str| {
        let mut raw = Draft::new("GET", "/b-1").header("date", date).sign(&world.key, &world.secret);
        raw.headers.retain(|(name, _)| name != "x-amz-date");
        world.send_raw(raw).code()
    };
    // The signature names x-amz-date, which is not there: the time was found, the header was not.
    assert_eq!(send("Sat, 21 Nov 2026 20:29:00 GMT"), "SignatureDoesNotMatch");
    assert_eq!(send("20261121T202900Z"), "SignatureDoesNotMatch");
    for bad in ["", "Sat, 21 Nov 2026 20:29:00", "Sat, 21 Nov 26 20:29:00 GMT", "21.11.2026"] {
        assert_eq!(send(bad), "AccessDenied", "{bad}");
    }
    assert_eq!(send("Sat, 21 Nov 2026 02:29:00 GMT"), "RequestTimeTooSkewed");
    let draft = Draft { dated: true, ..Draft::new("GET", "/b-1") };
    assert_eq!(world.send(&draft).status, 200);
}

#[test]
fn a_range_of_another_object_is_not_given() {
    let world = World::with_bucket();
    let put = world.put("/b-1/k", b"0123456789");
    let etag = put.header("etag").to_owned();
    for (condition, status, body) in [
        (etag.as_str(), 206, "123"),
        ("Sat, 21 Nov 2026 20:29:00 GMT", 206, "123"),
        ("\"00000000000000000000000000000000\"", 200, "0123456789"),
        ("Sat, 21 Nov 2026 20:28:59 GMT", 200, "0123456789"),
        ("W/\"x\"", 200, "0123456789"),
    ] {
        let draft = Draft::new("GET", "/b-1/k").header("range", "bytes=1-3").header("if-range", condition);
        let reply = world.send(&draft);
        assert_eq!((reply.status, reply.text().as_str()), (status, body), "{condition}");
    }
}

/// The engine takes a delete of what is not there, the fake one did not: over the engine itself a key of a
/// missing bucket was deleted with 204.
#[test]
fn counts_and_statuses_are_those_of_s3() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    for world in [over(&archive), World::with_bucket()] {
        have_the_statuses_of_s3(&world);
    }
    archive.close();
}

fn have_the_statuses_of_s3(world: &World) {
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"x").header("x-amz-tagging", "a=1&b=2")));
    for method in ["GET", "HEAD"] {
        let reply = ok(world.send(&Draft::new(method, "/b-1/k")));
        assert_eq!(reply.header("x-amz-tagging-count"), "2", "{method}");
    }
    let bare = Draft::new("PUT", "/b-1/k").body(b"y").header("if-match", "9dd4e461268c8034f5c8564e155c67a6");
    ok(world.send(&bare));
    for (method, path, body) in [
        ("GET", "/b-9?lifecycle", ""),
        ("DELETE", "/b-9?lifecycle", ""),
        ("GET", "/b-9?tagging", ""),
        ("GET", "/b-9/k?tagging", ""),
        ("GET", "/b-9/k?acl", ""),
        ("GET", "/b-9/k?legal-hold", ""),
        ("POST", "/b-9/k?restore", "<RestoreRequest><Days>1</Days></RestoreRequest>"),
        ("POST", "/b-9?delete", "<Delete><Object><Key>k</Key></Object></Delete>"),
        ("GET", "/b-9?versions", ""),
        ("GET", "/b-9?uploads", ""),
        ("POST", "/b-9/k?uploads", ""),
        ("GET", "/b-9?list-type=2", ""),
        ("GET", "/b-9/k", ""),
        ("PUT", "/b-9/k", ""),
        ("DELETE", "/b-9", ""),
        ("DELETE", "/b-9/k", ""),
        ("DELETE", "/b-9/a/b/k", ""),
        ("DELETE", "/b-9/k?versionId=null", ""),
        ("DELETE", "/b-9/d/", ""),
        ("PUT", "/b-9/d/", ""),
    ] {
        let reply = world.send(&Draft::new(method, path).body(body.as_bytes()));
        assert_eq!((reply.status, reply.code().as_str()), (404, "NoSuchBucket"), "{method} {path}");
    }
    for path in ["/b-1/none", "/b-1/a/b/none", "/b-1/none?versionId=null", "/b-1/none/"] {
        assert_eq!(world.send(&Draft::new("DELETE", path)).status, 204, "{path}");
    }
}

/// What is changed is 200, what is taken off 204, and an object that has none says so.
#[test]
fn tags_and_holds_are_answered_with_the_statuses_of_s3() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    ok(world.send(&Draft::new("PUT", "/b-1").header("x-amz-bucket-object-lock-enabled", "true")));
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"x")));
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let hold = |status: &str| format!("<LegalHold><Status>{status}</Status></LegalHold>");
    for (method, path, body, status, code, text) in [
        ("PUT", "/b-1/k?tagging", tags, 200, "", ""),
        ("GET", "/b-1/k?tagging", "", 200, "", "<Key>a</Key>"),
        ("DELETE", "/b-1/k?tagging", "", 204, "", ""),
        ("PUT", "/b-1?tagging", tags, 204, "", ""),
        ("DELETE", "/b-1?tagging", "", 204, "", ""),
        ("GET", "/b-1?tagging", "", 404, "NoSuchTagSet", ""),
        ("GET", "/b-1/k?legal-hold", "", 404, "NoSuchObjectLockConfiguration", ""),
        ("PUT", "/b-1/k?legal-hold", &hold("ON"), 200, "", ""),
        ("GET", "/b-1/k?legal-hold", "", 200, "", "<Status>ON</Status>"),
        ("PUT", "/b-1/k?legal-hold", &hold("OFF"), 200, "", ""),
        ("GET", "/b-1/k?legal-hold", "", 200, "", "<Status>OFF</Status>"),
        ("PUT", "/b-1/k?legal-hold", &hold("OFF"), 200, "", ""),
        ("PUT", "/b-1/k?legal-hold", &hold("PERHAPS"), 400, "MalformedXML", ""),
        ("GET", "/b-1/k?retention", "", 404, "NoSuchObjectLockConfiguration", ""),
        ("GET", "/b-1/none?legal-hold", "", 404, "NoSuchKey", ""),
        ("GET", "/b-1/none?tagging", "", 404, "NoSuchKey", ""),
    ] {
        let reply = world.send(&Draft::new(method, path).body(body.as_bytes()));
        let found = if reply.status < 300 { String::new() } else { reply.code() };
        assert_eq!((reply.status, found.as_str()), (status, code), "{method} {path}: {}", reply.text());
        assert!(reply.text().contains(text), "{method} {path}: {}", reply.text());
    }
    let status = |path: &str| world.get(path).header("x-amz-object-lock-legal-hold").to_owned();
    assert_eq!(status("/b-1/k"), "OFF");
    // What was said of the source is not said of a copy.
    let copy = || Draft::new("PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/k");
    ok(world.send(&copy()));
    assert_eq!((status("/b-1/copy").as_str(), world.get("/b-1/copy?legal-hold").status), ("", 404));
    let off = "x-amz-object-lock-legal-hold";
    ok(world.send(&copy().header(off, "OFF")));
    assert_eq!(status("/b-1/copy"), "OFF");
    ok(world.send(&Draft::new("PUT", "/b-1/k").body(b"y").header(off, "OFF")));
    assert_eq!(ok(world.get("/b-1/k?legal-hold")).element("Status"), "OFF");
    archive.close();
}

#[test]
fn listings_of_versions_name_their_next_page_and_checksums() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = over(&archive);
    for key in ["a/x", "b/x", "c"] {
        ok(world.send(&Draft::new("PUT", &format!("/b-1/{key}")).body(b"x")));
    }
    let first = ok(world.get("/b-1?versions&delimiter=/&max-keys=1"));
    assert_eq!(first.element("NextKeyMarker"), "a/");
    assert!(first.text().contains("<NextVersionIdMarker>"), "{}", first.text());
    let next = ok(world.get("/b-1?versions&delimiter=/&key-marker=a/&version-id-marker="));
    assert_eq!((next.elements("Prefix").join(" "), next.element("Key")), ("b/ ".into(), "c".into()));
    assert_eq!(next.element("ChecksumAlgorithm"), "CRC64NVME", "{}", next.text());
    assert_eq!(next.element("ChecksumType"), "FULL_OBJECT");
    archive.close();
}
