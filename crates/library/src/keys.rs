//! Where the keys of tapes come from: a file, or a program. A key is read when it is needed, and not kept.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use base::{KeyCheck, KeyId, TapeKey};
use rustix::event::{PollFd, PollFlags, Timespec};
use zeroize::{Zeroize, Zeroizing};

use crate::encryption::{EncryptionKey, KeyIdentity, TapeEncryption};

/// The longest file of keys that is read: room for ten thousand of them.
pub const KEY_FILE_BYTES_MAX: u64 = 1 << 20;
/// A program that gives keys has so long for each: a drive waits meanwhile.
pub const KEY_COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// The most that such a program may print: a key in hex with white space around it.
pub const KEY_COMMAND_BYTES_MAX: usize = 256;
/// Digits of a key in hex.
const HEX_DIGITS: usize = 2 * EncryptionKey::BYTES;

/// Where keys come from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeySource {
    /// A file with a key a line: its id, white space, 64 hex digits; `#` begins a comment.
    File(PathBuf),
    /// A program that gets the id as its only argument and prints the 64 hex digits of the key.
    Command(PathBuf),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "file:{}", path.display()),
            KeySource::Command(path) => write!(f, "command:{}", path.display()),
        }
    }
}

/// Why a source gives no key. No text has anything of a key in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySourceError {
    /// It cannot be opened, read or started.
    #[error("{what}: {why}")]
    Unreadable {
        /// The source.
        what: KeySource,
        /// Why.
        why: String,
    },
    /// It is no regular file that only its owner can read.
    #[error("{} is not a regular file that only its owner can read: chmod 0600 (or 0400)", .0.display())]
    NotPrivate(PathBuf),
    /// It has no such key.
    #[error("{0} does not have it")]
    Missing(KeySource),
    /// What it has is no key.
    #[error("{what}: {where_} is no key: an id, then 64 hex digits, each id once")]
    Malformed {
        /// The source.
        what: KeySource,
        /// Which part of it.
        where_: String,
    },
    /// What the program prints is no key.
    #[error("{0}: what it prints is no key: 64 hex digits and nothing else")]
    NoKeyPrinted(KeySource),
    /// The program took too long.
    #[error("{0} has given nothing for {secs} s", secs = KEY_COMMAND_TIME_MAX.as_secs())]
    Late(KeySource),
    /// The program failed.
    #[error("{what} failed: {status}")]
    Failed {
        /// The source.
        what: KeySource,
        /// How it ended.
        status: String,
    },
}

/// Why a tape's key cannot be had, or is not what it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No source gives it.
    #[error("key {id} cannot be had: {why}; give it there under this id")]
    NotGiven {
        /// The key.
        id: KeyId,
        /// What the source says that was asked first.
        why: KeySourceError,
    },
    /// `kist.toml` names no keys at all.
    #[error(
        "key {0} cannot be had: no tape pool of kist.toml has keys; say in one where they come from, and \
         restart"
    )]
    NoSource(KeyId),
    /// A source has another key under its id than the tapes were written with.
    #[error(
        "key {key} cannot be had: {source_} has another key under this id, with check value {found}; give \
         the one that tapes were written with, and the other one another id"
    )]
    Wrong {
        /// The key that is needed.
        key: TapeKey,
        /// Who has another one.
        source_: KeySource,
        /// What that one is.
        found: KeyCheck,
    },
    /// What stands beside the blocks on the tape is no key that Kist gives.
    #[error("what is on it is encrypted with a key that Kist has not given ('{0}')")]
    NotOurs(String),
    /// The tape is encrypted otherwise than the catalogue says.
    #[error("what is on it is encrypted with {found}, the catalogue says key {known}")]
    Differs {
        /// On tape.
        found: String,
        /// In the catalogue.
        known: TapeKey,
    },
}

