//! Where a medium stands and how long its blocks may be: READ POSITION (SSC-5, 7.7), READ BLOCK LIMITS
//! (SSC-5, 7.5) and READ END OF WRAP POSITION (IBM LTO SCSI reference, 5.2.20; tape.md 3.1).

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, set_length};

/// The short form of READ POSITION, 20 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionShort {
    /// At the begin of the partition.
    pub begin: bool,
    /// Between early warning and the end of the partition.
    pub end: bool,
    /// The count of buffered blocks is not known.
    pub count_unknown: bool,
    /// The count of buffered bytes is not known.
    pub bytes_unknown: bool,
    /// The location is not known, or does not fit: the block numbers mean nothing.
    pub unknown: bool,
    /// A number is too large for its field.
    pub overflow: bool,
    /// Beyond the programmable early warning.
    pub beyond_early_warning: bool,
    /// The partition.
    pub partition: u8,
    /// The block that comes next.
    pub first: u32,
    /// The block that goes to the medium next.
    pub last: u32,
    /// Blocks and filemarks in the buffer.
    pub buffered: u32,
    /// Bytes in the buffer.
    pub buffered_bytes: u32,
}

impl Packed for PositionShort {
    const NAME: &'static str = "READ POSITION, short form";
    const LENGTH: usize = 20;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.begin);
        l.flag(0, 6, &mut self.end);
        l.flag(0, 5, &mut self.count_unknown);
        l.flag(0, 4, &mut self.bytes_unknown);
        l.flag(0, 2, &mut self.unknown);
        l.flag(0, 1, &mut self.overflow);
        l.flag(0, 0, &mut self.beyond_early_warning);
        l.number(1, 1, &mut self.partition);
        l.number(4, 4, &mut self.first);
        l.number(8, 4, &mut self.last);
        l.number(13, 3, &mut self.buffered);
        l.number(16, 4, &mut self.buffered_bytes);
    }
}

/// The long form of READ POSITION, 32 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionLong {
    /// At the begin of the partition.
    pub begin: bool,
    /// Between early warning and the end of the partition.
    pub end: bool,
    /// The number of the file is not known.
    pub file_unknown: bool,
    /// The number of the block, and the partition, are not known.
    pub unknown: bool,
    /// Beyond the programmable early warning.
    pub beyond_early_warning: bool,
    /// The partition.
    pub partition: u32,
    /// Blocks and filemarks between the begin of the partition and here.
    pub object: u64,
    /// Filemarks between the begin of the partition and here.
    pub file: u64,
    /// Setmarks, obsolete.
    pub set: u64,
}

impl Packed for PositionLong {
    const NAME: &'static str = "READ POSITION, long form";
    const LENGTH: usize = 32;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.begin);
        l.flag(0, 6, &mut self.end);
        l.flag(0, 3, &mut self.file_unknown);
        l.flag(0, 2, &mut self.unknown);
        l.flag(0, 0, &mut self.beyond_early_warning);
        l.number(4, 4, &mut self.partition);
        l.number(8, 8, &mut self.object);
        l.number(16, 8, &mut self.file);
        l.number(24, 8, &mut self.set);
    }
}

/// The extended form of READ POSITION, 32 bytes: the short one with room for any block number.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // As in the short form.
pub struct PositionExtended {
    pub begin: bool,
    pub end: bool,
    pub count_unknown: bool,
    pub bytes_unknown: bool,
    pub unknown: bool,
    pub overflow: bool,
    pub beyond_early_warning: bool,
    pub partition: u8,
    /// Bytes behind this field, 28.
    pub additional_length: u16,
    pub buffered: u32,
    pub first: u64,
    pub last: u64,
    pub buffered_bytes: u64,
}

impl Default for PositionExtended {
    fn default() -> Self {
        PositionExtended {
            begin: false,
            end: false,
            count_unknown: false,
            bytes_unknown: false,
            unknown: false,
            overflow: false,
            beyond_early_warning: false,
            partition: 0,
            additional_length: 28,
            buffered: 0,
            first: 0,
            last: 0,
            buffered_bytes: 0,
        }
    }
}

impl Packed for PositionExtended {
    const NAME: &'static str = "READ POSITION, extended form";
    const LENGTH: usize = 32;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.begin);
        l.flag(0, 6, &mut self.end);
        l.flag(0, 5, &mut self.count_unknown);
        l.flag(0, 4, &mut self.bytes_unknown);
        l.flag(0, 2, &mut self.unknown);
        l.flag(0, 1, &mut self.overflow);
        l.flag(0, 0, &mut self.beyond_early_warning);
        l.number(1, 1, &mut self.partition);
        l.number(2, 2, &mut self.additional_length);
        l.number(5, 3, &mut self.buffered);
        l.number(8, 8, &mut self.first);
        l.number(16, 8, &mut self.last);
        l.number(24, 8, &mut self.buffered_bytes);
    }
}

/// READ BLOCK LIMITS, 6 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockLimits {
    /// Block lengths are multiples of 2 to the power of this.
    pub granularity: u8,
    /// The longest block in bytes, zero if there is no limit.
    pub longest: u32,
    /// The shortest block in bytes.
    pub shortest: u16,
}

