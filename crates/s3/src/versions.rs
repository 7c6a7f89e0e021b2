//! Versions of objects: whether a bucket keeps them, and their listing.

use std::sync::{Mutex, PoisonError};

use archive::{ArchiveError, BucketSettings, KeyLine, KeyQuery, ObjectLine, VersionQuery, Versioning, Which};
use base::{ByteCount, FileId, Name};
use http::StatusCode;
use s3s::dto::{
    BucketVersioningStatus, CommonPrefix, DeleteMarkerEntry, ETag, EncodingType, GetBucketVersioningInput,
    GetBucketVersioningOutput, ListObjectVersionsInput, ListObjectVersionsOutput, ObjectVersion,
    ObjectVersionStorageClass, PutBucketVersioningInput, PutBucketVersioningOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{algorithms, bucket, owner, restore_status, sums, timestamp};
use crate::context::{Context, Failure, Guest};
use crate::errors::custom;
use crate::keys;
use crate::list::wants_restore;
use crate::percent::encode_key;

/// Most lines of a page, as in S3.
const PAGE_MAX: usize = 1000;

/// Changes of buckets' settings, which are read and then written as a whole, one after the other.
static CHANGES: Mutex<()> = Mutex::new(());

/// Changes the settings of a bucket; no other change comes between the reading and the writing.
pub(crate) fn change_bucket(
    guest: &Guest,
    name: &Name,
    change: impl FnOnce(&mut BucketSettings) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let _one = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut settings = bucket(guest, name)?.settings;
    change(&mut settings)?;
    Ok(guest.engine.set_bucket(name, &settings)?)
}

pub(crate) async fn get_bucket_versioning(
    cx: &Context,
    req: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    let name = keys::bucket(&req.input.bucket)?;
    let info = cx.call(&req.extensions, move |guest| bucket(guest, &name)).await?;
    let status = match info.settings.versioning {
        Versioning::Off => None,
        Versioning::Enabled => Some(BucketVersioningStatus::ENABLED),
        Versioning::Suspended => Some(BucketVersioningStatus::SUSPENDED),
    };
    let status = status.map(BucketVersioningStatus::from_static);
    Ok(S3Response::new(GetBucketVersioningOutput { status, ..Default::default() }))
}

pub(crate) async fn put_bucket_versioning(
    cx: &Context,
    req: S3Request<PutBucketVersioningInput>,
) -> S3Result<S3Response<PutBucketVersioningOutput>> {
    let name = keys::bucket(&req.input.bucket)?;
    let asked = req.input.versioning_configuration;
    if asked.mfa_delete.is_some_and(|mfa| mfa.as_str() != "Disabled") {
        return Err(s3_error!(NotImplemented, "there is no MFA delete here"));
    }
    let versioning = match asked.status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => return Err(s3_error!(MalformedXML, "the status is Enabled or Suspended")),
    };
    cx.call(&req.extensions, move |guest| {
        change_bucket(guest, &name, |settings| {
            if settings.object_lock && versioning != Versioning::Enabled {
                let message = "versioning cannot be suspended in a bucket with object lock".to_owned();
                return Err(Failure(custom("InvalidBucketState", StatusCode::CONFLICT, message)));
            }
            settings.versioning = versioning;
            Ok(())
        })
    })
    .await?;
    Ok(S3Response::new(PutBucketVersioningOutput::default()))
}

