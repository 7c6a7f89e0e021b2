//! Enclosure services: the diagnostic pages of an enclosure (SES-3, clause 6; elements clause 7).
//!
//! The configuration page says which elements there are; all other pages list something of each element in
//! the same order, behind an entry for each type as a whole. An answer is of its own generation: after a
//! change of the configuration the pages do not fit together any more, which [`Configuration`] refuses by
//! counting.

mod additional;
mod configuration;
mod descriptors;
mod status;
mod threshold;

pub use additional::{Additional, AdditionalElement, AdditionalPlace, ExpanderPhy, SasElement, SlotPhy};
pub use configuration::{Configuration, ElementKind, ElementType, Subenclosure};
pub use descriptors::Descriptors;
pub use status::{
    Condition, Cooling, ElementCode, ElementStatus, EnclosureStatus, Power, SlotControl, SlotStatus,
};
pub use threshold::{Limits, Thresholds};

use crate::bytes::{Malformed, Reader, set_length};

/// The codes of pages that are known here.
pub mod page {
    /// Which elements there are.
    pub const CONFIGURATION: u8 = 0x01;
    /// How the elements are; sent, it controls them.
    pub const STATUS: u8 = 0x02;
    /// Beyond which values sensors warn.
    pub const THRESHOLD: u8 = 0x05;
    /// Names of elements.
    pub const DESCRIPTOR: u8 = 0x07;
    /// What is attached to elements.
    pub const ADDITIONAL: u8 = 0x0a;
    /// All of them, in the order in which they are asked for.
    pub const ALL: [u8; 5] = [CONFIGURATION, STATUS, THRESHOLD, DESCRIPTOR, ADDITIONAL];
}

/// The header that the pages share.
struct Header<'a> {
    /// The second byte.
    flags: u8,
    /// What the enclosure counts up with every change of its configuration.
    generation: u32,
    body: Reader<'a>,
}

fn header<'a>(name: &'static str, code: u8, bytes: &'a [u8]) -> Result<Header<'a>, Malformed> {
    let mut reader = Reader::new(name, bytes);
    let [is, flags] = reader.array()?;
    if is != code {
        // Some devices answer with another page than the one that was asked for (linux: ses.c).
        let fault = crate::bytes::Fault::Value { field: "the page code", value: u64::from(is) };
        return Err(reader.fault(0, fault));
    }
    let length = reader.length16()?;
    let mut body = reader.part(name, length)?;
    let generation = body.u32()?;
    Ok(Header { flags, generation, body })
}

fn finish(code: u8, flags: u8, generation: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![code, flags, 0, 0];
    out.extend(generation.to_be_bytes());
    out.extend(body);
    let length = out.len() - 4;
    set_length(&mut out, 2, 2, length);
    out
}

#[cfg(test)]
mod tests;
