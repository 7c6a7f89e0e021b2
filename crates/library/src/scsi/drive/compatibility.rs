//! Which drive reads, writes and formats which cartridge.
//!
//! Sources: *LTO* IBM TS4500 documentation, "Compatibility among LTO tape drives and tape cartridges" (LTO-5 to
//! LTO-8, M8); LTFS, src/tape_drivers/ibm_tape.c, `lto_drive_density` (LTO-5 to LTO-9); FreeBSD, mt(1),
//! 930486f9 (LTO-10: its own cartridges only, densities 62h and 63h). *3592* the same file of LTFS,
//! `jaguar_drive_density`. *Codes* of media and densities: LTFS, src/tape_drivers/tape_drivers.h. *Partitions*
//! from LTO-5 and TS1140 on (LTFS format specification 2.5, annex A); a WORM cartridge cannot hold the index
//! partition of LTFS, which is written over.

use std::fmt;

use ::scsi::Inquiry;
use ::scsi::density::DensityReport;

/// The generation of a drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DriveGeneration {
    /// LTO, by its number.
    Lto(u8),
    /// IBM TS1140 (3592 E07).
    Ts1140,
    /// IBM TS1150 (3592 E08).
    Ts1150,
    /// IBM TS1155 (3592 55F).
    Ts1155,
    /// IBM TS1160 (3592 60F).
    Ts1160,
    /// IBM TS1170 (3592 70F).
    Ts1170,
}

/// A kind of cartridge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cartridge {
    /// LTO, by its number.
    Lto {
        /// The generation that it was made for.
        generation: u8,
        /// What is written stays.
        worm: bool,
        /// LTO-7, formatted by an LTO-8 drive for 9 TB.
        m8: bool,
    },
    /// 3592, by the two letters of its label.
    Ibm3592 {
        /// `JB`, `JC`, …
        letters: &'static str,
        /// What is written stays.
        worm: bool,
    },
}

/// What a drive can do with a cartridge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CartridgeAccess {
    /// Read it.
    pub read: bool,
    /// Write it, in the format that it has.
    pub write: bool,
    /// Make the two partitions of LTFS.
    pub format: bool,
}

const NOTHING: CartridgeAccess = CartridgeAccess { read: false, write: false, format: false };
const READ: CartridgeAccess = CartridgeAccess { read: true, write: false, format: false };
const APPEND: CartridgeAccess = CartridgeAccess { read: true, write: true, format: false };
const ALL: CartridgeAccess = CartridgeAccess { read: true, write: true, format: true };

/// Densities of LTO and the generation that they are the first of.
const LTO_DENSITIES: [(u8, u8); 8] =
    [(0x44, 3), (0x46, 4), (0x58, 5), (0x5a, 6), (0x5c, 7), (0x5e, 8), (0x60, 9), (0x62, 10)];
const DENSITY_M8: u8 = 0x5d;
/// What TS1140 wrote, plain and encrypted: later drives no longer write it.
const DENSITIES_TS1140: [u8; 2] = [0x54, 0x74];

/// The medium type of MODE SENSE, the letters, and whether it is WORM.
const MEDIA_3592: [(u8, &str, bool); 16] = [
    (0x91, "JA", false),
    (0xa1, "JW", true),
    (0xb1, "JJ", false),
    (0xc1, "JR", true),
    (0x92, "JB", false),
    (0xa2, "JX", true),
    (0x93, "JC", false),
    (0xa3, "JY", true),
    (0xb2, "JK", false),
    (0x94, "JD", false),
    (0xa4, "JZ", true),
    (0xb3, "JL", false),
    (0x95, "JE", false),
    (0xa5, "JV", true),
    (0xb4, "JM", false),
    (0x96, "JF", false),
];

/// The product names of 3592 drives.
const PRODUCTS_3592: [(&str, DriveGeneration); 5] = [
    ("03592E07", DriveGeneration::Ts1140),
    ("03592E08", DriveGeneration::Ts1150),
    ("0359255", DriveGeneration::Ts1155),
    ("0359260", DriveGeneration::Ts1160),
    ("0359270", DriveGeneration::Ts1170),
];

