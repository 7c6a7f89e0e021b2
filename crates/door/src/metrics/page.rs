//! A page of values that are read at the moment.

use std::fmt;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// Names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What stands before every name.
pub(super) const PREFIX: &str = "kist";

/// A page that is being written.
pub(super) struct Page(Registry);

impl Page {
    pub(super) fn new() -> Self {
        Page(Registry::with_prefix(PREFIX))
    }

    /// Values that rise and fall, one for each set of labels.
    pub(super) fn gauges(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in rows {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    /// One value that rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [(Labels::new(), value)]);
    }

    /// Values that only rise, one for each set of labels; `_total` is added to the name.
    pub(super) fn counters(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in rows {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    /// One value that only rises.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, [(Labels::new(), value)]);
    }

    /// The page so far, without the line that ends it.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.0)?;
        Ok(text)
    }
}
