//! How the door is set up, and its limits.

use base::ByteCount;

/// How the door is set up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WebDavSettings {
    /// Its limits.
    pub limits: WebDavLimits,
}

/// Bounds on what clients can ask for. What is beyond is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebDavLimits {
    /// Calls of the engine at once that end soon.
    pub calls: usize,
    /// Calls at once that may take long: listings of trees, copies of trees, checksums that are computed.
    pub long_calls: usize,
    /// The longest address, with its query.
    pub uri_bytes: usize,
    /// The longest body of XML. Properties of a file or directory have 64 KiB in all.
    pub xml_bytes: ByteCount,
    /// Properties that one request names.
    pub properties: usize,
    /// Files and directories of one answer to `PROPFIND`, whatever depth it asks for.
    pub entries: usize,
    /// Files and directories of one `COPY`.
    pub copies: usize,
    /// Third-party copies at once that come by several connections, each with a window of memory; others come
    /// by one, whatever their clients wish.
    pub copies_by_several: usize,
    /// Names on one page for browsers.
    pub page_names: usize,
    /// Ranges of one request.
    pub ranges: usize,
    /// The largest file of which an MD5 is computed when a client asks for one, unless it is known.
    pub computed_bytes: ByteCount,
}

impl Default for WebDavLimits {
    fn default() -> Self {
        WebDavLimits {
            calls: 64,
            long_calls: 16,
            uri_bytes: 16 << 10,
            xml_bytes: ByteCount::kib(256),
            properties: 256,
            entries: 1_000_000,
            copies: 10_000,
            copies_by_several: 8,
            page_names: 1_000,
            ranges: 1_024,
            computed_bytes: ByteCount::gib(64),
        }
    }
}

impl WebDavLimits {
    /// Threads for blocking calls, beside those of transfers.
    pub(crate) fn blocking_threads(&self) -> usize {
        self.calls + self.long_calls
    }
}
