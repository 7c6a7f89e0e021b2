//! What is where in a changer: READ ELEMENT STATUS (SMC-3, 6.11).

use crate::bytes::{Fault, Malformed, Reader, Text, set_length};
use crate::code::codes;
use crate::command::ElementAddress;
use crate::sense::AdditionalSense;
use crate::vpd::Designator;

codes! {
    open
    /// The type of the elements of a page.
    PageElementType {
        Transport = 1 "medium transport elements",
        Storage = 2 "storage elements",
        ImportExport = 3 "import or export elements",
        DataTransfer = 4 "data transfer elements",
    }
}

/// A volume tag: what the changer read from a label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VolumeTag {
    /// The volume identifier.
    pub identifier: Text<32>,
    /// The volume sequence number.
    pub sequence: u16,
}

impl VolumeTag {
    const LENGTH: usize = 36;

    fn decode(body: &mut Reader<'_>) -> Result<VolumeTag, Malformed> {
        let identifier = Text(body.array()?);
        body.take(2)?;
        Ok(VolumeTag { identifier, sequence: body.u16()? })
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.identifier.0);
        out.extend([0, 0]);
        out.extend(self.sequence.to_be_bytes());
    }
}

/// An element.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    /// Its address.
    pub address: ElementAddress,
    /// There is a medium in it.
    pub full: bool,
    /// A door: an operator put the medium in.
    pub by_operator: bool,
    /// Something is wrong with it: see [`Element::exception`].
    pub exceptional: bool,
    /// The picker can get at it (a drive: it has ejected its medium).
    pub accessible: bool,
    /// A door: media can be put out.
    pub exports: bool,
    /// A door: media can be put in.
    pub imports: bool,
    /// A door: it is full by way of several.
    pub operator_intervention: bool,
    /// What is wrong, zero if nothing.
    pub exception: AdditionalSense,
    /// Where the medium came from, if that is known.
    pub source: Option<ElementAddress>,
    /// The medium was turned over on its way.
    pub inverted: bool,
    /// The element is out of use.
    pub disabled: bool,
    /// The type of the medium: 0 not known, 1 data, 2 cleaning, 3 diagnostics, 4 WORM, 5 microcode.
    pub medium_type: u8,
    /// The primary volume tag. Present if the page has them, blank if there is none.
    pub primary_tag: Option<VolumeTag>,
    /// The alternate volume tag.
    pub alternate_tag: Option<VolumeTag>,
    /// A drive's identifier, if it was asked for. Of a designator it has the code set, type and value.
    pub identifier: Option<Designator>,
    /// What the vendor has behind it, without zeros at its end.
    pub vendor: Vec<u8>,
}

impl Element {
    const NAME: &'static str = "element descriptor";
    /// The fields that every element has.
    const LENGTH: usize = 12;

    fn decode(body: &mut Reader<'_>, primary: bool, alternate: bool) -> Result<Element, Malformed> {
        let address = ElementAddress(body.u16()?);
        let [flags, _, asc, ascq] = body.array()?;
        body.take(3)?;
        let medium = body.u8()?;
        let source = ElementAddress(body.u16()?);
        let primary_tag = primary.then(|| VolumeTag::decode(body)).transpose()?;
        let alternate_tag = alternate.then(|| VolumeTag::decode(body)).transpose()?;
        // The identifier's header is missing in changers that follow older standards.
        let identifier = if body.rest().len() < 4 { None } else { Some(Designator::decode(body)?) };
        let rest = body.rest();
        let end = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Ok(Element {
            address,
            full: flags & 0x01 != 0,
            by_operator: flags & 0x02 != 0,
            exceptional: flags & 0x04 != 0,
            accessible: flags & 0x08 != 0,
            exports: flags & 0x10 != 0,
            imports: flags & 0x20 != 0,
            operator_intervention: flags & 0x80 != 0,
            exception: AdditionalSense { asc, ascq },
            source: (medium & 0x80 != 0).then_some(source),
            inverted: medium & 0x40 != 0,
            disabled: medium & 0x08 != 0,
            medium_type: medium & 0x07,
            primary_tag,
            alternate_tag,
            identifier: identifier.filter(|identifier| !identifier.value.is_empty()),
            vendor: rest.get(..end).unwrap_or_default().to_vec(),
        })
    }

