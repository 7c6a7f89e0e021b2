//! Drives and robots: mounts, unmounts, indexes.

use base::{Duration, FailureCause, LibraryId, Partition, Timestamp, Vid};
use mechanics::{Motion, Robots, TapeByte, Track};
use scheduler::{DriveName, Event, Failure, suspects_tape};
use session::{ReadingRules, WritingRules, WritingSession};

use super::agenda::What;
use super::invariants::Check;
use super::migrate::Writing;
use super::recall::Reading;
use super::{BLOCK, World};
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::{DriveGroup, FaultKind, LibraryModel};

/// Pieces that a drive's buffer holds: two in a sixteenth of it.
const PIECES_A_BUFFER: u64 = 32;
/// A piece is no smaller, whatever the buffer: it costs some 100 ns of processor.
const PIECE_LEAST: u64 = 1 << 20;

/// How long a broken drive takes to say so.
const SAYS_NO: Duration = Duration::from_secs(10);

/// What a drive does, as far as its hardware and its session know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Empty,
    Mounting {
        assign: Option<u16>,
    },
    /// It was ordered to mount and is broken, or no tape of that name can be had.
    Refusing(Vid),
    /// With a tape, and nothing to do.
    Idle,
    Recalling,
    Migrating,
    Maintaining,
    /// `failed`: the mount, for this reason.
    Unmounting {
        failed: Option<MountFault>,
        /// The drive has given it out, and a robot carries it; else it is rewound and unloaded.
        is_out: bool,
    },
    /// A cleaning cartridge is brought in and cleans, or is brought home.
    Cleaning {
        vid: Vid,
        is_out: bool,
    },
    Broken,
}

/// A drive.
pub(super) struct Drive {
    pub(super) name: DriveName,
    pub(super) library: usize,
    pub(super) motion: Motion,
    pub(super) track: Track,
    /// Microseconds for which it stood between files and did not read ahead: its clock is so much late.
    pub(super) stood: u64,
    pub(super) life: u32,
    pub(super) phase: Phase,
    pub(super) tape: Option<TapeIndex>,
    /// What it does until its next event, not told to the meter yet.
    pub(super) trail: Vec<(Moment, DriveActivity)>,
    pub(super) reading: Reading,
    pub(super) writing: Writing,
    pub(super) session_since: Moment,
    /// When its next event is.
    pub(super) due: Moment,
}

impl Drive {
    fn new(
        name: DriveName,
        library: usize,
        model: &LibraryModel,
        group: &DriveGroup,
        rules: WritingRules,
        reading_rules: ReadingRules,
    ) -> Self {
        let timing = group.timing.clone();
        let track = Track {
            map: model.tape.geometry.block_map(BLOCK as u32),
            locate: timing.locate,
            block_us: BLOCK as f64 / timing.native_rate as f64 * 1e6,
            error: Some(0.0),
            fitted: None,
        };
        Drive {
            name,
            library,
            motion: Motion::new(timing, &model.tape.geometry),
            track,
            stood: 0,
            life: 0,
            phase: Phase::Empty,
            tape: None,
            trail: Vec::new(),
            reading: Reading::new(reading_rules),
            writing: Writing::new(rules),
            session_since: Moment(0),
            due: Moment(0),
        }
    }

    /// Bytes that are handed over at once where the way is slower than the drive: so few of its buffer that
    /// it stays within the part in which the drive matches the host's rate, a sixteenth.
    pub(super) fn piece(&self) -> u64 {
        (self.motion.timing().buffer.0 / PIECES_A_BUFFER).max(PIECE_LEAST)
    }

    pub(super) fn native_rate(&self) -> u64 {
        self.motion.timing().native_rate
    }

    /// Moves the head; gives when it is there.
    pub(super) fn locate(&mut self, at: Moment, to: TapeByte) -> Moment {
        let there = Moment(self.motion.locate(at.0 - self.stood, to) + self.stood).max(at);
        if there > at {
            self.trail.push((at, DriveActivity::Locate));
        }
        there
    }

    /// Of a transfer so much was the drive's own time; for the rest it waited.
    pub(super) fn note_transfer(&mut self, from: Moment, to: Moment, bytes: u64, what: DriveActivity) {
        let ideal = (u128::from(bytes) * 1_000_000 / u128::from(self.native_rate())) as u64;
        let waited = (to.0 - from.0).saturating_sub(ideal);
        if waited > 1_000 {
            self.trail.push((from, DriveActivity::Wait));
        }
        if waited <= 1_000 {
            self.trail.push((from, what));
        } else if ideal > 0 {
            self.trail.push((Moment(from.0 + waited), what));
        }
    }
}

/// Why a mount failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MountFault {
    /// The drive did not load the tape.
    Load,
    /// The library is not reached.
    LibraryAway,
}

