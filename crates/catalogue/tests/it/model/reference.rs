//! The reference: only what is primary is kept, in plain maps; queues, tallies and references are counted
//! anew each time.

use std::collections::{BTreeMap, BTreeSet};

use base::*;
use catalogue::*;

/// What a command must answer; a rejection by the name of its variant.
pub type Answer = Result<Outcome, &'static str>;

#[derive(Clone, Debug)]
pub struct Container {
    pub kind: ContainerKind,
    pub class: ClassId,
    pub length: ByteCount,
    pub checksums: StreamChecksums,
    pub sealed: Timestamp,
    pub tape_path: String,
    pub skeleton: Option<BlobPiece>,
    pub image: Option<BlobPiece>,
    pub copies: Vec<ContainerCopy>,
    pub members: Vec<MemberRecord>,
}

impl Container {
    pub fn is_safe(&self) -> bool {
        let indexed = |copy: &ContainerCopy| matches!(copy.state, CopyState::Indexed { .. });
        !self.copies.is_empty() && self.copies.iter().all(|copy| indexed(copy) || copy.source.is_some())
    }

    /// Everywhere on tape.
    pub fn places(&self) -> Vec<(Vid, BlockAddress)> {
        let mut places = Vec::new();
        for copy in &self.copies {
            if let CopyState::Flushed { vid, block, .. } | CopyState::Indexed { vid, block } = copy.state {
                places.push((vid, block));
            }
            places.extend(copy.source.map(|source| (source.vid, source.block)));
        }
        places
    }
}

#[derive(Clone, Debug)]
pub struct Run {
    pub record: RunRecord,
    pub items: Vec<RunItem>,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub owner: String,
    pub created: Timestamp,
    pub state: RequestState,
    pub ended: Option<Timestamp>,
    pub pin: Duration,
    pub priority: u8,
    pub items: Vec<RequestItem>,
    /// The size of each item's file when it was added.
    pub sizes: Vec<u64>,
    pub started: Option<Timestamp>,
    /// Of one that names paths one by one.
    pub paths: Option<Vec<RequestPath>>,
    pub submission: Option<Blake3>,
}

impl Request {
    pub fn waits(&self) -> bool {
        self.items.iter().any(|item| item.state.waits())
    }

    fn end(&mut self, state: RequestState, at: Timestamp) {
        (self.state, self.ended, self.submission) = (state, Some(at), None);
    }

    pub fn is_open_list(&self, owner: &str) -> bool {
        self.paths.is_some() && self.ended.is_none() && self.owner == owner
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub at: Timestamp,
    pub epoch: u32,
    pub changes: u64,
    /// The changes that are still kept.
    pub kept: BTreeSet<u64>,
    pub quarantine: Option<u32>,
    pub restored: bool,
    pub next_file: u64,
    pub next_container: u64,
    pub reserved: BTreeSet<ContainerId>,
    pub next_request: u64,
    pub next_run: u64,
    pub pools: Vec<String>,
    pub classes: Vec<ClassRecord>,
    pub dirs: BTreeMap<DirId, DirectoryRecord>,
    pub files: BTreeMap<FileId, FileRecord>,
    pub todo: BTreeSet<FileId>,
    pub containers: BTreeMap<ContainerId, Container>,
    pub tapes: BTreeMap<Vid, TapeRecord>,
    pub runs: BTreeMap<RunId, Run>,
    pub requests: BTreeMap<RequestId, Request>,
    pub recalls: BTreeMap<RecallKey, RecallItem>,
    pub pins: BTreeMap<(FileId, RequestId), Timestamp>,
    pub blobs: BTreeMap<BlobId, BlobDescription>,
    pub garbage: BTreeSet<(BlobId, u64)>,
    /// By segment and page: what of it is unneeded beside something else.
    pub unneeded: BTreeMap<(BlobId, u32), u8>,
    /// Packs that are sealed in pieces: members to be, members so far, where the last one ends.
    pub sealing: BTreeMap<ContainerId, (u32, u32, u64)>,
    pub answers: BTreeMap<[u8; 32], (FileId, String, Timestamp)>,
    pub flushes: Tally,
    pub indexes: Tally,
    pub packs: Tally,
    pub segments: BTreeMap<(Vid, u64), u64>,
    pub drives_down: BTreeMap<String, String>,
    pub cleaners: BTreeMap<Vid, CleanerRecord>,
    pub drives_cleaning: BTreeMap<String, DriveCleaning>,
    pub pool_drives: BTreeMap<DriveId, PoolDriveRecord>,
    pub drive_disks: BTreeMap<DriveId, DriveDiskRecord>,
    pub rebalance: Option<RebalanceRecord>,
    pub recoding: Option<RecodingRecord>,
    /// Ids that extents have → the blob that was written anew there.
    pub stands_as: BTreeMap<BlobId, BlobId>,
    pub rules: BTreeSet<Rule>,
    pub keys_at_hand: BTreeSet<TapeKey>,
    pub tapes_leaving: BTreeSet<Vid>,
    /// The hours of the last use of those files in the pool that stand in that order.
    pub by_use: BTreeMap<FileId, UseHour>,
    /// Files are in the pool that are older than the order.
    pub by_use_behind: bool,
    /// Paths from this number of this request on are older than their count and were not looked at.
    pub paths_behind: Option<(RequestId, usize)>,
}

impl Model {
    pub fn entry(&self, parent: DirId, name: &Name) -> Option<Entry> {
        let mut dirs = self.dirs.iter().filter(|(_, d)| d.parent == parent && d.name.as_ref() == Some(name));
        let mut files = self.files.iter();
        let live = |f: &FileRecord| f.is_named() && f.parent == parent && f.name == *name;
        dirs.next()
            .map(|(id, _)| Entry::Directory(*id))
            .or_else(|| files.find(|(_, f)| live(f)).map(|(id, _)| Entry::File(*id)))
    }

    pub fn live(&self, id: FileId) -> Option<&FileRecord> {
        self.files.get(&id).filter(|file| file.state == FileState::Live)
    }

    /// Live or lost.
    pub fn named(&self, id: FileId) -> Option<&FileRecord> {
        self.files.get(&id).filter(|file| !matches!(file.state, FileState::Condemned(_)))
    }

    pub fn is_lost(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| matches!(file.state, FileState::Lost(_)))
    }

    pub fn parts(&self, id: FileId) -> Vec<(ContainerId, MemberRecord)> {
        let all = self.containers.iter().flat_map(|(c, record)| record.members.iter().map(|m| (*c, *m)));
        let mut parts: Vec<_> = all.filter(|(_, member)| member.file == id).collect();
        parts.sort_by_key(|(_, member)| member.file_offset);
        parts
    }

    /// Whether a tape is not set aside, and its key at hand.
    pub fn can_give(&self, vid: Vid) -> bool {
        let no_key =
            |key: &TapeKey| self.rules.contains(&Rule::KeyAtHand) && !self.keys_at_hand.contains(key);
        !self.is_set_aside(vid) && !self.tapes[&vid].key.as_ref().is_some_and(no_key)
    }

