//! Where a Kinetic drive is, as text.

use std::fmt;
use std::path::{Path, PathBuf};

use kinetic_client::with_port;

/// The most addresses of one drive.
pub const ADDRESSES_MAX: usize = 8;
/// The identity that a drive knows if nobody changed that.
pub const IDENTITY: i64 = 1;

/// Where a Kinetic drive is: `kinetic://HOST[:PORT][,HOST[:PORT]…]?key-file=FILE[&identity=N]`, and with
/// `kinetics://` and `&trust=FILE` over TLS. The key itself never stands in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KineticAddress {
    hosts: Vec<String>,
    is_tls: bool,
    identity: i64,
    key_file: PathBuf,
    trust: Option<PathBuf>,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no drive is at '{text}': {what}; an address is \
     kinetic://HOST[:PORT][,HOST…]?key-file=FILE[&identity=N], with TLS kinetics://…&trust=FILE"
)]
pub struct AddressError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub what: &'static str,
}

impl KineticAddress {
    /// The names before `://`.
    pub const SCHEMES: [&'static str; 2] = ["kinetic", "kinetics"];

    /// Reads what stands behind `kinetic://` or `kinetics://`. Files are looked for below `base`.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(scheme: &str, rest: &str, base: &Path) -> Result<Self, AddressError> {
        let wrong = |what| AddressError { text: format!("{scheme}://{rest}"), what };
        let is_tls = scheme == "kinetics";
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
        let port = if is_tls { kinetic::TLS_PORT } else { kinetic::PORT };
        let hosts: Option<Vec<String>> =
            hosts.trim_end_matches('/').split(',').map(|host| with_port(host, port)).collect();
        let hosts = hosts.ok_or_else(|| wrong("a host or port is wrong"))?;
        if hosts.len() > ADDRESSES_MAX {
            return Err(wrong("it has more than 8 addresses"));
        }
        let (mut identity, mut key_file, mut trust) = (IDENTITY, None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("identity", number)) => {
                    identity = number.parse().map_err(|_| wrong("identity is a number"))?;
                }
                Some(("key-file", file)) if !file.is_empty() => key_file = Some(base.join(file)),
                Some(("trust", file)) if !file.is_empty() && is_tls => trust = Some(base.join(file)),
                _ => return Err(wrong("it has an option that is not known")),
            }
        }
        let key_file = key_file.ok_or_else(|| wrong("key-file= is missing"))?;
        if is_tls && trust.is_none() {
            return Err(wrong("trust= is missing: the drive's certificate, or its authority's"));
        }
        Ok(KineticAddress { hosts, is_tls, identity, key_file, trust })
    }

    /// Host and port of each address, the preferred one first.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.hosts
    }

    /// The host of the first address.
    #[must_use]
    pub fn host(&self) -> &str {
        let first = self.hosts.first().map_or("", String::as_str);
        first.rsplit_once(':').map_or(first, |(host, _)| host)
    }

    /// Whether two addresses may be of one drive: they have a host and port in common.
    #[must_use]
    pub fn meets(&self, other: &KineticAddress) -> bool {
        self.hosts.iter().any(|host| other.hosts.contains(host))
    }

    pub(crate) fn identity(&self) -> i64 {
        self.identity
    }

    pub(crate) fn key_file(&self) -> &Path {
        &self.key_file
    }

    pub(crate) fn trust(&self) -> Option<&Path> {
        self.trust.as_deref()
    }
}

impl fmt::Display for KineticAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "kinetics" } else { "kinetic" };
        write!(f, "{scheme}://{}?key-file={}", self.hosts.join(","), self.key_file.display())?;
        if self.identity != IDENTITY {
            write!(f, "&identity={}", self.identity)?;
        }
        self.trust.as_ref().map_or(Ok(()), |trust| write!(f, "&trust={}", trust.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<KineticAddress, AddressError> {
        let (scheme, rest) = text.split_once("://").unwrap();
        KineticAddress::parse(scheme, rest, Path::new("/etc/kist"))
    }

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("kinetic://a?key-file=k", "kinetic://a:8123?key-file=/etc/kist/k"),
            ("kinetic://A:1,b/?identity=1&key-file=/k", "kinetic://a:1,b:8123?key-file=/k"),
            ("kinetic://[::1]:7?key-file=/k&identity=2", "kinetic://[::1]:7?key-file=/k&identity=2"),
            ("kinetic://[::1]?key-file=/k", "kinetic://[::1]:8123?key-file=/k"),
            ("kinetics://a?key-file=/k&trust=/c", "kinetics://a:8443?key-file=/k&trust=/c"),
        ] {
            let read = at(text).unwrap();
            assert_eq!(read.to_string(), written);
            assert_eq!(at(written).unwrap(), read);
        }
        assert_eq!(at("kinetic://[::1]:7?key-file=/k").unwrap().host(), "[::1]");
        assert!(at("kinetic://a,b?key-file=/k").unwrap().meets(&at("kinetic://b?key-file=/j").unwrap()));
        for bad in [
            "kinetic://a",
            "kinetic://?key-file=/k",
            "kinetic://a,?key-file=/k",
            "kinetic://a:0?key-file=/k",
            "kinetic://a:x?key-file=/k",
            "kinetic://a b?key-file=/k",
            "kinetic://a?key-file=/k&identity=x",
            "kinetic://a?key-file=/k&key=secret",
            "kinetic://a?key-file=/k&trust=/c",
            "kinetics://a?key-file=/k",
            "kinetic://a,a,a,a,a,a,a,a,a?key-file=/k",
        ] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}