    fn encode(&self, page: &ElementPage) -> Vec<u8> {
        let flags = [
            self.full,
            self.by_operator,
            self.exceptional,
            self.accessible,
            self.exports,
            self.imports,
            false,
            self.operator_intervention,
        ];
        let flags = (0..).zip(flags).fold(0, |all, (bit, set)| all | u8::from(set) << bit);
        let mut out = self.address.0.to_be_bytes().to_vec();
        out.extend([flags, 0, self.exception.asc, self.exception.ascq, 0, 0, 0]);
        out.push(
            u8::from(self.source.is_some()) << 7
                | u8::from(self.inverted) << 6
                | u8::from(self.disabled) << 3
                | self.medium_type & 0x07,
        );
        out.extend(self.source.unwrap_or_default().0.to_be_bytes());
        if page.primary_tags {
            self.primary_tag.unwrap_or_default().encode(&mut out);
        }
        if page.alternate_tags {
            self.alternate_tag.unwrap_or_default().encode(&mut out);
        }
        match &self.identifier {
            Some(identifier) => identifier.encode(&mut out),
            None => out.extend([0; 4]),
        }
        out.extend(&self.vendor);
        out
    }

    /// The volume identifier that was read, if there is one.
    #[must_use]
    pub fn volume(&self) -> Option<String> {
        let tag = self.primary_tag.map(|tag| tag.identifier.trimmed())?;
        (!tag.is_empty()).then_some(tag)
    }
}

/// Elements of one type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElementPage {
    /// Their type.
    pub kind: PageElementType,
    /// They have primary volume tags.
    pub primary_tags: bool,
    /// They have alternate volume tags.
    pub alternate_tags: bool,
    /// The elements.
    pub elements: Vec<Element>,
}

impl ElementPage {
    const NAME: &'static str = "element status page";

    fn decode(reader: &mut Reader<'_>) -> Result<ElementPage, Malformed> {
        let begin = reader.at();
        let [kind, flags] = reader.array()?;
        let (primary_tags, alternate_tags) = (flags & 0x80 != 0, flags & 0x40 != 0);
        let length = reader.length16()?;
        reader.take(1)?;
        let bytes = usize::try_from(reader.u24()?).unwrap_or(usize::MAX);
        let tags = usize::from(primary_tags) + usize::from(alternate_tags);
        let field = "the element descriptor length";
        let wrong = reader.fault(begin + 2, Fault::Length { field, value: length });
        let mut list = reader.part(ElementPage::NAME, bytes)?;
        if bytes > 0 && (length < Element::LENGTH + tags * VolumeTag::LENGTH || !bytes.is_multiple_of(length))
        {
            return Err(wrong);
        }
        let mut elements = Vec::new();
        while !list.is_empty() {
            let mut body = list.part(Element::NAME, length)?;
            elements.push(Element::decode(&mut body, primary_tags, alternate_tags)?);
        }
        Ok(ElementPage { kind: PageElementType::of(kind), primary_tags, alternate_tags, elements })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let bodies: Vec<Vec<u8>> = self.elements.iter().map(|element| element.encode(self)).collect();
        let length = bodies.iter().map(Vec::len).max().unwrap_or(Element::LENGTH);
        let begin = out.len();
        out.extend([self.kind.byte(), u8::from(self.primary_tags) << 7 | u8::from(self.alternate_tags) << 6]);
        out.extend([0; 6]);
        set_length(out, begin + 2, 2, length);
        set_length(out, begin + 5, 3, length * bodies.len());
        for mut body in bodies {
            body.resize(length, 0);
            out.extend(body);
        }
    }
}

/// The answer to READ ELEMENT STATUS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElementStatus {
    /// The lowest address in it.
    pub first: ElementAddress,
    /// Elements in it.
    pub count: u16,
    /// A page for each type.
    pub pages: Vec<ElementPage>,
}

impl ElementStatus {
    const NAME: &'static str = "element status data";

    /// The answer with these pages.
    ///
    /// # Panics
    /// If there are more than 65,535 elements.
    #[must_use]
    pub fn of(pages: Vec<ElementPage>) -> ElementStatus {
        let all = || pages.iter().flat_map(|page| &page.elements);
        let count = u16::try_from(all().count());
        assert!(count.is_ok(), "a changer has at most 65,535 elements");
        let first = all().map(|element| element.address).min().unwrap_or_default();
        ElementStatus { first, count: count.unwrap_or(u16::MAX), pages }
    }

