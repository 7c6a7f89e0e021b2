//! What waits to be written down: a bounded queue between those who serve and the thread that writes.
//!
//! Who serves takes a lock for the time of a push, and never waits for a disk. What finds no room is left out
//! and counted.

use std::sync::{Arc, PoisonError};

use base::{BlockAddress, ByteCount, ClassId, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};
use threads::{Condvar, Mutex, MutexGuard};

use super::file::AccessLog;
use crate::select::Selected;

/// Lines that may wait to be written; what comes beyond is left out and counted.
pub const ACCESSES_WAITING_MAX: usize = 131_072;
/// Lines are gathered for so long, so that a busy server wakes the thread a few times a second only.
const GATHER: Duration = Duration::from_millis(200);

/// How long a report waits for the summaries of days, which stop after a step of theirs.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// Something that is to be written down. What the catalogue knows is filled in by the thread that writes.
#[derive(Debug)]
pub(crate) enum Notice {
    Put {
        at: Timestamp,
        class: ClassId,
        who: Option<String>,
        file: FileId,
        bytes: ByteCount,
        set: u64,
        took: Duration,
    },
    Get {
        at: Timestamp,
        class: String,
        who: Option<String>,
        get: usage::Get,
    },
    Staged {
        at: Timestamp,
        who: String,
        request: RequestId,
        priority: u8,
        files: Vec<Selected>,
    },
    Recalled {
        at: Timestamp,
        vid: Vid,
        files: Vec<Wanted>,
    },
    Evicted {
        at: Timestamp,
        files: Vec<Selected>,
    },
    Deleted {
        at: Timestamp,
        file: FileId,
        known: Option<(ClassId, ByteCount)>,
    },
    Migrated {
        at: Timestamp,
        vid: Vid,
        containers: Vec<(ContainerId, BlockAddress)>,
    },
}

/// A file that is recalled, and since when it was wanted, if anybody wanted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) file: FileId,
    pub(crate) class: ClassId,
    pub(crate) bytes: ByteCount,
    pub(crate) since: Option<Timestamp>,
}

impl Notice {
    /// How many lines it becomes.
    pub(super) fn lines(&self) -> usize {
        match self {
            Notice::Put { .. } | Notice::Get { .. } | Notice::Deleted { .. } => 1,
            Notice::Staged { files, .. } | Notice::Evicted { files, .. } => files.len(),
            Notice::Recalled { files, .. } => files.len(),
            Notice::Migrated { containers, .. } => containers.len(),
        }
    }
}

/// The queue of one engine.
#[derive(Default)]
pub(crate) struct AccessQueue {
    log: Option<Arc<dyn AccessLog>>,
    state: Mutex<State>,
    /// The thread is wanted.
    came: Condvar,
    /// What somebody waits for is done.
    done: Condvar,
    reader: Arc<LogReader>,
}

/// Who reads the log: one at a time, since it takes a while, and memory. Days are summarised by a thread of
/// their own, which gives way to a report.
#[derive(Default)]
pub(super) struct LogReader {
    state: Mutex<Reading>,
    changed: Condvar,
}

/// Somebody's turn to read the log: it is over when this is dropped, whatever became of the reader.
pub(super) struct ReadingTurn(Arc<LogReader>);

impl ReadingTurn {
    /// Whether somebody waits for it to end.
    pub(super) fn is_wanted(&self) -> bool {
        *self.0.lock() == Reading::DaysForReport
    }
}

