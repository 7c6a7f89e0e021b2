//! A reading session: the wanted files of the mounted tape in the planned order, stored batch by batch.

use std::convert::Infallible;
use std::ops::Range;

use base::{BlockAddress, ByteCount, ClassId, Duration, FileId, Partition};
use mechanics::{TapeByte, Track};
use scheduler::{Event, Failure, SessionEnd};
use session::order::{self, Aim, Approach, OrderFrom, Segment};
use session::{
    DriveAnswer, Planned, ReadingAction, ReadingEvent, ReadingRules, ReadingSession, RoomClaim, TapeSet,
    Wanted, WantedPage, gather_wanted,
};

use super::drives::{Drive, Phase};
use super::invariants::Check;
use super::trace::MountKind;
use super::{BLOCK, World};
use crate::disks::Stream;
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{ClassIndex, FaultKind, FileNumber, ReadOrder};

/// Planning takes so long for each file.
const PLAN_FILE: Duration = Duration::from_micros(3);
/// A plan of more files is not made anew for more, as the server does up to some thousand: that would take
/// most of a run's time. The new ones are put where they cost least.
const REPLAN_FILES: usize = 128;
/// Wanted files that are looked at together.
const PAGE: usize = 10_000;
/// What a stream gets is looked at anew after so many bytes.
pub(super) const SLICE: u64 = 4 << 30;

/// Where a file begins on its tape, and when it was asked for: its place in the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    byte: u64,
    since: Moment,
}

type PendingRecall = Wanted<Spot>;

fn pending_recall(file: FileId, byte: u64, bytes: u64, since: Moment) -> PendingRecall {
    let begin = byte / BLOCK;
    let end = (byte + bytes).div_ceil(BLOCK).max(begin + 1);
    let segment = Segment { begin: BlockAddress(begin), end: BlockAddress(end) };
    Wanted { file, segment, length: ByteCount(bytes), along: false, place: Spot { byte, since } }
}

/// What a drive's reading session knows.
pub(super) struct Reading {
    /// The rules, and how far they are.
    session: ReadingSession<Spot>,
    batch: Vec<Planned<Spot>>,
    /// The next file of the batch, and how much of it was read.
    at: usize,
    offset: u64,
    /// Room claimed in the pool for the batch.
    claim: RoomClaim,
    /// What the feed was told of the stream.
    wanted: u64,
}

impl Reading {
    pub(super) fn new(rules: ReadingRules) -> Self {
        Reading {
            session: ReadingSession::new(rules),
            batch: Vec::new(),
            at: 0,
            offset: 0,
            claim: RoomClaim::default(),
            wanted: 0,
        }
    }
}

/// What is wanted from a tape.
struct WantedOnTape<'w, 'm> {
    world: &'w mut World<'m>,
    tape: TapeIndex,
    /// The pack that was looked at last: its class, and the numbers of its files.
    pack: Option<(ClassIndex, Vec<Range<u64>>)>,
}

impl TapeSet for WantedOnTape<'_, '_> {
    type Error = Infallible;
    type Cursor = usize;
    type Place = Spot;
    /// Its class and the number of its first file.
    type Pack = (u16, u64);

    fn wanted(&mut self, after: Option<usize>) -> Result<WantedPage<Spot, usize>, Infallible> {
        let world = &mut *self.world;
        let from = after.unwrap_or(0);
        let all = std::mem::take(&mut world.tapes[self.tape.0 as usize].wanted);
        let page = all.get(from..all.len().min(from + PAGE)).unwrap_or_default();
        let files = page.iter().filter_map(|file| world.pending_recall_on(*file, self.tape)).collect();
        let next = Some(from + page.len()).filter(|next| *next < all.len());
        world.tapes[self.tape.0 as usize].wanted = all;
        Ok(WantedPage { files, next })
    }

    fn claim(&mut self, files: &[FileId]) -> Vec<bool> {
        self.world.scheduler.claim(Holdings::vid(self.tape), files)
    }

    fn whole_pack(&mut self, wanted: &PendingRecall) -> Result<Option<(u16, u64)>, Infallible> {
        if !self.world.class_of(wanted.file).recall_packs {
            return Ok(None);
        }
        let file = FileNumber::of(wanted.file);
        let is_known = self.pack.as_ref().is_some_and(|(class, runs)| {
            *class == file.class && runs.iter().any(|run| run.contains(&file.sequence))
        });
        if !is_known {
            self.pack = Some((file.class, self.world.holdings.pack_of(file)));
        }
        let first = self.pack.as_ref().and_then(|(class, runs)| Some((class.0, runs.first()?.start)));
        Ok(first)
    }

