//! Uploads in parts: their beginning, their parts, their listings, their end without an object.

use archive::{ArchiveError, Locality, MultipartInfo, PartInfo, PutOptions, UploadError};
use authority::PartUpload;
use base::{ArchivePath, ByteCount, Name, UploadId};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use transfer::{KINDS, Kind};

use crate::answers::{bucket as bucket_of, owner, storage_class, timestamp};
use crate::body::{self, ObjectBody};
use crate::checksums::{self, Expected};
use crate::context::{Context, Failure, Guest};
use crate::metadata::{self, Kept};
use crate::parts::{self, PART_BYTES_MAX, PARTS_MAX, Plan, Stored};
use crate::put::{attributes_of, class};
use crate::{keys, list};

pub(crate) use crate::multipart_complete::complete_multipart_upload;
pub(crate) use crate::multipart_copy::upload_part_copy;

/// Permission bits of an object.
const MODE: u32 = 0o644;
/// Most lines of a page of a listing, as in S3.
const PAGE_MAX: usize = 1000;

fn no_such_upload() -> s3s::S3Error {
    s3_error!(NoSuchUpload, "there is no such upload: it was completed or aborted, or never begun")
}

/// The id of an upload, for answers.
pub(crate) fn upload_text(upload: UploadId) -> String {
    format!("{:016x}", upload.0)
}

/// The upload that a request means.
///
/// # Errors
/// `NoSuchUpload` if it is not the id of one.
pub(crate) fn upload_id(text: &str) -> S3Result<UploadId> {
    let is_one = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let number = if is_one { u64::from_str_radix(text, 16).ok() } else { None };
    number.map(UploadId).ok_or_else(no_such_upload)
}

/// The path of a key that is put in parts.
pub(crate) fn path_of(bucket: &str, key: &str) -> S3Result<ArchivePath> {
    let place = keys::place(bucket, key)?;
    if place.is_directory {
        return Err(s3_error!(
            InvalidArgument,
            "a key that ends with '/' has no bytes: put it in one request"
        ));
    }
    Ok(place.path)
}

/// An upload of this path.
///
/// # Errors
/// `NoSuchUpload`, also if it is one of another path: whoever may not use that must not learn of it.
pub(crate) fn upload_of(
    guest: &Guest,
    upload: UploadId,
    path: &ArchivePath,
) -> Result<MultipartInfo, Failure> {
    match guest.engine.multipart(upload) {
        Ok(info) if info.path == *path => Ok(info),
        Ok(_) | Err(ArchiveError::Upload(UploadError::NoSuchUpload(_))) => Err(no_such_upload().into()),
        Err(error) => Err(error.into()),
    }
}

/// The number of a part.
pub(crate) fn part_number(number: i32) -> S3Result<u16> {
    let number = u16::try_from(number).ok().filter(|number| (1..=PARTS_MAX).contains(number));
    number.ok_or_else(|| s3_error!(InvalidArgument, "the number of a part is from 1 to {PARTS_MAX}"))
}

/// What the object will keep, and what its upload does.
fn xattrs(
    req: &S3Request<CreateMultipartUploadInput>,
    plan: Option<Plan>,
) -> S3Result<Vec<(String, Vec<u8>)>> {
    let input = &req.input;
    let kept = Kept {
        content_type: input.content_type.as_deref(),
        cache_control: input.cache_control.as_deref(),
        disposition: input.content_disposition.as_deref(),
        encoding: input.content_encoding.as_deref(),
        language: input.content_language.as_deref(),
        expires: req.headers.get("expires").and_then(|value| value.to_str().ok()),
        metadata: input.metadata.as_ref(),
    };
    let mut xattrs = kept.xattrs()?;
    if let Some(tagging) = &input.tagging {
        xattrs.extend(metadata::tag_xattrs(metadata::tags_of_header(tagging)?));
    }
    xattrs.extend(crate::lock::off_of_put(&req.headers));
    xattrs.extend(plan.map(|plan| (parts::UPLOAD_SUM.to_owned(), plan.text().into_bytes())));
    Ok(xattrs)
}

