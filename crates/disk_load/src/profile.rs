//! What a burn-in measured of a disk, place by place, and what follows from it. Pure.
//!
//! A disk that is slow in places slows every stripe that has a shard there. Such places are told from those
//! around them and from the curve that a disk has, never from what other disks do: a small SSD and an old HDD
//! both pass. Each number below is explained in docs/reference/disks.md.

use std::fmt;
use std::time::Duration;

use base::ByteCount;

use crate::measured::Faults;

/// Zones below which nothing is said of places: there is no curve, and neighbours are too few.
pub const ZONES_LEAST: usize = 8;
/// Zones on either side with which the latency of one is compared.
pub const NEIGHBOURS: usize = 4;
/// A zone is slow whose median latency is so many times that of its neighbours. From the outer to the inner
/// edge of an HDD the seeks within a zone grow by less.
pub const MEDIAN_FACTOR: u32 = 2;
/// The same for the latency that 99 of 100 reads keep: beyond it the pool hedges reads, too.
pub const P99_FACTOR: u32 = 3;
/// No median below this is slow: on an SSD less is the work of the kernel, not of the disk.
pub const MEDIAN_LEAST: Duration = Duration::from_micros(500);
/// No 99 of 100 below this are slow: a busy machine lets a thread wait as long.
pub const P99_LEAST: Duration = Duration::from_millis(10);
/// A zone is slow that is read at less than this share of the rate that the curve has there. The steps
/// between the recording zones of an HDD, and its worse heads, are well within.
pub const RATE_SHARE: f64 = 0.75;
/// And whatever the curve says, one that is read at less than this share of the fastest ones: a 3.5 inch disk
/// records between about 46 and 21 mm, so that its inner edge has about 0.46 of the outer one's rate.
pub const RATE_SHARE_LEAST: f64 = 0.35;
/// A block needs retries that takes so many times as long as the usual one of its zone, alone as well.
pub const SPOT_FACTOR: u32 = 10;
/// No block that takes less needs retries: they cost a turn of the disk each, 8.3 ms at 7,200 a minute, and
/// firmware makes several.
pub const SPOT_LEAST: Duration = Duration::from_millis(50);

/// One of the equal parts of a disk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zone {
    /// Where it begins.
    pub begin: ByteCount,
    /// Bytes.
    pub length: ByteCount,
    /// Bytes a second, written in order.
    pub write_rate: f64,
    /// Bytes a second, read in order.
    pub read_rate: f64,
    /// Half of the small reads at random took not longer.
    pub median: Duration,
    /// 99 of 100 took not longer.
    pub p99: Duration,
}

impl Zone {
    /// With what a further look at it gave. Noise makes a disk slower and never faster: the better holds.
    pub(crate) fn better(self, again: &Zone) -> Zone {
        Zone {
            read_rate: self.read_rate.max(again.read_rate),
            median: self.median.min(again.median),
            p99: self.p99.min(again.p99),
            ..self
        }
    }
}

/// A block that needs retries whenever it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Where it begins.
    pub at: ByteCount,
    /// How long it took alone, the fastest of several reads.
    pub took: Duration,
}

/// Whether a block takes so long that it needs retries, where the usual one takes `usual`.
#[must_use]
pub fn is_spot(took: Duration, usual: Duration) -> bool {
    took >= SPOT_LEAST && took > usual.saturating_mul(SPOT_FACTOR)
}

/// What was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// All zones in order.
    pub zones: Vec<Zone>,
    /// Blocks that need retries.
    pub spots: Vec<Spot>,
    /// Operations that failed, and pages that were not what was written.
    pub faults: Faults,
}

/// A place that is slower than it should be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlowPlace {
    /// Where it begins.
    pub begin: ByteCount,
    /// Bytes.
    pub length: ByteCount,
    /// In what.
    pub why: Slowness,
}

/// In what a place is slow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Slowness {
    /// It is read in order at fewer bytes a second than the curve has there.
    Rate {
        /// Bytes a second.
        found: f64,
        /// What the curve has.
        expected: f64,
    },
    /// The median of its latency is above that of its neighbours.
    Median {
        /// Its own.
        found: Duration,
        /// Its neighbours'.
        expected: Duration,
    },
    /// What 99 of 100 of its reads keep is above that of its neighbours.
    P99 {
        /// Its own.
        found: Duration,
        /// Its neighbours'.
        expected: Duration,
    },
    /// A block needs retries: so long it takes alone, each time.
    Retries(Duration),
}

