//! TLS: what is believed, and that values go through.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinetic::{Answer, Request, Which};
use kinetic_client::{CallError, Link, Trust, TrustError};
use rcgen::{CertificateParams, KeyPair};

use crate::calls::settings;
use crate::serving::Served;

/// A door with TLS before a drive without, and the certificate that it shows.
fn door(served: &Served) -> (u16, String) {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["drive".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = Arc::new(builder.with_single_cert(vec![own.der().clone()], private).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let inside = served.address;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).unwrap();
                pump(session, stream, TcpStream::connect(inside).unwrap());
            });
        }
    });
    (port, own.pem())
}

/// One thread, both ways, by short time-outs.
fn pump(mut session: rustls::ServerConnection, outside: TcpStream, inside: TcpStream) {
    use std::io::{ErrorKind, Read};
    outside.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    inside.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (mut outside, mut inside) = (outside, inside);
    let mut piece = vec![0; 30_000];
    loop {
        let waits =
            |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        match session.read_tls(&mut outside) {
            Ok(0) => return,
            Ok(_) => {
                if session.process_new_packets().is_err() {
                    let _ = session.write_tls(&mut outside);
                    return;
                }
            }
            Err(error) if waits(&error) => {}
            Err(_) => return,
        }
        while let Ok(count) = session.reader().read(&mut piece) {
            if count == 0 || inside.write_all(&piece[..count]).is_err() {
                return;
            }
        }
        if !session.is_handshaking() {
            match inside.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => session.writer().write_all(&piece[..count]).unwrap(),
                Err(error) if waits(&error) => {}
                Err(_) => return,
            }
        }
        while session.wants_write() {
            if session.write_tls(&mut outside).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_drive_is_believed_that_shows_the_certificate_and_no_other() {
    let served = Served::new("one");
    let (port, pem) = door(&served);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive.pem");
    std::fs::write(&file, &pem).unwrap();
    let mut with = settings(vec![format!("127.0.0.1:{port}")]);
    with.trust = Some(Trust::read(&file).unwrap());
    let link = Link::new("test", with.clone()).unwrap();
    let value = Bytes::from((0..1u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let change = |key: &str, value: &Bytes| {
        let put = kinetic::Put {
            key: Bytes::copy_from_slice(key.as_bytes()),
            metadata: kinetic::Metadata { version: Bytes::from_static(b"1"), ..Default::default() },
            db_version: Bytes::new(),
            force: false,
            synchronization: kinetic::Synchronization::WriteBack,
            value: value.clone(),
        };
        Request::Change(kinetic::Change::Put(put))
    };
    assert!(link.call(change("k", &value)).unwrap().response.status.is_success());
    let key = Bytes::from_static(b"k");
    let got = link.call(Request::Get { which: Which::Exact, key, metadata_only: false }).unwrap();
    let Answer::Entry(entry) = got.response.answer else { panic!("an entry") };
    assert!(entry.value == value);
    // The certificate of another.
    let key = KeyPair::generate().unwrap();
    let other = CertificateParams::new(vec!["drive".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(&file, other.pem()).unwrap();
    with.trust = Some(Trust::read(&file).unwrap());
    with.down_patience = Duration::from_millis(50);
    let link = Link::new("test", with).unwrap();
    let error = link.call(Request::Noop).unwrap_err();
    assert!(matches!(error, CallError::NoAnswer(_) | CallError::Unreachable(_)), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    std::fs::write(&file, "none").unwrap();
    assert!(matches!(Trust::read(&file), Err(TrustError::None(_))));
}
