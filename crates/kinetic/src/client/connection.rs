//! The state of a client: what waits, what is under way, and when each is overdue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::Timestamp;

use super::batches::Batches;
use super::{
    BatchOutcome, BatchTicket, ClientSettings, EndReason, Event, Fate, Greeting, Options, Pin, SubmitError,
    Ticket, Value, Why, fate,
};
use crate::auth::Secret;
use crate::code::PinOperation;
use crate::entry::Change;
use crate::frame::{FrameError, OutFrame};
use crate::ids::{BatchNumber, ClusterVersion, ConnectionId, Sequence};
use crate::limits::{Bounds, Limits};
use crate::message::{MessageError, Sender, seal};
use crate::request::{Request, Treatment};
use crate::status::Status;
use crate::wire;

/// Whose a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The caller's.
    Caller,
    /// The start of a batch.
    Start(BatchTicket),
    /// Its end.
    End(BatchTicket),
    /// Its abort.
    Abort(BatchTicket),
}

/// A request from its submission to its outcome.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) owner: Owner,
    pub(super) message_type: crate::MessageType,
    /// While it waits.
    request: Option<Box<(Request, Pin)>>,
    options: Options,
    deadline: Timestamp,
    /// What is known if no answer comes; once it is sent.
    fate: Fate,
    /// Its outcome was given at its deadline; its answer is still owed.
    pub(super) is_overdue: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Ungreeted { until: Timestamp },
    Open,
    Ended,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Client {
    pub(super) settings: ClientSettings,
    pub(super) state: State,
    pub(super) connection: ConnectionId,
    pub(super) greeting: Option<Box<Greeting>>,
    bounds: Bounds,
    sequence_next: i64,
    ticket_next: u64,
    pub(super) tasks: BTreeMap<Ticket, Task>,
    reads: VecDeque<Ticket>,
    writes: VecDeque<Ticket>,
    pub(super) under_way: BTreeMap<Sequence, Ticket>,
    pub(super) reads_under_way: u32,
    pub(super) writes_under_way: u32,
    pub(super) overdue: u32,
    deadlines: BTreeSet<(Timestamp, Ticket)>,
    pub(super) batches: Batches,
    pub(super) events: VecDeque<Event>,
    /// Answers to nothing that was asked.
    pub(super) strays: u64,
    /// What the device complained of by itself, if nothing came after it.
    pub(super) last_word: Option<Status>,
}

impl Client {
    /// For a connection that has just been made.
    #[must_use]
    pub fn new(settings: ClientSettings, now: Timestamp) -> Self {
        let until = now.plus(settings.greeting_within);
        Client {
            settings,
            state: State::Ungreeted { until },
            connection: ConnectionId::default(),
            greeting: None,
            bounds: Limits::default().bounds(),
            sequence_next: 1,
            ticket_next: 1,
            tasks: BTreeMap::new(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            under_way: BTreeMap::new(),
            reads_under_way: 0,
            writes_under_way: 0,
            overdue: 0,
            deadlines: BTreeSet::new(),
            batches: Batches::default(),
            events: VecDeque::new(),
            strays: 0,
            last_word: None,
        }
    }

    /// What the device said first.
    #[must_use]
    pub fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_deref()
    }

