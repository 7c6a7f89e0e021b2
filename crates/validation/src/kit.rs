//! KIT: aggregates on tape, and three caches in front of the drives.

use super::sdsc::planned;
use super::{Basis, Case, Expectation, Measure, Of, Prediction, Tolerance, USUAL};
use scenario::Kind;

const SOURCE: &str = "KIT tape-cache case study (about 2024)";
const SITE: &str = include_str!("../../../examples/sites/kit.toml");

const fn simulated(
    what: &'static str,
    statistic: &'static str,
    published: f64,
    unit: &'static str,
    measure: Measure,
    variant: Of,
    note: &'static str,
) -> Expectation {
    let prediction = Prediction::Simulated(measure, variant);
    Expectation {
        what,
        statistic,
        published,
        unit,
        prediction,
        tolerance: USUAL,
        basis: Basis::Predicted,
        note,
    }
}

const fn computed(
    what: &'static str,
    published: f64,
    unit: &'static str,
    compute: fn() -> f64,
    tolerance: Tolerance,
) -> Expectation {
    let prediction = Prediction::Computed(compute);
    let basis = Basis::Derived;
    Expectation {
        what,
        statistic: "count",
        published,
        unit,
        prediction,
        tolerance,
        basis,
        note: "derived by the reference",
    }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "KIT-drive",
        text: "HPSS writes and reads aggregates of 300 GB",
        source: SOURCE,
        site: "kit",
        inputs: &[
            (Kind::Published, "aggregates of 300 GB"),
            (Kind::Assumed, "100 TB written, 20,000 files recalled, 16 drives"),
        ],
        scenario: Some(include_str!("../cases/kit-drive.toml")),
        expectations: &[
            simulated(
                "a drive writing",
                "mean of sessions",
                380e6,
                "B/s",
                Measure::SessionWriteRate,
                Of::First,
                "",
            ),
            simulated(
                "a drive reading",
                "mean of sessions",
                400e6,
                "B/s",
                Measure::SessionReadRate,
                Of::First,
                "",
            ),
        ],
    },
    Case {
        name: "KIT-cache",
        text: "what the cache moves for each byte on tape",
        source: SOURCE,
        site: "kit",
        inputs: &[
            (Kind::Published, "two reads and a write on the way to tape, one and one on the way back"),
            (Kind::Assumed, "two copies; data sets recalled and read once"),
        ],
        scenario: Some(include_str!("../cases/kit-traffic.toml")),
        expectations: &[
            simulated(
                "reads for each byte archived",
                "ratio",
                2.0,
                "",
                Measure::PoolReadPerArchived,
                Of::Variant("archive"),
                "two copies",
            ),
            simulated(
                "writes for each byte archived",
                "ratio",
                1.0,
                "",
                Measure::PoolWrittenPerArchived,
                Of::Variant("archive"),
                "",
            ),
            simulated(
                "reads for each byte recalled",
                "ratio",
                1.0,
                "",
                Measure::PoolReadPerRecalled,
                Of::Variant("recall"),
                "",
            ),
            simulated(
                "writes for each byte recalled",
                "ratio",
                1.0,
                "",
                Measure::PoolWrittenPerRecalled,
                Of::Variant("recall"),
                "",
            ),
            computed(
                "drives that 25 GB/s of migration feed",
                65.0,
                "drives",
                || planned(SITE, "", "drives fed, one copy at a time"),
                Tolerance::Absolute(0.0),
            ),
            computed(
                "drives that 25 GB/s of recalls drain",
                62.0,
                "drives",
                || planned(SITE, "", "drives drained by recalls"),
                Tolerance::Absolute(0.0),
            ),
        ],
    },
    Case {
        name: "KIT-systems",
        text: "two of the caches under saturating clients",
        source: SOURCE,
        site: "kit",
        inputs: &[
            (
                Kind::Published,
                "120 disks of 8 TB; 10 NVMe drives of 7 GB/s, RAID 6, 4 x 100 Gbit/s; 70 and 67 % reads",
            ),
            (Kind::Assumed, "180 MB/s, 12.7 ms and 256 KiB a disk, 1,000 streams; 150 clients of 4 Gbit/s"),
        ],
        scenario: Some(include_str!("../cases/kit-systems.toml")),
        expectations: &[
            simulated(
                "E5700, 120 HDDs: 1,000 random streams, 70 % reads",
                "mean",
                2e9,
                "B/s",
                Measure::ClientRateMean,
                Of::Variant("hdd"),
                "the size of a request is assumed; the published peak of 6 GB/s is of an unpublished load",
            ),
            simulated(
                "10 NVMe, RAID 6: reads",
                "mean",
                50e9,
                "B/s",
                Measure::ClientReadRate,
                Of::Variant("nvme"),
                "published: above 50, constantly",
            ),
            simulated(
                "10 NVMe, RAID 6: writes beside them",
                "mean",
                25e9,
                "B/s",
                Measure::ClientWriteRate,
                Of::Variant("nvme"),
                "published: above 25",
            ),
        ],
    },
];
