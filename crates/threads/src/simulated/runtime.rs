//! Who goes on next, and what time it is.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use corosensei::stack::DefaultStack;

use super::panics;
use super::random::Random;
use super::task::{Killed, Routine, Switch, Task, TaskId, Wait, Wake};

/// Stack of a task; touched pages alone cost memory.
const STACK_BYTES: usize = 1 << 20;
/// Stacks kept for tasks to come.
const STACKS_KEPT_MAX: usize = 256;
/// Switches at one moment of virtual time after which the run is taken for one that goes round in circles.
const SWITCHES_AT_ONCE_MAX: u64 = 20_000_000;
/// Waits in vain of one dying process, after which its destructors are taken for endless.
const DEAD_WAITS_MAX: u64 = 100_000;
/// The process of the world itself, which cannot be killed.
pub(super) const WORLD: usize = 0;

thread_local! {
    static RUNTIME: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
}

pub(super) fn runtime() -> Option<Rc<Runtime>> {
    RUNTIME.with(|runtime| runtime.borrow().clone())
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong, with the place in the source.
    pub message: String,
    /// The task that found it.
    pub task: String,
    /// Virtual time.
    pub at: Duration,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [task {}, after {:.3?}]", self.message, self.task, self.at)
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// What the first task returned, or the first panic of any task, or a deadlock.
    pub result: Result<T, Failure>,
    /// The seed, which gives the same run again.
    pub seed: u64,
    /// How often a task was put on.
    pub switches: u64,
    /// How long it took in virtual time.
    pub elapsed: Duration,
}

pub(super) struct Runtime {
    random: RefCell<Random>,
    /// Of 256 locks, how many let another task go first.
    restless: u8,
    now: Cell<u64>,
    switches: Cell<u64>,
    at_once: Cell<u64>,
    next_task: Cell<TaskId>,
    next_ticket: Cell<u64>,
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    ready: RefCell<Vec<TaskId>>,
    sleeping: RefCell<BTreeMap<(u64, u64), TaskId>>,
    waiting: RefCell<HashMap<usize, Vec<TaskId>>>,
    current: Cell<TaskId>,
    process: Cell<usize>,
    dead: RefCell<Vec<bool>>,
    dead_waits: Cell<u64>,
    failure: RefCell<Option<Failure>>,
    stacks: RefCell<Vec<DefaultStack>>,
}

