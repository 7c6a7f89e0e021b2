//! An instance: the directory that holds one archive, its files, its lock, its keys.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::Crc32c;
use client::{Connection, INSTANCE_FILE, SERVER_FILE, ServerFile};
use config::FORMAT;
use serde::{Deserialize, Serialize};
use terminal::{Exit, Failure, Outcome, text};

/// Hashes of keys.
pub const KEYS_FILE: &str = "keys.toml";
/// Keys that admins have given out, beside [`KEYS_FILE`].
pub const ACCESS_KEYS_FILE: &str = "access-keys.toml";
/// The secret that macaroons are made with: 32 bytes, made at first use.
pub const MACAROONS_FILE: &str = "macaroon-secret";
/// Where the server writes down mounts, for reports only.
pub const LOG_DIRECTORY: &str = "log";
/// Locked by the running server.
const LOCK_FILE: &str = "lock";
/// How long a start waits for another server that holds the lock. The kernel closes the files of a killed one
/// once its memory is given back, which took a quarter of a second of a loaded one; a second server that was
/// started by mistake is told so soon enough.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often it looks meanwhile.
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);
/// The first line of [`INSTANCE_FILE`].
const MAGIC: &str = "kist-instance";
/// The longest instance or keys file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An instance's directory.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The directory, absolute.
    pub directory: PathBuf,
}

/// The lock of a running server; gone when it is dropped or the process ends.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
}

/// A key, of which only the hash is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The principal that it stands for.
    pub name: String,
    /// BLAKE3 of the key, 64 hexadecimal digits.
    pub blake3: String,
    /// When it was made.
    pub created: String,
}

/// `keys.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    format: u32,
    #[serde(default, rename = "key")]
    keys: Vec<Key>,
}

impl Instance {
    /// Whether there is an instance in `directory`.
    pub fn exists(directory: &Path) -> bool {
        client::is_instance(directory)
    }

    /// Opens the instance in `directory`. Refuses what is none, what is damaged, and what a newer Kist has
    /// written.
    pub fn open(directory: &Path) -> Outcome<Self> {
        let file = directory.join(INSTANCE_FILE);
        if !file.exists() {
            let message =
                format!("{0} is no instance of Kist: make one with: kist init {0}", directory.display());
            return Err(Failure::new(Exit::NotFound, message));
        }
        check_instance_file(&file, &read_bounded(&file)?)?;
        let directory = directory
            .canonicalize()
            .map_err(|error| Failure::io("opening the instance", directory, &error))?;
        Ok(Instance { directory })
    }

    /// The instance on this machine, for what reads its files.
    ///
    /// # Errors
    /// If there is none, which is explained if a server was named: such a command does not ask it. One that
    /// an option names may be another one's than what stands here.
    pub fn local(connection: &Connection) -> Outcome<Self> {
        let directory = connection.instance_directory();
        match connection.named_url() {
            Some(url) if connection.server.is_some() && connection.instance.is_none() => {
                let message = format!(
                    "this reads files of the instance and asks no server: run it where the server {url} \
                     runs, with --instance DIR and without --server"
                );
                Err(Failure::usage(message))
            }
            Some(url) if !Instance::exists(&directory) => {
                let message = format!(
                    "this reads files of the instance, and {} is none: run it where the server {url} \
                     runs, with --instance DIR",
                    directory.display()
                );
                Err(Failure::new(Exit::NotFound, message))
            }
            _ => Instance::open(&directory),
        }
    }

    /// The path of one of its files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Takes the lock of a running server; durable for as long as the value lives. A server that was killed
    /// or told to stop holds it until it is gone, so one that holds it is waited for, [`LOCK_WAIT`] at most;
    /// `tell` gets the sentence that says so.
    ///
    /// # Errors
    /// If another server holds it still.
    pub fn lock(&self, tell: impl FnOnce(&str)) -> Outcome<InstanceLock> {
        self.lock_within(LOCK_WAIT, tell)
    }

