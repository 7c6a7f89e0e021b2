//! A Kinetic drive before it is opened: what is there, and making a pool drive of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{DriveId, Epoch, Uuid};
use bytes::Bytes;
use drive::{DriveOpenError, Stamp, StampRefusal, decode_stamp, encode_stamp};
use kinetic::client::ClientSettings;
use kinetic::{Answer, Identity, Request, StatusCode};
use kinetic_client::{Answered, CallError, Link, LinkSettings, SecretError, Trust, read_secret};

use crate::address::KineticAddress;
use crate::inner::{self, Inner, Refused};
use crate::keys::{self, Named};
use crate::read::keys_of;

/// How long a drive may take to be reached when it is opened.
pub const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// A Kinetic drive that may be, or become, a drive of the pool.
#[derive(Clone, Debug)]
pub struct KineticPlace {
    name: String,
    settings: LinkSettings,
}

impl KineticPlace {
    /// Reads the key and the certificates that the address names; the drive is not looked for.
    ///
    /// # Errors
    /// [`DriveOpenError::Io`] if one of the files cannot be read.
    pub fn new(address: &KineticAddress) -> Result<Self, DriveOpenError> {
        let failed =
            |path: &Path, source| DriveOpenError::Io { path: path.to_owned(), operation: "reading", source };
        let key = read_secret(address.key_file()).map_err(|error| match error {
            SecretError::Io { path, source } => failed(&path, source),
            error => failed(address.key_file(), io::Error::other(error)),
        })?;
        let mut settings = LinkSettings::new(
            address.addresses().to_vec(),
            ClientSettings::new(Identity(address.identity()), key.bytes()),
        );
        if let Some(trust) = address.trust() {
            let read = Trust::read(trust);
            settings.trust = Some(read.map_err(|error| failed(trust, io::Error::other(error)))?);
        }
        Ok(Self::with(address.to_string(), settings))
    }

    /// A drive that is reached so, by this name for people.
    #[must_use]
    pub fn with(name: String, settings: LinkSettings) -> Self {
        KineticPlace { name, settings }
    }

