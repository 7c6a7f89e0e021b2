//! What a device says of its host: how busy and how warm its parts are, as Linux has it. What cannot be found
//! out is left out.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Instant;

use base::Duration;
use bytes::Bytes;
use kinetic::{Capacity, Interface, Log, LogType, Temperature, Utilization};
use threads::Mutex;

use crate::store::Store;

/// Shares are of the time since they were last asked for, if that is as long as this.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// Counters that only grow, and when they were read.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    /// Milliseconds in which the disk had something to do.
    disk: Option<u64>,
    /// Ticks of all cores: at work, and all.
    cpu: Option<(u64, u64)>,
    /// Bytes that the fastest interface has carried: its name, the bytes, and how many it could in a second.
    network: Vec<(String, u64, u64)>,
}

/// What is watched.
pub(crate) struct Figures {
    /// The block device, in `/sys`.
    disk: Option<PathBuf>,
    last: Mutex<(Sample, Vec<Utilization>)>,
}

impl Figures {
    /// Of the disk on which this stands.
    pub(crate) fn of(path: &Path) -> Figures {
        let disk = device_of(path);
        let sample = Sample::take(disk.as_deref());
        let idle = utilizations(&sample, &sample);
        Figures { disk, last: Mutex::new((sample, idle)) }
    }

    /// The logs of these types.
    pub(crate) fn log(&self, store: &Store, types: Vec<LogType>) -> Log {
        let mut log = Log { types, ..Log::default() };
        let has = |wanted| log.types.contains(&wanted);
        let (utilizations, temperatures) = (has(LogType::Utilizations), has(LogType::Temperatures));
        let (capacities, messages) = (has(LogType::Capacities), has(LogType::Messages));
        if utilizations {
            log.utilizations = self.utilizations();
        }
        if temperatures {
            log.temperatures = self.disk.as_deref().map(temperatures_of).unwrap_or_default();
        }
        if capacities {
            let figures = store.log.figures();
            let share = figures.needed.0 as f64 / figures.capacity.0.max(1) as f64;
            #[expect(clippy::cast_possible_truncation, reason = "a share from 0 to 1")]
            let portion_full = share.min(1.0) as f32;
            log.capacity = Some(Capacity { nominal_bytes: figures.capacity.0, portion_full });
        }
        if messages {
            log.messages = Bytes::from(store.messages());
        }
        log
    }

    fn utilizations(&self) -> Vec<Utilization> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0.at.elapsed() >= SPAN_MIN {
            let sample = Sample::take(self.disk.as_deref());
            let shares = utilizations(&last.0, &sample);
            *last = (sample, shares);
        }
        last.1.clone()
    }
}

impl Sample {
    fn take(disk: Option<&Path>) -> Sample {
        Sample {
            at: Instant::now(),
            disk: disk.and_then(|disk| disk_ticks(&fs::read_to_string(disk.join("stat")).ok()?)),
            cpu: fs::read_to_string("/proc/stat").ok().and_then(|text| cpu_ticks(&text)),
            network: fs::read_to_string("/proc/net/dev").map(|text| carried(&text)).unwrap_or_default(),
        }
    }
}

/// The part of a whole, from 0 to 1.
fn portion(part: f64, whole: f64) -> f32 {
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "a share from 0 to 1")]
    let share = share as f32;
    share
}

fn utilizations(before: &Sample, now: &Sample) -> Vec<Utilization> {
    let mut all = Vec::new();
    let mut add = |name: &str, portion: f32| all.push(Utilization { name: name.to_owned(), portion });
    let span = now.at.saturating_duration_since(before.at).as_secs_f64();
    if let (Some(before), Some(now)) = (before.disk, now.disk) {
        add("HDA", portion(now.saturating_sub(before) as f64 / 1e3, span));
    }
    if let (Some(before), Some(now)) = (before.cpu, now.cpu) {
        add("CPU", portion(now.0.saturating_sub(before.0) as f64, now.1.saturating_sub(before.1) as f64));
    }
    for (place, (name, bytes, speed)) in now.network.iter().enumerate() {
        let was = before.network.iter().find(|(other, ..)| other == name).map_or(*bytes, |(_, was, _)| *was);
        add(&format!("EN{place}"), portion(bytes.saturating_sub(was) as f64, span * *speed as f64));
    }
    all
}

/// The milliseconds in which a disk had something to do: the tenth number of its `stat`.
fn disk_ticks(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(9)?.parse().ok()
}

