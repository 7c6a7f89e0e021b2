//! Attributes of a medium's memory (MAM): READ and WRITE ATTRIBUTE (SPC-5, 6.20, 6.44 and 7.4).

use crate::bytes::{Malformed, Reader, set_length, text_of};
use crate::code::codes;

codes! {
    open
    /// How the value of an attribute is written.
    AttributeFormat {
        Binary = 0 "binary",
        Ascii = 1 "ASCII",
        Text = 2 "text",
    }
}

/// The identifiers of attributes.
pub mod id {
    /// MiB left in the partition.
    pub const REMAINING_CAPACITY: u16 = 0x0000;
    /// MiB that the partition holds.
    pub const MAXIMUM_CAPACITY: u16 = 0x0001;
    /// TapeAlert flags.
    pub const TAPE_ALERTS: u16 = 0x0002;
    /// How often the medium was loaded.
    pub const LOAD_COUNT: u16 = 0x0003;
    /// Bytes left in the memory.
    pub const MEMORY_REMAINING: u16 = 0x0004;
    /// Who assigned the density code.
    pub const ASSIGNING_ORGANIZATION: u16 = 0x0005;
    /// The density it is formatted with.
    pub const FORMATTED_DENSITY: u16 = 0x0006;
    /// How often it was formatted.
    pub const INITIALIZATION_COUNT: u16 = 0x0007;
    /// The volume's identifier.
    pub const VOLUME_IDENTIFIER: u16 = 0x0008;
    /// Counts writing; see crate `ltfs`, volume coherency.
    pub const VOLUME_CHANGE_REFERENCE: u16 = 0x0009;
    /// MiB written in its life.
    pub const WRITTEN_IN_LIFE: u16 = 0x0220;
    /// MiB read in its life.
    pub const READ_IN_LIFE: u16 = 0x0221;
    /// MiB written since it was loaded.
    pub const WRITTEN_SINCE_LOAD: u16 = 0x0222;
    /// MiB read since it was loaded.
    pub const READ_SINCE_LOAD: u16 = 0x0223;
    /// What happened to it.
    pub const MEDIUM_USAGE_HISTORY: u16 = 0x0340;
    /// Who made the medium.
    pub const MEDIUM_MANUFACTURER: u16 = 0x0400;
    /// The medium's serial number.
    pub const MEDIUM_SERIAL: u16 = 0x0401;
    /// Who assigned the medium's density code.
    pub const MEDIUM_ORGANIZATION: u16 = 0x0404;
    /// The density that it is made for.
    pub const MEDIUM_DENSITY: u16 = 0x0405;
    /// The kind of medium: 0 data, 1 cleaning, 80h WORM.
    pub const MEDIUM_TYPE: u16 = 0x0408;
    /// The barcode.
    pub const BARCODE: u16 = 0x0806;
    /// Whether the volume is locked (LTFS).
    pub const VOLUME_LOCK_STATE: u16 = 0x1623;
}

/// What is known of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeKind {
    /// Its identifier.
    pub id: u16,
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub format: AttributeFormat,
    /// Its length in bytes, zero if it varies.
    pub length: u16,
}

