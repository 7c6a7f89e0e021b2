//! `kist kinetic discover`: drives say where they are by multicast.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terminal::{Failure, Outcome, Table, output, text};

use crate::cli::Common;

/// Where drives announce themselves.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
/// The port of it.
const GROUP_PORT: u16 = 8123;
/// The longest announcement that is read.
const ANNOUNCEMENT_BYTES_MAX: usize = 64 << 10;
/// Drives that are told of; who announces more is not believed.
const DRIVES_MAX: usize = 10_000;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Listens at 239.1.2.3, port 8123, where drives announce themselves every few
seconds. Nobody vouches for an announcement: it says where to ask.

Example:
  kist kinetic discover --for 15s")]
pub struct Args {
    /// How long to listen
    #[arg(long = "for", value_name = "SPAN", value_parser = span, default_value = "12s")]
    listen: Duration,
    /// The address of the network interface to listen at [default: that of the system's route]
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", hide_default_value = true)]
    interface: Ipv4Addr,
}

fn span(input: &str) -> Result<Duration, String> {
    text::parse_span(input).ok_or_else(|| "say a span of time with its unit, such as 15s".to_owned())
}

/// What a drive announces.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Announcement {
    world_wide_name: String,
    serial_number: String,
    vendor: String,
    model: String,
    firmware: String,
    protocol: String,
    addresses: Vec<String>,
    port: Option<u16>,
    tls_port: Option<u16>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let socket = listening(args.interface)
        .map_err(|error| Failure::internal(format!("listening at {GROUP}:{GROUP_PORT}: {error}")))?;
    let until = Instant::now() + args.listen;
    let mut found: BTreeMap<String, Announcement> = BTreeMap::new();
    let mut buffer = vec![0; ANNOUNCEMENT_BYTES_MAX];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || found.len() >= DRIVES_MAX {
            break;
        }
        let failed = |error| Failure::internal(format!("listening: {error}"));
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).map_err(failed)?;
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                if let Some(announcement) = parse(bytes, from) {
                    let name = if announcement.world_wide_name.is_empty() {
                        format!("{} {:?}", announcement.addresses.join(" "), announcement.port)
                    } else {
                        announcement.world_wide_name.clone()
                    };
                    found.insert(name, announcement);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let found: Vec<Announcement> = found.into_values().collect();
    told(&found, args.listen, common)
}

/// Others on this machine may listen there too.
fn listening(interface: Ipv4Addr) -> std::io::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &SocketAddr::from((GROUP, GROUP_PORT)))?;
    let socket = UdpSocket::from(fd);
    socket.join_multicast_v4(&GROUP, &interface)?;
    Ok(socket)
}

/// Reads an announcement, as Seagate's drives and simulator send it; what is none is passed over.
fn parse(bytes: &[u8], from: SocketAddr) -> Option<Announcement> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let object = value.as_object()?;
    let word = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let port = |key: &str| {
        let port = object.get(key)?.as_u64()?;
        u16::try_from(port).ok().filter(|port| *port > 0)
    };
    let (plain, tls) = (port("port"), port("tlsPort").or_else(|| port("tls_port")));
    if plain.is_none() && tls.is_none() {
        return None;
    }
    let interfaces = object.get("network_interfaces").and_then(Value::as_array);
    let told = interfaces.into_iter().flatten().filter_map(|interface| interface.get("ipv4_addr")?.as_str());
    let mut addresses: Vec<String> = told
        .filter(|address| address.parse::<Ipv4Addr>().is_ok_and(|it| !it.is_loopback()))
        .map(str::to_owned)
        .collect();
    // Where it came from can be reached.
    let sender = from.ip().to_string();
    addresses.retain(|address| *address != sender);
    addresses.insert(0, sender);
    Some(Announcement {
        world_wide_name: word("world_wide_name"),
        serial_number: word("serial_number"),
        vendor: word("manufacturer"),
        model: word("model"),
        firmware: word("firmware_version"),
        protocol: word("protocol_version"),
        addresses,
        port: plain,
        tls_port: tls,
    })
}

fn told(found: &[Announcement], listened: Duration, common: &Common) -> Outcome {
    if common.json {
        let all: Vec<Value> = found
            .iter()
            .map(|one| {
                json!({
                    "world_wide_name": one.world_wide_name,
                    "serial_number": one.serial_number,
                    "vendor": one.vendor,
                    "model": one.model,
                    "firmware": one.firmware,
                    "protocol": one.protocol,
                    "addresses": one.addresses,
                    "port": one.port,
                    "tls_port": one.tls_port,
                })
            })
            .collect();
        return output::json(&all);
    }
    if found.is_empty() {
        let listened = text::span(listened);
        return output::line(&format!("no drive announced itself within {listened}: see --for, --interface"));
    }
    let mut table = Table::new(&["drive", ">TLS port", "vendor", "model", "firmware", "protocol", "wwn"]);
    for one in found {
        let port = |port: Option<u16>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        let drive: Vec<String> =
            one.addresses.iter().map(|address| format!("{address}:{}", port(one.port))).collect();
        table.row(vec![
            drive.join(","),
            port(one.tls_port),
            text::or_dash(&one.vendor),
            text::or_dash(&one.model),
            text::or_dash(&one.firmware),
            text::or_dash(&one.protocol),
            text::or_dash(&one.world_wide_name),
        ]);
    }
    output::write(&table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Announcement> {
        parse(text.as_bytes(), SocketAddr::from(([10, 0, 0, 9], 8123)))
    }

    #[test]
    fn announcements_are_read() {
        let found = read(
            r#"{"firmware_version":"0.8.0.4","manufacturer":"Seagate","model":"Simulator",
                "network_interfaces":[{"name":"lo","ipv4_addr":"127.0.0.1"},{"ipv4_addr":"10.0.1.9"},
                {"ipv4_addr":"10.0.0.9"},{"ipv4_addr":"no"},7],
                "port":8123,"protocol_version":"3.0.6","serial_number":"s","tlsPort":8443,
                "world_wide_name":"w"}"#,
        );
        let found = found.unwrap();
        assert_eq!(found.addresses, ["10.0.0.9", "10.0.1.9"]);
        assert_eq!((found.port, found.tls_port), (Some(8123), Some(8443)));
        assert_eq!((found.world_wide_name.as_str(), found.model.as_str()), ("w", "Simulator"));
    }

    #[test]
    fn what_is_no_announcement_is_passed_over() {
        for text in ["", "{", "[]", "{}", r#"{"port":0}"#, r#"{"port":70000}"#, r#"{"port":"8123"}"#] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