    fn away_in_pack(
        &mut self,
        (class, first): (u16, u64),
        _: Option<usize>,
    ) -> Result<WantedPage<Spot, usize>, Infallible> {
        let world = &mut *self.world;
        let class = ClassIndex(class);
        let members = world.holdings.pack_of(FileNumber { class, sequence: first }).into_iter().flatten();
        let mut files = Vec::new();
        for file in members.map(|sequence| FileNumber { class, sequence }) {
            let place = world.holdings.copies(file).iter().find(|place| place.tape == self.tape).copied();
            if let Some(place) = place.filter(|_| !world.cache.contains(file)) {
                files.push(pending_recall(file.id(), place.byte, world.holdings.size(file), world.now));
            }
        }
        Ok(WantedPage { files, next: None })
    }
}

impl World<'_> {
    /// The rules by which tapes are read.
    pub(super) fn reading_rules(model: &scenario::model::Model) -> ReadingRules {
        let order = match model.foreign.order {
            ReadOrder::Planned => session::ReadOrder::Planned(Aim::LastFile),
            ReadOrder::Block | ReadOrder::Arrival | ReadOrder::Window(_) => session::ReadOrder::AsGiven,
        };
        let work = &model.site.work;
        ReadingRules {
            order,
            // What drives recommend is not modelled.
            order_from: OrderFrom::Own,
            batch_bytes: work.recall_batch,
            replan_every: work.replan,
            replan_files: REPLAN_FILES,
        }
    }

    pub(super) fn recall(&mut self, drive: usize) {
        self.drives[drive].phase = Phase::Recalling;
        self.trace_session(drive, MountKind::Recall);
        let wanted = self.drives[drive].native_rate().min(self.model.site.path.stream(true));
        self.feed.begin(Stream::TapeRead, wanted);
        let reading = &mut self.drives[drive].reading;
        *reading = Reading { wanted, ..Reading::new(Self::reading_rules(self.model)) };
        self.drives[drive].session_since = self.now;
        self.checked(Check::BoundOnWaiting);
        self.check_bound(drive);
        self.drive_at(drive, self.now);
    }

    /// What was to happen up to now has: stores a batch that is complete, and reads on.
    pub(super) fn recall_on(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        if self.path_breaks(drive, tape) {
            return;
        }
        if self.drives[drive].reading.at < self.drives[drive].reading.batch.len() {
            return self.read_on(drive, self.now);
        }
        self.store_batch(drive, tape);
        if self.violation.is_some() {
            return;
        }
        let mut at = self.now;
        let arrivals = self.tapes[tape.0 as usize].arrived;
        // The model's pool is one space.
        let batch_most = ByteCount(u64::MAX);
        let mut action = self.read_step(drive, at, ReadingEvent::Next { arrivals, batch_most, stop: false });
        loop {
            action = match action {
                ReadingAction::Gather => self.plan(drive, tape, &mut at),
                ReadingAction::AskDrive(_) => {
                    let track = self.drives[drive].track.clone();
                    let answer = DriveAnswer::NotOffered;
                    self.read_step(drive, at, ReadingEvent::Recommended { track: &track, answer })
                }
                ReadingAction::Check(batch) => self.check_batch(drive, tape, batch, at),
                ReadingAction::Read { files, claim } => {
                    let reading = &mut self.drives[drive].reading;
                    (reading.batch, reading.claim) = (files, claim);
                    return self.read_on(drive, at);
                }
                ReadingAction::End(end) => return self.end_recall(drive, end.into()),
            };
        }
    }

    fn read_step(&mut self, drive: usize, at: Moment, event: ReadingEvent<'_, Spot>) -> ReadingAction<Spot> {
        self.drives[drive].reading.session.step(at.since(Moment(0)), event)
    }

    /// Puts all that is wanted now and was not given yet in order, which takes its time.
    fn plan(&mut self, drive: usize, tape: TapeIndex, at: &mut Moment) -> ReadingAction<Spot> {
        self.clear_wanted(tape);
        let reading =
            std::mem::replace(&mut self.drives[drive].reading, Reading::new(Self::reading_rules(self.model)));
        let mut set = WantedOnTape { world: self, tape, pack: None };
        let Ok(wanted) = gather_wanted(&mut set, |file| reading.session.was_given(file));
        self.drives[drive].reading = reading;
        let files = wanted.len();
        let it = &mut self.drives[drive];
        let head = match it.motion.host() {
            TapeByte { partition: Partition::Data, byte } => BlockAddress(byte / BLOCK),
            _ => BlockAddress(0),
        };
        let wanted = in_foreign_order(self.model.foreign.order, &it.track, head, wanted);
        let event = ReadingEvent::Gathered { wanted, head, track: &it.track };
        let action = it.reading.session.step(at.since(Moment(0)), event);
        if files > 0 {
            it.trail.push((*at, DriveActivity::Wait));
            *at = at.plus(PLAN_FILE * files as u32);
        }
        action
    }

    /// A file that is wanted, where it stands on this tape.
    fn pending_recall_on(&mut self, file: FileId, tape: TapeIndex) -> Option<PendingRecall> {
        let number = FileNumber::of(file);
        let (bytes, since) = self.wants.get(file).map(|want| (want.bytes, want.since))?;
        if let Some(part) = self.spans.part_on(file, tape) {
            return Some(pending_recall(file, part.byte, part.bytes, since));
        }
        let stands = self.holdings.copies(number);
        let place = stands.iter().find(|place| place.tape == tape)?;
        Some(pending_recall(file, place.byte, bytes, since))
    }

    /// Which files of a batch are still wanted and have room.
    fn check_batch(
        &mut self,
        drive: usize,
        tape: TapeIndex,
        batch: Vec<Planned<Spot>>,
        at: Moment,
    ) -> ReadingAction<Spot> {
        let asked: Vec<FileId> = batch.iter().map(|planned| planned.wanted.file).collect();
        let claimed = self.scheduler.claim(Holdings::vid(tape), &asked);
        let still =
            batch.into_iter().zip(claimed).filter(|(planned, claimed)| *claimed || planned.wanted.along);
        let class = |file: FileId| ClassId(FileNumber::of(file).class.0 + 1);
        let files = still.map(|(planned, _)| (planned, class(planned.wanted.file))).collect();
        let free = self.free_for_recalls();
        let room = &mut self.room.claims;
        let event = ReadingEvent::StillWanted { files, room, free: &free, now: at.timestamp() };
        let reading = &mut self.drives[drive].reading.session;
        let action = reading.step(at.since(Moment(0)), event);
        self.room_lacked |= reading.has_refused();
        action
    }

    /// Reads a part of the batch, from `at` on; the drive's next event is behind it.
    fn read_on(&mut self, drive: usize, mut at: Moment) {
        let it = &mut self.drives[drive];
        let wanted = it.reading.wanted;
        let rate = self.feed.rate(Stream::TapeRead, wanted);
        let end = it.tape.map_or(0, |tape| self.holdings.tapes()[tape.0 as usize].used);
        let file_wait = self.model.site.path.read_file;
        let mut left = SLICE;
        let (from, mut bytes_read, mut files_read) = (at, 0, 0);
        while left > 0 && it.reading.at < it.reading.batch.len() {
            let planned = it.reading.batch[it.reading.at];
            let size = planned.wanted.length.0;
            if it.reading.offset == 0 {
                at = approach(it, at, planned, rate, end);
                if !file_wait.is_zero() {
                    it.trail.push((at, DriveActivity::Wait));
                    at = at.plus(file_wait);
                    it.stood += file_wait.as_micros() as u64;
                }
            }
            let bytes = (size - it.reading.offset).min(left);
            at = transfer(it, at, bytes, rate, end);
            bytes_read += bytes;
            left -= bytes;
            it.reading.offset += bytes;
            if it.reading.offset == size {
                files_read += 1;
                (it.reading.at, it.reading.offset) = (it.reading.at + 1, 0);
            }
        }
        self.feed.moved(Stream::TapeRead, bytes_read);
        self.meter.tape_read(from, at, drive, bytes_read, files_read);
        self.drive_at(drive, at);
    }

    /// What was read stands in the pool: everyone who waited for it is told.
    fn store_batch(&mut self, drive: usize, tape: TapeIndex) {
        let batch = std::mem::take(&mut self.drives[drive].reading.batch);
        self.give_back_claim(drive);
        (self.drives[drive].reading.at, self.drives[drive].reading.offset) = (0, 0);
        for Planned { wanted: recall, .. } in &batch {
            if !recall.along && self.pending.take(FaultKind::UnreadableCopy) {
                self.meter.fault(FaultKind::UnreadableCopy);
                self.copy_failed(recall.file, tape);
                continue;
            }
            let file = FileNumber::of(recall.file);
            if !recall.along && self.goes_on_elsewhere(recall.file, tape) {
                continue;
            }
            let bytes = self.holdings.size(file);
            if !self.cache.contains(file) && !self.put_in(file, bytes, true) {
                if !recall.along {
                    self.drives[drive].reading.session.refuse();
                }
                continue;
            }
            self.recalled(recall.file);
            if self.violation.is_some() {
                break;
            }
        }
        if !batch.is_empty() {
            self.evict();
            self.tell_room(false);
        }
    }

    fn give_back_claim(&mut self, drive: usize) {
        let claim = std::mem::take(&mut self.drives[drive].reading.claim);
        self.room.claims.give_back_all(claim);
    }

    fn end_recall(&mut self, drive: usize, end: SessionEnd) {
        self.close_recall(drive);
        self.idle(drive);
        self.tell_room(true);
        let name = self.drives[drive].name.clone();
        self.tell(Event::RecallEnded(name, end));
    }

    /// The session is over, however it ended.
    pub(super) fn close_recall(&mut self, drive: usize) {
        self.feed.end(Stream::TapeRead, self.drives[drive].reading.wanted);
        self.give_back_claim(drive);
        self.drives[drive].reading.batch.clear();
        self.session_max = self.session_max.max(self.now.since(self.drives[drive].session_since));
    }

    /// A session that reads a tape which cannot be read any more, or is not reached, ends.
    pub(super) fn fail_recall(&mut self, drive: usize, failure: Failure) {
        self.drives[drive].trail.clear();
        self.end_recall(drive, SessionEnd::Failed(failure));
    }
}

