//! The configuration.

use std::path::PathBuf;
use std::sync::OnceLock;

/// A file of these bytes: read or refused, with a line that is in it.
pub(crate) fn load(data: &[u8]) {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let name = || std::env::temp_dir().join(format!("kist-fuzz-{}.toml", std::process::id()));
    let file = FILE.get_or_init(name);
    assert!(std::fs::write(file, data).is_ok(), "{} cannot be written", file.display());
    if let Err(error) = config::load(file) {
        let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!(error.line <= lines, "{error}");
    }
}
