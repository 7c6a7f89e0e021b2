//! A change of code: what is stored in another code than the pool's is written anew in that, blob by blob, on
//! whatever drives placement chooses. To everybody who refers to it a blob stays the same.
//!
//! What lasts is the word in the catalogue; how far it has come is what the catalogue says of each blob. The
//! new extents are synced before the commit that names them, and the old ones are removed when nobody reads
//! them any more. It gives way to rebuilds and to drives that are emptied. Segments of small values get
//! further copies if the code bears more losses by now; they keep those that they have if it bears fewer.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, Duration, Layout, StripeCode, Timestamp};
use catalogue::{BlobRecord, Command, RecodingRecord};

use crate::Upkeep;
use crate::anew::{Failed, WrittenAnew};
use crate::copies::Copies;
use crate::pool_work::Progress;
use crate::scrub::Scrubber;
use ground::{ArchiveError, PoolWork, RecodingInfo};

/// Blobs looked up together.
const PAGE: usize = 256;
/// What could not be written anew is tried again after so long, each time after twice as long,
const REST_MIN: Duration = Duration::from_secs(5);
/// up to this.
const REST_MAX: Duration = Duration::from_secs(600);
/// Why it has ended.
const BY_OPERATOR: &str = "an operator has ended it: what was written anew stays so";

/// A change of code under way.
pub(crate) struct Recode {
    record: RecodingRecord,
    is_counted: bool,
    after: Option<BlobId>,
    /// Blobs in another code that come next.
    found: VecDeque<BlobId>,
    /// The one that is being written.
    current: Option<WrittenAnew>,
    /// Blobs that could not be written anew in this round, and why the first of them.
    left: (u64, String),
    failed: Failed,
    /// What the largest one needs that found no room in this round.
    lacks_room: Option<ByteCount>,
    /// The next round begins then, by the steady clock, after this rest.
    due: Duration,
    rest: Duration,
}

impl Recode {
    fn of(record: RecodingRecord) -> Self {
        Recode {
            record,
            is_counted: false,
            after: None,
            found: VecDeque::new(),
            current: None,
            left: (0, String::new()),
            failed: Failed::default(),
            lacks_room: None,
            due: Duration::ZERO,
            rest: REST_MIN,
        }
    }

    fn note_left(&mut self, why: &str) {
        if self.left.0 == 0 {
            why.clone_into(&mut self.left.1);
        }
        self.left.0 += 1;
    }

    fn rest_until(&mut self, now: Duration) {
        self.due = now.saturating_add(self.rest);
        self.rest = (self.rest * 2).min(REST_MAX);
    }
}

/// Whether a blob has another code than the group of drives has on which it stands, or fewer copies than new
/// segments get.
fn is_in_another(upkeep: &Upkeep, blob: &BlobDescription) -> bool {
    let wanted = || upkeep.pool.config().code_of(upkeep.pool.group_of_blob(blob));
    match blob.layout {
        Layout::Striped { code } => code != wanted(),
        segment @ Layout::Segment { .. } => upkeep.pool.lacks_copies(segment),
    }
}

