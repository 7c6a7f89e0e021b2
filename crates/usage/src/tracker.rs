//! Lines become days.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FileId, Timestamp};

use crate::access::{Access, Get, Recalled, What};
use crate::analysis::{ANALYSIS_CLASSES_MAX, OTHER_CLASSES};
use crate::day::{ClassDay, ClassStanding, Day, DayNumber, Standing};
use crate::files::{OpenMisses, SeenFiles};
use crate::reads::Reads;
use crate::series::Moved;
use crate::stored::{Stored as _, seal, stored, unseal};

/// What a file with a tracker begins with.
const TRACKER_MAGIC: &[u8; 8] = b"KISTUTRK";
/// The version of its content.
const TRACKER_VERSION: u32 = 1;

/// Adds lines up by days, and remembers of the files what later lines need: which recall waits for its read,
/// when a file was last read. Lines should come in the order of their times; a little disorder does no harm.
#[derive(Debug)]
pub struct Tracker {
    /// Lines before it were left out.
    since: Timestamp,
    first: Option<Timestamp>,
    /// The time of the newest line that was added.
    last: Option<Timestamp>,
    standing: Standing,
    misses: OpenMisses,
    reads: Reads,
    seen: SeenFiles,
    days: BTreeMap<i64, Day>,
}

stored!(Tracker { since, first, last, standing, misses, reads, seen, days });

