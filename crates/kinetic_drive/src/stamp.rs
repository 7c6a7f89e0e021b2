//! The superblock of an open drive, and the fence.

use std::io;
use std::sync::{Arc, PoisonError};

use base::Epoch;
use bytes::Bytes;
use drive::{DriveError, Stamp, StampRefusal, decode_stamp, encode_stamp};
use kinetic::{Answer, ClusterVersion, Request, StatusCode};
use kinetic_client::{Answered, CallError};
use threads::Mutex;

use crate::inner::{self, Inner, Refused, lock};
use crate::keys;

/// The superblock of an open drive.
pub(crate) struct Superblock {
    inner: Arc<Inner>,
    stamp: Mutex<Stamp>,
    /// Held while it is compared or written.
    alone: Mutex<()>,
}

/// A page as it stands on the drive: its version, and what it says.
type Page = Option<(Bytes, Result<Stamp, StampRefusal>)>;

impl Superblock {
    pub(crate) fn new(inner: &Arc<Inner>, stamp: Stamp) -> Self {
        Superblock { inner: Arc::clone(inner), stamp: Mutex::new(stamp), alone: Mutex::default() }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        *lock(&self.stamp)
    }

    fn failed(&self, source: io::Error) -> DriveError {
        DriveError::Stamp { drive: self.inner.id, path: self.inner.path.clone(), source }
    }

    /// A success, or why it is none. A drive that cannot be reached is not there.
    fn check(&self, result: Result<Answered, CallError>) -> Result<Answered, DriveError> {
        let (drive, path) = (self.inner.id, self.inner.path.clone());
        let answered = match result {
            Ok(answered) => answered,
            Err(CallError::Unreachable(_) | CallError::NoAnswer(_)) => {
                return Err(DriveError::NotThere { drive, path });
            }
            Err(error) => return Err(self.failed(io::Error::other(error))),
        };
        match answered.response.status.code {
            StatusCode::Success => Ok(answered),
            StatusCode::VersionFailure => Err(self.inner.fenced(&answered)),
            StatusCode::NoSpace => Err(self.failed(io::ErrorKind::StorageFull.into())),
            _ => Err(self.failed(io::Error::other(Refused(answered.response.status)))),
        }
    }

    fn pages(&self) -> Result<Vec<Page>, DriveError> {
        let page = |key: &'static [u8]| {
            let result = self.inner.link.call(inner::get(Bytes::from_static(key)));
            if matches!(&result, Ok(answered) if answered.response.status.code == StatusCode::NotFound) {
                return Ok(None);
            }
            Ok(match self.check(result)?.response.answer {
                Answer::Entry(entry) => Some((entry.metadata.version, decode_stamp(&entry.value))),
                _ => None,
            })
        };
        keys::SUPERBLOCKS.into_iter().map(page).collect()
    }

    /// The stamp as it stands on the drive now, with the pages.
    fn look(&self, held: &Stamp) -> Result<(Stamp, Vec<Page>), DriveError> {
        let pages = self.pages()?;
        let wiped =
            |found| Err(DriveError::Wiped { drive: self.inner.id, path: self.inner.path.clone(), found });
        let whole = || pages.iter().flatten().filter_map(|(_, page)| page.as_ref().ok());
        let its = whole().filter(|stamp| stamp.instance == held.instance && stamp.drive == held.drive);
        if let Some(found) = its.max_by_key(|stamp| stamp.age()).copied() {
            return Ok((found, pages));
        }
        if whole().next().is_some() {
            return wiped("it has the superblock of another drive");
        }
        if pages.iter().all(Option::is_none) {
            return wiped("its superblock is gone");
        }
        if pages.iter().flatten().any(|(_, page)| matches!(page, Err(StampRefusal::Version(_)))) {
            return Err(self.failed(io::Error::other("it is of a version that is not known")));
        }
        // Damage of both pages costs no drive: it is the one that was opened, by its world wide name.
        Ok((*held, pages))
    }

    /// Changes the superblock, where it is.
    pub(crate) fn renew(&self, change: impl FnOnce(Stamp) -> Stamp) -> Result<(), DriveError> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        let (found, pages) = self.look(&stamp)?;
        let mut next = change(stamp);
        if found.age() < stamp.age() {
            next.gaps_after = Some(next.gaps_after.map_or(found.commit, |known| known.min(found.commit)));
        }
        let page = Bytes::from(encode_stamp(&next));
        let version = keys::superblock_version(next.instance, next.drive, getrandom::u64().unwrap_or(1));
        // The copy first: of two whole pages the newer one holds.
        for (key, before) in keys::SUPERBLOCKS.into_iter().zip(pages).rev() {
            let before = before.map(|(version, _)| version).unwrap_or_default();
            let put = inner::put_durably(Bytes::from_static(key), before, version.clone(), page.clone());
            self.check(self.inner.link.call(put)).inspect_err(|error| {
                if !error.is_full() {
                    self.inner.set_suspect(true);
                }
            })?;
        }
        *lock(&self.stamp) = next;
        Ok(())
    }

    /// Takes the drive for this epoch: servers of earlier ones are refused by it from then on.
    pub(crate) fn fence(&self, epoch: Epoch) -> Result<(), DriveError> {
        if epoch <= self.stamp().epoch {
            return Ok(());
        }
        let version = ClusterVersion(i64::from(epoch.0));
        let result = self.inner.link.call(Request::SetClusterVersion(version));
        let is_known = match &result {
            // It may have been done.
            Err(CallError::Unknown(_)) => {
                self.inner.link.set_cluster_version(version);
                self.check(
                    self.inner
                        .link
                        .call(Request::GetVersion { key: Bytes::from_static(keys::SUPERBLOCKS[0]) }),
                )
                .is_ok()
            }
            Ok(answered) => {
                answered.response.status.code == StatusCode::VersionFailure
                    && answered.response.cluster_version == Some(version)
            }
            Err(_) => false,
        };
        if !is_known {
            self.check(result)?;
        }
        self.inner.link.set_cluster_version(version);
        Ok(())
    }

    pub(crate) fn check_stamp(&self) -> Result<(), DriveError> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        let is_it = |page: &Page| matches!(page, Some((_, Ok(found))) if *found == stamp);
        if self.pages()?.iter().all(is_it) {
            return Ok(());
        }
        Err(DriveError::StampDamaged { drive: self.inner.id, path: self.inner.path.clone() })
    }

    pub(crate) fn check_place(&self) -> Result<(), DriveError> {
        let is_older = {
            let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            let stamp = self.stamp();
            self.look(&stamp)?.0.age() < stamp.age()
        };
        if is_older { self.renew(|stamp| stamp) } else { Ok(()) }
    }

    /// Whether it is this drive still, after it was away.
    pub(crate) fn identify(&self) -> Result<(), DriveError> {
        let stamp = self.stamp();
        let (found, _) = self.look(&stamp)?;
        if found.age() < stamp.age() { self.renew(|stamp| stamp) } else { Ok(()) }
    }
}
