//! The thread that writes accesses down.

use base::{BlockAddress, ByteCount, ClassId, ContainerId, FileId, RequestId, Timestamp, Vid};
use catalogue::{ReadError, View};
use journal::{ACCESS_ORDER_SLACK, AccessLog, Queued as _, encode};
use usage::{
    Access, Begins, CopyPlace, DayNumber, FileSize, Migrated, Put, Recalled, STAGE_COPIES_MAX, Stage, What,
};

use super::report::summarise;
use super::state::state_lines;
use crate::ArchiveError;
use ground::Selected;
use ground::Worker;
use ground::access::{Notice, Wanted};
use namespace::Containers;
use tape::Tape;

/// Lines are handed to the log when they have this many bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Files that are looked up in the catalogue together. Never is the log written to meanwhile: one that hangs
/// would hold on to the catalogue's snapshot, and pages that come free could not be used again.
const LOOK_UP_MAX: usize = 1_000;

/// The thread: until the engine has stopped and all that waited is written.
pub(crate) fn run(engine: &Tape, me: &Worker) {
    let Some(log) = engine.access.log() else { return };
    let mut writer = Writer {
        engine,
        log: log.as_ref(),
        buffer: String::new(),
        lines: 0,
        encoded: 0,
        lost: 0,
        told: false,
        day: newest_day(engine),
        is_due: false,
    };
    let is_due = log.reaches_back(writer.day.begin());
    writer.state(Begins::Server);
    writer.hand_on();
    writer.is_due = is_due && !summarise(engine);
    let mut empty = Vec::new();
    loop {
        me.rests();
        let taken = engine.access.take(std::mem::take(&mut empty));
        me.does("writing");
        writer.lost += taken.dropped;
        if taken.dropped > 0 {
            tracing::warn!(lines = taken.dropped, "the access log is too slow: lines are left out");
        }
        empty = taken.items;
        empty.drain(..).for_each(|notice| writer.write(notice));
        writer.hand_on();
        if taken.stopped {
            break;
        }
        // With the first lines behind the slack those of the day before are all written.
        let day = newest_day(engine);
        writer.is_due |= std::mem::replace(&mut writer.day, day) != day;
        // Tried again with the next lines while somebody else reads the log.
        writer.is_due = writer.is_due && !summarise(engine);
    }
    engine.access.end();
}

struct Writer<'a> {
    engine: &'a Tape,
    log: &'a dyn AccessLog,
    buffer: String,
    /// Lines in the buffer.
    lines: u64,
    /// Lines that were ever put into it.
    encoded: u64,
    /// Lines left out that are not written down yet.
    lost: u64,
    /// Whether it was told that writing fails.
    told: bool,
    /// The newest day, of which late lines may still come.
    day: DayNumber,
    /// The log is to be read for the summaries: a day is over, or a file is full, which will make room.
    is_due: bool,
}

/// The day that is not over, or was so late that lines of it may still come.
fn newest_day(engine: &Tape) -> DayNumber {
    let slack = i64::try_from(ACCESS_ORDER_SLACK.as_nanos()).unwrap_or(i64::MAX);
    DayNumber::of(Timestamp(engine.now().0.saturating_sub(slack)))
}

