//! Base64 of the short values of digests (RFC 4648, section 4), strictly.

/// The bytes; `None` if a character, the padding or a bit beyond the last byte is wrong.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    if padding > 2 || !text.len().is_multiple_of(4) {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0u32);
    for letter in body.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = ((bits << 6 | u32::from(value)) & 0xffff, held + 6);
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    (bits & ((1 << held) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_as_it_should_be() {
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(decode("Zg==").unwrap(), b"f");
        assert_eq!(decode("Zm8=").unwrap(), b"fo");
        assert_eq!(decode("Zm9v").unwrap(), b"foo");
        assert_eq!(decode("+/+/").unwrap(), [0xfb, 0xff, 0xbf]);
        for wrong in ["Zg=", "Zg", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zm9v\n", "Zm-_", "=Zm9"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
