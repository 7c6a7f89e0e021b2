//! Files that leave the pool by themselves: when it is fuller than its high water, or a class than that of
//! its `pool_max`, or nobody has used them for long. Those go first that were not used for longest.
//!
//! The thread goes along the order of use ([`View::by_use`]) and has files evicted as an operator would
//! (`kist evict`): by the same command, after the same questions. So none goes that is not on all its tapes,
//! or that no tape could give back now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use base::{BlobDescription, BlobId, ByteCount, ClassId, DriveGroup, FileId, Layout, Timestamp};
use catalogue::{
    BULK_FILES, BlobRecord, Command, Counter, FileRecord, Garbage, ReadError, Tally, UseHour, View, Work,
};
use ground::access::Notice;
use ground::{ArchiveError, BlobRoom, Class, EvictorInfo, LeavingCauses, Selected, Worker};
use scheduler::{DriveState, Purpose};
use session::{Limits, RECALL_BATCH_BYTES, Water};
use threads::{Mutex, MutexGuard};

use crate::room::Tape;

/// How often it looks whether files are to leave, without being asked.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a look that somebody asked for the next one is so much later, however many ask: a client may be
/// refused a thousand times a second.
const ASKED_REST: Duration = Duration::from_secs(1);
/// How often it is written down which files were read.
const NOTE_EVERY: Duration = Duration::from_secs(600);
/// Files of a class that are read ahead from the order of use.
const AHEAD: usize = 400;
/// Files that a round looks at: the next one goes on behind them, and other work comes between.
const ROUND_MAX: usize = 20_000;
/// A round of which half as much room has come on the drives as was to come is followed by the next one at
/// once; else after this, each time after twice as long, ...
const FUTILE_MIN: Duration = Duration::from_secs(10);
/// ... up to this, or [`REST_MAX`] while something waits for room.
const FUTILE_MAX: Duration = Duration::from_secs(6 * 3_600);
/// A round evicts no more than twice what is wanted and this: files that were recalled together share a blob,
/// of which nothing comes free before the last of them has left.
const SHARED_MAX: u64 = 2 * RECALL_BATCH_BYTES.0;
/// Garbage that is counted; of more, what is known to have been evicted counts.
const GARBAGE_MAX: usize = 20_000;
/// After a round that found nothing the next one comes after this, each time after twice as long, ...
const REST_MIN: Duration = Duration::from_secs(10);
/// ... up to this.
const REST_MAX: Duration = Duration::from_secs(600);
/// How often what waits for a tape is written before its time, since something waits for room: a mount for
/// what little has come meanwhile would wear the tape.
const MIGRATE_FOR_ROOM_EVERY: Duration = Duration::from_secs(300);
/// Unless it is this part of the room for files: that is worth a mount at any time.
const MUCH_PART: u64 = 10;

/// What the thread has done, and is to do.
#[derive(Default)]
pub(crate) struct Evictor {
    info: Mutex<EvictorInfo>,
}

