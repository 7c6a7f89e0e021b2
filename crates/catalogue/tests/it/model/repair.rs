//! Losses, repack, restore: the reference's answers, and steps that lead there.

use base::*;
use catalogue::*;

use super::reference::{Answer, Container, Model};
use super::steps::{among, an_open_run, piece, segment, some_files, striped};

/// How many ids a restore jumps over.
const JUMP: u64 = 1 << 32;

impl Model {
    /// Whether each byte of the file can be read from tape.
    fn is_on_tape(&self, id: FileId) -> bool {
        let parts = self.parts(id);
        let covered = parts.iter().filter(|(container, _)| !self.containers[container].places().is_empty());
        covered.map(|(_, member)| member.length.0).sum::<u64>() == self.files[&id].size.0
    }

    /// Whether an index covers each part of the file.
    fn is_indexed(&self, id: FileId) -> bool {
        let indexed =
            |copy: &ContainerCopy| matches!(copy.state, CopyState::Indexed { .. }) || copy.source.is_some();
        self.parts(id).iter().all(|(container, _)| self.containers[container].copies.iter().any(indexed))
    }

    /// What becomes of a named file that the pool cannot give; `by_state`: tapes that are set aside do not
    /// count.
    fn decide(&mut self, id: FileId, by_state: bool) -> PoolLoss {
        let at = self.at;
        let tapes_have = if by_state { self.not_given(id).is_none() } else { self.is_indexed(id) };
        let is_covered = self.restored || self.files[&id].pieces.is_empty() || tapes_have;
        let is_on_tape = is_covered && self.is_on_tape(id);
        let file = self.files.get_mut(&id).unwrap();
        if is_on_tape {
            file.state = FileState::Live;
            let pieces = std::mem::take(&mut file.pieces);
            self.released(&pieces);
            return PoolLoss::Nearline;
        }
        if file.state == FileState::Live {
            file.state = FileState::Lost(at);
        }
        self.todo.remove(&id);
        PoolLoss::Lost
    }

    /// Whether a file has in the pool what somebody saw there.
    fn has_copy(&self, copy: &PoolCopy) -> bool {
        self.files.get(&copy.file).is_some_and(|file| file.pieces == copy.pieces)
    }

    fn lose(&mut self, id: FileId, by_state: bool) -> PoolLoss {
        let concerns = self
            .named(id)
            .is_some_and(|file| file.size.0 > 0 && (self.is_lost(id) || !file.pieces.is_empty()));
        if concerns { self.decide(id, by_state) } else { PoolLoss::NotConcerned }
    }

    fn found_again(&mut self, id: FileId) {
        if !self.is_lost(id) || self.files[&id].pieces.is_empty() {
            return;
        }
        let file = self.files.get_mut(&id).unwrap();
        file.state = FileState::Live;
        let (class, size) = (file.class, file.size.0);
        let sealed: u64 = self.parts(id).iter().map(|(_, part)| part.length.0).sum();
        if sealed < size && !self.class(class).unwrap().copies.is_empty() {
            self.todo.insert(id);
        }
    }

    /// A container with an image has come to tape.
    pub fn revive(&mut self, id: ContainerId) {
        let container = &self.containers[&id];
        if container.image.is_some() && container.places().len() == 1 {
            let files: Vec<_> = container.members.iter().map(|member| member.file).collect();
            for file in files.into_iter().filter(|file| self.is_lost(*file)).collect::<Vec<_>>() {
                self.decide(file, self.rules.contains(&Rule::ReadableIfEvicted));
            }
        }
    }

    fn take_off(&mut self, container: ContainerId, (vid, _): (Vid, BlockAddress)) {
        let tape = self.tapes.get_mut(&vid).unwrap();
        tape.containers -= 1;
        tape.committed.0 -= self.containers[&container].length.0;
    }

    fn drop_copy(&mut self, id: ContainerId, at: usize) {
        let copy = self.containers[&id].copies[at];
        let source = copy.source.map(|source| (source.vid, source.block));
        for place in copy.state.place().into_iter().chain(source) {
            self.take_off(id, place);
        }
        let container = self.containers.get_mut(&id).unwrap();
        container.copies.remove(at);
        if container.copies.is_empty() {
            let container = self.containers.remove(&id).unwrap();
            let held: Vec<_> = container.skeleton.into_iter().chain(container.image).collect();
            self.released(&held);
        }
        self.tidy();
    }

