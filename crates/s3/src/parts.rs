//! What S3 makes of parts: the ETag, the checksum and the sizes of a whole from those of its parts.

use archive::PartInfo;
use catalogue::Attributes;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use s3s::dto::{ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, s3_error};
use transfer::{Kind, digest};

use crate::checksums::DEFAULT;
use crate::metadata::{self, text};
use crate::sigv4::hex;
use base::base64;

/// The smallest part but the last, as in S3.
pub(crate) const PART_BYTES_MIN: u64 = 5 << 20;
/// The largest part, as in S3.
pub(crate) const PART_BYTES_MAX: u64 = 5 << 30;
/// Most parts of an object, as in S3.
pub(crate) const PARTS_MAX: u16 = catalogue::PARTS_MAX;
/// What an upload keeps of its checksum, only for as long as it is open.
pub(crate) const UPLOAD_SUM: &str = "kist.upload.sum";
/// What a part keeps: its MD5 in hexadecimal.
const PART_ETAG: &str = "etag";
/// What a part keeps: `crc32=BASE64`, and in a second line what was computed beside it.
const PART_SUM: &str = "sum";
/// Sizes that take more text than this are not kept: parts of which each has another size.
const SIZES_BYTES_MAX: usize = 16 << 10;

/// Checksums of parts that take more text than this are not kept: those of some 1,200 parts with CRC-64.
const SUMS_BYTES_MAX: usize = 16 << 10;

/// The checksum that an upload was begun with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Which.
    pub kind: Kind,
    /// Over all bytes; else over the checksums of the parts.
    pub full: bool,
}

impl Plan {
    /// What a client asks for at the beginning.
    ///
    /// # Errors
    /// `InvalidRequest` for what S3 does not have.
    pub(crate) fn asked(
        algorithm: Option<&ChecksumAlgorithm>,
        form: Option<&ChecksumType>,
    ) -> S3Result<Option<Plan>> {
        let Some(algorithm) = algorithm else {
            return match form {
                None => Ok(None),
                Some(_) => {
                    Err(s3_error!(InvalidRequest, "x-amz-checksum-type needs x-amz-checksum-algorithm"))
                }
            };
        };
        let name = algorithm.as_str();
        let kind = Kind::of_name(name)
            .ok_or_else(|| s3_error!(InvalidRequest, "the checksum algorithm '{name}' is not known"))?;
        let full = match form.map(ChecksumType::as_str) {
            Some(ChecksumType::FULL_OBJECT) => true,
            Some(ChecksumType::COMPOSITE) => false,
            None => kind == Kind::Crc64nvme,
            Some(other) => return Err(s3_error!(InvalidRequest, "the checksum type '{other}' is not known")),
        };
        let is_offered = match kind {
            Kind::Crc64nvme => full,
            Kind::Sha1 | Kind::Sha256 => !full,
            Kind::Crc32 | Kind::Crc32c => true,
            // s3s has no field for them where parts are listed and completed.
            Kind::Sha512 | Kind::Md5 => {
                return Err(s3_error!(NotImplemented, "uploads in parts take no checksum {name} here"));
            }
        };
        if !is_offered {
            let form = if full { "FULL_OBJECT" } else { "COMPOSITE" };
            return Err(s3_error!(InvalidRequest, "the checksum type {form} cannot be used with {name}"));
        }
        Ok(Some(Plan { kind, full }))
    }

    /// What an upload has that was begun without: what S3 computes by default, whatever else the client sent
    /// with the parts; if all parts have it, since older servers computed it only of parts that came without.
    pub(crate) fn by_default(parts: &[&Stored]) -> Option<Plan> {
        let has = |part: &&Stored| part.sum(DEFAULT).is_some();
        parts.iter().all(has).then_some(Plan { kind: DEFAULT, full: true })
    }

    /// What an upload keeps of it.
    pub(crate) fn text(self) -> String {
        format!("{} {}", self.kind.name(), if self.full { "full" } else { "composite" })
    }

