//! A reading session: all that is wanted from the tape is put in order, and in a new one when more was asked
//! for; batch by batch what is still wanted and has room is read and stored.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

use base::{BlockAddress, BlockCount, ByteCount, ClassId, Duration, FileId, Timestamp};
use mechanics::Track;

use crate::SessionEnd;
use crate::order::{
    self, Aim, Approach, Candidate, ChosenOrder, DriveQuestion, OrderComparison, OrderFrom, OrderLimits,
    Segment,
};
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
    /// Whether the drive's own order counts beside a planned one.
    pub order_from: OrderFrom,
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
    pub fn of_a_server(aim: Aim, order_from: OrderFrom) -> Self {
        let order = ReadOrder::Planned(aim);
        ReadingRules {
            order,
            order_from,
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
        /// A batch is no larger, unless it is one file: each is one blob of the pool.
        batch_most: ByteCount,
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
    },
    /// What the drive says to [`ReadingAction::AskDrive`].
    Recommended {
        /// The tape's geometry, as it was when the files were gathered.
        track: &'a Track,
        /// Its answer.
        answer: DriveAnswer,
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

/// What a drive says when it is asked for an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveAnswer {
    /// The stretches in its order, as positions in what it was asked.
    Order(Vec<usize>),
    /// It does not recommend orders.
    NotOffered,
    /// It takes no more than so many.
    TooMany(usize),
    /// It failed, or answered what is no order.
    Failed,
}

/// What came of asking the drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DriveOrder {
    /// It was not asked: there was too little to order, the rules say so, or it had given no order before.
    NotAsked,
    /// It does not recommend orders.
    NotOffered,
    /// It failed.
    Failed,
    /// It did not name each stretch once.
    NotAnOrder,
    /// Its order was compared with Kist's.
    Compared(OrderComparison),
}

/// What is to be done next.
#[derive(Debug)]
pub enum ReadingAction<P> {
    /// Gather what is wanted: [`gather_wanted`](crate::gather_wanted).
    Gather,
    /// Ask the drive in which order it would read these stretches of blocks from where the head stands
    /// (RAO), and tell it with [`ReadingEvent::Recommended`]; at most once for a plan, and once more if they
    /// were too many.
    AskDrive(Vec<Segment>),
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
#[derive(Clone, PartialEq, Debug)]
pub struct PlanReport {
    /// Files in it.
    pub files: usize,
    /// How the order was made.
    pub chosen: Candidate,
    /// What it takes on the way between files, microseconds.
    pub cost_us: u64,
    /// All that were compared.
    pub considered: Vec<(Candidate, u64)>,
    /// What came of asking the drive.
    pub drive: DriveOrder,
}

/// A plan that waits for the drive's answer.
#[derive(Debug)]
struct AskedPlan<P> {
    wanted: Vec<Wanted<P>>,
    segments: Vec<Segment>,
    head: BlockAddress,
    aim: Aim,
    own: order::Plan,
    question: DriveQuestion,
}

/// What is known of a drive's orders.
#[derive(Clone, Copy, Debug)]
struct DriveOrders {
    /// Whether it is asked for the next plan.
    is_asked: bool,
    /// Stretches that it takes at once, once it has said so.
    limit: Option<usize>,
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
    /// What the pool takes at once.
    batch_most: ByteCount,
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
    drive: DriveOrders,
    /// The plan that waits for the drive.
    asked: Option<AskedPlan<P>>,
    /// Files in the queue behind the piece that was put in order with the drive: when no more are left, a new
    /// plan is made for the next piece.
    behind_piece: usize,
}

impl<P: Copy> ReadingSession<P> {
    /// Of a tape that is in a drive.
    #[must_use]
    pub fn new(rules: ReadingRules) -> Self {
        ReadingSession {
            rules,
            queue: VecDeque::new(),
            given: HashMap::new(),
            batch_most: rules.batch_bytes,
            plans: 0,
            seen: 0,
            plan_began: None,
            plan_stands_until: Duration::ZERO,
            too_large: TooLarge::new(),
            refused: false,
            last_plan: None,
            drive: DriveOrders { is_asked: rules.order_from != OrderFrom::Own, limit: None },
            asked: None,
            behind_piece: 0,
        }
    }