    /// Where it is, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn io(&self, operation: &'static str) -> impl Fn(CallError) -> DriveOpenError + use<> {
        let path = PathBuf::from(&self.name);
        move |error| DriveOpenError::Io { path: path.clone(), operation, source: io::Error::other(error) }
    }

    /// A success, or why it is none.
    fn expect(
        &self,
        operation: &'static str,
        result: Result<Answered, CallError>,
    ) -> Result<Answered, DriveOpenError> {
        let answered = result.map_err(self.io(operation))?;
        if answered.response.status.is_success() {
            return Ok(answered);
        }
        let source = io::Error::other(Refused(answered.response.status));
        Err(DriveOpenError::Io { path: PathBuf::from(&self.name), operation, source })
    }

    /// Connects; gives the longest value that it takes, too.
    pub(crate) fn connect(&self) -> Result<(Link, u32), DriveOpenError> {
        let path = || PathBuf::from(&self.name);
        let failed = |source| DriveOpenError::Io { path: path(), operation: "connecting", source };
        let host = self.settings.addresses.first().map_or("kinetic", String::as_str);
        let link = Link::new(host, self.settings.clone()).map_err(failed)?;
        let greeting = link.open(OPEN_WITHIN).map_err(self.io("connecting"))?;
        let value_bytes = greeting.bounds().value_bytes;
        Ok((link, value_bytes))
    }

    /// What stands at a key.
    fn entry(&self, link: &Link, key: &'static [u8]) -> Result<Option<Bytes>, DriveOpenError> {
        let result = link.call(inner::get(Bytes::from_static(key)));
        match &result {
            Ok(answered) if answered.response.status.code == StatusCode::NotFound => return Ok(None),
            _ => {}
        }
        match self.expect("reading", result)?.response.answer {
            Answer::Entry(entry) => Ok(Some(entry.value)),
            _ => Ok(None),
        }
    }

    /// The superblocks of whatever drive is there.
    pub(crate) fn pages(
        &self,
        link: &Link,
    ) -> Result<Vec<Option<Result<Stamp, StampRefusal>>>, DriveOpenError> {
        keys::SUPERBLOCKS
            .into_iter()
            .map(|key| Ok(self.entry(link, key)?.map(|page| decode_stamp(&page))))
            .collect()
    }

    /// The superblock of whatever drive is there, without opening it.
    ///
    /// # Errors
    /// [`DriveOpenError::NotADrive`] if it is none.
    pub fn read_stamp(&self) -> Result<Stamp, DriveOpenError> {
        let (link, _) = self.connect()?;
        self.newest(self.pages(&link)?)
    }

    pub(crate) fn newest(
        &self,
        pages: Vec<Option<Result<Stamp, StampRefusal>>>,
    ) -> Result<Stamp, DriveOpenError> {
        let path = || PathBuf::from(&self.name);
        if pages.iter().all(Option::is_none) {
            return Err(DriveOpenError::NotADrive(path()));
        }
        let mut newest: Option<Stamp> = None;
        let mut error = DriveOpenError::Damaged(path());
        for page in pages.into_iter().flatten() {
            match page {
                Ok(stamp) if newest.is_none_or(|newest| newest.age() < stamp.age()) => newest = Some(stamp),
                Err(StampRefusal::Version(version)) => {
                    error = DriveOpenError::Version { path: path(), version };
                }
                _ => {}
            }
        }
        newest.ok_or(error)
    }

    /// Whether nothing of a pool is there. What others keep on the drive does not count, and is left alone.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn is_vacant(&self) -> Result<bool, DriveOpenError> {
        let (link, _) = self.connect()?;
        self.is_free(&link)
    }

    fn is_free(&self, link: &Link) -> Result<bool, DriveOpenError> {
        let (start, end) = (Bytes::from_static(keys::OURS.0), Bytes::from_static(keys::OURS.1));
        let keys = keys_of(self.expect("listing", link.call(inner::range(start, end)))?);
        // What a call that was killed has left of a new drive, in which nothing is.
        let is_nothing =
            |key: &Bytes| [keys::UNFILLED, keys::PROBE, keys::SUPERBLOCKS[1]].contains(&&key[..]);
        Ok(keys.iter().all(is_nothing))
    }

    /// Makes it a drive of `instance`; durable on return. `is_unfilled`: from the moment that it is a drive
    /// it lacks what the one held whose place it takes.
    ///
    /// # Errors
    /// [`DriveOpenError::NotEmpty`] if something of a pool is there.
    pub fn format(&self, instance: Uuid, id: DriveId, is_unfilled: bool) -> Result<(), DriveOpenError> {
        let (link, _) = self.connect()?;
        if !self.is_free(&link)? {
            return Err(DriveOpenError::NotEmpty(PathBuf::from(&self.name)));
        }
        let remove = |key: &'static [u8]| link.call(inner::removal(Bytes::from_static(key)));
        for key in [keys::UNFILLED, keys::PROBE, keys::SUPERBLOCKS[1]] {
            self.expect("removal", remove(key))?;
        }
        let empty = Bytes::new;
        if is_unfilled {
            let version = keys::superblock_version(instance, id, 0);
            let mark = inner::put_durably(Bytes::from_static(keys::UNFILLED), empty(), version, empty());
            self.expect("writing", link.call(mark))?;
        }
        // The first page comes last: what has one is complete.
        let stamp = Stamp { instance, drive: id, epoch: Epoch(0), commit: 0, gaps_after: None };
        let page = Bytes::from(encode_stamp(&stamp));
        for key in keys::SUPERBLOCKS.into_iter().rev() {
            let version = keys::superblock_version(instance, id, 0);
            let put = inner::put_durably(Bytes::from_static(key), empty(), version, page.clone());
            self.expect("writing the superblock", link.call(put))?;
        }
        self.expect("flushing", link.call(Request::FlushAllData))?;
        Ok(())
    }

    /// Whether it lacks what the drive held whose place it took. One that cannot be asked counts as such.
    #[must_use]
    pub fn is_unfilled(&self) -> bool {
        let Ok((link, _)) = self.connect() else { return true };
        self.entry(&link, keys::UNFILLED).map_or(true, |mark| mark.is_some())
    }

    /// It holds all that it should now. Durable on return.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_filled(&self) -> Result<(), DriveOpenError> {
        let (link, _) = self.connect()?;
        self.expect("removal", link.call(inner::removal(Bytes::from_static(keys::UNFILLED))))?;
        self.expect("flushing", link.call(Request::FlushAllData))?;
        Ok(())
    }

    /// Removes what replacements left that were under way when a server ended.
    pub(crate) fn clear_replacements(&self, inner: &Arc<Inner>) -> Result<(), DriveOpenError> {
        loop {
            let (start, end) = keys::replacements();
            let marks = keys_of(self.expect("listing", inner.link.call(inner::range(start, end)))?);
            if marks.is_empty() {
                return Ok(());
            }
            for mark in marks {
                if let Some(Named::Replacement(id, generation)) = keys::read(&mark) {
                    self.clear_replacement(inner, id, generation)?;
                }
                self.expect("removal", inner.link.call(inner::removal(mark)))?;
            }
        }
    }

    fn clear_replacement(
        &self,
        inner: &Arc<Inner>,
        id: drive::ExtentId,
        generation: keys::Generation,
    ) -> Result<(), DriveOpenError> {
        let head = inner.link.call(inner::get(keys::head(id)));
        // One that was sealed, and whose mark stayed, is the extent now.
        let is_sealed = match head {
            Ok(answered) if answered.response.status.code == StatusCode::NotFound => false,
            head => match self.expect("reading", head)?.response.answer {
                Answer::Entry(entry) => crate::head::Head::decode(&entry.value, inner.instance, id)
                    .is_none_or(|head| head.generation == generation),
                _ => true,
            },
        };
        if is_sealed {
            return Ok(());
        }
        let (start, end) = keys::pieces(id, generation);
        loop {
            let range = inner::range(start.clone(), end.clone());
            let pieces = keys_of(self.expect("listing", inner.link.call(range))?);
            if pieces.is_empty() {
                return Ok(());
            }
            for piece in pieces {
                self.expect("removal", inner.link.call(inner::removal(piece)))?;
            }
        }
    }
}
