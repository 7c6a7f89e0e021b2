use base::ContainerId;

use super::*;

const POOL: TapePoolId = TapePoolId(1);
const LEFT: ByteCount = ByteCount(100);

fn now(seconds: u64) -> Timestamp {
    Timestamp(0).plus(Duration::from_secs(seconds))
}

fn writer(number: u8, room: u64) -> Writer {
    let vid = Vid::new(&format!("KT000{number}")).unwrap();
    Writer { vid, tape_pool: POOL, room: ByteCount(room) }
}

/// Containers of 10 bytes, numbered from 0, of these data sets.
fn queue(data_sets: &[u64]) -> Vec<Queued> {
    let container = |(at, data_set): (usize, &u64)| Queued {
        container: ContainerId(at as u64),
        data_set: *data_set,
        length: ByteCount(10),
        can_span: false,
    };
    data_sets.iter().enumerate().map(container).collect()
}

#[test]
fn data_sets_come_one_after_the_other() {
    let affinity = Affinity::default();
    let order = affinity.order(&writer(1, 1_000), now(0), LEFT, &queue(&[7, 5, 7, 5, 6]));
    assert_eq!(order, [0, 2, 1, 3, 4]);
}

#[test]
fn the_data_set_at_the_end_of_the_tape_goes_on() {
    let mut affinity = Affinity::default();
    affinity.took(&writer(1, 1_000), now(0), true, &[4, 5, 6]);
    // 6 stands at the end; 5 and 4 are on the tape; 9 has waited longest.
    let order = affinity.order(&writer(1, 1_000), now(1), LEFT, &queue(&[9, 5, 4, 6, 9, 6]));
    assert_eq!(order, [3, 5, 1, 2, 0, 4]);
}

#[test]
fn what_waits_longest_has_its_turn_at_last() {
    let mut affinity = Affinity::default();
    let writer = writer(1, 1_000);
    affinity.took(&writer, now(0), true, &[6]);
    let queue = queue(&[9, 6]);
    let mut batches = 0;
    while affinity.order(&writer, now(0), LEFT, &queue) == [1, 0] {
        affinity.took(&writer, now(0), false, &[6]);
        batches += 1;
    }
    assert_eq!(batches, TURNS_MAX);
    assert_eq!(affinity.order(&writer, now(0), LEFT, &queue), [0, 1]);
    affinity.took(&writer, now(0), true, &[9]);
    assert_eq!(affinity.order(&writer, now(0), LEFT, &queue), [0, 1]);
}

#[test]
fn what_failed_on_a_tape_is_left_to_it_while_it_is_written() {
    let mut affinity = Affinity::default();
    let (first, second) = (writer(1, 1_000), writer(2, 1_000));
    affinity.took(&first, now(0), true, &[6]);
    affinity.took(&second, now(0), true, &[7]);
    // A container of 6 was not written and is queued again.
    let queue = queue(&[6, 7, 8]);
    assert_eq!(affinity.order(&second, now(1), LEFT, &queue), [1, 2]);
    assert_eq!(affinity.order(&first, now(1), LEFT, &queue), [0, 2]);
    // The first tape is gone, or its drive is silent: nothing waits for it.
    assert_eq!(affinity.order(&second, now(1_801), LEFT, &queue), [1, 0, 2]);
    affinity.leave(first.vid);
    assert_eq!(affinity.order(&second, now(1), LEFT, &queue), [1, 0, 2]);
    affinity.took(&second, now(1), true, &[6]);
    affinity.took(&first, now(1), true, &[9]);
    assert_eq!(affinity.order(&first, now(1), LEFT, &queue), [2], "its home is the second tape now");
}

#[test]
fn no_more_is_left_than_fits_there() {
    let mut affinity = Affinity::default();
    affinity.took(&writer(1, 25), now(0), true, &[6]);
    let order = affinity.order(&writer(2, 1_000), now(1), LEFT, &queue(&[6, 6, 6, 6]));
    assert_eq!(order, [2, 3]);
}

#[test]
fn a_second_drive_helps_with_a_large_data_set() {
    let mut affinity = Affinity::default();
    let (first, second) = (writer(1, 10_000), writer(2, 10_000));
    affinity.took(&first, now(0), true, &[6]);
    let queue = queue(&[6; 40]);
    let order = affinity.order(&second, now(1), LEFT, &queue);
    assert_eq!(order, (10..40).collect::<Vec<_>>());
    affinity.took(&second, now(1), true, &[6]);
    assert_eq!(affinity.order(&first, now(1), LEFT, &queue).len(), 40, "it stays the first one's");
}

#[test]
fn a_class_that_is_one_data_set_is_taken_as_it_comes() {
    let mut affinity = Affinity::default();
    let (first, second) = (writer(1, 10_000), writer(2, 10_000));
    affinity.took(&first, now(0), true, &[WHOLE_CLASS]);
    let queue = queue(&[WHOLE_CLASS, 3, WHOLE_CLASS, 3]);
    assert_eq!(affinity.order(&first, now(1), LEFT, &queue), [0, 1, 3, 2]);
    assert_eq!(affinity.order(&second, now(1), LEFT, &queue), [0, 1, 3, 2]);
}

#[test]
fn homes_are_bounded_and_the_oldest_is_forgotten() {
    let mut affinity = Affinity::default();
    let (first, second) = (writer(1, 1_000), writer(2, 1_000));
    for data_set in 1..=(HOMES_MAX as u64 + 10) {
        affinity.took(&first, now(0), true, &[data_set]);
    }
    assert_eq!(affinity.homes.len(), HOMES_MAX);
    assert_eq!(affinity.order(&second, now(1), LEFT, &queue(&[10, 11])), [0]);
}

mod property {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Two drives plan in turn until the queue is empty: everything is planned once, both always have
        /// something to do as long as there is more than is left to one, and nothing starves.
        #[test]
        fn everything_is_planned_once(
            data_sets in proptest::collection::vec(0u64..6, 0..80),
            steps in proptest::collection::vec((any::<bool>(), 1usize..6), 0..40),
        ) {
            let mut affinity = Affinity::default();
            let writers = [writer(1, 100_000), writer(2, 100_000)];
            let mut queue = queue(&data_sets);
            let mut done = BTreeSet::new();
            // The first drive alone ends the work.
            let steps = steps.into_iter().chain((0..100).map(|_| (false, 5)));
            for (at, (second, count)) in steps.enumerate() {
                let writer = &writers[usize::from(second)];
                let time = now(at as u64 * 60);
                let order = affinity.order(writer, time, LEFT, &queue);
                prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), order.len());
                prop_assert!(order.len() * 10 + LEFT.0 as usize >= queue.len() * 10);
                let Some(oldest) = order.iter().min() else { continue };
                let taken: Vec<usize> = order.iter().copied().take(count).collect();
                let sets: Vec<u64> = taken.iter().map(|at| queue[*at].data_set).collect();
                affinity.took(writer, time, taken[0] == *oldest, &sets);
                for at in &taken {
                    prop_assert!(done.insert(queue[*at].container));
                }
                queue.retain(|container| !done.contains(&container.container));
            }
            prop_assert!(queue.is_empty());
            prop_assert_eq!(done.len(), data_sets.len());
        }
    }
}
