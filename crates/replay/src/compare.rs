//! What was beside what the twin says.

use std::collections::{BTreeMap, BTreeSet};

use base::{RequestId, Vid};

use super::build::{Ask, Built, moment};
use super::figures::{Figures, MountLine, RequestLine};
use super::record::{Left, Record};
use super::{RecordedMount, Replay};
use report::outcome::Outcome;
use scenario::model::FileNumber;
use twin::moment::Moment;
use twin::world::{MountKind, Trace};

/// Mounts whose order is compared; the table for it grows with the square.
const ORDER_MAX: usize = 5_000;

/// A mount of either side.
struct Mount {
    vid: Vid,
    kind: Option<MountKind>,
    ordered: Moment,
    ready: Option<Moment>,
    unmounting: Option<Moment>,
    unmounted: Option<Moment>,
    drive: String,
}

impl Mount {
    fn line(&self) -> MountLine {
        let seconds = |at: Option<Moment>| at.map(Moment::seconds);
        MountLine {
            drive: self.drive.clone(),
            vid: self.vid.to_string(),
            kind: match self.kind {
                Some(MountKind::Recall) => "recall",
                Some(MountKind::Migrate) => "migrate",
                None => "-",
            },
            ordered: self.ordered.seconds(),
            ready: seconds(self.ready),
            unmounting: seconds(self.unmounting),
            unmounted: seconds(self.unmounted),
        }
    }
}

/// What one side did.
struct Side {
    mounts: Vec<Mount>,
    /// By request: when it was made, how many files, when each came.
    requests: BTreeMap<RequestId, (Moment, u64, Vec<Moment>)>,
    /// How long each file was waited for.
    waits: Vec<f64>,
    bytes: u64,
    written: Vec<(Moment, u64)>,
    put: Option<Moment>,
}

impl Side {
    fn figures(&mut self) -> Figures {
        let mut figures = Figures { requests: self.requests.len() as u64, ..Figures::default() };
        let done = |(_, files, came): &&(Moment, u64, Vec<Moment>)| came.len() as u64 == *files;
        let took: Vec<f64> = self
            .requests
            .values()
            .filter(done)
            .filter_map(|(at, _, came)| Some(came.iter().max()?.since(*at).as_secs_f64()))
            .collect();
        figures.requests_done = took.len() as u64;
        figures.request_mean = mean(took.iter().copied());
        figures.request_longest = took.iter().copied().fold(0.0, f64::max);
        figures.files = self.waits.len() as u64;
        figures.bytes = self.bytes;
        let first = self.requests.values().map(|(at, ..)| *at).min().unwrap_or_default();
        let last = self.requests.values().flat_map(|(_, _, came)| came.iter()).max().copied();
        figures.completion = last.map_or(0.0, |last| last.since(first).as_secs_f64());
        self.waits.sort_by(f64::total_cmp);
        (figures.wait_median, figures.wait_90) = (quantile(&self.waits, 0.5), quantile(&self.waits, 0.9));
        self.of_mounts(&mut figures);
        let flushed = self.written.iter().map(|(at, _)| *at).max();
        figures.written_copies = self.written.len() as u64;
        figures.written = self.written.iter().map(|(_, bytes)| bytes).sum();
        if let (Some(put), Some(flushed)) = (self.put, flushed) {
            figures.migration = flushed.since(put).as_secs_f64();
        }
        figures.all = last.max(flushed).map_or(0.0, Moment::seconds);
        figures
    }

    fn of_mounts(&self, figures: &mut Figures) {
        let count = |kind| self.mounts.iter().filter(|mount| mount.kind == Some(kind)).count() as u64;
        figures.mounts = self.mounts.len() as u64;
        (figures.recall_mounts, figures.migrate_mounts) =
            (count(MountKind::Recall), count(MountKind::Migrate));
        figures.tapes = self.mounts.iter().map(|mount| mount.vid).collect::<BTreeSet<_>>().len() as u64;
        let between = |from: Option<Moment>, to: Option<Moment>| Some(to?.since(from?).as_secs_f64());
        let of = |pick: &dyn Fn(&Mount) -> Option<f64>| mean(self.mounts.iter().filter_map(pick));
        figures.mount_seconds = of(&|mount| between(Some(mount.ordered), mount.ready));
        figures.mounted_seconds = of(&|mount| between(mount.ready, mount.unmounting));
        figures.unmount_seconds = of(&|mount| between(mount.unmounting, mount.unmounted));
    }
}

fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = of.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The asks that can be compared. A file that was on tape only in the record and has never left the twin's
/// pool costs it nothing: its whole request is left out. One that the twin itself brought back earlier is
/// compared.
fn comparable(built: &Built, trace: &Trace, left: &mut Left) -> Vec<Ask> {
    let mut recalled: BTreeMap<FileNumber, Moment> = BTreeMap::new();
    for served in trace.served.iter().filter(|served| served.recalled) {
        let first = recalled.entry(served.file).or_insert(served.at);
        *first = (*first).min(served.at);
    }
    let had: BTreeSet<(FileNumber, Moment)> = trace
        .served
        .iter()
        .filter(|served| !served.recalled && recalled.get(&served.file).is_none_or(|at| *at > served.at))
        .map(|served| (served.file, served.since))
        .collect();
    let is_hit = |ask: &&Ask| had.contains(&(ask.file, ask.at));
    let out: BTreeSet<RequestId> = built.asks.iter().filter(is_hit).map(|ask| ask.request).collect();
    left.hits = built.asks.iter().filter(is_hit).count() as u64;
    left.requests = out.len() as u64;
    built.asks.iter().filter(|ask| !out.contains(&ask.request)).copied().collect()
}

