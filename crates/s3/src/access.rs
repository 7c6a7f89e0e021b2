//! Access control lists as S3 has them: everything is private; rights are given by `kist acl`.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::answers::{find, owner};
use crate::buckets::check;
use crate::context::Context;
use crate::{keys, markers};

/// The one grant that everything has.
fn private(name: &str) -> (Option<Grants>, Option<Owner>) {
    let grantee = Grantee {
        display_name: Some(name.to_owned()),
        email_address: None,
        id: Some(name.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    let permission = Some(Permission::from_static(Permission::FULL_CONTROL));
    (Some(vec![Grant { grantee: Some(grantee), permission }]), Some(owner(name)))
}

fn refused() -> S3Error {
    s3_error!(AccessControlListNotSupported, "only the ACL 'private' is supported: see kist acl")
}

/// Refuses every list but the one that everything has, as a word or, as s3cmd sends it back, in full.
fn check_private(policy: Option<&AccessControlPolicy>, is_named: bool, owner: &str) -> S3Result<()> {
    let is_private = match policy {
        None => is_named,
        Some(policy) => policy.grants.iter().flatten().all(|grant| {
            let to_owner = grant.grantee.as_ref().is_some_and(|to| to.id.as_deref() == Some(owner));
            let all = grant.permission.as_ref().map(Permission::as_str) == Some(Permission::FULL_CONTROL);
            to_owner && all
        }),
    };
    if is_private { Ok(()) } else { Err(refused()) }
}

pub(crate) async fn get_bucket_acl(
    cx: &Context,
    req: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let bucket = check(cx, &req.extensions, &req.input.bucket).await?;
    let (grants, owner) = private(&bucket.owner);
    Ok(S3Response::new(GetBucketAclOutput { grants, owner }))
}

/// `private` is what everything is already; the gate has refused other words.
pub(crate) async fn put_bucket_acl(
    cx: &Context,
    req: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    let bucket = check(cx, &req.extensions, &req.input.bucket).await?;
    check_private(req.input.access_control_policy.as_ref(), req.input.acl.is_some(), &bucket.owner)?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// Whose an object is.
async fn owner_of(
    cx: &Context,
    extensions: &http::Extensions,
    bucket: &str,
    key: &str,
    version: Option<String>,
) -> S3Result<String> {
    let place = keys::place(bucket, key)?;
    let known = cx.call(extensions, move |guest| {
        if place.is_directory {
            markers::find(guest, &place)
        } else {
            find(guest, &place, version.as_deref())
        }
    });
    Ok(known.await?.file.attributes.owner)
}

pub(crate) async fn get_object_acl(
    cx: &Context,
    req: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = req.input;
    let name = owner_of(cx, &req.extensions, &input.bucket, &input.key, input.version_id).await?;
    let (grants, owner) = private(&name);
    Ok(S3Response::new(GetObjectAclOutput { grants, owner, request_charged: None }))
}

pub(crate) async fn put_object_acl(
    cx: &Context,
    req: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let input = req.input;
    let owner = owner_of(cx, &req.extensions, &input.bucket, &input.key, input.version_id).await?;
    check_private(input.access_control_policy.as_ref(), input.acl.is_some(), &owner)?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}
