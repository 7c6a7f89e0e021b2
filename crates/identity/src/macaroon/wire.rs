//! Macaroons as text: base64url of the binary formats of libmacaroons, version 1 and 2.
//!
//! Version 1 is a row of packets, each with its length in four hexadecimal digits, a key, a space, a value
//! and a line end: `location`, `identifier`, a `cid` for each caveat (with `vid` and `cl` if somebody else
//! is to discharge it), `signature`. Version 2 has a byte 2, then fields of a type, a length and a value, in
//! sections that end with a zero.

use super::MacaroonError;

/// The longest macaroon, as text: servers and proxies take headers of 8 KiB.
pub const MACAROON_BYTES_MAX: usize = 8000;
/// The most caveats, those included that it has from the beginning.
pub const CAVEATS_MAX: usize = 64;

/// What a macaroon says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    /// Where it is from: a hint that nobody signed.
    pub location: String,
    /// What it was made of, for whoever made it.
    pub identifier: Vec<u8>,
    pub caveats: Vec<Vec<u8>>,
    pub signature: [u8; 32],
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64url without padding (RFC 4648, section 5).
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group.iter().zip([16, 8, 0]).fold(0u32, |sum, (byte, by)| sum | u32::from(*byte) << by);
        let letters = [18, 12, 6, 0].into_iter().take(group.len() + 1);
        text.extend(
            letters.filter_map(|by| ALPHABET.get((value >> by) as usize & 63)).map(|b| char::from(*b)),
        );
    }
    text
}

/// The bytes; padding may be there or not. `None` if something else is wrong.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if text.len() != body.len() && (text.len() - body.len() > 2 || !text.len().is_multiple_of(4)) {
        return None;
    }
    let (mut bytes, mut value, mut bits) = (Vec::with_capacity(body.len() * 3 / 4), 0u32, 0u32);
    for letter in body.bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        (value, bits) = ((value << 6 | u32::from(six)) & 0xffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(value >> bits & 0xff).ok()?);
        }
    }
    // One letter alone is no byte, and bits that belong to none are zero.
    (bits < 6 && value & ((1 << bits) - 1) == 0).then_some(bytes)
}

impl Parts {
    /// As text, in version 1, which all clients know.
    pub(crate) fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        let mut packet = |key: &str, value: &[u8]| {
            // The length counts its own four digits, the space and the line end.
            let length = 4 + key.len() + 1 + value.len() + 1;
            bytes.extend(format!("{length:04x}{key} ").bytes());
            bytes.extend(value);
            bytes.push(b'\n');
        };
        packet("location", self.location.as_bytes());
        packet("identifier", &self.identifier);
        self.caveats.iter().for_each(|caveat| packet("cid", caveat));
        packet("signature", &self.signature);
        encode(&bytes)
    }

    /// Reads either version. Nothing of it is believed yet.
    pub(crate) fn read(text: &str) -> Result<Parts, MacaroonError> {
        if text.len() > MACAROON_BYTES_MAX {
            return Err(MacaroonError::TooLong(text.len()));
        }
        let bytes = decode(text).ok_or(MacaroonError::Malformed)?;
        match bytes.split_first() {
            Some((2, fields)) => read_2(fields),
            Some((b'{', _)) => Err(MacaroonError::Json),
            _ => read_1(&bytes),
        }
    }
}

fn read_1(mut bytes: &[u8]) -> Result<Parts, MacaroonError> {
    let mut parts =
        Parts { location: String::new(), identifier: Vec::new(), caveats: Vec::new(), signature: [0; 32] };
    let (mut has_location, mut has_identifier) = (false, false);
    loop {
        let (key, value, rest) = packet(bytes).ok_or(MacaroonError::Malformed)?;
        bytes = rest;
        match key {
            b"location" if !has_location && !has_identifier => {
                has_location = true;
                parts.location = String::from_utf8_lossy(value).into_owned();
            }
            b"identifier" if !has_identifier => {
                has_identifier = true;
                parts.identifier = value.to_vec();
            }
            b"cid" if has_identifier => add(&mut parts, value)?,
            b"vid" | b"cl" => return Err(MacaroonError::ThirdParty),
            b"signature" if has_identifier && bytes.is_empty() => {
                parts.signature = value.try_into().map_err(|_| MacaroonError::Malformed)?;
                return Ok(parts);
            }
            _ => return Err(MacaroonError::Malformed),
        }
    }
}

