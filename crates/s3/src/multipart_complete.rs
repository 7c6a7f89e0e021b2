//! The end of an upload in parts: what the client says of its parts is compared with what is there.

use archive::{ArchiveError, CompleteOptions, PartInfo, PutDone, UploadError, Versioning, Which};
use base::{ArchivePath, FileId, UploadId};
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use transfer::Kind;

use crate::context::{Context, Failure, Guest};
use crate::multipart::{part_number, path_of, stored, upload_id, upload_of};
use crate::parts::{self, PART_BYTES_MIN, PARTS_MAX, Plan, Stored};
use crate::{etag, keys, metadata};

/// What a client says of a part.
struct Named {
    number: u16,
    etag: String,
    sums: Vec<(Kind, String)>,
}

/// What a client says at the end.
struct End {
    path: ArchivePath,
    upload: UploadId,
    parts: Vec<Named>,
    sums: Vec<(Kind, String)>,
    form: Option<ChecksumType>,
    size: Option<i64>,
    if_match: Option<ETagCondition>,
    keep_existing: bool,
}

/// What came of it.
struct Made {
    file: FileId,
    etag: String,
    sum: Option<(Plan, String)>,
    version: Option<String>,
}

fn invalid_part(number: u16, why: &str) -> S3Error {
    s3_error!(InvalidPart, "part {number}: {why}")
}

fn given(fields: [(Kind, Option<String>); 5]) -> Vec<(Kind, String)> {
    fields.into_iter().filter_map(|(kind, value)| Some((kind, value?))).collect()
}

/// The parts that a client names.
///
/// # Errors
/// `InvalidPartOrder`, `InvalidPart`, `InvalidRequest`, `InvalidArgument`.
fn named(list: Option<CompletedMultipartUpload>) -> S3Result<Vec<Named>> {
    let list = list.and_then(|list| list.parts).unwrap_or_default();
    if list.is_empty() || list.len() > usize::from(PARTS_MAX) {
        return Err(s3_error!(InvalidRequest, "an upload is completed with 1 to {PARTS_MAX} parts"));
    }
    let mut named: Vec<Named> = Vec::with_capacity(list.len());
    for part in list {
        let number = part.part_number.ok_or_else(|| s3_error!(InvalidRequest, "a part has no number"))?;
        let number = part_number(number)?;
        if named.last().is_some_and(|before| before.number >= number) {
            return Err(s3_error!(InvalidPartOrder, "the parts are to be named in ascending order"));
        }
        let etag = part.e_tag.ok_or_else(|| invalid_part(number, "it is named without its ETag"))?;
        let sums = given([
            (Kind::Crc32, part.checksum_crc32),
            (Kind::Crc32c, part.checksum_crc32c),
            (Kind::Crc64nvme, part.checksum_crc64nvme),
            (Kind::Sha1, part.checksum_sha1),
            (Kind::Sha256, part.checksum_sha256),
        ]);
        named.push(Named { number, etag: etag.into_value(), sums });
    }
    Ok(named)
}

/// The parts that are there, as the client has named them.
///
/// # Errors
/// `InvalidPart`, `EntityTooSmall`.
fn agreed<'p>(named: &[Named], there: &'p [Stored]) -> S3Result<Vec<&'p Stored>> {
    let mut agreed = Vec::with_capacity(named.len());
    for (at, want) in named.iter().enumerate() {
        let number = want.number;
        let found = there.binary_search_by_key(&number, |part| part.number).ok();
        let part =
            found.and_then(|at| there.get(at)).ok_or_else(|| invalid_part(number, "it was not put"))?;
        if want.etag.trim_matches('"') != part.etag() {
            return Err(invalid_part(number, "it has another ETag: it was put again, or never so"));
        }
        for (kind, value) in &want.sums {
            if part.sum_text(*kind).as_ref() != Some(value) {
                return Err(invalid_part(number, "it has another checksum, or none of that kind"));
            }
        }
        if part.size < PART_BYTES_MIN && at + 1 < named.len() {
            let size = part.size;
            return Err(s3_error!(
                EntityTooSmall,
                "part {number} has {size} bytes: all but the last have {PART_BYTES_MIN} at least"
            ));
        }
        agreed.push(part);
    }
    Ok(agreed)
}

