//! Percent-encoding and base64, as LTFS names and extended attributes use them.

use std::borrow::Cow;

/// Writes each byte of every character that `needs` picks as `%XX`, upper-case hexadecimal.
pub(crate) fn percent_encode(text: &str, needs: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&needs) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if needs(c) {
            push_encoded(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Appends one character as `%XX` for each of its UTF-8 bytes.
pub(crate) fn push_encoded(out: &mut String, c: char) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        out.push('%');
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// Undoes percent-encoding. `None` if a `%` is not followed by two hexadecimal digits or the result is not
/// UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            out.push(first);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        out.push(hex_byte(digits)?);
        rest = tail;
    }
    String::from_utf8(out).ok()
}

/// The value of two hexadecimal digits.
pub(crate) fn hex_byte(digits: &[u8]) -> Option<u8> {
    let &[high, low] = digits else { return None };
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some((digit(high)? << 4) | digit(low)?)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` as padded base64 (RFC 4648) without line breaks.
pub(crate) fn base64_encode(bytes: &[u8], out: &mut String) {
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                let at = (bits >> (18 - 6 * digit)) & 63;
                out.push(char::from(BASE64[at as usize]));
            } else {
                out.push('=');
            }
        }
    }
}

/// Reads padded base64; white space between digits is skipped. `None` if it is malformed.
pub(crate) fn base64_decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let body = digits.strip_suffix(b"==").or_else(|| digits.strip_suffix(b"=")).unwrap_or(&digits);
    let mut out = Vec::with_capacity(body.len() / 4 * 3 + 2);
    for chunk in body.chunks(4) {
        let mut bits = 0u32;
        for &digit in chunk {
            bits = (bits << 6) | base64_digit(digit)?;
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = bits.to_be_bytes();
        let used = chunk.len() - 1;
        if [a, b, c].iter().skip(used).any(|&left| left != 0) {
            return None;
        }
        out.extend([a, b, c].iter().take(used));
    }
    Some(out)
}

fn base64_digit(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let mut out = String::new();
        base64_encode(b"foob", &mut out);
        assert_eq!(out, "Zm9vYg==");
        assert_eq!(base64_decode("Zm9v\n Yg==").as_deref(), Some(&b"foob"[..]));
        for bad in ["Z", "Zm9vYg=", "Zm9vYh==", "====", "Zm9v!!==", "A==="] {
            assert_eq!(base64_decode(bad), None, "{bad}");
        }
        assert_eq!(percent_encode("a:\u{85}b", |c| c == ':' || c.is_control()), "a%3A%C2%85b");
        for bad in ["%", "%4", "%zz", "%+1", "%ff"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in any::<String>()) {
            let mut out = String::new();
            base64_encode(&bytes, &mut out);
            prop_assert_eq!(base64_decode(&out), Some(bytes));
            let encoded = percent_encode(&text, |c| c == '%' || c.is_control());
            prop_assert_eq!(percent_decode(&encoded), Some(text.clone()));
        }

        #[test]
        fn any_text_is_safe(text in any::<String>()) {
            let _ = (base64_decode(&text), percent_decode(&text));
        }
    }
}