pub(crate) async fn create_multipart_upload(
    cx: &Context,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let guest = cx.guest(&req.extensions)?;
    let input = &req.input;
    let path = path_of(&input.bucket, &input.key)?;
    let plan = Plan::asked(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let name = keys::bucket(&bucket)?;
    let options = PutOptions {
        attributes: attributes_of(cx, &guest, MODE, xattrs(&req, plan)?),
        class: class(cx, input.storage_class.as_ref().map(StorageClass::as_str))?,
        hold: crate::lock::hold_of_put(cx, &req.headers)?,
        implied_parents: true,
        make_parents: true,
        who: Some(guest.caller.name.clone()),
        ..PutOptions::default()
    };
    let begin = move |guest: &Guest| {
        bucket_of(guest, &name)?;
        if options.hold.is_some() {
            crate::lock::check_bucket(guest, &name)?;
        }
        Ok(guest.engine.open_multipart(&path, options)?)
    };
    let upload = cx.call(&req.extensions, begin).await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(bucket),
        key: Some(key),
        upload_id: Some(upload_text(upload)),
        checksum_algorithm: plan.map(Plan::algorithm),
        checksum_type: plan.map(Plan::form),
        ..Default::default()
    }))
}

/// The checksum that comes with a part, which must be the one that its upload was begun with.
fn check_kind(info: &MultipartInfo, sent: Option<Kind>) -> S3Result<()> {
    match Plan::of(&info.attributes) {
        Some(plan) if sent != Some(plan.kind) => {
            let (wanted, sent) = (plan.kind.name(), sent.map_or("none", Kind::name));
            Err(s3_error!(InvalidRequest, "the upload was begun with {wanted}, the part has {sent}"))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn upload_part(
    cx: &Context,
    req: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let path = path_of(&req.input.bucket, &req.input.key)?;
    let upload = upload_id(&req.input.upload_id)?;
    let number = part_number(req.input.part_number)?;
    let body = ObjectBody::take(&req.extensions)?;
    if body.length > PART_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge, "a part has at most {PART_BYTES_MAX} bytes"));
    }
    let mut expected = Expected::of(&req.headers, &body.announced, body.sha256)?;
    expected.etag = true;
    expected.computed = Some(checksums::DEFAULT);
    // The whole has it if its upload was begun without a checksum.
    expected.both = true;
    let sent = expected.sent();
    let length = ByteCount(body.length);
    let begin = move |guest: &Guest| {
        check_kind(&upload_of(guest, upload, &path)?, sent)?;
        Ok(guest.engine.begin_part(upload, number, Some(length), &guest.caller.name)?)
    };
    let finish = |part: Box<dyn PartUpload>, verified: crate::checksums::Verified, reply: body::Reply<_>| {
        // It was asked for above.
        let md5 = verified.md5.unwrap_or_default();
        let sums = verified.sum.into_iter().chain(verified.beside);
        reply(part.finish(parts::kept(&md5, sums)).map_err(Failure::from));
    };
    let guest = cx.guest(&req.extensions)?;
    let part: PartInfo = body::receive(cx, guest, body, expected, begin, finish).await?;
    let stored = stored(&part)?;
    let of = |kind| stored.sum_text(kind);
    let mut response = S3Response::new(UploadPartOutput {
        e_tag: Some(ETag::Strong(stored.etag())),
        checksum_crc32: of(Kind::Crc32),
        checksum_crc32c: of(Kind::Crc32c),
        checksum_crc64nvme: of(Kind::Crc64nvme),
        checksum_sha1: of(Kind::Sha1),
        checksum_sha256: of(Kind::Sha256),
        ..Default::default()
    });
    for kind in KINDS {
        if let Some(value) = of(kind) {
            checksums::say(kind, &value, &mut response.headers);
        }
    }
    Ok(response)
}

/// What is known of a part; one that another door has put cannot be used by S3.
pub(crate) fn stored(part: &PartInfo) -> S3Result<Stored> {
    let number = part.number;
    Stored::of(part)
        .ok_or_else(|| s3_error!(InvalidPart, "part {number} was not put through S3: put it again"))
}

pub(crate) async fn abort_multipart_upload(
    cx: &Context,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let path = path_of(&req.input.bucket, &req.input.key)?;
    let upload = upload_id(&req.input.upload_id)?;
    let abort = move |guest: &Guest| {
        upload_of(guest, upload, &path)?;
        match guest.engine.abort_multipart(upload) {
            Err(ArchiveError::Upload(UploadError::NoSuchUpload(_))) => Err(no_such_upload().into()),
            other => Ok(other?),
        }
    };
    cx.call(&req.extensions, abort).await?;
    Ok(S3Response::with_status(AbortMultipartUploadOutput::default(), http::StatusCode::NO_CONTENT))
}

