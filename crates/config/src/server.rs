//! `[server]`: addresses, TLS, what one caller may ask for.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use door::{ClientAuth, Listener, TlsSettings};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::check::Finding;

/// `[server]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address and port of Kist's own interface.
    pub listen: Spanned<String>,
    /// Address and port of S3; not served without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_listen: Option<Spanned<String>>,
    /// Address and port of WebDAV; not served without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webdav_listen: Option<Spanned<String>>,
    /// Requests a second of one caller over time; any number without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<Spanned<u32>>,
    /// The certificate, for all addresses; without TLS if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// `tls = { ... }` or `[server.tls]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificates, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
    /// Authorities of clients' certificates, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// Whether clients have to show one.
    #[serde(default)]
    pub client_auth: Ask,
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// They are not asked for one.
    #[default]
    None,
    /// They may.
    Optional,
    /// They have to.
    Required,
}

impl Server {
    /// The listeners of the door, Kist's own interface first; relative files are those below `directory`.
    pub fn listeners(&self, directory: &Path) -> Vec<Listener> {
        let Server { listen, s3_listen, webdav_listen, requests_per_second: _, tls } = self;
        let tls = tls.as_ref().map(|tls| tls.settings(directory));
        let asked = [
            (Some(listen), door::HTTP),
            (s3_listen.as_ref(), ::s3::NAME),
            (webdav_listen.as_ref(), webdav::NAME),
        ];
        let listener = |(address, service): (Option<&Spanned<String>>, &'static str)| {
            // That it is an address was checked when the file was read.
            let address = address?.get_ref().parse().ok()?;
            // A stock XRootD that sends a file by third-party copy takes HTTP/2 if it is offered, and then
            // sends an end in place of the bytes (5.5.3 with libcurl 7.88). No client of the grid needs it.
            let tls = tls.clone().map(|tls| TlsSettings { http2: service != webdav::NAME, ..tls });
            Some(Listener { address, another_port: false, service, tls })
        };
        asked.into_iter().filter_map(listener).collect()
    }
}

impl Tls {
    fn settings(&self, directory: &Path) -> TlsSettings {
        let Tls { certificate, key, client_ca, client_auth } = self;
        TlsSettings {
            certificate: directory.join(certificate),
            key: directory.join(key),
            client_ca: client_ca.as_ref().map(|file| directory.join(file)),
            client_auth: match client_auth {
                Ask::None => ClientAuth::None,
                Ask::Optional => ClientAuth::Optional,
                Ask::Required => ClientAuth::Required,
            },
            http2: true,
        }
    }
}

/// Checks what types cannot say.
pub(super) fn check(server: &Server) -> Result<(), Finding> {
    let Server { listen, s3_listen, webdav_listen, requests_per_second, tls: _ } = server;
    let named = [
        (Some(listen), "127.0.0.1:7420", "Kist's own interface"),
        (s3_listen.as_ref(), "127.0.0.1:7421", "S3"),
        (webdav_listen.as_ref(), "127.0.0.1:7422", "WebDAV"),
    ];
    for (listen, example, _) in named {
        let Some(listen) = listen else { continue };
        if listen.get_ref().parse::<SocketAddr>().is_err() {
            let message = format!("'{}' is not an address with port, such as {example}", listen.get_ref());
            return Err((listen.span(), message));
        }
    }
    let port = |address: &Spanned<String>| address.get_ref().parse::<SocketAddr>().map(|a| a.port());
    for (at, (address, _, what)) in named.iter().enumerate() {
        let Some(address) = address.filter(|address| port(address) != Ok(0)) else { continue };
        let others = named.iter().take(at).filter_map(|(other, _, whose)| Some((other.as_ref()?, whose)));
        if let Some((_, whose)) = others.into_iter().find(|(other, _)| other.get_ref() == address.get_ref()) {
            return Err((address.span(), format!("{what} needs a port of its own: {whose} has this one")));
        }
    }
    match requests_per_second.as_ref().filter(|rate| *rate.get_ref() == 0) {
        Some(rate) => Err((rate.span(), "at least 1; without this key any number".to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Server, String> {
        let server = toml::from_str::<Server>(text).map_err(|error| error.to_string())?;
        check(&server).map_err(|(_, message)| message)?;
        Ok(server)
    }

    #[test]
    fn listeners_are_those_that_are_named() {
        let server = read("listen = \"127.0.0.1:7420\"").unwrap();
        let listeners = server.listeners(Path::new("/srv"));
        assert_eq!((listeners.len(), listeners[0].service), (1, door::HTTP));
        assert!(listeners[0].tls.is_none());
        let text = "listen = \"0.0.0.0:7420\"\ns3_listen = \"0.0.0.0:7421\"\nrequests_per_second = 50\n\
                    tls = { certificate = \"tls/a.pem\", key = \"/k\", \
            client_ca = \"ca\", client_auth = \"optional\" }";
        let server = read(text).unwrap();
        let listeners = server.listeners(Path::new("/srv"));
        let tls = TlsSettings {
            certificate: "/srv/tls/a.pem".into(),
            key: "/k".into(),
            client_ca: Some("/srv/ca".into()),
            client_auth: ClientAuth::Optional,
            http2: true,
        };
        assert_eq!((listeners[1].service, listeners[1].address.port()), ("s3", 7421));
        assert!(listeners.iter().all(|listener| listener.tls.as_ref() == Some(&tls)));
        let text = format!("webdav_listen = \"0.0.0.0:7422\"\n{text}");
        let listeners = read(&text).unwrap().listeners(Path::new("/srv"));
        assert_eq!(
            listeners[2].tls,
            Some(TlsSettings { http2: false, ..tls }),
            "XRootD cannot push by HTTP/2"
        );
        // What is printed is read again.
        assert!(read(&toml::to_string(&server).unwrap()).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, word) in [
            ("listen = \"localhost\"", "127.0.0.1:7420"),
            ("listen = \"127.0.0.1:1\"\ns3_listen = \"x\"", "127.0.0.1:7421"),
            ("listen = \"127.0.0.1:1\"\ns3_listen = \"127.0.0.1:1\"", "port of its own"),
            ("listen = \"127.0.0.1:1\"\nrequests_per_second = 0", "at least 1"),
            ("listen = \"127.0.0.1:1\"\ntls = { certificate = \"a\" }", "key"),
            (
                "listen = \"127.0.0.1:1\"\ntls = { certificate = \"a\", key = \"b\", client_auth = \"x\" }",
                "x",
            ),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
