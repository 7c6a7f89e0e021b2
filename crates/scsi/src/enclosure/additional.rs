//! What is attached to elements: page 0Ah (SES-3, 6.1.13).

use super::{Configuration, finish, header, page};
use crate::bytes::{Malformed, Reader, set_length};

/// The protocol identifier of SAS.
const SAS: u8 = 6;

/// A phy of what stands in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotPhy {
    /// What the device is: 0 none, 1 an end device, 2 an expander.
    pub device_type: u8,
    /// The byte of target protocols; bit 0: a SATA disk.
    pub target: u8,
    /// The SAS address at the other end: that of the expander.
    pub attached: u64,
    /// The SAS address of the device's phy. Of a SATA disk that of its place.
    pub address: u64,
    /// The number of the device's phy.
    pub number: u8,
}

impl SlotPhy {
    const LENGTH: usize = 28;

    /// Whether the disk is a SATA one.
    #[must_use]
    pub fn is_sata(self) -> bool {
        self.target & 1 != 0
    }
}

/// A phy of an expander.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpanderPhy {
    /// The element index of the connector that it leads to; FFh: to none.
    pub connector: u8,
    /// The element index of what else it leads to, such as a slot; FFh: to none.
    pub other: u8,
}

/// What an element of a SAS enclosure says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SasElement {
    /// A slot.
    Slot {
        /// The number on the enclosure; `None` without EIP.
        slot: Option<u8>,
        /// Not all phys are listed.
        more: bool,
        /// The phys of what is in it.
        phys: Vec<SlotPhy>,
    },
    /// An expander.
    Expander {
        /// Its SAS address.
        address: u64,
        /// Its phys.
        phys: Vec<ExpanderPhy>,
    },
    /// A port or electronics, or what no standard has: its bytes.
    Other(Vec<u8>),
}

/// The additional status of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdditionalElement {
    /// INVALID: what follows says nothing.
    pub invalid: bool,
    /// The protocol identifier.
    pub protocol: u8,
    /// EIIOE and the element index; `None` without EIP.
    pub index: Option<(u8, u8)>,
    /// What it says.
    pub sas: SasElement,
}

impl AdditionalElement {
    fn decode(reader: &mut Reader<'_>) -> Result<AdditionalElement, Malformed> {
        const NAME: &str = "additional element status descriptor";
        let [first, length] = reader.array()?;
        let mut part = reader.part(NAME, usize::from(length))?;
        let (invalid, protocol, has_index) = (first & 0x80 != 0, first & 0x0f, first & 0x10 != 0);
        let index = if has_index {
            Some(part.array().map(|[kind, index]: [u8; 2]| (kind & 3, index))?)
        } else {
            None
        };
        // Other protocols, and what says of itself that it says nothing, are kept as they are.
        let other = SasElement::Other(part.rest().to_vec());
        let sas = match (invalid, protocol) {
            (false, SAS) => AdditionalElement::sas(&mut part, has_index)?.unwrap_or(other),
            _ => other,
        };
        Ok(AdditionalElement { invalid, protocol, index, sas })
    }

