//! What comes in over HTTP.

/// Ranges, digests, entity tags, times, texts.
pub(crate) fn headers(data: &[u8]) {
    door::fuzz::headers(data);
}

/// Paths and queries.
pub(crate) fn address(data: &[u8]) {
    door::fuzz::address(data);
}

/// What other servers say of a copy, and clients of them.
pub(crate) fn tpc_text(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        tpc::fuzz::text(text);
    }
}