/// The order in which another system reads.
fn in_foreign_order(
    order: ReadOrder,
    track: &Track,
    head: BlockAddress,
    mut recalls: Vec<PendingRecall>,
) -> Vec<PendingRecall> {
    match order {
        ReadOrder::Planned => {}
        ReadOrder::Block => recalls.sort_unstable_by_key(|recall| (recall.place.byte, recall.file)),
        ReadOrder::Arrival => recalls.sort_unstable_by_key(|recall| (recall.place.since, recall.file)),
        ReadOrder::Window(window) => {
            recalls.sort_unstable_by_key(|recall| (recall.place.since, recall.file));
            return nearest_in_windows(track, head, &recalls, window as usize);
        }
    }
    recalls
}

/// Of so many files at a time that which lies nearest comes first. Files that touch are read in one go, as
/// they stand: what shares a block with the one before is not behind the head.
fn nearest_in_windows(
    track: &Track,
    mut head: BlockAddress,
    recalls: &[PendingRecall],
    window: usize,
) -> Vec<PendingRecall> {
    let mut ordered = Vec::with_capacity(recalls.len());
    for part in recalls.chunks(window.max(1)) {
        let mut part = part.to_vec();
        part.sort_unstable_by_key(|recall| (recall.place.byte, recall.file));
        let runs: Vec<&[PendingRecall]> =
            part.chunk_by(|a, b| b.place.byte <= a.place.byte + a.length.0).collect();
        // From where the first file begins to where the last one ends: no two runs share more than a block.
        let segment = |run: &&[PendingRecall]| {
            let (first, last) =
                (run.first().map(|recall| recall.segment), run.last().map(|recall| recall.segment));
            first.zip(last).map(|(first, last)| Segment { begin: first.begin, end: last.end })
        };
        let segments: Vec<Segment> = runs.iter().filter_map(segment).collect();
        for index in order::nearest_first(track, head, &segments) {
            ordered.extend_from_slice(runs[index]);
            head = segments[index].end;
        }
    }
    ordered
}

