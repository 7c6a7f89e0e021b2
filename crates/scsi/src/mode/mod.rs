//! Mode parameters: header, block descriptors and pages (SPC-5, 7.5; SSC-5, 8.5; SMC-3, 7.3).

mod changer;
mod tape;

pub use changer::{
    DeviceCapabilities, ElementAddressAssignment, ElementKinds, ExtendedDeviceCapabilities, TransportGeometry,
};
pub use tape::{
    Control, ControlDataProtection, DataCompression, DeviceConfiguration, DeviceConfigurationExtension,
    InformationalExceptions, MediumConfiguration, MediumPartition, ProtectionMethod,
};

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, set_length};

/// Which of the commands the parameters belong to: their headers differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModeForm {
    /// MODE SENSE(6) and MODE SELECT(6).
    Six,
    /// MODE SENSE(10) and MODE SELECT(10).
    Ten,
}

/// Which way the parameters go: for MODE SELECT the length in the header is reserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModeDirection {
    /// From the device.
    Sense,
    /// To the device.
    Select,
}

/// A block descriptor of a tape drive (SSC-5, 8.5.2).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockDescriptor {
    /// The density code of the medium; to the device 0 is its default, 7Fh no change.
    pub density: u8,
    /// Blocks that this is about, zero for all.
    pub blocks: u32,
    /// The length of blocks in bytes, zero for blocks of variable length.
    pub block_length: u32,
}

impl Packed for BlockDescriptor {
    const NAME: &'static str = "mode block descriptor";
    const LENGTH: usize = 8;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 1, &mut self.density);
        l.number(1, 3, &mut self.blocks);
        l.number(5, 3, &mut self.block_length);
    }
}

/// All mode parameters of one command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ModeParameters {
    /// The medium type.
    pub medium_type: u8,
    /// The medium cannot be written.
    pub write_protected: bool,
    /// How writes are buffered: 0 not at all, 1 until the buffer is full or a filemark is to be on the
    /// medium.
    pub buffered: u8,
    /// The tape speed, zero for the default.
    pub speed: u8,
    /// Block descriptors, at most one for tape drives.
    pub descriptors: Vec<BlockDescriptor>,
    /// Pages in order.
    pub pages: Vec<ModePage>,
}

impl ModeParameters {
    const NAME: &'static str = "mode parameters";

    /// Reads them.
    ///
    /// # Errors
    /// If they are cut off or contradict themselves.
    pub fn decode(
        bytes: &[u8],
        form: ModeForm,
        direction: ModeDirection,
    ) -> Result<ModeParameters, Malformed> {
        let mut whole = Reader::new(ModeParameters::NAME, bytes);
        let length = match form {
            ModeForm::Six => usize::from(whole.u8()?),
            ModeForm::Ten => whole.length16()?,
        };
        let length = if direction == ModeDirection::Select { whole.rest().len() } else { length };
        let mut reader = whole.part(ModeParameters::NAME, length)?;
        let [medium_type, specific] = reader.array()?;
        let (at, descriptors_length) = match form {
            ModeForm::Six => (reader.at(), usize::from(reader.u8()?)),
            ModeForm::Ten => {
                reader.take(2)?;
                (reader.at(), reader.length16()?)
            }
        };
        if !descriptors_length.is_multiple_of(BlockDescriptor::LENGTH) {
            let field = "the block descriptor length";
            return Err(reader.fault(at, Fault::Length { field, value: descriptors_length }));
        }
        let mut list = reader.part(BlockDescriptor::NAME, descriptors_length)?;
        let mut descriptors = Vec::new();
        while !list.is_empty() {
            descriptors.push(list.packed()?);
        }
        let mut pages = Vec::new();
        while !reader.is_empty() {
            pages.push(ModePage::decode(&mut reader)?);
        }
        Ok(ModeParameters {
            medium_type,
            write_protected: specific & 0x80 != 0,
            buffered: specific >> 4 & 0x07,
            speed: specific & 0x0f,
            descriptors,
            pages,
        })
    }

