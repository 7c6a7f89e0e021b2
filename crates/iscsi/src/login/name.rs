//! Names of initiators and targets (RFC 7143, section 4.2.7).

use std::fmt;

/// A worldwide name: `iqn.…`, `eui.…` or `naa.…`, at most 223 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

/// What is no name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no iSCSI name: they begin with iqn., eui. or naa. and have at most 223 bytes")]
pub struct NameError(pub String);

impl Name {
    /// The longest one, in bytes.
    pub const LENGTH_MAX: usize = 223;

    /// The name with this text, in lower case, as names are compared.
    pub fn new(text: &str) -> Result<Name, NameError> {
        let kind = ["iqn.", "eui.", "naa."]
            .iter()
            .any(|kind| text.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)));
        let plain = |char: char| char.is_alphanumeric() || "-.:".contains(char);
        if !kind || text.len() > Name::LENGTH_MAX || !text.chars().all(plain) {
            return Err(NameError(text.chars().take(Name::LENGTH_MAX).collect()));
        }
        Ok(Name(text.to_ascii_lowercase()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_kind_and_an_end() {
        assert_eq!(Name::new("IQN.2026-01.Kist:a").unwrap().as_str(), "iqn.2026-01.kist:a");
        assert!(Name::new("naa.52004567BA64678D").is_ok());
        let long = |length: usize| format!("iqn.{}", "a".repeat(length - 4));
        assert!(Name::new(&long(223)).is_ok());
        assert!(Name::new(&long(224)).is_err());
        for bad in ["", "iqn", "kist", "iqn.a b", "iqn.a\0", "iqn.a=b", "é"] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }
}
