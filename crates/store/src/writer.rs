//! The one thread that writes, with group commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threads::mpsc::{Receiver, SyncSender};

use base::planted::{Bug, is_planted};
use base::{Clock, Duration};
use catalogue::{Batch, Command, Envelope, KvError, Need, Outcome, ReadError, Rejection, View};

use crate::change_log::{AppendError, ChangeLog, Changes, Durable, Term};
use crate::engine::{Engine, Writing};
use crate::error::ExecuteError;
use crate::room::{Lack, Refused, Shortage};
use crate::waiting::{Waiting, is_bulk};

/// Most commands in one group commit, unless one call alone has more.
pub const BATCH_MAX: usize = 4096;
/// Bulk work is added to a group for so long; what small calls wait for is that, and two commits.
const GROUP_TIME: Duration = Duration::from_millis(5);
/// Most commands in one call.
pub const EXECUTE_ALL_MAX: usize = 65_536;
/// Most calls that wait for the writer; further ones wait for room.
pub const QUEUE_MAX: usize = 1024;

pub(crate) type Answer = Result<Vec<Result<Outcome, Rejection>>, ExecuteError>;

/// The commands of one call.
pub(crate) struct Job {
    /// Their time is set by the writer.
    pub(crate) envelopes: Vec<Envelope>,
    pub(crate) answer: SyncSender<Answer>,
}

/// What happened to a group.
enum Group {
    /// Durable; the answers to each job, or to the first ones if there was no time for the others.
    Committed(Vec<Vec<Result<Outcome, Rejection>>>),
    /// Dropped for lack of room.
    Full(Shortage),
    /// Dropped, since it would have kept something new in the last part of the map, which is for what makes
    /// room.
    IntoLastPart,
    /// Dropped since the change log took nothing.
    NotNow(String),
    /// The engine failed; what is durable is unknown.
    Failed(String),
}

pub(crate) struct Writer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) batch_max: usize,
    pub(crate) commits: Arc<AtomicU64>,
    pub(crate) is_stopped: Arc<AtomicBool>,
    pub(crate) log: Box<dyn ChangeLog>,
    /// Under which this writer appends to the log.
    pub(crate) term: Term,
    /// The last commit was an empty one, for the pages that the one before gave up.
    pub(crate) is_turned: bool,
    #[cfg(test)]
    pub(crate) commit_fails: Arc<AtomicBool>,
}

