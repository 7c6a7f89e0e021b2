//! Answers: what went well, refusals in words, conditions of RFC 4918 in XML.

use archive::{ArchiveError, WhyNoLock};
use bytes::Bytes;
use entrance::Refusal;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use transfer::{Fault, ReplyBody};

use crate::address::href;
use crate::page::refusal_page;
use crate::xml::XML_TYPE;

/// The answer of a method, or why it is refused.
pub(crate) type Answer = Result<Response<ReplyBody>, Failure>;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// In words.
    Refused(Refusal),
    /// A precondition or postcondition that RFC 4918, 16 has a name for, with what stands in its element.
    Condition { status: StatusCode, name: &'static str, inner: String },
}

impl Failure {
    pub(crate) fn condition(status: StatusCode, name: &'static str) -> Self {
        Failure::Condition { status, name, inner: String::new() }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Failure::Refused(refusal) => refusal.status(),
            Failure::Condition { status, .. } => *status,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        match error {
            // RFC 4918 has names for these two.
            ArchiveError::Locked { ref root, .. } => Failure::Condition {
                status: StatusCode::LOCKED,
                name: "lock-token-submitted",
                inner: format!("<D:href>{}</D:href>", href(root, false)),
            },
            ArchiveError::NoLock { why: WhyNoLock::Other { ref root, .. }, .. } => Failure::Condition {
                status: StatusCode::LOCKED,
                name: "no-conflicting-lock",
                inner: format!("<D:href>{}</D:href>", href(root, false)),
            },
            error => Failure::Refused(error.into()),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Refused(fault.into())
    }
}

/// An answer with this body.
pub(crate) fn with_body(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<ReplyBody> {
    let body = body.into();
    let mut response = Response::new(whole(body.clone()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    response
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = status;
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(0));
    }
    response
}

/// A body that is there already.
pub(crate) fn whole(bytes: Bytes) -> ReplyBody {
    ReplyBody::new(Full::new(bytes).map_err(|never| match never {}))
}

/// What a client is told that is refused: a page for a browser, RFC 9457 for everybody else. `HEAD` has no
/// body.
pub(crate) fn refused(failure: Failure, asked: &HeaderMap, is_head: bool) -> Response<ReplyBody> {
    let mut response = match failure {
        Failure::Condition { status, name, inner } => {
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">\
                 <D:{name}>{inner}</D:{name}></D:error>\n"
            );
            with_body(status, XML_TYPE, body)
        }
        Failure::Refused(refusal) => {
            let (status, headers, body) = refusal.into_answer();
            let mut response = if is_browser(asked) {
                let mut page =
                    with_body(status, "text/html; charset=utf-8", refusal_page(status, &headers, &body));
                page.headers_mut().insert(CONTENT_SECURITY_POLICY, PAGE_POLICY);
                page
            } else {
                with_body(status, "application/problem+json", body)
            };
            for (name, value) in &headers {
                if name != CONTENT_TYPE {
                    response.headers_mut().insert(name.clone(), value.clone());
                }
            }
            if status == StatusCode::UNAUTHORIZED {
                // Browsers and file managers know this one alone: the name of a key's owner, and the key.
                response
                    .headers_mut()
                    .append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kist\""));
            }
            response
        }
    };
    if is_head {
        *response.body_mut() = whole(Bytes::new());
    }
    response
}

/// A page has its own style and nothing else.
pub(crate) const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
);

/// Whether whoever asks shows pages to people.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().windows(9).any(|part| part == b"text/html"))
}
