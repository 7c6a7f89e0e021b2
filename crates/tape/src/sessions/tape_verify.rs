//! Checking a whole tape: labels, indexes, change-log segments, bases of the catalogue and every container,
//! in the order of their blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlockAddress, ContainerId, Partition, Vid};
use catalogue::ContainerRecord;
use ltfs::Entry;
use ltfs::changes::ChangeNumber;
use ltfs::coherency::{self, VolumeCoherency};
use ltfs::naming::changes_path;
use mover::{BlockFault, Stray, Stretch, survey};

use super::maintain::{Done, on_tape};
use super::{MountedTape, SessionError};
use crate::maintenance::AskedCheck;
use crate::room::Tape;
use crate::{CheckState, DAMAGE_TOLD_MAX, DamagedPart, TapeDamage};
use ground::ArchiveError;

/// Where the first index of a partition may stand: behind the labels.
const BEHIND_LABELS: BlockAddress = BlockAddress(4);
/// Containers looked up together.
const CONTENT_PAGE: usize = 256;
/// Files of a damaged pack that are told.
const FILES_TOLD_MAX: usize = 20;
/// Members looked at together.
const MEMBERS_PAGE: usize = 1_000;

impl MountedTape<'_> {
    /// Checks the mounted tape from a block on. Goes on there after it had to give way.
    pub(super) fn check(&mut self, vid: Vid, asked: AskedCheck) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let began = room.now();
        room.note_check(vid, |check| {
            check.began.get_or_insert(began);
            // One that was called off since is not taken up again.
            if check.goes_on() {
                check.state = CheckState::Running;
            }
        });
        let done = self.check_from(vid, asked);
        let now = room.now();
        if room.is_check_over(vid, asked.number) {
            // How it ended is told already; whatever else is to be done goes on.
            return done.map(|_| Done::Yes);
        }
        room.note_check(vid, |check| {
            check.busy += now.since(began);
            match &done {
                _ if !check.goes_on() => {}
                Ok(Done::Yes) => (check.state, check.ended) = (CheckState::Done, Some(now)),
                Ok(Done::Yield) => {
                    check.state = CheckState::Waiting;
                    check.reason = "the drive was needed for something else".to_owned();
                }
                Err(error) => (check.state, check.reason) = (CheckState::Waiting, error.to_string()),
            }
        });
        if matches!(done, Ok(Done::Yes)) {
            room.set_tasks(vid, |tasks| tasks.check = tasks.check.filter(|now| now.number != asked.number));
        }
        done
    }

    /// What comes before this block was read, unless the check was called off.
    fn goes_on_at(&self, vid: Vid, asked: AskedCheck, at: BlockAddress) {
        self.room.set_tasks(vid, |tasks| {
            if let Some(check) = tasks.check.as_mut().filter(|check| check.number == asked.number) {
                check.from = at;
            }
        });
    }

    /// `Yield` also if the check was called off.
    fn check_from(&mut self, vid: Vid, asked: AskedCheck) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        if asked.from.0 == 0 {
            self.check_heads(vid, asked)?;
        }
        let mut at = BlockAddress(asked.from.0.max(BEHIND_LABELS.0));
        loop {
            let content = room.read(|view| view.content(vid, at, CONTENT_PAGE))?;
            if content.is_empty() {
                break;
            }
            for (block, container) in content {
                if let Done::Yield = self.check_gap(vid, asked, at, block)? {
                    return Ok(Done::Yield);
                }
                let Some(record) = room.read(|view| view.container(container))? else { continue };
                if let Done::Yield = self.check_container(vid, asked, block, container, &record)? {
                    return Ok(Done::Yield);
                }
                let mounted = &*self.tape;
                let blocks = on_tape(container, &record, block).blocks(mounted.volume.block_size());
                at = BlockAddress(block.0 + blocks.max(1));
                self.goes_on_at(vid, asked, at);
            }
        }
        let end = room.tape(vid)?.end_of_data;
        self.check_gap(vid, asked, at, end)
    }

    /// Labels, cartridge memory and the index partition.
    fn check_heads(&mut self, vid: Vid, asked: AskedCheck) -> Result<(), SessionError> {
        let room = Arc::clone(self.room);
        let mounted = &mut *self.tape;
        let uuid = mounted.volume.uuid();
        if let Some(fault) = mounted.volume.label_fault() {
            note(&room, vid, DamagedPart::Label, BlockAddress(0), fault.to_owned());
        }
        if let Some(fault) = mounted.index_fault.clone() {
            note(&room, vid, DamagedPart::Index, room.tape(vid)?.index_block, fault);
        }
        for partition in [Partition::Index, Partition::Data] {
            let value = self.drive.read_attribute(partition, coherency::VOLUME_COHERENCY.id)?;
            let fault = match value.as_deref().map(VolumeCoherency::parse) {
                Some(Ok(found)) if found.volume_uuid == uuid => continue,
                Some(Ok(found)) => format!("it names volume {}", found.volume_uuid),
                Some(Err(error)) => error.to_string(),
                None => "it says nothing of the newest index".to_owned(),
            };
            let reason = format!("cartridge memory, partition {}: {fault}", partition.ltfs_id());
            note(&room, vid, DamagedPart::Memory, BlockAddress(0), reason);
        }
        let end = match self.drive.space_to_end_of_data(Partition::Index) {
            Ok(end) => end.block,
            Err(error) if error.spares_the_medium() => return Err(error.into()),
            Err(error) => {
                note(&room, vid, DamagedPart::Index, BEHIND_LABELS, error.to_string());
                return Ok(());
            }
        };
        self.look_over(vid, asked, Stretch { partition: Partition::Index, from: BEHIND_LABELS, to: end })?;
        Ok(())
    }

    fn check_gap(
        &mut self,
        vid: Vid,
        asked: AskedCheck,
        from: BlockAddress,
        to: BlockAddress,
    ) -> Result<Done, SessionError> {
        if to <= from {
            return Ok(Done::Yes);
        }
        self.look_over(vid, asked, Stretch { partition: Partition::Data, from, to })
    }

    /// What is no container: whole or damaged indexes, segments and bases, torn blocks.
    fn look_over(&mut self, vid: Vid, asked: AskedCheck, stretch: Stretch) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let name = self.name();
        let mounted = &*self.tape;
        let (uuid, block_size) = (mounted.volume.uuid(), mounted.volume.block_size());
        let index_known = room.tape(vid)?.index_block;
        let mut bases = super::base_on_tape::recorded_parts(&room, vid, &mounted.volume)?;
        bases.retain(|(block, ..)| {
            stretch.partition == Partition::Data && (stretch.from..stretch.to).contains(block)
        });
        let segments = match stretch.partition {
            Partition::Data => self.segments_named(),
            Partition::Index => BTreeSet::new(),
        };
        let mut whole = BTreeSet::new();
        // Bases may be long: a check that gave way goes on with the part that it read last.
        let mut resume = stretch.from;
        let mut yielded = false;
        let which = stretch.partition.ltfs_id();
        survey(self.drive.as_mut(), uuid, block_size, stretch, &mut |stray| {
            match stray {
                Stray::Index(..) => room.note_check(vid, |check| check.indexes += 1),
                Stray::Segment(..) => room.note_check(vid, |check| check.segments += 1),
                Stray::Base(block, change, part) => {
                    whole.insert((block, change.0, part));
                    resume = block;
                }
                Stray::Torn(block) if segments.contains(&block) => {
                    let reason = "no change-log segment begins here, as the index has it".to_owned();
                    note(&room, vid, DamagedPart::Segment, block, reason);
                }
                // If it counts, it is missed below; else it is what a session cut short has left.
                Stray::BadBase(..) | Stray::Torn(_) => room.note_check(vid, |check| check.torn_blocks += 1),
                Stray::BadIndex(block, _, reason)
                    if stretch.partition == Partition::Index || block <= index_known =>
                {
                    let reason = format!("index on partition {which}: {reason}");
                    note(&room, vid, DamagedPart::Index, block, reason);
                }
                // Behind the newest index it is what a session cut short has left.
                Stray::BadIndex(..) => room.note_check(vid, |check| check.torn_blocks += 1),
                Stray::BadSegment(block, reason) if segments.contains(&block) => {
                    note(&room, vid, DamagedPart::Segment, block, reason);
                }
                // No index names it: the tape ended within it.
                Stray::BadSegment(..) => room.note_check(vid, |check| check.torn_blocks += 1),
                Stray::Unreadable(block, reason) => {
                    let reason = format!("partition {which}: {reason}");
                    note(&room, vid, DamagedPart::Block, block, reason);
                }
            }
            yielded = room.scheduler().must_yield(&name, room.now()) || room.is_check_over(vid, asked.number);
            !yielded
        })?;
        if yielded {
            bases.retain(|(block, ..)| *block < resume);
            if stretch.partition == Partition::Data && resume > stretch.from {
                self.goes_on_at(vid, asked, resume);
            }
        }
        let mut damaged = BTreeSet::new();
        for place in bases.into_iter().filter(|place| !whole.contains(place)) {
            let (block, change, part) = place;
            let reason = format!("part {part} of the base of the catalogue at change {change} is not whole");
            note(&room, vid, DamagedPart::Base, block, reason);
            damaged.insert(change);
        }
        damaged.into_iter().try_for_each(|change| super::base_on_tape::forget(&room, vid, change))?;
        Ok(if yielded { Done::Yield } else { Done::Yes })
    }

    /// Where the index has change-log segments: the first block of each.
    fn segments_named(&self) -> BTreeSet<BlockAddress> {
        let tree = self.tape.volume.tree();
        let any = changes_path(ChangeNumber(1), ChangeNumber(1));
        let directory = tree.directory_of(&any).and_then(|uid| tree.directory(uid));
        let entries = directory.into_iter().flat_map(|directory| directory.entries.values());
        let first_block = |entry: &Entry| match entry {
            Entry::File(file) => file.extents.first().map(|extent| extent.start_block),
            Entry::Directory(_) => None,
        };
        entries.filter_map(first_block).collect()
    }

    fn check_container(
        &mut self,
        vid: Vid,
        asked: AskedCheck,
        block: BlockAddress,
        container: ContainerId,
        record: &ContainerRecord,
    ) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let what = on_tape(container, record, block);
        let back = self.read_container(vid, &what, |_| !room.is_check_over(vid, asked.number))?;
        if back.stopped {
            return Ok(Done::Yield);
        }
        room.note_check(vid, |check| {
            check.containers_checked += 1;
            check.bytes_checked.0 += record.length.0;
        });
        for fault in &back.faults {
            let (files, more) = files_hit(&room, container, fault)?;
            add(
                &room,
                vid,
                TapeDamage {
                    part: DamagedPart::Container,
                    block: fault.block,
                    container: Some(container),
                    tape_path: record.tape_path.clone(),
                    files,
                    more_files: more,
                    reason: fault.reason.clone(),
                },
            );
        }
        if let Some(first) = back.faults.first() {
            room.copy_damaged(container, vid, block, &first.reason)?;
        }
        Ok(Done::Yes)
    }
}