/// Compares what the client says of the whole with what its parts give.
///
/// # Errors
/// `InvalidRequest`, `BadDigest`.
fn check_whole(end: &End, plan: Option<Plan>, sum: Option<&str>, size: u64) -> S3Result<()> {
    if end.size.is_some_and(|said| u64::try_from(said) != Ok(size)) {
        return Err(s3_error!(InvalidRequest, "x-amz-mp-object-size is not the size of the parts, {size}"));
    }
    if end.form.is_some() && end.form != plan.map(Plan::form) {
        return Err(s3_error!(InvalidRequest, "x-amz-checksum-type is not that of the upload"));
    }
    for (kind, said) in &end.sums {
        let Some((plan, sum)) = plan.zip(sum).filter(|(plan, _)| plan.kind == *kind) else {
            let name = kind.name();
            return Err(s3_error!(InvalidRequest, "the upload was not begun with the checksum {name}"));
        };
        // Of a composite one clients leave out the number of parts.
        let bare = sum.split_once('-').map_or(sum, |(value, _)| value);
        if said != sum && (plan.full || said != bare) {
            return Err(s3_error!(BadDigest, "the object does not have the checksum: nothing was stored"));
        }
    }
    Ok(())
}

/// All parts that are there.
fn all_parts(guest: &Guest, upload: UploadId) -> Result<Vec<Stored>, Failure> {
    let mut all: Vec<PartInfo> = Vec::new();
    loop {
        let after = all.last().map_or(0, |part| part.number);
        let (rows, more) = guest.engine.parts(upload, after, usize::from(PARTS_MAX))?;
        all.extend(rows);
        if !more {
            return Ok(all.iter().map(stored).collect::<S3Result<_>>()?);
        }
    }
}

/// The version that must have the name, after `If-Match`.
fn current(guest: &Guest, end: &End) -> Result<Option<FileId>, Failure> {
    let Some(condition) = &end.if_match else { return Ok(None) };
    let now = guest.engine.object(&end.path, Which::Current)?;
    let value = etag::value(&now.file.attributes, &now.file.checksums.blake3);
    if !etag::names(condition, &value, false) {
        return Err(s3_error!(PreconditionFailed, "the object has another ETag").into());
    }
    Ok(Some(now.file.file))
}

/// Completes; a repeat gets the first answer, also one that comes while the first is still at work. Whichever
/// step it was that found no upload any more: it was completed, or it is not there.
fn complete(guest: &Guest, end: &End) -> Result<Made, Failure> {
    match complete_open(guest, end) {
        Err(failure) if failure.0.code() == &s3s::S3ErrorCode::NoSuchUpload => repeated(guest, end),
        outcome => outcome,
    }
}

