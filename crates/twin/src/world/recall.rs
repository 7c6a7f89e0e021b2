//! A reading session: the wanted files of the mounted tape in the planned order, stored batch by batch.

use std::collections::VecDeque;
use std::ops::Range;

use base::{BlockAddress, Duration, FileId, Partition};
use mechanics::{TapeByte, Track};
use scheduler::order::{self, Aim, Approach, OrderLimits, Segment};
use scheduler::session::{self, PLAN_FILES_MAX};
use scheduler::{Event, SessionEnd};

use super::drives::{Drive, Phase};
use super::invariants::Check;
use super::trace::MountKind;
use super::{BLOCK, World};
use crate::disks::Stream;
use crate::holdings::{Holdings, Place, TapeIndex};
use crate::model::{ClassIndex, FaultKind, FileNumber, ReadOrder};
use crate::moment::Moment;
use crate::outcome::DriveActivity;

/// Planning takes so long for each file.
const PLAN_FILE: Duration = Duration::from_micros(3);
/// A plan of more files is not made anew for a few more.
const PLANNED_ANEW_MAX: usize = 32;
/// What a stream gets is looked at anew after so many bytes.
pub(super) const SLICE: u64 = 4 << 30;

/// A file that a session is to read.
#[derive(Clone, Copy, Debug)]
struct Wish {
    file: FileId,
    byte: u64,
    bytes: u64,
    /// When it was asked for: its place in the order of arrival.
    since: Moment,
    /// What lies before it is read through.
    through: bool,
    /// Nobody asked for it: its class recalls packs as a whole.
    along: bool,
}

impl Wish {
    fn segment(&self) -> Segment {
        let begin = self.byte / BLOCK;
        let end = (self.byte + self.bytes).div_ceil(BLOCK).max(begin + 1);
        Segment { begin: BlockAddress(begin), end: BlockAddress(end) }
    }
}

/// What a drive's reading session knows.
#[derive(Default)]
pub(super) struct Reading {
    queue: VecDeque<Wish>,
    batch: Vec<Wish>,
    /// The next file of the batch, and how much of it was read.
    at: usize,
    offset: u64,
    begun: Moment,
    /// Room claimed in the pool for the batch, by class.
    claims: Vec<u64>,
    refused: bool,
    /// What this session was given, had room or not: none of it is planned again.
    given: super::wants::ByFile<()>,
    /// [`TapeState::arrived`](super::drives::TapeState::arrived) when the plan was made.
    seen: u64,
    rests_until: Moment,
    /// What the feed was told of the stream.
    wanted: u64,
    wishes: Vec<Wish>,
    segments: Vec<Segment>,
    asked: Vec<FileId>,
}

