//! The engine of `io_uring`: one thread keeps so many operations in the kernel's queue.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

use drive::AlignedBuffer;
use io_uring::{IoUring, opcode, types};

use crate::engine::{Budget, EngineError, Load};
use crate::measured::{Fault, Measured};
use crate::stamp;
use crate::workload::Operation;

/// Whether the kernel lets this process have a queue.
pub(crate) fn probe() -> Result<(), EngineError> {
    IoUring::new(1).map(drop).map_err(EngineError::NoIoUring)
}

/// A place for an operation.
struct Slot {
    buffer: AlignedBuffer,
    operation: Operation,
    ordered: Instant,
}

/// The queue with the memory that the kernel reads and writes. It is dropped only when the kernel is done
/// with all of it.
struct Queue {
    ring: IoUring,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Put into the queue, and no end of it seen yet.
    under_way: usize,
}

impl Queue {
    fn new(depth: u32, block: usize) -> Result<Queue, EngineError> {
        let ring = IoUring::new(depth.next_power_of_two()).map_err(EngineError::NoIoUring)?;
        let nothing = Operation { is_write: false, offset: base::ByteCount(0) };
        let slot = |number: u32| {
            let mut buffer = AlignedBuffer::new(block);
            stamp::scatter(buffer.as_mut_slice(), u64::from(number));
            Slot { buffer, operation: nothing, ordered: Instant::now() }
        };
        let slots: Vec<Slot> = (0..depth).map(slot).collect();
        Ok(Queue { ring, free: (0..slots.len()).rev().collect(), slots, under_way: 0 })
    }

    /// Puts an operation into the queue; the kernel learns of it with the next [`Queue::wait`].
    fn order(&mut self, load: &Load<'_>, operation: Operation) -> io::Result<()> {
        let Some(at) = self.free.pop() else { return Err(io::ErrorKind::QuotaExceeded.into()) };
        let slot = &mut self.slots[at];
        load.contents.prepare(operation, slot.buffer.as_mut_slice());
        slot.operation = operation;
        let block = slot.buffer.as_mut_slice();
        let length = u32::try_from(block.len()).map_err(io::Error::other)?;
        let file = types::Fd(load.file.as_raw_fd());
        let entry = match operation.is_write {
            true => opcode::Write::new(file, block.as_ptr(), length).offset(operation.offset.0).build(),
            false => opcode::Read::new(file, block.as_mut_ptr(), length).offset(operation.offset.0).build(),
        };
        let entry = entry.user_data(at as u64);
        slot.ordered = Instant::now();
        // SAFETY: the memory is the slot's own and neither moved nor touched until the end of the operation
        // is seen, which alone makes the slot free again; `drop` waits for all ends before it frees any, or
        // leaks the memory. The file is borrowed by `load` for longer than `run` waits for ends.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    /// Tells the kernel what is new and waits for at least one end.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Places whose operations have ended, each with what the kernel says of it.
    fn ended(&mut self, ended: &mut Vec<(usize, i32)>) {
        let entries = self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result()));
        ended.extend(entries);
        self.under_way -= ended.len();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.under_way > 0 {
            if self.wait().is_err() {
                // The kernel may still write there.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            ended.clear();
            self.ended(&mut ended);
        }
    }
}

pub(crate) fn run(load: Load<'_>) -> Result<Measured, EngineError> {
    let length = load.workload.shape().block.0 as usize;
    let mut queue = Queue::new(load.depth, length)?;
    let mut workload = load.workload.clone();
    let begun = Instant::now();
    let mut budget = Budget::new(load.until, begun, load.stop);
    let (mut measured, mut ended, mut faults) = (Measured::default(), Vec::new(), 0);
    loop {
        let now = Instant::now();
        while !queue.free.is_empty() && budget.take(now, faults) {
            queue.order(&load, workload.next_operation()).map_err(EngineError::Queue)?;
        }
        if queue.under_way == 0 {
            return Ok(measured);
        }
        queue.wait().map_err(EngineError::Queue)?;
        ended.clear();
        queue.ended(&mut ended);
        let now = Instant::now();
        for (at, result) in ended.iter().copied() {
            let slot = &queue.slots[at];
            let operation = slot.operation;
            let took = now.saturating_duration_since(slot.ordered);
            let done = judge(operation, result, length)
                .and_then(|()| load.contents.check(operation, slot.buffer.as_slice()));
            match done {
                Ok(()) => measured.add(operation, length, took),
                Err(fault) => {
                    measured.faults.add(fault, operation.offset);
                    faults += 1;
                }
            }
            queue.free.push(at);
        }
        measured.span = now.saturating_duration_since(begun);
    }
}

/// What the kernel's answer says of an operation: bytes moved, or the negative of an error's number.
fn judge(operation: Operation, result: i32, length: usize) -> Result<(), Fault> {
    match usize::try_from(result) {
        Ok(moved) if moved == length => Ok(()),
        Ok(_) => Err(Fault::short(operation)),
        Err(_) => Err(Fault::refused(operation, &io::Error::from_raw_os_error(result.saturating_neg()))),
    }
}
