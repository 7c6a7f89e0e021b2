//! Which addresses and ports may be reached. Pure.
//!
//! Whoever may ask for a copy chooses the URL, and this server stands within the site: without rules it
//! would fetch from whatever its own network answers to. So an address is refused unless it is one of the
//! public internet, or the site allows it by name or network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The longest name of a host (RFC 1035).
pub(crate) const HOST_BYTES_MAX: usize = 253;

/// Which servers may be reached.
///
/// Of an address, the network with the longest prefix decides that is in `allow` or `deny`, and `deny` of
/// two that are equally long. Without one, public addresses may be reached, private ones (RFC 1918, unique
/// local, 100.64/10) if the name of the host is in `allow`, and all others (loopback, link local with the
/// metadata services of clouds, unspecified, multicast, reserved) not at all: a name in `allow` is no reason
/// to reach those.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressRules {
    /// What may be reached although it is not public.
    pub allow: Vec<Exception>,
    /// What may not be reached although it is public: sites whose inner network has public addresses name it
    /// here.
    pub deny: Vec<Network>,
    /// The ports that may be reached. By default 80, 443 and those from 1024 on, where storage doors listen,
    /// but for well-known ones of databases, queues and other inner services: some of them take the lines of
    /// an HTTP request for commands.
    pub ports: Vec<PortRange>,
    /// Whether `http://` may be used. Not by default: whoever is on the way reads the credential that the
    /// client gave for the other side, and can change bytes and checksum alike. A site that copies within
    /// its own network may allow it.
    pub http: bool,
}

/// Ports of inner services that are above 1023 and no storage doors: SQL servers, etcd and Consul, Docker
/// and Kubernetes, NFS, iSCSI, AMQP and Erlang, remote desktops, X, Redis, Elasticsearch, memcached, MongoDB
/// and so on.
const INNER_PORTS: [RangeInclusive<u16>; 24] = [
    1433..=1434,
    1521..=1522,
    2049..=2049,
    2181..=2181,
    2375..=2380,
    3260..=3260,
    3306..=3306,
    3389..=3389,
    4369..=4369,
    5432..=5433,
    5671..=5672,
    5900..=5910,
    5984..=5986,
    6000..=6063,
    6379..=6380,
    6443..=6443,
    8300..=8302,
    8500..=8502,
    9042..=9042,
    9092..=9093,
    9200..=9300,
    10250..=10259,
    11211..=11211,
    27017..=27019,
];

impl Default for AddressRules {
    fn default() -> Self {
        let mut ports = vec![PortRange::one(80), PortRange::one(443)];
        let mut first = 1024;
        for inner in INNER_PORTS {
            ports.push(PortRange { first, last: inner.start() - 1 });
            first = inner.end() + 1;
        }
        ports.push(PortRange { first, last: u16::MAX });
        AddressRules { allow: Vec::new(), deny: Vec::new(), ports, http: false }
    }
}

/// Ports from one to another, both included: `443` or `8000-8999`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// An exception from what may be reached: `10.0.0.0/8`, `2001:db8::1`, `se.example.org` or `*.example.org`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exception {
    /// All addresses of a network.
    Network(Network),
    /// Whatever private addresses hosts of this name have.
    Host(HostPattern),
}

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The name of a host, or of all hosts below a domain: `se.example.org`, `*.example.org`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPattern {
    /// In lower case, without the asterisk; begins with a dot then.
    name: String,
}

/// A rule that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// No network.
    #[error("'{0}' is no network: write 10.0.0.0/8, 2001:db8::/32 or a single address")]
    Network(String),
    /// The network has bits beyond its prefix.
    #[error("'{0}' has bits behind its prefix: write {1}")]
    Bits(String, Network),
    /// No host.
    #[error("'{0}' is no name of a host: write se.example.org, or *.example.org for all below a domain")]
    Host(String),
    /// No port.
    #[error("'{0}' is no range of ports: write 443 or 8000-8999")]
    Ports(String),
}

