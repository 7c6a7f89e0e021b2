//! One connection: its thread reads, answers what costs nothing, and waits; others complete work.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use base::{Duration, Timestamp};
use kinetic::OutFrame;
use kinetic::server::{Action, Connection, JobId, Operation, Outcome, Work};
use kinetic::{PowerLevel, StatusCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use threads::Mutex;
use valuelog::LogError;

use crate::budget::Permit;
use crate::incoming::{Incoming, Next};
use crate::limits::{ANSWERS_MAX, LINGER_WITHIN, STOP_LINGER};
use crate::link::{Came, Link};
use crate::pool::Task;
use crate::server::Shared;
use crate::store::Done;

type Answers = Vec<(OutFrame, Option<Permit>)>;

/// A connection, as all who work for it have it.
pub(crate) struct Session {
    pub(crate) link: Link,
    core: Mutex<Option<Connection>>,
    shared: Arc<Shared>,
    /// No more requests are taken.
    is_stopping: AtomicBool,
}

/// What a wait was for.
struct Wanted {
    reads: bool,
    until: Option<Instant>,
}

impl Session {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        socket: TcpStream,
        tls: Option<rustls::ServerConnection>,
    ) -> std::io::Result<Session> {
        Ok(Session {
            link: Link::new(socket, tls)?,
            core: Mutex::new(None),
            shared: Arc::clone(shared),
            is_stopping: AtomicBool::new(false),
        })
    }

    /// No more requests are taken; what is under way is answered.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.link.wake.ring();
    }

    fn now(&self) -> Timestamp {
        Timestamp(0).plus(self.shared.started.elapsed())
    }

    /// Does something to the core, and gives what follows from it.
    fn with_core(
        &self,
        act: impl FnOnce(&mut Connection, &mut kinetic::server::Device, &mut Vec<Action>),
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(core) = core.as_mut() {
            let mut device = self.shared.device();
            act(core, &mut device, &mut actions);
        }
        actions
    }

    fn jobs(&self) -> usize {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Connection::jobs)
    }

    /// Work is done; `permit`: the memory of the answer.
    pub(crate) fn complete(&self, jobs: Vec<(JobId, Outcome)>, permit: Option<Permit>) {
        let now = self.now();
        let actions = self.with_core(|core, device, actions| {
            for (job, outcome) in jobs {
                core.done(device, now, job, outcome, actions);
            }
        });
        let mut permit = permit;
        let frames = actions.into_iter().filter_map(|action| match action {
            Action::Send(frame) => Some(frame),
            _ => None,
        });
        let frames: Vec<_> = frames.map(|frame| (frame, permit.take())).collect();
        self.link.send(frames);
        if self.is_stopping.load(Ordering::SeqCst) {
            self.link.wake.ring();
        }
    }

    /// Does what a connection has handed out.
    pub(crate) fn execute(&self, work: Work, until: Option<Instant>) -> Done {
        match work.operation {
            Operation::Power(level) => {
                if level == PowerLevel::Shutdown {
                    self.shared.ask_to_stop();
                }
                self.shared.store.execute(Operation::Power(level), until)
            }
            Operation::Push(push) => self.shared.push(work.identity, push, until),
            Operation::Log(types) => Done::Now(Outcome::Log(Box::new(self.shared.log(types)))),
            operation => self.shared.store.execute(operation, until),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), LogError> {
        self.shared.store.log.flush()
    }

    /// The life of the connection.
    pub(crate) fn run(self: &Arc<Self>) {
        let limits = self.shared.device().frame_limits();
        let mut incoming = Incoming::new(limits);
        if self.shake_hands(&mut incoming) && self.greet() {
            self.serve(&mut incoming);
        }
        self.part(&mut incoming);
        self.with_core(|core, device, _| core.closed(device));
        self.link.cut();
    }

    /// Agrees on TLS, where there is some.
    fn shake_hands(&self, incoming: &mut Incoming) -> bool {
        let until = Instant::now() + self.shared.patience().handshake;
        while self.link.is_handshaking() {
            match incoming.read(&self.link) {
                Came::Bytes(_) => {}
                Came::Ended => return false,
                Came::Nothing if !self.link.is_handshaking() => {}
                Came::Nothing => {
                    if Instant::now() >= until || self.is_stopping.load(Ordering::SeqCst) {
                        return false;
                    }
                    self.wait(&Wanted { reads: true, until: Some(until) });
                }
            }
        }
        true
    }

    /// Speaks first; `false` if there is no place for another connection.
    fn greet(&self) -> bool {
        let accepted = self.shared.device().accept(self.link.is_tls());
        match accepted {
            Ok((connection, greeting)) => {
                *self.core.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
                self.link.send([(greeting, None)]);
                true
            }
            Err(last_word) => {
                self.link.send([(last_word, None)]);
                false
            }
        }
    }

    fn serve(self: &Arc<Self>, incoming: &mut Incoming) {
        let mut held: VecDeque<Work> = VecDeque::new();
        let mut answers: Answers = Vec::new();
        loop {
            self.hand_out(&mut held);
            let is_stopping = self.is_stopping.load(Ordering::SeqCst);
            let mut reads = held.is_empty() && !is_stopping && !self.link.is_full();
            if reads {
                match incoming.next(&self.shared.budget, &self.link) {
                    Ok(Next::Frame(frame)) => {
                        let now = self.now();
                        let actions = self
                            .with_core(|core, device, actions| core.received(device, now, frame, actions));
                        if self.follow(actions, &mut held, &mut answers) {
                            self.link.send(answers);
                            return;
                        }
                        if answers.len() >= ANSWERS_MAX {
                            self.link.send(answers.drain(..));
                        }
                        continue;
                    }
                    Ok(Next::More) => {
                        self.link.send(answers.drain(..));
                        match incoming.read(&self.link) {
                            Came::Bytes(_) => continue,
                            Came::Ended => return,
                            Came::Nothing => {}
                        }
                    }
                    Ok(Next::NoMemory) => reads = false,
                    Err(error) => {
                        let actions =
                            self.with_core(|core, device, actions| core.broken(device, error, actions));
                        self.follow(actions, &mut held, &mut answers);
                        self.link.send(answers);
                        return;
                    }
                }
            }
            self.link.send(answers.drain(..));
            if !reads {
                incoming.excuse();
            }
            if is_stopping && self.jobs() == 0 && held.is_empty() {
                return;
            }
            // Only what the client owes is held against it.
            let frame = incoming.began.filter(|_| reads).map(|began| began + self.shared.patience().frame);
            if frame.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            if !self.wait(&Wanted { reads, until: frame }) {
                return;
            }
        }
    }

    /// Does what follows from a frame; whether the connection ends.
    fn follow(
        self: &Arc<Self>,
        actions: Vec<Action>,
        held: &mut VecDeque<Work>,
        answers: &mut Answers,
    ) -> bool {
        let mut is_end = false;
        for action in actions {
            match action {
                Action::Send(frame) => answers.push((frame, None)),
                Action::Execute(work) => held.push_back(work),
                Action::Close => is_end = true,
            }
        }
        self.hand_out(held);
        is_end
    }

    /// Hands out work for which there is memory.
    fn hand_out(self: &Arc<Self>, held: &mut VecDeque<Work>) {
        while let Some(work) = held.pop_front() {
            let memory = self.shared.store.memory(&work.operation);
            let permit = match memory {
                0 => None,
                bytes => match self.shared.budget.take(bytes, &self.link.wake) {
                    Some(permit) => Some(permit),
                    None => {
                        held.push_front(work);
                        return;
                    }
                },
            };
            let until = work.treatment.timeout.and_then(|within| Instant::now().checked_add(within));
            self.shared.pool.submit(Task { session: Arc::clone(self), work, until, permit });
        }
    }

    /// Waits until there is something to do; `false` if the client has taken nothing for too long.
    fn wait(&self, wanted: &Wanted) -> bool {
        let blocked = self.link.blocked();
        let until = [wanted.until, blocked.map(|since| since + self.shared.patience().send)];
        let until = until.into_iter().flatten().min();
        let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, wanted.reads);
        flags.set(PollFlags::OUT, blocked.is_some());
        let mut polled = [PollFd::new(&self.link, flags), PollFd::new(&*self.link.wake, PollFlags::IN)];
        let timeout = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        });
        let _ = poll(&mut polled, timeout.as_ref());
        let came = polled[0].revents();
        let is_woken = !polled[1].revents().is_empty();
        if is_woken {
            self.link.wake.clear();
        }
        if blocked.is_some() && came.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
            self.link.unblock();
        } else if let Some(since) = blocked {
            return since.elapsed() < self.shared.patience().send;
        } else if !wanted.reads && came.intersects(PollFlags::ERR | PollFlags::HUP) {
            // Nobody is there any more.
            return false;
        }
        true
    }

    /// Sends the last words, and waits a little for the other end to have them.
    fn part(&self, incoming: &mut Incoming) {
        let is_stopping = self.is_stopping.load(Ordering::SeqCst);
        let until = Instant::now() + if is_stopping { STOP_LINGER } else { LINGER_WITHIN };
        let mut is_finished = false;
        while Instant::now() < until {
            if self.link.is_drained() && !std::mem::replace(&mut is_finished, self.link.is_drained()) {
                self.link.finish();
            }
            match incoming.skip(&self.link) {
                Came::Ended => return,
                Came::Bytes(_) => continue,
                Came::Nothing => {}
            }
            if !self.wait(&Wanted { reads: true, until: Some(until) }) {
                return;
            }
        }
    }
}

/// The answer to what cannot be done for lack of others.
pub(crate) fn busy(text: &str) -> Done {
    Done::Now(Outcome::refused(StatusCode::ServiceBusy, text))
}

/// How much time is left.
pub(crate) fn left(until: Option<Instant>, most: Duration) -> Duration {
    until.map_or(most, |until| until.saturating_duration_since(Instant::now()).min(most))
}