impl Scrubber {
    /// Writes the next part of what is stored in another code; `false` if there is nothing to be done now.
    /// `first`: what comes before it.
    pub(crate) fn recode(&mut self, first: Option<&str>) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let Some(record) = upkeep.read(|view| view.recoding())? else {
            self.recode = None;
            upkeep.recoding.state(PoolWork::Ended(BY_OPERATOR.to_owned()));
            return Ok(false);
        };
        let known = self.recode.take_if(|recode| recode.record == record);
        let mut recode = known.unwrap_or_else(|| {
            upkeep.recoding.begin(record);
            Recode::of(record)
        });
        let waits = match first {
            Some(first) => Some(first.to_owned()),
            None => self.recode_waits_for(&recode)?,
        };
        if let Some(why) = waits {
            // Meanwhile drives may be replaced or taken out, which nobody looks through for what no record
            // names yet.
            recode.current = None;
            upkeep.recoding.state(PoolWork::Waiting(why));
            self.recode = Some(recode);
            return Ok(false);
        }
        if recode.due > upkeep.steady() {
            self.recode = Some(recode);
            return Ok(false);
        }
        self.me.does("writing anew in another code");
        self.phase("recoding");
        let done = self.recode_some(&mut recode);
        self.phase("idle");
        let is_at_work = match done {
            Ok(is_at_work) => is_at_work,
            Err(ArchiveError::Stopping) => false,
            Err(error) => {
                // It must not keep the scrubber from all else.
                tracing::warn!(%error, "the change of the pool's code waits");
                upkeep.recoding.state(PoolWork::Waiting(error.to_string()));
                recode.rest_until(upkeep.steady());
                false
            }
        };
        self.recode = Some(recode);
        Ok(is_at_work)
    }

    /// What it gives way to, besides what is done before it comes to its turn.
    fn recode_waits_for(&self, recode: &Recode) -> Result<Option<String>, ArchiveError> {
        let (wanted, code) = (recode.record.to, self.upkeep.pool.config().code);
        if wanted != code {
            return Ok(Some(format!(
                "kist.toml has the code {code} by now, and {wanted} was asked for: kist pool recode --end, \
                 then kist pool recode"
            )));
        }
        Ok(self.anew_waits_for()?.map(str::to_owned))
    }

    /// Does the next small thing; `false` if it rests or has ended.
    fn recode_some(&mut self, recode: &mut Recode) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        if !recode.is_counted {
            upkeep.recoding.state(PoolWork::Counting);
            count(&upkeep)?;
            recode.is_counted = true;
        }
        if let Some(current) = &recode.current {
            let id = current.blob().id;
            match self.write_anew(&mut recode.current) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    recode.failed.is_done(id);
                    recode.rest = REST_MIN;
                    upkeep.recoding.note(|info| {
                        info.blobs += 1;
                        info.bytes.0 += bytes.0;
                    });
                }
                Err(error) => {
                    recode.current = None;
                    if upkeep.stopping() {
                        return Err(ArchiveError::Stopping);
                    }
                    tracing::warn!(blob = %id, %error, "a blob stays in the code that it has for now");
                    recode.note_left(&error.to_string());
                    recode.failed.note(id, upkeep.steady());
                }
            }
            return Ok(true);
        }
        match recode.found.front().copied() {
            Some(id) => self.recode_begin(recode, id),
            None => self.recode_look(recode),
        }
    }

    /// Begins with a blob if there is room for it.
    fn recode_begin(&mut self, recode: &mut Recode, id: BlobId) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let still_reads_much = self.still_reads_much();
        let reading = upkeep.gate.enter();
        let blob = upkeep.read(|view| view.blob(id))?;
        let Some(blob) = blob.filter(|blob| is_in_another(&upkeep, blob)) else {
            recode.found.pop_front();
            return Ok(true);
        };
        if !recode.failed.is_tried(id, upkeep.steady()) {
            recode.found.pop_front();
            recode.note_left("it is tried again later");
            return Ok(true);
        }
        if still_reads_much {
            let why = "what was written anew is still read as it was before, and takes its room until then";
            upkeep.recoding.state(PoolWork::Waiting(why.to_owned()));
            recode.due = upkeep.steady().saturating_add(REST_MIN);
            return Ok(false);
        }
        recode.found.pop_front();
        if matches!(blob.layout, Layout::Segment { .. }) {
            drop(reading);
            return self.recode_segment(recode, id);
        }
        let group = upkeep.pool.group_of_blob(&blob);
        let has_room = upkeep.has_room_anew(group, blob.length);
        if !has_room {
            recode.lacks_room = recode.lacks_room.max(Some(blob.length));
            recode.note_left("no room");
            return Ok(true);
        }
        let anew = self.begin_anew(&blob, group);
        drop(reading);
        match anew {
            Ok(anew) => recode.current = Some(anew),
            Err(error) => {
                recode.note_left(&error.to_string());
                recode.failed.note(id, upkeep.steady());
            }
        }
        upkeep.recoding.note(|info| {
            info.state = PoolWork::Working;
            info.began = info.began.or(Some(upkeep.now()));
        });
        Ok(true)
    }

    /// Gives a segment the copies that it lacks.
    fn recode_segment(&mut self, recode: &mut Recode, id: BlobId) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        upkeep.recoding.note(|info| {
            info.state = PoolWork::Working;
            info.began = info.began.or(Some(upkeep.now()));
        });
        let live = upkeep.read(|view| view.blob_record(id))?.map_or(ByteCount(0), |record| record.live);
        let copied = match self.copy_segment(id) {
            Err(ArchiveError::Stopping) => return Err(ArchiveError::Stopping),
            // It is left, and the change of code has not ended.
            copied => copied.unwrap_or_else(|error| Copies::Failed(error.to_string())),
        };
        match copied {
            Copies::NotNeeded => {}
            Copies::Written => {
                recode.failed.is_done(id);
                recode.rest = REST_MIN;
                upkeep.recoding.note(|info| {
                    info.blobs += 1;
                    info.bytes.0 = info.bytes.0.saturating_add(live.0);
                });
            }
            Copies::Failed(why) => {
                tracing::warn!(segment = %id, why, "a segment of small files keeps its copies for now");
                recode.note_left(&why);
                recode.failed.note(id, upkeep.steady());
            }
        }
        Ok(true)
    }

    /// Looks at the next blobs; at the end of all, what the round has come to.
    fn recode_look(&mut self, recode: &mut Recode) -> Result<bool, ArchiveError> {
        let upkeep = &self.upkeep;
        let page = upkeep.read(|view| view.blobs(recode.after, PAGE))?;
        if let Some((last, _)) = page.last() {
            recode.after = Some(*last);
            recode.found.extend(in_another(upkeep, &page)?.into_iter().map(|(id, _)| id));
            return Ok(true);
        }
        recode.after = None;
        let (left, why) = std::mem::take(&mut recode.left);
        if left == 0 {
            let groups =
                if upkeep.settings.pool.groups.is_empty() { "" } else { ", in groups of drives theirs" };
            let copies = upkeep.pool.config().segment_copies;
            let why = format!(
                "what is striped has the code {}{groups}, small files have {copies} copies or more",
                recode.record.to
            );
            upkeep.end_recoding(recode.record, &why)?;
            return Ok(false);
        }
        let why = match recode.lacks_room.take() {
            Some(largest) => format!(
                "{left} blobs could not be written anew, and are tried again; of those without room the \
                 largest has {largest}: evict files, or add drives (kist pool drive add)"
            ),
            None => format!("{left} blobs could not be written anew, and are tried again: {why}"),
        };
        upkeep.recoding.state(PoolWork::Waiting(why));
        recode.is_counted = false;
        recode.rest_until(upkeep.steady());
        Ok(false)
    }
}

