//! What clients other than ours may send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::{Instance, bytes};

/// Method, target, headers, body; status and the first letters of the word of the refusal.
type Refused<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a [u8], u16, &'a str);

#[test]
fn bad_requests_are_refused_and_store_nothing() {
    let instance = Instance::serving();
    assert_eq!(instance.http("PUT", "/data/d/f", &[], b"123456789").0, 201);
    let before = instance.kist(&["ls", "-r", "--json", "/"]).exits(0).out;
    let long = format!("/data/{}", "n".repeat(256));
    let deep = format!("/data{}", "/abc".repeat(1025));
    let zeros = "0".repeat(64);
    let refused: Vec<Refused> = vec![
        ("PUT", "/data/d/%2e%2e/f", vec![], b"x", 400, "bad-path"),
        ("PUT", "/data/d/%00", vec![], b"x", 400, "bad-path"),
        ("PUT", "/data/d/%ff", vec![], b"x", 400, "bad-path"),
        ("PUT", "/data/d/a%2Fb%2F..", vec![], b"x", 400, "bad-path"),
        ("PUT", &long, vec![], b"x", 400, "bad-path"),
        ("PUT", &deep, vec![], b"x", 400, "bad-path"),
        ("PUT", "/data/d/g", vec![("Digest", "adler32=00000001")], b"x", 400, "digest-mismatch"),
        ("PUT", "/data/d/g", vec![("Kist-Blake3", &zeros)], b"x", 400, "digest-mismatch"),
        ("PUT", "/data/d/g", vec![("Digest", "adler32=xyz")], b"x", 400, ""),
        ("PUT", "/data/d/g", vec![("Kist-Mode", "rwx")], b"x", 400, ""),
        ("PUT", "/data/d/g", vec![("Kist-Mtime", "yesterday")], b"x", 400, ""),
        ("PUT", "/data/d/g", vec![("Kist-Class", "gold")], b"x", 400, "no-such-class"),
        ("PUT", "/data/d/f", vec![("If-None-Match", "*")], b"x", 409, "exists"),
        ("PUT", "/data/d", vec![], b"x", 409, "is-a-directory"),
        ("PUT", "/data/d/f/g", vec![], b"x", 409, "not-a-directory"),
        ("GET", "/data/d", vec![], b"", 409, "is-a-directory"),
        ("GET", "/data/absent", vec![], b"", 404, "not-found"),
        ("GET", "/data/d/f", vec![("Range", "bytes=9-")], b"", 416, "range"),
        ("DELETE", "/data/d", vec![], b"", 409, "not-empty"),
        ("PATCH", "/data/d/f", vec![], b"x", 405, ""),
        ("POST", "/api/v1/requests", vec![], b"{\"paths\": [\"/absent\"]}", 404, "not-found"),
        ("POST", "/api/v1/requests", vec![], b"{\"paths\": ", 400, "bad-request"),
        ("POST", "/api/v1/requests", vec![], b"{\"paths\": [\"/d/../f\"]}", 400, "bad-path"),
        ("GET", "/api/v1/requests/99", vec![], b"", 404, "not-found"),
        ("GET", "/api/v1/tapes/nonsense", vec![], b"", 400, "bad-request"),
        ("GET", "/api/v1/tapes/XX9999", vec![], b"", 404, "not-found"),
        ("GET", "/nowhere", vec![], b"", 404, ""),
    ];
    for (method, target, headers, body, status, word) in refused {
        let (found, answer) = instance.http(method, target, &headers, body);
        let what = &target[..target.len().min(60)];
        assert_eq!(found, status, "{method} {what} {headers:?}: {answer}");
        assert!(
            answer.contains(&format!("\"type\":\"{word}")),
            "{method} {what}: '{word}' is not in {answer}"
        );
    }
    assert_eq!(instance.kist(&["ls", "-r", "--json", "/"]).exits(0).out, before);
}

