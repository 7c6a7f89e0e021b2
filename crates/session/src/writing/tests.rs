use super::*;

const RULES: WritingRules =
    WritingRules { flush_age: Duration::from_secs(300), index_bytes: ByteCount(1_000) };

fn at(seconds: u64) -> Timestamp {
    Timestamp(0).plus(Duration::from_secs(seconds))
}

fn calm() -> Situation {
    Situation {
        stop: false,
        may_write: true,
        owes_index: true,
        room_waits: false,
        haste: HasteCall::default(),
    }
}

/// Steps through events and gives the last action.
fn after(session: &mut WritingSession, events: &[WritingEvent]) -> WritingAction {
    let mut last = None;
    for event in events {
        last = Some(session.step(at(10), &calm(), *event));
    }
    last.expect("there are events")
}

fn session() -> WritingSession {
    WritingSession::new(RULES, Timestamp(0))
}

fn written(containers: u64, bytes: u64, ended: WriteEnded) -> WritingEvent {
    WritingEvent::Written(Written { containers, bytes: ByteCount(bytes), ended })
}

#[test]
fn what_is_written_is_flushed_and_then_more_is_chosen() {
    let mut session = session();
    assert_eq!(after(&mut session, &[WritingEvent::Begin]), WritingAction::Choose);
    assert_eq!(after(&mut session, &[WritingEvent::Chosen]), WritingAction::Write);
    assert_eq!(after(&mut session, &[written(2, 999, WriteEnded::All)]), WritingAction::Flush);
    assert_eq!(after(&mut session, &[WritingEvent::Flushed]), WritingAction::Choose);
    assert_eq!(session.since_index(), ByteCount(999));
    let end = after(&mut session, &[WritingEvent::NothingQueued]);
    assert_eq!(end, WritingAction::End(SessionEnd::Drained));
}

#[test]
fn an_index_is_due_after_so_many_bytes_over_sessions_of_a_mount() {
    let mut session = session();
    let one =
        [WritingEvent::Begin, WritingEvent::Chosen, written(1, 999, WriteEnded::All), WritingEvent::Flushed];
    after(&mut session, &one);
    after(&mut session, &[WritingEvent::NothingQueued]);
    let one_more = [WritingEvent::Begin, WritingEvent::Chosen, written(1, 1, WriteEnded::All)];
    after(&mut session, &one_more);
    let index = after(&mut session, &[WritingEvent::Flushed]);
    assert_eq!(index, WritingAction::Index { somebody_waits: false });
    assert_eq!(after(&mut session, &[WritingEvent::Indexed]), WritingAction::Choose);
    assert_eq!(session.since_index(), ByteCount(0));
}

/// The places of what was chosen are fixed before its first block: an index between them would move them.
#[test]
fn a_flush_by_time_goes_on_with_what_was_chosen_without_an_index() {
    let mut session = session();
    after(&mut session, &[WritingEvent::Begin, WritingEvent::Chosen]);
    assert!(!session.flush_is_due(at(309)) && session.flush_is_due(at(310)));
    assert_eq!(after(&mut session, &[written(1, 5_000, WriteEnded::FlushDue)]), WritingAction::Flush);
    assert_eq!(session.step(at(400), &calm(), WritingEvent::Flushed), WritingAction::Write);
    assert!(!session.flush_is_due(at(699)) && session.flush_is_due(at(700)));
    after(&mut session, &[written(1, 1, WriteEnded::All)]);
    let index = after(&mut session, &[WritingEvent::Flushed]);
    assert_eq!(index, WritingAction::Index { somebody_waits: false });
}

#[test]
fn whole_containers_in_front_of_what_ended_it_are_committed_first() {
    for (ended, then, at_last) in [
        (WriteEnded::Stopped, RunEnding::Finished, WritingAction::End(SessionEnd::Stopped)),
        (WriteEnded::TapeEnd, RunEnding::TapeFull, WritingAction::End(SessionEnd::TapeFull)),
        (WriteEnded::NoSource, RunEnding::Failed, WritingAction::Choose),
    ] {
        for containers in [0, 3] {
            let mut session = session();
            after(&mut session, &[WritingEvent::Begin, WritingEvent::Chosen]);
            let mut action = after(&mut session, &[written(containers, containers * 10, ended)]);
            if containers > 0 {
                assert_eq!(action, WritingAction::Flush);
                action = after(&mut session, &[WritingEvent::Flushed]);
            }
            assert_eq!(action, WritingAction::EndRun(then));
            assert_eq!(after(&mut session, &[WritingEvent::RunEnded]), at_last);
        }
    }
}

