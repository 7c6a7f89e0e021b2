//! When which part of the files was there, without keeping a time for each file.

use crate::moment::Moment;

/// Most times that are kept.
pub const TIMES_MAX: usize = 4_000;

/// Times of every so many-th file. With up to [`TIMES_MAX`] files every time is kept, with more at least
/// half as many, evenly: a hundredth is then late by at most one file in 2,000.
#[derive(Debug)]
pub struct Progress {
    stride: u64,
    count: u64,
    /// Entry `i` is the time of file number `(i + 1) * stride`, counted from 1.
    times: Vec<u64>,
    first: u64,
    last: u64,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { stride: 1, count: 0, times: Vec::new(), first: 0, last: 0 }
    }

    /// The next file is there.
    pub fn push(&mut self, now: Moment) {
        if self.count == 0 {
            self.first = now.0;
        }
        self.last = now.0;
        self.count += 1;
        if !self.count.is_multiple_of(self.stride) {
            return;
        }
        self.times.push(now.0);
        if self.times.len() >= TIMES_MAX {
            let kept = self.times.iter().skip(1).step_by(2).copied().collect();
            self.times = kept;
            self.stride *= 2;
        }
    }

    /// When the last one was there.
    pub fn last(&self) -> Moment {
        Moment(self.last)
    }

    /// When each hundredth of them was there, seconds: 101 times, none if there was no file.
    pub fn hundredths(&self) -> Vec<f64> {
        if self.count == 0 {
            return Vec::new();
        }
        let time = |hundredth: u64| {
            let number = (u128::from(self.count) * u128::from(hundredth)).div_ceil(100) as u64;
            match number {
                0 | 1 => self.first,
                number if number == self.count => self.last,
                number => {
                    let index = number.div_ceil(self.stride) as usize - 1;
                    self.times.get(index).copied().unwrap_or(self.last)
                }
            }
        };
        (0..=100).map(|hundredth| time(hundredth) as f64 / 1e6).collect()
    }
}