impl KeyError {
    /// Whether somebody has to give a key, and nothing is wrong with the tape.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.missing().is_some()
    }

    /// Whether nobody has said that there is no such key: a source could not be asked, and may give it later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, KeyError::NotGiven { why, .. } if !matches!(why, KeySourceError::Missing(_)))
    }

    /// The key that somebody has to give; `None`: that is not what is wrong.
    #[must_use]
    pub fn missing(&self) -> Option<&KeyId> {
        match self {
            KeyError::NotGiven { id, .. } | KeyError::NoSource(id) => Some(id),
            KeyError::Wrong { key, .. } => Some(&key.id),
            KeyError::NotOurs(_) | KeyError::Differs { .. } => None,
        }
    }
}

impl KeySource {
    /// Asks for a key.
    ///
    /// # Errors
    /// [`KeySourceError`].
    pub fn key(&self, id: &KeyId) -> Result<EncryptionKey, KeySourceError> {
        match self {
            KeySource::File(path) => self.of_file(path, id),
            KeySource::Command(path) => self.of_command(path, id),
        }
    }

    /// Looks whether it can give keys: a file is read, and must have `key`; a program must be there and may
    /// be started, but is not. `owner`: who may have the file besides those who may always: whoever looks may
    /// be another user than the server.
    ///
    /// # Errors
    /// [`KeySourceError`].
    pub fn check(&self, key: Option<&KeyId>, owner: u32) -> Result<(), KeySourceError> {
        match (self, key) {
            (KeySource::File(path), wanted) => {
                let bytes = self.bytes_of_file(path, Some(owner))?;
                let mut ids = BTreeSet::new();
                self.for_each_key(&bytes, |id, _| ids.insert(id))?;
                match wanted.is_none_or(|wanted| ids.contains(wanted)) {
                    true => Ok(()),
                    false => Err(KeySourceError::Missing(self.clone())),
                }
            }
            (KeySource::Command(path), _) => {
                let is_file = std::fs::metadata(path).map_err(|error| self.unreadable(&error))?.is_file();
                let started = match is_file {
                    true => rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(Into::into),
                    false => Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)),
                };
                started.map_err(|error: std::io::Error| self.unreadable(&error))
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> KeySourceError {
        KeySourceError::Unreadable { what: self.clone(), why: error.to_string() }
    }

    fn of_file(&self, path: &Path, id: &KeyId) -> Result<EncryptionKey, KeySourceError> {
        let bytes = self.bytes_of_file(path, None)?;
        let mut found = None;
        // Two of one name: nobody knows which one the tapes have.
        self.for_each_key(&bytes, |name, key| name != *id || found.replace(key).is_none())?;
        found.ok_or_else(|| KeySourceError::Missing(self.clone()))
    }

    /// All of a file that only root, who asks, or `owner` may read.
    fn bytes_of_file(&self, path: &Path, owner: Option<u32>) -> Result<Zeroizing<Vec<u8>>, KeySourceError> {
        let io = |error| self.unreadable(&error);
        // Not to wait for somebody who writes to a pipe in its place.
        let flags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::CLOEXEC).bits();
        let flags = i32::try_from(flags).unwrap_or_default();
        let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io)?;
        // Of the file that is open, not of the name, under which another one may stand by now.
        let known = file.metadata().map_err(io)?;
        let is_ours =
            [0, rustix::process::geteuid().as_raw()].contains(&known.uid()) || owner == Some(known.uid());
        if !known.is_file() || known.mode() & 0o177 != 0 || !is_ours {
            return Err(KeySourceError::NotPrivate(path.to_owned()));
        }
        // Of its full size from the start: a buffer that grows leaves copies behind.
        let room = usize::try_from(known.len().min(KEY_FILE_BYTES_MAX)).unwrap_or_default() + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        file.take(room as u64).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() >= room {
            let why = format!("it is longer than {KEY_FILE_BYTES_MAX} bytes, or grows");
            return Err(KeySourceError::Unreadable { what: self.clone(), why });
        }
        Ok(bytes)
    }

    /// Gives each key of a file's lines; `false`: its line is malformed.
    fn for_each_key(
        &self,
        bytes: &[u8],
        mut take: impl FnMut(KeyId, EncryptionKey) -> bool,
    ) -> Result<(), KeySourceError> {
        let malformed =
            |line: usize| KeySourceError::Malformed { what: self.clone(), where_: format!("line {line}") };
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
            if line.is_empty() {
                continue;
            }
            let at = line.iter().position(u8::is_ascii_whitespace).ok_or_else(|| malformed(number))?;
            let (name, digits) = line.split_at(at);
            let name = std::str::from_utf8(name).ok().and_then(|name| KeyId::new(name).ok());
            let name = name.ok_or_else(|| malformed(number))?;
            let key = key_of_hex(digits.trim_ascii()).ok_or_else(|| malformed(number))?;
            if !take(name, key) {
                return Err(malformed(number));
            }
        }
        Ok(())
    }

    fn of_command(&self, path: &Path, id: &KeyId) -> Result<EncryptionKey, KeySourceError> {
        let io = |error: std::io::Error| self.unreadable(&error);
        let mut child = Command::new(path)
            .arg(id.as_str())
            // The server's secrets, if it has some there, are none of its business.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|paths| ("PATH", paths)))
            // So that what it started itself ends with it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It may say anything, a key too: nobody reads it.
            .stderr(Stdio::null())
            .spawn()
            .map_err(io)?;
        let Some(output) = child.stdout.take() else {
            end(child);
            return Err(KeySourceError::Missing(self.clone()));
        };
        let malformed = || KeySourceError::NoKeyPrinted(self.clone());
        let mut printed = Printed { output, bytes: Zeroizing::new(Vec::new()), is_over: false };
        printed.bytes.reserve_exact(KEY_COMMAND_BYTES_MAX + 1);
        let status = match printed.until_it_ends(&mut child) {
            Ok(Some(status)) => status,
            Ok(None) => {
                end(child);
                return Err(match printed.bytes.len() > KEY_COMMAND_BYTES_MAX {
                    true => malformed(),
                    false => KeySourceError::Late(self.clone()),
                });
            }
            Err(error) => {
                end(child);
                return Err(io(error));
            }
        };
        if !status.success() {
            return Err(KeySourceError::Failed { what: self.clone(), status: status.to_string() });
        }
        key_of_hex(printed.bytes.trim_ascii()).ok_or_else(malformed)
    }
}

