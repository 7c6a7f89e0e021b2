//! How long files stay in the cache, and how much of it a wanted residency takes.

use super::bottleneck::Use;
use super::drives::{ARITHMETIC, Flow};
use super::line::{Section, Sheet, Unit, input, number};
use super::workload::ClassWorkload;

const SDSC: &str = "SDSC; reference 2.1: a lower bound, all traffic touches different data";

const OWN_LOG: &str = "the site's access log; working set (Denning): at most, deletes are not counted";

/// The lines of the cache. `usable` is the pool's, if there is one.
pub(crate) fn cache(
    sheet: &mut Sheet,
    classes: &[ClassWorkload],
    flows: &[Flow],
    usable: Option<f64>,
    uses: &mut Vec<Use>,
) {
    let fills: Vec<f64> = classes.iter().zip(flows).map(|(class, flow)| fill(sheet, class, *flow)).collect();
    let given: f64 = classes.iter().filter_map(|class| class.cache).sum();
    let open: f64 =
        classes.iter().zip(&fills).filter(|(class, _)| class.cache.is_none()).map(|(_, fill)| fill).sum();
    let mut wanted = [0.0; 2];
    let mut wishes = 0;
    for (class, fill) in classes.iter().zip(&fills) {
        let left = usable.map(|usable| (usable - given).max(0.0));
        let space = class.cache.or(left.map(|left| if open > 0.0 { left * fill / open } else { left }));
        if let Some(space) = space {
            lifetime(sheet, class, *fill, space);
        }
        if let Some(days) = class.residency_days.or(class.files.map(|files| files.target_days())) {
            wishes += 1;
            let (mean, peak) = size(sheet, class, *fill, days);
            wanted[0] += mean;
            wanted[1] += peak;
        }
        for_hit_rates(sheet, class);
    }
    if wishes == 0 {
        return;
    }
    for (day, sum) in ["", " if every day were the busiest"].into_iter().zip(wanted) {
        let c = input("C", "cache of each class, all together", sum, Unit::Bytes);
        let mut at = sheet.at(Section::Cache, "");
        at.line(&format!("cache for all wishes{day}"), Unit::Bytes, "C_all = C", ARITHMETIC, vec![c]);
        // A residency of many days is not filled by one busy day: the second figure is a bound, and no use.
        if let (Some(usable), "") = (usable, day) {
            at.judge(sum <= usable);
            uses.push(Use::of("cache space", day, Unit::Bytes, [sum, usable]));
        }
    }
}

fn fill(sheet: &mut Sheet, class: &ClassWorkload, flow: Flow) -> f64 {
    sheet.at(Section::Cache, &class.name).line(
        "flow into the cache",
        Unit::PerDay,
        "fill = R_tape + W",
        SDSC,
        vec![
            input("R_tape", "brought back from tape a day: (1 - h) R / w", flow.from_tape, Unit::PerDay),
            input("W", "written by users a day", class.written_per_day, Unit::PerDay),
        ],
    )
}

fn lifetime(sheet: &mut Sheet, class: &ClassWorkload, fill: f64, space: f64) {
    let mut at = sheet.at(Section::Cache, &class.name);
    let wish = class.residency_days.or(class.files.map(|files| files.target_days()));
    let c = input("C", "disk space of the class", space, Unit::Bytes);
    let f = input("f", "flow into the cache a day", fill, Unit::PerDay);
    let mean = at.line("cache lifetime", Unit::Days, "T = C / f", SDSC, vec![c.clone(), f.clone()]);
    if let Some(days) = wish {
        at.judge(mean >= days || fill == 0.0);
    }
    let p = number("p", "busiest day by mean day", class.peak);
    let least = at.line(
        "cache lifetime at the flow of the busiest day",
        Unit::Days,
        "T = C / (p * f)",
        SDSC,
        vec![c, p, f],
    );
    if let Some(days) = wish {
        at.judge(least >= days || fill == 0.0);
    }
}

fn size(sheet: &mut Sheet, class: &ClassWorkload, fill: f64, days: f64) -> (f64, f64) {
    let mut at = sheet.at(Section::Cache, &class.name);
    let d = input("T", "days that files are to stay", days, Unit::Days);
    let f = input("f", "flow into the cache a day", fill, Unit::PerDay);
    let mean =
        at.line("cache for the wanted residency", Unit::Bytes, "C = T * f", SDSC, vec![d.clone(), f.clone()]);
    let p = number("p", "busiest day by mean day", class.peak);
    let peak = at.line(
        "cache for it if every day were the busiest",
        Unit::Bytes,
        "C = T * p * f",
        SDSC,
        vec![d, p, f],
    );
    (mean, peak)
}

/// What hit rates take of the cache as files were really used.
fn for_hit_rates(sheet: &mut Sheet, class: &ClassWorkload) {
    for wish in &class.for_hit_rates {
        let percent = Unit::Share.write(wish.hit_rate);
        let mut at = sheet.at(Section::Cache, &class.name);
        let kept = format!("each file stays {} after its last use", Unit::Days.write(wish.days));
        let name = format!("cache to serve {percent} of the reads");
        at.told(&name, Unit::Bytes, wish.space, "", &kept, OWN_LOG);
    }
}
