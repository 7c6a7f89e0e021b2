//! One more drive of the pool in `kist.toml`, which stays as its operator wrote it otherwise.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use archive::{DriveFileError, DriveLocation, NameDrive, PoolDriveFile, PoolDriveSettings};
use toml::Spanned;

use super::check::{load_text, read_text};
use super::file::{Config, PoolDrive};

/// Beside the file while it is written; what a crash leaves of it is written over by the next.
const NEW_SUFFIX: &str = ".new";

/// The `kist.toml` of a running server.
pub struct DriveFile {
    file: PathBuf,
    /// Relative paths in it are below this directory.
    directory: PathBuf,
}

impl DriveFile {
    /// The file, and the instance's directory.
    #[must_use]
    pub fn new(file: PathBuf, directory: PathBuf) -> Self {
        DriveFile { file, directory }
    }

    /// Its path, as short as it may be; `None` if it cannot be written as text.
    fn path_of(&self, at: &DriveLocation) -> Option<String> {
        let DriveLocation::Directory(path) = at else { return Some(at.to_string()) };
        let below = path.strip_prefix(&self.directory).ok().filter(|rest| !rest.as_os_str().is_empty());
        Some(below.unwrap_or(path).to_str()?.to_owned())
    }

    fn entry(&self, drive: &PoolDriveSettings) -> Option<(String, PoolDrive)> {
        let path = self.path_of(&drive.at)?;
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut entry = format!("\n[[pool.drives]]\nid = {}\npath = {}\n", drive.id, quoted(&path));
        // Writing into a String cannot fail.
        if let Some(host) = &drive.host {
            let _ = writeln!(entry, "host = {}", quoted(host));
        }
        let _ = writeln!(entry, "enclosure = {}", quoted(&drive.enclosure));
        let group = !drive.group.is_empty();
        if group {
            let _ = writeln!(entry, "group = {}", quoted(&drive.group));
        }
        let parsed = PoolDrive {
            id: Spanned::new(0..0, drive.id),
            path: Spanned::new(0..0, path.into()),
            host: drive.host.clone(),
            enclosure: drive.enclosure.clone(),
            group: group.then(|| Spanned::new(0..0, drive.group.clone())),
        };
        Some((entry, parsed))
    }
}

impl PoolDriveFile for DriveFile {
    fn drives(&self) -> Result<Vec<PoolDriveSettings>, DriveFileError> {
        let text = read_text(&self.file).map_err(wrong)?;
        let config = load_text(&self.file, &text).map_err(wrong)?;
        Ok(config.settings(&self.directory).pool.drives)
    }

    fn prepare(&self, drive: &PoolDriveSettings) -> Result<NameDrive, DriveFileError> {
        let before = read_text(&self.file).map_err(wrong)?;
        let config = load_text(&self.file, &before).map_err(wrong)?;
        let no_text = || DriveFileError::Wrong(format!("{}: the path is no UTF-8", drive.at));
        let (entry, parsed) = self.entry(drive).ok_or_else(no_text)?;
        let by_hand = || DriveFileError::ByHand { file: self.file.clone(), entry: entry.clone() };
        let after = with_entry(&before, &config, &entry);
        // Whatever was written in whatever form: the new text says the same, and one drive more.
        let mut expected = config;
        expected.pool.drives.push(parsed);
        let has_drives = |found: &Config| {
            let mut found = found.clone();
            found.pool.drives.sort_by_key(|drive| *drive.id.get_ref());
            toml::to_string(&found).ok()
        };
        let found = load_text(&self.file, &after).map_err(|_| by_hand())?;
        if has_drives(&found).is_none() || has_drives(&found) != has_drives(&expected) {
            return Err(by_hand());
        }
        let prepared = Prepared::write(&self.file, before, after);
        let file = self.file.clone();
        let failed = move |source| DriveFileError::Io { file: file.clone(), entry: entry.clone(), source };
        let prepared = prepared.map_err(failed.clone())?;
        Ok(Box::new(move || prepared.put().map_err(failed)))
    }
}