    pub fn repair(&mut self, command: &Command) -> Answer {
        match command {
            Command::MoveStripe { blob, stripe, from, to } => {
                let blob = self.blobs.get_mut(blob).ok_or("NotFound")?;
                if to.drives.len() != blob.layout.width() {
                    return Err("Malformed");
                }
                let set = blob.stripes.get_mut(*stripe as usize).ok_or("Malformed")?;
                if set.id != *from {
                    return Err("WrongState");
                }
                *set = to.clone();
            }
            Command::CopySegment { blob, from, to } => {
                let blob = self.blobs.get_mut(blob).ok_or("NotFound")?;
                if !matches!(blob.layout, Layout::Segment { .. }) {
                    return Err("Malformed");
                }
                if blob.stripes[0].id != *from {
                    return Err("WrongState");
                }
                let copies = blob.layout.width();
                if to.drives.len() <= copies || to.drives[..copies] != blob.stripes[0].drives {
                    return Err("Malformed");
                }
                blob.layout = Layout::Segment { copies: to.drives.len() as u8 };
                blob.stripes = vec![to.clone()];
            }
            Command::BlobRecoded { from, to } => {
                let blob = self.blobs.get(&to.id).ok_or("NotFound")?;
                if blob.stands_as != *from {
                    return Err("WrongState");
                }
                let is_striped = |blob: &BlobDescription| matches!(blob.layout, Layout::Striped { .. });
                let extents = to.stands_as.ok_or("Malformed")?;
                let is_taken = self.blobs.contains_key(&extents)
                    || self.stands_as.contains_key(&extents)
                    || self.garbage.contains(&(extents, u64::MAX));
                let fits = to.stripes.iter().all(|set| set.drives.len() == to.layout.width());
                if !is_striped(blob) || !is_striped(to) || blob.length != to.length || is_taken || !fits {
                    return Err("Malformed");
                }
                from.map(|old| self.stands_as.remove(&old));
                self.stands_as.insert(extents, to.id);
                self.blobs.insert(to.id, to.clone());
            }
            Command::PoolCopyLost { files } => {
                let losses = files.iter().map(|id| self.lose(*id, false)).collect();
                return Ok(Outcome::PoolCopyLost(losses));
            }
            Command::PoolCopiesLost { copies } => {
                let mut losses = Vec::new();
                for copy in copies {
                    let is_it = self.has_copy(copy);
                    losses.push(if is_it { self.lose(copy.file, true) } else { PoolLoss::NotConcerned });
                }
                return Ok(Outcome::PoolCopyLost(losses));
            }
            Command::PoolCopyFound { files } => files.iter().for_each(|id| self.found_again(*id)),
            Command::PoolCopiesFound { copies } => {
                for copy in copies {
                    if self.has_copy(copy) {
                        self.found_again(copy.file);
                    }
                }
            }
            Command::CopyDamaged { container, vid, block, reason } => {
                self.damaged(*container, (*vid, *block), reason)?;
            }
            Command::GiveUpPlace { container, vid, block, reason } => {
                let record = self.containers.get(container).ok_or("NotFound")?;
                let is_near = |file| self.live(file).is_some_and(|file| !file.is_online());
                let is_lost = |file| self.files.get(&file).is_some_and(|file| file.is_lost());
                let is_missed =
                    record.members.iter().any(|member| is_near(member.file) || is_lost(member.file));
                let (here, others): (Vec<_>, Vec<_>) =
                    record.places().into_iter().partition(|place| *place == (*vid, *block));
                let is_read = |vid: &Vid| {
                    !self.rules.contains(&Rule::AnotherGives) || record.image.is_some() || self.can_give(*vid)
                };
                if is_missed && !here.is_empty() && !others.iter().any(|(vid, _)| is_read(vid)) {
                    return Err("WrongState");
                }
                self.damaged(*container, (*vid, *block), reason)?;
            }
            Command::StoreImage { container, image } => {
                let record = self.containers.get(container).ok_or("NotFound")?;
                let settled = record
                    .copies
                    .iter()
                    .all(|copy| matches!(copy.state, CopyState::Indexed { .. }) && copy.source.is_none());
                if record.image.is_some() || settled {
                    return Err("WrongState");
                }
                if image.pieces.len() != 1 || image.pieces[0].length != record.length {
                    return Err("Malformed");
                }
                self.take(&image.blobs)?;
                self.containers.get_mut(container).unwrap().image = Some(image.pieces[0]);
                self.part_came(*container);
            }
            Command::MendCopy { container, vid, block, reason, image } => {
                let before = self.clone();
                let store = Command::StoreImage { container: *container, image: image.clone() };
                let damaged = self.damaged(*container, (*vid, *block), reason);
                if let Err(refused) = damaged.and_then(|()| self.repair(&store)) {
                    *self = before;
                    return Err(refused);
                }
            }
            Command::DropImage { container } => {
                let image = self.containers.get_mut(container).ok_or("NotFound")?.image.take();
                self.released(image.as_slice());
                if image.is_some() {
                    self.part_went(*container);
                }
            }
            Command::ImageLost { container, image } => {
                let record = self.containers.get_mut(container).ok_or("NotFound")?;
                if record.image == Some(*image) {
                    record.image = None;
                    self.released(&[*image]);
                    self.part_went(*container);
                }
            }
            Command::RequeueCopy { container, vid } => {
                return self.requeue(*container, *vid).map(Outcome::Requeued);
            }
            Command::KeepCopy { container, vid } => {
                let record = self.containers.get_mut(container).ok_or("NotFound")?;
                for copy in &mut record.copies {
                    match copy.source {
                        Some(source) if source.vid == *vid && copy.state == CopyState::Queued => {
                            copy.state = CopyState::Indexed { vid: source.vid, block: source.block };
                            copy.source = None;
                        }
                        _ => {}
                    }
                }
                self.tidy();
            }
            Command::DropUnneededCopies { container } => {
                let record = self.containers.get(container).ok_or("NotFound")?;
                let is_dropped =
                    |copy: &ContainerCopy| copy.state == CopyState::Queued && copy.source.is_none();
                if self.is_needed(record) || record.copies.iter().all(is_dropped) {
                    return Err("WrongState");
                }
                let record = self.containers.get_mut(container).ok_or("NotFound")?;
                record.copies.retain(|copy| !is_dropped(copy));
                for copy in record.copies.iter_mut().filter(|copy| copy.state == CopyState::Queued) {
                    let source = copy.source.take().expect("one that has none was dropped");
                    copy.state = CopyState::Indexed { vid: source.vid, block: source.block };
                }
                self.tidy();
            }
            Command::CopyVerified { container, vid, block } => {
                let record = self.containers.get_mut(container).ok_or("NotFound")?;
                let present = CopyState::Indexed { vid: *vid, block: *block };
                let copy = record.copies.iter_mut().find(|copy| copy.state == present);
                if let Some(source) = copy.and_then(|copy| copy.source.take()) {
                    self.take_off(*container, (source.vid, source.block));
                    let here = |key: &RecallKey| (key.vid, key.block) == (source.vid, source.block);
                    let rows: Vec<_> =
                        self.recalls.iter().filter(|(k, _)| here(k)).map(|(k, i)| (*k, *i)).collect();
                    for (key, item) in rows {
                        self.recalls.remove(&key);
                        self.recalls.entry(RecallKey { vid: *vid, block: *block, ..key }).or_insert(item);
                    }
                    self.tidy();
                }
            }
            Command::ReclaimTape { vid } => {
                let is_used = self.containers.values().any(|c| c.places().iter().any(|(on, _)| on == vid));
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let is_aside =
                    !matches!(tape.state, TapeState::Scratch | TapeState::Labelling | TapeState::Active);
                if tape.generation.0 == 0 || !is_aside || tape.run.is_some() || is_used {
                    return Err("WrongState");
                }
                *tape = TapeRecord {
                    mounts: tape.mounts,
                    replaces: tape.uuid,
                    away: tape.away.clone(),
                    ..TapeRecord::scratch(tape.capacity)
                };
                self.segments.retain(|(on, _), _| on != vid);
            }
            Command::RetireTape { vid } => {
                use TapeState::{Disabled, Scratch, Suspect};
                let is_used = self.containers.values().any(|c| c.places().iter().any(|(on, _)| on == vid));
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let was_written = tape.generation.0 > 0;
                let may = match was_written {
                    true => tape.state != TapeState::Active,
                    false => matches!(tape.state, Scratch | Suspect | Disabled),
                };
                if !may || tape.run.is_some() || is_used {
                    return Err("WrongState");
                }
                *tape = TapeRecord {
                    state: TapeState::Retired,
                    mounts: tape.mounts,
                    replaces: if was_written { tape.uuid } else { tape.replaces },
                    away: tape.away.clone(),
                    ..TapeRecord::scratch(tape.capacity)
                };
                self.segments.retain(|(on, _), _| on != vid);
            }
            Command::AddTape { vid } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if tape.state != TapeState::Retired {
                    return Err("WrongState");
                }
                tape.state = TapeState::Scratch;
            }
            Command::SetTapeAway { vid, kind, place } => {
                if place.len() > 256 || kind.is_none() && !place.is_empty() {
                    return Err("Malformed");
                }
                let since = self.at;
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if tape.run.is_some() && kind.is_some() {
                    return Err("WrongState");
                }
                let known = tape.away.as_ref().map(|away| (away.kind, away.place.clone()));
                if known != kind.map(|kind| (kind, place.clone())) {
                    tape.away = kind.map(|kind| TapeAway { kind, place: place.clone(), since });
                }
            }
            Command::SetTapeCapacity { vid, capacity } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if capacity.0 == 0 {
                    return Err("Malformed");
                }
                if tape.state == TapeState::Retired {
                    return Err("WrongState");
                }
                tape.capacity = *capacity;
            }
            Command::SetTapeKey { vid, key } => {
                let is_one = self.rules.contains(&Rule::OneKeyOfAnId);
                let is_another = self.tapes.iter().any(|(of, tape)| {
                    let counts = tape.generation.0 > 0 || tape.state == TapeState::Labelling;
                    let differs = |a: &TapeKey, b: &TapeKey| a.id == b.id && a.check != b.check;
                    let is_other = tape.key.as_ref().zip(key.as_ref()).is_some_and(|(a, b)| differs(a, b));
                    of != vid && counts && is_other
                });
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if tape.key != *key {
                    let is_unknown = tape.key.is_none() && tape.generation.0 > 0;
                    if tape.state != TapeState::Labelling && !is_unknown {
                        return Err("WrongState");
                    }
                    if tape.state == TapeState::Labelling && is_one && is_another {
                        return Err("WrongState");
                    }
                    tape.key.clone_from(key);
                }
            }
            Command::SetTapeLeaving { vid, leaving } => {
                self.tapes.get(vid).ok_or("NotFound")?;
                match leaving {
                    true => drop(self.tapes_leaving.insert(*vid)),
                    false => drop(self.tapes_leaving.remove(vid)),
                }
            }
            Command::SetKeyAtHand { key, at_hand } => match at_hand {
                true => drop(self.keys_at_hand.insert(key.clone())),
                false => drop(self.keys_at_hand.remove(key)),
            },
            Command::AcceptRestore { epoch, after, seen } => {
                if *after != self.changes {
                    return Err("Malformed");
                }
                self.epoch = self.epoch.max(epoch.0);
                self.quarantine = self.quarantine.max(Some(self.epoch));
                self.restored = true;
                let next = [self.next_file, self.next_container, self.next_request, self.next_run];
                let highest = next.into_iter().fold((self.changes + 1).max(*seen), u64::max);
                let level = (highest / JUMP + 1) * JUMP;
                self.next_file = level;
                self.next_container = level;
                self.next_request = level;
                self.next_run = level;
                self.changes = level - 1;
            }
            Command::RestoreSettled => self.restored = false,
            Command::EndQuarantine => self.quarantine = None,
            Command::SetDriveDown { drive, .. } if drive.is_empty() => return Err("Malformed"),
            Command::SetDriveDown { drive, down: Some(why) } => {
                self.drives_down.insert(drive.clone(), why.clone());
            }
            Command::SetDriveDown { drive, down: None } => {
                self.drives_down.remove(drive);
            }
            Command::SetDriveCleaning { drive, .. } | Command::CleaningEnded { drive, .. }
                if drive.is_empty() =>
            {
                return Err("Malformed");
            }
            Command::SetDriveCleaning { drive, urgent } => {
                let cleaning = self.drives_cleaning.entry(drive.clone()).or_default();
                let is_anew = self.rules.contains(&Rule::UrgentAnew);
                let is_more = |asks: &CleaningAsk| is_anew && *urgent == Some(true) && !asks.urgent;
                let since = match cleaning.asks {
                    Some(asks) if !is_more(&asks) => asks.since,
                    _ => self.at,
                };
                cleaning.asks = urgent.map(|urgent| CleaningAsk { urgent, since });
                self.drives_cleaning.retain(|_, it| *it != DriveCleaning::default());
            }
            Command::SetPoolDrive { drive, state } => {
                let before = self.pool_drives.get(drive).map(|record| record.state);
                match state {
                    Some(state) if before == Some(*state) => {}
                    Some(state) => {
                        let record = PoolDriveRecord { state: *state, since: self.at };
                        self.pool_drives.insert(*drive, record);
                    }
                    None => drop(self.pool_drives.remove(drive)),
                }
            }
            Command::SetDriveDisk { drive, disk: None } => drop(self.drive_disks.remove(drive)),
            Command::SetDriveDisk { drive, disk: Some(disk) } => {
                if disk.disk.is_empty() {
                    return Err("Malformed");
                }
                let place = |disk: &DriveDisk| (disk.disk.clone(), disk.slot);
                let before = self.drive_disks.get(drive).filter(|known| place(&known.known) == place(disk));
                let since = before.map_or(self.at, |known| known.since);
                self.drive_disks.insert(*drive, DriveDiskRecord { known: disk.clone(), since });
            }
            Command::SetRebalance { to } => {
                if self.rebalance.map(|record| record.to) != *to {
                    self.rebalance = to.map(|to| RebalanceRecord { to, since: self.at });
                }
            }
            Command::SetRecoding { to } => {
                if self.recoding.map(|record| record.to) != *to {
                    self.recoding = to.map(|to| RecodingRecord { to, since: self.at });
                }
            }
            Command::CountCleaning { vid, anew } => match *anew {
                true => drop(self.cleaners.remove(vid)),
                false => self.cleaners.entry(*vid).or_default().uses += 1,
            },
            Command::UncountCleaning { vid } => {
                if let Some(cleaner) = self.cleaners.get_mut(vid) {
                    cleaner.uses = cleaner.uses.max(1) - 1;
                }
                self.cleaners.retain(|_, cleaner| cleaner.uses > 0 || cleaner.unfit.is_some());
            }
            Command::CleaningEnded { vid, unfit: Some(why), .. } => {
                self.cleaners.entry(*vid).or_default().unfit = Some(why.clone());
            }
            Command::CleaningEnded { drive, unfit: None, .. } => {
                self.drives_cleaning
                    .insert(drive.clone(), DriveCleaning { asks: None, cleaned: Some(self.at) });
            }
            Command::DissolvePack { container } => {
                let record = self.containers.get(container).ok_or("NotFound")?;
                let queued = |c: &ContainerCopy| c.state == CopyState::Queued && c.source.is_none();
                let may_go = match record.kind {
                    ContainerKind::Pack => true,
                    ContainerKind::File(file) if self.is_needed(record) => {
                        self.live(file).is_some_and(FileRecord::is_online)
                    }
                    _ => !self.is_needed(record),
                };
                if !may_go || record.image.is_some() || !record.copies.iter().all(queued) {
                    return Err("WrongState");
                }
                let record = self.containers.remove(container).unwrap();
                self.sealing.remove(container);
                self.released(record.skeleton.as_slice());
                for member in &record.members {
                    let live = self.live(member.file).filter(|file| file.is_online());
                    let class = live.map(|file| file.class);
                    if class.is_some_and(|class| !self.class(class).unwrap().copies.is_empty()) {
                        self.todo.insert(member.file);
                    }
                }
                self.bury();
            }
            _ => unreachable!("{command:?}"),
        }
        Ok(Outcome::Done)
    }

    /// Whether a file of it has a name.
    fn is_needed(&self, record: &Container) -> bool {
        record.members.iter().any(|member| self.named(member.file).is_some())
    }

    fn damaged(
        &mut self,
        id: ContainerId,
        place: (Vid, BlockAddress),
        reason: &str,
    ) -> Result<(), &'static str> {
        let record = self.containers.get_mut(&id).ok_or("NotFound")?;
        let is_source = |copy: &ContainerCopy| copy.source.map(|s| (s.vid, s.block)) == Some(place);
        let is_here = |copy: &ContainerCopy| copy.state.place() == Some(place) || is_source(copy);
        let Some(at) = record.copies.iter().position(is_here) else { return Ok(()) };
        let copy = &mut record.copies[at];
        if record.members.is_empty() && !matches!(copy.state, CopyState::Planned { .. }) {
            self.drop_copy(id, at);
            return Ok(());
        }
        if is_source(copy) {
            copy.source = None;
        } else {
            copy.state = CopyState::Queued;
        }
        let is_gone = record.places().is_empty();
        let members: Vec<_> = record.members.iter().map(|member| member.file).collect();
        self.take_off(id, place);
        for file in members {
            let is_near = self.live(file).is_some_and(|record| !record.is_online());
            if is_gone && is_near {
                self.settle(file, &ItemState::Failed(format!("LOST: {reason}")));
                self.files.get_mut(&file).unwrap().state = FileState::Lost(self.at);
            }
            let mut rows = self.recalls.keys().filter(|key| key.file == file);
            if rows.any(|key| (key.vid, key.block) == place) {
                self.recalls.retain(|key, _| key.file != file || (key.vid, key.block) != place);
                if !self.is_served(file) {
                    self.settle(file, &ItemState::Failed(reason.into()));
                }
            }
        }
        self.tidy();
        Ok(())
    }

    fn requeue(&mut self, id: ContainerId, vid: Vid) -> Result<Requeue, &'static str> {
        let record = self.containers.get_mut(&id).ok_or("NotFound")?;
        let tape = self.tapes.get(&vid).ok_or("NotFound")?;
        let is_source = |copy: &ContainerCopy| copy.source.is_some_and(|source| source.vid == vid);
        let is_present = |copy: &ContainerCopy| copy.state.place().is_some_and(|(on, _)| on == vid);
        let Some(at) = record.copies.iter().position(|copy| is_source(copy) || is_present(copy)) else {
            return Ok(Requeue::NotThere);
        };
        if tape.run.is_some() {
            return Err("WrongState");
        }
        let copy = &mut record.copies[at];
        if record.members.is_empty() && !matches!(copy.state, CopyState::Planned { .. }) {
            self.drop_copy(id, at);
            return Ok(Requeue::Dropped);
        }
        if !is_present(copy) {
            return Ok(Requeue::Queued);
        }
        if copy.source.is_some() || matches!(copy.state, CopyState::Flushed { .. }) {
            return Err("WrongState");
        }
        copy.source = copy.state.place().map(|(vid, block)| TapePlace { vid, block });
        copy.state = CopyState::Queued;
        Ok(Requeue::Queued)
    }
}

