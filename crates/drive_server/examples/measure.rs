//! How fast a drive is, over plain TCP on this host: `measure DIRECTORY [MiB] [CONNECTIONS] [NOOPS]`. The
//! directory is made, and removed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use base::{ByteCount, Uuid};
use bytes::{Bytes, BytesMut};
use drive_server::{Server, Settings};
use kinetic::{
    Algorithm, Change, FrameHeader, FrameLimits, FrameReader, HEADER_BYTES, HmacKey, Identity, MessageType,
    Metadata, Progress, Put, Request, Sealed, Sender, Synchronization, crc32c_tag, seal, wire,
};
use valuelog::{Layout, Place, ValueLog};

const VALUE_BYTES: usize = 1 << 20;

/// A client that only does what a measurement needs: it does not check what it gets.
struct Client {
    stream: TcpStream,
    key: HmacKey,
    connection: i64,
    sequence: i64,
    value: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let mut stream = TcpStream::connect(address).expect("a server");
        stream.set_nodelay(true).expect("a socket");
        let (mut reader, mut buffer) = (FrameReader::new(FrameLimits::default()), BytesMut::new());
        let mut piece = [0; 4096];
        let connection = loop {
            let count = stream.read(&mut piece).expect("a greeting");
            buffer.extend_from_slice(&piece[..count]);
            if let Progress::Frame(frame) = reader.next(&mut buffer).expect("a frame") {
                let command =
                    Sealed::read(frame.message).and_then(|sealed| sealed.open()).expect("a command");
                break command.header.and_then(|header| header.connection_id).expect("a number");
            }
        };
        Client {
            stream,
            key: HmacKey::new(b"asdfasdf"),
            connection,
            sequence: 0,
            value: vec![0; VALUE_BYTES],
            buffer: vec![0; 64 << 10],
            filled: 0,
        }
    }

    fn frame(&mut self, request: &Request) -> kinetic::OutFrame {
        self.sequence += 1;
        let header = wire::Header {
            connection_id: Some(self.connection),
            sequence: Some(self.sequence),
            message_type: Some(request.message_type().number()),
            ..wire::Header::default()
        };
        let (body, value) = request.write();
        let command = wire::Command { header: Some(header), body, status: None };
        seal(Sender::Identity(Identity(1), &self.key), &command, value).expect("a frame")
    }

    fn send(&mut self, requests: &[Request]) {
        let mut heads = Vec::new();
        for request in requests {
            let frame = self.frame(request);
            heads.extend_from_slice(&frame.head);
            if !frame.value.is_empty() {
                self.stream.write_all(&heads).expect("a connection");
                heads.clear();
                self.stream.write_all(&frame.value).expect("a connection");
            }
        }
        self.stream.write_all(&heads).expect("a connection");
    }

    /// One answer; gives the length of its value.
    fn answer(&mut self) -> usize {
        loop {
            if let Some(bytes) = self.buffer[..self.filled].first_chunk::<HEADER_BYTES>() {
                let header = FrameHeader::decode(*bytes).expect("a frame");
                let head = HEADER_BYTES + header.message as usize;
                if self.filled >= head {
                    let value = header.value as usize;
                    let here = value.min(self.filled - head);
                    self.value[..here].copy_from_slice(&self.buffer[head..head + here]);
                    self.stream.read_exact(&mut self.value[here..value]).expect("a value");
                    self.buffer.copy_within(head + here..self.filled, 0);
                    self.filled -= head + here;
                    return value;
                }
            }
            let count = self.stream.read(&mut self.buffer[self.filled..]).expect("an answer");
            assert!(count > 0, "the server closed");
            self.filled += count;
        }
    }
}

fn put(number: usize, value: &Bytes, tag: &Bytes) -> Request {
    Request::Change(Change::Put(Put {
        key: Bytes::copy_from_slice(&number.to_be_bytes()),
        metadata: Metadata {
            version: Bytes::from_static(b"1"),
            tag: tag.clone(),
            algorithm: Some(Algorithm::CRC32C),
        },
        db_version: Bytes::new(),
        force: true,
        synchronization: Synchronization::WriteBack,
        value: value.clone(),
    }))
}

fn get(number: usize) -> Request {
    let key = Bytes::copy_from_slice(&number.to_be_bytes());
    Request::Get { which: kinetic::Which::Exact, key, metadata_only: false }
}

/// Requests and answers of all connections, with so many under way on each; gives seconds.
fn run(
    addresses: SocketAddr,
    connections: usize,
    each: usize,
    under_way: usize,
    request: &(dyn Fn(usize) -> Request + Sync),
) -> f64 {
    let clients: Vec<Client> = (0..connections).map(|_| Client::connect(addresses)).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (place, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let step = (under_way / 2).max(1);
                let (mut sent, mut answered) = (0, 0);
                while answered < each {
                    while sent < each && sent - answered + step <= under_way {
                        let end = (sent + step).min(each);
                        let some: Vec<Request> =
                            (sent..end).map(|number| request(place * each + number)).collect();
                        client.send(&some);
                        sent = end;
                    }
                    client.answer();
                    answered += 1;
                    // The rest of what is there already comes without another call.
                    while answered < each && client.filled > 0 {
                        client.answer();
                        answered += 1;
                    }
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("give a directory"));
    let mut number = |otherwise: usize| arguments.next().map_or(otherwise, |n| n.parse().expect("a number"));
    let (megabytes, connections, noops) = (number(512), number(1), number(400_000));
    let place = Place::Directory(path.clone());
    let room = ByteCount::mib(megabytes as u64 + 448);
    ValueLog::format(&place, Uuid([1; 16]), Layout::default(), Some(room), true).expect("a store");
    let log = ValueLog::open(&place, None, valuelog::Settings::default()).expect("it opens");
    let settings = Settings { plain: vec![([127, 0, 0, 1], 0).into()], ..Settings::default() };
    let server = Server::start(log, settings).expect("a server");
    let address = server.plain()[0];
    let value = Bytes::from((0..VALUE_BYTES).map(|at| (at * 31) as u8).collect::<Vec<u8>>());
    let tag = crc32c_tag(&value);
    let each = megabytes / connections;
    let bytes = (each * connections * VALUE_BYTES) as f64 / 1e6;
    for what in ["new", "over"] {
        let seconds = run(address, connections, each, 8, &|number| put(number, &value, &tag));
        println!("put of 1 MiB, {what}: {:.0} MB/s", bytes / seconds);
    }
    for _ in 0..2 {
        let seconds = run(address, connections, each, 8, &get);
        println!("get of 1 MiB: {:.0} MB/s", bytes / seconds);
    }
    for (connections, under_way) in [(8, 32), (8, 1), (1, 1)] {
        let each = noops / if under_way == 1 { 5 } else { 1 } / connections;
        let seconds = run(address, connections, each, under_way, &|_| Request::Noop);
        let each = (each * connections) as f64;
        println!("NOOP, {connections} connections, {under_way} under way: {:.0} /s", each / seconds);
    }
    assert_eq!(MessageType::Noop.number(), 30, "as the protocol has it");
    server.stop().expect("a last sync");
    std::fs::remove_dir_all(path).expect("it can be removed");
}
