//! What goes wrong in a world, when, and where it may: the schedule follows from the seed.
//!
//! Redundancy has limits, so that faults which destroy data silently keep to them: they strike two disks of
//! the pool (it has two parity shards) and the tapes of one of the two tape pools. Within these limits
//! nothing that was acknowledged may be lost, whatever else happens at the same time.

use std::time::Duration;

use archive::TapeUse;
use base::{BlockAddress, ByteCount, DriveId, Partition, TapePosition, Vid};
use catalogue::TapeState;
use threads::simulated;

use crate::machines::{Fault, MountState, Target};
use crate::pool_operator;
use crate::world::{Called, World, below, one_of};

/// The tape pool whose tapes may rot.
pub const ROTTEN_POOL: &str = "vault-b";
const HOUR_NANOS: i64 = 3_600_000_000_000;
const TEN_YEARS_NANOS: i64 = 10 * 365 * 24 * HOUR_NANOS;

/// What a world suffers from most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Profile {
    /// Processes that die, power cuts, a catalogue that cannot commit.
    Crashes,
    /// Disks that say that they fail.
    Disks,
    /// Two disks that lie, rot and vanish.
    Rot,
    /// Tapes, tape drives and the robot.
    Tapes,
    /// Crashes while tapes are written and read.
    Drills,
    /// Crashes and clocks only: reads never fail.
    Clean,
    /// A robot that jams and errs, drives that die and lose their place; tapes that are as good as new.
    Robot,
    /// Syncs that fail on all disks at once, as when a controller is reset.
    Syncs,
    /// Two disks that put pages in wrong places or not at all, and files of one length.
    Places,
    /// Many slow readers of what others replace and remove.
    Crowd,
    /// Crashes among large files.
    Large,
    /// Tapes are repacked while blocks are written wrongly.
    Repack,
    /// Ways to drives and library that break, drives that others reserve or that want to be cleaned; tapes
    /// that are as good as new.
    Paths,
    /// Files larger than a tape, in parts, under crashes and tape faults.
    Parts,
    /// Drives are emptied, what is stored moves and gets another code, under crashes and disk faults.
    Pool,
}

impl Profile {
    /// All that a campaign goes through.
    pub const ALL: [Profile; 15] = [
        Profile::Crashes,
        Profile::Disks,
        Profile::Rot,
        Profile::Tapes,
        Profile::Clean,
        Profile::Drills,
        Profile::Robot,
        Profile::Syncs,
        Profile::Places,
        Profile::Crowd,
        Profile::Large,
        Profile::Repack,
        Profile::Paths,
        Profile::Parts,
        Profile::Pool,
    ];
}

impl Profile {
    /// What its users prefer.
    #[must_use]
    pub fn habit(self) -> Habit {
        match self {
            Profile::Places => Habit::Alike,
            Profile::Crowd => Habit::Readers,
            Profile::Large => Habit::Large,
            Profile::Parts => Habit::Huge,
            _ => Habit::Usual,
        }
    }

    /// Whether no disk ever fails: no read has a reason to.
    #[must_use]
    pub fn has_good_disks(self) -> bool {
        use Profile::{Clean, Crowd, Drills, Large, Parts, Paths, Repack, Robot, Tapes};
        matches!(self, Clean | Crowd | Drills | Large | Parts | Paths | Repack | Robot | Tapes)
    }

    /// Whether what was acknowledged must lie on its machines whole at any moment, also at that of a crash.
    #[must_use]
    pub fn has_good_machines(self) -> bool {
        self.has_good_disks() && !self.has_rot() && self != Profile::Repack
    }

    /// Whether tapes of one pool may be unreadable.
    #[must_use]
    pub fn has_rot(self) -> bool {
        self == Profile::Tapes
    }

    /// Whether its tapes are checked, repacked and reclaimed.
    #[must_use]
    pub fn has_tape_operator(self) -> bool {
        matches!(self, Profile::Tapes | Profile::Drills | Profile::Robot | Profile::Paths | Profile::Parts)
    }

    /// How many cartridges its library has, and what each holds.
    #[must_use]
    pub fn tapes(self) -> (u16, ByteCount) {
        if self == Profile::Parts { (96, ByteCount::mib(8)) } else { (16, ByteCount::mib(24)) }
    }

    /// How long its users think at most between two operations: tapes need time.
    #[must_use]
    pub fn thinking(self) -> Duration {
        Duration::from_secs(match self {
            Profile::Tapes | Profile::Drills | Profile::Robot | Profile::Repack | Profile::Paths => 60,
            Profile::Parts => 120,
            _ => 6,
        })
    }