impl Evictor {
    fn info(&self) -> MutexGuard<'_, EvictorInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own memory.
struct Rounds {
    /// By the steady clock: when uses are written down next, and when ages are looked at next.
    note_at: Duration,
    ages_at: Duration,
    /// When a round for want of room comes next, and after what rest the one behind it.
    next_at: Duration,
    rest: Duration,
    /// What was evicted and is not removed from the drives yet, as far as is known.
    unswept: u64,
    /// The last round for want of room, until it is known what came of it.
    last: Option<LastRound>,
    /// Since when no other is begun since too little came of one.
    rests_since: Option<Duration>,
    futile: Duration,
    /// Where a round stopped in the order of a class before it was through.
    reached: BTreeMap<ClassId, (UseHour, FileId)>,
    /// The same of a look at ages.
    ages_reached: BTreeMap<ClassId, (UseHour, FileId)>,
    /// When the first retention ends that kept a file from leaving in the last round.
    hold_ends: Option<Timestamp>,
    /// When what waits for a tape was last written before its time.
    migrated_at: Option<Duration>,
    /// The least that has to come free for something that waited for room at the last look; 0: nothing did.
    lacks: ByteCount,
}

/// What is to come of a round.
struct LastRound {
    /// What files and free room are together behind it.
    most: ByteCount,
    /// How much of it is free then and was not.
    freed: u64,
    /// The largest blob that fitted before it, if something waits for that alone.
    largest: Option<ByteCount>,
}

/// The thread.
pub(crate) fn run(room: &Tape, me: &Worker) {
    room.uses.want();
    let mut rounds = Rounds {
        note_at: room.steady().saturating_add(NOTE_EVERY),
        ages_at: Duration::ZERO,
        next_at: Duration::ZERO,
        rest: REST_MIN,
        unswept: 0,
        last: None,
        rests_since: None,
        futile: FUTILE_MIN,
        reached: BTreeMap::new(),
        ages_reached: BTreeMap::new(),
        hold_ends: None,
        migrated_at: None,
        lacks: ByteCount(0),
    };
    let mut has_failed = false;
    while !room.stopping() {
        me.does("looking for files that are to leave the pool");
        let causes = hear(room);
        let turn = rounds.turn(room, causes);
        room.evictor.info().looks += 1;
        if let Err(error) = &turn {
            // Once, not every few seconds.
            if !has_failed {
                tracing::error!(%error, "files that are to leave the pool stay for now");
            }
            me.failed(error);
        }
        has_failed = turn.is_err();
        me.rests();
        if causes.are_any() {
            room.leaving.rest(ASKED_REST);
        }
        room.leaving.wait(LOOK_EVERY);
    }
    // What was read last counts after the next start, too.
    note_uses(room);
}

/// What was told. From then on until it has looked nobody knows whether what it was told of may leave.
fn hear(room: &Tape) -> LeavingCauses {
    if room.leaving.pending().are_any() {
        let mut info = room.evictor.info();
        info.looks_at_once += 1;
        // What only waits for room finds as little that may leave as the last round did.
        if info.held_up && room.leaving.pending().may_leave {
            (info.held_up, info.makes_room) = (false, true);
        }
    }
    room.leaving.hear()
}

/// What a class is to give up, and what it may.
struct Demand {
    class: ClassId,
    /// Bytes that are to leave of this class alone.
    own: u64,
    /// Bytes that may leave at most.
    allowance: u64,
    size_min: ByteCount,
}

/// The files of a class that may leave, in the order of their use.
struct Line {
    demand: Demand,
    ahead: VecDeque<(UseHour, FileId)>,
    /// The last one that was read ahead, and the last one that was looked at.
    after: Option<(UseHour, FileId)>,
    passed: Option<(UseHour, FileId)>,
    looked_at: usize,
    /// Where it began, and whether it has come to the end since: then it goes on from the front up to there.
    began: Option<(UseHour, FileId)>,
    has_turned: bool,
    /// When the first retention ends that alone keeps one of those that were looked at.
    hold_ends: Option<Timestamp>,
}

/// What a round came to.
#[derive(Clone, Copy, Default)]
struct Evicted {
    files: u64,
    bytes: u64,
    /// Bytes of blobs that no file needs any more: room that comes.
    freed: u64,
}

impl Rounds {
    fn turn(&mut self, room: &Tape, causes: LeavingCauses) -> Result<(), ArchiveError> {
        // What could not leave before is looked for at once; what only waits for room comes after the rest
        // that a round which found nothing takes.
        if causes.may_leave {
            (self.next_at, self.rest) = (Duration::ZERO, REST_MIN);
        }
        let is_whole = order_older_files(room).unwrap_or_else(|error| {
            // The catalogue has no room for it: what stands in the order may leave all the same.
            tracing::warn!(%error, "files that are older than the order of use do not stand in it yet");
            true
        });
        if !is_whole {
            return Ok(());
        }
        if room.steady() >= self.note_at {
            self.note_at = room.steady().saturating_add(NOTE_EVERY);
            note_uses(room);
        }
        if room.settled.holds_pool() || room.read(|view| view.is_restored())? {
            room.leaving.set_room_comes(false);
            return Ok(());
        }
        self.make_room(room, causes.put_refused)?;
        let lacks_index = room.ask_for_indexes()?;
        let comes_to_tapes = self.migrate_for_room(room)?;
        room.leaving.set_room_comes(may_come(room, lacks_index || comes_to_tapes));
        if room.steady() >= self.ages_at {
            self.evict_unused(room)?;
            // It goes on soon where it was not through.
            let rest = if self.ages_reached.is_empty() { REST_MAX } else { Duration::ZERO };
            self.ages_at = room.steady().saturating_add(rest);
        }
        Ok(())
    }

