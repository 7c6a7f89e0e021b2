//! Percent encoding, as addresses and signatures want it.

/// Decodes `%XX`; everything else stands for itself. `None` if a `%` is not followed by two digits, or the
/// result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    decode_bytes(text, false)
}

/// As [`decode`], but `+` is a space, as in queries.
pub(crate) fn decode_form(text: &str) -> Option<String> {
    decode_bytes(text, true)
}

fn decode_bytes(text: &str, form: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                let digit = |at: usize| char::from(digits[at]).to_digit(16);
                bytes.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
                rest = tail;
            }
            b'+' if form => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes all but `A-Z a-z 0-9 - . _ ~`, and `/` only if asked to.
pub(crate) fn encode_into(out: &mut String, text: &str, slashes: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if !slashes => out.push('/'),
            _ => {
                out.push('%');
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
}

/// Encodes a key for a listing with `encoding-type=url`.
pub(crate) fn encode_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    encode_into(&mut out, key, false);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut out = String::new();
        encode_into(&mut out, "a b/ü~+%", true);
        assert_eq!(out, "a%20b%2F%C3%BC~%2B%25");
        assert_eq!(decode(&out).as_deref(), Some("a b/ü~+%"));
        assert_eq!(decode("a+b").as_deref(), Some("a+b"));
        assert_eq!(decode_form("a+b%2b").as_deref(), Some("a b+"));
        for bad in ["%", "%1", "%zz", "%+1", "%C3"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
