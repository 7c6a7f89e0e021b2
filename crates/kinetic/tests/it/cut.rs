//! A connection that is cut at each byte of an exchange: nothing acknowledged is lost, nothing is done twice.

use kinetic::client::{BatchOutcome, Event, Fate, Options, Question, Verdict};
use kinetic::model::Drive;
use kinetic::server::Device;
use kinetic::{Change, Request, StatusCode, Synchronization};
use proptest::prelude::*;

use crate::world::{Making, World, a_delete, a_put, bytes};

/// Something to be done once: a write, or a batch.
#[derive(Clone, Debug)]
struct Step(Vec<Change>);

fn is_batch(step: &Step) -> bool {
    step.0.len() > 1
}

/// Writes over each other's versions, so that doing one twice, or one too few, shows.
fn script() -> Vec<Step> {
    let change = |key: &str, from: &str, to: &str| Change::Put(a_put(key, from, to, &format!("{key}{to}")));
    let mut back = a_put("w", "", "1", "back");
    back.synchronization = Synchronization::WriteBack;
    vec![
        Step(vec![change("a", "", "1")]),
        Step(vec![change("b", "", "1")]),
        Step(vec![change("a", "1", "2")]),
        Step(vec![change("c", "", "1"), change("d", "", "1"), Change::Delete(a_delete("b", "1"))]),
        Step(vec![Change::Put(back)]),
        Step(vec![Change::Delete(a_delete("c", "1"))]),
        Step(vec![change("a", "2", "3"), change("c", "", "2")]),
        Step(vec![change("e", "", "1")]),
    ]
}

/// What is known of a step.
#[derive(Clone, Debug)]
enum Known {
    Todo,
    Asking(Question),
    Done,
}

fn expected(drive: &Drive) {
    let stands =
        |key: &str| drive.stands(key.as_bytes()).map(|(metadata, value)| (&metadata.version[..], &value[..]));
    assert_eq!(stands("a"), Some((&b"3"[..], &b"a3"[..])));
    assert_eq!(stands("b"), None);
    assert_eq!(stands("c"), Some((&b"2"[..], &b"c2"[..])));
    assert_eq!(stands("d"), Some((&b"1"[..], &b"d1"[..])));
    assert_eq!(stands("e"), Some((&b"1"[..], &b"e1"[..])));
    assert_eq!(stands("w"), Some((&b"1"[..], &b"back"[..])));
    assert_eq!(drive.count(), 5);
}

/// Works the script down over connections of which each passes so many bytes, the last as many as it likes.
/// Steps run one after the other, as their versions build on each other. Gives the bytes that passed.
fn run(budgets: &[usize], with_crash: bool) -> usize {
    let script = script();
    let mut known: Vec<Known> = script.iter().map(|_| Known::Todo).collect();
    let mut before: Option<(Device, Drive)> = None;
    let mut passed = 0;
    for budget in budgets.iter().copied().chain([usize::MAX]) {
        let mut making = Making::default();
        making.client.queue_max = 4;
        let mut world = World::connect_within(making, before.take(), budget);
        for (step, known) in script.iter().zip(&mut known) {
            if world.client.greeting().is_none() {
                break;
            }
            if !attempt(&mut world, step, known) {
                break;
            }
        }
        passed = world.passed;
        if budget == usize::MAX {
            assert!(known.iter().all(|known| matches!(known, Known::Done)), "{known:?}");
            expected(&world.drive);
        }
        // What was acknowledged stands, and what was not is not there by half.
        let (_, (device, mut drive)) = world.cut();
        acknowledged(&script, &known, &drive);
        if with_crash {
            // Written back and not flushed may be lost, as its writer knows: here it never was.
            drive.crash(|key| key == b"w");
            acknowledged(&script, &known, &drive);
        }
        before = Some((device, drive));
    }
    passed
}

/// One step on one connection, as far as it comes. Whether it is done.
fn attempt(world: &mut World, step: &Step, known: &mut Known) -> bool {
    loop {
        match known {
            Known::Done => return true,
            Known::Asking(question) => {
                let Some(response) = call(world, question.request()) else { return false };
                match question.verdict(&response) {
                    Verdict::Applied => *known = Known::Done,
                    Verdict::NotApplied => *known = Known::Todo,
                    other => panic!("nobody else writes: {other:?}"),
                }
            }
            Known::Todo => {
                *known = if is_batch(step) { batch(world, step) } else { write(world, step) };
                match known {
                    Known::Todo | Known::Asking(_) => return false,
                    Known::Done => return true,
                }
            }
        }
    }
}

