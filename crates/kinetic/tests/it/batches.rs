//! Batches: all or nothing, and what is wrong with them.

use kinetic::client::{BatchOutcome, Event, Fate, Options, SubmitError, Verdict};
use kinetic::server::Operation;
use kinetic::{Change, Request, StatusCode};

use crate::world::{Making, World, a_delete, a_put, get, put};

fn change(key: &str, from: &str, to: &str) -> Change {
    Change::Put(a_put(key, from, to, key))
}

#[test]
fn nothing_is_done_if_one_may_not_be() {
    let mut world = World::new();
    assert_eq!(world.status(put("b", "", "9", "")), StatusCode::Success);
    let batch = world.begin();
    for one in [change("a", "", "1"), change("b", "", "1"), change("c", "", "1")] {
        world.client.add(batch, one).unwrap();
    }
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    let Some(BatchOutcome::Failed { operation, status }) = world.batch_outcome(batch) else { panic!() };
    assert_eq!((operation, status.code), (Some(1), StatusCode::VersionMismatch));
    assert_eq!(world.drive.count(), 1);
    assert_eq!(world.status(get("a")), StatusCode::NotFound);
}

#[test]
fn members_see_what_stands_before_them_and_others_go_between() {
    let mut world = World::new();
    let batch = world.begin();
    for one in [
        change("a", "", "1"),
        change("a", "1", "2"),
        Change::Delete(a_delete("a", "2")),
        change("b", "", "1"),
    ] {
        world.client.add(batch, one).unwrap();
        assert_eq!(world.status(get("b")), StatusCode::NotFound, "nothing is seen before the end");
    }
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Committed(vec![0, 1, 2, 3])));
    assert_eq!((world.status(get("a")), world.status(get("b"))), (StatusCode::NotFound, StatusCode::Success));
    world.drive.crash(|_| false);
    assert_eq!(world.status(get("b")), StatusCode::Success, "a batch is durable when it is answered");
}

#[test]
fn an_empty_batch_is_committed() {
    let mut world = World::new();
    let batch = world.begin();
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Committed(Vec::new())));
}

#[test]
fn after_its_end_nothing_is_added() {
    let mut world = World::new();
    let batch = world.begin();
    world.client.commit(world.now, batch).unwrap();
    assert_eq!(world.client.add(batch, change("a", "", "1")), Err(SubmitError::NoBatch));
    assert_eq!(world.client.commit(world.now, batch), Err(SubmitError::NoBatch));
    assert_eq!(world.client.abort(world.now, batch), Err(SubmitError::NoBatch));
    for own in [Request::StartBatch, Request::EndBatch { count: 0 }, Request::AbortBatch] {
        let refused = world.client.submit(world.now, own, Options::default());
        assert_eq!(refused, Err(SubmitError::OwnCall));
    }
}

#[test]
fn what_is_wrong_ends_the_connection() {
    let start = (Request::StartBatch, Some(1));
    let member = |number| (put("a", "", "1", ""), Some(number));
    let long = (put(&"k".repeat(5000), "", "1", ""), Some(1));
    for (what, requests, code, is_closed) in [
        ("no start", vec![member(1)], StatusCode::InvalidBatch, true),
        ("another number", vec![start.clone(), member(2)], StatusCode::InvalidBatch, true),
        ("not PUT or DELETE", vec![start.clone(), (get("a"), Some(1))], StatusCode::InvalidBatch, true),
        ("a key that is too long", vec![start.clone(), long], StatusCode::InvalidBatch, true),
        (
            "end without start",
            vec![(Request::EndBatch { count: 0 }, Some(1))],
            StatusCode::InvalidBatch,
            true,
        ),
        ("abort without start", vec![(Request::AbortBatch, Some(1))], StatusCode::InvalidBatch, true),
        (
            "another count",
            vec![start.clone(), member(1), (Request::EndBatch { count: 2 }, Some(1))],
            StatusCode::InvalidBatch,
            false,
        ),
        ("twice", vec![start.clone(), start.clone()], StatusCode::InvalidBatch, false),
        ("a start without a number", vec![(Request::StartBatch, None)], StatusCode::InvalidBatch, false),
        (
            "an end without a number",
            vec![(Request::EndBatch { count: 0 }, None)],
            StatusCode::InvalidBatch,
            false,
        ),
    ] {
        let mut world = World::new();
        let mut last = None;
        for (place, (request, batch)) in requests.iter().enumerate() {
            last = crate::server::raw(&mut world, place as i64 + 1, request, *batch);
        }
        assert_eq!(last, Some(code), "{what}");
        assert_eq!(world.connection.is_closed(), is_closed, "{what}");
        assert_eq!(world.drive.count(), 0, "{what}: nothing is done");
        if is_closed {
            assert_eq!(world.device.batches(), 0, "{what}");
        }
    }
}

