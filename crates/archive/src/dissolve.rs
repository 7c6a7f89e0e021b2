//! Packs that no tape has and that can never be written, since the pool lacks a part of them: they are
//! dissolved, and their files go into new packs.

use std::sync::PoisonError;

use base::{BlobPiece, ContainerId};
use catalogue::{Command, ContainerKind, ContainerRecord, CopyState};
use ltfs::pack::PackLayout;
use pool::PoolError;

use crate::ArchiveError;
use crate::engine::Engine;
use crate::lost::path_of;

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

impl Engine {
    /// Dissolves a pack that no tape has if the pool can never give it whole: its skeleton is gone, or a
    /// member is LOST. `unreadable`: its bytes were just found unreadable, so that members without a name,
    /// which nobody needs, are given up with it. Gives whether it was dissolved. What only waits for drives
    /// of the pool is left as it is, and so is what another drive plans to write: whoever fails on it comes
    /// again.
    pub(crate) fn dissolve_if_stuck(
        &self,
        container: ContainerId,
        unreadable: bool,
    ) -> Result<bool, ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(false) };
        if !may_be_dissolved(&record) {
            return Ok(false);
        }
        let Some(why) = self.what_is_missing(container, &record, unreadable)? else { return Ok(false) };
        match self.execute(Command::DissolvePack { container }) {
            Ok(_) => {}
            Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => {
                tracing::info!(%container, %rejection, "a pack is not dissolved now");
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        tracing::error!(
            %container,
            why,
            "a pack that no tape has cannot be written: it is given up, and its files that are in the pool \
             are sealed anew"
        );
        self.drop_mend(container)?;
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).remove(&container);
        self.sweep.ring();
        self.bell.backlog_changed();
        Ok(true)
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
        let of_nobody = unreadable && record.condemned_members > 0 && self.no_drive_may_come_back();
        Ok(of_nobody.then(|| "bytes of its members cannot be read, of which some have no name".to_owned()))
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

/// As the catalogue's command asks for it.
fn may_be_dissolved(record: &ContainerRecord) -> bool {
    let mut copies = record.copies.iter();
    record.kind == ContainerKind::Pack
        && record.image.is_none()
        && copies.all(|copy| copy.state == CopyState::Queued && copy.source.is_none())
}