impl Runtime {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Runs differ in how often tasks get in each other's way, since some bugs want calm and some do not.
        let restless = [0, 8, 32, 128][random.below(4)];
        Runtime {
            random: RefCell::new(random),
            restless,
            now: Cell::new(0),
            switches: Cell::new(0),
            at_once: Cell::new(0),
            next_task: Cell::new(0),
            next_ticket: Cell::new(0),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            sleeping: RefCell::default(),
            waiting: RefCell::default(),
            current: Cell::new(0),
            process: Cell::new(WORLD),
            dead: RefCell::new(vec![false]),
            dead_waits: Cell::new(0),
            failure: RefCell::default(),
            stacks: RefCell::default(),
        }
    }

    /// Whether the running task is to end and nothing may wait.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.borrow()[self.process.get()] || self.failure.borrow().is_some()
    }

    pub(super) fn is_process_dead(&self, process: usize) -> bool {
        self.dead.borrow()[process]
    }

    pub(super) fn current_process(&self) -> usize {
        self.process.get()
    }

    /// Does something as if in another process.
    pub(super) fn within<T>(&self, process: usize, f: impl FnOnce() -> T) -> T {
        let before = self.process.replace(process);
        let result = catch_unwind(AssertUnwindSafe(f));
        self.process.set(before);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(super) fn random(&self) -> u64 {
        self.random.borrow_mut().next()
    }

    pub(super) fn new_process(&self) -> usize {
        let mut dead = self.dead.borrow_mut();
        dead.push(false);
        dead.len() - 1
    }

    /// Keeps the first failure. From now on every process is dead.
    pub(super) fn fail(&self, message: String) {
        let name = |tasks: &BTreeMap<TaskId, Task>| Some(tasks.get(&self.current.get())?.name.clone());
        let task = self.tasks.try_borrow().ok().and_then(|tasks| name(&tasks));
        let at = Duration::from_nanos(self.now.get());
        let failure = Failure { message, task: task.unwrap_or_default(), at };
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// Adds a task; `None` if its process is dead. `joined` is what those wait for who join it.
    ///
    /// # Safety
    /// What `body` borrows must live until the task has ended.
    pub(super) unsafe fn add<'a>(
        self: &Rc<Self>,
        name: String,
        process: usize,
        joined: usize,
        body: Box<dyn FnOnce() + 'a>,
    ) -> Option<TaskId> {
        if self.is_dead() || self.is_process_dead(process) {
            return None;
        }
        let id = self.next_task.get();
        self.next_task.set(id + 1);
        let kept = self.stacks.borrow_mut().pop();
        let stack = kept.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a stack"));
        // The runtime owns the coroutine, so that it must not own the runtime.
        let runtime: *const Runtime = Rc::as_ptr(self);
        let main = move |switch: &Switch, wake: Wake| {
            // SAFETY: the runtime ends all tasks before it goes.
            let runtime = unsafe { &*runtime };
            if let Some(task) = runtime.tasks.borrow_mut().get_mut(&id) {
                task.switch = switch;
            }
            let begin = || if wake == Wake::Run { body() } else { drop(body) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(begin))
                && !panic.is::<Killed>()
            {
                runtime.fail("a panic without words".to_owned());
            }
        };
        // SAFETY: the caller promises that what is borrowed lives until the task has ended; it is never
        // forgotten but resumed until it has ended.
        let routine = unsafe { Routine::with_stack_unchecked(stack, main) };
        let task = Task {
            name,
            process,
            routine: Some(routine),
            switch: std::ptr::null(),
            wait: None,
            timed_out: false,
            joined,
        };
        self.tasks.borrow_mut().insert(id, task);
        self.ready.borrow_mut().push(id);
        Some(id)
    }

    pub(super) fn is_alive(&self, task: TaskId) -> bool {
        self.tasks.borrow().contains_key(&task)
    }

    /// What those wait for who join a living task.
    pub(super) fn join_key(&self, task: TaskId) -> usize {
        self.tasks.borrow().get(&task).map_or(0, |task| task.joined)
    }

    /// Ends a task that borrows from frames which are about to go: its owner was killed, or has panicked.
    pub(super) fn end_borrower(&self, id: TaskId) {
        if self.is_alive(id) {
            assert!(self.is_dead(), "a scope is left early by the dead only");
            self.end_task(id);
        }
    }

    /// Puts a task on, from whatever stack this is called on.
    fn resume(&self, id: TaskId, wake: Wake) {
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            tasks.get_mut(&id).and_then(|task| Some((task.routine.take()?, task.process)))
        };
        let Some((mut routine, process)) = taken else { return };
        let before = (self.current.replace(id), self.process.replace(process));
        let result = routine.resume(wake);
        self.current.set(before.0);
        self.process.set(before.1);
        if result.as_return().is_some() {
            let mut stacks = self.stacks.borrow_mut();
            if stacks.len() < STACKS_KEPT_MAX {
                stacks.push(routine.into_stack());
            }
            drop(stacks);
            let task = self.tasks.borrow_mut().remove(&id);
            if let Some(task) = task {
                self.wake_all(task.joined);
            }
        } else if let Some(task) = self.tasks.borrow_mut().get_mut(&id) {
            task.routine = Some(routine);
        }
    }

    /// Gives the turn to others.
    fn switch(&self) {
        let switch = self.tasks.borrow()[&self.current.get()].switch;
        // SAFETY: the pointer was given to the task that runs now, and lives on its stack until it ends.
        let wake = unsafe { (*switch).suspend(()) };
        if wake == Wake::Kill {
            resume_unwind(Box::new(Killed));
        }
    }

    /// Waits until somebody wakes this key, or until the deadline; whether it was the deadline.
    pub(super) fn block(
        &self,
        key: Option<usize>,
        deadline: Option<u64>,
        what: &'static str,
        at: &'static Location<'static>,
    ) -> bool {
        if self.is_dead() {
            self.waits_in_vain(what, at);
            return true;
        }
        let id = self.current.get();
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        if let Some(key) = key {
            self.waiting.borrow_mut().entry(key).or_default().push(id);
        }
        if let Some(deadline) = deadline {
            self.sleeping.borrow_mut().insert((deadline, ticket), id);
        }
        {
            let mut tasks = self.tasks.borrow_mut();
            let task = tasks.get_mut(&id).expect("the running task is known");
            task.wait = Some(Wait { key, deadline, ticket, what, at });
            task.timed_out = false;
        }
        self.switch();
        self.tasks.borrow()[&id].timed_out
    }

    fn waits_in_vain(&self, what: &'static str, at: &'static Location<'static>) {
        // A destructor must not panic while its stack is unwound; anything else ends here.
        if !std::thread::panicking() {
            resume_unwind(Box::new(Killed));
        }
        // What it waits for may come when others of its process have ended as well.
        let process = self.process.get();
        if self.end_youngest(|task| task.process == process) {
            return;
        }
        self.dead_waits.set(self.dead_waits.get() + 1);
        if self.dead_waits.get() > DEAD_WAITS_MAX {
            eprintln!("a destructor of a dead process waits for ever: {what} at {at}");
            std::process::abort();
        }
    }

    /// Takes a task out of everything it waits in.
    fn unblock(&self, id: TaskId, timed_out: bool) {
        let wait = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(&id) else { return };
            task.timed_out = timed_out;
            task.wait.take()
        };
        let Some(wait) = wait else { return };
        if let Some(key) = wait.key {
            let mut waiting = self.waiting.borrow_mut();
            if let Some(tasks) = waiting.get_mut(&key) {
                tasks.retain(|task| *task != id);
                if tasks.is_empty() {
                    waiting.remove(&key);
                }
            }
        }
        if let Some(deadline) = wait.deadline {
            self.sleeping.borrow_mut().remove(&(deadline, wait.ticket));
        }
        self.ready.borrow_mut().push(id);
    }

    pub(super) fn wake_all(&self, key: usize) {
        let woken = self.waiting.borrow().get(&key).cloned().unwrap_or_default();
        woken.into_iter().for_each(|task| self.unblock(task, false));
    }

    pub(super) fn wake_one(&self, key: usize) {
        let woken = {
            let waiting = self.waiting.borrow();
            let tasks = waiting.get(&key).map_or(&[][..], Vec::as_slice);
            (!tasks.is_empty()).then(|| tasks[self.random.borrow_mut().below(tasks.len())])
        };
        if let Some(task) = woken {
            self.unblock(task, false);
        }
    }

    /// Lets another task go first.
    pub(super) fn give_way(&self) {
        if self.is_dead() {
            return;
        }
        self.ready.borrow_mut().push(self.current.get());
        self.switch();
    }

    /// Now and then lets another task go first.
    pub(super) fn maybe_give_way(&self) {
        if self.restless == 0 || self.ready.borrow().is_empty() || self.is_dead() {
            return;
        }
        if (self.random() & 0xFF) < u64::from(self.restless) {
            self.give_way();
        }
    }

    pub(super) fn deadline(&self, patience: Duration) -> u64 {
        self.now.get().saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Ends all tasks of a process where they stand, the youngest first.
    pub(super) fn kill(&self, process: usize) {
        assert!(process != WORLD, "the world itself cannot be killed");
        self.dead.borrow_mut()[process] = true;
        self.dead_waits.set(0);
        self.end_tasks(|task| task.process == process);
        if self.process.get() == process {
            resume_unwind(Box::new(Killed));
        }
    }

    fn end_tasks(&self, which: impl Fn(&Task) -> bool) {
        while self.end_youngest(&which) {}
    }

    /// Ends the youngest task of these that is not running; whether there was one.
    fn end_youngest(&self, which: impl Fn(&Task) -> bool) -> bool {
        let youngest = {
            let tasks = self.tasks.borrow();
            let mut rest = tasks.iter().rev();
            rest.find(|(_, task)| task.routine.is_some() && which(task)).map(|(id, _)| *id)
        };
        if let Some(id) = youngest {
            self.end_task(id);
        }
        youngest.is_some()
    }

    /// Unwinds one task whose process is dead.
    pub(super) fn end_task(&self, id: TaskId) {
        self.unblock(id, false);
        self.ready.borrow_mut().retain(|ready| *ready != id);
        self.resume(id, Wake::Kill);
        let is_suspended = self.tasks.borrow().get(&id).is_some_and(|task| task.routine.is_some());
        assert!(!is_suspended, "a killed task ends");
    }

    /// Chooses who goes on; `None` if nobody ever can.
    fn choose(&self) -> Option<TaskId> {
        if self.ready.borrow().is_empty() {
            self.at_once.set(0);
            let (deadline, _) = *self.sleeping.borrow().first_key_value()?.0;
            self.now.set(self.now.get().max(deadline));
            loop {
                let due = self.sleeping.borrow().first_key_value().map(|(key, task)| (key.0, *task));
                match due {
                    Some((at, task)) if at <= deadline => self.unblock(task, true),
                    _ => break,
                }
            }
        }
        let mut ready = self.ready.borrow_mut();
        let count = ready.len();
        let chosen = if count == 1 { 0 } else { self.random.borrow_mut().below(count) };
        Some(ready.swap_remove(chosen))
    }

    fn turn(&self, main: TaskId) {
        while self.is_alive(main) && self.failure.borrow().is_none() {
            let Some(next) = self.choose() else {
                return self.fail(format!("deadlock: nobody can go on\n{}", self.report()));
            };
            self.switches.set(self.switches.get() + 1);
            self.at_once.set(self.at_once.get() + 1);
            if self.at_once.get() > SWITCHES_AT_ONCE_MAX {
                return self.fail(format!("time stands still\n{}", self.report()));
            }
            self.resume(next, Wake::Run);
        }
    }

    pub(super) fn report(&self) -> String {
        let mut text = String::new();
        for (id, task) in self.tasks.borrow().iter() {
            let _ = write!(text, "  task {id} {} (process {}): ", task.name, task.process);
            let _ = match &task.wait {
                Some(wait) => writeln!(text, "{} at {}", wait.what, wait.at),
                None => writeln!(text, "can go on"),
            };
        }
        text
    }
}