    /// The tapes of the first part of a file that could not be read now.
    pub fn not_given(&self, id: FileId) -> Option<Vec<Vid>> {
        let is_aside = |vid: &Vid| !self.can_give(*vid);
        let vids_of = |container: &Container| {
            let mut vids = Vec::new();
            for copy in &container.copies {
                if let CopyState::Indexed { vid, .. } = copy.state {
                    vids.push(vid);
                }
                vids.extend(copy.source.map(|source| source.vid));
            }
            vids
        };
        let mut parts = self.parts(id).into_iter().map(|(id, _)| vids_of(&self.containers[&id]));
        parts.find(|vids| vids.iter().all(is_aside))
    }

    fn is_set_aside(&self, vid: Vid) -> bool {
        matches!(self.tapes[&vid].state, TapeState::Suspect | TapeState::Disabled)
    }

    fn is_safe(&self, id: FileId) -> bool {
        self.parts(id).iter().all(|(container, _)| self.containers[container].is_safe())
    }

    pub fn references(&self, blob: BlobId) -> (u64, u64) {
        let pieces = self.files.values().flat_map(|file| &file.pieces);
        let held = self.containers.values().flat_map(|c| c.skeleton.iter().chain(c.image.iter()));
        let mine: Vec<_> = pieces.chain(held).filter(|piece| piece.blob == blob).collect();
        (mine.len() as u64, mine.iter().map(|piece| piece.length.0).sum())
    }

    /// After pieces were given up.
    pub fn released(&mut self, pieces: &[BlobPiece]) {
        for piece in pieces {
            let Some(blob) = self.blobs.get(&piece.blob) else { continue };
            if self.references(piece.blob).0 == 0 {
                self.blobs.remove(&piece.blob);
                self.unneeded.retain(|(blob, _), _| *blob != piece.blob);
                self.garbage.retain(|(blob, _)| *blob != piece.blob);
                self.garbage.insert((piece.blob, u64::MAX));
            } else if matches!(blob.layout, Layout::Segment { .. }) {
                self.garbage.insert((piece.blob, piece.offset.0));
            }
        }
    }

    fn unused(&mut self, data: Option<&PoolData>, kept: FileId) {
        for piece in data.map_or(&[][..], |data| &data.pieces) {
            let held = self.files.get(&kept).is_some_and(|f| f.pieces.contains(piece));
            let blob = self.blobs.get(&piece.blob);
            if !held && blob.is_some_and(|blob| matches!(blob.layout, Layout::Segment { .. })) {
                self.garbage.insert((piece.blob, piece.offset.0));
            }
        }
    }

    fn kept_time(&self) -> Option<Timestamp> {
        self.rules.contains(&Rule::RequestTimes).then_some(self.at)
    }

    pub fn settle(&mut self, file: FileId, state: &ItemState) {
        let mut waited = false;
        let kept = self.kept_time();
        for (id, request) in &mut self.requests {
            for item in request.items.iter_mut().filter(|i| i.file == file && i.state.waits()) {
                waited = true;
                let is_unpinned = item.state == ItemState::WaitingUnpinned;
                item.state = state.clone();
                item.over = kept;
                if matches!(state, ItemState::Done(_)) && is_unpinned {
                    item.state = ItemState::Released;
                } else if matches!(state, ItemState::Done(_)) {
                    item.over = None;
                    self.pins.insert((file, *id), self.at.plus(item.pin.unwrap_or(request.pin)));
                } else {
                    request.submission = None;
                }
            }
            if request.state == RequestState::Active && !request.waits() {
                request.end(RequestState::Completed, self.at);
            }
        }
        if waited {
            self.recalls.retain(|key, _| key.file != file);
            self.tidy_images();
        }
    }

    /// Whether an item of some request waits for a file.
    pub fn waits(&self, file: FileId) -> bool {
        let mut items = self.requests.values().flat_map(|request| &request.items);
        items.any(|item| item.file == file && item.state.waits())
    }