fn part_line(part: &PartInfo) -> S3Result<Part> {
    let stored = stored(part)?;
    let of = |kind| stored.sum_text(kind);
    Ok(Part {
        part_number: Some(i32::from(part.number)),
        size: i64::try_from(part.size.0).ok(),
        last_modified: Some(timestamp(part.stored)),
        e_tag: Some(ETag::Strong(stored.etag())),
        checksum_crc32: of(Kind::Crc32),
        checksum_crc32c: of(Kind::Crc32c),
        checksum_crc64nvme: of(Kind::Crc64nvme),
        checksum_sha1: of(Kind::Sha1),
        checksum_sha256: of(Kind::Sha256),
    })
}

/// How many lines a client wants.
fn page(wanted: Option<i32>, what: &str) -> S3Result<usize> {
    match wanted {
        None => Ok(PAGE_MAX),
        Some(wanted) => usize::try_from(wanted)
            .map(|wanted| wanted.min(PAGE_MAX))
            .map_err(|_| s3_error!(InvalidArgument, "{what} is not below 0")),
    }
}

pub(crate) async fn list_parts(
    cx: &Context,
    req: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = req.input;
    let path = path_of(&input.bucket, &input.key)?;
    let upload = upload_id(&input.upload_id)?;
    let most = page(input.max_parts, "max-parts")?;
    let marker = input.part_number_marker.unwrap_or_default();
    let after = u16::try_from(marker.clamp(0, i32::from(u16::MAX))).unwrap_or(u16::MAX);
    let list = move |guest: &Guest| {
        let info = upload_of(guest, upload, &path)?;
        let (rows, more) = guest.engine.parts(upload, after, most.max(1))?;
        Ok((info, rows, more))
    };
    let (info, mut rows, mut more) = cx.call(&req.extensions, list).await?;
    if most == 0 {
        (rows, more) = (Vec::new(), false);
    }
    let plan = Plan::of(&info.attributes);
    let next = rows.last().map(|part| i32::from(part.number)).filter(|_| more);
    let lines: S3Result<Vec<Part>> = rows.iter().map(part_line).collect();
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        part_number_marker: Some(marker),
        next_part_number_marker: next,
        max_parts: i32::try_from(most).ok(),
        is_truncated: Some(more),
        parts: Some(lines?),
        owner: Some(owner(&info.owner)),
        initiator: Some(initiator(&info.owner)),
        storage_class: Some(class_name(cx, info.class.as_deref())),
        checksum_algorithm: plan.map(Plan::algorithm),
        checksum_type: plan.map(Plan::form),
        ..Default::default()
    }))
}

/// The class that an upload was begun with, as S3 names it.
fn class_name(cx: &Context, class: Option<&str>) -> StorageClass {
    let named = class.and_then(|class| storage_class(&cx.settings, class, Locality::Online));
    named.unwrap_or_else(|| StorageClass::from_static(StorageClass::STANDARD))
}

fn initiator(name: &str) -> Initiator {
    Initiator { display_name: Some(name.to_owned()), id: Some(name.to_owned()) }
}

/// What of the uploads of a bucket is to be listed.
struct UploadQuery {
    bucket: Name,
    prefix: String,
    delimiter: Option<String>,
    after: Option<(String, UploadId)>,
    most: usize,
}

/// A page of uploads.
#[derive(Default)]
struct UploadPage {
    uploads: Vec<(String, MultipartInfo)>,
    prefixes: Vec<String>,
    /// The last line, if there is more behind it.
    next: Option<(String, Option<UploadId>)>,
}

