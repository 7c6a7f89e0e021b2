//! A task and what it waits for.

use std::panic::Location;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

/// What a task is told when it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    Run,
    /// Its process is dead: unwind.
    Kill,
}

pub(super) type Switch = Yielder<Wake, ()>;
pub(super) type Routine = Coroutine<Wake, (), (), DefaultStack>;

/// The payload that unwinds a killed task.
pub(super) struct Killed;

/// Numbers in the order of creation.
pub(super) type TaskId = u64;

/// What a waiting task waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// The address of the lock, condition or result; only compared.
    pub(super) key: Option<usize>,
    pub(super) deadline: Option<u64>,
    pub(super) ticket: u64,
    pub(super) what: &'static str,
    pub(super) at: &'static Location<'static>,
}

pub(super) struct Task {
    pub(super) name: String,
    pub(super) process: usize,
    /// Taken out while it runs.
    pub(super) routine: Option<Routine>,
    pub(super) switch: *const Switch,
    pub(super) wait: Option<Wait>,
    pub(super) timed_out: bool,
    /// Whoever joins it waits for this.
    pub(super) joined: usize,
}
