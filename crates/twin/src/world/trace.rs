//! What a run did, mount by mount and file by file, to be compared with a record.

use super::World;
use crate::holdings::TapeIndex;
use crate::moment::Moment;
use scenario::model::FileNumber;

/// What the first session of a mount did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MountKind {
    /// It wrote.
    Migrate,
    /// It read.
    Recall,
}

/// One mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MountTrace {
    /// Index of the drive.
    pub drive: usize,
    /// The tape.
    pub tape: TapeIndex,
    /// What its first session did; `None`: none was begun.
    pub kind: Option<MountKind>,
    /// When it was ordered.
    pub ordered: Moment,
    /// When sessions could begin.
    pub ready: Option<Moment>,
    /// When its way home began, the last index written.
    pub unmounting: Option<Moment>,
    /// When the drive was empty again.
    pub unmounted: Option<Moment>,
}

/// A wanted file that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedTrace {
    /// The file.
    pub file: FileNumber,
    /// When it was asked for; one that is wanted by several comes once for each.
    pub since: Moment,
    /// When it was there.
    pub at: Moment,
    /// Whether it was read from tape; `false`: the pool had it.
    pub recalled: bool,
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Trace {
    /// Mounts in the order in which they were ordered.
    pub mounts: Vec<MountTrace>,
    /// Files that came, in that order.
    pub served: Vec<ServedTrace>,
    /// When each copy of a container was flushed, and its bytes.
    pub written: Vec<(Moment, u64)>,
}

impl World<'_> {
    /// Writes down what happens from now on.
    pub(crate) fn begin_trace(&mut self) {
        self.trace = Some(Trace::default());
    }

    /// What was written down.
    pub(crate) fn take_trace(&mut self) -> Trace {
        self.trace.take().unwrap_or_default()
    }

    pub(super) fn trace_mount(&mut self, drive: usize, tape: TapeIndex) {
        let ordered = self.now;
        if let Some(trace) = &mut self.trace {
            let mount = MountTrace {
                drive,
                tape,
                kind: None,
                ordered,
                ready: None,
                unmounting: None,
                unmounted: None,
            };
            trace.mounts.push(mount);
        }
    }

    fn traced(&mut self, drive: usize) -> Option<&mut MountTrace> {
        self.trace.as_mut()?.mounts.iter_mut().rev().find(|mount| mount.drive == drive)
    }

    pub(super) fn trace_ready(&mut self, drive: usize) {
        let now = self.now;
        if let Some(mount) = self.traced(drive) {
            mount.ready = Some(now);
        }
    }

    pub(super) fn trace_session(&mut self, drive: usize, kind: MountKind) {
        if let Some(mount) = self.traced(drive) {
            mount.kind.get_or_insert(kind);
        }
    }

    pub(super) fn trace_unmounting(&mut self, drive: usize, at: Moment) {
        if let Some(mount) = self.traced(drive) {
            mount.unmounting = Some(at);
        }
    }

    pub(super) fn trace_unmounted(&mut self, drive: usize) {
        let now = self.now;
        if let Some(mount) = self.traced(drive) {
            mount.unmounted = Some(now);
        }
    }

    pub(super) fn trace_served(&mut self, file: FileNumber, since: Moment) {
        let at = self.now;
        if let Some(trace) = &mut self.trace {
            trace.served.push(ServedTrace { file, since, at, recalled: since < at });
        }
    }

    pub(super) fn trace_written(&mut self, bytes: u64) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.written.push((now, bytes));
        }
    }
}