    /// If something waits for room and too little may leave, what waits for a tape goes there without waiting
    /// for more bytes or age. Whether enough is on its way to tapes for what waits for room.
    fn migrate_for_room(&mut self, room: &Tape) -> Result<bool, ArchiveError> {
        let on_its_way = room.room_on_its_way()?;
        if on_its_way.bytes.0 == 0 {
            return Ok(false);
        }
        if on_its_way.bytes < self.lacks {
            let evictable = room.read(|view| most_evictable(room, view))?;
            if on_its_way.bytes.0.saturating_add(evictable.0) < self.lacks.0 {
                return Ok(false);
            }
        }
        let now = room.steady();
        let is_time = self.migrated_at.is_none_or(|at| at.saturating_add(MIGRATE_FOR_ROOM_EVERY) <= now);
        let is_much = on_its_way.bytes.0 >= room.evictor.info().room.0 / MUCH_PART;
        if (is_time || is_much) && room.room_waits() {
            self.migrated_at = Some(now);
            tracing::info!("what waits for a tape is written now: something waits for room in the pool");
            room.hasten_for_room(on_its_way);
        }
        Ok(true)
    }

    /// Evicts what nobody has used for as long as its class says.
    fn evict_unused(&mut self, room: &Tape) -> Result<(), ArchiveError> {
        for class in room.classes.all().iter().filter(|class| leaves_at_all(class)) {
            let Some(age) = class.settings.leaving.unused_for else { continue };
            let before = UseHour::of(room.now().minus(age));
            let online = room.read(|view| Ok(view.tally(Counter::Online(class.id))?.bytes))?;
            let passed = self.ages_reached.remove(&class.id);
            let mut line = Line::behind(Demand::of(class, online, u64::MAX), passed);
            let mut evicted = Evicted::default();
            let ended = line.evict_before(room, before, &mut evicted);
            if line.looked_at >= ROUND_MAX {
                self.ages_reached.extend(line.passed.map(|passed| (class.id, passed)));
            }
            self.unswept = self.unswept.saturating_add(evicted.freed);
            told(
                room,
                evicted,
                &format!("nobody used them for as long as class {} says", class.settings.name),
            );
            ended?;
        }
        Ok(())
    }

    /// Evicts what the marks ask for, and what waits for room; `refused`: what a put needs that was refused.
    fn make_room(&mut self, room: &Tape, refused: Option<ByteCount>) -> Result<(), ArchiveError> {
        let now = room.steady();
        let Some(water) = room.settings.pool.water else { return Ok(()) };
        if now < self.next_at {
            if refused.is_some() {
                room.note_room_waits(true);
            }
            return Ok(());
        }
        if self.unswept > 0 {
            self.unswept = self.unswept.min(garbage_bytes(room)?);
        }
        let Asked { wanted, demands, evictable, largest, waits, lacks } =
            asked(room, water, self.unswept, refused)?;
        self.lacks = lacks;
        // Puts and recalls take of what is free and are files then: what both are together tells whether room
        // came.
        let most = room.evictor.info().room;
        let has_to_wait = self.is_futile(most, largest, waits, now) || !takes_files(room);
        let wanted = if has_to_wait { 0 } else { wanted };
        let is_asked = wanted > 0 || demands.iter().any(|demand| demand.own > 0);
        // No more may leave than is counted as such.
        let could_leave = match evictable {
            _ if !is_asked => ByteCount(0),
            Some(known) => known,
            None => room.read(|view| most_evictable(room, view))?,
        };
        if could_leave.0 == 0 {
            self.rest = REST_MIN;
            self.next_at = if is_asked { now.saturating_add(REST_MIN) } else { now };
            room.evictor.info().ended(is_asked, self.unswept > 0);
            room.note_room_waits(waits);
            return Ok(());
        }
        // Who was read a moment ago goes last.
        note_uses(room);
        let own: u64 = demands.iter().map(|demand| demand.own).sum();
        let mut evicted = Evicted::default();
        let is_through = self.evict_least_used(room, wanted, demands, &mut evicted);
        // What has left is accounted for, whatever became of the rest.
        told(room, evicted, "the pool or a class is above its high water, or something waits for room");
        self.unswept = self.unswept.saturating_add(evicted.freed);
        if wanted > 0 && evicted.freed > 0 {
            let lost = evicted.bytes.saturating_sub(evicted.freed);
            let most = ByteCount(most.0.saturating_sub(lost));
            self.last = Some(LastRound { most, freed: evicted.freed, largest });
        }
        room.sweep.ring();
        let is_through = is_through.inspect_err(|_| room.evictor.info().ended(true, evicted.bytes > 0))?;
        let is_short = evicted.freed < wanted;
        let is_over = is_short && evicted.bytes >= most_for(wanted);
        let lacks = is_through && !is_over && (is_short || evicted.bytes < own);
        room.evictor.info().ended(lacks, evicted.freed > 0);
        room.note_room_waits(waits && (lacks || evicted.files == 0));
        if is_over {
            // What has left shares blobs with what stays: that others may leave now changes little.
            self.is_to_rest(now);
        }
        if is_through && evicted.files == 0 {
            // All that could go is pinned or not on its tapes yet: that takes its time. Nobody tells of the
            // end of a retention.
            let free_in = self.hold_ends.map_or(self.rest, |end| end.since(room.now()).max(REST_MIN));
            self.next_at = now.saturating_add(self.rest.min(free_in));
            self.rest = self.rest.saturating_mul(2).min(REST_MAX);
        } else {
            self.rest = REST_MIN;
        }
        Ok(())
    }

