//! HTTP/2, frame by frame.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use archive::Locality;
use door::Limits;
use transfer::TransferLimits;

use crate::client::{Server, at_rate, transfers};
use crate::fake::Event;

const SHORT: Duration = Duration::from_millis(50);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const MAX_HEADER_LIST_SIZE: u16 = 6;

struct Http2(TcpStream);

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Http2 {
    /// A connection whose settings were exchanged.
    fn open(server: &Server) -> (Http2, Vec<(u16, u32)>) {
        let mut this = Http2(server.connect());
        this.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        this.send(SETTINGS, 0, 0, &[]);
        let settings = this.frame().expect("settings");
        assert_eq!((settings.kind, settings.flags & ACK), (SETTINGS, 0));
        let setting = |bytes: &[u8]| {
            let value = u32::from_be_bytes(bytes[2..6].try_into().unwrap());
            (u16::from_be_bytes(bytes[..2].try_into().unwrap()), value)
        };
        this.send(SETTINGS, ACK, 0, &[]);
        (this, settings.payload.chunks(6).map(setting).collect())
    }

    /// Writes a frame; a connection that was cut off takes none.
    fn try_send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        self.0.write_all(&bytes)
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.try_send(kind, flags, stream, payload).unwrap();
    }

    /// The next frame; `None` once the connection is closed.
    fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Whether the server has closed the connection; what it sent before is thrown away.
    fn is_closed(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let closed = loop {
            match self.0.read(&mut [0; 4096]) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
            }
        };
        self.0.set_nonblocking(false).unwrap();
        closed
    }

    /// The next frame of that kind, the others thrown away.
    fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The body of a reply.
    fn body(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(frame) = self.frame() {
            // The stream of another request may have been ended, as it is when its body is not read.
            let ends_this = frame.kind == RST_STREAM && frame.stream == stream;
            assert!(!ends_this && frame.kind != GOAWAY, "{frame:?}");
            if frame.kind == DATA && frame.stream == stream {
                body.extend(frame.payload);
            }
            if frame.stream == stream && frame.flags & END_STREAM != 0 && frame.kind <= HEADERS {
                break;
            }
        }
        body
    }

    fn request(&mut self, stream: u32, method: &str, path: &str, end: u8) {
        self.send(HEADERS, END_HEADERS | end, stream, &headers(method, path));
    }
}

/// A block of header fields, each in plain text.
fn headers(method: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("authorization", "Bearer secret-of-anna"),
    ];
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

#[test]
fn requests_are_answered_and_limits_are_told() {
    let server = Server::start();
    server.engine.add("/f", b"hello", Locality::Online);
    server.engine.add("/large", &[7; 300_000], Locality::Online);
    let (mut client, settings) = Http2::open(&server);
    assert!(settings.contains(&(MAX_CONCURRENT_STREAMS, 128)), "{settings:?}");
    assert!(settings.contains(&(MAX_HEADER_LIST_SIZE, 64 << 10)), "{settings:?}");
    client.request(1, "GET", "/data/f", END_STREAM);
    assert_eq!(client.body(1), b"hello");
    client.request(3, "PUT", "/data/g", 0);
    client.send(DATA, 0, 3, b"abc");
    client.send(DATA, END_STREAM, 3, b"def");
    assert!(String::from_utf8(client.body(3)).unwrap().contains("\"created\":true"));
    assert_eq!(server.engine.bytes.lock().unwrap()["/g"], "abcdef");
    // What is larger than the window goes on when the client allows it.
    client.request(5, "GET", "/data/large", END_STREAM);
    for stream in [0, 5] {
        client.send(8, 0, stream, &(1_000_000u32).to_be_bytes());
    }
    assert_eq!(client.body(5), [7; 300_000]);
    // A body that is not read ends its stream only.
    client.request(7, "POST", "/api/v1/drives/d0/up", 0);
    client.request(9, "GET", "/data/f", END_STREAM);
    assert_eq!(client.body(9), b"hello");
}

