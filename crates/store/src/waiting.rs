//! Calls that wait for the writer, and which of them are served next.

use std::collections::VecDeque;

use crate::writer::Job;

/// A command with more rows is bulk work: it waits until what is small has gone before.
const SMALL_ROWS_MAX: usize = 64;
/// Rows of bulk work in one group, unless one call alone has more: about 10 ms.
const BULK_ROWS_MAX: usize = 1_000;

/// The calls, the small ones apart from bulk work. Each waits for its answer, so that the order between
/// calls is nobody's promise.
#[derive(Default)]
pub(crate) struct Waiting {
    small: VecDeque<Job>,
    bulk: VecDeque<Job>,
    /// Whether bulk work goes next where both wait.
    is_turn_of_bulk: bool,
}

impl Waiting {
    pub(crate) fn push(&mut self, job: Job) {
        if is_bulk(&job) { self.bulk.push_back(job) } else { self.small.push_back(job) }
    }

    /// Bulk work that a group had no time for goes first again.
    pub(crate) fn put_back(&mut self, jobs: Vec<Job>) {
        assert!(jobs.iter().all(is_bulk), "only bulk work is put off");
        jobs.into_iter().rev().for_each(|job| self.bulk.push_front(job));
    }

    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.bulk.len()
    }

    /// What is committed next: small calls, up to `commands_max` commands, or bulk work, at least one call of
    /// it. Where both wait they go in turn, so that neither keeps the other waiting for ever. In groups of
    /// their own, so that a small call waits for what is on its way and not for bulk work behind it, too.
    pub(crate) fn next_group(&mut self, commands_max: usize) -> Vec<Job> {
        let is_bulk = !self.bulk.is_empty() && (self.small.is_empty() || self.is_turn_of_bulk);
        self.is_turn_of_bulk = !is_bulk;
        let waited = self.len();
        let group = if is_bulk { self.next_bulk() } else { self.next_small(commands_max) };
        assert_eq!(group.len() + self.len(), waited, "each call is in the group or waits on");
        assert!(waited == 0 || !group.is_empty(), "something is done each time, or it would not end");
        group
    }

    fn next_small(&mut self, commands_max: usize) -> Vec<Job> {
        let mut group = Vec::new();
        let mut commands = 0;
        while commands < commands_max
            && let Some(job) = self.small.pop_front()
        {
            commands += job.envelopes.len();
            group.push(job);
        }
        group
    }

    fn next_bulk(&mut self) -> Vec<Job> {
        let mut group = Vec::new();
        let mut rows = 0;
        while let Some(job) = self.bulk.front() {
            rows += job.envelopes.iter().map(|envelope| envelope.command.rows()).sum::<usize>();
            if rows > BULK_ROWS_MAX && !group.is_empty() {
                break;
            }
            group.extend(self.bulk.pop_front());
        }
        group
    }
}

/// Whether a single command of the call changes many rows.
pub(crate) fn is_bulk(job: &Job) -> bool {
    job.envelopes.iter().any(|envelope| envelope.command.rows() > SMALL_ROWS_MAX)
}

#[cfg(test)]
mod tests {
    use base::{FileId, Timestamp};
    use catalogue::{Command, Envelope};
    use threads::mpsc::sync_channel;

    use super::*;

    fn job(commands: Vec<Command>) -> Job {
        let envelopes = commands.into_iter().map(|command| Envelope { at: Timestamp(0), command }).collect();
        Job { envelopes, answer: sync_channel(1).0 }
    }

    fn evict(files: u64) -> Job {
        job(vec![Command::Evict { files: (0..files).map(FileId).collect() }])
    }

    fn small() -> Job {
        job(vec![Command::OpenEpoch])
    }

    /// How many calls are bulk work, and how many are small.
    fn parts(group: &[Job]) -> (usize, usize) {
        let bulk = group.iter().filter(|job| is_bulk(job)).count();
        (bulk, group.len() - bulk)
    }

    /// Found with 90 bulk calls at once: a put waited behind all of them, 8.6 s.
    #[test]
    fn small_calls_go_before_bulk_work_which_goes_in_parts() {
        let mut waiting = Waiting::default();
        (0..90).for_each(|_| waiting.push(evict(400)));
        waiting.push(small());
        for (bulk, small) in [(0, 1), (2, 0), (2, 0)] {
            assert_eq!(parts(&waiting.next_group(10)), (bulk, small));
        }
        assert_eq!(waiting.len(), 86);
        // A call that alone has too many rows has its turn all the same, by itself.
        let mut waiting = Waiting::default();
        (0..2).for_each(|_| waiting.push(evict(10_000)));
        (0..25).for_each(|_| waiting.push(small()));
        for (bulk, small) in [(0, 10), (1, 0), (0, 10), (1, 0), (0, 5)] {
            assert_eq!(parts(&waiting.next_group(10)), (bulk, small));
        }
    }

    /// A group that took bulk work along kept a put waiting for the group before and for all of its own.
    #[test]
    fn a_small_call_waits_for_one_group_of_bulk_work_and_is_committed_without_any() {
        let mut waiting = Waiting::default();
        (0..22).for_each(|_| waiting.push(evict(400)));
        waiting.next_group(10);
        for _ in 0..5 {
            // While bulk work is committed another put comes, as from a client who puts file after file.
            waiting.push(small());
            assert_eq!(parts(&waiting.next_group(10)), (0, 1));
            waiting.push(small());
            assert_eq!(parts(&waiting.next_group(10)), (2, 0));
            assert_eq!(parts(&waiting.next_group(10)), (0, 1));
            assert_eq!(parts(&waiting.next_group(10)), (2, 0));
        }
    }

    #[test]
    fn many_small_commands_in_one_call_are_no_bulk_work() {
        let mut waiting = Waiting::default();
        waiting.push(evict(65));
        waiting.push(job(vec![Command::OpenEpoch; 3_000]));
        waiting.push(evict(64));
        assert_eq!(parts(&waiting.next_group(4_096)), (0, 2));
        assert_eq!(parts(&waiting.next_group(4_096)), (1, 0));
        waiting.put_back(vec![evict(65)]);
        assert_eq!(waiting.len(), 1);
    }
}