    /// Of an upload; `None` if it has none.
    pub(crate) fn of(attributes: &Attributes) -> Option<Plan> {
        let (kind, form) = text(attributes, UPLOAD_SUM)?.split_once(' ')?;
        Some(Plan { kind: Kind::of_name(kind)?, full: form == "full" })
    }

    pub(crate) fn algorithm(self) -> ChecksumAlgorithm {
        ChecksumAlgorithm::from(self.kind.name().to_ascii_uppercase())
    }

    pub(crate) fn form(self) -> ChecksumType {
        let form = if self.full { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE };
        ChecksumType::from_static(form)
    }
}

/// What is known of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub number: u16,
    pub size: u64,
    pub stamp: u64,
    pub md5: Vec<u8>,
    pub sums: Vec<(Kind, Vec<u8>)>,
}

/// What a part is to keep.
pub(crate) fn kept(md5: &[u8], sums: impl IntoIterator<Item = (Kind, String)>) -> Vec<(String, Vec<u8>)> {
    let mut kept = vec![(PART_ETAG.to_owned(), hex(md5).into_bytes())];
    let lines: Vec<String> =
        sums.into_iter().map(|(kind, value)| format!("{}={value}", kind.name())).collect();
    if !lines.is_empty() {
        kept.push((PART_SUM.to_owned(), lines.join("\n").into_bytes()));
    }
    kept
}

impl Stored {
    /// Of a part; `None` if another door has put it.
    pub(crate) fn of(part: &PartInfo) -> Option<Stored> {
        let value = |name: &str| {
            let (_, value) = part.attributes.iter().find(|(known, _)| known == name)?;
            std::str::from_utf8(value).ok()
        };
        let md5 = from_hex(value(PART_ETAG)?)?;
        let sum = |line: &str| {
            let (kind, value) = line.split_once('=')?;
            Some((Kind::of_name(kind)?, base64::decode(value)?))
        };
        let sums = value(PART_SUM).unwrap_or_default().lines().map(sum).collect::<Option<Vec<_>>>()?;
        Some(Stored { number: part.number, size: part.size.0, stamp: part.stamp, md5, sums })
    }

    /// Its ETag, without quotes.
    pub(crate) fn etag(&self) -> String {
        hex(&self.md5)
    }

    /// Its checksum of this kind.
    fn sum(&self, kind: Kind) -> Option<&[u8]> {
        self.sums.iter().find(|(of, _)| *of == kind).map(|(_, value)| value.as_slice())
    }

    /// Its checksum of this kind in base64.
    pub(crate) fn sum_text(&self, kind: Kind) -> Option<String> {
        self.sum(kind).map(base64::encode)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

/// The ETag of an object of these parts, without quotes: the MD5 of their MD5s, and how many they are.
pub(crate) fn etag(parts: &[&Stored]) -> String {
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(&part.md5));
    format!("{}-{}", hex(&md5.finalize()), parts.len())
}

/// The checksum of an object of these parts, as S3 writes it; `None` if a part has none.
pub(crate) fn sum(plan: Plan, parts: &[&Stored]) -> Option<String> {
    let values = parts.iter().map(|part| Some((part.sum(plan.kind)?, part.size)));
    let values = values.collect::<Option<Vec<(&[u8], u64)>>>()?;
    if plan.full {
        return combined(plan.kind, &values).map(|value| base64::encode(&value));
    }
    let all: Vec<u8> = values.iter().flat_map(|(value, _)| value.iter().copied()).collect();
    Some(format!("{}-{}", base64::encode(&digest(plan.kind, &all)), parts.len()))
}

/// The CRC of parts one behind the other.
fn combined(kind: Kind, parts: &[(&[u8], u64)]) -> Option<Vec<u8>> {
    let algorithm = match kind {
        Kind::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        Kind::Crc32c => CrcAlgorithm::Crc32Iscsi,
        Kind::Crc64nvme => CrcAlgorithm::Crc64Nvme,
        Kind::Sha1 | Kind::Sha256 | Kind::Sha512 | Kind::Md5 => return None,
    };
    let number = |value: &[u8]| value.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let ((first, _), rest) = parts.split_first()?;
    let bytes = first.len();
    let whole = rest.iter().fold(number(first), |sum, (value, length)| {
        crc_fast::checksum_combine(algorithm, sum, number(value), *length)
    });
    whole.to_be_bytes().get(8usize.checked_sub(bytes)?..).map(<[u8]>::to_vec)
}

/// Sizes as text: `8388608*12 5000`. `None` if that is too long to be kept.
pub(crate) fn sizes_text(sizes: impl IntoIterator<Item = u64>) -> Option<String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for size in sizes {
        match runs.last_mut() {
            Some((of, count)) if *of == size => *count += 1,
            _ => runs.push((size, 1)),
        }
    }
    let one = |(size, count): &(u64, u64)| match count {
        1 => size.to_string(),
        count => format!("{size}*{count}"),
    };
    let text = runs.iter().map(one).collect::<Vec<_>>().join(" ");
    (text.len() <= SIZES_BYTES_MAX).then_some(text)
}

