//! Sessions that find nothing that they could write, although something waits.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, TapePoolId, Timestamp, Vid};
use scheduler::{
    Action, Backlog, DriveState, Event, Policy, Scheduler, SessionEnd, TapePoolPolicy, TapeSummary,
};

const POOL: TapePoolId = TapePoolId(1);
const HOUR: i64 = 3600;

/// A robot takes 1 s, a session 2 s. The figures of the queue are told before each session's end, as the
/// engine does when anything else has changed meanwhile.
struct Site {
    scheduler: Scheduler,
    now: i64,
    coming: BTreeMap<(i64, u64), Event>,
    numbered: u64,
    /// What waits, and how much of it can be written.
    queued: u64,
    of_use: u64,
    mounts: Vec<i64>,
}

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn vid(tape: u64) -> Vid {
    Vid::new(&format!("K{tape:05}")).unwrap()
}

fn summary() -> TapeSummary {
    TapeSummary {
        tape_pool: Some(POOL),
        readable: true,
        writable: true,
        free: ByteCount(1 << 40),
        labelled: true,
        ..TapeSummary::default()
    }
}

impl Site {
    fn new(drives: u64, tapes: u64) -> Self {
        Self::that_keeps_tapes(1, drives, tapes)
    }

    /// Tapes stay in their drives for so many seconds.
    fn that_keeps_tapes(dismount_delay: u64, drives: u64, tapes: u64) -> Self {
        let mut policy = Policy {
            retry_delay: Duration::from_secs(5),
            dismount_delay: Duration::from_secs(dismount_delay),
            ..Policy::default()
        };
        let pool = TapePoolPolicy { mount_bytes: ByteCount(1), drives_max: 2, ..TapePoolPolicy::default() };
        policy.tape_pools.insert(POOL, pool);
        let mut site = Site {
            scheduler: Scheduler::new(policy),
            now: 1000,
            coming: BTreeMap::new(),
            numbered: 0,
            queued: 0,
            of_use: 0,
            mounts: Vec::new(),
        };
        for drive in 0..drives {
            site.tell(Event::DriveUp(format!("d{drive}")));
        }
        for tape in 0..tapes {
            site.tell(Event::Tape(vid(tape), summary()));
        }
        site
    }

    fn queue(&mut self, useless: u64, of_use: u64) {
        (self.queued, self.of_use) = (self.queued + useless + of_use, self.of_use + of_use);
        self.tell_queued();
    }

    fn tell_queued(&mut self) {
        let bytes = ByteCount(self.queued * 1_000_000);
        let oldest = (self.queued > 0).then_some(at(1000));
        self.tell(Event::Queued(POOL, Backlog { items: self.queued, bytes, oldest }));
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
            match action {
                Action::Mount { drive, vid, .. } => {
                    self.mounts.push(self.now);
                    self.later(1, Event::Mounted(drive, vid));
                }
                Action::Migrate { drive, .. } => {
                    let end = if self.of_use > 0 { SessionEnd::Drained } else { SessionEnd::Idle };
                    self.queued -= std::mem::take(&mut self.of_use);
                    self.later(2, Event::MigrationEnded(drive, end));
                }
                Action::Clean { drive, .. } => panic!("nobody asks to clean {drive}"),
                Action::Unmount { drive } => self.later(1, Event::Unmounted(drive)),
                Action::WakeAt(when) => {
                    let second = (when.0 + 999_999_999).div_euclid(1_000_000_000).max(self.now);
                    self.later(second - self.now, Event::Tick);
                }
                other => panic!("{other:?} was not asked for"),
            }
        }
    }

    fn run(&mut self, seconds: i64) -> usize {
        let (before, until) = (self.mounts.len(), self.now + seconds);
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((when, _), event) = entry.remove_entry();
            self.now = when;
            if matches!(event, Event::MigrationEnded(..)) {
                self.tell_queued();
            }
            self.tell(event);
        }
        self.now = until;
        self.mounts.len() - before
    }
}

/// Story: figures of the queue that came during a session counted as its progress, so that an empty session
/// was begun again at once, for ever, and drives had no time for anything else.
#[test]
fn what_no_session_can_write_is_tried_less_and_less() {
    for (drives, tapes) in [(1, 1), (2, 1), (2, 6)] {
        let mut site = Site::new(drives, tapes);
        site.queue(5, 0);
        // Each tape rests from each drive by itself.
        let most = 11 + (drives * tapes) as usize;
        let first = site.run(HOUR);
        assert!(
            (1..=most).contains(&first),
            "{drives} drives, {tapes} tapes: {first} mounts in the first hour"
        );
        let (day, in_a_day) = (site.run(24 * HOUR), 24 / 3 * (drives * tapes) as usize);
        assert!((1..=in_a_day).contains(&day), "{drives} drives, {tapes} tapes: {day} mounts in a day");
        // More has come: it is not to wait for the end of those rests.
        site.queue(0, 1);
        site.run(60);
        assert_eq!(site.of_use, 0, "{drives} drives, {tapes} tapes");
        // Something was written, so what is left is tried as at first.
        let again = site.run(HOUR);
        assert!((1..=most).contains(&again), "{drives} drives, {tapes} tapes: {again} mounts");
        // Something waits for room in the disk pool, for long: nobody has mended anything.
        let before = site.mounts.len();
        for _ in 0..12 {
            site.tell(Event::MigrateForRoom { classes: vec![], tape_pools: vec![POOL] });
            site.run(300);
        }
        let hour = site.mounts.len() - before;
        assert!(hour <= 2 * (drives * tapes) as usize, "{drives} drives, {tapes} tapes: {hour} mounts");
        // Somebody asks: about once in each drive and tape, and not again and again.
        let before = site.mounts.len();
        site.tell(Event::MigrateNow(None));
        site.run(60);
        let asked = site.mounts.len() - before;
        assert!(
            (1..=(drives * tapes) as usize + 2).contains(&asked),
            "{drives} drives, {tapes} tapes: {asked} mounts"
        );
    }
}

/// Story: a tape that was to be exported stood in its drive until the dismount delay was over, and whoever
/// had asked for it waited for that.
#[test]
fn a_tape_with_which_nothing_may_be_done_leaves_its_drive_at_once() {
    for leaves in [false, true] {
        let mut site = Site::that_keeps_tapes(600, 1, 1);
        site.queue(0, 1);
        site.tell(Event::MigrateNow(None));
        site.run(10);
        let state = |site: &Site| site.scheduler.drives().next().unwrap().1.clone();
        assert!(matches!(state(&site), DriveState::Idle { .. }), "{:?}", state(&site));
        // One that its library does not show for a moment is not to be mounted again a moment later.
        let unusable = TapeSummary { readable: false, writable: false, leaves, ..summary() };
        site.tell(Event::Tape(vid(0), unusable));
        site.run(10);
        assert_eq!(matches!(state(&site), DriveState::Empty), leaves, "{:?}", state(&site));
        site.run(600);
        assert!(matches!(state(&site), DriveState::Empty), "{:?}", state(&site));
        assert_eq!(site.mounts.len(), 1);
    }
}
