//! PutObject.

use archive::{BucketSettings, PutDone, PutOptions, SMALL_BYTES_MAX, Versioning, Which};
use authority::Upload;
use base::ByteCount;
use bytes::Bytes;
use catalogue::Attributes;
use s3s::dto::{ChecksumType, ETag, ETagCondition, PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use transfer::{Kind, Sink};

use crate::answers::{absent, bucket};
use crate::body::{ObjectBody, Reply, receive};
use crate::checksums::{self, Expected, Verified};
use crate::conditions::failed;
use crate::context::{Context, Failure, Guest};
use crate::keys::{self, Place};
use crate::markers;
use crate::metadata::{self, Kept};
use crate::sigv4::hex;

/// Permission bits of an object.
const MODE: u32 = 0o644;
/// Permission bits of the marker of a directory.
const DIRECTORY_MODE: u32 = 0o755;

/// What a put demands of what is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    Nothing,
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match`.
    Current(ETagCondition),
}

/// What `If-Match` and `If-None-Match` of a write demand.
///
/// # Errors
/// `NotImplemented` for `If-None-Match` with an ETag, as in S3.
pub(crate) fn demand(matches: Option<ETagCondition>, none: Option<ETagCondition>) -> S3Result<Demand> {
    match (matches, none) {
        (None, None) => Ok(Demand::Nothing),
        (None, Some(ETagCondition::Any)) => Ok(Demand::Absent),
        (Some(condition), None) => Ok(Demand::Current(condition)),
        _ => Err(s3_error!(NotImplemented, "a write takes If-Match, or If-None-Match with '*'")),
    }
}

impl Demand {
    /// Puts it into the options of a put, which checks it once more when it is committed.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NoSuchKey` if `If-Match` finds nothing.
    pub(crate) fn apply(
        &self,
        guest: &Guest,
        place: &Place,
        options: &mut PutOptions,
    ) -> Result<(), Failure> {
        match self {
            Demand::Nothing => {}
            Demand::Absent => options.keep_existing = true,
            Demand::Current(condition) => {
                let object = guest.engine.object(&place.path, Which::Current);
                let object = object.map_err(|error| absent(guest, place, None, error))?;
                let tag = crate::etag::value(&object.file.attributes, &object.file.checksums.blake3);
                if !crate::etag::names(condition, &tag, false) {
                    return Err(failed("If-Match").into());
                }
                options.if_current = Some(object.file.file);
            }
        }
        Ok(())
    }
}

/// An object on its way in, and whether its bucket numbers versions.
struct Incoming {
    upload: Box<dyn Upload>,
    versioning: Versioning,
}

impl Sink<Failure> for Incoming {
    fn write(&mut self, bytes: &Bytes) -> Result<(), Failure> {
        Sink::write(&mut self.upload, bytes)
    }

    fn pause(&mut self) {
        Sink::<Failure>::pause(&mut self.upload);
    }
}

/// What is told of a put.
struct Done {
    done: PutDone,
    versioning: Versioning,
    verified: Verified,
}

pub(crate) async fn put_object(
    cx: &Context,
    req: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let guest = cx.guest(&req.extensions)?;
    let input = &req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let body = ObjectBody::take(&req.extensions)?;
    let mut expected = Expected::of(&req.headers, &body.announced, body.sha256)?;
    expected.computed = Some(checksums::DEFAULT);
    expected.etag = cx.settings.always_md5 || !expected.has_sum() || body.length <= SMALL_BYTES_MAX as u64;
    let attributes = attributes(cx, &guest, &req, if place.is_directory { DIRECTORY_MODE } else { MODE })?;
    let demand = demand(input.if_match.clone(), input.if_none_match.clone())?;
    let hold = crate::lock::hold_of_put(cx, &req.headers)?;
    if place.is_directory {
        if hold.is_some() {
            return Err(s3_error!(NotImplemented, "keys that end with '/' are not held"));
        }
        return put_marker(cx, guest, place, attributes, (body, expected), demand).await;
    }
    let mut options = PutOptions {
        length: Some(ByteCount(body.length)),
        attributes,
        class: class(cx, input.storage_class.as_ref().map(|class| class.as_str()))?,
        hold,
        implied_parents: true,
        make_parents: true,
        who: Some(guest.caller.name.clone()),
        ..PutOptions::default()
    };
    let begin = move |guest: &Guest| {
        let BucketSettings { versioning, .. } = bucket(guest, &place.bucket)?.settings;
        if options.hold.is_some() {
            crate::lock::check_bucket(guest, &place.bucket)?;
        }
        demand.apply(guest, &place, &mut options)?;
        let upload = guest.engine.begin_put(&place.path, options)?;
        Ok(Incoming { upload, versioning })
    };
    let done = receive(cx, guest, body, expected, begin, finish).await?;
    let sum = done.verified.sum.clone();
    let mut response = S3Response::new(answer(done));
    if let Some((kind, value)) = sum {
        checksums::say(kind, &value, &mut response.headers);
    }
    Ok(response)
}

