//! The server stops and starts again: what it knew of sessions is gone, what is in its catalogue is told
//! anew.

use base::{ByteCount, Duration, ShareId, Vid};
use scheduler::{Event, Scheduler, TapeSummary, WantedFile};

use super::World;
use super::agenda::What;
use super::drives::Phase;
use super::planted::Planted;
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{FaultKind, FileNumber};

impl World<'_> {
    /// Tells the scheduler of everything: at the beginning, and after a restart.
    pub(super) fn tell_all(&mut self) {
        for drive in 0..self.drives.len() {
            let (name, library) = (self.drives[drive].name.clone(), self.library_id(drive));
            self.tell(Event::DriveIn(name.clone(), library));
            self.tell(match self.drives[drive].phase {
                Phase::Broken => Event::DriveDown(name.clone(), "it is broken".to_owned()),
                _ => Event::DriveUp(name.clone()),
            });
            // Before any tape is known: an empty drive would be given one at once.
            if let (Phase::Idle, Some(tape)) = (&self.drives[drive].phase, self.drives[drive].tape) {
                self.tell(Event::Mounted(name, Holdings::vid(tape)));
            }
        }
        self.tell_cleaning();
        for tape in 0..self.tapes.len() {
            self.tell_tape(TapeIndex(tape as u32));
        }
        for tape in 0..self.tapes.len() {
            if !self.tapes[tape].flushed.is_empty() {
                self.leave_maintenance(TapeIndex(tape as u32));
            }
        }
        let is_known = |class: &Vec<u16>| !class.is_empty();
        for class in 0..self.model.site.classes.len() {
            if is_known(&self.model.site.classes[class].copies) {
                self.tell_todo(class);
            }
        }
        for pool in 0..self.model.site.tape_pools.len() {
            self.tell_queued(pool);
        }
        self.load_wants();
        self.tell_room(true);
    }

    fn load_wants(&mut self) {
        let mut files: Vec<_> =
            self.wants.iter().filter(|want| want.admitted.is_some()).map(|want| want.file).collect();
        if files.is_empty() {
            return;
        }
        files.sort_unstable();
        if self.is_planted(Planted::ForgetAtRestart, 0) {
            files.pop();
        }
        let mut loaded = Vec::with_capacity(files.len());
        for file in files {
            let copies: Vec<Vid> = self.told_copies(file).into_iter().map(Holdings::vid).collect();
            let Some(want) = self.wants.get(file) else { continue };
            loaded.push(WantedFile {
                file,
                bytes: ByteCount(want.bytes),
                since: want.since.timestamp(),
                priority: want.priority,
                share: ShareId(FileNumber::of(file).class.0 + 1),
                copies,
            });
        }
        self.scheduler.load(self.now.timestamp(), loaded.into_iter());
    }

    /// What the scheduler must know of a tape.
    pub(super) fn tell_tape(&mut self, tape: TapeIndex) {
        let state = &self.tapes[tape.0 as usize];
        let of = &self.holdings.tapes()[tape.0 as usize];
        let capacity = self.model.site.libraries[usize::from(of.library.0)].tape.capacity.0;
        let free = if state.is_full { 0 } else { capacity.saturating_sub(of.used) };
        let reason = match () {
            () if state.is_unreadable => "it cannot be read",
            () if state.is_read_only || state.is_suspect => "a write failed",
            () => "",
        };
        let summary = TapeSummary {
            tape_pool: of.tape_pool.map(|pool| base::TapePoolId(pool + 1)),
            readable: !state.is_unreadable,
            writable: !state.is_unreadable && !state.is_read_only && !state.is_suspect && free > 0,
            free: ByteCount(free),
            written: ByteCount(of.used),
            labelled: true,
            mounts: state.mounts,
            leaves: state.is_unreadable,
            library: base::LibraryId(of.library.0),
            suspect: state.is_suspect,
            reason: reason.to_owned(),
        };
        self.tell(Event::Tape(Holdings::vid(tape), summary));
    }

    /// The server stops: sessions end where they are. It starts again after a while, and not before robots
    /// and drives have done what they were doing.
    pub(super) fn stop_server(&mut self, lasts: Duration) {
        if !self.is_up {
            return;
        }
        self.meter.fault(FaultKind::Restart);
        self.is_up = false;
        self.wake = Moment(u64::MAX);
        let mut start = self.now.plus(lasts);
        for drive in 0..self.drives.len() {
            match self.drives[drive].phase {
                Phase::Recalling | Phase::Migrating | Phase::Maintaining => {
                    self.end_trail(drive);
                    self.close_session(drive);
                    self.idle(drive);
                }
                Phase::Mounting { .. } | Phase::Unmounting { .. } | Phase::Cleaning { .. } => {
                    start = start.max(Moment(self.drives[drive].due.0 + 1));
                }
                Phase::Refusing(_) => {
                    self.drives[drive].phase = Phase::Broken;
                    self.meter.drive(self.now, drive, DriveActivity::Down);
                    if self.repairs[drive] <= self.now {
                        self.repaired(drive);
                    }
                }
                Phase::Empty | Phase::Idle | Phase::Broken => {}
            }
        }
        for todo in &mut self.migration.todo {
            todo.stop_sealing();
        }
        self.agenda.enter(start, What::Start);
    }

    pub(super) fn start_server(&mut self) {
        // A mount that failed, or a cleaning, goes on with the cartridge's way back.
        let is_busy = |phase: &Phase| {
            matches!(phase, Phase::Mounting { .. } | Phase::Unmounting { .. } | Phase::Cleaning { .. })
        };
        let busy = self.drives.iter().filter(|it| is_busy(&it.phase));
        if let Some(due) = busy.map(|it| it.due).max() {
            self.agenda.enter(Moment(due.0.max(self.now.0) + 1), What::Start);
            return;
        }
        self.is_up = true;
        self.scheduler = Scheduler::new(self.model.policy.clone());
        self.room.forget_told();
        self.tell_all();
    }
}
