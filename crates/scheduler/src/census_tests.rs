//! What is seen at a glance is what a whole look sees.

use base::Timestamp;

use crate::{Action, Event, Scheduler};

mod stream;

use stream::Stream;

impl Scheduler {
    /// A step in which every drive is looked at, whatever a glance would say. Whether it ordered something
    /// for a drive.
    fn step_in_full(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) -> bool {
        self.take_in(now, event, actions);
        self.seal(now, actions);
        let before = actions.len();
        self.drives.forget_census();
        self.order_drives(now, actions);
        let ordered = actions.len() > before;
        self.ask_for_tick(now, actions);
        ordered
    }
}

#[test]
fn a_glance_sees_what_a_whole_look_sees() {
    let (mut steps, mut settled, mut ordered, mut orders) = (0, 0, 0, [0; 7]);
    for seed in 0..60 {
        let mut stream = Stream::new(seed);
        let mut quick = Scheduler::new(stream.policy());
        let mut full = quick.clone();
        for _ in 0..3_000 {
            let (now, event) = stream.next();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            quick.step(now, event.clone(), &mut ours);
            let any = full.step_in_full(now, event.clone(), &mut theirs);
            assert_eq!(ours, theirs, "seed {seed}, at {now}, {event:?}");
            steps += 1;
            ordered += u32::from(any);
            let kept = quick.drives.census().cloned();
            settled += u32::from(quick.is_settled(now));
            quick.drives.forget_census();
            quick.take_census();
            assert_eq!(kept.as_ref(), quick.drives.census(), "seed {seed}: the count is stale at {now}");
            for action in &ours {
                orders[stream::kind(action)] += 1;
            }
            stream.took(&ours);
        }
        let (ours, theirs) = (format!("{:?}", quick.recall), format!("{:?}", full.recall));
        assert_eq!(ours, theirs, "seed {seed}: both end alike");
        quick.assert_consistent();
    }
    assert!(2 * settled > steps, "{settled} of {steps} steps needed a glance only");
    assert!(20 * ordered > steps, "{ordered} of {steps} steps ordered something");
    assert!(orders.iter().all(|times| *times > 100), "each kind of order comes: {orders:?}");
}
