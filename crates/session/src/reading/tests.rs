use base::Vid;
use mechanics::{LocateCost, TapeMap};

use super::*;
use crate::order::Segment;

const AT: Timestamp = Timestamp(0);
const CLASS: ClassId = ClassId(1);

fn track() -> Track {
    let locate = LocateCost {
        base_us: 4e6,
        wrap_change_us: 6e6,
        band_change_us: 3e6,
        landing_zone_change_us: 0.0,
        direction_change_us: 5e6,
        step_back_us: 0.0,
        lpos_us: 600.0,
        least_us: 4e6,
    };
    Track { map: TapeMap::even(10_000, 4, 0, 4, 0..100_000), locate, block_us: 1_000.0 }
}

fn wanted(file: u64, block: u64, length: u64) -> Wanted<Vid> {
    let segment = Segment { begin: BlockAddress(block), end: BlockAddress(block + 1) };
    let place = Vid::new("KT0001").unwrap();
    Wanted { file: FileId(file), segment, length: ByteCount(length), along: false, place }
}

fn free(pool: u64) -> FreeSpace {
    FreeSpace { pool: ByteCount(pool), ..FreeSpace::default() }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A session over a set in memory, of which all is still wanted when it is read.
struct World {
    session: ReadingSession<Vid>,
    set: Vec<Wanted<Vid>>,
    room: Room,
    free: FreeSpace,
    arrivals: u64,
    gathered: u32,
    /// Planning takes so long.
    plans_for: Duration,
    now: Duration,
}

fn world(set: Vec<Wanted<Vid>>) -> World {
    let rules = ReadingRules { batch_bytes: ByteCount(100), ..ReadingRules::of_a_server(Aim::LastFile) };
    World {
        session: ReadingSession::new(rules),
        set,
        room: Room::default(),
        free: free(u64::MAX),
        arrivals: 0,
        gathered: 0,
        plans_for: Duration::ZERO,
        now: secs(100),
    }
}

impl World {
    /// The files of the next batch and its claim, or the end.
    fn next(&mut self) -> Result<(Vec<u64>, RoomClaim), SessionEnd> {
        let event = ReadingEvent::Next { arrivals: self.arrivals, stop: false };
        let mut action = self.session.step(self.now, event);
        loop {
            action = match action {
                ReadingAction::Gather => {
                    self.gathered += 1;
                    let not_given = |wanted: &&Wanted<Vid>| !self.session.was_given(wanted.file);
                    let wanted = self.set.iter().filter(not_given).copied().collect();
                    let head = BlockAddress(0);
                    let event = ReadingEvent::Gathered { wanted, head, track: &track(), drive_order: None };
                    let action = self.session.step(self.now, event);
                    self.now += self.plans_for;
                    action
                }
                ReadingAction::Check(files) => {
                    let files = files.into_iter().map(|planned| (planned, CLASS)).collect();
                    let (room, free) = (&mut self.room, &self.free);
                    let event = ReadingEvent::StillWanted { files, room, free, now: AT };
                    self.session.step(self.now, event)
                }
                ReadingAction::Read { files, claim } => {
                    return Ok((files.iter().map(|planned| planned.wanted.file.0).collect(), claim));
                }
                ReadingAction::End(end) => return Err(end),
            };
        }
    }

    fn files(&mut self) -> Result<Vec<u64>, SessionEnd> {
        self.next().map(|(files, claim)| {
            self.room.give_back_all(claim);
            files
        })
    }
}

#[test]
fn a_tape_is_read_batch_by_batch_each_file_once() {
    let mut world = world(vec![wanted(1, 300, 60), wanted(2, 100, 60), wanted(3, 200, 40)]);
    assert_eq!(world.files(), Ok(vec![2, 3]));
    assert_eq!(world.files(), Ok(vec![1]));
    assert_eq!(world.files(), Err(SessionEnd::Drained));
    assert_eq!(world.gathered, 2, "once at the beginning, and once to see that nothing is left");
}

/// A session that lasted for days kept the id of each file that it had read.
#[test]
fn files_that_have_come_to_the_pool_are_forgotten() {
    let mut world = world(Vec::new());
    world.set.push(wanted(1_000, 5, 100));
    assert_eq!(world.files(), Ok(vec![1_000]));
    for file in 1..=100 {
        // The one before stands in the catalogue; the first one stays on its way to the pool.
        world.set.truncate(1);
        world.set.push(wanted(file, file * 10, 100));
        world.arrivals += 1;
        assert_eq!(world.files(), Ok(vec![file]));
    }
    assert!(world.session.given.len() <= 3, "{:?}", world.session.given);
    // Evicted and wanted again, it is read again.
    world.set.push(wanted(1, 10, 100));
    world.arrivals += 1;
    assert_eq!(world.files(), Ok(vec![1]));
    assert_eq!(world.files(), Err(SessionEnd::Drained), "each once");
}

#[test]
fn what_arrives_joins_with_a_new_plan_and_not_too_often() {
    let mut world = world((1..=10).map(|file| wanted(file, file * 100, 100)).collect());
    assert_eq!(world.files(), Ok(vec![1]));
    world.set.push(wanted(11, 150, 100));
    world.arrivals += 1;
    assert_eq!(world.files(), Ok(vec![2]), "the plan stands");
    world.now += REPLAN_EVERY;
    assert_eq!(world.files(), Ok(vec![11]));
    world.now += REPLAN_EVERY;
    assert_eq!(world.files(), Ok(vec![3]));
    assert_eq!(world.gathered, 2, "nothing new, no new plan");
}

#[test]
fn a_plan_that_took_long_stands_long() {
    let mut world = world((1..=10).map(|file| wanted(file, file * 100, 100)).collect());
    world.plans_for = secs(1);
    assert_eq!(world.files(), Ok(vec![1]));
    world.arrivals += 1;
    // Begun at 100 s, it took one: it stands up to 151 s.
    world.now = secs(150);
    world.files().unwrap();
    assert_eq!(world.gathered, 1);
    world.now = secs(151);
    world.files().unwrap();
    assert_eq!(world.gathered, 2);
}

#[test]
fn what_has_no_room_is_left_out_and_said_at_the_end() {
    let mut world = world(vec![wanted(1, 100, 50), wanted(2, 200, 30), wanted(3, 300, 20)]);
    world.free = free(60);
    let (files, claim) = world.next().unwrap();
    assert_eq!(files, [1]);
    assert_eq!(world.room.claimed(), ByteCount(50), "and so 30 and 20 did not fit beside it");
    world.room.give_back_all(claim);
    assert_eq!(world.room.claimed(), ByteCount(0));
    assert_eq!(world.files(), Err(SessionEnd::NoRoom));
}

#[test]
fn packs_that_come_along_need_no_room_and_hold_nothing_up() {
    let along = Wanted { along: true, ..wanted(2, 200, 70) };
    let mut world = world(vec![wanted(1, 100, 20), along]);
    world.free = free(60);
    assert_eq!(world.files(), Ok(vec![1]));
    assert_eq!(world.files(), Err(SessionEnd::Drained));
}

#[test]
fn who_is_to_stop_stops() {
    let mut world = world(vec![wanted(1, 100, 20)]);
    let action = world.session.step(world.now, ReadingEvent::Next { arrivals: 0, stop: true });
    assert!(matches!(action, ReadingAction::End(SessionEnd::Stopped)));
}

#[test]
fn what_nobody_wants_any_more_is_passed_over() {
    let mut world = world(vec![wanted(1, 100, 20)]);
    let next = ReadingEvent::Next { arrivals: 0, stop: false };
    assert!(matches!(world.session.step(world.now, next), ReadingAction::Gather));
    let gathered = ReadingEvent::Gathered {
        wanted: world.set.clone(),
        head: BlockAddress(0),
        track: &track(),
        drive_order: None,
    };
    assert!(matches!(world.session.step(world.now, gathered), ReadingAction::Check(_)));
    let (room, free) = (&mut world.room, &world.free);
    let gone = ReadingEvent::StillWanted { files: Vec::new(), room, free, now: AT };
    assert!(matches!(world.session.step(world.now, gone), ReadingAction::Gather), "what else is wanted?");
}
