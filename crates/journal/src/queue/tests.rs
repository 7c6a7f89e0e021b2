//! What finds no room, who waits and who does not.

use std::sync::Arc;

use super::*;

const FORM: QueueForm = QueueForm { lines_max: 100, gather: Duration::ZERO };

/// So many lines.
#[derive(Debug)]
struct Lines(usize);

impl Queued for Lines {
    fn lines(&self) -> usize {
        self.0
    }
}

fn queue() -> Queue<Lines> {
    Queue::new(FORM)
}

fn take(queue: &Queue<Lines>) -> (usize, u64, bool) {
    let taken = queue.take(Vec::new(), None);
    (taken.items.len(), taken.dropped, taken.stopped)
}

#[test]
fn what_finds_no_room_is_counted_and_nobody_waits() {
    let queue = queue();
    queue.push_or_count(Lines(99));
    queue.push_or_count(Lines(2));
    queue.push_or_count(Lines(1));
    queue.push_or_count(Lines(1));
    queue.push_or_count(Lines(0));
    assert_eq!(take(&queue), (2, 3, false));
    queue.push_or_count(Lines(1));
    queue.stop();
    queue.push_or_count(Lines(1));
    assert_eq!(take(&queue), (1, 0, true));
}

#[test]
fn what_is_only_tried_is_not_counted() {
    let queue = queue();
    assert!(queue.try_push(Lines(100)) && !queue.try_push(Lines(1)));
    assert_eq!(take(&queue), (1, 0, false));
    assert!(queue.try_push(Lines(1)));
    queue.stop();
    assert!(!queue.try_push(Lines(1)) && !queue.push(Lines(1)));
    assert_eq!(take(&queue), (1, 0, true));
}

/// Who waits for room when the queue stops is still written down: nothing of it was refused.
#[test]
fn who_waits_for_room_is_heard_though_it_stops() {
    let queue = Arc::new(queue());
    assert!(queue.push(Lines(100)));
    let pushes: Vec<_> = (0..3)
        .map(|_| {
            let queue = Arc::clone(&queue);
            threads::spawn(move || queue.push(Lines(60)))
        })
        .collect();
    while queue.lock().pushing < 3 {
        std::thread::yield_now();
    }
    queue.stop();
    let mut items = 0;
    loop {
        let (taken, _, stopped) = take(&queue);
        items += taken;
        if stopped {
            break;
        }
    }
    assert_eq!(items, 4);
    assert!(pushes.into_iter().all(|push| push.join().unwrap()));
    assert!(!queue.push(Lines(1)), "it has stopped");
}

#[test]
fn a_thread_that_has_ended_makes_nobody_wait() {
    let queue = queue();
    assert!(queue.push(Lines(100)));
    queue.end();
    assert!(!queue.push(Lines(1)), "nobody will write it down");
    assert!(queue.flush(None));
}

#[test]
fn a_thread_that_hangs_is_waited_for_only_so_long() {
    let queue = queue();
    let short = Duration::from_millis(1);
    assert!(!queue.flush(Some(short)) && !queue.wait_for_end(short));
    queue.stop();
    assert!(take(&queue).2);
    assert!(!queue.wait_for_end(short));
    queue.end();
    assert!(queue.flush(Some(short)) && queue.wait_for_end(short));
}

#[test]
fn patience_ends_a_wait_for_nothing() {
    let taken = queue().take(Vec::new(), Some(Duration::from_millis(1)));
    assert!(taken.items.is_empty() && !taken.hurried && !taken.stopped);
}
