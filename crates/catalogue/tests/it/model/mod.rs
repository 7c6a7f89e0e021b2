//! Random histories of all commands: the catalogue against a naive reference, record by record, after every
//! step.

#![allow(clippy::manual_is_multiple_of, reason = "picks are drawn, not divided")]

mod compare;
mod reference;
mod repair;
mod sealing;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use base::*;
use catalogue::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use self::reference::{Answer, Model};
use self::steps::{KINDS, Step};

/// How often each command was accepted, over all histories: a campaign that never does something proves
/// nothing about it.
static ACCEPTED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// The reference and the last command with the answer it expects.
#[derive(Clone, Debug)]
struct Reference {
    model: Model,
    last: Option<(Envelope, Answer)>,
}

fn beginning() -> Vec<Command> {
    let pool = |name: &str| Command::DefineTapePool { name: name.into() };
    let class = |name: &str, copies: &[u16]| {
        let copies = copies.iter().copied().map(TapePoolId).collect();
        Command::DefineClass { name: name.into(), copies }
    };
    let mut commands =
        vec![pool("p1"), pool("p2"), class("two", &[1, 2]), class("one", &[2]), class("disk", &[])];
    for (vid, pool) in [("AAA001", 1), ("BBB001", 2)] {
        let vid = Vid::new(vid).unwrap();
        let (index_block, end_of_data) = (BlockAddress(4), BlockAddress(7));
        commands.push(Command::RegisterTape { vid, capacity: ByteCount(1 << 40) });
        commands.push(Command::AssignTape { vid, tape_pool: TapePoolId(pool), uuid: Uuid([4; 16]) });
        commands.push(Command::TapeLabelled { vid, generation: Generation(1), index_block, end_of_data });
    }
    commands
}

impl ReferenceStateMachine for Reference {
    type State = Reference;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Reference> {
        let mut model = Model {
            at: Timestamp(1_000),
            changes: 1,
            kept: BTreeSet::from([1]),
            next_file: 2,
            next_container: 1,
            next_request: 1,
            next_run: 1,
            ..Model::default()
        };
        let root = DirectoryRecord {
            parent: DirId::ROOT,
            name: None,
            created: model.at,
            attributes: Attributes { mtime: model.at, mode: 0o755, ..Default::default() },
            class: None,
        };
        model.dirs.insert(DirId::ROOT, root);
        for command in beginning() {
            model.apply(&command).unwrap();
        }
        Just(Reference { model, last: None }).boxed()
    }

    fn transitions(_: &Reference) -> BoxedStrategy<Step> {
        (0..KINDS, any::<[u16; 6]>(), any::<u8>())
            .prop_map(|(kind, picks, pause)| Step { kind, picks, pause })
            .boxed()
    }

    fn apply(mut state: Reference, step: &Step) -> Reference {
        let command = match &state.last {
            // A client or engine that gives the very same command again.
            Some((envelope, _)) if step.pause == 255 => envelope.command.clone(),
            _ => steps::command(&state.model, step),
        };
        state.model.at = state.model.at.plus(steps::pause(step));
        let answer = state.model.apply(&command);
        state.last = Some((Envelope { at: state.model.at, command }, answer));
        state
    }
}

#[derive(Debug)]
struct Catalogue {
    store: MemoryStore,
    log: Vec<Vec<u8>>,
}

impl StateMachineTest for Catalogue {
    type SystemUnderTest = Catalogue;
    type Reference = Reference;

    fn init_test(reference: &Reference) -> Catalogue {
        let mut store = MemoryStore::new();
        let mut log = Vec::new();
        let first = Command::Initialise { instance: Uuid([1; 16]) };
        for command in std::iter::once(first).chain(beginning()) {
            let envelope = Envelope { at: Timestamp(1_000), command };
            apply(&mut store, &envelope).unwrap();
            log.push(envelope.encode());
        }
        compare::compare(&store, &reference.model);
        Catalogue { store, log }
    }

    fn apply(mut sut: Catalogue, reference: &Reference, _: Step) -> Catalogue {
        let (envelope, expected) = reference.last.as_ref().unwrap();
        let encoded = envelope.encode();
        assert_eq!(Envelope::decode(&encoded).as_ref(), Ok(envelope));
        let before = sut.store.clone();
        let answer = apply(&mut sut.store, envelope);
        let found = answer.as_ref().map_err(|rejection| {
            let text = format!("{rejection:?}");
            text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_owned()
        });
        let found = found.cloned();
        assert_eq!(found, expected.clone().map_err(str::to_owned), "{envelope:?}: {answer:?}");
        match answer {
            Ok(_) if before != sut.store => {
                sut.log.push(encoded);
                let text = format!("{:?}", envelope.command);
                let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_owned();
                *ACCEPTED.lock().unwrap().entry(name).or_default() += 1;
            }
            Ok(_) => {}
            Err(_) => assert!(before == sut.store, "a rejected command changed something"),
        }
        sut
    }

    fn check_invariants(sut: &Catalogue, reference: &Reference) {
        compare::compare(&sut.store, &reference.model);
    }

    fn teardown(sut: Catalogue, _: Reference) {
        // All in one transaction, which must make no difference.
        let mut store = MemoryStore::new();
        let mut batch = Batch::new(&mut store);
        for change in &sut.log {
            batch.apply(&Envelope::decode(change).unwrap()).unwrap();
        }
        batch.finish().unwrap();
        assert!(store == sut.store, "the replayed log gives another catalogue");
    }
}

/// Histories of one seed.
const ROUND: u32 = 40;

/// After so many seeds some command is taken as one that is never accepted.
const MOST_ROUNDS: u64 = 10;

/// The first seed: with this one every command is accepted within four rounds. A hunt gives others
/// (`KIST_MODEL_SEED`), with most of which it takes more.
const SEED: u64 = 251_128;

/// How often a failing history is tried shorter (`KIST_SHRINKS`); each try runs all of it.
const SHRINKS: u32 = 400;

/// The number that a variable names, or the usual one.
fn number<T: std::str::FromStr>(variable: &str, usual: T) -> T {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The runner is driven here, not by `prop_state_machine!`: what that makes takes its seed from
/// `PROPTEST_RNG_SEED` before the one it was given, and then what a round covers is luck.
fn round(seed: u64) {
    let config = Config {
        cases: ROUND,
        failure_persistence: None,
        max_shrink_iters: number("KIST_SHRINKS", SHRINKS),
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let tried = TestRunner::new(config.clone()).run(
        &Reference::sequential_strategy(1..400),
        |(initial, steps, seen)| {
            Catalogue::test_sequential(config.clone(), initial, steps, seen);
            Ok(())
        },
    );
    tried.unwrap_or_else(|failure| panic!("KIST_MODEL_SEED={seed}: {failure}"));
}

/// One round, or as many as `KIST_HISTORIES` asks for; more until every command was accepted.
#[test]
fn catalogue_agrees_with_the_reference() {
    const COMMANDS: usize = 91;
    let (first, histories) = (number("KIST_MODEL_SEED", SEED), number("KIST_HISTORIES", ROUND));
    let wanted = u64::from(histories.div_ceil(ROUND));
    for more in 0..MOST_ROUNDS.max(wanted) {
        let all_accepted = ACCEPTED.lock().unwrap().len() == COMMANDS;
        if all_accepted && more >= wanted {
            break;
        }
        round(first.wrapping_add(more));
    }
    let accepted = ACCEPTED.lock().unwrap().clone();
    println!("{accepted:#?}");
    assert_eq!(accepted.len(), COMMANDS, "some command was never accepted: {accepted:?}");
}
