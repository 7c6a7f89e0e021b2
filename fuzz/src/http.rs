//! What comes in over HTTP.

/// Ranges, digests, entity tags, times, texts.
pub(crate) fn headers(data: &[u8]) {
    door::fuzz::headers(data);
}

/// Paths and queries.
pub(crate) fn address(data: &[u8]) {
    door::fuzz::address(data);
}
