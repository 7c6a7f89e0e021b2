//! What a server warns of when it starts, and at SIGHUP, and in `kist status`: files that others can read or
//! change and should not, an audit log that is not what was written, a list of the root that opens buckets.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use authority::{AuditFault, AuditSummary, Notices, read_audit};
use base::ArchivePath;
use config::Config;
use door::Listener;
use identity::Rights;

use crate::instance::{self, Instance};

/// What others must not do with a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Care {
    /// Neither read nor change it: it holds secrets.
    Secret,
    /// Not change it: it says who may come in.
    Fixed,
}

/// Subjects of a list that a warning names at most.
const NAMED_MAX: usize = 5;
/// How often the audit log is read again if a file of it went away meanwhile, being the oldest of too many.
const AUDIT_ATTEMPTS: u32 = 3;

/// Warns of files whose permissions are too wide.
pub fn warn_of_permissions(instance: &Instance, config: &Config, listeners: &[Listener], notices: &Notices) {
    let mut warnings = Vec::new();
    for (path, care) in files(instance, config, listeners) {
        if let Some(why) = too_wide(&path, care) {
            tracing::warn!(file = %path.display(), "{why}");
            warnings.push(format!("{}: {why}", path.display()));
        }
    }
    notices.say("permissions", warnings);
}

/// Warns of lines in the list of the root that were the documented way to let somebody make buckets, and open
/// everybody's: each time when the status is asked for, and now in the log.
pub fn warn_of_root_list(archive: &archive::Archive, notices: &Notices) {
    let archive = archive.clone();
    let look = move || {
        let list = archive.acl(&ArchivePath::root()).ok().flatten().unwrap_or_default();
        let list = list.into_iter().map(|entry| (entry.subject, entry.rights)).collect::<Vec<_>>();
        opens_buckets(&list).into_iter().collect::<Vec<_>>()
    };
    for warning in look() {
        tracing::warn!("{warning}");
    }
    notices.set("list of the root", look);
}

/// What is to be said of a list of the root with lines that let create and look, and do nothing else.
fn opens_buckets(list: &[(String, u32)]) -> Option<String> {
    let is_meant_for_buckets = |rights: u32| {
        let rights = Rights::from_bits(rights).unwrap_or(Rights::NONE);
        let others = rights.without(Rights::STAT | Rights::LIST | Rights::MAKE_BUCKETS);
        others == Rights::CREATE
    };
    let meant = list.iter().filter(|(_, rights)| is_meant_for_buckets(*rights));
    let who: Vec<&str> = meant.map(|(subject, _)| subject.as_str()).take(NAMED_MAX).collect();
    let first = who.first()?;
    Some(format!(
        "the list of / lets {} create files in all buckets that have no list of their own: if they are only \
         to make buckets, say so: kist acl set / {first}=b (with all other lines of the list)",
        who.join(", ")
    ))
}

fn files(instance: &Instance, config: &Config, listeners: &[Listener]) -> Vec<(PathBuf, Care)> {
    let mut files = vec![
        (instance.path(instance::ACCESS_KEYS_FILE), Care::Secret),
        (instance.path(instance::MACAROONS_FILE), Care::Secret),
        (instance.path(client::ADMIN_KEY_FILE), Care::Secret),
        (instance.path(instance::KEYS_FILE), Care::Fixed),
        (instance.path(config::CONFIG_FILE), Care::Fixed),
        (instance.directory.clone(), Care::Fixed),
    ];
    for tls in listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        files.push((tls.key.clone(), Care::Secret));
        files.extend(tls.client_ca.clone().map(|file| (file, Care::Fixed)));
    }
    let settings = config.settings(&instance.directory);
    for library in std::iter::once(&settings.library).chain(&settings.more_libraries) {
        if let archive::LibraryKind::Scsi(scsi) = &library.kind {
            files.extend(scsi.chap.as_ref().map(|chap| (chap.secret_file.clone(), Care::Secret)));
        }
    }
    let issuers = config.identity.key_files();
    files.extend(issuers.into_iter().map(|file| (instance.directory.join(file), Care::Fixed)));
    files.sort();
    files.dedup();
    files
}

/// Why a file that holds a secret does not keep it; `None`: it does, or is not there.
pub fn secret_is_shown(path: &Path) -> Option<String> {
    too_wide(path, Care::Secret)
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
pub fn check_audit(logs: &Path, notices: &Notices) {
    let (logs, notices) = (logs.to_owned(), notices.clone());
    let check = move || match audit(&logs) {
        Ok(summary) => {
            tracing::info!(lines = summary.lines, last = %summary.hash, "the audit log is what was written");
        }
        Err(fault) => {
            tracing::error!(%fault, "the audit log is not what was written: see kist audit verify");
            let warning = format!("the audit log is not what was written: {fault}: see kist audit verify");
            notices.say("audit log", vec![warning]);
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

    /// `user:anna=lc` was the documented way to let anna make buckets: it opens everybody's, and stays in
    /// force until somebody changes it.
    #[test]
    fn lines_of_the_root_that_open_buckets_are_told() {
        let list = |lines: &[&str]| {
            let entry = |line: &&str| {
                let entry: identity::AclEntry = line.parse().unwrap();
                (entry.subject.to_string(), entry.rights.bits())
            };
            lines.iter().map(entry).collect::<Vec<_>>()
        };
        assert_eq!(opens_buckets(&[]), None);
        assert_eq!(opens_buckets(&list(&["user:anna:b", "group:cms:rl", "user:bert:rlwsm"])), None);
        let told = opens_buckets(&list(&["group:cms:r", "user:anna:lc", "user:bert:c"])).unwrap();
        assert!(told.starts_with("the list of / lets user:anna, user:bert create files"), "{told}");
        assert!(told.contains("kist acl set / user:anna=b"), "{told}");
        assert_eq!(opens_buckets(&[("anyone".to_owned(), 1 << 30)]), None, "it allows nothing");
    }

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
