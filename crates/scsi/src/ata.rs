//! SMART of ATA disks: the attributes, and below which values they announce a failure.
//!
//! The structure is of ATA/ATAPI-5 (8.41.5 and 8.41.6: attribute entries of 12 bytes, thresholds of 12 bytes)
//! and became vendor specific later; disks still have it so (smartmontools, `atacmds.h`,
//! `ata_smart_values`, `ata_smart_thresholds_pvt`).

use crate::bytes::{Fault, Malformed, Reader};

/// The length of either structure.
pub const SMART_LENGTH: usize = 512;
/// Entries of attributes in one.
const ENTRIES: usize = 30;

/// Numbers of attributes that most vendors use alike (smartmontools, `drivedb.h`, the DEFAULT entry).
pub mod attribute {
    /// Sectors that were replaced by spare ones.
    pub const REALLOCATED_SECTORS: u8 = 5;
    /// Hours with power.
    pub const POWER_ON_HOURS: u8 = 9;
    /// Errors that reached the host uncorrected.
    pub const REPORTED_UNCORRECTED: u8 = 187;
    /// Degrees Celsius in the low byte of the raw value.
    pub const TEMPERATURE: u8 = 194;
    /// Sectors that wait to be replaced.
    pub const PENDING_SECTORS: u8 = 197;
    /// Sectors that could not be read in an offline scan.
    pub const OFFLINE_UNCORRECTABLE: u8 = 198;
    /// Checksum errors of the link.
    pub const LINK_CHECKSUM_ERRORS: u8 = 199;
}

/// An attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SmartAttribute {
    /// Its number; zero is an entry that is not used.
    pub id: u8,
    /// Its flags. Bit 0: a value that has fallen to its threshold announces a failure.
    pub flags: u16,
    /// The normalised value: falls from 253 or less as the attribute gets worse.
    pub value: u8,
    /// The least that it was.
    pub worst: u8,
    /// The raw value, six bytes, the least significant first.
    pub raw: [u8; 6],
}

impl SmartAttribute {
    /// Whether a low value announces a failure.
    #[must_use]
    pub fn is_prefailure(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The raw value as a number.
    #[must_use]
    pub fn raw_number(&self) -> u64 {
        let [a, b, c, d, e, f] = self.raw;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// What all 512 bytes of a structure add up to: zero, if it is whole.
fn checked(structure: &'static str, bytes: &[u8]) -> Result<(), Malformed> {
    let Some(all) = bytes.get(..SMART_LENGTH) else {
        let fault = Fault::Short { needed: SMART_LENGTH, have: bytes.len() };
        return Err(Malformed { structure, at: bytes.len(), fault });
    };
    let sum = all.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if sum != 0 {
        let fault = Fault::Value { field: "the checksum", value: u64::from(sum) };
        return Err(Malformed { structure, at: SMART_LENGTH - 1, fault });
    }
    Ok(())
}

/// Reads the attributes.
///
/// # Errors
/// If there are fewer than 512 bytes or their checksum is wrong.
pub fn attributes(bytes: &[u8]) -> Result<Vec<SmartAttribute>, Malformed> {
    const NAME: &str = "SMART data";
    checked(NAME, bytes)?;
    let mut reader = Reader::new(NAME, bytes);
    reader.take(2)?;
    let mut all = Vec::new();
    for _ in 0..ENTRIES {
        let [id, low, high, value, worst] = reader.array()?;
        let raw = reader.array()?;
        reader.take(1)?;
        if id != 0 {
            all.push(SmartAttribute { id, flags: u16::from_le_bytes([low, high]), value, worst, raw });
        }
    }
    Ok(all)
}

/// Reads the thresholds: numbers of attributes and the least healthy value of each.
///
/// # Errors
/// If there are fewer than 512 bytes or their checksum is wrong.
pub fn thresholds(bytes: &[u8]) -> Result<Vec<(u8, u8)>, Malformed> {
    const NAME: &str = "SMART thresholds";
    checked(NAME, bytes)?;
    let mut reader = Reader::new(NAME, bytes);
    reader.take(2)?;
    let mut all = Vec::new();
    for _ in 0..ENTRIES {
        let [id, threshold] = reader.array()?;
        reader.take(10)?;
        if id != 0 {
            all.push((id, threshold));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::any_bytes;

    fn whole(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(SMART_LENGTH - 1, 0);
        let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        bytes.push(sum.wrapping_neg());
        bytes
    }

    #[test]
    fn attributes_and_thresholds_are_read_and_a_wrong_sum_is_refused() {
        let entry = [5, 0x33, 0x00, 98, 97, 0x2a, 0x01, 0, 0, 0, 0, 0];
        let data = whole([&[16, 0][..], &entry].concat());
        let read = attributes(&data).unwrap();
        let [one] = read[..] else { panic!("{read:?}") };
        assert_eq!((one.id, one.value, one.worst, one.raw_number()), (5, 98, 97, 298));
        assert!(one.is_prefailure());
        let limits = whole([&[16, 0][..], &[5, 10], &[0; 10], &[9, 0]].concat());
        assert_eq!(thresholds(&limits), Ok(vec![(5, 10), (9, 0)]));
        let mut torn = data.clone();
        torn[7] ^= 1;
        assert_eq!(attributes(&torn).unwrap_err().at, SMART_LENGTH - 1);
        assert!(attributes(&data[..SMART_LENGTH - 1]).is_err());
    }

    #[test]
    fn nothing_panics() {
        any_bytes(&[whole(vec![16, 0, 5])], |bytes| {
            let _ = (attributes(bytes), thresholds(bytes));
        });
    }
}
