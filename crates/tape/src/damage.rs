//! Copies that were found damaged: what takes their place, and when the damaged one is given up.

use base::{BlobPiece, BlockAddress, ContainerId, Vid};
use catalogue::{Command, ContainerKind, ContainerRecord, CopyState, ReadError, Rejection, View};
use ltfs::pack::SKELETON_FRAME_BYTES;

use crate::mends::{FromTape, MENDS_MAX};
use crate::room::Tape;
use ground::ArchiveError;
use ground::truncated;

/// Members looked at together.
const MEMBERS_PAGE: usize = 1_000;
/// The data of a pack's members is filled up to records of this length.
const RECORD_BYTES: u64 = 512;

impl Tape {
    /// Whether the pool has all bytes of a container.
    pub(crate) fn has_bytes(
        &self,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<bool, ArchiveError> {
        Ok(record.image.is_some() || self.has_members(container, record)?)
    }

    /// Whether the pool has all bytes of a container without an image: those of deleted members too, since
    /// all copies are equal byte for byte.
    fn has_members(&self, container: ContainerId, record: &ContainerRecord) -> Result<bool, ArchiveError> {
        let is_online = |view: &View<'_>, file| -> Result<bool, ReadError> {
            Ok(view.file(file)?.is_some_and(|file| file.is_online()))
        };
        match &record.kind {
            ContainerKind::File(file) | ContainerKind::Segment { file, .. } => {
                self.read(|view| is_online(view, *file))
            }
            ContainerKind::Pack => {
                let Some(skeleton) = &record.skeleton else { return Ok(false) };
                let mut held = skeleton.length.0.saturating_sub(SKELETON_FRAME_BYTES as u64);
                let mut after = None;
                loop {
                    let (members, online) = self.read(|view| {
                        let members = view.members(container, after, MEMBERS_PAGE)?;
                        let mut online = true;
                        for member in &members {
                            online = online && is_online(view, member.file)?;
                        }
                        Ok((members, online))
                    })?;
                    if !online {
                        return Ok(false);
                    }
                    let data = members.iter().map(|member| member.length.0.next_multiple_of(RECORD_BYTES));
                    held = held.saturating_add(data.sum());
                    let Some(last) = members.last() else { return Ok(held >= record.length.0) };
                    after = Some((last.data_offset, last.file));
                }
            }
        }
    }

    /// A container, if it still has a copy at this place.
    fn standing_at(
        &self,
        container: ContainerId,
        at: (Vid, BlockAddress),
    ) -> Result<Option<ContainerRecord>, ArchiveError> {
        let record = self.read(|view| view.container(container))?;
        Ok(record.filter(|record| record.places().any(|place| place == at)))
    }

    /// A copy was found damaged. If its bytes are in the pool it is written again at once; if another tape
    /// may have them, once they were read there. The last copy stays what it is: what can be read of it is
    /// worth more than nothing.
    pub(crate) fn copy_damaged(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.standing_at(container, (vid, block))? else { return Ok(()) };
        tracing::error!(%container, %vid, %block, reason, "a copy on tape is damaged");
        if self.has_bytes(container, &record)? || record.is_empty() {
            return self.give_up(container, vid, block, reason);
        }
        self.read_of_others(container, (vid, block), reason)
    }

    /// Has what is damaged at a place read from others, if they may have it.
    fn read_of_others(
        &self,
        container: ContainerId,
        place: (Vid, BlockAddress),
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let asked = self.want_bytes(container, |mend| {
            mend.damaged.insert(place, reason.to_owned());
        })?;
        match asked {
            FromTape::Asked => {}
            FromTape::Later => self.put_off_damage(container, place, reason),
            FromTape::Nowhere => {
                let vid = place.0;
                tracing::error!(%container, %vid, "no other copy can mend it; what can be read of it stays");
            }
        }
        Ok(())
    }

    fn put_off_damage(&self, container: ContainerId, place: (Vid, BlockAddress), reason: &str) {
        let put_off = &mut self.maintenance().put_off.damaged;
        let has_place = put_off.len() < MENDS_MAX || put_off.contains_key(&container);
        if has_place {
            put_off.entry(container).or_default().insert(place, reason.to_owned());
        }
        let (vid, asked_again) = (place.0, has_place);
        tracing::warn!(%container, %vid, asked_again, "as many copies as can be are being mended already");
    }

    /// Gives up a damaged place of a container whose bytes are in the pool. The last place is kept as long as
    /// nothing but an image has them: without a place, its members would be LOST.
    pub(crate) fn give_up(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.standing_at(container, (vid, block))? else { return Ok(()) };
        let is_last = record.places().all(|place| place == (vid, block));
        if record.is_empty() || !is_last || self.has_members(container, &record)? {
            if self.drop_spare_place(container, vid, block, reason)? {
                return Ok(());
            }
            return self.read_of_others(container, (vid, block), reason);
        }
        tracing::warn!(%container, %vid, %block, "the last place is given up when a new copy is written");
        let mut maintenance = self.maintenance();
        if maintenance.late.len() < MENDS_MAX || maintenance.late.contains_key(&container) {
            maintenance.late.entry(container).or_default().insert((vid, block), reason.to_owned());
        }
        Ok(())
    }