    /// Writes them.
    ///
    /// # Panics
    /// If they are longer than the header can say: 255 bytes for the form of six, 65,535 for that of ten.
    #[must_use]
    pub fn encode(&self, form: ModeForm, direction: ModeDirection) -> Vec<u8> {
        let specific = u8::from(self.write_protected) << 7 | (self.buffered & 0x07) << 4 | self.speed & 0x0f;
        let descriptors = self.descriptors.len() * BlockDescriptor::LENGTH;
        let mut out = match form {
            ModeForm::Six => vec![0, self.medium_type, specific, 0],
            ModeForm::Ten => vec![0, 0, self.medium_type, specific, 0, 0, 0, 0],
        };
        match form {
            ModeForm::Six => set_length(&mut out, 3, 1, descriptors),
            ModeForm::Ten => set_length(&mut out, 6, 2, descriptors),
        }
        self.descriptors.iter().for_each(|descriptor| out.extend(descriptor.encode()));
        self.pages.iter().for_each(|page| page.encode(&mut out));
        if direction == ModeDirection::Sense {
            let width = if form == ModeForm::Six { 1 } else { 2 };
            let length = out.len() - width;
            set_length(&mut out, 0, width, length);
        }
        out
    }
}

/// A mode page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModePage {
    /// The device can keep it when power is off (reserved in MODE SELECT).
    pub savable: bool,
    /// What it holds.
    pub content: ModeContent,
}

/// What a mode page holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each type says what it is.
pub enum ModeContent {
    /// 0Ah.
    Control(Control),
    /// 0Ah/F0h.
    ControlDataProtection(ControlDataProtection),
    /// 0Fh.
    DataCompression(DataCompression),
    /// 10h.
    DeviceConfiguration(DeviceConfiguration),
    /// 10h/01h.
    DeviceConfigurationExtension(DeviceConfigurationExtension),
    /// 11h.
    MediumPartition(MediumPartition),
    /// 1Ch.
    InformationalExceptions(InformationalExceptions),
    /// 1Dh of a tape drive.
    MediumConfiguration(MediumConfiguration),
    /// 1Dh of a changer.
    ElementAddressAssignment(ElementAddressAssignment),
    /// 1Eh of a changer.
    TransportGeometry(TransportGeometry),
    /// 1Fh of a changer.
    DeviceCapabilities(DeviceCapabilities),
    /// 1Fh/41h of a changer.
    ExtendedDeviceCapabilities(ExtendedDeviceCapabilities),
    /// Any other, also one whose length is not that of the standard.
    Other { code: u8, subpage: Option<u8>, data: Vec<u8> },
}

impl From<ModeContent> for ModePage {
    fn from(content: ModeContent) -> ModePage {
        ModePage { savable: false, content }
    }
}

impl ModeContent {
    /// The code of the page and its subpage.
    #[must_use]
    pub fn code(&self) -> (u8, Option<u8>) {
        match self {
            ModeContent::Control(_) => (0x0a, None),
            ModeContent::ControlDataProtection(_) => (0x0a, Some(0xf0)),
            ModeContent::DataCompression(_) => (0x0f, None),
            ModeContent::DeviceConfiguration(_) => (0x10, None),
            ModeContent::DeviceConfigurationExtension(_) => (0x10, Some(0x01)),
            ModeContent::MediumPartition(_) => (0x11, None),
            ModeContent::InformationalExceptions(_) => (0x1c, None),
            ModeContent::MediumConfiguration(_) | ModeContent::ElementAddressAssignment(_) => (0x1d, None),
            ModeContent::TransportGeometry(_) => (0x1e, None),
            ModeContent::DeviceCapabilities(_) => (0x1f, None),
            ModeContent::ExtendedDeviceCapabilities(_) => (0x1f, Some(0x41)),
            ModeContent::Other { code, subpage, .. } => (*code, *subpage),
        }
    }

