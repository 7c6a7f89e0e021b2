//! Tags of objects and buckets.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{absent, find};
use crate::context::{Context, Failure, Guest, Said};
use crate::keys::{self, Place};
use crate::metadata::{BUCKET_TAGS_MAX, TAG, TAGS_MAX, checked_tags, tag_xattrs, tags};
use crate::versions::change_bucket;

/// The document of a bucket that holds its tags, as JSON pairs.
const DOCUMENT: &str = "s3.tags";

fn of_set(set: TagSet, most: usize) -> S3Result<Vec<(String, String)>> {
    let pair = |tag: Tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    checked_tags(set.into_iter().map(pair).collect(), most)
}

fn to_set(tags: Vec<(String, String)>) -> TagSet {
    tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect()
}

fn file_only(bucket: &str, key: &str) -> S3Result<Place> {
    let place = keys::place(bucket, key)?;
    if place.is_directory {
        return Err(s3_error!(NotImplemented, "keys that end with '/' take no tags"));
    }
    Ok(place)
}

/// Replaces all tags of an object; gives its version.
fn replace(
    guest: &Guest,
    place: &Place,
    version: Option<&str>,
    new: Vec<(String, String)>,
) -> Result<Option<String>, Failure> {
    let known = find(guest, place, version)?;
    let old = known.file.attributes.xattrs.iter().filter(|(name, _)| name.starts_with(TAG));
    let kept = |name: &str| new.iter().any(|(key, _)| name.strip_prefix(TAG) == Some(key));
    let mut changes: Vec<(String, Option<Vec<u8>>)> =
        old.filter(|(name, _)| !kept(name)).map(|(name, _)| (name.clone(), None)).collect();
    changes.extend(tag_xattrs(new).map(|(name, value)| (name, Some(value))));
    if !changes.is_empty() {
        let outcome = guest.engine.set_xattrs(&place.path, keys::which(version)?, &changes);
        outcome.map_err(|error| absent(guest, place, version, error))?;
    }
    Ok(known.version())
}

pub(crate) async fn get_object_tagging(
    cx: &Context,
    req: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = req.input;
    let place = file_only(&input.bucket, &input.key)?;
    let known =
        cx.call(&req.extensions, move |guest| find(guest, &place, input.version_id.as_deref())).await?;
    let tag_set = to_set(tags(&known.file.attributes));
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: known.version() }))
}

pub(crate) async fn put_object_tagging(
    cx: &Context,
    req: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = req.input;
    let place = file_only(&input.bucket, &input.key)?;
    let new = of_set(input.tagging.tag_set, TAGS_MAX)?;
    let change = move |guest: &Guest| replace(guest, &place, input.version_id.as_deref(), new);
    let version_id = cx.call(&req.extensions, change).await?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id }))
}

pub(crate) async fn delete_object_tagging(
    cx: &Context,
    req: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = req.input;
    let place = file_only(&input.bucket, &input.key)?;
    let change = move |guest: &Guest| replace(guest, &place, input.version_id.as_deref(), Vec::new());
    let version_id = cx.call(&req.extensions, change).await?;
    let output = DeleteObjectTaggingOutput { version_id };
    Ok(S3Response::with_status(output, http::StatusCode::NO_CONTENT))
}

/// Sets or removes a document of a bucket.
fn set_document(guest: &Guest, name: &str, document: Option<Vec<u8>>) -> Result<(), Failure> {
    let name = keys::bucket(name)?;
    change_bucket(guest, &name, |settings| {
        settings.documents.retain(|(known, _)| known != DOCUMENT);
        settings.documents.extend(document.map(|document| (DOCUMENT.to_owned(), document)));
        Ok(())
    })
}

pub(crate) async fn get_bucket_tagging(
    cx: &Context,
    req: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let bucket = crate::buckets::check(cx, &req.extensions, &req.input.bucket).await?;
    let documents = &bucket.settings.documents;
    let Some((_, document)) = documents.iter().find(|(name, _)| name == DOCUMENT) else {
        return Err(s3_error!(NoSuchTagSet, "the bucket has no tags"));
    };
    let tags: Vec<(String, String)> = serde_json::from_slice(document)
        .map_err(|_| s3_error!(InternalError, "the tags of the bucket cannot be read: set them anew"))?;
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: to_set(tags) }))
}

pub(crate) async fn put_bucket_tagging(
    cx: &Context,
    req: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let input = req.input;
    let tags = of_set(input.tagging.tag_set, BUCKET_TAGS_MAX)?;
    let document = serde_json::to_vec(&tags).map_err(|_| s3_error!(InvalidTag))?;
    cx.call(&req.extensions, move |guest| set_document(guest, &input.bucket, Some(document))).await?;
    let mut response = S3Response::new(PutBucketTaggingOutput::default());
    response.extensions.insert(Said(http::StatusCode::NO_CONTENT));
    Ok(response)
}

pub(crate) async fn delete_bucket_tagging(
    cx: &Context,
    req: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    let name = req.input.bucket;
    cx.call(&req.extensions, move |guest| set_document(guest, &name, None)).await?;
    Ok(S3Response::with_status(DeleteBucketTaggingOutput::default(), http::StatusCode::NO_CONTENT))
}