/// Downloads that nobody takes, all of one connection, had all places for transfers.
#[test]
fn downloads_that_are_not_taken_leave_places_to_others() {
    let limits = transfers(TransferLimits {
        at_once: 8,
        admission_wait: Duration::from_secs(2),
        ..TransferLimits::default()
    });
    let server = Server::with(limits);
    server.engine.add("/f", &[7; 300_000], Locality::Online);
    let (mut client, _) = Http2::open(&server);
    // No byte of any body may be sent.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    for number in 0..60u32 {
        client.request(2 * number + 1, "GET", "/data/f", END_STREAM);
    }
    let mut statuses = Vec::new();
    while statuses.len() < 4 {
        statuses.push(client.next(HEADERS).expect("a reply").payload[0]);
    }
    let bert = "GET /data/f HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                Authorization: Bearer secret-of-bert\r\n\r\n";
    let reply = server.raw(bert);
    assert_eq!((reply.status, reply.body.len()), (200, 300_000));
    // 200, as the static table of HPACK has it.
    assert_eq!(statuses, [0x88; 4]);
}

#[test]
fn requests_taken_back_again_and_again_end_the_connection() {
    let limits = Limits { resets: 20, resets_per_second: 1, ..Limits::default() };
    let server = Server::with(limits);
    let (mut client, _) = Http2::open(&server);
    let mut begun = 0;
    for number in 0..1000u32 {
        let stream = 2 * number + 1;
        if client.try_send(HEADERS, END_HEADERS, stream, &headers("PUT", "/data/f")).is_err() {
            break;
        }
        // Each has come as far as the engine before it is taken back: what is taken back before it was looked
        // at is never begun, and not counted here. A connection that was cut off begins no more.
        let Some(event) = server.engine.event_unless(|| client.is_closed()) else { break };
        assert_eq!(event, Event::Begun("/f".into()));
        let taken_back = client.try_send(RST_STREAM, 0, stream, &8u32.to_be_bytes());
        assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
        begun += 1;
        if taken_back.is_err() {
            break;
        }
        // Others are served meanwhile.
        assert_eq!(server.get("/api/v1/status").status, 200);
    }
    assert!((15..200).contains(&begun), "{begun}");
    assert!(client.next(u8::MAX).is_none(), "the connection is closed");
    assert!(server.engine.files.lock().unwrap().is_empty());
    assert_eq!(server.get("/api/v1/status").status, 200);
}