impl Writer {
    /// Works until all senders are gone or the engine fails. After a failed commit the pages in memory say
    /// nothing about
    /// those on disk, so that nothing is tried again: the thread ends, and with it every call.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        let mut waiting = Waiting::default();
        loop {
            if waiting.len() == 0 {
                let Ok(first) = jobs.recv() else { return };
                waiting.push(first);
            }
            while waiting.len() < QUEUE_MAX
                && let Ok(next) = jobs.try_recv()
            {
                waiting.push(next);
            }
            let Some(left) = self.serve(waiting.next_group(self.batch_max)) else { return };
            waiting.put_back(left);
        }
    }

    /// Serves a group; gives the bulk work that there was no time for, and `None` if the writer must stop.
    fn serve(&mut self, group: Vec<Job>) -> Option<Vec<Job>> {
        let mut group = match self.engine.lack(self.clock.steady()) {
            Ok(None) => group,
            Ok(Some(lack)) => refuse(group, lack),
            Err(error) => return self.end(group, failure(error)),
        };
        if group.is_empty() {
            return Some(group);
        }
        let ended = self.perform(&mut group);
        self.end(group, ended)
    }

    fn end(&mut self, mut group: Vec<Job>, ended: Group) -> Option<Vec<Job>> {
        match ended {
            Group::Committed(answers) => {
                assert!(!answers.is_empty() && answers.len() <= group.len(), "the first calls are answered");
                let left = group.split_off(answers.len());
                for (job, answer) in group.into_iter().zip(answers) {
                    reply(&job, Ok(answer));
                }
                Some(left)
            }
            // One of them needs too much; by itself each of the others may fit.
            Group::Full(_) | Group::IntoLastPart if group.len() > 1 => {
                group.into_iter().try_fold(Vec::new(), |_, job| self.serve(vec![job]))
            }
            // The group has no other.
            Group::Full(shortage) => {
                group.into_iter().try_fold(Vec::new(), |_, job| self.serve_in_parts(job, shortage))
            }
            Group::IntoLastPart => {
                group.iter().for_each(|job| reply(job, Err(Shortage::Map.into())));
                Some(Vec::new())
            }
            Group::NotNow(why) => {
                group.iter().for_each(|job| reply(job, Err(ExecuteError::NotNow(why.clone()))));
                Some(Vec::new())
            }
            Group::Failed(reason) => {
                self.is_stopped.store(true, Ordering::SeqCst);
                group.iter().for_each(|job| reply(job, Err(ExecuteError::Engine(reason.clone()))));
                None
            }
        }
    }

    /// Serves a call that found no room by itself. What makes room is done in halves, and halves of these,
    /// each a commit of its own. The log has the parts as they were applied, so that a replica does the same;
    /// whoever gave a command for some of a work gives it again while there is more, and of a list all is
    /// done here.
    ///
    /// The whole was found valid before it found no room, and nothing comes between its parts: none of them
    /// is refused for what it asks.
    fn serve_in_parts(&mut self, mut job: Job, shortage: Shortage) -> Option<Vec<Job>> {
        let need = need(&job);
        // The last one is next; the whole has been tried.
        let mut parts = vec![std::mem::take(&mut job.envelopes)];
        let mut tried = Some(shortage);
        let mut answer: Option<Vec<Result<Outcome, Rejection>>> = None;
        while let Some(part) = parts.pop() {
            job.envelopes = part;
            let performed = |writer: &mut Self, job: &mut Job| writer.perform(std::slice::from_mut(job));
            let ended = tried.take().map_or_else(|| performed(self, &mut job), Group::Full);
            match ended {
                Group::Committed(mut answers) => {
                    let next = answers.pop().unwrap_or_default();
                    assert!(answers.is_empty(), "a part is of one call");
                    answer = Some(match answer.take() {
                        Some(before) => joined(before, next),
                        None => next,
                    });
                }
                Group::Full(shortage) => match halves(&job, need) {
                    Some((first, rest)) => parts.extend(rest.into_iter().chain([first])),
                    None => match self.turn() {
                        Ok(true) => parts.push(std::mem::take(&mut job.envelopes)),
                        Ok(false) => {
                            let lacks = self.lacks(&job, need, shortage);
                            let is_begun = answer.is_some();
                            let error = if is_begun { ExecuteError::InPart(lacks) } else { lacks.into() };
                            reply(&job, Err(error));
                            return Some(Vec::new());
                        }
                        Err(error) => return self.end(vec![job], Group::Failed(error.to_string())),
                    },
                },
                // What is done stays done.
                Group::NotNow(why) if answer.is_some() => {
                    reply(&job, Err(ExecuteError::InPartNotNow(why)));
                    return Some(Vec::new());
                }
                ended => return self.end(vec![job], ended),
            }
        }
        reply(&job, Ok(answer.unwrap_or_default()));
        Some(Vec::new())
    }

    /// What a call lacks that cannot be made smaller.
    fn lacks(&self, job: &Job, need: Need, shortage: Shortage) -> Shortage {
        if need != Need::Room {
            return shortage;
        }
        self.engine.is_exhausted(shortage);
        let is_little = job.envelopes.iter().map(|envelope| envelope.command.rows()).sum::<usize>() <= 1;
        // What is so little fits into what is kept for it, if nobody keeps the pages there.
        if shortage == Shortage::Map && is_little && self.engine.is_kept_by_readers() {
            return Shortage::Readers;
        }
        shortage
    }

    /// Has the engine's free pages used again, as far as readers let it: what a commit gives up is written
    /// again from the second commit behind it on, and where nothing finds room there would be none. Whether
    /// that can have changed anything.
    fn turn(&mut self) -> Result<bool, KvError> {
        if std::mem::replace(&mut self.is_turned, true) {
            return Ok(false);
        }
        match self.engine.commit_nothing() {
            Err(KvError::MapFull | KvError::DiskFull) => Ok(false),
            turned => turned,
        }
    }

    fn perform(&mut self, group: &mut [Job]) -> Group {
        let mut txn = match self.engine.write() {
            Ok(txn) => txn,
            Err(error) => return failure(error),
        };
        let before = match View::new(txn.transaction()).last_change() {
            Ok(before) => before,
            Err(ReadError::Kv(error)) => return failure(error),
            Err(error) => return Group::Failed(error.to_string()),
        };
        let mut answers = Vec::with_capacity(group.len());
        let mut batch = Batch::new(txn.transaction());
        let begun = self.clock.steady();
        for job in &mut *group {
            let has_time = || self.clock.steady().saturating_sub(begun) < GROUP_TIME;
            if !answers.is_empty() && is_bulk(job) && !has_time() {
                break;
            }
            let mut answer = Vec::with_capacity(job.envelopes.len());
            for envelope in &mut job.envelopes {
                envelope.at = self.clock.now();
                match batch.apply(envelope) {
                    Err(Rejection::Read(ReadError::Kv(error))) => return failure(error),
                    result => answer.push(result),
                }
            }
            assert_eq!(answer.len(), job.envelopes.len(), "each command has its answer, at its place");
            answers.push(answer);
        }
        assert!(answers.len() <= group.len() && !answers.is_empty(), "the first calls of a group are done");
        if let Err(error) = batch.finish() {
            return failure(error);
        }
        if !txn.is_changed() {
            return Group::Committed(answers);
        }
        if group.iter().take(answers.len()).any(|job| need(job) > Need::Room) {
            match self.engine.is_in_last_part(&txn) {
                Ok(false) => {}
                Ok(true) => return Group::IntoLastPart,
                Err(error) => return failure(error),
            }
        }
        #[cfg(test)]
        if self.commit_fails.load(Ordering::SeqCst) {
            return Group::Failed("planted".to_owned());
        }
        if is_planted(Bug::EarlyAcknowledgement) {
            for (job, answer) in group.iter().zip(&mut answers) {
                // Taken, not left out: a job without an answer would be done once more, for ever.
                reply(job, Ok(std::mem::take(answer)));
            }
        }
        let durable = match append(self.log.as_mut(), self.term, before, &mut txn) {
            Ok(durable) => durable,
            Err(ended) => return ended,
        };
        match (txn.commit(), durable) {
            (Ok(()), _) => {
                self.is_turned = false;
                self.commits.fetch_add(1, Ordering::Relaxed);
                Group::Committed(answers)
            }
            (Err(error), Durable::WithCommit) => {
                failure(self.engine.after_failure(error, self.clock.steady()))
            }
            // The log has them: to refuse them now would be an answer that no other replica gives.
            (Err(error), Durable::Already) => Group::Failed(error.to_string()),
        }
    }
}

