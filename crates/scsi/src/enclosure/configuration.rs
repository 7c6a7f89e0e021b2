//! Which elements an enclosure has: page 01h (SES-3, 6.1.2).

use super::{finish, header, page};
use crate::bytes::{Malformed, Text, set_length, text_of};
use crate::code::codes;

codes! {
    open
    /// What an element is (SES-3, 7.2).
    ElementKind {
        Unspecified = 0x00 "unspecified",
        DeviceSlot = 0x01 "device slot",
        PowerSupply = 0x02 "power supply",
        Cooling = 0x03 "cooling",
        Temperature = 0x04 "temperature sensor",
        Door = 0x05 "door",
        Alarm = 0x06 "audible alarm",
        Electronics = 0x07 "enclosure services electronics",
        SccElectronics = 0x08 "SCC controller electronics",
        Cache = 0x09 "nonvolatile cache",
        InvalidOperation = 0x0a "invalid operation reason",
        Uninterruptible = 0x0b "uninterruptible power supply",
        Display = 0x0c "display",
        KeyPad = 0x0d "key pad entry",
        Enclosure = 0x0e "enclosure",
        ScsiPort = 0x0f "SCSI port or transceiver",
        Language = 0x10 "language",
        CommunicationPort = 0x11 "communication port",
        Voltage = 0x12 "voltage sensor",
        Current = 0x13 "current sensor",
        TargetPort = 0x14 "SCSI target port",
        InitiatorPort = 0x15 "SCSI initiator port",
        Simple = 0x16 "simple subenclosure",
        ArrayDeviceSlot = 0x17 "array device slot",
        Expander = 0x18 "SAS expander",
        Connector = 0x19 "SAS connector",
    }
}

impl ElementKind {
    /// A place for a disk.
    #[must_use]
    pub fn is_slot(self) -> bool {
        matches!(self, ElementKind::DeviceSlot | ElementKind::ArrayDeviceSlot)
    }

    /// Whether the additional page has something of such an element (SES-3, 6.1.13.2.1).
    #[must_use]
    pub fn has_additional(self) -> bool {
        matches!(
            self,
            ElementKind::DeviceSlot
                | ElementKind::ArrayDeviceSlot
                | ElementKind::Expander
                | ElementKind::TargetPort
                | ElementKind::InitiatorPort
                | ElementKind::Electronics
        )
    }
}

/// An enclosure, or a part of one that has elements of its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subenclosure {
    /// Which of the processes that serve it answered, and how many there are: two bits each side of the byte.
    pub processes: u8,
    /// Its number; zero is the enclosure itself.
    pub id: u8,
    /// Types of elements that it has.
    pub types: u8,
    /// The logical identifier: the same through each of its services processes.
    pub identifier: u64,
    /// The vendor.
    pub vendor: Text<8>,
    /// The product.
    pub product: Text<16>,
    /// Its revision.
    pub revision: Text<4>,
    /// What the vendor has behind it.
    pub vendor_specific: Vec<u8>,
}

/// A type of elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementType {
    /// What its elements are.
    pub kind: ElementKind,
    /// How many there can be.
    pub count: u8,
    /// Whose they are.
    pub subenclosure: u8,
    /// Its name, as bytes.
    pub text: Vec<u8>,
}

/// The configuration page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// What the enclosure counts up with every change of this page.
    pub generation: u32,
    /// The enclosure first, then what is within it.
    pub enclosures: Vec<Subenclosure>,
    /// The types of elements, in the order of all other pages.
    pub types: Vec<ElementType>,
}

impl Configuration {
    const NAME: &'static str = "enclosure configuration page";
    /// Bytes of an enclosure descriptor behind its length field, without what the vendor has there.
    const DESCRIPTOR_MIN: usize = 36;

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off, or the page is another.
    pub fn decode(bytes: &[u8]) -> Result<Configuration, Malformed> {
        let head = header(Configuration::NAME, page::CONFIGURATION, bytes)?;
        let mut body = head.body;
        let mut enclosures = Vec::new();
        for _ in 0..=head.flags {
            let [processes, id, types, length] = body.array()?;
            let mut part = body.part("enclosure descriptor", usize::from(length))?;
            let identifier = part.u64()?;
            let (vendor, product, revision) = (part.array()?, part.array()?, part.array()?);
            enclosures.push(Subenclosure {
                processes,
                id,
                types,
                identifier,
                vendor: Text(vendor),
                product: Text(product),
                revision: Text(revision),
                vendor_specific: part.rest().to_vec(),
            });
        }
        let mut types = Vec::new();
        let mut lengths = Vec::new();
        for _ in 0..enclosures.iter().map(|one| usize::from(one.types)).sum() {
            let [kind, count, subenclosure, length] = body.array()?;
            types.push(ElementType { kind: ElementKind::of(kind), count, subenclosure, text: Vec::new() });
            lengths.push(usize::from(length));
        }
        for (kind, length) in types.iter_mut().zip(lengths) {
            kind.text = body.take(length)?.to_vec();
        }
        Ok(Configuration { generation: head.generation, enclosures, types })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 256 enclosures, none, or a text is longer than a byte says; or if the
    /// enclosures do not count as many types as there are.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let counted: usize = self.enclosures.iter().map(|one| usize::from(one.types)).sum();
        assert_eq!(counted, self.types.len(), "enclosures count their types");
        let flags = self.enclosures.len().checked_sub(1).and_then(|more| u8::try_from(more).ok());
        let Some(flags) = flags else { panic!("{} enclosures in one page", self.enclosures.len()) };
        let mut body = Vec::new();
        for one in &self.enclosures {
            body.extend([one.processes, one.id, one.types, 0]);
            let at = body.len() - 1;
            set_length(&mut body, at, 1, Configuration::DESCRIPTOR_MIN + one.vendor_specific.len());
            body.extend(one.identifier.to_be_bytes());
            body.extend(one.vendor.0);
            body.extend(one.product.0);
            body.extend(one.revision.0);
            body.extend(&one.vendor_specific);
        }
        for kind in &self.types {
            body.extend([kind.kind.byte(), kind.count, kind.subenclosure, 0]);
            let at = body.len() - 1;
            set_length(&mut body, at, 1, kind.text.len());
        }
        self.types.iter().for_each(|kind| body.extend(&kind.text));
        finish(page::CONFIGURATION, flags, self.generation, &body)
    }

    /// The names of types for people.
    #[must_use]
    pub fn type_name(&self, at: usize) -> String {
        self.types.get(at).map(|kind| text_of(&kind.text)).unwrap_or_default()
    }
}
