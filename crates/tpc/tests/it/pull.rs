//! Files that are fetched.

use base::{Adler32, ByteCount};
use http::HeaderMap;
use tpc::{Digests, Error, Want};

use crate::world::{PLAIN, SERVER, URL, World, drain, fetch, fetch_from, headers};

const ASKING: Want = Want { streams: 1, checksums: true };

fn adler(value: u32) -> Digests {
    Digests { adler32: Some(Adler32(value)), ..Digests::default() }
}

#[tokio::test(start_paused = true)]
async fn a_file_comes_with_what_the_server_says_of_it() {
    let world = World::new();
    world.says(SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nDigest: adler32=084b021f\r\n\r\nhello\n");
    let client = world.client(|_| {});
    let given = headers(&[
        ("authorization", "Bearer t"),
        ("x-extra", "1"),
        ("host", "evil"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("range", "bytes=0-1"),
        ("if-none-match", "*"),
        ("want-digest", "x"),
    ]);
    let mut pull = client.pull(URL, given, ASKING).await.unwrap();
    assert_eq!((pull.length, pull.remote.to_string().as_str()), (Some(ByteCount(6)), "8.1.1.1:80"));
    assert_eq!(drain(&mut pull).await.unwrap(), b"hello\n");
    assert_eq!(pull.checksums.wait().await, Ok(adler(0x084b_021f)));
    drop(pull.body);
    assert_eq!(client.connections(), 0);
    let heads = world.heads();
    assert_eq!(heads.len(), 1, "the server said a checksum: it is not asked again");
    let mut lines: Vec<&str> = heads[0].trim_end().lines().collect();
    assert_eq!(lines.remove(0), "GET /store/f?x=1 HTTP/1.1");
    lines.sort_unstable();
    // XRootD 5.5.3 knows the names of headers only in this case.
    let expected = [
        "Accept-Encoding: identity",
        "Accept: */*",
        "Authorization: Bearer t",
        "Host: 8.1.1.1",
        "User-Agent: kist-tpc/0.1.0",
        "Want-Digest: adler32, md5, crc32c",
        "Want-Repr-Digest: adler=5, adler32=5, crc32c=4, md5=3",
        "X-Extra: 1",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn checksums_are_asked_for_where_they_do_not_come_with_the_file() {
    let answers = |head: &'static str| {
        let world = World::new();
        world.serve(SERVER, move |mut visit| async move {
            if visit.head().await.starts_with("HEAD") {
                visit.say(head).await;
            } else {
                visit.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").await;
            }
        });
        world
    };
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nDigest: adler32=084b021f\r\n\r\n", Ok(adler(0x084b_021f))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", Ok(Digests::default())),
        ("HTTP/1.1 200 OK\r\nDigest: adler32=1\r\n\r\n", Ok(adler(1))),
        ("HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n", Ok(Digests::default())),
        ("garbage", Ok(Digests::default())),
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nDigest: adler32=1\r\n\r\n", Err(Error::Changed)),
        ("HTTP/1.1 200 OK\r\nDigest: adler32=1\r\nDigest: adler32=2\r\n\r\n", Err(Error::Digests)),
    ];
    for (head, expected) in cases {
        let world = answers(head);
        let client = world.client(|_| {});
        let mut pull = client.pull(URL, HeaderMap::new(), ASKING).await.unwrap();
        assert_eq!(drain(&mut pull).await.unwrap(), b"hello\n");
        assert_eq!(pull.checksums.wait().await, expected, "{head}");
        assert_eq!(world.heads().len(), 2);
    }
    let world = answers("");
    let pull = world.client(|_| {}).pull(URL, HeaderMap::new(), PLAIN).await.unwrap();
    assert_eq!(pull.checksums.wait().await, Ok(Digests::default()));
    assert_eq!(world.heads().len(), 1, "nobody wants checksums");
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_length_has_to_be_framed_or_announced() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(fetch(chunked).await.unwrap(), b"abcde");
    // The end of the connection is no end of the file.
    assert_eq!(fetch("HTTP/1.1 200 OK\r\n\r\nabc").await, Err(Error::NoLength));
    for (length, expected) in [
        (3, Ok(b"abc".to_vec())),
        (4, Err(Error::Length { announced: ByteCount(4), came: ByteCount(3) })),
        (2, Err(Error::Length { announced: ByteCount(2), came: ByteCount(3) })),
    ] {
        let world = World::new();
        world.serve(SERVER, move |mut visit| async move {
            if visit.head().await.starts_with("HEAD") {
                visit.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
            } else {
                visit.say("HTTP/1.0 200 OK\r\n\r\nabc").await;
            }
        });
        assert_eq!(fetch_from(&world, URL).await, expected, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_and_credentials_stay_at_home() {
    let world = World::new();
    world.name("head", &["8.1.1.1"]).name("pool", &["8.2.2.2"]);
    world.serve("8.1.1.1:80", |mut visit| async move {
        let location =
            if visit.head().await.contains("/store/f") { "/b" } else { "http://pool:8080/c?token=t" };
        visit.say(format!("HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")).await;
    });
    world.says("8.2.2.2:8080", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
    let given =
        headers(&[("authorization", "Bearer t"), ("cookie", "c=1"), ("x-auth-token", "1"), ("scitag", "9")]);
    let mut pull = world.client(|_| {}).pull("http://head/store/f", given, PLAIN).await.unwrap();
    assert_eq!(drain(&mut pull).await.unwrap(), b"ab");
    assert_eq!(pull.remote.to_string(), "8.2.2.2:8080");
    let heads = world.heads();
    let has = |n: usize, line: &str| heads[n].contains(line);
    assert!(has(0, "Authorization: Bearer t") && has(1, "Authorization: Bearer t"), "{heads:?}");
    assert!(
        has(1, "GET /b ") && has(2, "GET /c?token=t ") && has(2, "Host: pool:8080") && has(2, "Scitag: 9")
    );
    assert!(has(1, "X-Auth-Token: 1"), "{heads:?}");
    for kept in ["Authorization", "Cookie", "X-Auth-Token"] {
        assert!(!has(2, kept), "{heads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_connections_hold() {
    let world = World::new();
    world.says(SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
    let client = world.client(|settings| settings.limits.connections_per_host = 2);
    let [anna, bert, carl] = ["anna", "bert", "carl"].map(|caller| client.of(caller));
    let one = anna.pull(URL, HeaderMap::new(), PLAIN).await.unwrap();
    assert_eq!(anna.pull(URL, HeaderMap::new(), PLAIN).await.err(), Some(Error::Busy), "half of them");
    let _two = bert.pull(URL, HeaderMap::new(), PLAIN).await.unwrap();
    assert_eq!(carl.pull(URL, HeaderMap::new(), PLAIN).await.err(), Some(Error::Busy));
    assert_eq!(client.connections(), 2);
    drop(one);
    assert!(carl.pull(URL, HeaderMap::new(), PLAIN).await.is_ok());
}