fn a_container(model: &Model, pick: u16) -> ContainerId {
    among(&model.containers.keys().copied().collect::<Vec<_>>(), pick).unwrap_or(ContainerId(7))
}

fn a_place(model: &Model, id: ContainerId, pick: u16) -> (Vid, BlockAddress) {
    let places = model.containers.get(&id).map(|container| container.places()).unwrap_or_default();
    among(&places, pick).unwrap_or((Vid::new("AAA001").unwrap(), BlockAddress(3)))
}

fn move_stripe(model: &Model, picks: &[u16; 6]) -> Command {
    let blobs: Vec<_> = model.blobs.values().collect();
    let (blob, width, set) = match among(&blobs, picks[0]) {
        Some(blob) => (blob.id, blob.stripes[0].drives.len() as u16, blob.stripes[0].id),
        None => (BlobId(1), 6, StripeSetId(1)),
    };
    let from = if picks[1] % 10 == 9 { StripeSetId(9) } else { set };
    // Two sets for each width, so that a stripe can go and come back.
    let is_first = set.0 < 10;
    let id = if width == 6 { 1 } else { width.into() } + if is_first { 10 } else { 0 };
    let start = u16::from(width != 6) + if is_first { 20 } else { 0 };
    let drives = (start..start + width).map(DriveId).collect();
    let to = StripeSet { id: StripeSetId(id), drives };
    Command::MoveStripe { blob, stripe: u32::from(picks[2] % 8 == 7), from, to }
}

