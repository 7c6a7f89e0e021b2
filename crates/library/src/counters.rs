//! What a drive counts of its transfers and errors.

use base::ByteCount;

/// Errors of one direction, since a point that the drive chooses. What it does not tell is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ErrorCounters {
    /// Errors that it corrected.
    pub corrected: Option<u64>,
    /// Blocks that it wrote or read again.
    pub retries: Option<u64>,
    /// Errors that it could not correct.
    pub uncorrected: Option<u64>,
}

/// What a drive is, as its INQUIRY data say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DriveProduct {
    /// Its vendor.
    pub vendor: String,
    /// Its model.
    pub product: String,
    /// The revision of its firmware.
    pub firmware: String,
    /// Its serial number.
    pub serial: String,
}

/// What a drive counts, since a point that it chooses: its life, the last load, a reset. Two of these are
/// compared by [`DriveCounters::since`]. What it does not tell is `None`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DriveCounters {
    /// Bytes written to the medium.
    pub written: Option<ByteCount>,
    /// Bytes read from the medium.
    pub read: Option<ByteCount>,
    /// Errors on writing.
    pub writing: ErrorCounters,
    /// Errors on reading.
    pub reading: ErrorCounters,
    /// Its temperature in degrees Celsius, as it is now.
    pub celsius: Option<u8>,
    /// What it is.
    pub product: Option<DriveProduct>,
}

/// A counter that is lower than before was reset meanwhile, as some drives do at each load: then all of it is
/// new.
fn risen(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    let (now, before) = (now?, before?);
    Some(now.checked_sub(before).unwrap_or(now))
}

impl ErrorCounters {
    fn since(&self, before: &ErrorCounters) -> ErrorCounters {
        ErrorCounters {
            corrected: risen(self.corrected, before.corrected),
            retries: risen(self.retries, before.retries),
            uncorrected: risen(self.uncorrected, before.uncorrected),
        }
    }
}

impl DriveCounters {
    /// What was counted since `before`; `None` where one of the two does not tell.
    #[must_use]
    pub fn since(self, before: &DriveCounters) -> DriveCounters {
        let bytes = |now: Option<ByteCount>, before: Option<ByteCount>| {
            risen(now.map(|bytes| bytes.0), before.map(|bytes| bytes.0)).map(ByteCount)
        };
        DriveCounters {
            written: bytes(self.written, before.written),
            read: bytes(self.read, before.read),
            writing: self.writing.since(&before.writing),
            reading: self.reading.since(&before.reading),
            celsius: self.celsius,
            product: self.product,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_between_two_moments() {
        let at = |written, corrected| DriveCounters {
            written: Some(ByteCount(written)),
            writing: ErrorCounters { corrected, ..ErrorCounters::default() },
            celsius: Some(40),
            ..DriveCounters::default()
        };
        let mount = at(500, Some(7)).since(&at(100, Some(4)));
        assert_eq!((mount.written, mount.writing.corrected), (Some(ByteCount(400)), Some(3)));
        assert_eq!((mount.read, mount.celsius), (None, Some(40)));
        // A drive that begins anew at each load.
        let mount = at(500, Some(3)).since(&at(900, Some(4)));
        assert_eq!((mount.written, mount.writing.corrected), (Some(ByteCount(500)), Some(3)));
        // Without a value before, what stands there now may be that of a drive's life.
        assert_eq!(at(500, Some(9)).since(&at(0, None)).writing.corrected, None);
    }
}
