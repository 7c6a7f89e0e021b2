//! What waits to be written down, and what the thread that writes makes of it.

use std::sync::Arc;

use base::{BlockAddress, ByteCount, ClassId, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};
use journal::{AccessLog, LogReader, Queue, QueueForm, Queued, Taken};

use crate::Ground;

/// Lines that may wait to be written; what comes beyond is left out and counted.
pub const ACCESSES_WAITING_MAX: usize = 131_072;
/// Lines are gathered for so long.
const GATHER: Duration = Duration::from_millis(200);

/// A selected file.
#[derive(Clone, Copy, Debug)]
pub struct Selected {
    /// Its id.
    pub file: FileId,
    /// Its bytes.
    pub size: ByteCount,
    /// Its class.
    pub class: ClassId,
    /// Whether the pool has it.
    pub online: bool,
}

/// Something that is to be written down. What the catalogue knows is filled in by the thread that writes.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names of the variants and of their fields are those of the log's lines")]
pub enum Notice {
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
pub struct Wanted {
    /// Its id.
    pub file: FileId,
    /// Its class.
    pub class: ClassId,
    /// Its bytes.
    pub bytes: ByteCount,
    /// When it was asked for.
    pub since: Option<Timestamp>,
}

impl Queued for Notice {
    /// How many lines it becomes.
    fn lines(&self) -> usize {
        match self {
            Notice::Put { .. } | Notice::Get { .. } | Notice::Deleted { .. } => 1,
            Notice::Staged { files, .. } | Notice::Evicted { files, .. } => files.len(),
            Notice::Recalled { files, .. } => files.len(),
            Notice::Migrated { containers, .. } => containers.len(),
        }
    }

    /// Where the files stand is looked up when the lines are made, soon, since files may be deleted.
    fn is_urgent(&self) -> bool {
        matches!(self, Notice::Staged { .. })
    }
}

/// The queue of one engine.
pub struct AccessQueue {
    log: Option<Arc<dyn AccessLog>>,
    queue: Queue<Notice>,
    reader: Arc<LogReader>,
}

impl AccessQueue {
    /// `None`: nothing is written down.
    pub fn new(log: Option<Arc<dyn AccessLog>>) -> Self {
        let queue = Queue::new(QueueForm { lines_max: ACCESSES_WAITING_MAX, gather: GATHER });
        AccessQueue { log, queue, reader: Arc::default() }
    }

    /// Where it is written.
    pub fn log(&self) -> Option<&Arc<dyn AccessLog>> {
        self.log.as_ref()
    }

    /// Who reads the log.
    pub fn reader(&self) -> &Arc<LogReader> {
        &self.reader
    }

    /// Hands over what happened, at once: what finds no room is left out.
    pub fn push(&self, notice: impl FnOnce() -> Notice) {
        if self.log.is_some() {
            self.queue.push_or_count(notice());
        }
    }

    /// Waits for something to write.
    pub fn take(&self, empty: Vec<Notice>) -> Taken<Notice> {
        self.queue.take(empty, None)
    }

    /// Waits until all that was pushed before is with the log, at most for `patience`; whether it is.
    pub fn flush(&self, patience: Duration) -> bool {
        self.log.is_none() || self.queue.flush(Some(patience))
    }

    /// Takes no more; what waits is still written.
    pub fn stop(&self) {
        self.queue.stop();
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.queue.end();
    }

    /// Waits for the end of the thread, at most for `patience`; whether it has ended.
    pub fn wait_for_end(&self, patience: Duration) -> bool {
        self.log.is_none() || self.queue.wait_for_end(patience)
    }
}

impl Ground {
    /// These files, and since when each has been wanted; to be asked before they are committed as recalled.
    pub fn wanted_since(&self, files: &[FileId]) -> Vec<Wanted> {
        if self.access.log().is_none() {
            return Vec::new();
        }
        let read = self.read(|view| {
            let mut wanted = Vec::with_capacity(files.len());
            for file in files {
                // One that was deleted meanwhile is of no use to anybody.
                let Some(record) = view.file(*file)? else { continue };
                let mut since = None;
                for want in view.wants(*file)? {
                    let created = view.request(want.request)?.map(|request| request.created);
                    since = [since, created].into_iter().flatten().min();
                }
                wanted.push(Wanted { file: *file, class: record.class, bytes: record.size, since });
            }
            Ok(wanted)
        });
        read.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_log_nothing_is_even_made() {
        let queue = AccessQueue::new(None);
        queue.push(|| unreachable!("nobody writes it down"));
        assert!(queue.flush(Duration::from_secs(3600)) && queue.wait_for_end(Duration::from_secs(3600)));
    }

    /// A notice of many files is as many lines, and one of none is nothing to write.
    #[test]
    fn a_notice_counts_as_its_lines() {
        let one = Selected { file: FileId(1), size: ByteCount(1), class: ClassId(1), online: true };
        for count in [0, 1, 1000] {
            assert_eq!(Notice::Evicted { at: Timestamp(0), files: vec![one; count] }.lines(), count);
        }
        let deleted = Notice::Deleted { at: Timestamp(0), file: FileId(1), known: None };
        assert!(deleted.lines() == 1 && !deleted.is_urgent());
    }
}