#[test]
fn a_start_that_is_refused() {
    let mut making = Making::default();
    making.limits.batches = Some(1);
    let mut world = World::make(making);
    // Another client has the only batch that the device holds.
    let (mut other, _) = world.device.accept(false).unwrap();
    let started = crate::server::raw_on(&mut world, &mut other, 1, &Request::StartBatch, Some(1));
    assert_eq!(started, Some(StatusCode::Success));
    let batch = world.begin();
    world.client.add(batch, change("a", "", "1")).unwrap();
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    let Some(BatchOutcome::Refused(status)) = world.batch_outcome(batch) else { panic!() };
    assert_eq!(status.code, StatusCode::ServiceBusy);
    other.closed(&mut world.device);
    let batch = world.begin();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Open), "its place is free again");
}

#[test]
fn a_batch_is_dropped_with_its_connection() {
    let mut world = World::new();
    let batch = world.begin();
    world.client.add(batch, change("a", "", "1")).unwrap();
    world.settle();
    let (events, (device, drive)) = world.cut();
    let told = Event::Batch { batch, outcome: BatchOutcome::Unanswered(Fate::NotSent) };
    assert!(events.contains(&told), "{events:?}");
    assert_eq!((device.batches(), drive.count()), (0, 0));
}

#[test]
fn an_end_without_an_answer_is_asked_about() {
    for is_done in [false, true] {
        let mut world = World::new();
        world.is_slow = true;
        let batch = world.begin();
        world.client.add(batch, change("a", "", "1")).unwrap();
        world.client.add(batch, change("b", "", "1")).unwrap();
        world.client.commit(world.now, batch).unwrap();
        world.settle();
        assert!(matches!(world.works[0].operation, Operation::Batch(_)));
        if !is_done {
            // The device dies with it.
            world.works.clear();
        }
        let (events, before) = world.cut();
        let question = events.iter().find_map(|event| match event {
            Event::Batch { outcome: BatchOutcome::Unanswered(Fate::Unknown(question)), .. } => {
                question.clone()
            }
            _ => None,
        });
        let question = question.expect("a question");
        let mut world = World::connect(Making::default(), Some(before));
        let response = world.call(question.request());
        let expected = if is_done { Verdict::Applied } else { Verdict::NotApplied };
        assert_eq!(question.verdict(&response), expected);
    }
}

#[test]
fn a_late_start_is_given_up() {
    let mut world = World::new();
    world.budget = 0;
    let batch = world.begin();
    world.client.add(batch, change("a", "", "1")).unwrap();
    world.client.commit(world.now, batch).unwrap();
    world.pass(kinetic::client::REQUEST_WITHIN);
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Unanswered(Fate::NotSent)));
    world.budget = usize::MAX;
    world.settle();
    assert_eq!((world.device.batches(), world.drive.count()), (0, 0), "it was aborted");
    assert_eq!(world.events.len(), 1, "one outcome: {:?}", world.events);
}

#[test]
fn a_start_that_was_never_sent_leaves_nothing() {
    let mut making = Making::default();
    making.limits.writes = Some(1);
    let mut world = World::make(making);
    world.is_slow = true;
    world.submit(put("x", "", "1", ""));
    world.settle();
    let batch = world.begin();
    world.pass(kinetic::client::REQUEST_WITHIN);
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Unanswered(Fate::NotSent)));
    world.is_slow = false;
    world.settle();
    assert_eq!(world.device.batches(), 0);
    let batch = world.begin();
    world.settle();
    assert_eq!(world.batch_outcome(batch), Some(BatchOutcome::Open));
    assert_eq!(world.ended(), None);
}