    /// The file of which a container is a part.
    fn whole_of(&self, container: ContainerId) -> Option<FileId> {
        match self.containers[&container].kind {
            ContainerKind::Segment { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether the pool has a part of a file, as such.
    fn has_come(&self, container: ContainerId) -> bool {
        self.whole_of(container).is_some() && self.containers[&container].image.is_some()
    }

    /// Whether every part of a file is asked for from some tape, or is in the pool.
    pub fn is_served(&self, file: FileId) -> bool {
        let asked = |id| self.recalls.iter().any(|(key, item)| key.file == file && item.container == id);
        self.parts(file).iter().all(|(container, _)| asked(*container) || self.has_come(*container))
    }

    /// A file of which all parts came is online.
    fn complete(&mut self, file: FileId) {
        let parts = self.parts(file);
        let is_near = self.live(file).is_some_and(|record| !record.is_online());
        let covered: u64 = parts.iter().map(|(_, member)| member.length.0).sum();
        if !is_near || covered != self.files[&file].size.0 || !parts.iter().all(|(id, _)| self.has_come(*id))
        {
            return;
        }
        let mut pieces = Vec::new();
        for (container, _) in parts {
            pieces.extend(self.containers.get_mut(&container).unwrap().image.take());
        }
        self.files.get_mut(&file).unwrap().pieces = pieces;
        self.settle(file, &ItemState::Done(self.at));
    }

    /// An image was stored.
    pub fn part_came(&mut self, container: ContainerId) {
        let Some(file) = self.whole_of(container) else { return };
        self.recalls.retain(|key, item| key.file != file || item.container != container);
        if self.waits(file) {
            self.complete(file);
        }
    }

    /// An image is gone.
    pub fn part_went(&mut self, container: ContainerId) {
        let Some(file) = self.whole_of(container).filter(|file| self.waits(*file)) else { return };
        for (vid, block) in self.containers[&container].places() {
            let key = RecallKey { vid, block, data_offset: ByteCount(0), file };
            let length = self.containers[&container].length;
            self.recalls.entry(key).or_insert(RecallItem { container, length, since: self.at });
        }
        if !self.is_served(file) {
            self.settle(file, &ItemState::Failed("a part of the file is on no tape".into()));
        }
    }

    fn condemn(&mut self, id: FileId, why: &str) {
        self.settle(id, &ItemState::Failed(why.into()));
        self.pins.retain(|(file, _), _| *file != id);
        self.todo.remove(&id);
        self.files.get_mut(&id).unwrap().state = FileState::Condemned(self.at);
        self.bury();
    }

    /// Removes every condemned file that no container needs.
    pub fn bury(&mut self) {
        let dead: Vec<_> = self.files.keys().copied().filter(|id| self.named(*id).is_none()).collect();
        for id in dead.into_iter().filter(|id| self.is_safe(*id)).collect::<Vec<_>>() {
            for container in self.containers.values_mut() {
                container.members.retain(|member| member.file != id);
            }
            let file = self.files.remove(&id).unwrap();
            self.released(&file.pieces);
        }
    }

    /// Files that have bytes, all of them in the pool.
    pub fn in_pool(&self) -> BTreeSet<FileId> {
        let is_in_pool = |file: &FileRecord| file.is_named() && file.has_data() && file.is_online();
        self.files.iter().filter(|(_, file)| is_in_pool(file)).map(|(id, _)| *id).collect()
    }

    /// After a command: what came into the pool was used now, what left it was not.
    fn order_by_use(&mut self, before: &BTreeSet<FileId>) {
        let (after, now) = (self.in_pool(), UseHour::of(self.at));
        self.by_use.retain(|id, _| after.contains(id));
        if self.rules.contains(&Rule::OrderedByUse) {
            self.by_use.extend(after.difference(before).map(|id| (*id, now)));
        }
    }

    /// All paths of requests that name them, by request and number.
    fn all_paths(&self) -> Vec<((RequestId, usize), &str, &str)> {
        let mut all = Vec::new();
        for (id, request) in &self.requests {
            for (number, row) in request.paths.iter().flatten().enumerate() {
                all.push(((*id, number), request.owner.as_str(), row.path.as_str()));
            }
        }
        all
    }

    /// The bytes of all paths that requests of an owner keep, as far as they are to be counted by now.
    pub fn path_bytes(&self, owner: &str) -> u64 {
        if !self.rules.contains(&Rule::PathsCounted) {
            return 0;
        }
        let paths = self.all_paths().into_iter().filter(|(_, of, _)| *of == owner);
        let counted = paths.filter(|(place, _, _)| self.paths_behind.is_none_or(|behind| *place < behind));
        counted.map(|(_, _, path)| path.len() as u64).sum()
    }

    pub fn apply(&mut self, command: &Command) -> Answer {
        let before = format!("{:?}", Model { at: Timestamp(0), ..self.clone() });
        let mut after = self.clone();
        let answer = after.perform(command);
        if answer.is_ok() {
            after.order_by_use(&self.in_pool());
            *self = after;
        }
        // These write their record anew even if it comes out the same.
        let always = matches!(
            command,
            Command::SetTapeState { .. }
                | Command::SetTapeCapacity { .. }
                | Command::AddToRequest { .. }
                | Command::AddPaths { .. }
                | Command::CancelFiles { .. }
                | Command::AdoptRun { .. }
                | Command::TrimChanges { .. }
                | Command::DoSome { work: Work::TrimChanges(_), .. }
        );
        if (always && answer.is_ok()) || before != format!("{:?}", Model { at: Timestamp(0), ..self.clone() })
        {
            self.changes += 1;
            self.kept.insert(self.changes);
        }
        answer
    }

    fn perform(&mut self, command: &Command) -> Answer {
        match command {
            Command::DoSome { work: Work::CountPaths, most } => {
                let Some(behind) = self.paths_behind else { return Ok(Outcome::More(false)) };
                let left = self.all_paths().into_iter().filter(|(place, _, _)| *place >= behind);
                let last = left.map(|(place, _, _)| place).nth(*most as usize - 1);
                self.paths_behind = last.map(|(request, number)| (request, number + 1));
                return Ok(Outcome::More(last.is_some()));
            }
            // Of the rest there is never so much that a part is not all of it.
            Command::DoSome { work, .. } => {
                return self.perform(&match *work {
                    Work::CancelRequest(request) => Command::CancelRequest { request },
                    Work::ForgetRequest(request) => Command::ForgetRequest { request },
                    Work::ExpirePins => Command::ExpirePins,
                    Work::ExpireIdempotency => Command::ExpireIdempotency,
                    Work::EvictCold => Command::EvictCold,
                    Work::TrimChanges(through) => Command::TrimChanges { through },
                    Work::DissolvePack(container) if !self.containers.contains_key(&container) => {
                        return Ok(Outcome::More(false));
                    }
                    Work::DissolvePack(container) => {
                        self.perform(&Command::DissolvePack { container })?;
                        return Ok(Outcome::More(false));
                    }
                    Work::OrderByUse => {
                        if std::mem::take(&mut self.by_use_behind) {
                            for id in self.in_pool() {
                                let made = UseHour::of(self.files[&id].created);
                                self.by_use.entry(id).or_insert(made);
                            }
                        }
                        return Ok(Outcome::More(false));
                    }
                    Work::RemoveTree(_) => return Err("NotFound"),
                    Work::CountPaths => unreachable!("it is above"),
                });
            }
            Command::Initialise { .. } => return Err("AlreadyInitialised"),
            Command::OpenEpoch => {
                self.keys_at_hand.clear();
                self.epoch += 1;
                return Ok(Outcome::Epoch(Epoch(self.epoch)));
            }
            Command::AdoptRule { rule } => {
                let is_new = self.rules.insert(*rule);
                self.by_use_behind |= is_new && *rule == Rule::OrderedByUse && !self.files.is_empty();
                if is_new && *rule == Rule::PathsCounted && !self.all_paths().is_empty() {
                    self.paths_behind = Some((RequestId(0), 0));
                }
                return Ok(Outcome::Done);
            }
            Command::DefineTapePool { name } => {
                let at = self.pools.iter().position(|known| known == name).unwrap_or_else(|| {
                    self.pools.push(name.clone());
                    self.pools.len() - 1
                });
                return Ok(Outcome::TapePool(TapePoolId(at as u16 + 1)));
            }
            Command::DefineClass { name, copies } => {
                if copies.iter().any(|pool| usize::from(pool.0) > self.pools.len()) {
                    return Err("NotFound");
                }
                let record = ClassRecord { name: name.clone(), copies: copies.clone() };
                let at = self.classes.iter().position(|known| known.name == *name).unwrap_or_else(|| {
                    self.classes.push(record.clone());
                    self.classes.len() - 1
                });
                self.classes[at] = record;
                return Ok(Outcome::Class(ClassId(at as u16 + 1)));
            }
            Command::MakeDirectory { parent, name, attributes, class } => {
                if !self.dirs.contains_key(parent) || class.is_some_and(|c| self.class(c).is_none()) {
                    return Err("NotFound");
                }
                if self.entry(*parent, name).is_some() {
                    return Err("NameTaken");
                }
                let id = DirId(self.next_file);
                self.next_file += 1;
                let name = Some(name.clone());
                let (created, attributes) = (self.at, attributes.clone());
                self.dirs.insert(
                    id,
                    DirectoryRecord { parent: *parent, name, created, attributes, class: *class },
                );
                return Ok(Outcome::Directory(id));
            }
            Command::PutFile(put) => return self.put(put),
            Command::Rename { from_parent, from_name, to_parent, to_name, replace } => {
                return self.rename((*from_parent, from_name), (*to_parent, to_name), *replace);
            }
            Command::RemoveFile { parent, name } => match self.entry(*parent, name).ok_or("NotFound")? {
                Entry::Directory(_) => return Err("IsADirectory"),
                Entry::File(id) => {
                    self.condemn(id, "the file was deleted");
                    return Ok(Outcome::Removed(id));
                }
            },
            Command::RemoveDirectory { parent, name } => match self.entry(*parent, name).ok_or("NotFound")? {
                Entry::File(_) => return Err("NotADirectory"),
                Entry::Directory(id) => {
                    let holds_dirs = self.dirs.values().any(|d| d.parent == id && d.name.is_some());
                    if holds_dirs || self.files.values().any(|f| f.parent == id && f.is_named()) {
                        return Err("DirectoryNotEmpty");
                    }
                    self.dirs.remove(&id);
                }
            },
            Command::ReserveContainer => {
                self.next_container += 1;
                self.reserved.insert(ContainerId(self.next_container - 1));
                return Ok(Outcome::Container(ContainerId(self.next_container - 1)));
            }
            Command::SealContainer(seal) => self.seal(seal)?,
            Command::OpenPack(_) | Command::AddMembers { .. } | Command::ClosePack { .. } => {
                self.seal_in_pieces(command)?;
            }
            Command::NoteUse { files } => {
                let (in_pool, now) = (self.in_pool(), UseHour::of(self.at));
                if self.rules.contains(&Rule::OrderedByUse) {
                    for id in files.iter().filter(|id| in_pool.contains(id)) {
                        let hour = self.by_use.entry(*id).or_insert(now);
                        *hour = now.max(*hour);
                    }
                }
                return Ok(Outcome::Done);
            }
            Command::Evict { files } => {
                return Ok(Outcome::Evicted(files.iter().map(|file| self.evict(*file)).collect()));
            }
            Command::RecallDone(done) => return self.recall(&done.blobs, &done.files, &[]),
            Command::PartsRecalled(done) => return self.recall(&done.blobs, &done.files, &done.parts),
            Command::RecallFailed { file, reason } => {
                if self.live(*file).is_some() {
                    self.settle(*file, &ItemState::Failed(reason.clone()));
                }
            }
            Command::RecallCopyFailed { file, vid, reason } => {
                self.recalls.retain(|key, _| (key.file, key.vid) != (*file, *vid));
                if self.live(*file).is_some() && !self.is_served(*file) {
                    self.settle(*file, &ItemState::Failed(reason.clone()));
                }
            }
            Command::RecallPlaceFailed { vid, block, reason } => {
                let here = |key: &RecallKey| (key.vid, key.block) == (*vid, *block);
                let files: BTreeSet<_> =
                    self.recalls.keys().filter(|key| here(key)).map(|key| key.file).collect();
                self.recalls.retain(|key, _| !here(key));
                for file in files {
                    if self.live(file).is_some() && !self.is_served(file) {
                        self.settle(file, &ItemState::Failed(reason.clone()));
                    }
                }
            }
            Command::ExpirePins => {
                let before = self.pins.len();
                let at = self.at;
                for ((_, holder), _) in self.pins.iter().filter(|(_, until)| **until <= at) {
                    self.requests.get_mut(holder).unwrap().submission = None;
                }
                self.pins.retain(|_, until| *until > at);
                return Ok(Outcome::Dropped((before - self.pins.len()) as u32));
            }
            Command::ExpireIdempotency => {
                let before = self.answers.len();
                let at = self.at;
                self.answers.retain(|_, (_, _, given)| given.plus(IDEMPOTENCY_KEPT) >= at);
                return Ok(Outcome::Dropped((before - self.answers.len()) as u32));
            }
            Command::GarbageRemoved { blobs, values } => {
                let garbage = self.garbage.clone();
                self.stands_as.retain(|_, id| !blobs.contains(id) || !garbage.contains(&(*id, u64::MAX)));
                self.garbage.retain(|(blob, offset)| *offset != u64::MAX || !blobs.contains(blob));
                self.garbage
                    .retain(|(blob, at)| !values.iter().any(|v| (v.blob, v.offset.0) == (*blob, *at)));
            }
            Command::ValuesRemoved { values, pages } => {
                self.garbage
                    .retain(|(blob, at)| !values.iter().any(|v| (v.blob, v.offset.0) == (*blob, *at)));
                for page in pages {
                    self.unneeded.remove(&(page.blob, page.page));
                    let layout = self.blobs.get(&page.blob).map(|blob| blob.layout);
                    if page.sectors != 0 && matches!(layout, Some(Layout::Segment { .. })) {
                        self.unneeded.insert((page.blob, page.page), page.sectors);
                    }
                }
            }
            Command::TrimChanges { through } => {
                let before = self.kept.len();
                self.kept.retain(|change| change > through);
                return Ok(Outcome::Dropped((before - self.kept.len()) as u32));
            }
            Command::OpenRequest { .. }
            | Command::AddToRequest { .. }
            | Command::OpenPathRequest { .. }
            | Command::AddPaths { .. }
            | Command::ClosePathRequest { .. }
            | Command::CancelFiles { .. }
            | Command::RecallStarted { .. }
            | Command::CloseRequest { .. }
            | Command::CancelRequest { .. }
            | Command::Release { .. }
            | Command::Unpin { .. }
            | Command::SetRequestPriority { .. }
            | Command::ForgetRequest { .. } => return self.request(command),
            Command::RegisterTape { .. }
            | Command::AssignTape { .. }
            | Command::TapeLabelled { .. }
            | Command::SetTapeState { .. }
            | Command::TapeFailed { .. }
            | Command::ForgetTapeFailures { .. }
            | Command::CountMount { .. }
            | Command::BeginRun { .. }
            | Command::BeginHistoryRun { .. }
            | Command::AppendToRun { .. }
            | Command::CommitRun { .. }
            | Command::AdoptRun { .. }
            | Command::IndexWritten { .. }
            | Command::EndRun { .. } => return self.tape(command),
            _ => return self.repair(command),
        }
        Ok(Outcome::Done)
    }

    pub fn class(&self, id: ClassId) -> Option<&ClassRecord> {
        self.classes.get(usize::from(id.0).wrapping_sub(1))
    }

    fn put(&mut self, put: &PutFile) -> Answer {
        let request = format!("{:?}", (put.parent, &put.name, &put.kind, put.size, put.checksums.blake3));
        let answer = |file, created, replaced| Ok(Outcome::Put(PutOutcome { file, created, replaced }));
        if let Some((file, first, _)) = put.idempotency.and_then(|key| self.answers.get(&key)) {
            if *first != request {
                return Err("IdempotencyKeyReused");
            }
            let file = *file;
            if !self.is_lost(file) {
                self.unused(put.data.as_ref(), file);
                return answer(file, false, None);
            }
            put.idempotency.and_then(|key| self.answers.remove(&key));
        }
        if !self.dirs.contains_key(&put.parent) || self.class(put.class).is_none() {
            return Err("NotFound");
        }
        let old = match self.entry(put.parent, &put.name) {
            Some(Entry::Directory(_)) => return Err("IsADirectory"),
            Some(Entry::File(id)) => Some(id),
            None => None,
        };
        let key = put.idempotency;
        if let Some(id) = old {
            let file = &self.files[&id];
            let is_same =
                (&file.kind, file.size, file.checksums.blake3) == (&put.kind, put.size, put.checksums.blake3);
            if is_same && !self.is_lost(id) {
                key.map(|key| self.answers.insert(key, (id, request, self.at)));
                self.unused(put.data.as_ref(), id);
                return answer(id, false, None);
            }
            if put.replace == Replace::Refused && !is_same {
                return Err("NameTaken");
            }
        }
        let data = put.data.clone().unwrap_or(PoolData { blobs: vec![], pieces: vec![] });
        self.take(&data.blobs)?;
        let id = FileId(self.next_file);
        self.next_file += 1;
        let record = FileRecord {
            parent: put.parent,
            name: put.name.clone(),
            kind: put.kind.clone(),
            state: FileState::Live,
            size: put.size,
            created: self.at,
            attributes: put.attributes.clone(),
            checksums: put.checksums,
            class: put.class,
            dataset: put.dataset,
            pieces: data.pieces,
        };
        self.files.insert(id, record);
        if let Some(old) = old {
            self.condemn(old, "the file was replaced");
        }
        if !self.class(put.class).unwrap().copies.is_empty() {
            self.todo.insert(id);
        }
        key.map(|key| self.answers.insert(key, (id, request, self.at)));
        answer(id, true, old)
    }

    pub fn take(&mut self, blobs: &[BlobDescription]) -> Result<(), &'static str> {
        for blob in blobs {
            if self.garbage.contains(&(blob.id, u64::MAX)) {
                return Err("BlobIsGarbage");
            }
            if let Some(known) = self.blobs.get(&blob.id) {
                // As it was before it was written anew.
                if known != blob
                    && (known.stands_as.is_none() || blob.stands_as.is_some() || known.length != blob.length)
                {
                    return Err("BlobDiffers");
                }
                continue;
            }
            if blob.stands_as.is_some() || self.stands_as.contains_key(&blob.id) {
                return Err("Malformed");
            }
            self.blobs.insert(blob.id, blob.clone());
        }
        Ok(())
    }

    fn rename(&mut self, from: (DirId, &Name), to: (DirId, &Name), replace: Replace) -> Answer {
        let source = self.entry(from.0, from.1).ok_or("NotFound")?;
        self.dirs.get(&to.0).ok_or("NotFound")?;
        if from == to {
            return Ok(Outcome::Renamed { moved: source, replaced: None });
        }
        let mut replaced = None;
        if let Entry::Directory(id) = source {
            let mut at = to.0;
            while at != DirId::ROOT {
                if at == id {
                    return Err("IntoItself");
                }
                at = self.dirs[&at].parent;
            }
        }
        match (self.entry(to.0, to.1), source) {
            (None, _) => {}
            (Some(Entry::File(old)), Entry::File(_)) if replace == Replace::Allowed => {
                self.condemn(old, "the file was replaced");
                replaced = Some(old);
            }
            _ => return Err("NameTaken"),
        }
        match source {
            Entry::Directory(id) => {
                let dir = self.dirs.get_mut(&id).unwrap();
                (dir.parent, dir.name) = (to.0, Some(to.1.clone()));
            }
            Entry::File(id) => {
                let file = self.files.get_mut(&id).unwrap();
                (file.parent, file.name) = (to.0, to.1.clone());
            }
        }
        Ok(Outcome::Renamed { moved: source, replaced })
    }

    fn seal(&mut self, seal: &SealContainer) -> Result<(), &'static str> {
        if seal.container.0 >= self.next_container {
            return Err("NotFound");
        }
        if self.containers.contains_key(&seal.container) {
            return Err("WrongState");
        }
        let class = self.class(seal.class).ok_or("NotFound")?.clone();
        if class.copies.is_empty() {
            return Err("WrongState");
        }
        let is_part = matches!(seal.kind, ContainerKind::Segment { .. });
        if is_part && seal.members.iter().any(|part| part.length != seal.length) {
            return Err("Malformed");
        }
        for member in &seal.members {
            let file = self.live(member.file).ok_or("NotFound")?;
            if !self.todo.contains(&member.file) || file.class != seal.class {
                return Err("WrongState");
            }
            let sealed: u64 = self.parts(member.file).iter().map(|(_, part)| part.length.0).sum();
            let end = sealed + member.length.0;
            let is_segment = matches!(seal.kind, ContainerKind::Segment { .. });
            let fits =
                if is_segment { end <= file.size.0 && member.length.0 > 0 } else { end == file.size.0 };
            if sealed != member.file_offset.0 || !fits {
                return Err("Malformed");
            }
            if end == file.size.0 {
                self.todo.remove(&member.file);
            }
        }
        let skeleton = match &seal.skeleton {
            Some(data) => {
                self.take(&data.blobs)?;
                Some(data.pieces[0])
            }
            None => None,
        };
        let queued = |pool: &TapePoolId| {
            let (tape_pool, state) = (*pool, CopyState::Queued);
            ContainerCopy { tape_pool, state, source: None }
        };
        let container = Container {
            kind: seal.kind.clone(),
            class: seal.class,
            length: seal.length,
            checksums: seal.checksums,
            sealed: self.at,
            tape_path: seal.tape_path.clone(),
            skeleton,
            image: None,
            copies: class.copies.iter().map(queued).collect(),
            members: seal.members.clone(),
        };
        if seal.kind == ContainerKind::Pack {
            self.packs.files += 1;
            self.packs.bytes.0 += seal.length.0;
        }
        self.reserved.remove(&seal.container);
        self.containers.insert(seal.container, container);
        Ok(())
    }

    fn evict(&mut self, id: FileId) -> Result<(), EvictRefusal> {
        let file = self.named(id).ok_or(EvictRefusal::NotFound)?;
        if self.is_lost(id) {
            return Err(EvictRefusal::Lost);
        }
        if !file.is_online() {
            return Err(EvictRefusal::NotOnline);
        }
        if file.size.0 == 0 {
            return Err(EvictRefusal::NoData);
        }
        if self.class(file.class).unwrap().copies.is_empty() {
            return Err(EvictRefusal::DiskOnly);
        }
        let sealed: u64 = self.parts(id).iter().map(|(_, part)| part.length.0).sum();
        if sealed != file.size.0 || !self.is_safe(id) {
            return Err(EvictRefusal::NotSafeOnTape);
        }
        if self.pins.iter().any(|((file, _), until)| *file == id && *until > self.at) {
            return Err(EvictRefusal::Pinned);
        }
        let aside = self.not_given(id).filter(|_| self.rules.contains(&Rule::ReadableIfEvicted));
        if let Some(vids) = aside {
            let waiting: Vec<_> = vids.iter().filter(|vid| !self.is_set_aside(**vid)).copied().collect();
            return Err(match waiting.is_empty() {
                true => EvictRefusal::TapesSetAside(vids),
                false => EvictRefusal::KeyMissing(waiting),
            });
        }
        let pieces = std::mem::take(&mut self.files.get_mut(&id).unwrap().pieces);
        self.released(&pieces);
        Ok(())
    }

    fn recall(
        &mut self,
        blobs: &[BlobDescription],
        files: &[(FileId, Vec<BlobPiece>)],
        parts: &[(ContainerId, BlobPiece)],
    ) -> Answer {
        self.take(blobs)?;
        let mut recalled = 0;
        let mut skipped = Vec::new();
        for (id, pieces) in files {
            if self.live(*id).is_none_or(FileRecord::is_online) {
                skipped.push((*id, pieces.clone()));
                continue;
            }
            self.settle(*id, &ItemState::Done(self.at));
            self.files.get_mut(id).unwrap().pieces.clone_from(pieces);
            recalled += 1;
        }
        for (container, piece) in parts {
            let Some(record) = self.containers.get(container) else {
                skipped.push((FileId(0), vec![*piece]));
                continue;
            };
            let ContainerKind::Segment { file, .. } = record.kind else { return Err("Malformed") };
            let is_of = |record: &FileRecord| record.pieces.contains(piece);
            if record.image == Some(*piece) || self.files.get(&file).is_some_and(is_of) {
                continue;
            }
            if piece.length != record.length {
                return Err("Malformed");
            }
            if record.image.is_some() || !self.waits(file) {
                skipped.push((FileId(0), vec![*piece]));
                continue;
            }
            self.containers.get_mut(container).unwrap().image = Some(*piece);
            self.part_came(*container);
            recalled += 1;
        }
        for (id, pieces) in skipped {
            self.unused(Some(&PoolData { blobs: vec![], pieces }), id);
        }
        for blob in blobs {
            if self.references(blob.id).0 == 0 {
                self.blobs.remove(&blob.id);
                self.unneeded.retain(|(id, _), _| *id != blob.id);
                self.garbage.retain(|(id, _)| *id != blob.id);
                self.garbage.insert((blob.id, u64::MAX));
            }
        }
        Ok(Outcome::Recalled(recalled))
    }

    fn request(&mut self, command: &Command) -> Answer {
        let at = self.at;
        match command {
            Command::OpenRequest { owner, pin } | Command::OpenPathRequest { owner, pin } => {
                let id = RequestId(self.next_request);
                self.next_request += 1;
                let request = Request {
                    owner: owner.clone(),
                    created: at,
                    state: RequestState::Filling,
                    ended: None,
                    pin: *pin,
                    priority: 5,
                    items: vec![],
                    sizes: vec![],
                    started: None,
                    paths: matches!(command, Command::OpenPathRequest { .. }).then(Vec::new),
                    submission: None,
                };
                self.requests.insert(id, request);
                return Ok(Outcome::Request(id));
            }
            Command::AddToRequest { request, files } => self.add(*request, files)?,
            Command::CloseRequest { request } => {
                let request = self.requests.get_mut(request).ok_or("NotFound")?;
                match request.state {
                    RequestState::Filling if request.waits() => request.state = RequestState::Active,
                    RequestState::Filling => request.end(RequestState::Completed, at),
                    RequestState::Cancelled | RequestState::Cancelling | RequestState::Forgetting => {
                        return Err("WrongState");
                    }
                    RequestState::Active | RequestState::Completed => {}
                }
            }
            Command::CancelRequest { request: id } => {
                let request = self.requests.get_mut(id).ok_or("NotFound")?;
                match request.state {
                    RequestState::Cancelled => return Ok(Outcome::More(false)),
                    RequestState::Filling | RequestState::Active => {}
                    _ => return Err("WrongState"),
                }
                request.end(RequestState::Cancelled, at);
                let all: Vec<_> = request.items.iter().map(|item| item.file).collect();
                self.cancel(*id, &all);
                return Ok(Outcome::More(false));
            }
            Command::Release { request: id, files } => {
                let is_kept = self.kept_time().is_some();
                let request = self.requests.get_mut(id).ok_or("NotFound")?;
                let known = |file: &FileId| request.items.iter().any(|item| item.file == *file);
                if files.as_ref().is_some_and(|files| !files.iter().all(known)) {
                    return Err("NotFound");
                }
                let meant = |file: &FileId| files.as_ref().is_none_or(|files| files.contains(file));
                for item in request.items.iter_mut().filter(|item| meant(&item.file)) {
                    if let ItemState::Done(done) = item.state {
                        (item.state, item.over) = (ItemState::Released, is_kept.then_some(done));
                        self.pins.remove(&(item.file, *id));
                        request.submission = None;
                    }
                }
            }
            Command::AddPaths { request, paths } => self.add_paths(*request, paths)?,
            Command::ClosePathRequest { request: id, submission } => {
                let same = self.requests.iter().find(|(_, it)| it.submission == Some(*submission));
                let same = same.map(|(id, _)| *id);
                let request = self.requests.get_mut(id).ok_or("NotFound")?;
                match request.state {
                    _ if request.paths.is_none() => return Err("NotFound"),
                    RequestState::Active | RequestState::Completed => {}
                    RequestState::Filling if same.is_some() => return Ok(Outcome::Request(same.unwrap())),
                    RequestState::Filling if request.waits() => {
                        let failed = |item: &RequestItem| matches!(item.state, ItemState::Failed(_));
                        let is_whole = !request.items.iter().any(failed);
                        request.state = RequestState::Active;
                        request.submission = is_whole.then_some(*submission);
                    }
                    RequestState::Filling => request.end(RequestState::Completed, at),
                    _ => return Err("WrongState"),
                }
                return Ok(Outcome::Request(*id));
            }
            Command::CancelFiles { request: id, files } => {
                let request = self.requests.get(id).ok_or("NotFound")?;
                let known = |file: &FileId| request.items.iter().any(|item| item.file == *file);
                if !files.iter().all(known) {
                    return Err("NotFound");
                }
                self.cancel(*id, files);
                let request = self.requests.get_mut(id).unwrap();
                if request.state == RequestState::Active && !request.waits() {
                    request.end(RequestState::Completed, at);
                }
            }
            Command::RecallStarted { files } => {
                for request in self.requests.values_mut() {
                    let waiting = request.items.iter_mut().filter(|item| item.state.waits());
                    for item in waiting.filter(|item| files.contains(&item.file)) {
                        item.started = item.started.or(Some(at));
                        request.started = request.started.or(Some(at));
                    }
                }
            }
            Command::Unpin { request: id, files } => {
                self.request(&Command::Release { request: *id, files: Some(files.clone()) })?;
                let request = self.requests.get_mut(id).unwrap();
                for item in request.items.iter_mut().filter(|item| files.contains(&item.file)) {
                    if item.state == ItemState::Waiting {
                        item.state = ItemState::WaitingUnpinned;
                        request.submission = None;
                    }
                }
            }
            Command::SetRequestPriority { priority: 10.., .. } => return Err("LimitExceeded"),
            Command::SetRequestPriority { request, priority } => {
                let request = self.requests.get_mut(request).ok_or("NotFound")?;
                if !matches!(request.state, RequestState::Filling | RequestState::Active) {
                    return Err("WrongState");
                }
                request.priority = *priority;
            }
            Command::ForgetRequest { request: id } => {
                let state = self.requests.get(id).ok_or("NotFound")?.state;
                if !matches!(state, RequestState::Completed | RequestState::Cancelled) {
                    return Err("WrongState");
                }
                self.requests.remove(id);
                self.pins.retain(|(_, holder), _| holder != id);
                return Ok(Outcome::More(false));
            }
            _ => unreachable!(),
        }
        Ok(Outcome::Done)
    }

    fn cancel(&mut self, id: RequestId, files: &[FileId]) {
        let kept = self.kept_time();
        let request = self.requests.get_mut(&id).unwrap();
        for item in request.items.iter_mut().filter(|item| files.contains(&item.file)) {
            if item.state.waits() || matches!(item.state, ItemState::Done(_)) {
                request.submission = None;
            }
            (item.state, item.over) = match &item.state {
                ItemState::Waiting | ItemState::WaitingUnpinned => (ItemState::Cancelled, kept),
                ItemState::Done(done) => (ItemState::Released, kept.map(|_| *done)),
                other => (other.clone(), item.over),
            };
        }
        self.pins.retain(|(file, holder), _| *holder != id || !files.contains(file));
        let wanted: BTreeSet<_> = self.recalls.keys().map(|key| key.file).collect();
        let wanted: BTreeSet<_> = wanted.into_iter().filter(|file| self.waits(*file)).collect();
        self.recalls.retain(|key, _| wanted.contains(&key.file));
        self.tidy_images();
    }

    fn add_paths(&mut self, id: RequestId, paths: &[AskedPath]) -> Result<(), &'static str> {
        let request = self.requests.get(&id).ok_or("NotFound")?;
        if request.state != RequestState::Filling || request.paths.is_none() {
            return Err("WrongState");
        }
        for asked in paths {
            let target = match asked.file {
                AskedFor::Refused(why) => PathTarget::Refused(why),
                AskedFor::File(file) if self.named(file).is_none() => {
                    PathTarget::Refused(PathRefusal::NotFound)
                }
                AskedFor::File(file) => {
                    let is_new = self.requests[&id].items.iter().all(|item| item.file != file);
                    let pins = self.pins.clone();
                    self.add(id, &[file])?;
                    let at = self.at;
                    let request = self.requests.get_mut(&id).unwrap();
                    let number = request.items.iter().position(|item| item.file == file).unwrap();
                    let item = &mut request.items[number];
                    let longer = asked.pin.unwrap_or(request.pin);
                    let is_longer = !is_new && longer > item.pin.unwrap_or(request.pin);
                    if is_new {
                        item.pin = asked.pin;
                    } else if is_longer {
                        item.pin = Some(longer);
                    }
                    let is_held = is_new || pins.contains_key(&(file, id));
                    if (is_new || is_longer) && is_held && matches!(item.state, ItemState::Done(_)) {
                        self.pins.insert((file, id), at.plus(longer));
                    }
                    PathTarget::Item(number as u32)
                }
            };
            let row = RequestPath { path: asked.path.clone(), target };
            self.requests.get_mut(&id).unwrap().paths.as_mut().unwrap().push(row);
        }
        Ok(())
    }

