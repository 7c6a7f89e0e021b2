//! The tasks of a session: how many there may be, how far each is, and who waits for their end. No I/O here.

use std::collections::{BTreeMap, BTreeSet};

use crate::pdu::{Lun, Serial, Tag, TaskRequest, TaskResponse};

/// A task of this session, never the same again, as tags are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TaskId(u64);

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// Its data is on its way.
    Arriving,
    /// It waits for the unit.
    Queued,
    /// The unit carries it out.
    Running,
    /// Its answer is being sent.
    Answering,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Task {
    tag: Tag,
    lun: Lun,
    progress: Progress,
    is_aborted: bool,
}

/// A task management function that waits for tasks to end.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Waiting {
    done: FunctionDone,
    tasks: BTreeSet<TaskId>,
}

/// A task management function whose tasks have ended: what is to be reset, and then answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FunctionDone {
    pub(super) tag: Tag,
    pub(super) reset: Option<Scope>,
}

/// What a task management function is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// A unit.
    Unit(Lun),
    /// All units.
    Target,
}

/// What a task management function leads to at once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Aborted {
    /// Tasks whose data need not be kept any more.
    pub(super) arriving: Vec<TaskId>,
    /// Units that should give up what they carry out.
    pub(super) running: Vec<Lun>,
    /// The function, if nothing is to be waited for.
    pub(super) done: Option<FunctionDone>,
}

/// Whether a PDU that counts among commands is the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It is.
    Take,
    /// It is outside of the window, and left alone (RFC 7143, 4.2.2.1).
    Ignore,
    /// One before it is missing, which cannot be with one connection.
    Gap,
}

/// Why there is no place for a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoTask {
    /// A task of this tag is under way.
    SameTag,
    /// Too many immediate commands.
    TooMany,
}

/// Immediate commands that a session may have beside its window.
const IMMEDIATE_MAX: usize = 4;
/// Task management functions that may wait.
const FUNCTIONS_MAX: usize = 8;

/// The tasks of a session.
pub(super) struct Tasks {
    /// ExpCmdSN.
    expected: Serial,
    /// MaxCmdSN. It never goes back.
    last: Serial,
    window: u32,
    live: BTreeMap<TaskId, Task>,
    next: u64,
    waiting: Vec<Waiting>,
    /// Functions whose tasks have ended, and that are being carried out or answered.
    ending: usize,
    is_closed: bool,
}

impl Tasks {
    pub(super) fn new(first: Serial, window: u32) -> Tasks {
        assert!(window > 0, "a session takes commands");
        Tasks {
            expected: first,
            last: first.plus(window - 1),
            window,
            live: BTreeMap::new(),
            next: 0,
            waiting: Vec::new(),
            ending: 0,
            is_closed: false,
        }
    }

    /// ExpCmdSN and MaxCmdSN.
    pub(super) fn window(&mut self) -> (Serial, Serial) {
        // At most a window and a few.
        let free = self.window.saturating_sub(self.under_way() as u32);
        let last = self.expected.plus(free).plus(u32::MAX);
        if last.since(self.last) > 0 {
            self.last = last;
        }
        (self.expected, self.last)
    }

    /// Tasks but for those that are being answered, of which there is one a unit at most.
    fn under_way(&self) -> usize {
        self.live.values().filter(|task| task.progress != Progress::Answering).count()
    }

    /// Takes the number of a PDU that counts among commands, unless it is immediate.
    pub(super) fn admit(&mut self, immediate: bool, number: Serial) -> Admission {
        if immediate {
            return Admission::Take;
        }
        let (expected, last) = self.window();
        if number.since(expected) < 0 || last.since(number) < 0 {
            return Admission::Ignore;
        }
        if number != expected {
            return Admission::Gap;
        }
        self.expected = expected.plus(1);
        Admission::Take
    }

