//! The commands of medium changers (SMC-3, clause 6).

use std::fmt;

use super::{Entry, Set, Transfer, entry};
use crate::bytes::Layout;
use crate::code::codes;

codes! {
    closed
    /// What an element of a changer is (SMC-3, 6.11).
    ElementType {
        All = 0 "all elements",
        Transport = 1 "medium transport element",
        Storage = 2 "storage element",
        ImportExport = 3 "import or export element",
        DataTransfer = 4 "data transfer element",
    }
}

/// The address of an element in a changer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ElementAddress(pub u16);

impl fmt::Display for ElementAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<u64> for ElementAddress {
    type Error = std::num::TryFromIntError;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        u16::try_from(number).map(ElementAddress)
    }
}

impl From<ElementAddress> for u64 {
    fn from(address: ElementAddress) -> u64 {
        u64::from(address.0)
    }
}

const NOWHERE: ElementAddress = ElementAddress(0);

/// A command of a medium changer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The fields have the names of the standard; lengths are in bytes.
pub enum Changer {
    /// Looks at all elements.
    InitializeElementStatus,
    /// Looks at elements; `range`: only at these; `fast`: only for media, not at labels.
    InitializeElementStatusWithRange { fast: bool, range: bool, first: ElementAddress, count: u16 },
    /// Sends the picker there.
    PositionToElement { transport: ElementAddress, to: ElementAddress, invert: bool },
    /// Moves a medium. Transport 0: whichever.
    MoveMedium { transport: ElementAddress, from: ElementAddress, to: ElementAddress, invert: bool },
    /// Moves one medium to `first_to` and what was there to `second_to`.
    ExchangeMedium {
        transport: ElementAddress,
        from: ElementAddress,
        first_to: ElementAddress,
        second_to: ElementAddress,
        invert_first: bool,
        invert_second: bool,
    },
    /// What is where. `current`: without moving anything; `identifiers`: with those of drives.
    ReadElementStatus {
        volume_tags: bool,
        kind: ElementType,
        first: ElementAddress,
        count: u16,
        mixed: bool,
        current: bool,
        identifiers: bool,
        allocation_length: u32,
    },
    /// The answer to SEND VOLUME TAG.
    RequestVolumeElementAddress {
        volume_tags: bool,
        kind: ElementType,
        first: ElementAddress,
        count: u16,
        allocation_length: u32,
    },
}

impl Set for Changer {
    const TABLE: &'static [Entry<Self>] = {
        use Changer as C;
        &[
            entry(0x07, &[], "INITIALIZE ELEMENT STATUS", C::InitializeElementStatus),
            entry(
                0x2b,
                &[],
                "POSITION TO ELEMENT",
                C::PositionToElement { transport: NOWHERE, to: NOWHERE, invert: false },
            ),
            entry(
                0x37,
                &[],
                "INITIALIZE ELEMENT STATUS WITH RANGE",
                C::InitializeElementStatusWithRange { fast: false, range: false, first: NOWHERE, count: 0 },
            ),
            entry(
                0xa5,
                &[],
                "MOVE MEDIUM",
                C::MoveMedium { transport: NOWHERE, from: NOWHERE, to: NOWHERE, invert: false },
            ),
            entry(
                0xa6,
                &[],
                "EXCHANGE MEDIUM",
                C::ExchangeMedium {
                    transport: NOWHERE,
                    from: NOWHERE,
                    first_to: NOWHERE,
                    second_to: NOWHERE,
                    invert_first: false,
                    invert_second: false,
                },
            ),
            entry(
                0xb5,
                &[],
                "REQUEST VOLUME ELEMENT ADDRESS",
                C::RequestVolumeElementAddress {
                    volume_tags: false,
                    kind: ElementType::All,
                    first: NOWHERE,
                    count: 0,
                    allocation_length: 0,
                },
            ),
            entry(
                0xb8,
                &[],
                "READ ELEMENT STATUS",
                C::ReadElementStatus {
                    volume_tags: false,
                    kind: ElementType::All,
                    first: NOWHERE,
                    count: 0,
                    mixed: false,
                    current: false,
                    identifiers: false,
                    allocation_length: 0,
                },
            ),
        ]
    };

    fn layout(&mut self, l: &mut Layout<'_>) {
        match self {
            Changer::InitializeElementStatus => {}
            Changer::InitializeElementStatusWithRange { fast, range, first, count } => {
                l.flag(1, 1, fast);
                l.flag(1, 0, range);
                l.number(2, 2, first);
                l.number(6, 2, count);
            }
            Changer::PositionToElement { transport, to, invert } => {
                l.number(2, 2, transport);
                l.number(4, 2, to);
                l.flag(8, 0, invert);
            }
            Changer::MoveMedium { transport, from, to, invert } => {
                l.number(2, 2, transport);
                l.number(4, 2, from);
                l.number(6, 2, to);
                l.flag(10, 0, invert);
            }
            Changer::ExchangeMedium { transport, from, first_to, second_to, invert_first, invert_second } => {
                l.number(2, 2, transport);
                l.number(4, 2, from);
                l.number(6, 2, first_to);
                l.number(8, 2, second_to);
                l.flag(10, 1, invert_first);
                l.flag(10, 0, invert_second);
            }
            Changer::ReadElementStatus {
                volume_tags,
                kind,
                first,
                count,
                mixed,
                current,
                identifiers,
                allocation_length,
            } => {
                elements(l, volume_tags, kind, first, count);
                l.flag(6, 2, mixed);
                l.flag(6, 1, current);
                l.flag(6, 0, identifiers);
                l.number(7, 3, allocation_length);
            }
            Changer::RequestVolumeElementAddress { volume_tags, kind, first, count, allocation_length } => {
                elements(l, volume_tags, kind, first, count);
                l.number(7, 3, allocation_length);
            }
        }
    }

    fn transfer(&self, _block_length: u32) -> Transfer {
        match *self {
            Changer::ReadElementStatus { allocation_length, .. }
            | Changer::RequestVolumeElementAddress { allocation_length, .. } => {
                Transfer::input(allocation_length)
            }
            _ => Transfer::None,
        }
    }
}

fn elements(
    l: &mut Layout<'_>,
    volume_tags: &mut bool,
    kind: &mut ElementType,
    first: &mut ElementAddress,
    count: &mut u16,
) {
    l.flag(1, 4, volume_tags);
    l.code(1, 0, 4, "ELEMENT TYPE CODE", kind);
    l.number(2, 2, first);
    l.number(4, 2, count);
}
