//! A host that cannot write to tapes: a full file system behind a virtual library.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FailureCause, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid};
use scheduler::{
    Action, Backlog, Event, Failure, HOST_REST_MAX, Policy, Reason, Scheduler, SessionEnd, TapePoolPolicy,
    TapeSummary,
};

const POOL: TapePoolId = TapePoolId(1);
const RETRY_S: i64 = 5;

/// A robot takes 1 s, a session 2 s. What fails is planned on its tape until the next mount of it.
struct Site {
    scheduler: Scheduler,
    now: i64,
    coming: BTreeMap<(i64, u64), Event>,
    numbered: u64,
    is_full: bool,
    queued: u64,
    planned: BTreeMap<Vid, u64>,
    of_pool: BTreeMap<Vid, bool>,
    libraries: BTreeMap<Vid, LibraryId>,
    mounts: Vec<(i64, Vid)>,
}

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn vid(number: u64) -> Vid {
    Vid::new(&format!("K{number:05}")).unwrap()
}

impl Site {
    /// Tapes `0..used` are the pool's, the others scratch; drives and tapes with odd numbers are in library
    /// 1, if there are two.
    fn new(drives: u64, tapes: u64, used: u64, libraries: u64, drives_max: usize) -> Self {
        let mut policy = Policy {
            retry_delay: Duration::from_secs(RETRY_S as u64),
            recall_age: Duration::ZERO,
            dismount_delay: Duration::ZERO,
            ..Policy::default()
        };
        let mount_bytes = ByteCount(1);
        let pool = TapePoolPolicy { mount_bytes, drives_max, ..TapePoolPolicy::default() };
        policy.tape_pools.insert(POOL, pool);
        let mut site = Site {
            scheduler: Scheduler::new(policy),
            now: 1000,
            coming: BTreeMap::new(),
            numbered: 0,
            is_full: true,
            queued: 0,
            planned: BTreeMap::new(),
            of_pool: BTreeMap::new(),
            libraries: BTreeMap::new(),
            mounts: Vec::new(),
        };
        for drive in 0..drives {
            site.tell(Event::DriveIn(format!("d{drive}"), LibraryId((drive % libraries) as u16)));
            site.tell(Event::DriveUp(format!("d{drive}")));
        }
        for tape in 0..tapes {
            site.of_pool.insert(vid(tape), tape < used);
            site.libraries.insert(vid(tape), LibraryId((tape % libraries) as u16));
            site.tape(vid(tape));
        }
        site
    }

    fn tape(&mut self, vid: Vid) {
        let (of_pool, library) = (self.of_pool[&vid], self.libraries[&vid]);
        let summary = TapeSummary {
            tape_pool: of_pool.then_some(POOL),
            readable: true,
            writable: true,
            free: ByteCount(1 << 40),
            labelled: of_pool,
            mounts: self.mounts.iter().filter(|(_, mounted)| *mounted == vid).count() as u64,
            library,
            ..TapeSummary::default()
        };
        self.tell(Event::Tape(vid, summary));
    }

    fn queue(&mut self, more: u64) {
        self.queued += more;
        self.tell_queued();
    }

    fn tell_queued(&mut self) {
        let (items, bytes) = (self.queued, ByteCount(self.queued * 1_000_000));
        let oldest = (items > 0).then_some(at(1000));
        self.tell(Event::Queued(POOL, Backlog { items, bytes, oldest }));
    }

    fn later(&mut self, seconds: i64, event: Event) {
        self.numbered += 1;
        self.coming.insert((self.now + seconds, self.numbered), event);
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler.step(at(self.now), event, &mut actions);
        self.scheduler.assert_consistent();
        for action in actions {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, vid, assign } => {
                self.mounts.push((self.now, vid));
                if assign.is_some() {
                    self.of_pool.insert(vid, true);
                }
                self.later(1, Event::Mounted(drive, vid));
            }
            Action::Migrate { drive, vid, .. } => {
                // Chosen at once, so that no other session has it.
                let chosen = std::mem::take(&mut self.queued);
                self.planned.insert(vid, chosen);
                self.numbered += 1;
                let end = SessionEnd::Drained;
                self.coming.insert((self.now + 2, self.numbered), Event::MigrationEnded(drive, end));
            }
            Action::Recall { drive, .. } => self.later(2, Event::RecallEnded(drive, SessionEnd::Drained)),
            Action::Maintain { drive, .. } => {
                self.later(1, Event::MaintenanceEnded(drive, SessionEnd::Drained));
            }
            Action::Clean { drive, .. } => panic!("nobody asks to clean {drive}"),
            Action::Unmount { drive } => self.later(1, Event::Unmounted(drive)),
            Action::WakeAt(when) => {
                self.numbered += 1;
                let second = (when.0 + 999_999_999).div_euclid(1_000_000_000).max(self.now);
                self.coming.insert((second, self.numbered), Event::Tick);
            }
            Action::Seal { .. } | Action::Clear { .. } => {}
        }
    }

    /// Only library 0 has the full file system.
    fn run_to(&mut self, second: i64) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= second) {
            let ((when, _), event) = entry.remove_entry();
            self.now = when;
            match event {
                Event::Mounted(drive, vid) => {
                    // What the last session left is taken over.
                    self.queued += self.planned.remove(&vid).unwrap_or(0);
                    self.tell(Event::Maintain(vid, false));
                    self.tell(Event::Mounted(drive, vid));
                    self.tape(vid);
                    self.tell_queued();
                }
                Event::MigrationEnded(drive, end) => {
                    let state = self.scheduler.drives().find(|(name, _)| **name == drive).unwrap().1;
                    let vid = state.vid().unwrap();
                    let fails = self.is_full && self.libraries[&vid] == LibraryId(0);
                    let end = if fails {
                        self.tell(Event::Maintain(vid, true));
                        let (reason, cause) = ("no space left".to_owned(), Some(FailureCause::Host));
                        SessionEnd::Failed(Failure { reason, cause, suspect: false })
                    } else {
                        self.planned.remove(&vid);
                        self.tell_queued();
                        end
                    };
                    self.tell(Event::MigrationEnded(drive, end));
                    self.tell_queued();
                }
                event => self.tell(event),
            }
        }
        self.now = second;
    }

    fn used(&self) -> usize {
        self.of_pool.values().filter(|of_pool| **of_pool).count()
    }
}

