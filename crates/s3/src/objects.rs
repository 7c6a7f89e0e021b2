//! Deletes.

use archive::{ArchiveError, ObjectRemoved, Versioning};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use tokio::task::JoinSet;

use crate::answers::{bucket, bucket_exists};
use crate::context::{Context, Failure, Guest, lost_thread};
use crate::keys::{self, Place, version_text};
use crate::markers;

/// Keys of one DeleteObjects, as in S3.
const DELETES_MAX: usize = 1000;
/// Keys that one thread deletes one after the other: each waits for its sync, which several threads share.
const DELETES_TOGETHER: usize = 64;

pub(crate) async fn delete_object(
    cx: &Context,
    req: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = req.input;
    if input.if_match.is_some()
        || input.if_match_size.is_some()
        || input.if_match_last_modified_time.is_some()
    {
        return Err(s3_error!(NotImplemented, "deletes with conditions are not supported"));
    }
    let bypass = input.bypass_governance_retention == Some(true);
    let removed = cx
        .call(&req.extensions, move |guest| {
            remove(guest, &input.bucket, &input.key, input.version_id.as_deref(), bypass)
        })
        .await?;
    let output = DeleteObjectOutput {
        delete_marker: removed.marker.then_some(true),
        version_id: removed.version_id,
        ..DeleteObjectOutput::default()
    };
    Ok(S3Response::with_status(output, http::StatusCode::NO_CONTENT))
}

/// What a delete did, as answers say it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Removed {
    marker: bool,
    version_id: Option<String>,
}

/// A key that is not there is deleted already.
fn remove(
    guest: &Guest,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    bypass: bool,
) -> Result<Removed, Failure> {
    let place = keys::place(bucket, key)?;
    let which = keys::which(version)?;
    if place.is_directory {
        markers::remove(guest, &place)?;
        return Ok(Removed::default());
    }
    match guest.engine.remove_object(&place.path, which, bypass) {
        Ok(ObjectRemoved { version: None, marker: false }) => absent(guest, &place, version),
        Ok(ObjectRemoved { version: removed, marker }) => {
            let version_id = match version {
                Some(version) => Some(version.to_owned()),
                // What was deleted for good in a bucket without versions has no number to be told.
                None if !marker => None,
                None => {
                    let versioning = crate::answers::bucket(guest, &place.bucket)?.settings.versioning;
                    removed.map(|file| version_text(file, versioning == Versioning::Suspended))
                }
            };
            Ok(Removed { marker, version_id })
        }
        Err(ArchiveError::NotFound(_) | ArchiveError::IsADirectory(_) | ArchiveError::NotADirectory(_)) => {
            absent(guest, &place, version)
        }
        Err(error) => Err(error.into()),
    }
}

/// Of a key that is not there: deleted already, if its bucket is. Whoever may delete in it and not look at it
/// is not told whether it is.
fn absent(guest: &Guest, place: &Place, version: Option<&str>) -> Result<Removed, Failure> {
    match bucket_exists(guest, place) {
        Err(failure) if failure.0.code() != &S3ErrorCode::AccessDenied => return Err(failure),
        _ => {}
    }
    Ok(Removed { marker: false, version_id: version.map(str::to_owned) })
}

pub(crate) async fn delete_objects(
    cx: &Context,
    req: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = req.input;
    let quiet = input.delete.quiet == Some(true);
    let objects = input.delete.objects;
    if objects.is_empty() || objects.len() > DELETES_MAX {
        return Err(s3_error!(MalformedXML, "a delete names 1 to {DELETES_MAX} keys"));
    }
    let conditional = |object: &ObjectIdentifier| {
        object.e_tag.is_some() || object.size.is_some() || object.last_modified_time.is_some()
    };
    if objects.iter().any(conditional) {
        return Err(s3_error!(NotImplemented, "deletes with conditions are not supported"));
    }
    let bypass = input.bypass_governance_retention == Some(true);
    let name = keys::bucket(&input.bucket)?;
    cx.call(&req.extensions, move |guest| bucket(guest, &name).map(drop)).await?;
    let outcomes = remove_all(cx, &req.extensions, &input.bucket, &objects, bypass).await?;
    let mut output = DeleteObjectsOutput::default();
    for (object, outcome) in objects.into_iter().zip(outcomes) {
        match outcome {
            Ok(removed) if !quiet => output.deleted.get_or_insert_default().push(deleted(object, removed)),
            Ok(_) => {}
            Err(error) => output.errors.get_or_insert_default().push(failed(object, &error)),
        }
    }
    Ok(S3Response::new(output))
}

/// Deletes many keys on a few threads; outcomes in the order of the keys.
async fn remove_all(
    cx: &Context,
    extensions: &http::Extensions,
    bucket: &str,
    objects: &[ObjectIdentifier],
    bypass: bool,
) -> S3Result<Vec<Result<Removed, S3Error>>> {
    let mut groups = JoinSet::new();
    for (at, group) in objects.chunks(DELETES_TOGETHER).enumerate() {
        let (cx, extensions, bucket) = (cx.clone(), extensions.clone(), bucket.to_owned());
        let group: Vec<(String, Option<String>)> =
            group.iter().map(|object| (object.key.clone(), object.version_id.clone())).collect();
        groups.spawn(async move {
            let outcomes = cx.call(&extensions, move |guest| {
                let one = |(key, version): &(String, Option<String>)| {
                    remove(guest, &bucket, key, version.as_deref(), bypass).map_err(S3Error::from)
                };
                Ok(group.iter().map(one).collect::<Vec<_>>())
            });
            (at, outcomes.await)
        });
    }
    let mut all = Vec::new();
    while let Some(joined) = groups.join_next().await {
        let (at, outcomes) = joined.map_err(lost_thread)?;
        all.push((at, outcomes?));
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

fn deleted(object: ObjectIdentifier, removed: Removed) -> DeletedObject {
    DeletedObject {
        key: Some(object.key),
        delete_marker: removed.marker.then_some(true),
        delete_marker_version_id: removed.version_id.filter(|_| removed.marker),
        version_id: object.version_id,
    }
}

fn failed(object: ObjectIdentifier, error: &S3Error) -> Error {
    Error {
        code: Some(error.code().as_str().to_owned()),
        key: Some(object.key),
        message: error.message().map(str::to_owned),
        version_id: object.version_id,
    }
}
