//! What other servers and clients say, for the fuzz targets.

use http::{HeaderMap, HeaderValue};

use crate::digests::Digests;
use crate::markers;
use crate::target::Target;

/// URLs, where they lead, digests and markers: none of it may panic, and what is accepted stands by what it
/// says.
pub fn text(text: &str) {
    if let Ok(target) = Target::parse(text) {
        let again = Target::parse(&format!("https://{}{}", target.authority(), target.path));
        assert!(again.is_ok_and(|again| again.host == target.host), "{text}");
    }
    if let Ok(head) = Target::parse("https://head.example.org/f")
        && let Ok(to) = head.redirect(text)
    {
        assert!(to.to_string().starts_with("https://"), "{text}");
    }
    if let Ok(value) = HeaderValue::from_str(text) {
        for name in ["digest", "repr-digest"] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.clone());
            let _ = Digests::read(&headers);
        }
    }
    if let Ok(parts) = markers::parse(text) {
        for part in parts {
            if let markers::Part::Marker(marker) = part {
                let written = marker.to_string();
                assert_eq!(markers::parse(&written), Ok(vec![markers::Part::Marker(marker)]));
            }
        }
    }
    let _ = text.parse::<crate::Exception>();
    let _ = text.parse::<crate::PortRange>();
}
