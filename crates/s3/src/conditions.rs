//! Conditions of reads on what is stored, in the order of RFC 9110, 13.2.2.

use base::Timestamp;
use s3s::dto::{self, ETagCondition};
use s3s::{S3Error, S3Result, s3_error};

use crate::answers::{http_time, seconds};
use crate::etag;

/// The conditions of a read.
#[derive(Clone, Default)]
pub(crate) struct Conditions {
    pub matches: Option<ETagCondition>,
    pub none_matches: Option<ETagCondition>,
    pub modified_since: Option<dto::Timestamp>,
    pub unmodified_since: Option<dto::Timestamp>,
}

impl Conditions {
    /// Whether an object with this ETag and time is to be given.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NotModified` with the ETag.
    pub(crate) fn check(&self, tag: &str, modified: Timestamp) -> S3Result<()> {
        let modified_after = |limit: &dto::Timestamp| modified.0.div_euclid(1_000_000_000) > seconds(limit);
        match (&self.matches, &self.unmodified_since) {
            (Some(condition), _) if !etag::names(condition, tag, false) => return Err(failed("If-Match")),
            (None, Some(limit)) if modified_after(limit) => return Err(failed("If-Unmodified-Since")),
            _ => {}
        }
        match (&self.none_matches, &self.modified_since) {
            (Some(condition), _) if etag::names(condition, tag, true) => Err(not_modified(tag, modified)),
            (None, Some(limit)) if !modified_after(limit) => Err(not_modified(tag, modified)),
            _ => Ok(()),
        }
    }
}

/// A condition of a request does not hold.
pub(crate) fn failed(condition: &str) -> S3Error {
    s3_error!(PreconditionFailed, "the condition {condition} does not hold")
}

fn not_modified(tag: &str, modified: Timestamp) -> S3Error {
    let mut headers = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::try_from(format!("\"{tag}\"")) {
        headers.insert(http::header::ETAG, value);
    }
    if let Some(value) = http_time(modified).and_then(|text| http::HeaderValue::try_from(text).ok()) {
        headers.insert(http::header::LAST_MODIFIED, value);
    }
    let mut error = s3_error!(NotModified);
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::dto::ETag;

    #[test]
    fn conditions_are_weighed_in_order() {
        let at = |seconds: i64| crate::answers::timestamp(Timestamp(seconds * 1_000_000_000));
        let tag = |value: &str| Some(ETagCondition::ETag(ETag::Strong(value.to_owned())));
        let weak = Some(ETagCondition::ETag(ETag::Weak("a".to_owned())));
        let any = Some(ETagCondition::Any);
        let none = Conditions::default;
        let table = [
            (none(), "ok"),
            (Conditions { matches: tag("a"), ..none() }, "ok"),
            (Conditions { matches: any.clone(), ..none() }, "ok"),
            (Conditions { matches: tag("b"), ..none() }, "PreconditionFailed"),
            (Conditions { matches: weak.clone(), ..none() }, "PreconditionFailed"),
            (Conditions { matches: tag("a"), unmodified_since: Some(at(1)), ..none() }, "ok"),
            (Conditions { unmodified_since: Some(at(99)), ..none() }, "PreconditionFailed"),
            (Conditions { unmodified_since: Some(at(100)), ..none() }, "ok"),
            (Conditions { none_matches: tag("a"), ..none() }, "NotModified"),
            (Conditions { none_matches: weak, ..none() }, "NotModified"),
            (Conditions { none_matches: any, ..none() }, "NotModified"),
            (Conditions { none_matches: tag("b"), ..none() }, "ok"),
            (Conditions { none_matches: tag("b"), modified_since: Some(at(100)), ..none() }, "ok"),
            (Conditions { modified_since: Some(at(100)), ..none() }, "NotModified"),
            (Conditions { modified_since: Some(at(99)), ..none() }, "ok"),
            (Conditions { matches: tag("b"), none_matches: tag("a"), ..none() }, "PreconditionFailed"),
        ];
        for (at, (conditions, expected)) in table.into_iter().enumerate() {
            let outcome = conditions.check("a", Timestamp(100_500_000_000));
            let word = outcome.map_or_else(|error| error.code().as_str().to_owned(), |()| "ok".to_owned());
            assert_eq!(word, expected, "row {at}");
        }
    }
}
