//! Which network drive is meant, who asks, and what is said of answers. Keys as text.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kinetic::client::ClientSettings;
use kinetic::{ClusterVersion, Identity, PORT, Request, Response, Status, StatusCode, TLS_PORT};
use kinetic_client::{CallError, Link, LinkSettings, Trust};
use terminal::{Exit, Failure, Outcome};

use crate::cli::Common;

/// The key that everybody knows: of identity 1 of a drive that is new or was erased.
const NEW_DRIVE_KEY: &[u8] = b"asdfasdf";
/// The longest file with a key or a PIN.
const SECRET_BYTES_MAX: u64 = 4096;
/// How long a drive is waited for.
const OPEN_WITHIN: Duration = Duration::from_secs(15);

/// Who asks, and how.
#[derive(clap::Args, Clone, Debug)]
pub struct Access {
    /// The identity that asks; its key is in --key-file, without which it is the well-known one of a new
    /// drive
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 1, help_heading = "Drive")]
    identity: i64,
    /// Over TLS; --ca names the drive's own certificate, or the authority that signed it, PEM
    #[arg(long, global = true, help_heading = "Drive")]
    tls: bool,
    /// The cluster version to which the drive has to belong [default: whichever it has]
    #[arg(long, global = true, value_name = "NUMBER", help_heading = "Drive")]
    cluster_version: Option<i64>,
}

/// A drive that greets.
pub struct Reached {
    /// As it was named.
    pub name: String,
    /// The way to it.
    pub link: Link,
}

impl Access {
    /// How a drive is reached: `HOST[:PORT]`, several with commas.
    pub fn settings(&self, drive: &str, common: &Common) -> Outcome<LinkSettings> {
        let key = match &common.connection.key_file {
            Some(file) => secret(file)?,
            None => Bytes::from_static(NEW_DRIVE_KEY),
        };
        let addresses =
            drive.split(',').map(|one| with_port(one, self.tls)).collect::<Outcome<Vec<String>>>()?;
        let mut settings = LinkSettings::new(addresses, ClientSettings::new(Identity(self.identity), &key));
        if self.tls {
            let Some(ca) = &common.connection.trust.ca else {
                let message = "--tls needs --ca FILE: the drive's own certificate, or the authority that \
                               signed it";
                return Err(Failure::usage(message));
            };
            settings.trust = Some(Trust::read(ca).map_err(|error| Failure::usage(error.to_string()))?);
        }
        Ok(settings)
    }

    /// Reaches a drive.
    pub fn reach(&self, drive: &str, common: &Common) -> Outcome<Reached> {
        let link = Link::new("kinetic", self.settings(drive, common)?);
        let link = link.map_err(|error| Failure::internal(format!("threads for {drive}: {error}")))?;
        link.open(OPEN_WITHIN).map_err(|error| unanswered(drive, &error))?;
        if let Some(version) = self.cluster_version {
            link.set_cluster_version(ClusterVersion(version));
        }
        Ok(Reached { name: drive.to_owned(), link })
    }
}

impl Reached {
    /// Asks; anything but a success is a failure. `what` is the object that is told of.
    pub fn ask(&self, what: &str, request: Request) -> Outcome<Response> {
        let response = self.answer(request)?;
        if response.status.is_success() { Ok(response) } else { Err(self.refused(what, &response.status)) }
    }

    /// Asks; what the drive says is given as it is.
    pub fn answer(&self, request: Request) -> Outcome<Response> {
        let answered = self.link.call(request).map_err(|error| unanswered(&self.name, &error))?;
        Ok(answered.response)
    }

    /// A drive that does not do it.
    pub fn refused(&self, what: &str, status: &Status) -> Failure {
        refused(&self.name, what, status)
    }
}

/// A drive that does not do it, and why.
pub fn refused(drive: &str, what: &str, status: &Status) -> Failure {
    let text = if status.text.is_empty() { String::new() } else { format!(": {}", status.text) };
    let (exit, next) = match status.code {
        StatusCode::NotFound => (Exit::NotFound, ""),
        StatusCode::HmacFailure => (Exit::NotAuthorised, ": give --identity and its --key-file"),
        StatusCode::NotAuthorized => (Exit::NotAuthorised, ": this identity may not do that"),
        StatusCode::VersionFailure => {
            (Exit::Refused, ": the drive belongs to another cluster version (--cluster-version)")
        }
        StatusCode::VersionMismatch => {
            (Exit::Refused, ": another version stands there: name it with --if-version, or use --force")
        }
        StatusCode::DeviceLocked => (Exit::Refused, ": 'kist kinetic unlock' opens it"),
        StatusCode::DataError | StatusCode::PermDataError => (Exit::Differs, ""),
        StatusCode::InvalidRequest => (Exit::Usage, ""),
        StatusCode::InternalError | StatusCode::Invalid => (Exit::Internal, ""),
        _ => (Exit::Refused, ""),
    };
    Failure::new(exit, format!("{what} on {drive}: {}{text}{next}", word(status)))
}

