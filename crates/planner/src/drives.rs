//! What users move, and the drives that it takes.

use super::access::Machines;
use super::line::{Section, Sheet, Unit, input, number};
use super::site::{Reading, Tape};
use super::workload::ClassWorkload;

pub(super) const SDSC: &str = "SDSC, HPSS configuration and tuning; reference 2.2";
pub(super) const REFINED: &str = "SDSC, refined: writing streams, reading positions; reference 2.2";
pub(super) const MECHANICS: &str = "docs/reference/mechanics.md";
pub(super) const ARITHMETIC: &str = "arithmetic";

/// What a class moves to and from tape, bytes a day.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Flow {
    pub to_tape: f64,
    pub from_tape: f64,
}

/// What all classes together need of drives and robots, mean day and busiest.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct DriveNeeds {
    /// Drives busy, not rounded.
    pub busy: f64,
    pub busy_peak: f64,
    /// Drives to have: rounded up, by class where classes do not share.
    pub drives: f64,
    pub drives_peak: f64,
    pub mounts_per_day: f64,
    pub mounts_per_day_peak: f64,
}

/// The lines of what users move, and what of it goes over tape.
pub(crate) fn flows(sheet: &mut Sheet, classes: &[ClassWorkload]) -> Vec<Flow> {
    let flow = |class: &ClassWorkload| {
        let mut at = sheet.at(Section::Workload, &class.name);
        let w = input("W", "written by users a day", class.written_per_day, Unit::PerDay);
        let r = input("R", "read by users a day", class.read_per_day, Unit::PerDay);
        at.line(
            "moved on the busiest day",
            Unit::PerDay,
            "D = p * (W + R)",
            ARITHMETIC,
            vec![number("p", "busiest day by mean day", class.peak), w.clone(), r.clone()],
        );
        let copies = number("c", "tape copies", f64::from(class.copies));
        let to_tape = at.line("written to tape", Unit::PerDay, "W_tape = c * W", ARITHMETIC, vec![copies, w]);
        let h = input("h", "share of what is read that is in the cache", class.hit_rate, Unit::Share);
        let wanted = input("w", "wanted share of what comes back", class.wanted_share, Unit::Share);
        let from_tape = at.line(
            "read from tape",
            Unit::PerDay,
            "R_tape = (1 - h) * R / w",
            "SDSC; reference 2.2; w for recalls of whole aggregates (KIT)",
            vec![h, r, wanted],
        );
        Flow { to_tape, from_tape }
    };
    classes.iter().map(flow).collect()
}

/// The lines of drives needed, by class and in all.
pub(crate) fn drives(
    sheet: &mut Sheet,
    classes: &[ClassWorkload],
    flows: &[Flow],
    tape: &Tape,
    machines: &Machines,
) -> DriveNeeds {
    let mut needs = DriveNeeds::default();
    let mut apart = (0.0, 0.0);
    for (class, flow) in classes.iter().zip(flows) {
        let found = class_drives(sheet, class, *flow, tape, machines);
        needs.busy += found.busy;
        needs.busy_peak += found.busy * class.peak;
        apart.0 += found.drives;
        apart.1 += found.drives_peak;
        needs.mounts_per_day += found.mounts_per_day;
        needs.mounts_per_day_peak += found.mounts_per_day * class.peak;
    }
    let mut at = sheet.at(Section::Drives, "");
    let of = Unit::Of("drives");
    let names = ["drives, if all classes share them", "drives on the busiest day, if all classes share them"];
    let mut shared = [0.0; 2];
    for (place, busy) in [needs.busy, needs.busy_peak].into_iter().enumerate() {
        let sum = number("N", "drives busy, all classes together", busy);
        shared[place] = at.line(names[place], of, "n = ceil(N)", SDSC, vec![sum]);
    }
    let names =
        ["drives, if no class uses another's", "drives on the busiest day, if no class uses another's"];
    for (name, sum) in names.into_iter().zip([apart.0, apart.1]) {
        let sum = number("n_c", "drives of each class, rounded up, all together", sum);
        at.line(name, of, "n = n_c", SDSC, vec![sum]);
    }
    (needs.drives, needs.drives_peak) = if tape.share_drives { (shared[0], shared[1]) } else { apart };
    needs
}

