//! The logical units of a target: REPORT LUNS (SPC-5, 6.33; the format of a number SAM-6, 4.7).

use std::fmt;

use crate::bytes::{Fault, Malformed, Reader, set_length};

/// The number of a logical unit as it goes over the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lun(pub [u8; 8]);

impl Lun {
    /// The unit with this number on a single level. `None` from 16,384 on.
    #[must_use]
    pub fn single(number: u16) -> Option<Lun> {
        let [high, low] = number.to_be_bytes();
        let first = match number {
            0..256 => 0,
            256..16_384 => 0x40 | high,
            _ => return None,
        };
        Some(Lun([first, low, 0, 0, 0, 0, 0, 0]))
    }

    /// The number, if it is a single level of peripheral or flat addressing.
    #[must_use]
    pub fn number(self) -> Option<u16> {
        match self.0 {
            [first, low, 0, 0, 0, 0, 0, 0] if first == 0 || first >> 6 == 1 => {
                Some(u16::from_be_bytes([first & 0x3f, low]))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{:016x}h", u64::from_be_bytes(self.0)),
        }
    }
}

/// The answer to REPORT LUNS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Luns(pub Vec<Lun>);

impl Luns {
    const NAME: &'static str = "REPORT LUNS data";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or its length is no multiple of 8.
    pub fn decode(bytes: &[u8]) -> Result<Luns, Malformed> {
        let mut reader = Reader::new(Luns::NAME, bytes);
        let length = reader.length32()?;
        reader.take(4)?;
        if !length.is_multiple_of(8) {
            return Err(reader.fault(0, Fault::Length { field: "the LUN list length", value: length }));
        }
        let mut list = reader.part(Luns::NAME, length)?;
        let mut luns = Vec::new();
        while !list.is_empty() {
            luns.push(Lun(list.array()?));
        }
        Ok(Luns(luns))
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 8];
        set_length(&mut out, 0, 4, self.0.len() * 8);
        self.0.iter().for_each(|lun| out.extend(lun.0));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex};

    /// sg3_utils, inhex/luns_wlun.hex.
    const LUNS: &str = "00 00 00 30 00 00 00 00 00 01 00 00 00 00 00 00 03 08 02 04 01 02 00 01
        c1 01 00 00 00 00 00 00 52 34 00 00 00 00 00 00 81 44 00 00 00 00 00 00 ff ff ff ff ff ff ff ff";

    #[test]
    fn a_published_list_is_read() {
        let luns = Luns::decode(&hex(LUNS)).unwrap();
        assert_eq!(luns.encode(), hex(LUNS));
        let numbers: Vec<_> = luns.0.iter().map(|lun| lun.number()).collect();
        assert_eq!(numbers, [Some(1), None, None, Some(0x1234), None, None]);
        assert_eq!(luns.0[2].to_string(), "c101000000000000h");
    }

    #[test]
    fn numbers_up_to_the_limit_have_an_address() {
        for number in [0, 1, 255, 256, 16_383] {
            assert_eq!(Lun::single(number).and_then(Lun::number), Some(number));
        }
        assert_eq!(Lun::single(16_384), None);
        assert_eq!(Lun::single(300), Some(Lun([0x41, 0x2c, 0, 0, 0, 0, 0, 0])));
    }

    #[test]
    fn nothing_panics() {
        assert_eq!(Luns::decode(&hex("00 00 00 09 00 00 00 00")).unwrap_err().at, 0);
        any_bytes(&[hex(LUNS)], |bytes| {
            if let Ok(luns) = Luns::decode(bytes) {
                assert_eq!(Luns::decode(&luns.encode()), Ok(luns));
            }
        });
    }
}
