//! Logical block protection: a checksum of four bytes at the end of each block, from the host to the tape and
//! back (SSC-5, 4.2.27 and annex; mode page 0Ah/F0h turns it on).
//!
//! CRC-32C stands with its least significant byte first, as in iSCSI. The Reed-Solomon CRC of ECMA-319 is the
//! remainder of the block, read as a polynomial over GF(2^8) with its first byte the highest coefficient,
//! times y^4 by y^4 + 38h y^3 + CFh y^2 + 38h y + 1; the field is that of x^8 + x^4 + x^3 + x^2 + 1. It
//! stands with the highest coefficient first.

use base::Crc32c;

use crate::mode::ProtectionMethod;

/// The method of protection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockProtection {
    /// The Reed-Solomon CRC of ECMA-319.
    ReedSolomon,
    /// CRC-32C.
    Crc32c,
}

/// A block does not agree with its checksum, or is too short to have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtectionError {
    /// It is too short.
    #[error("a protected block of {0} bytes has no room for data and checksum")]
    Short(usize),
    /// It was damaged on the way.
    #[error("a block has the checksum {stored:08x}, its data have {computed:08x}")]
    Damaged {
        /// The last four bytes, the first of them the highest.
        stored: u32,
        /// What they should be.
        computed: u32,
    },
}

impl BlockProtection {
    /// Bytes that a checksum has.
    pub const LENGTH: usize = 4;

    /// The method of a mode page, if it is one of these.
    #[must_use]
    pub fn of(method: ProtectionMethod) -> Option<BlockProtection> {
        match method {
            ProtectionMethod::ReedSolomon => Some(BlockProtection::ReedSolomon),
            ProtectionMethod::Crc32c => Some(BlockProtection::Crc32c),
            _ => None,
        }
    }

    /// The checksum of a block as it stands at its end. Reading a block costs about what the checksum costs:
    /// CRC-32C runs at memory speed, the Reed-Solomon CRC at a table look-up for each byte.
    #[must_use]
    pub fn checksum(self, block: &[u8]) -> [u8; Self::LENGTH] {
        match self {
            BlockProtection::ReedSolomon => reed_solomon(block).to_be_bytes(),
            BlockProtection::Crc32c => Crc32c::of(block).0.to_le_bytes(),
        }
    }

    /// Puts the checksum behind a block.
    pub fn append(self, block: &mut Vec<u8>) {
        let checksum = self.checksum(block);
        block.extend(checksum);
    }

    /// Whether a block agrees with the checksum that came behind it.
    ///
    /// # Errors
    /// If it does not.
    pub fn verify_apart(self, block: &[u8], stored: [u8; Self::LENGTH]) -> Result<(), ProtectionError> {
        let computed = self.checksum(block);
        if stored == computed {
            return Ok(());
        }
        let (stored, computed) = (u32::from_be_bytes(stored), u32::from_be_bytes(computed));
        Err(ProtectionError::Damaged { stored, computed })
    }

    /// The data of a protected block, if the checksum agrees.
    ///
    /// # Errors
    /// If it does not, or there is none. A block without data has none: tapes have no empty blocks.
    pub fn verify(self, protected: &[u8]) -> Result<&[u8], ProtectionError> {
        let (data, stored) = protected
            .split_last_chunk::<{ Self::LENGTH }>()
            .filter(|(data, _)| !data.is_empty())
            .ok_or(ProtectionError::Short(protected.len()))?;
        self.verify_apart(data, *stored).map(|()| data)
    }
}

/// The generator without its highest coefficient.
const GENERATOR: [u8; 4] = [0x38, 0xcf, 0x38, 0x01];

/// Multiplies in the field.
const fn multiply(mut a: u8, mut b: u8) -> u8 {
    /// x^4 + x^3 + x^2 + 1: what x^8 is in the field.
    const OVERFLOW: u8 = 0x1d;
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        let carry = a >> 7 == 1;
        a <<= 1;
        if carry {
            a ^= OVERFLOW;
        }
        b >>= 1;
    }
    product
}

/// Bytes that are taken in at once: one look-up does not wait for the one before.
const SLICE: usize = 8;

