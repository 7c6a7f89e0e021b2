//! Attributes of the cartridge memory (MAM) that an LTFS volume keeps.

use base::{BlockAddress, Generation, Uuid};

/// An attribute of the cartridge memory: its identifier and the length of its value in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MamAttribute {
    /// The attribute identifier of SPC.
    pub id: u16,
    /// Length of the value in bytes.
    pub length: u16,
}

/// Volume change reference: a counter that the drive raises with the first write after a load or after it
/// was read, and with every overwrite. Read only.
pub const VOLUME_CHANGE_REFERENCE: u16 = 0x0009;
/// Application vendor, 8 characters: [`APPLICATION_VENDOR_KIST`].
pub const APPLICATION_VENDOR: MamAttribute = MamAttribute { id: 0x0800, length: 8 };
/// Application name, 32 characters.
pub const APPLICATION_NAME: MamAttribute = MamAttribute { id: 0x0801, length: 32 };
/// Application version, 8 characters.
pub const APPLICATION_VERSION: MamAttribute = MamAttribute { id: 0x0802, length: 8 };
/// User medium text label, 160 bytes in the encoding that [`TEXT_LOCALIZATION`] names, filled with NUL.
pub const USER_MEDIUM_TEXT_LABEL: MamAttribute = MamAttribute { id: 0x0803, length: 160 };
/// Text localization identifier, one byte: [`TEXT_LOCALIZATION_UTF8`].
pub const TEXT_LOCALIZATION: MamAttribute = MamAttribute { id: 0x0805, length: 1 };
/// Barcode, 32 characters.
pub const BARCODE: MamAttribute = MamAttribute { id: 0x0806, length: 32 };
/// Application format version, 16 characters: the LTFS version, [`FORMAT_VERSION`].
pub const APPLICATION_FORMAT_VERSION: MamAttribute = MamAttribute { id: 0x080B, length: 16 };
/// Volume coherency information, one value for each partition: [`VolumeCoherency`].
pub const VOLUME_COHERENCY: MamAttribute = MamAttribute { id: 0x080C, length: VolumeCoherency::BYTES as u16 };

/// The value of [`APPLICATION_VENDOR`], before padding.
pub const APPLICATION_VENDOR_KIST: &str = "KIST";
/// The value of [`TEXT_LOCALIZATION`] for UTF-8.
pub const TEXT_LOCALIZATION_UTF8: u8 = 0x81;
/// The value of [`APPLICATION_FORMAT_VERSION`], before padding.
pub const FORMAT_VERSION: &str = "2.4.0";

impl MamAttribute {
    /// An ASCII value padded with blanks to the attribute's length. `None` if `text` is too long or not
    /// printable ASCII.
    #[must_use]
    pub fn ascii(self, text: &str) -> Option<Vec<u8>> {
        let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        self.fill(text, b' ').filter(|_| printable)
    }

    /// A UTF-8 value padded with NUL to the attribute's length. `None` if `text` is too long or holds NUL.
    #[must_use]
    pub fn text(self, text: &str) -> Option<Vec<u8>> {
        self.fill(text, 0).filter(|_| !text.contains('\0'))
    }

    fn fill(self, text: &str, with: u8) -> Option<Vec<u8>> {
        let length = usize::from(self.length);
        let mut value = text.as_bytes().to_vec();
        (value.len() <= length).then(|| {
            value.resize(length, with);
            value
        })
    }
}

/// A value of the drive's volume change reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ChangeReference(pub u64);

/// Volume coherency information: which index of a partition is its last. It holds as long as the drive's
/// volume change reference still equals the one stored; after that the partition must be searched.
///
/// 70 bytes, big-endian, as SCSI has it:
///
/// ```text
///  0  1  8, the length of the next field
///  1  8  volume change reference
///  9  8  index generation
/// 17  8  block at which the last index starts
/// 25  2  43, the length of the rest
/// 27  5  "LTFS\0"
/// 32 37  volume UUID as text and NUL
/// 69  1  1, the version
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeCoherency {
    /// The volume change reference when the index was written.
    pub change_reference: ChangeReference,
    /// The generation of that index.
    pub generation: Generation,
    /// Where it starts in its partition.
    pub index_block: BlockAddress,
    /// The volume.
    pub volume_uuid: Uuid,
}

