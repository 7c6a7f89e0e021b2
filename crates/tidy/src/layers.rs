//! Which way dependencies point.

use crate::package::{DependencyKind, Package};

/// The layers, lowest first, and the crates of each in order. A crate may depend on lower layers and on the
/// crates before it in its own layer.
pub const LAYERS: [(&str, &[&str]); 9] = [
    ("words", &["base", "quantity"]),
    (
        CORES,
        &[
            "erasure",
            "cluster",
            "durability",
            "kinetic",
            "kineticio",
            "ltfs",
            "mechanics",
            "scsi",
            "topology",
            "session",
            "scheduler",
            "usage",
            "identity",
            "catalogue",
        ],
    ),
    ("twin", &["planner", "scenario", "report", "twin", "sample", "replay", "validation"]),
    (
        "drivers",
        &[
            "threads",
            "store",
            "drive",
            "valuelog",
            "kinetic_client",
            "kinetic_drive",
            "location",
            "drive_server",
            "kinetic_import",
            "disk_load",
            "iscsi",
            "sgio",
            "probe",
            "library",
            "vtl",
            "acceptance",
        ],
    ),
    (
        "engine",
        &[
            "blob",
            "pool",
            "mover",
            "journal",
            "backup",
            "ground",
            "namespace",
            "upkeep",
            "ingest",
            "settle",
            "mounts",
            "tape",
            "archive",
            "authority",
        ],
    ),
    ("below the doors", &["wire", "transfer", "entrance", "tpc"]),
    (DOORS, &["s3", "webdav", "tape-rest", "xrootd", "door"]),
    ("program", &["terminal", "client", "config", "bench", "kist"]),
    ("tests", &TEST_CRATES),
];

/// The layers whose crates do not depend on each other, but for [`CORE_PAIRS`].
const CORES: &str = "cores";
const DOORS: &str = "doors";

/// Dependencies of one core on another, each with its reason.
const CORE_PAIRS: [(&str, &str, &str); 6] = [
    ("kineticio", "erasure", "what libkineticio coded with ISA-L is decoded"),
    ("topology", "scsi", "what disks and enclosures answered is read with the types of their standards"),
    ("durability", "cluster", "the simulation runs over the groups that the placement makes"),
    ("session", "mechanics", "an order of reading is costed with the drive's own model"),
    ("scheduler", "mechanics", "what a tape is worth is costed with the drive's own model"),
    ("scheduler", "session", "a forecast times what sessions do"),
];

/// Crates that know no others of ours but these, tests included, each with its reason.
const NARROW: [(&str, &[&str], &str); 3] = [
    ("terminal", &["base"], "what a command says is not about servers"),
    ("client", &["base", "wire", "terminal"], "a client runs where nothing of a server is"),
    ("tpc", &["base"], "what speaks to strangers' servers does not reach the engine"),
];

/// Crates that exist for tests alone: only those behind them in this list may depend on them, and they may
/// ask for faults.
const TEST_CRATES: [&str; 4] = ["fuzz", "simulator", "torture", "black_box"];

/// Crates outside of the layers: nothing depends on them, and they depend on nothing of the workspace.
const TOOLS: [&str; 1] = ["tidy"];

/// Crates from elsewhere that only some of ours may depend on: HTTP, JSON, XML and the async runtime stay in
/// the doors, one core knows protobuf, one driver the embedded engine, one the kernel's queues. The program
/// runs the door's runtime and speaks JSON as a client. The mechanics read the data files of drives and
/// media, planner and scenario what is asked of planner and twin.
const OUTSIDE: [(&str, &[&str]); 18] = [
    ("axum", &["door"]),
    ("heed", &["store"]),
    ("hmac", &["kinetic"]),
    ("axum-core", &["entrance"]),
    ("http", &["door", "s3", "tape-rest", "entrance", "webdav", "tpc"]),
    ("http-body-util", &["door", "s3", "tape-rest", "transfer", "webdav", "tpc"]),
    ("hyper", &["door", "s3", "tape-rest", "transfer", "entrance", "webdav", "tpc"]),
    ("hyper-util", &["door", "tpc"]),
    ("io-uring", &["drive", "disk_load"]),
    ("prost", &["kinetic"]),
    ("quick-xml", &["ltfs", "door", "webdav"]),
    ("rustls", &["door", "client", "tpc", "kinetic_client", "drive_server"]),
    ("s3s", &["s3"]),
    (
        "serde",
        &[
            "wire",
            "door",
            "s3",
            "webdav",
            "tape-rest",
            "xrootd",
            "entrance",
            "kist",
            "mechanics",
            "scsi",
            "quantity",
            "planner",
            "scenario",
            "report",
            "sample",
            "replay",
            "validation",
            "terminal",
            "client",
            "config",
            "bench",
            "identity",
            "authority",
            "kineticio",
            "fuzz",
        ],
    ),
    (
        "serde_json",
        &[
            "wire",
            "entrance",
            "door",
            "s3",
            "tape-rest",
            "webdav",
            "xrootd",
            "terminal",
            "client",
            "bench",
            "kist",
            "tidy",
            "torture",
            "identity",
            "authority",
            "kineticio",
            "black_box",
        ],
    ),
    ("tokio", &["door", "s3", "tape-rest", "webdav", "transfer", "entrance", "kist", "tpc"]),
    ("tokio-rustls", &["door", "tpc"]),
    ("toml", &["mechanics", "quantity", "planner", "scenario", "config", "authority", "kist", "tidy"]),
];

