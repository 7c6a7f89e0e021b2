//! The commands of enclosures (SPC-5, 6.28 and 6.42) and the way to a SATA disk's own commands (SAT-4, 12.2).
//!
//! They stand beside [`super::Command`]: none of our targets knows them, and what a target knows is listed by
//! REPORT SUPPORTED OPERATION CODES.

use super::{Entry, Set, Transfer, entry};
use crate::bytes::{Layout, Malformed};
use crate::transport::Cdb;

/// A command for diagnostic pages, or for the ATA device behind a translator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Diagnostic {
    /// RECEIVE DIAGNOSTIC RESULTS: reads a page.
    Receive {
        /// The page.
        page: u8,
        /// Bytes that may come.
        allocation_length: u16,
    },
    /// SEND DIAGNOSTIC with PF: sends a page.
    Send {
        /// Its length in bytes.
        length: u16,
    },
    /// ATA PASS-THROUGH(16): one block of 512 bytes of SMART (ACS-3, 7.48) with the feature that is named.
    Smart {
        /// D0h: the attributes; D1h: their thresholds.
        feature: u8,
    },
}

impl Diagnostic {
    /// SMART READ DATA.
    pub const SMART_READ_DATA: u8 = 0xd0;
    /// SMART READ THRESHOLDS (obsolete since ACS-2, still there).
    pub const SMART_READ_THRESHOLDS: u8 = 0xd1;

    /// The command as it goes over the wire.
    ///
    /// # Errors
    /// If a value is too large for its field.
    pub fn encode(&self) -> Result<Cdb, Malformed> {
        Set::encode(*self)
    }
}

impl Set for Diagnostic {
    const TABLE: &'static [Entry<Self>] = &[
        entry(0x1c, &[], "RECEIVE DIAGNOSTIC RESULTS", Diagnostic::Receive { page: 0, allocation_length: 0 }),
        entry(0x1d, &[], "SEND DIAGNOSTIC", Diagnostic::Send { length: 0 }),
        entry(0x85, &[], "ATA PASS-THROUGH(16)", Diagnostic::Smart { feature: 0 }),
    ];

    fn layout(&mut self, l: &mut Layout<'_>) {
        match self {
            Diagnostic::Receive { page, allocation_length } => {
                // PCV: the page code is valid.
                l.bits(1, 0, 1, &mut 1);
                l.number(2, 1, page);
                l.number(3, 2, allocation_length);
            }
            Diagnostic::Send { length } => {
                // PF: what follows is a page of the standard.
                l.bits(1, 4, 1, &mut 1);
                l.number(3, 2, length);
            }
            Diagnostic::Smart { feature } => {
                // PROTOCOL 4: PIO data-in. T_DIR from the device, BYT_BLOK blocks, T_LENGTH the sector count.
                l.bits(1, 1, 4, &mut 4);
                l.bits(2, 0, 4, &mut 0x0e);
                l.number(4, 1, feature);
                l.number(6, 1, &mut 1_u8);
                // The signature of SMART in LBA 8 to 23, and the command.
                l.number(10, 1, &mut 0x4f_u8);
                l.number(12, 1, &mut 0xc2_u8);
                l.number(14, 1, &mut 0xb0_u8);
            }
        }
    }

    fn transfer(&self, _block_length: u32) -> Transfer {
        match *self {
            Diagnostic::Receive { allocation_length, .. } => Transfer::input(allocation_length),
            Diagnostic::Send { length } => Transfer::output(length),
            Diagnostic::Smart { .. } => Transfer::In(512),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::hex;

    /// linux: drivers/scsi/ses.c, `ses_recv_diag` and `ses_send_diag`; SAT-4, the example of SMART READ DATA.
    #[test]
    fn commands_are_the_bytes_that_linux_sends() {
        for (command, bytes, transfer) in [
            (
                Diagnostic::Receive { page: 0x0a, allocation_length: 0x1234 },
                "1c 01 0a 12 34 00",
                Transfer::In(0x1234),
            ),
            (Diagnostic::Send { length: 0x0180 }, "1d 10 00 01 80 00", Transfer::Out(0x0180)),
            (
                Diagnostic::Smart { feature: Diagnostic::SMART_READ_DATA },
                "85 08 0e 00 d0 00 01 00 00 00 4f 00 c2 00 b0 00",
                Transfer::In(512),
            ),
        ] {
            assert_eq!(command.encode().unwrap().bytes(), hex(bytes));
            assert_eq!(Set::transfer(&command, 512), transfer);
        }
    }
}
