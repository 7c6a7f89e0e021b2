//! Garbage, too much of everything, and clients that do not read.

use std::io::{Read, Write};
use std::net::TcpStream;

use drive_server::{OUT_BYTES_MAX, Server};
use kinetic::client::{BatchOutcome, ClientSettings, EndReason};
use kinetic::{Change, FrameHeader, Identity, Limits, Request, StatusCode};

use crate::wire::{KEY, Wire, a_put, get, noise, put, serve, settings, store};

#[test]
fn limits_at_and_one_beyond() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    // The client's own checks would keep them back: it is told of no limits.
    let mut wire = Wire::connect(server.plain()[0]);
    let long = |length: usize| "k".repeat(length);
    assert_eq!(wire.code(put(&long(4_096), "", "1", "v")), StatusCode::Success);
    assert_eq!(wire.code(put("v", "", &long(2_048), "v")), StatusCode::Success);
    assert_eq!(wire.code(put("m", "", "1", noise(1 << 20, 1))), StatusCode::Success);
    // One byte more: by hand, since the client refuses to send it.
    let now = wire.now();
    let beyond = put(&long(4_097), "", "1", "v");
    assert!(wire.client.submit(now, beyond, kinetic::client::Options::default()).is_err());
    let mut raw = Raw::connect(server.plain()[0]);
    let cases = [
        put(&long(4_097), "", "1", "v"),
        put("v", "", &long(2_049), "v"),
        put("m", "1", "2", noise((1 << 20) + 1, 1)),
        put("m", "1", "2", noise(16 << 20, 1)),
        put("", "", "1", "v"),
        Request::GetKeyRange(crate::wire::range("a", "z", 201)),
    ];
    for request in cases {
        assert_eq!(raw.code(&request), StatusCode::InvalidRequest, "{:?}", request.message_type());
    }
    assert_eq!(raw.code(&Request::Noop), StatusCode::Success, "the connection goes on");
}

/// A client that sends whatever it is told to.
struct Raw {
    stream: TcpStream,
    reader: kinetic::FrameReader,
    buffer: bytes::BytesMut,
    connection: i64,
    sequence: i64,
}

impl Raw {
    fn connect(address: std::net::SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        let reader = kinetic::FrameReader::new(kinetic::FrameLimits::default());
        let mut raw = Raw { stream, reader, buffer: bytes::BytesMut::new(), connection: 0, sequence: 0 };
        let greeting = raw.receive().unwrap();
        raw.connection = greeting.header.unwrap().connection_id.unwrap();
        raw
    }

    fn receive(&mut self) -> Option<kinetic::wire::Command> {
        loop {
            if let kinetic::Progress::Frame(frame) = self.reader.next(&mut self.buffer).unwrap() {
                return Some(kinetic::Sealed::read(frame.message).unwrap().open().unwrap());
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(count) if count > 0 => self.buffer.extend_from_slice(&piece[..count]),
                _ => return None,
            }
        }
    }

    fn send(&mut self, request: &Request) {
        self.sequence += 1;
        let header = kinetic::wire::Header {
            connection_id: Some(self.connection),
            sequence: Some(self.sequence),
            message_type: Some(request.message_type().number()),
            ..Default::default()
        };
        let (body, value) = request.write();
        let command = kinetic::wire::Command { header: Some(header), body, status: None };
        let key = kinetic::HmacKey::new(KEY);
        let frame = kinetic::seal(kinetic::Sender::Identity(Identity(1), &key), &command, value).unwrap();
        self.stream.write_all(&frame.to_vec()).unwrap();
    }

    fn code(&mut self, request: &Request) -> StatusCode {
        self.send(request);
        let status = self.receive().unwrap().status.unwrap();
        StatusCode::from_number(status.code.unwrap()).unwrap()
    }
}

#[test]
fn garbage_ends_a_connection_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut good = Wire::connect(server.plain()[0]);
    let too_long = FrameHeader { message: (1 << 20) + 1, value: 0 }.encode().to_vec();
    let beyond_all = FrameHeader { message: 10, value: u32::MAX }.encode().to_vec();
    let no_message = [&FrameHeader { message: 5, value: 0 }.encode()[..], &[0xff; 5]].concat();
    let cases =
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), too_long, beyond_all, no_message, noise(100_000, 7).to_vec()];
    for bytes in cases {
        let mut raw = Raw::connect(server.plain()[0]);
        // The device may have closed before all is written.
        let _ = raw.stream.write_all(&bytes);
        let last = raw.receive();
        if let Some(last) = last {
            assert_eq!(last.status.unwrap().code, Some(StatusCode::ConnectionTerminated.number()));
        }
        assert!(raw.receive().is_none(), "it is closed");
        assert_eq!(good.code(Request::Noop), StatusCode::Success);
    }
}

