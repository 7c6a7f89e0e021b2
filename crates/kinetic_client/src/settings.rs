//! How a drive is reached.

use std::time::Duration;

use kinetic::client::ClientSettings;

use crate::trust::Trust;

/// How long a connection may take to be made, TLS included.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a request may take in all, over however many connections.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long requests wait for a drive that cannot be reached. Those that come later fail at once.
pub const DOWN_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after the first failure to connect at all addresses.
pub const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// How long to wait at most.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// The most requests that wait for a place at the connection.
pub const BACKLOG_MAX: usize = 4096;
/// The most bytes of frames that are written with one call.
pub const SUBMITTED_BYTES_MAX: usize = 1 << 20;

/// How a drive is reached.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// `host:port`, the preferred one first.
    pub addresses: Vec<String>,
    /// Whom to trust; `None`: without TLS.
    pub trust: Option<Trust>,
    /// Who asks, and for how long an answer may take.
    pub client: ClientSettings,
    /// See [`CONNECT_WITHIN`].
    pub connect_within: Duration,
    /// See [`PATIENCE`].
    pub patience: Duration,
    /// See [`DOWN_PATIENCE`].
    pub down_patience: Duration,
    /// See [`BACK_OFF_MIN`].
    pub back_off_min: Duration,
    /// See [`BACK_OFF_MAX`].
    pub back_off_max: Duration,
}

impl LinkSettings {
    /// The usual ones. A connection of which one answer is overdue is given up: another one is asked.
    #[must_use]
    pub fn new(addresses: Vec<String>, client: ClientSettings) -> Self {
        LinkSettings {
            addresses,
            trust: None,
            client: ClientSettings { overdue_max: 1, ..client },
            connect_within: CONNECT_WITHIN,
            patience: PATIENCE,
            down_patience: DOWN_PATIENCE,
            back_off_min: BACK_OFF_MIN,
            back_off_max: BACK_OFF_MAX,
        }
    }
}
