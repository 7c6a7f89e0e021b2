//! A directory of the file system as a tree.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use topology::{NAMES_MAX, READ_MAX, Tree, Unread};

/// A tree below a directory. Links are given as they are written and never followed by the system: a
/// directory that somebody sent cannot lead out of itself, and what is no plain file in it (a pipe, a
/// device) is not opened.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    /// What paths begin with that stand at the root.
    prefix: &'static str,
    /// Only what is below these is there; empty: everything is.
    only: &'static [&'static str],
}

impl Files {
    /// This machine: what its kernel shows, and nothing that somebody has put beside it.
    #[must_use]
    pub fn of_machine() -> Files {
        Files { root: PathBuf::from("/"), prefix: "", only: &["/sys", "/proc"] }
    }

    /// A directory with `sys` in it, or one that is a copy of `/sys` itself.
    #[must_use]
    pub fn of_directory(root: &Path) -> Files {
        let is_sys = root.join("class").is_dir() && !root.join("sys").is_dir();
        Files { root: root.to_owned(), prefix: if is_sys { "/sys" } else { "" }, only: &[] }
    }

    fn at(&self, path: &str) -> Result<PathBuf, Unread> {
        let is_below =
            |own: &&str| path.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !self.only.is_empty() && !self.only.iter().any(is_below) {
            return Err(Unread::Missing);
        }
        let rest = path.strip_prefix(self.prefix).ok_or(Unread::Missing)?;
        Ok(self.root.join(rest.trim_start_matches('/')))
    }
}

/// Why the system did not read something.
fn why(error: &io::Error) -> Unread {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => Unread::Missing,
        Some(Errno::ACCESS | Errno::PERM) => Unread::Denied,
        Some(Errno::LOOP | Errno::ISDIR) => Unread::NotFile,
        // What drivers say of values that they do not have, and of devices that have just gone.
        Some(Errno::INVAL | Errno::NODATA | Errno::OPNOTSUPP | Errno::NXIO | Errno::NODEV | Errno::AGAIN) => {
            Unread::Refused
        }
        _ => Unread::Failed,
    }
}

impl Tree for Files {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        let path = self.at(path)?;
        let is_file = fs::symlink_metadata(&path).map_err(|error| why(&error))?.is_file();
        if !is_file {
            return Err(Unread::NotFile);
        }
        // NONBLOCK: it may have become a pipe in between, and an open would wait for its writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file =
            fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(|error| why(&error))?;
        let mut bytes = Vec::new();
        file.take(READ_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| why(&error))?;
        if bytes.len() > READ_MAX { Err(Unread::TooLarge) } else { Ok(bytes) }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let path = self.at(path)?;
        if !fs::symlink_metadata(&path).map_err(|error| why(&error))?.is_dir() {
            return Err(Unread::NotFile);
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(|error| why(&error))?.take(NAMES_MAX + 1) {
            // Names that are no text are none of Linux's.
            names.extend(entry.map_err(|error| why(&error))?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn link(&self, path: &str) -> Result<Option<String>, Unread> {
        let path = self.at(path)?;
        let found = fs::symlink_metadata(&path).map_err(|error| why(&error))?;
        if !found.is_symlink() {
            return Ok(None);
        }
        let target = fs::read_link(&path).map_err(|error| why(&error))?;
        target.into_os_string().into_string().map(Some).map_err(|_| Unread::Loop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use topology::Reader;

    /// Links of a directory that was sent lead where they would lead on the machine that it is of, never to
    /// files of this one; pipes do not stop the reading.
    #[test]
    fn a_directory_cannot_lead_out_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("sys/class/x")).unwrap();
        fs::create_dir_all(root.join("sys/devices/y")).unwrap();
        fs::write(root.join("sys/devices/y/value"), "5\n").unwrap();
        fs::write(root.join("sys/devices/y/huge"), vec![b'x'; READ_MAX + 1]).unwrap();
        symlink("../../devices/y", root.join("sys/class/x/y")).unwrap();
        symlink("/sys/devices/y", root.join("sys/class/x/absolute")).unwrap();
        symlink("/etc", root.join("sys/class/x/etc")).unwrap();
        symlink("../../../../../../../../etc/passwd", root.join("sys/class/x/passwd")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("sys/devices/y/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let tree = Files::of_directory(root);
        let reader = Reader::new(&tree);
        assert_eq!(reader.number("/sys/class/x/y/value"), Some(5));
        assert_eq!(reader.number("/sys/class/x/absolute/value"), Some(5));
        assert_eq!(reader.resolve("/sys/class/x/etc/hostname"), Err(Unread::Missing));
        assert_eq!(reader.resolve("/sys/class/x/passwd"), Err(Unread::Loop));
        assert_eq!(reader.bytes("/sys/devices/y/pipe"), None);
        assert_eq!(reader.bytes("/sys/devices/y/huge"), None);
        let whys: Vec<Unread> = reader.into_problems().0.into_iter().map(|problem| problem.why).collect();
        assert_eq!(whys, [Unread::NotFile, Unread::TooLarge]);
    }

    #[test]
    fn of_this_machine_only_the_kernels_files_are_read() {
        let tree = Files::of_machine();
        assert!(tree.list("/sys/class").is_ok());
        for path in ["/etc", "/etc/hostname", "/answers", "/sysx", "/"] {
            assert_eq!(tree.link(path), Err(Unread::Missing), "{path}");
        }
    }

    #[test]
    fn a_copy_of_sys_alone_will_do() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("class/net")).unwrap();
        let tree = Files::of_directory(directory.path());
        assert_eq!(tree.list("/sys/class"), Ok(vec!["net".into()]));
        assert_eq!(tree.list("/answers"), Err(Unread::Missing));
    }
}