fn complete_open(guest: &Guest, end: &End) -> Result<Made, Failure> {
    let info = upload_of(guest, end.upload, &end.path)?;
    let there = all_parts(guest, end.upload)?;
    let agreed = agreed(&end.parts, &there)?;
    let plan = Plan::of(&info.attributes).or_else(|| Plan::by_default(&agreed));
    let sum = plan.and_then(|plan| parts::sum(plan, &agreed));
    if plan.is_some() && sum.is_none() {
        return Err(s3_error!(InvalidPart, "a part has no checksum of the kind of the upload").into());
    }
    check_whole(end, plan, sum.as_deref(), agreed.iter().map(|part| part.size).sum())?;
    let etag = parts::etag(&agreed);
    let mut xattrs = vec![(metadata::ETAG.to_owned(), etag.clone().into_bytes())];
    if let Some((plan, sum)) = plan.zip(sum.as_ref()) {
        let form = if plan.full { "full" } else { "composite" };
        let line = format!("{}={sum} {form}\n", plan.kind.name());
        xattrs.push((metadata::SUMS.to_owned(), line.into_bytes()));
    }
    if let Some(sizes) = parts::sizes_text(agreed.iter().map(|part| part.size)) {
        xattrs.push((metadata::PARTS.to_owned(), sizes.into_bytes()));
    }
    if let Some(sums) = plan.and_then(|plan| parts::sums_text(plan.kind, &agreed)) {
        xattrs.push((metadata::PART_SUMS.to_owned(), sums.into_bytes()));
    }
    let numbers: Vec<u16> = agreed.iter().map(|part| part.number).collect();
    let options = CompleteOptions {
        xattrs,
        stamps: agreed.iter().map(|part| part.stamp).collect(),
        keep_existing: end.keep_existing,
        if_current: current(guest, end)?,
        who: guest.caller.name.clone(),
    };
    let done = guest.engine.complete_multipart(end.upload, &numbers, options)?;
    if !done.created {
        // Somebody else has completed it meanwhile, perhaps with other parts.
        return answer(guest, end, &done);
    }
    let version = version(guest, end, done.file)?;
    Ok(Made { file: done.file, etag, sum: plan.zip(sum), version })
}

/// The first answer once more.
fn repeated(guest: &Guest, end: &End) -> Result<Made, Failure> {
    let done = guest.engine.completed_multipart(&end.path, end.upload)?;
    answer(guest, end, &done)
}

/// What was made by whoever completed the upload, if it was one of this path.
fn answer(guest: &Guest, end: &End, done: &PutDone) -> Result<Made, Failure> {
    let made = match guest.engine.object(&end.path, Which::Version(done.file)) {
        Err(ArchiveError::NotFound(_)) => Err(UploadError::NoSuchUpload(end.upload).into()),
        other => other,
    }?;
    let attributes = &made.file.attributes;
    let line = metadata::text(attributes, metadata::SUMS).and_then(|line| line.split_once('='));
    let sum = line.and_then(|(kind, rest)| {
        let (value, form) = rest.trim_end().split_once(' ')?;
        Some((Plan { kind: Kind::of_name(kind)?, full: form == "full" }, value.to_owned()))
    });
    let etag = etag::value(attributes, &made.file.checksums.blake3);
    let version = version(guest, end, done.file)?;
    Ok(Made { file: done.file, etag, sum, version })
}

/// The id of the version, if the bucket has any.
fn version(guest: &Guest, end: &End, file: FileId) -> Result<Option<String>, Failure> {
    let Some(bucket) = end.path.components().next() else { return Ok(None) };
    Ok(match guest.engine.bucket(&keys::bucket(bucket)?)?.settings.versioning {
        Versioning::Off => None,
        Versioning::Enabled => Some(keys::version_text(file, false)),
        Versioning::Suspended => Some(keys::version_text(file, true)),
    })
}

