//! What a device is: standard INQUIRY data (SPC-5, 6.7.2).

use crate::bytes::{Layout, Packed, Text};
use crate::code::codes;

codes! {
    open
    /// The kind of a device.
    DeviceType {
        Disk = 0x00 "direct access block device",
        Tape = 0x01 "sequential access device",
        Changer = 0x08 "medium changer",
        Array = 0x0c "storage array controller",
        Enclosure = 0x0d "enclosure services device",
        Automation = 0x12 "automation or drive interface",
        WellKnown = 0x1e "well known logical unit",
        Unknown = 0x1f "no device, or of unknown type",
    }
}

/// Standard INQUIRY data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inquiry {
    /// 0: there is a device; 1: there could be one; 3: there cannot be one.
    pub qualifier: u8,
    /// Its type.
    pub device_type: DeviceType,
    /// The medium can be taken out.
    pub removable: bool,
    /// The version of SPC: 6 is SPC-4, 7 is SPC-5.
    pub version: u8,
    /// The format of this data, 2.
    pub response_format: u8,
    /// Bytes behind the fifth.
    pub additional_length: u8,
    /// How target port groups are supported.
    pub port_groups: u8,
    /// Protection information is supported.
    pub protect: bool,
    /// The target has more than one port.
    pub multiple_ports: bool,
    /// A changer is attached (SPC-2).
    pub changer_attached: bool,
    /// Commands can be queued.
    pub command_queue: bool,
    /// The vendor.
    pub vendor: Text<8>,
    /// The product.
    pub product: Text<16>,
    /// Its revision.
    pub revision: Text<4>,
    /// What the vendor has there.
    pub vendor_specific: [u8; 20],
    /// The standards it claims to meet, zero for none.
    pub standards: [u16; 8],
}

impl Default for Inquiry {
    fn default() -> Self {
        Inquiry {
            qualifier: 0,
            device_type: DeviceType::Disk,
            removable: false,
            version: 7,
            response_format: 2,
            additional_length: 91,
            port_groups: 0,
            protect: false,
            multiple_ports: false,
            changer_attached: false,
            command_queue: false,
            vendor: Text::default(),
            product: Text::default(),
            revision: Text::default(),
            vendor_specific: [0; 20],
            standards: [0; 8],
        }
    }
}

impl Packed for Inquiry {
    const NAME: &'static str = "INQUIRY data";
    const LENGTH: usize = 96;
    const LENGTH_MIN: usize = 36;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.bits(0, 5, 3, &mut self.qualifier);
        l.code(0, 0, 5, "the device type", &mut self.device_type);
        l.flag(1, 7, &mut self.removable);
        l.number(2, 1, &mut self.version);
        l.bits(3, 0, 4, &mut self.response_format);
        l.number(4, 1, &mut self.additional_length);
        l.bits(5, 4, 2, &mut self.port_groups);
        l.flag(5, 0, &mut self.protect);
        l.flag(6, 4, &mut self.multiple_ports);
        l.flag(6, 3, &mut self.changer_attached);
        l.flag(7, 1, &mut self.command_queue);
        l.text(8, &mut self.vendor);
        l.text(16, &mut self.product);
        l.text(32, &mut self.revision);
        l.slice(36, &mut self.vendor_specific);
        for (at, standard) in (58..).step_by(2).zip(&mut self.standards) {
            l.number(at, 2, standard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{hex, packed};

    #[test]
    fn holds_as_a_structure() {
        packed::<Inquiry>();
    }

    /// sg3_utils, inhex/inq_standard.hex: what Linux's scsi_debug answers.
    #[test]
    fn a_published_answer_is_read() {
        let bytes = hex(
            "00 00 07 02 5b 00 10 0a 4c 69 6e 75 78 20 20 20 73 63 73 69 5f 64 65 62 75 67 20 20 20 20 20 20
             30 31 39 31 32 30 32 31 30 35 32 30 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 c0 05 c0 06 00
             21 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
        );
        let inquiry = Inquiry::decode(&bytes).unwrap();
        assert_eq!((inquiry.device_type, inquiry.version), (DeviceType::Disk, 7));
        assert_eq!(inquiry.vendor.to_string(), "Linux");
        assert_eq!(inquiry.product.to_string(), "scsi_debug");
        assert_eq!(inquiry.revision.to_string(), "0191");
        assert!(inquiry.multiple_ports && inquiry.command_queue && !inquiry.removable);
        assert_eq!(inquiry.standards[..4], [0x00c0, 0x05c0, 0x0600, 0x2100]);
    }
}