    /// Whether the last round for the pool has brought too little room, and the next one has to wait.
    fn is_futile(&mut self, most: ByteCount, largest: Option<ByteCount>, waits: bool, now: Duration) -> bool {
        // What is not removed yet counts as free, and says nothing.
        if let Some(last) = self.last.take_if(|_| self.unswept == 0) {
            let has_come = most.0 >= last.most.0.saturating_sub(last.freed / 2);
            // Room on drives that lack none is no help to who needs a place on those that do.
            let is_no_help = last.largest.zip(largest).is_some_and(|(before, now)| now <= before);
            if has_come && !is_no_help {
                (self.rests_since, self.futile) = (None, FUTILE_MIN);
            } else {
                self.is_to_rest(now);
            }
        }
        // Twice what the last rest was is set already.
        let rest = self.futile / 2;
        let rest = if waits { rest.min(REST_MAX) } else { rest };
        self.rests_since.is_some_and(|since| now < since.saturating_add(rest))
    }

    /// Nothing more leaves for want of room for a while, each time for twice as long.
    fn is_to_rest(&mut self, now: Duration) {
        self.rests_since = Some(now);
        self.futile = self.futile.saturating_mul(2).min(2 * FUTILE_MAX);
    }

    /// Evicts until room for `wanted` bytes is to come and no class has more than its own mark, or all were
    /// looked at once, or [`ROUND_MAX`]; `evicted` counts them. Gives whether it need not go on where it
    /// stopped.
    fn evict_least_used(
        &mut self,
        room: &Tape,
        wanted: u64,
        demands: Vec<Demand>,
        evicted: &mut Evicted,
    ) -> Result<bool, ArchiveError> {
        let line = |demand: Demand| {
            let began = self.reached.get(&demand.class).copied();
            Line { began, has_turned: began.is_none(), ..Line::behind(demand, began) }
        };
        let mut lines: Vec<Line> = demands.into_iter().map(line).collect();
        let looked_at = |lines: &[Line]| lines.iter().map(|line| line.looked_at).sum::<usize>();
        while !room.stopping() && looked_at(&lines) < ROUND_MAX {
            let is_over = evicted.bytes >= most_for(wanted);
            let left = if is_over { 0 } else { wanted.saturating_sub(evicted.freed) };
            let mut first: Option<(UseHour, usize)> = None;
            for (at, line) in lines.iter_mut().enumerate() {
                if line.demand.allowance == 0 || (left == 0 && line.demand.own == 0) {
                    continue;
                }
                let Some((hour, _)) = line.front(room)? else { continue };
                if first.is_none_or(|(known, _)| hour < known) {
                    first = Some((hour, at));
                }
            }
            let Some((_, at)) = first else { break };
            let Some(line) = lines.get_mut(at) else { break };
            let most = left.max(line.demand.own);
            evicted.add(line.evict_some(room, most, None)?);
        }
        self.hold_ends = lines.iter().filter_map(|line| line.hold_ends).min();
        // The next round begins at the front: what was pinned or not on tape may go by then.
        let is_through = looked_at(&lines) < ROUND_MAX;
        self.reached.clear();
        if !is_through {
            let stopped = lines.iter().filter_map(|line| Some((line.demand.class, line.passed?)));
            self.reached.extend(stopped);
        }
        Ok(is_through)
    }
}

impl Line {
    /// What stands behind this one, to the end.
    fn behind(demand: Demand, passed: Option<(UseHour, FileId)>) -> Self {
        let ahead = VecDeque::new();
        Line {
            demand,
            ahead,
            after: passed,
            passed,
            looked_at: 0,
            began: None,
            has_turned: true,
            hold_ends: None,
        }
    }

