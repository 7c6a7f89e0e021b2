//! Quotas: how much may be kept below a directory, or of a group.

use std::sync::atomic::Ordering;

use base::{ArchivePath, ByteCount, DirId};
use catalogue::{Command, Entry, Followed, QuotaLimits, QuotaSubject, ReadError, View, typed};

use crate::Namespace;
use ground::Ground;
use ground::named;
use ground::{ArchiveError, QuotaInfo, QuotaOf, SpaceLeft};

/// Batches of a first count between two looks at garbage and pins.
const COUNT_BATCHES_MAX: usize = 16;

impl Namespace {
    /// All quotas, those of directories first; at most [`QUOTAS_MAX`](catalogue::QUOTAS_MAX) there are.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        self.ground.read(|view| {
            let mut found = Vec::new();
            for (subject, record) in view.quotas(None, usize::MAX)? {
                found.extend(named(view, subject)?.map(|of| QuotaInfo { of, record }));
            }
            Ok(found)
        })
    }

    /// Sets or changes a quota. Of a new one, files that are there are counted by and by, from now on and
    /// over restarts; until then less counts as used than is. When this returns it is durable.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`]; a group without a name.
    pub fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError> {
        let subject = self.subject(of)?;
        self.ground.execute(Command::SetQuota { subject, limits: Some(limits) })?;
        self.ground.sweep.ring();
        Ok(())
    }

    /// Ends a quota.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchQuota`], [`ArchiveError::NotFound`].
    pub fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError> {
        let subject = self.subject(of)?;
        let command = Command::SetQuota { subject, limits: None };
        self.ground.execute(command).map_err(|error| match error {
            ArchiveError::Rejected(catalogue::Rejection::NotFound(catalogue::Object::Quota(_))) => {
                ArchiveError::NoSuchQuota(of.to_string())
            }
            other => other,
        })?;
        Ok(())
    }

    fn subject(&self, of: &QuotaOf) -> Result<QuotaSubject, ArchiveError> {
        Ok(match of {
            QuotaOf::Directory(path) => QuotaSubject::Directory(self.directory_id(path)?),
            QuotaOf::Group(group) => QuotaSubject::Group(group.clone()),
        })
    }

    /// Refuses an upload whose file a quota has no room for, before any part of it.
    pub fn check_quota_of_upload(&self, path: &ArchivePath, group: &str) -> Result<(), ArchiveError> {
        let ground = &*self.ground;
        let exceeded = ground.read(|view| {
            let Some((parent, _)) = path.split().filter(|_| view.has_quotas().unwrap_or(true)) else {
                return Ok(None);
            };
            if matches!(view.resolve(path)?, Some(Entry::File(_))) {
                return Ok(None);
            }
            let quotas = view.quotas_of(nearest(view, &parent)?, group)?;
            Ok(quotas.into_iter().find_map(|(subject, quota)| {
                quota.excess(1, 0).map(|(what, limit, used)| (subject, what, limit, used))
            }))
        })?;
        match exceeded {
            Some((subject, what, limit, used)) => Err(ground.exceeded(subject, what, limit, used)),
            None => Ok(()),
        }
    }

    /// How much somebody of this group may still put into a directory, or beside a file.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn space_left(&self, path: &ArchivePath, group: &str) -> Result<SpaceLeft, ArchiveError> {
        let ground = &*self.ground;
        let room = ground.room_for_files();
        ground.read(|view| {
            let mut left = SpaceLeft { used: None, available: room };
            let quotas =
                if view.has_quotas()? { view.quotas_of(nearest(view, path)?, group)? } else { Vec::new() };
            for (_, quota) in quotas {
                let Some(limit) = quota.limits.bytes else { continue };
                let available = ByteCount(limit.0.saturating_sub(quota.used.bytes.0));
                if left.used.is_none() || available < left.available {
                    left = SpaceLeft { used: Some(quota.used.bytes), available: available.min(room) };
                }
            }
            Ok(left)
        })
    }

    /// Refuses bytes for which a quota has no room before they are sent. The last word has the command; a
    /// repeat with the key of a put that was answered gets that answer from it.
    pub fn check_quota(
        &self,
        path: &ArchivePath,
        group: &str,
        length: ByteCount,
        key: Option<&[u8; 32]>,
    ) -> Result<(), ArchiveError> {
        let ground = &*self.ground;
        let exceeded = ground.read(|view| {
            if !view.has_quotas()? || key.is_some_and(|key| view.is_answered(key).unwrap_or(true)) {
                return Ok(None);
            }
            let Some((parent, _)) = path.split() else { return Ok(None) };
            let (directory, replaced) = match view.find(path)? {
                // What it may take the place of gives room back.
                Some(Followed::File(_, old)) => (old.parent, old.size.0),
                _ => (nearest(view, &parent)?, 0),
            };
            for (subject, quota) in view.quotas_of(directory, group)? {
                let more = length.0.saturating_sub(replaced);
                if let Some((what, limit, used)) = quota.excess(0, more) {
                    return Ok(Some((subject, what, limit, used)));
                }
            }
            Ok(None)
        })?;
        match exceeded {
            Some((subject, what, limit, used)) => Err(ground.exceeded(subject, what, limit, used)),
            None => Ok(()),
        }
    }
}

/// The nearest directory of a path that is there.
pub fn nearest(view: &View<'_>, path: &ArchivePath) -> Result<DirId, ReadError> {
    let mut at = path.clone();
    loop {
        if let Some(Entry::Directory(id)) = view.resolve(&at)? {
            return Ok(id);
        }
        match at.split() {
            Some((above, _)) => at = above,
            None => return Ok(DirId::ROOT),
        }
    }
}

/// Goes on counting the files of new quotas, for a while; rings for the next turn if there are more.
pub fn count(ground: &Ground) -> Result<(), ArchiveError> {
    for _ in 0..COUNT_BATCHES_MAX {
        let next = ground.read(|view| view.uncounted_quota())?;
        let Some(subject) = next.filter(|_| !ground.stop.load(Ordering::Relaxed)) else { return Ok(()) };
        match ground.ask(typed::CountQuota { subject }) {
            Ok(_) | Err(ArchiveError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
    }
    ground.sweep.ring();
    Ok(())
}