/// Appends to the log what was applied behind change `before` in a transaction.
fn append(log: &mut dyn ChangeLog, term: Term, before: u64, txn: &mut Writing<'_>) -> Result<Durable, Group> {
    let changes = Changes::behind(before, View::new(txn.transaction()));
    let changes = changes.map_err(|error| Group::Failed(error.to_string()))?;
    assert!(changes.last() >= before, "the log only grows");
    if changes.is_empty() {
        return Ok(Durable::WithCommit);
    }
    log.append(term, &changes).map_err(|error| match error {
        AppendError::NotNow(why) => Group::NotNow(why),
        error @ (AppendError::Fenced(_) | AppendError::Unknown(_)) => Group::Failed(error.to_string()),
    })
}

/// Refuses what may not use the room that is left; gives the others.
fn refuse(group: Vec<Job>, (shortage, refused): Lack) -> Vec<Job> {
    let least = if refused == Refused::Growth { Need::Growth } else { Need::Work };
    let (refused, rest) = group.into_iter().partition::<Vec<_>, _>(|job| need(job) >= least);
    refused.iter().for_each(|job| reply(job, Err(shortage.into())));
    rest
}

/// The halves of a call that makes room and can be done in parts.
fn halves(job: &Job, need: Need) -> Option<(Vec<Envelope>, Option<Vec<Envelope>>)> {
    let [envelope] = job.envelopes.as_slice() else { return None };
    let (first, rest) = envelope.command.halves().filter(|_| need == Need::Room)?;
    let call = |command: Command| vec![Envelope { at: envelope.at, command }];
    Some((call(first), rest.map(call)))
}

/// What two parts of a call did together.
fn joined(
    before: Vec<Result<Outcome, Rejection>>,
    next: Vec<Result<Outcome, Rejection>>,
) -> Vec<Result<Outcome, Rejection>> {
    assert_eq!(before.len(), next.len(), "each part answers the same commands");
    let both = before.into_iter().zip(next);
    both.map(|(before, next)| before.and_then(|before| next.map(|next| before.and(next)))).collect()
}

/// What the most demanding of its commands needs.
fn need(job: &Job) -> Need {
    job.envelopes.iter().map(|envelope| envelope.command.need()).max().unwrap_or(Need::Room)
}

/// A panic must not look like a writer that works.
impl Drop for Writer {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }
}

fn failure(error: KvError) -> Group {
    match error {
        // LMDB finds this out before it writes the first page.
        KvError::MapFull => Group::Full(Shortage::Map),
        // What pages it has written are named by none of those that were durable before.
        KvError::DiskFull => Group::Full(Shortage::Disk),
        other => Group::Failed(other.to_string()),
    }
}

/// A caller that has gone away needs no answer.
fn reply(job: &Job, answer: Answer) {
    let _ = job.answer.send(answer);
}