    /// The file that was not used for longest of those that were not looked at yet.
    fn front(&mut self, room: &Tape) -> Result<Option<(UseHour, FileId)>, ArchiveError> {
        loop {
            if let Some(front) = self.ahead.front() {
                let is_past = self.has_turned && self.began.is_some_and(|began| *front > began);
                return Ok((!is_past).then_some(*front));
            }
            let (class, after) = (self.demand.class, self.after);
            self.ahead = room.read(|view| view.by_use(class, after, AHEAD))?.into();
            match self.ahead.back() {
                Some(last) => self.after = Some(*last),
                // From the front again, once.
                None if !self.has_turned => (self.has_turned, self.after) = (true, None),
                None => return Ok(None),
            }
        }
    }

    /// Evicts what was used before that hour, and counts it: all, or [`ROUND_MAX`] files.
    fn evict_before(
        &mut self,
        room: &Tape,
        before: UseHour,
        evicted: &mut Evicted,
    ) -> Result<(), ArchiveError> {
        while !room.stopping() && self.demand.allowance > 0 && self.looked_at < ROUND_MAX {
            // The hour may have ended in a use.
            if self.front(room)?.is_none_or(|(hour, _)| hour >= before) {
                break;
            }
            evicted.add(self.evict_some(room, u64::MAX, Some(before))?);
        }
        Ok(())
    }