fn note(room: &Tape, vid: Vid, part: DamagedPart, block: BlockAddress, reason: String) {
    let damage = TapeDamage {
        part,
        block,
        container: None,
        tape_path: String::new(),
        files: Vec::new(),
        more_files: 0,
        reason,
    };
    add(room, vid, damage);
}

fn add(room: &Tape, vid: Vid, damage: TapeDamage) {
    tracing::error!(%vid, block = %damage.block, part = ?damage.part, reason = damage.reason, "damage found");
    room.note_check(vid, |check| {
        // A check that gave way looks at some places twice.
        if check.damage.contains(&damage) {
            return;
        }
        check.damage_count += 1;
        if check.damage.len() < DAMAGE_TOLD_MAX {
            check.damage.push(damage);
        }
    });
}

/// The files whose bytes, or header, a fault hits, and how many more.
fn files_hit(
    room: &Tape,
    container: ContainerId,
    fault: &BlockFault,
) -> Result<(Vec<String>, u64), ArchiveError> {
    let (mut files, mut more) = (Vec::new(), 0);
    let mut after = None;
    loop {
        let page = room.read(|view| view.members(container, after, MEMBERS_PAGE))?;
        for member in &page {
            let end = member.data_offset.0 + member.length.0;
            if end <= fault.offset || member.header_offset.0 >= fault.offset + fault.length {
                continue;
            }
            if files.len() >= FILES_TOLD_MAX {
                more += 1;
            } else if let Some(path) = room.read(|view| view.path_of_file(member.file))? {
                files.push(path);
            }
        }
        let Some(last) = page.last() else { return Ok((files, more)) };
        after = Some((last.data_offset, last.file));
    }
}
