//! The thread that writes the audit log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use base::{Clock, Duration};
use journal::{Appender, AuditEntry, AuditLine, LogFiles, Outcome, Queue, QueueForm, Queued, Room, Taken};
use threads::{Condvar, JoinHandle, Mutex};

/// Entries that wait to be written. A further one makes its caller wait: nothing is left out.
pub const AUDIT_QUEUE_MAX: usize = 4096;
/// Entries that are written at once.
const BATCH_MAX: usize = 1024;
/// Lines are made durable at the latest after this.
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// Between two attempts to write what could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Attempts once the server stops; before, there is no end to them.
const ATTEMPTS_AT_STOP: u32 = 3;

/// The audit log. Entries are written in the order in which they come, and are durable within a second, and
/// at the close.
pub struct Audit {
    directory: PathBuf,
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and those who record share.
struct Shared {
    queue: Queue<Entry>,
    /// A [`Room`] as a number.
    room: AtomicU8,
    /// Refusals that were not written down for lack of room, since the last line.
    left_out: AtomicU64,
}

impl Shared {
    fn set(&self, room: Room) {
        let before = self.room.swap(room as u8, Ordering::SeqCst);
        match room {
            _ if before == room as u8 => {}
            Room::Enough => tracing::info!("the audit log has room: changes are taken again"),
            Room::Reserve => {
                tracing::error!("the audit log has little room: only what makes room is taken");
            }
            Room::None => tracing::error!("the audit log has no room: changes are refused"),
        }
    }

    fn room(&self) -> Room {
        match self.room.load(Ordering::SeqCst) {
            0 => Room::Enough,
            1 => Room::Reserve,
            _ => Room::None,
        }
    }
}

/// An entry that waits to be written.
struct Entry(Box<AuditEntry>);

impl Queued for Entry {}

impl Audit {
    /// Opens the log in `directory`, behind its last line.
    ///
    /// # Errors
    /// If it cannot be opened, or the thread cannot be started.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Audit::of(LogFiles::new(directory), clock)
    }

    /// As [`Audit::open`], with files of `bytes_max` bytes, `files_max` of them.
    ///
    /// # Errors
    /// As [`Audit::open`].
    pub fn with_limits(
        directory: &Path,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
        files_max: u32,
    ) -> io::Result<Self> {
        Audit::of(LogFiles::with_limits(directory, bytes_max, files_max), clock)
    }

    fn of(files: LogFiles<AuditLine>, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let directory = files.directory().to_owned();
        let mut appender = Appender::open(files)?;
        let queue = Queue::new(QueueForm { lines_max: AUDIT_QUEUE_MAX, gather: Duration::ZERO });
        let (room, left_out) = (AtomicU8::new(Room::Enough as u8), AtomicU64::new(0));
        let shared = Arc::new(Shared { queue, room, left_out });
        shared.set(appender.look_ahead());
        let writer = Writer { appender, clock, shared: Arc::clone(&shared), is_stopping: false };
        let writer = threads::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        Ok(Audit { directory, shared, writer: Mutex::new(Some(writer)) })
    }

    /// Where the log is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The room that it has.
    pub(crate) fn room(&self) -> Room {
        self.shared.room()
    }

    /// Writes an entry down, soon; waits if too many wait already. Without room refusals are only counted,
    /// so that the lines of what was done find their place.
    pub fn record(&self, entry: AuditEntry) {
        if entry.outcome == Outcome::Refused && self.room() == Room::None {
            self.shared.left_out.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if !self.shared.queue.push(Entry(Box::new(entry))) {
            tracing::error!("a call came when the audit log was closed already");
        }
    }

    /// Writes an entry down, soon; `false` if too many wait already.
    #[must_use]
    pub fn try_record(&self, entry: AuditEntry) -> bool {
        self.shared.queue.try_push(Entry(Box::new(entry)))
    }

    /// Waits until everything recorded so far is durable.
    pub fn flush(&self) {
        self.shared.queue.flush(None);
    }

    /// Makes everything durable and ends the thread.
    pub fn close(&self) {
        self.shared.queue.stop();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the thread of the audit log ended early");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer {
    appender: Appender<AuditLine>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    is_stopping: bool,
}

/// Whatever ends the thread, nobody waits for it any more.
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.end();
    }
}

impl Writer {
    fn run(mut self) {
        // Since when there are lines that are not durable.
        let mut since: Option<Duration> = None;
        loop {
            let patience =
                since.map(|since| SYNC_AFTER.saturating_sub(self.clock.steady().saturating_sub(since)));
            let lacks = self.shared.room() != Room::Enough;
            let patience = patience.or(lacks.then_some(RETRY_AFTER));
            let Taken { items, hurried, stopped, .. } = self.shared.queue.take(Vec::new(), patience);
            self.is_stopping = stopped;
            let mut lines: Vec<_> = items.into_iter().map(|Entry(entry)| AuditLine::Entry(entry)).collect();
            self.tell_left_out(&mut lines);
            for lines in lines.chunks(BATCH_MAX) {
                self.until_done(|appender| appender.append(lines));
            }
            if !lines.is_empty() {
                since.get_or_insert_with(|| self.clock.steady());
            }
            if !lines.is_empty() || lacks {
                self.shared.set(self.appender.look_ahead());
            }
            let is_due = since.is_some_and(|since| self.clock.steady().saturating_sub(since) >= SYNC_AFTER);
            if since.is_some() && (is_due || stopped || hurried) {
                self.sync();
                since = None;
            }
            if stopped {
                return;
            }
        }
    }

    /// A line for refusals that had none, once there is room.
    fn tell_left_out(&self, lines: &mut Vec<AuditLine>) {
        let left_out = match self.shared.room() {
            Room::Enough => self.shared.left_out.swap(0, Ordering::SeqCst),
            Room::Reserve | Room::None => 0,
        };
        if left_out > 0 {
            lines.push(AuditLine::Entry(Box::new(AuditEntry {
                at: self.clock.now(),
                who: "-".to_owned(),
                how: "-".to_owned(),
                peer: String::new(),
                verb: "audit".to_owned(),
                what: "refusals".to_owned(),
                outcome: Outcome::Refused,
                note: format!("{left_out} refusals were not written down: the log had no room"),
            })));
        }
    }

    fn sync(&mut self) {
        if let Err(error) = self.appender.sync() {
            // Which lines are durable nobody knows now, and a second sync would not tell. The chain goes on
            // in a new file: a line that was lost is found by whoever verifies.
            tracing::error!(%error, "the audit log could not be made durable: a new file is begun");
            self.until_done(Appender::rotate);
        }
    }

    fn until_done(&mut self, mut work: impl FnMut(&mut Appender<AuditLine>) -> io::Result<()>) {
        let mut attempts = 0;
        while let Err(error) = work(&mut self.appender) {
            if attempts == 0 {
                tracing::error!(%error, "the audit log cannot be written: changes are refused");
            }
            self.shared.set(Room::None);
            attempts += 1;
            if self.is_stopping && attempts >= ATTEMPTS_AT_STOP {
                tracing::error!("the last lines of the audit log are lost");
                return;
            }
            let (lock, never) = (Mutex::new(()), Condvar::new());
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = never.wait_timeout(guard, RETRY_AFTER);
        }
    }
}

#[cfg(test)]
mod full;
#[cfg(test)]
mod tests;
