//! Percent-encoding (RFC 3986), strict: what is malformed is refused, not taken literally.

use base::{ArchivePath, NameError};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::problem::{Kind, Refusal};

/// All that may not stand in a header value as it is, and the percent sign itself.
const HEADER_TEXT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%').add(b',').add(b';').add(b'\\');

/// Decodes once. `None` if a percent sign is not followed by two hexadecimal digits.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(*rest.next()?).to_digit(16)?;
            let low = char::from(*rest.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Encodes a text for a header value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, HEADER_TEXT).to_string()
}

/// All that may not stand in the path of an address as it is. What may stand there but means something in XML
/// or HTML is encoded as well.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Encodes a path for an address; slashes stay.
pub fn encode_path(out: &mut String, path: &str) {
    out.extend(utf8_percent_encode(path, PATH));
}

/// The archive path in the path of a request: what stands behind the place where the namespace begins.
///
/// # Errors
/// [`Kind::BadPath`].
pub fn archive_path(rest: &str) -> Result<ArchivePath, Refusal> {
    if rest.is_empty() {
        return Ok(ArchivePath::root());
    }
    let bytes = decode(rest.as_bytes()).ok_or_else(|| {
        let detail = format!("the path '{rest}' has a '%' without two hexadecimal digits: write '%' as %25");
        Refusal::new(Kind::BadPath, detail)
    })?;
    ArchivePath::from_bytes(&bytes).map_err(bad_path)
}

/// A path that the engine's canonicaliser refused.
pub fn bad_path(error: NameError) -> Refusal {
    Refusal::new(Kind::BadPath, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_paths_are_refused() {
        for bad in [
            "/a/../b",
            "/%2e%2e/b",
            "/a/%2E%2E",
            "/..%2fetc",
            "/./a",
            "//a",
            "/a//b",
            "/a/",
            "/a%00b",
            "/%ff%fe",
            "/a%",
            "/a%2",
            "/a%zz",
            "/.kist/x",
            "dataX",
        ] {
            assert_eq!(archive_path(bad).unwrap_err().kind(), Kind::BadPath, "{bad}");
        }
        let long = format!("/{}", "a".repeat(256));
        assert!(archive_path(&long).unwrap_err().detail().contains("limit is 255"));
        let deep = "/a".repeat(2049);
        assert!(archive_path(&deep).unwrap_err().detail().contains("limit is 4096"));
    }

    #[test]
    fn decoding_happens_once() {
        assert_eq!(archive_path("/%2541").unwrap().as_str(), "/%41");
        assert_eq!(archive_path("/%252e%252e").unwrap().as_str(), "/%2e%2e");
        assert_eq!(archive_path("").unwrap().as_str(), "/");
        assert_eq!(archive_path("/").unwrap().as_str(), "/");
        assert_eq!(archive_path("/a%20b/%C3%A9+").unwrap().as_str(), "/a b/é+");
        assert_eq!(archive_path(&"/a".repeat(2048)).unwrap().as_str().len(), 4096);
    }

    proptest! {
        #[test]
        fn no_path_escapes(raw in "(/|%2[eEfF]|%00|\\.|%|[a-z%0-9]|é|%ff){0,40}") {
            if let Ok(path) = archive_path(&format!("/{raw}")) {
                let good = |c: &str| !c.is_empty() && c != "." && c != ".." && !c.contains('\0');
                prop_assert!(path.is_root() || path.as_str()[1..].split('/').all(good));
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(bytes) = decode(&raw) {
                prop_assert!(bytes.len() <= raw.len());
            }
        }

        #[test]
        fn encoded_text_comes_back(text in "\\PC{0,40}") {
            let encoded = encode(&text);
            prop_assert!(encoded.bytes().all(|b| (0x21..0x7f).contains(&b)));
            prop_assert_eq!(decode(encoded.as_bytes()).unwrap(), text.as_bytes());
        }
    }
}
