//! What small values take of the pool's drives: measured segment by segment, in rounds, since the catalogue
//! knows what is needed of a segment and the drives what it takes.

use std::sync::PoisonError;

use base::{BlobId, ByteCount, Duration, Epoch, Layout};
use catalogue::BlobRecord;

use crate::Upkeep;
use ground::ArchiveError;
use ground::SegmentUse;

/// Records of blobs looked at in one turn, most of which may be no segments.
const BLOBS_PAGE: usize = 16_384;
/// Segments measured in one turn: each is a look at an extent on a few drives.
const SEGMENTS_MAX: usize = 256;
/// After so long a turn ends, whatever was measured: the sweeper has other work, and a drive that hangs
/// answers nothing for seconds.
const TURN_MAX: Duration = Duration::from_millis(500);
/// Between two turns of a round.
const TURN_EVERY: Duration = Duration::from_secs(1);
/// Between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// How far a round is. The first one begins with the epoch before this start: its segments may have been left
/// open, and what was reserved for them is given back.
pub(crate) struct Round {
    after: Option<BlobId>,
    is_first: bool,
    so_far: SegmentUse,
    /// When the next turn is, by the steady clock.
    due: Duration,
}

impl Round {
    pub(crate) fn new(epoch: Epoch) -> Self {
        let before = epoch.0.checked_sub(1).and_then(|before| BlobId::new(Epoch(before), 0));
        Round { after: before, is_first: true, so_far: SegmentUse::default(), due: Duration::ZERO }
    }

    /// Looks at the next segments.
    pub(crate) fn turn(&mut self, upkeep: &Upkeep) -> Result<(), ArchiveError> {
        let steady = upkeep.steady();
        if steady < self.due {
            return Ok(());
        }
        let is_end = self.measure(upkeep)?;
        let rest = if is_end && !self.is_first { ROUND_EVERY } else { TURN_EVERY };
        self.due = steady.saturating_add(rest);
        if is_end {
            self.after = None;
            let done = SegmentUse { at: upkeep.now(), ..std::mem::take(&mut self.so_far) };
            if std::mem::take(&mut self.is_first) {
                return Ok(());
            }
            *upkeep.segment_use.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }
        Ok(())
    }

    fn measure(&mut self, upkeep: &Upkeep) -> Result<bool, ArchiveError> {
        let page = upkeep.read(|view| view.blobs(self.after, BLOBS_PAGE))?;
        let turn = Turn { ends: upkeep.steady().saturating_add(TURN_MAX), measured: 0 };
        self.go_through(page, turn, &|| (upkeep.steady(), upkeep.stopping()), &mut |id| {
            let blob = upkeep.read(|view| view.blob(id))?;
            Ok(blob.and_then(|blob| upkeep.pool.room_of_segment(&blob)))
        })
    }

    /// `now`: the steady time, and whether the server stops. `room` measures a segment. Whether the page was
    /// the last one and all of it was measured.
    fn go_through(
        &mut self,
        page: Vec<(BlobId, BlobRecord)>,
        mut turn: Turn,
        now: &dyn Fn() -> (Duration, bool),
        room: &mut dyn FnMut(BlobId) -> Result<Option<ByteCount>, ArchiveError>,
    ) -> Result<bool, ArchiveError> {
        let is_end = page.len() < BLOBS_PAGE;
        for (id, record) in page {
            if let Layout::Segment { copies } = record.layout {
                if turn.is_over(now()) {
                    return Ok(false);
                }
                turn.measured += 1;
                if let Some(taken) = room(id)? {
                    let sum = &mut self.so_far;
                    sum.segments += 1;
                    sum.values += record.references;
                    sum.bytes.0 = sum.bytes.0.saturating_add(record.live.0);
                    let copied = record.live.0.saturating_mul(copies.into());
                    sum.copied.0 = sum.copied.0.saturating_add(copied);
                    sum.taken.0 = sum.taken.0.saturating_add(taken.0);
                }
            }
            self.after = Some(id);
        }
        Ok(is_end)
    }
}

/// How far a turn is.
struct Turn {
    /// When it ends at the latest, by the steady clock.
    ends: Duration,
    measured: usize,
}

impl Turn {
    /// Whether the next segment is left to a later turn. The first one never is for want of time: else a
    /// round might not end.
    fn is_over(&self, (steady, stops): (Duration, bool)) -> bool {
        stops || self.measured >= SEGMENTS_MAX || (self.measured > 0 && steady >= self.ends)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How many of 300 segments turn after turn measures, if each takes `millis`. From segment `stop_at` on
    /// the server stops. Ends with the round, or the first turn that measures nothing.
    fn turns(millis: u64, stop_at: usize) -> Vec<usize> {
        let record = BlobRecord {
            stands_as: None,
            layout: Layout::Segment { copies: 2 },
            length: ByteCount(0),
            stripes: Vec::new(),
            references: 1,
            live: ByteCount(10),
        };
        let segments = (1..=300).map(|n| (BlobId::new(Epoch(1), n).unwrap(), record.clone()));
        let segments: Vec<_> = segments.collect();
        let mut round = Round::new(Epoch(1));
        let (steady, measured, mut counts) = (Cell::new(Duration::ZERO), Cell::new(0), Vec::new());
        loop {
            let before = measured.get();
            let page = segments.iter().filter(|(id, _)| Some(*id) > round.after).cloned().collect();
            let turn = Turn { ends: steady.get().saturating_add(TURN_MAX), measured: 0 };
            let is_end = round
                .go_through(page, turn, &|| (steady.get(), measured.get() >= stop_at), &mut |_| {
                    measured.set(measured.get() + 1);
                    steady.set(steady.get().saturating_add(Duration::from_millis(millis)));
                    Ok(Some(ByteCount(20)))
                })
                .unwrap();
            counts.push(measured.get() - before);
            assert_eq!(round.so_far.segments, measured.get() as u64, "each is counted once");
            if is_end || measured.get() == before {
                return counts;
            }
        }
    }

    /// Story: a turn measured 256 segments whatever that took, and a stop waited for it.
    #[test]
    fn a_turn_ends_by_number_by_time_and_with_the_server() {
        assert_eq!(turns(0, usize::MAX), [SEGMENTS_MAX, 300 - SEGMENTS_MAX]);
        assert_eq!(turns(10, usize::MAX), [50; 6]);
        assert_eq!(turns(3_000, usize::MAX), [1; 300], "one that takes longer is measured all the same");
        assert_eq!(turns(10, 70), [50, 20, 0], "nothing is measured once the server stops");
        assert_eq!(turns(10, 0), [0]);
    }
}
