//! The order of a reading session: everything that is wanted from the mounted tape, planned as a whole, and
//! planned anew when more is asked for.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::atomic::Ordering;

use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, Partition, Vid};
use catalogue::{ContainerKind, RecallKey};
use library::TapeDrive;
use mechanics::Track;
use mover::WantedFile;
use scheduler::order::{self, Approach, OrderLimits, Plan, Segment};
use scheduler::session::{self, PLAN_FILES_MAX, RECALL_BATCH_BYTES, REPLAN_EVERY};

use crate::ArchiveError;
use crate::engine::Engine;

/// Rows of the tape's set that are read together.
const PAGE: usize = 2_000;
/// A gap that is read through may be so many blocks longer than the plan says: a file without bytes of its
/// own ends in front of where it stands.
const GAP_SLACK: u64 = 4;

/// A file that this session is to read, in as few bytes as a million of them need.
#[derive(Clone, Copy, Debug)]
struct Wish {
    file: FileId,
    container: ContainerId,
    /// First block of the container.
    block: BlockAddress,
    data_offset: ByteCount,
    length: ByteCount,
    /// Nobody asked for it: its class recalls packs as a whole.
    along: bool,
}

impl Wish {
    fn segment(&self, block_size: u64) -> Segment {
        let begin = self.block.0 + self.data_offset.0 / block_size;
        let end = self.block.0 + (self.data_offset.0 + self.length.0).div_ceil(block_size);
        Segment { begin: BlockAddress(begin), end: BlockAddress(end.max(begin + 1)) }
    }
}

/// What is wanted from the mounted tape, in the order in which it is read.
pub(super) struct RecallOrder<'a> {
    engine: &'a Engine,
    vid: Vid,
    track: Track,
    block_size: u32,
    /// Planned and not handed out yet, each with the blocks that may be read through on the way to it.
    queue: VecDeque<(Wish, u64)>,
    /// All that this session was given: what is on its way to the pool stands in the tape's set until it is
    /// committed.
    given: HashSet<FileId>,
    /// The engine's count of new wishes when the plan was made.
    seen: u64,
    /// No new plan before this moment of the steady clock.
    rests_until: Duration,
}

impl<'a> RecallOrder<'a> {
    pub(super) fn new(engine: &'a Engine, vid: Vid, track: Track, block_size: u32) -> Self {
        RecallOrder {
            engine,
            vid,
            track,
            block_size,
            queue: VecDeque::new(),
            given: HashSet::new(),
            seen: 0,
            rests_until: Duration::ZERO,
        }
    }

