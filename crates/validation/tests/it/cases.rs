//! Every published case, predicted from the frozen site files, with the first seed of each scenario.

use report::outcome::Outcome;
use scenario::{self, Scenario};
use validation::{Case, Tolerance, cases, judge};

fn parsed(case: &Case) -> Option<Scenario> {
    let parsed = scenario::parse(case.name, case.scenario?, &|name| Err(format!("no site is called {name}")));
    Some(parsed.unwrap_or_else(|error| panic!("{}: {error}", case.name)))
}

fn check(name: &str) {
    let case = cases().into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let mut runs: Vec<(String, Vec<Outcome>)> = Vec::new();
    if let Some(scenario) = parsed(case) {
        for model in &scenario.variants {
            runs.push((model.name.clone(), vec![twin::run(model, model.seeds[0])]));
        }
    }
    let result = judge(case, &runs);
    let missed: Vec<_> = result.rows.iter().filter(|row| !row.pass).collect();
    assert!(result.pass(), "{name}: {missed:#?}, {:?}", result.trouble);
}

macro_rules! cases {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            check($name);
        })*
    };
}

cases! {
    gridka_queue: "GK-queue",
    gridka_duplicates: "GK-dup",
    gridka_ten_tapes: "GK-tape10",
    gridka_six_tapes: "GK-tape6",
    gridka_small_files_written: "GK-small-write",
    gridka_small_files_read: "GK-small-read",
    sdsc_1998: "SDSC-1998",
    sdsc_100: "SDSC-100",
    kit_drive: "KIT-drive",
    kit_cache: "KIT-cache",
    kit_systems: "KIT-systems",
    kisti: "KISTI",
}

#[test]
fn every_case_is_tested() {
    let names: Vec<&str> = cases().into_iter().map(|case| case.name).collect();
    assert_eq!(names, TESTED);
}

#[test]
fn a_case_uses_a_frozen_site_whose_figures_all_say_where_they_are_from() {
    for case in cases() {
        let Some(scenario) = parsed(case) else { continue };
        assert_eq!(scenario.site.as_deref(), Some(case.site), "{}", case.name);
        assert_eq!(scenario.missing_provenance, Vec::<String>::new(), "{}", case.name);
    }
}

/// The overhead of each file was fitted on GK-tape10; without it neither case is predicted.
#[test]
fn without_what_was_fitted_the_prediction_fails() {
    let case = cases().into_iter().find(|case| case.name == "GK-tape6").unwrap();
    let mut model = parsed(case).unwrap().variants[0].clone();
    model.site.path.read_file = std::time::Duration::ZERO;
    let outcome = twin::run(&model, 1);
    assert!(!judge(case, &[(model.name.clone(), vec![outcome])]).pass());
}

#[test]
fn a_case_without_runs_or_with_a_violation_fails() {
    let case = cases().into_iter().find(|case| case.name == "GK-tape6").unwrap();
    assert!(!judge(case, &[]).pass(), "nothing was predicted");
    let model = parsed(case).unwrap().variants[0].clone();
    let mut outcome = twin::run(&model, 1);
    assert!(judge(case, &[(model.name.clone(), vec![outcome.clone()])]).pass());
    outcome.violation = Some("a file was lost".to_owned());
    assert!(!judge(case, &[(model.name.clone(), vec![outcome])]).pass());
}

#[test]
fn tolerances_are_kept_to_the_edge() {
    let admits = |tolerance: Tolerance, predicted| tolerance.admits(100.0, predicted);
    assert!(admits(Tolerance::Percent(10.0), 110.0) && !admits(Tolerance::Percent(10.0), 110.1));
    assert!(admits(Tolerance::Percent(10.0), 90.0) && !admits(Tolerance::Percent(10.0), 89.9));
    assert!(admits(Tolerance::Absolute(1.0), 99.0) && !admits(Tolerance::Absolute(1.0), 98.9));
    assert!(admits(Tolerance::Range(72.0, 88.0), 72.0) && !admits(Tolerance::Range(72.0, 88.0), 88.1));
    assert!(admits(Tolerance::AtLeast(1.5), 1.5) && !admits(Tolerance::AtLeast(1.5), 1.4));
}
