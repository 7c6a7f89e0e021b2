//! The same inside TLS, and what is only taken there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drive_server::{Server, Settings, TlsFiles};
use kinetic::client::ClientSettings;
use kinetic::{Answer, Identity, PinOperation, Request, Secret, SecurityChange, StatusCode, Which};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::wire::{KEY, Stream, Wire, bytes, get, noise, put, settings, store};

struct Tls(StreamOwned<ClientConnection, TcpStream>);

impl Read for Tls {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Tls {
    fn patience(&self, patience: Option<Duration>) {
        self.0.sock.set_read_timeout(patience).unwrap();
    }
}

/// A server with TLS, and what a client needs to believe it.
fn serve(directory: &Path) -> (Server, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: directory.join("c.pem"), key: directory.join("k.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let tls_config = Some(files.load().unwrap());
    let of_server = Settings { tls: vec![([127, 0, 0, 1], 0).into()], tls_config, ..settings() };
    let server = Server::start(store(directory, 200), of_server).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (server, Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Wire {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut client = ClientSettings::new(Identity(1), KEY);
    client.is_tls = true;
    let mut wire = Wire::over(Box::new(Tls(StreamOwned::new(tls, stream))), client);
    wire.greeted();
    wire
}

fn pin(wire: &mut Wire, operation: PinOperation, pin: &'static str) -> Option<StatusCode> {
    let now = wire.now();
    let ticket =
        wire.client.submit_pin(now, operation, Secret::new(pin), kinetic::client::Options::default());
    let ticket = ticket.unwrap();
    wire.transmit();
    wire.answer(ticket).map(|response| response.status.code)
}

#[test]
fn values_of_all_lengths() {
    let directory = tempfile::tempdir().unwrap();
    let (server, config) = serve(directory.path());
    let mut wire = connect(server.tls()[0], &config);
    let lengths = [0, 1, 16_384, 32_767, 32_768, 65_537, 1 << 20];
    let tickets: Vec<_> = (0..)
        .zip(lengths)
        .map(|(number, length)| wire.submit(put(&format!("{number}"), "", "1", noise(length, number))))
        .collect();
    for ticket in tickets {
        assert_eq!(wire.answer(ticket).unwrap().status.code, StatusCode::Success);
    }
    let tickets: Vec<_> = (0..lengths.len()).map(|number| wire.submit(get(&format!("{number}")))).collect();
    for ((number, length), ticket) in (0..).zip(lengths).zip(tickets) {
        let Answer::Entry(entry) = wire.answer(ticket).unwrap().answer else { panic!("{length}") };
        assert!(entry.value == noise(length, number), "{length}");
    }
    assert_eq!(server.memory(), 0);
}

#[test]
fn pins_lock_and_erase() {
    let directory = tempfile::tempdir().unwrap();
    let name = {
        let (server, config) = serve(directory.path());
        let mut wire = connect(server.tls()[0], &config);
        assert_eq!(wire.code(put("k", "", "1", noise(100_000, 1))), StatusCode::Success);
        let (old, new) = (Secret::default(), Secret::new("lock"));
        let set = Request::Security(SecurityChange::LockPin { old, new });
        let mut plain = Wire::connect(server.plain()[0]);
        assert_eq!(plain.code(set.clone()), StatusCode::InvalidRequest, "over TLS only");
        assert_eq!(wire.code(set), StatusCode::Success);
        let (old, new) = (Secret::default(), Secret::new("erase"));
        assert_eq!(wire.code(Request::Security(SecurityChange::ErasePin { old, new })), StatusCode::Success);
        assert_eq!(pin(&mut wire, PinOperation::Lock, "wrong"), Some(StatusCode::NotAuthorized));
        assert_eq!(pin(&mut wire, PinOperation::Lock, "lock"), Some(StatusCode::Success));
        assert_eq!(plain.code(get("k")), StatusCode::DeviceLocked);
        server.name()
    };
    // It is locked after a start, too.
    let (server, config) = serve(directory.path());
    let mut wire = connect(server.tls()[0], &config);
    assert_eq!(wire.client.greeting().unwrap().status.code, StatusCode::DeviceLocked);
    assert_eq!(wire.code(get("k")), StatusCode::DeviceLocked);
    assert_eq!(pin(&mut wire, PinOperation::Unlock, "lock"), Some(StatusCode::Success));
    assert_eq!(wire.code(get("k")), StatusCode::Success);
    assert_eq!(pin(&mut wire, PinOperation::SecureErase, "erase"), Some(StatusCode::Success));
    assert_eq!(wire.code(get("k")), StatusCode::NotFound);
    let key = bytes("");
    let first = Request::Get { which: Which::Next, key, metadata_only: true };
    assert_eq!(wire.code(first), StatusCode::NotFound, "nothing is there");
    assert_eq!(
        pin(&mut wire, PinOperation::Erase, "erase"),
        Some(StatusCode::NotAuthorized),
        "no PIN is set"
    );
    assert_eq!(wire.code(put("k", "", "1", "v")), StatusCode::Success);
    drop(server);
    // Nothing of the value is left on the disk, and the drive is the same one.
    let (needle, segments) = (noise(100_000, 1), directory.path().join("store/segments"));
    for file in std::fs::read_dir(segments).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(64).any(|window| window == &needle[50_000..50_064]));
    }
    assert_eq!(serve(directory.path()).0.name(), name);
}

#[test]
fn what_is_no_tls_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let (server, config) = serve(directory.path());
    let mut stream = TcpStream::connect(server.tls()[0]).unwrap();
    stream.write_all(&[b'F'; 100]).unwrap();
    let mut rest = Vec::new();
    // It says so, or resets the connection.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 100);
    let mut wire = connect(server.tls()[0], &config);
    assert_eq!(wire.code(Request::Noop), StatusCode::Success);
}
