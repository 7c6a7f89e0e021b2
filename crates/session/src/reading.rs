//! A reading session: all that is wanted from the tape is put in order, and in a new one when more was asked
//! for; batch by batch what is still wanted and has room is read and stored.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

use base::{BlockAddress, BlockCount, ByteCount, ClassId, Duration, FileId, Timestamp};
use mechanics::Track;

use crate::SessionEnd;
use crate::order::{self, Aim, Approach, Candidate, OrderLimits};
use crate::plan::{PLAN_FILES_MAX, RECALL_BATCH_BYTES, REPLAN_EVERY, plan_stands, take_batch};
use crate::room::{FreeSpace, Room, RoomClaim, TooLarge};
use crate::wanted::Wanted;

/// How files are put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOrder {
    /// By the drive's model, for who waits.
    Planned(Aim),
    /// As they are given: orders of other systems, which a model compares.
    AsGiven,
}

/// How a session reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadingRules {
    /// The order.
    pub order: ReadOrder,
    /// Bytes that are stored and committed together.
    pub batch_bytes: ByteCount,
    /// A plan stands for at least so long, whatever is asked for meanwhile.
    pub replan_every: Duration,
    /// Up to so many files all are planned anew when more are asked for; of more, the new ones are put where
    /// they cost least.
    pub replan_files: usize,
}

impl ReadingRules {
    /// Those of a server.
    #[must_use]
    pub fn of_a_server(aim: Aim) -> Self {
        let order = ReadOrder::Planned(aim);
        ReadingRules {
            order,
            batch_bytes: RECALL_BATCH_BYTES,
            replan_every: REPLAN_EVERY,
            replan_files: OrderLimits::default().replan_segments,
        }
    }
}

/// A file in its place of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned<P> {
    /// The file.
    pub wanted: Wanted<P>,
    /// How the head comes to it.
    pub approach: Approach,
    /// Blocks between the one before it and its first one; none if the head locates.
    pub gap: BlockCount,
}

/// What has happened. `arrivals`: a count of files that came to be wanted from this tape, however often they
/// are looked at.
#[derive(Debug)]
pub enum ReadingEvent<'a, P> {
    /// The drive can take more.
    Next {
        /// See above.
        arrivals: u64,
        /// The session is to end.
        stop: bool,
    },
    /// What is wanted now, without what the session [was given](ReadingSession::was_given).
    Gathered {
        /// The files.
        wanted: Vec<Wanted<P>>,
        /// Where the head stands.
        head: BlockAddress,
        /// The tape's geometry.
        track: &'a Track,
        /// The drive's own order of them, as positions in `wanted`.
        drive_order: Option<Vec<usize>>,
    },
    /// Those of a batch that are still wanted.
    StillWanted {
        /// The files with their classes, in their order.
        files: Vec<(Planned<P>, ClassId)>,
        /// What is claimed of the pool.
        room: &'a mut Room,
        /// What is free there.
        free: &'a FreeSpace,
        /// For what finds no room.
        now: Timestamp,
    },
}

/// What is to be done next.
#[derive(Debug)]
pub enum ReadingAction<P> {
    /// Gather what is wanted: [`gather_wanted`](crate::gather_wanted).
    Gather,
    /// Look which of these are wanted still: requests may have been cancelled, and files deleted, since the
    /// plan was made.
    Check(Vec<Planned<P>>),
    /// Read these and store them.
    Read {
        /// The files; at least one.
        files: Vec<Planned<P>>,
        /// The room that is claimed for them: to be given back once they stand in the catalogue or will not
        /// come.
        claim: RoomClaim,
    },
    /// The session is over, once what is on its way to the pool is stored.
    End(SessionEnd),
}

/// What a plan was chosen from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanReport {
    /// Files in it.
    pub files: usize,
    /// How the order was made.
    pub chosen: Candidate,
    /// What it takes on the way between files, microseconds.
    pub cost_us: u64,
    /// All that were compared.
    pub considered: Vec<(Candidate, u64)>,
}

/// What a session knows of a tape that it reads.
#[derive(Debug)]
pub struct ReadingSession<P> {
    rules: ReadingRules,
    /// Planned and not handed out yet.
    queue: VecDeque<Planned<P>>,
    /// What this session was given, had it room or not, and at which plan somebody last asked for each. What
    /// is on its way to the pool, and what was refused, stands in the tape's set until it is committed or not
    /// wanted any more; the set is gone through for each plan, and what is not met there is forgotten.
    given: HashMap<FileId, Cell<u64>>,
    /// How many plans were begun.
    plans: u64,
    /// Arrivals when the plan was made.
    seen: u64,
    /// When the plan was begun, until its end is known.
    plan_began: Option<Duration>,
    /// No new plan before this moment.
    plan_stands_until: Duration,
    /// Since the last batch that was read.
    too_large: TooLarge,
    refused: bool,
    last_plan: Option<PlanReport>,
}

impl<P: Copy> ReadingSession<P> {
    /// Of a tape that is in a drive.
    #[must_use]
    pub fn new(rules: ReadingRules) -> Self {
        ReadingSession {
            rules,
            queue: VecDeque::new(),
            given: HashMap::new(),
            plans: 0,
            seen: 0,
            plan_began: None,
            plan_stands_until: Duration::ZERO,
            too_large: TooLarge::new(),
            refused: false,
            last_plan: None,
        }
    }

