//! What is asked of a drive, from its submission to its outcome, over however many connections. No I/O: told
//! what happened and what time it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::Timestamp;
use bytes::Bytes;
use kinetic::client::{
    BatchOutcome, BatchTicket, EndReason, Event, Fate, Greeting, Options, Question, SubmitError, Ticket,
    Verdict,
};
use kinetic::{Answer, Change, Client, ClusterVersion, Frame, MessageType, OutFrame, Request, Response};
use kinetic::{Status, StatusCode};

use crate::settings::{BACKLOG_MAX, LinkSettings};

/// How long to wait before a request is sent again that the drive was too busy for; doubled each time.
const BUSY_WAIT: Duration = Duration::from_millis(20);
/// At most.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(1);

/// A request that waits for nothing but a place.
const NOW: Timestamp = Timestamp(0);

/// What is asked.
#[derive(Clone, Debug)]
pub enum Work {
    /// One request.
    Request(Request),
    /// Changes of which all are made or none.
    Batch(Vec<Change>),
}

/// An answer of the drive.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What it says. Of a write that was asked about it says that it was done.
    pub response: Response,
    /// Over which connection it came, counted from 1: what was written back over an earlier one may be lost,
    /// if the drive broke down and not the line.
    pub connection: u64,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nothing of it was done, and nothing will be.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// A read, or what may be done twice, has no answer.
    #[error("it does not answer: {0}")]
    NoAnswer(String),
    /// A write was sent, and it is not known whether it was done, or will be.
    #[error("it does not say whether it was done: {0}")]
    Unknown(String),
    /// A write was sent over a connection that broke, and now something else stands there, of this version,
    /// or nothing.
    #[error("another writer was there")]
    Overtaken(Option<Bytes>),
    /// It is not one that the drive takes.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    /// The link was closed.
    #[error("the connection was closed from this side")]
    Closed,
}

pub(crate) type Result<T> = std::result::Result<T, CallError>;
pub(crate) type Then = Box<dyn FnOnce(Result<Answered>) + Send>;

/// Whom to tell what.
pub(crate) type Told = Vec<(Then, Result<Answered>)>;

pub(crate) struct Job {
    work: Work,
    options: Options,
    expires: Timestamp,
    not_before: Timestamp,
    busy: u32,
    /// It may have been done already: this is asked instead.
    question: Option<Question>,
    /// It was sent before, over this connection or another.
    is_repeated: bool,
    then: Then,
}

impl Job {
    fn is_read(&self) -> bool {
        match &self.work {
            Work::Request(request) => matches!(fate_of(request), Fate::Repeatable),
            Work::Batch(_) => false,
        }
    }

    fn question_of(&self) -> Option<Question> {
        match &self.work {
            Work::Request(Request::Change(change)) => Question::of(change),
            Work::Request(_) => None,
            Work::Batch(changes) => Question::of_batch(changes),
        }
    }

    fn is_forced_removal(&self) -> bool {
        matches!(&self.work, Work::Request(Request::Change(Change::Delete(delete))) if delete.force)
    }

    fn message_type(&self) -> MessageType {
        match &self.work {
            Work::Request(request) => request.message_type(),
            Work::Batch(_) => MessageType::EndBatch,
        }
    }
}

/// What may be asked twice.
fn fate_of(request: &Request) -> Fate {
    match request {
        Request::Get { .. }
        | Request::GetVersion { .. }
        | Request::GetKeyRange(_)
        | Request::GetLog { .. }
        | Request::Noop
        | Request::FlushAllData
        | Request::MediaScan(_)
        | Request::MediaOptimize(_) => Fate::Repeatable,
        _ => Fate::Unknown(None),
    }
}

/// Who a drive is: its world wide name, or what else it says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name(Bytes, Bytes);

/// The requests of a link.
pub(crate) struct Desk {
    patience: Duration,
    down_patience: Duration,
    client: Option<Client>,
    /// The device has greeted, and is the right one.
    is_open: bool,
    /// It has answered something over this connection.
    has_answered: bool,
    /// Connections so far.
    connection: u64,
    cluster_version: Option<ClusterVersion>,
    name: Option<Name>,
    greeting: Option<Greeting>,
    tickets: BTreeMap<Ticket, Job>,
    batches: BTreeMap<BatchTicket, Job>,
    backlog: VecDeque<Job>,
    down_since: Timestamp,
    /// Why the last connection ended, or could not be made.
    reason: String,
    is_closed: bool,
    told: Told,
}

