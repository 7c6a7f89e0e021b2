//! Whose certificates are taken, from files and from a directory as the grid has it.

use std::fs;
use std::sync::Arc;

use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tpc::{Client, Error, Settings, TrustError};

use crate::world::{PLAIN, World, drain};

const URL: &str = "https://se.example.org:8443/f";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for this name.
fn server(world: &Arc<World>, authority: &Authority, name: &str) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    world.serve("8.1.1.1:8443", move |visit| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(visit.stream).await else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            let _ = stream.shutdown().await;
        }
    });
}

async fn get(client: &Client) -> Result<Vec<u8>, Error> {
    drain(&mut client.pull(URL, HeaderMap::new(), PLAIN).await?).await
}

// Certificates are checked against the real clock: time does not stand still here, and nothing waits.
#[tokio::test]
async fn only_known_authorities_and_the_right_name_are_taken() {
    let (good, other) = (authority("good"), authority("other"));
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (good_file, other_file) = (file("good.pem", &good.pem()), file("other.pem", &other.pem()));
    let world = World::new();
    world.name("se.example.org", &["8.1.1.1"]);
    server(&world, &good, "se.example.org");
    let with =
        |path: &std::path::Path| Settings { authorities: vec![path.to_owned()], ..Settings::default() };
    let client = Client::with_net(with(&other_file), world.clone()).unwrap();
    assert_eq!(get(&client).await, Err(Error::NoAnswer), "nobody knows its authority");
    client.reload(with(&good_file)).unwrap();
    assert_eq!(get(&client).await.unwrap(), b"ok");
    // What cannot be read changes nothing.
    let empty = file("empty.pem", "nothing");
    assert!(matches!(client.reload(with(&empty)), Err(TrustError::None { .. })));
    assert!(matches!(client.reload(with(&empty.with_extension("gone"))), Err(TrustError::Io { .. })));
    assert_eq!(get(&client).await.unwrap(), b"ok");
    server(&world, &good, "other.example.org");
    assert_eq!(get(&client).await, Err(Error::NoAnswer), "another's name");
}

#[tokio::test]
async fn a_directory_is_read_as_the_grid_keeps_it() {
    let (good, other) = (authority("good"), authority("other"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("0a1b2c3d.0"), good.pem()).unwrap();
    fs::write(path.join("Other.pem"), other.pem()).unwrap();
    std::os::unix::fs::symlink("Other.pem", path.join("ffffffff.0")).unwrap();
    for (name, text) in [("0a1b2c3d.r0", "revoked"), ("x.namespaces", "?"), ("Broken.pem", "-----BEGIN CERT")]
    {
        fs::write(path.join(name), text).unwrap();
    }
    let world = World::new();
    world.name("se.example.org", &["8.1.1.1"]);
    server(&world, &good, "se.example.org");
    let settings = Settings { authorities: vec![path.to_owned()], ..Settings::default() };
    let client = Client::with_net(settings, world.clone()).unwrap();
    assert_eq!(get(&client).await.unwrap(), b"ok");
    let bare = tempfile::tempdir().unwrap();
    let settings = Settings { authorities: vec![bare.path().to_owned()], ..Settings::default() };
    assert!(matches!(client.reload(settings), Err(TrustError::None { .. })));
}
