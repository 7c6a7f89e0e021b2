//! What a drive did, counted.

/// What a drive did since its tape was mounted, until and with its unload.
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
    /// When the first byte since the last report was asked for or given; microseconds of the drive's clock.
    pub first_us: Option<u64>,
    /// When the last byte since the last report had been handed over.
    pub last_us: Option<u64>,
}

impl MotionReport {
    /// What was done between an earlier report of the same mount and this one. The bounds of the transfers
    /// stay those of this one.
    #[must_use]
    pub fn since(&self, earlier: &MotionReport) -> MotionReport {
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
        } = *self;
        MotionReport {
            load_seconds: load_seconds - earlier.load_seconds,
            unload_seconds: unload_seconds - earlier.unload_seconds,
            streaming_seconds: streaming_seconds - earlier.streaming_seconds,
            locate_seconds: locate_seconds - earlier.locate_seconds,
            backhitch_seconds: backhitch_seconds - earlier.backhitch_seconds,
            flush_seconds: flush_seconds - earlier.flush_seconds,
            waiting_seconds: waiting_seconds - earlier.waiting_seconds,
            locates: locates.saturating_sub(earlier.locates),
            backhitches: backhitches.saturating_sub(earlier.backhitches),
            flushes: flushes.saturating_sub(earlier.flushes),
            bytes_read: bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: bytes_written.saturating_sub(earlier.bytes_written),
            bytes_streamed: bytes_streamed.saturating_sub(earlier.bytes_streamed),
            first_us,
            last_us,
        }
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
