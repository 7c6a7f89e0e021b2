//! What goes wrong.

use base::{Duration, FailureCause};
use durability::SplitMix;
use scheduler::Event;

use super::World;
use super::agenda::What;
use super::drives::{Phase, failure_of};
use super::planted::Planted;
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{Fault, FaultKind};

/// Faults of a kind that wait for something to hit.
const PENDING_MAX: u8 = 3;
/// Nothing lasts shorter.
const LASTS_MIN: Duration = Duration::from_secs(1);

/// Faults that strike the next time that something is done.
#[derive(Default)]
pub(super) struct Pending([u8; FaultKind::ALL.len()]);

impl Pending {
    fn add(&mut self, kind: FaultKind) {
        let waiting = &mut self.0[kind as usize];
        *waiting = (*waiting + 1).min(PENDING_MAX);
    }

    /// Whether one strikes now.
    pub(super) fn take(&mut self, kind: FaultKind) -> bool {
        let waiting = &mut self.0[kind as usize];
        let strikes = *waiting > 0;
        *waiting -= u8::from(strikes);
        strikes
    }
}

/// A kind of fault and its own random numbers.
pub(super) struct Source {
    pub(super) kind: FaultKind,
    every: Duration,
    lasts: Duration,
    random: SplitMix,
}

impl Source {
    pub(super) fn new(fault: &Fault, seed: u64, index: usize) -> Self {
        let random = SplitMix::new(seed ^ (0xfa17_0000 + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Source { kind: fault.kind, every: fault.every, lasts: fault.lasts, random }
    }

    pub(super) fn next(&mut self, after: Moment) -> Moment {
        let mean = self.every.max(LASTS_MIN).as_micros() as f64;
        Moment(after.0 + self.random.exponential(mean).min(1e17) as u64 + 1)
    }

    fn lasts(&mut self) -> Duration {
        let mean = self.lasts.max(LASTS_MIN).as_micros() as f64;
        Duration::from_micros(self.random.exponential(mean).min(1e17) as u64).max(LASTS_MIN)
    }

    fn below(&mut self, bound: usize) -> Option<usize> {
        if bound == 0 { None } else { Some(self.random.below(bound)) }
    }
}

impl World<'_> {
    pub(super) fn fault_event(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let kind = source.kind;
        let next = source.next(self.now);
        self.agenda.enter(next, What::Fault(index as u16));
        match kind {
            FaultKind::DriveLoss => {
                let (drive, lasts) = (source.below(self.drives.len()), source.lasts());
                drive.into_iter().for_each(|drive| self.lose_drive(drive, lasts));
            }
            FaultKind::RobotJam => {
                let (library, lasts) = (source.below(self.libraries.len()), source.lasts());
                if let Some(library) = library {
                    let until = self.now.plus(lasts);
                    let library = &mut self.libraries[library];
                    if library.jammed_until <= self.now {
                        library.jam_counted = false;
                    }
                    library.jammed_until = library.jammed_until.max(until);
                }
            }
            FaultKind::MountFailure
            | FaultKind::UnreadableCopy
            | FaultKind::EarlyEnd
            | FaultKind::WriteError
            | FaultKind::PathLoss
            | FaultKind::CleanerUsedUp => self.pending.add(kind),
            FaultKind::DirtyDrive => {
                let (drive, must) = (source.below(self.drives.len()), source.below(2) == Some(1));
                drive.into_iter().for_each(|drive| self.gets_dirty(drive, must));
            }
            FaultKind::LibraryAway => {
                let (library, lasts) = (source.below(self.libraries.len()), source.lasts());
                if let Some(library) = library {
                    let until = self.now.plus(lasts);
                    let library = &mut self.libraries[library];
                    library.away_until = library.away_until.max(until);
                }
            }
            FaultKind::UnreadableTape => self.lose_tape(index),
            FaultKind::Restart => {
                let lasts = source.lasts();
                self.stop_server(lasts);
            }
            FaultKind::SlowNetwork | FaultKind::SlowPool | FaultKind::UserStorm => {
                let until = self.now.plus(source.lasts());
                self.begin_slow(kind, index, until);
            }
            FaultKind::Cancel => {
                let at = source.below(self.wants.len());
                at.into_iter().for_each(|at| self.cancel_any(at));
            }
        }
    }

    fn begin_slow(&mut self, kind: FaultKind, index: usize, until: Moment) {
        let source = self.slow.entry(kind).or_insert(Moment(0));
        *source = until.max(*source);
        let works = match kind {
            FaultKind::UserStorm => !self.users.is_over(),
            _ => {
                self.room.clients > 0
                    || self.drives.iter().any(|it| matches!(it.phase, Phase::Recalling | Phase::Migrating))
            }
        };
        if works {
            self.meter.fault(kind);
        }
        self.set_speeds();
        self.agenda.enter(until, What::FaultEnds(index as u16));
    }

    pub(super) fn fault_ends(&mut self, _index: usize) {
        self.set_speeds();
    }

    fn set_speeds(&mut self) {
        let now = self.now;
        let is = |kind: FaultKind| self.slow.get(&kind).is_some_and(|until| *until > now);
        let factor = |slow: bool, to: f64| if slow { to } else { 1.0 };
        let disks = factor(is(FaultKind::SlowPool), 0.5);
        let network = factor(is(FaultKind::SlowNetwork), 0.1);
        let storm = is(FaultKind::UserStorm);
        self.feed.slow(disks, network);
        if storm != self.is_storm {
            self.is_storm = storm;
            self.users.storm(now, factor(storm, 10.0));
        }
    }

    /// The way to a drive breaks while it reads or writes: the session ends, and the tape is as good as it
    /// was. What was flushed gets its index by maintenance.
    pub(super) fn path_breaks(&mut self, drive: usize, tape: TapeIndex) -> bool {
        if !self.pending.take(FaultKind::PathLoss) {
            return false;
        }
        self.meter.fault(FaultKind::PathLoss);
        let failure = failure_of("the drive is not reached", FailureCause::Path);
        match self.drives[drive].phase {
            Phase::Recalling => self.fail_recall(drive, failure),
            _ => {
                self.leave_maintenance(tape);
                self.fail_migration(drive, failure);
            }
        }
        true
    }

    /// A drive fails, whatever it does. Its tape is taken out of it and is in its slot at once.
    fn lose_drive(&mut self, drive: usize, lasts: Duration) {
        if matches!(self.drives[drive].phase, Phase::Broken | Phase::Refusing(_)) {
            return;
        }
        self.meter.fault(FaultKind::DriveLoss);
        self.end_trail(drive);
        let reading = self.drives[drive].phase == Phase::Recalling;
        self.close_session(drive);
        let tape = self.drives[drive].tape.take();
        if let Some(tape) = tape {
            self.tapes[tape.0 as usize].drive = None;
            // It comes out by hand, wherever it stood.
            let it = &mut self.drives[drive];
            it.motion.unload(self.now.0.saturating_sub(it.stood));
            if reading && self.planted == Some(Planted::ForgetAtDriveLoss) {
                self.forget_one(tape);
            }
        }
        self.drives[drive].phase = Phase::Broken;
        self.drives[drive].life += 1;
        self.meter.drive(self.now, drive, DriveActivity::Down);
        let until = self.now.plus(lasts);
        self.repairs[drive] = until;
        self.agenda.enter(until, What::Repaired { drive: drive as u16 });
        let name = self.drives[drive].name.clone();
        self.tell(Event::DriveFailed(name, "it is broken".to_owned()));
        if let Some(tape) = tape {
            self.leave_maintenance(tape);
            self.tell_tape(tape);
        }
    }

    /// The session of a drive is over, and what it claimed and took is given back.
    pub(super) fn close_session(&mut self, drive: usize) {
        match self.drives[drive].phase {
            Phase::Recalling => self.close_recall(drive),
            Phase::Migrating => self.close_migration(drive),
            _ => {}
        }
        self.drives[drive].writing.is_indexed = false;
    }

    /// What was flushed on a tape and is under no index gets one, by maintenance.
    pub(super) fn leave_maintenance(&mut self, tape: TapeIndex) {
        let state = &self.tapes[tape.0 as usize];
        if !state.flushed.is_empty() && !state.is_read_only && !state.is_unreadable {
            self.tell(Event::Maintain(Holdings::vid(tape), true));
        } else if state.flushed.is_empty() {
            self.tapes[tape.0 as usize].is_changed = false;
        }
        let pool = self.holdings.tapes()[tape.0 as usize].tape_pool;
        pool.into_iter().for_each(|pool| self.tell_queued(usize::from(pool)));
    }

    pub(super) fn repaired(&mut self, drive: usize) {
        if self.repairs[drive] > self.now || !matches!(self.drives[drive].phase, Phase::Broken) {
            return;
        }
        self.drives[drive].phase = Phase::Empty;
        self.meter.drive(self.now, drive, DriveActivity::Idle);
        let name = self.drives[drive].name.clone();
        self.tell(Event::DriveUp(name));
    }

    /// A tape of some pool cannot be read any more, for good.
    fn lose_tape(&mut self, index: usize) {
        let tapes = self.holdings.tapes();
        let of_pools = |at: usize| tapes[at].tape_pool.is_some() && !self.tapes[at].is_unreadable;
        let known: Vec<usize> = (0..tapes.len()).filter(|at| of_pools(*at)).collect();
        let Some(chosen) = self.sources[index].below(known.len()) else { return };
        let tape = TapeIndex(known[chosen] as u32);
        self.meter.fault(FaultKind::UnreadableTape);
        let at = tape.0 as usize;
        self.tapes[at].is_unreadable = true;
        self.holdings.forget_tape(tape);
        if let Some(drive) = self.tapes[at].drive.map(usize::from) {
            self.end_trail(drive);
            match self.drives[drive].phase {
                Phase::Recalling => self.fail_recall(drive, "the tape cannot be read".into()),
                Phase::Migrating => self.fail_migration(drive, "the tape cannot be read".into()),
                _ => {}
            }
        }
        self.lose_copies(tape);
        self.tell(Event::Maintain(Holdings::vid(tape), false));
        self.tell_tape(tape);
        self.clear_wanted(tape);
        let wanted = std::mem::take(&mut self.tapes[at].wanted);
        wanted.into_iter().for_each(|file| self.copies_changed(file));
        // Those outside the queue may have lost their last copy, too.
        let outside: Vec<_> = self.outside.iter().copied().collect();
        outside.into_iter().for_each(|file| self.copies_changed(file));
    }

    /// A planted bug: the scheduler believes that a file is not wanted any more.
    fn forget_one(&mut self, tape: TapeIndex) {
        self.clear_wanted(tape);
        let file = self.tapes[tape.0 as usize].wanted.first().copied();
        if let Some(file) = file.filter(|_| !self.has_struck) {
            self.has_struck = true;
            self.tell(Event::NotWanted(file));
        }
    }
}
