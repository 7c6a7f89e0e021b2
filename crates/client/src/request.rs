//! The client's side of the HTTP interface, over kept-alive connections, blocking.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use base::ArchivePath;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terminal::{Exit, Failure, Outcome, text};
use ureq::http::{Response, StatusCode};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, SendBody};
use wire::{ListEntry, ListReply, Problem, StatReply, WorkReply};

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
/// The longest wait between two attempts, whatever the server suggests.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// A server and a key; shared by the threads of a command.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    authorization: String,
    key_file: Option<PathBuf>,
}

/// A request that failed, and whether it may help to send it again.
pub struct Attempt {
    /// Why.
    pub failure: Failure,
    /// `Some` if a repetition may help, after at least this time.
    pub again: Option<Duration>,
}

impl Attempt {
    /// A failure that will stay.
    pub fn last(failure: Failure) -> Self {
        Attempt { failure, again: None }
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
        let authorization = format!("Bearer {key}");
        Ok(Client { agent: config.into(), base: base.to_owned(), authorization, key_file: None })
    }

    /// The same with the file that the key is from, for the message that the key is wrong.
    #[must_use]
    pub fn with_key_file(self, file: PathBuf) -> Self {
        Client { key_file: Some(file), ..self }
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> &str {
        &self.authorization
    }

    /// Sends one `GET`, headers added.
    pub fn send_get(&self, target: &str, headers: &[(&str, String)]) -> Result<Response<Body>, Attempt> {
        let mut request =
            self.agent.get(format!("{}{target}", self.base)).header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.examine(request.call())
    }

    /// Sends one `PUT`. A length of `None` sends chunks.
    pub fn send_put(
        &self,
        target: &str,
        headers: &[(&str, String)],
        length: Option<u64>,
        body: &mut dyn Read,
    ) -> Result<Response<Body>, Attempt> {
        let mut request =
            self.agent.put(format!("{}{target}", self.base)).header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(length) = length {
            request = request.header("content-length", length.to_string());
            if length >= EXPECT_FROM {
                request = request.header("expect", "100-continue");
            }
        }
        self.examine(request.send(SendBody::from_reader(body)))
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
        let send = || {
            let mut request = self
                .agent
                .post(format!("{}{target}", self.base))
                .header("authorization", &self.authorization)
                .header("content-type", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            self.examine(request.send(&json[..]))
        };
        let mut response = send().map_err(|attempt| attempt.failure)?;
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
        let target = format!("{}/data{}", self.base, text::encode_path(path));
        let request = self.agent.delete(target).header("authorization", &self.authorization);
        let mut response = self.examine(request.call()).map_err(|attempt| attempt.failure)?;
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
            let message = format!("{}: the answer is not what Kist answers: {error}", self.base);
            Failure::internal(message)
        };
        serde_json::from_slice(bytes).map_err(wrong)
    }

    fn read_all(&self, response: &mut Response<Body>) -> Outcome<Vec<u8>> {
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        read.map_err(|error| self.transport(error).failure)
    }

    /// Turns a refusal of the server or a broken connection into a failure.
    fn examine(&self, result: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Attempt> {
        let mut response = result.map_err(|error| self.transport(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = response.body_mut().with_config().limit(1 << 20).read_to_vec().unwrap_or_default();
        let problem = serde_json::from_slice::<Problem>(&bytes);
        let waits = problem.as_ref().is_ok_and(|problem| waits_for_somebody(&problem.kind));
        let failure = match problem {
            Ok(_) if status == StatusCode::UNAUTHORIZED => self.wrong_key(),
            Ok(problem) => of_problem(problem),
            Err(_) => {
                let message = format!("{}: answered {status}", self.base);
                Failure::new(Exit::of_problem("", status.as_u16()), message)
            }
        };
        let again = (status == StatusCode::SERVICE_UNAVAILABLE && !waits)
            .then(|| Duration::from_secs(wait.unwrap_or(1)).min(RETRY_WAIT_MAX));
        Err(Attempt { failure, again })
    }

    fn wrong_key(&self) -> Failure {
        let from = self.key_file.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default();
        let message = format!(
            "{}: the server does not take the key{from}, which is unknown to it, expired or disabled: name \
             the file with its key with --key-file FILE or KIST_KEY_FILE",
            self.base
        );
        Failure::new(Exit::NotAuthorised, message)
    }

    fn transport(&self, error: ureq::Error) -> Attempt {
        if let Some(failure) = trust::explain(&self.base, &error) {
            return Attempt::last(failure);
        }
        let refused = matches!(&error, ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused)
            || matches!(&error, ureq::Error::ConnectionFailed | ureq::Error::HostNotFound);
        match error {
            _ if refused => {
                let message = format!("no server answers at {}: start it with: kist serve DIR", self.base);
                Attempt::last(Failure::new(Exit::Unreachable, message))
            }
            ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::BodyStalled
            | ureq::Error::Protocol(_) => {
                let message = format!("{}: the connection broke: {error}", self.base);
                let failure = Failure::new(Exit::Unreachable, message);
                Attempt { failure, again: Some(Duration::from_millis(200)) }
            }
            _ => Attempt::last(Failure::usage(format!("{}: {error}", self.base))),
        }
    }
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
pub fn retry<T>(mut send: impl FnMut(u32) -> Result<T, Attempt>) -> Outcome<T> {
    let mut number = 0;
    loop {
        let attempt = match send(number) {
            Ok(value) => return Ok(value),
            Err(attempt) => attempt,
        };
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
            client.examine(Ok(response)).unwrap_err().again
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

    #[test]
    fn retries_end() {
        let mut tries = 0;
        let outcome: Outcome = retry(|_| {
            tries += 1;
            Err(Attempt { failure: Failure::internal("no"), again: Some(Duration::ZERO) })
        });
        assert!(outcome.is_err());
        assert_eq!(tries, ATTEMPTS);
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
