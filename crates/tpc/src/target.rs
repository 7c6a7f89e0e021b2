//! The URL of another server. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;
use http::uri::PathAndQuery;

use crate::address::is_host_name;
use crate::error::Error;

/// The longest URL.
const URL_BYTES_MAX: usize = 8192;

/// By which scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// A file of another server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub scheme: Scheme,
    /// In lower case, without brackets and without a dot at its end.
    pub host: String,
    pub port: u16,
    pub path: PathAndQuery,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// Also by the names that clients of the grid use.
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "http" | "dav" => Some(Scheme::Http),
            "https" | "davs" => Some(Scheme::Https),
            _ => None,
        }
    }
}

impl Target {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Target, Error> {
        if url.len() > URL_BYTES_MAX {
            return Err(Error::Url("is too long"));
        }
        // A fragment is for browsers; the parser would drop it without a word.
        let url = url.split('#').next().unwrap_or_default();
        let uri: Uri = url.parse().map_err(|_| Error::Url("is malformed"))?;
        let scheme = uri.scheme_str().and_then(Scheme::of);
        let scheme = scheme.ok_or(Error::Url("begins neither with https:// nor with http://"))?;
        let authority = uri.authority().ok_or(Error::Url("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(Error::Url(
                "holds a name or password: these belong into TransferHeaderAuthorization",
            ));
        }
        let host = host(authority.host()).ok_or(Error::Url("names no host"))?;
        // `port_u16` takes "host:" and "host:99999" for no port at all.
        let port = match authority.port() {
            Some(port) => port.as_str().parse().map_err(|_| Error::Url("has no good port"))?,
            None if authority.as_str().ends_with(':') || has_bad_port(authority.as_str()) => {
                return Err(Error::Url("has no good port"));
            }
            None => scheme.default_port(),
        };
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Target { scheme, host, port, path })
    }

    /// Where a redirect leads.
    pub(crate) fn redirect(&self, location: &str) -> Result<Target, Error> {
        let wrong = |_| Error::Redirect("to something that is no URL");
        let origin = self.origin_url();
        let to = if location.starts_with("//") {
            Target::parse(&format!("{}:{location}", self.scheme_name()))
        } else if location.starts_with('/') {
            Target::parse(&format!("{origin}{location}"))
        } else {
            Target::parse(location)
        };
        let to = to.map_err(wrong)?;
        if self.scheme == Scheme::Https && to.scheme == Scheme::Http {
            return Err(Error::Redirect("from https to http"));
        }
        Ok(to)
    }

    /// Whether both are the same door: credentials for one go to the other.
    pub(crate) fn is_same_origin(&self, other: &Target) -> bool {
        self.scheme == other.scheme && self.host == other.host && self.port == other.port
    }

    /// The address, if the host is one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        let brackets = self.host.parse::<Ipv6Addr>().is_ok();
        let host = if brackets { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    fn scheme_name(&self) -> &'static str {
        match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn origin_url(&self) -> String {
        format!("{}://{}", self.scheme_name(), self.authority())
    }
}

impl fmt::Display for Target {
    /// Without its query, which may hold a credential (`authz`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin_url(), self.path.path())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// The name or address of a host; `None` if it is neither.
fn host(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return Some(address.to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
    (is_address || is_host_name(&name)).then_some(name)
}

/// Whether something stands behind the colon of a port that is none.
fn has_bad_port(authority: &str) -> bool {
    let behind = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    behind.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => format!("{} {} {}", target.host, target.port, target.path),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn urls_of_doors_are_read() {
        let good = [
            ("https://se.example.org/a/b", "se.example.org 443 /a/b"),
            ("HTTPS://SE.Example.ORG./a?authz=x&y=%20", "se.example.org 443 /a?authz=x&y=%20"),
            ("davs://se:8443/a", "se 8443 /a"),
            ("http://se", "se 80 /"),
            ("dav://10.0.0.1:2880/x", "10.0.0.1 2880 /x"),
            ("https://[2001:DB8::1]:1094//store/f#frag", "2001:db8::1 1094 //store/f"),
            ("https://[::1]/", "::1 443 /"),
        ];
        for (url, expected) in good {
            assert_eq!(shown(url), expected, "{url}");
        }
        assert_eq!(Target::parse("https://[::1]:443/x").unwrap().authority(), "[::1]");
        assert_eq!(Target::parse("http://h:8080/x?authz=secret").unwrap().to_string(), "http://h:8080/x");
    }

    #[test]
    fn tricks_are_refused() {
        let bad = [
            "",
            "/a",
            "se/a",
            "file:///etc/passwd",
            "gopher://x/",
            "ftp://x/",
            "root://x//a",
            "https:///a",
            "https://user:pass@se/a",
            "https://se@10.0.0.1/",
            "https://se:0x50/",
            "https://se:99999/",
            "https://se:/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://127.1/",
            "https://0177.0.0.1/",
            "https://1.2.3.4.5/",
            "https://a..b/",
            "https://-/%",
            "https://a b/",
            "https://ä.org/",
            "https://se\\@evil/",
            "https://[fe80::1%25eth0]/",
            "https://[::1/",
            "https://[1.2.3.4]/",
            "https://se/a\r\nX: y",
            "https://%31%32%37.0.0.1/",
        ];
        for url in bad {
            // A hyphen alone is a label, an IPv4 address with a leading zero is none.
            let parsed = Target::parse(url);
            assert!(parsed.is_err() || url == "https://-/%", "{url}: {parsed:?}");
        }
        assert!(Target::parse(&format!("https://h/{}", "a".repeat(URL_BYTES_MAX))).is_err());
    }

    #[test]
    fn redirects_stay_with_https() {
        let from = Target::parse("https://head:8443/a?x").unwrap();
        let to =
            |location: &str| from.redirect(location).map(|to| format!("{}:{}{}", to.host, to.port, to.path));
        assert_eq!(to("https://pool1:20001/uuid?y=1").unwrap(), "pool1:20001/uuid?y=1");
        assert_eq!(to("/b").unwrap(), "head:8443/b");
        assert_eq!(to("//other/b").unwrap(), "other:443/b");
        assert_eq!(to("http://pool1/b"), Err(Error::Redirect("from https to http")));
        for location in ["", "b", "../b", "file:///x", "http:", "?q"] {
            assert_eq!(to(location), Err(Error::Redirect("to something that is no URL")), "{location}");
        }
        let plain = Target::parse("http://head/a").unwrap();
        assert!(plain.redirect("https://head/a").is_ok_and(|to| !to.is_same_origin(&plain)));
    }
}
