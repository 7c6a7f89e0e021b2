//! What a pool is made of, as far as durability goes.

use crate::code::Code;
use crate::rebuild::Method;

/// Hours of a year of 365 days, as failure rates are given.
pub const HOURS_PER_YEAR: f64 = 8760.0;

/// A pool and its drives.
#[derive(Clone, PartialEq, Debug)]
pub struct Inputs {
    /// The code.
    pub code: Code,
    /// Drives in the pool, all alike.
    pub drives: u32,
    /// Failures per drive and year (0.0136 for 1.36 %).
    pub afr: f64,
    /// Bytes on a drive that a rebuild must make anew: its size, if it is full.
    pub drive_bytes: f64,
    /// Sequential bytes per second of a drive, reading or writing.
    pub drive_speed: f64,
    /// The share of each drive's speed that a rebuild gets, above 0 up to 1.
    pub rebuild_share: f64,
    /// How a lost drive is rebuilt.
    pub method: Method,
    /// Drives that take part in a rebuild: those that share a group with the lost one. Unset: what
    /// Kist's placement gives.
    pub scatter: Option<u32>,
    /// Distinct groups of drives that hold stripes. Unset: what goes with `scatter`.
    pub groups: Option<u64>,
    /// A bound of all rebuild traffic in bytes per second (links, host adapters), whatever the drives could.
    pub bandwidth: Option<f64>,
    /// Shards read for one rebuilt, where it is not the code's own number (Clay codes, for one).
    pub repair_reads: Option<f64>,
    /// Hours from the failure to the start of the rebuild.
    pub detection_hours: f64,
    /// Hours from the failure to its end, in place of what detection and rebuild come to.
    pub window_hours: Option<f64>,
    /// Hours between two scrubs of a drive.
    pub scrub_hours: f64,
    /// Probability that a bit cannot be read back although it was scrubbed.
    pub bit_error_rate: f64,
    /// Sectors that go bad unnoticed, per drive and year; scrub finds and mends them.
    pub latent_per_year: f64,
}

/// Why nothing can be said about a pool.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Too few drives for one stripe.
    #[error(
        "a stripe of {code} needs {width} drives, the pool has {drives}: give more drives or another layout"
    )]
    TooFewDrives {
        /// The code.
        code: Code,
        /// Its shards.
        width: u32,
        /// The pool's drives.
        drives: u32,
    },
    /// A number outside of its range.
    #[error("{name} is {value}: it must be {range}")]
    OutOfRange {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// The placement refused.
    #[error("placement of the simulated drives: {0}; check layout and number of drives")]
    Placement(String),
    /// The simulation would not end.
    #[error(
        "{years} years of {drives} drives come to about {events:.1e} events, more than \
         {limit:.0e}: simulate fewer years"
    )]
    TooLong {
        /// Years asked for.
        years: f64,
        /// Drives.
        drives: u32,
        /// Events expected.
        events: f64,
        /// The limit.
        limit: f64,
    },
}

impl Inputs {
    /// A pool of `drives` with this code; the other figures are common ones: AFR 1.36 %, 20 TB at 200 MB/s,
    /// half of it for rebuild, one hour to detect, scrub in 14 days, 1e-15 errors per bit.
    #[must_use]
    pub fn typical(code: Code, drives: u32) -> Self {
        Inputs {
            code,
            drives,
            afr: 0.0136,
            drive_bytes: 20e12,
            drive_speed: 200e6,
            rebuild_share: 0.5,
            method: Method::Declustered,
            scatter: None,
            groups: None,
            bandwidth: None,
            repair_reads: None,
            detection_hours: 1.0,
            window_hours: None,
            scrub_hours: 14.0 * 24.0,
            bit_error_rate: 1e-15,
            latent_per_year: 0.0,
        }
    }

    /// Checks all numbers against their ranges.
    ///
    /// # Errors
    /// [`InputError::TooFewDrives`], [`InputError::OutOfRange`].
    pub fn check(&self) -> Result<(), InputError> {
        let width = self.code.width();
        if self.drives < width {
            return Err(InputError::TooFewDrives { code: self.code, width, drives: self.drives });
        }
        let positive = "above 0";
        let checks = [
            (
                "the failure rate",
                self.afr,
                self.afr > 0.0 && self.afr <= 1000.0,
                "above 0, up to 1000 a year",
            ),
            ("the drive size", self.drive_bytes, self.drive_bytes > 0.0, positive),
            ("the drive speed", self.drive_speed, self.drive_speed > 0.0, positive),
            (
                "the rebuild share",
                self.rebuild_share,
                self.rebuild_share > 0.0 && self.rebuild_share <= 1.0,
                "above 0, up to 1",
            ),
            ("the bandwidth", self.bandwidth.unwrap_or(1.0), self.bandwidth.unwrap_or(1.0) > 0.0, positive),
            (
                "the number of shards read",
                self.repair_reads.unwrap_or(1.0),
                self.repair_reads.unwrap_or(1.0) > 0.0,
                positive,
            ),
            ("the detection delay", self.detection_hours, self.detection_hours >= 0.0, "0 or more"),
            (
                "the window",
                self.window_hours.unwrap_or(1.0),
                self.window_hours.unwrap_or(1.0) > 0.0,
                positive,
            ),
            ("the scrub interval", self.scrub_hours, self.scrub_hours > 0.0, positive),
            ("the bit error rate", self.bit_error_rate, (0.0..1.0).contains(&self.bit_error_rate), "0 to 1"),
            ("latent errors a year", self.latent_per_year, self.latent_per_year >= 0.0, "0 or more"),
            (
                "the number of groups",
                self.groups.unwrap_or(1) as f64,
                self.groups.unwrap_or(1) > 0,
                "1 or more",
            ),
            (
                "the scatter width",
                f64::from(self.scatter.unwrap_or(width)),
                self.scatter.is_none_or(|scatter| scatter + 1 >= width && scatter <= self.drives),
                "at least the stripe's other drives, at most all drives",
            ),
        ];
        match checks.iter().find(|(_, value, fits, _)| !fits || !value.is_finite()) {
            Some((name, value, _, range)) => Err(InputError::OutOfRange { name, value: *value, range }),
            None => Ok(()),
        }
    }
}
