//! The threads that work on the store, for all connections; and the one that makes durable what they did.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use kinetic::Priority;
use kinetic::StatusCode;
use kinetic::server::{JobId, Outcome, Work};
use threads::{Condvar, JoinHandle, Mutex, spawn_guarded};

use crate::budget::Permit;
use crate::error::StartError;
use crate::session::Session;
use crate::store::{Done, code_of};

/// Something to be done for a connection.
pub(crate) struct Task {
    pub(crate) session: Arc<Session>,
    pub(crate) work: Work,
    /// When nobody waits for it any more.
    pub(crate) until: Option<Instant>,
    pub(crate) permit: Option<Permit>,
}

#[derive(Default)]
struct Queue {
    /// The highest priority last.
    tasks: BTreeMap<Priority, VecDeque<Task>>,
    is_stopping: bool,
}

type Outcomes = Vec<(JobId, Outcome)>;

#[derive(Default)]
struct ToSync {
    waiting: Vec<(Arc<Session>, JobId)>,
    is_stopping: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    filled: Condvar,
    to_sync: Mutex<ToSync>,
    is_to_sync: Condvar,
}

pub(crate) struct Pool {
    inner: Arc<Inner>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    syncer: Mutex<Option<JoinHandle<()>>>,
}

fn dying() {}

impl Pool {
    pub(crate) fn start(workers: usize) -> Result<Pool, StartError> {
        let inner = Arc::new(Inner::default());
        let start = |name: &str, run: fn(&Inner)| {
            let inner = Arc::clone(&inner);
            spawn_guarded(name, move || run(&inner), dying)
                .map_err(|source| StartError::System { what: "a thread", source })
        };
        let handles = (0..workers.max(1))
            .map(|number| start(&format!("kinetic-work-{number}"), work))
            .collect::<Result<_, _>>()?;
        let syncer = start("kinetic-sync", sync)?;
        Ok(Pool { inner, workers: Mutex::new(handles), syncer: Mutex::new(Some(syncer)) })
    }

    /// Has something done. How much waits is bounded by what each connection may have under way.
    pub(crate) fn submit(&self, task: Task) {
        let priority = task.work.treatment.priority.unwrap_or(Priority::NORMAL);
        let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.tasks.entry(priority).or_default().push_back(task);
        drop(queue);
        self.inner.filled.notify_one();
    }

    /// Does what there is and ends.
    pub(crate) fn stop(&self) {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.inner.filled.notify_all();
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            let _ = worker.join();
        }
        self.inner.to_sync.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.inner.is_to_sync.notify_all();
        if let Some(syncer) = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = syncer.join();
        }
    }
}

fn next(inner: &Inner) -> Option<Task> {
    let mut queue = inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let task = queue.tasks.values_mut().rev().find_map(VecDeque::pop_front);
        if task.is_some() {
            return task;
        }
        if queue.is_stopping {
            return None;
        }
        queue = inner.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn work(inner: &Inner) {
    while let Some(Task { session, work, until, permit }) = next(inner) {
        let job = work.job;
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        let done = if is_late {
            let text = "its time was over before it began";
            Done::Now(Outcome::refused(StatusCode::ServiceBusy, text))
        } else {
            session.execute(work, until)
        };
        match done {
            Done::Now(outcome) => session.complete(vec![(job, outcome)], permit),
            Done::AfterSync => {
                let mut to_sync = inner.to_sync.lock().unwrap_or_else(PoisonError::into_inner);
                to_sync.waiting.push((session, job));
                drop(to_sync);
                inner.is_to_sync.notify_one();
            }
        }
    }
}

/// One sync makes durable all that was done before it began.
fn sync(inner: &Inner) {
    loop {
        let mut to_sync = inner.to_sync.lock().unwrap_or_else(PoisonError::into_inner);
        while to_sync.waiting.is_empty() {
            if to_sync.is_stopping {
                return;
            }
            to_sync = inner.is_to_sync.wait(to_sync).unwrap_or_else(PoisonError::into_inner);
        }
        let waiting = std::mem::take(&mut to_sync.waiting);
        drop(to_sync);
        let Some((first, _)) = waiting.first() else { continue };
        let synced = first.flush();
        let mut by_session: Vec<(Arc<Session>, Outcomes)> = Vec::new();
        for (session, job) in waiting {
            let outcome = match &synced {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::refused(code_of(error), &error.to_string()),
            };
            match by_session.iter_mut().find(|(one, _)| Arc::ptr_eq(one, &session)) {
                Some((_, jobs)) => jobs.push((job, outcome)),
                None => by_session.push((session, vec![(job, outcome)])),
            }
        }
        for (session, jobs) in by_session {
            session.complete(jobs, None);
        }
    }
}
