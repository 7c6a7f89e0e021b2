//! `[third_party_copy]`: which other servers WebDAV's `COPY` may fetch from and send to.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use tpc::{AddressRules, Exception, Network, PortRange};

use super::check::Finding;

/// `[third_party_copy]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThirdPartyCopy {
    /// Whether copies are made at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Authorities that may have signed another server's certificate: files in PEM, or directories of them.
    /// Those of the system without it.
    #[serde(default)]
    pub authorities: Vec<PathBuf>,
    /// Private networks, addresses and names of hosts that may be reached.
    #[serde(default)]
    pub allow: Vec<Spanned<String>>,
    /// Public networks that may not.
    #[serde(default)]
    pub deny: Vec<Spanned<String>>,
    /// Ports that may be reached, in place of the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<Spanned<String>>>,
    /// Whether `http://` may be used.
    #[serde(default)]
    pub http: bool,
}

impl Default for ThirdPartyCopy {
    fn default() -> Self {
        ThirdPartyCopy {
            enabled: true,
            authorities: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            ports: None,
            http: false,
        }
    }
}

fn yes() -> bool {
    true
}

impl ThirdPartyCopy {
    /// The settings of the client; `None`: no copies are made. Relative files are those below `directory`.
    #[must_use]
    pub fn settings(&self, directory: &Path) -> Option<tpc::Settings> {
        let ThirdPartyCopy { enabled, authorities, allow, deny, ports, http } = self;
        if !enabled {
            return None;
        }
        // That they can be read was checked when the file was read.
        let usual = AddressRules::default();
        let addresses = AddressRules {
            allow: read::<Exception>(allow).unwrap_or_default(),
            deny: read::<Network>(deny).unwrap_or_default(),
            ports: ports.as_ref().map_or(usual.ports, |ports| read::<PortRange>(ports).unwrap_or_default()),
            http: *http,
        };
        let authorities = authorities.iter().map(|file| directory.join(file)).collect();
        Some(tpc::Settings { authorities, addresses, ..tpc::Settings::default() })
    }
}

fn read<T: FromStr>(texts: &[Spanned<String>]) -> Result<Vec<T>, Finding>
where
    T::Err: std::fmt::Display,
{
    let one = |text: &Spanned<String>| {
        text.get_ref().parse().map_err(|error: T::Err| (text.span(), error.to_string()))
    };
    texts.iter().map(one).collect()
}

/// Checks what types cannot say.
pub(super) fn check(copies: &ThirdPartyCopy) -> Result<(), Finding> {
    read::<Exception>(&copies.allow)?;
    read::<Network>(&copies.deny)?;
    if let Some(ports) = &copies.ports {
        read::<PortRange>(ports)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_checked() {
        let text =
            "allow = [\"10.0.0.0/8\", \"*.example.org\"]\nports = [\"443\", \"8000-8999\"]\nhttp = true";
        let copies: ThirdPartyCopy = toml::from_str(text).unwrap();
        check(&copies).unwrap();
        let settings = copies.settings(Path::new("/i")).unwrap();
        assert_eq!((settings.addresses.allow.len(), settings.addresses.ports.len()), (2, 2));
        assert!(settings.addresses.http);
        assert!(!ThirdPartyCopy::default().settings(Path::new("/i")).unwrap().addresses.http);
        let off: ThirdPartyCopy = toml::from_str("enabled = false").unwrap();
        assert!(off.settings(Path::new("/i")).is_none());
        for wrong in ["allow = [\"10.0.0.0/99\"]", "deny = [\"x.example.org\"]", "ports = [\"9-1\"]"] {
            assert!(check(&toml::from_str(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
