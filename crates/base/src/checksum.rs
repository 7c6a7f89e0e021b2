//! Checksums. Adler-32, CRC-32C and CRC-64/NVME can be combined from the parts of a stream, BLAKE3 cannot.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};

/// Adler-32 (RFC 1950): the checksum of the grid. It collides easily and never decides identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adler32(pub u32);

/// CRC-32C (Castagnoli), as in iSCSI: reflected, initial and final inversion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Crc32c(pub u32);

/// CRC-64/NVME.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Crc64(pub u64);

/// BLAKE3, 256 bits: decides whether two contents are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blake3(pub [u8; 32]);

impl Default for Adler32 {
    /// The checksum of nothing, which is 1.
    fn default() -> Self {
        Adler32(1)
    }
}

impl Adler32 {
    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Adler32(simd_adler32::adler32(&bytes))
    }

    /// The checksum of this stream followed by `bytes`.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        let mut state = simd_adler32::Adler32::from_checksum(self.0);
        state.write(bytes);
        Adler32(state.finish())
    }

    /// The checksum of this stream followed by one of `next_length` bytes whose checksum is `next`.
    #[must_use]
    pub fn combine(self, next: Adler32, next_length: u64) -> Adler32 {
        const MODULUS: u64 = 65_521;
        let (a1, b1) = (u64::from(self.0 & 0xffff), u64::from(self.0 >> 16));
        let (a2, b2) = (u64::from(next.0 & 0xffff), u64::from(next.0 >> 16));
        let length = next_length % MODULUS;
        // A sums the bytes from 1 on; B sums the A after each byte, so A's start counts once per byte.
        let a = (a1 + a2 + MODULUS - 1) % MODULUS;
        let b = (b1 + b2 + length * ((a1 + MODULUS - 1) % MODULUS)) % MODULUS;
        Adler32(low_half((b << 16) | a))
    }

    /// Reads eight hexadecimal digits, as in `Digest: adler32=`. `None` if malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        well_formed.then(|| u32::from_str_radix(text, 16).ok()).flatten().map(Adler32)
    }
}

/// A checksum of 32 bits, which comes in the low half of more.
#[expect(clippy::cast_possible_truncation, reason = "the high half is zero")]
fn low_half(checksum: u64) -> u32 {
    checksum as u32
}

impl Crc32c {
    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Crc32c(low_half(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes)))
    }

    /// Reads eight hexadecimal digits, as in `Digest: adler32=`. `None` if malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        well_formed.then(|| u32::from_str_radix(text, 16).ok()).flatten().map(Crc32c)
    }

    /// The checksum of this stream followed by `bytes`. Goes on from the register, which costs nothing beside
    /// the bytes.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        let register = u64::from(self.0 ^ u32::MAX);
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, register);
        digest.update(bytes);
        Crc32c(low_half(digest.finalize()))
    }

    /// The checksum of this stream followed by one of `next_length` bytes whose checksum is `next`.
    #[must_use]
    pub fn combine(self, next: Crc32c, next_length: u64) -> Crc32c {
        // Followed by n bytes, a checksum is multiplied by x^8n; conditioning at both ends cancels out.
        let mut shifted = self.0;
        for (bit, power) in SHIFTS.iter().enumerate() {
            if next_length >> bit & 1 == 1 {
                shifted = multiply(*power, shifted);
            }
        }
        Crc32c(shifted ^ next.0)
    }
}

/// x^(8 · 2^i) for each bit i of a length: what a checksum is multiplied by when 2^i bytes follow.
const SHIFTS: [u32; 64] = {
    // The highest bit stands for x^0, so this is x^8.
    let mut power = 1u32 << 23;
    let mut powers = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        powers[bit] = power;
        power = multiply(power, power);
        bit += 1;
    }
    powers
};

/// The product of two polynomials modulo that of CRC-32C, bits reflected.
const fn multiply(a: u32, mut b: u32) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let (mut product, mut bit) = (0, 32);
    while bit > 0 {
        bit -= 1;
        // All bits or none, so that nothing branches on data.
        product ^= b & 0u32.wrapping_sub(a >> bit & 1);
        b = b >> 1 ^ (POLYNOMIAL & 0u32.wrapping_sub(b & 1));
    }
    product
}

impl Crc64 {
    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Crc64(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes))
    }

    /// The checksum of several parts, one behind the other.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        parts.iter().for_each(|part| digest.update(part));
        Crc64(digest.finalize())
    }

    /// The checksum of this stream followed by `bytes`. Goes on from the register, which costs nothing beside
    /// the bytes.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, self.0 ^ u64::MAX);
        digest.update(bytes);
        Crc64(digest.finalize())
    }

    /// The checksum of this stream followed by one of `next_length` bytes whose checksum is `next`.
    #[must_use]
    pub fn combine(self, next: Crc64, next_length: u64) -> Crc64 {
        let mut shifted = self.0;
        for (bit, power) in SHIFTS_64.iter().enumerate() {
            if next_length >> bit & 1 == 1 {
                shifted = multiply_64(*power, shifted);
            }
        }
        Crc64(shifted ^ next.0)
    }
}