/// Those of a page that have another code, and their lengths.
fn in_another(
    upkeep: &Upkeep,
    page: &[(BlobId, BlobRecord)],
) -> Result<Vec<(BlobId, ByteCount)>, ArchiveError> {
    let config = upkeep.pool.config();
    let may_be = |record: &BlobRecord| match record.layout {
        // Which one it is to have depends on where it stands.
        Layout::Striped { code } => !config.groups.is_empty() || code != config.code,
        segment @ Layout::Segment { .. } => upkeep.pool.lacks_copies(segment),
    };
    let mut others = Vec::new();
    for (id, record) in page.iter().filter(|(_, record)| may_be(record)) {
        let blob = upkeep.read(|view| view.blob(*id))?;
        let other = blob.filter(|blob| is_in_another(upkeep, blob));
        // The length of a segment is not recorded: what it has of values counts.
        others.extend(other.map(|blob| (blob.id, blob.length.max(record.live))));
    }
    Ok(others)
}

/// Counts what is stored in another code, for who wants to know how long it takes.
fn count(upkeep: &Upkeep) -> Result<(), ArchiveError> {
    let (mut after, mut blobs, mut bytes) = (None, 0, 0u64);
    loop {
        if upkeep.stopping() {
            return Err(ArchiveError::Stopping);
        }
        let page = upkeep.read(|view| view.blobs(after, PAGE))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (_, length) in in_another(upkeep, &page)? {
            blobs += 1;
            bytes = bytes.saturating_add(length.0);
        }
    }
    upkeep.recoding.note(|info| {
        info.blobs_total = info.blobs + blobs;
        info.bytes_total = ByteCount(info.bytes.0.saturating_add(bytes));
    });
    Ok(())
}

impl Upkeep {
    /// Has what is stored in another code than the pool's written anew in that; which it is. Durable on
    /// return: it goes on after a restart. No effect if that is so.
    ///
    /// # Errors
    /// If the catalogue cannot be written.
    pub fn pool_recode(&self) -> Result<StripeCode, ArchiveError> {
        let _one = self.recoding.says();
        let to = self.pool.config().code;
        self.execute(Command::SetRecoding { to: Some(to) })?;
        self.ring();
        Ok(to)
    }

    /// Ends a change of code; what was written anew stays so. Whether one was under way.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    pub fn pool_recode_end(&self) -> Result<bool, ArchiveError> {
        let _one = self.recoding.says();
        let Some(record) = self.read(|view| view.recoding())? else { return Ok(false) };
        self.execute(Command::SetRecoding { to: None })?;
        self.recoding_has_ended(record, BY_OPERATOR);
        self.ring();
        Ok(true)
    }

    /// How far a change of code is, or the last one since the start came; `None`: there was none.
    #[must_use]
    pub fn recoding_info(&self) -> Option<RecodingInfo> {
        let said = self.read(|view| view.recoding()).unwrap_or_else(|error| {
            tracing::warn!(%error, "whether a change of code is under way is not known now");
            None
        });
        self.recoding.seen(said, self.now())
    }

    /// Ends the one that was asked for by this word, unless another word was given since.
    fn end_recoding(&self, record: RecodingRecord, why: &str) -> Result<(), ArchiveError> {
        let _one = self.recoding.says();
        if self.read(|view| view.recoding())? != Some(record) {
            return Ok(());
        }
        self.execute(Command::SetRecoding { to: None })?;
        tracing::info!("the change of the pool's code has ended: {why}");
        self.recoding_has_ended(record, why);
        Ok(())
    }

    fn recoding_has_ended(&self, record: RecodingRecord, why: &str) {
        // What was removed meanwhile needed no other code.
        self.recoding.end(record, why, |info| {
            (info.blobs_total, info.bytes_total) = (info.blobs, info.bytes);
        });
    }
}

impl Progress for RecodingInfo {
    type Word = RecodingRecord;

    fn of(word: RecodingRecord) -> Self {
        RecodingInfo::of(word.to, word.since)
    }

    fn is_of(&self, word: RecodingRecord) -> bool {
        (self.to, self.since) == (word.to, word.since)
    }

    fn state(&mut self) -> &mut PoolWork {
        &mut self.state
    }

    fn estimate(&mut self, now: Timestamp) {
        self.estimate(now);
    }
}
