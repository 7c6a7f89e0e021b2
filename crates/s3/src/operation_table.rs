//! The table of [`crate::known`]: a row for each operation that is offered. For one method and level the rows
//! stand in the order in which they are looked at: the one that nothing chooses comes last.

use crate::known::Level::{Bucket, Object, Root};
use crate::known::{Content, Level, Operation};

const fn row(method: &'static str, level: Level, name: &'static str, chosen_by: Names) -> Operation {
    Operation {
        name,
        method,
        level,
        chosen_by,
        copies: false,
        query: &[],
        headers: &[],
        content: Content::None,
    }
}

type Names = &'static [&'static str];

const fn get(level: Level, name: &'static str, chosen_by: Names) -> Operation {
    row("GET", level, name, chosen_by)
}

const fn put(level: Level, name: &'static str, chosen_by: Names) -> Operation {
    row("PUT", level, name, chosen_by)
}

const fn post(level: Level, name: &'static str, chosen_by: Names) -> Operation {
    row("POST", level, name, chosen_by)
}

const fn delete(level: Level, name: &'static str, chosen_by: Names) -> Operation {
    row("DELETE", level, name, chosen_by)
}

impl Operation {
    const fn query(self, query: Names) -> Self {
        Operation { query, ..self }
    }

    const fn headers(self, headers: Names) -> Self {
        Operation { headers, ..self }
    }

    const fn xml(self, elements: Names) -> Self {
        Operation { content: Content::Xml(elements), ..self }
    }

    const fn bytes(self) -> Self {
        Operation { content: Content::Bytes, ..self }
    }

    const fn copies(self) -> Self {
        Operation { copies: true, ..self }
    }
}

