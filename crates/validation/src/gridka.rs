//! GridKa, 2018 to 2019: recalls and migrations through dCache, TSS and Spectrum Protect.

use super::{Basis, Case, Expectation, Measure, Of, Prediction, Tolerance, USUAL};
use scenario::Kind;

const SOURCE: &str = "GridKa tape performance paper (2020)";
const MB: f64 = 1e6;

const fn rate(
    what: &'static str,
    statistic: &'static str,
    published_mb: f64,
    measure: Measure,
    of: Of,
    basis: Basis,
    note: &'static str,
) -> Expectation {
    Expectation {
        what,
        statistic,
        published: published_mb * MB,
        unit: "B/s",
        prediction: Prediction::Simulated(measure, of),
        tolerance: USUAL,
        basis,
        note,
    }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "GK-queue",
        text: "the same files, drives and parameters; 2,000 requests known at a time against 30,000",
        source: SOURCE,
        site: "gridka",
        inputs: &[
            (Kind::Published, "2,000 and 30,000 requests known at a time; all else the same"),
            (
                Kind::Fitted,
                "7 drives, data sets of 2 files (both in the site's file), 180,000 files in the archive",
            ),
            (Kind::Assumed, "60,000 files asked for, whole data sets in any order"),
        ],
        scenario: Some(include_str!("../cases/gk-queue.toml")),
        expectations: &[
            rate(
                "all drives, 2,000 requests known",
                "mean of the run",
                400.0,
                Measure::ReadRateMean,
                Of::Variant("2000"),
                Basis::Fitted,
                "ATLAS tape carousel test of 2018, production path",
            ),
            rate(
                "all drives, 30,000 requests known",
                "mean of the run",
                600.0,
                Measure::ReadRateMean,
                Of::Variant("30000"),
                Basis::Fitted,
                "stand-alone TSS, which sorts the whole list",
            ),
            Expectation {
                what: "30,000 against 2,000",
                statistic: "ratio of means",
                published: 1.5,
                unit: "",
                prediction: Prediction::Simulated(Measure::ReadRateMean, Of::Ratio("30000", "2000")),
                tolerance: Tolerance::Range(1.4, 1.6),
                basis: Basis::Fitted,
                note: "the range is the reference's",
            },
            Expectation {
                what: "mounts with 2,000 against 30,000",
                statistic: "ratio of counts",
                published: 1.5,
                unit: "",
                prediction: Prediction::Simulated(Measure::Mounts, Of::Ratio("2000", "30000")),
                tolerance: Tolerance::AtLeast(1.5),
                basis: Basis::Derived,
                note: "not published; derived: the gain must come from fewer mounts and better order",
            },
        ],
    },
    Case {
        name: "GK-dup",
        text: "27,079 files of 10 tapes, some of which have newer copies elsewhere",
        source: SOURCE,
        site: "gridka",
        inputs: &[
            (Kind::Published, "27,079 files on 10 tapes, 58 tapes mounted where 10 were expected"),
            (Kind::Derived, "48 other tapes with newer copies; 1.9 GB a file, so that 10 tapes hold them"),
            (Kind::Assumed, "2 % of the files have a newer copy"),
        ],
        scenario: Some(include_str!("../cases/gk-dup.toml")),
        expectations: &[
            Expectation {
                what: "tapes mounted, newest copy",
                statistic: "count",
                published: 58.0,
                unit: "tapes",
                prediction: Prediction::Simulated(Measure::TapesMounted, Of::Variant("newest-copy")),
                tolerance: Tolerance::Absolute(0.0),
                basis: Basis::Fitted,
                note: "the number of other tapes is made of it",
            },
            Expectation {
                what: "tapes mounted, copies chosen",
                statistic: "count",
                published: 10.0,
                unit: "tapes",
                prediction: Prediction::Simulated(Measure::TapesMounted, Of::Variant("chosen")),
                tolerance: Tolerance::Absolute(0.0),
                basis: Basis::Predicted,
                note: "what GridKa had expected",
            },
        ],
    },
    Case {
        name: "GK-tape10",
        text: "every file of 10 tapes with 10 drives, in the order on tape: 25,997 files of 2.0 GB",
        source: SOURCE,
        site: "gridka",
        inputs: &[
            (Kind::Published, "25,997 files, 10 tapes, 10 drives, mean 2.0 GB"),
            (Kind::Fitted, "5 s lost a file (in the site's file)"),
        ],
        scenario: Some(include_str!("../cases/gk-tape10.toml")),
        expectations: &[rate(
            "all drives",
            "maximum of 10 minutes",
            1_500.0,
            Measure::ReadRateMax,
            Of::First,
            Basis::Fitted,
            "the overhead of each file was fitted on this case",
        )],
    },
    Case {
        name: "GK-tape6",
        text: "every file of 6 tapes with 6 drives, in the order on tape: 15,536 files of 2.0 GB",
        source: SOURCE,
        site: "gridka",
        inputs: &[(Kind::Published, "15,536 files, 6 tapes, 6 drives, mean 2.0 GB")],
        scenario: Some(include_str!("../cases/gk-tape6.toml")),
        expectations: &[rate(
            "all drives",
            "maximum of 10 minutes",
            900.0,
            Measure::ReadRateMax,
            Of::First,
            Basis::Predicted,
            "nothing was changed but tapes, files and drives",
        )],
    },
    Case {
        name: "GK-small-write",
        text: "files below 1.0 GB written with 8 drives",
        source: SOURCE,
        site: "gridka",
        inputs: &[
            (Kind::Published, "8 drives, files below 1.0 GB"),
            (Kind::Fitted, "200 to 490 MB, alike by 4,000 files (in the site's file)"),
            (Kind::Assumed, "60,000 files come within three hours"),
        ],
        scenario: Some(include_str!("../cases/gk-small-write.toml")),
        expectations: &[
            rate(
                "all drives",
                "maximum of 10 minutes",
                775.0,
                Measure::WriteRateMax,
                Of::First,
                Basis::Fitted,
                "",
            ),
            rate(
                "all drives (8 × 75)",
                "mean from the first byte to the last",
                600.0,
                Measure::WriteRateMean,
                Of::First,
                Basis::Fitted,
                "published for one drive: about 75 MB/s",
            ),
        ],
    },
    Case {
        name: "GK-small-read",
        text: "files below 1.0 GB read with 8 drives",
        source: SOURCE,
        site: "gridka",
        inputs: &[
            (Kind::Published, "8 drives, files below 1.0 GB"),
            (Kind::Fitted, "11 tapes of 1.8 TB, 85 of 100 files of each"),
        ],
        scenario: Some(include_str!("../cases/gk-small-read.toml")),
        expectations: &[
            rate(
                "all drives",
                "maximum of 10 minutes",
                400.0,
                Measure::ReadRateMax,
                Of::First,
                Basis::Fitted,
                "",
            ),
            rate(
                "all drives (8 × 30)",
                "mean of the run",
                240.0,
                Measure::ReadRateMean,
                Of::First,
                Basis::Fitted,
                "published for one drive: about 30 MB/s",
            ),
        ],
    },
];
