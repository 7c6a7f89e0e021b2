//! One line in the server's log for every request that may change something, and for every one that was
//! refused at the door. A file that was put or removed without trouble has none, unless the level is `debug`:
//! that it was stands in the audit log.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use authority::Allowance;
use axum::http::{Method, StatusCode};
use identity::Caller;
use tracing::Level;
use transfer::{Holder, Pace};

use crate::engine::Engine;

/// The target of the lines, to send them to a log of their own.
const TARGET: &str = "audit";
/// Below this each request is about one file.
const FILES: &str = "/data/";

/// One request of a principal; it counts against the principal's allowance as long as anything of it is
/// alive.
pub(crate) struct Call {
    /// Who.
    pub principal: Arc<Caller>,
    /// The engine as they may use it.
    pub engine: Arc<dyn Engine>,
    /// Their address.
    pub peer: Option<SocketAddr>,
    /// How fast the client has to be.
    pub pace: Pace,
    /// Bytes of the body so far.
    received: AtomicU64,
    /// What a `POST` was about.
    subject: Mutex<String>,
    _allowance: Allowance,
}

impl Call {
    pub(crate) fn new(
        principal: Arc<Caller>,
        engine: Arc<dyn Engine>,
        peer: Option<SocketAddr>,
        allowance: Allowance,
        pace: Pace,
    ) -> Self {
        let (received, subject) = (AtomicU64::new(0), Mutex::default());
        Call { principal, engine, peer, pace, received, subject, _allowance: allowance }
    }

    /// Who gets places for it.
    pub(crate) fn holder(&self) -> Holder {
        Holder { caller: self.principal.name.clone(), connection: self.peer, pace: self.pace.clone() }
    }

    /// Counts bytes of the body.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What the request is about, as far as it was named.
    pub(crate) fn subject(&self) -> String {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names what the request is about, where its address does not.
    pub(crate) fn about(&self, subject: String) {
        *self.subject.lock().unwrap_or_else(PoisonError::into_inner) = subject;
    }
}

/// Writes the line at the latest when it is dropped: a client that goes away is not forgotten.
pub(crate) struct AuditLine {
    call: Arc<Call>,
    method: Method,
    path: String,
    peer: Option<SocketAddr>,
    begun: Instant,
    status: Option<StatusCode>,
}

impl AuditLine {
    pub(crate) fn begin(call: Arc<Call>, method: Method, path: String, peer: Option<SocketAddr>) -> Self {
        AuditLine { call, method, path, peer, begun: Instant::now(), status: None }
    }

    /// The request was answered.
    pub(crate) fn end(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if matches!(self.method, Method::GET | Method::HEAD) {
            return;
        }
        if is_routine(&self.path, self.status) && !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return;
        }
        let subject = self.call.subject();
        tracing::info!(
            target: TARGET,
            principal = %self.call.principal.label(),
            peer = self.peer.map(tracing::field::display),
            method = %self.method,
            path = %self.path,
            subject = ?subject,
            // 0: the client went away before the answer.
            status = self.status.map_or(0, |status| status.as_u16()),
            bytes = self.call.received.load(Ordering::Relaxed),
            milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

/// Whether it is one of very many, and went well.
fn is_routine(path: &str, status: Option<StatusCode>) -> bool {
    path.starts_with(FILES) && status.is_some_and(|status| status.is_success())
}

/// A request without a valid key, or above an allowance.
pub(crate) fn denied(method: &Method, path: &str, peer: Option<SocketAddr>, status: StatusCode) {
    tracing::warn!(
        target: TARGET,
        peer = peer.map(tracing::field::display),
        method = %method,
        path,
        status = status.as_u16(),
        "denied"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a million puts made 185 MB of the server's log.
    #[test]
    fn files_that_come_and_go_make_no_lines() {
        for (path, status, routine) in [
            ("/data/a/b", Some(StatusCode::CREATED), true),
            ("/data/a/b", Some(StatusCode::NO_CONTENT), true),
            ("/data/a/b", Some(StatusCode::SERVICE_UNAVAILABLE), false),
            ("/data/a/b", Some(StatusCode::FORBIDDEN), false),
            ("/data/a/b", None, false),
            ("/api/v1/evict", Some(StatusCode::OK), false),
        ] {
            assert_eq!(is_routine(path, status), routine, "{path} {status:?}");
        }
    }
}
