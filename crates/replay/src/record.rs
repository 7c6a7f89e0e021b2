//! Lines of the access log become a record.

use std::collections::BTreeMap;

use base::{FileId, RequestId, Timestamp, Vid};
use serde::Serialize;
use usage::{Access, Begins, CopyPlace, DriveState, Put, Stage, TapeState, What};

use super::roll::Before;
use twin::world::Leaves;

/// Files that a record holds at most; what further ones do is counted and left out.
pub const RECORD_FILES_MAX: usize = 20_000_000;

/// What of a record was missing, or could not be taken in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Left {
    /// Lines that the server could not write down.
    pub dropped: u64,
    /// Lines that are damaged.
    pub damaged: u64,
    /// Lines that a newer Kist has written.
    pub newer: u64,
    /// Wanted files of which no tape, or no class, is known: their requests lack them.
    pub unknown: u64,
    /// Files in several parts: replayed as if they stood in one, where their first part is.
    pub in_parts: u64,
    /// Wanted files that had not come when the record ended.
    pub unfinished: u64,
    /// Files that were removed: what of them was not sealed is not written, and nobody waits for them.
    pub deleted: u64,
    /// Copies that were moved to other tapes: not replayed.
    pub repacked: u64,
    /// Files that came along with their packs: replayed only as far as they were wanted.
    pub along: u64,
    /// Starts of the server within the record: replayed as if it had gone on.
    pub restarts: u64,
    /// Mounts that failed, or were for other things than reading and writing: not replayed.
    pub other_mounts: u64,
    /// Wanted files that the pool had: they cost no tape, and are not replayed.
    pub online: u64,
    /// Wanted files that had to come from tape and that had not left the twin's pool.
    pub hits: u64,
    /// Requests of such files: they are not compared.
    pub requests: u64,
    /// Times at which nothing but `migrate --now` explains what was written: replayed as that.
    pub forced: u64,
    /// Lines left out since the record is too long.
    pub beyond: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct KnownFile {
    pub(super) class: Option<String>,
    pub(super) bytes: u64,
    /// Its data set, of one that was put.
    pub(super) set: u64,
    pub(super) put: Option<Timestamp>,
    pub(super) copies: Vec<CopyPlace>,
}

/// A container that was written to tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) at: Timestamp,
    pub(super) class: Option<String>,
    pub(super) pool: String,
    pub(super) length: u64,
    pub(super) members: u32,
}

/// A wanted file that was on tape only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) at: Timestamp,
    pub(super) file: FileId,
    pub(super) request: RequestId,
    pub(super) priority: u8,
    pub(super) came: Option<Timestamp>,
}

/// What a server did between two times.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Record {
    pub(super) tapes: BTreeMap<Vid, TapeState>,
    pub(super) drives: Vec<DriveState>,
    pub(super) pool: u64,
    pub(super) files: BTreeMap<FileId, KnownFile>,
    /// In order of time.
    pub(super) puts: Vec<(Timestamp, FileId)>,
    pub(super) wanted: Vec<Wanted>,
    /// Files that left the pool, or were removed.
    pub(super) evicted: Vec<(Timestamp, FileId, Leaves)>,
    /// Files that came, and their bytes.
    pub(super) recalled: Vec<(Timestamp, u64)>,
    /// Copies that were flushed, in order of time.
    pub(super) packs: Vec<Written>,
    pub(super) left: Left,
    /// What was earlier and not over by then is replayed and not compared.
    pub(super) since: Timestamp,
}

/// Takes lines in, in the order of the log.
#[derive(Debug)]
pub struct Recorder {
    since: Timestamp,
    until: Timestamp,
    /// The time of the state that was taken.
    state: Option<Timestamp>,
    begun: bool,
    pub(super) record: Record,
    /// What lines between those of state and `since` tell; `None` once `since` is reached.
    before: Option<Before>,
    /// Wanted files that have not come: indices of `record.wanted`.
    open: BTreeMap<FileId, Vec<u32>>,
}

impl Recorder {
    /// A record from `since` on and before `until`; state from before is taken in, and rolled forward by the
    /// lines that follow it.
    #[must_use]
    pub fn new(since: Timestamp, until: Timestamp) -> Self {
        let record = Record { since, ..Record::default() };
        let before = Some(Before::default());
        Recorder { since, until, state: None, begun: false, record, before, open: BTreeMap::new() }
    }

    /// Lines that could not be read.
    pub fn lost(&mut self, damaged: u64, newer: u64) {
        self.record.left.damaged += damaged;
        self.record.left.newer += newer;
    }

