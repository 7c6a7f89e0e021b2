//! What a drive can write: REPORT DENSITY SUPPORT (SSC-5, 7.8).

use crate::bytes::{Layout, Malformed, Packed, Reader, Text, set_length};

/// A density.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Density {
    /// Its code.
    pub primary: u8,
    /// Another code for it, the same if there is none.
    pub secondary: u8,
    /// The drive can write it.
    pub writable: bool,
    /// It comes more than once in the list.
    pub duplicate: bool,
    /// The drive uses it if none is set.
    pub default: bool,
    /// The length of the descriptor is given.
    pub length_valid: bool,
    /// Bytes of the descriptor behind this field, if given.
    pub length: u16,
    /// Bits per millimetre of track.
    pub bits_per_millimetre: u32,
    /// Width of the medium in tenths of a millimetre.
    pub width_tenths: u16,
    /// Tracks.
    pub tracks: u16,
    /// Capacity in units of 1,000,000 bytes.
    pub capacity_megabytes: u32,
    /// Who assigned the codes.
    pub organization: Text<8>,
    /// Its name.
    pub name: Text<8>,
    /// What it is.
    pub description: Text<20>,
}

impl Packed for Density {
    const NAME: &'static str = "density support data block descriptor";
    const LENGTH: usize = 52;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 1, &mut self.primary);
        l.number(1, 1, &mut self.secondary);
        l.flag(2, 7, &mut self.writable);
        l.flag(2, 6, &mut self.duplicate);
        l.flag(2, 5, &mut self.default);
        l.flag(2, 0, &mut self.length_valid);
        l.number(3, 2, &mut self.length);
        l.number(5, 3, &mut self.bits_per_millimetre);
        l.number(8, 2, &mut self.width_tenths);
        l.number(10, 2, &mut self.tracks);
        l.number(12, 4, &mut self.capacity_megabytes);
        l.text(16, &mut self.organization);
        l.text(24, &mut self.name);
        l.text(32, &mut self.description);
    }
}

/// A medium type, which the command gives if asked for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumType {
    /// Its code.
    pub code: u8,
    /// Bytes of the descriptor behind this field, 52.
    pub length: u16,
    /// How many of the density codes count.
    pub density_count: u8,
    /// The densities that can be on it.
    pub densities: [u8; 9],
    /// Width of the medium in tenths of a millimetre.
    pub width_tenths: u16,
    /// Its length in metres.
    pub length_metres: u16,
    /// Who assigned the code.
    pub organization: Text<8>,
    /// Its name.
    pub name: Text<8>,
    /// What it is.
    pub description: Text<20>,
}

impl Default for MediumType {
    fn default() -> Self {
        MediumType {
            code: 0,
            length: 52,
            density_count: 0,
            densities: [0; 9],
            width_tenths: 0,
            length_metres: 0,
            organization: Text::default(),
            name: Text::default(),
            description: Text::default(),
        }
    }
}

impl Packed for MediumType {
    const NAME: &'static str = "medium type descriptor";
    const LENGTH: usize = 56;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 1, &mut self.code);
        l.number(2, 2, &mut self.length);
        l.number(4, 1, &mut self.density_count);
        l.slice(5, &mut self.densities);
        l.number(14, 2, &mut self.width_tenths);
        l.number(16, 2, &mut self.length_metres);
        l.text(20, &mut self.organization);
        l.text(28, &mut self.name);
        l.text(36, &mut self.description);
    }
}

/// The densities that the drive, or the medium, has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DensityReport(pub Vec<Density>);

/// The medium types that the drive, or the medium, has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MediumTypeReport(pub Vec<MediumType>);

const NAME: &str = "REPORT DENSITY SUPPORT data";

fn decode<T: Packed>(bytes: &[u8]) -> Result<Vec<T>, Malformed> {
    let mut reader = Reader::new(NAME, bytes);
    let length = reader.length16()?;
    let mut list = reader.part(NAME, length)?;
    list.take(2)?;
    let mut all = Vec::new();
    while !list.is_empty() {
        all.push(list.packed()?);
    }
    Ok(all)
}

fn encode<T: Packed>(all: &[T]) -> Vec<u8> {
    let mut out = vec![0; 4];
    all.iter().for_each(|one| out.extend(one.encode()));
    let length = out.len() - 2;
    set_length(&mut out, 0, 2, length);
    out
}

impl DensityReport {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<DensityReport, Malformed> {
        decode(bytes).map(DensityReport)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.0)
    }
}

impl MediumTypeReport {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<MediumTypeReport, Malformed> {
        decode(bytes).map(MediumTypeReport)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    /// sg3_utils, inhex/rep_density.hex: captured from a drive, by what it says of itself LTO-5.
    const CAPTURED: &str = "
        00 9e 00 00 44 44 00 00 00 00 25 a6 00 7f 02 c0 00 06 1a 80 4c 54 4f 2d 43 56 45 20 55 2d 33 31
        36 20 20 20 55 6c 74 72 69 75 6d 20 33 2f 31 36 54 20 20 20 20 20 20 20 46 46 80 00 00 00 31 b5
        00 7f 03 80 00 0c 35 00 4c 54 4f 2d 43 56 45 20 55 2d 34 31 36 20 20 20 55 6c 74 72 69 75 6d 20
        34 2f 31 36 54 20 20 20 20 20 20 20 58 58 a0 00 00 00 3b 26 00 7f 05 00 00 16 e3 60 4c 54 4f 2d
        43 56 45 20 55 2d 35 31 36 20 20 20 55 6c 74 72 69 75 6d 20 35 2f 31 36 54 20 20 20 20 20 20 20";

    #[test]
    fn a_captured_report_is_read_and_written() {
        let report = DensityReport::decode(&hex(CAPTURED)).unwrap();
        assert_eq!(report.encode(), hex(CAPTURED));
        let [three, four, five] = &report.0[..] else { panic!("{report:?}") };
        assert!(!three.writable && four.writable && five.writable && five.default);
        assert_eq!((five.primary, five.tracks, five.capacity_megabytes), (0x58, 1280, 1_500_000));
        assert_eq!(
            (five.name.to_string(), five.description.to_string()),
            ("U-516".into(), "Ultrium 5/16T".into())
        );
        assert_eq!((five.width_tenths, five.bits_per_millimetre), (127, 15_142));
    }

    #[test]
    fn nothing_panics() {
        packed::<Density>();
        packed::<MediumType>();
        let media = MediumTypeReport(vec![MediumType::default(); 2]);
        assert_eq!(MediumTypeReport::decode(&media.encode()), Ok(media.clone()));
        any_bytes(&[hex(CAPTURED), media.encode()], |bytes| {
            if let Ok(report) = DensityReport::decode(bytes) {
                assert_eq!(DensityReport::decode(&report.encode()), Ok(report));
            }
            if let Ok(report) = MediumTypeReport::decode(bytes) {
                assert_eq!(MediumTypeReport::decode(&report.encode()), Ok(report));
            }
        });
    }
}
