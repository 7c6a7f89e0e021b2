//! What a drive did, counted.

/// What a drive did in a stretch of time. All fields add up; see [`MotionReport::add`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MotionReport {
    /// Loading and threading, seconds.
    pub load_seconds: f64,
    /// Rewinding for the unload, and unloading.
    pub unload_seconds: f64,
    /// The tape ran under the head, reading or writing.
    pub streaming_seconds: f64,
    /// Locates, spaces and rewinds.
    pub locate_seconds: f64,
    /// Stopped, backed up and started again because the host was too slow.
    pub backhitch_seconds: f64,
    /// Flushes, apart from the streaming that empties the buffer.
    pub flush_seconds: f64,
    /// A tape was loaded and stood still, because the host gave or took nothing.
    pub waiting_seconds: f64,
    /// Locates that took time.
    pub locates: u64,
    /// Back-hitches.
    pub backhitches: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes that the host was given.
    pub bytes_read: u64,
    /// Bytes that the host gave.
    pub bytes_written: u64,
    /// Bytes that passed the head: read ahead for nothing included.
    pub bytes_streamed: u64,
    /// When the first byte was asked for or given; microseconds of the drive's clock.
    pub first_us: Option<u64>,
    /// When the last byte had been handed over.
    pub last_us: Option<u64>,
}

impl MotionReport {
    /// Takes in what was done in another stretch of time.
    pub fn add(&mut self, other: &MotionReport) {
        // Taken apart completely, so that a new field cannot be forgotten here.
        let MotionReport {
            load_seconds,
            unload_seconds,
            streaming_seconds,
            locate_seconds,
            backhitch_seconds,
            flush_seconds,
            waiting_seconds,
            locates,
            backhitches,
            flushes,
            bytes_read,
            bytes_written,
            bytes_streamed,
            first_us,
            last_us,
        } = *other;
        self.load_seconds += load_seconds;
        self.unload_seconds += unload_seconds;
        self.streaming_seconds += streaming_seconds;
        self.locate_seconds += locate_seconds;
        self.backhitch_seconds += backhitch_seconds;
        self.flush_seconds += flush_seconds;
        self.waiting_seconds += waiting_seconds;
        self.locates += locates;
        self.backhitches += backhitches;
        self.flushes += flushes;
        self.bytes_read += bytes_read;
        self.bytes_written += bytes_written;
        self.bytes_streamed += bytes_streamed;
        self.first_us = self.first_us.into_iter().chain(first_us).min();
        self.last_us = self.last_us.into_iter().chain(last_us).max();
    }

    /// From the first byte to the last, in seconds; 0 without any.
    #[must_use]
    pub fn transfer_seconds(&self) -> f64 {
        match (self.first_us, self.last_us) {
            (Some(first), Some(last)) => last.saturating_sub(first) as f64 / 1e6,
            _ => 0.0,
        }
    }

    /// Bytes a second between the first and the last byte, counting `bytes`; 0 without any time.
    #[must_use]
    pub fn rate_of(&self, bytes: u64) -> f64 {
        let seconds = self.transfer_seconds();
        if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
    }
}
