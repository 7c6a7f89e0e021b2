//! What is measured in the runs of a case.

use report::outcome::{DriveActivity, Outcome};

/// What is measured in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measure {
    /// Bytes a second read from tape in the best bin.
    ReadRateMax,
    /// Bytes a second written to tape in the best bin.
    WriteRateMax,
    /// Bytes a second read from tape, from the first request to the last file.
    ReadRateMean,
    /// Bytes a second written to tape, from the first to the last bin in which anything was.
    WriteRateMean,
    /// Different tapes that were mounted.
    TapesMounted,
    /// Mounts.
    Mounts,
    /// Drives that are neither idle nor down, mean over the time after the warm-up.
    BusyDrives,
    /// The share of their busy time, after the warm-up, that the bytes they moved take at their native rate,
    /// percent: flushes and waits move none.
    MovingPercent,
    /// Bytes a second of one drive while it writes a session: written bytes over the time that it writes,
    /// waits or locates.
    SessionWriteRate,
    /// The same for reading.
    SessionReadRate,
    /// Bytes read from the pool's disks for each byte that clients wrote.
    PoolReadPerArchived,
    /// Bytes written to the pool's disks for each byte that clients wrote.
    PoolWrittenPerArchived,
    /// Bytes read from the pool's disks for each byte read from tape.
    PoolReadPerRecalled,
    /// Bytes written to the pool's disks for each byte read from tape.
    PoolWrittenPerRecalled,
    /// Bytes that clients move, read and written, a second, mean.
    ClientRateMean,
    /// Bytes a second that clients read, mean.
    ClientReadRate,
    /// Bytes a second that clients write, mean.
    ClientWriteRate,
    /// The same of the best bin.
    ClientRateMax,
}

/// Of which variant of a scenario.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Of {
    /// Of its only one, or of the first.
    First,
    /// Of the variant of this name.
    Variant(&'static str),
    /// Of the first by the second.
    Ratio(&'static str, &'static str),
}

impl Measure {
    /// The figure of one run; nothing if there is none, as of a rate without time.
    #[must_use]
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        let (series, totals) = (&outcome.series, &outcome.totals);
        let step = series.step;
        let value = match self {
            Measure::ReadRateMax => most(&series.tape_read)? / step,
            Measure::WriteRateMax => most(&series.tape_written)? / step,
            Measure::ReadRateMean => {
                let asked = outcome.campaigns.iter().filter(|campaign| campaign.served > 0);
                let (begin, end) = asked.fold((f64::MAX, 0.0f64), |(begin, end), campaign| {
                    (begin.min(campaign.begin), end.max(campaign.end))
                });
                totals.tape_read as f64 / (end - begin)
            }
            Measure::WriteRateMean => {
                totals.tape_written as f64 / (bins_of(&series.tape_written)? as f64 * step)
            }
            Measure::TapesMounted => totals.tapes_mounted as f64,
            Measure::Mounts => totals.mounts as f64,
            Measure::BusyDrives => {
                let settled = (outcome.warm_up / step).ceil() as usize;
                let bins = series.activity.get(settled..)?;
                let busy: f64 = bins.iter().map(busy_seconds).sum();
                busy / (bins.len() as f64 * step)
            }
            Measure::MovingPercent => {
                let settled = (outcome.warm_up / step).ceil() as usize;
                let busy: f64 = series.activity.get(settled..)?.iter().map(busy_seconds).sum();
                let bytes = |bins: &[u64]| bins.iter().skip(settled).sum::<u64>() as f64;
                let moved = bytes(&series.tape_read) + bytes(&series.tape_written);
                100.0 * moved / outcome.drives.first()?.native_rate as f64 / busy
            }
            Measure::SessionWriteRate => {
                let time =
                    seconds_of(outcome, &[DriveActivity::Write, DriveActivity::Wait, DriveActivity::Locate]);
                totals.tape_written as f64 / time
            }
            Measure::SessionReadRate => {
                let time =
                    seconds_of(outcome, &[DriveActivity::Read, DriveActivity::Wait, DriveActivity::Locate]);
                totals.tape_read as f64 / time
            }
            Measure::PoolReadPerArchived => ratio(totals.pool_read, totals.client_written),
            Measure::PoolWrittenPerArchived => ratio(totals.pool_written, totals.client_written),
            Measure::PoolReadPerRecalled => ratio(totals.pool_read, totals.tape_read),
            Measure::PoolWrittenPerRecalled => ratio(totals.pool_written, totals.tape_read),
            Measure::ClientRateMean => (totals.client_read + totals.client_written) as f64 / outcome.end,
            Measure::ClientReadRate => totals.client_read as f64 / outcome.end,
            Measure::ClientWriteRate => totals.client_written as f64 / outcome.end,
            Measure::ClientRateMax => {
                let both = series.client_read.iter().zip(&series.client_written);
                both.map(|(read, written)| read + written).max()? as f64 / step
            }
        };
        Some(value).filter(|value| value.is_finite())
    }
}

fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other as f64
}

fn most(bins: &[u64]) -> Option<f64> {
    bins.iter().max().map(|most| *most as f64)
}

/// From the first bin in which anything was to the last.
fn bins_of(bins: &[u64]) -> Option<usize> {
    let first = bins.iter().position(|bytes| *bytes > 0)?;
    let last = bins.iter().rposition(|bytes| *bytes > 0)?;
    Some(last + 1 - first)
}

fn seconds_of(outcome: &Outcome, activities: &[DriveActivity]) -> f64 {
    let of = |activity: &DriveActivity| {
        outcome.drives.iter().map(|drive| drive.seconds[*activity as usize]).sum::<f64>()
    };
    activities.iter().map(of).sum()
}

fn busy_seconds(bin: &[f64; DriveActivity::COUNT]) -> f64 {
    bin.iter().sum::<f64>() - bin[DriveActivity::Idle as usize] - bin[DriveActivity::Down as usize]
}
