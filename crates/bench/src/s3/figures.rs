//! What was measured, and how it stands to the bars.

use serde::Serialize;
use terminal::{Table, text};

use super::load::Took;

/// Kist's own name among the servers.
pub const KIST: &str = "kist";

/// One operation on one server.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What.
    pub operation: &'static str,
    /// Who.
    pub server: &'static str,
    /// The median of the rounds.
    pub value: f64,
    /// `B/s` or `1/s`.
    pub unit: &'static str,
    /// Processor seconds of the server for each second of that round.
    pub cores: f64,
    /// All rounds.
    pub rounds: Vec<f64>,
}

impl Row {
    /// Of all rounds; at least one.
    pub fn new(
        operation: &'static str,
        server: &'static str,
        unit: &'static str,
        mut all: Vec<Took>,
    ) -> Self {
        let rate = |took: &Took| if took.seconds > 0.0 { took.amount / took.seconds } else { 0.0 };
        let rounds = all.iter().map(rate).collect();
        all.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let median = all.get(all.len() / 2);
        let cores = median.map_or(0.0, |took| if took.seconds > 0.0 { took.cpu / took.seconds } else { 0.0 });
        Row { operation, server, value: median.map_or(0.0, rate), unit, cores, rounds }
    }

    fn shown(&self) -> String {
        match self.unit {
            "B/s" => format!("{}/s", text::size(self.value as u64)),
            _ => format!("{}/s", text::count(self.value as u64)),
        }
    }
}

/// Kist against another server.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What.
    pub operation: &'static str,
    /// Whom.
    pub peer: &'static str,
    /// Kist's figure divided by theirs.
    pub ratio: f64,
    /// What it has to be, if there is a bar.
    pub wanted: Option<f64>,
    /// Whether it is.
    pub reached: Option<bool>,
}

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Each operation on each server.
    pub rows: Vec<Row>,
    /// Kist against the others.
    pub ratios: Vec<Ratio>,
}

impl Report {
    /// With the ratios of its rows; `bar`: what an operation has to reach against MinIO.
    pub fn of(rows: Vec<Row>, bar: impl Fn(&str) -> Option<f64>) -> Self {
        let mut ratios = Vec::new();
        for ours in rows.iter().filter(|row| row.server == KIST) {
            for theirs in rows.iter().filter(|row| row.operation == ours.operation && row.server != KIST) {
                let ratio = if theirs.value > 0.0 { ours.value / theirs.value } else { 0.0 };
                let wanted = if theirs.server == "minio" { bar(ours.operation) } else { None };
                let reached = wanted.map(|wanted| ratio >= wanted);
                ratios.push(Ratio { operation: ours.operation, peer: theirs.server, ratio, wanted, reached });
            }
        }
        Report { rows, ratios }
    }

    fn operations(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for row in &self.rows {
            if !found.contains(&row.operation) {
                found.push(row.operation);
            }
        }
        found
    }

    fn servers(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for row in &self.rows {
            if !found.contains(&row.server) {
                found.push(row.server);
            }
        }
        found
    }

    /// Headings and lines of the table: a line an operation, a column a server and then a ratio a peer.
    fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let servers = self.servers();
        let peers: Vec<&str> = servers.iter().copied().filter(|server| *server != KIST).collect();
        let mut headings = vec!["operation".to_owned()];
        headings.extend(servers.iter().map(|server| (*server).to_owned()));
        headings.extend(peers.iter().map(|peer| format!("to {peer}")));
        headings.push("bar".to_owned());
        let line = |operation: &'static str| {
            let mut line = vec![operation.to_owned()];
            for server in &servers {
                let row = self.rows.iter().find(|row| row.operation == operation && row.server == *server);
                line.push(
                    row.map_or("-".to_owned(), |row| format!("{} ({:.1} cores)", row.shown(), row.cores)),
                );
            }
            let of = |peer: &str| self.ratios.iter().find(|r| r.operation == operation && r.peer == peer);
            line.extend(
                peers.iter().map(|peer| of(peer).map_or("-".to_owned(), |r| format!("{:.2}", r.ratio))),
            );
            let bar = self.ratios.iter().find(|r| r.operation == operation && r.wanted.is_some());
            line.push(bar.map_or("-".to_owned(), |r| {
                let verdict = if r.reached == Some(true) { "reached" } else { "missed" };
                format!("{verdict}: {:.1} × {}", r.wanted.unwrap_or_default(), r.peer)
            }));
            line
        };
        (headings, self.operations().into_iter().map(line).collect())
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let (headings, lines) = self.cells();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings);
        for line in lines {
            table.row(line);
        }
        table.render()
    }

    /// For a page.
    pub fn markdown(&self, note: &str) -> String {
        let (headings, lines) = self.cells();
        let mut text = format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
        for line in lines {
            text += &format!("| {} |\n", line.join(" | "));
        }
        text + "\n" + note + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: &'static str, server: &'static str, rates: &[f64]) -> Row {
        let took = |rate: &f64| Took { amount: *rate, seconds: 1.0, cpu: 0.5 };
        Row::new(operation, server, "1/s", rates.iter().map(took).collect())
    }

    #[test]
    fn the_median_of_the_rounds_counts_and_bars_are_set_against_minio_alone() {
        let rows = vec![
            row("put", "kist", &[30.0, 10.0, 20.0]),
            row("put", "minio", &[10.0]),
            row("put", "versitygw", &[40.0]),
        ];
        assert_eq!((rows[0].value, rows[0].cores), (20.0, 0.5));
        let report = Report::of(rows, |_| Some(2.5));
        let found: Vec<_> = report.ratios.iter().map(|r| (r.peer, r.ratio, r.reached)).collect();
        assert_eq!(found, [("minio", 2.0, Some(false)), ("versitygw", 0.5, None)]);
        assert!(report.text().contains("missed: 2.5 × minio"), "{}", report.text());
        assert_eq!(report.markdown("n").lines().count(), 5);
    }
}