    /// The longest time between two faults.
    fn interval(self) -> Duration {
        Duration::from_millis(match self {
            Profile::Tapes | Profile::Robot | Profile::Drills | Profile::Paths | Profile::Parts => 30_000,
            Profile::Repack => 120_000,
            _ => 3_000,
        })
    }
}

/// What clients prefer to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Habit {
    /// A bit of everything.
    Usual,
    /// Small files of one length, read again and again.
    Alike,
    /// Slow reads, replacing and removing.
    Readers,
    /// Large files.
    Large,
    /// Files of several tapes.
    Huge,
}

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Kill,
    CutPower,
    /// Power fails while a tape is being written.
    CutTape,
    /// The process dies then.
    KillTape,
    Machine(Fault),
    /// As `Machine`, but on one of the disks that may lose data.
    Victim(Fault),
    /// The next sync of each disk fails, and often power with it.
    AllSyncs,
    DiskGone,
    AtRest,
    TapeRot,
    TapeDriveDies,
    ClockJump,
    NoScratch,
    /// The library is not reached any more, or is again.
    LibraryAway,
    /// Drives are emptied, what is stored moves or gets another code.
    PoolChange,
}

use Event::{
    AllSyncs, AtRest, ClockJump, CutPower, CutTape, DiskGone, Kill, KillTape, LibraryAway, Machine,
    NoScratch, PoolChange, TapeDriveDies, TapeRot, Victim,
};

/// What may happen, with its weight.
type Events = &'static [(u64, Event)];

const CRASHES: Events = &[
    (4, Kill),
    (4, CutPower),
    (1, Machine(Fault::CatalogueCommit)),
    (1, Machine(Fault::CatalogueInDoubt)),
    (2, Machine(Fault::CatalogueSlow)),
    (2, Machine(Fault::CatalogueFull)),
    (1, Machine(Fault::DiskSync)),
    (1, ClockJump),
];

const DISKS: Events = &[
    (2, Kill),
    (2, CutPower),
    (4, Machine(Fault::DiskSync)),
    (4, Machine(Fault::DiskWrite)),
    (3, Machine(Fault::DiskFull)),
    (4, Machine(Fault::DiskRead)),
    (4, Machine(Fault::DiskSlow)),
    (1, Machine(Fault::DiskHung)),
];

const ROT: Events = &[
    (2, Kill),
    (2, CutPower),
    (5, Victim(Fault::DiskBitFlip)),
    (5, Victim(Fault::DiskLostWrite)),
    (5, Victim(Fault::DiskMisdirectedWrite)),
    (5, Victim(Fault::DiskStalePage)),
    (3, Victim(Fault::DiskRead)),
    (2, Victim(Fault::DiskSync)),
    (1, Victim(Fault::DiskHung)),
    (6, AtRest),
    (2, DiskGone),
];

const TAPES: Events = &[
    (1, Kill),
    (1, CutPower),
    (5, Machine(Fault::TapeWrite)),
    (5, Machine(Fault::TapeFlush)),
    (3, Machine(Fault::TapeEarlyEnd)),
    (1, Machine(Fault::RobotJam)),
    (1, Machine(Fault::MountFails)),
    (2, Machine(Fault::PositionLost)),
    (1, Machine(Fault::WrongCartridge)),
    (3, Machine(Fault::TapeSlow)),
    (6, TapeRot),
    (1, TapeDriveDies),
    (1, NoScratch),
];

const ROBOT: Events = &[
    (1, Kill),
    (1, CutPower),
    (2, Machine(Fault::RobotJam)),
    (2, Machine(Fault::MountFails)),
    (4, Machine(Fault::PositionLost)),
    (16, Machine(Fault::WrongCartridge)),
    (3, Machine(Fault::TapeSlow)),
    (3, TapeDriveDies),
    (1, NoScratch),
];

const SYNCS: Events = &[(1, Kill), (1, CutPower), (4, AllSyncs), (2, Machine(Fault::DiskSync))];

const PLACES: Events = &[
    (1, Kill),
    (6, Victim(Fault::DiskMisdirectedWrite)),
    (6, Victim(Fault::DiskStalePage)),
    (1, Victim(Fault::DiskLostWrite)),
];

const CROWD: Events = &[(1, CutPower), (4, Machine(Fault::CatalogueSlow))];

const LARGE: Events = &[(3, Kill), (5, CutPower), (1, Machine(Fault::CatalogueSlow))];

const REPACK: Events = &[(1, Kill), (1, CutPower), (1, Machine(Fault::TapeSlow))];

const DRILLS: Events = &[
    (1, Kill),
    (1, CutPower),
    (3, KillTape),
    (6, CutTape),
    (8, Machine(Fault::TapeSlow)),
    (2, Machine(Fault::TapeFlush)),
    (4, Machine(Fault::TapeWrite)),
    (1, Machine(Fault::CatalogueSlow)),
];

