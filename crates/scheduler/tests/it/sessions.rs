//! Sessions of the tests' worlds: the real rules of crate `session` over queues and sets in memory. A world
//! says how long each action takes.

use std::convert::Infallible;

use base::{BlockAddress, ByteCount, ClassId, ContainerId, Duration, FileId, TapePoolId, Timestamp, Vid};
use mechanics::Track;
use scheduler::Scheduler;
use session::order::{Aim, OrderFrom, Segment};
use session::{
    Accepted, Affinity, Choice, DriveAnswer, FlushRules, FreeSpace, HasteCall, MigrationQueue, Queued,
    ReadOrder, ReadingAction, ReadingEvent, ReadingRules, ReadingSession, Room, SessionEnd, Situation,
    TapeSet, Target, Wanted, WantedPage, WriteEnded, WritingAction, WritingEvent, WritingRules,
    WritingSession, Written, gather_wanted,
};

/// What a pool has queued: since when, and bytes.
pub type Queue = Vec<(Timestamp, u64)>;

/// A writing session that takes one container at a time.
#[derive(Clone, Debug)]
pub struct Writer {
    session: WritingSession,
    vid: Vid,
    event: WritingEvent,
    /// The place in its queue of the container that is written next.
    chosen: usize,
}

/// What a writing session does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteStep {
    /// It writes a container of so many bytes, which is out of its queue.
    Writes(u64),
    /// The tape is full.
    TapeFull,
    /// It is over.
    Ends(SessionEnd),
}

struct Waiting<'a>(&'a Queue);

impl MigrationQueue for Waiting<'_> {
    type Error = Infallible;
    type Cursor = usize;

    fn window(&mut self, after: Option<usize>) -> Result<Option<(Vec<Queued>, usize)>, Infallible> {
        let from = after.unwrap_or(0);
        let queued = |(at, (_, bytes)): (usize, &(Timestamp, u64))| Queued {
            container: ContainerId(at as u64),
            data_set: 0,
            length: ByteCount(*bytes),
            can_span: false,
        };
        let window: Vec<Queued> = self.0.iter().enumerate().skip(from).map(queued).collect();
        Ok(Some((window, self.0.len())).filter(|(window, _)| !window.is_empty()))
    }

    fn accept(&mut self, _: &Queued) -> Result<Accepted, Infallible> {
        Ok(Accepted::Yes { members: 1 })
    }

    fn is_too_large(&mut self, _: &Queued) {}
}

impl Writer {
    pub fn new(vid: Vid) -> Self {
        let rules = WritingRules { flush_age: Duration::MAX, index_bytes: ByteCount(u64::MAX) };
        Writer {
            session: WritingSession::new(rules, Timestamp(0)),
            vid,
            event: WritingEvent::Begin,
            chosen: 0,
        }
    }

    /// Goes on at this time with what is queued, on a tape with so much room; what was begun before is
    /// written.
    pub fn go_on(&mut self, now: Timestamp, may_write: bool, queue: &mut Queue, free: &mut u64) -> WriteStep {
        let haste = HasteCall::NONE;
        let situation = Situation { stop: false, may_write, owes_index: false, room_waits: false, haste };
        loop {
            let action = self.session.step(now, &situation, self.event);
            self.event = match action {
                WritingAction::Choose => match self.choose(now, queue, *free) {
                    // The first one that fits.
                    Choice::Containers(chosen) => {
                        self.chosen = usize::try_from(chosen[0].container.0).unwrap();
                        WritingEvent::Chosen
                    }
                    Choice::Nothing => WritingEvent::NothingQueued,
                    Choice::TapeFull => WritingEvent::TapeFull,
                    Choice::NothingFits => WritingEvent::NothingFits,
                },
                WritingAction::Write => {
                    let (_, bytes) = queue.remove(self.chosen);
                    *free -= bytes;
                    let written = Written { containers: 1, bytes: ByteCount(bytes), ended: WriteEnded::All };
                    self.event = WritingEvent::Written(written);
                    return WriteStep::Writes(bytes);
                }
                WritingAction::Flush => WritingEvent::Flushed,
                WritingAction::Index { .. } => WritingEvent::Indexed,
                WritingAction::EndRun(_) => {
                    self.event = WritingEvent::RunEnded;
                    return WriteStep::TapeFull;
                }
                WritingAction::End(end) => return WriteStep::Ends(end),
            };
        }
    }

