//! A client of the server, which says whether a request was refused or its fate is unknown.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body, SendBody};

use crate::content::Version;

/// Nothing takes as long as this: a request without an end by then counts as hung.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(240);
/// The longest JSON that is read.
const JSON_BYTES_MAX: u64 = 64 << 20;

/// What became of a request.
#[derive(Debug)]
pub enum Fate<T> {
    /// Done.
    Done(T),
    /// Refused with this status and word; nothing was done.
    Refused(u16, String),
    /// Not known: the connection broke, or the server says that it does not know.
    Unknown(String),
    /// The time was up.
    Hung(String),
}

impl<T> Fate<T> {
    /// With another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fate<U> {
        match self {
            Fate::Done(value) => Fate::Done(f(value)),
            Fate::Refused(status, why) => Fate::Refused(status, why),
            Fate::Unknown(why) => Fate::Unknown(why),
            Fate::Hung(why) => Fate::Hung(why),
        }
    }

    /// The value, if it was done.
    pub fn done(self) -> Option<T> {
        if let Fate::Done(value) = self { Some(value) } else { None }
    }
}

/// A client with its own connection.
pub struct Http {
    agent: Agent,
    url: String,
    authorization: String,
}

impl Http {
    /// A client of the server at `url`.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(2)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .build();
        Http { agent: config.into(), url: url.to_owned(), authorization: format!("Bearer {key}") }
    }

    /// Stores a version; gives the answer.
    pub fn put(&self, path: &str, version: Version, key: &str) -> Fate<Value> {
        let request = self
            .agent
            .put(format!("{}/data{path}", self.url))
            .header("authorization", &self.authorization)
            .header("idempotency-key", key)
            .header("content-length", version.length.to_string());
        json(examine(request.send(SendBody::from_reader(&mut version.reader()))))
    }

    /// Reads a file; the body is given to `read`.
    pub fn get<T>(&self, path: &str, read: impl FnOnce(&mut dyn Read) -> std::io::Result<T>) -> Fate<T> {
        let request =
            self.agent.get(format!("{}/data{path}", self.url)).header("authorization", &self.authorization);
        match examine(request.call()) {
            Fate::Done(mut response) => match read(&mut response.body_mut().as_reader()) {
                Ok(value) => Fate::Done(value),
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Fate::Hung(error.to_string()),
                Err(error) => Fate::Unknown(error.to_string()),
            },
            other => other.map(|_| unreachable!("done is above")),
        }
    }

    /// Removes a file.
    pub fn delete(&self, path: &str) -> Fate<()> {
        let request = self
            .agent
            .delete(format!("{}/data{path}", self.url))
            .header("authorization", &self.authorization);
        examine(request.call()).map(drop)
    }

    /// Reads JSON from the interface; `target` begins behind `/api/v1/`.
    pub fn ask(&self, target: &str) -> Fate<Value> {
        let url = format!("{}/api/v1/{target}", self.url);
        json(examine(self.agent.get(url).header("authorization", &self.authorization).call()))
    }

    /// Sends JSON to the interface and reads what it answers, `null` if nothing.
    pub fn tell(&self, target: &str, body: &Value) -> Fate<Value> {
        let request = self
            .agent
            .post(format!("{}/api/v1/{target}", self.url))
            .header("authorization", &self.authorization)
            .header("content-type", "application/json");
        json(examine(request.send(body.to_string().as_bytes())))
    }
}

fn json(fate: Fate<Response<Body>>) -> Fate<Value> {
    match fate {
        Fate::Done(mut response) => {
            match response.body_mut().with_config().limit(JSON_BYTES_MAX).read_to_vec() {
                Ok(bytes) if bytes.is_empty() => Fate::Done(Value::Null),
                Ok(bytes) => match serde_json::from_slice(&bytes) {
                    Ok(value) => Fate::Done(value),
                    Err(error) => Fate::Unknown(format!("the answer is no JSON: {error}")),
                },
                Err(error) => broken(error),
            }
        }
        other => other.map(|_| Value::Null),
    }
}

fn examine(result: Result<Response<Body>, ureq::Error>) -> Fate<Response<Body>> {
    let mut response = match result {
        Ok(response) => response,
        Err(error) => return broken(error),
    };
    let status = response.status().as_u16();
    if response.status().is_success() {
        return Fate::Done(response);
    }
    let text = response.body_mut().with_config().limit(1 << 20).read_to_string().unwrap_or_default();
    // Too many requests are refused before anything happens; another 5xx may have happened half way.
    if status < 500 { Fate::Refused(status, text) } else { Fate::Unknown(format!("{status} {text}")) }
}

fn broken<T>(error: ureq::Error) -> Fate<T> {
    match error {
        ureq::Error::Timeout(_) => Fate::Hung(error.to_string()),
        error => Fate::Unknown(error.to_string()),
    }
}