fn call(world: &mut World, request: Request) -> Option<kinetic::Response> {
    let ticket = world.client.submit(world.now, request, Options::default()).ok()?;
    world.settle();
    let is_it = |event: &Event| matches!(event, Event::Answered { ticket: one, .. } if *one == ticket);
    world.events.iter().any(is_it).then(|| world.answer(ticket))
}

fn write(world: &mut World, step: &Step) -> Known {
    let request = Request::Change(step.0[0].clone());
    if let Some(response) = call(world, request) {
        assert_eq!(response.status.code, StatusCode::Success, "{step:?}");
        return Known::Done;
    }
    world.client.lost();
    world.settle();
    world
        .events
        .iter()
        .find_map(|event| match event {
            Event::Unanswered { fate: Fate::NotSent, .. } => Some(Known::Todo),
            Event::Unanswered { fate: Fate::Unknown(question), .. } => {
                Some(Known::Asking(question.clone().expect("versions that tell")))
            }
            _ => None,
        })
        .expect("an outcome")
}

fn batch(world: &mut World, step: &Step) -> Known {
    let batch = world.begin();
    for change in &step.0 {
        world.client.add(batch, change.clone()).unwrap();
    }
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    if !matches!(world.batch_outcome(batch), Some(BatchOutcome::Committed(_))) {
        world.client.lost();
        world.settle();
    }
    match world.batch_outcome(batch) {
        Some(BatchOutcome::Committed(places)) => {
            assert_eq!(places.len(), step.0.len());
            Known::Done
        }
        Some(BatchOutcome::Unanswered(Fate::NotSent)) => Known::Todo,
        Some(BatchOutcome::Unanswered(Fate::Unknown(question))) => Known::Asking(question.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// The last step that is done says what stands at each key; a step under way may have been done or not,
/// whole.
fn acknowledged(script: &[Step], known: &[Known], drive: &Drive) {
    let done = known.iter().take_while(|known| matches!(known, Known::Done)).count();
    let with = |steps: usize| {
        let mut stands: std::collections::BTreeMap<_, _> = Default::default();
        for change in script.iter().take(steps).flat_map(|step| &step.0) {
            match change.leaves() {
                Some(version) => drop(stands.insert(change.key().clone(), version.clone())),
                None => drop(stands.remove(change.key())),
            }
        }
        stands
    };
    let now: std::collections::BTreeMap<_, _> = ["a", "b", "c", "d", "e", "w"]
        .into_iter()
        .filter_map(|key| Some((bytes(key), drive.stands(key.as_bytes())?.0.version.clone())))
        .collect();
    assert!(now == with(done) || now == with(done + 1), "{done} steps are done, and {now:?} stands there");
}

#[test]
fn at_each_byte() {
    let whole = run(&[], false);
    assert!(whole > 1000, "{whole} bytes");
    for budget in 0..=whole {
        run(&[budget], true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn again_and_again(budgets in proptest::collection::vec(0_usize..1500, 1..12)) {
        run(&budgets, true);
    }
}

/// The device of a broken connection may still have a write in a queue. Then it is sent again, with the same
/// versions, and one of the two is refused.
#[test]
fn a_write_that_is_done_late_is_not_done_twice() {
    let mut world = World::new();
    world.is_slow = true;
    world.submit(Request::Change(Change::Put(a_put("a", "", "1", "x"))));
    world.settle();
    let mut works = std::mem::take(&mut world.works);
    world.client.lost();
    world.settle();
    let Event::Unanswered { fate: Fate::Unknown(Some(question)), .. } = world.events[0].clone() else {
        panic!()
    };
    world.connection.closed(&mut world.device);
    let (old, before) = (world.connection, (world.device, world.drive));
    let mut world = World::connect(Making::default(), Some(before));
    let response = world.call(question.request());
    assert_eq!(question.verdict(&response), Verdict::NotApplied);
    // Only now the device comes to it.
    let mut old = old;
    let work = works.remove(0);
    let outcome = world.drive.execute(work.operation, &mut world.peers);
    let mut actions = Vec::new();
    old.done(&mut world.device, world.now, work.job, outcome, &mut actions);
    assert!(actions.is_empty());
    let again = world.status(Request::Change(Change::Put(a_put("a", "", "1", "x"))));
    assert_eq!(again, StatusCode::VersionMismatch);
    let response = world.call(question.request());
    assert_eq!(question.verdict(&response), Verdict::Applied);
}