impl Writer<'_> {
    fn line(&mut self, access: &Access) {
        encode(access, &mut self.buffer);
        self.lines += 1;
        self.encoded += 1;
        if self.buffer.len() >= CHUNK_BYTES {
            self.hand_on();
        }
    }

    fn state(&mut self, begins: Begins) {
        state_lines(self.engine, begins, &mut |access| encode(&access, &mut self.buffer));
    }

    /// Gives the buffer to the log. What it does not take is left out.
    fn hand_on(&mut self) {
        if self.buffer.is_empty() && self.lost == 0 {
            return;
        }
        let mut text = String::new();
        let begins_file = self.log.begins_file();
        if begins_file && !self.buffer.contains(" 1 start at=") {
            state_lines(self.engine, Begins::File, &mut |access| encode(&access, &mut text));
        }
        if self.lost > 0 {
            let what = What::Dropped { count: self.lost };
            encode(&Access { at: self.engine.now(), class: None, who: None, what }, &mut text);
        }
        text.push_str(&self.buffer);
        match self.log.append(&text) {
            Ok(()) => {
                (self.lost, self.told) = (0, false);
                self.is_due |= begins_file;
            }
            Err(error) => {
                self.lost += self.lines;
                if !std::mem::replace(&mut self.told, true) {
                    tracing::error!(%error, "accesses are not written down");
                }
            }
        }
        self.buffer.clear();
        self.lines = 0;
    }

    fn write(&mut self, notice: Notice) {
        let (lines, before) = (notice.lines() as u64, self.encoded);
        let written = match notice {
            Notice::Put { at, class, who, file, bytes, set, took } => {
                let what = What::Put(Put { file, bytes, set, took });
                self.line(&Access { at, class: self.name(class), who, what });
                Ok(())
            }
            Notice::Get { at, class, who, get } => {
                self.line(&Access { at, class: Some(class), who, what: What::Get(get) });
                Ok(())
            }
            Notice::Evicted { at, files } => {
                for Selected { file, size, class, .. } in files {
                    let what = What::Evicted(FileSize { file, bytes: Some(size) });
                    self.line(&Access { at, class: self.name(class), who: None, what });
                }
                Ok(())
            }
            Notice::Recalled { at, vid, files } => {
                for Wanted { file, class, bytes, since } in files {
                    let wait = since.map(|since| at.since(since));
                    let what = What::Recalled(Recalled { file, bytes, vid, wait });
                    self.line(&Access { at, class: self.name(class), who: None, what });
                }
                Ok(())
            }
            Notice::Deleted { at, file, known } => self.deleted(at, file, known),
            Notice::Staged { at, who, request, priority, files } => {
                self.staged(at, &who, (request, priority), files)
            }
            Notice::Migrated { at, vid, containers } => self.migrated(at, vid, containers),
        };
        if let Err(error) = written {
            self.lost += lines.saturating_sub(self.encoded - before);
            tracing::error!(%error, "the access log lacks lines: the catalogue cannot be read");
        }
    }

    fn name(&self, class: ClassId) -> Option<String> {
        Some(self.engine.classes.name(class))
    }

    fn staged(
        &mut self,
        at: Timestamp,
        who: &str,
        (request, priority): (RequestId, u8),
        files: Vec<Selected>,
    ) -> Result<(), ArchiveError> {
        let engine = self.engine;
        let mut containers = Containers::default();
        for files in files.chunks(LOOK_UP_MAX) {
            let accesses = engine.read(|view| {
                let mut accesses = Vec::with_capacity(files.len());
                for &Selected { file, size, class, online } in files {
                    let copies =
                        if online { Vec::new() } else { places(engine, view, &mut containers, file)? };
                    let what = What::Stage(Stage { file, bytes: size, request, priority, online, copies });
                    accesses.push(Access { at, class: self.name(class), who: Some(who.to_owned()), what });
                }
                Ok(accesses)
            })?;
            accesses.iter().for_each(|access| self.line(access));
        }
        Ok(())
    }

    fn migrated(
        &mut self,
        at: Timestamp,
        vid: Vid,
        containers: Vec<(ContainerId, BlockAddress)>,
    ) -> Result<(), ArchiveError> {
        let engine = self.engine;
        for containers in containers.chunks(LOOK_UP_MAX) {
            let accesses = engine.read(|view| {
                let mut accesses = Vec::with_capacity(containers.len());
                for &(container, block) in containers {
                    let Some(record) = view.container(container)? else { continue };
                    let copy = record.copies.iter().find(|copy| copy.places().any(|at| at == (vid, block)));
                    let Some(copy) = copy else { continue };
                    let what = What::Migrated(Migrated {
                        container,
                        pool: engine.classes.tape_pool_name(copy.tape_pool),
                        vid,
                        block,
                        length: record.length,
                        members: record.live_members,
                        repack: copy.source.is_some(),
                    });
                    accesses.push(Access { at, class: self.name(record.class), who: None, what });
                }
                Ok(accesses)
            })?;
            accesses.iter().for_each(|access| self.line(access));
        }
        Ok(())
    }

    fn deleted(
        &mut self,
        at: Timestamp,
        file: FileId,
        known: Option<(ClassId, ByteCount)>,
    ) -> Result<(), ArchiveError> {
        let known = match known {
            Some(known) => Some(known),
            None => self.engine.read(|view| view.file(file))?.map(|record| (record.class, record.size)),
        };
        let class = known.map(|(class, _)| self.engine.classes.name(class));
        let what = What::Deleted(FileSize { file, bytes: known.map(|(_, bytes)| bytes) });
        self.line(&Access { at, class, who: None, what });
        Ok(())
    }
}

/// Every place on tape where (a part of) the file can be read.
fn places(
    engine: &Tape,
    view: &View<'_>,
    containers: &mut Containers,
    file: FileId,
) -> Result<Vec<CopyPlace>, ReadError> {
    let mut places = Vec::new();
    for (container, member) in view.parts(file)? {
        let Some(record) = containers.get(view, container)? else { continue };
        for copy in &record.copies {
            for (vid, block) in copy.places() {
                places.push(CopyPlace {
                    pool: engine.classes.tape_pool_name(copy.tape_pool),
                    vid,
                    container,
                    block,
                    container_length: record.length,
                    offset: member.data_offset,
                    length: member.length,
                });
            }
        }
    }
    places.truncate(STAGE_COPIES_MAX);
    Ok(places)
}