    fn decode(code: u8, subpage: Option<u8>, body: &mut Reader<'_>) -> Result<ModeContent, Malformed> {
        let length = body.rest().len();
        let content = match (code, subpage, length) {
            (0x0a, None, 10) => ModeContent::Control(body.packed()?),
            (0x0a, Some(0xf0), 28) => ModeContent::ControlDataProtection(body.packed()?),
            (0x0f, None, 14) => ModeContent::DataCompression(body.packed()?),
            (0x10, None, 14) => ModeContent::DeviceConfiguration(body.packed()?),
            (0x10, Some(0x01), 28) => ModeContent::DeviceConfigurationExtension(body.packed()?),
            (0x11, None, 6..) if length.is_multiple_of(2) => {
                ModeContent::MediumPartition(MediumPartition::decode(body)?)
            }
            (0x1c, None, 10) => ModeContent::InformationalExceptions(body.packed()?),
            // Two pages have this code. Their lengths differ.
            (0x1d, None, 30) => ModeContent::MediumConfiguration(body.packed()?),
            (0x1d, None, 18) => ModeContent::ElementAddressAssignment(body.packed()?),
            (0x1e, None, _) if length.is_multiple_of(2) => {
                ModeContent::TransportGeometry(TransportGeometry::decode(body)?)
            }
            (0x1f, None, 18) => ModeContent::DeviceCapabilities(body.packed()?),
            (0x1f, Some(0x41), 16) => ModeContent::ExtendedDeviceCapabilities(body.packed()?),
            _ => ModeContent::Other { code, subpage, data: body.rest().to_vec() },
        };
        Ok(content)
    }

    fn body(&self) -> Vec<u8> {
        match self {
            ModeContent::Control(page) => page.encode(),
            ModeContent::ControlDataProtection(page) => page.encode(),
            ModeContent::DataCompression(page) => page.encode(),
            ModeContent::DeviceConfiguration(page) => page.encode(),
            ModeContent::DeviceConfigurationExtension(page) => page.encode(),
            ModeContent::MediumPartition(page) => page.encode(),
            ModeContent::InformationalExceptions(page) => page.encode(),
            ModeContent::MediumConfiguration(page) => page.encode(),
            ModeContent::ElementAddressAssignment(page) => page.encode(),
            ModeContent::TransportGeometry(page) => page.encode(),
            ModeContent::DeviceCapabilities(page) => page.encode(),
            ModeContent::ExtendedDeviceCapabilities(page) => page.encode(),
            ModeContent::Other { data, .. } => data.clone(),
        }
    }
}

impl ModePage {
    const NAME: &'static str = "mode page";

