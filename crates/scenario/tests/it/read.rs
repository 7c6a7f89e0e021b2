//! Scenario files as texts: what they become, and what is said of those that cannot be.

use base::{ByteCount, Duration};
use scenario::model::{ReadOrder, SizeLaw, WorkloadKind};
use scenario::{Kind, Origin, Scenario, ScenarioError, parse, sites};

const SMALL: &str = include_str!("../../../../examples/twin/small.toml");

fn no_file(name: &str) -> Result<String, String> {
    Err(format!("there is no file {name} in this test"))
}

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    parse("test.toml", text, &no_file)
}

/// The smallest scenario that there is.
const LEAST: &str = r#"title = "least"
[run]
span = "1d"
[library.main]
drives = { model = "LTO-8", count = 3 }
[tape_pool.a]
[class.data]
sizes = "1GB"
copies = ["a"]
[holding.old]
class = "data"
files = 1000
[pool]
capacity = "10TB"
"#;

#[test]
fn the_small_example_becomes_models() {
    let found = read(SMALL).unwrap();
    let names: Vec<&str> = found.variants.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["2 drives", "4 drives"]);
    let [two, four] = &found.variants[..] else { panic!("two variants") };
    assert_eq!((two.site.libraries[0].drives[0].count, four.site.libraries[0].drives[0].count), (2, 4));
    assert_eq!(two.seeds, [1, 2, 3]);
    assert_eq!((two.span, two.step), (Duration::from_secs(7 * 86_400), Duration::from_secs(1_800)));
    let pools: Vec<&str> = two.site.tape_pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools, ["a", "b"]);
    assert_eq!(two.site.classes[0].copies, [0, 1]);
    assert_eq!(two.site.libraries[0].drives[0].timing, mechanics::timing("LTO-8").unwrap());
    let held = two.site.holdings[0].files as f64;
    assert!((held / 150_000.0 - 1.0).abs() < 0.02, "{held} files of 2 GB are 300 TB");
    let loads: Vec<&str> = two.workloads.iter().map(|load| load.name.as_str()).collect();
    assert_eq!(loads, ["ingest", "users", "campaign"], "in the order of the file");
    let WorkloadKind::Ingest { arrivals, .. } = &two.workloads[0].kind else { panic!("ingest") };
    assert!((arrivals.per_day / 1_000.0 - 1.0).abs() < 0.02, "{}", arrivals.per_day);
    assert_eq!(arrivals.day_swing_percent, 50);
    // Whatever else is the same in both.
    let mut changed = four.clone();
    changed.name.clone_from(&two.name);
    changed.site.libraries[0].drives[0].count = 2;
    assert_eq!(changed, *two);
    assert!(two.site.classes[0].sizes.mean() > 1e9);
}

#[test]
fn what_is_not_said_is_as_the_server_has_it() {
    let model = read(LEAST).unwrap().variants.remove(0);
    assert_eq!(model.name, scenario::BASE);
    assert_eq!(model.policy.recall_age, Duration::from_secs(15));
    assert_eq!(model.policy.recall_bytes, ByteCount::gib(100));
    assert_eq!(model.policy.starvation, scheduler::STARVATION);
    assert_eq!(model.policy.tape_pools.values().next().unwrap().mount_bytes, ByteCount::gib(100));
    assert_eq!(model.site.classes[0].sizes, SizeLaw::Fixed(1_000_000_000));
    assert_eq!(model.seeds, [1]);
    assert_eq!(model.warm_up, None);
    assert_eq!((model.site.pool.high_water_percent, model.site.pool.write_factor), (90, 1.5));
}