impl World<'_> {
    pub(super) fn recall(&mut self, drive: usize) {
        self.drives[drive].phase = Phase::Recalling;
        self.trace_session(drive, MountKind::Recall);
        let classes = self.model.site.classes.len();
        let wanted = self.drives[drive].native_rate().min(self.model.site.path.stream(true));
        self.feed.begin(Stream::TapeRead, wanted);
        let reading = &mut self.drives[drive].reading;
        reading.queue.clear();
        reading.batch.clear();
        (reading.at, reading.offset, reading.refused, reading.wanted) = (0, 0, false, wanted);
        reading.given.clear();
        reading.claims.clear();
        reading.claims.resize(classes, 0);
        reading.rests_until = self.now;
        self.drives[drive].session_since = self.now;
        self.checked(Check::BoundOnWaiting);
        self.check_bound(drive);
        self.drive_at(drive, self.now);
    }

    /// What was to happen up to now has: stores a batch that is complete, and reads on.
    pub(super) fn recall_on(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        if self.drives[drive].reading.at < self.drives[drive].reading.batch.len() {
            return self.read_on(drive, self.now);
        }
        self.store_batch(drive, tape);
        if self.violation.is_some() {
            return;
        }
        let mut at = self.now;
        loop {
            let reading = &self.drives[drive].reading;
            let is_stale =
                reading.seen != self.tapes[tape.0 as usize].arrived && self.now >= reading.rests_until;
            if reading.queue.is_empty() || is_stale {
                at = self.plan(drive, tape, at);
            }
            if self.drives[drive].reading.queue.is_empty() {
                let refused = self.drives[drive].reading.refused;
                return self
                    .end_recall(drive, if refused { SessionEnd::NoRoom } else { SessionEnd::Drained });
            }
            self.take_batch(drive, tape);
            if !self.drives[drive].reading.batch.is_empty() {
                return self.read_on(drive, at);
            }
        }
    }

    /// Puts all that is wanted now and was not given yet in order.
    fn plan(&mut self, drive: usize, tape: TapeIndex, at: Moment) -> Moment {
        self.gather_wishes(drive, tape);
        let order = self.model.foreign.order;
        let it = &mut self.drives[drive];
        let reading = &mut it.reading;
        let files = reading.wishes.len();
        if order == ReadOrder::Planned && put_among(&mut reading.queue, &reading.wishes) {
            reading.rests_until = at.plus(self.model.site.work.replan);
            return at;
        }
        reading.queue.clear();
        if files == 0 {
            return at;
        }
        let head = match it.motion.host() {
            TapeByte { partition: Partition::Data, byte } => BlockAddress(byte / BLOCK),
            _ => BlockAddress(0),
        };
        let wishes = &mut reading.wishes;
        match order {
            ReadOrder::Planned if files == 1 => reading.queue.extend(wishes.drain(..)),
            ReadOrder::Planned => {
                reading.segments.clear();
                reading.segments.extend(wishes.iter().map(Wish::segment));
                let limits = OrderLimits::default();
                let plan = order::plan(&it.track, head, &reading.segments, Aim::LastFile, None, &limits);
                reading.queue.extend(plan.visits.iter().map(|visit| {
                    let through = visit.approach == Approach::ReadThrough;
                    Wish { through, ..wishes[visit.segment] }
                }));
            }
            ReadOrder::Block => {
                wishes.sort_unstable_by_key(|wish| (wish.byte, wish.file));
                reading.queue.extend(wishes.drain(..));
            }
            ReadOrder::Arrival => {
                wishes.sort_unstable_by_key(|wish| (wish.since, wish.file));
                reading.queue.extend(wishes.drain(..));
            }
            ReadOrder::Window(window) => {
                wishes.sort_unstable_by_key(|wish| (wish.since, wish.file));
                nearest_in_windows(&it.track, head, wishes, window as usize, &mut reading.queue);
            }
        }
        let took = PLAN_FILE * files as u32;
        reading.rests_until = at.plus(session::plan_stands(took, self.model.site.work.replan));
        it.trail.push((at, DriveActivity::Wait));
        at.plus(took)
    }

    /// The tape's wanted files as they stand now, claimed for this session, and what is brought along.
    fn gather_wishes(&mut self, drive: usize, tape: TapeIndex) {
        let vid = Holdings::vid(tape);
        self.clear_wanted(tape);
        let state = &self.tapes[tape.0 as usize];
        let arrived = state.arrived;
        let reading = &mut self.drives[drive].reading;
        reading.seen = arrived;
        let mut asked = std::mem::take(&mut reading.asked);
        let mut wishes = std::mem::take(&mut reading.wishes);
        asked.clear();
        wishes.clear();
        let new = state.wanted.iter().filter(|file| !reading.given.contains_key(*file));
        asked.extend(new.take(PLAN_FILES_MAX));
        let claimed = self.scheduler.claim(vid, &asked);
        for (id, _) in asked.iter().zip(claimed).filter(|(_, claimed)| *claimed) {
            let file = FileNumber::of(*id);
            let stands = self.holdings.copies(file).iter().find(|place| place.tape == tape).copied();
            let part = self.spans.part_on(*id, tape).map(|part| Place { tape, byte: part.byte, order: 0 });
            let (Some(place), Some(want)) = (part.or(stands), self.wants.get(*id)) else { continue };
            let (mut byte, mut bytes, since) = (place.byte, want.bytes, want.since);
            if let Some(part) = self.spans.part_on(*id, tape) {
                (byte, bytes) = (part.byte, part.bytes);
            }
            wishes.push(Wish { file: *id, byte, bytes, since, through: false, along: false });
        }
        if wishes.iter().any(|wish| self.class_of(wish.file).recall_packs) {
            self.take_along(tape, &mut wishes);
            let given = &self.drives[drive].reading.given;
            wishes.retain(|wish| !given.contains_key(&wish.file));
        }
        let reading = &mut self.drives[drive].reading;
        (reading.asked, reading.wishes) = (asked, wishes);
    }

    /// The rest of packs of classes that recall them as a whole.
    fn take_along(&mut self, tape: TapeIndex, wishes: &mut Vec<Wish>) {
        let mut packs: Vec<(ClassIndex, Vec<Range<u64>>, Moment)> = Vec::new();
        for wish in wishes.iter() {
            let file = FileNumber::of(wish.file);
            let is_known = packs.last().is_some_and(|(class, runs, _)| {
                *class == file.class && runs.iter().any(|run| run.contains(&file.sequence))
            });
            if !is_known && self.class_of(wish.file).recall_packs {
                packs.push((file.class, self.holdings.pack_of(file), wish.since));
            }
        }
        for (class, runs, since) in packs {
            for sequence in runs.into_iter().flatten() {
                let file = FileNumber { class, sequence };
                let id = file.id();
                if self.wants.get(id).is_some() || self.cache.contains(file) {
                    continue;
                }
                let place = self.holdings.copies(file).iter().find(|place| place.tape == tape).copied();
                if let Some(place) = place {
                    let bytes = self.holdings.size(file);
                    wishes.push(Wish {
                        file: id,
                        byte: place.byte,
                        bytes,
                        since,
                        through: false,
                        along: true,
                    });
                }
            }
        }
    }

    /// The next files of the plan that are still wanted and have room.
    fn take_batch(&mut self, drive: usize, tape: TapeIndex) {
        let limit = self.model.site.work.recall_batch;
        let reading = &mut self.drives[drive].reading;
        (reading.at, reading.offset, reading.begun) = (0, 0, self.now);
        let mut batch = session::take_batch(&mut reading.queue, limit, |wish| wish.bytes);
        let mut asked = std::mem::take(&mut reading.asked);
        asked.clear();
        asked.extend(batch.iter().map(|wish| wish.file));
        reading.given.extend(batch.iter().map(|wish| (wish.file, ())));
        let mut claimed = self.scheduler.claim(Holdings::vid(tape), &asked).into_iter();
        batch.retain(|wish| claimed.next().unwrap_or(false) || wish.along);
        batch.retain(|wish| {
            let class = FileNumber::of(wish.file).class;
            let fits = self.claim_room(class, wish.bytes);
            let reading = &mut self.drives[drive].reading;
            match fits {
                true => reading.claims[usize::from(class.0)] += wish.bytes,
                false => reading.refused |= !wish.along,
            }
            fits
        });
        let reading = &mut self.drives[drive].reading;
        (reading.batch, reading.asked) = (batch, asked);
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
            let wish = it.reading.batch[it.reading.at];
            if it.reading.offset == 0 {
                at = approach(it, at, wish, rate, end);
                if !file_wait.is_zero() {
                    it.trail.push((at, DriveActivity::Wait));
                    at = at.plus(file_wait);
                    it.stood += file_wait.as_micros() as u64;
                }
            }
            let bytes = (wish.bytes - it.reading.offset).min(left);
            at = transfer(it, at, bytes, rate, end);
            bytes_read += bytes;
            left -= bytes;
            it.reading.offset += bytes;
            if it.reading.offset == wish.bytes {
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
        self.give_back_claims(drive);
        self.drives[drive].reading.at = 0;
        for wish in &batch {
            if !wish.along && self.pending.take(FaultKind::UnreadableCopy) {
                self.meter.fault(FaultKind::UnreadableCopy);
                self.copy_failed(wish.file, tape);
                continue;
            }
            let file = FileNumber::of(wish.file);
            if !wish.along && self.goes_on_elsewhere(wish.file, tape) {
                continue;
            }
            let bytes = self.holdings.size(file);
            if !self.cache.contains(file) && !self.put_in(file, bytes, true) {
                if !wish.along {
                    self.drives[drive].reading.refused = true;
                }
                continue;
            }
            self.recalled(wish.file);
            if self.violation.is_some() {
                break;
            }
        }
        let mut batch = batch;
        let any = !batch.is_empty();
        batch.clear();
        self.drives[drive].reading.batch = batch;
        if any {
            self.evict();
            self.tell_room(false);
        }
    }

    fn give_back_claims(&mut self, drive: usize) {
        let reading = &mut self.drives[drive].reading;
        for (class, claimed) in reading.claims.iter_mut().enumerate() {
            self.room.give_back(class, std::mem::take(claimed));
        }
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
        self.give_back_claims(drive);
        let reading = &mut self.drives[drive].reading;
        reading.queue.clear();
        reading.batch.clear();
        self.session_max = self.session_max.max(self.now.since(self.drives[drive].session_since));
    }

    /// A session that reads a tape which cannot be read any more ends.
    pub(super) fn fail_recall(&mut self, drive: usize, why: &str) {
        self.drives[drive].trail.clear();
        self.end_recall(drive, SessionEnd::Failed(why.into()));
    }
}

