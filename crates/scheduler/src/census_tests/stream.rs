//! Random events for a scheduler, such as an engine in which much fails would tell: what it orders happens,
//! or fails, in any order and after any time.

use crate::{
    Action, Backlog, ClassPolicy, CleaningDue, CleaningEnd, CleaningUrgency, DriveName, Event, Failure,
    Policy, SessionEnd, SharePolicy, SidePolicy, TapePoolPolicy, TapeSummary,
};
use base::{
    ByteCount, ClassId, Duration, FailureCause, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid,
};

const GB: u64 = 1_000_000_000;

/// Which kind of order this is, from 0 to 6; a tick is none of drives, and counts as a seal.
pub fn kind(action: &Action) -> usize {
    match action {
        Action::Mount { .. } => 0,
        Action::Migrate { .. } => 1,
        Action::Recall { .. } => 2,
        Action::Maintain { .. } => 3,
        Action::Unmount { .. } => 4,
        Action::Clean { .. } => 6,
        _ => 5,
    }
}

/// An order that was given and has not come to an end.
#[derive(Clone)]
struct Pending {
    drive: DriveName,
    vid: Option<Vid>,
    kind: usize,
}

pub struct Stream {
    random: u64,
    now: i64,
    drives: usize,
    libraries: u64,
    tapes: u64,
    pools: u16,
    /// One of so many orders and events fails or is odd.
    odd: u64,
    pending: Vec<Pending>,
    in_drives: Vec<(DriveName, Vid)>,
    wanted: Vec<FileId>,
    next_file: u64,
    todo: Vec<Backlog>,
    queued: Vec<Backlog>,
    sealing: Vec<ClassId>,
    wake: Option<i64>,
    first: Vec<Event>,
}

