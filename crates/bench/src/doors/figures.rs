//! What was measured, and how it stands to the bars.

use std::fmt::Write;

use serde::Serialize;
use terminal::{Table, text};

use super::load::{Amount, Files, Operation, Took};
use super::peers::{Missing, Server};
use super::tape_rest;

/// What Kist has to reach: with which operation, which door, against whom, and how much of it.
const BARS: [(Operation, Server, Server, f64); 7] = [
    (Operation::PutLarge, Server::Webdav, Server::S3, 0.9),
    (Operation::GetLarge, Server::Webdav, Server::S3, 0.9),
    (Operation::PutSmall, Server::Webdav, Server::S3, 0.9),
    (Operation::GetSmall, Server::Webdav, Server::S3, 0.9),
    (Operation::GetLarge, Server::XrootdKist, Server::Xrootd, 0.7),
    (Operation::PutSmall, Server::XrootdKist, Server::Xrootd, 0.5),
    (Operation::GetSmall, Server::XrootdKist, Server::Xrootd, 0.5),
];
/// Those that are compared without a bar.
const COMPARED: [(Operation, Server, Server); 5] = [
    (Operation::PutLarge, Server::XrootdKist, Server::Xrootd),
    (Operation::PutLarge, Server::Webdav, Server::Nginx),
    (Operation::GetLarge, Server::Webdav, Server::Nginx),
    (Operation::PutSmall, Server::Webdav, Server::Nginx),
    (Operation::GetSmall, Server::Webdav, Server::Nginx),
];
/// Seconds that a request of the Tape REST API may take.
const STAGED_SECONDS: f64 = 2.0;
const POLLED_SECONDS: f64 = 1.0;

/// One operation on one server.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What.
    pub operation: Operation,
    /// Who.
    pub server: Server,
    /// Of the median round, in millions of bytes.
    pub mb_per_second: f64,
    /// The same in files.
    pub files_per_second: f64,
    /// Processor seconds of the server for each second of that round.
    pub cores: f64,
    /// Seconds of all rounds, in their order.
    pub seconds: Vec<f64>,
    #[serde(skip)]
    files: Files,
    #[serde(skip)]
    rounds: Vec<Took>,
}

impl Row {
    /// Of no round yet.
    pub fn new(operation: Operation, server: Server, files: Files) -> Self {
        let rounds = Vec::new();
        let (mb_per_second, files_per_second, cores, seconds) = (0.0, 0.0, 0.0, Vec::new());
        Row { operation, server, mb_per_second, files_per_second, cores, seconds, files, rounds }
    }

    /// Whether it is the row of this.
    pub fn is_of(&self, operation: Operation, server: Server) -> bool {
        (self.operation, self.server) == (operation, server)
    }

    /// Adds a round.
    pub fn push(&mut self, took: Took) {
        self.rounds.push(took);
        self.seconds.push(took.seconds);
        let mut sorted = self.rounds.clone();
        sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        if let Some(median) = sorted.get(sorted.len() / 2).filter(|median| median.seconds > 0.0) {
            self.files_per_second = self.files.count as f64 / median.seconds;
            self.mb_per_second = self.files.bytes() as f64 / 1e6 / median.seconds;
            self.cores = median.cpu / median.seconds;
        }
    }

    fn shown(&self) -> String {
        let files = match self.files.amount {
            Amount::Large => String::new(),
            Amount::Small => format!("{}/s, ", text::count(self.files_per_second as u64)),
        };
        format!("{files}{:.1} MB/s ({:.1} cores)", self.mb_per_second, self.cores)
    }
}

/// A door beside another server.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What.
    pub operation: Operation,
    /// Which.
    pub server: Server,
    /// Beside whom.
    pub peer: Server,
    /// The rate divided by that of the peer: the median of the rounds' ratios. Nothing if one of the two was
    /// not measured.
    pub ratio: Option<f64>,
    /// The least and the most of the rounds.
    pub range: Option<[f64; 2]>,
    /// What it has to be, if there is a bar.
    pub wanted: Option<f64>,
    /// Whether it is.
    pub reached: Option<bool>,
}

