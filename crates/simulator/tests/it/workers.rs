//! The list of the engine's threads, when a thread runs before its start has returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Clock, ManualClock};
use ground::{Duty, Ends, Worker, Workers};
use threads::mpsc::sync_channel;
use threads::simulated::run;

/// Orders in which the two threads run.
const SEEDS: u64 = 50;

/// Story: a thread ran before it stood in the list. Waking that fell between missed it, and so did joining.
#[test]
fn a_thread_that_runs_is_found_by_whoever_wakes_threads() {
    let mut ran_first = 0;
    for seed in 0..SEEDS {
        let outcome = run(seed, || {
            let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
            let workers = Arc::new(Workers::default());
            // How often it was woken, and whether it ran.
            let seen = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
            let duty = Duty::new("small-puts", &seen, |seen| {
                seen.0.fetch_add(1, Ordering::SeqCst);
            });
            let (others, own, (tell, told)) = (Arc::clone(&workers), Arc::clone(&seen), sync_channel(1));
            let body = move |_: &Arc<Worker>| {
                own.1.store(1, Ordering::SeqCst);
                others.wake(Ends::First);
                tell.send(()).expect("the test listens");
            };
            workers.start(&clock, duty, body).expect("a thread");
            let ran = seen.1.load(Ordering::SeqCst);
            // Joining takes it off the list.
            told.recv().expect("it has woken all");
            workers.join(Ends::First);
            assert_eq!(seen.0.load(Ordering::SeqCst), 1, "it is on the list");
            ran
        });
        ran_first += outcome.result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    assert!(ran_first > 0, "some thread ran before its start had returned");
}
