//! Kist itself as one of the servers that are measured.

use std::fs;
use std::path::Path;

use client::{Client, SERVER_FILE, Server};
use config::CONFIG_FILE;
use terminal::{Failure, Outcome};

use super::sign::Signer;
use super::target::{DATA, DRIVES, PARITY};
use crate::subject::{Coded, Subject};

/// What is said of it on the page.
pub const NOTE: &str = "Kist's catalogue is made durable before each answer, as always.";
/// Its directory within that of the measurement.
pub const INSTANCE: &str = "instance";
/// The line of the configuration behind which the address of S3 is set.
const LISTEN: &str = "[server]\n";

/// A running server of an instance made for a measurement.
pub struct Ours {
    server: Server,
    host: String,
    webdav: String,
    access: String,
    secret: String,
}

impl Ours {
    /// Makes an instance and starts its server.
    pub fn start(directory: &Path, subject: &dyn Subject) -> Outcome<Self> {
        Self::start_with(directory, subject, "", "")
    }

    /// The same with further lines of `[server]` and further tables in its configuration.
    pub fn start_with(
        directory: &Path,
        subject: &dyn Subject,
        server_lines: &str,
        tables: &str,
    ) -> Outcome<Self> {
        let directory = directory.join(INSTANCE);
        subject.make(&directory, Some(Coded { drives: DRIVES, data: DATA, parity: PARITY }))?;
        let config = directory.join(CONFIG_FILE);
        let set = fs::read_to_string(&config)
            .and_then(|text| fs::write(&config, text.replacen(LISTEN, &with_s3(server_lines), 1) + tables));
        set.map_err(|error| Failure::io("setting S3", &config, &error))?;
        let server = Server::start(&directory)?;
        let made: serde_json::Value = server
            .client
            .post_for("/api/v1/keys", &serde_json::json!({"name": "bench", "admin": true, "s3": true}))?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let state = directory.join(SERVER_FILE);
        let state = fs::read(&state).map_err(|error| Failure::io("reading the address", &state, &error))?;
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap_or_default();
        let host = text(&state["s3"]).trim_start_matches("http://").to_owned();
        let webdav = text(&state["webdav"]).trim_start_matches("http://").to_owned();
        Ok(Ours { server, host, webdav, access: text(&made["id"]), secret: text(&made["secret"]) })
    }

    /// Where its S3 listens.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where its WebDAV listens; empty if it does not.
    pub fn webdav(&self) -> &str {
        &self.webdav
    }

    /// A client of its admin.
    pub fn client(&self) -> &Client {
        &self.server.client
    }

    /// Who signs requests to it.
    pub fn signer(&self) -> Signer {
        Signer::new(&self.host, &self.access, &self.secret)
    }

    /// A failure, with the end of its log.
    pub fn with_log(&self, failure: Failure) -> Failure {
        self.server.with_log(failure)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

fn with_s3(more: &str) -> String {
    format!("{LISTEN}s3_listen = \"127.0.0.1:0\"\n{more}")
}