impl Ratio {
    fn of(rows: &[Row], operation: Operation, server: Server, peer: Server, wanted: Option<f64>) -> Self {
        let seconds = |server| {
            let row = rows.iter().find(|row| row.is_of(operation, server));
            row.map(|row| row.seconds.as_slice()).unwrap_or_default()
        };
        let pairs = seconds(server).iter().zip(seconds(peer));
        let mut all: Vec<f64> =
            pairs.filter(|(ours, _)| **ours > 0.0).map(|(ours, theirs)| theirs / ours).collect();
        all.sort_by(f64::total_cmp);
        let ratio = all.get(all.len() / 2).copied();
        let range = all.first().zip(all.last()).map(|(least, most)| [*least, *most]);
        let reached = wanted.zip(ratio).map(|(wanted, ratio)| ratio >= wanted);
        Ratio { operation, server, peer, ratio, range, wanted, reached }
    }

    fn cells(&self) -> Vec<String> {
        let range = self.range.map_or(String::new(), |[least, most]| format!(" ({least:.2} – {most:.2})"));
        vec![
            self.operation.name().to_owned(),
            self.server.name().to_owned(),
            self.peer.name().to_owned(),
            self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}{range}")),
            self.wanted.map_or("-".to_owned(), |wanted| format!("≥ {wanted:.1}")),
            verdict(self.wanted.is_some(), self.reached),
        ]
    }
}

fn verdict(has_bar: bool, reached: Option<bool>) -> String {
    match (has_bar, reached) {
        (false, _) => "-",
        (true, None) => "not measured",
        (true, Some(true)) => "reached",
        (true, Some(false)) => "missed",
    }
    .to_owned()
}

/// A call of the Tape REST API.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// `stage`, `poll`, `all-there`.
    pub call: &'static str,
    /// Files of the request.
    pub files: u64,
    /// Seconds, the median of the rounds.
    pub seconds: f64,
    /// All rounds.
    pub rounds: Vec<f64>,
    /// What it may take, if there is a bar.
    pub wanted: Option<f64>,
    /// Whether it is less.
    pub reached: Option<bool>,
}

impl Call {
    fn of(
        call: &'static str,
        took: &[tape_rest::Took],
        of: impl Fn(&tape_rest::Took) -> f64,
        wanted: Option<f64>,
    ) -> Self {
        let rounds: Vec<f64> = took.iter().map(of).collect();
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let seconds = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let files = took.first().map_or(0, |took| took.files);
        let reached = wanted.map(|wanted| seconds < wanted);
        Call { call, files, seconds, rounds, wanted, reached }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.call.to_owned(),
            text::count(self.files),
            format!("{:.3} s", self.seconds),
            self.wanted.map_or("-".to_owned(), |wanted| format!("< {wanted:.0} s")),
            verdict(self.wanted.is_some(), self.reached),
        ]
    }
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each operation on each server.
    pub rows: Vec<Row>,
    /// Doors beside other servers.
    pub ratios: Vec<Ratio>,
    /// The Tape REST API.
    pub tape_rest: Vec<Call>,
    /// What was not measured, and why.
    pub missing: Vec<Missing>,
    /// How it was measured.
    pub note: String,
}

/// Headings and lines.
type Cells = (Vec<String>, Vec<Vec<String>>);

impl Report {
    /// With the ratios of its rows.
    pub fn of(rows: Vec<Row>, tape: Vec<tape_rest::Took>, missing: Vec<Missing>, note: String) -> Self {
        let bars = BARS.iter().map(|(operation, server, peer, bar)| (*operation, *server, *peer, Some(*bar)));
        let compared = COMPARED.iter().map(|(operation, server, peer)| (*operation, *server, *peer, None));
        let ratios = bars.chain(compared);
        let ratios =
            ratios.map(|(operation, server, peer, bar)| Ratio::of(&rows, operation, server, peer, bar));
        let ratios = ratios.collect();
        let tape_rest = vec![
            Call::of("stage", &tape, |took| took.staged, Some(STAGED_SECONDS)),
            Call::of("poll", &tape, |took| took.polled, Some(POLLED_SECONDS)),
            Call::of("all-there", &tape, |took| took.back, None),
        ];
        Report { rows, ratios, tape_rest, missing, note }
    }

