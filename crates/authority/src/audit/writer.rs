//! The thread that writes the audit log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use base::{Clock, Duration};
use threads::{Condvar, JoinHandle, Mutex, mpsc};

use super::files::{AUDIT_BYTES_MAX, AUDIT_FILES_MAX, Appender, AuditRoom};
use super::line::{AuditEntry, AuditLine, Outcome};

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
    sender: Mutex<Option<mpsc::SyncSender<Message>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread tells those who record.
#[derive(Default)]
struct Shared {
    /// An [`AuditRoom`] as a number.
    room: AtomicU8,
    /// Refusals that were not written down for lack of room, since the last line.
    left_out: AtomicU64,
}

impl Shared {
    fn set(&self, room: AuditRoom) {
        let before = self.room.swap(room as u8, Ordering::SeqCst);
        match room {
            _ if before == room as u8 => {}
            AuditRoom::Enough => tracing::info!("the audit log has room: changes are taken again"),
            AuditRoom::Reserve => {
                tracing::error!("the audit log has little room: only what makes room is taken")
            }
            AuditRoom::None => tracing::error!("the audit log has no room: changes are refused"),
        }
    }

    fn room(&self) -> AuditRoom {
        match self.room.load(Ordering::SeqCst) {
            0 => AuditRoom::Enough,
            1 => AuditRoom::Reserve,
            _ => AuditRoom::None,
        }
    }
}

enum Message {
    Entry(Box<AuditEntry>),
    /// Tell when all before is durable.
    Flush(mpsc::SyncSender<()>),
}

impl Audit {
    /// Opens the log in `directory`, behind its last line.
    ///
    /// # Errors
    /// If it cannot be opened, or the thread cannot be started.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Audit::with_limits(directory, clock, AUDIT_BYTES_MAX, AUDIT_FILES_MAX)
    }

    /// As [`Audit::open`], with files of `bytes_max` bytes, `files_max` of them.
    ///
    /// # Errors
    /// As [`Audit::open`].
    pub fn with_limits(
        directory: &Path,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
        files_max: usize,
    ) -> io::Result<Self> {
        let mut appender = Appender::open(directory, bytes_max, files_max)?;
        let (sender, receiver) = mpsc::sync_channel(AUDIT_QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        shared.set(appender.look_ahead());
        let writer = Writer { appender, clock, receiver, shared: Arc::clone(&shared), is_stopping: false };
        let writer = threads::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        let directory = directory.to_owned();
        Ok(Audit { directory, shared, sender: Mutex::new(Some(sender)), writer: Mutex::new(Some(writer)) })
    }

    /// Where the log is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The room that it has.
    pub(crate) fn room(&self) -> AuditRoom {
        self.shared.room()
    }

    /// Writes an entry down, soon; waits if too many wait already. Without room refusals are only counted,
    /// so that the lines of what was done find their place.
    pub fn record(&self, entry: AuditEntry) {
        if entry.outcome == Outcome::Refused && self.room() == AuditRoom::None {
            self.shared.left_out.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let sent = self.sender().map(|sender| sender.send(Message::Entry(Box::new(entry))));
        if !matches!(sent, Some(Ok(()))) {
            tracing::error!("a call came when the audit log was closed already");
        }
    }

    /// Writes an entry down, soon; `false` if too many wait already.
    #[must_use]
    pub fn try_record(&self, entry: AuditEntry) -> bool {
        self.sender().is_some_and(|sender| sender.try_send(Message::Entry(Box::new(entry))).is_ok())
    }

    /// Waits until everything recorded so far is durable.
    pub fn flush(&self) {
        let (done, wait) = mpsc::sync_channel(1);
        if let Some(sender) = self.sender()
            && sender.send(Message::Flush(done)).is_ok()
        {
            let _ = wait.recv();
        }
    }

    /// Makes everything durable and ends the thread.
    pub fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the thread of the audit log ended early");
        }
    }

    fn sender(&self) -> Option<mpsc::SyncSender<Message>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer {
    appender: Appender,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    receiver: mpsc::Receiver<Message>,
    is_stopping: bool,
}

impl Writer {
    fn run(mut self) {
        // Since when there are lines that are not durable.
        let mut since: Option<Duration> = None;
        loop {
            let patience =
                since.map(|since| SYNC_AFTER.saturating_sub(self.clock.steady().saturating_sub(since)));
            let lacks = self.shared.room() != AuditRoom::Enough;
            let patience = patience.or(lacks.then_some(RETRY_AFTER));
            let first = match patience {
                None => self.receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(patience) => self.receiver.recv_timeout(patience),
            };
            let (mut lines, mut flushes) = (Vec::new(), Vec::new());
            self.is_stopping = matches!(first, Err(mpsc::RecvTimeoutError::Disconnected));
            let mut next = first.ok();
            while let Some(message) = next {
                match message {
                    Message::Entry(entry) => lines.push(AuditLine::Entry(entry)),
                    Message::Flush(done) => flushes.push(done),
                }
                next = if lines.len() < BATCH_MAX { self.receiver.try_recv().ok() } else { None };
            }
            self.tell_left_out(&mut lines);
            if !lines.is_empty() {
                self.until_done(|appender| appender.append(&lines));
                since.get_or_insert_with(|| self.clock.steady());
            }
            if !lines.is_empty() || lacks {
                self.shared.set(self.appender.look_ahead());
            }
            let is_due = since.is_some_and(|since| self.clock.steady().saturating_sub(since) >= SYNC_AFTER);
            if since.is_some() && (is_due || self.is_stopping || !flushes.is_empty()) {
                self.sync();
                since = None;
            }
            for done in flushes {
                let _ = done.try_send(());
            }
            if self.is_stopping {
                return;
            }
        }
    }

    /// A line for refusals that had none, once there is room.
    fn tell_left_out(&self, lines: &mut Vec<AuditLine>) {
        let left_out = match self.shared.room() {
            AuditRoom::Enough => self.shared.left_out.swap(0, Ordering::SeqCst),
            AuditRoom::Reserve | AuditRoom::None => 0,
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

    fn until_done(&mut self, mut work: impl FnMut(&mut Appender) -> io::Result<()>) {
        let mut attempts = 0;
        while let Err(error) = work(&mut self.appender) {
            if attempts == 0 {
                tracing::error!(%error, "the audit log cannot be written: changes are refused");
            }
            self.shared.set(AuditRoom::None);
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