/// The crates with fault injection, bugs on purpose or a simulated world, and the features that turn them on.
const FAULTS: [(&str, &str); 4] =
    [("library", "faults"), ("vtl", "faults"), ("base", "planted"), ("threads", "simulated")];

fn rank(name: &str) -> Option<(usize, usize)> {
    LAYERS.iter().enumerate().find_map(|(layer, (_, crates))| {
        crates.iter().position(|known| *known == name).map(|place| (layer, place))
    })
}

/// Crates of no layer, and dependencies between crates of the workspace that point the wrong way. Tests of a
/// crate are bound like the crate itself.
#[must_use]
pub fn check_layers(packages: &[Package]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in packages {
        let from = &package.name;
        let is_tool = TOOLS.contains(&from.as_str());
        let Some(rank_from) = rank(from).or(is_tool.then_some((0, 0))) else {
            violations.push(format!("crate {from} is in no layer: give it one in crates/tidy/src/layers.rs"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.is_ours) {
            let to = &dependency.name;
            let allowed = match rank(to) {
                Some(_) if is_tool => false,
                // Its own tests turn on one of its own features.
                Some(_) if to == from => dependency.kind == DependencyKind::Dev,
                Some(rank_to)
                    if rank_to.0 == rank_from.0 && [CORES, DOORS].contains(&LAYERS[rank_to.0].0) =>
                {
                    CORE_PAIRS.iter().any(|(one, other, _)| one == from && other == to)
                }
                Some(rank_to) => rank_to < rank_from,
                None => false,
            };
            if !allowed {
                violations.push(format!("crate {from} depends on {to}, which is not below it"));
            }
            let narrow = NARROW.iter().find(|(name, known, _)| name == from && !known.contains(&to.as_str()));
            if let Some((_, known, why)) = narrow {
                violations.push(format!(
                    "crate {from} depends on {to}: it knows only {} ({why})",
                    known.join(", ")
                ));
            }
        }
    }
    violations
}

/// Dependencies on crates from elsewhere that belong into other crates of ours.
#[must_use]
pub fn check_outside(packages: &[Package]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_ours) {
            let rule = OUTSIDE.iter().find(|(name, _)| *name == dependency.name);
            if let Some((name, homes)) = rule.filter(|(_, homes)| !homes.contains(&package.name.as_str())) {
                let message =
                    format!("crate {} depends on {name}: only {} may", package.name, homes.join(", "));
                violations.push(message);
            }
        }
    }
    violations
}

/// Ways in which fault injection would get into a released program: a crate that asks for the feature outside
/// of its tests, a feature that turns it on, or a default of the crate itself.
#[must_use]
pub fn check_faults(packages: &[Package]) -> Vec<String> {
    FAULTS.iter().flat_map(|(owner, feature)| check_fault(packages, owner, feature)).collect()
}

fn check_fault(packages: &[Package], owner: &str, feature: &str) -> Vec<String> {
    let full = [format!("{owner}/{feature}"), format!("{owner}?/{feature}")];
    let mut violations = Vec::new();
    for package in packages.iter().filter(|package| !TEST_CRATES.contains(&package.name.as_str())) {
        let name = &package.name;
        for dependency in &package.dependencies {
            let asks = dependency.name == owner && dependency.features.iter().any(|f| f == feature);
            if asks && dependency.kind != DependencyKind::Dev {
                violations
                    .push(format!("crate {name} asks for {owner}/{feature} outside of its dev-dependencies"));
            }
        }
        for (own, on) in &package.features {
            let reaches = on.iter().any(|f| full.contains(f) || (name == owner && f == feature));
            if reaches {
                violations.push(format!("feature {own} of crate {name} turns on {owner}/{feature}"));
            }
        }
    }
    violations
}

