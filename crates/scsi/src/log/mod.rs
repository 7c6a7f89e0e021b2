//! Log pages (SPC-5, 7.3; those of tape drives SSC-5, 8.3).

mod changer;
pub mod disk;
mod pages;

pub use changer::{CHANGER_ALERTS, changer_alert_name, changer_statistics};
pub use pages::{
    Activity, DeviceStatus, TAPE_ALERTS, TapeAlerts, capacity, compression, device_statistics, error_counter,
    sequential_access, tape_alert_name, temperature, volume_statistics,
};

use crate::bytes::{Malformed, Reader, set_length, text_of};

/// The codes of pages that are known here.
pub mod page {
    /// Pages that there are.
    pub const SUPPORTED: u8 = 0x00;
    /// Errors on writing.
    pub const WRITE_ERRORS: u8 = 0x02;
    /// Errors on reading.
    pub const READ_ERRORS: u8 = 0x03;
    /// Errors that are not of the medium.
    pub const NON_MEDIUM_ERRORS: u8 = 0x06;
    /// Errors on verifying.
    pub const VERIFY_ERRORS: u8 = 0x05;
    /// What passed through a tape drive.
    pub const SEQUENTIAL_ACCESS: u8 = 0x0c;
    /// A device's temperature.
    pub const TEMPERATURE: u8 = 0x0d;
    /// Starts and stops of a disk, and what its life was made for.
    pub const START_STOP: u8 = 0x0e;
    /// Results of self tests.
    pub const SELF_TEST: u8 = 0x10;
    /// A drive of flash memory: how much of its life is used. Of a tape drive the same code is
    /// [`DEVICE_STATUS`].
    pub const SOLID_STATE: u8 = 0x11;
    /// What a disk found when it read its medium by itself. Of a tape drive it has another meaning.
    pub const BACKGROUND_SCAN: u8 = 0x15;
    /// What the ports of a device say of their links.
    pub const PROTOCOL_PORT: u8 = 0x18;
    /// Whether the device expects to fail.
    pub const INFORMATIONAL: u8 = 0x2f;
    /// What a drive is doing.
    pub const DEVICE_STATUS: u8 = 0x11;
    /// TapeAlert flags as 64 bits.
    pub const TAPE_ALERT_RESPONSE: u8 = 0x12;
    /// A drive's life. Of a changer the same code is [`CHANGER_STATISTICS`].
    pub const DEVICE_STATISTICS: u8 = 0x14;
    /// What a changer's robot has done.
    pub const CHANGER_STATISTICS: u8 = 0x14;
    /// A volume's life.
    pub const VOLUME_STATISTICS: u8 = 0x17;
    /// Data compression.
    pub const DATA_COMPRESSION: u8 = 0x1b;
    /// TapeAlert flags, which are cleared by reading them.
    pub const TAPE_ALERT: u8 = 0x2e;
    /// Capacities of partitions (LTO).
    pub const TAPE_CAPACITY: u8 = 0x31;
}

/// A log parameter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogParameter {
    /// Its code.
    pub code: u16,
    /// The byte of its control flags; see [`LogParameter::BINARY_LIST`].
    pub control: u8,
    /// Its value.
    pub value: Vec<u8>,
}

impl LogParameter {
    /// A counter that has no threshold.
    pub const COUNTER: u8 = 0x00;
    /// The value is a list in ASCII.
    pub const ASCII_LIST: u8 = 0x01;
    /// The value is a list in binary.
    pub const BINARY_LIST: u8 = 0x03;

    /// A number of `width` bytes.
    ///
    /// # Panics
    /// If it does not fit.
    #[must_use]
    pub fn of_number(code: u16, control: u8, width: usize, value: u64) -> LogParameter {
        let bytes = value.to_be_bytes();
        let (high, low) = bytes.split_at(bytes.len() - width.min(8));
        assert!(high.iter().all(|byte| *byte == 0), "log parameter {code:04X}h: {value} in {width} bytes");
        LogParameter { code, control, value: low.to_vec() }
    }