fn copy_segment(model: &Model, picks: &[u16; 6]) -> Command {
    let is_segment = |blob: &&BlobDescription| matches!(blob.layout, Layout::Segment { .. });
    let segments: Vec<_> = model.blobs.values().filter(is_segment).collect();
    let (blob, set) = match among(&segments, picks[0]) {
        Some(blob) if picks[1] % 10 != 8 => (blob.id, blob.stripes[0].clone()),
        _ => (model.blobs.keys().next().copied().unwrap_or(BlobId(1)), striped(1, 1).stripes.remove(0)),
    };
    let from = if picks[1] % 10 == 9 { StripeSetId(9) } else { set.id };
    // Those behind its own, as sets of that width are.
    let last = set.drives[set.drives.len() - 1].0;
    let more = [1, 1, 1, 0][usize::from(picks[2]) % 4].min(5 - set.drives.len().min(5) as u16);
    let mut drives = set.drives;
    drives.extend((last + 1..=last + more).map(DriveId));
    let id = StripeSetId(set.id.0 + u32::from(more));
    if picks[3] % 16 == 0 {
        drives.swap(0, 1);
    }
    Command::CopySegment { blob, from, to: StripeSet { id, drives } }
}

fn recode(model: &Model, picks: &[u16; 6]) -> Command {
    let blobs: Vec<_> = model.blobs.values().collect();
    let Some(blob) = among(&blobs, picks[0]) else {
        return Command::BlobRecoded { from: None, to: striped(1, 1) };
    };
    let from = if picks[1] % 10 == 9 { Some(BlobId(9)) } else { blob.stands_as };
    // Far from those of new blobs, but for some that are taken.
    let extents = if picks[1] % 10 == 8 { blob.extents() } else { BlobId((1 << 39) + u64::from(picks[2])) };
    let stands_as = (picks[1] % 10 != 7).then_some(extents);
    // As wide as all others, so that its stripes move as theirs.
    let layout = Layout::Striped { code: StripeCode::reed_solomon(5, 1) };
    let stripes = striped(1, 1).stripes;
    let length = if picks[1] % 10 == 6 { ByteCount(blob.length.0 + 1) } else { blob.length };
    Command::BlobRecoded { from, to: BlobDescription { id: blob.id, stands_as, layout, length, stripes } }
}