/// 49 failed sessions and 70 mounts a minute, and three scratch tapes in four gone after two: what failed was
/// tried again on the next scratch tape, since of tape and drive none was to blame.
#[test]
fn a_host_that_cannot_write_takes_no_scratch_tape_and_mounts_little() {
    for (used, drives_max) in [(0, 1), (1, 1), (0, 3), (2, 3)] {
        let mut site = Site::new(3, 12, used, 1, drives_max);
        site.queue(20);
        site.run_to(1060);
        let mounts = site.mounts.len();
        assert!(mounts <= 15, "{used}, {drives_max}: {mounts} mounts in a minute: {:?}", site.mounts);
        assert!(site.used() <= (used as usize).max(drives_max), "{used}, {drives_max}: {}", site.used());
        let reason = site.scheduler.why_host_cannot_write(POOL).unwrap();
        assert!(matches!(&reason, Reason::HostCannotWrite { cause, .. } if cause == "no space left"));
        assert!(reason.needs_an_operator() && reason.until().is_some());
        assert!(reason.to_string().starts_with("this host cannot write to tapes: no space left; tried"));
        site.run_to(4600);
        // 5 s, 10 s, ... 2,560 s: ten tries, and those that were under way when the first failed.
        let mounts = site.mounts.len();
        assert!((5..=30).contains(&mounts), "{used}, {drives_max}: {mounts} mounts: {:?}", site.mounts);
        assert!(site.used() <= (used as usize).max(drives_max), "{used}, {drives_max}: {}", site.used());
        site.is_full = false;
        site.run_to(4600 + 2 * HOST_REST_MAX.as_secs() as i64);
        assert_eq!((site.queued, site.planned.len()), (0, 0), "it goes on by itself");
        assert_eq!(site.scheduler.why_host_cannot_write(POOL), None);
        assert_eq!(site.scheduler.why_migrating(POOL, at(site.now)), Reason::NothingWaits);
    }
}

/// One try shows that there is room again: all drives write then. An operator need not wait for it.
#[test]
fn one_session_that_writes_ends_the_rest_for_all() {
    let mut site = Site::new(2, 12, 2, 1, 2);
    site.queue(20);
    site.run_to(1800);
    site.is_full = false;
    site.tell(Event::MigrateNow(None));
    site.run_to(1810);
    assert_eq!(site.scheduler.why_host_cannot_write(POOL), None, "{:?}", site.mounts);
    assert_eq!((site.queued, site.planned.len(), site.used()), (0, 0, 2));
}

/// Reading goes on, and so does writing in a library that is not on this file system.
#[test]
fn what_does_not_fail_goes_on() {
    let mut site = Site::new(2, 12, 2, 2, 2);
    site.queue(20);
    site.run_to(1060);
    let (file, copies) = (FileId(1), vec![vid(4)]);
    let (bytes, since) = (ByteCount(1), at(site.now));
    let before = site.mounts.len();
    site.tell(Event::Wanted { file, bytes, since, priority: 0, share: ShareId(0), copies });
    site.run_to(1063);
    assert!(site.mounts[before..].iter().any(|(_, mounted)| *mounted == vid(4)), "{:?}", site.mounts);
    site.tell(Event::NotWanted(file));
    for hour in 1..4 {
        site.queue(5);
        site.run_to(1060 + hour * 3600);
        assert!(site.queued == 0, "{hour}: library 1 takes what is not planned in library 0");
    }
    assert_eq!(site.used(), 2);
}