    /// A line an operation, a column a server.
    fn rates(&self) -> Cells {
        let (mut servers, mut operations) = (Vec::new(), Vec::new());
        for row in &self.rows {
            if !servers.contains(&row.server) {
                servers.push(row.server);
            }
            if !operations.contains(&row.operation) {
                operations.push(row.operation);
            }
        }
        let line = |operation: &Operation| {
            let cell = |server: &Server| {
                let row = self.rows.iter().find(|row| row.is_of(*operation, *server));
                row.map_or("-".to_owned(), Row::shown)
            };
            std::iter::once(operation.name().to_owned()).chain(servers.iter().map(cell)).collect()
        };
        let lines = operations.iter().map(line).collect();
        let names = servers.iter().map(|server| server.name().to_owned());
        (std::iter::once("operation".to_owned()).chain(names).collect(), lines)
    }

    fn tables(&self) -> [Cells; 3] {
        let headings = |all: &[&str]| all.iter().map(|heading| (*heading).to_owned()).collect();
        let ratios = self.ratios.iter().map(Ratio::cells).collect();
        let calls = self.tape_rest.iter().map(Call::cells).collect();
        [
            self.rates(),
            (headings(&["operation", "server", "beside", "ratio", "bar", "verdict"]), ratios),
            (headings(&["Tape REST API", "files", "measured", "bar", "verdict"]), calls),
        ]
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (headings, lines) in self.tables() {
            let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
            let mut table = Table::new(&headings);
            lines.into_iter().for_each(|line| table.row(line));
            text += &table.render();
            text.push('\n');
        }
        for missing in &self.missing {
            let _ = writeln!(text, "{}", missing.told());
        }
        text + &self.note + "\n"
    }

    /// For a page.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (headings, lines) in self.tables() {
            let _ = writeln!(text, "| {} |\n|{}", headings.join(" | "), "---|".repeat(headings.len()));
            for line in lines {
                let _ = writeln!(text, "| {} |", line.join(" | "));
            }
            text.push('\n');
        }
        for missing in &self.missing {
            let _ = writeln!(text, "{}\n", missing.told());
        }
        text + &self.note + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: Operation, server: Server, seconds: &[f64]) -> Row {
        let files = Files { amount: Amount::Small, count: 1000, size: 16_000 };
        let mut row = Row::new(operation, server, files);
        seconds.iter().for_each(|seconds| row.push(Took { seconds: *seconds, cpu: 1.0 }));
        row
    }

    fn tape(staged: f64) -> Vec<tape_rest::Took> {
        vec![tape_rest::Took { files: 10_000, staged, polled: 0.1, back: 5.0 }]
    }

    #[test]
    fn the_median_counts_and_ratios_are_those_of_each_round() {
        let rows = vec![
            row(Operation::GetSmall, Server::Webdav, &[2.0, 1.0, 4.0]),
            row(Operation::GetSmall, Server::S3, &[1.0, 1.0, 3.0]),
        ];
        assert_eq!((rows[0].files_per_second, rows[0].mb_per_second, rows[0].cores), (500.0, 8.0, 0.5));
        let report = Report::of(rows, tape(2.5), Vec::new(), String::new());
        let found = report.ratios.iter().find(|ratio| ratio.operation == Operation::GetSmall).unwrap();
        assert_eq!((found.ratio, found.range, found.reached), (Some(0.75), Some([0.5, 1.0]), Some(false)));
        assert_eq!(report.tape_rest[0].reached, Some(false));
        assert_eq!(report.tape_rest[1].reached, Some(true));
    }

    #[test]
    fn a_bar_whose_peer_is_missing_is_shown_as_not_measured() {
        let rows = vec![row(Operation::GetSmall, Server::XrootdKist, &[2.0])];
        let missing = Missing { server: Server::Xrootd, why: "no xrootd".to_owned() };
        let report = Report::of(rows, tape(0.1), vec![missing], "n".to_owned());
        let of_peer = |ratio: &&Ratio| ratio.peer == Server::Xrootd && ratio.wanted.is_some();
        assert!(report.ratios.iter().filter(of_peer).all(|ratio| ratio.reached.is_none()));
        for text in [report.text(), report.markdown()] {
            assert!(text.contains("not measured") && text.contains("no xrootd"), "{text}");
        }
    }
}
