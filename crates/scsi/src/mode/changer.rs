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
    /// There is a reader for volume tags.
    pub volume_tag_reader: bool,
    /// Drives are cleaned without being asked.
    pub auto_clean: bool,
    /// Where MOVE MEDIUM can take media from a picker, slot, door and drive, in this order.
    pub moves: [ElementKinds; 4],
    /// The same of EXCHANGE MEDIUM.
    pub exchanges: [ElementKinds; 4],
    /// Whether READ ATTRIBUTE works for media in a picker, slot, door and drive.
    pub reads_attributes: [u8; 4],
    /// The same of WRITE ATTRIBUTE.
    pub writes_attributes: [u8; 4],
}

impl Packed for DeviceCapabilities {
    const NAME: &'static str = "device capabilities mode page";
    const LENGTH: usize = 18;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.bits(0, 0, 4, &mut self.store.0);
        l.flag(1, 2, &mut self.auto_clean);
        l.flag(1, 1, &mut self.volume_tag_reader);
        l.flag(1, 0, &mut self.smc2);
        for (at, kinds) in (2..).zip(&mut self.moves).chain((10..).zip(&mut self.exchanges)) {
            l.bits(at, 0, 4, &mut kinds.0);
        }
        for (at, works) in
            (2..).zip(&mut self.reads_attributes).chain((10..).zip(&mut self.writes_attributes))
        {
            l.bits(at, 6, 2, works);
        }
    }
}

/// Extended device capabilities, 1Fh/41h (SMC-3, 7.3.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtendedDeviceCapabilities {
    /// MVPRV: a move to a door fails while it is open.
    pub move_prevented: bool,
    /// MVCL: a move closes the door.
    pub move_closes: bool,
    /// MVOP: a move opens the door.
    pub move_opens: bool,
    /// USRCL: an operator closes the door.
    pub operator_closes: bool,
    /// USROP: an operator opens the door.
    pub operator_opens: bool,
    /// IEST: whether the door is open is known.
    pub door_state: bool,
    /// DTETA: a drive shows as accessible only once it is empty.
    pub drive_empty_on_access: bool,
    /// RSSEA: media go back to where they came from.
    pub returns_to_source: bool,
    /// MVTRY: trays can be moved.
    pub moves_tray: bool,
    /// IEMGZ: doors have magazines.
    pub door_magazine: bool,
    /// SMGZ: slots have magazines.
    pub slot_magazine: bool,
    /// TREXC: media can be exchanged without another place for one of them.
    pub true_exchange: bool,
    /// LCKIE: doors can be locked.
    pub locks_import_export: bool,
    /// LCKD: the device's door can be locked.
    pub locks_door: bool,
    /// SPMER: a drive must have ejected before a medium is taken out.
    pub source_eject_required: bool,
    /// DPMER: a drive must have ejected before a medium is put in.
    pub destination_eject_required: bool,
    /// PEPOS: the picker waits at the drive before it ejects.
    pub eject_position: bool,
    /// UCST: cleaning media may be anywhere.
    pub unassigned_cleaning: bool,
}

impl Packed for ExtendedDeviceCapabilities {
    const NAME: &'static str = "extended device capabilities mode page";
    const LENGTH: usize = 16;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 5, &mut self.move_prevented);
        l.flag(0, 4, &mut self.move_closes);
        l.flag(0, 3, &mut self.move_opens);
        l.flag(0, 2, &mut self.operator_closes);
        l.flag(0, 1, &mut self.operator_opens);
        l.flag(0, 0, &mut self.door_state);
        l.flag(1, 4, &mut self.drive_empty_on_access);
        l.flag(1, 3, &mut self.returns_to_source);
        l.flag(1, 2, &mut self.moves_tray);
        l.flag(1, 1, &mut self.door_magazine);
        l.flag(1, 0, &mut self.slot_magazine);
        l.flag(2, 2, &mut self.true_exchange);
        l.flag(2, 1, &mut self.locks_import_export);
        l.flag(2, 0, &mut self.locks_door);
        l.flag(3, 2, &mut self.source_eject_required);
        l.flag(3, 1, &mut self.destination_eject_required);
        l.flag(3, 0, &mut self.eject_position);
        l.flag(4, 0, &mut self.unassigned_cleaning);
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
        packed::<ExtendedDeviceCapabilities>();
    }

    #[test]
    fn elements_begin_where_the_page_says() {
        let page =
            ElementAddressAssignment::decode(&hex("00 00 00 01 03 e8 00 17 00 0a 00 01 01 00 00 02 00 00"))
                .unwrap();
        assert_eq!(page.range(ElementType::Storage), (ElementAddress(1000), 23));
        assert_eq!(page.range(ElementType::DataTransfer), (ElementAddress(256), 2));
    }

    /// Positions of all fields as `sdparm --enumerate` (1.12) prints them, less the headers.
    #[test]
    fn the_fields_lie_where_sdparm_has_them() {
        let mut addresses = vec![0xff; 16];
        addresses.extend([0, 0]);
        assert_eq!(ElementAddressAssignment::usage(), addresses);
        let capabilities = hex("0f 07 cf cf cf cf 00 00 00 00 cf cf cf cf 00 00 00 00");
        assert_eq!(DeviceCapabilities::usage(), capabilities);
        let mut extended = hex("3f 1f 07 07 01");
        extended.resize(16, 0);
        assert_eq!(ExtendedDeviceCapabilities::usage(), extended);
        let page = DeviceCapabilities::decode(&hex("0e 03 00 0e 0e 0e 00 00 00 00 00 08 00 00 00 00 00 00"))
            .unwrap();
        assert!(page.store.has(ElementType::Storage) && !page.store.has(ElementType::Transport));
        assert!(page.moves[1].has(ElementType::DataTransfer) && page.moves[0] == ElementKinds(0));
        assert!(
            page.exchanges[1].has(ElementType::DataTransfer) && page.volume_tag_reader && !page.auto_clean
        );
    }

    #[test]
    fn kinds_are_bits() {
        let kinds = ElementKinds(0b1010);
        assert!(kinds.has(ElementType::Storage) && kinds.has(ElementType::DataTransfer));
        assert!(!kinds.has(ElementType::Transport) && !kinds.has(ElementType::All));
        assert!(ElementKinds::ALL.has(ElementType::All));
    }
}