#[test]
fn a_flood_of_resets_is_cut_off() {
    let server = Server::with(Limits { resets: 50, resets_per_second: 1, ..Limits::default() });
    let (mut client, _) = Http2::open(&server);
    let mut sent = 0;
    for number in 0..100_000u32 {
        let stream = 2 * number + 1;
        let flood = client
            .try_send(HEADERS, END_HEADERS | END_STREAM, stream, &headers("GET", "/data/f"))
            .and_then(|()| client.try_send(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
        if flood.is_err() {
            break;
        }
        sent += 1;
        if sent == 50 {
            assert_eq!(server.get("/api/v1/status").status, 200, "others are served meanwhile");
        }
    }
    assert!(sent < 100_000, "never cut off");
    assert_eq!(server.get("/api/v1/status").status, 200);
}

#[test]
fn a_stream_too_many_is_refused() {
    let server = Server::with(Limits { streams: 2, ..Limits::default() });
    let (mut client, _) = Http2::open(&server);
    for stream in [1, 3, 5] {
        client.request(stream, "PUT", "/data/f", 0);
    }
    let refused = client.next(RST_STREAM).unwrap();
    assert_eq!((refused.stream, refused.payload), (5, REFUSED_STREAM.to_be_bytes().to_vec()));
}

#[test]
fn a_header_list_that_is_too_long_is_refused() {
    let server = Server::with(Limits { header_bytes: 1000, ..Limits::default() });
    server.engine.add("/f", b"hello", Locality::Online);
    let (mut client, _) = Http2::open(&server);
    let mut block = headers("GET", "/data/f");
    for _ in 0..20 {
        block.extend([&[0, 1, b'x', 100][..], &[b'y'; 100]].concat());
    }
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    let answer = client.frame().unwrap();
    let answer = if answer.kind == SETTINGS { client.frame().unwrap() } else { answer };
    // `:status: 431` is not in the static table: a literal with the name of index 8.
    let refused = answer.payload.windows(3).any(|text| text == b"431") || answer.kind != HEADERS;
    assert!(refused || answer.payload.first() == Some(&0x48), "{answer:?}");
    assert!(server.engine.event_unless(|| true).is_none(), "the engine was not asked");
}

#[test]
fn a_reply_that_is_not_taken_ends_the_connection() {
    let limits = at_rate(1 << 20, SHORT);
    let server = Server::with(limits);
    server.engine.add("/endless", &[7; 1 << 16], Locality::Online);
    let (mut client, _) = Http2::open(&server);
    client.request(1, "GET", "/data/endless", END_STREAM);
    // The client reads all there is, but allows no more than the first window: the socket never fills.
    let mut bytes = 0;
    while let Some(frame) = client.frame() {
        bytes += if frame.kind == DATA { frame.payload.len() } else { 0 };
    }
    assert_eq!(bytes, 65_535);
    assert_eq!(server.engine.event(), Event::Closed("/endless".into()));
}

#[test]
fn a_connection_that_asks_for_nothing_is_closed() {
    let limits = Limits { header_deadline: SHORT, linger: SHORT, ..Limits::default() };
    let server = Server::with(limits);
    let (mut idle, _) = Http2::open(&server);
    assert!(idle.next(GOAWAY).is_some(), "the client is told");
    assert!(idle.next(u8::MAX).is_none(), "and the connection is closed, though it does not answer");
    // The same for one that begins a header and never ends it, and for one that never gets to its settings.
    let (mut client, _) = Http2::open(&server);
    client.send(HEADERS, END_STREAM, 1, &headers("GET", "/data/f"));
    assert!(client.next(u8::MAX).is_none());
    let mut silent = Http2(server.connect());
    silent.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert!(silent.next(u8::MAX).is_none());
}

#[test]
fn an_uploader_that_vanishes_leaves_nothing() {
    let server = Server::start();
    let (mut client, _) = Http2::open(&server);
    for stream in [1, 3, 5] {
        client.request(stream, "PUT", "/data/f", 0);
        client.send(DATA, 0, stream, b"abc");
        assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    }
    drop(client);
    for _ in 0..3 {
        assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
    }
    assert!(server.engine.files.lock().unwrap().is_empty());
}

#[test]
fn a_slow_body_is_answered_and_ends() {
    let limits = at_rate(1000, SHORT);
    let server = Server::with(limits);
    let (mut client, _) = Http2::open(&server);
    client.request(1, "PUT", "/data/f", 0);
    client.send(DATA, 0, 1, b"abc");
    assert!(String::from_utf8(client.body(1)).unwrap().contains("\"status\":408"));
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
}

#[test]
fn streams_that_run_may_end_when_the_door_closes() {
    let mut server = Server::with(Limits { linger: SHORT, ..Limits::default() });
    let (mut idle, _) = Http2::open(&server);
    let (mut client, _) = Http2::open(&server);
    client.request(1, "PUT", "/data/f", 0);
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    server.begin_stop();
    assert!(idle.next(GOAWAY).is_some());
    assert!(client.next(GOAWAY).is_some());
    client.send(DATA, END_STREAM, 1, b"abc");
    let done = client.next(DATA).unwrap();
    assert!(String::from_utf8(done.payload).unwrap().contains("\"created\":true"));
    server.join();
    assert_eq!(server.engine.bytes.lock().unwrap()["/f"], "abc");
}