/// The key, the value and what is behind the first packet.
fn packet(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (digits, _) = bytes.split_at_checked(4)?;
    let is_good = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let length = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_good)?;
    let (packet, rest) = bytes.split_at_checked(length)?;
    let inner = packet.get(4..)?.strip_suffix(b"\n")?;
    let space = inner.iter().position(|byte| *byte == b' ')?;
    let (key, value) = inner.split_at_checked(space)?;
    Some((key, value.get(1..)?, rest))
}

const LOCATION: u8 = 1;
const IDENTIFIER: u8 = 2;
const VERIFICATION: u8 = 4;
const SIGNATURE: u8 = 6;

fn read_2(mut bytes: &[u8]) -> Result<Parts, MacaroonError> {
    let wrong = || MacaroonError::Malformed;
    let head = section(&mut bytes).ok_or_else(wrong)?;
    let mut parts = match head.as_slice() {
        [(IDENTIFIER, identifier)] => parts_of(&[], identifier),
        [(LOCATION, location), (IDENTIFIER, identifier)] => parts_of(location, identifier),
        _ => return Err(wrong()),
    };
    loop {
        let caveat = section(&mut bytes).ok_or_else(wrong)?;
        match caveat.as_slice() {
            [] => break,
            [(IDENTIFIER, caveat)] => add(&mut parts, caveat)?,
            [.., (VERIFICATION, _)] => return Err(MacaroonError::ThirdParty),
            _ => return Err(wrong()),
        }
    }
    match field(&mut bytes).ok_or_else(wrong)? {
        Some((SIGNATURE, signature)) if bytes.is_empty() => {
            parts.signature = signature.try_into().map_err(|_| wrong())?;
            Ok(parts)
        }
        _ => Err(wrong()),
    }
}

fn parts_of(location: &[u8], identifier: &[u8]) -> Parts {
    Parts {
        location: String::from_utf8_lossy(location).into_owned(),
        identifier: identifier.to_vec(),
        caveats: Vec::new(),
        signature: [0; 32],
    }
}

fn add(parts: &mut Parts, caveat: &[u8]) -> Result<(), MacaroonError> {
    if parts.caveats.len() >= CAVEATS_MAX {
        return Err(MacaroonError::TooMany);
    }
    parts.caveats.push(caveat.to_vec());
    Ok(())
}

/// The fields up to the next end of a section, at most three.
fn section<'b>(bytes: &mut &'b [u8]) -> Option<Vec<(u8, &'b [u8])>> {
    let mut fields = Vec::new();
    while let Some(next) = field(bytes)? {
        fields.push(next);
        if fields.len() > 3 {
            return None;
        }
    }
    Some(fields)
}

/// The next field, `Some(None)` at the end of a section. `None` if it is malformed.
fn field<'b>(bytes: &mut &'b [u8]) -> Option<Option<(u8, &'b [u8])>> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    if *kind == 0 {
        return Some(None);
    }
    // A length below 2^14: no field of a macaroon is longer.
    let (low, rest) = rest.split_first()?;
    let (length, rest) = if *low < 0x80 {
        (usize::from(*low), rest)
    } else {
        let (high, rest) = rest.split_first().filter(|(high, _)| (1..0x80).contains(*high))?;
        (usize::from(*low & 0x7f) | usize::from(*high) << 7, rest)
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(Some((*kind, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_read_strictly() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", &[0xfb, 0xff, 0xbf, 0x00]] {
            let text = encode(bytes);
            assert_eq!(decode(&text).unwrap(), bytes);
            let padded = format!("{text}{}", &"==="[..(4 - text.len() % 4) % 4]);
            assert_eq!(decode(&padded).unwrap(), bytes, "{padded}");
        }
        for wrong in ["Z", "Zh", "Zm9=", "Zg=", "Zg===", "Zm+v", "Zm/v", "Zm 9", "Zm9v\n", "=", "Zm9vZ"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
