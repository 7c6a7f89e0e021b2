//! What answers about objects have in common.

use std::time::{Duration, UNIX_EPOCH};

use archive::{ArchiveError, FileStat, Locality, ObjectStat, RestoreState};
use base::Timestamp;
use catalogue::Attributes;
use s3s::dto::{
    self, ChecksumAlgorithm, ChecksumType, ETag, ObjectStorageClass, Owner, RestoreStatus, StorageClass,
    TimestampFormat,
};
use s3s::s3_error;
use transfer::Kind;

use crate::checksums;
use crate::context::{Failure, Guest};
use crate::glacier;
use crate::keys::{self, Place};
use crate::metadata::{self, text};
use crate::settings::S3Settings;

/// A time of ours as s3s has it.
pub(crate) fn timestamp(time: Timestamp) -> dto::Timestamp {
    let nanos = Duration::from_nanos(time.0.unsigned_abs());
    let time = if time.0 < 0 { UNIX_EPOCH.checked_sub(nanos) } else { UNIX_EPOCH.checked_add(nanos) };
    dto::Timestamp::from(time.unwrap_or(UNIX_EPOCH))
}

/// Whole seconds since 1970 of a time of s3s, rounded down; all its years fit.
pub(crate) fn seconds(time: &dto::Timestamp) -> i64 {
    let (whole, part) = parts(time);
    if part < 0 { whole - 1 } else { whole }
}

/// A time of s3s as ours. `None` if it is not between 1677-09-21 and 2262-04-11, as s3s has years of four
/// digits.
pub(crate) fn of_s3s(time: &dto::Timestamp) -> Option<Timestamp> {
    let (whole, part) = parts(time);
    let total = i128::from(whole) * 1_000_000_000 + i128::from(part);
    i64::try_from(total).ok().map(Timestamp)
}