    fn choose(&self, now: Timestamp, queue: &Queue, free: u64) -> Choice {
        let target = Target {
            vid: self.vid,
            tape_pool: TapePoolId(1),
            room: ByteCount(free),
            empty_tape: ByteCount(u64::MAX),
            flush: FlushRules::by_bytes(ByteCount(1)),
            useful: ByteCount(u64::MAX),
            left_to_others: ByteCount(0),
        };
        let Ok(choice) = session::choose(&mut Waiting(queue), &mut Affinity::default(), now, &target);
        choice
    }
}

/// A reading session that takes one file at a time.
#[derive(Debug)]
pub struct Reader {
    session: ReadingSession<()>,
    vid: Vid,
    /// Where its head stands.
    pub head: BlockAddress,
}

struct Set<'a> {
    scheduler: &'a mut Scheduler,
    vid: Vid,
    files: Vec<Wanted<()>>,
}

impl TapeSet for Set<'_> {
    type Error = Infallible;
    type Cursor = ();
    type Place = ();
    type Pack = ();

    fn wanted(&mut self, _: Option<()>) -> Result<WantedPage<(), ()>, Infallible> {
        Ok(WantedPage { files: std::mem::take(&mut self.files), next: None })
    }

    fn claim(&mut self, files: &[FileId]) -> Vec<bool> {
        let granted = self.scheduler.claim(self.vid, files);
        assert_eq!(granted.len(), files.len(), "one answer a file");
        granted
    }

    fn whole_pack(&mut self, _: &Wanted<()>) -> Result<Option<()>, Infallible> {
        Ok(None)
    }

    fn away_in_pack(&mut self, (): (), _: Option<()>) -> Result<WantedPage<(), ()>, Infallible> {
        Ok(WantedPage { files: Vec::new(), next: None })
    }
}

/// A file that stands on a tape from a block on, in so many blocks.
pub fn wanted(file: FileId, block: u64, blocks: u64) -> Wanted<()> {
    let segment = Segment { begin: BlockAddress(block), end: BlockAddress(block + blocks.max(1)) };
    Wanted { file, segment, length: ByteCount(blocks), along: false, place: () }
}

impl Reader {
    pub fn new(vid: Vid) -> Self {
        // A batch ends with the first file.
        let rules = ReadingRules {
            order: ReadOrder::Planned(Aim::LastFile),
            order_from: OrderFrom::Own,
            batch_bytes: ByteCount(1),
            replan_every: session::REPLAN_EVERY,
            replan_files: 4_096,
        };
        Reader { session: ReadingSession::new(rules), vid, head: BlockAddress(0) }
    }

    /// The file that is read next; `None` when the session is over. `arrivals` counts what came to be wanted.
    pub fn next(
        &mut self,
        now: Duration,
        arrivals: u64,
        scheduler: &mut Scheduler,
        track: &Track,
        on_tape: impl Fn() -> Vec<Wanted<()>>,
    ) -> Option<FileId> {
        let free = FreeSpace { pool: ByteCount(u64::MAX), ..FreeSpace::default() };
        let mut room = Room::default();
        let mut action = self
            .session
            .step(now, ReadingEvent::Next { arrivals, batch_most: ByteCount(u64::MAX), stop: false });
        loop {
            action = match action {
                ReadingAction::Gather => {
                    let mut set = Set { scheduler, vid: self.vid, files: on_tape() };
                    let Ok(wanted) = gather_wanted(&mut set, |file| self.session.was_given(file));
                    let event = ReadingEvent::Gathered { wanted, head: self.head, track };
                    self.session.step(now, event)
                }
                ReadingAction::AskDrive(_) => {
                    let answer = DriveAnswer::NotOffered;
                    self.session.step(now, ReadingEvent::Recommended { track, answer })
                }
                ReadingAction::Check(files) => {
                    let asked: Vec<FileId> = files.iter().map(|planned| planned.wanted.file).collect();
                    let claimed = scheduler.claim(self.vid, &asked);
                    let still = files.into_iter().zip(claimed).filter(|(_, claimed)| *claimed);
                    let files = still.map(|(planned, _)| (planned, ClassId(1))).collect();
                    let event =
                        ReadingEvent::StillWanted { files, room: &mut room, free: &free, now: Timestamp(0) };
                    self.session.step(now, event)
                }
                ReadingAction::Read { files, claim } => {
                    room.give_back_all(claim);
                    assert_eq!(files.len(), 1, "a batch is one file here");
                    return files.first().map(|planned| planned.wanted.file);
                }
                ReadingAction::End(end) => {
                    assert_eq!(end, SessionEnd::Drained, "there is room for all");
                    return None;
                }
            };
        }
    }
}
