//! The batches of a client.

use std::collections::{BTreeMap, VecDeque};

use super::{BatchOutcome, BatchTicket, Fate, Options, Question, SubmitError};
use crate::entry::Change;
use crate::ids::Sequence;
use crate::limits::Bounds;
use crate::request::{Excess, Request};
use crate::status::Status;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The device has not opened it yet.
    Opening,
    /// It is open.
    Open,
    /// Its end or its abort waits to be sent.
    Ending,
    /// Its end was sent: only the device knows.
    EndSent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    More,
    Commit,
    Abort,
}

#[derive(Debug)]
struct Batch {
    options: Options,
    phase: Phase,
    wish: Wish,
    /// Changes that are not sent yet.
    waiting: VecDeque<Change>,
    /// Sequences of those that are.
    sent: Vec<Sequence>,
    /// All changes without their values, for the question.
    changes: Vec<Change>,
    deletes: u32,
    bytes: u64,
    /// Its outcome was given; the entry stays until the device is done with it.
    is_told: bool,
}

#[derive(Debug, Default)]
pub(super) struct Batches {
    next: u32,
    batches: BTreeMap<BatchTicket, Batch>,
    outcomes: Vec<(BatchTicket, BatchOutcome)>,
}

impl Batches {
    /// Batches that the device holds or will.
    pub(super) fn open(&self) -> u32 {
        u32::try_from(self.batches.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn begin(&mut self, options: Options) -> BatchTicket {
        self.next = self.next.wrapping_add(1).max(1);
        let batch = BatchTicket(self.next);
        let new = Batch {
            options,
            phase: Phase::Opening,
            wish: Wish::More,
            waiting: VecDeque::new(),
            sent: Vec::new(),
            changes: Vec::new(),
            deletes: 0,
            bytes: 0,
            is_told: false,
        };
        self.batches.insert(batch, new);
        batch
    }

    pub(super) fn add(
        &mut self,
        batch: BatchTicket,
        change: Change,
        bounds: &Bounds,
    ) -> Result<(), SubmitError> {
        let batch = self.growing(batch)?;
        let is_delete = matches!(change, Change::Delete(_));
        let deletes = batch.deletes + u32::from(is_delete);
        let bytes = batch.bytes + change.value_bytes();
        Excess::check("operations of a batch", batch.changes.len() + 1, bounds.batch_operations)?;
        Excess::check("deletes of a batch", deletes as usize, bounds.batch_deletes)?;
        if bytes > bounds.batch_bytes {
            let what = "bytes of a batch";
            return Err(Excess { what, has: bytes, limit: bounds.batch_bytes }.into());
        }
        (batch.deletes, batch.bytes) = (deletes, bytes);
        batch.changes.push(match &change {
            Change::Put(put) => Change::Put(crate::Put { value: bytes::Bytes::new(), ..put.clone() }),
            Change::Delete(_) => change.clone(),
        });
        batch.waiting.push_back(change);
        Ok(())
    }

    pub(super) fn commit(&mut self, batch: BatchTicket) -> Result<(), SubmitError> {
        self.growing(batch)?.wish = Wish::Commit;
        Ok(())
    }

    pub(super) fn abort(&mut self, batch: BatchTicket) -> Result<(), SubmitError> {
        self.growing(batch)?.give_up();
        Ok(())
    }

    /// A change of it could not be sent.
    pub(super) fn give_up(&mut self, batch: BatchTicket) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.give_up();
        }
    }

    fn growing(&mut self, batch: BatchTicket) -> Result<&mut Batch, SubmitError> {
        let batch = self.batches.get_mut(&batch);
        batch.filter(|batch| batch.wish == Wish::More && !batch.is_told).ok_or(SubmitError::NoBatch)
    }

    /// The next change to be sent, of a batch that is open.
    pub(super) fn next_change(&mut self) -> Option<(BatchTicket, Change, Options)> {
        self.batches.iter_mut().find_map(|(ticket, batch)| {
            let change = if batch.phase == Phase::Open { batch.waiting.pop_front() } else { None };
            Some((*ticket, change?, batch.options))
        })
    }

