//! Says by multicast that the device is there, as Seagate's simulator does.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use base::Duration;
use kinetic::Configuration;

/// To whom it is said.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 8123);
/// How often.
pub const EVERY: Duration = Duration::from_secs(5);

/// The words: JSON.
#[must_use]
pub(crate) fn words(configuration: &Configuration, addresses: &[SocketAddr]) -> String {
    let text = |bytes: &[u8]| quoted(&String::from_utf8_lossy(bytes));
    let interfaces: Vec<String> = configuration
        .interfaces
        .iter()
        .map(|one| {
            let address =
                addresses.iter().find(|address| address.is_ipv4() && !address.ip().is_unspecified());
            let ipv4 = address.map_or_else(|| "null".to_owned(), |address| quoted(&address.ip().to_string()));
            format!(
                "{{\"name\":{},\"mac\":{},\"ipv4_addr\":{ipv4},\"ipv6_addr\":null}}",
                quoted(&one.name),
                text(&one.mac)
            )
        })
        .collect();
    let port = |port: Option<u16>| port.map_or_else(|| "null".to_owned(), |port| port.to_string());
    format!(
        "{{\"manufacturer\":{},\"model\":{},\"world_wide_name\":{},\"serial_number\":{},\
         \"firmware_version\":{},\"protocol_version\":{},\"port\":{},\"tlsPort\":{},\
         \"network_interfaces\":[{}]}}",
        quoted(&configuration.vendor),
        quoted(&configuration.model),
        text(&configuration.world_wide_name),
        text(&configuration.serial_number),
        quoted(&configuration.version),
        quoted(&configuration.protocol_version),
        port(configuration.port),
        port(configuration.tls_port),
        interfaces.join(",")
    )
}

/// A text of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if u32::from(c) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Says it once.
pub(crate) fn say(socket: &UdpSocket, words: &str) {
    // Nobody may be listening, and there may be no way to them now.
    let _ = socket.send_to(words.as_bytes(), GROUP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_json() {
        let configuration = Configuration {
            vendor: "Kist \"x\"\n".to_owned(),
            world_wide_name: bytes::Bytes::from_static(b"w"),
            port: Some(8123),
            interfaces: vec![kinetic::Interface { name: "eth0".to_owned(), ..Default::default() }],
            ..Configuration::default()
        };
        let words = words(&configuration, &[([10, 0, 0, 1], 8123).into()]);
        assert!(words.starts_with("{\"manufacturer\":\"Kist \\\"x\\\"\\u000a\","), "{words}");
        assert!(words.contains("\"port\":8123,\"tlsPort\":null"), "{words}");
        assert!(words.contains("\"ipv4_addr\":\"10.0.0.1\""), "{words}");
    }
}