    /// Gives up the image of a container, if it is still the one that could not be read, so that another is
    /// made from tape. It stays while drives of the pool may come back that have it, and while no tape that
    /// can give it has a place that is not known to be damaged: it may be the only whole copy.
    pub(crate) fn drop_bad_image(
        &self,
        container: ContainerId,
        image: BlobPiece,
    ) -> Result<(), ArchiveError> {
        let Some(record) = self.read(|view| view.container(container))? else { return Ok(()) };
        if record.image != Some(image) || !self.upkeep.no_drive_may_come_back() {
            return Ok(());
        }
        // The tapes that the catalogue names may hold something else since a restore.
        if self.read(|view| view.is_restored())? {
            return Ok(());
        }
        let others: Vec<Vid> = {
            let maintenance = self.maintenance();
            let late = maintenance.late.get(&container);
            let mended = maintenance.mends.get(&container).map(|mend| &mend.damaged);
            let is_damaged =
                |place: &_| [late, mended].into_iter().flatten().any(|known| known.contains_key(place));
            record.places().filter(|place| !is_damaged(place)).map(|(vid, _)| vid).collect()
        };
        // A tape that is set aside, or whose key nobody gives now, may never give it again.
        self.rely_on_keys(&self.read(|view| view.keys_of_those(others.iter().copied()))?)?;
        if !self.read(|view| view.one_can_give(&others))? {
            tracing::error!(%container, "its image cannot be read now and stays: no tape can give it whole");
            return Ok(());
        }
        self.execute_on_container(Command::ImageLost { container, image })?;
        // It may be a part of a file that somebody waits for.
        self.members_moved(container)?;
        self.sweep.ring();
        Ok(())
    }

    /// An index was written: damaged places that waited for another copy are given up.
    pub(crate) fn give_up_late(&self) -> Result<(), ArchiveError> {
        let waiting = self.maintenance().late.clone();
        for (container, places) in waiting {
            let record = self.read(|view| view.container(container))?;
            let is_sound = |state: CopyState| {
                matches!(state, CopyState::Indexed { .. })
                    && state.place().is_some_and(|place| !places.contains_key(&place))
            };
            if record.is_some_and(|record| !record.copies.iter().any(|copy| is_sound(copy.state))) {
                continue;
            }
            self.maintenance().late.remove(&container);
            for ((vid, block), reason) in places {
                self.give_up(container, vid, block, &reason)?;
            }
        }
        Ok(())
    }

    /// Gives up a place of a container that the pool had when it was looked at, or that is to have another
    /// one. `false`: members have left the pool since, and this is the last place of all in use; it stays.
    pub(crate) fn drop_spare_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<bool, ArchiveError> {
        let why = truncated(reason, 512);
        let keys = self.read(|view| {
            let record = view.container(container)?;
            let others = record.iter().flat_map(|record| record.places()).filter(|at| *at != (vid, block));
            view.keys_of_those(others.map(|(other, _)| other).collect::<Vec<_>>())
        })?;
        self.rely_on_keys(&keys)?;
        match self.execute_on_container(Command::GiveUpPlace { container, vid, block, reason: why }) {
            Err(ArchiveError::Rejected(Rejection::WrongState { .. })) => {
                tracing::warn!(%container, %vid, %block, reason, "its bytes left the pool: it stays");
                Ok(false)
            }
            done => {
                done?;
                self.place_dropped(container, vid)?;
                Ok(true)
            }
        }
    }

    /// Records that a place has nothing of a container, and tells of everybody who waits for it.
    pub(crate) fn drop_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        let reason = truncated(reason, 512);
        self.execute_on_container(Command::CopyDamaged { container, vid, block, reason })?;
        self.upkeep.note_lost_members(container)?;
        self.place_dropped(container, vid)
    }

    /// Tells of everybody who waits for a place that was given up.
    pub(crate) fn place_dropped(&self, container: ContainerId, vid: Vid) -> Result<(), ArchiveError> {
        self.members_moved(container)?;
        self.notifier.backlog_changed();
        self.post_tape(vid);
        Ok(())
    }

    /// Tells of the wanted members of a container whose places changed.
    pub(crate) fn members_moved(&self, container: ContainerId) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let (members, wanted) = self.read(|view| {
                let members = view.members(container, after, MEMBERS_PAGE)?;
                let mut wanted = Vec::new();
                for member in &members {
                    if !view.wants(member.file)?.is_empty() {
                        wanted.push(member.file);
                    }
                }
                Ok((members, wanted))
            })?;
            wanted.into_iter().for_each(|file| self.notifier.wants_changed(file));
            let Some(last) = members.last() else { return Ok(()) };
            after = Some((last.data_offset, last.file));
        }
    }
}