/// Why a value is no volume coherency information.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoherencyError {
    /// The wrong length.
    #[error("volume coherency information has {0} bytes, not 70: search the partition for its last index")]
    Length(usize),
    /// One of the lengths within is wrong, or it was not written by an LTFS program.
    #[error("volume coherency information was not written by LTFS: search the partition for its last index")]
    NotLtfs,
    /// A version that is not known.
    #[error("volume coherency information has version {0}, not 1: search the partition for its last index")]
    Version(u8),
    /// The UUID is malformed.
    #[error("volume coherency information holds a malformed UUID: search the partition for its last index")]
    Uuid,
}

impl VolumeCoherency {
    /// Length of the value.
    pub const BYTES: usize = 70;

    /// The value as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let uuid = self.volume_uuid.to_string();
        let parts: [&[u8]; 9] = [
            &[8],
            &self.change_reference.0.to_be_bytes(),
            &self.generation.0.to_be_bytes(),
            &self.index_block.0.to_be_bytes(),
            &43u16.to_be_bytes(),
            b"LTFS\0",
            uuid.as_bytes(),
            &[0],
            &[1],
        ];
        let mut out = [0; Self::BYTES];
        let value = parts.concat();
        assert_eq!(value.len(), Self::BYTES, "the fields of volume coherency information fill it");
        out.copy_from_slice(&value);
        out
    }

    /// Reads a stored value.
    ///
    /// # Errors
    /// If it is anything but what [`VolumeCoherency::encode`] makes.
    pub fn parse(bytes: &[u8]) -> Result<Self, CoherencyError> {
        let wrong = || CoherencyError::Length(bytes.len());
        let value: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let (&change_length, rest) = value.split_first().ok_or_else(wrong)?;
        let (change, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (generation, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (block, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (name, rest) = rest.split_first_chunk::<5>().ok_or_else(wrong)?;
        let (uuid, rest) = rest.split_first_chunk::<36>().ok_or_else(wrong)?;
        let &[nul, version] = rest else { return Err(wrong()) };
        if change_length != 8 || u16::from_be_bytes(*length) != 43 || name != b"LTFS\0" || nul != 0 {
            return Err(CoherencyError::NotLtfs);
        }
        if version != 1 {
            return Err(CoherencyError::Version(version));
        }
        let uuid = std::str::from_utf8(uuid).ok().and_then(Uuid::parse).ok_or(CoherencyError::Uuid)?;
        Ok(VolumeCoherency {
            change_reference: ChangeReference(u64::from_be_bytes(*change)),
            generation: Generation(u64::from_be_bytes(*generation)),
            index_block: BlockAddress(u64::from_be_bytes(*block)),
            volume_uuid: uuid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded() {
        assert_eq!(APPLICATION_VENDOR.ascii(APPLICATION_VENDOR_KIST).unwrap(), b"KIST    ");
        assert_eq!(APPLICATION_VENDOR.ascii("too long for it"), None);
        assert_eq!(APPLICATION_VENDOR.ascii("é"), None);
        assert_eq!(USER_MEDIUM_TEXT_LABEL.text("é").unwrap().len(), 160);
        assert_eq!(USER_MEDIUM_TEXT_LABEL.text("a\0"), None);
    }

    #[test]
    fn each_part_is_checked() {
        let good = VolumeCoherency {
            change_reference: ChangeReference(1),
            generation: Generation(2),
            index_block: BlockAddress(3),
            volume_uuid: Uuid([7; 16]),
        };
        let bytes = good.encode();
        let with = |at: usize, value: u8| {
            let mut bytes = bytes;
            bytes[at] = value;
            VolumeCoherency::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(0, 7), CoherencyError::NotLtfs);
        assert_eq!(with(26, 42), CoherencyError::NotLtfs);
        assert_eq!(with(28, b'X'), CoherencyError::NotLtfs);
        assert_eq!(with(40, b'x'), CoherencyError::Uuid);
        assert_eq!(with(68, 1), CoherencyError::NotLtfs);
        assert_eq!(with(69, 2), CoherencyError::Version(2));
        assert_eq!(VolumeCoherency::parse(&bytes[..69]).unwrap_err(), CoherencyError::Length(69));
    }

    proptest! {
        #[test]
        fn round_trips(a in any::<u64>(), b in any::<u64>(), c in any::<u64>(), d in any::<[u8; 16]>()) {
            let value = VolumeCoherency {
                change_reference: ChangeReference(a),
                generation: Generation(b),
                index_block: BlockAddress(c),
                volume_uuid: Uuid(d),
            };
            prop_assert_eq!(VolumeCoherency::parse(&value.encode()), Ok(value));
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 60..80)) {
            let _ = VolumeCoherency::parse(&bytes);
        }
    }
}