    fn lock_within(&self, patience: Duration, tell: impl FnOnce(&str)) -> Outcome<InstanceLock> {
        let path = self.path(LOCK_FILE);
        let options = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(|error| Failure::io("opening the lock", &path, &error))?;
        let (begun, mut tell) = (Instant::now(), Some(tell));
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(InstanceLock { _file: file }),
                Err(fs::TryLockError::WouldBlock) if begun.elapsed() < patience => {
                    if let Some(tell) = tell.take() {
                        let seconds = patience.as_secs();
                        tell(&format!(
                            "{} holds the lock: its end is waited for, {seconds} s at most",
                            self.other()
                        ));
                    }
                    std::thread::sleep(LOCK_LOOK_EVERY);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    let message = format!(
                        "{} runs on {}: an instance has one server; stop it first",
                        self.other(),
                        self.directory.display()
                    );
                    return Err(Failure::new(Exit::Refused, message));
                }
                Err(fs::TryLockError::Error(error)) => return Err(Failure::io("locking", &path, &error)),
            }
        }
    }

    /// The server that holds the lock, as far as its file tells.
    fn other(&self) -> String {
        let running = fs::read_to_string(self.path(SERVER_FILE)).ok();
        let running = running.and_then(|text| serde_json::from_str::<ServerFile>(&text).ok());
        let which = running.map(|server| format!(" (process {}, {})", server.pid, server.url));
        format!("another server{}", which.unwrap_or_default())
    }

    /// The keys.
    pub fn keys(&self) -> Outcome<Vec<Key>> {
        let file = self.path(KEYS_FILE);
        let wrong = |what: String| Failure::usage(format!("{}: {what}", file.display()));
        let keys: Keys = toml::from_str(&read_bounded(&file)?).map_err(|error| wrong(error.to_string()))?;
        if keys.format != FORMAT {
            return Err(wrong(format!("format {} is not known: this kist knows {FORMAT}", keys.format)));
        }
        for key in &keys.keys {
            if base::Blake3::parse(&key.blake3).is_none() {
                return Err(wrong(format!("key '{}': blake3 is not 64 hexadecimal digits", key.name)));
            }
        }
        Ok(keys.keys)
    }
}

/// Writes the file that makes `directory` an instance; durable on return.
pub fn write_instance_file(directory: &Path) -> Outcome {
    let body = format!("{MAGIC}\nformat = {FORMAT}\ncreated = {}\n", text::now());
    let sum = Crc32c::of(body.as_bytes());
    write_durable(&directory.join(INSTANCE_FILE), format!("{body}crc32c = {sum}\n").as_bytes(), 0o644)
}

/// Writes `keys.toml` with one key; durable on return. The key itself is not written.
pub fn write_keys(directory: &Path, name: &str, key: &str) -> Outcome {
    let entry = Key {
        name: name.to_owned(),
        blake3: base::Blake3::of(key.as_bytes()).to_string(),
        created: text::now().to_string(),
    };
    let keys = Keys { format: FORMAT, keys: vec![entry] };
    let body = toml::to_string(&keys).map_err(|error| Failure::internal(error.to_string()))?;
    let text =
        format!("# Keys of this instance: their BLAKE3 only, the keys themselves are nowhere.\n{body}");
    write_durable(&directory.join(KEYS_FILE), text.as_bytes(), 0o600)
}

/// A new key: `kist_` and 64 hexadecimal digits of randomness.
pub fn new_key() -> Outcome<String> {
    Ok(format!("kist_{}", text::hex(&text::random::<32>()?)))
}

/// Writes a file by temporary name, sync, rename and sync of the directory.
pub fn write_durable(path: &Path, bytes: &[u8], mode: u32) -> Outcome {
    try_write_durable(path, bytes, mode).map_err(|error| Failure::io("writing", path, &error))
}

