//! Carries out the commands of one session for one unit, in the order in which they came.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use scsi::{Cdb, Completion, Status};

use crate::pdu::Lun;

use super::answer::{Asked, Link};
use super::registry::Share;
use super::tasks::TaskId;
use super::{LogicalUnits, Nexus};

/// A command with all its data.
pub(super) struct Work {
    pub(super) id: TaskId,
    pub(super) asked: Asked,
    pub(super) cdb: Cdb,
    pub(super) is_read: bool,
    /// Data that came with it.
    pub(super) out: Vec<u8>,
    /// Its share of the server's memory.
    pub(super) reserved: Share,
}

/// The thread of a unit. Dropped, it carries out what it has and is waited for.
pub(super) struct Worker {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(
        lun: Lun,
        link: &Arc<Link>,
        units: &Arc<dyn LogicalUnits>,
        nexus: &Arc<Nexus>,
    ) -> std::io::Result<Worker> {
        // Not bounded here: a session has no more tasks than its window and a few.
        let (queue, queued) = mpsc::channel();
        let (link, units, nexus) = (Arc::clone(link), Arc::clone(units), Arc::clone(nexus));
        let run = move || {
            let _guard = ClosesOnPanic(&link);
            for work in queued {
                carry_out(work, lun, &link, &*units, &nexus);
            }
        };
        let thread = thread::Builder::new().name("iscsi-unit".into()).spawn(run)?;
        Ok(Worker { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands a command over. False if the thread has ended, which it does only by a panic.
    pub(super) fn give(&self, work: Work) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.send(work).is_ok())
    }
}

/// Ends the session if the unit panics: what it has under way is never answered.
struct ClosesOnPanic<'a>(&'a Link);

impl Drop for ClosesOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // What a panic of the unit said stands in the log; the session ends.
            let _ = thread.join();
        }
    }
}

fn carry_out(work: Work, lun: Lun, link: &Link, units: &dyn LogicalUnits, nexus: &Nexus) {
    let Work { id, asked, cdb, is_read, out, reserved } = work;
    let runs = link.tasks().run(id);
    if runs {
        let mut into = link.buffer(if is_read { asked.expected } else { 0 });
        let completion = units.execute(nexus, lun, &cdb, &out, &mut into);
        // What came with the command is not needed any more, and the next one may come as soon as it is
        // answered.
        link.keep(out);
        let reserved = is_read.then_some(reserved);
        let answers = link.tasks().answer(id);
        if answers {
            // If it fails the connection is closed, which the receiving thread sees.
            let _ = link.complete(asked, &completion, &into, reserved);
        }
        link.keep(into);
    } else {
        drop((out, reserved));
    }
    let functions = link.tasks().end(id);
    let _ = link.functions_done(functions, units, nexus);
}

/// A completion of the target's own, with fixed-format sense data (SPC-5, 4.4.3).
pub(super) fn check_condition(key: u8, code: u8, qualifier: u8) -> Completion {
    let mut sense = vec![0; 18];
    (sense[0], sense[2], sense[7], sense[12], sense[13]) = (0x70, key, 10, code, qualifier);
    Completion { status: Status::CheckCondition, sense, transferred: 0 }
}
