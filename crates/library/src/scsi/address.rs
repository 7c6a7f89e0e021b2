//! Where a device is, as a configuration writes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iscsi::login::Name;
use scsi::Lun;

/// The port of iSCSI, if none is written.
const PORT: u16 = 3260;
/// What an address of an iSCSI unit begins with.
const SCHEME: &str = "iscsi://";
/// What a serial number begins with.
const SERIAL: &str = "serial:";

/// The address of a logical unit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceAddress {
    /// `iscsi://HOST[:PORT]/TARGET/LUN`.
    Iscsi {
        /// Host and port.
        portal: String,
        /// The target.
        target: Name,
        /// The unit.
        lun: Lun,
    },
    /// A device of this machine, `/dev/sg3`. Its number may be another one after the next boot.
    Generic(PathBuf),
}

/// Which device is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceChoice {
    /// The one there.
    At(DeviceAddress),
    /// The one with this serial number, wherever it is: `serial:1068000073`.
    Serial(String),
}

/// A text that is no address of a device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no device: write iscsi://HOST:PORT/TARGET/LUN or serial:NUMBER")]
pub struct DeviceAddressError(pub String);

/// Host and port with the port of iSCSI if none is written.
///
/// # Errors
/// If it is no host and port.
pub fn portal(text: &str) -> Result<String, DeviceAddressError> {
    let wrong = || DeviceAddressError(text.to_owned());
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address alone has brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (text, PORT),
    };
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    let is_name = !host.is_empty() && host.chars().all(is_plain);
    if is_address || is_name { Ok(format!("{host}:{port}")) } else { Err(wrong()) }
}

impl FromStr for DeviceAddress {
    type Err = DeviceAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || DeviceAddressError(text.to_owned());
        if let Some(rest) = text.strip_prefix(SCHEME) {
            let (at, rest) = rest.split_once('/').ok_or_else(wrong)?;
            let (target, lun) = rest.rsplit_once('/').ok_or_else(wrong)?;
            let lun = lun.parse().ok().and_then(Lun::single).ok_or_else(wrong)?;
            let target = Name::new(target).map_err(|_| wrong())?;
            return Ok(DeviceAddress::Iscsi { portal: portal(at).map_err(|_| wrong())?, target, lun });
        }
        let path = Path::new(text);
        if path.starts_with("/dev") { Ok(DeviceAddress::Generic(path.to_owned())) } else { Err(wrong()) }
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceAddress::Iscsi { portal, target, lun } => write!(f, "{SCHEME}{portal}/{target}/{lun}"),
            DeviceAddress::Generic(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(SERIAL) {
            Some(serial) if !serial.trim().is_empty() => Ok(DeviceChoice::Serial(serial.trim().to_owned())),
            Some(_) => Err(DeviceAddressError(text.to_owned())),
            None => text.parse().map(DeviceChoice::At),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::At(address) => address.fmt(f),
            DeviceChoice::Serial(serial) => write!(f, "{SERIAL}{serial}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in [
            "iscsi://127.0.0.1:3260/iqn.2026-01.org.kist:vtl/0",
            "iscsi://[fd00::1]:3261/iqn.2026-01.org.kist:vtl/300",
            "iscsi://tape-1.example.org:3260/naa.52004567ba64678d/1",
            "/dev/sg3",
            "serial:1068000073",
        ] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        let short: DeviceAddress = "iscsi://host/iqn.2026-01.org.kist:vtl/1".parse().unwrap();
        assert_eq!(short.to_string(), "iscsi://host:3260/iqn.2026-01.org.kist:vtl/1");
        assert_eq!(portal("[fd00::1]").unwrap(), "[fd00::1]:3260");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "serial:",
            "serial: ",
            "sg3",
            "/tmp/sg3",
            "iscsi://",
            "iscsi://host",
            "iscsi://host/iqn.2026-01.org.kist:vtl",
            "iscsi://host/disk/0",
            "iscsi://host/iqn.2026-01.org.kist:vtl/x",
            "iscsi://host/iqn.2026-01.org.kist:vtl/99999",
            "iscsi://host:port/iqn.2026-01.org.kist:vtl/0",
            "iscsi://user@host/iqn.2026-01.org.kist:vtl/0",
        ] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
