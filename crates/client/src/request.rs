//! The client's side of the HTTP interface, over kept-alive connections, blocking.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use base::ArchivePath;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terminal::{Exit, Failure, Outcome, text};
use ureq::http::{Response, StatusCode};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, SendBody};
use wire::{ListEntry, ListReply, Problem, StatReply, WorkReply};

use crate::access::{Access, Door, Origin, RESTART_POLL};
use crate::trust::{self, Trust};

/// A body of so many bytes is sent only when the server has agreed to take it: a refusal that comes while it
/// is sent would not be read.
const EXPECT_FROM: u64 = 1 << 20;
/// Connections kept open for the threads of one command.
const IDLE_CONNECTIONS_MAX: usize = terminal::parallel::JOBS_MAX;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of an answer may take; a durable write waits for its group.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Buffers of a connection.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest JSON answer that is read.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// The preference of a client that does not wait for a call over many files on its connection.
const RESPOND_ASYNC: &str = "respond-async";
/// How often the server is asked how far a call over many files is.
const WORK_POLL_EVERY: Duration = Duration::from_millis(250);
/// Names asked for in one page of a listing.
pub const LIST_PAGE: usize = 1000;
/// How often a request that may be repeated is tried in all.
pub const ATTEMPTS: u32 = 4;
/// Other keys that one request is sent with, if each was refused.
const NEW_KEYS_MAX: usize = 4;
/// The server's word for a pool that has no room and makes some.
const ROOM_IS_BEING_MADE: &str = "room-is-being-made";
/// The longest wait between two attempts, whatever the server suggests.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// A server and a key; shared by the threads of a command.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    access: Arc<Access>,
}

/// A request that failed, and whether it may help to send it again.
pub struct Attempt {
    /// Why.
    pub failure: Failure,
    /// `Some` if a repetition may help, after at least this time.
    pub again: Option<Duration>,
    /// The pool has no room and makes some: it is waited for as long as the caller bears.
    is_for_room: bool,
    /// It was refused for its key, so that nothing of it was done, and there is another key by now.
    has_new_key: bool,
}

impl Attempt {
    /// A failure that will stay.
    pub fn last(failure: Failure) -> Self {
        Attempt { failure, again: None, is_for_room: false, has_new_key: false }
    }

    /// Whether the pool has no room and makes some.
    pub fn is_for_room(&self) -> bool {
        self.is_for_room
    }

    /// A failure that a repetition after this time may mend.
    pub fn after(wait: Duration, failure: Failure) -> Self {
        Attempt { again: Some(wait), ..Attempt::last(failure) }
    }
}

