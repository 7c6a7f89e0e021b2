//! A part that is a range of an object: it is read and stored, since its bytes need checksums of their own.

use std::sync::Arc;

use archive::{FileStat, PartInfo, Which};
use authority::Download;
use base::{ArchivePath, ByteCount, UploadId};
use bytes::Bytes;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use transfer::{Beside, Hasher, Kind, Md5Lanes, Reply, on_thread};

use crate::answers::{Known, absent, timestamp};
use crate::checksums;
use crate::conditions::Conditions;
use crate::context::{Context, Failure, Guest};
use crate::keys::{self, Place};
use crate::multipart::{part_number, path_of, stored, upload_id, upload_of};
use crate::parts::{self, PART_BYTES_MAX, Plan};
use crate::settings::S3Settings;
use crate::{copy_source, etag, sigv4};

/// What is to be copied, and where to.
struct Copy {
    path: ArchivePath,
    upload: UploadId,
    number: u16,
    source: Place,
    version: Option<String>,
    range: Option<(u64, u64)>,
    conditions: Conditions,
    settings: Arc<S3Settings>,
}

/// The range of a copy: `bytes=FIRST-LAST`, nothing else.
///
/// # Errors
/// `InvalidArgument`.
fn range_of(text: &str) -> S3Result<(u64, u64)> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if plain { digits.parse::<u64>().ok() } else { None }
    };
    let ends = text.strip_prefix("bytes=").and_then(|ends| ends.split_once('-'));
    let ends = ends.and_then(|(first, last)| Some((number(first)?, number(last)?)));
    match ends.filter(|(first, last)| first <= last) {
        Some((first, last)) => Ok((first, last)),
        None => Err(s3_error!(InvalidArgument, "x-amz-copy-source-range has the form bytes=FIRST-LAST")),
    }
}

fn open(guest: &Guest, copy: &Copy) -> Result<Box<dyn Download>, Failure> {
    let which = keys::which(copy.version.as_deref())?;
    let who = &guest.caller.name;
    let opened = match which {
        Which::Current => guest.engine.open_read_for(&copy.source.path, who),
        which => guest.engine.open_object(&copy.source.path, which, who),
    };
    opened.map_err(|error| absent(guest, &copy.source, copy.version.as_deref(), error))
}

/// Whether the source may be read as far as its class goes.
fn check_readable(guest: &Guest, copy: &Copy, file: FileStat) -> Result<(), Failure> {
    let object = guest.engine.object(&copy.source.path, Which::Version(file.file)).ok();
    let known = Known { file, object, named: copy.version.is_some() };
    Ok(crate::glacier::check_readable(&copy.settings, &known)?)
}

/// Copies, and gives the part.
fn copy(guest: &Guest, copy: &Copy, lanes: &Md5Lanes) -> Result<PartInfo, Failure> {
    let info = upload_of(guest, copy.upload, &copy.path)?;
    let mut source = open(guest, copy)?;
    let (size, tag, modified) = {
        let file = source.stat();
        (file.size.0, etag::value(&file.attributes, &file.checksums.blake3), file.created)
    };
    match copy.conditions.check(&tag, modified) {
        // Of a copy whatever does not hold is a condition that failed.
        Err(error) if error.code() == &s3s::S3ErrorCode::NotModified => {
            return Err(crate::conditions::failed("of the source").into());
        }
        other => other?,
    }
    check_readable(guest, copy, source.stat().clone())?;
    let length = match copy.range {
        Some((first, last)) if last < size => {
            source.select(first, last - first + 1)?;
            last - first + 1
        }
        Some(_) => {
            return Err(
                s3_error!(InvalidArgument, "the range ends behind the source, of {size} bytes").into()
            );
        }
        None => size,
    };
    if length > PART_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge, "a part has at most {PART_BYTES_MAX} bytes").into());
    }
    let kind = Plan::of(&info.attributes).map(|plan| plan.kind);
    let hasher = Hasher::new(true, false, [kind.unwrap_or(checksums::DEFAULT)]);
    let mut beside = Beside::start(hasher, lanes)?;
    let (who, length) = (&guest.caller.name, Some(ByteCount(length)));
    let mut part = guest.engine.begin_part(copy.upload, copy.number, length, who)?;
    while let Some(bytes) = source.next()? {
        let bytes: Bytes = bytes;
        beside.update(&bytes)?;
        part.write(&bytes)?;
    }
    let sums = beside.finish()?;
    let sum = sums.sums.iter().map(|(kind, value)| (*kind, base::base64::encode(value)));
    Ok(part.finish(parts::kept(&sums.md5.unwrap_or_default(), sum))?)
}

pub(crate) async fn upload_part_copy(
    cx: &Context,
    req: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = req.input;
    let (source, version) = copy_source::of(&req.extensions)?;
    if source.is_directory {
        return Err(s3_error!(InvalidArgument, "a key that ends with '/' has no bytes"));
    }
    let wanted = Copy {
        path: path_of(&input.bucket, &input.key)?,
        upload: upload_id(&input.upload_id)?,
        number: part_number(input.part_number)?,
        source,
        version,
        range: input.copy_source_range.as_deref().map(range_of).transpose()?,
        conditions: Conditions {
            matches: input.copy_source_if_match,
            none_matches: input.copy_source_if_none_match,
            modified_since: input.copy_source_if_modified_since,
            unmodified_since: input.copy_source_if_unmodified_since,
        },
        settings: cx.settings.clone(),
    };
    let version = wanted.version.clone();
    let guest = cx.guest(&req.extensions)?;
    let place = cx.transfers.admit(&guest.holder).await.map_err(Failure::from)?;
    let transfers = cx.transfers.clone();
    let copied = on_thread(place, move |reply: Reply<_, Failure>| {
        reply(copy(&guest, &wanted, transfers.md5()));
    });
    let part = copied.await?;
    let found = stored(&part)?;
    let of = |kind| found.sum_text(kind);
    let result = CopyPartResult {
        e_tag: Some(ETag::Strong(sigv4::hex(&found.md5))),
        last_modified: Some(timestamp(part.stored)),
        checksum_crc32: of(Kind::Crc32),
        checksum_crc32c: of(Kind::Crc32c),
        checksum_crc64nvme: of(Kind::Crc64nvme),
        checksum_sha1: of(Kind::Sha1),
        checksum_sha256: of(Kind::Sha256),
    };
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: version,
        ..Default::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_copies_have_one_form() {
        assert_eq!(range_of("bytes=0-0").unwrap(), (0, 0));
        assert_eq!(range_of("bytes=5-9").unwrap(), (5, 9));
        for bad in ["", "bytes=", "bytes=-5", "bytes=5-", "bytes=9-5", "bytes=+1-2", "0-1", "bytes=0-1,3-4"] {
            assert!(range_of(bad).is_err(), "{bad}");
        }
    }
}
