//! How long a rebuild takes.

use crate::inputs::Inputs;

/// How a lost drive is rebuilt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Many drives read and many write, in parallel: what Kist does.
    Declustered,
    /// One new drive takes all that is written; its speed bounds the rebuild.
    HotSpare,
}

/// The rebuild of one drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rebuild {
    /// Shards read for one rebuilt.
    pub reads: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Drives that take part.
    pub participants: f64,
    /// Bytes per second, reads and writes together; with a hot spare what it writes.
    pub bandwidth: f64,
    /// Whether [`Inputs::bandwidth`] is what bounds it, not the drives.
    pub is_bounded: bool,
    /// From its start to its end.
    pub hours: f64,
    /// From the failure to the end of the rebuild: detection and rebuild, or the window that was given.
    pub window_hours: f64,
}

/// The rebuild of a drive with `bytes` on it by `participants` drives.
#[must_use]
pub fn rebuild(inputs: &Inputs, bytes: f64, participants: f64) -> Rebuild {
    let reads = inputs.repair_reads.unwrap_or_else(|| inputs.code.repair_reads());
    let read_bytes = reads * bytes;
    let share = inputs.drive_speed * inputs.rebuild_share;
    let limit = inputs.bandwidth.unwrap_or(f64::INFINITY);
    let declustered = (participants * share).min(limit);
    let (bandwidth, seconds) = match inputs.method {
        Method::Declustered => (declustered, (read_bytes + bytes) / declustered),
        Method::HotSpare => {
            let written = share.min(limit);
            (written, (bytes / written).max(read_bytes / declustered))
        }
    };
    let hours = seconds / 3600.0;
    Rebuild {
        reads,
        read_bytes,
        written_bytes: bytes,
        participants,
        bandwidth,
        is_bounded: bandwidth >= limit,
        hours,
        window_hours: inputs.window_hours.unwrap_or(inputs.detection_hours + hours),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    /// The reference table "Rebuild of one 20 TB disk": method, TB of traffic, GB/s, hours as printed. The
    /// bound of the last four rows is that of the links as the table counts them: one PCIe 3 x8 whole, and
    /// a quarter of eighteen.
    #[test]
    fn the_reference_rebuilds_come_out() {
        let base = Inputs::typical(Code::parse("12+4").unwrap(), 1512);
        let jbod = |bandwidth, share, drives, reads| Inputs {
            rebuild_share: share,
            scatter: Some(drives),
            bandwidth,
            repair_reads: Some(reads),
            ..base.clone()
        };
        let links = Some(18.0 * 6.4e9 * 0.25);
        let spare = Inputs { method: Method::HotSpare, ..jbod(None, 1.0, 1511, 12.0) };
        let rows = [
            (spare, 1, 0.2, "27.8", None),
            (jbod(None, 0.5, 84, 12.0), 1, 8.4, "8.6", Some(260.0)),
            (jbod(Some(6.4e9), 0.5, 84, 12.0), 1, 6.4, "11.3", Some(260.0)),
            (jbod(links, 0.25, 1511, 12.0), 1, 28.8, "2.5", Some(260.0)),
            (jbod(links, 0.25, 1511, 6.0), 2, 28.8, "1.35", Some(140.0)),
            (jbod(links, 0.25, 1511, 3.75), 1, 28.8, "0.9", Some(95.0)),
        ];
        for (inputs, digits, gigabytes, hours, traffic) in rows {
            let found = rebuild(&inputs, 20e12, f64::from(inputs.scatter.unwrap()));
            assert!((found.bandwidth / 1e9 - gigabytes).abs() < 1e-9, "{found:?}");
            assert_eq!(format!("{:.digits$}", found.hours), hours);
            let moved = (found.read_bytes + found.written_bytes) / 1e12;
            assert!(traffic.is_none_or(|traffic: f64| (moved - traffic).abs() < 1e-9), "{moved}");
        }
    }

    #[test]
    fn detection_counts_and_a_given_window_replaces_both() {
        let inputs = Inputs { detection_hours: 2.0, ..Inputs::typical(Code::parse("8+2").unwrap(), 20) };
        let found = rebuild(&inputs, 20e12, 19.0);
        assert!((found.window_hours - found.hours - 2.0).abs() < 1e-9);
        let inputs = Inputs { window_hours: Some(24.0), ..inputs };
        assert!((rebuild(&inputs, 20e12, 19.0).window_hours - 24.0).abs() < 1e-12);
    }
}
