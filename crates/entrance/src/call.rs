//! One line in the server's log for every request that may change something, and for every one that was
//! refused at the door. A file that was put or removed without trouble has none, unless the level is `debug`:
//! that it was stands in the audit log.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use authority::Allowance;
use http::{Method, StatusCode};
use identity::Caller;
use tracing::Level;
use transfer::{Holder, Pace};

/// The target of the lines, to send them to a log of their own.
const TARGET: &str = "audit";

/// One request of a principal; it counts against the principal's allowance as long as anything of it is
/// alive.
pub struct Call {
    /// Who.
    pub principal: Arc<Caller>,
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
        peer: Option<SocketAddr>,
        allowance: Allowance,
        pace: Pace,
    ) -> Self {
        let (received, subject) = (AtomicU64::new(0), Mutex::default());
        Call { principal, peer, pace, received, subject, _allowance: allowance }
    }

    /// Who gets places for it.
    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder { caller: self.principal.name.clone(), connection: self.peer, pace: self.pace.clone() }
    }

    /// Counts bytes of the body.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What the request is about, as far as it was named.
    #[must_use]
    pub fn subject(&self) -> String {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names what the request is about, where its address does not.
    pub fn about(&self, subject: String) {
        *self.subject.lock().unwrap_or_else(PoisonError::into_inner) = subject;
    }
}

/// Writes the line at the latest when it is dropped: a client that goes away is not forgotten.
pub struct AuditLine {
    call: Arc<Call>,
    method: Method,
    path: String,
    is_of_one_file: bool,
    begun: Instant,
    status: Option<StatusCode>,
}

impl AuditLine {
    /// A request begins. `is_of_one_file`: it is one of very many, and needs no line if it goes well.
    #[must_use]
    pub fn begin(call: Arc<Call>, method: Method, path: String, is_of_one_file: bool) -> Self {
        AuditLine { call, method, path, is_of_one_file, begun: Instant::now(), status: None }
    }

    /// The request was answered.
    pub fn end(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if matches!(self.method, Method::GET | Method::HEAD) {
            return;
        }
        if self.is_of_one_file && went_well(self.status) && !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return;
        }
        let subject = self.call.subject();
        tracing::info!(
            target: TARGET,
            principal = %self.call.principal.label(),
            peer = self.call.peer.map(tracing::field::display),
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

fn went_well(status: Option<StatusCode>) -> bool {
    status.is_some_and(|status| status.is_success())
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
        for (status, well) in [
            (Some(StatusCode::CREATED), true),
            (Some(StatusCode::NO_CONTENT), true),
            (Some(StatusCode::SERVICE_UNAVAILABLE), false),
            (Some(StatusCode::FORBIDDEN), false),
            (None, false),
        ] {
            assert_eq!(went_well(status), well, "{status:?}");
        }
    }
}