/// The head comes to a file: reads what lies between, or locates.
fn approach(it: &mut Drive, at: Moment, planned: Planned<Spot>, rate: u64, end: u64) -> Moment {
    let host = it.motion.host();
    let byte = planned.wanted.place.byte;
    let through = planned.approach == Approach::ReadThrough;
    if through && host.partition == Partition::Data && host.byte < byte {
        return transfer(it, at, byte - host.byte, rate.max(it.native_rate()), end);
    }
    it.locate(at, TapeByte { partition: Partition::Data, byte })
}

/// Reads bytes that the way takes at this rate.
fn transfer(it: &mut Drive, from: Moment, bytes: u64, rate: u64, end: u64) -> Moment {
    let stood = it.stood;
    let mut at = from;
    if rate >= it.native_rate() {
        at = Moment(it.motion.read(at.0 - stood, bytes, end) + stood).max(at);
    } else {
        let (mut left, most) = (bytes, it.piece());
        while left > 0 {
            let piece = left.min(most);
            let read = it.motion.read(at.0 - stood, piece, end) + stood;
            at = Moment(read.max(at.0 + (u128::from(piece) * 1_000_000 / u128::from(rate)) as u64));
            left -= piece;
        }
    }
    it.note_transfer(from, at, bytes, DriveActivity::Read);
    at
}
