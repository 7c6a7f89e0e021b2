//! Copies of objects; no byte is moved if the source is in the pool and not small.

use archive::{CloneOptions, Hold, Versioning, Which};
use catalogue::Attributes;
use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective, TaggingDirective};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use transfer::Kind;

use crate::answers::{Known, bucket, find, sums, timestamp};
use crate::conditions::{Conditions, failed};
use crate::context::{Context, Failure, Guest};
use crate::copy_source;
use crate::keys::{self, Place};
use crate::markers;
use crate::metadata::{self, Kept, META, TAG};
use crate::put::class;
use crate::settings::S3Settings;

/// The headers that are kept, for what a REPLACE takes away.
const HEADERS: [&str; 6] = [
    metadata::TYPE,
    metadata::CACHE_CONTROL,
    metadata::DISPOSITION,
    metadata::ENCODING,
    metadata::LANGUAGE,
    metadata::EXPIRES,
];

/// A copy that is asked for.
struct Asked {
    from: Place,
    version: Option<String>,
    to: Place,
    conditions: Conditions,
    /// What takes the place of the source's metadata.
    metadata: Option<Vec<(String, Vec<u8>)>>,
    /// What takes the place of the source's tags.
    tags: Option<Vec<(String, Vec<u8>)>>,
    class: Option<String>,
    hold: Option<Hold>,
    /// What it keeps if its legal hold is said to be off.
    legal_off: Option<(String, Vec<u8>)>,
    /// The checksum that the copy is to have.
    algorithm: Option<Kind>,
    /// Something is said of the copy that the source does not have.
    is_change: bool,
}

/// What is told of a copy.
struct Done {
    copy: Known,
    source_version: Option<String>,
    version: Option<String>,
}

fn is_replace(directive: Option<&str>) -> S3Result<bool> {
    match directive {
        None | Some(MetadataDirective::COPY) => Ok(false),
        Some(MetadataDirective::REPLACE) => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "a directive is COPY or REPLACE")),
    }
}

/// S3 drops what is said of a copy whose directive is COPY; here it is refused, since whoever sends it relies
/// on it. `Content-Type` and `Cache-Control` are put into every request by libraries of HTTP: they are
/// dropped.
fn check_replaced(input: &CopyObjectInput, kept: &Kept<'_>, replaces: bool, retags: bool) -> S3Result<()> {
    let has_metadata = input.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty());
    let coding = |coding: &str| ["aws-chunked", "identity", ""].contains(&coding.trim());
    let has_coding = kept.encoding.is_some_and(|codings| !codings.split(',').all(coding));
    for (is_said, name, directive) in [
        (has_metadata && !replaces, "x-amz-meta-*", "x-amz-metadata-directive"),
        (kept.disposition.is_some() && !replaces, "Content-Disposition", "x-amz-metadata-directive"),
        (has_coding && !replaces, "Content-Encoding", "x-amz-metadata-directive"),
        (kept.language.is_some() && !replaces, "Content-Language", "x-amz-metadata-directive"),
        (kept.expires.is_some() && !replaces, "Expires", "x-amz-metadata-directive"),
        (input.tagging.is_some() && !retags, "x-amz-tagging", "x-amz-tagging-directive"),
    ] {
        if is_said {
            return Err(s3_error!(
                InvalidRequest,
                "a copy has the {name} of its source unless {directive} is REPLACE: nothing was copied"
            ));
        }
    }
    Ok(())
}

impl Asked {
    fn of(cx: &Context, req: &S3Request<CopyObjectInput>) -> S3Result<Self> {
        let input = &req.input;
        if ["if-match", "if-none-match"].iter().any(|name| req.headers.contains_key(*name)) {
            return Err(s3_error!(
                NotImplemented,
                "copies with conditions on their target are not supported"
            ));
        }
        let (from, version) = copy_source::of(&req.extensions)?;
        let algorithm = match &input.checksum_algorithm {
            None => None,
            Some(name) => Some(Kind::of_name(name.as_str()).ok_or_else(|| {
                let name = name.as_str();
                s3_error!(InvalidRequest, "the checksum algorithm '{name}' is not known")
            })?),
        };
        let replaces = is_replace(input.metadata_directive.as_ref().map(MetadataDirective::as_str))?;
        let kept = Kept {
            content_type: input.content_type.as_deref(),
            cache_control: input.cache_control.as_deref(),
            disposition: input.content_disposition.as_deref(),
            encoding: input.content_encoding.as_deref(),
            language: input.content_language.as_deref(),
            expires: req.headers.get("expires").and_then(|value| value.to_str().ok()),
            metadata: input.metadata.as_ref(),
        };
        let retags = is_replace(input.tagging_directive.as_ref().map(TaggingDirective::as_str))?;
        let tags = metadata::tags_of_header(input.tagging.as_deref().unwrap_or_default())?;
        check_replaced(input, &kept, replaces, retags)?;
        Ok(Asked {
            from,
            version,
            to: keys::place(&input.bucket, &input.key)?,
            conditions: Conditions {
                matches: input.copy_source_if_match.clone(),
                none_matches: input.copy_source_if_none_match.clone(),
                modified_since: input.copy_source_if_modified_since.clone(),
                unmodified_since: input.copy_source_if_unmodified_since.clone(),
            },
            metadata: replaces.then(|| kept.xattrs()).transpose()?,
            tags: retags.then(|| metadata::tag_xattrs(tags).collect()),
            class: class(cx, input.storage_class.as_ref().map(|class| class.as_str()))?,
            hold: crate::lock::hold_of_put(cx, &req.headers)?,
            legal_off: crate::lock::off_of_put(&req.headers),
            algorithm,
            is_change: replaces || retags || input.storage_class.is_some(),
        })
    }

