//! Tapes, power, durability and money.

use durability::{Inputs, Method};

use super::access::Machines;
use super::bandwidth::Parts;
use super::bottleneck::Use;
use super::drives::{ARITHMETIC, DriveNeeds, Flow};
use super::line::{Input, Place, Section, Sheet, Unit, input, number};
use super::pool::code;
use super::site::{Pool, PowerOf, Price, Site, Tape};

const GIVEN: &str = "watts of the site file";
const PRICES: &str = "prices of the site file";
const HOURS_PER_YEAR: f64 = 8760.0;

/// Machines that a plan counts: those that are there, else those that are needed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Inventory {
    pub parts: Parts,
    pub drives: f64,
    pub libraries: f64,
    pub cartridges: f64,
    pub cartridges_yearly: f64,
}

/// The lines of tapes: for what is there, and what a year brings.
pub(crate) fn media(
    sheet: &mut Sheet,
    site: &Site,
    flows: &[Flow],
    tape: &Tape,
    machines: &Machines,
    needs: &DriveNeeds,
    uses: &mut Vec<Use>,
) -> (f64, Inventory) {
    let on_tape: f64 = site.classes.iter().map(|class| class.stored * f64::from(class.copies)).sum();
    let written: f64 = flows.iter().map(|flow| flow.to_tape).sum();
    let cartridges = Unit::Of("tapes");
    let c = input("c", "bytes on a tape under LTFS", machines.capacity(), Unit::Bytes);
    let f = input("f", "how full tapes get", tape.fill.ratio(), Unit::Share);
    let b = input("B", "bytes kept, each copy counted", on_tape, Unit::Bytes);
    let mut at = sheet.at(Section::Media, "");
    let now = at.line(
        "tapes for what is kept",
        cartridges,
        "n = ceil(B / (c * f))",
        ARITHMETIC,
        vec![b, c.clone(), f.clone()],
    );
    if let Some(present) = tape.cartridges {
        at.judge(now <= present.as_f64());
        uses.push(Use::of("tapes", "", Unit::Of("tapes"), [now, present.as_f64()]));
    }
    let w = input("W", "written to tape a day", written, Unit::PerDay);
    let yearly = at.line(
        "tapes a year",
        cartridges,
        "n = ceil(W * 365 / (c * f))",
        ARITHMETIC,
        vec![w, c.clone(), f.clone()],
    );
    if let Some(present) = tape.cartridges {
        until_full(&mut at, present.as_f64(), now, yearly);
    }
    let held = tape.cartridges.map_or(now, |present| present.as_f64());
    let capacity = at.line(
        "held by the tapes",
        Unit::Bytes,
        "B = n * c * f",
        ARITHMETIC,
        vec![number("n", "tapes", held), c, f],
    );
    let inventory = Inventory {
        drives: tape.drives.map_or(needs.drives_peak, |drives| drives.as_f64()),
        libraries: tape.libraries.as_f64(),
        cartridges: held,
        cartridges_yearly: yearly,
        ..Inventory::default()
    };
    (capacity, inventory)
}

fn until_full(at: &mut Place<'_>, present: f64, now: f64, yearly: f64) {
    let inputs = vec![
        number("n", "tapes that are there", present),
        number("a", "tapes for what is kept", now),
        number("y", "tapes a year", yearly),
    ];
    at.line("until the tapes are full", Unit::Days, "T = max(0, n - a) / y * 365", ARITHMETIC, inputs);
}

fn of_parts(inventory: &Inventory) -> [(&'static str, &'static str, f64); 5] {
    [
        ("a", "disks", inventory.parts.disks),
        ("b", "JBODs", inventory.parts.jbods),
        ("c", "servers", inventory.parts.servers),
        ("d", "tape drives", inventory.drives),
        ("e", "libraries", inventory.libraries),
    ]
}

