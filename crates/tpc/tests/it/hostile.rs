//! Servers that want harm, or do not know better.

use std::time::Duration;

use base::ByteCount;
use http::HeaderMap;
use tokio::time::{Instant, sleep};
use tpc::{Error, LowestRate};

use crate::world::{PLAIN, SERVER, URL, World, drain, fetch, fetch_from};

#[tokio::test(start_paused = true)]
async fn what_is_no_http_is_no_answer() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    let informed = "HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    let answers: Vec<&str> = vec![
        "",
        "\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        "220 mail ESMTP\r\n",
        "-ERR unknown command\r\n",
        "HTTP/1.1 200",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: \u{0}\r\n\r\n",
        &many,
        &long,
        &informed,
    ];
    for answer in answers {
        let shown: String = answer.chars().take(60).collect();
        assert_eq!(fetch(answer).await, Err(Error::NoAnswer), "{shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_other_than_200_ends_the_copy() {
    for status in [201, 204, 300, 304, 400, 401, 403, 404, 500, 503] {
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(fetch(answer).await, Err(Error::Status(status)));
    }
    let partial = "HTTP/1.1 206 X\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/6\r\n\r\nhe";
    assert_eq!(fetch(partial).await, Err(Error::Range), "a part that nobody asked for");
    let packed = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\nhe";
    assert_eq!(fetch(packed).await, Err(Error::Coding));
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDigest: md5=!!, adler32=zz,=,\u{1f}\r\n\r\nhe";
    assert_eq!(fetch(said).await, Err(Error::NoAnswer), "a control character");
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDigest: md5=!!, adler32=zz,=,,\r\n\r\nhe";
    assert_eq!(fetch(said).await.unwrap(), b"he");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_as_announced_is_no_file() {
    let broken = |after| Err(Error::Broken { after: ByteCount(after) });
    assert_eq!(fetch("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await, broken(5));
    let more = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more";
    assert_eq!(fetch(more).await.unwrap(), b"hello", "the rest is no part of the answer");
    let chunked = |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    for (body, after) in [
        ("", 0),
        ("zz\r\n", 0),
        ("5\r\nhel", 3),
        ("5\r\nhello", 5),
        ("5\r\nhelloX", 5),
        ("5\r\nhello\r\n", 5),
        ("5\r\nhello\r\n-1\r\n", 5),
        ("fffffffffffffffff\r\n", 0),
        ("ffffffffffffffff\r\nabc", 3),
    ] {
        assert_eq!(fetch(chunked(body)).await, broken(after), "{body}");
    }
    let endless = format!("{}{}", chunked(""), "0;".to_owned() + &"x".repeat(1 << 20));
    assert_eq!(fetch(endless).await, broken(0));
    let both =
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    assert_eq!(fetch(both).await.unwrap(), b"ab", "chunks go before a length (RFC 9112)");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_without_an_end() {
    // Never a byte; a byte of the head each second; an answer that is only ever announced.
    let silent = World::new();
    silent.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.hang().await;
    });
    let dripping = World::new();
    dripping.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.say("HTTP/1.1 200 OK\r\nX: ").await;
        loop {
            visit.say("y").await;
            sleep(Duration::from_secs(1)).await;
        }
    });
    let announcing = World::new();
    announcing.serve(SERVER, |mut visit| async move {
        visit.head().await;
        loop {
            visit.say("HTTP/1.1 102 Processing\r\n\r\n").await;
            sleep(Duration::from_secs(1)).await;
        }
    });
    for world in [silent, dripping, announcing] {
        let began = Instant::now();
        assert_eq!(fetch_from(&world, URL).await, Err(Error::NoAnswer));
        assert!((60..62).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

/// Each such server kept a thread of all connections of this one busy for a minute.
#[tokio::test(start_paused = true)]
async fn announcements_without_end_are_not_read_for_long() {
    let world = World::new();
    world.serve(SERVER, |mut visit| async move {
        visit.head().await;
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
        for _ in 0..10_000 {
            visit.say(&many).await;
        }
        visit.hang().await;
    });
    let began = Instant::now();
    assert_eq!(fetch_from(&world, URL).await, Err(Error::NoAnswer));
    assert_eq!(began.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lowest_rate_holds_for_bodies() {
    let drips = |bytes: usize| {
        let world = World::new();
        world.serve(SERVER, move |mut visit| async move {
            visit.head().await;
            visit.say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
            for _ in 0..1000usize.div_ceil(bytes) {
                sleep(Duration::from_secs(1)).await;
                visit.say(vec![b'x'; bytes]).await;
            }
            visit.hang().await;
        });
        world
    };
    let rate = LowestRate { bytes: ByteCount(100), window: Duration::from_secs(10) };
    let get = async |world: &std::sync::Arc<World>| {
        let client = world.client(|settings| settings.timeouts.lowest = rate);
        drain(&mut client.pull(URL, HeaderMap::new(), PLAIN).await?).await
    };
    assert_eq!(get(&drips(12)).await.unwrap().len(), 1000);
    assert_eq!(get(&drips(9)).await, Err(Error::Slow { bytes: ByteCount(100), seconds: 10 }));
    // Our own slowness is not the server's.
    let world = drips(1000);
    let client = world.client(|settings| settings.timeouts.lowest = rate);
    let mut pull = client.pull(URL, HeaderMap::new(), PLAIN).await.unwrap();
    sleep(Duration::from_secs(1000)).await;
    assert_eq!(drain(&mut pull).await.unwrap().len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn redirects_lead_nowhere_else() {
    let to = |location: &str| format!("HTTP/1.1 302 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let redirect = async |location: &str| {
        let world = World::new();
        world.name("inner", &["10.0.0.1"]).says(SERVER, to(location));
        let outcome = fetch_from(&world, URL).await;
        let dialled = world.dialled();
        assert!(dialled.iter().all(|to| to == SERVER), "{dialled:?}");
        (outcome.unwrap_err(), dialled.len())
    };
    assert_eq!(redirect(URL).await, (Error::Redirects(10), 11), "a circle");
    for location in [
        "http://127.0.0.1/",
        "http://127.0.0.1:8080/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:10.0.0.1]/",
        "http://inner/",
        "http://0.0.0.0/",
        "http://8.1.1.1:6379/",
        "http://8.1.1.1:22/",
    ] {
        assert_eq!(redirect(location).await, (Error::Refused, 1), "{location}");
    }
    let no_url = Error::Redirect("to something that is no URL");
    for location in ["", "file:///etc/passwd", "gopher://8.1.1.1/", "http://u:p@8.1.1.1/", "http://0x7f.1/"] {
        assert_eq!(redirect(location).await, (no_url.clone(), 1), "{location}");
    }
    let silent = fetch("HTTP/1.1 301 Go\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(silent, Err(Error::Redirect("and does not say where to")));
}
