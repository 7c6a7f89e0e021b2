//! The controller against a modelled pool, in virtual time.

use proptest::prelude::*;

use super::*;

const MB: f64 = 1e6;

/// Disks that are shared by whoever asks, by how much he asks at once, and lose a part of their speed to the
/// random places of clients. What was decided shows a step later.
struct Model {
    capacity: f64,
    /// The part of the capacity that is lost if only clients work.
    loss: f64,
    /// What clients would move, and how many requests they have in hand for each one of a stream.
    clients: f64,
    weight: f64,
    rates: Vec<u64>,
    /// What a tape drive takes at most, as a multiple of its reserved rate.
    drive: f64,
    pacer: Pacer,
    before: Option<u64>,
}

/// What a step gave: the share of their rates that the streams got, and the clients' bytes a second.
struct Got {
    streams: Vec<f64>,
    clients: f64,
}

impl Model {
    fn new(capacity: f64, rates: &[f64]) -> Model {
        Model {
            capacity: capacity * MB,
            loss: 0.6,
            clients: 10_000.0 * MB,
            weight: 16.0,
            rates: rates.iter().map(|rate| (rate * MB) as u64).collect(),
            drive: 1.0,
            pacer: Pacer::default(),
            before: None,
        }
    }

    fn step(&mut self, noise: f64) -> Got {
        let count = self.rates.len().max(1) as f64;
        let demand: f64 = self.rates.iter().map(|rate| *rate as f64 * self.drive).sum();
        let allowed = self.before.map_or(self.clients, |budget| self.clients.min(budget as f64));
        // Twice, since the loss follows from the mix that it is part of.
        let (mut mix, mut clients) = (allowed / (allowed + demand).max(1.0), 0.0);
        for _ in 0..20 {
            let all = self.capacity * noise * (1.0 - self.loss * mix);
            let share = all * self.weight / (self.weight + count);
            let left = (all - demand).max(0.0);
            clients = allowed.min(share.max(left));
            mix = 0.5 * mix + 0.5 * clients / (clients + demand.min(all - clients)).max(1.0);
        }
        let left = (self.capacity * noise * (1.0 - self.loss * mix) - clients).max(0.0);
        let each = |rate: &u64| (*rate as f64 * self.drive).min(left * *rate as f64 * self.drive / demand);
        let seconds = PACE_STEP.as_secs_f64();
        let samples: Vec<StreamSample> = self
            .rates
            .iter()
            .map(|rate| {
                let got = each(rate);
                let idle = 1.0 - got / (*rate as f64 * self.drive);
                StreamSample {
                    rate: *rate,
                    moved: (got * seconds) as u64,
                    waited: Duration::from_secs_f64(seconds * idle.clamp(0.0, 1.0)),
                }
            })
            .collect();
        self.before = self.pacer.budget();
        let observation =
            Observation { span: PACE_STEP, streams: &samples, clients: (clients * seconds) as u64 };
        self.pacer.step(&observation);
        let streams = self.rates.iter().map(|rate| each(rate) / *rate as f64).collect();
        Got { streams, clients }
    }

    /// The mean of what streams (as shares) and clients (in MB/s) get, in so many steps after so many.
    fn run(&mut self, skip: usize, steps: usize, mut noise: impl FnMut() -> f64) -> (Vec<f64>, f64) {
        let mut streams = vec![0.0; self.rates.len()];
        let mut clients = 0.0;
        for step in 0..skip + steps {
            let got = self.step(noise());
            if step >= skip {
                streams.iter_mut().zip(&got.streams).for_each(|(sum, got)| *sum += got / steps as f64);
                clients += got.clients / MB / steps as f64;
            }
        }
        (streams, clients)
    }
}

/// A disk that is a little faster or slower each time, the same in each run.
fn noise(seed: u64, width: f64) -> impl FnMut() -> f64 {
    let mut state = seed | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + width * ((state >> 33) as f64 / f64::from(1u32 << 31) * 2.0 - 1.0)
    }
}

/// KIT's tape cache: clients who read at random left tape streams 2 GB/s of 12.
#[test]
fn streams_keep_their_rate_beside_clients_that_take_all_they_can() {
    let rates = vec![400.0; 4];
    let mut alone = Model::new(4_000.0, &rates);
    alone.pacer = Pacer::default();
    let without = alone.step(1.0).streams[0];
    assert!(without < 0.3, "without a reservation a stream gets {without:.2} of its rate");
    let (streams, clients) = Model::new(4_000.0, &rates).run(20, 3_000, || 1.0);
    for share in &streams {
        assert!(*share >= 0.95, "a stream gets {share:.3} of its rate");
    }
    assert!(clients > 500.0, "clients get {clients:.0} MB/s of what the streams leave");
}

