//! Mode pages of medium changers (SMC-3, 7.3), without their headers.

use crate::bytes::{Layout, Malformed, Packed, Reader};
use crate::command::{ElementAddress, ElementType};

/// Element address assignment, 1Dh (SMC-3, 7.3.4): where the elements of each type begin and how many there
/// are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElementAddressAssignment {
    /// Pickers.
    pub transport: (ElementAddress, u16),
    /// Slots.
    pub storage: (ElementAddress, u16),
    /// Doors for import and export.
    pub import_export: (ElementAddress, u16),
    /// Drives.
    pub data_transfer: (ElementAddress, u16),
}

impl Packed for ElementAddressAssignment {
    const NAME: &'static str = "element address assignment mode page";
    const LENGTH: usize = 18;

    fn layout(&mut self, l: &mut Layout<'_>) {
        let all = [&mut self.transport, &mut self.storage, &mut self.import_export, &mut self.data_transfer];
        for (at, (first, count)) in (0..).step_by(4).zip(all) {
            l.number(at, 2, first);
            l.number(at + 2, 2, count);
        }
    }
}

impl ElementAddressAssignment {
    /// The first address of a type and how many there are; of no type, nothing.
    #[must_use]
    pub fn range(&self, kind: ElementType) -> (ElementAddress, u16) {
        match kind {
            ElementType::All => (ElementAddress(0), 0),
            ElementType::Transport => self.transport,
            ElementType::Storage => self.storage,
            ElementType::ImportExport => self.import_export,
            ElementType::DataTransfer => self.data_transfer,
        }
    }
}

/// Transport geometry parameters, 1Eh (SMC-3, 7.3.6): for each picker whether it can turn a medium over, and
/// its number in its set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransportGeometry(pub Vec<(bool, u8)>);

impl TransportGeometry {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<TransportGeometry, Malformed> {
        let mut all = Vec::new();
        while !body.is_empty() {
            let [flags, member] = body.array()?;
            all.push((flags & 0x01 != 0, member));
        }
        Ok(TransportGeometry(all))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(rotate, member)| [u8::from(*rotate), *member]).collect()
    }
}

/// A set of types of elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ElementKinds(pub u8);

impl ElementKinds {
    /// All four.
    pub const ALL: ElementKinds = ElementKinds(0x0f);

    /// Whether this type is in it.
    #[must_use]
    pub fn has(self, kind: ElementType) -> bool {
        let bit = match kind {
            ElementType::All => return self == ElementKinds::ALL,
            ElementType::Transport => 0,
            ElementType::Storage => 1,
            ElementType::ImportExport => 2,
            ElementType::DataTransfer => 3,
        };
        self.0 >> bit & 1 == 1
    }
}

/// Device capabilities, 1Fh (SMC-3, 7.3.2): which elements keep media and between which media can be moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceCapabilities {
    /// Types that can keep media.
    pub store: ElementKinds,
    /// The device follows SMC-2 or a later standard.
    pub smc2: bool,
    /// Where MOVE MEDIUM can take media from a picker, slot, door and drive, in this order.
    pub moves: [ElementKinds; 4],
    /// The same of EXCHANGE MEDIUM.
    pub exchanges: [ElementKinds; 4],
}

impl Packed for DeviceCapabilities {
    const NAME: &'static str = "device capabilities mode page";
    const LENGTH: usize = 18;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.bits(0, 0, 4, &mut self.store.0);
        l.flag(1, 0, &mut self.smc2);
        for (at, kinds) in (2..).zip(&mut self.moves).chain((10..).zip(&mut self.exchanges)) {
            l.bits(at, 0, 4, &mut kinds.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{hex, packed};

    #[test]
    fn hold_as_structures() {
        packed::<ElementAddressAssignment>();
        packed::<DeviceCapabilities>();
    }

    #[test]
    fn elements_begin_where_the_page_says() {
        let page =
            ElementAddressAssignment::decode(&hex("00 00 00 01 03 e8 00 17 00 0a 00 01 01 00 00 02 00 00"))
                .unwrap();
        assert_eq!(page.range(ElementType::Storage), (ElementAddress(1000), 23));
        assert_eq!(page.range(ElementType::DataTransfer), (ElementAddress(256), 2));
    }

    #[test]
    fn kinds_are_bits() {
        let kinds = ElementKinds(0b1010);
        assert!(kinds.has(ElementType::Storage) && kinds.has(ElementType::DataTransfer));
        assert!(!kinds.has(ElementType::Transport) && !kinds.has(ElementType::All));
        assert!(ElementKinds::ALL.has(ElementType::All));
    }
}