#[test]
fn a_connection_too_many_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { connections: Some(3), ..Limits::stated() };
    let settings = drive_server::Settings { limits, ..settings() };
    let server = Server::start(store(directory.path(), 200), settings).unwrap();
    let address = server.plain()[0];
    let mut three: Vec<Wire> = (0..3).map(|_| Wire::connect(address)).collect();
    let mut fourth = Wire::open(address, ClientSettings::new(Identity(1), KEY));
    let reason = fourth.end();
    let (EndReason::NotGreeted(status) | EndReason::Terminated(status)) = reason else {
        panic!("{reason:?}")
    };
    assert_eq!(status.code, StatusCode::ConnectionTerminated);
    drop(three.pop());
    // The place is free as soon as the device has seen that.
    loop {
        let mut wire = Wire::open(address, ClientSettings::new(Identity(1), KEY));
        while wire.client.greeting().is_none() && wire.receive() {}
        if wire.client.greeting().is_some() {
            break;
        }
    }
    for wire in &mut three {
        assert_eq!(wire.code(Request::Noop), StatusCode::Success);
    }
}

/// A client that asks for much and reads nothing holds up itself, and nobody else.
#[test]
fn a_client_that_does_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut good = Wire::connect(server.plain()[0]);
    for number in 0..8 {
        assert_eq!(
            good.code(put(&format!("{number}"), "", "1", noise(1 << 20, number))),
            StatusCode::Success
        );
    }
    let mut slow: Vec<Raw> = (0..4).map(|_| Raw::connect(server.plain()[0])).collect();
    for raw in &mut slow {
        for number in 0..400 {
            // Far more than the device lets it have under way: it reads no more of them.
            raw.send(&get(&format!("{}", number % 8)));
        }
    }
    for number in 0..8 {
        assert_eq!(good.code(get(&format!("{number}"))), StatusCode::Success);
    }
    let each = OUT_BYTES_MAX as u64 + (33 << 20);
    assert!(server.memory() <= 4 * each, "{}", server.memory());
    // When they read, they get all that was not refused.
    for raw in &mut slow {
        let mut got = 0;
        for _ in 0..400 {
            let status = raw.receive().unwrap().status.unwrap();
            let code = StatusCode::from_number(status.code.unwrap()).unwrap();
            assert!(matches!(code, StatusCode::Success | StatusCode::ServiceBusy), "{code:?}");
            got += u32::from(code == StatusCode::Success);
        }
        assert!(got > 0);
    }
    drop(slow);
    assert_eq!(good.code(Request::Noop), StatusCode::Success);
}

/// The least memory there may be, and more values than fit into it at a time.
#[test]
fn memory_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let settings = drive_server::Settings { memory: drive_server::MEMORY_MIN, ..settings() };
    let server = Server::start(store(directory.path(), 600), settings).unwrap();
    let address = server.plain()[0];
    std::thread::scope(|scope| {
        for client in 0..8u64 {
            scope.spawn(move || {
                let mut wire = Wire::connect(address);
                let tickets: Vec<_> = (0..30)
                    .map(|number| {
                        wire.submit(put(&format!("{client} {number}"), "", "1", noise(1 << 20, number)))
                    })
                    .collect();
                for ticket in tickets {
                    assert_eq!(wire.answer(ticket).unwrap().status.code, StatusCode::Success);
                }
                let tickets: Vec<_> =
                    (0..30).map(|number| wire.submit(get(&format!("{client} {number}")))).collect();
                for ticket in tickets {
                    assert_eq!(wire.answer(ticket).unwrap().status.code, StatusCode::Success);
                }
            });
        }
    });
    assert_eq!(server.memory(), 0, "all is given back");
    let small = drive_server::Settings { memory: base::ByteCount::mib(191), ..crate::wire::settings() };
    let other = tempfile::tempdir().unwrap();
    assert!(Server::start(store(other.path(), 100), small).is_err());
}

