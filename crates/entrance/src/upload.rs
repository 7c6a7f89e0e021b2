//! The body of a file on its way in: from a connection to whatever takes it on a thread.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use archive::PutDone;
use base::Timestamp;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, TRANSFER_ENCODING};
use http::{HeaderMap, Version};
use hyper::body::Body;
use transfer::{AnyError, Fault, Holder, LowestRate, Reply, Sink, Source, Transfers};
use transfer::{WHOLE_BYTES_MAX, gather, next_bytes, on_thread};

use crate::call::Call;
use crate::headers::single;
use crate::problem::{Kind, Refusal};

/// A body as it comes from the connection: a [`Paced`](transfer::Paced) one.
pub struct Incoming<B> {
    /// The body.
    pub body: B,
    /// What its client has to send at least, to tell those who did not.
    pub rate: LowestRate,
    /// Whose request it is of.
    pub call: Arc<Call>,
}

impl<B> Source for Incoming<B>
where
    B: Body<Data = Bytes> + Unpin + Send,
    B::Error: Into<AnyError>,
{
    type End = ();
    type Error = Refusal;

    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        let bytes = next_bytes(&mut self.body).await.map_err(|fault| match fault {
            Fault::TooSlow => self.too_slow(),
            fault => fault.into(),
        })?;
        self.call.received(bytes.as_ref().map_or(0, Bytes::len));
        Ok(bytes)
    }

    fn end(self) {}
}

impl<B> Incoming<B> {
    fn too_slow(&self) -> Refusal {
        let (bytes, seconds) = (self.rate.bytes.0, self.rate.window.as_secs_f64());
        let detail =
            format!("the body came at less than {bytes} bytes in {seconds} s of waiting: nothing was stored");
        Refusal::new(Kind::Timeout, detail)
    }
}

/// Stores a body: `begin` opens what takes it, `finish` makes it durable; both on a thread that may block.
///
/// `length`: of the body, if it is known. A small one is gathered before `begin`, so that the thread is
/// needed
/// only for a moment, unless the client `asks_first` (`Expect: 100-continue`): that saves the sending of what
/// is refused.
///
/// # Errors
/// Those of the body, of `begin` and of `finish`. Nothing is stored then.
pub async fn store<S, K, B, F>(
    transfers: &Transfers,
    holder: &Holder,
    (source, length, asks_first): (S, Option<u64>, bool),
    begin: B,
    finish: F,
) -> Result<PutDone, Refusal>
where
    S: Source<End = (), Error = Refusal>,
    K: Sink<Refusal>,
    B: FnOnce() -> Result<K, Refusal> + Send + 'static,
    F: FnOnce(K, (), Reply<PutDone, Refusal>) + Send + 'static,
{
    if asks_first || length.is_none_or(|length| length > WHOLE_BYTES_MAX) {
        return transfers.receive(holder, source, begin, finish).await;
    }
    let place = transfers.admit(holder).await?;
    let (parts, ()) = gather(source).await?;
    let work = move |reply: Reply<PutDone, Refusal>| {
        let received =
            begin().and_then(|mut sink| parts.iter().try_for_each(|bytes| sink.write(bytes)).map(|()| sink));
        match received {
            Ok(sink) => finish(sink, (), reply),
            Err(error) => reply(Err(error)),
        }
    };
    on_thread(place, work).await
}

/// A part of a file, or a coded one, would be stored as if it were the file.
///
/// # Errors
/// If the headers of a put say that its body is one.
pub fn refuse_parts(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Refusal::bad(
            "a part of a file cannot be put: send the whole file without Content-Range",
        ));
    }
    if single(headers, &CONTENT_ENCODING)?
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::bad("Content-Encoding is not supported: send the file's own bytes"));
    }
    Ok(())
}

/// A body of which nobody says where it ends is an empty one in HTTP/1 (RFC 9112, 6.3). A client that ends
/// it with the connection, as that of HTTP/1.0 does, would have an empty file for its bytes.
///
/// # Errors
/// [`Kind::LengthRequired`].
pub fn refuse_endless(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let says = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    if says || version > Version::HTTP_11 {
        return Ok(());
    }
    let detail = "where the body ends is not said: send Content-Length (0 for an empty file) or \
                  Transfer-Encoding: chunked";
    Err(Refusal::new(Kind::LengthRequired, detail))
}

/// The time at which a file is put of which the client names none: by the system's clock, as the times of
/// files are.
#[must_use]
pub fn present() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
