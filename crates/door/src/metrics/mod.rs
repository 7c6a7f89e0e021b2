//! `/metrics`, for Prometheus: what the doors count themselves, and how the engine stands when it is asked.

mod body;
mod engine;
mod page;
mod requests;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::shared::Asked;
use entrance::{Kind, Refusal};
use page::Page;
pub(crate) use requests::{RequestCounts, watch, watch_native};

/// The address.
pub(crate) const ADDRESS: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`.
pub(crate) async fn metrics(shared: Asked) -> Result<Response, Refusal> {
    let counts = shared.counts.clone();
    let places = [
        ("transfers", shared.transfers.places().free()),
        ("calls", shared.calls.free()),
        ("long_calls", shared.long_calls.free()),
    ];
    let waiting = [
        ("transfers", shared.transfers.places().waiting()),
        ("calls", shared.calls.waiting()),
        ("long_calls", shared.long_calls.waiting()),
    ];
    let text = shared.call(move |engine| {
        let mut page = Page::new();
        page.gauges(
            "door_places_free",
            "Requests of a kind that may still begin",
            places.map(|(kind, free)| (vec![("kind", kind.to_owned())], free as f64)),
        );
        page.gauges(
            "door_requests_waiting",
            "Requests of a kind that wait for a place",
            waiting.map(|(kind, count)| (vec![("kind", kind.to_owned())], count as f64)),
        );
        engine::write(&mut page, engine)?;
        let internal = |_| Refusal::new(Kind::Internal, "the metrics cannot be written");
        let mut text = page.text().map_err(internal)?;
        counts.write(&mut text).map_err(internal)?;
        Ok(text)
    });
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text.await?).into_response())
}
