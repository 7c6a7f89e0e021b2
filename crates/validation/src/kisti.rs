//! KISTI, 2020: which part of the path to a JBOD's disks holds it up.

use super::{Basis, Case, Expectation, Prediction, Tolerance, USUAL};
use planner::{PathLimit, Site, path_limit};
use scenario::Kind;

/// What a disk of 15,000 revolutions moves, MB/s.
const HDD: f64 = 230.0;
/// An SSD, MB/s: what the published counts come to.
const SSD: f64 = 500.0;

const fn limit(what: &'static str, published_mb: f64, compute: fn() -> f64) -> Expectation {
    Expectation {
        what,
        statistic: "limit of the path",
        published: published_mb * 1e6,
        unit: "B/s",
        prediction: Prediction::Computed(compute),
        tolerance: USUAL,
        basis: Basis::Fitted,
        note: "the share of a lane's raw rate is made of the SAS rows",
    }
}

const fn disks(
    what: &'static str,
    statistic: &'static str,
    published: f64,
    compute: fn() -> f64,
) -> Expectation {
    Expectation {
        what,
        statistic,
        published,
        unit: "disks",
        prediction: Prediction::Computed(compute),
        tolerance: Tolerance::Absolute(1.0),
        basis: Basis::Predicted,
        note: "the published counts follow no single rounding",
    }
}

/// The path of a host bus adapter with so many SAS lanes in a slot of 8 lanes, before more disks than it can
/// carry.
fn path(lanes: u32, gigabits: f64, pcie: u32, disk_mb: f64) -> Option<PathLimit> {
    let text = format!(
        "name = \"x\"\n[[server]]\nname = \"s\"\n[[server.jbod]]\nname = \"j\"\ndisks = 1000\n\
         disk_rate = \"{disk_mb}MB/s\"\nlanes = {lanes}\nlane_rate = \"{gigabits}Gb/s\"\npcie = {pcie}"
    );
    let site = Site::parse(&text).ok()?;
    Some(path_limit(site.servers.first()?.jbod.first()?))
}

fn carried(lanes: u32, gigabits: f64, pcie: u32, disk_mb: f64) -> f64 {
    path(lanes, gigabits, pcie, disk_mb).map_or(f64::NAN, |path| path.disks_carried)
}

fn rate(lanes: u32, gigabits: f64, pcie: u32) -> f64 {
    path(lanes, gigabits, pcie, HDD).map_or(f64::NAN, |path| path.limit)
}

pub(super) const CASES: &[Case] = &[Case {
    name: "KISTI",
    text: "SAS lanes, a PCIe slot of 8 lanes, disks: the least of the three",
    source: "KISTI, JBOD archive, DOMA-QoS workshop (2020)",
    site: "kisti",
    inputs: &[
        (Kind::Published, "lanes, generations of PCIe, 230 MB/s a disk"),
        (Kind::Derived, "11/12 of a SAS lane's raw rate, 80 % of PCIe; 500 MB/s an SSD"),
    ],
    scenario: None,
    expectations: &[
        limit("6 Gb/s x4, PCIe 2", 2200.0, || rate(4, 6.0, 2)),
        disks("6 Gb/s x4, PCIe 2", "HDDs", 9.0, || carried(4, 6.0, 2, HDD)),
        disks("6 Gb/s x4, PCIe 2", "SSDs", 4.0, || carried(4, 6.0, 2, SSD)),
        limit("6 Gb/s x8, PCIe 2", 3200.0, || rate(8, 6.0, 2)),
        disks("6 Gb/s x8, PCIe 2", "HDDs", 14.0, || carried(8, 6.0, 2, HDD)),
        disks("6 Gb/s x8, PCIe 2", "SSDs", 6.0, || carried(8, 6.0, 2, SSD)),
        limit("12 Gb/s x4, PCIe 2", 3200.0, || rate(4, 12.0, 2)),
        disks("12 Gb/s x4, PCIe 2", "HDDs", 14.0, || carried(4, 12.0, 2, HDD)),
        disks("12 Gb/s x4, PCIe 2", "SSDs", 6.0, || carried(4, 12.0, 2, SSD)),
        limit("12 Gb/s x4, PCIe 3", 4400.0, || rate(4, 12.0, 3)),
        disks("12 Gb/s x4, PCIe 3", "HDDs", 19.0, || carried(4, 12.0, 3, HDD)),
        disks("12 Gb/s x4, PCIe 3", "SSDs", 8.0, || carried(4, 12.0, 3, SSD)),
        limit("12 Gb/s x8, PCIe 3", 6400.0, || rate(8, 12.0, 3)),
        disks("12 Gb/s x8, PCIe 3", "HDDs", 28.0, || carried(8, 12.0, 3, HDD)),
        disks("12 Gb/s x8, PCIe 3", "SSDs", 12.0, || carried(8, 12.0, 3, SSD)),
        Expectation {
            what: "12 Gb/s x8, PCIe 3, disks of 170 MB/s",
            statistic: "HDDs",
            published: 37.0,
            unit: "disks",
            prediction: Prediction::Computed(|| carried(8, 12.0, 3, 170.0)),
            tolerance: Tolerance::Absolute(1.0),
            basis: Basis::Derived,
            note: "published: 56, which leaves the PCIe slot out; the reference corrects it to 37",
        },
    ],
}];