impl Desk {
    pub(crate) fn new(settings: &LinkSettings, now: Timestamp) -> Self {
        Desk {
            patience: settings.patience,
            down_patience: settings.down_patience,
            client: None,
            is_open: false,
            has_answered: false,
            connection: 0,
            cluster_version: None,
            name: None,
            greeting: None,
            tickets: BTreeMap::new(),
            batches: BTreeMap::new(),
            backlog: VecDeque::new(),
            down_since: now,
            reason: "it was not reached yet".to_owned(),
            is_closed: false,
            told: Vec::new(),
        }
    }

    pub(crate) fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref().filter(|_| self.is_open)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn connection(&self) -> u64 {
        self.connection
    }

    /// Whether the drive answered something over the last connection.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Takes what is to be told; nothing of the desk is held meanwhile.
    pub(crate) fn told(&mut self) -> Told {
        std::mem::take(&mut self.told)
    }

    pub(crate) fn submit(&mut self, now: Timestamp, work: Work, options: Options, then: Then) {
        let expires = now.plus(self.patience);
        let question = None;
        let job =
            Job { work, options, expires, not_before: NOW, busy: 0, question, is_repeated: false, then };
        if self.is_closed {
            return self.told.push((job.then, Err(CallError::Closed)));
        }
        if self.is_given_up(now) {
            let reason = self.reason.clone();
            return self.told.push((job.then, Err(CallError::Unreachable(reason))));
        }
        if self.backlog.len() >= BACKLOG_MAX {
            let error = SubmitError::Full(self.backlog.len());
            return self.told.push((job.then, Err(error.into())));
        }
        self.backlog.push_back(job);
        self.feed(now);
    }

    /// Whether the drive has been away for so long that nobody waits for it.
    fn is_given_up(&self, now: Timestamp) -> bool {
        !self.is_open && now.since(self.down_since) >= self.down_patience
    }

    /// A connection was made; the device has not spoken yet.
    pub(crate) fn connected(&mut self, client: Client) {
        self.connection += 1;
        (self.is_open, self.has_answered) = (false, false);
        self.client = Some(client);
    }

    /// It could not be made.
    pub(crate) fn not_connected(&mut self, reason: String) {
        self.reason = reason;
    }

    pub(crate) fn received(&mut self, now: Timestamp, frame: Frame) {
        if let Some(client) = &mut self.client {
            client.received(now, frame);
        }
        self.events(now);
    }

    /// What was read is no frame, or nothing: the connection has ended.
    pub(crate) fn lost(&mut self, now: Timestamp, error: Option<kinetic::FrameError>) {
        if let Some(client) = &mut self.client {
            match error {
                Some(error) => client.broken(error),
                None => client.lost(),
            }
        }
        self.events(now);
    }

    /// Belongs to another generation of the cluster from now on, on all connections.
    pub(crate) fn set_cluster_version(&mut self, version: ClusterVersion) {
        self.cluster_version = Some(version);
        if let Some(client) = &mut self.client {
            client.set_cluster_version(version);
        }
    }

    pub(crate) fn close(&mut self, now: Timestamp) {
        self.is_closed = true;
        if let Some(client) = &mut self.client {
            client.close();
        }
        self.events(now);
        for job in std::mem::take(&mut self.backlog) {
            self.told.push((job.then, Err(CallError::Closed)));
        }
    }

    /// Whether a connection of this number is still to be read and written.
    pub(crate) fn is_current(&self, connection: u64) -> bool {
        self.client.is_some() && self.connection == connection
    }

    /// The next frame to be written.
    pub(crate) fn transmit(&mut self, now: Timestamp) -> Option<OutFrame> {
        self.client.as_mut()?.transmit(now)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        if let Some(client) = &mut self.client {
            client.tick(now);
        }
        self.events(now);
        self.feed(now);
        if self.backlog.is_empty() {
            return;
        }
        let is_given_up = self.is_given_up(now);
        let (over, left) = std::mem::take(&mut self.backlog)
            .into_iter()
            .partition(|job: &Job| job.expires <= now || is_given_up);
        self.backlog = left;
        for job in over {
            let reason = self.reason.clone();
            let error = match &job.question {
                _ if job.is_read() => CallError::NoAnswer(reason),
                Some(_) => CallError::Unknown(reason),
                None if job.is_repeated => CallError::Unknown(reason),
                None => CallError::Unreachable(reason),
            };
            self.told.push((job.then, Err(error)));
        }
    }

