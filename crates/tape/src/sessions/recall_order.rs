//! What a reading session reads next: carries out what [`session::ReadingSession`] says, over the catalogue.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, Partition, Vid};
use catalogue::{BATCH_FILES_MAX, Command, ContainerKind, ContainerRecord, RecallKey};
use journal::OrderRecord;
use library::{TapeDrive, TapeError};
use mechanics::Track;
use mover::WantedFile;
use session::order::{Approach, OrderComparison, Segment};
use session::{
    DriveAnswer, DriveOrder, PlanReport, Planned, ReadingAction, ReadingEvent, ReadingRules, ReadingSession,
    SessionEnd, TapeSet, Wanted, WantedPage, gather_wanted,
};
use threads::Mutex;

use crate::room::{Tape, parts_away};
use crate::space::SessionClaims;
use ground::{ArchiveError, LeavingCause, TapeSettings};

/// Rows of the tape's set that are read together.
const PAGE: usize = 2_000;
/// A gap that is read through may be so many blocks longer than the plan says: a file without bytes of its
/// own ends in front of where it stands.
const GAP_SLACK: u64 = 4;

/// Where a file stands within its container.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceInContainer {
    container: ContainerId,
    /// First block of the container.
    block: BlockAddress,
}

/// What is wanted from the mounted tape, in the order in which it is read.
pub(super) struct RecallOrder<'a> {
    room: &'a Tape,
    vid: Vid,
    track: Track,
    block_size: u32,
    session: ReadingSession<PlaceInContainer>,
    /// What came of asking the drive, for the mount log.
    orders: &'a Mutex<Option<OrderRecord>>,
    claims: &'a SessionClaims<'a>,
    /// How it ended, once it has.
    end: Option<Result<SessionEnd, ArchiveError>>,
}

impl<'a> RecallOrder<'a> {
    pub(super) fn new(
        room: &'a Tape,
        vid: Vid,
        track: Track,
        block_size: u32,
        orders: &'a Mutex<Option<OrderRecord>>,
        claims: &'a SessionClaims<'a>,
    ) -> Self {
        let TapeSettings { recall_aim, recall_order_from, .. } = room.settings.tape;
        let rules = ReadingRules::of_a_server(recall_aim, recall_order_from);
        let session = ReadingSession::new(rules);
        RecallOrder { room, vid, track, block_size, session, orders, claims, end: None }
    }

    /// How the session has ended. What is left after `NoRoom` waits for room; neither tape nor drive did
    /// anything wrong.
    pub(super) fn end(self) -> scheduler::SessionEnd {
        match self.end {
            Some(Ok(end)) => end.into(),
            Some(Err(error)) => {
                scheduler::SessionEnd::Failed(format!("the wanted files cannot be read: {error}").into())
            }
            None => scheduler::SessionEnd::Stopped,
        }
    }