impl Stream {
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6b69_7374,
            now: 1_000_000_000_000_000,
            drives: 0,
            libraries: 1,
            tapes: 0,
            pools: 1,
            odd: 0,
            pending: Vec::new(),
            in_drives: Vec::new(),
            wanted: Vec::new(),
            next_file: 0,
            todo: Vec::new(),
            queued: Vec::new(),
            sealing: Vec::new(),
            wake: None,
            first: Vec::new(),
        };
        stream.drives = 1 + stream.below(12) as usize;
        stream.libraries = 1 + stream.below(2);
        stream.tapes = 4 + stream.below(40);
        stream.pools = 1 + stream.below(3) as u16;
        stream.odd = [20, 60, 1_000_000][stream.below(3) as usize];
        stream.todo = vec![Backlog::default(); usize::from(stream.pools)];
        stream.queued = stream.todo.clone();
        for drive in 0..stream.drives {
            let library = LibraryId((drive as u64 % stream.libraries) as u16);
            stream.first.push(Event::DriveIn(name(drive), library));
            stream.first.push(Event::DriveUp(name(drive)));
        }
        for tape in 0..stream.tapes {
            let event = stream.tape(tape);
            stream.first.push(event);
        }
        stream.first.reverse();
        stream
    }

    pub fn policy(&mut self) -> Policy {
        let mut policy = Policy::default();
        for pool in 1..=self.pools {
            let class = ClassPolicy {
                name: String::new(),
                pack_bytes: ByteCount(20 * GB),
                pack_age: Duration::from_secs(600),
            };
            policy.classes.insert(ClassId(pool), class);
            let tapes = TapePoolPolicy {
                mount_bytes: ByteCount((50 + self.below(200)) * GB),
                mount_age: Duration::from_secs(600 + self.below(7_200)),
                drives_min: self.below(2) as usize,
                drives_max: 1 + self.below(3) as usize,
                open_tapes_max: [2, usize::MAX][self.below(2) as usize],
                share: ShareId(pool),
                library: None,
                ..TapePoolPolicy::default()
            };
            policy.tape_pools.insert(TapePoolId(pool), tapes);
            let (drives_min, weight) = (self.below(2) as usize, 1 + self.below(3) as u32);
            let drives_max = [2, usize::MAX][self.below(2) as usize];
            let share =
                SharePolicy { name: String::new(), weight, drives_min, drives_max, ..SharePolicy::default() };
            policy.shares.insert(ShareId(pool), share);
        }
        policy.recall_age = Duration::from_secs(self.below(600));
        policy.recall_bytes = ByteCount((1 + self.below(40)) * GB);
        policy.recall_files = [10, u64::MAX][self.below(2) as usize];
        policy.recall_at_once = [8, 10][self.below(2) as usize];
        policy.starvation = Duration::from_secs(600 + self.below(7_200));
        policy.recall =
            SidePolicy { drives_min: 0, drives_max: [self.drives, usize::MAX][self.below(2) as usize] };
        policy.mounts_at_once_max = [1, 2, usize::MAX][self.below(3) as usize];
        policy.dismount_delay = Duration::from_secs(self.below(300));
        policy.remount_delay = Duration::from_secs([0, 300][self.below(2) as usize]);
        policy.remount_bytes = ByteCount(20 * GB);
        policy.retry_delay = Duration::from_secs(60 + self.below(900));
        policy
    }

    /// What happens next, and when.
    pub fn next(&mut self) -> (Timestamp, Event) {
        if let Some(event) = self.first.pop() {
            return (Timestamp(self.now), event);
        }
        if self.below(3) > 0 {
            self.now += self.below(40_000) as i64 * 1_000_000;
        }
        if let Some(wake) = self.wake.filter(|wake| *wake <= self.now) {
            self.wake = None;
            self.now = self.now.max(wake);
            return (Timestamp(self.now), Event::Tick);
        }
        let event = match self.below(10) {
            0..4 if !self.pending.is_empty() => self.done(),
            0 if self.wake.is_some() => {
                self.now = self.wake.take().unwrap_or(self.now).max(self.now);
                Event::Tick
            }
            _ => self.outside(),
        };
        (Timestamp(self.now), event)
    }

    /// Takes down what was ordered.
    pub fn took(&mut self, actions: &[Action]) {
        for action in actions {
            let (drive, vid) = match action {
                Action::Mount { drive, vid, .. } => {
                    self.in_drives.push((drive.clone(), *vid));
                    (drive, Some(*vid))
                }
                Action::Migrate { drive, vid, .. }
                | Action::Recall { drive, vid }
                | Action::Maintain { drive, vid } => (drive, Some(*vid)),
                Action::Clean { drive, vid } => (drive, Some(*vid)),
                Action::Unmount { drive } => (drive, None),
                Action::Seal { class, .. } => {
                    self.sealing.push(*class);
                    continue;
                }
                Action::Clear { .. } => continue,
                Action::WakeAt(at) => {
                    self.wake = Some(self.wake.map_or(at.0, |wake| wake.min(at.0)));
                    continue;
                }
            };
            self.pending.push(Pending { drive: drive.clone(), vid, kind: kind(action) });
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound.max(1)
    }

    fn is_odd(&mut self) -> bool {
        self.below(self.odd) == 0
    }

    fn done(&mut self) -> Event {
        let at = self.below(self.pending.len() as u64) as usize;
        let Pending { drive, vid, kind } = self.pending.swap_remove(at);
        let vid = vid.unwrap_or_else(|| tape_name(0));
        if self.odd < 1_000 && self.is_odd() {
            self.in_drives.retain(|(of, _)| *of != drive);
            return Event::DriveFailed(drive, "it broke".to_owned());
        }
        let end = match self.below(12) {
            0 if self.odd < 1_000 => SessionEnd::Failed(self.failure()),
            1 => SessionEnd::NoRoom,
            2 => SessionEnd::TapeFull,
            3 => SessionEnd::Stopped,
            _ => SessionEnd::Drained,
        };
        match kind {
            0 if self.is_odd() => {
                self.in_drives.retain(|(of, _)| *of != drive);
                Event::MountFailed(drive, vid, self.failure())
            }
            0 => Event::Mounted(drive, vid),
            1 => Event::MigrationEnded(drive, end),
            2 => Event::RecallEnded(drive, end),
            3 => Event::MaintenanceEnded(drive, end),
            6 => Event::Cleaned(drive, self.cleaned()),
            _ => {
                self.in_drives.retain(|(of, _)| *of != drive);
                Event::Unmounted(drive)
            }
        }
    }

    fn cleaned(&mut self) -> CleaningEnd {
        match self.below(3) {
            0 => CleaningEnd::Failed("it was not cleaned".to_owned()),
            1 => CleaningEnd::Unfit,
            _ => CleaningEnd::Cleaned,
        }
    }

    /// A drive asks to be cleaned, or does not any more; or which cartridges clean has changed.
    fn cleaning(&mut self) -> Event {
        if self.below(4) == 0 {
            let all = (0..self.below(3)).map(|number| (LibraryId(number as u16 % 2), cleaner(number)));
            return Event::CleaningCartridges(all.collect());
        }
        let urgency = [CleaningUrgency::Idle, CleaningUrgency::Now, CleaningUrgency::Ordered];
        let due = CleaningDue {
            urgency: urgency[self.below(3) as usize],
            since: Timestamp(self.now - self.below(40_000) as i64 * 1_000_000_000),
            with: (self.below(8) == 0).then(|| cleaner(0)),
            cleaned: (self.below(3) == 0)
                .then_some(Timestamp(self.now - self.below(40) as i64 * 3_600_000_000_000)),
        };
        let asks = self.below(4) > 0;
        Event::CleanDrive(name(self.below(self.drives as u64) as usize), asks.then_some(due))
    }

    /// Nobody knows whose, or this host's.
    fn failure(&mut self) -> Failure {
        let cause = [FailureCause::Unknown, FailureCause::Host][self.below(2) as usize];
        Failure { cause: Some(cause), .."so".into() }
    }

    fn outside(&mut self) -> Event {
        match self.below(40) {
            0..14 => self.want(),
            14..24 if !self.wanted.is_empty() => {
                let at = self.below(self.wanted.len() as u64) as usize;
                Event::NotWanted(self.wanted.swap_remove(at))
            }
            24..27 => {
                let at = self.below(u64::from(self.pools)) as usize;
                let backlog = self.backlog();
                self.todo[at] = backlog;
                Event::Todo(ClassId(at as u16 + 1), backlog)
            }
            27..32 => {
                let at = self.below(u64::from(self.pools)) as usize;
                let backlog = self.backlog();
                self.queued[at] = backlog;
                Event::Queued(TapePoolId(at as u16 + 1), backlog)
            }
            32 if !self.sealing.is_empty() => Event::SealEnded(self.sealing.remove(0)),
            33 => Event::Maintain(tape_name(self.below(self.tapes)), self.random & 1 << 40 != 0),
            34 if self.is_odd() => match self.below(2) {
                0 => Event::MigrateNow(None),
                _ => Event::MigrateForRoom { classes: vec![ClassId(1)], tape_pools: vec![TapePoolId(1)] },
            },
            35 => {
                let (tape, taken) = (self.below(self.tapes), self.in_drives.clone());
                match taken.iter().any(|(_, vid)| *vid == tape_name(tape)) {
                    true => Event::Tick,
                    false => self.tape(tape),
                }
            }
            36 => self.space(),
            37 if self.is_odd() => self.trouble(),
            39 if self.odd < 1_000 => self.cleaning(),
            38 if !self.wanted.is_empty() => {
                let at = self.below(self.wanted.len() as u64) as usize;
                Event::CopyFailed(self.wanted[at], tape_name(self.below(self.tapes)))
            }
            _ => self.want(),
        }
    }

    fn want(&mut self) -> Event {
        self.next_file += 1;
        let file = FileId(self.next_file);
        self.wanted.push(file);
        let mut copies = vec![tape_name(self.below(self.tapes))];
        if self.below(3) == 0 {
            copies.push(tape_name(self.below(self.tapes)));
        }
        Event::Wanted {
            file,
            bytes: ByteCount((1 + self.below(5)) * GB),
            since: Timestamp(self.now),
            priority: self.below(10) as u8,
            share: ShareId(1 + self.below(3) as u16),
            copies,
        }
    }

    fn backlog(&mut self) -> Backlog {
        let items = self.below(4) * self.below(30);
        let bytes = ByteCount(items * (1 + self.below(10)) * GB);
        let oldest = (items > 0).then_some(Timestamp(self.now - self.below(4_000) as i64 * 1_000_000_000));
        Backlog { items, bytes, oldest }
    }

    fn tape(&mut self, tape: u64) -> Event {
        let tape_pool =
            (!tape.is_multiple_of(4)).then_some(TapePoolId(1 + (tape % u64::from(self.pools)) as u16));
        let summary = TapeSummary {
            tape_pool,
            readable: self.below(20) > 0,
            writable: self.below(3) > 0,
            free: ByteCount(self.below(1_000) * GB),
            written: ByteCount(0),
            labelled: true,
            mounts: self.below(10),
            leaves: self.below(20) == 0,
            library: LibraryId((tape % self.libraries) as u16),
            suspect: self.below(10) == 0,
            reason: String::new(),
        };
        Event::Tape(tape_name(tape), summary)
    }

    fn space(&mut self) -> Event {
        let share = [None, Some(ShareId(1)), Some(ShareId(2))][self.below(3) as usize];
        let free = [0, 5 * GB, 100 * GB, u64::MAX, u64::MAX][self.below(5) as usize];
        match self.below(8) {
            0 => Event::Streams { max: [1, 3, usize::MAX, usize::MAX][self.below(4) as usize] },
            _ => Event::PoolSpace { share, free: ByteCount(free) },
        }
    }

    fn trouble(&mut self) -> Event {
        let drive = name(self.below(self.drives as u64) as usize);
        match self.below(5) {
            0 => {
                self.pending.retain(|pending| pending.drive != drive);
                self.in_drives.retain(|(of, _)| *of != drive);
                Event::DriveDown(drive, "it is to be looked at".to_owned())
            }
            1 => Event::RetireDrive(drive, "it is old".to_owned()),
            2 => Event::TapeReleased(tape_name(self.below(self.tapes))),
            _ => Event::DriveUp(drive),
        }
    }
}

fn name(drive: usize) -> DriveName {
    format!("drive{drive:02}")
}

fn cleaner(number: u64) -> Vid {
    Vid::new(&format!("CLN{number:03}")).expect("six characters are a VID")
}

fn tape_name(tape: u64) -> Vid {
    Vid::new(&format!("K{tape:05}")).expect("six characters are a VID")
}