    /// A new task, whose data is on its way.
    pub(super) fn begin(&mut self, tag: Tag, lun: Lun) -> Result<TaskId, NoTask> {
        if self.live.values().any(|task| task.tag == tag) {
            return Err(NoTask::SameTag);
        }
        if self.under_way() >= self.window as usize + IMMEDIATE_MAX {
            return Err(NoTask::TooMany);
        }
        let id = TaskId(self.next);
        self.next += 1;
        let progress = Progress::Arriving;
        self.live.insert(id, Task { tag, lun, progress, is_aborted: self.is_closed });
        Ok(id)
    }

    /// Whether no task of a unit is under way but one that was just begun, and no function before it.
    pub(super) fn is_only(&self, lun: Lun) -> bool {
        let of_unit = self.live.values().filter(|task| task.lun == lun);
        self.ending == 0 && self.waiting.is_empty() && of_unit.count() == 1
    }

    /// All data is there.
    pub(super) fn queue(&mut self, id: TaskId) {
        self.advance(id, Progress::Arriving, Progress::Queued);
    }

    /// Whether the unit should carry it out: not if it was aborted meanwhile.
    pub(super) fn run(&mut self, id: TaskId) -> bool {
        self.advance(id, Progress::Queued, Progress::Running)
    }

    /// Whether it is to be answered: not if it was aborted meanwhile.
    pub(super) fn answer(&mut self, id: TaskId) -> bool {
        self.advance(id, Progress::Running, Progress::Answering)
    }

    fn advance(&mut self, id: TaskId, from: Progress, to: Progress) -> bool {
        let task = self.live.get_mut(&id).expect("a task stays until it is ended");
        assert_eq!(task.progress, from, "a task goes through its steps in order");
        // An aborted one waits where it is for its end; but only once it is queued is there somebody to end
        // it.
        if !task.is_aborted || to == Progress::Queued {
            task.progress = to;
        }
        !task.is_aborted
    }

    /// A task is over. Functions that waited for it last are to be answered.
    pub(super) fn end(&mut self, id: TaskId) -> Vec<FunctionDone> {
        self.live.remove(&id).expect("a task ends once");
        for waiting in &mut self.waiting {
            waiting.tasks.remove(&id);
        }
        let over = |waiting: &mut Waiting| waiting.tasks.is_empty();
        let over: Vec<FunctionDone> = self.waiting.extract_if(.., over).map(|waiting| waiting.done).collect();
        self.ending += over.len();
        over
    }

    /// So many functions that were given as ended are carried out and answered.
    pub(super) fn functions_over(&mut self, count: usize) {
        self.ending = self.ending.checked_sub(count).expect("a function is over once");
    }

    /// Begins a task management function. An error is the response that refuses it.
    pub(super) fn function(&mut self, request: &TaskRequest) -> Result<Aborted, u8> {
        let reset = match request.function {
            TaskRequest::LUN_RESET => Some(Scope::Unit(request.lun)),
            TaskRequest::TARGET_WARM_RESET => Some(Scope::Target),
            TaskRequest::ABORT_TASK | TaskRequest::ABORT_TASK_SET => None,
            TaskRequest::TASK_REASSIGN => return Err(TaskResponse::NO_REASSIGN),
            _ => return Err(TaskResponse::NOT_SUPPORTED),
        };
        if self.waiting.len() >= FUNCTIONS_MAX {
            return Err(TaskResponse::REJECTED);
        }
        let meant = |task: &Task| match request.function {
            TaskRequest::ABORT_TASK => task.tag == request.referenced && task.lun == request.lun,
            TaskRequest::TARGET_WARM_RESET => true,
            _ => task.lun == request.lun,
        };
        let mut aborted = self.abort(meant);
        let tasks: BTreeSet<TaskId> =
            self.live.iter().filter(|(_, task)| meant(task)).map(|(id, _)| *id).collect();
        if request.function == TaskRequest::ABORT_TASK && tasks.is_empty() && aborted.arriving.is_empty() {
            return Err(TaskResponse::NO_TASK);
        }
        let done = FunctionDone { tag: request.tag, reset };
        match tasks.is_empty() {
            true => {
                self.ending += 1;
                aborted.done = Some(done);
            }
            false => self.waiting.push(Waiting { done, tasks }),
        }
        Ok(aborted)
    }