    /// The files that are read next, with room claimed for them; none when the session is over.
    pub(super) fn next_batch(&mut self, drive: &mut dyn TapeDrive) -> Vec<WantedFile> {
        match self.try_next_batch(drive) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(vid = %self.vid, %error, "the wanted files cannot be read");
                self.end = Some(Err(error));
                Vec::new()
            }
        }
    }

    fn try_next_batch(&mut self, drive: &mut dyn TapeDrive) -> Result<Vec<WantedFile>, ArchiveError> {
        let room = self.room;
        let arrivals = room.recall_arrivals.load(Ordering::Relaxed);
        // The batch before may still be on its way to the drives.
        let batch_most = ByteCount(room.free_for_recalls()?.blob.0 / 2);
        let mut action = self.step(ReadingEvent::Next { arrivals, batch_most, stop: room.stopping() });
        let mut found = BTreeMap::new();
        loop {
            action = match action {
                ReadingAction::Gather => self.gather(drive)?,
                ReadingAction::AskDrive(stretches) => self.ask(drive, &stretches),
                ReadingAction::Check(batch) => {
                    let still = self.still_wanted(batch)?;
                    let files = still.iter().map(|(planned, class, _)| (*planned, *class)).collect();
                    found = still.into_iter().map(|(planned, _, file)| (planned.wanted.file, file)).collect();
                    let free = room.free_for_recalls()?;
                    let mut space = room.own.space.lock();
                    let event =
                        ReadingEvent::StillWanted { files, room: &mut space, free: &free, now: room.now() };
                    let next = self.session.step(room.steady(), event);
                    if space.short().next().is_some() {
                        room.leaving.tell(LeavingCause::RecallWaits);
                    }
                    next
                }
                ReadingAction::Read { files, claim } => {
                    self.claims.push(claim);
                    self.tell_started(&files);
                    let of_file = |planned: &Planned<_>| found.remove(&planned.wanted.file);
                    return Ok(files.iter().filter_map(of_file).collect());
                }
                ReadingAction::End(end) => {
                    self.end = Some(Ok(end));
                    return Ok(Vec::new());
                }
            };
        }
    }

    /// Has those who wait for these files see that work on them has begun. Nothing depends on it.
    fn tell_started(&self, planned: &[Planned<PlaceInContainer>]) {
        let wanted = planned.iter().filter(|planned| !planned.wanted.along);
        let mut files: Vec<FileId> = wanted.map(|planned| planned.wanted.file).collect();
        files.truncate(BATCH_FILES_MAX);
        if let Err(error) = self.room.execute(Command::RecallStarted { files }) {
            tracing::debug!(vid = %self.vid, %error, "it is not noted when files began to be read");
        }
    }

    fn step(&mut self, event: ReadingEvent<'_, PlaceInContainer>) -> ReadingAction<PlaceInContainer> {
        self.session.step(self.room.steady(), event)
    }

    /// All that is wanted now and was not given yet, put in order from where the head stands.
    fn gather(&mut self, drive: &mut dyn TapeDrive) -> Result<ReadingAction<PlaceInContainer>, ArchiveError> {
        let mut set =
            CatalogueSet { room: self.room, vid: self.vid, block_size: self.block_size, looked_at: None };
        let wanted = gather_wanted(&mut set, |file| self.session.was_given(file))?;
        let mut head = BlockAddress(0);
        // Without files there is nothing to ask the drive for.
        if !wanted.is_empty() {
            head = match drive.position() {
                Ok(position) if position.partition == Partition::Data => position.block,
                _ => BlockAddress(0),
            };
        }
        let event = ReadingEvent::Gathered { wanted, head, track: &self.track };
        let action = self.session.step(self.room.steady(), event);
        self.tell_plan();
        Ok(action)
    }

    /// Asks the drive for its order. Whatever it says, the session goes on.
    fn ask(&mut self, drive: &mut dyn TapeDrive, stretches: &[Segment]) -> ReadingAction<PlaceInContainer> {
        let began = self.room.steady();
        let answer = recommended(drive, self.vid, stretches);
        let took = self.room.steady().saturating_sub(began);
        let (count, ms) = (stretches.len(), took.as_millis());
        tracing::debug!(vid = %self.vid, count, ms, "the drive was asked for its order");
        let event = ReadingEvent::Recommended { track: &self.track, answer };
        let action = self.session.step(self.room.steady(), event);
        self.tell_plan();
        action
    }

    fn tell_plan(&mut self) {
        if let Some(report) = self.session.take_plan_report() {
            self.tell(&report);
        }
    }

    fn tell(&self, report: &PlanReport) {
        let considered: Vec<String> = report
            .considered
            .iter()
            .map(|(candidate, us)| format!("{candidate} {} s", us / 1_000_000))
            .collect();
        tracing::info!(
            vid = %self.vid, files = report.files, chosen = %report.chosen,
            seconds = report.cost_us / 1_000_000,
            considered = considered.join(", "), "reading in this order"
        );
        match report.drive {
            DriveOrder::Compared(comparison) => {
                let OrderComparison { own_us, drive_us, is_drives, asked, stretches, error } = comparison;
                tracing::info!(
                    vid = %self.vid, own_seconds = own_us / 1_000_000, drive_seconds = drive_us / 1_000_000,
                    taken = if is_drives { "drive" } else { "own" }, asked, stretches,
                    model_error = error, "the drive's order (RAO) beside Kist's"
                );
            }
            DriveOrder::NotAnOrder => {
                tracing::warn!(vid = %self.vid, "the drive's order does not name each segment once");
            }
            DriveOrder::NotAsked | DriveOrder::NotOffered | DriveOrder::Failed => {}
        }
        if let Some(came) = order_record(&report.drive) {
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.get_or_insert_default().add(&came);
        }
    }

    /// What of a batch is to be read now, with all that reading it needs.
    fn still_wanted(
        &self,
        batch: Vec<Planned<PlaceInContainer>>,
    ) -> Result<Vec<(Planned<PlaceInContainer>, base::ClassId, WantedFile)>, ArchiveError> {
        let asked: Vec<FileId> = batch.iter().map(|planned| planned.wanted.file).collect();
        let claimed = self.room.scheduler().claim(self.vid, &asked);
        self.room.read(|view| {
            let mut still = Vec::with_capacity(batch.len());
            for (planned, claimed) in batch.into_iter().zip(claimed) {
                let Wanted { file: id, along, place, .. } = planned.wanted;
                if !claimed && !along {
                    continue;
                }
                let parts = view.parts(id)?;
                let found = parts.iter().find(|(container, _)| *container == place.container);
                let (Some((container, member)), Some(file)) = (found, view.file(id)?) else { continue };
                let mut wanted = WantedFile {
                    file: id,
                    part: None,
                    block: place.block,
                    header_offset: member.header_offset,
                    data_offset: member.data_offset,
                    length: member.length,
                    checksums: file.checksums.stream,
                    group: self.room.group_of_class(file.class),
                    read_through: match planned.approach {
                        Approach::Locate => 0,
                        _ => planned.gap.0 + GAP_SLACK,
                    },
                };
                let mut planned = planned;
                if parts.len() > 1 {
                    // Another tape may have given this part, or it was read whole for a repack.
                    let is_wanted = |record: &ContainerRecord| record.image.is_none();
                    let Some(record) = view.container(*container)?.filter(is_wanted) else { continue };
                    (wanted.part, wanted.checksums) = (Some(*container), record.checksums);
                    // A part is worth its room only if the others find some too.
                    planned.wanted.length = parts_away(view, &parts)?;
                }
                still.push((planned, file.class, wanted));
            }
            Ok(still)
        })
    }
}