/// Seconds and nanoseconds since 1970; both are negative, or none.
fn parts(time: &dto::Timestamp) -> (i64, i64) {
    let mut text = Vec::new();
    // Writing into memory does not fail; a time that has no such form is the epoch.
    let _ = time.format(TimestampFormat::EpochSeconds, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let whole: i64 = whole.parse().unwrap_or(0);
    let part: i64 = format!("{part:0<9}").get(..9).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    (whole, if text.starts_with('-') { -part } else { part })
}

/// A time as HTTP writes it.
pub(crate) fn http_time(time: Timestamp) -> Option<String> {
    let mut out = Vec::new();
    timestamp(time).format(TimestampFormat::HttpDate, &mut out).ok()?;
    String::from_utf8(out).ok()
}

/// The header `x-amz-restore`.
pub(crate) fn restore_header(state: RestoreState) -> Option<String> {
    match state {
        RestoreState::No => None,
        RestoreState::Ongoing => Some("ongoing-request=\"true\"".to_owned()),
        RestoreState::Until(time) => Some(format!(
            "ongoing-request=\"false\", expiry-date=\"{}\"",
            http_time(time).unwrap_or_default()
        )),
    }
}

/// The element `RestoreStatus` of a listing.
pub(crate) fn restore_status(state: RestoreState) -> Option<RestoreStatus> {
    match state {
        RestoreState::No => None,
        RestoreState::Ongoing => {
            Some(RestoreStatus { is_restore_in_progress: Some(true), restore_expiry_date: None })
        }
        RestoreState::Until(time) => Some(RestoreStatus {
            is_restore_in_progress: Some(false),
            restore_expiry_date: Some(timestamp(time)),
        }),
    }
}

/// The header of the class; none for STANDARD.
pub(crate) fn storage_class(settings: &S3Settings, class: &str, locality: Locality) -> Option<StorageClass> {
    let name = glacier::storage_class(settings, class, locality);
    (name != "STANDARD").then(|| StorageClass::from(name.to_owned()))
}

/// The class in a listing.
pub(crate) fn listed_class(settings: &S3Settings, class: &str, locality: Locality) -> ObjectStorageClass {
    ObjectStorageClass::from(glacier::storage_class(settings, class, locality).to_owned())
}

/// Somebody, as S3 names owners.
pub(crate) fn owner(name: &str) -> Owner {
    Owner { display_name: Some(name.to_owned()), id: Some(name.to_owned()) }
}

/// The checksums that an object keeps.
pub(crate) fn sums(attributes: &Attributes) -> dto::Checksum {
    let mut checksum = dto::Checksum::default();
    for line in text(attributes, metadata::SUMS).unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let (value, kind) = value.split_once(' ').unwrap_or((value, "full"));
        let Some(of) = Kind::of_name(name) else { continue };
        if !set_sum(&mut checksum, of, value.to_owned()) {
            continue;
        }
        let kind = if kind == "composite" { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
        checksum.checksum_type = Some(ChecksumType::from_static(kind));
    }
    checksum
}

/// Whether s3s has a field for the kind, so that an answer has the value.
fn set_sum(checksum: &mut dto::Checksum, kind: Kind, value: String) -> bool {
    let value = Some(value);
    match kind {
        Kind::Crc32 => checksum.checksum_crc32 = value,
        Kind::Crc32c => checksum.checksum_crc32c = value,
        Kind::Crc64nvme => checksum.checksum_crc64nvme = value,
        Kind::Sha1 => checksum.checksum_sha1 = value,
        Kind::Sha256 => checksum.checksum_sha256 = value,
        // See `other_sums`.
        Kind::Sha512 | Kind::Md5 => return false,
    }
    true
}

/// The kinds of an object's checksums, for listings.
pub(crate) fn algorithms(sums: &dto::Checksum) -> Option<Vec<ChecksumAlgorithm>> {
    let all = [
        (&sums.checksum_crc32, ChecksumAlgorithm::CRC32),
        (&sums.checksum_crc32c, ChecksumAlgorithm::CRC32C),
        (&sums.checksum_crc64nvme, ChecksumAlgorithm::CRC64NVME),
        (&sums.checksum_sha1, ChecksumAlgorithm::SHA1),
        (&sums.checksum_sha256, ChecksumAlgorithm::SHA256),
    ];
    let named = all.into_iter().filter(|(value, _)| value.is_some());
    let named: Vec<_> = named.map(|(_, name)| ChecksumAlgorithm::from_static(name)).collect();
    (!named.is_empty()).then_some(named)
}

/// Says checksums for which s3s has no field.
pub(crate) fn other_sums(attributes: &Attributes, headers: &mut http::HeaderMap) {
    for line in text(attributes, metadata::SUMS).unwrap_or_default().lines() {
        let Some((kind, value)) = line.split_once('=') else { continue };
        if let Some(kind) = Kind::of_name(kind)
            && checksums::say(kind, value.split(' ').next().unwrap_or_default(), headers)
        {
            // They are of objects that were put in one request.
            let form = http::HeaderValue::from_static(ChecksumType::FULL_OBJECT);
            headers.insert("x-amz-checksum-type", form);
        }
    }
}

/// The checksum that an answer with a part of an object carries: the part's own, never that of the whole,
/// which clients compare with the bytes that they got.
pub(crate) fn sums_of_part(attributes: &Attributes, number: u16) -> dto::Checksum {
    if crate::parts::sizes(attributes).is_none() {
        // An object that was not put in parts is its only part.
        return sums(attributes);
    }
    let mut checksum = dto::Checksum::default();
    if let Some((kind, value)) = crate::parts::sum_of(attributes, number) {
        set_sum(&mut checksum, kind, value);
    }
    checksum
}

/// What is known of an object for HEAD and GET.
pub(crate) struct Known {
    pub file: FileStat,
    /// More of the same version, if it could be had.
    pub object: Option<ObjectStat>,
    /// Whether the request named a version.
    pub named: bool,
}

impl Known {
    pub(crate) fn tag(&self) -> String {
        crate::etag::value(&self.file.attributes, &self.file.checksums.blake3)
    }

    pub(crate) fn e_tag(&self) -> ETag {
        ETag::Strong(self.tag())
    }

    /// The header `x-amz-version-id`: not in buckets that never kept versions, unless asked for.
    pub(crate) fn version(&self) -> Option<String> {
        let object = self.object.as_ref()?;
        (self.named || !object.is_null).then(|| keys::version_text(object.file.file, object.is_null))
    }

    pub(crate) fn restore(&self) -> Option<String> {
        restore_header(self.object.as_ref()?.restore)
    }
}

/// Finds an object.
pub(crate) fn find(guest: &Guest, place: &Place, version: Option<&str>) -> Result<Known, Failure> {
    let which = keys::which(version)?;
    if place.is_directory {
        return Err(no_such_key(place));
    }
    let object =
        guest.engine.object(&place.path, which).map_err(|error| absent(guest, place, version, error))?;
    Ok(Known { file: object.file.clone(), object: Some(object), named: version.is_some() })
}

/// What is said of a key that has no object: a directory is none, and perhaps the bucket is not there.
pub(crate) fn absent(guest: &Guest, place: &Place, version: Option<&str>, error: ArchiveError) -> Failure {
    match error {
        ArchiveError::NotFound(_) | ArchiveError::IsADirectory(_) | ArchiveError::NotADirectory(_) => {
            match bucket_exists(guest, place) {
                Err(failure) => failure,
                Ok(()) if version.is_some() => {
                    Failure(s3_error!(NoSuchVersion, "there is no such version of this key"))
                }
                Ok(()) => no_such_key(place),
            }
        }
        ArchiveError::DeleteMarker { version: marker, .. } => {
            Failure(crate::errors::marker(marker, version.is_some()))
        }
        error => error.into(),
    }
}

pub(crate) fn no_such_key(place: &Place) -> Failure {
    Failure(s3_error!(NoSuchKey, "there is no object at {}", place.path))
}

/// Refuses if the bucket is not there.
pub(crate) fn bucket_exists(guest: &Guest, place: &Place) -> Result<(), Failure> {
    bucket(guest, &place.bucket).map(drop)
}

/// A bucket.
pub(crate) fn bucket(guest: &Guest, name: &base::Name) -> Result<archive::BucketInfo, Failure> {
    guest.engine.bucket(name).map_err(|error| match error {
        ArchiveError::NotFound(_) | ArchiveError::NotADirectory(_) => {
            Failure(s3_error!(NoSuchBucket, "there is no bucket '{name}'"))
        }
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A retention until 9999 ended in 2262, and said so when it was read.
    #[test]
    fn times_of_s3s_that_cannot_be_represented_are_none() {
        let read = |text: &str| dto::Timestamp::parse(TimestampFormat::DateTime, text).unwrap();
        for (text, nanos, whole) in [
            ("1970-01-01T00:00:00Z", Some(0), 0),
            ("1969-12-31T23:59:59.500Z", Some(-500_000_000), -1),
            ("1969-12-31T23:59:58.500Z", Some(-1_500_000_000), -2),
            ("2026-11-21T21:29:00.250+01:00", Some(1_795_292_940_250_000_000), 1_795_292_940),
            ("2262-04-11T23:47:16Z", Some(9_223_372_036_000_000_000), 9_223_372_036),
            ("2262-04-11T23:47:17Z", None, 9_223_372_037),
            ("1677-09-21T00:12:44Z", Some(-9_223_372_036_000_000_000), -9_223_372_036),
            ("1677-09-21T00:12:43Z", None, -9_223_372_037),
            ("9999-12-31T23:59:59Z", None, 253_402_300_799),
        ] {
            assert_eq!(of_s3s(&read(text)), nanos.map(Timestamp), "{text}");
            assert_eq!(seconds(&read(text)), whole, "{text}");
        }
    }
}