    /// The value as a number. `None` if it is empty or longer than eight bytes.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let mut wide = [0; 8];
        let at = wide.len().checked_sub(self.value.len())?;
        wide.get_mut(at..)?.copy_from_slice(&self.value);
        (!self.value.is_empty()).then_some(u64::from_be_bytes(wide))
    }

    /// The value as text.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.value)
    }

    /// The value as records of partitions: their numbers and counters (SSC-5, 8.3.9).
    ///
    /// # Errors
    /// If a record is cut off or has no counter of 1 to 8 bytes.
    pub fn partitions(&self) -> Result<Vec<(u16, u64)>, Malformed> {
        let mut list = Reader::new("partition record list", &self.value);
        let mut all = Vec::new();
        while !list.is_empty() {
            let length = usize::from(list.u8()?);
            let mut record = list.part("partition record", length)?;
            let [_, high, low] = record.array()?;
            let mut wide = [0; 8];
            let counter = record.rest();
            let at = record.at();
            let field = wide.len().checked_sub(counter.len()).and_then(|skip| wide.get_mut(skip..));
            let fault = crate::bytes::Fault::Length { field: "the length of a record", value: length };
            field
                .filter(|field| !field.is_empty())
                .ok_or_else(|| record.fault(at, fault))?
                .copy_from_slice(counter);
            all.push((u16::from_be_bytes([high, low]), u64::from_be_bytes(wide)));
        }
        Ok(all)
    }

    /// A list of records of partitions, whose counters have four bytes.
    #[must_use]
    pub fn of_partitions(code: u16, partitions: &[(u16, u32)]) -> LogParameter {
        let mut value = Vec::new();
        for (partition, counter) in partitions {
            value.extend([7, 0]);
            value.extend(partition.to_be_bytes());
            value.extend(counter.to_be_bytes());
        }
        LogParameter { code, control: LogParameter::BINARY_LIST, value }
    }
}

/// A log page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogPage {
    /// Its code.
    pub code: u8,
    /// Its subpage, if it is one of those.
    pub subpage: Option<u8>,
    /// DS: it is not kept when power is off.
    pub disable_save: bool,
    /// Its parameters, in order of their codes.
    pub parameters: Vec<LogParameter>,
}

struct Header<'a> {
    code: u8,
    subpage: Option<u8>,
    disable_save: bool,
    body: Reader<'a>,
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Malformed> {
    let mut reader = Reader::new(LogPage::NAME, bytes);
    let [first, subpage] = reader.array()?;
    let length = reader.length16()?;
    Ok(Header {
        code: first & 0x3f,
        subpage: (first & 0x40 != 0).then_some(subpage),
        disable_save: first & 0x80 != 0,
        body: reader.part(LogPage::NAME, length)?,
    })
}

fn finish(code: u8, subpage: Option<u8>, disable_save: bool, body: &[u8]) -> Vec<u8> {
    let first = u8::from(disable_save) << 7 | u8::from(subpage.is_some()) << 6 | code & 0x3f;
    let mut out = vec![first, subpage.unwrap_or(0), 0, 0];
    set_length(&mut out, 2, 2, body.len());
    out.extend(body);
    out
}

impl LogPage {
    const NAME: &'static str = "log page";

    /// Reads a page of parameters: any but [`SupportedPages`].
    ///
    /// # Errors
    /// If it or a parameter is cut off.
    pub fn decode(bytes: &[u8]) -> Result<LogPage, Malformed> {
        let Header { code, subpage, disable_save, mut body } = header(bytes)?;
        let mut parameters = Vec::new();
        while !body.is_empty() {
            let code = body.u16()?;
            let [control, length] = body.array()?;
            parameters.push(LogParameter { code, control, value: body.take(usize::from(length))?.to_vec() });
        }
        Ok(LogPage { code, subpage, disable_save, parameters })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is longer than 255 bytes or the page than 65,535.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for parameter in &self.parameters {
            body.extend(parameter.code.to_be_bytes());
            body.extend([parameter.control, 0]);
            let at = body.len() - 1;
            set_length(&mut body, at, 1, parameter.value.len());
            body.extend(&parameter.value);
        }
        finish(self.code, self.subpage, self.disable_save, &body)
    }

    /// The parameter with this code.
    #[must_use]
    pub fn find(&self, code: u16) -> Option<&LogParameter> {
        self.parameters.iter().find(|parameter| parameter.code == code)
    }