#[test]
fn it_comes_to_rest_within_two_seconds_and_swings_within_bounds() {
    let mut model = Model::new(1_000.0, &[400.0]);
    let mut fed_after = None;
    for step in 0..200 {
        let got = model.step(1.0);
        if got.streams[0] >= 0.95 && fed_after.is_none() {
            fed_after = Some(step);
        }
    }
    assert!(fed_after.is_some_and(|step| step <= 20), "fed after {fed_after:?} steps");
    let (mut least, mut most, mut worst) = (f64::MAX, 0.0f64, 1.0f64);
    for _ in 0..2_000 {
        let got = model.step(1.0);
        (least, most) = (least.min(got.clients), most.max(got.clients));
        worst = worst.min(got.streams[0]);
    }
    assert!(least / most > 0.5, "clients swing between {:.0} and {:.0} MB/s", least / MB, most / MB);
    assert!(worst > 0.8, "in its worst step a stream gets {worst:.2}");
}

#[test]
fn a_drive_that_is_slow_by_itself_cuts_nobody() {
    let mut pacer = Pacer::default();
    let slow = StreamSample { rate: 400_000_000, moved: 5_000_000, waited: Duration::from_millis(1) };
    for _ in 0..100 {
        let seen = Observation { span: PACE_STEP, streams: &[slow], clients: 90_000_000 };
        assert_eq!(pacer.step(&seen), None);
    }
}

#[test]
fn clients_never_stop_and_are_free_at_once_when_the_streams_end() {
    let starved = StreamSample { rate: 400_000_000, moved: 0, waited: PACE_STEP };
    let mut pacer = Pacer::default();
    for clients in [20_000_000, 10_000_000, 1_000_000].into_iter().chain([0; 20]) {
        let budget = pacer.step(&Observation { span: PACE_STEP, streams: &[starved], clients });
        assert!(budget.is_some_and(|budget| budget >= CLIENT_FLOOR), "{budget:?}");
    }
    assert_eq!(pacer.budget().map(|budget| budget <= pacer.floor() * 11 / 10), Some(true));
    assert_eq!(pacer.step(&Observation { span: PACE_STEP, streams: &[], clients: 0 }), None);
}

/// A pool that cannot give the rate at all: cutting clients to their floor for good would help no stream.
#[test]
fn a_rate_that_the_pool_cannot_give_does_not_stop_clients_for_good() {
    let mut model = Model::new(300.0, &[400.0]);
    let (streams, clients) = model.run(200, 3_000, || 1.0);
    assert!(clients > 20.0, "clients get {clients:.0} MB/s");
    assert!(streams[0] > 0.45, "the stream gets {:.2} of its rate, at most 0.75 are possible", streams[0]);
}

#[test]
fn more_streams_than_the_pool_feeds_are_found_and_one_more_is_tried_later() {
    let mut model = Model::new(900.0, &[400.0; 4]);
    model.run(0, 150, || 1.0);
    assert_eq!(model.pacer.streams_max(), Some(4), "four get too little: no fifth begins");
    model.rates.truncate(2);
    model.run(0, 300, || 1.0);
    assert_eq!(model.pacer.streams_max(), Some(4), "two are fed, so there may be up to four again");
    let mut enough = Model::new(4_000.0, &[400.0; 4]);
    enough.run(0, 600, || 1.0);
    assert_eq!(enough.pacer.streams_max(), None);
}

/// Drives without a rate of their own, such as virtual ones, take whatever they get.
#[test]
fn a_drive_faster_than_its_reserved_rate_gets_the_rate_and_leaves_the_rest() {
    let mut model = Model::new(1_500.0, &[400.0]);
    model.drive = 5.0;
    let (streams, clients) = model.run(100, 2_000, || 1.0);
    assert!(streams[0] >= 0.95, "{:.2}", streams[0]);
    assert!(clients > 50.0, "{clients:.0} MB/s");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_the_disks_and_clients_streams_that_can_be_fed_are_fed(
        seed in any::<u64>(),
        streams in 1usize..9,
        rate in 40.0f64..1_000.0,
        spare in 1.3f64..6.0,
        loss in 0.0f64..0.8,
        weight in 1.0f64..64.0,
        clients in 10.0f64..20_000.0,
        width in 0.0f64..0.1,
    ) {
        let rates = vec![rate; streams];
        let mut model = Model::new(rate * streams as f64 * spare, &rates);
        (model.loss, model.weight, model.clients) = (loss, weight, clients * MB);
        let (got, _) = model.run(60, 1_000, noise(seed, width));
        for share in got {
            prop_assert!(share >= 0.9, "a stream gets {share:.3} of its rate");
        }
    }

    #[test]
    fn the_floor_holds_whatever_is_observed(
        steps in proptest::collection::vec(
            (proptest::collection::vec((1u64..2_000_000_000, 0u64..500_000_000, 0u64..400), 0..5),
                0u64..2_000_000_000, 1u64..5_000),
            1..200,
        ),
    ) {
        let mut pacer = Pacer::default();
        for (streams, clients, span) in steps {
            let streams: Vec<StreamSample> = streams
                .into_iter()
                .map(|(rate, moved, waited)| {
                    let waited = Duration::from_millis(waited);
                    StreamSample { rate, moved, waited }
                })
                .collect();
            let seen = Observation { span: Duration::from_millis(span), streams: &streams, clients };
            let budget = pacer.step(&seen);
            if let Some(budget) = budget {
                prop_assert!(budget >= CLIENT_FLOOR);
                prop_assert!(!streams.is_empty());
            }
            prop_assert_eq!(streams.is_empty(), budget.is_none() && streams.is_empty());
        }
    }
}
