//! Work on many items by a few threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most threads that a command takes.
pub const JOBS_MAX: usize = 256;

/// Reads `--jobs`.
pub fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=JOBS_MAX).contains(jobs));
    jobs.ok_or_else(|| format!("it is 1 to {JOBS_MAX}"))
}

/// Calls `work` for each item, on up to `jobs` threads, each item once, in order of their start. Items that
/// were not begun when `stop` becomes true are left out.
pub fn each<T: Sync>(items: &[T], jobs: usize, stop: &AtomicBool, work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            work(item);
        }
    };
    let threads = jobs.clamp(1, JOBS_MAX).min(items.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn each_item_once() {
        let items: Vec<u64> = (0..1000).collect();
        let sum = AtomicU64::new(0);
        each(&items, 7, &AtomicBool::new(false), |item| {
            sum.fetch_add(*item, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 499_500);
        each(&items, 7, &AtomicBool::new(true), |_| unreachable!("stopped before the first item"));
    }
}
