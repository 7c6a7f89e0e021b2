//! GetObjectAttributes.

use catalogue::Attributes;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{find, storage_class, sums, sums_of_part, timestamp};
use crate::context::Context;
use crate::{keys, markers, parts};

/// What can be asked for.
const ATTRIBUTES: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];
/// Most parts of one answer.
const PARTS_MAX: i32 = 1000;

pub(crate) async fn get_object_attributes(
    cx: &Context,
    req: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let version = input.version_id.clone();
    if input.object_attributes.is_empty() {
        return Err(s3_error!(InvalidArgument, "x-amz-object-attributes is missing"));
    }
    // One header may name several, which s3s does not take apart.
    let wanted = input.object_attributes.iter().flat_map(|names| names.as_str().split(',')).map(str::trim);
    let wanted: Vec<&str> = wanted.filter(|name| !name.is_empty()).collect();
    if let Some(name) = wanted.iter().find(|name| !ATTRIBUTES.contains(name)) {
        return Err(s3_error!(InvalidArgument, "there is no attribute '{name}' of objects"));
    }
    let known = cx
        .call(&req.extensions, move |guest| {
            if place.is_directory {
                markers::find(guest, &place)
            } else {
                find(guest, &place, version.as_deref())
            }
        })
        .await?;
    let wants = |name: &str| wanted.contains(&name);
    let attributes = &known.file.attributes;
    let checksum = Some(sums(attributes)).filter(|sums| wants("Checksum") && sums.checksum_type.is_some());
    let parts = parts::sizes(attributes).filter(|_| wants("ObjectParts"));
    let class = storage_class(&cx.settings, &known.file.class, known.file.locality);
    let class = class.unwrap_or_else(|| StorageClass::from_static(StorageClass::STANDARD));
    Ok(S3Response::new(GetObjectAttributesOutput {
        checksum,
        e_tag: wants("ETag").then(|| known.e_tag()),
        last_modified: Some(timestamp(known.file.created)),
        object_parts: parts.map(|sizes| object_parts(&sizes, attributes, &input)),
        object_size: i64::try_from(known.file.size.0).ok().filter(|_| wants("ObjectSize")),
        storage_class: wants("StorageClass").then_some(class),
        version_id: known.version(),
        ..GetObjectAttributesOutput::default()
    }))
}

/// A page of the parts that an object was put in.
fn object_parts(
    sizes: &[u64],
    attributes: &Attributes,
    input: &GetObjectAttributesInput,
) -> GetObjectAttributesParts {
    let after = input.part_number_marker.unwrap_or(0).max(0);
    let most = input.max_parts.unwrap_or(PARTS_MAX).clamp(0, PARTS_MAX);
    let sizes = sizes.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX));
    let all: Vec<(i32, i64)> = (1..).zip(sizes).collect();
    let rest = all.iter().filter(|(number, _)| *number > after);
    let page: Vec<_> = rest.clone().take(usize::try_from(most).unwrap_or(0)).collect();
    let next = page.last().map(|(number, _)| *number);
    GetObjectAttributesParts {
        is_truncated: Some(rest.count() > page.len()),
        max_parts: Some(most),
        next_part_number_marker: next,
        part_number_marker: Some(after),
        parts: Some(
            page.into_iter()
                .map(|(number, size)| {
                    let sums = u16::try_from(*number).map(|number| sums_of_part(attributes, number));
                    let sums = sums.unwrap_or_default();
                    ObjectPart {
                        part_number: Some(*number),
                        size: Some(*size),
                        checksum_crc32: sums.checksum_crc32,
                        checksum_crc32c: sums.checksum_crc32c,
                        checksum_crc64nvme: sums.checksum_crc64nvme,
                        checksum_sha1: sums.checksum_sha1,
                        checksum_sha256: sums.checksum_sha256,
                    }
                })
                .collect(),
        ),
        total_parts_count: i32::try_from(all.len()).ok(),
    }
}