/// Why an address may not be reached: for the log, never for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Forbidden {
    /// The port is not in the list.
    #[error("the port is not in the list of ports")]
    Port,
    /// `http://`.
    #[error("http:// is not allowed, only https://")]
    Http,
    /// A network is in `deny`.
    #[error("its network is in the list of those denied")]
    Denied,
    /// A private address.
    #[error("it is a private address, and neither its network nor its name is in the list of those allowed")]
    Private,
    /// An address of this host, of its links, or of none.
    #[error("it is {0}, and its network is not in the list of those allowed")]
    Special(&'static str),
}

/// What kind of address one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Public,
    Private,
    Special(&'static str),
}

impl AddressRules {
    /// That a port may be reached.
    pub(crate) fn check_port(&self, port: u16) -> Result<(), Forbidden> {
        let fits = self.ports.iter().any(|range| (range.first..=range.last).contains(&port));
        if fits { Ok(()) } else { Err(Forbidden::Port) }
    }

    /// That an address may be reached that `host`, in lower case, has; the host may be the address itself.
    pub(crate) fn check(&self, host: &str, address: IpAddr) -> Result<(), Forbidden> {
        let address = innermost(address);
        let allowed = self.allow.iter().filter_map(|exception| match exception {
            Exception::Network(network) if network.contains(address) => Some(network.prefix),
            _ => None,
        });
        let denied = self.deny.iter().filter(|network| network.contains(address)).map(|n| n.prefix);
        match (allowed.max(), denied.max()) {
            (Some(allowed), Some(denied)) if allowed > denied => return Ok(()),
            (_, Some(_)) => return Err(Forbidden::Denied),
            (Some(_), None) => return Ok(()),
            (None, None) => {}
        }
        match classify(address) {
            Class::Public => Ok(()),
            Class::Private if self.allows_name(host) => Ok(()),
            Class::Private => Err(Forbidden::Private),
            Class::Special(what) => Err(Forbidden::Special(what)),
        }
    }

    fn allows_name(&self, host: &str) -> bool {
        self.allow.iter().any(|exception| matches!(exception, Exception::Host(name) if name.is(host)))
    }
}

impl PortRange {
    /// A single port.
    #[must_use]
    pub fn one(port: u16) -> Self {
        PortRange { first: port, last: port }
    }
}

impl FromStr for PortRange {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Ports(text.to_owned());
        let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        if first <= last { Ok(PortRange { first, last }) } else { Err(wrong()) }
    }
}

impl FromStr for Exception {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        // A name has no slash and no colon, and its last label is no number.
        if text.contains(['/', ':']) || ends_in_number(text) {
            text.parse().map(Exception::Network)
        } else {
            text.parse().map(Exception::Host)
        }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                shared(u128::from(own.to_bits()) << 96, u128::from(other.to_bits()) << 96, self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => shared(own.to_bits(), other.to_bits(), self.prefix),
            _ => false,
        }
    }

    fn masked(address: IpAddr, prefix: u8) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

/// Whether the first `prefix` bits are the same.
fn shared(one: u128, other: u128, prefix: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(prefix)).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Network(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?,
        };
        let masked = Network::masked(address, prefix);
        let network = Network { address: masked, prefix };
        if masked == address { Ok(network) } else { Err(RuleError::Bits(text.to_owned(), network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({self})")
    }
}

impl HostPattern {
    fn is(&self, host: &str) -> bool {
        if self.name.starts_with('.') {
            // Something stands before the dot.
            host.len() > self.name.len() && host.ends_with(&self.name)
        } else {
            host == self.name
        }
    }
}

impl FromStr for HostPattern {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let name = text.strip_prefix("*.").unwrap_or(text).to_ascii_lowercase();
        // `*.org` would allow what others name as they like.
        let is_too_wide = text.starts_with('*') && !name.contains('.');
        if !is_host_name(&name) || is_too_wide {
            return Err(RuleError::Host(text.to_owned()));
        }
        Ok(HostPattern { name: if text.starts_with('*') { format!(".{name}") } else { name } })
    }
}

