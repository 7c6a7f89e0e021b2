//! The program is killed at any moment: what was acknowledged is there, batches are whole or not there.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use drive_server::Server;
use kinetic::client::{BatchOutcome, Options};
use kinetic::{Change, Request, StatusCode, Synchronization};

use crate::wire::{Wire, a_put, noise, put, settings, store, value};

const STORE: &str = "KIST_TEST_DRIVE_STORE";

/// Not a test of its own: the program that is killed.
#[test]
fn the_program_that_is_killed() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let server = Server::start(store(Path::new(&path), 200), settings()).unwrap();
    println!("\nserving at {}", server.plain()[0]);
    server.wait().unwrap();
}

struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    fn start(path: &Path) -> Program {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::the_program_that_is_killed", "--nocapture"])
            .env(STORE, path)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| {
                line.unwrap().strip_prefix("serving at ").map(|address| address.parse().unwrap())
            })
            .expect("it serves");
        // Whatever it says later is read, so that it never waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        Program { child, address }
    }

    /// As `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn killed_between_puts() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for round in 0..6u64 {
        let program = Program::start(directory.path());
        let mut wire = Wire::connect(program.address);
        for (key, seed) in &acknowledged {
            assert!(value(&mut wire, key) == Some(noise(30_000, *seed)), "{key}");
        }
        for number in 0..round + 2 {
            let (key, seed) = (format!("{round} {number}"), round * 100 + number);
            assert_eq!(wire.code(put(&key, "", "1", noise(30_000, seed))), StatusCode::Success);
            acknowledged.push((key, seed));
        }
        // Some that nobody waits for.
        for number in 0..4 {
            wire.submit(put(&format!("{round} late {number}"), "", "1", noise(30_000, number)));
        }
        program.kill();
    }
    let program = Program::start(directory.path());
    let mut wire = Wire::connect(program.address);
    for (key, seed) in &acknowledged {
        assert!(value(&mut wire, key) == Some(noise(30_000, *seed)), "{key}");
    }
    for round in 0..6 {
        for number in 0..4 {
            let stands = value(&mut wire, &format!("{round} late {number}"));
            assert!(stands.is_none_or(|stands| stands == noise(30_000, number)), "whole or not at all");
        }
    }
    program.kill();
}

#[test]
fn killed_between_the_steps_of_a_batch() {
    let directory = tempfile::tempdir().unwrap();
    // Start, each change, the end, and its answer.
    const STEPS: usize = 7;
    for step in 0..STEPS {
        let program = Program::start(directory.path());
        let mut wire = Wire::connect(program.address);
        let key = |number: usize| format!("{step} {number}");
        let batch = wire.client.begin_batch(wire.now(), Options::default()).unwrap();
        wire.transmit();
        while !wire
            .events
            .iter()
            .any(|event| matches!(event, kinetic::client::Event::Batch { outcome: BatchOutcome::Open, .. }))
        {
            assert!(wire.receive());
        }
        for number in 0..step.min(4) {
            let change = Change::Put(a_put(&key(number), "", "1", noise(20_000, number as u64)));
            wire.client.add(batch, change).unwrap();
            wire.transmit();
        }
        let mut is_acknowledged = false;
        if step >= 5 {
            wire.client.commit(wire.now(), batch).unwrap();
            wire.transmit();
        }
        if step >= 6 {
            let outcome = wire.batch_outcome(batch);
            assert!(matches!(outcome, Some(BatchOutcome::Committed(_))), "{outcome:?}");
            is_acknowledged = true;
        }
        program.kill();
        let program = Program::start(directory.path());
        let mut wire = Wire::connect(program.address);
        let there = (0..4).filter(|number| value(&mut wire, &key(*number)).is_some()).count();
        match step {
            0..=4 => assert_eq!(there, 0, "step {step}: it was never ended"),
            _ if is_acknowledged => assert_eq!(there, 4, "it was acknowledged"),
            _ => assert!(there == 0 || there == 4, "step {step}: {there} of 4"),
        }
        program.kill();
    }
}

#[test]
fn written_back_and_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::start(directory.path());
    let mut wire = Wire::connect(program.address);
    for number in 0..50 {
        let mut one = a_put(&format!("{number}"), "", "1", noise(10_000, number));
        one.synchronization = Synchronization::WriteBack;
        assert_eq!(wire.code(Request::Change(Change::Put(one))), StatusCode::Success);
    }
    assert_eq!(wire.code(Request::FlushAllData), StatusCode::Success);
    program.kill();
    let program = Program::start(directory.path());
    let mut wire = Wire::connect(program.address);
    for number in 0..50 {
        assert!(value(&mut wire, &format!("{number}")) == Some(noise(10_000, number)), "{number}");
    }
    // Asked to end by the protocol, it ends in good order.
    assert_eq!(wire.code(Request::SetPowerLevel(kinetic::PowerLevel::Shutdown)), StatusCode::Success);
    let mut child = program.child;
    assert!(child.wait().unwrap().success());
}