    fn decode(reader: &mut Reader<'_>) -> Result<ModePage, Malformed> {
        let first = reader.u8()?;
        let (subpage, length) = if first & 0x40 == 0 {
            (None, usize::from(reader.u8()?))
        } else {
            (Some(reader.u8()?), reader.length16()?)
        };
        let mut body = reader.part(ModePage::NAME, length)?;
        let content = ModeContent::decode(first & 0x3f, subpage, &mut body)?;
        Ok(ModePage { savable: first & 0x80 != 0, content })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (code, subpage) = self.content.code();
        let body = self.content.body();
        let begin = out.len();
        let first = u8::from(self.savable) << 7 | code & 0x3f;
        match subpage {
            None => {
                out.extend([first, 0]);
                set_length(out, begin + 1, 1, body.len());
            }
            Some(subpage) => {
                out.extend([first | 0x40, subpage, 0, 0]);
                set_length(out, begin + 2, 2, body.len());
            }
        }
        out.extend(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    const BOTH: [(ModeForm, ModeDirection); 4] = [
        (ModeForm::Six, ModeDirection::Sense),
        (ModeForm::Six, ModeDirection::Select),
        (ModeForm::Ten, ModeDirection::Sense),
        (ModeForm::Ten, ModeDirection::Select),
    ];

    fn parameters() -> ModeParameters {
        let content = vec![
            ModeContent::DataCompression(DataCompression {
                enabled: true,
                capable: true,
                ..Default::default()
            }),
            ModeContent::DeviceConfiguration(DeviceConfiguration::default()),
            ModeContent::DeviceConfigurationExtension(DeviceConfigurationExtension {
                early_warning_size: 500,
                ..Default::default()
            }),
            ModeContent::ControlDataProtection(ControlDataProtection::default()),
            ModeContent::MediumPartition(MediumPartition { sizes: vec![1, 0xffff], ..Default::default() }),
            ModeContent::InformationalExceptions(InformationalExceptions::default()),
            ModeContent::MediumConfiguration(MediumConfiguration { worm: true, ..Default::default() }),
            ModeContent::ElementAddressAssignment(ElementAddressAssignment::default()),
            ModeContent::TransportGeometry(TransportGeometry(vec![(true, 1)])),
            ModeContent::DeviceCapabilities(DeviceCapabilities::default()),
            ModeContent::ExtendedDeviceCapabilities(ExtendedDeviceCapabilities {
                true_exchange: true,
                ..Default::default()
            }),
            ModeContent::Other { code: 0x2f, subpage: None, data: vec![1, 2, 3] },
        ];
        ModeParameters {
            write_protected: true,
            buffered: 1,
            descriptors: vec![BlockDescriptor { density: 0x5e, blocks: 0, block_length: 0 }],
            pages: content.into_iter().map(ModePage::from).collect(),
            ..ModeParameters::default()
        }
    }

    #[test]
    fn block_protection_is_set_by_the_bytes_of_the_standard() {
        packed::<BlockDescriptor>();
        // MODE SELECT(10) of page 0Ah/F0h with CRC-32C both ways (SSC-5, 8.5.9; CTA,
        // taped/drive/DriveGeneric.cpp).
        let page = ControlDataProtection {
            method: ProtectionMethod::Crc32c,
            information_length: 4,
            on_write: true,
            on_read: true,
            on_recover: false,
        };
        let all = ModeParameters {
            pages: vec![ModeContent::ControlDataProtection(page).into()],
            ..ModeParameters::default()
        };
        let mut bytes = hex("00 00 00 00 00 00 00 00 4a f0 00 1c 02 04 c0");
        bytes.resize(8 + 32, 0);
        assert_eq!(all.encode(ModeForm::Ten, ModeDirection::Select), bytes);
        assert_eq!(ModeParameters::decode(&bytes, ModeForm::Ten, ModeDirection::Select), Ok(all));
    }

    #[test]
    fn a_header_of_a_tape_drive_is_read() {
        // Linux, drivers/scsi/st.c reads these twelve bytes: LTO-8, buffered, variable blocks.
        let bytes = hex("0b 00 10 08 5e 00 00 00 00 00 00 00");
        let read = ModeParameters::decode(&bytes, ModeForm::Six, ModeDirection::Sense).unwrap();
        assert_eq!((read.buffered, read.descriptors[0].density, read.pages.len()), (1, 0x5e, 0));
        assert_eq!(read.encode(ModeForm::Six, ModeDirection::Sense), bytes);
        let wrong = ModeParameters::decode(
            &hex("0b 00 10 07 5e 00 00 00 00 00 00 00"),
            ModeForm::Six,
            ModeDirection::Sense,
        );
        assert_eq!(wrong.unwrap_err().at, 3);
    }

    #[test]
    fn all_pages_come_back() {
        let all = parameters();
        for (form, direction) in BOTH {
            assert_eq!(
                ModeParameters::decode(&all.encode(form, direction), form, direction),
                Ok(all.clone())
            );
        }
    }

    #[test]
    fn nothing_panics() {
        for (form, direction) in BOTH {
            any_bytes(&[parameters().encode(form, direction)], |bytes| {
                if let Ok(read) = ModeParameters::decode(bytes, form, direction) {
                    assert_eq!(
                        ModeParameters::decode(&read.encode(form, direction), form, direction),
                        Ok(read)
                    );
                }
            });
        }
    }
}
