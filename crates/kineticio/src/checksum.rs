//! The tags of entries.

use base::Crc32c;

/// The polynomial of CRC-32 as zlib has it, bits reversed.
const CRC32_POLYNOMIAL: u32 = 0xedb8_8320;

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        // No truncation: it is below 256.
        #[allow(clippy::cast_possible_truncation)]
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ CRC32_POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        // In range by the loop's condition.
        #[allow(clippy::indexing_slicing)]
        {
            table[index] = value;
        }
        index += 1;
    }
    table
}

const CRC32: [u32; 256] = crc32_table();

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ CRC32.get(usize::from(low ^ byte)).copied().unwrap_or_default()
    })
}

/// What a tag says of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TagVerdict {
    /// It is the CRC-32C of the value, which libkineticio declares as CRC32.
    Crc32c,
    /// It is the CRC-32 of the value, as the first versions of libkineticio had it.
    Crc32,
    /// There is no tag, or it is none that is known.
    Unchecked,
    /// It is the checksum of something else.
    Wrong,
}

/// Compares. libkineticio writes the number in decimal digits; four bytes are taken for it as Kinetic has it.
pub(crate) fn check_tag(tag: &[u8], value: &[u8]) -> TagVerdict {
    let digits = std::str::from_utf8(tag).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse::<u32>().ok());
    let Some(number) = number.or_else(|| tag.try_into().ok().map(u32::from_be_bytes)) else {
        return TagVerdict::Unchecked;
    };
    match () {
        () if number == Crc32c::of(value).0 => TagVerdict::Crc32c,
        () if number == crc32(value) => TagVerdict::Crc32,
        () => TagVerdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_checksums_in_both_forms() {
        let value = b"123456789";
        assert_eq!(check_tag(b"3808858755", value), TagVerdict::Crc32c);
        assert_eq!(check_tag(&0xe306_9283u32.to_be_bytes(), value), TagVerdict::Crc32c);
        assert_eq!(check_tag(b"3421780262", value), TagVerdict::Crc32);
        assert_eq!(check_tag(b"3421780263", value), TagVerdict::Wrong);
        assert_eq!(check_tag(b"0", b""), TagVerdict::Crc32c);
        for unknown in [&b""[..], b"nothing", b"99999999999"] {
            assert_eq!(check_tag(unknown, value), TagVerdict::Unchecked);
        }
    }
}