/// Uploads by key and id, those whose keys have the delimiter behind the prefix rolled up.
fn list_uploads(guest: &Guest, query: &UploadQuery) -> Result<UploadPage, Failure> {
    let mut page = UploadPage::default();
    let root = format!("/{}/", query.bucket);
    let mut after = query.after.clone();
    let mut last: Option<(String, Option<UploadId>)> = None;
    'pages: loop {
        let from = after.as_ref().map(|(key, id)| (key.as_str(), *id));
        let (rows, more) = guest.engine.multiparts(&query.bucket, &query.prefix, from, PAGE_MAX)?;
        for info in rows {
            let key = info.path.as_str().strip_prefix(&root).unwrap_or_default().to_owned();
            let rolled = rolled_up(&key, query);
            let is_said = rolled.as_ref().is_some_and(|prefix| {
                page.prefixes.last() == Some(prefix)
                    || query.after.as_ref().is_some_and(|(marker, _)| marker.starts_with(prefix.as_str()))
            });
            if !is_said {
                if page.uploads.len() + page.prefixes.len() >= query.most {
                    page.next = last;
                    return Ok(page);
                }
                last = Some(match &rolled {
                    Some(prefix) => (prefix.clone(), None),
                    None => (key.clone(), Some(info.upload)),
                });
            }
            after = Some((key.clone(), info.upload));
            match rolled {
                // On behind all that begins so. A key may have the last of all characters behind the prefix:
                // then on behind that key, or the same page would come for ever.
                Some(prefix) => {
                    after = Some((format!("{prefix}{}", char::MAX).max(key), UploadId(u64::MAX)));
                    if !is_said {
                        page.prefixes.push(prefix);
                    }
                    continue 'pages;
                }
                None => page.uploads.push((key, info)),
            }
        }
        if !more {
            return Ok(page);
        }
    }
}

/// What a key is rolled up to.
fn rolled_up(key: &str, query: &UploadQuery) -> Option<String> {
    let delimiter = query.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let behind = key.get(query.prefix.len()..)?;
    let at = behind.find(delimiter)?;
    key.get(..query.prefix.len() + at + delimiter.len()).map(str::to_owned)
}

pub(crate) async fn list_multipart_uploads(
    cx: &Context,
    req: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = req.input;
    let most = page(input.max_uploads, "max-uploads")?;
    let url = list::url(input.encoding_type.as_ref())?;
    let marker = input.key_marker.clone().filter(|marker| !marker.is_empty());
    let after = match (&marker, input.upload_id_marker.as_deref().filter(|id| !id.is_empty())) {
        (Some(key), Some(id)) => Some((key.clone(), upload_id(id)?)),
        (Some(key), None) => Some((key.clone(), UploadId(u64::MAX))),
        (None, _) => None,
    };
    let (prefix, delimiter) = (input.prefix.clone().unwrap_or_default(), input.delimiter.clone());
    let query = UploadQuery { bucket: keys::bucket(&input.bucket)?, prefix, delimiter, after, most };
    let find = move |guest: &Guest| {
        bucket_of(guest, &query.bucket)?;
        if query.most == 0 { Ok(UploadPage::default()) } else { list_uploads(guest, &query) }
    };
    let found = cx.call(&req.extensions, find).await?;
    let coded = |text: String| list::said(text, url);
    let uploads = found.uploads.into_iter().map(|(key, info)| {
        let plan = Plan::of(&info.attributes);
        MultipartUpload {
            key: Some(coded(key)),
            upload_id: Some(upload_text(info.upload)),
            initiated: Some(timestamp(info.created)),
            initiator: Some(initiator(&info.owner)),
            owner: Some(owner(&info.owner)),
            storage_class: Some(class_name(cx, info.class.as_deref())),
            checksum_algorithm: plan.map(Plan::algorithm),
            checksum_type: plan.map(Plan::form),
        }
    });
    let rolled = |prefix| CommonPrefix { prefix: Some(coded(prefix)) };
    let (next_key, next_id) = found.next.clone().unzip();
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        uploads: Some(uploads.collect()),
        common_prefixes: Some(found.prefixes.into_iter().map(rolled).collect()),
        delimiter: input.delimiter.map(coded),
        encoding_type: input.encoding_type,
        is_truncated: Some(found.next.is_some()),
        key_marker: Some(coded(marker.unwrap_or_default())),
        upload_id_marker: input.upload_id_marker,
        max_uploads: i32::try_from(most).ok(),
        next_key_marker: next_key.map(coded),
        next_upload_id_marker: next_id.flatten().map(upload_text),
        prefix: input.prefix.map(coded),
        ..Default::default()
    }))
}