    /// Evicts at most `most` bytes of the next files, of those that were used before that hour.
    fn evict_some(
        &mut self,
        room: &Tape,
        most: u64,
        before: Option<UseHour>,
    ) -> Result<Evicted, ArchiveError> {
        let most = most.min(self.demand.allowance);
        let (files, blobs) = room.read(|view| {
            let (mut files, mut bytes, mut blobs) = (Vec::new(), 0u64, BTreeMap::new());
            for _ in 0..BULK_FILES {
                let Some((hour, file)) =
                    self.ahead.pop_front_if(|(hour, _)| before.is_none_or(|it| *hour < it))
                else {
                    break;
                };
                self.passed = Some((hour, file));
                self.looked_at += 1;
                let allowed = self.demand.allowance.saturating_sub(bytes);
                let record = match may_leave(view, file, self.demand.size_min, room.now())? {
                    Leaves::Now(record) => Some(*record),
                    Leaves::From(end) => {
                        self.hold_ends = Some(self.hold_ends.map_or(end, |known| known.min(end)));
                        None
                    }
                    Leaves::Unknown => None,
                };
                if let Some(record) = record.filter(|record| record.size.0 <= allowed) {
                    let on_main = blobs_on_main(room, view, &record)?;
                    // What stands in a group gives no room to who finds none on the drives that are in none.
                    if on_main.is_empty() && self.demand.own == 0 && before.is_none() {
                        continue;
                    }
                    blobs.extend(on_main);
                    bytes = bytes.saturating_add(record.size.0);
                    files.push((file, record));
                }
                if bytes >= most {
                    break;
                }
            }
            Ok((files, blobs))
        })?;
        if files.is_empty() {
            return Ok(Evicted::default());
        }
        let ids: Vec<FileId> = files.iter().map(|(file, _)| *file).collect();
        let (mut evicted, mut left) = (Evicted::default(), Vec::new());
        for ((file, record), result) in files.iter().zip(room.evict_in_reach(&ids)?) {
            match result {
                Ok(()) => {
                    let size = record.size;
                    let freed = in_segments(record, &blobs);
                    evicted.add(Evicted { files: 1, bytes: size.0, freed });
                    left.push(Selected { file: *file, size, class: self.demand.class, online: true });
                }
                // It was pinned, deleted or evicted a moment ago, or its tapes cannot be read now.
                Err(refusal) => tracing::debug!(%file, ?refusal, "the file stays in the pool"),
            }
        }
        evicted.freed = evicted.freed.saturating_add(room.read(|view| striped_and_gone(view, &blobs))?);
        room.access.push(|| Notice::Evicted { at: room.now(), files: left });
        self.demand.allowance = self.demand.allowance.saturating_sub(evicted.bytes);
        self.demand.own = self.demand.own.saturating_sub(evicted.bytes);
        Ok(evicted)
    }
}

impl Demand {
    /// Of a class with so much in the pool: what would leave less of it than its floor stays.
    fn of(class: &Class, online: ByteCount, own: u64) -> Self {
        let leaving = class.settings.leaving;
        let allowance = online.0.saturating_sub(leaving.pool_min.0);
        Demand { class: class.id, own, allowance, size_min: leaving.size_min }
    }
}

impl Evicted {
    fn add(&mut self, more: Evicted) {
        self.files += more.files;
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.freed = self.freed.saturating_add(more.freed);
    }
}

/// Bytes that a round evicts at most for so many that are wanted.
fn most_for(wanted: u64) -> u64 {
    wanted.saturating_mul(2).saturating_add(SHARED_MAX)
}

/// The blobs of a file on the drives in no group.
fn blobs_on_main(
    room: &Tape,
    view: &View<'_>,
    file: &FileRecord,
) -> Result<Vec<(BlobId, BlobRecord)>, ReadError> {
    let has_groups = !room.settings.pool.groups.is_empty();
    let mut found = Vec::with_capacity(file.pieces.len());
    for piece in &file.pieces {
        let Some(record) = view.blob_record(piece.blob)? else { continue };
        let blob = if has_groups { view.blob(piece.blob)? } else { None };
        if blob.is_none_or(|blob| room.pool.stands_on_main(&blob)) {
            found.push((piece.blob, record));
        }
    }
    Ok(found)
}

/// Bytes of a file in segments: their pages are given back whatever else stands in them.
fn in_segments(file: &FileRecord, blobs: &BTreeMap<BlobId, BlobRecord>) -> u64 {
    let is_segment = |id| blobs.get(id).is_some_and(|blob| matches!(blob.layout, Layout::Segment { .. }));
    let pieces = file.pieces.iter().filter(|piece| is_segment(&piece.blob));
    pieces.map(|piece| piece.length.0).sum()
}

/// Bytes of those of these striped blobs that no file needs any more.
fn striped_and_gone(view: &View<'_>, blobs: &BTreeMap<BlobId, BlobRecord>) -> Result<u64, ReadError> {
    let mut gone = 0u64;
    for (id, blob) in blobs {
        let is_striped = matches!(blob.layout, Layout::Striped { .. });
        if is_striped && view.blob_record(*id)?.is_none() {
            gone = gone.saturating_add(blob.length.0);
        }
    }
    Ok(gone)
}

/// Bytes that wait to be removed from the drives, as far as they are counted.
fn garbage_bytes(room: &Tape) -> Result<u64, ArchiveError> {
    let garbage = room.read(|view| view.garbage(GARBAGE_MAX))?;
    if garbage.len() == GARBAGE_MAX {
        return Ok(u64::MAX);
    }
    let bytes = garbage.iter().map(|garbage| match garbage {
        Garbage::Blob(BlobDescription { layout: Layout::Striped { .. }, length, .. }) => length.0,
        // How much of it was in use is not known any more.
        Garbage::Blob(_) => u64::MAX,
        Garbage::Value(_, piece) => piece.length.0,
    });
    Ok(bytes.fold(0, u64::saturating_add))
}

/// Whether files of a class leave the pool for want of room or by their age: those of cold classes go as soon
/// as tapes have them, and others are on no tape.
fn leaves_at_all(class: &Class) -> bool {
    !class.settings.cold && !class.copies.is_empty()
}

/// What is to leave.
struct Asked {
    /// Bytes, whoever's they are.
    wanted: u64,
    /// What each class is to give up, and may.
    demands: Vec<Demand>,
    /// The most that could leave, if that had to be known.
    evictable: Option<ByteCount>,
    /// The largest blob that fits, if something waits for which there is room but for that.
    largest: Option<ByteCount>,
    /// Whether a recall or a put waits for room.
    waits: bool,
    /// The least that has to come free for one of them.
    lacks: ByteCount,
}

/// What has left and is not removed yet (`unswept`) counts as free, though readers may hold it for hours;
/// `refused`: what a put needs that was refused.
fn asked(room: &Tape, water: Water, unswept: u64, refused: Option<ByteCount>) -> Result<Asked, ArchiveError> {
    let classes = room.classes.all();
    // Drives are asked for it, which no transaction waits for. What has left is room for puts as well.
    let (for_puts, for_recalls) = (room.blob_room_for_files(), room.blob_room_for_recalls());
    let coming = |room: BlobRoom| ByteCount(room.all.0.saturating_add(unswept));
    let refused = refused.map(|size| (coming(for_puts), for_puts.needed_for(size)));
    let free = coming(for_recalls);
    let waits = refused.is_some();
    let in_groups = room.bytes_in_groups();
    let (claimed, short): (ByteCount, BTreeMap<ClassId, ByteCount>) = {
        let space = room.own.space.lock();
        (space.claimed(), space.short().collect())
    };
    room.read(|view| {
        let mut online = 0u64;
        let mut demands = Vec::new();
        for class in classes {
            let Tally { bytes, .. } = view.tally(Counter::Online(class.id))?;
            online = online.saturating_add(bytes.0);
            if !leaves_at_all(class) {
                continue;
            }
            let own = class.settings.pool_max.map_or(0, |most| {
                // Nothing leaves for what never fits.
                let waiting = short.get(&class.id).copied().filter(|waiting| *waiting <= most);
                Limits::new(most, water).to_leave(bytes, waiting.unwrap_or_default()).0
            });
            demands.push(Demand::of(class, bytes, own));
        }
        // What files have and what is free on the drives in no group: other things on the same disks are no
        // business of the marks.
        let online = online.saturating_sub(in_groups.0);
        let most = ByteCount(online.saturating_add(free.0));
        // Nothing leaves for what would not fit then either.
        let evictable = if short.is_empty() { None } else { Some(most_evictable(room, view)?) };
        let could_be_free = free.0.saturating_add(evictable.unwrap_or_default().0);
        let beside = |bytes: &ByteCount| claimed.0.saturating_add(bytes.0);
        let recalls = short.values().map(|bytes| beside(bytes).max(for_recalls.needed_for(*bytes).0));
        let waiting = ByteCount(recalls.filter(|waiting| *waiting <= could_be_free).max().unwrap_or(0));
        let waits = waits || !short.is_empty();
        let lies_badly = |bytes: &&ByteCount| beside(bytes) <= free.0 && !for_recalls.takes(**bytes);
        let largest = short.values().find(lies_badly).map(|_| for_recalls.largest);
        let (limits, online) = (Limits::new(most, water), ByteCount(online));
        let for_put = refused.map(|(for_puts, size)| limits.to_leave_for_put(online, for_puts, size));
        let wanted = limits.to_leave(online, waiting).max(for_put.unwrap_or_default()).0;
        let mut info = room.evictor.info();
        (info.online, info.room) = (online, most);
        let of_put = refused.map(|(room, size)| size.0.saturating_sub(room.0));
        let of_recalls = short
            .values()
            .map(|bytes| beside(bytes).max(for_recalls.needed_for(*bytes).0).saturating_sub(free.0));
        let lacks = ByteCount(of_recalls.chain(of_put).min().unwrap_or(0));
        Ok(Asked { wanted, demands, evictable, largest, waits, lacks })
    })
}

/// The most that could leave the pool now.
fn most_evictable(room: &Tape, view: &View<'_>) -> Result<ByteCount, ReadError> {
    Ok(crate::evictable::holders(room, view)?.evictable.bytes)
}

/// When a file may leave the pool by itself.
enum Leaves {
    Now(Box<FileRecord>),
    /// Only its retention keeps it, up to then.
    From(Timestamp),
    /// Somebody tells when that changes.
    Unknown,
}

/// Whether a file may leave the pool by itself, as far as that can be told without a change: it is on all its
/// tapes, and nobody pins it or has it held.
fn may_leave(view: &View<'_>, id: FileId, size_min: ByteCount, now: Timestamp) -> Result<Leaves, ReadError> {
    let file = view.file(id)?.filter(|file| file.is_online() && file.has_data() && file.size >= size_min);
    let Some(file) = file else { return Ok(Leaves::Unknown) };
    let hold = view.hold(id)?.in_force(now);
    let is_pinned = view.pins(id)?.iter().any(|(_, until)| *until > now);
    if is_pinned || hold.legal || view.safe_on_tape(id)? != Some(file.size) {
        return Ok(Leaves::Unknown);
    }
    Ok(hold.retention.map_or_else(|| Leaves::Now(Box::new(file)), |retention| Leaves::From(retention.until)))
}

/// Has the files that were read since the last time stand where they belong in the order of use.
fn note_uses(room: &Tape) {
    let files: Vec<FileId> = room.uses.take().into_iter().collect();
    for files in files.chunks(BULK_FILES) {
        tell_used_again(room, files);
        // Without it the order is less exact, and nothing else.
        if let Err(error) = room.execute(Command::NoteUse { files: files.to_vec() }) {
            tracing::warn!(%error, "which files were read last is not noted");
            return;
        }
    }
}

/// Tells of files that were used in an hour before this one too, and not longer ago than their class lets
/// them stand on the drives of its group.
fn tell_used_again(room: &Tape, files: &[FileId]) {
    if room.settings.pool.groups.is_empty() {
        return;
    }
    let now = UseHour::of(room.now());
    let is_again = |view: &View<'_>, id: FileId| {
        let Some(file) = view.file(id)? else { return Ok(false) };
        let class = room.classes.get(file.class);
        let Some(within) = class.and_then(|class| class.settings.placing.unused_for) else {
            return Ok(false);
        };
        let before = view.last_use(id, &file)?;
        Ok(before < now && room.now().since(before.begin()) <= within)
    };
    for &id in files {
        match room.read(|view| is_again(view, id)) {
            Ok(true) => room.uses.note_again(id),
            Ok(false) => {}
            Err(error) => return tracing::warn!(%error, "what is used again is not looked for"),
        }
    }
}