/// What a program prints, as far as it counts.
struct Printed {
    output: ChildStdout,
    bytes: Zeroizing<Vec<u8>>,
    /// It has closed its output, or printed more than a key has.
    is_over: bool,
}

impl Printed {
    /// Reads until the program ends, and tells how; `None`: it has not ended in time, or prints without end.
    /// Who else has the other end of the pipe may never let go of it: nobody waits for that.
    fn until_it_ends(&mut self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        let mut left = KEY_COMMAND_TIME_MAX;
        loop {
            // Before it is read: what it printed is in the pipe by then.
            let ended = child.try_wait()?;
            while self.read_some()? {}
            if ended.is_some() {
                return Ok(ended);
            }
            if left.is_zero() || self.bytes.len() > KEY_COMMAND_BYTES_MAX {
                return Ok(None);
            }
            std::thread::sleep(STEP);
            left = left.saturating_sub(STEP);
        }
    }

    /// Reads what is there without waiting; `false`: nothing is, or nothing more counts.
    fn read_some(&mut self) -> std::io::Result<bool> {
        let room = (KEY_COMMAND_BYTES_MAX + 1).saturating_sub(self.bytes.len());
        let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if room == 0 || self.is_over || rustix::event::poll(&mut ready, Some(&now))? == 0 {
            return Ok(false);
        }
        let mut piece = Zeroizing::new([0_u8; KEY_COMMAND_BYTES_MAX + 1]);
        let read = self.output.read(piece.get_mut(..room).unwrap_or_default())?;
        self.is_over = read == 0;
        self.bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
        Ok(!self.is_over)
    }
}

/// How often a program is looked at.
const STEP: Duration = Duration::from_millis(10);

