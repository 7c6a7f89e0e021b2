//! Buckets.

use archive::{ArchiveError, BucketSettings, Versioning};
use base::Name;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{bucket, owner, timestamp};
use crate::context::{Context, Failure, Guest};
use base::base64;

use crate::keys;

/// Buckets in one listing, as in S3.
const BUCKETS_MAX: i32 = 10_000;

pub(crate) async fn list_buckets(
    cx: &Context,
    req: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = req.input;
    let who = cx.guest(&req.extensions)?.caller.name.clone();
    let after = match &input.continuation_token {
        None => None,
        Some(token) => Some(
            base64::decode(token)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| s3_error!(InvalidArgument, "the continuation token is none of ours"))?,
        ),
    };
    let limit = usize::try_from(input.max_buckets.unwrap_or(BUCKETS_MAX).clamp(1, BUCKETS_MAX)).unwrap_or(1);
    let mut all = cx.call(&req.extensions, |guest| Ok(guest.engine.buckets()?)).await?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let region = &cx.settings.region;
    let other_region = input.bucket_region.as_ref().is_some_and(|wanted| wanted != region);
    let mut chosen = all.into_iter().filter(|bucket| {
        let name = bucket.name.as_str();
        !other_region
            && input.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_str()))
            && after.as_ref().is_none_or(|after| name > after.as_str())
    });
    let page: Vec<_> = chosen.by_ref().take(limit).collect();
    let more = chosen.next().is_some();
    let last = page.last().map(|bucket| base64::encode(bucket.name.as_str().as_bytes()));
    let said = |bucket: archive::BucketInfo| Bucket {
        bucket_region: Some(region.clone()),
        creation_date: Some(timestamp(bucket.created)),
        name: Some(bucket.name.as_str().to_owned()),
    };
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(page.into_iter().map(said).collect()),
        continuation_token: last.filter(|_| more),
        owner: Some(owner(&who)),
        prefix: input.prefix,
    }))
}

pub(crate) async fn create_bucket(
    cx: &Context,
    req: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let input = req.input;
    if !s3s::path::check_bucket_name(&input.bucket) {
        return Err(s3_error!(
            InvalidBucketName,
            "a bucket's name has 3 to 63 of a-z, 0-9, '-' and '.', with a letter or digit at both ends"
        ));
    }
    let name = keys::bucket(&input.bucket)?;
    if let Some(config) = &input.create_bucket_configuration {
        if config.bucket.is_some() || config.location.is_some() {
            return Err(s3_error!(NotImplemented, "directory buckets are not supported"));
        }
        let region = config.location_constraint.as_ref().map(|constraint| constraint.as_str());
        if region.is_some_and(|region| !region.is_empty() && region != cx.settings.region) {
            let ours = &cx.settings.region;
            return Err(s3_error!(
                IllegalLocationConstraintException,
                "buckets are made in the region '{ours}' only"
            ));
        }
    }
    // Who puts an object owns it, and nothing else is offered.
    let ownership = input.object_ownership.as_ref().map(ObjectOwnership::as_str);
    if ownership.is_some_and(|ownership| ownership != ObjectOwnership::OBJECT_WRITER) {
        return Err(s3_error!(NotImplemented, "objects are of those who put them: ObjectWriter"));
    }
    let object_lock = input.object_lock_enabled_for_bucket == Some(true);
    // S3 keeps versions where it locks them.
    let versioning = if object_lock { Versioning::Enabled } else { Versioning::Off };
    let settings = BucketSettings { object_lock, versioning, ..BucketSettings::default() };
    let location = format!("/{name}");
    cx.call(&req.extensions, move |guest| make(guest, &name, &settings)).await?;
    Ok(S3Response::new(CreateBucketOutput { location: Some(location) }))
}

fn make(guest: &Guest, name: &Name, settings: &BucketSettings) -> Result<(), Failure> {
    let who = &guest.caller.name;
    match guest.engine.make_bucket(name, who, settings) {
        Err(ArchiveError::Exists(_)) => {
            let ours = guest.engine.bucket(name).is_ok_and(|bucket| bucket.owner == *who);
            Err(Failure(if ours {
                s3_error!(BucketAlreadyOwnedByYou, "there is a bucket '{name}' already, and it is yours")
            } else {
                s3_error!(BucketAlreadyExists, "there is a bucket '{name}' already")
            }))
        }
        other => Ok(other?),
    }
}

pub(crate) async fn head_bucket(
    cx: &Context,
    req: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    let bucket_region = Some(cx.settings.region.clone());
    Ok(S3Response::new(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() }))
}

/// Refuses if the bucket is not there.
pub(crate) async fn check(
    cx: &Context,
    extensions: &http::Extensions,
    name: &str,
) -> S3Result<archive::BucketInfo> {
    let name = keys::bucket(name)?;
    cx.call(extensions, move |guest| bucket(guest, &name)).await
}

pub(crate) async fn delete_bucket(
    cx: &Context,
    req: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let name = keys::bucket(&req.input.bucket)?;
    cx.call(&req.extensions, move |guest| {
        guest.engine.remove_bucket(&name).map_err(|error| match error {
            ArchiveError::NotFound(_) => Failure(s3_error!(NoSuchBucket, "there is no bucket '{name}'")),
            error => error.into(),
        })
    })
    .await?;
    Ok(S3Response::with_status(DeleteBucketOutput::default(), http::StatusCode::NO_CONTENT))
}

pub(crate) async fn get_bucket_location(
    cx: &Context,
    req: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    // The first region has no constraint, as in S3.
    let region = Some(cx.settings.region.clone()).filter(|region| region != "us-east-1");
    let location_constraint = region.map(BucketLocationConstraint::from);
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint }))
}
