//! TLS: protocols, clients' certificates, replacement of the server's.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::Locality;
use authority::{ClientCertificate, Encrypted};
use bytes::Bytes;
use door::{ClientAuth, Limits, TlsError, TlsSettings, check_tls};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::client::{KEY, Reply, Server, at_rate};
use crate::fake::Event;

const SHORT: Duration = Duration::from_millis(50);

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A directory with an authority and the files of a server that it has signed.
struct Site {
    directory: tempfile::TempDir,
    issuer: Issuer,
}

fn issuer() -> Issuer {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Site {
    fn new() -> Site {
        let site = Site { directory: tempfile::tempdir().unwrap(), issuer: issuer() };
        fs::write(site.file("ca.pem"), site.issuer.pem()).unwrap();
        site.renew(2099);
        site
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces the server's certificate and key, good until that year, as an operator does: each file at
    /// once.
    fn renew(&self, until: i32) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        for (name, text) in [("new.pem", certificate.pem()), ("new.key", key.serialize_pem())] {
            fs::write(self.file(name), text).unwrap();
        }
        fs::rename(self.file("new.key"), self.file("server.key")).unwrap();
        fs::rename(self.file("new.pem"), self.file("server.pem")).unwrap();
        certificate.der().clone()
    }

    fn settings(&self, client_auth: ClientAuth) -> TlsSettings {
        TlsSettings {
            certificate: self.file("server.pem"),
            key: self.file("server.key"),
            client_ca: (client_auth != ClientAuth::None).then(|| self.file("ca.pem")),
            client_auth,
            http2: true,
        }
    }

    fn server(&self, limits: Limits) -> Server {
        Server::open(limits, Some(self.settings(ClientAuth::None)), None)
    }

    fn client(&self, shown: Option<&Issuer>, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let Some(issuer) = shown else { return builder.with_no_client_auth() };
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["anna".to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
    }

    fn connect(&self, server: &Server) -> Stream {
        open(server, self.client(None, &[&TLS13]))
    }
}

fn open(server: &Server, config: ClientConfig) -> Stream {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), server.connect())
}

fn get(stream: &mut Stream) -> Reply {
    let head = format!("GET /data/f HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{KEY}\r\n");
    // Where the certificate is refused, that is learned from the write or from the read.
    let _ = stream.write_all(head.as_bytes());
    Reply::read_from(stream)
}

