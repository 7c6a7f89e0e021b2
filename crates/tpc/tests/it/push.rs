//! Files that are sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use base::{Adler32, ByteCount};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::Full;
use hyper::body::{Body, Frame};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Sleep, sleep};
use tpc::{Error, How, LowestRate, Push};

use crate::world::{SERVER, URL, World, headers};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Pieces with a wait before each; `None` ends in an error.
struct Pieces(VecDeque<Option<Bytes>>, Duration, Option<Pin<Box<Sleep>>>);

impl Pieces {
    fn new(pieces: &[Option<usize>], wait: Duration) -> Self {
        let piece = |length: usize| Bytes::from(vec![b'x'; length]);
        Pieces(pieces.iter().map(|length| length.map(piece)).collect(), wait, None)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let wait = self.1;
        let sleeping = self.2.get_or_insert_with(|| Box::pin(sleep(wait)));
        if wait > Duration::ZERO && sleeping.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.2 = None;
        Poll::Ready(self.0.pop_front().map(|piece| piece.map(Frame::data).ok_or("the disk is gone")))
    }
}

async fn send(world: &Arc<World>, bytes: &'static [u8]) -> Result<Push, Error> {
    let body = Full::new(Bytes::from_static(bytes));
    let given = headers(&[("authorization", "Bearer t")]);
    world.client(|_| {}).push(URL, given, ByteCount(bytes.len() as u64), How::Replace, body).await
}

