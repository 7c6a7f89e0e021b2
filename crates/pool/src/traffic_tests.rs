use std::sync::atomic::AtomicI64;

use base::{Clock, Timestamp};

use super::*;
use crate::CLIENT_FLOOR;

/// Shows what it is set to.
#[derive(Default)]
struct Set(AtomicI64);

impl Set {
    fn advance(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

fn with_clock() -> (Arc<Set>, Watch, Traffic) {
    let clock = Arc::new(Set::default());
    clock.advance(Duration::from_secs(1));
    let watch = Watch::default();
    watch.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    (clock, watch, Traffic::default())
}

fn starve(traffic: &Traffic, clock: &Set, counters: &Counters, steps: usize) {
    for _ in 0..steps {
        lock(&counters.0).waited += PACE_STEP;
        clock.advance(PACE_STEP);
        traffic.look(clock.steady());
    }
}

#[test]
fn nobody_waits_while_no_stream_runs_or_without_a_clock() {
    let (_clock, watch, traffic) = with_clock();
    for _ in 0..1_000 {
        traffic.pass(&watch, 1 << 40);
    }
    let counters = Arc::<Counters>::default();
    traffic.begin(Arc::clone(&counters), 400_000_000, Duration::ZERO);
    let clockless = Watch::default();
    traffic.pass(&clockless, 1 << 40);
    assert!(traffic.try_pass(&clockless, 1 << 40));
    assert_eq!(traffic.end(&counters), Some(0));
    assert_eq!(traffic.end(&counters), None, "it ends once");
}

#[test]
fn a_starved_stream_holds_clients_back_to_their_budget_in_order_of_asking() {
    let (clock, watch, traffic) = with_clock();
    let counters = Arc::<Counters>::default();
    traffic.begin(Arc::clone(&counters), 400_000_000, clock.steady());
    traffic.pass(&watch, 50_000_000);
    starve(&traffic, &clock, &counters, 30);
    let budget = lock(&traffic.state).pacer.budget().expect("clients are held back");
    assert!(budget >= CLIENT_FLOOR);
    // What they may burst is used up, then each step has its bytes.
    while traffic.try_pass(&watch, 100_000) {}
    let mut passed = 0u64;
    for _ in 0..100 {
        clock.advance(Duration::from_millis(10));
        lock(&counters.0).waited += Duration::from_millis(10);
        while traffic.try_pass(&watch, 100_000) {
            passed += 100_000;
        }
    }
    assert!(passed >= CLIENT_FLOOR * 9 / 10, "{passed} B in a second");
    assert!(passed <= budget * 12 / 10 + 200_000, "{passed} B in a second of {budget}");
}

#[test]
fn who_waits_goes_on_when_the_stream_ends_or_the_clock_stands() {
    let (clock, watch, traffic) = with_clock();
    let counters = Arc::<Counters>::default();
    traffic.begin(Arc::clone(&counters), 400_000_000, clock.steady());
    starve(&traffic, &clock, &counters, 30);
    traffic.pass(&watch, 1 << 40);
    assert!(!traffic.try_pass(&watch, 1), "far in debt");
    threads::scope(|scope| {
        let waiting = scope.spawn(|| traffic.pass(&watch, 1));
        while lock(&traffic.state).waiting.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(traffic.end(&counters), Some(0));
        waiting.join().unwrap();
    });
    traffic.begin(Arc::clone(&counters), 400_000_000, clock.steady());
    let fresh = lock(&traffic.state).pacer.budget();
    assert_eq!(fresh, None, "the next stream begins with clients as they like");
    // A clock that nobody moves must not hold a client for ever.
    starve(&traffic, &clock, &counters, 30);
    lock(&traffic.state).tokens = -1e15;
    traffic.pass(&watch, 1);
}