#[test]
fn a_variant_overrides_removes_and_replaces() {
    let text = format!(
        "{LEAST}{}",
        r#"
[tape]
recall_files = 7
[foreign]
order = "window"
window = 4000
[workload.one]
kind = "campaign"
class = "data"
window = 10
[variant.a]
[variant.b]
tape.recall_files = "none"
foreign = { order = "block", window = "none" }
[variant.b.workload.one]
kind = "users"
class = "data"
per_day = 3.5
[variant.c]
workload.one = "none"
tape.recall_age = "1h"
"#
    );
    let found = read(&text).unwrap();
    let [a, b, c] = &found.variants[..] else { panic!("three") };
    assert_eq!((a.policy.recall_files, b.policy.recall_files, c.policy.recall_files), (7, u64::MAX, 7));
    assert_eq!((a.foreign.order, b.foreign.order), (ReadOrder::Window(4000), ReadOrder::Block));
    assert!(matches!(a.workloads[0].kind, WorkloadKind::Campaign { window: 10, .. }));
    assert!(matches!(&b.workloads[0].kind, WorkloadKind::Users { arrivals, .. } if arrivals.per_day == 3.5));
    assert!(c.workloads.is_empty());
    assert_eq!(c.policy.recall_age, Duration::from_secs(3600));
    let error = found.variant("bb").unwrap_err().to_string();
    assert!(error.contains("did you mean 'b'"), "{error}");
    assert_eq!(found.variant("b").unwrap(), b);
}

#[test]
fn a_site_lies_below_the_scenario_and_says_where_its_figures_are_from() {
    let site = r#"
title = "ours"
[library.main]
drives = { model = "LTO-8", count = 3, load = "20s" }
scratch = 5
[pool]
capacity = "10TB"
[provenance]
library = { kind = "published", source = "a paper" }
library.main.drives.load = { kind = "fitted", source = "GK-tape10" }
"#
    // TOML cannot have both a value and what is below it: the second is written in quotes.
    .replace("library.main.drives.load = {", "\"library.main.drives.load\" = {");
    let text = r#"
title = "theirs"
site = "./ours.toml"
run.span = "1d"
library.main.drives.count = 9
[tape_pool.a]
[class.data]
sizes = "1GB"
copies = ["a"]
"#;
    let resolve = |name: &str| if name == "./ours.toml" { Ok(site.clone()) } else { no_file(name) };
    let found = parse("test.toml", text, &resolve).unwrap();
    assert_eq!((found.title.as_str(), found.site_title.as_str()), ("theirs", "ours"));
    assert_eq!(found.missing_provenance, ["pool.capacity"]);
    let drives = &found.variants[0].site.libraries[0].drives[0];
    assert_eq!((drives.count, drives.timing.load_us), (9, 20_000_000));
    let origin = |path: &str| {
        let key = found.keys[0].iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path}"));
        (key.value.clone(), key.origin.clone(), key.source.clone())
    };
    let fitted = (Origin::Site(Some(Kind::Fitted)), "GK-tape10".to_owned());
    assert_eq!(origin("library.main.drives.load"), ("\"20s\"".to_owned(), fitted.0, fitted.1));
    assert_eq!(origin("library.main.drives.count").1, Origin::Scenario);
    assert_eq!(origin("library.main.drives.model").1, Origin::Site(Some(Kind::Published)));
    assert_eq!(origin("pool.capacity").1, Origin::Site(None));
    assert_eq!(origin("tape.recall_age").0, "\"15s\"");
    assert_eq!(origin("tape.recall_age").1, Origin::Default);
    let times = found.keys[0].iter().filter(|key| key.path.ends_with("drives.count")).count();
    assert_eq!(times, 1, "a key is listed once");
    let error = parse("test.toml", text, &no_file).unwrap_err().to_string();
    assert!(error.contains("test.toml:3: site: './ours.toml': there is no file"), "{error}");
}

#[test]
fn the_built_in_sites_say_where_everything_is_from() {
    assert!(!sites().is_empty());
    for site in sites() {
        let text = format!("title = 'x'\nsite = '{}'\n[run]\nspan = '1d'\n", site.name);
        let found = read(&text).unwrap_or_else(|error| panic!("{}: {error}", site.name));
        assert_eq!(found.missing_provenance, Vec::<String>::new(), "{}", site.name);
        assert!(!found.site_title.is_empty() && !found.provenance.is_empty());
    }
}