impl MountFault {
    fn failure(self) -> Failure {
        match self {
            MountFault::Load => "the load failed".into(),
            MountFault::LibraryAway => failure_of("the library is not reached", FailureCause::Robot),
        }
    }
}

/// A failure as the engine tells it.
pub(super) fn failure_of(reason: &str, cause: FailureCause) -> Failure {
    let cause = Some(cause);
    Failure { reason: reason.to_owned(), cause, suspect: suspects_tape(cause) }
}

/// A library's robots.
pub(super) struct Library {
    robots: Robots,
    pub(super) jammed_until: Moment,
    pub(super) jam_counted: bool,
    /// Nobody reaches it until then.
    pub(super) away_until: Moment,
}

/// What the world knows of a tape beside [`Holdings`].
#[derive(Default)]
pub(super) struct TapeState {
    pub(super) drive: Option<u16>,
    pub(super) mounts: u64,
    pub(super) is_unreadable: bool,
    pub(super) is_read_only: bool,
    /// A write on it failed: it is not written until its session is closed, and kept for reading then.
    pub(super) is_suspect: bool,
    pub(super) is_full: bool,
    /// Wanted files with a copy on it; with those that are wanted no more, and twice.
    pub(super) wanted: Vec<base::FileId>,
    /// So long was `wanted` when it was last cleared of these.
    pub(super) cleared: usize,
    /// Counts files that came to be wanted from it.
    pub(super) arrived: u64,
    /// Containers that were flushed and are under no index, and where each begins.
    pub(super) flushed: Vec<(u32, u64)>,
    /// Written to since its last index.
    pub(super) is_changed: bool,
}

pub(super) fn libraries(models: &[LibraryModel]) -> Vec<Library> {
    let library = |model: &LibraryModel| Library {
        robots: Robots::new(model.robots),
        jammed_until: Moment(0),
        jam_counted: false,
        away_until: Moment(0),
    };
    models.iter().map(library).collect()
}

/// All drives, library by library and group by group.
pub(super) fn drives(
    models: &[LibraryModel],
    rules: WritingRules,
    reading_rules: ReadingRules,
) -> Vec<Drive> {
    let mut drives = Vec::new();
    for (at, model) in models.iter().enumerate() {
        let mut number = 0;
        for group in &model.drives {
            for _ in 0..group.count {
                let name = format!("{}-{number:03}", model.name);
                drives.push(Drive::new(name, at, model, group, rules, reading_rules));
                number += 1;
            }
        }
    }
    drives
}

impl Drive {
    /// The tape pool that it writes for.
    pub(super) fn writing_for(&self) -> u16 {
        self.writing.pool()
    }
}

