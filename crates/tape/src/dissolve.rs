//! Packs that no tape has and that can never be written, since the pool lacks a part of them or no tape takes
//! so much: they are dissolved, and their files go into new packs. A container that failed, and of which no
//! file has a name any more, is dissolved too.

use std::collections::BTreeMap;

use base::{BlobPiece, ClassId, ContainerId, FileId, TapePoolId, Timestamp};
use catalogue::{ContainerKind, ContainerRecord, CopyState, ReadError, View, typed};
use ltfs::pack::{PackLayout, Piece};
use pool::PoolError;

use crate::room::Tape;
use ground::ArchiveError;
use upkeep::path_of;

/// Members looked at together.
const MEMBERS_PAGE: usize = 1_000;

/// What is known of a skeleton in the pool.
enum Skeleton {
    Whole,
    /// It can never be read, and why.
    Gone(String),
    /// Nothing is known now, or drives may come back that have it.
    Unknown,
}

impl Tape {
    /// Dissolves a container that no tape has if nobody needs it any more, and a pack if the pool can never
    /// give it whole: its skeleton is gone, or a member is LOST. `unreadable`: its bytes were just found
    /// unreadable, so that members without a name, which nobody needs, are given up with it. Gives whether it
    /// was dissolved. What only waits for drives of the pool is left as it is, and so is what another drive
    /// plans to write: whoever fails on it comes again.
    pub(crate) fn dissolve_if_stuck(
        &self,
        container: ContainerId,
        unreadable: bool,
    ) -> Result<bool, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(false) };
        // A tape that was not looked at since a restore may have it.
        if !may_be_dissolved(&record) || self.settled.waits_for_tapes() {
            return Ok(false);
        }
        if record.is_unneeded() {
            return self.dissolve_unneeded(container);
        }
        let Some(why) = self.what_is_missing(container, &record, unreadable)? else { return Ok(false) };
        let is_dissolved = self.dissolve(container)?;
        if is_dissolved {
            tracing::error!(
                %container,
                why,
                "a pack that no tape has cannot be written: it is given up, and its files that are in the \
                 pool are sealed anew"
            );
        }
        Ok(is_dissolved)
    }

    pub(crate) fn dissolve_unneeded(&self, container: ContainerId) -> Result<bool, ArchiveError> {
        let is_dissolved = self.dissolve(container)?;
        if is_dissolved {
            tracing::info!(%container, "a container whose files were all removed goes to no tape");
        }
        Ok(is_dissolved)
    }

    /// Dissolves what failed to come to tape and is needed by nobody since: its files were removed.
    pub(crate) fn dissolve_all_unneeded(&self) -> Result<(), ArchiveError> {
        for container in self.read(|view| self.unneeded(view))? {
            let _planning = self.planning();
            self.dissolve_unneeded(container)?;
        }
        Ok(())
    }

    /// What [`Tape::dissolve_all_unneeded`] dissolves.
    pub(crate) fn unneeded(&self, view: &View<'_>) -> Result<Vec<ContainerId>, ReadError> {
        let resting = self.resting_now();
        let mut unneeded = Vec::new();
        for container in resting.iter().copied() {
            let record = view.container(container)?.filter(ContainerRecord::is_unneeded);
            unneeded.extend(record.filter(may_be_dissolved).map(|_| container));
        }
        Ok(unneeded)
    }

    /// Dissolves packs and files' own containers at the head of tape pools' queues that are larger than any
    /// of their tapes takes: those of before the tapes were exchanged for smaller ones, or of a release that
    /// made larger ones. Their files are sealed anew, a large one in parts.
    pub(crate) fn dissolve_too_large(&self) -> Result<(), ArchiveError> {
        for pool in self.classes.tape_pools().keys() {
            let containers = self.read(|view| self.to_seal_anew(view, *pool))?;
            for container in containers {
                // Not while a drive plans: a larger tape may have come, and it has just chosen this one.
                let _planning = self.planning();
                if self.dissolve(container)? {
                    tracing::warn!(%container, "a container that no tape takes: its files are sealed anew");
                }
            }
        }
        Ok(())
    }

    /// The containers that [`Tape::dissolve_too_large`] dissolves. What a tape of another pool has stays.
    pub(crate) fn to_seal_anew(
        &self,
        view: &View<'_>,
        pool: TapePoolId,
    ) -> Result<Vec<ContainerId>, ReadError> {
        let mut found = Vec::new();
        for (container, _) in self.too_large(view, pool)?.containers {
            let Some(record) = view.container(container)? else { continue };
            // The catalogue's command asks for the same.
            let is_there = match record.kind {
                ContainerKind::Pack => true,
                ContainerKind::File(file) => view.file(file)?.is_some_and(|file| file.is_online()),
                ContainerKind::Segment { .. } => false,
            };
            if (is_there || record.is_unneeded()) && is_nowhere(&record) {
                found.push(container);
            }
        }
        Ok(found)
    }

    /// In pieces; what a stop leaves of it the next start gives up. `false`: it is needed now.
    fn dissolve(&self, container: ContainerId) -> Result<bool, ArchiveError> {
        let waiting = self.oldest_members(container)?;
        let in_pieces = || -> Result<bool, ArchiveError> {
            while self.ask(typed::DissolveSome { container })? {
                if self.stopping() {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match in_pieces() {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => {
                tracing::info!(%container, %rejection, "a pack is not dissolved now");
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        self.drop_mend(container)?;
        self.own.resting.forget(&[container]);
        self.sweep.ring();
        self.notifier.backlog_changed();
        for (class, since) in waiting {
            self.wait_again(class, since)?;
        }
        Ok(true)
    }

    /// Of the members that the pool has, by class, since when the oldest is there.
    fn oldest_members(&self, container: ContainerId) -> Result<BTreeMap<ClassId, Timestamp>, ArchiveError> {
        let (mut oldest, mut after) = (BTreeMap::<ClassId, Timestamp>::new(), None);
        loop {
            let members = self.read(|view| {
                let members = view.members(container, after, MEMBERS_PAGE)?;
                for member in &members {
                    let file = view.file(member.file)?;
                    if let Some(file) = file.filter(|file| file.is_named() && file.is_online()) {
                        let since = oldest.entry(file.class).or_insert(file.created);
                        *since = file.created.min(*since);
                    }
                }
                Ok(members)
            })?;
            let Some(last) = members.last() else { return Ok(oldest) };
            after = Some((last.data_offset, last.file));
        }
    }

    /// Why a pack can never be put together from the pool; `None` if it can, or may yet.
    fn what_is_missing(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
        unreadable: bool,
    ) -> Result<Option<String>, ArchiveError> {
        let skeleton = match &record.skeleton {
            Some(piece) => self.skeleton(piece)?,
            None => Skeleton::Gone("its skeleton is gone".to_owned()),
        };
        if let Skeleton::Gone(why) = skeleton {
            return Ok(Some(why));
        }
        let mut after = None;
        loop {
            let (members, missing) = self.read(|view| {
                let members = view.members(container, after, MEMBERS_PAGE)?;
                for member in &members {
                    let file = view.file(member.file)?;
                    if file.is_some_and(|file| file.is_named() && !file.is_online()) {
                        return Ok((Vec::new(), Some(member.file)));
                    }
                }
                Ok((members, None))
            })?;
            if let Some(file) = missing {
                return Ok(Some(format!("the pool has not its member {}", path_of(self, file))));
            }
            let Some(last) = members.last() else { break };
            after = Some((last.data_offset, last.file));
        }
        if let Some(piece) = &record.skeleton
            && let Some(file) = self.absent_from_pool(piece)?
        {
            return Ok(Some(format!("the pool has not its member {}, which left it", path_of(self, file))));
        }
        let of_nobody = unreadable && record.condemned_members > 0 && self.upkeep.no_drive_may_come_back();
        Ok(of_nobody.then(|| "bytes of its members cannot be read, of which some have no name".to_owned()))
    }

    /// The first file that a pack's skeleton names and the pool does not have, whether or not it still is a
    /// member: a container that a tape turned out to hold may have taken it away.
    fn absent_from_pool(&self, piece: &BlobPiece) -> Result<Option<FileId>, ArchiveError> {
        let Some(blob) = self.read(|view| view.blob(piece.blob))? else { return Ok(None) };
        // What cannot be read now is for who writes the pack to find.
        let Ok(stored) = self.read_whole(&blob, piece) else { return Ok(None) };
        let Ok(layout) = PackLayout::from_skeleton(&stored) else { return Ok(None) };
        self.read(|view| {
            for part in layout.pieces() {
                if let Piece::Data { file, .. } = part
                    && !view.file(file)?.is_some_and(|file| file.is_online())
                {
                    return Ok(Some(file));
                }
            }
            Ok(None)
        })
    }

    fn skeleton(&self, piece: &BlobPiece) -> Result<Skeleton, ArchiveError> {
        let _reading = self.gate.enter();
        let Some(blob) = self.read(|view| view.blob(piece.blob))? else {
            return Ok(Skeleton::Gone("the blob of its skeleton is unknown".to_owned()));
        };
        let has = |gone: &_| self.pool.has_drives_without(&blob, piece, gone);
        let waits = matches!(has(&self.pool.silent_drives()), Ok(false))
            && matches!(has(&self.upkeep.given_up()), Ok(true));
        if waits {
            return Ok(Skeleton::Unknown);
        }
        Ok(match self.read_whole(&blob, piece).map(|stored| PackLayout::from_skeleton(&stored).map(drop)) {
            Ok(Ok(())) => Skeleton::Whole,
            Ok(Err(error)) => Skeleton::Gone(format!("its skeleton is damaged: {error}")),
            Err(PoolError::Shortage { .. }) => Skeleton::Unknown,
            Err(error) => Skeleton::Gone(format!("its skeleton cannot be read: {error}")),
        })
    }
}

/// What is given up because it can never be written, or nobody needs it.
fn may_be_dissolved(record: &ContainerRecord) -> bool {
    (record.kind == ContainerKind::Pack || record.is_unneeded()) && is_nowhere(record)
}

/// As the catalogue's command asks for it: no tape has, or is about to get, anything of it.
fn is_nowhere(record: &ContainerRecord) -> bool {
    let mut copies = record.copies.iter();
    record.image.is_none() && copies.all(|copy| copy.state == CopyState::Queued && copy.source.is_none())
}
