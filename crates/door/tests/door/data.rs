//! Files in and out.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering::SeqCst;

use archive::Locality;
use base::{Adler32, Blake3, ByteCount, Timestamp};
use wire::{Problem, PutReply};

use crate::client::{KEY, Reply, Server, refused};
use crate::fake::{Event, PIECE};

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn a_file_goes_in_and_comes_out() {
    let server = Server::start();
    let bytes = content(300_000);
    let digest = format!("adler32={}", Adler32::of(&bytes));
    let put = server.request("PUT", "/data/a%20b/x", &format!("Digest: {digest}\r\n"), &bytes);
    assert_eq!(put.status, 201, "{put:?}");
    let reply: PutReply = put.json();
    assert_eq!((reply.file_id, reply.created, reply.replaced, reply.size), (7, true, false, 300_000));
    assert_eq!(reply.blake3, Blake3::of(&bytes).to_string());
    assert_eq!((put.header("etag"), put.header("digest")), (Some("\"7\""), Some(digest.as_str())));

    let again = server.request("PUT", "/data/a%20b/x", "", &bytes);
    assert_eq!((again.status, again.json::<PutReply>().created), (200, false));

    let get = server.get("/data/a%20b/x");
    assert_eq!(get.status, 200);
    assert!(get.body == bytes);
    let head = server.request("HEAD", "/data/a%20b/x", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for reply in [&get, &head] {
        for (name, value) in [
            ("content-length", "300000"),
            ("digest", digest.as_str()),
            ("etag", "\"7\""),
            ("accept-ranges", "bytes"),
            ("kist-locality", "ONLINE"),
            ("kist-file-id", "7"),
            ("kist-mode", "0644"),
            ("kist-class", "standard"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name}");
        }
        assert!(reply.header("last-modified").unwrap().ends_with(" GMT"));
    }

    assert_eq!(server.request("DELETE", "/data/a%20b/x", "", b"").status, 204);
    refused(&server.get("/data/a%20b/x"), 404, "not-found");
    refused(&server.request("DELETE", "/data/a%20b/x", "", b""), 404, "not-found");
}

#[test]
fn an_empty_file_and_a_link_are_files_too() {
    let server = Server::start();
    assert_eq!(server.request("PUT", "/data/empty", "", b"").status, 201);
    let get = server.get("/data/empty");
    assert_eq!((get.status, get.header("content-length"), get.body.len()), (200, Some("0"), 0));
    let link = server.request("PUT", "/data/link", "Kist-Link-Target: ../%C3%A9\r\n", b"");
    assert_eq!(link.status, 201);
    assert_eq!(server.get("/data/link").header("kist-link-target"), Some("../%C3%A9"));
    refused(&server.request("PUT", "/data/link2", "Kist-Link-Target: x\r\n", b"y"), 400, "bad-request");
    assert!(!server.engine.files.lock().unwrap().contains_key("/link2"));
}

#[test]
fn a_chunked_body_is_a_file() {
    let server = Server::start();
    let head = format!(
        "PUT /data/c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{KEY}Transfer-Encoding: chunked\r\n\r\n"
    );
    let put = server.raw(format!("{head}5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"));
    assert_eq!(put.status, 201);
    assert_eq!(server.engine.options.lock().unwrap().as_ref().unwrap().length, None);
    assert_eq!(server.get("/data/c").body, b"hello, world");
}

#[test]
fn all_headers_of_a_put_reach_the_engine() {
    let server = Server::start();
    let blake3 = Blake3::of(b"abc");
    let headers = format!(
        "Digest: md5=x, adler32=024d0127\r\nIdempotency-Key: k-1\r\nKist-Blake3: {blake3}\r\n\
         Kist-Mtime: 2026-11-21T20:29:00.5Z\r\nKist-Mode: 0600\r\nKist-Owner: anna%20%C3%A9\r\n\
         Kist-Group: g\r\n\
         Kist-Class: standard\r\nKist-Dataset: run%2F7\r\nKist-Parents: false\r\nIf-None-Match: *\r\n"
    );
    assert_eq!(server.request("PUT", "/data/f", &headers, b"abc").status, 201);
    let options = server.engine.options.lock().unwrap().take().unwrap();
    assert_eq!(options.length, Some(ByteCount(3)));
    assert_eq!(options.adler32, Some(Adler32::of(b"abc")));
    assert_eq!(options.blake3, Some(blake3));
    assert_eq!(options.attributes.mtime, Timestamp(1_795_292_940_500_000_000));
    assert_eq!(options.attributes.mode, 0o600);
    assert_eq!((options.attributes.owner.as_str(), options.attributes.group.as_str()), ("anna é", "g"));
    assert_eq!((options.class.as_deref(), options.dataset.as_deref()), (Some("standard"), Some("run/7")));
    assert_eq!(options.idempotency, Some(("k-1".into(), "anna".into())));
    assert!(!options.make_parents && options.keep_existing);
    assert_eq!(server.request("PUT", "/data/g", "", b"abc").status, 201);
    let options = server.engine.options.lock().unwrap().take().unwrap();
    assert!(options.make_parents && !options.keep_existing && options.idempotency.is_none());
    assert!(
        options.attributes.mtime.0 > 1_700_000_000_000_000_000,
        "the present, if the client names no time"
    );
}

#[test]
fn malformed_headers_of_a_put_are_refused() {
    let server = Server::start();
    let long = format!("Kist-Owner: {}", "x".repeat(65));
    for bad in [
        "Digest: adler32=xyz",
        "Kist-Blake3: 12",
        "Kist-Mtime: yesterday",
        "Kist-Mode: 0888",
        "Kist-Mode: 17777",
        "Kist-Owner: %ff",
        "Kist-Owner: a%00",
        "Kist-Owner: 100%",
        "Kist-Parents: yes",
        "Kist-Class: a\r\nKist-Class: b",
        "Kist-Link-Target: ",
        "Idempotency-Key: ",
        "If-None-Match: \"7\"",
        "If-Match: \"7\"",
        "Content-Range: bytes 0-3/9",
        "Content-Encoding: gzip",
        &long,
    ] {
        refused(&server.request("PUT", "/data/f", &format!("{bad}\r\n"), b"abc"), 400, "bad-request");
    }
    assert!(server.engine.files.lock().unwrap().is_empty());
}

#[test]
fn hostile_paths_are_refused() {
    let server = Server::start();
    server.engine.add("/a", b"x", Locality::Online);
    let long = format!("/data/{}", "a".repeat(256));
    let deep = format!("/data{}", "/a".repeat(2049));
    for bad in [
        "/data/../a",
        "/data/%2e%2e/a",
        "/data/%2E./a",
        "/data/x/..",
        "/data/..%2fa",
        "/data//a",
        "/data/%2fa",
        "/data/a/",
        "/data/a%00",
        "/data/%ff",
        "/data/a%",
        "/data/a%g0",
        "/data/.kist/1",
        &long,
        &deep,
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            refused(&server.request(method, bad, "", b""), 400, "bad-path");
        }
        let head = server.request("HEAD", bad, "", b"");
        assert_eq!((head.status, head.header("kist-problem")), (400, Some("bad-path")), "{bad}");
    }
    let detail = server.get(&long).json::<Problem>().detail;
    assert_eq!(detail, "a component of the path has 256 bytes; the limit is 255");
    assert_eq!(server.engine.files.lock().unwrap().len(), 1);
}

