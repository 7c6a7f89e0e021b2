//! A service mounted at a listener of its own, as S3 is.

use std::io::{ErrorKind, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::Locality;
use authority::{Allowances, Peer};
use bytes::Bytes;
use door::{DoorSettings, Limits, Listener, Services};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use transfer::{Holder, ReplyBody, Service, Take, TransferLimits};

use crate::client::{Reply, Server, at, at_rate, refused, transfers};
use crate::fake::Fake;

const SHORT: Duration = Duration::from_millis(50);

fn reply(text: String) -> Response<ReplyBody> {
    Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync())
}

type Outcome = Result<usize, ErrorKind>;

/// Tells how a body ended; `Other` if the service was dropped while it waited.
struct Tell(Option<Arc<Mutex<Sender<Outcome>>>>);

impl Tell {
    fn tell(&mut self, outcome: Outcome) {
        if let Some(sender) = self.0.take() {
            let _ = sender.lock().unwrap().send(outcome);
        }
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        self.tell(Err(ErrorKind::Other));
    }
}

/// Reads whole bodies, tells how they ended, and answers with what it knows of the client.
fn reader() -> (Take, Receiver<Outcome>) {
    let (tell, told) = channel();
    let tell = Arc::new(Mutex::new(tell));
    let service: Take = Arc::new(move |request| {
        let tell = tell.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let known = parts.extensions.get::<Peer>().is_some_and(|peer| peer.0.ip().is_loopback())
                && parts.extensions.get::<Allowances>().is_some();
            let mut tell = Tell(Some(tell));
            if parts.uri.path() == "/unread" {
                return reply(String::new());
            }
            let outcome =
                body.collect().await.map(|body| body.to_bytes().len()).map_err(|error| error.kind());
            tell.tell(outcome);
            reply(format!("{known} {outcome:?}"))
        })
    });
    (service, told)
}

fn ended(told: &Receiver<Outcome>) -> Outcome {
    told.recv_timeout(Duration::from_secs(20)).expect("the body ends")
}

#[test]
fn requests_come_with_what_is_known_of_the_client() {
    let (service, told) = reader();
    let server = Server::open(Limits::default(), None, Some(service));
    let answer =
        server.raw("PUT /b/k HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(answer.status, 200);
    assert_eq!(String::from_utf8(answer.body).unwrap(), "true Ok(3)");
    assert_eq!(ended(&told), Ok(3));
    let unread = server.raw("PUT /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
    assert_eq!((unread.status, unread.header("connection")), (200, Some("close")));
}

/// Each door had a budget of its own for one engine.
#[test]
fn services_share_the_places_for_bodies() {
    let limits = TransferLimits { at_once: 1, admission_wait: SHORT, ..TransferLimits::default() };
    let server = Server::with(transfers(limits));
    server.engine.add("/g", b"x", Locality::Online);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = Holder { caller: "a client of another service".to_owned(), ..Holder::default() };
    let place = runtime.block_on(server.transfers.admit(&other)).unwrap();
    refused(&server.get("/data/g"), 503, "unavailable");
    drop(place);
    assert_eq!(server.get("/data/g").status, 200);
}

#[test]
fn services_are_known_by_their_names() {
    let listener = Listener { service: "webdav", ..at("127.0.0.1:0") };
    let settings = DoorSettings { listeners: vec![listener], keys: Vec::new(), limits: Limits::default() };
    let door = door::bind(settings).unwrap();
    let mut services = Services::over(&door, Arc::new(Fake::default()));
    services.register(Service { name: "s3", threads: 1, take: reader().0 });
    assert_eq!(services.names(), [door::HTTP, "s3"]);
    let words = door::run(door, services, std::future::pending()).unwrap_err().to_string();
    assert!(words.starts_with("there is no service 'webdav' for 127.0.0.1:"), "{words}");
    assert!(words.ends_with(": there are http, s3"), "{words}");
}

#[test]
fn a_slow_body_ends_with_an_error() {
    let (service, told) = reader();
    let limits = at_rate(1000, SHORT);
    let server = Server::open(limits, None, Some(service));
    let mut stream = server.connect();
    stream.write_all(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nabc").unwrap();
    assert_eq!(ended(&told), Err(ErrorKind::TimedOut));
    let answer = Reply::read(&mut stream);
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
}

#[test]
fn a_client_that_vanishes_ends_its_body() {
    let (service, told) = reader();
    let server = Server::open(Limits::default(), None, Some(service));
    let mut stream = server.connect();
    stream.write_all(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nabc").unwrap();
    drop(stream);
    // The service is told, or dropped while it waits.
    assert!(matches!(ended(&told), Err(ErrorKind::UnexpectedEof | ErrorKind::Other)));
}