/// All operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    get(Root, "ListBuckets", &[]).query(&["bucket-region", "continuation-token", "max-buckets", "prefix"]),
    row("HEAD", Bucket, "HeadBucket", &[]),
    get(Bucket, "GetBucketAccelerateConfiguration", &["accelerate"]),
    get(Bucket, "GetBucketAcl", &["acl"]),
    get(Bucket, "GetBucketCors", &["cors"]),
    get(Bucket, "GetBucketEncryption", &["encryption"]),
    get(Bucket, "GetBucketLifecycleConfiguration", &["lifecycle"]),
    get(Bucket, "GetBucketLocation", &["location"]),
    get(Bucket, "GetBucketLogging", &["logging"]),
    get(Bucket, "GetBucketNotificationConfiguration", &["notification"]),
    get(Bucket, "GetBucketOwnershipControls", &["ownershipControls"]),
    get(Bucket, "GetBucketPolicy", &["policy"]),
    get(Bucket, "GetBucketPolicyStatus", &["policyStatus"]),
    get(Bucket, "GetBucketReplication", &["replication"]),
    get(Bucket, "GetBucketRequestPayment", &["requestPayment"]),
    get(Bucket, "GetBucketTagging", &["tagging"]),
    get(Bucket, "GetBucketVersioning", &["versioning"]),
    get(Bucket, "GetBucketWebsite", &["website"]),
    get(Bucket, "GetObjectLockConfiguration", &["object-lock"]),
    get(Bucket, "GetPublicAccessBlock", &["publicAccessBlock"]),
    get(Bucket, "ListMultipartUploads", &["uploads"]).query(&[
        "delimiter",
        "encoding-type",
        "key-marker",
        "max-uploads",
        "prefix",
        "upload-id-marker",
    ]),
    get(Bucket, "ListObjectVersions", &["versions"])
        .query(&["delimiter", "encoding-type", "key-marker", "max-keys", "prefix", "version-id-marker"])
        .headers(LISTED),
    get(Bucket, "ListObjectsV2", &["list-type"])
        .query(&[
            "continuation-token",
            "delimiter",
            "encoding-type",
            "fetch-owner",
            "max-keys",
            "prefix",
            "start-after",
        ])
        .headers(LISTED),
    get(Bucket, "ListObjects", &[])
        .query(&["delimiter", "encoding-type", "marker", "max-keys", "prefix"])
        .headers(LISTED),
    put(Bucket, "PutBucketAcl", &["acl"]).headers(&["x-amz-acl"]).xml(POLICY),
    put(Bucket, "PutBucketLifecycleConfiguration", &["lifecycle"])
        .headers(&["x-amz-transition-default-minimum-object-size"])
        .xml(LIFECYCLE),
    put(Bucket, "PutBucketTagging", &["tagging"]).xml(TAGGING),
    put(Bucket, "PutBucketVersioning", &["versioning"]).xml(&[
        "VersioningConfiguration",
        "VersioningConfiguration/Status",
        "VersioningConfiguration/MfaDelete",
    ]),
    put(Bucket, "PutObjectLockConfiguration", &["object-lock"]).xml(&[
        "ObjectLockConfiguration",
        "ObjectLockConfiguration/ObjectLockEnabled",
        "ObjectLockConfiguration/Rule",
        "ObjectLockConfiguration/Rule/DefaultRetention",
        "ObjectLockConfiguration/Rule/DefaultRetention/Days",
        "ObjectLockConfiguration/Rule/DefaultRetention/Mode",
        "ObjectLockConfiguration/Rule/DefaultRetention/Years",
    ]),
    put(Bucket, "CreateBucket", &[])
        .headers(&["x-amz-acl", "x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"])
        .xml(&["CreateBucketConfiguration", "CreateBucketConfiguration/LocationConstraint"]),
    post(Bucket, "DeleteObjects", &["delete"]).headers(&["x-amz-bypass-governance-retention"]).xml(&[
        "Delete",
        "Delete/Quiet",
        "Delete/Object",
        "Delete/Object/Key",
        "Delete/Object/VersionId",
    ]),
    delete(Bucket, "DeleteBucketLifecycle", &["lifecycle"]),
    delete(Bucket, "DeleteBucketTagging", &["tagging"]),
    delete(Bucket, "DeleteBucket", &[]),
    row("HEAD", Object, "HeadObject", &[]).query(READ_QUERY).headers(READ_HEADERS),
    get(Object, "GetObjectAttributes", &["attributes"]).query(&["versionId"]).headers(&[
        "x-amz-max-parts",
        "x-amz-object-attributes",
        "x-amz-part-number-marker",
    ]),
    get(Object, "GetObjectAcl", &["acl"]).query(&["versionId"]),
    get(Object, "GetObjectLegalHold", &["legal-hold"]).query(&["versionId"]),
    get(Object, "GetObjectRetention", &["retention"]).query(&["versionId"]),
    get(Object, "GetObjectTagging", &["tagging"]).query(&["versionId"]),
    get(Object, "ListParts", &["uploadId"]).query(&["max-parts", "part-number-marker"]),
    get(Object, "GetObject", &[]).query(READ_QUERY).headers(READ_HEADERS),
    put(Object, "PutObjectAcl", &["acl"]).query(&["versionId"]).headers(&["x-amz-acl"]).xml(POLICY),
    put(Object, "PutObjectLegalHold", &["legal-hold"])
        .query(&["versionId"])
        .xml(&["LegalHold", "LegalHold/Status"]),
    put(Object, "PutObjectRetention", &["retention"])
        .query(&["versionId"])
        .headers(&["x-amz-bypass-governance-retention"])
        .xml(&["Retention", "Retention/Mode", "Retention/RetainUntilDate"]),
    put(Object, "PutObjectTagging", &["tagging"]).query(&["versionId"]).xml(TAGGING),
    put(Object, "UploadPartCopy", &["partNumber", "uploadId"]).copies().headers(&[
        "x-amz-copy-source",
        "x-amz-copy-source-range",
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-unmodified-since",
        "x-amz-source-expected-bucket-owner",
    ]),
    put(Object, "UploadPart", &["partNumber", "uploadId"]).bytes(),
    put(Object, "CopyObject", &[]).copies().headers(&[
        "x-amz-copy-source",
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-unmodified-since",
        "x-amz-source-expected-bucket-owner",
        "x-amz-metadata-directive",
        "x-amz-tagging-directive",
        "x-amz-checksum-algorithm",
        "x-amz-acl",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-meta-",
        "content-disposition",
        "content-encoding",
        "content-language",
        "expires",
    ]),
    put(Object, "PutObject", &[]).bytes().headers(&[
        "x-amz-acl",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-meta-",
        "content-disposition",
        "content-encoding",
        "content-language",
        "expires",
        "if-match",
        "if-none-match",
    ]),
    post(Object, "CreateMultipartUpload", &["uploads"]).headers(&[
        "x-amz-acl",
        "x-amz-checksum-algorithm",
        "x-amz-checksum-type",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-meta-",
        "content-disposition",
        "content-encoding",
        "content-language",
        "expires",
    ]),
    post(Object, "RestoreObject", &["restore"]).query(&["versionId"]).xml(&[
        "RestoreRequest",
        "RestoreRequest/Days",
        "RestoreRequest/Tier",
        "RestoreRequest/GlacierJobParameters",
        "RestoreRequest/GlacierJobParameters/Tier",
    ]),
    post(Object, "CompleteMultipartUpload", &["uploadId"])
        .headers(&["x-amz-checksum-type", "x-amz-mp-object-size", "if-match", "if-none-match"])
        .xml(&[
            "CompleteMultipartUpload",
            "CompleteMultipartUpload/Part",
            "CompleteMultipartUpload/Part/PartNumber",
            "CompleteMultipartUpload/Part/ETag",
            "CompleteMultipartUpload/Part/ChecksumCRC32",
            "CompleteMultipartUpload/Part/ChecksumCRC32C",
            "CompleteMultipartUpload/Part/ChecksumCRC64NVME",
            "CompleteMultipartUpload/Part/ChecksumSHA1",
            "CompleteMultipartUpload/Part/ChecksumSHA256",
        ]),
    delete(Object, "DeleteObjectTagging", &["tagging"]).query(&["versionId"]),
    delete(Object, "AbortMultipartUpload", &["uploadId"]),
    delete(Object, "DeleteObject", &[]).query(&["versionId"]).headers(&["x-amz-bypass-governance-retention"]),
];