/// Whether it may be the name of a host: labels of letters, digits, hyphens and underscores. The last one is
/// no number, so that it is no address in one of the old notations.
pub(crate) fn is_host_name(name: &str) -> bool {
    let good = |label: &str| {
        let allowed = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (1..=63).contains(&label.len()) && allowed
    };
    name.len() <= HOST_BYTES_MAX && name.split('.').all(good) && !ends_in_number(name)
}

/// Whether the last label is a number, also a hexadecimal one: `127.1`, `0x7f000001`, `2130706433`.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    digits.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// The address that is reached in the end: of an IPv6 address that only carries an IPv4 one (mapped, NAT64
/// by its well-known prefix, 6to4), that one.
fn innermost(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let s = v6.segments();
    let carried = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into();
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        [0x2002, high, low, ..] => carried(high, low),
        _ => address,
    }
}

/// IPv4 networks that are not the public internet (IANA special-purpose registry), but for the private ones.
const SPECIAL_V4: [([u8; 4], u8, &str); 13] = [
    ([0, 0, 0, 0], 8, "an unspecified address"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([169, 254, 0, 0], 16, "a link-local address"),
    ([192, 0, 0, 0], 24, "a reserved address"),
    ([192, 0, 2, 0], 24, "an address for documentation"),
    ([192, 88, 99, 0], 24, "a reserved address"),
    ([198, 18, 0, 0], 15, "an address for benchmarks"),
    ([198, 51, 100, 0], 24, "an address for documentation"),
    ([203, 0, 113, 0], 24, "an address for documentation"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "a reserved address"),
    // Azure's metadata and DNS, a public address that only ever is the inner network's.
    ([168, 63, 129, 16], 32, "an address of a cloud's inner services"),
    ([100, 100, 100, 200], 32, "an address of a cloud's inner services"),
];
const PRIVATE_V4: [([u8; 4], u8); 4] =
    [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16), ([100, 64, 0, 0], 10)];