/// Whether so many drives work that a new file has its places: what is free of the others says nothing.
fn takes_files(room: &Tape) -> bool {
    let working = room.pool.spaces_of(DriveGroup::MAIN).iter().filter(|drive| drive.health.is_up()).count();
    working >= room.pool.config().code.width()
}

/// Whether room comes by itself, or may: until it was looked in vain, files may leave; and what is written
/// now, or is to be (`comes_to_tapes`), leaves under its index.
fn may_come(room: &Tape, comes_to_tapes: bool) -> bool {
    let is_to_write = |state: &DriveState| match state {
        DriveState::Mounting { purpose, .. } => matches!(purpose, Purpose::Migration(_)),
        state => matches!(state, DriveState::Migrating { .. }),
    };
    let is_written = || room.scheduler().drives().any(|(_, state)| is_to_write(state));
    let may_leave = room.settings.pool.water.is_some() && takes_files(room);
    may_leave && (!room.evictor.info().held_up || comes_to_tapes || is_written())
}

/// Goes on ordering files that are older than the order. Whether all stand in it.
fn order_older_files(room: &Tape) -> Result<bool, ArchiveError> {
    while !room.read(|view| view.is_ordered_by_use())? {
        if room.stopping() {
            return Ok(false);
        }
        room.execute(Work::OrderByUse.some())?;
    }
    Ok(true)
}