const LISTED: Names = &["x-amz-optional-object-attributes"];

const READ_QUERY: Names = &[
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "versionId",
];

const READ_HEADERS: Names = &[
    "x-amz-checksum-mode",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "if-range",
    "range",
    // The Java SDK asks for an MD5 behind the body, and looks into the answer whether it comes. It does not.
    "x-amz-te",
];

const TAGGING: Names = &[
    "Tagging",
    "Tagging/TagSet",
    "Tagging/TagSet/Tag",
    "Tagging/TagSet/Tag/Key",
    "Tagging/TagSet/Tag/Value",
];

const POLICY: Names = &[
    "AccessControlPolicy",
    "AccessControlPolicy/Owner",
    "AccessControlPolicy/Owner/DisplayName",
    "AccessControlPolicy/Owner/ID",
    "AccessControlPolicy/AccessControlList",
    "AccessControlPolicy/AccessControlList/Grant",
    "AccessControlPolicy/AccessControlList/Grant/Permission",
    "AccessControlPolicy/AccessControlList/Grant/Grantee",
    "AccessControlPolicy/AccessControlList/Grant/Grantee/DisplayName",
    "AccessControlPolicy/AccessControlList/Grant/Grantee/EmailAddress",
    "AccessControlPolicy/AccessControlList/Grant/Grantee/ID",
    "AccessControlPolicy/AccessControlList/Grant/Grantee/URI",
];

/// Those that are refused with words of their own are here too: see `lifecycle`.
const LIFECYCLE: Names = &[
    "LifecycleConfiguration",
    "LifecycleConfiguration/Rule",
    "LifecycleConfiguration/Rule/ID",
    "LifecycleConfiguration/Rule/Status",
    "LifecycleConfiguration/Rule/Prefix",
    "LifecycleConfiguration/Rule/Filter",
    "LifecycleConfiguration/Rule/Filter/Prefix",
    "LifecycleConfiguration/Rule/Filter/ObjectSizeGreaterThan",
    "LifecycleConfiguration/Rule/Filter/ObjectSizeLessThan",
    "LifecycleConfiguration/Rule/Filter/Tag",
    "LifecycleConfiguration/Rule/Filter/Tag/Key",
    "LifecycleConfiguration/Rule/Filter/Tag/Value",
    "LifecycleConfiguration/Rule/Filter/And",
    "LifecycleConfiguration/Rule/Filter/And/Prefix",
    "LifecycleConfiguration/Rule/Filter/And/ObjectSizeGreaterThan",
    "LifecycleConfiguration/Rule/Filter/And/ObjectSizeLessThan",
    "LifecycleConfiguration/Rule/Filter/And/Tag",
    "LifecycleConfiguration/Rule/Filter/And/Tag/Key",
    "LifecycleConfiguration/Rule/Filter/And/Tag/Value",
    "LifecycleConfiguration/Rule/Transition",
    "LifecycleConfiguration/Rule/Transition/Date",
    "LifecycleConfiguration/Rule/Transition/Days",
    "LifecycleConfiguration/Rule/Transition/StorageClass",
    "LifecycleConfiguration/Rule/Expiration",
    "LifecycleConfiguration/Rule/Expiration/Date",
    "LifecycleConfiguration/Rule/Expiration/Days",
    "LifecycleConfiguration/Rule/Expiration/ExpiredObjectDeleteMarker",
    "LifecycleConfiguration/Rule/AbortIncompleteMultipartUpload",
    "LifecycleConfiguration/Rule/AbortIncompleteMultipartUpload/DaysAfterInitiation",
    "LifecycleConfiguration/Rule/NoncurrentVersionExpiration",
    "LifecycleConfiguration/Rule/NoncurrentVersionExpiration/NoncurrentDays",
    "LifecycleConfiguration/Rule/NoncurrentVersionExpiration/NewerNoncurrentVersions",
    "LifecycleConfiguration/Rule/NoncurrentVersionTransition",
    "LifecycleConfiguration/Rule/NoncurrentVersionTransition/NoncurrentDays",
    "LifecycleConfiguration/Rule/NoncurrentVersionTransition/StorageClass",
    "LifecycleConfiguration/Rule/NoncurrentVersionTransition/NewerNoncurrentVersions",
];