pub(crate) async fn complete_multipart_upload(
    cx: &Context,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    // The gate takes checksums here for those of the object, and s3s has no field for these.
    for kind in [Kind::Sha512, Kind::Md5] {
        let name = kind.name();
        if req.headers.contains_key(format!("x-amz-checksum-{name}")) {
            return Err(s3_error!(InvalidRequest, "the upload was not begun with the checksum {name}"));
        }
    }
    let input = req.input;
    let keep_existing = match &input.if_none_match {
        None => false,
        Some(ETagCondition::Any) => true,
        Some(ETagCondition::ETag(_)) => {
            return Err(s3_error!(NotImplemented, "If-None-Match can only be * here"));
        }
    };
    let end = End {
        path: path_of(&input.bucket, &input.key)?,
        upload: upload_id(&input.upload_id)?,
        parts: named(input.multipart_upload)?,
        sums: given([
            (Kind::Crc32, input.checksum_crc32),
            (Kind::Crc32c, input.checksum_crc32c),
            (Kind::Crc64nvme, input.checksum_crc64nvme),
            (Kind::Sha1, input.checksum_sha1),
            (Kind::Sha256, input.checksum_sha256),
        ]),
        form: input.checksum_type,
        size: input.mpu_object_size,
        if_match: input.if_match,
        keep_existing,
    };
    let made = cx.call(&req.extensions, move |guest| complete(guest, &end)).await?;
    let sum = |kind| made.sum.as_ref().filter(|(plan, _)| plan.kind == kind).map(|(_, sum)| sum.clone());
    tracing::debug!(file = %made.file, "an upload in parts was completed");
    Ok(S3Response::new(CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, crate::percent::encode_key(&input.key))),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: Some(ETag::Strong(made.etag.clone())),
        checksum_crc32: sum(Kind::Crc32),
        checksum_crc32c: sum(Kind::Crc32c),
        checksum_crc64nvme: sum(Kind::Crc64nvme),
        checksum_sha1: sum(Kind::Sha1),
        checksum_sha256: sum(Kind::Sha256),
        checksum_type: made.sum.as_ref().map(|(plan, _)| plan.form()),
        version_id: made.version,
        ..Default::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u16, size: u64) -> Stored {
        Stored { number, size, stamp: 1, md5: vec![number as u8; 16], sums: vec![(Kind::Sha1, vec![1; 20])] }
    }

    fn of(number: u16) -> Named {
        Named { number, etag: part(number, 0).etag(), sums: vec![] }
    }

    fn code(result: S3Result<Vec<&Stored>>) -> String {
        result.map_or_else(|error| error.code().as_str().to_owned(), |parts| parts.len().to_string())
    }

    #[test]
    fn parts_must_be_those_that_are_there() {
        let there = [part(1, PART_BYTES_MIN), part(2, PART_BYTES_MIN - 1), part(3, 1)];
        assert_eq!(code(agreed(&[of(1), of(2)], &there)), "2");
        assert_eq!(code(agreed(&[of(1), of(3)], &there)), "2");
        assert_eq!(code(agreed(&[of(1), of(2), of(3)], &there)), "EntityTooSmall");
        assert_eq!(code(agreed(&[of(4)], &there)), "InvalidPart");
        assert_eq!(code(agreed(&[Named { etag: "00".into(), ..of(1) }], &there)), "InvalidPart");
        let sums = vec![(Kind::Sha1, base::base64::encode(&[1; 20]))];
        assert_eq!(code(agreed(&[Named { sums: sums.clone(), ..of(1) }], &there)), "1");
        let sums = vec![(Kind::Sha256, sums[0].1.clone())];
        assert_eq!(code(agreed(&[Named { sums, ..of(1) }], &there)), "InvalidPart");
    }

    #[test]
    fn parts_are_named_in_order() {
        let list = |numbers: &[i32]| {
            let one = |number: &i32| CompletedPart {
                part_number: Some(*number),
                e_tag: Some(ETag::Strong("00".into())),
                ..Default::default()
            };
            let parts = Some(numbers.iter().map(one).collect());
            named(Some(CompletedMultipartUpload { parts })).map_err(|e| e.code().as_str().to_owned())
        };
        assert_eq!(list(&[1, 5, 10_000]).unwrap().len(), 3);
        for (numbers, code) in [
            (&[2, 1][..], "InvalidPartOrder"),
            (&[1, 1], "InvalidPartOrder"),
            (&[], "InvalidRequest"),
            (&[0], "InvalidArgument"),
            (&[10_001], "InvalidArgument"),
            (&[-1], "InvalidArgument"),
        ] {
            assert_eq!(list(numbers).err().as_deref(), Some(code), "{numbers:?}");
        }
    }
}