impl DriveGeneration {
    /// The generation of a drive: 3592 by the product, LTO by the newest density that it writes. `None` if it
    /// is neither.
    #[must_use]
    pub fn of(inquiry: &Inquiry, densities: &DensityReport) -> Option<DriveGeneration> {
        let product = inquiry.product.trimmed();
        if let Some((_, generation)) = PRODUCTS_3592.iter().find(|(name, _)| product.starts_with(name)) {
            return Some(*generation);
        }
        let generation_of = |code: u8| LTO_DENSITIES.iter().find(|(density, _)| *density == code);
        let lto = densities.0.iter().filter(|density| density.writable);
        lto.filter_map(|density| generation_of(density.primary))
            .map(|(_, generation)| DriveGeneration::Lto(*generation))
            .max()
    }

    /// What the drive can do with a cartridge that is written in `density`.
    #[must_use]
    pub fn access(self, cartridge: Cartridge, density: u8) -> CartridgeAccess {
        let access = match (self, cartridge) {
            (DriveGeneration::Lto(drive), Cartridge::Lto { generation, m8, .. }) => {
                lto(drive, generation, m8)
            }
            (DriveGeneration::Lto(_), _) | (_, Cartridge::Lto { .. }) => NOTHING,
            (drive, Cartridge::Ibm3592 { letters, .. }) => ibm(drive, letters, density),
        };
        if cartridge.is_worm() && access == ALL { APPEND } else { access }
    }
}

fn lto(drive: u8, generation: u8, m8: bool) -> CartridgeAccess {
    let partitions = if generation >= 5 { ALL } else { APPEND };
    match (drive, generation) {
        (8, 7) if m8 => ALL,
        _ if m8 => NOTHING,
        (5..=10, own) if own == drive => partitions,
        (5..=9, before) if before + 1 == drive => partitions,
        (5..=7, before) if before + 2 == drive => READ,
        _ => NOTHING,
    }
}

fn ibm(drive: DriveGeneration, letters: &str, density: u8) -> CartridgeAccess {
    let is_old = DENSITIES_TS1140.contains(&density);
    match (drive, letters) {
        (DriveGeneration::Ts1140, "JB" | "JX" | "JC" | "JK" | "JY") => ALL,
        (DriveGeneration::Ts1150, "JC" | "JK" | "JY" | "JD" | "JL" | "JZ") => ALL,
        (DriveGeneration::Ts1155 | DriveGeneration::Ts1160, "JC" | "JK" | "JY") if is_old => READ,
        (DriveGeneration::Ts1155, "JC" | "JK" | "JY" | "JD" | "JL" | "JZ") => ALL,
        (DriveGeneration::Ts1160, "JC" | "JK" | "JY" | "JD" | "JL" | "JZ" | "JE" | "JM" | "JV") => ALL,
        (DriveGeneration::Ts1170, "JF") => ALL,
        _ => NOTHING,
    }
}

impl Cartridge {
    /// The kind of a cartridge by the medium type and density that the drive says, `None` if they are not
    /// known. The same code means another thing in the other family.
    #[must_use]
    pub fn of(drive: DriveGeneration, medium_type: u8, density: u8) -> Option<Cartridge> {
        if let DriveGeneration::Lto(_) = drive {
            let (generation, kind) = (medium_type >> 4, medium_type & 0x0f);
            // 18h to A8h; A9h is LTO-10 of 40 TB.
            let worm = match kind {
                0x8 => false,
                0x9 if generation == 10 => false,
                0xc => true,
                _ => return None,
            };
            return (1..=10).contains(&generation).then_some(Cartridge::Lto {
                generation,
                worm,
                m8: density == DENSITY_M8,
            });
        }
        let found = MEDIA_3592.iter().find(|(code, ..)| *code == medium_type)?;
        Some(Cartridge::Ibm3592 { letters: found.1, worm: found.2 })
    }

    /// Whether what is written stays.
    #[must_use]
    pub fn is_worm(self) -> bool {
        match self {
            Cartridge::Lto { worm, .. } | Cartridge::Ibm3592 { worm, .. } => worm,
        }
    }
}

impl fmt::Display for DriveGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveGeneration::Lto(generation) => write!(f, "LTO-{generation}"),
            DriveGeneration::Ts1140 => f.write_str("TS1140"),
            DriveGeneration::Ts1150 => f.write_str("TS1150"),
            DriveGeneration::Ts1155 => f.write_str("TS1155"),
            DriveGeneration::Ts1160 => f.write_str("TS1160"),
            DriveGeneration::Ts1170 => f.write_str("TS1170"),
        }
    }
}

