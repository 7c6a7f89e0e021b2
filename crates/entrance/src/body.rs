//! Bodies that are read whole: no files, but what a request says of itself.

use bytes::Bytes;
use hyper::body::Body;
use transfer::{AnyError, Fault, next_bytes};

use crate::call::Call;
use crate::problem::{Kind, Refusal};

/// All of a body, which has at most `limit` bytes; `too_long` says what to do if it has more. Its bytes count
/// for the call.
///
/// # Errors
/// That of `too_long`; [`Kind::Timeout`] or [`Kind::LengthMismatch`] if it does not come to its end.
pub async fn whole<B>(
    mut body: B,
    limit: usize,
    call: &Call,
    too_long: impl Fn() -> Refusal,
) -> Result<Vec<u8>, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<AnyError>,
{
    // Doubling would take twice the memory.
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let mut all = Vec::with_capacity(announced.unwrap_or(0).min(limit));
    loop {
        let next = next_bytes(&mut body).await.map_err(|fault| match fault {
            Fault::TooSlow => Refusal::new(Kind::Timeout, "the body came too slowly"),
            _ => Refusal::new(Kind::LengthMismatch, "the body ended early"),
        })?;
        let Some(bytes) = next else { return Ok(all) };
        if all.len() + bytes.len() > limit {
            return Err(too_long());
        }
        call.received(bytes.len());
        all.extend_from_slice(&bytes);
    }
}
