use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::mpsc::sync_channel;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Three tasks that talk over a channel and a lock; what they did, in order.
fn chatter(seed: u64) -> (Vec<u64>, u64) {
    let outcome = run(seed, || {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = sync_channel(2);
        scope(|scope| {
            for task in 0..3u64 {
                let (log, sender) = (Arc::clone(&log), sender.clone());
                scope.spawn(move || {
                    for step in 0..20 {
                        log.lock().unwrap().push(task * 100 + step);
                        pause(MS * u32::try_from(random() % 3).unwrap());
                        sender.send(1u64).unwrap();
                    }
                });
            }
            drop(sender);
            assert_eq!(receiver.iter().sum::<u64>(), 60);
        });
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    });
    (outcome.result.unwrap(), outcome.switches)
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..20 {
        assert_eq!(chatter(seed), chatter(seed));
    }
    assert_ne!(chatter(1).0, chatter(2).0);
}

#[test]
fn waiting_costs_virtual_time_only() {
    let outcome = run(1, || {
        let slept = spawn(|| pause(Duration::from_secs(86_400)));
        let lock = Mutex::new(());
        let changed = Condvar::new();
        let (_guard, end) = changed.wait_timeout(lock.lock().unwrap(), Duration::from_secs(60)).unwrap();
        assert!(end.timed_out());
        assert_eq!(now(), 60_000_000_000);
        slept.join().unwrap();
    });
    outcome.result.unwrap();
    assert_eq!(outcome.elapsed, Duration::from_secs(86_400));
}

#[test]
fn a_deadlock_is_reported_with_who_waits_for_what() {
    let outcome = run(3, || {
        let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let task = Builder::new().name("other way round".to_owned()).spawn({
            let (one, other) = (Arc::clone(&one), Arc::clone(&other));
            move || {
                let _other = other.lock();
                pause(MS);
                let _one = one.lock();
            }
        });
        let _one = one.lock();
        pause(MS);
        let _other = other.lock();
        task.unwrap().join().unwrap();
    });
    let message = outcome.result.unwrap_err().message;
    assert!(message.contains("deadlock") && message.contains("other way round"), "{message}");
    assert!(message.contains("a lock at"), "{message}");
}

#[test]
fn a_panic_of_any_task_is_the_failure_of_the_run() {
    let outcome = run(4, || {
        let table = [1, 2, 3];
        scope(|scope| {
            scope.spawn(|| table.iter().for_each(|_| pause(MS * 100)));
            scope.spawn(|| {
                pause(MS);
                assert_eq!(table[0], 2, "planted");
            });
        });
    });
    let failure = outcome.result.unwrap_err();
    assert!(failure.message.contains("planted"), "{failure}");
    assert_eq!(failure.at, MS);
}

/// Counts what lives.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_killed_process_stops_where_it_stands_and_leaves_nothing() {
    let alive = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&alive);
    let outcome = run(5, move || {
        for round in 0..200u64 {
            let process = Process::new();
            let lock = Arc::new(Mutex::new(0u64));
            let beyond = Arc::new(AtomicU64::new(0));
            for task in 0..4 {
                let (lock, beyond, counted) = (Arc::clone(&lock), Arc::clone(&beyond), Arc::clone(&counted));
                process.spawn(&format!("task {task}"), move || {
                    let _life = Counted::new(&counted);
                    let (sender, receiver) = sync_channel(1);
                    scope(|scope| {
                        scope.spawn(|| {
                            let _life = Counted::new(&counted);
                            for _ in 0..1000 {
                                let mut held = lock.lock().unwrap();
                                pause(MS);
                                *held += 1;
                                sender.send(*held).unwrap();
                            }
                        });
                        for value in receiver {
                            pause(MS * 2);
                            beyond.store(value, Ordering::Relaxed);
                        }
                    });
                });
            }
            pause(MS * u32::try_from(random() % 50).unwrap());
            process.kill();
            assert_eq!(counted.load(Ordering::Relaxed), 0, "round {round}");
            let seen = beyond.load(Ordering::Relaxed);
            pause(MS * 100);
            assert_eq!(beyond.load(Ordering::Relaxed), seen, "nothing runs after a kill");
            assert!(process.spawn("late", || ()).join().is_err());
        }
    });
    outcome.result.unwrap();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a_process_can_kill_itself_and_its_joiners_learn_of_it() {
    let outcome = run(6, || {
        let process = Process::new();
        let sleeper = process.spawn("sleeper", || pause(Duration::from_secs(1_000_000)));
        let killer = process.spawn("killer", move || {
            pause(MS);
            process.kill();
        });
        assert!(killer.join().is_err() && sleeper.join().is_err());
        now()
    });
    assert_eq!(outcome.result.unwrap(), 1_000_000);
}

/// Joins its thread when dropped, as the engine's parts do.
struct Joins(Option<JoinHandle<()>>, Option<mpsc::SyncSender<()>>);

impl Drop for Joins {
    fn drop(&mut self) {
        self.1 = None;
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn destructors_of_the_dead_wait_for_nobody() {
    let outcome = run(7, || {
        for _ in 0..50 {
            let process = Process::new();
            let kept = process.spawn("main", || {
                let (sender, receiver) = sync_channel::<()>(4);
                let thread = spawn(move || receiver.iter().for_each(|()| pause(MS)));
                Joins(Some(thread), Some(sender))
            });
            let kept = kept.join().unwrap();
            process.spawn("holder", || {
                let (sender, receiver) = sync_channel::<()>(4);
                let thread = spawn(move || receiver.iter().for_each(|()| pause(MS)));
                let _joins = Joins(Some(thread), Some(sender));
                pause(MS * 1000);
            });
            pause(MS);
            process.kill();
            process.bury(kept);
        }
        now()
    });
    assert_eq!(outcome.result.unwrap(), 50_000_000);
}

#[test]
fn a_run_may_borrow_and_ends_with_its_first_task() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let outcome = run(8, || {
        spawn(|| {
            loop {
                pause(MS);
            }
        });
        pause(MS * 5);
        log.borrow_mut().push(now());
    });
    outcome.result.unwrap();
    assert_eq!(*log.borrow(), [5_000_000]);
}

#[test]
fn outside_of_a_simulation_it_is_std() {
    let (sender, receiver) = mpsc::sync_channel(1);
    let sum = Mutex::new(0u64);
    let changed = Condvar::new();
    scope(|scope| {
        let sums = scope.spawn(|| {
            receiver.iter().for_each(|value: u64| {
                *sum.lock().unwrap() += value;
                changed.notify_all();
            });
        });
        (1..=100).for_each(|value| sender.send(value).unwrap());
        drop(sender);
        let waited = changed.wait_while(sum.lock().unwrap(), |sum| *sum < 5050).unwrap();
        assert_eq!(*waited, 5050);
        drop(waited);
        sums.join().unwrap();
    });
    assert!(spawn(|| panic!("planted")).join().is_err());
    assert!(!is_running() && !is_dead());
}