impl Tracker {
    /// Without a line. It will be given those from `since` on, and lines of state before them.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Tracker {
            since,
            first: None,
            last: None,
            standing: Standing::default(),
            misses: OpenMisses::default(),
            reads: Reads::default(),
            seen: SeenFiles::default(),
            days: BTreeMap::new(),
        }
    }

    /// The time of its first line.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        self.first
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The days of which it has figures, the oldest first.
    pub fn days(&self) -> impl Iterator<Item = (DayNumber, &Day)> {
        self.days.iter().map(|(number, day)| (DayNumber(*number), day))
    }

    /// Whether it has figures of a day.
    #[must_use]
    pub fn has(&self, number: DayNumber) -> bool {
        self.days.contains_key(&number.0)
    }

    /// Takes the figures of a day out.
    pub fn take(&mut self, number: DayNumber) -> Option<Day> {
        self.days.remove(&number.0)
    }

    /// Puts the figures of a day back, so that further lines are added to them.
    pub fn restore(&mut self, number: DayNumber, day: Day) {
        assert!(!self.has(number), "a day has one set of figures");
        self.days.insert(number.0, day);
    }

    /// As a file: see `docs/format/access-log.md`. With it stands `position`, which its owner understands.
    #[must_use]
    pub fn encode(&self, position: &[u64]) -> Vec<u8> {
        seal(TRACKER_MAGIC, TRACKER_VERSION, |out| {
            position.to_vec().put(out);
            self.put(out);
        })
    }

    /// What [`Tracker::encode`] wrote; `None` of another version, or what is not whole.
    #[must_use]
    pub fn decode(file: &[u8]) -> Option<(Vec<u64>, Self)> {
        unseal(TRACKER_MAGIC, TRACKER_VERSION, file)
    }

    /// There was a line, which is left out.
    pub(crate) fn saw(&mut self, at: Timestamp) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }

    /// Adds a line; lines of state say how things stand from then on.
    pub fn add(&mut self, access: &Access) {
        self.saw(access.at);
        match &access.what {
            What::Start(start) => self.standing.pool = Some(start.pool),
            What::Class(state) => {
                let name = access.class.clone().unwrap_or_default();
                let classes = &mut self.standing.classes;
                if classes.len() < ANALYSIS_CLASSES_MAX || classes.contains_key(&name) {
                    let copies = u32::try_from(state.pools.len()).unwrap_or(u32::MAX);
                    classes.insert(name, ClassStanding { copies, pool_max: state.pool_max });
                }
            }
            _ => {}
        }
        self.last = Some(access.at);
        if access.is_state() {
            if let Some(day) = self.days.get_mut(&DayNumber::of(access.at).0) {
                day.standing.clone_from(&self.standing);
            }
            return;
        }
        let day = self.day(access.at);
        if let What::Dropped { count } = access.what {
            day.dropped = day.dropped.saturating_add(count);
            return;
        }
        day.lines += 1;
        let class = access.class.as_deref().unwrap_or(OTHER_CLASSES);
        day.class(class).counts.lines += 1;
        self.count(class, access);
    }

    /// The day of the newest line that was added, with which a line counts that cannot be read.
    #[must_use]
    pub fn last_day(&self) -> Option<DayNumber> {
        self.last.or(self.first).map(DayNumber::of)
    }

    /// A line could not be read: it counts with the day of the line before it.
    pub fn unreadable(&mut self, is_newer: bool) {
        let Some(at) = self.last.or(self.first) else { return };
        let day = self.day(at);
        *(if is_newer { &mut day.newer } else { &mut day.damaged }) += 1;
    }

    fn day(&mut self, at: Timestamp) -> &mut Day {
        let standing = &self.standing;
        let day = self.days.entry(DayNumber::of(at).0).or_insert_with(|| Day::new(at, standing.clone()));
        day.first = day.first.min(at);
        day
    }

    fn class(&mut self, class: &str, at: Timestamp) -> &mut ClassDay {
        self.day(at).class(class)
    }

    fn count(&mut self, class: &str, access: &Access) {
        let at = access.at;
        match &access.what {
            What::Put(put) => {
                self.seen.wrote(put.file, at);
                let day = self.class(class, at);
                day.counts.puts.add(put.bytes);
                day.counts.sizes_written.add(put.bytes.0, 1);
                day.moved(at, Moved { written: put.bytes, ..Moved::default() });
            }
            What::Get(get) => self.count_get(class, at, get),
            What::Stage(stage) => {
                let counts = &mut self.class(class, at).counts;
                counts.staged.add(stage.bytes);
                counts.staged_online += u64::from(stage.online);
                if !stage.online {
                    self.miss(class, at, stage.file, stage.bytes);
                }
            }
            What::Recalled(recalled) => self.count_recalled(class, at, recalled),
            What::Evicted(file) => {
                self.misses.close(file.file);
                self.reads.forget(file.file);
                self.class(class, at).counts.evicted.add(file.bytes.unwrap_or_default());
            }
            What::Deleted(file) => {
                self.misses.close(file.file);
                self.reads.forget(file.file);
                self.class(class, at).counts.deleted += 1;
            }
            What::Migrated(migrated) => {
                let day = self.class(class, at);
                if migrated.repack {
                    day.counts.repacked.add(migrated.length);
                } else {
                    day.counts.migrated.add(migrated.length);
                    day.moved(at, Moved { migrated: migrated.length, ..Moved::default() });
                }
            }
            _ => {}
        }
    }

    fn count_recalled(&mut self, class: &str, at: Timestamp, recalled: &Recalled) {
        // One that nobody asked for came along with its pack, and is no access. The others were
        // counted when they were asked for, if that was in the window.
        let asked = recalled.wait.map(|wait| Timestamp(at.0.saturating_sub(nanos(wait))));
        let begin = self.first.map_or(self.since, |first| first.max(self.since));
        if asked.is_some_and(|asked| asked < begin) {
            self.miss(class, at, recalled.file, recalled.bytes);
        }
        let day = self.class(class, at);
        day.counts.recalled.add(recalled.bytes);
        if let Some(wait) = recalled.wait {
            day.counts.waits.add(millis(wait), 1);
        }
        day.moved(at, Moved { recalled: recalled.bytes, ..Moved::default() });
    }

    fn count_get(&mut self, class: &str, at: Timestamp, get: &Get) {
        if !get.online {
            self.class(class, at).counts.refused += 1;
            return self.miss(class, at, get.file, get.bytes);
        }
        let from_tape = self.misses.close(get.file);
        let part = self.reads.get(at, get, from_tape);
        let since = self.seen.read(get.file, at, part.is_first);
        let weight = self.seen.weight();
        let day = self.day(at);
        day.sampled = day.sampled.max(weight);
        let day = day.class(class);
        day.reads(get.file);
        day.counts.gets.add(get.sent);
        // A miss was counted with the file's size when somebody wanted it.
        if part.is_hit {
            let hits = &mut day.counts.hits;
            hits.files = hits.files.saturating_add(u64::from(part.is_first));
            hits.bytes = ByteCount(hits.bytes.0.saturating_add(part.bytes.0));
        }
        if part.is_hit && part.is_first {
            day.counts.sizes_read.add(get.bytes.0, 1);
        }
        if let Some(since) = since {
            day.counts.rereads.add(millis(since), weight);
        }
        day.moved(at, Moved { read: get.sent, ..Moved::default() });
    }

    /// Somebody wants a file that is on tape; once until it is read.
    fn miss(&mut self, class: &str, at: Timestamp, file: FileId, bytes: ByteCount) {
        let before = self.misses.forgotten;
        if !self.misses.open(file) {
            return;
        }
        let forgotten = self.misses.forgotten - before;
        let day = self.day(at);
        day.forgotten = day.forgotten.saturating_add(forgotten);
        let day = day.class(class);
        day.counts.misses.add(bytes);
        day.counts.sizes_read.add(bytes.0, 1);
        day.moved(at, Moved { missed: bytes, ..Moved::default() });
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
