//! Identifiers. Each is its own type, so that no two can be confused.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id!(/// One version of one file; rises in order of ingest and is never used again.
    FileId(u64));
id!(/// A directory. The root is 1. Drawn from the same counter as [`FileId`].
    DirId(u64));
id!(/// What is written to tape as one LTFS file: a pack, a large file, or a segment of one.
    ContainerId(u64));
id!(/// A recall request of a user.
    RequestId(u64));
id!(/// An upload in parts that is not complete yet.
    UploadId(u64));
id!(/// One tape session that writes: the durable intent record and what follows it.
    RunId(u64));
id!(/// An ordered list of drives that stripes are laid over.
    StripeSetId(u32));
id!(/// A drive of the pool, not of the tape library.
    DriveId(u16));
id!(/// A group of drives of the pool that hold what classes give them. 0: the drives that are in no group,
    /// which hold all else.
    DriveGroup(u8));
id!(/// A storage class.
    ClassId(u16));
id!(/// A tape pool: the set of tapes that one copy of a class goes to.
    TapePoolId(u16));
id!(/// A virtual organisation or a class of work that has a share of the tape drives. 0: none in particular.
    ShareId(u16));
id!(/// A tape library, or a site: drives take tapes of their own only. 0: the only one.
    LibraryId(u16));
id!(/// How often the writer of this instance was started. Part of each [`BlobId`].
    Epoch(u32));

impl DriveGroup {
    /// The drives that are in no group.
    pub const MAIN: DriveGroup = DriveGroup(0);
}

impl DirId {
    /// The root directory.
    pub const ROOT: DirId = DirId(1);
}

/// A blob of the pool: 24 bits of the writer's durable epoch, then 40 bits of sequence.
///
/// The epoch is what makes a blob of a crashed writer recognisable as garbage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlobId(pub u64);

impl BlobId {
    /// The largest sequence number within one epoch.
    pub const SEQUENCE_MAX: u64 = (1 << 40) - 1;
    /// The largest epoch.
    pub const EPOCH_MAX: u32 = (1 << 24) - 1;

    /// Puts an id together. `None` if one of the parts is out of range.
    #[must_use]
    pub fn new(epoch: Epoch, sequence: u64) -> Option<Self> {
        (epoch.0 <= Self::EPOCH_MAX && sequence <= Self::SEQUENCE_MAX)
            .then(|| BlobId((u64::from(epoch.0) << 40) | sequence))
    }

    /// The epoch of the writer that made this blob.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch((self.0 >> 40) as u32)
    }

    /// The number of this blob within its epoch.
    #[must_use]
    pub fn sequence(self) -> u64 {
        self.0 & Self::SEQUENCE_MAX
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

/// A volume identifier: the six characters `[A-Z0-9]` of a cartridge's barcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vid([u8; 6]);

/// Why a text is no volume identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a VID: a VID is exactly six characters A-Z or 0-9")]
pub struct VidError(pub String);

impl Vid {
    /// Reads a VID.
    ///
    /// # Errors
    /// If `text` is not exactly six characters of `A-Z0-9`.
    pub fn new(text: &str) -> Result<Self, VidError> {
        let bytes: [u8; 6] = text.as_bytes().try_into().map_err(|_| VidError(text.to_owned()))?;
        if bytes.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
            Ok(Vid(bytes))
        } else {
            Err(VidError(text.to_owned()))
        }
    }

    /// The six bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }

    /// The six characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("??????")
    }
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vid({self})")
    }
}

/// A 128-bit identifier, written in the usual 8-4-4-4-12 form. Random ones are made by the shell, not here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Makes a version 4 UUID of 16 random bytes.
    #[must_use]
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid(bytes)
    }

    /// Reads the 36-character form. `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 36 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0u8; 16];
        let mut digits = 0usize;
        for (at, c) in text.bytes().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return None;
                }
                continue;
            }
            let value = u8::try_from((c as char).to_digit(16)?).ok()?;
            bytes[digits / 2] = (bytes[digits / 2] << 4) | value;
            digits += 1;
        }
        Some(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_id_keeps_its_parts() {
        let id = BlobId::new(Epoch(7), 9).unwrap();
        assert_eq!((id.epoch(), id.sequence()), (Epoch(7), 9));
        assert!(BlobId::new(Epoch(BlobId::EPOCH_MAX), BlobId::SEQUENCE_MAX).is_some());
        assert!(BlobId::new(Epoch(BlobId::EPOCH_MAX + 1), 0).is_none());
        assert!(BlobId::new(Epoch(0), BlobId::SEQUENCE_MAX + 1).is_none());
    }

    #[test]
    fn vid_is_six_characters() {
        assert_eq!(Vid::new("KS0001").unwrap().as_str(), "KS0001");
        for bad in ["", "KS001", "KS00001", "ks0001", "KS 001", "KS00é"] {
            assert!(Vid::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn uuid_round_trips() {
        let id = Uuid::from_random([0xab; 16]);
        assert_eq!(Uuid::parse(&id.to_string()), Some(id));
        assert_eq!(Uuid::parse("nonsense"), None);
        assert_eq!(Uuid::parse(&"-".repeat(36)), None);
    }
}