    /// When to call [`Desk::tick`] next.
    pub(crate) fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let of_client = self.client.as_ref().and_then(Client::deadline);
        let of_backlog = self.backlog.iter().map(|job| {
            let is_later = self.is_open && job.not_before > now;
            let gives_up = if self.is_open { job.expires } else { self.down_since.plus(self.down_patience) };
            let next = job.expires.min(gives_up);
            if is_later { next.min(job.not_before) } else { next }
        });
        of_backlog.chain(of_client).min()
    }

    /// Gives the client what it has room for.
    fn feed(&mut self, now: Timestamp) {
        if !self.is_open {
            return;
        }
        let mut later = VecDeque::new();
        while let Some(mut job) = self.backlog.pop_front() {
            if job.not_before > now {
                later.push_back(job);
                continue;
            }
            let Some(client) = &mut self.client else { break };
            match give(client, now, &job) {
                Ok(Given::Request(ticket)) => drop(self.tickets.insert(ticket, job)),
                Ok(Given::Batch(batch)) => drop(self.batches.insert(batch, job)),
                Err(SubmitError::Full(_) | SubmitError::TooManyBatches(_)) => {
                    // When one is answered there is room.
                    job.not_before = NOW;
                    self.backlog.push_front(job);
                    break;
                }
                Err(SubmitError::NotGreeted | SubmitError::Ended) => {
                    self.backlog.push_front(job);
                    break;
                }
                Err(error) => self.told.push((job.then, Err(error.into()))),
            }
        }
        self.backlog.append(&mut later);
    }

    fn events(&mut self, now: Timestamp) {
        while let Some(event) = self.client.as_mut().and_then(Client::event) {
            match event {
                Event::Greeted(greeting) => self.greeted(*greeting),
                Event::Answered { ticket, response } => {
                    self.has_answered = true;
                    if let Some(job) = self.tickets.remove(&ticket) {
                        self.answered(now, job, response);
                    }
                }
                Event::Unanswered { ticket, fate, .. } => {
                    if let Some(job) = self.tickets.remove(&ticket) {
                        self.unanswered(job, fate);
                    }
                }
                Event::Batch { batch, outcome } => self.batch(now, batch, outcome),
                Event::Late { .. } | Event::Notice(_) => {}
                Event::Ended(reason) => self.ended(now, &reason),
            }
        }
        self.feed(now);
    }

    fn greeted(&mut self, greeting: Greeting) {
        let configuration = &greeting.configuration;
        let found = Name(configuration.world_wide_name.clone(), configuration.serial_number.clone());
        let refused = if !greeting.status.is_success() {
            Some(format!("the drive says {:?} {}", greeting.status.code, greeting.status.text))
        } else if self.name.as_ref().is_some_and(|name| *name != found) {
            Some("another drive answers at its address".to_owned())
        } else {
            None
        };
        if let Some(reason) = refused {
            if let Some(client) = &mut self.client {
                client.close();
            }
            // What comes of the closing has no better reason.
            self.reason = reason;
            return;
        }
        self.name = Some(found);
        if let Some(client) = &mut self.client {
            match self.cluster_version {
                Some(version) => client.set_cluster_version(version),
                None => {
                    let version = greeting.cluster_version.unwrap_or_default();
                    self.cluster_version = Some(version);
                    client.set_cluster_version(version);
                }
            }
        }
        self.greeting = Some(greeting);
        self.is_open = true;
    }

    fn ended(&mut self, now: Timestamp, reason: &EndReason) {
        self.client = None;
        if self.is_open && self.has_answered {
            self.down_since = now;
        }
        if self.is_open || *reason != EndReason::Closed {
            self.reason = reason.to_string();
        }
        self.is_open = false;
        assert!(self.tickets.is_empty() && self.batches.is_empty(), "what was under way has its outcome");
    }

    fn answered(&mut self, now: Timestamp, mut job: Job, response: Response) {
        if let Some(question) = job.question.take() {
            return match question.verdict(&response) {
                Verdict::Applied => {
                    let done = Response {
                        request: job.message_type(),
                        status: Status::success(),
                        cluster_version: None,
                        answer: Answer::Nothing,
                    };
                    self.tell(job, done);
                }
                Verdict::NotApplied => self.again(job),
                Verdict::Other(stands) => self.told.push((job.then, Err(CallError::Overtaken(stands)))),
                Verdict::NoAnswer if response.status.code == StatusCode::ServiceBusy => {
                    job.question = Some(question);
                    self.wait(now, job);
                }
                // Such as a version failure, which no write gets past either.
                Verdict::NoAnswer if response.status.code == StatusCode::VersionFailure => {
                    self.tell(job, response);
                }
                Verdict::NoAnswer => {
                    let reason = format!("{:?} {}", response.status.code, response.status.text);
                    self.told.push((job.then, Err(CallError::Unknown(reason))));
                }
            };
        }
        let code = response.status.code;
        let is_doubtful = !job.is_read() && code.leaves_doubt();
        // The first sending may have been done before the second came.
        let was_first = job.is_repeated && matches!(code, StatusCode::VersionMismatch | StatusCode::NotFound);
        if code == StatusCode::ServiceBusy {
            self.wait(now, job);
        } else if (is_doubtful || was_first)
            && let Some(question) = job.question_of()
        {
            job.question = Some(question);
            if was_first {
                // It is answered for good now: what stands there decides.
                job.is_repeated = false;
            }
            self.again(job);
        } else {
            self.tell(job, response);
        }
    }

    fn unanswered(&mut self, mut job: Job, fate: Fate) {
        match fate {
            Fate::NotSent => {}
            Fate::Repeatable => job.is_repeated = true,
            Fate::Unknown(question) => {
                job.is_repeated = true;
                // One that was asked already is asked again.
                match question.or_else(|| job.question.take()) {
                    // A removal whatever stands there is the same twice.
                    _ if job.is_forced_removal() => {}
                    Some(question) => job.question = Some(question),
                    None => {
                        let reason = "the connection broke".to_owned();
                        return self.told.push((job.then, Err(CallError::Unknown(reason))));
                    }
                }
            }
        }
        self.again(job);
    }

    fn batch(&mut self, now: Timestamp, batch: BatchTicket, outcome: BatchOutcome) {
        self.has_answered |= !matches!(outcome, BatchOutcome::Unanswered(_) | BatchOutcome::Aborted);
        if outcome == BatchOutcome::Open {
            return;
        }
        let Some(job) = self.batches.remove(&batch) else { return };
        let response = |status: Status| Response {
            request: MessageType::EndBatch,
            status,
            cluster_version: None,
            answer: Answer::Nothing,
        };
        match outcome {
            BatchOutcome::Open => {}
            BatchOutcome::Committed(_) => self.tell(job, response(Status::success())),
            BatchOutcome::Failed { status, .. }
            | BatchOutcome::Refused(status)
            | BatchOutcome::Doubtful { status, .. } => self.answered(now, job, response(status)),
            BatchOutcome::Aborted => self.unanswered(job, Fate::NotSent),
            BatchOutcome::Unanswered(fate) => self.unanswered(job, fate),
        }
    }

    /// Before all that has not been sent yet.
    fn again(&mut self, job: Job) {
        if self.is_closed {
            let error = match (job.is_read(), &job.question) {
                (false, Some(_)) => CallError::Unknown(CallError::Closed.to_string()),
                _ => CallError::Closed,
            };
            return self.told.push((job.then, Err(error)));
        }
        self.backlog.push_front(job);
    }

    fn wait(&mut self, now: Timestamp, mut job: Job) {
        let wait = BUSY_WAIT.saturating_mul(1 << job.busy.min(10)).min(BUSY_WAIT_MAX);
        job.busy += 1;
        job.not_before = now.plus(wait);
        self.again(job);
    }

    fn tell(&mut self, job: Job, response: Response) {
        self.told.push((job.then, Ok(Answered { response, connection: self.connection })));
    }
}

enum Given {
    Request(Ticket),
    Batch(BatchTicket),
}

fn give(client: &mut Client, now: Timestamp, job: &Job) -> std::result::Result<Given, SubmitError> {
    if let Some(question) = &job.question {
        return client.submit(now, question.request(), job.options).map(Given::Request);
    }
    let changes = match &job.work {
        Work::Request(request) => {
            return client.submit(now, request.clone(), job.options).map(Given::Request);
        }
        Work::Batch(changes) => changes,
    };
    let batch = client.begin_batch(now, job.options)?;
    for change in changes {
        if let Err(error) = client.add(batch, change.clone()) {
            client.abort(now, batch)?;
            return Err(error);
        }
    }
    client.commit(now, batch)?;
    Ok(Given::Batch(batch))
}
