//! What of a file is sent: decided from the file and the conditions and ranges of the request.

use archive::FileStat;
use base::Timestamp;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, StatusCode};

use crate::headers::{Range, http_date, names_tag, parse_http_date, range};
use crate::problem::{Kind, Refusal, unsatisfied};

/// What is sent: decided from the file and the request's conditions.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The status of the answer.
    pub status: StatusCode,
    /// Where the part begins, if it is one.
    pub part: Option<u64>,
    /// Bytes of the body.
    pub length: u64,
}

impl Plan {
    /// RFC 9110, 13.2.2: `If-Match` or `If-Unmodified-Since`, `If-None-Match` or `If-Modified-Since`,
    /// `If-Range`,
    /// `Range`. `ranged`: whether `Range` counts, as it does for `GET` alone.
    ///
    /// # Errors
    /// [`Kind::Precondition`], [`Kind::Range`].
    pub fn new(stat: &FileStat, headers: &HeaderMap, ranged: bool) -> Result<Plan, Refusal> {
        let size = stat.size.0;
        let tag = entity_tag(stat);
        let changed = Plan::check_current(stat, &tag, headers)?;
        if !changed {
            return Ok(Plan { status: StatusCode::NOT_MODIFIED, part: None, length: 0 });
        }
        let whole = Plan { status: StatusCode::OK, part: None, length: size };
        let mut ranges = headers.get_all(RANGE).iter();
        let asked = match (ranges.next(), ranges.next()) {
            (Some(value), None) if ranged && is_of_this(headers, &tag) => range(value.as_bytes(), size),
            _ => Range::Whole,
        };
        match asked {
            Range::Whole => Ok(whole),
            Range::Part { offset, length } => {
                Ok(Plan { status: StatusCode::PARTIAL_CONTENT, part: Some(offset), length })
            }
            Range::Unsatisfiable => {
                let detail = format!("the range touches no byte of {}, which has {size} bytes", stat.path);
                Err(Refusal::new(Kind::Range, detail).with(CONTENT_RANGE, unsatisfied(size)))
            }
        }
    }

    /// Whether the client lacks this version; an error if it asked for another one.
    fn check_current(stat: &FileStat, tag: &str, headers: &HeaderMap) -> Result<bool, Refusal> {
        let named = |name: &HeaderName, weak| {
            let mut values = headers.get_all(name).iter().peekable();
            values.peek().is_some().then(|| values.any(|value| names_tag(value.as_bytes(), tag, weak)))
        };
        // A date that is none is passed over, as RFC 9110 has it.
        let date = |name: &HeaderName| headers.get(name).and_then(|value| parse_http_date(value.as_bytes()));
        let after = |limit: Timestamp| {
            stat.attributes.mtime.0.div_euclid(1_000_000_000) > limit.0.div_euclid(1_000_000_000)
        };
        match (named(&IF_MATCH, false), date(&IF_UNMODIFIED_SINCE)) {
            (Some(false), _) => {
                let detail = format!("{} is another version now: its entity tag is {tag}", stat.path);
                return Err(Refusal::new(Kind::Precondition, detail));
            }
            (None, Some(limit)) if after(limit) => {
                let detail = format!("{} was modified since the time in If-Unmodified-Since", stat.path);
                return Err(Refusal::new(Kind::Precondition, detail));
            }
            _ => {}
        }
        Ok(match (named(&IF_NONE_MATCH, true), date(&IF_MODIFIED_SINCE)) {
            (Some(is_known), _) => !is_known,
            (None, Some(limit)) => after(limit),
            (None, None) => true,
        })
    }

    /// The headers that every answer with a file has: entity tag, length, range, time.
    #[must_use]
    pub fn headers(&self, stat: &FileStat) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut insert = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        insert(ETAG, entity_tag(stat));
        insert(ACCEPT_RANGES, "bytes".to_owned());
        if self.status != StatusCode::NOT_MODIFIED {
            insert(CONTENT_LENGTH, self.length.to_string());
            insert(HeaderName::from_static("x-content-type-options"), "nosniff".to_owned());
        }
        if let Some(offset) = self.part {
            let last = offset + self.length - 1;
            insert(CONTENT_RANGE, format!("bytes {offset}-{last}/{}", stat.size.0));
        }
        if let Some(date) = http_date(stat.attributes.mtime) {
            headers.insert(LAST_MODIFIED, date);
        }
        headers
    }
}

/// The entity tag of a version: its number.
#[must_use]
pub fn entity_tag(stat: &FileStat) -> String {
    format!("\"{}\"", stat.file)
}

/// Whether a range is asked of this version (`If-Range`).
#[must_use]
pub fn is_of_this(headers: &HeaderMap, tag: &str) -> bool {
    headers.get(IF_RANGE).is_none_or(|value| value.as_bytes().trim_ascii() == tag.as_bytes())
}