    /// The session ends: no task begins any more. What units carry out may end and be answered if it is
    /// gently.
    pub(super) fn close(&mut self, gently: bool) -> Aborted {
        self.is_closed = true;
        self.waiting.clear();
        self.abort(|task| !gently || task.progress != Progress::Running)
    }

    /// Tasks that are arriving end here and now, others are marked.
    fn abort(&mut self, meant: impl Fn(&Task) -> bool) -> Aborted {
        let mut aborted = Aborted::default();
        for (id, task) in self.live.iter_mut().filter(|(_, task)| meant(task)) {
            match task.progress {
                Progress::Arriving => aborted.arriving.push(*id),
                Progress::Running if !task.is_aborted => aborted.running.push(task.lun),
                // What is being answered is over already, and is waited for.
                Progress::Queued | Progress::Running | Progress::Answering => {}
            }
            task.is_aborted |= task.progress != Progress::Answering;
        }
        for id in &aborted.arriving {
            self.live.remove(id);
        }
        aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(function: u8, lun: Lun, referenced: Tag) -> TaskRequest {
        TaskRequest {
            immediate: true,
            function,
            lun,
            tag: Tag(1000),
            referenced,
            numbers: Default::default(),
            referenced_command: Serial(0),
            expected_data: Serial(0),
        }
    }

    fn lun(number: u16) -> Lun {
        Lun::of(number).unwrap()
    }

    #[test]
    fn the_window_closes_and_opens_and_its_end_never_goes_back() {
        let mut tasks = Tasks::new(Serial(u32::MAX), 2);
        assert_eq!(tasks.window(), (Serial(u32::MAX), Serial(0)));
        let mut begun = Vec::new();
        for number in [u32::MAX, 0] {
            assert_eq!(tasks.admit(false, Serial(number)), Admission::Take);
            begun.push(tasks.begin(Tag(number), lun(0)).unwrap());
        }
        assert_eq!(tasks.window(), (Serial(1), Serial(0)), "closed");
        for number in [1, 0, u32::MAX, 7] {
            assert_eq!(tasks.admit(false, Serial(number)), Admission::Ignore, "{number}");
        }
        assert_eq!(tasks.admit(true, Serial(7)), Admission::Take, "immediate");
        tasks.queue(begun[0]);
        assert!(tasks.run(begun[0]) && tasks.answer(begun[0]));
        assert_eq!(tasks.window(), (Serial(1), Serial(1)), "open while it is answered");
        tasks.end(begun[0]);
        assert_eq!(tasks.window(), (Serial(1), Serial(1)));
        let mut wide = Tasks::new(Serial(5), 4);
        assert_eq!(wide.admit(false, Serial(6)), Admission::Gap);
    }

    #[test]
    fn a_task_is_the_only_one_of_its_unit_until_another_is_begun_and_again_when_that_has_ended() {
        let mut tasks = Tasks::new(Serial(0), 8);
        let first = tasks.begin(Tag(1), lun(0)).unwrap();
        tasks.begin(Tag(2), lun(1)).unwrap();
        assert!(tasks.is_only(lun(0)) && tasks.is_only(lun(1)) && !tasks.is_only(lun(2)));
        tasks.begin(Tag(3), lun(0)).unwrap();
        assert!(!tasks.is_only(lun(0)), "however far they are");
        tasks.queue(first);
        assert!(tasks.run(first) && tasks.answer(first));
        assert!(!tasks.is_only(lun(0)), "the first is not over yet");
        tasks.end(first);
        assert!(tasks.is_only(lun(0)));
        // A reset that was not carried out yet comes before it.
        let reset = request(TaskRequest::LUN_RESET, lun(2), Tag::NONE);
        assert!(tasks.function(&reset).unwrap().done.is_some() && !tasks.is_only(lun(0)));
        tasks.functions_over(1);
        assert!(tasks.is_only(lun(0)));
    }

    #[test]
    fn places_for_tasks_have_an_end() {
        let mut tasks = Tasks::new(Serial(0), 2);
        for tag in 0..2 + IMMEDIATE_MAX as u32 {
            assert!(tasks.begin(Tag(tag), lun(0)).is_ok());
        }
        assert_eq!(tasks.begin(Tag(3), lun(0)), Err(NoTask::SameTag));
        assert_eq!(tasks.begin(Tag(99), lun(0)), Err(NoTask::TooMany));
    }

    #[test]
    fn an_abort_is_over_when_its_task_is() {
        let mut tasks = Tasks::new(Serial(0), 8);
        let arriving = tasks.begin(Tag(1), lun(0)).unwrap();
        let queued = tasks.begin(Tag(2), lun(0)).unwrap();
        let running = tasks.begin(Tag(3), lun(0)).unwrap();
        let other = tasks.begin(Tag(4), lun(1)).unwrap();
        tasks.queue(queued);
        tasks.queue(running);
        tasks.queue(other);
        assert!(tasks.run(running) && tasks.run(other));

        let abort = |tag| request(TaskRequest::ABORT_TASK, lun(0), Tag(tag));
        assert_eq!(tasks.function(&abort(9)), Err(TaskResponse::NO_TASK));
        assert_eq!(tasks.function(&abort(4)), Err(TaskResponse::NO_TASK), "of another unit");
        let aborted = tasks.function(&abort(1)).unwrap();
        assert_eq!((aborted.arriving, aborted.done.is_some()), (vec![arriving], true));
        let aborted = tasks.function(&abort(2)).unwrap();
        assert_eq!((aborted.running, aborted.done), (vec![], None));
        let aborted = tasks.function(&abort(3)).unwrap();
        assert_eq!((aborted.running, aborted.done), (vec![lun(0)], None));

        assert!(!tasks.run(queued), "aborted before it ran");
        let done = FunctionDone { tag: Tag(1000), reset: None };
        assert_eq!(tasks.end(queued), std::slice::from_ref(&done));
        assert!(!tasks.answer(running), "aborted while it ran");
        assert_eq!(tasks.end(running), [done]);
        assert!(tasks.answer(other));
        assert_eq!(tasks.end(other), []);
    }

    #[test]
    fn a_reset_waits_for_all_tasks_of_the_unit_and_functions_have_an_end() {
        let mut tasks = Tasks::new(Serial(0), 8);
        let first = tasks.begin(Tag(1), lun(0)).unwrap();
        let second = tasks.begin(Tag(2), lun(0)).unwrap();
        for id in [first, second] {
            tasks.queue(id);
        }
        assert!(tasks.run(first));
        let reset = request(TaskRequest::LUN_RESET, lun(0), Tag::NONE);
        assert_eq!(tasks.function(&reset).unwrap().done, None);
        for _ in 1..FUNCTIONS_MAX {
            assert!(tasks.function(&reset).is_ok());
        }
        assert_eq!(tasks.function(&reset), Err(TaskResponse::REJECTED));
        assert_eq!(tasks.end(first), []);
        let over = tasks.end(second);
        assert_eq!(over.len(), FUNCTIONS_MAX);
        assert_eq!(over[0].reset, Some(Scope::Unit(lun(0))));
        assert_eq!(tasks.function(&request(7, lun(0), Tag::NONE)), Err(TaskResponse::NOT_SUPPORTED));
    }

    #[test]
    fn a_gentle_end_leaves_what_runs() {
        for gently in [false, true] {
            let mut tasks = Tasks::new(Serial(0), 8);
            let running = tasks.begin(Tag(1), lun(0)).unwrap();
            let queued = tasks.begin(Tag(2), lun(0)).unwrap();
            tasks.queue(running);
            tasks.queue(queued);
            assert!(tasks.run(running));
            assert_eq!(tasks.close(gently).running.is_empty(), gently);
            assert!(!tasks.run(queued));
            assert_eq!(tasks.answer(running), gently);
            let late = tasks.begin(Tag(3), lun(0)).unwrap();
            tasks.queue(late);
            assert!(!tasks.run(late));
        }
    }
}
