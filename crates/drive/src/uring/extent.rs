//! An extent that is written through the ring: one step at a time, in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId};

use crate::files::Files;
use crate::object::ExtentWriter;
use crate::queue::{QueuedExtent, WriteOperation, WriteStep};
use crate::uring::ring::{self, Work};
use crate::uring::write::Writing;
use crate::uring::{Parts, Told};
use crate::writer::FileExtentWriter;
use crate::{DriveError, ExtentId};

pub(crate) struct UringExtent(Arc<Extent>);

/// Of the drive it holds what its progress holds.
pub(crate) struct Extent {
    drive: DriveId,
    id: ExtentId,
    parts: Arc<Parts>,
    state: Mutex<State>,
}

struct State {
    /// What was handed over behind the step that is under way.
    waiting: VecDeque<Box<dyn WriteOperation>>,
    progress: Progress,
    /// Nothing more is handed over.
    is_given_up: bool,
}

impl State {
    /// No step follows the one that is under way.
    fn is_last(&self) -> bool {
        self.is_given_up && self.waiting.is_empty()
    }

    /// Ends it if no step follows and none is under way; gives what it held.
    fn let_go_at_the_end(&mut self) -> Option<Progress> {
        let ends = self.is_last() && !matches!(self.progress, Progress::Busy);
        ends.then(|| std::mem::replace(&mut self.progress, Progress::Ended))
    }
}

enum Progress {
    New {
        files: Arc<Files>,
        preallocate: ByteCount,
        replaces: bool,
    },
    Open(Box<FileExtentWriter>),
    /// A step is under way, with the writer.
    Busy,
    /// Sealed, or failed: the writer is gone, and with it what it held.
    Ended,
}

impl UringExtent {
    pub(crate) fn new(
        files: Arc<Files>,
        parts: Arc<Parts>,
        id: ExtentId,
        preallocate: ByteCount,
        replaces: bool,
    ) -> Self {
        let drive = files.shared.id;
        let progress = Progress::New { files, preallocate, replaces };
        let state = Mutex::new(State { waiting: VecDeque::new(), progress, is_given_up: false });
        UringExtent(Arc::new(Extent { drive, id, parts, state }))
    }
}

impl Drop for UringExtent {
    fn drop(&mut self) {
        let held = {
            let mut state = self.0.state();
            state.is_given_up = true;
            state.let_go_at_the_end()
        };
        self.0.let_go(held);
    }
}

impl QueuedExtent for UringExtent {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        self.0.state().waiting.push_back(operation);
        self.0.go_on();
    }
}

impl Extent {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what was held of the drive. The last of a file is closed, and may be removed, with it: that
    /// blocks, and nothing else may wait for it.
    fn let_go(&self, held: Option<Progress>) {
        match held {
            Some(held @ Progress::Open(_)) if ring::is_here() => self.parts.workers.run(move || drop(held)),
            held => drop(held),
        }
    }

    /// Begins the next step, if none is under way.
    fn go_on(self: &Arc<Self>) {
        let mut state = self.state();
        if matches!(state.progress, Progress::Busy) {
            return;
        }
        let Some(operation) = state.waiting.pop_front() else { return };
        let before = std::mem::replace(&mut state.progress, Progress::Busy);
        drop(state);
        match before {
            Progress::New { files, preallocate, replaces } => {
                let extent = Arc::clone(self);
                self.parts.workers.run(move || {
                    let made = match replaces {
                        true => files.replace(extent.id, preallocate),
                        false => files.create(extent.id, preallocate),
                    };
                    drop(files);
                    match made {
                        Ok(writer) => extent.step(Box::new(writer), operation),
                        Err(error) => extent.over(None, operation, Err(error)),
                    }
                });
            }
            Progress::Open(writer) => self.step(writer, operation),
            Progress::Busy | Progress::Ended => {
                let (drive, extent) = (self.drive, self.id);
                self.over(None, operation, Err(DriveError::Poisoned { drive, extent }));
            }
        }
    }

    fn step(self: &Arc<Self>, writer: Box<FileExtentWriter>, operation: Box<dyn WriteOperation>) {
        let begun = match operation.step() {
            WriteStep::Append(bytes) => writer.begin_append(bytes),
            WriteStep::Sync | WriteStep::Seal => {
                let extent = Arc::clone(self);
                if is_planted(Bug::EarlyQueuedSync) {
                    return self.over(Some(writer), operation, Ok(()));
                }
                return self.parts.workers.run(move || extent.make_durable(writer, operation));
            }
        };
        match begun {
            Ok(copy) => {
                let writing = Writing::new(Arc::clone(self), writer, operation, copy);
                self.parts.inbox.push(Work::Write(writing));
            }
            Err(error) => self.failed(writer, operation, error),
        }
    }

    /// Syncs or seals; blocks.
    fn make_durable(self: Arc<Self>, mut writer: Box<FileExtentWriter>, operation: Box<dyn WriteOperation>) {
        let is_seal = matches!(operation.step(), WriteStep::Seal);
        let (writer, result) = match is_seal {
            true => (None, writer.seal()),
            false => match writer.sync() {
                Ok(()) => (Some(writer), Ok(())),
                Err(error) => {
                    drop(writer);
                    (None, Err(error))
                }
            },
        };
        self.over(writer, operation, result);
    }

    /// A step failed, and with it the extent. What the writer leaves is removed by a thread that may block.
    pub(crate) fn failed(
        self: &Arc<Self>,
        writer: Box<FileExtentWriter>,
        operation: Box<dyn WriteOperation>,
        error: DriveError,
    ) {
        self.end(writer, move || operation.done(Err(error)));
    }