impl Drop for ReadingTurn {
    fn drop(&mut self) {
        *self.0.lock() = Reading::Nobody;
        self.0.changed.notify_all();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Reading {
    #[default]
    Nobody,
    Report,
    Days,
    /// A report waits for the days to stop.
    DaysForReport,
}

impl LogReader {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a report; nothing if another one reads. Days stop after a step of theirs.
    pub(super) fn begin_report(self: &Arc<Self>) -> Option<ReadingTurn> {
        let mut state = self.lock();
        if *state == Reading::Days {
            *state = Reading::DaysForReport;
            while *state == Reading::DaysForReport {
                let (again, waited) =
                    self.changed.wait_timeout(state, READER_PATIENCE).unwrap_or_else(PoisonError::into_inner);
                state = again;
                if waited.timed_out() && *state == Reading::DaysForReport {
                    *state = Reading::Days;
                    return None;
                }
            }
        }
        self.begin(&mut state, Reading::Report)
    }

    /// For summaries of days; nothing if somebody reads.
    pub(super) fn begin_days(self: &Arc<Self>) -> Option<ReadingTurn> {
        self.begin(&mut self.lock(), Reading::Days)
    }

    fn begin(self: &Arc<Self>, state: &mut Reading, who: Reading) -> Option<ReadingTurn> {
        if *state != Reading::Nobody {
            return None;
        }
        *state = who;
        Some(ReadingTurn(Arc::clone(self)))
    }
}

#[derive(Default)]
struct State {
    waiting: Vec<Notice>,
    lines: usize,
    /// Lines left out that are not written down yet.
    dropped: u64,
    /// The thread waits without a time, and has to be woken.
    asleep: bool,
    /// Numbers of batches: the newest that was taken, and the newest that is written.
    taken: u64,
    written: u64,
    /// Somebody waits for what is here.
    hurried: bool,
    stopped: bool,
    ended: bool,
}

/// What was taken from the queue.
pub(super) struct Taken {
    pub(super) notices: Vec<Notice>,
    pub(super) dropped: u64,
    pub(super) stopped: bool,
}

impl AccessQueue {
    /// `None`: nothing is written down.
    pub(crate) fn new(log: Option<Arc<dyn AccessLog>>) -> Self {
        AccessQueue { log, ..AccessQueue::default() }
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn AccessLog>> {
        self.log.as_ref()
    }

    /// Who reads the log.
    pub(super) fn reader(&self) -> &Arc<LogReader> {
        &self.reader
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what happened, at once: what finds no room is left out.
    pub(crate) fn push(&self, notice: impl FnOnce() -> Notice) {
        if self.log.is_none() {
            return;
        }
        let notice = notice();
        let lines = notice.lines();
        let mut state = self.lock();
        if lines == 0 || state.stopped {
            return;
        }
        if state.lines + lines > ACCESSES_WAITING_MAX {
            state.dropped += lines as u64;
            return;
        }
        // Where the files stand is looked up when the lines are made, soon, since files may be deleted.
        state.hurried |= matches!(notice, Notice::Staged { .. });
        state.waiting.push(notice);
        state.lines += lines;
        // The thread looks again by itself; only one that sleeps, or that should not rest, has to be woken.
        if state.asleep || state.hurried || state.lines > ACCESSES_WAITING_MAX / 2 {
            state.asleep = false;
            self.came.notify_one();
        }
    }

    /// Waits for something to write; on return nobody waits for a batch but this one and later ones.
    pub(super) fn take(&self, empty: Vec<Notice>) -> Taken {
        let mut state = self.lock();
        state.written = state.taken;
        self.done.notify_all();
        while state.waiting.is_empty() && state.dropped == 0 && !state.stopped && !state.hurried {
            state.asleep = true;
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        if !state.stopped && !state.hurried && state.lines <= ACCESSES_WAITING_MAX / 2 {
            state = self.came.wait_timeout(state, GATHER).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.hurried = false;
        state.taken += 1;
        state.lines = 0;
        Taken {
            notices: std::mem::replace(&mut state.waiting, empty),
            dropped: std::mem::take(&mut state.dropped),
            stopped: state.stopped,
        }
    }

    /// Waits until all that was pushed before is with the log, at most for `patience`; whether it is.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        if self.log.is_none() {
            return true;
        }
        let mut state = self.lock();
        let wanted = state.taken + 1;
        state.hurried = true;
        self.came.notify_one();
        self.wait(state, patience, |state| state.ended || state.written >= wanted)
    }

    /// Takes no more; what waits is still written.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.came.notify_all();
    }

    /// The thread has ended.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.done.notify_all();
    }

    /// Waits for the end of the thread, at most for `patience`; whether it has ended.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        let state = self.lock();
        self.log.is_none() || self.wait(state, patience, |state| state.ended)
    }

    /// Waits as long as something goes on, and for `patience` when nothing does.
    fn wait(
        &self,
        mut state: MutexGuard<'_, State>,
        patience: Duration,
        is_done: impl Fn(&State) -> bool,
    ) -> bool {
        while !is_done(&state) {
            let (again, waited) =
                self.done.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                break;
            }
        }
        is_done(&state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    struct Nowhere;

    impl AccessLog for Nowhere {
        fn begins_file(&self) -> bool {
            false
        }

        fn append(&self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn open(&self, _: Timestamp, _: Timestamp) -> io::Result<Box<dyn super::super::AccessReading>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn deleted(file: u64) -> Notice {
        Notice::Deleted { at: Timestamp(0), file: FileId(file), known: None }
    }

    fn evicted(count: usize) -> Notice {
        let file = FileId(1);
        let one = Selected { file, size: ByteCount(1), class: ClassId(1), online: true };
        Notice::Evicted { at: Timestamp(0), files: vec![one; count] }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nobody_waits() {
        let queue = AccessQueue::new(Some(Arc::new(Nowhere)));
        queue.push(|| evicted(ACCESSES_WAITING_MAX - 1));
        queue.push(|| evicted(2));
        queue.push(|| deleted(1));
        queue.push(|| deleted(2));
        let taken = queue.take(Vec::new());
        assert_eq!((taken.notices.len(), taken.dropped, taken.stopped), (2, 3, false));
        queue.push(|| deleted(3));
        queue.stop();
        queue.push(|| deleted(4));
        let taken = queue.take(Vec::new());
        assert_eq!((taken.notices.len(), taken.dropped, taken.stopped), (1, 0, true));
    }

    /// Whoever read the log gave it free by hand; one that panicked kept it from all others.
    #[test]
    fn a_reader_that_panics_leaves_the_log_to_others() {
        let reader = Arc::new(LogReader::default());
        let turn = reader.begin_days().unwrap();
        assert!(reader.begin_days().is_none() && !turn.is_wanted());
        let reads = std::thread::spawn(move || {
            let _turn = turn;
            panic!("a damaged summary");
        });
        assert!(reads.join().is_err());
        let report = reader.begin_report();
        assert!(report.is_some() && reader.begin_report().is_none() && reader.begin_days().is_none());
        drop(report);
        assert!(reader.begin_days().is_some());
    }

    #[test]
    fn without_a_log_nothing_is_even_made() {
        let queue = AccessQueue::new(None);
        queue.push(|| unreachable!("nobody writes it down"));
        assert!(queue.flush(Duration::from_secs(3600)) && queue.wait_for_end(Duration::from_secs(3600)));
    }

    #[test]
    fn a_thread_that_hangs_is_waited_for_only_so_long() {
        let queue = AccessQueue::new(Some(Arc::new(Nowhere)));
        assert!(!queue.flush(Duration::from_millis(1)) && !queue.wait_for_end(Duration::from_millis(1)));
        queue.stop();
        assert!(queue.take(Vec::new()).stopped);
        assert!(!queue.wait_for_end(Duration::from_millis(1)));
        queue.end();
        assert!(queue.flush(Duration::from_millis(1)) && queue.wait_for_end(Duration::from_millis(1)));
    }
}