/// Ticks of all cores at work, and all of them: user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    Some((all.saturating_sub(idle), all))
}

/// Of each interface but loopback: the bytes of the direction that carried more, and what it could in a
/// second.
fn carried(text: &str) -> Vec<(String, u64, u64)> {
    let mut all = Vec::new();
    for line in text.lines().skip(2) {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let name = name.trim();
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let (Some(received), Some(sent)) = (numbers.first(), numbers.get(8)) else { continue };
        // Megabits in a second; what has no speed, as a bridge, is not counted.
        let speed = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok();
        let speed = speed.and_then(|speed| speed.trim().parse::<u64>().ok());
        if let Some(speed) = speed.filter(|_| name != "lo") {
            all.push((name.to_owned(), *received.max(sent), speed * 125_000));
        }
    }
    all
}

/// The block device of a path, in `/sys`.
fn device_of(path: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition stands within its disk, which knows more.
    let disk = device.join("partition").exists().then(|| device.parent().map(Path::to_owned)).flatten();
    Some(disk.unwrap_or(device))
}

fn temperatures_of(disk: &Path) -> Vec<Temperature> {
    let device = disk.join("device");
    let monitors =
        [device.join("hwmon"), device.clone()].into_iter().filter_map(|above| fs::read_dir(above).ok());
    for monitor in monitors.flatten().flatten() {
        let name = monitor.file_name();
        if !name.to_string_lossy().starts_with("hwmon") {
            continue;
        }
        let degrees = |what: &str| {
            let text = fs::read_to_string(monitor.path().join(what)).ok()?;
            let thousandths: i32 = text.trim().parse().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "degrees")]
            let degrees = (f64::from(thousandths) / 1e3) as f32;
            Some(degrees)
        };
        if let Some(current) = degrees("temp1_input") {
            let (minimum, maximum) = (degrees("temp1_lowest"), degrees("temp1_highest"));
            let maximum = maximum.or_else(|| degrees("temp1_max"));
            return vec![Temperature { name: "HDA".to_owned(), current, minimum, maximum, target: None }];
        }
    }
    Vec::new()
}

/// The network interfaces of this host, with their addresses of the link layer.
pub(crate) fn interfaces() -> Vec<Interface> {
    const INTERFACES_MAX: usize = 16;
    let Ok(all) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut interfaces: Vec<Interface> = all
        .flatten()
        .filter_map(|one| {
            let name = one.file_name().into_string().ok().filter(|name| name != "lo")?;
            let mac = fs::read_to_string(one.path().join("address")).ok()?;
            Some(Interface { name, mac: Bytes::from(mac.trim().to_owned()), ..Interface::default() })
        })
        .collect();
    interfaces.sort_by(|one, other| one.name.cmp(&other.name));
    interfaces.truncate(INTERFACES_MAX);
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_linux() {
        let disk = "  100 0 800 50 200 0 1600 90 0 1234 140 0 0 0 0\n";
        assert_eq!(disk_ticks(disk), Some(1234));
        let cpu = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(cpu_ticks(cpu), Some((81, 531)));
        assert_eq!((disk_ticks(""), cpu_ticks("")), (None, None));
        assert_eq!(carried("a\nb\n    lo: 1 2 3 4 5 6 7 8 9 10\n"), []);
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let at = Instant::now();
        let of = |seconds: u64, disk: u64, cpu: (u64, u64), bytes: u64| Sample {
            at: at + Duration::from_secs(seconds),
            disk: Some(disk),
            cpu: Some(cpu),
            network: vec![("eth0".to_owned(), bytes, 1_000)],
        };
        let shares = utilizations(&of(0, 1_000, (10, 100), 500), &of(10, 3_500, (60, 200), 6_500));
        let shares: Vec<(&str, f32)> = shares.iter().map(|one| (one.name.as_str(), one.portion)).collect();
        assert_eq!(shares, [("HDA", 0.25), ("CPU", 0.5), ("EN0", 0.6)]);
        let none = utilizations(&of(0, 1, (1, 1), 1), &of(0, 1, (1, 1), 1));
        assert!(none.iter().all(|one| one.portion == 0.0), "no time, no share");
    }

    #[test]
    fn what_this_host_says_is_a_share() {
        let figures = Figures::of(Path::new("/"));
        for one in figures.utilizations() {
            assert!((0.0..=1.0).contains(&one.portion), "{one:?}");
        }
    }
}
