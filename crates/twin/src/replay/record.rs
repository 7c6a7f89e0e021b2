//! Lines of the access log become a record.

use std::collections::BTreeMap;

use base::{FileId, RequestId, Timestamp, Vid};
use serde::Serialize;
use usage::{Access, Begins, CopyPlace, DriveState, Stage, TapeState, What};

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
    /// Files that were deleted: replayed as if they were not.
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
    /// Wanted files that had to come from tape and that the twin's pool had.
    pub hits: u64,
    /// Lines left out since the record is too long.
    pub beyond: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct KnownFile {
    pub(super) class: Option<String>,
    pub(super) bytes: u64,
    pub(super) put: Option<Timestamp>,
    pub(super) copies: Vec<CopyPlace>,
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
    pub(super) evicted: Vec<(Timestamp, FileId)>,
    /// Files that came, and their bytes.
    pub(super) recalled: Vec<(Timestamp, u64)>,
    /// Copies that were flushed, and their bytes.
    pub(super) migrated: Vec<(Timestamp, u64)>,
    pub(super) left: Left,
}

/// Takes lines in, in the order of the log.
#[derive(Debug)]
pub struct Recorder {
    since: Timestamp,
    until: Timestamp,
    /// The time of the state that was taken.
    state: Option<Timestamp>,
    begun: bool,
    record: Record,
    /// Wanted files that have not come: indices of `record.wanted`.
    open: BTreeMap<FileId, Vec<u32>>,
}

impl Recorder {
    /// A record from `since` on and before `until`; state from before is taken in.
    #[must_use]
    pub fn new(since: Timestamp, until: Timestamp) -> Self {
        let (record, open) = (Record::default(), BTreeMap::new());
        Recorder { since, until, state: None, begun: false, record, open }
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
        if access.at < self.since || access.at >= self.until {
            return;
        }
        let Access { at, class, what, .. } = access;
        let record = &mut self.record;
        if record.files.len() >= RECORD_FILES_MAX {
            record.left.beyond += 1;
            return;
        }
        match what {
            What::Put(put) => {
                let known = record.files.entry(put.file).or_default();
                (known.class, known.bytes, known.put) = (class, put.bytes.0, Some(at));
                record.puts.push((at, put.file));
                self.begun = true;
            }
            What::Stage(stage) => {
                self.begun = true;
                self.stage(at, class, stage);
            }
            What::Recalled(recalled) => {
                record.recalled.push((at, recalled.bytes.0));
                record.left.along += u64::from(recalled.wait.is_none());
                for index in self.open.remove(&recalled.file).unwrap_or_default() {
                    if let Some(wanted) = record.wanted.get_mut(index as usize) {
                        wanted.came = Some(at);
                    }
                }
            }
            What::Evicted(file) => record.evicted.push((at, file.file)),
            What::Deleted(_) => record.left.deleted += 1,
            What::Migrated(migrated) if migrated.repack => record.left.repacked += 1,
            What::Migrated(migrated) => record.migrated.push((at, migrated.length.0)),
            What::Dropped { count } => record.left.dropped += count,
            _ => {}
        }
    }

    fn stage(&mut self, at: Timestamp, class: Option<String>, stage: Stage) {
        let record = &mut self.record;
        if stage.online {
            record.left.online += 1;
            return;
        }
        let Stage { file, bytes, request, priority, copies, .. } = stage;
        let known = record.files.entry(file).or_default();
        known.bytes = bytes.0;
        known.class = class.or_else(|| known.class.take());
        if known.put.is_none() && known.copies.is_empty() {
            known.copies = copies;
        }
        self.open.entry(file).or_default().push(record.wanted.len() as u32);
        record.wanted.push(Wanted { at, file, request, priority, came: None });
    }

    fn state(&mut self, access: Access) {
        let at = access.at;
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
        self.record.left.unfinished = self.open.values().map(|open| open.len() as u64).sum();
        self.record.puts.sort();
        self.record.wanted.sort_by_key(|wanted| wanted.at);
        self.record.evicted.sort();
        self.record
    }
}

impl Record {
    /// When the first put or request was; `None`: there was none.
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
        [last(&self.recalled), last(&self.migrated), wanted, put].into_iter().flatten().max()
    }
}
