//! Fetches a file.

use std::net::SocketAddr;

use base::ByteCount;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, ETAG, TRANSFER_ENCODING};
use http::{HeaderMap, Method};
use hyper::body::Body;

use crate::body::{PullBody, Rated};
use crate::client::{Client, Session};
use crate::connect::AbortOnDrop;
use crate::connections::IfFull;
use crate::digests::Digests;
use crate::error::Error;
use crate::exchange::{Answer, sent_on};
use crate::ranges::{Ordered, RangeOf, first_range};
use crate::target::Target;

/// How a file is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// By how many connections at most (`X-Number-Of-Streams`). More than one is used if the server answers
    /// a range with a strong ETag, which all ranges have to have.
    pub streams: usize,
    /// Whether the server is asked once more, with HEAD, if it says no checksum with the file.
    pub checksums: bool,
}

/// A file on its way in.
pub struct Pull {
    /// How long it is; `None` if its framing alone says where it ends.
    pub length: Option<ByteCount>,
    /// Its checksums as the other server has them: to be compared with those of the bytes that came.
    pub checksums: Checksums,
    /// Its bytes.
    pub body: PullBody,
    /// The server they come from, for markers.
    pub remote: SocketAddr,
}

/// Checksums that are known, or asked for beside the bytes.
pub struct Checksums(Known);

enum Known {
    Said(Digests),
    Asked(AbortOnDrop<Result<Digests, Error>>),
}

/// What a server says of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// How long it is.
    pub length: Option<ByteCount>,
    /// Its checksums.
    pub digests: Digests,
    /// Its strong entity tag.
    pub etag: Option<String>,
}

impl Head {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Head, Error> {
        let digests = Digests::read(headers)?;
        Ok(Head { length: content_length(headers)?, digests, etag: strong_etag(headers) })
    }
}

impl Checksums {
    /// The checksums, none if the server says none. Waits for its answer if they were asked for on their
    /// own, and may be called before or after the bytes were read.
    ///
    /// # Errors
    /// If it says two different ones, or is another file by now.
    pub async fn wait(self) -> Result<Digests, Error> {
        match self.0 {
            Known::Said(digests) => Ok(digests),
            Known::Asked(mut task) => (&mut task.0).await.unwrap_or(Ok(Digests::default())),
        }
    }
}

impl Client {
    /// Fetches a file: returns with the head of the answer, the body brings the bytes. `headers` are sent as
    /// well, but for those that frame a request or set conditions.
    ///
    /// # Errors
    /// [`Error`]; of another status than 200, [`Error::Status`].
    pub async fn pull(&self, url: &str, headers: HeaderMap, want: Want) -> Result<Pull, Error> {
        let (session, target) = (self.session(), Target::parse(url)?);
        let headers = sent_on(headers);
        let streams = want.streams.min(session.config.settings.limits.streams);
        let whole = || session.exchange(&Method::GET, &target, &headers, IfFull::Refuse, None);
        let answer = match streams {
            0 | 1 => whole().await?,
            _ => match session.first_of_several(&target, &headers, streams).await? {
                First::Range(answer, of) => return session.several(&target, headers, want, *answer, of),
                First::Whole(answer) => *answer,
                First::Neither => whole().await?,
            },
        };
        session.one(&target, &headers, want, answer).await
    }
}

/// What came of asking for the first range.
enum First {
    /// The range; the others fit to it.
    Range(Box<Answer>, RangeOf),
    /// The whole file, or why there is none.
    Whole(Box<Answer>),
    /// A range to which no others fit: it names no strong ETag, or the file is empty.
    Neither,
}