    /// What is to be done after `event`, at this time of the steady clock.
    pub fn step(&mut self, now: Duration, event: ReadingEvent<'_, P>) -> ReadingAction<P> {
        // The plan is made while what was gathered is taken: the step behind that knows how long it took.
        let is_planned = !matches!(event, ReadingEvent::Gathered { .. } | ReadingEvent::Recommended { .. });
        if let Some(began) = self.plan_began.take_if(|_| is_planned) {
            let took = now.saturating_sub(began);
            self.plan_stands_until = began.saturating_add(plan_stands(took, self.rules.replan_every));
        }
        match event {
            ReadingEvent::Next { stop: true, .. } => ReadingAction::End(SessionEnd::Stopped),
            ReadingEvent::Next { arrivals, batch_most, stop: false } => {
                self.too_large.clear();
                self.batch_most = batch_most;
                self.next(now, arrivals)
            }
            ReadingEvent::Gathered { wanted, head, track } => self.plan(wanted, head, track),
            ReadingEvent::Recommended { track, answer } => self.hear(track, &answer),
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
        if self.queue.len() <= self.behind_piece || is_stale {
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
        let piece = self.queue.len().saturating_sub(self.behind_piece);
        let batch_most = self.rules.batch_bytes.min(self.batch_most);
        let mut batch = take_batch(&mut self.queue, batch_most, |planned| planned.wanted.length.0);
        // What is behind the piece gets its order when the head has come to its end.
        while batch.len() > piece.max(1) {
            batch.pop().into_iter().for_each(|planned| self.queue.push_front(planned));
        }
        self.given.extend(batch.iter().map(|planned| (planned.wanted.file, Cell::new(self.plans))));
        ReadingAction::Check(batch)
    }

    /// Puts all that is wanted now in order, from where the head stands.
    fn plan(&mut self, wanted: Vec<Wanted<P>>, head: BlockAddress, track: &Track) -> ReadingAction<P> {
        // Of more than that only the first ones were gathered.
        if wanted.len() < PLAN_FILES_MAX {
            self.given.retain(|_, plan| plan.get() == self.plans);
        }
        let before = std::mem::take(&mut self.queue);
        self.behind_piece = 0;
        let aim = match self.rules.order {
            // Of one file there is one order.
            ReadOrder::Planned(aim) if wanted.len() > 1 => aim,
            _ => {
                let as_given = wanted.into_iter();
                self.queue = as_given
                    .map(|wanted| Planned { wanted, approach: Approach::Locate, gap: BlockCount(0) })
                    .collect();
                return self.hand_out();
            }
        };
        let segments: Vec<Segment> = wanted.iter().map(|wanted| wanted.segment).collect();
        let limits = self.limits();
        let own = if before.is_empty() {
            order::plan(track, head, &segments, aim, &limits)
        } else {
            let places: HashMap<FileId, usize> =
                wanted.iter().enumerate().map(|(at, wanted)| (wanted.file, at)).collect();
            let remaining: Vec<usize> =
                before.iter().filter_map(|planned| places.get(&planned.wanted.file).copied()).collect();
            order::replan(track, head, &segments, &remaining, aim, &limits).0
        };
        let question = self.question(track, head, &segments, &own);
        let Some(question) = question else {
            return self.take_up(wanted, &segments, head, own, DriveOrder::NotAsked);
        };
        let stretches = question.stretches();
        self.asked = Some(AskedPlan { wanted, segments, head, aim, own, question });
        ReadingAction::AskDrive(stretches)
    }

    fn limits(&self) -> OrderLimits {
        OrderLimits { replan_segments: self.rules.replan_files, ..OrderLimits::default() }
    }

    fn question(
        &self,
        track: &Track,
        head: BlockAddress,
        segments: &[Segment],
        own: &order::Plan,
    ) -> Option<DriveQuestion> {
        let limit = self.drive.limit.unwrap_or(usize::MAX);
        let is_asked = self.drive.is_asked;
        is_asked.then(|| DriveQuestion::new(track, head, segments, own, &self.limits(), limit))?
    }

    /// Takes the drive's order or Kist's. A drive that gave none is not asked again in this session: each
    /// failure may last as long as a command may.
    fn hear(&mut self, track: &Track, answer: &DriveAnswer) -> ReadingAction<P> {
        let Some(mut asked) = self.asked.take() else { return self.hand_out() };
        let none = match answer {
            DriveAnswer::Order(order) => {
                let (segments, by) = (&asked.segments, (asked.aim, self.rules.order_from));
                match asked.question.choose((track, asked.head), segments, &asked.own, by, order) {
                    Ok(ChosenOrder { plan, comparison }) => {
                        let AskedPlan { wanted, segments, head, question, .. } = asked;
                        self.behind_piece = question.piece().map_or(0, |piece| wanted.len() - piece);
                        let heard = DriveOrder::Compared(comparison);
                        return self.take_up(wanted, &segments, head, plan, heard);
                    }
                    Err(order::NotAnOrder) => DriveOrder::NotAnOrder,
                }
            }
            // One that says another limit each time has none.
            DriveAnswer::TooMany(limit) if self.drive.limit.is_none() => {
                self.drive.limit = Some(*limit);
                match self.question(track, asked.head, &asked.segments, &asked.own) {
                    Some(question) => {
                        let stretches = question.stretches();
                        asked.question = question;
                        self.asked = Some(asked);
                        return ReadingAction::AskDrive(stretches);
                    }
                    None => {
                        let AskedPlan { wanted, segments, head, own, .. } = asked;
                        return self.take_up(wanted, &segments, head, own, DriveOrder::NotAsked);
                    }
                }
            }
            DriveAnswer::NotOffered => DriveOrder::NotOffered,
            DriveAnswer::TooMany(_) | DriveAnswer::Failed => DriveOrder::Failed,
        };
        self.drive.is_asked = false;
        let AskedPlan { wanted, segments, head, own, .. } = asked;
        self.take_up(wanted, &segments, head, own, none)
    }

    /// Reads by this plan from here on.
    fn take_up(
        &mut self,
        wanted: Vec<Wanted<P>>,
        segments: &[Segment],
        head: BlockAddress,
        plan: order::Plan,
        drive: DriveOrder,
    ) -> ReadingAction<P> {
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
        self.last_plan = Some(PlanReport { files: wanted.len(), chosen, cost_us, considered, drive });
        self.hand_out()
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
