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

/// A queue for this thread alone, in which ends are worked off when they are waited for and interrupt nothing
/// else; kernels before 6.1 have plain ones.
fn ring(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    match builder.build(entries) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries),
        built => built,
    }
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
        let ring = ring(depth.next_power_of_two()).map_err(EngineError::NoIoUring)?;
        let nothing = Operation { is_write: false, offset: base::ByteCount(0) };
        let slot = |number: u32| {
            let mut buffer = AlignedBuffer::new(block);
            stamp::scatter(buffer.as_mut_slice(), u64::from(number));
            Slot { buffer, operation: nothing, ordered: Instant::now() }
        };
        let slots: Vec<Slot> = (0..depth).map(slot).collect();
        Ok(Queue { ring, free: (0..slots.len()).rev().collect(), slots, under_way: 0 })
    }

    /// Orders an operation. Each alone and at once: told of many together, the disk would have had fewer to
    /// do in the meantime.
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
        self.ring.submit().map(drop)
    }

    /// Waits until there is at least one end.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next place whose operation has ended, with what the kernel says of it; `None` if it must be waited
    /// for.
    fn ended(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        self.under_way -= 1;
        Some((entry.user_data() as usize, entry.result()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while self.under_way > 0 {
            if self.ended().is_none() && self.wait().is_err() {
                // The kernel may still write there.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
    }
}

pub(crate) fn run(load: Load<'_>) -> Result<Measured, EngineError> {
    let length = load.workload.shape().block.0 as usize;
    let mut queue = Queue::new(load.depth, length)?;
    let mut workload = load.workload.clone();
    let begun = Instant::now();
    let mut budget = Budget::new(load.until, begun, load.stop);
    let (mut measured, mut faults, mut now) = (Measured::default(), 0, begun);
    loop {
        while !queue.free.is_empty() && budget.take(now, faults) {
            queue.order(&load, workload.next_operation()).map_err(EngineError::Queue)?;
        }
        if queue.under_way == 0 {
            return Ok(measured);
        }
        let (at, result) = loop {
            match queue.ended() {
                Some(ended) => break ended,
                None => queue.wait().map_err(EngineError::Queue)?,
            }
        };
        now = Instant::now();
        measured.span = now.saturating_duration_since(begun);
        let slot = &queue.slots[at];
        let operation = slot.operation;
        let done = judge(operation, result, length)
            .and_then(|()| load.contents.check(operation, slot.buffer.as_slice()));
        match done {
            Ok(()) => measured.add(operation, length, now.saturating_duration_since(slot.ordered)),
            Err(fault) => {
                measured.faults.add(fault, operation.offset);
                faults += 1;
            }
        }
        queue.free.push(at);
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