/// What came of asking the drive about one plan, as the mount log has it.
fn order_record(drive: &DriveOrder) -> Option<OrderRecord> {
    match drive {
        DriveOrder::NotAsked | DriveOrder::NotOffered => None,
        DriveOrder::Failed | DriveOrder::NotAnOrder => {
            Some(OrderRecord { failed: 1, ..OrderRecord::default() })
        }
        DriveOrder::Compared(comparison) => Some(OrderRecord {
            compared: 1,
            drives: u64::from(comparison.is_drives),
            own: Duration::from_micros(comparison.own_us),
            drive: Duration::from_micros(comparison.drive_us),
            failed: 0,
        }),
    }
}

/// The drive's own order. A failure is told and costs nothing but that order.
fn recommended(drive: &mut dyn TapeDrive, vid: Vid, stretches: &[Segment]) -> DriveAnswer {
    let pairs: Vec<_> = stretches.iter().map(|stretch| (stretch.begin, stretch.end)).collect();
    match drive.recommended_order(&pairs) {
        Ok(Some(order)) => DriveAnswer::Order(order),
        Ok(None) => DriveAnswer::NotOffered,
        Err(TapeError::SegmentCount { max, .. }) => DriveAnswer::TooMany(max),
        Err(error) => {
            let drive = drive.id();
            tracing::warn!(%vid, %drive, %error, "the drive recommends no order; Kist's own is taken");
            DriveAnswer::Failed
        }
    }
}