impl fmt::Display for SlowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        write!(f, "{} MiB from {} MiB on: ", mib(self.length.0), mib(self.begin.0))?;
        match self.why {
            Slowness::Rate { found, expected } => {
                write!(f, "read at {:.0} MB/s, where its curve has {:.0}", found / 1e6, expected / 1e6)
            }
            Slowness::Median { found, expected } => {
                write!(f, "half of the reads take over {found:.1?}, beside it {expected:.1?}")
            }
            Slowness::P99 { found, expected } => {
                write!(f, "1 of 100 reads takes over {found:.1?}, beside it {expected:.1?}")
            }
            Slowness::Retries(took) => write!(f, "a block takes {took:.1?} each time: it needs retries"),
        }
    }
}

/// What is to be thought of a disk.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// All was written and read, and no place is slower than it should be.
    Passed,
    /// All bytes are right, and these places are slow.
    Slow(Vec<SlowPlace>),
    /// Operations failed, or bytes were wrong: [`Profile::faults`].
    Faulty,
}

impl Profile {
    /// What follows.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.faults.count() > 0 {
            return Verdict::Faulty;
        }
        let slow = self.slow_places();
        if slow.is_empty() { Verdict::Passed } else { Verdict::Slow(slow) }
    }

    /// Whether there are enough zones to compare them.
    #[must_use]
    pub fn is_judged_by_place(&self) -> bool {
        self.zones.len() >= ZONES_LEAST
    }

    /// The zones that are slow by these figures: those to be looked at again before it is said of them.
    pub(crate) fn slow_zones(&self) -> Vec<usize> {
        let curve = self.curve();
        (0..self.zones.len()).filter(|at| !self.slowness(*at, &curve).is_empty()).collect()
    }

    fn slow_places(&self) -> Vec<SlowPlace> {
        let curve = self.curve();
        let zones = self.zones.iter().enumerate().flat_map(|(at, zone)| {
            let reasons = self.slowness(at, &curve);
            reasons.into_iter().map(|why| SlowPlace { begin: zone.begin, length: zone.length, why })
        });
        let block = crate::burn_in::BLOCK;
        let retries =
            |spot: &Spot| SlowPlace { begin: spot.at, length: block, why: Slowness::Retries(spot.took) };
        zones.chain(self.spots.iter().map(retries)).collect()
    }

    fn slowness(&self, at: usize, curve: &[f64]) -> Vec<Slowness> {
        let mut reasons = Vec::new();
        let (Some(zone), Some(expected)) = (self.zones.get(at), curve.get(at).copied()) else {
            return reasons;
        };
        if zone.read_rate < expected * RATE_SHARE {
            reasons.push(Slowness::Rate { found: zone.read_rate, expected });
        }
        let expected = self.usual(at, |zone| zone.median);
        if zone.median >= MEDIAN_LEAST && zone.median > expected * MEDIAN_FACTOR {
            reasons.push(Slowness::Median { found: zone.median, expected });
        }
        let expected = self.usual(at, |zone| zone.p99);
        if zone.p99 >= P99_LEAST && zone.p99 > expected * P99_FACTOR {
            reasons.push(Slowness::P99 { found: zone.p99, expected });
        }
        reasons
    }

    /// The middle of the neighbours, or that of the whole disk where the neighbours are slow as well.
    fn usual(&self, at: usize, of: impl Fn(&Zone) -> Duration) -> Duration {
        let around = at.saturating_sub(NEIGHBOURS)..=at.saturating_add(NEIGHBOURS);
        let middle = |is_meant: &dyn Fn(usize) -> bool| {
            let mut found: Vec<Duration> = self
                .zones
                .iter()
                .enumerate()
                .filter(|(n, _)| is_meant(*n))
                .map(|(_, zone)| of(zone))
                .collect();
            found.sort_unstable();
            found.get(found.len() / 2).copied().unwrap_or_default()
        };
        middle(&|n| n != at && around.contains(&n)).min(middle(&|_| true))
    }

    /// The rate that each zone should be read at; empty if there are too few.
    ///
    /// The bytes within a radius grow with its square, and the rate with the radius itself: so the square of
    /// the rate falls in a straight line from the first byte to the last, and that of an SSD is level. The
    /// line is that of Theil and Sen (the median of all slopes), which up to 29 % of wrong zones do not move
    /// far.
    fn curve(&self) -> Vec<f64> {
        if !self.is_judged_by_place() {
            return Vec::new();
        }
        let squares: Vec<f64> = self.zones.iter().map(|zone| zone.read_rate * zone.read_rate).collect();
        let mut slopes = Vec::new();
        for (one, low) in squares.iter().enumerate() {
            let further = squares.iter().enumerate().skip(one + 1);
            slopes.extend(further.map(|(other, high)| (high - low) / (other - one) as f64));
        }
        // No disk becomes faster towards its end.
        let slope = median(slopes).min(0.0);
        let begin = median(squares.iter().enumerate().map(|(n, square)| square - slope * n as f64).collect());
        let mut rates: Vec<f64> = self.zones.iter().map(|zone| zone.read_rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        // The middle of the fastest quarter.
        let fastest = rates.get(rates.len() * 7 / 8).copied().unwrap_or(0.0);
        let least = fastest * RATE_SHARE_LEAST / RATE_SHARE;
        let at = |n: usize| (begin + slope * n as f64).max(0.0).sqrt().max(least);
        (0..squares.len()).map(at).collect()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use durability::SplitMix;

    use super::*;
    use crate::measured::Fault;
    use crate::stamp::Wrong;

    const ZONE: u64 = 250 << 30;

    fn disk(rate: impl Fn(f64) -> f64, median: Duration, p99: Duration) -> Profile {
        let zone = |n: u64| Zone {
            begin: ByteCount(n * ZONE),
            length: ByteCount(ZONE),
            write_rate: rate(n as f64 / 63.0),
            read_rate: rate(n as f64 / 63.0),
            median,
            p99,
        };
        Profile { zones: (0..64).map(zone).collect(), ..Profile::default() }
    }

    /// 270 MB/s outside, 125 inside, in steps of recording zones and with heads of 4 % difference.
    fn hdd() -> Profile {
        let rate = |part: f64| {
            let step = (part * 22.0).floor() / 22.0;
            let square = 270f64.powi(2) + step * (125f64.powi(2) - 270f64.powi(2));
            let head = if ((part * 63.0) as u64).is_multiple_of(2) { 1.0 } else { 0.96 };
            square.sqrt() * head * 1e6
        };
        let mut disk = disk(rate, Duration::from_millis(5), Duration::from_millis(13));
        // Inner tracks hold less: a zone has more of them.
        for (n, zone) in disk.zones.iter_mut().enumerate() {
            zone.median += Duration::from_micros(25) * n as u32;
        }
        disk
    }

    fn ssd() -> Profile {
        disk(|_| 3.0e9, Duration::from_micros(80), Duration::from_micros(300))
    }

    fn slow_at(disk: &Profile) -> Vec<u64> {
        match disk.verdict() {
            Verdict::Passed => Vec::new(),
            Verdict::Slow(places) => {
                let mut at: Vec<u64> = places.iter().map(|place| place.begin.0 / ZONE).collect();
                at.dedup();
                at
            }
            Verdict::Faulty => panic!("no faults were made"),
        }
    }

    #[test]
    fn disks_as_they_should_be_pass() {
        assert_eq!(hdd().verdict(), Verdict::Passed);
        assert_eq!(ssd().verdict(), Verdict::Passed);
        let slow_but_even = disk(|_| 40e6, Duration::from_millis(30), Duration::from_millis(200));
        assert_eq!(slow_but_even.verdict(), Verdict::Passed);
    }

    #[test]
    fn a_zone_off_the_curve_is_found_wherever_it_is() {
        for make in [hdd, ssd] {
            for at in [0, 1, 5, 31, 62, 63] {
                let mut disk = make();
                disk.zones[at].read_rate *= 0.7;
                assert_eq!(slow_at(&disk), [at as u64], "{at}");
                // What heads and recording zones do is within.
                let mut disk = make();
                disk.zones[at].read_rate *= 0.85;
                assert_eq!(disk.verdict(), Verdict::Passed, "{at}");
            }
        }
    }

    /// A fall that neighbours do not tell: they are slow as well.
    #[test]
    fn a_wide_slow_part_does_not_hide_behind_itself() {
        for make in [hdd, ssd] {
            for begin in [0u64, 20, 48] {
                let mut disk = make();
                for zone in &mut disk.zones[begin as usize..begin as usize + 16] {
                    zone.read_rate *= 0.6;
                    zone.median = zone.median * 3 + Duration::from_millis(1);
                }
                assert_eq!(slow_at(&disk), (begin..begin + 16).collect::<Vec<_>>(), "{begin}");
                let Verdict::Slow(places) = disk.verdict() else { panic!("{begin}: it is slow") };
                let medians = places.iter().filter(|place| matches!(place.why, Slowness::Median { .. }));
                assert_eq!(medians.count(), 16, "{begin}");
            }
        }
        // Half of a disk at a quarter of its rate is no curve of any disk.
        let mut half = ssd();
        half.zones[32..].iter_mut().for_each(|zone| zone.read_rate *= 0.25);
        assert_eq!(slow_at(&half), (32..64).collect::<Vec<_>>());
    }

    #[test]
    fn latency_by_place_is_compared_with_that_beside_it() {
        let mut disk = hdd();
        disk.zones[40].median = Duration::from_millis(13);
        disk.zones[7].p99 = Duration::from_millis(45);
        let Verdict::Slow(places) = disk.verdict() else { panic!("two zones are slow") };
        assert!(matches!(places[0].why, Slowness::P99 { expected, .. } if expected.as_millis() == 13));
        assert!(matches!(places[1].why, Slowness::Median { .. }), "{places:?}");
        assert_eq!(places.len(), 2);
        // What a kernel does to an SSD is no slowness of the disk.
        let mut disk = ssd();
        disk.zones[3].median = Duration::from_micros(450);
        disk.zones[9].p99 = Duration::from_millis(9);
        assert_eq!(disk.verdict(), Verdict::Passed);
        disk.zones[3].median = Duration::from_micros(600);
        assert_eq!(slow_at(&disk), [3]);
    }

    #[test]
    fn a_spot_that_needs_retries_is_named_with_its_place() {
        let mut disk = hdd();
        disk.spots.push(Spot { at: ByteCount(12_345 << 20), took: Duration::from_millis(380) });
        let Verdict::Slow(places) = disk.verdict() else { panic!("a spot is slow") };
        assert_eq!(places.len(), 1);
        let said = places[0].to_string();
        assert_eq!(said, "1 MiB from 12345 MiB on: a block takes 380.0ms each time: it needs retries");
        let usual = Duration::from_millis(4);
        assert!(is_spot(Duration::from_millis(60), usual) && !is_spot(Duration::from_millis(49), usual));
        assert!(!is_spot(Duration::from_millis(60), Duration::from_millis(6)), "all there are slow");
    }

    #[test]
    fn faults_go_before_all_else() {
        let mut disk = hdd();
        disk.zones[3].read_rate = 0.0;
        disk.faults.add(Fault::Data(Wrong::Place), ByteCount(77 << 20));
        assert_eq!(disk.verdict(), Verdict::Faulty);
    }

    #[test]
    fn too_few_zones_are_not_compared() {
        let mut disk = ssd();
        disk.zones.truncate(ZONES_LEAST - 1);
        disk.zones[2].read_rate = 1.0;
        assert!(!disk.is_judged_by_place());
        assert_eq!(disk.verdict(), Verdict::Passed);
        let mut enough = ssd();
        enough.zones.truncate(ZONES_LEAST);
        enough.zones[2].read_rate = 1.0;
        assert_eq!(slow_at(&enough), [2]);
    }

    /// A machine that does much else: each look at a zone is up to five times slower than the disk, one in
    /// ten; further looks at what seems slow are left with nothing. A zone that is slow stays slow.
    #[test]
    fn noise_goes_with_further_looks_and_slow_zones_stay() {
        let mut random = SplitMix::new(5);
        let mut told = 0;
        for round in 0..200 {
            let mut truth = if round % 2 == 0 { hdd() } else { ssd() };
            truth.zones[17].read_rate *= 0.5;
            let mut noisy = |zone: &Zone| {
                let is_hit = random.bits().is_multiple_of(10);
                let factor = if is_hit { 1.0 + (random.bits() % 400) as f64 / 100.0 } else { 1.0 };
                Zone {
                    read_rate: zone.read_rate / factor,
                    median: zone.median.mul_f64(factor),
                    p99: zone.p99.mul_f64(factor),
                    ..*zone
                }
            };
            let mut seen = truth.clone();
            seen.zones = truth.zones.iter().map(&mut noisy).collect();
            for _ in 1..crate::burn_in::LOOKS {
                for at in seen.slow_zones() {
                    seen.zones[at] = seen.zones[at].better(&noisy(&truth.zones[at]));
                }
            }
            let slow = slow_at(&seen);
            assert!(slow.contains(&17), "round {round}: {slow:?}");
            told += slow.len() - 1;
        }
        // 12,600 good zones were looked at.
        assert!(told <= 1, "{told} zones were called slow for noise");
    }
}