    /// The files that are read next; none when nothing is wanted any more.
    pub(super) fn next_batch(&mut self, drive: &mut dyn TapeDrive) -> Vec<WantedFile> {
        match self.try_next_batch(drive) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(vid = %self.vid, %error, "the wanted files cannot be read");
                Vec::new()
            }
        }
    }

    fn try_next_batch(&mut self, drive: &mut dyn TapeDrive) -> Result<Vec<WantedFile>, ArchiveError> {
        loop {
            if self.queue.is_empty() || self.is_stale() {
                self.plan(drive)?;
            }
            if self.queue.is_empty() {
                return Ok(Vec::new());
            }
            let batch = self.take();
            let batch = self.still_wanted(batch)?;
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }

    fn is_stale(&self) -> bool {
        let wishes = self.engine.wishes.load(Ordering::Relaxed);
        wishes != self.seen && self.engine.clock.steady() >= self.rests_until
    }

    /// Puts all that is wanted now and was not given yet in order, from where the head stands.
    fn plan(&mut self, drive: &mut dyn TapeDrive) -> Result<(), ArchiveError> {
        let began = self.engine.clock.steady();
        self.seen = self.engine.wishes.load(Ordering::Relaxed);
        let wishes = self.wishes()?;
        if wishes.is_empty() {
            // Nothing to ask the drive for, and nothing to tell.
            self.queue.clear();
            return Ok(());
        }
        let segments: Vec<Segment> =
            wishes.iter().map(|wish| wish.segment(u64::from(self.block_size))).collect();
        let head = match drive.position() {
            Ok(position) if position.partition == Partition::Data => position.block,
            _ => BlockAddress(0),
        };
        let aim = self.engine.settings.tape.recall_aim;
        let offered = recommended(drive, &segments);
        let limits = OrderLimits::default();
        let plan = order::plan(&self.track, head, &segments, aim, offered.as_deref(), &limits);
        self.tell(&plan, wishes.len());
        let mut behind = head;
        let visits = plan.visits.iter().map(|visit| {
            let segment = segments[visit.segment];
            let gap = segment.begin.0.saturating_sub(behind.0);
            behind = segment.end;
            let through = if visit.approach == Approach::Locate { 0 } else { gap + GAP_SLACK };
            (wishes[visit.segment], through)
        });
        self.queue = visits.collect();
        let took = self.engine.clock.steady().saturating_sub(began);
        self.rests_until = began.saturating_add(session::plan_stands(took, REPLAN_EVERY));
        Ok(())
    }

    fn tell(&self, plan: &Plan, files: usize) {
        let considered: Vec<String> = plan
            .considered
            .iter()
            .map(|(candidate, us)| format!("{candidate} {} s", us / 1_000_000))
            .collect();
        tracing::info!(
            vid = %self.vid, files, chosen = %plan.chosen, seconds = plan.cost_us / 1_000_000,
            considered = considered.join(", "), "reading in this order"
        );
    }

    /// The tape's set as it stands now, without what was given, claimed for this session.
    fn wishes(&self) -> Result<Vec<Wish>, ArchiveError> {
        let mut wishes = Vec::new();
        let mut whole = Whole::default();
        let mut after = None;
        while wishes.len() < PLAN_FILES_MAX {
            let mut rows = self.engine.read(|view| view.recall_set(self.vid, after, PAGE))?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(*last);
            rows.retain(|(key, _)| !self.given.contains(&key.file));
            let files: Vec<FileId> = rows.iter().map(|(key, _)| key.file).collect();
            let claimed = self.engine.scheduler().claim(self.vid, &files);
            for ((key, item), _) in rows.iter().zip(claimed).filter(|(_, claimed)| *claimed) {
                let RecallKey { block, data_offset, file, .. } = *key;
                let (container, length) = (item.container, item.length);
                wishes.push(Wish { file, container, block, data_offset, length, along: false });
                whole.note(self.engine, container, block)?;
            }
        }
        if whole.packs.is_empty() {
            return Ok(wishes);
        }
        let asked: HashSet<FileId> = wishes.iter().map(|wish| wish.file).collect();
        for (container, block) in whole.packs {
            self.take_along(container, block, &asked, &mut wishes)?;
        }
        Ok(wishes)
    }

    /// The rest of a pack whose class recalls packs as a whole.
    fn take_along(
        &self,
        container: ContainerId,
        block: BlockAddress,
        asked: &HashSet<FileId>,
        wishes: &mut Vec<Wish>,
    ) -> Result<(), ArchiveError> {
        let mut after = None;
        while wishes.len() < PLAN_FILES_MAX {
            let page = self.engine.read(|view| {
                let mut page = Vec::new();
                for member in view.members(container, after, PAGE)? {
                    let file = view.file(member.file)?;
                    page.push((member, file.is_some_and(|file| file.is_named() && !file.is_online())));
                }
                Ok(page)
            })?;
            let Some((last, _)) = page.last() else { break };
            after = Some((last.data_offset, last.file));
            for (member, is_away) in page {
                if is_away && !asked.contains(&member.file) && !self.given.contains(&member.file) {
                    wishes.push(Wish {
                        file: member.file,
                        container,
                        block,
                        data_offset: member.data_offset,
                        length: member.length,
                        along: true,
                    });
                }
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<(Wish, u64)> {
        let batch = session::take_batch(&mut self.queue, RECALL_BATCH_BYTES, |(wish, _)| wish.length.0);
        self.given.extend(batch.iter().map(|(wish, _)| wish.file));
        batch
    }

    /// What of a batch is to be read now, with all that reading it needs: requests may have been cancelled,
    /// and files deleted, since the plan was made.
    fn still_wanted(&self, batch: Vec<(Wish, u64)>) -> Result<Vec<WantedFile>, ArchiveError> {
        let asked: Vec<FileId> = batch.iter().map(|(wish, _)| wish.file).collect();
        let claimed = self.engine.scheduler().claim(self.vid, &asked);
        self.engine.read(|view| {
            let mut wanted = Vec::with_capacity(batch.len());
            for ((wish, read_through), claimed) in batch.into_iter().zip(claimed) {
                if !claimed && !wish.along {
                    continue;
                }
                let parts = view.parts(wish.file)?;
                let member = parts.into_iter().find(|(container, _)| *container == wish.container);
                if let (Some((_, member)), Some(file)) = (member, view.file(wish.file)?) {
                    wanted.push(WantedFile {
                        file: wish.file,
                        block: wish.block,
                        header_offset: member.header_offset,
                        data_offset: member.data_offset,
                        length: member.length,
                        checksums: file.checksums.stream,
                        read_through,
                    });
                }
            }
            Ok(wanted)
        })
    }
}

/// The drive's own order, if it offers one for so many.
fn recommended(drive: &mut dyn TapeDrive, segments: &[Segment]) -> Option<Vec<usize>> {
    let segments: Vec<_> = segments.iter().map(|segment| (segment.begin, segment.end)).collect();
    // A drive has its limits: then the other candidates stand.
    drive.recommended_order(&segments).ok()?
}

/// Packs that are read as a whole because something of them is wanted.
#[derive(Default)]
struct Whole {
    /// The last container that was looked at: wishes come in the order of the tape.
    last: Option<ContainerId>,
    packs: BTreeSet<(ContainerId, BlockAddress)>,
}

impl Whole {
    fn note(
        &mut self,
        engine: &Engine,
        container: ContainerId,
        block: BlockAddress,
    ) -> Result<(), ArchiveError> {
        if self.last.replace(container) == Some(container) || !engine.classes.any_recalls_packs() {
            return Ok(());
        }
        let record = engine.read(|view| view.container(container))?;
        if let Some(record) = record.filter(|record| record.kind == ContainerKind::Pack)
            && engine.classes.get(record.class).is_some_and(|class| class.settings.recall_packs)
        {
            self.packs.insert((container, block));
        }
        Ok(())
    }
}
