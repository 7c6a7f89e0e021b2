//! Processor time of a process.

use std::fs;

/// Ticks a second in /proc, the same on all Linux machines that Kist is built for.
const TICKS_A_SECOND: f64 = 100.0;
/// Fields of /proc/PID/stat behind the name: user and system time are the 12th and 13th.
const USER_FIELD: usize = 11;
const SYSTEM_FIELD: usize = 12;

/// Seconds of user and system time of a process, its ended threads included; 0 if it is gone.
pub fn seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks(&text).unwrap_or(0) as f64 / TICKS_A_SECOND
}

/// The same of a process and of those that it started and that run yet.
pub fn seconds_with_children(pid: u32) -> f64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of_children: f64 =
        children.split_whitespace().filter_map(|child| child.parse().ok()).map(seconds).sum();
    seconds(pid) + of_children
}

fn ticks(stat: &str) -> Option<u64> {
    // The name is in parentheses and may hold anything, so fields count from the last one.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let user: u64 = fields.get(USER_FIELD)?.parse().ok()?;
    let system: u64 = fields.get(SYSTEM_FIELD)?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 25 0 0 20 0 1 0 5 6";
        assert_eq!(ticks(stat), Some(175));
        assert_eq!(ticks("nonsense"), None);
    }
}