fn store_image(model: &Model, picks: &[u16; 6]) -> Command {
    let wanted = |record: &Container| {
        record.image.is_none() && record.copies.iter().any(|copy| copy.state == CopyState::Queued)
    };
    let wanted: Vec<_> = model.containers.iter().filter(|(_, r)| wanted(r)).map(|(id, _)| *id).collect();
    let container = among(&wanted, picks[0]).unwrap_or(a_container(model, picks[1]));
    let length = model.containers.get(&container).map_or(1, |record| record.length.0);
    let length = length + u64::from(picks[2] % 10 == 9);
    let blob = 3_000_000 + model.changes * 10;
    let blobs = if picks[3] % 2 == 0 { vec![striped(blob, length)] } else { vec![segment(blob)] };
    Command::StoreImage { container, image: PoolData { blobs, pieces: vec![piece(blob, 0, length)] } }
}

/// What files have in the pool, or had before they got something else.
fn looked_at(model: &Model, files: Vec<FileId>, picks: &[u16; 6]) -> Vec<PoolCopy> {
    let copy = |(at, file): (usize, FileId)| {
        let mut pieces = model.files.get(&file).map(|file| file.pieces.clone()).unwrap_or_default();
        if (at + usize::from(picks[5])) % 4 == 3 {
            pieces = vec![piece(3_000_001, 0, 1)];
        }
        PoolCopy { file, pieces }
    };
    files.into_iter().enumerate().map(copy).collect()
}