#[test]
fn ranges_and_conditions() {
    let server = Server::start();
    let bytes = content(200_000);
    server.engine.add("/f", &bytes, Locality::OnlineAndNearline);
    server.engine.add("/none", b"", Locality::Online);
    let ask = |headers: &str| server.request("GET", "/data/f", &format!("{headers}\r\n"), b"");
    for (headers, from, to) in [
        ("Range: bytes=0-0", 0, 1),
        ("Range: bytes=70000-169999", 70_000, 170_000),
        ("Range: bytes=199999-", 199_999, 200_000),
        ("Range: bytes=-10", 199_990, 200_000),
        ("If-Range: \"7\"\r\nRange: bytes=5-9", 5, 10),
        ("If-Match: \"7\"\r\nRange: bytes=5-9", 5, 10),
    ] {
        let reply = ask(headers);
        assert_eq!(reply.status, 206, "{headers}");
        assert!(reply.body == bytes[from..to]);
        assert_eq!(reply.header("content-range"), Some(format!("bytes {from}-{}/200000", to - 1).as_str()));
        assert_eq!(reply.header("content-length"), Some((to - from).to_string().as_str()));
    }
    for headers in
        ["Range: bytes=0-1,5-6", "Range: lines=1-2", "If-Range: \"8\"\r\nRange: bytes=0-1", "If-Match: *"]
    {
        let reply = ask(headers);
        assert_eq!(reply.status, 200, "{headers}");
        assert!(reply.body == bytes);
    }
    let reply = ask("Range: bytes=200000-");
    refused(&reply, 416, "range");
    assert_eq!(reply.header("content-range"), Some("bytes */200000"));
    refused(&server.request("GET", "/data/none", "Range: bytes=0-\r\n", b""), 416, "range");
    let reply = ask("If-None-Match: \"3\", W/\"7\"");
    assert_eq!((reply.status, reply.body.len(), reply.header("etag")), (304, 0, Some("\"7\"")));
    refused(&ask("If-Match: \"3\""), 412, "precondition-failed");
    let head = server.request("HEAD", "/data/f", "Range: bytes=0-1\r\n", b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("200000")));
}

