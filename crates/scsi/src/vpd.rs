//! Vital product data: pages that INQUIRY gives (SPC-5, 7.7; those of tape drives SSC-5, 8.6).

use crate::bytes::{Fault, Malformed, Reader, set_length, text_of};
use crate::code::codes;
use crate::command::ElementAddress;
use crate::inquiry::DeviceType;

codes! {
    open
    /// What a designator means (SPC-5, 7.7.6.1).
    DesignatorType {
        Vendor = 0x0 "vendor specific",
        T10 = 0x1 "T10 vendor identification",
        Eui64 = 0x2 "EUI-64",
        Naa = 0x3 "NAA",
        RelativePort = 0x4 "relative target port",
        PortGroup = 0x5 "target port group",
        UnitGroup = 0x6 "logical unit group",
        Md5 = 0x7 "MD5 logical unit identifier",
        Name = 0x8 "SCSI name",
        Protocol = 0x9 "protocol specific port",
        Uuid = 0xa "UUID",
    }
}

codes! {
    open
    /// How a designator is written.
    CodeSet {
        Reserved = 0x0 "reserved",
        Binary = 0x1 "binary",
        Ascii = 0x2 "ASCII",
        Utf8 = 0x3 "UTF-8",
    }
}

codes! {
    open
    /// What a designator names.
    Association {
        Unit = 0 "the logical unit",
        Port = 1 "the target port",
        Target = 2 "the target device",
    }
}

/// An identifier of a device (SPC-5, 7.7.6).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Designator {
    /// The protocol that it belongs to, if it is of a port or target.
    pub protocol: Option<u8>,
    /// How it is written.
    pub code_set: CodeSet,
    /// What it names.
    pub association: Association,
    /// What it means.
    pub kind: DesignatorType,
    /// Its bytes.
    pub value: Vec<u8>,
}

impl Designator {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Designator, Malformed> {
        let [first, second, _, length] = reader.array()?;
        let value = reader.take(usize::from(length))?.to_vec();
        Ok(Designator {
            protocol: (second & 0x80 != 0).then_some(first >> 4),
            code_set: CodeSet::of(first & 0x0f),
            association: Association::of(second >> 4 & 0x03),
            kind: DesignatorType::of(second & 0x0f),
            value,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let piv = u8::from(self.protocol.is_some()) << 7;
        out.push(self.protocol.unwrap_or(0) << 4 | self.code_set.byte() & 0x0f);
        out.push(piv | (self.association.byte() & 0x03) << 4 | self.kind.byte() & 0x0f);
        out.extend([0, 0]);
        out.extend(&self.value);
        set_length(out, begin + 3, 1, self.value.len());
    }

    /// Its value for people: text as text, anything else in hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        match self.code_set {
            CodeSet::Ascii | CodeSet::Utf8 => text_of(&self.value),
            _ => self.value.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// A page of vital product data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vpd {
    /// As in [`crate::Inquiry`].
    pub qualifier: u8,
    /// The kind of the device.
    pub device_type: DeviceType,
    /// The page.
    pub page: VpdPage,
}

/// What a page of vital product data holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VpdPage {
    /// 00h: the codes of the pages that there are.
    Supported(Vec<u8>),
    /// 80h: the serial number of the unit.
    SerialNumber(Vec<u8>),
    /// 83h: identifiers.
    Identification(Vec<Designator>),
    /// B0h of a tape drive: what it can do.
    SequentialAccess {
        /// It reads and writes WORM media.
        worm: bool,
        /// It can mirror streams.
        mirroring: bool,
    },
    /// B1h: the manufacturer's serial number.
    ManufacturerSerial(Vec<u8>),
    /// B2h: a bit for each TapeAlert flag that it can set, flag 1 first.
    TapeAlertSupported([u8; 8]),
    /// B3h: the serial number of the library that the drive is in.
    AutomationSerial(Vec<u8>),
    /// B4h: the drive's element address in it.
    DataTransferElement(ElementAddress),
    /// Any other.
    Other {
        /// The code of the page.
        code: u8,
        /// What follows its header.
        data: Vec<u8>,
    },
}

impl VpdPage {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            VpdPage::Supported(_) => 0x00,
            VpdPage::SerialNumber(_) => 0x80,
            VpdPage::Identification(_) => 0x83,
            VpdPage::SequentialAccess { .. } => 0xb0,
            VpdPage::ManufacturerSerial(_) => 0xb1,
            VpdPage::TapeAlertSupported(_) => 0xb2,
            VpdPage::AutomationSerial(_) => 0xb3,
            VpdPage::DataTransferElement(_) => 0xb4,
            VpdPage::Other { code, .. } => *code,
        }
    }

    /// A serial number for people; empty for other pages.
    #[must_use]
    pub fn serial(&self) -> String {
        match self {
            VpdPage::SerialNumber(bytes)
            | VpdPage::ManufacturerSerial(bytes)
            | VpdPage::AutomationSerial(bytes) => text_of(bytes).trim_start().to_owned(),
            _ => String::new(),
        }
    }
}

impl Vpd {
    const NAME: &'static str = "vital product data";

