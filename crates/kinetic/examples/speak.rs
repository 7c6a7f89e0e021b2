//! Speaks every command to a Kinetic drive over plain TCP and prints what it says: for a drive that nobody
//! has met yet. It writes keys that begin with `kist-speak-` and removes them again.
//!
//!     cargo run -p kinetic --example speak -- HOST:PORT [IDENTITY KEY [HOST:PORT of a second drive]]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use base::Timestamp;
use bytes::{Bytes, BytesMut};
use kinetic::client::{BatchOutcome, Client, ClientSettings, Event, Options};
use kinetic::{
    Algorithm, Change, ClusterVersion, Delete, FrameLimits, FrameReader, Identity, KeyRange, LogType,
    Metadata, Peer, PowerLevel, Progress, Push, PushOperation, Put, Request, Synchronization, Which,
    crc32c_tag,
};

struct Drive {
    stream: TcpStream,
    client: Client,
    reader: FrameReader,
    buffer: BytesMut,
    began: Instant,
}

impl Drive {
    fn connect(address: &str, settings: ClientSettings) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        let mut drive = Drive {
            stream,
            client: Client::new(settings, Timestamp(0)),
            reader: FrameReader::new(FrameLimits::default()),
            buffer: BytesMut::new(),
            began: Instant::now(),
        };
        drive.until(|event| matches!(event, Event::Greeted(_)))?;
        Ok(drive)
    }

    fn now(&self) -> Timestamp {
        Timestamp(0).plus(self.began.elapsed())
    }

    /// Sends and receives until there is such an event; prints all others.
    fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> std::io::Result<()> {
        loop {
            let now = self.now();
            while let Some(frame) = self.client.transmit(now) {
                record(">", &frame.to_vec());
                self.stream.write_all(&frame.head)?;
                self.stream.write_all(&frame.value)?;
            }
            while let Some(event) = self.client.event() {
                show(&event);
                if is_it(&event) || matches!(event, Event::Ended(_)) {
                    return Ok(());
                }
            }
            match self.reader.next(&mut self.buffer) {
                Ok(Progress::Frame(frame)) => self.client.received(now, frame),
                Ok(Progress::More(more)) => {
                    let mut bytes = vec![0; more];
                    let count = self.stream.read(&mut bytes).unwrap_or(0);
                    record("<", &bytes[..count]);
                    if count == 0 {
                        self.client.lost();
                    }
                    self.buffer.extend_from_slice(&bytes[..count]);
                }
                Err(error) => self.client.broken(error),
            }
        }
    }

    fn call(&mut self, what: &str, request: Request) -> std::io::Result<()> {
        print!("{what:44} ");
        match self.client.submit(self.now(), request, Options::default()) {
            Ok(ticket) => {
                self.until(|event| matches!(event, Event::Answered { ticket: one, .. } if *one == ticket))
            }
            Err(error) => {
                println!("not sent: {error}");
                Ok(())
            }
        }
    }

    fn batch(&mut self, what: &str, changes: Vec<Change>, is_commit: bool) -> std::io::Result<()> {
        println!("{what}");
        let now = self.now();
        let Ok(batch) = self.client.begin_batch(now, Options::default()) else { return Ok(()) };
        for change in changes {
            if let Err(error) = self.client.add(batch, change) {
                println!("    not added: {error}");
            }
        }
        let _ = if is_commit { self.client.commit(now, batch) } else { self.client.abort(now, batch) };
        let is_over = |outcome: &BatchOutcome| *outcome != BatchOutcome::Open;
        self.until(|event| matches!(event, Event::Batch { outcome, .. } if is_over(outcome)))
    }
}

fn show(event: &Event) {
    match event {
        Event::Answered { response, .. } => {
            let answer = format!("{:?}", response.answer);
            let answer: String = answer.chars().take(700).collect();
            println!("{:?} {:?} {answer}", response.status.code, response.status.text);
        }
        other => println!("{other:?}"),
    }
}

