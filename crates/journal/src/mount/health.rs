//! What a drive says of itself at the end of a mount.

use base::ByteCount;

/// The highest number of a TapeAlert flag.
pub(crate) const ALERT_MAX: u8 = 64;

/// Errors of one direction during a mount. What the drive does not tell is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ErrorRecord {
    /// Errors that the drive corrected.
    pub corrected: Option<u64>,
    /// Blocks that it wrote or read again.
    pub retries: Option<u64>,
    /// Errors that it could not correct.
    pub uncorrected: Option<u64>,
}

/// What a drive counted between `loaded` and `unmounting`. What it does not tell is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CounterRecord {
    /// Bytes written to the medium, as compressed.
    pub written: Option<ByteCount>,
    /// Bytes read from it.
    pub read: Option<ByteCount>,
    /// Errors on writing.
    pub writing: ErrorRecord,
    /// Errors on reading.
    pub reading: ErrorRecord,
    /// The drive's temperature at the end, in degrees Celsius.
    pub celsius: Option<u8>,
}

/// What a drive is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct ProductRecord {
    /// Its vendor.
    pub vendor: String,
    /// Its model.
    pub product: String,
    /// The revision of its firmware.
    pub firmware: String,
    /// Its serial number.
    pub serial: String,
}
