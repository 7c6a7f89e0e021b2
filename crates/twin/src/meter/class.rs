//! What comes of a class.

use base::Duration;

use crate::moment::Moment;
use report::outcome::ClassUse;

/// One class.
#[derive(Debug, Default)]
pub struct ClassMeter {
    name: String,
    pub put: u64,
    pub put_bytes: u64,
    pub wanted: u64,
    pub hits: u64,
    /// Bytes in the pool since a moment; before it, bytes times microseconds.
    pool: u64,
    pool_since: Moment,
    pool_area: u128,
    evicted: u64,
    /// Of these, those that were used in the run.
    touched: u64,
    /// Microseconds.
    untouched_sum: u128,
    migrated: u64,
    migration_sum: u128,
    migration_max: Duration,
}

impl ClassMeter {
    pub fn new(name: &str) -> ClassMeter {
        ClassMeter { name: name.to_owned(), ..ClassMeter::default() }
    }

    pub fn pool(&mut self, now: Moment, bytes: u64) {
        self.pool_area += u128::from(self.pool) * now.since(self.pool_since).as_micros();
        self.pool_since = self.pool_since.max(now);
        self.pool = bytes;
    }

    pub fn evicted(&mut self, untouched: Option<Duration>) {
        self.evicted += 1;
        if let Some(untouched) = untouched {
            self.touched += 1;
            self.untouched_sum += untouched.as_micros();
        }
    }

    pub fn migrated(&mut self, wait: Duration) {
        self.migrated += 1;
        self.migration_sum += wait.as_micros();
        self.migration_max = self.migration_max.max(wait);
    }

    pub fn finish(mut self, end: Moment) -> ClassUse {
        self.pool(end, self.pool);
        let mean = |sum: u128, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        ClassUse {
            name: self.name,
            wanted: self.wanted,
            hits: self.hits,
            put: self.put,
            put_bytes: self.put_bytes,
            pool_mean: mean(self.pool_area, end.0),
            residency_mean: mean(self.untouched_sum, self.touched) / 1e6,
            evicted: self.evicted,
            migrated: self.migrated,
            migration_wait: [mean(self.migration_sum, self.migrated) / 1e6, self.migration_max.as_secs_f64()],
        }
    }
}