/// A command drawn blindly.
pub fn command(model: &Model, kind: u8, picks: &[u16; 6]) -> Command {
    let lost = || -> Vec<FileId> { model.files.keys().copied().filter(|id| model.is_lost(*id)).collect() };
    match kind {
        0 | 1 => move_stripe(model, picks),
        2 => Command::PoolCopyLost { files: some_files(model, picks) },
        3 => Command::PoolCopiesLost { copies: looked_at(model, some_files(model, picks), picks) },
        4 if picks[0] % 2 == 0 => Command::PoolCopyLost { files: lost() },
        4 => Command::PoolCopiesLost { copies: looked_at(model, lost(), picks) },
        5 if picks[0] % 2 == 0 => Command::PoolCopyFound { files: lost().into_iter().take(2).collect() },
        5 => Command::PoolCopiesFound { copies: looked_at(model, lost(), picks) },
        6 => Command::PoolCopyFound { files: some_files(model, picks) },
        7 => {
            let container = a_container(model, picks[0]);
            let (vid, block) = a_place(model, container, picks[1]);
            match picks[2] % 2 {
                0 => Command::CopyDamaged { container, vid, block, reason: "d".into() },
                _ => Command::GiveUpPlace { container, vid, block, reason: "e".into() },
            }
        }
        10 => store_image(model, picks),
        11 => {
            let container = a_container(model, picks[0]);
            let length = model.containers.get(&container).map_or(1, |record| record.length.0);
            let blob = 3_000_000 + model.changes * 10;
            let image = PoolData { blobs: vec![striped(blob, length)], pieces: vec![piece(blob, 0, length)] };
            let (vid, block) = a_place(model, container, picks[1]);
            Command::MendCopy { container, vid, block, reason: "m".into(), image }
        }
        12 => {
            let with = model.containers.iter().find(|(_, record)| record.image.is_some());
            let container = with.map_or(a_container(model, picks[0]), |(id, _)| *id);
            let image = with.and_then(|(_, record)| record.image);
            match picks[1] % 3 {
                0 => Command::DropImage { container },
                1 => Command::ImageLost { container, image: piece(3_000_001, 0, 1) },
                _ => Command::ImageLost { container, image: image.unwrap_or(piece(3_000_001, 0, 1)) },
            }
        }
        8 | 9 | 13 | 14 => {
            let container = a_container(model, picks[0]);
            let (vid, _) = a_place(model, container, picks[1]);
            match picks[2] % 4 {
                0 => Command::KeepCopy { container, vid },
                1 => Command::DropUnneededCopies { container: dead_and_queued(model).unwrap_or(container) },
                _ => Command::RequeueCopy { container, vid },
            }
        }
        15 => {
            let container = a_container(model, picks[0]);
            let (vid, block) = a_place(model, container, picks[1]);
            Command::CopyVerified { container, vid, block }
        }
        16 => {
            let tapes: Vec<_> = model.tapes.keys().copied().collect();
            let vid = among(&tapes, picks[0]).unwrap();
            let retired: Vec<_> =
                tapes.iter().filter(|vid| model.tapes[vid].state == TapeState::Retired).copied().collect();
            match picks[1] % 9 {
                0 => Command::RetireTape { vid },
                1 | 2 => Command::AddTape { vid: among(&retired, picks[2]).unwrap_or(vid) },
                3 => {
                    let kinds = [None, Some(AwayKind::Exported), Some(AwayKind::OffSite)];
                    let kind = kinds[usize::from(picks[2]) % kinds.len()];
                    let length = [0, 0, 7, 256, 257][usize::from(picks[3]) % 5];
                    Command::SetTapeAway { vid, kind, place: "v".repeat(length) }
                }
                4 => {
                    let keys = [None, Some("old"), Some("new")];
                    let key = keys[usize::from(picks[2]) % keys.len()];
                    let check = KeyCheck([picks[3] as u8 % 2; KeyCheck::BYTES]);
                    let key = key.map(|key| TapeKey { id: KeyId::new(key).unwrap(), check });
                    Command::SetTapeKey { vid, key }
                }
                5 => {
                    let known: Vec<_> = model.tapes.values().filter_map(|tape| tape.key.clone()).collect();
                    let other = TapeKey { id: KeyId::new("none").unwrap(), check: KeyCheck([0; 6]) };
                    let at = usize::from(picks[2]).checked_rem(known.len()).unwrap_or(0);
                    let key = known.get(at).cloned().unwrap_or(other);
                    Command::SetKeyAtHand { key, at_hand: picks[3] % 2 == 0 }
                }
                6 => {
                    let capacity = [0, 1, 1_000_000, 40_000_000][usize::from(picks[2]) % 4];
                    Command::SetTapeCapacity { vid, capacity: base::ByteCount(capacity) }
                }
                7 => Command::SetTapeLeaving { vid, leaving: picks[2] % 2 == 0 },
                _ => Command::ReclaimTape { vid },
            }
        }
        17 | 18 => {
            let run = an_open_run(model, picks[0]);
            let Some(open) = model.runs.get(&run) else { return Command::RestoreSettled };
            let more = u32::from(picks[1]) % (open.record.planned - open.record.committed + 1);
            let committed = open.record.committed + more + u32::from(picks[2] % 20 == 19);
            let last = open.items[..(committed as usize).min(open.items.len())].last();
            let end = last.map_or(0, |last| last.block.0 + last.blocks.0);
            let end_of_data = BlockAddress(end.max(model.tapes[&open.record.vid].end_of_data.0));
            Command::AdoptRun { run, committed, end_of_data }
        }
        20 | 21 => {
            let queued = |c: &ContainerCopy| c.state == CopyState::Queued && c.source.is_none();
            let whole = |record: &super::reference::Container| record.copies.iter().all(queued);
            let all: Vec<_> = model.containers.iter().filter(|(_, r)| whole(r)).map(|(id, _)| *id).collect();
            let container = among(&all, picks[1]).filter(|_| picks[2] % 4 > 0);
            let container = container.unwrap_or(a_container(model, picks[1]));
            match picks[3] % 2 {
                0 => Command::DissolvePack { container },
                _ => Work::DissolvePack(container).some(),
            }
        }
        22 if picks[3] % 2 == 0 => {
            let drive = ["", "d0", "d1", "d2"][usize::from(picks[0]) % 4].to_owned();
            let vid = Vid::new(["CLN001", "CLN002"][usize::from(picks[1]) % 2]).unwrap();
            match picks[2] % 4 {
                0 if picks[3] % 4 == 2 => Command::UncountCleaning { vid },
                0 => Command::CountCleaning { vid, anew: picks[0] % 3 == 0 },
                1 => Command::CleaningEnded { vid, drive, unfit: None },
                2 => Command::CleaningEnded { vid, drive, unfit: Some("used up".into()) },
                _ => Command::SetDriveCleaning {
                    drive,
                    urgent: [None, Some(false), Some(true)][usize::from(picks[1]) % 3],
                },
            }
        }
        22 if picks[3] % 8 == 1 => Command::SetPoolDrive {
            drive: DriveId(100 + picks[0] % 3),
            state: [
                None,
                Some(PoolDriveState::Draining),
                Some(PoolDriveState::Removed),
                Some(PoolDriveState::Lost),
            ][usize::from(picks[1]) % 4],
        },
        22 if picks[3] % 32 == 13 => Command::SetDriveDisk {
            drive: DriveId(100 + picks[0] % 3),
            disk: (picks[1] % 4 != 0).then(|| {
                let slot = |pick: u16| {
                    (pick % 3 != 0).then(|| DriveSlot { enclosure: 1, number: u32::from(pick % 3) })
                };
                let disk = ["", "naa.5", "naa.6"][usize::from(picks[1]) % 3].to_owned();
                let drained = (picks[4] % 3 == 0).then(|| "failure-expected".to_owned());
                let kept = picks[5] % 2 == 0;
                DriveDisk { disk, slot: slot(picks[2]), light: slot(picks[4]), drained, kept }
            }),
        },
        22 if picks[3] % 16 == 5 => Command::SetRecoding {
            to: [
                None,
                Some(StripeCode::reed_solomon(8, 2)),
                Some(StripeCode { data: 12, local: 2, global: 2 }),
            ][usize::from(picks[1]) % 3],
        },
        22 if picks[3] % 8 == 7 && picks[4] % 4 == 0 => copy_segment(model, picks),
        22 if picks[3] % 8 == 7 => recode(model, picks),
        22 if picks[3] % 8 == 3 => Command::SetRebalance {
            to: [None, Some(PercentPoints(5)), Some(PercentPoints(0))][usize::from(picks[1]) % 3],
        },
        22 => Command::SetDriveDown {
            drive: ["", "d0", "d1", "d2"][usize::from(picks[0]) % 4].into(),
            down: (picks[1] % 2 == 0).then(|| ["worn", "cleaning"][usize::from(picks[2]) % 2].into()),
        },
        _ => match picks[0] % 4 {
            0 => Command::AcceptRestore {
                epoch: Epoch(u32::from(picks[1] % 9)),
                after: model.changes + u64::from(picks[2] % 8 == 7),
                seen: u64::from(picks[2]) << 30,
            },
            1 | 2 => Command::RestoreSettled,
            _ => Command::EndQuarantine,
        },
    }
}