#[test]
fn bodies_that_end_early_store_nothing() {
    let instance = Instance::serving();
    let head = |length: &str| {
        let key = instance.key();
        format!("PUT /data/torn HTTP/1.1\r\nHost: kist\r\nAuthorization: Bearer {key}\r\n{length}\r\n\r\n")
    };
    let body = bytes(400_000, 3);
    instance.torn(&[head("Content-Length: 500000").as_bytes(), &body].concat());
    instance.torn(&[head("Transfer-Encoding: chunked").as_bytes(), b"ffff\r\n", &body[..1000]].concat());
    instance.torn(&[head("Transfer-Encoding: chunked").as_bytes(), b"zz\r\nxx\r\n"].concat());
    instance.torn(head("Content-Length: -1").as_bytes());
    instance.torn(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client");
    instance.kist(&["stat", "/torn"]).exits(3);
    assert_eq!(instance.kist(&["ls"]).exits(0).out, "");
}

/// The bytes of a coding that nobody undoes were stored as if they were the file.
#[test]
fn codings_other_than_chunks_are_refused() {
    let instance = Instance::serving();
    let key = instance.key();
    for coding in ["gzip, chunked", "chunked, chunked", "gzip\r\nTransfer-Encoding: chunked"] {
        let fields = format!("Authorization: Bearer {key}\r\nTransfer-Encoding: {coding}");
        let head = format!("PUT /data/coded HTTP/1.1\r\nHost: kist\r\n{fields}\r\n\r\n");
        let mut stream = instance.begun(&[head.as_bytes(), b"1\r\nx\r\n0\r\n\r\n"].concat());
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(status, *b"HTTP/1.1 501", "{coding}");
    }
    instance.kist(&["stat", "/coded"]).exits(3);
}

/// Nine bodies that stood still held all memory through which the pool is written: every put above 256 KiB of
/// everybody waited for them.
#[test]
fn bodies_that_stand_still_hold_up_no_other() {
    const PATIENCE: Duration = Duration::from_secs(120);
    let instance = Instance::serving();
    let key = instance.key();
    let body = bytes(2_000_000, 5);
    let head = |name: &str| {
        let length = body.len();
        let fields = format!("Authorization: Bearer {key}\r\nContent-Length: {length}");
        format!("PUT /data/{name} HTTP/1.1\r\nHost: kist\r\n{fields}\r\n\r\n")
    };
    let part = |name: &str, sent: usize| [head(name).as_bytes(), &body[..sent]].concat();
    let mut slow: Vec<_> = (0..16).map(|n| instance.begun(&part(&format!("slow{n}"), 300_000))).collect();
    let created = |stream: &mut TcpStream| {
        let mut status = [0; 12];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut status).unwrap();
        assert_eq!(status, *b"HTTP/1.1 201");
    };
    created(&mut instance.begun(&part("quick", body.len())));
    for stream in &mut slow {
        stream.write_all(&body[300_000..]).unwrap();
        created(stream);
    }
    for name in ["quick", "slow0", "slow15"] {
        assert_eq!(instance.http("HEAD", &format!("/data/{name}"), &[], b"").0, 200);
    }
}

#[test]
fn ranges_digests_and_repeats() {
    let instance = Instance::serving();
    let key = [("Idempotency-Key", "0001"), ("Digest", "adler32=091e01de")];
    let (status, first) = instance.http("PUT", "/data/f", &key, b"123456789");
    assert_eq!(status, 201, "{first}");
    let (status, repeat) = instance.http("PUT", "/data/f", &key, b"123456789");
    assert_eq!(status, 200, "{repeat}");
    let (status, other) = instance.http("PUT", "/data/g", &key[..1], b"other");
    assert_eq!(status, 422, "{other}");
    let ranges = [("bytes=2-4", "345"), ("bytes=7-", "89"), ("bytes=-2", "89"), ("bytes=0-99", "123456789")];
    for (range, expected) in ranges {
        let (status, answer) = instance.http("GET", "/data/f", &[("Range", range)], b"");
        assert_eq!(status, 206, "{range}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{range}: {answer}");
    }
    let (status, whole) = instance.http("GET", "/data/f", &[], b"");
    assert_eq!(status, 200);
    let lower = whole.to_lowercase();
    assert!(lower.contains("digest: adler32=091e01de") && lower.contains("kist-locality: online"), "{whole}");
    assert!(whole.ends_with("\r\n\r\n123456789"), "{whole}");
    let (status, head) = instance.http("HEAD", "/data/f", &[], b"");
    assert_eq!(status, 200);
    assert!(head.to_lowercase().contains("content-length: 9") && head.ends_with("\r\n\r\n"), "{head}");
}
