//! What another server says of a file's checksums: `Digest` (RFC 3230) and `Repr-Digest` (RFC 9530). Pure.

use base::{Adler32, Crc32c, base64};
use http::HeaderMap;

use crate::error::Error;

/// What is asked for (RFC 3230). XRootD 5.5.3 knows header names only as they are written here; its values
/// may be in either case (measured).
pub(crate) const WANT_DIGEST: &str = "adler32, md5, crc32c";
/// The same of RFC 9530.
pub(crate) const WANT_REPR_DIGEST: &str = "adler=5, adler32=5, crc32c=4, md5=3";
/// The most digests of one answer that are looked at.
const DIGESTS_MAX: usize = 32;

/// Checksums of the whole file, as another server has them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Digests {
    /// Adler-32.
    pub adler32: Option<Adler32>,
    /// MD5.
    pub md5: Option<[u8; 16]>,
    /// CRC-32C.
    pub crc32c: Option<Crc32c>,
}

impl Digests {
    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Digests::default()
    }

    /// Reads the headers of an answer. What is malformed, or of another algorithm, counts as not said.
    ///
    /// # Errors
    /// [`Error::Digests`] if two values of one algorithm are said.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Digests, Error> {
        let mut found = Digests::default();
        let mut count = 0;
        for (name, is_repr) in [("digest", false), ("repr-digest", true)] {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            // A comma stands in neither hexadecimal digits nor base64.
            for item in values.flat_map(|value| value.split(',')) {
                count += 1;
                let Some((name, value)) = item.trim().split_once('=').filter(|_| count <= DIGESTS_MAX) else {
                    continue;
                };
                found.note(&name.trim().to_ascii_lowercase(), value.trim(), is_repr)?;
            }
        }
        Ok(found)
    }

    /// The checksums of both; which are in both have to be the same.
    pub(crate) fn and(mut self, other: Digests) -> Result<Digests, Error> {
        set(&mut self.adler32, other.adler32)?;
        set(&mut self.md5, other.md5)?;
        set(&mut self.crc32c, other.crc32c)?;
        Ok(self)
    }

    fn note(&mut self, name: &str, value: &str, is_repr: bool) -> Result<(), Error> {
        let value = match is_repr {
            // A byte sequence of a structured field; parameters are behind a semicolon.
            true => match value.strip_prefix(':').and_then(|rest| rest.split_once(':')) {
                Some((encoded, _)) => encoded,
                None => return Ok(()),
            },
            false => value.trim_matches('"'),
        };
        let four = |value: &str| {
            let bytes: [u8; 4] = base64::decode(value)?.try_into().ok()?;
            Some(u32::from_be_bytes(bytes))
        };
        match (name, is_repr) {
            ("adler32", false) => set(&mut self.adler32, Adler32::parse(value)),
            ("adler" | "adler32", true) => set(&mut self.adler32, four(value).map(Adler32)),
            // Some say it in hexadecimal digits, which are eight and have no padding at their end.
            ("crc32c", false) if value.len() == 8 && !value.ends_with('=') => {
                set(&mut self.crc32c, Crc32c::parse(value))
            }
            ("crc32c", _) => set(&mut self.crc32c, four(value).map(Crc32c)),
            ("md5", false) if value.len() == 32 => set(&mut self.md5, sixteen_of_hex(value)),
            ("md5", _) => set(&mut self.md5, base64::decode(value).and_then(|bytes| bytes.try_into().ok())),
            _ => Ok(()),
        }
    }
}

fn sixteen_of_hex(text: &str) -> Option<[u8; 16]> {
    let well_formed = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    well_formed.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

fn set<T: PartialEq>(place: &mut Option<T>, value: Option<T>) -> Result<(), Error> {
    match (&place, value) {
        (Some(known), Some(value)) if *known != value => Err(Error::Digests),
        (None, value @ Some(_)) => {
            *place = value;
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(lines: &[(&'static str, &str)]) -> Result<Digests, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Digests::read(&headers)
    }

    const ADLER: Option<Adler32> = Some(Adler32(0x084b_021f));

    #[test]
    fn what_servers_say_is_understood() {
        assert_eq!(read(&[("digest", "adler32=084b021f")]).unwrap().adler32, ADLER);
        assert_eq!(read(&[("digest", "ADLER32=84B021F")]).unwrap().adler32, ADLER, "XRootD leaves zeros out");
        let hello = Some([
            0xb1, 0x94, 0x6a, 0xc9, 0x24, 0x92, 0xd2, 0x34, 0x7c, 0x62, 0x35, 0xb4, 0xd2, 0x61, 0x11, 0x84,
        ]);
        let several =
            read(&[("digest", "md5=sZRqySSS0jR8YjW00mERhA==, adler32=084b021f"), ("digest", "sha=x")]);
        assert_eq!(several, Ok(Digests { adler32: ADLER, md5: hello, crc32c: None }));
        assert_eq!(read(&[("digest", "MD5=b1946ac92492d2347c6235b4d2611184")]).unwrap().md5, hello);
        let crc = Some(Crc32c(0x5d27_e1c5));
        assert_eq!(read(&[("digest", "crc32c=XSfhxQ==")]).unwrap().crc32c, crc);
        assert_eq!(read(&[("digest", "crc32c=5d27e1c5")]).unwrap().crc32c, crc);
        let repr = read(&[(
            "repr-digest",
            "adler=:CEsCHw==:, crc32c=:XSfhxQ==:;x=1, md5=:sZRqySSS0jR8YjW00mERhA==:",
        )]);
        assert_eq!(repr, Ok(Digests { adler32: ADLER, md5: hello, crc32c: crc }));
    }

    #[test]
    fn garbage_says_nothing_and_contradictions_are_errors() {
        let garbage = [
            "",
            "adler32",
            "adler32=",
            "adler32=xyz",
            "adler32=0123456789",
            "adler32=+1",
            "md5=abc",
            "md5=:sZRqySSS0jR8YjW00mERhA==:",
            "crc32c=5d27e1",
            "=,=,==",
            ",,,,",
            "sha-256=abc",
            "\u{7f}",
        ];
        for text in garbage {
            let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else { continue };
            let headers = HeaderMap::from_iter([("digest".parse().unwrap(), value)]);
            assert!(Digests::read(&headers).unwrap().is_empty(), "{text:?}");
        }
        for text in ["adler32=:084b021f:", "adler=084b021f", "md5=:abc", "crc32c=::", "adler=:CEsCHwA=:"] {
            assert!(read(&[("repr-digest", text)]).unwrap().is_empty(), "{text}");
        }
        let twice = [("digest", "adler32=1, adler32=2"), ("digest", "adler32=3")];
        assert_eq!(read(&twice[..1]), Err(Error::Digests));
        assert_eq!(
            read(&[("digest", "adler32=084b021f"), ("repr-digest", "adler=:CEsCHw==:")]).unwrap().adler32,
            ADLER
        );
        assert_eq!(
            read(&[("digest", "adler32=1"), ("repr-digest", "adler=:CEsCHw==:")]),
            Err(Error::Digests)
        );
        let many = "adler32=zz,".repeat(DIGESTS_MAX) + "adler32=1";
        assert!(read(&[("digest", &many)]).unwrap().is_empty());
    }
}
