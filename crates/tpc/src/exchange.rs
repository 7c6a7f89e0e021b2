//! One request and its answer, over redirects.

use std::error::Error as _;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, IF_MATCH,
    IF_NONE_MATCH, LOCATION, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::client::Session;
use crate::connect::{Line, OutBody, no_answer};
use crate::connections::IfFull;
use crate::digests::{WANT_DIGEST, WANT_REPR_DIGEST};
use crate::error::Error;
use crate::push::Outgoing;
use crate::target::Target;

const AGENT: &str = concat!("kist-tpc/", env!("CARGO_PKG_VERSION"));

/// Headers of one connection or of framing, and those that this crate sets: what a client of a copy says of
/// them is not sent on.
const OWN: [HeaderName; 13] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    RANGE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What another server than the one that the client of the copy named gets of its headers, behind a redirect:
/// no credential is among them, whatever it is called. XRootD, dCache and StoRM keep `Authorization` back
/// likewise (libcurl since 7.58 unless a site asks for more, `http.auth tpc fcreds`). Servers that redirect
/// to data servers put what those need into the URL. Beside these go the headers that this crate sets.
const HARMLESS: [HeaderName; 9] = [
    ACCEPT,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    IF_MATCH,
    IF_NONE_MATCH,
    RANGE,
    HeaderName::from_static("scitag"),
    HeaderName::from_static("archivemetadata"),
];

/// An answer that is no redirect.
pub(crate) struct Answer {
    pub response: Response<Incoming>,
    /// To be kept as long as the body is read.
    pub line: Line,
    /// Who answered.
    pub target: Target,
}

impl Session {
    /// Asks, and asks again where redirects lead. Each hop is checked like the first one.
    pub(crate) async fn exchange(
        &self,
        method: &Method,
        first: &Target,
        headers: &HeaderMap,
        if_full: IfFull,
        outgoing: Option<&Outgoing>,
    ) -> Result<Answer, Error> {
        let redirects_max = self.config.settings.limits.redirects;
        let mut target = first.clone();
        for _ in 0..=redirects_max {
            let line = self.connect(&target, if_full).await?;
            let answer = self.ask(line, method, first, target, headers, outgoing).await?;
            let to = match answer.response.status().as_u16() {
                301 | 302 | 307 | 308 => location(&answer)?,
                // The answer to something that was done; for a file that is sent that is no place for it.
                303 if outgoing.is_none() => location(&answer)?,
                _ => return Ok(answer),
            };
            drop(answer.line);
            if outgoing.is_some_and(Outgoing::has_begun) {
                return Err(Error::Redirect("after the file had begun to be sent"));
            }
            target = to;
        }
        Err(Error::Redirects(redirects_max))
    }

    async fn ask(
        &self,
        mut line: Line,
        method: &Method,
        first: &Target,
        target: Target,
        headers: &HeaderMap,
        outgoing: Option<&Outgoing>,
    ) -> Result<Answer, Error> {
        let mut request = Request::new(no_body());
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(target.path.clone());
        *request.headers_mut() = headers_for(first, &target, headers)?;
        let timeouts = &self.config.settings.timeouts;
        let answered = match outgoing {
            Some(outgoing) => {
                let sent = outgoing.send(&mut line.sender, request, timeouts).await;
                sent.map_err(|error| {
                    if error == Error::NoAnswer { no_answer(&target, "no answer in time") } else { error }
                })?
            }
            None => match timeout(timeouts.first_byte, line.sender.send_request(request)).await {
                Ok(answered) => answered,
                Err(_) => return Err(no_answer(&target, "no answer to a request in time")),
            },
        };
        let response = answered.map_err(|error| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            no_answer(&target, format_args!("{}: {error}{cause}", line.remote))
        })?;
        line.has_head.tell();
        Ok(Answer { response, line, target })
    }
}

pub(crate) fn no_body() -> OutBody {
    OutBody::new(Empty::new().map_err(|never| match never {}))
}

fn headers_for(first: &Target, target: &Target, given: &HeaderMap) -> Result<HeaderMap, Error> {
    let mut headers = given.clone();
    if !target.is_same_origin(first) {
        headers = HeaderMap::new();
        for (name, value) in given.iter().filter(|(name, _)| HARMLESS.contains(name)) {
            headers.append(name.clone(), value.clone());
        }
    }
    let host = HeaderValue::from_str(&target.authority()).map_err(|_| Error::Url("names no host"))?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert("want-digest", HeaderValue::from_static(WANT_DIGEST));
    headers.insert("want-repr-digest", HeaderValue::from_static(WANT_REPR_DIGEST));
    Ok(headers)
}

/// What of a client's headers is sent on.
pub(crate) fn sent_on(mut headers: HeaderMap) -> HeaderMap {
    let conditions = ["if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
    OWN.iter().chain([&IF_MATCH]).for_each(|name| drop(headers.remove(name)));
    // With a condition that does not hold there is no file in the answer.
    conditions.iter().for_each(|name| drop(headers.remove(*name)));
    headers
}

fn location(answer: &Answer) -> Result<Target, Error> {
    let location = answer.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or(Error::Redirect("and does not say where to"))?;
    answer.target.redirect(location)
}
