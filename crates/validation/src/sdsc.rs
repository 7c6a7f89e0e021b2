//! SDSC, 1998: how many drives an archive keeps busy.

use super::{Basis, Case, Expectation, Measure, Of, Prediction, Tolerance, USUAL};
use planner::{Site, plan};
use scenario::Kind;

const SOURCE: &str = "SDSC HPSS configuration and tuning paper, data of November 1998";

/// A figure of the planner for one of the sites among the examples; not a number if there is none.
pub(super) fn planned(text: &str, subject: &str, name: &str) -> f64 {
    let plan = Site::parse(text).and_then(|site| plan(&site));
    plan.ok().and_then(|plan| plan.value(subject, name)).unwrap_or(f64::NAN)
}

const SITE_1998: &str = include_str!("../../../examples/sites/sdsc-1998.toml");
const SITE_100: &str = include_str!("../../../examples/sites/sdsc-100.toml");

pub(super) const CASES: &[Case] = &[
    Case {
        name: "SDSC-1998",
        text: "147 GB written and 77 GB read a day; a drive in use moves data 15 % of the time",
        source: SOURCE,
        site: "sdsc",
        inputs: &[
            (Kind::Published, "147 GB written and 77 GB read a day"),
            (Kind::Fitted, "70 MB a file (in the site's file)"),
        ],
        scenario: Some(include_str!("../cases/sdsc-1998.toml")),
        expectations: &[
            Expectation {
                what: "drives busy",
                statistic: "mean",
                published: 2.0,
                unit: "drives",
                prediction: Prediction::Simulated(Measure::BusyDrives, Of::First),
                tolerance: USUAL,
                basis: Basis::Predicted,
                note: "published: 2 drives continually busy",
            },
            Expectation {
                what: "time in which a busy drive moves data",
                statistic: "mean",
                published: 15.0,
                unit: "%",
                prediction: Prediction::Simulated(Measure::MovingPercent, Of::First),
                tolerance: USUAL,
                basis: Basis::Fitted,
                note: "the mean file size was fitted to it",
            },
            Expectation {
                what: "drives busy, formula",
                statistic: "mean",
                published: 2.0,
                unit: "drives",
                prediction: Prediction::Computed(|| {
                    planned(SITE_1998, "all", "drives busy, all traffic positioning")
                }),
                tolerance: USUAL,
                basis: Basis::Predicted,
                note: "by the planner; the reference derives 1.9",
            },
        ],
    },
    Case {
        name: "SDSC-100",
        text: "100 MB/s all day, files of the same size, cache in proportion",
        source: SOURCE,
        site: "sdsc",
        inputs: &[
            (Kind::Published, "100 MB/s, file sizes unchanged"),
            (Kind::Derived, "66 MB/s written and 34 read, as in 1998"),
            (Kind::Assumed, "120 drives and 40 robots, more than are needed; three days"),
        ],
        scenario: Some(include_str!("../cases/sdsc-100.toml")),
        expectations: &[
            Expectation {
                what: "drives busy",
                statistic: "mean",
                published: 80.0,
                unit: "drives",
                prediction: Prediction::Simulated(Measure::BusyDrives, Of::First),
                tolerance: USUAL,
                basis: Basis::Predicted,
                note: "published: at least 80",
            },
            Expectation {
                what: "drives busy, formula",
                statistic: "mean",
                published: 80.0,
                unit: "drives",
                prediction: Prediction::Computed(|| {
                    planned(SITE_100, "all", "drives busy, all traffic positioning")
                }),
                tolerance: Tolerance::Range(72.0, 88.0),
                basis: Basis::Predicted,
                note: "by the planner; the reference derives 74 and 77",
            },
        ],
    },
];