/// The attributes that are known, in order of identifiers (SPC-5, 7.4.2; 1623h LTFS 2.5, annex).
pub const ATTRIBUTES: &[AttributeKind] = {
    use AttributeFormat::{Ascii, Binary, Text};
    const fn kind(id: u16, length: u16, format: AttributeFormat, name: &'static str) -> AttributeKind {
        AttributeKind { id, name, format, length }
    }
    &[
        kind(0x0000, 8, Binary, "remaining capacity in partition, MiB"),
        kind(0x0001, 8, Binary, "maximum capacity in partition, MiB"),
        kind(0x0002, 8, Binary, "TapeAlert flags"),
        kind(0x0003, 8, Binary, "load count"),
        kind(0x0004, 8, Binary, "MAM space remaining, bytes"),
        kind(0x0005, 8, Ascii, "assigning organization of the format"),
        kind(0x0006, 1, Binary, "formatted density code"),
        kind(0x0007, 2, Binary, "initialization count"),
        kind(0x0008, 32, Ascii, "volume identifier"),
        kind(0x0009, 0, Binary, "volume change reference"),
        kind(0x020a, 40, Ascii, "device vendor and serial number at last load"),
        kind(0x020b, 40, Ascii, "device vendor and serial number at load -1"),
        kind(0x020c, 40, Ascii, "device vendor and serial number at load -2"),
        kind(0x020d, 40, Ascii, "device vendor and serial number at load -3"),
        kind(0x0220, 8, Binary, "written in medium life, MiB"),
        kind(0x0221, 8, Binary, "read in medium life, MiB"),
        kind(0x0222, 8, Binary, "written in last load, MiB"),
        kind(0x0223, 8, Binary, "read in last load, MiB"),
        kind(0x0224, 8, Binary, "logical position of first encrypted block"),
        kind(0x0225, 8, Binary, "logical position of first unencrypted block after the first encrypted one"),
        kind(0x0340, 90, Binary, "medium usage history"),
        kind(0x0341, 60, Binary, "partition usage history"),
        kind(0x0400, 8, Ascii, "medium manufacturer"),
        kind(0x0401, 32, Ascii, "medium serial number"),
        kind(0x0402, 4, Binary, "medium length, m"),
        kind(0x0403, 4, Binary, "medium width, 0.1 mm"),
        kind(0x0404, 8, Ascii, "assigning organization of the medium"),
        kind(0x0405, 1, Binary, "medium density code"),
        kind(0x0406, 8, Ascii, "medium manufacture date"),
        kind(0x0407, 8, Binary, "MAM capacity, bytes"),
        kind(0x0408, 1, Binary, "medium type"),
        kind(0x0409, 2, Binary, "medium type information"),
        kind(0x0800, 8, Ascii, "application vendor"),
        kind(0x0801, 32, Ascii, "application name"),
        kind(0x0802, 8, Ascii, "application version"),
        kind(0x0803, 160, Text, "user medium text label"),
        kind(0x0804, 12, Ascii, "date and time last written"),
        kind(0x0805, 1, Binary, "text localization identifier"),
        kind(0x0806, 32, Ascii, "barcode"),
        kind(0x0807, 80, Text, "owning host textual name"),
        kind(0x0808, 160, Text, "media pool"),
        kind(0x0809, 16, Ascii, "partition user text label"),
        kind(0x080a, 1, Binary, "load and unload at partition"),
        kind(0x080b, 16, Ascii, "application format version"),
        kind(0x080c, 0, Binary, "volume coherency information"),
        kind(0x0820, 36, Binary, "medium globally unique identifier"),
        kind(0x0821, 36, Binary, "media pool globally unique identifier"),
        kind(0x1623, 1, Binary, "volume lock state"),
    ]
};

/// What is known of the attribute with this identifier.
#[must_use]
pub fn kind_of(id: u16) -> Option<&'static AttributeKind> {
    ATTRIBUTES.binary_search_by_key(&id, |kind| kind.id).ok().and_then(|at| ATTRIBUTES.get(at))
}

/// An attribute with its value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attribute {
    /// Its identifier.
    pub id: u16,
    /// It cannot be written.
    pub read_only: bool,
    /// How it is written.
    pub format: AttributeFormat,
    /// Its value. To the device, an empty one removes the attribute.
    pub value: Vec<u8>,
}

impl Attribute {
    const NAME: &'static str = "MAM attribute";

    /// An attribute that is known, to write it.
    #[must_use]
    pub fn new(id: u16, value: Vec<u8>) -> Attribute {
        let format = kind_of(id).map(|kind| kind.format).unwrap_or_default();
        Attribute { id, read_only: false, format, value }
    }

    /// The value as a number. `None` if it is empty or longer than eight bytes.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let mut wide = [0; 8];
        let at = wide.len().checked_sub(self.value.len())?;
        wide.get_mut(at..)?.copy_from_slice(&self.value);
        (!self.value.is_empty()).then_some(u64::from_be_bytes(wide))
    }

    /// The value as text: ASCII without the blanks behind it, or UTF-8 up to the first NUL.
    #[must_use]
    pub fn text(&self) -> String {
        match self.format {
            AttributeFormat::Text => {
                let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
                String::from_utf8_lossy(self.value.get(..end).unwrap_or_default()).into_owned()
            }
            _ => text_of(&self.value),
        }
    }
}

/// A list of attributes with their values: the answer of READ ATTRIBUTE and what WRITE ATTRIBUTE is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes(pub Vec<Attribute>);

impl Attributes {
    /// Reads it.
    ///
    /// # Errors
    /// If it or a value is cut off.
    pub fn decode(bytes: &[u8]) -> Result<Attributes, Malformed> {
        let mut reader = Reader::new(Attribute::NAME, bytes);
        let length = reader.length32()?;
        let mut list = reader.part(Attribute::NAME, length)?;
        let mut all = Vec::new();
        while !list.is_empty() {
            let id = list.u16()?;
            let flags = list.u8()?;
            let length = list.length16()?;
            all.push(Attribute {
                id,
                read_only: flags & 0x80 != 0,
                format: AttributeFormat::of(flags & 0x03),
                value: list.take(length)?.to_vec(),
            });
        }
        Ok(Attributes(all))
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        for attribute in &self.0 {
            out.extend(attribute.id.to_be_bytes());
            out.extend([u8::from(attribute.read_only) << 7 | attribute.format.byte() & 0x03, 0, 0]);
            let at = out.len() - 2;
            set_length(&mut out, at, 2, attribute.value.len());
            out.extend(&attribute.value);
        }
        let length = out.len() - 4;
        set_length(&mut out, 0, 4, length);
        out
    }

