//! Times, modes and owners of local files.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;

use base::Timestamp;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use terminal::text;

/// The bits of a mode that are kept.
const MODE_BITS: u32 = 0o7777;
/// The bits of a mode that `get` sets: a stranger's set-user-id bit is not for this machine.
const MODE_BITS_RESTORED: u32 = 0o777;

/// What is kept of a file beside its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Modification time.
    pub mtime: Timestamp,
    /// Permission bits.
    pub mode: u32,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
}

impl Attributes {
    /// Those of a local file. `None` if its time is out of the range of [`Timestamp`].
    pub fn of(metadata: &Metadata) -> Option<Self> {
        let mtime = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Some(Attributes {
            mtime: i64::try_from(mtime).ok().map(Timestamp)?,
            mode: metadata.mode() & MODE_BITS,
            owner: name_of(owners(), metadata.uid()),
            group: name_of(groups(), metadata.gid()),
        })
    }

    /// The request headers that carry them.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("kist-mtime", text::rfc3339(self.mtime)),
            ("kist-mode", self.mode_text()),
            ("kist-owner", text::encode(&self.owner)),
            ("kist-group", text::encode(&self.group)),
        ]
    }

    /// The mode as `0644`.
    pub fn mode_text(&self) -> String {
        format!("{:04o}", self.mode)
    }
}

/// Sets mode and times of a file that is open for writing.
pub fn restore_file(file: &File, mode: &str, mtime: Option<Timestamp>) -> io::Result<()> {
    if let Some(mode) = restored_mode(mode) {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    match mtime {
        Some(mtime) => file.set_times(FileTimes::new().set_modified(text::system_time(mtime))),
        None => Ok(()),
    }
}

/// Sets mode and times of a directory.
pub fn restore_directory(path: &Path, mode: &str, mtime: Option<Timestamp>) -> io::Result<()> {
    if let Some(mtime) = mtime {
        File::open(path)?.set_times(FileTimes::new().set_modified(text::system_time(mtime)))?;
    }
    match restored_mode(mode) {
        Some(mode) => fs::set_permissions(path, Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Sets the time of a symbolic link itself.
pub fn restore_link(path: &Path, mtime: Option<Timestamp>) -> io::Result<()> {
    let Some(mtime) = mtime else { return Ok(()) };
    let nanos = |time: i64| time.rem_euclid(1_000_000_000);
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: mtime.0.div_euclid(1_000_000_000),
            tv_nsec: nanos(mtime.0) as _,
        },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)
}

fn restored_mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().map(|mode| mode & MODE_BITS_RESTORED)
}

fn owners() -> &'static HashMap<u32, String> {
    static NAMES: OnceLock<HashMap<u32, String>> = OnceLock::new();
    NAMES.get_or_init(|| names(&fs::read_to_string("/etc/passwd").unwrap_or_default()))
}

fn groups() -> &'static HashMap<u32, String> {
    static NAMES: OnceLock<HashMap<u32, String>> = OnceLock::new();
    NAMES.get_or_init(|| names(&fs::read_to_string("/etc/group").unwrap_or_default()))
}

/// The names by number of a text in the form of `/etc/passwd` or `/etc/group`; the first name of a number
/// counts.
fn names(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(_), Some(Ok(id))) =
            (fields.next(), fields.next(), fields.next().map(str::parse))
        {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}

fn name_of(names: &HashMap<u32, String>, id: u32) -> String {
    names.get(&id).cloned().unwrap_or_else(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_number() {
        let names = names("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nbroken\nada:x:1000:1000::/:\n");
        assert_eq!(name_of(&names, 0), "root");
        assert_eq!(name_of(&names, 1000), "ada");
        assert_eq!(name_of(&names, 7), "7");
    }

    #[test]
    fn times_and_modes_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let file = File::create(&path).unwrap();
        let time = Timestamp(1_234_567_890_123_456_789);
        restore_file(&file, "4640", Some(time)).unwrap();
        let attributes = Attributes::of(&fs::metadata(&path).unwrap()).unwrap();
        assert_eq!((attributes.mtime, attributes.mode_text().as_str()), (time, "0640"));
        let link = directory.path().join("l");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        restore_link(&link, Some(time)).unwrap();
        assert_eq!(Attributes::of(&fs::symlink_metadata(&link).unwrap()).unwrap().mtime, time);
        restore_directory(directory.path(), "0700", Some(time)).unwrap();
        assert_eq!(Attributes::of(&fs::metadata(directory.path()).unwrap()).unwrap().mtime, time);
        // A file of 2300 was stored as one of 2262-04-11.
        let far = std::time::UNIX_EPOCH + std::time::Duration::from_secs(10_413_792_000);
        file.set_times(FileTimes::new().set_modified(far)).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.modified().unwrap(), far, "this file system keeps such times");
        assert_eq!(Attributes::of(&metadata), None);
    }
}