    /// The number that the parameter with this code has.
    #[must_use]
    pub fn number(&self, code: u16) -> Option<u64> {
        self.find(code).and_then(LogParameter::number)
    }
}

/// The pages that a device has, 00h, or with subpages, 00h/FFh (SPC-5, 7.3.16).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SupportedPages {
    /// It is the page of subpages.
    pub with_subpages: bool,
    /// Codes of pages and subpages; without subpages these are zero.
    pub pages: Vec<(u8, u8)>,
}

impl SupportedPages {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<SupportedPages, Malformed> {
        let Header { subpage, mut body, .. } = header(bytes)?;
        let with_subpages = subpage.is_some();
        let mut pages = Vec::new();
        while !body.is_empty() {
            let code = body.u8()? & 0x3f;
            pages.push((code, if with_subpages { body.u8()? } else { 0 }));
        }
        Ok(SupportedPages { with_subpages, pages })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 32,767 pages.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (code, subpage) in &self.pages {
            body.push(code & 0x3f);
            if self.with_subpages {
                body.push(*subpage);
            }
        }
        finish(page::SUPPORTED, self.with_subpages.then_some(0xff), false, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex};

    fn volume() -> LogPage {
        LogPage {
            code: page::VOLUME_STATISTICS,
            subpage: None,
            disable_save: false,
            parameters: vec![
                LogParameter::of_number(volume_statistics::PAGE_VALID, 3, 1, 1),
                LogParameter { code: volume_statistics::BARCODE, control: 1, value: b"KST001L8".to_vec() },
                LogParameter::of_partitions(
                    volume_statistics::PARTITION_CAPACITY,
                    &[(0, 37_000), (1, 11_900_000)],
                ),
            ],
        }
    }

    #[test]
    fn a_page_is_the_bytes_of_the_tables() {
        let bytes = hex("17 00 00 25 00 00 03 01 01 00 42 01 08 4b 53 54 30 30 31 4c 38
             02 02 03 10 07 00 00 00 00 00 90 88 07 00 00 01 00 b5 94 60");
        assert_eq!(volume().encode(), bytes);
        let read = LogPage::decode(&bytes).unwrap();
        assert_eq!(read, volume());
        assert_eq!(read.number(volume_statistics::PAGE_VALID), Some(1));
        assert_eq!(read.find(volume_statistics::BARCODE).unwrap().text(), "KST001L8");
        let capacities = read.find(volume_statistics::PARTITION_CAPACITY).unwrap().partitions();
        assert_eq!(capacities, Ok(vec![(0, 37_000), (1, 11_900_000)]));
    }

    #[test]
    fn numbers_have_one_to_eight_bytes() {
        let of = |value: &[u8]| LogParameter { value: value.to_vec(), ..LogParameter::default() }.number();
        assert_eq!(
            (of(&[]), of(&[1, 0]), of(&[0xff; 8]), of(&[0; 9])),
            (None, Some(256), Some(u64::MAX), None)
        );
    }

    #[test]
    fn supported_pages_with_and_without_subpages() {
        let plain = SupportedPages::decode(&hex("00 00 00 04 00 02 0c 2e")).unwrap();
        assert_eq!(plain.pages, [(0, 0), (2, 0), (0x0c, 0), (0x2e, 0)]);
        let bytes = hex("40 ff 00 04 00 00 00 ff");
        let with = SupportedPages::decode(&bytes).unwrap();
        assert_eq!((with.pages.clone(), with.encode()), (vec![(0, 0), (0, 0xff)], bytes));
    }

    #[test]
    fn nothing_panics() {
        let pages = SupportedPages { with_subpages: true, pages: vec![(1, 2)] };
        any_bytes(&[volume().encode(), pages.encode()], |bytes| {
            if let Ok(page) = LogPage::decode(bytes) {
                for parameter in &page.parameters {
                    let _ = (parameter.number(), parameter.text(), parameter.partitions());
                }
                let _ =
                    (TapeAlerts::of_log(&page), TapeAlerts::of_response(&page), DeviceStatus::of_log(&page));
                assert_eq!(LogPage::decode(&page.encode()), Ok(page));
            }
            if let Ok(pages) = SupportedPages::decode(bytes) {
                assert_eq!(SupportedPages::decode(&pages.encode()), Ok(pages));
            }
        });
    }
}
