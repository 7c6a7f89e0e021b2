//! A client on a socket, and a server to speak with.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use base::{ByteCount, Timestamp};
use bytes::{Bytes, BytesMut};
use drive_server::{Server, Settings};
use kinetic::client::{BatchOutcome, BatchTicket, Client, ClientSettings, EndReason, Event, Options, Ticket};
use kinetic::{
    Algorithm, Answer, Change, Delete, FrameLimits, FrameReader, Identity, KeyRange, Metadata, Progress, Put,
    Request, Response, StatusCode, Synchronization, crc32c_tag,
};
use valuelog::{Layout, Place, ValueLog};

pub const KEY: &[u8] = b"asdfasdf";
/// No test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store of this many MiB.
pub fn store(path: &Path, mib: u64) -> ValueLog {
    let place = Place::Directory(path.join("store"));
    if ValueLog::identify(&place).is_err() {
        let layout = Layout { segment: ByteCount::mib(4), value_max: ByteCount::mib(1) };
        let id = drive_id();
        ValueLog::format(&place, id, layout, Some(ByteCount::mib(mib)), false).unwrap();
    }
    ValueLog::open(&place, None, valuelog::Settings::default()).unwrap()
}

fn drive_id() -> base::Uuid {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    base::Uuid::from_random(bytes)
}

pub fn settings() -> Settings {
    Settings { plain: vec![([127, 0, 0, 1], 0).into()], ..Settings::default() }
}

/// A server over a store of 200 MiB.
pub fn serve(path: &Path) -> Server {
    Server::start(store(path, 200), settings()).unwrap()
}

/// The bytes of a connection.
pub trait Stream: Read + Write {
    fn patience(&self, patience: Option<Duration>);
}

impl Stream for TcpStream {
    fn patience(&self, patience: Option<Duration>) {
        self.set_read_timeout(patience).unwrap();
    }
}

pub struct Wire {
    pub client: Client,
    stream: Box<dyn Stream>,
    reader: FrameReader,
    buffer: BytesMut,
    began: Instant,
    pub events: Vec<Event>,
    /// Bytes that still may be sent.
    pub budget: usize,
    pub sent: usize,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Wire {
        let mut wire = Wire::open(address, ClientSettings::new(Identity(1), KEY));
        wire.greeted();
        wire
    }

    pub fn open(address: SocketAddr, settings: ClientSettings) -> Wire {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire::over(Box::new(stream), settings)
    }