/// The attributes of the file to be.
fn attributes(
    cx: &Context,
    guest: &Guest,
    req: &S3Request<PutObjectInput>,
    mode: u32,
) -> S3Result<Attributes> {
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
    Ok(attributes_of(cx, guest, mode, xattrs))
}

/// Attributes of something that is made now by somebody.
pub(crate) fn attributes_of(
    cx: &Context,
    guest: &Guest,
    mode: u32,
    xattrs: Vec<(String, Vec<u8>)>,
) -> Attributes {
    let owner = guest.caller.name.clone();
    Attributes { mtime: cx.clock.now(), mode, owner, group: String::new(), xattrs }
}

/// The class that S3's name stands for.
///
/// # Errors
/// `InvalidStorageClass`.
pub(crate) fn class(cx: &Context, name: Option<&str>) -> S3Result<Option<String>> {
    let Some(name) = name else { return Ok(None) };
    match cx.settings.class_of(name) {
        Some(class) => Ok(class.map(str::to_owned)),
        None => {
            let known = cx.settings.class_names().join(", ");
            Err(s3_error!(InvalidStorageClass, "there is no storage class '{name}'; there are: {known}"))
        }
    }
}

/// The attributes that are known only when all bytes have come: ETag and checksum.
pub(crate) fn digest_xattrs(verified: &Verified) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    if let Some(md5) = &verified.md5 {
        all.push((metadata::ETAG.to_owned(), hex(md5).into_bytes()));
    }
    if let Some((kind, value)) = &verified.sum {
        all.push((metadata::SUMS.to_owned(), format!("{}={value} full\n", kind.name()).into_bytes()));
    }
    all
}

fn finish(incoming: Incoming, verified: Verified, reply: Reply<Done>) {
    let Incoming { mut upload, versioning } = incoming;
    for (name, value) in digest_xattrs(&verified) {
        upload.attribute(name, value);
    }
    upload.finish_then(Box::new(move |done| {
        reply(done.map(|done| Done { done, versioning, verified }).map_err(Failure::from));
    }));
}

fn answer(done: Done) -> PutObjectOutput {
    let Done { done, versioning, verified } = done;
    let tag = match verified.md5 {
        Some(md5) => hex(&md5),
        None => crate::etag::of_blake3(&done.checksums.blake3),
    };
    let mut output = PutObjectOutput {
        e_tag: Some(ETag::Strong(tag)),
        version_id: match versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(keys::version_text(done.file, false)),
            Versioning::Suspended => Some(keys::version_text(done.file, true)),
        },
        ..PutObjectOutput::default()
    };
    if let Some((kind, value)) = verified.sum {
        let value = Some(value);
        match kind {
            Kind::Crc32 => output.checksum_crc32 = value,
            Kind::Crc32c => output.checksum_crc32c = value,
            Kind::Crc64nvme => output.checksum_crc64nvme = value,
            Kind::Sha1 => output.checksum_sha1 = value,
            Kind::Sha256 => output.checksum_sha256 = value,
            // s3s has no field for them: they are said in headers of our own.
            Kind::Sha512 | Kind::Md5 => {}
        }
        output.checksum_type = Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT));
    }
    output
}

/// A key that ends with a slash: a directory that is an object, too.
async fn put_marker(
    cx: &Context,
    guest: Guest,
    place: Place,
    mut attributes: Attributes,
    (body, mut expected): (ObjectBody, Expected),
    demand: Demand,
) -> S3Result<S3Response<PutObjectOutput>> {
    if body.length > 0 {
        return Err(s3_error!(
            InvalidArgument,
            "a key that ends with '/' is a directory here and has no bytes"
        ));
    }
    if demand != Demand::Nothing {
        return Err(s3_error!(NotImplemented, "keys that end with '/' are put without conditions"));
    }
    expected.etag = true;
    attributes.xattrs.push((metadata::MARKER.to_owned(), Vec::new()));
    let begin = move |guest: &Guest| {
        markers::put(guest, &place, attributes)?;
        Ok(Nothing)
    };
    let finish = |_: Nothing, verified: Verified, reply: Reply<Verified>| reply(Ok(verified));
    let verified = receive(cx, guest, body, expected, begin, finish).await?;
    let md5 = verified.md5.map_or_else(|| markers::EMPTY_MD5.to_owned(), |md5| hex(&md5));
    let output = PutObjectOutput { e_tag: Some(ETag::Strong(md5)), ..PutObjectOutput::default() };
    Ok(S3Response::new(output))
}

/// Where no bytes go.
struct Nothing;

impl Sink<Failure> for Nothing {
    fn write(&mut self, _bytes: &Bytes) -> Result<(), Failure> {
        Ok(())
    }

    fn pause(&mut self) {}
}
