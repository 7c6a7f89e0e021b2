//! Digests of files in headers: `Want-Digest` and `Digest` (RFC 3230), `Want-Repr-Digest` and `Repr-Digest`
//! (RFC 9530), `Content-MD5`. Adler-32 and CRC-32C are known of every file, others are computed if they are
//! asked for.

use archive::FileStat;
use base::{Adler32, Crc32c};
use entrance::Refusal;
use http::{HeaderMap, HeaderName, HeaderValue};

use base::base64;

/// The attribute in which S3 keeps the MD5 of an object that was put in one.
const ETAG: &str = "kist.s3.etag";

/// A digest that clients may send or ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sum {
    Adler32,
    Crc32c,
    Md5,
}

impl Sum {
    /// Of its name in either registry, and of the one that the grid uses.
    pub(crate) fn of_name(name: &str) -> Option<Sum> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("adler32") || is("adler") {
            Some(Sum::Adler32)
        } else if is("crc32c") {
            Some(Sum::Crc32c)
        } else if is("md5") {
            Some(Sum::Md5)
        } else {
            None
        }
    }

    fn bytes(self) -> usize {
        match self {
            Sum::Adler32 | Sum::Crc32c => 4,
            Sum::Md5 => 16,
        }
    }

    /// `Digest: NAME=VALUE`: Adler-32 in hexadecimal, the others in base64, as XRootD and dCache write them.
    fn written(self, value: &[u8]) -> String {
        match self {
            Sum::Adler32 => format!("adler32={}", hexadecimal(value)),
            Sum::Crc32c => format!("crc32c={}", base64::encode(value)),
            Sum::Md5 => format!("md5={}", base64::encode(value)),
        }
    }

    /// `Repr-Digest: NAME=:BASE64:`.
    fn written_as_field(self, value: &[u8]) -> String {
        let name = match self {
            Sum::Adler32 => "adler",
            Sum::Crc32c => "crc32c",
            Sum::Md5 => "md5",
        };
        format!("{name}=:{}:", base64::encode(value))
    }
}

/// What a client says that its bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Announced {
    pub adler32: Option<Adler32>,
    pub crc32c: Option<Crc32c>,
    pub md5: Option<[u8; 16]>,
}

/// Reads what a client announces. Digests that are not known here are passed over, as both RFCs have it.
///
/// # Errors
/// If one that is known is malformed, or is given twice and differs.
pub(crate) fn announced(headers: &HeaderMap) -> Result<Announced, Refusal> {
    let mut found = Announced::default();
    for value in headers.get_all("digest") {
        let text = value.to_str().map_err(|_| Refusal::bad("the header Digest is not ASCII"))?;
        for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
            if let Some(sum) = Sum::of_name(name.trim()) {
                found.note(sum, &plain(sum, value.trim()).ok_or_else(|| malformed("Digest", name))?)?;
            }
        }
    }
    for header in ["repr-digest", "content-digest"] {
        for value in headers.get_all(header) {
            let text =
                value.to_str().map_err(|_| Refusal::bad(format!("the header {header} is not ASCII")))?;
            for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
                if let Some(sum) = Sum::of_name(name.trim()) {
                    let value = value.trim().strip_prefix(':').and_then(|value| value.strip_suffix(':'));
                    let value = value.and_then(base64::decode).filter(|value| value.len() == sum.bytes());
                    found.note(sum, &value.ok_or_else(|| malformed(header, name))?)?;
                }
            }
        }
    }
    if let Some(value) = headers.get("content-md5") {
        let value =
            value.to_str().ok().and_then(|text| base64::decode(text.trim())).filter(|md5| md5.len() == 16);
        found.note(Sum::Md5, &value.ok_or_else(|| malformed("Content-MD5", "md5"))?)?;
    }
    Ok(found)
}

/// A value of `Digest`, in hexadecimal or base64: both are in use.
fn plain(sum: Sum, text: &str) -> Option<Vec<u8>> {
    if sum == Sum::Adler32 {
        return Some(Adler32::parse(text)?.0.to_be_bytes().to_vec());
    }
    if text.len() == 2 * sum.bytes() && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        let digit = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        return (0..sum.bytes()).map(digit).collect();
    }
    base64::decode(text).filter(|value| value.len() == sum.bytes())
}

fn malformed(header: &str, name: &str) -> Refusal {
    Refusal::bad(format!("the header {header} has a value for {} that is none", name.trim()))
}

impl Announced {
    fn note(&mut self, sum: Sum, value: &[u8]) -> Result<(), Refusal> {
        let differs = || Refusal::bad("two different digests of one kind are announced");
        let four = || value.try_into().map(u32::from_be_bytes).unwrap_or_default();
        match sum {
            Sum::Adler32 => {
                let value = Adler32(four());
                (self.adler32.replace(value).is_none_or(|known| known == value))
                    .then_some(())
                    .ok_or_else(differs)
            }
            Sum::Crc32c => {
                let value = Crc32c(four());
                (self.crc32c.replace(value).is_none_or(|known| known == value))
                    .then_some(())
                    .ok_or_else(differs)
            }
            Sum::Md5 => {
                let value: [u8; 16] = value.try_into().unwrap_or_default();
                (self.md5.replace(value).is_none_or(|known| known == value)).then_some(()).ok_or_else(differs)
            }
        }
    }
}

