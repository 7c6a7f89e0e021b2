//! Keys that admins give out: bearer keys, of which only a hash is kept, and access keys that sign requests.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use base::{Blake3, Duration, Timestamp};
use identity::{Caller, How, NAME_BYTES_MAX, same};
use serde::{Deserialize, Serialize};
use threads::Mutex;

use crate::secret_file::save;

/// The format of the file.
const FORMAT: u32 = 1;
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most keys.
pub const KEYS_MAX: usize = 10_000;
/// The most groups of a key.
pub const KEY_GROUPS_MAX: usize = 64;
/// The longest that a key may be valid, if it ends at all: a hundred years.
const EXPIRES_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// What a key is to be.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyRequest {
    /// Whom it stands for.
    pub name: String,
    /// Their groups.
    pub groups: Vec<String>,
    /// Whether it is an admin's.
    pub is_admin: bool,
    /// Whether everything may be looked at.
    pub is_operator: bool,
    /// When it ends.
    pub expires_after: Option<Duration>,
    /// Whether it signs requests (S3); otherwise it is borne.
    pub signs: bool,
}

/// A key as it is listed: without its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyInfo {
    /// Its id; of a signing key the access key id.
    pub id: String,
    /// What it was asked to be; `expires_after` is left out.
    pub request: KeyRequest,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// Whether it was disabled.
    pub is_disabled: bool,
}

/// A key that was just made. The secret is shown this once.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The key.
    pub info: KeyInfo,
    /// Its secret.
    pub secret: String,
}

/// A key with which requests are signed.
#[derive(Clone)]
pub struct AccessKey {
    /// What signatures are made with.
    pub secret: String,
    /// Whose it is.
    pub caller: Arc<Caller>,
}

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("{path}: {source}: nothing was changed", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is malformed.
    #[error("{path}: {reason}", path = .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// The name or a group is none.
    #[error("'{0}' is no name: 1 to {NAME_BYTES_MAX} bytes without spaces, colons and control characters")]
    Name(String),
    /// Too many keys or groups.
    #[error("{what}: the limit is {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// It would be valid for longer than a key may be.
    #[error("a key is valid for {} days at most, or without an end", EXPIRES_MAX.as_secs() / 86_400)]
    Expires,
    /// No such key.
    #[error("there is no key {0}: kist key ls lists them")]
    NoSuchKey(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: no key was made")]
    NoEntropy,
}

/// A line of the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    id: String,
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    admin: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    operator: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    disabled: bool,
    /// Seconds since 1970.
    created: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
    /// Of a borne key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
    /// Of a signing key: signatures cannot be checked without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    format: u32,
    #[serde(default, rename = "key")]
    keys: Vec<Stored>,
}

/// All keys of a file, read once and then kept in memory.
pub(crate) struct Keyring {
    path: Option<PathBuf>,
    keys: Mutex<Arc<Vec<Stored>>>,
}

impl Keyring {
    /// No keys, and nowhere to keep any.
    pub(crate) fn none() -> Self {
        Keyring { path: None, keys: Mutex::default() }
    }

