use base::ByteCount;
use proptest::prelude::*;

use super::*;
use crate::fixture::{holding, site};
use scenario::model::Holding;

/// The same by lists that are gone through.
struct Naive {
    files: Vec<Known>,
    stamps: u64,
    shifts: [u32; 2],
    residencies: [u64; 2],
}

#[derive(Clone)]
struct Known {
    file: FileNumber,
    bytes: u64,
    last: u64,
    pins: u32,
    safe: bool,
    stamp: u64,
}

const HIGH: u64 = 900;
const LOW: u64 = 800;
const CEILING: (u64, u64, u64) = (400, 360, 320);

impl Naive {
    fn used(&self) -> u64 {
        self.files.iter().map(|known| known.bytes).sum()
    }

    fn used_of(&self, class: u16) -> u64 {
        self.files.iter().filter(|known| known.file.class.0 == class).map(|known| known.bytes).sum()
    }

    fn touch(&mut self, now: u64, file: FileNumber) {
        self.stamps += 1;
        let stamp = self.stamps;
        for known in self.files.iter_mut().filter(|known| known.file == file) {
            known.last = now;
            known.stamp = stamp;
        }
    }

    fn put_in(&mut self, now: u64, file: FileNumber, bytes: u64, safe: bool) -> bool {
        if self.files.iter().any(|known| known.file == file) {
            self.touch(now, file);
            for known in self.files.iter_mut().filter(|known| known.file == file) {
                known.safe |= safe;
            }
            return true;
        }
        // The ceiling of a class holds up no put.
        if self.used() + bytes > 1000 {
            return false;
        }
        self.stamps += 1;
        self.files.push(Known { file, bytes, last: now, pins: 0, safe, stamp: self.stamps });
        true
    }

    fn list_of(&self, known: &Known) -> u64 {
        let shift = self.shifts[usize::from(known.file.class.0)];
        (BEGIN + known.last) >> shift << shift
    }

    /// What goes next, of these classes.
    fn oldest(&self, classes: &[u16]) -> Option<usize> {
        let may = |known: &Known| known.safe && known.pins == 0 && classes.contains(&known.file.class.0);
        let key = |at: &usize| {
            let known = &self.files[*at];
            (self.list_of(known), known.file.class.0, known.stamp)
        };
        (0..self.files.len()).filter(|at| may(&self.files[*at])).min_by_key(key)
    }

    fn expiry(&self, at: usize) -> u64 {
        let (known, class) = (&self.files[at], usize::from(self.files[at].file.class.0));
        self.list_of(known) + (1 << self.shifts[class]) + self.residencies[class] - BEGIN
    }

