//! What the fuzz targets call.

use bytes::Bytes;
use http::HeaderMap;

use crate::address::Target;
use crate::conditions::{About, parse as parse_if};
use crate::{digests, locking, propfind, proppatch, ranges, xml};

/// A body of XML, as each method reads it.
pub fn xml(data: &[u8]) {
    if let Ok(element) = xml::parse(data) {
        // What is kept of it means the same when it is read again.
        let again = xml::parse(format!("<r>{}</r>", element.inner()).as_bytes());
        if let Ok(again) = again {
            assert_eq!(again.inner(), element.inner());
        }
    }
    let body = Bytes::copy_from_slice(data);
    let _ = propfind::wanted(&body, 256);
    let _ = proppatch::changes(&body, 256);
    let _ = locking::lock_info(&body);
}

/// Values of headers, and addresses.
pub fn headers(data: &[u8]) {
    if let Ok(Some(parts)) = ranges::several(data, 1 << 20, 64) {
        assert!(parts.iter().all(|(offset, length)| *length > 0 && offset + length <= 1 << 20));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = parse_if(text, |address| Target::parse(address).map(About::Here));
    if let Ok(target) = Target::parse(text) {
        let path = target.path.as_str();
        assert!(path.starts_with('/') && !path.split('/').any(|part| part == ".."));
    }
    let mut map = HeaderMap::new();
    for name in ["digest", "repr-digest", "content-md5", "want-digest", "want-repr-digest", "timeout"] {
        if let Ok(value) = text.parse() {
            map.insert(name, value);
        }
    }
    let _ = digests::announced(&map);
    let _ = digests::Wanted::of(&map);
    let _ = locking::timeout(&map);
}