/// The sizes of the parts that an object was made of; `None` if it was not made of parts, or they are not
/// known.
pub(crate) fn sizes(attributes: &Attributes) -> Option<Vec<u64>> {
    let mut sizes: Vec<u64> = Vec::new();
    for run in text(attributes, metadata::PARTS)?.split(' ') {
        let (size, count): (u64, usize) = match run.split_once('*') {
            Some((size, count)) => (size.parse().ok()?, count.parse().ok()?),
            None => (run.parse().ok()?, 1),
        };
        if sizes.len() + count > usize::from(PARTS_MAX) {
            return None;
        }
        sizes.extend(std::iter::repeat_n(size, count));
    }
    Some(sizes)
}

/// Checksums of the parts of an object as text: `crc32 BASE64 BASE64`. `None` if that is too long to be kept.
pub(crate) fn sums_text(kind: Kind, parts: &[&Stored]) -> Option<String> {
    let mut text = kind.name().to_owned();
    for part in parts {
        text.push(' ');
        text.push_str(&part.sum_text(kind)?);
        if text.len() > SUMS_BYTES_MAX {
            return None;
        }
    }
    Some(text)
}

/// The checksum of a part of an object in base64; `None` if it is not known.
pub(crate) fn sum_of(attributes: &Attributes, number: u16) -> Option<(Kind, String)> {
    let (kind, values) = text(attributes, metadata::PART_SUMS)?.split_once(' ')?;
    let value = values.split(' ').nth(usize::from(number).checked_sub(1)?)?;
    Some((Kind::of_name(kind)?, value.to_owned()))
}

