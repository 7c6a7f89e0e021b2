//! How tape pools are encrypted.

use std::path::{Path, PathBuf};

use archive::{KeySource, PoolEncryption};
use base::KeyId;
use toml::Spanned;

use super::check::Finding;
use super::file;

/// Reads what a tape pool says of its keys. Nothing is asked for a key here: a server whose keys are away
/// starts, and says so of each tape.
pub(super) fn read(encryption: &file::PoolEncryption) -> Result<PoolEncryption, Finding> {
    let file::PoolEncryption { key, keys } = encryption;
    let id =
        |key: &Spanned<String>| KeyId::new(key.get_ref()).map_err(|error| (key.span(), error.to_string()));
    let key = key.as_ref().map(id).transpose()?;
    let absolute = |path: &str| Some(PathBuf::from(path)).filter(|path| Path::is_absolute(path));
    let source = match keys.get_ref().split_once(':') {
        Some(("file", path)) => absolute(path).map(KeySource::File),
        Some(("command", path)) => absolute(path).map(KeySource::Command),
        _ => None,
    };
    let message = "keys is \"file:/PATH\" or \"command:/PATH\", with a path from / on: where keys come \
                   from, never a key";
    Ok(PoolEncryption { key, keys: source.ok_or_else(|| (keys.span(), message.to_owned()))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<PoolEncryption, String> {
        let read_text = toml::from_str::<file::PoolEncryption>(text).map_err(|error| error.to_string())?;
        let shown = toml::to_string(&read_text).unwrap();
        assert!(toml::from_str::<file::PoolEncryption>(&shown).is_ok(), "what is printed is read again");
        read(&read_text).map_err(|(_, message)| message)
    }

    #[test]
    fn a_key_has_an_id_and_a_place_that_is_told_in_full() {
        let found = of("key = \"a-1\"\nkeys = \"file:/etc/kist/keys\"").unwrap();
        assert_eq!(found.key, Some(KeyId::new("a-1").unwrap()));
        assert_eq!(found.keys, KeySource::File("/etc/kist/keys".into()));
        let found = of("key = \"a\"\nkeys = \"command:/usr/bin/key\"").unwrap();
        assert_eq!(found.keys, KeySource::Command("/usr/bin/key".into()));
        assert_eq!(of("keys = \"file:/k\"").unwrap().key, None, "for older tapes only");
        for (text, why) in [
            ("key = \"a b\"\nkeys = \"file:/k\"", "names no key"),
            ("key = \"a\"\nkeys = \"/k\"", "file:/PATH"),
            ("key = \"a\"\nkeys = \"file:k\"", "a path from / on"),
            ("key = \"a\"\nkeys = \"command:k\"", "file:/PATH"),
            ("key = \"a\"", "missing field `keys`"),
            ("key = \"a\"\nkeys = \"file:/k\"\nsecret = \"00\"", "unknown field"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