#[test]
fn many_clients_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let address = server.plain()[0];
    std::thread::scope(|scope| {
        for client in 0..20u64 {
            scope.spawn(move || {
                let mut wire = Wire::connect(address);
                for round in 0..10 {
                    let (key, from) =
                        (format!("{client}"), if round == 0 { String::new() } else { format!("{round}") });
                    let value = noise(1_000 * round + 17, client);
                    assert_eq!(
                        wire.code(put(&key, &from, &format!("{}", round + 1), value)),
                        StatusCode::Success
                    );
                    let changes = [Change::Put(a_put(&format!("{client} {round}"), "", "1", "b"))];
                    assert!(matches!(
                        wire.batch(changes),
                        BatchOutcome::Committed(_) | BatchOutcome::Refused(_)
                    ));
                }
            });
        }
    });
    let figures = server.store().figures();
    assert!(figures.keys.0 >= 20 && figures.syncs.0 < 600, "syncs are shared: {figures:?}");
}

/// How long the impatient server of these tests gives its clients.
fn impatient() -> drive_server::Settings {
    let short = std::time::Duration::from_millis(200);
    let patience = drive_server::Patience { handshake: short, frame: short, send: short };
    drive_server::Settings { patience, ..settings() }
}

#[test]
fn half_a_frame_and_half_a_greeting() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = drive_server::TlsFiles {
        certificate: directory.path().join("c.pem"),
        key: directory.path().join("k.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let settings = drive_server::Settings {
        tls: vec![([127, 0, 0, 1], 0).into()],
        tls_config: Some(files.load().unwrap()),
        ..impatient()
    };
    let server = Server::start(store(directory.path(), 200), settings).unwrap();
    let mut good = Wire::connect(server.plain()[0]);
    // A header, a message, part of a value: each is waited for, and then no longer.
    let header = FrameHeader { message: 30, value: 100_000 }.encode();
    for bytes in [&header[..5], &header[..], &[&header[..], &[0; 40]].concat()] {
        let mut raw = Raw::connect(server.plain()[0]);
        raw.stream.write_all(bytes).unwrap();
        assert!(raw.receive().is_none(), "it is closed");
    }
    let mut silent = TcpStream::connect(server.tls()[0]).unwrap();
    let mut nothing = Vec::new();
    assert!(silent.read_to_end(&mut nothing).unwrap() < 20, "at most an alert of TLS");
    // Silence between frames is no fault.
    assert_eq!(good.code(Request::Noop), StatusCode::Success);
    drop(good);
    server.stop().unwrap();
}

#[test]
fn who_takes_nothing_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(store(directory.path(), 200), impatient()).unwrap();
    let mut good = Wire::connect(server.plain()[0]);
    assert_eq!(good.code(put("k", "", "1", noise(1 << 20, 1))), StatusCode::Success);
    let mut slow = Raw::connect(server.plain()[0]);
    for _ in 0..30 {
        slow.send(&get("k"));
    }
    while server.connections() > 1 {
        assert_eq!(good.code(Request::Noop), StatusCode::Success);
    }
    while server.memory() > 0 {
        assert_eq!(good.code(Request::Noop), StatusCode::Success);
    }
    drop(slow);
}

/// More under way than a connection may have, and what nobody waits for any more.
#[test]
fn a_window_and_a_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { writes: Some(2), ..Limits::stated() };
    let of_server = drive_server::Settings { limits, workers: 1, ..settings() };
    let server = Server::start(store(directory.path(), 200), of_server).unwrap();
    let mut raw = Raw::connect(server.plain()[0]);
    for number in 0..100 {
        raw.send(&put(&format!("{number}"), "", "1", noise(100_000, number)));
    }
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..100 {
        *counts.entry(raw.receive().unwrap().status.unwrap().code.unwrap()).or_insert(0) += 1;
    }
    assert!(counts[&StatusCode::Success.number()] > 0, "{counts:?}");
    let known = [StatusCode::Success.number(), StatusCode::ServiceBusy.number()];
    assert!(counts.keys().all(|code| known.contains(code)), "{counts:?}");
    assert_eq!(raw.code(&Request::Noop), StatusCode::Success);
}