/// How a class reads: u and the effective rate.
fn reading(sheet: &mut Sheet, class: &ClassWorkload, tape: &Tape, machines: &Machines) -> (f64, f64) {
    let size = class.recall_unit.unwrap_or(0.0).max(class.mean_file);
    let mut at = sheet.at(Section::Drives, &class.name);
    let v = input("v", "rate of reading", machines.read_rate, Unit::Rate);
    let access = machines.access(class.files_per_mount, size, tape.order);
    let useful = match tape.useful {
        Some(useful) => useful.ratio(),
        None => {
            let order = match tape.order {
                Reading::Planned => "in the order that Kist plans",
                Reading::Nearest => "nearest first",
                Reading::Block => "by block",
                Reading::Arrival => "as requests came",
            };
            let t = at.line(
                "time beside moving data, a file",
                Unit::Seconds,
                "t = (m + e) / n + l",
                MECHANICS,
                vec![
                    input("m", "mount: robot, load, labels", access.mount, Unit::Seconds),
                    input("e", "unmount: rewind, unload, robot", access.unmount, Unit::Seconds),
                    number("n", "wanted files in a mount", access.files),
                    input("l", &format!("locate, a file, {order}"), access.locate, Unit::Seconds),
                ],
            );
            at.line(
                "share of the drive's time that moves data",
                Unit::Share,
                "u = (S / v) / (S / v + t)",
                SDSC,
                vec![
                    input("S", "read in one go", size, Unit::Bytes),
                    v.clone(),
                    input("t", "time beside moving data, a file", t, Unit::Seconds),
                ],
            )
        }
    };
    let u = input("u", "share of the drive's time that moves data", useful, Unit::Share);
    let effective = at.line("effective rate of reading", Unit::Rate, "v_eff = v * u", SDSC, vec![v, u]);
    (effective, access.files * size)
}

/// How a class writes: the rate with mounts and flushes, and the bytes of a mount.
fn writing(sheet: &mut Sheet, class: &ClassWorkload, tape: &Tape, machines: &Machines) -> (f64, f64) {
    let full = machines.capacity() * tape.fill.ratio();
    let Some(bytes) = class.written_per_mount else { return (machines.write_rate, full) };
    let seconds = |symbol, meaning, value| input(symbol, meaning, value, Unit::Seconds);
    let rate = sheet.at(Section::Drives, &class.name).line(
        "effective rate of writing",
        Unit::Rate,
        "v_w = B / (B / v + m + l + e + B / F * f)",
        MECHANICS,
        vec![
            input("B", "written in a mount", bytes, Unit::Bytes),
            input("v", "rate of writing", machines.write_rate, Unit::Rate),
            seconds("m", "mount: robot, load, labels", machines.mount()),
            seconds("l", "locate to the end of the data", machines.locate()),
            seconds("e", "unmount: rewind, unload, robot", machines.unmount()),
            input("F", "written between two flushes", tape.flush_every.as_f64(), Unit::Bytes),
            seconds("f", "a flush", machines.timing.flush_us as f64 / 1e6),
        ],
    );
    (rate, bytes)
}

fn class_drives(
    sheet: &mut Sheet,
    class: &ClassWorkload,
    flow: Flow,
    tape: &Tape,
    machines: &Machines,
) -> DriveNeeds {
    let (v_eff, read_mount) = reading(sheet, class, tape, machines);
    let (v_w, written_mount) = writing(sheet, class, tape, machines);
    let mut at = sheet.at(Section::Drives, &class.name);
    let of = Unit::Of("drives");
    let w = input("W", "written to tape a day", flow.to_tape, Unit::PerDay);
    let r = input("R", "read from tape a day", flow.from_tape, Unit::PerDay);
    let eff = input("v_eff", "effective rate of reading", v_eff, Unit::Rate);
    let write = input("v_w", "rate of writing", v_w, Unit::Rate);
    at.line(
        "drives busy, all traffic positioning",
        of,
        "N = (W + R) / (86400 * v_eff)",
        SDSC,
        vec![w.clone(), r.clone(), eff.clone()],
    );
    at.line("drives writing", of, "N_w = W / (86400 * v_w)", REFINED, vec![w.clone(), write.clone()]);
    at.line("drives reading", of, "N_r = R / (86400 * v_eff)", REFINED, vec![r.clone(), eff.clone()]);
    let busy = at.line(
        "drives busy",
        of,
        "N = (W / v_w + R / v_eff) / 86400",
        REFINED,
        vec![w.clone(), write, r.clone(), eff],
    );
    let n = number("N", "drives busy", busy);
    let drives = at.line("drives, rounded up for the class", of, "n = ceil(N)", SDSC, vec![n.clone()]);
    let drives_peak = at.line(
        "drives on the busiest day",
        of,
        "n_p = ceil(p * N)",
        SDSC,
        vec![number("p", "busiest day by mean day", class.peak), n],
    );
    let mounts_per_day = sheet.at(Section::Robots, &class.name).line(
        "mounts a day",
        Unit::Of("mounts"),
        "M = W / B + R / A",
        ARITHMETIC,
        vec![
            w,
            input("B", "written in a mount", written_mount, Unit::Bytes),
            r,
            input("A", "read in a mount", read_mount, Unit::Bytes),
        ],
    );
    DriveNeeds { busy, drives, drives_peak, mounts_per_day, ..DriveNeeds::default() }
}
