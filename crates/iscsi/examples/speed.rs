//! How fast the initiator is on the target over loopback, beside a TCP stream of the same bytes:
//! `cargo run --release -p iscsi --example speed [ROUNDS [KIB]]`.

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

/// Something whose rate is measured.
type Runner = Box<dyn FnMut(Duration) -> f64>;

/// The other side takes `length` bytes, and sends one if it acknowledges, over and over: commands without a
/// protocol.
fn plain(length: usize, acknowledges: bool) -> Runner {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut theirs, _) = listener.accept().expect("a connection");
    // It ends with its connection.
    std::thread::spawn(move || {
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
    Box::new(move |time| {
        rate(time, length, || {
            ours.write_all(&bytes).expect("a connection");
            if acknowledges {
                ours.read_exact(&mut [0]).expect("a connection");
            }
        })
    })
}

fn initiator(server: &Server, digest: DigestWish) -> Initiator {
    let portal = server.address().to_string();
    let target = name("iqn.2026-01.org.kist:speed");
    let mut config =
        InitiatorConfig::new(&portal, name("iqn.a:speed"), target, Lun::default()).expect("settings");
    (config.parameters.header_digest, config.parameters.data_digest) = (digest, digest);
    Initiator::new(config).expect("an initiator")
}

const LIMIT: Duration = Duration::from_secs(30);

fn commands(mut initiator: Initiator, length: usize, is_read: bool) -> Runner {
    let cdb = Cdb::new(&[0x0a, 0, 0, 0, 0, 0]).expect("a command");
    let mut buffer = vec![7; length];
    Box::new(move |time| {
        rate(time, length, || {
            let data = if is_read { Data::In(&mut buffer) } else { Data::Out(&buffer) };
            let done = initiator.execute(&cdb, data, LIMIT).expect("an answer");
            assert_eq!(done.transferred, length);
        })
    })
}

/// All in turn, in short slices: on a machine that does other things too, the best slice of each says what
/// it can do.
fn main() {
    const SLICE: Duration = Duration::from_millis(100);
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let rounds = arguments.next().unwrap_or(20);
    let length = arguments.next().unwrap_or(512) * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut config = TargetConfig::default();
    (config.parameters.header_digest, config.parameters.data_digest) =
        (DigestWish::Prefer, DigestWish::Prefer);
    let server = Server::start(listener, Arc::new(Nothing), config).expect("a server");
    let mut runners =
        vec![("TCP stream", plain(length, false)), ("TCP, an answer to each", plain(length, true))];
    for (digest, write, read) in [
        (DigestWish::Never, "write", "read"),
        (DigestWish::Require, "write with checksums", "read with checksums"),
    ] {
        runners.push((write, commands(initiator(&server, digest), length, false)));
        runners.push((read, commands(initiator(&server, digest), length, true)));
    }
    let mut rates = vec![Vec::new(); runners.len()];
    for _ in 0..rounds {
        for ((_, run), rates) in runners.iter_mut().zip(&mut rates) {
            rates.push(run(SLICE));
        }
    }
    rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    println!("{} KiB at a time, {rounds} slices of {SLICE:?} each, MB/s: best and median", length / 1024);
    let figures = |rates: &[f64]| (rates[rates.len() - 1], rates[rates.len() / 2]);
    let (best_stream, median_stream) = figures(&rates[0]);
    for ((name, _), rates) in runners.iter().zip(&rates) {
        let (best, median) = figures(rates);
        let (of_best, of_median) = (best / best_stream, median / median_stream);
        println!(
            "{name:24} {:6.0} {:6.0}   of the stream {of_best:.2} {of_median:.2}",
            best / 1e6,
            median / 1e6
        );
    }
    let mut initiator = initiator(&server, DigestWish::Never);
    let cdb = Cdb::new(&[0; 6]).expect("a command");
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..10_000 {
        let begun = Instant::now();
        initiator.execute(&cdb, Data::None, LIMIT).expect("an answer");
        times.push(begun.elapsed());
    }
    times.sort();
    println!(
        "a command without data: {:?} the median, {:?} the tenth best of 100",
        times[5_000], times[1_000]
    );
}