/// Crates from elsewhere that the page on dependencies, a Markdown table with each name as `` `name` ``, does
/// not explain.
#[must_use]
pub fn undocumented(packages: &[Package], page: &str) -> Vec<String> {
    let mut names: Vec<&str> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| !dependency.is_ours)
        .map(|dependency| dependency.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let missing = names.into_iter().filter(|name| !page.contains(&format!("`{name}`")));
    missing.map(|name| format!("{name} is used and not explained in docs/dependencies.md")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Dependency;

    fn ours(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            kind: DependencyKind::Normal,
            is_ours: true,
            features: Vec::new(),
        }
    }

    fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
        Package { name: name.to_owned(), dependencies, features: Vec::new() }
    }

    fn layers(name: &str, on: &str) -> usize {
        check_layers(&[package(name, vec![ours(on)])]).len()
    }

    #[test]
    fn dependencies_point_down() {
        let good = [
            ("catalogue", "base"),
            ("store", "catalogue"),
            ("mover", "blob"),
            ("pool", "blob"),
            ("archive", "mover"),
            ("archive", "backup"),
            ("upkeep", "namespace"),
            ("tape", "ingest"),
            ("tape", "settle"),
            ("archive", "tape"),
            ("kist", "door"),
            ("s3", "transfer"),
            ("xrootd", "transfer"),
            ("transfer", "authority"),
            ("durability", "cluster"),
        ];
        for (name, on) in good {
            assert_eq!(layers(name, on), 0, "{name} on {on}");
        }
        let bad = [
            ("base", "erasure"),
            ("cluster", "erasure"),
            ("cluster", "durability"),
            ("durability", "erasure"),
            ("kinetic", "ltfs"),
            ("catalogue", "store"),
            ("pool", "mover"),
            ("blob", "pool"),
            ("archive", "door"),
            ("backup", "archive"),
            ("ground", "namespace"),
            ("ingest", "tape"),
            ("tape", "archive"),
            ("settle", "tape"),
            ("door", "kist"),
            ("door", "s3"),
            ("xrootd", "door"),
            ("s3", "door"),
            ("transfer", "s3"),
            ("drive", "library"),
            ("tidy", "base"),
            ("kist", "tidy"),
            ("pool", "pool"),
        ];
        for (name, on) in bad {
            assert_eq!(layers(name, on), 1, "{name} on {on}");
        }
    }

    #[test]
    fn a_client_knows_nothing_of_the_server() {
        for on in ["base", "wire", "terminal"] {
            assert_eq!(layers("client", on), 0, "client on {on}");
        }
        for on in ["archive", "door", "catalogue"] {
            assert_eq!(layers("client", on), 1, "client on {on}");
        }
        assert_eq!(layers("terminal", "wire"), 1);
    }

    #[test]
    fn a_new_crate_needs_a_layer() {
        assert_eq!(check_layers(&[package("util", vec![])]).len(), 1);
    }

    #[test]
    fn tests_are_bound_too() {
        let dependency = Dependency { kind: DependencyKind::Dev, ..ours("archive") };
        assert_eq!(check_layers(&[package("pool", vec![dependency])]).len(), 1);
        let own = |kind| vec![Dependency { kind, ..ours("vtl") }];
        assert_eq!(check_layers(&[package("vtl", own(DependencyKind::Dev))]).len(), 0, "for its features");
        assert_eq!(check_layers(&[package("vtl", own(DependencyKind::Normal))]).len(), 1);
    }

    #[test]
    fn http_json_and_the_engine_stay_at_home() {
        let outside = |name: &str, on: &str| {
            check_outside(&[package(name, vec![Dependency { is_ours: false, ..ours(on) }])]).len()
        };
        for (name, on) in
            [("door", "hyper"), ("store", "heed"), ("kist", "serde_json"), ("archive", "tracing")]
        {
            assert_eq!(outside(name, on), 0, "{name} on {on}");
        }
        for (name, on) in [
            ("archive", "tokio"),
            ("archive", "serde_json"),
            ("mover", "hyper"),
            ("kist", "axum"),
            ("catalogue", "heed"),
            ("scheduler", "serde"),
            ("archive", "quick-xml"),
        ] {
            assert_eq!(outside(name, on), 1, "{name} on {on}");
        }
    }

    #[test]
    fn faults_stay_in_tests() {
        let asking = |kind| Dependency { kind, features: vec!["faults".to_owned()], ..ours("library") };
        assert!(check_faults(&[package("archive", vec![asking(DependencyKind::Dev)])]).is_empty());
        assert_eq!(check_faults(&[package("archive", vec![asking(DependencyKind::Normal)])]).len(), 1);
        assert_eq!(check_faults(&[package("archive", vec![asking(DependencyKind::Build)])]).len(), 1);
        let with = |name: &str, feature: &str, on: &[&str]| Package {
            features: vec![(feature.to_owned(), on.iter().map(ToString::to_string).collect())],
            ..package(name, vec![])
        };
        assert!(check_faults(&[with("library", "faults", &[])]).is_empty());
        assert_eq!(check_faults(&[with("library", "default", &["faults"])]).len(), 1);
        assert_eq!(check_faults(&[with("kist", "test", &["library/faults"])]).len(), 1);
        assert_eq!(check_faults(&[with("kist", "test", &["library?/faults"])]).len(), 1);
    }

    #[test]
    fn what_is_used_is_explained() {
        let packages = [package("base", vec![Dependency { is_ours: false, ..ours("blake3") }])];
        assert!(undocumented(&packages, "| `blake3` | hashes |").is_empty());
        assert_eq!(undocumented(&packages, "| blake3 | hashes |").len(), 1);
    }
}