fn classify(address: IpAddr) -> Class {
    let within = |network: [u8; 4], prefix| Network { address: network.into(), prefix }.contains(address);
    let v6 = match address {
        IpAddr::V4(_) => {
            let special = SPECIAL_V4.into_iter().find(|(network, prefix, _)| within(*network, *prefix));
            let private = PRIVATE_V4.into_iter().any(|(network, prefix)| within(network, prefix));
            return match special {
                Some((_, _, what)) => Class::Special(what),
                None if private => Class::Private,
                None => Class::Public,
            };
        }
        IpAddr::V6(v6) => v6,
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Special("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Special("a loopback address"),
        [s, ..] if s & 0xfe00 == 0xfc00 => Class::Private,
        [s, ..] if s & 0xffc0 == 0xfe80 => Class::Special("a link-local address"),
        [s, ..] if s & 0xff00 == 0xff00 => Class::Special("a multicast address"),
        // Teredo, ORCHID, benchmarks and the rest of the assignments for protocols; documentation.
        [0x2001, s, ..] if s < 0x200 || s == 0xdb8 => Class::Special("a reserved address"),
        [0x3fff, s, ..] if s < 0x1000 => Class::Special("an address for documentation"),
        [s, ..] if s & 0xe000 == 0x2000 => Class::Public,
        _ => Class::Special("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> AddressRules {
        AddressRules {
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            deny: deny.iter().map(|text| text.parse().unwrap()).collect(),
            ..AddressRules::default()
        }
    }

    fn check(rules: &AddressRules, host: &str, address: &str) -> Result<(), Forbidden> {
        rules.check(host, address.parse().unwrap())
    }

    #[test]
    fn only_the_public_internet_is_reached() {
        let plain = rules(&[], &[]);
        let public = [
            "8.8.8.8",
            "129.13.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "2a00:1398::1",
            "2001:638::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ];
        for address in public {
            assert_eq!(check(&plain, "h", address), Ok(()), "{address}");
        }
        let private = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "fc00::1",
            "fdff::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::c0a8:101",
            "2002:a00:1::",
        ];
        for address in private {
            assert_eq!(check(&plain, "h", address), Err(Forbidden::Private), "{address}");
        }
        let special = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "100.100.100.200",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:0:7f00:1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "5f00::1",
            "4000::1",
        ];
        for address in special {
            assert!(matches!(check(&plain, "h", address), Err(Forbidden::Special(_))), "{address}");
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let site = rules(
            &["10.0.0.0/8", "129.13.100.0/24", "127.0.0.1", "2001:db8::/32", "192.168.7.0/24"],
            &["129.13.0.0/16", "10.1.0.0/16", "192.168.7.0/24"],
        );
        for address in ["10.0.0.1", "129.13.100.9", "127.0.0.1", "8.8.8.8", "2001:db8::5", "::ffff:10.9.9.9"]
        {
            assert_eq!(check(&site, "h", address), Ok(()), "{address}");
        }
        for address in ["129.13.5.5", "10.1.2.3", "::ffff:10.1.2.3", "192.168.7.7"] {
            assert_eq!(check(&site, "h", address), Err(Forbidden::Denied), "{address}");
        }
        assert_eq!(check(&site, "h", "172.16.0.1"), Err(Forbidden::Private));
        assert!(matches!(check(&site, "h", "127.0.0.2"), Err(Forbidden::Special(_))));
    }

    #[test]
    fn a_name_lifts_what_is_private_and_nothing_else() {
        let site = rules(&["*.example.org", "SE.Site.DE"], &["10.9.0.0/16"]);
        for host in ["a.example.org", "b.a.example.org", "se.site.de"] {
            assert_eq!(check(&site, host, "10.0.0.1"), Ok(()), "{host}");
            assert_eq!(check(&site, host, "10.9.0.1"), Err(Forbidden::Denied), "{host}");
            for address in ["127.0.0.1", "169.254.169.254", "::1", "0.0.0.0", "fe80::1"] {
                assert!(matches!(check(&site, host, address), Err(Forbidden::Special(_))), "{address}");
            }
        }
        for host in ["example.org", "aexample.org", ".example.org", "a.example.org.evil.net", "x.se.site.de"]
        {
            assert_eq!(check(&site, host, "10.0.0.1"), Err(Forbidden::Private), "{host}");
        }
    }

    #[test]
    fn ports_are_those_of_storage_doors() {
        let plain = AddressRules::default();
        for port in [80, 443, 1024, 1094, 2880, 8000, 8080, 8443, 9000, 20_000, 25_000, 33_000, 65_535] {
            assert_eq!(plain.check_port(port), Ok(()), "{port}");
        }
        for port in [0, 22, 25, 81, 1023, 2049, 2379, 3306, 5432, 6379, 9200, 11_211, 27_017, 10_250] {
            assert_eq!(plain.check_port(port), Err(Forbidden::Port), "{port}");
        }
        let own = AddressRules { ports: vec!["8443".parse().unwrap()], ..AddressRules::default() };
        assert_eq!((own.check_port(8443), own.check_port(443)), (Ok(()), Err(Forbidden::Port)));
    }

    #[test]
    fn rules_that_cannot_be_read_are_refused() {
        for text in
            ["10.0.0.0/33", "10.0.0.0/", "::/129", "1.2.3", "0x7f.1", "a/b", "10.0.0.0/-1", "1.2.3.4.5"]
        {
            assert!(matches!(text.parse::<Exception>(), Err(RuleError::Network(_))), "{text}");
        }
        let error = "10.1.0.0/8".parse::<Network>().unwrap_err();
        assert_eq!(error.to_string(), "'10.1.0.0/8' has bits behind its prefix: write 10.0.0.0/8");
        for text in ["", "*", "*.org", "a..b", "a b", "*.*.org", "a.*.org", "-.?", "ä.org"] {
            assert!(matches!(text.parse::<Exception>(), Err(RuleError::Host(_))), "{text}");
        }
        for text in ["", "0", "65536", "9-8", "a", "1-2-3", "-5"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        assert_eq!("0.0.0.0/0".parse::<Network>().unwrap().to_string(), "0.0.0.0/0");
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("9.9.9.9".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().contains("::1".parse().unwrap()));
    }
}
