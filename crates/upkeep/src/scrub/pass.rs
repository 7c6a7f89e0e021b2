//! A pass: all of the pool is read and checked, its values with the files and containers that have them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::{BlobId, BlobPiece, ByteCount, ContainerId, Duration, FileId, Layout};
use pool::ScrubReport;

use super::{BLOBS_PAGE, FILES_PAGE, LOST_BLOBS_MAX, Pass, Place, RATE_MIN, Scrubber, pace};
use crate::findings::Found;
use crate::lost;
use crate::pool_rebuild;
use ground::{ArchiveError, ScrubInfo};

impl Scrubber {
    pub(super) fn begin(&mut self, hurried: bool) -> Result<(), ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        upkeep.catalogue.check_pages()?;
        let (blobs, bytes) = self.amount()?;
        let passes = upkeep.info().passes;
        upkeep.forget_findings();
        upkeep.note(|info| {
            *info = ScrubInfo {
                phase: "blobs".to_owned(),
                running: true,
                hurried,
                passes,
                began: Some(upkeep.now()),
                ended: info.ended,
                blobs_total: blobs,
                bytes_total: bytes,
                ..ScrubInfo::default()
            };
        });
        for bad in upkeep.pool.scrub_superblocks() {
            tracing::warn!(drive = %bad.drive, what = %bad, "a superblock was damaged");
            upkeep.note(|info| {
                info.found += 1;
                *if bad.failure.is_none() { &mut info.repaired } else { &mut info.failed } += 1;
            });
            upkeep.found([Found::other(bad.to_string())]);
        }
        let place = Place::Blobs { page: VecDeque::new(), after: None, within: None };
        self.pass = Some(Pass { place, lost: BTreeMap::new() });
        Ok(())
    }

    /// Blobs, and about the bytes of all shards and copies.
    pub(super) fn amount(&self) -> Result<(u64, ByteCount), ArchiveError> {
        let (mut blobs, mut bytes, mut after) = (0, 0u64, None);
        loop {
            let page = self.upkeep.read(|view| view.blobs(after, BLOBS_PAGE))?;
            let Some((last, _)) = page.last() else { return Ok((blobs, ByteCount(bytes))) };
            after = Some(*last);
            for (_, blob) in page {
                blobs += 1;
                bytes += match blob.layout {
                    Layout::Striped { code } => {
                        blob.length.0 / u64::from(code.data.max(1)) * code.width() as u64
                    }
                    Layout::Segment { copies } => blob.live.0 * u64::from(copies),
                };
            }
        }
    }

    /// Checks the next stripe or page of files.
    pub(super) fn advance(&mut self) -> Result<(), ArchiveError> {
        let Some(mut pass) = self.pass.take() else { return Ok(()) };
        let begin = self.upkeep.info().bytes;
        let result = match &mut pass.place {
            Place::Blobs { .. } => self.next_stripe(&mut pass),
            Place::Files { after } => {
                let after = *after;
                self.next_files(&mut pass, after)
            }
            Place::Containers { after } => {
                let after = *after;
                self.next_containers(&mut pass, after)
            }
        };
        let info = self.upkeep.info();
        let settings = self.upkeep.settings();
        let rate = (info.bytes_total.0 / settings.pass.as_secs().max(1)).max(RATE_MIN);
        let read = info.bytes.0.saturating_sub(begin.0);
        self.debt += Duration::from_millis(read.saturating_mul(1000) / rate);
        // An error costs the stripe or page that it came of: the place is behind it.
        match result {
            Ok(false) => self.end(),
            Ok(true) => self.pass = Some(pass),
            Err(error) => {
                self.pass = Some(pass);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self) {
        let now = self.upkeep.now();
        // What was lost may have been deleted since, and what was damaged repaired.
        self.still_with_gaps.clear();
        self.next_pass = now.plus(self.upkeep.settings().pass / 20);
        self.debt = Duration::ZERO;
        self.upkeep.note(|info| {
            info.running = false;
            info.hurried = false;
            info.passes += 1;
            info.ended = Some(now);
            "idle".clone_into(&mut info.phase);
        });
    }

    pub(super) fn next_stripe(&mut self, pass: &mut Pass) -> Result<bool, ArchiveError> {
        let Place::Blobs { page, after, within } = &mut pass.place else { return Ok(true) };
        let (blob, stripe) = match within.take() {
            Some(place) => place,
            None => {
                let Some(id) = page.pop_front() else {
                    let blobs = self.upkeep.read(|view| view.blobs(*after, BLOBS_PAGE))?;
                    let Some((last, _)) = blobs.last() else {
                        pass.place = Place::Files { after: None };
                        self.phase("values");
                        return Ok(true);
                    };
                    *after = Some(*last);
                    page.extend(blobs.into_iter().map(|(id, _)| id));
                    return Ok(true);
                };
                self.upkeep.note(|info| info.blobs += 1);
                match self.upkeep.read(|view| view.blob(id))? {
                    Some(blob) => (blob, 0),
                    None => return Ok(true),
                }
            }
        };
        let next = stripe + 1;
        if usize::try_from(next).is_ok_and(|next| next < blob.stripes.len()) {
            *within = Some((blob.clone(), next));
        }
        if blob.stripes.is_empty() {
            return Ok(true);
        }
        let report = self.check(blob.id, stripe, &[])?;
        if !report.lost.is_empty() && pass.lost.len() < LOST_BLOBS_MAX {
            let lost = report.lost.iter().map(|(offset, length)| (offset.0, length.0));
            pass.lost.entry(blob.id).or_default().extend(lost);
        }
        Ok(true)
    }

    /// Checks a stripe of a blob, or values of a segment, and repairs what is wrong.
    pub(super) fn check(
        &mut self,
        id: BlobId,
        stripe: u32,
        pieces: &[BlobPiece],
    ) -> Result<ScrubReport, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let reading = upkeep.gate.enter();
        let Some(blob) = upkeep.read(|view| view.blob(id))? else {
            return Ok(ScrubReport { complete: true, ..ScrubReport::default() });
        };
        // It was written anew since, in fewer stripes.
        if usize::try_from(stripe).is_ok_and(|stripe| stripe >= blob.stripes.len()) {
            return Ok(ScrubReport { complete: true, ..ScrubReport::default() });
        }
        let mut pace = |bytes: ByteCount| pace(&upkeep, bytes);
        let mut report = match blob.layout {
            Layout::Striped { .. } => upkeep.pool.scrub_stripe(&blob, stripe, &mut pace)?,
            Layout::Segment { .. } => upkeep.pool.scrub_blob(&blob, pieces, &mut pace)?,
        };
        if matches!(blob.layout, Layout::Segment { .. }) {
            // Its values are checked with their files; here only whether its drives are there.
            report.bad.extend(pool_rebuild::shards_on(&blob, &self.given_up));
        }
        upkeep.note(|info| {
            info.bytes.0 += report.bytes.0;
            info.found += report.found;
        });
        upkeep.found(report.findings.iter().map(Found::from));
        let lost_values = match blob.layout {
            Layout::Striped { .. } => 0,
            Layout::Segment { .. } => report.lost.len(),
        };
        let moved = pool_rebuild::repair(self, &blob, &report.bad, lost_values)?;
        drop(reading);
        self.leave(moved);
        Ok(report)
    }

    pub(super) fn next_files(
        &mut self,
        pass: &mut Pass,
        after: Option<FileId>,
    ) -> Result<bool, ArchiveError> {
        let files = self.upkeep.read(|view| view.files(after, FILES_PAGE))?;
        let Some((last, _)) = files.last() else {
            pass.place = Place::Containers { after: None };
            return Ok(true);
        };
        pass.place = Place::Files { after: Some(*last) };
        self.found_again(&files)?;
        let pieces = files.iter().flat_map(|(id, file)| {
            let live = file.state == catalogue::FileState::Live;
            file.pieces.iter().filter(move |_| live).map(move |piece| (*id, *piece))
        });
        let pieces: Vec<(FileId, BlobPiece)> = pieces.collect();
        let unreadable = self.check_values(pass, &pieces)?;
        let concerned: Vec<_> = files.into_iter().filter(|(id, _)| unreadable.contains(id)).collect();
        let declared = lost::declare_unreadable(&self.upkeep, &concerned)?;
        self.declared(&declared);
        Ok(true)
    }

    pub(super) fn next_containers(
        &mut self,
        pass: &mut Pass,
        after: Option<ContainerId>,
    ) -> Result<bool, ArchiveError> {
        let (pieces, last) = self.upkeep.read(|view| view.container_pieces(after, FILES_PAGE))?;
        let Some(last) = last else { return Ok(false) };
        pass.place = Place::Containers { after: Some(last) };
        for id in self.check_values(pass, &pieces)? {
            let what = format!("container {id}: its skeleton or image cannot be read from the pool");
            tracing::error!(container = %id, "{what}");
            self.upkeep.found([Found::other(what)]);
            lost::declare_part(&self.upkeep, id)?;
        }
        Ok(true)
    }

    /// Checks the values that lie in segments, segment by segment, and looks up the others among what this
    /// pass has found lost. Gives the owners of what cannot be read.
    pub(super) fn check_values<T: Copy + Ord>(
        &mut self,
        pass: &Pass,
        pieces: &[(T, BlobPiece)],
    ) -> Result<BTreeSet<T>, ArchiveError> {
        let mut by_blob: BTreeMap<BlobId, Vec<(T, BlobPiece)>> = BTreeMap::new();
        for (owner, piece) in pieces {
            by_blob.entry(piece.blob).or_default().push((*owner, *piece));
        }
        let mut unreadable = BTreeSet::new();
        for (id, values) in by_blob {
            if let Some(lost) = pass.lost.get(&id) {
                let touches = |piece: &BlobPiece| {
                    let (from, to) = (piece.offset.0, piece.offset.0 + piece.length.0);
                    lost.iter().any(|(offset, length)| *offset < to && from < offset + length)
                };
                unreadable.extend(values.iter().filter(|(_, piece)| touches(piece)).map(|(owner, _)| *owner));
                continue;
            }
            let record = self.upkeep.read(|view| view.blob_record(id))?;
            if !record.is_some_and(|blob| matches!(blob.layout, Layout::Segment { .. })) {
                continue;
            }
            let only: Vec<BlobPiece> = values.iter().map(|(_, piece)| *piece).collect();
            let report = self.check(id, 0, &only)?;
            self.upkeep.note(|info| info.values += only.len() as u64);
            let is_lost = |piece: &BlobPiece| report.lost.iter().any(|(offset, _)| *offset == piece.offset);
            unreadable.extend(values.iter().filter(|(_, piece)| is_lost(piece)).map(|(owner, _)| *owner));
        }
        Ok(unreadable)
    }
}
