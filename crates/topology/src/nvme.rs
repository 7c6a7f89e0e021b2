//! What an NVMe drive says of its state: the SMART / Health Information log page 02h (NVM Express Base
//! Specification 2.0, 5.16.1.3). Its numbers have their least significant byte first.

/// The length of the page.
pub const LOG_LENGTH: usize = 512;
/// Its code.
pub const LOG_PAGE: u8 = 0x02;

/// The page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SmartLog {
    /// Bits of warnings.
    pub critical_warning: u8,
    /// Kelvin of the controller.
    pub kelvin: u16,
    /// Percent of spare capacity that are left.
    pub spare_percent: u8,
    /// Percent below which that is a warning.
    pub spare_threshold_percent: u8,
    /// Percent of its life that are used: may exceed 100.
    pub used_percent: u8,
    /// Thousands of 512 bytes that were read.
    pub data_units_read: u128,
    /// Thousands of 512 bytes that were written.
    pub data_units_written: u128,
    /// Hours with power.
    pub power_on_hours: u128,
    /// Times that power went without a warning.
    pub unsafe_shutdowns: u128,
    /// Errors of data that were not corrected.
    pub media_errors: u128,
    /// Entries that the error log has had.
    pub error_entries: u128,
}

impl SmartLog {
    /// Spare capacity is below its threshold.
    pub const SPARE_LOW: u8 = 0x01;
    /// A temperature is beyond its threshold.
    pub const TEMPERATURE: u8 = 0x02;
    /// Reliability is degraded by errors of the media or within.
    pub const DEGRADED: u8 = 0x04;
    /// The media can only be read.
    pub const READ_ONLY: u8 = 0x08;
    /// What keeps the cache over a loss of power has failed.
    pub const BACKUP_FAILED: u8 = 0x10;

    /// Reads it; `None` if it is cut off.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<SmartLog> {
        let all: &[u8; LOG_LENGTH] = bytes.get(..LOG_LENGTH)?.try_into().ok()?;
        let byte = |at: usize| all.get(at).copied().unwrap_or(0);
        let wide = |at: usize| {
            let field = all.get(at..at + 16).and_then(|field| field.try_into().ok());
            u128::from_le_bytes(field.unwrap_or_default())
        };
        Some(SmartLog {
            critical_warning: byte(0),
            kelvin: u16::from_le_bytes([byte(1), byte(2)]),
            spare_percent: byte(3),
            spare_threshold_percent: byte(4),
            used_percent: byte(5),
            data_units_read: wide(32),
            data_units_written: wide(48),
            power_on_hours: wide(128),
            unsafe_shutdowns: wide(144),
            media_errors: wide(160),
            error_entries: wide(176),
        })
    }

    /// Degrees Celsius; `None` if the drive does not tell.
    #[must_use]
    pub fn celsius(&self) -> Option<i16> {
        (self.kelvin != 0).then(|| i16::try_from(i32::from(self.kelvin) - 273).unwrap_or(i16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut page = vec![0; LOG_LENGTH];
        page[..6].copy_from_slice(&[0x04, 0x3c, 0x01, 99, 10, 3]);
        page[128] = 0x10;
        page[129] = 0x27;
        page[160] = 7;
        page[176] = 9;
        let read = SmartLog::decode(&page).unwrap();
        assert_eq!(read.critical_warning & SmartLog::DEGRADED, SmartLog::DEGRADED);
        assert_eq!((read.celsius(), read.spare_percent, read.used_percent), (Some(43), 99, 3));
        assert_eq!((read.power_on_hours, read.media_errors, read.error_entries), (10_000, 7, 9));
        assert_eq!(SmartLog::decode(&page[..511]), None);
    }
}