/// The next step of a repack.
pub fn guided(model: &Model, stage: u16, picks: &[u16; 6]) -> Option<Command> {
    let repacking = model.tapes.iter().find(|(_, tape)| tape.state == TapeState::Repacking);
    let with_source = |vid: Option<Vid>| {
        model.containers.iter().find_map(|(id, record)| {
            let copy = record.copies.iter().find(|copy| copy.source.is_some_and(|s| Some(s.vid) != vid))?;
            let CopyState::Indexed { vid, block } = copy.state else { return None };
            Some((*id, vid, block))
        })
    };
    match stage {
        9 => {
            let (vid, _) = repacking?;
            let (container, _) = model.containers.iter().find(|(_, record)| {
                record.copies.iter().any(|copy| copy.state.place().is_some_and(|(on, _)| on == *vid))
                    || (record.members.is_empty() && record.places().iter().any(|(on, _)| on == vid))
            })?;
            Some(Command::RequeueCopy { container: *container, vid: *vid })
        }
        10 => {
            if let (Some((container, vid)), 0) = (queued_with_source(model), picks[3] % 4) {
                return Some(Command::KeepCopy { container, vid });
            }
            let Some((container, vid, block)) = with_source(None) else {
                return a_tape_for_repacked(model, picks);
            };
            Some(match picks[1] % 6 {
                0 => Command::CopyDamaged { container, vid, block, reason: "g".into() },
                _ => Command::CopyVerified { container, vid, block },
            })
        }
        _ => {
            let used = |vid| model.containers.values().any(|c| c.places().iter().any(|(on, _)| *on == vid));
            let full = model
                .tapes
                .iter()
                .find(|(vid, tape)| tape.state == TapeState::Active && tape.run.is_none() && used(**vid));
            match repacking {
                Some((vid, _)) if !used(*vid) => Some(Command::ReclaimTape { vid: *vid }),
                Some(_) => None,
                None if picks[1] % 2 == 0 => {
                    let (vid, state, reason) = (*full?.0, TapeState::Repacking, String::new());
                    Some(Command::SetTapeState { vid, state, reason })
                }
                None => None,
            }
        }
    }
}

