use std::collections::BTreeSet;
use std::convert::Infallible;

use base::Duration;
use proptest::prelude::*;

use super::*;

/// A queue in memory: containers by number, of which some cannot be had now.
#[derive(Default)]
struct Queue {
    waiting: Vec<Queued>,
    away: BTreeSet<ContainerId>,
    too_large: Vec<ContainerId>,
    /// Rows of a window.
    rows: usize,
}

impl MigrationQueue for Queue {
    type Error = Infallible;
    type Cursor = usize;

    fn window(&mut self, after: Option<usize>) -> Result<Option<(Vec<Queued>, usize)>, Infallible> {
        let from = after.unwrap_or(0);
        let window: Vec<Queued> = self.waiting.iter().skip(from).take(self.rows).copied().collect();
        let next = from + window.len();
        Ok(Some((window, next)).filter(|(window, _)| !window.is_empty()))
    }

    fn accept(&mut self, queued: &Queued) -> Result<Accepted, Infallible> {
        Ok(if self.away.contains(&queued.container) {
            Accepted::NotNow
        } else {
            Accepted::Yes { members: 1 }
        })
    }

    fn is_too_large(&mut self, queued: &Queued) {
        self.too_large.push(queued.container);
    }
}

fn queue(containers: &[(u64, u64)]) -> Queue {
    let queued = |(at, (data_set, length)): (usize, &(u64, u64))| Queued {
        container: ContainerId(at as u64),
        data_set: *data_set,
        length: ByteCount(*length),
        can_span: false,
    };
    Queue {
        waiting: containers.iter().enumerate().map(queued).collect(),
        rows: CHOOSE_WINDOW,
        ..Queue::default()
    }
}

fn target(room: u64, flush: u64) -> Target {
    Target {
        vid: Vid::new("KT0001").unwrap(),
        tape_pool: TapePoolId(1),
        room: ByteCount(room),
        empty_tape: ByteCount(1_000),
        useful: ByteCount(u64::MAX),
        flush: FlushRules::by_bytes(ByteCount(flush)),
        left_to_others: ByteCount(0),
    }
}

/// The numbers of what is chosen; `Err`: nothing, and whether the tape is full.
fn chosen(queue: &mut Queue, target: &Target) -> Result<Vec<u64>, bool> {
    let Ok(choice) =
        choose(queue, &mut Affinity::default(), Timestamp(0).plus(Duration::from_secs(1)), target);
    match choice {
        Choice::Containers(containers) => Ok(containers.iter().map(|queued| queued.container.0).collect()),
        Choice::Nothing => Err(false),
        Choice::TapeFull => Err(true),
        Choice::NothingFits => panic!("the tape is told apart from a full one: {target:?}"),
    }
}

#[test]
fn a_choice_ends_with_a_flush_or_with_the_room() {
    let mut waiting = queue(&[(0, 100), (0, 100), (0, 100), (0, 100)]);
    assert_eq!(chosen(&mut waiting, &target(1_000, 250)), Ok(vec![0, 1, 2]));
    assert_eq!(chosen(&mut waiting, &target(200, 250)), Ok(vec![0, 1]));
    assert_eq!(chosen(&mut waiting, &target(199, 250)), Ok(vec![0]));
    assert_eq!(chosen(&mut waiting, &target(99, 250)), Err(true));
    assert_eq!(chosen(&mut queue(&[]), &target(99, 250)), Err(false));
}

#[test]
fn what_is_larger_than_an_empty_tape_never_makes_one_count_as_full() {
    let mut waiting = queue(&[(0, 1_001), (0, 1_000)]);
    assert_eq!(chosen(&mut waiting, &target(1_000, 1)), Ok(vec![1]));
    assert_eq!(waiting.too_large, [ContainerId(0)]);
    let mut alone = queue(&[(0, 1_001)]);
    assert_eq!(chosen(&mut alone, &target(1_000, 1)), Err(false));
}

