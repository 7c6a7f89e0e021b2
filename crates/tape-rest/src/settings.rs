//! How the door is set.

use std::collections::BTreeMap;

use base::Duration;
use catalogue::REQUEST_PATHS_MAX;

/// Everything an operator can set about the Tape REST API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeRestSettings {
    /// The name of the site, by which clients address metadata to it.
    pub sitename: String,
    /// What the discovery says of it; `None`: nothing.
    pub description: Option<String>,
    /// What stands before the path in addresses that clients are told, such as
    /// `https://tape.example.org:8443`; `None`: the scheme of the connection and the host as the
    /// client wrote it.
    pub public_url: Option<String>,
    /// For how long files are pinned once online, if the client says nothing (gfal2 never does).
    pub lifetime: Duration,
    /// The longest time for which files are pinned; a longer one that is asked for is made so long.
    pub lifetime_max: Duration,
    /// The priority of each activity of the clients, from 0 to 9; others have the usual one.
    pub activities: BTreeMap<String, u8>,
    /// All limits.
    pub limits: TapeRestLimits,
}

impl Default for TapeRestSettings {
    fn default() -> Self {
        TapeRestSettings {
            sitename: "kist".to_owned(),
            description: None,
            public_url: None,
            lifetime: Duration::from_secs(24 * 3600),
            lifetime_max: Duration::from_secs(30 * 24 * 3600),
            activities: BTreeMap::new(),
            limits: TapeRestLimits::default(),
        }
    }
}

/// Every bound that the door sets to its clients and to itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeRestLimits {
    /// Calls of the engine at once; each has a thread that may block.
    pub calls: usize,
    /// A body of JSON; a longer one is answered 413. A list of as many paths as a request takes fits, each as
    /// long as a path may be.
    pub body_bytes: usize,
    /// Bodies up to this size are read whatever goes on.
    pub body_small_bytes: usize,
    /// Longer ones, or of unknown length, at once: bounds the memory for them.
    pub bodies_large_at_once: usize,
    /// Replies up to this size are sent whatever goes on.
    pub reply_small_bytes: usize,
    /// Longer ones at once: bounds the memory for replies that clients take slowly.
    pub replies_large_at_once: usize,
    /// A whole body has to be there after this long, else 408.
    pub body_deadline: Duration,
    /// How deep values of a body may stand in each other; 400 for more.
    pub nesting: usize,
    /// Path and query of a request; longer is answered 414.
    pub uri_bytes: usize,
}

impl TapeRestLimits {
    /// Threads for calls that may block.
    pub(crate) fn blocking_threads(&self) -> usize {
        self.calls
    }
}

impl Default for TapeRestLimits {
    fn default() -> Self {
        let list = REQUEST_PATHS_MAX as usize * (base::PATH_BYTES_MAX + 2_048);
        TapeRestLimits {
            calls: 16,
            body_bytes: list,
            body_small_bytes: 64 << 10,
            bodies_large_at_once: 4,
            reply_small_bytes: 1 << 20,
            replies_large_at_once: 4,
            body_deadline: Duration::from_secs(60),
            nesting: 32,
            uri_bytes: 16 << 10,
        }
    }
}