#[tokio::test(start_paused = true)]
async fn what_must_be_new_says_so_and_a_look_sends_no_framing_of_the_client() {
    let world = World::new();
    world.serve(SERVER, |mut visit| async move {
        let head = visit.head().await;
        let answer = if head.starts_with("HEAD ") { "404 Not Found" } else { "412 Precondition Failed" };
        visit.say(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n")).await;
    });
    let client = world.client(|_| {});
    let given = headers(&[("content-length", "99"), ("if-none-match", "x"), ("range", "bytes=0-1")]);
    assert_eq!(client.head(URL, &given).await.err(), Some(Error::Status(404)));
    let body = Full::new(Bytes::from_static(b"hello\n"));
    let pushed = client.push(URL, given, ByteCount(6), How::OnlyNew, body).await;
    assert_eq!(pushed.err(), Some(Error::Status(412)));
    let heads = world.heads();
    for foreign in ["Content-Length", "If-None-Match", "Range"] {
        assert!(!heads[0].contains(foreign), "{heads:?}");
    }
    assert!(
        heads[1].contains("If-None-Match: *\r\n") && heads[1].contains("Content-Length: 6\r\n"),
        "{heads:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_server_wants_it() {
    let world = World::new();
    world.serve(SERVER, |mut visit| async move {
        visit.head().await;
        // Not a byte before it says so.
        let mut byte = [0];
        let early = tokio::time::timeout(Duration::from_secs(4), visit.stream.read(&mut byte)).await;
        assert!(early.is_err(), "{early:?}");
        visit.say(CONTINUE).await;
        let mut body = [0; 6];
        visit.stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"hello\n");
        visit.say("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nDigest: adler32=084b021f\r\n\r\n").await;
    });
    let push = send(&world, b"hello\n").await.unwrap();
    assert_eq!((push.status, push.digests.adler32), (201, Some(Adler32(0x084b_021f))));
    let head = &world.heads()[0];
    for line in
        ["PUT /store/f?x=1 HTTP/1.1", "Expect: 100-continue", "Content-Length: 6", "Authorization: Bearer t"]
    {
        assert!(head.contains(&format!("{line}\r\n")), "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_comes_before_the_file() {
    let world = World::new();
    let got = Arc::new(Mutex::new(Vec::new()));
    world.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.say("HTTP/1.1 307 Go\r\nLocation: http://8.2.2.2:8080/pool\r\nContent-Length: 0\r\n\r\n").await;
        let mut left = Vec::new();
        let _ = visit.stream.read_to_end(&mut left).await;
        assert!(left.is_empty(), "{left:?}");
    });
    let taken = got.clone();
    world.serve("8.2.2.2:8080", move |mut visit| {
        let taken = taken.clone();
        async move {
            visit.head().await;
            visit.say(CONTINUE).await;
            let mut body = vec![0; 6];
            visit.stream.read_exact(&mut body).await.unwrap();
            taken.lock().unwrap().extend(body);
            visit.say(CREATED).await;
        }
    });
    assert_eq!(send(&world, b"hello\n").await.unwrap().status, 201);
    assert_eq!(*got.lock().unwrap(), b"hello\n");
    let heads = world.heads();
    assert!(heads[1].contains("PUT /pool ") && heads[1].contains("Expect: 100-continue"), "{heads:?}");
    assert!(!heads[1].contains("Authorization"), "{heads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_says_continue_gets_the_file_later() {
    let world = World::new();
    world.serve(SERVER, |mut visit| async move {
        visit.head().await;
        let mut body = [0; 6];
        visit.stream.read_exact(&mut body).await.unwrap();
        visit.say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n:-)").await;
    });
    let began = Instant::now();
    assert_eq!(send(&world, b"hello\n").await.unwrap().status, 200);
    assert!((5..7).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    // A redirect that comes after it is of no use.
    let world = World::new();
    world.serve(SERVER, |mut visit| async move {
        visit.head().await;
        let mut body = [0; 6];
        visit.stream.read_exact(&mut body).await.unwrap();
        visit.say("HTTP/1.1 307 Go\r\nLocation: http://8.2.2.2/pool\r\nContent-Length: 0\r\n\r\n").await;
    });
    let late = send(&world, b"hello\n").await;
    assert_eq!(late, Err(Error::Redirect("after the file had begun to be sent")));
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_is_sent_without_asking() {
    let world = World::new();
    world.says(SERVER, "HTTP/1.1 204 No\r\n\r\n");
    assert_eq!(send(&world, b"").await.unwrap().status, 204);
    let head = &world.heads()[0];
    assert!(head.contains("Content-Length: 0\r\n") && !head.contains("Expect"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn only_a_whole_file_is_sent() {
    let early = World::new();
    early.says(SERVER, CREATED);
    assert_eq!(send(&early, b"hello\n").await, Err(Error::Early), "it has nothing yet");
    for status in [303, 400, 401, 403, 409, 411, 417, 500, 507] {
        let world = World::new();
        let location = if status == 303 { "Location: http://8.2.2.2/\r\n" } else { "" };
        world.says(SERVER, format!("HTTP/1.1 {status} X\r\n{location}Content-Length: 0\r\n\r\n"));
        assert_eq!(send(&world, b"hello\n").await, Err(Error::Status(status)));
    }
    // A file that is shorter or longer than it should be, or breaks off.
    for pieces in [&[Some(3)][..], &[Some(3), None], &[Some(3), Some(4)], &[Some(7)], &[None]] {
        let world = World::new();
        world.serve(SERVER, |mut visit| async move {
            visit.head().await;
            visit.say(CONTINUE).await;
            let mut got = [0; 6];
            if visit.stream.read_exact(&mut got).await.is_ok() {
                visit.say(CREATED).await;
            }
        });
        let body = Pieces::new(pieces, Duration::ZERO);
        let sent = world.client(|_| {}).push(URL, HeaderMap::new(), ByteCount(6), How::Replace, body).await;
        assert_eq!(sent, Err(Error::Source), "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_without_an_end() {
    let silent = World::new();
    silent.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.hang().await;
    });
    let began = Instant::now();
    assert_eq!(send(&silent, b"hello\n").await, Err(Error::NoAnswer));
    assert!((300..310).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    // It takes the file at a byte a second.
    let slow = World::new();
    slow.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.say(CONTINUE).await;
        while visit.stream.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });
    let bytes = 4 << 20;
    let rate = LowestRate { bytes: ByteCount(1000), window: Duration::from_secs(10) };
    let client = slow.client(|settings| settings.timeouts.lowest = rate);
    let body = Pieces::new(&[Some(1 << 20); 4], Duration::ZERO);
    let sent = client.push(URL, HeaderMap::new(), ByteCount(bytes), How::Replace, body).await;
    assert_eq!(sent, Err(Error::Slow { bytes: ByteCount(1000), seconds: 10 }));
    assert_eq!(client.connections(), 0);
    // Our own slowness is not the server's.
    let patient = World::new();
    patient.serve(SERVER, |mut visit| async move {
        visit.head().await;
        visit.say(CONTINUE).await;
        let mut got = [0; 6];
        visit.stream.read_exact(&mut got).await.unwrap();
        visit.say(CREATED).await;
    });
    let client = patient.client(|settings| settings.timeouts.lowest = rate);
    let body = Pieces::new(&[Some(1); 6], Duration::from_secs(100));
    assert!(client.push(URL, HeaderMap::new(), ByteCount(6), How::Replace, body).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_dropped_leaves_no_connection() {
    let world = World::new();
    let ended = Arc::new(Mutex::new(None));
    let seen = ended.clone();
    world.serve(SERVER, move |mut visit| {
        let seen = seen.clone();
        async move {
            visit.head().await;
            visit.say(CONTINUE).await;
            let mut got = Vec::new();
            let _ = visit.stream.read_to_end(&mut got).await;
            *seen.lock().unwrap() = Some(got.len());
        }
    });
    let client = world.client(|_| {});
    let body = Pieces::new(&[Some(10); 10], Duration::from_secs(10));
    let push = client.push(URL, HeaderMap::new(), ByteCount(100), How::Replace, body);
    assert!(tokio::time::timeout(Duration::from_secs(35), push).await.is_err());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (client.connections(), *ended.lock().unwrap()),
        (0, Some(30)),
        "the server sees it end in the middle"
    );
}
