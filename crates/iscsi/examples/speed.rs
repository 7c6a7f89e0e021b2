//! How fast the initiator is on the target over loopback, beside a TCP stream of the same bytes:
//! `cargo run --release -p iscsi --example speed [SECONDS [KIB]]`.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::{DigestWish, Name};
use iscsi::pdu::Lun;
use iscsi::target::{LogicalUnits, Nexus, Server, TargetConfig};
use scsi::{Cdb, Completion, Data, Status, Transport};

/// Takes all and gives what is in the buffer: what is measured is the way there and back.
struct Nothing;

impl LogicalUnits for Nothing {
    fn targets(&self) -> Vec<Name> {
        vec![name("iqn.2026-01.org.kist:speed")]
    }

    fn luns(&self, _: &Name) -> Vec<Lun> {
        vec![Lun::default()]
    }

    fn execute(&self, _: &Nexus, _: Lun, _: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        Completion { status: Status::Good, sense: Vec::new(), transferred: out.len().max(into.len()) }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Repeats `work`, which moves `bytes`, for a while: bytes a second.
fn rate(time: Duration, bytes: usize, mut work: impl FnMut()) -> f64 {
    let (begun, mut moved) = (Instant::now(), 0);
    while begun.elapsed() < time {
        work();
        moved += bytes;
    }
    moved as f64 / begun.elapsed().as_secs_f64()
}

/// The other side takes `length` bytes and sends one, over and over: commands without a protocol.
fn plain(time: Duration, length: usize, acknowledges: bool) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut theirs, _) = listener.accept().expect("a connection");
    let other = std::thread::spawn(move || {
        theirs.set_nodelay(true).expect("a socket");
        let mut buffer = vec![0; length];
        while theirs.read_exact(&mut buffer).is_ok() {
            black_box(&buffer);
            if acknowledges && theirs.write_all(&[1]).is_err() {
                return;
            }
        }
    });
    ours.set_nodelay(true).expect("a socket");
    let bytes = vec![7; length];
    let rate = rate(time, length, || {
        ours.write_all(&bytes).expect("a connection");
        if acknowledges {
            ours.read_exact(&mut [0]).expect("a connection");
        }
    });
    drop(ours);
    other.join().expect("the other side");
    rate
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let time = Duration::from_secs(arguments.next().unwrap_or(2));
    let length = arguments.next().unwrap_or(512) as usize * 1024;
    let mega = 1e6;
    println!("{} KiB at a time, MB/s", length / 1024);
    for round in 1..=3 {
        let stream = plain(time, length, false);
        let turns = plain(time, length, true);
        println!(
            "round {round}: TCP stream {:.0}, TCP with an answer to each {:.0}",
            stream / mega,
            turns / mega
        );
        for digest in [DigestWish::Never, DigestWish::Require] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let mut config = TargetConfig::default();
            (config.parameters.header_digest, config.parameters.data_digest) =
                (DigestWish::Prefer, DigestWish::Prefer);
            let server = Server::start(listener, Arc::new(Nothing), config).expect("a server");
            let portal = server.address().to_string();
            let target = name("iqn.2026-01.org.kist:speed");
            let mut config =
                InitiatorConfig::new(&portal, name("iqn.a:speed"), target, Lun::default()).expect("settings");
            (config.parameters.header_digest, config.parameters.data_digest) = (digest, digest);
            let mut initiator = Initiator::new(config).expect("an initiator");
            let cdb = Cdb::new(&[0x0a, 0, 0, 0, 0, 0]).expect("a command");
            let limit = Duration::from_secs(10);
            let mut buffer = vec![7; length];
            let written = rate(time, length, || {
                let done = initiator.execute(&cdb, Data::Out(&buffer), limit).expect("an answer");
                assert_eq!(done.transferred, length);
            });
            let read = rate(time, length, || {
                let done = initiator.execute(&cdb, Data::In(&mut buffer), limit).expect("an answer");
                assert_eq!(done.transferred, length);
            });
            let begun = Instant::now();
            for _ in 0..10_000 {
                initiator.execute(&cdb, Data::None, limit).expect("an answer");
            }
            let empty = begun.elapsed() / 10_000;
            let share = |rate: f64| format!("{:.0} ({:.2}, {:.2})", rate / mega, rate / stream, rate / turns);
            println!(
                "  digests {digest:?}: write {}, read {}, a command without data {empty:?}",
                share(written),
                share(read)
            );
        }
    }
}