impl World<'_> {
    /// The drive's next event is at this time.
    pub(super) fn drive_at(&mut self, drive: usize, at: Moment) {
        let at = at.max(self.now);
        self.drives[drive].due = at;
        let life = self.drives[drive].life;
        self.agenda.enter(at, What::Drive { drive: drive as u16, life });
    }

    /// Tells the meter what the drive did until now, and forgets what it was to do later.
    pub(super) fn end_trail(&mut self, drive: usize) {
        let mut trail = std::mem::take(&mut self.drives[drive].trail);
        for &(at, what) in trail.iter().filter(|(at, _)| *at <= self.now) {
            self.meter.drive(at, drive, what);
        }
        trail.clear();
        self.drives[drive].trail = trail;
    }

    pub(super) fn trail(&mut self, drive: usize, at: Moment, what: DriveActivity) {
        self.drives[drive].trail.push((at, what));
    }

    /// A robot's move that can begin at `at`; the drive waits for it.
    pub(super) fn robot(&mut self, drive: usize, at: Moment) -> Moment {
        let library = &mut self.libraries[self.drives[drive].library];
        let from = at.max(library.jammed_until);
        if from > at && !std::mem::replace(&mut library.jam_counted, true) {
            self.meter.fault(FaultKind::RobotJam);
        }
        let moved = library.robots.request(from.0);
        if moved.start_us > at.0 {
            self.trail(drive, at, DriveActivity::Wait);
        }
        self.trail(drive, Moment(moved.start_us), DriveActivity::Mount);
        Moment(moved.done_us)
    }

    pub(super) fn mount(&mut self, drive: usize, vid: Vid, assign: Option<u16>) {
        let tape = Holdings::index_of(vid).filter(|tape| (tape.0 as usize) < self.tapes.len());
        let Some(tape) = tape.filter(|_| self.drives[drive].phase == Phase::Empty) else {
            if self.drives[drive].phase != Phase::Broken {
                let phase = self.drives[drive].phase.clone();
                self.violated(format!("tape {vid} is mounted into drive {drive}, which does {phase:?}"));
            }
            return self.refuses(drive, vid);
        };
        let library = self.holdings.tapes()[tape.0 as usize].library.0;
        self.checked(Check::TapeInOneDrive);
        if let Some(other) = self.tapes[tape.0 as usize].drive {
            return self
                .violated(format!("tape {vid} is mounted into drive {drive} and is in drive {other}"));
        }
        if usize::from(library) != self.drives[drive].library {
            return self.violated(format!("tape {vid} of library {library} is mounted into drive {drive}"));
        }
        self.tapes[tape.0 as usize].drive = Some(drive as u16);
        self.tapes[tape.0 as usize].mounts += 1;
        self.meter.mount(self.now, drive, tape.0);
        self.trace_mount(drive, tape);
        self.drives[drive].tape = Some(tape);
        self.drives[drive].phase = Phase::Mounting { assign };
        self.drives[drive].session_since = self.now;
        let there = self.robot(drive, self.now);
        let it = &mut self.drives[drive];
        let loaded = it.motion.load(there.0 - it.stood) + it.stood;
        let extra = self.model.site.libraries[it.library].mount_extra;
        let ready = self.open_volume(drive, tape, assign.is_some(), Moment(loaded).plus(extra));
        self.drive_at(drive, ready);
    }

    /// It is broken, and says so after a while.
    pub(super) fn refuses(&mut self, drive: usize, vid: Vid) {
        self.drives[drive].phase = Phase::Refusing(vid);
        self.drive_at(drive, self.now.plus(SAYS_NO));
    }

    /// The drive's event has come.
    pub(super) fn drive_event(&mut self, drive: usize) {
        self.end_trail(drive);
        match self.drives[drive].phase.clone() {
            Phase::Mounting { assign } => self.mounted(drive, assign),
            Phase::Unmounting { failed, is_out: false } => {
                // Not before: a robot that is given the move earlier would wait for it.
                let at = self.robot(drive, self.now);
                self.drives[drive].phase = Phase::Unmounting { failed, is_out: true };
                self.drive_at(drive, at);
            }
            Phase::Unmounting { failed, .. } => self.unmounted(drive, failed),
            Phase::Recalling => self.recall_on(drive),
            Phase::Migrating => self.migrate_on(drive),
            Phase::Maintaining => self.maintained(drive),
            Phase::Refusing(vid) => self.refuse_mount(drive, vid),
            Phase::Cleaning { vid, is_out } => self.cleans_on(drive, vid, is_out),
            Phase::Empty | Phase::Idle | Phase::Broken => {}
        }
    }

    fn refuse_mount(&mut self, drive: usize, vid: Vid) {
        let name = self.drives[drive].name.clone();
        if self.repairs[drive] > self.now {
            self.drives[drive].phase = Phase::Broken;
            self.tell(Event::DriveFailed(name, "it is broken".to_owned()));
        } else {
            self.drives[drive].phase = Phase::Empty;
            self.meter.drive(self.now, drive, DriveActivity::Idle);
            self.tell(match self.says_it_was_broken(vid) {
                Some(end) => Event::Cleaned(name, end),
                None => Event::MountFailed(name, vid, "it was broken until now".into()),
            });
        }
    }

    fn mounted(&mut self, drive: usize, assign: Option<u16>) {
        let Some(tape) = self.drives[drive].tape else { return };
        let fails = self.pending.take(FaultKind::MountFailure);
        if fails {
            self.meter.fault(FaultKind::MountFailure);
            return self.carry_away(drive, Some(MountFault::Load));
        }
        let library = self.drives[drive].library;
        if self.libraries[library].away_until > self.now {
            self.meter.fault(FaultKind::LibraryAway);
            return self.carry_away(drive, Some(MountFault::LibraryAway));
        }
        self.mount_max = self.mount_max.max(self.now.since(self.drives[drive].session_since));
        self.drives[drive].phase = Phase::Idle;
        let rules = self.model.site.work.writing_rules();
        self.drives[drive].writing.session = WritingSession::new(rules, Timestamp(0));
        self.meter.drive(self.now, drive, DriveActivity::Idle);
        if assign.is_some() {
            self.holdings.tape_mut(tape).tape_pool = assign;
            self.tell_tape(tape);
        }
        self.trace_ready(drive);
        let name = self.drives[drive].name.clone();
        self.tell(Event::Mounted(name, Holdings::vid(tape)));
    }

    /// Writes the index if it must, and carries the tape to its slot.
    pub(super) fn unmount(&mut self, drive: usize) {
        if self.drives[drive].phase != Phase::Idle {
            return self
                .violated(format!("drive {drive} is to unmount while {:?}", self.drives[drive].phase));
        }
        self.drives[drive].session_since = self.now;
        self.carry_away(drive, None);
    }

    fn carry_away(&mut self, drive: usize, failed: Option<MountFault>) {
        let Some(tape) = self.drives[drive].tape else { return };
        self.trail(drive, self.now, DriveActivity::Mount);
        let mut at = self.now;
        let state = &self.tapes[tape.0 as usize];
        if failed.is_none() && state.is_changed && !state.is_read_only && !state.is_unreadable {
            at = self.write_index(drive, at, true);
            self.drives[drive].writing.is_indexed = true;
            self.trail(drive, at, DriveActivity::Mount);
        }
        self.trace_unmounting(drive, at);
        let it = &mut self.drives[drive];
        at = Moment(it.motion.unload(at.0 - it.stood) + it.stood).max(at);
        self.drives[drive].phase = Phase::Unmounting { failed, is_out: false };
        self.drive_at(drive, at);
    }

    /// An index behind the data, and with `both` one on the index partition.
    pub(super) fn write_index(&mut self, drive: usize, at: Moment, both: bool) -> Moment {
        let Some(tape) = self.drives[drive].tape else { return at };
        if self.has_volumes(drive) {
            return self.write_volume_index(drive, tape, at, both);
        }
        let of = &self.holdings.tapes()[tape.0 as usize];
        let flushed: u64 = self.tapes[tape.0 as usize].flushed.iter().map(|(at, _)| self.files_of(*at)).sum();
        let files = of.files + flushed;
        let bytes = files.saturating_mul(self.model.site.work.index_bytes_a_file).max(BLOCK);
        let end = TapeByte { partition: Partition::Data, byte: of.used };
        let it = &mut self.drives[drive];
        let mut now = it.locate(at, end);
        it.trail.push((now, DriveActivity::Mount));
        let clock = |now: Moment| now.0 - it.stood;
        let wrote = it.motion.write(clock(now), bytes);
        now = Moment(it.motion.flush(wrote) + it.stood).max(now);
        if both {
            let top = TapeByte { partition: Partition::Index, byte: 0 };
            now = it.locate(now, top);
            it.trail.push((now, DriveActivity::Mount));
            let wrote = it.motion.write(now.0 - it.stood, bytes);
            now = Moment(it.motion.flush(wrote) + it.stood).max(now);
        }
        let of = self.holdings.tape_mut(tape);
        of.used = of.used.saturating_add(bytes);
        now
    }

    fn unmounted(&mut self, drive: usize, failed: Option<MountFault>) {
        let Some(tape) = self.drives[drive].tape.take() else { return };
        if std::mem::take(&mut self.drives[drive].writing.is_indexed) {
            self.indexed(tape);
        }
        self.tapes[tape.0 as usize].drive = None;
        self.trace_unmounted(drive);
        self.drives[drive].phase = Phase::Empty;
        self.meter.drive(self.now, drive, DriveActivity::Idle);
        let (name, vid) = (self.drives[drive].name.clone(), Holdings::vid(tape));
        self.unmount_max = self.unmount_max.max(self.now.since(self.drives[drive].session_since));
        self.tell_tape(tape);
        self.tell(match failed {
            Some(fault) => Event::MountFailed(name, vid, fault.failure()),
            None => Event::Unmounted(name),
        });
    }

    /// Maintenance: the one kind that there is here is an index for what a session left behind.
    pub(super) fn maintain(&mut self, drive: usize) {
        self.drives[drive].phase = Phase::Maintaining;
        let Some(tape) = self.drives[drive].tape else { return };
        let mut at = self.now;
        let state = &self.tapes[tape.0 as usize];
        if state.is_changed && !state.is_read_only && !state.is_unreadable {
            at = self.write_index(drive, at, true);
            self.drives[drive].writing.is_indexed = true;
        }
        self.drive_at(drive, at);
    }

    fn maintained(&mut self, drive: usize) {
        let Some(tape) = self.drives[drive].tape else { return };
        if std::mem::take(&mut self.drives[drive].writing.is_indexed) {
            self.indexed(tape);
            self.drives[drive].writing.session.indexed();
        }
        if std::mem::take(&mut self.tapes[tape.0 as usize].is_suspect) {
            self.tapes[tape.0 as usize].is_read_only = true;
            self.tell_tape(tape);
        }
        self.idle(drive);
        let (name, vid) = (self.drives[drive].name.clone(), Holdings::vid(tape));
        self.tell(Event::Maintain(vid, false));
        self.tell(Event::MaintenanceEnded(name, scheduler::SessionEnd::Drained));
    }

    /// Its session is over.
    pub(super) fn idle(&mut self, drive: usize) {
        self.drives[drive].phase = Phase::Idle;
        self.drives[drive].life += 1;
        self.meter.drive(self.now, drive, DriveActivity::Idle);
    }

    pub(super) fn library_id(&self, drive: usize) -> LibraryId {
        LibraryId(self.drives[drive].library as u16)
    }
}
