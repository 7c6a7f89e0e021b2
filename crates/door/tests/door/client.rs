//! A server on a thread, and a client that writes HTTP by hand.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Blake3, ByteCount};
use door::{Certificates, DoorSettings, KeyEntry, Limits, Listener, Services, TlsSettings};
use serde::de::DeserializeOwned;
use transfer::{LowestRate, Service, Take, TransferLimits, Transfers};

use crate::fake::Fake;

pub const KEY: &str = "Authorization: Bearer secret-of-anna\r\n";

/// Limits of which bodies of files have others.
pub fn transfers(transfer: TransferLimits) -> Limits {
    Limits { transfer, ..Limits::default() }
}

/// The usual limits, but for the lowest rate.
pub fn at_rate(bytes: u64, window: Duration) -> Limits {
    let rate = LowestRate { bytes: ByteCount(bytes), window };
    transfers(TransferLimits { rate, ..TransferLimits::default() })
}

/// The usual limits, but for the patience of those who wait for a place.
pub fn impatient(admission_wait: Duration) -> Limits {
    transfers(TransferLimits { admission_wait, ..TransferLimits::default() })
}

pub struct Server {
    pub address: SocketAddr,
    pub engine: Arc<Fake>,
    pub certificates: Certificates,
    pub transfers: Transfers,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Server {
        Server::open(limits, None, None)
    }

    /// A server with TLS, or with a service mounted in the place of the door's own.
    pub fn open(limits: Limits, tls: Option<TlsSettings>, mounted: Option<Take>) -> Server {
        let service = if mounted.is_some() { "mounted" } else { door::HTTP };
        let key = |name: &str, key: &str| KeyEntry { name: name.into(), hash: Blake3::of(key.as_bytes()).0 };
        let settings = DoorSettings {
            listeners: vec![Listener { service, tls, ..at("127.0.0.1:0") }],
            keys: vec![key("anna", "secret-of-anna"), key("bert", "secret-of-bert")],
            limits: Limits { drain: limits.drain.min(Duration::from_secs(5)), ..limits },
        };
        let door = door::bind(settings).unwrap();
        let address = door.addresses()[0];
        let engine = Arc::new(Fake::default());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let certificates = door.certificates();
        let mut services = Services::over(&door, engine.clone());
        if let Some(take) = mounted {
            services.register(Service { name: "mounted", threads: 0, take });
        }
        let transfers = services.transfers().clone();
        let thread = std::thread::spawn(move || {
            let stopped = async {
                let _ = stopped.await;
            };
            door::run(door, services, stopped).unwrap();
        });
        Server { address, engine, certificates, transfers, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends text and reads the reply until the server closes.
    pub fn raw(&self, text: impl AsRef<[u8]>) -> Reply {
        let mut stream = self.connect();
        stream.write_all(text.as_ref()).unwrap();
        Reply::read(&mut stream)
    }

    /// One request with a key. `headers` end in CRLF each.
    pub fn request(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
             {KEY}{headers}Content-Length: {length}\r\n\r\n"
        );
        self.raw([head.as_bytes(), body].concat())
    }

    pub fn get(&self, target: &str) -> Reply {
        self.request("GET", target, "", b"")
    }

    pub fn post(&self, target: &str, body: &str) -> Reply {
        self.request("POST", target, "", body.as_bytes())
    }

    /// Asks the server to stop, without waiting for it.
    pub fn begin_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn read(stream: &mut TcpStream) -> Reply {
        let reply = Reply::read_from(stream);
        let _ = stream.shutdown(Shutdown::Both);
        reply
    }

    /// A reply that ends with its connection, however it is carried.
    pub fn read_from(stream: &mut impl Read) -> Reply {
        let mut bytes = Vec::new();
        // A connection that is reset ends the reply as well.
        let _ = stream.read_to_end(&mut bytes);
        Reply::parse(&bytes)
    }

    /// An empty reply has status 0.
    pub fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        Reply { status, head, body: bytes[end..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the word of a problem; the body and the header have to agree.
    pub fn problem(&self) -> (u16, String) {
        let problem: wire::Problem = self.json();
        assert_eq!(problem.status, self.status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("kist-problem"), Some(problem.kind.as_str()));
        assert!(!problem.detail.is_empty());
        (self.status, problem.kind)
    }
}

/// The door's own service at an address.
pub fn at(address: impl ToString) -> Listener {
    let address = address.to_string().parse().unwrap();
    Listener { address, another_port: false, service: door::HTTP, tls: None }
}

pub fn refused(reply: &Reply, status: u16, word: &str) {
    assert_eq!(reply.problem(), (status, word.to_owned()), "{reply:?}");
}