fn counted(inventory: &Inventory, symbols: &[&'static str]) -> Vec<Input> {
    let parts = of_parts(inventory);
    let chosen = parts.into_iter().filter(|part| symbols.contains(&part.0));
    chosen.map(|(symbol, meaning, count)| number(symbol, meaning, count)).collect()
}

/// The lines of power; returns all watts, the building's share included.
pub(crate) fn power(
    sheet: &mut Sheet,
    power: &PowerOf,
    inventory: &Inventory,
    usable: Option<f64>,
    on_tape: f64,
) -> f64 {
    let watts =
        |symbol, meaning, value: quantity::Power| input(symbol, meaning, value.watts(), Unit::Of("W"));
    let of = Unit::Of("W");
    let mut at = sheet.at(Section::Power, "");
    let machines = vec![
        watts("P_a", "a disk", power.disk),
        watts("P_b", "a JBOD", power.jbod),
        watts("P_c", "a server", power.server),
    ];
    let inputs = [counted(inventory, &["a", "b", "c"]), machines].concat();
    let pool = at.line("pool", of, "P = a * P_a + b * P_b + c * P_c", GIVEN, inputs);
    let per = |bytes: f64| vec![number("C", "TB", bytes / 1e12)];
    let each = Unit::Of("W/TB");
    if let Some(usable) = usable {
        let p = input("P", "pool", pool, of);
        at.line("pool, a usable TB", each, "p = P / C", ARITHMETIC, [vec![p], per(usable)].concat());
    }
    let machines = vec![watts("P_d", "a drive", power.drive), watts("P_e", "a library", power.library)];
    let inputs = [counted(inventory, &["d", "e"]), machines].concat();
    let tape = at.line("drives and libraries", of, "P = d * P_d + e * P_e", GIVEN, inputs);
    if on_tape > 0.0 {
        let p = input("P", "drives and libraries", tape, of);
        at.line("tape, a TB held", each, "p = P / C", ARITHMETIC, [vec![p], per(on_tape)].concat());
    }
    at.line(
        "all, with the building",
        of,
        "P_all = (P_1 + P_2) * f",
        GIVEN,
        vec![
            input("P_1", "pool", pool, of),
            input("P_2", "drives and libraries", tape, of),
            number("f", "power of the building by that of the machines", power.pue),
        ],
    )
}

/// The lines of durability, by the model of `kist plan durability`.
pub(crate) fn durability(sheet: &mut Sheet, pool: &Pool, parts: &Parts) {
    const SOURCE: &str = "docs/reference/durability.md";
    let drives = u32::try_from(parts.disks as u64).unwrap_or(u32::MAX);
    let mut at = sheet.at(Section::Durability, "");
    if parts.bytes <= 0.0 {
        return;
    }
    let inputs = Inputs {
        afr: pool.afr.ratio(),
        drive_bytes: parts.bytes / parts.disks,
        drive_speed: parts.disk_rate / parts.disks,
        rebuild_share: pool.rebuild_share.ratio(),
        method: Method::Declustered,
        bandwidth: (parts.limit > 0.0 && parts.limit.is_finite()).then_some(parts.limit),
        scrub_hours: pool.scrub.seconds() / 3600.0,
        ..Inputs::typical(code(pool), drives)
    };
    let found = match ::durability::assess(&inputs) {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{error}");
            return at.told("durability", Unit::Of(""), f64::NAN, "", &text, SOURCE);
        }
    };
    for line in ::durability::explain(&inputs, &found) {
        let (unit, value) = match line.name {
            "rebuild of one drive" => (Unit::Of("h"), found.rebuild.hours),
            _ => continue,
        };
        at.told(line.name, unit, value, &line.formula, &line.figures, SOURCE);
    }
    at.told(
        "loss of a group a year",
        Unit::Of("a year"),
        found.windowed,
        "P = n x AFR x sum over j >= m of C(n-1, j) q^j (1-q)^(n-1-j), q = AFR x T",
        &format!("{:.3e}", found.windowed),
        SOURCE,
    );
    at.told(
        "nines of the pool keeping everything for a year",
        Unit::Of("nines"),
        found.nines_pool(),
        "-log10(1 - exp(-G x (P + Q)))",
        &format!("G = {:.0}, P = {:.3e}, Q = {:.3e}", found.groups, found.windowed, found.latent_yearly),
        SOURCE,
    );
}

/// The lines of money.
pub(crate) fn cost(sheet: &mut Sheet, price: &Price, inventory: &Inventory, watts: f64) {
    let money = |symbol, meaning, value| input(symbol, meaning, value, Unit::Money);
    let mut at = sheet.at(Section::Cost, "");
    let each = vec![
        money("p_a", "a disk", price.disk),
        money("p_b", "a JBOD", price.jbod),
        money("p_c", "a server", price.server),
    ];
    let inputs = [counted(inventory, &["a", "b", "c"]), each].concat();
    let pool = at.line("buying the pool", Unit::Money, "K = a * p_a + b * p_b + c * p_c", PRICES, inputs);
    let each = vec![money("p_d", "a tape drive", price.drive), money("p_e", "a library", price.library)];
    let inputs = [counted(inventory, &["d", "e"]), each].concat();
    let tape = at.line("buying drives and libraries", Unit::Money, "K = d * p_d + e * p_e", PRICES, inputs);
    let m = money("m", "a cartridge", price.cartridge);
    let n = number("n", "cartridges", inventory.cartridges);
    let media = at.line("cartridges for what is kept", Unit::Money, "K = n * m", PRICES, vec![n, m.clone()]);
    let n = number("n", "cartridges a year", inventory.cartridges_yearly);
    let growth = at.line("cartridges a year", Unit::Money, "K = n * m", PRICES, vec![n, m]);
    let energy = at.line(
        "energy a year",
        Unit::Money,
        "K = P / 1000 * h * e",
        PRICES,
        vec![
            input("P", "all, with the building", watts, Unit::Of("W")),
            number("h", "hours of a year", HOURS_PER_YEAR),
            money("e", "a kilowatt-hour", price.kwh),
        ],
    );
    let y = number("y", "years", price.years);
    let bought = money("K_1", "pool, drives, libraries and cartridges", pool + tape + media);
    at.line(
        "a year, all written off in so many years",
        Unit::Money,
        "K = K_1 / y + g + e",
        PRICES,
        vec![bought, y, money("g", "cartridges a year", growth), money("e", "energy a year", energy)],
    );
}