    /// `None`: a port, electronics, or bytes that are not all known. They are kept.
    fn sas(part: &mut Reader<'_>, has_index: bool) -> Result<Option<SasElement>, Malformed> {
        if part.is_empty() {
            return Ok(None);
        }
        let [count, kind] = part.array()?;
        match kind >> 6 {
            0 => {
                let slot = if has_index { Some(part.array().map(|[_, slot]: [u8; 2]| slot)?) } else { None };
                let mut phys = Vec::new();
                for _ in 0..count {
                    let mut phy = part.part("slot phy descriptor", SlotPhy::LENGTH)?;
                    let [device, _, _, target] = phy.array()?;
                    let (attached, address) = (phy.u64()?, phy.u64()?);
                    let device_type = device >> 4 & 7;
                    phys.push(SlotPhy { device_type, target, attached, address, number: phy.u8()? });
                }
                Ok(Some(SasElement::Slot { slot, more: kind & 1 != 0, phys }))
            }
            1 if has_index => {
                let [_, _] = part.array()?;
                // The shorter form is that of ports and electronics, whose phys have twelve bytes.
                if part.rest().len() != 8 + 2 * usize::from(count) {
                    return Ok(None);
                }
                let address = part.u64()?;
                let mut phys = Vec::new();
                for _ in 0..count {
                    let [connector, other] = part.array()?;
                    phys.push(ExpanderPhy { connector, other });
                }
                Ok(Some(SasElement::Expander { address, phys }))
            }
            _ => Ok(None),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let has_index = self.index.is_some();
        out.push(u8::from(self.invalid) << 7 | u8::from(has_index) << 4 | self.protocol & 0x0f);
        out.push(0);
        if let Some((kind, index)) = self.index {
            out.extend([kind & 3, index]);
        }
        let counted = |out: &mut Vec<u8>, count: usize, kind: u8| {
            out.extend([0, kind]);
            let at = out.len() - 2;
            set_length(out, at, 1, count);
        };
        match &self.sas {
            SasElement::Other(bytes) => out.extend(bytes),
            SasElement::Slot { slot, more, phys } => {
                counted(out, phys.len(), u8::from(*more));
                if has_index {
                    out.extend([0, slot.unwrap_or(0)]);
                }
                for phy in phys {
                    out.extend([(phy.device_type & 7) << 4, 0, 0, phy.target]);
                    out.extend(phy.attached.to_be_bytes());
                    out.extend(phy.address.to_be_bytes());
                    out.push(phy.number);
                    out.extend([0; 7]);
                }
            }
            SasElement::Expander { address, phys } => {
                counted(out, phys.len(), 0x40);
                out.extend([0, 0]);
                out.extend(address.to_be_bytes());
                phys.iter().for_each(|phy| out.extend([phy.connector, phy.other]));
            }
        }
        let length = out.len() - begin - 2;
        set_length(out, begin + 1, 1, length);
    }
}

/// The additional element status page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Additional {
    /// The generation of the configuration that it belongs to.
    pub generation: u32,
    /// What it says, in its order.
    pub elements: Vec<AdditionalElement>,
}

/// Which element of the configuration an [`AdditionalElement`] is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AdditionalPlace {
    /// The type, counted from zero.
    pub kind: usize,
    /// The element of it, counted from zero.
    pub element: usize,
}

impl Additional {
    const NAME: &'static str = "additional element status page";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<Additional, Malformed> {
        let head = header(Additional::NAME, page::ADDITIONAL, bytes)?;
        let mut body = head.body;
        let mut elements = Vec::new();
        while !body.is_empty() {
            elements.push(AdditionalElement::decode(&mut body)?);
        }
        Ok(Additional { generation: head.generation, elements })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If an element is longer than 255 bytes, or all of it than 65,535.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.elements.iter().for_each(|element| element.encode(&mut body));
        finish(page::ADDITIONAL, 0, self.generation, &body)
    }

    /// Each element with its place in the configuration, as far as it has one. Elements with EIP name it;
    /// others stand in the order of those that the page may have.
    #[must_use]
    pub fn placed(&self, configuration: &Configuration) -> Vec<(AdditionalPlace, &AdditionalElement)> {
        let types = || configuration.types.iter().enumerate();
        let places = |with_overall: bool| {
            types().flat_map(move |(kind, one)| {
                let overall = with_overall.then_some(None);
                let own =
                    (0..usize::from(one.count)).map(move |element| Some(AdditionalPlace { kind, element }));
                overall.into_iter().chain(own)
            })
        };
        let counted: Vec<Option<AdditionalPlace>> = places(true).collect();
        let bare: Vec<Option<AdditionalPlace>> = places(false).collect();
        let mut in_order = types().filter(|(_, one)| one.kind.has_additional()).flat_map(|(kind, one)| {
            (0..usize::from(one.count)).map(move |element| AdditionalPlace { kind, element })
        });
        let mut all = Vec::new();
        for element in &self.elements {
            let next = in_order.next();
            let place = match element.index {
                // EIIOE 1: the index counts the entries of types, too.
                Some((1, index)) => counted.get(usize::from(index)).copied().flatten(),
                Some((_, index)) => bare.get(usize::from(index)).copied().flatten(),
                None => next,
            };
            all.extend(place.map(|place| (place, element)));
        }
        all
    }
}
