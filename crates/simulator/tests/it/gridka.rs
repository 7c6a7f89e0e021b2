//! The GridKa case: a site reported one file that was written to tape 96 times because an answer was lost and
//! the client put it again. Here one put is repeated 1,000 times at each point where an answer can be lost:
//! there is one file in the end, with exactly the copies of its class.

use std::time::Duration;

use archive::{ArchiveError, CopyProgress, Stat};
use base::{BlockAddress, FileId};
use simulator::clients::{path, put};
use simulator::content::Content;
use simulator::faults::Profile;
use simulator::machines::{Fault, Target};
use simulator::run::Aftermath;
use simulator::world::{Called, World, below};
use threads::simulated;

/// How often the put is repeated at each point.
const REPEATS: u32 = 1_000;

/// Where the answer is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    /// Behind the engine; the client repeats with its key.
    Answer,
    /// Behind the engine; the client has no key.
    AnswerWithoutKey,
    /// The process dies at any point of the put.
    Kill,
    /// Power fails at any point of the put.
    PowerCut,
    /// The commit is durable, but the writer is told that it failed.
    InDoubt,
}

fn repeat(world: &World, loss: Loss, content: Content) -> Option<FileId> {
    match loss {
        Loss::Answer | Loss::AnswerWithoutKey => {}
        Loss::InDoubt => world.machines().faults().once(Fault::CatalogueInDoubt, Target::Any, below(2)),
        Loss::Kill | Loss::PowerCut => {
            let world = world.clone();
            threads::spawn(move || {
                simulated::pause(Duration::from_micros(below(40_000)));
                if loss == Loss::Kill { world.kill() } else { world.cut_power() }
            });
        }
    }
    let key = (loss != Loss::AnswerWithoutKey).then(|| ("the key".to_owned(), "the client".to_owned()));
    let asked = world.ask("put", move |archive| put(archive, &path("/data/run/file"), content, key));
    match asked {
        Called::Done(Ok(done)) => Some(done.file),
        Called::Done(Err(ArchiveError::Store(_))) | Called::Killed => None,
        Called::Done(Err(error)) => panic!("{loss:?}: {error}"),
        Called::Down => {
            simulated::pause(Duration::from_millis(400));
            None
        }
    }
}

fn gridka(loss: Loss, length: usize) {
    let outcome = simulated::run(7, move || {
        let world = World::new();
        threads::spawn({
            let world = world.clone();
            move || world.supervise()
        });
        let content = Content { id: 1, length };
        let (mut files, mut tries, mut answered) = (Vec::new(), 0, 0);
        while tries < REPEATS {
            if !world.is_up() {
                simulated::pause(Duration::from_millis(100));
                continue;
            }
            tries += 1;
            if let Some(file) = repeat(&world, loss, content) {
                answered += 1;
                files.push(file);
            }
            simulated::pause(Duration::from_millis(below(200)));
        }
        world.machines().faults().clear();
        world.calm();
        let after = Aftermath::new(&world, Profile::Clean);
        let last = after.ask("put", move |archive| {
            let key = Some(("the key".to_owned(), "the client".to_owned()));
            put(archive, &path("/data/run/file"), content, key)
        });
        files.push(last.unwrap().file);
        files.dedup();
        assert_eq!(files.len(), 1, "{loss:?}: one file");
        after.settle();
        after.invariants();
        let stat = after.ask("stat", |archive| archive.stat(&path("/data/run/file"))).unwrap();
        let Stat::File(stat) = stat else { panic!("a file") };
        assert_eq!(stat.copies.len(), 2, "{loss:?}: {:?}", stat.copies);
        assert!(stat.copies.iter().all(|copy| copy.state == CopyProgress::Indexed), "{:?}", stat.copies);
        let on_tapes = after.ask("tapes", |archive| {
            let mut count = 0;
            for tape in archive.tapes()? {
                count += archive.tape_content(tape.vid, BlockAddress(0), 1_000)?.0.len();
            }
            Ok(count)
        });
        assert_eq!(on_tapes.unwrap(), 2, "{loss:?}: containers on all tapes");
        let totals = after.ask("totals", |archive| archive.totals()).unwrap();
        assert_eq!(totals.live.files, 1, "{loss:?}");
        world.kill();
        answered
    });
    let answered = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{loss:?}: {REPEATS} repeats, {answered} answered, {:?} of virtual time", outcome.elapsed);
    assert!(answered < REPEATS || matches!(loss, Loss::Answer | Loss::AnswerWithoutKey), "answers were lost");
}

#[test]
fn an_answer_lost_behind_the_engine_makes_no_second_file() {
    let _one = crate::alone();
    gridka(Loss::Answer, 3_000);
    gridka(Loss::Answer, 300_000);
}

#[test]
fn nor_does_it_without_a_key() {
    let _one = crate::alone();
    gridka(Loss::AnswerWithoutKey, 3_000);
}

#[test]
fn nor_does_a_process_that_dies_before_it_answers() {
    let _one = crate::alone();
    gridka(Loss::Kill, 3_000);
    gridka(Loss::Kill, 300_000);
}

#[test]
fn nor_does_a_power_cut() {
    let _one = crate::alone();
    gridka(Loss::PowerCut, 3_000);
}

#[test]
fn nor_does_a_commit_in_doubt() {
    let _one = crate::alone();
    gridka(Loss::InDoubt, 3_000);
}
