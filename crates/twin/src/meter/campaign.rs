//! What comes of a workload's requests.

use base::Duration;

use super::progress::Progress;
use crate::moment::Moment;
use report::outcome::Campaign;
use report::stats::Histogram;

/// One workload.
#[derive(Debug)]
pub struct CampaignMeter {
    name: String,
    /// Whether it is one that asks for files.
    asks: bool,
    /// Whether it is done at some time.
    ends: bool,
    files: u64,
    bytes: u64,
    begin: Moment,
    progress: Progress,
    waits: Histogram,
    pub refused: u64,
}

impl CampaignMeter {
    pub fn new(name: &str, asks: bool, ends: bool) -> CampaignMeter {
        CampaignMeter {
            name: name.to_owned(),
            asks,
            ends,
            files: 0,
            bytes: 0,
            begin: Moment(0),
            progress: Progress::new(),
            waits: Histogram::new(),
            refused: 0,
        }
    }

    pub fn wanted(&mut self, now: Moment, bytes: u64) {
        if self.files == 0 {
            self.begin = now;
        }
        self.files += 1;
        self.bytes += bytes;
    }

    pub fn served(&mut self, now: Moment, wait: Duration) {
        self.progress.push(now);
        self.waits.push(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }

    /// Nothing for a workload that asks for nothing.
    pub fn finish(self) -> Option<Campaign> {
        if !self.asks && self.files == 0 {
            return None;
        }
        let wait = |share: f64| self.waits.quantile(share) as f64 / 1e6;
        Some(Campaign {
            ends: self.ends,
            files: self.files,
            bytes: self.bytes,
            served: self.waits.count(),
            refused: self.refused,
            begin: self.begin.seconds(),
            end: self.progress.last().max(self.begin).seconds(),
            progress: self.progress.hundredths(),
            waits: [wait(0.5), wait(0.9), wait(0.99), self.waits.max() as f64 / 1e6],
            wait_mean: self.waits.mean() / 1e6,
            name: self.name,
        })
    }
}