    fn evict(&mut self, now: u64) -> Vec<FileNumber> {
        let mut gone = Vec::new();
        for class in [0u16, 1] {
            while let Some(at) = self.oldest(&[class]).filter(|at| self.expiry(*at) <= now) {
                gone.push(self.files.remove(at).file);
            }
            if class == 1 && self.used_of(1) > CEILING.1 {
                while let Some(at) = self.oldest(&[1]).filter(|_| self.used_of(1) > CEILING.2) {
                    gone.push(self.files.remove(at).file);
                }
            }
        }
        if self.used() > HIGH {
            while let Some(at) = self.oldest(&[0, 1]).filter(|_| self.used() > LOW) {
                gone.push(self.files.remove(at).file);
            }
        }
        gone
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_cache_does_what_lists_do(
        steps in proptest::collection::vec((0u8..9, 0u16..2, 0u64..40, 1u64..120, 0u64..400_000), 1..300),
        residency in 1u64..20_000_000,
    ) {
        let mut site = site(1);
        site.pool.capacity = ByteCount(1000);
        site.classes.push(site.classes[0].clone());
        site.classes[0].residency = Duration::from_micros(residency);
        site.classes[1].residency = Duration::from_micros(residency / 3);
        site.classes[1].pool_max = Some(ByteCount(CEILING.0));
        let mut holdings = Holdings::new(&site, 1);
        let mut cache = Cache::new(&site, &mut holdings);
        let shifts = [cache.classes[0].shift, cache.classes[1].shift];
        let residencies = [residency, residency / 3];
        let mut naive = Naive { files: Vec::new(), stamps: 0, shifts, residencies };
        let mut now = 0;
        for (what, class, sequence, bytes, later) in steps {
            now += later;
            let file = FileNumber { class: ClassIndex(class), sequence };
            let at = naive.files.iter().position(|known| known.file == file);
            match what {
                0..=3 => {
                    let safe = what > 0;
                    let put = cache.put_in(Moment(now), file, bytes, safe);
                    prop_assert_eq!(put, naive.put_in(now, file, bytes, safe));
                }
                4 => {
                    cache.touch(Moment(now), file);
                    naive.touch(now, file);
                }
                5 => {
                    cache.made_safe(file);
                    naive.stamps += 1;
                    if let Some(known) = at.map(|at| &mut naive.files[at]).filter(|known| !known.safe) {
                        (known.safe, known.stamp) = (true, naive.stamps);
                    }
                }
                6 => {
                    cache.pin(file);
                    at.into_iter().for_each(|at| naive.files[at].pins += 1);
                }
                7 => {
                    cache.unpin(Moment(now), file);
                    if let Some(at) = at {
                        naive.files[at].pins = naive.files[at].pins.saturating_sub(1);
                    }
                    naive.touch(now, file);
                }
                _ => {
                    prop_assert_eq!(cache.drop_file(file), at.is_some());
                    at.map(|at| naive.files.remove(at));
                }
            }
            if later % 3 == 0 {
                let mut gone = Vec::new();
                cache.evict(Moment(now), &mut gone);
                let gone: Vec<FileNumber> = gone.into_iter().map(|evicted| evicted.file).collect();
                prop_assert_eq!(gone, naive.evict(now));
                prop_assert!(cache.next_due().is_none_or(|due| due > Moment(now)));
            }
            prop_assert_eq!(cache.used(), naive.used());
            prop_assert_eq!(cache.used_of(ClassIndex(1)), naive.used_of(1));
            let due = [0u16, 1].iter().filter_map(|class| naive.oldest(&[*class])).map(|at| naive.expiry(at));
            prop_assert_eq!(cache.next_due(), due.min().map(Moment));
            for sequence in 0..40 {
                let file = FileNumber { class: ClassIndex(class), sequence };
                let known = naive.files.iter().any(|known| known.file == file);
                prop_assert_eq!(cache.contains(file), known);
            }
        }
    }
}

#[test]
fn what_is_resident_at_the_beginning_goes_little_by_little() {
    let mut site = site(1);
    site.holdings = vec![Holding { resident_per_mille: 100, ..holding(1000) }];
    let mut holdings = Holdings::new(&site, 1);
    let mut cache = Cache::new(&site, &mut holdings);
    assert_eq!(cache.used(), 100 * 2_000_000_000);
    let file = |sequence| FileNumber { class: ClassIndex(0), sequence };
    assert!(cache.contains(file(900)) && cache.contains(file(999)) && !cache.contains(file(899)));
    let mut gone = Vec::new();
    cache.evict(Moment(43_200_000_000), &mut gone);
    assert!((45..=50).contains(&gone.len()), "{}", gone.len());
    assert!(gone.iter().all(|evicted| evicted.untouched.is_none()), "nobody used any of them in the run");
    // More than the pool takes: up to high water, the newest.
    site.pool.capacity = ByteCount(100_000_000_000);
    let cache = Cache::new(&site, &mut holdings);
    assert_eq!(cache.used(), 90_000_000_000);
    assert!(cache.contains(file(955)) && !cache.contains(file(954)));
}

#[test]
fn nothing_goes_without_its_copies_or_while_pinned() {
    let mut site = site(1);
    site.pool.capacity = ByteCount(100);
    site.classes[0].residency = Duration::ZERO;
    let mut holdings = Holdings::new(&site, 1);
    let mut cache = Cache::new(&site, &mut holdings);
    let file = |sequence| FileNumber { class: ClassIndex(0), sequence };
    assert!(cache.put_in(Moment(0), file(0), 50, false));
    assert!(cache.put_in(Moment(0), file(1), 45, true));
    cache.pin(file(1));
    assert!(!cache.put_in(Moment(0), file(2), 6, true));
    let mut gone = Vec::new();
    cache.evict(Moment(u64::MAX >> 20), &mut gone);
    assert!(gone.is_empty() && cache.is_above_high_water() && cache.next_due().is_none());
    cache.made_safe(file(0));
    cache.evict(Moment(1_000_000), &mut gone);
    assert_eq!(gone.iter().map(|evicted| evicted.file).collect::<Vec<_>>(), [file(0)]);
    cache.unpin(Moment(2_000_000), file(1));
    assert_eq!(cache.next_due(), Some(Moment(2_000_001)));
    cache.evict(Moment(2_000_001), &mut gone);
    assert_eq!((gone.len(), cache.used()), (2, 0));
}
