//! Bodies of requests, read whole: bounded in size, time and memory.

use entrance::{Call, Kind, Refusal, whole};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use hyper::body::Body as _;
use transfer::{Place, Places, RequestBody, Transfers};

use crate::settings::TapeRestLimits;

/// A body, with its share of the memory for large ones.
pub(crate) struct WholeBody {
    pub bytes: Vec<u8>,
    pub place: Option<Place>,
}

/// That a body is JSON, or says nothing of what it is.
///
/// # Errors
/// 400 for anything else.
pub(crate) fn is_json(parts: &Parts) -> Result<(), Refusal> {
    let Some(value) = entrance::headers::single(&parts.headers, &CONTENT_TYPE)? else { return Ok(()) };
    let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json");
    // What curl says of any body of which nothing else is known.
    let is_unsaid = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    if is_json || is_unsaid {
        return Ok(());
    }
    Err(Refusal::bad("the body must be JSON: send 'Content-Type: application/json'"))
}

/// Reads a whole body.
///
/// # Errors
/// 413 for one that is too long, 408 for one that does not come, 400 for one that ends early.
pub(crate) async fn read(
    body: RequestBody,
    call: &Call,
    limits: &TapeRestLimits,
    (transfers, large): (&Transfers, &Places),
) -> Result<WholeBody, Refusal> {
    let announced = body.size_hint().exact();
    if announced.is_some_and(|bytes| bytes > limits.body_bytes as u64) {
        return Err(too_long(limits.body_bytes));
    }
    let is_small = announced.is_some_and(|bytes| bytes <= limits.body_small_bytes as u64);
    let place =
        if is_small { None } else { Some(transfers.admit_to(large, &call.holder().unpaced(), 1).await?) };
    let reading = tokio::time::timeout(
        limits.body_deadline,
        whole(body, limits.body_bytes, call, || too_long(limits.body_bytes)),
    );
    let bytes = reading.await.map_err(|_| {
        let seconds = limits.body_deadline.as_secs_f64();
        Refusal::new(Kind::Timeout, format!("the body was not there after {seconds} s"))
    })??;
    Ok(WholeBody { bytes, place })
}

fn too_long(limit: usize) -> Refusal {
    Refusal::new(Kind::Limit, format!("the body is too long: the limit is {limit} bytes; name fewer files"))
}
