//! Log pages of medium changers (SMC-3, 6.5): what the robot has done, and its TapeAlert flags, which mean
//! other things than those of tape drives.

/// Parameters of the media changer statistics page 14h (SMC-3; `sg_logs` of sg3_utils reads them alike).
pub mod changer_statistics {
    /// Cartridges that were moved.
    pub const MOVES: u16 = 0x0000;
    /// Grips at an element.
    pub const PICKS: u16 = 0x0001;
    /// Grips that were tried again.
    pub const PICK_RETRIES: u16 = 0x0002;
    /// Cartridges put down.
    pub const PLACES: u16 = 0x0003;
    /// Those that were tried again.
    pub const PLACE_RETRIES: u16 = 0x0004;
    /// Volume tags that were read.
    pub const TAGS_READ: u16 = 0x0005;
    /// Volume tags that could not be read.
    pub const TAGS_INVALID: u16 = 0x0006;
    /// Times that the door of the library was opened.
    pub const DOOR_OPENS: u16 = 0x0007;
    /// Times that the door of the import and export elements was opened.
    pub const IMPORT_EXPORT_OPENS: u16 = 0x0008;
    /// Times that the robot looked at all cartridges.
    pub const SCANS: u16 = 0x0009;
}

/// The name of a changer's TapeAlert flag.
#[must_use]
pub fn changer_alert_name(flag: u8) -> Option<&'static str> {
    let index = usize::from(flag).checked_sub(1)?;
    CHANGER_ALERTS.get(index).copied()
}

/// Names of the TapeAlert flags of changers (SMC-3, annex A), the first is that of flag 1. There are no
/// others.
pub const CHANGER_ALERTS: [&str; 32] = [
    "library hardware A",
    "library hardware B",
    "library hardware C",
    "library hardware D",
    "library diagnostics required",
    "library interface",
    "predictive failure",
    "library maintenance",
    "library humidity limits",
    "library temperature limits",
    "library voltage limits",
    "library stray tape",
    "library pick retry",
    "library place retry",
    "library load retry",
    "library door",
    "library mailslot",
    "library magazine",
    "library security",
    "library security mode",
    "library offline",
    "library drive offline",
    "library scan retry",
    "library inventory",
    "library illegal operation",
    "dual-port interface error",
    "cooling fan failure",
    "power supply",
    "power consumption",
    "pass-through mechanism failure",
    "cartridge in pass-through mechanism",
    "unreadable bar code labels",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tape_alert_name;

    /// The same number is another matter of a changer than of a drive.
    #[test]
    fn flags_of_a_changer_have_names_of_their_own() {
        assert_eq!(
            (changer_alert_name(16), tape_alert_name(16)),
            (Some("library door"), Some("forced eject"))
        );
        assert_eq!(changer_alert_name(32), Some("unreadable bar code labels"));
        assert_eq!((changer_alert_name(0), changer_alert_name(33)), (None, None));
    }
}