impl Client {
    /// A client of the server at `url`. Nothing is sent yet.
    pub fn new(url: &str, key: &str, trust: &Trust) -> Outcome<Self> {
        let base = url.trim_end_matches('/');
        let tls = if base.starts_with("https://") {
            trust.tls()?
        } else if base.starts_with("http://") {
            TlsConfig::default()
        } else {
            let message = format!("'{url}' is not the URL of a server: it begins with https:// or http://");
            return Err(Failure::usage(message));
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("kist/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(IDLE_CONNECTIONS_MAX)
            .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .input_buffer_size(BUFFER_BYTES)
            .output_buffer_size(BUFFER_BYTES)
            .build();
        let access = Access::new(Door::new(base, key), Origin::default());
        Ok(Client { agent: config.into(), access: Arc::new(access) })
    }

    /// The same with the files that URL and key are from: they are read again when the server was started
    /// again.
    #[must_use]
    pub(crate) fn read_from(self, origin: Origin) -> Self {
        Client { access: Arc::new(Access::new(self.access.door(), origin)), ..self }
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        self.access.door().base
    }

    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> String {
        self.access.door().authorization
    }

    /// Sends a request; again and again while a server that answered before refuses connections, of which a
    /// request has sent nothing yet.
    fn send(
        &self,
        mut call: impl FnMut(&Agent, &Door) -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Attempt> {
        loop {
            let door = self.access.door();
            let result = call(&self.agent, &door);
            if result.as_ref().err().is_some_and(is_refused) && self.access.is_worth_a_wait() {
                std::thread::sleep(RESTART_POLL);
                self.access.read_again(&door);
                continue;
            }
            return self.examine(result, &door);
        }
    }

    /// Sends a request whose body is at hand, again if it was refused for a key that is another one now: the
    /// server may be started anew more than once.
    fn send_with_key(
        &self,
        mut call: impl FnMut(&Agent, &Door) -> Result<Response<Body>, ureq::Error>,
    ) -> Outcome<Response<Body>> {
        let mut sent = self.send(&mut call);
        for _ in 0..NEW_KEYS_MAX {
            match sent {
                Err(attempt) if attempt.has_new_key => sent = self.send(&mut call),
                sent => return sent.map_err(|attempt| attempt.failure),
            }
        }
        sent.map_err(|attempt| attempt.failure)
    }

    /// Sends one `GET`, headers added.
    pub fn send_get(&self, target: &str, headers: &[(&str, String)]) -> Result<Response<Body>, Attempt> {
        self.send(|agent, door| {
            let mut request =
                agent.get(format!("{}{target}", door.base)).header("authorization", &door.authorization);
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            request.call()
        })
    }

    /// Sends one `PUT`. A length of `None` sends chunks.
    pub fn send_put(
        &self,
        target: &str,
        headers: &[(&str, String)],
        length: Option<u64>,
        body: &mut dyn Read,
    ) -> Result<Response<Body>, Attempt> {
        self.send(|agent, door| {
            let mut request =
                agent.put(format!("{}{target}", door.base)).header("authorization", &door.authorization);
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            if let Some(length) = length {
                request = request.header("content-length", length.to_string());
                if length >= EXPECT_FROM {
                    request = request.header("expect", "100-continue");
                }
            }
            request.send(SendBody::from_reader(&mut *body))
        })
    }

    /// Reads JSON; a broken connection is tried again.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> Outcome<T> {
        let response = retry(|_| self.send_get(target, &[]))?;
        self.parse(response)
    }

    /// Sends JSON and gives the status and the answer's bytes.
    pub fn post<B: Serialize>(&self, target: &str, body: &B) -> Outcome<(StatusCode, Vec<u8>)> {
        self.post_with(target, body, &[])
    }

    fn post_with<B: Serialize>(
        &self,
        target: &str,
        body: &B,
        headers: &[(&str, &str)],
    ) -> Outcome<(StatusCode, Vec<u8>)> {
        let json = serde_json::to_vec(body).map_err(|error| Failure::internal(error.to_string()))?;
        let mut response = self.send_with_key(|agent, door| {
            let mut request = agent
                .post(format!("{}{target}", door.base))
                .header("authorization", &door.authorization)
                .header("content-type", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.send(&json[..])
        })?;
        let status = response.status();
        Ok((status, self.read_all(&mut response)?))
    }

    /// Sends JSON for a call over many files, which the server may answer before it is over: asks how far it
    /// is then, and tells `watch`, until it has its answer.
    pub fn post_long<B: Serialize>(
        &self,
        target: &str,
        body: &B,
        watch: &mut dyn FnMut(&WorkReply),
    ) -> Outcome<Vec<u8>> {
        let (status, bytes) = self.post_with(target, body, &[("prefer", RESPOND_ASYNC)])?;
        self.follow(status, bytes, watch)
    }

    /// As [`Client::get`] for a report, which the server may answer before it is made.
    pub fn get_long<T: DeserializeOwned>(
        &self,
        target: &str,
        watch: &mut dyn FnMut(&WorkReply),
    ) -> Outcome<T> {
        let mut response = retry(|_| self.send_get(target, &[("prefer", RESPOND_ASYNC.to_owned())]))?;
        let (status, bytes) = (response.status(), self.read_all(&mut response)?);
        self.decode(&self.follow(status, bytes, watch)?)
    }

    /// The answer; if it is that the call goes on, once that is over.
    fn follow(
        &self,
        status: StatusCode,
        bytes: Vec<u8>,
        watch: &mut dyn FnMut(&WorkReply),
    ) -> Outcome<Vec<u8>> {
        if status != StatusCode::ACCEPTED {
            return Ok(bytes);
        }
        let mut work: WorkReply = self.decode(&bytes)?;
        while work.state == "running" {
            watch(&work);
            std::thread::sleep(WORK_POLL_EVERY);
            let found = self.get(&format!("/api/v1/works/{}", work.id));
            work = found.map_err(|failure| lost_sight(&work, failure))?;
        }
        watch(&work);
        match (work.problem, work.reply) {
            (Some(problem), _) => Err(of_problem(problem)),
            (None, None) => Ok(Vec::new()),
            (None, Some(reply)) => {
                serde_json::to_vec(&reply).map_err(|error| Failure::internal(error.to_string()))
            }
        }
    }

    /// As [`Client::post_long`], of an answer in JSON.
    pub fn post_long_for<B: Serialize, T: DeserializeOwned>(
        &self,
        target: &str,
        body: &B,
        watch: &mut dyn FnMut(&WorkReply),
    ) -> Outcome<T> {
        self.decode(&self.post_long(target, body, watch)?)
    }

    /// Sends JSON and reads JSON.
    pub fn post_for<B: Serialize, T: DeserializeOwned>(&self, target: &str, body: &B) -> Outcome<T> {
        let (_, bytes) = self.post(target, body)?;
        self.decode(&bytes)
    }

    /// Removes a file or an empty directory.
    pub fn delete(&self, path: &str) -> Outcome {
        let target = format!("/data{}", text::encode_path(path));
        let mut response = self.send_with_key(|agent, door| {
            let target = format!("{}{target}", door.base);
            agent.delete(target).header("authorization", &door.authorization).call()
        })?;
        self.read_all(&mut response).map(drop)
    }

    /// What is at `path`.
    pub fn stat(&self, path: &str) -> Outcome<StatReply> {
        self.get(&format!("/api/v1/stat?path={}", text::encode(path)))
    }

    /// What is at `path`, or `None` if there is nothing.
    pub fn find(&self, path: &str) -> Outcome<Option<StatReply>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some(stat)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Gives each entry of a directory, in byte order.
    pub fn list(&self, path: &str, mut give: impl FnMut(ListEntry) -> Outcome) -> Outcome {
        let mut after = String::new();
        loop {
            let (path, page_after) = (text::encode(path), text::encode(&after));
            let mut target = format!("/api/v1/list?path={path}&limit={LIST_PAGE}");
            if !after.is_empty() {
                target.push_str(&format!("&after={page_after}"));
            }
            let page: ListReply = self.get(&target)?;
            let last = page.entries.last().map(|entry| entry.name.clone());
            for entry in page.entries {
                give(entry)?;
            }
            match last {
                // A page that does not advance would be asked for again and again.
                Some(last) if page.more && last > after => after = last,
                _ => return Ok(()),
            }
        }
    }

    fn parse<T: DeserializeOwned>(&self, mut response: Response<Body>) -> Outcome<T> {
        let bytes = self.read_all(&mut response)?;
        self.decode(&bytes)
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Outcome<T> {
        let wrong = |error| {
            let message = format!("{}: the answer is not what Kist answers: {error}", self.url());
            Failure::internal(message)
        };
        serde_json::from_slice(bytes).map_err(wrong)
    }

    fn read_all(&self, response: &mut Response<Body>) -> Outcome<Vec<u8>> {
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        read.map_err(|error| self.transport(error).failure)
    }

    /// Turns a refusal of the server or a broken connection into a failure.
    fn examine(
        &self,
        result: Result<Response<Body>, ureq::Error>,
        door: &Door,
    ) -> Result<Response<Body>, Attempt> {
        let mut response = result.map_err(|error| self.transport(error))?;
        self.access.reached();
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = response.body_mut().with_config().limit(1 << 20).read_to_vec().unwrap_or_default();
        let problem = serde_json::from_slice::<Problem>(&bytes);
        let waits = problem.as_ref().is_ok_and(|problem| waits_for_somebody(&problem.kind));
        let is_for_room = problem.as_ref().is_ok_and(|problem| problem.kind == ROOM_IS_BEING_MADE);
        let failure = match problem {
            Ok(_) if status == StatusCode::UNAUTHORIZED => self.wrong_key(),
            Ok(problem) => of_problem(problem),
            Err(_) => {
                let message = format!("{}: answered {status}", self.url());
                Failure::new(Exit::of_problem("", status.as_u16()), message)
            }
        };
        // A server that was started again has made another key of a local admin.
        let has_new_key = status == StatusCode::UNAUTHORIZED && self.access.read_again(door);
        let again = match status {
            _ if has_new_key => Some(Duration::ZERO),
            StatusCode::SERVICE_UNAVAILABLE if !waits => {
                Some(Duration::from_secs(wait.unwrap_or(1)).min(RETRY_WAIT_MAX))
            }
            _ => None,
        };
        Err(Attempt { failure, again, is_for_room, has_new_key })
    }

    fn wrong_key(&self) -> Failure {
        let from = self.access.origin.key_file.as_ref();
        let from = from.map(|file| format!(" in {}", file.display())).unwrap_or_default();
        let message = format!(
            "{}: the server does not take the key{from}, which is unknown to it, expired or disabled: name \
             the file with its key with --key-file FILE or KIST_KEY_FILE",
            self.url()
        );
        Failure::new(Exit::NotAuthorised, message)
    }

    fn transport(&self, error: ureq::Error) -> Attempt {
        if let Some(failure) = trust::explain(&self.url(), &error) {
            return Attempt::last(failure);
        }
        let refused =
            is_refused(&error) || matches!(&error, ureq::Error::ConnectionFailed | ureq::Error::HostNotFound);
        match error {
            _ if refused => {
                let message = format!("no server answers at {}: start it with: kist serve DIR", self.url());
                Attempt::last(Failure::new(Exit::Unreachable, message))
            }
            ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::BodyStalled
            | ureq::Error::Protocol(_) => {
                let message = format!("{}: the connection broke: {error}", self.url());
                let failure = Failure::new(Exit::Unreachable, message);
                Attempt::after(Duration::from_millis(200), failure)
            }
            _ => Attempt::last(Failure::usage(format!("{}: {error}", self.url()))),
        }
    }
}

/// Nobody listens there: nothing was sent.
fn is_refused(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Drives come back, and a disk has room again, when somebody sees to it, not within seconds.
fn waits_for_somebody(kind: &str) -> bool {
    matches!(kind, "drives-away" | "server-full" | "pool-full")
}

/// A refusal of the server as a failure.
fn of_problem(Problem { kind, status, detail }: Problem) -> Failure {
    let failure = Failure::new(Exit::of_problem(&kind, status), detail);
    Failure { word: Some(kind), ..failure }
}

/// The server does not tell any more how far a call is.
fn lost_sight(work: &WorkReply, failure: Failure) -> Failure {
    let request = work.request.map_or_else(String::new, |request| format!(" (request {request})"));
    let message = format!(
        "the {} of {}{request} was not over when the server was last asked: {failure}; what was done is \
         done, repeat the command",
        work.what, work.about
    );
    Failure { message, ..failure }
}

/// Tries `send` up to [`ATTEMPTS`] times; it is told the number of the attempt, from 0.
pub fn retry<T>(send: impl FnMut(u32) -> Result<T, Attempt>) -> Outcome<T> {
    retry_for_room(|_| false, send)
}

/// The same; tries that find a pool which makes room do not count as long as `waits` says so, which is told
/// of the refusal.
pub fn retry_for_room<T>(
    waits: impl Fn(&Failure) -> bool,
    mut send: impl FnMut(u32) -> Result<T, Attempt>,
) -> Outcome<T> {
    let mut number = 0;
    loop {
        let attempt = match send(number) {
            Ok(value) => return Ok(value),
            Err(attempt) => attempt,
        };
        if attempt.is_for_room {
            if !waits(&attempt.failure) {
                return Err(attempt.failure);
            }
            std::thread::sleep(attempt.again.unwrap_or(RETRY_WAIT_MAX));
            continue;
        }
        number += 1;
        match attempt.again {
            Some(wait) if number < ATTEMPTS => std::thread::sleep(wait * number),
            _ => return Err(attempt.failure),
        }
    }
}

/// Checks a path of the archive before anything is sent.
pub fn archive_path(text: &str) -> Outcome<String> {
    let trimmed = if text.len() > 1 { text.strip_suffix('/').unwrap_or(text) } else { text };
    let path = ArchivePath::new(trimmed).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(path.as_str().to_owned())
}

/// The path of `name` below `directory`.
pub fn join(directory: &str, name: &str) -> String {
    if directory == "/" { format!("/{name}") } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// Answers one request with 201 and gives what it received up to the end of the body.
    fn one_answer(length: usize) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            let mut byte = [0u8; 1];
            while !received.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                received.push(byte[0]);
            }
            let mut body = vec![0u8; length];
            stream.read_exact(&mut body).unwrap();
            received.extend(body);
            stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(received).unwrap()
        });
        (url, thread)
    }

    /// Story: a put into a full pool was tried again for half a minute, and only then refused.
    #[test]
    fn what_waits_for_somebody_is_not_tried_again() {
        let again = |kind: &str| {
            let problem = format!(r#"{{"type":"{kind}","status":503,"detail":"d"}}"#);
            let body = ureq::Body::builder().mime_type("application/problem+json").data(problem);
            let response = Response::builder().status(503).header("retry-after", "1").body(body).unwrap();
            let client = Client::new("http://127.0.0.1:1", "kist_x", &Trust::default()).unwrap();
            client.examine(Ok(response), &client.access.door()).unwrap_err().again
        };
        for kind in ["pool-full", "server-full", "drives-away"] {
            assert_eq!(again(kind), None, "{kind}");
        }
        assert_eq!(again("unavailable"), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_known_length_is_announced_once() {
        let (url, server) = one_answer(5);
        let client = Client::new(&url, "kist_x", &Trust::default()).unwrap();
        let headers = [("kist-mode", "0644".to_owned())];
        let answer = client.send_put("/data/a%00b", &headers, Some(5), &mut &b"hello"[..]);
        assert!(answer.is_ok_and(|response| response.status() == 201));
        let received = server.join().unwrap().to_lowercase();
        assert!(received.starts_with("put /data/a%00b http/1.1\r\n"), "{received}");
        assert_eq!(received.matches("content-length: 5").count(), 1, "{received}");
        assert!(!received.contains("transfer-encoding"), "{received}");
        assert!(received.contains("authorization: bearer kist_x"));
        assert!(received.ends_with("hello"));
    }

    #[test]
    fn nobody_there_is_unreachable_and_not_tried_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::new(&url, "kist_x", &Trust::default()).unwrap();
        let failure = client.stat("/").err().unwrap();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.message.contains("kist serve"), "{failure}");
    }

    /// Answers a request with 200 if it comes with this key, else with 401; so many requests.
    fn opened_by(key: &'static str, listener: TcpListener, count: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            for _ in 0..count {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut received, mut byte) = (Vec::new(), [0u8; 1]);
                while !received.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte).unwrap();
                    received.push(byte[0]);
                }
                let head = String::from_utf8(received).unwrap().to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                let mut body = vec![0u8; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut body).unwrap();
                let is_known = head.contains(&format!("authorization: bearer {key}\r\n"));
                let (status, body) = if is_known {
                    ("200 OK", "{}")
                } else {
                    ("401 Unauthorized", r#"{"type":"unauthenticated","status":401,"detail":"d"}"#)
                };
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
                let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).unwrap();
            }
        })
    }

    /// Story: a put of many files died when the server was killed and started again, which makes another key
    /// of a local admin, and refuses connections for a moment.
    #[test]
    fn a_server_that_was_started_again_is_found_with_its_new_key() {
        let directory = tempfile::tempdir().unwrap();
        let key_file = directory.path().join("admin-key");
        std::fs::write(&key_file, "kist_one\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let first = opened_by("kist_one", listener, 1);
        let client = Client::new(&format!("http://{address}"), "kist_one", &Trust::default()).unwrap();
        let client = client.read_from(Origin { key_file: Some(key_file.clone()), server_file: None });
        let _: serde_json::Value = client.get("/").unwrap();
        first.join().unwrap();

        // It comes again while a request waits, with another key; each kind of request needs it.
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            opened_by("kist_two", TcpListener::bind(address).unwrap(), 2).join().unwrap();
        });
        std::fs::write(&key_file, "kist_two\n").unwrap();
        let put = retry(|_| client.send_put("/data/f", &[], Some(5), &mut &b"hello"[..]));
        assert!(put.is_ok_and(|response| response.status() == 200));
        let _: serde_json::Value = client.get("/").unwrap();
        later.join().unwrap();

        std::fs::write(&key_file, "kist_three\n").unwrap();
        let third = opened_by("kist_three", TcpListener::bind(address).unwrap(), 2);
        assert_eq!(client.post("/", &serde_json::json!({})).unwrap().0, 200);
        third.join().unwrap();

        // A key that is refused and did not change is refused once.
        let fourth = opened_by("kist_four", TcpListener::bind(address).unwrap(), 1);
        assert_eq!(client.stat("/").err().unwrap().exit, Exit::NotAuthorised);
        fourth.join().unwrap();
    }

    #[test]
    fn retries_end() {
        let mut tries = 0;
        let outcome: Outcome = retry(|_| {
            tries += 1;
            Err(Attempt::after(Duration::ZERO, Failure::internal("no")))
        });
        assert!(outcome.is_err());
        assert_eq!(tries, ATTEMPTS);
    }

    /// Story: a put gave up after ten seconds where room came in fifteen.
    #[test]
    fn a_pool_that_makes_room_is_waited_for_as_long_as_the_caller_says() {
        let refused = || Attempt {
            is_for_room: true,
            ..Attempt::after(Duration::ZERO, Failure::new(Exit::Refused, "room is being made"))
        };
        let (mut tries, most) = (0, 5 * ATTEMPTS);
        let outcome = retry_for_room(
            |_| true,
            |number| {
                tries += 1;
                assert_eq!(number, 0, "none of them counts");
                if tries < most { Err(refused()) } else { Ok(tries) }
            },
        );
        assert_eq!(outcome.ok(), Some(most));
        let waited = std::cell::Cell::new(0);
        let waits = |failure: &Failure| {
            assert_eq!(failure.message, "room is being made");
            waited.set(waited.get() + 1);
            waited.get() < 3
        };
        let outcome: Outcome = retry_for_room(waits, |_| Err(refused()));
        assert_eq!((outcome.err().map(|failure| failure.exit), waited.get()), (Some(Exit::Refused), 3));
    }

    #[test]
    fn paths_are_checked_before_sending() {
        assert_eq!(archive_path("/a/b/").unwrap(), "/a/b");
        assert_eq!(archive_path("/").unwrap(), "/");
        assert_eq!(archive_path("/a/../b").unwrap_err().exit, Exit::Usage);
        assert_eq!(archive_path("a").unwrap_err().exit, Exit::Usage);
        assert_eq!(join("/", "a"), "/a");
    }
}
