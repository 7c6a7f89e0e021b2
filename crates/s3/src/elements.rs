//! Documents of XML: every element and every attribute is known, or the document is refused. s3s itself skips
//! what it does not know in some places, and everywhere CDATA and document types.

use std::cell::RefCell;

use s3s::xml::{DeError, DeResult, Deserializer};
use s3s::{S3Error, S3Result, s3_error};

/// Elements of S3 that are known and not offered; others are no elements of S3 at all.
const NOT_OFFERED: [&str; 18] = [
    "CreateBucketConfiguration/Tags",
    "CreateBucketConfiguration/Location",
    "CreateBucketConfiguration/Bucket",
    "Delete/Object/ETag",
    "Delete/Object/LastModifiedTime",
    "Delete/Object/Size",
    "CompleteMultipartUpload/Part/ChecksumXXHASH64",
    "CompleteMultipartUpload/Part/ChecksumXXHASH3",
    "CompleteMultipartUpload/Part/ChecksumXXHASH128",
    "CompleteMultipartUpload/Part/ChecksumSHA512",
    "CompleteMultipartUpload/Part/ChecksumMD5",
    "ObjectLockConfiguration/Rule/DefaultRetention/DefaultEventHold",
    "Retention/EventHold",
    "Retention/EventHoldDuration",
    "RestoreRequest/Description",
    "RestoreRequest/OutputLocation",
    "RestoreRequest/SelectParameters",
    "RestoreRequest/Type",
];

/// Deepest element that is looked at: no document of S3 has more.
const DEPTH_MAX: usize = 8;

fn malformed(why: &str) -> S3Error {
    s3_error!(MalformedXML, "the document is not one of this operation: {why}")
}

/// Refuses a document with anything but the `known` elements.
///
/// # Errors
/// `MalformedXML`; `NotImplemented` for elements of S3 that are not offered.
pub(crate) fn check(operation: &str, known: &[&str], body: &[u8]) -> S3Result<()> {
    // Outside of comments `<!` begins CDATA or a document type only; both are skipped by s3s, and the first
    // is text: `<Key>a<![CDATA[b]]></Key>` would be the key `a`.
    let has = |mark: &[u8]| body.windows(mark.len()).any(|window| window == mark);
    if has(b"<![") || has(b"<!D") {
        return Err(malformed("CDATA and document types are not supported"));
    }
    // s3s speaks of the kind of an error only.
    let why = RefCell::new(None);
    let mut path = String::new();
    let mut document = Deserializer::new(body);
    let read = level(&mut document, &mut path, 0, known, &why).and_then(|()| document.expect_eof());
    match (read, why.into_inner()) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(Unknown::Element(path))) if NOT_OFFERED.contains(&path.as_str()) => {
            Err(s3_error!(NotImplemented, "the element {path} of {operation} is not supported here"))
        }
        (Err(_), Some(Unknown::Element(path))) => Err(malformed(&format!("it has no element {path}"))),
        (Err(_), Some(Unknown::Attribute(name))) => Err(malformed(&format!("it has no attribute {name}"))),
        (Err(error), None) => Err(malformed(&error.to_string())),
    }
}

enum Unknown {
    Element(String),
    Attribute(String),
}

/// Looks at all elements of one level, and at those below them.
fn level(
    document: &mut Deserializer<'_>,
    path: &mut String,
    depth: usize,
    known: &[&str],
    why: &RefCell<Option<Unknown>>,
) -> DeResult {
    let above = path.len();
    document.for_each_element_with_start(|document, name, start| {
        path.truncate(above);
        if above > 0 {
            path.push('/');
        }
        path.push_str(&String::from_utf8_lossy(name));
        if depth == DEPTH_MAX || !known.contains(&path.as_str()) {
            why.replace(Some(Unknown::Element(path.clone())));
            return Err(DeError::UnexpectedTagName);
        }
        for attribute in start.attributes() {
            let Ok(attribute) = attribute else { return Err(DeError::InvalidAttribute) };
            let name = attribute.key.as_ref();
            // Names of namespaces; and what kind a grantee is, which s3s reads.
            if !(name == b"xmlns" || name.starts_with(b"xmlns:") || name == b"xsi:type") {
                why.replace(Some(Unknown::Attribute(String::from_utf8_lossy(name).into_owned())));
                return Err(DeError::UnexpectedAttributeName);
            }
        }
        level(document, path, depth + 1, known, why)
    })?;
    path.truncate(above);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_and_attribute_is_known_or_refused() {
        let known = ["Tagging", "Tagging/TagSet", "Tagging/TagSet/Tag", "Tagging/TagSet/Tag/Key"];
        let code = |body: &str| {
            let read = check("PutObjectTagging", &known, body.as_bytes());
            read.map_or_else(|error| error.code().as_str().to_owned(), |()| "ok".to_owned())
        };
        for good in [
            "<Tagging/>",
            "<?xml version='1.0'?><!-- ! --><Tagging><TagSet/></Tagging>",
            "<Tagging xmlns='http://s3.amazonaws.com/doc/2006-03-01/'> <TagSet> \
             <Tag><Key>a&amp;</Key></Tag></TagSet>\
             </Tagging>",
        ] {
            assert_eq!(code(good), "ok", "{good}");
        }
        for bad in [
            "<Tags/>",
            "<Tagging><Tag/></Tagging>",
            "<Tagging><TagSet><Tag><Key>a</Key><Color>b</Color></Tag></TagSet></Tagging>",
            "<Tagging><TagSet><Tag><Key>a<b/></Key></Tag></TagSet></Tagging>",
            "<Tagging><TagSet><Tag><Key>a<![CDATA[b]]></Key></Tag></TagSet></Tagging>",
            "<!DOCTYPE Tagging><Tagging/>",
            "<Tagging mode='x'/>",
            "<Tagging><TagSet></Tagging>",
            "<Tagging/><Other/>",
            "<x:Tagging/>",
            "<Tagging>",
        ] {
            assert_eq!(code(bad), "MalformedXML", "{bad}");
        }
        let tags = "<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>";
        let refused = check("CreateBucket", &["CreateBucketConfiguration"], tags.as_bytes());
        assert_eq!(refused.expect_err("tags").code().as_str(), "NotImplemented");
    }
}