#[test]
fn a_tape_without_room_ends_its_run() {
    let mut session = session();
    let action = after(&mut session, &[WritingEvent::Begin, WritingEvent::TapeFull]);
    assert_eq!(action, WritingAction::EndRun(RunEnding::TapeFull));
    let end = after(&mut session, &[WritingEvent::RunEnded]);
    assert_eq!(end, WritingAction::End(SessionEnd::TapeFull));
}

#[test]
fn nothing_is_chosen_for_a_tape_that_an_operator_took_out_of_use() {
    let out_of_use = Situation { may_write: false, ..calm() };
    let mut session = session();
    let action = session.step(at(0), &out_of_use, WritingEvent::Begin);
    assert_eq!(action, WritingAction::EndRun(RunEnding::Finished));
    let end = session.step(at(0), &out_of_use, WritingEvent::RunEnded);
    assert_eq!(end, WritingAction::End(SessionEnd::Stopped));
    let stop = Situation { stop: true, ..out_of_use };
    let end = session.step(at(0), &stop, WritingEvent::Begin);
    assert_eq!(end, WritingAction::End(SessionEnd::Stopped), "whoever stops leaves the run to the unmount");
}

#[test]
fn who_is_in_a_hurry_gets_an_index_once_all_is_sealed_and_one_each_time_before() {
    let hurry =
        |seconds, is_sealed| Situation { haste: HasteCall { asked: at(seconds), is_sealed }, ..calm() };
    let mut session = session();
    let mut drained = |situation: Situation| {
        session.step(at(50), &situation, WritingEvent::Begin);
        let action = session.step(at(50), &situation, WritingEvent::NothingQueued);
        if action == (WritingAction::Index { somebody_waits: true }) {
            let end = session.step(at(50), &situation, WritingEvent::Indexed);
            assert_eq!(end, WritingAction::End(SessionEnd::Drained));
            return true;
        }
        assert_eq!(action, WritingAction::End(SessionEnd::Drained));
        false
    };
    assert!(!drained(calm()), "nobody has asked");
    assert!(drained(hurry(5, false)) && drained(hurry(5, false)), "more of what was there then is to come");
    assert!(drained(hurry(5, true)));
    assert!(!drained(hurry(5, true)), "it was answered");
    assert!(!drained(Situation { owes_index: false, ..hurry(6, true) }), "all is under an index");
    assert!(drained(hurry(6, true)));
}

/// Story: all that a full pool had was on tape under no index, and puts and recalls waited for the unmount.
#[test]
fn who_waits_for_room_gets_an_index_behind_each_flush_and_at_the_end() {
    let room = Situation { room_waits: true, ..calm() };
    let index = WritingAction::Index { somebody_waits: true };
    let mut session = session();
    after(&mut session, &[WritingEvent::Begin, WritingEvent::Chosen, written(1, 5, WriteEnded::All)]);
    assert_eq!(session.step(at(10), &room, WritingEvent::Flushed), index);
    assert_eq!(session.step(at(10), &room, WritingEvent::Indexed), WritingAction::Choose);
    let nothing_new = Situation { owes_index: false, ..room };
    let end = session.step(at(10), &nothing_new, WritingEvent::NothingQueued);
    assert_eq!(end, WritingAction::End(SessionEnd::Drained), "no index names less than the one before");
    after(&mut session, &[WritingEvent::Begin]);
    assert_eq!(session.step(at(10), &room, WritingEvent::NothingQueued), index);
    assert_eq!(session.step(at(10), &room, WritingEvent::Indexed), WritingAction::End(SessionEnd::Drained));
}

#[test]
#[should_panic(expected = "was told")]
fn an_event_that_is_no_outcome_of_the_action_is_a_fault_of_the_program() {
    after(&mut session(), &[WritingEvent::Begin, WritingEvent::Flushed]);
}