    /// The attribute with this identifier.
    #[must_use]
    pub fn find(&self, id: u16) -> Option<&Attribute> {
        self.0.iter().find(|attribute| attribute.id == id)
    }
}

/// Identifiers only: the list of attributes, or of those that are supported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttributeList(pub Vec<u16>);

impl AttributeList {
    const NAME: &'static str = "MAM attribute list";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<AttributeList, Malformed> {
        let mut reader = Reader::new(AttributeList::NAME, bytes);
        let length = reader.length32()?;
        let mut list = reader.part(AttributeList::NAME, length)?;
        let mut all = Vec::new();
        while !list.is_empty() {
            all.push(list.u16()?);
        }
        Ok(AttributeList(all))
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        set_length(&mut out, 0, 4, self.0.len() * 2);
        self.0.iter().for_each(|id| out.extend(id.to_be_bytes()));
        out
    }
}

/// The logical volumes, or the partitions, that there are: 4 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumberedList {
    /// Bytes behind this field, 2.
    pub length: u16,
    /// The number of the first.
    pub first: u8,
    /// How many there are.
    pub count: u8,
}

impl Default for NumberedList {
    fn default() -> Self {
        NumberedList { length: 2, first: 0, count: 0 }
    }
}

impl crate::bytes::Packed for NumberedList {
    const NAME: &'static str = "READ ATTRIBUTE list of partitions or volumes";
    const LENGTH: usize = 4;

    fn layout(&mut self, l: &mut crate::bytes::Layout<'_>) {
        l.number(0, 2, &mut self.length);
        l.number(2, 1, &mut self.first);
        l.number(3, 1, &mut self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Fault;
    use crate::bytes::tests::{any_bytes, hex, packed};

    #[test]
    fn values_are_the_bytes_of_the_tables() {
        let all = Attributes(vec![
            Attribute {
                read_only: true,
                ..Attribute::new(id::REMAINING_CAPACITY, vec![0, 0, 0, 0, 0, 0xb5, 0, 0])
            },
            Attribute::new(id::BARCODE, b"KST001L8                        ".to_vec()),
            Attribute::new(0x0803, "Mäuse\0\0".as_bytes().to_vec()),
        ]);
        let bytes = all.encode();
        assert_eq!(bytes[..13], hex("00 00 00 3f 00 00 80 00 08 00 00 00 00"));
        assert_eq!(bytes[17..22], hex("08 06 01 00 20"));
        let read = Attributes::decode(&bytes).unwrap();
        assert_eq!(read, all);
        assert_eq!(read.find(id::REMAINING_CAPACITY).unwrap().number(), Some(0xb5_0000));
        assert_eq!(read.find(id::BARCODE).unwrap().text(), "KST001L8");
        assert_eq!(read.find(0x0803).unwrap().text(), "Mäuse");
        let cut = Attributes::decode(&bytes[..40]).unwrap_err();
        assert_eq!(cut.fault, Fault::Short { needed: bytes.len(), have: 40 });
    }

    #[test]
    fn what_is_known_is_in_order() {
        assert!(ATTRIBUTES.is_sorted_by_key(|kind| kind.id));
        assert_eq!(kind_of(id::VOLUME_LOCK_STATE).map(|kind| kind.length), Some(1));
        assert_eq!(kind_of(0x1624), None);
    }

    #[test]
    fn nothing_panics() {
        packed::<NumberedList>();
        let values = Attributes(vec![Attribute::new(3, vec![0; 8]), Attribute::new(0x0803, vec![b'x'; 3])]);
        let list = AttributeList(vec![0, 1, 0x0401]);
        assert_eq!(list.encode(), hex("00 00 00 06 00 00 00 01 04 01"));
        any_bytes(&[values.encode(), list.encode()], |bytes| {
            if let Ok(values) = Attributes::decode(bytes) {
                values.0.iter().for_each(|value| drop((value.number(), value.text())));
                assert_eq!(Attributes::decode(&values.encode()), Ok(values));
            }
            if let Ok(list) = AttributeList::decode(bytes) {
                assert_eq!(AttributeList::decode(&list.encode()), Ok(list));
            }
        });
    }
}