const PATHS: Events = &[
    (1, Kill),
    (1, CutPower),
    (8, Machine(Fault::DrivePath)),
    (4, Machine(Fault::DriveReserved)),
    (3, Machine(Fault::DriveCleaning)),
    (3, Machine(Fault::DriveNotReady)),
    (2, Machine(Fault::PositionLost)),
    (2, LibraryAway),
];

const PARTS: Events = &[
    (2, Kill),
    (2, CutPower),
    (1, KillTape),
    (1, CutTape),
    (2, Machine(Fault::TapeWrite)),
    (2, Machine(Fault::TapeFlush)),
    (2, Machine(Fault::TapeEarlyEnd)),
    (2, Machine(Fault::DrivePath)),
    (1, Machine(Fault::PositionLost)),
    (1, TapeDriveDies),
];

const POOL: Events = &[
    (3, Kill),
    (3, CutPower),
    (1, Machine(Fault::CatalogueCommit)),
    (1, Machine(Fault::CatalogueInDoubt)),
    (1, Machine(Fault::CatalogueSlow)),
    (2, Machine(Fault::DiskSync)),
    (2, Machine(Fault::DiskWrite)),
    (1, Machine(Fault::DiskFull)),
    (2, Machine(Fault::DiskRead)),
    (2, Machine(Fault::DiskSlow)),
    (2, Victim(Fault::DiskBitFlip)),
    (1, Victim(Fault::DiskHung)),
    (1, DiskGone),
    (12, PoolChange),
];

const CLEAN: Events = &[(4, Kill), (4, CutPower), (2, ClockJump), (2, Machine(Fault::CatalogueSlow))];

/// Who brings disaster.
pub struct Chaos {
    world: World,
    profile: Profile,
    victims: Vec<DriveId>,
    scratch_taken: Vec<Vid>,
}

impl Chaos {
    /// The disasters of a profile.
    #[must_use]
    pub fn new(world: &World, profile: Profile) -> Self {
        let disks: Vec<DriveId> = world.machines().disks().iter().map(|disk| disk.id()).collect();
        let first = below(disks.len() as u64) as usize;
        let second = (first + 1 + below(disks.len() as u64 - 1) as usize) % disks.len();
        let victims = vec![disks[first], disks[second]];
        Chaos { world: world.clone(), profile, victims, scratch_taken: Vec::new() }
    }

    fn events(&self) -> Events {
        match self.profile {
            Profile::Crashes => CRASHES,
            Profile::Disks => DISKS,
            Profile::Rot => ROT,
            Profile::Tapes => TAPES,
            Profile::Robot => ROBOT,
            Profile::Syncs => SYNCS,
            Profile::Places => PLACES,
            Profile::Crowd => CROWD,
            Profile::Large => LARGE,
            Profile::Repack => REPACK,
            Profile::Paths => PATHS,
            Profile::Parts => PARTS,
            Profile::Drills => DRILLS,
            Profile::Clean => CLEAN,
            Profile::Pool => POOL,
        }
    }

    /// Lets things happen until `is_over`.
    pub fn run(&mut self, is_over: impl Fn() -> bool) {
        while !is_over() {
            simulated::pause(Duration::from_nanos(below(self.profile.interval().as_nanos() as u64)));
            let total = self.events().iter().map(|(weight, _)| weight).sum();
            let mut left = below(total);
            for (weight, event) in self.events() {
                match left.checked_sub(*weight) {
                    Some(rest) => left = rest,
                    None => {
                        self.happen(*event);
                        break;
                    }
                }
            }
            self.mend();
        }
    }