/// The remainders of each byte times y^4, y^5 and so on.
#[expect(clippy::indexing_slicing, reason = "there is a row for each byte, and a constant has no other way")]
const REMAINDERS: [[u32; 256]; SLICE] = {
    let mut tables = [[0; 256]; SLICE];
    let mut byte: u8 = 0;
    loop {
        let [a, b, c, d] = GENERATOR;
        let row = [multiply(a, byte), multiply(b, byte), multiply(c, byte), multiply(d, byte)];
        tables[0][byte as usize] = u32::from_be_bytes(row);
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    let mut power = 1;
    while power < SLICE {
        let mut at = 0;
        while at < 256 {
            let before = tables[power - 1][at];
            tables[power][at] = before << 8 ^ tables[0][(before >> 24) as usize];
            at += 1;
        }
        power += 1;
    }
    tables
};

fn remainder_of(byte: u8, power: usize) -> u32 {
    REMAINDERS.get(power).and_then(|table| table.get(usize::from(byte))).copied().unwrap_or_default()
}

fn reed_solomon(block: &[u8]) -> u32 {
    let (slices, rest) = block.as_chunks::<SLICE>();
    let remainder = slices.iter().fold(0, |remainder: u32, [a, b, c, d, e, f, g, h]| {
        let [r0, r1, r2, r3] = remainder.to_be_bytes();
        let early = remainder_of(a ^ r0, 7) ^ remainder_of(b ^ r1, 6);
        let middle = remainder_of(c ^ r2, 5) ^ remainder_of(d ^ r3, 4);
        let late = remainder_of(*e, 3) ^ remainder_of(*f, 2) ^ remainder_of(*g, 1) ^ remainder_of(*h, 0);
        early ^ middle ^ late
    });
    rest.iter().fold(remainder, step)
}

/// Takes one byte in.
fn step(remainder: u32, byte: &u8) -> u32 {
    let [first, ..] = remainder.to_be_bytes();
    remainder << 8 ^ remainder_of(first ^ byte, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [BlockProtection; 2] = [BlockProtection::ReedSolomon, BlockProtection::Crc32c];

    /// RFC 3720, B.4: 32 bytes of zeros, of ones, counting up and down; the bytes as they go over the wire.
    #[test]
    fn crc32c_has_the_published_values() {
        let of = |block: Vec<u8>| BlockProtection::Crc32c.checksum(&block);
        assert_eq!(of(vec![0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(of(vec![0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(of((0..32).collect()), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(of((0..32).rev().collect()), [0x5c, 0xdb, 0x3f, 0x11]);
    }

    /// Entries of the table that the IBM LTO SCSI reference prints in its annex on block protection, also in
    /// LTFS (src/tape_drivers/reed_solomon_crc.c): the remainder of a block of one byte is its entry.
    #[test]
    fn the_reed_solomon_crc_has_the_published_values() {
        for (byte, entry) in [
            (0x00, 0x0000_0000),
            (0x01, 0x38cf_3801),
            (0x02, 0x7083_7002),
            (0x03, 0x484c_4803),
            (0xee, 0xe99c_e9ee),
            (0xef, 0xd153_d1ef),
            (0xf0, 0x035e_03f0),
            (0xfe, 0x4ef0_4efe),
            (0xff, 0x763f_76ff_u32),
        ] {
            assert_eq!(BlockProtection::ReedSolomon.checksum(&[byte]), entry.to_be_bytes());
        }
        // Of two bytes by hand: the remainder of 01h moves up by one place, its highest coefficient is taken
        // in.
        let two = 0xcf38_0100 ^ u32::from_be_bytes(BlockProtection::ReedSolomon.checksum(&[0x38 ^ 0x02]));
        assert_eq!(BlockProtection::ReedSolomon.checksum(&[1, 2]), two.to_be_bytes());
    }

    #[test]
    fn blocks_that_are_too_short_are_refused() {
        for protection in BOTH {
            for length in 0..=4 {
                assert_eq!(protection.verify(&vec![0; length]), Err(ProtectionError::Short(length)));
            }
        }
        assert_eq!(BlockProtection::of(ProtectionMethod::None), None);
    }

    proptest! {
        #[test]
        fn a_block_comes_back_and_a_changed_one_does_not(
            block in prop::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            flip in 1u8..=255,
        ) {
            for protection in BOTH {
                let mut protected = block.clone();
                protection.append(&mut protected);
                prop_assert_eq!(protection.verify(&protected), Ok(&block[..]));
                protected[at.index(block.len() + 4)] ^= flip;
                prop_assert!(protection.verify(&protected).is_err());
            }
        }

        #[test]
        fn eight_bytes_at_once_are_as_eight_steps(block in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(reed_solomon(&block), block.iter().fold(0, step));
        }

        /// With its remainder behind it, a block is a multiple of the generator: no remainder is left.
        #[test]
        fn a_protected_block_has_no_remainder(mut block in prop::collection::vec(any::<u8>(), 1..300)) {
            BlockProtection::ReedSolomon.append(&mut block);
            prop_assert_eq!(reed_solomon(&block), 0);
        }
    }
}