impl Session {
    /// Asks for the first range.
    async fn first_of_several(
        &self,
        target: &Target,
        headers: &HeaderMap,
        streams: usize,
    ) -> Result<First, Error> {
        let bytes = first_range(&self.config.settings.limits, streams);
        let mut with_range = headers.clone();
        RangeOf::ask(&mut with_range, 0, bytes);
        let answer = self.exchange(&Method::GET, target, &with_range, IfFull::Refuse, None).await?;
        let etag = match answer.response.status().as_u16() {
            206 => strong_etag(answer.response.headers()),
            416 => None,
            _ => return Ok(First::Whole(Box::new(answer))),
        };
        let Some(etag) = etag else { return Ok(First::Neither) };
        check_coding(answer.response.headers())?;
        let of = RangeOf::read(answer.response.headers(), etag, bytes, streams)?;
        Ok(First::Range(Box::new(answer), of))
    }

    fn several(
        &self,
        target: &Target,
        headers: HeaderMap,
        want: Want,
        answer: Answer,
        of: RangeOf,
    ) -> Result<Pull, Error> {
        let said = Digests::read(answer.response.headers())?;
        let (length, remote) = (of.length, answer.line.remote);
        let checksums = self.checksums(target, &headers, want, said, Some(length));
        let ordered = Ordered::start(self.clone(), target.clone(), headers, of, answer);
        let body = PullBody::several(ordered);
        Ok(Pull { length: Some(ByteCount(length)), checksums, body, remote })
    }

    async fn one(
        &self,
        target: &Target,
        headers: &HeaderMap,
        want: Want,
        answer: Answer,
    ) -> Result<Pull, Error> {
        let Answer { response, line, .. } = answer;
        match response.status().as_u16() {
            200 => {}
            206 => return Err(Error::Range),
            other => return Err(Error::Status(other)),
        }
        check_coding(response.headers())?;
        let mut said = Digests::read(response.headers())?;
        let mut length = response.body().size_hint().exact();
        if length.is_none() && !response.headers().contains_key(TRANSFER_ENCODING) {
            // The end of the connection is the end of the body, also if it breaks: somebody else has to say
            // how long the file is.
            let head = self.head(target, headers, IfFull::Refuse).await.map_err(|_| Error::NoLength)?;
            length = Some(head.length.ok_or(Error::NoLength)?.0);
            said = said.and(head.digests)?;
        }
        let checksums = self.checksums(target, headers, want, said, length);
        let (remote, rate) = (line.remote, self.config.settings.timeouts.lowest);
        let body = PullBody::one(Rated::new(response.into_body(), line, rate, length));
        Ok(Pull { length: length.map(ByteCount), checksums, body, remote })
    }

    /// The checksums that were said with the file, or else asks for them beside it.
    fn checksums(
        &self,
        target: &Target,
        headers: &HeaderMap,
        want: Want,
        said: Digests,
        length: Option<u64>,
    ) -> Checksums {
        if !said.is_empty() || !want.checksums {
            return Checksums(Known::Said(said));
        }
        let (session, target, headers) = (self.clone(), target.clone(), headers.clone());
        let wait = IfFull::Wait(self.config.settings.timeouts.first_byte);
        let asked = tokio::spawn(async move {
            match session.head(&target, &headers, wait).await {
                // Not every server answers to HEAD; whether there has to be a checksum is for the caller.
                Err(error) if error != Error::Digests => {
                    tracing::info!(%target, %error, "the other server of a copy says no checksum");
                    Ok(Digests::default())
                }
                Err(error) => Err(error),
                Ok(head) => match (head.length, length) {
                    (Some(now), Some(then)) if now.0 != then => Err(Error::Changed),
                    _ => Ok(head.digests),
                },
            }
        });
        Checksums(Known::Asked(AbortOnDrop(asked)))
    }
}

/// That the body is the file itself.
pub(crate) fn check_coding(headers: &HeaderMap) -> Result<(), Error> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        Ok(())
    } else {
        Err(Error::Coding)
    }
}

/// The entity tag, if it is one by which two answers are of the same bytes.
pub(crate) fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(ETAG)?.to_str().ok()?.trim();
    (tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"')).then(|| tag.to_owned())
}

fn content_length(headers: &HeaderMap) -> Result<Option<ByteCount>, Error> {
    let Some(value) = headers.get(CONTENT_LENGTH) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok()).ok_or(Error::NoLength)?;
    Ok(Some(ByteCount(length)))
}
