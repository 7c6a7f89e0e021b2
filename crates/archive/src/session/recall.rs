//! A reading session: the wanted files of the mounted tape in the order of their blocks, committed batch by
//! batch.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, ContainerId, FileId, Vid};
use catalogue::{BATCH_FILES_MAX, Command, ReadError, RecallDone, RecallKey, View};
use mover::{RecallBatch, RecallEnd, RecallLimits, WantedFile};
use scheduler::{Event, SessionEnd};

use super::{DriveThread, SessionError};
use crate::ArchiveError;
use crate::engine::{Engine, truncated};
use crate::space::SessionSpace;

/// Bytes gathered into one blob and committed together; a larger file is a batch of its own.
const RECALL_BATCH_BYTES: u64 = 256 << 20;
/// Wanted files looked at together.
const RECALL_PAGE: usize = 2_000;
/// Gaps up to this are read through: a locate costs about as long as 1.5 GB of streaming.
const GAP_BYTES: ByteCount = ByteCount(1_500_000_000);

impl DriveThread {
    /// Reads what is wanted from the mounted tape until nothing is left; requests that arrive meanwhile join.
    pub(super) fn recall(&mut self, vid: Vid) -> SessionEnd {
        let Some(mounted) = self.mounted.as_ref().filter(|mounted| mounted.vid == vid) else {
            return SessionEnd::Failed(format!("tape {vid} is not in drive {}", self.name));
        };
        let engine = Arc::clone(&self.engine);
        let block_size = mounted.volume.block_size();
        let limits = RecallLimits { buffer: engine.settings.tape.buffer, gap: GAP_BYTES };
        let mut wanted = WantedSet {
            engine: &engine,
            vid,
            page: Vec::new(),
            after: None,
            found: false,
            given: HashSet::new(),
        };
        let session = Arc::clone(&self.session);
        let space = SessionSpace::new(&engine);
        let stream = engine.tape_stream();
        let mut failure = None;
        let mut damaged = BTreeMap::new();
        let result = mover::recall(
            self.drive.as_mut(),
            vid,
            block_size,
            &engine.pool,
            limits,
            &self.session.bytes,
            &engine.stop,
            &mut || space.next_batch(&mut || wanted.next_batch()),
            &mut |batch| {
                session.files.fetch_add(batch.files.len() as u64, Ordering::Relaxed);
                let result = commit(&engine, vid, batch, &mut damaged);
                space.done();
                let go_on = result.is_ok();
                failure = result.err();
                go_on
            },
            &stream,
        );
        // Only now: the neighbours of what could not be read were served from here.
        for (container, (block, reason)) in damaged {
            if let Err(error) = engine.copy_damaged(container, vid, block, &reason) {
                tracing::error!(%vid, %container, %error, "a damaged copy cannot be recorded");
            }
        }
        match (result, failure) {
            (Ok(()), None) if engine.stop.load(Ordering::Relaxed) => SessionEnd::Stopped,
            // What is left waits for room; neither tape nor drive did anything wrong.
            (Ok(()), None) if space.has_refused() => SessionEnd::Stopped,
            (Ok(()), None) => SessionEnd::Drained,
            (Ok(()), Some(error)) => SessionEnd::Failed(error.to_string()),
            (Err(RecallEnd::Pool(error)), None) if engine.is_for_want_of_room(&error) => {
                tracing::warn!(%vid, %error, "the pool filled while it was recalled to; the rest waits for room");
                SessionEnd::Stopped
            }
            (Err(RecallEnd::Tape(error)), _) => self.fail(&SessionError::Volume(error)),
            (Err(error), _) => SessionEnd::Failed(error.to_string()),
        }
    }
}

/// Goes through the tape's set in block order, again and again until a whole pass finds nothing new.
struct WantedSet<'a> {
    engine: &'a Engine,
    vid: Vid,
    /// Claimed and not yet handed out, last first.
    page: Vec<WantedFile>,
    after: Option<RecallKey>,
    /// Whether the current pass found anything.
    found: bool,
    /// All that this session was given: what is on its way to the pool stands in the set until it is
    /// committed.
    given: HashSet<FileId>,
}