/// As [`SHIFTS`], for CRC-64/NVME.
const SHIFTS_64: [u64; 64] = {
    let mut power = 1u64 << 55;
    let mut powers = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        powers[bit] = power;
        power = multiply_64(power, power);
        bit += 1;
    }
    powers
};

/// The product of two polynomials modulo that of CRC-64/NVME, bits reflected.
const fn multiply_64(a: u64, mut b: u64) -> u64 {
    const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;
    let (mut product, mut bit) = (0, 64);
    while bit > 0 {
        bit -= 1;
        product ^= b & 0u64.wrapping_sub(a >> bit & 1);
        b = b >> 1 ^ (POLYNOMIAL & 0u64.wrapping_sub(b & 1));
    }
    product
}

macro_rules! hex {
    ($($name:ident, $digits:literal);*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!(concat!("{:0", $digits, "x}"), self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}

hex!(Adler32, "8"; Crc32c, "8"; Crc64, "16");

impl Blake3 {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Blake3(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits. `None` if malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0u8; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Blake3(bytes))
    }
}

impl fmt::Display for Blake3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Blake3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blake3({self})")
    }
}

/// The two checksums of a stream that can be combined from parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct StreamChecksums {
    /// Adler-32.
    pub adler32: Adler32,
    /// CRC-32C.
    pub crc32c: Crc32c,
}

impl StreamChecksums {
    /// The checksums of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        StreamChecksums { adler32: Adler32::of(bytes), crc32c: Crc32c::of(bytes) }
    }

    /// The checksums of this stream followed by `next`, which has `next_length` bytes.
    #[must_use]
    pub fn combine(self, next: StreamChecksums, next_length: u64) -> Self {
        StreamChecksums {
            adler32: self.adler32.combine(next.adler32, next_length),
            crc32c: self.crc32c.combine(next.crc32c, next_length),
        }
    }

    /// The checksums of this stream followed by `bytes`.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        StreamChecksums { adler32: self.adler32.extend(bytes), crc32c: self.crc32c.extend(bytes) }
    }
}

/// All checksums that Kist keeps of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checksums {
    /// Those that combine.
    pub stream: StreamChecksums,
    /// The one that identifies.
    pub blake3: Blake3,
}

impl Checksums {
    /// The checksums of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Checksums { stream: StreamChecksums::of(bytes), blake3: Blake3::of(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn check_values() {
        // RFC 1950 and the CRC catalogue's check values for "123456789".
        assert_eq!(Adler32::of(b"123456789"), Adler32(0x091e_01de));
        assert_eq!(Crc32c::of(b"123456789"), Crc32c(0xe306_9283));
        assert_eq!(Crc64::of(b"123456789"), Crc64(0xae8b_1486_0a79_9888));
        assert_eq!(Adler32::of(b""), Adler32::default());
        assert_eq!(Crc32c::of(b""), Crc32c::default());
        assert_eq!(Adler32(0x1e01de).to_string(), "001e01de");
    }

    #[test]
    fn adler_text_is_checked() {
        assert_eq!(Adler32::parse("091e01de"), Some(Adler32(0x091e_01de)));
        for bad in ["", "+1", "xyz", "091e01de0"] {
            assert_eq!(Adler32::parse(bad), None, "{bad}");
        }
        assert_eq!(Blake3::parse(&Blake3::of(b"x").to_string()), Some(Blake3::of(b"x")));
        assert_eq!(Blake3::parse(&"é".repeat(32)), None);
    }

    proptest! {
        #[test]
        fn long_tails_combine(first in any::<u32>(), next in any::<u32>(), length in any::<u64>()) {
            let theirs = crc_fast::checksum_combine(
                CrcAlgorithm::Crc32Iscsi, u64::from(first), u64::from(next), length);
            prop_assert_eq!(Crc32c(first).combine(Crc32c(next), length), Crc32c(theirs as u32));
        }

        #[test]
        fn long_tails_of_crc64_combine(first in any::<u64>(), next in any::<u64>(), length in any::<u64>()) {
            let theirs = crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, first, next, length);
            prop_assert_eq!(Crc64(first).combine(Crc64(next), length), Crc64(theirs));
        }

        #[test]
        fn parts_combine_to_the_whole(a in proptest::collection::vec(any::<u8>(), 0..70_000),
                                      b in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            let whole = [a.as_slice(), b.as_slice()].concat();
            let (first, next) = (StreamChecksums::of(&a), StreamChecksums::of(&b));
            prop_assert_eq!(first.extend(&b), StreamChecksums::of(&whole));
            prop_assert_eq!(first.combine(next, b.len() as u64), StreamChecksums::of(&whole));
            let (first, next) = (Crc64::of(&a), Crc64::of(&b));
            prop_assert_eq!(Crc64::of_parts(&[&a, &b]), Crc64::of(&whole));
            prop_assert_eq!(first.extend(&b), Crc64::of(&whole));
            prop_assert_eq!(first.combine(next, b.len() as u64), Crc64::of(&whole));
        }
    }
}
