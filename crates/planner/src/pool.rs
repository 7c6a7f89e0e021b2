//! What the pool must move, and whether its disks can.

use durability::Code;

use super::bandwidth::Parts;
use super::bottleneck::Use;
use super::drives::{ARITHMETIC, Flow};
use super::line::{Input, Queue, Section, Sheet, Unit, input, number};
use super::site::{Pool, Site};
use super::workload::ClassWorkload;

const KIT: &str = "KIT, tape cache; reference 1.3: tape write = copies reads + 1 write, tape read = 1 + 1";
const DISK: &str = "a disk moves a piece of S bytes in seek + S / rate";

/// Bytes a day in the pool.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// Read by tape drives, and written by them.
    tape_read: f64,
    tape_written: f64,
    /// Read by users, and written by them.
    user_read: f64,
    user_written: f64,
}

impl Traffic {
    fn add(&mut self, other: Traffic, times: f64) {
        self.tape_read += times * other.tape_read;
        self.tape_written += times * other.tape_written;
        self.user_read += times * other.user_read;
        self.user_written += times * other.user_written;
    }

    fn inputs(&self) -> Vec<Input> {
        let daily = |symbol, meaning, value| input(symbol, meaning, value, Unit::PerDay);
        vec![
            daily("W", "written by users", self.user_written),
            daily("R", "read by users", self.user_read),
            daily("G", "read for tape", self.tape_read),
            daily("A", "written from tape", self.tape_written),
        ]
    }
}

/// The pool's code; the file was checked for it.
pub(crate) fn code(pool: &Pool) -> Code {
    Code::parse(&pool.layout).unwrap_or(Code::ReedSolomon { data: 1, parity: 0 })
}

/// The lines of the pool; returns its usable bytes, if the sizes of disks are known.
pub(crate) fn space(sheet: &mut Sheet, pool: &Pool, parts: &Parts) -> Option<f64> {
    if parts.bytes <= 0.0 {
        return None;
    }
    let code = code(pool);
    Some(sheet.at(Section::Pool, "").line(
        "usable space",
        Unit::Bytes,
        "C = B * k / n * f",
        ARITHMETIC,
        vec![
            input("B", "all disks", parts.bytes, Unit::Bytes),
            number("k", "data shards", f64::from(code.data())),
            number("n", "shards", f64::from(code.width())),
            input("f", "how full it may get", pool.fill.ratio(), Unit::Share),
        ],
    ))
}

/// The lines of what moves in the pool, against what it can move.
pub(crate) fn pool(
    sheet: &mut Sheet,
    site: &Site,
    pool: &Pool,
    flows: &[Flow],
    parts: &Parts,
    uses: &mut Vec<Use>,
) {
    let mut days = [Traffic::default(); 2];
    for (class, flow) in site.classes.iter().zip(flows) {
        let traffic = class_traffic(sheet, class, pool, *flow);
        days[0].add(traffic, 1.0);
        days[1].add(traffic, class.peak);
    }
    let code = code(pool);
    let overhead = f64::from(code.width()) / f64::from(code.data());
    let disks = (parts.disks > 0.0).then(|| DiskRates::new(sheet, pool, parts, overhead));
    for (traffic, day) in days.iter().zip(["", " on the busiest day"]) {
        let mut at = sheet.at(Section::Pool, "");
        at.line(
            &format!("moved in the pool{day}"),
            Unit::Rate,
            "B = (W + R + G + A) / 86400",
            KIT,
            traffic.inputs(),
        );
        let x = number("o", "shards by data shards", overhead);
        let raw = at.line(
            &format!("moved by the disks{day}"),
            Unit::Rate,
            "B = (o * W + R + G + o * A) / 86400",
            "every write is k+m shards, every read is k",
            [traffic.inputs(), vec![x]].concat(),
        );
        if parts.limit > 0.0 {
            at.judge_as(Queue { used: raw / parts.limit, wait: None }.judge());
            uses.push(Use::queue("paths of the pool", day, Unit::Rate, [raw, parts.limit]));
        }
        if let Some(disks) = &disks {
            disks.lines(sheet, traffic, day, uses);
        }
    }
    if let (Some(read), Some(write)) = (pool.read_rate, pool.write_rate) {
        measured(sheet, &days, read.0, write.0, uses);
    }
}

fn class_traffic(sheet: &mut Sheet, class: &ClassWorkload, pool: &Pool, flow: Flow) -> Traffic {
    let reads = reads_of(class, pool);
    let mut at = sheet.at(Section::Pool, &class.name);
    let traffic = Traffic {
        tape_read: reads * class.written_per_day,
        tape_written: flow.from_tape,
        user_read: class.read_per_day,
        user_written: class.written_per_day,
    };
    let g = number("g", "reads of each archived byte, one for each copy unless told", reads);
    at.line("moved in the pool for each byte archived", Unit::Of("bytes"), "b = g + 1", KIT, vec![g]);
    let one = number("r", "read by its user, or sent on", 1.0);
    at.line("moved in the pool for each byte recalled", Unit::Of("bytes"), "b = r + 1", KIT, vec![one]);
    at.line("moved in the pool", Unit::PerDay, "D = W + R + G + A", KIT, traffic.inputs());
    traffic
}

