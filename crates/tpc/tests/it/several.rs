//! Files by several connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::ByteCount;
use http::HeaderMap;
use tokio::time::sleep;
use tpc::{Error, Want};

use crate::world::{SERVER, URL, World, drain, file, range_of};

const MIB: usize = 1 << 20;
const FOUR: Want = Want { streams: 4, checksums: false };

/// A server that answers to ranges; `change` sees which range of a file of so many bytes is asked for and
/// may answer otherwise.
fn ranged(
    length: usize,
    change: impl Fn(usize, usize) -> Option<String> + Send + Sync + Clone + 'static,
) -> Arc<World> {
    let world = World::new();
    let content = Arc::new(file(length));
    world.serve(SERVER, move |mut visit| {
        let (content, change) = (content.clone(), change.clone());
        async move {
            let head = visit.head().await;
            let Some((first, last)) = range_of(&head) else {
                visit.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len())).await;
                return visit.say(&content[..]).await;
            };
            let last = last.min(content.len() - 1);
            // Later ranges are there sooner.
            sleep(Duration::from_millis(500 - 100 * (first / MIB % 5) as u64)).await;
            if let Some(other) = change(first, last) {
                return visit.say(other).await;
            }
            let total = content.len();
            let answer = format!(
                "HTTP/1.1 206 Part\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{last}/{total}\r\n\
                 ETag: \"e1\"\r\n\r\n",
                last - first + 1
            );
            visit.say(answer).await;
            visit.say(&content[first..=last]).await;
        }
    });
    world
}

async fn get(world: &Arc<World>) -> Result<Vec<u8>, Error> {
    let client = world.client(|settings| settings.limits.window = ByteCount(4 * MIB as u64));
    let mut pull = client.pull(URL, HeaderMap::new(), FOUR).await?;
    let all = drain(&mut pull).await?;
    drop(pull.body);
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn ranges_come_in_order_and_within_the_window() {
    for length in [1, MIB - 1, MIB, MIB + 1, 4 * MIB, 9 * MIB + 17] {
        let world = ranged(length, |_, _| None);
        assert_eq!(get(&world).await.unwrap(), file(length), "{length}");
        let heads = world.heads();
        assert_eq!(heads.len(), length.div_ceil(MIB));
        let conditions = heads.iter().filter(|head| head.contains("If-Match: \"e1\"\r\n")).count();
        assert_eq!(conditions, heads.len() - 1, "all but the first are of the same file");
    }
    // Nothing is read: no more than the window is asked for.
    let world = ranged(9 * MIB, |_, _| None);
    let client = world.client(|settings| settings.limits.window = ByteCount(4 * MIB as u64));
    let mut pull = client.pull(URL, HeaderMap::new(), FOUR).await.unwrap();
    sleep(Duration::from_secs(1000)).await;
    assert_eq!((world.heads().len(), client.connections()), (4, 0), "all four are complete and closed");
    assert_eq!(drain(&mut pull).await.unwrap().len(), 9 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_ranges_is_read_once() {
    let world = World::new();
    world.says(SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nETag: \"e\"\r\n\r\nhello\n");
    assert_eq!(get(&world).await.unwrap(), b"hello\n");
    assert_eq!(world.heads().len(), 1);
    // Without a strong tag nobody knows whether two ranges are of the same bytes; an empty file has no range.
    for first in [
        "HTTP/1.1 206 P\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/6\r\n\r\nhe",
        "HTTP/1.1 206 P\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/6\r\nETag: W/\"e\"\r\n\r\nhe",
        "HTTP/1.1 416 N\r\nContent-Length: 0\r\nContent-Range: bytes */0\r\n\r\n",
    ] {
        let world = World::new();
        world.serve(SERVER, move |mut visit| async move {
            let ranged = range_of(&visit.head().await).is_some();
            visit
                .say(if ranged { first } else { "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n" })
                .await;
        });
        assert_eq!(get(&world).await.unwrap(), b"hello\n", "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_that_do_not_fit_are_no_file() {
    let answer = |status: u16, range: &str, etag: &str, bytes: usize| {
        let (status, length) = (format!("HTTP/1.1 {status} X"), format!("Content-Length: {bytes}"));
        let head = format!("{status}\r\n{length}\r\nContent-Range: bytes {range}\r\nETag: {etag}\r\n\r\n");
        head + &"x".repeat(bytes)
    };
    let good = "2097152-3145727/5242880";
    let cases = [
        (answer(206, "2097153-3145728/5242880", "\"e1\"", MIB), Error::Range),
        (answer(206, "0-1048575/5242880", "\"e1\"", MIB), Error::Range),
        (answer(206, "2097152-3145727/5242881", "\"e1\"", MIB), Error::Range),
        (answer(206, "2097152-3145726/5242880", "\"e1\"", MIB - 1), Error::Range),
        (answer(206, "garbage", "\"e1\"", MIB), Error::Range),
        (answer(206, good, "\"e2\"", MIB), Error::Changed),
        (answer(206, good, "W/\"e1\"", MIB), Error::Changed),
        (answer(200, good, "\"e1\"", MIB), Error::Changed),
        (answer(412, good, "\"e1\"", 0), Error::Changed),
        (answer(503, good, "\"e1\"", 0), Error::Status(503)),
        ("garbage".to_owned(), Error::NoAnswer),
        (
            answer(206, good, "\"e1\"", MIB - 1),
            Error::Length { announced: ByteCount(MIB as u64), came: ByteCount(MIB as u64 - 1) },
        ),
        (
            answer(206, good, "\"e1\"", MIB + 1),
            Error::Length { announced: ByteCount(MIB as u64), came: ByteCount(MIB as u64 + 1) },
        ),
        (answer(206, good, "\"e1\"", MIB)[..MIB / 2].to_owned(), Error::Broken { after: ByteCount(0) }),
    ];
    for (third, expected) in cases {
        let shown: String = third.chars().take(90).collect();
        let world = ranged(5 * MIB, move |first, _| (first == 2 * MIB).then(|| third.clone()));
        let error = get(&world).await.unwrap_err();
        let same = match (&error, &expected) {
            // After how many bytes of the range depends on the pieces.
            (Error::Broken { .. }, Error::Broken { .. }) => true,
            _ => error == expected,
        };
        assert!(same, "{shown}: {error:?} instead of {expected:?}");
    }
    for (range, expected) in [("1-1048576/5242880", Error::Range), ("0-1048574/5242880", Error::Range)] {
        let first = answer(206, range, "\"e1\"", MIB);
        let world = ranged(5 * MIB, move |at, _| (at == 0).then(|| first.clone()));
        assert_eq!(get(&world).await.unwrap_err(), expected, "{range}");
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_connections_only_take_longer() {
    let world = ranged(6 * MIB, |_, _| None);
    let client = world.client(|settings| {
        (settings.limits.window, settings.limits.connections_per_host) = (ByteCount(4 * MIB as u64), 2);
    });
    let open = Arc::new(AtomicUsize::new(0));
    let mut pull = client.pull(URL, HeaderMap::new(), FOUR).await.unwrap();
    let mut all = Vec::new();
    while let Some(bytes) = pull.body.next().await.unwrap() {
        open.fetch_max(client.connections(), Ordering::Relaxed);
        all.extend_from_slice(&bytes);
    }
    assert_eq!(all, file(6 * MIB));
    assert!(open.load(Ordering::Relaxed) <= 2);
    drop(pull);
    tokio::task::yield_now().await;
    assert_eq!(client.connections(), 0);
}