/// With KIST_SPEAK_RECORD set, all bytes as hexadecimal digits.
fn record(direction: &str, bytes: &[u8]) {
    if std::env::var_os("KIST_SPEAK_RECORD").is_some() && bytes.len() < 2000 {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{direction} {digits}");
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn a_put(key: &str, from: &str, to: &str, value: Bytes) -> Put {
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

fn put(key: &str, from: &str, to: &str, value: Bytes) -> Request {
    Request::Change(Change::Put(a_put(key, from, to, value)))
}

fn a_delete(key: &str, from: &str, force: bool) -> Delete {
    Delete { key: bytes(key), db_version: bytes(from), force, synchronization: Synchronization::WriteThrough }
}

fn range(start: &str, end: &str, max_returned: u32) -> KeyRange {
    let (start_inclusive, end_inclusive, reverse) = (true, true, false);
    KeyRange { start: bytes(start), start_inclusive, end: bytes(end), end_inclusive, max_returned, reverse }
}

const A: &str = "kist-speak-a";
const B: &str = "kist-speak-b";
const C: &str = "kist-speak-c";
const D: &str = "kist-speak-d";

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(address) = arguments.first() else {
        eprintln!("usage: speak HOST:PORT [IDENTITY KEY [HOST:PORT]]");
        std::process::exit(2);
    };
    let identity = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let key = arguments.get(2).map_or("asdfasdf", String::as_str);
    let settings = ClientSettings::new(Identity(identity), key.as_bytes());
    let mut drive = Drive::connect(address, settings.clone())?;
    entries(&mut drive)?;
    ranges_and_media(&mut drive)?;
    batches(&mut drive)?;
    logs(&mut drive)?;
    if let Some((host, port)) = arguments.get(3).and_then(|text| text.split_once(':')) {
        pushes(&mut drive, host, port.parse().unwrap_or(0))?;
    }
    drive.call("GETNEXT of an empty key", neighbour(Which::Next, ""))?;
    for key in [A, B, C, D] {
        drive.call("DELETE by force", Request::Change(Change::Delete(a_delete(key, "", true))))?;
    }
    drive.call("SET_POWER_LEVEL", Request::SetPowerLevel(PowerLevel::Operational))?;
    drive.call("SETUP cluster version 7", Request::SetClusterVersion(ClusterVersion(7)))?;
    drive.call("NOOP with the old one", Request::Noop)?;
    let mut other = settings.clone();
    other.cluster_version = ClusterVersion(7);
    let mut drive = Drive::connect(address, other)?;
    drive.call("SETUP cluster version 0", Request::SetClusterVersion(ClusterVersion(0)))?;
    let mut drive = Drive::connect(address, ClientSettings::new(Identity(identity), b"wrong"))?;
    drive.call("NOOP with a wrong key", Request::Noop)?;
    let mut drive = Drive::connect(address, ClientSettings::new(Identity(4711), b"wrong"))?;
    drive.call("NOOP of an unknown identity", Request::Noop)
}

fn neighbour(which: Which, key: &str) -> Request {
    Request::Get { which, key: bytes(key), metadata_only: false }
}

fn entries(drive: &mut Drive) -> std::io::Result<()> {
    drive.call("NOOP", Request::Noop)?;
    drive.call("PUT", put(A, "", "1", bytes("value of a")))?;
    drive.call("PUT again with a stale version", put(A, "", "2", bytes("other")))?;
    drive.call("PUT of nothing with a version", put(B, "9", "1", bytes("other")))?;
    drive.call("GET", neighbour(Which::Exact, A))?;
    drive.call(
        "GET, metadata only",
        Request::Get { which: Which::Exact, key: bytes(A), metadata_only: true },
    )?;
    drive.call("GETVERSION", Request::GetVersion { key: bytes(A) })?;
    drive.call("GETVERSION of nothing", Request::GetVersion { key: bytes(D) })?;
    drive.call("GET of nothing", neighbour(Which::Exact, D))?;
    drive.call("PUT, empty version", put(B, "", "", bytes("value of b")))?;
    drive.call("PUT over an empty version", put(B, "", "1", bytes("value of b")))?;
    let mut back = a_put(C, "", "1", bytes("value of c"));
    back.synchronization = Synchronization::WriteBack;
    drive.call("PUT, write-back", Request::Change(Change::Put(back)))?;
    drive.call("FLUSHALLDATA", Request::FlushAllData)?;
    drive.call("GETNEXT", neighbour(Which::Next, A))?;
    drive.call("GETPREVIOUS", neighbour(Which::Previous, C))?;
    drive.call("PUT, no value", put(D, "", "1", Bytes::new()))?;
    drive.call("GET, no value", neighbour(Which::Exact, D))?;
    drive.call("PUT, 1 MiB", put(D, "1", "2", Bytes::from(vec![7; 1 << 20])))?;
    drive.call("DELETE with a stale version", Request::Change(Change::Delete(a_delete(D, "1", false))))?;
    drive.call("DELETE", Request::Change(Change::Delete(a_delete(D, "2", false))))?;
    drive.call("DELETE of nothing", Request::Change(Change::Delete(a_delete(D, "2", false))))?;
    drive.call("PUT of an empty key", put("", "", "1", bytes("x")))?;
    drive.call("DELETE of an empty key by force", Request::Change(Change::Delete(a_delete("", "", true))))
}

fn ranges_and_media(drive: &mut Drive) -> std::io::Result<()> {
    drive.call("GETKEYRANGE", Request::GetKeyRange(range(A, D, 200)))?;
    drive.call("GETKEYRANGE, 2 keys", Request::GetKeyRange(range(A, D, 2)))?;
    drive.call("GETKEYRANGE, 0 keys", Request::GetKeyRange(range(A, D, 0)))?;
    let reverse = KeyRange { reverse: true, ..range(A, D, 2) };
    drive.call("GETKEYRANGE, reverse", Request::GetKeyRange(reverse))?;
    drive.call("GETKEYRANGE, reversed bounds", Request::GetKeyRange(range(D, A, 200)))?;
    drive.call("GETKEYRANGE, empty bounds", Request::GetKeyRange(range("", "", 200)))?;
    drive.call("MEDIASCAN", Request::MediaScan(range(A, D, 200)))?;
    drive.call("MEDIAOPTIMIZE", Request::MediaOptimize(range(A, D, 200)))
}

fn batches(drive: &mut Drive) -> std::io::Result<()> {
    let change = |key, from, to| Change::Put(a_put(key, from, to, bytes("of a batch")));
    drive.batch("a batch", vec![change(D, "", "1"), Change::Delete(a_delete(D, "1", false))], true)?;
    drive.batch("a batch of two keys", vec![change(D, "", "1"), change(A, "1", "2")], true)?;
    drive.batch("a batch with a stale version", vec![change(D, "1", "2"), change(A, "1", "3")], true)?;
    drive.call("GETVERSION of its first", Request::GetVersion { key: bytes(D) })?;
    drive.batch("an aborted batch", vec![change(D, "1", "9")], false)?;
    drive.batch("an empty batch", Vec::new(), true)
}

fn logs(drive: &mut Drive) -> std::io::Result<()> {
    for one in LogType::ALL.iter().filter(|one| **one != LogType::Device) {
        drive.call(&format!("GETLOG {one:?}"), Request::GetLog { types: vec![*one], device: None })?;
    }
    let device = Some(bytes("com.example.nothing"));
    drive.call("GETLOG of a maker", Request::GetLog { types: vec![LogType::Device], device })
}

fn pushes(drive: &mut Drive, host: &str, port: u16) -> std::io::Result<()> {
    let push = |key: &str, port| {
        let operation = PushOperation {
            key: bytes(key),
            new_key: Some(bytes("kist-speak-pushed")),
            version: Bytes::new(),
            force: true,
            status: None,
            then: None,
        };
        let peer = Peer { host: host.to_owned(), port, is_tls: false };
        Request::Push(Push { peer, operations: vec![operation] })
    };
    drive.call("PEER2PEERPUSH", push(A, port))?;
    drive.call("PEER2PEERPUSH of nothing", push("kist-speak-nothing", port))?;
    drive.call("PEER2PEERPUSH to nobody", push(A, 1))
}