/// Ends a program that did not end itself, with all that it started. One that a system call holds ends when
/// that lets go of it: a thread of its own waits for that.
fn end(mut child: Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    if !matches!(child.try_wait(), Ok(Some(_))) {
        let _ = std::thread::Builder::new().name("key-command".to_owned()).spawn(move || child.wait());
    }
}

/// The key of 64 hex digits.
fn key_of_hex(digits: &[u8]) -> Option<EncryptionKey> {
    if digits.len() != HEX_DIGITS {
        return None;
    }
    let mut secret = [0u8; EncryptionKey::BYTES];
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| (*pair.get(at)? as char).to_digit(16);
        let value = digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        let Some(value) = value else {
            secret.zeroize();
            return None;
        };
        *byte = value;
    }
    let key = EncryptionKey::new(secret);
    secret.zeroize();
    Some(key)
}

/// The sources of all keys of an instance. A key that a pool's own source does not have may be in another
/// one's: tapes outlive what `kist.toml` says of their pool.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TapeKeys {
    sources: Vec<KeySource>,
}

impl TapeKeys {
    /// Keys of these sources, asked in this order.
    #[must_use]
    pub fn of<'a>(sources: impl IntoIterator<Item = &'a KeySource>) -> Self {
        let mut all: Vec<KeySource> = Vec::new();
        for source in sources {
            if !all.contains(source) {
                all.push(source.clone());
            }
        }
        TapeKeys { sources: all }
    }

    /// Whether there is no source: no tape of this instance needs a key, as far as `kist.toml` says.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// How tapes are encrypted and decrypted with the key of this id; `first` is asked before all others.
    /// `check`: what the key must be, so that another one under its id is found before anything is read or
    /// written with it; `None`: no tape has it yet.
    ///
    /// # Errors
    /// [`KeyError::NotGiven`], [`KeyError::NoSource`], [`KeyError::Wrong`].
    pub fn find(
        &self,
        id: &KeyId,
        check: Option<KeyCheck>,
        first: Option<&KeySource>,
    ) -> Result<TapeEncryption, KeyError> {
        let others = self.sources.iter().filter(|source| Some(*source) != first);
        let (mut why, mut wrong) = (None, None);
        for source in first.into_iter().chain(others) {
            match (source.key(id), check) {
                (Ok(key), Some(wanted)) if key.check() != wanted => {
                    wrong = wrong.or(Some((source.clone(), key.check(), wanted)));
                }
                (Ok(key), _) => return encryption(key, id),
                (Err(error), _) => why = why.or(Some(error)),
            }
        }
        Err(match (wrong, why) {
            (Some((source_, found, check)), _) => {
                KeyError::Wrong { key: TapeKey { id: id.clone(), check }, source_, found }
            }
            (None, Some(why)) => KeyError::NotGiven { id: id.clone(), why },
            (None, None) => KeyError::NoSource(id.clone()),
        })
    }
}

/// The id stands as unauthenticated key-associated data beside each block, the check value in hex as
/// authenticated: digits, since a drive that fills up with 0 takes a 0 at the end for its own.
fn encryption(key: EncryptionKey, id: &KeyId) -> Result<TapeEncryption, KeyError> {
    let check = key.check().to_string();
    let identity = KeyIdentity::new(id.as_str().as_bytes(), check.as_bytes());
    let identity = identity.ok_or_else(|| KeyError::NotOurs(id.to_string()))?;
    Ok(TapeEncryption::of(key, identity))
}

