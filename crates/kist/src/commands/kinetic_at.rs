//! Which network drive is meant, who asks, and what is said of answers. Keys as text.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kinetic::client::ClientSettings;
use kinetic::{Acl, ClusterVersion, Identity, PORT, Request, Response, Secret, Status, StatusCode, TLS_PORT};
use kinetic_client::{CallError, Link, LinkSettings, SecretError, Trust, read_secret, with_port};
use terminal::{Exit, Failure, Outcome};

use crate::cli::Common;

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
            None => Acl::factory().key,
        };
        let port = if self.tls { TLS_PORT } else { PORT };
        let address = |one| {
            let wrong = || Failure::usage(format!("'{one}' is no address of a drive: HOST, or HOST:PORT"));
            with_port(one, port).ok_or_else(wrong)
        };
        let addresses = drive.split(',').map(address).collect::<Outcome<Vec<String>>>()?;
        let client = ClientSettings::new(Identity(self.identity), key.bytes());
        let mut settings = LinkSettings::new(addresses, client);
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

/// The key or PIN that a file holds.
pub fn secret(file: &Path) -> Outcome<Secret> {
    read_secret(file).map_err(|error| match error {
        SecretError::Io { path, source } => Failure::io("reading", &path, &source),
        error => Failure::usage(error.to_string()),
    })
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
    fn statuses_have_the_names_of_the_protocol() {
        assert_eq!(word(&Status::new(StatusCode::PermDataError, "")), "PERM_DATA_ERROR");
        let unknown = Status { number: 77, ..Status::new(StatusCode::Invalid, "") };
        assert_eq!(word(&unknown), "STATUS 77");
    }
}