    /// Reads a page. Those from B0h on are known only for tape drives: other devices use the codes otherwise.
    ///
    /// # Errors
    /// If it is cut off or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<Vpd, Malformed> {
        let mut reader = Reader::new(Vpd::NAME, bytes);
        let [first, code] = reader.array()?;
        let device_type = DeviceType::of(first & 0x1f);
        let length = reader.length16()?;
        let mut body = reader.part(Vpd::NAME, length)?;
        let is_tape = device_type == DeviceType::Tape;
        let page = match code {
            0x00 => VpdPage::Supported(body.rest().to_vec()),
            0x80 => VpdPage::SerialNumber(body.rest().to_vec()),
            0x83 => {
                let mut all = Vec::new();
                while !body.is_empty() {
                    all.push(Designator::decode(&mut body)?);
                }
                VpdPage::Identification(all)
            }
            0xb0 if is_tape => {
                let flags = body.u8()?;
                VpdPage::SequentialAccess { worm: flags & 0x01 != 0, mirroring: flags & 0x02 != 0 }
            }
            0xb1 if is_tape => VpdPage::ManufacturerSerial(body.rest().to_vec()),
            0xb2 if is_tape => VpdPage::TapeAlertSupported(body.array()?),
            0xb3 if is_tape => VpdPage::AutomationSerial(body.rest().to_vec()),
            0xb4 if is_tape && length == 2 => VpdPage::DataTransferElement(ElementAddress(body.u16()?)),
            0xb4 if is_tape => {
                return Err(reader.fault(2, Fault::Length { field: "the page length", value: length }));
            }
            code => VpdPage::Other { code, data: body.rest().to_vec() },
        };
        Ok(Vpd { qualifier: first >> 5, device_type, page })
    }

    /// Writes a page.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.qualifier << 5 | self.device_type.byte() & 0x1f, self.page.code(), 0, 0];
        match &self.page {
            VpdPage::Supported(bytes)
            | VpdPage::SerialNumber(bytes)
            | VpdPage::ManufacturerSerial(bytes)
            | VpdPage::AutomationSerial(bytes)
            | VpdPage::Other { data: bytes, .. } => out.extend(bytes),
            VpdPage::Identification(all) => all.iter().for_each(|designator| designator.encode(&mut out)),
            VpdPage::SequentialAccess { worm, mirroring } => {
                out.extend([u8::from(*mirroring) << 1 | u8::from(*worm), 0]);
            }
            VpdPage::TapeAlertSupported(flags) => out.extend(flags),
            VpdPage::DataTransferElement(address) => out.extend(address.0.to_be_bytes()),
        }
        let length = out.len() - 4;
        set_length(&mut out, 2, 2, length);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex};

    /// sg3_utils, inhex/vpd_dev_id.hex: a disk's identifiers.
    const IDENTIFIERS: &str = "
        00 83 00 48 01 03 00 08 50 00 c5 00 30 11 cb 2b 61 93 00 08 50 00 c5 00 30 11 cb 29 61 94 00 04
        00 00 00 01 61 a3 00 08 50 00 c5 00 30 11 cb 28 03 28 00 18 6e 61 61 2e 35 30 30 30 43 35 30 30
        33 30 31 31 43 42 32 38 00 00 00 00";

    fn round(bytes: &[u8]) {
        if let Ok(page) = Vpd::decode(bytes) {
            assert_eq!(Vpd::decode(&page.encode()), Ok(page));
        }
    }

    fn tape(page: VpdPage) -> Vec<u8> {
        Vpd { qualifier: 0, device_type: DeviceType::Tape, page }.encode()
    }

    #[test]
    fn published_identifiers_are_read_and_written() {
        let vpd = Vpd::decode(&hex(IDENTIFIERS)).unwrap();
        assert_eq!(vpd.encode(), hex(IDENTIFIERS));
        let VpdPage::Identification(all) = vpd.page else { panic!("{vpd:?}") };
        let [unit, port, relative, target, name] = &all[..] else { panic!("{all:?}") };
        assert_eq!((unit.kind, unit.text()), (DesignatorType::Naa, "5000c5003011cb2b".into()));
        assert_eq!((port.association, port.protocol), (Association::Port, Some(6)));
        assert_eq!((relative.kind, &relative.value[..]), (DesignatorType::RelativePort, &[0, 0, 0, 1][..]));
        assert_eq!(target.association, Association::Target);
        assert_eq!((name.code_set, name.text()), (CodeSet::Utf8, "naa.5000C5003011CB28".into()));
    }

    #[test]
    fn pages_of_tape_drives() {
        let worm = VpdPage::SequentialAccess { worm: true, mirroring: false };
        assert_eq!(tape(worm), hex("01 b0 00 02 01 00"));
        assert_eq!(tape(VpdPage::DataTransferElement(ElementAddress(256))), hex("01 b4 00 02 01 00"));
        let serial = tape(VpdPage::SerialNumber(b"  1068000073".to_vec()));
        assert_eq!(Vpd::decode(&serial).unwrap().page.serial(), "1068000073");
        // B0h of a disk is another page.
        let disk = Vpd::decode(&hex("00 b0 00 02 01 00")).unwrap();
        assert_eq!(disk.page, VpdPage::Other { code: 0xb0, data: vec![1, 0] });
        assert_eq!(Vpd::decode(&hex("01 b4 00 03 01 00 00")).unwrap_err().at, 2);
    }

    #[test]
    fn a_cut_page_says_how_long_it_is() {
        let error = Vpd::decode(&hex(IDENTIFIERS)[..20]).unwrap_err();
        assert_eq!(error.fault, Fault::Short { needed: 76, have: 20 });
    }

    #[test]
    fn nothing_panics() {
        let samples = [
            hex(IDENTIFIERS),
            tape(VpdPage::Supported(vec![0, 0x80, 0x83])),
            tape(VpdPage::SequentialAccess { worm: true, mirroring: true }),
            tape(VpdPage::TapeAlertSupported([0xff; 8])),
            tape(VpdPage::DataTransferElement(ElementAddress(1))),
        ];
        any_bytes(&samples, round);
    }
}