impl Packed for BlockLimits {
    const NAME: &'static str = "READ BLOCK LIMITS data";
    const LENGTH: usize = 6;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.bits(0, 0, 5, &mut self.granularity);
        l.number(1, 3, &mut self.longest);
        l.number(4, 2, &mut self.shortest);
    }
}

/// READ BLOCK LIMITS with MLOI, 20 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectLimit {
    /// The greatest number that a block or filemark can have.
    pub greatest: u64,
}

impl Packed for ObjectLimit {
    const NAME: &'static str = "READ BLOCK LIMITS data, maximum logical object identifier";
    const LENGTH: usize = 20;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(12, 8, &mut self.greatest);
    }
}

/// READ END OF WRAP POSITION, short form, 10 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrapEnd {
    /// Bytes behind this field, 8.
    pub length: u16,
    /// The block or filemark at the end of the wrap.
    pub object: u64,
}

impl Default for WrapEnd {
    fn default() -> Self {
        WrapEnd { length: 8, object: 0 }
    }
}

impl Packed for WrapEnd {
    const NAME: &'static str = "READ END OF WRAP POSITION, short form";
    const LENGTH: usize = 10;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 2, &mut self.length);
        l.number(4, 6, &mut self.object);
    }
}

/// A wrap in the long form of READ END OF WRAP POSITION, 12 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wrap {
    /// The number of the wrap.
    pub wrap: u16,
    /// The partition in which it lies.
    pub partition: u16,
    /// The block or filemark at its end.
    pub object: u64,
}

impl Packed for Wrap {
    const NAME: &'static str = "wrap descriptor";
    const LENGTH: usize = 12;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 2, &mut self.wrap);
        l.number(2, 2, &mut self.partition);
        l.number(6, 6, &mut self.object);
    }
}

/// READ END OF WRAP POSITION, long form: all wraps in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WrapEnds(pub Vec<Wrap>);

impl WrapEnds {
    const NAME: &'static str = "READ END OF WRAP POSITION, long form";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or its length is not that of whole descriptors.
    pub fn decode(bytes: &[u8]) -> Result<WrapEnds, Malformed> {
        let mut reader = Reader::new(WrapEnds::NAME, bytes);
        let length = reader.length16()?;
        if length < 2 || !(length - 2).is_multiple_of(Wrap::LENGTH) {
            return Err(reader.fault(0, Fault::Length { field: "the response data length", value: length }));
        }
        let mut list = reader.part(WrapEnds::NAME, length)?;
        list.take(2)?;
        let mut wraps = Vec::new();
        while !list.is_empty() {
            wraps.push(list.packed()?);
        }
        Ok(WrapEnds(wraps))
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 5,461 wraps.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        self.0.iter().for_each(|wrap| out.extend(wrap.encode()));
        let length = out.len() - 2;
        set_length(&mut out, 0, 2, length);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    #[test]
    fn hold_as_structures() {
        packed::<PositionShort>();
        packed::<PositionLong>();
        packed::<PositionExtended>();
        packed::<BlockLimits>();
        packed::<ObjectLimit>();
        packed::<WrapEnd>();
        packed::<Wrap>();
    }

    #[test]
    fn positions_are_the_bytes_of_the_tables() {
        let long =
            PositionLong { partition: 1, object: 0x0102_0304_0506, file: 7, ..PositionLong::default() };
        let bytes = hex(
            "00 00 00 00 00 00 00 01 00 00 01 02 03 04 05 06 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 00",
        );
        assert_eq!((long.encode(), PositionLong::decode(&bytes)), (bytes, Ok(long)));
        let short =
            PositionShort { begin: true, count_unknown: true, bytes_unknown: true, ..Default::default() };
        assert_eq!(short.encode()[..4], [0xb0, 0, 0, 0]);
        // LTO drives: any length from 1 byte to 8 MiB (IBM LTO SCSI reference, READ BLOCK LIMITS).
        let limits = BlockLimits::decode(&hex("00 80 00 00 00 01")).unwrap();
        assert_eq!((limits.longest, limits.shortest, limits.granularity), (8 << 20, 1, 0));
    }

    #[test]
    fn wraps_are_read_as_tape_md_has_them() {
        let bytes =
            hex("00 1a 00 00 00 00 00 00 00 00 00 00 00 00 00 10 00 01 00 01 00 00 00 00 01 00 00 00");
        let ends = WrapEnds::decode(&bytes).unwrap();
        assert_eq!(ends.0[1], Wrap { wrap: 1, partition: 1, object: 1 << 24 });
        assert_eq!(ends.encode(), bytes);
        assert_eq!(WrapEnds::decode(&hex("00 1b 00 00")).unwrap_err().at, 0);
    }

    #[test]
    fn nothing_panics() {
        any_bytes(&[WrapEnds(vec![Wrap::default(); 3]).encode()], |bytes| {
            if let Ok(ends) = WrapEnds::decode(bytes) {
                assert_eq!(WrapEnds::decode(&ends.encode()), Ok(ends));
            }
        });
    }
}
