//! Cleaning of tape drives.

use base::Timestamp;

/// A cleaning cartridge that was used.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CleanerRecord {
    /// How often it was used.
    pub uses: u32,
    /// Why it is used no more; `None`: it is.
    pub unfit: Option<String>,
}

/// A drive asks to be cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleaningAsk {
    /// It must be cleaned before it is used; if not, in idle time.
    pub urgent: bool,
    /// Since when.
    pub since: Timestamp,
}

/// What is known of a drive's cleaning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriveCleaning {
    /// It asks for it.
    pub asks: Option<CleaningAsk>,
    /// When it was cleaned last by us.
    pub cleaned: Option<Timestamp>,
}