#[test]
fn nearline_files_and_directories_have_no_body() {
    let server = Server::start();
    server.engine.add("/t", b"12345", Locality::Nearline);
    let reply = server.get("/data/t");
    refused(&reply, 409, "nearline");
    let detail = reply.json::<Problem>().detail;
    assert!(detail.contains("KS0001") && detail.contains("kist stage /t"), "{detail}");
    let head = server.request("HEAD", "/data/t", "", b"");
    assert_eq!((head.status, head.header("kist-locality")), (200, Some("NEARLINE")));
    assert_eq!(head.header("content-length"), Some("5"));
    for target in ["/data", "/data/", "/data/dir"] {
        refused(&server.get(target), 409, "is-a-directory");
        assert_eq!(server.request("HEAD", target, "", b"").header("kist-problem"), Some("is-a-directory"));
    }
    refused(&server.request("POST", "/data/t", "", b""), 405, "method");
    assert_eq!(server.request("POST", "/data/t", "", b"").header("allow"), Some("GET, HEAD, PUT, DELETE"));
}

/// The status was sent before anything was read: a file that could not be read at all was 200 and a broken
/// connection, without a word.
#[test]
fn what_cannot_be_read_is_refused_before_the_status_is_sent() {
    let server = Server::start();
    server.engine.add("/broken", b"12345", Locality::Online);
    refused(&server.get("/data/broken"), 500, "corrupt");
    // Far behind the first byte, and known beforehand.
    let size = 8 * PIECE;
    server.engine.add("/away", &content(size), Locality::Online);
    let reply = server.get("/data/away");
    refused(&reply, 503, "drives-away");
    let detail = reply.json::<Problem>().detail;
    assert!(detail.contains("drives 1 and 3 of the pool that hold it do not answer"), "{detail}");
    assert!(reply.header("retry-after").is_some());
    let part = |range: &str| server.request("GET", "/data/away", &format!("Range: bytes={range}\r\n"), b"");
    refused(&part(&format!("{}-", size - 1)), 503, "drives-away");
    assert_eq!(part("0-9").status, 206, "what is on drives that answer is given");
}