/// Story: a tape, also one with nothing on it, was closed for good because the next pack was larger than what
/// was left, though smaller ones waited behind it.
#[test]
fn what_does_not_fit_leaves_the_tape_to_what_does() {
    let mut waiting = queue(&[(0, 600), (0, 500), (0, 90), (0, 100)]);
    assert_eq!(chosen(&mut waiting, &target(550, 1)), Ok(vec![1]));
    assert_eq!(chosen(&mut waiting, &target(99, 1)), Ok(vec![2]), "in a tape that is all but full too");
    waiting.rows = 1;
    assert_eq!(chosen(&mut waiting, &target(120, 1)), Ok(vec![2]));
    assert_eq!(chosen(&mut waiting, &target(89, 1)), Err(true));
    let of = |queue: &mut Queue, room| {
        let target = Target { useful: ByteCount(100), ..target(room, 1) };
        choose(queue, &mut Affinity::default(), Timestamp(1), &target)
    };
    let mut large = queue(&[(0, 600), (0, 500)]);
    assert_eq!(of(&mut large, 100), Ok(Choice::NothingFits));
    assert_eq!(of(&mut large, 99), Ok(Choice::TapeFull));
    large.away = BTreeSet::from([ContainerId(0), ContainerId(1)]);
    assert_eq!(of(&mut large, 99), Ok(Choice::Nothing), "what cannot be had says nothing of the tape");
}

/// A queue of very many large containers is not read to its end for a small one.
#[test]
fn no_more_is_looked_at_than_a_few_windows() {
    let mut containers = vec![(0, 600); FIT_LOOKED_AT_MAX + CHOOSE_WINDOW];
    containers.push((0, 10));
    let mut waiting = queue(&containers);
    assert_eq!(chosen(&mut waiting, &target(500, 1)), Err(true));
    assert_eq!(chosen(&mut queue(&containers[CHOOSE_WINDOW..]), &target(500, 1)), Ok(vec![8_192]));
}

#[test]
fn what_can_span_takes_what_is_left_of_the_tape() {
    let mut waiting = queue(&[(0, 100), (0, 5_000), (0, 1)]);
    waiting.waiting[1].can_span = true;
    assert_eq!(chosen(&mut waiting, &target(150, 10_000)), Ok(vec![0, 1]));
    assert_eq!(chosen(&mut waiting, &target(100, 10_000)), Ok(vec![0]));
}

#[test]
fn what_cannot_be_had_now_is_passed_over_up_to_the_end_of_the_queue() {
    let mut waiting = queue(&[(0, 10), (0, 10), (0, 10)]);
    waiting.rows = 1;
    waiting.away = BTreeSet::from([ContainerId(0), ContainerId(1)]);
    assert_eq!(chosen(&mut waiting, &target(1_000, 10)), Ok(vec![2]));
    waiting.away.insert(ContainerId(2));
    assert_eq!(chosen(&mut waiting, &target(1_000, 10)), Err(false));
}

#[test]
fn data_sets_come_one_after_the_other() {
    let mut waiting = queue(&[(7, 10), (5, 10), (7, 10), (5, 10)]);
    assert_eq!(chosen(&mut waiting, &target(1_000, 1_000)), Ok(vec![0, 2, 1, 3]));
}

proptest! {
    /// Each container is chosen once at most, what is chosen fits, and no choice goes on behind a flush.
    #[test]
    fn a_choice_keeps_to_room_and_flush(
        containers in proptest::collection::vec((0u64..4, 0u64..400), 0..40),
        room in 0u64..2_000,
        flush in 1u64..1_500,
        rows in 1usize..10,
    ) {
        let mut waiting = queue(&containers);
        waiting.rows = rows;
        match chosen(&mut waiting, &target(room, flush)) {
            Ok(numbers) => {
                let once: BTreeSet<u64> = numbers.iter().copied().collect();
                prop_assert_eq!(once.len(), numbers.len());
                let length = |number: &u64| containers[*number as usize].1;
                let sum: u64 = numbers.iter().map(length).sum();
                prop_assert!(sum <= room && !numbers.is_empty());
                let before_last: u64 = numbers[..numbers.len() - 1].iter().map(length).sum();
                prop_assert!(before_last < flush, "a flush was due before the last one");
            }
            Err(true) => prop_assert!(containers.iter().all(|(_, length)| *length > room)),
            Err(false) => prop_assert!(containers.is_empty()),
        }
    }
}
