//! The engine of threads: each reads or writes, waits for the end, and takes the next operation.

use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope};
use std::time::Instant;

use drive::AlignedBuffer;

use crate::engine::{Budget, EngineError, Load};
use crate::measured::{Fault, Measured};
use crate::stamp;
use crate::workload::{Operation, Workload};

/// What the threads share.
struct Shared<'a> {
    workload: Workload,
    budget: Budget<'a>,
    faults: u64,
}

pub(crate) fn run(load: &Load<'_>) -> Result<Measured, EngineError> {
    let begun = Instant::now();
    let budget = Budget::new(load.until, begun, load.stop);
    let shared = Mutex::new(Shared { workload: load.workload.clone(), budget, faults: 0 });
    scope(|all| {
        let mut started = Vec::new();
        for number in 0..load.depth {
            let work = || one(load, begun, &shared);
            match Builder::new().name(format!("load-{number}")).spawn_scoped(all, work) {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    // Those that run already find no more to do.
                    lock(&shared).faults = u64::MAX;
                    return Err(EngineError::Thread(error));
                }
            }
        }
        let mut measured = Measured::default();
        for thread in started {
            match thread.join() {
                Ok(one) => measured.merge(&one),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(measured)
    })
}

fn lock<'m, 'a>(shared: &'m Mutex<Shared<'a>>) -> MutexGuard<'m, Shared<'a>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn one(load: &Load<'_>, begun: Instant, shared: &Mutex<Shared<'_>>) -> Measured {
    let length = load.workload.shape().block.0 as usize;
    let mut buffer = AlignedBuffer::new(length);
    stamp::scatter(buffer.as_mut_slice(), begun.elapsed().as_nanos() as u64);
    let mut measured = Measured::default();
    loop {
        let ordered = Instant::now();
        let operation = {
            let mut shared = lock(shared);
            let faults = shared.faults;
            if !shared.budget.take(ordered, faults) {
                break;
            }
            shared.workload.next_operation()
        };
        load.contents.prepare(operation, buffer.as_mut_slice());
        let ordered = Instant::now();
        let done = transfer(load, operation, buffer.as_mut_slice());
        let took = ordered.elapsed();
        let done = done.and_then(|()| load.contents.check(operation, buffer.as_slice()));
        match done {
            Ok(()) => measured.add(operation, length, took),
            Err(fault) => {
                measured.faults.add(fault, operation.offset);
                let mut shared = lock(shared);
                shared.faults = shared.faults.saturating_add(1);
            }
        }
        measured.span = begun.elapsed();
    }
    measured
}

fn transfer(load: &Load<'_>, operation: Operation, block: &mut [u8]) -> Result<(), Fault> {
    let at = operation.offset.0;
    loop {
        let moved = match operation.is_write {
            true => load.file.write_at(block, at),
            false => load.file.read_at(block, at),
        };
        return match moved {
            Ok(moved) if moved == block.len() => Ok(()),
            Ok(_) => Err(Fault::short(operation)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(Fault::refused(operation, &error)),
        };
    }
}