impl WantedSet<'_> {
    fn next_batch(&mut self) -> Vec<WantedFile> {
        let mut batch: Vec<WantedFile> = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_FILES_MAX && bytes < RECALL_BATCH_BYTES {
            match self.page.pop() {
                Some(wanted) if batch.is_empty() || bytes + wanted.length.0 <= RECALL_BATCH_BYTES => {
                    bytes += wanted.length.0;
                    batch.push(wanted);
                }
                Some(wanted) => {
                    self.page.push(wanted);
                    break;
                }
                None => match self.fetch() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::error!(vid = %self.vid, %error, "the wanted files cannot be read");
                        break;
                    }
                },
            }
        }
        batch
    }

    /// Claims the next page; `false` when a whole pass has found nothing.
    fn fetch(&mut self) -> Result<bool, ArchiveError> {
        loop {
            let rows = self.engine.read(|view| view.recall_set(self.vid, self.after, RECALL_PAGE))?;
            let Some((last, _)) = rows.last() else {
                self.after = None;
                if !std::mem::take(&mut self.found) {
                    return Ok(false);
                }
                continue;
            };
            self.after = Some(*last);
            let mut rows = rows;
            rows.retain(|(key, _)| !self.given.contains(&key.file));
            let files: Vec<FileId> = rows.iter().map(|(key, _)| key.file).collect();
            let claimed = self.engine.scheduler().claim(self.vid, &files);
            let mut page = Vec::new();
            self.engine.read(|view| {
                for ((key, item), _) in rows.iter().zip(&claimed).filter(|(_, claimed)| **claimed) {
                    let member =
                        view.parts(key.file)?.into_iter().find(|(container, _)| *container == item.container);
                    if let (Some((_, member)), Some(file)) = (member, view.file(key.file)?) {
                        page.push(WantedFile {
                            file: key.file,
                            block: key.block,
                            header_offset: member.header_offset,
                            data_offset: member.data_offset,
                            length: member.length,
                            checksums: file.checksums.stream,
                        });
                    }
                }
                Ok(())
            })?;
            if !page.is_empty() {
                self.found = true;
                self.given.extend(page.iter().map(|wanted| wanted.file));
                page.reverse();
                self.page = page;
                return Ok(true);
            }
        }
    }
}

/// Commits a batch whose bytes are synced in the pool, then tells the scheduler.
fn commit(
    engine: &Engine,
    vid: Vid,
    batch: RecallBatch,
    damaged: &mut BTreeMap<ContainerId, (BlockAddress, String)>,
) -> Result<(), ArchiveError> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for recalled in batch.files {
        match recalled.result {
            Ok(piece) => done.push((recalled.file, vec![piece])),
            Err(fault) => failed.push((recalled.file, fault)),
        }
    }
    let come: Vec<FileId> = done.iter().map(|(file, _)| *file).collect();
    if !done.is_empty() {
        let blob = batch.blob.clone();
        let recall = RecallDone { blobs: batch.blob.into_iter().collect(), files: done };
        if let Err(error) = engine.execute(Command::RecallDone(Box::new(recall))) {
            if error.is_certain_refusal()
                && let Some(blob) = blob
                && let Err(error) = engine.pool.remove(&blob)
            {
                tracing::warn!(%error, "an unused blob stays until the next start");
            }
            return Err(error);
        }
    } else if let Some(blob) = batch.blob {
        engine.pool.remove(&blob)?;
    }
    come.into_iter().for_each(|file| engine.bell.wants_changed(file));
    for (file, fault) in failed {
        tracing::error!(%vid, %file, %fault, "a copy cannot be recalled");
        if is_planted(Bug::LostRequest) {
            engine.bell.post(Event::NotWanted(file));
            continue;
        }
        let reason = truncated(&fault.to_string(), 512);
        for (container, block) in engine.read(|view| places_on(view, file, vid))? {
            damaged.insert(container, (block, reason.clone()));
        }
        engine.execute(Command::RecallCopyFailed { file, vid, reason })?;
        engine.bell.post(Event::CopyFailed(file, vid));
        engine.bell.wants_changed(file);
    }
    Ok(())
}

/// The containers with parts of a file that stand on a tape, and where.
fn places_on(view: &View<'_>, file: FileId, vid: Vid) -> Result<Vec<(ContainerId, BlockAddress)>, ReadError> {
    let mut places = Vec::new();
    for (container, _) in view.parts(file)? {
        if let Some(record) = view.container(container)? {
            let here = record.places().filter(|(on, _)| *on == vid);
            places.extend(here.map(|(_, block)| (container, block)));
        }
    }
    Ok(places)
}
