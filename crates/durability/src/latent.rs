//! Unreadable places that nobody knows of until a rebuild needs them.

use crate::inputs::{HOURS_PER_YEAR, Inputs};

/// Unreadable places on one shard's share of a drive, as a rebuild meets them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latent {
    /// Bytes of one group on one of its drives.
    pub bytes: f64,
    /// Expected from the bit error rate: bytes x 8 x rate.
    pub by_bits: f64,
    /// Expected from errors that arise and wait half a scrub interval, the group's part of the drive.
    pub by_time: f64,
}

impl Latent {
    /// For a group that has `bytes` on each of its drives.
    #[must_use]
    pub fn new(inputs: &Inputs, bytes: f64) -> Self {
        let part = bytes / inputs.drive_bytes;
        let waits = inputs.scrub_hours / 2.0 / HOURS_PER_YEAR;
        Latent {
            bytes,
            by_bits: bytes * 8.0 * inputs.bit_error_rate,
            by_time: inputs.latent_per_year * waits * part,
        }
    }

    /// Both together.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.by_bits + self.by_time
    }
}
