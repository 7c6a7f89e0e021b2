//! What waits for a drive, in one direction.

use std::collections::VecDeque;
use std::sync::PoisonError;
use threads::{Condvar, Mutex};

use crate::config::DRIVE_QUEUE_MAX;
use crate::drives::Job;
use crate::gather::lock;
use crate::order::RunOrder;

/// Jobs in the order of [`RunOrder`], at most [`DRIVE_QUEUE_MAX`]; who brings more waits, but not for a queue
/// that is emptied.
pub(crate) struct JobQueue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    order: RunOrder,
    /// Calls are made when all that came before them was handed over, and nothing that came behind.
    calls_in_turn: bool,
    /// Counts emptyings, so that whoever waited meanwhile gives up.
    cleared: u64,
    closed: bool,
    /// Its thread is gone.
    ended: bool,
}

impl State {
    /// What tape streams and the upkeep have there is bounded by their memory, and takes no place from
    /// others.
    fn is_full(&self) -> bool {
        let counts = |job: &&Job| !matches!(job, Job::Submit(wanted, _) if !wanted.counts());
        self.jobs.len() >= DRIVE_QUEUE_MAX && self.jobs.iter().filter(counts).count() >= DRIVE_QUEUE_MAX
    }

    /// The job that comes next.
    fn take(&mut self) -> Option<Job> {
        let wanted = |job: &Job| match job {
            Job::Submit(wanted, _) => Some(*wanted),
            Job::Call(_) => None,
        };
        let first_call = self.jobs.iter().position(|job| matches!(job, Job::Call(_)));
        let next = match first_call {
            Some(before) if self.calls_in_turn && before > 0 => {
                self.order.choose(self.jobs.iter().take(before).map(wanted))
            }
            _ => self.order.choose(self.jobs.iter().map(wanted)),
        };
        self.jobs.remove(next)
    }
}

impl JobQueue {
    /// For reads, and for calls that only look: these wait for nothing.
    pub(crate) fn of_reads() -> Self {
        JobQueue::with(RunOrder::of_reads(), false)
    }

    /// For writes, and for calls that change something.
    pub(crate) fn of_writes() -> Self {
        JobQueue::with(RunOrder::of_writes(), true)
    }

    fn with(order: RunOrder, calls_in_turn: bool) -> Self {
        let jobs = VecDeque::new();
        let state = State { jobs, order, calls_in_turn, cleared: 0, closed: false, ended: false };
        JobQueue { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Queues a job; drops it if the queue is emptied or closed meanwhile.
    pub(crate) fn push(&self, job: Job) {
        let mut state = lock(&self.state);
        let cleared = state.cleared;
        while state.is_full() && !state.closed && state.cleared == cleared {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.closed && state.cleared == cleared {
            state.jobs.push_back(job);
            self.changed.notify_all();
            return;
        }
        drop(state);
        drop(job);
    }

    /// Queues a job, full or not.
    pub(crate) fn push_now(&self, job: Job) {
        self.push_at_once(job, VecDeque::push_back);
    }

    /// Queues a job in front of all others, full or not.
    pub(crate) fn push_first(&self, job: Job) {
        self.push_at_once(job, VecDeque::push_front);
    }

    fn push_at_once(&self, job: Job, push: fn(&mut VecDeque<Job>, Job)) {
        let mut state = lock(&self.state);
        if state.ended {
            drop(state);
            return drop(job);
        }
        push(&mut state.jobs, job);
        self.changed.notify_all();
    }

    /// The next job; waits for one. `None` when the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.take() {
                self.changed.notify_all();
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether something waits that is not of the upkeep.
    pub(crate) fn others_wait(&self) -> bool {
        let is_upkeep = |job: &Job| matches!(job, Job::Submit(wanted, _) if wanted.is_upkeep());
        !lock(&self.state).jobs.iter().all(is_upkeep)
    }

    /// Drops all jobs that wait, and those that wait to be queued.
    pub(crate) fn clear(&self) {
        let jobs = {
            let mut state = lock(&self.state);
            state.cleared += 1;
            std::mem::take(&mut state.jobs)
        };
        self.changed.notify_all();
        // Their tickets and buffers take other locks.
        drop(jobs);
    }

    /// Its thread has ended, maybe with a panic: drops what waits and what is still to come, so that nobody
    /// waits for the results.
    pub(crate) fn end(&self) {
        {
            let mut state = lock(&self.state);
            (state.closed, state.ended) = (true, true);
        }
        self.clear();
    }

    /// Takes no more jobs; those that wait are done.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
