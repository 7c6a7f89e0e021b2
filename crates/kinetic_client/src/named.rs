//! How a drive and who asks it are named: addresses as text, files with a key or a PIN.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kinetic::Secret;

/// The longest key or PIN that a file may hold.
pub const SECRET_BYTES_MAX: usize = 4096;

/// Why a file gives no key or PIN.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is empty or too long.
    #[error("{0}: a key or PIN has 1 to {SECRET_BYTES_MAX} bytes")]
    Length(PathBuf),
}

/// The key or PIN that a file holds; ends of lines at its end are none of it.
///
/// # Errors
/// [`SecretError`].
pub fn read_secret(path: &Path) -> Result<Secret, SecretError> {
    let mut bytes = Vec::new();
    // What may stand in the file, and a byte that tells that there is more.
    let most = SECRET_BYTES_MAX + "\r\n".len();
    let read = File::open(path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|source| SecretError::Io { path: path.to_owned(), source })?;
    let is_cut = bytes.len() > most;
    while bytes.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
        bytes.pop();
    }
    if !is_cut && (1..=SECRET_BYTES_MAX).contains(&bytes.len()) {
        Ok(Secret::new(bytes))
    } else {
        Err(SecretError::Length(path.to_owned()))
    }
}

/// `HOST:PORT` of `HOST` or `HOST:PORT`; an address of IPv6 stands in brackets. `None` if it is neither.
#[must_use]
pub fn with_port(text: &str, port: u16) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let is_of_host = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let end = match text.strip_prefix('[') {
        Some(rest) => {
            let address = rest.split_once(']')?.0;
            if address.is_empty() || !address.bytes().all(|b| is_of_host(b) || b == b':') {
                return None;
            }
            address.len() + "[]".len()
        }
        None => {
            let host = text.split(':').next().unwrap_or_default();
            if host.is_empty() || !host.bytes().all(is_of_host) {
                return None;
            }
            host.len()
        }
    };
    let (host, given) = text.split_at_checked(end)?;
    let port = match given.strip_prefix(':') {
        Some(given) if given.bytes().all(|b| b.is_ascii_digit()) => {
            given.parse().ok().filter(|port| *port > 0)?
        }
        Some(_) => return None,
        None if given.is_empty() => port,
        None => return None,
    };
    Some(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_ports() {
        let plain = |text| with_port(text, 8123);
        assert_eq!(plain("D1.example").as_deref(), Some("d1.example:8123"));
        assert_eq!(plain("d1:9").as_deref(), Some("d1:9"));
        assert_eq!(plain("[::1]").as_deref(), Some("[::1]:8123"));
        assert_eq!(plain("[::1]:9").as_deref(), Some("[::1]:9"));
        for wrong in [
            "",
            ":9",
            "d1:",
            "d1:0",
            "d1:65536",
            "d1:+9",
            "::1",
            "[]",
            "[]:9",
            "[::1",
            "[::1]9",
            "[::1]x:9",
            "a/b",
            "http://d1",
            "a b",
        ] {
            assert_eq!(plain(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_read_whole_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            read_secret(&file).map(|secret| secret.bytes().to_vec())
        };
        assert_eq!(read(b"a key \r\n").unwrap(), b"a key ", "blanks are of the key");
        let longest = vec![b'x'; SECRET_BYTES_MAX];
        assert_eq!(read(&longest).unwrap(), longest);
        assert_eq!(read(&[&longest[..], b"\r\n"].concat()).unwrap(), longest);
        let longer = [&longest[..], b"x"].concat();
        let cut = [&longest[..], b"\n\n\nx"].concat();
        for wrong in [&b""[..], b"\n", &longer, &cut] {
            assert!(matches!(read(wrong), Err(SecretError::Length(_))), "{}", wrong.len());
        }
        assert!(matches!(read_secret(directory.path()), Err(SecretError::Io { .. })));
    }
}