    /// All elements with their types.
    pub fn elements(&self) -> impl Iterator<Item = (PageElementType, &Element)> {
        self.pages.iter().flat_map(|page| page.elements.iter().map(|element| (page.kind, element)))
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<ElementStatus, Malformed> {
        let mut reader = Reader::new(ElementStatus::NAME, bytes);
        let first = ElementAddress(reader.u16()?);
        let count = reader.u16()?;
        reader.take(1)?;
        let length = usize::try_from(reader.u24()?).unwrap_or(usize::MAX);
        let mut list = reader.part(ElementPage::NAME, length)?;
        let mut pages = Vec::new();
        while !list.is_empty() {
            pages.push(ElementPage::decode(&mut list)?);
        }
        Ok(ElementStatus { first, count, pages })
    }

    /// Writes it. Descriptors of a page have the length of its longest.
    ///
    /// # Panics
    /// If it is longer than 16,777,215 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.first.0.to_be_bytes().to_vec();
        out.extend(self.count.to_be_bytes());
        out.extend([0; 4]);
        self.pages.iter().for_each(|page| page.encode(&mut out));
        let length = out.len() - 8;
        set_length(&mut out, 5, 3, length);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex};
    use crate::vpd::{Association, CodeSet, DesignatorType};

    fn library() -> ElementStatus {
        let drive = Element {
            address: ElementAddress(256),
            accessible: true,
            full: true,
            source: Some(ElementAddress(1001)),
            primary_tag: Some(VolumeTag { identifier: Text::new("KST001L8").unwrap(), sequence: 0 }),
            identifier: Some(Designator {
                protocol: None,
                code_set: CodeSet::Ascii,
                association: Association::Unit,
                kind: DesignatorType::T10,
                value: b"IBM     ULT3580-TD8     1068000073".to_vec(),
            }),
            ..Element::default()
        };
        let empty = Element {
            address: ElementAddress(257),
            primary_tag: Some(VolumeTag::default()),
            exceptional: true,
            exception: AdditionalSense { asc: 0x3b, ascq: 0x1a },
            ..Element::default()
        };
        let slot =
            Element { address: ElementAddress(1000), full: true, accessible: true, ..Element::default() };
        ElementStatus::of(vec![
            ElementPage {
                kind: PageElementType::DataTransfer,
                primary_tags: true,
                alternate_tags: false,
                elements: vec![drive, empty],
            },
            ElementPage { kind: PageElementType::Storage, elements: vec![slot], ..ElementPage::default() },
        ])
    }

    #[test]
    fn an_inventory_comes_back() {
        let all = library();
        let read = ElementStatus::decode(&all.encode()).unwrap();
        assert_eq!((read.first, read.count), (ElementAddress(256), 3));
        assert_eq!(read, all);
        let (kind, drive) = read.elements().next().unwrap();
        assert_eq!((kind, drive.volume()), (PageElementType::DataTransfer, Some("KST001L8".into())));
        assert_eq!(read.elements().nth(1).unwrap().1.volume(), None);
    }

    /// By the tables of SMC-3, 6.11: a slot, full, with a volume tag, in descriptors of 52 bytes.
    #[test]
    fn a_slot_is_the_bytes_of_the_tables() {
        let mut bytes =
            hex("03 e8 00 01 00 00 00 3c 02 80 00 34 00 00 00 34 03 e8 09 00 00 00 00 00 00 81 00 0a");
        bytes.extend(b"E01001L8                        ");
        bytes.resize(8 + 8 + 52, 0);
        let read = ElementStatus::decode(&bytes).unwrap();
        let (kind, slot) = read.elements().next().unwrap();
        assert_eq!(
            (kind, slot.address, slot.source),
            (PageElementType::Storage, ElementAddress(1000), Some(ElementAddress(10)))
        );
        assert_eq!(
            (slot.volume(), slot.medium_type, slot.full && slot.accessible),
            (Some("E01001L8".into()), 1, true)
        );
        assert_eq!(read.encode(), bytes);
    }

    #[test]
    fn lengths_that_do_not_agree_are_refused() {
        // Descriptors too short for their volume tags; a page that is no multiple of its descriptors.
        let short =
            hex("00 01 00 01 00 00 00 14 02 80 00 0c 00 00 00 0c 00 01 00 00 00 00 00 00 00 00 00 00");
        assert_eq!(ElementStatus::decode(&short).unwrap_err().at, 10);
        let odd = hex("00 01 00 01 00 00 00 14 02 00 00 0d 00 00 00 0c 00 01 00 00 00 00 00 00 00 00 00 00");
        let error = ElementStatus::decode(&odd).unwrap_err();
        assert_eq!((error.structure, error.at), ("element status page", 10));
        let cut = ElementStatus::decode(&library().encode()[..100]).unwrap_err();
        assert_eq!(cut.fault, Fault::Short { needed: library().encode().len(), have: 100 });
    }

    #[test]
    fn nothing_panics() {
        any_bytes(&[library().encode()], |bytes| {
            if let Ok(status) = ElementStatus::decode(bytes) {
                assert_eq!(ElementStatus::decode(&status.encode()), Ok(status));
            }
        });
    }
}
