//! Where the server is and which key opens it, while it is talked to: a server that is started again has
//! another key of a local admin, and perhaps another port.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terminal::{Failure, Outcome};

use crate::place::ServerFile;

/// The longest key file that is read.
const KEY_FILE_BYTES_MAX: u64 = 4096;
/// For how long a server that has answered before may refuse connections: it may be starting again.
const RESTART_WITHIN: Duration = Duration::from_secs(10);
/// How often such a server is tried.
pub const RESTART_POLL: Duration = Duration::from_millis(100);

/// What a request is sent with.
#[derive(Clone, PartialEq, Eq)]
pub struct Door {
    /// The server's URL, without a slash at its end.
    pub base: String,
    /// The value of the header `Authorization`.
    pub authorization: String,
}

impl Door {
    pub fn new(url: &str, key: &str) -> Self {
        Door { base: url.trim_end_matches('/').to_owned(), authorization: format!("Bearer {key}") }
    }
}

/// Where a door is read from; what is not named does not change.
#[derive(Default)]
pub struct Origin {
    pub key_file: Option<PathBuf>,
    /// `run/server.json` of an instance on this machine.
    pub server_file: Option<PathBuf>,
}

/// The door of a server, shared by the threads of a command.
pub struct Access {
    pub origin: Origin,
    state: Mutex<State>,
}

struct State {
    door: Door,
    contact: Contact,
}

/// How the server was last met.
enum Contact {
    Never,
    Reached,
    /// It was reached before, and refuses connections since.
    Away(Instant),
}

impl Access {
    pub fn new(door: Door, origin: Origin) -> Self {
        Access { origin, state: Mutex::new(State { door, contact: Contact::Never }) }
    }

    pub fn door(&self) -> Door {
        self.state().door.clone()
    }

    /// The server has answered.
    pub fn reached(&self) {
        self.state().contact = Contact::Reached;
    }

    /// The server refused a connection: whether to try it again soon. The time runs for all threads together,
    /// so that a server that stays away is given up once and not for each file.
    pub fn is_worth_a_wait(&self) -> bool {
        let mut state = self.state();
        match state.contact {
            Contact::Never => false,
            Contact::Reached => {
                state.contact = Contact::Away(Instant::now());
                true
            }
            Contact::Away(since) => since.elapsed() < RESTART_WITHIN,
        }
    }

    /// Reads the door again; `true` if it is another one than `sent`, which was refused.
    pub fn read_again(&self, sent: &Door) -> bool {
        let mut found = sent.clone();
        // Both or none: the key of a local admin is for the server that wrote it, whose address this is.
        if let Some(file) = &self.origin.server_file {
            let Some(url) = read_url(file).filter(|url| scheme(url) == scheme(&sent.base)) else {
                return false;
            };
            found = Door { base: url.trim_end_matches('/').to_owned(), ..found };
        }
        if let Some(file) = &self.origin.key_file {
            let Ok(key) = read_key(file) else { return false };
            found = Door::new(&found.base, &key);
        }
        let is_another = found != *sent;
        self.state().door = found;
        is_another
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_url(file: &Path) -> Option<String> {
    let server: ServerFile = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(server.url)
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

/// Reads the key in a file.
pub fn read_key(file: &Path) -> Outcome<String> {
    let failed = |error: std::io::Error| Failure::io("reading the key", file, &error);
    let length = fs::metadata(file).map_err(failed)?.len();
    if length > KEY_FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{}: {length} bytes are no key", file.display())));
    }
    let text = fs::read_to_string(file).map_err(failed)?;
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::usage(format!("{}: it holds no key of the form kist_...", file.display())));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_answered_is_waited_for_and_not_for_ever() {
        let access = Access::new(Door::new("http://127.0.0.1:1", "kist_x"), Origin::default());
        assert!(!access.is_worth_a_wait());
        access.reached();
        assert!(access.is_worth_a_wait() && access.is_worth_a_wait());
        let long_ago = Instant::now().checked_sub(RESTART_WITHIN).unwrap();
        access.state().contact = Contact::Away(long_ago);
        assert!(!access.is_worth_a_wait());
        access.reached();
        assert!(access.is_worth_a_wait());
    }

    /// The new key of an instance must not go to whoever has the port that its server had before.
    #[test]
    fn a_key_goes_to_the_server_that_wrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let (key_file, server_file) = (directory.path().join("key"), directory.path().join("server.json"));
        fs::write(&key_file, "kist_two\n").unwrap();
        let before = Door::new("http://127.0.0.1:1", "kist_one");
        let origin = Origin { key_file: Some(key_file), server_file: Some(server_file.clone()) };
        let access = Access::new(before.clone(), origin);
        assert!(!access.read_again(&before));
        for url in ["https://127.0.0.1:2", "http://127.0.0.1:2"] {
            let server = ServerFile { url: url.to_owned(), s3: None, webdav: None, pid: 1 };
            fs::write(&server_file, serde_json::to_vec(&server).unwrap()).unwrap();
            assert_eq!(access.read_again(&before), url.starts_with("http:"), "{url}");
        }
        assert!(access.door() == Door::new("http://127.0.0.1:2", "kist_two"));
        assert!(!access.read_again(&access.door()));
    }
}