/// A copy that was taken off its tape and is not written yet, and the tape.
/// A container that nobody needs, of which a copy is queued and another one is not.
fn dead_and_queued(model: &Model) -> Option<ContainerId> {
    let is_one = |record: &Container| {
        let queued = record.copies.iter().filter(|copy| copy.state == CopyState::Queued).count();
        queued > 0 && queued < record.copies.len() && !model.is_needed(record)
    };
    model.containers.iter().find_map(|(id, record)| is_one(record).then_some(*id))
}

fn queued_with_source(model: &Model) -> Option<(ContainerId, Vid)> {
    model.containers.iter().find_map(|(id, record)| {
        let mut queued = record.copies.iter().filter(|copy| copy.state == CopyState::Queued);
        queued.find_map(|copy| Some((*id, copy.source?.vid)))
    })
}

/// Brings a tape one step nearer to taking a copy that was taken off another one, if the pool has none.
fn a_tape_for_repacked(model: &Model, picks: &[u16; 6]) -> Option<Command> {
    let waits = |copy: &ContainerCopy| copy.state == CopyState::Queued && copy.source.is_some();
    let mut copies = model.containers.values().flat_map(|container| &container.copies);
    let tape_pool = copies.find(|copy| waits(copy))?.tape_pool;
    let in_state = |state| model.tapes.iter().find(|(_, tape)| tape.state == state).map(|(vid, _)| *vid);
    let is_ready = |tape: &TapeRecord| tape.tape_pool == Some(tape_pool) && tape.state == TapeState::Active;
    if model.tapes.values().any(is_ready) {
        return None;
    }
    if let Some(vid) = in_state(TapeState::Labelling) {
        let (generation, index_block, end_of_data) = (Generation(1), BlockAddress(4), BlockAddress(7));
        return Some(Command::TapeLabelled { vid, generation, index_block, end_of_data });
    }
    if let Some(vid) = in_state(TapeState::Scratch) {
        return Some(Command::AssignTape { vid, tape_pool, uuid: Uuid([5; 16]) });
    }
    let vid = Vid::new(&format!("T{:05}", picks[2] % 50)).ok()?;
    Some(Command::RegisterTape { vid, capacity: ByteCount(1 << 40) })
}