/// The key as it stands beside the blocks on tape.
///
/// # Errors
/// [`KeyError::NotOurs`].
pub fn key_on_tape(identity: &KeyIdentity) -> Result<TapeKey, KeyError> {
    let id = std::str::from_utf8(identity.unauthenticated()).ok().and_then(|text| KeyId::new(text).ok());
    let check = std::str::from_utf8(identity.authenticated()).ok().and_then(KeyCheck::parse);
    let key = id.zip(check).map(|(id, check)| TapeKey { id, check });
    key.ok_or_else(|| KeyError::NotOurs(identity.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn id(text: &str) -> KeyId {
        KeyId::new(text).unwrap()
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_gives_its_keys_and_is_refused_if_others_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let source = KeySource::File(path.clone());
        assert!(matches!(source.key(&id("a")), Err(KeySourceError::Unreadable { .. })));
        let (one, two) = ("0f".repeat(32), "Ab".repeat(32));
        write(&path, &format!("# all keys\n\na {one}\n  b\t{two}  # of 2026\n"), 0o600);
        assert_eq!(source.key(&id("a")).unwrap().secret(), &[0x0f; 32]);
        assert_eq!(source.key(&id("b")).unwrap().secret(), &[0xab; 32]);
        assert_eq!(source.key(&id("c")), Err(KeySourceError::Missing(source.clone())));
        for mode in [0o640, 0o604, 0o660, 0o700] {
            write(&path, &format!("a {one}\n"), mode);
            assert_eq!(source.key(&id("a")), Err(KeySourceError::NotPrivate(path.clone())), "{mode:o}");
        }
        write(&path, &format!("a {one}\n"), 0o400);
        source.key(&id("a")).unwrap();
        let of_directory = KeySource::File(directory.path().to_owned());
        assert!(matches!(of_directory.key(&id("a")), Err(KeySourceError::NotPrivate(_))));
    }

    /// Story: a configuration was called good whose key file was absent, or could be read by all, and whose
    /// program could not be started.
    #[test]
    fn a_source_is_looked_at_before_it_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = (directory.path().join("keys"), "0f".repeat(32));
        let file = KeySource::File(path.clone());
        let check = |wanted: Option<&str>| file.check(wanted.map(id).as_ref(), 0);
        assert!(matches!(check(None), Err(KeySourceError::Unreadable { .. })));
        write(&path, &format!("a {key}\n"), 0o644);
        assert_eq!(check(None), Err(KeySourceError::NotPrivate(path.clone())));
        write(&path, &format!("a {key}\n"), 0o600);
        assert_eq!((check(None), check(Some("a"))), (Ok(()), Ok(())));
        assert_eq!(check(Some("b")), Err(KeySourceError::Missing(file.clone())));
        for bad in [format!("a {key}\nb 00\n"), format!("a {key}\na {key}\n")] {
            write(&path, &bad, 0o600);
            assert!(matches!(check(Some("a")), Err(KeySourceError::Malformed { .. })), "{bad}");
        }

        let program = directory.path().join("program");
        let command = KeySource::Command(program.clone());
        assert!(matches!(command.check(None, 0), Err(KeySourceError::Unreadable { .. })), "absent");
        let started = directory.path().join("started");
        write(&program, &format!("#!/bin/sh\ntouch {}\n", started.display()), 0o600);
        let error = command.check(Some(&id("a")), 0).unwrap_err().to_string();
        assert!(error.contains("ermission denied"), "{error}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(command.check(Some(&id("a")), 0), Ok(()));
        assert!(!started.exists(), "it is not asked for a key");
        let of_directory = KeySource::Command(directory.path().to_owned());
        assert!(of_directory.check(None, 0).is_err());
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let source = KeySource::File(path.clone());
        let good = "0f".repeat(32);
        for bad in [
            format!("a {}", &good[1..]),
            format!("a {good}0"),
            format!("a x{}", &good[1..]),
            "a".to_owned(),
            format!("a/b {good}"),
            format!("a {good}\na {good}"),
        ] {
            let _ = fs::remove_file(&path);
            write(&path, &bad, 0o600);
            let error = source.key(&id("a")).unwrap_err();
            assert!(matches!(error, KeySourceError::Malformed { .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("f0f0"), "{error}");
        }
        let _ = fs::remove_file(&path);
        write(&path, &"#".repeat(KEY_FILE_BYTES_MAX as usize + 1), 0o600);
        assert!(source.key(&id("a")).unwrap_err().to_string().contains("longer"));
    }

    #[test]
    fn a_program_gives_a_key_for_its_id_and_nothing_else_counts() {
        let directory = tempfile::tempdir().unwrap();
        let run = |name: &str, text: &str| {
            let path = directory.path().join(name);
            write(&path, &format!("#!/bin/sh\n{text}\n"), 0o700);
            loop {
                // Another test that begins a program just now may have the script open for writing.
                match KeySource::Command(path.clone()).key(&id("a")) {
                    Err(KeySourceError::Unreadable { why, .. }) if why.contains("busy") => {}
                    given => return given,
                }
            }
        };
        let digits = "0f".repeat(32);
        let given = run("good", &format!("[ \"$#$1\" = 1a ] && echo {digits}"));
        assert_eq!(given.unwrap().secret(), &[0x0f; 32]);
        let failed = run("failed", &format!("echo {digits}; exit 3")).unwrap_err();
        assert!(matches!(failed, KeySourceError::Failed { .. }) && failed.to_string().contains('3'));
        assert!(matches!(run("none", "exit 0"), Err(KeySourceError::NoKeyPrinted(_))));
        let endless = run("endless", "while true; do echo 0f0f0f0f; done");
        assert!(matches!(endless, Err(KeySourceError::Failed { .. } | KeySourceError::NoKeyPrinted(_))));
        // Story: a wrapper that starts an agent, which keeps the wrapper's output open, was late each time
        // although it had printed the key. The agent stays: a wrapper starts it so that it does.
        let agent = run("agent", &format!("sleep 15 & echo {digits}"));
        assert_eq!(agent.unwrap().secret(), &[0x0f; 32]);
        let absent = KeySource::Command(directory.path().join("absent"));
        assert!(matches!(absent.key(&id("a")), Err(KeySourceError::Unreadable { .. })));
    }

    #[test]
    fn the_pools_own_source_is_asked_first_and_others_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let source = |name: &str, text: String| {
            let path = directory.path().join(name);
            write(&path, &text, 0o600);
            KeySource::File(path)
        };
        let one = source("one", format!("a {}\n", "01".repeat(32)));
        let two = source("two", format!("a {}\nb {}\n", "02".repeat(32), "03".repeat(32)));
        let keys = TapeKeys::of([&one, &two, &one]);
        let secret = |name: &str, first| keys.find(&id(name), None, first).map(|set| *set.key.secret());
        assert_eq!(secret("a", None), Ok([1; 32]));
        assert_eq!(secret("a", Some(&two)), Ok([2; 32]));
        assert_eq!(secret("b", Some(&one)), Ok([3; 32]));
        let none = secret("c", Some(&two)).unwrap_err();
        assert_eq!(none, KeyError::NotGiven { id: id("c"), why: KeySourceError::Missing(two.clone()) });
        assert_eq!(TapeKeys::default().find(&id("a"), None, None), Err(KeyError::NoSource(id("a"))));
        let found = keys.find(&id("a"), None, None).unwrap();
        let key = TapeKey { id: id("a"), check: found.key.check() };
        assert_eq!(key_on_tape(&found.identity), Ok(key.clone()));
        for identity in
            [KeyIdentity::new(b"a", b"b"), KeyIdentity::new(b"a", b""), KeyIdentity::new(b"", b"")]
        {
            assert!(matches!(key_on_tape(&identity.unwrap()), Err(KeyError::NotOurs(_))));
        }
        // The right one of two under the same id is found, and a wrong one is never given.
        let other = keys.find(&id("a"), None, Some(&two)).unwrap();
        assert_ne!(other.key.check(), key.check);
        assert_eq!(keys.find(&id("a"), Some(key.check), Some(&two)), Ok(found));
        let only_two = TapeKeys::of([&two]);
        let wrong = KeyError::Wrong { key: key.clone(), source_: two.clone(), found: other.key.check() };
        assert_eq!(only_two.find(&id("a"), Some(key.check), None), Err(wrong));
    }
}
