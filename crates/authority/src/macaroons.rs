//! The secret that macaroons are made with: made at first use, durable before the first macaroon is given
//! out, kept in memory then.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use identity::RootSecret;
use threads::Mutex;

use crate::keyring::KeyError;
use crate::secret_file::save;

/// Bytes of the file.
const SECRET_BYTES: usize = 32;

/// The secret, and where it is kept.
#[derive(Debug)]
pub(crate) struct Secret {
    path: Option<PathBuf>,
    /// `None`: no macaroon was ever given out.
    current: Mutex<Option<RootSecret>>,
}

impl Secret {
    /// None yet, and nowhere to keep one.
    pub(crate) fn none() -> Self {
        Secret { path: None, current: Mutex::default() }
    }

    /// That of a file, if it is there; without a path it is forgotten at the end.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, KeyError> {
        let current = path.map(read).transpose()?.flatten();
        Ok(Secret { path: path.map(Path::to_owned), current: Mutex::new(current) })
    }

    /// Reads the file again: whoever has removed it has ended all macaroons.
    pub(crate) fn reload(&self) -> Result<(), KeyError> {
        if let Some(path) = &self.path {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = read(path)?;
        }
        Ok(())
    }

    /// The secret, if there is one.
    pub(crate) fn get(&self) -> Option<RootSecret> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The secret; if there is none, one that is made now and durable.
    pub(crate) fn get_or_make(&self) -> Result<RootSecret, KeyError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = &*current {
            return Ok(secret.clone());
        }
        let made = self.make()?;
        *current = Some(made.clone());
        Ok(made)
    }

    /// Puts another secret in its place; no macaroon that was made before is good any more. Durable on
    /// return.
    pub(crate) fn replace(&self) -> Result<(), KeyError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(self.make()?);
        Ok(())
    }

    fn make(&self) -> Result<RootSecret, KeyError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|_| KeyError::NoEntropy)?;
        if let Some(path) = &self.path {
            let failed = |source| KeyError::Io { path: path.clone(), source };
            save(path, "new", &secret).map_err(failed)?;
        }
        Ok(RootSecret(secret))
    }
}

fn read(path: &Path) -> Result<Option<RootSecret>, KeyError> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => {
            let taken = opened.and_then(|file| file.take(SECRET_BYTES as u64 + 1).read_to_end(&mut bytes));
            taken.map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
        }
    }
    let secret = <[u8; SECRET_BYTES]>::try_from(bytes).map_err(|_| KeyError::Malformed {
        path: path.to_owned(),
        reason: format!("it has not {SECRET_BYTES} bytes: remove it, which ends all macaroons"),
    })?;
    Ok(Some(RootSecret(secret)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_made_once_and_durable_before_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("macaroon-secret");
        let secret = Secret::open(Some(&path)).unwrap();
        assert!(secret.get().is_none() && !path.exists(), "nobody has asked for a macaroon yet");
        let first = secret.get_or_make().unwrap();
        assert_eq!(fs::read(&path).unwrap(), first.0);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(secret.get_or_make().unwrap(), first);
        assert_eq!(Secret::open(Some(&path)).unwrap().get(), Some(first.clone()));
        secret.replace().unwrap();
        let second = secret.get().unwrap();
        assert_ne!(second, first);
        assert_eq!(fs::read(&path).unwrap(), second.0);
        fs::remove_file(&path).unwrap();
        secret.reload().unwrap();
        assert!(secret.get().is_none());
        for bytes in [&[0; 31][..], &[0; 33], b""] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(Secret::open(Some(&path)), Err(KeyError::Malformed { .. })));
        }
        // What cannot be kept is not given out.
        let nowhere = Secret::open(Some(&directory.path().join("none/macaroon-secret"))).unwrap();
        assert!(matches!(nowhere.get_or_make(), Err(KeyError::Io { .. })));
        assert!(nowhere.get().is_none());
    }
}