    fn happen(&mut self, event: Event) {
        let machines = self.world.machines().clone();
        let faults = machines.faults();
        match event {
            Event::Kill => self.world.kill(),
            Event::CutPower => self.world.cut_power(),
            Event::CutTape => {
                self.await_writing();
                self.world.cut_power();
            }
            Event::KillTape => {
                self.await_writing();
                self.world.kill();
            }
            // One of a kind at a time: otherwise they wait in a row, and no tape is ever mounted.
            Event::Machine(fault) if faults.is_planned(fault) => {}
            Event::Machine(fault) => faults.once(fault, Target::Any, below(patience(fault))),
            Event::AllSyncs => self.fail_all_syncs(),
            Event::Victim(fault) => faults.once(fault, Target::Disk(one_of(&self.victims)), below(10)),
            Event::DiskGone => {
                let victim = one_of(&self.victims);
                machines.disks().iter().filter(|disk| disk.id() == victim).for_each(|disk| {
                    disk.set_gone(!disk.is_gone());
                });
                self.world.count("disks pulled or put back");
            }
            Event::AtRest => {
                let victim = one_of(&self.victims);
                for disk in machines.disks().iter().filter(|disk| disk.id() == victim) {
                    let _ = disk.flip_somewhere();
                }
            }
            Event::TapeRot => self.rot_tape(),
            Event::TapeDriveDies => {
                let names = machines.config().drive_names();
                let name = &names[below(names.len() as u64) as usize];
                machines.library().kill_drive(name, one_of(&MountState::ALL));
            }
            Event::ClockJump => {
                let jump = one_of(&[HOUR_NANOS, -HOUR_NANOS, TEN_YEARS_NANOS, -TEN_YEARS_NANOS]);
                self.world.clock().jump(jump);
                faults.count(Fault::ClockJump);
            }
            Event::NoScratch => self.take_scratch(),
            Event::LibraryAway => machines.library().set_away(below(2) == 0),
            Event::PoolChange => pool_operator::act(&self.world),
        }
    }

    /// Waits for a tape that is being written, a minute or two at most, and a moment more.
    fn await_writing(&self) {
        for _ in 0..1_000 {
            if self.world.machines().library().is_writing() {
                break;
            }
            simulated::pause(Duration::from_millis(100));
        }
        simulated::pause(Duration::from_micros(below(one_of(&[1_000, 30_000, 300_000, 3_000_000]))));
    }

    /// A controller is reset: what no disk had synced may be gone, from disk and memory.
    fn fail_all_syncs(&self) {
        let machines = self.world.machines();
        for disk in machines.disks() {
            machines.faults().once(Fault::DiskSync, Target::Disk(disk.id()), 0);
        }
        simulated::pause(Duration::from_millis(below(2_000)));
        machines.faults().cancel(Fault::DiskSync);
        if below(2) == 0 {
            self.world.cut_power();
        }
    }

    /// Lets a block of a tape of the rotten pool go bad.
    pub fn rot_tape(&self) {
        let Called::Done(Ok(tapes)) = self.world.ask("list tapes", |archive| archive.tapes()) else { return };
        let rotten: Vec<_> =
            tapes.into_iter().filter(|tape| tape.tape_pool.as_deref() == Some(ROTTEN_POOL)).collect();
        let Some(tape) = rotten.get(below(rotten.len() as u64) as usize) else { return };
        let block = BlockAddress(below(tape.end_of_data.0));
        let at = TapePosition { partition: Partition::Data, block };
        let library = self.world.machines().library();
        let _ = if below(2) == 0 { library.damage(tape.vid, at) } else { library.flip(tape.vid, at) };
        self.world.count("tapes rotten");
    }

    /// Takes all scratch tapes away.
    fn take_scratch(&mut self) {
        let taken = self.world.ask("take scratch tapes", |archive| {
            let mut taken = Vec::new();
            for tape in archive.tapes()? {
                if tape.state == TapeState::Scratch
                    && archive.set_tape(tape.vid, TapeUse::Disabled, "taken away").is_ok()
                {
                    taken.push(tape.vid);
                }
            }
            Ok(taken)
        });
        if let Called::Done(Ok(taken)) = taken {
            self.world.count("all scratch tapes taken");
            self.scratch_taken.extend(taken);
        }
    }

    /// What somebody repairs sooner or later.
    fn mend(&mut self) {
        if below(6) != 0 {
            return;
        }
        let library = self.world.machines().library();
        library.set_away(false);
        for name in self.world.machines().config().drive_names() {
            library.revive_drive(&name);
        }
        for vid in std::mem::take(&mut self.scratch_taken) {
            let _ = self.world.ask("give back a scratch tape", move |archive| {
                archive.set_tape(vid, TapeUse::Active, "given back")
            });
        }
    }

    /// Ends all faults: what is broken is repaired, what is planned is forgotten.
    pub fn end(&mut self) {
        let machines = self.world.machines();
        machines.faults().clear();
        machines.disks().iter().for_each(|disk| disk.set_gone(false));
        machines.library().set_away(false);
        for name in machines.config().drive_names() {
            machines.library().revive_drive(&name);
        }
    }
}

/// How many operations may go well before a planned fault strikes.
fn patience(fault: Fault) -> u64 {
    match fault {
        Fault::RobotJam | Fault::MountFails | Fault::WrongCartridge | Fault::TapeFlush => 2,
        Fault::TapeSlow | Fault::TapeEarlyEnd => 12,
        Fault::TapeWrite => 3,
        Fault::DiskMisdirectedWrite | Fault::DiskStalePage => 3,
        _ => 30,
    }
}
