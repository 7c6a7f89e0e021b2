//! What clients ask a bucket for that is never there: told in S3's own words, so that they go on.

use http::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result};

use crate::buckets::check;
use crate::context::Context;
use crate::errors::custom;

fn none(code: &'static str) -> S3Error {
    custom(code, StatusCode::NOT_FOUND, "the bucket has no such configuration, and takes none".to_owned())
}

pub(crate) async fn get_bucket_policy(
    cx: &Context,
    req: S3Request<GetBucketPolicyInput>,
) -> S3Result<S3Response<GetBucketPolicyOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("NoSuchBucketPolicy"))
}

pub(crate) async fn get_bucket_policy_status(
    cx: &Context,
    req: S3Request<GetBucketPolicyStatusInput>,
) -> S3Result<S3Response<GetBucketPolicyStatusOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("NoSuchBucketPolicy"))
}

pub(crate) async fn get_bucket_cors(
    cx: &Context,
    req: S3Request<GetBucketCorsInput>,
) -> S3Result<S3Response<GetBucketCorsOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("NoSuchCORSConfiguration"))
}

pub(crate) async fn get_bucket_website(
    cx: &Context,
    req: S3Request<GetBucketWebsiteInput>,
) -> S3Result<S3Response<GetBucketWebsiteOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("NoSuchWebsiteConfiguration"))
}

pub(crate) async fn get_bucket_encryption(
    cx: &Context,
    req: S3Request<GetBucketEncryptionInput>,
) -> S3Result<S3Response<GetBucketEncryptionOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("ServerSideEncryptionConfigurationNotFoundError"))
}

pub(crate) async fn get_bucket_replication(
    cx: &Context,
    req: S3Request<GetBucketReplicationInput>,
) -> S3Result<S3Response<GetBucketReplicationOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("ReplicationConfigurationNotFoundError"))
}

pub(crate) async fn get_public_access_block(
    cx: &Context,
    req: S3Request<GetPublicAccessBlockInput>,
) -> S3Result<S3Response<GetPublicAccessBlockOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("NoSuchPublicAccessBlockConfiguration"))
}

pub(crate) async fn get_bucket_ownership_controls(
    cx: &Context,
    req: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<S3Response<GetBucketOwnershipControlsOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Err(none("OwnershipControlsNotFoundError"))
}

pub(crate) async fn get_bucket_logging(
    cx: &Context,
    req: S3Request<GetBucketLoggingInput>,
) -> S3Result<S3Response<GetBucketLoggingOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Ok(S3Response::new(GetBucketLoggingOutput::default()))
}

pub(crate) async fn get_bucket_notification_configuration(
    cx: &Context,
    req: S3Request<GetBucketNotificationConfigurationInput>,
) -> S3Result<S3Response<GetBucketNotificationConfigurationOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Ok(S3Response::new(GetBucketNotificationConfigurationOutput::default()))
}

pub(crate) async fn get_bucket_accelerate_configuration(
    cx: &Context,
    req: S3Request<GetBucketAccelerateConfigurationInput>,
) -> S3Result<S3Response<GetBucketAccelerateConfigurationOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    Ok(S3Response::new(GetBucketAccelerateConfigurationOutput::default()))
}

pub(crate) async fn get_bucket_request_payment(
    cx: &Context,
    req: S3Request<GetBucketRequestPaymentInput>,
) -> S3Result<S3Response<GetBucketRequestPaymentOutput>> {
    check(cx, &req.extensions, &req.input.bucket).await?;
    let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
    Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
}