fn requests(asks: &[Ask], came: impl Fn(&Ask) -> Option<Moment>) -> (RequestMap, Vec<f64>) {
    let (mut requests, mut waits) = (RequestMap::new(), Vec::new());
    for ask in asks {
        let (at, files, all) = requests.entry(ask.request).or_insert((ask.at, 0, Vec::new()));
        *at = (*at).min(ask.at);
        *files += 1;
        if let Some(came) = came(ask) {
            all.push(came);
            waits.push(came.since(ask.at).as_secs_f64());
        }
    }
    (requests, waits)
}

type RequestMap = BTreeMap<RequestId, (Moment, u64, Vec<Moment>)>;

fn recorded(record: &Record, mounts: &[RecordedMount], left: &mut Left, of: &Built, asks: &[Ask]) -> Side {
    let begin = of.begin;
    let at = |at: base::Timestamp| moment(begin, at);
    let mut lines = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.ordered >= begin.max(record.since)) {
        if mount.is_failed || mount.kind.is_none() {
            left.other_mounts += 1;
            continue;
        }
        lines.push(Mount {
            vid: mount.vid,
            kind: mount.kind,
            ordered: at(mount.ordered),
            ready: mount.ready.map(at),
            unmounting: mount.unmounting.map(at),
            unmounted: mount.unmounted.map(at),
            drive: mount.drive.clone(),
        });
    }
    lines.sort_by_key(|mount| mount.ordered);
    let (requests, waits) = requests(asks, |ask| ask.came);
    let bytes = asks.iter().filter(|ask| ask.came.is_some()).map(|ask| size(of, ask.file)).sum();
    let written = record
        .packs
        .iter()
        .filter(|written| written.at >= begin.max(record.since))
        .map(|written| (at(written.at), written.length))
        .collect();
    Side { mounts: lines, requests, waits, bytes, written, put: first_put(record, of) }
}

/// When the first file was put that the record tells of.
fn first_put(record: &Record, of: &Built) -> Option<Moment> {
    let first = record.puts.iter().find(|(time, _)| *time >= record.since);
    first.map(|(time, _)| moment(of.begin, *time))
}

fn size(of: &Built, file: FileNumber) -> u64 {
    of.model.site.classes.get(usize::from(file.class.0)).map_or(0, |class| class.sizes.size(file))
}

fn predicted(record: &Record, built: &Built, trace: &Trace, asks: &[Ask]) -> Side {
    let compared = trace.mounts.iter().filter(|mount| mount.ordered >= built.from);
    let mounts = compared.map(|mount| Mount {
        vid: built.vids[mount.tape.0 as usize],
        kind: mount.kind,
        ordered: mount.ordered,
        ready: mount.ready,
        unmounting: mount.unmounting,
        unmounted: mount.unmounted,
        drive: built.drives.get(mount.drive).cloned().unwrap_or_default(),
    });
    let served: BTreeMap<(FileNumber, Moment), Moment> =
        trace.served.iter().map(|served| ((served.file, served.since), served.at)).collect();
    // What had not come when the record ended, since the server was stopped or nobody wanted it any more, is
    // replayed and not compared: both sides tell of the same files.
    let came = |ask: &Ask| ask.came.and_then(|_| served.get(&(ask.file, ask.at)).copied());
    let (requests, waits) = requests(asks, came);
    let bytes = asks.iter().filter(|ask| came(ask).is_some()).map(|ask| size(built, ask.file)).sum();
    let written = trace.written.iter().filter(|(at, _)| *at >= built.from).copied().collect();
    let put = first_put(record, built);
    Side { mounts: mounts.collect(), requests, waits, bytes, written, put }
}

pub(super) fn compare(
    record: &Record,
    mounts: &[RecordedMount],
    built: &Built,
    outcome: Outcome,
    trace: &Trace,
    hurries: u64,
) -> Replay {
    let mut left = built.left;
    left.forced = hurries;
    let asks = comparable(built, trace, &mut left);
    let mut was = recorded(record, mounts, &mut left, built, &asks);
    let mut says = predicted(record, built, trace, &asks);
    let (recorded, predicted) = (was.figures(), says.figures());
    let took = |side: &Side, request: &RequestId| {
        let (at, files, came) = side.requests.get(request)?;
        (came.len() as u64 == *files).then(|| came.iter().max().map(|last| last.since(*at).as_secs_f64()))?
    };
    let requests = was.requests.iter().map(|(id, (at, files, _))| RequestLine {
        request: id.0,
        files: *files,
        at: at.seconds(),
        recorded: took(&was, id),
        predicted: took(&says, id),
    });
    Replay {
        begin: built.begin,
        rows: Figures::rows(&recorded, &predicted),
        recorded,
        predicted,
        requests: requests.collect(),
        recorded_mounts: was.mounts.iter().map(Mount::line).collect(),
        predicted_mounts: says.mounts.iter().map(Mount::line).collect(),
        same_order: same_order(&was.mounts, &says.mounts),
        untimed: Vec::new(),
        supposed: Vec::new(),
        left,
        outcome,
    }
}

/// The longest common subsequence of tapes, as a part of the longer list.
fn same_order(was: &[Mount], says: &[Mount]) -> f64 {
    let (was, says) = (&was[..was.len().min(ORDER_MAX)], &says[..says.len().min(ORDER_MAX)]);
    let longer = was.len().max(says.len());
    if longer == 0 {
        return 1.0;
    }
    let mut row = vec![0u32; says.len() + 1];
    for one in was {
        let mut corner = 0;
        for (at, other) in says.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if one.vid == other.vid { corner + 1 } else { above.max(row[at]) };
            corner = above;
        }
    }
    f64::from(row.last().copied().unwrap_or(0)) / longer as f64
}