#[test]
fn a_wrong_digest_stores_nothing() {
    let server = Server::start();
    refused(&server.request("PUT", "/data/f", "Digest: adler32=1\r\n", b"abc"), 400, "digest-mismatch");
    assert!(server.engine.files.lock().unwrap().is_empty());
}

#[test]
fn a_short_body_stores_nothing() {
    let server = Server::start();
    // The engine hears of a small body of a known length only once it is there.
    for (head, is_begun) in [
        ("Content-Length: 1000000\r\n\r\nabc", true),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true),
        ("Content-Length: 1000\r\n\r\nabc", false),
        ("Content-Length: 9\r\n\r\n", false),
    ] {
        let mut stream = server.connect();
        stream.write_all(format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}{head}").as_bytes()).unwrap();
        if is_begun {
            assert_eq!(server.engine.event(), Event::Begun("/f".into()));
        }
        stream.shutdown(Shutdown::Write).unwrap();
        if is_begun {
            assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
        }
        let reply = Reply::read(&mut stream);
        assert!([0, 400].contains(&reply.status), "{reply:?}");
        assert!(server.engine.files.lock().unwrap().is_empty());
    }
}

#[test]
fn a_refused_put_does_not_ask_for_the_body() {
    let server = Server::start();
    server.engine.add("/f", b"old", Locality::Online);
    let head = format!(
        "PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}Expect: 100-continue\r\nContent-Length: 1000000000\r\n\
         If-None-Match: *\r\n\r\n"
    );
    let reply = server.raw(head);
    refused(&reply, 409, "exists");
}

#[test]
fn a_refused_large_put_can_read_its_answer() {
    let server = Server::start();
    server.engine.add("/f", b"old", Locality::Online);
    let body = content(20 << 20);
    refused(&server.request("PUT", "/data/f", "If-None-Match: *\r\n", &body), 409, "exists");
}

#[test]
fn a_fault_in_the_middle_breaks_the_connection_before_the_last_byte() {
    let server = Server::start();
    let bytes = content(10 * PIECE);
    for name in ["/broken", "/panic", "/short"] {
        server.engine.add(name, &bytes, Locality::Online);
        let reply = server.get(&format!("/data{name}"));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-length"), Some(bytes.len().to_string().as_str()));
        assert!(reply.body.len() < bytes.len(), "{name}");
        assert!(reply.body == bytes[..reply.body.len()]);
    }
    // Such a thread takes no place with it.
    assert_eq!(server.request("PUT", "/data/panicking", "", b"x").problem(), (500, "internal".to_owned()));
    assert_eq!(server.request("PUT", "/data/well", "", b"x").status, 201);
}

#[test]
fn pieces_on_their_way_out_are_few() {
    let server = Server::start();
    server.engine.add("/endless", &content(PIECE), Locality::Online);
    let mut stream = server.connect();
    stream.write_all(format!("GET /data/endless HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    // Much more than sockets and channels can hold, so that the engine had to wait for the client.
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < 256 << 20 {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0);
        read += bytes;
    }
    drop(stream);
    assert_eq!(server.engine.event(), Event::Closed("/endless".into()));
    let most = server.engine.most.load(SeqCst);
    // Four in the channel, one in the thread, those within hyper's 512 KiB and one behind them.
    assert!((1..=4 + 1 + (512 << 10) / PIECE + 1).contains(&most), "{most}");
}

#[test]
fn many_requests_on_one_connection() {
    let server = Server::start();
    let mut stream = server.connect();
    let mut read = Vec::new();
    for round in 0..50 {
        let body = format!("content {round:02}");
        let request = format!(
            "PUT /data/f{round} HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: 10\r\n\r\n{body}\
             GET /data/f{round} HTTP/1.1\r\nHost: h\r\n{KEY}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        while !read.ends_with(body.as_bytes()) {
            let mut buffer = [0; 4096];
            let bytes = stream.read(&mut buffer).unwrap();
            assert!(bytes > 0);
            read.extend_from_slice(&buffer[..bytes]);
        }
    }
}