    pub fn over(stream: Box<dyn Stream>, settings: ClientSettings) -> Wire {
        stream.patience(Some(PATIENCE));
        let began = Instant::now();
        Wire {
            client: Client::new(settings, Timestamp(0)),
            stream,
            reader: FrameReader::new(FrameLimits::default()),
            buffer: BytesMut::new(),
            began,
            events: Vec::new(),
            budget: usize::MAX,
            sent: 0,
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(0).plus(self.began.elapsed())
    }

    pub fn greeted(&mut self) {
        while self.client.greeting().is_none() {
            assert!(self.receive(), "{:?}", self.events);
        }
        self.events.clear();
    }

    /// Sends all that may be sent.
    pub fn transmit(&mut self) {
        while let Some(frame) = self.client.transmit(self.now()) {
            let bytes = frame.to_vec();
            let count = bytes.len().min(self.budget);
            if self.stream.write_all(&bytes[..count]).is_err() {
                self.client.lost();
                break;
            }
            self.budget -= count;
            self.sent += count;
            if count < bytes.len() {
                self.client.lost();
                break;
            }
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.event() {
            self.events.push(event);
        }
    }

    /// Waits for bytes; `false` if the connection has ended.
    pub fn receive(&mut self) -> bool {
        let mut piece = vec![0; 1 << 16];
        match self.stream.read(&mut piece) {
            Ok(count) if count > 0 => self.buffer.extend_from_slice(&piece[..count]),
            Ok(_) => self.client.lost(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing came"),
            Err(_) => self.client.lost(),
        }
        loop {
            match self.reader.next(&mut self.buffer) {
                Ok(Progress::Frame(frame)) => self.client.received(self.now(), frame),
                Ok(Progress::More(_)) => break,
                Err(error) => {
                    self.client.broken(error);
                    break;
                }
            }
        }
        self.take_events();
        !self.events.iter().any(|event| matches!(event, Event::Ended(_)))
    }

    pub fn submit(&mut self, request: Request) -> Ticket {
        let ticket = self.client.submit(self.now(), request, Options::default()).unwrap();
        self.transmit();
        ticket
    }

    /// The answer to a request, or nothing if the connection ends without.
    pub fn answer(&mut self, ticket: Ticket) -> Option<Response> {
        loop {
            let place = self.events.iter().position(|event| match event {
                Event::Answered { ticket: one, .. } | Event::Unanswered { ticket: one, .. } => *one == ticket,
                _ => false,
            });
            if let Some(place) = place {
                return match self.events.remove(place) {
                    Event::Answered { response, .. } => Some(response),
                    _ => None,
                };
            }
            if !self.receive() && !self.events.iter().any(|event| is_of(event, ticket)) {
                return None;
            }
            self.transmit();
        }
    }

    pub fn call(&mut self, request: Request) -> Response {
        let ticket = self.submit(request);
        self.answer(ticket).unwrap_or_else(|| panic!("no answer: {:?}", self.events))
    }

    pub fn code(&mut self, request: Request) -> StatusCode {
        self.call(request).status.code
    }

    pub fn batch(&mut self, changes: impl IntoIterator<Item = Change>) -> BatchOutcome {
        let batch = self.client.begin_batch(self.now(), Options::default()).unwrap();
        for change in changes {
            self.client.add(batch, change).unwrap();
        }
        self.client.commit(self.now(), batch).unwrap();
        self.transmit();
        self.batch_outcome(batch).expect("an outcome")
    }

    pub fn batch_outcome(&mut self, batch: BatchTicket) -> Option<BatchOutcome> {
        loop {
            let of_it = |event: &Event| match event {
                Event::Batch { batch: one, outcome } => {
                    (*one == batch && *outcome != BatchOutcome::Open).then(|| outcome.clone())
                }
                _ => None,
            };
            if let Some(place) = self.events.iter().position(|event| of_it(event).is_some()) {
                return of_it(&self.events.remove(place));
            }
            self.transmit();
            if !self.receive() && !self.events.iter().any(|event| of_it(event).is_some()) {
                return None;
            }
            self.transmit();
        }
    }

    /// Why the connection ended, once it has.
    pub fn end(&mut self) -> EndReason {
        loop {
            if let Some(Event::Ended(reason)) =
                self.events.iter().find(|event| matches!(event, Event::Ended(_)))
            {
                return reason.clone();
            }
            self.receive();
        }
    }
}

fn is_of(event: &Event, ticket: Ticket) -> bool {
    match event {
        Event::Answered { ticket: one, .. } | Event::Unanswered { ticket: one, .. } => *one == ticket,
        _ => false,
    }
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn a_put(key: &str, from: &str, to: &str, value: impl Into<Bytes>) -> Put {
    let value = value.into();
    Put {
        key: bytes(key),
        metadata: Metadata {
            version: bytes(to),
            tag: crc32c_tag(&value),
            algorithm: Some(Algorithm::CRC32C),
        },
        db_version: bytes(from),
        force: false,
        synchronization: Synchronization::WriteThrough,
        value,
    }
}

pub fn put(key: &str, from: &str, to: &str, value: impl Into<Bytes>) -> Request {
    Request::Change(Change::Put(a_put(key, from, to, value)))
}

pub fn a_delete(key: &str, from: &str) -> Delete {
    let synchronization = Synchronization::WriteThrough;
    Delete { key: bytes(key), db_version: bytes(from), force: false, synchronization }
}

pub fn delete(key: &str, from: &str) -> Request {
    Request::Change(Change::Delete(a_delete(key, from)))
}

pub fn get(key: &str) -> Request {
    Request::Get { which: kinetic::Which::Exact, key: bytes(key), metadata_only: false }
}

pub fn range(start: &str, end: &str, most: u32) -> KeyRange {
    KeyRange {
        start: bytes(start),
        start_inclusive: true,
        end: bytes(end),
        end_inclusive: true,
        max_returned: most,
        reverse: false,
    }
}

/// The value of a key, if it is there.
pub fn value(wire: &mut Wire, key: &str) -> Option<Bytes> {
    let response = wire.call(get(key));
    match response.answer {
        Answer::Entry(entry) => Some(entry.value),
        _ => {
            assert_eq!(response.status.code, StatusCode::NotFound);
            None
        }
    }
}

/// Bytes that compress badly, of a seed.
pub fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    Bytes::from(bytes)
}