/// Runs `main` as the first task of a new world and ends when it returns; what still runs then is killed. The
/// same seed gives the same run.
///
/// # Panics
/// If called within a simulation.
pub fn run<T>(seed: u64, main: impl FnOnce() -> T) -> Outcome<T> {
    assert!(!is_running(), "a simulation does not run within another");
    panics::install();
    let runtime = Rc::new(Runtime::new(seed));
    RUNTIME.with(|slot| *slot.borrow_mut() = Some(Rc::clone(&runtime)));
    let result = Rc::new(RefCell::new(None));
    let body = {
        let result = Rc::clone(&result);
        Box::new(move || *result.borrow_mut() = Some(main()))
    };
    // SAFETY: all tasks end before this function returns.
    let id = unsafe { runtime.add("main".to_owned(), WORLD, 0, body) }.expect("the world is alive");
    runtime.turn(id);
    runtime.dead.borrow_mut().fill(true);
    runtime.end_tasks(|_| true);
    let failure = runtime.failure.borrow_mut().take();
    let value = result.borrow_mut().take();
    let outcome = Outcome {
        result: match (failure, value) {
            (Some(failure), _) => Err(failure),
            (None, Some(value)) => Ok(value),
            (None, None) => unreachable!("the first task returned or failed"),
        },
        seed,
        switches: runtime.switches.get(),
        elapsed: Duration::from_nanos(runtime.now.get()),
    };
    RUNTIME.with(|slot| *slot.borrow_mut() = None);
    outcome
}