/// What is wanted from a tape, as the catalogue has it.
struct CatalogueSet<'a> {
    room: &'a Tape,
    vid: Vid,
    block_size: u32,
    /// The container that was looked at last, and whether it is read as a whole: files come in the order of
    /// the tape.
    looked_at: Option<(ContainerId, bool)>,
}

/// Where a page of the tape's set, or of a pack, ended.
#[derive(Clone, Copy)]
enum Cursor {
    Set(RecallKey),
    Pack(ByteCount, FileId),
}

impl CatalogueSet<'_> {
    fn wanted_at(
        &self,
        file: FileId,
        place: PlaceInContainer,
        data_offset: ByteCount,
        length: ByteCount,
    ) -> Wanted<PlaceInContainer> {
        let block_size = u64::from(self.block_size);
        let begin = place.block.0 + data_offset.0 / block_size;
        let end = place.block.0 + (data_offset.0 + length.0).div_ceil(block_size);
        let segment = Segment { begin: BlockAddress(begin), end: BlockAddress(end.max(begin + 1)) };
        Wanted { file, segment, length, along: false, place }
    }
}

impl TapeSet for CatalogueSet<'_> {
    type Error = ArchiveError;
    type Cursor = Cursor;
    type Place = PlaceInContainer;
    type Pack = (ContainerId, BlockAddress);

    fn wanted(
        &mut self,
        after: Option<Cursor>,
    ) -> Result<WantedPage<PlaceInContainer, Cursor>, ArchiveError> {
        let after = match after {
            Some(Cursor::Set(key)) => Some(key),
            _ => None,
        };
        let rows = self.room.read(|view| view.recall_set(self.vid, after, PAGE))?;
        let next = rows.last().map(|(key, _)| Cursor::Set(*key));
        let wanted = |(key, item): &(RecallKey, catalogue::RecallItem)| {
            let place = PlaceInContainer { container: item.container, block: key.block };
            self.wanted_at(key.file, place, key.data_offset, item.length)
        };
        Ok(WantedPage { files: rows.iter().map(wanted).collect(), next })
    }

    fn claim(&mut self, files: &[FileId]) -> Vec<bool> {
        self.room.scheduler().claim(self.vid, files)
    }

    fn whole_pack(
        &mut self,
        wanted: &Wanted<PlaceInContainer>,
    ) -> Result<Option<(ContainerId, BlockAddress)>, ArchiveError> {
        if !self.room.classes.any_recalls_packs() {
            return Ok(None);
        }
        let PlaceInContainer { container, block } = wanted.place;
        let is_whole = match self.looked_at {
            Some((looked_at, is_whole)) if looked_at == container => is_whole,
            _ => {
                let record = self.room.read(|view| view.container(container))?;
                record.is_some_and(|record| {
                    let class = self.room.classes.get(record.class);
                    record.kind == ContainerKind::Pack
                        && class.is_some_and(|class| class.settings.recall_packs)
                })
            }
        };
        self.looked_at = Some((container, is_whole));
        Ok(is_whole.then_some((container, block)))
    }

    fn away_in_pack(
        &mut self,
        (container, block): (ContainerId, BlockAddress),
        after: Option<Cursor>,
    ) -> Result<WantedPage<PlaceInContainer, Cursor>, ArchiveError> {
        let after = match after {
            Some(Cursor::Pack(offset, file)) => Some((offset, file)),
            _ => None,
        };
        let place = PlaceInContainer { container, block };
        self.room.read(|view| {
            let members = view.members(container, after, PAGE)?;
            let next = members.last().map(|last| Cursor::Pack(last.data_offset, last.file));
            let mut files = Vec::new();
            for member in members {
                if view.file(member.file)?.is_some_and(|file| file.is_named() && !file.is_online()) {
                    files.push(self.wanted_at(member.file, place, member.data_offset, member.length));
                }
            }
            Ok(WantedPage { files, next })
        })
    }
}