/// The status as the protocol calls it.
pub fn word(status: &Status) -> String {
    match status.code {
        StatusCode::Invalid if status.number != StatusCode::Invalid.number() => {
            format!("STATUS {}", status.number)
        }
        code => screaming(&format!("{code:?}")),
    }
}

/// `NoSpace` as `NO_SPACE`.
pub fn screaming(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_uppercase());
    }
    word
}

/// Why there is no answer.
pub fn unanswered(drive: &str, error: &CallError) -> Failure {
    let exit = match error {
        CallError::Unreachable(_) | CallError::NoAnswer(_) | CallError::Unknown(_) => Exit::Unreachable,
        CallError::NotTaken(_) => Exit::Usage,
        CallError::Overtaken(_) => Exit::Refused,
        _ => Exit::Internal,
    };
    Failure::new(exit, format!("{drive}: {error}"))
}

/// Bytes of a file that holds a key or a PIN; an end of line at its end is none of it.
pub fn secret(file: &Path) -> Outcome<Bytes> {
    let length = fs::metadata(file).map_err(|error| Failure::io("reading", file, &error))?.len();
    if length > SECRET_BYTES_MAX {
        let message = format!("{} is no file of a key or PIN: it has more than 4 KiB", file.display());
        return Err(Failure::usage(message));
    }
    let mut bytes = fs::read(file).map_err(|error| Failure::io("reading", file, &error))?;
    while bytes.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(Failure::usage(format!("{} is empty", file.display())));
    }
    Ok(bytes.into())
}

/// `HOST` or `HOST:PORT`, `[v6]` or `[v6]:PORT`.
fn with_port(text: &str, is_tls: bool) -> Outcome<String> {
    let wrong = || Failure::usage(format!("'{text}' is no address of a drive: HOST, or HOST:PORT"));
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (format!("[{host}]"), None),
        Some((host, port)) => (format!("[{host}]"), Some(port.strip_prefix(':').ok_or_else(wrong)?)),
        None => match text.split_once(':') {
            None => (text.to_owned(), None),
            Some((host, port)) => (host.to_owned(), Some(port)),
        },
    };
    let port = match port {
        None => {
            if is_tls {
                TLS_PORT
            } else {
                PORT
            }
        }
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    if host.is_empty() || host == "[]" || host.contains('/') {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// A key for people: what cannot be seen, and backslashes, as `\xNN`.
pub fn shown(key: &[u8]) -> String {
    let mut text = String::new();
    for &byte in key {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// The key that [`shown`] gives.
pub fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("'{text}': a backslash is \\\\, and a byte is \\xNN");
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
                let byte = digit(*high)? * 16 + digit(*low)?;
                bytes.push(u8::try_from(byte).map_err(|_| wrong())?);
                after
            }
            (b'\\', _) => return Err(wrong()),
            _ => {
                bytes.push(first);
                after
            }
        };
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_written_as_text() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_bytes(&shown(&all)).unwrap(), all);
        assert_eq!(shown(b"C:data:/a b\x00\\"), "C:data:/a b\\x00\\\\");
        assert_eq!(parse_bytes("é").unwrap(), "é".as_bytes(), "what a terminal sends is taken as it is");
        for wrong in ["\\", "\\x", "\\x1", "\\xg0", "a\\b"] {
            assert!(parse_bytes(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_the_usual_ports() {
        let plain = |text| with_port(text, false).ok();
        assert_eq!(plain("d1").as_deref(), Some("d1:8123"));
        assert_eq!(with_port("d1", true).unwrap(), "d1:8443");
        assert_eq!(plain("d1:9").as_deref(), Some("d1:9"));
        assert_eq!(plain("[::1]").as_deref(), Some("[::1]:8123"));
        assert_eq!(plain("[::1]:9").as_deref(), Some("[::1]:9"));
        for wrong in ["", ":9", "d1:", "d1:0", "d1:65536", "::1", "[]", "[::1]9", "http://d1"] {
            assert_eq!(plain(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn statuses_have_the_names_of_the_protocol() {
        assert_eq!(word(&Status::new(StatusCode::PermDataError, "")), "PERM_DATA_ERROR");
        let unknown = Status { number: 77, ..Status::new(StatusCode::Invalid, "") };
        assert_eq!(word(&unknown), "STATUS 77");
    }
}
