//! What a server warns of when it starts, and at SIGHUP: files that others can read or change and should not,
//! and an audit log that is not what was written.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use authority::{AuditFault, AuditSummary, read_audit};
use door::Listener;

use crate::config::Config;
use crate::instance::{self, Instance};

/// What others must not do with a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Care {
    /// Neither read nor change it: it holds secrets.
    Secret,
    /// Not change it: it says who may come in.
    Fixed,
}

/// How often the audit log is read again if a file of it went away meanwhile, being the oldest of too many.
const AUDIT_ATTEMPTS: u32 = 3;

/// Warns of files whose permissions are too wide.
pub fn warn_of_permissions(instance: &Instance, config: &Config, listeners: &[Listener]) {
    for (path, care) in files(instance, config, listeners) {
        if let Some(why) = too_wide(&path, care) {
            tracing::warn!(file = %path.display(), "{why}");
        }
    }
}

fn files(instance: &Instance, config: &Config, listeners: &[Listener]) -> Vec<(PathBuf, Care)> {
    let mut files = vec![
        (instance.path(instance::ACCESS_KEYS_FILE), Care::Secret),
        (instance.path(instance::ADMIN_KEY_FILE), Care::Secret),
        (instance.path(instance::KEYS_FILE), Care::Fixed),
        (instance.path(instance::CONFIG_FILE), Care::Fixed),
        (instance.directory.clone(), Care::Fixed),
    ];
    for tls in listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        files.push((tls.key.clone(), Care::Secret));
        files.extend(tls.client_ca.clone().map(|file| (file, Care::Fixed)));
    }
    let issuers = config.identity.key_files();
    files.extend(issuers.into_iter().map(|file| (instance.directory.join(file), Care::Fixed)));
    files.sort();
    files.dedup();
    files
}

/// Why the permissions of a file are too wide; a file that is not there has none. As with the private key of
/// other servers, a group may read a secret that belongs to root: so a key is shared by several services.
fn too_wide(path: &Path, care: Care) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let mode = found.mode() & 0o777;
    let changed = (mode & 0o022 != 0).then_some("change");
    let by_group = if found.uid() == 0 { 0 } else { 0o040 };
    let read = (care == Care::Secret && mode & (0o004 | by_group) != 0).then_some("read");
    let what = read.or(changed)?;
    let keep = match care {
        Care::Secret => "chmod 600",
        Care::Fixed => "chmod go-w",
    };
    Some(format!("others can {what} this file (mode {mode:04o}), and so come in as somebody else: {keep}"))
}

/// Looks through the audit log on a thread of its own, which may take a while, and says if it was changed.
pub fn check_audit(logs: &Path) {
    let logs = logs.to_owned();
    let check = move || match audit(&logs) {
        Ok(summary) => {
            tracing::info!(lines = summary.lines, last = %summary.hash, "the audit log is what was written");
        }
        Err(fault) => {
            tracing::error!(%fault, "the audit log is not what was written: see kist audit verify");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("audit-check".to_owned()).spawn(check) {
        tracing::error!(%error, "no thread to look through the audit log: call kist audit verify");
    }
}

fn audit(logs: &Path) -> Result<AuditSummary, AuditFault> {
    let mut attempt = 1;
    loop {
        match read_audit(logs, None, &mut |_, _| {}) {
            Err(AuditFault::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempt < AUDIT_ATTEMPTS =>
            {
                attempt += 1;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_that_others_can_use_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        assert_eq!(too_wide(&file, Care::Secret), None, "what is not there is no fault");
        fs::write(&file, "x").unwrap();
        let told = |mode: u32, care| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            too_wide(&file, care).map(|why| why.split_once(" this file").unwrap().0.to_owned())
        };
        let word = |word: &str| Some(format!("others can {word}"));
        for fine in [0o600, 0o400] {
            assert_eq!(told(fine, Care::Secret), None, "{fine:o}");
        }
        for (mode, what) in [(0o644, "read"), (0o604, "read"), (0o666, "read"), (0o620, "change")] {
            assert_eq!(told(mode, Care::Secret), word(what), "{mode:o}");
        }
        let is_root = fs::metadata(&file).unwrap().uid() == 0;
        assert_eq!(told(0o640, Care::Secret).is_none(), is_root, "a group may read what is root's");
        for (mode, what) in [(0o644, None), (0o664, word("change")), (0o602, word("change"))] {
            assert_eq!(told(mode, Care::Fixed), what, "{mode:o}");
        }
    }
}