fn here() -> Rc<Runtime> {
    runtime().expect("only within a simulation")
}

/// Whether the caller is within a simulation.
#[must_use]
pub fn is_running() -> bool {
    RUNTIME.with(|runtime| runtime.borrow().is_some())
}

/// Whether the caller belongs to a killed process and is only being unwound: simulated machines take nothing
/// from it any more. `false` outside of a simulation.
#[must_use]
pub fn is_dead() -> bool {
    RUNTIME.with(|runtime| runtime.borrow().as_ref().is_some_and(|runtime| runtime.is_dead()))
}

/// Virtual time since the start of the run, in nanoseconds.
///
/// # Panics
/// Outside of a simulation, like all that follow.
#[must_use]
pub fn now() -> u64 {
    here().now.get()
}

/// Waits in virtual time. At once over in a dead process.
#[track_caller]
pub fn pause(duration: Duration) {
    let runtime = here();
    if runtime.is_dead() {
        return;
    }
    runtime.block(None, Some(runtime.deadline(duration)), "pause", Location::caller());
}

/// Lets others go first.
pub fn yield_now() {
    here().give_way();
}

/// The next random number of the run.
#[must_use]
pub fn random() -> u64 {
    here().random()
}

/// Whether something of this probability, in millionths, happens.
#[must_use]
pub fn chance(millionths: u64) -> bool {
    random() % 1_000_000 < millionths
}

/// All tasks with what they wait for, one a line.
#[must_use]
pub fn report() -> String {
    here().report()
}