    /// The next thing that happened.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Requests that wait or are under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tasks.len()
    }

    /// Answers that came to nothing that was asked; they were dropped.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Belongs to another generation of the cluster from the next request on, as after a SETUP.
    pub fn set_cluster_version(&mut self, version: ClusterVersion) {
        self.settings.cluster_version = version;
    }

    /// Takes a request. Its outcome is an event with the ticket.
    pub fn submit(
        &mut self,
        now: Timestamp,
        request: Request,
        options: Options,
    ) -> Result<Ticket, SubmitError> {
        let has_own_call = matches!(
            request,
            Request::StartBatch | Request::EndBatch { .. } | Request::AbortBatch | Request::Pin(_)
        );
        if has_own_call {
            return Err(SubmitError::OwnCall);
        }
        self.is_open()?;
        request.check(&self.bounds)?;
        self.has_room()?;
        Ok(self.enqueue(now, Owner::Caller, request, None, options))
    }

    /// Takes an operation that a PIN allows. An erased or locked device ends its connections: then the
    /// outcome is unknown.
    pub fn submit_pin(
        &mut self,
        now: Timestamp,
        operation: PinOperation,
        pin: Secret,
        options: Options,
    ) -> Result<Ticket, SubmitError> {
        if !self.settings.is_tls {
            return Err(SubmitError::NeedsTls);
        }
        self.is_open()?;
        self.has_room()?;
        Ok(self.enqueue(now, Owner::Caller, Request::Pin(operation), Some(pin), options))
    }

    /// Begins a batch: add changes, then commit or abort it. No change is sent before the device has opened
    /// the batch: a change of a batch that it does not have would end the connection.
    pub fn begin_batch(&mut self, now: Timestamp, options: Options) -> Result<BatchTicket, SubmitError> {
        self.is_open()?;
        if self.batches.open() >= self.bounds.batches {
            return Err(SubmitError::TooManyBatches(self.bounds.batches));
        }
        self.has_room()?;
        let batch = self.batches.begin(options);
        self.enqueue(now, Owner::Start(batch), Request::StartBatch, None, options);
        Ok(batch)
    }

    /// Adds a change to a batch. There is no answer to it: the commit has one for all.
    pub fn add(&mut self, batch: BatchTicket, change: Change) -> Result<(), SubmitError> {
        self.is_open()?;
        let request = Request::Change(change);
        request.check(&self.bounds)?;
        let Request::Change(change) = request else { return Err(SubmitError::OwnCall) };
        self.batches.add(batch, change, &self.bounds)
    }

    /// Ends a batch: all of it is done, or nothing.
    pub fn commit(&mut self, now: Timestamp, batch: BatchTicket) -> Result<(), SubmitError> {
        self.is_open()?;
        self.batches.commit(batch)?;
        self.end_batches(now);
        Ok(())
    }

    /// Gives a batch up.
    pub fn abort(&mut self, now: Timestamp, batch: BatchTicket) -> Result<(), SubmitError> {
        self.is_open()?;
        self.batches.abort(batch)?;
        self.end_batches(now);
        Ok(())
    }

    /// The next frame to be sent, if there is one and the device accepts it now. What this gave out counts as
    /// sent: ask only when it can be written.
    pub fn transmit(&mut self, now: Timestamp) -> Option<OutFrame> {
        loop {
            if self.state != State::Open {
                return None;
            }
            if let Some((batch, change, options)) = self.batches.next_change() {
                let number = Some(BatchNumber(batch.0));
                let sequence = Sequence(self.sequence_next);
                let request = Request::Change(change);
                if let Ok(frame) = self.seal(&request, None, &options.treatment, number) {
                    self.batches.sent(batch, sequence);
                    // The last change of a batch lets its end follow.
                    self.end_batches(now);
                    return Some(frame);
                }
                // No frame can be made of it, so the batch cannot be what its caller wanted.
                self.batches.give_up(batch);
                self.end_batches(now);
                continue;
            }
            let ticket = self.next_waiting()?;
            if let Some(frame) = self.send(ticket) {
                return Some(frame);
            }
        }
    }

    /// Time has passed: what is overdue has its outcome.
    pub fn tick(&mut self, now: Timestamp) {
        match self.state {
            State::Ungreeted { until } if until <= now => return self.end(EndReason::GreetingOverdue),
            State::Open => {}
            _ => return,
        }
        while let Some((deadline, ticket)) = self.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            self.give_up(ticket);
        }
        self.end_batches(now);
        self.check_books();
        if self.overdue > 0 && self.overdue >= self.settings.overdue_max {
            self.end(EndReason::Unresponsive(self.overdue));
        }
    }

    /// When to call [`Client::tick`] next.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        match self.state {
            State::Ungreeted { until } => Some(until),
            State::Open => self.deadlines.first().map(|(deadline, _)| *deadline),
            State::Ended => None,
        }
    }

    /// The connection broke, or the peer closed it. Seagate's simulator says why with an ordinary status
    /// before it closes.
    pub fn lost(&mut self) {
        let reason = self.last_word.take().map_or(EndReason::Lost, EndReason::Terminated);
        self.end(reason);
    }

    /// What came is no frame.
    pub fn broken(&mut self, error: FrameError) {
        self.end(EndReason::Frame(error));
    }

    /// This side closes the connection.
    pub fn close(&mut self) {
        self.end(EndReason::Closed);
    }

    /// What has to add up: every request waits or is under way, in one place, and those under way are
    /// counted as the device counts them.
    pub(super) fn check_books(&self) {
        let waiting = self.reads.len() + self.writes.len();
        let under_way = self.reads_under_way as usize + self.writes_under_way as usize;
        assert_eq!(under_way, self.under_way.len(), "requests under way");
        assert_eq!(waiting + under_way, self.tasks.len(), "requests");
        assert_eq!(waiting + under_way, self.deadlines.len() + self.overdue as usize, "deadlines");
        assert!(self.overdue as usize <= under_way, "only what is under way can be overdue");
        assert!(self.state == State::Open || self.tasks.is_empty(), "requests without a connection");
    }

    /// Gives every request and every batch its outcome. Later calls do nothing.
    pub(super) fn end(&mut self, reason: EndReason) {
        if self.state == State::Ended {
            return;
        }
        self.state = State::Ended;
        for (ticket, task) in std::mem::take(&mut self.tasks) {
            if task.owner == Owner::Caller && !task.is_overdue {
                self.events.push_back(Event::Unanswered { ticket, fate: task.fate, why: Why::Ended });
            }
        }
        for (batch, fate) in self.batches.end() {
            self.events.push_back(Event::Batch { batch, outcome: BatchOutcome::Unanswered(fate) });
        }
        self.reads.clear();
        self.writes.clear();
        self.under_way.clear();
        self.deadlines.clear();
        (self.reads_under_way, self.writes_under_way, self.overdue) = (0, 0, 0);
        self.events.push_back(Event::Ended(reason));
        self.check_books();
    }

    pub(super) fn greeted(&mut self, greeting: Greeting) {
        self.state = State::Open;
        self.connection = greeting.connection;
        self.bounds = greeting.bounds();
        self.events.push_back(Event::Greeted(Box::new(greeting.clone())));
        self.greeting = Some(Box::new(greeting));
    }

    /// Takes a task off the books whose answer came.
    pub(super) fn answered(&mut self, sequence: Sequence) -> Option<(Ticket, Task)> {
        let ticket = self.under_way.remove(&sequence)?;
        let task = self.tasks.remove(&ticket)?;
        self.deadlines.remove(&(task.deadline, ticket));
        let under_way = match task.message_type.is_read() {
            true => &mut self.reads_under_way,
            false => &mut self.writes_under_way,
        };
        assert!(*under_way > 0, "an answer to a request that was not under way");
        *under_way -= 1;
        self.overdue -= u32::from(task.is_overdue);
        Some((ticket, task))
    }

    /// Batches whose changes are all sent are ended, and those given up are aborted.
    pub(super) fn end_batches(&mut self, now: Timestamp) {
        while let Some((batch, request, options)) = self.batches.next_end() {
            let owner = match request {
                Request::AbortBatch => Owner::Abort(batch),
                _ => Owner::End(batch),
            };
            self.enqueue(now, owner, request, None, options);
        }
        for (batch, outcome) in self.batches.outcomes() {
            self.events.push_back(Event::Batch { batch, outcome });
        }
    }

    fn is_open(&self) -> Result<(), SubmitError> {
        match self.state {
            State::Ungreeted { .. } => Err(SubmitError::NotGreeted),
            State::Open => Ok(()),
            State::Ended => Err(SubmitError::Ended),
        }
    }

    fn has_room(&self) -> Result<(), SubmitError> {
        let waiting = self.reads.len() + self.writes.len();
        if waiting < self.settings.queue_max { Ok(()) } else { Err(SubmitError::Full(waiting)) }
    }

    fn enqueue(
        &mut self,
        now: Timestamp,
        owner: Owner,
        request: Request,
        pin: Pin,
        options: Options,
    ) -> Ticket {
        let ticket = Ticket(self.ticket_next);
        self.ticket_next += 1;
        let deadline = now.plus(options.within.unwrap_or(self.settings.request_within));
        let message_type = request.message_type();
        let task = Task {
            owner,
            message_type,
            request: Some(Box::new((request, pin))),
            options,
            deadline,
            fate: Fate::NotSent,
            is_overdue: false,
        };
        self.tasks.insert(ticket, task);
        self.deadlines.insert((deadline, ticket));
        let queue = if message_type.is_read() { &mut self.reads } else { &mut self.writes };
        queue.push_back(ticket);
        ticket
    }

    /// The one submitted first among those at the heads of the queues that the device accepts now.
    fn next_waiting(&mut self) -> Option<Ticket> {
        // A device that states 0 would never be asked anything: one is always tried.
        let window = |stated: u32| stated.min(self.settings.window_max).max(1);
        let (reads_max, writes_max) = (window(self.bounds.reads), window(self.bounds.writes));
        let read = self.reads.front().copied().filter(|_| self.reads_under_way < reads_max);
        let write = self.writes.front().copied().filter(|_| self.writes_under_way < writes_max);
        let next = [read, write].into_iter().flatten().min()?;
        if Some(next) == read {
            self.reads.pop_front();
        } else {
            self.writes.pop_front();
        }
        Some(next)
    }

    fn send(&mut self, ticket: Ticket) -> Option<OutFrame> {
        let sequence = Sequence(self.sequence_next);
        let mut task = self.tasks.remove(&ticket)?;
        let (request, pin) = *task.request.take()?;
        let batch = match task.owner {
            Owner::Caller => None,
            Owner::Start(batch) | Owner::End(batch) | Owner::Abort(batch) => Some(BatchNumber(batch.0)),
        };
        match self.seal(&request, pin.as_ref(), &task.options.treatment, batch) {
            Ok(frame) => {
                task.fate = fate::after_sending(&request);
                if let Owner::End(batch) = task.owner {
                    self.batches.end_sent(batch);
                }
                let under_way = match task.message_type.is_read() {
                    true => &mut self.reads_under_way,
                    false => &mut self.writes_under_way,
                };
                *under_way += 1;
                let before = self.under_way.insert(sequence, ticket);
                assert!(before.is_none(), "two requests with one sequence");
                self.tasks.insert(ticket, task);
                self.check_books();
                Some(frame)
            }
            Err(_) => {
                self.deadlines.remove(&(task.deadline, ticket));
                self.events.push_back(Event::Unanswered { ticket, fate: Fate::NotSent, why: Why::TooLong });
                None
            }
        }
    }

    fn seal(
        &mut self,
        request: &Request,
        pin: Option<&Secret>,
        treatment: &Treatment,
        batch: Option<BatchNumber>,
    ) -> Result<OutFrame, MessageError> {
        let mut header = wire::Header {
            cluster_version: Some(self.settings.cluster_version.0),
            connection_id: Some(self.connection.0),
            sequence: Some(self.sequence_next),
            message_type: Some(request.message_type().number()),
            batch_id: batch.map(|batch| batch.0),
            ..wire::Header::default()
        };
        treatment.write(&mut header);
        let (body, value): (_, Value) = request.write();
        let command = wire::Command { header: Some(header), body, status: None };
        let sender = match pin {
            Some(pin) => Sender::Pin(Some(pin)),
            None => Sender::Identity(self.settings.identity, &self.settings.key),
        };
        let frame = seal(sender, &command, value)?;
        self.sequence_next += 1;
        Ok(frame)
    }

    /// A request is overdue.
    fn give_up(&mut self, ticket: Ticket) {
        let Some(task) = self.tasks.get_mut(&ticket) else { return };
        let (owner, fate, was_sent) = (task.owner, task.fate.clone(), task.request.is_none());
        if was_sent {
            // Its place at the device stays taken until the answer comes.
            task.is_overdue = true;
            self.overdue += 1;
        } else {
            self.tasks.remove(&ticket);
            self.reads.retain(|waiting| *waiting != ticket);
            self.writes.retain(|waiting| *waiting != ticket);
        }
        match owner {
            Owner::Caller => {
                self.events.push_back(Event::Unanswered { ticket, fate, why: Why::Deadline });
            }
            Owner::Start(batch) | Owner::End(batch) | Owner::Abort(batch) => {
                if let Some(fate) = self.batches.overdue(batch, was_sent) {
                    let outcome = BatchOutcome::Unanswered(fate);
                    self.events.push_back(Event::Batch { batch, outcome });
                }
            }
        }
    }
}
