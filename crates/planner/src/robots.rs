//! Mounts against robots, and how long one waits for a robot or a drive.

use super::access::Machines;
use super::bottleneck::Use;
use super::drives::{ARITHMETIC, DriveNeeds, SDSC};
use super::line::{Line, Queue, Section, Sheet, Unit, Verdict, input, number};
use super::site::Tape;

const QUEUE: &str = "M/M/c, Erlang C: arrivals at random, times of service exponential";

/// Use of the robots and drives; nothing of the drives where none are said to be there.
pub(crate) fn robots(
    sheet: &mut Sheet,
    tape: &Tape,
    machines: &Machines,
    needs: &DriveNeeds,
    uses: &mut Vec<Use>,
) {
    let libraries = number("L", "libraries", tape.libraries.as_f64());
    let robots = number("r", "robots of a library", machines.robots);
    let move_time = input("s", "one move", machines.move_seconds, Unit::Seconds);
    let mut at = sheet.at(Section::Robots, "");
    let can = at.line(
        "mounts an hour that the robots can do",
        Unit::Of("mounts/h"),
        "Q = L * r * 3600 / (2 * s)",
        "a mount and its unmount are a move each",
        vec![libraries.clone(), robots.clone(), move_time.clone()],
    );
    for (day, mounts) in [("", needs.mounts_per_day), (" on the busiest day", needs.mounts_per_day_peak)] {
        let m = number("M", "mounts a day", mounts);
        let hourly = sheet.at(Section::Robots, "").line(
            &format!("mounts an hour{day}"),
            Unit::Of("mounts/h"),
            "m = M / 24",
            ARITHMETIC,
            vec![m.clone()],
        );
        let judged = sheet.lines.len() - 1;
        let used = Use::queue("robots", day, Unit::Of("mounts/h"), [hourly, can]);
        if mounts <= 0.0 {
            sheet.lines[judged].verdict = Some(Verdict::Meets);
            uses.push(used);
            continue;
        }
        let wait = sheet.at(Section::Robots, "").line(
            &format!("wait for a robot{day}"),
            Unit::Seconds,
            "t = erlang_c(r, 2 * M / (86400 * L) * s) * s / max(0, r - 2 * M / (86400 * L) * s)",
            QUEUE,
            vec![robots.clone(), m, libraries.clone(), move_time.clone()],
        );
        let takes = move_time.value.unwrap_or(0.0);
        let found = Queue { used: hourly / can, wait: Some((wait, takes)) }.judge();
        judge(&mut sheet.lines[judged], found.clone());
        uses.push(used.judged(found));
    }
    if let Some(present) = tape.drives {
        drives(sheet, present.as_f64(), needs, uses);
    }
}

fn drives(sheet: &mut Sheet, present: f64, needs: &DriveNeeds, uses: &mut Vec<Use>) {
    let busy = [
        ("", needs.busy, needs.mounts_per_day, needs.drives),
        (" on the busiest day", needs.busy_peak, needs.mounts_per_day_peak, needs.drives_peak),
    ];
    for (day, busy, mounts, wanted) in busy {
        let c = number("c", "drives that are there", present);
        let n = number("N", "drives busy, all classes together", busy);
        sheet.at(Section::Drives, "").line(
            &format!("use of the drives{day}"),
            Unit::Share,
            "U = N / c",
            SDSC,
            vec![n.clone(), c.clone()],
        );
        let judged = sheet.lines.len() - 1;
        let used = Use::queue("tape drives", day, Unit::Of("drives"), [busy, present]);
        if mounts <= 0.0 {
            sheet.lines[judged].verdict = Some(Verdict::Meets);
            uses.push(used);
            continue;
        }
        let m = number("M", "mounts a day", mounts);
        let wait = sheet.at(Section::Drives, "").line(
            &format!("wait for a drive{day}"),
            Unit::Seconds,
            "t = erlang_c(c, N) * (86400 * N / M) / max(0, c - N)",
            QUEUE,
            vec![c, n, m],
        );
        let holds = 86_400.0 * busy / mounts;
        let found = match wanted <= present {
            true => Queue { used: busy / present, wait: Some((wait, holds)) }.judge(),
            false => {
                let drives = Unit::Of("drives");
                let (wanted, present) = (drives.write(wanted), drives.write(present));
                (Verdict::Misses, format!("rounded up for each class it takes {wanted}, of {present}"))
            }
        };
        judge(&mut sheet.lines[judged], found.clone());
        uses.push(used.judged(found));
    }
}

fn judge(line: &mut Line, (verdict, reason): (Verdict, String)) {
    (line.verdict, line.reason) = (Some(verdict), reason);
}