    /// The attributes of the copy: the source's, but for what is replaced. ETag and checksums stay, since the
    /// bytes do.
    fn attributes(&self, source: &Attributes, owner: &str) -> Attributes {
        let is_metadata = |name: &str| name.starts_with(META) || HEADERS.contains(&name);
        let is_replaced = |name: &str| {
            (self.metadata.is_some() && is_metadata(name))
                || (self.tags.is_some() && name.starts_with(TAG))
                || name == metadata::LEGAL_HOLD
        };
        let kept = source.xattrs.iter().filter(|(name, _)| !is_replaced(name)).cloned();
        let new = self.metadata.iter().chain(&self.tags).flatten().cloned();
        let new = new.chain(self.legal_off.clone());
        Attributes { xattrs: kept.chain(new).collect(), owner: owner.to_owned(), ..source.clone() }
    }

    fn perform(self, guest: &Guest, settings: &S3Settings) -> Result<Done, Failure> {
        let versioning = bucket(guest, &self.to.bucket)?.settings.versioning;
        let source = match self.from.is_directory {
            true => markers::find(guest, &self.from)?,
            false => find(guest, &self.from, self.version.as_deref())?,
        };
        self.conditions.check(&source.tag(), source.file.created).map_err(as_precondition)?;
        crate::glacier::check_readable(settings, &source)?;
        self.check_algorithm(&source.file.attributes)?;
        let who = guest.caller.name.clone();
        let attributes = self.attributes(&source.file.attributes, &who);
        if self.to.is_directory || self.from.is_directory {
            return self.copy_marker(guest, source, attributes);
        }
        if self.hold.is_some() {
            crate::lock::check_bucket(guest, &self.to.bucket)?;
        }
        if self.from.path == self.to.path && self.version.is_none() && !self.is_change {
            let message = "a copy onto itself changes metadata, tags or the storage class";
            return Err(Failure(s3_error!(InvalidRequest, "{message}")));
        }
        let options = CloneOptions { attributes: Some(attributes), class: self.class, hold: self.hold, who };
        // The very version whose conditions were checked.
        let which = Which::Version(source.file.file);
        let done = guest.engine.clone_object(&self.from.path, which, &self.to.path, options)?;
        let version = match versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(keys::version_text(done.file, false)),
            Versioning::Suspended => Some(keys::version_text(done.file, true)),
        };
        let copy = guest.engine.object(&self.to.path, Which::Version(done.file))?;
        let copy = Known { file: copy.file.clone(), object: Some(copy), named: false };
        Ok(Done { copy, source_version: source.version(), version })
    }

    /// No byte is read for a copy: it has the checksum of its source, and can have no other one.
    fn check_algorithm(&self, source: &Attributes) -> S3Result<()> {
        let Some(kind) = self.algorithm else { return Ok(()) };
        let name = kind.name();
        let mut lines = metadata::text(source, metadata::SUMS).unwrap_or_default().lines();
        let is_it = |line: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')) && line.ends_with(" full")
        };
        if lines.any(is_it) {
            return Ok(());
        }
        Err(s3_error!(
            NotImplemented,
            "a copy has the checksums of its source, which has no {name} of all its bytes"
        ))
    }

    fn copy_marker(self, guest: &Guest, source: Known, mut attributes: Attributes) -> Result<Done, Failure> {
        if !(self.to.is_directory && source.file.size.0 == 0) {
            let message = "a key that ends with '/' is a directory here and has no bytes";
            return Err(Failure(s3_error!(InvalidArgument, "{message}")));
        }
        if self.hold.is_some() {
            return Err(Failure(s3_error!(NotImplemented, "keys that end with '/' are not held")));
        }
        attributes.xattrs.retain(|(name, _)| name != metadata::MARKER && name != metadata::ETAG);
        attributes.xattrs.push((metadata::MARKER.to_owned(), Vec::new()));
        attributes.mode = 0o755;
        markers::put(guest, &self.to, attributes)?;
        let copy = markers::find(guest, &self.to)?;
        Ok(Done { copy, source_version: None, version: None })
    }
}

/// A condition on the source of a copy that does not hold is an error, also where a read would be spared.
fn as_precondition(error: S3Error) -> S3Error {
    match error.code() {
        S3ErrorCode::NotModified => failed("on the source"),
        _ => error,
    }
}

pub(crate) async fn copy_object(
    cx: &Context,
    req: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let asked = Asked::of(cx, &req)?;
    let settings = cx.settings.clone();
    let done = cx.call(&req.extensions, move |guest| asked.perform(guest, &settings)).await?;
    let sums = sums(&done.copy.file.attributes);
    let result = CopyObjectResult {
        checksum_crc32: sums.checksum_crc32,
        checksum_crc32c: sums.checksum_crc32c,
        checksum_crc64nvme: sums.checksum_crc64nvme,
        checksum_sha1: sums.checksum_sha1,
        checksum_sha256: sums.checksum_sha256,
        checksum_type: sums.checksum_type,
        e_tag: Some(done.copy.e_tag()),
        last_modified: Some(timestamp(done.copy.file.created)),
    };
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: done.source_version,
        version_id: done.version,
        ..CopyObjectOutput::default()
    }))
}