    /// Likewise, and the kernel may still have the bytes of the step.
    pub(crate) fn lost(
        self: &Arc<Self>,
        writer: Box<FileExtentWriter>,
        operation: Box<dyn WriteOperation>,
        error: DriveError,
    ) {
        self.end(writer, move || operation.lost(error));
    }

    /// Tells what came of a step, then begins the next. Without a writer the extent has ended.
    pub(crate) fn over(
        self: &Arc<Self>,
        writer: Option<Box<FileExtentWriter>>,
        operation: Box<dyn WriteOperation>,
        result: Told,
    ) {
        let tell = move || operation.done(result);
        match writer {
            // Who is told of the last step finds nothing of the drive held.
            Some(writer) if self.state().is_last() => self.end(writer, tell),
            writer => self.tell(writer, tell),
        }
    }

    /// Lets the writer go and then tells of the last step, on a thread that may block.
    fn end(self: &Arc<Self>, writer: Box<FileExtentWriter>, tell: impl FnOnce() + Send + 'static) {
        let extent = Arc::clone(self);
        self.parts.workers.run(move || {
            drop(writer);
            extent.tell(None, tell);
        });
    }

    fn tell(self: &Arc<Self>, writer: Option<Box<FileExtentWriter>>, tell: impl FnOnce()) {
        // While the step still counts as under way, so that none is told before it.
        let after = After { extent: self, progress: Some(writer.map_or(Progress::Ended, Progress::Open)) };
        tell();
        after.told();
        self.go_on();
    }
}

/// What the extent is when its step was told of. If whoever was told panics it has ended, and what waits is
/// dropped.
struct After<'a> {
    extent: &'a Extent,
    progress: Option<Progress>,
}

impl After<'_> {
    fn told(mut self) {
        if let Some(progress) = self.progress.take() {
            let held = {
                let mut state = self.extent.state();
                state.progress = progress;
                // It may have been given up by who was told.
                state.let_go_at_the_end()
            };
            self.extent.let_go(held);
        }
    }
}

impl Drop for After<'_> {
    fn drop(&mut self) {
        if self.progress.is_some() {
            let waiting = {
                let mut state = self.extent.state();
                state.progress = Progress::Ended;
                std::mem::take(&mut state.waiting)
            };
            drop(waiting);
            self.extent.let_go(self.progress.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::{self, Sender};
    use std::time::Duration;

    use super::*;
    use crate::object::PAGE;
    use crate::queue::DriveQueue;
    use crate::uring::UringQueue;
    use crate::writer::tests::writer;

    struct Write(WriteStep<'static>, Sender<Told>);

    impl WriteOperation for Write {
        fn step(&self) -> WriteStep<'_> {
            self.0
        }

        fn done(self: Box<Self>, result: Told) {
            let _ = self.1.send(result);
        }
    }

    /// What comes of an append, a sync and an append to a special file, and whether the drive is suspect.
    fn written_to(file: File) -> Option<([Told; 3], bool)> {
        let writer = writer(file);
        let shared = Arc::clone(&writer.shared);
        let files = Files { shared: Arc::clone(&shared), path: "/".into(), direct: false };
        let files = Arc::new(files);
        let queue = UringQueue::open(Arc::clone(&files), 4).ok()?;
        assert_eq!(queue.depth(), 4);
        let progress = Progress::Open(Box::new(writer));
        let state = State { waiting: VecDeque::new(), progress, is_given_up: false };
        let (id, parts) = (ExtentId { blob: base::BlobId(1), stripe: 0, shard: 0 }, Arc::clone(&queue.parts));
        let drive = shared.id;
        let mut extent = UringExtent(Arc::new(Extent { drive, id, parts, state: Mutex::new(state) }));
        let (sender, told) = mpsc::channel();
        for step in [WriteStep::Append(&[0; PAGE]), WriteStep::Sync, WriteStep::Append(&[0; PAGE])] {
            extent.submit(Box::new(Write(step, sender.clone())));
        }
        let results = std::array::from_fn(|_| told.recv_timeout(Duration::from_secs(60)).unwrap());
        Some((results, shared.is_suspect()))
    }

    #[test]
    fn a_drive_that_is_full_is_not_suspect_and_one_that_fails_is() {
        let Some((full, is_suspect)) = written_to(File::options().write(true).open("/dev/full").unwrap())
        else {
            // The kernel has no such queues.
            return;
        };
        assert!(matches!(&full[0], Err(DriveError::Full { .. })), "{full:?}");
        assert!(full[1..].iter().all(|it| matches!(it, Err(DriveError::Poisoned { .. }))) && !is_suspect);
        let (failed, is_suspect) = written_to(File::open("/dev/null").unwrap()).unwrap();
        assert!(matches!(&failed[0], Err(DriveError::Io { operation: "write", .. })), "{failed:?}");
        assert!(failed[1..].iter().all(|it| matches!(it, Err(DriveError::Poisoned { .. }))) && is_suspect);
        let unsynced = written_to(File::options().write(true).open("/dev/null").unwrap()).unwrap();
        let (unsynced, is_suspect) = unsynced;
        assert!(unsynced[0].is_ok() && matches!(&unsynced[1], Err(DriveError::Io { operation: "sync", .. })));
        assert!(matches!(&unsynced[2], Err(DriveError::Poisoned { .. })) && is_suspect);
    }
}
