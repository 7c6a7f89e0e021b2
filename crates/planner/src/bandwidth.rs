//! What JBODs and servers carry, and which part of each holds it up.

use super::line::{Place, Section, Sheet, Unit, input, number};
use super::site::{Attach, Jbod, Server};

const KISTI: &str = "KISTI, DOMA-QoS 2020; reference 2.3";
const EXTENDED: &str = "reference, pool (f): 128b/130b of 16 and 32 GT/s";
const GIVEN: &str = "the site file";

/// Raw bytes a second of a lane, by generation: 250 and 500 MB/s, 1000 as KISTI counts the third, and 128/130
/// of 16 and 32 GT/s.
const PCIE_LANE: [f64; 5] = [250e6, 500e6, 1000e6, 16e9 / 8.0 * 128.0 / 130.0, 32e9 / 8.0 * 128.0 / 130.0];

/// What one adapter and the JBODs behind it carry.
#[derive(Clone, PartialEq, Debug)]
pub struct PathLimit {
    /// The smallest of all limits, bytes per second.
    pub limit: f64,
    /// The part that sets it: `SAS`, `PCIe`, `disks` or `adapter`.
    pub part: &'static str,
    /// Disks whose sequential rate the path without them carries; rounded down.
    pub disks_carried: f64,
}

/// The machines of a pool, counted, and what they carry.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Parts {
    pub servers: f64,
    pub jbods: f64,
    pub disks: f64,
    /// Raw bytes; 0 where no size is given.
    pub bytes: f64,
    /// Sum of the disks' sequential rates.
    pub disk_rate: f64,
    /// Seconds of seek, of all disks together.
    pub seek: f64,
    /// What servers with all their limits carry.
    pub limit: f64,
}

/// The limit of one adapter and its JBODs: `min(lanes x lane rate x 0.8 x 11/12, 0.80 x PCIe, disks x rate)`.
#[must_use]
pub fn path_limit(jbod: &Jbod) -> PathLimit {
    path(&mut Sheet::default(), "", jbod)
}

/// The lines of all servers, and what they come to.
pub(crate) fn bandwidth(sheet: &mut Sheet, servers: &[Server]) -> Parts {
    let mut parts = Parts::default();
    for server in servers {
        let count = server.count.as_f64();
        for jbod in &server.jbod {
            let jbods = count * jbod.count.as_f64() * jbod.chained.as_f64();
            let disks = jbods * jbod.disks.as_f64();
            parts.jbods += jbods;
            parts.disks += disks;
            parts.bytes += disks * jbod.disk_size.map_or(0.0, |size| size.as_f64());
            parts.disk_rate += disks * jbod.disk_rate.0;
            parts.seek += disks * jbod.disk_seek.seconds();
        }
        parts.servers += count;
        parts.limit += count * one_server(sheet, server);
    }
    if parts.limit > 0.0 {
        let limit = input("S", "limits of all servers together", parts.limit, Unit::Rate);
        sheet.at(Section::Bandwidth, "").line(
            "what the pool carries",
            Unit::Rate,
            "B = S",
            KISTI,
            vec![limit],
        );
    }
    parts
}

