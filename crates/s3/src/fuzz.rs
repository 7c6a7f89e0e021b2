//! For the fuzz targets: parsers of what comes in before anybody is known.

use bytes::Bytes;
use http::Request;

use crate::chunked::Decoder;
use crate::sigv4::{Claim, payload, query};
use base::base64;

use crate::{keys, metadata, percent};

/// A request: the lines are the address, `Authorization`, `x-amz-date`, `x-amz-content-sha256`.
///
/// # Panics
/// If a signature is found right.
pub fn request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default();
    let (address, authorization, date, sum) = (line(), line(), line(), line());
    let _ = payload(Some(sum));
    let built = Request::builder()
        .uri(address)
        .header("host", "kist")
        .header("authorization", authorization)
        .header("x-amz-date", date)
        .body(());
    let Ok(built) = built else { return };
    let (parts, ()) = built.into_parts();
    let Ok(fields) = query(parts.uri.query(), 100) else { return };
    for claim in [Claim::of_header(authorization, &parts), Claim::of_query(&fields, 604_800)] {
        let Ok(claim) = claim else { continue };
        let _ = claim.check(1_445_412_480, 900, "us-east-1");
        let verified = claim.verify(&parts, &fields, sum, "a secret that is in no corpus");
        assert!(verified.is_err(), "{text}");
    }
}

/// A body in chunks: the first byte is the length of the object, the second that of the pieces in which it
/// arrives.
///
/// # Panics
/// If more comes out than the object has.
pub fn chunks(data: &[u8]) {
    let [length, piece, body @ ..] = data else { return };
    let announced = vec!["x-amz-checksum-crc32".to_owned()];
    let mut decoder = Decoder::new(u64::from(*length), None, announced);
    let mut found = 0;
    for part in body.chunks(usize::from(*piece).max(1)) {
        let mut input = Bytes::copy_from_slice(part);
        loop {
            match decoder.take(&mut input) {
                Ok(Some(bytes)) => found += bytes.len(),
                Ok(None) => break,
                Err(_) => return,
            }
            assert!(found <= usize::from(*length), "{found} bytes");
        }
    }
    if decoder.finish().is_ok() {
        assert_eq!(found, usize::from(*length));
    }
}

/// Keys, versions, tags, base64, percent signs.
///
/// # Panics
/// If a key leads out of its bucket, or a text does not come back.
pub fn texts(data: &[u8]) {
    assert_eq!(base64::decode(&base64::encode(data)).as_deref(), Some(data));
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = base64::decode(text);
    if let Ok(place) = keys::place("bucket", text) {
        let path = place.path.as_str();
        assert!(path == "/bucket" || path.starts_with("/bucket/"), "{path}");
        assert!(place.path.components().all(|name| name != "." && name != ".."), "{path}");
    }
    let _ = keys::which(Some(text));
    let _ = percent::decode_form(text);
    assert_eq!(percent::decode(&percent::encode_key(text)).as_deref(), Some(text));
    if let Ok(tags) = metadata::tags_of_header(text) {
        let _ = metadata::checked_tags(tags, 10);
    }
}