/// Reads of each archived byte.
fn reads_of(class: &ClassWorkload, pool: &Pool) -> f64 {
    if class.copies == 0 { 0.0 } else { pool.migration_reads.unwrap_or(f64::from(class.copies)) }
}

/// What one disk moves under users and under tape streams, and how many disks there are.
struct DiskRates {
    inputs: Vec<Input>,
}

impl DiskRates {
    fn new(sheet: &mut Sheet, pool: &Pool, parts: &Parts, overhead: f64) -> Self {
        let seek = input("t", "a seek", parts.seek / parts.disks, Unit::Seconds);
        let rate = input("r", "sequential rate of a disk", parts.disk_rate / parts.disks, Unit::Rate);
        let mut at = sheet.at(Section::Pool, "");
        let mut of_pieces = |name: &str, size: f64| {
            let piece = input("S", "moved in one go", size, Unit::Bytes);
            at.line(name, Unit::Rate, "e = S / (t + S / r)", DISK, vec![piece, seek.clone(), rate.clone()])
        };
        let client = of_pieces("a disk under users", pool.client_request.as_f64());
        let stream = of_pieces("a disk under tape streams", pool.stream_run.as_f64());
        let inputs = vec![
            number("o", "shards by data shards", overhead),
            input("e_u", "a disk under users", client, Unit::Rate),
            input("e_s", "a disk under tape streams", stream, Unit::Rate),
            number("n", "disks", parts.disks),
        ];
        DiskRates { inputs }
    }

    fn lines(&self, sheet: &mut Sheet, traffic: &Traffic, day: &'static str, uses: &mut Vec<Use>) {
        let inputs = [traffic.inputs(), self.inputs.clone()].concat();
        let mut at = sheet.at(Section::Pool, "");
        let busy = at.line(
            &format!("share of the disks' time{day}"),
            Unit::Share,
            "U = ((o * W + R) / e_u + (G + o * A) / e_s) / (86400 * n)",
            DISK,
            inputs.clone(),
        );
        at.judge_as(Queue { used: busy, wait: None }.judge());
        let tape = inputs.into_iter().filter(|input| !matches!(input.symbol, "W" | "R")).collect();
        at.line(
            &format!("left for users beside the tape streams{day}"),
            Unit::Rate,
            "B = max(0, 1 - (G + o * A) / (86400 * n * e_s)) * n * e_u",
            DISK,
            tape,
        );
        uses.push(Use::queue("disk time of the pool", day, Unit::Share, [busy, 1.0]));
    }
}

fn measured(sheet: &mut Sheet, days: &[Traffic; 2], read: f64, write: f64, uses: &mut Vec<Use>) {
    for (traffic, day) in days.iter().zip(["", " on the busiest day"]) {
        let reads = (traffic.user_read + traffic.tape_read) / 86_400.0;
        let writes = (traffic.user_written + traffic.tape_written) / 86_400.0;
        let mut at = sheet.at(Section::Pool, "");
        let mut against = |name: &str, formula, inputs: Vec<Input>, used: f64| {
            at.line(&format!("{name}{day}"), Unit::Rate, formula, KIT, inputs);
            at.judge_as(Queue { used, wait: None }.judge());
        };
        against("read from the pool", "B = (R + G) / 86400", traffic.inputs(), reads / read);
        against("written to the pool", "B = (W + A) / 86400", traffic.inputs(), writes / write);
        uses.push(Use::queue("reading from the pool", day, Unit::Rate, [reads, read]));
        uses.push(Use::queue("writing to the pool", day, Unit::Rate, [writes, write]));
    }
}

/// The drives that a pool with measured rates feeds: while everything goes to tape, and while everything
/// comes from it.
pub(crate) fn fed(sheet: &mut Sheet, site: &Site, pool: &Pool, write_rate: f64, read_rate: f64) {
    let (Some(read), Some(write)) = (pool.read_rate, pool.write_rate) else { return };
    let copies = site.classes.iter().map(|class| class.copies).max().unwrap_or(2).max(1);
    let reads = site.classes.iter().map(|class| reads_of(class, pool)).fold(0.0, f64::max);
    let reads = if reads > 0.0 { reads } else { 2.0 };
    let r = input("r", "what the pool reads", read.0, Unit::Rate);
    let w = input("w", "what it writes beside that", write.0, Unit::Rate);
    let g = number("g", "reads of each archived byte", reads);
    let mut at = sheet.at(Section::Pool, "");
    let out =
        at.line("archived at most", Unit::Rate, "M = min(r / g, w)", KIT, vec![r.clone(), w.clone(), g]);
    let back = at.line("recalled at most", Unit::Rate, "M = min(r, w)", KIT, vec![r, w]);
    let drives = Unit::Of("drives");
    let m = input("M", "archived at most", out, Unit::Rate);
    let v = input("v", "rate of writing", write_rate, Unit::Rate);
    at.line("drives fed, one copy at a time", drives, "N = floor(M / v)", KIT, vec![m.clone(), v.clone()]);
    let c = number("c", "copies", f64::from(copies));
    at.line("drives fed, all copies at once", drives, "N = floor(c * M / v)", KIT, vec![m, v, c]);
    let inputs = vec![
        input("M", "recalled at most", back, Unit::Rate),
        input("v", "rate of reading", read_rate, Unit::Rate),
    ];
    at.line("drives drained by recalls", drives, "N = floor(M / v)", KIT, inputs);
}