/// As [`write_durable`], with the system's error.
pub fn try_write_durable(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let random = text::random::<8>().map_err(|error| std::io::Error::other(error.to_string()))?;
    let temporary = parent.join(format!(".{name}.{}", text::hex(&random)));
    let write = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(parent)?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

fn read_bounded(path: &Path) -> Outcome<String> {
    let failed = |error: std::io::Error| Failure::io("reading", path, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn check_instance_file(path: &Path, text: &str) -> Outcome {
    let wrong = |what: &str| Err(Failure::new(Exit::Differs, format!("{}: {what}", path.display())));
    let Some(rest) = text.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix('\n')) else {
        return wrong("this is not the file of an instance of Kist");
    };
    let value = |name: &str| rest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    // What is damaged has any format: it is believed behind the checksum only, which every format has last.
    let Some((body, sum)) = text.rsplit_once("crc32c = ") else { return wrong("it has no checksum") };
    if sum.trim_end() != Crc32c::of(body.as_bytes()).to_string() {
        return wrong("it is damaged: its checksum does not agree");
    }
    match value("format").and_then(|format| format.parse::<u32>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(format) => {
            let message = format!(
                "{}: the instance has format {format}, this kist knows format {FORMAT}: use a newer kist",
                path.display()
            );
            Err(Failure::new(Exit::Refused, message))
        }
        None => wrong("it names no format"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a start right after a kill -9 was refused, as the killed one had not let go of the lock yet.
    #[test]
    fn a_server_that_is_about_to_end_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let instance = Instance { directory: directory.path().to_owned() };
        let held = instance.lock(|_| panic!("nobody else runs")).unwrap();
        let mut told = String::new();
        let lock = instance.lock(|wait| {
            told = wait.to_owned();
            drop(held);
        });
        lock.unwrap();
        assert_eq!(told, "another server holds the lock: its end is waited for, 5 s at most");
    }

    #[test]
    fn the_instance_file_is_checked() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Instance::open(directory.path()).unwrap_err().exit, Exit::NotFound);
        write_instance_file(directory.path()).unwrap();
        Instance::open(directory.path()).unwrap();
        let file = directory.path().join(INSTANCE_FILE);
        let good = fs::read_to_string(&file).unwrap();
        // But for the line feed at the end, which says nothing.
        for bit in 0..(good.len() - 1) * 8 {
            let mut bytes = good.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &bytes).unwrap();
            let failure = Instance::open(directory.path()).unwrap_err();
            assert!(!failure.message.contains("newer kist"), "bit {bit}: {failure}");
        }
        let body = good.rsplit_once("crc32c = ").unwrap().0.replace("format = 1", "format = 2");
        fs::write(&file, format!("{body}crc32c = {}\n", Crc32c::of(body.as_bytes()))).unwrap();
        let failure = Instance::open(directory.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::Refused);
        assert!(failure.message.contains("newer kist"), "{failure}");
        fs::write(&file, good.replace("created = 2", "created = 3")).unwrap();
        assert_eq!(Instance::open(directory.path()).unwrap_err().exit, Exit::Differs);
    }

    #[test]
    fn one_lock_and_only_hashes_of_keys() {
        let directory = tempfile::tempdir().unwrap();
        write_instance_file(directory.path()).unwrap();
        let key = new_key().unwrap();
        write_keys(directory.path(), "admin", &key).unwrap();
        let instance = Instance::open(directory.path()).unwrap();
        let keys = instance.keys().unwrap();
        assert_eq!(keys[0].blake3, base::Blake3::of(key.as_bytes()).to_string());
        assert!(!fs::read_to_string(instance.path(KEYS_FILE)).unwrap().contains(&key));
        let lock = instance.lock_within(Duration::ZERO, |_| {}).unwrap();
        assert_eq!(instance.lock_within(Duration::ZERO, |_| {}).unwrap_err().exit, Exit::Refused);
        drop(lock);
        instance.lock_within(Duration::ZERO, |_| {}).unwrap();
    }
}