    pub(super) fn sent(&mut self, batch: BatchTicket, sequence: Sequence) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.sent.push(sequence);
        }
    }

    /// The next end or abort to be sent.
    pub(super) fn next_end(&mut self) -> Option<(BatchTicket, Request, Options)> {
        self.batches.iter_mut().find_map(|(ticket, batch)| {
            if batch.phase != Phase::Open || !batch.waiting.is_empty() {
                return None;
            }
            let request = match batch.wish {
                Wish::More => return None,
                Wish::Commit => {
                    Request::EndBatch { count: u32::try_from(batch.sent.len()).unwrap_or(u32::MAX) }
                }
                Wish::Abort => Request::AbortBatch,
            };
            batch.phase = Phase::Ending;
            Some((*ticket, request, batch.options))
        })
    }

    pub(super) fn end_sent(&mut self, batch: BatchTicket) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.phase = Phase::EndSent;
        }
    }

    /// The device answered to the start.
    pub(super) fn started(&mut self, ticket: BatchTicket, status: Status) {
        let Some(batch) = self.batches.get_mut(&ticket) else { return };
        if status.is_success() {
            batch.phase = Phase::Open;
            if !batch.is_told {
                self.outcomes.push((ticket, BatchOutcome::Open));
            }
        } else {
            self.tell(ticket, BatchOutcome::Refused(status));
            self.batches.remove(&ticket);
        }
    }

    /// The device answered to the end.
    pub(super) fn ended(
        &mut self,
        ticket: BatchTicket,
        status: Status,
        committed: &[Sequence],
        failed: Option<Sequence>,
    ) {
        let Some(batch) = self.batches.get(&ticket) else { return };
        let place = |sequence: &Sequence| batch.sent.iter().position(|sent| sent == sequence);
        let outcome = if status.is_success() {
            BatchOutcome::Committed(committed.iter().filter_map(place).collect())
        } else if status.code.leaves_doubt() {
            BatchOutcome::Doubtful { status, question: Question::of_batch(&batch.changes) }
        } else {
            BatchOutcome::Failed { operation: failed.as_ref().and_then(place), status }
        };
        self.tell(ticket, outcome);
        self.batches.remove(&ticket);
    }

    /// The device answered to the abort: whatever it says, nothing is done.
    pub(super) fn aborted(&mut self, ticket: BatchTicket) {
        self.tell(ticket, BatchOutcome::Aborted);
        self.batches.remove(&ticket);
    }

    /// An answer about it is overdue, or what asks for one was never sent. What is known of it, unless that
    /// was told already.
    pub(super) fn overdue(&mut self, ticket: BatchTicket, was_sent: bool) -> Option<Fate> {
        let batch = self.batches.get_mut(&ticket)?;
        let fate = batch.fate();
        let is_news = !std::mem::replace(&mut batch.is_told, true);
        match batch.phase {
            // The device knows nothing of it.
            Phase::Opening if !was_sent => {
                self.batches.remove(&ticket);
            }
            // If it is opened late, it is given up.
            Phase::Opening => batch.give_up(),
            // Neither its end nor its abort was sent: it is still open there.
            Phase::Ending if !was_sent => {
                batch.phase = Phase::Open;
                batch.give_up();
            }
            Phase::Open | Phase::Ending | Phase::EndSent => {}
        }
        is_news.then_some(fate)
    }

    /// The connection ended: what is known of each.
    pub(super) fn end(&mut self) -> Vec<(BatchTicket, Fate)> {
        let batches = std::mem::take(&mut self.batches);
        batches.into_iter().filter(|(_, one)| !one.is_told).map(|(batch, one)| (batch, one.fate())).collect()
    }

    /// Outcomes that have not been told yet.
    pub(super) fn outcomes(&mut self) -> Vec<(BatchTicket, BatchOutcome)> {
        std::mem::take(&mut self.outcomes)
    }

    fn tell(&mut self, ticket: BatchTicket, outcome: BatchOutcome) {
        if self.batches.get(&ticket).is_some_and(|batch| !batch.is_told) {
            self.outcomes.push((ticket, outcome));
        }
    }
}

impl Batch {
    fn give_up(&mut self) {
        self.wish = Wish::Abort;
        self.waiting.clear();
    }

    /// A device drops batches that are not ended with their connection, so before its end is sent nothing
    /// of a batch can be done.
    fn fate(&self) -> Fate {
        match self.phase {
            Phase::EndSent => Fate::Unknown(Question::of_batch(&self.changes)),
            Phase::Opening | Phase::Open | Phase::Ending => Fate::NotSent,
        }
    }
}