impl fmt::Display for Cartridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cartridge::Lto { m8: true, .. } => f.write_str("LTO-M8")?,
            Cartridge::Lto { generation, .. } => write!(f, "LTO-{generation}")?,
            Cartridge::Ibm3592 { letters, .. } => write!(f, "3592 {letters}")?,
        }
        f.write_str(if self.is_worm() { " WORM" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::scsi::Text;
    use ::scsi::density::Density;

    fn cartridge(generation: u8) -> Cartridge {
        Cartridge::Lto { generation, worm: false, m8: false }
    }

    /// The table of the TS4500 documentation, and what came after it: columns LTO-5 to LTO-10.
    #[test]
    fn lto_is_as_published() {
        let rows: [(u8, [CartridgeAccess; 6]); 8] = [
            (3, [READ, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING]),
            (4, [APPEND, READ, NOTHING, NOTHING, NOTHING, NOTHING]),
            (5, [ALL, ALL, READ, NOTHING, NOTHING, NOTHING]),
            (6, [NOTHING, ALL, ALL, NOTHING, NOTHING, NOTHING]),
            (7, [NOTHING, NOTHING, ALL, ALL, NOTHING, NOTHING]),
            (8, [NOTHING, NOTHING, NOTHING, ALL, ALL, NOTHING]),
            (9, [NOTHING, NOTHING, NOTHING, NOTHING, ALL, NOTHING]),
            (10, [NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, ALL]),
        ];
        for (generation, row) in rows {
            for (drive, expected) in (5..=10).zip(row) {
                let found = DriveGeneration::Lto(drive).access(cartridge(generation), 0);
                assert_eq!(found, expected, "LTO-{generation} in LTO-{drive}");
            }
        }
        let m8 = Cartridge::of(DriveGeneration::Lto(8), 0x78, 0x5d).unwrap();
        assert_eq!(m8.to_string(), "LTO-M8");
        let of = |drive| DriveGeneration::Lto(drive).access(m8, 0x5d);
        assert_eq!((of(7), of(8), of(9)), (NOTHING, ALL, NOTHING));
    }

    #[test]
    fn enterprise_cartridges_are_as_in_ltfs() {
        let access = |drive: DriveGeneration, medium_type, density| {
            drive.access(Cartridge::of(drive, medium_type, density).unwrap(), density)
        };
        use DriveGeneration::*;
        assert_eq!(access(Ts1140, 0x92, 0x54), ALL);
        assert_eq!(access(Ts1150, 0x92, 0x54), NOTHING);
        assert_eq!(access(Ts1150, 0x93, 0x54), ALL);
        // JC as TS1140 wrote it is read by later drives, no more written.
        assert_eq!((access(Ts1160, 0x93, 0x54), access(Ts1160, 0x93, 0x55)), (READ, ALL));
        assert_eq!((access(Ts1170, 0x96, 0), access(Ts1170, 0x95, 0)), (ALL, NOTHING));
        assert_eq!(access(Ts1160, 0xa5, 0), APPEND, "WORM");
        assert_eq!(Ts1160.access(cartridge(9), 0), NOTHING);
    }

    #[test]
    fn codes_mean_what_the_family_says() {
        let of = |drive, code| Cartridge::of(drive, code, 0).map(|found| found.to_string());
        assert_eq!(of(DriveGeneration::Lto(9), 0x98).as_deref(), Some("LTO-9"));
        assert_eq!(of(DriveGeneration::Lto(9), 0x9c).as_deref(), Some("LTO-9 WORM"));
        assert_eq!(of(DriveGeneration::Lto(10), 0xa9).as_deref(), Some("LTO-10"));
        assert_eq!(of(DriveGeneration::Ts1160, 0xa5).as_deref(), Some("3592 JV WORM"));
        assert_eq!(of(DriveGeneration::Lto(9), 0x00), None);
        assert_eq!(of(DriveGeneration::Ts1160, 0x98), None);
    }

    #[test]
    fn a_drive_is_told_by_what_it_writes() {
        let density = |primary, writable| Density { primary, writable, ..Density::default() };
        let report = DensityReport(vec![density(0x5a, true), density(0x58, true), density(0x62, false)]);
        let inquiry = |product| Inquiry { product: Text::new(product).unwrap(), ..Inquiry::default() };
        assert_eq!(DriveGeneration::of(&inquiry("ULT3580-TD6"), &report), Some(DriveGeneration::Lto(6)));
        assert_eq!(DriveGeneration::of(&inquiry("0359260F"), &report), Some(DriveGeneration::Ts1160));
        assert_eq!(DriveGeneration::of(&inquiry("DAT"), &DensityReport::default()), None);
    }
}