    fn add(&mut self, id: RequestId, files: &[FileId]) -> Result<(), &'static str> {
        if self.requests.get(&id).ok_or("NotFound")?.state != RequestState::Filling {
            return Err("WrongState");
        }
        for &file in files {
            let size = self.named(file).ok_or("NotFound")?.size;
            let kept = self.kept_time();
            if self.requests[&id].items.iter().any(|item| item.file == file) {
                continue;
            }
            self.complete(file);
            let record = self.files[&file].clone();
            let state = if record.is_online() {
                self.pins.insert((file, id), self.at.plus(self.requests[&id].pin));
                ItemState::Done(self.at)
            } else if self.is_lost(file) {
                ItemState::Failed("LOST: no copy of the file can be read".into())
            } else {
                for (container, member) in self.parts(file) {
                    if self.has_come(container) {
                        continue;
                    }
                    for (vid, block) in self.containers[&container].places() {
                        let key = RecallKey { vid, block, data_offset: member.data_offset, file };
                        let item = RecallItem { container, length: member.length, since: self.at };
                        self.recalls.entry(key).or_insert(item);
                    }
                }
                ItemState::Waiting
            };
            let request = self.requests.get_mut(&id).unwrap();
            let mut item = RequestItem::new(file, state);
            match item.state {
                ItemState::Done(_) => {
                    item.started = kept;
                    request.started = request.started.or(kept);
                }
                ItemState::Failed(_) => item.over = kept,
                _ => {}
            }
            request.items.push(item);
            request.sizes.push(size.0);
        }
        Ok(())
    }

    fn tape(&mut self, command: &Command) -> Answer {
        match command {
            Command::RegisterTape { vid, capacity } => {
                self.tapes.entry(*vid).or_insert(TapeRecord::scratch(*capacity));
            }
            Command::AssignTape { vid, tape_pool, uuid } => {
                if usize::from(tape_pool.0) > self.pools.len() {
                    return Err("NotFound");
                }
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if tape.state != TapeState::Scratch {
                    return Err("WrongState");
                }
                tape.state = TapeState::Labelling;
                (tape.tape_pool, tape.uuid) = (Some(*tape_pool), Some(*uuid));
            }
            Command::TapeLabelled { vid, generation, index_block, end_of_data } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                if tape.state != TapeState::Labelling {
                    return Err("WrongState");
                }
                tape.state = TapeState::Active;
                tape.generation = *generation;
                tape.index_block = *index_block;
                tape.end_of_data = *end_of_data;
                tape.replaces = None;
            }
            Command::SetTapeState { vid, state, reason } => {
                use TapeState::{Active, Disabled, Full, Labelling, ReadOnly, Repacking, Scratch, Suspect};
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let labelled = tape.generation > Generation(0);
                let aside = matches!(tape.state, Full | ReadOnly | Suspect | Disabled);
                let allowed = match state {
                    Active => labelled && (aside || tape.state == Repacking),
                    Repacking => {
                        labelled && matches!(tape.state, Active | Full | ReadOnly | Suspect | Repacking)
                    }
                    Scratch => !labelled && aside,
                    Labelling => !labelled && aside && tape.uuid.is_some(),
                    Full | ReadOnly => labelled,
                    Suspect | Disabled => tape.state != TapeState::Retired,
                    TapeState::Retired => false,
                };
                if !allowed {
                    return Err("WrongState");
                }
                (tape.state, tape.reason) = (*state, reason.clone());
                if let Some(history) = tape.history.as_mut().filter(|_| *state != Suspect) {
                    history.retry = None;
                }
                if *state == Scratch {
                    (tape.tape_pool, tape.uuid, tape.key) = (None, None, None);
                }
            }
            Command::TapeFailed { vid, cause, wrote, reason, retry } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let (before, wrote_before, failures) = match (tape.state, tape.history) {
                    (TapeState::Disabled, _) => return Err("WrongState"),
                    (TapeState::Suspect, None) => (TapeState::ReadOnly, false, 0),
                    (TapeState::Suspect, Some(known)) => (known.before, known.wrote, known.failures),
                    (state, known) => (state, false, known.map_or(0, |known| known.failures)),
                };
                let wrote = *wrote || wrote_before;
                (tape.state, tape.reason) = (TapeState::Suspect, reason.clone());
                let failures = failures + 1;
                tape.history = Some(TapeHistory { before, wrote, failures, retry: *retry, cause: *cause });
            }
            Command::ForgetTapeFailures { vid, doubts } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let stays = tape.state == TapeState::ReadOnly && !doubts;
                tape.history =
                    tape.history.filter(|_| stays).map(|known| TapeHistory { failures: 0, ..known });
            }
            Command::CountMount { vid } => self.tapes.get_mut(vid).ok_or("NotFound")?.mounts += 1,
            Command::BeginRun { vid, drive, start } | Command::BeginHistoryRun { vid, drive, start } => {
                let tape = self.tapes.get_mut(vid).ok_or("NotFound")?;
                let may = match (command, tape.state) {
                    (Command::BeginRun { .. }, state) => state == TapeState::Active,
                    (_, TapeState::Repacking) => tape.containers == 0,
                    (_, state) => state == TapeState::Full,
                };
                if !may || tape.run.is_some() {
                    return Err("WrongState");
                }
                if *start != tape.end_of_data {
                    return Err("Malformed");
                }
                let id = RunId(self.next_run);
                self.next_run += 1;
                tape.run = Some(id);
                let record = RunRecord {
                    vid: *vid,
                    drive: drive.clone(),
                    tape_pool: tape.tape_pool.unwrap(),
                    generation: tape.generation,
                    start: *start,
                    started: self.at,
                    planned: 0,
                    committed: 0,
                    indexed: 0,
                    ended: None,
                };
                self.runs.insert(id, Run { record, items: vec![] });
                return Ok(Outcome::Run(id));
            }
            _ => self.run(command)?,
        }
        Ok(Outcome::Done)
    }

    fn run(&mut self, command: &Command) -> Result<(), &'static str> {
        let (Command::AppendToRun { run: id, .. }
        | Command::CommitRun { run: id, .. }
        | Command::AdoptRun { run: id, .. }
        | Command::IndexWritten { run: id, .. }
        | Command::EndRun { run: id, .. }) = command
        else {
            unreachable!("{command:?}")
        };
        let mut run = self.runs.get(id).ok_or("NotFound")?.clone();
        if run.record.ended.is_some() {
            return Err("WrongState");
        }
        let vid = run.record.vid;
        let mut tape = self.tapes[&vid].clone();
        match command {
            Command::AppendToRun { containers, .. } => {
                if tape.state != TapeState::Active {
                    return Err("WrongState");
                }
                for planned in containers {
                    let open = run.record.planned > run.record.committed;
                    let last = run.items.last().filter(|_| open);
                    if last.is_some_and(|last| last.block <= tape.index_block) {
                        return Err("Malformed");
                    }
                    let next =
                        last.map_or(tape.end_of_data, |last| BlockAddress(last.block.0 + last.blocks.0));
                    if planned.block != next || planned.blocks.0 == 0 {
                        return Err("Malformed");
                    }
                    let container = self.containers.get_mut(&planned.container).ok_or("NotFound")?;
                    let text = format!("vid: Vid({vid})");
                    if container.copies.iter().any(|copy| format!("{:?}", copy.state).contains(&text)) {
                        return Err("WrongState");
                    }
                    let mut copies = container.copies.iter_mut();
                    let copy = copies.find(|copy| copy.tape_pool == run.record.tape_pool);
                    let copy = copy.filter(|copy| copy.state == CopyState::Queued).ok_or("WrongState")?;
                    copy.state = CopyState::Planned { run: *id, vid, block: planned.block };
                    let PlannedContainer { container, block, blocks } = *planned;
                    run.items.push(RunItem { container, block, blocks });
                    run.record.planned += 1;
                }
            }
            Command::CommitRun { committed, end_of_data, .. }
            | Command::AdoptRun { committed, end_of_data, .. } => {
                let mut bytes = 0;
                if *end_of_data < tape.end_of_data
                    || *committed < run.record.committed
                    || *committed > run.record.planned
                {
                    return Err("Malformed");
                }
                for item in &run.items[run.record.committed as usize..*committed as usize] {
                    if item.block <= tape.index_block || item.block.0 + item.blocks.0 > end_of_data.0 {
                        return Err("Malformed");
                    }
                    let state = CopyState::Flushed { run: *id, vid, block: item.block };
                    self.set_copy(item.container, *id, state);
                    tape.containers += 1;
                    bytes += self.containers[&item.container].length.0;
                    self.revive(item.container);
                }
                run.record.committed = *committed;
                tape.end_of_data = *end_of_data;
                tape.committed.0 += bytes;
                if let Command::CommitRun { written, .. } = command {
                    tape.written.0 += written.0;
                    self.flushes.files += 1;
                    self.flushes.bytes.0 += written.0;
                } else {
                    tape.written.0 += bytes;
                }
            }
            Command::IndexWritten { generation, index_block, end_of_data, written, changes, .. } => {
                if *generation <= tape.generation
                    || *index_block < tape.end_of_data
                    || end_of_data <= index_block
                {
                    return Err("Malformed");
                }
                let mut end = 0;
                for (first, last) in changes {
                    if *first <= end || last < first || *last > self.changes {
                        return Err("Malformed");
                    }
                    end = *last;
                    let row = self.segments.entry((vid, *first)).or_default();
                    *row = end.max(*row);
                    tape.changes_through = tape.changes_through.max(end);
                }
                tape.generation = *generation;
                tape.index_block = *index_block;
                tape.end_of_data = *end_of_data;
                tape.written.0 += written.0;
                run.record.indexed = run.record.committed;
                self.indexes.files += 1;
                self.indexes.bytes.0 += written.0;
                self.cover(vid);
            }
            Command::EndRun { end, tape_state, reason, end_of_data, torn, .. } => {
                if end_of_data.is_some_and(|end| end < tape.end_of_data) {
                    return Err("Malformed");
                }
                tape.end_of_data = end_of_data.unwrap_or(tape.end_of_data);
                for item in &run.items[run.record.committed as usize..] {
                    self.set_copy(item.container, *id, CopyState::Queued);
                }
                let stays = tape.state == TapeState::Disabled
                    || (tape.state == TapeState::Repacking && *tape_state != TapeState::Suspect)
                    || (tape.state != TapeState::Active && *tape_state == TapeState::Active);
                if !stays {
                    (tape.state, tape.reason) = (*tape_state, reason.clone());
                    if let Some(history) = tape.history.as_mut().filter(|_| *tape_state != TapeState::Suspect)
                    {
                        history.retry = None;
                    }
                }
                tape.torn.0 += torn.0;
                tape.run = None;
                run.record.ended = Some((self.at, *end));
            }
            _ => unreachable!(),
        }
        self.tapes.insert(vid, tape);
        self.runs.insert(*id, run);
        Ok(())
    }

    fn set_copy(&mut self, container: ContainerId, by: RunId, state: CopyState) {
        let copies = &mut self.containers.get_mut(&container).unwrap().copies;
        let is_mine =
            |copy: &&mut ContainerCopy| matches!(copy.state, CopyState::Planned { run, .. } if run == by);
        copies.iter_mut().find(is_mine).unwrap().state = state;
    }

    /// Everything flushed on the tape so far lies before the new index.
    fn cover(&mut self, tape: Vid) {
        for container in self.containers.values_mut() {
            for copy in &mut container.copies {
                if let CopyState::Flushed { vid, block, .. } = copy.state
                    && vid == tape
                {
                    copy.state = CopyState::Indexed { vid, block };
                }
            }
        }
        self.tidy();
    }

    /// What is settled holds nothing in the pool; what is safe needs no condemned files.
    pub fn tidy(&mut self) {
        let mut held = Vec::new();
        for container in self.containers.values_mut() {
            if container.is_safe()
                && container
                    .copies
                    .iter()
                    .all(|copy| matches!(copy.state, CopyState::Indexed { .. }) && copy.source.is_none())
            {
                held.extend(container.skeleton.take());
            }
        }
        self.released(&held);
        self.tidy_images();
        self.bury();
    }

    /// What is settled holds no image, but of a part of a file that somebody waits for.
    fn tidy_images(&mut self) {
        let is_settled =
            |copy: &ContainerCopy| matches!(copy.state, CopyState::Indexed { .. }) && copy.source.is_none();
        let mut held = Vec::new();
        for id in self.containers.keys().copied().collect::<Vec<_>>() {
            let is_waited_for = self.whole_of(id).is_some_and(|file| self.waits(file));
            let container = self.containers.get_mut(&id).unwrap();
            let is_settled = container.is_safe() && container.copies.iter().all(is_settled);
            if is_settled && !is_waited_for {
                held.extend(container.image.take());
            }
        }
        self.released(&held);
    }
}