    /// Takes a line in.
    pub fn push(&mut self, access: Access) {
        if access.is_state() {
            return self.state(access);
        }
        if access.at >= self.until {
            return;
        }
        if access.at < self.since {
            if let Some(before) = &mut self.before {
                before.push(access, &mut self.record.tapes);
            }
            return;
        }
        self.arrive();
        let Access { at, class, what, .. } = access;
        let record = &mut self.record;
        if record.files.len() >= RECORD_FILES_MAX {
            record.left.beyond += 1;
            return;
        }
        match what {
            What::Put(put) => self.put(at, class, &put),
            What::Stage(stage) => self.stage(at, class, stage),
            What::Recalled(recalled) => {
                record.recalled.push((at, recalled.bytes.0));
                record.left.along += u64::from(recalled.wait.is_none());
                for index in self.open.remove(&recalled.file).unwrap_or_default() {
                    if let Some(wanted) = record.wanted.get_mut(index as usize) {
                        wanted.came = Some(at);
                    }
                }
            }
            What::Evicted(file) => record.evicted.push((at, file.file, Leaves::Evicted)),
            What::Deleted(file) => {
                record.left.deleted += 1;
                record.evicted.push((at, file.file, Leaves::Removed));
            }
            What::Migrated(migrated) if migrated.repack => record.left.repacked += 1,
            What::Migrated(migrated) => record.packs.push(Written {
                at,
                class,
                pool: migrated.pool,
                length: migrated.length.0,
                members: migrated.members,
            }),
            What::Dropped { count } => record.left.dropped += count,
            _ => {}
        }
    }

    /// What was not over at `since` goes on from there.
    fn arrive(&mut self) {
        let Some(before) = self.before.take() else { return };
        let (puts, stages) = before.finish();
        for (at, class, put) in puts {
            self.put(at, class, &put);
        }
        for (at, class, stage) in stages {
            self.stage(at, class, stage);
        }
    }

    fn put(&mut self, at: Timestamp, class: Option<String>, put: &Put) {
        let known = self.record.files.entry(put.file).or_default();
        (known.class, known.bytes, known.put) = (class, put.bytes.0, Some(at));
        known.set = put.set;
        self.record.puts.push((at, put.file));
        self.begun = true;
    }

    fn stage(&mut self, at: Timestamp, class: Option<String>, stage: Stage) {
        self.begun = true;
        let record = &mut self.record;
        if stage.online {
            record.left.online += 1;
            return;
        }
        let Stage { file, bytes, request, priority, copies, .. } = stage;
        let known = record.files.entry(file).or_default();
        known.bytes = bytes.0;
        let was_there = |copy: &CopyPlace| {
            record.tapes.get(&copy.vid).is_some_and(|tape| copy.block.0 < tape.end_of_data.0)
        };
        if known.put.is_some_and(|put| put < self.since) && copies.iter().any(was_there) {
            // It was taken for a file that had yet to be written when the record began.
            known.put = None;
        }
        known.class = class.or_else(|| known.class.take());
        if known.put.is_none() && known.copies.is_empty() {
            known.copies = copies;
        }
        self.open.entry(file).or_default().push(record.wanted.len() as u32);
        record.wanted.push(Wanted { at, file, request, priority, came: None });
    }

    fn state(&mut self, access: Access) {
        let at = access.at;
        if at >= self.since && at < self.until {
            self.arrive();
        }
        if let What::Start(start) = &access.what {
            if self.begun {
                let is_restart = start.begins == Begins::Server && at < self.until;
                self.record.left.restarts += u64::from(is_restart);
                return;
            }
            self.state = Some(at);
            self.record.tapes.clear();
            self.record.drives.clear();
            self.record.pool = start.pool.0;
            if let Some(before) = &mut self.before {
                before.block_size = start.block_size.0;
            }
            return;
        }
        if self.state != Some(at) {
            return;
        }
        match access.what {
            What::Tape(tape) => drop(self.record.tapes.insert(tape.vid, tape)),
            What::Drive(drive) => self.record.drives.push(drive),
            _ => {}
        }
    }

    /// The record.
    #[must_use]
    pub fn finish(mut self) -> Record {
        let since = self.since;
        let is_compared = |wanted: &Wanted| wanted.at >= since;
        // Of what was wanted earlier and never came nobody knows whether it still was.
        self.record.wanted.retain(|wanted| is_compared(wanted) || wanted.came.is_some());
        self.record.left.unfinished =
            self.record.wanted.iter().filter(|wanted| wanted.came.is_none()).count() as u64;
        let files = &self.record.files;
        self.record.puts.retain(|(_, file)| files.get(file).is_some_and(|known| known.put.is_some()));
        self.record.puts.sort();
        self.record.wanted.sort_by_key(|wanted| wanted.at);
        self.record.evicted.sort();
        self.record.packs.sort_by_key(|written| written.at);
        self.record
    }
}

impl Record {
    /// When the first put or request was that was not over at the record's `since`; `None`: there was none.
    #[must_use]
    pub fn begin(&self) -> Option<Timestamp> {
        let put = self.puts.first().map(|(at, _)| *at);
        let wanted = self.wanted.first().map(|wanted| wanted.at);
        put.into_iter().chain(wanted).min()
    }

    /// When the last thing happened.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        let last = |times: &[(Timestamp, u64)]| times.iter().map(|(at, _)| *at).max();
        let wanted = self.wanted.last().map(|wanted| wanted.at);
        let put = self.puts.last().map(|(at, _)| *at);
        let written = self.packs.last().map(|written| written.at);
        [last(&self.recalled), written, wanted, put].into_iter().flatten().max()
    }
}
