//! The operations that are offered, each handed to the file of its topic. All others are `NotImplemented`.

use async_trait::async_trait;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::context::Context;
use crate::{
    absent, access, attributes, buckets, copy, get, lifecycle, list, lock, multipart, objects, put, restore,
    tagging, versions,
};

/// The operations over one engine.
pub(crate) struct Door {
    /// What all requests share.
    pub context: Context,
}

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait]
impl S3 for Door {
    async fn list_buckets(&self, req: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
        buckets::list_buckets(&self.context, req).await
    }

    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> Answer<CreateBucketOutput> {
        buckets::create_bucket(&self.context, req).await
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        buckets::head_bucket(&self.context, req).await
    }

    async fn delete_bucket(&self, req: S3Request<DeleteBucketInput>) -> Answer<DeleteBucketOutput> {
        buckets::delete_bucket(&self.context, req).await
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> Answer<GetBucketLocationOutput> {
        buckets::get_bucket_location(&self.context, req).await
    }

    async fn get_bucket_acl(&self, req: S3Request<GetBucketAclInput>) -> Answer<GetBucketAclOutput> {
        access::get_bucket_acl(&self.context, req).await
    }

    async fn put_bucket_acl(&self, req: S3Request<PutBucketAclInput>) -> Answer<PutBucketAclOutput> {
        access::put_bucket_acl(&self.context, req).await
    }

    async fn get_object_acl(&self, req: S3Request<GetObjectAclInput>) -> Answer<GetObjectAclOutput> {
        access::get_object_acl(&self.context, req).await
    }

    async fn put_object_acl(&self, req: S3Request<PutObjectAclInput>) -> Answer<PutObjectAclOutput> {
        access::put_object_acl(&self.context, req).await
    }

    async fn get_bucket_policy(&self, req: S3Request<GetBucketPolicyInput>) -> Answer<GetBucketPolicyOutput> {
        absent::get_bucket_policy(&self.context, req).await
    }

    async fn get_bucket_policy_status(
        &self,
        req: S3Request<GetBucketPolicyStatusInput>,
    ) -> Answer<GetBucketPolicyStatusOutput> {
        absent::get_bucket_policy_status(&self.context, req).await
    }

    async fn get_bucket_cors(&self, req: S3Request<GetBucketCorsInput>) -> Answer<GetBucketCorsOutput> {
        absent::get_bucket_cors(&self.context, req).await
    }

    async fn get_bucket_website(
        &self,
        req: S3Request<GetBucketWebsiteInput>,
    ) -> Answer<GetBucketWebsiteOutput> {
        absent::get_bucket_website(&self.context, req).await
    }

    async fn get_bucket_logging(
        &self,
        req: S3Request<GetBucketLoggingInput>,
    ) -> Answer<GetBucketLoggingOutput> {
        absent::get_bucket_logging(&self.context, req).await
    }

    async fn get_bucket_encryption(
        &self,
        req: S3Request<GetBucketEncryptionInput>,
    ) -> Answer<GetBucketEncryptionOutput> {
        absent::get_bucket_encryption(&self.context, req).await
    }

    async fn get_bucket_replication(
        &self,
        req: S3Request<GetBucketReplicationInput>,
    ) -> Answer<GetBucketReplicationOutput> {
        absent::get_bucket_replication(&self.context, req).await
    }

    async fn get_bucket_request_payment(
        &self,
        req: S3Request<GetBucketRequestPaymentInput>,
    ) -> Answer<GetBucketRequestPaymentOutput> {
        absent::get_bucket_request_payment(&self.context, req).await
    }

    async fn get_public_access_block(
        &self,
        req: S3Request<GetPublicAccessBlockInput>,
    ) -> Answer<GetPublicAccessBlockOutput> {
        absent::get_public_access_block(&self.context, req).await
    }

    async fn get_bucket_notification_configuration(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> Answer<GetBucketNotificationConfigurationOutput> {
        absent::get_bucket_notification_configuration(&self.context, req).await
    }

    async fn get_bucket_ownership_controls(
        &self,
        req: S3Request<GetBucketOwnershipControlsInput>,
    ) -> Answer<GetBucketOwnershipControlsOutput> {
        absent::get_bucket_ownership_controls(&self.context, req).await
    }

    async fn get_bucket_accelerate_configuration(
        &self,
        req: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> Answer<GetBucketAccelerateConfigurationOutput> {
        absent::get_bucket_accelerate_configuration(&self.context, req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        get::head_object(&self.context, req).await
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
        objects::delete_object(&self.context, req).await
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
        objects::delete_objects(&self.context, req).await
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        get::get_object(&self.context, req).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        put::put_object(&self.context, req).await
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        copy::copy_object(&self.context, req).await
    }

    async fn list_objects(&self, req: S3Request<ListObjectsInput>) -> Answer<ListObjectsOutput> {
        list::list_objects(&self.context, req).await
    }

    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> Answer<ListObjectsV2Output> {
        list::list_objects_v2(&self.context, req).await
    }

    async fn get_object_tagging(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> Answer<GetObjectTaggingOutput> {
        tagging::get_object_tagging(&self.context, req).await
    }

    async fn put_object_tagging(
        &self,
        req: S3Request<PutObjectTaggingInput>,
    ) -> Answer<PutObjectTaggingOutput> {
        tagging::put_object_tagging(&self.context, req).await
    }

    async fn delete_object_tagging(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> Answer<DeleteObjectTaggingOutput> {
        tagging::delete_object_tagging(&self.context, req).await
    }

    async fn get_bucket_tagging(
        &self,
        req: S3Request<GetBucketTaggingInput>,
    ) -> Answer<GetBucketTaggingOutput> {
        tagging::get_bucket_tagging(&self.context, req).await
    }

    async fn put_bucket_tagging(
        &self,
        req: S3Request<PutBucketTaggingInput>,
    ) -> Answer<PutBucketTaggingOutput> {
        tagging::put_bucket_tagging(&self.context, req).await
    }

    async fn delete_bucket_tagging(
        &self,
        req: S3Request<DeleteBucketTaggingInput>,
    ) -> Answer<DeleteBucketTaggingOutput> {
        tagging::delete_bucket_tagging(&self.context, req).await
    }

    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> Answer<GetObjectAttributesOutput> {
        attributes::get_object_attributes(&self.context, req).await
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        multipart::create_multipart_upload(&self.context, req).await
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        multipart::upload_part(&self.context, req).await
    }

    async fn upload_part_copy(&self, req: S3Request<UploadPartCopyInput>) -> Answer<UploadPartCopyOutput> {
        multipart::upload_part_copy(&self.context, req).await
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        multipart::complete_multipart_upload(&self.context, req).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        multipart::abort_multipart_upload(&self.context, req).await
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        multipart::list_parts(&self.context, req).await
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        multipart::list_multipart_uploads(&self.context, req).await
    }

    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> Answer<GetBucketVersioningOutput> {
        versions::get_bucket_versioning(&self.context, req).await
    }

    async fn put_bucket_versioning(
        &self,
        req: S3Request<PutBucketVersioningInput>,
    ) -> Answer<PutBucketVersioningOutput> {
        versions::put_bucket_versioning(&self.context, req).await
    }

    async fn list_object_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> Answer<ListObjectVersionsOutput> {
        versions::list_object_versions(&self.context, req).await
    }

    async fn get_object_lock_configuration(
        &self,
        req: S3Request<GetObjectLockConfigurationInput>,
    ) -> Answer<GetObjectLockConfigurationOutput> {
        lock::get_object_lock_configuration(&self.context, req).await
    }

    async fn put_object_lock_configuration(
        &self,
        req: S3Request<PutObjectLockConfigurationInput>,
    ) -> Answer<PutObjectLockConfigurationOutput> {
        lock::put_object_lock_configuration(&self.context, req).await
    }

    async fn get_object_legal_hold(
        &self,
        req: S3Request<GetObjectLegalHoldInput>,
    ) -> Answer<GetObjectLegalHoldOutput> {
        lock::get_object_legal_hold(&self.context, req).await
    }

    async fn put_object_legal_hold(
        &self,
        req: S3Request<PutObjectLegalHoldInput>,
    ) -> Answer<PutObjectLegalHoldOutput> {
        lock::put_object_legal_hold(&self.context, req).await
    }

    async fn get_object_retention(
        &self,
        req: S3Request<GetObjectRetentionInput>,
    ) -> Answer<GetObjectRetentionOutput> {
        lock::get_object_retention(&self.context, req).await
    }

    async fn put_object_retention(
        &self,
        req: S3Request<PutObjectRetentionInput>,
    ) -> Answer<PutObjectRetentionOutput> {
        lock::put_object_retention(&self.context, req).await
    }

    async fn restore_object(&self, req: S3Request<RestoreObjectInput>) -> Answer<RestoreObjectOutput> {
        restore::restore_object(&self.context, req).await
    }

    async fn get_bucket_lifecycle_configuration(
        &self,
        req: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> Answer<GetBucketLifecycleConfigurationOutput> {
        lifecycle::get_bucket_lifecycle_configuration(&self.context, req).await
    }

    async fn put_bucket_lifecycle_configuration(
        &self,
        req: S3Request<PutBucketLifecycleConfigurationInput>,
    ) -> Answer<PutBucketLifecycleConfigurationOutput> {
        lifecycle::put_bucket_lifecycle_configuration(&self.context, req).await
    }

    async fn delete_bucket_lifecycle(
        &self,
        req: S3Request<DeleteBucketLifecycleInput>,
    ) -> Answer<DeleteBucketLifecycleOutput> {
        lifecycle::delete_bucket_lifecycle(&self.context, req).await
    }
}
