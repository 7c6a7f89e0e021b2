//! How fast bytes go through the door alone: the engine throws away what it gets and gives zeros. Beside it
//! the bare loopback in the same run. `cargo run --release -p door --example door_speed [MIB]`

#[allow(dead_code)]
#[path = "../tests/door/fake.rs"]
mod fake;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use archive::Locality;
use base::Blake3;
use door::{DoorSettings, KeyEntry, Limits, Listener, Services};

const KEY: &str = "Authorization: Bearer k\r\n";
const PIECE: usize = 1 << 20;

fn rate(what: &str, bytes: u64, begun: Instant) {
    println!("{what}: {:.2} GB/s", bytes as f64 / begun.elapsed().as_secs_f64() / 1e9);
}

fn send(mut stream: &TcpStream, bytes: u64) {
    let piece = vec![7u8; PIECE];
    (0..bytes / PIECE as u64).for_each(|_| stream.write_all(&piece).expect("the other side reads"));
}

fn receive(mut stream: &TcpStream, bytes: u64) {
    let mut piece = vec![0u8; PIECE];
    let mut left = bytes;
    while left > 0 {
        let count = stream.read(&mut piece).expect("the other side writes");
        assert!(count > 0, "{left} bytes are missing");
        left = left.saturating_sub(count as u64);
    }
}

fn main() {
    let mib: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2048);
    let bytes = mib << 20;
    let settings = DoorSettings {
        listeners: vec![Listener {
            another_port: false,
            address: "127.0.0.1:0".parse().expect("an address"),
            service: door::HTTP,
            tls: None,
        }],
        keys: vec![KeyEntry { name: "k".into(), hash: Blake3::of(b"k").0 }],
        limits: Limits::default(),
    };
    let door = door::bind(settings).expect("a free port");
    let address = door.addresses()[0];
    let mut engine = fake::Fake::default();
    (engine.discard, engine.piece) = (true, PIECE);
    let engine = Arc::new(engine);
    engine.add("/endless", &vec![7; PIECE], Locality::Online);
    let services = Services::over(&door, engine);
    std::thread::spawn(move || door::run(door, services, std::future::pending()));
    for _ in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (far, _) = listener.accept().expect("it connects");
        let begun = Instant::now();
        let reader = std::thread::spawn(move || receive(&far, bytes));
        send(&near, bytes);
        reader.join().expect("all was read");
        rate("loopback", bytes, begun);

        let mut stream = TcpStream::connect(address).expect("it listens");
        let begun = Instant::now();
        let head = format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it reads");
        send(&stream, bytes);
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).expect("a reply");
        assert!(reply.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&reply));
        rate("put", bytes, begun);

        let mut stream = TcpStream::connect(address).expect("it listens");
        let begun = Instant::now();
        stream
            .write_all(format!("GET /data/endless HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes())
            .expect("it reads");
        receive(&stream, bytes);
        rate("get", bytes, begun);
    }
}
