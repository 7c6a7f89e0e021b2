//! For the fuzz targets: parsers of what comes in over HTTP.

use axum::http::header::HeaderName;
use axum::http::{HeaderMap, HeaderValue};

use crate::parameters::Parameters;
use entrance::headers;
use entrance::percent::{archive_path, decode, encode};

/// Header values: the first eight bytes are the size of a file, the rest is the value.
///
/// # Panics
/// If a range is not within the file, or a time does not come back.
pub fn headers(data: &[u8]) {
    let Some((size, value)) = data.split_first_chunk::<8>() else { return };
    let size = u64::from_le_bytes(*size);
    if let headers::Range::Part { offset, length } = headers::range(value, size) {
        assert!(length > 0 && offset.checked_add(length).is_some_and(|end| end <= size));
    }
    let _ = headers::names_tag(value, "\"0123\"", true);
    if let Ok(text) = std::str::from_utf8(value) {
        if let Some(at) = headers::time(text) {
            let _ = headers::http_date(at);
            let written = headers::precise(at);
            assert_eq!(headers::time(&written), Some(at), "{text} {written}");
        }
        if let Some(mode) = headers::mode(text) {
            assert!(mode <= 0o7777);
        }
    }
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let mut map = HeaderMap::new();
    for name in ["digest", "kist-owner", "kist-parents"] {
        map.insert(HeaderName::from_static(name), value.clone());
    }
    let _ = headers::digest(&map);
    let _ = headers::flag(&map, "kist-parents");
    if let Ok(Some(owner)) = headers::text(&map, "kist-owner", 64) {
        assert!(owner.len() <= 64);
    }
}

/// A path and a query.
///
/// # Panics
/// If a path escapes, or a text does not come back.
pub fn address(data: &[u8]) {
    let _ = decode(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(path) = archive_path(text) {
        let good = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
        assert!(path.components().all(good), "{path:?}");
    }
    assert_eq!(decode(encode(text).as_bytes()).as_deref(), Some(data));
    if let Ok(parameters) = Parameters::read(Some(text), &["path", "after", "limit"]) {
        let _ = parameters.path("path");
        let _ = parameters.text("after");
        let _ = parameters.number::<u64>("limit");
    }
}
