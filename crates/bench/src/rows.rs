//! The rows of a measurement.

use serde::Serialize;
use terminal::{Outcome, Style, Table, output, text};

/// A figure beside the limit that was measured in the same run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What.
    pub name: String,
    /// How much.
    pub value: f64,
    /// `B/s` or `1/s`.
    pub unit: &'static str,
    /// What bounds it.
    pub limit_name: String,
    /// How much that is, in the same unit; 0: none was measured.
    pub limit: f64,
    /// `value / limit`.
    pub ratio: f64,
    /// Processor time of the server divided by the time that passed.
    pub cores: f64,
    /// Bytes that went through.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Row {
    /// A rate of bytes.
    pub fn bytes(name: &str, bytes: u64, seconds: f64) -> Self {
        Row {
            name: name.to_owned(),
            value: per(bytes as f64, seconds),
            unit: "B/s",
            bytes,
            seconds,
            ..Row::default()
        }
    }

    /// A rate of operations.
    pub fn operations(name: &str, operations: u64, bytes: u64, seconds: f64) -> Self {
        let value = per(operations as f64, seconds);
        Row { name: name.to_owned(), value, unit: "1/s", bytes, seconds, ..Row::default() }
    }

    /// With the limit's figure, which must have the same unit.
    pub fn against(mut self, limit: &Row) -> Self {
        assert_eq!(self.unit, limit.unit, "a figure is compared with one of its kind");
        self.limit_name.clone_from(&limit.name);
        self.limit = limit.value;
        self.ratio = per(self.value, limit.value);
        self
    }

    /// With the processor time of the server.
    pub fn cores(mut self, cpu_seconds: f64) -> Self {
        self.cores = per(cpu_seconds, self.seconds);
        self
    }

    /// The figure in words.
    pub fn shown(&self) -> String {
        self.amount(self.value)
    }

    fn amount(&self, value: f64) -> String {
        match self.unit {
            "B/s" => format!("{}/s", text::size(value as u64)),
            _ => format!("{}/s", text::count(value as u64)),
        }
    }
}

/// Writes all rows.
pub fn print(rows: &[Row], style: Style) -> Outcome {
    if style.json {
        return output::json(&rows);
    }
    let mut table = Table::new(&["what", ">rate", "limit", ">limit", ">ratio", ">cores", ">bytes", ">time"]);
    for row in rows {
        let limited = row.limit > 0.0;
        let or_dash = |shown: bool, text: String| if shown { text } else { "-".to_owned() };
        table.row(vec![
            row.name.clone(),
            row.amount(row.value),
            or_dash(limited, row.limit_name.clone()),
            or_dash(limited, row.amount(row.limit)),
            or_dash(limited, format!("{:.2}", row.ratio)),
            or_dash(row.cores > 0.0, format!("{:.2}", row.cores)),
            text::size(row.bytes),
            format!("{:.2} s", row.seconds),
        ]);
    }
    output::write(&table.render())
}

fn per(amount: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { amount / divisor } else { 0.0 }
}