/// The smallest limit, and whose it is.
fn least(limits: &[(&'static str, f64)]) -> (&'static str, f64) {
    let none = ("nothing", f64::INFINITY);
    limits.iter().copied().fold(none, |least, limit| if limit.1 < least.1 { limit } else { least })
}

fn path(sheet: &mut Sheet, server: &str, jbod: &Jbod) -> PathLimit {
    let subject = format!("{server}/{}", jbod.name);
    let mut at = sheet.at(Section::Bandwidth, &subject);
    let (limits, rate) = before_disks(&mut at, jbod);
    let count = jbod.disks.as_f64() * jbod.chained.as_f64();
    let n = number("n", "disks behind the adapter", count);
    let r = input("r", "sequential rate of a disk", rate, Unit::Rate);
    let disks = at.line("disks", Unit::Rate, "D = n * r", KISTI, vec![n, r.clone()]);
    let (before, without) = least(&limits);
    let carried = input("B", &format!("limit by {before}"), without, Unit::Rate);
    let disks_carried = at.line(
        "disks that it carries at full rate",
        Unit::Of("disks"),
        "n = floor(B / r)",
        KISTI,
        vec![carried.clone(), r],
    );
    let (part, _) = least(&[limits.as_slice(), &[("disks", disks)]].concat());
    let limit = at.line(
        &format!("limit of the path: {part}"),
        Unit::Rate,
        "B_path = min(B, D)",
        KISTI,
        vec![carried, input("D", "all disks", disks, Unit::Rate)],
    );
    PathLimit { limit, part, disks_carried }
}

/// The limits between the disks and the server, and what a disk gives through lanes of its own.
fn before_disks(at: &mut Place<'_>, jbod: &Jbod) -> (Vec<(&'static str, f64)>, f64) {
    let lane = PCIE_LANE[(jbod.pcie.clamp(1, 5) - 1) as usize];
    let raw_lane = input("g", "raw rate of a PCIe lane", lane, Unit::Rate);
    let slot = at.line(
        &format!("PCIe {} x{}", jbod.pcie, jbod.pcie_lanes),
        Unit::Rate,
        "P = 0.8 * g * L",
        if jbod.pcie > 3 { EXTENDED } else { KISTI },
        vec![raw_lane.clone(), number("L", "lanes of the slot", jbod.pcie_lanes.as_f64())],
    );
    let lanes = number("L", "lanes", jbod.lanes.as_f64());
    let mut rate = jbod.disk_rate.0;
    let mut limits = vec![("PCIe", slot)];
    match jbod.attach {
        Attach::Sas => {
            let raw = input("r", "raw rate of a SAS lane", jbod.lane_rate.0, Unit::Rate);
            let name = format!("SAS x{}", jbod.lanes);
            limits.push((
                "SAS",
                at.line(&name, Unit::Rate, "B = L * r * 0.8 * 11 / 12", KISTI, vec![lanes, raw]),
            ));
        }
        Attach::Nvme => {
            let inputs = vec![input("d", "a disk by itself", rate, Unit::Rate), raw_lane, lanes];
            rate = at.line("a disk with its lanes", Unit::Rate, "r = min(d, 0.8 * g * L)", EXTENDED, inputs);
        }
    }
    if let Some(adapter) = jbod.adapter_rate {
        let given = input("a", "what the adapter can do", adapter.0, Unit::Rate);
        limits.push(("adapter", at.line("adapter", Unit::Rate, "A = a", GIVEN, vec![given])));
    }
    (limits, rate)
}

fn one_server(sheet: &mut Sheet, server: &Server) -> f64 {
    let paths: f64 =
        server.jbod.iter().map(|jbod| jbod.count.as_f64() * path(sheet, &server.name, jbod).limit).sum();
    let mut limits = Vec::new();
    if !server.jbod.is_empty() {
        limits.push(("paths to the disks", paths));
    }
    limits.extend(server.network.map(|rate| ("network", rate.0)));
    limits.extend(server.erasure_rate.map(|rate| ("erasure coding", rate.0)));
    limits.extend(server.memory_rate.map(|rate| ("memory", rate.0)));
    if limits.is_empty() {
        return 0.0;
    }
    let (part, _) = least(&limits);
    let mut at = sheet.at(Section::Bandwidth, &server.name);
    let of = |index: usize| limits.get(index).map_or(f64::INFINITY, |limit| limit.1);
    let symbols = ["a", "b", "c", "d"];
    let inputs = symbols.into_iter().zip(0..4).map(|(symbol, index)| {
        input(symbol, limits.get(index).map_or("none", |limit| limit.0), of(index), Unit::Rate)
    });
    let formula = match limits.len() {
        1 => "B_server = min(a)",
        2 => "B_server = min(a, b)",
        3 => "B_server = min(a, b, c)",
        _ => "B_server = min(a, b, c, d)",
    };
    let inputs = inputs.take(limits.len()).collect();
    at.line(&format!("limit of the server: {part}"), Unit::Rate, formula, KISTI, inputs)
}
