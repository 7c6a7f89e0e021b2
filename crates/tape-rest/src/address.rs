//! Addresses: which call a request is, and what clients are told about where the calls are.

use std::net::Ipv6Addr;

use authority::Encrypted;
use base::RequestId;
use entrance::Refusal;
use entrance::headers::single;
use http::header::HOST;
use http::request::Parts;

/// All paths of the service begin with this; alone it is the discovery.
pub const ROOT: &str = "/.well-known/wlcg-tape-rest-api";
/// Behind it, the version.
pub(crate) const VERSION: &str = "v1";
/// Longest host that is answered with: a name of 253 bytes, a port.
const HOST_BYTES_MAX: usize = 260;

/// What an address names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// The discovery.
    Discovery,
    /// All requests.
    Stage,
    /// One of them; `None`: a text that is no id of ours.
    Request(Option<RequestId>),
    /// The cancel of one.
    Cancel(Option<RequestId>),
    /// The release of one.
    Release(Option<RequestId>),
    /// Localities.
    ArchiveInfo,
}

impl Address {
    /// What a path names; `None`: nothing. Slashes at the end count for nothing (gfal2 posts to `/stage/`).
    pub(crate) fn of(path: &str) -> Option<Address> {
        let rest = path.strip_prefix(ROOT)?.trim_end_matches('/');
        if rest.is_empty() {
            return Some(Address::Discovery);
        }
        let rest = rest.strip_prefix('/')?.strip_prefix(VERSION)?;
        match *rest.split('/').collect::<Vec<_>>().as_slice() {
            ["", "stage"] => Some(Address::Stage),
            ["", "stage", id] => Some(Address::Request(request_id(id))),
            ["", "stage", id, "cancel"] => Some(Address::Cancel(request_id(id))),
            ["", "release", id] => Some(Address::Release(request_id(id))),
            ["", "archiveinfo"] => Some(Address::ArchiveInfo),
            _ => None,
        }
    }

    /// The methods that it takes, for the header `Allow`.
    pub(crate) fn methods(self) -> &'static str {
        match self {
            Address::Discovery => "GET, HEAD",
            Address::Request(_) => "GET, HEAD, DELETE",
            Address::Stage | Address::Cancel(_) | Address::Release(_) | Address::ArchiveInfo => "POST",
        }
    }
}

/// The id that a text is: a number as it was given out, and no other way to write it.
fn request_id(text: &str) -> Option<RequestId> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(RequestId(number))
}

/// The address of the version that clients are told.
///
/// # Errors
/// 400 without a host that can be one.
pub(crate) fn endpoint(request: &Parts, public_url: Option<&str>) -> Result<String, Refusal> {
    if let Some(url) = public_url {
        return Ok(format!("{}{ROOT}/{VERSION}", url.trim_end_matches('/')));
    }
    let scheme = if request.extensions.get::<Encrypted>().is_some() { "https" } else { "http" };
    let header = single(&request.headers, &HOST)?.map(|host| host.to_str().unwrap_or_default());
    let host = header.or_else(|| request.uri.authority().map(http::uri::Authority::as_str));
    let host = host.filter(|host| is_host(host));
    let host = host.ok_or_else(|| Refusal::bad("the header Host is missing, or names no host"))?;
    Ok(format!("{scheme}://{host}{ROOT}/{VERSION}"))
}

/// Whether a text is a host, with or without a port, and nothing else.
pub(crate) fn is_host(text: &str) -> bool {
    if text.len() > HOST_BYTES_MAX {
        return false;
    }
    let is_of_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => (address, port),
            _ => return false,
        },
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            if !name.bytes().all(is_of_name) {
                return false;
            }
            (name, port)
        }
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => {
            digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok()
        }
        None => port.is_empty(),
    };
    !name.is_empty() && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rest: &str) -> Option<Address> {
        Address::of(&format!("{ROOT}{rest}"))
    }

    #[test]
    fn slashes_at_the_end_count_for_nothing() {
        let id = Some(RequestId(17));
        for (rest, address) in [
            ("", Address::Discovery),
            ("/v1/stage", Address::Stage),
            ("/v1/stage/17", Address::Request(id)),
            ("/v1/stage/17/cancel", Address::Cancel(id)),
            ("/v1/release/17", Address::Release(id)),
            ("/v1/archiveinfo", Address::ArchiveInfo),
        ] {
            for end in ["", "/", "//"] {
                assert_eq!(of(&format!("{rest}{end}")), Some(address), "{rest}{end}");
            }
        }
    }

    #[test]
    fn other_addresses_name_nothing() {
        let others = [
            "x",
            "/v1",
            "/v2/stage",
            "/v1x/stage",
            "/v10/stage",
            "/v1//stage",
            "//v1/stage",
            "/v1/stage//cancel/x",
            "/v1/stage/17/cancel/1",
            "/v1/stage/17/x",
            "/v1/release",
            "/v1/archiveinfo/17",
            "/v1/../v1/stage",
        ];
        for rest in others {
            assert_eq!(of(rest), None, "{rest}");
        }
        assert_eq!(Address::of("/.well-known"), None);
    }

    #[test]
    fn forged_ids_are_no_ids() {
        let forged =
            ["017", "+17", "-1", "17 ", "0x11", "١٧", "18446744073709551616", "gfal2-placeholder-id", "%31"];
        for id in forged {
            assert_eq!(of(&format!("/v1/stage/{id}")), Some(Address::Request(None)), "{id}");
            assert_eq!(of(&format!("/v1/release/{id}")), Some(Address::Release(None)), "{id}");
        }
        assert_eq!(of("/v1/stage/0"), Some(Address::Request(Some(RequestId(0)))));
    }

    #[test]
    fn hosts_are_hosts() {
        for host in
            ["a", "tape.example.org", "Tape_1.example.org:8443", "10.0.0.1:80", "[::1]", "[fe80::1]:443"]
        {
            assert!(is_host(host), "{host}");
        }
        let long = "a".repeat(HOST_BYTES_MAX + 1);
        for host in [
            "",
            ":80",
            "a:",
            "a:x",
            "a:65536",
            "a:080808",
            "a/b",
            "a b",
            "a@b",
            "a\"b",
            "[::1",
            "[]:1",
            "[::g]",
            "[fe790::90]",
            "[::::]",
            "a:1:2",
            "a#b",
            "[::1]x",
            &long,
        ] {
            assert!(!is_host(host), "{host}");
        }
    }
}