/// Which digests a client asks for, and by which header.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    pub digest: Vec<Sum>,
    pub field: Vec<Sum>,
}

impl Wanted {
    /// Of the headers of a request. What is not known is passed over, what has the weight 0 is not wanted.
    pub(crate) fn of(headers: &HeaderMap) -> Wanted {
        let read = |name: &str| {
            let mut sums = Vec::new();
            for value in headers.get_all(name) {
                for part in value.to_str().unwrap_or_default().split(',') {
                    let end = part.find([';', '=']).unwrap_or(part.len());
                    let (name, weight) = part.split_at(end);
                    let weight = weight.rsplit('=').next().unwrap_or_default().trim();
                    let refused =
                        !weight.is_empty() && weight.parse::<f32>().is_ok_and(|weight| weight == 0.0);
                    if let Some(sum) = Sum::of_name(name.trim()).filter(|sum| !refused && !sums.contains(sum))
                    {
                        sums.push(sum);
                    }
                }
            }
            sums
        };
        let mut field = read("want-repr-digest");
        field.extend(read("want-content-digest"));
        field.dedup();
        Wanted { digest: read("want-digest"), field }
    }

    /// Whether an MD5 has to be computed for it.
    pub(crate) fn needs_md5(&self, stat: &FileStat) -> bool {
        (self.digest.contains(&Sum::Md5) || self.field.contains(&Sum::Md5)) && known_md5(stat).is_none()
    }

    /// The headers that answer it; without a wish Adler-32, which clients of the grid read anyway.
    pub(crate) fn answer(&self, stat: &FileStat, md5: Option<[u8; 16]>, headers: &mut HeaderMap) {
        let value = |sum: Sum| match sum {
            Sum::Adler32 => Some(stat.checksums.stream.adler32.0.to_be_bytes().to_vec()),
            Sum::Crc32c => Some(stat.checksums.stream.crc32c.0.to_be_bytes().to_vec()),
            Sum::Md5 => Some(md5.or_else(|| known_md5(stat))?.to_vec()),
        };
        let plain = if self.digest.is_empty() { &[Sum::Adler32][..] } else { &self.digest };
        let digest: Vec<_> = plain.iter().filter_map(|sum| Some(sum.written(&value(*sum)?))).collect();
        let field: Vec<_> =
            self.field.iter().filter_map(|sum| Some(sum.written_as_field(&value(*sum)?))).collect();
        for (name, parts) in [("digest", digest), ("repr-digest", field)] {
            if let Ok(text) = HeaderValue::from_str(&parts.join(","))
                && !parts.is_empty()
            {
                headers.insert(HeaderName::from_static(name), text);
            }
        }
    }
}

/// The MD5 that S3 keeps of an object that was put in one.
fn known_md5(stat: &FileStat) -> Option<[u8; 16]> {
    let (_, value) = stat.attributes.xattrs.iter().find(|(name, _)| name == ETAG)?;
    plain(Sum::Md5, std::str::from_utf8(value).ok().filter(|text| text.len() == 32)?)?.try_into().ok()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn digests_are_read_in_all_forms_that_are_in_use() {
        let md5 = Some(*b"\x9d\x5e\xd6\x78\xfe\x57\xbc\xca\x61\x01\x40\x95\x7a\xfa\xb5\x71");
        let read = |lines: &[(&'static str, &str)]| announced(&headers(lines));
        let all = Announced { adler32: Some(Adler32(0x0123)), crc32c: Some(Crc32c(0xe306_9283)), md5 };
        let forms = [
            vec![("digest", "Adler32=123, crc32c=4waSgw==,MD5=nV7WeP5XvMphAUCVevq1cQ==, sha-256=x")],
            vec![
                ("digest", "adler32=00000123"),
                ("digest", "crc32c=e3069283,md5=9d5ed678fe57bcca610140957afab571"),
            ],
            vec![
                ("repr-digest", "adler=:AAABIw==:, crc32c=:4waSgw==:"),
                ("content-md5", "nV7WeP5XvMphAUCVevq1cQ=="),
            ],
        ];
        for lines in &forms {
            assert_eq!(read(lines).unwrap(), all, "{lines:?}");
        }
        for bad in [
            ("digest", "adler32="),
            ("digest", "adler32=1,adler32=2"),
            ("digest", "md5=abc"),
            ("repr-digest", "md5=nV7WeP5XvMphAUCVevq1cQ=="),
            ("content-md5", "x"),
        ] {
            assert!(read(&[bad]).is_err(), "{bad:?}");
        }
        assert_eq!(read(&[("digest", "sha-512=garbage,unixsum=3")]).unwrap(), Announced::default());
    }

    #[test]
    fn wishes_are_read_in_any_case() {
        let wanted = Wanted::of(&headers(&[("want-digest", "ADLER32;q=0.5, md5;q=0, Crc32c")]));
        assert_eq!(wanted.digest, [Sum::Adler32, Sum::Crc32c]);
        let wanted = Wanted::of(&headers(&[("want-repr-digest", "adler=3, md5=0, sha-256=10, crc32c=1")]));
        assert_eq!(wanted.field, [Sum::Adler32, Sum::Crc32c]);
    }
}