    /// What is to be done after `event`, at this time of the steady clock.
    pub fn step(&mut self, now: Duration, event: ReadingEvent<'_, P>) -> ReadingAction<P> {
        // The plan is made while what was gathered is taken: the step behind that knows how long it took.
        let is_planned = !matches!(event, ReadingEvent::Gathered { .. });
        if let Some(began) = self.plan_began.take_if(|_| is_planned) {
            let took = now.saturating_sub(began);
            self.plan_stands_until = began.saturating_add(plan_stands(took, self.rules.replan_every));
        }
        match event {
            ReadingEvent::Next { stop: true, .. } => ReadingAction::End(SessionEnd::Stopped),
            ReadingEvent::Next { arrivals, stop: false } => {
                self.too_large.clear();
                self.next(now, arrivals)
            }
            ReadingEvent::Gathered { wanted, head, track, drive_order } => {
                self.plan(wanted, head, track, drive_order.as_deref());
                self.hand_out()
            }
            ReadingEvent::StillWanted { files, room, free, now: at } => {
                let (files, claim) = self.admit(files, room, free, at);
                if files.is_empty() {
                    self.next(now, self.seen)
                } else {
                    ReadingAction::Read { files, claim }
                }
            }
        }
    }

    /// Whether the session has read this file already, or tried to; to be asked for each file that is met
    /// while a plan is gathered: what is not asked for is not wanted any more.
    #[must_use]
    pub fn was_given(&self, file: FileId) -> bool {
        let plan = self.given.get(&file);
        plan.inspect(|plan| plan.set(self.plans)).is_some()
    }

    /// Whether something found no room.
    #[must_use]
    pub fn has_refused(&self) -> bool {
        self.refused
    }

    /// A file that was read found no room after all.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// What the last plan was chosen from, if nobody has asked since.
    pub fn take_plan_report(&mut self) -> Option<PlanReport> {
        self.last_plan.take()
    }

    fn next(&mut self, now: Duration, arrivals: u64) -> ReadingAction<P> {
        let is_stale = arrivals != self.seen && now >= self.plan_stands_until;
        if self.queue.is_empty() || is_stale {
            self.seen = arrivals;
            self.plan_began = Some(now);
            self.plans += 1;
            return ReadingAction::Gather;
        }
        self.hand_out()
    }

    fn hand_out(&mut self) -> ReadingAction<P> {
        if self.queue.is_empty() {
            let end = if self.refused { SessionEnd::NoRoom } else { SessionEnd::Drained };
            return ReadingAction::End(end);
        }
        let batch = take_batch(&mut self.queue, self.rules.batch_bytes, |planned| planned.wanted.length.0);
        self.given.extend(batch.iter().map(|planned| (planned.wanted.file, Cell::new(self.plans))));
        ReadingAction::Check(batch)
    }

    /// Puts all that is wanted now in order, from where the head stands.
    fn plan(
        &mut self,
        wanted: Vec<Wanted<P>>,
        head: BlockAddress,
        track: &Track,
        drive_order: Option<&[usize]>,
    ) {
        // Of more than that only the first ones were gathered.
        if wanted.len() < PLAN_FILES_MAX {
            self.given.retain(|_, plan| plan.get() == self.plans);
        }
        let before = std::mem::take(&mut self.queue);
        let aim = match self.rules.order {
            // Of one file there is one order.
            ReadOrder::Planned(aim) if wanted.len() > 1 => aim,
            _ => {
                let as_given = wanted.into_iter();
                self.queue = as_given
                    .map(|wanted| Planned { wanted, approach: Approach::Locate, gap: BlockCount(0) })
                    .collect();
                return;
            }
        };
        let segments: Vec<order::Segment> = wanted.iter().map(|wanted| wanted.segment).collect();
        let limits = OrderLimits { replan_segments: self.rules.replan_files, ..OrderLimits::default() };
        let plan = if before.is_empty() || drive_order.is_some() {
            order::plan(track, head, &segments, aim, drive_order, &limits)
        } else {
            let places: HashMap<FileId, usize> =
                wanted.iter().enumerate().map(|(at, wanted)| (wanted.file, at)).collect();
            let remaining: Vec<usize> =
                before.iter().filter_map(|planned| places.get(&planned.wanted.file).copied()).collect();
            order::replan(track, head, &segments, &remaining, aim, &limits).0
        };
        assert_eq!(plan.visits.len(), wanted.len(), "every wanted file is in the order once");
        let mut behind = head;
        self.queue = plan
            .visits
            .iter()
            .map(|visit| {
                let segment = segments[visit.segment];
                let gap = segment.begin.0.saturating_sub(behind.0);
                behind = segment.end;
                let gap = BlockCount(if visit.approach == Approach::Locate { 0 } else { gap });
                Planned { wanted: wanted[visit.segment], approach: visit.approach, gap }
            })
            .collect();
        let order::Plan { chosen, cost_us, considered, .. } = plan;
        self.last_plan = Some(PlanReport { files: wanted.len(), chosen, cost_us, considered });
    }

    /// Claims room for a batch and leaves out what has none.
    fn admit(
        &mut self,
        files: Vec<(Planned<P>, ClassId)>,
        room: &mut Room,
        free: &FreeSpace,
        now: Timestamp,
    ) -> (Vec<Planned<P>>, RoomClaim) {
        let sizes: Vec<(ClassId, ByteCount)> =
            files.iter().map(|(planned, class)| (*class, planned.wanted.length)).collect();
        let (fits, claim) = room.admit(free, now, &sizes, &mut self.too_large);
        self.refused |= files.iter().zip(&fits).any(|((planned, _), fits)| !fits && !planned.wanted.along);
        let admitted: Vec<Planned<P>> =
            files.into_iter().zip(fits).filter(|(_, fits)| *fits).map(|((planned, _), _)| planned).collect();
        (admitted, claim)
    }
}

#[cfg(test)]
mod tests;