/// Where a part stands in an object of these parts: offset and length.
pub(crate) fn range(sizes: &[u64], number: u16) -> Option<(u64, u64)> {
    let at = usize::from(number).checked_sub(1)?;
    let length = *sizes.get(at)?;
    Some((sizes.iter().take(at).sum(), length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ByteCount, Timestamp};

    fn part(number: u16, content: &[u8], kind: Kind) -> Stored {
        let sum = base64::encode(&digest(kind, content));
        let attributes = kept(&Md5::digest(content), Some((kind, sum)));
        let (size, stored) = (ByteCount(content.len() as u64), Timestamp(0));
        Stored::of(&PartInfo { number, size, stored, attributes, stamp: 7 }).unwrap()
    }

    #[test]
    fn full_checksums_are_those_of_all_bytes() {
        let whole: Vec<u8> = (0..100_000u32).map(|at| (at * 7) as u8).collect();
        for kind in [Kind::Crc32, Kind::Crc32c, Kind::Crc64nvme] {
            for cuts in [&[][..], &[1], &[50_000], &[3, 70_000, 99_999], &[0, 0]] {
                let mut parts = Vec::new();
                let mut from = 0;
                for (number, to) in cuts.iter().copied().chain([whole.len()]).enumerate() {
                    parts.push(part(number as u16 + 1, &whole[from..to.max(from)], kind));
                    from = to.max(from);
                }
                let expected = base64::encode(&digest(kind, &whole));
                let parts: Vec<&Stored> = parts.iter().collect();
                assert_eq!(sum(Plan { kind, full: true }, &parts), Some(expected), "{kind:?} {cuts:?}");
            }
        }
    }

    #[test]
    fn composite_checksums_and_etags_are_of_the_parts() {
        let parts = [part(1, b"one", Kind::Sha256), part(4, b"two", Kind::Sha256)];
        let both: Vec<&Stored> = parts.iter().collect();
        let raw = [digest(Kind::Sha256, b"one"), digest(Kind::Sha256, b"two")].concat();
        let expected = format!("{}-2", base64::encode(&digest(Kind::Sha256, &raw)));
        assert_eq!(sum(Plan { kind: Kind::Sha256, full: false }, &both), Some(expected));
        assert_eq!(sum(Plan { kind: Kind::Sha1, full: false }, &both), None, "they have another one");
        let md5s = [Md5::digest(b"one"), Md5::digest(b"two")].concat();
        assert_eq!(etag(&both), format!("{}-2", hex(&Md5::digest(&md5s))));
    }

    #[test]
    fn sizes_are_kept_in_runs() {
        let back = |sizes: &[u64]| {
            let text = sizes_text(sizes.iter().copied())?;
            let xattrs = vec![(metadata::PARTS.to_owned(), text.into_bytes())];
            super::sizes(&Attributes { xattrs, ..Attributes::default() })
        };
        for sizes in [vec![5], vec![8 << 20; 9_999], vec![1, 2, 2, 3], [vec![8 << 20; 3], vec![0]].concat()] {
            assert_eq!(back(&sizes), Some(sizes));
        }
        assert_eq!(back(&(0..10_000).map(|at| at + (5 << 20)).collect::<Vec<_>>()), None);
        assert_eq!(range(&[10, 20, 30], 3), Some((30, 30)));
        assert_eq!(range(&[10], 2), None);
        assert_eq!(range(&[10], 0), None);
    }

    #[test]
    fn what_s3_does_not_have_is_refused() {
        let asked = |name: Option<&'static str>, form: Option<&'static str>| {
            let name = name.map(ChecksumAlgorithm::from_static);
            Plan::asked(name.as_ref(), form.map(ChecksumType::from_static).as_ref()).map_err(|_| ())
        };
        assert_eq!(asked(None, None), Ok(None));
        assert_eq!(asked(Some("CRC32"), None), Ok(Some(Plan { kind: Kind::Crc32, full: false })));
        assert_eq!(asked(Some("CRC64NVME"), None), Ok(Some(Plan { kind: Kind::Crc64nvme, full: true })));
        for (name, form) in [
            (Some("SHA1"), Some("FULL_OBJECT")),
            (Some("CRC64NVME"), Some("COMPOSITE")),
            (Some("MD4"), None),
            (Some("SHA512"), None),
            (Some("MD5"), None),
            (Some("XXHASH64"), None),
            (Some("CRC32"), Some("HALF")),
            (None, Some("COMPOSITE")),
        ] {
            assert_eq!(asked(name, form), Err(()), "{name:?} {form:?}");
        }
        for kind in transfer::KINDS.into_iter().take(5) {
            for full in [true, false] {
                let plan = Plan { kind, full };
                let xattrs = vec![(UPLOAD_SUM.to_owned(), plan.text().into_bytes())];
                assert_eq!(Plan::of(&Attributes { xattrs, ..Attributes::default() }), Some(plan));
            }
        }
    }
}