/// A request on a connection that stays open.
fn ask(stream: &mut Stream) -> u16 {
    stream.write_all(format!("GET /data/f HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let reply = Reply::parse(&head);
    let mut body = vec![0; reply.header("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    reply.status
}

fn shown(stream: &Stream) -> CertificateDer<'static> {
    stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

#[test]
fn both_versions_of_tls_and_both_protocols_are_offered() {
    let site = Site::new();
    let server = site.server(Limits::default());
    server.engine.add("/f", b"x", Locality::Online);
    for version in [&TLS12, &TLS13] {
        for (offered, agreed) in [
            (vec![], None),
            (vec![b"http/1.1".to_vec()], Some(&b"http/1.1"[..])),
            (vec![b"http/1.1".to_vec(), b"h2".to_vec()], Some(&b"h2"[..])),
        ] {
            let mut config = site.client(None, &[version]);
            config.alpn_protocols = offered;
            let mut stream = open(&server, config);
            let reply = get(&mut stream);
            assert_eq!(stream.conn.alpn_protocol(), agreed);
            if agreed != Some(b"h2") {
                assert_eq!((reply.status, reply.body.as_slice()), (200, &b"x"[..]));
            }
        }
    }
    // Without TLS nothing is said.
    assert_eq!(server.raw("GET /data/f HTTP/1.1\r\nHost: h\r\n\r\n").status, 0);
}

#[test]
fn a_new_certificate_is_for_new_connections_and_a_bad_one_for_none() {
    let site = Site::new();
    let first = site.renew(2098);
    let server = site.server(Limits::default());
    let mut old = site.connect(&server);
    assert_eq!(ask(&mut old), 404);
    let second = site.renew(2099);
    server.certificates.reload().unwrap();
    let mut new = site.connect(&server);
    assert_eq!((ask(&mut new), ask(&mut old)), (404, 404));
    assert_eq!((shown(&old), shown(&new)), (first, second.clone()));

    let stays = |error: Result<(), TlsError>, word: &str| {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        let mut stream = site.connect(&server);
        assert_eq!(ask(&mut stream), 404);
        assert_eq!(shown(&stream), second);
    };
    let (certificate, key) = (site.file("server.pem"), site.file("server.key"));
    let good = fs::read(&key).unwrap();
    fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    stays(server.certificates.reload(), "the key has to be that of the first certificate");
    fs::write(&key, "nonsense").unwrap();
    stays(server.certificates.reload(), "a private key in PEM");
    fs::remove_file(&key).unwrap();
    stays(server.certificates.reload(), "the server has to be able to read it");
    fs::write(&key, good).unwrap();
    fs::write(&certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    stays(server.certificates.reload(), "it has to hold certificates in PEM");
    site.renew(2001);
    stays(server.certificates.reload(), "has expired");
    assert!(matches!(check_tls(&site.settings(ClientAuth::None)), Err(TlsError::Expired { .. })));
    site.renew(2099);
    server.certificates.reload().unwrap();
    check_tls(&site.settings(ClientAuth::None)).unwrap();
    assert_eq!(ask(&mut old), 404);
}

#[test]
fn a_changed_file_is_noticed() {
    let site = Site::new();
    let limits = Limits { certificate_watch: Duration::from_millis(5), ..Limits::default() };
    let server = site.server(limits);
    let renewed = site.renew(2099);
    let begun = std::time::Instant::now();
    loop {
        let mut stream = site.connect(&server);
        assert_eq!(ask(&mut stream), 404);
        if shown(&stream) == renewed {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not noticed");
    }
}

/// Answers with whether the connection is encrypted and how long the certificate of the client is.
fn mirror() -> transfer::Take {
    Arc::new(|request| {
        let encrypted = request.extensions().get::<Encrypted>().is_some();
        let certificate = request.extensions().get::<ClientCertificate>().map_or(0, |shown| shown.0.len());
        let text = format!("{encrypted} {}", certificate > 100);
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        Box::pin(std::future::ready(Response::new(body)))
    })
}

#[test]
fn clients_show_certificates_as_they_are_asked_to() {
    let site = Site::new();
    let foreign = issuer();
    for (client_auth, without, with) in [
        (ClientAuth::None, Some("true false"), "true false"),
        (ClientAuth::Optional, Some("true false"), "true true"),
        (ClientAuth::Required, None, "true true"),
    ] {
        let server = Server::open(Limits::default(), Some(site.settings(client_auth)), Some(mirror()));
        for version in [&TLS12, &TLS13] {
            let say = |shown| {
                let reply = get(&mut open(&server, site.client(shown, &[version])));
                (reply.status == 200).then(|| String::from_utf8(reply.body).unwrap())
            };
            assert_eq!(say(None).as_deref(), without, "{client_auth:?}");
            assert_eq!(say(Some(&site.issuer)).as_deref(), Some(with), "{client_auth:?}");
            let refused = if client_auth == ClientAuth::None { Some("true false") } else { None };
            assert_eq!(say(Some(&foreign)).as_deref(), refused, "{client_auth:?}");
        }
    }
    let settings = TlsSettings { client_ca: None, ..site.settings(ClientAuth::Required) };
    assert!(matches!(check_tls(&settings), Err(TlsError::NoClientCa)));
    let settings = TlsSettings { client_auth: ClientAuth::None, ..site.settings(ClientAuth::Required) };
    assert!(matches!(check_tls(&settings), Err(TlsError::UnusedClientCa { .. })));
}

/// An authority in `client_ca` that had expired still let clients in.
#[test]
fn an_expired_authority_lets_nobody_in() {
    let site = Site::new();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(2002, 1, 1);
    let expired = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(site.file("ca.pem"), format!("{}{}", expired.pem(), site.issuer.pem())).unwrap();
    let settings = site.settings(ClientAuth::Required);
    check_tls(&settings).unwrap();
    let server = Server::open(Limits::default(), Some(settings.clone()), Some(mirror()));
    for version in [&TLS12, &TLS13] {
        let say = |shown| get(&mut open(&server, site.client(Some(shown), &[version]))).status;
        assert_eq!((say(&expired), say(&site.issuer)), (0, 200));
    }
    fs::write(site.file("ca.pem"), expired.pem()).unwrap();
    assert!(matches!(check_tls(&settings), Err(TlsError::NoAuthorityInTime { .. })));
}

/// Sessions are not gone on with where clients show certificates: nobody would look at those again.
#[test]
fn a_client_with_a_certificate_shows_it_each_time() {
    let site = Site::new();
    for (client_auth, kind) in [
        (ClientAuth::None, rustls::HandshakeKind::Resumed),
        (ClientAuth::Required, rustls::HandshakeKind::Full),
    ] {
        let server = Server::open(Limits::default(), Some(site.settings(client_auth)), Some(mirror()));
        let config = site.client(Some(&site.issuer), &[&TLS12]);
        for expected in [rustls::HandshakeKind::Full, kind] {
            let mut stream = open(&server, config.clone());
            assert_eq!(get(&mut stream).status, 200);
            assert_eq!(stream.conn.handshake_kind(), Some(expected), "{client_auth:?}");
        }
    }
}

#[test]
fn a_handshake_that_never_ends_is_not_waited_for() {
    let site = Site::new();
    let server = site.server(Limits { handshake_deadline: SHORT, ..Limits::default() });
    // Nothing, and the beginning of a record that never comes whole.
    for bytes in [&[][..], &[22, 3, 1, 2, 0, 1]] {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    }
}

#[test]
fn a_header_that_never_ends_is_not_waited_for_behind_tls() {
    let site = Site::new();
    let server = site.server(Limits { header_deadline: SHORT, ..Limits::default() });
    for text in ["", "PRI * HT", "GET /data/f HT"] {
        let mut stream = site.connect(&server);
        stream.write_all(text.as_bytes()).unwrap();
        stream.flush().unwrap();
        assert!(Reply::read_from(&mut stream).head.is_empty());
    }
}

#[test]
fn slow_readers_and_writers_are_broken_off_behind_tls() {
    let site = Site::new();
    let limits = at_rate(1000, SHORT);
    let server = site.server(limits);
    server.engine.add("/endless", &[7; 1 << 16], Locality::Online);
    let mut reader = site.connect(&server);
    reader.write_all(format!("GET /data/endless HTTP/1.1\r\nHost: h\r\n{KEY}\r\n").as_bytes()).unwrap();
    assert_eq!(server.engine.event(), Event::Closed("/endless".into()));
    let mut writer = site.connect(&server);
    let head = format!("PUT /data/f HTTP/1.1\r\nHost: h\r\n{KEY}Content-Length: 1000000\r\n\r\nabc");
    writer.write_all(head.as_bytes()).unwrap();
    assert_eq!(Reply::read_from(&mut writer).status, 408);
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    assert_eq!(server.engine.event(), Event::Aborted("/f".into()));
}

#[test]
fn requests_behind_tls_may_end_when_the_door_closes() {
    let site = Site::new();
    let mut server = site.server(Limits::default());
    let mut idle = site.connect(&server);
    assert_eq!(ask(&mut idle), 404);
    let mut running = site.connect(&server);
    let head = "PUT /data/f HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    running.write_all(format!("{head}{KEY}\r\n3\r\nabc\r\n").as_bytes()).unwrap();
    assert_eq!(server.engine.event(), Event::Begun("/f".into()));
    server.begin_stop();
    assert!(Reply::read_from(&mut idle).head.is_empty(), "nothing runs there");
    running.write_all(b"3\r\ndef\r\n0\r\n\r\n").unwrap();
    assert_eq!(Reply::read_from(&mut running).status, 201);
    server.join();
}