    /// The keys of a file; none if it is not there yet.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyError> {
        let keys = read(path)?;
        Ok(Keyring { path: Some(path.to_owned()), keys: Mutex::new(Arc::new(keys)) })
    }

    /// Reads the file again.
    pub(crate) fn reload(&self) -> Result<(), KeyError> {
        if let Some(path) = &self.path {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            *keys = Arc::new(read(path)?);
        }
        Ok(())
    }

    /// Whose borne key this is, if it is valid. The time does not depend on how much of a key is right.
    pub(crate) fn bearer(&self, key: &str, now: Option<Timestamp>) -> Result<Option<Caller>, &'static str> {
        let presented = Blake3::of(key.as_bytes());
        let mut found = None;
        for stored in self.all().iter() {
            let hash = stored.blake3.as_deref().and_then(Blake3::parse);
            if hash.is_some_and(|hash| same(&hash.0, &presented.0)) {
                found = Some(stored.clone());
            }
        }
        match found {
            None => Ok(None),
            Some(stored) => stored.valid(now).map(|()| Some(stored.caller(How::Key))),
        }
    }

    /// The signing key of an id, if it is valid.
    pub(crate) fn signing(&self, id: &str, now: Option<Timestamp>) -> Option<AccessKey> {
        let keys = self.all();
        let stored = keys.iter().find(|stored| stored.id == id)?;
        stored.valid(now).ok()?;
        let secret = stored.secret.clone()?;
        Some(AccessKey { secret, caller: Arc::new(stored.caller(How::Signature)) })
    }

    /// Whose key has this id, if it is valid: borne or signing.
    pub(crate) fn of_id(&self, id: &str, now: Option<Timestamp>) -> Option<Caller> {
        let keys = self.all();
        let stored = keys.iter().find(|stored| stored.id == id)?;
        stored.valid(now).ok().map(|()| stored.caller(How::Key))
    }

    /// All keys, in the order in which they were made.
    pub(crate) fn list(&self) -> Vec<KeyInfo> {
        self.all().iter().map(Stored::info).collect()
    }

    /// Makes a key; it is durable on return.
    pub(crate) fn create(&self, request: &KeyRequest, now: Timestamp) -> Result<NewKey, KeyError> {
        request.check()?;
        if request.expires_after.is_some_and(|after| after > EXPIRES_MAX) {
            return Err(KeyError::Expires);
        }
        let id = format!("KIST{}", letters::<16>()?);
        let secret = if request.signs { letters::<40>()? } else { format!("kist_{}", letters::<52>()?) };
        let expires = request.expires_after.map(|after| now.plus(after));
        let stored = Stored {
            id,
            name: request.name.clone(),
            groups: request.groups.clone(),
            admin: request.is_admin,
            operator: request.is_operator,
            disabled: false,
            created: seconds(now),
            expires: expires.map(seconds),
            blake3: (!request.signs).then(|| Blake3::of(secret.as_bytes()).to_string()),
            secret: request.signs.then(|| secret.clone()),
        };
        let info = stored.info();
        self.change(|keys| {
            if keys.len() >= KEYS_MAX {
                return Err(KeyError::Limit { what: "keys", limit: KEYS_MAX });
            }
            keys.push(stored);
            Ok(())
        })?;
        Ok(NewKey { info, secret })
    }

    /// Disables or enables a key; durable on return.
    pub(crate) fn set_disabled(&self, id: &str, disabled: bool) -> Result<(), KeyError> {
        self.change(|keys| {
            let stored = keys.iter_mut().find(|stored| stored.id == id);
            stored.ok_or_else(|| KeyError::NoSuchKey(id.to_owned()))?.disabled = disabled;
            Ok(())
        })
    }

    /// Removes a key; durable on return.
    pub(crate) fn remove(&self, id: &str) -> Result<(), KeyError> {
        self.change(|keys| {
            let before = keys.len();
            keys.retain(|stored| stored.id != id);
            if keys.len() == before { Err(KeyError::NoSuchKey(id.to_owned())) } else { Ok(()) }
        })
    }

    fn all(&self) -> Arc<Vec<Stored>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes file and memory, in this order: a key that is in memory is durable.
    fn change(&self, work: impl FnOnce(&mut Vec<Stored>) -> Result<(), KeyError>) -> Result<(), KeyError> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::clone(&keys);
        work(&mut changed)?;
        if let Some(path) = &self.path {
            write(path, &changed)?;
        }
        *keys = Arc::new(changed);
        Ok(())
    }
}

impl KeyRequest {
    fn check(&self) -> Result<(), KeyError> {
        if self.groups.len() > KEY_GROUPS_MAX {
            return Err(KeyError::Limit { what: "groups of a key", limit: KEY_GROUPS_MAX });
        }
        let good = |name: &str| {
            let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name != identity::ANONYMOUS;
            // A colon is between an issuer and its subject: no key may pass for a token's name.
            fits && !name.contains(|c: char| c.is_control() || c.is_whitespace() || c == ':')
        };
        match std::iter::once(&self.name).chain(&self.groups).find(|name| !good(name)) {
            Some(bad) => Err(KeyError::Name(bad.chars().take(NAME_BYTES_MAX).collect())),
            None => Ok(()),
        }
    }
}

impl Stored {
    fn valid(&self, now: Option<Timestamp>) -> Result<(), &'static str> {
        if self.disabled {
            return Err("the key was disabled");
        }
        match (self.expires, now) {
            (None, _) => Ok(()),
            // Without a clock nobody knows.
            (Some(_), None) => Err("the key expires and there is no clock"),
            (Some(expires), Some(now)) if seconds(now) >= expires => Err("the key has expired"),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    fn caller(&self, how: How) -> Caller {
        Caller {
            name: self.name.clone(),
            groups: self.groups.clone(),
            is_admin: self.admin,
            is_operator: self.operator,
            how,
            origin: self.id.clone(),
            until: self.expires.map(timestamp),
            ..Caller::default()
        }
    }

    fn info(&self) -> KeyInfo {
        KeyInfo {
            id: self.id.clone(),
            request: KeyRequest {
                name: self.name.clone(),
                groups: self.groups.clone(),
                is_admin: self.admin,
                is_operator: self.operator,
                expires_after: None,
                signs: self.secret.is_some(),
            },
            created: timestamp(self.created),
            expires: self.expires.map(timestamp),
            is_disabled: self.disabled,
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.all().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("info", &self.info).finish_non_exhaustive()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000_000_000)
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1_000_000_000))
}

/// Random letters and digits, five bits each.
fn letters<const N: usize>() -> Result<String, KeyError> {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|_| KeyError::NoEntropy)?;
    Ok(bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte % 32))).map(|c| char::from(*c)).collect())
}