/// The version behind which a page begins.
fn after_version(guest: &Guest, input: &ListObjectVersionsInput) -> Result<Option<FileId>, Failure> {
    let Some(version) = input.version_id_marker.as_deref().filter(|version| !version.is_empty()) else {
        return Ok(None);
    };
    let Some(key) = input.key_marker.as_deref().filter(|key| !key.is_empty()) else {
        return Err(Failure(s3_error!(InvalidArgument, "a version-id-marker needs a key-marker")));
    };
    match keys::which(Some(version))? {
        Which::Version(id) => Ok(Some(id)),
        which => match guest.engine.object(&keys::place(&input.bucket, key)?.path, which) {
            Ok(object) => Ok(Some(object.file.file)),
            Err(ArchiveError::DeleteMarker { version, .. }) => Ok(Some(version)),
            // It went since the last page: what is older cannot be told from what is newer.
            Err(ArchiveError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        },
    }
}

pub(crate) async fn list_object_versions(
    cx: &Context,
    req: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = req.input;
    let name = keys::bucket(&input.bucket)?;
    let limit = match usize::try_from(input.max_keys.unwrap_or(1000)) {
        Ok(limit) => limit.min(PAGE_MAX),
        Err(_) => return Err(s3_error!(InvalidArgument, "max-keys is negative")),
    };
    let is_url = match input.encoding_type.as_ref().map(EncodingType::as_str) {
        None => false,
        Some(EncodingType::URL) => true,
        Some(_) => return Err(s3_error!(InvalidArgument, "the only encoding-type is url")),
    };
    let mut query = VersionQuery {
        keys: KeyQuery {
            bucket: keys::bucket_path(&name)?,
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after: input.key_marker.clone().unwrap_or_default(),
            limit,
        },
        after_version: None,
    };
    let restore = wants_restore(input.optional_object_attributes.as_ref())?;
    let asked = input.clone();
    let (owned_by, page) = cx
        .call(&req.extensions, move |guest| {
            let info = bucket(guest, &name)?;
            query.after_version = after_version(guest, &asked)?;
            Ok((info.owner, guest.engine.list_versions(&query)?))
        })
        .await?;
    let text = |key: &str| if is_url { encode_key(key) } else { key.to_owned() };
    let (mut versions, mut markers, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
    for line in page.lines {
        match line {
            KeyLine::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(text(&prefix)) }),
            KeyLine::Object(line) if line.is_marker => markers.push(DeleteMarkerEntry {
                is_latest: Some(line.is_current),
                key: Some(text(&line.key)),
                last_modified: Some(timestamp(line.created)),
                owner: Some(owner(&owned_by)),
                version_id: Some(keys::version_text(line.file, line.is_null)),
            }),
            KeyLine::Object(line) => versions.push(version(cx, &line, text(&line.key), &owned_by, restore)),
        }
    }
    let (next_key, next_version) = page.next.unzip();
    // Always the number, so that the next page finds its place when the version has gone meanwhile. Behind a
    // prefix there is none: it is empty then, as every page that is not the last one names both.
    let next_version =
        next_version.map(|file| file.map_or_else(String::new, |file| keys::version_text(file, false)));
    Ok(S3Response::new(ListObjectVersionsOutput {
        common_prefixes: Some(prefixes),
        delete_markers: Some(markers),
        delimiter: input.delimiter.as_deref().map(text),
        encoding_type: input.encoding_type,
        is_truncated: Some(next_key.is_some()),
        key_marker: Some(input.key_marker.as_deref().map(text).unwrap_or_default()),
        max_keys: i32::try_from(limit).ok(),
        name: Some(input.bucket),
        next_key_marker: next_key.as_deref().map(text),
        next_version_id_marker: next_version,
        prefix: Some(input.prefix.as_deref().map(text).unwrap_or_default()),
        request_charged: None,
        version_id_marker: input.version_id_marker,
        versions: Some(versions),
    }))
}

fn version(cx: &Context, line: &ObjectLine, key: String, owned_by: &str, restore: bool) -> ObjectVersion {
    let ByteCount(size) = line.size;
    let sums = sums(&line.attributes);
    ObjectVersion {
        checksum_algorithm: algorithms(&sums),
        checksum_type: sums.checksum_type,
        e_tag: Some(ETag::Strong(crate::etag::of_line(line))),
        is_latest: Some(line.is_current),
        key: Some(key),
        last_modified: Some(timestamp(line.created)),
        owner: Some(owner(owned_by)),
        restore_status: if restore { restore_status(line.restore) } else { None },
        size: i64::try_from(size).ok(),
        storage_class: Some(ObjectVersionStorageClass::from(cx.settings.name_of(&line.class).to_owned())),
        version_id: Some(keys::version_text(line.file, line.is_null)),
    }
}