fn wrong(error: super::ConfigError) -> DriveFileError {
    DriveFileError::Wrong(error.to_string())
}

/// The text with an entry behind that of the last drive, and before the comments of what follows it.
fn with_entry(text: &str, config: &Config, entry: &str) -> String {
    let drives = config.pool.drives.iter();
    let last = drives.map(|drive| drive.id.span().end.max(drive.path.span().end)).max().unwrap_or(0);
    let mut lines = text.get(last..).unwrap_or_default().split_inclusive('\n');
    let mut at = last + lines.next().map_or(0, str::len);
    let mut next = at;
    for line in lines {
        let words = line.trim_start();
        if words.starts_with('[') {
            break;
        }
        next += line.len();
        // What other keys the drive has.
        if !words.is_empty() && !words.starts_with('#') {
            at = next;
        }
    }
    let (head, tail) = text.split_at(at);
    let newline = if head.ends_with('\n') || head.is_empty() { "" } else { "\n" };
    format!("{head}{newline}{entry}{tail}")
}

/// The new text, durable beside the file that it is for.
struct Prepared {
    file: PathBuf,
    new: PathBuf,
    before: String,
}

impl Prepared {
    fn write(file: &Path, before: String, after: String) -> io::Result<Self> {
        // Of a link, what it leads to: it stays a link.
        let file = file.canonicalize()?;
        let mut name = file.as_os_str().to_owned();
        name.push(NEW_SUFFIX);
        let prepared = Prepared { new: PathBuf::from(name), file, before };
        let permissions = fs::metadata(&prepared.file)?.permissions();
        let options =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&prepared.new);
        let mut new = options?;
        new.write_all(after.as_bytes())?;
        new.set_permissions(permissions)?;
        new.sync_all()?;
        Ok(prepared)
    }

    /// Puts it in the place of the file, durably.
    fn put(self) -> io::Result<()> {
        if fs::read_to_string(&self.file)? != self.before {
            return Err(io::Error::other("it was changed meanwhile"));
        }
        fs::rename(&self.new, &self.file)?;
        let parent = self.file.parent().unwrap_or(Path::new("/"));
        File::open(parent)?.sync_all()
    }
}

impl Drop for Prepared {
    /// What was not put is not left there.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.new);
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::{Template, write};
    use super::*;

    struct Bench(tempfile::TempDir);

    impl Bench {
        fn new(text: &str) -> Self {
            let bench = Bench(tempfile::tempdir().unwrap());
            fs::write(bench.path(), text).unwrap();
            bench
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("kist.toml")
        }

        fn file(&self) -> DriveFile {
            DriveFile::new(self.path(), self.0.path().to_owned())
        }

        fn text(&self) -> String {
            fs::read_to_string(self.path()).unwrap()
        }

        fn drive(&self, id: u16, path: &str) -> PoolDriveSettings {
            let at = DriveLocation::Directory(self.0.path().join(path));
            PoolDriveSettings { id, at, host: None, enclosure: String::new(), group: String::new() }
        }

        fn files(&self) -> usize {
            fs::read_dir(self.0.path()).unwrap().count()
        }
    }

    #[test]
    fn all_that_was_written_stays_and_the_new_drive_stands_behind_the_others() {
        let text = write(&Template::default());
        let last = "path = \"pool/d7\"\nenclosure = \"\"\n";
        assert!(text.contains(last));
        let text =
            text.replace(last, &format!("# the slow one\n{last}host = \"b\" # says Ann\n\n# what follows\n"));
        let bench = Bench::new(&text);
        let name = bench.file().prepare(&bench.drive(8, "pool/d8")).unwrap();
        assert_eq!(bench.text(), text, "nothing is changed before it is said");
        name().unwrap();
        let entry = "\n[[pool.drives]]\nid = 8\npath = \"pool/d8\"\nenclosure = \"\"\n";
        assert_eq!(bench.text(), text.replace("# says Ann\n", &format!("# says Ann\n{entry}")));
        assert_eq!(bench.files(), 1);
        let elsewhere = PoolDriveSettings {
            host: Some("store \"2\"".into()),
            enclosure: "jbod-1".into(),
            ..bench.drive(9, "/mnt/a b\\c")
        };
        bench.file().prepare(&elsewhere).unwrap()().unwrap();
        let drives = bench.file().drives().unwrap();
        assert_eq!(drives[8..], [bench.drive(8, "pool/d8"), elsewhere]);
    }