fn read(path: &Path) -> Result<Vec<Stored>, KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    // The text holds secrets: of an error only its place and kind are told, not the line.
    let wrong = |reason: String| KeyError::Malformed { path: path.to_owned(), reason };
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => {
            opened.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)).map_err(failed)?
        }
    };
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong("it is too long".to_owned()));
    }
    let contents: Contents = toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
    if contents.format != FORMAT {
        return Err(wrong(format!("format {} is not known: use a newer kist", contents.format)));
    }
    if contents.keys.len() > KEYS_MAX {
        return Err(KeyError::Limit { what: "keys", limit: KEYS_MAX });
    }
    for (n, key) in contents.keys.iter().enumerate() {
        let twice = contents.keys.iter().take(n).any(|other| other.id == key.id);
        let hash = key.blake3.as_deref().map(Blake3::parse);
        let has_one = matches!((hash, &key.secret), (Some(Some(_)), None) | (None, Some(_)));
        if twice || !has_one {
            return Err(wrong(format!(
                "key {}: it stands there twice, or has not just one of blake3 and secret",
                key.id
            )));
        }
        key.info().request.check()?;
    }
    Ok(contents.keys)
}

fn write(path: &Path, keys: &[Stored]) -> Result<(), KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    let contents = Contents { format: FORMAT, keys: keys.to_vec() };
    let text = toml::to_string(&contents).map_err(|error| failed(io::Error::other(error)))?;
    save(path, "toml.new", text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000_000_000);

    fn request(name: &str) -> KeyRequest {
        KeyRequest { name: name.to_owned(), groups: vec!["cms".to_owned()], ..KeyRequest::default() }
    }

    #[test]
    fn keys_are_durable_and_only_valid_ones_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access-keys.toml");
        let ring = Keyring::open(&path).unwrap();
        let anna = ring.create(&request("anna"), NOW).unwrap();
        let hour = Some(Duration::from_secs(3600));
        // It ended after a hundred years, and nobody said so.
        let far = Some(Duration::from_secs(300 * 366 * 86_400));
        let refused = ring.create(&KeyRequest { expires_after: far, ..request("far") }, NOW);
        assert!(matches!(refused, Err(KeyError::Expires)), "{refused:?}");
        let bert =
            ring.create(&KeyRequest { expires_after: hour, signs: true, ..request("bert") }, NOW).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&anna.secret), "of a borne key only the hash is kept");
        let other = Keyring::open(&path).unwrap();
        for ring in [&ring, &other] {
            assert_eq!(ring.bearer(&anna.secret, None).unwrap().unwrap().name, "anna");
            assert_eq!(ring.bearer(&anna.secret[1..], None), Ok(None));
            assert_eq!(ring.bearer(&bert.secret, Some(NOW)), Ok(None), "a signing key is not borne");
            assert!(ring.signing(&anna.info.id, Some(NOW)).is_none(), "a borne key does not sign");
            let key = ring.signing(&bert.info.id, Some(NOW)).unwrap();
            assert_eq!((key.secret.as_str(), key.caller.how), (bert.secret.as_str(), How::Signature));
            assert!(ring.signing(&bert.info.id, Some(NOW.plus(Duration::from_secs(3600)))).is_none());
            assert!(
                ring.signing(&bert.info.id, None).is_none(),
                "without a clock nothing that ends is valid"
            );
        }
        ring.set_disabled(&anna.info.id, true).unwrap();
        assert!(ring.bearer(&anna.secret, None).is_err());
        assert!(other.bearer(&anna.secret, None).is_ok());
        other.reload().unwrap();
        assert!(other.bearer(&anna.secret, None).is_err());
        ring.set_disabled(&anna.info.id, false).unwrap();
        assert!(ring.bearer(&anna.secret, None).is_ok());
        ring.remove(&bert.info.id).unwrap();
        assert!(matches!(ring.remove(&bert.info.id), Err(KeyError::NoSuchKey(_))));
        assert_eq!(ring.list().len(), 1);
    }

    #[test]
    fn secrets_are_in_no_debug_text() {
        let ring = Keyring::none();
        let key = ring.create(&KeyRequest { signs: true, ..request("anna") }, NOW).unwrap();
        let access = ring.signing(&key.info.id, Some(NOW)).unwrap();
        for text in [format!("{key:?}"), format!("{access:?}"), format!("{ring:?}")] {
            assert!(!text.contains(&key.secret), "{text}");
        }
    }

    #[test]
    fn bad_names_and_bad_files_are_refused() {
        let ring = Keyring::none();
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "-", "a b", "iss:sub", "a\n", &long] {
            assert!(matches!(ring.create(&request(name), NOW), Err(KeyError::Name(_))), "{name}");
        }
        let many = KeyRequest { groups: vec!["g".to_owned(); KEY_GROUPS_MAX + 1], ..request("anna") };
        assert!(matches!(ring.create(&many, NOW), Err(KeyError::Limit { .. })));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access-keys.toml");
        let bad = [
            "format = 2",
            "format = 1\nwhat = 3",
            "format = 1\n[[key]]\nid = \"K\"\nname = \"anna\"\ncreated = 1",
            "format = 1\n[[key]]\nid = \"K\"\nname = \"anna\"\ncreated = 1\nblake3 = \"12\"",
            "format = 1\n[[key]]\nid = \"K\"\nname = \"a:b\"\ncreated = 1\nsecret = \"s\"",
        ];
        for text in bad {
            fs::write(&path, text).unwrap();
            assert!(Keyring::open(&path).is_err(), "{text}");
        }
    }
}