/// Counts what left by itself, and tells the log.
fn told(room: &Tape, evicted: Evicted, why: &str) {
    if evicted.files == 0 {
        return;
    }
    let Evicted { files, bytes, .. } = evicted;
    tracing::info!(files, bytes = %ByteCount(bytes), why, "files left the pool by themselves");
    let mut info = room.evictor.info();
    info.files = info.files.saturating_add(files);
    info.bytes.0 = info.bytes.0.saturating_add(bytes);
    info.last = Some(room.now());
}

impl Tape {
    /// Has it looked now whether files are to leave the pool.
    pub fn make_room_now(&self) {
        self.leaving.ring();
    }

    /// What leaves the pool by itself, and how full it is.
    pub fn evictor_info(&self) -> EvictorInfo {
        let mut info = self.evictor.info().clone();
        info.water = self.settings.pool.water;
        // Until it has looked nobody knows whether what it was told of may leave.
        let told = self.leaving.pending();
        let is_asked = info.held_up || info.makes_room || told.recall_waits;
        let is_new = told.may_leave || (told.recall_waits && !info.held_up);
        if info.water.is_some() && is_asked && is_new {
            (info.held_up, info.makes_room) = (false, true);
        }
        info
    }

    /// Whether any file may leave the pool by itself for want of room or by its age.
    pub(crate) fn needs_evictor(&self) -> bool {
        let by_age = |class: &Class| {
            let has_group = !class.settings.placing.group.is_empty();
            has_group || class.settings.leaving.unused_for.is_some()
        };
        let pool = &self.settings.pool;
        pool.water.is_some() || self.classes.all().iter().any(by_age)
    }
}