/// A few new files are put next to the planned ones that lie nearest; `false`: they are not few, everything
/// is to be planned anew.
fn put_among(queue: &mut VecDeque<Wish>, wishes: &[Wish]) -> bool {
    if queue.len() < PLANNED_ANEW_MAX || wishes.len() > queue.len() + queue.len() / 8 {
        return false;
    }
    let mut known: Vec<FileId> = queue.iter().map(|wish| wish.file).collect();
    known.sort_unstable();
    for wish in wishes.iter().filter(|wish| known.binary_search(&wish.file).is_err()) {
        let near = queue.iter().enumerate().min_by_key(|(_, other)| other.byte.abs_diff(wish.byte));
        let at = near.map_or(0, |(at, other)| at + usize::from(other.byte < wish.byte));
        queue.insert(at, *wish);
        if let Some(next) = queue.get_mut(at + 1) {
            next.through = false;
        }
    }
    true
}

/// Of so many files at a time that which lies nearest comes first. Files that touch are read in one go, as
/// they stand: what shares a block with the one before is not behind the head.
fn nearest_in_windows(
    track: &Track,
    mut head: BlockAddress,
    wishes: &[Wish],
    window: usize,
    queue: &mut VecDeque<Wish>,
) {
    for part in wishes.chunks(window.max(1)) {
        let mut part = part.to_vec();
        part.sort_unstable_by_key(|wish| (wish.byte, wish.file));
        let runs: Vec<&[Wish]> = part.chunk_by(|a, b| b.byte <= a.byte + a.bytes).collect();
        // From where the first file begins to where the last one ends: no two runs share more than a block.
        let segment = |run: &&[Wish]| {
            let (first, last) = (run.first().map(Wish::segment), run.last().map(Wish::segment));
            first.zip(last).map(|(first, last)| Segment { begin: first.begin, end: last.end })
        };
        let segments: Vec<Segment> = runs.iter().filter_map(segment).collect();
        for index in order::nearest_first(track, head, &segments) {
            queue.extend(runs[index]);
            head = segments[index].end;
        }
    }
}

/// The head comes to a file: reads what lies between, or locates.
fn approach(it: &mut Drive, at: Moment, wish: Wish, rate: u64, end: u64) -> Moment {
    let host = it.motion.host();
    let to = TapeByte { partition: Partition::Data, byte: wish.byte };
    if wish.through && host.partition == Partition::Data && host.byte < wish.byte {
        return transfer(it, at, wish.byte - host.byte, rate.max(it.native_rate()), end);
    }
    it.locate(at, to)
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
