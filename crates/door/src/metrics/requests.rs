//! What the doors count: requests, how long they took, bytes.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use transfer::{Service, Take};

use super::body::Counted;
use super::page::PREFIX;
use crate::service::HTTP;

type Pair = (&'static str, &'static str);
/// The first bound of the latencies in seconds; each further one is four times as large: up to 6.5 s.
const LATENCY_FIRST: f64 = 0.0001;
const LATENCY_BOUNDS: u16 = 9;

/// Counters of all doors.
pub(crate) struct RequestCounts {
    registry: Registry,
    requests: Family<[Pair; 3], Counter>,
    seconds: Family<[Pair; 2], Histogram, fn() -> Histogram>,
    received: Family<[Pair; 1], Counter>,
    sent: Family<[Pair; 1], Counter>,
}

impl RequestCounts {
    pub(crate) fn new() -> Arc<Self> {
        let histogram: fn() -> Histogram =
            || Histogram::new(exponential_buckets(LATENCY_FIRST, 4.0, LATENCY_BOUNDS));
        let (requests, seconds) = (Family::default(), Family::new_with_constructor(histogram));
        let (received, sent) = (Family::default(), Family::default());
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register("requests", "Requests that were answered", requests.clone());
        registry.register("request_seconds", "From a request's header to its answer's", seconds.clone());
        registry.register("received_bytes", "Bytes of bodies of requests", received.clone());
        registry.register("sent_bytes", "Bytes of bodies of answers", sent.clone());
        Arc::new(RequestCounts { registry, requests, seconds, received, sent })
    }

    /// Writes them and the line that ends a page.
    pub(crate) fn write(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.registry)?;
        encode_eof(text)
    }

    fn answered(&self, door: &'static str, method: &Method, status: StatusCode, since: Instant) {
        let (door, method) = (("door", door), ("method", method_word(method)));
        self.requests.get_or_create(&[door, method, ("status", status_word(status))]).inc();
        self.seconds.get_or_create(&[door, method]).observe(since.elapsed().as_secs_f64());
    }

    fn bytes(family: &Family<[Pair; 1], Counter>, door: &'static str) -> Counter {
        family.get_or_create_owned(&[("door", door)])
    }
}

/// Methods by name; clients choose them, so those that are rare are one.
fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

fn status_word(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "401",
        403 => "403",
        404 => "404",
        409 => "409",
        412 => "412",
        429 => "429",
        503 => "503",
        507 => "507",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

/// Counts what goes through the door's own addresses.
pub(crate) async fn watch_native(
    State(counts): State<Arc<RequestCounts>>,
    request: Request,
    next: Next,
) -> Response {
    let (since, method) = (Instant::now(), request.method().clone());
    let received = RequestCounts::bytes(&counts.received, HTTP);
    let response = next.run(request.map(|body| Body::new(Counted::new(body, received)))).await;
    counts.answered(HTTP, &method, response.status(), since);
    let sent = RequestCounts::bytes(&counts.sent, HTTP);
    response.map(|body| Body::new(Counted::new(body, sent)))
}

/// A registered service of which the same is counted.
pub(crate) fn watch(counts: &Arc<RequestCounts>, service: Service) -> Take {
    let (counts, door, inner) = (counts.clone(), service.name, service.take);
    Arc::new(move |request| {
        let (since, method, counts) = (Instant::now(), request.method().clone(), counts.clone());
        let received = RequestCounts::bytes(&counts.received, door);
        let reply = inner(request.map(|body| Counted::new(body, received).boxed_unsync()));
        Box::pin(async move {
            let response = reply.await;
            counts.answered(door, &method, response.status(), since);
            let sent = RequestCounts::bytes(&counts.sent, door);
            response.map(|body| Counted::new(body, sent).boxed_unsync())
        })
    })
}