    #[test]
    fn a_file_without_an_end_of_its_last_line_or_with_its_drives_last_gets_it_too() {
        let text = write(&Template::default());
        let at = text.find("\n[[pool.drives]]").unwrap();
        let end = text[at..].find("\n[library]").map_or(text.len(), |end| at + end);
        let before_header = text[..end].rfind("enclosure = \"\"\n").unwrap() + "enclosure = \"\"\n".len();
        let (drives, rest) = (&text[at..before_header], &text[before_header..]);
        let moved = format!("{}{rest}{}", &text[..at], drives.trim_end());
        for text in [moved.clone(), format!("{moved}\n\n# the end"), moved.replace('\n', "\r\n")] {
            let bench = Bench::new(&text);
            bench.file().prepare(&bench.drive(8, "pool/d8")).unwrap()().unwrap();
            assert_eq!(bench.file().drives().unwrap().len(), 9);
            assert!(bench.text().starts_with(moved.lines().next().unwrap()));
        }
    }

    #[test]
    fn what_cannot_be_done_by_adding_lines_is_left_to_its_operator() {
        let text = write(&Template::default());
        let first = text.find("\n[[pool.drives]]").unwrap();
        let last = text.rfind("[[pool.drives]]").unwrap();
        let end = last + text[last..].find("enclosure = \"\"\n").unwrap() + "enclosure = \"\"\n".len();
        let inline: Vec<String> = (0..8).map(|n| format!("{{ id = {n}, path = \"pool/d{n}\" }}")).collect();
        let inline = format!("\ndrives = [{}]\n", inline.join(", "));
        let text = format!("{}{inline}{}", &text[..first], &text[end..]);
        let bench = Bench::new(&text);
        assert_eq!(bench.file().drives().unwrap().len(), 8);
        let error = bench.file().prepare(&bench.drive(8, "pool/d8")).err().unwrap();
        assert!(
            matches!(&error, DriveFileError::ByHand { entry, .. } if entry.contains("id = 8")),
            "{error}"
        );
        assert_eq!((bench.text(), bench.files()), (text, 1));
    }

    #[test]
    fn what_was_changed_meanwhile_is_not_written_over_and_a_wrong_file_is_not_touched() {
        let bench = Bench::new(&write(&Template::default()));
        let name = bench.file().prepare(&bench.drive(8, "pool/d8")).unwrap();
        let changed = format!("{}\n# somebody else\n", bench.text());
        fs::write(bench.path(), &changed).unwrap();
        let error = name().unwrap_err().to_string();
        assert!(error.contains("changed meanwhile") && error.contains("id = 8"), "{error}");
        assert_eq!((bench.text(), bench.files()), (changed, 1));
        fs::write(bench.path(), "format = 1\nparity = \"x\"\n").unwrap();
        assert!(matches!(bench.file().drives(), Err(DriveFileError::Wrong(_))));
        assert!(matches!(bench.file().prepare(&bench.drive(8, "d8")), Err(DriveFileError::Wrong(_))));
        // A number or a path that is there already is wrong too.
        let bench = Bench::new(&write(&Template::default()));
        assert!(bench.file().prepare(&bench.drive(7, "pool/d8")).is_err());
        assert!(bench.file().prepare(&bench.drive(8, "pool/d7")).is_err());
        assert_eq!(bench.files(), 1);
    }
}
